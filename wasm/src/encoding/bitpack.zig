//! Packed integers and packed bits, least significant bit first.
//!
//!     width 3:   byte 0            byte 1            byte 2
//!                c c b b b a a a   f e e e d d d c   h h h g g g f f
//!
//! Value i takes the bits i * width .. (i + 1) * width; eight values take `width` whole bytes, which
//! is the group every loop here works on. The width is known at compile time inside the loops.
//!
//! Invariants: sources are readable 64 bytes past their end (a group is loaded whole even when only
//! its first value is wanted). `unpack` writes its target and nothing else; the bit copies at the
//! end of the file say what they overrun.
const std = @import("std");
const builtin = @import("builtin");
const lanes_module = @import("../core/lanes.zig");
const Bytes16 = lanes_module.Bytes16;
const assert = std.debug.assert;
const load16 = lanes_module.load16;
const swizzle = lanes_module.swizzle;

const Words8 = @Vector(8, u16);
const Words4 = @Vector(4, u32);

const is_wasm = builtin.cpu.arch.isWasm();

/// Keeps a constant from LLVM, which knows too much about two of them. A multiplication by powers of
/// two becomes a shift by a different count per lane, which WebAssembly lacks: one scalar shift per
/// lane. A swizzle of a load by a constant becomes loads of single lanes. The engine's compiler drops
/// the two moves and sees the constant again.
inline fn hide(constant: anytype) @TypeOf(constant) {
    if (comptime !is_wasm) return constant;
    return asm ("local.get %[in]\nlocal.set %[out]"
        : [out] "=r" (-> @TypeOf(constant)),
        : [in] "r" (constant),
    );
}

inline fn load_u64(source: [*]const u8) u64 {
    return std.mem.readInt(u64, source[0..8], .little);
}

inline fn store_u64(target: [*]u8, value: u64) void {
    std.mem.writeInt(u64, target[0..8], value, .little);
}

/// Bytes that `count` values of `width` bits take.
pub fn packed_size(count: u64, width: u7) u64 {
    return (count * width + 7) / 8;
}

// Values.

/// The first `target.len` values of `width` bits; the width is at most that of `T`.
pub fn unpack(comptime T: type, source: []const u8, width: u7, target: []T) void {
    assert(width <= @bitSizeOf(T));
    assert(source.len >= packed_size(target.len, width));
    switch (width) {
        inline 0...@bitSizeOf(T) => |known| unpack_width(T, known, .simd, source.ptr, target),
        else => unreachable,
    }
}

/// The plain twin of `unpack`, for tests and benchmarks: the width known at compile time, a load, a
/// shift and a mask per value.
pub fn unpack_scalar(comptime T: type, source: []const u8, width: u7, target: []T) void {
    assert(width <= @bitSizeOf(T));
    assert(source.len >= packed_size(target.len, width));
    switch (width) {
        inline 0...@bitSizeOf(T) => |known| unpack_width(T, known, .scalar, source.ptr, target),
        else => unreachable,
    }
}

/// As `unpack`, the first value beginning at any bit of the first byte. Values inside a run of
/// groups reach a byte boundary within seven values; up to there they are taken one by one.
pub fn unpack_at(comptime T: type, source: []const u8, bit: u3, width: u7, target: []T) void {
    assert(width <= @bitSizeOf(T));
    assert(source.len >= (bit + @as(u64, target.len) * width + 7) / 8);
    var position: u64 = bit;
    var done: usize = 0;
    while (position % 8 != 0 and done < target.len) : (done += 1) {
        target[done] = @intCast(extract(source.ptr, position, width));
        position += width;
    }
    if (done < target.len) unpack(T, source[@intCast(position / 8)..], width, target[done..]);
}

/// One value from any bit position.
pub inline fn extract(source: [*]const u8, bit: u64, width: u7) u64 {
    if (width == 0) return 0;
    const from = source + @as(usize, @intCast(bit / 8));
    const shift: u6 = @intCast(bit % 8);
    var value = load_u64(from) >> shift;
    if (@as(u32, shift) + width > 64) value |= @as(u64, from[8]) << @intCast(64 - @as(u7, shift));
    return value & (~@as(u64, 0) >> @intCast(64 - width));
}

const Method = enum { simd, scalar };

