//! A plan's wire bytes → nodes, checked and typed.
//!
//! The host's planner writes it (querymode/plan.py), yet it is treated like any other bytes: every
//! type, index and arity is checked here, once, so that operators may rely on them.
//!
//!     u32 magic "QMPL"   u32 ABI version
//!     u16 build count    count × u32 handle of a finished query that ends in `build`
//!     u16 column count   count × (u16 name length, name, type)          the input
//!     u16 node count     count × (u8 NodeTag, body)                     the steps, in order
//!
//!     filter      expression (bool)
//!     project     u16 count, count × (name, expression)
//!     aggregate   see aggregate_parser.zig
//!     sort        u16 keys × (u8 descending, u8 nulls first, expression), u64 limit (all bits set: none)
//!     limit       u64 offset, u64 count (all bits set: no end)
//!     gather      nothing
//!     join        see join_parser.zig
//!     build       see join_parser.zig; the last step
//!     digest      nothing
//!
//! Expressions are drawn in expression_parser.zig.
const std = @import("std");
const abi = @import("../abi.zig");
const aggregate_parser = @import("aggregate_parser.zig");
const column_module = @import("../core/column.zig");
const expression_module = @import("expression.zig");
const expression_parser = @import("expression_parser.zig");
const interrupt = @import("../core/interrupt.zig");
const join_parser = @import("join_parser.zig");
const schema = @import("../core/schema.zig");
const digest_fields = @import("../operator/digest.zig").fields;
const Cursor = @import("../core/cursor.zig").Cursor;
const Column = column_module.Column;
const Expression = expression_module.Expression;
const Field = schema.Field;
const JoinTable = @import("../operator/join_table.zig").JoinTable;
const ParseError = expression_parser.Error;
const Parser = expression_parser.Parser;
const refuse = expression_parser.refuse;

pub const Aggregate = aggregate_parser.Aggregate;
pub const AggregateCall = aggregate_parser.AggregateCall;
pub const Build = join_parser.Build;
pub const Join = join_parser.Join;
pub const Named = expression_parser.Named;

pub const Error = error{ InvalidPlan, InvalidFilter, InvalidAggregate, NotSupported, OutOfMemory };

/// "No limit" on the wire.
pub const unlimited: u64 = std.math.maxInt(u64);

pub const SortKey = struct { expression: Expression, descending: bool, nulls_first: bool };
pub const Sort = struct { keys: []const SortKey, limit: u64 };
pub const Limit = struct { offset: u64, count: u64 };

pub const Step = union(abi.NodeTag) {
    filter: Expression,
    project: []const Named,
    aggregate: Aggregate,
    sort: Sort,
    limit: Limit,
    gather,
    join: Join,
    build: Build,
    digest,
};

pub const Node = struct {
    step: Step,
    /// What comes out of this step.
    output: []const Field,
};

pub const Plan = struct {
    input: []const Field,
    nodes: []const Node,

    pub fn output(self: *const Plan) []const Field {
        return if (self.nodes.len == 0) self.input else self.nodes[self.nodes.len - 1].output;
    }
};

/// Handles of the builds that a plan names, before it is read: somebody else knows what they are.
pub fn build_handles(bytes: []const u8) error{InvalidPlan}![]align(1) const u32 {
    const start = 2 * @sizeOf(u32);
    // What is no plan names none; `parse` says what is wrong with it.
    if (bytes.len < start + 2 or std.mem.readInt(u32, bytes[0..4], .little) != abi.plan_magic) return &.{};
    const count = std.mem.readInt(u16, bytes[start..][0..2], .little);
    if (count > (bytes.len - start - 2) / @sizeOf(u32)) return error.InvalidPlan;
    return @as([*]align(1) const u32, @ptrCast(bytes.ptr + start + 2))[0..count];
}

/// Reads a plan. It points into `bytes`, which live as long as `arena`, and to `builds`, the tables
/// behind its handles.
pub fn parse(arena: std.mem.Allocator, bytes: []const u8, builds: []const *JoinTable) Error!Plan {
    @setRuntimeSafety(true);
    var parser: Parser = .{ .arena = arena, .cursor = .init(bytes), .builds = builds };
    return parse_plan(&parser) catch |err| switch (err) {
        error.InvalidFormat => {
            if (interrupt.control.detail.message_size == 0) interrupt.describe("the plan is cut short or malformed", .{});
            interrupt.describe_offset(parser.cursor.position);
            return error.InvalidPlan;
        },
        error.InvalidFilter => error.InvalidFilter,
        error.InvalidAggregate => error.InvalidAggregate,
        error.NotSupported => error.NotSupported,
        error.OutOfMemory => error.OutOfMemory,
    };
}

/// One value, as literals and constants of scans are written.
pub fn read_value(arena: std.mem.Allocator, cursor: *Cursor) Error!Column {
    var parser: Parser = .{ .arena = arena, .cursor = cursor.* };
    const value = parser.parse_value() catch |err| switch (err) {
        error.InvalidFormat, error.InvalidFilter, error.InvalidAggregate => return error.InvalidPlan,
        error.NotSupported => return error.NotSupported,
        error.OutOfMemory => return error.OutOfMemory,
    };
    cursor.* = parser.cursor;
    return value;
}

