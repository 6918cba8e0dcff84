//! The least or greatest value of every group; bool_and and bool_or are those of bools.
//!
//! Numbers are kept as int64, float64 or int128, in which their order is the same, with a neutral value
//! to begin with. Bytes are kept as copies, intervals and other values of fixed size as they are; those
//! say themselves whether there is one. Which groups have a value at all is counted elsewhere.
const std = @import("std");
const bitmap = @import("../../core/bitmap.zig");
const column_module = @import("../../core/column.zig");
const counts_module = @import("counts.zig");
const grouped = @import("../../kernel/grouped.zig");
const interval_module = @import("../../core/interval.zig");
const interrupt = @import("../../core/interrupt.zig");
const reduce = @import("../../kernel/reduce.zig");
const rows_module = @import("../../lookup/rows.zig");
const schema = @import("../../core/schema.zig");
const Arena = @import("../../core/arena.zig").Arena;
const Column = column_module.Column;
const DataType = schema.DataType;
const Interval = interval_module.Interval;
const List = counts_module.List;
const Rows = rows_module.Rows;
const Scalar = schema.Scalar;
const Span = interval_module.Span;
const Which = grouped.Which;
const grow = counts_module.grow;

pub const Error = error{ Cancelled, OutOfMemory, TooLarge };

/// A copy with room to spare, so that most values that replace it take its place.
const Text = struct {
    buffer: []u8 = &.{},
    size: u32 = none,

    /// No value yet. No text is as long.
    const none = std.math.maxInt(u32);

    fn bytes(self: Text) []const u8 {
        return self.buffer[0..if (self.size == none) 0 else self.size];
    }
};

const Family = enum { integers, floats, wide, bytes, fixed };

fn family_of(data_type: DataType) Family {
    return switch (data_type.layout()) {
        .bits, .i8, .i16, .i32, .i64, .u8, .u16, .u32, .u64 => .integers,
        .f16, .f32, .f64 => .floats,
        .i128 => .wide,
        .bytes => .bytes,
        .fixed => .fixed,
        .none, .list, .structure => unreachable, // aggregate_step.zig refuses them
    };
}

