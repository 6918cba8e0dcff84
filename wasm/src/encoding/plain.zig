//! PLAIN: values as they are.
//!
//!     byte arrays     size u32 | bytes | size u32 | bytes | …
//!     fixed width     value | value | …
//!     booleans        one bit each, least significant first
//!
//! Invariants: the source is readable 64 bytes past its end, targets are writable 64 bytes past
//! theirs. No decoder's position passes the end of its source.
const std = @import("std");
const bitpack = @import("bitpack.zig");
const interrupt = @import("../core/interrupt.zig");
const assert = std.debug.assert;

pub const Error = error{ InvalidFormat, Cancelled, TooLarge };

/// Byte arrays in two steps, because only the first knows how much room the second needs:
/// `read_offsets` walks over values, `read_bytes` copies those same values. Who has room for all
/// that is left of the page takes `read`: finding the next value is a chain of loads, and copying
/// beside it costs little more.
pub const ByteArrays = struct {
    source: []const u8,
    position: usize = 0,
    /// Where the values begin that `read_offsets` met last.
    first: usize = 0,

    pub fn init(source: []const u8) ByteArrays {
        return .{ .source = source };
    }

    /// Room that the values not yet read take at most.
    pub fn remaining(self: *const ByteArrays) usize {
        return self.source.len - self.position;
    }

    /// The next `offsets.len - 1` values laid one behind the other in `target`, which has room for
    /// all that remains; the first offset is `base`. Returns the bytes they take together.
    pub fn read(self: *ByteArrays, offsets: []u32, base: u32, target: []u8) Error!u32 {
        assert(offsets.len >= 1 and target.len >= self.remaining());
        if (@as(u64, base) + self.remaining() > std.math.maxInt(u32)) return error.TooLarge;
        const start = self.position;
        offsets[0] = base;
        self.position = try walk_and_copy(self.source, start, offsets[1..], base, target.ptr);
        self.first = self.position;
        return offsets[offsets.len - 1] - base;
    }

    /// The offsets of the next `offsets.len - 1` values laid one behind the other, the first being
    /// `base`. Returns the bytes they take together.
    pub fn read_offsets(self: *ByteArrays, offsets: []u32, base: u32) Error!u32 {
        assert(offsets.len >= 1);
        self.first = self.position;
        offsets[0] = base;
        self.position = try walk(self.source, self.position, offsets[1..], base);
        const size = self.position - self.first - 4 * (offsets.len - 1);
        if (@as(u64, base) + size > std.math.maxInt(u32)) return error.TooLarge;
        return @intCast(size);
    }

    /// The bytes of those values; `target` is as long as `read_offsets` said.
    pub fn read_bytes(self: *ByteArrays, target: []u8) void {
        const end = copy_values(self.source.ptr + self.first, self.source.ptr + self.position, target.ptr);
        assert(end == target.ptr + target.len);
        self.first = self.position;
    }

    pub fn skip(self: *ByteArrays, count: u32) Error!void {
        var left = count;
        while (left != 0) {
            try interrupt.check();
            const step: u32 = @min(left, interrupt.block_rows);
            self.position = try walk_only(self.source, self.position, step);
            left -= step;
        }
        self.first = self.position;
    }
};

/// Writes the end of each value, and returns where the last one ends in the source. A size is
/// loaded before it is known to lie inside: the bytes behind are readable, and the one comparison
/// that follows covers both. Sums of base and sizes may wrap here; the caller refuses them.
noinline fn walk(source: []const u8, start: usize, ends: []u32, base: u32) Error!usize {
    const limit: u64 = source.len;
    var position: u64 = start;
    var end = base;
    for (ends) |*slot| {
        const size = load_size(source.ptr, position);
        position += @as(u64, size) + 4;
        if (position > limit) return fail_array(size, limit);
        end +%= size;
        slot.* = end;
    }
    return @intCast(position);
}

noinline fn walk_and_copy(source: []const u8, start: usize, ends: []u32, base: u32, target: [*]u8) Error!usize {
    const limit: u64 = source.len;
    var position: u64 = start;
    var end: u32 = 0;
    for (ends) |*slot| {
        const size = load_size(source.ptr, position);
        const next = position + @as(u64, size) + 4;
        if (next > limit) return fail_array(size, limit);
        copy_wide(target + end, source.ptr + @as(usize, @intCast(position)) + 4, size);
        position = next;
        end += size;
        slot.* = base + end;
    }
    return @intCast(position);
}

