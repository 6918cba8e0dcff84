//! Texts that are longer or other than their arguments: concat, replace, repeat, pad, reverse,
//! translate, chr.
//!
//! `rows` are the rows that matter; the others stay empty, so that what nobody asks for cannot grow.
const std = @import("std");
const bitmap = @import("../core/bitmap.zig");
const column_module = @import("../core/column.zig");
const interrupt = @import("../core/interrupt.zig");
const like = @import("like.zig");
const text = @import("text.zig");
const Arena = @import("../core/arena.zig").Arena;
const Column = column_module.Column;
const DataType = @import("../core/schema.zig").DataType;
const Operand = @import("operand.zig").Operand;
const Writer = text.Writer;

pub const Error = error{ Cancelled, OutOfMemory, OutOfRange };

inline fn matters(rows: ?[]const u8, row: usize) bool {
    const bits = rows orelse return true;
    return bitmap.get(bits.ptr, row);
}

/// All texts, one behind the other. With `skip_nulls` a NULL is an empty text.
pub fn join(
    comptime skip_nulls: bool,
    arena: std.mem.Allocator,
    data_type: DataType,
    row_count: u32,
    operands: []const Operand,
) Error!Column {
    var size: u64 = 0;
    for (operands) |*operand| size += @as(u64, operand.all_bytes().len) * if (operand.is_constant) row_count else 1;
    var writer: Writer = try .init(arena, row_count, size);
    for (0..row_count) |row| {
        if (row % text.block_rows == 0) try interrupt.check();
        for (operands) |*operand| {
            if (skip_nulls and !operand.is_valid(row)) continue;
            if (operand.is_constant) {
                writer.put(operand.column.bytes_at(0));
            } else {
                const start = operand.column.offsets[row];
                writer.put_part(operand.column.data, start, operand.column.offsets[row + 1] - start);
            }
        }
        writer.end_row();
    }
    return writer.finish(data_type, null);
}

/// All texts but the first, which stands between any two of them. NULLs are left out.
pub fn join_with_separator(arena: std.mem.Allocator, row_count: u32, operands: []const Operand) Error!Column {
    var writer: Writer = try .init(arena, row_count, 0);
    for (0..row_count) |row| {
        if (row % text.block_rows == 0) try interrupt.check();
        const separator = operands[0].bytes_at(row);
        var first = true;
        if (operands[0].is_valid(row)) for (operands[1..]) |*operand| {
            if (!operand.is_valid(row)) continue;
            const bytes = operand.bytes_at(row);
            try writer.reserve(@as(u64, bytes.len) + separator.len);
            if (!first) writer.put(separator);
            writer.put(bytes);
            first = false;
        };
        writer.end_row();
    }
    return writer.finish(.of(.utf8), try copied_validity(arena, &operands[0], row_count));
}

/// Validity of one operand, as the answer's.
fn copied_validity(arena: std.mem.Allocator, operand: *const Operand, row_count: u32) Error!?[]const u8 {
    if (!operand.is_constant) return operand.column.validity;
    if (operand.is_valid(0)) return null;
    const bits = try arena.alloc(u8, bitmap.size(row_count));
    @memset(bits, 0);
    return bits;
}

/// `replace(text, part, other)`: every `part`, from left to right, becomes `other`.
pub fn replace(arena: std.mem.Allocator, row_count: u32, operands: []const Operand, rows: ?[]const u8) Error!Column {
    const value = &operands[0];
    if (operands[1].is_constant and operands[2].is_constant and !value.is_constant) {
        return replace_constant(arena, value.column, operands[1].bytes_at(0), operands[2].bytes_at(0));
    }
    var writer: Writer = try .init(arena, row_count, value.all_bytes().len);
    for (0..row_count) |row| {
        if (row % text.block_rows == 0) try interrupt.check();
        if (matters(rows, row))
            try replace_one(&writer, value.bytes_at(row), operands[1].bytes_at(row), operands[2].bytes_at(row));
        writer.end_row();
    }
    return writer.finish(.of(.utf8), null);
}

