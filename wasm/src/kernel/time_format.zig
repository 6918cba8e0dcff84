//! strftime and strptime: timestamps as text by a format, and back, with DuckDB's letters.
//!
//!     %Y %y %-y   year, its last two digits      %j %-j      day of the year
//!     %m %-m      month                          %U %W       week of the year, from Sunday or Monday
//!     %B %b %h    its name, short                %G %V %u    ISO's year, week and weekday
//!     %d %-d %e   day (%e: blank for zero)       %w          weekday, Sunday is 0
//!     %H %-H      hour                           %A %a       its name, short
//!     %I %-I %p   hour of twelve, AM or PM       %f %g %n    micro-, milli- and nanoseconds
//!     %M %-M      minute                         %z %Z       offset from UTC, and the zone's name
//!     %S %-S      second                         %c %x %X %T ISO's date and time, date, time, time
//!
//! A format is read once. A text is read strictly: runs of blanks match runs of blanks, all other characters
//! themselves, and nothing may be left over. Of dates that are given in several ways, month and day count
//! first, then the day of the year or the week; the engine has no zone data, so %Z reads UTC only.
const std = @import("std");
const calendar = @import("calendar.zig");
const moment = @import("moment.zig");
const temporal = @import("temporal.zig");
const Arena = @import("../core/arena.zig").Arena;

pub const Error = error{ OutOfMemory, InvalidPattern };

pub const day_names = [_][]const u8{ "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday" };
pub const month_names = [_][]const u8{
    "January", "February", "March",     "April",   "May",      "June",
    "July",    "August",   "September", "October", "November", "December",
};

pub const Letter = enum {
    year,
    year_short,
    year_short_bare,
    iso_year,
    month,
    month_bare,
    month_name,
    month_short,
    day,
    day_bare,
    day_blank,
    day_of_year,
    day_of_year_bare,
    week_from_sunday,
    week_from_monday,
    iso_week,
    weekday,
    iso_weekday,
    weekday_name,
    weekday_short,
    hour,
    hour_bare,
    hour_of_twelve,
    hour_of_twelve_bare,
    half_day,
    minute,
    minute_bare,
    second,
    second_bare,
    millisecond,
    microsecond,
    nanosecond,
    offset,
    zone,

    fn of(character: u8) ?Letter {
        return switch (character) {
            'Y' => .year,
            'y' => .year_short,
            'G' => .iso_year,
            'm' => .month,
            'B' => .month_name,
            'b', 'h' => .month_short,
            'd' => .day,
            'e' => .day_blank,
            'j' => .day_of_year,
            'U' => .week_from_sunday,
            'W' => .week_from_monday,
            'V' => .iso_week,
            'w' => .weekday,
            'u' => .iso_weekday,
            'A' => .weekday_name,
            'a' => .weekday_short,
            'H' => .hour,
            'I' => .hour_of_twelve,
            'p' => .half_day,
            'M' => .minute,
            'S' => .second,
            'g' => .millisecond,
            'f' => .microsecond,
            'n' => .nanosecond,
            'z' => .offset,
            'Z' => .zone,
            else => null,
        };
    }

    /// Behind a minus: without leading zeros.
    fn bare(character: u8) ?Letter {
        return switch (character) {
            'd' => .day_bare,
            'm' => .month_bare,
            'y' => .year_short_bare,
            'H' => .hour_bare,
            'I' => .hour_of_twelve_bare,
            'M' => .minute_bare,
            'S' => .second_bare,
            'j' => .day_of_year_bare,
            else => null,
        };
    }

    /// Digits that are read at most; 0 where there are none.
    fn width(self: Letter) usize {
        return switch (self) {
            .weekday, .iso_weekday => 1,
            .millisecond, .day_of_year, .day_of_year_bare => 3,
            .year, .iso_year => 4,
            .microsecond => 6,
            .nanosecond => 9,
            .month_name, .month_short, .weekday_name, .weekday_short, .half_day, .offset, .zone => 0,
            else => 2,
        };
    }
};

pub const Item = union(enum) { text: []const u8, letter: Letter };

