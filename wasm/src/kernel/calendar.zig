//! The calendar: days since 1970-01-01 to years, months, days and weeks, and back.
//!
//! Days become civil dates by three multiplications and no branch (Neri and Schneider, "Euclidean affine
//! functions and their application to calendar algorithms", 2022): years begin in March, so that the leap
//! day is a year's last. Lanes of 32 bits hold some 700,000 years to either side of 1970; chunks that go
//! further are computed once more, one row at a time. Leap years and weekdays repeat every 146,097 days,
//! so such a row is moved near 1970 by whole cycles of 400 years and only its year moved back.
//!
//! Year 0 is 1 BC and years before it are negative, as in DuckDB. Weeks are ISO's: they begin on Monday, and
//! belong to the year of their Thursday.
//!
//! Any bits are a date here: NULL rows hold anything, and infinite dates are the caller's business.
const std = @import("std");
const assert = std.debug.assert;

/// What can be asked of a day. The last four are not SQL's own: differences of dates are differences of
/// these. (`decades` and its like truncate toward zero, as DuckDB's do.)
pub const DatePart = enum {
    year,
    month,
    day,
    quarter,
    week,
    isoyear,
    /// isoyear × 100 + week, away from zero.
    yearweek,
    /// Sunday is 0.
    dayofweek,
    /// Monday is 1.
    isodow,
    dayofyear,
    decade,
    century,
    millennium,
    era,
    month_index,
    quarter_index,
    century_index,
    millennium_index,
};

/// Where truncation ends: the first day of …
pub const DateUnit = enum { day, week, month, quarter, year, isoyear, decade, century, millennium };

pub const Civil = struct { year: i32, month: i32, day: i32 };

const cycle_days = 146_097;
const cycle_years = 400;

/// Lanes count days from a 1st of March so far back that none is negative.
const shift_cycles = 1_835;
const shift_years = shift_cycles * cycle_years;
const shift_days: u32 = 719_468 + shift_cycles * cycle_days;
/// Days that lanes can hold, after the shift: with more, 1461 × years would pass 32 bits. A power of two,
/// so that the OR of many days tells whether one of them is beyond.
const shifted_end: u32 = 1 << 29;

/// Lanes of 128 bits.
const lanes = 4;

fn Signed(comptime n: comptime_int) type {
    return @Vector(n, i32);
}

fn Unsigned(comptime n: comptime_int) type {
    return @Vector(n, u32);
}

inline fn splat(comptime n: comptime_int, value: u32) Unsigned(n) {
    return @splat(value);
}

inline fn multiply_high(comptime n: comptime_int, a: Unsigned(n), b: u32, comptime shift: u6) Unsigned(n) {
    const Wide = @Vector(n, u64);
    return @truncate((@as(Wide, a) * @as(Wide, @splat(b))) >> @splat(shift));
}

/// `value / divisor`: exact while value × (the magic number's error) stays below 2^32.
inline fn divide(comptime n: comptime_int, value: Unsigned(n), comptime divisor: comptime_int) Unsigned(n) {
    return multiply_high(n, value, (1 << 32) / divisor + 1, 32);
}

/// A date whose year begins in March.
fn MarchDate(comptime n: comptime_int) type {
    return struct {
        /// From -`shift_years`; never negative.
        year: Unsigned(n),
        /// 0 to 365, the 1st of March is 0.
        day: Unsigned(n),

        /// All bits set where the civil year is one further: January and February.
        inline fn is_next_year(self: @This()) Unsigned(n) {
            return mask(n, self.day >= splat(n, 306));
        }

        inline fn civil_year(self: @This()) Signed(n) {
            // The mask is -1.
            return @bitCast(self.year -% self.is_next_year() -% splat(n, shift_years));
        }
    };
}

inline fn mask(comptime n: comptime_int, condition: @Vector(n, bool)) Unsigned(n) {
    return @select(u32, condition, splat(n, 0xFFFF_FFFF), splat(n, 0));
}

inline fn shifted(comptime n: comptime_int, days: Signed(n)) Unsigned(n) {
    return @as(Unsigned(n), @bitCast(days)) +% splat(n, shift_days);
}

