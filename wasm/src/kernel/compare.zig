//! Comparisons: a column against a scalar, a second column or a range, as packed bits.
//!
//! Every function writes value bits only, `bitmap.size(n)` whole bytes with the bits past n zero.
//! Rows that are NULL are compared like any other, whatever lies under them; the caller owns
//! validity. The orders are the engine's:
//!
//!     integers          by value; the storage of date, time, timestamp and decimal is an integer
//!     floats            NaN equals NaN and is above everything; -0.0 equals 0.0
//!     bytes             bytewise, a proper prefix comes first (utf8, binary, fixed_binary): compare_bytes.zig
//!     bool              false before true
//!     interval          by length, where a month is 30 days and a day is 24 hours
//!
//! All of these are total orders, so `neq`, `gte` and one of `lte`/`gt` are the flipped bits of
//! another test. Only three loops a type exist; the flip is one xor for every 64 rows.
//!
//! The SIMD loops run over blocks of 64 rows, 16 bytes of values at a time:
//!
//!     4 and 8 byte lanes   mask AND {1, 2, 4, …}, OR of all vectors, OR across: the bits
//!     1 and 2 byte lanes   the bitmask instruction gives 16 or 8 bits at once
//!
//! (For wide lanes a bitmask instruction gives too few bits to pay for its way to a register.)
//! The rows after the last whole block are copied to a padded block, so no load leaves the slice.
const std = @import("std");
const abi = @import("../abi.zig");
const bitmap = @import("../core/bitmap.zig");
const compare_bytes = @import("compare_bytes.zig");
const interval_module = @import("../core/interval.zig");
const Interval = interval_module.Interval;
const Span = interval_module.Span;
const assert = std.debug.assert;

pub const CompareOp = abi.CompareOp;
pub const BytesRows = compare_bytes.BytesRows;
pub const FixedRows = compare_bytes.FixedRows;
pub const between_bytes_scalar = compare_bytes.between_bytes_scalar;
pub const between_fixed_scalar = compare_bytes.between_fixed_scalar;
pub const compare_bytes_columns = compare_bytes.compare_bytes_columns;
pub const compare_bytes_scalar = compare_bytes.compare_bytes_scalar;
pub const compare_fixed_columns = compare_bytes.compare_fixed_columns;
pub const compare_fixed_scalar = compare_bytes.compare_fixed_scalar;
pub const equal_bytes = compare_bytes.equal_bytes;
pub const order_bytes = compare_bytes.order_bytes;
pub const read_short = compare_bytes.read_short;
pub const read_word = compare_bytes.read_word;

pub const block_rows = 64;

/// What is tested of a lane x. `lte` is only for floats, where it is as cheap as `lt`; integers
/// take `gt`, because the machine has no other ordered integer comparison.
pub const Test = enum { eq, lt, gt, lte, ordered, within };

pub inline fn is_wide_float(comptime T: type) bool {
    return T == f32 or T == f64;
}

/// The type lanes are compared as. Unsigned integers are moved to signed ones, because SIMD has
/// no unsigned comparison of 8 byte lanes; f16 to an integer of the same order, because it has no
/// f16 at all.
fn Key(comptime T: type) type {
    return switch (T) {
        u8 => i8,
        u16, f16 => i16,
        u32 => i32,
        u64 => i64,
        i8, i16, i32, i64, i128, f32, f64 => T,
        else => @compileError("not a type of column values: " ++ @typeName(T)),
    };
}

pub inline fn lane_count(comptime T: type) comptime_int {
    return 16 / @sizeOf(T);
}

pub fn Lanes(comptime T: type) type {
    return @Vector(lane_count(T), Key(T));
}

pub fn Mask(comptime T: type) type {
    return @Vector(lane_count(T), bool);
}

pub inline fn load(comptime T: type, values: *const [lane_count(T)]T) Lanes(T) {
    if (T == f16) return keys_of_f16(@as(*const [8]i16, @ptrCast(values)).*);
    const lanes: @Vector(lane_count(T), T) = values.*;
    if (T == Key(T)) return lanes;
    const sign: T = 1 << (@bitSizeOf(T) - 1);
    return @bitCast(lanes ^ @as(@TypeOf(lanes), @splat(sign)));
}

