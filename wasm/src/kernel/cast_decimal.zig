//! Casts to, from and between decimals: rescaling unscaled integers, and floats. cast.zig says how they round
//! and what validity and mode mean.
const std = @import("std");
const arithmetic = @import("arithmetic.zig");
const bitmap = @import("../core/bitmap.zig");
const cast = @import("cast.zig");
const interrupt = @import("../core/interrupt.zig");
const schema = @import("../core/schema.zig");
const DataType = schema.DataType;
const Error = cast.Error;
const Mode = cast.Mode;
const assert = std.debug.assert;
const settle = cast.settle;
const testing = std.testing;

/// 10^0 to 10^38: the last one fits an i128.
pub const powers_of_ten: [39]i128 = blk: {
    var powers: [39]i128 = undefined;
    powers[0] = 1;
    for (1..39) |i| powers[i] = powers[i - 1] * 10;
    break :blk powers;
};

/// Multiplies unscaled values by 10^delta_scale, rounding half away from zero where that divides.
/// `From` is any integer (scale 0), `To` i64 or i128. |result| < 10^precision_limit, or it fails;
/// a limit of 0 asks only that the result's magnitude fits `To`.
pub fn rescale(
    comptime From: type,
    comptime To: type,
    values: []const From,
    delta_scale: i16,
    validity: ?[]const u8,
    out: []To,
    precision_limit: u8,
    mode: Mode,
    out_validity: ?[]u8,
) Error!bool {
    assert(values.len == out.len);
    const scaler: Scaler(From, To) = .init(delta_scale, precision_limit);
    if (From == i64 and scaler.is_safe(arithmetic.bits_needed(i64, values))) {
        // Nothing can leave 64 bits or the limit: most columns of prices and quantities.
        const factor: i64 = @intCast(scaler.factor);
        for (out, values) |*to, value| to.* = @intCast(value *% factor);
        return false;
    }
    var fits = true;
    for (out, values) |*to, value| {
        const result = scaler.apply(value);
        to.* = result orelse 0;
        fits = fits and result != null;
    }
    if (fits) return false;
    return settle(From, To, values, validity, mode, out_validity, &scaler, struct {
        fn fails(value: From, s: *const Scaler(From, To)) bool {
            return s.apply(value) == null;
        }
    }.fails);
}

/// Whether a cast changes nothing but the storage, from 64 bits to 128.
pub fn only_widens(from: DataType, to: DataType) bool {
    if (from.layout() != .i64 or to.layout() != .i128) return false;
    if (to.tag == .i128) return from.tag == .i64;
    return from.tag == .decimal and to.tag == .decimal and from.scale == to.scale and from.precision <= to.precision;
}

fn Scaler(comptime From: type, comptime To: type) type {
    // Where both sides and the factor are narrow, everything happens in 64 bits.
    const Wide = if (From == i128 or From == u64 or To == i128) i128 else i64;
    return struct {
        const Self = @This();

        kind: enum { up, down, beyond_up, beyond_down },
        /// 10^|delta|; i64 holds up to 10^18.
        factor: Wide,
        /// Up: what |value| may be; checking before multiplying means nothing can overflow.
        /// Down: what |result| may be.
        bound: Wide,

        fn init(delta: i16, precision_limit: u8) Self {
            const digits: u16 = @abs(delta);
            const power_max: u16 = if (Wide == i64) 18 else 38;
            const limit = result_limit(precision_limit);
            if (digits > power_max) return .{
                .kind = if (delta > 0) .beyond_up else .beyond_down,
                .factor = 1,
                .bound = 0,
            };
            const factor: Wide = @intCast(powers_of_ten[digits]);
            const bound = if (delta > 0) @divTrunc(limit, factor) else limit;
            return .{ .kind = if (delta > 0) .up else .down, .factor = factor, .bound = bound };
        }

        /// Whether numbers of so many bits stay inside the bound, and their products inside 64 bits.
        fn is_safe(self: *const Self, bits: u32) bool {
            if (self.kind != .up and self.factor != 1) return false;
            if (self.kind == .beyond_up or self.kind == .beyond_down) return false;
            const factor_bits = @bitSizeOf(Wide) - @as(u32, @clz(self.factor));
            return bits + factor_bits <= 62 and @as(i128, 1) << @intCast(bits) <= self.bound;
        }

        /// The greatest magnitude a result may have.
        fn result_limit(precision: u8) Wide {
            const type_max: i128 = @min(@as(i128, std.math.maxInt(Wide)), @as(i128, std.math.maxInt(To)));
            if (precision == 0) return @intCast(type_max);
            return @intCast(@min(powers_of_ten[precision] - 1, type_max));
        }

        inline fn apply(self: *const Self, from: From) ?To {
            const value: Wide = from;
            switch (self.kind) {
                .up => {
                    if (value > self.bound or value < -self.bound) return null;
                    return @intCast(multiply(value, self.factor));
                },
                .down => {
                    const result = divide_round(Wide, value, self.factor);
                    if (result > self.bound or result < -self.bound) return null;
                    return @intCast(result);
                },
                // More digits than the type has: only zero stays, everything else is too large …
                .beyond_up => return if (value == 0) 0 else null,
                // … or less than half a unit.
                .beyond_down => return 0,
            }
        }

        /// The product is known to fit. A 128-bit product is a call in wasm, so 64 bits are tried.
        inline fn multiply(value: Wide, factor: Wide) Wide {
            if (Wide == i128 and factor <= std.math.maxInt(u31)) {
                if (narrow(value)) |small| if (@abs(small) <= std.math.maxInt(u32)) {
                    return small * @as(i64, @intCast(factor));
                };
            }
            return value * factor;
        }
    };
}

