//! Texts of digits → numbers: what reading CSV and JSON shares with CAST.
//!
//!     integer     [+-] digits
//!     float       [+-] (digits [. digits*] | . digits) [(e|E) [+-] digits], nan, inf, infinity
//!     decimal     [+-] digits [. digits*]
//!
//! Floats are correctly rounded: when the digits fit 2^53 and the power of ten is exact, one multiplication or
//! division rounds once; everything else goes to the standard library's exact conversion.
const std = @import("std");
const schema = @import("../core/schema.zig");
const assert = std.debug.assert;

/// Text beyond this is never a number, date or time. RFC 8259 section 9 lets a reader set limits.
pub const number_size_max = 1024;

fn is_digit(byte: u8) bool {
    return byte -% '0' < 10;
}

/// A number taken apart: value = mantissa × 10^exponent, exact unless `truncated`.
pub const Number = struct {
    mantissa: u64,
    exponent: i32,
    negative: bool,
    plus_sign: bool,
    /// Starts with 0 and another digit.
    leading_zero: bool,
    /// Digits only.
    integral: bool,
    /// More significant digits than `mantissa` holds; they count in `exponent`.
    truncated: bool,

    pub fn fits_i64(self: Number) bool {
        if (!self.integral or self.truncated) return false;
        const limit: u64 = @as(u64, 1) << 63;
        return if (self.negative) self.mantissa <= limit else self.mantissa < limit;
    }

    pub fn fits_u64(self: Number) bool {
        return self.integral and !self.truncated and (!self.negative or self.mantissa == 0);
    }
};

const Scan = struct {
    text: []const u8,
    position: usize = 0,
    mantissa: u64 = 0,
    dropped: u32 = 0,
    truncated: bool = false,

    fn peek(self: *const Scan) u8 {
        return if (self.position < self.text.len) self.text[self.position] else 0;
    }

    /// Takes digits into the mantissa; returns how many.
    inline fn digits(self: *Scan) u32 {
        const start = self.position;
        // Locals, and a bound that spares the check for overflow: the usual number ends here.
        var position = start;
        var mantissa = self.mantissa;
        const safe_max = (std.math.maxInt(u64) - 9) / 10;
        while (position < self.text.len and mantissa <= safe_max) : (position += 1) {
            const digit = self.text[position] -% '0';
            if (digit > 9) break;
            mantissa = mantissa * 10 + digit;
        }
        self.position = position;
        self.mantissa = mantissa;
        if (mantissa > safe_max) self.last_digits();
        return @intCast(self.position - start);
    }

    fn last_digits(self: *Scan) void {
        while (self.position < self.text.len) : (self.position += 1) {
            const digit = self.text[self.position] -% '0';
            if (digit > 9) break;
            self.take_last(digit);
        }
    }

    fn take_last(self: *Scan, digit: u8) void {
        const product = @mulWithOverflow(self.mantissa, 10);
        const sum = @addWithOverflow(product[0], digit);
        if (self.truncated or product[1] != 0 or sum[1] != 0) {
            self.truncated = true;
            self.dropped += 1;
        } else {
            self.mantissa = sum[0];
        }
    }
};

/// Takes a decimal number apart; null when the text is not one.
pub fn scan_number(text: []const u8) ?Number {
    if (text.len == 0 or text.len > number_size_max) return null;
    var scan: Scan = .{ .text = text };
    const sign = text[0];
    if (sign == '-' or sign == '+') scan.position = 1;
    const leading_zero = scan.peek() == '0' and scan.position + 1 < text.len and is_digit(text[scan.position + 1]);
    const whole_count = scan.digits();
    var exponent: i32 = 0;
    var fraction_count: u32 = 0;
    const pointed = scan.peek() == '.';
    if (pointed) {
        scan.position += 1;
        fraction_count = scan.digits();
        exponent = -@as(i32, @intCast(fraction_count));
    }
    if (whole_count + fraction_count == 0) return null;
    exponent += @intCast(scan.dropped);
    const powered = scan.peek() | 0x20 == 'e';
    if (powered) exponent += scan_exponent(&scan) orelse return null;
    if (scan.position != text.len) return null;
    return .{
        .mantissa = scan.mantissa,
        .exponent = exponent,
        .negative = sign == '-',
        .plus_sign = sign == '+',
        .leading_zero = leading_zero,
        .integral = !pointed and !powered,
        .truncated = scan.truncated,
    };
}

fn scan_exponent(scan: *Scan) ?i32 {
    scan.position += 1;
    const negative = scan.peek() == '-';
    if (negative or scan.peek() == '+') scan.position += 1;
    const start = scan.position;
    var value: i32 = 0;
    while (is_digit(scan.peek())) : (scan.position += 1) {
        // Past this every float is 0 or infinity, however many digits stand before it.
        if (value < 100_000) value = value * 10 + (scan.peek() - '0');
    }
    if (scan.position == start) return null;
    return if (negative) -value else value;
}

