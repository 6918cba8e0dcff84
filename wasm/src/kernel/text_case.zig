//! Lower and upper case of text.
//!
//! tools/unicode_case.py makes unicode_case.bin of what Python knows of letters, before anything is
//! compiled, and draws its layout. Text of ASCII alone, which most is, never looks at it.
const std = @import("std");
const interrupt = @import("../core/interrupt.zig");
const text = @import("text.zig");
const utf8 = @import("../core/utf8.zig");
const Arena = @import("../core/arena.zig").Arena;
const Column = @import("../core/column.zig").Column;
const Error = text.Error;
const Writer = text.Writer;

pub const Case = enum { lower, upper };

const Table = struct {
    blocks: []const u8,
    numbers: []const u8,
    distances: []const u8,
    size: usize,

    fn parse(comptime bytes: []const u8) Table {
        const block_count = std.mem.readInt(u16, bytes[0..2], .little);
        const numbers = 8 + @as(usize, block_count);
        const distances = numbers + @as(usize, std.mem.readInt(u16, bytes[2..4], .little)) * 64;
        const size = distances + @as(usize, std.mem.readInt(u16, bytes[4..6], .little)) * 4;
        return .{
            .blocks = bytes[8..numbers],
            .numbers = bytes[numbers..distances],
            .distances = bytes[distances..size],
            .size = size,
        };
    }
};

const file = @embedFile("unicode_case.bin");
const lower_table: Table = .parse(file);
const upper_table: Table = .parse(file[lower_table.size..]);

/// The other case of a code point, or itself.
pub fn map(comptime case: Case, code: u21) u21 {
    const table = comptime if (case == .lower) lower_table else upper_table;
    const block = code >> 6;
    if (block >= table.blocks.len) return code;
    const number = table.numbers[@as(usize, table.blocks[block]) * 64 + (code & 63)];
    const distance = std.mem.readInt(i32, table.distances[@as(usize, number) * 4 ..][0..4], .little);
    return @intCast(@as(i32, code) + distance);
}

/// One more byte for every two: ⱥ has two bytes and Ⱥ three, and no letter grows by more.
pub const growth_max = 2;

/// A column of text in one case.
pub fn convert(comptime case: Case, arena: std.mem.Allocator, column: *const Column) Error!Column {
    const offsets = column.offsets[0 .. @as(usize, column.row_count) + 1];
    const all = column.data[offsets[0]..offsets[column.row_count]];
    if (try utf8.is_ascii(all)) {
        const data = try arena.alignedAlloc(u8, .@"16", all.len);
        try convert_ascii(case, all, data);
        return .{
            .type = column.type,
            .row_count = column.row_count,
            .validity = column.validity,
            .data = data,
            .offsets = try text.rebased_offsets(arena, offsets),
        };
    }
    var writer: Writer = try .init(arena, column.row_count, all.len);
    for (0..column.row_count) |row| {
        if (row % text.block_rows == 0) try interrupt.check();
        const bytes = column.bytes_at(row);
        try writer.reserve(@as(u64, bytes.len) * growth_max);
        writer.size += convert_text(case, bytes, writer.data[writer.size..]);
        writer.end_row();
    }
    return writer.finish(column.type, column.validity);
}

fn convert_ascii(comptime case: Case, source: []const u8, target: []u8) Error!void {
    const V = @Vector(16, u8);
    const first: u8 = if (case == .lower) 'A' else 'a';
    var i: usize = 0;
    while (i + 16 <= source.len) : (i += 16) {
        if (i % (1 << 20) == 0) try interrupt.check();
        const v: V = source[i..][0..16].*;
        const letters = v -% @as(V, @splat(first)) < @as(V, @splat(26));
        target[i..][0..16].* = @select(u8, letters, v ^ @as(V, @splat(0x20)), v);
    }
    for (source[i..], target[i..]) |byte, *to| to.* = if (byte -% first < 26) byte ^ 0x20 else byte;
}

