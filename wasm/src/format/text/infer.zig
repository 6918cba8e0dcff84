//! What a piece of text could be, and its value: numbers, booleans, dates, times, timestamps.
//!
//! Two questions, kept apart. `recognise` says which kinds of value a text may stand for while a
//! column's type is being found; it is strict, because a wrong guess loses what was written
//! (`007` stays text). The `parse_*` functions read a value of a type already settled, by
//! `recognise` or by the caller, and are more generous (`007` is 7, `+1` is 1). Whatever
//! `recognise` accepts for a kind, the matching `parse_*` accepts too.
//!
//! Grammar, as DuckDB 2.0 reads it except where csv.zig's header says otherwise:
//!
//!     integer     -? digits                                no leading zero
//!     float       -? (digits [. digits*] | . digits) [(e|E) [+-] digits], nan, inf, infinity
//!     bool        true, false                              any case
//!     date        YYYY-M-D, YYYY/M/D                       one or two digits of month and day
//!     time        H:M[:S[.digits]]                         one or two digits each
//!     timestamp   date (T| ) time [Z | ±HH[[:]MM[:SS]] | UTC]
//!
//! Fractions of a second keep nine digits and drop the rest. Numbers are read by kernel/number_text.zig. A
//! number longer than `number_size_max` is not recognised, which bounds the work on one value.
const std = @import("std");
const number_text = @import("../../kernel/number_text.zig");
const schema = @import("../../core/schema.zig");
const interrupt = @import("../../core/interrupt.zig");
const DataType = schema.DataType;
const TimeUnit = schema.TimeUnit;
const assert = std.debug.assert;

pub const Number = number_text.Number;
pub const number_size_max = number_text.number_size_max;
pub const parse_decimal = number_text.parse_decimal;
pub const parse_f64 = number_text.parse_f64;
pub const parse_float = number_text.parse_float;
pub const parse_integer = number_text.parse_integer;
pub const scan_number = number_text.scan_number;

/// The kinds a column may still be. A column starts with `Kinds.all` and loses what a value rules
/// out; `none` is text.
pub const Kinds = packed struct(u8) {
    boolean: bool = false,
    integer: bool = false,
    float: bool = false,
    date: bool = false,
    time: bool = false,
    timestamp: bool = false,
    timestamp_zone: bool = false,
    /// Only set on a column for which no value was seen yet.
    unseen: bool = false,

    pub const none: Kinds = .{};
    pub const all: Kinds = @bitCast(@as(u8, 0xFF));
    pub const calendar: Kinds =
        .{ .date = true, .time = true, .timestamp = true, .timestamp_zone = true, .unseen = true };

    pub fn both(a: Kinds, b: Kinds) Kinds {
        return @bitCast(@as(u8, @bitCast(a)) & @as(u8, @bitCast(b)));
    }

    pub fn is_none(self: Kinds) bool {
        return @as(u8, @bitCast(self)) == 0;
    }

    /// The narrowest type that holds every value seen; a column without values is text.
    pub fn data_type(self: Kinds) DataType {
        if (self.unseen) return .of(.utf8);
        if (self.boolean) return .of(.bool);
        if (self.integer) return .of(.i64);
        if (self.float) return .of(.f64);
        if (self.date) return .of(.date);
        if (self.time) return .{ .tag = .time, .unit = .microsecond };
        if (self.timestamp) return .{ .tag = .timestamp, .unit = .microsecond };
        if (self.timestamp_zone) return .{ .tag = .timestamp, .unit = .microsecond, .zone = "UTC" };
        return .of(.utf8);
    }
};

