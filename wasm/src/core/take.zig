//! Gathering values, by row index or by bits: the inner loops of collecting filtered, sorted and joined rows.
//!
//! Indices are trusted here (they come from our own bitmaps and sorts) and asserted by callers once
//! per batch: a check per value would double the cost of a gather.
const std = @import("std");
const bitmap = @import("bitmap.zig");
const lanes_module = @import("lanes.zig");
const assert = std.debug.assert;

pub fn take_values(comptime T: type, target: []T, source: []const T, indices: []const u32) void {
    assert(target.len == indices.len);
    for (target, indices) |*to, index| to.* = source.ptr[index];
}

/// Behind the last value that `compress` writes.
pub const compress_slack = 16;

/// The values whose bits are set, side by side; returns how many. Values of a vector are moved together, by
/// a swizzle for each pattern of their bits: where a good part of the rows stays, that takes half as long as
/// writing down their numbers and taking them one by one. `target` is writable `compress_slack` bytes further.
pub fn compress(comptime T: type, target: [*]T, source: []const T, bits: []const u8) usize {
    const step = 16 / @sizeOf(T);
    const low_bits = (1 << step) - 1;
    var written: usize = 0;
    var row: usize = 0;
    while (row + 8 <= source.len) : (row += 8) {
        const mask = bits[row / 8];
        inline for (0..8 / step) |part| {
            const pattern = mask >> (part * step) & low_bits;
            const from: [*]const u8 = @ptrCast(source.ptr + row + part * step);
            const to: [*]u8 = @ptrCast(target + written);
            to[0..16].* = lanes_module.swizzle(lanes_module.load16(from), compress_table(T)[pattern]);
            written += @popCount(pattern);
        }
    }
    while (row < source.len) : (row += 1) {
        target[written] = source[row];
        written += @intFromBool(bitmap.get(bits.ptr, row));
    }
    return written;
}

/// For every pattern of a vector's bits the swizzle that moves its values together.
fn compress_table(comptime T: type) *const [1 << 16 / @sizeOf(T)]@Vector(16, u8) {
    return comptime blk: {
        @setEvalBranchQuota(10_000);
        const step = 16 / @sizeOf(T);
        var table: [1 << step]@Vector(16, u8) = undefined;
        for (&table, 0..) |*places, pattern| {
            var lanes: [16]u8 = @splat(0);
            var next: usize = 0;
            for (0..step) |value| if (pattern >> value & 1 != 0) {
                for (0..@sizeOf(T)) |byte| lanes[next * @sizeOf(T) + byte] = value * @sizeOf(T) + byte;
                next += 1;
            };
            places.* = lanes;
        }
        const final = table;
        break :blk &final;
    };
}

/// Values of any width, as bytes.
pub fn take_fixed(width: usize, target: []u8, source: []const u8, indices: []const u32) void {
    assert(target.len == indices.len * width);
    for (indices, 0..) |index, row| {
        @memcpy(target[row * width ..][0..width], source[index * width ..][0..width]);
    }
}

/// Bits to consecutive bits of `target` from `target_bit` on.
pub fn take_bits(target: []u8, target_bit: usize, source: []const u8, indices: []const u32) void {
    const head = @min(indices.len, (8 - target_bit % 8) % 8);
    take_bits_singly(target, target_bit, source, indices[0..head]);
    const whole = (indices.len - head) / 8;
    const bytes = target[(target_bit + head) / 8 ..][0..whole];
    for (bytes, 0..) |*byte, i| {
        var bits: u8 = 0;
        for (indices[head + i * 8 ..][0..8], 0..) |index, bit|
            bits |= @as(u8, @intFromBool(bitmap.get(source.ptr, index))) << @intCast(bit);
        byte.* = bits;
    }
    take_bits_singly(target, target_bit + head + whole * 8, source, indices[head + whole * 8 ..]);
}

fn take_bits_singly(target: []u8, target_bit: usize, source: []const u8, indices: []const u32) void {
    for (indices, target_bit..) |index, bit| {
        if (bitmap.get(source.ptr, index)) bitmap.set(target.ptr, bit) else bitmap.clear(target.ptr, bit);
    }
}

/// Bytes that the chosen values take together.
pub fn bytes_size(offsets: []const u32, indices: []const u32) u64 {
    var total: u64 = 0;
    for (indices) |index| total += offsets[index + 1] - offsets[index];
    return total;
}

/// Behind the last value of a byte column that `take_bytes` or `copy_short` fills.
pub const bytes_slack = 16;

