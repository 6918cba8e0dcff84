//! Arithmetic on whole chunks of one type: `out[i] = a[i] op b[i]`.
//!
//! What the operators do, as DuckDB 2.0 does it:
//!
//!     + - *   integers   checked: a result that leaves the type is OutOfRange
//!     + - *   floats     IEEE: 1e308 * 10 is inf, no error
//!     /       floats     IEEE: 1 / 0 is inf, 0 / 0 is NaN (integers are cast before)
//!     //      integers   truncates toward zero, -7 // 2 = -3; MIN // -1 is OutOfRange
//!     //      floats     plain division, 7.5 // 2 = 3.75, but a zero divisor is a division by zero
//!     %       integers   sign of the dividend, -7 % 3 = -1; MIN % -1 is OutOfRange
//!     %       floats     fmod: 5.5 % 0 and inf % 2 are NaN, 5 % inf = 5; never an error
//!     - x     integers   checked: -MIN, and minus any unsigned number but zero, is OutOfRange
//!
//! A division by zero (the lines with `//`, and `%` of integers) raises in DuckDB 2.0, unless the
//! setting error_on_division_by_zero is off or TRY(...) stands around it: then it is NULL. The
//! caller says which by `ZeroDivision`.
//!
//! Rows that are NULL hold anything and never raise. So a chunk is computed in one pass that only
//! notes whether any row overflowed, and a second, careful pass is made when one did. Values of
//! NULL rows in `out` are unspecified. `out` overlaps neither input: the second pass reads them again.
const std = @import("std");
const abi = @import("../abi.zig");
const bitmap = @import("../core/bitmap.zig");
const interrupt = @import("../core/interrupt.zig");
const assert = std.debug.assert;

pub const ArithmeticOp = abi.ArithmeticOp;
pub const Error = error{OutOfRange};

pub fn Operand(comptime T: type) type {
    return union(enum) {
        values: []const T,
        scalar: T,

        pub inline fn at(self: @This(), row: usize) T {
            return switch (self) {
                .values => |values| values[row],
                .scalar => |scalar| scalar,
            };
        }
    };
}

pub const ZeroDivision = enum {
    /// The first valid row with a zero divisor is OutOfRange.
    fail,
    /// Such rows become NULL: their validity bit is cleared.
    make_null,
};

/// `validity` holds the combined validity of both operands, null when every row is valid; only
/// `make_null` writes to it, and then it must be there. Returns whether a bit was cleared.
pub fn binary(
    comptime T: type,
    comptime op: ArithmeticOp,
    a: Operand(T),
    b: Operand(T),
    validity: ?[]u8,
    zero_division: ZeroDivision,
    out: []T,
) Error!bool {
    check_lengths(T, a, b, validity, out);
    if (comptime is_float(T)) return binary_float(T, op, a, b, validity, zero_division, out);
    switch (op) {
        .add, .subtract, .multiply => {
            if (any_overflow(T, op, a, b, out)) try refuse_overflow(T, op, a, b, validity, out.len);
            return false;
        },
        .divide => @compileError("/ divides floats; cast integers first"),
        .divide_integer, .modulo => return divide(T, op, a, b, validity, zero_division, out),
    }
}

fn check_lengths(comptime T: type, a: Operand(T), b: Operand(T), validity: ?[]u8, out: []T) void {
    if (a == .values) assert(a.values.len == out.len);
    if (b == .values) assert(b.values.len == out.len);
    if (validity) |bits| assert(bits.len >= bitmap.size(out.len));
}

/// `-x`. Unsigned zero is its own negative, as in DuckDB.
pub fn negate(comptime T: type, values: []const T, validity: ?[]const u8, out: []T) Error!void {
    assert(values.len == out.len);
    if (comptime is_float(T)) {
        for (out, values) |*to, value| to.* = -value;
        return;
    }
    const signed = @typeInfo(T).int.signedness == .signed;
    var bad = false;
    for (out, values) |*to, value| {
        bad = bad or (if (signed) value == std.math.minInt(T) else value != 0);
        to.* = 0 -% value;
    }
    if (!bad) return;
    for (values, 0..) |value, row| {
        const fits = if (signed) value != std.math.minInt(T) else value == 0;
        if (fits or !is_valid(validity, row)) continue;
        return overflow_of("subtraction", 0, value, @typeName(T));
    }
}

inline fn is_float(comptime T: type) bool {
    return @typeInfo(T) == .float;
}

