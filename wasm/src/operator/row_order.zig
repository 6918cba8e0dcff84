//! Puts rows in the order of several keys: the common part of sort, top-k and merge.
//!
//! The keys of a row are packed into the upper bits of one u64, its place into the lower ones:
//!
//!     | NULL? first key | NULL? second key | … the part of a key that still fits | 0 … | place |
//!
//! Of a number the distance from the smallest one is packed, of text eight bytes at a time, and where
//! that is shorter, only the bits in which any two values differ: neither ranges that are not used
//! nor common prefixes take room. The words are sorted by counting (kernel/radix_sort.zig). Rows
//! whose packed parts agree are sorted by what did not fit, in the same way. A comparison sort
//! would look at common prefixes again and again. The order is stable: rows that are equal in every
//! key stay in input order.
const std = @import("std");
const bitmap = @import("../core/bitmap.zig");
const column_module = @import("../core/column.zig");
const interrupt = @import("../core/interrupt.zig");
const radix_sort = @import("../kernel/radix_sort.zig");
const random_rows = @import("random_rows.zig");
const sort_keys = @import("../kernel/sort_keys.zig");
const order_bytes = @import("../kernel/compare.zig").order_bytes;
const Arena = @import("../core/arena.zig").Arena;
const BitCompressor = @import("../kernel/bit_compress.zig").BitCompressor;
const Column = column_module.Column;
const Order = std.math.Order;
const assert = std.debug.assert;

pub const Error = error{ OutOfMemory, Cancelled };

pub const Key = struct { column: *const Column, descending: bool, nulls_first: bool };

/// Levels of recursion over what did not fit. What is still tied then is compared directly: neither
/// long texts that share ever more nor many equal keys may exhaust the stack.
const depth_max = 100;

/// So few rows are compared directly.
const compared_rows = 6;

/// More of a text is packed only while that many bits beyond log2(n) are not in use yet: reading
/// text costs more than sorting the few rows that are still tied.
const text_spare_bits = 8;

/// Rows `0 … row_count` in order, in memory of `gpa`.
pub fn sorted_rows(gpa: std.mem.Allocator, keys: []const Key, row_count: u32) Error![]u32 {
    const rows = try gpa.alloc(u32, row_count);
    errdefer gpa.free(rows);
    for (rows, 0..) |*row, i| row.* = @intCast(i);
    try sort_rows(gpa, keys, rows);
    return rows;
}

/// Puts the given rows in order.
pub fn sort_rows(gpa: std.mem.Allocator, keys: []const Key, rows: []u32) Error!void {
    try interrupt.check();
    const values = try gpa.alloc(u64, rows.len);
    defer gpa.free(values);
    const scratch = try gpa.alloc(u64, rows.len);
    defer gpa.free(scratch);
    const sorter: Sorter = .{ .keys = keys };
    try sorter.sort(rows, values, scratch, .{ .key = 0, .offset = 0 }, 0);
}

/// A key, and how many of its bytes are behind us; or its size, if that is what comes next.
const Position = struct { key: usize, offset: usize };

/// How far packing came: bits from `low` up are in use (64: none), and what follows, if anything does.
const Packing = struct { low: u7, next: ?Position };