fn parse_plan(self: *Parser) ParseError!Plan {
    if (try self.cursor.read_int(u32) != abi.plan_magic) return refuse("not a plan", .{});
    const version = try self.cursor.read_int(u32);
    if (version != abi.version) return refuse("plan of ABI {d}, engine of ABI {d}", .{ version, abi.version });
    const build_count = try self.read_count(4);
    if (build_count != self.builds.len) return refuse("a plan with {d} builds and {d} tables", .{ build_count, self.builds.len });
    _ = try self.cursor.read_bytes(@as(u64, build_count) * @sizeOf(u32));
    const input = try self.arena.alloc(Field, try self.read_count(4));
    for (input) |*field| field.* = .{
        .name = try schema.read_name(&self.cursor),
        .type = try schema.read_type(&self.cursor, self.arena),
    };
    self.fields = input;
    const nodes = try self.arena.alloc(Node, try self.read_count(1));
    for (nodes, 1..) |*node, number| {
        node.* = try parse_node(self);
        if (node.step == .build and number < nodes.len) return refuse("a step behind a build", .{});
        self.fields = node.output;
    }
    if (self.cursor.remaining() != 0) return refuse("bytes behind the plan's end", .{});
    return .{ .input = input, .nodes = nodes };
}

fn parse_node(self: *Parser) ParseError!Node {
    return switch (try self.cursor.read_enum(abi.NodeTag)) {
        .filter => .{ .step = .{ .filter = try self.parse_predicate(0) }, .output = self.fields },
        .project => {
            const items = try self.parse_named(try self.read_count(4));
            return .{ .step = .{ .project = items }, .output = try named_fields(self, items) };
        },
        .aggregate => {
            const parsed = try aggregate_parser.parse_aggregate(self);
            return .{ .step = .{ .aggregate = parsed.aggregate }, .output = parsed.output };
        },
        .sort => parse_sort(self),
        .limit => .{ .step = .{ .limit = .{
            .offset = try self.cursor.read_int(u64),
            .count = try self.cursor.read_int(u64),
        } }, .output = self.fields },
        .gather => .{ .step = .gather, .output = self.fields },
        .join => {
            const parsed = try join_parser.parse_join(self);
            return .{ .step = .{ .join = parsed.join }, .output = parsed.output };
        },
        .build => .{ .step = .{ .build = try join_parser.parse_build_step(self) }, .output = &.{} },
        .digest => .{ .step = .digest, .output = &digest_fields },
    };
}

fn named_fields(self: *Parser, items: []const Named) ParseError![]Field {
    const fields = try self.arena.alloc(Field, items.len);
    for (fields, items) |*field, item| field.* = .{ .name = item.name, .type = item.expression.type };
    return fields;
}

fn parse_sort(self: *Parser) ParseError!Node {
    const keys = try self.arena.alloc(SortKey, try self.read_count(3));
    if (keys.len == 0) return refuse("a sort without keys", .{});
    for (keys) |*key| {
        const descending = try self.cursor.read_flag();
        const nulls_first = try self.cursor.read_flag();
        key.* = .{ .expression = try self.parse_expression(0), .descending = descending, .nulls_first = nulls_first };
        if (!expression_parser.is_orderable(key.expression.type)) return error.NotSupported;
    }
    const limit = try self.cursor.read_int(u64);
    return .{ .step = .{ .sort = .{ .keys = keys, .limit = limit } }, .output = self.fields };
}

fn expect_invalid(bytes: []const u8) !void {
    defer interrupt.forget();
    var arena: std.heap.ArenaAllocator = .init(std.testing.allocator);
    defer arena.deinit();
    try std.testing.expectError(error.InvalidPlan, parse(arena.allocator(), bytes, &.{}));
}

const header = [_]u8{ 'Q', 'M', 'P', 'L', abi.version, 0, 0, 0, 0, 0 };

test "a plan with a filter" {
    const bytes = header ++ [_]u8{ 1, 0, 1, 0, 'x', 1 } ++ // x int64
        [_]u8{ 1, 0, 1, 3, 4, 1, 0, 0, 2, 1, 0 } ++ [_]u8{ 5, 0, 0, 0, 0, 0, 0, 0 }; // x > 5
    var arena: std.heap.ArenaAllocator = .init(std.testing.allocator);
    defer arena.deinit();
    const plan = try parse(arena.allocator(), &bytes, &.{});
    try std.testing.expectEqual(1, plan.nodes.len);
    try std.testing.expectEqual(abi.CompareOp.gt, plan.nodes[0].step.filter.node.compare.op);
    for (0..bytes.len) |size| try expect_invalid(bytes[0..size]);
}

test "wrong types and indices are refused" {
    // x utf8 > 5
    try expect_invalid(&(header ++ [_]u8{ 1, 0, 1, 0, 'x', 2, 1, 0, 1, 3, 4, 1, 0, 0, 2, 1, 0, 5, 0, 0, 0, 0, 0, 0, 0 }));
    // column 1 of 1
    try expect_invalid(&(header ++ [_]u8{ 1, 0, 1, 0, 'x', 3, 1, 0, 1, 1, 1, 0 }));
    // a filter that is not a boolean
    try expect_invalid(&(header ++ [_]u8{ 1, 0, 1, 0, 'x', 1, 1, 0, 1, 1, 0, 0 }));
}

test "deep nesting is refused, not followed" {
    var bytes: [header.len + 9 + 4096]u8 = undefined;
    @memcpy(bytes[0 .. header.len + 9], &(header ++ [_]u8{ 1, 0, 1, 0, 'x', 3, 1, 0, 1 }));
    @memset(bytes[header.len + 9 ..], @backingInt(abi.ExpressionTag.logical_not));
    try expect_invalid(&bytes);
}
