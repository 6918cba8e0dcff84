//! One accumulator per group: the inner loops of aggregates with keys.
//!
//! A row's group says which accumulator it meets. Where there are few groups, neighbouring rows meet
//! the same one, and each addition would wait for the one before it to be stored. So then several copies
//! take turns, and are folded in a fixed order at the end: a float sum depends on values and groups
//! alone.
const std = @import("std");
const assert = std.debug.assert;

/// Up to this many groups have copies.
pub const few_max = 64;
const copies = 4;

/// totals[group] += value. Integers wrap: callers know that they do not.
pub fn add(comptime T: type, totals: []T, groups: []const u32, values: []const T) void {
    assert(groups.len == values.len);
    if (totals.len <= few_max) return add_few(T, totals, groups, values);
    for (groups, values) |group, value| totals[group] = sum(T, totals[group], value);
}

fn add_few(comptime T: type, totals: []T, groups: []const u32, values: []const T) void {
    var parts: [few_max * copies]T = undefined;
    @memset(parts[0 .. totals.len * copies], 0);
    const whole = groups.len - groups.len % copies;
    var i: usize = 0;
    while (i < whole) : (i += copies) {
        inline for (0..copies) |copy| {
            const part = &parts[@as(usize, groups[i + copy]) * copies + copy];
            part.* = sum(T, part.*, values[i + copy]);
        }
    }
    while (i < groups.len) : (i += 1) {
        const part = &parts[@as(usize, groups[i]) * copies];
        part.* = sum(T, part.*, values[i]);
    }
    for (totals, 0..) |*total, group| {
        const p = parts[group * copies ..][0..copies];
        total.* = sum(T, total.*, sum(T, sum(T, p[0], p[1]), sum(T, p[2], p[3])));
    }
}

inline fn sum(comptime T: type, a: T, b: T) T {
    return if (@typeInfo(T) == .float) a + b else a +% b;
}

/// totals[group] += value where the value is narrower than its total. Wraps, too.
pub fn add_wide(totals: []i128, groups: []const u32, values: []const i64) void {
    for (groups, values) |group, value| totals[group] +%= value;
}

/// The same for values as wide as their totals; false when a total has left its type.
pub fn add_checked(totals: []i128, groups: []const u32, values: []const i128) bool {
    var fits = true;
    for (groups, values) |group, value| {
        const total, const overflow = @addWithOverflow(totals[group], value);
        totals[group] = total;
        fits = fits and overflow == 0;
    }
    return fits;
}

/// counts[group] += 1.
pub fn count(counts: []i64, groups: []const u32) void {
    if (counts.len <= few_max) return count_few(counts, groups);
    for (groups) |group| counts[group] += 1;
}

fn count_few(counts: []i64, groups: []const u32) void {
    var parts: [few_max * copies]u32 = undefined;
    @memset(parts[0 .. counts.len * copies], 0);
    const whole = groups.len - groups.len % copies;
    var i: usize = 0;
    while (i < whole) : (i += copies) {
        inline for (0..copies) |copy| parts[@as(usize, groups[i + copy]) * copies + copy] += 1;
    }
    while (i < groups.len) : (i += 1) parts[@as(usize, groups[i]) * copies] += 1;
    for (counts, 0..) |*total, group| {
        for (parts[group * copies ..][0..copies]) |part| total.* += part;
    }
}

pub const Which = enum { min, max };

/// best[group] becomes the value where that is less (or greater). NaN is greater than everything.
pub fn extreme(comptime T: type, comptime which: Which, best: []T, groups: []const u32, values: []const T) void {
    assert(groups.len == values.len);
    for (groups, values) |group, value| {
        if (is_better(T, which, value, best[group])) best[group] = value;
    }
}

inline fn is_better(comptime T: type, comptime which: Which, value: T, present: T) bool {
    if (@typeInfo(T) != .float) return if (which == .min) value < present else value > present;
    // Each is false when both are NaN.
    return switch (which) {
        .min => value < present or (present != present and value == value),
        .max => value > present or (value != value and present == present),
    };
}

/// A bound of all values: each v is within -bound - 1 … bound. Less than twice the least such bound.
pub fn magnitude(values: []const i64) u64 {
    const V = @Vector(2, i64);
    var bits: [4]V = @splat(@splat(0));
    const whole = values.len - values.len % 8;
    var i: usize = 0;
    while (i < whole) : (i += 8) {
        inline for (&bits, 0..) |*all, k| {
            const v: V = values[i + 2 * k ..][0..2].*;
            all.* |= v ^ (v >> @splat(63));
        }
    }
    const together = bits[0] | bits[1] | bits[2] | bits[3];
    var result: u64 = @bitCast(together[0] | together[1]);
    while (i < values.len) : (i += 1) result |= @as(u64, @bitCast(values[i] ^ (values[i] >> 63)));
    return result;
}

test "few groups and many give the same sums, counts and extremes" {
    var prng: std.Random.DefaultPrng = .init(31);
    const random = prng.random();
    for ([_]u32{ 1, 3, few_max, few_max + 1, 300 }) |group_count| {
        for ([_]usize{ 0, 1, 3, 4, 5, 1000 }) |row_count| {
            var groups: [1000]u32 = undefined;
            var values: [1000]i64 = undefined;
            for (groups[0..row_count], values[0..row_count]) |*group, *value| {
                group.* = random.uintLessThan(u32, group_count);
                value.* = random.intRangeAtMost(i64, -1000, 1000);
            }
            var expected: [300]i64 = @splat(0);
            var expected_counts: [300]i64 = @splat(0);
            var expected_least: [300]i64 = @splat(std.math.maxInt(i64));
            for (groups[0..row_count], values[0..row_count]) |group, value| {
                expected[group] += value;
                expected_counts[group] += 1;
                expected_least[group] = @min(expected_least[group], value);
            }
            var totals: [300]i64 = @splat(0);
            add(i64, totals[0..group_count], groups[0..row_count], values[0..row_count]);
            try std.testing.expectEqualSlices(i64, &expected, &totals);
            var counts: [300]i64 = @splat(0);
            count(counts[0..group_count], groups[0..row_count]);
            try std.testing.expectEqualSlices(i64, &expected_counts, &counts);
            var least: [300]i64 = @splat(std.math.maxInt(i64));
            extreme(i64, .min, least[0..group_count], groups[0..row_count], values[0..row_count]);
            try std.testing.expectEqualSlices(i64, &expected_least, &least);
        }
    }
}

test "NaN is the greatest" {
    const nan = std.math.nan(f64);
    var least: [2]f64 = @splat(nan);
    extreme(f64, .min, &least, &.{ 0, 0, 1, 0 }, &.{ nan, 5, nan, -1 });
    try std.testing.expectEqual(-1, least[0]);
    try std.testing.expect(std.math.isNan(least[1]));
    var greatest: [2]f64 = @splat(-std.math.inf(f64));
    extreme(f64, .max, &greatest, &.{ 0, 0, 1, 0 }, &.{ 1, nan, 7, 9 });
    try std.testing.expect(std.math.isNan(greatest[0]));
    try std.testing.expectEqual(7, greatest[1]);
}

test magnitude {
    try std.testing.expectEqual(0, magnitude(&.{}));
    try std.testing.expectEqual(0, magnitude(&.{ 0, -1 }));
    try std.testing.expectEqual(7, magnitude(&.{ 1, 2, 4, -8, 0, 0, 0, 0, 5 }));
    try std.testing.expectEqual(std.math.maxInt(i64), magnitude(&.{std.math.minInt(i64)}));
}
