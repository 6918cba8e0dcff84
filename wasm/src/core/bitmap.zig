//! Packed bits, least significant first: validity (bit set = valid), bool values, selections.
//!
//! A bitmap of n bits is `size(n)` bytes; bits past n in the last byte are unspecified unless a
//! function says otherwise, so every count and reduction masks the tail. Columns in linear memory
//! are padded, yet functions here touch only the bytes that hold their bits: they are also used on
//! bytes from outside.
const std = @import("std");
const assert = std.debug.assert;

pub fn size(bit_count: u64) usize {
    return @intCast((bit_count + 7) / 8);
}

pub inline fn get(bits: [*]const u8, index: usize) bool {
    return (bits[index >> 3] >> @intCast(index & 7)) & 1 != 0;
}

pub inline fn set(bits: [*]u8, index: usize) void {
    bits[index >> 3] |= @as(u8, 1) << @intCast(index & 7);
}

pub inline fn clear(bits: [*]u8, index: usize) void {
    bits[index >> 3] &= ~(@as(u8, 1) << @intCast(index & 7));
}

/// Mask of the bits in use in the last byte: 0xFF when it is full.
pub fn tail_mask(bit_count: usize) u8 {
    const used = bit_count & 7;
    return if (used == 0) 0xFF else (@as(u8, 1) << @intCast(used)) - 1;
}

/// Set bits among the first `bit_count`.
pub fn count(bits: []const u8, bit_count: usize) usize {
    assert(bits.len >= size(bit_count));
    var total: usize = 0;
    var position: usize = 0;
    const full = bit_count / 8;
    while (position + 8 <= full) : (position += 8) {
        total += @popCount(std.mem.readInt(u64, bits[position..][0..8], .little));
    }
    while (position < full) : (position += 1) total += @popCount(bits[position]);
    if (bit_count & 7 != 0) total += @popCount(bits[full] & tail_mask(bit_count));
    return total;
}

/// True when all of the first `bit_count` bits are set.
pub fn all_set(bits: []const u8, bit_count: usize) bool {
    const full = bit_count / 8;
    for (bits[0..full]) |byte| if (byte != 0xFF) return false;
    const mask = tail_mask(bit_count);
    return bit_count & 7 == 0 or bits[full] & mask == mask;
}

pub fn fill(target: []u8, bit_count: usize, value: bool) void {
    @memset(target[0..size(bit_count)], if (value) 0xFF else 0);
}

pub const Op = enum { @"and", @"or", and_not, or_not };

/// target = a op b, whole bytes (bits past the count come out unspecified). May alias.
pub fn combine(comptime op: Op, target: []u8, a: []const u8, b: []const u8) void {
    assert(target.len <= a.len and target.len <= b.len);
    const V = @Vector(16, u8);
    var i: usize = 0;
    while (i + 16 <= target.len) : (i += 16) {
        target[i..][0..16].* = apply(op, @as(V, a[i..][0..16].*), @as(V, b[i..][0..16].*));
    }
    while (i < target.len) : (i += 1) target[i] = apply(op, a[i], b[i]);
}

inline fn apply(comptime op: Op, x: anytype, y: @TypeOf(x)) @TypeOf(x) {
    return switch (op) {
        .@"and" => x & y,
        .@"or" => x | y,
        .and_not => x & ~y,
        .or_not => x | ~y,
    };
}

/// target = not source, whole bytes. May alias.
pub fn invert(target: []u8, source: []const u8) void {
    assert(target.len <= source.len);
    for (target, source[0..target.len]) |*to, from| to.* = ~from;
}

/// Copies `bit_count` bits from any bit position to any bit position. Other bits of the target
/// keep their values. The ranges do not overlap.
pub fn copy(target: []u8, target_bit: usize, source: []const u8, source_bit: usize, bit_count: usize) void {
    if (bit_count == 0) return;
    assert(target.len >= size(target_bit + bit_count));
    assert(source.len >= size(source_bit + bit_count));
    var done: usize = 0;
    // Up to the target's next byte boundary, then whole bytes, then the rest.
    while (done < bit_count and (target_bit + done) & 7 != 0) : (done += 1) {
        put(target.ptr, target_bit + done, get(source.ptr, source_bit + done));
    }
    const whole = (bit_count - done) / 8;
    const shift: u3 = @intCast((source_bit + done) & 7);
    const from = source[(source_bit + done) / 8 ..];
    const to = target[(target_bit + done) / 8 ..][0..whole];
    if (shift == 0) {
        @memcpy(to, from[0..whole]);
    } else {
        const up: u3 = @intCast(8 - @as(u4, shift));
        for (to, from[0..whole], from[1..][0..whole]) |*byte, low, high| byte.* = low >> shift | high << up;
    }
    done += whole * 8;
    while (done < bit_count) : (done += 1) put(target.ptr, target_bit + done, get(source.ptr, source_bit + done));
}

inline fn put(bits: [*]u8, index: usize, value: bool) void {
    if (value) set(bits, index) else clear(bits, index);
}

/// Sets `bit_count` bits from `bit` on to `value`; the others keep theirs.
pub fn fill_range(target: []u8, bit: usize, bit_count: usize, value: bool) void {
    var index = bit;
    const end = bit + bit_count;
    while (index < end and index & 7 != 0) : (index += 1) put(target.ptr, index, value);
    const whole = (end - index) / 8;
    @memset(target[index / 8 ..][0..whole], if (value) 0xFF else 0);
    index += whole * 8;
    while (index < end) : (index += 1) put(target.ptr, index, value);
}

