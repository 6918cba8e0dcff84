//! Parts of texts: substring, left, right, trim, split_part. Answers are never longer than the text.
const std = @import("std");
const interrupt = @import("../core/interrupt.zig");
const text = @import("text.zig");
const like = @import("like.zig");
const Column = @import("../core/column.zig").Column;
const Operand = @import("operand.zig").Operand;
const Error = text.Error;
const Writer = text.Writer;

const Part = struct { start: usize, end: usize };

/// Cuts every row; `cut(comptime ascii, bytes, operands, row)` finds the `Part` of one text.
fn cut_rows(
    arena: std.mem.Allocator,
    row_count: u32,
    operands: []const Operand,
    comptime cut: anytype,
) Error!Column {
    return if (try text.is_ascii(operands))
        cut_rows_of(true, arena, row_count, operands, cut)
    else
        cut_rows_of(false, arena, row_count, operands, cut);
}

fn cut_rows_of(
    comptime ascii: bool,
    arena: std.mem.Allocator,
    row_count: u32,
    operands: []const Operand,
    comptime cut: anytype,
) Error!Column {
    const value = &operands[0];
    const times: u64 = if (value.is_constant) row_count else 1;
    var writer: Writer = try .init(arena, row_count, value.all_bytes().len * times);
    for (0..row_count) |row| {
        if (row % text.block_rows == 0) try interrupt.check();
        const bytes = value.bytes_at(row);
        const part = cut(ascii, bytes, operands, row);
        const first = value.column.offsets[if (value.is_constant) 0 else row];
        writer.put_part(value.column.data, first + part.start, part.end - part.start);
        writer.end_row();
    }
    return writer.finish(.of(.utf8), null);
}

/// `substring(text, start, length)`: from character `start`, counted from 1, or from the end if it is
/// negative. A negative length reaches backwards.
pub fn substring(arena: std.mem.Allocator, row_count: u32, operands: []const Operand) Error!Column {
    return cut_rows(arena, row_count, operands, cut_substring);
}

inline fn cut_substring(comptime ascii: bool, bytes: []const u8, operands: []const Operand, row: usize) Part {
    const start = operands[1].value_at(i64, row);
    const length = if (operands.len > 2) operands[2].value_at(i64, row) else std.math.maxInt(i64);
    if (ascii) {
        const first, const last = character_range(start, length, bytes.len);
        return .{ .start = first, .end = last };
    }
    if (start > 0 and length >= 0) { // no need to count what is behind
        const first = text.skip_characters(bytes, 0, @intCast(start - 1));
        return .{ .start = first, .end = text.skip_characters(bytes, first, @intCast(length)) };
    }
    const first, const last = character_range(start, length, text.count_characters(bytes));
    const begin = text.skip_characters(bytes, 0, first);
    return .{ .start = begin, .end = text.skip_characters(bytes, begin, last - first) };
}

/// First character, from 0, and the one behind the last.
inline fn character_range(start: i64, length: i64, count: usize) struct { usize, usize } {
    const size: i64 = @intCast(count);
    var first = if (start > 0) start - 1 else if (start < 0) size +| start else 0;
    var reach = length;
    if (start == 0) { // one before the first
        if (length <= 1) return .{ 0, 0 };
        reach -= 1;
    }
    var last = first +| reach;
    if (reach < 0) std.mem.swap(i64, &first, &last);
    first = std.math.clamp(first, 0, size);
    last = std.math.clamp(last, first, size);
    return .{ @intCast(first), @intCast(last) };
}

/// The first characters; without the last ones if the count is negative.
pub fn left(arena: std.mem.Allocator, row_count: u32, operands: []const Operand) Error!Column {
    return cut_rows(arena, row_count, operands, cut_left);
}

inline fn cut_left(comptime ascii: bool, bytes: []const u8, operands: []const Operand, row: usize) Part {
    const count = operands[1].value_at(i64, row);
    const distance = @abs(count);
    if (ascii) {
        const end = if (count >= 0) @min(distance, bytes.len) else bytes.len - @min(distance, bytes.len);
        return .{ .start = 0, .end = @intCast(end) };
    }
    return .{
        .start = 0,
        .end = if (count >= 0) text.skip_characters(bytes, 0, distance) else text.skip_characters_back(bytes, distance),
    };
}

/// The last characters; without the first ones if the count is negative.
pub fn right(arena: std.mem.Allocator, row_count: u32, operands: []const Operand) Error!Column {
    return cut_rows(arena, row_count, operands, cut_right);
}

inline fn cut_right(comptime ascii: bool, bytes: []const u8, operands: []const Operand, row: usize) Part {
    const count = operands[1].value_at(i64, row);
    const distance = @abs(count);
    if (ascii) {
        const start = if (count >= 0) bytes.len - @min(distance, bytes.len) else @min(distance, bytes.len);
        return .{ .start = @intCast(start), .end = bytes.len };
    }
    return .{ .start = if (count >= 0)
        text.skip_characters_back(bytes, distance)
    else
        text.skip_characters(bytes, 0, distance), .end = bytes.len };
}

