//! How far two dates or timestamps are apart, in three ways of counting, as DuckDB 2.0 has them:
//!
//!     date_diff   how many borders of the unit lie between them: 23:59 and 0:01 are one day apart
//!     date_sub    how many whole units fit between them
//!     age         months, days and time, as people count
//!
//! Both take the earlier one first; `age` takes the later one first. Infinite ones have no distance: the
//! caller makes them NULL.
const std = @import("std");
const abi = @import("../abi.zig");
const arithmetic = @import("arithmetic.zig");
const calendar = @import("calendar.zig");
const each = @import("each.zig");
const moment = @import("moment.zig");
const temporal = @import("temporal.zig");
const Interval = @import("../core/interval.zig").Interval;
const Operand = arithmetic.Operand;
const day_microseconds = moment.day_microseconds;

pub const Error = temporal.Error;

/// What is counted.
pub const Unit = enum {
    microsecond,
    millisecond,
    second,
    minute,
    hour,
    day,
    week,
    month,
    quarter,
    year,
    isoyear,
    decade,
    century,
    millennium,

    /// Null for parts that are no lengths.
    pub fn of(part: abi.DatePart) ?Unit {
        return switch (part) {
            .microsecond => .microsecond,
            .millisecond => .millisecond,
            .second, .epoch => .second,
            .minute => .minute,
            .hour => .hour,
            .day, .dayofweek, .isodow, .dayofyear, .julian => .day,
            .week, .yearweek => .week,
            .month => .month,
            .quarter => .quarter,
            .year => .year,
            .isoyear => .isoyear,
            .decade => .decade,
            .century => .century,
            .millennium => .millennium,
            .era, .nanosecond, .epoch_ms, .epoch_us, .epoch_ns, .timezone => null,
        };
    }

    /// Units that a time of day has.
    pub fn is_time(self: Unit) bool {
        return @backingInt(self) <= @backingInt(Unit.hour);
    }

    /// 0 for months and what is longer.
    fn microseconds(self: Unit) i64 {
        return switch (self) {
            .microsecond => 1,
            .millisecond => 1_000,
            .second => 1_000_000,
            .minute => 60_000_000,
            .hour => 3_600_000_000,
            .day => day_microseconds,
            .week => 7 * day_microseconds,
            else => 0,
        };
    }

    /// Of months and what is longer.
    fn months(self: Unit) i64 {
        return switch (self) {
            .month => 1,
            .quarter => 3,
            .year, .isoyear => 12,
            .decade => 120,
            .century => 1_200,
            .millennium => 12_000,
            else => unreachable,
        };
    }
};

/// `T` is i32 for dates, i64 for timestamps and for times of day.
pub fn diff(
    comptime T: type,
    unit: Unit,
    starts: Operand(T),
    ends: Operand(T),
    validity: ?[]const u8,
    out: []i64,
) Error!void {
    var buffer: [2][moment.block]i64 = undefined;
    var fits = true;
    var start: usize = 0;
    while (start < out.len) : (start += moment.block) {
        const count = @min(moment.block, out.len - start);
        const target = out[start..][0..count];
        fits = indices(T, unit, starts, start, buffer[0][0..count]) and fits;
        fits = indices(T, unit, ends, start, buffer[1][0..count]) and fits;
        for (target, buffer[0][0..count], buffer[1][0..count]) |*to, from, until| {
            const result, const overflow = @subWithOverflow(until, from);
            fits = fits and overflow == 0;
            // Weeks are whole ones, wherever they begin.
            to.* = if (unit == .week) @divTrunc(result, 7) else result;
        }
    }
    if (fits) return;
    const Context = struct { unit: Unit, starts: Operand(T), ends: Operand(T) };
    return each.each(i64, out, validity, "date_diff", Context{ .unit = unit, .starts = starts, .ends = ends }, struct {
        fn one(c: Context, row: usize) ?i64 {
            const from = index(T, c.unit, c.starts.at(row)) orelse return null;
            const until = index(T, c.unit, c.ends.at(row)) orelse return null;
            const result = std.math.sub(i64, until, from) catch return null;
            return if (c.unit == .week) @divTrunc(result, 7) else result;
        }
    }.one);
}

