//! Expressions: what the planner sent, and how it is computed over a chunk of rows.
//!
//! The engine is strict where the planner is kind: operands have equal types (the planner has put
//! casts), so that one rule gives every node its type and the evaluator never guesses. Everything
//! that can be prepared once (a LIKE pattern, the set of an IN list) is prepared by plan.zig.
//!
//! A predicate yields a bool column: value bits and, where NULL is possible, validity bits. Values
//! of NULL rows are unspecified.
const std = @import("std");
const abi = @import("../abi.zig");
const arithmetic = @import("../kernel/arithmetic.zig");
const bitmap = @import("../core/bitmap.zig");
const boolean = @import("../kernel/boolean.zig");
const cast = @import("../kernel/cast.zig");
const choose = @import("../kernel/choose.zig");
const compare = @import("../kernel/compare.zig");
const function = @import("function.zig");
const in_list = @import("../kernel/in_list.zig");
const interrupt = @import("../core/interrupt.zig");
const column_module = @import("../core/column.zig");
const like = @import("../kernel/like.zig");
const join_table = @import("../lookup/join_table.zig");
const Interval = @import("../core/interval.zig").Interval;
const JoinTable = join_table.JoinTable;
const Selected = @import("../core/column_builder.zig").Selected;
const schema = @import("../core/schema.zig");
const text_module = @import("../kernel/text.zig");
const text_case = @import("../kernel/text_case.zig");
const utf8 = @import("../core/utf8.zig");
const wide_arithmetic = @import("../kernel/wide_arithmetic.zig");
const expression_module = @This();
const Column = column_module.Column;
const DataType = schema.DataType;
const Layout = schema.Layout;
const Scalar = schema.Scalar;

pub const Error = error{ Cancelled, OutOfMemory, OutOfRange, NotSupported };

pub const chunk_rows = abi.chunk_rows;

/// Rows of a chunk that is only reduced, where the cost of a chunk shows: a few microseconds' work.
pub const reduce_rows: u32 = 1 << 17;

pub const Chunk = struct {
    row_count: u32,
    columns: []const Column,
    /// Rows that are still in; null when all are.
    selection: ?Selection = null,

    pub fn selected_count(self: *const Chunk) u32 {
        return if (self.selection) |selection| selection.count else self.row_count;
    }

    /// The rows that a filter left, for whoever takes them out of columns.
    pub fn selected(self: *const Chunk, arena: std.mem.Allocator) Selected {
        const selection = self.selection.?;
        return .{ .arena = arena, .bits = selection.bits, .row_count = self.row_count, .count = selection.count };
    }

    /// The numbers of the rows that are still in.
    pub fn selected_rows(self: *const Chunk, arena: std.mem.Allocator) error{OutOfMemory}![]const u32 {
        const rows = try arena.alloc(u32, self.selected_count());
        if (self.selection) |selection| {
            const found = bitmap.indices(selection.bits, self.row_count, rows);
            std.debug.assert(found == rows.len);
        } else for (rows, 0..) |*row, i| {
            row.* = @intCast(i);
        }
        return rows;
    }
};

pub const Selection = struct {
    /// Bits past the row count are unspecified.
    bits: []const u8,
    count: u32,
};

