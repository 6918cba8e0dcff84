//! Reads one piece of a file into a query: which bytes it needs, which rows can matter, what is
//! decoded. The host only fetches, and what the bytes mean the format's reader knows (format/reader.zig).
//!
//!     open → [evidence: rows that may match] → [filter: rows that match] → rows → done
//!                   ↓ need bytes                     ↓ need bytes           ↓ or output
//!
//! Deleted rows are out before any filter is asked. `step` goes on until it lacks bytes, has output or is
//! done. Rows pass in cuts (cuts.zig). The query's leading filters are the scan's own (terms.zig). The columns
//! behind the filter are decoded for cuts in which rows are left, and when that is half of them or fewer, only
//! those rows (columns.zig).
//!
//! With `filter_first` the filter runs over the whole piece before any other column is even asked
//! for: it costs a second decoding of the filter's columns where rows survive, and saves reading what
//! no surviving row needs. The host decides that, since it knows what a request costs; where the evidence
//! has left only a few rows, it is done anyway.
const std = @import("std");
const abi = @import("../abi.zig");
const bitmap = @import("../core/bitmap.zig");
const bounds = @import("bounds.zig");
const columns_module = @import("columns.zig");
const cuts_module = @import("cuts.zig");
const demand = @import("../plan/demand.zig");
const evidence_module = @import("../format/evidence.zig");
const expression_module = @import("../plan/expression.zig");
const interrupt = @import("../core/interrupt.zig");
const pipeline = @import("../pipeline.zig");
const reader_module = @import("../format/reader.zig");
const segments_module = @import("../format/segments.zig");
const Arena = @import("../core/arena.zig").Arena;
const Columns = columns_module.Columns;
const Cut = cuts_module.Cut;
const Cuts = cuts_module.Cuts;
const File = reader_module.File;
const Input = columns_module.Input;
const Needs = segments_module.Needs;
const Node = @import("../plan/step.zig").Node;
const Prune = bounds.Prune;
const Query = pipeline.Query;
const Reader = reader_module.Reader;
const RowRange = evidence_module.RowRange;
const Segment = segments_module.Segment;
const Selection = expression_module.Selection;
const Span = cuts_module.Span;
const Terms = @import("terms.zig").Terms;
const Zones = evidence_module.Zones;
const whole_span = cuts_module.whole_span;

pub const Error = columns_module.Error;

pub const Options = struct {
    piece: u32,
    window_size: u64,
    verify_crc: bool = false,
    /// Run the filter over the whole piece before the other columns are asked for.
    filter_first: bool = false,
    /// Say what would be read, and read nothing but indexes.
    plan_only: bool = false,
    /// Rows that are wanted; all where it is empty.
    ranges: []const RowRange = &.{},
    /// A bit for each row of the piece, set where it is deleted; empty where none is.
    deleted: []const u8 = &.{},
};

pub const Progress = enum { need_bytes, output, done };

const Stage = enum { evidence, plan, filter, rows, done };

/// Where evidence leaves at most this part of a piece, the filter is run before the rest is asked for.
const few_rows_part = 8;