inline fn is_valid(validity: ?[]const u8, row: usize) bool {
    const bits = validity orelse return true;
    return bitmap.get(bits.ptr, row);
}

/// Two registers of 128 bits a step; i128 has no lanes to speak of.
fn lanes_of(comptime T: type) comptime_int {
    return if (T == i128) 1 else 32 / @sizeOf(T);
}

// Integers: add, subtract, multiply.

/// Computes every row with wrapping, and says whether any row wrapped.
fn any_overflow(comptime T: type, comptime op: ArithmeticOp, a: Operand(T), b: Operand(T), out: []T) bool {
    // Each pair of operand kinds gets its own loop: a scalar is spread to lanes once.
    return switch (a) {
        .values => |x| switch (b) {
            .values => |y| any_overflow_of(T, op, x, y, out),
            .scalar => |y| any_overflow_of(T, op, x, y, out),
        },
        .scalar => |x| switch (b) {
            .values => |y| any_overflow_of(T, op, x, y, out),
            .scalar => |y| blk: {
                @memset(out, x);
                break :blk any_overflow_of(T, op, @as([]const T, out), y, out);
            },
        },
    };
}

/// `x` and `y` are slices or single values.
fn any_overflow_of(comptime T: type, comptime op: ArithmeticOp, x: anytype, y: anytype, out: []T) bool {
    if (T == i128) return any_overflow_scalar(T, op, x, y, out);
    if (op == .multiply and @bitSizeOf(T) == 64 and !products_fit(T, x, y)) {
        return any_overflow_scalar(T, op, x, y, out);
    }
    const lanes = lanes_of(T);
    const V = @Vector(lanes, T);
    var overflow: V = @splat(0);
    var i: usize = 0;
    while (i + lanes <= out.len) : (i += lanes) {
        const result, const flags = wrapping(T, op, lanes, load(T, lanes, x, i), load(T, lanes, y, i));
        out[i..][0..lanes].* = result;
        overflow |= flags;
    }
    var any = @reduce(.Or, overflow) != 0;
    while (i < out.len) : (i += 1) {
        const result, const flags = wrapping(T, op, 1, load(T, 1, x, i), load(T, 1, y, i));
        out[i] = result[0];
        any = any or flags[0] != 0;
    }
    return any;
}

inline fn load(comptime T: type, comptime lanes: comptime_int, x: anytype, i: usize) @Vector(lanes, T) {
    return if (@TypeOf(x) == T) @splat(x) else x[i..][0..lanes].*;
}

/// The wrapped result, and lanes that are not zero where it wrapped.
inline fn wrapping(
    comptime T: type,
    comptime op: ArithmeticOp,
    comptime lanes: comptime_int,
    a: @Vector(lanes, T),
    b: @Vector(lanes, T),
) struct { @Vector(lanes, T), @Vector(lanes, T) } {
    const V = @Vector(lanes, T);
    const zero: V = @splat(0);
    const one: V = @splat(1);
    const signed = @typeInfo(T).int.signedness == .signed;
    switch (op) {
        .add => {
            const sum = a +% b;
            // Signed: both operands differ in sign from the sum. The sign bit tells.
            const flags = if (signed) ((a ^ sum) & (b ^ sum)) >> @splat(@bitSizeOf(T) -
                1) else @select(T, sum < a, one, zero);
            return .{ sum, flags };
        },
        .subtract => {
            const difference = a -% b;
            const flags = if (signed) ((a ^ b) & (a ^ difference)) >> @splat(@bitSizeOf(T) -
                1) else @select(T, a < b, one, zero);
            return .{ difference, flags };
        },
        .multiply => {
            const product = a *% b;
            // 64 bits: the caller has seen that no product can leave the type.
            if (@bitSizeOf(T) == 64) return .{ product, zero };
            const Wide = @Vector(lanes, @Int(@typeInfo(T).int.signedness, @bitSizeOf(T) * 2));
            const exact = @as(Wide, a) * @as(Wide, b);
            return .{ product, @select(T, exact != @as(Wide, product), one, zero) };
        },
        else => comptime unreachable,
    }
}

/// Whether no product of 64 bits can overflow, judged by the longest number on either side. Two
/// cheap passes; nearly every chunk passes, and then needs no 128-bit product at all.
fn products_fit(comptime T: type, x: anytype, y: anytype) bool {
    // Signed: 2^63 itself, from two negative powers of two, must not come out.
    const spare: u32 = if (T == i64) 62 else 64;
    return bits_needed(T, x) + bits_needed(T, y) <= spare;
}

