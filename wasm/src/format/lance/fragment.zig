//! A fragment of a Lance table: rows whose columns lie in one data file or several.
//!
//!     blob    "QMLF" │ u32 1 │ u64 rows │ u32 rows of a piece │ u32 files │ u32 size of the schema │ u32 0 │ schema │
//!             of each file: u32 fields │ u32 size of its footer │ fields × (i32 id, i32 column) │ footer
//!
//! The schema is the table's (schema.zig), footers are the files' (data_file.zig); each is padded to 8 bytes. Which
//! file has a field is told by its id. A field that none has is NULL in all rows of the fragment. Rows are cut into
//! pieces of equal size; the host says of which, so that every road cuts the same.
const std = @import("std");
const abi = @import("../../abi.zig");
const data_file = @import("data_file.zig");
const evidence_module = @import("../evidence.zig");
const interrupt = @import("../../core/interrupt.zig");
const leaf_module = @import("leaf.zig");
const levels = @import("levels.zig");
const nested = @import("../nested.zig");
const reader = @import("../reader.zig");
const schema = @import("schema.zig");
const segments_module = @import("../segments.zig");
const types = @import("types.zig");
const Arena = @import("../../core/arena.zig").Arena;
const ColumnBuilder = @import("../../core/column_builder.zig").ColumnBuilder;
const Cursor = @import("../../core/cursor.zig").Cursor;
const DataFile = data_file.DataFile;
const DataType = @import("../../core/schema.zig").DataType;
const LeafReader = leaf_module.LeafReader;
const Needs = segments_module.Needs;
const Node = nested.Node;
const NodeReader = nested.NodeReader(LeafReader);
const Found = leaf_module.Found;
const Place = leaf_module.Place;
const refuse = @import("page.zig").refuse;

pub const Error = reader.Error;

const Input = struct {
    node: NodeReader,
    /// Its first leaf in `leaves`.
    first: u32,
};

