//! FastLanes bit packing: 1024 values, transposed so that vectors of any width unpack them.
//!
//!     words of T bits (8, 16, 32, 64), 1024 / T lanes, T rows, values of `width` bits each
//!
//!              lane 0          lane 1          …
//!     word 0   … r1 r0         … r1 r0             all of lane l's words are one stream of bits, lowest first:
//!     word 1   … r2 r1 (high)  …                   row r takes bits r * width .. (r + 1) * width of it
//!     …                                            word j of lane l lies at j * lanes + l
//!
//!     value i = order[r / 8] * 16 + r % 8 * 128 + l, order = 0 4 2 6 1 5 3 7
//!
//! Lanes of one row are neighbours both in the packed words and in the values, so a row is eight vectors of 128
//! bits whatever T is: load, shift by one count, mask, store. The width is known only when the loop runs: with
//! eight vectors between two looks at it, a loop for every width would be 124 loops and hardly faster.
//!
//! A group of 1024 values takes 128 * width bytes, and nothing behind them is read.
//!
//! Paper: Afroozeh and Boncz, "The FastLanes Compression Layout", VLDB 2023.
const std = @import("std");
const assert = std.debug.assert;

pub const group_size = 1024;

const vectors_per_row = 8;
const order = [8]u16{ 0, 4, 2, 6, 1, 5, 3, 7 };

/// Bytes of a group of values of so many bits.
pub fn packed_size(width: u8) usize {
    return @as(usize, width) * (group_size / 8);
}

/// Where the values of a row begin.
inline fn row_start(row: usize) usize {
    return @as(usize, order[row / 8]) * 16 + row % 8 * 128;
}

inline fn low_bits(comptime T: type, width: u8) T {
    if (width == 0) return 0;
    return @as(T, std.math.maxInt(T)) >> @intCast(@bitSizeOf(T) - width);
}

/// A group of `width` bits a value; `source` is its `packed_size` bytes, `target` may lie at any byte.
pub noinline fn unpack(comptime T: type, source: []const u8, width: u8, target: *align(1) [group_size]T) void {
    const bits = @bitSizeOf(T);
    const lanes = 16 / @sizeOf(T);
    const Vector = @Vector(lanes, T);
    const Shift = std.math.Log2Int(T);
    assert(width <= bits);
    assert(source.len == packed_size(width));
    if (width == 0) return @memset(target, 0);
    const mask: Vector = @splat(low_bits(T, width));
    const words: [*]align(1) const Vector = @ptrCast(source.ptr);
    var bit: usize = 0;
    for (0..bits) |row| {
        const from = words + bit / bits * vectors_per_row;
        const shift: Shift = @intCast(bit % bits);
        const to: [*]align(1) Vector = @ptrCast(target[row_start(row)..].ptr);
        const counts: @Vector(lanes, Shift) = @splat(shift);
        if (@as(usize, shift) + width <= bits) {
            inline for (0..vectors_per_row) |i| to[i] = from[i] >> counts & mask;
        } else {
            // The shift is not 0 here, and the next word is there: the row ends in it.
            const rest: @Vector(lanes, Shift) = @splat(@intCast(bits - @as(usize, shift)));
            inline for (0..vectors_per_row) |i| to[i] = (from[i] >> counts | from[vectors_per_row + i] << rest) & mask;
        }
        bit += width;
    }
}

/// The way back. Values have no more than `width` bits; `target` is `packed_size` bytes.
pub fn pack(comptime T: type, source: *align(1) const [group_size]T, width: u8, target: []u8) void {
    const bits = @bitSizeOf(T);
    const lanes = group_size / bits;
    const Shift = std.math.Log2Int(T);
    assert(width <= bits);
    assert(target.len == packed_size(width));
    @memset(target, 0);
    const words: []align(1) T = @as([*]align(1) T, @ptrCast(target.ptr))[0 .. target.len / @sizeOf(T)];
    for (0..bits) |row| {
        const bit = row * width;
        const word = bit / bits * lanes;
        const shift: Shift = @intCast(bit % bits);
        for (source[row_start(row)..][0..lanes], 0..) |value, lane| {
            assert(value & ~low_bits(T, width) == 0);
            if (width == 0) continue;
            words[word + lane] |= value << shift;
            if (@as(usize, shift) + width <= bits) continue;
            words[word + lanes + lane] |= value >> @intCast(bits - @as(usize, shift));
        }
    }
}

