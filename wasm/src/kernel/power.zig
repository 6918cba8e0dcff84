//! x^y to within a unit in the last place.
//!
//! x^y = e^(y log x), and an error of the logarithm is multiplied by up to 745, so log x and its product with y
//! are sums of two floats (106 bits). x is m × 2^e with m near 1, and log m = 2 artanh((m - 1) / (m + 1)), whose
//! argument is at most 0.172, so that fifteen terms of the series do. WebAssembly has no fused multiplication;
//! exact products are made of halves, after Dekker.
const std = @import("std");
const math = std.math;

/// hi + lo, where lo is less than a unit of hi's last place.
const Pair = struct {
    hi: f64,
    lo: f64,

    /// Exact.
    inline fn sum(a: f64, b: f64) Pair {
        const hi = a + b;
        const part = hi - a;
        return .{ .hi = hi, .lo = (a - (hi - part)) + (b - part) };
    }

    /// Exact, unless the halves overflow: factors below 2^990 are safe.
    inline fn product(a: f64, b: f64) Pair {
        const hi = a * b;
        const x: Pair = .halves(a);
        const y: Pair = .halves(b);
        return .{ .hi = hi, .lo = ((x.hi * y.hi - hi) + x.hi * y.lo + x.lo * y.hi) + x.lo * y.lo };
    }

    /// Each of 26 bits.
    inline fn halves(a: f64) Pair {
        const scaled = a * 0x1.0000002p27;
        const hi = scaled - (scaled - a);
        return .{ .hi = hi, .lo = a - hi };
    }

    inline fn add(a: Pair, b: Pair) Pair {
        const high = sum(a.hi, b.hi);
        return sum(high.hi, high.lo + (a.lo + b.lo));
    }

    inline fn multiply(a: Pair, b: Pair) Pair {
        const high = product(a.hi, b.hi);
        return sum(high.hi, high.lo + (a.hi * b.lo + a.lo * b.hi));
    }
};

const two_thirds: Pair = pair_of(2.0 / 3.0);
const two_fifths: Pair = pair_of(2.0 / 5.0);

/// The nearest float, and what it lacks.
fn pair_of(comptime exact: comptime_float) Pair {
    const hi: f64 = exact;
    return .{ .hi = hi, .lo = exact - hi };
}

/// log 2 in two parts; the first has so many zeros at its end that its product with an exponent is exact.
const log2_hi: f64 = 0x1.62e42fee00000p-1;
const log2_lo: f64 = 0x1.a39ef35793c76p-33;

/// The natural logarithm of a positive number that is not infinite.
fn log(x: f64) Pair {
    var parts = math.frexp(x);
    if (parts.significand < math.sqrt1_2) {
        parts.significand *= 2;
        parts.exponent -= 1;
    }
    const m = parts.significand;
    const exponent: f64 = @floatFromInt(parts.exponent);
    // m is between 1/2 and 2, so m - 1 is exact.
    const above = m - 1;
    const below: Pair = .sum(m, 1);
    const quotient = above / below.hi;
    const back: Pair = .product(quotient, below.hi);
    const s: Pair = .{ .hi = quotient, .lo = ((above - back.hi) - back.lo - quotient * below.lo) / below.hi };
    const square = s.multiply(s);
    const factor = two_thirds.add(square.multiply(two_fifths.add(.{ .hi = square.hi * series(square.hi), .lo = 0 })));
    const small = s.multiply(square).multiply(factor).add(.{ .hi = 2 * s.hi, .lo = 2 * s.lo });
    return Pair.sum(exponent * log2_hi, exponent * log2_lo).add(small);
}

/// 2/7 + 2/9 z + 2/11 z² …
inline fn series(z: f64) f64 {
    var result: f64 = 0;
    comptime var n = 33;
    inline while (n >= 7) : (n -= 2) result = result * z + 2.0 / @as(comptime_float, n);
    return result;
}

/// e^(hi + lo).
fn exp(x: Pair) f64 {
    if (x.hi > 710) return math.inf(f64);
    if (x.hi < -746) return 0;
    const count = @round(x.hi * math.log2e);
    const rest: Pair = .sum(x.hi - count * log2_hi, x.lo - count * log2_lo);
    const r = rest.hi;
    // 1 + r + r² / 2 with all their bits, and of the rest, r³ / 6 …, those that count.
    const square: Pair = .product(r, r);
    var tail: f64 = 0;
    comptime var n = 16;
    inline while (n >= 3) : (n -= 1) tail = (tail + comptime 1.0 / factorial(n)) * r;
    const line: Pair = .sum(1, r);
    const curve: Pair = .sum(line.hi, square.hi / 2);
    const low = (square.lo / 2 + line.lo + curve.lo) + (tail * square.hi + rest.lo * (1 + r));
    const result = curve.hi + low;
    return math.ldexp(result, @intFromFloat(count));
}

fn factorial(comptime n: comptime_int) comptime_float {
    var product: comptime_float = 1;
    for (2..n + 1) |i| product *= i;
    return product;
}

pub fn power(x: f64, y: f64) f64 {
    // Zeros, infinities, NaN, and powers that can only be 0, 1 or infinite.
    if (x == 0 or x == 1 or !math.isFinite(x) or y == 0 or !(@abs(y) < 0x1p64)) return math.pow(f64, x, y);
    if (x < 0) {
        if (@trunc(y) != y) return math.nan(f64);
        const magnitude = power(-x, y);
        // Beyond 2^53 every number is even.
        const is_odd = @abs(y) < 0x1p53 and @rem(y, 2) != 0;
        return if (is_odd) -magnitude else magnitude;
    }
    if (y == 1) return x;
    const exponent = log(x);
    const scaled: Pair = .product(y, exponent.hi);
    return exp(.sum(scaled.hi, scaled.lo + y * exponent.lo));
}

const testing = std.testing;

test power {
    try testing.expectEqual(8, power(2, 3));
    try testing.expectEqual(-8, power(-2, 3));
    try testing.expectEqual(1.0 / 16.0, power(-2, -4));
    try testing.expectEqual(math.sqrt2, power(2, 0.5));
    try testing.expectEqual(math.inf(f64), power(0, -1));
    try testing.expectEqual(-math.inf(f64), power(-0.0, -3));
    try testing.expectEqual(math.inf(f64), power(10, 309));
    try testing.expectEqual(0, power(10, -330));
    try testing.expectEqual(5e-324, power(2, -1074));
    try testing.expectEqual(1, power(math.nan(f64), 0));
    try testing.expectEqual(1, power(1, math.nan(f64)));
    try testing.expectEqual(math.inf(f64), power(1.0000001, 1e300));
    try testing.expectEqual(0, power(0.9, 1e300));
    try testing.expect(math.isNan(power(-8, 1.0 / 3.0)));
    try testing.expect(math.isNan(power(math.nan(f64), 2)));
    for ([_]f64{ 5e-324, 1e-310, 1e308, -1e308, 1.5, 0x1p-1022 }) |x| for ([_]f64{ 1e18, -1e18, 0.1, -0.1, 5e-324 }) |y| {
        _ = power(x, y);
    };
}

test "powers of ten" {
    for (0..308) |n| {
        var buffer: [8]u8 = undefined;
        const nearest = try std.fmt.parseFloat(f64, try std.fmt.bufPrint(&buffer, "1e{d}", .{n}));
        const got = power(10, @floatFromInt(n));
        // Whole numbers that a float holds come out exactly.
        if (n <= 22) try testing.expectEqual(nearest, got);
        try testing.expect(@abs(@as(i64, @bitCast(nearest)) - @as(i64, @bitCast(got))) <= 1);
    }
}
