//! Cuts CSV text into fields, one mark after the other: the careful way, for any text.
//!
//!     record    = field (delimiter field)*      ends with LF, CR LF, CR or the end of the text
//!     field     = spaces* quote (any | quote quote)* quote spaces*  |  anything else
//!
//! 64 bytes at a time become a mask of the bytes that mean something (delimiter, quote, escape, CR, LF), and
//! fields are read off that mask. csv_marks.zig finds the fields of ordinary rows faster; what it finds odd
//! comes here, as do heads of files and the search for types.
const std = @import("std");
const interrupt = @import("../../core/interrupt.zig");
const failure = @import("failure.zig");
const Arena = @import("../../core/arena.zig").Arena;
const Allocator = std.mem.Allocator;
const Error = failure.Error;
const Origin = failure.Origin;
const assert = std.debug.assert;

/// The marks of one text, settled.
pub const Dialect = struct {
    delimiter: u8,
    quote: u8,
    escape: u8,

    pub fn escape_is_own(self: Dialect) bool {
        return self.quote != 0 and self.escape != 0 and self.escape != self.quote;
    }
};

/// A field's bytes in the text, without its quotes.
pub const Span = struct {
    start: usize,
    end: usize,
    quoted: bool = false,
    /// Holds doubled quotes or escapes that `unescape` removes.
    escaped: bool = false,

    pub fn is_empty(self: Span) bool {
        return self.start == self.end;
    }
};

pub const FieldEnd = enum { delimiter, line, text };

/// Cuts text into fields. Reads on from `position`; copies are cheap and independent.
pub const Tokenizer = struct {
    text: []const u8,
    dialect: Dialect,
    position: usize,
    /// Start of the block that `mask` is about.
    block: usize,
    /// Bytes of the block that mean something and were not handed out yet.
    mask: u64,
    origin: Origin = .{},
    /// The text's end was looked at: were there more of it, the last field might be another one.
    hit_end: bool = false,

    const block_size = 64;
    const check_size = 4096;

    pub fn init(text: []const u8, start: usize, dialect: Dialect) Error!Tokenizer {
        var self: Tokenizer = .{ .text = text, .dialect = dialect, .position = start, .block = start, .mask = 0 };
        try self.load();
        return self;
    }

    pub fn at_end(self: *const Tokenizer) bool {
        return self.position >= self.text.len;
    }

    fn load(self: *Tokenizer) Error!void {
        if (self.block >= self.text.len) return;
        if (self.block % check_size < block_size) try interrupt.check();
        const rest = self.text[self.block..];
        if (rest.len >= block_size) {
            self.mask = marks(rest[0..block_size], self.dialect);
            return;
        }
        var padded: [block_size]u8 = @splat(0);
        @memcpy(padded[0..rest.len], rest);
        const used = (@as(u64, 1) << @intCast(rest.len)) - 1;
        self.mask = marks(&padded, self.dialect) & used;
    }

    /// Position of the next mark, or the text's length.
    inline fn next_mark(self: *Tokenizer) Error!usize {
        while (self.mask == 0) {
            if (self.text.len - self.block <= block_size) {
                self.hit_end = true;
                return self.text.len;
            }
            self.block += block_size;
            try self.load();
        }
        const at = self.block + @ctz(self.mask);
        self.mask &= self.mask - 1;
        return at;
    }

    /// Forgets the mark at `at`, if there is one; no mark before it is left.
    fn drop_mark(self: *Tokenizer, at: usize) Error!void {
        while (self.mask == 0) {
            if (self.text.len - self.block <= block_size) return;
            self.block += block_size;
            try self.load();
        }
        if (self.block + @ctz(self.mask) == at) self.mask &= self.mask - 1;
    }

    pub inline fn next_field(self: *Tokenizer, span: *Span) Error!FieldEnd {
        const start = self.position;
        var first_mark = true;
        while (true) : (first_mark = false) {
            const at = try self.next_mark();
            span.* = .{ .start = start, .end = at };
            if (at == self.text.len) return self.end_text();
            const byte = self.text[at];
            if (byte == self.dialect.delimiter) {
                self.position = at + 1;
                return .delimiter;
            }
            if (byte == '\n' or byte == '\r') return self.end_line(at);
            // An escape or a quote in the middle of an unquoted field is an ordinary byte.
            if (first_mark and byte == self.dialect.quote and is_spaces(self.text[start..at]))
                return self.quoted_field(at, span);
        }
    }

    fn end_text(self: *Tokenizer) FieldEnd {
        self.position = self.text.len;
        return .text;
    }

    fn end_line(self: *Tokenizer, at: usize) Error!FieldEnd {
        self.position = at + 1;
        if (self.text[at] != '\r') return .line;
        if (self.position == self.text.len) {
            self.hit_end = true;
        } else if (self.text[self.position] == '\n') {
            try self.drop_mark(self.position);
            self.position += 1;
        }
        return .line;
    }

    fn quoted_field(self: *Tokenizer, open: usize, span: *Span) Error!FieldEnd {
        const quote = self.dialect.quote;
        const escape = self.dialect.escape;
        span.* = .{ .start = open + 1, .end = undefined, .quoted = true };
        while (true) {
            const at = try self.next_mark();
            if (at == self.text.len) return self.origin.fail(self.text, open, "a quote is not closed", .{});
            const byte = self.text[at];
            if (byte == escape and escape != 0 and escape != quote) {
                span.escaped = true;
                try self.drop_mark(at + 1);
            } else if (byte == quote) {
                const doubled = !self.dialect.escape_is_own() and at + 1 < self.text.len and self.text[at + 1] == quote;
                if (!doubled) {
                    span.end = at;
                    return self.end_quoted(at + 1);
                }
                span.escaped = true;
                try self.drop_mark(at + 1);
            }
        }
    }

    /// Only spaces may stand between a closing quote and the end of the field.
    fn end_quoted(self: *Tokenizer, after: usize) Error!FieldEnd {
        const at = try self.next_mark();
        const byte = if (at < self.text.len) self.text[at] else '\n';
        const ends = byte == self.dialect.delimiter or byte == '\n' or byte == '\r';
        if (!ends or !is_spaces(self.text[after..at]))
            return self.origin.fail(self.text, after, "text follows a closing quote", .{});
        if (at == self.text.len) return self.end_text();
        if (byte != self.dialect.delimiter) return self.end_line(at);
        self.position = at + 1;
        return .delimiter;
    }

    /// Steps over one line end at the start of a record; false when there is none.
    pub fn skip_blank_line(self: *Tokenizer) Error!bool {
        if (self.at_end()) return false;
        const byte = self.text[self.position];
        if (byte != '\n' and byte != '\r') return false;
        const at = try self.next_mark();
        assert(at == self.position);
        _ = try self.end_line(at);
        return true;
    }

    pub fn skip_blank_lines(self: *Tokenizer) Error!void {
        while (try self.skip_blank_line()) {}
    }
};

