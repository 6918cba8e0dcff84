//! JSON's grammar (RFC 8259, and Python's NaN, Infinity, -Infinity), value by value and without a tree.
//!
//! The text is taken to be UTF-8; somebody else looks. Strings and digits are stepped over sixteen bytes at a
//! time, whether anybody wants them or not. Recursion ends at `abi.type_depth_max` containers.
const std = @import("std");
const abi = @import("../../abi.zig");
const failure = @import("failure.zig");
const infer = @import("infer.zig");
const interrupt = @import("../../core/interrupt.zig");
const Allocator = std.mem.Allocator;
const Error = failure.Error;
const Origin = failure.Origin;
const assert = std.debug.assert;

pub const Kind = enum { null, boolean, integer, float, string, array, object };

/// A value that is no container. A string's bytes are those between its quotes.
pub const Scalar = struct {
    kind: Kind,
    start: usize,
    end: usize,
    /// A string with escapes, for `Unescaper`.
    escaped: bool = false,
};

/// Reads JSON's grammar from a text that is known to be UTF-8.
pub const Scanner = struct {
    text: []const u8,
    position: usize = 0,
    next_check: usize = 0,
    origin: Origin = .{},

    const check_size = 4096;

    inline fn tick(self: *Scanner) Error!void {
        if (self.position >= self.next_check) try self.check();
    }

    fn check(self: *Scanner) Error!void {
        try interrupt.check();
        self.next_check = self.position + check_size;
    }

    pub fn fail(self: *const Scanner, comptime format: []const u8, arguments: anytype) Error {
        return self.fail_at(self.position, format, arguments);
    }

    pub fn fail_at(self: *const Scanner, offset: usize, comptime format: []const u8, arguments: anytype) Error {
        return self.origin.fail(self.text, offset, format, arguments);
    }

    /// 0 at the end, which no value, key or mark starts with.
    pub inline fn peek(self: *const Scanner) u8 {
        return if (self.position < self.text.len) self.text[self.position] else 0;
    }

    pub fn at_end(self: *const Scanner) bool {
        return self.position == self.text.len;
    }

    pub inline fn skip_space(self: *Scanner) Error!void {
        if (self.position < self.text.len and self.text[self.position] > ' ') return;
        return self.skip_spaces();
    }

    fn skip_spaces(self: *Scanner) Error!void {
        while (self.position < self.text.len) : (self.position += 1) {
            switch (self.text[self.position]) {
                ' ', '\t', '\n', '\r' => try self.tick(),
                else => return,
            }
        }
    }

    /// What the value at the scanner is, by its first byte.
    pub fn kind(self: *Scanner) Error!Kind {
        try self.tick();
        return switch (self.peek()) {
            '{' => .object,
            '[' => .array,
            '"' => .string,
            't', 'f' => .boolean,
            'n' => .null,
            'N', 'I' => .float,
            // Or a float: `scalar` tells.
            '-', '0'...'9' => .integer,
            else => self.fail("expected a value", .{}),
        };
    }

    /// The value at the scanner, which is neither array nor object; moves behind it.
    pub fn scalar(self: *Scanner) Error!Scalar {
        return switch (self.peek()) {
            '"' => self.string(),
            't' => self.word("true", .boolean),
            'f' => self.word("false", .boolean),
            'n' => self.word("null", .null),
            'N' => self.word("NaN", .float),
            'I' => self.word("Infinity", .float),
            else => self.number(),
        };
    }

    fn word(self: *Scanner, comptime spelling: []const u8, comptime word_kind: Kind) Error!Scalar {
        const start = self.position;
        if (!std.mem.startsWith(u8, self.text[start..], spelling)) return self.fail("expected a value", .{});
        self.position += spelling.len;
        return .{ .kind = word_kind, .start = start, .end = self.position };
    }

    fn number(self: *Scanner) Error!Scalar {
        const start = self.position;
        if (self.peek() == '-') self.position += 1;
        if (self.peek() == 'I') {
            _ = try self.word("Infinity", .float);
            return .{ .kind = .float, .start = start, .end = self.position };
        }
        const leading_zero = self.peek() == '0';
        const whole_count = try self.digits();
        if (leading_zero and whole_count > 1) return self.fail_at(start, "a number starts with 0", .{});
        var number_kind: Kind = .integer;
        if (self.peek() == '.') {
            self.position += 1;
            _ = try self.digits();
            number_kind = .float;
        }
        if (self.peek() | 0x20 == 'e') {
            self.position += 1;
            if (self.peek() == '+' or self.peek() == '-') self.position += 1;
            _ = try self.digits();
            number_kind = .float;
        }
        if (self.position - start > infer.number_size_max) {
            interrupt.describe_offset(start);
            interrupt.describe("a number of more than {d} bytes", .{infer.number_size_max});
            return error.TooLarge;
        }
        return .{ .kind = number_kind, .start = start, .end = self.position };
    }

    /// At least one.
    fn digits(self: *Scanner) Error!usize {
        const start = self.position;
        self.skip_digits();
        if (self.position == start) return self.fail("expected a digit", .{});
        return self.position - start;
    }

    /// Sixteen bytes at a time: most numbers are shorter.
    inline fn skip_digits(self: *Scanner) void {
        const V = @Vector(16, u8);
        while (self.text.len - self.position >= 16) : (self.position += 16) {
            const block: V = self.text[self.position..][0..16].*;
            const others = bits(block -% @as(V, @splat('0')) > @as(V, @splat(9)));
            if (others == 0) continue;
            self.position += @ctz(others);
            return;
        }
        while (self.position < self.text.len and self.text[self.position] -% '0' < 10) self.position += 1;
    }

    /// Checks escapes and surrogate pairs, so that `Unescaper` need not.
    pub fn string(self: *Scanner) Error!Scalar {
        assert(self.peek() == '"');
        const open = self.position;
        self.position += 1;
        var escaped = false;
        while (true) {
            try self.skip_plain();
            switch (self.peek()) {
                '"' => break,
                '\\' => {
                    escaped = true;
                    try self.skip_escape();
                },
                else => {
                    if (self.at_end()) return self.fail_at(open, "a string is not closed", .{});
                    return self.fail("a control character in a string", .{});
                },
            }
        }
        self.position += 1;
        return .{ .kind = .string, .start = open + 1, .end = self.position - 1, .escaped = escaped };
    }

    /// Up to the next quote, backslash or control character, 16 bytes at a time.
    fn skip_plain(self: *Scanner) Error!void {
        const V = @Vector(16, u8);
        while (self.text.len - self.position >= 16) : (self.position += 16) {
            try self.tick();
            const block: V = self.text[self.position..][0..16].*;
            const found = bits(block == @as(V, @splat('"'))) | bits(block == @as(V, @splat('\\'))) |
                bits(block < @as(V, @splat(0x20)));
            if (found == 0) continue;
            self.position += @ctz(found);
            return;
        }
        while (self.position < self.text.len) : (self.position += 1) {
            const byte = self.text[self.position];
            if (byte == '"' or byte == '\\' or byte < 0x20) return;
        }
    }

    fn skip_escape(self: *Scanner) Error!void {
        const start = self.position;
        try self.tick();
        self.position += 1;
        const byte = self.peek();
        self.position += 1;
        switch (byte) {
            '"', '\\', '/', 'b', 'f', 'n', 'r', 't' => return,
            'u' => {},
            else => return self.fail_at(start, "an unknown escape in a string", .{}),
        }
        const unit = hexadecimal(self.text, self.position) orelse
            return self.fail_at(start, "\\u needs four digits", .{});
        self.position += 4;
        if (!std.unicode.utf16IsHighSurrogate(unit)) {
            if (std.unicode.utf16IsLowSurrogate(unit)) return self.fail_at(start, "half of a surrogate pair", .{});
            return;
        }
        const pair = std.mem.startsWith(u8, self.text[self.position..], "\\u");
        const low = if (pair) hexadecimal(self.text, self.position + 2) else null;
        if (!std.unicode.utf16IsLowSurrogate(low orelse 0)) return self.fail_at(start, "half of a surrogate pair", .{});
        self.position += 6;
    }

    /// Enters an array or object; true when it has something in it.
    pub fn first(self: *Scanner, close: u8) Error!bool {
        self.position += 1;
        try self.skip_space();
        if (self.peek() != close) return true;
        self.position += 1;
        return false;
    }

    /// Behind an element: true when another one follows.
    pub fn next(self: *Scanner, close: u8) Error!bool {
        try self.skip_space();
        const byte = self.peek();
        if (byte != ',' and byte != close) return self.fail("expected ',' or '{c}'", .{close});
        self.position += 1;
        if (byte == close) return false;
        try self.skip_space();
        return true;
    }

    /// A key and its colon; the scanner is then at the value.
    pub fn key(self: *Scanner) Error!Scalar {
        if (self.peek() != '"') return self.fail("expected a key", .{});
        const name = try self.string();
        try self.skip_space();
        if (self.peek() != ':') return self.fail("expected ':'", .{});
        self.position += 1;
        try self.skip_space();
        return name;
    }

    /// `depth`: the containers around the value.
    pub fn skip_value(self: *Scanner, depth: u32) Error!void {
        switch (try self.kind()) {
            .array => {
                try self.check_depth(depth);
                var more = try self.first(']');
                while (more) : (more = try self.next(']')) try self.skip_value(depth + 1);
            },
            .object => {
                try self.check_depth(depth);
                var more = try self.first('}');
                while (more) : (more = try self.next('}')) {
                    _ = try self.key();
                    try self.skip_value(depth + 1);
                }
            },
            else => _ = try self.scalar(),
        }
    }

    pub fn check_depth(self: *const Scanner, depth: u32) Error!void {
        if (depth < abi.type_depth_max) return;
        return self.fail("nested deeper than {d}", .{abi.type_depth_max});
    }
};