pub const Expression = struct {
    type: DataType,
    node: Node,
    /// Some value can make it fail: overflow, a zero divisor, a cast that does not fit. It is then
    /// computed only for rows that matter.
    fallible: bool = false,

    pub const Node = union(enum) {
        column: u32,
        literal: Column,
        compare: Compare,
        between: Between,
        in_list: InList,
        like: Like,
        is_null: IsNull,
        logical_and: []const Expression,
        logical_or: []const Expression,
        logical_not: *const Expression,
        arithmetic: Arithmetic,
        negate: *const Expression,
        cast: Cast,
        call: Call,
        case: Case,
        coalesce: []const Expression,
        field: StructureField,
        in_build: InBuild,
    };

    pub const Compare = struct { op: abi.CompareOp, left: *const Expression, right: *const Expression };
    pub const Between = struct { value: *const Expression, low: Column, high: Column };
    pub const InList = struct { value: *const Expression, set: Set, has_null: bool };
    pub const Like = struct { value: *const Expression, matcher: like.Matcher };
    pub const IsNull = struct { value: *const Expression, negated: bool };
    pub const Arithmetic = struct { op: abi.ArithmeticOp, left: *const Expression, right: *const Expression };
    pub const Cast = struct { value: *const Expression, mode: cast.Mode };
    pub const Call = struct { function: abi.FunctionId, arguments: []const Expression };
    pub const Case = struct {
        conditions: []const Expression,
        /// One a condition, and one more if there is an ELSE.
        values: []const Expression,
    };
    pub const StructureField = struct { value: *const Expression, index: u16 };

    /// The expression that this one is computed from, by number; null behind the last.
    pub fn child(self: *const Expression, index: usize) ?*const Expression {
        return switch (self.node) {
            .column, .literal => null,
            .compare => |node| one_of(&.{ node.left, node.right }, index),
            .arithmetic => |node| one_of(&.{ node.left, node.right }, index),
            .between => |node| one_of(&.{node.value}, index),
            .in_list => |node| one_of(&.{node.value}, index),
            .like => |node| one_of(&.{node.value}, index),
            .is_null => |node| one_of(&.{node.value}, index),
            .cast => |node| one_of(&.{node.value}, index),
            .field => |node| one_of(&.{node.value}, index),
            .logical_not, .negate => |value| one_of(&.{value}, index),
            .logical_and, .logical_or, .coalesce => |terms| if (index < terms.len) &terms[index] else null,
            .call => |node| if (index < node.arguments.len) &node.arguments[index] else null,
            .in_build => |node| if (index < node.keys.len) &node.keys[index] else null,
            .case => |node| if (index < node.conditions.len)
                &node.conditions[index]
            else if (index - node.conditions.len < node.values.len)
                &node.values[index - node.conditions.len]
            else
                null,
        };
    }

    fn one_of(all: []const *const Expression, index: usize) ?*const Expression {
        return if (index < all.len) all[index] else null;
    }

    /// All that this one is computed from, one level down.
    pub fn children(self: *const Expression) Children {
        return .{ .parent = self };
    }

    /// Sets the marks of columns that it reads.
    pub fn mark_columns(self: *const Expression, used: []bool) void {
        if (self.node == .column) used[self.node.column] = true;
        var parts = self.children();
        while (parts.next()) |part| part.mark_columns(used);
    }

    pub const Children = struct {
        parent: *const Expression,
        index: usize = 0,

        pub fn next(self: *Children) ?*const Expression {
            defer self.index += 1;
            return self.parent.child(self.index);
        }
    };

    pub const InBuild = struct { table: *const JoinTable, keys: []const Expression };

    pub fn is_literal(self: *const Expression) bool {
        return self.node == .literal;
    }

    /// A literal NULL.
    pub fn is_null_literal(self: *const Expression) bool {
        return self.node == .literal and !self.node.literal.is_valid(0);
    }
};

/// The values of an IN list, ready to be asked.
pub const Set = union(enum) {
    i8: in_list.InSet(i8),
    i16: in_list.InSet(i16),
    i32: in_list.InSet(i32),
    i64: in_list.InSet(i64),
    i128: in_list.InSet(i128),
    u8: in_list.InSet(u8),
    u16: in_list.InSet(u16),
    u32: in_list.InSet(u32),
    u64: in_list.InSet(u64),
    f16: in_list.InSet(f16),
    f32: in_list.InSet(f32),
    f64: in_list.InSet(f64),
    bytes: in_list.BytesInSet,
};

