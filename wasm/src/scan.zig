//! Reads one row group of a file into a query: which bytes it needs, which rows can matter, what is
//! decoded. The host only fetches.
//!
//!     open → [Bloom filters] → [indexes: rows that may match] → [filter: rows that match] → rows → done
//!                 ↓                  ↓ need bytes                     ↓ need bytes           ↓ or output
//!
//! `step` goes on until it lacks bytes, has output or is done. Rows pass in chunks that are cut from
//! what the query reads of the row group and from the filter alone, never from what was fetched
//! together: sums of floats come out the same however the bytes arrive. A chunk has 16,384 rows, but
//! fewer where a column of so many would take more than `part_size`: where the footer says so, where
//! the filter must have values of a dictionary whose entries are that large, and behind the filter as
//! soon as the entries that rows stand for add up to it.
//!
//! The query's leading filters are taken apart into their AND terms. A term over one column is asked
//! once per entry of its dictionary, and its rows by their codes; other terms follow, over decoded
//! values, while rows are left. The columns behind the filter are decoded for chunks in which rows are
//! left, and when that is half of them or fewer, only those rows.
//! With `filter_first` the filter runs over the whole row group before any other column is even asked
//! for: it costs a second decoding of the filter's columns where rows survive, and saves reading what
//! no surviving row needs. The host decides that, since it knows what a request costs; where the index
//! has left only a few rows, it is done anyway.
const std = @import("std");
const bitmap = @import("core/bitmap.zig");
const bloom = @import("format/parquet/bloom.zig");
const column_chunk = @import("format/parquet/column_chunk.zig");
const column_module = @import("core/column.zig");
const demand = @import("plan/demand.zig");
const expression_module = @import("plan/expression.zig");
const interrupt = @import("core/interrupt.zig");
const metadata = @import("format/parquet/metadata.zig");
const nested = @import("format/parquet/nested.zig");
const page_index = @import("format/parquet/page_index.zig");
const pipeline = @import("pipeline.zig");
const prune = @import("prune.zig");
const segments_module = @import("format/segments.zig");
const Arena = @import("core/arena.zig").Arena;
const ChunkReader = column_chunk.ChunkReader;
const CodedRows = @import("format/parquet/coded_rows.zig").CodedRows;
const Coded = column_module.Coded;
const Column = column_module.Column;
const ColumnBuilder = @import("core/column_builder.zig").ColumnBuilder;
const DataType = @import("core/schema.zig").DataType;
const Expression = expression_module.Expression;
const File = @import("format/parquet/file.zig").File;
const NodeReader = nested.NodeReader;
const Query = pipeline.Query;
const Range = segments_module.Range;
const RowRange = prune.RowRange;
const Segment = segments_module.Segment;
const Selection = expression_module.Selection;

pub const Error = pipeline.Error || nested.Error || prune.Error;

/// Where a column of the query's input comes from.
pub const Input = union(enum) {
    /// Of the file's `places`.
    node: u32,
    /// One row, repeated.
    constant: Column,
};

pub const Options = struct {
    row_group: u32,
    window_size: u64,
    verify_crc: bool = false,
    /// Run the filter over the whole row group before the other columns are asked for.
    filter_first: bool = false,
    /// Say what would be read, and read nothing but indexes.
    plan_only: bool = false,
    /// Rows that are wanted; all where it is empty.
    ranges: []const RowRange = &.{},
};

/// A row must have one of these values in a column: what a Bloom filter can be asked.
pub const Probe = struct {
    /// Of `Prune.bindings`.
    binding: u32,
    /// Each one row long, of the column's type.
    values: []const Column,
};

/// A filter over statistics, and what its columns are in this file.
pub const Prune = struct {
    predicate: *const Expression,
    bindings: []const prune.Binding,
    probes: []const Probe,
    types: []const DataType,
};

pub const Progress = enum { need_bytes, output, done };

/// A range that is missing, and the leaf reader that wants it.
pub const Need = struct { range: Range, owner: u32 };

pub const Stage = enum { start, blooms, indexes, plan, filter, rows, done };

/// Rows that pass together.
const Cut = struct { row: u64, count: u32 };

/// A cut in which rows are left, and around them the spans that the other columns are read in.
const Survivor = struct { cut: Cut, spans: []const Span };

/// Selected rows further apart than this are read as two spans, and what lies between is skipped.
const span_gap = 512;

/// A part of the filter. All parts must be TRUE.
const Term = struct {
    expression: *const Expression,
    /// Inputs that it names.
    columns: []const bool,
    /// The one input that it names, if it is one that can be asked by its dictionary.
    single: ?u32,
    /// For every code of the dictionary, and then for NULL: 1 if the term is TRUE.
    verdicts: ?[]const u8 = null,

    /// Sorted first: terms that may cost a look at a dictionary only; late: those that look into a
    /// build; last: those that may fail, in their order, since the others take out rows that must not
    /// fail.
    fn rank(self: *const Term) u8 {
        if (self.expression.fallible) return 3;
        if (looks_up(self.expression)) return 2;
        return if (self.single != null) 0 else 1;
    }

    fn before(_: void, a: Term, b: Term) bool {
        return a.rank() < b.rank();
    }
};

/// What is known of an input in the cut being worked on: nothing, the codes of all rows, those of the
/// rows that are left, all values.
const Known = enum { unread, codes, picked, values };

/// Bytes of a column that pass together, about.
const part_size: u64 = 16 << 20;

const Reader = struct {
    node: NodeReader,
    /// Its first leaf in `leaves`.
    first: u32,
};