/// Bits that the greatest of the values needs.
pub fn width_of(comptime T: type, values: []align(1) const T) u8 {
    var all: T = 0;
    for (values) |value| all |= value;
    return @bitSizeOf(T) - @as(u8, @clz(all));
}

const testing = std.testing;

/// One value as the layout says it, without vectors.
fn extract(comptime T: type, source: []const u8, width: u8, index: usize) T {
    const bits = @bitSizeOf(T);
    const lanes = group_size / bits;
    var value: T = 0;
    for (0..bits) |row| {
        if (index < row_start(row) or index >= row_start(row) + lanes) continue;
        const lane = index - row_start(row);
        for (0..width) |i| {
            const bit = row * width + i;
            const byte = ((bit / bits) * lanes + lane) * @sizeOf(T) + bit % bits / 8;
            const is_set: T = source[byte] >> @intCast(bit % 8) & 1;
            value |= is_set << @intCast(i);
        }
    }
    return value;
}

fn expect_round_trip(comptime T: type, random: std.Random, width: u8) !void {
    var values: [group_size]T = undefined;
    for (&values) |*value| value.* = random.int(T) & low_bits(T, width);
    const bytes = try testing.allocator.alloc(u8, packed_size(width) + 1);
    defer testing.allocator.free(bytes);
    const place = bytes[1..]; // nothing needs to be aligned
    pack(T, &values, width, place);
    var buffer: [group_size * @sizeOf(T) + 1]u8 = @splat(0xEE);
    const target: *align(1) [group_size]T = @ptrCast(buffer[1..]);
    unpack(T, place, width, target);
    for (values, target) |expected, found| try testing.expectEqual(expected, found);
    for ([_]usize{ 0, 1, 15, 16, 127, 128, 511, 640, 1023 }) |index| {
        try testing.expectEqual(values[index], extract(T, place, width, index));
    }
    try testing.expect(width_of(T, &values) <= width);
}

test unpack {
    var prng: std.Random.DefaultPrng = .init(1024);
    const random = prng.random();
    inline for (.{ u8, u16, u32, u64 }) |T| {
        for (0..@bitSizeOf(T) + 1) |width| try expect_round_trip(T, random, @intCast(width));
    }
}

test "every value has a place of its own" {
    var seen: [group_size]bool = @splat(false);
    for (0..32) |row| for (0..32) |lane| {
        seen[row_start(row) + lane] = true;
    };
    try testing.expect(std.mem.allEqual(bool, &seen, true));
}

test "as Lance packs them" {
    // 0 … 1023 as u16: with 10 bits, rows 0 and 8 are the first two eighths of their lanes' words.
    var values: [group_size]u16 = undefined;
    for (&values, 0..) |*value, i| value.* = @intCast(i);
    var bytes: [packed_size(10)]u8 = undefined;
    pack(u16, &values, 10, &bytes);
    // Lane 3, word 0: row 0 is value 3; row 1, of which six bits are here, is value 131.
    try testing.expectEqual(3 | (131 & 63) << 10, std.mem.readInt(u16, bytes[6..8], .little));
    // Lane 0, word 5: bits 80 to 95, row 8 (value 64, in the tenths 80 to 89), then six bits of row 9 (value 192).
    try testing.expectEqual(64 | (192 & 63) << 10, std.mem.readInt(u16, bytes[5 * 128 ..][0..2], .little));
}

test width_of {
    try testing.expectEqual(0, width_of(u8, &.{ 0, 0 }));
    try testing.expectEqual(3, width_of(u32, &.{ 1, 4, 3 }));
    try testing.expectEqual(64, width_of(u64, &.{ 0, std.math.maxInt(u64) }));
}
