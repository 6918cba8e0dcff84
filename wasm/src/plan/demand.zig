//! What a plan wants of its input, for whoever reads it: a scan decodes no more than that.
//!
//!     leading filters   steps that only choose rows, before anything else: a scan evaluates them itself
//!     used              columns that the steps behind them look at
//!     keys only         texts of which nothing is asked but which rows have the same: codes are enough
//!     extremes only     nothing is asked but the least and the greatest: a dictionary's entries are enough
const std = @import("std");
const Expression = @import("expression.zig").Expression;
const Field = @import("../core/schema.zig").Field;
const Node = @import("plan.zig").Node;

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
    @memset(used, following.len == 0);
    if (following.len == 0) return;
    switch (following[0].step) {
        .project => |items| for (items) |*item| item.expression.mark_columns(used),
        .aggregate => |*aggregate| {
            for (aggregate.keys) |*key| key.expression.mark_columns(used);
            for (aggregate.arguments) |*argument| argument.mark_columns(used);
        },
        .join => |*join| {
            for (join.keys) |*key| key.mark_columns(used);
            for (join.picks) |pick| if (pick.side == .input) {
                used[pick.column] = true;
            };
            if (join.residual) |residual| for (used, residual.named[0..used.len]) |*mark, named| {
                mark.* = mark.* or named;
            };
        },
        .filter, .sort, .limit, .gather, .partition, .merge, .repeat, .build, .digest => @memset(used, true),
    }
}

/// Marks inputs that are texts, and of which all steps up to an aggregate only pass on that they are its keys.
pub fn mark_keys(
    arena: std.mem.Allocator,
    input: []const Field,
    following: []const Node,
    keys: []bool,
) error{OutOfMemory}!void {
    for (keys, input) |*is_key, field| is_key.* = field.type.layout() == .bytes;
    // Which input a column of the current step is.
    var origins = try arena.alloc(?u32, keys.len);
    for (origins, 0..) |*origin, i| origin.* = @intCast(i);
    const reads = try arena.alloc(bool, keys.len);
    for (following) |*node| switch (node.step) {
        .filter => |*predicate| unmark(keys, origins, predicate),
        .project => |items| {
            const next = try arena.alloc(?u32, items.len);
            for (next, items) |*origin, *item| {
                origin.* = if (item.expression.node == .column) origins[item.expression.node.column] else null;
                if (origin.* == null) unmark(keys, origins, &item.expression);
            }
            origins = next;
        },
        .aggregate => |*aggregate| {
            for (aggregate.arguments) |*argument| unmark(keys, origins, argument);
            @memset(reads, false);
            for (aggregate.keys) |*key| {
                const origin = if (key.expression.node == .column) origins[key.expression.node.column] else null;
                if (origin) |at| reads[at] = true else unmark(keys, origins, &key.expression);
            }
            for (keys, reads) |*is_key, read| is_key.* = is_key.* and read;
            return;
        },
        else => break,
    };
    @memset(keys, false);
}

fn unmark(keys: []bool, origins: []const ?u32, expression: *const Expression) void {
    if (expression.node == .column) if (origins[expression.node.column]) |input| {
        keys[input] = false;
    };
    var children = expression.children();
    while (children.next()) |child| unmark(keys, origins, child);
}

/// Whether the steps behind the filters begin with one that asks for the least and the greatest values alone.
pub fn only_extremes(following: []const Node) bool {
    if (following.len == 0 or following[0].step != .aggregate) return false;
    const aggregate = &following[0].step.aggregate;
    if (aggregate.keys.len > 0 or aggregate.phase == .final) return false;
    for (aggregate.calls) |*call| if (call.op != .min and call.op != .max) return false;
    return true;
}