/// One loop per width, kept apart: inlined into the switch they would share its registers.
noinline fn unpack_width(
    comptime T: type,
    comptime width: u7,
    comptime method: Method,
    source: [*]const u8,
    target: []T,
) void {
    if (width == 0) return @memset(target, 0);
    var from = source;
    var to = target.ptr;
    var groups = target.len / 8;
    while (groups != 0) : (groups -= 1) {
        unpack_group(T, width, method, from, to);
        from += width;
        to += 8;
    }
    const rest = target.len % 8;
    if (rest == 0) return;
    var last: [8]T = undefined;
    unpack_group(T, width, method, from, &last);
    for (to[0..rest], last[0..rest]) |*slot, value| slot.* = value;
}

inline fn unpack_group(
    comptime T: type,
    comptime width: u7,
    comptime method: Method,
    source: [*]const u8,
    target: [*]T,
) void {
    if (method == .scalar) {
        unpack_group_scalar(T, width, source, target);
    } else if (width == @bitSizeOf(T)) {
        copy_group(source, @ptrCast(target), width);
    } else if (width <= 9 and T != u64) {
        store_words8(T, target, unpack_words8(width, source));
    } else if (width <= 25) {
        store_words4(T, target, unpack_words4(width, 0, source), unpack_words4(width, 4, source));
    } else unpack_group_scalar(T, width, source, target);
}

inline fn unpack_group_scalar(comptime T: type, comptime width: u7, source: [*]const u8, target: [*]T) void {
    inline for (0..8) |i| target[i] = @intCast(extract(source, i * width, width));
}

inline fn copy_group(source: [*]const u8, target: [*]u8, comptime size: usize) void {
    if (size == 8) return store_u64(target, load_u64(source));
    inline for (0..size / 16) |i| target[16 * i ..][0..16].* = load16(source + 16 * i);
}

inline fn store_words8(comptime T: type, target: [*]T, values: Words8) void {
    switch (T) {
        // Through a whole vector: half of one would be stored lane by lane.
        u8 => {
            const bytes: Bytes16 = @bitCast(values);
            const narrow: @Vector(2, u64) = @bitCast(swizzle(bytes, hide(even_lanes)));
            store_u64(target, narrow[0]);
        },
        u16 => target[0..8].* = values,
        u32 => target[0..8].* = @as(@Vector(8, u32), values),
        else => comptime unreachable,
    }
}

const even_lanes: Bytes16 = .{ 0, 2, 4, 6, 8, 10, 12, 14, 0, 2, 4, 6, 8, 10, 12, 14 };

inline fn store_words4(comptime T: type, target: [*]T, low: Words4, high: Words4) void {
    switch (T) {
        u16 => target[0..8].* = @shuffle(
            u16,
            @as(Words8, @bitCast(low)),
            @as(Words8, @bitCast(high)),
            [8]i32{ 0, 2, 4, 6, -1, -3, -5, -7 },
        ),
        u32, u64 => {
            target[0..4].* = @as(@Vector(4, T), low);
            target[4..8].* = @as(@Vector(4, T), high);
        },
        else => comptime unreachable,
    }
}

/// Eight values at once, in lanes of 16 bits. There is no shift by lane, so a multiplication moves
/// each value to the top of its lane, which also drops the bits of its upper neighbour, and one
/// shift for all brings them down. Needs bit offset + width <= 16.
inline fn unpack_words8(comptime width: u7, source: [*]const u8) Words8 {
    comptime var lanes: [16]u8 = undefined;
    comptime var factors: [8]u16 = undefined;
    comptime for (&factors, 0..) |*factor, i| {
        const bit = i * width;
        lanes[2 * i] = bit / 8;
        lanes[2 * i + 1] = bit / 8 + 1;
        factor.* = 1 << (16 - width - bit % 8);
    };
    const spread: Words8 = @bitCast(swizzle(load16(source), hide(@as(Bytes16, lanes))));
    return (spread *% hide(@as(Words8, factors))) >> @splat(16 - width);
}

