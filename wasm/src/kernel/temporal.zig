//! Arithmetic with dates, times, timestamps and intervals, as DuckDB 2.0 does it:
//!
//!     date ± integer            days
//!     date - date               days
//!     date + time               a timestamp
//!     date ± interval           a timestamp: midnight ± interval
//!     timestamp ± interval      months first (the day is cut to the month's last), then days, then the rest
//!     timestamp - timestamp     an interval of days and less
//!     time ± interval           around the clock; only what the interval has beyond whole days counts
//!     interval ± interval       part by part
//!     interval × integer        part by part
//!     interval × float, / float fractions of months go to days of which a month has 30, those of days to hours
//!
//! Timestamps are microseconds. So are intervals wherever they meet one: nanoseconds are cut toward zero.
//! Instants (timestamps with a zone) that get an interval with a negative part move by the time first, then by
//! months and days: DuckDB's calendar library does so.
//!
//! Infinite dates and timestamps stay what they are. Whatever leaves its type is OutOfRange. Every function
//! of one value takes any bits, since NULL rows hold anything, and says null where there is no answer; the
//! functions over columns then ask which rows are valid.
const std = @import("std");
const arithmetic = @import("arithmetic.zig");
const calendar = @import("calendar.zig");
const each_module = @import("each.zig");
const interrupt = @import("../core/interrupt.zig");
const moment = @import("moment.zig");
const Interval = @import("../core/interval.zig").Interval;
const Operand = arithmetic.Operand;
const day_microseconds = moment.day_microseconds;
const each = each_module.each;

pub const Error = each_module.Error;

// Dates.

pub fn add_days(date: i32, days: i32) ?i32 {
    if (moment.is_infinite(i32, date)) return date;
    return finite_day(@as(i64, date) + days);
}

pub fn subtract_days(date: i32, days: i32) ?i32 {
    if (moment.is_infinite(i32, date)) return date;
    return finite_day(@as(i64, date) - days);
}

/// Days are added to dates, or taken from them.
pub fn dates_and_days(
    dates: Operand(i32),
    days: Operand(i32),
    sign: Sign,
    validity: ?[]const u8,
    out: []i32,
) Error!void {
    const fits = switch (dates) {
        .scalar => false,
        .values => |values| switch (days) {
            .scalar => |by| move_dates(values, by, sign, out),
            .values => |by| move_dates(values, by, sign, out),
        },
    };
    if (fits) return;
    const Context = struct { dates: Operand(i32), days: Operand(i32), sign: Sign };
    return each(i32, out, validity, "date and days", Context{ .dates = dates, .days = days, .sign = sign }, struct {
        fn one(c: Context, row: usize) ?i32 {
            const date = c.dates.at(row);
            return if (c.sign == .plus) add_days(date, c.days.at(row)) else subtract_days(date, c.days.at(row));
        }
    }.one);
}

/// False when a date or a result is infinite or beyond. `days` are a slice or one number.
fn move_dates(dates: []const i32, days: anytype, sign: Sign, out: []i32) bool {
    const lanes = 8;
    const V = @Vector(lanes, i32);
    const zero: V = @splat(0);
    const limit: @Vector(lanes, u32) = @splat(calendar.day_max);
    var bad: V = zero;
    var i: usize = 0;
    while (i + lanes <= dates.len) : (i += lanes) {
        const date: V = dates[i..][0..lanes].*;
        const by: V = if (@TypeOf(days) == i32) @splat(days) else days[i..][0..lanes].*;
        const result = if (sign == .plus) date +% by else date -% by;
        // The sign bit tells that it wrapped.
        bad |= if (sign == .plus) (date ^ result) & (by ^ result) else (date ^ by) & (date ^ result);
        bad |= @select(i32, @abs(date) > limit, ~zero, zero) | @select(i32, @abs(result) > limit, ~zero, zero);
        out[i..][0..lanes].* = result;
    }
    if (@reduce(.Or, bad) < 0) return false;
    while (i < dates.len) : (i += 1) {
        const by = if (@TypeOf(days) == i32) days else days[i];
        if (moment.is_infinite(i32, dates[i])) return false;
        out[i] = (if (sign == .plus) add_days(dates[i], by) else subtract_days(dates[i], by)) orelse return false;
    }
    return true;
}

