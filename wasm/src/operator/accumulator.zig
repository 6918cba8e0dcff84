//! What is kept for every group, which of it a call needs, and how its answer or its states come of it.
//!
//! Calls are put together from few kinds of accumulators, each in its own file under accumulate/. A
//! call over a value that may be NULL counts NULLs beside it: a group whose values are all NULL has no sum.
const std = @import("std");
const abi = @import("../abi.zig");
const aggregate_step = @import("aggregate_step.zig");
const bitmap = @import("../core/bitmap.zig");
const cast = @import("../kernel/cast.zig");
const column_module = @import("../core/column.zig");
const counts_module = @import("accumulate/counts.zig");
const expression_module = @import("../plan/expression.zig");
const interrupt = @import("../core/interrupt.zig");
const moments_module = @import("accumulate/moments.zig");
const picks_module = @import("accumulate/picks.zig");
const quantiles = @import("accumulate/quantiles.zig");
const rows_module = @import("../lookup/rows.zig");
const schema = @import("../core/schema.zig");
const sums_module = @import("accumulate/sums.zig");
const Call = aggregate_step.AggregateCall;
const Chunk = expression_module.Chunk;
const Collected = @import("accumulate/collected.zig").Collected;
const Column = column_module.Column;
const Counts = counts_module.Counts;
const Extremes = @import("accumulate/extremes.zig").Extremes;
const Moments = moments_module.Moments;
const Nulls = counts_module.Nulls;
const Picks = picks_module.Picks;
const Rows = rows_module.Rows;
const Seen = counts_module.Seen;

pub const Error = error{ Cancelled, OutOfMemory, OutOfRange, NotSupported, TooLarge };

pub const Kind = enum { nulls, integers, floats, counts, moments, min, max, first, last, any, collected };

/// What a call keeps, in the order `finish_call` wants it.
pub fn kinds_of(call: *const Call, node: *const aggregate_step.Aggregate, buffer: *[2]Kind) []const Kind {
    const is_final = node.phase == .final;
    const wanted: []const Kind = switch (call.op) {
        .count_rows => if (is_final) &.{.counts} else &.{},
        .count => if (is_final) &.{.counts} else &.{.nulls},
        .sum => if (call.states[0].tag == .f64) &.{ .nulls, .floats } else &.{ .nulls, .integers },
        .avg => if (call.states[0].tag == .f64)
            &.{ if (is_final) .counts else .nulls, .floats }
        else
            &.{ if (is_final) .counts else .nulls, .integers },
        .stddev_samp, .stddev_pop, .var_samp, .var_pop => &.{.moments},
        .min, .bool_and => &.{ .nulls, .min },
        .max, .bool_or => &.{ .nulls, .max },
        .first => &.{.first},
        .last => &.{.last},
        .any_value => &.{.any},
        .median, .percentile_cont, .percentile_disc, .string_agg => &.{.collected},
    };
    @memcpy(buffer[0..wanted.len], wanted);
    return buffer[0..wanted.len];
}

/// Whether a call asks how many rows its groups have.
pub fn counts_rows(call: *const Call, phase: abi.AggregatePhase) bool {
    return switch (call.op) {
        .count_rows, .count => phase != .final,
        .sum, .avg, .min, .max, .bool_and, .bool_or => true,
        else => false,
    };
}

/// The arguments that feed an accumulator of a call. An average's count is its second state.
pub fn arguments_of(call: *const Call, kind: Kind, phase: abi.AggregatePhase) []const u32 {
    if (phase == .final and call.op == .avg) return if (kind == .counts) call.arguments[1..2] else call.arguments[0..1];
    return call.arguments;
}

