//! Comparisons of bytes, of any and of fixed length, row by row: compare.zig says what is written.
const std = @import("std");
const compare = @import("compare.zig");
const CompareOp = compare.CompareOp;
const Test = compare.Test;
const assert = std.debug.assert;
const pack_rows = compare.pack_rows;

/// Where the bytes of a row come from.
pub const BytesRows = struct {
    offsets: []const u32,
    data: []const u8,

    pub inline fn at(self: BytesRows, row: usize) []const u8 {
        return self.data[self.offsets[row]..self.offsets[row + 1]];
    }

    pub fn row_count(self: BytesRows) usize {
        assert(self.offsets.len > 0 and self.offsets[self.offsets.len - 1] <= self.data.len);
        return self.offsets.len - 1;
    }
};

pub const FixedRows = struct {
    width: usize,
    data: []const u8,

    pub inline fn at(self: FixedRows, row: usize) []const u8 {
        return self.data[row * self.width ..][0..self.width];
    }
};

const ScalarRows = struct {
    bytes: []const u8,

    inline fn at(self: ScalarRows, _: usize) []const u8 {
        return self.bytes;
    }
};

fn BytesTest(comptime A: type, comptime B: type, comptime what: Test) type {
    return struct {
        a: A,
        b: B,

        pub inline fn holds(self: @This(), row: usize) bool {
            const x = self.a.at(row);
            const y = self.b.at(row);
            return switch (what) {
                .eq => x.len == y.len and equal_bytes(x, y),
                .lt => order_bytes(x, y) == .lt,
                .gt => order_bytes(x, y) == .gt,
                .lte, .ordered, .within => comptime unreachable,
            };
        }
    };
}

fn compare_rows(op: CompareOp, row_count: usize, a: anytype, b: anytype, out: []u8) void {
    const A = @TypeOf(a);
    const B = @TypeOf(b);
    switch (op) {
        .eq, .neq => pack_rows(row_count, BytesTest(A, B, .eq){ .a = a, .b = b }, op == .neq, out),
        .lt, .gte => pack_rows(row_count, BytesTest(A, B, .lt){ .a = a, .b = b }, op == .gte, out),
        .gt, .lte => pack_rows(row_count, BytesTest(A, B, .gt){ .a = a, .b = b }, op == .lte, out),
    }
}

/// utf8 and binary; `offsets` has one more entry than there are rows and points into `data`.
pub fn compare_bytes_scalar(op: CompareOp, offsets: []const u32, data: []const u8, scalar: []const u8, out: []u8) void {
    const rows: BytesRows = .{ .offsets = offsets, .data = data };
    compare_rows(op, rows.row_count(), rows, ScalarRows{ .bytes = scalar }, out);
}

pub fn compare_bytes_columns(
    op: CompareOp,
    offsets_a: []const u32,
    data_a: []const u8,
    offsets_b: []const u32,
    data_b: []const u8,
    out: []u8,
) void {
    const a: BytesRows = .{ .offsets = offsets_a, .data = data_a };
    const b: BytesRows = .{ .offsets = offsets_b, .data = data_b };
    assert(a.row_count() == b.row_count());
    compare_rows(op, a.row_count(), a, b, out);
}

/// fixed_binary. The row count is given apart, because a width of 0 says nothing about it.
pub fn compare_fixed_scalar(
    op: CompareOp,
    width: usize,
    data: []const u8,
    row_count: usize,
    scalar: []const u8,
    out: []u8,
) void {
    assert(data.len >= row_count * width);
    compare_rows(op, row_count, FixedRows{ .width = width, .data = data }, ScalarRows{ .bytes = scalar }, out);
}

pub fn compare_fixed_columns(
    op: CompareOp,
    width: usize,
    data_a: []const u8,
    data_b: []const u8,
    row_count: usize,
    out: []u8,
) void {
    assert(data_a.len >= row_count * width and data_b.len >= row_count * width);
    const a: FixedRows = .{ .width = width, .data = data_a };
    const b: FixedRows = .{ .width = width, .data = data_b };
    compare_rows(op, row_count, a, b, out);
}

