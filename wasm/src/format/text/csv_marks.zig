//! The marks of ordinary CSV rows, 64 bytes at a time: where every field ends.
//!
//!     a,b\n"c,""d",e\n  →  1 3 | 11 13        a row of n fields has n marks, and the last one ends a line
//!
//! Bytes are compared with the delimiter, LF, CR and the quote, sixteen at once, and become masks of 64 bits. A
//! prefix of exclusive ors over the mask of quotes says which bytes are inside of quotes: marks there are text.
//! That is right only while quotes stand where they should: an opening one behind a mark, a closing one before
//! a mark, and doubled ones inside. A block where they do not ends the search, and the row there is read by
//! tokenizer.zig; so are rows with another number of marks.
//!
//! What is found is where marks are, never what a field means, so that the caller may skip columns without
//! looking at them.
const std = @import("std");
const interrupt = @import("../../core/interrupt.zig");
const Dialect = @import("tokenizer.zig").Dialect;
const assert = std.debug.assert;

const V = @Vector(16, u8);
const block_size = 64;
/// Bytes between two looks at the cancel byte.
const check_size = 64 * 1024;
/// Marks of a block.
pub const slack = block_size;

/// Rows found by `find`: `rows × column_count` marks behind the first entry, which is the byte before them.
pub const Found = struct {
    row_count: u32,
    /// Some byte that was looked at is not ASCII.
    has_high: bool,
    /// All that was looked at was ordinary: more rows may follow, or the last one is not complete.
    is_regular: bool,
};

/// Where a row's field lies between its marks.
pub inline fn field_start(marks: []const u32, column_count: usize, row: usize, column: usize) usize {
    return marks[row * column_count + column] +% 1;
}

pub inline fn field_end(marks: []const u32, column_count: usize, row: usize, column: usize) usize {
    return marks[row * column_count + column + 1];
}

/// What carries over from one block to the next.
const Carry = struct {
    /// All ones inside of quotes.
    inside: u64 = 0,
    /// The last byte was a mark or a closing quote: an opening one may follow.
    opens: u64 = 1,
    /// The last byte was a closing quote: a mark or another quote must follow.
    closed: u64 = 0,
};

/// Marks from `start` on, where a row begins, until about `mark_limit` were found, the text ends or something
/// is not ordinary. `marks` has room for `mark_limit + slack` and one before them.
pub fn find(
    text: []const u8,
    start: usize,
    dialect: Dialect,
    column_count: usize,
    marks: []u32,
    mark_limit: usize,
    is_last: bool,
) interrupt.Error!Found {
    assert(column_count > 0 and marks.len >= mark_limit + slack + 1);
    assert(text.len <= std.math.maxInt(u32));
    if (dialect.escape_is_own()) return .{ .row_count = 0, .has_high = false, .is_regular = false };
    const found = if (dialect.quote == 0)
        try find_marks(false, text, start, dialect, marks, mark_limit, is_last)
    else
        try find_marks(true, text, start, dialect, marks, mark_limit, is_last);
    return count_rows(text, column_count, marks, found);
}

const Marks = struct { count: usize, line_count: usize, has_high: bool, is_regular: bool };

fn find_marks(
    comptime has_quote: bool,
    text: []const u8,
    start: usize,
    dialect: Dialect,
    marks: []u32,
    mark_limit: usize,
    is_last: bool,
) interrupt.Error!Marks {
    const delimiter: V = @splat(dialect.delimiter);
    const quote: V = @splat(dialect.quote);
    const line_feed: V = @splat('\n');
    const carriage_return: V = @splat('\r');
    marks[0] = @as(u32, @intCast(start)) -% 1;
    var count: usize = 0;
    var line_count: usize = 0;
    var high: V = @splat(0);
    var carry: Carry = .{};
    var at = start;
    var next_check = start;
    const is_regular = while (at < text.len and count < mark_limit) : (at += block_size) {
        if (at >= next_check) {
            try interrupt.check();
            next_check = at + check_size;
        }
        var padded: [block_size]u8 = undefined;
        const left = text.len - at;
        const block: *const [block_size]u8 = if (left >= block_size) text[at..][0..block_size] else pad: {
            padded = @splat(0);
            @memcpy(padded[0..left], text[at..]);
            break :pad &padded;
        };
        var delimiters: u64 = 0;
        var lines: u64 = 0;
        var odd: @Vector(16, bool) = @splat(false);
        inline for (0..4) |i| {
            const bytes: V = block[i * 16 ..][0..16].*;
            high |= bytes;
            delimiters |= @as(u64, bits(bytes == delimiter)) << (i * 16);
            lines |= @as(u64, bits(bytes == line_feed)) << (i * 16);
            odd = odd | (bytes == carriage_return);
            if (has_quote) odd = odd | (bytes == quote);
        }
        if (left < block_size) {
            const used = (@as(u64, 1) << @intCast(left)) - 1;
            delimiters &= used; // a delimiter of 0 is none
            lines &= used;
        }
        var found = delimiters | lines;
        if (@reduce(.Or, odd) or carry.inside != 0 or carry.closed != 0) {
            const returns = mask_of(block, carriage_return);
            const quotes = if (has_quote) mask_of(block, quote) else 0;
            const is_end = left <= block_size;
            const next_byte: u8 = if (is_end) 0 else text[at + block_size];
            // CR LF ends at its LF. What stands behind the last CR of a text that goes on is not known.
            const followed = lines >> 1 | @as(u64, @intFromBool(next_byte == '\n')) << 63;
            var ends = returns & ~followed;
            if (is_end and !is_last and left > 0) ends &= ~(@as(u64, 1) << @intCast(left - 1));
            const inside = prefix_xor(quotes) ^ carry.inside;
            const opening = quotes & inside;
            const closing = quotes & ~inside;
            const marked = (delimiters | lines | returns) & ~inside;
            const may_open = (marked | closing) << 1 | carry.opens;
            const must_end = closing << 1 | carry.closed;
            const used: u64 = if (left >= block_size) ~@as(u64, 0) else (@as(u64, 1) << @intCast(left)) - 1;
            if ((opening & ~may_open) | (must_end & ~(marked | opening) & used) != 0) break false;
            carry = .{
                .inside = @as(u64, 0) -% (inside >> 63),
                .opens = (marked | closing) >> 63,
                .closed = closing >> 63,
            };
            lines = (lines | ends) & ~inside;
            found = (delimiters & ~inside) | lines;
        } else carry.opens = found >> 63;
        line_count += @popCount(lines);
        while (found != 0) : (found &= found - 1) {
            count += 1;
            marks[count] = @intCast(at + @ctz(found));
        }
    } else true;
    return .{
        .count = count,
        .line_count = line_count,
        .has_high = @reduce(.Max, high) >= 0x80,
        .is_regular = is_regular,
    };
}

