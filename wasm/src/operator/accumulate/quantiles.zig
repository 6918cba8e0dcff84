//! Medians and percentiles of collected values, as DuckDB defines them.
//!
//! A discrete percentile is the value at place ⌈fraction · n⌉ of n in order. A continuous one lies between
//! the values around place fraction · (n - 1), counted from 0, and is computed in float64: floats keep
//! what comes out, decimals of up to 18 digits are cut off toward zero, longer ones down, times and
//! timestamps are rounded. DuckDB's compiler fuses multiplication and addition there, so we do.
//!
//! Nothing is sorted: a partition around a pivot goes on in the part that has the place (Hoare's
//! selection). Floats are compared as integers of the same order, in which NaN is the greatest.
const std = @import("std");
const aggregate_step = @import("../aggregate_step.zig");
const bitmap = @import("../../core/bitmap.zig");
const collected_module = @import("collected.zig");
const column_module = @import("../../core/column.zig");
const interrupt = @import("../../core/interrupt.zig");
const interval_module = @import("../../core/interval.zig");
const rows_module = @import("../../lookup/rows.zig");
const schema = @import("../../core/schema.zig");
const Arena = @import("../../core/arena.zig").Arena;
const Collected = collected_module.Collected;
const Column = column_module.Column;
const ColumnBuilder = @import("../../core/column_builder.zig").ColumnBuilder;
const Fraction = aggregate_step.Fraction;
const Interval = interval_module.Interval;
const Scalar = schema.Scalar;
const Span = interval_module.Span;
const multiply_add = @import("../../kernel/fused.zig").multiply_add;
const assert = std.debug.assert;

pub const Error = error{ Cancelled, OutOfMemory, TooLarge };

pub const Kind = enum { continuous, discrete };

/// One value a group; NULL where there is none.
pub fn results(
    arena: std.mem.Allocator,
    collected: *const Collected,
    order: Collected.Order,
    kind: Kind,
    fraction: Fraction,
) Error!Column {
    const values = try collected.values.finish(arena);
    const count = collected.group_count;
    const bits = try arena.alloc(u8, bitmap.size(count));
    @memset(bits, 0);
    for (order.starts[0..count], order.starts[1..], 0..) |start, end, group|
        if (end > start) bitmap.set(bits.ptr, group);
    const validity: ?[]const u8 = if (bitmap.all_set(bits, count)) null else bits;
    switch (values.type.layout()) {
        .bytes, .fixed => return pick_rows(arena, &values, order, fraction, validity),
        .i128 => {
            const found = try select_all(
                i128,
                arena,
                try gather(i128, arena, &values, order.rows),
                order,
                kind,
                fraction,
                values.type,
            );
            return .{
                .type = values.type,
                .row_count = count,
                .validity = validity,
                .data = std.mem.sliceAsBytes(found),
            };
        },
        .f16, .f32, .f64 => {
            const found = try select_all(
                i64,
                arena,
                try gather(i64, arena, &values, order.rows),
                order,
                kind,
                fraction,
                values.type,
            );
            const floats = try arena.alignedAlloc(f64, .fromByteUnits(column_module.alignment), count);
            for (floats, found) |*to, key| to.* = float_of(key);
            return rows_module.from_floats(arena, values.type, floats, validity);
        },
        .none, .list, .structure => unreachable, // aggregate_step.zig refuses them
        else => {
            const found = try select_all(
                i64,
                arena,
                try gather(i64, arena, &values, order.rows),
                order,
                kind,
                fraction,
                values.type,
            );
            if (values.type.layout() == .u64) for (found) |*value| {
                value.* ^= std.math.minInt(i64);
            };
            return rows_module.from_integers(arena, values.type, found, validity);
        },
    }
}

/// Values by row as integers that order as they do.
fn gather(comptime T: type, arena: std.mem.Allocator, values: *const Column, rows: []const u32) Error![]T {
    const target = try arena.alloc(T, rows.len);
    switch (values.type.layout()) {
        .bits => for (target, rows) |*to, row| {
            to.* = @intFromBool(bitmap.get(values.data.ptr, row));
        },
        inline .i8, .i16, .i32, .i64, .u8, .u16, .u32, .u64, .i128, .f16, .f32, .f64 => |layout| {
            const from = values.values(Scalar(layout));
            for (target, rows) |*to, row| to.* = key_of(Scalar(layout), T, from[row]);
        },
        else => unreachable,
    }
    return target;
}

