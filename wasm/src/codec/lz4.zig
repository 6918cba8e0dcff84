//! LZ4: raw blocks (Parquet's LZ4_RAW) and what Parquet files call LZ4, which is one of three.
//!
//!     block     sequences of  token | literal length 255* | literals | offset u16 | match length 255*
//!               token = literals << 4 | match length - 4; nibble 15 continues in bytes until one
//!               is not 255. The last sequence stops after its literals.
//!     Hadoop    (size of output u32 BE, then blocks (size u32 BE, block) until that much came out)*
//!     frame     magic 184D2204 | FLG BD [content size u64] [dictionary u32] HC
//!               | (size u32, top bit: stored; bytes; [XXH32])* | 0 u32 | [XXH32 of the content]
//!
//! Both slices have 64 bytes of slack behind them (`slack_bytes`), so copies go 16 bytes at a time
//! and run over. Invariants of the hot loop: `from` is at most `source_end + 16` when loaded from,
//! `at` is at most `target_end` when a copy begins or the copy is at most 48 bytes long, and an
//! offset never reaches below `base`.
//!
//! Spec: github.com/lz4/lz4/doc, lz4_Block_format.md and lz4_Frame_format.md; XXH32 from the
//! xxHash specification.
const std = @import("std");
const builtin = @import("builtin");
const assert = std.debug.assert;
const interrupt = @import("../core/interrupt.zig");

pub const Error = error{ InvalidFormat, NotSupported, Cancelled };

/// What a caller leaves readable behind the source, and writable behind the target.
pub const slack_bytes = 64;

/// Output between two looks at the cancel byte.
const stride_bytes = 128 * 1024;

/// One raw block that fills the target and uses up the source.
pub fn decompress(source: []const u8, target: []u8) Error!void {
    const size = try decompress_block(source, target, 0, target.len);
    if (size != target.len) return fail("LZ4 block ends after {d} of {d} bytes", .{ size, target.len }, source.len);
}

/// The three things that writers have put under Parquet's codec LZ4. None can pass for another:
///  - a frame has its magic and the version bits behind it; read as Hadoop framing, those would
///    announce a block of over a gigabyte for an output of 69 megabytes;
///  - Hadoop framing starts with a size in big endian, so with a byte below 0x10 if that is below
///    256 MiB; a raw block that starts so has a match before there is anything to match.
/// Only outputs beyond 256 MiB are ambiguous: there the framing is tried, then the block.
pub fn decompress_legacy(source: []const u8, target: []u8) Error!void {
    if (is_frame(source)) return decompress_frames(source, target);
    if (is_hadoop(source, target.len)) {
        if (decompress_hadoop(source, target)) |_| return else |err| switch (err) {
            error.InvalidFormat => if (source[0] < 0x10) return err,
            else => return err,
        }
    }
    return decompress(source, target);
}

fn fail(comptime reason: []const u8, arguments: anytype, offset: usize) error{InvalidFormat} {
    @branchHint(.cold);
    interrupt.describe(reason, arguments);
    interrupt.describe_offset(offset);
    return error.InvalidFormat;
}

// Hadoop framing.

fn is_hadoop(source: []const u8, target_size: usize) bool {
    if (source.len < 4) return false;
    return std.mem.readInt(u32, source[0..4], .big) <= target_size;
}

fn decompress_hadoop(source: []const u8, target: []u8) Error!void {
    var from: usize = 0;
    var at: usize = 0;
    while (from < source.len) {
        const size = try read_size(source, &from);
        if (size > target.len - at)
            return fail("LZ4 chunk of {d} bytes where {d} are left", .{ size, target.len - at }, from);
        const stop = at + size;
        // For an empty page, some write a block without output, some nothing.
        if (size == 0 and at == target.len and from < source.len)
            _ = try decompress_hadoop_block(source, &from, target, at, stop);
        while (at < stop) {
            const start = at;
            at = try decompress_hadoop_block(source, &from, target, at, stop);
            if (at == start) return fail("empty LZ4 block", .{}, from);
        }
    }
    if (at != target.len) return fail("LZ4 chunks end after {d} of {d} bytes", .{ at, target.len }, source.len);
}