/// A format, read. Lives in the arena, and points into the text it was made of.
pub const Format = struct {
    items: []const Item,

    pub fn init(arena: std.mem.Allocator, text: []const u8) Error!Format {
        var items: std.ArrayList(Item) = .empty;
        try read_items(arena, text, &items);
        if (items.items.len == 0) return error.InvalidPattern;
        return .{ .items = items.items };
    }

    /// Bytes of one text at most.
    pub fn size_max(self: *const Format) usize {
        var total: usize = 16; // "-infinity"
        for (self.items) |item| total +|= switch (item) {
            .text => |text| text.len,
            // The longest: a name of a weekday, or a year of six digits and its sign.
            .letter => 12,
        };
        return total;
    }
};

fn read_items(arena: std.mem.Allocator, text: []const u8, items: *std.ArrayList(Item)) Error!void {
    var start: usize = 0;
    var i: usize = 0;
    while (i < text.len) : (i += 1) {
        if (text[i] != '%') continue;
        if (i > start) try items.append(arena, .{ .text = text[start..i] });
        i += 1;
        if (i == text.len) return error.InvalidPattern;
        start = i + 1;
        switch (text[i]) {
            // The second sign begins the next text.
            '%' => start = i,
            'c' => try read_items(arena, "%Y-%m-%d %H:%M:%S", items),
            'x' => try read_items(arena, "%Y-%m-%d", items),
            'X', 'T' => try read_items(arena, "%H:%M:%S", items),
            '-' => {
                i += 1;
                if (i == text.len) return error.InvalidPattern;
                start = i + 1;
                try items.append(arena, .{ .letter = Letter.bare(text[i]) orelse return error.InvalidPattern });
            },
            else => |character| try items.append(arena, .{
                .letter = Letter.of(character) orelse return error.InvalidPattern,
            }),
        }
    }
    if (start < text.len) try items.append(arena, .{ .text = text[start..] });
}

/// A moment taken apart.
const Parts = struct {
    day: i32,
    civil: calendar.Civil,
    hour: u32,
    minute: u32,
    second: u32,
    nanosecond: u32,

    fn of(day: i32, microseconds: i64, nanoseconds: u32) Parts {
        const time: u64 = @intCast(microseconds);
        return .{
            .day = day,
            .civil = calendar.civil_of(day),
            .hour = @intCast(time / 3_600_000_000),
            .minute = @intCast(time / 60_000_000 % 60),
            .second = @intCast(time / 1_000_000 % 60),
            .nanosecond = @as(u32, @intCast(time % 1_000_000)) * 1000 + nanoseconds,
        };
    }

    fn hour_of_twelve(self: *const Parts) u32 {
        return (self.hour + 11) % 12 + 1;
    }
};

/// Writes a text of at most `format.size_max()` bytes and returns its size. `ticks` is a timestamp; of
/// nanoseconds when `in_nanoseconds`. `zone` is the name that %Z writes.
pub fn write(format: *const Format, ticks: i64, in_nanoseconds: bool, zone: []const u8, target: []u8) usize {
    var writer: Writer = .{ .target = target };
    if (moment.is_infinite(i64, ticks)) {
        writer.text(if (ticks > 0) "infinity" else "-infinity");
        return writer.end;
    }
    const microseconds = if (in_nanoseconds) @divFloor(ticks, 1000) else ticks;
    const below: u32 = if (in_nanoseconds) @intCast(@mod(ticks, 1000)) else 0;
    const parts: Parts = .of(moment.day_of(microseconds), @mod(microseconds, moment.day_microseconds), below);
    for (format.items) |item| switch (item) {
        .text => |text| writer.text(text),
        .letter => |letter| writer.letter(letter, &parts, zone),
    };
    return writer.end;
}

/// A date: midnight of its day, however far away.
pub fn write_date(format: *const Format, day: i32, target: []u8) usize {
    var writer: Writer = .{ .target = target };
    if (moment.is_infinite(i32, day)) {
        writer.text(if (day > 0) "infinity" else "-infinity");
        return writer.end;
    }
    const parts: Parts = .of(day, 0, 0);
    for (format.items) |item| switch (item) {
        .text => |text| writer.text(text),
        .letter => |letter| writer.letter(letter, &parts, ""),
    };
    return writer.end;
}

