//! Snappy blocks, as Parquet stores them: no framing, no checksum.
//!
//!     size of the output, a varint of at most 5 bytes
//!     elements, the kind in the low two bits of their tag:
//!       00  literals: tag >> 2 is length - 1 up to 59; 60 to 63: it follows in 1 to 4 bytes
//!       01  copy: (tag >> 2 & 7) + 4 bytes, offset (tag >> 5) << 8 | next byte
//!       10  copy: (tag >> 2) + 1 bytes, offset u16
//!       11  copy: (tag >> 2) + 1 bytes, offset u32
//!
//! Both slices have 64 bytes of slack behind them, so copies go 16 bytes at a time and run over.
//! Offsets never reach before the target's start.
//!
//! Spec: github.com/google/snappy/format_description.txt
const std = @import("std");
const interrupt = @import("../core/interrupt.zig");
const lz = @import("lz4.zig");

pub const Error = error{ InvalidFormat, NotSupported, Cancelled };

/// Output between two looks at the cancel byte.
const stride_bytes = 128 * 1024;

/// How far from the target's end the hot loop stops.
const hot_room_bytes = 60 + 64 + 16 - lz.slack_bytes;

pub fn decompress(source: []const u8, target: []u8) Error!void {
    var preamble_size: usize = 0;
    const size = read_preamble(source, &preamble_size) orelse
        return fail("Snappy size is cut short or too long", .{}, 0);
    if (size != target.len) return fail("Snappy block of {d} bytes instead of {d}", .{ size, target.len }, 0);
    const source_start = @intFromPtr(source.ptr);
    const target_start = @intFromPtr(target.ptr);
    var place: Place = .{ .from = source_start + preamble_size, .at = target_start };
    const bounds: Bounds = .{
        .source_end = source_start + source.len,
        .base = target_start,
        .target_end = target_start + target.len,
    };
    while (true) {
        try interrupt.check();
        decode_short_elements(&place, bounds, @min(bounds.target_end -| hot_room_bytes, place.at +| stride_bytes));
        const status = try finish_element(&place, bounds);
        const offset = place.from - source_start;
        switch (status) {
            .more => {},
            .end => return,
            .cut_short => return fail("Snappy block is cut short", .{}, offset),
            .too_long => return fail("Snappy block holds more than {d} bytes", .{target.len}, offset),
            .bad_offset => return fail("Snappy copy reaches before the start", .{}, offset),
        }
    }
}

fn fail(comptime reason: []const u8, arguments: anytype, offset: usize) error{InvalidFormat} {
    @branchHint(.cold);
    interrupt.describe(reason, arguments);
    interrupt.describe_offset(offset);
    return error.InvalidFormat;
}

fn read_preamble(source: []const u8, preamble_size: *usize) ?u32 {
    var value: u64 = 0;
    for (source[0..@min(source.len, 5)], 0..) |byte, index| {
        value |= @as(u64, byte & 0x7F) << @intCast(7 * index);
        if (byte & 0x80 == 0) {
            preamble_size.* = index + 1;
            return std.math.cast(u32, value);
        }
    }
    return null;
}

/// Where decoding is, in addresses.
const Place = struct { from: usize, at: usize };
const Bounds = struct { source_end: usize, base: usize, target_end: usize };
const Status = enum { more, end, cut_short, too_long, bad_offset };