fn decompress_hadoop_block(source: []const u8, from: *usize, target: []u8, at: usize, stop: usize) Error!usize {
    const size = try read_size(source, from);
    if (size > source.len - from.*) return fail("LZ4 block of {d} bytes is cut short", .{size}, from.*);
    if (size == 0) return at;
    defer from.* += size;
    return decompress_block(source[from.*..][0..size], target, at, stop);
}

fn read_size(source: []const u8, from: *usize) Error!usize {
    if (source.len - from.* < 4) return fail("LZ4 framing is cut short", .{}, from.*);
    defer from.* += 4;
    return std.mem.readInt(u32, source[from.*..][0..4], .big);
}

// LZ4 frames.

const frame_magic = 0x184D2204;
/// Sixteen magics of frames that readers skip: 184D2A50 to 184D2A5F.
const skippable_magic = 0x184D2A50;

const FrameFlags = packed struct(u8) {
    dictionary: bool,
    reserved: bool,
    content_checksum: bool,
    content_size: bool,
    block_checksum: bool,
    blocks_independent: bool,
    version: u2,
};

fn is_frame(source: []const u8) bool {
    if (source.len < 5 or read_u32(source, 0) != frame_magic) return false;
    return @as(FrameFlags, @bitCast(source[4])).version == 1;
}

fn read_u32(source: []const u8, from: usize) u32 {
    return std.mem.readInt(u32, source[from..][0..4], .little);
}

fn decompress_frames(source: []const u8, target: []u8) Error!void {
    var from: usize = 0;
    var at: usize = 0;
    while (from < source.len) {
        if (is_frame(source[from..])) {
            try decompress_frame(source, &from, target, &at);
        } else try skip_frame(source, &from);
    }
    if (at != target.len) return fail("LZ4 frames end after {d} of {d} bytes", .{ at, target.len }, source.len);
}

fn skip_frame(source: []const u8, from: *usize) Error!void {
    const start = from.*;
    if (source.len - start < 8 or read_u32(source, start) & ~@as(u32, 15) != skippable_magic)
        return fail("not an LZ4 frame", .{}, start);
    const size = read_u32(source, start + 4);
    if (size > source.len - start - 8) return fail("LZ4 frame is cut short", .{}, start);
    from.* = start + 8 + size;
}

fn decompress_frame(source: []const u8, from: *usize, target: []u8, at: *usize) Error!void {
    const base = at.*;
    const flags = try read_frame_header(source, from);
    while (true) {
        const size = try read_frame_u32(source, from);
        if (size == 0) break;
        try decompress_frame_block(source, from, target, at, .{
            .size = size,
            .base = if (flags.blocks_independent) at.* else base,
            .checksum = flags.block_checksum,
        });
    }
    if (!flags.content_checksum) return;
    const checksum = try read_frame_u32(source, from);
    if (checksum != try xxh32(target[base..at.*])) return fail("LZ4 frame: wrong checksum", .{}, from.* - 4);
}

fn read_frame_u32(source: []const u8, from: *usize) Error!u32 {
    if (source.len - from.* < 4) return fail("LZ4 frame is cut short", .{}, from.*);
    defer from.* += 4;
    return read_u32(source, from.*);
}

/// The content size is left unread: the caller knows the size of the whole already.
fn read_frame_header(source: []const u8, from: *usize) Error!FrameFlags {
    const start = from.* + 4;
    const flags: FrameFlags = @bitCast(source[start]);
    if (flags.reserved) return fail("LZ4 frame: unknown flag", .{}, start);
    const checksum_at = start + 2 + @as(usize, if (flags.content_size) 8 else 0) +
        @as(usize, if (flags.dictionary) 4 else 0);
    if (checksum_at >= source.len) return fail("LZ4 frame is cut short", .{}, start);
    const checksum: u8 = @truncate(try xxh32(source[start..checksum_at]) >> 8);
    if (source[checksum_at] != checksum) return fail("LZ4 frame: wrong header checksum", .{}, checksum_at);
    if (flags.dictionary) {
        interrupt.describe("LZ4 frame with a dictionary", .{});
        return error.NotSupported;
    }
    from.* = checksum_at + 1;
    return flags;
}