inline fn narrow(value: i128) ?i64 {
    const small: i64 = @truncate(value);
    return if (small == value) small else null;
}

/// value / divisor, half away from zero. The divisor is positive.
pub inline fn divide_round(comptime T: type, value: T, divisor: T) T {
    if (T == i128) {
        // A 128-bit division is a slow call, and most values are short.
        if (narrow(value)) |small| if (narrow(divisor)) |by| return divide_round(i64, small, by);
    }
    if (divisor == 1) return value;
    const quotient = @divTrunc(value, divisor);
    const rest = @abs(value - quotient * divisor);
    if (rest < @abs(divisor) - rest) return quotient;
    return if (value < 0) quotient - 1 else quotient + 1;
}

/// The float64 nearest to value / 10^scale.
pub fn decimal_to_float(comptime From: type, values: []const From, scale: i8, out: []f64) void {
    assert(values.len == out.len);
    for (out, values) |*to, value| to.* = decimal_to_float_one(value, scale);
}

/// Powers of ten that float64 holds exactly.
const exact_powers: [23]f64 = blk: {
    var powers: [23]f64 = undefined;
    for (&powers, 0..) |*power, i| power.* = @floatFromInt(powers_of_ten[i]);
    break :blk powers;
};

pub inline fn decimal_to_float_one(value: i128, scale: i8) f64 {
    if (scale >= 0 and scale < exact_powers.len) {
        // Both exact, so the division is the only rounding.
        if (narrow(value)) |small| if (@abs(small) <= 1 << 53) {
            return @as(f64, @floatFromInt(small)) / exact_powers[@intCast(scale)];
        };
    }
    return decimal_to_float_slow(value, scale);
}

/// Divides in integers, to more than 64 bits of quotient with a sticky last bit, and lets the
/// conversion round once. Only the powers of five divide; the powers of two move the exponent.
fn decimal_to_float_slow(value: i128, scale: i8) f64 {
    if (value == 0) return 0;
    if (scale <= 0) return @as(f64, @floatFromInt(value)) / float_power(scale);
    const fives = power_of_five(@intCast(scale));
    const shift = @clz(@abs(value));
    const numerator = @abs(value) << @intCast(shift);
    var quotient = numerator / fives;
    var rest = numerator % fives;
    var exponent: i32 = -@as(i32, shift) - scale;
    if (quotient >> 64 == 0) {
        // 5^38 has 89 bits: the rest can move up by 39.
        rest <<= 39;
        quotient = quotient << 39 | rest / fives;
        rest %= fives;
        exponent -= 39;
    }
    quotient |= @intFromBool(rest != 0);
    const magnitude = std.math.ldexp(@as(f64, @floatFromInt(quotient)), exponent);
    return if (value < 0) -magnitude else magnitude;
}

fn power_of_five(exponent: u7) u128 {
    assert(exponent <= schema.decimal_precision_max);
    // 10^n = 5^n × 2^n.
    return @as(u128, @intCast(powers_of_ten[exponent])) >> exponent;
}

/// The float64 nearest to 10^exponent.
fn float_power(exponent: i8) f64 {
    const power: f64 = @floatFromInt(powers_of_ten[@abs(exponent)]);
    return if (exponent < 0) 1 / power else power;
}

/// `To` is i64 or i128.
pub fn float_to_decimal(
    comptime To: type,
    values: []const f64,
    scale: i8,
    validity: ?[]const u8,
    out: []To,
    precision: u8,
    mode: Mode,
    out_validity: ?[]u8,
) Error!bool {
    assert(values.len == out.len);
    const scaling: FloatScaling = .{
        .factor = float_power(scale),
        .limit = @floatFromInt(powers_of_ten[precision]),
    };
    var fits = true;
    for (out, values) |*to, value| {
        const result = scaling.apply(value);
        to.* = @intFromFloat(result orelse 0);
        fits = fits and result != null;
    }
    if (fits) return false;
    return settle(f64, To, values, validity, mode, out_validity, &scaling, struct {
        fn fails(value: f64, s: *const FloatScaling) bool {
            return s.apply(value) == null;
        }
    }.fails);
}

