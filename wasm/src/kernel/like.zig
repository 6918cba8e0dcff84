//! LIKE and ILIKE on UTF-8 text.
//!
//! A pattern is compiled once. `%` splits it into segments; a segment is pieces, each some
//! characters to skip (`_`) and a literal:
//!
//!     a_c%__de%f      →      (0 "a")(1 "c")    %    (2 "de")    %    (0 "f")
//!
//! The first segment stands at the start of the text unless the pattern begins with `%`, the last
//! at its end unless the pattern ends with one; each between goes to the first place it fits after
//! its predecessor. The first place is enough, since what follows is a `%` that absorbs the rest.
//! So nothing is ever undone across a `%`, and the time is at most text times pattern. Patterns of
//! one or two plain literals, which are most, skip all this (`Shape`). A search of a cancelled query finds
//! nothing; its caller has to `check`.
//!
//! `_` takes one whole character. A byte that is no part of a well-formed sequence of its lead
//! byte is a character of its own, so any bytes can be matched and no read leaves the text. No
//! continuation byte starts a literal of a valid pattern, hence a literal found bytewise always
//! stands on a character boundary.
//!
//! ILIKE is LIKE of both in lower case. The pattern is folded when it is compiled; ASCII text while it is
//! looked at. Other text must come in lower case.
const std = @import("std");
const bitmap = @import("../core/bitmap.zig");
const compare = @import("compare.zig");
const interrupt = @import("../core/interrupt.zig");
const text_case = @import("text_case.zig");
const Arena = @import("../core/arena.zig").Arena;
const assert = std.debug.assert;

pub const Error = error{
    OutOfMemory,
    /// The pattern ends with its escape.
    InvalidPattern,
};

pub const Options = struct {
    /// One byte of ASCII that makes the next character literal; null or 0: none.
    escape: ?u8 = null,
    ignore_case: bool = false,
};

const Folding = enum { none, ascii };

const Piece = struct {
    /// Characters to skip before the literal.
    skip: u32,
    /// Empty only in the last piece of a segment.
    literal: []const u8,
};

const Segment = []const Piece;

/// What the pattern asks, with the literals in `Matcher.head` and `Matcher.tail`.
pub const Shape = enum {
    /// `%`: everything.
    any,
    /// `head`
    exact,
    /// `head%`
    prefix,
    /// `%tail`
    suffix,
    /// `head%tail`
    prefix_suffix,
    /// `%head%`
    contains,
    /// By segments.
    general,
};