const FrameBlock = struct { size: u32, base: usize, checksum: bool };

fn decompress_frame_block(source: []const u8, from: *usize, target: []u8, at: *usize, block: FrameBlock) Error!void {
    const size = block.size & 0x7FFF_FFFF;
    if (size > source.len - from.*) return fail("LZ4 frame is cut short", .{}, from.*);
    const bytes = source[from.*..][0..size];
    if (block.size != size) {
        if (size > target.len - at.*) return fail("LZ4 frame holds more than {d} bytes", .{target.len}, from.*);
        try copy_long(@intFromPtr(target.ptr) + at.*, @intFromPtr(bytes.ptr), size);
        at.* += size;
    } else at.* = try decompress_block_from(bytes, target, block.base, at.*, target.len);
    from.* += size;
    if (!block.checksum) return;
    const checksum = try read_frame_u32(source, from);
    if (checksum != try xxh32(bytes)) return fail("LZ4 block: wrong checksum", .{}, from.* - 4);
}

const prime_1: u32 = 0x9E3779B1;
const prime_2: u32 = 0x85EBCA77;
const prime_3: u32 = 0xC2B2AE3D;
const prime_4: u32 = 0x27D4EB2F;
const prime_5: u32 = 0x165667B1;

/// XXH32 with seed 0.
fn xxh32(bytes: []const u8) Error!u32 {
    var from: usize = 0;
    var hash: u32 = prime_5;
    if (bytes.len >= 16) {
        var lanes: @Vector(4, u32) = .{ prime_1 +% prime_2, prime_2, 0, @as(u32, 0) -% prime_1 };
        while (bytes.len - from >= 16) : (from += 16) {
            if (from % stride_bytes == 0) try interrupt.check();
            lanes +%= @as(@Vector(4, u32), @bitCast(bytes[from..][0..16].*)) *% @as(@Vector(4, u32), @splat(prime_2));
            lanes = std.math.rotl(@Vector(4, u32), lanes, 13) *% @as(@Vector(4, u32), @splat(prime_1));
        }
        hash = std.math.rotl(u32, lanes[0], 1) +% std.math.rotl(u32, lanes[1], 7) +%
            std.math.rotl(u32, lanes[2], 12) +% std.math.rotl(u32, lanes[3], 18);
    }
    hash +%= @as(u32, @truncate(bytes.len));
    while (bytes.len - from >= 4) : (from += 4)
        hash = std.math.rotl(u32, hash +% read_u32(bytes, from) *% prime_3, 17) *% prime_4;
    while (from < bytes.len) : (from += 1)
        hash = std.math.rotl(u32, hash +% bytes[from] *% prime_5, 11) *% prime_1;
    hash = (hash ^ hash >> 15) *% prime_2;
    hash = (hash ^ hash >> 13) *% prime_3;
    return hash ^ hash >> 16;
}

// Blocks.

/// A block of its own into target[start..limit]; returns where its output ends.
fn decompress_block(source: []const u8, target: []u8, start: usize, limit: usize) Error!usize {
    return decompress_block_from(source, target, start, start, limit);
}

/// A block into target[start..limit] whose matches may reach back to target[base].
fn decompress_block_from(source: []const u8, target: []u8, base: usize, start: usize, limit: usize) Error!usize {
    assert(base <= start and start <= limit and limit <= target.len);
    const source_start = @intFromPtr(source.ptr);
    const target_start = @intFromPtr(target.ptr);
    var place: Place = .{ .from = source_start, .at = target_start + start };
    const bounds: Bounds = .{
        .source_end = source_start + source.len,
        .base = target_start + base,
        .target_end = target_start + limit,
    };
    while (true) {
        try interrupt.check();
        const stop = decode_short_sequences(&place, bounds, @min(bounds.target_end, place.at +| stride_bytes));
        const status = try finish_sequence(&place, bounds, stop);
        const offset = place.from - source_start;
        switch (status) {
            .more => {},
            .end => return place.at - target_start,
            .cut_short => return fail("LZ4 block is cut short", .{}, offset),
            .too_long => return fail("LZ4 block holds more than {d} bytes", .{limit - start}, offset),
            .bad_offset => return fail("LZ4 match reaches before the start", .{}, offset),
        }
    }
}

