//! Key values → dense group numbers, in order of first appearance.
//!
//! Slots hold a group number; the hash of every group is kept beside, so growing never looks at
//! keys and most probes that miss are told apart without touching them. NULL is a key like any
//! other; NaN equals NaN and −0.0 equals 0.0.
const std = @import("std");
const bitmap = @import("../core/bitmap.zig");
const column_module = @import("../core/column.zig");
const equal_bytes = @import("../kernel/compare.zig").equal_bytes;
const hash = @import("../kernel/hash.zig");
const Interval = @import("../core/interval.zig").Interval;
const Span = @import("../core/interval.zig").Span;
const interrupt = @import("../core/interrupt.zig");
const schema = @import("../core/schema.zig");
const ColumnBuilder = @import("../core/column_builder.zig").ColumnBuilder;
const Column = column_module.Column;
const assert = std.debug.assert;

pub const Error = error{ Cancelled, OutOfMemory, TooLarge };

const empty: u32 = std.math.maxInt(u32);
const slots_min_log2 = 10;

pub const GroupTable = struct {
    gpa: std.mem.Allocator,
    keys: []ColumnBuilder,
    hashes: std.ArrayList(u64) = .empty,
    slots: []u32,
    slots_log2: u6 = slots_min_log2,
    /// Rows of the current chunk that opened a group; their keys join `keys` when it is done.
    fresh: std.ArrayList(u32) = .empty,

    pub fn init(gpa: std.mem.Allocator, types: []const schema.DataType) Error!GroupTable {
        const slots = try gpa.alloc(u32, 1 << slots_min_log2);
        errdefer gpa.free(slots);
        @memset(slots, empty);
        const keys = try gpa.alloc(ColumnBuilder, types.len);
        errdefer gpa.free(keys);
        var ready: usize = 0;
        errdefer for (keys[0..ready]) |*key| key.deinit();
        for (keys, types) |*key, data_type| {
            key.* = try .init(gpa, data_type);
            ready += 1;
        }
        return .{ .gpa = gpa, .keys = keys, .slots = slots };
    }

    pub fn deinit(self: *GroupTable) void {
        for (self.keys) |*key| key.deinit();
        self.gpa.free(self.keys);
        self.hashes.deinit(self.gpa);
        self.fresh.deinit(self.gpa);
        self.gpa.free(self.slots);
        self.* = undefined;
    }

    /// Forgets all groups. The slots keep their number: the next lane's groups are as many, mostly.
    pub fn reset(self: *GroupTable) void {
        @memset(self.slots, empty);
        self.hashes.clearRetainingCapacity();
        for (self.keys) |*key| key.reset();
    }

    pub fn group_count(self: *const GroupTable) u32 {
        return @intCast(self.hashes.items.len);
    }

    /// Writes the group of each of `rows` of the key columns to `groups`.
    pub fn find_or_add(self: *GroupTable, arena: std.mem.Allocator, columns: []const Column, rows: []const u32, groups: []u32) Error!void {
        assert(rows.len == groups.len and columns.len == self.keys.len);
        if (rows.len == 0) return;
        const row_hashes = try arena.alloc(u64, columns[0].row_count);
        for (columns, 0..) |*column, i| hash.hash_column(column, 0, row_hashes, if (i == 0) .first else .combine);
        const stored = try arena.alloc(Column, self.keys.len);
        for (stored, self.keys) |*to, *from| to.* = try from.finish(arena);
        self.fresh.clearRetainingCapacity();
        const chunk: Probed = .{ .rows = rows, .hashes = row_hashes, .groups = groups };
        try self.find_by_layout(columns, stored, chunk);
        for (self.keys, columns) |*key, *column| try key.append_indices(column, self.fresh.items);
        assert(self.keys[0].row_count == self.group_count());
    }

    /// Rows to look up, the hash of every row of the chunk, and where the answers go.
    const Probed = struct { rows: []const u32, hashes: []const u64, groups: []u32 };

    /// One key without NULLs is compared without asking each time what it is.
    fn find_by_layout(self: *GroupTable, columns: []const Column, stored: []const Column, chunk: Probed) Error!void {
        const plain = columns.len == 1 and columns[0].validity == null and stored[0].validity == null;
        if (plain) switch (columns[0].type.layout()) {
            inline .i8, .u8, .i16, .u16, .i32, .u32, .i64, .u64 => |layout| {
                const T = Bits(layout);
                return self.find_rows(SameBits(T){ .values = columns[0].values(T), .stored = stored[0].values(T) }, chunk);
            },
            .bytes => return self.find_rows(SameBytes{ .column = &columns[0], .stored = &stored[0] }, chunk),
            else => {},
        };
        return self.find_rows(SameRow{ .columns = columns, .stored = stored }, chunk);
    }

    /// `same` says whether a row equals a group's key, or another row of the chunk.
    fn find_rows(self: *GroupTable, same: anytype, chunk: Probed) Error!void {
        const known = self.group_count();
        for (chunk.rows, chunk.groups) |row, *found| {
            const row_hash = chunk.hashes[row];
            const mask = self.slots.len - 1;
            var slot: usize = @intCast(row_hash >> @intCast(64 - @as(u7, self.slots_log2)));
            found.* = while (true) : (slot = (slot + 1) & mask) {
                const group = self.slots[slot];
                if (group == empty) break try self.add_group(slot, row, row_hash);
                if (@TypeOf(same).by_hash and self.hashes.items[group] != row_hash) continue;
                const equal = if (group < known) same.as_group(row, group) else same.as_row(row, self.fresh.items[group - known]);
                if (equal) break group;
            };
        }
    }

    fn add_group(self: *GroupTable, slot: usize, row: u32, row_hash: u64) Error!u32 {
        const group = self.group_count();
        if (group == empty - 1) return error.TooLarge;
        try self.hashes.append(self.gpa, row_hash);
        try self.fresh.append(self.gpa, row);
        self.slots[slot] = group;
        // Load stays under 0.45: mispredicted second probes cost more than a larger table.
        if (self.hashes.items.len * 20 > self.slots.len * 9) try self.grow();
        return group;
    }

    fn grow(self: *GroupTable) Error!void {
        const log2: u6 = self.slots_log2 + 1;
        const slots = try self.gpa.alloc(u32, @as(usize, 1) << @intCast(log2));
        errdefer self.gpa.free(slots);
        @memset(slots, empty);
        const mask = slots.len - 1;
        for (self.hashes.items, 0..) |group_hash, group| {
            if (group % interrupt.block_rows == 0) try interrupt.check();
            var slot: usize = @intCast(group_hash >> @intCast(64 - @as(u7, log2)));
            while (slots[slot] != empty) slot = (slot + 1) & mask;
            slots[slot] = @intCast(group);
        }
        self.gpa.free(self.slots);
        self.slots = slots;
        self.slots_log2 = log2;
    }
};

