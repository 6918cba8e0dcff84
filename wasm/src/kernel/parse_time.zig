//! Text to dates, times, timestamps and intervals, with the leniency of DuckDB 2.0's casts. Null: the text is
//! none, or beyond what the type can hold.
//!
//!     date        [-]year-month-day [ (BC)], with - / \ or a space between; epoch, infinity, -infinity
//!     time        hour:minute[:second[.fraction]], or a timestamp's
//!     timestamp   a date, then T or spaces and a time, then Z, +02, +02:30:15 or a zone's name
//!     interval    1 year 2 months 3.5 days -04:05:06 [ago], a number alone is seconds
//!
//! The offset behind a time matters to instants only. Of zones by name, UTC is the only one that can be known
//! here.
const std = @import("std");
const calendar = @import("calendar.zig");
const parse = @import("parse.zig");
const Interval = @import("../core/interval.zig").Interval;

const day_microseconds: i64 = 86_400_000_000;

inline fn is_digit(byte: u8) bool {
    return byte -% '0' <= 9;
}

const Reader = struct {
    text: []const u8,
    position: usize = 0,

    fn peek(self: *const Reader) u8 {
        return if (self.position < self.text.len) self.text[self.position] else 0;
    }

    fn at_end(self: *const Reader) bool {
        return self.position == self.text.len;
    }

    fn accept(self: *Reader, byte: u8) bool {
        if (self.at_end() or self.text[self.position] != byte) return false;
        self.position += 1;
        return true;
    }

    fn skip_spaces(self: *Reader) void {
        while (!self.at_end() and parse.is_space(self.text[self.position])) self.position += 1;
    }

    /// One or two digits.
    fn pair(self: *Reader) ?i64 {
        if (!is_digit(self.peek())) return null;
        var value: i64 = self.peek() - '0';
        self.position += 1;
        if (is_digit(self.peek())) {
            value = value * 10 + (self.peek() - '0');
            self.position += 1;
        }
        return value;
    }

    /// All digits that follow, if they are not more than nine.
    fn number(self: *Reader) ?i64 {
        const start = self.position;
        var value: i64 = 0;
        while (is_digit(self.peek())) : (self.position += 1) {
            if (self.position - start == 9) return null;
            value = value * 10 + (self.peek() - '0');
        }
        return if (self.position > start) value else null;
    }

    /// Letters that follow, compared without their case.
    fn word(self: *Reader, wanted: []const u8) bool {
        const rest = self.text[self.position..];
        if (rest.len < wanted.len or !std.ascii.eqlIgnoreCase(rest[0..wanted.len], wanted)) return false;
        self.position += wanted.len;
        return true;
    }

    fn date(self: *Reader) ?i32 {
        self.skip_spaces();
        const negative = self.accept('-');
        if (!is_digit(self.peek())) return self.special_date(negative);
        var year = self.number() orelse return null;
        const separator = self.peek();
        switch (separator) {
            ' ', '-', '/', '\\' => self.position += 1,
            else => return null,
        }
        const month = self.pair() orelse return null;
        if (!self.accept(separator)) return null;
        const day = self.pair() orelse return null;
        if (self.before_christ()) {
            if (negative or year == 0) return null;
            year = 1 - year;
        }
        if (is_digit(self.peek())) return null;
        return calendar.days_of_civil(if (negative) -year else year, month, day);
    }

    /// Nothing may follow, so the reader is at its end.
    fn special_date(self: *Reader, negative: bool) ?i32 {
        const days: i32 = if (self.word("infinity") or self.word("inf"))
            if (negative) -std.math.maxInt(i32) else std.math.maxInt(i32)
        else if (self.word("epoch")) 0 else return null;
        self.skip_spaces();
        return if (self.at_end()) days else null;
    }

    fn before_christ(self: *Reader) bool {
        const rest = self.text[self.position..];
        if (rest.len < 5 or !parse.is_space(rest[0]) or !std.ascii.eqlIgnoreCase(rest[1..5], "(bc)")) return false;
        self.position += 5;
        return true;
    }

    /// Nanoseconds; hours may be many.
    fn clock(self: *Reader) ?i128 {
        self.skip_spaces();
        const hours = self.number() orelse return null;
        if (!self.accept(':')) return null;
        const minutes: i64 = if (self.at_end()) 0 else self.pair() orelse return null;
        var seconds: i64 = 0;
        if (!self.at_end()) {
            if (!self.accept(':')) return null;
            if (!self.at_end()) seconds = self.pair() orelse return null;
        }
        if (minutes > 59 or seconds > 59) return null;
        const whole: i128 = (hours * 60 + minutes) * 60 + seconds;
        return whole * 1_000_000_000 + if (self.accept('.')) self.fraction() else 0;
    }

    /// Digits behind the point as nanoseconds; further ones are dropped.
    fn fraction(self: *Reader) i64 {
        var value: i64 = 0;
        var scale: i64 = 100_000_000;
        while (is_digit(self.peek())) : (self.position += 1) {
            value += (self.peek() - '0') * scale;
            scale = @divTrunc(scale, 10);
        }
        return value;
    }

    /// Seconds east of UTC; null where no offset stands.
    fn offset(self: *Reader) ?i64 {
        const west = self.accept('-');
        if (!west and !self.accept('+')) return null;
        if (!is_digit(self.peek())) return null;
        const hours = self.two() orelse return null;
        var minutes: i64 = 0;
        var seconds: i64 = 0;
        const colon = self.accept(':');
        if (colon or is_digit(self.peek())) {
            minutes = self.two() orelse return null;
            if (colon and self.accept(':')) seconds = self.two() orelse return null;
        }
        const total = (hours * 60 + minutes) * 60 + seconds;
        return if (west) -total else total;
    }

    /// A time that reaches to the end, or to what may follow one in a timestamp.
    fn clock_in_timestamp(self: *Reader) ?i128 {
        const start = self.position;
        self.skip_spaces();
        var end = self.position;
        while (end < self.text.len) : (end += 1) switch (self.text[end]) {
            'Z', '+', '-' => break,
            else => |byte| if (parse.is_space(byte)) break,
        };
        var part: Reader = .{ .text = self.text[0..end], .position = start };
        const ticks = part.clock() orelse return null;
        self.position = end;
        return if (part.at_end()) ticks else null;
    }

    /// What follows the time of a timestamp, to its end: seconds east of UTC, 0 where nothing is said.
    fn zone(self: *Reader, instant: bool) ?i64 {
        if (self.at_end()) return 0;
        const start = self.position;
        const east: i64 = if (self.accept('Z')) 0 else self.offset() orelse blk: {
            self.position = start;
            if (!self.accept(' ')) return null;
            const name = self.zone_name();
            if (instant and name.len > 0 and !std.ascii.eqlIgnoreCase(name, "utc")) return null;
            break :blk 0;
        };
        self.skip_spaces();
        return if (self.at_end()) east else null;
    }

    fn zone_name(self: *Reader) []const u8 {
        const start = self.position;
        while (!self.at_end()) : (self.position += 1) switch (self.text[self.position]) {
            'a'...'z', 'A'...'Z', '0'...'9', '_', '/', '+', '-', ':' => {},
            else => break,
        };
        return self.text[start..self.position];
    }

    /// Exactly two digits.
    fn two(self: *Reader) ?i64 {
        const start = self.position;
        const value = self.pair() orelse return null;
        return if (self.position == start + 2) value else null;
    }
};

