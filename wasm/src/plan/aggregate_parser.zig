//! Aggregate steps on the wire → nodes, checked and typed. plan.zig draws the whole plan.
//!
//!     aggregate   u8 phase, u16 keys × (name, expression), u16 calls × (u8 op, name, u8 has argument, [expression])
const std = @import("std");
const abi = @import("../abi.zig");
const interrupt = @import("../core/interrupt.zig");
const schema = @import("../core/schema.zig");
const expression_module = @import("expression.zig");
const expression_parser = @import("expression_parser.zig");
const DataType = schema.DataType;
const Error = expression_parser.Error;
const Expression = expression_module.Expression;
const Field = schema.Field;
const Named = expression_parser.Named;
const Parser = expression_parser.Parser;
const refuse = expression_parser.refuse;

pub const AggregateCall = struct {
    op: abi.AggregateOp,
    name: []const u8,
    argument: ?Expression,
    /// Of the finished value.
    type: DataType,
    /// Of the running total of sum and avg: i128, f64 or decimal(38, s).
    state: DataType,
};

pub const Aggregate = struct {
    phase: abi.AggregatePhase,
    keys: []const Named,
    calls: []const AggregateCall,
};

pub const Parsed = struct { aggregate: Aggregate, output: []const Field };

pub fn parse_aggregate(self: *Parser) Error!Parsed {
    const phase = try self.cursor.read_enum(abi.AggregatePhase);
    const keys = try self.parse_named(try self.read_count(4));
    for (keys) |key| if (!expression_parser.is_groupable(key.expression.type)) {
        interrupt.describe("grouping by this type is not supported yet", .{});
        return error.NotSupported;
    };
    const calls = try self.arena.alloc(AggregateCall, try self.read_count(4));
    for (calls) |*call| call.* = try parse_call(self, phase);
    var fields: std.ArrayList(Field) = .empty;
    for (keys) |key| try fields.append(self.arena, .{ .name = key.name, .type = key.expression.type });
    for (calls) |call| {
        const state = phase == .partial and call.op != .min and call.op != .max;
        try fields.append(self.arena, .{ .name = call.name, .type = if (state) call.state else call.type });
        if (phase == .partial and call.op == .avg) try fields.append(self.arena, .{ .name = call.name, .type = .of(.i64) });
    }
    return .{ .aggregate = .{ .phase = phase, .keys = keys, .calls = calls }, .output = fields.items };
}

fn parse_call(self: *Parser, phase: abi.AggregatePhase) Error!AggregateCall {
    const op = try self.cursor.read_enum(abi.AggregateOp);
    const name = try schema.read_name(&self.cursor);
    const argument = if (try self.cursor.read_flag()) try self.parse_expression(0) else null;
    if ((argument == null) != (op == .count_rows and phase != .final)) return refuse("aggregate with the wrong number of arguments", .{});
    const given: DataType = if (argument) |expression| expression.type else .of(.null);
    const state = try state_type(op, given);
    if (phase == .final) try check_final(self, op, argument.?, state);
    return .{
        .op = op,
        .name = name,
        .argument = argument,
        .type = switch (op) {
            .min, .max => given,
            .avg => .of(.f64),
            else => state,
        },
        .state = state,
    };
}

/// A final aggregate reads what its partial twin wrote: one state column, two for avg.
fn check_final(self: *Parser, op: abi.AggregateOp, argument: Expression, state: DataType) Error!void {
    if (argument.node != .column) return refuse("a final aggregate reads a state column", .{});
    const next = argument.node.column + 1;
    switch (op) {
        .min, .max => {},
        .count_rows, .count => if (argument.type.tag != .i64) return refuse("a count's state is int64", .{}),
        .sum, .avg => if (!argument.type.eql(state)) return refuse("a sum's state has its own type", .{}),
    }
    if (op == .avg and (next >= self.fields.len or self.fields[next].type.tag != .i64)) return refuse("an average's second state is int64", .{});
}

/// The type of the running total, which also is a sum's result.
fn state_type(op: abi.AggregateOp, given: DataType) Error!DataType {
    switch (op) {
        .count_rows, .count => return .of(.i64),
        .min, .max => {
            if (expression_parser.is_orderable(given) and given.tag != .interval) return given;
        },
        .sum, .avg => switch (given.tag) {
            .i8, .i16, .i32, .i64, .i128, .u8, .u16, .u32, .u64 => return .of(.i128),
            .f16, .f32, .f64 => return .of(.f64),
            .decimal => return .{ .tag = .decimal, .precision = schema.decimal_precision_max, .scale = given.scale },
            .bool => if (op == .sum) return .of(.i128),
            else => {},
        },
    }
    interrupt.describe("{s} is not defined for this type", .{@tagName(op)});
    return error.InvalidAggregate;
}
