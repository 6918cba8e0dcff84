//! Aggregates, with and without group keys, whole or in phases.
//!
//! A partial aggregate ends as rows of keys and states, a final one takes such rows and goes on:
//! sums of sums, sums of counts, the least of the least. States of a call, one for each group:
//!
//!     count                     counts
//!     sum, avg of integers      sums (i128) and counts of values that were not NULL
//!     sum, avg of floats        sums (f64) and counts
//!     min, max                  the value so far and whether there is one
//!
//! Without keys there is one group, and the reductions of kernel/reduce.zig run over whole chunks.
const std = @import("std");
const bitmap = @import("../core/bitmap.zig");
const cast = @import("../kernel/cast.zig");
const column_module = @import("../core/column.zig");
const expression_module = @import("../plan/expression.zig");
const interrupt = @import("../core/interrupt.zig");
const plan_module = @import("../plan/plan.zig");
const reduce = @import("../kernel/reduce.zig");
const schema = @import("../core/schema.zig");
const GroupTable = @import("group_table.zig").GroupTable;
const Chunk = expression_module.Chunk;
const Column = column_module.Column;
const Scalar = schema.Scalar;
const assert = std.debug.assert;

pub const Error = error{ Cancelled, OutOfMemory, OutOfRange, NotSupported, TooLarge };

const AlignedBytes = std.array_list.Aligned(u8, .fromByteUnits(column_module.alignment));

/// A copy with room to spare, so that most values that replace it take its place.
const Text = struct {
    buffer: []u8 = &.{},
    size: u32 = 0,

    fn bytes(self: Text) []const u8 {
        return self.buffer[0..self.size];
    }
};

const State = struct {
    counts: std.ArrayList(i64) = .empty,
    integers: std.ArrayList(i128) = .empty,
    floats: std.ArrayList(f64) = .empty,
    /// min and max of values of fixed size: the values, one behind the other.
    values: AlignedBytes = .empty,
    /// min and max of bytes: each group's own copy, in the operator's `text_arena`.
    texts: std.ArrayList(Text) = .empty,

    fn reset(self: *State) void {
        self.counts.clearRetainingCapacity();
        self.integers.clearRetainingCapacity();
        self.floats.clearRetainingCapacity();
        self.values.clearRetainingCapacity();
        self.texts.clearRetainingCapacity();
    }

    fn deinit(self: *State, gpa: std.mem.Allocator) void {
        self.counts.deinit(gpa);
        self.integers.deinit(gpa);
        self.floats.deinit(gpa);
        self.values.deinit(gpa);
        self.texts.deinit(gpa);
    }
};

