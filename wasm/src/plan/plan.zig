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
//!     partition   u16 partition count ≥ 1, u16 keys × expression                      only as the last step
//!     merge       u8 bounds (1: has lower, 2: has upper), keys and limit as of sort,
//!                 [lower: a value per key], [upper: a value per key]                  only as the first step
//!     repeat      expression (int64): rows per row; NULL, 0 and less: none
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
const Arena = @import("../core/arena.zig").Arena;
const Cursor = @import("../core/cursor.zig").Cursor;
const Column = column_module.Column;
const Expression = expression_module.Expression;
const Field = schema.Field;
const JoinTable = @import("../lookup/join_table.zig").JoinTable;
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
pub const Partition = struct { count: u16, keys: []const Expression };
/// Rows from `lower` on, up to but without `upper`: a value per key.
pub const Merge = struct { sort: Sort, lower: ?[]const Column, upper: ?[]const Column };

pub const Step = union(abi.NodeTag) {
    filter: Expression,
    project: []const Named,
    aggregate: Aggregate,
    sort: Sort,
    limit: Limit,
    gather,
    join: Join,
    build: Build,
    partition: Partition,
    merge: Merge,
    repeat: Expression,
    digest,
};

pub const Node = struct {
    step: Step,
    /// What comes out of this step.
    output: []const Field,

    /// Of a step that only chooses rows: those for which this is TRUE.
    pub fn predicate(self: *const Node) ?*const Expression {
        return if (self.step == .filter) &self.step.filter else null;
    }
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
    for (nodes, 0..) |*node, i| {
        node.* = try parse_node(self);
        if (node.step == .build and i + 1 != nodes.len) return refuse("a step behind a build", .{});
        self.fields = node.output;
        if (node.step == .merge and i != 0) return refuse("a merge that is not the first step", .{});
        if (node.step == .partition and i + 1 != nodes.len) return refuse("a partition that is not the last step", .{});
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
        .sort => .{ .step = .{ .sort = try parse_sort(self) }, .output = self.fields },
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
        .partition => .{ .step = .{ .partition = try parse_partition(self) }, .output = self.fields },
        .merge => .{ .step = .{ .merge = try parse_merge(self) }, .output = self.fields },
        .repeat => {
            const count = try self.parse_expression(0);
            if (count.type.tag != .i64) return refuse("rows are repeated by an int64", .{});
            return .{ .step = .{ .repeat = count }, .output = self.fields };
        },
        .digest => .{ .step = .digest, .output = &digest_fields },
    };
}

fn named_fields(self: *Parser, items: []const Named) ParseError![]Field {
    const fields = try self.arena.alloc(Field, items.len);
    for (fields, items) |*field, item| field.* = .{ .name = item.name, .type = item.expression.type };
    return fields;
}

fn parse_sort(self: *Parser) ParseError!Sort {
    const keys = try self.arena.alloc(SortKey, try self.read_count(3));
    if (keys.len == 0) return refuse("a sort without keys", .{});
    for (keys) |*key| {
        const descending = try self.cursor.read_flag();
        const nulls_first = try self.cursor.read_flag();
        key.* = .{ .expression = try self.parse_expression(0), .descending = descending, .nulls_first = nulls_first };
        if (!expression_parser.is_orderable(key.expression.type)) return error.NotSupported;
    }
    return .{ .keys = keys, .limit = try self.cursor.read_int(u64) };
}

fn parse_partition(self: *Parser) ParseError!Partition {
    const count = try self.cursor.read_int(u16);
    if (count == 0) return refuse("no partition at all", .{});
    const keys = try self.arena.alloc(Expression, try self.read_count(2));
    for (keys) |*key| key.* = try self.parse_expression(0);
    return .{ .count = count, .keys = keys };
}

fn parse_merge(self: *Parser) ParseError!Merge {
    const bounds = try self.cursor.read_int(u8);
    if (bounds > 3) return refuse("a merge with unknown bounds", .{});
    const sort = try parse_sort(self);
    const lower = if (bounds & 1 != 0) try parse_bound(self, sort.keys) else null;
    const upper = if (bounds & 2 != 0) try parse_bound(self, sort.keys) else null;
    return .{ .sort = sort, .lower = lower, .upper = upper };
}

fn parse_bound(self: *Parser, keys: []const SortKey) ParseError![]const Column {
    const values = try self.arena.alloc(Column, keys.len);
    for (values, keys) |*value, key| {
        value.* = try self.parse_value();
        if (!value.type.eql(key.expression.type)) return refuse("a bound of another type than its key", .{});
    }
    return values;
}

fn expect_invalid(bytes: []const u8) !void {
    defer interrupt.forget();
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    try std.testing.expectError(error.InvalidPlan, parse(arena.allocator(), bytes, &.{}));
}

const header = [_]u8{ 'Q', 'M', 'P', 'L', abi.version, 0, 0, 0, 0, 0 };

test "a plan with a filter" {
    const bytes = header ++ [_]u8{ 1, 0, 1, 0, 'x', 1 } ++ // x int64
        [_]u8{ 1, 0, 1, 3, 4, 1, 0, 0, 2, 1, 0 } ++ [_]u8{ 5, 0, 0, 0, 0, 0, 0, 0 }; // x > 5
    var arena: Arena = .init(std.testing.allocator);
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

test "merges come first and partitions last" {
    const x = header ++ [_]u8{ 1, 0, 1, 0, 'x', 1 }; // x int64
    const all: [8]u8 = @splat(0xFF);
    const merge = [_]u8{ 10, 1, 1, 0, 0, 0, 1, 0, 0 } ++ all ++ [_]u8{ 1, 0, 5, 0, 0, 0, 0, 0, 0, 0 }; // from 5 on
    const partition = [_]u8{ 9, 4, 0, 1, 0, 1, 0, 0 };
    const repeat = [_]u8{ 11, 1, 0, 0 };
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    const bytes = x ++ [_]u8{ 3, 0 } ++ merge ++ repeat ++ partition;
    const plan = try parse(arena.allocator(), &bytes, &.{});
    try std.testing.expectEqual(5, plan.nodes[0].step.merge.lower.?[0].values(i64)[0]);
    try std.testing.expectEqual(null, plan.nodes[0].step.merge.upper);
    try std.testing.expectEqual(4, plan.nodes[2].step.partition.count);
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