/// Computes an expression over the rows of a chunk. Everything new lives in `arena`.
pub fn evaluate(arena: std.mem.Allocator, expression: *const Expression, chunk: *const Chunk) Error!Column {
    // A filter may have thousands of terms, each over megabytes of text.
    try interrupt.check();
    const count = chunk.row_count;
    switch (expression.node) {
        .column => |index| return chunk.columns[index],
        .literal => |literal| return repeat(arena, &literal, count),
        .compare => |node| return evaluate_compare(arena, node, chunk),
        .between => |node| return evaluate_between(arena, node, chunk),
        .in_list => |node| return evaluate_in(arena, node, chunk),
        .like => |node| {
            var value = try evaluate(arena, node.value, chunk);
            // The matcher folds ASCII itself; other text comes in lower case, as its pattern did.
            if (node.matcher.folding != .none and
                !try utf8.is_ascii(value.data[value.offsets[0]..value.offsets[count]]))
            {
                value = try text_case.convert(.lower, arena, &value);
            }
            const bits = try new_bits(arena, count);
            node.matcher.match_column(value.offsets, value.data, bits);
            try interrupt.check();
            return bool_column(count, bits, value.validity);
        },
        .is_null => |node| return evaluate_is_null(arena, node, chunk),
        .in_build => |node| return evaluate_in_build(arena, node, chunk),
        .logical_and => |terms| return evaluate_logical(.@"and", arena, terms, chunk),
        .logical_or => |terms| return evaluate_logical(.@"or", arena, terms, chunk),
        .logical_not => |term| {
            const value = try evaluate(arena, term, chunk);
            const bits = try new_bits(arena, count);
            boolean.not3(count, .{ .values = value.data, .validity = value.validity }, bits);
            return bool_column(count, bits, value.validity);
        },
        .arithmetic => |node| return evaluate_arithmetic(arena, expression.type, node, chunk),
        .negate => |term| return evaluate_negate(arena, expression.type, term, chunk),
        .cast => |node| {
            var value = try evaluate(arena, node.value, chunk);
            value.validity = try rows_that_matter(arena, chunk, value.validity);
            return cast.cast_column(arena, &value, expression.type, node.mode);
        },
        .call => |node| return function.evaluate(arena, expression.type, node, chunk),
        .case => |node| return evaluate_case(arena, expression.type, node, chunk),
        .coalesce => |values| return evaluate_coalesce(arena, expression.type, values, chunk),
        .field => |node| {
            const structure = try evaluate(arena, node.value, chunk);
            var value = structure.children[node.index];
            value.validity = try both_valid(arena, count, structure.validity, value.validity);
            return value;
        },
    }
}

/// TRUE rows of a predicate, within those still selected.
pub fn select(arena: std.mem.Allocator, predicate: *const Expression, chunk: *const Chunk) Error!Selection {
    const result = try evaluate(arena, predicate, chunk);
    const bits = try new_bits(arena, chunk.row_count);
    const before = chunk.selection orelse {
        const selected = boolean.selection(
            chunk.row_count,
            .{ .values = result.data, .validity = result.validity },
            bits,
        );
        return .{ .bits = bits, .count = @intCast(selected) };
    };
    _ = boolean.selection(chunk.row_count, .{ .values = result.data, .validity = result.validity }, bits);
    bitmap.combine(.@"and", bits, bits, before.bits);
    return .{ .bits = bits, .count = @intCast(bitmap.count(bits, chunk.row_count)) };
}

pub fn new_bits(arena: std.mem.Allocator, count: u32) Error![]align(column_module.alignment) u8 {
    return arena.alignedAlloc(u8, .fromByteUnits(column_module.alignment), bitmap.size(count));
}

pub fn bool_column(count: u32, bits: []align(column_module.alignment) const u8, validity: ?[]const u8) Column {
    return .{ .type = .of(.bool), .row_count = count, .validity = validity, .data = bits };
}

pub fn all_null(arena: std.mem.Allocator, data_type: DataType, count: u32) Error!Column {
    const bits = try new_bits(arena, count);
    @memset(bits, 0);
    var column: Column = .{ .type = data_type, .row_count = count, .validity = bits };
    switch (data_type.layout()) {
        .none => column.validity = null,
        .bits => column.data = bits,
        .bytes => column.offsets = blk: {
            const offsets = try arena.alloc(u32, count + 1);
            @memset(offsets, 0);
            break :blk offsets;
        },
        .list, .structure => unreachable, // plan.zig refuses nested literals
        else => {
            const data = try arena.alignedAlloc(u8, .fromByteUnits(column_module.alignment), try product(
                data_type.value_size(),
                count,
            ));
            @memset(data, 0);
            column.data = data;
        },
    }
    return column;
}

