//! Functions of expressions: what each takes and gives, and who computes it.
//!
//! A family of functions has a file (function_text.zig, function_number.zig, function_time.zig) with
//! one `signature` that says everything about a function that is not its loop, and one `evaluate`
//! that hands a call to a kernel. This file evaluates arguments and keeps NULLs, so that a kernel
//! only sees columns and constants.
//!
//! Kernels must bear any value in rows that are NULL or filtered out, and give them some value.
const std = @import("std");
const abi = @import("../abi.zig");
const bitmap = @import("../core/bitmap.zig");
const column_module = @import("../core/column.zig");
const expression_module = @import("expression.zig");
const interrupt = @import("../core/interrupt.zig");
const number = @import("function_number.zig");
const schema = @import("../core/schema.zig");
const text = @import("function_text.zig");
const time = @import("function_time.zig");
const Chunk = expression_module.Chunk;
const Column = column_module.Column;
const DataType = schema.DataType;
const Expression = expression_module.Expression;
const TypeTag = abi.TypeTag;

pub const Error = expression_module.Error;

/// What a function takes and gives.
pub const Signature = struct {
    parameters: []const Parameter,
    /// So many of the last parameters may be left out.
    optional: u8 = 0,
    /// The last parameter may be given any number of times, at least once.
    repeats: bool = false,
    result: Result,
    /// Some value makes it fail.
    fallible: bool = false,
    /// NULL in any argument gives NULL, and the kernel need not look.
    nulls: enum { propagate, seen } = .propagate,
    /// The answer may be far larger than the arguments.
    grows: bool = false,

    pub fn accepts(self: *const Signature, arguments: []const Expression, result: DataType) bool {
        if (arguments.len + self.optional < self.parameters.len) return false;
        if (arguments.len > self.parameters.len and !self.repeats) return false;
        for (arguments, 0..) |*argument, i| {
            const parameter = self.parameters[@min(i, self.parameters.len - 1)];
            if (parameter.literal and !argument.is_literal()) return false;
            if (parameter.like_first) {
                if (!argument.type.eql(arguments[0].type)) return false;
            } else if (std.mem.findScalar(TypeTag, parameter.tags, argument.type.tag) == null) return false;
        }
        return switch (self.result) {
            .tag => |tag| result.eql(.of(tag)),
            .like => |index| result.eql(arguments[index].type),
            .rule => |rule| rule(arguments, result),
        };
    }
};

pub const Parameter = struct {
    tags: []const TypeTag = &.{},
    /// Exactly the type of the first argument, instead of `tags`.
    like_first: bool = false,
    /// A constant, which may be NULL.
    literal: bool = false,

    pub fn of(tags: []const TypeTag) Parameter {
        return .{ .tags = tags };
    }
};

pub const Result = union(enum) {
    /// A type that is its tag.
    tag: TypeTag,
    /// The type of that argument.
    like: u8,
    /// Whether the result type that the plan says is right.
    rule: *const fn (arguments: []const Expression, result: DataType) bool,
};

/// null: no such function yet.
pub fn signature(id: abi.FunctionId) ?*const Signature {
    return switch (id) {
        inline else => |known| comptime if (family_signature(known)) |found| &found else null,
    };
}

/// Asked at compile time, so that parameters are constants wherever a family gets them from.
fn family_signature(comptime id: abi.FunctionId) ?Signature {
    return switch (@backingInt(id)) {
        0...99 => text.signature(id),
        100...199 => number.signature(id),
        200...299 => time.signature(id),
        else => null,
    };
}