fn marks(block: *const [Tokenizer.block_size]u8, dialect: Dialect) u64 {
    const V = @Vector(16, u8);
    const delimiter: V = @splat(dialect.delimiter);
    // Without a quote or an escape the delimiter is compared again: no byte may match 0.
    const quote: V = @splat(if (dialect.quote != 0) dialect.quote else dialect.delimiter);
    const escape: V = @splat(if (dialect.escape_is_own()) dialect.escape else dialect.delimiter);
    const line_feed: V = @splat('\n');
    const carriage_return: V = @splat('\r');
    var mask: u64 = 0;
    inline for (0..Tokenizer.block_size / 16) |i| {
        const bytes: V = block[i * 16 ..][0..16].*;
        const lines = bits(bytes == line_feed) | bits(bytes == carriage_return);
        const found = lines | bits(bytes == delimiter) | bits(bytes == quote) | bits(bytes == escape);
        mask |= @as(u64, found) << (i * 16);
    }
    return mask;
}

inline fn bits(lanes: @Vector(16, bool)) u16 {
    return @bitCast(lanes);
}

fn is_spaces(text: []const u8) bool {
    for (text) |byte| if (byte != ' ') return false;
    return true;
}

/// Calls `visit(context, column, span)` for each field of the next record. The tokenizer stands at
/// a record's start, not at the end of the text. `column_count` fields, or an error.
pub fn read_record(tokenizer: *Tokenizer, column_count: usize, context: anytype, comptime visit: anytype) Error!void {
    const start = tokenizer.position;
    var column: usize = 0;
    var span: Span = undefined;
    while (column < column_count) {
        const end = try tokenizer.next_field(&span);
        try visit(context, column, span);
        column += 1;
        if (end == .delimiter) continue;
        if (column == column_count) return;
        return fail_count(tokenizer, start, column_count, column);
    }
    // A delimiter followed the last field: only an empty one may come.
    const end = try tokenizer.next_field(&span);
    if (end != .delimiter and !span.quoted and span.is_empty()) return;
    column += 1;
    if (end == .delimiter) column += try count_fields(tokenizer);
    return fail_count(tokenizer, start, column_count, column);
}

fn count_fields(tokenizer: *Tokenizer) Error!usize {
    var span: Span = undefined;
    var count: usize = 1;
    while (try tokenizer.next_field(&span) == .delimiter) count += 1;
    return count;
}