/// The number of the unit that each value lies in. False when some number does not fit.
fn indices(comptime T: type, unit: Unit, values: Operand(T), start: usize, out: []i64) bool {
    switch (values) {
        .scalar => |value| {
            const number = index(T, unit, value);
            @memset(out, number orelse 0);
            return number != null;
        },
        .values => |all| {
            const chunk = all[start..][0..out.len];
            if (calendar_part(unit)) |part| {
                switch (part) {
                    inline .year,
                    .isoyear,
                    .decade,
                    .century_index,
                    .millennium_index,
                    .month_index,
                    .quarter_index,
                    => |known| {
                        if (T == i32)
                            _ = calendar.date_part(known, chunk, out)
                        else
                            moment.date_part(known, chunk, out);
                        return true;
                    },
                    else => unreachable,
                }
            }
            var fits = true;
            for (out, chunk) |*to, value| {
                const number = index(T, unit, value);
                fits = fits and number != null;
                to.* = number orelse 0;
            }
            return fits;
        },
    }
}

fn calendar_part(unit: Unit) ?calendar.DatePart {
    return switch (unit) {
        .month => .month_index,
        .quarter => .quarter_index,
        .year => .year,
        .isoyear => .isoyear,
        .decade => .decade,
        .century => .century_index,
        .millennium => .millennium_index,
        else => null,
    };
}

fn index(comptime T: type, unit: Unit, value: T) ?i64 {
    if (calendar_part(unit)) |part| {
        const day = if (T == i32) value else moment.day_of(value);
        return switch (part) {
            inline .year,
            .isoyear,
            .decade,
            .century_index,
            .millennium_index,
            .month_index,
            .quarter_index,
            => |known| calendar.part_of(known, day),
            else => unreachable,
        };
    }
    if (T == i32) return switch (unit) {
        .day, .week => value,
        // DuckDB counts these in microseconds, which end before dates do.
        .microsecond, .millisecond => @divTrunc(
            std.math.mul(i64, value, day_microseconds) catch return null,
            unit.microseconds(),
        ),
        else => @as(i64, value) * @divExact(day_microseconds, unit.microseconds()),
    };
    return switch (unit) {
        .day, .week => moment.day_of(value),
        inline .microsecond, .millisecond, .second, .minute, .hour => |known| @divFloor(value, known.microseconds()),
        else => unreachable,
    };
}

/// Whole units between two timestamps (dates have become midnights). Null where microseconds do not fit.
pub fn whole_units(unit: Unit, start: i64, end: i64) ?i64 {
    if (unit.microseconds() == 0) return @divTrunc(whole_months(start, end), unit.months());
    const total = std.math.sub(i64, end, start) catch return null;
    return @divTrunc(total, unit.microseconds());
}

fn whole_months(start: i64, end: i64) i64 {
    if (start > end) return -whole_months(end, start);
    var from = start;
    const end_date = calendar.civil_of(moment.day_of(end));
    const length = calendar.month_length(end_date.year, end_date.month);
    if (end_date.day == length) {
        // The last day of a month completes it, even for a start on a later day that the month lacks.
        const start_date = calendar.civil_of(moment.day_of(start));
        const start_time = @mod(start, day_microseconds);
        const is_later = start_date.day > length or
            (start_date.day == length and start_time < @mod(end, day_microseconds));
        if (is_later) from = start -% (start_date.day - length) * day_microseconds;
    }
    return age(end, from).months;
}

/// Years and months, days, and the rest: the fields' differences, with what is missing borrowed from the next
/// larger field. A month that is borrowed has the days of the earlier one's.
pub fn age(left: i64, right: i64) Interval {
    if (left < right) {
        const positive = age(right, left);
        return .{ .months = -positive.months, .days = -positive.days, .nanoseconds = -positive.nanoseconds };
    }
    const late = calendar.civil_of(moment.day_of(left));
    const early = calendar.civil_of(moment.day_of(right));
    var months = (@as(i64, late.year) - early.year) * 12 + late.month - early.month;
    var days: i64 = late.day - early.day;
    var time = @mod(left, day_microseconds) - @mod(right, day_microseconds);
    if (time < 0) {
        time += day_microseconds;
        days -= 1;
    }
    while (days < 0) {
        days += calendar.month_length(early.year, early.month);
        months -= 1;
    }
    // Any two timestamps are less than 600,000 years apart.
    return .{ .months = @truncate(months), .days = @intCast(days), .nanoseconds = time * 1000 };
}