/// The validity of two columns together; null when neither has NULLs.
pub fn both_valid(arena: std.mem.Allocator, count: u32, a: ?[]const u8, b: ?[]const u8) Error!?[]const u8 {
    const x = a orelse return b;
    const y = b orelse return x;
    const bits = try arena.alloc(u8, bitmap.size(count));
    bitmap.combine(.@"and", bits, x, y);
    return bits;
}

/// Rows that may raise an error: valid, and not filtered out already.
pub fn rows_that_matter(arena: std.mem.Allocator, chunk: *const Chunk, validity: ?[]const u8) Error!?[]const u8 {
    const selection = chunk.selection orelse return validity;
    return both_valid(arena, chunk.row_count, validity, selection.bits);
}

fn swapped(op: abi.CompareOp) abi.CompareOp {
    return switch (op) {
        .eq => .eq,
        .neq => .neq,
        .lt => .gt,
        .lte => .gte,
        .gt => .lt,
        .gte => .lte,
    };
}

fn evaluate_compare(arena: std.mem.Allocator, node: Expression.Compare, chunk: *const Chunk) Error!Column {
    if (node.left.is_null_literal() or node.right.is_null_literal())
        return all_null(arena, .of(.bool), chunk.row_count);
    if (node.left.is_literal() and !node.right.is_literal()) {
        return evaluate_compare(arena, .{ .op = swapped(node.op), .left = node.right, .right = node.left }, chunk);
    }
    const left = try evaluate(arena, node.left, chunk);
    const bits = try new_bits(arena, chunk.row_count);
    if (node.right.is_literal()) {
        compare_literal(node.op, &left, &node.right.node.literal, bits);
        return bool_column(chunk.row_count, bits, left.validity);
    }
    const right = try evaluate(arena, node.right, chunk);
    compare_both(node.op, &left, &right, bits);
    return bool_column(chunk.row_count, bits, try both_valid(arena, chunk.row_count, left.validity, right.validity));
}

pub fn compare_literal(op: abi.CompareOp, left: *const Column, literal: *const Column, bits: []u8) void {
    switch (left.type.layout()) {
        .bits => compare.compare_bits_scalar(op, left.data, left.row_count, literal.data[0] & 1 != 0, bits),
        .bytes => compare.compare_bytes_scalar(op, left.offsets, left.data, literal.bytes_at(0), bits),
        .fixed => if (left.type.tag == .interval)
            compare.compare_interval_scalar(op, left.values(Interval), literal.values(Interval)[0], bits)
        else
            compare.compare_fixed_scalar(op, left.type.width, left.data, left.row_count, literal.data, bits),
        .none, .list, .structure => unreachable, // plan.zig refuses them
        inline else => |layout| {
            const T = Scalar(layout);
            compare.compare_scalar(T, op, left.values(T), literal.values(T)[0], bits);
        },
    }
}

/// Two columns of one type that has an order, row by row.
pub fn compare_both(op: abi.CompareOp, left: *const Column, right: *const Column, bits: []u8) void {
    switch (left.type.layout()) {
        .bits => compare.compare_bits_columns(op, left.data, right.data, left.row_count, bits),
        .bytes => compare.compare_bytes_columns(op, left.offsets, left.data, right.offsets, right.data, bits),
        .fixed => if (left.type.tag == .interval)
            compare.compare_interval_columns(op, left.values(Interval), right.values(Interval), bits)
        else
            compare.compare_fixed_columns(op, left.type.width, left.data, right.data, left.row_count, bits),
        .none, .list, .structure => unreachable,
        inline else => |layout| {
            const T = Scalar(layout);
            compare.compare_columns(T, op, left.values(T), right.values(T), bits);
        },
    }
}

fn evaluate_between(arena: std.mem.Allocator, node: Expression.Between, chunk: *const Chunk) Error!Column {
    const value = try evaluate(arena, node.value, chunk);
    const bits = try new_bits(arena, chunk.row_count);
    switch (value.type.layout()) {
        .bytes => compare.between_bytes_scalar(
            value.offsets,
            value.data,
            node.low.bytes_at(0),
            node.high.bytes_at(0),
            bits,
        ),
        .none, .bits, .fixed, .list, .structure => unreachable,
        inline else => |layout| {
            const T = Scalar(layout);
            compare.between_scalar(T, value.values(T), node.low.values(T)[0], node.high.values(T)[0], bits);
        },
    }
    return bool_column(chunk.row_count, bits, value.validity);
}

