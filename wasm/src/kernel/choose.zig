//! One column out of several: every row takes the value of one of them, or is NULL. What CASE,
//! COALESCE, GREATEST and LEAST end in.
const std = @import("std");
const bitmap = @import("../core/bitmap.zig");
const column_module = @import("../core/column.zig");
const take = @import("../core/take.zig");
const Arena = @import("../core/arena.zig").Arena;
const ColumnBuilder = @import("../core/column_builder.zig").ColumnBuilder;
const Column = column_module.Column;
const DataType = @import("../core/schema.zig").DataType;
const assert = std.debug.assert;

pub const Part = struct {
    column: Column,
    /// The column has one row, which stands for all.
    is_constant: bool = false,
    /// Rows that take this part. No row takes two.
    bits: []const u8,
};

/// Rows that take no part are NULL. Everything new lives in `arena`.
pub fn choose(
    arena: std.mem.Allocator,
    data_type: DataType,
    row_count: u32,
    parts: []const Part,
) error{OutOfMemory}!Column {
    if (parts.len == 1 and !parts[0].is_constant and bitmap.all_set(parts[0].bits, row_count)) return parts[0].column;
    var result: Column = .{ .type = data_type, .row_count = row_count };
    switch (data_type.layout()) {
        .none => return result,
        .list, .structure => return choose_nested(arena, data_type, row_count, parts),
        .bits => result.data = try choose_bits(arena, row_count, parts),
        .bytes => try choose_bytes(arena, &result, parts),
        else => result.data = try choose_fixed(arena, data_type, row_count, parts),
    }
    result.validity = try choose_validity(arena, row_count, parts);
    return result;
}

fn choose_validity(arena: std.mem.Allocator, row_count: u32, parts: []const Part) error{OutOfMemory}!?[]const u8 {
    const valid = try arena.alignedAlloc(u8, .@"16", bitmap.size(row_count));
    @memset(valid, 0);
    for (parts) |part| {
        if (part.is_constant) {
            if (part.column.is_valid(0)) bitmap.combine(.@"or", valid, valid, part.bits);
        } else if (part.column.validity) |known| {
            for (valid, part.bits[0..valid.len], known[0..valid.len]) |*to, bits, is_valid| to.* |= bits & is_valid;
        } else bitmap.combine(.@"or", valid, valid, part.bits);
    }
    return if (bitmap.all_set(valid, row_count)) null else valid;
}

fn choose_bits(
    arena: std.mem.Allocator,
    row_count: u32,
    parts: []const Part,
) error{OutOfMemory}![]align(column_module.alignment) u8 {
    const out = try arena.alignedAlloc(u8, .@"16", bitmap.size(row_count));
    @memset(out, 0);
    for (parts) |part| {
        if (part.is_constant) {
            if (part.column.data[0] & 1 != 0) bitmap.combine(.@"or", out, out, part.bits);
        } else for (out, part.bits[0..out.len], part.column.data[0..out.len]) |*to, bits, values| to.* |= bits & values;
    }
    return out;
}

fn choose_fixed(
    arena: std.mem.Allocator,
    data_type: DataType,
    row_count: u32,
    parts: []const Part,
) error{OutOfMemory}![]align(column_module.alignment) u8 {
    const size: usize = @intCast(data_type.value_size());
    const bytes = std.math.cast(u32, @as(u64, size) * row_count) orelse return error.OutOfMemory;
    const out = try arena.alignedAlloc(u8, .@"16", bytes);
    @memset(out, 0);
    switch (size) {
        inline 1, 2, 4, 8, 16 => |width| {
            const T = @Int(.unsigned, width * 8);
            const values = @as([*]T, @ptrCast(out.ptr))[0..row_count];
            for (parts) |*part| {
                if (part.is_constant) {
                    fill_values(T, values, part.bits, part.column.values(T)[0]);
                } else take_values(T, values, part.bits, part.column.values(T));
            }
        },
        else => for (parts) |*part| for (0..row_count) |row| {
            if (!bitmap.get(part.bits.ptr, row)) continue;
            const from = if (part.is_constant) 0 else row;
            @memcpy(out[row * size ..][0..size], part.column.data[from * size ..][0..size]);
        },
    }
    return out;
}