pub const Fragment = struct {
    pub const File = FragmentFile;

    arena: Arena,
    file: *File,
    first_row: u64,
    row_count: u64,
    inputs: []?Input,
    leaves: []LeafReader,
    leaf_count: usize = 0,
    /// Up to where rows were asked for, by leaf, while the scan only plans.
    planned: []u64,
    has_tables: bool = false,

    pub fn open(gpa: std.mem.Allocator, file: *File, opening: *const reader.Opening) Error!*Fragment {
        const self = try gpa.create(Fragment);
        self.* = .{
            .arena = .init(gpa),
            .file = file,
            .first_row = @as(u64, opening.piece) * file.rows_of_piece,
            .row_count = file.piece_rows(opening.piece),
            .inputs = &.{},
            .leaves = &.{},
            .planned = &.{},
        };
        errdefer self.close();
        try self.open_inputs(opening);
        return self;
    }

    fn open_inputs(self: *Fragment, opening: *const reader.Opening) Error!void {
        const arena = self.arena.allocator();
        var count: usize = 0;
        for (opening.places) |place| if (place) |number| {
            count += self.file.places[number].leaf_count;
        };
        self.leaves = try arena.alloc(LeafReader, count);
        self.inputs = try arena.alloc(?Input, opening.places.len);
        self.planned = try arena.alloc(u64, count);
        @memset(self.planned, self.first_row);
        for (self.inputs, opening.places, 0..) |*input, place, i| {
            input.* = null;
            const node = &self.file.places[place orelse continue];
            const first = self.leaf_count;
            for (self.file.leaves[node.leaf_first..][0..node.leaf_count]) |*leaf| {
                errdefer interrupt.describe_column(@intCast(i));
                try self.open_leaf(leaf, opening.window_size);
            }
            const leaves = self.leaves[first..self.leaf_count];
            input.* = .{ .node = .{ .node = node, .leaves = leaves }, .first = @intCast(first) };
        }
    }

    fn open_leaf(self: *Fragment, place: *const Place, window_size: u64) Error!void {
        const file = if (place.found) |found| &self.file.parts[found.part] else null;
        const leaf = &self.leaves[self.leaf_count];
        leaf.* = .init(self.arena.gpa, place, window_size);
        self.leaf_count += 1;
        try leaf.bind(file);
        if (!leaf.is_missing() and leaf.row_count() != self.file.row_count)
            return refuse("a column has {d} rows in a fragment of {d}", .{ leaf.row_count(), self.file.row_count });
    }

    pub fn close(self: *Fragment) void {
        const gpa = self.arena.gpa;
        for (self.leaves[0..self.leaf_count]) |*leaf| leaf.deinit();
        self.arena.deinit();
        gpa.destroy(self);
    }

    // ---- bytes ----

    pub fn segments_of(self: *Fragment, owner: u32) ?*segments_module.Segments {
        return if (owner < self.leaf_count) &self.leaves[owner].segments else null;
    }

    pub fn forget_segments(self: *Fragment) void {
        // What cannot be told apart is kept.
        for (self.leaves) |*leaf| leaf.forget() catch continue;
        interrupt.forget();
    }

    fn end(self: *const Fragment) u64 {
        return self.first_row + self.row_count;
    }

    fn note(self: *Fragment, owner: usize, needs: *Needs) Error!void {
        const leaf = &self.leaves[owner];
        for (leaf.scratch.items) |range| {
            try needs.append(self.arena.gpa, .{ .range = range, .owner = @intCast(owner) });
        }
        leaf.scratch.clearRetainingCapacity();
    }

    /// What is missing of these parts of rows. Where that is a run of them, as much of what follows as a window has.
    pub fn need(self: *Fragment, input: usize, row: u64, spans: []const reader.Span, needs: *Needs) Error!void {
        const found = &(self.inputs[input].?);
        const first = self.first_row + row;
        for (found.node.leaves, found.first..) |*leaf, owner| {
            leaf.scratch.clearRetainingCapacity();
            for (spans) |span| try leaf.need(first + span.begin, first + span.end, &leaf.scratch);
            if (leaf.scratch.items.len > 0 and spans.len == 1 and spans[0].count() >= window_worth) {
                leaf.scratch.clearRetainingCapacity();
                const least = first + spans[0].end;
                _ = try leaf.need_window(first + spans[0].begin, least, self.end(), &leaf.scratch);
            }
            try self.note(owner, needs);
        }
    }

    pub fn need_ahead(self: *Fragment, input: usize, begin: u64, behind: u64, needs: *Needs) Error!void {
        const found = &(self.inputs[input].?);
        for (found.node.leaves, found.first..) |*leaf, owner| {
            leaf.scratch.clearRetainingCapacity();
            const first = self.first_row + begin;
            self.planned[owner] = try leaf.need_window(first, 0, self.first_row + behind, &leaf.scratch);
            try self.note(owner, needs);
        }
    }

    /// A window more of every column; true if more follows.
    pub fn plan_round(self: *Fragment, needs: *Needs) Error!bool {
        var more = false;
        for (self.leaves, self.planned, 0..) |*leaf, *planned, owner| {
            if (planned.* >= self.end() or leaf.is_missing()) continue;
            leaf.scratch.clearRetainingCapacity();
            planned.* = @max(try leaf.need_window(planned.*, 0, self.end(), &leaf.scratch), planned.* + 1);
            try self.note(owner, needs);
            more = more or planned.* < self.end();
        }
        return more;
    }

    pub fn is_unsure(self: *const Fragment) bool {
        for (self.leaves) |*leaf| if (leaf.is_unsure(self.first_row, self.end())) return true;
        return false;
    }

    // ---- evidence ----

    /// Tables of pages that are wanted in part come first, so that what is asked for afterwards is all.
    pub fn evidence(self: *Fragment, _: *const evidence_module.Question, needs: *Needs) Error!evidence_module.Answer {
        if (!self.has_tables) {
            self.has_tables = true;
            for (self.leaves, 0..) |*leaf, owner| {
                leaf.scratch.clearRetainingCapacity();
                try leaf.need_tables(self.first_row, self.end(), &leaf.scratch);
                try self.note(owner, needs);
            }
            if (needs.items.len > 0) return .need_bytes;
        }
        return .{ .zones = &.{} };
    }

    // ---- rows ----

    pub fn read(self: *Fragment, input: usize, builder: *ColumnBuilder, row: u64, count: u32) Error!void {
        const node = &self.inputs[input].?.node;
        var is_missing = true;
        for (node.leaves) |*leaf| {
            leaf.row = self.first_row + row;
            is_missing = is_missing and leaf.is_missing();
        }
        if (is_missing) try builder.append_nulls(count) else try node.read(builder, count);
    }

    pub fn row_size(self: *const Fragment) u64 {
        var size: u64 = 0;
        for (self.leaves) |*leaf| size = @max(size, leaf.row_size());
        return size;
    }
};

