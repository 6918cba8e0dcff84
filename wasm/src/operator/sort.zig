//! Sort and top-k: collects rows, orders them when the input ends.
//!
//! With a limit k the collection is cut back to the best k rows whenever it has grown to several
//! times that, and rows that are behind the k-th best are not even collected (top_k.zig). Equal rows
//! keep their input order, so a sort of sorted runs, pushed one behind the other, is a stable merge
//! of them.
const std = @import("std");
const column_builder = @import("../core/column_builder.zig");
const column_module = @import("../core/column.zig");
const expression_module = @import("../plan/expression.zig");
const keyed_rows = @import("keyed_rows.zig");
const plan_module = @import("../plan/plan.zig");
const row_order = @import("row_order.zig");
const schema = @import("../core/schema.zig");
const selected_rows = @import("aggregate.zig").selected_rows;
const Chunk = expression_module.Chunk;
const Column = column_module.Column;
const ColumnBuilder = column_builder.ColumnBuilder;
const KeyedRows = keyed_rows.KeyedRows;
const TopK = @import("top_k.zig").TopK;

pub const Error = error{ OutOfMemory, OutOfRange, NotSupported, TooLarge, Cancelled };

/// Rows collected beyond a few times the limit before cutting back.
const prune_rows = 2048;

pub const SortOperator = struct {
    gpa: std.mem.Allocator,
    keyed: KeyedRows,
    rows: []ColumnBuilder,
    row_count: u32 = 0,
    /// Of sorts with a limit.
    top_k: ?TopK,

    pub fn init(gpa: std.mem.Allocator, arena: std.mem.Allocator, node: *const plan_module.Sort, input: []const schema.Field) Error!SortOperator {
        const keyed: KeyedRows = try .init(arena, node.keys, input);
        const rows = try keyed.open_builders(gpa, arena);
        errdefer for (rows) |*builder| builder.deinit();
        const top_k: ?TopK = if (std.math.cast(u32, node.limit)) |limit| try .init(gpa, arena, keyed, limit) else null;
        return .{ .gpa = gpa, .keyed = keyed, .rows = rows, .top_k = top_k };
    }

    pub fn deinit(self: *SortOperator) void {
        for (self.rows) |*builder| builder.deinit();
        if (self.top_k) |*top_k| top_k.deinit();
    }

    /// Forgets all rows, for the next lane.
    pub fn reset(self: *SortOperator) void {
        for (self.rows) |*builder| builder.reset();
        self.row_count = 0;
        if (self.top_k) |*top_k| top_k.next_lane();
    }

    pub fn push(self: *SortOperator, arena: std.mem.Allocator, chunk: *const Chunk) Error!void {
        const columns = try self.keyed.columns(arena, chunk);
        const rows: ?[]const u32 = if (self.top_k) |*top_k|
            try top_k.candidates(arena, chunk, columns)
        else if (chunk.selection == null)
            null
        else
            try selected_rows(arena, chunk);
        const count = if (rows) |some| some.len else chunk.row_count;
        if (count > std.math.maxInt(u32) - self.row_count) return error.TooLarge;
        for (self.rows, columns) |*builder, *column| {
            if (rows) |some| try builder.append_indices(column, some) else try builder.append_range(column, 0, chunk.row_count);
        }
        self.row_count += @intCast(count);
        const top_k = if (self.top_k) |*top_k| top_k else return;
        if (self.row_count >= 4 * @as(u64, top_k.limit) + prune_rows) try self.prune(arena, top_k);
    }

    /// Keeps the best rows; the last of them is a bound for what comes.
    fn prune(self: *SortOperator, arena: std.mem.Allocator, top_k: *TopK) Error!void {
        const columns = try keyed_rows.collected(arena, self.rows);
        const order = try row_order.sorted_rows(self.gpa, try self.keyed.order(arena, columns), self.row_count);
        defer self.gpa.free(order);
        const best = order[0..@min(top_k.limit, order.len)];
        if (best.len > 0) try top_k.tighten(columns, best[best.len - 1]);
        for (self.rows, columns) |*builder, *column| {
            var kept: ColumnBuilder = try .init(self.gpa, builder.type);
            errdefer kept.deinit();
            try kept.append_indices(column, best);
            builder.deinit();
            builder.* = kept;
        }
        self.row_count = @intCast(best.len);
    }

    /// The rows in order: the collected columns, and which of their rows to read.
    pub const Sorted = struct { columns: []const Column, order: []u32 };

    /// The caller frees `order` with `gpa`; of a top-k it may be longer than the limit.
    pub fn finish(self: *SortOperator, arena: std.mem.Allocator) Error!Sorted {
        const columns = try keyed_rows.collected(arena, self.rows);
        const order = try row_order.sorted_rows(self.gpa, try self.keyed.order(arena, columns), self.row_count);
        return .{ .columns = columns[0..self.keyed.input_count], .order = order };
    }
};
