//! Values as the file stores them become values as our columns store them: one function for each
//! `Conversion` of metadata.zig.
//!
//!     narrow        i32                                → i8, i16, u8, u16: the low bytes
//!     widen         i32                                → i64
//!     widen_i128    i32, i64                           → i128
//!     big_endian    two's complement, high byte first  → i64, i128
//!     int96         i64 nanoseconds, u32 Julian day    → i64 microseconds since 1970-01-01
//!     float16       two bytes                          → f16
//!
//! Sources of bytes are readable 64 bytes past their end: a big endian value is loaded as eight
//! bytes whatever its width. Source and target do not overlap.
const std = @import("std");
const interrupt = @import("../../core/interrupt.zig");
const assert = std.debug.assert;

pub const Error = error{InvalidFormat};

/// The writer declared a narrower type: what does not fit it has no meaning, the low bytes are
/// what DuckDB and Arrow take as well.
pub fn narrow(comptime T: type, source: []const i32, target: []T) void {
    comptime assert(@bitSizeOf(T) < 32);
    assert(source.len == target.len);
    const Low = @Int(.unsigned, @bitSizeOf(T));
    for (source, target) |from, *to| to.* = @bitCast(@as(Low, @truncate(@as(u32, @bitCast(from)))));
}

pub fn widen(source: []const i32, target: []i64) void {
    assert(source.len == target.len);
    for (source, target) |from, *to| to.* = from;
}

pub fn widen_i128(comptime S: type, source: []const S, target: []i128) void {
    comptime assert(S == i32 or S == i64);
    assert(source.len == target.len);
    for (source, halves(target)) |from, *to| {
        const low: i64 = from;
        to.* = .{ low, low >> 63 };
    }
}

/// Low and high half of every value. Whole i128 would be taken apart and put together again by
/// 128-bit shifts that the engine does not have.
inline fn halves(target: []i128) [][2]i64 {
    comptime assert(@import("builtin").cpu.arch.endian() == .little);
    return @as([*][2]i64, @ptrCast(target.ptr))[0..target.len];
}

// ------------------------------------------------------------------------------- big endian

const Halves = @Vector(2, i64);
const Bytes = @Vector(16, u8);

/// Reverses the bytes of each half: one shuffle, where a 64-bit byte swap would be fifteen
/// instructions.
inline fn swap_halves(value: Halves) Halves {
    const reversed = [16]i32{ 7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8 };
    return @bitCast(@shuffle(u8, @as(Bytes, @bitCast(value)), undefined, reversed));
}

inline fn load(source: [*]const u8) i64 {
    return @bitCast(source[0..8].*);
}

/// Values of `width` bytes each; width 0 is the value 0. A value that T cannot hold is
/// error.InvalidFormat.
pub fn big_endian_fixed(comptime T: type, source: []const u8, width: usize, target: []T) Error!void {
    comptime assert(T == i64 or T == i128);
    assert(source.len == width * target.len);
    if (width == 0) return @memset(target, 0);
    if (width <= 8) {
        return if (T == i64) short_fixed(source.ptr, width, target) else short_fixed_i128(source.ptr, width, target);
    }
    const fits = if (width <= 16)
        middle_fixed(T, source.ptr, width, target)
    else
        long_fixed(T, source, width, target);
    if (!fits) return out_of_range(T);
}

fn out_of_range(comptime T: type) Error {
    interrupt.describe("a decimal does not fit {d} bits", .{@bitSizeOf(T)});
    return error.InvalidFormat;
}

/// 1 … 8 bytes, two values at a time: the bytes behind a value are shifted out.
noinline fn short_fixed(source: [*]const u8, width: usize, target: []i64) void {
    const shift: u6 = @intCast(64 - 8 * width);
    var from = source;
    var index: usize = 0;
    while (index + 2 <= target.len) : (index += 2) {
        const pair: Halves = .{ load(from), load(from + width) };
        target[index..][0..2].* = swap_halves(pair) >> @splat(shift);
        from += 2 * width;
    }
    if (index < target.len) target[index] = swap_halves(.{ load(from), 0 })[0] >> shift;
}