/// One call over the rows of a chunk, as a kernel sees it.
pub const Call = struct {
    arena: std.mem.Allocator,
    id: abi.FunctionId,
    /// Of the answer.
    type: DataType,
    row_count: u32,
    operands: []const Operand,
    /// Rows where no operand is NULL; null: all. The answer's own validity unless the function sees NULLs.
    validity: ?[]const u8,
    /// Rows that may raise an error: of `validity`, those still selected. null: all.
    rows: ?[]const u8,

    pub fn matters(self: *const Call, row: usize) bool {
        const bits = self.rows orelse return true;
        return bitmap.get(bits.ptr, row);
    }

    /// An answer of fixed size values.
    pub fn of_values(self: *const Call, comptime T: type, values: []align(column_module.alignment) const T) Column {
        return .{
            .type = self.type,
            .row_count = self.row_count,
            .validity = self.validity,
            .data = std.mem.sliceAsBytes(values),
        };
    }

    pub fn new_values(self: *const Call, comptime T: type) Error![]align(column_module.alignment) T {
        return self.arena.alignedAlloc(T, .fromByteUnits(column_module.alignment), self.row_count);
    }

    /// An operand as a column, even if it is constant.
    pub fn spread(self: *const Call, index: usize) Error!Column {
        const operand = &self.operands[index];
        return if (operand.is_constant)
            expression_module.repeat(self.arena, &operand.column, self.row_count)
        else
            operand.column;
    }

    /// Bits for an answer that is a bool.
    pub fn new_bits(self: *const Call) Error![]align(column_module.alignment) u8 {
        return expression_module.new_bits(self.arena, self.row_count);
    }

    pub fn of_bits(self: *const Call, bits: []align(column_module.alignment) const u8) Column {
        return expression_module.bool_column(self.row_count, bits, self.validity);
    }
};

pub const Operand = @import("../kernel/operand.zig").Operand;

pub fn evaluate(
    arena: std.mem.Allocator,
    result_type: DataType,
    node: Expression.Call,
    chunk: *const Chunk,
) Error!Column {
    const known = signature(node.function).?; // the parser has asked
    if (known.nulls == .propagate) for (node.arguments) |*argument| {
        if (argument.is_null_literal()) return expression_module.all_null(arena, result_type, chunk.row_count);
    };
    const operands = try arena.alloc(Operand, node.arguments.len);
    var validity: ?[]const u8 = null;
    for (operands, node.arguments) |*operand, *argument| {
        // A literal is not spread out.
        operand.* = if (argument.is_literal())
            .{ .column = argument.node.literal, .is_constant = true }
        else
            .{ .column = try expression_module.evaluate(arena, argument, chunk), .is_constant = false };
        if (known.nulls == .propagate and !operand.is_constant) {
            validity = try expression_module.both_valid(arena, chunk.row_count, validity, operand.column.validity);
        }
    }
    const call: Call = .{
        .arena = arena,
        .id = node.function,
        .type = result_type,
        .row_count = chunk.row_count,
        .operands = operands,
        .validity = validity,
        .rows = if (known.fallible) try expression_module.rows_that_matter(arena, chunk, validity) else validity,
    };
    const result = switch (@backingInt(node.function)) {
        0...99 => try text.evaluate(&call),
        100...199 => try number.evaluate(&call),
        200...299 => try time.evaluate(&call),
        else => unreachable,
    };
    try interrupt.check(); // a search that was cancelled found nothing
    return result;
}

test "arguments are counted and typed" {
    const string: Expression = .{ .type = .of(.utf8), .node = .{ .column = 0 } };
    const integer: Expression = .{ .type = .of(.i64), .node = .{ .column = 1 } };
    const length = signature(.length).?;
    try std.testing.expect(length.accepts(&.{string}, .of(.i64)));
    try std.testing.expect(!length.accepts(&.{string}, .of(.i32)));
    try std.testing.expect(!length.accepts(&.{integer}, .of(.i64)));
    try std.testing.expect(!length.accepts(&.{}, .of(.i64)));
    try std.testing.expect(!length.accepts(&.{ string, string }, .of(.i64)));
    const bytes: Expression = .{ .type = .of(.binary), .node = .{ .column = 1 } };
    for ([_]Expression{ string, bytes }) |either|
        try std.testing.expect(signature(.byte_length).?.accepts(&.{either}, .of(.i64)));
}