const Writer = struct {
    target: []u8,
    end: usize = 0,

    fn text(self: *Writer, bytes: []const u8) void {
        @memcpy(self.target[self.end..][0..bytes.len], bytes);
        self.end += bytes.len;
    }

    /// At least so many digits, with zeros in front.
    fn number(self: *Writer, value: u32, digits: usize) void {
        if (value < 100 and digits == 2) {
            self.target[self.end..][0..2].* = .{
                '0' + @as(u8, @intCast(value / 10)),
                '0' + @as(u8, @intCast(value % 10)),
            };
            self.end += 2;
            return;
        }
        var buffer: [10]u8 = undefined;
        var start: usize = buffer.len;
        var rest = value;
        while (rest != 0 or buffer.len - start < digits) : (rest /= 10) {
            start -= 1;
            buffer[start] = '0' + @as(u8, @intCast(rest % 10));
        }
        self.text(buffer[start..]);
    }

    fn year(self: *Writer, value: i64) void {
        if (value < 0) self.text("-");
        self.number(@intCast(@abs(value)), if (value < 0) 1 else 4);
    }

    fn letter(self: *Writer, which: Letter, parts: *const Parts, zone: []const u8) void {
        const civil = &parts.civil;
        switch (which) {
            .year => self.year(civil.year),
            .year_short => self.number(@abs(civil.year) % 100, 2),
            .year_short_bare => self.number(@abs(civil.year) % 100, 1),
            .iso_year => self.year(calendar.part_of(.isoyear, parts.day)),
            .month => self.number(@intCast(civil.month), 2),
            .month_bare => self.number(@intCast(civil.month), 1),
            .month_name => self.text(month_names[@intCast(civil.month - 1)]),
            .month_short => self.text(month_names[@intCast(civil.month - 1)][0..3]),
            .day => self.number(@intCast(civil.day), 2),
            .day_bare => self.number(@intCast(civil.day), 1),
            .day_blank => {
                if (civil.day < 10) self.text(" ");
                self.number(@intCast(civil.day), 1);
            },
            .day_of_year => self.number(part(.dayofyear, parts), 3),
            .day_of_year_bare => self.number(part(.dayofyear, parts), 1),
            .week_from_sunday => self.number(week_number(parts, part(.dayofweek, parts)), 2),
            .week_from_monday => self.number(week_number(parts, part(.isodow, parts) - 1), 2),
            .iso_week => self.number(part(.week, parts), 2),
            .weekday => self.number(part(.dayofweek, parts), 1),
            .iso_weekday => self.number(part(.isodow, parts), 1),
            .weekday_name => self.text(day_names[part(.dayofweek, parts)]),
            .weekday_short => self.text(day_names[part(.dayofweek, parts)][0..3]),
            .hour => self.number(parts.hour, 2),
            .hour_bare => self.number(parts.hour, 1),
            .hour_of_twelve => self.number(parts.hour_of_twelve(), 2),
            .hour_of_twelve_bare => self.number(parts.hour_of_twelve(), 1),
            .half_day => self.text(if (parts.hour >= 12) "PM" else "AM"),
            .minute => self.number(parts.minute, 2),
            .minute_bare => self.number(parts.minute, 1),
            .second => self.number(parts.second, 2),
            .second_bare => self.number(parts.second, 1),
            .millisecond => self.number(parts.nanosecond / 1_000_000, 3),
            .microsecond => self.number(parts.nanosecond / 1_000, 6),
            .nanosecond => self.number(parts.nanosecond, 9),
            .offset => self.text("+00"),
            .zone => self.text(zone),
        }
    }
};

fn part(comptime which: calendar.DatePart, parts: *const Parts) u32 {
    return @intCast(calendar.part_of(which, parts.day));
}

/// Weeks that began this year: days since the last beginning, from the day of the year.
fn week_number(parts: *const Parts, days_into_week: u32) u32 {
    return (part(.dayofyear, parts) + 6 - days_into_week) / 7;
}

/// What a text said.
pub const Moment = struct {
    day: i64,
    /// Since midnight of that day; the offset is taken off, so it may be less than none.
    seconds: i64 = 0,
    nanoseconds: i64 = 0,
    infinite: ?enum { positive, negative } = null,

    /// To the nearest microsecond.
    pub fn timestamp(self: Moment) ?i64 {
        if (self.infinite) |sign| return if (sign == .positive) std.math.maxInt(i64) else -std.math.maxInt(i64);
        return temporal.timestamp_of(self.day, self.seconds * 1_000_000 + @divFloor(self.nanoseconds + 500, 1000));
    }

    pub fn timestamp_nanoseconds(self: Moment) ?i64 {
        if (self.infinite) |sign| return if (sign == .positive) std.math.maxInt(i64) else -std.math.maxInt(i64);
        const start = std.math.mul(i64, self.day, moment.day_microseconds * 1000) catch return null;
        const result = std.math.add(i64, start, self.seconds * 1_000_000_000 + self.nanoseconds) catch return null;
        return if (moment.is_infinite(i64, result)) null else result;
    }
};

