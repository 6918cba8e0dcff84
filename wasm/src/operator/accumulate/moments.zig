//! Variances: count, mean and the sum of squared distances from it, for every group.
//!
//! Rows are taken in one by one (Welford), groups of rows are put together by Chan's rule. Both keep to
//! distances from the mean, so that a large mean does not swallow a small variance. Without keys a
//! chunk is summed up twice, once for its mean and once for its squares, and joined like a lane.
const std = @import("std");
const bitmap = @import("../../core/bitmap.zig");
const column_module = @import("../../core/column.zig");
const counts_module = @import("counts.zig");
const interrupt = @import("../../core/interrupt.zig");
const rows_module = @import("../../lookup/rows.zig");
const Arena = @import("../../core/arena.zig").Arena;
const Column = column_module.Column;
const List = counts_module.List;
const Rows = rows_module.Rows;

pub const Error = error{ OutOfMemory, OutOfRange };

pub const Moment = struct {
    count: i64 = 0,
    mean: f64 = 0,
    squares: f64 = 0,

    inline fn take(self: *Moment, value: f64) void {
        self.count += 1;
        const before = value - self.mean;
        self.mean += before / @as(f64, @floatFromInt(self.count));
        self.squares += before * (value - self.mean);
    }

    fn join(self: *Moment, other: Moment) Error!void {
        if (other.count == 0) return;
        if (self.count == 0) {
            self.* = other;
            return;
        }
        const count = std.math.add(i64, self.count, other.count) catch return lying();
        const total: f64 = @floatFromInt(count);
        const weight: f64 = @floatFromInt(other.count);
        const distance = other.mean - self.mean;
        self.squares += other.squares + distance * distance * @as(f64, @floatFromInt(self.count)) * weight / total;
        self.mean += distance * weight / total;
        self.count = count;
    }
};

fn lying() error{OutOfRange} {
    interrupt.describe("a count that no table has", .{});
    return error.OutOfRange;
}

pub const Kind = enum { stddev_samp, stddev_pop, var_samp, var_pop };

pub const Moments = struct {
    moments: List(Moment) = .empty,

    pub fn deinit(self: *Moments, gpa: std.mem.Allocator) void {
        self.moments.deinit(gpa);
    }

    pub fn memory_size(self: *const Moments) u64 {
        return self.moments.items.len * @sizeOf(Moment);
    }

    pub fn reset(self: *Moments) void {
        self.moments.clearRetainingCapacity();
    }

    pub fn grow_to(self: *Moments, gpa: std.mem.Allocator, count: usize) Error!void {
        try counts_module.grow(Moment, gpa, &self.moments, count, .{});
    }

    pub fn update(self: *Moments, arena: std.mem.Allocator, column: *const Column, all: *const Rows) Error!void {
        const rows = try all.valid(arena, column);
        const values = column.values(f64);
        if (rows.rows) |chosen| {
            for (rows.groups, chosen) |group, row| self.moments.items[group].take(values[row]);
        } else {
            for (rows.groups, values) |group, value| self.moments.items[group].take(value);
        }
    }

    /// One group, whose rows are given.
    pub fn update_all(self: *Moments, arena: std.mem.Allocator, column: *const Column, rows: *const Rows) Error!void {
        const values = try rows_module.floats(arena, column, &try rows.valid(arena, column), 0);
        if (values.len == 0) return;
        const count: f64 = @floatFromInt(values.len);
        const mean = sum(values, 0, .plain) / count;
        if (!std.math.isFinite(mean)) {
            // Either some value is not finite, or only their sum is not.
            for (values) |value| self.moments.items[0].take(value);
            return;
        }
        try self.moments.items[0].join(
            .{ .count = @intCast(values.len), .mean = mean, .squares = sum(values, mean, .squared) },
        );
    }

    /// What other lanes have found: their counts, means and squares.
    pub fn merge(self: *Moments, columns: [3]*const Column, rows: *const Rows) Error!void {
        const counts = columns[0].values(i64);
        const means = columns[1].values(f64);
        const squares = columns[2].values(f64);
        for (rows.groups, 0..) |group, i| {
            const row = if (rows.rows) |chosen| chosen[i] else i;
            // A state is a lane's word for it; what came as NULL says nothing.
            if (!(columns[0].is_valid(row) and columns[1].is_valid(row) and columns[2].is_valid(row))) continue;
            if (counts[row] < 0) return lying();
            try self.moments.items[group].join(.{ .count = counts[row], .mean = means[row], .squares = squares[row] });
        }
    }

    pub fn states(self: *const Moments, arena: std.mem.Allocator) Error![3]Column {
        const total = self.moments.items.len;
        const counts = try arena.alignedAlloc(i64, .fromByteUnits(column_module.alignment), total);
        const means = try arena.alignedAlloc(f64, .fromByteUnits(column_module.alignment), total);
        const squares = try arena.alignedAlloc(f64, .fromByteUnits(column_module.alignment), total);
        for (self.moments.items, counts, means, squares) |moment, *count, *mean, *square| {
            count.* = moment.count;
            mean.* = moment.mean;
            square.* = moment.squares;
        }
        return .{
            .{ .type = .of(.i64), .row_count = @intCast(total), .data = std.mem.sliceAsBytes(counts) },
            .{ .type = .of(.f64), .row_count = @intCast(total), .data = std.mem.sliceAsBytes(means) },
            .{ .type = .of(.f64), .row_count = @intCast(total), .data = std.mem.sliceAsBytes(squares) },
        };
    }

    /// NULL where there are too few values: none, or one for a sample.
    pub fn results(self: *const Moments, arena: std.mem.Allocator, kind: Kind) Error!Column {
        const total = self.moments.items.len;
        const values = try arena.alignedAlloc(f64, .fromByteUnits(column_module.alignment), total);
        const bits = try arena.alloc(u8, bitmap.size(total));
        @memset(bits, 0);
        const spared: i64 = if (kind == .stddev_samp or kind == .var_samp) 1 else 0;
        for (self.moments.items, values, 0..) |moment, *value, group| {
            value.* = 0;
            if (moment.count <= spared) continue;
            bitmap.set(bits.ptr, group);
            const variance = moment.squares / @as(f64, @floatFromInt(moment.count - spared));
            value.* = if (kind == .stddev_samp or kind == .stddev_pop) @sqrt(variance) else variance;
        }
        const validity = if (bitmap.all_set(bits, total)) null else bits;
        return .{
            .type = .of(.f64),
            .row_count = @intCast(total),
            .validity = validity,
            .data = std.mem.sliceAsBytes(values),
        };
    }
};