/// Where decoding is, in addresses; `token` and `offset` belong to the sequence at hand.
const Place = struct { from: usize, at: usize, token: usize = 0, offset: usize = 0 };
const Bounds = struct { source_end: usize, base: usize, target_end: usize };
/// What is left of the sequence at which the hot loop stopped.
const Stop = enum { all, literals, match };
const Status = enum { more, end, cut_short, too_long, bad_offset };

/// Sequences whose lengths take at most one more byte each, while there is room on both sides.
/// A sequence of short literals and a short match that begins at target_end still ends inside the
/// slack: 14 + 32 bytes. It is found out at the next token.
noinline fn decode_short_sequences(place: *Place, bounds: Bounds, limit: usize) Stop {
    const base = bounds.base;
    const source_end = bounds.source_end;
    const target_end = bounds.target_end;
    // Token, 14 literals and an offset end inside the source; so this is not the last sequence.
    const source_last = source_end -| 17;
    var from = place.from;
    var at = place.at;
    var stop: Stop = .all;
    while (from <= source_last and at <= limit) {
        const token = load_u8(from);
        var literals = token >> 4;
        from += 1;
        if (literals < 15) {
            @branchHint(.likely);
            store(at, load(from));
        } else {
            literals += load_u8(from);
            if (literals == 15 + 255 or literals + 3 > source_end - from or at + literals > target_end) {
                place.token = token;
                stop = .literals;
                break;
            }
            from += 1;
            copy_wide(at, from, at + literals);
        }
        from += literals;
        at += literals;
        const offset = load_u16(from);
        from += 2;
        if (offset -% 1 >= at - base) {
            @branchHint(.unlikely);
            place.token = token;
            place.offset = offset;
            stop = .match;
            break;
        }
        var length = (token & 15) + 4;
        if (length < 19 and offset >= 16) {
            @branchHint(.likely);
            store(at, load(at - offset));
            store(at + 16, load(at - offset + 16));
            at += length;
            continue;
        }
        if (length == 19) {
            length += load_u8(from);
            if (length == 19 + 255 or at + length > target_end) {
                place.token = token;
                place.offset = offset;
                stop = .match;
                break;
            }
            from += 1;
        }
        copy_match(at, offset, at + length);
        at += length;
    }
    place.from = from;
    place.at = at;
    return stop;
}

/// One sequence, or the rest of one, of any length and up to the last byte.
noinline fn finish_sequence(place: *Place, bounds: Bounds, stop: Stop) Error!Status {
    if (place.at > bounds.target_end) return .too_long;
    if (stop == .all) {
        if (place.from >= bounds.source_end) return .cut_short;
        place.token = load_u8(place.from);
        place.from += 1;
    }
    if (stop != .match) {
        const status = try finish_literals(place, bounds);
        if (status != .more) return status;
    }
    return finish_match(place, bounds);
}

fn finish_literals(place: *Place, bounds: Bounds) Error!Status {
    var size: u64 = place.token >> 4;
    if (size == 15) size += read_length(place, bounds.source_end) orelse return .cut_short;
    if (size > bounds.source_end - place.from) return .cut_short;
    if (size > bounds.target_end - place.at) return .too_long;
    try copy_long(place.at, place.from, @intCast(size));
    place.from += @intCast(size);
    place.at += @intCast(size);
    if (place.from == bounds.source_end) return .end;
    if (bounds.source_end - place.from < 2) return .cut_short;
    place.offset = load_u16(place.from);
    place.from += 2;
    return .more;
}