inline fn bits(lanes: @Vector(16, bool)) u16 {
    return @bitCast(lanes);
}

fn hexadecimal(text: []const u8, start: usize) ?u16 {
    if (text.len - start < 4) return null;
    var value: u16 = 0;
    for (text[start..][0..4]) |byte| {
        const digit = std.fmt.charToDigit(byte, 16) catch return null;
        value = value << 4 | digit;
    }
    return value;
}

/// The stretches of a checked string, escapes resolved.
pub const Unescaper = struct {
    text: []const u8,
    position: usize = 0,
    buffer: [4]u8 = undefined,

    pub fn next(self: *Unescaper) ?[]const u8 {
        if (self.position == self.text.len) return null;
        const start = self.position;
        if (self.text[start] == '\\') return self.escape();
        self.position = std.mem.indexOfScalarPos(u8, self.text, start, '\\') orelse self.text.len;
        return self.text[start..self.position];
    }

    fn escape(self: *Unescaper) []const u8 {
        const letter = self.text[self.position + 1];
        self.position += 2;
        self.buffer[0] = switch (letter) {
            'b' => 0x08,
            'f' => 0x0C,
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => return self.escape_unicode(),
            else => letter,
        };
        return self.buffer[0..1];
    }

    fn escape_unicode(self: *Unescaper) []const u8 {
        const unit = hexadecimal(self.text, self.position).?;
        self.position += 4;
        var code_point: u21 = unit;
        if (std.unicode.utf16IsHighSurrogate(unit)) {
            const low = hexadecimal(self.text, self.position + 2).?;
            self.position += 6;
            code_point = 0x10000 + ((@as(u21, unit) & 0x3FF) << 10 | (low & 0x3FF));
        }
        const size = std.unicode.utf8Encode(code_point, &self.buffer) catch unreachable; // no surrogates left
        return self.buffer[0..size];
    }
};

pub fn append_decoded(gpa: Allocator, target: *std.ArrayList(u8), text: []const u8) Error!void {
    var pieces: Unescaper = .{ .text = text };
    while (pieces.next()) |piece| {
        try interrupt.check();
        try target.appendSlice(gpa, piece);
    }
}