/// `x IN (…)`: a NULL in the list turns every miss into NULL.
fn evaluate_in(arena: std.mem.Allocator, node: Expression.InList, chunk: *const Chunk) Error!Column {
    const value = try evaluate(arena, node.value, chunk);
    const bits = try new_bits(arena, chunk.row_count);
    switch (node.set) {
        .bytes => |*set| set.match(value.offsets, value.data, bits),
        inline else => |*set, tag| {
            const T = Scalar(@field(Layout, @tagName(tag)));
            set.match(value.values(T), bits);
        },
    }
    if (!node.has_null) return bool_column(chunk.row_count, bits, value.validity);
    return bool_column(chunk.row_count, bits, try both_valid(arena, chunk.row_count, value.validity, bits));
}

/// Whether keys are among those of a build: FALSE for NULL keys, unless NULLs are equal.
fn evaluate_in_build(arena: std.mem.Allocator, node: Expression.InBuild, chunk: *const Chunk) Error!Column {
    const keys = try arena.alloc(Column, node.keys.len);
    for (keys, node.keys) |*key, *expression| key.* = try evaluate(arena, expression, chunk);
    const selection = if (chunk.selection) |selection| selection.bits else null;
    const bits = try node.table.contains(arena, keys, chunk.row_count, selection);
    return bool_column(chunk.row_count, bits, null);
}

fn evaluate_is_null(arena: std.mem.Allocator, node: Expression.IsNull, chunk: *const Chunk) Error!Column {
    const value = try evaluate(arena, node.value, chunk);
    const bits = try new_bits(arena, chunk.row_count);
    if (value.type.tag == .null) {
        bitmap.fill(bits, chunk.row_count, !node.negated);
    } else if (value.validity) |validity| {
        if (node.negated) @memcpy(bits, validity[0..bits.len]) else bitmap.invert(bits, validity);
    } else {
        bitmap.fill(bits, chunk.row_count, node.negated);
    }
    return bool_column(chunk.row_count, bits, null);
}

fn evaluate_logical(
    comptime op: Logical,
    arena: std.mem.Allocator,
    terms: []const Expression,
    chunk: *const Chunk,
) Error!Column {
    const count = chunk.row_count;
    var result = try evaluate(arena, &terms[0], chunk);
    for (terms[1..]) |*term| {
        const a: boolean.Bits = .{ .values = result.data, .validity = result.validity };
        const next = if (term.fallible)
            try evaluate(arena, term, &try undecided(op, arena, chunk, a))
        else
            try evaluate(arena, term, chunk);
        const bits = try new_bits(arena, count);
        const validity = try new_bits(arena, count);
        const b: boolean.Bits = .{ .values = next.data, .validity = next.validity };
        const nullable = switch (op) {
            .@"and" => boolean.and3(count, a, b, bits, validity),
            .@"or" => boolean.or3(count, a, b, bits, validity),
        };
        result = bool_column(count, bits, if (nullable) validity else null);
    }
    return result;
}

const Logical = enum { @"and", @"or" };

/// The rows whose answer the next term can still change: AND is settled by FALSE, OR by TRUE. A
/// term that could fail is not asked about the others: `b != 0 AND a // b > 1`.
fn undecided(comptime op: Logical, arena: std.mem.Allocator, chunk: *const Chunk, so_far: boolean.Bits) Error!Chunk {
    const bits = try new_bits(arena, chunk.row_count);
    _ = switch (op) {
        // FALSE rows are the TRUE rows of NOT.
        .@"and" => blk: {
            boolean.not3(chunk.row_count, so_far, bits);
            break :blk boolean.selection(chunk.row_count, .{ .values = bits, .validity = so_far.validity }, bits);
        },
        .@"or" => boolean.selection(chunk.row_count, so_far, bits),
    };
    bitmap.invert(bits, bits);
    if (chunk.selection) |selection| bitmap.combine(.@"and", bits, bits, selection.bits);
    return narrowed(chunk, bits);
}