/// The kinds among `wanted` that `text` may stand for.
pub fn recognise(text: []const u8, wanted: Kinds) Kinds {
    if (text.len == 0 or text.len > number_size_max) return .none;
    var found: Kinds = .none;
    if (wanted.integer and is_short_integer(text)) return (Kinds{ .integer = true, .float = true }).both(wanted);
    if (wanted.integer or wanted.float) found = recognise_number(text);
    if (!found.is_none()) return found.both(wanted);
    if (wanted.boolean and parse_bool(text) != null) return .{ .boolean = true };
    if (wanted.date or wanted.timestamp or wanted.timestamp_zone) {
        found = recognise_date(text);
        if (!found.is_none()) return found.both(wanted);
    }
    if (wanted.time and parse_time(text) != null) return .{ .time = true };
    return .none;
}

/// Most integers: up to 18 digits, which always fit, and no leading zero.
fn is_short_integer(text: []const u8) bool {
    const digits = if (text[0] == '-') text[1..] else text;
    if (digits.len == 0 or digits.len > 18 or (digits[0] == '0' and digits.len > 1)) return false;
    return number_text.all_digits(digits);
}

fn recognise_number(text: []const u8) Kinds {
    const number = scan_number(text) orelse {
        return .{ .float = number_text.is_float_word(text) };
    };
    if (number.plus_sign or number.leading_zero) return .none;
    if (!number.integral) return .{ .float = true };
    return .{ .integer = number.fits_i64(), .float = true };
}

fn recognise_date(text: []const u8) Kinds {
    const moment = parse_timestamp(text) orelse return .none;
    // A bare date is midnight of a timestamp column.
    return .{
        .date = moment.date_only,
        .timestamp = !moment.zoned,
        .timestamp_zone = true,
    };
}

/// Without the spaces around it; CSV fields often carry them after the delimiter.
pub fn trim(text: []const u8) []const u8 {
    var start: usize = 0;
    var end = text.len;
    while (start < end and text[start] == ' ') start += 1;
    while (end > start and text[end - 1] == ' ') end -= 1;
    return text[start..end];
}

fn is_digit(byte: u8) bool {
    return byte -% '0' < 10;
}

pub fn parse_bool(text: []const u8) ?bool {
    if (text.len == 4 and std.ascii.eqlIgnoreCase(text, "true")) return true;
    if (text.len == 5 and std.ascii.eqlIgnoreCase(text, "false")) return false;
    return null;
}

/// A point in time, before it is scaled to a column's unit.
pub const Moment = struct {
    /// Since 1970-01-01, in UTC when `zoned`.
    seconds: i64,
    nanosecond: u32,
    zoned: bool,
    date_only: bool,

    /// null when the value leaves the range of an i64 (nanoseconds end in 2262).
    pub fn in_unit(self: Moment, unit: TimeUnit) ?i64 {
        const per_second = units_per_second(unit);
        const whole = std.math.mul(i64, self.seconds, per_second) catch return null;
        const fraction = self.nanosecond / @as(u32, @intCast(@divExact(1_000_000_000, per_second)));
        return std.math.add(i64, whole, fraction) catch null;
    }
};

fn units_per_second(unit: TimeUnit) i64 {
    return switch (unit) {
        .second => 1,
        .millisecond => 1_000,
        .microsecond => 1_000_000,
        .nanosecond => 1_000_000_000,
    };
}

/// Days since 1970-01-01.
pub fn parse_date(text: []const u8) ?i32 {
    var reader: CalendarReader = .{ .text = text };
    const days = reader.date() orelse return null;
    return if (reader.at_end()) days else null;
}

/// Time of day.
pub fn parse_time(text: []const u8) ?Moment {
    var reader: CalendarReader = .{ .text = text };
    const moment = reader.time() orelse return null;
    return if (reader.at_end()) moment else null;
}

pub fn parse_timestamp(text: []const u8) ?Moment {
    if (text.len < "2000-1-1".len) return null;
    var reader: CalendarReader = .{ .text = text };
    const days = reader.date() orelse return null;
    const midnight = @as(i64, days) * 86_400;
    if (reader.at_end()) return .{ .seconds = midnight, .nanosecond = 0, .zoned = false, .date_only = true };
    if (!reader.accept('T') and !reader.accept(' ')) return null;
    var moment = reader.time() orelse return null;
    moment.seconds += midnight;
    if (!reader.at_end()) {
        moment.seconds -= reader.zone() orelse return null;
        moment.zoned = true;
    }
    return if (reader.at_end()) moment else null;
}

