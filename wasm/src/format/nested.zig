//! A column of ours from the leaves of the file: levels become validity, offsets and shape.
//!
//! Every leaf tells its own copy of the shape. An entry of a leaf (a value, or the mark of a missing
//! one) has a repetition level r, at which list it goes on, and a definition level d, how far down
//! something is there. Under a list whose elements have the levels (D, R), and (0, 0) at the top,
//! the entries with d ≥ D and r ≤ R are the slots of a node, one each:
//!
//!     valid slot     d ≥ node.definition
//!     list: element  d ≥ node.element_definition and r ≤ node.repetition
//!
//! Structures and lists take their shape from their first leaf. The others must agree with it.
//!
//! A format brings the type of its leaves: `is_flat`, `read` and `read_entries`, which leaves the levels of as many
//! rows in `definitions` and `repetitions` and their values, not yet settled, in a builder. Some formats have no
//! values where an entry is NULL, and some have one for every slot (`slots_have_values`).
const std = @import("std");
const bitmap = @import("../core/bitmap.zig");
const interrupt = @import("../core/interrupt.zig");
const reader = @import("reader.zig");
const ColumnBuilder = @import("../core/column_builder.zig").ColumnBuilder;
const DataType = @import("../core/schema.zig").DataType;

pub const Error = reader.Error;

/// A column of ours, or one nested in it.
pub const Node = struct {
    name: []const u8,
    type: DataType,
    /// The definition level from which on the value is not NULL.
    definition: u8,
    /// list, map: the repetition level of its elements. 0 otherwise.
    repetition: u8 = 0,
    /// list, map: the definition level from which on there is an element.
    element_definition: u8 = 0,
    nullable: bool,
    /// Its leaves, in the file's order.
    leaf_first: u32,
    leaf_count: u32,
    /// list: its element; structure: its fields; map: key and value.
    children: []const Node = &.{},
    /// One leaf holds all of it, whatever its type: lists of a fixed size, packed structures.
    is_whole: bool = false,

    pub fn is_leaf(self: *const Node) bool {
        return self.is_whole or (self.children.len == 0 and !self.type.is_nested());
    }
};

/// What can be read on its own: the top-level columns, then all fields of structures, at any depth, each before
/// its own.
pub fn places_of(arena: std.mem.Allocator, nodes: []const Node) error{OutOfMemory}![]const Node {
    var places: std.ArrayList(Node) = .empty;
    try places.appendSlice(arena, nodes);
    for (nodes) |*node| try add_fields(arena, &places, node);
    return places.items;
}

fn add_fields(arena: std.mem.Allocator, places: *std.ArrayList(Node), node: *const Node) error{OutOfMemory}!void {
    if (node.type.tag != .structure) return;
    for (node.children) |*child| {
        try places.append(arena, child.*);
        try add_fields(arena, places, child);
    }
}

pub fn NodeReader(comptime Leaf: type) type {
    return struct {
        const Self = @This();

        node: *const Node,
        /// Of its leaves, in order.
        leaves: []Leaf,

        /// A leaf at the top: its levels are its validity.
        pub fn is_flat(self: *const Self) bool {
            return self.node.is_leaf() and self.leaves[0].is_flat();
        }

        /// The next `count` rows, behind those of `builder`.
        pub fn read(self: *const Self, builder: *ColumnBuilder, count: u32) Error!void {
            if (self.is_flat()) return self.leaves[0].read(builder, count);
            const before = builder.row_count;
            try self.read_leaves(self.node, builder, count);
            try self.assemble(self.node, builder, .{ .definition = 0, .repetition = 0 });
            if (builder.row_count - before != count) return disagree();
        }

        fn leaf_of(self: *const Self, node: *const Node) *Leaf {
            return &self.leaves[node.leaf_first - self.node.leaf_first];
        }

        fn read_leaves(self: *const Self, node: *const Node, builder: *ColumnBuilder, count: u32) Error!void {
            if (node.is_leaf()) return self.leaf_of(node).read_entries(builder, count);
            for (node.children, 0..) |*child, i| try self.read_leaves(child, child_of(node, builder, i), count);
        }

        fn assemble(self: *const Self, node: *const Node, builder: *ColumnBuilder, parent: Slot) Error!void {
            const leaf = self.leaf_of(node);
            const shape: Shape = .{
                .definitions = leaf.definitions.items,
                .repetitions = leaf.repetitions.items,
                .parent = parent,
            };
            if (node.is_leaf()) return settle_leaf(node, builder, shape, Leaf.slots_have_values);
            switch (node.type.layout()) {
                .list => try self.assemble_list(node, builder, shape),
                .structure => try self.assemble_structure(node, builder, shape),
                else => unreachable, // a leaf
            }
        }

        fn assemble_structure(self: *const Self, node: *const Node, builder: *ColumnBuilder, shape: Shape) Error!void {
            builder.row_count += try add_validity(node, builder, shape);
            for (node.children, builder.children) |*child, *child_builder| {
                try self.assemble(child, child_builder, shape.parent);
                if (child_builder.row_count != builder.row_count) return disagree();
            }
        }

        fn assemble_list(self: *const Self, node: *const Node, builder: *ColumnBuilder, shape: Shape) Error!void {
            const count = try add_validity(node, builder, shape);
            const elements = try add_offsets(node, builder, shape, count);
            builder.row_count += count;
            const inner: Slot = .{ .definition = node.element_definition, .repetition = node.repetition };
            const entries = &builder.children[0];
            if (node.type.tag == .map) entries.row_count += elements;
            const base = builder.offsets.getLast() - elements;
            for (node.children, 0..) |*child, i| {
                const child_builder = child_of(node, builder, i);
                try self.assemble(child, child_builder, inner);
                if (child_builder.row_count != base + elements) return disagree();
            }
        }
    };
}