pub const AggregateOperator = struct {
    gpa: std.mem.Allocator,
    node: *const plan_module.Aggregate,
    groups: ?GroupTable,
    states: []State,
    text_arena: std.heap.ArenaAllocator,

    pub fn init(gpa: std.mem.Allocator, arena: std.mem.Allocator, node: *const plan_module.Aggregate) Error!AggregateOperator {
        const types = try arena.alloc(schema.DataType, node.keys.len);
        for (types, node.keys) |*to, key| to.* = key.expression.type;
        const states = try arena.alloc(State, node.calls.len);
        for (states) |*state| state.* = .{};
        var self: AggregateOperator = .{
            .gpa = gpa,
            .node = node,
            .groups = if (node.keys.len > 0) try .init(gpa, types) else null,
            .states = states,
            .text_arena = .init(gpa),
        };
        errdefer self.deinit();
        // Without keys the answer has one row, also when there was no input.
        if (node.keys.len == 0) try self.grow_states(1);
        return self;
    }

    pub fn deinit(self: *AggregateOperator) void {
        for (self.states) |*state| state.deinit(self.gpa);
        self.text_arena.deinit();
        if (self.groups) |*groups| groups.deinit();
    }

    /// Forgets all rows, for the next lane.
    pub fn reset(self: *AggregateOperator) Error!void {
        for (self.states) |*state| state.reset();
        _ = self.text_arena.reset(.retain_capacity);
        if (self.groups) |*groups| groups.reset() else try self.grow_states(1);
    }

    pub fn group_count(self: *const AggregateOperator) u32 {
        return if (self.groups) |*groups| groups.group_count() else 1;
    }

    pub fn push(self: *AggregateOperator, arena: std.mem.Allocator, chunk: *const Chunk) Error!void {
        const grouping: ?Grouping = if (self.groups != null) try self.group_rows(arena, chunk) else null;
        for (self.node.calls, self.states) |*call, *state| {
            const column: ?Column = if (call.argument) |*argument| try expression_module.evaluate(arena, argument, chunk) else null;
            if (grouping) |rows| {
                try self.update_groups(call, state, column, chunk, rows);
            } else {
                try self.update_all(arena, call, state, column, chunk);
            }
        }
    }

    /// Selected rows and the group of each.
    const Grouping = struct { rows: []const u32, groups: []const u32 };

    fn group_rows(self: *AggregateOperator, arena: std.mem.Allocator, chunk: *const Chunk) Error!Grouping {
        const columns = try arena.alloc(Column, self.node.keys.len);
        for (columns, self.node.keys) |*column, *key| column.* = try expression_module.evaluate(arena, &key.expression, chunk);
        const rows = try selected_rows(arena, chunk);
        const groups = try arena.alloc(u32, rows.len);
        try self.groups.?.find_or_add(arena, columns, rows, groups);
        try self.grow_states(self.groups.?.group_count());
        return .{ .rows = rows, .groups = groups };
    }

    fn grow_states(self: *AggregateOperator, count: usize) Error!void {
        for (self.node.calls, self.states) |call, *state| {
            try grow(i64, self.gpa, &state.counts, count, 0);
            switch (call.op) {
                .count_rows, .count => {},
                .sum, .avg => if (call.state.tag == .f64)
                    try grow(f64, self.gpa, &state.floats, count, 0)
                else
                    try grow(i128, self.gpa, &state.integers, count, 0),
                .min, .max => switch (call.type.layout()) {
                    .bytes => try grow(Text, self.gpa, &state.texts, count, .{}),
                    .bits => try grow_values(self.gpa, &state.values, count, 1),
                    else => try grow_values(self.gpa, &state.values, count, @intCast(call.type.value_size())),
                },
            }
        }
    }

    fn update_all(self: *AggregateOperator, arena: std.mem.Allocator, call: *const plan_module.AggregateCall, state: *State, argument: ?Column, chunk: *const Chunk) Error!void {
        const column = argument orelse {
            state.counts.items[0] += chunk.selected_count();
            return;
        };
        const mask = try combined_mask(arena, &column, chunk);
        const counted: i64 = if (mask) |bits| @intCast(bitmap.count(bits, chunk.row_count)) else chunk.row_count;
        if (column.type.tag == .null or counted == 0) return;
        switch (call.op) {
            .count_rows, .count => if (self.node.phase == .final) {
                try add_count(&state.counts.items[0], reduce.sum_integer(i64, column.values(i64), mask));
            } else {
                try add_count(&state.counts.items[0], counted);
            },
            .sum, .avg => {
                try self.add_all(call, state, &column, mask);
                try add_count(&state.counts.items[0], if (call.op == .avg and self.node.phase == .final) blk: {
                    const counts = &chunk.columns[call.argument.?.node.column + 1];
                    break :blk reduce.sum_integer(i64, counts.values(i64), mask);
                } else counted);
            },
            .min => try self.extreme_all(.min, state, &column, mask),
            .max => try self.extreme_all(.max, state, &column, mask),
        }
    }

    fn add_all(_: *AggregateOperator, call: *const plan_module.AggregateCall, state: *State, column: *const Column, mask: ?[]const u8) Error!void {
        switch (column.type.layout()) {
            inline .f16, .f32, .f64 => |layout| {
                const T = Scalar(layout);
                state.floats.items[0] += reduce.sum_float(T, column.values(T), mask);
            },
            .i128 => try add_checked(&state.integers.items[0], try reduce.sum_i128(column.values(i128), mask)),
            inline .i8, .i16, .i32, .i64, .u8, .u16, .u32, .u64 => |layout| {
                const T = Scalar(layout);
                try add_checked(&state.integers.items[0], reduce.sum_integer(T, column.values(T), mask));
            },
            .bits => {
                assert(call.op == .sum);
                var total: usize = 0;
                for (0..column.row_count) |row| {
                    const counts = if (mask) |bits| bitmap.get(bits.ptr, row) else true;
                    total += @intFromBool(counts and bitmap.get(column.data.ptr, row));
                }
                try add_checked(&state.integers.items[0], total);
            },
            else => unreachable, // plan.zig refuses them
        }
    }

    fn extreme_all(self: *AggregateOperator, comptime which: Which, state: *State, column: *const Column, mask: ?[]const u8) Error!void {
        const count = column.row_count;
        switch (column.type.layout()) {
            .bytes => {
                const row = (if (which == .min) reduce.min_bytes(column.offsets, column.data, mask, count) else reduce.max_bytes(column.offsets, column.data, mask, count)).?;
                try self.offer_bytes(which, state, 0, column.bytes_at(row));
            },
            .bits => {
                const value = (if (which == .min) reduce.min_bits(column.data, mask, count) else reduce.max_bits(column.data, mask, count)).?;
                offer(u8, which, state, 0, @intFromBool(value));
            },
            .fixed => {
                const width = column.type.width;
                const row = (if (which == .min) reduce.min_fixed(column.data, width, mask, count) else reduce.max_fixed(column.data, width, mask, count)).?;
                offer_fixed(which, state, 0, column.data[row * width ..][0..width]);
            },
            .none, .list, .structure => unreachable,
            inline else => |layout| {
                const T = Scalar(layout);
                const value = if (which == .min) reduce.min(T, column.values(T), mask) else reduce.max(T, column.values(T), mask);
                offer(T, which, state, 0, value.?);
            },
        }
    }

    fn update_groups(self: *AggregateOperator, call: *const plan_module.AggregateCall, state: *State, argument: ?Column, chunk: *const Chunk, grouping: Grouping) Error!void {
        const column = argument orelse {
            for (grouping.groups) |group| state.counts.items[group] += 1;
            return;
        };
        if (column.type.tag == .null) return;
        switch (call.op) {
            .count_rows, .count => for (grouping.rows, grouping.groups) |row, group| {
                if (!column.is_valid(row)) continue;
                try add_count(&state.counts.items[group], if (self.node.phase == .final) column.values(i64)[row] else 1);
            },
            .sum, .avg => {
                const counts: ?[]const i64 = if (call.op == .avg and self.node.phase == .final)
                    chunk.columns[call.argument.?.node.column + 1].values(i64)
                else
                    null;
                try add_groups(state, &column, counts, grouping);
            },
            .min => try self.extreme_groups(.min, state, &column, grouping),
            .max => try self.extreme_groups(.max, state, &column, grouping),
        }
    }

    fn add_groups(state: *State, column: *const Column, counts: ?[]const i64, grouping: Grouping) Error!void {
        switch (column.type.layout()) {
            .bits => for (grouping.rows, grouping.groups) |row, group| {
                if (!column.is_valid(row)) continue;
                state.counts.items[group] += 1;
                state.integers.items[group] += @intFromBool(bitmap.get(column.data.ptr, row));
            },
            inline .f16, .f32, .f64 => |layout| {
                const values = column.values(Scalar(layout));
                if (column.validity == null and counts == null) {
                    const totals = state.floats.items;
                    const seen = state.counts.items;
                    for (grouping.rows, grouping.groups) |row, group| {
                        seen[group] += 1;
                        totals[group] += values[row];
                    }
                    return;
                }
                for (grouping.rows, grouping.groups) |row, group| {
                    if (!column.is_valid(row)) continue;
                    try add_count(&state.counts.items[group], if (counts) |many| many[row] else 1);
                    state.floats.items[group] += values[row];
                }
            },
            inline .i8, .i16, .i32, .i64, .u8, .u16, .u32, .u64, .i128 => |layout| {
                const values = column.values(Scalar(layout));
                for (grouping.rows, grouping.groups) |row, group| {
                    if (!column.is_valid(row)) continue;
                    try add_count(&state.counts.items[group], if (counts) |many| many[row] else 1);
                    try add_checked(&state.integers.items[group], values[row]);
                }
            },
            else => unreachable,
        }
    }

    fn extreme_groups(self: *AggregateOperator, comptime which: Which, state: *State, column: *const Column, grouping: Grouping) Error!void {
        switch (column.type.layout()) {
            .bytes => for (grouping.rows, grouping.groups) |row, group| {
                if (column.is_valid(row)) try self.offer_bytes(which, state, group, column.bytes_at(row));
            },
            .bits => for (grouping.rows, grouping.groups) |row, group| {
                if (column.is_valid(row)) offer(u8, which, state, group, @intFromBool(bitmap.get(column.data.ptr, row)));
            },
            .fixed => for (grouping.rows, grouping.groups) |row, group| {
                const width = column.type.width;
                if (column.is_valid(row)) offer_fixed(which, state, group, column.data[row * width ..][0..width]);
            },
            .none, .list, .structure => unreachable,
            inline else => |layout| {
                const T = Scalar(layout);
                for (grouping.rows, grouping.groups) |row, group| {
                    if (column.is_valid(row)) offer(T, which, state, group, column.values(T)[row]);
                }
            },
        }
    }

    fn offer_bytes(self: *AggregateOperator, comptime which: Which, state: *State, group: usize, value: []const u8) Error!void {
        const text = &state.texts.items[group];
        if (state.counts.items[group] != 0 and !which.replaces(std.mem.order(u8, value, text.bytes()))) return;
        if (value.len > text.buffer.len) {
            // Doubling bounds what abandoned buffers waste by what the last one holds.
            const size = @max(16, std.math.ceilPowerOfTwo(usize, value.len) catch return error.TooLarge);
            text.buffer = try self.text_arena.allocator().alloc(u8, size);
        }
        @memcpy(text.buffer[0..value.len], value);
        text.size = @intCast(value.len);
        state.counts.items[group] = 1;
    }

    /// Keys, then results (or states): a batch in memory of `arena` and of this operator.
    pub fn finish(self: *AggregateOperator, arena: std.mem.Allocator) Error![]const Column {
        var columns: std.ArrayList(Column) = .empty;
        if (self.groups) |*groups| for (groups.keys) |*key| try columns.append(arena, try key.finish(arena));
        for (self.node.calls, self.states) |*call, *state| {
            try interrupt.check();
            switch (call.op) {
                .count_rows, .count => try columns.append(arena, try counts_column(arena, state)),
                .sum => try columns.append(arena, try self.sums_column(arena, call, state)),
                .avg => if (self.node.phase == .partial) {
                    try columns.append(arena, try self.sums_column(arena, call, state));
                    try columns.append(arena, try counts_column(arena, state));
                } else try columns.append(arena, try self.averages_column(arena, call, state)),
                .min, .max => try columns.append(arena, try self.extremes_column(arena, call, state)),
            }
        }
        return columns.items;
    }

    fn counts_column(arena: std.mem.Allocator, state: *const State) Error!Column {
        const counts = state.counts.items;
        return .{ .type = .of(.i64), .row_count = @intCast(counts.len), .data = try aligned_copy(arena, std.mem.sliceAsBytes(counts)) };
    }

    /// NULL where no value was counted.
    fn seen_bits(arena: std.mem.Allocator, state: *const State) Error!?[]const u8 {
        const count = state.counts.items.len;
        const bits = try arena.alloc(u8, bitmap.size(count));
        @memset(bits, 0);
        for (state.counts.items, 0..) |seen, group| if (seen != 0) bitmap.set(bits.ptr, group);
        return if (bitmap.all_set(bits, count)) null else bits;
    }

    fn sums_column(self: *AggregateOperator, arena: std.mem.Allocator, call: *const plan_module.AggregateCall, state: *const State) Error!Column {
        // A partial sum may go beyond; another lane may bring it back.
        if (call.state.tag == .decimal and self.node.phase != .partial) {
            try expression_module.check_precision(i128, state.integers.items, null, call.state.precision);
        }
        const bytes = if (call.state.tag == .f64) std.mem.sliceAsBytes(state.floats.items) else std.mem.sliceAsBytes(state.integers.items);
        const data = try aligned_copy(arena, bytes);
        return .{ .type = call.state, .row_count = @intCast(state.counts.items.len), .validity = try seen_bits(arena, state), .data = data };
    }

    fn averages_column(_: *AggregateOperator, arena: std.mem.Allocator, call: *const plan_module.AggregateCall, state: *const State) Error!Column {
        const values = try arena.alignedAlloc(f64, .fromByteUnits(column_module.alignment), state.counts.items.len);
        for (values, state.counts.items, 0..) |*value, count, group| {
            const total: f64 = switch (call.state.tag) {
                .f64 => state.floats.items[group],
                .decimal => cast.decimal_to_float_one(state.integers.items[group], call.state.scale),
                else => @floatFromInt(state.integers.items[group]),
            };
            value.* = total / @as(f64, @floatFromInt(count));
        }
        return .{ .type = .of(.f64), .row_count = @intCast(values.len), .validity = try seen_bits(arena, state), .data = std.mem.sliceAsBytes(values) };
    }

    fn extremes_column(_: *AggregateOperator, arena: std.mem.Allocator, call: *const plan_module.AggregateCall, state: *const State) Error!Column {
        const count: u32 = @intCast(state.counts.items.len);
        var column: Column = .{ .type = call.type, .row_count = count, .validity = try seen_bits(arena, state) };
        switch (call.type.layout()) {
            .bytes => {
                const offsets = try arena.alloc(u32, count + 1);
                var total: u64 = 0;
                for (state.texts.items) |text| total += text.size;
                if (total > std.math.maxInt(u32)) return error.TooLarge;
                const data = try arena.alignedAlloc(u8, .fromByteUnits(column_module.alignment), @intCast(total));
                var position: u32 = 0;
                for (state.texts.items, 0..) |text, group| {
                    offsets[group] = position;
                    @memcpy(data[position..][0..text.size], text.bytes());
                    position += text.size;
                }
                offsets[count] = position;
                column.data = data;
                column.offsets = offsets;
            },
            .bits => {
                const bits = try arena.alignedAlloc(u8, .fromByteUnits(column_module.alignment), bitmap.size(count));
                @memset(bits, 0);
                for (state.values.items, 0..) |value, group| if (value != 0) bitmap.set(bits.ptr, group);
                column.data = bits;
            },
            else => column.data = state.values.items,
        }
        return column;
    }
};