noinline fn walk_only(source: []const u8, start: usize, count: u32) Error!usize {
    const limit: u64 = source.len;
    var position: u64 = start;
    for (0..count) |_| {
        const size = load_size(source.ptr, position);
        position += @as(u64, size) + 4;
        if (position > limit) return fail_array(size, limit);
    }
    return @intCast(position);
}

inline fn load_size(source: [*]const u8, position: u64) u32 {
    return std.mem.readInt(u32, source[@intCast(position)..][0..4], .little);
}

noinline fn copy_values(start: [*]const u8, stop: [*]const u8, target: [*]u8) [*]u8 {
    var from = start;
    var to = target;
    while (from != stop) {
        const size = load_size(from, 0);
        from += 4;
        copy_wide(to, from, size);
        from += size;
        to += size;
    }
    return to;
}

/// The first 32 bytes whatever the size: most values are shorter, and a loop over their sizes would
/// be mispredicted. Up to 32 bytes behind the target change; the next value overwrites them.
inline fn copy_wide(target: [*]u8, source: [*]const u8, size: usize) void {
    target[0..16].* = source[0..16].*;
    target[16..32].* = source[16..32].*;
    var done: usize = 32;
    while (done < size) : (done += 16) target[done..][0..16].* = source[done..][0..16].*;
}

noinline fn fail_array(size: u32, limit: u64) error{InvalidFormat} {
    @branchHint(.cold);
    interrupt.describe("a byte array of {d} bytes passes the end of its page's {d}", .{ size, limit });
    return error.InvalidFormat;
}

/// Values of one size, copied as they are.
pub const Fixed = struct {
    source: []const u8,
    width: u32,
    position: usize = 0,

    pub fn init(source: []const u8, width: u32) Fixed {
        return .{ .source = source, .width = width };
    }

    /// As many whole values as `target` holds.
    pub fn read(self: *Fixed, target: []u8) Error!void {
        const from = try self.take(target.len);
        @memcpy(target, from);
    }

    pub fn skip(self: *Fixed, count: u32) Error!void {
        _ = try self.take(@as(u64, count) * self.width);
    }

    /// The next `size` bytes where they lie: what need not be copied is not.
    pub fn take(self: *Fixed, size: u64) Error![]const u8 {
        if (size > self.source.len - self.position) {
            interrupt.describe(
                "values end after {d} bytes, {d} more wanted at byte {d}",
                .{ self.source.len, size, self.position },
            );
            return error.InvalidFormat;
        }
        const from = self.source[self.position..][0..@intCast(size)];
        self.position += from.len;
        return from;
    }
};

pub const Booleans = struct {
    source: []const u8,
    bit: u64 = 0,

    pub fn init(source: []const u8) Booleans {
        return .{ .source = source };
    }

    /// The next `count` values as bits of `bits` from `first_bit` on. Bits below stay, those above
    /// the last one are unspecified.
    pub fn read(self: *Booleans, bits: []u8, first_bit: u32, count: u32) Error!void {
        const at = self.bit;
        try self.skip(count);
        _ = bitpack.append_bits(bits, first_bit, self.source[@intCast(at / 8)..], @intCast(at % 8), count);
    }

    pub fn skip(self: *Booleans, count: u32) Error!void {
        if (count > @as(u64, self.source.len) * 8 - self.bit) {
            interrupt.describe("booleans end after {d} bytes, {d} more wanted", .{ self.source.len, count });
            return error.InvalidFormat;
        }
        self.bit += count;
    }
};

// Tests.

const testing = std.testing;
const bitmap = @import("../core/bitmap.zig");
const padding = 64;

/// Random values with their prefixes, padded; `sizes` says how long each one is.
fn random_arrays(random: std.Random, sizes: []u32, target: []u8) []u8 {
    var at: usize = 0;
    for (sizes) |*size| {
        size.* = if (random.boolean()) random.uintAtMost(u32, 18) else random.uintAtMost(u32, 80);
        std.mem.writeInt(u32, target[at..][0..4], size.*, .little);
        random.bytes(target[at + 4 ..][0..size.*]);
        at += 4 + size.*;
    }
    return target[0..at];
}

