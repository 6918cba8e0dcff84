//! Every row as often as an expression says: INTERSECT ALL and EXCEPT ALL count rows and hand them
//! back this way.
const std = @import("std");
const expression_module = @import("../plan/expression.zig");
const Arena = @import("../core/arena.zig").Arena;
const Chunk = expression_module.Chunk;
const Expression = expression_module.Expression;

pub const Repeater = struct {
    rows: []const u32,
    /// For each of `rows`, how often it still comes.
    left: []i64,
    at: usize = 0,

    pub fn init(arena: std.mem.Allocator, count: *const Expression, chunk: *const Chunk) expression_module.Error!Repeater {
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
    const column: @import("../core/column.zig").Column = .{
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
