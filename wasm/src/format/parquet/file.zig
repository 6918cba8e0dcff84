//! A Parquet file as the engine knows it: its flat footer, and the columns that it describes.
const std = @import("std");
const evidence_module = @import("../evidence.zig");
const flatten = @import("flatten.zig");
const footer = @import("footer.zig");
const metadata = @import("metadata.zig");
const nested = @import("../nested.zig");
const statistics = @import("statistics.zig");
const Arena = @import("../../core/arena.zig").Arena;
const Bounds = evidence_module.Bounds;
const DataType = @import("../../core/schema.zig").DataType;
const Leaf = metadata.Leaf;
const Node = metadata.Node;

pub const Error = error{ InvalidFormat, OutOfMemory };

pub const File = struct {
    arena: Arena,
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
        self.places = try nested.places_of(arena, tree.nodes);
        self.writer = .parse(self.footer.created_by);
        return self;
    }

    pub fn close(self: *File) void {
        const gpa = self.arena.gpa;
        self.arena.deinit();
        gpa.destroy(self);
    }

    /// Thrift's FileMetaData, made flat.
    pub fn read_footer(arena: std.mem.Allocator, raw: []const u8, file_size: u64) flatten.Error![]const u8 {
        return flatten.flatten(arena, raw, file_size);
    }

    pub fn piece_count(self: *const File) u32 {
        return self.footer.row_group_count;
    }

    pub fn piece_rows(self: *const File, row_group: u32) u64 {
        return self.footer.row_group(row_group).row_count;
    }

    pub fn place_type(self: *const File, place: u32) ?DataType {
        return if (place < self.places.len) self.places[place].type else null;
    }

    /// Only a column of one leaf at the top has bounds of its own.
    pub fn has_bounds(self: *const File, place: u32) bool {
        const node = &self.places[place];
        return node.is_leaf() and self.leaves[node.leaf_first].max_repetition == 0;
    }

    /// Of a place that has bounds: what the footer says of every row group.
    pub fn bounds(self: *const File, arena: std.mem.Allocator, place: u32) Error!Bounds {
        return self.leaf_bounds(arena, self.places[place].leaf_first);
    }

    /// The same of any leaf, nested or not.
    pub fn leaf_bounds(self: *const File, arena: std.mem.Allocator, leaf: u32) Error!Bounds {
        const rows = try arena.alloc(u64, self.piece_count());
        const known = try arena.alloc(statistics.Evidence, self.piece_count());
        for (rows, known, 0..) |*row_count, *item, group| {
            row_count.* = self.piece_rows(@intCast(group));
            item.* = self.evidence(@intCast(group), leaf);
        }
        return self.build_bounds(arena, leaf, known, rows);
    }

    /// One row for each piece of evidence, and the rows that it speaks of.
    pub fn build_bounds(
        self: *const File,
        arena: std.mem.Allocator,
        leaf: u32,
        known: []const statistics.Evidence,
        rows: []const u64,
    ) Error!Bounds {
        const found = try statistics.build(arena, self.origin(leaf), known);
        const row_counts = try evidence_module.i64_column(arena, rows);
        return .{
            found.min,
            found.max,
            found.null_count,
            found.nan_possible,
            row_counts,
            found.min_exact,
            found.max_exact,
        };
    }

    pub fn origin(self: *const File, leaf: u32) statistics.Origin {
        return .{ .leaf = &self.leaves[leaf], .order = self.footer.column_order(leaf), .writer = self.writer };
    }

    /// How many of the `page_count` data pages of a chunk its dictionary codes; they come before the
    /// others. Null where that is not known until they are read.
    pub fn coded_pages(self: *const File, row_group: u32, leaf: u32, page_count: u64) ?u64 {
        return count_coded(self.footer.chunk_extras(row_group, leaf), self.writer, page_count);
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

fn count_coded(extras: footer.ChunkExtras, writer: statistics.Writer, page_count: u64) ?u64 {
    if (extras.all_dictionary) return page_count;
    if (extras.dictionary_pages > 0) {
        const is_complete = extras.dictionary_pages +| extras.other_pages == page_count;
        return if (is_complete and writer.leaves_dictionary_for_good()) extras.dictionary_pages else null;
    }
    // Without counts, the list of encodings may know. PLAIN_DICTIONARY is the first version's: there the
    // dictionary page itself is not listed as PLAIN, and whatever else there is belongs to levels.
    const levels = bit_of(.rle) | bit_of(.bit_packed);
    if (extras.encodings & ~levels == bit_of(.plain_dictionary)) return page_count;
    const unknown: u16 = 1 << 15;
    const is_none = extras.encodings & (bit_of(.plain_dictionary) | bit_of(.rle_dictionary) | unknown) == 0;
    return if (is_none) 0 else null;
}

fn bit_of(encoding: metadata.Encoding) u16 {
    return @as(u16, 1) << @intCast(@backingInt(encoding));
}

test count_coded {
    const known: statistics.Writer = .parse("parquet-mr version 1.13.1 (build 1)");
    const other: statistics.Writer = .parse("somebody's version 1.13.1");
    const plain = bit_of(.plain) | bit_of(.rle);
    const mixed = plain | bit_of(.rle_dictionary);
    const old = bit_of(.plain_dictionary) | bit_of(.rle) | bit_of(.bit_packed);
    const cases = [_]struct { u16, bool, [2]u64, ?u64, ?u64 }{
        .{ mixed, true, .{ 0, 0 }, 10, 10 },
        .{ mixed, false, .{ 3, 7 }, 3, null },
        .{ mixed, false, .{ 3, 8 }, null, null }, // not the pages of the index
        .{ mixed, false, .{ 3, std.math.maxInt(u64) }, null, null },
        .{ mixed, false, .{ 0, 0 }, null, null },
        .{ plain, false, .{ 0, 0 }, 0, 0 },
        .{ plain | 1 << 15, false, .{ 0, 0 }, null, null },
        .{ old, false, .{ 0, 0 }, 10, 10 },
        .{ old | bit_of(.plain), false, .{ 0, 0 }, null, null },
        .{ old | bit_of(.plain), false, .{ 4, 6 }, 4, null },
    };
    for (cases) |case| {
        const extras: footer.ChunkExtras = .{
            .encodings = case[0],
            .all_dictionary = case[1],
            .dictionary_pages = case[2][0],
            .other_pages = case[2][1],
            .deprecated_bounds = false,
        };
        try std.testing.expectEqual(case[3], count_coded(extras, known, 10));
        try std.testing.expectEqual(case[4], count_coded(extras, other, 10));
    }
}
