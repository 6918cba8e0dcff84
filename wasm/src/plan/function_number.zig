//! Functions of numbers: which there are, and their kernels.
//!
//! The planner has cast: both sides of an operator have one type, functions without an exact answer take float64.
//! A decimal is rounded to digits that are a constant, since they are part of the result's type.
const std = @import("std");
const abi = @import("../abi.zig");
const bitmap = @import("../core/bitmap.zig");
const each = @import("../kernel/each.zig");
const expression_module = @import("expression.zig");
const function = @import("function.zig");
const math = @import("../kernel/math.zig");
const moment = @import("../kernel/moment.zig");
const numeric = @import("../kernel/numeric.zig");
const power = @import("../kernel/power.zig");
const schema = @import("../core/schema.zig");
const Call = function.Call;
const Column = @import("../core/column.zig").Column;
const DataType = schema.DataType;
const Error = function.Error;
const Expression = expression_module.Expression;
const Parameter = function.Parameter;
const Rounding = numeric.Rounding;
const Scalar = schema.Scalar;
const Signature = function.Signature;
const TypeTag = abi.TypeTag;

const integer_tags = [_]TypeTag{ .i8, .i16, .i32, .i64, .i128, .u8, .u16, .u32, .u64 };
const number_tags = integer_tags ++ [_]TypeTag{ .f32, .f64, .decimal };
const integer: Parameter = .of(&integer_tags);
const number: Parameter = .of(&number_tags);
const float: Parameter = .of(&.{.f64});
const digits: Parameter = .of(&.{.i32});
const same: Parameter = .{ .like_first = true };

pub fn signature(id: abi.FunctionId) ?Signature {
    return switch (id) {
        .abs => .{ .parameters = &.{number}, .result = .{ .like = 0 }, .fallible = true },
        .sign => .{ .parameters = &.{number}, .result = .{ .tag = .i8 } },
        .round, .truncate, .round_even, .floor, .ceil => .{
            .parameters = &.{ number, digits },
            .optional = 1,
            .result = .{ .rule = rounded_fits },
            .fallible = true,
        },
        .even => .{ .parameters = &.{float}, .result = .{ .tag = .f64 } },
        .is_nan => .{ .parameters = &.{.of(&.{ .f32, .f64 })}, .result = .{ .tag = .bool } },
        .is_finite, .is_infinite => .{ .parameters = &.{.of(&.{ .f32, .f64, .date, .timestamp })}, .result = .{
            .tag = .bool,
        } },
        .gcd, .lcm => .{ .parameters = &.{ .of(&.{ .i64, .i128 }), same }, .result = .{ .like = 0 }, .fallible = true },
        .factorial => .{ .parameters = &.{.of(&.{.i32})}, .result = .{ .tag = .i128 }, .fallible = true },
        .bit_and, .bit_or, .bit_xor, .shift_right => .{ .parameters = &.{ integer, same }, .result = .{ .like = 0 } },
        .shift_left => .{ .parameters = &.{ integer, same }, .result = .{ .like = 0 }, .fallible = true },
        .bit_not => .{ .parameters = &.{integer}, .result = .{ .like = 0 } },
        .bit_count => .{ .parameters = &.{integer}, .result = .{ .tag = .i8 } },
        else => if (unary_function(id) != null)
            .{ .parameters = &.{float}, .result = .{ .tag = .f64 } }
        else if (binary_function(id) != null)
            .{ .parameters = &.{ float, float }, .result = .{ .tag = .f64 } }
        else
            null,
    };
}

fn unary_function(id: abi.FunctionId) ?math.Unary {
    return switch (id) {
        inline .sqrt,
        .cbrt,
        .exp,
        .ln,
        .log10,
        .log2,
        .sin,
        .cos,
        .tan,
        .asin,
        .acos,
        .atan,
        .cot,
        .sinh,
        .cosh,
        .tanh,
        .asinh,
        .acosh,
        .atanh,
        .degrees,
        .radians,
        .gamma,
        .log_gamma,
        => |known| @field(math.Unary, @tagName(known)),
        else => null,
    };
}

fn binary_function(id: abi.FunctionId) ?math.Binary {
    return switch (id) {
        inline .log, .power, .atan2, .next_after, .float_divide, .float_modulo => |known| @field(
            math.Binary,
            @tagName(known),
        ),
        else => null,
    };
}

/// Decimals: the digits that are left are the result's scale, none where they are negative.
fn rounded_fits(arguments: []const Expression, result: DataType) bool {
    const value = arguments[0].type;
    if (value.tag != .decimal) return result.eql(value);
    if (result.tag != .decimal or result.layout() != value.layout()) return false;
    if (arguments.len == 1) return result.scale == 0 and value.scale >= 0;
    if (arguments[1].is_null_literal()) return true;
    if (!arguments[1].is_literal()) return false;
    const wanted = arguments[1].node.literal.values(i32)[0];
    return result.scale == @max(0, wanted) and wanted <= value.scale;
}