/// Sign and magnitude become two's complement, which makes one zero of both; NaN goes to the top.
inline fn keys_of_f16(bits: @Vector(8, i16)) @Vector(8, i16) {
    const V = @Vector(8, i16);
    const magnitude = bits & @as(V, @splat(0x7FFF));
    const negative = bits < @as(V, @splat(0));
    const signed = @select(i16, negative, @as(V, @splat(0)) - magnitude, magnitude);
    return @select(i16, magnitude > @as(V, @splat(0x7C00)), @as(V, @splat(0x7FFF)), signed);
}

/// The key of one value, as `load` makes them for lanes.
pub inline fn key_of(comptime T: type, value: T) Key(T) {
    if (T == Key(T)) return value;
    if (T == f16) {
        const bits: u16 = @bitCast(value);
        const magnitude: i16 = @intCast(bits & 0x7FFF);
        if (magnitude > 0x7C00) return 0x7FFF;
        return if (bits >> 15 != 0) -magnitude else magnitude;
    }
    const sign: T = 1 << (@bitSizeOf(T) - 1);
    return @bitCast(value ^ sign);
}

/// Writes the bits of one block. `tests.mask(first)` is the outcome for the lanes from row `first`
/// of the block on.
inline fn store_block(comptime T: type, tests: anytype, flip: u8, out: *[block_rows / 8]u8) void {
    @setEvalBranchQuota(10_000);
    switch (@sizeOf(T)) {
        1, 2 => store_block_bitmask(T, tests, flip, out),
        4, 8 => store_block_weighted(T, tests, flip, out),
        else => comptime unreachable,
    }
}

/// A mask is stored as it comes from its vector: LLVM (with Zig 0.17) would see through any wider
/// word to one vector of bools, and take that apart bit by bit.
inline fn store_block_bitmask(comptime T: type, tests: anytype, flip: u8, out: *[block_rows / 8]u8) void {
    const lanes = lane_count(T);
    const Bits = @Int(.unsigned, lanes);
    const flip_bits: Bits = @truncate(@as(u16, flip) * 0x0101);
    inline for (0..block_rows / lanes) |vector| {
        const bits: Bits = @bitCast(tests.mask(vector * lanes));
        std.mem.writeInt(Bits, out[vector * lanes / 8 ..][0 .. lanes / 8], bits ^ flip_bits, .little);
    }
}

inline fn store_block_weighted(comptime T: type, tests: anytype, flip: u8, out: *[block_rows / 8]u8) void {
    const lanes = lane_count(T);
    const Word = @Int(.unsigned, @bitSizeOf(T));
    const V = @Vector(lanes, Word);
    const flip_word = @as(Word, flip) *% (std.math.maxInt(Word) / 0xFF);
    inline for (0..block_rows / @bitSizeOf(T)) |group| {
        var sum: V = @splat(0);
        inline for (0..@bitSizeOf(T) / lanes) |vector| {
            const row = vector * lanes;
            const mask = tests.mask(group * @bitSizeOf(T) + row);
            sum |= @select(Word, mask, comptime weights(Word, lanes, row), @as(V, @splat(0)));
        }
        const word = @reduce(.Or, sum) ^ flip_word;
        std.mem.writeInt(Word, out[group * @sizeOf(T) ..][0..@sizeOf(T)], word, .little);
    }
}

fn weights(comptime Word: type, comptime lanes: comptime_int, comptime row: comptime_int) @Vector(lanes, Word) {
    var result: [lanes]Word = undefined;
    for (&result, 0..) |*weight, lane| weight.* = @as(Word, 1) << (row + lane);
    return result;
}

fn flip_byte(flip: bool) u8 {
    return if (flip) 0xFF else 0;
}

/// Hides a constant from the optimiser. An xor with a flip known to be 0 is no xor, and a mask that
/// goes to memory without one is stored bit by bit: ten times slower.
inline fn opaque_byte(value: u8) u8 {
    var byte = value;
    const pointer: *volatile u8 = &byte;
    return pointer.*;
}