/// An integer of any width; null when the text is none or does not fit.
pub fn parse_integer(comptime T: type, text: []const u8) ?T {
    if (text.len == 0 or text.len > number_size_max) return null;
    const negative = text[0] == '-';
    const start: usize = if (negative or text[0] == '+') 1 else 0;
    if (start == text.len) return null;
    if (text.len - start <= 18) return parse_integer_short(T, text[start..], negative);
    var value: u128 = 0;
    for (text[start..]) |byte| {
        if (!is_digit(byte)) return null;
        value = std.math.mul(u128, value, 10) catch return null;
        value = std.math.add(u128, value, byte - '0') catch return null;
    }
    if (!negative) return std.math.cast(T, value);
    if (value > @as(u128, 1) << 127) return null;
    return std.math.cast(T, @as(i128, @bitCast(0 -% value)));
}

/// Up to 18 digits cannot overflow an i64.
fn parse_integer_short(comptime T: type, digits: []const u8, negative: bool) ?T {
    var value: i64 = 0;
    for (digits) |byte| {
        const digit = byte -% '0';
        if (digit > 9) return null;
        value = value * 10 + digit;
    }
    return std.math.cast(T, if (negative) -value else value);
}

const power_of_ten_exact_max = 22;
const powers_of_ten: [power_of_ten_exact_max + 1]f64 = blk: {
    var table: [power_of_ten_exact_max + 1]f64 = undefined;
    var power: f64 = 1;
    for (&table) |*slot| {
        slot.* = power;
        power *= 10;
    }
    break :blk table;
};

/// The float nearest to the text, ties to even; null when it is not a number or a float word.
pub fn parse_f64(text: []const u8) ?f64 {
    const number = scan_number(text) orelse return parse_float_word(f64, text);
    if (!number.truncated and number.mantissa <= 1 << 53 and @abs(number.exponent) <= power_of_ten_exact_max) {
        const mantissa: f64 = @floatFromInt(number.mantissa);
        const power = powers_of_ten[@abs(number.exponent)];
        const value = if (number.exponent < 0) mantissa / power else mantissa * power;
        return if (number.negative) -value else value;
    }
    return std.fmt.parseFloat(f64, text) catch null;
}

/// f16 and f32 are rounded once, straight from the text.
pub fn parse_float(comptime T: type, text: []const u8) ?T {
    if (T == f64) return parse_f64(text);
    if (scan_number(text) == null) return parse_float_word(T, text);
    return std.fmt.parseFloat(T, text) catch null;
}

pub fn is_float_word(text: []const u8) bool {
    return parse_float_word(f64, text) != null;
}

fn parse_float_word(comptime T: type, text: []const u8) ?T {
    if (text.len < 3 or text.len > 9) return null;
    const negative = text[0] == '-';
    const word = if (negative) text[1..] else text;
    if (std.ascii.eqlIgnoreCase(word, "nan")) return std.math.nan(T);
    const infinite = std.ascii.eqlIgnoreCase(word, "inf") or std.ascii.eqlIgnoreCase(word, "infinity");
    if (!infinite) return null;
    return if (negative) -std.math.inf(T) else std.math.inf(T);
}

/// The unscaled integer of a decimal, rounded half away from zero; null when it is no number or
/// has more than `precision` digits.
pub fn parse_decimal(text: []const u8, precision: u8, scale: u8) ?i128 {
    assert(precision > 0 and precision <= schema.decimal_precision_max);
    if (text.len == 0 or text.len > number_size_max) return null;
    const negative = text[0] == '-';
    const body = if (negative or text[0] == '+') text[1..] else text;
    const point = std.mem.indexOfScalar(u8, body, '.') orelse body.len;
    const whole = body[0..point];
    const fraction = body[@min(point + 1, body.len)..];
    if (whole.len + fraction.len == 0 or !all_digits(whole) or !all_digits(fraction)) return null;
    const limit = std.math.powi(i128, 10, precision) catch unreachable;
    var value: i128 = 0;
    for (whole) |byte| {
        if (value >= @divExact(limit, 10)) return null;
        value = value * 10 + (byte - '0');
    }
    for (0..scale) |i| {
        if (value >= @divExact(limit, 10)) return null;
        value = value * 10 + (if (i < fraction.len) fraction[i] - '0' else 0);
    }
    if (fraction.len > scale and fraction[scale] >= '5') value += 1;
    if (value >= limit) return null;
    return if (negative) -value else value;
}

pub fn all_digits(text: []const u8) bool {
    for (text) |byte| if (!is_digit(byte)) return false;
    return true;
}

