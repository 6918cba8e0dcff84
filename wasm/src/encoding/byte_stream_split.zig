//! BYTE_STREAM_SPLIT: the first bytes of all values, then all second bytes, and so on.
//!
//!     source   a0 b0 c0 … | a1 b1 c1 … | … | a(w-1) b(w-1) c(w-1) …
//!     target   a0 a1 … a(w-1) b0 b1 … b(w-1) c0 …
//!
//! Decoding is a transposition. Widths that are powers of two up to 16 take sixteen values at a
//! time: interleaving byte i of the first half of the streams with byte i of the second half, as
//! often as the width can be halved, brings the bytes of a value together. Other widths (decimals
//! and binaries of fixed length) copy stream by stream, in blocks that stay in the first cache.
//!
//! There is no header: the page's size says how many values there are.
const std = @import("std");
const interrupt = @import("../core/interrupt.zig");
const assert = std.debug.assert;

pub const Error = error{ InvalidFormat, Cancelled };

const lanes = 16;
const Bytes = @Vector(lanes, u8);

/// Values whose bytes, at the usual widths, fit the first cache while the streams fill them.
const block_values = 256;

/// How many values of `width` bytes the page holds.
pub fn count_values(source: []const u8, width: usize) Error!usize {
    if (width == 0) return if (source.len == 0) 0 else error.InvalidFormat;
    if (source.len % width != 0) {
        interrupt.describe("byte streams of {d} bytes are no whole number of values of {d}", .{ source.len, width });
        return error.InvalidFormat;
    }
    return source.len / width;
}

/// Writes the values from `first` on, as many as `target` takes. The streams are `value_count`
/// bytes long: `count_values` of the page.
pub fn read(source: []const u8, width: usize, value_count: usize, first: usize, target: []u8) Error!void {
    if (width == 0 or target.len == 0) return assert(target.len == 0);
    assert(target.len % width == 0);
    const count = target.len / width;
    if (source.len / width < value_count or first > value_count or count > value_count - first) {
        interrupt.describe(
            "{d} values of {d} bytes were expected, {d} bytes are there",
            .{ first +| count, width, source.len },
        );
        return error.InvalidFormat;
    }
    const streams: Streams = .{ .first = source.ptr + first, .size = value_count };
    switch (width) {
        inline 2, 4, 8, 16 => |w| merge(w, streams, target.ptr, count),
        else => try merge_any(streams, width, target),
    }
}

/// Stream k begins `k * size` bytes after the first one.
const Streams = struct {
    first: [*]const u8,
    size: usize,

    inline fn at(self: Streams, stream: usize, value: usize) [*]const u8 {
        return self.first + stream * self.size + value;
    }
};

noinline fn merge(comptime width: usize, streams: Streams, target: [*]u8, count: usize) void {
    var value: usize = 0;
    while (value + lanes <= count) : (value += lanes) {
        var rows: [width]Bytes = undefined;
        inline for (0..width) |stream| rows[stream] = streams.at(stream, value)[0..lanes].*;
        const merged = interleave(width, rows);
        inline for (0..width) |row| target[(value * width + row * lanes)..][0..lanes].* = merged[row];
    }
    while (value < count) : (value += 1) {
        inline for (0..width) |stream| target[value * width + stream] = streams.at(stream, value)[0];
    }
}

/// Every round pairs row i with row i + width/2, which doubles the run of bytes that belong
/// together; the pair's low half goes before its high half.
inline fn interleave(comptime width: usize, rows: [width]Bytes) [width]Bytes {
    var now = rows;
    comptime var run: usize = 1;
    inline while (run < width) : (run *= 2) {
        var next: [width]Bytes = undefined;
        inline for (0..width / 2) |row| {
            next[2 * row] = @shuffle(u8, now[row], now[row + width / 2], pairs(0));
            next[2 * row + 1] = @shuffle(u8, now[row], now[row + width / 2], pairs(lanes / 2));
        }
        now = next;
    }
    return now;
}

/// Lanes `first`, `first + 1`, … of both vectors in turn.
fn pairs(comptime first: i32) [lanes]i32 {
    var mask: [lanes]i32 = undefined;
    for (0..lanes / 2) |lane| {
        const from: i32 = first + @as(i32, @intCast(lane));
        mask[2 * lane] = from;
        mask[2 * lane + 1] = ~from;
    }
    return mask;
}

fn merge_any(streams: Streams, width: usize, target: []u8) Error!void {
    const count = target.len / width;
    var first: usize = 0;
    while (first < count) : (first += block_values) {
        try interrupt.check();
        const size = @min(block_values, count - first);
        for (0..width) |stream|
            copy_stream(streams.at(stream, first), target.ptr + first * width + stream, width, size);
    }
}

noinline fn copy_stream(source: [*]const u8, target: [*]u8, width: usize, count: usize) void {
    var to = target;
    for (source[0..count]) |byte| {
        to[0] = byte;
        to += width;
    }
}

const testing = std.testing;

test read {
    var prng: std.Random.DefaultPrng = .init(9);
    const random = prng.random();
    for ([_]usize{ 1, 2, 3, 4, 5, 7, 8, 12, 16, 20, 33 }) |width| {
        for ([_]usize{ 0, 1, 15, 16, 17, 40, 300, 515 }) |value_count| {
            const values = try testing.allocator.alloc(u8, width * value_count);
            defer testing.allocator.free(values);
            random.bytes(values);
            const page = try testing.allocator.alloc(u8, values.len + 64);
            defer testing.allocator.free(page);
            for (0..value_count) |value| {
                for (0..width) |stream| page[stream * value_count + value] = values[value * width + stream];
            }
            const source = page[0..values.len];
            try testing.expectEqual(value_count, try count_values(source, width));
            for ([_]usize{ 0, 1, value_count / 3, value_count }) |wanted_first| {
                const first = @min(wanted_first, value_count);
                try expect_read(source, width, value_count, first, values[first * width ..]);
                try expect_read(
                    source,
                    width,
                    value_count,
                    first,
                    values[first * width .. (first + (value_count - first) / 2) * width],
                );
            }
        }
    }
}

/// Nothing but the values is written: the bytes behind stay.
fn expect_read(source: []const u8, width: usize, value_count: usize, first: usize, expected: []const u8) !void {
    const target = try testing.allocator.alloc(u8, expected.len + 64);
    defer testing.allocator.free(target);
    @memset(target, 0xEE);
    try read(source, width, value_count, first, target[0..expected.len]);
    try testing.expectEqualSlices(u8, expected, target[0..expected.len]);
    try testing.expect(std.mem.allEqual(u8, target[expected.len..], 0xEE));
}

test "more values than there are bytes" {
    const page: [80]u8 = @splat(1);
    var target: [80]u8 = undefined;
    try testing.expectError(error.InvalidFormat, count_values(page[0..15], 4));
    try testing.expectError(error.InvalidFormat, count_values(page[0..1], 0));
    try testing.expectEqual(0, try count_values("", 0));
    try testing.expectError(error.InvalidFormat, read(page[0..16], 4, 4, 1, target[0..16]));
    try testing.expectError(error.InvalidFormat, read(page[0..16], 4, 5, 0, target[0..16]));
    try testing.expectError(error.InvalidFormat, read(page[0..16], 4, 4, 5, target[0..4]));
    try testing.expectError(error.InvalidFormat, read(page[0..16], 4, std.math.maxInt(usize), 0, target[0..4]));
    try read(page[0..16], 4, 4, 0, target[0..16]);
    try read(page[0..16], 4, 4, 4, target[0..0]);
}
