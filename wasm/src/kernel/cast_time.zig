//! Casts between dates, times and timestamps of all units. cast.zig says how they round and what validity and
//! mode mean.
const std = @import("std");
const cast = @import("cast.zig");
const interrupt = @import("../core/interrupt.zig");
const schema = @import("../core/schema.zig");
const Error = cast.Error;
const Mode = cast.Mode;
const TimeUnit = schema.TimeUnit;
const assert = std.debug.assert;
const divide_round = @import("cast_decimal.zig").divide_round;
const settle = cast.settle;
const testing = std.testing;

/// DuckDB's infinities: the greatest value of the type and its negative.
fn is_infinite(comptime T: type, value: T) bool {
    return value == std.math.maxInt(T) or value == -std.math.maxInt(T);
}

fn units_per_second(unit: TimeUnit) i64 {
    return switch (unit) {
        .second => 1,
        .millisecond => 1_000,
        .microsecond => 1_000_000,
        .nanosecond => 1_000_000_000,
    };
}

/// Every value by `one`, which has none for those that do not fit.
fn convert_moments(
    comptime From: type,
    comptime To: type,
    values: []const From,
    validity: ?[]const u8,
    out: []To,
    mode: Mode,
    out_validity: ?[]u8,
    context: anytype,
    comptime one: fn (From, @TypeOf(context)) callconv(.@"inline") ?To,
) Error!bool {
    assert(values.len == out.len);
    var fits = true;
    for (out, values) |*to, value| {
        const result = one(value, context);
        to.* = result orelse 0;
        fits = fits and result != null;
    }
    if (fits) return false;
    return settle(From, To, values, validity, mode, out_validity, context, struct {
        fn fails(value: From, given: @TypeOf(context)) bool {
            return one(value, given) == null;
        }
    }.fails);
}

pub fn rescale_time(
    values: []const i64,
    from: TimeUnit,
    to: TimeUnit,
    validity: ?[]const u8,
    out: []i64,
    mode: Mode,
    out_validity: ?[]u8,
) Error!bool {
    const scaling: TimeScaling = .init(from, to);
    return convert_moments(i64, i64, values, validity, out, mode, out_validity, &scaling, TimeScaling.apply);
}

const TimeScaling = struct {
    factor: i64,
    divisor: i64,
    bound: i64,

    fn init(from: TimeUnit, to: TimeUnit) TimeScaling {
        const factor = @max(1, @divTrunc(units_per_second(to), units_per_second(from)));
        return .{
            .factor = factor,
            .divisor = @max(1, @divTrunc(units_per_second(from), units_per_second(to))),
            .bound = @divTrunc(std.math.maxInt(i64), factor),
        };
    }

    inline fn apply(value: i64, self: *const TimeScaling) ?i64 {
        if (is_infinite(i64, value)) return value;
        if (self.divisor > 1) return divide_round(i64, value, self.divisor);
        if (value > self.bound or value < -self.bound) return null;
        return value * self.factor;
    }
};

/// One value in another unit.
pub fn rescale_one(value: i64, from: TimeUnit, to: TimeUnit) ?i64 {
    const scaling: TimeScaling = .init(from, to);
    return TimeScaling.apply(value, &scaling);
}

const seconds_per_day = 86_400;
/// Days whose microseconds fit an i64; DuckDB casts dates through microseconds.
const day_limit: i64 = std.math.maxInt(i64) / (seconds_per_day * 1_000_000);

pub fn date_to_timestamp(
    values: []const i32,
    unit: TimeUnit,
    validity: ?[]const u8,
    out: []i64,
    mode: Mode,
    out_validity: ?[]u8,
) Error!bool {
    return convert_moments(i32, i64, values, validity, out, mode, out_validity, unit, date_to_timestamp_one);
}

inline fn date_to_timestamp_one(days: i32, unit: TimeUnit) ?i64 {
    if (is_infinite(i32, days)) return if (days > 0) std.math.maxInt(i64) else -std.math.maxInt(i64);
    if (days > day_limit or days < -day_limit) return null;
    const product, const overflow = @mulWithOverflow(@as(i64, days), seconds_per_day * units_per_second(unit));
    return if (overflow == 0) product else null;
}

pub fn timestamp_to_date(
    values: []const i64,
    unit: TimeUnit,
    validity: ?[]const u8,
    out: []i32,
    mode: Mode,
    out_validity: ?[]u8,
) Error!bool {
    return convert_moments(i64, i32, values, validity, out, mode, out_validity, unit, timestamp_to_date_one);
}

