//! A plan's wire bytes → nodes, checked and typed.
//!
//! The host's planner writes it (querymode/engine/plan_bytes.py), yet it is treated like any other bytes:
//! every type, index and arity is checked here, once, so that operators may rely on them.
//!
//!     u32 magic "QMPL"   u32 ABI version
//!     u16 build count    count × u32 handle of a finished query that ends in `build`
//!     u16 column count   count × (u16 name length, name, type)          the input
//!     u16 node count     count × (u8 NodeTag, body)                     the steps, in order
//!
//! Each operator draws its own body (operator/), and parses it: a plan is read by a table of their rules.
//! Expressions are drawn in expression_parser.zig.
const std = @import("std");
const abi = @import("../abi.zig");
const expression_parser = @import("expression_parser.zig");
const interrupt = @import("../core/interrupt.zig");
const schema = @import("../core/schema.zig");
const step_module = @import("step.zig");
const Column = @import("../core/column.zig").Column;
const Cursor = @import("../core/cursor.zig").Cursor;
const Field = schema.Field;
const JoinTable = @import("../lookup/join_table.zig").JoinTable;
const Node = step_module.Node;
const ParseError = expression_parser.Error;
const Parser = expression_parser.Parser;
const Rules = step_module.Rules;
const refuse = expression_parser.refuse;

pub const Error = error{ InvalidPlan, InvalidFilter, InvalidAggregate, NotSupported, OutOfMemory };

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
pub fn parse(
    arena: std.mem.Allocator,
    bytes: []const u8,
    builds: []const *JoinTable,
    rules: *const Rules,
) Error!Plan {
    @setRuntimeSafety(true);
    var parser: Parser = .{ .arena = arena, .cursor = .init(bytes), .builds = builds };
    return parse_plan(&parser, rules) catch |err| switch (err) {
        error.InvalidFormat => {
            const is_described = interrupt.control.detail.message_size > 0;
            if (!is_described) interrupt.describe("the plan is cut short or malformed", .{});
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

fn parse_plan(self: *Parser, rules: *const Rules) ParseError!Plan {
    if (try self.cursor.read_int(u32) != abi.plan_magic) return refuse("not a plan", .{});
    const version = try self.cursor.read_int(u32);
    if (version != abi.version) return refuse("plan of ABI {d}, engine of ABI {d}", .{ version, abi.version });
    const build_count = try self.read_count(4);
    if (build_count != self.builds.len) {
        return refuse("a plan with {d} builds and {d} tables", .{ build_count, self.builds.len });
    }
    _ = try self.cursor.read_bytes(@as(u64, build_count) * @sizeOf(u32));
    const input = try self.arena.alloc(Field, try self.read_count(4));
    for (input) |*field| field.* = .{
        .name = try schema.read_name(&self.cursor),
        .type = try schema.read_type(&self.cursor, self.arena),
    };
    self.fields = input;
    const nodes = try self.arena.alloc(Node, try self.read_count(1));
    for (nodes, 0..) |*node, i| {
        node.* = try parse_node(self, rules);
        self.fields = node.output;
        const is_misplaced = switch (node.rule.facts.place) {
            .anywhere => false,
            .first => i != 0,
            .last => i + 1 != nodes.len,
        };
        if (!is_misplaced) continue;
        return refuse("a {s} that is not the {s} step", .{ @tagName(node.tag), @tagName(node.rule.facts.place) });
    }
    if (self.cursor.remaining() != 0) return refuse("bytes behind the plan's end", .{});
    return .{ .input = input, .nodes = nodes };
}

fn parse_node(self: *Parser, rules: *const Rules) ParseError!Node {
    const tag = try self.cursor.read_enum(abi.NodeTag);
    const rule = rules.getPtrConst(tag);
    const parsed = try rule.parse(self);
    return .{ .tag = tag, .rule = rule, .step = parsed.step, .output = parsed.output };
}