/// Bits of the longest magnitude: -1 takes none and 5 takes three, so that n and m bits multiply
/// into less than or exactly 2^(n + m) in magnitude.
pub fn bits_needed(comptime T: type, x: anytype) u32 {
    var longest: u64 = 0;
    if (@TypeOf(x) == T) {
        longest = magnitude(x);
    } else for (x) |value| longest |= magnitude(value);
    return 64 - @clz(longest);
}

inline fn magnitude(value: anytype) u64 {
    if (@TypeOf(value) == u64) return value;
    return @bitCast(value ^ (value >> 63));
}

fn any_overflow_scalar(comptime T: type, comptime op: ArithmeticOp, x: anytype, y: anytype, out: []T) bool {
    var any = false;
    for (out, 0..) |*to, i| {
        const a = if (@TypeOf(x) == T) x else x[i];
        const b = if (@TypeOf(y) == T) y else y[i];
        const result, const overflow = checked(T, op, a, b);
        to.* = result;
        any = any or overflow != 0;
    }
    return any;
}

inline fn checked(comptime T: type, comptime op: ArithmeticOp, a: T, b: T) struct { T, u1 } {
    return switch (op) {
        .add => @addWithOverflow(a, b),
        .subtract => @subWithOverflow(a, b),
        .multiply => @mulWithOverflow(a, b),
        else => comptime unreachable,
    };
}

/// Some row overflowed: an error if one of them is valid.
fn refuse_overflow(
    comptime T: type,
    comptime op: ArithmeticOp,
    a: Operand(T),
    b: Operand(T),
    validity: ?[]const u8,
    row_count: usize,
) Error!void {
    @branchHint(.cold);
    for (0..row_count) |row| {
        if (!is_valid(validity, row)) continue;
        _, const overflow = checked(T, op, a.at(row), b.at(row));
        if (overflow == 0) continue;
        const name = switch (op) {
            .add => "addition",
            .subtract => "subtraction",
            .multiply => "multiplication",
            else => comptime unreachable,
        };
        return overflow_of(name, a.at(row), b.at(row), @typeName(T));
    }
}

/// Not generic: every type's numbers fit, and one copy of the formatting is enough.
fn overflow_of(name: []const u8, a: i128, b: i128, type_name: []const u8) Error {
    @branchHint(.cold);
    interrupt.describe("overflow in {s} of {d} and {d} ({s})", .{ name, a, b, type_name });
    return error.OutOfRange;
}

// Integers: divide and modulo.

fn divide(
    comptime T: type,
    comptime op: ArithmeticOp,
    a: Operand(T),
    b: Operand(T),
    validity: ?[]u8,
    zero_division: ZeroDivision,
    out: []T,
) Error!bool {
    // A harmless divisor, the usual `x // 10`, leaves nothing to check.
    if (b == .scalar and b.scalar != 0 and !is_minus_one(T, b.scalar)) {
        for (out, 0..) |*to, row| to.* = quotient(T, op, a.at(row), b.scalar);
        return false;
    }
    var cleared = false;
    for (out, 0..) |*to, row| {
        const x = a.at(row);
        const y = b.at(row);
        if (y == 0) {
            to.* = 0;
            cleared = (try divided_by_zero(T, x, validity, zero_division, row)) or cleared;
        } else if (is_minus_one(T, y) and x == std.math.minInt(T)) {
            to.* = 0;
            if (!is_valid(validity, row)) continue;
            return overflow_of("division", x, y, @typeName(T));
        } else {
            to.* = quotient(T, op, x, y);
        }
    }
    return cleared;
}

inline fn is_minus_one(comptime T: type, value: T) bool {
    return @typeInfo(T).int.signedness == .signed and value == -1;
}

inline fn quotient(comptime T: type, comptime op: ArithmeticOp, x: T, y: T) T {
    // Bytes divide as words: no machine has it otherwise, and Zig 0.17's own backend fails on them.
    const Wide = if (@bitSizeOf(T) == 8) i32 else T;
    const a: Wide = x;
    const b: Wide = y;
    return @intCast(if (op == .divide_integer) @divTrunc(a, b) else @rem(a, b));
}