/// Writes one text; returns its size. `target` has room for `growth_max` times the text, and a little.
pub fn convert_text(comptime case: Case, bytes: []const u8, target: []u8) usize {
    const first: u8 = if (case == .lower) 'A' else 'a';
    var position: usize = 0;
    var size: usize = 0;
    while (position < bytes.len) {
        const byte = bytes[position];
        if (byte < 0x80) {
            target[size] = if (byte -% first < 26) byte ^ 0x20 else byte;
            size += 1;
            position += 1;
            continue;
        }
        const length = text.character_size(bytes, position);
        const code = text.decode(bytes, position);
        const other = map(case, code);
        if (other == code) { // wreckage stays as it is, too
            for (target[size..][0..length], bytes[position..][0..length]) |*to, from| to.* = from;
            size += length;
        } else size += text.encode(other, target[size..]);
        position += length;
    }
    return size;
}

test map {
    try std.testing.expectEqual('a', map(.lower, 'A'));
    try std.testing.expectEqual('Z', map(.upper, 'z'));
    try std.testing.expectEqual('i', map(.lower, 0x130)); // İ
    try std.testing.expectEqual(0x1E9E, map(.upper, 0xDF)); // ß
    try std.testing.expectEqual(0x1C4, map(.upper, 0x1C6)); // ǆ
    try std.testing.expectEqual(0xFB01, map(.upper, 0xFB01)); // ﬁ
    try std.testing.expectEqual(0x10FFFF, map(.upper, 0x10FFFF));
    try std.testing.expectEqual(0x1FFFFF, map(.lower, 0x1FFFFF));
}

test "no letter grows beyond the room for it" {
    for (0..0x110000) |number| {
        const code: u21 = @intCast(number);
        var buffer: [4]u8 = undefined;
        const size = text.encode(code, &buffer);
        inline for (.{ Case.lower, Case.upper }) |case| {
            try std.testing.expect(text.encode(map(case, code), &buffer) <= size * growth_max);
        }
    }
}

test convert {
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    const letters = "Größe ǅ ΣΑΣ ıⱥⱥⱥⱥⱥ abcXYZ01";
    const mixed: [letters.len]u8 align(16) = letters.*;
    const whole: Column = .{ .type = .of(.utf8), .row_count = 1, .data = &mixed, .offsets = &.{ 0, mixed.len } };
    const upper = try convert(.upper, arena.allocator(), &whole);
    try std.testing.expectEqualStrings("GRÖẞE Ǆ ΣΑΣ IȺȺȺȺȺ ABCXYZ01", upper.bytes_at(0));
    const ascii: [40]u8 align(16) = "abcdefghijklmnopqrstuvwxyz[`{@ABCXYZ 019".*;
    const part: Column = .{ .type = .of(.utf8), .row_count = 2, .data = &ascii, .offsets = &.{ 3, 30, 40 } };
    const up = try convert(.upper, arena.allocator(), &part);
    try std.testing.expectEqualStrings("DEFGHIJKLMNOPQRSTUVWXYZ[`{@", up.bytes_at(0)[0..27]);
    const low = try convert(.lower, arena.allocator(), &part);
    try std.testing.expectEqualStrings("abcxyz 019", low.bytes_at(1));
}

test "any bytes: an answer within bounds" {
    var prng: std.Random.DefaultPrng = .init(51);
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    for (0..500) |_| {
        defer _ = arena.reset(.retain_capacity);
        const bytes = try arena.allocator().alignedAlloc(u8, .@"16", prng.random().uintAtMost(usize, 40));
        for (bytes) |*byte| byte.* = prng.random().int(u8) | 0x80;
        const column: Column = .{ .type = .of(.utf8), .row_count = 1, .data = bytes, .offsets = &.{
            0,
            @intCast(bytes.len),
        } };
        _ = try convert(.upper, arena.allocator(), &column);
        _ = try convert(.lower, arena.allocator(), &column);
    }
}