fn replace_one(writer: *Writer, bytes: []const u8, part: []const u8, other: []const u8) Error!void {
    var position: usize = 0;
    if (part.len > 0) while (like.find_bytes(bytes, position, part)) |found| {
        try writer.reserve(@as(u64, found - position) + other.len);
        writer.put(bytes[position..found]);
        writer.put(other);
        position = found + part.len;
    };
    try writer.reserve(bytes.len - position);
    writer.put(bytes[position..]);
}

/// The same for all rows at once: the bytes between two hits, however many rows they are, are one copy,
/// and offsets move by what the hits before them have added.
fn replace_constant(arena: std.mem.Allocator, column: Column, part: []const u8, other: []const u8) Error!Column {
    const offsets = column.offsets[0 .. @as(usize, column.row_count) + 1];
    const base = offsets[0];
    const all = column.data[0..offsets[column.row_count]];
    const hits = try find_hits(arena, offsets, all, part);
    var result: Column = .{ .type = column.type, .row_count = column.row_count };
    if (hits.len == 0) {
        result.data = column.data;
        result.offsets = offsets;
        return result;
    }
    const grown = (@as(u64, all.len) - base) + @as(u64, other.len) * hits.len - @as(u64, part.len) * hits.len;
    const size = std.math.cast(u32, grown + 16) orelse return error.OutOfMemory;
    const data = try arena.alignedAlloc(u8, .@"16", size);
    const ends = try arena.alloc(u32, offsets.len);
    var from: usize = base;
    var to: usize = 0;
    var row: usize = 0;
    for (hits, 0..) |hit, number| {
        if (number % text.block_rows == 0) try interrupt.check();
        // Offsets up to the hit are as far from it as they were.
        while (offsets[row] <= hit) : (row += 1) ends[row] = @intCast(to + (offsets[row] - from));
        text.copy(data[to..], all[from..hit]);
        to += hit - from;
        text.copy(data[to..], other);
        to += other.len;
        from = hit + part.len;
    }
    while (row < offsets.len) : (row += 1) ends[row] = @intCast(to + (offsets[row] - from));
    text.copy(data[to..], all[from..]);
    result.data = data[0..@intCast(grown)];
    result.offsets = ends;
    return result;
}

/// Where `part` stands, within rows and not overlapping.
fn find_hits(arena: std.mem.Allocator, offsets: []const u32, all: []const u8, part: []const u8) Error![]const u32 {
    var hits: std.ArrayList(u32) = .empty;
    if (part.len == 0) return hits.items;
    var row: usize = 0;
    var position: usize = offsets[0];
    while (like.find_bytes(all, position, part)) |found| {
        if (hits.items.len % text.block_rows == 0) try interrupt.check();
        while (offsets[row + 1] <= found) row += 1;
        if (found + part.len <= offsets[row + 1]) {
            try hits.append(arena, @intCast(found));
            position = found + part.len;
        } else position = found + 1;
    }
    return hits.items;
}

/// `repeat(text, count)`.
pub fn repeat(
    arena: std.mem.Allocator,
    data_type: DataType,
    row_count: u32,
    operands: []const Operand,
    rows: ?[]const u8,
) Error!Column {
    var writer: Writer = try .init(arena, row_count, 0);
    for (0..row_count) |row| {
        if (row % text.block_rows == 0) try interrupt.check();
        const bytes = operands[0].bytes_at(row);
        const count = operands[1].value_at(i64, row);
        if (count > 0 and bytes.len > 0 and matters(rows, row)) {
            try writer.reserve(std.math.mul(u64, bytes.len, @intCast(count)) catch return error.OutOfMemory);
            put_times(&writer, bytes, @intCast(count));
        }
        writer.end_row();
    }
    return writer.finish(data_type, null);
}

/// What is there is copied behind itself, twice as much each time.
fn put_times(writer: *Writer, bytes: []const u8, count: usize) void {
    const target = writer.data[writer.size..][0 .. bytes.len * count];
    writer.size += target.len;
    if (target.len == 0) return;
    @memcpy(target[0..bytes.len], bytes);
    var done = bytes.len;
    while (done < target.len) {
        const more = @min(done, target.len - done);
        @memcpy(target[done..][0..more], target[0..more]);
        done += more;
    }
}