/// Integers of one width compare as their bits.
pub fn Bits(comptime layout: schema.Layout) type {
    return switch (layout) {
        .i8, .u8 => u8,
        .i16, .u16 => u16,
        .i32, .u32 => u32,
        .i64, .u64 => u64,
        .i128 => u128,
        else => comptime unreachable,
    };
}

fn SameBits(comptime T: type) type {
    return struct {
        values: []const T,
        stored: []const T,
        /// A value is as cheap to compare as its hash.
        const by_hash = false;

        inline fn as_group(self: @This(), row: u32, group: u32) bool {
            return self.values[row] == self.stored[group];
        }
        inline fn as_row(self: @This(), row: u32, other: u32) bool {
            return self.values[row] == self.values[other];
        }
    };
}

const SameBytes = struct {
    column: *const Column,
    stored: *const Column,
    const by_hash = true;

    inline fn as_group(self: SameBytes, row: u32, group: u32) bool {
        return same_bytes(self.column.bytes_at(row), self.stored.bytes_at(group));
    }
    inline fn as_row(self: SameBytes, row: u32, other: u32) bool {
        return same_bytes(self.column.bytes_at(row), self.column.bytes_at(other));
    }
};

const SameRow = struct {
    columns: []const Column,
    stored: []const Column,
    const by_hash = true;

    fn as_group(self: SameRow, row: u32, group: u32) bool {
        return rows_equal(self.columns, row, self.stored, group);
    }
    fn as_row(self: SameRow, row: u32, other: u32) bool {
        return rows_equal(self.columns, row, self.columns, other);
    }
};

