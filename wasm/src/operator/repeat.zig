//! Every row as often as an expression says: INTERSECT ALL and EXCEPT ALL count rows and hand them
//! back this way.
//!
//!     repeat      expression (int64): rows per row; NULL, 0 and less: none
const std = @import("std");
const abi = @import("../abi.zig");
const column_module = @import("../core/column.zig");
const expression_module = @import("../plan/expression.zig");
const expression_parser = @import("../plan/expression_parser.zig");
const interrupt = @import("../core/interrupt.zig");
const protocol = @import("protocol.zig");
const step_module = @import("../plan/step.zig");
const Arena = @import("../core/arena.zig").Arena;
const Chunk = expression_module.Chunk;
const Error = protocol.Error;
const Expression = expression_module.Expression;

pub const RepeatOperator = struct {
    step: *const Step,
    /// What comes of a chunk may be far larger than it, so its memory is its own.
    scratch: Arena,
    /// The columns of the chunk that is being repeated, its rows, and room for some of them.
    columns: []const column_module.Column = &.{},
    repeater: Repeater = .{ .rows = &.{}, .left = &.{} },
    room: []u32 = &.{},

    pub const Step = Expression;
    pub const tag: abi.NodeTag = .repeat;
    pub const facts: step_module.Facts = .{};

    pub fn parse(parser: *expression_parser.Parser) expression_parser.Error!step_module.Parsed(Step) {
        const count = try parser.parse_expression(0);
        if (count.type.tag != .i64) return expression_parser.refuse("rows are repeated by an int64", .{});
        return .{ .step = count, .output = parser.fields };
    }

    pub fn open(opening: *const protocol.Opening, step: *const Step) Error!RepeatOperator {
        return .{ .step = step, .scratch = .init(opening.gpa) };
    }

    pub fn push(
        self: *RepeatOperator,
        arena: std.mem.Allocator,
        chunk: *Chunk,
        _: protocol.Flow,
    ) Error!protocol.Pushed {
        _ = self.scratch.reset(.free_all);
        self.repeater = try .init(arena, self.step, chunk);
        self.columns = chunk.columns;
        self.room = try arena.alloc(u32, expression_module.chunk_rows);
        return .in_pieces;
    }

    pub fn next(self: *RepeatOperator) Error!?protocol.Piece {
        try interrupt.check();
        const rows = self.repeater.next(self.room);
        if (rows.len > 0) return .{ .order = .{ .columns = self.columns, .rows = rows, .scratch = &self.scratch } };
        _ = self.scratch.reset(.free_all);
        return null;
    }

    pub fn size(self: *const RepeatOperator) u64 {
        return self.scratch.capacity();
    }

    pub fn reset(self: *RepeatOperator) Error!void {
        _ = self.scratch.reset(.free_all);
    }

    pub fn close(self: *RepeatOperator) void {
        self.scratch.deinit();
    }
};

const Repeater = struct {
    rows: []const u32,
    /// For each of `rows`, how often it still comes.
    left: []i64,
    at: usize = 0,

    pub fn init(
        arena: std.mem.Allocator,
        count: *const Expression,
        chunk: *const Chunk,
    ) expression_module.Error!Repeater {
        const counts = try expression_module.evaluate(arena, count, chunk);
        const rows = try chunk.selected_rows(arena);
        const left = try arena.alloc(i64, rows.len);
        for (left, rows) |*to, row| to.* = if (counts.is_valid(row)) counts.values(i64)[row] else 0;
        return .{ .rows = rows, .left = left };
    }

    /// The next rows of the chunk, as many as fit; none when all have come.
    pub fn next(self: *Repeater, target: []u32) []const u32 {
        var filled: usize = 0;
        while (self.at < self.rows.len and filled < target.len) {
            const left = &self.left[self.at];
            if (left.* <= 0) {
                self.at += 1;
                continue;
            }
            const count: usize = @intCast(@min(left.*, target.len - filled));
            @memset(target[filled..][0..count], self.rows[self.at]);
            filled += count;
            left.* -= @intCast(count);
        }
        return target[0..filled];
    }
};

test Repeater {
    const counts: [6]i64 align(16) = .{ 2, -1, std.math.minInt(i64), 5, 0, 1 };
    const column: column_module.Column = .{
        .type = .of(.i64),
        .row_count = 6,
        .validity = &.{0b1_1111},
        .data = std.mem.sliceAsBytes(&counts),
    };
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    const count: Expression = .{ .type = .of(.i64), .node = .{ .column = 0 } };
    var repeater: Repeater = try .init(arena.allocator(), &count, &.{ .row_count = 6, .columns = &.{column} });
    var room: [3]u32 = undefined;
    try std.testing.expectEqualSlices(u32, &.{ 0, 0, 3 }, repeater.next(&room));
    try std.testing.expectEqualSlices(u32, &.{ 3, 3, 3 }, repeater.next(&room));
    try std.testing.expectEqualSlices(u32, &.{3}, repeater.next(&room));
    try std.testing.expectEqualSlices(u32, &.{}, repeater.next(&room));
}