/// The days lie within the lanes' reach.
inline fn march_date(comptime n: comptime_int, days: Signed(n)) MarchDate(n) {
    const quarters = (shifted(n, days) << @splat(2)) | splat(n, 3);
    // quarters / cycle_days, exact for 32 bits.
    const century = multiply_high(n, quarters, 3_853_261_556, 49);
    const rest = quarters -% century *% splat(n, cycle_days);
    // (rest | 3) / 1461, exact for a century.
    const year = multiply_high(n, rest | splat(n, 3), 2_939_745, 32);
    return .{
        .year = century *% splat(n, 100) +% year,
        .day = (rest >> @splat(2)) -% ((year *% splat(n, 1461)) >> @splat(2)),
    };
}

fn CivilLanes(comptime n: comptime_int) type {
    return struct { year: Signed(n), month: Unsigned(n), day: Unsigned(n) };
}

inline fn civil_lanes(comptime n: comptime_int, days: Signed(n)) CivilLanes(n) {
    const date = march_date(n, days);
    // Months of a year that begins in March lie on a line; its slope is 2141 / 2^16.
    const line = date.day *% splat(n, 2141) +% splat(n, 197_913);
    const month = (line >> @splat(16)) -% (date.is_next_year() & splat(n, 12));
    return .{
        .year = date.civil_year(),
        .month = month,
        // (line mod 2^16) / 2141
        .day = divide(n, line & splat(n, 0xFFFF), 2141) +% splat(n, 1),
    };
}

/// The day of a date that exists, near 1970. The month counts from 1.
inline fn lanes_of_civil(comptime n: comptime_int, year: Signed(n), month: Unsigned(n), day: Unsigned(n)) Signed(n) {
    const early = mask(n, month <= splat(n, 2));
    const march_year = @as(Unsigned(n), @bitCast(year)) +% splat(n, shift_years) +% early;
    const march_month = month +% (early & splat(n, 12));
    const century = divide(n, march_year, 100);
    const year_days = ((march_year *% splat(n, 1461)) >> @splat(2)) -% century +% (century >> @splat(2));
    const month_days = (march_month *% splat(n, 979) -% splat(n, 2919)) >> @splat(5);
    return @bitCast(year_days +% month_days +% day -% splat(n, 1) -% splat(n, shift_days));
}

/// 1 in leap years, near 1970.
inline fn leap_lanes(comptime n: comptime_int, year: Signed(n)) Unsigned(n) {
    const positive = @as(Unsigned(n), @bitCast(year)) +% splat(n, shift_years);
    const is_25th = positive == divide(n, positive, 25) *% splat(n, 25);
    // Of years that 25 divides, those that 16 divides too: every 400th.
    const bits = @select(u32, is_25th, splat(n, 15), splat(n, 3));
    return mask(n, (positive & bits) == splat(n, 0)) & splat(n, 1);
}

inline fn month_length_lanes(comptime n: comptime_int, year: Signed(n), month: Unsigned(n)) Unsigned(n) {
    // 31 for odd months to July and even ones from August on.
    const usual = splat(n, 30) +% ((month ^ (month >> @splat(3))) & splat(n, 1));
    return @select(u32, month == splat(n, 2), splat(n, 28) +% leap_lanes(n, year), usual);
}

/// 0 is Monday.
inline fn weekday_lanes(comptime n: comptime_int, days: Signed(n)) Unsigned(n) {
    // 1970-01-01 was a Thursday, 3.
    const offset = shift_days + 3 - (shift_days % 7);
    const value = @as(Unsigned(n), @bitCast(days)) +% splat(n, offset);
    return value -% divide(n, value, 7) *% splat(n, 7);
}

inline fn day_of_year_lanes(comptime n: comptime_int, date: MarchDate(n)) Unsigned(n) {
    const next = date.is_next_year();
    const from_january = date.day +% splat(n, 60) +% leap_lanes(n, date.civil_year());
    return (next & (date.day -% splat(n, 305))) | (~next & from_january);
}

inline fn thursday(comptime n: comptime_int, days: Signed(n)) Signed(n) {
    return days -% @as(Signed(n), @bitCast(weekday_lanes(n, days))) +% @as(Signed(n), @splat(3));
}