pub const Side = enum { left, right };

/// `lpad(text, count, fill)`: cut or filled up to `count` characters.
pub fn pad(
    comptime side: Side,
    arena: std.mem.Allocator,
    row_count: u32,
    operands: []const Operand,
    rows: ?[]const u8,
) Error!Column {
    var writer: Writer = try .init(arena, row_count, operands[0].all_bytes().len);
    for (0..row_count) |row| {
        if (row % text.block_rows == 0) try interrupt.check();
        const wanted = operands[1].value_at(i64, row);
        if (wanted > 0 and matters(rows, row)) {
            try pad_one(side, &writer, operands[0].bytes_at(row), @intCast(wanted), operands[2].bytes_at(row));
        }
        writer.end_row();
    }
    return writer.finish(.of(.utf8), null);
}

fn pad_one(comptime side: Side, writer: *Writer, bytes: []const u8, wanted: u64, fill: []const u8) Error!void {
    const count = text.count_characters(bytes);
    if (count >= wanted) {
        const end = text.skip_characters(bytes, 0, wanted);
        try writer.reserve(end);
        return writer.put(bytes[0..end]);
    }
    if (fill.len == 0) {
        interrupt.describe("nothing to pad a text of {d} characters with, up to {d}", .{ count, wanted });
        return error.OutOfRange;
    }
    const missing = wanted - count;
    const period = text.count_characters(fill);
    // Wreckage under a NULL may have no characters at all.
    const whole = missing / @max(period, 1);
    const rest = fill[0..text.skip_characters(fill, 0, missing % @max(period, 1))];
    const size = std.math.mul(u64, whole, fill.len) catch return error.OutOfMemory;
    try writer.reserve(size +| rest.len +| bytes.len);
    if (side == .right) writer.put(bytes);
    put_times(writer, fill, @intCast(whole));
    writer.put(rest);
    if (side == .left) writer.put(bytes);
}

/// Characters from the last to the first.
pub fn reverse(arena: std.mem.Allocator, row_count: u32, value: *const Operand) Error!Column {
    const times: u64 = if (value.is_constant) row_count else 1;
    var writer: Writer = try .init(arena, row_count, value.all_bytes().len * times);
    const ascii = try text.is_ascii(&.{value.*});
    for (0..row_count) |row| {
        if (row % text.block_rows == 0) try interrupt.check();
        const bytes = value.bytes_at(row);
        const target = writer.data[writer.size..][0..bytes.len];
        if (ascii) reverse_bytes(bytes, target) else reverse_characters(bytes, target);
        writer.size += bytes.len;
        writer.end_row();
    }
    return writer.finish(.of(.utf8), null);
}

fn reverse_bytes(bytes: []const u8, target: []u8) void {
    var position: usize = 0;
    while (position + 8 <= bytes.len) : (position += 8) {
        const eight: u64 = @bitCast(bytes[position..][0..8].*);
        target[bytes.len - position - 8 ..][0..8].* = @bitCast(@byteSwap(eight));
    }
    while (position < bytes.len) : (position += 1) target[bytes.len - 1 - position] = bytes[position];
}

fn reverse_characters(bytes: []const u8, target: []u8) void {
    var position: usize = 0;
    while (position < bytes.len) {
        const size = text.character_size(bytes, position);
        text.copy(target[bytes.len - position - size ..], bytes[position..][0..size]);
        position += size;
    }
}

/// `translate(text, from, to)`: each character of `from` becomes the one at its place in `to`, or
/// nothing.
pub fn translate(arena: std.mem.Allocator, row_count: u32, operands: []const Operand, rows: ?[]const u8) Error!Column {
    var writer: Writer = try .init(arena, row_count, operands[0].all_bytes().len);
    for (0..row_count) |row| {
        if (row % text.block_rows == 0) try interrupt.check();
        const bytes = operands[0].bytes_at(row);
        const from = operands[1].bytes_at(row);
        const to = operands[2].bytes_at(row);
        if (matters(rows, row)) {
            try writer.reserve(@as(u64, bytes.len) * 4);
            translate_one(&writer, bytes, from, to);
        }
        writer.end_row();
    }
    return writer.finish(.of(.utf8), null);
}

