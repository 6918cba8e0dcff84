//! Timestamps in microseconds since 1970: their day, their time of day, and what is read from both.
//!
//! WebAssembly has no 64-bit division by multiplication, neither in lanes nor without, so a timestamp is split
//! in floats. 86,400,000,000 is 2^13 × 10,546,875: the 51 bits above the lowest 13 are an exact float, and
//! their quotient is right whenever it is more than one rounding away from an integer. Half a unit is added,
//! which keeps it 2^-24.4 away; a product below 2^28 is rounded by less than 2^-25.
//!
//! Any bits are a timestamp: NULL rows hold anything. DuckDB's infinities are the greatest value and its negative.
const std = @import("std");
const bitmap = @import("../core/bitmap.zig");
const calendar = @import("calendar.zig");
const assert = std.debug.assert;

pub const day_microseconds: i64 = 86_400_000_000;
/// The first and the last day that a timestamp can lie in. The first one is whole, the last is not.
pub const day_limit: i32 = 106_751_991;
/// What is not infinite.
pub const timestamp_min: i64 = -day_limit * day_microseconds;
pub const timestamp_max: i64 = std.math.maxInt(i64) - 1;

pub const TimePart = enum { hour, minute, second, millisecond, microsecond, nanosecond };
/// Where truncation within a day ends.
pub const TimeUnit = enum { hour, minute, second, millisecond };

const lanes = 2;
const Signed = @Vector(lanes, i64);
const Unsigned = @Vector(lanes, u64);
const Float = @Vector(lanes, f64);

/// 2^52 as a float, and as its bits: an integer below it may stand in the lowest 52.
const float_base: f64 = 0x1p52;
const float_bits: u64 = @bitCast(float_base);

inline fn to_float(value: Unsigned) Float {
    return @as(Float, @bitCast(value | @as(Unsigned, @splat(float_bits)))) - @as(Float, @splat(float_base));
}

/// Whole numbers from 0 to 2^52.
inline fn to_integer(value: Float) Unsigned {
    return @as(Unsigned, @bitCast(value + @as(Float, @splat(float_base)))) ^ @as(Unsigned, @splat(float_bits));
}

/// The whole part of `value / divisor`, of whole numbers.
inline fn quotient(value: Float, comptime divisor: comptime_float) Float {
    return @floor((value + @as(Float, @splat(0.5))) * @as(Float, @splat(1.0 / divisor)));
}

const Split = struct {
    /// Since the first day of all.
    day: Float,
    /// Microseconds since midnight.
    time: Float,

    inline fn of(value: Signed) Split {
        const from_first: Unsigned = @bitCast(value -% @as(Signed, @splat(timestamp_min)));
        const high = to_float(from_first >> @splat(13));
        const day = quotient(high, 10_546_875.0);
        const rest = high - day * @as(Float, @splat(10_546_875.0));
        const low = to_float(from_first & @as(Unsigned, @splat(0x1FFF)));
        return .{ .day = day, .time = rest * @as(Float, @splat(8192.0)) + low };
    }
};

inline fn load(values: []const i64, i: usize) Signed {
    // The last odd one stands in both lanes.
    return if (i + 1 < values.len) values[i..][0..2].* else @splat(values[i]);
}

/// The day of every timestamp.
pub fn days(values: []const i64, out: []i32) void {
    assert(values.len == out.len);
    var i: usize = 0;
    while (i < values.len) : (i += lanes) {
        const numbers = to_integer(Split.of(load(values, i)).day);
        const narrow: @Vector(lanes, i32) = @truncate(@as(Signed, @bitCast(numbers)));
        const result: [lanes]i32 = narrow -% @as(@Vector(lanes, i32), @splat(day_limit));
        out[i] = result[0];
        if (i + 1 < out.len) out[i + 1] = result[1];
    }
}

/// The day and the microseconds since its midnight.
pub fn split(values: []const i64, out_days: []i32, out_times: []i64) void {
    assert(values.len == out_days.len and values.len == out_times.len);
    days(values, out_days);
    for (out_times, values, out_days) |*time, value, day| time.* = value -% @as(i64, day) *% day_microseconds;
}

pub fn day_of(value: i64) i32 {
    return @truncate(@divFloor(value, day_microseconds));
}

