//! Sort and top-k: collects rows, orders them when the input ends.
//!
//! With a limit k the collection is cut back to the best k rows whenever it has grown to several
//! times that, and rows that are behind the k-th best are not even collected (top_k.zig). Equal rows
//! keep their input order, so a sort of sorted runs, pushed one behind the other, is a stable merge
//! of them.
//!
//!     sort        u16 keys × (u8 descending, u8 nulls first, expression), u64 limit (all bits set: none)
const std = @import("std");
const abi = @import("../abi.zig");
const column_builder = @import("../core/column_builder.zig");
const column_module = @import("../core/column.zig");
const expression_module = @import("../plan/expression.zig");
const expression_parser = @import("../plan/expression_parser.zig");
const keyed_rows = @import("keyed_rows.zig");
const protocol = @import("protocol.zig");
const row_order = @import("row_order.zig");
const schema = @import("../core/schema.zig");
const step_module = @import("../plan/step.zig");
const Arena = @import("../core/arena.zig").Arena;
const Chunk = expression_module.Chunk;
const Column = column_module.Column;
const ColumnBuilder = column_builder.ColumnBuilder;
const Error = protocol.Error;
const KeyedRows = keyed_rows.KeyedRows;
const SortKey = step_module.SortKey;
const TopK = @import("top_k.zig").TopK;

/// Rows collected beyond a few times the limit before cutting back.
const prune_rows = 2048;