fn fail_count(tokenizer: *const Tokenizer, offset: usize, expected: usize, found: usize) Error {
    return tokenizer.origin.fail(tokenizer.text, offset, "expected {d} fields, found {d}", .{ expected, found });
}

/// The stretches of a quoted field between the bytes that escaping added.
pub const Pieces = struct {
    text: []const u8,
    dialect: Dialect,
    position: usize = 0,
    /// The byte at `position` was escaped and stands for itself.
    literal: bool = false,

    pub fn next(self: *Pieces) ?[]const u8 {
        if (self.position >= self.text.len) return null;
        const start = self.position;
        const escape = if (self.dialect.escape_is_own()) self.dialect.escape else self.dialect.quote;
        var search = start + @intFromBool(self.literal);
        while (std.mem.indexOfScalarPos(u8, self.text, search, escape)) |at| : (search = at + 1) {
            if (at + 1 == self.text.len) break;
            const escaped = self.text[at + 1];
            // An escape before any other byte is kept: dropping it would lose what was written.
            if (escaped != self.dialect.quote and escaped != escape) continue;
            self.position = at + 1;
            self.literal = true;
            return self.text[start..at];
        }
        self.position = self.text.len;
        return self.text[start..];
    }
};

pub fn unescape(arena: Allocator, text: []const u8, dialect: Dialect) error{OutOfMemory}![]const u8 {
    var result: std.ArrayList(u8) = .empty;
    var pieces: Pieces = .{ .text = text, .dialect = dialect };
    while (pieces.next()) |piece| try result.appendSlice(arena, piece);
    return result.items;
}

/// The same grammar, byte by byte.
fn scalar_fields(gpa: Allocator, text: []const u8, dialect: Dialect, out: *std.ArrayList([]const u8)) !void {
    var position: usize = 0;
    while (position <= text.len) {
        var value: std.ArrayList(u8) = .empty;
        var start = position;
        while (start < text.len and text[start] == ' ') start += 1;
        if (start < text.len and text[start] == dialect.quote) {
            position = start + 1;
            while (true) : (position += 1) {
                if (position >= text.len) return error.InvalidFormat;
                if (text[position] == dialect.quote) {
                    if (position + 1 >= text.len or text[position + 1] != dialect.quote) break;
                    position += 1;
                }
                try value.append(gpa, text[position]);
            }
            position += 1;
            while (position < text.len and text[position] == ' ') position += 1;
        } else {
            while (position < text.len and
                std.mem.indexOfScalar(u8, ",\r\n", text[position]) == null) : (position += 1)
            {
                try value.append(gpa, text[position]);
            }
        }
        try out.append(gpa, value.items);
        if (position == text.len) return;
        if (std.mem.indexOfScalar(u8, ",\r\n", text[position]) == null) return error.InvalidFormat;
        if (text[position] == '\r' and position + 1 < text.len and text[position + 1] == '\n') position += 1;
        const was_line = text[position] != ',';
        position += 1;
        if (was_line and position == text.len) return;
    }
}

test "the tokenizer agrees with a byte by byte one" {
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    defer interrupt.forget();
    const dialect: Dialect = .{ .delimiter = ',', .quote = '"', .escape = 0 };
    var prng: std.Random.DefaultPrng = .init(6);
    const random = prng.random();
    var buffer: [300]u8 = undefined;
    for (0..3000) |i| {
        _ = arena.reset(.retain_capacity);
        const text = buffer[0 .. i % 290];
        const alphabet = if (i % 2 == 0) "aaaaaaaaaaaaaaab,\n \"\r" else "ab,\"";
        for (text) |*byte| byte.* = alphabet[random.uintLessThan(usize, alphabet.len)];
        var expected: std.ArrayList([]const u8) = .empty;
        const scalar = scalar_fields(arena.allocator(), text, dialect, &expected);
        var tokenizer: Tokenizer = try .init(text, 0, dialect);
        var count: usize = 0;
        var end: FieldEnd = .line;
        const vector = while (text.len > 0) : (count += 1) {
            var span: Span = undefined;
            end = tokenizer.next_field(&span) catch |err| break err;
            var value = text[span.start..span.end];
            if (span.escaped) value = @constCast(try unescape(arena.allocator(), value, dialect));
            try std.testing.expectEqualStrings(expected.items[count], value);
            if (end == .text or (end == .line and tokenizer.at_end())) break {};
        } else {};
        if (scalar) |_| try vector else |err| try std.testing.expectError(err, @as(Error!void, vector));
        if (text.len > 0 and count + 1 < expected.items.len)
            try std.testing.expect(if (vector) |_| false else |_| true);
    }
}