inline fn store(out: []i64, i: usize, values: Unsigned) void {
    const result: [lanes]i64 = @as(Signed, @bitCast(values));
    out[i] = result[0];
    if (i + 1 < out.len) out[i + 1] = result[1];
}

inline fn time_part_lanes(comptime part: TimePart, time: Float) Float {
    switch (part) {
        .hour => return quotient(time, 3_600_000_000.0),
        .minute => {
            const minutes = quotient(time, 60_000_000.0);
            return minutes - quotient(minutes, 60.0) * @as(Float, @splat(60.0));
        },
        .second => {
            const seconds = quotient(time, 1_000_000.0);
            return seconds - quotient(seconds, 60.0) * @as(Float, @splat(60.0));
        },
        .millisecond => return quotient(time_part_lanes(.microsecond, time), 1000.0),
        .microsecond => return time - quotient(time, 60_000_000.0) * @as(Float, @splat(60_000_000.0)),
        .nanosecond => return time_part_lanes(.microsecond, time) * @as(Float, @splat(1000.0)),
    }
}

/// A part of the time of day. Milliseconds and what is smaller count from the minute on, as in DuckDB.
pub fn time_part(comptime part: TimePart, values: []const i64, out: []i64) void {
    assert(values.len == out.len);
    var i: usize = 0;
    while (i < values.len) : (i += lanes) {
        store(out, i, to_integer(time_part_lanes(part, Split.of(load(values, i)).time)));
    }
}

/// The same of times: microseconds since midnight, up to and including 24:00.
pub fn part_of_time(comptime part: TimePart, values: []const i64, out: []i64) void {
    assert(values.len == out.len);
    var i: usize = 0;
    while (i < values.len) : (i += lanes) {
        const bits: Unsigned = @bitCast(load(values, i));
        store(out, i, to_integer(time_part_lanes(part, to_float(bits & @as(Unsigned, @splat((1 << 40) - 1))))));
    }
}

/// Down to the hour, minute, second or millisecond that each timestamp lies in.
pub fn truncate_times(comptime unit: TimeUnit, values: []const i64, out: []i64) void {
    assert(values.len == out.len);
    const length: comptime_float = switch (unit) {
        .hour => 3_600_000_000.0,
        .minute => 60_000_000.0,
        .second => 1_000_000.0,
        .millisecond => 1_000.0,
    };
    var i: usize = 0;
    while (i < values.len) : (i += lanes) {
        const value = load(values, i);
        const time = Split.of(value).time;
        const rest = time - quotient(time, length) * @as(Float, @splat(length));
        store(out, i, @as(Unsigned, @bitCast(value)) -% to_integer(rest));
    }
}

/// Rows that are worked on at a time where days of timestamps are needed in between.
pub const block = 512;

/// One part of every timestamp's day.
pub fn date_part(comptime part: calendar.DatePart, values: []const i64, out: []i64) void {
    var buffer: [block]i32 = undefined;
    var start: usize = 0;
    while (start < values.len) : (start += block) {
        const count = @min(block, values.len - start);
        days(values[start..][0..count], buffer[0..count]);
        // Days of timestamps are near, and those of infinite ones are the caller's business.
        _ = calendar.date_part(part, buffer[0..count], out[start..][0..count]);
    }
}

/// Down to the day, month … that each timestamp lies in. False where that begins before all timestamps.
pub fn truncate_dates(comptime unit: calendar.DateUnit, values: []const i64, out: []i64) bool {
    assert(values.len == out.len);
    var buffer: [2][block]i32 = undefined;
    var fits = true;
    var start: usize = 0;
    while (start < values.len) : (start += block) {
        const count = @min(block, values.len - start);
        days(values[start..][0..count], buffer[0][0..count]);
        calendar.truncate_days(unit, buffer[0][0..count], buffer[1][0..count]);
        fits = midnights(buffer[1][0..count], out[start..][0..count]) and fits;
    }
    return fits;
}

