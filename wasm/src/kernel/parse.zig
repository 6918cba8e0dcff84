//! Text to numbers, bools and bytes, with the leniency of DuckDB 2.0's casts. Null: the text is none.
//!
//! Numbers may have spaces around them, a sign, underscores between digits, a point and an exponent.
//! What an integer or a decimal cannot hold is rounded, half away from zero: '1.5' is the integer 2 and
//! '25e-1' is 3. Integers may also be 0xFF or 0b11, without a sign.
const std = @import("std");
const number_text = @import("number_text.zig");
const assert = std.debug.assert;

pub fn is_space(byte: u8) bool {
    return switch (byte) {
        ' ', '\t', '\n', '\r', 0x0B, 0x0C => true,
        else => false,
    };
}

inline fn is_digit(byte: u8) bool {
    return byte -% '0' <= 9;
}

pub fn trim(text: []const u8) []const u8 {
    var start: usize = 0;
    var end = text.len;
    while (start < end and is_space(text[start])) start += 1;
    while (end > start and is_space(text[end - 1])) end -= 1;
    return text[start..end];
}

/// A number in parts. Digits may have underscores between them.
const Number = struct {
    negative: bool,
    whole: []const u8,
    fraction: []const u8,
    exponent: i32,
    /// Bytes of digits and point, without sign and exponent.
    body: []const u8,

    fn scan(text: []const u8) ?Number {
        var position: usize = 0;
        const negative = text.len > 0 and text[0] == '-';
        if (negative or (text.len > 0 and text[0] == '+')) position = 1;
        const start = position;
        const whole = scan_digits(text, &position) orelse return null;
        var fraction: []const u8 = "";
        if (position < text.len and text[position] == '.') {
            position += 1;
            fraction = scan_digits(text, &position) orelse return null;
        }
        if (whole.len + fraction.len == 0) return null;
        const body = text[start..position];
        const exponent = scan_exponent(text, &position) orelse return null;
        if (position != text.len) return null;
        return .{ .negative = negative, .whole = whole, .fraction = fraction, .exponent = exponent, .body = body };
    }

    /// Digits, one underscore between any two; null where one stands elsewhere.
    fn scan_digits(text: []const u8, position: *usize) ?[]const u8 {
        const start = position.*;
        while (position.* < text.len) : (position.* += 1) {
            const byte = text[position.*];
            if (is_digit(byte)) continue;
            if (byte != '_') break;
            if (position.* == start or position.* + 1 == text.len or !is_digit(text[position.* + 1])) return null;
        }
        return text[start..position.*];
    }

    /// 0 where there is none.
    fn scan_exponent(text: []const u8, position: *usize) ?i32 {
        if (position.* >= text.len or text[position.*] | 0x20 != 'e') return 0;
        position.* += 1;
        const negative = position.* < text.len and text[position.*] == '-';
        if (negative or (position.* < text.len and text[position.*] == '+')) position.* += 1;
        const digits = scan_digits(text, position) orelse return null;
        if (digits.len == 0) return null;
        var value: i32 = 0;
        // As far as DuckDB reads them; numbers of this size are 0 or too large in any case.
        for (digits) |byte| if (byte != '_' and value <= 32_768) {
            value = value * 10 + (byte - '0');
        };
        if (value > 32_767 + @as(i32, @intFromBool(negative))) return null;
        return if (negative) -value else value;
    }

    /// The number times 10^scale, rounded half away from zero; null where it does not fit.
    fn scaled(self: *const Number, scale: i32) ?u128 {
        // So many digits, or zeros behind them, stand before the point.
        var places: i64 = @as(i64, self.exponent) + scale;
        for (self.whole) |byte| places += @intFromBool(byte != '_');
        var value: u128 = 0;
        var rounded_up = false;
        for ([_][]const u8{ self.whole, self.fraction }) |digits| for (digits) |byte| {
            if (byte == '_') continue;
            if (places > 0) {
                value = std.math.mul(u128, value, 10) catch return null;
                value = std.math.add(u128, value, byte - '0') catch return null;
            } else if (places == 0) rounded_up = byte >= '5';
            places -= 1;
        };
        while (places > 0 and value != 0) : (places -= 1) value = std.math.mul(u128, value, 10) catch return null;
        return std.math.add(u128, value, @intFromBool(rounded_up)) catch null;
    }
};

pub fn integer(comptime T: type, text: []const u8) ?T {
    const body = trim(text);
    if (number_text.parse_integer(T, body)) |value| return value;
    // Of negative numbers, unsigned types only know -0.
    if (std.math.minInt(T) == 0 and body.len > 0 and body[0] == '-') return null;
    return std.math.cast(T, any_integer(body) orelse return null);
}