/// Rows whose bit is set take the value of `source`. Eight at a time: most bytes of bits are neither
/// full nor empty, and a branch on each row would be guessed wrong half the time.
fn take_values(comptime T: type, out: []T, bits: []const u8, source: []const T) void {
    const whole = out.len / 8;
    for (bits[0..whole], 0..) |byte, i| {
        if (byte == 0) continue;
        const to = out[i * 8 ..][0..8];
        to.* = blend(T, byte, source[i * 8 ..][0..8].*, to.*);
    }
    for (whole * 8..out.len) |row| {
        if (bitmap.get(bits.ptr, row)) out[row] = source[row];
    }
}

fn fill_values(comptime T: type, out: []T, bits: []const u8, value: T) void {
    const whole = out.len / 8;
    for (bits[0..whole], 0..) |byte, i| {
        if (byte == 0) continue;
        const to = out[i * 8 ..][0..8];
        to.* = blend(T, byte, @splat(value), to.*);
    }
    for (whole * 8..out.len) |row| {
        if (bitmap.get(bits.ptr, row)) out[row] = value;
    }
}

inline fn blend(comptime T: type, byte: u8, a: @Vector(8, T), b: @Vector(8, T)) @Vector(8, T) {
    if (T == u128) {
        var mixed = b;
        inline for (0..8) |lane| {
            if (byte >> lane & 1 != 0) mixed[lane] = a[lane];
        }
        return mixed;
    }
    const places: @Vector(8, T) = .{ 1, 2, 4, 8, 16, 32, 64, 128 };
    const wanted = @as(@Vector(8, T), @splat(byte)) & places != @as(@Vector(8, T), @splat(0));
    return @select(T, wanted, a, b);
}

/// The part of each row, by number; `none` for rows that take none.
fn choices(arena: std.mem.Allocator, row_count: u32, parts: []const Part) error{OutOfMemory}![]u32 {
    const out = try arena.alloc(u32, row_count);
    @memset(out, none);
    for (parts, 0..) |part, number| fill_values(u32, out, part.bits, @intCast(number));
    return out;
}

const none = std.math.maxInt(u32);

fn choose_bytes(arena: std.mem.Allocator, result: *Column, parts: []const Part) error{OutOfMemory}!void {
    const chosen = try choices(arena, result.row_count, parts);
    const offsets = try arena.alloc(u32, @as(usize, result.row_count) + 1);
    var total: u64 = 0;
    offsets[0] = 0;
    for (chosen, offsets[1..], 0..) |number, *end, row| {
        if (number != none) {
            const part = &parts[number];
            const from = if (part.is_constant) 0 else row;
            total += part.column.offsets[from + 1] - part.column.offsets[from];
        }
        end.* = @truncate(total);
    }
    const size = std.math.cast(u32, total + take.bytes_slack) orelse return error.OutOfMemory;
    const data = try arena.alignedAlloc(u8, .@"16", size);
    for (chosen, offsets[0..result.row_count], 0..) |number, position, row| {
        if (number == none) continue;
        const part = &parts[number];
        const from = if (part.is_constant) 0 else row;
        const start = part.column.offsets[from];
        take.copy_short(data, position, part.column.data, start, part.column.offsets[from + 1] - start);
    }
    result.offsets = offsets;
    result.data = data[0 .. size - take.bytes_slack];
}

/// By runs of rows that take the same part.
fn choose_nested(
    arena: std.mem.Allocator,
    data_type: DataType,
    row_count: u32,
    parts: []const Part,
) error{OutOfMemory}!Column {
    const chosen = try choices(arena, row_count, parts);
    var builder = ColumnBuilder.init(arena, data_type) catch return error.OutOfMemory;
    var start: u32 = 0;
    while (start < row_count) {
        const number = chosen[start];
        var end = start + 1;
        while (end < row_count and chosen[end] == number) end += 1;
        const appended = if (number == none)
            builder.append_nulls(end - start)
        else
            builder.append_range(&parts[number].column, start, end - start);
        appended catch return error.OutOfMemory;
        start = end;
    }
    assert(builder.row_count == row_count);
    return builder.finish(arena);
}