/// The same rows, of which only those with a bit still count.
fn narrowed(chunk: *const Chunk, bits: []const u8) Chunk {
    return .{
        .row_count = chunk.row_count,
        .columns = chunk.columns,
        .selection = .{ .bits = bits, .count = @intCast(bitmap.count(bits, chunk.row_count)) },
    };
}

/// Bits of their own for the rows that count.
fn selected_bits(arena: std.mem.Allocator, chunk: *const Chunk) Error![]align(column_module.alignment) u8 {
    const bits = try new_bits(arena, chunk.row_count);
    bitmap.fill(bits, chunk.row_count, true);
    if (chunk.selection) |selection| bitmap.combine(.@"and", bits, bits, selection.bits);
    return bits;
}

/// The rows of an expression that take its value, for `choose`. A literal is not spread out.
fn choose_part(
    arena: std.mem.Allocator,
    expression: *const Expression,
    chunk: *const Chunk,
    bits: []const u8,
) Error!choose.Part {
    if (expression.is_literal()) return .{ .column = expression.node.literal, .is_constant = true, .bits = bits };
    return .{ .column = try evaluate(arena, expression, &narrowed(chunk, bits)), .bits = bits };
}

/// Conditions are asked in order, each only about the rows that none before it has taken, and
/// values only for the rows that take them: `CASE WHEN b <> 0 THEN a // b END`.
fn evaluate_case(
    arena: std.mem.Allocator,
    result_type: DataType,
    node: Expression.Case,
    chunk: *const Chunk,
) Error!Column {
    const count = chunk.row_count;
    const left = try selected_bits(arena, chunk);
    var parts: std.ArrayList(choose.Part) = .empty;
    for (node.conditions, node.values[0..node.conditions.len]) |*condition, *value| {
        const asked = narrowed(chunk, left);
        if (asked.selection.?.count == 0) break;
        const answer = try evaluate(arena, condition, if (condition.fallible) &asked else chunk);
        const bits = try new_bits(arena, count);
        if (boolean.selection(count, .{ .values = answer.data, .validity = answer.validity }, bits) == 0) continue;
        bitmap.combine(.@"and", bits, bits, left);
        bitmap.combine(.and_not, left, left, bits);
        try parts.append(arena, try choose_part(arena, value, chunk, bits));
    }
    if (node.values.len > node.conditions.len and bitmap.count(left, count) > 0) {
        try parts.append(arena, try choose_part(arena, &node.values[node.conditions.len], chunk, left));
    }
    return choose.choose(arena, result_type, count, parts.items);
}

/// The first value that is not NULL. Those behind it are not asked for.
fn evaluate_coalesce(
    arena: std.mem.Allocator,
    result_type: DataType,
    values: []const Expression,
    chunk: *const Chunk,
) Error!Column {
    const count = chunk.row_count;
    const left = try selected_bits(arena, chunk);
    var parts: std.ArrayList(choose.Part) = .empty;
    for (values) |*value| {
        if (bitmap.count(left, count) == 0) break;
        const asked = try arena.dupe(u8, left);
        const part = try choose_part(arena, value, chunk, asked);
        if (value.is_null_literal() or part.column.type.tag == .null) continue;
        try parts.append(arena, part);
        const validity = part.column.validity orelse break;
        if (part.is_constant) break;
        bitmap.combine(.@"and", asked, asked, validity);
        bitmap.combine(.and_not, left, left, asked);
    }
    return choose.choose(arena, result_type, count, parts.items);
}

fn operand(comptime T: type, expression: *const Expression, column: *const Column) arithmetic.Operand(T) {
    if (expression.is_literal()) return .{ .scalar = expression.node.literal.values(T)[0] };
    return .{ .values = column.values(T) };
}

