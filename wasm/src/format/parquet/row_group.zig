//! One row group as a piece of a file: a reader for every column that is asked for, and what can be known of
//! rows before they are read.
//!
//!     [Bloom filters] → [page indexes] → pages, by the index or in windows       any arrow may need bytes
//!
//! A column is made of leaves, each a chunk of the row group (column_chunk.zig); who wants bytes is the
//! number of a leaf. Files without an index may have bounds in the headers of their pages, which are known
//! as far as the bytes are here.
const std = @import("std");
const bloom = @import("bloom.zig");
const column_chunk = @import("column_chunk.zig");
const evidence_module = @import("../evidence.zig");
const interrupt = @import("../../core/interrupt.zig");
const metadata = @import("metadata.zig");
const nested = @import("../nested.zig");
const page_index = @import("page_index.zig");
const reader = @import("../reader.zig");
const segments_module = @import("../segments.zig");
const statistics = @import("statistics.zig");
const Answer = evidence_module.Answer;
const Arena = @import("../../core/arena.zig").Arena;
const Binding = evidence_module.Binding;
const ChunkReader = column_chunk.ChunkReader;
const CodedRows = @import("../coded_rows.zig").CodedRows;
const Column = @import("../../core/column.zig").Column;
const ColumnBuilder = @import("../../core/column_builder.zig").ColumnBuilder;
const Needs = segments_module.Needs;
const NodeReader = nested.NodeReader(ChunkReader);
const Question = evidence_module.Question;
const Seen = evidence_module.Seen;
const Span = reader.Span;
const Zones = evidence_module.Zones;

pub const Error = reader.Error;

/// A column that is read.
const Input = struct {
    node: NodeReader,
    /// Its first leaf in `leaves`.
    first: u32,
};

const Stage = enum { start, blooms, indexes, settled };

