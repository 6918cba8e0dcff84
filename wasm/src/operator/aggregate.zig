//! Aggregates, with and without group keys, whole or in phases.
//!
//! A partial aggregate ends as rows of keys and states, a final one takes such rows and goes on: sums of
//! sums, sums of counts, the least of the least (aggregate_step.zig draws the wire and lists the states). Calls share
//! what they have in common:
//!
//!     row sets      the rows that calls see: all, or those of one FILTER, and of those, for DISTINCT, the first of
//!                   every value in its group. Rows of each set are counted once.
//!     accumulators  what is kept for every group, over one row set and one argument: sum(x) and avg(x) have one sum
//!
//! Without keys there is one group, and the reductions of kernel/reduce.zig run over whole chunks.
//!
//! With a group limit a partial aggregate hands over its groups as soon as it has that many and starts
//! anew. If that did not halve the rows, the next ones pass: as they are, where whoever comes behind takes
//! rows too, else as groups of one row each. Where rows pass as they are, the first chunk that comes to an
//! empty table is a sample: if it has hardly fewer groups than rows, it passes already. All of this depends
//! on the lane's rows alone.
const std = @import("std");
const abi = @import("../abi.zig");
const accumulator_module = @import("accumulator.zig");
const aggregate_step = @import("aggregate_step.zig");
const bitmap = @import("../core/bitmap.zig");
const column_module = @import("../core/column.zig");
const counts_module = @import("accumulate/counts.zig");
const demand = @import("../plan/demand.zig");
const expression_module = @import("../plan/expression.zig");
const group_keys = @import("../lookup/group_keys.zig");
const interrupt = @import("../core/interrupt.zig");
const protocol = @import("protocol.zig");
const rows_module = @import("../lookup/rows.zig");
const schema = @import("../core/schema.zig");
const step_module = @import("../plan/step.zig");
const Accumulator = accumulator_module.Accumulator;
const Arena = @import("../core/arena.zig").Arena;
const Chunk = expression_module.Chunk;
const Column = column_module.Column;
const Counts = counts_module.Counts;
const GroupTable = @import("../lookup/group_table.zig").GroupTable;
const PartitionOperator = @import("partition.zig").PartitionOperator;
const Rows = rows_module.Rows;
const assert = std.debug.assert;

const Error = protocol.Error;

/// Rows of a chunk that say something of how groups repeat.
const sample_rows_min = 4096;
/// After so many rows have passed, another sample is taken: a long lane may change.
const passing_rows_max = 1 << 18;

const RowSet = struct {
    filter: ?u32,
    /// The argument whose repeated values are left out.
    distinct: ?u32,
    /// Over (group, argument).
    table: ?GroupTable = null,
    /// Rows of every group, where anybody asks.
    counts: Counts = .{},
    is_counted: bool = false,
    /// Among the operator's feeds.
    feeds: std.ArrayList(u32) = .empty,
};

/// An accumulator with what it is fed.
const Feed = struct {
    accumulator: Accumulator,
    /// Among the aggregate's arguments; several are states that belong together.
    arguments: []const u32,
};

const Parts = struct { set: u32, feeds: []const u32 };

