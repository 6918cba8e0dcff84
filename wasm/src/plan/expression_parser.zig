//! Expressions on the wire → nodes, checked and typed. plan.zig draws the whole plan.
//!
//!     expression  u8 ExpressionTag, then
//!       column      u16 index
//!       literal     value
//!       compare     u8 CompareOp, expression, expression                of one type
//!       between     expression, value low, value high                   inclusive
//!       in_list     u8 has null, expression, u32 count, count × value   of one type
//!       like        u8 ignore case, u8 escape (0: none), expression, u32 length, pattern
//!       is_null     u8 negated, expression
//!       and, or     u16 count ≥ 1, count × expression (bool)
//!       not         expression (bool)
//!       arithmetic  u8 ArithmeticOp, result type, expression, expression
//!       negate      expression
//!       cast        u8 try, type, expression
//!       call        u16 FunctionId, result type, u8 count, count × expression      function.zig says of what types
//!       case        u16 branches ≥ 1 × (expression (bool), expression), u8 has else, [expression]   of one type
//!       coalesce    u16 count ≥ 1, count × expression                   of one type
//!       field       u16 index, expression (structure)
//!       in_build    u16 build, u16 keys × expression    of the build's key types
//!     value       type, u8 is null, [the value: fixed size, or u32 length and bytes, or one byte of bool]
const std = @import("std");
const abi = @import("../abi.zig");
const function = @import("function.zig");
const in_list = @import("../kernel/in_list.zig");
const column_module = @import("../core/column.zig");
const interrupt = @import("../core/interrupt.zig");
const like = @import("../kernel/like.zig");
const schema = @import("../core/schema.zig");
const expression_module = @import("expression.zig");
const Cursor = @import("../core/cursor.zig").Cursor;
const Column = column_module.Column;
const DataType = schema.DataType;
const Expression = expression_module.Expression;
const Field = schema.Field;
const JoinTable = @import("../lookup/join_table.zig").JoinTable;

pub const Error = error{ InvalidFormat, InvalidFilter, InvalidAggregate, NotSupported, OutOfMemory };

/// Bytes that a NULL of a few bytes on the wire may claim.
const null_size_max = 1 << 20;

/// An expression with the name of the column that it makes.
pub const Named = struct { name: []const u8, expression: Expression };