/// The number of `count` digits from `start` on. A byte that is no digit sets a bit above the fourth of `wrong`.
inline fn fixed_number(text: []const u8, comptime start: usize, comptime count: usize, wrong: *u32) u32 {
    var value: u32 = 0;
    inline for (0..count) |i| {
        const digit: u32 = text[start + i] -% '0';
        wrong.* |= digit + 6; // 10 becomes 16
        value = value * 10 + digit;
    }
    return value;
}

/// YYYY-MM-DD at the front of the text: how most dates are written. Null where the slow way has to look.
inline fn plain_date(text: []const u8) ?i32 {
    if (text.len < 10 or text[4] != '-' or text[7] != '-') return null;
    var wrong: u32 = 0;
    const year = fixed_number(text, 0, 4, &wrong);
    const month = fixed_number(text, 5, 2, &wrong);
    const day = fixed_number(text, 8, 2, &wrong);
    // Months with fewer days are left to the slow way too, where they end.
    if (wrong & 0x1F0 != 0 or month -% 1 > 11 or day -% 1 > 27) return null;
    // Years that begin in March, as in calendar.zig; none is negative.
    const shifted = year + 400 - @intFromBool(month <= 2);
    const day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    const days = shifted * 365 + shifted / 4 - shifted / 100 + shifted / 400 + day_of_year;
    return @as(i32, @intCast(days)) - (719_468 + 146_097);
}