/// The same of days, as timestamps.
pub fn truncate_days(comptime unit: calendar.DateUnit, values: []const i32, out: []i64) bool {
    assert(values.len == out.len);
    var buffer: [block]i32 = undefined;
    var fits = true;
    var start: usize = 0;
    while (start < values.len) : (start += block) {
        const count = @min(block, values.len - start);
        calendar.truncate_days(unit, values[start..][0..count], buffer[0..count]);
        fits = midnights(buffer[0..count], out[start..][0..count]) and fits;
    }
    return fits;
}

/// Days as timestamps. False where some day has none.
pub fn midnights(values: []const i32, out: []i64) bool {
    assert(values.len == out.len);
    const width = 4;
    const Days = @Vector(width, i32);
    var beyond: Days = @splat(0);
    var i: usize = 0;
    while (i + width <= values.len) : (i += width) {
        const chunk: Days = values[i..][0..width].*;
        beyond |= @select(i32, @abs(chunk) > @as(@Vector(width, u32), @splat(day_limit)), @as(Days, @splat(-1)), @as(
            Days,
            @splat(0),
        ));
        out[i..][0..width].* = @as(@Vector(width, i64), chunk) *% @as(@Vector(width, i64), @splat(day_microseconds));
    }
    var fits = @reduce(.Or, beyond) == 0;
    while (i < values.len) : (i += 1) {
        fits = fits and @abs(values[i]) <= day_limit;
        out[i] = @as(i64, values[i]) *% day_microseconds;
    }
    return fits;
}

/// `T` is i32 for dates and i64 for timestamps.
pub inline fn is_infinite(comptime T: type, value: T) bool {
    return value == std.math.maxInt(T) or value == -std.math.maxInt(T);
}

/// Whether any value, of NULL rows too, is infinite.
pub fn any_infinite(comptime T: type, values: []const T) bool {
    const width = 32 / @sizeOf(T);
    const V = @Vector(width, T);
    const zero: V = @splat(0);
    var found: V = zero;
    var i: usize = 0;
    while (i + width <= values.len) : (i += width) {
        const chunk: V = values[i..][0..width].*;
        found |= @select(T, chunk == @as(V, @splat(std.math.maxInt(T))), ~zero, zero);
        found |= @select(T, chunk == @as(V, @splat(-std.math.maxInt(T))), ~zero, zero);
    }
    if (@reduce(.Or, found) != 0) return true;
    for (values[i..]) |value| if (is_infinite(T, value)) return true;
    return false;
}

/// Bits of the rows that are not infinite, and were valid before.
pub fn mark_finite(comptime T: type, values: []const T, validity: ?[]const u8, out: []u8) void {
    for (values, 0..) |value, row| {
        const valid = if (validity) |bits| bitmap.get(bits.ptr, row) else true;
        if (valid and !is_infinite(T, value)) bitmap.set(out.ptr, row) else bitmap.clear(out.ptr, row);
    }
}

const testing = std.testing;

fn random_timestamp(random: std.Random) i64 {
    const edge: i64 = switch (random.uintLessThan(u8, 6)) {
        0 => 0,
        1 => timestamp_min,
        2 => timestamp_max,
        3 => random.intRangeAtMost(i64, -day_limit, day_limit) * day_microseconds,
        4 => random.intRangeAtMost(i64, -40_000, 40_000) * day_microseconds,
        else => random.intRangeAtMost(i64, timestamp_min, timestamp_max),
    };
    const moved = edge +| random.intRangeAtMost(i64, -2, 2);
    return @max(timestamp_min, @min(timestamp_max, moved));
}

fn plain_part(part: TimePart, value: i64) i64 {
    const time = @mod(value, day_microseconds);
    return switch (part) {
        .hour => @divFloor(time, 3_600_000_000),
        .minute => @mod(@divFloor(time, 60_000_000), 60),
        .second => @mod(@divFloor(time, 1_000_000), 60),
        .millisecond => @divFloor(@mod(time, 60_000_000), 1000),
        .microsecond => @mod(time, 60_000_000),
        .nanosecond => @mod(time, 60_000_000) * 1000,
    };
}

