//! Functions of floats that have no exact answer. Nothing fails: what is undefined is NaN or infinite, as in
//! DuckDB 2.0, whose `ieee_floating_point_ops` is on.
const std = @import("std");
const power = @import("power.zig");
const math = std.math;

pub const Unary = enum {
    sqrt,
    cbrt,
    exp,
    ln,
    log10,
    log2,
    sin,
    cos,
    tan,
    asin,
    acos,
    atan,
    cot,
    sinh,
    cosh,
    tanh,
    asinh,
    acosh,
    atanh,
    degrees,
    radians,
    gamma,
    log_gamma,
};
pub const Binary = enum { log, power, atan2, next_after, float_divide, float_modulo };

pub inline fn unary(comptime function: Unary, x: f64) f64 {
    return switch (function) {
        .sqrt => @sqrt(x),
        .cbrt => math.cbrt(x),
        .exp => @exp(x),
        .ln => @log(x),
        .log10 => log10(x),
        .log2 => log2(x),
        .sin => @sin(x),
        .cos => @cos(x),
        .tan => @tan(x),
        .asin => math.asin(x),
        .acos => math.acos(x),
        .atan => math.atan(x),
        .cot => 1 / @tan(x),
        .sinh => math.sinh(x),
        .cosh => math.cosh(x),
        .tanh => math.tanh(x),
        .asinh => math.asinh(x),
        .acosh => if (x < 1) math.nan(f64) else math.acosh(x),
        .atanh => math.atanh(x),
        .degrees => x * (180.0 / math.pi),
        .radians => x * (math.pi / 180.0),
        .gamma => math.gamma(f64, x),
        .log_gamma => math.lgamma(f64, x),
    };
}

pub inline fn binary(comptime function: Binary, a: f64, b: f64) f64 {
    return switch (function) {
        .log => log10(b) / log10(a),
        .power => power.power(a, b),
        .atan2 => math.atan2(a, b),
        .next_after => math.nextAfter(f64, a, b),
        .float_divide => @floor(a / b),
        .float_modulo => a - b * @floor(a / b),
    };
}

/// The library's logarithms are wrong from the eighth digit on where x is subnormal.
const lift_bits = 54;
const lift = 0x1p54;

inline fn log10(x: f64) f64 {
    return if (x < math.floatMin(f64)) @log10(x * lift) - lift_bits * @log10(2.0) else @log10(x);
}

inline fn log2(x: f64) f64 {
    return if (x < math.floatMin(f64)) @log2(x * lift) - lift_bits else @log2(x);
}

pub fn map(comptime function: Unary, values: []const f64, out: []f64) void {
    for (out, values) |*to, value| to.* = unary(function, value);
}

test unary {
    @setEvalBranchQuota(100_000);
    try std.testing.expectEqual(3, unary(.sqrt, 9));
    try std.testing.expect(math.isNan(unary(.sqrt, -1)));
    try std.testing.expectEqual(-math.inf(f64), unary(.ln, 0));
    try std.testing.expectEqual(math.inf(f64), unary(.atanh, 1));
    try std.testing.expectApproxEqRel(180, unary(.degrees, math.pi), 1e-15);
    try std.testing.expectApproxEqRel(-310, unary(.log10, 1e-310), 1e-15);
    try std.testing.expectApproxEqRel(-1029.7977094150824, unary(.log2, 1e-310), 1e-15);
    try std.testing.expectEqual(-1074, unary(.log2, 5e-324));
    inline for (comptime std.enums.values(Unary)) |function| {
        for ([_]f64{ 0, -0.0, 1, -1, math.inf(f64), -math.inf(f64), math.nan(f64), 1e308, -1e308, 5e-324 }) |x|
            _ = unary(function, x);
        if (function != .gamma and function != .log_gamma)
            try std.testing.expect(math.isNan(unary(function, math.nan(f64))));
    }
}

test binary {
    try std.testing.expectEqual(3, binary(.log, 2, 8));
    try std.testing.expectEqual(8, binary(.power, 2, 3));
    try std.testing.expectEqual(math.inf(f64), binary(.power, 0, -1));
    try std.testing.expectEqual(0.5, binary(.float_modulo, -5.5, 2));
    try std.testing.expectEqual(-3, binary(.float_divide, -5, 2));
}