fn finite_day(day: i64) ?i32 {
    return if (@abs(day) <= calendar.day_max) @intCast(day) else null;
}

/// DuckDB counts infinite dates as the numbers that they are.
pub fn subtract_dates(left: []const i32, right: []const i32, out: []i64) void {
    for (out, left, right) |*to, a, b| to.* = @as(i64, a) - b;
}

/// Midnight; infinite dates are infinite timestamps.
pub fn midnight(date: i32) ?i64 {
    if (moment.is_infinite(i32, date)) return infinity_of(date);
    return timestamp_of(date, 0);
}

fn infinity_of(date: i32) i64 {
    return if (date > 0) std.math.maxInt(i64) else -std.math.maxInt(i64);
}

/// A day and microseconds since its midnight, which may be more than a day has, or less than none.
pub fn timestamp_of(day: i64, time: i64) ?i64 {
    const start, const too_far = @mulWithOverflow(day, day_microseconds);
    const result, const overflow = @addWithOverflow(start, time);
    if (too_far != 0 or overflow != 0) return null;
    return if (result >= moment.timestamp_min and result <= moment.timestamp_max) result else null;
}

pub fn add_time(date: i32, time: i64) ?i64 {
    if (moment.is_infinite(i32, date)) return infinity_of(date);
    return timestamp_of(date, time);
}

// Timestamps and intervals.

/// An interval as timestamps see it.
pub const Step = struct {
    months: i32,
    days: i32,
    microseconds: i64,

    pub fn of(interval: Interval) Step {
        return .{
            .months = interval.months,
            .days = interval.days,
            .microseconds = @divTrunc(interval.nanoseconds, 1000),
        };
    }

    /// Null where a part has no negative.
    pub fn negated(interval: Interval) ?Step {
        const step: Step = .of(interval);
        if (step.months == std.math.minInt(i32) or step.days == std.math.minInt(i32)) return null;
        return .{ .months = -step.months, .days = -step.days, .microseconds = -step.microseconds };
    }

    fn has_negative(self: Step) bool {
        return self.months < 0 or self.days < 0 or self.microseconds < 0;
    }

    /// Days and less as microseconds; null where they do not fit.
    fn without_months(self: Step) ?i64 {
        const start, const overflow = @mulWithOverflow(@as(i64, self.days), day_microseconds);
        const total, const too_long = @addWithOverflow(start, self.microseconds);
        return if (overflow == 0 and too_long == 0) total else null;
    }
};

pub const Clock = enum { local, instant };

pub fn add_interval(timestamp: i64, step: Step, clock: Clock) ?i64 {
    if (moment.is_infinite(i64, timestamp)) return timestamp;
    if (clock == .instant and step.has_negative()) return add_time_first(timestamp, step);
    const time = @mod(timestamp, day_microseconds);
    const day = move_day(moment.day_of(timestamp), step) orelse return null;
    const whole_days = @divTrunc(step.microseconds, day_microseconds);
    return timestamp_of(day + whole_days, time + @rem(step.microseconds, day_microseconds));
}

fn add_time_first(timestamp: i64, step: Step) ?i64 {
    const moved, const overflow = @addWithOverflow(timestamp, step.microseconds);
    if (overflow != 0) return null;
    const day = move_day(moment.day_of(moved), step) orelse return null;
    return timestamp_of(day, @mod(moved, day_microseconds));
}

/// Months, then days.
fn move_day(day: i32, step: Step) ?i64 {
    const moved = if (step.months == 0) day else calendar.add_months_one(day, step.months) orelse return null;
    return @as(i64, moved) + step.days;
}