/// Fills `out` block by block. `source.block(row)` is the tests of one block; `source.tail(row, …)`
/// those of the last rows, after it copied them to the padding. Both go through one call, because
/// it is inlined and its code is long.
pub inline fn scan(comptime T: type, row_count: usize, source: anytype, flip: bool, out: []u8) void {
    assert(out.len == bitmap.size(row_count));
    const flip_bits = opaque_byte(flip_byte(flip));
    var padded: [2][block_rows]T = undefined;
    var last: [block_rows / 8]u8 = undefined;
    var row: usize = 0;
    while (row < row_count) : (row += block_rows) {
        const whole = row_count - row >= block_rows;
        const tests = if (whole) source.block(row) else source.tail(row, &padded);
        store_block(T, tests, flip_bits, if (whole) out[row / 8 ..][0 .. block_rows / 8] else &last);
    }
    const done = row_count / block_rows * (block_rows / 8);
    if (done < out.len) @memcpy(out[done..], last[0 .. out.len - done]);
    clear_tail(row_count, out);
}

/// Copies the rows to the front of the padding. The rest is zero rather than undefined, so that a
/// padded block means the same on every run.
pub inline fn pad_rows(comptime T: type, target: *[block_rows]T, rows: []const T) *const [block_rows]T {
    target.* = @splat(0);
    @memcpy(target[0..rows.len], rows);
    return target;
}

/// One row at a time, for values that do not fit lanes. `rows.holds(row)` is asked once a row.
pub inline fn pack_rows(row_count: usize, rows: anytype, flip: bool, out: []u8) void {
    assert(out.len == bitmap.size(row_count));
    const flip_bits = flip_byte(flip);
    for (out[0 .. row_count / 8], 0..) |*byte, index| {
        byte.* = pack_byte(index * 8, 8, rows) ^ flip_bits;
    }
    const rest = row_count & 7;
    if (rest == 0) return;
    const bits = pack_byte(row_count - rest, rest, rows) ^ flip_bits;
    out[out.len - 1] = bits & bitmap.tail_mask(row_count);
}

inline fn pack_byte(first: usize, count: usize, rows: anytype) u8 {
    var bits: u8 = 0;
    for (0..count) |bit| bits |= @as(u8, @intFromBool(rows.holds(first + bit))) << @intCast(bit);
    return bits;
}

pub fn fill(row_count: usize, value: bool, out: []u8) void {
    assert(out.len == bitmap.size(row_count));
    bitmap.fill(out, row_count, value);
    clear_tail(row_count, out);
}

fn clear_tail(row_count: usize, out: []u8) void {
    if (out.len != 0) out[out.len - 1] &= bitmap.tail_mask(row_count);
}

// Column and scalar.

fn ScalarBlock(comptime T: type, comptime what: Test) type {
    return struct {
        values: *const [block_rows]T,
        low: Lanes(T),
        high: Lanes(T),

        inline fn mask(self: @This(), comptime first: comptime_int) Mask(T) {
            const x = load(T, self.values[first..][0..lane_count(T)]);
            return switch (what) {
                .eq => x == self.low,
                .lt => x < self.low,
                .gt => x > self.low,
                .lte => x <= self.low,
                .ordered => x == x,
                .within => if (@sizeOf(T) <= 2) self.mask_within_narrow(x) else (x >= self.low) & (x <= self.high),
            };
        }

        /// One unsigned comparison: two joined ones are no longer a bitmask to LLVM. The caller
        /// has seen to it that `low` is not above `high`.
        inline fn mask_within_narrow(self: @This(), x: Lanes(T)) Mask(T) {
            const U = @Vector(lane_count(T), @Int(.unsigned, @bitSizeOf(T)));
            return @as(U, @bitCast(x -% self.low)) <= @as(U, @bitCast(self.high -% self.low));
        }
    };
}

fn ScalarSource(comptime T: type, comptime what: Test) type {
    return struct {
        values: []const T,
        low: Key(T),
        high: Key(T),

        inline fn block(self: @This(), row: usize) ScalarBlock(T, what) {
            return self.over(self.values[row..][0..block_rows]);
        }

        inline fn tail(self: @This(), row: usize, padded: *[2][block_rows]T) ScalarBlock(T, what) {
            return self.over(pad_rows(T, &padded[0], self.values[row..]));
        }

        inline fn over(self: @This(), values: *const [block_rows]T) ScalarBlock(T, what) {
            return .{ .values = values, .low = @splat(self.low), .high = @splat(self.high) };
        }

        /// The road of i128, which has no lanes.
        inline fn holds(self: @This(), row: usize) bool {
            const x = self.values[row];
            return switch (what) {
                .eq => x == self.low,
                .lt => x < self.low,
                .gt => x > self.low,
                .within => x >= self.low and x <= self.high,
                .lte, .ordered => comptime unreachable,
            };
        }
    };
}

