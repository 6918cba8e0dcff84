//! Aggregate steps on the wire → steps, checked and typed. plan/plan.zig draws the whole plan.
//!
//!     aggregate   u8 phase, u32 group limit (0: none; partial only; `abi.rows_pass`, `abi.rows_in_order` beside
//!                 it), u16 keys × (name, expression),
//!                 u16 calls × (u8 op, u8 flags (1: distinct, 2: has filter), name, u8 argument count, expressions,
//!                              [filter expression (bool)])
//!
//! Arguments of a complete or partial call: nothing for count_rows; value and separator (literal text, NULL
//! makes every answer NULL) for string_agg; value and fraction (literal float64 or decimal, −1 … 1, below
//! 0 counted from the greatest down) for percentiles; one value for the others. A final call names its
//! partial twin's state columns, in order, and string_agg its separator behind them. Which types an aggregate
//! takes and gives, and what its states are, stands in its rule (accumulator.zig).
//!
//! Medians, percentiles and DISTINCT need all rows of a group in one place: they exist only in phase complete.
//! So that the rules for types are in one place, the planner casts: variances take float64; medians and
//! continuous percentiles take what has values in between (floats, decimals, times, timestamps), and a median
//! of anything else that has an order is the lower one of the middle.
const std = @import("std");
const abi = @import("../abi.zig");
const accumulator = @import("accumulator.zig");
const interrupt = @import("../core/interrupt.zig");
const schema = @import("../core/schema.zig");
const column_module = @import("../core/column.zig");
const expression_module = @import("../plan/expression.zig");
const expression_parser = @import("../plan/expression_parser.zig");
const step_module = @import("../plan/step.zig");
const DataType = schema.DataType;
const Error = expression_parser.Error;
const Expression = expression_module.Expression;
const Field = schema.Field;
const Named = expression_parser.Named;
const Op = abi.AggregateOp;
const Parser = expression_parser.Parser;
const Rule = accumulator.Rule;
const refuse = expression_parser.refuse;
const rules = &accumulator.rules;

pub const AggregateCall = struct {
    op: Op,
    name: []const u8,
    /// Its value, or a final call's states, among `Aggregate.arguments`.
    arguments: []const u32,
    /// Rows for which this is TRUE are seen; among `Aggregate.arguments`.
    filter: ?u32 = null,
    distinct: bool = false,
    /// string_agg's; null: every answer is NULL.
    separator: ?[]const u8 = null,
    fraction: Fraction = .half,
    /// Of the finished value.
    type: DataType,
    states: []const DataType,
};

/// A fraction as it was written: decimal fractions count exactly.
pub const Fraction = struct {
    float: f64,
    /// The same as a quotient; divisor 0 when it was a float.
    dividend: i64 = 0,
    divisor: i64 = 0,
    /// From the greatest value down.
    descending: bool = false,

    pub const half: Fraction = .{ .float = 0.5, .dividend = 1, .divisor = 2 };
};

pub const Aggregate = struct {
    phase: abi.AggregatePhase,
    /// Groups that make a partial aggregate hand over what it has and start anew; 0: never.
    group_limit: u32,
    /// Rows may leave as they are, where grouping does not make them fewer.
    rows_pass: bool = false,
    /// Floats are added in the order of their rows.
    in_order: bool = false,
    keys: []const Named,
    /// Every expression that calls name, once.
    arguments: []const Expression,
    calls: []const AggregateCall,
};

pub fn parse(self: *Parser) Error!step_module.Parsed(Aggregate) {
    @setRuntimeSafety(true);
    const phase = try self.cursor.read_enum(abi.AggregatePhase);
    const limit = try self.cursor.read_int(u32);
    const group_limit = limit & ~(abi.rows_pass | abi.rows_in_order);
    if (limit & ~abi.rows_in_order != 0 and phase != .partial) {
        return refuse("a group limit is for partial aggregates", .{});
    }
    const keys = try self.parse_named(try self.read_count(4));
    for (keys) |key| if (!expression_parser.is_groupable(key.expression.type)) {
        interrupt.describe("grouping by this type is not supported yet", .{});
        return error.NotSupported;
    };
    const calls = try self.arena.alloc(AggregateCall, try self.read_count(5));
    var arguments: Arguments = .{};
    for (calls) |*call| call.* = try parse_call(self, &arguments, phase);
    return .{
        .step = .{
            .phase = phase,
            .group_limit = group_limit,
            .rows_pass = limit & abi.rows_pass != 0,
            .in_order = limit & abi.rows_in_order != 0,
            .keys = keys,
            .arguments = arguments.expressions.items,
            .calls = calls,
        },
        .output = try output_fields(self.arena, phase, keys, calls),
    };
}