/// Whether the quick ways below may be used: they add parts in one order only.
fn is_plain(step: Step, clock: Clock) bool {
    return clock == .local or step.months == 0 or !step.has_negative();
}

/// One interval for every timestamp. False when some row has to be looked at alone.
fn add_interval_fast(values: []const i64, step: Step, clock: Clock, out: []i64) bool {
    if (!is_plain(step, clock)) return false;
    const rest = step.without_months() orelse return false;
    if (step.months == 0) return shift(values, rest, out);
    var before: [moment.block]i32 = undefined;
    var after: [moment.block]i32 = undefined;
    var start: usize = 0;
    while (start < values.len) : (start += moment.block) {
        const count = @min(moment.block, values.len - start);
        const source = values[start..][0..count];
        const target = out[start..][0..count];
        moment.days(source, before[0..count]);
        if (!calendar.add_months(before[0..count], step.months, after[0..count])) return false;
        if (!move_to_days(source, before[0..count], after[0..count], target)) return false;
        if (!shift(target, rest, target)) return false;
    }
    return true;
}

/// Timestamps from their day to another. False when one is not finite, or comes near the last.
fn move_to_days(values: []const i64, before: []const i32, after: []const i32, out: []i64) bool {
    var fits = true;
    for (out, values, before, after) |*to, value, old, new| {
        fits = fits and value >= moment.timestamp_min and
            value <= moment.timestamp_max and @abs(new) < moment.day_limit;
        to.* = value +% (@as(i64, new) - old) *% day_microseconds;
    }
    return fits;
}

/// `values + microseconds`; false when a value or a result is infinite or beyond. May be in place.
fn shift(values: []const i64, microseconds: i64, out: []i64) bool {
    const V = @Vector(2, i64);
    const zero: V = @splat(0);
    const by: V = @splat(microseconds);
    const low: V = @splat(moment.timestamp_min);
    const high: V = @splat(moment.timestamp_max);
    var bad: V = zero;
    var i: usize = 0;
    while (i + 2 <= values.len) : (i += 2) {
        const value: V = values[i..][0..2].*;
        const result = value +% by;
        // The sign bit tells that it wrapped.
        bad |= (value ^ result) & (by ^ result);
        bad |= @select(i64, value < low, ~zero, zero) | @select(i64, value > high, ~zero, zero);
        bad |= @select(i64, result < low, ~zero, zero) | @select(i64, result > high, ~zero, zero);
        out[i..][0..2].* = result;
    }
    if (@reduce(.Or, bad) < 0) return false;
    while (i < values.len) : (i += 1) {
        const value = values[i];
        const result, const overflow = @addWithOverflow(value, microseconds);
        if (overflow != 0 or value < moment.timestamp_min or value > moment.timestamp_max) return false;
        if (result < moment.timestamp_min or result > moment.timestamp_max) return false;
        out[i] = result;
    }
    return true;
}

pub const Sign = enum { plus, minus };

fn step_of(interval: Interval, sign: Sign) ?Step {
    return if (sign == .plus) .of(interval) else .negated(interval);
}

pub fn timestamps_and_intervals(
    values: Operand(i64),
    intervals: Operand(Interval),
    sign: Sign,
    clock: Clock,
    validity: ?[]const u8,
    out: []i64,
) Error!void {
    if (values == .values and intervals == .scalar) {
        if (step_of(intervals.scalar, sign)) |step| if (add_interval_fast(values.values, step, clock, out)) return;
    }
    const Context = struct { values: Operand(i64), intervals: Operand(Interval), sign: Sign, clock: Clock };
    const context: Context = .{ .values = values, .intervals = intervals, .sign = sign, .clock = clock };
    return each(i64, out, validity, "timestamp and interval", context, struct {
        fn one(c: Context, row: usize) ?i64 {
            const step = step_of(c.intervals.at(row), c.sign) orelse return null;
            return add_interval(c.values.at(row), step, c.clock);
        }
    }.one);
}