/// One function for all sizes: this is the slow way.
fn any_integer(text: []const u8) ?i128 {
    if (text.len > 2 and text[0] == '0') {
        const base: u8 = switch (text[1]) {
            'x', 'X' => 16,
            'b', 'B' => 2,
            else => 0,
        };
        if (base > 0) return based_integer(text[2..], base);
    }
    const number = Number.scan(text) orelse return null;
    const value = number.scaled(0) orelse return null;
    if (!number.negative) return std.math.cast(i128, value);
    if (value > @as(u128, 1) << 127) return null;
    return @bitCast(0 -% value);
}

fn based_integer(digits: []const u8, base: u8) ?i128 {
    var value: i128 = 0;
    for (digits, 0..) |byte, i| {
        if (byte == '_') {
            if (i == 0 or i + 1 == digits.len or digits[i - 1] == '_') return null;
            continue;
        }
        const digit = std.fmt.charToDigit(byte, base) catch return null;
        value = std.math.mul(i128, value, base) catch return null;
        value = std.math.add(i128, value, digit) catch return null;
    }
    return value;
}

const powers_of_ten: [19]u64 = blk: {
    var powers: [19]u64 = undefined;
    powers[0] = 1;
    for (1..19) |i| powers[i] = powers[i - 1] * 10;
    break :blk powers;
};

/// Digits and perhaps a point: what most texts are. Null where the slow way has to look.
fn short_decimal(text: []const u8, precision: u8, scale: i8) ?i64 {
    if (text.len == 0 or text.len > 19 or scale < 0) return null;
    const negative = text[0] == '-';
    var value: u64 = 0;
    var digits: usize = 0;
    var point: ?usize = null;
    for (text[@intFromBool(negative)..]) |byte| {
        if (is_digit(byte)) {
            value = value * 10 + (byte - '0');
            digits += 1;
        } else if (byte == '.' and point == null) {
            point = digits;
        } else return null;
    }
    if (digits == 0 or digits > 18) return null;
    const behind = digits - (point orelse digits);
    const wanted: usize = @intCast(scale);
    if (behind > wanted) {
        const power = powers_of_ten[behind - wanted];
        value = (value + power / 2) / power;
    } else {
        if (digits + (wanted - behind) > 18) return null;
        value *= powers_of_ten[wanted - behind];
    }
    if (precision <= 18 and value >= powers_of_ten[precision]) return null;
    const signed: i64 = @intCast(value);
    return if (negative) -signed else signed;
}

/// The unscaled integer of a decimal.
pub fn decimal(text: []const u8, precision: u8, scale: i8) ?i128 {
    if (short_decimal(text, precision, scale)) |value| return value;
    const number = Number.scan(trim(text)) orelse return null;
    const value = number.scaled(scale) orelse return null;
    if (value >= std.math.powi(u128, 10, precision) catch unreachable) return null;
    const signed: i128 = @intCast(value);
    return if (number.negative) -signed else signed;
}

/// Texts with underscores are read without them; longer ones are not read.
const float_size_max = 1024;

/// The nearest float. Numbers beyond the greatest are infinite.
pub fn float(comptime T: type, text: []const u8) ?T {
    const body = trim(text);
    const unsigned = if (body.len > 1 and body[0] == '+' and body[1] != '-' and body[1] != '+') body[1..] else body;
    if (number_text.parse_float(T, unsigned)) |value| return value;
    _ = Number.scan(unsigned) orelse return null;
    if (std.mem.findScalar(u8, unsigned, '_') == null) return std.fmt.parseFloat(T, unsigned) catch null;
    if (unsigned.len > float_size_max) return null;
    var buffer: [float_size_max]u8 = undefined;
    var size: usize = 0;
    for (unsigned) |byte| if (byte != '_') {
        buffer[size] = byte;
        size += 1;
    };
    return std.fmt.parseFloat(T, buffer[0..size]) catch null;
}

pub fn boolean(text: []const u8) ?bool {
    inline for (.{ "true", "t", "1", "yes", "y" }, .{ "false", "f", "0", "no", "n" }) |yes, no| {
        if (std.ascii.eqlIgnoreCase(text, yes)) return true;
        if (std.ascii.eqlIgnoreCase(text, no)) return false;
    }
    return null;
}

/// Bytes of a text of ASCII in which \x00 is the byte 0; null when it is not one. Never longer than the
/// text. Without a `target`, only their number.
pub fn binary(text: []const u8, target: ?[]u8) ?usize {
    var size: usize = 0;
    var position: usize = 0;
    while (position < text.len) : (size += 1) {
        var byte = text[position];
        if (byte >= 0x80) return null;
        position += 1;
        if (byte == '\\') {
            if (text.len - position < 3 or text[position] != 'x') return null;
            const high = std.fmt.charToDigit(text[position + 1], 16) catch return null;
            const low = std.fmt.charToDigit(text[position + 2], 16) catch return null;
            byte = high << 4 | low;
            position += 3;
        }
        if (target) |out| out[size] = byte;
    }
    return size;
}

