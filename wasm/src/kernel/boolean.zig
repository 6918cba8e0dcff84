//! Three-valued logic on packed bits.
//!
//! A predicate is a pair: value bits, and validity bits when some row is NULL. The value bit of a
//! NULL row means nothing and may be either. A row is TRUE when both bits are set, FALSE when only
//! validity is, and
//!
//!     NULL and FALSE = FALSE        NULL or TRUE = TRUE        not NULL = NULL
//!
//! so a result may be valid where an operand is not. Outputs are `bitmap.size(n)` whole bytes with
//! the bits past n zero; inputs may hold anything there. An output may be the same slice as the
//! input of its kind (values over values, validity over validity), which is how a long AND is
//! folded; other overlaps are not allowed.
const std = @import("std");
const bitmap = @import("../core/bitmap.zig");
const assert = std.debug.assert;

pub const Bits = struct {
    values: []const u8,
    /// null: no row is NULL.
    validity: ?[]const u8 = null,

    fn check(self: Bits, byte_count: usize) void {
        assert(self.values.len >= byte_count);
        if (self.validity) |validity| assert(validity.len >= byte_count);
    }
};

const Op = enum { @"and", @"or" };

/// a AND b. Returns whether `out_validity` was needed and written; false: no row is NULL.
pub fn and3(row_count: usize, a: Bits, b: Bits, out_values: []u8, out_validity: []u8) bool {
    return combine3(.@"and", row_count, a, b, out_values, out_validity);
}

/// a OR b. Returns whether `out_validity` was needed and written; false: no row is NULL.
pub fn or3(row_count: usize, a: Bits, b: Bits, out_values: []u8, out_validity: []u8) bool {
    return combine3(.@"or", row_count, a, b, out_values, out_validity);
}

fn combine3(comptime op: Op, row_count: usize, a: Bits, b: Bits, out_values: []u8, out_validity: []u8) bool {
    const byte_count = bitmap.size(row_count);
    a.check(byte_count);
    b.check(byte_count);
    const values = out_values[0..byte_count];
    if (a.validity == null and b.validity == null) {
        bitmap.combine(if (op == .@"and") .@"and" else .@"or", values, a.values, b.values);
        clear_tail(row_count, values);
        return false;
    }
    const validity = out_validity[0..byte_count];
    // AND and OR commute, so one missing validity is always the second's.
    if (a.validity) |first| {
        if (b.validity) |second| {
            combine_pairs(op, a.values, first, b.values, second, values, validity);
        } else combine_pairs(op, a.values, first, b.values, null, values, validity);
    } else combine_pairs(op, b.values, b.validity.?, a.values, null, values, validity);
    clear_tail(row_count, values);
    clear_tail(row_count, validity);
    return true;
}

const V = @Vector(16, u8);

/// `second_validity` is null or a slice, known at compile time.
fn combine_pairs(
    comptime op: Op,
    first: []const u8,
    first_validity: []const u8,
    second: []const u8,
    second_validity: anytype,
    values: []u8,
    validity: []u8,
) void {
    const all_valid = @TypeOf(second_validity) == @TypeOf(null);
    var i: usize = 0;
    while (i + 16 <= values.len) : (i += 16) {
        const known: V = if (all_valid) @splat(0xFF) else second_validity[i..][0..16].*;
        const pair =
            combine_words(op, V, first[i..][0..16].*, first_validity[i..][0..16].*, second[i..][0..16].*, known);
        values[i..][0..16].* = pair.values;
        validity[i..][0..16].* = pair.validity;
    }
    while (i < values.len) : (i += 1) {
        const known: u8 = if (all_valid) 0xFF else second_validity[i];
        const pair = combine_words(op, u8, first[i], first_validity[i], second[i], known);
        values[i] = pair.values;
        validity[i] = pair.validity;
    }
}

fn Pair(comptime Word: type) type {
    return struct { values: Word, validity: Word };
}

/// A row is known when both sides are, or when one side alone decides: a FALSE of AND, a TRUE
/// of OR.
inline fn combine_words(
    comptime op: Op,
    comptime Word: type,
    a: Word,
    a_valid: Word,
    b: Word,
    b_valid: Word,
) Pair(Word) {
    const a_true = a & a_valid;
    const b_true = b & b_valid;
    return switch (op) {
        .@"and" => .{
            .values = a_true & b_true,
            .validity = (a_valid & b_valid) | (a_valid & ~a) | (b_valid & ~b),
        },
        .@"or" => .{
            .values = a_true | b_true,
            .validity = (a_valid & b_valid) | a_true | b_true,
        },
    };
}

/// NOT a. Its validity is that of `a`.
pub fn not3(row_count: usize, a: Bits, out_values: []u8) void {
    const byte_count = bitmap.size(row_count);
    a.check(byte_count);
    bitmap.invert(out_values[0..byte_count], a.values);
    clear_tail(row_count, out_values[0..byte_count]);
}