/// YYYY-MM-DD HH:MM:SS, and perhaps a fraction, and nothing else.
inline fn plain_timestamp(text: []const u8) ?Moment {
    if (text.len < 19 or (text[10] != ' ' and text[10] != 'T') or text[13] != ':' or text[16] != ':') return null;
    const days = plain_date(text) orelse return null;
    var wrong: u32 = 0;
    const hour = fixed_number(text, 11, 2, &wrong);
    const minute = fixed_number(text, 14, 2, &wrong);
    const second = fixed_number(text, 17, 2, &wrong);
    if (wrong & 0x1F0 != 0 or hour > 23 or minute > 59 or second > 59) return null;
    var moment: Moment = .{
        .microseconds = @as(i64, days) * day_microseconds + @as(i64, (hour * 60 + minute) * 60 + second) * 1_000_000,
    };
    if (text.len == 19) return moment;
    if (text[19] != '.' or text.len > 29) return null;
    var fraction: u32 = 0;
    var scale: u32 = 100_000_000;
    for (text[20..]) |byte| {
        if (!is_digit(byte)) return null;
        fraction += (byte - '0') * scale;
        scale /= 10;
    }
    moment.microseconds += fraction / 1000;
    moment.nanoseconds = fraction % 1000;
    return moment;
}

/// Days since 1970. A time behind them is not looked at.
pub fn date(text: []const u8) ?i32 {
    if (text.len == 10) if (plain_date(text)) |days| return days;
    var reader: Reader = .{ .text = text };
    const days = reader.date() orelse return null;
    reader.skip_spaces();
    if (reader.at_end()) return days;
    return if (timestamp(text, false) != null) days else null;
}

/// Nanoseconds since midnight, at most a day.
pub fn time(text: []const u8) ?i64 {
    var reader: Reader = .{ .text = text };
    if (reader.clock()) |ticks| return if (ticks <= day_microseconds * 1000) @intCast(ticks) else null;
    const moment = timestamp(text, false) orelse return null;
    if (moment.is_infinite()) return null;
    return @mod(moment.microseconds, day_microseconds) * 1000 + moment.nanoseconds;
}

pub const Moment = struct {
    /// Since 1970; the greatest and the least but one are infinite.
    microseconds: i64,
    /// What is left of a microsecond.
    nanoseconds: i64 = 0,

    pub fn is_infinite(self: Moment) bool {
        return @abs(self.microseconds) == std.math.maxInt(i64);
    }

    /// In nanoseconds since 1970, which end in 2262.
    pub fn in_nanoseconds(self: Moment) ?i64 {
        if (self.is_infinite()) return self.microseconds;
        const scaled = std.math.mul(i64, self.microseconds, 1000) catch return null;
        return finite(std.math.add(i64, scaled, self.nanoseconds) catch return null);
    }
};

fn finite(value: i64) ?i64 {
    return if (value > -std.math.maxInt(i64) and value < std.math.maxInt(i64)) value else null;
}

/// `instant`: the offset behind it counts.
pub fn timestamp(text: []const u8, instant: bool) ?Moment {
    if (plain_timestamp(text)) |moment| return moment;
    var reader: Reader = .{ .text = text };
    const days = reader.date() orelse return null;
    if (@abs(days) == std.math.maxInt(i32))
        return .{ .microseconds = if (days > 0) std.math.maxInt(i64) else -std.math.maxInt(i64) };
    const midnight = std.math.mul(i64, days, day_microseconds) catch return null;
    if (reader.at_end()) return .{ .microseconds = midnight };
    if (!reader.accept(' ')) _ = reader.accept('T');
    const ticks = reader.clock_in_timestamp() orelse return null;
    if (ticks > day_microseconds * 1000) return null;
    const sum = std.math.add(i64, midnight, @intCast(@divFloor(ticks, 1000))) catch return null;
    const shift = reader.zone(instant) orelse return null;
    const moved = if (instant) std.math.sub(i64, sum, shift * 1_000_000) catch return null else sum;
    return .{ .microseconds = finite(moved) orelse return null, .nanoseconds = @intCast(@mod(ticks, 1000)) };
}

const Unit = struct {
    names: []const []const u8,
    months: i64 = 0,
    days: i64 = 0,
    microseconds: i64 = 0,
};