fn evaluate_arithmetic(
    arena: std.mem.Allocator,
    result_type: DataType,
    node: Expression.Arithmetic,
    chunk: *const Chunk,
) Error!Column {
    const count = chunk.row_count;
    if (node.left.is_null_literal() or node.right.is_null_literal()) return all_null(arena, result_type, count);
    if (result_type.layout() == .i128) switch (node.op) {
        inline .add, .subtract, .multiply => |op| return evaluate_wide(op, arena, result_type, node, chunk),
        .divide, .divide_integer, .modulo => {},
    };
    // A literal is not spread out: its one value is the operand.
    const left = if (node.left.is_literal()) node.left.node.literal else try evaluate(arena, node.left, chunk);
    const right = if (node.right.is_literal()) node.right.node.literal else try evaluate(arena, node.right, chunk);
    const validity = try both_valid(arena, count, left.validity, right.validity);
    switch (result_type.layout()) {
        inline .i8, .i16, .i32, .i64, .i128, .u8, .u16, .u32, .u64, .f32, .f64 => |layout| {
            const T = Scalar(layout);
            const out = try arena.alignedAlloc(T, .fromByteUnits(column_module.alignment), count);
            const a = operand(T, node.left, &left);
            const b = operand(T, node.right, &right);
            // With `.fail` the kernel only reads validity: a zero divisor is an error, not a NULL.
            const checked = try rows_that_matter(arena, chunk, validity);
            const bits: ?[]u8 = if (checked) |known| @constCast(known) else null;
            _ = switch (node.op) {
                .divide => if (@typeInfo(T) == .float)
                    try arithmetic.binary(T, .divide, a, b, bits, .fail, out)
                else
                    unreachable,
                inline else => |op| try arithmetic.binary(T, op, a, b, bits, .fail, out),
            };
            if (result_type.tag == .decimal and @typeInfo(T) == .int)
                try check_precision(T, out, checked, result_type.precision);
            return .{
                .type = result_type,
                .row_count = count,
                .validity = validity,
                .data = std.mem.sliceAsBytes(out),
            };
        },
        else => unreachable, // plan.zig refuses them
    }
}

/// `+`, `-` and `*` of 128 bits. An operand that was only widened for it is taken as it was.
fn evaluate_wide(
    comptime op: arithmetic.ArithmeticOp,
    arena: std.mem.Allocator,
    result_type: DataType,
    node: Expression.Arithmetic,
    chunk: *const Chunk,
) Error!Column {
    const count = chunk.row_count;
    const left: WideOperand = try .evaluate(arena, node.left, chunk);
    const right: WideOperand = try .evaluate(arena, node.right, chunk);
    const validity = try both_valid(arena, count, left.validity, right.validity);
    const out = try arena.alignedAlloc(i128, .fromByteUnits(column_module.alignment), count);
    const checked = try rows_that_matter(arena, chunk, validity);
    const precision: u8 = if (result_type.tag == .decimal) result_type.precision else 0;
    if (wide_arithmetic.binary(op, left.operand, right.operand, out)) |bits| {
        const fits = precision == 0 or
            @as(u128, 1) << @intCast(bits) < std.math.powi(u128, 10, precision) catch unreachable; // 10^38 fits
        if (!fits) try check_precision(i128, out, checked, precision);
    } else {
        // Long numbers, or NULLs that hold some: row by row.
        const a = try left.spread(arena);
        const b = try right.spread(arena);
        const bits: ?[]u8 = if (checked) |known| @constCast(known) else null;
        _ = try arithmetic.binary(i128, op, a, b, bits, .fail, out);
        if (precision != 0) try check_precision(i128, out, checked, precision);
    }
    return .{ .type = result_type, .row_count = count, .validity = validity, .data = std.mem.sliceAsBytes(out) };
}

const WideOperand = struct {
    operand: wide_arithmetic.Operand,
    validity: ?[]const u8,

    fn evaluate(arena: std.mem.Allocator, expression: *const Expression, chunk: *const Chunk) Error!WideOperand {
        if (expression.is_literal())
            return .{ .operand = .{ .scalar = expression.node.literal.values(i128)[0] }, .validity = null };
        if (expression.node == .cast and cast.only_widens(expression.node.cast.value.type, expression.type)) {
            const value = try expression_module.evaluate(arena, expression.node.cast.value, chunk);
            return .{ .operand = .{ .narrow = value.values(i64) }, .validity = value.validity };
        }
        const value = try expression_module.evaluate(arena, expression, chunk);
        return .{ .operand = .{ .values = value.values(i128) }, .validity = value.validity };
    }

    fn spread(self: *const WideOperand, arena: std.mem.Allocator) Error!arithmetic.Operand(i128) {
        switch (self.operand) {
            .values => |values| return .{ .values = values },
            .scalar => |value| return .{ .scalar = value },
            .narrow => |values| {
                const wide = try arena.alloc(i128, values.len);
                for (wide, values) |*to, value| to.* = value;
                return .{ .values = wide };
            },
        }
    }
};

