//! Random columns, for the tests of what orders and deals rows. Values are often equal, and text has
//! common prefixes and zero bytes.
const std = @import("std");
const bitmap = @import("../core/bitmap.zig");
const schema = @import("../core/schema.zig");
const Column = @import("../core/column.zig").Column;
const ColumnBuilder = @import("../core/column_builder.zig").ColumnBuilder;

/// Every kind of type that has an order.
pub const types = [_]schema.DataType{
    .of(.bool),
    .of(.i8),
    .of(.u16),
    .of(.i32),
    .of(.u32),
    .of(.i64),
    .of(.u64),
    .of(.f16),
    .of(.f32),
    .of(.f64),
    .of(.i128),
    .of(.interval),
    .of(.utf8),
    .of(.binary),
    .of(.date),
    .{ .tag = .timestamp, .unit = .nanosecond },
    .{ .tag = .fixed_binary, .width = 5 },
    .{ .tag = .decimal, .precision = 30 },
    .{ .tag = .fixed_binary, .width = 0 },
    .{ .tag = .fixed_binary, .width = 19 },
};

/// A column of random values that are often equal, of any type that has an order.
pub fn column(arena: std.mem.Allocator, random: std.Random, data_type: schema.DataType, count: u32) !Column {
    const validity = try arena.alloc(u8, bitmap.size(count));
    for (validity) |*byte| byte.* = random.int(u8) | random.int(u8);
    const few = random.boolean();
    var made: Column = .{ .type = data_type, .row_count = count, .validity = if (random.boolean()) validity else null };
    if (data_type.layout() == .bytes) {
        const offsets = try arena.alloc(u32, count + 1);
        const data = try arena.alignedAlloc(u8, .@"16", count * 24);
        offsets[0] = 0;
        for (offsets[1..], offsets[0..count]) |*end, start| {
            const size = random.uintLessThan(u32, 24);
            for (data[start..][0..size], 0..) |*byte, i|
                byte.* = if (i < 12) "prefix"[i % 6] else random.uintLessThan(u8, 3);
            end.* = start + size;
        }
        made.offsets = offsets;
        made.data = data[0..offsets[count]];
        return made;
    }
    const size: usize = if (data_type.layout() == .bits) 1 else @intCast(data_type.value_size());
    const data = try arena.alignedAlloc(u8, .@"16", count * size);
    random.bytes(data);
    if (few) for (data, 0..) |*byte, i| {
        byte.* = if (i % size == 0) byte.* & 3 else if (random.uintLessThan(u8, 8) == 0) 0xFF else 0;
    };
    made.data = data;
    return made;
}

/// Chosen rows of columns.
pub fn taken(arena: std.mem.Allocator, columns: []const Column, rows: []const u32) ![]Column {
    const result = try arena.alloc(Column, columns.len);
    for (result, columns) |*to, *from| {
        var builder: ColumnBuilder = try .init(arena, from.type);
        try builder.append_indices(from, rows);
        to.* = try builder.finish(arena);
    }
    return result;
}

/// The numbers from 0 on: rows that can be told apart.
pub fn numbers(arena: std.mem.Allocator, count: u32) !Column {
    const values = try arena.alignedAlloc(i64, .@"16", count);
    for (values, 0..) |*value, i| value.* = @intCast(i);
    return .{ .type = .of(.i64), .row_count = count, .data = std.mem.sliceAsBytes(values) };
}
