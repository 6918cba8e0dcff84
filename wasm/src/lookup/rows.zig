//! What accumulators are given: rows of a chunk with the group of each, and their values side by side.
//!
//! A grouped loop reads a group and a value per row. So that there is one such loop for each way to
//! accumulate and not one for every type, selection and NULL, values are first laid side by side as
//! int64, float64 or int128, with a neutral value in the place of NULL. A column that is this
//! already is taken as it lies.
const std = @import("std");
const bitmap = @import("../core/bitmap.zig");
const column_module = @import("../core/column.zig");
const schema = @import("../core/schema.zig");
const widen_half = @import("../kernel/cast.zig").widen_half;
const Arena = @import("../core/arena.zig").Arena;
const Column = column_module.Column;
const DataType = schema.DataType;
const Scalar = schema.Scalar;

pub const Rows = struct {
    /// The chunk's row of each; null: rows 0, 1, 2, …
    rows: ?[]const u32,
    groups: []const u32,
    /// Groups that there are so far.
    group_count: u32,

    pub fn count(self: *const Rows) usize {
        return self.groups.len;
    }

    /// The rows as numbers, also where they are all.
    pub fn indices(self: *const Rows, arena: std.mem.Allocator) error{OutOfMemory}![]const u32 {
        if (self.rows) |rows| return rows;
        const rows = try arena.alloc(u32, self.groups.len);
        for (rows, 0..) |*row, i| row.* = @intCast(i);
        return rows;
    }

    /// Those whose bit is set in both bitmaps over the chunk's rows.
    pub fn part(
        self: *const Rows,
        arena: std.mem.Allocator,
        bits: []const u8,
        and_bits: ?[]const u8,
    ) error{OutOfMemory}!Rows {
        const rows = try arena.alloc(u32, self.groups.len);
        const groups = try arena.alloc(u32, self.groups.len);
        var found: usize = 0;
        for (self.groups, 0..) |group, i| {
            const row: u32 = if (self.rows) |chosen| chosen[i] else @intCast(i);
            rows[found] = row;
            groups[found] = group;
            const wanted = bitmap.get(bits.ptr, row) and (and_bits == null or bitmap.get(and_bits.?.ptr, row));
            found += @intFromBool(wanted);
        }
        return .{ .rows = rows[0..found], .groups = groups[0..found], .group_count = self.group_count };
    }

    /// Those in which a column is not NULL.
    pub fn valid(self: *const Rows, arena: std.mem.Allocator, column: *const Column) error{OutOfMemory}!Rows {
        if (column.type.tag == .null) return .{ .rows = &.{}, .groups = &.{}, .group_count = self.group_count };
        return if (column.validity) |bits| self.part(arena, bits, null) else self.*;
    }
};

/// Integers of up to 64 bits (bools too). A u64 is what its bits are as an i64: callers look at them.
pub fn integers(
    arena: std.mem.Allocator,
    column: *const Column,
    rows: *const Rows,
    neutral: i64,
) error{OutOfMemory}![]const i64 {
    if (column.type.layout() == .i64 and rows.rows == null and column.validity == null) return column.values(i64);
    const values = try arena.alloc(i64, rows.count());
    switch (column.type.layout()) {
        .bits => for (values, 0..) |*value, i| {
            value.* = @intFromBool(bitmap.get(column.data.ptr, if (rows.rows) |chosen| chosen[i] else i));
        },
        inline .i8, .i16, .i32, .i64, .u8, .u16, .u32, .u64 => |layout| gather(
            Scalar(layout),
            i64,
            column,
            rows,
            values,
        ),
        else => unreachable, // aggregate_step.zig refuses them
    }
    settle_nulls(i64, values, column, rows, neutral);
    return values;
}

pub fn floats(
    arena: std.mem.Allocator,
    column: *const Column,
    rows: *const Rows,
    neutral: f64,
) error{OutOfMemory}![]const f64 {
    if (column.type.layout() == .f64 and rows.rows == null and column.validity == null) return column.values(f64);
    const values = try arena.alloc(f64, rows.count());
    switch (column.type.layout()) {
        inline .f16, .f32, .f64 => |layout| gather(Scalar(layout), f64, column, rows, values),
        else => unreachable,
    }
    settle_nulls(f64, values, column, rows, neutral);
    return values;
}

/// Integers of any width.
pub fn wide_integers(
    arena: std.mem.Allocator,
    column: *const Column,
    rows: *const Rows,
    neutral: i128,
) error{OutOfMemory}![]const i128 {
    if (column.type.layout() == .i128 and rows.rows == null and column.validity == null) return column.values(i128);
    const values = try arena.alloc(i128, rows.count());
    switch (column.type.layout()) {
        inline .u64, .i128 => |layout| gather(Scalar(layout), i128, column, rows, values),
        else => unreachable,
    }
    settle_nulls(i128, values, column, rows, neutral);
    return values;
}