/// `years` are added to the year: a row that was moved near 1970 gets them back.
inline fn part_lanes(comptime part: DatePart, comptime n: comptime_int, days: Signed(n), years: Signed(n)) Signed(n) {
    const S = Signed(n);
    switch (part) {
        .year => return march_date(n, days).civil_year() +% years,
        .month => return @bitCast(civil_lanes(n, days).month),
        .day => return @bitCast(civil_lanes(n, days).day),
        .quarter => return @bitCast(divide(n, civil_lanes(n, days).month +% splat(n, 2), 3)),
        .dayofweek => {
            const monday_first: S = @bitCast(weekday_lanes(n, days));
            return @select(i32, monday_first == @as(S, @splat(6)), @as(S, @splat(0)), monday_first +% @as(
                S,
                @splat(1),
            ));
        },
        .isodow => return @bitCast(weekday_lanes(n, days) +% splat(n, 1)),
        .dayofyear => return @bitCast(day_of_year_lanes(n, march_date(n, days))),
        .week => return week_lanes(n, days),
        .isoyear => return part_lanes(.year, n, thursday(n, days), years),
        .yearweek => {
            const year = part_lanes(.isoyear, n, days, years);
            const week = week_lanes(n, days);
            return year *% @as(S, @splat(100)) +% @select(i32, year > @as(S, @splat(0)), week, -week);
        },
        .decade => return truncate_quotient(n, part_lanes(.year, n, days, years), 10),
        .century_index => return truncate_quotient(n, part_lanes(.year, n, days, years), 100),
        .millennium_index => return truncate_quotient(n, part_lanes(.year, n, days, years), 1000),
        .century => return count_from_one(n, part_lanes(.year, n, days, years), 100),
        .millennium => return count_from_one(n, part_lanes(.year, n, days, years), 1000),
        .era => return @select(i32, part_lanes(.year, n, days, years) > @as(S, @splat(0)), @as(S, @splat(1)), @as(
            S,
            @splat(0),
        )),
        .month_index => {
            const civil = civil_lanes(n, days);
            return (civil.year +% years) *% @as(S, @splat(12)) +% @as(S, @bitCast(civil.month)) -% @as(S, @splat(1));
        },
        .quarter_index => return truncate_quotient(n, part_lanes(.month_index, n, days, years), 3),
    }
}

inline fn week_lanes(comptime n: comptime_int, days: Signed(n)) Signed(n) {
    const day = day_of_year_lanes(n, march_date(n, thursday(n, days)));
    return @bitCast(divide(n, day +% splat(n, 6), 7));
}

inline fn truncate_quotient(comptime n: comptime_int, value: Signed(n), comptime divisor: comptime_int) Signed(n) {
    const magnitude: Signed(n) = @bitCast(divide(n, @abs(value), divisor));
    return @select(i32, value < @as(Signed(n), @splat(0)), -magnitude, magnitude);
}

/// Centuries: the years 1 to 100 are the first, 0 and before it the one before: -1, as in DuckDB.
inline fn count_from_one(comptime n: comptime_int, year: Signed(n), comptime length: comptime_int) Signed(n) {
    const one: Signed(n) = @splat(1);
    const after = truncate_quotient(n, year -% one, length) +% one;
    return @select(i32, year > @as(Signed(n), @splat(0)), after, truncate_quotient(n, year, length) -% one);
}

/// A day of any 32 bits, moved near 1970 by whole cycles, and the years of that move.
const Moved = struct {
    days: i32,
    years: i32,

    inline fn from(days: i32) Moved {
        const cycles = @divFloor(@as(i64, days), cycle_days);
        return .{
            .days = @intCast(@as(i64, days) - cycles * cycle_days),
            .years = @intCast(cycles * cycle_years),
        };
    }
};

/// One part of every day. True when none is far away, so that none is infinite.
pub fn date_part(comptime part: DatePart, days: []const i32, out: []i64) bool {
    assert(days.len == out.len);
    var reach: Unsigned(lanes) = @splat(0);
    var i: usize = 0;
    while (i + lanes <= days.len) : (i += lanes) {
        const chunk: Signed(lanes) = days[i..][0..lanes].*;
        reach |= shifted(lanes, chunk);
        out[i..][0..lanes].* = @as(@Vector(lanes, i64), part_lanes(part, lanes, chunk, @splat(0)));
    }
    var furthest = @reduce(.Or, reach);
    while (i < days.len) : (i += 1) {
        furthest |= shifted(1, .{days[i]})[0];
        out[i] = part_of(part, days[i]);
    }
    if (furthest < shifted_end) return true;
    for (out, days) |*to, day| to.* = part_of(part, day);
    return false;
}