const Which = enum {
    min,
    max,

    /// Whether a new value in this order to the present one takes its place.
    fn replaces(self: Which, order: std.math.Order) bool {
        return order == (if (self == .min) std.math.Order.lt else std.math.Order.gt);
    }
};

fn offer(comptime T: type, comptime which: Which, state: *State, group: usize, value: T) void {
    const values: []T = @as([*]T, @ptrCast(@alignCast(state.values.items.ptr)))[0 .. state.values.items.len / @sizeOf(T)];
    if (state.counts.items[group] != 0 and !which.replaces(order_values(T, value, values[group]))) return;
    values[group] = value;
    state.counts.items[group] = 1;
}

/// NaN is greater than everything and equal to itself.
fn order_values(comptime T: type, a: T, b: T) std.math.Order {
    if (@typeInfo(T) == .float) {
        if (a != a) return if (b != b) .eq else .gt;
        if (b != b) return .lt;
    }
    return std.math.order(a, b);
}

fn offer_fixed(comptime which: Which, state: *State, group: usize, value: []const u8) void {
    const current = state.values.items[group * value.len ..][0..value.len];
    if (state.counts.items[group] != 0 and !which.replaces(std.mem.order(u8, value, current))) return;
    @memcpy(current, value);
    state.counts.items[group] = 1;
}