pub const Matcher = struct {
    shape: Shape,
    folding: Folding,
    head: []const u8 = "",
    tail: []const u8 = "",
    segments: []const Segment,
    /// The pattern does not begin, or end, with `%`.
    at_start: bool,
    at_end: bool,

    /// Keeps nothing of `pattern`; what it needs is in `arena`.
    pub fn init(arena: std.mem.Allocator, pattern: []const u8, options: Options) Error!Matcher {
        const folded = if (options.ignore_case) try lower_pattern(arena, pattern) else pattern;
        var compiler: Compiler = try .init(arena, folded.len, options);
        try compiler.run(folded);
        return compiler.finish();
    }

    /// What a text of one literal asks: `exact`, `prefix`, `suffix` or, unless it is empty, `contains`.
    pub fn of_literal(shape: Shape, literal: []const u8) Matcher {
        assert(shape != .contains or literal.len > 0);
        return .{
            .shape = shape,
            .folding = .none,
            .head = literal,
            .tail = literal,
            .segments = &.{},
            .at_start = false,
            .at_end = false,
        };
    }

    pub fn matches(self: *const Matcher, text: []const u8) bool {
        return switch (self.folding) {
            inline else => |folding| switch (self.shape) {
                inline else => |shape| self.matches_shape(folding, shape, text),
            },
        };
    }

    /// out = LIKE, row by row; `offsets` has one more entry than there are rows, and points into
    /// `data`. Whole bytes, bits past the last row zero.
    pub fn match_column(self: *const Matcher, offsets: []const u32, data: []const u8, out: []u8) void {
        assert(offsets.len > 0 and offsets[offsets.len - 1] <= data.len);
        assert(out.len == bitmap.size(offsets.len - 1));
        switch (self.folding) {
            inline else => |folding| switch (self.shape) {
                .contains => match_column_contains(folding, offsets, data, self.head, out),
                inline else => |shape| {
                    const rows: Rows(folding, shape) = .{ .matcher = self, .offsets = offsets, .data = data };
                    compare.pack_rows(offsets.len - 1, rows, false, out);
                },
            },
        }
    }

    /// Bytes that every matching text begins with; empty when nothing is known.
    pub fn literal_prefix(self: *const Matcher) []const u8 {
        if (self.folding != .none or !self.at_start or self.segments.len == 0) return "";
        const first = self.segments[0][0];
        return if (first.skip == 0) first.literal else "";
    }

    inline fn matches_shape(
        self: *const Matcher,
        comptime folding: Folding,
        comptime shape: Shape,
        text: []const u8,
    ) bool {
        const head = self.head;
        const tail = self.tail;
        return switch (shape) {
            .any => true,
            .exact => text.len == head.len and equal_at(folding, text, 0, head),
            .prefix => equal_at(folding, text, 0, head),
            .suffix => ends_with(folding, text, tail),
            .prefix_suffix => text.len >= head.len + tail.len and
                equal_at(folding, text, 0, head) and ends_with(folding, text, tail),
            .contains => find(folding, text, 0, head) != null,
            .general => self.matches_general(folding, text),
        };
    }

    fn matches_general(self: *const Matcher, comptime folding: Folding, text: []const u8) bool {
        var segments = self.segments;
        var position: usize = 0;
        if (self.at_start) {
            position = match_segment(folding, segments[0], text, 0) orelse return false;
            segments = segments[1..];
            // Without any `%` the first segment is also the last.
            if (segments.len == 0) return !self.at_end or position == text.len;
        }
        const middle = if (self.at_end) segments[0 .. segments.len - 1] else segments;
        for (middle) |segment| {
            position = find_segment(folding, segment, text, position) orelse return false;
        }
        if (!self.at_end) return true;
        const start = match_segment_back(folding, segments[segments.len - 1], text) orelse return false;
        return start >= position;
    }
};

fn lower_pattern(arena: std.mem.Allocator, pattern: []const u8) Error![]const u8 {
    const target = try arena.alloc(u8, pattern.len * text_case.growth_max + 16);
    return target[0..text_case.convert_text(.lower, pattern, target)];
}

fn Rows(comptime folding: Folding, comptime shape: Shape) type {
    return struct {
        matcher: *const Matcher,
        offsets: []const u32,
        data: []const u8,

        pub inline fn holds(self: @This(), row: usize) bool {
            return self.matcher.matches_shape(folding, shape, self.data[self.offsets[row]..self.offsets[row + 1]]);
        }
    };
}