fn output_fields(
    arena: std.mem.Allocator,
    phase: abi.AggregatePhase,
    keys: []const Named,
    calls: []const AggregateCall,
) Error![]const Field {
    var fields: std.ArrayList(Field) = .empty;
    for (keys) |key| try fields.append(arena, .{ .name = key.name, .type = key.expression.type });
    for (calls) |call| {
        if (phase != .partial) {
            try fields.append(arena, .{ .name = call.name, .type = call.type });
        } else for (call.states) |state| {
            try fields.append(arena, .{ .name = call.name, .type = state });
        }
    }
    return fields.items;
}

/// Expressions that are written alike are one: sum(x) and avg(x) compute x once.
const Arguments = struct {
    expressions: std.ArrayList(Expression) = .empty,
    known: std.StringHashMapUnmanaged(u32) = .empty,

    fn parse(self: *Arguments, parser: *Parser) Error!u32 {
        const start = parser.cursor.position;
        const expression = try parser.parse_expression(0);
        const entry = try self.known.getOrPut(parser.arena, parser.cursor.bytes[start..parser.cursor.position]);
        if (!entry.found_existing) {
            entry.value_ptr.* = @intCast(self.expressions.items.len);
            try self.expressions.append(parser.arena, expression);
        }
        return entry.value_ptr.*;
    }

    fn type_of(self: *const Arguments, index: u32) DataType {
        return self.expressions.items[index].type;
    }
};

fn parse_call(self: *Parser, arguments: *Arguments, phase: abi.AggregatePhase) Error!AggregateCall {
    const op = try self.cursor.read_enum(Op);
    const rule = rules.getPtrConst(op);
    const flags = try self.cursor.read_int(u8);
    if (flags & ~(abi.aggregate_distinct | abi.aggregate_filtered) != 0) {
        return refuse("an aggregate with unknown flags", .{});
    }
    var call: AggregateCall = .{
        .op = op,
        .name = try schema.read_name(&self.cursor),
        .arguments = &.{},
        .distinct = flags & abi.aggregate_distinct != 0 and rule.counts_repeats,
        .type = undefined,
        .states = undefined,
    };
    if (phase != .complete and (call.distinct or !rule.splits)) return refuse("{s} in phases", .{@tagName(op)});
    if (phase == .final and flags != 0) return refuse("a final aggregate with a filter", .{});
    const count = try self.cursor.read_int(u8);
    const constants: usize = @intFromBool(rule.constant != .none);
    const values: usize = if (phase == .final) rule.states.len else @intFromBool(rule.takes != .nothing);
    if (count != values + constants) return refuse("aggregate with the wrong number of arguments", .{});
    const indices = try self.arena.alloc(u32, values);
    for (indices) |*index| index.* = try arguments.parse(self);
    call.arguments = indices;
    if (rule.constant != .none) try parse_constant(self, &call, rule.constant);
    if (flags & abi.aggregate_filtered != 0) {
        call.filter = try arguments.parse(self);
        if (arguments.type_of(call.filter.?).tag != .bool) return refuse("a filter must be a boolean", .{});
    }
    const given: DataType = if (values > 0) arguments.type_of(indices[0]) else .of(.null);
    if (call.distinct and !expression_parser.is_groupable(given)) {
        interrupt.describe("DISTINCT of this type is not supported yet", .{});
        return error.NotSupported;
    }
    call.type = try result_type(op, phase, given);
    call.states = try state_types(self.arena, rule, given);
    if (phase == .final) try check_states(arguments, &call);
    return call;
}

/// A separator or a fraction.
fn parse_constant(self: *Parser, call: *AggregateCall, kind: accumulator.Constant) Error!void {
    const constant = try self.parse_expression(0);
    if (constant.node != .literal) return refuse("{s} takes a constant", .{@tagName(call.op)});
    const literal = &constant.node.literal;
    switch (kind) {
        .none => unreachable,
        .fraction => call.fraction = try parse_fraction(literal),
        .separator => {
            if (literal.type.tag != .utf8) return refuse("a separator is a text", .{});
            if (literal.is_valid(0)) call.separator = literal.bytes_at(0);
        },
    }
}