const CalendarReader = struct {
    text: []const u8,
    position: usize = 0,

    fn at_end(self: *const CalendarReader) bool {
        return self.position == self.text.len;
    }

    fn accept(self: *CalendarReader, byte: u8) bool {
        if (self.at_end() or self.text[self.position] != byte) return false;
        self.position += 1;
        return true;
    }

    /// Between `count_min` and `count_max` digits.
    fn digits(self: *CalendarReader, count_min: usize, count_max: usize) ?u32 {
        const start = self.position;
        var value: u32 = 0;
        while (!self.at_end() and self.position - start < count_max) : (self.position += 1) {
            const digit = self.text[self.position] -% '0';
            if (digit > 9) break;
            value = value * 10 + digit;
        }
        return if (self.position - start >= count_min) value else null;
    }

    fn date(self: *CalendarReader) ?i32 {
        const year = self.digits(4, 4) orelse return null;
        const separator: u8 = if (self.accept('-')) '-' else if (self.accept('/')) '/' else return null;
        const month = self.digits(1, 2) orelse return null;
        if (!self.accept(separator)) return null;
        const day = self.digits(1, 2) orelse return null;
        return date_of(year, month, day);
    }

    fn time(self: *CalendarReader) ?Moment {
        const hour = self.digits(1, 2) orelse return null;
        if (!self.accept(':')) return null;
        const minute = self.digits(1, 2) orelse return null;
        var second: u32 = 0;
        var nanosecond: u32 = 0;
        if (self.accept(':')) {
            second = self.digits(1, 2) orelse return null;
            if (self.accept('.')) nanosecond = self.fraction();
        }
        if (hour > 23 or minute > 59 or second > 59) return null;
        return .{
            .seconds = hour * 3600 + minute * 60 + second,
            .nanosecond = nanosecond,
            .zoned = false,
            .date_only = false,
        };
    }

    /// Digits after the point as nanoseconds; further digits are dropped.
    fn fraction(self: *CalendarReader) u32 {
        var value: u32 = 0;
        var scale: u32 = 100_000_000;
        while (!self.at_end()) : (self.position += 1) {
            const digit = self.text[self.position] -% '0';
            if (digit > 9) break;
            value += digit * scale;
            scale /= 10;
        }
        return value;
    }

    /// Seconds east of UTC.
    fn zone(self: *CalendarReader) ?i64 {
        if (self.accept('Z')) return 0;
        if (std.mem.eql(u8, self.text[self.position..], " UTC")) {
            self.position = self.text.len;
            return 0;
        }
        const west = self.accept('-');
        if (!west and !self.accept('+')) return null;
        const hour = self.digits(2, 2) orelse return null;
        var minute: u32 = 0;
        var second: u32 = 0;
        if (!self.at_end()) {
            const colons = self.accept(':');
            minute = self.digits(2, 2) orelse return null;
            if (colons and self.accept(':')) second = self.digits(2, 2) orelse return null;
        }
        // DuckDB and PostgreSQL stop here too; no place on earth is further than 14 hours away.
        if (hour > 15 or minute > 59 or second > 59) return null;
        const offset: i64 = hour * 3600 + minute * 60 + second;
        return if (west) -offset else offset;
    }
};

/// Days since 1970-01-01, null for a day that never was.
pub inline fn date_of(year: u32, month: u32, day: u32) ?i32 {
    if (month < 1 or month > 12 or day < 1 or day > days_in_month(year, month)) return null;
    return days_since_epoch(year, month, day);
}