/// A unit has one kind of parts. Names in lower case.
const units = [_]Unit{
    .{ .names = &.{ "year", "yr", "y", "years", "yrs" }, .months = 12 },
    .{ .names = &.{ "month", "mon", "months", "mons" }, .months = 1 },
    .{ .names = &.{ "day", "days", "d", "dayofmonth" }, .days = 1 },
    .{ .names = &.{ "week", "weeks", "w", "weekofyear" }, .days = 7 },
    .{ .names = &.{ "hour", "hr", "hours", "hrs", "h" }, .microseconds = 3_600_000_000 },
    .{ .names = &.{ "minute", "min", "minutes", "mins", "m" }, .microseconds = 60_000_000 },
    .{ .names = &.{ "second", "sec", "seconds", "secs", "s" }, .microseconds = 1_000_000 },
    .{
        .names = &.{ "millisecond", "milliseconds", "ms", "msec", "msecs", "msecond", "mseconds" },
        .microseconds = 1_000,
    },
    .{ .names = &.{ "microsecond", "microseconds", "us", "usec", "usecs", "usecond", "useconds" }, .microseconds = 1 },
    .{ .names = &.{ "quarter", "quarters" }, .months = 3 },
    .{ .names = &.{ "decade", "dec", "decades", "decs" }, .months = 120 },
    .{ .names = &.{ "century", "cent", "centuries", "c" }, .months = 1_200 },
    .{ .names = &.{ "millennium", "mil", "millenniums", "millennia", "mils", "millenium" }, .months = 12_000 },
};

fn unit_of(name: []const u8) ?*const Unit {
    for (&units) |*unit| for (unit.names) |known| if (std.ascii.eqlIgnoreCase(known, name)) return unit;
    return null;
}

/// An interval as it is read; fractions of a unit become smaller units, as DuckDB makes them.
const Sum = struct {
    months: i32 = 0,
    days: i32 = 0,
    microseconds: i64 = 0,

    fn add(self: *Sum, unit: *const Unit, number: i64, fraction: f64) ?void {
        if (unit.months > 0) {
            try_add(i32, &self.months, number, unit.months) orelse return null;
            return self.add_months(unit, fraction);
        }
        if (unit.days > 0) {
            try_add(i32, &self.days, number, unit.days) orelse return null;
            return self.add_days(fraction * as_float(unit.days));
        }
        try_add(i64, &self.microseconds, number, unit.microseconds) orelse return null;
        // Half a microsecond is none.
        if (unit.microseconds > 1) return self.add_microseconds(fraction, unit.microseconds);
    }

    /// Years and longer are rounded to months; quarters and months go on with days.
    fn add_months(self: *Sum, unit: *const Unit, fraction: f64) ?void {
        if (unit.months > 3) return try_add(i32, &self.months, rounded(fraction, unit.months) orelse return null, 1);
        if (unit.months == 1) return self.add_days(fraction * 30);
        const months = @trunc(fraction * 3);
        try_add(i32, &self.months, @intFromFloat(months), 1) orelse return null;
        return try_add(i32, &self.days, rounded(fraction * 3 - months, 30) orelse return null, 1);
    }

    fn add_days(self: *Sum, days: f64) ?void {
        const whole = @trunc(days);
        try_add(i32, &self.days, @intFromFloat(whole), 1) orelse return null;
        return self.add_microseconds(days - whole, day_microseconds);
    }

    fn add_microseconds(self: *Sum, fraction: f64, factor: i64) ?void {
        return try_add(i64, &self.microseconds, rounded(fraction, factor) orelse return null, 1);
    }

    fn try_add(comptime T: type, target: *T, number: i64, factor: i64) ?void {
        const product = std.math.mul(i64, number, factor) catch return null;
        target.* = std.math.add(T, target.*, std.math.cast(T, product) orelse return null) catch return null;
    }

    fn rounded(fraction: f64, factor: i64) ?i64 {
        if (@abs(fraction) <= 1e-10) return 0;
        return @intFromFloat(@round(fraction * as_float(factor)));
    }

    fn as_float(value: i64) f64 {
        return @floatFromInt(value);
    }

    /// `ago` turns everything round.
    fn negate(self: *Sum) ?void {
        if (self.months == std.math.minInt(i32) or self.days == std.math.minInt(i32)) return null;
        self.months = -self.months;
        self.days = -self.days;
        self.microseconds = -%self.microseconds;
    }

    fn finish(self: *const Sum) ?Interval {
        const nanoseconds = std.math.mul(i64, self.microseconds, 1000) catch return null;
        return .{ .months = self.months, .days = self.days, .nanoseconds = nanoseconds };
    }
};

