//! JSON text in memory → typed columns, one row per object.
//!
//! The text is an array of objects, objects on lines of their own, or one object; anything else at
//! the top is `InvalidFormat`, and so is everything RFC 8259 does not allow, with the one exception
//! that Python makes: the numbers NaN, Infinity and -Infinity. The text is gone over twice without
//! building a tree of values: once to unite the types of all values into a tree of `Node`s, once to
//! append the values to `Builder`s. Recursion ends at `abi.type_depth_max` containers.
//!
//! Columns are the keys of all rows in the order they first appear; a missing key is NULL, of a key
//! that comes twice in one object the last value counts (its type must also hold the others).
//!
//!     only null           null
//!     true, false         bool
//!     integers            i64; u64 when some are past i64, all fit and none is negative; else f64
//!     other numbers       f64, also together with integers
//!     strings             utf8; date, time or timestamp when asked to and every one reads as such
//!     arrays              list of what all elements have in common
//!     objects             structure of the keys of all of them
//!     a mixture           utf8: the JSON text of each value, strings without their quotes
//!     objects without keys, or with more than 65,535     utf8, as a mixture
//!
//! Where we differ from DuckDB 2.0, on purpose:
//!
//!   - integers past i64 are u64 or f64 (there: HUGEINT up to 64 unsigned bits, then f64)
//!   - a mixture is text whose strings lose their quotes (there: JSON)
//!   - duplicate keys are allowed (there: an error), a trailing comma is not
//!   - rows that are null, numbers or arrays are refused, and so are two objects on one line
//!   - objects never become a MAP; rows without any key give rows of no columns
//!   - names that differ in case only are left as they are (there: A, a_1)
//!   - a byte order mark is skipped; spaces around a date make it text; a date among timestamps is
//!     midnight (there: text)
//!
//! With columns given, other keys are read over, and a value that does not fit is `InvalidFormat`.
const std = @import("std");
const abi = @import("../../abi.zig");
const schema = @import("../../core/schema.zig");
const column_module = @import("../../core/column.zig");
const interrupt = @import("../../core/interrupt.zig");
const infer = @import("infer.zig");
const builder_module = @import("builder.zig");
const Options = @import("options.zig").Options;
const Arena = @import("../../core/arena.zig").Arena;
const Cursor = @import("../../core/cursor.zig").Cursor;
const Builder = builder_module.Builder;
const Batch = column_module.Batch;
const Column = column_module.Column;
const DataType = schema.DataType;
const Field = schema.Field;
const Allocator = std.mem.Allocator;
const assert = std.debug.assert;

pub const Error = error{ InvalidFormat, TooLarge, OutOfMemory, Cancelled, NotSupported };