/// Reads the pattern from left to right and collects literals, pieces and segments.
const Compiler = struct {
    arena: std.mem.Allocator,
    options: Options,
    /// All literals, one after another; never longer than the pattern, so slices of it hold.
    bytes: []u8,
    byte_count: usize = 0,
    literal_start: usize = 0,
    skip: u32 = 0,
    pieces: std.ArrayList(Piece) = .empty,
    segments: std.ArrayList(Segment) = .empty,
    at_start: bool = true,
    at_end: bool = true,

    fn init(arena: std.mem.Allocator, pattern_size: usize, options: Options) Error!Compiler {
        return .{ .arena = arena, .options = options, .bytes = try arena.alloc(u8, pattern_size) };
    }

    fn run(self: *Compiler, pattern: []const u8) Error!void {
        const fold = self.options.ignore_case;
        var escape = self.options.escape orelse 0;
        if (fold) escape = fold_byte(escape);
        var position: usize = 0;
        while (position < pattern.len) : (position += 1) {
            const byte = if (fold) fold_byte(pattern[position]) else pattern[position];
            if (escape != 0 and byte == escape) { // comes first: the escape may be % or _ itself
                position += 1;
                if (position == pattern.len) return error.InvalidPattern;
                self.add_byte(if (fold) fold_byte(pattern[position]) else pattern[position]);
            } else switch (byte) {
                '%' => try self.add_percent(position),
                '_' => try self.add_skip(),
                else => self.add_byte(byte),
            }
        }
        try self.end_segment();
    }

    fn add_byte(self: *Compiler, byte: u8) void {
        self.bytes[self.byte_count] = byte;
        self.byte_count += 1;
        self.at_end = true;
    }

    fn add_skip(self: *Compiler) Error!void {
        if (self.byte_count > self.literal_start) try self.end_piece();
        self.skip += 1;
        self.at_end = true;
    }

    fn add_percent(self: *Compiler, position: usize) Error!void {
        if (position == 0) self.at_start = false;
        try self.end_segment();
        self.at_end = false;
    }

    fn end_piece(self: *Compiler) Error!void {
        const literal = self.bytes[self.literal_start..self.byte_count];
        try self.pieces.append(self.arena, .{ .skip = self.skip, .literal = literal });
        self.literal_start = self.byte_count;
        self.skip = 0;
    }

    fn end_segment(self: *Compiler) Error!void {
        if (self.byte_count > self.literal_start or self.skip > 0) try self.end_piece();
        if (self.pieces.items.len == 0) return; // `%%` is `%`
        try self.segments.append(self.arena, self.pieces.items);
        self.pieces = .empty;
    }

    fn finish(self: *const Compiler) Matcher {
        var matcher: Matcher = .{
            .shape = .general,
            .folding = if (self.options.ignore_case) .ascii else .none,
            .segments = self.segments.items,
            .at_start = self.at_start,
            .at_end = self.at_end,
        };
        choose_shape(&matcher);
        return matcher;
    }
};

fn choose_shape(matcher: *Matcher) void {
    const segments = matcher.segments;
    if (segments.len == 0) {
        matcher.shape = if (matcher.at_end) .exact else .any; // the empty pattern, or only `%`
        return;
    }
    for (segments) |segment| if (segment.len > 1 or segment[0].skip > 0) return;
    const first = segments[0][0].literal;
    if (segments.len == 1) {
        if (matcher.at_start and matcher.at_end) {
            matcher.shape = .exact;
            matcher.head = first;
        } else if (matcher.at_start) {
            matcher.shape = .prefix;
            matcher.head = first;
        } else if (matcher.at_end) {
            matcher.shape = .suffix;
            matcher.tail = first;
        } else {
            matcher.shape = .contains;
            matcher.head = first;
        }
    } else if (segments.len == 2 and matcher.at_start and matcher.at_end) {
        matcher.shape = .prefix_suffix;
        matcher.head = first;
        matcher.tail = segments[1][0].literal;
    }
}

/// Where the segment ends when it stands at `start`; null when it does not.
fn match_segment(comptime folding: Folding, segment: Segment, text: []const u8, start: usize) ?usize {
    var position = start;
    for (segment) |piece| {
        position = skip_characters(text, position, piece.skip) orelse return null;
        if (!equal_at(folding, text, position, piece.literal)) return null;
        position += piece.literal.len;
    }
    return position;
}

/// Where the segment ends at the first place it fits from `start` on. Characters it skips at its
/// own start may as well be skipped before the `%`, which leaves a literal to search for.
fn find_segment(comptime folding: Folding, segment: Segment, text: []const u8, start: usize) ?usize {
    const first = segment[0];
    var position = skip_characters(text, start, first.skip) orelse return null;
    if (first.literal.len == 0) return position;
    var effort: Effort = .{};
    while (find(folding, text, position, first.literal)) |found| {
        if (match_segment(folding, segment[1..], text, found + first.literal.len)) |end| return end;
        if (effort.is_vain(segment.len)) return null;
        position = found + 1;
    }
    return null;
}

