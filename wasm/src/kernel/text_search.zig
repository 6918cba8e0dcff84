//! Texts inside texts: position, contains, starts_with, ends_with, and patterns that differ from row to row.
const std = @import("std");
const bitmap = @import("../core/bitmap.zig");
const compare = @import("compare.zig");
const interrupt = @import("../core/interrupt.zig");
const like = @import("like.zig");
const text = @import("text.zig");
const Arena = @import("../core/arena.zig").Arena;
const Operand = @import("operand.zig").Operand;
const Error = text.Error;

/// The number of the character where `part` first stands in `value`; 0 where it does not.
pub fn position(value: *const Operand, part: *const Operand, out: []i64) Error!void {
    const ascii = try text.is_ascii(&.{value.*});
    if (part.is_constant and !value.is_constant and part.bytes_at(0).len > 0)
        return position_constant(ascii, value, part.bytes_at(0), out);
    for (out, 0..) |*to, row| {
        if (row % text.block_rows == 0) try interrupt.check();
        const bytes = value.bytes_at(row);
        const wanted = part.bytes_at(row);
        to.* = if (wanted.len == 0)
            1
        else if (like.find_bytes(bytes, 0, wanted)) |found| number_at(ascii, bytes, found) else 0;
    }
}

inline fn number_at(ascii: bool, bytes: []const u8, found: usize) i64 {
    return @intCast(1 + if (ascii) found else text.count_characters(bytes[0..found]));
}

/// All rows' bytes are searched as one text, as in `like.match_column_contains`.
fn position_constant(ascii: bool, value: *const Operand, wanted: []const u8, out: []i64) Error!void {
    @memset(out, 0);
    if (out.len == 0) return;
    const offsets = value.column.offsets;
    const all = value.column.data[0..offsets[out.len]];
    var row: usize = 0;
    var place: usize = offsets[0];
    while (like.find_bytes(all, place, wanted)) |found| {
        while (offsets[row + 1] <= found) row += 1;
        if (found + wanted.len <= offsets[row + 1]) {
            out[row] = number_at(ascii, all[offsets[row]..], found - offsets[row]);
            place = offsets[row + 1];
        } else place = found + 1;
    }
}

pub const Question = enum { contains, starts_with, ends_with };

/// Whether `part` stands in `value`: anywhere, at its start, at its end. The empty text always does.
pub fn ask(comptime question: Question, value: *const Operand, part: *const Operand, row_count: u32, out: []u8) void {
    if (part.is_constant and !value.is_constant) {
        const wanted = part.bytes_at(0);
        const shape: like.Shape = if (wanted.len == 0) .any else switch (question) {
            .contains => .contains,
            .starts_with => .prefix,
            .ends_with => .suffix,
        };
        const matcher: like.Matcher = .of_literal(shape, wanted);
        return matcher.match_column(value.column.offsets[0 .. row_count + 1], value.column.data, out);
    }
    compare.pack_rows(row_count, Rows(question){ .value = value, .part = part }, false, out);
}

fn Rows(comptime question: Question) type {
    return struct {
        value: *const Operand,
        part: *const Operand,

        pub inline fn holds(self: @This(), row: usize) bool {
            const bytes = self.value.bytes_at(row);
            const wanted = self.part.bytes_at(row);
            return switch (question) {
                .contains => wanted.len == 0 or like.find_bytes(bytes, 0, wanted) != null,
                .starts_with => std.mem.startsWith(u8, bytes, wanted),
                .ends_with => std.mem.endsWith(u8, bytes, wanted),
            };
        }
    };
}

/// LIKE where every row has a pattern and an escape of its own. Rows outside of `rows` match nothing: nobody
/// asks for them, and what lies under a NULL need not be a pattern.
pub fn like_patterns(
    arena: std.mem.Allocator,
    row_count: u32,
    operands: []const Operand,
    rows: ?[]const u8,
    out: []u8,
) (Error || error{OutOfRange})!void {
    @memset(out, 0);
    var own: Arena = .init(arena);
    defer own.deinit();
    var matcher: like.Matcher = undefined;
    var known: ?struct { pattern: []const u8, escape: []const u8 } = null;
    for (0..row_count) |row| {
        if (row % text.block_rows == 0) try interrupt.check();
        if (rows) |bits| if (!bitmap.get(bits.ptr, row)) continue;
        const pattern = operands[1].bytes_at(row);
        const escape = operands[2].bytes_at(row);
        // Rows with one pattern often stand together.
        if (known == null or !std.mem.eql(u8, known.?.pattern, pattern) or !std.mem.eql(u8, known.?.escape, escape)) {
            _ = own.reset(.retain_capacity);
            matcher = try compiled(own.allocator(), pattern, escape);
            known = .{ .pattern = pattern, .escape = escape };
        }
        if (matcher.matches(operands[0].bytes_at(row))) bitmap.set(out.ptr, row);
    }
}