fn days_in_month(year: u32, month: u32) u32 {
    const leap = (year % 4 == 0 and year % 100 != 0) or year % 400 == 0;
    return switch (month) {
        2 => if (leap) 29 else 28,
        4, 6, 9, 11 => 30,
        else => 31,
    };
}

/// Proleptic Gregorian calendar, years 0 to 9999. The year is taken to start in March, so that the
/// leap day is its last day and the days before a month follow a straight line.
fn days_since_epoch(year: u32, month: u32, day: u32) i32 {
    const shifted_year = @as(i32, @intCast(year)) - @intFromBool(month <= 2);
    const shifted_month = (month + 9) % 12;
    const day_of_year: i32 = @intCast((153 * shifted_month + 2) / 5 + day - 1);
    const leap_days = @divFloor(shifted_year, 4) - @divFloor(shifted_year, 100) + @divFloor(shifted_year, 400);
    const epoch = 719_468; // 1970-01-01 counted from 0000-03-01
    return shifted_year * 365 + leap_days + day_of_year - epoch;
}

/// Offset of the first byte that is not UTF-8, or null. Checks for cancellation as it goes.
pub fn find_invalid_utf8(text: []const u8) interrupt.Error!?usize {
    const V = @Vector(16, u8);
    var position: usize = 0;
    var next_check: usize = 0;
    while (position < text.len) {
        if (position >= next_check) {
            try interrupt.check();
            next_check = position + 16 * 1024;
        }
        if (text.len - position >= 16) {
            const block: V = text[position..][0..16].*;
            if (@reduce(.Max, block) < 0x80) {
                position += 16;
                continue;
            }
        }
        if (text[position] < 0x80) {
            position += 1;
            continue;
        }
        position += sequence_size(text[position..]) orelse return position;
    }
    return null;
}

/// Bytes of the multi-byte character that `text` starts with; null when it is malformed, over-long,
/// a surrogate or past U+10FFFF.
fn sequence_size(text: []const u8) ?usize {
    const first = text[0];
    const size: usize = switch (first) {
        0xC2...0xDF => 2,
        0xE0...0xEF => 3,
        0xF0...0xF4 => 4,
        else => return null,
    };
    if (text.len < size) return null;
    const low: u8, const high: u8 = switch (first) {
        0xE0 => .{ 0xA0, 0xBF },
        0xED => .{ 0x80, 0x9F },
        0xF0 => .{ 0x90, 0xBF },
        0xF4 => .{ 0x80, 0x8F },
        else => .{ 0x80, 0xBF },
    };
    if (text[1] < low or text[1] > high) return null;
    for (text[2..size]) |byte| if (byte & 0xC0 != 0x80) return null;
    return size;
}

/// The line that holds a byte, from 1, as an editor counts them: LF, CR LF and CR end a line.
pub fn line_number(text: []const u8, offset: usize) usize {
    var line: usize = 1;
    for (text[0..offset], 0..) |byte, i| {
        const ends = byte == '\n' or (byte == '\r' and (i + 1 == text.len or text[i + 1] != '\n'));
        line += @intFromBool(ends);
    }
    return line;
}

/// The start of a text for a message, whole characters only. The text is valid UTF-8.
pub fn excerpt(text: []const u8) []const u8 {
    const size_max = 48;
    if (text.len <= size_max) return text;
    var size: usize = size_max;
    while (size > 0 and text[size] & 0xC0 == 0x80) size -= 1;
    return text[0..size];
}

fn kinds_of(text: []const u8) Kinds {
    return recognise(text, Kinds.all);
}