pub fn interval(text: []const u8) ?Interval {
    var reader: Reader = .{ .text = text };
    var sum: Sum = .{};
    _ = reader.accept('@');
    var found = false;
    while (true) : (found = true) {
        skip_blanks(&reader);
        if (reader.at_end()) return if (found) sum.finish() else null;
        if (reader.word("ago")) {
            skip_blanks(&reader);
            if (!found or !reader.at_end()) return null;
            sum.negate() orelse return null;
            return sum.finish();
        }
        const negative = reader.accept('-');
        const start = reader.position;
        while (is_digit(reader.peek())) reader.position += 1;
        if (reader.peek() == ':') { // a time is the last part, whatever stands behind it
            reader.position = start;
            const ticks = reader.clock() orelse return null;
            const microseconds = std.math.cast(i64, @divFloor(ticks, 1000)) orelse return null;
            sum.microseconds = std.math.add(i64, sum.microseconds, microseconds) catch return null;
            if (negative) sum.microseconds = -%sum.microseconds;
            return sum.finish();
        }
        if (reader.position == start) return null;
        const number = parse.integer(i64, text[start..reader.position]) orelse return null;
        const fraction = read_fraction(&reader);
        skip_blanks(&reader);
        const name_start = reader.position;
        while (std.ascii.isAlphabetic(reader.peek())) reader.position += 1;
        const name = text[name_start..reader.position];
        if (name.len == 0 and !found) { // a number alone
            if (!reader.at_end()) return null;
            sum.add(unit_of("second").?, if (negative)
                -number
            else
                number, if (negative) -fraction else fraction) orelse return null;
            return sum.finish();
        }
        const unit = unit_of(name) orelse return null;
        sum.add(unit, if (negative) -number else number, if (negative) -fraction else fraction) orelse return null;
    }
}

fn skip_blanks(reader: *Reader) void {
    while (reader.peek() == ' ' or reader.peek() == '\t' or reader.peek() == '\n') reader.position += 1;
}

fn read_fraction(reader: *Reader) f64 {
    const start = reader.position;
    if (!reader.accept('.')) return 0;
    while (is_digit(reader.peek())) reader.position += 1;
    return parse.float(f64, reader.text[start..reader.position]) orelse 0;
}

const testing = std.testing;

test date {
    const Case = struct { []const u8, ?i32 };
    for ([_]Case{
        .{ "1970-01-02", 1 },          .{ " 1970/1/2 ", 1 },         .{ "1970\\01\\02", 1 },
        .{
            "1970 1 2",
            1,
        },
        .{ "epoch", 0 },               .{ "-0001-12-31", -719_529 }, .{ "0001-01-01 (BC)", -719_528 },
        .{ "1970-01-02 03:04:05", 1 }, .{ "1970-01-02T03:04", 1 },   .{ "Infinity", std.math.maxInt(i32) },
        .{ "", null },                 .{ "1970-01", null },         .{ "1970-01/02", null },
        .{ "1970-02-30", null },       .{ "1970-13-01", null },      .{ "1970-01-02x", null },
        .{ "1970-01-002", null },      .{ "5881580-07-11", null },   .{ "epoch x", null },
        .{ "0000-01-01 (BC)", null },
    }) |case| try testing.expectEqual(case[1], date(case[0]));
}

test "plain dates as all others" {
    var buffer: [32]u8 = undefined;
    var days: i32 = -719_528;
    while (days < 2_932_896) : (days += 17) {
        const size = @import("print.zig").date(days, &buffer);
        if (size > 10) continue;
        if (plain_date(buffer[0..10])) |found| try testing.expectEqual(days, found);
        var reader: Reader = .{ .text = buffer[0..10] };
        try testing.expectEqual(days, reader.date().?);
    }
    for ([_][]const u8{ "2020-1x-01", "202:-01-01", "2020-00-01", "2020-13-01", "2020-01-00", "/020-01-01" }) |text|
        try testing.expectEqual(null, plain_date(text));
}