/// Where the segment starts when it ends with the text; null when it does not fit there.
fn match_segment_back(comptime folding: Folding, segment: Segment, text: []const u8) ?usize {
    var end = text.len;
    var index = segment.len;
    while (index > 0) {
        index -= 1;
        const piece = segment[index];
        if (!ends_with(folding, text[0..end], piece.literal)) return null;
        end -= piece.literal.len;
        for (0..piece.skip) |_| {
            if (end == 0) return null;
            end -= character_size_back(text[0..end]);
        }
    }
    return end;
}

fn skip_characters(text: []const u8, start: usize, count: u32) ?usize {
    var position = start;
    for (0..count) |_| {
        if (position >= text.len) return null;
        position += character_size(text[position..]);
    }
    return position;
}

inline fn is_continuation(byte: u8) bool {
    return byte & 0xC0 == 0x80;
}

/// Bytes that a lead byte announces; 1 for a byte that leads nothing.
inline fn announced_size(lead: u8) usize {
    return switch (lead) {
        0xC0...0xDF => 2,
        0xE0...0xEF => 3,
        0xF0...0xF7 => 4,
        else => 1,
    };
}

/// Bytes of the first character of `text`.
inline fn character_size(text: []const u8) usize {
    const size = announced_size(text[0]);
    if (size > text.len) return 1;
    for (text[1..size]) |byte| if (!is_continuation(byte)) return 1;
    return size;
}

/// Bytes of the last character of `text`, the same characters as from the front: a lead byte is
/// never inside a character, so the last one settles it.
fn character_size_back(text: []const u8) usize {
    const size_max = @min(text.len, 4);
    for (1..size_max + 1) |size| {
        const byte = text[text.len - size];
        if (is_continuation(byte)) continue;
        return if (announced_size(byte) == size) size else 1;
    }
    return 1;
}

inline fn fold_byte(byte: u8) u8 {
    return if (byte >= 'A' and byte <= 'Z') byte | 0x20 else byte;
}

fn upper_byte(byte: u8) u8 {
    return if (byte >= 'a' and byte <= 'z') byte & ~@as(u8, 0x20) else byte;
}

/// Literals are folded already; only the text is folded here.
inline fn equal_at(comptime folding: Folding, text: []const u8, position: usize, literal: []const u8) bool {
    if (position > text.len or text.len - position < literal.len) return false;
    const part = text[position..][0..literal.len];
    return switch (folding) {
        .none => compare.equal_bytes(part, literal),
        .ascii => for (part, literal) |byte, wanted| {
            if (fold_byte(byte) != wanted) break false;
        } else true,
    };
}

inline fn ends_with(comptime folding: Folding, text: []const u8, literal: []const u8) bool {
    return text.len >= literal.len and equal_at(folding, text, text.len - literal.len, literal);
}

const lanes = 16;
const Lanes = @Vector(lanes, u8);

/// Where a literal, which is not empty, first stands from `start` on.
pub fn find_bytes(text: []const u8, start: usize, literal: []const u8) ?usize {
    return find(.none, text, start, literal);
}

/// Looks at 16 places at once for the literal's first and last byte, and compares the rest only
/// where both stand: two bytes turn away almost everything, the first alone would let half of a
/// text of few letters through.
fn find(comptime folding: Folding, text: []const u8, start: usize, literal: []const u8) ?usize {
    assert(literal.len > 0);
    if (text.len < literal.len) return null;
    const last = text.len - literal.len; // the last place where it fits
    const ends: Ends = .of(literal);
    var effort: Effort = .{};
    var position = start;
    while (position + lanes <= last + 1) : (position += lanes) {
        var candidates = ends.candidates(folding, text, position);
        while (candidates != 0) : (candidates &= candidates - 1) {
            const place = position + @ctz(candidates);
            if (equal_at(folding, text, place, literal)) return place;
            if (effort.is_vain(literal.len)) return null;
        }
    }
    while (position <= last) : (position += 1) {
        if (equal_at(folding, text, position, literal)) return position;
    }
    return null;
}

