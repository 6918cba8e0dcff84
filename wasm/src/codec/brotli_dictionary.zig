//! Brotli's static dictionary and the ways its words are altered (RFC 7932, section 8, appendices
//! A and B).
//!
//!     words     all words of 4 bytes, then all of 5 … 24; 2^bits of each length
//!     word id   transform << bits | index of the word among those of its length
//!     result    prefix, word without its first or last few bytes or with upper case, suffix
//!
//! tools/brotli_dictionary.py writes brotli_dictionary.bin before anything is compiled; it is not
//! in the repository.
const std = @import("std");
const assert = std.debug.assert;

const Block = @Vector(16, u8);

pub const word_size_min = 4;
pub const word_size_max = 24;

/// Bytes that `write_word` may touch from its target on, however short the result is.
pub const write_size_max = prefix_size_max + 32;

const words_size = 122_784;
/// Copies are 16 or 32 bytes wide and may begin inside the last word.
const words: [words_size + 32]u8 = @as([words_size]u8, @embedFile("brotli_dictionary.bin").*) ++ @as([32]u8, @splat(0));

const word_count_bits: [word_size_max + 1]u5 =
    .{ 0, 0, 0, 0, 10, 10, 11, 11, 10, 10, 10, 10, 10, 9, 9, 8, 7, 7, 8, 7, 7, 6, 6, 5, 5 };

/// Where the words of a length begin.
const word_offsets: [word_size_max + 1]u32 = offsets: {
    var offsets: [word_size_max + 1]u32 = @splat(0);
    var offset: u32 = 0;
    for (word_size_min..word_size_max + 1) |size| {
        offsets[size] = offset;
        offset += size << word_count_bits[size];
    }
    assert(offset == words_size);
    break :offsets offsets;
};

/// Writes a word, altered as its id says, and returns the size of the result; null if there is no
/// such word.
pub fn write_word(target: [*]u8, word_size: u32, word_id: u32) ?u32 {
    if (word_size < word_size_min or word_size > word_size_max) return null;
    const count_bits = word_count_bits[word_size];
    const transform_index = word_id >> count_bits;
    if (transform_index >= transforms.len) return null;
    const index = word_id & ((@as(u32, 1) << count_bits) - 1);
    return write_transformed(
        target,
        words[word_offsets[word_size] + index * word_size ..].ptr,
        word_size,
        &transforms[transform_index],
    );
}

fn write_transformed(target: [*]u8, word: [*]const u8, word_size: u32, how: *const Transform) u32 {
    target[0..8].* = how.prefix;
    const middle = target + how.prefix_size;
    // Omitting more than there is leaves nothing.
    const size = word_size -| how.change.omit_first -| how.change.omit_last;
    const kept = word + @min(how.change.omit_first, word_size);
    copy_block(middle, kept);
    if (size > 16) copy_block(middle + 16, kept + 16);
    switch (how.change.case) {
        .kept => {},
        .first => _ = raise_case(middle[0..size]),
        .all => {
            var done: u32 = 0;
            while (done < size) done += raise_case(middle[done..size]);
        },
    }
    middle[size..][0..8].* = how.suffix;
    return how.prefix_size + size + how.suffix_size;
}

inline fn copy_block(target: [*]u8, source: [*]const u8) void {
    target[0..16].* = @as(Block, source[0..16].*);
}

/// Upper case the way the format has it: right for ASCII and much of Latin, Greek and Cyrillic,
/// merely a fixed change for others. Returns the bytes that the character takes, which may be more
/// than there are.
fn raise_case(text: []u8) u32 {
    const lead = text[0];
    if (lead < 0xC0) {
        if (lead >= 'a' and lead <= 'z') text[0] ^= 32;
        return 1;
    }
    if (lead < 0xE0) {
        if (text.len > 1) text[1] ^= 32;
        return 2;
    }
    if (text.len > 2) text[2] ^= 5;
    return 3;
}

