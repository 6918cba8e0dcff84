//! Values → u64 keys whose unsigned order is the order of the values.
//!
//! Numbers up to 64 bits are said exactly by their key. Longer values (text, 128-bit numbers) give
//! eight bytes at a time, padded with zeros. NaN is the greatest float, −0.0 equals 0.0.
const std = @import("std");
const bitmap = @import("../core/bitmap.zig");
const equal_bytes = @import("compare.zig").equal_bytes;
const schema = @import("../core/schema.zig");
const interrupt = @import("../core/interrupt.zig");
const Interval = @import("../core/interval.zig").Interval;
const Span = @import("../core/interval.zig").Span;
const column_module = @import("../core/column.zig");
const Column = column_module.Column;
const assert = std.debug.assert;

/// The key of one row: for values longer than eight bytes, of the bytes from `offset` on.
pub fn key_of(column: *const Column, row: usize, offset: usize) u64 {
    switch (column.type.layout()) {
        .bits => return @intFromBool((column.data[row >> 3] >> @intCast(row & 7)) & 1 != 0),
        .bytes => return prefix(column.bytes_at(row), offset),
        .fixed => {
            if (column.type.tag == .interval) return interval_key(column.values(Interval)[row], offset);
            const width = column.type.width;
            return prefix(column.data[row * width ..][0..width], offset);
        },
        .i128 => return wide_key(column.values(i128)[row], offset),
        .none, .list, .structure => unreachable,
        inline else => |layout| {
            const T = schema.Scalar(layout);
            return number_key(T, column.values(T)[row]);
        },
    }
}

/// How many bytes of key a value has: past them `key_of` gives nothing new.
pub fn key_size(column: *const Column, row: usize) usize {
    return switch (column.type.layout()) {
        .bytes => column.offsets[row + 1] - column.offsets[row],
        .i128 => 16,
        .fixed => if (column.type.tag == .interval) 16 else column.type.width,
        else => 8,
    };
}

/// The key of a number of at most 64 bits.
pub inline fn number_key(comptime T: type, value: T) u64 {
    switch (@typeInfo(T)) {
        .int => |int| {
            if (int.signedness == .unsigned) return value;
            return @as(u64, @bitCast(@as(i64, value))) ^ (1 << 63);
        },
        .float => {
            const wide: f64 = value;
            if (wide != wide) return std.math.maxInt(u64);
            const bits: u64 = @bitCast(if (wide == 0) @as(f64, 0) else wide);
            return if (bits >> 63 != 0) ~bits else bits ^ (1 << 63);
        },
        else => comptime unreachable,
    }
}

fn wide_key(value: i128, offset: usize) u64 {
    const bits = @as(u128, @bitCast(value)) ^ (1 << 127);
    return @truncate(if (offset == 0) bits >> 64 else bits);
}

/// Whole days first, then the rest of a day.
fn interval_key(interval: Interval, offset: usize) u64 {
    const span: Span = .of(interval);
    return number_key(i64, if (offset == 0) span.days else span.rest);
}

fn prefix(bytes: []const u8, offset: usize) u64 {
    if (offset + 8 <= bytes.len) return std.mem.readInt(u64, bytes[offset..][0..8], .big);
    var padded: [8]u8 = @splat(0);
    if (offset < bytes.len) @memcpy(padded[0 .. bytes.len - offset], bytes[offset..]);
    return std.mem.readInt(u64, &padded, .big);
}

/// What a set of rows has for words, NULLs aside.
pub const Words = struct {
    valid_count: usize = 0,
    min: u64 = std.math.maxInt(u64),
    max: u64 = 0,
    /// Bits in which any two of them differ.
    differing: u64 = 0,
    /// Of text and binary: the sizes of the shortest and the longest value.
    shortest: usize = std.math.maxInt(usize),
    longest: usize = 0,
};

/// In place of an offset: the word is the size of the value.
pub const size_word = std.math.maxInt(usize);

/// The keys of some rows, from `offset` on, each combined with `flip`; 0 for NULL.
pub fn load_words(
    column: *const Column,
    rows: []const u32,
    offset: usize,
    flip: u64,
    words: []u64,
) interrupt.Error!Words {
    assert(words.len == rows.len);
    return switch (column.type.layout()) {
        .bytes => if (offset == size_word)
            load(SizeReader{ .offsets = column.offsets }, column, rows, flip, words)
        else
            load(
                BytesReader{ .offsets = column.offsets, .data = column.data, .skipped = offset },
                column,
                rows,
                flip,
                words,
            ),
        inline .i8, .i16, .i32, .i64, .u8, .u16, .u32, .u64, .f16, .f32, .f64 => |layout| blk: {
            const T = schema.Scalar(layout);
            break :blk load(NumberReader(T){ .values = column.values(T) }, column, rows, flip, words);
        },
        .bits, .i128, .fixed => load(AnyReader{ .column = column, .offset = offset }, column, rows, flip, words),
        .none, .list, .structure => unreachable,
    };
}

fn NumberReader(comptime T: type) type {
    return struct {
        values: []const T,
        const sized = false;

        inline fn word(self: @This(), row: u32) u64 {
            return number_key(T, self.values.ptr[row]);
        }
    };
}