/// Null when the text does not have the format, or says a day that does not exist.
pub fn parse(format: *const Format, text: []const u8) ?Moment {
    const trimmed = text[skip_blanks(text, 0)..];
    if (parse_special(trimmed)) |special| return special;
    var reader: Reader = .{ .text = trimmed };
    for (format.items) |item| {
        const good = switch (item) {
            .text => |expected| reader.match(expected),
            .letter => |letter| reader.letter(letter),
        };
        if (!good) return null;
    }
    if (skip_blanks(trimmed, reader.position) != trimmed.len) return null;
    return reader.result();
}

fn is_blank(character: u8) bool {
    return switch (character) {
        ' ', '\t', '\n', '\r', 0x0B, 0x0C => true,
        else => false,
    };
}

fn skip_blanks(text: []const u8, start: usize) usize {
    var i = start;
    while (i < text.len and is_blank(text[i])) i += 1;
    return i;
}

fn parse_special(text: []const u8) ?Moment {
    const word = std.mem.trimEnd(u8, text, " \t\n\r\x0B\x0C");
    if (std.ascii.eqlIgnoreCase(word, "infinity")) return .{ .day = 0, .infinite = .positive };
    if (std.ascii.eqlIgnoreCase(word, "-infinity")) return .{ .day = 0, .infinite = .negative };
    if (std.ascii.eqlIgnoreCase(word, "epoch")) return .{ .day = 0 };
    return null;
}