/// Counts what a search spends on places that do not fit, which long texts and patterns make much of: one of
/// a cancelled query stops.
const Effort = struct {
    spent: usize = 0,

    const block = 1 << 16;

    inline fn is_vain(self: *Effort, compared: usize) bool {
        self.spent += compared;
        if (self.spent < block) return false;
        self.spent = 0;
        return interrupt.is_cancelled();
    }
};

/// First and last byte of a literal, and their other case.
const Ends = struct {
    first: u8,
    first_upper: u8,
    last: u8,
    last_upper: u8,
    distance: usize,

    fn of(literal: []const u8) Ends {
        const first = literal[0];
        const last = literal[literal.len - 1];
        return .{
            .first = first,
            .first_upper = upper_byte(first),
            .last = last,
            .last_upper = upper_byte(last),
            .distance = literal.len - 1,
        };
    }

    /// One bit for each of the 16 places from `position` on. In differences rather than bools: a
    /// joined mask of bools is no bitmask instruction to LLVM.
    inline fn candidates(self: Ends, comptime folding: Folding, text: []const u8, position: usize) u32 {
        const heads: Lanes = text[position..][0..lanes].*;
        const tails: Lanes = text[position + self.distance ..][0..lanes].*;
        var first = heads ^ @as(Lanes, @splat(self.first));
        var last = tails ^ @as(Lanes, @splat(self.last));
        if (folding == .ascii) {
            first = @min(first, heads ^ @as(Lanes, @splat(self.first_upper)));
            last = @min(last, tails ^ @as(Lanes, @splat(self.last_upper)));
        }
        const equal: u16 = @bitCast((first | last) == @as(Lanes, @splat(0)));
        return equal;
    }
};

/// Searches all rows' bytes as one text: short rows would spend more on starting a search than on
/// searching. A hit that reaches into the next row is none.
fn match_column_contains(
    comptime folding: Folding,
    offsets: []const u32,
    data: []const u8,
    literal: []const u8,
    out: []u8,
) void {
    @memset(out, 0);
    const row_count = offsets.len - 1;
    const text = data[0..offsets[row_count]];
    var row: usize = 0;
    var position: usize = offsets[0];
    while (find(folding, text, position, literal)) |found| {
        while (offsets[row + 1] <= found) row += 1;
        if (found + literal.len <= offsets[row + 1]) {
            bitmap.set(out.ptr, row);
            position = offsets[row + 1];
        } else position = found + 1;
    }
}

const testing = std.testing;

/// Tries everything: `%` skips characters one after another, every choice is undone.
fn twin(pattern: []const u8, escape: u8, text: []const u8) bool {
    if (pattern.len == 0) return text.len == 0;
    if (escape != 0 and pattern[0] == escape) {
        return text.len > 0 and text[0] == pattern[1] and twin(pattern[2..], escape, text[1..]);
    }
    switch (pattern[0]) {
        '%' => {
            var rest = text;
            while (true) {
                if (twin(pattern[1..], escape, rest)) return true;
                if (rest.len == 0) return false;
                rest = rest[character_size(rest)..];
            }
        },
        '_' => return text.len > 0 and twin(pattern[1..], escape, text[character_size(text)..]),
        else => |byte| return text.len > 0 and text[0] == byte and twin(pattern[1..], escape, text[1..]),
    }
}

fn random_text(random: std.Random, parts: []const []const u8, buffer: []u8, count_max: usize) []u8 {
    var size: usize = 0;
    for (0..random.uintAtMost(usize, count_max)) |_| {
        const part = parts[random.uintLessThan(usize, parts.len)];
        @memcpy(buffer[size..][0..part.len], part);
        size += part.len;
    }
    return buffer[0..size];
}

/// A text that fits the pattern, but for what invalid bytes do at its seams.
fn fitting_text(random: std.Random, pattern: []const u8, buffer: []u8) []u8 {
    var size: usize = 0;
    var escaped = false;
    for (pattern) |byte| {
        const wild = !escaped and (byte == '%' or byte == '_');
        escaped = !escaped and byte == '$';
        if (wild) {
            size += random_text(random, &text_parts, buffer[size..], if (byte == '_') 1 else 2).len;
        } else if (!escaped) {
            buffer[size] = byte;
            size += 1;
        }
    }
    return buffer[0..size];
}