const Change = struct {
    omit_first: u8 = 0,
    omit_last: u8 = 0,
    case: enum(u8) { kept, first, all } = .kept,
};

const same: Change = .{};
const upper_first: Change = .{ .case = .first };
const upper_all: Change = .{ .case = .all };

fn omit_first(count: u8) Change {
    return .{ .omit_first = count };
}

fn omit_last(count: u8) Change {
    return .{ .omit_last = count };
}

const prefix_size_max = 5;

const Transform = struct {
    prefix: [8]u8,
    suffix: [8]u8,
    prefix_size: u8,
    suffix_size: u8,
    change: Change,
};

fn transform(comptime prefix: []const u8, change: Change, comptime suffix: []const u8) Transform {
    comptime assert(prefix.len <= prefix_size_max and suffix.len <= 8);
    return .{
        .prefix = (prefix ++ @as([8 - prefix.len]u8, @splat(0))).*,
        .suffix = (suffix ++ @as([8 - suffix.len]u8, @splat(0))).*,
        .prefix_size = prefix.len,
        .suffix_size = suffix.len,
        .change = change,
    };
}

/// Appendix B.
const transforms = [121]Transform{
    transform("", same, ""),
    transform("", same, " "),
    transform(" ", same, " "),
    transform("", omit_first(1), ""),
    transform("", upper_first, " "),
    transform("", same, " the "),
    transform(" ", same, ""),
    transform("s ", same, " "),
    transform("", same, " of "),
    transform("", upper_first, ""),
    transform("", same, " and "),
    transform("", omit_first(2), ""),
    transform("", omit_last(1), ""),
    transform(", ", same, " "),
    transform("", same, ", "),
    transform(" ", upper_first, " "),
    transform("", same, " in "),
    transform("", same, " to "),
    transform("e ", same, " "),
    transform("", same, "\""),
    transform("", same, "."),
    transform("", same, "\">"),
    transform("", same, "\n"),
    transform("", omit_last(3), ""),
    transform("", same, "]"),
    transform("", same, " for "),
    transform("", omit_first(3), ""),
    transform("", omit_last(2), ""),
    transform("", same, " a "),
    transform("", same, " that "),
    transform(" ", upper_first, ""),
    transform("", same, ". "),
    transform(".", same, ""),
    transform(" ", same, ", "),
    transform("", omit_first(4), ""),
    transform("", same, " with "),
    transform("", same, "'"),
    transform("", same, " from "),
    transform("", same, " by "),
    transform("", omit_first(5), ""),
    transform("", omit_first(6), ""),
    transform(" the ", same, ""),
    transform("", omit_last(4), ""),
    transform("", same, ". The "),
    transform("", upper_all, ""),
    transform("", same, " on "),
    transform("", same, " as "),
    transform("", same, " is "),
    transform("", omit_last(7), ""),
    transform("", omit_last(1), "ing "),
    transform("", same, "\n\t"),
    transform("", same, ":"),
    transform(" ", same, ". "),
    transform("", same, "ed "),
    transform("", omit_first(9), ""),
    transform("", omit_first(7), ""),
    transform("", omit_last(6), ""),
    transform("", same, "("),
    transform("", upper_first, ", "),
    transform("", omit_last(8), ""),
    transform("", same, " at "),
    transform("", same, "ly "),
    transform(" the ", same, " of "),
    transform("", omit_last(5), ""),
    transform("", omit_last(9), ""),
    transform(" ", upper_first, ", "),
    transform("", upper_first, "\""),
    transform(".", same, "("),
    transform("", upper_all, " "),
    transform("", upper_first, "\">"),
    transform("", same, "=\""),
    transform(" ", same, "."),
    transform(".com/", same, ""),
    transform(" the ", same, " of the "),
    transform("", upper_first, "'"),
    transform("", same, ". This "),
    transform("", same, ","),
    transform(".", same, " "),
    transform("", upper_first, "("),
    transform("", upper_first, "."),
    transform("", same, " not "),
    transform(" ", same, "=\""),
    transform("", same, "er "),
    transform(" ", upper_all, " "),
    transform("", same, "al "),
    transform(" ", upper_all, ""),
    transform("", same, "='"),
    transform("", upper_all, "\""),
    transform("", upper_first, ". "),
    transform(" ", same, "("),
    transform("", same, "ful "),
    transform(" ", upper_first, ". "),
    transform("", same, "ive "),
    transform("", same, "less "),
    transform("", upper_all, "'"),
    transform("", same, "est "),
    transform(" ", upper_first, "."),
    transform("", upper_all, "\">"),
    transform(" ", same, "='"),
    transform("", upper_first, ","),
    transform("", same, "ize "),
    transform("", upper_all, "."),
    transform("\xc2\xa0", same, ""),
    transform(" ", same, ","),
    transform("", upper_first, "=\""),
    transform("", upper_all, "=\""),
    transform("", same, "ous "),
    transform("", upper_all, ", "),
    transform("", upper_first, "='"),
    transform(" ", upper_first, ","),
    transform(" ", upper_all, "=\""),
    transform(" ", upper_all, ", "),
    transform("", upper_all, ","),
    transform("", upper_all, "("),
    transform("", upper_all, ". "),
    transform(" ", upper_all, "."),
    transform("", upper_all, "='"),
    transform(" ", upper_all, ". "),
    transform(" ", upper_first, "=\""),
    transform(" ", upper_all, "='"),
    transform(" ", upper_first, "='"),
};