fn BytesWithin(comptime Rows: type) type {
    return struct {
        rows: Rows,
        low: []const u8,
        high: []const u8,

        pub inline fn holds(self: @This(), row: usize) bool {
            const bytes = self.rows.at(row);
            return order_bytes(bytes, self.low) != .lt and order_bytes(bytes, self.high) != .gt;
        }
    };
}

pub fn between_bytes_scalar(offsets: []const u32, data: []const u8, low: []const u8, high: []const u8, out: []u8) void {
    const rows: BytesRows = .{ .offsets = offsets, .data = data };
    pack_rows(rows.row_count(), BytesWithin(BytesRows){ .rows = rows, .low = low, .high = high }, false, out);
}

pub fn between_fixed_scalar(
    width: usize,
    data: []const u8,
    row_count: usize,
    low: []const u8,
    high: []const u8,
    out: []u8,
) void {
    assert(data.len >= row_count * width);
    const rows: FixedRows = .{ .width = width, .data = data };
    pack_rows(row_count, BytesWithin(FixedRows){ .rows = rows, .low = low, .high = high }, false, out);
}

pub inline fn read_word(bytes: []const u8, position: usize) u64 {
    return std.mem.readInt(u64, bytes[position..][0..8], .little);
}

/// Up to seven bytes in one word; injective among slices of one length.
pub inline fn read_short(bytes: []const u8) u64 {
    if (bytes.len >= 4) {
        const low = std.mem.readInt(u32, bytes[0..4], .little);
        const high = std.mem.readInt(u32, bytes[bytes.len - 4 ..][0..4], .little);
        return low | @as(u64, high) << 32;
    }
    if (bytes.len == 0) return 0;
    const middle: u64 = bytes[bytes.len / 2];
    const last: u64 = bytes[bytes.len - 1];
    return bytes[0] | middle << 8 | last << 16;
}

/// Slices of one length. The last word overlaps the one before it rather than leaving a tail.
pub inline fn equal_bytes(a: []const u8, b: []const u8) bool {
    assert(a.len == b.len);
    if (a.len < 8) return read_short(a) == read_short(b);
    if (read_word(a, 0) != read_word(b, 0)) return false;
    var position: usize = 8;
    while (position + 8 <= a.len) : (position += 8) {
        if (read_word(a, position) != read_word(b, position)) return false;
    }
    return read_word(a, a.len - 8) == read_word(b, b.len - 8);
}

pub fn order_bytes(a: []const u8, b: []const u8) std.math.Order {
    const common = @min(a.len, b.len);
    var position: usize = 0;
    while (position + 8 <= common) : (position += 8) {
        const x = read_word(a, position);
        const y = read_word(b, position);
        if (x != y) return order_words(x, y);
    }
    if (position < common and common >= 8) {
        const x = read_word(a, common - 8);
        const y = read_word(b, common - 8);
        if (x != y) return order_words(x, y);
    } else while (position < common) : (position += 1) {
        if (a[position] != b[position]) return std.math.order(a[position], b[position]);
    }
    return std.math.order(a.len, b.len);
}

/// The first byte in memory that differs decides. Turning the words round would cost more:
/// wasm has no byte swap.
inline fn order_words(x: u64, y: u64) std.math.Order {
    assert(x != y);
    const shift: u6 = @intCast(@ctz(x ^ y) & ~@as(u7, 7));
    const first: u8 = @truncate(x >> shift);
    const second: u8 = @truncate(y >> shift);
    return std.math.order(first, second);
}

const TestOut = compare.TestOut;
const test_lengths = compare.test_lengths;
const test_ops = compare.test_ops;
const test_rows_max = compare.test_rows_max;
const twin_holds = compare.twin_holds;

/// A column of short strings that share prefixes, hold zeros and high bytes, or are empty.
pub const TestBytes = struct {
    offsets: [test_rows_max + 1]u32 = undefined,
    data: [test_rows_max * 24]u8 = undefined,

    pub fn init(random: std.Random) TestBytes {
        var self: TestBytes = .{};
        self.offsets[0] = 0;
        for (1..self.offsets.len) |index| {
            const start = self.offsets[index - 1];
            const length = random_string(random, self.data[start..][0..24]);
            self.offsets[index] = start + @as(u32, @intCast(length));
        }
        return self;
    }

    pub fn at(self: *const TestBytes, row: usize) []const u8 {
        return self.data[self.offsets[row]..self.offsets[row + 1]];
    }

    /// The bytes end with the last string, as a column's may.
    pub fn bytes(self: *const TestBytes, row_count: usize) []const u8 {
        return self.data[0..self.offsets[row_count]];
    }
};