const AnyReader = struct {
    column: *const Column,
    offset: usize,
    const sized = false;

    fn word(self: AnyReader, row: u32) u64 {
        return key_of(self.column, row, self.offset);
    }
};

const SizeReader = struct {
    offsets: []const u32,
    const sized = false;

    inline fn word(self: SizeReader, row: u32) u64 {
        return self.offsets.ptr[row + 1] - self.offsets.ptr[row];
    }
};

const BytesReader = struct {
    offsets: []const u32,
    data: []const u8,
    skipped: usize,
    const sized = true;

    inline fn size(self: BytesReader, row: u32) usize {
        return self.offsets.ptr[row + 1] - self.offsets.ptr[row];
    }

    inline fn word(self: BytesReader, row: u32) u64 {
        const start = self.offsets.ptr[row] + self.skipped;
        const end = self.offsets.ptr[row + 1];
        if (start >= end) return 0;
        if (start + 8 > self.data.len) return prefix(self.data[start..end], 0);
        const bytes: @Vector(8, u8) = self.data[start..][0..8].*;
        const big_endian: u64 = @bitCast(@shuffle(u8, bytes, undefined, [8]i32{ 7, 6, 5, 4, 3, 2, 1, 0 }));
        return if (end -
            start >= 8) big_endian else big_endian & ~(@as(u64, std.math.maxInt(u64)) >> @intCast(8 * (end - start)));
    }
};

fn load(reader: anytype, column: *const Column, rows: []const u32, flip: u64, words: []u64) interrupt.Error!Words {
    var found: Words = .{};
    var block: usize = 0;
    while (block < rows.len) : (block += interrupt.block_rows) {
        try interrupt.check();
        const end = @min(rows.len, block + interrupt.block_rows);
        if (column.validity) |validity| {
            load_block(true, reader, validity, rows[block..end], flip, words[block..end], &found);
        } else {
            load_block(false, reader, &.{}, rows[block..end], flip, words[block..end], &found);
        }
    }
    return found;
}

fn load_block(
    comptime nullable: bool,
    reader: anytype,
    validity: []const u8,
    rows: []const u32,
    flip: u64,
    words: []u64,
    total: *Words,
) void {
    var found = total.*;
    // Any word will do to differ from; of the first block the first valid one, then one of those before.
    var reference = found.min;
    for (rows, words) |row, *slot| {
        if (nullable and !bitmap.get(validity.ptr, row)) {
            slot.* = 0;
            continue;
        }
        const word = reader.word(row) ^ flip;
        slot.* = word;
        if (found.valid_count == 0) reference = word;
        found.valid_count += 1;
        found.min = @min(found.min, word);
        found.max = @max(found.max, word);
        found.differing |= word ^ reference;
        if (@TypeOf(reader).sized) {
            const size = reader.size(row);
            found.shortest = @min(found.shortest, size);
            found.longest = @max(found.longest, size);
        }
    }
    total.* = found;
}

/// Rows that are looked at before all are.
const sampled_rows = 8;
/// A common prefix that is shorter is not worth a look at every row.
const common_size_min = 3;

/// How many bytes from `offset` on the values of all rows have in common, NULLs aside; 0 where a few
/// rows show that it is not much.
pub fn common_size(column: *const Column, rows: []const u32, offset: usize) interrupt.Error!usize {
    var reference: ?[]const u8 = null;
    const step = @max(1, rows.len / sampled_rows);
    var at: usize = 0;
    while (at < rows.len) : (at += step) shorten(&reference, column, rows[at], offset);
    if ((reference orelse return 0).len < common_size_min) return 0;
    for (rows, 0..) |row, i| {
        if (i % interrupt.block_rows == 0) try interrupt.check();
        shorten(&reference, column, row, offset);
    }
    return reference.?.len;
}

/// Cuts the reference to what the row's value has in common with it.
inline fn shorten(reference: *?[]const u8, column: *const Column, row: u32, offset: usize) void {
    if (!column.is_valid(row)) return;
    const value = column.bytes_at(row);
    const rest = value[@min(offset, value.len)..];
    const so_far = reference.* orelse rest;
    const same = rest.len >= so_far.len and equal_bytes(so_far, rest[0..so_far.len]);
    reference.* = if (same) so_far else so_far[0 .. std.mem.findDiff(u8, so_far, rest) orelse so_far.len];
}

/// Whether padding with zeros hides where a value ends. NULLs count too: then one word more is compared.
pub fn any_ends_in_zero(column: *const Column, rows: []const u32) interrupt.Error!bool {
    for (rows, 0..) |row, i| {
        if (i % interrupt.block_rows == 0) try interrupt.check();
        const end = column.offsets[row + 1];
        if (end > column.offsets[row] and column.data[end - 1] == 0) return true;
    }
    return false;
}