/// Fewer rows side by side are asked for alone.
const window_worth = 4096;

const blob_magic = "QMLF";
const blob_version = 1;

const FragmentFile = struct {
    arena: Arena,
    row_count: u64,
    rows_of_piece: u32,
    parts: []const DataFile,
    places: []const Node,
    leaves: []const Place,

    pub fn open(gpa: std.mem.Allocator, blob: []const u8) Error!*FragmentFile {
        const self = try gpa.create(FragmentFile);
        errdefer gpa.destroy(self);
        self.arena = .init(gpa);
        errdefer self.arena.deinit();
        try self.read(try self.arena.allocator().dupe(u8, blob));
        return self;
    }

    fn read(self: *FragmentFile, blob: []const u8) Error!void {
        @setRuntimeSafety(true);
        const arena = self.arena.allocator();
        var cursor: Cursor = .init(blob);
        if (!std.mem.eql(u8, try cursor.read_bytes(4), blob_magic) or try cursor.read_int(u32) != blob_version)
            return refuse("what was kept of a fragment is not that", .{});
        self.row_count = try cursor.read_int(u64);
        self.rows_of_piece = try cursor.read_int(u32);
        const part_count = try cursor.read_int(u32);
        const schema_size = try cursor.read_int(u32);
        _ = try cursor.read_int(u32);
        if (self.rows_of_piece == 0 or self.row_count / self.rows_of_piece >= std.math.maxInt(u32))
            return refuse("a fragment of {d} rows in pieces of {d}", .{ self.row_count, self.rows_of_piece });
        const fields = try schema.read(arena, try cursor.read_bytes(schema_size));
        try align_to(&cursor);
        if (part_count > cursor.remaining() / 8) return refuse("a fragment has fewer files than it says", .{});
        const parts = try arena.alloc(DataFile, part_count);
        var tree: Tree = .{ .arena = arena, .parts = parts };
        for (parts, 0..) |*part, number| part.* = try tree.read_part(&cursor, @intCast(number));
        self.parts = parts;
        const nodes = try arena.alloc(Node, fields.len);
        for (nodes, fields) |*node, *field| node.* = try tree.build(field, 0, 0);
        self.places = try nested.places_of(arena, nodes);
        self.leaves = tree.leaves.items;
    }

    pub fn close(self: *FragmentFile) void {
        const gpa = self.arena.gpa;
        self.arena.deinit();
        gpa.destroy(self);
    }

    /// What `qm_footer` makes of the end of a data file.
    pub fn read_footer(arena: std.mem.Allocator, raw: []const u8, file_size: u64) Error![]const u8 {
        return data_file.flatten(arena, raw, file_size);
    }

    pub fn piece_count(self: *const FragmentFile) u32 {
        return @intCast(std.math.divCeil(u64, self.row_count, self.rows_of_piece) catch unreachable);
    }

    pub fn piece_rows(self: *const FragmentFile, piece: u32) u64 {
        const first = @as(u64, piece) * self.rows_of_piece;
        return @min(self.rows_of_piece, self.row_count -| first);
    }

    pub fn place_type(self: *const FragmentFile, place: u32) ?DataType {
        return if (place < self.places.len) self.places[place].type else null;
    }
};

fn align_to(cursor: *Cursor) error{InvalidFormat}!void {
    _ = try cursor.read_bytes(
        @min(std.mem.alignForward(usize, cursor.position, 8) - cursor.position, cursor.remaining()),
    );
}