const testing = std.testing;

test integer {
    const Case = struct { []const u8, ?i32 };
    for ([_]Case{
        .{ "  12\t", 12 },               .{ "+5", 5 },              .{ "-5", -5 },           .{ "1e3", 1000 },
        .{
            "1_000",
            1000,
        },
        .{ "1.4", 1 },                   .{ "1.5", 2 },             .{ "2.5", 3 },           .{ "-1.5", -2 },
        .{ "0x1F", 31 },                 .{ "0b101", 5 },           .{ "1.", 1 },            .{ ".5", 1 },
        .{ "1e-1", 0 },                  .{ "5e-2", 0 },            .{ "0.05e1", 1 },        .{ "1234567e-3", 1235 },
        .{ "2147483647.4", 2147483647 }, .{ "2147483647.5", null }, .{ "2147483648", null },
        .{
            "-2147483648",
            -2147483648,
        },
        .{ "", null },                   .{ ".", null },            .{ "1e", null },         .{ "- 5", null },
        .{ "1 2", null },                .{ "1_", null },           .{ "_1", null },         .{ "1__0", null },
        .{ "0x", null },                 .{ "-0x1F", null },        .{ "1e40", null },       .{ "1e-400", 0 },
        .{ "1e99999999999", null },      .{ "0e9999", 0 },          .{ "0x1_F", 31 },
    }) |case| try testing.expectEqual(case[1], integer(i32, case[0]));
    try testing.expectEqual(std.math.minInt(i128), integer(i128, "-170141183460469231731687303715884105728"));
    try testing.expectEqual(null, integer(i128, "170141183460469231731687303715884105728"));
    try testing.expectEqual(0, integer(u8, "-0"));
    for ([_][]const u8{ "-1", "-0.4", "-1e-9" }) |text| try testing.expectEqual(null, integer(u8, text));
}

test decimal {
    const Case = struct { []const u8, ?i128 };
    for ([_]Case{
        .{ "1.235", 124 },   .{ "-1.235", -124 }, .{ "1e1", 1000 },   .{ "12.3e-1", 123 },
        .{
            "99.994",
            9999,
        },
        .{ "99.995", null }, .{ "5e-3", 1 },      .{ "4.9e-3", 0 },   .{ "", null },
        .{ "nan", null },    .{ " .5 ", 50 },     .{ "1_0.5", 1050 }, .{ "100", null },
    }) |case| try testing.expectEqual(case[1], decimal(case[0], 4, 2));
    try testing.expectEqual(12, decimal("1234", 4, -2));
}

test "short decimals as long ones" {
    var prng: std.Random.DefaultPrng = .init(62);
    const random = prng.random();
    for (0..20_000) |_| {
        var buffer: [24]u8 = undefined;
        const size = random.uintAtMost(usize, 12);
        for (buffer[0..size]) |*byte| byte.* = "0123456789.5599-"[random.uintLessThan(usize, 16)];
        const precision = random.intRangeAtMost(u8, 1, 38);
        const scale = random.intRangeAtMost(i8, 0, @intCast(precision));
        const short = short_decimal(buffer[0..size], precision, scale) orelse continue;
        const number = Number.scan(buffer[0..size]).?;
        try testing.expectEqual(@abs(short), number.scaled(scale).?);
        try testing.expect(short == 0 or (short < 0) == number.negative);
    }
}

test float {
    try testing.expectEqual(1000.5, float(f64, " 1_000.5 "));
    try testing.expectEqual(std.math.inf(f64), float(f64, "1e400"));
    try testing.expectEqual(-std.math.inf(f64), float(f64, "-Infinity"));
    try testing.expectEqual(std.math.inf(f64), float(f64, "+inf"));
    try testing.expect(std.math.isNan(float(f64, "-NaN").?));
    for ([_][]const u8{ "", ".", "1e", "0x10", "1,5", "1d", "++1", "+-1" }) |text|
        try testing.expectEqual(null, float(f64, text));
    try testing.expectEqual(0.1, float(f32, "0.1"));
}

test binary {
    var target: [16]u8 = undefined;
    try testing.expectEqualStrings("a\x00\xAB", target[0..binary("a\\x00\\xaB", &target).?]);
    for ([_][]const u8{ "é", "\\", "\\x1", "\\q12", "\\xZZ" }) |text| try testing.expectEqual(null, binary(text, null));
}

test boolean {
    try testing.expectEqual(true, boolean("T"));
    try testing.expectEqual(false, boolean("No"));
    try testing.expectEqual(null, boolean(" true"));
}