const FloatScaling = struct {
    factor: f64,
    limit: f64,

    inline fn apply(self: *const FloatScaling, value: f64) ?f64 {
        const scaled = value * self.factor;
        const whole = @trunc(scaled);
        // The difference is exact, so a value just below one half stays below.
        const rounded = if (@abs(scaled - whole) >= 0.5) whole + std.math.copysign(@as(f64, 1), scaled) else whole;
        return if (@abs(rounded) < self.limit) rounded else null;
    }
};

fn expected_rescale(comptime To: type, value: i300, delta: i16, precision: u8) ?To {
    var power: i300 = 1;
    for (0..@abs(delta)) |_| power *= 10;
    var result = value;
    if (delta >= 0) {
        result *= power;
    } else {
        const half = @divTrunc(power, 2);
        result = @divTrunc(value + @as(i300, if (value < 0) -half else half), power);
    }
    if (@abs(result) >= @as(u300, @intCast(powers_of_ten[precision]))) return null;
    return std.math.cast(To, result);
}

test rescale {
    defer interrupt.forget();
    var prng: std.Random.DefaultPrng = .init(32);
    const random = prng.random();
    inline for (.{ i64, u64, i128 }) |From| inline for (.{ i64, i128 }) |To| {
        for (0..400) |_| {
            var values: [9]From = undefined;
            for (&values) |*value| {
                const shift = random.uintLessThan(u8, @bitSizeOf(From));
                value.* = random.int(From) >> @intCast(shift);
                if (random.boolean()) value.* = @intCast(random.uintLessThan(u16, 1000) * 5); // ties
            }
            const delta = random.intRangeAtMost(i16, -45, 45);
            const precision = random.intRangeAtMost(u8, 1, if (To == i64) 18 else 38);
            var out: [9]To = undefined;
            var out_validity: [2]u8 = @splat(0xFF);
            const validity = [_]u8{ 0b1111_0111, 0xFF };
            _ = try rescale(From, To, &values, delta, null, &out, precision, .try_cast, &out_validity);
            var any_failed = false;
            for (values, out, 0..) |value, got, row| {
                const wanted = expected_rescale(To, value, delta, precision);
                try testing.expectEqual(wanted != null, bitmap.get(&out_validity, row));
                if (wanted) |number| try testing.expectEqual(number, got);
                any_failed = any_failed or (wanted == null and bitmap.get(&validity, row));
            }
            const strict = rescale(From, To, &values, delta, &validity, &out, precision, .strict, null);
            if (any_failed) try testing.expectError(error.OutOfRange, strict) else try testing.expect(!try strict);
        }
    };
}

test "decimal_to_float is the nearest float" {
    var prng: std.Random.DefaultPrng = .init(33);
    const random = prng.random();
    for (0..20_000) |_| {
        const value = random.int(i128) >> @intCast(random.uintLessThan(u8, 127));
        if (@abs(value) >= @as(u128, @intCast(powers_of_ten[38]))) continue;
        const scale = random.intRangeAtMost(i8, 0, 38);
        var text: [64]u8 = undefined;
        const written = try std.fmt.bufPrint(&text, "{d}e-{d}", .{ value, @as(u8, @intCast(scale)) });
        var out: [1]f64 = undefined;
        decimal_to_float(i128, &.{value}, scale, &out);
        try testing.expectEqual(try std.fmt.parseFloat(f64, written), out[0]);
    }
    var out: [1]f64 = undefined;
    decimal_to_float(i64, &.{123}, -2, &out);
    try testing.expectEqual(12300, out[0]);
}

fn expect_decimal(value: f64, precision: u8, scale: i8, wanted: ?i128) !void {
    var out: [1]i128 = undefined;
    const result = float_to_decimal(i128, &.{value}, scale, null, &out, precision, .strict, null);
    if (wanted) |number| {
        try testing.expect(!try result);
        try testing.expectEqual(number, out[0]);
    } else try testing.expectError(error.OutOfRange, result);
}

test "float_to_decimal as DuckDB answers" {
    defer interrupt.forget();
    try expect_decimal(2.5, 3, 0, 3);
    try expect_decimal(-2.5, 3, 0, -3);
    try expect_decimal(0.49999999999999994, 3, 0, 0);
    try expect_decimal(0.285, 5, 2, 28);
    try expect_decimal(1.115, 5, 2, 112);
    try expect_decimal(999.994, 5, 2, 99999);
    try expect_decimal(999.995, 5, 2, null);
    try expect_decimal(99.5, 2, 0, null);
    try expect_decimal(4.35, 38, 20, 434999999999999934464);
    try expect_decimal(1e30, 38, 2, 100000000000000005366162204393472);
    try expect_decimal(std.math.nan(f64), 5, 2, null);
    try expect_decimal(-std.math.inf(f64), 5, 2, null);
    try expect_decimal(1.7e38, 38, 0, null);
}
