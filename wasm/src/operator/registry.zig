//! The operators that there are. A new one is a file that keeps to protocol.zig, its number in abi.zig and a
//! line here.
const std = @import("std");
const abi = @import("../abi.zig");
const expression_module = @import("../plan/expression.zig");
const protocol = @import("protocol.zig");
const step_module = @import("../plan/step.zig");
const Chunk = expression_module.Chunk;
const Error = protocol.Error;
const JoinTable = @import("../lookup/join_table.zig").JoinTable;
const Node = step_module.Node;
const assert = std.debug.assert;

pub const Operator = union(abi.NodeTag) {
    filter: @import("filter.zig").FilterOperator,
    project: @import("project.zig").ProjectOperator,
    aggregate: @import("aggregate.zig").AggregateOperator,
    sort: @import("sort.zig").SortOperator,
    limit: @import("limit.zig").LimitOperator,
    gather: @import("gather.zig").GatherOperator,
    join: @import("join.zig").JoinOperator,
    build: @import("build.zig").BuildOperator,
    partition: @import("partition.zig").PartitionOperator,
    merge: @import("merge.zig").MergeOperator,
    repeat: @import("repeat.zig").RepeatOperator,
    digest: @import("digest.zig").DigestOperator,

    pub fn open(opening: *const protocol.Opening, node: *const Node) Error!Operator {
        switch (node.tag) {
            inline else => |tag| {
                const T = @FieldType(Operator, @tagName(tag));
                return @unionInit(Operator, @tagName(tag), try T.open(opening, node.as(T).?));
            },
        }
    }

    pub inline fn push(
        self: *Operator,
        arena: std.mem.Allocator,
        chunk: *Chunk,
        flow: protocol.Flow,
    ) Error!protocol.Pushed {
        switch (self.*) {
            inline else => |*operator| return operator.push(arena, chunk, flow),
        }
    }

    /// The input has ended; `next` gives what comes of that.
    pub fn finish(self: *Operator) Error!void {
        switch (self.*) {
            inline else => |*operator| if (@hasDecl(@TypeOf(operator.*), "finish")) return operator.finish(),
        }
    }

    pub fn next(self: *Operator) Error!?protocol.Piece {
        switch (self.*) {
            inline else => |*operator| return if (@hasDecl(@TypeOf(operator.*), "next")) operator.next() else null,
        }
    }

    /// Bytes that its state holds now.
    pub fn size(self: *const Operator) u64 {
        switch (self.*) {
            inline else => |*operator| return operator.size(),
        }
    }

    /// Forgets all rows, for the next lane.
    pub fn reset(self: *Operator) Error!void {
        switch (self.*) {
            inline else => |*operator| return operator.reset(),
        }
    }

    pub fn close(self: *Operator) void {
        switch (self.*) {
            inline else => |*operator| operator.close(),
        }
    }

    pub fn facts(self: *const Operator) *const step_module.Facts {
        return &rules.getPtrConst(self.*).facts;
    }

    /// Nothing that comes changes anything any more.
    pub inline fn is_used_up(self: *const Operator) bool {
        switch (self.*) {
            inline else => |*operator| {
                return if (@hasDecl(@TypeOf(operator.*), "is_used_up")) operator.is_used_up() else false;
            },
        }
    }

    /// How many rows at a time are best for it.
    pub fn chunk_rows(self: *const Operator, row_count: u32) u32 {
        switch (self.*) {
            inline else => |*operator| return if (@hasDecl(@TypeOf(operator.*), "chunk_rows"))
                operator.chunk_rows(row_count)
            else
                expression_module.chunk_rows,
        }
    }

    /// What a plan that ends here has built.
    pub fn table(self: *const Operator) ?*JoinTable {
        switch (self.*) {
            inline else => |*operator| return if (@hasDecl(@TypeOf(operator.*), "table")) operator.table() else null,
        }
    }
};

/// By which plans are read and asked.
pub const rules: step_module.Rules = blk: {
    var table: step_module.Rules = undefined;
    for (std.enums.values(abi.NodeTag)) |tag| {
        const T = @FieldType(Operator, @tagName(tag));
        assert(T.tag == tag);
        table.set(tag, protocol.rule_of(T));
    }
    break :blk table;
};

const interrupt = @import("../core/interrupt.zig");
const plan_module = @import("../plan/plan.zig");
const Arena = @import("../core/arena.zig").Arena;

