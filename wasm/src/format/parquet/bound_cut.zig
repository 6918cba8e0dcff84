//! Bounds of byte arrays cut short: a minimum to a prefix, a maximum to the shortest string above all
//! that begin with the prefix. Both stay bounds, neither is exact any more. Text stays text.
const std = @import("std");
const metadata = @import("metadata.zig");
const Leaf = metadata.Leaf;
const assert = std.debug.assert;

/// Bytes of a bound of a byte array; longer ones are cut.
pub const bound_size_max = 64;

pub fn is_cut_needed(bound: ?[]const u8) bool {
    return if (bound) |bytes| bytes.len > bound_size_max else false;
}

/// Prefixes are bounds where values are compared as bytes, from the first one on.
fn may_cut(leaf: *const Leaf, deprecated: bool) bool {
    return leaf.physical == .byte_array and leaf.conversion == .none and !deprecated;
}

pub fn cut_min(leaf: *const Leaf, deprecated: bool, min: []const u8) ?[]const u8 {
    return if (may_cut(leaf, deprecated)) prefix_of(leaf, min) else null;
}

/// A bound of text stays text: it ends with a whole character.
fn prefix_of(leaf: *const Leaf, bytes: []const u8) []const u8 {
    assert(bytes.len > bound_size_max);
    var size: usize = bound_size_max;
    if (leaf.type.tag == .utf8) while (size > 0 and is_inside_character(bytes[size])) {
        size -= 1;
    };
    return bytes[0..size];
}

fn is_inside_character(byte: u8) bool {
    return byte & 0xC0 == 0x80;
}

/// An incremented character may be a byte longer than it was.
pub const CutBuffer = [bound_size_max + 4]u8;

/// The shortest string above all that begin with the prefix, or null when there is none.
pub fn cut_max(leaf: *const Leaf, deprecated: bool, max: []const u8, buffer: *CutBuffer) ?[]const u8 {
    if (!may_cut(leaf, deprecated)) return null;
    const prefix = prefix_of(leaf, max);
    @memcpy(buffer[0..prefix.len], prefix);
    return if (leaf.type.tag == .utf8) increment_text(buffer, prefix.len) else increment_bytes(buffer, prefix.len);
}

fn increment_bytes(buffer: *CutBuffer, prefix_size: usize) ?[]const u8 {
    var size = prefix_size;
    while (size > 0 and buffer[size - 1] == 0xFF) size -= 1;
    if (size == 0) return null;
    buffer[size - 1] += 1;
    return buffer[0..size];
}

fn increment_text(buffer: *CutBuffer, prefix_size: usize) ?[]const u8 {
    var end = prefix_size;
    while (end > 0) {
        var start = end - 1;
        while (start > 0 and is_inside_character(buffer[start])) start -= 1;
        const character = decode_character(buffer[start..end]) orelse return null;
        // The numbers between are no characters.
        const next: u21 = if (character == 0xD7FF) 0xE000 else character + 1;
        if (next <= 0x10FFFF) {
            const size = std.unicode.utf8Encode(next, buffer[start..]) catch return null;
            return buffer[0 .. start + size];
        }
        end = start;
    }
    return null;
}

fn decode_character(bytes: []const u8) ?u21 {
    if (!std.unicode.utf8ValidateSlice(bytes)) return null;
    var view = (std.unicode.Utf8View.initUnchecked(bytes)).iterator();
    return view.nextCodepoint();
}

test cut_max {
    const testing = std.testing;
    const a: [100]u8 = @splat('a');
    const full: [65]u8 = @splat(0xFF);
    var buffer: CutBuffer = undefined;
    const binary: Leaf = .{ .physical = .byte_array, .max_definition = 0, .max_repetition = 0, .type = .of(.binary) };
    try testing.expectEqualStrings("b", cut_max(&binary, false, "a" ++ full[0..64], &buffer).?);
    try testing.expectEqual(null, cut_max(&binary, false, &full, &buffer));
    try testing.expectEqual(null, cut_max(&binary, true, &a, &buffer));
}