fn finish_match(place: *Place, bounds: Bounds) Error!Status {
    if (place.offset -% 1 >= place.at - bounds.base) return .bad_offset;
    var size: u64 = (place.token & 15) + 4;
    if (size == 19) size += read_length(place, bounds.source_end) orelse return .cut_short;
    if (size > bounds.target_end - place.at) return .too_long;
    const stop = place.at + @as(usize, @intCast(size));
    while (place.at < stop) {
        const piece_end = @min(stop, place.at +| stride_bytes);
        copy_match(place.at, place.offset, piece_end);
        place.at = piece_end;
        try interrupt.check();
    }
    return .more;
}

/// The bytes behind a full nibble. 64 bits: no source is long enough to wrap them.
fn read_length(place: *Place, source_end: usize) ?u64 {
    var length: u64 = 0;
    while (place.from < source_end) {
        const byte = load_u8(place.from);
        place.from += 1;
        length += byte;
        if (byte != 255) return length;
    }
    return null;
}

// Copies, by address. snappy.zig and gzip.zig use them too.

pub const Row = @Vector(16, u8);

pub inline fn load_u8(address: usize) usize {
    return @as(*const u8, @ptrFromInt(address)).*;
}

pub inline fn load_u16(address: usize) usize {
    return @as(*align(1) const u16, @ptrFromInt(address)).*;
}

pub inline fn load(address: usize) Row {
    return @as(*align(1) const Row, @ptrFromInt(address)).*;
}

pub inline fn store(address: usize, row: Row) void {
    @as(*align(1) Row, @ptrFromInt(address)).* = row;
}

/// Bytes that do not overlap, at least one row; writes up to 15 bytes past `stop`.
pub inline fn copy_wide(target: usize, source: usize, stop: usize) void {
    var at = target;
    var from = source;
    while (true) {
        store(at, load(from));
        at += 16;
        from += 16;
        if (at >= stop) break;
    }
}

/// Exact, for runs where the wide loop loses. memory.copy is a call to the host: inlined into a
/// hot loop it costs a quarter of its speed even when it never runs, so this stays a function.
pub noinline fn copy_long(target: usize, source: usize, size: usize) interrupt.Error!void {
    var done: usize = 0;
    while (done < size) {
        const piece: usize = @min(size - done, stride_bytes);
        const to: [*]u8 = @ptrFromInt(target + done);
        @memcpy(to[0..piece], @as([*]const u8, @ptrFromInt(source + done)));
        done += piece;
        try interrupt.check();
    }
}

/// Repeats the bytes `offset` back from `target`, which may overlap what is being written; at
/// least one row, up to 15 bytes past `stop`.
pub inline fn copy_match(target: usize, offset: usize, stop: usize) void {
    if (offset >= 16) {
        copy_wide(target, target - offset, stop);
    } else {
        const row = swizzle(load(target - offset), repeat_pattern[offset]);
        const step: usize = repeat_step[offset];
        var at = target;
        while (true) {
            store(at, row);
            at += step;
            if (at >= stop) break;
        }
    }
}

/// For a distance below 16: which byte of the row at that distance goes where, ...
const repeat_pattern: [16]Row = pattern: {
    var rows: [16]Row = undefined;
    for (&rows, 0..) |*row, offset| {
        var bytes: [16]u8 = undefined;
        for (&bytes, 0..) |*byte, index| byte.* = if (offset == 0) 0 else index % offset;
        row.* = bytes;
    }
    break :pattern rows;
};

/// ... and how far the row carries until the pattern starts anew.
const repeat_step: [16]u8 = step: {
    var steps: [16]u8 = undefined;
    for (&steps, 0..) |*step, offset| step.* = if (offset == 0) 16 else 16 - 16 % offset;
    break :step steps;
};

extern fn @"llvm.wasm.swizzle"(Row, Row) Row;

inline fn swizzle(row: Row, pattern: Row) Row {
    if (comptime builtin.cpu.arch.isWasm()) return @"llvm.wasm.swizzle"(row, pattern);
    const bytes: [16]u8 = row;
    const indices: [16]u8 = pattern;
    var result: [16]u8 = undefined;
    for (&result, indices) |*byte, index| byte.* = bytes[index];
    return result;
}

const testing = std.testing;

// Helpers of the tests here, in snappy.zig and in gzip.zig.

const Decoder = fn ([]const u8, []u8) Error!void;

