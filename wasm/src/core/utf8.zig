//! Whether text is UTF-8, whole and in its parts.
const std = @import("std");
const interrupt = @import("interrupt.zig");
const Arena = @import("arena.zig").Arena;

/// Bytes of text between two looks at the cancel byte.
const text_block_size = 32 * 1024;

/// Where text is not UTF-8, or where one of `offsets` (which count from `base`) splits a character;
/// null when all is well.
pub fn find_invalid(text: []const u8, offsets: []const u32, base: u32) interrupt.Error!?usize {
    @setRuntimeSafety(true);
    if (try is_ascii(text)) return null;
    if (try find_invalid_block(text)) |position| return position;
    for (offsets, 0..) |offset, row| {
        if (row % interrupt.block_rows == 0) try interrupt.check();
        if (offset - base < text.len and is_continuation(text[offset - base])) return offset - base;
    }
    return null;
}

pub fn is_ascii(text: []const u8) interrupt.Error!bool {
    var position: usize = 0;
    while (position < text.len) : (position += text_block_size) {
        try interrupt.check();
        const end = @min(text.len, position + text_block_size);
        if (!is_ascii_block(text[position..end])) return false;
    }
    return true;
}

fn is_ascii_block(text: []const u8) bool {
    const V = @Vector(16, u8);
    var seen: V = @splat(0);
    var i: usize = 0;
    while (i + 16 <= text.len) : (i += 16) seen |= @as(V, text[i..][0..16].*);
    var all: u8 = @reduce(.Or, seen);
    for (text[i..]) |byte| all |= byte;
    return all < 0x80;
}

/// Where the block begins that is not UTF-8, if there is one. Blocks are cut between characters.
fn find_invalid_block(text: []const u8) interrupt.Error!?usize {
    @setRuntimeSafety(true);
    var position: usize = 0;
    while (position < text.len) {
        try interrupt.check();
        var end = @min(text.len, position + text_block_size);
        // A character has at most three continuation bytes.
        for (0..3) |_| {
            if (end < text.len and is_continuation(text[end])) end -= 1;
        }
        if (!std.unicode.utf8ValidateSlice(text[position..end])) return position;
        position = end;
    }
    return null;
}

fn is_continuation(byte: u8) bool {
    return byte & 0xC0 == 0x80;
}

test "text longer than a block, cut inside characters" {
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    const size = text_block_size * 2 + 100;
    const text = try arena.allocator().alignedAlloc(u8, .@"16", size);
    for ([_][]const u8{ "é", "€", "𝄞" }) |character| {
        for (0..character.len) |shift| {
            @memset(text, 'a');
            for (shift..size) |i| {
                const whole = shift + (size - shift) / character.len * character.len;
                if (i < whole) text[i] = character[(i - shift) % character.len];
            }
            try std.testing.expectEqual(null, try find_invalid_block(text));
            text[text_block_size + 7] = 0xFF;
            try std.testing.expect(try find_invalid_block(text) != null);
        }
    }
    @memset(text, 0x80);
    try std.testing.expect(try find_invalid_block(text) != null);
}