const Sorter = struct {
    keys: []const Key,

    /// Sorts rows that agree in all that comes before `from`. `values` and `scratch` are as long.
    fn sort(self: Sorter, rows: []u32, values: []u64, scratch: []u64, from: Position, depth: usize) Error!void {
        assert(values.len == rows.len and scratch.len == rows.len);
        if (from.key == self.keys.len or rows.len < 2) return;
        if (rows.len <= compared_rows) return self.tail(from.key).insertion_sort(rows);
        if (depth > depth_max)
            return self.tail(from.key).merge_sort(rows, @as([*]u32, @ptrCast(scratch.ptr))[0..rows.len]);
        const packing = try self.pack(rows, values, scratch, from);
        if (packing.low == 64) return;
        const sorted = try radix_sort.sort(values, scratch, @intCast(packing.low));
        const other = if (sorted.ptr == values.ptr) scratch else values;
        try permute(rows, sorted, other);
        if (packing.next) |next| try self.sort_ties(rows, sorted, other, @intCast(packing.low), next, depth + 1);
    }

    /// Fills `values` with packed keys and places. `words` is scratch.
    fn pack(self: Sorter, rows: []const u32, values: []u64, words: []u64, from: Position) Error!Packing {
        const place_bits = place_bits_of(rows.len);
        for (values, 0..) |*value, place| value.* = place;
        var low: u7 = 64;
        var position = from;
        while (position.key < self.keys.len) {
            const key = self.keys[position.key];
            const enough = position.offset > 0 and 64 - low >= place_bits + text_spare_bits;
            if (low == place_bits or enough) return .{ .low = low, .next = position };
            if (key.column.type.layout() == .bytes and position.offset != sort_keys.size_word) {
                position.offset += try sort_keys.common_size(key.column, rows, position.offset);
            }
            const flip: u64 = if (key.descending) std.math.maxInt(u64) else 0;
            const found = try sort_keys.load_words(key.column, rows, position.offset, flip, words);
            if (found.valid_count > 0 and found.valid_count < rows.len) {
                low -= 1;
                try mark_nulls(key, rows, values, words, low, found.min);
            }
            const field: Field = .init(found, place_bits);
            const taken = @min(field.bits, low - place_bits);
            low -= taken;
            if (taken > 0) try field.fold(words, values, field.bits - taken, @intCast(low));
            if (taken < field.bits) return .{ .low = low, .next = position };
            position = try following(key, rows, position, found);
        }
        return .{ .low = low, .next = null };
    }

    /// Sorts, among rows whose packed parts agree, by what follows.
    fn sort_ties(
        self: Sorter,
        rows: []u32,
        sorted: []u64,
        other: []u64,
        low: u6,
        next: Position,
        depth: usize,
    ) Error!void {
        var at: usize = 1;
        var checked: usize = 0;
        while (at < rows.len) : (at += 1) {
            if (at - checked >= interrupt.block_rows) {
                checked = at;
                try interrupt.check();
            }
            if ((sorted[at] ^ sorted[at - 1]) >> low != 0) continue;
            const start = at - 1;
            while (at < rows.len and (sorted[at] ^ sorted[start]) >> low == 0) at += 1;
            try self.sort(rows[start..at], sorted[start..at], other[start..at], next, depth);
        }
    }

    fn tail(self: Sorter, index: usize) Sorter {
        return .{ .keys = self.keys[index..] };
    }

    fn insertion_sort(self: Sorter, rows: []u32) Error!void {
        for (1..rows.len) |i| {
            const row = rows[i];
            var place = i;
            while (place > 0 and self.less(row, rows[place - 1])) : (place -= 1) rows[place] = rows[place - 1];
            rows[place] = row;
        }
    }

    /// Bottom-up, so that the cancel byte is read between merges.
    fn merge_sort(self: Sorter, rows: []u32, scratch: []u32) Error!void {
        var width: usize = 1;
        while (width < rows.len) : (width *= 2) {
            var start: usize = 0;
            while (start < rows.len) : (start += 2 * width) {
                try interrupt.check();
                const middle = @min(start + width, rows.len);
                const end = @min(start + 2 * width, rows.len);
                try self.merge(rows[start..middle], rows[middle..end], scratch[start..end]);
            }
            @memcpy(rows, scratch);
        }
    }

    fn merge(self: Sorter, left: []const u32, right: []const u32, target: []u32) Error!void {
        var i: usize = 0;
        var j: usize = 0;
        for (target, 0..) |*slot, step| {
            if (step % 1024 == 1023) try interrupt.check();
            const from_right = i == left.len or (j < right.len and self.less(right[j], left[i]));
            slot.* = if (from_right) right[j] else left[i];
            if (from_right) j += 1 else i += 1;
        }
    }

    fn less(self: Sorter, a: u32, b: u32) bool {
        return compare_rows(self.keys, a, self.keys, b) == .lt;
    }
};

/// Bits that hold the places of `count` rows.
fn place_bits_of(count: usize) u7 {
    return 64 - @as(u7, @clz(@as(u64, count) - 1));
}

fn permute(rows: []u32, sorted: []const u64, scratch: []u64) Error!void {
    const before = @as([*]u32, @ptrCast(scratch.ptr))[0..rows.len];
    @memcpy(before, rows);
    const mask = (@as(u64, 1) << @intCast(place_bits_of(rows.len))) - 1;
    for (rows, sorted, 0..) |*row, value, i| {
        if (i % interrupt.block_rows == 0) try interrupt.check();
        row.* = before[@intCast(value & mask)];
    }
}

/// One bit says on which side NULLs stand; their words become one that is there.
fn mark_nulls(key: Key, rows: []const u32, values: []u64, words: []u64, bit: u7, word: u64) Error!void {
    const validity = key.column.validity.?;
    const marked = @as(u64, 1) << @intCast(bit);
    for (rows, values, words, 0..) |row, *value, *slot, i| {
        if (i % interrupt.block_rows == 0) try interrupt.check();
        const valid = bitmap.get(validity.ptr, row);
        if (!valid) slot.* = word;
        if (valid == key.nulls_first) value.* |= marked;
    }
}