/// Values `first` to `first + 4` of a group, in lanes of 32 bits. Needs bit offset + width <= 32.
inline fn unpack_words4(comptime width: u7, comptime first: usize, source: [*]const u8) Words4 {
    const start = first * width;
    comptime var lanes: [16]u8 = undefined;
    comptime var factors: [4]u32 = undefined;
    comptime for (&factors, 0..) |*factor, i| {
        const bit = start % 8 + i * width;
        for (0..4) |byte| lanes[4 * i + byte] = bit / 8 + byte;
        factor.* = 1 << (32 - width - bit % 8);
    };
    const spread: Words4 = @bitCast(swizzle(load16(source + start / 8), hide(@as(Bytes16, lanes))));
    return (spread *% hide(@as(Words4, factors))) >> @splat(32 - width);
}

// Bits. Both copies keep the target's bits below `first_bit` and leave those above the last one
// unspecified, up to 16 bytes past it: bitmaps are written from front to back.

/// Copies `count` bits that begin at bit `source_bit` of `source`; returns how many are set.
pub fn append_bits(target: []u8, first_bit: u32, source: []const u8, source_bit: u3, count: u32) u32 {
    assert(@as(u64, target.len) * 8 >= @as(u64, first_bit) + count);
    assert(@as(u64, source.len) * 8 >= @as(u64, source_bit) + count);
    var writer: BitWriter = .init(target, first_bit);
    var from = source.ptr;
    var left = count;
    while (left >= 64) : (left -= 64) {
        writer.put_64(load_bits(from, source_bit));
        from += 8;
    }
    if (left != 0) writer.put_last(load_bits(from, source_bit), @intCast(left)) else writer.flush();
    return writer.ones;
}

inline fn load_bits(source: [*]const u8, bit: u3) u64 {
    const high = (@as(u64, source[8]) << 1) << (63 - @as(u6, bit));
    return load_u64(source) >> bit | high;
}

/// Writes 64 bits at a time from any bit on, and counts the set ones. Ends with `put_last` or
/// `flush`.
pub const BitWriter = struct {
    to: [*]u8,
    shift: u3,
    /// The `shift` bits that belong below the next 64.
    carry: u64,
    ones: u32 = 0,

    pub inline fn init(target: []u8, first_bit: u32) BitWriter {
        const to = target.ptr + first_bit / 8;
        const shift: u3 = @intCast(first_bit % 8);
        // Byte 0 is not looked at when none of its bits stays: it may lie behind the target.
        const carry: u64 = if (shift == 0) 0 else to[0] & ((@as(u8, 1) << shift) - 1);
        return .{ .to = to, .shift = shift, .carry = carry };
    }

    pub inline fn put_64(self: *BitWriter, word: u64) void {
        store_u64(self.to, self.carry | word << self.shift);
        self.carry = (word >> 1) >> (63 - @as(u6, self.shift));
        self.ones += @popCount(word);
        self.to += 8;
    }

    /// The low `count` bits of `word`, fewer than 64 and not none.
    pub inline fn put_last(self: *BitWriter, word: u64, count: u6) void {
        assert(count != 0);
        self.put_64(word & (~@as(u64, 0) >> @intCast(64 - @as(u7, count))));
        self.flush();
    }

    pub inline fn flush(self: *BitWriter) void {
        if (self.shift != 0) self.to[0] = @intCast(self.carry);
    }
};

/// Sets `count` bits to one value.
pub fn fill_bits(target: []u8, first_bit: u32, count: u32, value: bool) void {
    assert(@as(u64, target.len) * 8 >= @as(u64, first_bit) + count);
    if (count == 0) return;
    var to = target.ptr + first_bit / 8;
    const shift: u3 = @intCast(first_bit % 8);
    const keep = (@as(u64, 1) << shift) - 1;
    const ones: u64 = if (value) ~@as(u64, 0) else 0;
    store_u64(to, (to[0] & keep) | (ones & ~keep));
    const end = target.ptr + @as(usize, @intCast((@as(u64, first_bit) + count + 7) / 8));
    const pattern: Bytes16 = @splat(@truncate(ones));
    to += 8;
    while (@intFromPtr(to) < @intFromPtr(end)) : (to += 16) to[0..16].* = pattern;
}

// Tests.

const testing = std.testing;
const bitmap = @import("../core/bitmap.zig");

