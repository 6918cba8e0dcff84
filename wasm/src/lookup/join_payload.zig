//! A column of a join's build, as probing joins take rows out of it again and again.
//!
//! Of a table larger than the cache, every row that is taken is a miss. Once it is clear that many will be,
//! the column is prepared: put in the order of the places that look-ups give, and, where its integers
//! span less than their type, kept as distances from the least one, in as few bytes as these need.
const std = @import("std");
const column_builder = @import("../core/column_builder.zig");
const column_module = @import("../core/column.zig");
const interrupt = @import("../core/interrupt.zig");
const reduce = @import("../kernel/reduce.zig");
const schema = @import("../core/schema.zig");
const take_values = @import("../core/take.zig").take_values;
const Arena = @import("../core/arena.zig").Arena;
const Column = column_module.Column;
const ColumnBuilder = column_builder.ColumnBuilder;
const Scalar = schema.Scalar;

pub const Error = column_builder.Error || interrupt.Error;

pub const Payload = struct {
    state: enum { as_built, prepared, refused } = .as_built,
    narrow: ?Narrow = null,

    pub fn deinit(self: *Payload, gpa: std.mem.Allocator) void {
        if (self.narrow) |narrow| gpa.free(narrow.data);
        self.* = undefined;
    }

    /// Makes the column ready, whose rows `builder` holds. `order`: rows by place, or null. What is
    /// narrow has no values in `column` any more. Without memory for it the column stays as it is.
    pub fn prepare(
        self: *Payload,
        gpa: std.mem.Allocator,
        arena: std.mem.Allocator,
        builder: *ColumnBuilder,
        column: *Column,
        order: ?[]const u32,
    ) Error!void {
        self.prepare_in(gpa, arena, builder, column, order) catch |failure| switch (failure) {
            error.OutOfMemory => self.state = .refused,
            error.Cancelled, error.TooLarge => return failure,
        };
    }

    fn prepare_in(
        self: *Payload,
        gpa: std.mem.Allocator,
        arena: std.mem.Allocator,
        builder: *ColumnBuilder,
        column: *Column,
        order: ?[]const u32,
    ) Error!void {
        if (try Narrow.init(gpa, column, order)) |narrow| {
            self.narrow = narrow;
            builder.deinit();
            builder.* = .{ .gpa = gpa, .type = column.type };
            column.data = &.{};
        } else if (order) |rows| {
            var ordered: ColumnBuilder = try .init(gpa, column.type);
            errdefer ordered.deinit();
            try ordered.reserve(column);
            var start: usize = 0;
            while (start < rows.len) : (start += interrupt.block_rows) {
                try interrupt.check();
                try ordered.append_indices(column, rows[start..@min(rows.len, start + interrupt.block_rows)]);
            }
            column.* = try ordered.finish(arena);
            builder.deinit();
            builder.* = ordered;
        }
        self.state = .prepared;
    }

    /// Rows of the column by their places. `order` as above: a column that was refused still needs it.
    pub fn take(
        self: *const Payload,
        arena: std.mem.Allocator,
        column: *const Column,
        places: []const u32,
        order: ?[]const u32,
    ) Error!Column {
        if (self.narrow) |*narrow| return narrow.take(arena, column.type, places);
        const rows = if (self.state == .prepared) null else order;
        return column_builder.take_rows(arena, column, if (rows) |by_place| blk: {
            const taken = try arena.alloc(u32, places.len);
            take_values(u32, taken, by_place, places);
            break :blk taken;
        } else places);
    }
};

/// Integers as their distances from the least one.
const Narrow = struct {
    base: u64,
    width: u8,
    data: []align(column_module.alignment) u8,

    /// null where the column has no integers, has NULLs, or needs all the bytes that it takes.
    fn init(gpa: std.mem.Allocator, column: *const Column, order: ?[]const u32) Error!?Narrow {
        if (column.validity != null or column.row_count == 0) return null;
        switch (column.type.layout()) {
            inline .i16, .u16, .i32, .u32, .i64, .u64 => |layout| {
                const T = Scalar(layout);
                const values = column.values(T);
                const least = reduce.min(T, values, null).?;
                const range = bits_of(T, reduce.max(T, values, null).?) -% bits_of(T, least);
                const width: u8 = if (range <= std.math.maxInt(u8))
                    1
                else if (range <= std.math.maxInt(u16)) 2 else if (range <= std.math.maxInt(u32)) 4 else 8;
                if (width >= @sizeOf(T)) return null;
                const data = try gpa.alignedAlloc(u8, .fromByteUnits(column_module.alignment), values.len * width);
                errdefer gpa.free(data);
                const self: Narrow = .{ .base = bits_of(T, least), .width = width, .data = data };
                switch (width) {
                    inline 1, 2, 4 => |size| try self.fill(T, @Int(.unsigned, @as(u16, size) * 8), values, order),
                    else => unreachable,
                }
                return self;
            },
            else => return null,
        }
    }

    fn fill(
        self: *const Narrow,
        comptime T: type,
        comptime N: type,
        values: []const T,
        order: ?[]const u32,
    ) interrupt.Error!void {
        const narrow: [*]N = @ptrCast(self.data.ptr);
        var start: usize = 0;
        while (start < values.len) : (start += interrupt.block_rows) {
            try interrupt.check();
            const end = @min(values.len, start + interrupt.block_rows);
            if (order) |rows| {
                for (narrow[start..end], rows[start..end]) |*to, row|
                    to.* = @truncate(bits_of(T, values.ptr[row]) -% self.base);
            } else {
                for (narrow[start..end], values[start..end]) |*to, value|
                    to.* = @truncate(bits_of(T, value) -% self.base);
            }
        }
    }

    fn take(
        self: *const Narrow,
        arena: std.mem.Allocator,
        data_type: schema.DataType,
        places: []const u32,
    ) Error!Column {
        const size: usize = @intCast(data_type.value_size());
        const data = try arena.alignedAlloc(u8, .fromByteUnits(column_module.alignment), places.len * size);
        switch (size) {
            inline 2, 4, 8 => |wide| {
                const W = @Int(.unsigned, @as(u16, wide) * 8);
                const values = @as([*]W, @ptrCast(data.ptr))[0..places.len];
                const base: W = @truncate(self.base);
                switch (self.width) {
                    inline 1, 2, 4 => |width| if (width < wide) {
                        const narrow: [*]const @Int(.unsigned, @as(u16, width) * 8) = @ptrCast(self.data.ptr);
                        for (values, places) |*to, place| to.* = base +% narrow[place];
                    } else unreachable,
                    else => unreachable,
                }
            },
            else => unreachable,
        }
        return .{ .type = data_type, .row_count = @intCast(places.len), .data = data };
    }
};