fn gather(comptime From: type, comptime To: type, column: *const Column, rows: *const Rows, target: []To) void {
    const values = column.values(From);
    if (rows.rows) |chosen| {
        for (target, chosen) |*to, row| to.* = convert(From, To, values[row]);
    } else {
        for (target, values) |*to, value| to.* = convert(From, To, value);
    }
}

inline fn convert(comptime From: type, comptime To: type, value: From) To {
    if (From == f16) return widen_half(1, .{@as(u16, @bitCast(value))})[0];
    if (From == u64 and To == i64) return @bitCast(value);
    return value;
}

fn settle_nulls(comptime T: type, values: []T, column: *const Column, rows: *const Rows, neutral: T) void {
    const validity = column.validity orelse return;
    if (rows.rows) |chosen| {
        for (values, chosen) |*value, row| {
            if (!bitmap.get(validity.ptr, row)) value.* = neutral;
        }
    } else for (values, 0..) |*value, row| {
        if (!bitmap.get(validity.ptr, row)) value.* = neutral;
    }
}

/// The way back: a column of integers of up to 64 bits, or bools. What stands for NULL need not fit.
pub fn from_integers(
    arena: std.mem.Allocator,
    data_type: DataType,
    values: []align(column_module.alignment) const i64,
    validity: ?[]const u8,
) error{OutOfMemory}!Column {
    var column: Column = .{ .type = data_type, .row_count = @intCast(values.len), .validity = validity };
    switch (data_type.layout()) {
        .i64 => column.data = std.mem.sliceAsBytes(values),
        .bits => {
            const bits = try arena.alignedAlloc(u8, .fromByteUnits(column_module.alignment), bitmap.size(values.len));
            @memset(bits, 0);
            for (values, 0..) |value, row| if (value == 1) bitmap.set(bits.ptr, row);
            column.data = bits;
        },
        inline .i8, .i16, .i32, .u8, .u16, .u32, .u64 => |layout| {
            const T = Scalar(layout);
            const target = try arena.alignedAlloc(T, .fromByteUnits(column_module.alignment), values.len);
            for (target, values) |*to, from| to.* = @bitCast(@as(@Int(.signed, @bitSizeOf(T)), @truncate(from)));
            column.data = std.mem.sliceAsBytes(target);
        },
        else => unreachable,
    }
    return column;
}

pub fn from_floats(
    arena: std.mem.Allocator,
    data_type: DataType,
    values: []align(column_module.alignment) const f64,
    validity: ?[]const u8,
) error{OutOfMemory}!Column {
    var column: Column = .{ .type = data_type, .row_count = @intCast(values.len), .validity = validity };
    switch (data_type.layout()) {
        .f64 => column.data = std.mem.sliceAsBytes(values),
        inline .f16, .f32 => |layout| {
            const target = try arena.alignedAlloc(Scalar(layout), .fromByteUnits(column_module.alignment), values.len);
            for (target, values) |*to, from| to.* = @floatCast(from);
            column.data = std.mem.sliceAsBytes(target);
        },
        else => unreachable,
    }
    return column;
}

test "values side by side, with and without a choice of rows" {
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    const narrow: [4]i16 align(16) = .{ -1, 2, 300, 4 };
    var column: Column = .{ .type = .of(.i16), .row_count = 4, .data = std.mem.sliceAsBytes(&narrow) };
    const all: Rows = .{ .rows = null, .groups = &.{ 0, 0, 1, 0 }, .group_count = 2 };
    const some: Rows = .{ .rows = &.{ 0, 2 }, .groups = &.{ 0, 1 }, .group_count = 2 };
    try std.testing.expectEqualSlices(i64, &.{ -1, 2, 300, 4 }, try integers(arena.allocator(), &column, &all, 0));
    try std.testing.expectEqualSlices(i64, &.{ -1, 300 }, try integers(arena.allocator(), &column, &some, 0));
    column.validity = &.{0b1011};
    try std.testing.expectEqualSlices(i64, &.{ -1, 2, 9, 4 }, try integers(arena.allocator(), &column, &all, 9));
    try std.testing.expectEqualSlices(i64, &.{ -1, 9 }, try integers(arena.allocator(), &column, &some, 9));
    const left = try all.valid(arena.allocator(), &column);
    try std.testing.expectEqualSlices(u32, &.{ 0, 1, 3 }, left.rows.?);
    try std.testing.expectEqualSlices(u32, &.{ 0, 0, 0 }, left.groups);
}