/// True when the row was valid and is now NULL.
fn divided_by_zero(comptime T: type, x: T, validity: ?[]u8, zero_division: ZeroDivision, row: usize) Error!bool {
    if (!is_valid(validity, row)) return false;
    switch (zero_division) {
        .fail => {
            if (comptime is_float(T))
                interrupt.describe("division of {e} by zero", .{@as(f64, x)})
            else
                describe_zero(x);
            return error.OutOfRange;
        },
        .make_null => {
            bitmap.clear(validity.?.ptr, row);
            return true;
        },
    }
}

fn describe_zero(x: i128) void {
    interrupt.describe("division of {d} by zero", .{x});
}

// Floats.

fn binary_float(
    comptime T: type,
    comptime op: ArithmeticOp,
    a: Operand(T),
    b: Operand(T),
    validity: ?[]u8,
    zero_division: ZeroDivision,
    out: []T,
) Error!bool {
    switch (a) {
        .values => |x| switch (b) {
            .values => |y| fill_float(T, op, x, y, out),
            .scalar => |y| fill_float(T, op, x, y, out),
        },
        .scalar => |x| switch (b) {
            .values => |y| fill_float(T, op, x, y, out),
            .scalar => |y| {
                @memset(out, x);
                fill_float(T, op, @as([]const T, out), y, out);
            },
        },
    }
    if (op != .divide_integer) return false;
    if (b == .scalar and b.scalar != 0) return false;
    var cleared = false;
    for (0..out.len) |row| {
        if (b.at(row) != 0) continue;
        cleared = (try divided_by_zero(T, a.at(row), validity, zero_division, row)) or cleared;
    }
    return cleared;
}

fn fill_float(comptime T: type, comptime op: ArithmeticOp, x: anytype, y: anytype, out: []T) void {
    const lanes = lanes_of(T);
    var i: usize = 0;
    while (i + lanes <= out.len) : (i += lanes) {
        out[i..][0..lanes].* = apply_float(T, op, lanes, load(T, lanes, x, i), load(T, lanes, y, i));
    }
    while (i < out.len) : (i += 1) {
        out[i] = apply_float(T, op, 1, load(T, 1, x, i), load(T, 1, y, i))[0];
    }
}

inline fn apply_float(
    comptime T: type,
    comptime op: ArithmeticOp,
    comptime lanes: comptime_int,
    a: @Vector(lanes, T),
    b: @Vector(lanes, T),
) @Vector(lanes, T) {
    switch (op) {
        .add => return a + b,
        .subtract => return a - b,
        .multiply => return a * b,
        .divide, .divide_integer => return a / b,
        .modulo => {
            const x: [lanes]T = a;
            const y: [lanes]T = b;
            var result: [lanes]T = undefined;
            // @rem asks for a divisor that is not zero.
            for (&result, x, y) |*to, p, q| to.* = if (q == 0) std.math.nan(T) else @rem(p, q);
            return result;
        },
    }
}

const testing = std.testing;

const integer_types = .{ i8, i16, i32, i64, i128, u8, u16, u32, u64 };
const test_lengths = [_]usize{ 0, 1, 3, 4, 5, 15, 16, 17, 31, 32, 33, 100 };

/// Mostly small numbers, with the edges of the type in between.
fn random_integer(comptime T: type, random: std.Random) T {
    return switch (random.uintLessThan(u8, 12)) {
        0 => std.math.minInt(T),
        1 => std.math.maxInt(T),
        2 => 0,
        3 => std.math.cast(T, @as(i8, -1)) orelse 1,
        4 => random.int(T),
        else => @intCast(random.uintLessThan(u8, 11)),
    };
}

/// What one valid row gives: null stands for an overflow.
fn expected_integer(comptime T: type, comptime op: ArithmeticOp, a: T, b: T) ?T {
    // Wide enough to be exact for up to 32 bits by itself; beyond, the builtin decides.
    if (@bitSizeOf(T) >= 64 and (op == .add or op == .subtract or op == .multiply)) {
        const result, const overflow = checked(T, op, a, b);
        return if (overflow == 0) result else null;
    }
    const Wide = if (T == i128) i192 else i128;
    const x: Wide = a;
    const y: Wide = b;
    const exact = switch (op) {
        .add => x + y,
        .subtract => x - y,
        .multiply => x * y,
        .divide_integer => @divTrunc(x, y),
        .modulo => if (x == std.math.minInt(T) and y == -1) return null else @rem(x, y),
        .divide => unreachable,
    };
    return std.math.cast(T, exact);
}

