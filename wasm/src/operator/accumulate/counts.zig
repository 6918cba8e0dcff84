//! Rows of every group, and how many of them are NULL: what counts, averages and "no value" come from.
//!
//! Rows are counted once for all aggregates that see the same ones; NULLs of an argument only in chunks
//! that have some. So count(x), sum(x) and avg(x) over columns without NULLs share one loop.
const std = @import("std");
const bitmap = @import("../../core/bitmap.zig");
const column_module = @import("../../core/column.zig");
const grouped = @import("../../kernel/grouped.zig");
const Arena = @import("../../core/arena.zig").Arena;
const Column = column_module.Column;
const Rows = @import("../../lookup/rows.zig").Rows;

pub fn List(comptime T: type) type {
    return std.array_list.Aligned(T, .fromByteUnits(column_module.alignment));
}

/// Makes room for groups that are new; they begin with `value`.
pub fn grow(comptime T: type, gpa: std.mem.Allocator, list: *List(T), count: usize, value: T) error{OutOfMemory}!void {
    if (count > list.items.len) try list.appendNTimes(gpa, value, count - list.items.len);
}

pub const Counts = struct {
    counts: List(i64) = .empty,

    pub fn deinit(self: *Counts, gpa: std.mem.Allocator) void {
        self.counts.deinit(gpa);
    }

    pub fn memory_size(self: *const Counts) u64 {
        return self.counts.items.len * @sizeOf(i64);
    }

    pub fn reset(self: *Counts) void {
        self.counts.clearRetainingCapacity();
    }

    pub fn grow_to(self: *Counts, gpa: std.mem.Allocator, count: usize) error{OutOfMemory}!void {
        try grow(i64, gpa, &self.counts, count, 0);
    }

    pub fn update(self: *Counts, rows: *const Rows) void {
        grouped.count(self.counts.items, rows.groups);
    }

    pub fn update_all(self: *Counts, count: usize) void {
        self.counts.items[0] += @intCast(count);
    }
};

pub const Nulls = struct {
    /// Empty until the first NULL.
    counts: List(i64) = .empty,

    pub fn deinit(self: *Nulls, gpa: std.mem.Allocator) void {
        self.counts.deinit(gpa);
    }

    pub fn memory_size(self: *const Nulls) u64 {
        return self.counts.items.len * @sizeOf(i64);
    }

    pub fn reset(self: *Nulls) void {
        self.counts.clearRetainingCapacity();
    }

    pub fn of(self: *const Nulls, group: usize) i64 {
        return if (group < self.counts.items.len) self.counts.items[group] else 0;
    }

    pub fn update(
        self: *Nulls,
        gpa: std.mem.Allocator,
        column: *const Column,
        rows: *const Rows,
    ) error{OutOfMemory}!void {
        const is_null = column.type.tag == .null;
        if (!is_null and column.validity == null) return;
        try grow(i64, gpa, &self.counts, rows.group_count, 0);
        const counts = self.counts.items;
        if (is_null) return grouped.count(counts, rows.groups);
        const validity = column.validity.?;
        if (rows.rows) |chosen| {
            for (rows.groups, chosen) |group, row| counts[group] += @intFromBool(!bitmap.get(validity.ptr, row));
        } else for (rows.groups, 0..) |group, row| {
            if (!bitmap.get(validity.ptr, row)) counts[group] += 1;
        }
    }

    pub fn update_all(self: *Nulls, gpa: std.mem.Allocator, count: usize) error{OutOfMemory}!void {
        if (count == 0) return;
        try grow(i64, gpa, &self.counts, 1, 0);
        self.counts.items[0] += @intCast(count);
    }
};

/// How many values of a group were not NULL.
pub const Seen = struct {
    rows: *const Counts,
    nulls: ?*const Nulls,

    pub fn group_count(self: Seen) usize {
        return self.rows.counts.items.len;
    }

    pub inline fn count(self: Seen, group: usize) i64 {
        return self.rows.counts.items[group] - (if (self.nulls) |nulls| nulls.of(group) else 0);
    }

    /// Which groups have a value; null when all do.
    pub fn bits(self: Seen, arena: std.mem.Allocator) error{OutOfMemory}!?[]const u8 {
        const total = self.group_count();
        const found = try arena.alloc(u8, bitmap.size(total));
        @memset(found, 0);
        for (0..total) |group| if (self.count(group) != 0) bitmap.set(found.ptr, group);
        return if (bitmap.all_set(found, total)) null else found;
    }

    pub fn column(self: Seen, arena: std.mem.Allocator) error{OutOfMemory}!Column {
        const values = try arena.alignedAlloc(i64, .fromByteUnits(column_module.alignment), self.group_count());
        for (values, 0..) |*value, group| value.* = self.count(group);
        return .{ .type = .of(.i64), .row_count = @intCast(values.len), .data = std.mem.sliceAsBytes(values) };
    }
};

test "NULLs are counted from the first one on" {
    const gpa = std.testing.allocator;
    var rows: Counts = .{};
    defer rows.deinit(gpa);
    var nulls: Nulls = .{};
    defer nulls.deinit(gpa);
    const data: [3]i64 align(16) = .{ 1, 2, 3 };
    var column: Column = .{ .type = .of(.i64), .row_count = 3, .data = std.mem.sliceAsBytes(&data) };
    const chunk: Rows = .{ .rows = null, .groups = &.{ 0, 1, 1 }, .group_count = 2 };
    const seen: Seen = .{ .rows = &rows, .nulls = &nulls };
    try rows.grow_to(gpa, 2);
    rows.update(&chunk);
    try nulls.update(gpa, &column, &chunk);
    try std.testing.expectEqual(0, nulls.counts.items.len);
    column.validity = &.{0b010};
    rows.update(&chunk);
    try nulls.update(gpa, &column, &chunk);
    try std.testing.expectEqual(1, seen.count(0));
    try std.testing.expectEqual(3, seen.count(1));
    try rows.grow_to(gpa, 3);
    try std.testing.expectEqual(0, seen.count(2));
    var arena: Arena = .init(gpa);
    defer arena.deinit();
    try std.testing.expectEqual(0b011, (try seen.bits(arena.allocator())).?[0]);
}
