//! Sums of every group: exact ones of integers and decimals, float64 ones of floats.
//!
//! Integers are added in 64 bits for as long as a bound says that no total can leave them: the largest
//! magnitude of each chunk times its rows. When it could, all totals become 128 bits wide, once, in which
//! 64-bit values cannot overflow. Values of 128 bits are checked.
const std = @import("std");
const bitmap = @import("../../core/bitmap.zig");
const column_module = @import("../../core/column.zig");
const counts_module = @import("counts.zig");
const grouped = @import("../../kernel/grouped.zig");
const interrupt = @import("../../core/interrupt.zig");
const reduce = @import("../../kernel/reduce.zig");
const rows_module = @import("../../lookup/rows.zig");
const schema = @import("../../core/schema.zig");
const Arena = @import("../../core/arena.zig").Arena;
const Column = column_module.Column;
const List = counts_module.List;
const Rows = rows_module.Rows;
const Scalar = schema.Scalar;
const grow = counts_module.grow;

pub const Error = error{ OutOfMemory, OutOfRange };

pub const IntegerSums = struct {
    /// Either of the two has the totals.
    narrow: List(i64) = .empty,
    wide: List(i128) = .empty,
    is_wide: bool = false,
    /// No total is beyond it.
    bound: u64 = 0,

    pub fn deinit(self: *IntegerSums, gpa: std.mem.Allocator) void {
        self.narrow.deinit(gpa);
        self.wide.deinit(gpa);
    }

    pub fn memory_size(self: *const IntegerSums) u64 {
        return self.narrow.items.len * @sizeOf(i64) + self.wide.items.len * @sizeOf(i128);
    }

    pub fn reset(self: *IntegerSums) void {
        self.narrow.clearRetainingCapacity();
        self.wide.clearRetainingCapacity();
        self.is_wide = false;
        self.bound = 0;
    }

    pub fn grow_to(self: *IntegerSums, gpa: std.mem.Allocator, count: usize) Error!void {
        if (self.is_wide) try grow(i128, gpa, &self.wide, count, 0) else try grow(i64, gpa, &self.narrow, count, 0);
    }

    fn widen(self: *IntegerSums, gpa: std.mem.Allocator) Error!void {
        if (self.is_wide) return;
        const wide = try self.wide.addManyAsSlice(gpa, self.narrow.items.len);
        for (wide, self.narrow.items) |*to, from| to.* = from;
        self.narrow.clearAndFree(gpa);
        self.is_wide = true;
    }

    pub fn update(
        self: *IntegerSums,
        gpa: std.mem.Allocator,
        arena: std.mem.Allocator,
        column: *const Column,
        rows: *const Rows,
    ) Error!void {
        if (column.type.layout() == .i128) return self.update_wide(gpa, arena, column, rows);
        const values = try rows_module.integers(arena, column, rows, 0);
        // A u64 that an i64 cannot hold looks like a negative number.
        if (column.type.layout() == .u64 and any_negative(values)) return self.update_wide(gpa, arena, column, rows);
        if (!self.is_wide) {
            const most = std.math.add(u64, grouped.magnitude(values), 1) catch unreachable;
            const added = std.math.mul(u64, most, values.len) catch std.math.maxInt(u64);
            self.bound +|= added;
            if (self.bound > std.math.maxInt(i64)) try self.widen(gpa);
        }
        if (self.is_wide) {
            grouped.add_wide(self.wide.items, rows.groups, values);
        } else {
            grouped.add(i64, self.narrow.items, rows.groups, values);
        }
    }

    fn update_wide(
        self: *IntegerSums,
        gpa: std.mem.Allocator,
        arena: std.mem.Allocator,
        column: *const Column,
        rows: *const Rows,
    ) Error!void {
        const values = try rows_module.wide_integers(arena, column, rows, 0);
        try self.widen(gpa);
        if (!grouped.add_checked(self.wide.items, rows.groups, values)) return beyond();
    }

    /// One group: `mask` has the rows that count, null is all.
    pub fn update_all(self: *IntegerSums, gpa: std.mem.Allocator, column: *const Column, mask: ?[]const u8) Error!void {
        try self.widen(gpa);
        const total = &self.wide.items[0];
        const added: i128 = switch (column.type.layout()) {
            .i128 => reduce.sum_i128(column.values(i128), mask) catch return beyond(),
            inline .i8, .i16, .i32, .i64, .u8, .u16, .u32, .u64 => |layout| blk: {
                const T = Scalar(layout);
                break :blk reduce.sum_integer(T, column.values(T), mask);
            },
            .bits => count_true(column, mask),
            else => unreachable, // aggregate_step.zig refuses them
        };
        const sum, const overflow = @addWithOverflow(total.*, added);
        if (overflow != 0) return beyond();
        total.* = sum;
    }

    pub fn totals(
        self: *const IntegerSums,
        arena: std.mem.Allocator,
    ) Error![]align(column_module.alignment) const i128 {
        if (self.is_wide) return self.wide.items;
        const values = try arena.alignedAlloc(i128, .fromByteUnits(column_module.alignment), self.narrow.items.len);
        for (values, self.narrow.items) |*to, from| to.* = from;
        return values;
    }
};

fn beyond() error{OutOfRange} {
    interrupt.describe("a sum does not fit 128 bits", .{});
    return error.OutOfRange;
}

