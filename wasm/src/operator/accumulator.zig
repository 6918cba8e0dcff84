//! What is kept for every group, which of it a call needs, and how its answer or its states come of it.
//!
//! Calls are put together from few kinds of accumulators, each in its own file under accumulate/; `rules` says
//! how, in a row for each aggregate. A call over a value that may be NULL counts NULLs beside it: a group whose
//! values are all NULL has no sum.
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

/// What aggregates are, one row each. querymode/expr/aggregate_rules.py has the same rows without what is only the
/// engine's; tests/abi compares the two.
pub const Rule = struct {
    /// Values that it is defined for. The planner casts to these (a variance is of float64).
    takes: Takes,
    gives: Gives,
    /// What a partial aggregate hands to its final twin, a column each.
    states: []const State,
    /// What stands beside its value.
    constant: Constant = .none,
    /// Partial answers can be put together. Where not, all rows of a group must come to one place.
    splits: bool = true,
    /// A value that comes twice counts twice. Where not, DISTINCT changes nothing.
    counts_repeats: bool = true,
    /// The order of rows shows in the answer.
    shows_order: bool = false,
    /// Whether it asks how many rows its groups have.
    counts_rows: enum { never, unless_final, always } = .never,
    /// What is kept for every group, in the order `answer` wants it; `keeps_final` where that differs.
    keeps: []const Kept,
    keeps_final: ?[]const Kept = null,
    /// Adds its columns: the value, or the states of a partial one.
    answer: *const fn (answering: *const Answering) Error!void,
};

pub const Takes = enum {
    nothing,
    anything,
    /// Numbers and bools.
    summable,
    numbers,
    float64,
    ordered,
    bools,
    text,
    /// What has values between any two: of those a percentile may be one.
    continuous,
    /// The same, and what has an order at all: the lower one of the middle, then.
    median,
};
pub const Gives = enum { count, total, float64, value };
pub const State = enum {
    /// int64
    count,
    /// int128, float64 or decimal(38, s)
    total,
    /// float64: the values' mean, and the sum of squared distances from it
    mean,
    squares,
    /// As the value; NULL while there is none.
    value,
    /// bool: whether there was a row, whose value may be NULL
    present,
};
pub const Constant = enum { none, separator, fraction };
/// A kind of accumulator; totals are integers or floats, as the state says.
const Kept = enum { nulls, totals, counts, moments, min, max, first, last, any, collected };

pub const rules: std.EnumArray(abi.AggregateOp, Rule) = .init(.{
    .count_rows = .{
        .takes = .nothing,
        .gives = .count,
        .states = &.{.count},
        .counts_rows = .unless_final,
        .keeps = &.{},
        .keeps_final = &.{.counts},
        .answer = answer_count,
    },
    .count = .{
        .takes = .anything,
        .gives = .count,
        .states = &.{.count},
        .counts_rows = .unless_final,
        .keeps = &.{.nulls},
        .keeps_final = &.{.counts},
        .answer = answer_count,
    },
    .sum = .{
        .takes = .summable,
        .gives = .total,
        .states = &.{.total},
        .counts_rows = .always,
        .keeps = &.{ .nulls, .totals },
        .answer = answer_sum,
    },
    .min = extreme(.ordered, .min),
    .max = extreme(.ordered, .max),
    .avg = .{
        .takes = .numbers,
        .gives = .float64,
        .states = &.{ .total, .count },
        .counts_rows = .always,
        .keeps = &.{ .nulls, .totals },
        .keeps_final = &.{ .counts, .totals },
        .answer = answer_average,
    },
    .stddev_samp = variance(.stddev_samp),
    .stddev_pop = variance(.stddev_pop),
    .var_samp = variance(.var_samp),
    .var_pop = variance(.var_pop),
    .median = percentile(.median, .none),
    .percentile_cont = percentile(.continuous, .fraction),
    .percentile_disc = percentile(.ordered, .fraction),
    .first = pick(.first, &.{ .value, .present }),
    .last = pick(.last, &.{ .value, .present }),
    .any_value = pick(.any, &.{.value}),
    .bool_and = extreme(.bools, .min),
    .bool_or = extreme(.bools, .max),
    .string_agg = .{
        .takes = .text,
        .gives = .value,
        .states = &.{.value},
        .constant = .separator,
        .shows_order = true,
        .keeps = &.{.collected},
        .answer = answer_joined,
    },
});

fn extreme(takes: Takes, comptime which: Kept) Rule {
    return .{
        .takes = takes,
        .gives = .value,
        .states = &.{.value},
        .counts_repeats = false,
        .counts_rows = .always,
        .keeps = &.{ .nulls, which },
        .answer = answer_extreme,
    };
}

fn variance(comptime kind: moments_module.Kind) Rule {
    const Of = struct {
        fn answer(answering: *const Answering) Error!void {
            return answer_variance(answering, kind);
        }
    };
    return .{
        .takes = .float64,
        .gives = .float64,
        .states = &.{ .count, .mean, .squares },
        .keeps = &.{.moments},
        .answer = Of.answer,
    };
}