/// A decoder gets copies with the slack it was promised, and canaries behind it.
fn run_guarded(comptime decoder: Decoder, source: []const u8, target_size: usize) !struct { []u8, Error!void } {
    const canary = 0xC5;
    const guarded = try testing.allocator.alloc(u8, source.len + slack_bytes);
    defer testing.allocator.free(guarded);
    @memcpy(guarded[0..source.len], source);
    @memset(guarded[source.len..], 0xFF);
    const target = try testing.allocator.alloc(u8, target_size + slack_bytes + 256);
    errdefer testing.allocator.free(target);
    @memset(target, canary);
    const result = decoder(guarded[0..source.len], target[0..target_size]);
    try testing.expectEqualSlices(u8, source, guarded[0..source.len]);
    try testing.expect(std.mem.allEqual(u8, target[target_size + slack_bytes ..], canary));
    interrupt.forget();
    return .{ target, result };
}

pub fn expect_output(comptime decoder: Decoder, source: []const u8, expected: []const u8) !void {
    const target, const result = try run_guarded(decoder, source, expected.len);
    defer testing.allocator.free(target);
    try result;
    try testing.expectEqualSlices(u8, expected, target[0..expected.len]);
}

pub fn expect_refused(comptime decoder: Decoder, source: []const u8, target_size: usize) !void {
    const target, const result = try run_guarded(decoder, source, target_size);
    defer testing.allocator.free(target);
    try testing.expectError(error.InvalidFormat, result);
}

/// Damaged sources give output or an error, and touch nothing else.
pub fn expect_survival(comptime decoder: Decoder, random: std.Random, source: []const u8, target_size: usize) !void {
    const damaged = try testing.allocator.dupe(u8, source);
    defer testing.allocator.free(damaged);
    for (0..10) |_| {
        damaged[random.uintLessThan(usize, source.len)] = random.int(u8);
        const size = if (random.boolean()) source.len else random.uintAtMost(usize, source.len);
        const target, const result = try run_guarded(decoder, damaged[0..size], target_size);
        defer testing.allocator.free(target);
        result catch |err| try testing.expect(err != error.Cancelled);
    }
}

/// Bytes that grow, on the stack.
pub const TestBytes = struct {
    bytes: [64 * 1024]u8 = undefined,
    len: usize = 0,

    pub fn add(self: *TestBytes, more: []const u8) void {
        @memcpy(self.bytes[self.len..][0..more.len], more);
        self.len += more.len;
    }

    pub fn repeat(self: *TestBytes, offset: usize, length: usize) void {
        for (0..length) |_| self.add(&.{self.bytes[self.len - offset]});
    }

    pub fn insert(self: *TestBytes, first: []const u8) void {
        @memmove(self.bytes[first.len..][0..self.len], self.bytes[0..self.len]);
        @memcpy(self.bytes[0..first.len], first);
        self.len += first.len;
    }

    pub fn slice(self: *const TestBytes) []const u8 {
        return self.bytes[0..self.len];
    }
};

test "decompress: small blocks" {
    try expect_output(decompress, "\x00", "");
    try expect_output(decompress, "\x30abc", "abc");
    try expect_output(decompress, "\x33abc\x03\x00\x10z", "abcabcabcaz");
    try expect_output(decompress, "\x1Fa\x01\x00\x01\x00", "a" ++ @as([20]u8, @splat('a')));
    try expect_output(decompress, "\xF0\x01abcdefghijklmnop", "abcdefghijklmnop");
}

test "decompress: refuses what is cut short, lies or reaches out" {
    const whole = "\x33abc\x03\x00\x1Fz\x01\x00\xFF\x10\x10!"; // 10 + 1 + 290 + 1
    for (0..whole.len) |size| try expect_refused(decompress, whole[0..size], 302);
    for ([_]usize{ 0, 1, 10, 301, 303 }) |size| try expect_refused(decompress, whole, size);
    const z: [291]u8 = @splat('z');
    try expect_output(decompress, whole, "abcabcabca" ++ z ++ "!");
    try expect_refused(decompress, "\x10a\x00\x00\x10b", 6); // offset 0
    try expect_refused(decompress, "\x10a\x02\x00\x10b", 6); // offset before the start
    try expect_refused(decompress, "\x00\x01\x00\x10b", 5);
    const long: [100]u8 = @splat(0xFF);
    try expect_refused(decompress, "\xF0" ++ long, 100); // lengths without an end
    try expect_refused(decompress, "\x1Fa\x01\x00" ++ long, 100);
}

