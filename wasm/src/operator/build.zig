//! The last step of a plan whose rows other plans look into: they go into a table.
//!
//!     build       u8 flags (`build_…`), u16 keys × expression                        only as the last step
//!
//! A build's columns are those that come in, its keys any expressions over them. A plan that ends here has
//! no rows for an answer, and is not run again once it is finished.
const std = @import("std");
const abi = @import("../abi.zig");
const expression_module = @import("../plan/expression.zig");
const expression_parser = @import("../plan/expression_parser.zig");
const interrupt = @import("../core/interrupt.zig");
const protocol = @import("protocol.zig");
const schema = @import("../core/schema.zig");
const step_module = @import("../plan/step.zig");
const Chunk = expression_module.Chunk;
const Error = protocol.Error;
const Expression = expression_module.Expression;
const JoinTable = @import("../lookup/join_table.zig").JoinTable;
const evaluate_keys = @import("join.zig").evaluate_keys;

pub const BuildOperator = struct {
    step: *const Step,
    rows: *JoinTable,

    pub const Step = struct {
        keys: []const Expression,
        nulls_equal: bool,
        /// Tests: a Bloom filter also where rows are few.
        with_filter: bool = false,
    };
    pub const tag: abi.NodeTag = .build;
    pub const facts: step_module.Facts = .{ .place = .last, .leaves = .anyhow, .blocks = true };

    pub fn parse(parser: *expression_parser.Parser) expression_parser.Error!step_module.Parsed(Step) {
        const flags = try parser.cursor.read_int(u8);
        if (flags & ~abi.build_null_equal != 0) return expression_parser.refuse("flags {d} of a build", .{flags});
        const keys = try parser.arena.alloc(Expression, try parser.read_count(3));
        for (keys) |*key| {
            key.* = try parser.parse_expression(0);
            if (!expression_parser.is_groupable(key.type)) {
                interrupt.describe("joining by this type is not supported yet", .{});
                return error.NotSupported;
            }
        }
        return .{ .step = .{
            .keys = keys,
            .nulls_equal = flags & abi.build_null_equal != 0,
        }, .output = &.{} };
    }

    pub fn open(opening: *const protocol.Opening, step: *const Step) Error!BuildOperator {
        const types = try opening.arena.alloc(schema.DataType, step.keys.len);
        const columns = try opening.arena.alloc(?u32, step.keys.len);
        for (types, columns, step.keys) |*data_type, *column, key| {
            data_type.* = key.type;
            column.* = if (key.node == .column) key.node.column else null;
        }
        const rows: *JoinTable = try .create(opening.gpa, opening.input, types, columns, .{
            .nulls_equal = step.nulls_equal,
            .with_filter = step.with_filter,
        });
        return .{ .step = step, .rows = rows };
    }

    pub fn push(self: *BuildOperator, arena: std.mem.Allocator, chunk: *Chunk, _: protocol.Flow) Error!protocol.Pushed {
        const keys = try evaluate_keys(arena, self.step.keys, chunk);
        const selected = if (chunk.selection) |selection| selection.bits else null;
        try self.rows.push(arena, chunk.columns, keys, chunk.row_count, selected);
        return .kept;
    }

    pub fn finish(self: *BuildOperator) Error!void {
        try self.rows.finish();
    }

    pub fn table(self: *const BuildOperator) *JoinTable {
        return self.rows;
    }

    pub fn size(self: *const BuildOperator) u64 {
        return self.rows.memory_size();
    }

    pub fn reset(_: *BuildOperator) Error!void {
        unreachable; // others look into the table: whoever pushes has been refused
    }

    pub fn close(self: *BuildOperator) void {
        self.rows.release();
    }
};