pub const Accumulator = union(Kind) {
    nulls: Nulls,
    integers: sums_module.IntegerSums,
    floats: sums_module.FloatSums,
    /// Sums of counts that other lanes have sent.
    counts: sums_module.IntegerSums,
    moments: Moments,
    min: Extremes,
    max: Extremes,
    first: Picks,
    last: Picks,
    any: Picks,
    collected: Collected,

    pub fn init(gpa: std.mem.Allocator, kind: Kind, data_type: schema.DataType) Error!Accumulator {
        return switch (kind) {
            .nulls => .{ .nulls = .{} },
            .integers => .{ .integers = .{} },
            .floats => .{ .floats = .{} },
            .counts => .{ .counts = .{} },
            .moments => .{ .moments = .{} },
            .min => .{ .min = .init(gpa, .min, data_type) },
            .max => .{ .max = .init(gpa, .max, data_type) },
            .first => .{ .first = try .init(gpa, .first, data_type) },
            .last => .{ .last = try .init(gpa, .last, data_type) },
            .any => .{ .any = try .init(gpa, .any, data_type) },
            .collected => .{ .collected = try .init(gpa, data_type) },
        };
    }

    pub fn deinit(self: *Accumulator, gpa: std.mem.Allocator) void {
        switch (self.*) {
            inline else => |*one| one.deinit(gpa),
        }
    }

    pub fn memory_size(self: *const Accumulator) u64 {
        switch (self.*) {
            inline else => |*one| return one.memory_size(),
        }
    }

    pub fn reset(self: *Accumulator) Error!void {
        switch (self.*) {
            .first, .last, .any => |*picks| try picks.reset(),
            inline else => |*one| one.reset(),
        }
    }

    pub fn grow_to(self: *Accumulator, gpa: std.mem.Allocator, count: usize) Error!void {
        switch (self.*) {
            .nulls => {}, // grow with the first NULL
            .collected => |*collected| collected.grow_to(count),
            inline else => |*one| try one.grow_to(gpa, count),
        }
    }

    /// Rows with their groups.
    pub fn update(self: *Accumulator, gpa: std.mem.Allocator, arena: std.mem.Allocator, columns: []const Column, rows: *const Rows) Error!void {
        const column = &columns[0];
        switch (self.*) {
            .nulls => |*nulls| try nulls.update(gpa, column, rows),
            .integers => |*sums| try sums.update(gpa, arena, column, rows),
            .floats => |*sums| try sums.update(arena, column, rows),
            .counts => |*sums| {
                try check_counts(column, rows);
                try sums.update(gpa, arena, column, rows);
            },
            .moments => |*moments| if (columns.len == 3)
                try moments.merge(.{ &columns[0], &columns[1], &columns[2] }, rows)
            else
                try moments.update(arena, column, rows),
            .min, .max => |*extremes| try extremes.update(arena, column, rows),
            .first, .last => |*picks| {
                // States of lanes that had no row say nothing.
                const present = if (columns.len == 2) try rows.part(arena, columns[1].data, columns[1].validity) else rows.*;
                try picks.update(arena, column, &present);
            },
            .any => |*picks| try picks.update(arena, column, &try rows.valid(arena, column)),
            .collected => |*collected| try collected.update(gpa, column, &try rows.valid(arena, column)),
        }
    }

    /// The selected rows of a chunk, when there is one group.
    pub fn update_all(self: *Accumulator, gpa: std.mem.Allocator, arena: std.mem.Allocator, columns: []const Column, chunk: *const Chunk) Error!void {
        const column = &columns[0];
        switch (self.*) {
            .nulls, .integers, .floats, .min, .max => {},
            .moments => |*moments| if (columns.len == 1) return moments.update_all(arena, column, &try rows_of(arena, chunk)) else return self.update(gpa, arena, columns, &try rows_of(arena, chunk)),
            else => return self.update(gpa, arena, columns, &try rows_of(arena, chunk)),
        }
        const selected = chunk.selected_count();
        const mask = try combined_mask(arena, column, chunk);
        const valid = if (column.type.tag == .null) 0 else if (mask) |bits| bitmap.count(bits, chunk.row_count) else chunk.row_count;
        if (self.* == .nulls) return self.nulls.update_all(gpa, selected - valid);
        if (valid == 0) return;
        switch (self.*) {
            .integers => |*sums| try sums.update_all(gpa, column, mask),
            .floats => |*sums| sums.update_all(column, mask),
            .min, .max => |*extremes| try extremes.update_all(column, mask),
            else => unreachable,
        }
    }
};

fn rows_of(arena: std.mem.Allocator, chunk: *const Chunk) error{OutOfMemory}!Rows {
    const zeros = try arena.alloc(u32, chunk.selected_count());
    @memset(zeros, 0);
    const rows = if (chunk.selection == null) null else try chunk.selected_rows(arena);
    return .{ .rows = rows, .groups = zeros, .group_count = 1 };
}

/// Rows that count: valid and selected. null = all of them.
fn combined_mask(arena: std.mem.Allocator, column: *const Column, chunk: *const Chunk) Error!?[]const u8 {
    const selection = chunk.selection orelse return column.validity;
    const validity = column.validity orelse return selection.bits;
    const bits = try arena.alloc(u8, bitmap.size(chunk.row_count));
    bitmap.combine(.@"and", bits, selection.bits, validity);
    return bits;
}

/// States come from outside, so a count may lie.
fn check_counts(column: *const Column, rows: *const Rows) Error!void {
    const counts = column.values(i64);
    for (0..rows.count()) |i| {
        const row = if (rows.rows) |chosen| chosen[i] else i;
        if (counts[row] < 0 and column.is_valid(row)) return impossible_count();
    }
}

fn impossible_count() error{OutOfRange} {
    interrupt.describe("a count that no table has", .{});
    return error.OutOfRange;
}

// ---- answers ----