/// A decimal's value has no more digits than its type, however much its storage could hold.
pub fn check_precision(
    comptime T: type,
    values: []const T,
    validity: ?[]const u8,
    precision: u8,
) error{OutOfRange}!void {
    const limit = std.math.powi(i128, 10, precision) catch unreachable; // 10^38 fits
    if (T == i128) {
        // Comparing 128 bits takes several steps a row; the longest upper half says enough, mostly.
        var longest: u64 = 0;
        for (values) |value| {
            const top: i64 = @truncate(value >> 64);
            longest |= @bitCast(top ^ (top >> 63));
        }
        if (longest < @as(u64, @intCast(limit >> 64))) return;
    }
    var beyond = false;
    for (values) |value| beyond = beyond or value >= limit or value <= -limit;
    if (!beyond) return;
    for (values, 0..) |value, row| {
        if (value < limit and value > -limit) continue;
        if (validity) |bits| if (!bitmap.get(bits.ptr, row)) continue;
        interrupt.describe("a decimal of more than {d} digits: {d} without its point", .{ precision, value });
        return error.OutOfRange;
    }
}

fn evaluate_negate(
    arena: std.mem.Allocator,
    result_type: DataType,
    term: *const Expression,
    chunk: *const Chunk,
) Error!Column {
    const value = try evaluate(arena, term, chunk);
    switch (result_type.layout()) {
        inline .i8, .i16, .i32, .i64, .i128, .f32, .f64 => |layout| {
            const T = Scalar(layout);
            const out = try arena.alignedAlloc(T, .fromByteUnits(column_module.alignment), chunk.row_count);
            try arithmetic.negate(T, value.values(T), try rows_that_matter(arena, chunk, value.validity), out);
            return .{
                .type = result_type,
                .row_count = chunk.row_count,
                .validity = value.validity,
                .data = std.mem.sliceAsBytes(out),
            };
        },
        else => unreachable,
    }
}

/// Bytes of `count` values. A long literal times many rows may take more than there is.
fn product(size: u64, count: u32) Error!usize {
    const total = std.math.mul(u64, size, count) catch return error.OutOfMemory;
    return if (total <= text_module.size_max) @intCast(total) else error.OutOfMemory;
}

/// A literal as a whole column.
pub fn repeat(arena: std.mem.Allocator, literal: *const Column, count: u32) Error!Column {
    if (!literal.is_valid(0)) return all_null(arena, literal.type, count);
    var column: Column = .{ .type = literal.type, .row_count = count };
    switch (literal.type.layout()) {
        .none, .list, .structure => unreachable,
        .bits => {
            const bits = try new_bits(arena, count);
            bitmap.fill(bits, count, literal.data[0] & 1 != 0);
            column.data = bits;
        },
        .bytes => {
            const text = literal.bytes_at(0);
            const data = try arena.alignedAlloc(u8, .fromByteUnits(column_module.alignment), try product(
                text.len,
                count,
            ));
            const offsets = try arena.alloc(u32, count + 1);
            for (0..count) |row| @memcpy(data[row * text.len ..][0..text.len], text);
            for (offsets, 0..) |*offset, row| offset.* = @intCast(row * text.len);
            column.data = data;
            column.offsets = offsets;
        },
        else => {
            const size: usize = @intCast(literal.type.value_size());
            const data = try arena.alignedAlloc(u8, .fromByteUnits(column_module.alignment), try product(size, count));
            for (0..count) |row| @memcpy(data[row * size ..][0..size], literal.data[0..size]);
            column.data = data;
        },
    }
    return column;
}