test ByteArrays {
    var prng: std.Random.DefaultPrng = .init(1);
    const random = prng.random();
    var sizes: [400]u32 = undefined;
    var buffer: [400 * 84 + padding]u8 = undefined;
    var target: [400 * 84 + padding]u8 = undefined;
    var offsets: [401]u32 = undefined;
    for (0..20) |_| {
        const source = random_arrays(random, &sizes, &buffer);
        var decoder: ByteArrays = .init(source);
        var at: usize = 0;
        var done: usize = 0;
        while (done < sizes.len) {
            const count = @min(random.uintAtMost(usize, 60), sizes.len - done);
            const way = random.uintLessThan(u8, 4);
            const skipped = way == 0;
            if (skipped) try decoder.skip(@intCast(count)) else {
                var size: u32 = 0;
                if (way == 1)
                    size = try decoder.read(offsets[0 .. count + 1], 500, target[0..decoder.remaining()])
                else {
                    size = try decoder.read_offsets(offsets[0 .. count + 1], 500);
                    decoder.read_bytes(target[0..size]);
                }
                try testing.expectEqual(500, offsets[0]);
                try testing.expectEqual(500 + size, offsets[count]);
            }
            for (sizes[done..][0..count], 0..) |wanted, i| {
                const value = source[at + 4 ..][0..wanted];
                if (!skipped)
                    try testing.expectEqualSlices(u8, value, target[offsets[i] - 500 .. offsets[i + 1] - 500]);
                at += 4 + wanted;
            }
            try testing.expectEqual(at, decoder.position);
            done += count;
        }
        try testing.expectError(error.InvalidFormat, decoder.skip(1));
    }
    interrupt.forget();
}

test "ByteArrays: sizes that pass the end, and offsets that pass 32 bits" {
    defer interrupt.forget();
    var offsets: [3]u32 = undefined;
    var source: [12 + padding]u8 = @splat(0);
    const cut = [_]usize{ 1, 3, 4, 5, 6, 7, 9, 10, 11 };
    source[0] = 2;
    source[6] = 2;
    for (cut) |size| {
        var decoder: ByteArrays = .init(source[0..size]);
        try testing.expectError(error.InvalidFormat, decoder.read_offsets(&offsets, 0));
        decoder = .init(source[0..size]);
        try testing.expectError(error.InvalidFormat, decoder.skip(2));
        var target: [12 + padding]u8 = undefined;
        decoder = .init(source[0..size]);
        try testing.expectError(error.InvalidFormat, decoder.read(&offsets, 0, &target));
    }
    var decoder: ByteArrays = .init(source[0..12]);
    try testing.expectError(error.TooLarge, decoder.read_offsets(&offsets, std.math.maxInt(u32) - 3));
    decoder = .init(source[0..12]);
    try testing.expectEqual(4, try decoder.read_offsets(&offsets, std.math.maxInt(u32) - 4));
    @memset(source[6..10], 0xFF);
    decoder = .init(source[0..12]);
    try testing.expectError(error.InvalidFormat, decoder.read_offsets(&offsets, 0));
}

test Fixed {
    defer interrupt.forget();
    var decoder: Fixed = .init("aabbccdde", 2);
    var target: [4]u8 = undefined;
    try decoder.read(target[0..2]);
    try testing.expectEqualStrings("aa", target[0..2]);
    try decoder.skip(1);
    try decoder.read(&target);
    try testing.expectEqualStrings("ccdd", &target);
    try testing.expectError(error.InvalidFormat, decoder.read(target[0..2]));
    try testing.expectError(error.InvalidFormat, decoder.skip(std.math.maxInt(u32)));
    try decoder.skip(0);
}

test Booleans {
    defer interrupt.forget();
    var prng: std.Random.DefaultPrng = .init(2);
    const random = prng.random();
    var source: [50 + padding]u8 = undefined;
    random.bytes(&source);
    for (0..50) |_| {
        var decoder: Booleans = .init(source[0..50]);
        var target: [60 + padding]u8 = undefined;
        const first = random.uintLessThan(u32, 20);
        var done: u32 = 0;
        while (done < 400) {
            const count = @min(random.uintAtMost(u32, 90), 400 - done);
            try decoder.read(target[0..60], first + done, count);
            done += count;
        }
        for (0..400) |i| try testing.expectEqual(bitmap.get(&source, i), bitmap.get(&target, first + i));
        try testing.expectError(error.InvalidFormat, decoder.read(target[0..60], 0, 1));
        decoder = .init(source[0..50]);
        try decoder.skip(399);
        try testing.expectError(error.InvalidFormat, decoder.skip(2));
    }
}