pub const RowGroup = struct {
    pub const File = @import("file.zig").File;

    arena: Arena,
    file: *File,
    number: u32,
    row_count: u64,
    /// By input; null for those that the file does not have.
    inputs: []const ?Input,
    leaves: []ChunkReader,
    stage: Stage = .start,
    /// Pages are found by the offset index, and can be left out.
    use_indexes: bool = false,
    scratch: column_chunk.Needs = .empty,

    pub fn open(gpa: std.mem.Allocator, file: *File, opening: *const reader.Opening) Error!*RowGroup {
        const self = try gpa.create(RowGroup);
        self.* = .{
            .arena = .init(gpa),
            .file = file,
            .number = opening.piece,
            .row_count = file.piece_rows(opening.piece),
            .inputs = &.{},
            .leaves = &.{},
        };
        errdefer self.close();
        try self.open_inputs(opening);
        return self;
    }

    fn open_inputs(self: *RowGroup, opening: *const reader.Opening) Error!void {
        const arena = self.arena.allocator();
        var leaf_count: usize = 0;
        for (opening.places) |place| if (place) |number| {
            leaf_count += self.file.places[number].leaf_count;
        };
        const leaves = try arena.alloc(ChunkReader, leaf_count);
        const inputs = try arena.alloc(?Input, opening.places.len);
        var next: u32 = 0;
        for (inputs, opening.places) |*input, place| {
            input.* = null;
            const node = &self.file.places[place orelse continue];
            const own = leaves[next..][0..node.leaf_count];
            for (own, node.leaf_first..) |*leaf, index| leaf.* = self.open_leaf(@intCast(index), opening);
            input.* = .{ .node = .{ .node = node, .leaves = own }, .first = next };
            next += node.leaf_count;
        }
        self.leaves = leaves;
        self.inputs = inputs;
    }

    fn open_leaf(self: *RowGroup, index: u32, opening: *const reader.Opening) ChunkReader {
        return .init(self.arena.gpa, &self.file.leaves[index], self.file.footer.chunk(self.number, index), .{
            .file_size = self.file.footer.file_size,
            .row_count = self.row_count,
            .window_size = opening.window_size,
            .verify_crc = opening.verify_crc,
        });
    }

    pub fn close(self: *RowGroup) void {
        const gpa = self.arena.gpa;
        for (self.leaves) |*leaf| leaf.deinit();
        self.scratch.deinit(gpa);
        self.arena.deinit();
        gpa.destroy(self);
    }

    // ---- bytes ----

    /// By who wants them.
    pub fn segments_of(self: *RowGroup, owner: u32) ?*segments_module.Segments {
        return if (owner < self.leaves.len) &self.leaves[owner].segments else null;
    }

    pub fn forget_segments(self: *RowGroup) void {
        for (self.leaves) |*leaf| leaf.segments.forget_before(.{ .offset = leaf.oldest_used() });
    }

    /// What leaves have asked for becomes their needs.
    fn note_needs(self: *RowGroup, owner: usize, needs: *Needs) Error!void {
        const gpa = self.arena.gpa;
        for (self.scratch.items) |range| try needs.append(gpa, .{ .range = range, .owner = @intCast(owner) });
        self.scratch.clearRetainingCapacity();
    }

    fn need_span(self: *RowGroup, owner: usize, span: metadata.Span, needs: *Needs) Error!void {
        const range: segments_module.Range = .{ .offset = span.offset, .size = span.size };
        try needs.append(self.arena.gpa, .{ .range = range, .owner = @intCast(owner) });
    }

    /// Asks for the pages of these rows, where it is known which they are.
    pub fn need_ahead(self: *RowGroup, input: usize, begin: u64, end: u64, needs: *Needs) Error!void {
        if (!self.use_indexes) return;
        const found = &(self.inputs[input].?);
        for (found.node.leaves, found.first..) |*leaf, owner| {
            try leaf.need_rows(begin, end, &self.scratch);
            try self.note_needs(owner, needs);
        }
    }

    /// Asks for what is missing of these parts of rows: of every leaf what comes first.
    pub fn need(self: *RowGroup, input: usize, row: u64, spans: []const Span, needs: *Needs) Error!void {
        const found = &(self.inputs[input].?);
        for (found.node.leaves, found.first..) |*leaf, owner| {
            for (spans) |span| {
                if (!try leaf.prepare(row + span.begin, row + span.end, &self.scratch)) break;
            }
            try self.note_needs(owner, needs);
        }
    }

    /// A round of what the rows would need: columns run out of bytes at about the same time.
    pub fn plan_round(self: *RowGroup, needs: *Needs) Error!bool {
        var more = false;
        for (self.leaves, 0..) |*leaf, owner| {
            more = try leaf.plan_window(&self.scratch) or more;
            try self.note_needs(owner, needs);
        }
        return more;
    }

    /// Whether pages were asked for that may turn out to need a dictionary.
    pub fn is_unsure(self: *const RowGroup) bool {
        for (self.leaves) |*leaf| if (leaf.is_unsure) return true;
        return false;
    }

    // ---- evidence ----

    pub fn evidence(self: *RowGroup, question: *const Question, needs: *Needs) Error!Answer {
        while (true) switch (self.stage) {
            .start => {
                self.stage = .blooms;
                try self.need_blooms(question, needs);
                if (needs.items.len > 0) return .need_bytes;
            },
            .blooms => {
                if (try self.blooms_exclude(question, needs)) return .excluded;
                if (needs.items.len > 0) return .need_bytes;
                self.stage = .indexes;
                try self.need_indexes(question, needs);
                if (needs.items.len > 0) return .need_bytes;
            },
            .indexes => {
                self.stage = .settled;
                return .{ .zones = if (self.use_indexes) try self.read_indexes(question) else &.{} };
            },
            .settled => return .{ .zones = &.{} },
        };
    }

    pub fn leaves_out_zones(self: *const RowGroup) bool {
        return self.use_indexes;
    }

    /// All pages are wanted: reading them as one piece takes fewer requests.
    pub fn read_everything(self: *RowGroup) void {
        self.use_indexes = false;
        for (self.leaves) |*leaf| leaf.index = null;
    }

    fn total_size(self: *const RowGroup) u64 {
        var size: u64 = 0;
        for (self.leaves) |*leaf| size += leaf.chunk.compressed_size;
        return size;
    }

    fn leaf_number(self: *const RowGroup, leaf: *const ChunkReader) u32 {
        return @intCast((@intFromPtr(leaf.leaf) - @intFromPtr(self.file.leaves.ptr)) / @sizeOf(metadata.Leaf));
    }

    /// Which leaf a column of the filter is, if it is read.
    fn bound_owner(self: *const RowGroup, binding: Binding) ?usize {
        if (binding != .place) return null;
        const index = self.file.places[binding.place].leaf_first;
        for (self.leaves, 0..) |*leaf, i| if (leaf.leaf == &self.file.leaves[index]) return i;
        return null;
    }

    fn bound_leaf(self: *RowGroup, binding: Binding) ?*ChunkReader {
        return &self.leaves[self.bound_owner(binding) orelse return null];
    }

    // ---- Bloom filters ----

    /// Asks for the filters of columns that must have one of a few values, where they are small beside
    /// what they may save.
    fn need_blooms(self: *RowGroup, question: *const Question, needs: *Needs) Error!void {
        if (self.row_count == 0) return;
        const saved = self.total_size();
        for (question.probes) |probe| {
            const owner = self.bound_owner(question.bindings[probe.binding]) orelse continue;
            const span = self.leaves[owner].chunk.bloom orelse continue;
            // Where the footer does not say, the header does.
            const size = if (span.size > 0) span.size else bloom.header_size_max;
            if (size > saved / bloom_part or span.offset + size > self.file.footer.file_size) continue;
            try self.need_span(owner, .{ .offset = span.offset, .size = size }, needs);
        }
    }

    /// Whether a filter denies all values that a row must have one of. Filters that cannot be read say
    /// nothing: they are advice, not data.
    fn blooms_exclude(self: *RowGroup, question: *const Question, needs: *Needs) Error!bool {
        for (question.probes) |probe| {
            const owner = self.bound_owner(question.bindings[probe.binding]) orelse continue;
            const leaf = &self.leaves[owner];
            const span = leaf.chunk.bloom orelse continue;
            const bytes = leaf.segments.from(.{ .offset = span.offset });
            if (bytes.len == 0) continue;
            const filter = bloom.Filter.init(bytes, span.size) catch |reason| {
                if (reason == error.Truncated and span.size == 0) try self.need_rest(owner, span.offset, bytes, needs);
                interrupt.forget();
                continue;
            };
            if (!might_hold(&filter, leaf.leaf, probe.values)) return true;
        }
        return false;
    }

    fn need_rest(self: *RowGroup, owner: usize, offset: u64, bytes: []const u8, needs: *Needs) Error!void {
        const extent = bloom.extent(bytes) catch return;
        if (extent.size() <= bytes.len or extent.size() > self.total_size() / bloom_part) return;
        if (offset + extent.size() > self.file.footer.file_size) return;
        try self.need_span(owner, .{ .offset = offset, .size = @intCast(extent.size()) }, needs);
    }

    // ---- page indexes ----

    /// Asks for the indexes, where they exist and can help.
    fn need_indexes(self: *RowGroup, question: *const Question, needs: *Needs) Error!void {
        if (self.row_count == 0) return;
        const prunes = question.bindings.len > 0;
        if (!prunes and !question.filters_first and !question.picks_rows) return;
        for (self.leaves) |*leaf| if (leaf.chunk.offset_index == null) return;
        if (prunes and !question.filters_first and !self.any_column_index(question)) return;
        if (!self.indexes_pay()) return;
        for (self.leaves, 0..) |*leaf, owner| {
            try self.need_span(owner, leaf.chunk.offset_index.?, needs);
            if (!self.is_bound(leaf, question)) continue;
            if (leaf.chunk.column_index) |span| try self.need_span(owner, span, needs);
        }
        self.use_indexes = true;
    }

    /// Whether leaving out pages could be worth a look at the indexes: of a few small pages it is not.
    fn indexes_pay(self: *const RowGroup) bool {
        var index_size: u64 = 0;
        for (self.leaves) |*leaf| index_size = @max(index_size, leaf.chunk.offset_index.?.size);
        const size = self.total_size();
        const page_count = index_size / location_size;
        return size >= index_size_worth and (page_count >= index_pages_worth or size >= index_size_always);
    }

    fn any_column_index(self: *const RowGroup, question: *const Question) bool {
        for (self.leaves) |*leaf| {
            if (leaf.chunk.column_index != null and self.is_bound(leaf, question)) return true;
        }
        return false;
    }

    fn is_bound(self: *const RowGroup, leaf: *const ChunkReader, question: *const Question) bool {
        for (question.bindings) |binding| if (binding == .place) {
            if (&self.file.leaves[self.file.places[binding.place].leaf_first] == leaf.leaf) return true;
        };
        return false;
    }

    /// What the indexes say of pages, by binding.
    fn read_indexes(self: *RowGroup, question: *const Question) Error![]const ?Zones {
        const arena = self.arena.allocator();
        const limits: page_index.Limits = .{ .file_size = self.file.footer.file_size, .row_count = self.row_count };
        for (self.inputs, 0..) |*input, i| if (input.*) |*found| for (found.node.leaves) |*leaf| {
            errdefer interrupt.describe_column(@intCast(i));
            const bytes = find_span(leaf, leaf.chunk.offset_index.?) orelse return reader.not_fetched();
            const index = try page_index.read_offset_index(arena, bytes, limits);
            if (index.page_count() == 0) {
                self.read_everything();
                return &.{};
            }
            const coded = self.file.coded_pages(self.number, self.leaf_number(leaf), index.page_count());
            leaf.use_index(index, coded);
        };
        const zones = try arena.alloc(?Zones, question.bindings.len);
        for (zones, question.bindings) |*of_column, binding| of_column.* = try self.index_zones(arena, binding);
        return zones;
    }

    fn index_zones(self: *RowGroup, arena: std.mem.Allocator, binding: Binding) Error!?Zones {
        const leaf = self.bound_leaf(binding) orelse return null;
        const span = leaf.chunk.column_index orelse return null;
        const offsets = leaf.index.?;
        const bytes = find_span(leaf, span) orelse return reader.not_fetched();
        const bounds = try page_index.read_column_index(arena, bytes, offsets.page_count());
        const known = try arena.alloc(statistics.Evidence, offsets.page_count());
        for (known, 0..) |*item, page| item.* = bounds.evidence(page, offsets.row_count(page, self.row_count));
        return try self.make_zones(arena, leaf, offsets.first_rows, known);
    }

    fn make_zones(
        self: *const RowGroup,
        arena: std.mem.Allocator,
        leaf: *const ChunkReader,
        first_rows: []const u64,
        known: []const statistics.Evidence,
    ) Error!Zones {
        const rows = try Zones.counts(arena, first_rows, self.row_count);
        const bounds = try self.file.build_bounds(arena, self.leaf_number(leaf), known, rows);
        return .{ .first_rows = first_rows, .bounds = bounds };
    }

    // ---- page headers ----

    /// What the headers say of the rows that all filter columns have here.
    pub fn seen(self: *RowGroup, arena: std.mem.Allocator, bindings: []const Binding) Error!Seen {
        var end = self.row_count;
        for (bindings) |binding| {
            const leaf = self.bound_leaf(binding) orelse continue;
            end = @min(end, try leaf.walk_ahead(&self.scratch) orelse continue);
        }
        const zones = try arena.alloc(?Zones, bindings.len);
        var found = false;
        for (zones, bindings) |*of_column, binding| {
            of_column.* = null;
            const leaf = self.bound_leaf(binding) orelse continue;
            const headers = try leaf.header_pages(arena, end) orelse continue;
            of_column.* = try self.make_zones(arena, leaf, headers.first_rows, headers.evidence);
            found = true;
        }
        return .{ .end = end, .zones = if (found) zones else &.{} };
    }

    /// Rows before `end` are not wanted.
    pub fn pass_over(self: *RowGroup, end: u64) void {
        for (self.leaves) |*leaf| leaf.skip_pages(end);
    }

    // ---- rows ----

    /// Back to the first row.
    pub fn rewind(self: *RowGroup, input: usize) void {
        for (self.inputs[input].?.node.leaves) |*leaf| leaf.rewind();
    }

    /// Bytes of a row of the largest column, as far as the footer tells.
    pub fn row_size(self: *const RowGroup) u64 {
        var size: u64 = 0;
        for (self.leaves) |*leaf| size = @max(size, leaf.row_size());
        return size;
    }

    pub fn picks(self: *const RowGroup, input: usize) bool {
        return self.inputs[input].?.node.is_flat();
    }

    pub fn skip_to(self: *RowGroup, input: usize, row: u64) Error!void {
        for (self.inputs[input].?.node.leaves) |*leaf| try leaf.skip_to(row);
    }

    pub fn read(self: *RowGroup, input: usize, builder: *ColumnBuilder, row: u64, count: u32) Error!void {
        try self.skip_to(input, row);
        try self.inputs[input].?.node.read(builder, count);
    }

    pub fn read_selected(
        self: *RowGroup,
        input: usize,
        builder: *ColumnBuilder,
        row: u64,
        count: u32,
        chosen: []const u32,
    ) Error!void {
        try self.skip_to(input, row);
        try self.leaf_of(input).read_selected(builder, count, chosen);
    }

    // ---- codes ----

    fn leaf_of(self: *const RowGroup, input: usize) *ChunkReader {
        return &self.inputs[input].?.node.leaves[0];
    }

    pub fn has_codes(self: *const RowGroup, input: usize, begin: u64, end: u64) bool {
        return self.leaf_of(input).has_codes(begin, end);
    }

    pub fn read_codes(self: *RowGroup, input: usize, coded: *CodedRows, row: u64, count: u32) Error!void {
        try self.skip_to(input, row);
        try self.leaf_of(input).read_codes(coded, count);
    }

    pub fn append_coded(
        self: *RowGroup,
        input: usize,
        builder: *ColumnBuilder,
        coded: *CodedRows,
        first: u32,
        count: u32,
    ) Error!void {
        try self.leaf_of(input).append_coded(builder, coded, first, count);
    }

    pub fn dictionary(self: *const RowGroup, input: usize) ?reader.Dictionary {
        const values = &self.leaf_of(input).values;
        return .{
            .entries = &(values.dictionary orelse return null),
            .id = values.dictionary_id,
            .entry_size_max = values.entry_size_max,
        };
    }

    pub fn coded_row_size(self: *const RowGroup, input: usize, begin: u64, end: u64) u64 {
        var size: u64 = 0;
        for (self.inputs[input].?.node.leaves) |*leaf| size = @max(size, leaf.coded_row_size(begin, end));
        return size;
    }

    pub fn zones_skipped(self: *const RowGroup) u32 {
        var count: u32 = 0;
        for (self.leaves) |*leaf| count +|= leaf.count_skipped();
        return count;
    }
};

/// A Bloom filter is worth its bytes when they are at most this part of what it may save.
const bloom_part = 4;

/// An offset index takes about so many bytes a page.
const location_size = 12;
/// Smaller row groups are read whole: a request more costs as much as all their bytes.
const index_size_worth = 128 << 10;
/// With fewer pages than this, only large ones are worth an index.
const index_pages_worth = 8;
const index_size_always = 8 << 20;

fn might_hold(filter: *const bloom.Filter, leaf: *const metadata.Leaf, values: []const Column) bool {
    for (values) |*value| {
        const is_text = value.type.layout() == .bytes;
        const bytes = if (is_text) value.bytes_at(0) else value.data[0..@intCast(value.type.value_size())];
        const hash = bloom.hash_value(leaf, bytes) orelse return true;
        if (filter.might_contain(hash)) return true;
    }
    return false;
}

fn find_span(leaf: *const ChunkReader, span: metadata.Span) ?[]const u8 {
    return leaf.segments.find(.{ .offset = span.offset, .size = span.size });
}
