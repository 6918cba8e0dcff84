//! What Brotli's symbols stand for: tables that the RFC draws, computed when the engine is compiled.
const std = @import("std");

pub const command_count = 704;

/// Codes whose ranges follow each other without a gap: the first value of each.
pub fn ladder(comptime count: usize, first: u32, bits: [count]u5) [count]u32 {
    var bases: [count]u32 = undefined;
    var base = first;
    for (&bases, bits) |*target, width| {
        target.* = base;
        base += @as(u32, 1) << width;
    }
    return bases;
}

/// Section 5: one symbol stands for an insert length, a copy length and whether the last distance
/// is meant again.
pub const CommandCode = struct {
    insert_base: u16,
    copy_base: u16,
    insert_bits: u8,
    copy_bits: u8,
    repeats_distance: bool,
};

pub const command_codes: [command_count]CommandCode = codes: {
    @setEvalBranchQuota(10_000);
    const insert_bits: [24]u5 = .{ 0, 0, 0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 7, 8, 9, 10, 12, 14, 24 };
    const copy_bits: [24]u5 = .{ 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 7, 8, 9, 10, 24 };
    const insert_bases = ladder(24, 0, insert_bits);
    const copy_bases = ladder(24, 2, copy_bits);
    // The table of 64-symbol cells: which eights of insert and copy codes each combines.
    const insert_eights = [11]u8{ 0, 0, 0, 0, 1, 1, 0, 2, 1, 2, 2 };
    const copy_eights = [11]u8{ 0, 1, 0, 1, 0, 1, 2, 0, 2, 1, 2 };
    var codes: [command_count]CommandCode = undefined;
    for (&codes, 0..) |*code, symbol| {
        const insert = insert_eights[symbol / 64] * 8 + symbol / 8 % 8;
        const copy = copy_eights[symbol / 64] * 8 + symbol % 8;
        code.* = .{
            .insert_base = insert_bases[insert],
            .copy_base = copy_bases[copy],
            .insert_bits = insert_bits[insert],
            .copy_bits = copy_bits[copy],
            .repeats_distance = symbol < 128,
        };
    }
    break :codes codes;
};

pub const DistanceCode = struct { base: u32, bits: u32 };

/// Section 4, for the symbols from 16 on: first the direct ones, then those with extra bits. What
/// the extra bits say counts in steps of 2^postfix_bits, a step is told by the symbol's last bits.
pub fn distance_code(index: u32, direct_count: u32, postfix_bits: u5) DistanceCode {
    if (index < direct_count) return .{ .base = index + 1, .bits = 0 };
    const rest = index - direct_count;
    const high = rest >> postfix_bits;
    const width: u5 = @intCast(1 + (high >> 1));
    const offset = ((2 + (high & 1)) << width) - 4;
    const step = rest & ((@as(u32, 1) << postfix_bits) - 1);
    return .{ .base = (offset << postfix_bits) + step + direct_count + 1, .bits = width };
}

/// The first 16 distance symbols: a recent distance, or one close to it.
pub const RecentCode = struct { age: u8, delta: i8 };

pub const recent_codes: [16]RecentCode = codes: {
    var codes: [16]RecentCode = undefined;
    for (0..4) |age| codes[age] = .{ .age = age, .delta = 0 };
    for (0..2) |age| for (1..4) |difference| {
        const symbol = 4 + 6 * age + 2 * (difference - 1);
        codes[symbol] = .{ .age = age, .delta = -@as(i8, difference) };
        codes[symbol + 1] = .{ .age = age, .delta = difference };
    };
    break :codes codes;
};

/// Section 7.1: a literal's context is a number for the last byte or'ed with one for the byte
/// before it. Modes: low six bits, high six bits, text in UTF-8, signed numbers.
pub const context_lookups: [4][512]u8 = lookups: {
    @setEvalBranchQuota(10_000);
    var lookups: [4][512]u8 = @splat(@splat(0));
    for (0..256) |byte| {
        lookups[0][byte] = byte & 63;
        lookups[1][byte] = byte >> 2;
        lookups[2][byte] = text_context_last(byte);
        lookups[2][256 + byte] = text_context_before(byte);
        lookups[3][byte] = signed_context(byte) << 3;
        lookups[3][256 + byte] = signed_context(byte);
    }
    break :lookups lookups;
};

fn text_context_last(byte: u8) u8 {
    return switch (byte) {
        '\t', '\n', '\r' => 4,
        0...8, 11, 12, 14...31, 127 => 0,
        ' ' => 8,
        '"', '\'' => 16,
        '%' => 20,
        '(', '<', '[', '{' => 24,
        ')', '>', ']', '}' => 28,
        ',', ':', ';' => 32,
        '.' => 36,
        '=' => 40,
        '0'...'9' => 44,
        'A', 'E', 'I', 'O', 'U' => 48,
        'B'...'D', 'F'...'H', 'J'...'N', 'P'...'T', 'V'...'Z' => 52,
        'a', 'e', 'i', 'o', 'u' => 56,
        'b'...'d', 'f'...'h', 'j'...'n', 'p'...'t', 'v'...'z' => 60,
        128...191 => byte & 1,
        192...255 => 2 | (byte & 1),
        else => 12,
    };
}

fn text_context_before(byte: u8) u8 {
    return switch (byte) {
        0...' ', 127...223 => 0,
        '0'...'9', 'A'...'Z', 224...255 => 2,
        'a'...'z' => 3,
        else => 1,
    };
}

fn signed_context(byte: u8) u8 {
    return switch (byte) {
        0 => 0,
        1...15 => 1,
        16...63 => 2,
        64...127 => 3,
        128...191 => 4,
        192...239 => 5,
        240...254 => 6,
        255 => 7,
    };
}

test "tables carry the checksums of the RFC" {
    const crc = std.hash.Crc32.hash;
    try std.testing.expectEqual(0x8e91efb7, crc(context_lookups[2][0..256]));
    try std.testing.expectEqual(0xd01a32f4, crc(context_lookups[2][256..]));
    try std.testing.expectEqual(0x0dd7a0d6, crc(context_lookups[3][256..]));
    try std.testing.expectEqual(22594, command_codes[7 * 64 + 63].insert_base);
    try std.testing.expectEqual(2118, command_codes[6 * 64 + 7].copy_base);
}

test distance_code {
    // Without gaps: 1, 2, 3 … as the symbols and their extra bits count up.
    for (0..4) |postfix| for ([_]u32{ 0, 1, 15 }) |direct| {
        const postfix_bits: u5 = @intCast(postfix);
        const direct_count = direct << postfix_bits;
        var seen: [4096]bool = @splat(false);
        for (0..direct_count + (@as(u32, 16) << postfix_bits)) |index| {
            const code = distance_code(@intCast(index), direct_count, postfix_bits);
            for (0..@as(usize, 1) << @intCast(code.bits)) |extra| {
                const distance = code.base + (extra << postfix_bits);
                if (distance > seen.len) continue;
                try std.testing.expect(!seen[distance - 1]);
                seen[distance - 1] = true;
            }
        }
        try std.testing.expect(std.mem.allEqual(bool, seen[0..512], true));
    };
}

test recent_codes {
    try std.testing.expectEqual(RecentCode{ .age = 3, .delta = 0 }, recent_codes[3]);
    try std.testing.expectEqual(RecentCode{ .age = 0, .delta = -1 }, recent_codes[4]);
    try std.testing.expectEqual(RecentCode{ .age = 0, .delta = 3 }, recent_codes[9]);
    try std.testing.expectEqual(RecentCode{ .age = 1, .delta = -2 }, recent_codes[12]);
}