pub const Scan = struct {
    gpa: std.mem.Allocator,
    arena: Arena,
    query: *Query,
    file: *File,
    options: Options,
    prune: ?Prune,
    row_count: u64,
    stage: Stage = .start,
    inputs: []const Input,
    /// One per input that is read from the file; null for constants.
    readers: []?Reader,
    leaves: []ChunkReader,
    builders: []ColumnBuilder,
    /// Of the rows that are left of a cut.
    taken: []ColumnBuilder = &.{},
    /// Rows of a cut, as a rule.
    cut_rows: u32 = expression_module.chunk_rows,
    /// Leading filters of the query, their terms, and which inputs they name.
    filter_count: usize,
    terms: []Term = &.{},
    filtered: []bool,
    /// Inputs that somebody behind the filter names.
    used: []bool = &.{},
    /// Texts that serve as keys of groups and nothing else: their codes will do.
    keys: []bool = &.{},
    known: []Known = &.{},
    /// The cut's rows, for inputs that are known by their codes.
    coded: []CodedRows = &.{},
    /// Rows that may match, and how far they have been cut.
    ranges: []const RowRange,
    range_index: usize = 0,
    range_row: u64 = 0,
    /// The cut being worked on.
    cut: ?Cut = null,
    /// Its rows that are left, counted from its own first one, and how many of them have passed.
    rows: std.ArrayList(u32) = .empty,
    rows_passed: u32 = 0,
    /// Bytes of a row, at most, of inputs of which not all of these rows may pass at once; else 0.
    large: []u64 = &.{},
    /// The one text that is looked at, if for nothing but its least or greatest value: then rows with an
    /// entry of its dictionary that has passed before change nothing.
    extreme: ?u32 = null,
    /// Bits of these entries.
    passed: []u8 = &.{},
    /// After the filter ran over everything: the cuts in which rows are left.
    surviving: std.ArrayList(Survivor) = .empty,
    surviving_next: usize = 0,
    filter_done: bool = false,
    /// Rows that may match by the headers of pages, from the cut on, and up to which row headers were read.
    header_ranges: []const RowRange = &.{},
    headers_known: u64 = 0,
    header_arena: Arena,
    use_indexes: bool = false,
    needs: std.ArrayList(Need) = .empty,
    scratch_needs: column_chunk.Needs = .empty,
    /// Rows that pages ruled out.
    rows_pruned: u64 = 0,
    /// The host named the rows that it wants.
    picks_rows: bool = false,

    pub fn open(gpa: std.mem.Allocator, query: *Query, file: *File, inputs: []const Input, pruning: ?Prune, options: Options) Error!*Scan {
        const self = try gpa.create(Scan);
        errdefer gpa.destroy(self);
        const row_count = file.footer.row_group(options.row_group).row_count;
        self.* = .{
            .gpa = gpa,
            .arena = .init(gpa),
            .header_arena = .init(gpa),
            .query = query,
            .file = file,
            .options = options,
            .prune = pruning,
            .row_count = row_count,
            .inputs = inputs,
            .readers = &.{},
            .leaves = &.{},
            .builders = &.{},
            .filter_count = demand.leading_filters(query.plan.nodes),
            .filtered = &.{},
            .ranges = &.{},
        };
        errdefer self.release();
        const arena = self.arena.allocator();
        self.inputs = try self.copy_inputs(arena, inputs);
        if (pruning) |given| self.prune = try copy_prune(arena, given);
        const every_row = [_]RowRange{.{ .begin = 0, .end = row_count }};
        self.ranges = try arena.dupe(RowRange, if (options.ranges.len > 0) options.ranges else &every_row);
        self.options.ranges = &.{}; // the caller's
        self.picks_rows = options.ranges.len > 0;
        self.filtered = try arena.alloc(bool, inputs.len);
        const following = query.plan.nodes[self.filter_count..];
        demand.mark_filtered(query.plan.nodes[0..self.filter_count], self.filtered);
        self.used = try arena.alloc(bool, inputs.len);
        demand.mark_used(following, self.used);
        self.keys = try arena.alloc(bool, inputs.len);
        try demand.mark_keys(arena, query.plan.input, following, self.keys);
        self.known = try arena.alloc(Known, inputs.len);
        self.large = try arena.alloc(u64, inputs.len);
        try self.open_readers(arena);
        self.cut_rows = self.rows_of_cuts();
        self.extreme = self.find_extreme();
        self.coded = try arena.alloc(CodedRows, inputs.len);
        @memset(self.coded, .{});
        try self.open_terms(arena);
        return self;
    }

    fn open_terms(self: *Scan, arena: std.mem.Allocator) Error!void {
        var terms: std.ArrayList(Term) = .empty;
        for (self.query.plan.nodes[0..self.filter_count]) |*node| {
            try self.add_terms(arena, &terms, node.predicate().?);
        }
        std.mem.sort(Term, terms.items, {}, Term.before);
        self.terms = terms.items;
    }

    fn add_terms(self: *Scan, arena: std.mem.Allocator, terms: *std.ArrayList(Term), expression: *const Expression) Error!void {
        if (expression.node == .logical_and) {
            for (expression.node.logical_and) |*term| try self.add_terms(arena, terms, term);
            return;
        }
        const columns = try arena.alloc(bool, self.inputs.len);
        @memset(columns, false);
        expression.mark_columns(columns);
        try terms.append(arena, .{ .expression = expression, .columns = columns, .single = self.single_input(expression, columns) });
    }

    fn single_input(self: *const Scan, expression: *const Expression, columns: []const bool) ?u32 {
        if (expression.fallible) return null;
        var found: ?u32 = null;
        for (columns, 0..) |named, i| if (named) {
            if (found != null or self.readers[i] == null) return null;
            found = @intCast(i);
        };
        const input = found orelse return null;
        const reader = &self.readers[input].?;
        return if (reader.node.is_flat()) input else null;
    }

    fn find_extreme(self: *const Scan) ?u32 {
        if (!demand.only_extremes(self.query.plan.nodes[self.filter_count..])) return null;
        if (std.mem.countScalar(bool, self.used, true) != 1) return null;
        const input = std.mem.findScalar(bool, self.used, true).?;
        const reader = &(self.readers[input] orelse return null);
        return if (reader.node.is_flat() and reader.node.node.type.layout() == .bytes) @intCast(input) else null;
    }

    /// Constants outlive the request that brought them.
    fn copy_inputs(self: *Scan, arena: std.mem.Allocator, inputs: []const Input) Error![]const Input {
        const copies = try arena.dupe(Input, inputs);
        for (copies, self.query.plan.input) |*input, field| if (input.* == .constant) {
            var builder: ColumnBuilder = try .init(arena, field.type);
            if (input.constant.is_valid(0)) try builder.append_range(&input.constant, 0, 1) else try builder.append_nulls(1);
            input.constant = try builder.finish(arena);
        };
        return copies;
    }

    fn copy_prune(arena: std.mem.Allocator, given: Prune) Error!Prune {
        var copy = given;
        copy.types = try arena.dupe(DataType, given.types);
        const bindings = try arena.dupe(prune.Binding, given.bindings);
        for (bindings) |*binding| if (binding.* == .constant) {
            var builder: ColumnBuilder = try .init(arena, binding.constant.type);
            try builder.append_range(&binding.constant, 0, 1);
            binding.constant = try builder.finish(arena);
        };
        copy.bindings = bindings;
        const probes = try arena.dupe(Probe, given.probes);
        for (probes) |*probe| {
            const values = try arena.dupe(Column, probe.values);
            for (values) |*value| {
                var builder: ColumnBuilder = try .init(arena, value.type);
                try builder.append_range(value, 0, 1);
                value.* = try builder.finish(arena);
            }
            probe.values = values;
        }
        copy.probes = probes;
        return copy;
    }

    fn open_readers(self: *Scan, arena: std.mem.Allocator) Error!void {
        var leaf_count: usize = 0;
        for (self.inputs) |input| if (input == .node) {
            leaf_count += self.file.places[input.node].leaf_count;
        };
        self.leaves = try arena.alloc(ChunkReader, leaf_count);
        self.readers = try arena.alloc(?Reader, self.inputs.len);
        const builders = try arena.alloc(ColumnBuilder, self.inputs.len);
        const taken = try arena.alloc(ColumnBuilder, self.inputs.len);
        var next: u32 = 0;
        for (self.inputs, self.readers, builders, self.query.plan.input, 0..) |input, *reader, *builder, field, i| {
            builder.* = try .init(self.gpa, field.type);
            self.builders = builders[0 .. i + 1];
            taken[i] = try .init(self.gpa, field.type);
            self.taken = taken[0 .. i + 1];
            reader.* = null;
            if (input != .node) continue;
            const node = &self.file.places[input.node];
            for (self.leaves[next..][0..node.leaf_count], node.leaf_first..) |*leaf, index| leaf.* = self.open_leaf(@intCast(index));
            reader.* = .{ .node = .{ .node = node, .leaves = self.leaves[next..][0..node.leaf_count] }, .first = next };
            next += node.leaf_count;
        }
    }

    fn open_leaf(self: *Scan, index: u32) ChunkReader {
        return .init(self.gpa, &self.file.leaves[index], self.file.footer.chunk(self.options.row_group, index), .{
            .file_size = self.file.footer.file_size,
            .row_count = self.row_count,
            .window_size = self.options.window_size,
            .verify_crc = self.options.verify_crc,
        });
    }

    pub fn close(self: *Scan) void {
        const gpa = self.gpa;
        self.release();
        gpa.destroy(self);
    }

    fn release(self: *Scan) void {
        for (self.leaves) |*leaf| leaf.deinit();
        for (self.builders) |*builder| builder.deinit();
        for (self.taken) |*builder| builder.deinit();
        for (self.coded) |*coded| coded.deinit(self.gpa);
        self.rows.deinit(self.gpa);
        self.surviving.deinit(self.gpa);
        self.needs.deinit(self.gpa);
        self.scratch_needs.deinit(self.gpa);
        self.header_arena.deinit();
        self.arena.deinit();
    }

    // ---- bytes ----

    pub fn add_segment(self: *Scan, owner: u32, segment: Segment) Error!void {
        if (owner >= self.leaves.len) {
            interrupt.describe("bytes for column chunk {d} of {d}", .{ owner, self.leaves.len });
            return error.InvalidPlan;
        }
        try self.leaves[owner].segments.add(self.gpa, segment);
    }

    /// Segments that are no longer needed are forgotten; the host asks which ones are left.
    fn forget_segments(self: *Scan) void {
        for (self.leaves) |*leaf| leaf.segments.forget_before(leaf.oldest_used());
    }

    fn note_needs(self: *Scan, owner: usize) Error!void {
        for (self.scratch_needs.items) |range| try self.needs.append(self.gpa, .{ .range = range, .owner = @intCast(owner) });
        self.scratch_needs.clearRetainingCapacity();
    }

    // ---- steps ----

    pub fn step(self: *Scan) Error!Progress {
        self.needs.clearRetainingCapacity();
        while (true) switch (self.stage) {
            .start => {
                self.stage = .blooms;
                if (try self.need_blooms()) return .need_bytes;
            },
            .blooms => {
                if (try self.blooms_exclude()) return self.finish();
                if (self.needs.items.len > 0) return .need_bytes;
                self.stage = .indexes;
                if (try self.need_indexes()) return .need_bytes;
            },
            .indexes => {
                if (!try self.apply_indexes()) return self.finish();
                self.stage = if (self.options.filter_first and self.filter_count > 0) .filter else .rows;
                const needs_pages = try self.need_pages();
                if (self.options.plan_only) {
                    // With an index these pages are all; else the chunks follow, window by window.
                    self.stage = if (self.use_indexes) .done else .plan;
                    if (needs_pages) return .need_bytes;
                    continue;
                }
                if (needs_pages) return .need_bytes;
            },
            .plan => return self.plan_windows(),
            .filter => {
                if (!try self.run_filter()) return .need_bytes;
                if (self.surviving.items.len == 0) return self.finish();
                self.rewind();
                self.stage = .rows;
                if (try self.need_surviving()) return .need_bytes;
            },
            .rows => {
                const cut = (try self.next_cut()) orelse return self.finish();
                if (!try self.prepare(cut)) {
                    self.forget_segments();
                    return .need_bytes;
                }
                const is_new = self.rows_passed == self.rows.items.len;
                if (is_new and try self.headers_exclude(cut)) continue;
                if (is_new) try self.read_cut(self.shorten_cut(cut)) else try self.pass_rows(cut);
                if (self.query.saturated) return self.finish();
                if (self.query.pending.items.len > 0) return .output;
            },
            .done => return .done,
        };
    }

    /// A round of what the rows would need: columns run out of bytes at about the same time.
    fn plan_windows(self: *Scan) Error!Progress {
        var is_last = true;
        for (self.leaves, 0..) |*leaf, owner| {
            if (try leaf.plan_window(&self.scratch_needs)) is_last = false;
            try self.note_needs(owner);
        }
        if (is_last) self.stage = .done;
        return if (self.needs.items.len > 0) .need_bytes else .done;
    }

    /// Whether pages were asked for that may turn out to need a dictionary.
    pub fn is_unsure(self: *const Scan) bool {
        for (self.leaves) |*leaf| if (leaf.is_unsure) return true;
        return false;
    }

    fn coded_pages(self: *const Scan, leaf: *const ChunkReader, page_count: u64) ?u64 {
        const number = (@intFromPtr(leaf.leaf) - @intFromPtr(self.file.leaves.ptr)) / @sizeOf(metadata.Leaf);
        return self.file.coded_pages(self.options.row_group, @intCast(number), page_count);
    }

    fn finish(self: *Scan) Error!Progress {
        self.stage = .done;
        for (self.leaves) |*leaf| interrupt.control.pages_skipped +|= leaf.count_skipped();
        try self.query.settle_output();
        return .done;
    }

    // ---- Bloom filters ----

    /// Asks for the filters of columns that must have one of a few values, where they are small beside
    /// what they may save.
    fn need_blooms(self: *Scan) Error!bool {
        const pruning = self.prune orelse return false;
        if (self.row_count == 0) return false;
        var saved: u64 = 0;
        for (self.leaves) |*leaf| saved += leaf.chunk.compressed_size;
        for (pruning.probes) |probe| {
            const owner = self.probed_leaf(probe) orelse continue;
            const span = self.leaves[owner].chunk.bloom orelse continue;
            // Where the footer does not say, the header does.
            const size = if (span.size > 0) span.size else bloom.header_size_max;
            if (size > saved / bloom_part or span.offset + size > self.file.footer.file_size) continue;
            try self.need_span(owner, .{ .offset = span.offset, .size = size });
        }
        return self.needs.items.len > 0;
    }

    fn probed_leaf(self: *const Scan, probe: Probe) ?usize {
        const binding = self.prune.?.bindings[probe.binding];
        if (binding != .leaf) return null;
        for (self.leaves, 0..) |*leaf, i| if (leaf.leaf == &self.file.leaves[binding.leaf]) return i;
        return null;
    }

    /// Whether a filter denies all values that a row must have one of. Filters that cannot be read say
    /// nothing: they are advice, not data.
    fn blooms_exclude(self: *Scan) Error!bool {
        const pruning = self.prune orelse return false;
        for (pruning.probes) |probe| {
            const owner = self.probed_leaf(probe) orelse continue;
            const leaf = &self.leaves[owner];
            const span = leaf.chunk.bloom orelse continue;
            const bytes = leaf.segments.from(span.offset);
            if (bytes.len == 0) continue;
            const filter = bloom.Filter.init(bytes, span.size) catch |reason| {
                if (reason == error.Truncated and span.size == 0) try self.need_rest(owner, span.offset, bytes);
                interrupt.forget();
                continue;
            };
            if (!might_hold(&filter, leaf.leaf, probe.values)) return true;
        }
        return false;
    }

    fn need_rest(self: *Scan, owner: usize, offset: u64, bytes: []const u8) Error!void {
        const extent = bloom.extent(bytes) catch return;
        var saved: u64 = 0;
        for (self.leaves) |*leaf| saved += leaf.chunk.compressed_size;
        if (extent.size() <= bytes.len or extent.size() > saved / bloom_part) return;
        if (offset + extent.size() > self.file.footer.file_size) return;
        try self.need_span(owner, .{ .offset = offset, .size = @intCast(extent.size()) });
    }

    // ---- page indexes ----

    /// Asks for the indexes, where they exist and can help.
    fn need_indexes(self: *Scan) Error!bool {
        if (self.row_count == 0) return false;
        const filters_first = self.options.filter_first and self.filter_count > 0;
        if (self.prune == null and !filters_first and !self.picks_rows) return false;
        for (self.leaves) |*leaf| if (leaf.chunk.offset_index == null) return false;
        if (self.prune != null and !self.options.filter_first and !self.any_column_index()) return false;
        if (!self.indexes_pay()) return false;
        for (self.leaves, 0..) |*leaf, owner| {
            try self.need_span(owner, leaf.chunk.offset_index.?);
            if (self.is_pruned_by(leaf)) if (leaf.chunk.column_index) |span| try self.need_span(owner, span);
        }
        self.use_indexes = true;
        return self.needs.items.len > 0;
    }

    /// Whether leaving out pages could be worth a look at the indexes: of a few small pages it is not.
    fn indexes_pay(self: *const Scan) bool {
        var size: u64 = 0;
        var index_size: u64 = 0;
        for (self.leaves) |*leaf| {
            size += leaf.chunk.compressed_size;
            index_size = @max(index_size, leaf.chunk.offset_index.?.size);
        }
        const page_count = index_size / location_size;
        return size >= index_size_worth and (page_count >= index_pages_worth or size >= index_size_always);
    }

    fn any_column_index(self: *const Scan) bool {
        for (self.leaves) |*leaf| if (self.is_pruned_by(leaf) and leaf.chunk.column_index != null) return true;
        return false;
    }

    fn is_pruned_by(self: *const Scan, leaf: *const ChunkReader) bool {
        const pruning = self.prune orelse return false;
        for (pruning.bindings) |binding| switch (binding) {
            .leaf => |index| if (&self.file.leaves[index] == leaf.leaf) return true,
            else => {},
        };
        return false;
    }

    fn need_span(self: *Scan, owner: usize, span: metadata.Span) Error!void {
        try self.needs.append(self.gpa, .{ .range = .{ .offset = span.offset, .size = span.size }, .owner = @intCast(owner) });
    }

    /// Reads the indexes and keeps the rows that may match; false when there are none.
    fn apply_indexes(self: *Scan) Error!bool {
        if (self.row_count == 0) return false;
        if (!self.use_indexes) return true;
        const arena = self.arena.allocator();
        const limits: page_index.Limits = .{ .file_size = self.file.footer.file_size, .row_count = self.row_count };
        for (self.readers, 0..) |*reader, input| if (reader.*) |*found| for (found.node.leaves) |*leaf| {
            errdefer interrupt.describe_column(@intCast(input));
            const bytes = find_span(leaf, leaf.chunk.offset_index.?) orelse return not_fetched();
            const index = try page_index.read_offset_index(arena, bytes, limits);
            if (index.page_count() == 0) {
                self.forget_indexes();
                return true;
            }
            leaf.use_index(index, self.coded_pages(leaf, index.page_count()));
        };
        if (self.prune) |pruning| try self.prune_pages(arena, pruning);
        if (self.ranges.len == 0) return false;
        // Few rows are filtered twice at no cost, and then the pages of the others are fewer still.
        if (self.row_count - self.rows_pruned <= self.row_count / few_rows_part) self.options.filter_first = true;
        const whole = self.ranges.len == 1 and self.ranges[0].count() == self.row_count;
        if (whole and !self.options.filter_first) {
            // All pages are wanted: reading them as one piece takes fewer requests.
            self.forget_indexes();
        }
        return true;
    }

    fn forget_indexes(self: *Scan) void {
        self.use_indexes = false;
        for (self.leaves) |*leaf| leaf.index = null;
    }

    fn prune_pages(self: *Scan, arena: std.mem.Allocator, pruning: Prune) Error!void {
        const pages = try arena.alloc(?prune.Pages, pruning.bindings.len);
        for (pages, pruning.bindings) |*of_column, binding| {
            of_column.* = null;
            const leaf = self.bound_leaf(binding) orelse continue;
            const span = leaf.chunk.column_index orelse continue;
            if (leaf.index.?.page_count() == 0) continue;
            const bytes = find_span(leaf, span) orelse return not_fetched();
            const bounds = try page_index.read_column_index(arena, bytes, leaf.index.?.page_count());
            of_column.* = try .of_index(arena, leaf.index.?, bounds, self.row_count);
        }
        self.ranges = try self.row_ranges(arena, pruning, pages);
        var kept: u64 = 0;
        for (self.ranges) |range| kept += range.count();
        self.rows_pruned = self.row_count - kept;
    }

    // ---- page headers ----

    /// Files without an index may have bounds in the headers of their pages. The bytes of a cut are here by
    /// then, but need not be decoded where no row can match. Which pages are here depends on windows; cuts
    /// do not, so they are left out as they are.
    fn headers_exclude(self: *Scan, cut: Cut) Error!bool {
        const pruning = self.prune orelse return false;
        if (self.use_indexes or self.filter_done) return false;
        const end = cut.row + cut.count;
        if (end > self.headers_known) try self.read_headers(pruning);
        while (self.header_ranges.len > 0 and self.header_ranges[0].end <= cut.row) self.header_ranges = self.header_ranges[1..];
        if (self.header_ranges.len > 0 and self.header_ranges[0].begin < end) return false;
        for (self.leaves) |*leaf| leaf.skip_pages(end);
        self.cut = null;
        return true;
    }

    /// What the headers say of the rows that all filter columns have here.
    fn read_headers(self: *Scan, pruning: Prune) Error!void {
        _ = self.header_arena.reset(.retain_capacity);
        const arena = self.header_arena.allocator();
        self.headers_known = self.row_count;
        for (pruning.bindings) |binding| {
            const leaf = self.bound_leaf(binding) orelse continue;
            const known = try leaf.walk_ahead(&self.scratch_needs) orelse continue;
            self.headers_known = @min(self.headers_known, known);
        }
        const pages = try arena.alloc(?prune.Pages, pruning.bindings.len);
        var found = false;
        for (pages, pruning.bindings) |*of_column, binding| {
            of_column.* = null;
            const leaf = self.bound_leaf(binding) orelse continue;
            const headers = try leaf.header_pages(arena, self.headers_known) orelse continue;
            of_column.* = .{ .first_rows = headers.first_rows, .evidence = headers.evidence };
            found = true;
        }
        self.header_ranges = if (found)
            try self.row_ranges(arena, pruning, pages)
        else
            try arena.dupe(RowRange, &.{.{ .begin = 0, .end = self.row_count }});
    }

    fn row_ranges(self: *const Scan, arena: std.mem.Allocator, pruning: Prune, pages: []const ?prune.Pages) Error![]const RowRange {
        return prune.page_ranges(arena, self.file, self.options.row_group, pruning.predicate, pruning.bindings, pruning.types, pages);
    }

    fn bound_leaf(self: *Scan, binding: prune.Binding) ?*ChunkReader {
        return if (binding == .leaf) self.find_leaf(binding.leaf) else null;
    }

    fn find_leaf(self: *Scan, index: u32) ?*ChunkReader {
        for (self.leaves) |*leaf| if (leaf.leaf == &self.file.leaves[index]) return leaf;
        return null;
    }

    /// Asks for all pages of the rows that may match, of the columns that come first.
    fn need_pages(self: *Scan) Error!bool {
        if (!self.use_indexes) return false;
        for (self.readers, 0..) |*reader, i| if (reader.*) |*found| {
            if (self.stage == .filter and !self.filtered[i]) continue;
            for (found.node.leaves, found.first..) |*leaf, owner| {
                for (self.ranges) |range| try leaf.need_rows(range.begin, range.end, &self.scratch_needs);
                try self.note_needs(owner);
            }
        };
        return self.needs.items.len > 0;
    }

    // ---- cutting ----

    fn next_cut(self: *Scan) Error!?Cut {
        if (self.cut) |cut| return cut;
        if (self.filter_done) {
            if (self.surviving_next == self.surviving.items.len) return null;
            self.cut = self.surviving.items[self.surviving_next].cut;
            self.surviving_next += 1;
            return self.cut;
        }
        while (self.range_index < self.ranges.len) {
            const range = self.ranges[self.range_index];
            const row = @max(self.range_row, range.begin);
            if (row < range.end) {
                const count: u32 = @intCast(@min(range.end - row, self.cut_rows));
                self.range_row = row + count;
                self.cut = .{ .row = row, .count = count };
                return self.cut;
            }
            self.range_index += 1;
        }
        return null;
    }

    /// Rows of a cut, as far as the footer tells how large they are.
    fn rows_of_cuts(self: *const Scan) u32 {
        var size: u64 = 0;
        for (self.leaves) |*leaf| size = @max(size, leaf.row_size());
        return rows_of_size(size, expression_module.chunk_rows);
    }

    /// The filter decodes all rows of a cut that it cannot judge by their codes: no more than may pass
    /// together. Its columns are here at this point, however the bytes arrive.
    fn shorten_cut(self: *Scan, cut: Cut) Cut {
        if (self.filter_done or self.filter_count == 0) return cut;
        var size: u64 = 0;
        for (self.terms) |*term| {
            if (self.judges_codes(term, cut)) continue;
            for (term.columns, 0..) |named, input| if (named) {
                size = @max(size, self.coded_row_size(input, cut, &whole_span(cut.count)));
            };
        }
        const count = rows_of_size(size, cut.count);
        if (count == cut.count) return cut;
        self.cut = .{ .row = cut.row, .count = count };
        self.range_row = cut.row + count;
        return self.cut.?;
    }

    /// What a row of an input takes at most by way of dictionaries, in these parts of a cut; 0 where that
    /// lets them pass together.
    fn coded_row_size(self: *const Scan, input: usize, cut: Cut, spans: []const Span) u64 {
        const reader = &(self.readers[input] orelse return 0);
        var count: u64 = 0;
        for (spans) |span| count += if (reader.node.is_flat()) span.row_count else span.count();
        var size: u64 = 0;
        for (reader.node.leaves) |*leaf| for (spans) |span| {
            if (leaf.values.entry_size_max == 0) break;
            size = @max(size, leaf.coded_row_size(cut.row + span.begin, cut.row + span.end));
        };
        return if (size *| count > part_size) size else 0;
    }

    /// Whether the bytes for a cut are here.
    fn prepare(self: *Scan, cut: Cut) Error!bool {
        const whole = whole_span(cut.count);
        for (self.readers, self.filtered, 0..) |*reader, filtered, input| if (reader.*) |*found| {
            errdefer interrupt.describe_column(@intCast(input));
            const spans = if (self.filter_done and !filtered) self.surviving.items[self.surviving_next - 1].spans else &whole;
            try self.prepare_spans(found, cut, spans);
        };
        return self.needs.items.len == 0;
    }

    fn prepare_spans(self: *Scan, reader: *const Reader, cut: Cut, spans: []const Span) Error!void {
        for (reader.node.leaves, reader.first..) |*leaf, owner| {
            for (spans) |span| {
                if (!try leaf.prepare(cut.row + span.begin, cut.row + span.end, &self.scratch_needs)) break;
            }
            try self.note_needs(owner);
        }
    }

    // ---- the filter over everything ----

    /// Decodes the filter's columns and notes where rows are left; false when bytes are missing.
    fn run_filter(self: *Scan) Error!bool {
        while (try self.next_cut()) |cut| {
            for (self.readers, self.filtered, 0..) |*reader, filtered, input| {
                errdefer interrupt.describe_column(@intCast(input));
                if (filtered) if (reader.*) |*found| try self.prepare_spans(found, cut, &whole_span(cut.count));
            }
            if (self.needs.items.len > 0) return false;
            if (try self.headers_exclude(cut)) continue;
            const short = self.shorten_cut(cut);
            const selection = (try self.select(short)).?;
            if (selection.count > 0) {
                try self.surviving.append(self.gpa, .{ .cut = short, .spans = try self.spans_of(short, selection) });
            }
            self.cut = null;
        }
        self.filter_done = true;
        return true;
    }

    /// What the other columns are read in. More than half of the rows are read as all of them.
    fn spans_of(self: *Scan, cut: Cut, selection: Selection) Error![]const Span {
        const arena = self.arena.allocator();
        if (selection.count * 2 > cut.count) return arena.dupe(Span, &whole_span(cut.count));
        const rows = try self.query.scratch.allocator().alloc(u32, selection.count);
        _ = bitmap.indices(selection.bits, cut.count, rows);
        return find_spans(arena, rows);
    }

    /// The filter's columns are read once more, where rows are left.
    fn rewind(self: *Scan) void {
        for (self.readers, self.filtered) |*reader, filtered| if (reader.*) |*found| {
            if (!filtered) continue;
            for (found.node.leaves) |*leaf| leaf.rewind();
        };
    }

    /// Asks for the pages of the other columns that hold surviving rows.
    fn need_surviving(self: *Scan) Error!bool {
        if (!self.use_indexes) return false;
        for (self.readers, self.filtered) |*reader, filtered| if (reader.*) |*found| {
            if (filtered) continue;
            for (found.node.leaves, found.first..) |*leaf, owner| {
                for (self.surviving.items) |survivor| for (survivor.spans) |span| {
                    try leaf.need_rows(survivor.cut.row + span.begin, survivor.cut.row + span.end, &self.scratch_needs);
                };
                try self.note_needs(owner);
            }
        };
        return self.needs.items.len > 0;
    }

    // ---- rows ----

    fn read_cut(self: *Scan, cut: Cut) Error!void {
        self.cut = null;
        const selection = try self.select(cut);
        if (selection) |found| {
            if (found.count == 0) return;
            if (std.mem.findScalar(bool, self.used, true) == null) return self.run_counted(found.count);
        }
        const is_most = selection == null or selection.?.count * 2 > cut.count;
        if (self.extreme) |input| {
            const is_here = is_most or !self.filter_done or self.filtered[input];
            if (is_here and try self.know_codes(input, cut)) return self.pass_extremes(input, cut, selection);
        }
        if (is_most and try self.passes_whole(cut)) return self.run_whole(cut, selection);
        self.cut = cut;
        try self.choose_rows(cut, selection);
        try self.pass_rows(cut);
    }

    /// Rows of which nobody wants to know more than that they are there.
    fn run_counted(self: *Scan, count: u32) Error!void {
        const arena = self.query.scratch.allocator();
        const columns = try arena.alloc(Column, self.inputs.len);
        for (columns, 0..) |*column, i| column.* = try self.column_of(arena, self.builders, i, count, false);
        try self.query.run_chunk(.{ .row_count = count, .columns = columns }, self.filter_count);
    }

    /// All rows of the cut, with those that are out marked.
    fn run_whole(self: *Scan, cut: Cut, selection: ?Selection) Error!void {
        if (selection == null and try self.read_direct(cut)) return;
        const arena = self.query.scratch.allocator();
        const columns = try arena.alloc(Column, self.inputs.len);
        for (columns, self.used, 0..) |*column, used, i| {
            if (used and self.keys[i]) if (try self.coded_column(arena, i, cut)) |coded| {
                column.* = coded;
                continue;
            };
            if (used) try self.materialise(i, cut);
            column.* = try self.column_of(arena, self.builders, i, cut.count, used);
        }
        const all = if (selection) |found| (if (found.count == cut.count) null else found) else null;
        try self.query.run_chunk(.{ .row_count = cut.count, .columns = columns, .selection = all }, self.filter_count);
    }

    /// The rows of a text by their codes, if its pages have them.
    fn coded_column(self: *Scan, arena: std.mem.Allocator, input: usize, cut: Cut) Error!?Column {
        const reader = &(self.readers[input] orelse return null);
        if (!reader.node.is_flat()) return null;
        const values = &reader.node.leaves[0].values;
        if (reader.node.leaves[0].leaf.type.layout() != .bytes or values.dictionary_count() == 0) return null;
        if (!try self.know_codes(@intCast(input), cut)) return null;
        const rows = &self.coded[input];
        rows.expand();
        const coded = try arena.create(Coded);
        coded.* = .{ .codes = rows.codes.items, .dictionary = try values.dictionary.?.finish(arena), .id = values.dictionary_id };
        const data_type = self.query.plan.input[input].type;
        coded.dictionary.type = data_type;
        var column: Column = .{ .type = data_type, .row_count = cut.count, .coded = coded };
        if (rows.has_nulls) {
            column.validity = rows.validity.items;
            coded.codes = try rows.code_of_each(arena);
        }
        return column;
    }

    /// Notes which inputs have values so large that not all rows of these parts of a cut may pass at once.
    fn find_large(self: *Scan, cut: Cut, spans: []const Span) bool {
        var found = false;
        for (self.large, self.used, 0..) |*size, used, input| {
            size.* = if (used) switch (self.known[input]) {
                .unread => self.coded_row_size(input, cut, spans),
                // Their pages are behind us.
                .codes => self.entry_size(input, spans),
                .picked => unreachable,
                .values => 0,
            } else 0;
            found = found or size.* > 0;
        }
        return found;
    }

    fn entry_size(self: *const Scan, input: usize, spans: []const Span) u64 {
        const size: u64 = self.readers[input].?.node.leaves[0].values.entry_size_max;
        var count: u64 = 0;
        for (spans) |span| count += span.row_count;
        return if (size * count > part_size) size else 0;
    }

    /// Whether no input has too many bytes in the cut. Where the longest entry of a dictionary would be too
    /// many, the codes are read: they tell what it is.
    fn passes_whole(self: *Scan, cut: Cut) Error!bool {
        if (!self.find_large(cut, &whole_span(cut.count))) return true;
        var passes = true;
        for (self.large, 0..) |*size, i| if (size.* > 0) {
            const input: u32 = @intCast(i);
            if (self.readers[i].?.node.is_flat() and try self.know_codes(input, cut)) {
                self.coded[i].expand();
                if (self.rows_within(input, 0, part_size) == cut.count) size.* = 0;
            }
            passes = passes and size.* == 0;
        };
        return passes;
    }

    fn rows_within(self: *const Scan, input: u32, first: u32, limit: u64) u32 {
        return self.coded[input].rows_within(self.readers[input].?.node.leaves[0].values.entry_offsets(), first, limit);
    }

    /// Lists the rows that are left. Of inputs known by their codes only those of these rows stay, and of
    /// inputs with large values the codes are read in any case: they tell how many rows pass together.
    fn choose_rows(self: *Scan, cut: Cut, selection: ?Selection) Error!void {
        const arena = self.query.scratch.allocator();
        try self.rows.resize(self.gpa, if (selection) |found| found.count else cut.count);
        const rows = self.rows.items;
        if (selection) |found| _ = bitmap.indices(found.bits, cut.count, rows) else for (rows, 0..) |*row, i| row.* = @intCast(i);
        self.rows_passed = 0;
        const spans = try find_spans(arena, rows);
        _ = self.find_large(cut, spans);
        for (self.known, self.used, self.large, 0..) |*known, used, size, input| if (used) {
            errdefer interrupt.describe_column(@intCast(input));
            if (known.* == .codes) {
                try self.coded[input].keep(self.gpa, rows);
                known.* = .picked;
            } else if (size > 0 and try self.pick_codes(arena, input, cut, spans)) known.* = .picked;
        };
    }

    /// Reads the codes of the chosen rows, if all of their pages have them.
    fn pick_codes(self: *Scan, arena: std.mem.Allocator, input: usize, cut: Cut, spans: []const Span) Error!bool {
        const reader = &self.readers[input].?;
        const leaf = &reader.node.leaves[0];
        if (!reader.node.is_flat()) return false;
        for (spans) |span| if (!leaf.has_codes(cut.row + span.begin, cut.row + span.end)) return false;
        const places = try arena.dupe(u32, self.rows.items);
        const coded = &self.coded[input];
        coded.reset();
        for (spans) |span| {
            for (places[span.first..][0..span.row_count]) |*place| place.* = place.* - span.begin + coded.row_count;
            try reader.node.skip_to(cut.row + span.begin);
            try leaf.read_codes(coded, span.count());
        }
        try coded.keep(self.gpa, places);
        return true;
    }

    /// Of the rows that are left, those with an entry of the dictionary that has not passed yet.
    fn pass_extremes(self: *Scan, input: u32, cut: Cut, selection: ?Selection) Error!void {
        try self.choose_rows(cut, selection);
        const coded = &self.coded[input];
        if (self.passed.len == 0) {
            const entry_count = self.readers[input].?.node.leaves[0].values.dictionary_count();
            self.passed = try self.arena.allocator().alloc(u8, bitmap.size(entry_count) + 1);
            @memset(self.passed, 0);
        }
        const rows = try coded.first_rows(self.query.scratch.allocator(), self.passed);
        try coded.keep(self.gpa, rows);
        for (rows, 0..) |row, i| self.rows.items[i] = self.rows.items[row];
        self.rows.items.len = rows.len;
        if (rows.len == 0) return;
        self.cut = cut;
        try self.pass_rows(cut);
    }

    /// Rows that are left, side by side: all of them, or as many as pass together.
    fn pass_rows(self: *Scan, cut: Cut) Error!void {
        try self.query.begin_chunk();
        const arena = self.query.scratch.allocator();
        const first = self.rows_passed;
        const rows = self.rows.items[first..][0..self.rows_together()];
        const spans = try find_spans(arena, rows);
        const columns = try arena.alloc(Column, self.inputs.len);
        const count: u32 = @intCast(rows.len);
        for (columns, self.used, 0..) |*column, used, input| {
            if (used) try self.take_rows(arena, input, cut, first, rows, spans);
            column.* = try self.column_of(arena, self.taken, input, count, used);
        }
        self.rows_passed += count;
        if (self.rows_passed == self.rows.items.len) self.cut = null;
        try self.query.run_chunk(.{ .row_count = count, .columns = columns }, self.filter_count);
    }

    fn rows_together(self: *const Scan) u32 {
        var count: u32 = @intCast(self.rows.items.len - self.rows_passed);
        var large_count: u64 = 0;
        for (self.large) |size| large_count += @intFromBool(size > 0);
        for (self.large, self.known, 0..) |size, known, input| if (size > 0) {
            const limit = part_size / large_count;
            const together = if (known == .picked)
                self.rows_within(@intCast(input), self.rows_passed, limit)
            else
                std.math.lossyCast(u32, @max(1, limit / size));
            count = @min(count, together);
        };
        return count;
    }

    fn take_rows(self: *Scan, arena: std.mem.Allocator, input: usize, cut: Cut, first: u32, rows: []const u32, spans: []const Span) Error!void {
        const reader = &(self.readers[input] orelse return);
        const builder = &self.taken[input];
        errdefer interrupt.describe_column(@intCast(input));
        builder.reset();
        switch (self.known[input]) {
            .values => try builder.append_indices(&try self.builders[input].finish(arena), rows),
            .codes => unreachable, // picked before
            .picked => try reader.node.leaves[0].append_coded(builder, &self.coded[input], first, @intCast(rows.len)),
            .unread => try self.read_spans(input, builder, cut, rows, spans),
        }
    }

    fn read_spans(self: *Scan, input: usize, builder: *ColumnBuilder, cut: Cut, rows: []const u32, spans: []const Span) Error!void {
        const arena = self.query.scratch.allocator();
        const reader = &self.readers[input].?;
        const places = try arena.alloc(u32, rows.len);
        for (spans) |span| for (places[span.first..][0..span.row_count], rows[span.first..][0..span.row_count]) |*place, row| {
            place.* = row - span.begin;
        };
        for (spans) |span| {
            const chosen = places[span.first..][0..span.row_count];
            if (!reader.node.is_flat()) {
                try self.read_nested(input, builder, cut.row + span.begin, chosen);
                continue;
            }
            try reader.node.skip_to(cut.row + span.begin);
            try reader.node.leaves[0].read_selected(builder, span.count(), chosen);
        }
    }

    /// Rows of nested columns are decoded side by side, no more than pass together, and then some taken.
    /// `places` are counted from row `first` on, rise, and become those of the decoded rows.
    fn read_nested(self: *Scan, input: usize, builder: *ColumnBuilder, first: u64, places: []u32) Error!void {
        const reader = &self.readers[input].?;
        var decoded: ColumnBuilder = try .init(self.gpa, builder.type);
        defer decoded.deinit();
        const most = rows_of_size(self.large[input], expression_module.chunk_rows);
        var rest = places;
        while (rest.len > 0) {
            const begin = rest[0];
            var count: usize = 0;
            while (count < rest.len and rest[count] - begin < most) : (count += 1) rest[count] -= begin;
            decoded.reset();
            try reader.node.skip_to(first + begin);
            try reader.node.read(&decoded, rest[count - 1] + 1);
            try builder.append_indices(&try decoded.finish(self.query.scratch.allocator()), rest[0..count]);
            rest = rest[count..];
        }
    }

    /// The rows of the cut for which all terms are TRUE; null when there is no filter.
    fn select(self: *Scan, cut: Cut) Error!?Selection {
        try self.query.begin_chunk();
        @memset(self.known, .unread);
        if (self.filter_count == 0) return null;
        const arena = self.query.scratch.allocator();
        var selection: ?Selection = null;
        for (self.terms) |*term| {
            selection = try self.apply_codes(arena, term, cut, selection) orelse try self.apply_values(arena, term, cut, selection);
            if (selection.?.count == 0) break;
        }
        return selection;
    }

    /// A term that is decided by codes; null when it cannot be, here.
    fn apply_codes(self: *Scan, arena: std.mem.Allocator, term: *Term, cut: Cut, before: ?Selection) Error!?Selection {
        const input = term.single orelse return null;
        if (!try self.know_codes(input, cut)) return null;
        const verdicts = term.verdicts orelse try self.judge_dictionary(term, input) orelse return null;
        const bits = try arena.alloc(u8, bitmap.size(cut.count));
        self.coded[input].judge(verdicts, bits);
        if (before) |selection| bitmap.combine(.@"and", bits, bits, selection.bits);
        return .{ .bits = bits, .count = @intCast(bitmap.count(bits, cut.count)) };
    }

    fn apply_values(self: *Scan, arena: std.mem.Allocator, term: *const Term, cut: Cut, before: ?Selection) Error!Selection {
        const columns = try arena.alloc(Column, self.inputs.len);
        for (columns, term.columns, 0..) |*column, named, i| {
            if (named) try self.materialise(i, cut);
            column.* = try self.column_of(arena, self.builders, i, cut.count, named);
        }
        return expression_module.select(arena, term.expression, &.{ .row_count = cut.count, .columns = columns, .selection = before });
    }

    /// Reads the codes of an input's rows, which are all here, if its pages have them.
    fn know_codes(self: *Scan, input: u32, cut: Cut) Error!bool {
        if (self.known[input] != .unread) return self.known[input] == .codes;
        const reader = &self.readers[input].?;
        errdefer interrupt.describe_column(input);
        try reader.node.skip_to(cut.row);
        const leaf = &reader.node.leaves[0];
        if (!leaf.has_codes(cut.row, cut.row + cut.count)) return false;
        self.coded[input].reset();
        try leaf.read_codes(&self.coded[input], cut.count);
        self.known[input] = .codes;
        return true;
    }

    /// Whether a term is decided by the codes of a cut whose bytes are here.
    fn judges_codes(self: *const Scan, term: *const Term, cut: Cut) bool {
        const input = term.single orelse return false;
        return self.pays_to_judge(input) and self.readers[input].?.node.leaves[0].has_codes(cut.row, cut.row + cut.count);
    }

    /// A term is not evaluated over a dictionary of more entries than the row group could repay.
    fn pays_to_judge(self: *const Scan, input: u32) bool {
        return self.readers[input].?.node.leaves[0].values.dictionary_count() <= self.row_count / 2 + 64;
    }

    /// Evaluates a term over a dictionary.
    fn judge_dictionary(self: *Scan, term: *Term, input: u32) Error!?[]const u8 {
        const dictionary = &(self.readers[input].?.node.leaves[0].values.dictionary orelse return null);
        if (!self.pays_to_judge(input)) return null;
        const verdicts = try self.arena.allocator().alloc(u8, dictionary.row_count + 1);
        var arena: Arena = .init(self.gpa);
        defer arena.deinit();
        var entries: ColumnBuilder = try .init(arena.allocator(), dictionary.type);
        try entries.append_range(&try dictionary.finish(arena.allocator()), 0, dictionary.row_count);
        try entries.append_nulls(1);
        const column = try entries.finish(arena.allocator());
        var start: u32 = 0;
        while (start < column.row_count) : (start += expression_module.chunk_rows) {
            const count = @min(expression_module.chunk_rows, column.row_count - start);
            const columns = try arena.allocator().alloc(Column, self.inputs.len);
            columns[input] = try column.view(arena.allocator(), start, count);
            columns[input].type = self.query.plan.input[input].type;
            const found = try expression_module.select(arena.allocator(), term.expression, &.{ .row_count = count, .columns = columns });
            for (verdicts[start..][0..count], 0..) |*verdict, i| verdict.* = @intFromBool(bitmap.get(found.bits.ptr, i));
        }
        term.verdicts = verdicts;
        return verdicts;
    }

    /// All values of the cut into the input's builder.
    fn materialise(self: *Scan, input: usize, cut: Cut) Error!void {
        const reader = &(self.readers[input] orelse return);
        errdefer interrupt.describe_column(@intCast(input));
        switch (self.known[input]) {
            .values => return,
            .codes => try self.decode_codes(input),
            .picked => unreachable, // then no cut is whole
            .unread => {
                self.builders[input].reset();
                try reader.node.skip_to(cut.row);
                try reader.node.read(&self.builders[input], cut.count);
            },
        }
        self.known[input] = .values;
    }

    /// Values of all rows that are known by their codes.
    fn decode_codes(self: *Scan, input: usize) Error!void {
        const coded = &self.coded[input];
        self.builders[input].reset();
        try self.readers[input].?.node.leaves[0].append_coded(&self.builders[input], coded, 0, coded.row_count);
    }

    /// An input's column; one that nobody looks at has no values.
    fn column_of(self: *Scan, arena: std.mem.Allocator, builders: []const ColumnBuilder, input: usize, count: u32, wanted: bool) Error!Column {
        const field = self.query.plan.input[input];
        if (!wanted) return .{ .type = field.type, .row_count = count };
        var column = switch (self.inputs[input]) {
            .node => try builders[input].finish(arena),
            .constant => |value| try repeated(arena, &value, count),
        };
        column.type = field.type;
        return column;
    }

    /// Rows that leave as they come are decoded right into the answer.
    fn read_direct(self: *Scan, cut: Cut) Error!bool {
        const picked = self.query.direct orelse return false;
        if (picked.len != self.inputs.len) return false;
        for (picked, 0..) |input, output| {
            if (self.inputs[input] != .node) return false;
            for (picked[0..output]) |other| if (other == input) return false;
        }
        for (picked, self.query.collector) |input, *builder| {
            const reader = &self.readers[input].?;
            errdefer interrupt.describe_column(input);
            if (self.known[input] == .codes) {
                try reader.node.leaves[0].append_coded(builder, &self.coded[input], 0, cut.count);
                continue;
            }
            try reader.node.skip_to(cut.row);
            try reader.node.read(builder, cut.count);
        }
        try self.query.count_collected(cut.count);
        return true;
    }
};