const Reader = struct {
    text: []const u8,
    position: usize = 0,
    year: i64 = 1900,
    month: i64 = 1,
    day: i64 = 1,
    hour: i64 = 0,
    minute: i64 = 0,
    second: i64 = 0,
    nanosecond: i64 = 0,
    /// Seconds east of UTC.
    offset: i64 = 0,
    half: enum { none, am, pm } = .none,
    /// What says the day.
    by: enum { nothing, year, month_and_day, day_of_year, week_from_sunday, week_from_monday, iso } = .nothing,
    week: i64 = 0,
    weekday: ?i64 = null,
    day_of_year: i64 = 1,
    iso_year: ?i64 = null,
    iso_week: ?i64 = null,
    iso_weekday: ?i64 = null,

    fn match(self: *Reader, expected: []const u8) bool {
        var i: usize = 0;
        while (i < expected.len) {
            if (is_blank(expected[i])) {
                const end = skip_blanks(self.text, self.position);
                if (end == self.position) return false;
                self.position = end;
                i = skip_blanks(expected, i);
                continue;
            }
            if (self.position >= self.text.len or self.text[self.position] != expected[i]) return false;
            self.position += 1;
            i += 1;
        }
        return true;
    }

    fn letter(self: *Reader, which: Letter) bool {
        if (which.width() != 0) return self.number(which);
        switch (which) {
            .half_day => return self.read_half(),
            // A weekday's name is read, and says nothing.
            .weekday_name => return self.name(&day_names, false) != null,
            .weekday_short => return self.name(&day_names, true) != null,
            .month_name, .month_short => {
                self.month = 1 + (self.name(&month_names, which == .month_short) orelse return false);
                return true;
            },
            .offset => return self.read_offset(),
            .zone => return self.read_zone(),
            else => unreachable,
        }
    }

    fn name(self: *Reader, names: []const []const u8, short: bool) ?i64 {
        const rest = self.text[self.position..];
        for (names, 0..) |full, index| {
            const wanted = if (short) full[0..3] else full;
            if (!std.ascii.startsWithIgnoreCase(rest, wanted)) continue;
            self.position += wanted.len;
            return @intCast(index);
        }
        return null;
    }

    fn read_half(self: *Reader) bool {
        const rest = self.text[self.position..];
        if (std.ascii.startsWithIgnoreCase(rest, "am")) {
            self.half = .am;
        } else if (std.ascii.startsWithIgnoreCase(rest, "pm")) {
            self.half = .pm;
        } else return false;
        self.position += 2;
        return true;
    }

    fn two_digits(self: *Reader) ?i64 {
        const rest = self.text[self.position..];
        if (rest.len < 2 or !std.ascii.isDigit(rest[0]) or !std.ascii.isDigit(rest[1])) return null;
        self.position += 2;
        return @as(i64, rest[0] - '0') * 10 + (rest[1] - '0');
    }

    fn next_is(self: *Reader, character: u8) bool {
        if (self.position >= self.text.len or self.text[self.position] != character) return false;
        self.position += 1;
        return true;
    }

    /// ±HH, ±HHMM, ±HH:MM or ±HH:MM:SS.
    fn read_offset(self: *Reader) bool {
        const negative = self.next_is('-');
        if (!negative and !self.next_is('+')) return false;
        var seconds = (self.two_digits() orelse return false) * 3600;
        const colons = self.next_is(':');
        if (self.two_digits()) |minutes| {
            seconds += minutes * 60;
            if (colons and self.next_is(':')) seconds += self.two_digits() orelse return false;
        } else if (colons) return false;
        self.offset = if (negative) -seconds else seconds;
        return true;
    }

    fn read_zone(self: *Reader) bool {
        self.position = skip_blanks(self.text, self.position);
        const start = self.position;
        while (self.position < self.text.len and is_zone(self.text[self.position])) self.position += 1;
        const zone = self.text[start..self.position];
        return std.ascii.eqlIgnoreCase(zone, "UTC") or
            std.ascii.eqlIgnoreCase(zone, "GMT") or std.ascii.eqlIgnoreCase(zone, "Etc/UTC");
    }

    fn is_zone(character: u8) bool {
        return std.ascii.isAlphanumeric(character) or std.mem.findScalar(u8, "_/+-", character) != null;
    }

    fn number(self: *Reader, which: Letter) bool {
        if (which == .day_blank) self.position = skip_blanks(self.text, self.position);
        var value: i64 = 0;
        var digits: usize = 0;
        while (digits < which.width() and self.position < self.text.len) : (digits += 1) {
            const character = self.text[self.position];
            if (!std.ascii.isDigit(character)) break;
            value = value * 10 + (character - '0');
            self.position += 1;
        }
        if (digits == 0) return false;
        switch (which) {
            .millisecond, .microsecond, .nanosecond => {
                // A fraction: what is not there is zero.
                for (digits..9) |_| value *= 10;
                self.nanosecond = value;
                return true;
            },
            else => return self.take(which, value),
        }
    }

    fn take(self: *Reader, which: Letter, value: i64) bool {
        const low: i64, const high: i64 = switch (which) {
            .day, .day_bare, .day_blank => .{ 1, 31 },
            .month, .month_bare, .hour_of_twelve, .hour_of_twelve_bare => .{ 1, 12 },
            .hour, .hour_bare => .{ 0, 23 },
            .minute, .minute_bare, .second, .second_bare => .{ 0, 59 },
            .week_from_sunday, .week_from_monday => .{ 0, 53 },
            .iso_week => .{ 1, 53 },
            .weekday => .{ 0, 6 },
            .iso_weekday => .{ 1, 7 },
            .day_of_year, .day_of_year_bare => .{ 1, 366 },
            else => .{ 0, 9999 },
        };
        if (value < low or value > high) return false;
        switch (which) {
            .day, .day_bare, .day_blank => {
                self.day = value;
                self.by = .month_and_day;
            },
            .month, .month_bare => {
                self.month = value;
                self.by = .month_and_day;
            },
            .year, .year_short, .year_short_bare => {
                // Two digits mean 1969 to 2068.
                self.year = if (which == .year) value else if (value >= 69) 1900 + value else 2000 + value;
                if (self.by == .nothing or self.by == .iso) self.by = .year;
            },
            .hour, .hour_bare, .hour_of_twelve, .hour_of_twelve_bare => self.hour = value,
            .minute, .minute_bare => self.minute = value,
            .second, .second_bare => self.second = value,
            .week_from_sunday, .week_from_monday => {
                self.week = value;
                return self.say_within_year(if (which == .week_from_sunday) .week_from_sunday else .week_from_monday);
            },
            .day_of_year, .day_of_year_bare => {
                self.day_of_year = value;
                return self.say_within_year(.day_of_year);
            },
            .weekday => self.weekday = value,
            .iso_year => return self.say_iso(&self.iso_year, value, true),
            .iso_week => return self.say_iso(&self.iso_week, value, false),
            .iso_weekday => {
                if (self.iso_weekday != null) return false;
                self.iso_weekday = value;
            },
            else => unreachable,
        }
        return true;
    }

    /// A month or a day said before stays; a second such number is a contradiction.
    fn say_within_year(self: *Reader, by: @FieldType(Reader, "by")) bool {
        switch (self.by) {
            .month_and_day => {},
            .nothing, .year => self.by = by,
            else => return false,
        }
        return true;
    }

    fn say_iso(self: *Reader, field: *?i64, value: i64, beside_year: bool) bool {
        switch (self.by) {
            .month_and_day => {},
            .year => if (!beside_year) return false,
            .nothing => self.by = .iso,
            .iso => if (field.* != null) return false,
            else => return false,
        }
        field.* = value;
        return true;
    }

    fn result(self: *const Reader) ?Moment {
        var hour = self.hour;
        if (self.half != .none) {
            if (hour > 12) return null;
            hour = @mod(hour, 12) + @as(i64, if (self.half == .pm) 12 else 0);
        }
        return .{
            .day = self.find_day() orelse return null,
            .seconds = (hour * 60 + self.minute) * 60 + self.second - self.offset,
            .nanoseconds = self.nanosecond,
        };
    }

    fn find_day(self: *const Reader) ?i64 {
        const new_year = calendar.days_of_civil(self.year, 1, 1).?; // of four digits
        switch (self.by) {
            .nothing, .year, .month_and_day => return calendar.days_of_civil(self.year, self.month, self.day) orelse
                return null,
            .day_of_year => return new_year + self.day_of_year - 1,
            .iso => {
                const fourth = calendar.days_of_civil(self.iso_year orelse 1900, 1, 4).?;
                return monday(fourth) + ((self.iso_week orelse 1) - 1) * 7 + (self.iso_weekday orelse 1) - 1;
            },
            .week_from_sunday, .week_from_monday => {
                const from_monday = self.by == .week_from_monday;
                const weekday = if (self.weekday) |given| @mod(given + 7 - @intFromBool(from_monday), 7) else 0;
                var start = monday(new_year) - @intFromBool(!from_monday);
                // Week 0 ends where the first whole week begins.
                if (start >= new_year) start -= 7;
                return start + self.week * 7 + weekday;
            },
        }
    }

    fn monday(day: i32) i64 {
        return day - calendar.part_of(.isodow, day) + 1;
    }
};