test "days and times of day against whole numbers" {
    var prng: std.Random.DefaultPrng = .init(8);
    const random = prng.random();
    for (0..3000) |round| {
        const length = round % 6;
        var values: [5]i64 = undefined;
        var day: [5]i32 = undefined;
        var out: [5]i64 = undefined;
        for (&values) |*value| value.* = random_timestamp(random);
        split(values[0..length], day[0..length], out[0..length]);
        for (values[0..length], day[0..length], out[0..length]) |value, got, time| {
            try testing.expectEqual(@divFloor(value, day_microseconds), got);
            try testing.expectEqual(@mod(value, day_microseconds), time);
        }
        inline for (comptime std.enums.values(TimePart)) |part| {
            time_part(part, values[0..length], out[0..length]);
            for (values[0..length], out[0..length]) |value, got| try testing.expectEqual(plain_part(part, value), got);
        }
        inline for (comptime std.enums.values(TimeUnit)) |unit| {
            truncate_times(unit, values[0..length], out[0..length]);
            const width: i64 = switch (unit) {
                .hour => 3_600_000_000,
                .minute => 60_000_000,
                .second => 1_000_000,
                .millisecond => 1_000,
            };
            for (values[0..length], out[0..length]) |value, got|
                try testing.expectEqual(value - @mod(value, width), got);
        }
    }
}

test "bits that are no timestamp do no harm" {
    var out: [3]i64 = undefined;
    var day: [3]i32 = undefined;
    const values = [3]i64{ std.math.minInt(i64), std.math.maxInt(i64), -std.math.maxInt(i64) };
    days(&values, &day);
    time_part(.microsecond, &values, &out);
    part_of_time(.hour, &values, &out);
    _ = truncate_dates(.millennium, &values, &out);
    date_part(.yearweek, &values, &out);
}

test part_of_time {
    var out: [3]i64 = undefined;
    part_of_time(.hour, &.{ 0, 86_399_999_999, 86_400_000_000 }, &out);
    try testing.expectEqual([3]i64{ 0, 23, 24 }, out);
    part_of_time(.millisecond, &.{ 59_999_999, 60_000_000, 61_001_000 }, &out);
    try testing.expectEqual([3]i64{ 59_999, 0, 1001 }, out);
}

test truncate_dates {
    var prng: std.Random.DefaultPrng = .init(9);
    const random = prng.random();
    var values: [1100]i64 = undefined;
    var out: [1100]i64 = undefined;
    var parts: [1100]i64 = undefined;
    for (&values) |*value| value.* = random.intRangeAtMost(i64, -100_000_000, 100_000_000) * day_microseconds +
        random.intRangeLessThan(i64, 0, day_microseconds);
    inline for (comptime std.enums.values(calendar.DateUnit)) |unit| {
        try testing.expect(truncate_dates(unit, &values, &out));
        for (values, out) |value, got| {
            var wanted: [1]i32 = undefined;
            calendar.truncate_days(unit, &.{day_of(value)}, &wanted);
            try testing.expectEqual(wanted[0] * day_microseconds, got);
        }
    }
    date_part(.month, &values, &parts);
    for (values, parts) |value, got| try testing.expectEqual(calendar.part_of(.month, day_of(value)), got);
    try testing.expect(!truncate_dates(.year, &.{timestamp_min}, out[0..1]));
    try testing.expect(truncate_dates(.day, &.{timestamp_min}, out[0..1]));
    try testing.expect(!truncate_days(.month, &.{ 0, 1, 2, 3, 4, 200_000_000 }, out[0..6]));
    try testing.expect(!truncate_days(.month, &.{ 0, 1, -200_000_000, 3, 4, 5 }, out[0..6]));
}

test any_infinite {
    inline for (.{ i32, i64 }) |T| {
        for ([_]usize{ 0, 1, 7, 8, 9, 33 }) |length| {
            var values: [33]T = @splat(5);
            try testing.expect(!any_infinite(T, values[0..length]));
            for (0..length) |row| {
                for ([_]T{ std.math.maxInt(T), -std.math.maxInt(T) }) |infinite| {
                    values[row] = infinite;
                    try testing.expect(any_infinite(T, values[0..length]));
                }
                values[row] = std.math.minInt(T);
            }
        }
    }
    var bits: [1]u8 = undefined;
    mark_finite(i32, &.{ 1, std.math.maxInt(i32), 2, -std.math.maxInt(i32) }, &.{0b1110}, &bits);
    try testing.expectEqual(0b0100, bits[0] & 0xF);
}