/// Elements of at most 64 bytes, while there is room on both sides: a copy, or literals and the
/// copy that nearly always follows them, which the processor then need not guess. The two write at
/// most 60 + 64 + 15 bytes, one less than fit from `limit` to the end of the slack. What is wrong,
/// long or near an end is left for finish_element.
noinline fn decode_short_elements(place: *Place, bounds: Bounds, limit: usize) void {
    const base = bounds.base;
    // A tag, 60 literals, a tag and an offset end inside the source.
    const source_last = bounds.source_end -| 64;
    var from = place.from;
    var at = place.at;
    while (from <= source_last and at < limit) {
        var tag = lz.load_u8(from);
        if (tag & 3 == 0) {
            const length = (tag >> 2) + 1;
            if (length > 60) break;
            lz.store(at, lz.load(from + 1));
            if (length > 16) {
                lz.store(at + 16, lz.load(from + 17));
                if (length > 32) {
                    lz.store(at + 32, lz.load(from + 33));
                    lz.store(at + 48, lz.load(from + 49));
                }
            }
            from += 1 + length;
            at += length;
            tag = lz.load_u8(from);
            if (tag & 3 == 0) continue;
        }
        if (tag & 3 == 3) break;
        const is_far = tag & 2 != 0;
        const word = lz.load_u16(from + 1);
        const length = if (is_far) (tag >> 2) + 1 else (tag >> 2 & 7) + 4;
        const offset = if (is_far) word else (tag >> 5) << 8 | (word & 0xFF);
        const step = (tag & 3) + 1;
        if (offset -% 1 >= at - base) break;
        from += step;
        lz.copy_match(at, offset, at + length);
        at += length;
    }
    place.from = from;
    place.at = at;
}

/// One element of any size, up to the last byte.
noinline fn finish_element(place: *Place, bounds: Bounds) Error!Status {
    if (place.at > bounds.target_end) return .too_long;
    if (place.from == bounds.source_end) return if (place.at == bounds.target_end) .end else .cut_short;
    const tag = lz.load_u8(place.from);
    if (tag & 3 == 0) return finish_literals(place, bounds, tag);
    const offset_size: usize = switch (tag & 3) {
        1 => 1,
        2 => 2,
        else => 4,
    };
    if (bounds.source_end - place.from < 1 + offset_size) return .cut_short;
    const low = read_little(place.from + 1, offset_size);
    const offset = if (tag & 3 == 1) (tag >> 5) << 8 | low else low;
    const length = if (tag & 3 == 1) (tag >> 2 & 7) + 4 else (tag >> 2) + 1;
    if (offset -% 1 >= place.at - bounds.base) return .bad_offset;
    if (length > bounds.target_end - place.at) return .too_long;
    lz.copy_match(place.at, offset, place.at + length);
    place.from += 1 + offset_size;
    place.at += length;
    return .more;
}

fn finish_literals(place: *Place, bounds: Bounds, tag: usize) Error!Status {
    const length_size = (tag >> 2) -| 59;
    if (bounds.source_end - place.from < 1 + length_size) return .cut_short;
    const length = 1 + @as(u64, if (length_size == 0) tag >> 2 else read_little(place.from + 1, length_size));
    const literals = place.from + 1 + length_size;
    if (length > bounds.source_end - literals) return .cut_short;
    if (length > bounds.target_end - place.at) return .too_long;
    try lz.copy_long(place.at, literals, @intCast(length));
    place.from = literals + @as(usize, @intCast(length));
    place.at += @intCast(length);
    return .more;
}

fn read_little(address: usize, size: usize) usize {
    var value: usize = 0;
    for (0..size) |index| value |= lz.load_u8(address + index) << @intCast(8 * index);
    return value;
}

const testing = std.testing;

fn expect_error(source: []const u8, target_size: usize) !void {
    return lz.expect_refused(decompress, source, target_size);
}

test "decompress: each kind of element" {
    try lz.expect_output(decompress, "\x00", "");
    try lz.expect_output(decompress, "\x01\x00a", "a");
    try lz.expect_output(decompress, "\x0A\x00a\x15\x01", "aaaaaaaaaa");
    try lz.expect_output(decompress, "\x07\x08abc\x0E\x03\x00", "abcabca");
    try lz.expect_output(decompress, "\x07\x08abc\x0F\x03\x00\x00\x00", "abcabca");
    try lz.expect_output(decompress, "\x03\xF0\x02abc", "abc");
    try lz.expect_output(decompress, "\x03\xFC\x02\x00\x00\x00abc", "abc");
    try lz.expect_output(decompress, "\x83\x80\x00\x08abc", "abc"); // a size in more bytes than it needs
}

