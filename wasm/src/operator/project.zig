//! New columns from old ones.
//!
//!     project     u16 count, count × (name, expression)
const std = @import("std");
const abi = @import("../abi.zig");
const column_builder = @import("../core/column_builder.zig");
const column_module = @import("../core/column.zig");
const demand = @import("../plan/demand.zig");
const expression_module = @import("../plan/expression.zig");
const expression_parser = @import("../plan/expression_parser.zig");
const protocol = @import("protocol.zig");
const schema = @import("../core/schema.zig");
const step_module = @import("../plan/step.zig");
const Chunk = expression_module.Chunk;
const Column = column_module.Column;
const Error = protocol.Error;

pub const ProjectOperator = struct {
    step: *const Step,

    pub const Step = []const expression_parser.Named;
    pub const tag: abi.NodeTag = .project;
    pub const facts: step_module.Facts = .{};

    pub fn parse(parser: *expression_parser.Parser) expression_parser.Error!step_module.Parsed(Step) {
        const items = try parser.parse_named(try parser.read_count(4));
        const fields = try parser.arena.alloc(schema.Field, items.len);
        for (fields, items) |*field, item| field.* = .{ .name = item.name, .type = item.expression.type };
        return .{ .step = items, .output = fields };
    }

    pub fn mark_used(step: *const Step, used: []bool) void {
        for (step.*) |*item| item.expression.mark_columns(used);
    }

    pub fn trace_keys(step: *const Step, trace: *demand.KeyTrace) error{OutOfMemory}!demand.KeyTrace.Found {
        const origins = try trace.arena.alloc(?u32, step.len);
        for (origins, step.*) |*origin, *item| {
            origin.* = trace.origin_of(&item.expression);
            if (origin.* == null) trace.unmark(&item.expression);
        }
        trace.origins = origins;
        return .goes_on;
    }

    /// Whether it only picks columns, and which.
    pub fn picks(step: *const Step, picked: []u32) bool {
        for (picked, step.*) |*column, item| {
            if (item.expression.node != .column) return false;
            column.* = item.expression.node.column;
        }
        return true;
    }

    pub fn open(_: *const protocol.Opening, step: *const Step) Error!ProjectOperator {
        return .{ .step = step };
    }

    pub fn push(
        self: *ProjectOperator,
        arena: std.mem.Allocator,
        chunk: *Chunk,
        _: protocol.Flow,
    ) Error!protocol.Pushed {
        chunk.* = try project(arena, self.step.*, chunk);
        return .goes_on;
    }

    pub fn size(_: *const ProjectOperator) u64 {
        return 0;
    }

    pub fn reset(_: *ProjectOperator) Error!void {}

    pub fn close(_: *ProjectOperator) void {}
};

/// Where something is computed, rows that a filter took out are left behind first: less to compute, and the
/// steps behind need no selection. Unless they are few: then moving the others costs more.
fn project(arena: std.mem.Allocator, items: []const expression_parser.Named, chunk: *const Chunk) Error!Chunk {
    var source = chunk.*;
    const leaves_most = if (chunk.selection) |selection| selection.count >= chunk.row_count / 8 * 7 else true;
    if (!leaves_most and !only_columns(items)) {
        const used = try arena.alloc(bool, chunk.columns.len);
        @memset(used, false);
        for (items) |*item| item.expression.mark_columns(used);
        var selected = chunk.selected(arena);
        const taken = try arena.alloc(Column, chunk.columns.len);
        for (taken, chunk.columns, used) |*to, *from, is_used| {
            to.* = if (is_used)
                try column_builder.take_selected(from, &selected)
            else
                .{ .type = from.type, .row_count = selected.count };
        }
        source = .{ .row_count = selected.count, .columns = taken };
    }
    const columns = try arena.alloc(Column, items.len);
    for (columns, items) |*column, *item| column.* = try expression_module.evaluate(arena, &item.expression, &source);
    return .{ .row_count = source.row_count, .columns = columns, .selection = source.selection };
}

fn only_columns(items: []const expression_parser.Named) bool {
    for (items) |item| if (item.expression.node != .column) return false;
    return true;
}