fn compiled(
    arena: std.mem.Allocator,
    pattern: []const u8,
    escape: []const u8,
) (Error || error{OutOfRange})!like.Matcher {
    if (escape.len > 1 or (escape.len == 1 and !std.ascii.isAscii(escape[0]))) {
        interrupt.describe("an escape of LIKE is one character of ASCII, not {s}", .{escape});
        return error.OutOfRange;
    }
    return like.Matcher.init(arena, pattern, .{ .escape = if (escape.len == 0)
        null
    else
        escape[0] }) catch |err| switch (err) {
        error.OutOfMemory => error.OutOfMemory,
        error.InvalidPattern => {
            interrupt.describe("the LIKE pattern {s} ends in its escape character", .{pattern});
            return error.OutOfRange;
        },
    };
}

const Column = @import("../core/column.zig").Column;

const sample: [25]u8 align(16) = "abcgrößeabc\u{20AC}abab\u{20AC}ab".*;
const sample_column: Column =
    .{ .type = .of(.utf8), .row_count = 5, .data = &sample, .offsets = &.{ 0, 3, 10, 13, 20, 25 } };

test position {
    const value: Operand = .{ .column = sample_column, .is_constant = false };
    const parts: [5]u8 align(16) = "ab\u{20AC}".*;
    var out: [5]i64 = undefined;
    const constant: Operand = .{
        .column = .{ .type = .of(.utf8), .row_count = 1, .data = &parts, .offsets = &.{ 0, 2 } },
        .is_constant = true,
    };
    try position(&value, &constant, &out);
    try std.testing.expectEqualSlices(i64, &.{ 1, 0, 1, 2, 2 }, &out);
    // Each row its own part: b, empty, c, empty, empty.
    const varied: Operand = .{
        .column = .{ .type = .of(.utf8), .row_count = 5, .data = &sample, .offsets = &.{ 1, 2, 2, 3, 3, 3 } },
        .is_constant = false,
    };
    try position(&value, &varied, &out);
    try std.testing.expectEqualSlices(i64, &.{ 2, 1, 3, 1, 1 }, &out);
}

test ask {
    const value: Operand = .{ .column = sample_column, .is_constant = false };
    const parts: [2]u8 align(16) = "ab".*;
    const constant: Operand = .{
        .column = .{ .type = .of(.utf8), .row_count = 1, .data = &parts, .offsets = &.{ 0, 2 } },
        .is_constant = true,
    };
    var out: [1]u8 = undefined;
    ask(.contains, &value, &constant, 5, &out);
    try std.testing.expectEqual(0b11101, out[0]);
    ask(.starts_with, &value, &constant, 5, &out);
    try std.testing.expectEqual(0b00101, out[0]);
    ask(.ends_with, &value, &constant, 5, &out);
    try std.testing.expectEqual(0b11000, out[0]);
    ask(.ends_with, &value, &value, 5, &out);
    try std.testing.expectEqual(0b11111, out[0]);
}

test like_patterns {
    const pattern_bytes: [13]u8 align(16) = "a%gr__e%%a_c%".*;
    const escape_bytes: [1]u8 align(16) = "%".*;
    const texts: Operand = .{ .column = sample_column, .is_constant = false };
    const patterns: Operand = .{
        .column = .{ .type = .of(.utf8), .row_count = 5, .data = &pattern_bytes, .offsets = &.{ 0, 2, 8, 9, 12, 13 } },
        .is_constant = false,
    };
    const none: Operand = .{
        .column = .{ .type = .of(.utf8), .row_count = 1, .offsets = &.{ 0, 0 } },
        .is_constant = true,
    };
    const percent: Operand = .{
        .column = .{ .type = .of(.utf8), .row_count = 1, .data = &escape_bytes, .offsets = &.{ 0, 1 } },
        .is_constant = true,
    };
    var out: [1]u8 = undefined;
    try like_patterns(std.testing.allocator, 5, &.{ texts, patterns, none }, null, &out);
    try std.testing.expectEqual(0b10111, out[0]);
    try std.testing.expectError(
        error.OutOfRange,
        like_patterns(std.testing.allocator, 5, &.{ texts, patterns, percent }, null, &out),
    );
    try like_patterns(std.testing.allocator, 5, &.{ texts, patterns, percent }, &.{0b01000}, &out);
    try std.testing.expectEqual(0, out[0]);
}
