//! x · y + z, rounded once.
//!
//! WebAssembly has no instruction for it, and the library function behind `@mulAdd` gives NaN where z is
//! some 2^1000 times the product (1e-310 · 0.5 + 1), and rounds wrongly at times.
//!
//! A product of two f64 is exact in f128: 106 bits of 113. The sum is not. What it loses is known exactly, and
//! goes into its last bit ("round to odd"), so that the second rounding, to f64, falls as if it were the only
//! one: Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008.
const std = @import("std");
const math = std.math;

pub fn multiply_add(x: f64, y: f64, z: f64) f64 {
    const product = @as(f128, x) * @as(f128, y);
    const term: f128 = z;
    const sum = product + term;
    if (!math.isFinite(sum)) return @floatCast(sum);
    const other = sum - product;
    const lost = (product - (sum - other)) + (term - other);
    return @floatCast(if (lost == 0) sum else odd(sum, lost));
}

/// Of the two neighbours of sum + lost, the one whose last bit is set.
fn odd(sum: f128, lost: f128) f128 {
    const bits: u128 = @bitCast(sum);
    if (bits & 1 == 1) return sum;
    return @bitCast(if ((lost > 0) == (sum > 0)) bits + 1 else bits - 1);
}

test multiply_add {
    const inf = math.inf(f64);
    try std.testing.expectEqual(7, multiply_add(2, 3, 1));
    try std.testing.expectEqual(1, multiply_add(1e-310, 0.5, 1));
    try std.testing.expectEqual(-1e300, multiply_add(5e-324, 5e-324, -1e300));
    try std.testing.expectEqual(1e-310, multiply_add(1e-310, 1, 0));
    try std.testing.expectEqual(0, multiply_add(5e-324, 0.5, 0)); // halfway, to even
    try std.testing.expectEqual(inf, multiply_add(1e200, 1e200, -1e300));
    try std.testing.expectEqual(inf, multiply_add(inf, 2, 1));
    try std.testing.expect(math.isNan(multiply_add(inf, 1, -inf)));
    try std.testing.expect(math.isNan(multiply_add(1, 1, math.nan(f64))));
    try std.testing.expect(math.signbit(multiply_add(-0.0, 1, -0.0)));
    try std.testing.expect(!math.signbit(multiply_add(1, 1, -1)));
    // (1 + 2^-52)² - 1 - 2^-51 = 2^-104: nothing of the product is lost.
    const next = 1 + math.floatEps(f64);
    try std.testing.expectEqual(0x1p-104, multiply_add(next, next, -(1 + 2 * math.floatEps(f64))));
    // Just above halfway between 1 and its neighbour: rounding twice would fall to 1.
    try std.testing.expectEqual(next, multiply_add(0x1p-53, next, 1));
    try std.testing.expectEqual(1, multiply_add(0x1p-53, 1, 1));
}
