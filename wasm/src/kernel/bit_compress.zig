//! Keeps chosen bits of a word and moves them together, in their order: keys whose other bits are
//! all alike get short without changing their order. What x86 calls PEXT, in six steps that two
//! words take side by side (Hacker's Delight, 7-4).
const std = @import("std");

pub const BitCompressor = struct {
    mask: u64,
    /// Bits that move by 1, 2, 4 … places.
    moves: [steps]u64,

    const steps = 6;

    pub fn init(mask: u64) BitCompressor {
        var self: BitCompressor = .{ .mask = mask, .moves = undefined };
        var kept = mask;
        var gaps = ~kept << 1;
        for (&self.moves, 0..) |*move, step| {
            // Bits with an odd number of gaps below them.
            var odd = gaps;
            for (0..steps) |i| odd ^= odd << @intCast(@as(u64, 1) << @intCast(i));
            move.* = odd & kept;
            kept = (kept ^ move.*) | (move.* >> @intCast(@as(u64, 1) << @intCast(step)));
            gaps &= ~odd;
        }
        return self;
    }

    pub fn bit_count(self: *const BitCompressor) u7 {
        return @popCount(self.mask);
    }

    /// `T` is u64 or a vector of them.
    pub inline fn apply(self: *const BitCompressor, comptime T: type, word: T) T {
        var bits = word & spread(T, self.mask);
        inline for (0..steps) |step| {
            const moving = bits & spread(T, self.moves[step]);
            bits = (bits ^ moving) | (moving >> spread(Shift(T), 1 << step));
        }
        return bits;
    }

    inline fn spread(comptime T: type, value: Element(T)) T {
        return if (@typeInfo(T) == .vector) @splat(value) else value;
    }

    fn Element(comptime T: type) type {
        return switch (@typeInfo(T)) {
            .vector => |vector| vector.child,
            else => T,
        };
    }

    fn Shift(comptime T: type) type {
        return switch (@typeInfo(T)) {
            .vector => |vector| @Vector(vector.len, u6),
            else => u6,
        };
    }
};

test BitCompressor {
    var prng: std.Random.DefaultPrng = .init(8);
    const random = prng.random();
    for (0..200) |round| {
        const mask = switch (round) {
            0 => 0,
            1 => std.math.maxInt(u64),
            else => random.int(u64) & random.int(u64),
        };
        const compressor: BitCompressor = .init(mask);
        const word = random.int(u64);
        var expected: u64 = 0;
        var count: u7 = 0;
        for (0..64) |bit| {
            if (mask >> @intCast(bit) & 1 == 0) continue;
            expected |= (word >> @intCast(bit) & 1) << @intCast(count);
            count += 1;
        }
        try std.testing.expectEqual(count, compressor.bit_count());
        try std.testing.expectEqual(expected, compressor.apply(u64, word));
        const pair: @Vector(2, u64) = .{ word, ~word };
        try std.testing.expectEqual(expected, compressor.apply(@Vector(2, u64), pair)[0]);
    }
}
