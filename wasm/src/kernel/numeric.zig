//! Functions of whole numbers and decimals, and rounding, as DuckDB 2.0 does it.
//!
//!     round       half away from zero: 2.5 → 3, -2.5 → -3; decimals exactly, floats by x × 10^n
//!     trunc       toward zero; floor, ceil: down and up
//!     round_even  half to the even neighbour: 2.5 → 2
//!     gcd, lcm    never negative
//!     <<          of numbers that are not negative, within the type; >> is arithmetic, by too much it is 0
//!
//! Functions of one value say null where the result leaves the type. Any bits may come in.
const std = @import("std");
const cast = @import("cast.zig");
const assert = std.debug.assert;
const powers_of_ten = cast.powers_of_ten;

pub const Rounding = enum { half_away, half_even, toward_zero, down, up };

inline fn is_signed(comptime T: type) bool {
    return @typeInfo(T).int.signedness == .signed;
}

// Floats.

/// To a whole number. Halves are told by the difference to the truncated value, which is exact.
pub inline fn round_lanes(
    comptime n: comptime_int,
    comptime F: type,
    comptime rounding: Rounding,
    x: @Vector(n, F),
) @Vector(n, F) {
    const V = @Vector(n, F);
    switch (rounding) {
        .toward_zero => return @trunc(x),
        .down => return @floor(x),
        .up => return @ceil(x),
        .half_away => {
            const whole = @trunc(x);
            const one = @select(F, x < @as(V, @splat(0)), @as(V, @splat(-1)), @as(V, @splat(1)));
            return @select(F, @abs(x - whole) >= @as(V, @splat(0.5)), whole + one, whole);
        },
        .half_even => {
            const big: V = @splat(1 << std.math.floatMantissaBits(F));
            const signed = @select(F, x < @as(V, @splat(0)), -big, big);
            // Adding 2^52 leaves no room for a fraction, and the addition rounds ties to even.
            return @select(F, @abs(x) < big, (x + signed) - signed, x);
        },
    }
}

pub fn round_floats(comptime F: type, comptime rounding: Rounding, values: []const F, out: []F) void {
    assert(values.len == out.len);
    const lanes = 32 / @sizeOf(F);
    var i: usize = 0;
    while (i + lanes <= values.len) : (i += lanes)
        out[i..][0..lanes].* = round_lanes(lanes, F, rounding, values[i..][0..lanes].*);
    while (i < values.len) : (i += 1) out[i] = round_lanes(1, F, rounding, .{values[i]})[0];
}

/// 10^n as float64 where it is one, nearest.
const float_powers: [309]f64 = blk: {
    @setEvalBranchQuota(100_000);
    var powers: [309]f64 = undefined;
    for (&powers, 0..) |*power, n|
        power.* = std.fmt.parseFloat(f64, std.fmt.comptimePrint("1e{d}", .{n})) catch unreachable;
    break :blk powers;
};

fn float_power(digits: u32) f64 {
    return if (digits < float_powers.len) float_powers[digits] else std.math.inf(f64);
}

/// With so many digits behind the point; before it, if they are negative. A float32 is computed as a double.
/// What is too large for the factor stays, and what is too small for it is zero, but for trunc, where it stays.
pub fn round_digits(comptime F: type, comptime rounding: Rounding, value: F, digits: i32) F {
    const factor = float_power(@abs(digits));
    const x: f64 = value;
    const rounded = if (digits < 0)
        round_lanes(1, f64, rounding, .{x / factor})[0] * factor
    else
        round_lanes(1, f64, rounding, .{x * factor})[0] / factor;
    if (std.math.isFinite(rounded)) return @floatCast(rounded);
    const vanishes = digits < 0 and std.math.isInf(factor) and std.math.isFinite(x) and rounding != .toward_zero;
    return if (vanishes) 0 else value;
}

// Whole numbers.

/// To a multiple of 10^-digits; more digits than none change nothing.
pub fn round_integer(comptime T: type, comptime rounding: Rounding, value: T, digits: i32) ?T {
    if (digits >= 0) return value;
    const count = @abs(digits);
    // The greatest number of 128 bits has 39 digits: half of 10^39 is beyond it.
    if (count >= powers_of_ten.len) return 0;
    const power: u128 = @intCast(powers_of_ten[count]);
    const rounded = round_multiple(rounding, @abs(value), power);
    if (rounded > std.math.maxInt(i128)) return null;
    const signed: i128 = @intCast(rounded);
    return std.math.cast(T, if (is_signed(T) and value < 0) -signed else signed);
}