fn write_length(source: *TestBytes, length: usize) void {
    if (length < 15) return;
    var rest = length - 15;
    while (rest >= 255) : (rest -= 255) source.add(&.{255});
    source.add(&.{@intCast(rest)});
}

/// Writes random sequences, and beside them what they stand for.
fn write_random(random: std.Random, source: *TestBytes, expected: *TestBytes, size: usize) void {
    while (true) {
        const literals: usize = switch (random.uintLessThan(u8, 8)) {
            0...5 => random.uintLessThan(usize, 16),
            6 => random.uintLessThan(usize, 300),
            else => random.uintLessThan(usize, 900),
        };
        const match: usize = if (random.boolean()) random.uintLessThan(usize, 20) else random.uintLessThan(usize, 600);
        const is_last = expected.len >= size;
        const count: usize = if (expected.len == 0) @max(literals, 1) else literals;
        const high: u8 = @min(count, 15);
        const low: u8 = if (is_last) 0 else @min(match, 15);
        source.add(&.{high << 4 | low});
        write_length(source, count);
        for (0..count) |_| expected.add(&.{random.int(u8)});
        source.add(expected.slice()[expected.len - count ..]);
        if (is_last) return;
        const reach: usize = if (random.boolean()) 20 else 60_000;
        const offset = random.intRangeAtMost(usize, 1, @min(expected.len, reach));
        source.add(&.{ @truncate(offset), @intCast(offset >> 8) });
        write_length(source, match);
        expected.repeat(offset, match + 4);
    }
}

test "decompress: random sequences, whole and damaged" {
    var generator: std.Random.DefaultPrng = .init(7);
    const random = generator.random();
    var source: TestBytes = .{};
    var expected: TestBytes = .{};
    for ([_]usize{ 0, 1, 15, 16, 17, 64, 100, 1000, 30_000 }) |size| for (0..8) |_| {
        source.len = 0;
        expected.len = 0;
        write_random(random, &source, &expected, size);
        try expect_output(decompress, source.slice(), expected.slice());
        try expect_survival(decompress, random, source.slice(), expected.len);
        // The same through the other door, raw and in Hadoop's framing.
        try expect_output(decompress_legacy, source.slice(), expected.slice());
        var sizes: [8]u8 = undefined;
        std.mem.writeInt(u32, sizes[0..4], @intCast(expected.len), .big);
        std.mem.writeInt(u32, sizes[4..8], @intCast(source.len), .big);
        source.insert(&sizes);
        try expect_output(decompress_legacy, source.slice(), expected.slice());
        try expect_survival(decompress_legacy, random, source.slice(), expected.len);
    };
}

test "decompress_legacy: Hadoop framing" {
    const one = "\x00\x00\x00\x03\x00\x00\x00\x04\x30abc";
    const two_inside = "\x00\x00\x00\x0D\x00\x00\x00\x04\x30abc\x00\x00\x00\x07\x33xyz\x03\x00\x00";
    try expect_output(decompress_legacy, one, "abc");
    try expect_output(decompress_legacy, one ++ one, "abcabc");
    try expect_output(decompress_legacy, two_inside, "abcxyzxyzxyzx");
    try expect_output(decompress_legacy, "\x00\x00\x00\x00", "");
    try expect_output(decompress_legacy, "\x00\x00\x00\x00\x00\x00\x00\x01\x00", "");
    for (0..one.len) |size| try expect_refused(decompress_legacy, one[0..size], 3);
    for ([_]usize{ 0, 2, 4 }) |size| try expect_refused(decompress_legacy, one, size);
    try expect_refused(decompress_legacy, "\x00\x00\x00\x03\x00\x00\x00\x05\x30abc", 3);
    try expect_refused(decompress_legacy, "\x00\x00\x00\x03\x00\x00\x00\x00\x30abc", 3);
    try expect_refused(decompress_legacy, "\x00\x00\x00\x03\xFF\xFF\xFF\xFF\x30abc", 3);
    // A block inside does not see the one before it.
    try expect_refused(decompress_legacy, one ++ "\x00\x00\x00\x04\x00\x00\x00\x04\x00\x03\x00\x00", 7);
}