test time {
    const second = 1_000_000_000;
    const Case = struct { []const u8, ?i64 };
    for ([_]Case{
        .{ "01:02:03", 3723 * second },    .{ " 1:2:3.5", 3723 * second + second / 2 },
        .{ "12:", 12 *
            3600 * second },
        .{ "12:30:15x", 45_015 * second }, .{ "2020-01-01 00:00:01.000000001", second + 1 },
        .{ "24:00:00", 86_400 * second },  .{ "24:00:01", null },
        .{ "12:60", null },                .{ "12", null },
        .{ "12:3x", null },                .{ "infinity", null },
    }) |case| try testing.expectEqual(case[1], time(case[0]));
}

test timestamp {
    const Case = struct { []const u8, ?i64, ?i64 };
    const hour = 3_600_000_000;
    for ([_]Case{
        .{ "1970-01-01 01:00", hour, hour },              .{ "1970-01-01T01:00:00Z", hour, hour },
        .{
            "1970-01-01 01:00:00+01",
            hour,
            0,
        },
        .{ "1970-01-01 01:00:00 -01:30", hour, null },    .{ "1970-01-01 01:00:00-0130", hour, hour * 5 / 2 },
        .{ "1970-01-01 01:00:00 UTC ", hour, hour },      .{ "1970-01-01 01:00:00 Europe/Berlin", hour, null },
        .{ "1970-01-01", 0, 0 },
        .{
            "-infinity",
            -std.math.maxInt(i64),
            -std.math.maxInt(i64),
        },
        .{ "1970-01-01 01", null, null },                 .{ "1970-01-01 01:00:00+1", null, null },
        .{ "294247-01-10 04:00:54.775807", null, null },  .{ "1970-01-01   ", null, null },
        .{ "1970-01-01 24:00:00", 24 * hour, 24 * hour },
    }) |case| {
        const local = if (timestamp(case[0], false)) |moment| moment.microseconds else null;
        const instant = if (timestamp(case[0], true)) |moment| moment.microseconds else null;
        try testing.expectEqual(case[1], local);
        try testing.expectEqual(case[2], instant);
    }
}

test interval {
    const Case = struct { []const u8, ?[3]i64 };
    for ([_]Case{
        .{ "1 year 2 months 3 days 04:05:06.7", .{ 14, 3, 14_706_700_000 } }, .{ "1.5", .{ 0, 0, 1_500_000 } },
        .{
            "@ 1 day ago",
            .{ 0, -1, 0 },
        },
        .{ "1.5 months", .{ 1, 15, 0 } },                                     .{ "1.5 years", .{ 18, 0, 0 } },
        .{ "-1.5 days", .{ 0, -1, -43_200_000_000 } },
        .{
            "0.5 weeks",
            .{ 0, 3, 43_200_000_000 },
        },
        .{ "1.5 microseconds", .{ 0, 0, 1 } },
        .{
            "1 day -00:00:01",
            .{ 0, 1, -1_000_000 },
        },
        .{ "1 day 5", null },                                                 .{ "", null },
        .{ "1 foo", null },                                                   .{ "P1Y", null },
        .{ "99999999999 days", null },                                        .{ "+1 day", null },
        .{ "-", null },                                                       .{ "1 day ago 2", null },
        .{ "ago", null },
    }) |case| {
        const found = interval(case[0]);
        if (case[1]) |parts| {
            try testing.expectEqual(
                Interval{ .months = @intCast(parts[0]), .days = @intCast(parts[1]), .nanoseconds = parts[2] * 1000 },
                found.?,
            );
        } else try testing.expectEqual(null, found);
    }
}

test "any bytes: an answer" {
    var prng: std.Random.DefaultPrng = .init(61);
    const parts = [_][]const u8{
        "1", "0",   "9",    "2020-01-02", ":",        "-",    ".", " ", "e", "day", "T", "Z",
        "+", "ago", "(BC)", "_",          "99999999", "\xFF", "x",
    };
    var buffer: [200]u8 = undefined;
    for (0..20_000) |_| {
        var size: usize = 0;
        for (0..prng.random().uintAtMost(usize, 8)) |_| {
            const part = parts[prng.random().uintLessThan(usize, parts.len)];
            @memcpy(buffer[size..][0..part.len], part);
            size += part.len;
        }
        const text = buffer[0..size];
        _ = date(text);
        _ = time(text);
        _ = timestamp(text, true);
        _ = interval(text);
        _ = parse.float(f64, text);
        _ = parse.integer(i64, text);
        _ = parse.decimal(text, 18, 4);
    }
}
