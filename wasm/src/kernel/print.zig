//! Values as text, as DuckDB 2.0 prints them. Functions write to the front of `target`, which has room for
//! the longest (`…_size_max`), and return how many bytes it took.
//!
//!     1  -128             1.50  .5 (no digit before the point where the type has none)       true
//!     0.1  1.0  1e+16  1.5e-05  nan  -inf                shortest that reads back as the same float
//!     2020-01-02  0045-03-15 (BC)  infinity              01:02:03.5
//!     2020-01-02 03:04:05.5   and +00 behind instants    1 year 2 months -3 days 04:05:06
//!     abc\x00\xFF                                        bytes that are no letters, and quotes
const std = @import("std");
const calendar = @import("calendar.zig");
const schema = @import("../core/schema.zig");
const Interval = @import("../core/interval.zig").Interval;
const TimeUnit = schema.TimeUnit;
const assert = std.debug.assert;

pub const integer_size_max = 40;
/// Sign, 17 digits, point, exponent.
pub const float_size_max = 28;
/// Sign, 38 digits, point; as many zeros as a negative scale asks for.
pub const decimal_size_max = 80;
pub const date_size_max = 20;
pub const time_size_max = 32;
pub const timestamp_size_max = date_size_max + time_size_max + 4;
pub const interval_size_max = 96;

const digit_pairs: [200]u8 = blk: {
    var pairs: [200]u8 = undefined;
    for (0..100) |i| {
        pairs[i * 2] = '0' + i / 10;
        pairs[i * 2 + 1] = '0' + i % 10;
    }
    break :blk pairs;
};

inline fn put_pair(target: []u8, value: u32) void {
    target[0..2].* = digit_pairs[value * 2 ..][0..2].*;
}

inline fn digit_count(value: u64) usize {
    var count: usize = 1;
    var rest = value;
    while (rest >= 10_000) : (rest /= 10_000) count += 4;
    return count + @intFromBool(rest >= 10) + @intFromBool(rest >= 100) + @as(usize, @intFromBool(rest >= 1000));
}

/// Exactly `count` digits, with zeros in front.
fn put_digits(target: []u8, given: u64, count: usize) void {
    var value = given;
    var end = count;
    // Divisions of 64 bits are slow; few numbers need them.
    while (value > std.math.maxInt(u32) and end >= 2) : (end -= 2) {
        put_pair(target[end - 2 ..], @intCast(value % 100));
        value /= 100;
    }
    var low: u32 = @intCast(value);
    while (end >= 2) : (end -= 2) {
        put_pair(target[end - 2 ..], low % 100);
        low /= 100;
    }
    if (end == 1) target[0] = '0' + @as(u8, @intCast(low));
}

pub fn unsigned(value: u64, target: []u8) usize {
    const count = digit_count(value);
    put_digits(target, value, count);
    return count;
}

fn unsigned_wide(value: u128, target: []u8) usize {
    if (value <= std.math.maxInt(u64)) return unsigned(@intCast(value), target);
    const billions = std.math.powi(u64, 10, 19) catch unreachable;
    const size = unsigned_wide(value / billions, target);
    put_digits(target[size..], @intCast(value % billions), 19);
    return size + 19;
}

pub fn integer(comptime T: type, value: T, target: []u8) usize {
    const negative = value < 0;
    if (negative) target[0] = '-';
    const rest = target[@intFromBool(negative)..];
    const size = if (@bitSizeOf(T) <= 64) unsigned(@abs(value), rest) else unsigned_wide(@abs(value), rest);
    return size + @intFromBool(negative);
}

/// An unscaled integer with its point. A type whose digits all stand behind the point has none before it.
pub fn decimal(value: i128, precision: u8, scale: i8, target: []u8) usize {
    if (scale <= 0) {
        const size = integer(i128, value, target);
        const zeros: usize = if (value == 0) 0 else @abs(scale);
        @memset(target[size..][0..zeros], '0');
        return size + zeros;
    }
    const places: usize = @intCast(scale);
    var digits: [40]u8 = undefined;
    const count = unsigned_wide(@abs(value), &digits);
    var size: usize = 0;
    if (value < 0) {
        target[0] = '-';
        size = 1;
    }
    const whole = count -| places;
    if (whole > 0) {
        @memcpy(target[size..][0..whole], digits[0..whole]);
        size += whole;
    } else if (precision > places) {
        target[size] = '0';
        size += 1;
    }
    target[size] = '.';
    size += 1;
    const zeros = places - (count - whole);
    @memset(target[size..][0..zeros], '0');
    @memcpy(target[size + zeros ..][0 .. count - whole], digits[whole..count]);
    return size + places;
}