/// One part of one day, however far away.
pub fn part_of(comptime part: DatePart, days: i32) i64 {
    const moved: Moved = .from(days);
    return part_lanes(part, 1, .{moved.days}, .{moved.years})[0];
}

pub fn civil_of(days: i32) Civil {
    const moved: Moved = .from(days);
    const civil = civil_lanes(1, .{moved.days});
    return .{ .year = civil.year[0] + moved.years, .month = @intCast(civil.month[0]), .day = @intCast(civil.day[0]) };
}

/// The greatest day that is not infinite; the least is its negative.
pub const day_max: i32 = std.math.maxInt(i32) - 1;

/// Null where there is no such day, or no 32 bits for it.
pub fn days_of_civil(year: i64, month: i64, day: i64) ?i32 {
    if (month < 1 or month > 12 or day < 1 or day > 31) return null;
    if (@abs(year) > 6_000_000) return null;
    if (day > month_length(year, month)) return null;
    const cycles = @divFloor(year, cycle_years);
    const near: i32 = @intCast(year - cycles * cycle_years);
    const days = lanes_of_civil(1, .{near}, .{@intCast(month)}, .{@intCast(day)})[0];
    const total = days + cycles * cycle_days;
    return if (@abs(total) <= day_max) @intCast(total) else null;
}

pub fn month_length(year: i64, month: i64) i64 {
    const near: i32 = @intCast(@mod(year, cycle_years));
    return month_length_lanes(1, .{near}, .{@intCast(month)})[0];
}

/// The first day of the unit that each day lies in. Days that are so far away that this has no 32 bits
/// come out unspecified: the caller knows that timestamps end long before.
pub fn truncate_days(comptime unit: DateUnit, days: []const i32, out: []i32) void {
    assert(days.len == out.len);
    if (unit == .day) return @memcpy(out, days);
    var reach: Unsigned(lanes) = @splat(0);
    var i: usize = 0;
    while (i + lanes <= days.len) : (i += lanes) {
        const chunk: Signed(lanes) = days[i..][0..lanes].*;
        reach |= shifted(lanes, chunk);
        out[i..][0..lanes].* = truncate_lanes(unit, lanes, chunk);
    }
    while (i < days.len) : (i += 1) out[i] = truncate_far(unit, days[i]);
    if (@reduce(.Or, reach) < shifted_end) return;
    for (out, days) |*to, day| to.* = truncate_far(unit, day);
}

/// Days of this magnitude are within reach before and after, and have no timestamp.
const far_limit: i32 = 250_000_000;

fn truncate_far(comptime unit: DateUnit, day: i32) i32 {
    return truncate_lanes(unit, 1, .{@max(-far_limit, @min(far_limit, day))})[0];
}

inline fn truncate_lanes(comptime unit: DateUnit, comptime n: comptime_int, days: Signed(n)) Signed(n) {
    const S = Signed(n);
    const one: S = @splat(1);
    switch (unit) {
        .day => return days,
        .week => return days -% @as(S, @bitCast(weekday_lanes(n, days))),
        .month => return days -% @as(S, @bitCast(civil_lanes(n, days).day)) +% one,
        .quarter => {
            const civil = civil_lanes(n, days);
            const first = divide(n, civil.month +% splat(n, 2), 3) *% splat(n, 3) -% splat(n, 2);
            return lanes_of_civil(n, civil.year, first, splat(n, 1));
        },
        .year => return days -% @as(S, @bitCast(day_of_year_lanes(n, march_date(n, days)))) +% one,
        .isoyear => {
            const weeks = week_lanes(n, days) -% one;
            return truncate_lanes(.week, n, days) -% weeks *% @as(S, @splat(7));
        },
        .decade => return first_of_years(n, days, 10),
        .century => return first_of_years(n, days, 100),
        .millennium => return first_of_years(n, days, 1000),
    }
}

