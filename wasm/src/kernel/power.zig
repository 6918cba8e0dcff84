//! x^y to within a unit in the last place.
//!
//! x^y = e^(y log x), and an error of the logarithm is multiplied by up to 745, so log x and its product with y
//! are sums of two floats (106 bits). x is m × 2^e with m near 1, and log m = 2 artanh((m - 1) / (m + 1)), whose
//! argument is at most 0.172, so that sixteen terms of the series do. WebAssembly has no fused multiplication;
//! exact products are made of halves, after Dekker. All of it is one long chain, so four rows go side by side.
const std = @import("std");
const math = std.math;

const lanes = 4;
const Float = @Vector(lanes, f64);
const Bits = @Vector(lanes, u64);
const Signed = @Vector(lanes, i64);

inline fn splat(value: f64) Float {
    return @splat(value);
}

/// hi + lo, where lo is less than a unit of hi's last place.
const Pair = struct {
    hi: Float,
    lo: Float,

    /// Exact.
    inline fn sum(a: Float, b: Float) Pair {
        const hi = a + b;
        const part = hi - a;
        return .{ .hi = hi, .lo = (a - (hi - part)) + (b - part) };
    }

    /// Exact, unless the halves overflow: factors below 2^990 are safe.
    inline fn product(a: Float, b: Float) Pair {
        const hi = a * b;
        const x: Pair = .halves(a);
        const y: Pair = .halves(b);
        return .{ .hi = hi, .lo = ((x.hi * y.hi - hi) + x.hi * y.lo + x.lo * y.hi) + x.lo * y.lo };
    }

    /// Each of 26 bits.
    inline fn halves(a: Float) Pair {
        const scaled = a * splat(0x1.0000002p27);
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

/// log 2 in two parts; the first has so many zeros at its end that its product with an exponent is exact.
const log2_hi: f64 = 0x1.62e42fee00000p-1;
const log2_lo: f64 = 0x1.a39ef35793c76p-33;

/// The natural logarithm of normal positive numbers.
inline fn log(x: Float) Pair {
    const bits: Bits = @bitCast(x);
    // m lies between 1/√2 and √2: moving the border of the exponents there makes one subtraction of both.
    const border: Bits = @splat(@bitCast(@as(f64, math.sqrt1_2)));
    const whole = @as(Signed, @bitCast(bits -% border)) >> @splat(52);
    const m: Float = @bitCast(bits -% @as(Bits, @bitCast(whole << @splat(52))));
    const exponent: Float = @floatFromInt(whole);
    // m is between 1/2 and 2, so m - 1 is exact.
    const above = m - splat(1);
    const below: Pair = .sum(m, splat(1));
    const quotient = above / below.hi;
    const back: Pair = .product(quotient, below.hi);
    const s: Pair = .{ .hi = quotient, .lo = ((above - back.hi) - back.lo - quotient * below.lo) / below.hi };
    const square = s.multiply(s);
    // The series from its second term on: of that one all bits count, of the others some are enough.
    const z = square.hi;
    const factor: Pair = .sum(splat(2.0 / 3.0), z * polynomial(&series, z) + splat(two_thirds_rest));
    const small = s.multiply(square.multiply(factor)).add(.{ .hi = s.hi + s.hi, .lo = s.lo + s.lo });
    return Pair.sum(exponent * splat(log2_hi), exponent * splat(log2_lo)).add(small);
}

/// What the float 2/3 lacks.
const two_thirds_rest: f64 = 2.0 / 3.0 - @as(comptime_float, @as(f64, 2.0 / 3.0));

/// 2/5, 2/7, 2/9 …
const series: [14]f64 = blk: {
    var terms: [14]f64 = undefined;
    for (&terms, 0..) |*term, n| term.* = 2.0 / @as(comptime_float, 2 * n + 5);
    break :blk terms;
};

/// 1/3!, 1/4! …
const inverse_factorials: [14]f64 = blk: {
    var terms: [14]f64 = undefined;
    var product: comptime_float = 2;
    for (&terms, 3..) |*term, n| {
        product *= n;
        term.* = 1.0 / product;
    }
    break :blk terms;
};

/// In pairs, pairs of pairs and so on, which takes a third of the time that one term after another does.
inline fn polynomial(comptime terms: []const f64, z: Float) Float {
    if (terms.len == 1) return splat(terms[0]);
    const pairs = (terms.len + 1) / 2;
    var sums: [pairs]Float = undefined;
    inline for (0..pairs) |i| {
        sums[i] = splat(terms[2 * i]);
        if (2 * i + 1 < terms.len) sums[i] += splat(terms[2 * i + 1]) * z;
    }
    var step = z * z;
    comptime var count = pairs;
    inline while (count > 1) : (count = (count + 1) / 2) {
        inline for (0..(count + 1) / 2) |i| {
            sums[i] = if (2 * i + 1 < count) sums[2 * i] + sums[2 * i + 1] * step else sums[2 * i];
        }
        step *= step;
    }
    return sums[0];
}

/// e^(hi + lo), for sums between -800 and 800. Beyond what a float holds it is infinite or zero.
inline fn exp(x: Pair) Float {
    // To the nearest: 1.5 × 2^52 leaves no room for a fraction.
    const base = splat(0x1.8p52);
    const shifted = x.hi * splat(math.log2e) + base;
    const count = shifted - base;
    const rest: Pair = .sum(x.hi - count * splat(log2_hi), x.lo - count * splat(log2_lo));
    const r = rest.hi;
    // 1 + r + r² / 2 with all their bits, and of the rest, r³ / 6 …, those that count.
    const square: Pair = .product(r, r);
    const tail = r * polynomial(&inverse_factorials, r);
    const line: Pair = .sum(splat(1), r);
    const curve: Pair = .sum(line.hi, square.hi * splat(0.5));
    const low = (square.lo * splat(0.5) + line.lo + curve.lo) + (tail * square.hi + rest.lo * (splat(1) + r));
    // In two steps, so that neither factor leaves the exponents there are.
    const whole = @as(Signed, @bitCast(shifted)) -% @as(Signed, @bitCast(base));
    const half = whole >> @splat(1);
    return (curve.hi + low) * power_of_two(half) * power_of_two(whole -% half);
}

inline fn power_of_two(exponent: Signed) Float {
    return @bitCast((exponent +% @as(Signed, @splat(1023))) << @splat(52));
}

/// Of normal positive numbers, and exponents that keep the answer's logarithm within some thousands.
inline fn power_lanes(x: Float, y: Float) Float {
    const exponent = log(x);
    const scaled: Pair = .product(y, exponent.hi);
    const limit = splat(800);
    const total: Pair = .sum(scaled.hi, scaled.lo + y * exponent.lo);
    const inside = @abs(total.hi) < limit;
    return exp(.{
        .hi = @select(f64, inside, total.hi, @select(f64, total.hi > splat(0), limit, -limit)),
        .lo = @select(f64, inside, total.lo, splat(0)),
    });
}

inline fn is_plain(x: f64, y: f64) bool {
    return x >= 0x1p-1022 and x < math.inf(f64) and @abs(y) < 0x1p64;
}

/// One row; infinities, zeros, NaN and signs as IEEE 754 says.
pub fn power(x: f64, y: f64) f64 {
    if (is_plain(x, y)) return power_lanes(@splat(x), @splat(y))[0];
    // What can only be 0, 1, infinite or NaN.
    if (x == 0 or !math.isFinite(x) or y == 0 or !(@abs(y) < 0x1p64)) return math.pow(f64, x, y);
    // Subnormal: (x × 2^64)^y × 2^(-64 y).
    if (x > 0) return power(x * 0x1p64, y) * power(0x1p-64, y);
    if (@trunc(y) != y) return math.nan(f64);
    const magnitude = power(-x, y);
    // Beyond 2^53 every number is even.
    const is_odd = @abs(y) < 0x1p53 and @rem(y, 2) != 0;
    return if (is_odd) -magnitude else magnitude;
}

/// `x` and `y` give a value for a row.
pub fn fill(
    out: []f64,
    context: anytype,
    comptime x: fn (@TypeOf(context), usize) f64,
    comptime y: fn (@TypeOf(context), usize) f64,
) void {
    var i: usize = 0;
    while (i < out.len) : (i += lanes) {
        const count = @min(lanes, out.len - i);
        var bases: [lanes]f64 = @splat(1);
        var exponents: [lanes]f64 = @splat(1);
        var plain = true;
        for (bases[0..count], exponents[0..count], i..) |*base, *exponent, row| {
            base.* = x(context, row);
            exponent.* = y(context, row);
            plain = plain and is_plain(base.*, exponent.*);
        }
        if (plain) {
            const result: [lanes]f64 = power_lanes(bases, exponents);
            @memcpy(out[i..][0..count], result[0..count]);
        } else for (out[i..][0..count], bases[0..count], exponents[0..count]) |*to, base, exponent| {
            to.* = power(base, exponent);
        }
    }
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
    try testing.expectEqual(5e-324, power(5e-324, 1));
    try testing.expectEqual(1, power(math.nan(f64), 0));
    try testing.expectEqual(1, power(1, math.nan(f64)));
    try testing.expectEqual(1, power(1, 1e18));
    try testing.expectEqual(math.inf(f64), power(1.0000001, 1e300));
    try testing.expectEqual(0, power(0.9, 1e300));
    try testing.expectEqual(math.inf(f64), power(2, 1e18));
    try testing.expectEqual(0, power(2, -1e18));
    try testing.expect(math.isNan(power(-8, 1.0 / 3.0)));
    try testing.expect(math.isNan(power(math.nan(f64), 2)));
    for ([_]f64{ 5e-324, 1e-310, 1e308, -1e308, 1.5, 0x1p-1022 }) |x|
        for ([_]f64{ 1e18, -1e18, 0.1, -0.1, 5e-324 }) |y| {
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

test fill {
    const bases = [_]f64{ 1, 2, 3, -4, 5, 6, 0, 8, 9 };
    for (0..bases.len + 1) |count| {
        var out: [bases.len]f64 = undefined;
        fill(out[0..count], @as([]const f64, &bases), struct {
            fn x(given: []const f64, row: usize) f64 {
                return given[row];
            }
        }.x, struct {
            fn y(_: []const f64, _: usize) f64 {
                return 2;
            }
        }.y);
        for (out[0..count], bases[0..count]) |got, base| try testing.expectEqual(base * base, got);
    }
}