const testing = std.testing;

fn at(year: i64, month: i64, day: i64, hour: i64) i64 {
    return temporal.timestamp_of(calendar.days_of_civil(year, month, day).?, hour * 3_600_000_000).?;
}

fn diff_one(comptime T: type, unit: Unit, start: T, end: T) !i64 {
    var out: [3]i64 = undefined;
    try diff(T, unit, .{ .values = &.{ start, start, start } }, .{ .scalar = end }, null, &out);
    try testing.expectEqual(out[0], out[2]);
    var back: [1]i64 = undefined;
    try diff(T, unit, .{ .scalar = end }, .{ .values = &.{start} }, null, &back);
    try testing.expectEqual(-out[0], back[0]);
    return out[0];
}

test diff {
    defer @import("../core/interrupt.zig").forget();
    const last = calendar.days_of_civil(2020, 12, 31).?;
    try testing.expectEqual(1, try diff_one(i32, .year, last, last + 1));
    try testing.expectEqual(1, try diff_one(i32, .month, last, last + 1));
    try testing.expectEqual(1, try diff_one(i32, .quarter, last, last + 1));
    try testing.expectEqual(0, try diff_one(i32, .week, last, last + 6));
    try testing.expectEqual(1, try diff_one(i32, .week, last, last + 7));
    try testing.expectEqual(24, try diff_one(i32, .hour, last, last + 1));
    try testing.expectEqual(1, try diff_one(i64, .day, at(2020, 1, 1, 23), at(2020, 1, 2, 1)));
    try testing.expectEqual(1, try diff_one(i64, .hour, -1, 0));
    try testing.expectEqual(0, try diff_one(i64, .century, at(1950, 1, 1, 0), at(1999, 1, 1, 0)));
    var out: [1]i64 = undefined;
    try testing.expectError(
        error.OutOfRange,
        diff(i32, .microsecond, .{ .scalar = 0 }, .{ .values = &.{calendar.day_max} }, null, &out),
    );
    try diff(i32, .microsecond, .{ .scalar = 0 }, .{ .values = &.{calendar.day_max} }, &.{0}, &out);
    try testing.expectError(
        error.OutOfRange,
        diff(i64, .microsecond, .{ .scalar = moment.timestamp_min }, .{ .scalar = moment.timestamp_max }, null, &out),
    );
    inline for (comptime std.enums.values(Unit)) |unit| {
        _ = diff(
            i64,
            unit,
            .{ .scalar = std.math.minInt(i64) },
            .{ .values = &.{std.math.maxInt(i64)} },
            &.{0},
            &out,
        ) catch unreachable;
        _ = whole_units(unit, std.math.minInt(i64), std.math.maxInt(i64));
    }
}

test whole_units {
    try testing.expectEqual(1, whole_units(.month, at(2020, 1, 31, 0), at(2020, 2, 29, 0)).?);
    try testing.expectEqual(0, whole_units(.month, at(2020, 1, 31, 0), at(2020, 2, 28, 23)).?);
    try testing.expectEqual(-1, whole_units(.month, at(2020, 2, 29, 0), at(2020, 1, 29, 0)).?);
    try testing.expectEqual(0, whole_units(.day, at(2020, 1, 1, 23), at(2020, 1, 2, 1)).?);
    try testing.expectEqual(1, whole_units(.year, at(2020, 2, 29, 0), at(2021, 2, 28, 0)).?);
    try testing.expectEqual(null, whole_units(.day, moment.timestamp_min, moment.timestamp_max));
}

test age {
    try testing.expectEqual(
        Interval{ .months = 43 * 12 + 9, .days = 27, .nanoseconds = 0 },
        age(at(2001, 4, 10, 0), at(1957, 6, 13, 0)),
    );
    try testing.expectEqual(
        Interval{ .months = -1, .days = -3, .nanoseconds = 0 },
        age(at(2020, 1, 30, 0), at(2020, 3, 2, 0)),
    );
    try testing.expectEqual(
        Interval{ .months = 0, .days = 0, .nanoseconds = 2 * 3_600_000_000_000 },
        age(at(2020, 1, 2, 1), at(2020, 1, 1, 23)),
    );
}