fn scan_scalar(comptime T: type, comptime what: Test, values: []const T, low: T, high: T, flip: bool, out: []u8) void {
    const source: ScalarSource(T, what) = .{ .values = values, .low = key_of(T, low), .high = key_of(T, high) };
    if (T == i128) {
        pack_rows(values.len, source, flip, out);
    } else {
        scan(T, values.len, source, flip, out);
    }
}

/// out = values op scalar.
pub fn compare_scalar(comptime T: type, op: CompareOp, values: []const T, scalar: T, out: []u8) void {
    if (is_wide_float(T)) {
        if (std.math.isNan(scalar)) return compare_nan(T, op, values, out);
        // A NaN in the column fails `lt` and `lte` and so passes their negations: it is on top.
        switch (op) {
            .lte => return scan_scalar(T, .lte, values, scalar, scalar, false, out),
            .gt => return scan_scalar(T, .lte, values, scalar, scalar, true, out),
            else => {},
        }
    }
    switch (op) {
        .eq, .neq => scan_scalar(T, .eq, values, scalar, scalar, op == .neq, out),
        .lt, .gte => scan_scalar(T, .lt, values, scalar, scalar, op == .gte, out),
        .gt, .lte => if (!is_wide_float(T)) scan_scalar(T, .gt, values, scalar, scalar, op == .lte, out),
    }
}

/// Against NaN only one thing matters: whether the value is a NaN too.
fn compare_nan(comptime T: type, op: CompareOp, values: []const T, out: []u8) void {
    const nan = std.math.nan(T);
    switch (op) {
        .eq, .gte => scan_scalar(T, .ordered, values, nan, nan, true, out),
        .neq, .lt => scan_scalar(T, .ordered, values, nan, nan, false, out),
        .lte => fill(values.len, true, out),
        .gt => fill(values.len, false, out),
    }
}

/// out = low <= values and values <= high, in one pass.
pub fn between_scalar(comptime T: type, values: []const T, low: T, high: T, out: []u8) void {
    if (is_wide_float(T)) {
        if (std.math.isNan(high)) return compare_scalar(T, .gte, values, low, out);
        // Nothing lies between the top and something below it; and a NaN in the column fails
        // both plain comparisons, as it should with a `high` that is none.
        if (std.math.isNan(low)) return fill(values.len, false, out);
    }
    if (key_of(T, low) > key_of(T, high)) return fill(values.len, false, out);
    scan_scalar(T, .within, values, low, high, false, out);
}

// Column and column.

fn ColumnsBlock(comptime T: type, comptime what: Test) type {
    return struct {
        a: *const [block_rows]T,
        b: *const [block_rows]T,

        inline fn mask(self: @This(), comptime first: comptime_int) Mask(T) {
            const x = load(T, self.a[first..][0..lane_count(T)]);
            const y = load(T, self.b[first..][0..lane_count(T)]);
            return switch (what) {
                .eq => if (is_wide_float(T)) (x == y) | ((x != x) & (y != y)) else x == y,
                .lt => if (is_wide_float(T)) (x < y) | ((x == x) & (y != y)) else x < y,
                .gt, .lte, .ordered, .within => comptime unreachable,
            };
        }
    };
}

fn ColumnsSource(comptime T: type, comptime what: Test) type {
    return struct {
        a: []const T,
        b: []const T,

        inline fn block(self: @This(), row: usize) ColumnsBlock(T, what) {
            return .{ .a = self.a[row..][0..block_rows], .b = self.b[row..][0..block_rows] };
        }

        inline fn tail(self: @This(), row: usize, padded: *[2][block_rows]T) ColumnsBlock(T, what) {
            return .{ .a = pad_rows(T, &padded[0], self.a[row..]), .b = pad_rows(T, &padded[1], self.b[row..]) };
        }

        inline fn holds(self: @This(), row: usize) bool {
            return if (what == .eq) self.a[row] == self.b[row] else self.a[row] < self.b[row];
        }
    };
}

fn scan_columns(comptime T: type, comptime what: Test, a: []const T, b: []const T, flip: bool, out: []u8) void {
    const source: ColumnsSource(T, what) = .{ .a = a, .b = b };
    if (T == i128) {
        pack_rows(a.len, source, flip, out);
    } else {
        scan(T, a.len, source, flip, out);
    }
}