fn expect_word(expected: []const u8, word_size: u32, word_id: u32) !void {
    var target: [write_size_max]u8 = undefined;
    const size = write_word(&target, word_size, word_id).?;
    try std.testing.expectEqualStrings(expected, target[0..size]);
}

test words {
    try std.testing.expectEqual(0x5136cb04, std.hash.Crc32.hash(words[0..words_size]));
}

test "transforms carry the checksum of appendix B" {
    // Over all prefixes and suffixes, each ended by a zero byte, and the kinds as numbers.
    var crc: std.hash.Crc32 = .init();
    for (transforms) |how| {
        crc.update(how.prefix[0..how.prefix_size]);
        crc.update(&.{ 0, kind_number(how.change) });
        crc.update(how.suffix[0..how.suffix_size]);
        crc.update(&.{0});
    }
    try std.testing.expectEqual(0x3d965f81, crc.final());
}

/// Appendix B numbers them: identity 0, first upper 1, all upper 2, omit first 3 … 11, omit last 12 … 20.
fn kind_number(change: Change) u8 {
    if (change.omit_first > 0) return 2 + change.omit_first;
    if (change.omit_last > 0) return 11 + change.omit_last;
    return @backingInt(change.case);
}

test write_word {
    try expect_word("time", 4, 0);
    try expect_word("TIME", 4, 44 << 10);
    try expect_word(" Time,", 4, 109 << 10);
    try expect_word("", 4, 54 << 10); // without its first nine bytes
    try expect_word("", 4, 59 << 10); // without its last eight
    try expect_word(" the information of the ", 11, 73 << 10 | 5);
    try expect_word("profiling ", 7, 49 << 11);
}

test "no such word" {
    var target: [write_size_max]u8 = undefined;
    try std.testing.expectEqual(null, write_word(&target, 3, 0));
    try std.testing.expectEqual(null, write_word(&target, 25, 0));
    try std.testing.expectEqual(null, write_word(&target, 4, 121 << 10));
    try std.testing.expect(write_word(&target, 24, 121 << 5) == null);
    for (word_size_min..word_size_max + 1) |size| {
        const last = (@as(u32, 121) << word_count_bits[size]) - 1;
        try std.testing.expect(write_word(&target, @intCast(size), last).? <= write_size_max);
    }
}