inline fn timestamp_to_date_one(value: i64, unit: TimeUnit) ?i32 {
    if (is_infinite(i64, value)) return if (value > 0) std.math.maxInt(i32) else -std.math.maxInt(i32);
    return std.math.cast(i32, @divFloor(value, seconds_per_day * units_per_second(unit)));
}

/// The time of day; what the unit cannot say is cut off. Infinity has none.
pub fn timestamp_to_time(
    values: []const i64,
    from: TimeUnit,
    to: TimeUnit,
    validity: ?[]const u8,
    out: []i64,
    mode: Mode,
    out_validity: ?[]u8,
) Error!bool {
    const day: TimeOfDay = .{ .size = seconds_per_day * units_per_second(from), .scaling = .init(from, to) };
    return convert_moments(i64, i64, values, validity, out, mode, out_validity, &day, TimeOfDay.of);
}

const TimeOfDay = struct {
    size: i64,
    scaling: TimeScaling,

    inline fn of(value: i64, self: *const TimeOfDay) ?i64 {
        if (is_infinite(i64, value)) return null;
        // One of the two is 1, and a day fits every unit.
        return @divFloor(@mod(value, self.size) * self.scaling.factor, self.scaling.divisor);
    }
};

test rescale_time {
    defer interrupt.forget();
    const infinity = std.math.maxInt(i64);
    var out: [8]i64 = undefined;
    _ = try rescale_time(
        &.{ -500_000, 500_000, 2_500_000, 2_499_900, -1, -999_999, -1_000_001, infinity },
        .microsecond,
        .second,
        null,
        &out,
        .strict,
        null,
    );
    try testing.expectEqualSlices(i64, &.{ -1, 1, 3, 2, 0, -1, -1, infinity }, &out);
    _ = try rescale_time(&.{ 1, -infinity }, .second, .nanosecond, null, out[0..2], .strict, null);
    try testing.expectEqualSlices(i64, &.{ 1_000_000_000, -infinity }, out[0..2]);
    const far = [_]i64{ 95_617_584_000, 1 }; // 5000-01-01
    try testing.expectError(error.OutOfRange, rescale_time(&far, .second, .nanosecond, null, out[0..2], .strict, null));
    try testing.expect(!try rescale_time(&far, .second, .nanosecond, &.{0b10}, out[0..2], .strict, null));
    var validity = [_]u8{0b11};
    try testing.expect(try rescale_time(&far, .second, .nanosecond, null, out[0..2], .try_cast, &validity));
    try testing.expectEqual(0b10, validity[0]);
}

test "dates and timestamps" {
    defer interrupt.forget();
    var stamps: [3]i64 = undefined;
    _ = try date_to_timestamp(&.{ 18262, -1, std.math.maxInt(i32) }, .microsecond, null, &stamps, .strict, null);
    try testing.expectEqualSlices(i64, &.{ 1_577_836_800_000_000, -86_400_000_000, std.math.maxInt(i64) }, &stamps);
    try testing.expectError(
        error.OutOfRange,
        date_to_timestamp(&.{1_106_671}, .nanosecond, null, stamps[0..1], .strict, null),
    );
    try testing.expectError(
        error.OutOfRange,
        date_to_timestamp(&.{200_000_000}, .second, null, stamps[0..1], .strict, null),
    );
    var days: [3]i32 = undefined;
    _ = try timestamp_to_date(
        &.{ -1, 86_400_000_000, -std.math.maxInt(i64) },
        .microsecond,
        null,
        &days,
        .strict,
        null,
    );
    try testing.expectEqualSlices(i32, &.{ -1, 1, -std.math.maxInt(i32) }, &days);
    try testing.expectError(
        error.OutOfRange,
        timestamp_to_date(&.{std.math.maxInt(i64) - 1}, .second, null, days[0..1], .strict, null),
    );
    _ = try timestamp_to_time(
        &.{ -1, 86_400_000_001, 7_999_999 },
        .nanosecond,
        .microsecond,
        null,
        &stamps,
        .strict,
        null,
    );
    try testing.expectEqualSlices(i64, &.{ 86_399_999_999, 86_400_000, 7_999 }, &stamps);
    _ = try timestamp_to_time(&.{ -1, 86_401, 5 }, .second, .microsecond, null, &stamps, .strict, null);
    try testing.expectEqualSlices(i64, &.{ 86_399_000_000, 1_000_000, 5_000_000 }, &stamps);
    try testing.expectError(
        error.OutOfRange,
        timestamp_to_time(&.{std.math.maxInt(i64)}, .second, .second, null, stamps[0..1], .strict, null),
    );
}