const testing = std.testing;

fn expect_written(wanted: []const u8, format: []const u8, ticks: i64) !void {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const read = try Format.init(arena.allocator(), format);
    const target = try arena.allocator().alloc(u8, read.size_max());
    const size = write(&read, ticks, false, "UTC", target);
    try testing.expectEqualStrings(wanted, target[0..size]);
}

fn parsed(format: []const u8, text: []const u8) !?i64 {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const read = try Format.init(arena.allocator(), format);
    const result = parse(&read, text) orelse return null;
    return result.timestamp();
}

fn at(year: i64, month: i64, day: i64, seconds: i64) i64 {
    return temporal.timestamp_of(calendar.days_of_civil(year, month, day).?, seconds * 1_000_000).?;
}

test write {
    const moment_of_test = at(2024, 2, 3, 4 * 3600 + 5 * 60 + 6) + 7008;
    try expect_written("2024-02-03 04:05:06.007008", "%Y-%m-%d %H:%M:%S.%f", moment_of_test);
    try expect_written(
        "24 24 2 3  3 4 04 AM 5 6 007 007008000",
        "%y %-y %-m %-d %e %-I %I %p %-M %-S %g %n",
        moment_of_test,
    );
    try expect_written("February Feb Feb Saturday Sat 6 6 034 34", "%B %b %h %A %a %w %u %j %-j", moment_of_test);
    try expect_written("2024 05 04 05 +00 UTC 100%", "%G %V %U %W %z %Z 100%%", moment_of_test);
    try expect_written("2024-02-03 04:05:06|2024-02-03|04:05:06|04:05:06", "%c|%x|%X|%T", moment_of_test);
    try expect_written("12 PM", "%I %p", at(2024, 1, 1, 12 * 3600));
    try expect_written("-43 43", "%Y %y", at(-43, 3, 15, 0));
    try expect_written("12020", "%Y", at(12_020, 1, 1, 0));
    try expect_written("-infinity", "%Y", -std.math.maxInt(i64));
}

