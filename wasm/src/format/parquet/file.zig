//! A Parquet file as the engine knows it: its flat footer, and the columns that it describes.
const std = @import("std");
const footer = @import("footer.zig");
const metadata = @import("metadata.zig");
const statistics = @import("statistics.zig");
const Leaf = metadata.Leaf;
const Node = metadata.Node;

pub const Error = error{ InvalidFormat, OutOfMemory };

pub const File = struct {
    arena: std.heap.ArenaAllocator,
    footer: footer.FlatFooter,
    /// Top-level columns.
    nodes: []const Node,
    /// What can be read on its own: the top-level columns, then all fields of structures, at any depth,
    /// each before its own.
    places: []const Node,
    leaves: []const Leaf,
    writer: statistics.Writer,

    /// Copies the footer.
    pub fn open(gpa: std.mem.Allocator, blob: []const u8) Error!*File {
        const self = try gpa.create(File);
        errdefer gpa.destroy(self);
        self.arena = .init(gpa);
        errdefer self.arena.deinit();
        const arena = self.arena.allocator();
        self.footer = try .init(try arena.dupe(u8, blob));
        const tree = try self.footer.tree(arena);
        self.nodes = tree.nodes;
        self.leaves = tree.leaves;
        var places: std.ArrayList(Node) = .empty;
        try places.appendSlice(arena, tree.nodes);
        for (tree.nodes) |*node| try add_fields(arena, &places, node);
        self.places = places.items;
        self.writer = .parse(self.footer.created_by);
        return self;
    }

    pub fn close(self: *File) void {
        const gpa = self.arena.child_allocator;
        self.arena.deinit();
        gpa.destroy(self);
    }

    pub fn origin(self: *const File, leaf: u32) statistics.Origin {
        return .{ .leaf = &self.leaves[leaf], .order = self.footer.column_order(leaf), .writer = self.writer };
    }

    /// How many of the `page_count` data pages of a chunk its dictionary codes; they come before the
    /// others. Null where that is not known until they are read.
    pub fn coded_pages(self: *const File, row_group: u32, leaf: u32, page_count: u64) ?u64 {
        const extras = self.footer.chunk_extras(row_group, leaf);
        if (extras.all_dictionary) return page_count;
        if (extras.dictionary_pages > 0) {
            const is_complete = extras.dictionary_pages +| extras.other_pages == page_count;
            return if (is_complete and self.writer.leaves_dictionary_for_good()) extras.dictionary_pages else null;
        }
        // Without counts, the list of encodings may know: values are PLAIN_DICTIONARY in files of the
        // first version, where PLAIN does not stand for the dictionary page, and levels are the rest.
        const levels = bit(.rle) | bit(.bit_packed);
        if (extras.encodings & ~levels == bit(.plain_dictionary)) return page_count;
        const is_none = extras.encodings & (bit(.plain_dictionary) | bit(.rle_dictionary) | 1 << 15) == 0;
        return if (is_none) 0 else null;
    }

    fn bit(encoding: metadata.Encoding) u16 {
        return @as(u16, 1) << @intCast(@backingInt(encoding));
    }

    pub fn evidence(self: *const File, row_group: u32, leaf: u32) statistics.Evidence {
        const chunk = self.footer.chunk(row_group, leaf);
        return .{
            .statistics = chunk.statistics,
            .deprecated = self.footer.chunk_extras(row_group, leaf).deprecated_bounds,
            .value_count = chunk.value_count,
        };
    }
};

fn add_fields(arena: std.mem.Allocator, places: *std.ArrayList(Node), node: *const Node) error{OutOfMemory}!void {
    if (node.type.tag != .structure) return;
    for (node.children) |*child| {
        try places.append(arena, child.*);
        try add_fields(arena, places, child);
    }
}