fn round_multiple(comptime rounding: Rounding, magnitude: u128, power: u128) u128 {
    // Short numbers divide in 64 bits; a 128-bit division is a slow call.
    if (magnitude <= std.math.maxInt(u64) and power <= std.math.maxInt(u64)) {
        const quotient = divide_magnitude(u64, rounding, @intCast(magnitude), @intCast(power));
        return @as(u128, quotient) * power;
    }
    return divide_magnitude(u128, rounding, magnitude, power) *| power;
}

/// A magnitude has no sign, so half away from zero is half up.
inline fn divide_magnitude(comptime U: type, comptime rounding: Rounding, magnitude: U, power: U) U {
    const quotient = magnitude / power;
    const rest = magnitude % power;
    return quotient + @intFromBool(switch (rounding) {
        .half_away => rest >= power - rest and rest != 0,
        .half_even => rest > power - rest or (rest == power - rest and quotient % 2 == 1),
        .toward_zero => false,
        .down, .up => comptime unreachable,
    });
}

/// Cuts the last digits of decimals, and puts zeros in their place where they stood before the point.
pub fn Cutter(comptime T: type, comptime rounding: Rounding) type {
    const U = @Int(.unsigned, @bitSizeOf(T));
    return struct {
        const Self = @This();

        /// 10 to the number of digits that go; null when all do.
        divisor: ?U,
        /// 10 to the number of zeros that come.
        factor: T,
        /// What the quotient may be.
        limit: U,

        pub fn init(cut: u64, pad: u64, precision: u8) Self {
            const divisor = if (cut < powers_of_ten.len) std.math.cast(U, powers_of_ten[@intCast(cut)]) else null;
            const factor = if (pad < powers_of_ten.len) std.math.cast(T, powers_of_ten[@intCast(pad)]) else null;
            // Zeros that the type does not hold: only a quotient of zero fits.
            const limit = if (factor) |power| @divTrunc(powers_of_ten[precision] - 1, power) else 0;
            return .{
                .divisor = divisor,
                .factor = factor orelse 0,
                .limit = @intCast(@min(limit, std.math.maxInt(T))),
            };
        }

        /// Null when nines became a digit too many.
        pub inline fn apply(self: *const Self, value: T) ?T {
            const quotient = self.divide(value);
            if (quotient > self.limit) return null;
            const whole: T = @intCast(quotient);
            // Beyond 64 bits a product is a call; mostly there are no zeros to put.
            const padded = if (self.factor == 1) whole else whole *% self.factor;
            return if (value < 0) -padded else padded;
        }

        inline fn divide(self: *const Self, value: T) U {
            const magnitude = @abs(value);
            // The least number that has all digits cut is below half of the divisor, but for up and down.
            const divisor = self.divisor orelse return @intFromBool(is_away(value));
            if (T == i128) if (std.math.cast(u64, magnitude)) |small| if (std.math.cast(u64, divisor)) |by| {
                return divide_part(u64, value < 0, small, by);
            };
            return divide_part(U, value < 0, magnitude, divisor);
        }

        /// Whether everything that is not zero counts one.
        inline fn is_away(value: T) bool {
            return (rounding == .down and value < 0) or (rounding == .up and value > 0);
        }

        inline fn divide_part(comptime V: type, negative: bool, magnitude: V, divisor: V) V {
            return switch (rounding) {
                .half_away, .half_even, .toward_zero => divide_magnitude(V, rounding, magnitude, divisor),
                .down => magnitude / divisor + @intFromBool(negative and magnitude % divisor != 0),
                .up => magnitude / divisor + @intFromBool(!negative and magnitude % divisor != 0),
            };
        }
    };
}

/// The least of a type has no magnitude in it.
pub fn absolute(comptime T: type, value: T) ?T {
    if (!is_signed(T)) return value;
    return if (value == std.math.minInt(T)) null else if (value < 0) -value else value;
}

/// NaN has none.
pub fn sign(comptime T: type, value: T) i8 {
    return @as(i8, @intFromBool(value > 0)) - @intFromBool(value < 0);
}

/// Of i64 or i128.
pub fn gcd(comptime T: type, left: T, right: T) ?T {
    var a = @abs(left);
    var b = @abs(right);
    while (b != 0) {
        const rest = a % b;
        a = b;
        b = rest;
    }
    return std.math.cast(T, a);
}

