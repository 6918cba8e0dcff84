//! Text in columns: characters, and the collecting of results. The loops of single functions are in
//! text_search.zig, text_cut.zig, text_make.zig and text_case.zig.
//!
//! Characters are Unicode code points, as in DuckDB. Rows that are NULL may hold any bytes, so every
//! step forward is bounded by the text and never trusts a lead byte.
const std = @import("std");
const column_module = @import("../core/column.zig");
const interrupt = @import("../core/interrupt.zig");
const take = @import("../core/take.zig");
const utf8 = @import("../core/utf8.zig");
const Arena = @import("../core/arena.zig").Arena;
const Column = column_module.Column;
const DataType = @import("../core/schema.zig").DataType;
const Operand = @import("operand.zig").Operand;
const assert = std.debug.assert;

pub const Error = error{ Cancelled, OutOfMemory };

/// Rows between two looks at the cancel byte, where rows are cheap.
pub const block_rows = 1024;

/// Whether all texts are ASCII, so that characters are bytes.
pub fn is_ascii(operands: []const Operand) Error!bool {
    for (operands) |*operand|
        if (operand.column.type.layout() == .bytes and !try utf8.is_ascii(operand.all_bytes())) return false;
    return true;
}

/// Bytes that do not continue a character.
pub fn count_characters(bytes: []const u8) usize {
    var continued: usize = 0;
    var i: usize = 0;
    while (i + 16 <= bytes.len) : (i += 16) continued += @popCount(continuations(bytes[i..][0..16].*));
    for (bytes[i..]) |byte| continued += @intFromBool(byte & 0xC0 == 0x80);
    return bytes.len - continued;
}

/// The same of one row of a column, which mostly allows looking at 16 bytes at once.
inline fn count_characters_of(data: []const u8, start: usize, end: usize) usize {
    const size = end - start;
    if (size > 16 or start + 16 > data.len) return count_characters(data[start..end]);
    const inside = (@as(u32, 1) << @intCast(size)) - 1;
    return size - @popCount(continuations(data[start..][0..16].*) & inside);
}

/// A bit for every byte that continues a character. An equality, which is one instruction to LLVM where other
/// comparisons are joined bit by bit.
inline fn continuations(v: @Vector(16, u8)) u32 {
    const V = @Vector(16, u8);
    const mask: u16 = @bitCast((v & @as(V, @splat(0xC0))) == @as(V, @splat(0x80)));
    return mask;
}

/// Bytes of the character that begins at `position`, within the text.
pub inline fn character_size(bytes: []const u8, position: usize) usize {
    const size: usize = switch (bytes[position]) {
        0xC0...0xDF => 2,
        0xE0...0xEF => 3,
        0xF0...0xFF => 4,
        else => 1,
    };
    return @min(size, bytes.len - position);
}

/// Where the character behind `count` others begins; the end of the text if there are fewer.
pub fn skip_characters(bytes: []const u8, start: usize, count: u64) usize {
    var position = start;
    var left = count;
    while (left > 0 and position < bytes.len) : (left -= 1) position += character_size(bytes, position);
    return position;
}

/// Where the last `count` characters begin; 0 if there are fewer.
pub fn skip_characters_back(bytes: []const u8, count: u64) usize {
    var position = bytes.len;
    var left = count;
    while (left > 0 and position > 0) : (left -= 1) {
        position -= 1;
        while (position > 0 and bytes[position] & 0xC0 == 0x80) position -= 1;
    }
    return position;
}

/// The code point that begins at `position`. Wreckage gives some number below 2^21.
pub fn decode(bytes: []const u8, position: usize) u21 {
    const lead = bytes[position];
    const size = character_size(bytes, position);
    var code: u21 = switch (size) {
        1 => return lead,
        2 => lead & 0x1F,
        3 => lead & 0x0F,
        else => lead & 0x07,
    };
    for (bytes[position + 1 ..][0 .. size - 1]) |byte| code = code << 6 | (byte & 0x3F);
    return code;
}