fn any_negative(values: []const i64) bool {
    var all: i64 = 0;
    for (values) |value| all |= value;
    return all < 0;
}

fn count_true(column: *const Column, mask: ?[]const u8) usize {
    const bits = mask orelse return bitmap.count(column.data, column.row_count);
    var total: usize = 0;
    for (0..column.row_count) |row| {
        total += @intFromBool(bitmap.get(bits.ptr, row) and bitmap.get(column.data.ptr, row));
    }
    return total;
}

pub const FloatSums = struct {
    totals: List(f64) = .empty,
    /// One after the other, as rows come; else several at once, in an order that depends on their number alone.
    in_order: bool = false,

    pub fn deinit(self: *FloatSums, gpa: std.mem.Allocator) void {
        self.totals.deinit(gpa);
    }

    pub fn memory_size(self: *const FloatSums) u64 {
        return self.totals.items.len * @sizeOf(f64);
    }

    pub fn reset(self: *FloatSums) void {
        self.totals.clearRetainingCapacity();
    }

    pub fn grow_to(self: *FloatSums, gpa: std.mem.Allocator, count: usize) Error!void {
        try grow(f64, gpa, &self.totals, count, 0);
    }

    pub fn update(self: *FloatSums, arena: std.mem.Allocator, column: *const Column, rows: *const Rows) Error!void {
        const values = try rows_module.floats(arena, column, rows, 0);
        if (!self.in_order) return grouped.add(f64, self.totals.items, rows.groups, values);
        for (rows.groups, values) |group, value| self.totals.items[group] += value;
    }

    pub fn update_all(self: *FloatSums, column: *const Column, mask: ?[]const u8) void {
        if (self.in_order) return self.update_all_in_order(column, mask);
        self.totals.items[0] += switch (column.type.layout()) {
            inline .f16, .f32, .f64 => |layout| blk: {
                const T = Scalar(layout);
                break :blk reduce.sum_float(T, column.values(T), mask);
            },
            else => unreachable,
        };
    }

    fn update_all_in_order(self: *FloatSums, column: *const Column, mask: ?[]const u8) void {
        const total = &self.totals.items[0];
        switch (column.type.layout()) {
            inline .f16, .f32, .f64 => |layout| for (column.values(Scalar(layout)), 0..) |value, row| {
                if (mask == null or bitmap.get(mask.?.ptr, row)) total.* += value;
            },
            else => unreachable,
        }
    }
};

test "floats are added in order where that is asked" {
    const gpa = std.testing.allocator;
    var arena: Arena = .init(gpa);
    defer arena.deinit();
    const values: [4]f64 align(16) = .{ 1, 3, 1e100, -1e100 };
    const column: Column = .{ .type = .of(.f64), .row_count = 4, .data = std.mem.sliceAsBytes(&values) };
    var sums: FloatSums = .{ .in_order = true };
    defer sums.deinit(gpa);
    try sums.grow_to(gpa, 2);
    sums.update_all(&column, null);
    try std.testing.expectEqual(0, sums.totals.items[0]);
    sums.update_all(&column, &.{0b0011});
    try std.testing.expectEqual(4, sums.totals.items[0]);
    try sums.update(arena.allocator(), &column, &.{ .rows = null, .groups = &.{ 1, 1, 1, 1 }, .group_count = 2 });
    try std.testing.expectEqual(0, sums.totals.items[1]);
}

test "totals become wide in time" {
    const gpa = std.testing.allocator;
    var arena: Arena = .init(gpa);
    defer arena.deinit();
    var sums: IntegerSums = .{};
    defer sums.deinit(gpa);
    const rows: Rows = .{ .rows = null, .groups = &.{ 0, 1, 1, 0 }, .group_count = 2 };
    try sums.grow_to(gpa, 2);
    const small: [4]i64 align(16) = .{ 1, -2, 3, 4 };
    const large: [4]i64 align(16) = .{
        std.math.maxInt(i64),
        std.math.minInt(i64),
        std.math.minInt(i64),
        std.math.maxInt(i64),
    };
    try sums.update(
        gpa,
        arena.allocator(),
        &.{ .type = .of(.i64), .row_count = 4, .data = std.mem.sliceAsBytes(&small) },
        &rows,
    );
    try std.testing.expect(!sums.is_wide);
    try sums.update(
        gpa,
        arena.allocator(),
        &.{ .type = .of(.i64), .row_count = 4, .data = std.mem.sliceAsBytes(&large) },
        &rows,
    );
    try std.testing.expect(sums.is_wide);
    const unsigned: [4]u64 align(16) = @splat(std.math.maxInt(u64));
    try sums.update(
        gpa,
        arena.allocator(),
        &.{ .type = .of(.u64), .row_count = 4, .data = std.mem.sliceAsBytes(&unsigned) },
        &rows,
    );
    const power: i128 = 1 << 64;
    try std.testing.expectEqualSlices(
        i128,
        &.{ 5 + power - 2 + 2 * (power - 1), 1 - power + 2 * (power - 1) },
        try sums.totals(arena.allocator()),
    );
    const huge: [4]i128 align(16) = @splat(std.math.maxInt(i128));
    const column: Column = .{ .type = .of(.i128), .row_count = 4, .data = std.mem.sliceAsBytes(&huge) };
    try std.testing.expectError(error.OutOfRange, sums.update(gpa, arena.allocator(), &column, &rows));
    interrupt.forget();
}