/// Levels from which on an entry is a slot.
const Slot = struct { definition: u8, repetition: u8 };

const Shape = struct {
    definitions: []const u8,
    repetitions: []const u8,
    parent: Slot,

    fn is_slot(self: *const Shape, i: usize) bool {
        return self.definitions[i] >= self.parent.definition and self.repetitions[i] <= self.parent.repetition;
    }
};

/// A map's two children lie in a structure of their own.
fn child_of(node: *const Node, builder: *ColumnBuilder, index: usize) *ColumnBuilder {
    return if (node.type.tag == .map) &builder.children[0].children[index] else &builder.children[index];
}

fn settle_leaf(node: *const Node, builder: *ColumnBuilder, shape: Shape, slots_have_values: bool) Error!void {
    const count = try add_validity(node, builder, shape);
    if (node.type.tag == .null) {
        builder.row_count += count;
        builder.dense_count = 0;
        return;
    }
    const has_all = slots_have_values or builder.validity == null;
    const expected = if (has_all) count else count_valid(builder.validity.?.items, builder.row_count, count);
    if (expected != builder.dense_count) return disagree();
    try builder.settle(count);
}

fn count_valid(bits: []const u8, first: u32, count: u32) u32 {
    var valid: u32 = 0;
    for (first..first + count) |row| valid += @intFromBool(bitmap.get(bits.ptr, row));
    return valid;
}

/// Adds a validity bit for every slot, where the node may be NULL; returns how many slots there are.
fn add_validity(node: *const Node, builder: *ColumnBuilder, shape: Shape) Error!u32 {
    const entries: u32 = @intCast(shape.definitions.len);
    const first = builder.row_count;
    // A node that cannot be NULL itself still has slots where one above it is.
    if (node.definition <= shape.parent.definition or node.type.tag == .null) {
        var count: u32 = 0;
        for (0..entries) |i| count += @intFromBool(shape.is_slot(i));
        _ = try builder.extend_validity(first, count, false);
        return count;
    }
    const bits = (try builder.extend_validity(first, entries, true)).?;
    var row = first;
    for (shape.definitions, 0..) |level, i| {
        if (!shape.is_slot(i)) continue;
        if (level < node.definition) bitmap.clear(bits.ptr, row);
        row += 1;
    }
    // Entries that are no slots took room.
    builder.validity.?.items.len = bitmap.size(row);
    return row - first;
}

/// Adds the end of every slot of a list; returns how many elements they have together.
fn add_offsets(node: *const Node, builder: *ColumnBuilder, shape: Shape, count: u32) Error!u32 {
    const base = builder.offsets.getLast();
    const ends = (try builder.grow_dense_offsets(count))[1..];
    var slot: usize = 0;
    var elements: u32 = 0;
    for (shape.definitions, shape.repetitions, 0..) |definition, repetition, i| {
        if (shape.is_slot(i)) slot += 1;
        if (definition >= node.element_definition and repetition <= node.repetition) {
            if (slot == 0) return disagree(); // the rows of a chunk begin with a new row
            if (elements == std.math.maxInt(u32) - base) return error.TooLarge;
            elements += 1;
        }
        if (slot > 0) ends[slot - 1] = base + elements;
    }
    return elements;
}

fn disagree() error{InvalidFormat} {
    interrupt.describe("the levels of a nested column contradict each other", .{});
    return error.InvalidFormat;
}