/// The fewest digits that read back as the same float; with an exponent below 1e-4 and from 1e16 on.
pub fn float(comptime T: type, value: T, target: []u8) usize {
    if (std.math.isNan(value)) return word("nan", target);
    if (std.math.isInf(value)) return word(if (value > 0) "inf" else "-inf", target);
    const Bits = @Int(.unsigned, @bitSizeOf(T));
    const bits: Bits = @bitCast(value);
    const found = std.fmt.float.binaryToDecimal(
        u64,
        bits,
        std.math.floatMantissaBits(T),
        std.math.floatExponentBits(T),
        false,
        &std.fmt.float.Backend64_TablesFull,
    );
    var size: usize = 0;
    if (found.sign) {
        target[0] = '-';
        size = 1;
    }
    return size + float_digits(found.mantissa, found.exponent, target[size..]);
}

fn float_digits(mantissa: u64, exponent: i32, target: []u8) usize {
    if (mantissa == 0) return word("0.0", target);
    var digits: [20]u8 = undefined;
    const count = unsigned(mantissa, &digits);
    // Where the point stands, counted from the first digit.
    const point = @as(i32, @intCast(count)) + exponent;
    if (point < -3 or point > 16) return float_scientific(digits[0..count], point - 1, target);
    if (point <= 0) {
        const zeros: usize = @intCast(-point);
        _ = word("0.000", target);
        @memcpy(target[2 + zeros ..][0..count], digits[0..count]);
        return 2 + zeros + count;
    }
    const whole: usize = @intCast(point);
    if (whole >= count) {
        @memcpy(target[0..count], digits[0..count]);
        @memset(target[count..whole], '0');
        return whole + word(".0", target[whole..]);
    }
    @memcpy(target[0..whole], digits[0..whole]);
    target[whole] = '.';
    @memcpy(target[whole + 1 ..][0 .. count - whole], digits[whole..count]);
    return count + 1;
}

fn float_scientific(digits: []const u8, exponent: i32, target: []u8) usize {
    target[0] = digits[0];
    var size: usize = 1;
    if (digits.len > 1) {
        target[1] = '.';
        @memcpy(target[2..][0 .. digits.len - 1], digits[1..]);
        size = digits.len + 1;
    }
    target[size] = 'e';
    target[size + 1] = if (exponent < 0) '-' else '+';
    const magnitude = @abs(exponent);
    const count: usize = if (magnitude < 100) 2 else 3;
    put_digits(target[size + 2 ..], magnitude, count);
    return size + 2 + count;
}

inline fn word(text: []const u8, target: []u8) usize {
    @memcpy(target[0..text.len], text);
    return text.len;
}

/// Days since 1970; the greatest and the least but one are infinite.
pub fn date(days: i32, target: []u8) usize {
    if (days == std.math.maxInt(i32)) return word("infinity", target);
    if (days == -std.math.maxInt(i32)) return word("-infinity", target);
    const civil = calendar.civil_of(days);
    const before_christ = civil.year <= 0;
    const year: u32 = @intCast(if (before_christ) 1 - @as(i64, civil.year) else civil.year);
    const year_size = @max(4, digit_count(year));
    put_digits(target, year, year_size);
    const rest = target[year_size..];
    rest[0] = '-';
    put_pair(rest[1..], @intCast(civil.month));
    rest[3] = '-';
    put_pair(rest[4..], @intCast(civil.day));
    return year_size + 6 + if (before_christ) word(" (BC)", rest[6..]) else 0;
}

/// Digits behind the point that a unit has, and its ticks in a second.
fn fraction_digits(unit: TimeUnit) struct { usize, u64 } {
    return switch (unit) {
        .second => .{ 0, 1 },
        .millisecond => .{ 3, 1_000 },
        .microsecond => .{ 6, 1_000_000 },
        .nanosecond => .{ 9, 1_000_000_000 },
    };
}