test recognise {
    const number: Kinds = .{ .integer = true, .float = true };
    const float: Kinds = .{ .float = true };
    for ([_][]const u8{ "0", "-0", "7", "-12", "9223372036854775807", "-9223372036854775808" }) |text| {
        try std.testing.expectEqual(number, kinds_of(text));
    }
    for ([_][]const u8{
        "9223372036854775808", "-9223372036854775809", "99999999999999999999999", "1.5", ".5",   "5.",  "-.5",
        "1e5",                 "1E+05",                "0.5",                     "nan", "-NaN", "inf", "-Infinity",
        "INF",
    }) |text| {
        try std.testing.expectEqual(float, kinds_of(text));
    }
    for ([_][]const u8{
        "",     "00", "007", "-01", "01.5", "+1",   "+1.5", ".",     "-", "1e",  "1.5e+", "1_000",
        "0x10", "1 ", " 1",  "1,5", "e5",   "+inf", "--1",  "1.2.3", "t", "yes",
    }) |text| {
        try std.testing.expectEqual(Kinds.none, kinds_of(text));
    }
    try std.testing.expectEqual(Kinds{ .boolean = true }, kinds_of("True"));
    try std.testing.expectEqual(Kinds{ .boolean = true }, kinds_of("FALSE"));
    const long: [number_size_max + 1]u8 = @splat('1');
    try std.testing.expectEqual(Kinds.none, kinds_of(&long));
    try std.testing.expectEqual(float, kinds_of(long[1..]));
}

test "recognise dates and times" {
    const date: Kinds = .{ .date = true, .timestamp = true, .timestamp_zone = true };
    const stamp: Kinds = .{ .timestamp = true, .timestamp_zone = true };
    const zoned: Kinds = .{ .timestamp_zone = true };
    for ([_][]const u8{ "2020-01-01", "2020-1-1", "2020/12/31", "0001-01-01", "2020-02-29" }) |text| {
        try std.testing.expectEqual(date, kinds_of(text));
    }
    for ([_][]const u8{
        "2020-01-01 00:00",
        "2020-01-01T00:00:00",
        "2020-01-01 1:2:3.5",
        "2020-01-01 00:00:00.",
    }) |text| {
        try std.testing.expectEqual(stamp, kinds_of(text));
    }
    for ([_][]const u8{
        "2020-01-01T00:00:00Z",
        "2020-01-01 00:00:00+02",
        "2020-01-01 00:00-0830",
        "2020-01-01 00:00:00.5+05:30",
        "2020-01-01 00:00:00-08:00:30",
        "2020-01-01 00:00:00 UTC",
    }) |text| {
        try std.testing.expectEqual(zoned, kinds_of(text));
    }
    for ([_][]const u8{ "12:00", "1:2:3", "23:59:59.999999999" }) |text| {
        try std.testing.expectEqual(Kinds{ .time = true }, kinds_of(text));
    }
    for ([_][]const u8{
        "2020-13-01",
        "2020-00-01",
        "2020-02-30",
        "2021-02-29",
        "1900-02-29",
        "2020-01/01",
        "20-01-01",
        "12020-01-01",
        "2020-01-01 ",
        "2020-01-01T",
        "2020-01-01 24:00:00",
        "2020-01-01 12",
        "2020-01-01t00:00:00",
        "2020-01-01 00:00:00z",
        "2020-01-01 00:00:00 +02:00",
        "2020-01-01 00:00:00+2",
        "2020-01-01 00:00:00+16",
        "24:00:00",
        "12:60",
        "12:00:60",
        "12:00:00Z",
        "12" ++ ":",
    }) |text| {
        try std.testing.expectEqual(Kinds.none, kinds_of(text));
    }
}

test "a column's type is what every value allows" {
    const cases = [_]struct { []const []const u8, schema.TypeTag }{
        .{ &.{ "1", "2" }, .i64 },
        .{ &.{ "1", "2.5" }, .f64 },
        .{ &.{ "1", "9223372036854775808" }, .f64 },
        .{ &.{ "1", "true" }, .utf8 },
        .{ &.{ "2020-01-01", "2020-01-01 10:00" }, .timestamp },
        .{ &.{ "2020-01-01", "1" }, .utf8 },
        .{ &.{ "10:00", "2020-01-01" }, .utf8 },
        .{ &.{}, .utf8 },
    };
    for (cases) |case| {
        var kinds: Kinds = .all;
        for (case[0]) |text| kinds = recognise(text, kinds);
        try std.testing.expectEqual(case[1], kinds.data_type().tag);
    }
}