test "decompress_legacy: frames" {
    const plain = "\x04\x22M\x18`@\x82\x04\x00\x00\x000abc\x00\x00\x00\x00";
    // Every checksum, and a stored block.
    const checked =
        "\x04\x22M\x18|@\x10\x00\x00\x00\x00\x00\x00\x00i\x08\x00\x00\x003abc\x03\x00\x10z" ++
        "\xFB<\x87\xAE\x05\x00\x00\x80hello\xF9w\x00\xFB\x00\x00\x00\x00T\xC5\xD5g";
    const linked = "\x04\x22M\x18@@\xC0\x04\x00\x00\x000abc\x05\x00\x00\x00\x02\x03\x00\x10z\x00\x00\x00\x00";
    const skippable = "\x53\x2A\x4D\x18\x02\x00\x00\x00ab";
    try expect_output(decompress_legacy, plain, "abc");
    try expect_output(decompress_legacy, checked, "abcabcabcazhello");
    try expect_output(decompress_legacy, linked, "abcabcabcz");
    try expect_output(decompress_legacy, plain ++ skippable ++ linked, "abcabcabcabcz");
    for (0..checked.len) |size| try expect_refused(decompress_legacy, checked[0..size], 16);
    for (0..checked.len) |index| {
        var damaged = checked.*;
        damaged[index] ^= 4;
        try expect_refused(decompress_legacy, &damaged, 16);
    }
    for ([_]usize{ 0, 2, 4 }) |size| try expect_refused(decompress_legacy, plain, size);
    try expect_refused(decompress_legacy, plain ++ "more", 3);
    // Blocks said to be independent do not see each other.
    try expect_refused(
        decompress_legacy,
        "\x04\x22M\x18`@\x82\x04\x00\x00\x000abc\x05\x00\x00\x00\x02\x03\x00\x10z\x00\x00\x00\x00",
        10,
    );
    const with_dictionary = "\x04\x22M\x18a@\x09\x00\x00\x00[\x04\x00\x00\x000abc\x00\x00\x00\x00" ++
        @as([slack_bytes]u8, @splat(0));
    var target: [3 + slack_bytes]u8 = undefined;
    try testing.expectError(
        error.NotSupported,
        decompress_legacy(with_dictionary[0 .. with_dictionary.len - slack_bytes], target[0..3]),
    );
}

test xxh32 {
    var bytes: [100]u8 = undefined;
    for (&bytes, 0..) |*byte, index| byte.* = @truncate(index * 37);
    for (0..bytes.len + 1) |size|
        try testing.expectEqual(std.hash.XxHash32.hash(0, bytes[0..size]), try xxh32(bytes[0..size]));
}

test copy_match {
    for (1..40) |offset| for (1..100) |length| {
        var expected: TestBytes = .{};
        for (0..offset) |index| expected.add(&.{@intCast(index)});
        expected.repeat(offset, length);
        var bytes: [offset_length_max]u8 = undefined;
        for (0..offset) |index| bytes[index] = @intCast(index);
        const start = @intFromPtr(&bytes) + offset;
        copy_match(start, offset, start + length);
        try testing.expectEqualSlices(u8, expected.slice(), bytes[0 .. offset + length]);
    };
}

const offset_length_max = 40 + 100 + slack_bytes;

test "decompress: looks at the cancel byte" {
    interrupt.control.cancel = 1;
    defer interrupt.control.cancel = 0;
    var target: [3 + slack_bytes]u8 = undefined;
    const source = "\x30abc" ++ @as([slack_bytes]u8, @splat(0));
    try testing.expectError(error.Cancelled, decompress(source[0..4], target[0..3]));
}