pub const AggregateOperator = struct {
    gpa: std.mem.Allocator,
    node: *const Step,
    groups: ?GroupTable,
    sets: []RowSet,
    feeds: []Feed,
    /// The row set and the feeds of every call, those in the order its answer needs them.
    parts: []const Parts,
    /// Rows pass, or groups of one row each: the table would not have made them fewer.
    passes: bool = false,
    pass_count: u32 = 0,
    /// Rows since the table was empty, or since they began to pass.
    row_count: u64 = 0,
    /// The columns of the answer, and what a chunk of them needs on its way: a join before the aggregate may
    /// still need its own chunk.
    answer: Arena,
    scratch: Arena,
    /// What goes on next: groups of a full table, or at the input's end, first those and then rows that passed.
    leaving: enum { nothing, full_table, full_table_left, answer, answer_left, rows } = .nothing,
    /// Where rows go that pass.
    row_parts: ?PartitionOperator = null,

    pub const Step = aggregate_step.Aggregate;
    pub const tag: abi.NodeTag = .aggregate;
    pub const facts: step_module.Facts = .{ .leaves = .anyhow, .blocks = true };
    pub const parse = aggregate_step.parse;

    pub fn mark_used(step: *const Step, used: []bool) void {
        for (step.keys) |*key| key.expression.mark_columns(used);
        for (step.arguments) |*value| value.mark_columns(used);
    }

    pub fn trace_keys(step: *const Step, trace: *demand.KeyTrace) error{OutOfMemory}!demand.KeyTrace.Found {
        for (step.arguments) |*value| trace.unmark(value);
        const reads = try trace.arena.alloc(bool, trace.keys.len);
        @memset(reads, false);
        for (step.keys) |*key| {
            if (trace.origin_of(&key.expression)) |input| reads[input] = true else trace.unmark(&key.expression);
        }
        for (trace.keys, reads) |*is_key, read| is_key.* = is_key.* and read;
        return .settled;
    }

    pub fn only_extremes(step: *const Step) bool {
        if (step.keys.len > 0 or step.phase == .final) return false;
        for (step.calls) |*call| if (call.op != .min and call.op != .max) return false;
        return true;
    }

    pub fn hands_on_states(step: *const Step) bool {
        return step.phase == .partial;
    }

    pub fn open(opening: *const protocol.Opening, step: *const Step) Error!AggregateOperator {
        var self: AggregateOperator = try .init(opening.gpa, opening.arena, step);
        errdefer self.close();
        if (step.rows_pass) self.row_parts = try open_row_parts(opening, step);
        return self;
    }

    fn open_row_parts(opening: *const protocol.Opening, step: *const Step) Error!PartitionOperator {
        const behind = if (opening.behind.len == 1) opening.behind[0].as(PartitionOperator) else null;
        if (behind) |partition| return .open_rows(opening, step, partition.count);
        interrupt.describe("rows that pass with no partition behind", .{});
        return error.InvalidPlan;
    }

    fn init(gpa: std.mem.Allocator, arena: std.mem.Allocator, node: *const Step) Error!AggregateOperator {
        const types = try arena.alloc(schema.DataType, node.keys.len);
        for (types, node.keys) |*to, key| to.* = key.expression.type;
        var builder: Builder = .{ .gpa = gpa, .arena = arena, .node = node };
        errdefer builder.deinit();
        const parts = try builder.build();
        var self: AggregateOperator = .{
            .gpa = gpa,
            .node = node,
            .groups = if (node.keys.len > 0) try .init(gpa, types, .{}) else null,
            .sets = builder.sets.items,
            .feeds = builder.feeds.items,
            .parts = parts,
            .answer = .init(gpa),
            .scratch = .init(gpa),
        };
        errdefer if (self.groups) |*groups| groups.deinit();
        // Without keys the answer has one row, also when there was no input.
        if (node.keys.len == 0) try self.grow_to(1);
        return self;
    }

    pub fn close(self: *AggregateOperator) void {
        if (self.row_parts) |*rows| rows.close();
        for (self.sets) |*set| release_set(self.gpa, set);
        for (self.feeds) |*feed| feed.accumulator.deinit(self.gpa);
        if (self.groups) |*groups| groups.deinit();
        self.answer.deinit();
        self.scratch.deinit();
    }

    fn release_set(gpa: std.mem.Allocator, set: *RowSet) void {
        if (set.table) |*table| table.deinit();
        set.counts.deinit(gpa);
    }

    pub fn size(self: *const AggregateOperator) u64 {
        var total: u64 = self.answer.capacity() + self.scratch.capacity();
        if (self.groups) |*groups| total += groups.memory_size();
        if (self.row_parts) |*rows| total += rows.size();
        for (self.sets) |*set| {
            total += set.counts.memory_size();
            if (set.table) |*table| total += table.memory_size();
        }
        for (self.feeds) |*feed| total += feed.accumulator.memory_size();
        return total;
    }

    pub fn reset(self: *AggregateOperator) Error!void {
        self.leaving = .nothing;
        if (self.row_parts) |*rows| try rows.reset();
        try self.forget();
    }

    fn forget(self: *AggregateOperator) Error!void {
        self.passes = false;
        try self.restart();
    }

    fn restart(self: *AggregateOperator) Error!void {
        for (self.sets) |*set| {
            if (set.table) |*table| table.reset();
            set.counts.reset();
        }
        for (self.feeds) |*feed| try feed.accumulator.reset();
        self.pass_count = 0;
        self.row_count = 0;
        if (self.groups) |*groups| groups.reset() else try self.grow_to(1);
    }

    fn group_count(self: *const AggregateOperator) u32 {
        if (self.passes) return self.pass_count;
        return if (self.groups) |*groups| groups.group_count() else 1;
    }

    /// Where columns are only reduced as they are, nothing is computed that should stay in cache.
    pub fn chunk_rows(self: *const AggregateOperator, _: u32) u32 {
        return if (self.only_reduces()) expression_module.reduce_rows else expression_module.chunk_rows;
    }

    /// Whether no argument is computed, and no choice of rows is made, before anything is accumulated.
    fn only_reduces(self: *const AggregateOperator) bool {
        if (self.groups != null or self.sets.len > 1) return false;
        for (self.sets) |set| if (set.filter != null or set.distinct != null) return false;
        for (self.node.arguments) |value| if (value.node != .column) return false;
        return true;
    }

    fn grow_to(self: *AggregateOperator, count: usize) Error!void {
        for (self.sets) |*set| try set.counts.grow_to(self.gpa, count);
        for (self.feeds) |*feed| try feed.accumulator.grow_to(self.gpa, count);
    }

    pub fn push(
        self: *AggregateOperator,
        arena: std.mem.Allocator,
        chunk: *Chunk,
        flow: protocol.Flow,
    ) Error!protocol.Pushed {
        switch (self.leaving) {
            .nothing, .rows => {},
            // Nobody behind wanted the groups of a full table: they are not needed any more.
            .full_table, .full_table_left => try self.flushed(),
            .answer, .answer_left => unreachable, // the input has ended
        }
        if (!try self.take(arena, chunk)) {
            // Texts that only served as keys may be codes.
            var plain = chunk.*;
            plain.columns = try group_keys.decoded(arena, chunk.columns);
            const pushed = try self.row_parts.?.push(arena, &plain, flow);
            if (pushed == .in_pieces) self.leaving = .rows;
            return pushed;
        }
        if (!self.is_full()) return .kept;
        self.leaving = .full_table;
        return .in_pieces;
    }

    /// Takes rows in; false when they should pass as they are.
    fn take(self: *AggregateOperator, arena: std.mem.Allocator, chunk: *const Chunk) Error!bool {
        const count = chunk.selected_count();
        if (self.passes and self.node.rows_pass) {
            self.row_count += count;
            if (self.row_count >= passing_rows_max) try self.forget();
            return false;
        }
        const arguments = try arena.alloc(?Column, self.node.arguments.len);
        @memset(arguments, null);
        const input: Input = .{ .arena = arena, .chunk = chunk, .arguments = arguments };
        const is_sample = self.node.rows_pass and self.row_count == 0 and count >= sample_rows_min;
        self.row_count += count;
        if (self.groups != null) return self.push_groups(&input, is_sample);
        for (self.sets) |*set| try self.push_all(&input, set);
        return true;
    }

    /// Whether the groups should be handed over now.
    fn is_full(self: *const AggregateOperator) bool {
        const limit = self.node.group_limit;
        if (limit == 0 or self.groups == null) return false;
        return if (self.passes) self.pass_count > 0 else self.groups.?.group_count() >= limit;
    }

    /// The groups of a full table have gone on.
    fn flushed(self: *AggregateOperator) Error!void {
        self.leaving = .nothing;
        if (!self.passes and self.row_count / 2 < self.groups.?.group_count()) self.passes = true;
        try self.restart();
    }

    const Input = struct {
        arena: std.mem.Allocator,
        chunk: *const Chunk,
        /// Computed when first asked for.
        arguments: []?Column,
    };

    fn argument(self: *const AggregateOperator, input: *const Input, index: u32) Error!Column {
        if (input.arguments[index]) |column| return column;
        const column = try expression_module.evaluate(input.arena, &self.node.arguments[index], input.chunk);
        input.arguments[index] = column;
        return column;
    }

    // ---- with keys ----

    fn push_groups(self: *AggregateOperator, input: *const Input, is_sample: bool) Error!bool {
        const all = try self.group_rows(input);
        if (all.count() == 0) return true;
        if (is_sample and all.group_count > all.count() / 8 * 7) {
            try self.restart();
            self.row_count = all.count();
            self.passes = true;
            return false;
        }
        try self.grow_to(all.group_count);
        for (self.sets) |*set| {
            const rows = try self.choose_rows(input, set, &all);
            if (set.is_counted) set.counts.update(&rows);
            for (set.feeds.items) |index| {
                const feed = &self.feeds[index];
                var columns: [3]Column = undefined;
                for (columns[0..feed.arguments.len], feed.arguments) |*column, place| {
                    column.* = try self.argument(input, place);
                }
                try feed.accumulator.update(self.gpa, input.arena, columns[0..feed.arguments.len], &rows);
            }
        }
        return true;
    }

    fn group_rows(self: *AggregateOperator, input: *const Input) Error!Rows {
        const arena = input.arena;
        const columns = try arena.alloc(Column, self.node.keys.len);
        for (columns, self.node.keys) |*column, *key| {
            column.* = try expression_module.evaluate(arena, &key.expression, input.chunk);
        }
        const rows = if (input.chunk.selection == null) null else try input.chunk.selected_rows(arena);
        const groups = try arena.alloc(u32, input.chunk.selected_count());
        const table = &self.groups.?;
        if (self.passes) {
            assert(self.pass_count == 0);
            for (groups, 0..) |*group, i| group.* = @intCast(i);
            const chosen = rows orelse try (Rows{ .rows = null, .groups = groups, .group_count = 0 }).indices(arena);
            for (table.keys, columns) |*key, *column| try key.append_indices(column, chosen);
            self.pass_count = @intCast(groups.len);
        } else {
            try table.find_or_add(arena, columns, rows, groups);
        }
        return .{ .rows = rows, .groups = groups, .group_count = self.group_count() };
    }

    fn choose_rows(self: *AggregateOperator, input: *const Input, set: *RowSet, all: *const Rows) Error!Rows {
        var rows = all.*;
        if (set.filter) |place| {
            const column = try self.argument(input, place);
            rows = try rows.part(input.arena, column.data, column.validity);
        }
        if (set.distinct) |place| rows = try self.first_of_each(input, set, &try self.argument(input, place), &rows);
        return rows;
    }

    /// Rows with a value that their group has not had before. NULLs are left out.
    fn first_of_each(
        _: *AggregateOperator,
        input: *const Input,
        set: *RowSet,
        column: *const Column,
        all: *const Rows,
    ) Error!Rows {
        const arena = input.arena;
        const rows = try all.valid(arena, column);
        var plain = column.*;
        plain.validity = null;
        const table = &set.table.?;
        const groups = try arena.alloc(u32, rows.count());
        if (table.keys.len == 1) {
            try table.find_or_add(arena, &.{plain}, rows.rows, groups);
            const fresh = try arena.dupe(u32, table.fresh.items);
            const zeros = try arena.alloc(u32, fresh.len);
            @memset(zeros, 0);
            return .{ .rows = fresh, .groups = zeros, .group_count = 1 };
        }
        // The table takes columns over the chunk's rows: the groups become one.
        const numbers = try arena.alignedAlloc(u32, .fromByteUnits(column_module.alignment), column.row_count);
        for (rows.groups, try rows.indices(arena)) |group, row| numbers[row] = group;
        const group_column: Column = .{
            .type = .of(.u32),
            .row_count = column.row_count,
            .data = std.mem.sliceAsBytes(numbers),
        };
        try table.find_or_add(arena, &.{ group_column, plain }, rows.rows, groups);
        const fresh = try arena.dupe(u32, table.fresh.items);
        const fresh_groups = try arena.alloc(u32, fresh.len);
        for (fresh_groups, fresh) |*group, row| group.* = numbers[row];
        return .{ .rows = fresh, .groups = fresh_groups, .group_count = all.group_count };
    }

    // ---- without keys ----

    fn push_all(self: *AggregateOperator, input: *const Input, set: *RowSet) Error!void {
        const chunk = try self.choose_all(input, set);
        set.counts.update_all(chunk.selected_count());
        for (set.feeds.items) |index| {
            const feed = &self.feeds[index];
            var columns: [3]Column = undefined;
            for (columns[0..feed.arguments.len], feed.arguments) |*column, place| {
                column.* = try self.argument(input, place);
            }
            try feed.accumulator.update_all(self.gpa, input.arena, columns[0..feed.arguments.len], &chunk);
        }
    }

    /// The chunk with only the rows of a set selected.
    fn choose_all(self: *AggregateOperator, input: *const Input, set: *RowSet) Error!Chunk {
        const arena = input.arena;
        var chunk = input.chunk.*;
        if (set.filter) |place| {
            chunk.selection = try expression_module.select(arena, &self.node.arguments[place], &chunk);
        }
        if (set.distinct) |place| {
            const rows = try chunk.selected_rows(arena);
            const zeros = try arena.alloc(u32, rows.len);
            @memset(zeros, 0);
            const all: Rows = .{ .rows = rows, .groups = zeros, .group_count = 1 };
            const first = try self.first_of_each(input, set, &try self.argument(input, place), &all);
            const bits = try arena.alloc(u8, bitmap.size(chunk.row_count));
            @memset(bits, 0);
            for (first.rows.?) |row| bitmap.set(bits.ptr, row);
            chunk.selection = .{ .bits = bits, .count = @intCast(first.count()) };
        }
        return chunk;
    }

    // ---- answers ----

    pub fn finish(self: *AggregateOperator) Error!void {
        self.leaving = .answer;
    }

    pub fn next(self: *AggregateOperator) Error!?protocol.Piece {
        switch (self.leaving) {
            .nothing => {},
            .full_table, .answer => {
                self.leaving = if (self.leaving == .answer) .answer_left else .full_table_left;
                const columns = try self.answer_columns();
                const row_count = self.group_count();
                return .{ .whole = .{ .columns = columns, .row_count = row_count, .scratch = &self.scratch } };
            },
            .full_table_left => try self.flushed(),
            .answer_left => {
                self.release_answer();
                self.leaving = .nothing;
                if (self.row_parts) |*rows| {
                    try rows.finish();
                    self.leaving = .rows;
                    return self.next();
                }
            },
            .rows => {
                if (try self.row_parts.?.next()) |piece| return piece;
                self.leaving = .nothing;
            },
        }
        return null;
    }

    /// Keys, then results (or states), which stay until rows come again.
    fn answer_columns(self: *AggregateOperator) Error![]const Column {
        _ = self.answer.reset(.retain_capacity);
        const arena = self.answer.allocator();
        var columns: std.ArrayList(Column) = .empty;
        if (self.groups) |*groups| for (groups.keys) |*key| try columns.append(arena, try key.finish(arena));
        for (self.node.calls, self.parts) |*call, parts| {
            try interrupt.check();
            var accumulators: [2]*const Accumulator = undefined;
            for (accumulators[0..parts.feeds.len], parts.feeds) |*accumulator, index| {
                accumulator.* = &self.feeds[index].accumulator;
            }
            const counts = &self.sets[parts.set].counts;
            try accumulator_module.finish_call(
                arena,
                &columns,
                call,
                self.node.phase,
                counts,
                accumulators[0..parts.feeds.len],
            );
        }
        return columns.items;
    }

    /// The answer has gone on, and no other is near.
    fn release_answer(self: *AggregateOperator) void {
        _ = self.answer.reset(.free_all);
        _ = self.scratch.reset(.free_all);
    }
};