pub const Scan = struct {
    gpa: std.mem.Allocator,
    arena: Arena,
    query: *Query,
    file: File,
    reader: Reader,
    prune: ?Prune,
    row_count: u64,
    stage: Stage = .evidence,
    /// A step was made.
    has_begun: bool = false,
    columns: Columns,
    /// Leading filters of the query, and their terms.
    filter_count: usize,
    terms: Terms,
    cuts: Cuts = .{},
    filter_first: bool,
    plan_only: bool,
    /// The host named the rows that it wants.
    picks_rows: bool,
    deleted: []const u8 = &.{},
    /// The one text that is looked at, if for nothing but its least or greatest value: then rows with an
    /// entry of its dictionary that has passed before change nothing.
    extreme: ?u32 = null,
    /// Bits of these entries.
    passed: []u8 = &.{},
    /// Rows that may match by what is here, from the cut on, and up to which row that was looked at.
    seen_ranges: []const RowRange = &.{},
    seen_end: u64 = 0,
    seen_arena: Arena,
    needs: Needs = .empty,

    pub fn open(
        gpa: std.mem.Allocator,
        query: *Query,
        file: File,
        inputs: []const Input,
        pruning: ?Prune,
        options: Options,
    ) Error!*Scan {
        const self = try gpa.create(Scan);
        errdefer gpa.destroy(self);
        const row_count = file.piece_rows(options.piece);
        self.* = .{
            .gpa = gpa,
            .arena = .init(gpa),
            .seen_arena = .init(gpa),
            .query = query,
            .file = file,
            .reader = undefined,
            .prune = null,
            .row_count = row_count,
            .columns = undefined,
            .filter_count = demand.leading_filters(query.plan.nodes),
            .terms = undefined,
            .filter_first = options.filter_first,
            .plan_only = options.plan_only,
            .picks_rows = options.ranges.len > 0,
        };
        errdefer self.arena.deinit();
        const arena = self.arena.allocator();
        self.reader = try open_reader(gpa, arena, file, inputs, options);
        errdefer self.reader.close();
        self.columns = .{
            .gpa = gpa,
            .query = query,
            .reader = self.reader,
            .row_count = row_count,
            .inputs = inputs,
            .used = &.{},
            .keys = &.{},
        };
        errdefer self.columns.deinit();
        self.deleted = try arena.dupe(u8, options.deleted);
        try self.open_parts(arena, pruning, options.ranges);
        return self;
    }

    fn open_reader(
        gpa: std.mem.Allocator,
        arena: std.mem.Allocator,
        file: File,
        inputs: []const Input,
        options: Options,
    ) Error!Reader {
        const places = try arena.alloc(?u32, inputs.len);
        for (places, inputs) |*place, input| place.* = if (input == .place) input.place else null;
        return .open(gpa, file, &.{
            .piece = options.piece,
            .places = places,
            .window_size = options.window_size,
            .verify_crc = options.verify_crc,
        });
    }

    fn open_parts(self: *Scan, arena: std.mem.Allocator, pruning: ?Prune, ranges: []const RowRange) Error!void {
        if (pruning) |given| self.prune = try given.copy(arena);
        const every_row = [_]RowRange{.{ .begin = 0, .end = self.row_count }};
        self.cuts.ranges = try arena.dupe(RowRange, if (ranges.len > 0) ranges else &every_row);
        self.cuts.size = cuts_module.rows_of_size(self.reader.row_size(), expression_module.chunk_rows);
        const nodes = self.query.plan.nodes;
        const following = nodes[self.filter_count..];
        const used = try arena.alloc(bool, self.columns.inputs.len);
        demand.mark_used(following, used);
        self.columns.used = used;
        const keys = try arena.alloc(bool, self.columns.inputs.len);
        try demand.mark_keys(arena, self.query.plan.input, following, keys);
        self.columns.keys = keys;
        try self.columns.open(arena);
        self.extreme = self.find_extreme(following);
        self.terms = try .open(arena, &self.columns, nodes[0..self.filter_count]);
    }

    fn find_extreme(self: *const Scan, following: []const Node) ?u32 {
        if (!demand.only_extremes(following)) return null;
        if (std.mem.countScalar(bool, self.columns.used, true) != 1) return null;
        const input = std.mem.findScalar(bool, self.columns.used, true).?;
        if (!self.columns.is_read(input) or !self.reader.picks(input)) return null;
        return if (self.query.plan.input[input].type.layout() == .bytes) @intCast(input) else null;
    }

    pub fn close(self: *Scan) void {
        const gpa = self.gpa;
        self.reader.close();
        self.columns.deinit();
        self.cuts.surviving.deinit(gpa);
        self.needs.deinit(gpa);
        self.seen_arena.deinit();
        self.arena.deinit();
        gpa.destroy(self);
    }

    pub fn add_segment(self: *Scan, owner: u32, segment: Segment) Error!void {
        try self.reader.add_segment(self.gpa, owner, segment);
    }

    // ---- steps ----

    pub fn step(self: *Scan) Error!Progress {
        self.needs.clearRetainingCapacity();
        const is_first = !self.has_begun;
        self.has_begun = true;
        while (true) switch (self.stage) {
            .evidence => switch (try self.reader.evidence(&self.question(), &self.needs)) {
                .need_bytes => return .need_bytes,
                .excluded => return self.finish(),
                .zones => |zones| {
                    if (!try self.apply_zones(zones)) return self.finish();
                    if (try self.begin_reading()) return .need_bytes;
                },
            },
            .plan => {
                if (!try self.reader.plan_round(&self.needs)) self.stage = .done;
                return if (self.needs.items.len > 0) .need_bytes else .done;
            },
            .filter => {
                if (!try self.run_filter()) return .need_bytes;
                if (self.cuts.surviving.items.len == 0) return self.finish();
                self.stage = .rows;
                try self.need_surviving();
                if (self.needs.items.len > 0) return .need_bytes;
            },
            .rows => {
                const cut = self.cuts.next() orelse return self.finish();
                if (!try self.prepare(cut)) {
                    self.reader.forget_segments();
                    return .need_bytes;
                }
                // Rows wait for the second step, also where no bytes are missing: pieces are opened ahead of
                // their turn, and then the query is still at the rows of another one.
                if (is_first) return .need_bytes;
                const is_new = self.columns.all_passed();
                if (is_new and try self.excludes(cut)) continue;
                if (is_new) try self.read_cut(self.shorten_cut(cut)) else try self.pass_rows(cut);
                if (self.query.saturated) return self.finish();
                if (self.query.pending.items.len > 0) return .output;
            },
            .done => return .done,
        };
    }

    fn finish(self: *Scan) Error!Progress {
        self.stage = .done;
        interrupt.control.pages_skipped +|= self.reader.zones_skipped();
        try self.query.settle_output();
        return .done;
    }

    /// What `needs` stand for while the scan only plans: bits of `abi.plan_…`.
    pub fn plan_bits(self: *const Scan) u32 {
        const bits: u32 = switch (self.stage) {
            .plan => abi.plan_round,
            .done => abi.plan_last,
            else => return 0,
        };
        return if (self.reader.is_unsure()) bits | abi.plan_unsure else bits;
    }

    /// Whether `needs` are small and far apart.
    pub fn needs_evidence(self: *const Scan) bool {
        return self.stage == .evidence;
    }

    // ---- evidence ----

    fn question(self: *const Scan) evidence_module.Question {
        return .{
            .bindings = if (self.prune) |pruning| pruning.bindings else &.{},
            .probes = if (self.prune) |pruning| pruning.probes else &.{},
            .filters_first = self.filter_first and self.filter_count > 0,
            .picks_rows = self.picks_rows,
        };
    }

    /// Keeps the rows that may match; false when there are none.
    fn apply_zones(self: *Scan, zones: []const ?Zones) Error!bool {
        if (self.row_count == 0) return false;
        if (!self.reader.leaves_out_zones()) return true;
        if (zones.len > 0) if (self.prune) |pruning| {
            self.cuts.ranges = try pruning.row_ranges(self.arena.allocator(), zones, self.row_count);
        };
        var kept: u64 = 0;
        for (self.cuts.ranges) |range| kept += range.count();
        if (kept == 0) return false;
        // Few rows are filtered twice at no cost, and then the pages of the others are fewer still.
        if (!self.picks_rows and kept <= self.row_count / few_rows_part) self.filter_first = true;
        if (kept == self.row_count and !self.filter_first) self.reader.read_everything();
        return true;
    }

    /// Asks for all that is known to be wanted, of the columns that come first; false if that is nothing.
    fn begin_reading(self: *Scan) Error!bool {
        self.stage = if (self.filter_first and self.filter_count > 0) .filter else .rows;
        for (self.terms.filtered, 0..) |filtered, input| {
            if (!self.columns.is_read(input) or (self.stage == .filter and !filtered)) continue;
            for (self.cuts.ranges) |range| {
                try self.reader.need_ahead(input, range.begin, range.end, &self.needs);
            }
        }
        // With an index these pages are all; else the rest follows, window by window.
        if (self.plan_only) self.stage = if (self.reader.leaves_out_zones()) .done else .plan;
        return self.needs.items.len > 0;
    }

    /// The bytes of a cut may say that no row of it can match: then it need not be decoded. Which bytes are
    /// here depends on windows; cuts do not, so they are left out as they are.
    fn excludes(self: *Scan, cut: Cut) Error!bool {
        const pruning = self.prune orelse return false;
        if (self.reader.leaves_out_zones() or self.cuts.filter_done) return false;
        if (cut.end() > self.seen_end) try self.look(pruning);
        var ranges = self.seen_ranges;
        while (ranges.len > 0 and ranges[0].end <= cut.row) ranges = ranges[1..];
        self.seen_ranges = ranges;
        if (ranges.len > 0 and ranges[0].begin < cut.end()) return false;
        self.reader.pass_over(cut.end());
        self.cuts.current = null;
        return true;
    }

    fn look(self: *Scan, pruning: Prune) Error!void {
        _ = self.seen_arena.reset(.retain_capacity);
        const arena = self.seen_arena.allocator();
        const found = try self.reader.seen(arena, pruning.bindings);
        self.seen_end = if (found) |seen| seen.end else self.row_count;
        self.seen_ranges = if (found != null and found.?.zones.len > 0)
            try pruning.row_ranges(arena, found.?.zones, self.row_count)
        else
            try arena.dupe(RowRange, &.{.{ .begin = 0, .end = self.row_count }});
    }

    // ---- cutting ----

    /// The filter decodes all rows of a cut that it cannot judge by their codes: no more than may pass
    /// together. Its columns are here at this point, however the bytes arrive.
    fn shorten_cut(self: *Scan, cut: Cut) Cut {
        if (self.cuts.filter_done or self.filter_count == 0) return cut;
        const count = cuts_module.rows_of_size(self.terms.row_size(cut), cut.count);
        return if (count == cut.count) cut else self.cuts.shorten(count);
    }

    /// Whether the bytes for a cut are here.
    fn prepare(self: *Scan, cut: Cut) Error!bool {
        const whole = whole_span(cut.count);
        for (self.terms.filtered, 0..) |filtered, input| {
            const spans = if (self.cuts.filter_done and !filtered) self.cuts.surviving_spans() else &whole;
            try self.prepare_spans(input, cut, spans);
        }
        return self.needs.items.len == 0;
    }

    fn prepare_spans(self: *Scan, input: usize, cut: Cut, spans: []const Span) Error!void {
        errdefer interrupt.describe_column(@intCast(input));
        if (self.columns.is_read(input)) try self.reader.need(input, cut.row, spans, &self.needs);
    }

    // ---- the filter over everything ----

    /// Decodes the filter's columns and notes where rows are left; false when bytes are missing. Afterwards
    /// they are read once more, where rows are left.
    fn run_filter(self: *Scan) Error!bool {
        while (self.cuts.next()) |cut| {
            for (self.terms.filtered, 0..) |filtered, input| {
                if (filtered) try self.prepare_spans(input, cut, &whole_span(cut.count));
            }
            if (self.needs.items.len > 0) return false;
            if (try self.excludes(cut)) continue;
            const short = self.shorten_cut(cut);
            const selection = (try self.select(short)).?;
            if (selection.count > 0) {
                const spans = try self.spans_of(short, selection);
                try self.cuts.surviving.append(self.gpa, .{ .cut = short, .spans = spans });
            }
            self.cuts.current = null;
        }
        self.cuts.filter_done = true;
        for (self.terms.filtered, 0..) |filtered, input| {
            if (filtered and self.columns.is_read(input)) self.reader.rewind(input);
        }
        return true;
    }

    /// What the other columns are read in. More than half of the rows are read as all of them.
    fn spans_of(self: *Scan, cut: Cut, selection: Selection) Error![]const Span {
        const arena = self.arena.allocator();
        if (selection.count * 2 > cut.count) return arena.dupe(Span, &whole_span(cut.count));
        const rows = try self.query.scratch.allocator().alloc(u32, selection.count);
        _ = bitmap.indices(selection.bits, cut.count, rows);
        return cuts_module.find_spans(arena, rows);
    }

    /// Asks for the pages of the other columns that hold surviving rows.
    fn need_surviving(self: *Scan) Error!void {
        for (self.terms.filtered, 0..) |filtered, input| {
            if (filtered or !self.columns.is_read(input)) continue;
            for (self.cuts.surviving.items) |survivor| for (survivor.spans) |span| {
                const row = survivor.cut.row;
                try self.reader.need_ahead(input, row + span.begin, row + span.end, &self.needs);
            };
        }
    }

    // ---- rows ----

    /// The rows of the cut that are wanted; null when all are.
    fn select(self: *Scan, cut: Cut) Error!?Selection {
        try self.query.begin_chunk();
        self.columns.begin();
        const arena = self.query.scratch.allocator();
        return self.terms.select(arena, cut, try self.not_deleted(arena, cut));
    }

    /// Null when no row of the cut is deleted.
    fn not_deleted(self: *const Scan, arena: std.mem.Allocator, cut: Cut) Error!?Selection {
        if (self.deleted.len == 0) return null;
        const bits = try arena.alloc(u8, bitmap.size(cut.count));
        bitmap.copy(bits, 0, self.deleted, @intCast(cut.row), cut.count);
        bitmap.invert(bits, bits);
        bits[bits.len - 1] &= bitmap.tail_mask(cut.count);
        const left: u32 = @intCast(bitmap.count(bits, cut.count));
        return if (left == cut.count) null else .{ .bits = bits, .count = left };
    }

    fn read_cut(self: *Scan, cut: Cut) Error!void {
        self.cuts.current = null;
        const selection = try self.select(cut);
        if (selection) |found| {
            if (found.count == 0) return;
            if (std.mem.findScalar(bool, self.columns.used, true) == null) return self.run_counted(found.count);
        }
        const is_most = selection == null or selection.?.count * 2 > cut.count;
        if (self.extreme) |input| {
            const is_here = is_most or !self.cuts.filter_done or self.terms.filtered[input];
            if (is_here and try self.columns.know_codes(input, cut)) return self.pass_extremes(input, cut, selection);
        }
        if (is_most and try self.columns.passes_whole(cut)) return self.run_whole(cut, selection);
        self.cuts.current = cut;
        try self.columns.choose_rows(cut, selection);
        try self.pass_rows(cut);
    }

    fn run_counted(self: *Scan, count: u32) Error!void {
        const columns = try self.columns.counted(self.query.scratch.allocator(), count);
        try self.query.run_chunk(.{ .row_count = count, .columns = columns }, self.filter_count);
    }

    /// All rows of the cut, with those that are out marked.
    fn run_whole(self: *Scan, cut: Cut, selection: ?Selection) Error!void {
        if (selection == null and try self.columns.read_direct(cut)) return;
        const columns = try self.columns.whole(self.query.scratch.allocator(), cut);
        const all = if (selection) |found| (if (found.count == cut.count) null else found) else null;
        try self.query.run_chunk(.{ .row_count = cut.count, .columns = columns, .selection = all }, self.filter_count);
    }

    /// Of the rows that are left, those with an entry of the dictionary that has not passed yet.
    fn pass_extremes(self: *Scan, input: u32, cut: Cut, selection: ?Selection) Error!void {
        try self.columns.choose_rows(cut, selection);
        const coded = &self.columns.coded[input];
        if (self.passed.len == 0) {
            const entry_count = if (self.reader.dictionary(input)) |found| found.entries.row_count else 0;
            self.passed = try self.arena.allocator().alloc(u8, bitmap.size(entry_count) + 1);
            @memset(self.passed, 0);
        }
        const rows = try coded.first_rows(self.query.scratch.allocator(), self.passed);
        try coded.keep(self.gpa, rows);
        self.columns.keep_rows(rows);
        if (rows.len == 0) return;
        self.cuts.current = cut;
        try self.pass_rows(cut);
    }

    fn pass_rows(self: *Scan, cut: Cut) Error!void {
        try self.query.begin_chunk();
        const batch = try self.columns.next_rows(cut);
        if (self.columns.all_passed()) self.cuts.current = null;
        try self.query.run_chunk(.{ .row_count = batch.row_count, .columns = batch.columns }, self.filter_count);
    }
};