fn translate_one(writer: *Writer, bytes: []const u8, from: []const u8, to: []const u8) void {
    var position: usize = 0;
    while (position < bytes.len) {
        const size = text.character_size(bytes, position);
        writer.put(translated(bytes[position..][0..size], from, to));
        position += size;
    }
}

fn translated(character: []const u8, from: []const u8, to: []const u8) []const u8 {
    var a: usize = 0;
    var b: usize = 0;
    while (a < from.len) {
        const size = text.character_size(from, a);
        const target: usize = if (b < to.len) text.character_size(to, b) else 0;
        if (std.mem.eql(u8, from[a..][0..size], character)) return to[b..][0..target];
        a += size;
        b += target;
    }
    return character;
}

/// The character of each number.
pub fn characters(arena: std.mem.Allocator, row_count: u32, value: *const Operand, rows: ?[]const u8) Error!Column {
    var writer: Writer = try .init(arena, row_count, @as(u64, row_count) * 4);
    for (0..row_count) |row| {
        const number = value.value_at(i32, row);
        const valid = number >= 0 and number <= 0x10FFFF and !(number >= 0xD800 and number <= 0xDFFF);
        if (valid) {
            writer.size += text.encode(@intCast(number), writer.data[writer.size..]);
        } else if (matters(rows, row)) {
            interrupt.describe("there is no character {d}", .{number});
            return error.OutOfRange;
        }
        writer.end_row();
    }
    return writer.finish(.of(.utf8), null);
}

const testing = std.testing;

fn column_of(arena: std.mem.Allocator, texts: []const []const u8) !Operand {
    var writer: Writer = try .init(arena, @intCast(texts.len), 0);
    for (texts) |one| {
        try writer.reserve(one.len);
        writer.put(one);
        writer.end_row();
    }
    return .{ .column = writer.finish(.of(.utf8), null), .is_constant = false };
}

fn constant_of(arena: std.mem.Allocator, one: []const u8) !Operand {
    var operand = try column_of(arena, &.{one});
    operand.is_constant = true;
    return operand;
}

fn expect_texts(expected: []const []const u8, column: Column) !void {
    try testing.expectEqual(expected.len, column.row_count);
    for (expected, 0..) |one, row| try testing.expectEqualStrings(one, column.bytes_at(row));
}

test "replace: rows at once as one by one, and a view" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const gpa = arena.allocator();
    var prng: std.Random.DefaultPrng = .init(41);
    const random = prng.random();
    for ([_][]const u8{ "a", "ab", "aa", "", "zz", "é" }) |part|
        for ([_][]const u8{ "", "x", "yy", "longer than sixteen bytes" }) |other| {
            var texts: [60][]const u8 = undefined;
            for (&texts) |*one| {
                const buffer = try gpa.alloc(u8, random.uintLessThan(usize, 40));
                for (buffer) |*byte| byte.* = "aab"[random.uintLessThan(usize, 3)];
                one.* = buffer;
            }
            var value = try column_of(gpa, &texts);
            const varied = try column_of(gpa, &@as([60][]const u8, @splat(part)));
            const constant = try constant_of(gpa, other);
            const slow = try replace(gpa, 60, &.{ value, varied, constant }, null);
            const fast = try replace(gpa, 60, &.{ value, try constant_of(gpa, part), constant }, null);
            for (0..60) |row| try testing.expectEqualStrings(slow.bytes_at(row), fast.bytes_at(row));
            value.column = try value.column.view(gpa, 16, 40);
            const part_of = try replace(gpa, 40, &.{ value, try constant_of(gpa, part), constant }, null);
            for (0..40) |row| try testing.expectEqualStrings(slow.bytes_at(row + 16), part_of.bytes_at(row));
        };
}