/// States come from outside, so a count may lie.
inline fn add_count(total: *i64, count: i128) error{OutOfRange}!void {
    const sum = total.* + count;
    if (count < 0 or sum > std.math.maxInt(i64)) {
        interrupt.describe("a count that no table has", .{});
        return error.OutOfRange;
    }
    total.* = @intCast(sum);
}

fn add_checked(total: *i128, value: i128) error{OutOfRange}!void {
    const sum = @addWithOverflow(total.*, value);
    if (sum[1] != 0) {
        interrupt.describe("a sum does not fit 128 bits", .{});
        return error.OutOfRange;
    }
    total.* = sum[0];
}

fn grow(comptime T: type, gpa: std.mem.Allocator, list: *std.ArrayList(T), count: usize, value: T) Error!void {
    if (count > list.items.len) try list.appendNTimes(gpa, value, count - list.items.len);
}

fn grow_values(gpa: std.mem.Allocator, list: *AlignedBytes, count: usize, size: usize) Error!void {
    const wanted = std.math.mul(usize, count, size) catch return error.TooLarge;
    if (wanted > list.items.len) try list.appendNTimes(gpa, 0, wanted - list.items.len);
}

fn aligned_copy(arena: std.mem.Allocator, bytes: []const u8) Error![]align(column_module.alignment) const u8 {
    const copy = try arena.alignedAlloc(u8, .fromByteUnits(column_module.alignment), bytes.len);
    @memcpy(copy, bytes);
    return copy;
}

/// Rows that count: valid and selected. null = all of them.
fn combined_mask(arena: std.mem.Allocator, column: *const Column, chunk: *const Chunk) Error!?[]const u8 {
    const selection = chunk.selection orelse return column.validity;
    const validity = column.validity orelse return selection.bits;
    const bits = try arena.alloc(u8, bitmap.size(chunk.row_count));
    bitmap.combine(.@"and", bits, selection.bits, validity);
    return bits;
}

pub fn selected_rows(arena: std.mem.Allocator, chunk: *const Chunk) error{OutOfMemory}![]const u32 {
    const rows = try arena.alloc(u32, chunk.selected_count());
    if (chunk.selection) |selection| {
        const found = bitmap.indices(selection.bits, chunk.row_count, rows);
        assert(found == rows.len);
    } else for (rows, 0..) |*row, i| {
        row.* = @intCast(i);
    }
    return rows;
}