/// Adds a call's columns: its value, or its states.
pub fn finish_call(
    arena: std.mem.Allocator,
    columns: *std.ArrayList(Column),
    call: *const Call,
    phase: abi.AggregatePhase,
    rows: *const Counts,
    parts: []const *const Accumulator,
) Error!void {
    const seen: Seen = .{ .rows = rows, .nulls = if (parts.len > 0 and parts[0].* == .nulls) &parts[0].nulls else null };
    const is_partial = phase == .partial;
    switch (call.op) {
        .count_rows, .count => try columns.append(arena, if (phase == .final) try counts_column(arena, parts[0]) else try seen.column(arena)),
        .sum => try columns.append(arena, try sums_column(arena, call, phase, parts[1], seen)),
        .avg => if (is_partial) {
            try columns.append(arena, try sums_column(arena, call, phase, parts[1], seen));
            try columns.append(arena, try seen.column(arena));
        } else {
            const counts = if (phase == .final) try counts_column(arena, parts[0]) else try seen.column(arena);
            try columns.append(arena, try averages_column(arena, call, parts[1], counts.values(i64)));
        },
        .stddev_samp, .stddev_pop, .var_samp, .var_pop => if (is_partial) {
            try columns.appendSlice(arena, &try parts[0].moments.states(arena));
        } else {
            const kind: moments_module.Kind = switch (call.op) {
                .stddev_samp => .stddev_samp,
                .stddev_pop => .stddev_pop,
                .var_samp => .var_samp,
                else => .var_pop,
            };
            try columns.append(arena, try parts[0].moments.results(arena, kind));
        },
        .min, .max, .bool_and, .bool_or => switch (parts[1].*) {
            .min, .max => |*extremes| try columns.append(arena, try extremes.results(arena, try seen.bits(arena))),
            else => unreachable,
        },
        .first, .last, .any_value => switch (parts[0].*) {
            .first, .last, .any => |*picks| {
                try columns.append(arena, try picks.results(arena));
                if (is_partial and call.op != .any_value) try columns.append(arena, try picks.present(arena));
            },
            else => unreachable,
        },
        .median, .percentile_cont, .percentile_disc => {
            const collected = &parts[0].collected;
            const is_continuous = call.op != .percentile_disc and aggregate_step.has_between(call.type);
            const order = try collected.order(arena);
            try columns.append(arena, try quantiles.results(arena, collected, order, if (is_continuous) .continuous else .discrete, call.fraction));
        },
        .string_agg => try columns.append(arena, try parts[0].collected.joined(arena, call.separator)),
    }
}

fn counts_column(arena: std.mem.Allocator, part: *const Accumulator) Error!Column {
    const totals = try part.counts.totals(arena);
    const values = try arena.alignedAlloc(i64, .fromByteUnits(column_module.alignment), totals.len);
    for (values, totals) |*value, total| value.* = std.math.cast(i64, total) orelse return impossible_count();
    return .{ .type = .of(.i64), .row_count = @intCast(values.len), .data = std.mem.sliceAsBytes(values) };
}

fn sums_column(arena: std.mem.Allocator, call: *const Call, phase: abi.AggregatePhase, part: *const Accumulator, seen: Seen) Error!Column {
    const validity = try seen.bits(arena);
    var column: Column = .{ .type = call.states[0], .row_count = @intCast(seen.group_count()), .validity = validity };
    switch (part.*) {
        .floats => |*sums| column.data = std.mem.sliceAsBytes(sums.totals.items),
        .integers => |*sums| {
            const totals = try sums.totals(arena);
            // A partial sum may go beyond; another lane may bring it back.
            if (column.type.tag == .decimal and phase != .partial) try expression_module.check_precision(i128, totals, null, column.type.precision);
            column.data = std.mem.sliceAsBytes(totals);
        },
        else => unreachable,
    }
    return column;
}

fn averages_column(arena: std.mem.Allocator, call: *const Call, part: *const Accumulator, counts: []const i64) Error!Column {
    const values = try arena.alignedAlloc(f64, .fromByteUnits(column_module.alignment), counts.len);
    const bits = try arena.alloc(u8, bitmap.size(counts.len));
    @memset(bits, 0);
    switch (part.*) {
        .floats => |*sums| for (values, sums.totals.items) |*value, total| {
            value.* = total;
        },
        .integers => |*sums| for (values, try sums.totals(arena)) |*value, total| {
            value.* = if (call.states[0].tag == .decimal) cast.decimal_to_float_one(total, call.states[0].scale) else @floatFromInt(total);
        },
        else => unreachable,
    }
    for (values, counts, 0..) |*value, count, group| {
        if (count == 0) continue;
        bitmap.set(bits.ptr, group);
        value.* /= @floatFromInt(count);
    }
    const validity = if (bitmap.all_set(bits, counts.len)) null else bits;
    return .{ .type = .of(.f64), .row_count = @intCast(values.len), .validity = validity, .data = std.mem.sliceAsBytes(values) };
}