/// Writes a code point; returns how many bytes it took. `target` has room for four.
pub inline fn encode(code: u21, target: []u8) usize {
    if (code < 0x80) {
        target[0] = @intCast(code);
        return 1;
    }
    if (code < 0x800) {
        target[0] = 0xC0 | @as(u8, @intCast(code >> 6));
        target[1] = 0x80 | @as(u8, @truncate(code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        target[0] = 0xE0 | @as(u8, @intCast(code >> 12));
        target[1] = 0x80 | @as(u8, @truncate(code >> 6 & 0x3F));
        target[2] = 0x80 | @as(u8, @truncate(code & 0x3F));
        return 3;
    }
    target[0] = 0xF0 | @as(u8, @truncate(code >> 18 & 7));
    target[1] = 0x80 | @as(u8, @truncate(code >> 12 & 0x3F));
    target[2] = 0x80 | @as(u8, @truncate(code >> 6 & 0x3F));
    target[3] = 0x80 | @as(u8, @truncate(code & 0x3F));
    return 4;
}

/// Short texts by their two halves, which may overlap: a call costs more than they do.
pub inline fn copy(target: []u8, bytes: []const u8) void {
    const size = bytes.len;
    if (size > 16) {
        @memcpy(target[0..size], bytes);
    } else if (size >= 8) {
        const last = bytes[size - 8 ..][0..8].*;
        target[0..8].* = bytes[0..8].*;
        target[size - 8 ..][0..8].* = last;
    } else if (size >= 4) {
        const last = bytes[size - 4 ..][0..4].*;
        target[0..4].* = bytes[0..4].*;
        target[size - 4 ..][0..4].* = last;
    } else if (size > 0) {
        target[0] = bytes[0];
        target[size / 2] = bytes[size / 2];
        target[size - 1] = bytes[size - 1];
    }
}

/// The most bytes of one column that are asked for at once. Offsets have 32 bits, and an arena of the
/// standard library asks for half as much again as it needs, and more: beyond this that would not fit an
/// address of wasm32, and it does not look.
pub const size_max: u64 = 1 << 30;

/// Collects texts row by row. What is written must have been reserved.
pub const Writer = struct {
    arena: std.mem.Allocator,
    offsets: []u32,
    row: usize = 0,
    data: []align(column_module.alignment) u8 = &.{},
    size: usize = 0,

    /// `size`: bytes of all texts together, if the caller knows; more can be reserved later.
    pub fn init(arena: std.mem.Allocator, row_count: u32, size: u64) Error!Writer {
        var self: Writer = .{ .arena = arena, .offsets = try arena.alloc(u32, @as(usize, row_count) + 1) };
        self.offsets[0] = 0;
        try self.grow(size);
        return self;
    }

    fn grow(self: *Writer, more: u64) Error!void {
        const size = more +| self.size +| take.bytes_slack;
        if (size > size_max) return error.OutOfMemory;
        const wanted: u32 = @intCast(size);
        if (wanted <= self.data.len) return;
        try interrupt.check();
        const before = self.data;
        self.data = try self.arena.alignedAlloc(u8, .@"16", @max(wanted, @min(self.data.len *| 2, size_max)));
        @memcpy(self.data[0..self.size], before[0..self.size]);
    }

    pub inline fn reserve(self: *Writer, more: u64) Error!void {
        if (more +| self.size +| take.bytes_slack > self.data.len) try self.grow(more);
    }

    pub inline fn put(self: *Writer, bytes: []const u8) void {
        copy(self.data[self.size..], bytes);
        self.size += bytes.len;
    }

    /// A part of a longer text, which mostly allows reading 16 bytes at once.
    pub inline fn put_part(self: *Writer, source: []const u8, start: usize, size: usize) void {
        take.copy_short(self.data, self.size, source, start, size);
        self.size += size;
    }

    pub inline fn end_row(self: *Writer) void {
        self.row += 1;
        self.offsets[self.row] = @intCast(self.size);
    }

    pub fn finish(self: *Writer, data_type: DataType, validity: ?[]const u8) Column {
        assert(self.row + 1 == self.offsets.len);
        return .{
            .type = data_type,
            .row_count = @intCast(self.row),
            .validity = validity,
            .data = self.data[0..self.size],
            .offsets = self.offsets,
        };
    }
};

/// The bytes of a column whose offsets begin at 0, as every result's do.
pub fn rebased_offsets(arena: std.mem.Allocator, offsets: []const u32) error{OutOfMemory}![]const u32 {
    if (offsets[0] == 0) return offsets;
    const out = try arena.alloc(u32, offsets.len);
    for (out, offsets) |*to, from| to.* = from - offsets[0];
    return out;
}

/// Characters of every text.
pub fn lengths(value: *const Operand, out: []i64) Error!void {
    if (try is_ascii(&.{value.*})) return byte_lengths(value, out);
    if (value.is_constant) {
        @memset(out, @intCast(count_characters(value.bytes_at(0))));
        return;
    }
    const offsets = value.column.offsets;
    for (out, 0..) |*to, row| {
        if (row % block_rows == 0) try interrupt.check();
        to.* = @intCast(count_characters_of(value.column.data, offsets[row], offsets[row + 1]));
    }
}

pub fn byte_lengths(value: *const Operand, out: []i64) void {
    if (value.is_constant) {
        @memset(out, @intCast(value.bytes_at(0).len));
        return;
    }
    const offsets = value.column.offsets;
    for (out, offsets[0..out.len], offsets[1..][0..out.len]) |*to, start, end| to.* = end - start;
}

/// The number of each text's first character, or `none` for the empty text.
pub fn code_points(value: *const Operand, none: i32, out: []i32) void {
    for (out, 0..) |*to, row| {
        const bytes = value.bytes_at(row);
        to.* = if (bytes.len == 0) none else decode(bytes, 0);
    }
}

test count_characters {
    try std.testing.expectEqual(0, count_characters(""));
    try std.testing.expectEqual(5, count_characters("größe"));
    const text = "größe€größe€größe€ab";
    try std.testing.expectEqual(20, count_characters(text));
    for (0..text.len) |start| for (start..text.len) |end| {
        try std.testing.expectEqual(count_characters(text[start..end]), count_characters_of(text, start, end));
    };
}

test "characters forward and back" {
    const text = "aé€😀b";
    const starts = [_]usize{ 0, 1, 3, 6, 10, 11 };
    for (starts, 0..) |start, i| {
        try std.testing.expectEqual(start, skip_characters(text, 0, i));
        try std.testing.expectEqual(start, skip_characters_back(text, starts.len - 1 - i));
    }
    try std.testing.expectEqual(text.len, skip_characters(text, 0, 100));
    try std.testing.expectEqual(0, skip_characters_back(text, 100));
    // A lead byte that promises more than there is.
    try std.testing.expectEqual(2, skip_characters("a\xF0", 0, 2));
    _ = decode("a\xF0\x9F", 1);
}

test "code points both ways" {
    for ([_]u21{ 0, 'a', 0x7F, 0x80, 0x7FF, 0x800, 0xFFFF, 0x10000, 0x10FFFF }) |code| {
        var buffer: [4]u8 = undefined;
        const size = encode(code, &buffer);
        try std.testing.expectEqual(code, decode(buffer[0..size], 0));
        try std.testing.expectEqual(size, character_size(&buffer, 0));
    }
}

test copy {
    const source = "0123456789abcdefghij";
    for (0..source.len + 1) |size| {
        var target: [source.len]u8 = @splat('?');
        copy(&target, source[0..size]);
        try std.testing.expectEqualStrings(source[0..size], target[0..size]);
        for (target[size..]) |byte| try std.testing.expectEqual('?', byte);
    }
}

test Writer {
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    var writer: Writer = try .init(arena.allocator(), 3, 0);
    const long = "a text of more than sixteen bytes";
    for ([_][]const u8{ "one", "", long }) |part| {
        try writer.reserve(part.len);
        writer.put(part);
        writer.end_row();
    }
    const column = writer.finish(.of(.utf8), null);
    try std.testing.expectEqualStrings("one", column.bytes_at(0));
    try std.testing.expectEqualStrings("", column.bytes_at(1));
    try std.testing.expectEqualStrings(long, column.bytes_at(2));
}