pub const Parser = struct {
    arena: std.mem.Allocator,
    cursor: Cursor,
    /// Columns that expressions of the current step may name.
    fields: []const Field = &.{},
    /// Tables that the plan may look into.
    builds: []const *JoinTable = &.{},
    /// Set while somebody wants to know which columns are named.
    named: ?[]bool = null,

    /// A u16 count of things that take at least `size_min` bytes each, so that a lying count
    /// cannot make us allocate more than a small multiple of the plan.
    pub fn read_count(self: *Parser, size_min: usize) Error!u16 {
        const count = try self.cursor.read_int(u16);
        if (count > self.cursor.remaining() / size_min) return error.InvalidFormat;
        return count;
    }

    pub fn parse_named(self: *Parser, count: u16) Error![]const Named {
        const items = try self.arena.alloc(Named, count);
        for (items) |*item| item.* = .{
            .name = try schema.read_name(&self.cursor),
            .expression = try self.parse_expression(0),
        };
        return items;
    }

    pub fn parse_predicate(self: *Parser, depth: u32) Error!Expression {
        const predicate = try self.parse_expression(depth);
        if (predicate.type.tag != .bool) return refuse("a filter must be a boolean", .{});
        return predicate;
    }

    fn parse_child(self: *Parser, depth: u32) Error!*const Expression {
        const child = try self.arena.create(Expression);
        child.* = try self.parse_expression(depth + 1);
        return child;
    }

    pub fn parse_expression(self: *Parser, depth: u32) Error!Expression {
        var expression = try self.parse_expression_node(depth);
        expression.fallible = can_fail(&expression);
        return self.fold(expression);
    }

    /// What is made of constants alone is computed once. What fails stays as it is: it is an error only
    /// if a row asks for it.
    fn fold(self: *Parser, expression: Expression) Expression {
        if (expression.type.is_nested() or expression.type.tag == .null) return expression;
        if (expression.node == .call and function.signature(expression.node.call.function).?.grows) return expression;
        var children = expression.children();
        if (expression.child(0) == null) return expression;
        while (children.next()) |child| if (!child.is_literal()) return expression;
        var value = expression_module.evaluate(self.arena, &expression, &.{ .row_count = 1, .columns = &.{} }) catch {
            interrupt.forget();
            return expression;
        };
        // As `parse_value` makes them: a constant has a validity only if it is NULL.
        value.validity = if (value.is_valid(0)) null else &.{0};
        return .{ .type = expression.type, .node = .{ .literal = value } };
    }

    fn parse_expression_node(self: *Parser, depth: u32) Error!Expression {
        @setRuntimeSafety(true);
        if (depth > abi.expression_depth_max)
            return refuse("expression nested deeper than {d}", .{abi.expression_depth_max});
        switch (try self.cursor.read_enum(abi.ExpressionTag)) {
            .column => {
                const index = try self.cursor.read_int(u16);
                if (index >= self.fields.len) return refuse("column {d} of {d}", .{ index, self.fields.len });
                if (self.named) |named| named[index] = true;
                return .{ .type = self.fields[index].type, .node = .{ .column = index } };
            },
            .literal => {
                const value = try self.parse_value();
                return .{ .type = value.type, .node = .{ .literal = value } };
            },
            .compare => return self.parse_compare(depth),
            .between => return self.parse_between(depth),
            .in_list => return self.parse_in_list(depth),
            .like => return self.parse_like(depth),
            .is_null => {
                const negated = try self.cursor.read_flag();
                return boolean(.{ .is_null = .{ .negated = negated, .value = try self.parse_child(depth) } });
            },
            .logical_and => return boolean(.{ .logical_and = try self.parse_terms(depth) }),
            .logical_or => return boolean(.{ .logical_or = try self.parse_terms(depth) }),
            .logical_not => {
                const child = try self.parse_child(depth);
                if (child.type.tag != .bool) return refuse("NOT of something that is not a boolean", .{});
                return boolean(.{ .logical_not = child });
            },
            .arithmetic => return self.parse_arithmetic(depth),
            .negate => {
                const child = try self.parse_child(depth);
                if (!is_signed(child.type)) return refuse("minus of something that has no sign", .{});
                return .{ .type = child.type, .node = .{ .negate = child } };
            },
            .in_build => return self.parse_in_build(depth),
            .cast => {
                const attempt = try self.cursor.read_flag();
                const target = try schema.read_type(&self.cursor, self.arena);
                const child = try self.parse_child(depth);
                return .{ .type = target, .node = .{
                    .cast = .{ .value = child, .mode = if (attempt) .try_cast else .strict },
                } };
            },
            .call => return self.parse_call(depth),
            .case => return self.parse_case(depth),
            .coalesce => {
                const values = try self.arena.alloc(Expression, try self.read_count(2));
                if (values.len == 0) return refuse("COALESCE of nothing", .{});
                for (values) |*value| {
                    value.* = try self.parse_expression(depth + 1);
                    if (!value.type.eql(values[0].type)) return refuse("COALESCE of several types", .{});
                }
                return .{ .type = values[0].type, .node = .{ .coalesce = values } };
            },
            .field => {
                const index = try self.cursor.read_int(u16);
                const value = try self.parse_child(depth);
                if (value.type.tag != .structure) return refuse("a field of something that is not a structure", .{});
                if (index >= value.type.children.len)
                    return refuse("field {d} of {d}", .{ index, value.type.children.len });
                return .{ .type = value.type.children[index].type, .node = .{
                    .field = .{ .value = value, .index = index },
                } };
            },
        }
    }

    fn parse_call(self: *Parser, depth: u32) Error!Expression {
        const id = try self.cursor.read_enum(abi.FunctionId);
        const result = try schema.read_type(&self.cursor, self.arena);
        const count = try self.cursor.read_int(u8);
        if (count > self.cursor.remaining() / 2) return error.InvalidFormat;
        const arguments = try self.arena.alloc(Expression, count);
        for (arguments) |*argument| argument.* = try self.parse_expression(depth + 1);
        const signature = function.signature(id) orelse {
            interrupt.describe("the function {s}", .{@tagName(id)});
            return error.NotSupported;
        };
        if (!signature.accepts(arguments, result)) return refuse("{s} of types it is not defined for", .{@tagName(id)});
        return .{ .type = result, .node = .{ .call = .{ .function = id, .arguments = arguments } } };
    }

    fn parse_case(self: *Parser, depth: u32) Error!Expression {
        const count = try self.read_count(4);
        if (count == 0) return refuse("CASE without a branch", .{});
        const conditions = try self.arena.alloc(Expression, count);
        const values = try self.arena.alloc(Expression, @as(usize, count) + 1);
        for (conditions, values[0..count]) |*condition, *value| {
            condition.* = try self.parse_predicate(depth + 1);
            value.* = try self.parse_expression(depth + 1);
        }
        const has_else = try self.cursor.read_flag();
        if (has_else) values[count] = try self.parse_expression(depth + 1);
        const given = values[0 .. count + @intFromBool(has_else)];
        for (given) |*value| if (!value.type.eql(given[0].type)) return refuse("CASE of several types", .{});
        return .{ .type = given[0].type, .node = .{ .case = .{ .conditions = conditions, .values = given } } };
    }

    fn parse_terms(self: *Parser, depth: u32) Error![]const Expression {
        const terms = try self.arena.alloc(Expression, try self.read_count(2));
        if (terms.len == 0) return refuse("AND or OR of nothing", .{});
        for (terms) |*term| term.* = try self.parse_predicate(depth + 1);
        return self.infallible_first(terms);
    }

    /// Whatever order they were written in, those that may fail see only rows that the others leave open.
    /// (Not by std.sort.block: its cache of 512 items would stand on the stack at every level of an expression.)
    fn infallible_first(self: *Parser, terms: []const Expression) Error![]const Expression {
        const ordered = try self.arena.alloc(Expression, terms.len);
        var place: usize = 0;
        for ([_]bool{ false, true }) |fallible| {
            for (terms) |*term| {
                if (term.fallible != fallible) continue;
                ordered[place] = term.*;
                place += 1;
            }
        }
        std.debug.assert(place == terms.len);
        return ordered;
    }

    fn parse_compare(self: *Parser, depth: u32) Error!Expression {
        const op = try self.cursor.read_enum(abi.CompareOp);
        const left = try self.parse_child(depth);
        const right = try self.parse_child(depth);
        if (!left.type.eql(right.type)) return refuse("comparison of two types", .{});
        if (!is_orderable(left.type)) return refuse("comparison of a type that has no order", .{});
        return boolean(.{ .compare = .{ .op = op, .left = left, .right = right } });
    }

    fn parse_between(self: *Parser, depth: u32) Error!Expression {
        const value = try self.parse_child(depth);
        const low = try self.parse_value();
        const high = try self.parse_value();
        if (!value.type.eql(low.type) or !value.type.eql(high.type)) return refuse("BETWEEN of several types", .{});
        if (!low.is_valid(0) or !high.is_valid(0)) return refuse("BETWEEN with NULL", .{});
        switch (value.type.layout()) {
            .none, .bits, .fixed, .list, .structure => return refuse("BETWEEN of this type", .{}),
            else => {},
        }
        return boolean(.{ .between = .{ .value = value, .low = low, .high = high } });
    }

    fn parse_in_list(self: *Parser, depth: u32) Error!Expression {
        const has_null = try self.cursor.read_flag();
        const value = try self.parse_child(depth);
        const count = try self.cursor.read_int(u32);
        if (count > self.cursor.remaining() / 2) return error.InvalidFormat;
        const set: expression_module.Set = switch (value.type.layout()) {
            .bytes => .{ .bytes = try self.parse_bytes_set(value.type, count) },
            .none, .bits, .fixed, .list, .structure => return refuse("IN of this type", .{}),
            inline else => |layout| @unionInit(
                expression_module.Set,
                @tagName(layout),
                try self.parse_scalar_set(schema.Scalar(layout), value.type, count),
            ),
        };
        return boolean(.{ .in_list = .{ .value = value, .set = set, .has_null = has_null } });
    }

    fn parse_scalar_set(self: *Parser, comptime T: type, data_type: DataType, count: u32) Error!in_list.InSet(T) {
        const values = try self.arena.alloc(T, count);
        for (values) |*value| {
            const member = try self.parse_member(data_type);
            value.* = member.values(T)[0];
        }
        return in_list.InSet(T).init(self.arena, values);
    }

    fn parse_bytes_set(self: *Parser, data_type: DataType, count: u32) Error!in_list.BytesInSet {
        const values = try self.arena.alloc([]const u8, count);
        for (values) |*value| {
            const member = try self.parse_member(data_type);
            value.* = member.bytes_at(0);
        }
        return in_list.BytesInSet.init(self.arena, values);
    }

    fn parse_member(self: *Parser, data_type: DataType) Error!Column {
        const member = try self.parse_value();
        if (!member.type.eql(data_type)) return refuse("an IN list of several types", .{});
        if (!member.is_valid(0)) return refuse("NULL among the values of an IN list", .{});
        return member;
    }

    fn parse_like(self: *Parser, depth: u32) Error!Expression {
        const ignore_case = try self.cursor.read_flag();
        const escape = try self.cursor.read_int(u8);
        const value = try self.parse_child(depth);
        if (value.type.tag != .utf8) return refuse("LIKE of something that is not text", .{});
        const pattern = try self.cursor.read_bytes(try self.cursor.read_int(u32));
        const matcher = like.Matcher.init(self.arena, pattern, .{
            .escape = if (escape == 0) null else escape,
            .ignore_case = ignore_case,
        }) catch |err| switch (err) {
            error.OutOfMemory => return error.OutOfMemory,
            error.InvalidPattern => {
                interrupt.describe("the LIKE pattern ends in its escape character", .{});
                return error.InvalidFilter;
            },
        };
        return boolean(.{ .like = .{ .value = value, .matcher = matcher } });
    }

    fn parse_arithmetic(self: *Parser, depth: u32) Error!Expression {
        const op = try self.cursor.read_enum(abi.ArithmeticOp);
        const result = try schema.read_type(&self.cursor, self.arena);
        const left = try self.parse_child(depth);
        const right = try self.parse_child(depth);
        if (!arithmetic_fits(op, left.type, right.type, result))
            return refuse("arithmetic on types it is not defined for", .{});
        return .{ .type = result, .node = .{ .arithmetic = .{ .op = op, .left = left, .right = right } } };
    }

    fn parse_in_build(self: *Parser, depth: u32) Error!Expression {
        const table = try self.parse_build();
        return boolean(.{ .in_build = .{ .table = table, .keys = try self.parse_build_keys(table, depth + 1) } });
    }

    /// Which of the plan's builds.
    pub fn parse_build(self: *Parser) Error!*JoinTable {
        const index = try self.cursor.read_int(u16);
        if (index >= self.builds.len) return refuse("build {d} of {d}", .{ index, self.builds.len });
        return self.builds[index];
    }

    /// Keys to look up in a table: as many as it has, of the same types.
    pub fn parse_build_keys(self: *Parser, table: *const JoinTable, depth: u32) Error![]const Expression {
        const keys = try self.arena.alloc(Expression, try self.read_count(3));
        if (keys.len != table.key_types.len)
            return refuse("{d} keys for a build of {d}", .{ keys.len, table.key_types.len });
        for (keys, table.key_types, 0..) |*key, wanted, i| {
            key.* = try self.parse_expression(depth);
            if (!key.type.eql(wanted)) return refuse(
                "key {d} is {s}, the build's is {s}",
                .{ i, @tagName(key.type.tag), @tagName(wanted.tag) },
            );
        }
        return keys;
    }

    /// One value of one type, as a column of one row.
    pub fn parse_value(self: *Parser) Error!Column {
        @setRuntimeSafety(true);
        const data_type = try schema.read_type(&self.cursor, self.arena);
        if (data_type.is_nested()) return refuse("literals of nested types are not supported", .{});
        var column: Column = .{ .type = data_type, .row_count = 1 };
        const is_null = try self.cursor.read_flag();
        if (is_null) {
            column.validity = &.{0};
            if (data_type.layout() == .bytes) column.offsets = &.{ 0, 0 };
            // Where a NULL's value is looked at before its validity, it is there.
            const size: u64 = if (data_type.layout() == .fixed) @max(16, data_type.value_size()) else 16;
            if (size > null_size_max) return error.OutOfMemory;
            const zeros = try self.arena.alignedAlloc(u8, .fromByteUnits(column_module.alignment), @intCast(size));
            @memset(zeros, 0);
            column.data = zeros;
            return column;
        }
        switch (data_type.layout()) {
            .none => return refuse("a NULL that says it is none", .{}),
            .bits => column.data = try self.aligned(1, try self.cursor.read_bytes(1)),
            .bytes => {
                const bytes = try self.cursor.read_bytes(try self.cursor.read_int(u32));
                if (data_type.tag == .utf8 and !std.unicode.utf8ValidateSlice(bytes))
                    return refuse("a text that is not UTF-8", .{});
                const offsets = try self.arena.alloc(u32, 2);
                offsets[0] = 0;
                offsets[1] = @intCast(bytes.len);
                column.offsets = offsets;
                column.data = try self.aligned(bytes.len, bytes);
            },
            .list, .structure => unreachable,
            else => {
                // A vector may be wider than this machine can address.
                const size = std.math.cast(usize, data_type.value_size()) orelse return error.OutOfMemory;
                column.data = try self.aligned(size, try self.cursor.read_bytes(size));
            },
        }
        return column;
    }

    fn aligned(self: *Parser, size: usize, bytes: []const u8) Error![]align(column_module.alignment) const u8 {
        const copy = try self.arena.alignedAlloc(u8, .fromByteUnits(column_module.alignment), size);
        @memcpy(copy, bytes[0..size]);
        return copy;
    }
};