pub fn dates_and_intervals(
    values: Operand(i32),
    intervals: Operand(Interval),
    sign: Sign,
    validity: ?[]const u8,
    out: []i64,
) Error!void {
    if (values == .values and intervals == .scalar) {
        if (step_of(intervals.scalar, sign)) |step| if (add_to_dates_fast(values.values, step, out)) return;
    }
    const Context = struct { values: Operand(i32), intervals: Operand(Interval), sign: Sign };
    const context: Context = .{ .values = values, .intervals = intervals, .sign = sign };
    return each(i64, out, validity, "date and interval", context, struct {
        fn one(c: Context, row: usize) ?i64 {
            const step = step_of(c.intervals.at(row), c.sign) orelse return null;
            return add_interval(midnight(c.values.at(row)) orelse return null, step, .local);
        }
    }.one);
}

fn add_to_dates_fast(values: []const i32, step: Step, out: []i64) bool {
    const rest = step.without_months() orelse return false;
    var buffer: [moment.block]i32 = undefined;
    var start: usize = 0;
    while (start < values.len) : (start += moment.block) {
        const count = @min(moment.block, values.len - start);
        const source = values[start..][0..count];
        const target = out[start..][0..count];
        // Dates without a timestamp fail even if the interval would bring them back.
        if (step.months != 0) {
            if (!moment.midnights(source, target)) return false;
            if (!calendar.add_months(source, step.months, buffer[0..count])) return false;
            if (!moment.midnights(buffer[0..count], target)) return false;
        } else if (!moment.midnights(source, target)) return false;
        if (!shift(target, rest, target)) return false;
    }
    return true;
}

pub fn add_to_time(time: i64, interval: Interval, sign: Sign) i64 {
    const rest = @rem(@divTrunc(interval.nanoseconds, 1000), day_microseconds);
    const moved = time +% if (sign == .plus) rest else -rest;
    // Once around: 24:00 is a time too, and becomes midnight.
    if (moved >= day_microseconds) return moved - day_microseconds;
    return if (moved < 0) moved + day_microseconds else moved;
}

/// Null where one is infinite: there is no such interval.
pub fn timestamp_difference(left: i64, right: i64) ?Interval {
    if (moment.is_infinite(i64, left) or moment.is_infinite(i64, right)) return null;
    const total, const overflow = @subWithOverflow(left, right);
    if (overflow != 0) return null;
    return .{
        .months = 0,
        .days = @intCast(@divTrunc(total, day_microseconds)),
        .nanoseconds = @rem(total, day_microseconds) * 1000,
    };
}

// Intervals.

pub fn interval_sum(left: Interval, right: Interval) ?Interval {
    return .{
        .months = std.math.add(i32, left.months, right.months) catch return null,
        .days = std.math.add(i32, left.days, right.days) catch return null,
        .nanoseconds = std.math.add(i64, left.nanoseconds, right.nanoseconds) catch return null,
    };
}

pub fn interval_difference(left: Interval, right: Interval) ?Interval {
    return .{
        .months = std.math.sub(i32, left.months, right.months) catch return null,
        .days = std.math.sub(i32, left.days, right.days) catch return null,
        .nanoseconds = std.math.sub(i64, left.nanoseconds, right.nanoseconds) catch return null,
    };
}

pub fn interval_negative(interval: Interval) ?Interval {
    return interval_difference(.{ .months = 0, .days = 0, .nanoseconds = 0 }, interval);
}

/// DuckDB wants a factor of 32 bits, whatever the interval.
pub fn interval_times(interval: Interval, factor: i64) ?Interval {
    const narrow = std.math.cast(i32, factor) orelse return null;
    return .{
        .months = std.math.mul(i32, interval.months, narrow) catch return null,
        .days = std.math.mul(i32, interval.days, narrow) catch return null,
        .nanoseconds = std.math.mul(i64, interval.nanoseconds, narrow) catch return null,
    };
}

const day_seconds = 86_400;