const Kinds = enum { both, scalar_left, scalar_right, scalars };

fn check_binary(
    comptime T: type,
    comptime op: ArithmeticOp,
    random: std.Random,
    length: usize,
    kinds: Kinds,
    zero_division: ZeroDivision,
) !void {
    var a: [100]T = undefined;
    var b: [100]T = undefined;
    var out: [100]T = undefined;
    var validity: [13]u8 = undefined;
    for (&a, &b) |*x, *y| {
        x.* = random_integer(T, random);
        y.* = random_integer(T, random);
    }
    if (kinds == .scalar_left or kinds == .scalars) @memset(&a, a[0]);
    if (kinds == .scalar_right or kinds == .scalars) @memset(&b, b[0]);
    random.bytes(&validity);
    const with_validity = random.boolean() or zero_division == .make_null;
    const before = validity;
    const left: Operand(T) = if (kinds == .scalar_left or kinds == .scalars) .{ .scalar = a[0] } else .{
        .values = a[0..length],
    };
    const right: Operand(T) = if (kinds == .scalar_right or kinds == .scalars) .{ .scalar = b[0] } else .{
        .values = b[0..length],
    };
    const result = binary(T, op, left, right, if (with_validity)
        validity[0..bitmap.size(length)]
    else
        null, zero_division, out[0..length]);
    var fails = false;
    var clears = false;
    const divides = op == .divide_integer or op == .modulo;
    for (0..length) |i| {
        if (with_validity and !bitmap.get(&before, i)) continue;
        if (divides and b[i] == 0) {
            if (zero_division == .fail) fails = true else clears = true;
        } else if (expected_integer(T, op, a[i], b[i]) == null) fails = true;
    }
    if (fails) return testing.expectError(error.OutOfRange, result);
    try testing.expectEqual(clears, try result);
    for (0..length) |i| {
        const was_valid = !with_validity or bitmap.get(&before, i);
        const nulled = divides and b[i] == 0;
        if (with_validity) try testing.expectEqual(was_valid and !nulled, bitmap.get(&validity, i));
        if (was_valid and !nulled) try testing.expectEqual(expected_integer(T, op, a[i], b[i]).?, out[i]);
    }
}

test "binary: integers against exact arithmetic" {
    defer interrupt.forget();
    var prng: std.Random.DefaultPrng = .init(11);
    const random = prng.random();
    inline for (integer_types) |T| {
        inline for (comptime &[_]ArithmeticOp{ .add, .subtract, .multiply, .divide_integer, .modulo }) |op| {
            for (test_lengths) |length| {
                for ([_]Kinds{ .both, .scalar_left, .scalar_right, .scalars }) |kinds| {
                    try check_binary(T, op, random, length, kinds, .fail);
                    try check_binary(T, op, random, length, kinds, .make_null);
                }
            }
        }
    }
}

test "binary: chunks without overflow, and one row that overflows" {
    defer interrupt.forget();
    var prng: std.Random.DefaultPrng = .init(12);
    const random = prng.random();
    inline for (integer_types) |T| {
        inline for (comptime &[_]ArithmeticOp{ .add, .subtract, .multiply }) |op| {
            for (test_lengths[1..]) |length| {
                var a: [100]T = undefined;
                var b: [100]T = undefined;
                var out: [100]T = undefined;
                for (&a, &b) |*x, *y| {
                    x.* = @intCast(5 + random.uintLessThan(u8, 6));
                    y.* = @intCast(random.uintLessThan(u8, 6));
                }
                try testing.expect(!try binary(
                    T,
                    op,
                    .{ .values = a[0..length] },
                    .{ .values = b[0..length] },
                    null,
                    .fail,
                    out[0..length],
                ));
                for (out[0..length], a[0..length], b[0..length]) |got, x, y|
                    try testing.expectEqual(expected_integer(T, op, x, y).?, got);
                const row = random.uintLessThan(usize, length);
                a[row] = if (op == .subtract) std.math.minInt(T) else std.math.maxInt(T);
                b[row] = 2;
                var validity: [13]u8 = @splat(0xFF);
                try testing.expectError(error.OutOfRange, binary(
                    T,
                    op,
                    .{ .values = a[0..length] },
                    .{ .values = b[0..length] },
                    null,
                    .fail,
                    out[0..length],
                ));
                try testing.expectError(error.OutOfRange, binary(
                    T,
                    op,
                    .{ .values = a[0..length] },
                    .{ .values = b[0..length] },
                    &validity,
                    .fail,
                    out[0..length],
                ));
                bitmap.clear(&validity, row);
                try testing.expect(!try binary(
                    T,
                    op,
                    .{ .values = a[0..length] },
                    .{ .values = b[0..length] },
                    &validity,
                    .fail,
                    out[0..length],
                ));
            }
        }
    }
}