pub const Extremes = struct {
    which: Which,
    type: DataType,
    family: Family,
    integers: List(i64) = .empty,
    floats: List(f64) = .empty,
    wide: List(i128) = .empty,
    texts: List(Text) = .empty,
    text_arena: Arena,
    /// Values of fixed size, one behind the other, and whether there is one.
    values: List(u8) = .empty,
    present: List(bool) = .empty,

    pub fn init(gpa: std.mem.Allocator, which: Which, data_type: DataType) Extremes {
        return .{ .which = which, .type = data_type, .family = family_of(data_type), .text_arena = .init(gpa) };
    }

    pub fn deinit(self: *Extremes, gpa: std.mem.Allocator) void {
        self.integers.deinit(gpa);
        self.floats.deinit(gpa);
        self.wide.deinit(gpa);
        self.texts.deinit(gpa);
        self.text_arena.deinit();
        self.values.deinit(gpa);
        self.present.deinit(gpa);
    }

    pub fn memory_size(self: *const Extremes) u64 {
        var total: u64 = self.text_arena.capacity() + self.values.items.len + self.present.items.len;
        total += self.integers.items.len * @sizeOf(i64) + self.floats.items.len * @sizeOf(f64);
        return total + self.wide.items.len * @sizeOf(i128) + self.texts.items.len * @sizeOf(Text);
    }

    pub fn reset(self: *Extremes) void {
        self.integers.clearRetainingCapacity();
        self.floats.clearRetainingCapacity();
        self.wide.clearRetainingCapacity();
        self.texts.clearRetainingCapacity();
        _ = self.text_arena.reset(.retain_capacity);
        self.values.clearRetainingCapacity();
        self.present.clearRetainingCapacity();
    }

    pub fn grow_to(self: *Extremes, gpa: std.mem.Allocator, count: usize) Error!void {
        switch (self.family) {
            .integers => try grow(i64, gpa, &self.integers, count, self.neutral(i64)),
            .floats => try grow(f64, gpa, &self.floats, count, self.neutral(f64)),
            .wide => try grow(i128, gpa, &self.wide, count, self.neutral(i128)),
            .bytes => try grow(Text, gpa, &self.texts, count, .{}),
            .fixed => {
                const size = std.math.mul(usize, count, @intCast(self.type.value_size())) catch return error.TooLarge;
                try grow(u8, gpa, &self.values, size, 0);
                try grow(bool, gpa, &self.present, count, false);
            },
        }
    }

    /// What every value takes the place of.
    fn neutral(self: *const Extremes, comptime T: type) T {
        if (T == f64) return if (self.which == .min) std.math.nan(f64) else -std.math.inf(f64);
        return if (self.which == .min) std.math.maxInt(T) else std.math.minInt(T);
    }

    pub fn update(self: *Extremes, arena: std.mem.Allocator, column: *const Column, rows: *const Rows) Error!void {
        switch (self.which) {
            inline else => |which| try self.update_groups(which, arena, column, rows),
        }
    }

    fn update_groups(
        self: *Extremes,
        comptime which: Which,
        arena: std.mem.Allocator,
        column: *const Column,
        rows: *const Rows,
    ) Error!void {
        switch (self.family) {
            .integers => grouped.extreme(i64, which, self.integers.items, rows.groups, try self.ordered(
                arena,
                column,
                rows,
            )),
            .floats => {
                const values = try rows_module.floats(arena, column, rows, self.neutral(f64));
                grouped.extreme(f64, which, self.floats.items, rows.groups, values);
            },
            .wide => {
                const values = try rows_module.wide_integers(arena, column, rows, self.neutral(i128));
                grouped.extreme(i128, which, self.wide.items, rows.groups, values);
            },
            .bytes => {
                const valid = try rows.valid(arena, column);
                for (valid.groups, try valid.indices(arena), 0..) |group, row, i| {
                    if (i % 1024 == 0) try interrupt.check();
                    try self.offer_bytes(which, group, column.bytes_at(row));
                }
            },
            .fixed => {
                const valid = try rows.valid(arena, column);
                for (valid.groups, try valid.indices(arena)) |group, row| self.offer_fixed(which, group, column, row);
            },
        }
    }

    /// Integers in an order that is theirs: the sign of a u64 is turned.
    fn ordered(
        self: *const Extremes,
        arena: std.mem.Allocator,
        column: *const Column,
        rows: *const Rows,
    ) Error![]const i64 {
        if (column.type.layout() != .u64) return rows_module.integers(arena, column, rows, self.neutral(i64));
        const values = try rows_module.integers(arena, column, rows, turn(self.neutral(i64)));
        const turned = try arena.alloc(i64, values.len);
        for (turned, values) |*to, from| to.* = turn(from);
        return turned;
    }

    /// One group: `mask` has the rows that count, of which there is at least one.
    pub fn update_all(self: *Extremes, column: *const Column, mask: ?[]const u8) Error!void {
        switch (self.which) {
            inline else => |which| try self.reduce_all(which, column, mask),
        }
    }

    fn reduce_all(self: *Extremes, comptime which: Which, column: *const Column, mask: ?[]const u8) Error!void {
        const count = column.row_count;
        const first = [_]u32{0};
        switch (column.type.layout()) {
            .bytes => {
                const row = (if (which == .min)
                    reduce.min_bytes(column.offsets, column.data, mask, count)
                else
                    reduce.max_bytes(column.offsets, column.data, mask, count)).?;
                try self.offer_bytes(which, 0, column.bytes_at(row));
            },
            .bits => {
                const value = (if (which == .min)
                    reduce.min_bits(column.data, mask, count)
                else
                    reduce.max_bits(column.data, mask, count)).?;
                grouped.extreme(i64, which, self.integers.items, &first, &.{@intFromBool(value)});
            },
            .fixed => for (0..count) |row| {
                if (row % 1024 == 0) try interrupt.check();
                if (mask == null or bitmap.get(mask.?.ptr, row)) self.offer_fixed(which, 0, column, row);
            },
            .none, .list, .structure => unreachable,
            inline else => |layout| {
                const T = Scalar(layout);
                const value = (if (which == .min)
                    reduce.min(T, column.values(T), mask)
                else
                    reduce.max(T, column.values(T), mask)).?;
                switch (T) {
                    f16, f32, f64 => grouped.extreme(f64, which, self.floats.items, &first, &.{value}),
                    i128 => grouped.extreme(i128, which, self.wide.items, &first, &.{value}),
                    u64 => grouped.extreme(i64, which, self.integers.items, &first, &.{turn(@bitCast(value))}),
                    else => grouped.extreme(i64, which, self.integers.items, &first, &.{value}),
                }
            },
        }
    }

    fn offer_bytes(self: *Extremes, comptime which: Which, group: usize, value: []const u8) Error!void {
        const text = &self.texts.items[group];
        if (text.size != Text.none and !replaces(which, std.mem.order(u8, value, text.bytes()))) return;
        if (value.len > text.buffer.len) {
            // Doubling bounds what abandoned buffers waste by what the last one holds.
            const size = @max(16, std.math.ceilPowerOfTwo(usize, value.len) catch return error.TooLarge);
            text.buffer = try self.text_arena.allocator().alloc(u8, size);
        }
        @memcpy(text.buffer[0..value.len], value);
        text.size = @intCast(value.len);
    }

    fn offer_fixed(self: *Extremes, comptime which: Which, group: usize, column: *const Column, row: usize) void {
        const size: usize = @intCast(self.type.value_size());
        const value = column.data[row * size ..][0..size];
        const current = self.values.items[group * size ..][0..size];
        if (self.present.items[group] and !replaces(which, self.order_fixed(value, current))) return;
        @memcpy(current, value);
        self.present.items[group] = true;
    }

    fn order_fixed(self: *const Extremes, a: []const u8, b: []const u8) std.math.Order {
        if (self.type.tag != .interval) return std.mem.order(u8, a, b);
        const x: Span = .of(std.mem.bytesToValue(Interval, a));
        const y: Span = .of(std.mem.bytesToValue(Interval, b));
        if (x.equal(y)) return .eq;
        return if (x.less(y)) .lt else .gt;
    }

    /// The values of all groups; what a group without one has is unspecified.
    pub fn results(self: *const Extremes, arena: std.mem.Allocator, validity: ?[]const u8) Error!Column {
        return switch (self.family) {
            .integers => rows_module.from_integers(arena, self.type, try self.turned_back(arena), validity),
            .floats => rows_module.from_floats(arena, self.type, self.floats.items, validity),
            .wide => .{
                .type = self.type,
                .row_count = @intCast(self.wide.items.len),
                .validity = validity,
                .data = std.mem.sliceAsBytes(self.wide.items),
            },
            .bytes => self.texts_column(arena, validity),
            .fixed => .{
                .type = self.type,
                .row_count = @intCast(self.present.items.len),
                .validity = validity,
                .data = self.values.items,
            },
        };
    }

    fn turned_back(self: *const Extremes, arena: std.mem.Allocator) Error![]align(column_module.alignment) const i64 {
        if (self.type.layout() != .u64) return self.integers.items;
        const values = try arena.alignedAlloc(i64, .fromByteUnits(column_module.alignment), self.integers.items.len);
        for (values, self.integers.items) |*to, from| to.* = turn(from);
        return values;
    }

    fn texts_column(self: *const Extremes, arena: std.mem.Allocator, validity: ?[]const u8) Error!Column {
        const texts = self.texts.items;
        var total: u64 = 0;
        for (texts) |text| total += text.bytes().len;
        if (total > std.math.maxInt(u32)) return error.TooLarge;
        const offsets = try arena.alloc(u32, texts.len + 1);
        const data = try arena.alignedAlloc(u8, .fromByteUnits(column_module.alignment), @intCast(total));
        var position: u32 = 0;
        for (texts, offsets[0..texts.len], 0..) |text, *offset, group| {
            if (group % interrupt.block_rows == 0) try interrupt.check();
            offset.* = position;
            @memcpy(data[position..][0..text.bytes().len], text.bytes());
            position += @intCast(text.bytes().len);
        }
        offsets[texts.len] = position;
        return .{
            .type = self.type,
            .row_count = @intCast(texts.len),
            .validity = validity,
            .data = data,
            .offsets = offsets,
        };
    }
};

