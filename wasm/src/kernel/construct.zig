//! Dates, times and intervals from numbers. Null where there is no such thing; any bits may come in.
const std = @import("std");
const abi = @import("../abi.zig");
const calendar = @import("calendar.zig");
const moment = @import("moment.zig");
const temporal = @import("temporal.zig");
const Interval = @import("../core/interval.zig").Interval;

pub fn date(year: i64, month: i64, day: i64) ?i32 {
    return calendar.days_of_civil(year, month, day);
}

/// Microseconds since midnight. 24:00 is a time, and so is the second 60.
pub fn time(hour: i64, minute: i64, second: f64) ?i64 {
    if (!(second >= 0 and second < 61)) return null;
    const whole = @trunc(second);
    // Halves away from zero, and 59.9999999 may become a whole second more.
    const fraction = @round((second - whole) * 1_000_000);
    const is_end = hour == 24 and minute == 0 and second == 0;
    if (!is_end and (hour < 0 or hour > 23 or minute < 0 or minute > 59)) return null;
    // The second 60 has no fractions.
    if (whole == 60 and fraction > 0) return null;
    const seconds = (hour * 60 + minute) * 60 + @as(i64, @intFromFloat(whole));
    return seconds * 1_000_000 + @as(i64, @intFromFloat(fraction));
}

/// A number of units since 1970, as microseconds or nanoseconds: whatever is not infinite.
pub fn timestamp(number: i64, factor: i64) ?i64 {
    const product, const overflow = @mulWithOverflow(number, factor);
    return if (overflow != 0 or moment.is_infinite(i64, product)) null else product;
}

/// Seconds since 1970, to the nearest microsecond.
pub fn instant(seconds: f64) ?i64 {
    return microseconds_of(seconds * 1_000_000);
}

fn microseconds_of(value: f64) ?i64 {
    const rounded = temporal.round_even(value);
    return if (rounded >= -0x1p63 and rounded < 0x1p63) @intFromFloat(rounded) else null;
}

/// So many units. Null also for parts that are no lengths.
pub fn interval(unit: abi.DatePart, count: i64) ?Interval {
    const factor: i64 = switch (unit) {
        .month, .day, .microsecond => 1,
        .quarter => 3,
        .week => 7,
        .year => 12,
        .decade => 120,
        .century => 1_200,
        .millennium => 12_000,
        .hour => 3_600_000_000,
        .minute => 60_000_000,
        else => return null,
    };
    const product = std.math.mul(i64, count, factor) catch return null;
    switch (unit) {
        .day, .week => return .{
            .months = 0,
            .days = std.math.cast(i32, product) orelse return null,
            .nanoseconds = 0,
        },
        .hour, .minute, .microsecond => return of_microseconds(product),
        else => return .{ .months = std.math.cast(i32, product) orelse return null, .days = 0, .nanoseconds = 0 },
    }
}

/// Seconds and milliseconds may have fractions.
pub fn fractional_interval(unit: abi.DatePart, count: f64) ?Interval {
    const factor: f64 = switch (unit) {
        .second => 1_000_000,
        .millisecond => 1_000,
        else => return null,
    };
    return of_microseconds(microseconds_of(count * factor) orelse return null);
}

/// Intervals hold nanoseconds, so they end after 292 years, where DuckDB's go on.
fn of_microseconds(count: i64) ?Interval {
    return .{ .months = 0, .days = 0, .nanoseconds = std.math.mul(i64, count, 1000) catch return null };
}

const testing = std.testing;

test time {
    try testing.expectEqual(86_400_000_000, time(24, 0, 0).?);
    try testing.expectEqual(86_400_000_000, time(23, 59, 60).?);
    try testing.expectEqual(86_400_000_000, time(23, 59, 59.9999999).?);
    try testing.expectEqual(5_500_000, time(0, 0, 5.5).?);
    try testing.expectEqual(null, time(24, 0, 0.5));
    try testing.expectEqual(null, time(23, 59, 60.5));
    try testing.expectEqual(null, time(-1, 0, 0));
    try testing.expectEqual(null, time(0, 60, 0));
    try testing.expectEqual(null, time(0, 0, -0.5));
    try testing.expectEqual(null, time(0, 0, std.math.nan(f64)));
    try testing.expectEqual(null, time(std.math.maxInt(i64), std.math.maxInt(i64), 1));
}

test interval {
    try testing.expectEqual(Interval{ .months = 24, .days = 0, .nanoseconds = 0 }, interval(.year, 2).?);
    try testing.expectEqual(Interval{ .months = 0, .days = -14, .nanoseconds = 0 }, interval(.week, -2).?);
    try testing.expectEqual(Interval{ .months = 0, .days = 0, .nanoseconds = 7_200_000_000_000 }, interval(.hour, 2).?);
    try testing.expectEqual(null, interval(.year, 1 << 31));
    try testing.expectEqual(null, interval(.hour, std.math.maxInt(i64)));
    try testing.expectEqual(null, interval(.era, 1));
    try testing.expectEqual(
        Interval{ .months = 0, .days = 0, .nanoseconds = 1_500_000_000 },
        fractional_interval(.second, 1.5).?,
    );
    try testing.expectEqual(null, fractional_interval(.second, std.math.nan(f64)));
    try testing.expectEqual(null, fractional_interval(.second, 1e13));
}

test "timestamps" {
    try testing.expectEqual(1_500_000, instant(1.5).?);
    try testing.expectEqual(null, instant(std.math.inf(f64)));
    try testing.expectEqual(5000, timestamp(5, 1000).?);
    try testing.expectEqual(null, timestamp(std.math.maxInt(i64), 1));
    try testing.expectEqual(null, timestamp(std.math.maxInt(i64), 1000));
    try testing.expectEqual(calendar.days_of_civil(2024, 2, 29), date(2024, 2, 29));
}