/// out = a op b, row by row.
pub fn compare_columns(comptime T: type, op: CompareOp, a: []const T, b: []const T, out: []u8) void {
    assert(a.len == b.len);
    switch (op) {
        .eq, .neq => scan_columns(T, .eq, a, b, op == .neq, out),
        .lt, .gte => scan_columns(T, .lt, a, b, op == .gte, out),
        .gt, .lte => scan_columns(T, .lt, b, a, op == .lte, out),
    }
}

// Bool.

pub fn compare_bits_scalar(op: CompareOp, bits: []const u8, row_count: usize, scalar: bool, out: []u8) void {
    assert(out.len == bitmap.size(row_count) and bits.len >= out.len);
    switch (op) {
        .eq => copy_bits(bits, !scalar, out),
        .neq => copy_bits(bits, scalar, out),
        .lt => if (scalar) copy_bits(bits, true, out) else fill(row_count, false, out),
        .lte => if (scalar) fill(row_count, true, out) else copy_bits(bits, true, out),
        .gt => if (scalar) fill(row_count, false, out) else copy_bits(bits, false, out),
        .gte => if (scalar) copy_bits(bits, false, out) else fill(row_count, true, out),
    }
    clear_tail(row_count, out);
}

fn copy_bits(bits: []const u8, flip: bool, out: []u8) void {
    const flip_bits = flip_byte(flip);
    for (out, bits[0..out.len]) |*to, from| to.* = from ^ flip_bits;
}

pub fn compare_bits_columns(op: CompareOp, a: []const u8, b: []const u8, row_count: usize, out: []u8) void {
    assert(out.len == bitmap.size(row_count) and a.len >= out.len and b.len >= out.len);
    switch (op) {
        .eq => for (out, a[0..out.len], b[0..out.len]) |*to, x, y| {
            to.* = ~(x ^ y);
        },
        .neq => for (out, a[0..out.len], b[0..out.len]) |*to, x, y| {
            to.* = x ^ y;
        },
        .lt => bitmap.combine(.and_not, out, b, a),
        .lte => bitmap.combine(.or_not, out, b, a),
        .gt => bitmap.combine(.and_not, out, a, b),
        .gte => bitmap.combine(.or_not, out, a, b),
    }
    clear_tail(row_count, out);
}

// Interval.

fn IntervalTest(comptime what: Test) type {
    return struct {
        a: []const Interval,
        /// null: compare with `scalar`.
        b: ?[]const Interval,
        scalar: Span,

        inline fn holds(self: @This(), row: usize) bool {
            const x: Span = .of(self.a[row]);
            const y: Span = if (self.b) |b| .of(b[row]) else self.scalar;
            return if (what == .eq) x.equal(y) else if (what == .lt) x.less(y) else y.less(x);
        }
    };
}

fn compare_intervals(op: CompareOp, a: []const Interval, b: ?[]const Interval, scalar: Span, out: []u8) void {
    switch (op) {
        .eq, .neq => pack_rows(a.len, IntervalTest(.eq){ .a = a, .b = b, .scalar = scalar }, op == .neq, out),
        .lt, .gte => pack_rows(a.len, IntervalTest(.lt){ .a = a, .b = b, .scalar = scalar }, op == .gte, out),
        .gt, .lte => pack_rows(a.len, IntervalTest(.gt){ .a = a, .b = b, .scalar = scalar }, op == .lte, out),
    }
}

pub fn compare_interval_scalar(op: CompareOp, values: []const Interval, scalar: Interval, out: []u8) void {
    compare_intervals(op, values, null, .of(scalar), out);
}

pub fn compare_interval_columns(op: CompareOp, a: []const Interval, b: []const Interval, out: []u8) void {
    assert(a.len == b.len);
    compare_intervals(op, a, b, .{ .days = 0, .rest = 0 }, out);
}

const IntervalWithin = struct {
    values: []const Interval,
    low: Span,
    high: Span,

    inline fn holds(self: IntervalWithin, row: usize) bool {
        const span: Span = .of(self.values[row]);
        return !span.less(self.low) and !self.high.less(span);
    }
};