inline fn key_of(comptime From: type, comptime T: type, value: From) T {
    return switch (From) {
        f16, f32, f64 => if (T == i64) float_key(value) else unreachable,
        i128 => if (T == i128) value else unreachable,
        u64 => @as(i64, @bitCast(value)) ^ std.math.minInt(i64),
        else => value,
    };
}

/// Negative floats have their magnitude turned, and every NaN is the one above infinity.
inline fn float_key(value: f64) i64 {
    const bits: i64 = @bitCast(if (value != value) std.math.nan(f64) else value);
    return bits ^ ((bits >> 63) & std.math.maxInt(i64));
}

inline fn float_of(key: i64) f64 {
    return @bitCast(key ^ ((key >> 63) & std.math.maxInt(i64)));
}

fn select_all(
    comptime T: type,
    arena: std.mem.Allocator,
    keys: []T,
    order: Collected.Order,
    kind: Kind,
    fraction: Fraction,
    data_type: schema.DataType,
) Error![]align(column_module.alignment) T {
    const found = try arena.alignedAlloc(T, .fromByteUnits(column_module.alignment), order.starts.len - 1);
    for (found, order.starts[0..found.len], order.starts[1..], 0..) |*value, start, end, group| {
        if (group % 1024 == 0) try interrupt.check();
        value.* = 0;
        if (start == end) continue;
        const part = keys[start..end];
        const place = place_of(kind, fraction, part.len);
        try select(T, part, place.low, Less(T){});
        value.* = part[place.low];
        if (place.high == place.low) continue;
        // Everything behind the place is at least as great, so the next value is the least of that.
        var next = part[place.low + 1];
        for (part[place.low + 2 ..]) |other| next = @min(next, other);
        value.* = if (fraction.descending)
            between(T, data_type, next, part[place.low], place.weight)
        else
            between(T, data_type, part[place.low], next, place.weight);
    }
    return found;
}

/// Which place has the answer, in ascending order; between `low` and its neighbour where they differ.
const Place = struct { low: usize, high: usize, weight: f64 = 0 };

fn place_of(kind: Kind, fraction: Fraction, count: usize) Place {
    var place: Place = undefined;
    if (kind == .discrete) {
        const index = discrete_place(fraction, count);
        place = .{ .low = index, .high = index };
    } else {
        const exact = @as(f64, @floatFromInt(count - 1)) * fraction.float;
        const low: usize = @min(@as(usize, @intFromFloat(@floor(exact))), count - 1);
        const high: usize = @min(@as(usize, @intFromFloat(@ceil(exact))), count - 1);
        place = .{ .low = low, .high = high, .weight = exact - @floor(exact) };
    }
    if (!fraction.descending) return place;
    return .{ .low = count - 1 - place.high, .high = count - 1 - place.low, .weight = place.weight };
}

fn discrete_place(fraction: Fraction, count: usize) usize {
    const before: usize = if (fraction.divisor != 0) blk: {
        const total = @as(u128, count) * @as(u64, @intCast(fraction.divisor));
        break :blk @intCast(
            (total - @as(u128, count) * @as(u64, @intCast(fraction.dividend))) / @as(u64, @intCast(fraction.divisor)),
        );
    } else blk: {
        const total: f64 = @floatFromInt(count);
        break :blk @intFromFloat(@floor(total - total * fraction.float));
    };
    return @max(1, count - before) - 1;
}

/// `first` has the weight 1 - weight.
fn between(comptime T: type, data_type: schema.DataType, first: T, second: T, weight: f64) T {
    switch (data_type.tag) {
        .f64 => return if (T == i64) float_key(mix(float_of(first), float_of(second), weight)) else unreachable,
        .f32 => if (T == i64) {
            const a = float_of(first);
            return float_key(@as(f32, @floatCast(multiply_add(float_of(second) - a, weight, a))));
        } else unreachable,
        .decimal => {
            const a: f64 = @floatFromInt(first);
            if (T == i128) return within(T, @floor(mix(a, @floatFromInt(second), weight)), first, second);
            return within(T, @trunc(multiply_add(@floatFromInt(second -% first), weight, a)), first, second);
        },
        .time, .timestamp => return within(
            T,
            @round(mix(@floatFromInt(first), @floatFromInt(second), weight)),
            first,
            second,
        ),
        else => unreachable, // aggregate_step.zig refuses them
    }
}

