//! Sort and top-k: collects rows, orders them when the input ends.
//!
//! With a limit k the collection is cut back to the best k rows whenever it has grown to several
//! times that, and from then on rows whose first key is behind the k-th best are not even
//! collected. Equal rows keep their input order, so a sort of sorted runs, pushed one behind the
//! other, is a stable merge of them.
const std = @import("std");
const column_module = @import("../core/column.zig");
const expression_module = @import("../plan/expression.zig");
const plan_module = @import("../plan/plan.zig");
const row_order = @import("row_order.zig");
const schema = @import("../core/schema.zig");
const sort_keys = @import("../kernel/sort_keys.zig");
const selected_rows = @import("aggregate.zig").selected_rows;
const ColumnBuilder = @import("../core/column_builder.zig").ColumnBuilder;
const Chunk = expression_module.Chunk;
const Column = column_module.Column;

pub const Error = error{ OutOfMemory, OutOfRange, NotSupported, TooLarge, Cancelled };

/// Rows collected beyond a few times the limit before cutting back. Few, because the first cut
/// sets the threshold that spares most rows from being collected at all.
const prune_rows = 2048;

pub const SortOperator = struct {
    gpa: std.mem.Allocator,
    node: *const plan_module.Sort,
    /// The input's columns, then one column for each key that is not simply one of them.
    rows: []ColumnBuilder,
    /// Index into `rows` of every key.
    key_columns: []u32,
    column_count: usize,
    row_count: u32 = 0,
    /// First keys greater than this cannot be among the best any more. Set by the first cut.
    threshold: ?u64 = null,

    pub fn init(gpa: std.mem.Allocator, arena: std.mem.Allocator, node: *const plan_module.Sort, input: []const schema.Field) Error!SortOperator {
        var types: std.ArrayList(schema.DataType) = .empty;
        for (input) |field| try types.append(arena, field.type);
        const key_columns = try arena.alloc(u32, node.keys.len);
        for (key_columns, node.keys) |*index, key| {
            index.* = if (key.expression.node == .column) key.expression.node.column else @intCast(types.items.len);
            if (key.expression.node != .column) try types.append(arena, key.expression.type);
        }
        const rows = try arena.alloc(ColumnBuilder, types.items.len);
        var ready: usize = 0;
        errdefer for (rows[0..ready]) |*builder| builder.deinit();
        for (rows, types.items) |*builder, data_type| {
            builder.* = try .init(gpa, data_type);
            ready += 1;
        }
        return .{ .gpa = gpa, .node = node, .rows = rows, .key_columns = key_columns, .column_count = input.len };
    }

    pub fn deinit(self: *SortOperator) void {
        for (self.rows) |*builder| builder.deinit();
    }

    /// Forgets all rows, for the next lane. The threshold stays: as many rows as are wanted have
    /// been seen at or before it, so what lies behind cannot be among the best of all lanes.
    pub fn reset(self: *SortOperator) void {
        for (self.rows) |*builder| builder.reset();
        self.row_count = 0;
    }

    fn limit_rows(self: *const SortOperator) u32 {
        return std.math.cast(u32, self.node.limit) orelse std.math.maxInt(u32);
    }

    pub fn push(self: *SortOperator, arena: std.mem.Allocator, chunk: *const Chunk) Error!void {
        const columns = try arena.alloc(Column, self.rows.len);
        @memcpy(columns[0..self.column_count], chunk.columns);
        for (self.key_columns, self.node.keys) |index, *key| {
            if (index >= self.column_count) columns[index] = try expression_module.evaluate(arena, &key.expression, chunk);
        }
        if (chunk.selection == null and self.threshold == null) {
            if (chunk.row_count > std.math.maxInt(u32) - self.row_count) return error.TooLarge;
            for (self.rows, columns) |*builder, *column| try builder.append_range(column, 0, chunk.row_count);
            self.row_count += chunk.row_count;
            if (self.row_count >= 4 * @as(u64, self.limit_rows()) + prune_rows) try self.prune(arena);
            return;
        }
        const rows = try self.candidates(arena, chunk, columns);
        if (rows.len > std.math.maxInt(u32) - self.row_count) return error.TooLarge;
        for (self.rows, columns) |*builder, *column| try builder.append_indices(column, rows);
        self.row_count += @intCast(rows.len);
        if (self.row_count >= 4 * @as(u64, self.limit_rows()) + prune_rows) try self.prune(arena);
    }

    /// Selected rows that may still be among the best.
    fn candidates(self: *SortOperator, arena: std.mem.Allocator, chunk: *const Chunk, columns: []const Column) Error![]const u32 {
        const rows = try selected_rows(arena, chunk);
        const threshold = self.threshold orelse return rows;
        const kept = try arena.alloc(u32, rows.len);
        const key = &columns[self.key_columns[0]];
        const flip: u64 = if (self.node.keys[0].descending) std.math.maxInt(u64) else 0;
        return kept[0..keep_within(key, flip, threshold, rows, kept)];
    }

    /// Copies the rows whose key is not behind the threshold; returns how many. NULLs come last
    /// here: a threshold exists only when the k-th best row has a value.
    fn keep_within(key: *const Column, flip: u64, threshold: u64, rows: []const u32, kept: []u32) usize {
        var count: usize = 0;
        if (key.validity == null) switch (key.type.layout()) {
            inline .i32, .i64, .f32, .f64 => |layout| {
                const T = schema.Scalar(layout);
                const values = key.values(T);
                for (rows) |row| {
                    kept[count] = row;
                    count += @intFromBool(sort_keys.number_key(T, values[row]) ^ flip <= threshold);
                }
                return count;
            },
            else => {},
        };
        for (rows) |row| {
            kept[count] = row;
            count += @intFromBool(key.is_valid(row) and sort_keys.key_of(key, row, 0) ^ flip <= threshold);
        }
        return count;
    }

    fn prune(self: *SortOperator, arena: std.mem.Allocator) Error!void {
        const limit = self.limit_rows();
        const columns = try self.collected(arena);
        const order = try self.ordered(arena, columns);
        defer self.gpa.free(order);
        const best = order[0..@min(limit, order.len)];
        const first = self.node.keys[0];
        const key = &columns[self.key_columns[0]];
        if (best.len > 0 and !first.nulls_first and key.is_valid(best[best.len - 1])) {
            const last = sort_keys.key_of(key, best[best.len - 1], 0);
            self.threshold = if (first.descending) ~last else last;
        }
        for (self.rows, columns) |*builder, *column| {
            var kept: ColumnBuilder = try .init(self.gpa, builder.type);
            errdefer kept.deinit();
            try kept.append_indices(column, best);
            builder.deinit();
            builder.* = kept;
        }
        self.row_count = @intCast(best.len);
    }

    fn collected(self: *SortOperator, arena: std.mem.Allocator) Error![]Column {
        const columns = try arena.alloc(Column, self.rows.len);
        for (columns, self.rows) |*column, *builder| column.* = try builder.finish(arena);
        return columns;
    }

    fn ordered(self: *SortOperator, arena: std.mem.Allocator, columns: []const Column) Error![]u32 {
        const keys = try arena.alloc(row_order.Key, self.node.keys.len);
        for (keys, self.node.keys, self.key_columns) |*to, from, index| {
            to.* = .{ .column = &columns[index], .descending = from.descending, .nulls_first = from.nulls_first };
        }
        return row_order.sorted_rows(self.gpa, keys, self.row_count);
    }

    /// The rows in order: the collected columns, and which of their rows to read.
    pub const Sorted = struct { columns: []const Column, order: []u32 };

    /// The caller frees `order` with `gpa`.
    pub fn finish(self: *SortOperator, arena: std.mem.Allocator) Error!Sorted {
        const columns = try self.collected(arena);
        const order = try self.ordered(arena, columns);
        return .{ .columns = columns[0..self.column_count], .order = order };
    }
};