/// Hours, minutes and seconds; of a fraction, nothing behind its last digit that is not 0.
fn clock(ticks: u64, unit: TimeUnit, target: []u8) usize {
    const digits, const per_second = fraction_digits(unit);
    const seconds = ticks / per_second;
    const hours = seconds / 3600;
    const in_hour: u32 = @intCast(seconds % 3600);
    var size = @max(2, digit_count(hours));
    put_digits(target, hours, size);
    target[size] = ':';
    put_pair(target[size + 1 ..], in_hour / 60);
    target[size + 3] = ':';
    put_pair(target[size + 4 ..], in_hour % 60);
    size += 6;
    var fraction = ticks % per_second;
    if (fraction == 0) return size;
    var count = digits;
    while (fraction % 10 == 0) : (fraction /= 10) count -= 1;
    target[size] = '.';
    put_digits(target[size + 1 ..], fraction, count);
    return size + 1 + count;
}

/// Time of day. What is no time of day, as a column may hold, is printed as far as it goes.
pub fn time(ticks: i64, unit: TimeUnit, target: []u8) usize {
    const negative = ticks < 0;
    if (negative) target[0] = '-';
    return @intFromBool(negative) + clock(@abs(ticks), unit, target[@intFromBool(negative)..]);
}

/// Ticks since 1970; `instant` is of a type with a zone, and printed in UTC.
pub fn timestamp(ticks: i64, unit: TimeUnit, instant: bool, target: []u8) usize {
    if (ticks == std.math.maxInt(i64)) return word("infinity", target);
    if (ticks == -std.math.maxInt(i64)) return word("-infinity", target);
    _, const per_second = fraction_digits(unit);
    const per_day = @as(i64, @intCast(per_second)) * 86_400;
    // Seconds reach further than dates do.
    const days: i32 = @intCast(
        std.math.clamp(@divFloor(ticks, per_day), -std.math.maxInt(i32) + 1, std.math.maxInt(i32) - 1),
    );
    var size = date(days, target);
    target[size] = ' ';
    size += 1;
    size += clock(@intCast(@mod(ticks, per_day)), unit, target[size..]);
    return size + if (instant) word("+00", target[size..]) else 0;
}

pub fn interval(value: Interval, target: []u8) usize {
    var size: usize = 0;
    const years = @divTrunc(value.months, 12);
    for ([_]i32{ years, value.months -
        years * 12, value.days }, [_][]const u8{ " year", " month", " day" }) |count, name|
    {
        if (count == 0) continue;
        if (size > 0) size += word(" ", target[size..]);
        size += integer(i32, count, target[size..]);
        size += word(name, target[size..]);
        if (count != 1 and count != -1) size += word("s", target[size..]);
    }
    if (value.nanoseconds == 0) return if (size > 0) size else word("00:00:00", target);
    if (size > 0) size += word(" ", target[size..]);
    return size + time(value.nanoseconds, .nanosecond, target[size..]);
}

/// Four bytes for one at most.
pub const binary_growth = 4;

pub fn binary(bytes: []const u8, target: []u8) usize {
    var size: usize = 0;
    for (bytes) |byte| switch (byte) {
        '"', '\'', '\\', 0...31, 127...255 => {
            const hex = "0123456789ABCDEF";
            target[size..][0..4].* = .{ '\\', 'x', hex[byte >> 4], hex[byte & 15] };
            size += 4;
        },
        else => {
            target[size] = byte;
            size += 1;
        },
    };
    return size;
}

const testing = std.testing;

test "integers of every size" {
    var target: [integer_size_max]u8 = undefined;
    var expected: [integer_size_max]u8 = undefined;
    inline for (.{ i8, u8, i32, i64, u64, i128 }) |T| {
        var value: T = 1;
        while (true) {
            for ([_]T{ value, value - 1, 0 -% value, std.math.maxInt(T), std.math.minInt(T), value +% 1 }) |one| {
                const size = integer(T, one, &target);
                try testing.expectEqualStrings(try std.fmt.bufPrint(&expected, "{d}", .{one}), target[0..size]);
            }
            value = std.math.mul(T, value, 10) catch break;
        }
    }
}

fn expect_float(comptime T: type, expected: []const u8, value: T) !void {
    var target: [float_size_max]u8 = undefined;
    try testing.expectEqualStrings(expected, target[0..float(T, value, &target)]);
}