pub fn refuse(comptime format: []const u8, arguments: anytype) error{InvalidFormat} {
    interrupt.describe(format, arguments);
    return error.InvalidFormat;
}

/// Children know already, so this looks one level down.
fn can_fail(expression: *const Expression) bool {
    switch (expression.node) {
        .arithmetic, .negate, .cast => return true,
        .call => |node| if (function.signature(node.function).?.fallible) return true,
        else => {},
    }
    var children = expression.children();
    while (children.next()) |child| if (child.fallible) return true;
    return false;
}

fn boolean(node: Expression.Node) Expression {
    return .{ .type = .of(.bool), .node = node };
}

pub fn is_orderable(data_type: DataType) bool {
    return switch (data_type.tag) {
        .null, .list, .structure, .map, .f32vec, .f16vec => false,
        else => true,
    };
}

pub fn is_groupable(data_type: DataType) bool {
    return switch (data_type.tag) {
        .list, .structure, .map, .f32vec, .f16vec => false,
        else => true,
    };
}

fn is_signed(data_type: DataType) bool {
    return switch (data_type.tag) {
        .i8, .i16, .i32, .i64, .i128, .f32, .f64, .decimal => true,
        else => false,
    };
}

fn is_number(data_type: DataType) bool {
    return switch (data_type.tag) {
        .i8, .i16, .i32, .i64, .i128, .u8, .u16, .u32, .u64, .f32, .f64 => true,
        else => false,
    };
}

/// Numbers: both operands and the result have one type, `/` is for floats. Decimals: one storage
/// for all three, scales as the operation says; the planner has cast for that.
fn arithmetic_fits(op: abi.ArithmeticOp, left: DataType, right: DataType, result: DataType) bool {
    if (left.tag == .decimal and right.tag == .decimal and result.tag == .decimal) {
        if (left.layout() != result.layout() or right.layout() != result.layout()) return false;
        return switch (op) {
            .add, .subtract, .modulo => left.scale == result.scale and right.scale == result.scale,
            .multiply => @as(i16, left.scale) + right.scale == result.scale,
            .divide, .divide_integer => false,
        };
    }
    if (!is_number(left) or !left.eql(right) or !left.eql(result)) return false;
    return op != .divide or left.tag == .f64 or left.tag == .f32;
}