noinline fn short_fixed_i128(source: [*]const u8, width: usize, target: []i128) void {
    const shift: u6 = @intCast(64 - 8 * width);
    var from = source;
    for (halves(target)) |*to| {
        const low = swap_halves(@splat(load(from))) >> @splat(shift);
        to.* = .{ low[0], low[0] >> 63 };
        from += width;
    }
}

/// 9 … 16 bytes: the low half is the last eight, the high half what is before them.
noinline fn middle_fixed(comptime T: type, source: [*]const u8, width: usize, target: []T) bool {
    const shift: u6 = @intCast(8 * (16 - width));
    var from = source;
    var misfit: i64 = 0;
    if (T == i128) {
        for (halves(target)) |*to| {
            to.* = middle(from, width, shift);
            from += width;
        }
    } else {
        for (target) |*to| {
            const value = middle(from, width, shift);
            misfit |= value[1] ^ (value[0] >> 63);
            to.* = value[0];
            from += width;
        }
    }
    return misfit == 0;
}

inline fn middle(source: [*]const u8, width: usize, shift: u6) [2]i64 {
    const pair = swap_halves(.{ load(source + width - 8), load(source) });
    return .{ pair[0], pair[1] >> shift };
}

/// More than 16 bytes: those before the last 16 may only repeat the sign.
noinline fn long_fixed(comptime T: type, source: []const u8, width: usize, target: []T) bool {
    const extra = width - 16;
    var fits = true;
    for (target, 0..) |*to, index| {
        const value = source[index * width ..][0..width];
        const pair = middle(value.ptr + extra, 16, 0);
        fits = fits and repeats_sign(value[0..extra], pair[1] < 0);
        fits = place(T, pair, to) and fits;
    }
    return fits;
}

fn repeats_sign(bytes: []const u8, negative: bool) bool {
    const sign: u8 = if (negative) 0xFF else 0;
    var differing: u8 = 0;
    for (bytes) |byte| differing |= byte ^ sign;
    return differing == 0;
}

inline fn place(comptime T: type, pair: [2]i64, target: *T) bool {
    if (T == i128) {
        target.* = @bitCast(pair);
        return true;
    }
    target.* = pair[0];
    return pair[1] == pair[0] >> 63;
}

/// Values of any length: value i is `bytes[offsets[i]..offsets[i + 1]]`, no bytes are the value 0.
pub fn big_endian_bytes(comptime T: type, offsets: []const u32, bytes: []const u8, target: []T) Error!void {
    comptime assert(T == i64 or T == i128);
    assert(offsets.len == target.len + 1);
    assert(offsets[target.len] <= bytes.len);
    var fits = true;
    for (offsets[0..target.len], offsets[1..], target) |start, end, *to| {
        assert(start <= end);
        const value = bytes[start..end];
        const pair = decode_bytes(value);
        if (value.len > 16) fits = fits and repeats_sign(value[0 .. value.len - 16], pair[1] < 0);
        fits = place(T, pair, to) and fits;
    }
    if (!fits) return out_of_range(T);
}

/// The last 16 bytes as a number, or all of them if there are fewer.
inline fn decode_bytes(value: []const u8) [2]i64 {
    if (value.len == 0) return .{ 0, 0 };
    if (value.len <= 8) {
        const shift: u6 = @intCast(64 - 8 * value.len);
        const low = swap_halves(@splat(load(value.ptr)))[0] >> shift;
        return .{ low, low >> 63 };
    }
    if (value.len > 16) return middle(value.ptr + value.len - 16, 16, 0);
    return middle(value.ptr, value.len, @intCast(8 * (16 - value.len)));
}

// ------------------------------------------------------------------------- times

pub const int96_size = 12;
const julian_day_of_epoch = 2_440_588;
const day_microseconds = 24 * 60 * 60 * 1_000_000;