/// Of the values, or of their squared distances from `mean`, in four lanes that are folded in order.
fn sum(values: []const f64, mean: f64, comptime what: enum { plain, squared }) f64 {
    const V = @Vector(2, f64);
    var totals: [4]V = @splat(@splat(0));
    const whole = values.len - values.len % 8;
    var i: usize = 0;
    while (i < whole) : (i += 8) {
        inline for (&totals, 0..) |*total, k| {
            const v: V = values[i + 2 * k ..][0..2].*;
            const distance = v - @as(V, @splat(mean));
            total.* += if (what == .plain) v else distance * distance;
        }
    }
    const together = (totals[0] + totals[1]) + (totals[2] + totals[3]);
    var result = together[0] + together[1];
    while (i < values.len) : (i += 1) {
        const distance = values[i] - mean;
        result += if (what == .plain) values[i] else distance * distance;
    }
    return result;
}

test "rows one by one, as a chunk and in lanes" {
    const gpa = std.testing.allocator;
    var arena: Arena = .init(gpa);
    defer arena.deinit();
    var prng: std.Random.DefaultPrng = .init(32);
    var data: [1000]f64 align(16) = undefined;
    for (&data) |*value| value.* = 1e9 + prng.random().float(f64);
    const column: Column = .{ .type = .of(.f64), .row_count = data.len, .data = std.mem.sliceAsBytes(&data) };
    const groups: [1000]u32 = @splat(0);
    const rows: Rows = .{ .rows = null, .groups = &groups, .group_count = 1 };
    var one: Moments = .{};
    defer one.deinit(gpa);
    var chunk: Moments = .{};
    defer chunk.deinit(gpa);
    var lanes: Moments = .{};
    defer lanes.deinit(gpa);
    for ([_]*Moments{ &one, &chunk, &lanes }) |moments| try moments.grow_to(gpa, 1);
    try one.update(arena.allocator(), &column, &rows);
    try chunk.update_all(arena.allocator(), &column, &rows);
    const states = try one.states(arena.allocator());
    for (0..2) |_| {
        try lanes.merge(.{ &states[0], &states[1], &states[2] }, &.{ .rows = null, .groups = &.{0}, .group_count = 1 });
    }
    const a = (try one.results(arena.allocator(), .var_pop)).values(f64)[0];
    const b = (try chunk.results(arena.allocator(), .var_pop)).values(f64)[0];
    const c = (try lanes.results(arena.allocator(), .var_pop)).values(f64)[0];
    try std.testing.expectApproxEqRel(1.0 / 12.0, a, 0.1);
    try std.testing.expectApproxEqRel(a, b, 1e-6);
    try std.testing.expectApproxEqRel(a, c, 1e-6);
    try std.testing.expectEqual(2000, lanes.moments.items[0].count);
}

test "too few values have no variance" {
    const gpa = std.testing.allocator;
    var arena: Arena = .init(gpa);
    defer arena.deinit();
    var moments: Moments = .{};
    defer moments.deinit(gpa);
    try moments.grow_to(gpa, 2);
    const data: [1]f64 align(16) = .{5};
    const column: Column = .{ .type = .of(.f64), .row_count = 1, .data = std.mem.sliceAsBytes(&data) };
    try moments.update(arena.allocator(), &column, &.{ .rows = null, .groups = &.{1}, .group_count = 2 });
    const sample = try moments.results(arena.allocator(), .stddev_samp);
    try std.testing.expectEqual(0, sample.validity.?[0] & 3);
    const whole = try moments.results(arena.allocator(), .stddev_pop);
    try std.testing.expectEqual(2, whole.validity.?[0] & 3);
    try std.testing.expectEqual(0, whole.values(f64)[1]);
}
