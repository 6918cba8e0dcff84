//! Values in their usual spelling, fast: digits, digits with a point, YYYY-MM-DD. Anything else is null here and
//! left to infer.zig, which knows every spelling; what both read, both read the same.
const std = @import("std");
const schema = @import("../../core/schema.zig");
const infer = @import("infer.zig");
const DataType = schema.DataType;
const TypeTag = schema.TypeTag;

/// The type of a value that `parse_usual` gives.
pub fn Value(comptime tag: TypeTag) type {
    return switch (tag) {
        .i64, .decimal, .timestamp => i64,
        .i32, .date => i32,
        .f64 => f64,
        else => @compileError("has no usual spelling"),
    };
}

/// `field` is a part of `text`, which may be read beyond it.
pub inline fn parse_usual(comptime tag: TypeTag, data_type: DataType, text: []const u8, field: []const u8) ?Value(tag) {
    return switch (tag) {
        .i64 => parse_i64(field),
        .i32 => std.math.cast(i32, parse_i64(field) orelse return null),
        .f64 => parse_f64(field),
        .decimal => parse_decimal(field, data_type.precision, @intCast(data_type.scale)),
        .date => parse_date(text, field),
        .timestamp => null,
        else => @compileError("has no usual spelling"),
    };
}

const Digits = struct { mantissa: u64, count: u32, behind: u32, negative: bool };

/// A sign, up to 18 digits, and perhaps a point among them.
inline fn scan_digits(field: []const u8) ?Digits {
    if (field.len == 0 or field.len > 20) return null;
    const negative = field[0] == '-';
    var mantissa: u64 = 0;
    var point: usize = field.len;
    var at: usize = @intFromBool(negative);
    const first = at;
    while (at < field.len) : (at += 1) {
        const digit = field[at] -% '0';
        if (digit <= 9) {
            mantissa = mantissa *% 10 +% digit;
        } else if (field[at] == '.' and point == field.len) {
            point = at;
        } else return null;
    }
    const has_point = point < field.len;
    const count: u32 = @intCast(field.len - first - @intFromBool(has_point));
    if (count == 0 or count > 18) return null;
    const behind: u32 = if (has_point) @intCast(field.len - point - 1) else 0;
    return .{ .mantissa = mantissa, .count = count, .behind = behind, .negative = negative };
}

pub inline fn parse_i64(field: []const u8) ?i64 {
    if (field.len == 0 or field.len > 18) return null;
    const negative = field[0] == '-';
    const digits = field[@intFromBool(negative)..];
    if (digits.len == 0) return null;
    var value: i64 = 0;
    for (digits) |byte| {
        const digit = byte -% '0';
        if (digit > 9) return null;
        value = value * 10 + digit;
    }
    return if (negative) -value else value;
}

const float_powers: [19]f64 = blk: {
    var powers: [19]f64 = undefined;
    var power: f64 = 1;
    for (&powers) |*slot| {
        slot.* = power;
        power *= 10;
    }
    break :blk powers;
};

/// Digits that fit 2^53 divided by an exact power of ten are rounded once.
pub inline fn parse_f64(field: []const u8) ?f64 {
    const digits = scan_digits(field) orelse return null;
    if (digits.mantissa > 1 << 53) return null;
    const value = @as(f64, @floatFromInt(digits.mantissa)) / float_powers[digits.behind];
    return if (digits.negative) -value else value;
}

const integer_powers: [19]u64 = blk: {
    var powers: [19]u64 = undefined;
    var power: u64 = 1;
    for (&powers) |*slot| {
        slot.* = power;
        power *= 10;
    }
    break :blk powers;
};

/// No more digits behind the point than the scale has, and fewer than the precision in all.
pub inline fn parse_decimal(field: []const u8, precision: u8, scale: u8) ?i64 {
    const digits = scan_digits(field) orelse return null;
    if (digits.behind > scale or digits.count + (scale - digits.behind) > precision or precision > 18) return null;
    const value: i64 = @intCast(digits.mantissa * integer_powers[scale - digits.behind]);
    return if (digits.negative) -value else value;
}

/// YYYY-MM-DD: the digits of all three in one word of eight, and then two at a time.
pub inline fn parse_date(text: []const u8, field: []const u8) ?i32 {
    _ = text;
    if (field.len != 10 or field[4] != '-' or field[7] != '-') return null;
    const year_digits: u32 = @bitCast(field[0..4].*);
    const month_digits: u16 = @bitCast(field[5..7].*);
    const day_digits: u16 = @bitCast(field[8..10].*);
    const word = @as(u64, year_digits) | @as(u64, month_digits) << 32 | @as(u64, day_digits) << 48;
    const digits = word ^ 0x3030_3030_3030_3030;
    // A digit is at most 9: adding 0x76 does not reach the top bit, and the byte had none.
    if ((digits | digits +% 0x7676_7676_7676_7676) & 0x8080_8080_8080_8080 != 0) return null;
    // Tens and ones side by side become one number each, in the odd bytes.
    const pairs = (digits *% 10 +% (digits >> 8)) & 0x00FF_00FF_00FF_00FF;
    const year: u32 = @intCast((pairs & 0xFF) * 100 + (pairs >> 16 & 0xFF));
    const month: u32 = @intCast(pairs >> 32 & 0xFF);
    const day: u32 = @intCast(pairs >> 48 & 0xFF);
    return infer.date_of(year, month, day);
}

test "what is usual reads as infer.zig reads it" {
    var prng: std.Random.DefaultPrng = .init(3);
    const random = prng.random();
    var buffer: [24]u8 = undefined;
    const decimal: DataType = .{ .tag = .decimal, .precision = 15, .scale = 2 };
    var read: usize = 0;
    for (0..200_000) |i| {
        const size = random.uintAtMost(usize, 20);
        const alphabet = if (i % 2 == 0) "0123456789" else "0123456789.-e+";
        for (buffer[0..size]) |*byte| byte.* = alphabet[random.uintLessThan(usize, alphabet.len)];
        const text = buffer[0..size];
        if (parse_i64(text)) |value| try std.testing.expectEqual(infer.parse_integer(i64, text), value);
        if (parse_f64(text)) |value| {
            read += 1;
            try std.testing.expectEqual(infer.parse_f64(text), value);
        }
        if (parse_decimal(text, 15, 2)) |value| {
            try std.testing.expectEqual(infer.parse_decimal(text, decimal.precision, 2), value);
        }
    }
    try std.testing.expect(read > 1000);
    for (0..200_000) |_| {
        var text = "2024-02-29".*;
        for (0..random.uintAtMost(usize, 4)) |_|
            text[random.uintLessThan(usize, 10)] = random.intRangeAtMost(u8, '-', ':');
        if (parse_date(&text, &text)) |value| try std.testing.expectEqual(infer.parse_date(&text), value);
    }
    try std.testing.expectEqual(infer.parse_date("1996-03-13"), parse_date("1996-03-13", "1996-03-13"));
    try std.testing.expectEqual(null, parse_date("1996-02-30", "1996-02-30"));
}