inline fn first_of_years(comptime n: comptime_int, days: Signed(n), comptime length: comptime_int) Signed(n) {
    const year = truncate_quotient(n, march_date(n, days).civil_year(), length) *% @as(Signed(n), @splat(length));
    return lanes_of_civil(n, year, splat(n, 1), splat(n, 1));
}

/// The last day of each day's month.
pub fn last_days(days: []const i32, out: []i32) void {
    assert(days.len == out.len);
    for (out, days) |*to, day| {
        const moved: Moved = .from(day);
        const civil = civil_lanes(1, .{moved.days});
        const length = month_length_lanes(1, civil.year, civil.month);
        to.* = day +% @as(i32, @bitCast(length[0] -% civil.day[0]));
    }
}

/// Months that lanes can add, in years: with more, the result might be too far.
const near_years = 80_000;

/// The same day of the month, or its last, some months later. False when some day is too far away for
/// lanes: `add_months_one` knows.
pub fn add_months(days: []const i32, months: i32, out: []i32) bool {
    assert(days.len == out.len);
    if (@abs(months) > near_years * 12) return false;
    var reach: Unsigned(lanes) = @splat(0);
    var i: usize = 0;
    while (i + lanes <= days.len) : (i += lanes) {
        const chunk: Signed(lanes) = days[i..][0..lanes].*;
        reach |= shifted(lanes, chunk);
        out[i..][0..lanes].* = add_months_lanes(lanes, chunk, months);
    }
    var furthest = @reduce(.Or, reach);
    while (i < days.len) : (i += 1) {
        furthest |= shifted(1, .{days[i]})[0];
        out[i] = add_months_lanes(1, .{days[i]}, months)[0];
    }
    return furthest < shifted_end;
}

inline fn add_months_lanes(comptime n: comptime_int, days: Signed(n), months: i32) Signed(n) {
    const civil = civil_lanes(n, days);
    const years = @as(Unsigned(n), @bitCast(civil.year)) +% splat(n, shift_years + near_years);
    const total = years *% splat(n, 12) +% civil.month +% splat(n, @bitCast(months -% 1));
    const quotient = divide(n, total, 12);
    const month = total -% quotient *% splat(n, 12) +% splat(n, 1);
    const year: Signed(n) = @bitCast(quotient -% splat(n, shift_years + near_years));
    return lanes_of_civil(n, year, month, @min(civil.day, month_length_lanes(n, year, month)));
}

/// Null where the result does not fit 32 bits.
pub fn add_months_one(days: i32, months: i32) ?i32 {
    const civil = civil_of(days);
    const total = @as(i64, civil.year) * 12 + (civil.month - 1) + months;
    const year = @divFloor(total, 12);
    const month = @mod(total, 12) + 1;
    return days_of_civil(year, month, @min(civil.day, month_length(year, month)));
}

const testing = std.testing;

fn is_leap(year: i32) bool {
    return @mod(year, 4) == 0 and (@mod(year, 100) != 0 or @mod(year, 400) == 0);
}

const lengths = [12]i32{ 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };

fn plain_month_length(year: i32, month: i32) i32 {
    return lengths[@intCast(month - 1)] + @as(i32, @intFromBool(month == 2 and is_leap(year)));
}

/// Walks the calendar day by day, which needs no arithmetic worth the name.
const Walk = struct {
    year: i32,
    month: i32 = 1,
    day: i32 = 1,
    day_of_year: i32 = 1,
    /// Monday is 0.
    weekday: i32,
    days: i32,

    fn next(self: *Walk) void {
        self.days += 1;
        self.weekday = @mod(self.weekday + 1, 7);
        self.day += 1;
        self.day_of_year += 1;
        if (self.day <= plain_month_length(self.year, self.month)) return;
        self.day = 1;
        self.month += 1;
        if (self.month <= 12) return;
        self.month = 1;
        self.day_of_year = 1;
        self.year += 1;
    }

    /// Weeks by their Thursday, which lies in their year.
    fn iso(self: *const Walk) struct { year: i32, week: i32 } {
        const day = self.day_of_year + 3 - self.weekday;
        const length: i32 = if (is_leap(self.year)) 366 else 365;
        if (day < 1) {
            const before: i32 = if (is_leap(self.year - 1)) 366 else 365;
            return .{ .year = self.year - 1, .week = @divFloor(day + before - 1, 7) + 1 };
        }
        if (day > length) return .{ .year = self.year + 1, .week = 1 };
        return .{ .year = self.year, .week = @divFloor(day - 1, 7) + 1 };
    }
};