/// What comes behind a word that is packed in whole.
fn following(key: Key, rows: []const u32, position: Position, found: sort_keys.Words) Error!Position {
    const next_key: Position = .{ .key = position.key + 1, .offset = 0 };
    if (found.valid_count == 0 or position.offset == sort_keys.size_word) return next_key;
    const size = switch (key.column.type.layout()) {
        .bytes => found.longest,
        .i128 => 16,
        .fixed => if (key.column.type.tag == .interval) 16 else key.column.type.width,
        else => return next_key,
    };
    if (size > position.offset + 8) return .{ .key = position.key, .offset = position.offset + 8 };
    if (key.column.type.layout() != .bytes or found.shortest == found.longest) return next_key;
    if (!try sort_keys.any_ends_in_zero(key.column, rows)) return next_key;
    return .{ .key = position.key, .offset = sort_keys.size_word };
}

/// How words are packed: as the distance from the least, or as the bits in which they differ.
const Field = struct {
    bits: u7,
    base: u64,
    compressor: ?BitCompressor,

    fn init(found: sort_keys.Words, place_bits: u7) Field {
        if (found.valid_count == 0) return .{ .bits = 0, .base = 0, .compressor = null };
        const range_bits = 64 - @as(u7, @clz(found.max - found.min));
        const differing_bits: u7 = @popCount(found.differing);
        // A range that tells all rows apart is sorted as fast as anything shorter, and is cheaper.
        if (range_bits <= place_bits or differing_bits + 4 > range_bits) {
            return .{ .bits = range_bits, .base = found.min, .compressor = null };
        }
        return .{ .bits = differing_bits, .base = 0, .compressor = .init(found.differing) };
    }

    /// Adds the words, without their `dropped` lowest bits, to the values at bit `shift`.
    fn fold(self: *const Field, words: []const u64, values: []u64, dropped: u7, shift: u6) Error!void {
        assert(dropped < 64);
        var block: usize = 0;
        while (block < words.len) : (block += interrupt.block_rows) {
            try interrupt.check();
            const end = @min(words.len, block + interrupt.block_rows);
            self.fold_block(words[block..end], values[block..end], @intCast(dropped), shift);
        }
    }

    fn fold_block(self: *const Field, words: []const u64, values: []u64, dropped: u6, shift: u6) void {
        const compressor = if (self.compressor) |*compressor| compressor else {
            for (words, values) |word, *value| value.* |= (word - self.base) >> dropped << shift;
            return;
        };
        const Pair = @Vector(2, u64);
        var i: usize = 0;
        while (i + 2 <= words.len) : (i += 2) {
            const kept = compressor.apply(Pair, words[i..][0..2].*);
            const placed = kept >> @as(@Vector(2, u6), @splat(dropped)) << @as(@Vector(2, u6), @splat(shift));
            values[i..][0..2].* = @as(Pair, values[i..][0..2].*) | placed;
        }
        if (i < words.len) values[i] |= compressor.apply(u64, words[i]) >> dropped << shift;
    }
};

/// How row `a` of some columns stands to row `b` of the same or others of the same types.
pub fn compare_rows(a_keys: []const Key, a: u32, b_keys: []const Key, b: u32) Order {
    for (a_keys, b_keys) |a_key, b_key| {
        const order = compare_key(a_key, a, b_key.column, b);
        if (order != .eq) return order;
    }
    return .eq;
}

fn compare_key(key: Key, a: u32, other: *const Column, b: u32) Order {
    const a_valid = key.column.is_valid(a);
    const b_valid = other.is_valid(b);
    if (!a_valid or !b_valid) {
        if (a_valid == b_valid) return .eq;
        return if (a_valid == key.nulls_first) .gt else .lt;
    }
    const order = compare_values(key.column, a, other, b);
    return if (key.descending) order.invert() else order;
}

fn compare_values(x: *const Column, a: u32, y: *const Column, b: u32) Order {
    if (x.type.layout() == .bytes) return order_bytes(x.bytes_at(a), y.bytes_at(b));
    var offset: usize = 0;
    while (offset < sort_keys.key_size(x, a)) : (offset += 8) {
        const order = std.math.order(sort_keys.key_of(x, a, offset), sort_keys.key_of(y, b, offset));
        if (order != .eq) return order;
    }
    return .eq;
}

fn expect_sorted(keys: []const Key, row_count: u32) !void {
    const rows = try sorted_rows(std.testing.allocator, keys, row_count);
    defer std.testing.allocator.free(rows);
    const expected = try std.testing.allocator.alloc(u32, row_count);
    defer std.testing.allocator.free(expected);
    for (expected, 0..) |*row, i| row.* = @intCast(i);
    std.sort.block(u32, expected, Sorter{ .keys = keys }, Sorter.less);
    try std.testing.expectEqualSlices(u32, expected, rows);
}

