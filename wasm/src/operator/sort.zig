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
const Arena = @import("../core/arena.zig").Arena;
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
            try chunk.selected_rows(arena);
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

const random_rows = @import("random_rows.zig");

/// Sorts lanes of random rows, in any order of lanes, and compares the best of all with a plain sort.
fn expect_best(arena: std.mem.Allocator, random: std.Random, columns: []const Column, node: *const plan_module.Sort, fields: []const schema.Field) !void {
    const count = columns[0].row_count;
    var operator: SortOperator = try .init(std.testing.allocator, arena, node, fields);
    defer operator.deinit();
    const lane_count = 3;
    const answers = try arena.alloc([]const u32, lane_count);
    const order = [lane_count]usize{ 2, 0, 1 };
    for (order) |lane| {
        const first = count / lane_count * lane;
        const last = if (lane + 1 == lane_count) count else count / lane_count * (lane + 1);
        operator.reset();
        var start: usize = first;
        while (start < last) {
            const size = @min(last - start, 1 + random.uintLessThan(usize, 3000));
            const rows = try arena.alloc(u32, size);
            for (rows, start..) |*row, i| row.* = @intCast(i);
            try operator.push(arena, &.{ .row_count = @intCast(size), .columns = try random_rows.taken(arena, columns, rows) });
            start += size;
        }
        const sorted = try operator.finish(arena);
        defer std.testing.allocator.free(sorted.order);
        const numbers = sorted.columns[sorted.columns.len - 1].values(i64);
        const best = try arena.alloc(u32, @intCast(@min(sorted.order.len, node.limit)));
        for (best, sorted.order[0..best.len]) |*to, row| to.* = @intCast(numbers[row]);
        answers[lane] = best;
    }
    const found = try std.mem.concat(arena, u32, answers);
    const keys = try operator.keyed.order(arena, columns);
    try row_order.sort_rows(std.testing.allocator, keys, found);
    const expected = try row_order.sorted_rows(std.testing.allocator, keys, count);
    defer std.testing.allocator.free(expected);
    const wanted: usize = @intCast(@min(count, node.limit));
    try std.testing.expectEqualSlices(u32, expected[0..wanted], found[0..wanted]);
}

test "the best rows of every type, over lanes that come in any order" {
    var prng: std.Random.DefaultPrng = .init(31);
    const random = prng.random();
    for (0..150) |round| {
        var arena_state: Arena = .init(std.testing.allocator);
        defer arena_state.deinit();
        const arena = arena_state.allocator();
        const count: u32 = if (round % 3 == 0) 12_000 else 600;
        const key_count = 1 + random.uintLessThan(usize, 2);
        const fields = try arena.alloc(schema.Field, key_count + 1);
        const columns = try arena.alloc(Column, key_count + 1);
        const keys = try arena.alloc(plan_module.SortKey, key_count);
        for (keys, fields[0..key_count], columns[0..key_count], 0..) |*key, *field, *column, i| {
            const data_type = random_rows.types[(round + i * 7) % random_rows.types.len];
            field.* = .{ .name = "", .type = data_type };
            column.* = try random_rows.column(arena, random, data_type, count);
            key.* = .{
                .expression = .{ .type = data_type, .node = .{ .column = @intCast(i) } },
                .descending = random.boolean(),
                .nulls_first = random.boolean(),
            };
        }
        fields[key_count] = .{ .name = "", .type = .of(.i64) };
        columns[key_count] = try random_rows.numbers(arena, count);
        const limit: u64 = switch (random.uintLessThan(u8, 6)) {
            0 => 0,
            1 => 1,
            2 => 2000,
            3 => plan_module.unlimited,
            else => random.uintLessThan(u64, 100),
        };
        try expect_best(arena, random, columns, &.{ .keys = keys, .limit = limit }, fields);
    }
}

test "the best rows of inputs in order, in the opposite order and all alike" {
    var prng: std.Random.DefaultPrng = .init(32);
    const count = 20_000;
    for (0..6) |kind| {
        var arena_state: Arena = .init(std.testing.allocator);
        defer arena_state.deinit();
        const arena = arena_state.allocator();
        const values = try arena.alignedAlloc(i64, .@"16", count);
        for (values, 0..) |*value, i| value.* = switch (kind / 2) {
            0 => @intCast(i),
            1 => @intCast(count - i),
            else => 7,
        };
        const fields = [2]schema.Field{ .{ .name = "", .type = .of(.i64) }, .{ .name = "", .type = .of(.i64) } };
        const columns = [2]Column{
            .{ .type = .of(.i64), .row_count = count, .data = std.mem.sliceAsBytes(values) },
            try random_rows.numbers(arena, count),
        };
        var keys: [2]plan_module.SortKey = undefined;
        for (&keys, 0..) |*key, i| key.* = .{
            .expression = .{ .type = .of(.i64), .node = .{ .column = @intCast(i) } },
            .descending = i == 1,
            .nulls_first = false,
        };
        try expect_best(arena, prng.random(), &columns, &.{ .keys = keys[0 .. 1 + kind % 2], .limit = 10 }, &fields);
    }
}