fn parse_fraction(literal: *const column_module.Column) Error!Fraction {
    if (!literal.is_valid(0)) return refuse("a fraction that is NULL", .{});
    var fraction: Fraction = switch (literal.type.tag) {
        .f64 => .{ .float = literal.values(f64)[0] },
        .decimal => blk: {
            const scale = literal.type.scale;
            if (literal.type.layout() != .i64 or scale < 0 or scale > schema.decimal_precision_narrow) {
                return refuse("a fraction of too many digits", .{});
            }
            const dividend = literal.values(i64)[0];
            const divisor = std.math.powi(i64, 10, scale) catch unreachable; // 10^18 fits
            break :blk .{
                .float = @as(f64, @floatFromInt(dividend)) / @as(f64, @floatFromInt(divisor)),
                .dividend = dividend,
                .divisor = divisor,
            };
        },
        else => return refuse("a fraction that is not a number", .{}),
    };
    if (!(fraction.float >= -1 and fraction.float <= 1)) {
        interrupt.describe("a percentile takes a fraction from -1 to 1", .{});
        return error.InvalidAggregate;
    }
    fraction.descending = fraction.float < 0;
    fraction.float = @abs(fraction.float);
    if (fraction.dividend < 0) fraction.dividend = -fraction.dividend;
    return fraction;
}

/// A final aggregate reads what its partial twin wrote.
fn check_states(arguments: *const Arguments, call: *const AggregateCall) Error!void {
    for (call.arguments, call.states) |index, wanted| {
        const expression = &arguments.expressions.items[index];
        if (expression.node != .column) return refuse("a final aggregate reads state columns", .{});
        if (!expression.type.eql(wanted)) return refuse("{s} over states of another type", .{@tagName(call.op)});
    }
}

fn state_types(arena: std.mem.Allocator, rule: *const Rule, given: DataType) Error![]const DataType {
    const types = try arena.alloc(DataType, rule.states.len);
    for (types, rule.states) |*to, state| to.* = switch (state) {
        .count => .of(.i64),
        .total => total_type(rule.takes, given).?,
        .mean, .squares => .of(.f64),
        .value => given,
        .present => .of(.bool),
    };
    return types;
}

fn result_type(op: Op, phase: abi.AggregatePhase, given: DataType) Error!DataType {
    const rule = rules.getPtrConst(op);
    // What a final one is given first may be a count, which check_states looks at.
    const is_counted = phase == .final and rule.states[0] == .count;
    if (!is_counted and !accepts(rule.takes, given)) {
        interrupt.describe("{s} is not defined for this type", .{@tagName(op)});
        return error.InvalidAggregate;
    }
    return switch (rule.gives) {
        .count => .of(.i64),
        .total => total_type(rule.takes, given).?,
        .float64 => .of(.f64),
        .value => given,
    };
}

fn accepts(takes: accumulator.Takes, given: DataType) bool {
    return switch (takes) {
        .nothing, .anything => true,
        .summable, .numbers => total_type(takes, given) != null,
        .float64 => given.tag == .f64,
        .ordered => expression_parser.is_orderable(given),
        .bools => given.tag == .bool,
        .text => given.tag == .utf8,
        .continuous => has_between(given),
        .median => has_between(given) or is_median_discrete(given),
    };
}

/// Types with values between any two: of those a percentile may be one.
pub fn has_between(given: DataType) bool {
    return switch (given.tag) {
        .f32, .f64, .decimal, .time, .timestamp => true,
        else => false,
    };
}

fn is_median_discrete(given: DataType) bool {
    return switch (given.tag) {
        .bool, .utf8, .binary, .fixed_binary => true,
        else => false,
    };
}

/// The type of a running total, which also is a sum's result.
fn total_type(takes: accumulator.Takes, given: DataType) ?DataType {
    return switch (given.tag) {
        .i8, .i16, .i32, .i64, .i128, .u8, .u16, .u32, .u64 => .of(.i128),
        .f16, .f32, .f64 => .of(.f64),
        .decimal => .{ .tag = .decimal, .precision = schema.decimal_precision_max, .scale = given.scale },
        .bool => if (takes == .summable) .of(.i128) else null,
        else => null,
    };
}
