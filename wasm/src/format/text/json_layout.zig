//! The columns of JSON rows, and their types: the types of all values that were seen, united.
//!
//! Text in memory is looked at as a whole; of a file only the head is, and its last row may be cut. What was
//! seen of a cut row counts all the same.
const std = @import("std");
const abi = @import("../../abi.zig");
const failure = @import("failure.zig");
const infer = @import("infer.zig");
const interrupt = @import("../../core/interrupt.zig");
const json_scanner = @import("json_scanner.zig");
const schema = @import("../../core/schema.zig");
const Arena = @import("../../core/arena.zig").Arena;
const Allocator = std.mem.Allocator;
const DataType = schema.DataType;
const Error = failure.Error;
const Field = schema.Field;
const Layout = abi.JsonLayout;
const Scalar = json_scanner.Scalar;
const Scanner = json_scanner.Scanner;
const append_decoded = json_scanner.append_decoded;

/// What is wrong so close to the end of a cut text may be right with the bytes that follow: a surrogate pair has
/// twelve, and a scanner stands before it.
pub const cut_size = 16;

pub const Found = struct { fields: []const Field, row_count: usize };

pub const Options = struct {
    infer_types: bool,
    is_whole: bool = true,
    row_count_max: usize = std.math.maxInt(usize),
};

/// Columns in the order in which their names first appear, copied to `arena`.
pub fn find(gpa: Allocator, arena: Allocator, steps: Steps, options: Options) Error!Found {
    var nodes: Arena = .init(gpa);
    defer nodes.deinit();
    var root: Node = .{};
    var inference: Inference = .{
        .arena = nodes.allocator(),
        .steps = steps,
        .infer_types = options.infer_types,
        .is_whole = options.is_whole,
        .row_count_max = options.row_count_max,
    };
    try inference.run(&root);
    return .{ .fields = try root.field_types(arena), .row_count = inference.row_count };
}

/// Stands at the rows of a text one after the other.
pub const Steps = struct {
    scanner: Scanner,
    layout: Layout,
    started: bool = false,
    finished: bool = false,

    pub fn init(text: []const u8, layout: Layout) Error!Steps {
        var self: Steps = .{ .scanner = .{ .text = text }, .layout = layout };
        if (std.mem.startsWith(u8, text, "\xEF\xBB\xBF")) self.scanner.position = 3;
        try self.scanner.skip_space();
        const is_array = self.scanner.peek() == '[';
        if (layout == .unknown) self.layout = if (is_array) .array else .lines;
        if (self.layout == .array and !is_array) return self.scanner.fail("expected '['", .{});
        return self;
    }

    /// Moves to the next row's object; the scanner is behind the one before. false after the last.
    pub fn next(self: *Steps) Error!bool {
        if (self.finished) return false;
        const more = if (self.layout == .array) try self.next_element() else try self.next_line();
        self.started = true;
        self.finished = !more;
        if (!more) return false;
        if (self.scanner.peek() != '{') return self.scanner.fail("expected an object", .{});
        return true;
    }

    fn next_element(self: *Steps) Error!bool {
        if (if (self.started) try self.scanner.next(']') else try self.scanner.first(']')) return true;
        try self.scanner.skip_space();
        if (!self.scanner.at_end()) return self.scanner.fail("text follows the array", .{});
        return false;
    }

    fn next_line(self: *Steps) Error!bool {
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
    steps: Steps,
    infer_types: bool,
    /// The text ends where it does; else the last row may be cut.
    is_whole: bool,
    row_count_max: usize,
    row_count: usize = 0,

    fn run(self: *Inference, root: *Node) Error!void {
        root.object = true;
        while (self.row_count < self.row_count_max) : (self.row_count += 1) {
            const more = self.read_row(root) catch |err| {
                const is_cut = err == error.InvalidFormat and !self.is_whole;
                if (!is_cut or self.steps.scanner.position + cut_size < self.steps.scanner.text.len) return err;
                interrupt.forget();
                break;
            };
            if (!more) break;
        }
        if (!root.too_wide) return;
        interrupt.describe("more than {d} columns", .{abi.column_count_max});
        return error.TooLarge;
    }

    fn read_row(self: *Inference, root: *Node) Error!bool {
        if (!try self.steps.next()) return false;
        try self.object(root, 0);
        return true;
    }

    fn value(self: *Inference, node: *Node, depth: u32) Error!void {
        const scanner = &self.steps.scanner;
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
        const scanner = &self.steps.scanner;
        var more = try scanner.first(']');
        if (more and node.element == null) node.element = try self.new_node();
        while (more) : (more = try scanner.next(']')) try self.value(node.element.?, depth + 1);
    }

    fn object(self: *Inference, node: *Node, depth: u32) Error!void {
        const scanner = &self.steps.scanner;
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
        const text = self.steps.scanner.text[name.start..name.end];
        if (!name.escaped and guess < node.fields.count() and std.mem.eql(u8, node.fields.keys()[guess], text))
            return guess;
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
        const text = self.steps.scanner.text[scalar.start..scalar.end];
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