/// How many of `count` rows of a column pass together when each takes `size` bytes: a power of two of
/// them, if not all.
fn rows_of_size(size: u64, count: u32) u32 {
    if (size *| count <= part_size) return count;
    return @intCast(std.math.floorPowerOfTwo(u64, @max(1, part_size / size)));
}

pub fn repeated(arena: std.mem.Allocator, value: *const Column, count: u32) Error!Column {
    if (!value.type.is_nested()) return expression_module.repeat(arena, value, count);
    var builder: ColumnBuilder = try .init(arena, value.type);
    try builder.append_nulls(count); // constants of nested types are columns that a file lacks
    return builder.finish(arena);
}

fn might_hold(filter: *const bloom.Filter, leaf: *const metadata.Leaf, values: []const Column) bool {
    for (values) |*value| {
        const bytes = if (value.type.layout() == .bytes) value.bytes_at(0) else value.data[0..@intCast(value.type.value_size())];
        const hash = bloom.hash_value(leaf, bytes) orelse return true;
        if (filter.might_contain(hash)) return true;
    }
    return false;
}

/// A Bloom filter is worth its bytes when they are at most this part of what it may save.
const bloom_part = 4;

/// An offset index takes about so many bytes a page.
const location_size = 12;
/// Smaller row groups are read whole: a request more costs as much as all their bytes.
const index_size_worth = 128 << 10;
/// With fewer pages than this, only large ones are worth an index.
const index_pages_worth = 8;
const index_size_always = 8 << 20;

