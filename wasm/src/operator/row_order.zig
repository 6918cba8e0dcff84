//! Puts rows in the order of several keys: the common part of sort and top-k.
//!
//! One key at a time, eight bytes at a time: rows become (u64, row) entries, are sorted by counting,
//! and runs of equal keys are sorted by what follows: the next eight bytes of a long value, then the
//! next key. A comparison sort would look at common prefixes again and again. The order is stable:
//! rows that are equal in every key stay in input order.
const std = @import("std");
const column_module = @import("../core/column.zig");
const interrupt = @import("../core/interrupt.zig");
const sort_keys = @import("../kernel/sort_keys.zig");
const Column = column_module.Column;
const Entry = sort_keys.Entry;

pub const Error = error{ OutOfMemory, Cancelled };

pub const Key = struct { column: *const Column, descending: bool, nulls_first: bool };

/// Levels of recursion over all keys and all their groups of eight bytes. What is still tied then is
/// compared directly: neither long common prefixes nor many equal keys may exhaust the stack.
const depth_max = 200;

/// Rows `0 … row_count` in order, in memory of `gpa`.
pub fn sorted_rows(gpa: std.mem.Allocator, keys: []const Key, row_count: u32) Error![]u32 {
    const rows = try gpa.alloc(u32, row_count);
    errdefer gpa.free(rows);
    for (rows, 0..) |*row, i| row.* = @intCast(i);
    try interrupt.check();
    const entries = try gpa.alloc(Entry, row_count);
    defer gpa.free(entries);
    const scratch = try gpa.alloc(Entry, row_count);
    defer gpa.free(scratch);
    const sorter: Sorter = .{ .keys = keys };
    try sorter.sort(rows, entries, scratch, 0, 0);
    return rows;
}

