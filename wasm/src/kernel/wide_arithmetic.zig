//! `+`, `-` and `*` of 128-bit integers, which decimals of many digits are.
//!
//! Most of their numbers are short. How short, a pass over each side tells: the bits of its longest number.
//! What cannot leave 64 bits is computed in 64, and what cannot leave 128 is not checked row by row.
const std = @import("std");
const abi = @import("../abi.zig");
const arithmetic = @import("arithmetic.zig");
const assert = std.debug.assert;

const ArithmeticOp = abi.ArithmeticOp;

pub const Operand = union(enum) {
    values: []const i128,
    /// Numbers that have not been widened.
    narrow: []const i64,
    scalar: i128,

    /// Bits of the longest magnitude: n bits hold numbers from -2^n to 2^n - 1.
    fn bit_count(self: Operand) u32 {
        switch (self) {
            .values => |values| {
                var high: u64 = 0;
                var low: u64 = 0;
                for (values) |value| {
                    const bits: u128 = @bitCast(value);
                    const top: i64 = @bitCast(@as(u64, @truncate(bits >> 64)));
                    const sign: u64 = @bitCast(top >> 63);
                    high |= @as(u64, @bitCast(top)) ^ sign;
                    low |= @as(u64, @truncate(bits)) ^ sign;
                }
                return if (high != 0) 128 - @as(u32, @clz(high)) else 64 - @as(u32, @clz(low));
            },
            .narrow => |values| return arithmetic.bits_needed(i64, values),
            .scalar => |value| return 128 - @as(u32, @clz(@as(u128, @bitCast(value ^ (value >> 127))))),
        }
    }

    fn len(self: Operand) ?usize {
        return switch (self) {
            .values => |values| values.len,
            .narrow => |values| values.len,
            .scalar => null,
        };
    }
};

/// Computes all rows. Returns n where every result lies between -2^n and 2^n, both included; null when one may
/// have left 128 bits, and `out` means nothing.
pub fn binary(comptime op: ArithmeticOp, a: Operand, b: Operand, out: []i128) ?u32 {
    if (a.len()) |count| assert(count == out.len);
    if (b.len()) |count| assert(count == out.len);
    const left = a.bit_count();
    const right = b.bit_count();
    const needed = if (op == .multiply) left + right else @max(left, right) + 1;
    if (needed > 126) return null;
    if (needed <= 62) {
        apply(i64, op, a, b, out);
    } else if (op == .multiply and left <= 63 and right <= 63) {
        apply(Halves, op, a, b, out);
    } else {
        apply(i128, op, a, b, out);
    }
    return needed;
}

/// Stands for operands of 64 bits with a product of 128.
const Halves = struct {};

fn apply(comptime Word: type, comptime op: ArithmeticOp, a: Operand, b: Operand, out: []i128) void {
    // Each pair of forms gets a loop of its own.
    switch (a) {
        inline else => |x| switch (b) {
            inline else => |y| for (out, 0..) |*to, row| {
                to.* = result(Word, op, at(x, row), at(y, row));
            },
        },
    }
}

inline fn at(x: anytype, row: usize) i128 {
    return if (@TypeOf(x) == i128) x else x[row];
}

inline fn result(comptime Word: type, comptime op: ArithmeticOp, a: i128, b: i128) i128 {
    if (Word == Halves) return product(@truncate(a), @truncate(b));
    const x: Word = @truncate(a);
    const y: Word = @truncate(b);
    return switch (op) {
        .add => x +% y,
        .subtract => x -% y,
        .multiply => x *% y,
        else => comptime unreachable,
    };
}

/// 64 bits times 64 bits. wasm has no such instruction, and the general product of 128 bits is a call.
inline fn product(a: i64, b: i64) i128 {
    const x: u64 = @bitCast(a);
    const y: u64 = @bitCast(b);
    const mask = std.math.maxInt(u32);
    const low = (x & mask) * (y & mask);
    const first = (x >> 32) * (y & mask) + (low >> 32);
    const second = (x & mask) * (y >> 32) + (first & mask);
    var high = (x >> 32) * (y >> 32) + (first >> 32) + (second >> 32);
    // What reading negative numbers as unsigned ones has added.
    high -%= (if (a < 0) y else 0) +% (if (b < 0) x else 0);
    return @bitCast(@as(u128, high) << 64 | (second << 32 | (low & mask)));
}

const testing = std.testing;

test "results are exact, and as long as it says" {
    var prng: std.Random.DefaultPrng = .init(7);
    const random = prng.random();
    var left: [17]i128 = undefined;
    var right: [17]i128 = undefined;
    var narrow: [17]i64 = undefined;
    var out: [17]i128 = undefined;
    for (0..2000) |_| {
        const shifts = [2]u7{ random.int(u7), random.int(u7) };
        for (&left, &right) |*a, *b| {
            a.* = random.int(i128) >> shifts[0];
            b.* = random.int(i128) >> shifts[1];
        }
        for (&narrow, left) |*to, value| to.* = @truncate(value);
        const forms = [_]Operand{ .{ .values = &left }, .{ .narrow = &narrow }, .{ .scalar = left[0] } };
        for (forms) |a| for ([_]Operand{ .{ .values = &right }, .{ .scalar = right[3] }, .{ .narrow = &narrow } }) |b| {
            inline for (.{ .add, .subtract, .multiply }) |op| {
                const bits = binary(op, a, b, &out);
                for (out, 0..) |got, row| {
                    const x = one(a, row);
                    const y = one(b, row);
                    const wanted, const overflow = switch (op) {
                        .add => @addWithOverflow(x, y),
                        .subtract => @subWithOverflow(x, y),
                        else => @mulWithOverflow(x, y),
                    };
                    const limit = @as(i128, 1) << @intCast(bits orelse break);
                    try testing.expect(overflow == 0);
                    try testing.expectEqual(wanted, got);
                    try testing.expect(got <= limit and got >= -limit);
                }
            }
        };
    }
}

fn one(operand: Operand, row: usize) i128 {
    return switch (operand) {
        .scalar => |value| value,
        .values => |values| values[row],
        .narrow => |values| values[row],
    };
}

test "products of halves" {
    const edges = [_]i64{
        0,
        1,
        -1,
        2,
        -2,
        std.math.maxInt(i64),
        std.math.minInt(i64),
        std.math.maxInt(u32),
        -std.math.maxInt(u32),
        1 << 32,
    };
    for (edges) |a| for (edges) |b| try testing.expectEqual(@as(i128, a) * b, product(a, b));
}