/// Fractions cascade down: of months into days of which a month has 30, of days into seconds. Microseconds
/// are the smallest unit, as in DuckDB.
pub fn interval_scaled(interval: Interval, factor: f64) ?Interval {
    const months = @as(f64, @floatFromInt(interval.months)) * factor;
    const days = @as(f64, @floatFromInt(interval.days)) * factor;
    const whole_months = whole(i32, months) orelse return null;
    const whole_days = whole(i32, days) orelse return null;
    const spare_days = round_microseconds((months - @trunc(months)) * 30);
    var seconds = round_microseconds((days - @trunc(days) + spare_days - @trunc(spare_days)) * day_seconds);
    var total_days = @as(i64, whole_days) + @as(i64, @intFromFloat(spare_days));
    if (@abs(seconds) >= day_seconds) {
        const carried = @trunc(seconds / day_seconds);
        total_days += @intFromFloat(carried);
        seconds -= carried * day_seconds;
    }
    const microseconds: f64 = @floatFromInt(@divTrunc(interval.nanoseconds, 1000));
    const time = whole(i64, round_even(microseconds * factor + seconds * 1_000_000)) orelse return null;
    return .{
        .months = whole_months,
        .days = std.math.cast(i32, total_days) orelse return null,
        .nanoseconds = std.math.mul(i64, time, 1000) catch return null,
    };
}

/// Null when the divisor is zero, and that is another failure than a result that is too large.
pub fn interval_divided(interval: Interval, divisor: f64) ?Interval {
    return interval_scaled(interval, 1 / divisor);
}

fn round_microseconds(seconds: f64) f64 {
    return round_even(seconds * 1_000_000) / 1_000_000;
}

/// To the nearest integer, halves to the even one.
pub fn round_even(value: f64) f64 {
    const big = 0x1p52;
    if (!(@abs(value) < big)) return value;
    const moved = std.math.copysign(@as(f64, big), value);
    return (value + moved) - moved;
}

/// The integer part, if it fits.
fn whole(comptime T: type, value: f64) ?T {
    const limit = comptime std.math.ldexp(@as(f64, 1), @bitSizeOf(T) - 1);
    // Not NaN either. DuckDB compares with the greatest number of 32 bits itself, which a float holds.
    if (T == i32 and !(value >= -limit and value <= limit - 1)) return null;
    if (T == i64 and !(value >= -limit and value < limit)) return null;
    return @intFromFloat(value);
}

const testing = std.testing;

fn days_of(year: i64, month: i64, day: i64) i32 {
    return calendar.days_of_civil(year, month, day).?;
}

fn at(year: i64, month: i64, day: i64, microseconds: i64) i64 {
    return timestamp_of(days_of(year, month, day), microseconds).?;
}

const hour = 3_600_000_000;

test add_interval {
    const month: Step = .{ .months = 1, .days = 0, .microseconds = 0 };
    try testing.expectEqual(at(2024, 2, 29, hour), add_interval(at(2024, 1, 31, hour), month, .local));
    const mixed: Step = .{ .months = 1, .days = 40, .microseconds = -77 * hour };
    try testing.expectEqual(at(1949, 2, 9, 0), add_interval(at(1948, 12, 3, 5 * hour), mixed, .local));
    try testing.expectEqual(at(1949, 2, 8, 0), add_interval(at(1948, 12, 3, 5 * hour), mixed, .instant));
    try testing.expectEqual(
        null,
        add_interval(moment.timestamp_max, .{ .months = 0, .days = 0, .microseconds = 1 }, .local),
    );
    try testing.expectEqual(
        null,
        add_interval(moment.timestamp_min, .{ .months = 0, .days = 0, .microseconds = -1 }, .local),
    );
    try testing.expectEqual(std.math.maxInt(i64), add_interval(std.math.maxInt(i64), month, .local));
    try testing.expectEqual(
        null,
        add_interval(0, .{ .months = std.math.minInt(i32), .days = 0, .microseconds = 0 }, .local),
    );
    try testing.expectEqual(
        null,
        add_interval(0, .{ .months = 0, .days = std.math.maxInt(i32), .microseconds = std.math.maxInt(i64) }, .local),
    );
}