fn percentile(takes: Takes, constant: Constant) Rule {
    return .{
        .takes = takes,
        .gives = .value,
        .states = &.{.value},
        .constant = constant,
        .splits = false,
        .keeps = &.{.collected},
        .answer = answer_percentile,
    };
}

fn pick(comptime which: Kept, states: []const State) Rule {
    return .{
        .takes = .anything,
        .gives = .value,
        .states = states,
        .counts_repeats = false,
        .shows_order = true,
        .keeps = &.{which},
        .answer = answer_pick,
    };
}

/// What a call keeps, in the order its answer wants it.
pub fn kinds_of(call: *const Call, phase: abi.AggregatePhase, buffer: *[2]Kind) []const Kind {
    const rule = rules.getPtrConst(call.op);
    const kept = if (phase == .final) rule.keeps_final orelse rule.keeps else rule.keeps;
    for (buffer[0..kept.len], kept) |*kind, one| kind.* = switch (one) {
        .totals => if (call.states[0].tag == .f64) .floats else .integers,
        inline else => |other| @field(Kind, @tagName(other)),
    };
    return buffer[0..kept.len];
}

/// Whether a call asks how many rows its groups have.
pub fn counts_rows(call: *const Call, phase: abi.AggregatePhase) bool {
    return switch (rules.getPtrConst(call.op).counts_rows) {
        .never => false,
        .unless_final => phase != .final,
        .always => true,
    };
}