pub fn between_interval_scalar(values: []const Interval, low: Interval, high: Interval, out: []u8) void {
    pack_rows(values.len, IntervalWithin{ .values = values, .low = .of(low), .high = .of(high) }, false, out);
}

// Tests: every kernel against a loop that asks one row at a time.

const testing = std.testing;
pub const TestBytes = compare_bytes.TestBytes;
pub const test_types = .{ i8, i16, i32, i64, i128, u8, u16, u32, u64, f16, f32, f64 };
pub const test_lengths = [_]usize{ 0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 63, 64, 65, 127, 128, 130, 200 };
pub const test_ops = [_]CompareOp{ .eq, .neq, .lt, .lte, .gt, .gte };
pub const test_rows_max = 200;

inline fn is_float(comptime T: type) bool {
    return @typeInfo(T) == .float;
}

pub fn twin_order(comptime T: type, a: T, b: T) std.math.Order {
    if (is_float(T)) {
        if (a != a) return if (b != b) .eq else .gt;
        if (b != b) return .lt;
    }
    return std.math.order(a, b);
}

pub fn twin_holds(op: CompareOp, order: std.math.Order) bool {
    return switch (op) {
        .eq => order == .eq,
        .neq => order != .eq,
        .lt => order == .lt,
        .lte => order != .gt,
        .gt => order == .gt,
        .gte => order != .lt,
    };
}

/// Few different values, so that equality happens, and the corners of the type.
pub fn random_value(comptime T: type, random: std.Random) T {
    const choice = random.uintLessThan(u8, 12);
    if (is_float(T)) return switch (choice) {
        0 => std.math.nan(T),
        1 => -std.math.nan(T),
        2 => std.math.inf(T),
        3 => -std.math.inf(T),
        4 => -0.0,
        5 => 0.0,
        6 => @bitCast(random.int(@Int(.unsigned, @bitSizeOf(T)))),
        else => @as(T, @floatFromInt(random.intRangeAtMost(i8, -3, 3))) / 2,
    };
    return switch (choice) {
        0 => std.math.minInt(T),
        1 => std.math.maxInt(T),
        2 => random.int(T),
        3 => std.math.maxInt(T) / 2 + 1,
        else => random.intRangeAtMost(T, 0, 5),
    };
}

fn expect_bits(expected: []const bool, out: []const u8) !void {
    try testing.expectEqual(bitmap.size(expected.len), out.len);
    for (expected, 0..) |want, row| try testing.expectEqual(want, bitmap.get(out.ptr, row));
    for (expected.len..out.len * 8) |row| try testing.expect(!bitmap.get(out.ptr, row));
}

/// One more byte than needed, filled with noise: what a kernel leaves out shows, as does what it
/// writes too much.
pub fn TestOut(comptime rows: usize) type {
    return struct {
        bytes: [rows / 8 + 2]u8 = @splat(0xA5),

        pub fn slice(self: *@This(), row_count: usize) []u8 {
            self.bytes = @splat(0xA5);
            return self.bytes[0..bitmap.size(row_count)];
        }

        pub fn expect(self: *@This(), expected: []const bool) !void {
            const size = bitmap.size(expected.len);
            try expect_bits(expected, self.bytes[0..size]);
            try testing.expectEqual(0xA5, self.bytes[size]);
        }
    };
}

fn check_compare(comptime T: type, random: std.Random) !void {
    var a: [test_rows_max]T = undefined;
    var b: [test_rows_max]T = undefined;
    var expected: [test_rows_max]bool = undefined;
    var out: TestOut(test_rows_max) = .{};
    for (test_lengths) |n| for (test_ops) |op| for (0..4) |_| {
        for (a[0..n], b[0..n]) |*x, *y| {
            x.* = random_value(T, random);
            y.* = random_value(T, random);
        }
        const scalar = random_value(T, random);
        compare_scalar(T, op, a[0..n], scalar, out.slice(n));
        for (expected[0..n], a[0..n]) |*want, x| want.* = twin_holds(op, twin_order(T, x, scalar));
        try out.expect(expected[0..n]);

        compare_columns(T, op, a[0..n], b[0..n], out.slice(n));
        for (expected[0..n], a[0..n], b[0..n]) |*want, x, y| want.* = twin_holds(op, twin_order(T, x, y));
        try out.expect(expected[0..n]);

        const high = random_value(T, random);
        between_scalar(T, a[0..n], scalar, high, out.slice(n));
        for (expected[0..n], a[0..n]) |*want, x| {
            want.* = twin_order(T, x, scalar) != .lt and twin_order(T, x, high) != .gt;
        }
        try out.expect(expected[0..n]);
    };
}