/// Days so far away that microseconds do not fit 64 bits wrap around: they are no dates.
pub fn int96(source: []const u8, target: []i64) void {
    assert(source.len == int96_size * target.len);
    for (target, 0..) |*to, index| {
        const value = source[index * int96_size ..][0..int96_size];
        const nanoseconds = std.mem.readInt(i64, value[0..8], .little);
        const day: i64 = std.mem.readInt(u32, value[8..12], .little);
        to.* = (day - julian_day_of_epoch) *% day_microseconds +% @divFloor(nanoseconds, 1000);
    }
}

/// The file's bytes are ours already.
pub fn float16(source: []const u8, target: []f16) void {
    assert(source.len == 2 * target.len);
    @memcpy(std.mem.sliceAsBytes(target), source);
}

// ------------------------------------------------------------------------------------ tests

const testing = std.testing;
const lengths = [_]usize{ 0, 1, 2, 3, 7, 8, 9, 16, 17, 33, 100 };

fn random_values(comptime T: type, random: std.Random, count: usize) ![]T {
    const values = try testing.allocator.alloc(T, count);
    random.bytes(std.mem.sliceAsBytes(values));
    return values;
}

test narrow {
    var prng: std.Random.DefaultPrng = .init(1);
    for (lengths) |length| {
        const source = try random_values(i32, prng.random(), length);
        defer testing.allocator.free(source);
        inline for (.{ i8, i16, u8, u16 }) |T| {
            const target = try testing.allocator.alloc(T, length);
            defer testing.allocator.free(target);
            narrow(T, source, target);
            for (source, target) |from, to| {
                const low = @mod(@as(i64, from), 1 << @bitSizeOf(T));
                try testing.expectEqual(low, @mod(@as(i64, to), 1 << @bitSizeOf(T)));
            }
        }
    }
}

test widen {
    var prng: std.Random.DefaultPrng = .init(2);
    for (lengths) |length| {
        const source = try random_values(i32, prng.random(), length);
        defer testing.allocator.free(source);
        const wide = try testing.allocator.alloc(i64, length);
        defer testing.allocator.free(wide);
        const widest = try testing.allocator.alloc(i128, length);
        defer testing.allocator.free(widest);
        widen(source, wide);
        widen_i128(i32, source, widest);
        for (source, wide, widest) |from, a, b| {
            try testing.expectEqual(@as(i64, from), a);
            try testing.expectEqual(@as(i128, from), b);
        }
        widen_i128(i64, wide, widest);
        for (source, widest) |from, to| try testing.expectEqual(@as(i128, from), to);
    }
    const extremes = [_]i64{ std.math.minInt(i64), std.math.maxInt(i64), -1, 0 };
    var target: [4]i128 = undefined;
    widen_i128(i64, &extremes, &target);
    for (extremes, target) |from, to| try testing.expectEqual(@as(i128, from), to);
}

/// The plain twin: one byte after the other, in 600 bits.
fn scalar_big_endian(comptime T: type, bytes: []const u8) ?T {
    const Wide = i600;
    var value: Wide = if (bytes.len > 0 and bytes[0] >= 0x80) -1 else 0;
    for (bytes) |byte| value = (value << 8) | byte;
    return std.math.cast(T, value);
}

/// Fills values so that about half of the wide ones still fit.
fn random_big_endian(random: std.Random, bytes: []u8) void {
    random.bytes(bytes);
    const kept = random.uintAtMost(usize, @min(bytes.len, 17));
    const sign: u8 = if (random.boolean()) 0xFF else 0;
    @memset(bytes[0 .. bytes.len - kept], sign);
}

fn check_big_endian_fixed(comptime T: type, source: []const u8, width: usize, target: []T) !void {
    var fits = true;
    for (0..target.len) |index| {
        fits = fits and scalar_big_endian(T, source[index * width ..][0..width]) != null;
    }
    if (!fits) return testing.expectError(error.InvalidFormat, big_endian_fixed(T, source, width, target));
    try big_endian_fixed(T, source, width, target);
    for (target, 0..) |value, index| {
        try testing.expectEqual(scalar_big_endian(T, source[index * width ..][0..width]).?, value);
    }
}