/// The arguments that feed an accumulator of a call: of a final one, the states that it goes on with.
pub fn arguments_of(call: *const Call, kind: Kind, phase: abi.AggregatePhase) []const u32 {
    if (phase != .final) return call.arguments;
    const state: State = switch (kind) {
        .counts => .count,
        .integers, .floats => .total,
        else => return call.arguments,
    };
    const place = std.mem.findScalar(State, rules.getPtrConst(call.op).states, state).?;
    return call.arguments[place..][0..1];
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
    pub fn update(
        self: *Accumulator,
        gpa: std.mem.Allocator,
        arena: std.mem.Allocator,
        columns: []const Column,
        rows: *const Rows,
    ) Error!void {
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
                const present = if (columns.len == 2) try rows.part(
                    arena,
                    columns[1].data,
                    columns[1].validity,
                ) else rows.*;
                try picks.update(arena, column, &present);
            },
            .any => |*picks| try picks.update(arena, column, &try rows.valid(arena, column)),
            .collected => |*collected| try collected.update(gpa, column, &try rows.valid(arena, column)),
        }
    }

    /// The selected rows of a chunk, when there is one group.
    pub fn update_all(
        self: *Accumulator,
        gpa: std.mem.Allocator,
        arena: std.mem.Allocator,
        columns: []const Column,
        chunk: *const Chunk,
    ) Error!void {
        const column = &columns[0];
        switch (self.*) {
            .nulls, .integers, .floats, .min, .max => {},
            .moments => |*moments| if (columns.len == 1) return moments.update_all(
                arena,
                column,
                &try rows_of(arena, chunk),
            ) else return self.update(
                gpa,
                arena,
                columns,
                &try rows_of(arena, chunk),
            ),
            else => return self.update(gpa, arena, columns, &try rows_of(arena, chunk)),
        }
        const selected = chunk.selected_count();
        const mask = try combined_mask(arena, column, chunk);
        const counted = if (mask) |bits| bitmap.count(bits, chunk.row_count) else chunk.row_count;
        const valid = if (column.type.tag == .null) 0 else counted;
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

/// What a call's answer is made of, and where it goes.
pub const Answering = struct {
    arena: std.mem.Allocator,
    columns: *std.ArrayList(Column),
    call: *const Call,
    phase: abi.AggregatePhase,
    seen: Seen,
    parts: []const *const Accumulator,

    fn add(self: *const Answering, column: Column) Error!void {
        try self.columns.append(self.arena, column);
    }

    /// Values of every group: what other lanes have counted, or this one.
    fn counts(self: *const Answering) Error!Column {
        return if (self.phase == .final) counts_column(self.arena, self.parts[0]) else self.seen.column(self.arena);
    }

    fn totals(self: *const Answering) Error!Column {
        return sums_column(self.arena, self.call, self.phase, self.parts[1], self.seen);
    }
};

/// Adds a call's columns: its value, or its states.
pub fn finish_call(
    arena: std.mem.Allocator,
    columns: *std.ArrayList(Column),
    call: *const Call,
    phase: abi.AggregatePhase,
    rows: *const Counts,
    parts: []const *const Accumulator,
) Error!void {
    const nulls = if (parts.len > 0 and parts[0].* == .nulls) &parts[0].nulls else null;
    try rules.getPtrConst(call.op).answer(&.{
        .arena = arena,
        .columns = columns,
        .call = call,
        .phase = phase,
        .seen = .{ .rows = rows, .nulls = nulls },
        .parts = parts,
    });
}

fn answer_count(answering: *const Answering) Error!void {
    try answering.add(try answering.counts());
}

fn answer_sum(answering: *const Answering) Error!void {
    try answering.add(try answering.totals());
}

fn answer_average(answering: *const Answering) Error!void {
    if (answering.phase == .partial) {
        try answering.add(try answering.totals());
        return answering.add(try answering.counts());
    }
    const counts = try answering.counts();
    const averages = try averages_column(answering.arena, answering.call, answering.parts[1], counts.values(i64));
    try answering.add(averages);
}

fn answer_variance(answering: *const Answering, kind: moments_module.Kind) Error!void {
    const moments = &answering.parts[0].moments;
    if (answering.phase != .partial) return answering.add(try moments.results(answering.arena, kind));
    try answering.columns.appendSlice(answering.arena, &try moments.states(answering.arena));
}

fn answer_extreme(answering: *const Answering) Error!void {
    switch (answering.parts[1].*) {
        .min, .max => |*extremes| {
            const present = try answering.seen.bits(answering.arena);
            try answering.add(try extremes.results(answering.arena, present));
        },
        else => unreachable,
    }
}

fn answer_pick(answering: *const Answering) Error!void {
    switch (answering.parts[0].*) {
        .first, .last, .any => |*picks| {
            try answering.add(try picks.results(answering.arena));
            if (answering.phase != .partial or answering.call.states.len == 1) return;
            try answering.add(try picks.present(answering.arena));
        },
        else => unreachable,
    }
}

fn answer_percentile(answering: *const Answering) Error!void {
    const call = answering.call;
    const collected = &answering.parts[0].collected;
    const takes_any_order = rules.getPtrConst(call.op).takes == .ordered;
    const is_continuous = !takes_any_order and aggregate_step.has_between(call.type);
    const order = try collected.order(answering.arena);
    const kind: quantiles.Kind = if (is_continuous) .continuous else .discrete;
    try answering.add(try quantiles.results(answering.arena, collected, order, kind, call.fraction));
}

fn answer_joined(answering: *const Answering) Error!void {
    try answering.add(try answering.parts[0].collected.joined(answering.arena, answering.call.separator));
}

fn counts_column(arena: std.mem.Allocator, part: *const Accumulator) Error!Column {
    const totals = try part.counts.totals(arena);
    const values = try arena.alignedAlloc(i64, .fromByteUnits(column_module.alignment), totals.len);
    for (values, totals) |*value, total| value.* = std.math.cast(i64, total) orelse return impossible_count();
    return .{ .type = .of(.i64), .row_count = @intCast(values.len), .data = std.mem.sliceAsBytes(values) };
}

fn sums_column(
    arena: std.mem.Allocator,
    call: *const Call,
    phase: abi.AggregatePhase,
    part: *const Accumulator,
    seen: Seen,
) Error!Column {
    const validity = try seen.bits(arena);
    var column: Column = .{ .type = call.states[0], .row_count = @intCast(seen.group_count()), .validity = validity };
    switch (part.*) {
        .floats => |*sums| column.data = std.mem.sliceAsBytes(sums.totals.items),
        .integers => |*sums| {
            const totals = try sums.totals(arena);
            // A partial sum may go beyond; another lane may bring it back.
            if (column.type.tag == .decimal and phase != .partial) {
                try expression_module.check_precision(i128, totals, null, column.type.precision);
            }
            column.data = std.mem.sliceAsBytes(totals);
        },
        else => unreachable,
    }
    return column;
}

fn averages_column(
    arena: std.mem.Allocator,
    call: *const Call,
    part: *const Accumulator,
    counts: []const i64,
) Error!Column {
    const values = try arena.alignedAlloc(f64, .fromByteUnits(column_module.alignment), counts.len);
    const bits = try arena.alloc(u8, bitmap.size(counts.len));
    @memset(bits, 0);
    switch (part.*) {
        .floats => |*sums| for (values, sums.totals.items) |*value, total| {
            value.* = total;
        },
        .integers => |*sums| for (values, try sums.totals(arena)) |*value, total| {
            value.* = if (call.states[0].tag == .decimal)
                cast.decimal_to_float_one(total, call.states[0].scale)
            else
                @floatFromInt(total);
        },
        else => unreachable,
    }
    for (values, counts, 0..) |*value, count, group| {
        if (count == 0) continue;
        bitmap.set(bits.ptr, group);
        value.* /= @floatFromInt(count);
    }
    const validity = if (bitmap.all_set(bits, counts.len)) null else bits;
    return .{
        .type = .of(.f64),
        .row_count = @intCast(values.len),
        .validity = validity,
        .data = std.mem.sliceAsBytes(values),
    };
}