pub fn lcm(comptime T: type, left: T, right: T) ?T {
    if (left == 0 or right == 0) return 0;
    const divisor = gcd(T, left, right) orelse return null;
    const product = std.math.mul(T, left, @divExact(right, divisor)) catch return null;
    return absolute(T, product);
}

pub fn factorial(value: i32) ?i128 {
    if (value < 0 or value > 33) return null; // 34! has 129 bits
    var product: i128 = 1;
    var i: i128 = 2;
    while (i <= value) : (i += 1) product *= i;
    return product;
}

pub fn shift_left(comptime T: type, value: T, by: T) ?T {
    if (value < 0 or by < 0) return null;
    if (value == 0) return 0;
    if (by >= @bitSizeOf(T)) return null;
    const shifted = std.math.shl(T, value, @as(u8, @intCast(by)));
    return if (shifted > 0 and std.math.shr(T, shifted, @as(u8, @intCast(by))) == value) shifted else null;
}

pub fn shift_right(comptime T: type, value: T, by: T) T {
    if (by < 0 or by >= @bitSizeOf(T)) return 0;
    return value >> @intCast(by);
}

/// To the next even number away from zero.
pub fn even(value: f64) f64 {
    const up = @ceil(@abs(value));
    const result = if (@floor(up / 2) * 2 != up) up + 1 else up;
    return std.math.copysign(result, value);
}

const testing = std.testing;

test round_floats {
    const values = [_]f64{ 2.5, -2.5, 0.5, -0.5, 1.4999999999999998, 0.49999999999999994, 1e300, -0.0, 3.5, 7 };
    var out: [10]f64 = undefined;
    round_floats(f64, .half_away, &values, &out);
    try testing.expectEqual([10]f64{ 3, -3, 1, -1, 1, 0, 1e300, 0, 4, 7 }, out);
    round_floats(f64, .half_even, &values, &out);
    try testing.expectEqual([10]f64{ 2, -2, 0, 0, 1, 0, 1e300, 0, 4, 7 }, out);
    round_floats(f64, .down, &values, &out);
    try testing.expectEqual([10]f64{ 2, -3, 0, -1, 1, 0, 1e300, 0, 3, 7 }, out);
    var special: [2]f64 = undefined;
    round_floats(f64, .half_away, &.{ std.math.nan(f64), -std.math.inf(f64) }, &special);
    try testing.expect(std.math.isNan(special[0]) and special[1] == -std.math.inf(f64));
}

test round_digits {
    try testing.expectEqual(2.68, round_digits(f64, .half_away, 2.675, 2));
    try testing.expectEqual(1200, round_digits(f64, .half_away, 1234.5, -2));
    try testing.expectEqual(-5.5, round_digits(f64, .toward_zero, -5.55, 1));
    try testing.expectEqual(1e308, round_digits(f64, .half_away, 1e308, 5));
    try testing.expectEqual(1e-320, round_digits(f64, .half_away, 1e-320, 400));
    try testing.expectEqual(std.math.inf(f64), round_digits(f64, .half_away, std.math.inf(f64), std.math.minInt(i32)));
    try testing.expectEqual(@as(f32, 5.5), round_digits(f32, .half_away, 5.5, 1));
}

test round_integer {
    try testing.expectEqual(100, round_integer(i8, .half_away, 127, -2).?);
    try testing.expectEqual(null, round_integer(i8, .half_away, 125, -1));
    try testing.expectEqual(-120, round_integer(i8, .half_away, -124, -1).?);
    try testing.expectEqual(null, round_integer(i64, .half_away, std.math.maxInt(i64), -19));
    try testing.expectEqual(0, round_integer(i64, .toward_zero, std.math.maxInt(i64), -19).?);
    try testing.expectEqual(0, round_integer(i64, .half_away, std.math.minInt(i64), std.math.minInt(i32)).?);
    try testing.expectEqual(20, round_integer(i32, .half_even, 25, -1).?);
    try testing.expectEqual(40, round_integer(i32, .half_even, 35, -1).?);
    try testing.expectEqual(150, round_integer(u8, .toward_zero, 155, -1).?);
    try testing.expectEqual(null, round_integer(i128, .half_away, std.math.maxInt(i128), -38));
    try testing.expectEqual(5, round_integer(i64, .half_away, 5, 3).?);
}