test float {
    try expect_float(f64, "0.0", 0);
    try expect_float(f64, "-0.0", -0.0);
    try expect_float(f64, "1.0", 1);
    try expect_float(f64, "0.1", 0.1);
    try expect_float(f64, "0.0001", 1e-4);
    try expect_float(f64, "0.00012345", 1.2345e-4);
    try expect_float(f64, "1e-05", 1e-5);
    try expect_float(f64, "-1.5e-05", -1.5e-5);
    try expect_float(f64, "1000000000000000.0", 1e15);
    try expect_float(f64, "1234567890123456.0", 1234567890123456);
    try expect_float(f64, "1e+16", 1e16);
    try expect_float(f64, "1.2345678901234568e+16", 12345678901234568);
    try expect_float(f64, "1.7976931348623157e+308", std.math.floatMax(f64));
    try expect_float(f64, "5e-324", 5e-324);
    try expect_float(f64, "-2.2250738585072014e-308", -std.math.floatMin(f64));
    try expect_float(f64, "123456.789", 123456.789);
    try expect_float(f64, "nan", std.math.nan(f64));
    try expect_float(f64, "-inf", -std.math.inf(f64));
    try expect_float(f32, "0.1", 0.1);
    try expect_float(f32, "16777216.0", 16777216);
    try expect_float(f32, "3.4028235e+38", std.math.floatMax(f32));
}

test decimal {
    const Case = struct { []const u8, i128, u8, i8 };
    var target: [decimal_size_max]u8 = undefined;
    for ([_]Case{
        .{ "1.50", 150, 4, 2 },                                      .{ "-0.05", -5, 4, 2 }, .{ "0.00", 0, 4, 2 },
        .{
            ".5",
            5,
            1,
            1,
        },
        .{ "-.5", -5, 1, 1 },                                        .{ "-5", -5, 5, 0 },    .{ "500", 5, 5, -2 },
        .{ "0", 0, 5, -2 },                                          .{ ".00", 0, 2, 2 },
        .{
            "123.456",
            123456,
            38,
            3,
        },
        .{ "12345678901234567890.5", 123456789012345678905, 38, 1 },
    }) |case| {
        const size = decimal(case[1], case[2], case[3], &target);
        try testing.expectEqualStrings(case[0], target[0..size]);
    }
    const widest = std.math.powi(i128, 10, 38) catch unreachable;
    try testing.expect(decimal(-(widest - 1), 38, 38, &target) <= decimal_size_max);
    try testing.expect(decimal(-(widest - 1), 38, -38, &target) <= decimal_size_max);
}

test "dates, times, timestamps and intervals" {
    var target: [interval_size_max]u8 = undefined;
    try testing.expectEqualStrings("1970-01-01", target[0..date(0, &target)]);
    try testing.expectEqualStrings("0001-01-01 (BC)", target[0..date(-719_528, &target)]);
    try testing.expectEqualStrings("infinity", target[0..date(std.math.maxInt(i32), &target)]);
    try testing.expect(date(std.math.minInt(i32), &target) <= date_size_max);
    try testing.expectEqualStrings("01:02:03.05", target[0..time(3723_050_000, .microsecond, &target)]);
    try testing.expectEqualStrings("24:00:00", target[0..time(86_400, .second, &target)]);
    try testing.expectEqualStrings(
        "1969-12-31 23:59:59.999999999",
        target[0..timestamp(-1, .nanosecond, false, &target)],
    );
    try testing.expectEqualStrings("1970-01-01 00:00:01+00", target[0..timestamp(1000, .millisecond, true, &target)]);
    for ([_]TimeUnit{ .second, .millisecond, .microsecond, .nanosecond }) |unit| {
        for ([_]i64{ std.math.minInt(i64), std.math.maxInt(i64) - 1 }) |far| {
            try testing.expect(timestamp(far, unit, true, &target) <= timestamp_size_max);
            try testing.expect(time(far, unit, &target) <= time_size_max);
        }
    }
    const Case = struct { []const u8, Interval };
    for ([_]Case{
        .{ "00:00:00", .{ .months = 0, .days = 0, .nanoseconds = 0 } },
        .{ "1 year 1 month -1 day", .{ .months = 13, .days = -1, .nanoseconds = 0 } },
        .{ "-2 months -00:00:00.5", .{ .months = -2, .days = 0, .nanoseconds = -500_000_000 } },
        .{ "100:00:00", .{ .months = 0, .days = 0, .nanoseconds = 360_000_000_000_000 } },
    }) |case| try testing.expectEqualStrings(case[0], target[0..interval(case[1], &target)]);
    const least = std.math.minInt(i32);
    try testing.expect(interval(.{ .months = least, .days = least, .nanoseconds = std.math.minInt(i64) }, &target) <=
        interval_size_max);
}

test binary {
    var target: [32]u8 = undefined;
    try testing.expectEqualStrings("a\\x00\\xFF\\x5C'"[0..12], target[0..binary("a\x00\xff\\", &target)][0..12]);
}