pub const Side = enum { both, start, end };

/// Without the characters of a set at its ends: of spaces, if no set is given.
pub fn trim(comptime side: Side, arena: std.mem.Allocator, row_count: u32, operands: []const Operand) Error!Column {
    return cut_rows(arena, row_count, operands, struct {
        inline fn cut(comptime ascii: bool, bytes: []const u8, all: []const Operand, row: usize) Part {
            var part: Part = .{ .start = 0, .end = bytes.len };
            const set: ?[]const u8 = if (all.len > 1) all[1].bytes_at(row) else null;
            if (side != .end) while (part.start < part.end) {
                const size = if (ascii) 1 else text.character_size(bytes, part.start);
                if (!is_trimmed(ascii, bytes[part.start..][0..size], set)) break;
                part.start += size;
            };
            if (side != .start) while (part.end > part.start) {
                const previous = if (ascii) part.end - 1 else text.skip_characters_back(bytes[0..part.end], 1);
                // Wreckage before the start may reach over it.
                if (previous < part.start or !is_trimmed(ascii, bytes[previous..part.end], set)) break;
                part.end = previous;
            };
            return part;
        }
    }.cut);
}

inline fn is_trimmed(comptime ascii: bool, character: []const u8, set: ?[]const u8) bool {
    const given = set orelse return character[0] == ' ' or (!ascii and is_space(text.decode(character, 0)));
    if (ascii) return std.mem.findScalar(u8, given, character[0]) != null;
    var position: usize = 0;
    while (position < given.len) {
        const size = text.character_size(given, position);
        if (std.mem.eql(u8, given[position..][0..size], character)) return true;
        position += size;
    }
    return false;
}

/// Unicode's space separators (Zs), as DuckDB trims them: no tabs and line ends.
fn is_space(code: u21) bool {
    return switch (code) {
        ' ', 0xA0, 0x1680, 0x2000...0x200A, 0x202F, 0x205F, 0x3000 => true,
        else => false,
    };
}

/// `split_part(text, separator, number)`: parts are counted from 1, from the end if the number is
/// negative. An empty separator splits into characters.
pub fn split_part(arena: std.mem.Allocator, row_count: u32, operands: []const Operand) Error!Column {
    return cut_rows(arena, row_count, operands, cut_part);
}

fn cut_part(comptime ascii: bool, bytes: []const u8, operands: []const Operand, row: usize) Part {
    const separator = operands[1].bytes_at(row);
    const number = operands[2].value_at(i64, row);
    if (number == 0) return .{ .start = 0, .end = 0 };
    if (separator.len == 0) return cut_character(ascii, bytes, number);
    const wanted = if (number > 0) @abs(number) else blk: {
        var count: u64 = 1;
        var position: usize = 0;
        while (like.find_bytes(bytes, position, separator)) |found| : (count += 1) position = found + separator.len;
        if (@abs(number) > count) return .{ .start = 0, .end = 0 };
        break :blk count + 1 - @abs(number);
    };
    var start: usize = 0;
    var passed: u64 = 1;
    while (passed < wanted) : (passed += 1) {
        const found = like.find_bytes(bytes, start, separator) orelse return .{ .start = 0, .end = 0 };
        start = found + separator.len;
    }
    return .{ .start = start, .end = like.find_bytes(bytes, start, separator) orelse bytes.len };
}

fn cut_character(comptime ascii: bool, bytes: []const u8, number: i64) Part {
    const distance = @abs(number);
    const count = if (ascii) bytes.len else text.count_characters(bytes);
    if (distance > count) return .{ .start = 0, .end = 0 };
    const index: u64 = if (number > 0) distance - 1 else count - distance;
    const start = if (ascii) @as(usize, @intCast(index)) else text.skip_characters(bytes, 0, index);
    return .{ .start = start, .end = if (ascii) start + 1 else text.skip_characters(bytes, start, 1) };
}

test character_range {
    const Case = struct { i64, i64, usize, usize };
    const far = std.math.maxInt(i64);
    for ([_]Case{
        .{ 2, 2, 1, 3 },                       .{ -3, far, 2, 5 }, .{ -3, 2, 2, 4 },    .{ 0, 2, 0, 1 },
        .{
            0,
            1,
            0,
            0,
        },
        .{ 2, -1, 0, 1 },                      .{ 4, -2, 1, 3 },   .{ -10, 7, 0, 2 },   .{ -10, 3, 0, 0 },
        .{ 9, 3, 5, 5 },                       .{ 9, -6, 2, 5 },   .{ far, far, 5, 5 }, .{ -far, far, 0, 5 },
        .{ std.math.minInt(i64), -far, 0, 0 }, .{ 0, far, 0, 5 },
    }) |case| {
        const first, const last = character_range(case[0], case[1], 5);
        if (case[2] == case[3]) {
            try std.testing.expectEqual(first, last);
        } else try std.testing.expectEqual(.{ case[2], case[3] }, .{ first, last });
    }
}
