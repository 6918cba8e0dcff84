//! All values of every group: what medians, percentiles and string_agg are made of when the input ends.
//!
//! Values are appended as they come, with the number of their group beside them. In the end a counting
//! sort by group brings each group's values together, in the order they came.
const std = @import("std");
const bitmap = @import("../../core/bitmap.zig");
const column_module = @import("../../core/column.zig");
const interrupt = @import("../../core/interrupt.zig");
const schema = @import("../../core/schema.zig");
const Arena = @import("../../core/arena.zig").Arena;
const Column = column_module.Column;
const ColumnBuilder = @import("../../core/column_builder.zig").ColumnBuilder;
const Rows = @import("../../lookup/rows.zig").Rows;

pub const Error = error{ Cancelled, OutOfMemory, TooLarge };

pub const Collected = struct {
    values: ColumnBuilder,
    groups: std.ArrayList(u32) = .empty,
    group_count: u32 = 0,

    pub fn init(gpa: std.mem.Allocator, data_type: schema.DataType) Error!Collected {
        return .{ .values = try .init(gpa, data_type) };
    }

    pub fn deinit(self: *Collected, gpa: std.mem.Allocator) void {
        self.values.deinit();
        self.groups.deinit(gpa);
    }

    pub fn memory_size(self: *const Collected) u64 {
        return self.values.memory_size() + self.groups.items.len * @sizeOf(u32);
    }

    pub fn reset(self: *Collected) void {
        self.values.reset();
        self.groups.clearRetainingCapacity();
        self.group_count = 0;
    }

    pub fn grow_to(self: *Collected, count: usize) void {
        self.group_count = @intCast(count);
    }

    /// Rows whose value is not NULL.
    pub fn update(self: *Collected, gpa: std.mem.Allocator, column: *const Column, rows: *const Rows) Error!void {
        var plain = column.*;
        plain.validity = null;
        if (rows.rows) |chosen| {
            try self.values.append_indices(&plain, chosen);
        } else {
            try self.values.append_range(&plain, 0, column.row_count);
        }
        try self.groups.appendSlice(gpa, rows.groups);
    }

    /// Rows of `values` group by group, and where each group's begin (and the last one's end).
    pub const Order = struct { rows: []const u32, starts: []const u32 };

    pub fn order(self: *const Collected, arena: std.mem.Allocator) Error!Order {
        const starts = try arena.alloc(u32, self.group_count + 2);
        @memset(starts, 0);
        // Counted two places ahead: while rows are laid out, starts[group + 1] moves from a group's
        // beginning to its end, which is the next one's beginning.
        for (self.groups.items) |group| starts[group + 2] += 1;
        for (2..starts.len) |i| starts[i] += starts[i - 1];
        const rows = try arena.alloc(u32, self.groups.items.len);
        for (self.groups.items, 0..) |group, row| {
            if (row % interrupt.block_rows == 0) try interrupt.check();
            rows[starts[group + 1]] = @intCast(row);
            starts[group + 1] += 1;
        }
        return .{ .rows = rows, .starts = starts[0 .. self.group_count + 1] };
    }

    /// The texts of each group with `separator` between them. NULL where there is none, and
    /// everywhere when the separator is NULL.
    pub fn joined(self: *const Collected, arena: std.mem.Allocator, separator: ?[]const u8) Error!Column {
        const by_group = try self.order(arena);
        const texts = try self.values.finish(arena);
        const between = separator orelse "";
        const size = joined_size(by_group, texts.data.len, between.len);
        if (size > std.math.maxInt(u32)) return error.TooLarge;
        const data = try arena.alignedAlloc(u8, .fromByteUnits(column_module.alignment), @intCast(size));
        const offsets = try arena.alloc(u32, self.group_count + 1);
        const bits = try arena.alloc(u8, bitmap.size(self.group_count));
        @memset(bits, 0);
        var position: usize = 0;
        for (0..self.group_count) |group| {
            offsets[group] = @intCast(position);
            const rows = by_group.rows[by_group.starts[group]..by_group.starts[group + 1]];
            position += try join(data[position..], &texts, rows, between);
            if (rows.len > 0 and separator != null) bitmap.set(bits.ptr, group);
        }
        offsets[self.group_count] = @intCast(position);
        return .{
            .type = self.values.type,
            .row_count = self.group_count,
            .validity = bits,
            .data = data,
            .offsets = offsets,
        };
    }
};

/// Writes the texts to the front of `target`; returns how many bytes they took.
fn join(target: []u8, texts: *const Column, rows: []const u32, between: []const u8) Error!usize {
    var position: usize = 0;
    for (rows, 0..) |row, i| {
        if (i % 1024 == 0) try interrupt.check();
        if (i > 0) {
            @memcpy(target[position..][0..between.len], between);
            position += between.len;
        }
        const text = texts.bytes_at(row);
        @memcpy(target[position..][0..text.len], text);
        position += text.len;
    }
    return position;
}

fn joined_size(order: Collected.Order, text_size: usize, separator_size: usize) u64 {
    var size: u64 = text_size;
    for (order.starts[0 .. order.starts.len - 1], order.starts[1..]) |start, end| {
        size += @as(u64, end - start -| 1) * separator_size;
    }
    return size;
}

test "values of groups come together in their order" {
    const gpa = std.testing.allocator;
    var arena: Arena = .init(gpa);
    defer arena.deinit();
    var collected: Collected = try .init(gpa, .of(.utf8));
    defer collected.deinit(gpa);
    const text: [5]u8 align(16) = "abcde".*;
    const column: Column = .{ .type = .of(.utf8), .row_count = 5, .data = &text, .offsets = &.{ 0, 1, 2, 3, 3, 5 } };
    try collected.update(gpa, &column, &.{ .rows = null, .groups = &.{ 2, 0, 2, 2, 0 }, .group_count = 3 });
    collected.grow_to(4);
    try collected.update(gpa, &column, &.{ .rows = &.{1}, .groups = &.{2}, .group_count = 4 });
    const order = try collected.order(arena.allocator());
    try std.testing.expectEqualSlices(u32, &.{ 1, 4, 0, 2, 3, 5 }, order.rows);
    try std.testing.expectEqualSlices(u32, &.{ 0, 2, 2, 6, 6 }, order.starts);
    const joined = try collected.joined(arena.allocator(), ", ");
    try std.testing.expectEqual(0b0101, joined.validity.?[0]);
    try std.testing.expectEqualStrings("b, de", joined.bytes_at(0));
    try std.testing.expectEqualStrings("a, c, , b", joined.bytes_at(2));
    const nothing = try collected.joined(arena.allocator(), null);
    try std.testing.expectEqual(0, nothing.validity.?[0]);
}