fn expect_invalid(bytes: []const u8) !void {
    defer interrupt.forget();
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    try std.testing.expectError(error.InvalidPlan, plan_module.parse(arena.allocator(), bytes, &.{}, &rules));
}

const header = [_]u8{ 'Q', 'M', 'P', 'L', abi.version, 0, 0, 0, 0, 0 };

test "a plan with a filter" {
    const bytes = header ++ [_]u8{ 1, 0, 1, 0, 'x', 1 } ++ // x int64
        [_]u8{ 1, 0, 1, 3, 4, 1, 0, 0, 2, 1, 0 } ++ [_]u8{ 5, 0, 0, 0, 0, 0, 0, 0 }; // x > 5
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    const plan = try plan_module.parse(arena.allocator(), &bytes, &.{}, &rules);
    try std.testing.expectEqual(1, plan.nodes.len);
    try std.testing.expectEqual(abi.CompareOp.gt, plan.nodes[0].predicate().?.node.compare.op);
    for (0..bytes.len) |size| try expect_invalid(bytes[0..size]);
}

test "wrong types and indices are refused" {
    // x utf8 > 5
    try expect_invalid(
        &(header ++ [_]u8{ 1, 0, 1, 0, 'x', 2, 1, 0, 1, 3, 4, 1, 0, 0, 2, 1, 0, 5, 0, 0, 0, 0, 0, 0, 0 }),
    );
    // column 1 of 1
    try expect_invalid(&(header ++ [_]u8{ 1, 0, 1, 0, 'x', 3, 1, 0, 1, 1, 1, 0 }));
    // a filter that is not a boolean
    try expect_invalid(&(header ++ [_]u8{ 1, 0, 1, 0, 'x', 1, 1, 0, 1, 1, 0, 0 }));
}

test "merges come first and partitions last" {
    const x = header ++ [_]u8{ 1, 0, 1, 0, 'x', 1 }; // x int64
    const all: [8]u8 = @splat(0xFF);
    const merge = [_]u8{ 10, 1, 1, 0, 0, 0, 1, 0, 0 } ++ all ++ [_]u8{ 1, 0, 5, 0, 0, 0, 0, 0, 0, 0 }; // from 5 on
    const partition = [_]u8{ 9, 4, 0, 1, 0, 1, 0, 0 };
    const repeat = [_]u8{ 11, 1, 0, 0 };
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    const bytes = x ++ [_]u8{ 3, 0 } ++ merge ++ repeat ++ partition;
    const plan = try plan_module.parse(arena.allocator(), &bytes, &.{}, &rules);
    const parsed = plan.nodes[0].as(@FieldType(Operator, "merge")).?;
    try std.testing.expectEqual(5, parsed.lower.?[0].values(i64)[0]);
    try std.testing.expectEqual(null, parsed.upper);
    try std.testing.expectEqual(4, plan.nodes[2].as(@FieldType(Operator, "partition")).?.count);
    for (0..bytes.len) |size| try expect_invalid(bytes[0..size]);
    try expect_invalid(&(x ++ [_]u8{ 2, 0 } ++ repeat ++ merge));
    try expect_invalid(&(x ++ [_]u8{ 2, 0 } ++ partition ++ repeat));
    // no partition, unknown bounds, a bound of another type, repeated by a bool
    try expect_invalid(&(x ++ [_]u8{ 1, 0, 9, 0, 0, 1, 0, 1, 0, 0 }));
    try expect_invalid(&(x ++ [_]u8{ 1, 0, 10, 4, 1, 0, 0, 0, 1, 0, 0 } ++ all));
    try expect_invalid(&(x ++ [_]u8{ 1, 0, 10, 1, 1, 0, 0, 0, 1, 0, 0 } ++ all ++ [_]u8{ 6, 0, 5, 0, 0, 0 }));
    try expect_invalid(&(header ++ [_]u8{ 1, 0, 1, 0, 'x', 3, 1, 0 } ++ repeat));
}

test "deep nesting is refused, not followed" {
    var bytes: [header.len + 9 + 4096]u8 = undefined;
    @memcpy(bytes[0 .. header.len + 9], &(header ++ [_]u8{ 1, 0, 1, 0, 'x', 3, 1, 0, 1 }));
    @memset(bytes[header.len + 9 ..], @backingInt(abi.ExpressionTag.logical_not));
    try expect_invalid(&bytes);
}