test "one interval for many rows is that interval row by row" {
    defer interrupt.forget();
    var prng: std.Random.DefaultPrng = .init(21);
    const random = prng.random();
    for (0..400) |round| {
        const count = round % 8 + if (round % 50 == 0) @as(usize, 600) else 0;
        var timestamps: [608]i64 = undefined;
        var dates: [608]i32 = undefined;
        var out: [608]i64 = undefined;
        const reach: i64 = if (round % 5 == 0) 106_000_000 else 50_000;
        for (timestamps[0..count], dates[0..count]) |*timestamp, *date| {
            date.* = @intCast(random.intRangeAtMost(i64, -reach, reach));
            timestamp.* = date.* * day_microseconds + random.intRangeLessThan(i64, 0, day_microseconds);
        }
        if (count > 3 and round % 7 == 0) {
            timestamps[2] = -std.math.maxInt(i64);
            dates[2] = std.math.maxInt(i32);
        }
        const interval: Interval = .{
            .months = if (round % 3 == 0) 0 else random.intRangeAtMost(i32, -30, 30),
            .days = random.intRangeAtMost(i32, -400, 400),
            .nanoseconds = random.intRangeAtMost(i64, -1 << 50, 1 << 50),
        };
        for ([_]Sign{ .plus, .minus }) |sign| {
            const step = step_of(interval, sign).?;
            for ([_]Clock{ .local, .instant }) |clock| {
                try timestamps_and_intervals(
                    .{ .values = timestamps[0..count] },
                    .{ .scalar = interval },
                    sign,
                    clock,
                    null,
                    out[0..count],
                );
                for (timestamps[0..count], out[0..count]) |value, got|
                    try testing.expectEqual(add_interval(value, step, clock).?, got);
            }
            try dates_and_intervals(.{ .values = dates[0..count] }, .{ .scalar = interval }, sign, null, out[0..count]);
            for (dates[0..count], out[0..count]) |date, got|
                try testing.expectEqual(add_interval(midnight(date).?, step, .local).?, got);
        }
    }
}

test "rows that are NULL do not fail" {
    defer interrupt.forget();
    var out: [3]i64 = undefined;
    const interval: Interval = .{ .months = 1, .days = 0, .nanoseconds = 0 };
    const values = [3]i64{ 0, moment.timestamp_max, std.math.minInt(i64) };
    try testing.expectError(
        error.OutOfRange,
        timestamps_and_intervals(.{ .values = &values }, .{ .scalar = interval }, .plus, .local, null, &out),
    );
    try timestamps_and_intervals(.{ .values = &values }, .{ .scalar = interval }, .plus, .local, &.{0b001}, &out);
    try testing.expectEqual(31 * day_microseconds, out[0]);
    const dates = [3]i32{ 0, calendar.day_max, std.math.minInt(i32) };
    try testing.expectError(
        error.OutOfRange,
        dates_and_intervals(.{ .values = &dates }, .{ .scalar = interval }, .minus, null, &out),
    );
    try dates_and_intervals(
        .{ .values = &dates },
        .{ .values = &@as([3]Interval, @splat(interval)) },
        .minus,
        &.{0b001},
        &out,
    );
    try testing.expectEqual(-31 * day_microseconds, out[0]);
}

test add_to_time {
    const two_hours: Interval = .{ .months = 3, .days = 5, .nanoseconds = 2 * hour * 1000 };
    try testing.expectEqual(hour, add_to_time(23 * hour, two_hours, .plus));
    try testing.expectEqual(21 * hour, add_to_time(23 * hour, two_hours, .minus));
    try testing.expectEqual(23 * hour, add_to_time(hour, two_hours, .minus));
    try testing.expectEqual(0, add_to_time(24 * hour, .{ .months = 0, .days = 0, .nanoseconds = 0 }, .plus));
    _ = add_to_time(std.math.maxInt(i64), .{ .months = 0, .days = 0, .nanoseconds = std.math.minInt(i64) }, .minus);
}