fn days_before(year: i32) i32 {
    const y = year - 1;
    return y * 365 + @divFloor(y, 4) - @divFloor(y, 100) + @divFloor(y, 400) - 719_162;
}

test "every day of the years -5000 to 9999" {
    var walk: Walk = .{ .year = -5000, .days = days_before(-5000), .weekday = @mod(days_before(-5000) + 3, 7) };
    try testing.expectEqual(0, days_before(1970));
    while (walk.year < 10_000) : (walk.next()) {
        const civil = civil_of(walk.days);
        if (civil.year != walk.year or civil.month != walk.month or civil.day != walk.day) {
            std.debug.print("day {d}: {d}-{d}-{d}\n", .{ walk.days, walk.year, walk.month, walk.day });
            return error.TestUnexpectedResult;
        }
        try testing.expectEqual(walk.days, days_of_civil(walk.year, walk.month, walk.day).?);
        const iso = walk.iso();
        try testing.expectEqual(iso.year, part_of(.isoyear, walk.days));
        try testing.expectEqual(iso.week, part_of(.week, walk.days));
        try testing.expectEqual(walk.day_of_year, part_of(.dayofyear, walk.days));
        try testing.expectEqual(walk.weekday + 1, part_of(.isodow, walk.days));
    }
}

test date_part {
    const lengths_tested = [_]usize{ 0, 1, 3, 4, 5, 8, 11 };
    var prng: std.Random.DefaultPrng = .init(5);
    const random = prng.random();
    for (lengths_tested) |length| {
        for ([_]i32{ 30_000, 4_000_000, std.math.maxInt(i32) }) |reach| {
            var days: [11]i32 = undefined;
            for (&days) |*day| day.* = random.intRangeAtMost(i32, -reach, reach);
            if (reach == std.math.maxInt(i32)) days[0] = std.math.minInt(i32);
            inline for (comptime std.enums.values(DatePart)) |part| {
                var out: [11]i64 = undefined;
                const near = date_part(part, days[0..length], out[0..length]);
                if (near) for (days[0..length]) |day| try testing.expect(@abs(day) < 1 << 29);
                for (days[0..length], out[0..length]) |day, got| try testing.expectEqual(part_of(part, day), got);
            }
        }
    }
}

test "parts that follow from the year" {
    const day = struct {
        fn of(year: i64) i32 {
            return days_of_civil(year, 6, 30).?;
        }
    }.of;
    try testing.expectEqual(20, part_of(.century, day(2000)));
    try testing.expectEqual(21, part_of(.century, day(2001)));
    try testing.expectEqual(-1, part_of(.century, day(0)));
    try testing.expectEqual(-1, part_of(.century, day(-99)));
    try testing.expectEqual(-2, part_of(.century, day(-100)));
    try testing.expectEqual(2, part_of(.millennium, day(2000)));
    try testing.expectEqual(-1, part_of(.millennium, day(-1)));
    try testing.expectEqual(0, part_of(.decade, day(-9)));
    try testing.expectEqual(-1, part_of(.decade, day(-10)));
    try testing.expectEqual(0, part_of(.era, day(0)));
    try testing.expectEqual(1, part_of(.era, day(1)));
    try testing.expectEqual(2, part_of(.quarter, day(7)));
    try testing.expectEqual(0, part_of(.dayofweek, days_of_civil(2024, 5, 5).?));
    try testing.expectEqual(202418, part_of(.yearweek, days_of_civil(2024, 5, 5).?));
    try testing.expectEqual(-526, part_of(.yearweek, day(-5)));
}

test "dates at the end of the world" {
    try testing.expectEqual(Civil{ .year = 5_881_580, .month = 7, .day = 10 }, civil_of(day_max));
    try testing.expectEqual(Civil{ .year = -5_877_641, .month = 6, .day = 25 }, civil_of(-day_max));
    try testing.expectEqual(day_max, days_of_civil(5_881_580, 7, 10).?);
    try testing.expectEqual(-day_max, days_of_civil(-5_877_641, 6, 25).?);
    try testing.expectEqual(null, days_of_civil(5_881_580, 7, 11));
    try testing.expectEqual(null, days_of_civil(-5_877_641, 6, 24));
    try testing.expectEqual(null, days_of_civil(2023, 2, 29));
    try testing.expectEqual(null, days_of_civil(2023, 0, 1));
    try testing.expectEqual(null, days_of_civil(std.math.maxInt(i64), 1, 1));
    try testing.expectEqual(null, days_of_civil(std.math.minInt(i64), 1, 1));
}