fn random_values(comptime T: type, random: std.Random, width: u7, values: []T) void {
    const mask: u64 = if (width == 0) 0 else ~@as(u64, 0) >> @intCast(64 - width);
    for (values) |*value| value.* = @intCast(random.int(u64) & mask);
}

/// The definition of the layout, bit by bit.
fn pack(comptime T: type, values: []const T, width: u7, bit: usize, target: []u8) void {
    for (values, 0..) |value, i| {
        for (0..width) |k| {
            const at = bit + i * width + k;
            if (@as(u64, value) >> @intCast(k) & 1 != 0) target[at / 8] |= @as(u8, 1) << @intCast(at % 8);
        }
    }
}

fn check_unpack(comptime T: type, random: std.Random) !void {
    const lengths = [_]usize{ 0, 1, 7, 8, 9, 67 };
    var values: [67]T = undefined;
    for (0..@bitSizeOf(T) + 1) |w| {
        const width: u7 = @intCast(w);
        for (lengths) |n| {
            const skipped = random.uintLessThan(usize, 8);
            random_values(T, random, width, values[0..n]);
            var source: [8 * 76 + 64]u8 = undefined;
            random.bytes(&source);
            const start = skipped * width;
            for (start..start + n * width) |at| source[at / 8] &= ~(@as(u8, 1) << @intCast(at % 8));
            pack(T, values[0..n], width, start, &source);
            const sized = source[start / 8 .. (start + n * width + 7) / 8];

            var target: [67 + 1]T = @splat(77);
            unpack_at(T, sized, @intCast(start % 8), width, target[0..n]);
            try testing.expectEqualSlices(T, values[0..n], target[0..n]);
            try testing.expectEqual(77, target[n]);
            if (start % 8 != 0) continue;
            inline for (.{ unpack_scalar, unpack }) |function| {
                @memset(&target, 77);
                function(T, sized, width, target[0..n]);
                try testing.expectEqualSlices(T, values[0..n], target[0..n]);
                try testing.expectEqual(77, target[n]);
            }
        }
    }
}

test unpack {
    var prng: std.Random.DefaultPrng = .init(1);
    inline for (.{ u8, u16, u32, u64 }) |T| try check_unpack(T, prng.random());
}

test "unpack: every bit of every position of a group" {
    inline for (.{ u8, u16, u32, u64 }) |T| {
        for (1..@bitSizeOf(T) + 1) |w| {
            const width: u7 = @intCast(w);
            for (0..8) |i| for (0..width) |k| {
                var source: [64 + 64]u8 = @splat(0);
                const at = i * width + k;
                source[at / 8] = @as(u8, 1) << @intCast(at % 8);
                var target: [8]T = undefined;
                unpack(T, source[0..width], width, &target);
                for (target, 0..) |value, j|
                    try testing.expectEqual(if (i == j) @as(u64, 1) << @intCast(k) else 0, value);
            };
        }
    }
}

test "append_bits and fill_bits against a bit by bit loop" {
    var prng: std.Random.DefaultPrng = .init(2);
    const random = prng.random();
    for (0..3000) |round| {
        var source: [64 + 64]u8 = undefined;
        var target: [64 + 64]u8 = undefined;
        random.bytes(&source);
        random.bytes(&target);
        const before = target;
        const source_bit = random.int(u3);
        const first_bit = random.uintLessThan(u32, 80);
        const count: u32 = if (round < 260) @intCast(round) else random.uintLessThan(u32, 400);
        const value = random.boolean();
        const filled = random.boolean();
        const sized = target[0 .. (first_bit + count + 7) / 8];
        var ones: u32 = 0;
        if (filled) fill_bits(sized, first_bit, count, value) else {
            ones = append_bits(sized, first_bit, source[0 .. (source_bit + count + 7) / 8], source_bit, count);
        }
        for (0..first_bit) |at| try testing.expectEqual(bitmap.get(&before, at), bitmap.get(&target, at));
        for (0..count) |i| {
            const wanted = if (filled) value else bitmap.get(&source, source_bit + i);
            try testing.expectEqual(wanted, bitmap.get(&target, first_bit + i));
            if (!filled and wanted) ones -= 1;
        }
        try testing.expectEqual(0, ones);
        const end = sized.len + 16;
        try testing.expectEqualSlices(u8, before[end..], target[end..]);
    }
}