test "decompress: refuses what is cut short, lies or reaches out" {
    const whole = "\x0C\x08abc\x0E\x03\x00\x15\x01\x00z";
    var buffer: [12]u8 = undefined;
    for (0..whole.len) |size| try expect_error(whole[0..size], 12);
    for ([_]usize{ 0, 11, 13 }) |size| try expect_error(whole, size);
    try expect_error(whole ++ "\x00z", 12);
    try expect_error("\x04\x00a\x0A\x00\x00", 4); // offset 0
    try expect_error("\x04\x00a\x0A\x02\x00", 4); // offset before the start
    try expect_error("\x04\x00a\x0B\xFF\xFF\xFF\xFF", 4);
    try expect_error("\x04\xFC\xFF\xFF\xFF\xFFabcd", 4); // 4 GiB of literals
    try expect_error("\x80\x80\x80\x80\x10", 0); // sizes beyond 32 bits
    try expect_error("\x80\x80\x80\x80\x80\x00", 0);
    const slack: [lz.slack_bytes]u8 = @splat(0);
    try testing.expectError(error.InvalidFormat, decompress((whole ++ slack)[0..2], buffer[0..0]));
}

/// Writes random elements, and beside them what they stand for.
fn write_random(random: std.Random, source: *lz.TestBytes, expected: *lz.TestBytes, size: usize) void {
    while (expected.len < size) {
        const start = source.len;
        if (expected.len == 0 or random.boolean()) {
            const length = random.intRangeAtMost(u32, 1, if (random.uintLessThan(u8, 8) == 0) 700 else 70);
            if (length <= 60) source.add(&.{@intCast((length - 1) << 2)}) else {
                source.add(&.{ 61 << 2, @truncate(length - 1), @intCast((length - 1) >> 8) });
            }
            for (0..length) |_| expected.add(&.{random.int(u8)});
            source.add(expected.slice()[expected.len - length ..]);
            continue;
        }
        const reach: usize = if (random.boolean()) 20 else 60_000;
        const offset: u32 = @intCast(random.intRangeAtMost(usize, 1, @min(expected.len, reach)));
        var length = random.intRangeAtMost(u32, 1, 64);
        if (offset < 2048 and random.boolean()) {
            length = random.intRangeAtMost(u32, 4, 11);
            source.add(&.{ @intCast(1 | (length - 4) << 2 | offset >> 8 << 5), @truncate(offset) });
        } else if (random.uintLessThan(u8, 10) != 0) {
            source.add(&.{ @intCast(2 | (length - 1) << 2), @truncate(offset), @intCast(offset >> 8) });
        } else source.add(&.{ @intCast(3 | (length - 1) << 2), @truncate(offset), @intCast(offset >> 8), 0, 0 });
        expected.repeat(offset, length);
        std.debug.assert(source.len > start);
    }
}

test "decompress: random elements, whole and damaged" {
    var generator: std.Random.DefaultPrng = .init(11);
    const random = generator.random();
    var source: lz.TestBytes = .{};
    var expected: lz.TestBytes = .{};
    for ([_]usize{ 1, 15, 16, 17, 60, 64, 76, 77, 100, 1000, 30_000 }) |size| for (0..8) |_| {
        source.len = 0;
        expected.len = 0;
        write_random(random, &source, &expected, size);
        var preamble: [5]u8 = .{ 0, 0x80, 0x80, 0, 0 };
        preamble[0] = @as(u8, @truncate(expected.len)) | 0x80;
        preamble[1] = @as(u8, @truncate(expected.len >> 7)) | 0x80;
        preamble[2] = @intCast(expected.len >> 14);
        source.insert(preamble[0..3]);
        try lz.expect_output(decompress, source.slice(), expected.slice());
        try lz.expect_survival(decompress, random, source.slice(), expected.len);
    };
}

test "decompress: looks at the cancel byte" {
    interrupt.control.cancel = 1;
    defer interrupt.control.cancel = 0;
    var target: [1 + lz.slack_bytes]u8 = undefined;
    try testing.expectError(
        error.Cancelled,
        decompress(("\x01\x00a" ++ @as([lz.slack_bytes]u8, @splat(0)))[0..3], target[0..1]),
    );
}