fn random_string(random: std.Random, target: *[24]u8) usize {
    const length = random.uintLessThan(usize, if (random.boolean()) 4 else 25);
    for (target) |*byte| {
        byte.* = if (random.uintLessThan(u8, 20) == 0) "\x00b\xFF"[random.uintLessThan(usize, 3)] else 'a';
    }
    return length;
}

test "compare_bytes_scalar, compare_bytes_columns and between_bytes_scalar" {
    var prng: std.Random.DefaultPrng = .init(13);
    const random = prng.random();
    var expected: [test_rows_max]bool = undefined;
    var out: TestOut(test_rows_max) = .{};
    for (test_lengths) |n| for (test_ops) |op| for (0..3) |_| {
        const a: TestBytes = .init(random);
        const b: TestBytes = .init(random);
        const scalar = b.at(0);
        compare_bytes_scalar(op, a.offsets[0 .. n + 1], a.bytes(n), scalar, out.slice(n));
        for (expected[0..n], 0..) |*want, row| want.* = twin_holds(op, std.mem.order(u8, a.at(row), scalar));
        try out.expect(expected[0..n]);

        compare_bytes_columns(op, a.offsets[0 .. n + 1], a.bytes(n), b.offsets[0 .. n + 1], b.bytes(n), out.slice(n));
        for (expected[0..n], 0..) |*want, row| want.* = twin_holds(op, std.mem.order(u8, a.at(row), b.at(row)));
        try out.expect(expected[0..n]);

        between_bytes_scalar(a.offsets[0 .. n + 1], a.bytes(n), scalar, b.at(1), out.slice(n));
        for (expected[0..n], 0..) |*want, row| {
            want.* = std.mem.order(u8, a.at(row), scalar) != .lt and std.mem.order(u8, a.at(row), b.at(1)) != .gt;
        }
        try out.expect(expected[0..n]);
    };
}

test "compare_fixed_scalar, compare_fixed_columns and between_fixed_scalar" {
    var prng: std.Random.DefaultPrng = .init(14);
    const random = prng.random();
    var expected: [70]bool = undefined;
    var out: TestOut(70) = .{};
    for ([_]usize{ 0, 1, 3, 4, 7, 8, 9, 16, 20 }) |width| for ([_]usize{ 0, 1, 8, 9, 70 }) |n| for (test_ops) |op| {
        var a: [70 * 20]u8 = undefined;
        var b: [70 * 20]u8 = undefined;
        for (&a, &b) |*x, *y| {
            x.* = if (random.uintLessThan(u8, 8) == 0) random.int(u8) else 'a';
            y.* = if (random.uintLessThan(u8, 8) == 0) random.int(u8) else 'a';
        }
        const scalar = b[0..width];
        const high = b[width..][0..width];
        compare_fixed_scalar(op, width, a[0 .. n * width], n, scalar, out.slice(n));
        for (expected[0..n], 0..) |*want, row| {
            want.* = twin_holds(op, std.mem.order(u8, a[row * width ..][0..width], scalar));
        }
        try out.expect(expected[0..n]);

        compare_fixed_columns(op, width, a[0 .. n * width], b[0 .. n * width], n, out.slice(n));
        for (expected[0..n], 0..) |*want, row| {
            want.* = twin_holds(op, std.mem.order(u8, a[row * width ..][0..width], b[row * width ..][0..width]));
        }
        try out.expect(expected[0..n]);

        between_fixed_scalar(width, a[0 .. n * width], n, scalar, high, out.slice(n));
        for (expected[0..n], 0..) |*want, row| {
            const bytes = a[row * width ..][0..width];
            want.* = std.mem.order(u8, bytes, scalar) != .lt and std.mem.order(u8, bytes, high) != .gt;
        }
        try out.expect(expected[0..n]);
    };
}