pub fn evaluate(call: *const Call) Error!Column {
    switch (call.id) {
        .abs => return evaluate_abs(call),
        .sign => return evaluate_sign(call),
        .round => return evaluate_rounded(call, .half_away),
        .round_even => return evaluate_rounded(call, .half_even),
        .truncate => return evaluate_rounded(call, .toward_zero),
        .floor => return evaluate_rounded(call, .down),
        .ceil => return evaluate_rounded(call, .up),
        .even => {
            const out = try call.new_values(f64);
            for (out, 0..) |*to, row| to.* = numeric.even(call.operands[0].value_at(f64, row));
            return call.of_values(f64, out);
        },
        .is_nan, .is_finite, .is_infinite => return evaluate_finite(call),
        .gcd, .lcm => return evaluate_divisors(call),
        .factorial => {
            const out = try call.new_values(i128);
            try each.each(i128, out, call.rows, "factorial", call, struct {
                fn at(c: *const Call, row: usize) ?i128 {
                    return numeric.factorial(c.operands[0].value_at(i32, row));
                }
            }.at);
            return call.of_values(i128, out);
        },
        .bit_and, .bit_or, .bit_xor, .bit_not, .shift_left, .shift_right => return evaluate_bits(call),
        .bit_count => return evaluate_bit_count(call),
        else => {
            if (unary_function(call.id)) |which| switch (which) {
                inline else => |known| {
                    const out = try call.new_values(f64);
                    const column = try call.spread(0);
                    math.map(known, column.values(f64), out);
                    return call.of_values(f64, out);
                },
            };
            return evaluate_pairs(call);
        },
    }
}

fn evaluate_pairs(call: *const Call) Error!Column {
    const out = try call.new_values(f64);
    switch (binary_function(call.id).?) {
        .power => power.fill(out, call, struct {
            fn at(c: *const Call, row: usize) f64 {
                return c.operands[0].value_at(f64, row);
            }
        }.at, struct {
            fn at(c: *const Call, row: usize) f64 {
                return c.operands[1].value_at(f64, row);
            }
        }.at),
        inline else => |known| for (out, 0..) |*to, row| {
            to.* = math.binary(known, call.operands[0].value_at(f64, row), call.operands[1].value_at(f64, row));
        },
    }
    return call.of_values(f64, out);
}

fn evaluate_abs(call: *const Call) Error!Column {
    switch (call.type.layout()) {
        inline .f32, .f64 => |layout| {
            const F = Scalar(layout);
            const out = try call.new_values(F);
            for (out, 0..) |*to, row| to.* = @abs(call.operands[0].value_at(F, row));
            return call.of_values(F, out);
        },
        inline .i8, .i16, .i32, .i64, .i128, .u8, .u16, .u32, .u64 => |layout| {
            const T = Scalar(layout);
            const out = try call.new_values(T);
            try each.each(T, out, call.rows, "abs", call, struct {
                fn at(c: *const Call, row: usize) ?T {
                    return numeric.absolute(T, c.operands[0].value_at(T, row));
                }
            }.at);
            return call.of_values(T, out);
        },
        else => unreachable,
    }
}

fn evaluate_sign(call: *const Call) Error!Column {
    const out = try call.new_values(i8);
    switch (call.operands[0].column.type.layout()) {
        inline .i8, .i16, .i32, .i64, .i128, .u8, .u16, .u32, .u64, .f32, .f64 => |layout| {
            const T = Scalar(layout);
            for (out, 0..) |*to, row| to.* = numeric.sign(T, call.operands[0].value_at(T, row));
        },
        else => unreachable,
    }
    return call.of_values(i8, out);
}

// Rounding.

fn evaluate_rounded(call: *const Call, comptime rounding: Rounding) Error!Column {
    const kind = call.operands[0].column.type;
    if (kind.tag == .decimal)
        return if (kind.layout() == .i64) round_decimals(call, i64, rounding) else round_decimals(call, i128, rounding);
    switch (kind.layout()) {
        inline .f32, .f64 => |layout| return round_floats(call, Scalar(layout), rounding),
        inline .i8, .i16, .i32, .i64, .i128, .u8, .u16, .u32, .u64 => |layout| return round_integers(
            call,
            Scalar(layout),
            rounding,
        ),
        else => unreachable,
    }
}

fn round_floats(call: *const Call, comptime F: type, comptime rounding: Rounding) Error!Column {
    const out = try call.new_values(F);
    if (call.operands.len == 1) {
        const column = try call.spread(0);
        numeric.round_floats(F, rounding, column.values(F), out);
    } else for (out, 0..) |*to, row| {
        to.* = numeric.round_digits(F, rounding, call.operands[0].value_at(F, row), call.operands[1].value_at(
            i32,
            row,
        ));
    }
    return call.of_values(F, out);
}