/// The table's columns as nodes, and where their leaves lie.
const Tree = struct {
    arena: std.mem.Allocator,
    parts: []const DataFile,
    found: std.AutoHashMapUnmanaged(i32, Found) = .empty,
    leaves: std.ArrayList(Place) = .empty,
    /// From the column inwards, and the lists among them.
    steps: std.ArrayList(levels.Step) = .empty,
    lists: std.ArrayList(i32) = .empty,

    /// A file's fields. Where two files have one, the first counts.
    fn read_part(self: *Tree, cursor: *Cursor, number: u32) Error!DataFile {
        @setRuntimeSafety(true);
        const field_count = try cursor.read_int(u32);
        const footer_size = try cursor.read_int(u32);
        if (field_count > cursor.remaining() / 8) return refuse("a data file has fewer fields than it says", .{});
        const pairs = try cursor.read_bytes(@as(u64, field_count) * 8);
        const file: DataFile = try .init(try cursor.read_bytes(footer_size));
        try align_to(cursor);
        for (0..field_count) |i| {
            const id = std.mem.readInt(i32, pairs[i * 8 ..][0..4], .little);
            const column = std.mem.readInt(i32, pairs[i * 8 + 4 ..][0..4], .little);
            if (id < 0 or column < 0) continue;
            if (column >= file.column_count)
                return refuse("a field is column {d} of a file of {d}", .{ column, file.column_count });
            const entry = try self.found.getOrPut(self.arena, id);
            if (!entry.found_existing) entry.value_ptr.* = .{ .part = number, .column = @intCast(column) };
        }
        return file;
    }

    fn build(self: *Tree, field: *const schema.Node, definition: u8, repetition: u8) Error!Node {
        @setRuntimeSafety(true);
        const own = std.math.add(u8, definition, 1) catch return refuse("columns are nested too deep", .{});
        var node: Node = .{
            .name = field.name,
            .type = try field.data_type(self.arena),
            .definition = own,
            .nullable = true,
            .leaf_first = @intCast(self.leaves.items.len),
            .leaf_count = 0,
        };
        const kind = types.parse(self.arena, field.logical_type) catch |reason| switch (reason) {
            error.NotSupported => {
                try self.add_refused(&node, "a column of a type that is not supported; leave it out");
                return node;
            },
            else => return reason,
        };
        if (field.flags.blob) {
            try self.add_refused(&node, "a column of blobs is not supported; leave it out");
            return node;
        }
        switch (kind) {
            .leaf => |leaf| {
                node.is_whole = leaf.type.is_nested();
                try self.push(false, own);
                defer _ = self.steps.pop();
                try self.add_leaf(leaf, field, repetition);
            },
            .structure => {
                if (field.children.len == 0) {
                    try self.add_refused(&node, "a structure without fields is not supported; leave it out");
                    return node;
                }
                if (self.is_packed_plain(field)) {
                    try self.add_refused(&node, "a packed structure of version 2.0 is not supported; leave it out");
                    return node;
                }
                if (self.is_packed(field)) {
                    try self.add_packed(&node, field, repetition);
                    return node;
                }
                try self.push(false, own);
                defer _ = self.steps.pop();
                node.children = try self.children_of(field.children, own, repetition);
            },
            .list, .map => {
                node.repetition = try deeper(repetition);
                node.element_definition = try deeper(own);
                try self.push(true, own);
                defer _ = self.steps.pop();
                try self.lists.append(self.arena, field.id);
                defer _ = self.lists.pop();
                if (kind == .list) {
                    node.children = try self.children_of(field.children, node.element_definition, node.repetition);
                } else {
                    // The entries of a map are a structure of their own there, and none here.
                    const entries = try deeper(node.element_definition);
                    try self.push(false, entries);
                    defer _ = self.steps.pop();
                    node.children = try self.children_of(field.children[0].children, entries, node.repetition);
                }
            },
            .fixed_list_of_structs => {
                try self.add_refused(
                    &node,
                    "lists of a fixed size with structures are not supported; leave the column out",
                );
                return node;
            },
        }
        node.leaf_count = @as(u32, @intCast(self.leaves.items.len)) - node.leaf_first;
        return node;
    }

    fn deeper(level: u8) Error!u8 {
        return std.math.add(u8, level, 1) catch refuse("columns are nested too deep", .{});
    }

    fn children_of(self: *Tree, fields: []const schema.Node, definition: u8, repetition: u8) Error![]const Node {
        const nodes = try self.arena.alloc(Node, fields.len);
        for (nodes, fields) |*node, *field| node.* = try self.build(field, definition, repetition);
        return nodes;
    }

    fn push(self: *Tree, is_list: bool, definition: u8) Error!void {
        try self.steps.append(self.arena, .{ .is_list = is_list, .definition = definition });
    }

    /// A structure that has a column itself, rather than its fields.
    fn is_packed(self: *const Tree, field: *const schema.Node) bool {
        const found = self.found.get(field.id) orelse return false;
        return self.parts[found.part].version != .v2_0;
    }

    /// The same before 2.1, where every structure has a column, and only those of packed ones stand alone.
    fn is_packed_plain(self: *const Tree, field: *const schema.Node) bool {
        const found = self.found.get(field.id) orelse return false;
        if (self.parts[found.part].version != .v2_0) return false;
        for (field.children) |*child| if (self.found.contains(child.id)) return false;
        return true;
    }

    fn add_packed(self: *Tree, node: *Node, field: *const schema.Node, repetition: u8) Error!void {
        const fields = try self.arena.alloc(types.Leaf, field.children.len);
        for (fields, field.children) |*leaf, *child| {
            const kind = types.parse(self.arena, child.logical_type) catch |reason| switch (reason) {
                error.NotSupported => return self.add_refused(node, unpacked),
                else => return reason,
            };
            if (kind != .leaf) return self.add_refused(node, unpacked);
            leaf.* = kind.leaf;
        }
        node.is_whole = true;
        node.leaf_count = 1;
        try self.push(false, node.definition);
        defer _ = self.steps.pop();
        try self.add_leaf(try types.pack(self.arena, node.type, fields), field, repetition);
        // Its fields are places too, which nobody can read alone.
        const children = try self.arena.alloc(Node, field.children.len);
        for (children, field.children) |*to, *child| {
            to.* = node.*;
            to.name = child.name;
            to.type = try child.data_type(self.arena);
            to.children = &.{};
            to.leaf_first = @intCast(self.leaves.items.len);
            try self.add_refused(to, "a field of a packed structure cannot be read alone; read the structure");
        }
        node.children = children;
    }

    const unpacked = "a packed structure with a field that is not supported; leave it out";

    fn add_leaf(self: *Tree, leaf: types.Leaf, field: *const schema.Node, depth: u8) Error!void {
        const steps = try self.arena.dupe(levels.Step, self.steps.items);
        std.mem.reverse(levels.Step, steps);
        var place: Place = .{
            .leaf = leaf,
            .path = .{ .steps = steps, .depth = depth },
            .found = self.found.get(field.id),
            .has_own_dictionary = std.mem.startsWith(u8, field.logical_type, "dict:"),
        };
        if (place.found) |found| if (self.parts[found.part].version == .v2_0) {
            place.lists = try self.list_columns(found.part);
        };
        try self.leaves.append(self.arena, place);
    }

    /// Before 2.1, the lists around a leaf have columns of their own.
    fn list_columns(self: *const Tree, part: u32) Error![]const u32 {
        const columns = try self.arena.alloc(u32, self.lists.items.len);
        for (columns, self.lists.items) |*column, id| {
            const found = self.found.get(id) orelse return refuse("a data file lacks a list, and has its items", .{});
            if (found.part != part) return refuse("a list and its items lie in different files", .{});
            column.* = found.column;
        }
        return columns;
    }

    /// A column that nobody can read. It is said when somebody wants to.
    fn add_refused(self: *Tree, node: *Node, reason: []const u8) Error!void {
        node.is_whole = true;
        node.leaf_count = 1;
        try self.leaves.append(self.arena, .{
            .leaf = .{ .type = node.type, .physical = .none },
            .path = .{ .steps = &.{}, .depth = 0 },
            .refusal = reason,
        });
    }
};