/// Where pages leave at most this part of a row group, the filter is run before the rest is asked for.
const few_rows_part = 8;

/// Rows of a cut, around selected ones.
const Span = struct {
    begin: u32,
    end: u32,
    /// Its selected rows: where they begin in the list of all, and how many there are.
    first: u32,
    row_count: u32,

    fn count(self: Span) u32 {
        return self.end - self.begin;
    }
};

fn whole_span(count: u32) [1]Span {
    return .{.{ .begin = 0, .end = count, .first = 0, .row_count = count }};
}

/// Spans that hold all of these rows and no large gap.
fn find_spans(arena: std.mem.Allocator, rows: []const u32) Error![]const Span {
    var spans: std.ArrayList(Span) = .empty;
    var first: usize = 0;
    for (rows, 0..) |row, i| {
        if (i + 1 < rows.len and rows[i + 1] - row <= span_gap) continue;
        try spans.append(arena, .{
            .begin = rows[first],
            .end = row + 1,
            .first = @intCast(first),
            .row_count = @intCast(i + 1 - first),
        });
        first = i + 1;
    }
    return spans.items;
}

fn find_span(leaf: *const ChunkReader, span: metadata.Span) ?[]const u8 {
    return leaf.segments.find(.{ .offset = span.offset, .size = span.size });
}

fn not_fetched() error{InvalidPlan} {
    interrupt.describe("the host has not fetched what was asked for", .{});
    return error.InvalidPlan;
}

fn looks_up(expression: *const Expression) bool {
    return switch (expression.node) {
        .in_build => true,
        .logical_not => |term| term.node == .in_build,
        else => false,
    };
}
