//! What a plan wants of its input, for whoever reads it: a scan decodes no more than that.
//!
//!     leading filters   steps that only choose rows, before anything else: a scan evaluates them itself
//!     used              columns that the steps behind them look at
//!     keys only         texts of which nothing is asked but which rows have the same: codes are enough
//!     extremes only     nothing is asked but the least and the greatest: a dictionary's entries are enough
//!
//! The steps answer, each by its rule (step.zig).
const std = @import("std");
const Expression = @import("expression.zig").Expression;
const Field = @import("../core/schema.zig").Field;
const Node = @import("step.zig").Node;

/// How many steps before all others are filters.
pub fn leading_filters(nodes: []const Node) usize {
    for (nodes, 0..) |*node, i| if (node.predicate() == null) return i;
    return nodes.len;
}

/// Marks the inputs that filters read.
pub fn mark_filtered(filters: []const Node, filtered: []bool) void {
    @memset(filtered, false);
    for (filters) |*node| node.predicate().?.mark_columns(filtered);
}

/// Marks the inputs that steps behind the filters name: all of them, until a step makes columns of its own.
pub fn mark_used(following: []const Node, used: []bool) void {
    const mark = if (following.len == 0) null else following[0].rule.mark_used;
    @memset(used, mark == null);
    if (mark) |found| found(following[0].step, used);
}

/// Which inputs only serve as keys, followed from step to step.
pub const KeyTrace = struct {
    arena: std.mem.Allocator,
    /// By input: nothing so far asks for more.
    keys: []bool,
    /// Which input each column of the current step is, if it is one.
    origins: []const ?u32,

    /// Whether the steps behind have a say, or it is clear which inputs are keys.
    pub const Found = enum { goes_on, settled };

    pub fn origin_of(self: *const KeyTrace, expression: *const Expression) ?u32 {
        return if (expression.node == .column) self.origins[expression.node.column] else null;
    }

    /// An expression looks at values: what it reads is more than a key.
    pub fn unmark(self: *KeyTrace, expression: *const Expression) void {
        if (self.origin_of(expression)) |input| self.keys[input] = false;
        var children = expression.children();
        while (children.next()) |child| self.unmark(child);
    }
};

/// Marks inputs that are texts, and of which all steps up to an aggregate only pass on that they are its keys.
pub fn mark_keys(
    arena: std.mem.Allocator,
    input: []const Field,
    following: []const Node,
    keys: []bool,
) error{OutOfMemory}!void {
    for (keys, input) |*is_key, field| is_key.* = field.type.layout() == .bytes;
    const origins = try arena.alloc(?u32, keys.len);
    for (origins, 0..) |*origin, i| origin.* = @intCast(i);
    var trace: KeyTrace = .{ .arena = arena, .keys = keys, .origins = origins };
    for (following) |*node| {
        const follow = node.rule.trace_keys orelse break;
        if (try follow(node.step, &trace) == .settled) return;
    }
    @memset(keys, false);
}

/// Whether the steps behind the filters begin with one that asks for the least and the greatest values alone.
pub fn only_extremes(following: []const Node) bool {
    const ask = if (following.len == 0) return false else following[0].rule.only_extremes orelse return false;
    return ask(following[0].step);
}