fn lower(text: []const u8, buffer: []u8) []u8 {
    for (buffer[0..text.len], text) |*to, from| to.* = fold_byte(from);
    return buffer[0..text.len];
}

const pattern_parts = [_][]const u8{ "%", "%", "_", "a", "b", "A", "é", "😀", "$%", "$_", "$$", "$a", "ab" };
/// Whole characters and the wreckage of some.
const text_parts =
    [_][]const u8{ "a", "b", "a", "b", "A", "B", "é", "😀", "%", "_", "$", "\xC3", "\xA9", "\xF0\x9F", "\x80", "\xFF" };

test "Matcher.matches agrees with trying everything" {
    var prng: std.Random.DefaultPrng = .init(31);
    const random = prng.random();
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    var hits: usize = 0;
    for (0..4000) |_| {
        defer _ = arena.reset(.retain_capacity);
        var buffers: [4][64]u8 = undefined;
        const pattern = random_text(random, &pattern_parts, &buffers[0], 6);
        const plain: Matcher = try .init(arena.allocator(), pattern, .{ .escape = '$' });
        const folded: Matcher = try .init(arena.allocator(), pattern, .{ .escape = '$', .ignore_case = true });
        for (0..6) |_| {
            const fitting = random.boolean();
            const text = if (fitting)
                fitting_text(random, pattern, &buffers[1])
            else
                random_text(random, &text_parts, &buffers[1], 8);
            const expected = twin(pattern, '$', text);
            hits += @intFromBool(expected);
            try testing.expectEqual(expected, plain.matches(text));
            if (expected) try testing.expect(std.mem.startsWith(u8, text, plain.literal_prefix()));
            const folded_expected = twin(lower(pattern, &buffers[2]), '$', lower(text, &buffers[3]));
            try testing.expectEqual(folded_expected, folded.matches(text));
        }
    }
    try testing.expect(hits > 4000);
}

test "Matcher.match_column agrees with Matcher.matches" {
    var prng: std.Random.DefaultPrng = .init(32);
    const random = prng.random();
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const patterns = [_][]const u8{
        "",      "%",  "%%", "ab", "ab%", "%ab", "%ab%", "a%b", "%a%b%", "_b%",
        "%é_%",
        "%aba%", "%b",
    };
    for ([_]usize{ 0, 1, 7, 8, 9, 63, 64, 65, 130 }) |n|
        for (patterns) |pattern| for ([_]bool{ false, true }) |ignore_case| {
            defer _ = arena.reset(.retain_capacity);
            const matcher: Matcher = try .init(arena.allocator(), pattern, .{ .ignore_case = ignore_case });
            var offsets: [131]u32 = undefined;
            var data: [131 * 40]u8 = undefined;
            offsets[0] = 3; // a chunk starts anywhere in its column
            for (0..n) |row| {
                const text = random_text(random, &text_parts, data[offsets[row]..], 9);
                offsets[row + 1] = offsets[row] + @as(u32, @intCast(text.len));
            }
            var out: [18]u8 = @splat(0xA5);
            matcher.match_column(offsets[0 .. n + 1], data[0..offsets[n]], out[0..bitmap.size(n)]);
            for (0..n) |row| {
                try testing.expectEqual(matcher.matches(data[offsets[row]..offsets[row + 1]]), bitmap.get(&out, row));
            }
            for (n..bitmap.size(n) * 8) |row| try testing.expect(!bitmap.get(&out, row));
            try testing.expectEqual(0xA5, out[bitmap.size(n)]);
        };
}