/// A value's bits, its sign stretched: distances come out right without a look at it.
inline fn bits_of(comptime T: type, value: T) u64 {
    return if (@typeInfo(T).int.signedness == .signed) @bitCast(@as(i64, value)) else value;
}

const testing = std.testing;

fn expect_taken(
    comptime T: type,
    tag: schema.TypeTag,
    values: []const T,
    validity: ?[]const u8,
    order: ?[]const u32,
    width: ?u8,
) !void {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const data = try arena.allocator().alignedAlloc(u8, .@"16", values.len * @sizeOf(T));
    @memcpy(data, std.mem.sliceAsBytes(values));
    var builder: ColumnBuilder = try .init(testing.allocator, .of(tag));
    defer builder.deinit();
    try builder.append_range(
        &.{ .type = .of(tag), .row_count = @intCast(values.len), .validity = validity, .data = data },
        0,
        @intCast(values.len),
    );
    var column = try builder.finish(arena.allocator());
    const places: [7]u32 = .{ 3, 0, 1, 2, 2, 3, 0 };
    var payload: Payload = .{};
    defer payload.deinit(testing.allocator);
    for (0..2) |round| {
        const taken = try payload.take(arena.allocator(), &column, &places, order);
        for (places, 0..) |place, i| {
            const row = if (order) |rows| rows[place] else place;
            const valid = if (validity) |bits| bits[0] >> @intCast(row) & 1 != 0 else true;
            try testing.expectEqual(valid, taken.is_valid(i));
            if (valid) try testing.expectEqual(values[row], taken.values(T)[i]);
        }
        if (round == 0) try payload.prepare(testing.allocator, arena.allocator(), &builder, &column, order);
    }
    try testing.expectEqual(width, if (payload.narrow) |narrow| narrow.width else null);
}

test "columns give the same rows before and after they are prepared" {
    for ([_]?[]const u32{ null, &.{ 2, 0, 3, 1 } }) |order| {
        try expect_taken(i64, .i64, &.{ -5, 250, 7, 0 }, null, order, 1);
        try expect_taken(i64, .i64, &.{ -5, 251, 7, 0 }, null, order, 2);
        try expect_taken(i64, .i64, &.{ std.math.minInt(i64), std.math.minInt(i64) +
            70_000, std.math.minInt(i64) + 1, std.math.minInt(i64) }, null, order, 4);
        try expect_taken(i64, .i64, &.{ std.math.minInt(i64), std.math.maxInt(i64), 0, -1 }, null, order, null);
        try expect_taken(u64, .u64, &.{ std.math.maxInt(u64), std.math.maxInt(u64) -
            3, std.math.maxInt(u64) - 300, std.math.maxInt(u64) }, null, order, 2);
        try expect_taken(i32, .i32, &.{ -70_000, 1, 5, 60_000 }, null, order, null);
        try expect_taken(i32, .i32, &.{ 9, 9, 9, 9 }, null, order, 1);
        try expect_taken(i16, .i16, &.{ -100, 100, 0, 1 }, null, order, 1);
        try expect_taken(i64, .i64, &.{ 1, 2, 3, 4 }, &.{0b1011}, order, null);
        try expect_taken(f64, .f64, &.{ 1, 2, 3, 4 }, null, order, null);
    }
}

test "a column that memory does not suffice for stays as it is" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const values: [3]i64 align(16) = .{ 10, 20, 30 };
    const source: Column = .{ .type = .of(.i64), .row_count = 3, .data = std.mem.sliceAsBytes(&values) };
    var builder: ColumnBuilder = try .init(testing.allocator, .of(.i64));
    defer builder.deinit();
    try builder.append_range(&source, 0, 3);
    var column = try builder.finish(arena.allocator());
    var payload: Payload = .{};
    defer payload.deinit(testing.allocator);
    try payload.prepare(testing.failing_allocator, arena.allocator(), &builder, &column, &.{ 2, 0, 1 });
    try testing.expectEqual(.refused, payload.state);
    const taken = try payload.take(arena.allocator(), &column, &.{ 0, 1, 2 }, &.{ 2, 0, 1 });
    try testing.expectEqualSlices(i64, &.{ 30, 10, 20 }, taken.values(i64));
}