fn round_integers(call: *const Call, comptime T: type, comptime rounding: Rounding) Error!Column {
    // There is nothing below the point.
    if (rounding == .down or rounding == .up or call.operands.len == 1) {
        var column = try call.spread(0);
        column.validity = call.validity;
        return column;
    }
    const out = try call.new_values(T);
    try each.each(T, out, call.rows, "round", call, struct {
        fn at(c: *const Call, row: usize) ?T {
            return numeric.round_integer(T, rounding, c.operands[0].value_at(T, row), c.operands[1].value_at(i32, row));
        }
    }.at);
    return call.of_values(T, out);
}

fn round_decimals(call: *const Call, comptime T: type, comptime rounding: Rounding) Error!Column {
    const wanted: i64 = if (call.operands.len == 1) 0 else call.operands[1].value_at(i32, 0);
    // The signature has seen that there are digits to cut.
    const cut: u64 = @intCast(@as(i64, call.operands[0].column.type.scale) - wanted);
    const cutter: numeric.Cutter(T, rounding) = .init(cut, @intCast(@max(0, -wanted)), call.type.precision);
    const column = try call.spread(0);
    const Context = struct { cutter: *const numeric.Cutter(T, rounding), values: []const T };
    const out = try call.new_values(T);
    try each.each(T, out, call.rows, "round", Context{ .cutter = &cutter, .values = column.values(T) }, struct {
        fn at(c: Context, row: usize) ?T {
            return c.cutter.apply(c.values[row]);
        }
    }.at);
    return call.of_values(T, out);
}

// Floats and infinite dates.

fn evaluate_finite(call: *const Call) Error!Column {
    const bits = try call.new_bits();
    @memset(bits, 0);
    const value = &call.operands[0];
    switch (value.column.type.layout()) {
        inline .f32, .f64 => |layout| for (0..call.row_count) |row| {
            const x = value.value_at(Scalar(layout), row);
            const found = switch (call.id) {
                .is_nan => std.math.isNan(x),
                .is_finite => std.math.isFinite(x),
                else => std.math.isInf(x),
            };
            if (found) bitmap.set(bits.ptr, row);
        },
        inline .i32, .i64 => |layout| for (0..call.row_count) |row| {
            const infinite = moment.is_infinite(Scalar(layout), value.value_at(Scalar(layout), row));
            if (infinite == (call.id == .is_infinite)) bitmap.set(bits.ptr, row);
        },
        else => unreachable,
    }
    return call.of_bits(bits);
}

// Whole numbers.

fn evaluate_divisors(call: *const Call) Error!Column {
    switch (call.type.layout()) {
        inline .i64, .i128 => |layout| {
            const T = Scalar(layout);
            const out = try call.new_values(T);
            try each.each(T, out, call.rows, "a common divisor or multiple", call, struct {
                fn at(c: *const Call, row: usize) ?T {
                    const a = c.operands[0].value_at(T, row);
                    const b = c.operands[1].value_at(T, row);
                    return if (c.id == .gcd) numeric.gcd(T, a, b) else numeric.lcm(T, a, b);
                }
            }.at);
            return call.of_values(T, out);
        },
        else => unreachable,
    }
}

fn evaluate_bits(call: *const Call) Error!Column {
    switch (call.type.layout()) {
        inline .i8, .i16, .i32, .i64, .i128, .u8, .u16, .u32, .u64 => |layout| {
            const T = Scalar(layout);
            const out = try call.new_values(T);
            const a = &call.operands[0];
            if (call.id == .bit_not) {
                for (out, 0..) |*to, row| to.* = ~a.value_at(T, row);
                return call.of_values(T, out);
            }
            const b = &call.operands[1];
            switch (call.id) {
                .bit_and => for (out, 0..) |*to, row| {
                    to.* = a.value_at(T, row) & b.value_at(T, row);
                },
                .bit_or => for (out, 0..) |*to, row| {
                    to.* = a.value_at(T, row) | b.value_at(T, row);
                },
                .bit_xor => for (out, 0..) |*to, row| {
                    to.* = a.value_at(T, row) ^ b.value_at(T, row);
                },
                .shift_right => for (out, 0..) |*to, row| {
                    to.* = numeric.shift_right(T, a.value_at(T, row), b.value_at(T, row));
                },
                .shift_left => try each.each(T, out, call.rows, "a shift to the left", call, struct {
                    fn at(c: *const Call, row: usize) ?T {
                        return numeric.shift_left(T, c.operands[0].value_at(T, row), c.operands[1].value_at(T, row));
                    }
                }.at),
                else => unreachable,
            }
            return call.of_values(T, out);
        },
        else => unreachable,
    }
}

fn evaluate_bit_count(call: *const Call) Error!Column {
    const out = try call.new_values(i8);
    switch (call.operands[0].column.type.layout()) {
        inline .i8, .i16, .i32, .i64, .i128, .u8, .u16, .u32, .u64 => |layout| for (out, 0..) |*to, row| {
            const T = Scalar(layout);
            const value: @Int(.unsigned, @bitSizeOf(T)) = @bitCast(call.operands[0].value_at(T, row));
            // A number of 128 bits may have as many, which a byte with a sign does not hold.
            to.* = @bitCast(@as(u8, @popCount(value)));
        },
        else => unreachable,
    }
    return call.of_values(i8, out);
}
