//! What is read from an interval, and intervals cut to whole units, as DuckDB 2.0 does it.
//!
//! Years come from months and hours from nanoseconds, toward zero; days stand alone. Only the epoch adds
//! them up: there a year has 365.25 days, elsewhere twelve months of 30.
const std = @import("std");
const abi = @import("../abi.zig");
const Interval = @import("../core/interval.zig").Interval;
const DatePart = abi.DatePart;

/// Parts that an interval has and that are whole numbers.
pub fn has(part: DatePart) bool {
    return switch (part) {
        .year, .month, .day, .decade, .century, .millennium, .quarter => true,
        .microsecond, .millisecond, .second, .minute, .hour, .nanosecond => true,
        .epoch_ms, .epoch_us, .epoch_ns => true,
        else => false,
    };
}

const minute_nanoseconds: i64 = 60_000_000_000;
const day_milliseconds: i64 = 86_400_000;

/// Null where the number has no 64 bits.
pub fn part_of(part: DatePart, interval: Interval) ?i64 {
    const months: i64 = interval.months;
    const within_minute = @divTrunc(@rem(interval.nanoseconds, minute_nanoseconds), 1000);
    return switch (part) {
        .year => @divTrunc(months, 12),
        .month => @rem(months, 12),
        .quarter => @divTrunc(@rem(months, 12), 3) + 1,
        .day => interval.days,
        .decade => @divTrunc(months, 120),
        .century => @divTrunc(months, 1_200),
        .millennium => @divTrunc(months, 12_000),
        .hour => @divTrunc(interval.nanoseconds, 60 * minute_nanoseconds),
        .minute => @rem(@divTrunc(interval.nanoseconds, minute_nanoseconds), 60),
        .second => @divTrunc(within_minute, 1_000_000),
        .millisecond => @divTrunc(within_minute, 1_000),
        .microsecond => within_minute,
        .nanosecond => within_minute * 1000,
        .epoch_ms => (months * 30 + interval.days) * day_milliseconds + @divTrunc(interval.nanoseconds, 1_000_000),
        .epoch_us => microseconds(interval),
        .epoch_ns => std.math.mul(i64, microseconds(interval) orelse return null, 1000) catch null,
        else => unreachable, // `has`
    };
}

fn microseconds(interval: Interval) ?i64 {
    // 2^31 months are beyond 64 bits; in milliseconds they are not.
    const days = std.math.mul(i64, @as(i64, interval.months) * 30 + interval.days, day_milliseconds * 1000) catch
        return null;
    return std.math.add(i64, days, @divTrunc(interval.nanoseconds, 1000)) catch null;
}

/// Seconds.
pub fn epoch(interval: Interval) f64 {
    const years = @divTrunc(@as(i64, interval.months), 12);
    const days = years * 365 + @rem(@as(i64, interval.months), 12) * 30 + interval.days;
    const seconds: f64 = @floatFromInt(days * 86_400 + years * (86_400 / 4));
    return seconds + @as(f64, @floatFromInt(@divTrunc(interval.nanoseconds, 1000))) / 1_000_000;
}

/// Null for units that no interval is cut to.
pub fn truncate(part: DatePart, interval: Interval) ?Interval {
    switch (part) {
        .month => return of_months(interval, 1),
        .quarter => return of_months(interval, 3),
        .year, .isoyear => return of_months(interval, 12),
        .decade => return of_months(interval, 120),
        .century => return of_months(interval, 1_200),
        .millennium => return of_months(interval, 12_000),
        .week, .yearweek => return .{ .months = interval.months, .days = interval.days -
            @rem(interval.days, 7), .nanoseconds = 0 },
        .day, .dayofweek, .isodow, .dayofyear, .julian => return .{
            .months = interval.months,
            .days = interval.days,
            .nanoseconds = 0,
        },
        .hour => return of_time(interval, 60 * minute_nanoseconds),
        .minute => return of_time(interval, minute_nanoseconds),
        .second, .epoch => return of_time(interval, 1_000_000_000),
        .millisecond => return of_time(interval, 1_000_000),
        .microsecond => return of_time(interval, 1_000),
        .era, .nanosecond, .epoch_ms, .epoch_us, .epoch_ns, .timezone => return null,
    }
}

fn of_months(interval: Interval, length: i32) Interval {
    return .{ .months = interval.months - @rem(interval.months, length), .days = 0, .nanoseconds = 0 };
}

fn of_time(interval: Interval, length: i64) Interval {
    return .{ .months = interval.months, .days = interval.days, .nanoseconds = interval.nanoseconds - @rem(
        interval.nanoseconds,
        length,
    ) };
}

const testing = std.testing;

test part_of {
    const some: Interval = .{ .months = 25, .days = 3, .nanoseconds = 3_661_500_000_000 };
    try testing.expectEqual(2, part_of(.year, some).?);
    try testing.expectEqual(1, part_of(.month, some).?);
    try testing.expectEqual(1, part_of(.quarter, some).?);
    try testing.expectEqual(1, part_of(.minute, some).?);
    try testing.expectEqual(1_500_000, part_of(.microsecond, some).?);
    try testing.expectEqual(65_062_861_500, part_of(.epoch_ms, some).?);
    for ([_]i32{ std.math.minInt(i32), std.math.maxInt(i32) }) |edge| {
        const far: Interval = .{ .months = edge, .days = edge, .nanoseconds = std.math.minInt(i64) };
        inline for (comptime std.enums.values(DatePart)) |part| {
            if (has(part)) _ = part_of(part, far);
            _ = truncate(part, far);
        }
        try testing.expectEqual(null, part_of(.epoch_ns, far));
        _ = epoch(far);
    }
}

test epoch {
    try testing.expectEqual(65_966_404.5, epoch(.{ .months = 25, .days = 3, .nanoseconds = 4_500_000_000 }));
}

test truncate {
    const some: Interval = .{ .months = -25, .days = 10, .nanoseconds = -3_661_500_000_000 };
    try testing.expectEqual(Interval{ .months = -24, .days = 0, .nanoseconds = 0 }, truncate(.year, some).?);
    try testing.expectEqual(Interval{ .months = -25, .days = 7, .nanoseconds = 0 }, truncate(.week, some).?);
    try testing.expectEqual(
        Interval{ .months = -25, .days = 10, .nanoseconds = -3_660_000_000_000 },
        truncate(.minute, some).?,
    );
    try testing.expectEqual(null, truncate(.era, some));
}