pub const SortOperator = struct {
    gpa: std.mem.Allocator,
    keyed: KeyedRows,
    rows: []ColumnBuilder,
    row_count: u32 = 0,
    /// Of sorts with a limit.
    top_k: ?TopK,
    has_ended: bool = false,
    /// The answer, while it is taken.
    answer: Arena,
    order: []u32 = &.{},

    pub const Step = struct { keys: []const SortKey, limit: u64 };
    pub const tag: abi.NodeTag = .sort;
    pub const facts: step_module.Facts = .{ .leaves = .by_keys, .blocks = true };

    pub fn parse(parser: *expression_parser.Parser) expression_parser.Error!step_module.Parsed(Step) {
        return .{ .step = try parse_step(parser), .output = parser.fields };
    }

    /// Keys and limit: those of a merge of sorted runs too.
    pub fn parse_step(parser: *expression_parser.Parser) expression_parser.Error!Step {
        const keys = try parser.arena.alloc(SortKey, try parser.read_count(3));
        if (keys.len == 0) return expression_parser.refuse("a sort without keys", .{});
        for (keys) |*key| {
            const descending = try parser.cursor.read_flag();
            const nulls_first = try parser.cursor.read_flag();
            const expression = try parser.parse_expression(0);
            key.* = .{ .expression = expression, .descending = descending, .nulls_first = nulls_first };
            if (!expression_parser.is_orderable(key.expression.type)) return error.NotSupported;
        }
        return .{ .keys = keys, .limit = try parser.cursor.read_int(u64) };
    }

    pub fn open(opening: *const protocol.Opening, step: *const Step) Error!SortOperator {
        const gpa = opening.gpa;
        const keyed: KeyedRows = try .init(opening.arena, step.keys, opening.input);
        const rows = try keyed.open_builders(gpa, opening.arena);
        errdefer for (rows) |*builder| builder.deinit();
        const limit = std.math.cast(u32, step.limit);
        const top_k: ?TopK = if (limit) |count| try .init(gpa, opening.arena, keyed, count) else null;
        return .{ .gpa = gpa, .keyed = keyed, .rows = rows, .top_k = top_k, .answer = .init(gpa) };
    }

    pub fn close(self: *SortOperator) void {
        self.release_answer();
        for (self.rows) |*builder| builder.deinit();
        if (self.top_k) |*top_k| top_k.deinit();
    }

    fn release_answer(self: *SortOperator) void {
        self.gpa.free(self.order);
        self.order = &.{};
        _ = self.answer.reset(.free_all);
    }

    pub fn reset(self: *SortOperator) Error!void {
        self.has_ended = false;
        self.release_answer();
        for (self.rows) |*builder| builder.reset();
        self.row_count = 0;
        if (self.top_k) |*top_k| top_k.next_lane();
    }

    pub fn size(self: *const SortOperator) u64 {
        const bound = if (self.top_k) |*top_k| top_k.memory_size() else 0;
        return keyed_rows.size(self.rows) + bound + self.answer.capacity() + self.order.len * @sizeOf(u32);
    }

    /// Where rows are only kept, or only compared with a bound as they lie, chunks need not fit the cache.
    pub fn chunk_rows(self: *const SortOperator, row_count: u32) u32 {
        if (!self.keyed.is_plain()) return expression_module.chunk_rows;
        return if (self.top_k == null) row_count else expression_module.reduce_rows;
    }

    pub fn push(self: *SortOperator, arena: std.mem.Allocator, chunk: *Chunk, _: protocol.Flow) Error!protocol.Pushed {
        try self.take(arena, chunk);
        return .kept;
    }

    fn take(self: *SortOperator, arena: std.mem.Allocator, chunk: *const Chunk) Error!void {
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
            if (rows) |some| {
                try builder.append_indices(column, some);
            } else {
                try builder.append_range(column, 0, chunk.row_count);
            }
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

    pub fn finish(self: *SortOperator) Error!void {
        self.has_ended = true;
    }

    /// All rows in order: the collected columns, and which of their rows to read.
    pub fn next(self: *SortOperator) Error!?protocol.Piece {
        if (!self.has_ended) {
            self.release_answer();
            return null;
        }
        self.has_ended = false;
        const arena = self.answer.allocator();
        const columns = try keyed_rows.collected(arena, self.rows);
        self.order = try row_order.sorted_rows(self.gpa, try self.keyed.order(arena, columns), self.row_count);
        const limit: usize = if (self.top_k) |top_k| @min(top_k.limit, self.order.len) else self.order.len;
        return .{ .order = .{ .columns = columns[0..self.keyed.input_count], .rows = self.order[0..limit] } };
    }
};

const random_rows = @import("random_rows.zig");

/// Sorts lanes of random rows, in any order of lanes, and compares the best of all with a plain sort.
fn expect_best(
    arena: std.mem.Allocator,
    random: std.Random,
    columns: []const Column,
    node: *const SortOperator.Step,
    fields: []const schema.Field,
) !void {
    const count = columns[0].row_count;
    var operator: SortOperator = try .open(&.{ .gpa = std.testing.allocator, .arena = arena, .input = fields }, node);
    defer operator.close();
    const lane_count = 3;
    const answers = try arena.alloc([]const u32, lane_count);
    const order = [lane_count]usize{ 2, 0, 1 };
    for (order) |lane| {
        const first = count / lane_count * lane;
        const last = if (lane + 1 == lane_count) count else count / lane_count * (lane + 1);
        try operator.reset();
        var start: usize = first;
        while (start < last) {
            const size = @min(last - start, 1 + random.uintLessThan(usize, 3000));
            const rows = try arena.alloc(u32, size);
            for (rows, start..) |*row, i| row.* = @intCast(i);
            const taken = try random_rows.taken(arena, columns, rows);
            try operator.take(arena, &.{ .row_count = @intCast(size), .columns = taken });
            start += size;
        }
        try operator.finish();
        const sorted = (try operator.next()).?.order;
        const numbers = sorted.columns[sorted.columns.len - 1].values(i64);
        const best = try arena.alloc(u32, sorted.rows.len);
        try std.testing.expect(operator.size() >= best.len * @sizeOf(u32));
        for (best, sorted.rows) |*to, row| to.* = @intCast(numbers[row]);
        try std.testing.expectEqual(null, try operator.next());
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
        const keys = try arena.alloc(SortKey, key_count);
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
            3 => step_module.unlimited,
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
        var keys: [2]SortKey = undefined;
        for (&keys, 0..) |*key, i| key.* = .{
            .expression = .{ .type = .of(.i64), .node = .{ .column = @intCast(i) } },
            .descending = i == 1,
            .nulls_first = false,
        };
        try expect_best(arena, prng.random(), &columns, &.{ .keys = keys[0 .. 1 + kind % 2], .limit = 10 }, &fields);
    }
}