test big_endian_fixed {
    var prng: std.Random.DefaultPrng = .init(3);
    const random = prng.random();
    for (0..65) |width| {
        for (0..12) |round| {
            const count = lengths[round % 8];
            const buffer = try testing.allocator.alloc(u8, count * width + 64);
            defer testing.allocator.free(buffer);
            for (0..count) |index| random_big_endian(random, buffer[index * width ..][0..width]);
            inline for (.{ i64, i128 }) |T| {
                const target = try testing.allocator.alloc(T, count);
                defer testing.allocator.free(target);
                try check_big_endian_fixed(T, buffer[0 .. count * width], width, target);
            }
        }
    }
}

test big_endian_bytes {
    var prng: std.Random.DefaultPrng = .init(4);
    const random = prng.random();
    for (0..400) |round| {
        const count = lengths[round % lengths.len];
        const limit: usize = if (round % 3 == 0) 8 else if (round % 3 == 1) 16 else 40;
        var offsets: [101]u32 = undefined;
        var bytes: [100 * 40 + 64]u8 = undefined;
        offsets[0] = random.uintLessThan(u32, 9);
        for (0..count) |index| {
            const size = random.uintAtMost(u32, @intCast(limit));
            offsets[index + 1] = @min(offsets[index] + size, 100 * 40);
            random_big_endian(random, bytes[offsets[index]..offsets[index + 1]]);
        }
        inline for (.{ i64, i128 }) |T| try check_big_endian_bytes(T, offsets[0 .. count + 1], bytes[0 .. 100 * 40]);
    }
}

fn check_big_endian_bytes(comptime T: type, offsets: []const u32, bytes: []const u8) !void {
    var buffer: [100]T = undefined;
    const target = buffer[0 .. offsets.len - 1];
    var fits = true;
    for (offsets[0..target.len], offsets[1..]) |start, end| {
        fits = fits and scalar_big_endian(T, bytes[start..end]) != null;
    }
    if (!fits) return testing.expectError(error.InvalidFormat, big_endian_bytes(T, offsets, bytes, target));
    try big_endian_bytes(T, offsets, bytes, target);
    for (target, offsets[0..target.len], offsets[1..]) |value, start, end| {
        try testing.expectEqual(scalar_big_endian(T, bytes[start..end]).?, value);
    }
}

test int96 {
    var bytes: [5 * int96_size]u8 = undefined;
    const given = [5]struct { i64, u32 }{
        .{ 0, 2_440_588 }, // the epoch
        .{ 86_399_999_999_999, 2_440_587 }, // the nanosecond before
        .{ 3_661_000_001_000, 2_440_589 },
        .{ -1, 2_440_588 },
        .{ std.math.minInt(i64), std.math.maxInt(u32) }, // wraps, does not trap
    };
    for (given, 0..) |value, index| {
        std.mem.writeInt(i64, bytes[index * int96_size ..][0..8], value[0], .little);
        std.mem.writeInt(u32, bytes[index * int96_size + 8 ..][0..4], value[1], .little);
    }
    var target: [5]i64 = undefined;
    int96(&bytes, &target);
    try testing.expectEqualSlices(i64, &.{ 0, -1, 86_400_000_000 + 3_661_000_001, -1 }, target[0..4]);
    const absurd = (@as(i128, std.math.maxInt(u32)) - 2_440_588) * day_microseconds +
        @divFloor(@as(i128, std.math.minInt(i64)), 1000);
    try testing.expectEqual(@as(i64, @truncate(absurd)), target[4]);
}

test float16 {
    var target: [2]f16 = undefined;
    float16(&.{ 0x00, 0x3C, 0x00, 0xC0 }, &target);
    try testing.expectEqualSlices(f16, &.{ 1.0, -2.0 }, &target);
}
