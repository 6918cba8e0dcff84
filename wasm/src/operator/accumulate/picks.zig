//! first, last and any_value: one row's value of every group, of any type.
//!
//! Values are copied into a column of their own, whose row 0 is NULL and stands for "none yet". A last
//! value takes the place of its forerunner only by number, so the column is rewritten when most of it
//! has been replaced.
const std = @import("std");
const bitmap = @import("../../core/bitmap.zig");
const column_module = @import("../../core/column.zig");
const counts_module = @import("counts.zig");
const schema = @import("../../core/schema.zig");
const Arena = @import("../../core/arena.zig").Arena;
const Column = column_module.Column;
const ColumnBuilder = @import("../../core/column_builder.zig").ColumnBuilder;
const List = counts_module.List;
const Rows = @import("../../lookup/rows.zig").Rows;

pub const Error = error{ OutOfMemory, TooLarge };

pub const Which = enum { first, last, any };

/// Replaced values are let go when there are this many, and more than values in use.
const rewrite_rows = 1 << 16;

pub const Picks = struct {
    gpa: std.mem.Allocator,
    which: Which,
    values: ColumnBuilder,
    /// Every group's row of `values`.
    places: List(u32) = .empty,

    pub fn init(gpa: std.mem.Allocator, which: Which, data_type: schema.DataType) Error!Picks {
        var values: ColumnBuilder = try .init(gpa, data_type);
        errdefer values.deinit();
        try values.append_nulls(1);
        return .{ .gpa = gpa, .which = which, .values = values };
    }

    pub fn deinit(self: *Picks, gpa: std.mem.Allocator) void {
        self.values.deinit();
        self.places.deinit(gpa);
    }

    pub fn memory_size(self: *const Picks) u64 {
        return self.values.memory_size() + self.places.items.len * @sizeOf(u32);
    }

    pub fn reset(self: *Picks) Error!void {
        self.values.reset();
        try self.values.append_nulls(1);
        self.places.clearRetainingCapacity();
    }

    pub fn grow_to(self: *Picks, gpa: std.mem.Allocator, count: usize) Error!void {
        try counts_module.grow(u32, gpa, &self.places, count, 0);
    }

    /// `any` is given rows whose value is not NULL.
    pub fn update(self: *Picks, arena: std.mem.Allocator, column: *const Column, rows: *const Rows) Error!void {
        if (self.values.row_count > std.math.maxInt(u32) - rows.count()) return error.TooLarge;
        const is_last = self.which == .last;
        const chosen = if (is_last) try self.choose_last(arena, rows) else try self.choose_first(arena, rows);
        try self.values.append_indices(column, chosen);
        const used = self.places.items.len;
        if (self.values.row_count > rewrite_rows and self.values.row_count / 2 > used) try self.rewrite(arena);
    }

    fn choose_first(self: *Picks, arena: std.mem.Allocator, rows: *const Rows) Error![]const u32 {
        var chosen: std.ArrayList(u32) = .empty;
        const places = self.places.items;
        for (rows.groups, 0..) |group, i| {
            if (places[group] != 0) continue;
            places[group] = @intCast(self.values.row_count + chosen.items.len);
            try chosen.append(arena, if (rows.rows) |picked| picked[i] else @intCast(i));
        }
        return chosen.items;
    }

    /// From behind: the first row of a group that turns up is its last.
    fn choose_last(self: *Picks, arena: std.mem.Allocator, rows: *const Rows) Error![]const u32 {
        var chosen: std.ArrayList(u32) = .empty;
        const places = self.places.items;
        const before = self.values.row_count;
        var i = rows.groups.len;
        while (i > 0) {
            i -= 1;
            const place = &places[rows.groups[i]];
            if (place.* >= before) continue;
            place.* = @intCast(before + chosen.items.len);
            try chosen.append(arena, if (rows.rows) |picked| picked[i] else @intCast(i));
        }
        return chosen.items;
    }

    /// Keeps the values that groups still point at.
    fn rewrite(self: *Picks, arena: std.mem.Allocator) Error!void {
        var kept: ColumnBuilder = try .init(self.gpa, self.values.type);
        errdefer kept.deinit();
        const old = try self.values.finish(arena);
        try kept.append_nulls(1);
        try kept.append_indices(&old, self.places.items);
        self.values.deinit();
        self.values = kept;
        // A group without a value now points at a NULL of its own, which says otherwise: back to 0.
        for (self.places.items, 1..) |*place, row| place.* = if (place.* == 0) 0 else @intCast(row);
    }

    /// In memory of `arena`.
    pub fn results(self: *const Picks, arena: std.mem.Allocator) Error!Column {
        var builder: ColumnBuilder = try .init(arena, self.values.type);
        const values = try self.values.finish(arena);
        try builder.append_indices(&values, self.places.items);
        return builder.finish(arena);
    }

    /// Which groups have had a row.
    pub fn present(self: *const Picks, arena: std.mem.Allocator) Error!Column {
        const bits = try arena.alignedAlloc(
            u8,
            .fromByteUnits(column_module.alignment),
            bitmap.size(self.places.items.len),
        );
        @memset(bits, 0);
        for (self.places.items, 0..) |place, group| if (place != 0) bitmap.set(bits.ptr, group);
        return .{ .type = .of(.bool), .row_count = @intCast(self.places.items.len), .data = bits };
    }
};

test "first and last of texts, with NULLs and over chunks" {
    const gpa = std.testing.allocator;
    var arena: Arena = .init(gpa);
    defer arena.deinit();
    const text: [4]u8 align(16) = "abcd".*;
    const column: Column = .{
        .type = .of(.utf8),
        .row_count = 4,
        .validity = &.{0b1011},
        .data = &text,
        .offsets = &.{ 0, 1, 2, 3, 4 },
    };
    var first: Picks = try .init(gpa, .first, .of(.utf8));
    defer first.deinit(gpa);
    var last: Picks = try .init(gpa, .last, .of(.utf8));
    defer last.deinit(gpa);
    for ([_]*Picks{ &first, &last }) |picks| {
        try picks.grow_to(gpa, 3);
        try picks.update(
            arena.allocator(),
            &column,
            &.{ .rows = &.{ 2, 0, 1 }, .groups = &.{ 0, 0, 1 }, .group_count = 3 },
        );
        try picks.update(arena.allocator(), &column, &.{ .rows = &.{ 3, 2 }, .groups = &.{ 1, 1 }, .group_count = 3 });
    }
    const begun = try first.results(arena.allocator());
    try std.testing.expectEqual(0b010, begun.validity.?[0] & 7);
    try std.testing.expectEqualStrings("b", begun.bytes_at(1));
    try std.testing.expectEqual(0b011, (try first.present(arena.allocator())).data[0]);
    try last.rewrite(arena.allocator());
    const ended = try last.results(arena.allocator());
    try std.testing.expectEqual(0b001, ended.validity.?[0] & 7);
    try std.testing.expectEqualStrings("a", ended.bytes_at(0));
    try std.testing.expectEqual(0b011, (try last.present(arena.allocator())).data[0]);
}