const Layout = abi.JsonLayout;

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

    const check_size = 4096;

    fn tick(self: *Scanner) Error!void {
        if (self.position < self.next_check) return;
        try interrupt.check();
        self.next_check = self.position + check_size;
    }

    fn fail(self: *const Scanner, comptime format: []const u8, arguments: anytype) Error {
        return self.fail_at(self.position, format, arguments);
    }

    fn fail_at(self: *const Scanner, offset: usize, comptime format: []const u8, arguments: anytype) Error {
        interrupt.describe("line {d}: " ++ format, .{infer.line_number(self.text, offset)} ++ arguments);
        interrupt.describe_offset(offset);
        return error.InvalidFormat;
    }

    /// 0 at the end, which no value, key or mark starts with.
    fn peek(self: *const Scanner) u8 {
        return if (self.position < self.text.len) self.text[self.position] else 0;
    }

    fn at_end(self: *const Scanner) bool {
        return self.position == self.text.len;
    }

    pub fn skip_space(self: *Scanner) Error!void {
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
        while (self.peek() -% '0' < 10) : (self.position += 1) try self.tick();
        if (self.position == start) return self.fail("expected a digit", .{});
        return self.position - start;
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
        const unit = hexadecimal(self.text, self.position) orelse return self.fail_at(start, "\\u needs four digits", .{});
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

    fn check_depth(self: *const Scanner, depth: u32) Error!void {
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
const Unescaper = struct {
    text: []const u8,
    position: usize = 0,
    buffer: [4]u8 = undefined,

    fn next(self: *Unescaper) ?[]const u8 {
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

/// Stands at the rows of a text one after the other.
const Rows = struct {
    scanner: Scanner,
    layout: Layout,
    started: bool = false,
    finished: bool = false,

    fn init(text: []const u8, layout: Layout) Error!Rows {
        var self: Rows = .{ .scanner = .{ .text = text }, .layout = layout };
        if (std.mem.startsWith(u8, text, "\xEF\xBB\xBF")) self.scanner.position = 3;
        try self.scanner.skip_space();
        const is_array = self.scanner.peek() == '[';
        if (layout == .unknown) self.layout = if (is_array) .array else .lines;
        if (self.layout == .array and !is_array) return self.scanner.fail("expected '['", .{});
        return self;
    }

    /// Moves to the next row's object; the scanner is behind the one before. false after the last.
    fn next(self: *Rows) Error!bool {
        if (self.finished) return false;
        const more = if (self.layout == .array) try self.next_element() else try self.next_line();
        self.started = true;
        self.finished = !more;
        if (!more) return false;
        if (self.scanner.peek() != '{') return self.scanner.fail("expected an object", .{});
        return true;
    }

    fn next_element(self: *Rows) Error!bool {
        if (if (self.started) try self.scanner.next(']') else try self.scanner.first(']')) return true;
        try self.scanner.skip_space();
        if (!self.scanner.at_end()) return self.scanner.fail("text follows the array", .{});
        return false;
    }

    fn next_line(self: *Rows) Error!bool {
        const start = self.scanner.position;
        try self.scanner.skip_space();
        if (self.scanner.at_end()) return false;
        const between = self.scanner.text[start..self.scanner.position];
        if (!self.started or std.mem.indexOfAny(u8, between, "\r\n") != null) return true;
        return self.scanner.fail("expected the end of the line", .{});
    }
};

/// What was seen of one column, list element or structure field.
const Node = struct {
    boolean: bool = false,
    integer: bool = false,
    float: bool = false,
    string: bool = false,
    array: bool = false,
    object: bool = false,
    negative: bool = false,
    past_i64: bool = false,
    past_u64: bool = false,
    /// More keys than a structure may have.
    too_wide: bool = false,
    string_kinds: infer.Kinds = .calendar,
    element: ?*Node = null,
    fields: std.array_hash_map.String(*Node) = .empty,

    fn note_integer(self: *Node, text: []const u8) void {
        self.integer = true;
        if (text[0] == '-' and text.len > 1 and text[1] != '0') self.negative = true;
        if (text.len <= 18) return;
        const number = infer.scan_number(text) orelse unreachable; // the scanner's grammar is narrower
        if (!number.fits_i64()) self.past_i64 = true;
        if (!number.fits_u64()) self.past_u64 = true;
    }

    fn is_mixture(self: *const Node) bool {
        const count = @as(u8, @intFromBool(self.boolean)) + @intFromBool(self.integer or self.float) +
            @intFromBool(self.string) + @intFromBool(self.array) + @intFromBool(self.object);
        return count > 1 or self.too_wide or (self.object and self.fields.count() == 0);
    }

    /// The type that holds all that was seen. Names are copied to `arena`.
    fn data_type(self: *const Node, arena: Allocator) Error!DataType {
        if (self.is_mixture()) return .of(.utf8);
        if (self.boolean) return .of(.bool);
        if (self.float) return .of(.f64);
        if (self.integer) return .of(self.integer_tag());
        if (self.string) return self.string_kinds.data_type();
        if (self.array) {
            const children = try arena.alloc(Field, 1);
            const element: DataType = if (self.element) |node| try node.data_type(arena) else .of(.null);
            children[0] = .{ .name = "item", .type = element };
            return .{ .tag = .list, .children = children };
        }
        if (self.object) return .{ .tag = .structure, .children = try self.field_types(arena) };
        return .of(.null);
    }

    fn integer_tag(self: *const Node) schema.TypeTag {
        if (!self.past_i64) return .i64;
        return if (self.negative or self.past_u64) .f64 else .u64;
    }

    fn field_types(self: *const Node, arena: Allocator) Error![]const Field {
        const fields = try arena.alloc(Field, self.fields.count());
        for (fields, self.fields.keys(), self.fields.values()) |*field, name, node| {
            if (name.len > std.math.maxInt(u16)) {
                interrupt.describe("a key of {d} bytes", .{name.len});
                return error.TooLarge;
            }
            field.* = .{ .name = try arena.dupe(u8, name), .type = try node.data_type(arena) };
        }
        return fields;
    }
};

/// The first pass: unites the types of all rows. Everything it makes is in `arena`.
const Inference = struct {
    arena: Allocator,
    rows: Rows,
    infer_types: bool,
    row_count: usize = 0,

    fn run(self: *Inference, root: *Node) Error!void {
        root.object = true;
        while (try self.rows.next()) : (self.row_count += 1) try self.object(root, 0);
        if (!root.too_wide) return;
        interrupt.describe("more than {d} columns", .{abi.column_count_max});
        return error.TooLarge;
    }

    fn value(self: *Inference, node: *Node, depth: u32) Error!void {
        const scanner = &self.rows.scanner;
        switch (try scanner.kind()) {
            .array => {
                try scanner.check_depth(depth);
                node.array = true;
                try self.elements(node, depth);
            },
            .object => {
                node.object = true;
                try self.object(node, depth);
            },
            else => self.note_scalar(node, try scanner.scalar()),
        }
    }

    fn elements(self: *Inference, node: *Node, depth: u32) Error!void {
        const scanner = &self.rows.scanner;
        var more = try scanner.first(']');
        if (more and node.element == null) node.element = try self.new_node();
        while (more) : (more = try scanner.next(']')) try self.value(node.element.?, depth + 1);
    }

    fn object(self: *Inference, node: *Node, depth: u32) Error!void {
        const scanner = &self.rows.scanner;
        try scanner.check_depth(depth);
        var more = try scanner.first('}');
        var guess: usize = 0;
        while (more) : (more = try scanner.next('}')) {
            const index = try self.field_index(node, try scanner.key(), guess) orelse {
                try scanner.skip_value(depth + 1);
                continue;
            };
            guess = index + 1;
            try self.value(node.fields.values()[index], depth + 1);
        }
    }

    /// Rows mostly have their keys in the same order, so the one after the last is tried first.
    fn field_index(self: *Inference, node: *Node, name: Scalar, guess: usize) Error!?usize {
        const text = self.rows.scanner.text[name.start..name.end];
        if (!name.escaped and guess < node.fields.count() and std.mem.eql(u8, node.fields.keys()[guess], text)) return guess;
        const decoded = if (name.escaped) try self.decode(text) else text;
        if (node.fields.getIndex(decoded)) |index| return index;
        if (node.fields.count() == abi.column_count_max) {
            node.too_wide = true;
            return null;
        }
        try node.fields.putNoClobber(self.arena, decoded, try self.new_node());
        return node.fields.count() - 1;
    }

    fn new_node(self: *Inference) Error!*Node {
        const node = try self.arena.create(Node);
        node.* = .{};
        return node;
    }

    fn decode(self: *Inference, text: []const u8) Error![]const u8 {
        var decoded: std.ArrayList(u8) = .empty;
        try append_decoded(self.arena, &decoded, text);
        return decoded.items;
    }

    fn note_scalar(self: *Inference, node: *Node, scalar: Scalar) void {
        const text = self.rows.scanner.text[scalar.start..scalar.end];
        switch (scalar.kind) {
            .null => {},
            .boolean => node.boolean = true,
            .integer => node.note_integer(text),
            .float => node.float = true,
            .string => {
                node.string = true;
                if (node.string_kinds.is_none()) return;
                const plain = self.infer_types and !scalar.escaped;
                node.string_kinds = if (plain) infer.recognise(text, node.string_kinds) else .none;
            },
            .array, .object => unreachable,
        }
    }
};

fn append_decoded(gpa: Allocator, target: *std.ArrayList(u8), text: []const u8) Error!void {
    var pieces: Unescaper = .{ .text = text };
    while (pieces.next()) |piece| {
        try interrupt.check();
        try target.appendSlice(gpa, piece);
    }
}

/// A builder with the names of its fields.
const Shape = struct {
    builder: *Builder,
    names: std.array_hash_map.String(void) = .empty,
    children: []Shape = &.{},

    fn init(arena: Allocator, builder: *Builder) Error!Shape {
        var self: Shape = .{ .builder = builder };
        self.children = try arena.alloc(Shape, builder.children.len);
        for (self.children, builder.children) |*child, *child_builder| child.* = try .init(arena, child_builder);
        if (builder.type.tag != .structure) return self;
        try self.names.ensureTotalCapacity(arena, builder.children.len);
        for (builder.type.children) |field| {
            if (!self.names.getOrPutAssumeCapacity(field.name).found_existing) continue;
            interrupt.describe("two columns are called {s}", .{infer.excerpt(field.name)});
            return error.InvalidFormat;
        }
        return self;
    }

    fn find(self: *const Shape, name: []const u8, guess: usize) ?usize {
        const fields = self.builder.type.children;
        if (guess < fields.len and std.mem.eql(u8, fields[guess].name, name)) return guess;
        return self.names.getIndex(name);
    }
};

/// Bytes of text between two looks at how large a batch has become.
const measure_size = 64 * 1024;

pub const Reader = struct {
    gpa: Allocator,
    arena: Arena,
    rows: Rows,
    fields: []const Field,
    /// A structure of all columns: a row is one value of it.
    root: *Builder,
    shape: Shape,
    scratch: std.ArrayList(u8),
    batch_row_limit: u32,

    /// `text` stays alive and unchanged until `deinit`; the options' bytes need not.
    pub fn init(gpa: Allocator, text: []const u8, options: Options) Error!Reader {
        if (try infer.find_invalid_utf8(text)) |offset| {
            return (Scanner{ .text = text }).fail_at(offset, "not valid UTF-8", .{});
        }
        const rows: Rows = try .init(text, options.json_layout);
        var arena: Arena = .init(gpa);
        errdefer arena.deinit();
        const fields = if (options.column_count > 0)
            try builder_module.read_declared(arena.allocator(), options.columns, options.column_count)
        else
            try infer_fields(gpa, arena.allocator(), rows, options.infer_types);
        const root = try arena.allocator().create(Builder);
        root.* = try .init(arena.allocator(), .{ .tag = .structure, .children = fields });
        const shape: Shape = try .init(arena.allocator(), root);
        return .{
            .gpa = gpa,
            .arena = arena,
            .rows = rows,
            .fields = fields,
            .root = root,
            .shape = shape,
            .scratch = .empty,
            .batch_row_limit = builder_module.batch_row_limit(fields),
        };
    }

    pub fn deinit(self: *Reader) void {
        self.root.deinit(self.gpa);
        self.scratch.deinit(self.gpa);
        self.arena.deinit();
        self.* = undefined;
    }

    fn infer_fields(gpa: Allocator, arena: Allocator, rows: Rows, infer_types: bool) Error![]const Field {
        var nodes: Arena = .init(gpa);
        defer nodes.deinit();
        var root: Node = .{};
        var inference: Inference = .{ .arena = nodes.allocator(), .rows = rows, .infer_types = infer_types };
        try inference.run(&root);
        return root.field_types(arena);
    }

    /// The next rows, null when there are none left. The buffers are valid until the next call.
    pub fn next(self: *Reader) Error!?Batch {
        self.root.clear();
        const scanner = &self.rows.scanner;
        var next_measure = scanner.position + measure_size;
        while (self.root.row_count < self.batch_row_limit) {
            if (scanner.position >= next_measure) {
                if (self.root.memory_size() >= builder_module.batch_size_max) break;
                next_measure = scanner.position + measure_size;
            }
            if (!try self.rows.next()) break;
            try self.append_object(&self.shape, 0);
        }
        if (self.root.row_count == 0) return null;
        const column = try self.root.finish(self.gpa);
        return .{ .row_count = column.row_count, .columns = column.children };
    }

    fn append_value(self: *Reader, shape: *const Shape, depth: u32) Error!void {
        const scanner = &self.rows.scanner;
        const start = scanner.position;
        const builder = shape.builder;
        const kind = try scanner.kind();
        if (kind == .array and builder.type.tag == .list) return self.append_list(shape, depth);
        if (kind == .object and builder.type.tag == .structure) return self.append_object(shape, depth);
        if (kind != .array and kind != .object) return self.append_scalar(builder, try scanner.scalar());
        if (builder.type.tag != .utf8) return self.fail_type(builder, start);
        try scanner.skip_value(depth);
        try builder.append_bytes(self.gpa, scanner.text[start..scanner.position]);
    }

    fn append_list(self: *Reader, shape: *const Shape, depth: u32) Error!void {
        const scanner = &self.rows.scanner;
        try scanner.check_depth(depth);
        var more = try scanner.first(']');
        while (more) : (more = try scanner.next(']')) try self.append_value(&shape.children[0], depth + 1);
        try shape.builder.end_list(self.gpa);
    }

    fn append_object(self: *Reader, shape: *const Shape, depth: u32) Error!void {
        const scanner = &self.rows.scanner;
        const row = shape.builder.row_count;
        try scanner.check_depth(depth);
        var more = try scanner.first('}');
        var guess: usize = 0;
        while (more) : (more = try scanner.next('}')) {
            const name = try self.decoded(try scanner.key());
            const index = shape.find(name, guess) orelse {
                try scanner.skip_value(depth + 1);
                continue;
            };
            guess = index + 1;
            const child = &shape.children[index];
            // A key that comes again takes its earlier value back.
            child.builder.truncate(row);
            try self.append_value(child, depth + 1);
        }
        // A wide table takes its time per row, however short the row's text.
        try interrupt.check();
        try shape.builder.end_structure(self.gpa);
    }

    fn append_scalar(self: *Reader, builder: *Builder, scalar: Scalar) Error!void {
        if (scalar.kind == .null) return builder.append_null(self.gpa);
        const text = self.rows.scanner.text[scalar.start..scalar.end];
        if (scalar.escaped and builder.type.tag == .utf8) return self.append_escaped(builder, text);
        if (try builder.append_text(self.gpa, try self.decoded(scalar))) return;
        return self.fail_type(builder, scalar.start);
    }

    fn append_escaped(self: *Reader, builder: *Builder, text: []const u8) Error!void {
        var pieces: Unescaper = .{ .text = text };
        while (pieces.next()) |piece| {
            try interrupt.check();
            try builder.append_piece(self.gpa, piece);
        }
        try builder.end_bytes(self.gpa);
    }

    /// Valid until the next call.
    fn decoded(self: *Reader, scalar: Scalar) Error![]const u8 {
        const text = self.rows.scanner.text[scalar.start..scalar.end];
        if (!scalar.escaped) return text;
        self.scratch.clearRetainingCapacity();
        try append_decoded(self.gpa, &self.scratch, text);
        return self.scratch.items;
    }

    fn fail_type(self: *Reader, builder: *const Builder, offset: usize) Error {
        const scanner = &self.rows.scanner;
        const rest = scanner.text[offset..];
        return scanner.fail_at(offset, "expected a {t}, found {s}", .{ builder.type.tag, infer.excerpt(rest[0..@min(rest.len, 24)]) });
    }
};

/// What a text reads as, in one line: `name:type …` and then each row, nested values as JSON-like
/// text, NULL as ~.
fn render(gpa: Allocator, text: []const u8, options: Options) ![]const u8 {
    var out: std.Io.Writer.Allocating = .init(gpa);
    errdefer out.deinit();
    var reader: Reader = try .init(gpa, text, options);
    defer reader.deinit();
    for (reader.fields, 0..) |field, i| {
        if (i > 0) try out.writer.writeByte(' ');
        try out.writer.print("{s}:", .{field.name});
        try render_type(&out.writer, field.type);
    }
    while (try reader.next()) |batch| for (0..batch.row_count) |row| {
        try out.writer.writeAll(" /");
        for (batch.columns, 0..) |*column, i| {
            assert(column.row_count == batch.row_count);
            try out.writer.writeByte(if (i == 0) ' ' else '|');
            try render_value(&out.writer, column, row);
        }
    };
    return out.toOwnedSlice();
}

fn render_type(writer: *std.Io.Writer, data_type: DataType) !void {
    try writer.print("{t}{s}", .{ data_type.tag, data_type.zone });
    if (data_type.children.len == 0) return;
    try writer.writeByte('(');
    for (data_type.children, 0..) |child, i| {
        if (i > 0) try writer.writeByte(' ');
        if (data_type.tag == .structure) try writer.print("{s}:", .{child.name});
        try render_type(writer, child.type);
    }
    try writer.writeByte(')');
}

fn render_value(writer: *std.Io.Writer, column: *const Column, row: usize) !void {
    if (!column.is_valid(row)) return writer.writeByte('~');
    switch (column.type.layout()) {
        .bytes => try writer.writeAll(column.bytes_at(row)),
        .bits => try writer.print("{}", .{@import("../../core/bitmap.zig").get(column.data.ptr, row)}),
        .i32 => try writer.print("{d}", .{column.values(i32)[row]}),
        .i64 => try writer.print("{d}", .{column.values(i64)[row]}),
        .u64 => try writer.print("{d}", .{column.values(u64)[row]}),
        .f64 => try writer.print("{d}", .{column.values(f64)[row]}),
        .list => {
            try writer.writeByte('[');
            for (column.offsets[row]..column.offsets[row + 1], 0..) |child_row, i| {
                if (i > 0) try writer.writeByte(',');
                try render_value(writer, &column.children[0], child_row);
            }
            try writer.writeByte(']');
        },
        .structure => {
            try writer.writeByte('{');
            for (column.children, 0..) |*child, i| {
                if (i > 0) try writer.writeByte(',');
                try render_value(writer, child, row);
            }
            try writer.writeByte('}');
        },
        else => try writer.writeByte('?'),
    }
}

fn expect_json(expected: []const u8, text: []const u8, options: Options) !void {
    const found = try render(std.testing.allocator, text, options);
    defer std.testing.allocator.free(found);
    try std.testing.expectEqualStrings(expected, found);
}

fn expect_refused(message: []const u8, offset: u64, text: []const u8, options: Options) !void {
    defer interrupt.forget();
    try std.testing.expectError(error.InvalidFormat, render(std.testing.allocator, text, options));
    const detail = &interrupt.control.detail;
    try std.testing.expectEqualStrings(message, detail.message[0..detail.message_size]);
    try std.testing.expectEqual(offset, detail.offset);
}

test "texts that DuckDB reads the same way" {
    const cases = [_][2][]const u8{
        .{ "{\"a\":1}", "a:i64 / 1" },
        .{ "{\"a\":1}\n{\"a\":2}\n", "a:i64 / 1 / 2" },
        .{ " [ {\"a\" : 1 } , {\"b\":2}\n]\n", "a:i64 b:i64 / 1|~ / ~|2" },
        .{ "[{\"a\":null}]", "a:null / ~" },
        .{ "[{\"a\":null},{\"a\":1}]", "a:i64 / ~ / 1" },
        .{ "[{\"a\":true},{\"a\":false}]", "a:bool / true / false" },
        .{ "[{\"a\":1},{\"a\":1.5}]", "a:f64 / 1 / 1.5" },
        .{ "[{\"a\":1.0}]", "a:f64 / 1" },
        .{ "[{\"a\":-0}]", "a:i64 / 0" },
        .{ "[{\"a\":1e400}]", "a:f64 / inf" },
        .{ "[{\"a\":99999999999999999999}]", "a:f64 / 100000000000000000000" },
        .{ "[{\"a\":NaN},{\"a\":Infinity},{\"a\":-Infinity}]", "a:f64 / nan / inf / -inf" },
        .{ "[{\"a\":[1,2]},{\"a\":[1.5]},{\"a\":null}]", "a:list(f64) / [1,2] / [1.5] / ~" },
        .{ "[{\"a\":[null]}]", "a:list(null) / [~]" },
        .{ "[{\"a\":[[1],[2,3]]}]", "a:list(list(i64)) / [[1],[2,3]]" },
        .{ "[{\"a\":{\"b\":1}},{\"a\":{\"c\":\"x\"}}]", "a:structure(b:i64 c:utf8) / {1,~} / {~,x}" },
        .{ "[{\"a\":{\"b\":1}},{}]", "a:structure(b:i64) / {1} / ~" },
        .{ "[{\"a\":\"2020-01-01\"}]", "a:date / 18262" },
        .{ "[{\"a\":\"2020-01-01\"},{\"a\":\"\"}]", "a:utf8 / 2020-01-01 / " },
        .{ "[{\"a\":\"2020-01-01 00:00:00\"}]", "a:timestamp / 1577836800000000" },
        .{ "[{\"a\":\"2020-01-01T00:00:00Z\"}]", "a:timestampUTC / 1577836800000000" },
        .{ "[{\"a\":\"12:00:00\"}]", "a:time / 43200000000" },
        .{ "[{\"a\":\"true\"},{\"a\":\"1\"}]", "a:utf8 / true / 1" },
        .{ "[{\"a\":\"1\"}]", "a:utf8 / 1" },
        .{ "{\"a\":1}\n\n{\"a\":2}", "a:i64 / 1 / 2" },
        .{ "{\"a\":\n1}\n{\"a\":2}", "a:i64 / 1 / 2" },
        .{ "[{\"a\":\"\\u0041\\n\\\"\\/\\\\\\ud83d\\ude00é\"}]", "a:utf8 / A\n\"/\\😀é" },
        .{ "[{\"\\u0061\":1},{\"a\":2}]", "a:i64 / 1 / 2" },
    };
    for (cases) |case| try expect_json(case[1], case[0], .{});
}

test "texts that we read our own way" {
    const cases = [_][2][]const u8{
        .{ "", "" },
        .{ " \n", "" },
        .{ "[]", "" },
        .{ "[{},{}]", " / /" },
        .{ "\xEF\xBB\xBF[{\"a\":1}]", "a:i64 / 1" },
        .{ "[{\"a\":9223372036854775808},{\"a\":18446744073709551615}]", "a:u64 / 9223372036854775808 / 18446744073709551615" },
        .{ "[{\"a\":9223372036854775808},{\"a\":-1}]", "a:f64 / 9223372036854776000 / -1" },
        .{ "[{\"a\":9223372036854775808},{\"a\":0.5}]", "a:f64 / 9223372036854776000 / 0.5" },
        .{ "[{\"a\":1},{\"a\":\"x\"},{\"a\":null}]", "a:utf8 / 1 / x / ~" },
        .{ "[{\"a\":true},{\"a\":1}]", "a:utf8 / true / 1" },
        .{ "[{\"a\":[]}]", "a:list(null) / []" },
        .{ "[{\"a\":[1,\"x\\n\", {\"b\": 2}]}]", "a:list(utf8) / [1,x\n,{\"b\": 2}]" },
        .{ "[{\"a\":[1, 2]},{\"a\":1}]", "a:utf8 / [1, 2] / 1" },
        .{ "[{\"a\":{}},{\"a\":{ }}]", "a:utf8 / {} / { }" },
        .{ "[{\"a\":[{},{\"b\":1}]}]", "a:list(structure(b:i64)) / [{~},{1}]" },
        .{ "[{\"a\":1,\"a\":2}]", "a:i64 / 2" },
        .{ "[{\"a\":[1,2],\"b\":{\"c\":1,\"c\":null},\"a\":[3]},{\"a\":null,\"a\":[]}]", "a:list(i64) b:structure(c:i64) / [3]|{~} / []|~" },
        .{ "[{\"A\":1,\"a\":2}]", "A:i64 a:i64 / 1|2" },
        .{ "[{\"a\":\" 2020-01-01\"}]", "a:utf8 /  2020-01-01" },
        .{ "[{\"\":1}]", ":i64 / 1" },
    };
    for (cases) |case| try expect_json(case[1], case[0], .{});
}

test "options change the reading" {
    try expect_json("a:utf8 / 2020-01-01", "[{\"a\":\"2020-01-01\"}]", .{ .infer_types = false });
    try expect_json("a:i64 / 1", "{\"a\":1}\n", .{ .json_layout = .lines });
    try expect_refused("line 1: expected '['", 0, "{\"a\":1}", .{ .json_layout = .array });
    try expect_refused("line 1: expected an object", 0, "[{\"a\":1}]", .{ .json_layout = .lines });
}

test "columns that the caller names" {
    // a: i32, b: list of f64, c: utf8
    const options: Options = .{ .column_count = 3, .columns = "\x01\x00a\x06\x01\x00b\x18\x00\x01\x00c\x02" };
    const text = "{\"c\":[1, 2],\"x\":[{}],\"a\":\"7\"}\n{\"b\":[1,null,2.5]}\n{\"a\":8,\"c\":1.50}";
    try expect_json("a:i32 b:list(f64) c:utf8 / 7|~|[1, 2] / ~|[1,~,2.5]|~ / 8|~|1.50", text, options);
    try expect_refused("line 1: expected a i32, found 1.5}", 5, "{\"a\":1.5}", options);
    try expect_refused("line 2: expected a i32, found [1]}", 6, "{\"a\":\n[1]}"[0..6] ++ "[1]}", options);
    try expect_refused("line 1: expected a list, found 1}", 5, "{\"b\":1}", options);
    const twice: Options = .{ .column_count = 2, .columns = "\x01\x00a\x06\x01\x00a\x06" };
    try std.testing.expectError(error.InvalidFormat, render(std.testing.allocator, "", twice));
    const binary: Options = .{ .column_count = 1, .columns = "\x01\x00a\x11" };
    try std.testing.expectError(error.NotSupported, render(std.testing.allocator, "", binary));
    interrupt.forget();
}

test "what is wrong is said with its offset" {
    const cases = [_]struct { []const u8, u64, []const u8 }{
        .{ "[1,2]", 1, "line 1: expected an object" },
        .{ "1", 0, "line 1: expected an object" },
        .{ "\"x\"", 0, "line 1: expected an object" },
        .{ "[{\"a\":1},null]", 9, "line 1: expected an object" },
        .{ "[{\"a\":1},]", 9, "line 1: expected an object" },
        .{ "[{\"a\":1,}]", 8, "line 1: expected a key" },
        .{ "[{\"a\":[1,]}]", 9, "line 1: expected a value" },
        .{ "[{\"a\":1}", 8, "line 1: expected ',' or ']'" },
        .{ "[", 1, "line 1: expected an object" },
        .{ "[{\"a\":1}] x", 10, "line 1: text follows the array" },
        .{ "[{\"a\":1}]\n[{\"a\":2}]", 10, "line 2: text follows the array" },
        .{ "{\"a\":1} {\"a\":2}", 8, "line 1: expected the end of the line" },
        .{ "{\"a\":1}{\"a\":2}", 7, "line 1: expected the end of the line" },
        .{ "{\"a\":1}\n{\"a\":", 13, "line 2: expected a value" },
        .{ "{\"a\":1}\n5", 8, "line 2: expected an object" },
        .{ "{\"a\" 1}", 5, "line 1: expected ':'" },
        .{ "{\"a\":1 \"b\":2}", 7, "line 1: expected ',' or '}'" },
        .{ "{a:1}", 1, "line 1: expected a key" },
        .{ "{\"a\":01}", 5, "line 1: a number starts with 0" },
        .{ "{\"a\":-}", 6, "line 1: expected a digit" },
        .{ "{\"a\":1.}", 7, "line 1: expected a digit" },
        .{ "{\"a\":1e+}", 8, "line 1: expected a digit" },
        .{ "{\"a\":.5}", 5, "line 1: expected a value" },
        .{ "{\"a\":+1}", 5, "line 1: expected a value" },
        .{ "{\"a\":0x1}", 6, "line 1: expected ',' or '}'" },
        .{ "{\"a\":tru}", 5, "line 1: expected a value" },
        .{ "{\"a\":nulll}", 9, "line 1: expected ',' or '}'" },
        .{ "{\"a\":-Inf}", 6, "line 1: expected a value" },
        .{ "{\"a\":'x'}", 5, "line 1: expected a value" },
        .{ "{\"a\":\"x", 5, "line 1: a string is not closed" },
        .{ "{\"a\":\"x\\", 7, "line 1: an unknown escape in a string" },
        .{ "{\"a\":\"\\x\"}", 6, "line 1: an unknown escape in a string" },
        .{ "{\"a\":\"\\u12g4\"}", 6, "line 1: \\u needs four digits" },
        .{ "{\"a\":\"\\u12", 6, "line 1: \\u needs four digits" },
        .{ "{\"a\":\"\\ud800\"}", 6, "line 1: half of a surrogate pair" },
        .{ "{\"a\":\"\\ud800\\u0041\"}", 6, "line 1: half of a surrogate pair" },
        .{ "{\"a\":\"\\udc00\"}", 6, "line 1: half of a surrogate pair" },
        .{ "{\"a\":\"x\ty\"}", 7, "line 1: a control character in a string" },
        .{ "{\"a\":\"01234567890123456789\x00\"}", 26, "line 1: a control character in a string" },
        .{ "{\"a\":\"\xFF\"}", 6, "line 1: not valid UTF-8" },
        .{ "{\"a\":1}\n/* x */", 8, "line 2: expected an object" },
    };
    for (cases) |case| try expect_refused(case[2], case[1], case[0], .{});
}

test "depth is bounded" {
    const gpa = std.testing.allocator;
    defer interrupt.forget();
    const max = abi.type_depth_max;
    inline for (.{ max - 1, max, 10_000 }) |count| {
        const open: [count]u8 = @splat('[');
        const close: [count]u8 = @splat(']');
        const text = "{\"a\":" ++ open ++ close ++ "}";
        const skipped: Options = .{ .column_count = 1, .columns = "\x01\x00b\x01" };
        const as_text: Options = .{ .column_count = 1, .columns = "\x01\x00a\x02" };
        for ([_]Options{ .{}, skipped, as_text }) |options| {
            if (count < max) {
                gpa.free(try render(gpa, text, options));
            } else {
                try std.testing.expectError(error.InvalidFormat, render(gpa, text, options));
            }
        }
    }
}

test "limits: keys, columns, digits" {
    defer interrupt.forget();
    const gpa = std.testing.allocator;
    const digits: [infer.number_size_max]u8 = @splat('1');
    gpa.free(try render(gpa, "{\"a\":" ++ digits ++ "}", .{}));
    try std.testing.expectError(error.TooLarge, render(gpa, "{\"a\":1" ++ digits ++ "}", .{}));
    const key: [65_536]u8 = @splat('k');
    try std.testing.expectError(error.TooLarge, render(gpa, "{\"" ++ key ++ "\":1}", .{}));
    var text: std.Io.Writer.Allocating = .init(gpa);
    defer text.deinit();
    for (0..65_536) |i| try text.writer.print("{c}\"{d}\":0", .{ @as(u8, if (i == 0) '{' else ','), i });
    try text.writer.writeAll("}");
    try std.testing.expectError(error.TooLarge, Reader.init(gpa, text.written(), .{}));
    const nested = try std.fmt.allocPrint(gpa, "{{\"a\":{s}}}", .{text.written()});
    defer gpa.free(nested);
    var reader: Reader = try .init(gpa, nested, .{});
    defer reader.deinit();
    try std.testing.expectEqual(.utf8, reader.fields[0].type.tag);
    try std.testing.expectEqualStrings(text.written(), (try reader.next()).?.columns[0].bytes_at(0));
}

test "batches are cut by rows and by size" {
    const gpa = std.testing.allocator;
    var text: std.Io.Writer.Allocating = .init(gpa);
    defer text.deinit();
    for (0..70_000) |i| try text.writer.print("{{\"i\":{d},\"l\":[{d}]}}\n", .{ i, i });
    var reader: Reader = try .init(gpa, text.written(), .{});
    defer reader.deinit();
    var row: i64 = 0;
    for ([_]u32{ 65_536, 4_464 }) |row_count| {
        const batch = (try reader.next()).?;
        try std.testing.expectEqual(row_count, batch.row_count);
        for (0..row_count) |i| {
            try std.testing.expectEqual(row, batch.columns[0].values(i64)[i]);
            try std.testing.expectEqual(row, batch.columns[1].children[0].values(i64)[i]);
            row += 1;
        }
    }
    try std.testing.expectEqual(null, try reader.next());
    text.clearRetainingCapacity();
    const long: [200_000]u8 = @splat('x');
    for (0..100) |_| try text.writer.print("{{\"s\":\"{s}\"}}\n", .{&long});
    var large: Reader = try .init(gpa, text.written(), .{});
    defer large.deinit();
    try std.testing.expectEqual(42, (try large.next()).?.row_count);
    try std.testing.expectEqual(42, (try large.next()).?.row_count);
    try std.testing.expectEqual(16, (try large.next()).?.row_count);
}

test "cancellation is seen" {
    interrupt.control.cancel = 1;
    defer interrupt.control.cancel = 0;
    try std.testing.expectError(error.Cancelled, Reader.init(std.testing.allocator, "[{\"a\":1}]", .{}));
}