const Sorter = struct {
    keys: []const Key,

    /// Sorts rows by the keys from `index` on.
    fn sort(self: Sorter, rows: []u32, entries: []Entry, scratch: []Entry, index: usize, depth: usize) Error!void {
        if (index == self.keys.len or rows.len < 2) return;
        if (depth > depth_max) return self.compare_sort(rows, entries, index);
        const key = self.keys[index];
        const valid = try self.split_nulls(rows, entries, key);
        const null_rows = if (key.nulls_first) rows[0 .. rows.len - valid.len] else rows[valid.len..];
        try self.sort(null_rows, entries, scratch, index + 1, depth + 1);
        try self.sort_values(valid, entries, scratch, index, 0, depth);
    }

    fn compare_sort(self: Sorter, rows: []u32, entries: []Entry, index: usize) Error!void {
        const scratch_rows: []u32 = @as([*]u32, @ptrCast(entries.ptr))[0..rows.len];
        return self.tail(index).merge_sort(rows, scratch_rows);
    }

    /// Moves NULLs to their end, keeping both orders; returns the others.
    fn split_nulls(_: Sorter, rows: []u32, entries: []Entry, key: Key) Error![]u32 {
        const validity_missing = key.column.validity == null and key.column.type.tag != .null;
        if (validity_missing) return rows;
        var valid: usize = 0;
        var nulls: usize = 0;
        for (rows, 0..) |row, i| {
            if (i % interrupt.block_rows == 0) try interrupt.check();
            if (key.column.is_valid(row)) {
                rows[valid] = row;
                valid += 1;
            } else {
                entries[nulls].row = row;
                nulls += 1;
            }
        }
        if (key.nulls_first) {
            std.mem.copyBackwards(u32, rows[nulls..], rows[0..valid]);
            for (rows[0..nulls], entries[0..nulls]) |*row, entry| row.* = entry.row;
            return rows[nulls..];
        }
        for (rows[valid..], entries[0..nulls]) |*row, entry| row.* = entry.row;
        return rows[0..valid];
    }

    /// Sorts rows that are not NULL in key `index` and agree in its first `offset` bytes.
    fn sort_values(self: Sorter, rows: []u32, entries: []Entry, scratch: []Entry, index: usize, offset: usize, depth: usize) Error!void {
        if (rows.len < 2) return;
        const key = self.keys[index];
        if (depth > depth_max) return self.compare_sort(rows, entries, index);
        const flip: u64 = if (key.descending) std.math.maxInt(u64) else 0;
        for (rows, entries[0..rows.len], 0..) |row, *entry, i| {
            if (i % interrupt.block_rows == 0) try interrupt.check();
            entry.* = .{ .key = sort_keys.key_of(key.column, row, offset) ^ flip, .row = row };
        }
        try sort_keys.sort_entries(entries[0..rows.len], scratch);
        for (rows, entries[0..rows.len]) |*row, entry| row.* = entry.row;
        const exact = sort_keys.is_exact(key.column.type.layout());
        if (exact and index + 1 == self.keys.len) return;
        try self.sort_runs(rows, entries, scratch, index, offset, depth, exact);
    }

    fn sort_runs(self: Sorter, rows: []u32, entries: []Entry, scratch: []Entry, index: usize, offset: usize, depth: usize, exact: bool) Error!void {
        var start: usize = 0;
        while (start < rows.len) {
            // `entries` is scratch for the runs before this one only: its keys from `start` on still stand.
            var end = start + 1;
            while (end < rows.len and entries[end].key == entries[start].key) end += 1;
            if (end - start > 1) {
                const run = rows[start..end];
                const room = entries[start..end];
                if (exact) {
                    try self.sort(run, room, scratch, index + 1, depth + 1);
                } else {
                    try self.sort_ties(run, room, scratch, index, offset, depth);
                }
            }
            start = end;
        }
    }

    /// Rows whose keys agree up to `offset + 8`, zero-padded.
    fn sort_ties(self: Sorter, rows: []u32, entries: []Entry, scratch: []Entry, index: usize, offset: usize, depth: usize) Error!void {
        try interrupt.check();
        const key = self.keys[index];
        var longest: usize = 0;
        for (rows) |row| longest = @max(longest, sort_keys.key_size(key.column, row));
        if (longest > offset + 8) return self.sort_values(rows, entries, scratch, index, offset + 8, depth + 1);
        // Equal but for trailing zero bytes, which the padding hides: the shorter comes first.
        const flip: u64 = if (key.descending) std.math.maxInt(u64) else 0;
        for (rows, entries) |row, *entry| entry.* = .{ .key = sort_keys.key_size(key.column, row) ^ flip, .row = row };
        try sort_keys.sort_entries(entries, scratch);
        for (rows, entries) |*row, entry| row.* = entry.row;
        var start: usize = 0;
        while (start < rows.len) {
            var end = start + 1;
            while (end < rows.len and entries[end].key == entries[start].key) end += 1;
            try self.sort(rows[start..end], entries[start..end], scratch, index + 1, depth + 1);
            start = end;
        }
    }

    fn tail(self: Sorter, index: usize) Sorter {
        return .{ .keys = self.keys[index..] };
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
        for (self.keys) |key| {
            switch (compare_rows(key, a, b)) {
                .lt => return true,
                .gt => return false,
                .eq => {},
            }
        }
        return false;
    }
};

fn compare_rows(key: Key, a: u32, b: u32) std.math.Order {
    const a_valid = key.column.is_valid(a);
    const b_valid = key.column.is_valid(b);
    if (!a_valid or !b_valid) {
        if (a_valid == b_valid) return .eq;
        return if (a_valid == key.nulls_first) .gt else .lt;
    }
    const order = compare_values(key.column, a, b);
    return if (key.descending) order.invert() else order;
}

fn compare_values(column: *const Column, a: u32, b: u32) std.math.Order {
    if (column.type.layout() == .bytes) return std.mem.order(u8, column.bytes_at(a), column.bytes_at(b));
    var offset: usize = 0;
    while (offset < sort_keys.key_size(column, a)) : (offset += 8) {
        const order = std.math.order(sort_keys.key_of(column, a, offset), sort_keys.key_of(column, b, offset));
        if (order != .eq) return order;
    }
    return .eq;
}

/// Whether row `a` sorts before row `b`; rows that are equal keep their order.
pub fn row_less(keys: []const Key, a: u32, b: u32) bool {
    const sorter: Sorter = .{ .keys = keys };
    return sorter.less(a, b);
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
    const number_column: Column = .{ .type = .of(.i32), .row_count = count, .validity = &validity, .data = std.mem.sliceAsBytes(&numbers) };

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
    const text_column: Column = .{ .type = .of(.utf8), .row_count = count, .data = text[0..position], .offsets = &offsets };

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