test "binary: an overflow names its operands" {
    defer interrupt.forget();
    var out: [3]i8 = undefined;
    try testing.expectError(
        error.OutOfRange,
        binary(i8, .add, .{ .values = &.{ 1, 100, 2 } }, .{ .scalar = 100 }, null, .fail, &out),
    );
    const detail = &interrupt.control.detail;
    try testing.expectEqualStrings("overflow in addition of 100 and 100 (i8)", detail.message[0..detail.message_size]);
}

test "binary: floats" {
    defer interrupt.forget();
    const inf = std.math.inf(f64);
    const nan = std.math.nan(f64);
    const a = [_]f64{ 1, 0, 5.5, -7.5, inf, 5, 1e308, nan };
    const b = [_]f64{ 0, 0, 0, 2, 2, inf, 1e-10, 2 };
    const quotients = [_]f64{ inf, nan, inf, -3.75, inf, 0, inf, nan };
    const remainders = [_]f64{ nan, nan, nan, -1.5, nan, 5, std.math.nan(f64), nan };
    var out: [8]f64 = undefined;
    _ = try binary(f64, .divide, .{ .values = &a }, .{ .values = &b }, null, .fail, &out);
    for (out, quotients) |got, wanted| try expect_float(wanted, got);
    _ = try binary(f64, .modulo, .{ .values = &a }, .{ .values = &b }, null, .fail, &out);
    for (out[0..6], remainders[0..6]) |got, wanted| try expect_float(wanted, got);
    // `//` on floats divides, but refuses zero.
    try testing.expectError(
        error.OutOfRange,
        binary(f64, .divide_integer, .{ .values = &a }, .{ .values = &b }, null, .fail, &out),
    );
    var validity: [1]u8 = .{0b1111_1110};
    try testing.expect(
        try binary(f64, .divide_integer, .{ .values = &a }, .{ .values = &b }, &validity, .make_null, &out),
    );
    try testing.expectEqual(0b1111_1000, validity[0]);
    try testing.expectEqual(-3.75, out[3]);
}

test "binary: floats against a scalar loop" {
    var prng: std.Random.DefaultPrng = .init(13);
    const random = prng.random();
    inline for (.{ f32, f64 }) |T| {
        inline for (comptime &[_]ArithmeticOp{ .add, .subtract, .multiply, .divide, .modulo }) |op| {
            for (test_lengths) |length| {
                var a: [100]T = undefined;
                var out: [100]T = undefined;
                for (&a) |*x| x.* = @floatCast(random.floatNorm(f64) * 100);
                const y: T = 2.5;
                _ = try binary(T, op, .{ .values = a[0..length] }, .{ .scalar = y }, null, .fail, out[0..length]);
                for (a[0..length], out[0..length]) |x, got| try testing.expectEqual(switch (op) {
                    .add => x + y,
                    .subtract => x - y,
                    .multiply => x * y,
                    .divide => x / y,
                    .modulo => @rem(x, y),
                    .divide_integer => unreachable,
                }, got);
            }
        }
    }
}

fn expect_float(wanted: f64, got: f64) !void {
    if (std.math.isNan(wanted)) return testing.expect(std.math.isNan(got));
    try testing.expectEqual(wanted, got);
}

test negate {
    defer interrupt.forget();
    inline for (integer_types) |T| {
        const signed = @typeInfo(T).int.signedness == .signed;
        var out: [3]T = undefined;
        const values: [3]T = if (signed) .{ 5, std.math.minInt(T), -7 } else .{ 0, 1, 0 };
        try testing.expectError(error.OutOfRange, negate(T, &values, null, &out));
        try negate(T, &values, &.{0b101}, &out);
        if (signed) try testing.expectEqual(-5, out[0]) else try testing.expectEqual(0, out[0]);
        if (signed) try testing.expectEqual(7, out[2]);
    }
    var out: [2]f64 = undefined;
    try negate(f64, &.{ 1.5, 0 }, null, &out);
    try testing.expectEqual(-1.5, out[0]);
    try testing.expect(std.math.signbit(out[1]));
}