/// Writes the positions of the set bits to `out`, in order; returns how many.
/// `out` has room for every set bit.
pub fn indices(bits: []const u8, bit_count: usize, out: []u32) usize {
    var found: usize = 0;
    var base: usize = 0;
    const words = bit_count / 64;
    for (0..words) |w| {
        var word = std.mem.readInt(u64, bits[w * 8 ..][0..8], .little);
        if (word == 0xFFFF_FFFF_FFFF_FFFF) {
            for (out[found..][0..64], 0..) |*slot, i| slot.* = @intCast(base + i);
            found += 64;
        } else while (word != 0) : (word &= word - 1) {
            out[found] = @intCast(base + @ctz(word));
            found += 1;
        }
        base += 64;
    }
    while (base < bit_count) : (base += 1) {
        if (get(bits.ptr, base)) {
            out[found] = @intCast(base);
            found += 1;
        }
    }
    return found;
}

/// Where values that lie side by side, one for every set bit, are found by their rows: for each of the
/// chosen `rows` (which rise, and are counted from `base` on) the place of its value, or, where its bit
/// is clear, a cleared bit in `target`, from `first` on. Returns the number of places.
pub fn rank_rows(bits: []const u8, rows: []const u32, base: u32, target: []u8, first: u32, places: []u32) usize {
    var found: usize = 0;
    var index: usize = 0;
    var before: u32 = 0; // values before word `index`
    var i: usize = 0;
    while (i < rows.len) {
        const wanted = (rows[i] - base) / 64;
        while (index < wanted) : (index += 1) before += @popCount(load_word(bits, index));
        const word = load_word(bits, index);
        const word_base = base + 64 * @as(u32, @intCast(index));
        while (i < rows.len and rows[i] - word_base < 64) : (i += 1) {
            const bit = @as(u64, 1) << @intCast(rows[i] - word_base);
            places[found] = before + @popCount(word & (bit - 1));
            if (word & bit != 0) found += 1 else clear(target.ptr, first + i);
        }
    }
    return found;
}

/// Bits 64 × `index` to 64 more, as far as there are any.
inline fn load_word(bits: []const u8, index: usize) u64 {
    const start = index * 8;
    if (start + 8 <= bits.len) return std.mem.readInt(u64, bits[start..][0..8], .little);
    var word: u64 = 0;
    for (bits[@min(start, bits.len)..], 0..) |byte, i| word |= @as(u64, byte) << @intCast(i * 8);
    return word;
}

fn random_bits(random: std.Random, bits: []u8) void {
    switch (random.uintLessThan(u8, 4)) {
        0 => @memset(bits, 0),
        1 => @memset(bits, 0xFF),
        else => random.bytes(bits),
    }
}

test "count, all_set and indices agree with a bit by bit loop" {
    var prng: std.Random.DefaultPrng = .init(1);
    var bits: [40]u8 = undefined;
    var found: [320]u32 = undefined;
    for (0..300) |n| {
        random_bits(prng.random(), &bits);
        var expected: usize = 0;
        for (0..n) |i| {
            if (!get(&bits, i)) continue;
            try std.testing.expect(expected < n);
            expected += 1;
        }
        try std.testing.expectEqual(expected, count(bits[0..size(n)], n));
        try std.testing.expectEqual(expected == n, all_set(bits[0..size(n)], n));
        const many = indices(bits[0..size(n)], n, &found);
        try std.testing.expectEqual(expected, many);
        for (found[0..many]) |i| try std.testing.expect(get(&bits, i));
    }
}

test copy {
    var prng: std.Random.DefaultPrng = .init(2);
    const random = prng.random();
    for (0..2000) |_| {
        var source: [20]u8 = undefined;
        var target: [20]u8 = undefined;
        random_bits(random, &source);
        random_bits(random, &target);
        const before = target;
        const source_bit = random.uintLessThan(usize, 40);
        const target_bit = random.uintLessThan(usize, 40);
        const n = random.uintLessThan(usize, 120);
        copy(&target, target_bit, source[0..size(source_bit + n)], source_bit, n);
        for (0..160) |i| {
            const inside = i >= target_bit and i < target_bit + n;
            const wanted = if (inside) get(&source, source_bit + i - target_bit) else get(&before, i);
            try std.testing.expectEqual(wanted, get(&target, i));
        }
    }
}

test fill_range {
    var bits: [8]u8 = @splat(0);
    fill_range(&bits, 3, 50, true);
    for (0..64) |i| try std.testing.expectEqual(i >= 3 and i < 53, get(&bits, i));
}

test rank_rows {
    var prng: std.Random.DefaultPrng = .init(3);
    const random = prng.random();
    for (0..300) |_| {
        var source: [20]u8 = undefined;
        random_bits(random, &source);
        var rows: [160]u32 = undefined;
        var count_rows: usize = 0;
        for (0..160) |row| if (random.boolean()) {
            rows[count_rows] = @intCast(row + 7);
            count_rows += 1;
        };
        var target: [21]u8 = @splat(0xFF);
        var places: [160]u32 = undefined;
        const found = rank_rows(&source, rows[0..count_rows], 7, &target, 3, &places);
        var next: usize = 0;
        for (rows[0..count_rows], 0..) |row, i| {
            try std.testing.expectEqual(get(&source, row - 7), get(&target, 3 + i));
            if (!get(&source, row - 7)) continue;
            try std.testing.expectEqual(count(&source, row - 7), places[next]);
            next += 1;
        }
        try std.testing.expectEqual(next, found);
    }
}