inline fn mask_of(block: *const [block_size]u8, byte: V) u64 {
    var mask: u64 = 0;
    inline for (0..4) |i| mask |= @as(u64, bits(@as(V, block[i * 16 ..][0..16].*) == byte)) << (i * 16);
    return mask;
}

inline fn bits(lanes: @Vector(16, bool)) u16 {
    return @bitCast(lanes);
}

/// Every bit becomes the parity of the bits up to it.
inline fn prefix_xor(mask: u64) u64 {
    var parity = mask;
    inline for (.{ 1, 2, 4, 8, 16, 32 }) |shift| parity ^= parity << shift;
    return parity;
}

/// Rows in front of which all have as many marks as there are columns. If every n-th mark ends a line and there
/// are no other line ends, that is so.
fn count_rows(text: []const u8, column_count: usize, marks: []const u32, found: Marks) Found {
    const most = found.count / column_count;
    var rows: usize = 0;
    while (rows < most and is_line_end(text[marks[(rows + 1) * column_count]])) rows += 1;
    const is_regular = rows == most and found.line_count == rows;
    if (!is_regular) rows = count_rows_slowly(text, column_count, marks, rows);
    return .{ .row_count = @intCast(rows), .has_high = found.has_high, .is_regular = is_regular and found.is_regular };
}

fn count_rows_slowly(text: []const u8, column_count: usize, marks: []const u32, most: usize) usize {
    for (0..most) |row| for (marks[row * column_count + 1 ..][0 .. column_count - 1]) |mark| {
        if (is_line_end(text[mark])) return row;
    };
    return most;
}

inline fn is_line_end(byte: u8) bool {
    return byte == '\n' or byte == '\r';
}

test "marks agree with the tokenizer" {
    const tokenizer_module = @import("tokenizer.zig");
    defer interrupt.forget();
    const dialect: Dialect = .{ .delimiter = ',', .quote = '"', .escape = 0 };
    var prng: std.Random.DefaultPrng = .init(11);
    const random = prng.random();
    var buffer: [400]u8 = undefined;
    var marks: [400 + slack]u32 = undefined;
    var seen: usize = 0;
    for (0..20_000) |i| {
        var size: usize = 0;
        const column_count = 1 + i % 3;
        var column: usize = 0;
        while (size < i % 300) {
            const words = [_][]const u8{
                "a", "bcd", "\"\"", "\"x,y\"", "\"l\nm\"", "\"q\"\"r\"", "12345678901234567890", "\"", " ",
                "é",
            };
            const word = words[random.uintLessThan(usize, if (i % 3 == 0) words.len else words.len - 3)];
            @memcpy(buffer[size..][0..word.len], word);
            size += word.len;
            const ends = [_][]const u8{ ",", ",", ",", "\n", "\r\n", "\r" };
            column += 1;
            var end = if (column % column_count == 0) ends[3 + i / 7 % 3] else ",";
            if (random.uintLessThan(usize, 40) == 0) end = ends[random.uintLessThan(usize, ends.len)];
            @memcpy(buffer[size..][0..end.len], end);
            size += end.len;
        }
        const text = buffer[0..size];
        const is_last = random.boolean();
        const found = try find(text, 0, dialect, column_count, &marks, 300, is_last);
        seen += found.row_count;
        var tokenizer: tokenizer_module.Tokenizer = try .init(text, 0, dialect);
        for (0..found.row_count) |row| for (0..column_count) |field| {
            var span: tokenizer_module.Span = undefined;
            const end = try tokenizer.next_field(&span);
            try std.testing.expectEqual(
                @as(tokenizer_module.FieldEnd, if (field + 1 == column_count) .line else .delimiter),
                end,
            );
            var from = field_start(&marks, column_count, row, field);
            var to = field_end(&marks, column_count, row, field);
            if (end == .line and to > from and text[to] == '\n' and text[to - 1] == '\r') to -= 1;
            if (span.quoted) {
                from += 1;
                to -= 1;
            }
            try std.testing.expectEqual(span.start, from);
            try std.testing.expectEqual(span.end, to);
        };
        if (found.row_count > 0) {
            try std.testing.expectEqual(tokenizer.position, marks[found.row_count * column_count] + 1);
        }
    }
    try std.testing.expect(seen > 10_000);
}