test "formats that say nothing" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    for ([_][]const u8{ "", "%", "%Q", "%-", "%-Y", "%Y %" }) |format| {
        try testing.expectError(error.InvalidPattern, Format.init(arena.allocator(), format));
    }
}

test parse {
    try testing.expectEqual(at(2020, 1, 2, 0), try parsed("%Y-%m-%d", " 2020-01-02 "));
    try testing.expectEqual(at(2020, 1, 2, 0), try parsed("%Y  %m %d", "2020 01   2"));
    try testing.expectEqual(null, try parsed("%Y-%m-%d", "2020-01-02x"));
    try testing.expectEqual(null, try parsed("%Y-%m-%d", "2020-02-30"));
    try testing.expectEqual(null, try parsed("%Y-%m-%d", "2020-01-"));
    try testing.expectEqual(null, try parsed("%Y-%m-%d", ""));
    try testing.expectEqual(null, try parsed("%Y %m", "202001"));
    try testing.expectEqual(at(1900, 1, 1, 12 * 3600 + 1800), try parsed("%I:%M %p", "12:30 pm"));
    try testing.expectEqual(null, try parsed("%H:%M %p", "13:30 PM"));
    try testing.expectEqual(at(2020, 2, 29, 0), try parsed("%Y-%j", "2020-060"));
    try testing.expectEqual(at(2020, 1, 1, 0), try parsed("%Y-%j", "2019-366"));
    try testing.expectEqual(at(2020, 3, 9, 0), try parsed("%Y %U %w", "2020 10 1"));
    try testing.expectEqual(at(2020, 3, 9, 0), try parsed("%Y %W %w", "2020 10 1"));
    try testing.expectEqual(at(2020, 3, 4, 0), try parsed("%G W%V %u", "2020 W10 3"));
    try testing.expectEqual(null, try parsed("%Y W%V", "2020 W10"));
    try testing.expectEqual(at(2020, 1, 2, 4 * 3600 + 1800), try parsed("%c %z", "2020-01-02 10:00:00 +05:30"));
    try testing.expectEqual(at(2020, 1, 2, 15 * 3600 + 1800), try parsed("%c %z", "2020-01-02 10:00:00 -0530"));
    try testing.expectEqual(null, try parsed("%c %z", "2020-01-02 10:00:00 +5"));
    try testing.expectEqual(at(2020, 1, 2, 0), try parsed("%x %Z", "2020-01-02 utc"));
    try testing.expectEqual(null, try parsed("%x %Z", "2020-01-02 Europe/Berlin"));
    try testing.expectEqual(at(1900, 1, 1, 0) + 500_000, try parsed(".%f", ".5"));
    try testing.expectEqual(at(2069, 1, 1, 0) - at(2069, 1, 1, 0) + at(1969, 1, 1, 0), try parsed("%y", "69"));
    try testing.expectEqual(at(2020, 5, 1, 0), try parsed("%d %b %Y", "1 mAY 2020"));
    try testing.expectEqual(null, try parsed("%B", "jan"));
    try testing.expectEqual(std.math.maxInt(i64), try parsed("%Y", "Infinity"));
    try testing.expectEqual(0, try parsed("%Y", "epoch "));
    try testing.expectEqual(null, try parsed("%Y", "inf"));
}

test "what is written can be read" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    var prng: std.Random.DefaultPrng = .init(31);
    const random = prng.random();
    for ([_][]const u8{
        "%Y-%m-%d %H:%M:%S.%f",
        "%G %V %u %I %p %M %S %f",
        "%Y %j %T %n",
        "%A %d %B %Y %-H %-M %-S %f",
        "%Y %W %w %X.%f",
    }) |text| {
        const format = try Format.init(arena.allocator(), text);
        const target = try arena.allocator().alloc(u8, format.size_max());
        for (0..500) |_| {
            const ticks = at(1, 1, 1, 0) + random.uintLessThan(u32, 3_652_059) * moment.day_microseconds +
                random.intRangeLessThan(i64, 0, moment.day_microseconds);
            const size = write(&format, ticks, false, "", target);
            try testing.expectEqual(ticks, parse(&format, target[0..size]).?.timestamp().?);
        }
    }
}