/// Finds out what calls share.
const Builder = struct {
    gpa: std.mem.Allocator,
    arena: std.mem.Allocator,
    node: *const aggregate_step.Aggregate,
    sets: std.ArrayList(RowSet) = .empty,
    feeds: std.ArrayList(Feed) = .empty,
    known_sets: std.AutoHashMapUnmanaged(SetKey, u32) = .empty,
    known_feeds: std.AutoHashMapUnmanaged(FeedKey, u32) = .empty,

    const SetKey = struct { filter: ?u32, distinct: ?u32 };
    const FeedKey = struct { set: u32, kind: accumulator_module.Kind, arguments: [3]u32 };

    fn deinit(self: *Builder) void {
        for (self.sets.items) |*set| AggregateOperator.release_set(self.gpa, set);
        for (self.feeds.items) |*feed| feed.accumulator.deinit(self.gpa);
    }

    fn build(self: *Builder) Error![]const Parts {
        const parts = try self.arena.alloc(Parts, self.node.calls.len);
        for (parts, self.node.calls) |*part, *call| {
            const set = try self.set_of(call);
            if (accumulator_module.counts_rows(call, self.node.phase)) self.sets.items[set].is_counted = true;
            var buffer: [2]accumulator_module.Kind = undefined;
            const kinds = accumulator_module.kinds_of(call, self.node.phase, &buffer);
            const feeds = try self.arena.alloc(u32, kinds.len);
            for (feeds, kinds) |*feed, kind| {
                feed.* = try self.feed_of(set, kind, accumulator_module.arguments_of(call, kind, self.node.phase));
            }
            part.* = .{ .set = set, .feeds = feeds };
        }
        return parts;
    }

    fn set_of(self: *Builder, call: *const aggregate_step.AggregateCall) Error!u32 {
        const distinct: ?u32 = if (call.distinct) call.arguments[0] else null;
        const entry = try self.known_sets.getOrPut(self.arena, .{ .filter = call.filter, .distinct = distinct });
        if (entry.found_existing) return entry.value_ptr.*;
        entry.value_ptr.* = @intCast(self.sets.items.len);
        var set: RowSet = .{ .filter = call.filter, .distinct = distinct };
        if (distinct) |place| {
            const value = self.node.arguments[place].type;
            const types: []const schema.DataType = if (self.node.keys.len > 0) &.{ .of(.u32), value } else &.{value};
            set.table = try .init(self.gpa, types, .{ .keeps_keys = false });
        }
        errdefer AggregateOperator.release_set(self.gpa, &set);
        try self.sets.append(self.arena, set);
        return entry.value_ptr.*;
    }

    fn feed_of(self: *Builder, set: u32, kind: accumulator_module.Kind, arguments: []const u32) Error!u32 {
        var key: FeedKey = .{ .set = set, .kind = kind, .arguments = @splat(std.math.maxInt(u32)) };
        @memcpy(key.arguments[0..arguments.len], arguments);
        const entry = try self.known_feeds.getOrPut(self.arena, key);
        if (entry.found_existing) return entry.value_ptr.*;
        entry.value_ptr.* = @intCast(self.feeds.items.len);
        var accumulator: Accumulator = try .init(self.gpa, kind, self.node.arguments[arguments[0]].type);
        errdefer accumulator.deinit(self.gpa);
        if (accumulator == .floats) accumulator.floats.in_order = self.node.in_order;
        try self.feeds.append(self.arena, .{ .accumulator = accumulator, .arguments = arguments });
        try self.sets.items[set].feeds.append(self.arena, entry.value_ptr.*);
        return entry.value_ptr.*;
    }
};