test "dates and days" {
    defer interrupt.forget();
    try testing.expectEqual(3, add_days(1, 2));
    try testing.expectEqual(null, add_days(calendar.day_max, 1));
    try testing.expectEqual(null, subtract_days(-calendar.day_max, 1));
    try testing.expectEqual(std.math.maxInt(i32), add_days(std.math.maxInt(i32), 5));
    try testing.expectEqual(null, subtract_days(0, std.math.minInt(i32)));
    var prng: std.Random.DefaultPrng = .init(3);
    for (0..300) |round| {
        var dates: [19]i32 = undefined;
        var days: [19]i32 = undefined;
        var out: [19]i32 = undefined;
        for (&dates, &days) |*date, *day| {
            date.* = if (round % 3 == 0)
                prng.random().int(i32)
            else
                prng.random().intRangeAtMost(i32, -100_000, 100_000);
            day.* = if (round % 5 == 0) prng.random().int(i32) else prng.random().intRangeAtMost(i32, -1000, 1000);
        }
        const count = round % 20;
        for ([_]Sign{ .plus, .minus }) |sign|
            for ([_]Operand(i32){ .{ .values = days[0..count] }, .{ .scalar = days[0] } }) |by| {
                var fits = true;
                for (dates[0..count], 0..) |date, row| fits = fits and
                    (if (sign == .plus) add_days(date, by.at(row)) else subtract_days(date, by.at(row))) != null;
                const result = dates_and_days(.{ .values = dates[0..count] }, by, sign, null, out[0..count]);
                if (!fits) {
                    try testing.expectError(error.OutOfRange, result);
                    continue;
                }
                try result;
                for (dates[0..count], out[0..count], 0..) |date, got, row| {
                    try testing.expectEqual(
                        if (sign == .plus) add_days(date, by.at(row)).? else subtract_days(date, by.at(row)).?,
                        got,
                    );
                }
            };
    }
    try testing.expectEqual(hour, add_time(0, hour));
    try testing.expectEqual(-std.math.maxInt(i64), add_time(-std.math.maxInt(i32), hour));
    try testing.expectEqual(null, midnight(moment.day_limit + 1));
}

test timestamp_difference {
    const expected: Interval = .{ .months = 0, .days = -1, .nanoseconds = -hour * 1000 };
    try testing.expectEqual(expected, timestamp_difference(0, day_microseconds + hour).?);
    try testing.expectEqual(null, timestamp_difference(std.math.maxInt(i64), 0));
    try testing.expectEqual(null, timestamp_difference(moment.timestamp_max, moment.timestamp_min));
}

test "intervals" {
    const one: Interval = .{ .months = 1, .days = 1, .nanoseconds = 2 * hour * 1000 };
    try testing.expectEqual(
        Interval{ .months = 3, .days = 3, .nanoseconds = 6 * hour * 1000 },
        interval_times(one, 3).?,
    );
    try testing.expectEqual(
        Interval{ .months = 2, .days = 17, .nanoseconds = 17 * hour * 1000 },
        interval_scaled(one, 2.5).?,
    );
    try testing.expectEqual(
        Interval{ .months = 0, .days = 15, .nanoseconds = 13 * hour * 1000 },
        interval_divided(one, 2).?,
    );
    try testing.expectEqual(
        Interval{ .months = 0, .days = 0, .nanoseconds = 0 },
        interval_sum(one, interval_negative(one).?).?,
    );
    try testing.expectEqual(null, interval_negative(.{ .months = std.math.minInt(i32), .days = 0, .nanoseconds = 0 }));
    try testing.expectEqual(null, interval_times(one, 1 << 31));
    try testing.expectEqual(null, interval_scaled(one, std.math.nan(f64)));
    try testing.expectEqual(null, interval_scaled(one, 1e300));
    try testing.expectEqual(null, interval_divided(.{ .months = 0, .days = 0, .nanoseconds = 5000 }, 0));
}