test truncate_days {
    var prng: std.Random.DefaultPrng = .init(6);
    const random = prng.random();
    for ([_]usize{ 0, 1, 3, 4, 5, 9 }) |length| {
        for ([_]i32{ 40_000, 100_000_000, std.math.maxInt(i32) }) |reach| {
            var days: [9]i32 = undefined;
            var out: [9]i32 = undefined;
            for (&days) |*day| day.* = random.intRangeAtMost(i32, -reach, reach);
            inline for (comptime std.enums.values(DateUnit)) |unit| {
                truncate_days(unit, days[0..length], out[0..length]);
                for (days[0..length], out[0..length]) |day, got| {
                    if (@abs(day) > 106_751_991) continue;
                    try testing.expectEqual(plain_truncation(unit, day), got);
                }
            }
        }
    }
}

fn plain_truncation(unit: DateUnit, days: i32) i32 {
    const civil = civil_of(days);
    return switch (unit) {
        .day => days,
        .week => days - @as(i32, @intCast(part_of(.isodow, days))) + 1,
        .month => days_of_civil(civil.year, civil.month, 1).?,
        .quarter => days_of_civil(civil.year, @divFloor(civil.month - 1, 3) * 3 + 1, 1).?,
        .year => days_of_civil(civil.year, 1, 1).?,
        .isoyear => blk: {
            // The Monday of the week with the 4th of January.
            const fourth = days_of_civil(part_of(.isoyear, days), 1, 4).?;
            break :blk fourth - @as(i32, @intCast(part_of(.isodow, fourth))) + 1;
        },
        .decade => days_of_civil(@divTrunc(civil.year, 10) * 10, 1, 1).?,
        .century => days_of_civil(@divTrunc(civil.year, 100) * 100, 1, 1).?,
        .millennium => days_of_civil(@divTrunc(civil.year, 1000) * 1000, 1, 1).?,
    };
}

test add_months {
    var prng: std.Random.DefaultPrng = .init(7);
    const random = prng.random();
    try testing.expectEqual(days_of_civil(2024, 2, 29).?, add_months_one(days_of_civil(2024, 1, 31).?, 1).?);
    try testing.expectEqual(days_of_civil(2023, 2, 28).?, add_months_one(days_of_civil(2024, 2, 29).?, -12).?);
    try testing.expectEqual(null, add_months_one(day_max, 1));
    for (0..2000) |round| {
        const reach: i32 = if (round % 2 == 0) 40_000 else 200_000_000;
        const months = random.intRangeAtMost(i32, -1200, 1200) * @as(i32, if (round % 3 == 0) 700 else 1);
        var days: [7]i32 = undefined;
        var out: [7]i32 = undefined;
        for (&days) |*day| day.* = random.intRangeAtMost(i32, -reach, reach);
        try testing.expect(add_months(&days, months, &out));
        for (days, out) |day, got| try testing.expectEqual(add_months_one(day, months).?, got);
    }
    var out: [1]i32 = undefined;
    try testing.expect(!add_months(&.{day_max}, 1, &out));
    try testing.expect(!add_months(&.{0}, std.math.maxInt(i32), &out));
    try testing.expectEqual(null, add_months_one(0, std.math.maxInt(i32)));
}

test last_days {
    var out: [4]i32 = undefined;
    const days = [4]i32{ days_of_civil(2024, 2, 3).?, days_of_civil(1900, 2, 28).?, days_of_civil(-1, 12, 1).?, 0 };
    last_days(&days, &out);
    try testing.expectEqual(days_of_civil(2024, 2, 29).?, out[0]);
    try testing.expectEqual(days_of_civil(1900, 2, 28).?, out[1]);
    try testing.expectEqual(days_of_civil(-1, 12, 31).?, out[2]);
    try testing.expectEqual(30, out[3]);
}