/// The rows that are TRUE, as WHERE wants them; returns how many.
pub fn selection(row_count: usize, a: Bits, out: []u8) usize {
    const byte_count = bitmap.size(row_count);
    a.check(byte_count);
    const target = out[0..byte_count];
    if (a.validity) |validity| {
        bitmap.combine(.@"and", target, a.values, validity);
    } else if (target.ptr != a.values.ptr) @memcpy(target, a.values[0..byte_count]);
    clear_tail(row_count, target);
    return bitmap.count(target, row_count);
}

fn clear_tail(row_count: usize, bytes: []u8) void {
    if (bytes.len != 0) bytes[bytes.len - 1] &= bitmap.tail_mask(row_count);
}

const testing = std.testing;
const test_lengths = [_]usize{ 0, 1, 7, 8, 9, 15, 16, 17, 127, 128, 129, 135, 136, 300 };
const test_bytes_max = 38;

fn twin_get(a: Bits, row: usize) ?bool {
    if (a.validity) |validity| if (!bitmap.get(validity.ptr, row)) return null;
    return bitmap.get(a.values.ptr, row);
}

fn twin_and(a: ?bool, b: ?bool) ?bool {
    if (a == false or b == false) return false;
    if (a == null or b == null) return null;
    return true;
}

fn twin_not(a: ?bool) ?bool {
    return if (a) |value| !value else null;
}

/// De Morgan.
fn twin_or(a: ?bool, b: ?bool) ?bool {
    return twin_not(twin_and(twin_not(a), twin_not(b)));
}

const TestBits = struct {
    values: [test_bytes_max]u8,
    validity: [test_bytes_max]u8,
    kind: enum { without, all_null, none_null, some_null },

    fn init(random: std.Random) TestBits {
        var self: TestBits = undefined;
        random.bytes(&self.values);
        random.bytes(&self.validity);
        self.kind = random.enumValue(@TypeOf(self.kind));
        switch (self.kind) {
            .all_null => @memset(&self.validity, 0),
            .none_null => @memset(&self.validity, 0xFF),
            .without, .some_null => {},
        }
        return self;
    }

    fn bits(self: *const TestBits, row_count: usize) Bits {
        const size = bitmap.size(row_count);
        return .{
            .values = self.values[0..size],
            .validity = if (self.kind == .without) null else self.validity[0..size],
        };
    }
};

fn expect_tail_clear(row_count: usize, bytes: []const u8) !void {
    for (row_count..bytes.len * 8) |bit| try testing.expect(!bitmap.get(bytes.ptr, bit));
}

fn check_combine(comptime op: Op, random: std.Random, row_count: usize) !void {
    const size = bitmap.size(row_count);
    var a: TestBits = .init(random);
    const b: TestBits = .init(random);
    const before = a;
    const function = if (op == .@"and") and3 else or3;
    const twin = if (op == .@"and") twin_and else twin_or;
    // Over the first operand, as a fold does it.
    const written = function(row_count, a.bits(row_count), b.bits(row_count), a.values[0..size], a.validity[0..size]);
    const first = before.bits(row_count);
    const second = b.bits(row_count);
    try testing.expectEqual(first.validity != null or second.validity != null, written);
    const result: Bits = .{ .values = a.values[0..size], .validity = if (written) a.validity[0..size] else null };
    for (0..row_count) |row| {
        try testing.expectEqual(twin(twin_get(first, row), twin_get(second, row)), twin_get(result, row));
    }
    try expect_tail_clear(row_count, result.values);
    if (result.validity) |validity| try expect_tail_clear(row_count, validity);
    // And to fresh memory: the same bits.
    var values: [test_bytes_max]u8 = undefined;
    var validity: [test_bytes_max]u8 = undefined;
    try testing.expectEqual(written, function(row_count, first, second, values[0..size], validity[0..size]));
    try testing.expectEqualSlices(u8, result.values, values[0..size]);
    if (written) try testing.expectEqualSlices(u8, a.validity[0..size], validity[0..size]);
}

test "and3 and or3" {
    var prng: std.Random.DefaultPrng = .init(21);
    for (test_lengths) |n| for (0..40) |_| {
        try check_combine(.@"and", prng.random(), n);
        try check_combine(.@"or", prng.random(), n);
    };
}

test "not3 and selection" {
    var prng: std.Random.DefaultPrng = .init(22);
    for (test_lengths) |n| for (0..20) |_| {
        var a: TestBits = .init(prng.random());
        const before = a;
        const size = bitmap.size(n);
        var out: [test_bytes_max]u8 = undefined;
        const count = selection(n, a.bits(n), out[0..size]);
        var expected: usize = 0;
        for (0..n) |row| {
            const wanted = twin_get(before.bits(n), row) == true;
            expected += @intFromBool(wanted);
            try testing.expectEqual(wanted, bitmap.get(&out, row));
        }
        try testing.expectEqual(expected, count);
        try expect_tail_clear(n, out[0..size]);

        not3(n, a.bits(n), a.values[0..size]);
        for (0..n) |row| {
            try testing.expectEqual(twin_not(twin_get(before.bits(n), row)), twin_get(a.bits(n), row));
        }
        try expect_tail_clear(n, a.values[0..size]);
        try testing.expectEqual(selection(n, a.bits(n), out[0..size]), selection(n, a.bits(n), a.values[0..size]));
    };
}