test "compare_scalar, compare_columns and between_scalar" {
    var prng: std.Random.DefaultPrng = .init(11);
    inline for (test_types) |T| try check_compare(T, prng.random());
}

test "compare_bits_scalar and compare_bits_columns" {
    var prng: std.Random.DefaultPrng = .init(16);
    var expected: [test_rows_max]bool = undefined;
    var out: TestOut(test_rows_max) = .{};
    for (test_lengths) |n| for (test_ops) |op| {
        var a: [test_rows_max / 8]u8 = undefined;
        var b: [test_rows_max / 8]u8 = undefined;
        prng.random().bytes(&a);
        prng.random().bytes(&b);
        for ([_]bool{ false, true }) |scalar| {
            compare_bits_scalar(op, &a, n, scalar, out.slice(n));
            for (expected[0..n], 0..) |*want, row| {
                want.* = twin_holds(op, std.math.order(@intFromBool(bitmap.get(&a, row)), @intFromBool(scalar)));
            }
            try out.expect(expected[0..n]);
        }
        compare_bits_columns(op, &a, &b, n, out.slice(n));
        for (expected[0..n], 0..) |*want, row| {
            want.* = twin_holds(
                op,
                std.math.order(@intFromBool(bitmap.get(&a, row)), @intFromBool(bitmap.get(&b, row))),
            );
        }
        try out.expect(expected[0..n]);
    };
}

fn random_interval(random: std.Random) Interval {
    const day = Span.day_nanoseconds;
    return switch (random.uintLessThan(u8, 4)) {
        0 => .{
            .months = random.int(i32),
            .days = random.int(i32),
            .nanoseconds = random.int(i64),
        },
        1 => .{
            .months = if (random.boolean()) std.math.minInt(i32) else std.math.maxInt(i32),
            .days = if (random.boolean()) std.math.minInt(i32) else std.math.maxInt(i32),
            .nanoseconds = if (random.boolean()) std.math.minInt(i64) else std.math.maxInt(i64),
        },
        else => .{
            .months = random.intRangeAtMost(i32, -1, 1),
            .days = random.intRangeAtMost(i32, -1, 1) * 30,
            .nanoseconds = random.intRangeAtMost(i64, -1, 1) * 30 * day + random.intRangeAtMost(i64, -1, 1),
        },
    };
}

fn twin_nanoseconds(interval: Interval) i128 {
    const days = @as(i128, interval.months) * 30 + interval.days;
    return days * Span.day_nanoseconds + interval.nanoseconds;
}

test "compare_interval_scalar, compare_interval_columns and between_interval_scalar" {
    var prng: std.Random.DefaultPrng = .init(17);
    const random = prng.random();
    var a: [test_rows_max]Interval = undefined;
    var b: [test_rows_max]Interval = undefined;
    var expected: [test_rows_max]bool = undefined;
    var out: TestOut(test_rows_max) = .{};
    for (test_lengths) |n| for (test_ops) |op| {
        for (&a, &b) |*x, *y| {
            x.* = random_interval(random);
            y.* = random_interval(random);
        }
        const scalar = b[0];
        compare_interval_scalar(op, a[0..n], scalar, out.slice(n));
        for (expected[0..n], a[0..n]) |*want, x| {
            want.* = twin_holds(op, std.math.order(twin_nanoseconds(x), twin_nanoseconds(scalar)));
        }
        try out.expect(expected[0..n]);

        compare_interval_columns(op, a[0..n], b[0..n], out.slice(n));
        for (expected[0..n], a[0..n], b[0..n]) |*want, x, y| {
            want.* = twin_holds(op, std.math.order(twin_nanoseconds(x), twin_nanoseconds(y)));
        }
        try out.expect(expected[0..n]);

        between_interval_scalar(a[0..n], scalar, b[1], out.slice(n));
        for (expected[0..n], a[0..n]) |*want, x| {
            const value = twin_nanoseconds(x);
            want.* = value >= twin_nanoseconds(scalar) and value <= twin_nanoseconds(b[1]);
        }
        try out.expect(expected[0..n]);
    };
}