inline fn mix(first: f64, second: f64, weight: f64) f64 {
    return multiply_add(first, 1 - weight, second * weight);
}

/// Rounding must not leave the two values, let alone the type.
fn within(comptime T: type, value: f64, first: T, second: T) T {
    const low = @min(first, second);
    const high = @max(first, second);
    if (!(value > @as(f64, @floatFromInt(low)))) return low;
    if (!(value < @as(f64, @floatFromInt(high)))) return high;
    return @intFromFloat(value);
}

/// Texts and values of fixed size: their rows are ordered instead.
fn pick_rows(
    arena: std.mem.Allocator,
    values: *const Column,
    order: Collected.Order,
    fraction: Fraction,
    validity: ?[]const u8,
) Error!Column {
    const rows = try arena.dupe(u32, order.rows);
    var padded: ColumnBuilder = try .init(arena, values.type);
    try padded.append_range(values, 0, values.row_count);
    try padded.append_nulls(1); // for groups without a value
    const chosen = try arena.alloc(u32, order.starts.len - 1);
    for (chosen, order.starts[0..chosen.len], order.starts[1..], 0..) |*row, start, end, group| {
        if (group % 1024 == 0) try interrupt.check();
        row.* = values.row_count;
        if (start == end) continue;
        const part = rows[start..end];
        const place = place_of(.discrete, fraction, part.len).low;
        try select(u32, part, place, LessRow{ .column = values });
        row.* = part[place];
    }
    var builder: ColumnBuilder = try .init(arena, values.type);
    try builder.append_indices(&try padded.finish(arena), chosen);
    var column = try builder.finish(arena);
    column.validity = validity;
    return column;
}

fn Less(comptime T: type) type {
    return struct {
        inline fn less(_: @This(), a: T, b: T) bool {
            return a < b;
        }
    };
}

const LessRow = struct {
    column: *const Column,

    fn less(self: LessRow, a: u32, b: u32) bool {
        if (self.column.type.layout() == .bytes)
            return std.mem.lessThan(u8, self.column.bytes_at(a), self.column.bytes_at(b));
        if (self.column.type.tag == .interval) {
            const spans = self.column.values(Interval);
            return Span.of(spans[a]).less(.of(spans[b]));
        }
        const size: usize = @intCast(self.column.type.value_size());
        return std.mem.lessThan(u8, self.column.data[a * size ..][0..size], self.column.data[b * size ..][0..size]);
    }
};

/// Brings the item of place `k` there, no greater ones before it and no smaller ones behind it.
fn select(comptime T: type, items: []T, k: usize, context: anytype) Error!void {
    assert(k < items.len);
    var low: usize = 0;
    var high: usize = items.len;
    // Twice what fair pivots would need; then the rest is sorted, which has no bad case.
    // The logarithm's own type has no room for twice of it.
    var rounds = 2 * @as(u32, std.math.log2_int(usize, items.len)) + 2;
    while (high - low > 16) : (rounds -= 1) {
        try interrupt.check();
        if (rounds == 0) return std.sort.heap(T, items[low..high], context, sort_less(T, @TypeOf(context)));
        const split = try partition(T, items[low..high], context);
        if (k <= low + split) high = low + split + 1 else low += split + 1;
    }
    std.sort.insertion(T, items[low..high], context, sort_less(T, @TypeOf(context)));
}

fn sort_less(comptime T: type, comptime Context: type) fn (Context, T, T) bool {
    return struct {
        fn less(context: Context, a: T, b: T) bool {
            return context.less(a, b);
        }
    }.less;
}

/// Items up to the returned place are no greater than those behind it; both sides have some.
fn partition(comptime T: type, items: []T, context: anytype) Error!usize {
    const last = items.len - 1;
    const middle = items.len / 2;
    if (context.less(items[middle], items[0])) std.mem.swap(T, &items[middle], &items[0]);
    if (context.less(items[last], items[middle])) std.mem.swap(T, &items[last], &items[middle]);
    if (context.less(items[middle], items[0])) std.mem.swap(T, &items[middle], &items[0]);
    const pivot = items[middle];
    var i: usize = 0;
    var j: usize = last;
    var swaps: usize = 1;
    while (true) : (swaps += 1) {
        if (swaps % interrupt.block_rows == 0) try interrupt.check();
        while (context.less(items[i], pivot)) i += 1;
        while (context.less(pivot, items[j])) j -= 1;
        if (i >= j) return if (j == last) j - 1 else j;
        std.mem.swap(T, &items[i], &items[j]);
        i += 1;
        j -= 1;
    }
}