test find {
    var prng: std.Random.DefaultPrng = .init(33);
    const random = prng.random();
    var text: [200]u8 = undefined;
    for (0..3000) |_| {
        for (&text) |*byte| byte.* = "abAB"[random.uintLessThan(usize, 4)];
        const size = random.uintAtMost(usize, text.len);
        var buffer: [20]u8 = undefined;
        const literal = buffer[0..random.intRangeAtMost(usize, 1, buffer.len)];
        for (literal) |*byte| byte.* = "ab"[random.uintLessThan(usize, 2)];
        const start = random.uintAtMost(usize, size);
        try testing.expectEqual(
            std.mem.findPos(u8, text[0..size], start, literal),
            find(.none, text[0..size], start, literal),
        );
        var folded: [200]u8 = undefined;
        const expected = std.mem.findPos(u8, lower(text[0..size], &folded), start, literal);
        try testing.expectEqual(expected, find(.ascii, text[0..size], start, literal));
    }
}

test "shapes and literal_prefix" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const Case = struct { pattern: []const u8, shape: Shape, prefix: []const u8 };
    const cases = [_]Case{
        .{ .pattern = "", .shape = .exact, .prefix = "" },
        .{ .pattern = "%%", .shape = .any, .prefix = "" },
        .{ .pattern = "abc", .shape = .exact, .prefix = "abc" },
        .{ .pattern = "ab%", .shape = .prefix, .prefix = "ab" },
        .{ .pattern = "a$%b%%", .shape = .prefix, .prefix = "a%b" },
        .{ .pattern = "%ab", .shape = .suffix, .prefix = "" },
        .{ .pattern = "%ab%", .shape = .contains, .prefix = "" },
        .{ .pattern = "ab%cd", .shape = .prefix_suffix, .prefix = "ab" },
        .{ .pattern = "ab%c%d", .shape = .general, .prefix = "ab" },
        .{ .pattern = "ab_", .shape = .general, .prefix = "ab" },
        .{ .pattern = "_ab", .shape = .general, .prefix = "" },
    };
    for (cases) |case| {
        const matcher: Matcher = try .init(arena.allocator(), case.pattern, .{ .escape = '$' });
        try testing.expectEqual(case.shape, matcher.shape);
        try testing.expectEqualStrings(case.prefix, matcher.literal_prefix());
    }
    const folded: Matcher = try .init(arena.allocator(), "ab%", .{ .ignore_case = true });
    try testing.expectEqualStrings("", folded.literal_prefix());
}

test "escapes" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    try testing.expectError(error.InvalidPattern, Matcher.init(arena.allocator(), "a$", .{ .escape = '$' }));
    const none: Matcher = try .init(arena.allocator(), "a\\%", .{ .escape = 0 });
    try testing.expect(none.matches("a\\b") and !none.matches("a%"));
    // The escape may be a wildcard, and under ILIKE it has both cases.
    const percent: Matcher = try .init(arena.allocator(), "a%%c", .{ .escape = '%' });
    try testing.expect(percent.matches("a%c") and !percent.matches("abc"));
    const letter: Matcher = try .init(arena.allocator(), "aX%c", .{ .escape = 'x', .ignore_case = true });
    try testing.expect(letter.matches("A%C") and !letter.matches("abc"));
}

test "a pattern of many segments does not explode" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const matcher: Matcher = try .init(arena.allocator(), "%a_a%a_a%a_a%a_a%a_a%a_a%a_a%b", .{});
    const text: [20_000]u8 = @splat('a');
    try testing.expect(!matcher.matches(&text));
    try testing.expect(matcher.matches(text[0..100] ++ "b"));
}

test "any bytes, any pattern: an answer" {
    var prng: std.Random.DefaultPrng = .init(34);
    const random = prng.random();
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    for (0..3000) |_| {
        defer _ = arena.reset(.retain_capacity);
        var pattern: [8]u8 = undefined;
        var text: [24]u8 = undefined;
        for (&pattern) |*byte|
            byte.* = if (random.boolean()) "%_"[random.uintLessThan(usize, 2)] else random.int(u8) | 0x80;
        for (&text) |*byte| byte.* = random.int(u8) | 0x80;
        // On the heap at their exact size, so that a read past the end is seen.
        const exact = try arena.allocator().dupe(u8, text[0..random.uintAtMost(usize, text.len)]);
        const matcher: Matcher = try .init(arena.allocator(), &pattern, .{ .ignore_case = random.boolean() });
        _ = matcher.matches(exact);
    }
}