test "sorted_rows agrees with a comparison sort" {
    var prng: std.Random.DefaultPrng = .init(11);
    const random = prng.random();
    const count = 700;
    var numbers: [count]i32 align(16) = undefined;
    for (&numbers) |*value| value.* = random.intRangeAtMost(i32, -3, 3);
    var validity: [(count + 7) / 8]u8 = undefined;
    random.bytes(&validity);
    const number_column: Column =
        .{ .type = .of(.i32), .row_count = count, .validity = &validity, .data = std.mem.sliceAsBytes(&numbers) };

    // Text of a tiny alphabet with NUL in it, so that prefixes and padding collide often.
    var text: [count * 40]u8 align(16) = undefined;
    var offsets: [count + 1]u32 = undefined;
    var position: u32 = 0;
    for (0..count) |row| {
        offsets[row] = position;
        const size = random.uintLessThan(u32, 30);
        for (text[position..][0..size]) |*byte| byte.* = if (random.boolean()) 0 else 'a';
        if (row % 3 == 0) @memset(text[position..][0..size], 'a');
        position += size;
    }
    offsets[count] = position;
    const text_column: Column =
        .{ .type = .of(.utf8), .row_count = count, .data = text[0..position], .offsets = &offsets };

    for ([_]bool{ false, true }) |descending| {
        for ([_]bool{ false, true }) |nulls_first| {
            const number_key: Key = .{ .column = &number_column, .descending = descending, .nulls_first = nulls_first };
            const text_key: Key = .{ .column = &text_column, .descending = !descending, .nulls_first = false };
            try expect_sorted(&.{number_key}, count);
            try expect_sorted(&.{text_key}, count);
            try expect_sorted(&.{ number_key, text_key }, count);
            try expect_sorted(&.{ text_key, number_key }, count);
        }
    }
}

test "rows of every type, over several keys, agree with a comparison sort" {
    var prng: std.Random.DefaultPrng = .init(12);
    const random = prng.random();
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    for (0..400) |round| {
        _ = arena.reset(.retain_capacity);
        const count: u32 = switch (round % 4) {
            0 => random.uintLessThan(u32, 20),
            1 => 2000,
            else => 200,
        };
        var columns: [3]Column = undefined;
        var keys: [3]Key = undefined;
        for (&columns, &keys, 0..) |*column, *key, i| {
            const data_type = random_rows.types[
                if (i == 0) round % random_rows.types.len else random.uintLessThan(usize, random_rows.types.len)
            ];
            column.* = try random_rows.column(arena.allocator(), random, data_type, count);
            key.* = .{ .column = column, .descending = random.boolean(), .nulls_first = random.boolean() };
        }
        try expect_sorted(keys[0 .. 1 + random.uintLessThan(usize, 3)], count);
    }
}

test "long equal texts do not recurse without end" {
    const count = 300;
    const text = try std.testing.allocator.alignedAlloc(u8, .@"16", count * 2000);
    defer std.testing.allocator.free(text);
    @memset(text, 'x');
    var offsets: [count + 1]u32 = undefined;
    for (&offsets, 0..) |*offset, i| offset.* = @intCast(i * 2000);
    text[5 * 2000 + 1999] = 'a';
    const column: Column = .{ .type = .of(.binary), .row_count = count, .data = text, .offsets = &offsets };
    const key: Key = .{ .column = &column, .descending = false, .nulls_first = false };
    try expect_sorted(&.{key}, count);
    const keys: [2000]Key = @splat(key);
    try expect_sorted(&keys, 3);
}

test "texts that each share more with the next are compared in the end" {
    const count = 1200;
    // Each row is a word of x shorter than the one before.
    var offsets: [count + 1]u32 = undefined;
    const all = try std.testing.allocator.alignedAlloc(u8, .@"16", count * (count + 1) / 2 * 8);
    defer std.testing.allocator.free(all);
    @memset(all, 'x');
    offsets[0] = 0;
    for (0..count) |i| offsets[i + 1] = offsets[i] + @as(u32, @intCast((count - i - 1) * 8));
    const column: Column = .{ .type = .of(.utf8), .row_count = count, .data = all, .offsets = &offsets };
    try expect_sorted(&.{.{ .column = &column, .descending = false, .nulls_first = false }}, count);
    try expect_sorted(&.{.{ .column = &column, .descending = true, .nulls_first = false }}, count);
}