test "select finds every place" {
    var prng: std.Random.DefaultPrng = .init(33);
    const random = prng.random();
    var items: [300]i64 = undefined;
    for (0..400) |round| {
        const count = 1 + random.uintLessThan(usize, items.len);
        const distinct: i64 = switch (round % 4) {
            0 => 1,
            1 => 3,
            else => 1 << 40,
        };
        for (items[0..count], 0..) |*item, i| item.* = switch (round % 5) {
            0 => @intCast(i),
            1 => @intCast(count - i),
            else => random.intRangeLessThan(i64, 0, distinct),
        };
        var sorted = items;
        std.sort.pdq(i64, sorted[0..count], {}, std.sort.asc(i64));
        const k = random.uintLessThan(usize, count);
        try select(i64, items[0..count], k, Less(i64){});
        try std.testing.expectEqual(sorted[k], items[k]);
        for (items[0..k]) |item| try std.testing.expect(item <= items[k]);
        for (items[k..count]) |item| try std.testing.expect(item >= items[k]);
    }
}

test "select has rounds enough for many items" {
    const count = 70_000;
    var prng: std.Random.DefaultPrng = .init(34);
    const items = try std.testing.allocator.alloc(i64, count);
    defer std.testing.allocator.free(items);
    for (items, 0..) |*item, i| item.* = @intCast(i);
    prng.random().shuffle(i64, items);
    try select(i64, items, count / 2, Less(i64){});
    try std.testing.expectEqual(count / 2, items[count / 2]);
}

test "places" {
    const tenth: Fraction = .{ .float = 0.07, .dividend = 7, .divisor = 100 };
    try std.testing.expectEqual(6, discrete_place(tenth, 100));
    try std.testing.expectEqual(1, discrete_place(.half, 4));
    try std.testing.expectEqual(2, discrete_place(.half, 5));
    try std.testing.expectEqual(0, discrete_place(.{ .float = 0 }, 5));
    try std.testing.expectEqual(4, discrete_place(.{ .float = 1 }, 5));
    try std.testing.expectEqual(Place{ .low = 1, .high = 2, .weight = 0.5 }, place_of(.continuous, .half, 4));
    try std.testing.expectEqual(2, place_of(.discrete, .{ .float = 0.3, .descending = true }, 4).low);
}

test "floats keep their order as integers" {
    const floats = [_]f64{ -std.math.inf(f64), -1.5, -0.0, 0.0, 1e-300, 2, std.math.inf(f64), std.math.nan(f64) };
    for (floats[0 .. floats.len - 1], floats[1..]) |a, b| try std.testing.expect(float_key(a) < float_key(b));
    for (floats[0 .. floats.len - 1]) |value| try std.testing.expectEqual(value, float_of(float_key(value)));
    try std.testing.expectEqual(float_key(std.math.nan(f64)), float_key(-std.math.nan(f64)));
}

test "medians of groups" {
    const gpa = std.testing.allocator;
    var arena: Arena = .init(gpa);
    defer arena.deinit();
    var collected: Collected = try .init(gpa, .of(.f64));
    defer collected.deinit(gpa);
    const data: [5]f64 align(16) = .{ 5, -1, 4, std.math.nan(f64), 1 };
    const column: Column = .{ .type = .of(.f64), .row_count = 5, .data = std.mem.sliceAsBytes(&data) };
    try collected.update(gpa, &column, &.{ .rows = null, .groups = &.{ 0, 2, 0, 2, 2 }, .group_count = 3 });
    collected.grow_to(3);
    const order = try collected.order(arena.allocator());
    const median = try results(arena.allocator(), &collected, order, .continuous, .half);
    try std.testing.expectEqual(0b101, median.validity.?[0]);
    try std.testing.expectEqual(4.5, median.values(f64)[0]);
    try std.testing.expectEqual(1, median.values(f64)[2]);
    const greatest = try results(arena.allocator(), &collected, order, .discrete, .{ .float = 1 });
    try std.testing.expect(std.math.isNan(greatest.values(f64)[2]));
}