test parse_integer {
    try std.testing.expectEqual(7, parse_integer(i64, "007"));
    try std.testing.expectEqual(1, parse_integer(u8, "+1"));
    try std.testing.expectEqual(-128, parse_integer(i8, "-128"));
    try std.testing.expectEqual(null, parse_integer(i8, "128"));
    try std.testing.expectEqual(null, parse_integer(u32, "-1"));
    try std.testing.expectEqual(std.math.minInt(i64), parse_integer(i64, "-9223372036854775808"));
    try std.testing.expectEqual(null, parse_integer(i64, "9223372036854775808"));
    try std.testing.expectEqual(std.math.maxInt(u64), parse_integer(u64, "18446744073709551615"));
    try std.testing.expectEqual(std.math.minInt(i128), parse_integer(i128, "-170141183460469231731687303715884105728"));
    try std.testing.expectEqual(null, parse_integer(i128, "170141183460469231731687303715884105728"));
    try std.testing.expectEqual(null, parse_integer(i128, "999999999999999999999999999999999999999999"));
    for ([_][]const u8{ "", "-", "+", "1.", "1e1", " 1", "1234567890123456789x" }) |text| {
        try std.testing.expectEqual(null, parse_integer(i64, text));
    }
}

test "parse_f64 rounds correctly" {
    const cases = [_]struct { []const u8, u64 }{
        .{ "0", 0x0000000000000000 },
        .{ "-0", 0x8000000000000000 },
        .{ "1", 0x3FF0000000000000 },
        .{ "0.1", 0x3FB999999999999A },
        .{ "0.30000000000000004", 0x3FD3333333333334 },
        .{ "9007199254740993", 0x4340000000000000 }, // 2^53 + 1: a tie, to even
        .{ "9007199254740993.0000000000000000000000000001", 0x4340000000000001 },
        .{ "2.2250738585072011e-308", 0x000FFFFFFFFFFFFF },
        .{ "2.2250738585072014e-308", 0x0010000000000000 },
        .{ "4.9e-324", 0x0000000000000001 },
        .{ "2.4703282292062327e-324", 0x0000000000000000 },
        .{ "2.4703282292062328e-324", 0x0000000000000001 },
        .{ "1.7976931348623157e308", 0x7FEFFFFFFFFFFFFF },
        .{ "1.7976931348623159e308", 0x7FF0000000000000 },
        .{ "1e400", 0x7FF0000000000000 },
        .{ "-1e999999999", 0xFFF0000000000000 },
        .{ "1e-999999999", 0x0000000000000000 },
        .{ "6.02214076e23", 0x44DFE185CA57C517 },
        .{ "1e23", 0x44B52D02C7E14AF6 },
        .{ "8.41e21", 0x447C7E83209E90B2 },
        .{ "5.", 0x4014000000000000 },
        .{ ".5", 0x3FE0000000000000 },
        .{ "123456789012345678901234567890", 0x45F8EE90FF6C373E },
        .{ "inf", 0x7FF0000000000000 },
        .{ "-Infinity", 0xFFF0000000000000 },
    };
    for (cases) |case| {
        const bits: u64 = @bitCast(parse_f64(case[0]).?);
        try std.testing.expectEqual(case[1], bits);
    }
    try std.testing.expect(std.math.isNan(parse_f64("NaN").?));
    for ([_][]const u8{ "", "-", ".", "1e", "x", "0x1p3", "1_0", "infinit", "nano" }) |text| {
        try std.testing.expectEqual(null, parse_f64(text));
    }
}

test "parse_f64 reads back what is printed" {
    var prng: std.Random.DefaultPrng = .init(3);
    for (0..5000) |i| {
        const random: f64 = @bitCast(prng.random().int(u64));
        const value = if (i % 2 == 0) random else @as(f64, @floatFromInt(prng.random().int(i32))) / 1000;
        if (!std.math.isFinite(value)) continue;
        var buffer: [64]u8 = undefined;
        const text = try std.fmt.bufPrint(&buffer, "{e}", .{value});
        try std.testing.expectEqual(value, parse_f64(text).?);
    }
}

test parse_decimal {
    try std.testing.expectEqual(1235, parse_decimal("12.345", 9, 2));
    try std.testing.expectEqual(-1235, parse_decimal("-12.345", 9, 2));
    try std.testing.expectEqual(1234, parse_decimal("+12.344999", 9, 2));
    try std.testing.expectEqual(1200, parse_decimal("12", 9, 2));
    try std.testing.expectEqual(50, parse_decimal(".5", 9, 2));
    try std.testing.expectEqual(99999, parse_decimal("999.99", 5, 2));
    try std.testing.expectEqual(null, parse_decimal("999.995", 5, 2));
    try std.testing.expectEqual(null, parse_decimal("1000", 5, 2));
    try std.testing.expectEqual(null, parse_decimal("1e2", 5, 2));
    try std.testing.expectEqual(null, parse_decimal(".", 5, 2));
    try std.testing.expectEqual(null, parse_decimal("1.2.3", 5, 2));
    try std.testing.expectEqual(
        99999999999999999999999999999999999999,
        parse_decimal("99999999999999999999999999999999999999", 38, 0),
    );
}