fn expect_choice(comptime T: type, data_type: DataType, row_count: u32) !void {
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    const gpa = arena.allocator();
    const size = bitmap.size(row_count) + 1;
    const a = try gpa.alignedAlloc(T, .@"16", row_count);
    const bits_a = try gpa.alloc(u8, size);
    const bits_b = try gpa.alloc(u8, size);
    const validity = try gpa.alloc(u8, size);
    @memset(bits_a, 0);
    @memset(bits_b, 0);
    @memset(validity, 0xFF);
    for (a, 0..) |*value, row| {
        value.* = @intCast(row % 100);
        if (row % 3 == 0) bitmap.set(bits_a.ptr, row);
        if (row % 3 == 1) bitmap.set(bits_b.ptr, row);
        if (row % 6 == 0) bitmap.clear(validity.ptr, row);
    }
    const constant = try gpa.alignedAlloc(T, .@"16", 1);
    constant[0] = 111;
    const result = try choose(gpa, data_type, row_count, &.{
        .{ .column = .{
            .type = data_type,
            .row_count = row_count,
            .validity = validity,
            .data = std.mem.sliceAsBytes(a),
        }, .bits = bits_a },
        .{
            .column = .{ .type = data_type, .row_count = 1, .data = std.mem.sliceAsBytes(constant) },
            .is_constant = true,
            .bits = bits_b,
        },
    });
    for (0..row_count) |row| {
        try std.testing.expectEqual(row % 3 == 1 or row % 6 == 3, result.is_valid(row));
        if (result.is_valid(row)) try std.testing.expectEqual(if (row % 3 == 1) 111 else a[row], result.values(T)[row]);
    }
}

test "values of two parts, with NULLs of their own and of neither" {
    for ([_]u32{ 0, 1, 7, 8, 9, 100 }) |row_count| {
        try expect_choice(i8, .of(.i8), row_count);
        try expect_choice(i64, .of(.i64), row_count);
        try expect_choice(i128, .of(.i128), row_count);
    }
}

test "text and bools" {
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    const words: [8]u8 align(16) = "onetwo34".*;
    const text: Column = .{ .type = .of(.utf8), .row_count = 3, .data = &words, .offsets = &.{ 0, 3, 6, 8 } };
    const constant: Column = .{ .type = .of(.utf8), .row_count = 1, .data = words[0..3], .offsets = &.{ 0, 3 } };
    const result = try choose(arena.allocator(), .of(.utf8), 3, &.{
        .{ .column = text, .bits = &.{0b100} },
        .{ .column = constant, .is_constant = true, .bits = &.{0b001} },
    });
    try std.testing.expectEqualStrings("one", result.bytes_at(0));
    try std.testing.expect(!result.is_valid(1));
    try std.testing.expectEqualStrings("34", result.bytes_at(2));
    const bits: [1]u8 align(16) = .{0b110};
    const flags: Column = .{ .type = .of(.bool), .row_count = 3, .data = &bits };
    const chosen = try choose(arena.allocator(), .of(.bool), 3, &.{.{ .column = flags, .bits = &.{0b011} }});
    try std.testing.expectEqual(0b010, chosen.data[0]);
    try std.testing.expectEqual(0b011, chosen.validity.?[0]);
}

test "structures by runs" {
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    const data_type: DataType = .{ .tag = .structure, .children = &.{.{ .name = "a", .type = .of(.i32) }} };
    const values: [4]i32 align(16) = .{ 1, 2, 3, 4 };
    const column: Column = .{ .type = data_type, .row_count = 4, .children = &.{
        .{ .type = .of(.i32), .row_count = 4, .data = std.mem.sliceAsBytes(&values) },
    } };
    const result = try choose(arena.allocator(), data_type, 4, &.{.{ .column = column, .bits = &.{0b1011} }});
    try std.testing.expectEqual(0b1011, result.validity.?[0] & 0xF);
    try std.testing.expectEqual(4, result.children[0].values(i32)[3]);
}