pub inline fn same_bytes(a: []const u8, b: []const u8) bool {
    return a.len == b.len and equal_bytes(a, b);
}

pub fn rows_equal(a: []const Column, a_row: usize, b: []const Column, b_row: usize) bool {
    for (a, b) |*x, *y| if (!values_equal(x, a_row, y, b_row)) return false;
    return true;
}

pub fn values_equal(a: *const Column, a_row: usize, b: *const Column, b_row: usize) bool {
    const valid = a.is_valid(a_row);
    if (valid != b.is_valid(b_row)) return false;
    if (!valid) return true;
    switch (a.type.layout()) {
        .none => return true,
        .bits => return bitmap.get(a.data.ptr, a_row) == bitmap.get(b.data.ptr, b_row),
        .bytes => return same_bytes(a.bytes_at(a_row), b.bytes_at(b_row)),
        .fixed => {
            if (a.type.tag == .interval) return Span.of(a.values(Interval)[a_row]).equal(.of(b.values(Interval)[b_row]));
            const size: usize = @intCast(a.type.value_size());
            return std.mem.eql(u8, a.data[a_row * size ..][0..size], b.data[b_row * size ..][0..size]);
        },
        .list, .structure => unreachable, // plan.zig refuses them as keys
        inline .f16, .f32, .f64 => |layout| {
            const T = switch (layout) {
                .f16 => f16,
                .f32 => f32,
                else => f64,
            };
            const x = a.values(T)[a_row];
            const y = b.values(T)[b_row];
            return x == y or (x != x and y != y);
        },
        inline .i8, .u8, .i16, .u16, .i32, .u32, .i64, .u64, .i128 => |layout| {
            const T = Bits(layout);
            return a.values(T)[a_row] == b.values(T)[b_row];
        },
    }
}

test "groups are numbered by first appearance and survive growth" {
    const gpa = std.testing.allocator;
    var table: GroupTable = try .init(gpa, &.{.of(.i64)});
    defer table.deinit();
    var arena: std.heap.ArenaAllocator = .init(gpa);
    defer arena.deinit();
    const count = 4096;
    const values = try gpa.alignedAlloc(i64, .@"16", count);
    defer gpa.free(values);
    var rows: [count]u32 = undefined;
    var groups: [count]u32 = undefined;
    for (&rows, 0..) |*row, i| row.* = @intCast(i);
    for (0..3) |round| {
        for (values, 0..) |*value, i| value.* = @intCast((i / 2) * 7919 + round);
        const column: Column = .{ .type = .of(.i64), .row_count = count, .data = std.mem.sliceAsBytes(values) };
        try table.find_or_add(arena.allocator(), &.{column}, &rows, &groups);
        for (groups, 0..) |group, i| try std.testing.expectEqual(round * count / 2 + i / 2, group);
    }
    try std.testing.expectEqual(3 * count / 2, table.group_count());
}

test "NULL, NaN and zero are one group each" {
    const gpa = std.testing.allocator;
    var table: GroupTable = try .init(gpa, &.{.of(.f64)});
    defer table.deinit();
    var arena: std.heap.ArenaAllocator = .init(gpa);
    defer arena.deinit();
    const nan = std.math.nan(f64);
    const values: [8]f64 align(16) = .{ 0, -0.0, nan, -nan, 1, 5, 7, 0 };
    const column: Column = .{ .type = .of(.f64), .row_count = 8, .validity = &.{0b1001_1111}, .data = std.mem.sliceAsBytes(&values) };
    var groups: [8]u32 = undefined;
    try table.find_or_add(arena.allocator(), &.{column}, &.{ 0, 1, 2, 3, 4, 5, 6, 7 }, &groups);
    try std.testing.expectEqualSlices(u32, &.{ 0, 0, 1, 1, 2, 3, 3, 0 }, &groups);
}