/// Whether a value in this order to the present one takes its place.
fn replaces(which: Which, order: std.math.Order) bool {
    return order == (if (which == .min) std.math.Order.lt else std.math.Order.gt);
}

inline fn turn(value: i64) i64 {
    return value ^ std.math.minInt(i64);
}

fn expect_extremes(data_type: DataType, column: Column, which: Which, expected: []const u8) !void {
    const gpa = std.testing.allocator;
    var arena: Arena = .init(gpa);
    defer arena.deinit();
    for ([_]bool{ false, true }) |whole| {
        var extremes: Extremes = .init(gpa, which, data_type);
        defer extremes.deinit(gpa);
        try extremes.grow_to(gpa, 1);
        const groups: [16]u32 = @splat(0);
        if (whole) {
            try extremes.update_all(&column, column.validity);
        } else {
            try extremes.update(
                arena.allocator(),
                &column,
                &.{ .rows = null, .groups = groups[0..column.row_count], .group_count = 1 },
            );
        }
        const result = try extremes.results(arena.allocator(), null);
        const bytes = if (data_type.layout() == .bytes) result.bytes_at(0) else result.data[0..expected.len];
        try std.testing.expectEqualSlices(u8, expected, bytes);
    }
}

test "every family, with a group and without, past NULLs" {
    const unsigned: [4]u64 align(16) = .{ 5, std.math.maxInt(u64), 7, 0 };
    var column: Column = .{ .type = .of(.u64), .row_count = 4, .data = std.mem.sliceAsBytes(&unsigned) };
    try expect_extremes(.of(.u64), column, .max, std.mem.asBytes(&unsigned[1]));
    column.validity = &.{0b0101};
    try expect_extremes(.of(.u64), column, .max, std.mem.asBytes(&unsigned[2]));
    try expect_extremes(.of(.u64), column, .min, std.mem.asBytes(&unsigned[0]));
    const halves: [3]f16 align(16) = .{ 1.5, -2, 9 };
    column = .{ .type = .of(.f16), .row_count = 3, .validity = &.{0b011}, .data = std.mem.sliceAsBytes(&halves) };
    try expect_extremes(.of(.f16), column, .max, std.mem.asBytes(&halves[0]));
    const spans: [3]Interval align(16) = .{
        .{ .months = 1, .days = 0, .nanoseconds = 0 },
        .{ .months = 0, .days = 31, .nanoseconds = 0 },
        .{ .months = 0, .days = 0, .nanoseconds = 5 },
    };
    column = .{ .type = .of(.interval), .row_count = 3, .data = std.mem.sliceAsBytes(&spans) };
    try expect_extremes(.of(.interval), column, .max, std.mem.asBytes(&spans[1]));
    try expect_extremes(.of(.interval), column, .min, std.mem.asBytes(&spans[2]));
    const text: [9]u8 align(16) = "beeantcow".*;
    column = .{ .type = .of(.utf8), .row_count = 3, .validity = &.{0b101}, .data = &text, .offsets = &.{ 0, 3, 6, 9 } };
    try expect_extremes(.of(.utf8), column, .min, "bee");
    try expect_extremes(.of(.utf8), column, .max, "cow");
    const bits: [1]u8 align(16) = .{0b010};
    column = .{ .type = .of(.bool), .row_count = 3, .data = &bits };
    try expect_extremes(.of(.bool), column, .min, &.{0});
    try expect_extremes(.of(.bool), column, .max, &.{1});
}