test "keys order numbers as SQL does" {
    const floats = [_]f64{ -std.math.inf(f64), -1e300, -1, -0.0, 1e-300, 1, std.math.inf(f64), std.math.nan(f64) };
    for (floats[1..], floats[0 .. floats.len - 1]) |b, a|
        try std.testing.expect(number_key(f64, a) < number_key(f64, b));
    try std.testing.expectEqual(number_key(f64, 0.0), number_key(f64, -0.0));
    try std.testing.expectEqual(number_key(f64, std.math.nan(f64)), number_key(f64, -std.math.nan(f64)));
    const ints = [_]i64{ std.math.minInt(i64), -1, 0, 1, std.math.maxInt(i64) };
    for (ints[1..], ints[0 .. ints.len - 1]) |b, a| try std.testing.expect(number_key(i64, a) < number_key(i64, b));
    try std.testing.expect(wide_key(-1, 0) < wide_key(1 << 64, 0));
    try std.testing.expect(wide_key(1, 8) < wide_key(2, 8));
}

test common_size {
    const text: [40]u8 align(16) = "prefix onprefix onfprefix otheprefix_   ".*;
    const column: Column = .{
        .type = .of(.utf8),
        .row_count = 5,
        .validity = &.{0b1_0111},
        .data = &text,
        .offsets = &.{ 0, 9, 19, 30, 37, 37 },
    };
    try std.testing.expectEqual(8, try common_size(&column, &.{ 0, 1, 2, 3 }, 0));
    try std.testing.expectEqual(6, try common_size(&column, &.{ 0, 1, 2, 3 }, 2));
    try std.testing.expectEqual(0, try common_size(&column, &.{ 0, 1, 2, 3 }, 7));
    try std.testing.expectEqual(9, try common_size(&column, &.{ 0, 1 }, 0));
    try std.testing.expectEqual(0, try common_size(&column, &.{ 0, 4 }, 0));
    try std.testing.expectEqual(0, try common_size(&column, &.{3}, 0));
}

fn expect_words(column: *const Column, offset: usize) !void {
    var rows: [40]u32 = undefined;
    var words: [40]u64 = undefined;
    var prng: std.Random.DefaultPrng = .init(5);
    for (&rows) |*row| row.* = prng.random().uintLessThan(u32, column.row_count);
    const flip: u64 = 0xFFFF;
    const found = try load_words(column, &rows, offset, flip, &words);
    var expected: Words = .{};
    var first: ?u64 = null;
    for (rows, words) |row, word| {
        if (!column.is_valid(row)) continue;
        const wanted = key_of(column, row, offset) ^ flip;
        try std.testing.expectEqual(wanted, word);
        if (first == null) first = wanted;
        expected.valid_count += 1;
        expected.min = @min(expected.min, wanted);
        expected.max = @max(expected.max, wanted);
        expected.differing |= wanted ^ first.?;
    }
    try std.testing.expectEqual(expected.valid_count, found.valid_count);
    try std.testing.expectEqual(expected.min, found.min);
    try std.testing.expectEqual(expected.max, found.max);
    try std.testing.expectEqual(expected.differing, found.differing);
}

test load_words {
    const text: [26]u8 align(16) = "abcdefghijklmnopqrstuvwx\x00z".*;
    const texts: Column = .{
        .type = .of(.utf8),
        .row_count = 6,
        .validity = &.{0b10_1111},
        .data = &text,
        .offsets = &.{ 0, 0, 3, 12, 24, 25, 26 },
    };
    for ([_]usize{ 0, 1, 8, 11 }) |offset| try expect_words(&texts, offset);
    var words: [3]u64 = undefined;
    const found = try load_words(&texts, &.{ 1, 2, 3 }, 0, 0, &words);
    try std.testing.expectEqual(3, found.shortest);
    try std.testing.expectEqual(12, found.longest);
    try std.testing.expect(!try any_ends_in_zero(&texts, &.{ 0, 1, 3, 5 }));
    const zeros: Column = .{ .type = .of(.binary), .row_count = 2, .data = &text, .offsets = &.{ 22, 25, 26 } };
    try std.testing.expect(try any_ends_in_zero(&zeros, &.{ 0, 1 }));
    try std.testing.expect(!try any_ends_in_zero(&zeros, &.{1}));
    _ = try load_words(&texts, &.{ 0, 2 }, size_word, 0, words[0..2]);
    try std.testing.expectEqualSlices(u64, &.{ 0, 9 }, words[0..2]);

    const numbers: [4]i64 align(16) = .{ -5, 0, 7, std.math.minInt(i64) };
    try expect_words(
        &.{ .type = .of(.i64), .row_count = 4, .validity = &.{0b1011}, .data = std.mem.sliceAsBytes(&numbers) },
        0,
    );
    const floats: [4]f32 align(16) = .{ -5, -0.0, std.math.nan(f32), 0.25 };
    try expect_words(&.{ .type = .of(.f32), .row_count = 4, .data = std.mem.sliceAsBytes(&floats) }, 0);
    const wide: [2]i128 align(16) = .{ -1, 1 << 90 };
    for ([_]usize{ 0, 8 }) |offset| {
        try expect_words(&.{ .type = .of(.i128), .row_count = 2, .data = std.mem.sliceAsBytes(&wide) }, offset);
    }
}