test "join and its separator" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const gpa = arena.allocator();
    var value = try column_of(gpa, &.{ "a", "garbage", "" });
    const comma = try constant_of(gpa, ", ");
    try expect_texts(
        &.{ "a, a", "garbage, garbage", ", " },
        try join(false, gpa, .of(.utf8), 3, &.{ value, comma, value }),
    );
    value.column.validity = &.{0b101};
    try expect_texts(&.{ "a, a", ", ", ", " }, try join(true, gpa, .of(.utf8), 3, &.{ value, comma, value }));
    try expect_texts(&.{ "a, a", "", ", " }, try join_with_separator(gpa, 3, &.{ comma, value, value }));
}

test "pad, repeat, reverse, translate, characters" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const gpa = arena.allocator();
    const value = try column_of(gpa, &.{ "abc", "é€", "" });
    const five: [1]i64 align(16) = .{5};
    const count: Operand = .{
        .column = .{ .type = .of(.i64), .row_count = 1, .data = std.mem.sliceAsBytes(&five) },
        .is_constant = true,
    };
    const fill = try constant_of(gpa, "xü");
    try expect_texts(&.{ "xüabc", "xüxé€", "xüxüx" }, try pad(.left, gpa, 3, &.{ value, count, fill }, null));
    try expect_texts(&.{ "abcxü", "é€xüx", "xüxüx" }, try pad(.right, gpa, 3, &.{ value, count, fill }, null));
    defer interrupt.forget();
    try testing.expectError(error.OutOfRange, pad(.right, gpa, 3, &.{ value, count, try constant_of(gpa, "") }, null));
    try expect_texts(&.{ "abcabcabcabcabc", "", "" }, try repeat(gpa, .of(.utf8), 3, &.{ value, count }, &.{0b001}));
    // Two bytes so many times, and a slack behind them, are more than 64 bits can say.
    const most: [1]i64 align(16) = .{std.math.maxInt(i64)};
    const large: [1]i64 align(16) = .{2_900_000_000};
    const long: Operand = .{
        .column = .{ .type = .of(.i64), .row_count = 1, .data = std.mem.sliceAsBytes(&large) },
        .is_constant = true,
    };
    const too_often: Operand = .{
        .column = .{ .type = .of(.i64), .row_count = 1, .data = std.mem.sliceAsBytes(&most) },
        .is_constant = true,
    };
    for ([_][]const u8{ "a", "ab", "abc" }) |short| {
        try testing.expectError(
            error.OutOfMemory,
            repeat(gpa, .of(.utf8), 1, &.{ try constant_of(gpa, short), too_often }, null),
        );
        try testing.expectError(
            error.OutOfMemory,
            pad(.left, gpa, 1, &.{ value, too_often, try constant_of(gpa, short) }, null),
        );
        try testing.expectError(
            error.OutOfMemory,
            repeat(gpa, .of(.utf8), 1, &.{ try constant_of(gpa, short), long }, null),
        );
    }
    try expect_texts(&.{ "cba", "€é", "" }, try reverse(gpa, 3, &value));
    try expect_texts(&.{"kjihgfedcba"}, try reverse(gpa, 1, &try column_of(gpa, &.{"abcdefghijk"})));
    try expect_texts(
        &.{ "ac", "b€", "" },
        try translate(gpa, 3, &.{ value, try constant_of(gpa, "ébb"), try constant_of(gpa, "b") }, null),
    );
    const numbers: [4]i32 align(16) = .{ 0x20AC, 'a', 0xD800, -1 };
    const codes: Operand = .{
        .column = .{ .type = .of(.i32), .row_count = 4, .data = std.mem.sliceAsBytes(&numbers) },
        .is_constant = false,
    };
    try expect_texts(&.{ "€", "a", "", "" }, try characters(gpa, 4, &codes, &.{0b0011}));
    try testing.expectError(error.OutOfRange, characters(gpa, 4, &codes, &.{0b0111}));
}