test parse_date {
    try std.testing.expectEqual(0, parse_date("1970-01-01"));
    try std.testing.expectEqual(-1, parse_date("1969-12-31"));
    try std.testing.expectEqual(11016, parse_date("2000-02-29"));
    try std.testing.expectEqual(18262, parse_date("2020/1/1"));
    try std.testing.expectEqual(-719162, parse_date("0001-01-01"));
    try std.testing.expectEqual(-719528, parse_date("0000-01-01"));
    try std.testing.expectEqual(2932896, parse_date("9999-12-31"));
}

test "days follow each other over four hundred years" {
    var expected = parse_date("1800-01-01").?;
    for (1800..2201) |year| for (1..13) |month| {
        for (1..days_in_month(@intCast(year), @intCast(month)) + 1) |day| {
            try std.testing.expectEqual(expected, days_since_epoch(@intCast(year), @intCast(month), @intCast(day)));
            expected += 1;
        }
    };
}

test parse_timestamp {
    const moment = parse_timestamp("2020-01-01T12:30:15.123456789+02:00").?;
    try std.testing.expectEqual(1577874615, moment.seconds);
    try std.testing.expectEqual(1577874615123456, moment.in_unit(.microsecond));
    try std.testing.expectEqual(1577874615123, moment.in_unit(.millisecond));
    try std.testing.expectEqual(1577874615123456789, moment.in_unit(.nanosecond));
    const before = parse_timestamp("1969-12-31 23:59:59.5").?;
    try std.testing.expectEqual(-500_000, before.in_unit(.microsecond));
    try std.testing.expectEqual(null, parse_timestamp("2300-01-01").?.in_unit(.nanosecond));
    try std.testing.expectEqual(12, parse_time("0:0:0.0000000129").?.in_unit(.nanosecond));
}

test "find_invalid_utf8 agrees with the standard library" {
    var prng: std.Random.DefaultPrng = .init(4);
    const random = prng.random();
    const pieces = [_][]const u8{
        "a",                "0123456789abcdef",
        "é",
        "€",
        "😀",
        "\xF4\x8F\xBF\xBF", "\xED\xA0\x80",
        "\xC0\x80",         "\x80",
        "\xE2\x82",         "\xF5\x80\x80\x80",
        "\xFF",
    };
    for (0..3000) |_| {
        var buffer: [256]u8 = undefined;
        var size: usize = 0;
        for (0..random.uintLessThan(usize, 8)) |_| {
            const valid_only = random.uintLessThan(u8, 4) != 0;
            const piece = pieces[random.uintLessThan(usize, if (valid_only) 6 else pieces.len)];
            @memcpy(buffer[size..][0..piece.len], piece);
            size += piece.len;
        }
        const invalid = try find_invalid_utf8(buffer[0..size]);
        try std.testing.expectEqual(std.unicode.utf8ValidateSlice(buffer[0..size]), invalid == null);
        if (invalid) |offset| try std.testing.expect(std.unicode.utf8ValidateSlice(buffer[0..offset]));
    }
}

test line_number {
    const text = "a\r\nb\rc\n\nd\r";
    for ([_]usize{ 1, 1, 1, 2, 2, 3, 3, 4, 5, 5, 6 }, 0..) |line, offset| {
        try std.testing.expectEqual(line, line_number(text, offset));
    }
}

test excerpt {
    const long: [60]u8 = @splat('x');
    try std.testing.expectEqual(48, excerpt(&long).len);
    const umlauts = "x" ++ "ä" ++ "äääääääääääääääääääääääääääääääääää";
    try std.testing.expectEqual(47, excerpt(umlauts).len);
    try std.testing.expectEqualStrings("ab", excerpt("ab"));
}