fn cut_one(comptime T: type, comptime rounding: Rounding, value: T, cut: u64, pad: u64) ?T {
    return Cutter(T, rounding).init(cut, pad, if (T == i64) 18 else 38).apply(value);
}

test Cutter {
    inline for (.{ i64, i128 }) |T| {
        try testing.expectEqual(6, cut_one(T, .half_away, 55, 1, 0).?);
        try testing.expectEqual(-6, cut_one(T, .half_away, -55, 1, 0).?);
        try testing.expectEqual(-5, cut_one(T, .up, -55, 1, 0).?);
        try testing.expectEqual(-6, cut_one(T, .down, -55, 1, 0).?);
        try testing.expectEqual(6, cut_one(T, .up, 55, 1, 0).?);
        try testing.expectEqual(5, cut_one(T, .toward_zero, 55, 1, 0).?);
        try testing.expectEqual(10, cut_one(T, .half_away, 555, 3, 1).?);
        try testing.expectEqual(0, cut_one(T, .half_away, 444, 20, 18).?);
        try testing.expectEqual(0, cut_one(T, .half_away, std.math.minInt(T), 60, 60).?);
        try testing.expectEqual(4, cut_one(T, .half_even, 45, 1, 0).?);
        try testing.expectEqual(-1, cut_one(T, .down, -1, 38, 0).?);
    }
    const nines = powers_of_ten[38] - 1;
    try testing.expectEqual(null, cut_one(i128, .half_away, nines, 1, 1));
    try testing.expectEqual(powers_of_ten[37], cut_one(i128, .half_away, nines, 1, 0).?);
    try testing.expectEqual(null, cut_one(i64, .half_away, 999_999_999_999_999_999, 1, 1));
}

test "gcd and lcm" {
    try testing.expectEqual(6, gcd(i64, -12, 18).?);
    try testing.expectEqual(0, gcd(i64, 0, 0).?);
    try testing.expectEqual(1, gcd(i64, std.math.minInt(i64), -1).?);
    try testing.expectEqual(null, gcd(i64, std.math.minInt(i64), 0));
    try testing.expectEqual(12, lcm(i64, -4, 6).?);
    try testing.expectEqual(0, lcm(i64, 0, std.math.minInt(i64)).?);
    try testing.expectEqual(null, lcm(i64, std.math.maxInt(i64), 2));
    try testing.expectEqual(null, lcm(i64, std.math.minInt(i64), std.math.minInt(i64)));
    try testing.expectEqual(6, gcd(i128, 12, 18).?);
}

test factorial {
    try testing.expectEqual(1, factorial(0).?);
    try testing.expectEqual(120, factorial(5).?);
    try testing.expectEqual(8683317618811886495518194401280000000, factorial(33).?);
    try testing.expectEqual(null, factorial(34));
    try testing.expectEqual(null, factorial(-1));
}

test "shifts" {
    try testing.expectEqual(64, shift_left(i8, 1, 6).?);
    try testing.expectEqual(null, shift_left(i8, 1, 7));
    try testing.expectEqual(128, shift_left(u8, 1, 7).?);
    try testing.expectEqual(null, shift_left(u8, 1, 8));
    try testing.expectEqual(null, shift_left(i32, -1, 1));
    try testing.expectEqual(null, shift_left(i32, 1, -1));
    try testing.expectEqual(0, shift_left(i32, 0, 100).?);
    try testing.expectEqual(-4, shift_right(i32, -8, 1));
    try testing.expectEqual(0, shift_right(i32, 8, 100));
    try testing.expectEqual(0, shift_right(i8, -8, -1));
    try testing.expectEqual(@as(i128, 1) << 100, shift_left(i128, 1, 100).?);
}

test even {
    try testing.expectEqual(4, even(2.1));
    try testing.expectEqual(-4, even(-2.1));
    try testing.expectEqual(2, even(2));
    try testing.expectEqual(std.math.inf(f64), even(std.math.inf(f64)));
    try testing.expect(std.math.isNan(even(std.math.nan(f64))));
}

test "absolute values and signs" {
    try testing.expectEqual(null, absolute(i8, -128));
    try testing.expectEqual(5, absolute(i8, -5).?);
    try testing.expectEqual(200, absolute(u8, 200).?);
    try testing.expectEqual(-1, sign(f64, -0.5));
    try testing.expectEqual(0, sign(f64, std.math.nan(f64)));
    try testing.expectEqual(1, sign(u64, 7));
}