/// Copies the chosen values one behind the other and writes each one's end, counted from
/// `base`, the bytes that were there before. `target` has 16 bytes to spare behind the last value:
/// short values are copied as vectors, which is several times cheaper than a copy by length.
pub fn take_bytes(
    target: []u8,
    ends: []u32,
    base: u32,
    offsets: []const u32,
    source: []const u8,
    indices: []const u32,
) void {
    var position: usize = 0;
    for (indices, ends) |index, *end| {
        const start = offsets[index];
        const size = offsets[index + 1] - start;
        copy_short(target, position, source, start, size);
        position += size;
        end.* = base + @as(u32, @intCast(position));
    }
    assert(position + 16 <= target.len);
}

/// A copy by length is a call; up to here its price is more than that of some vectors too many.
const short_size_max = 128;

pub inline fn copy_short(target: []u8, position: usize, source: []const u8, start: usize, size: usize) void {
    if (size <= short_size_max and start + size + 16 <= source.len) {
        target[position..][0..16].* = source[start..][0..16].*;
        var done: usize = 16;
        while (done < size) : (done += 16) target[position + done ..][0..16].* = source[start + done ..][0..16].*;
    } else {
        @memcpy(target[position..][0..size], source[start..][0..size]);
    }
}

test take_values {
    const source = [_]i64{ 10, 11, 12, 13 };
    var target: [5]i64 = undefined;
    take_values(i64, &target, &source, &.{ 3, 0, 0, 2, 1 });
    try std.testing.expectEqualSlices(i64, &.{ 13, 10, 10, 12, 11 }, &target);
}

test compress {
    var prng: std.Random.DefaultPrng = .init(9);
    const random = prng.random();
    inline for (.{ u32, u64 }) |T| {
        for (0..200) |round| {
            const count = round * 3 % 70;
            var source: [70]T = undefined;
            for (&source) |*value| value.* = random.int(T);
            var bits: [9]u8 = undefined;
            random.bytes(&bits);
            if (round % 5 == 0) bits = @splat(if (round % 2 == 0) 0xFF else 0);
            var target: [70 + compress_slack / @sizeOf(T)]T = undefined;
            const written = compress(T, &target, source[0..count], &bits);
            var next: usize = 0;
            for (source[0..count], 0..) |value, row| if (bitmap.get(&bits, row)) {
                try std.testing.expectEqual(value, target[next]);
                next += 1;
            };
            try std.testing.expectEqual(next, written);
        }
    }
}

test take_bytes {
    const source = "alphabetagammaand a longer one than sixteen bytes";
    const offsets = [_]u32{ 0, 5, 9, 14, 14, source.len };
    var target: [120]u8 = undefined;
    var ends: [4]u32 = undefined;
    take_bytes(&target, &ends, 100, &offsets, source, &.{ 4, 3, 0, 2 });
    try std.testing.expectEqualSlices(u32, &.{ 135, 135, 140, 145 }, &ends);
    try std.testing.expectEqualStrings("and a longer one than sixteen bytesalphagamma", target[0..45]);
    try std.testing.expectEqual(45, bytes_size(&offsets, &.{ 4, 3, 0, 2 }));
}

test "take_bits from any bit, for any count" {
    var prng: std.Random.DefaultPrng = .init(4);
    const random = prng.random();
    var source: [40]u8 = undefined;
    random.bytes(&source);
    for (0..40) |count| {
        for (0..9) |first| {
            var indices: [40]u32 = undefined;
            for (indices[0..count]) |*index| index.* = random.uintLessThan(u32, 320);
            var target: [8]u8 = undefined;
            random.bytes(&target);
            const before = target;
            take_bits(&target, first, &source, indices[0..count]);
            for (0..64) |bit| {
                const inside = bit >= first and bit < first + count;
                const wanted = if (inside) bitmap.get(&source, indices[bit - first]) else bitmap.get(&before, bit);
                try std.testing.expectEqual(wanted, bitmap.get(&target, bit));
            }
        }
    }
}

test take_bits {
    var target: [3]u8 = @splat(0xFF);
    take_bits(&target, 6, &.{ 0b0000_0101, 0b1 }, &.{ 0, 1, 2, 8, 9, 1 });
    const expected = [_]bool{ true, false, true, true, false, false };
    for (expected, 6..) |wanted, bit| try std.testing.expectEqual(wanted, bitmap.get(&target, bit));
}
