//! The inputs of a query while a cut of a piece passes: what is known of each, and the rows that are left.
//!
//!     unread ──┬→ codes → picked (of the rows that are left) ──┬→ columns of the chunk
//!              └→ values, of all rows or of spans around some ─┘
//!
//! Nothing is decoded twice, and nothing that nobody names. A column of a chunk takes at most some `part_size`
//! bytes: where a dictionary repeats long entries, as many rows pass as their entries leave room for.
const std = @import("std");
const bitmap = @import("../core/bitmap.zig");
const bounds = @import("bounds.zig");
const column_module = @import("../core/column.zig");
const cuts_module = @import("cuts.zig");
const expression_module = @import("../plan/expression.zig");
const interrupt = @import("../core/interrupt.zig");
const pipeline = @import("../pipeline.zig");
const reader_module = @import("../format/reader.zig");
const Coded = column_module.Coded;
const CodedRows = @import("../format/coded_rows.zig").CodedRows;
const Column = column_module.Column;
const ColumnBuilder = @import("../core/column_builder.zig").ColumnBuilder;
const Cut = cuts_module.Cut;
const Query = pipeline.Query;
const Reader = reader_module.Reader;
const Selection = expression_module.Selection;
const Span = cuts_module.Span;
const find_spans = cuts_module.find_spans;
const part_size = cuts_module.part_size;

pub const Error = pipeline.Error || reader_module.Error || bounds.Error;

/// Where a column of the query's input comes from.
pub const Input = union(enum) {
    /// Of the file's places.
    place: u32,
    /// One row, repeated.
    constant: Column,
};

/// What is known of an input in the cut being worked on: nothing, the codes of all rows, those of the
/// rows that are left, all values.
const Known = enum { unread, codes, picked, values };

pub const Columns = struct {
    gpa: std.mem.Allocator,
    query: *Query,
    reader: Reader,
    row_count: u64,
    inputs: []const Input,
    /// Inputs that somebody behind the filter names.
    used: []const bool,
    /// Texts that serve as keys of groups and nothing else: their codes will do.
    keys: []const bool,
    known: []Known = &.{},
    /// Values of all rows of the cut.
    builders: []ColumnBuilder = &.{},
    /// Of the rows that are left of it.
    taken: []ColumnBuilder = &.{},
    /// The cut's rows, for inputs that are known by their codes.
    coded: []CodedRows = &.{},
    /// The rows that are left, counted from the cut's first one, and how many of them have passed.
    rows: std.ArrayList(u32) = .empty,
    rows_passed: u32 = 0,
    /// Bytes of a row, at most, of inputs of which not all of these rows may pass at once; else 0.
    large: []u64 = &.{},

    /// `deinit` may be called when this has failed.
    pub fn open(self: *Columns, arena: std.mem.Allocator) Error!void {
        const count = self.inputs.len;
        self.inputs = try self.copy_inputs(arena);
        self.known = try arena.alloc(Known, count);
        self.large = try arena.alloc(u64, count);
        const coded = try arena.alloc(CodedRows, count);
        @memset(coded, .{});
        self.coded = coded;
        const builders = try arena.alloc(ColumnBuilder, count);
        const taken = try arena.alloc(ColumnBuilder, count);
        for (self.query.plan.input, 0..) |field, i| {
            builders[i] = try .init(self.gpa, field.type);
            self.builders = builders[0 .. i + 1];
            taken[i] = try .init(self.gpa, field.type);
            self.taken = taken[0 .. i + 1];
        }
    }

    pub fn deinit(self: *Columns) void {
        for (self.builders) |*builder| builder.deinit();
        for (self.taken) |*builder| builder.deinit();
        for (self.coded) |*coded| coded.deinit(self.gpa);
        self.rows.deinit(self.gpa);
    }

    /// Constants outlive the request that brought them.
    fn copy_inputs(self: *const Columns, arena: std.mem.Allocator) Error![]const Input {
        const copies = try arena.dupe(Input, self.inputs);
        for (copies, self.query.plan.input) |*input, field| if (input.* == .constant) {
            const value = &input.constant;
            var builder: ColumnBuilder = try .init(arena, field.type);
            if (value.is_valid(0)) try builder.append_range(value, 0, 1) else try builder.append_nulls(1);
            input.constant = try builder.finish(arena);
        };
        return copies;
    }

    pub fn is_read(self: *const Columns, input: usize) bool {
        return self.inputs[input] == .place;
    }

    /// Another cut.
    pub fn begin(self: *Columns) void {
        @memset(self.known, .unread);
    }

    // ---- all rows of a cut ----

    /// Reads the codes of an input's rows, which are all here, if its pages have them.
    pub fn know_codes(self: *Columns, input: u32, cut: Cut) Error!bool {
        if (self.known[input] != .unread) return self.known[input] == .codes;
        errdefer interrupt.describe_column(input);
        try self.reader.skip_to(input, cut.row);
        if (!self.reader.has_codes(input, cut.row, cut.end())) return false;
        self.coded[input].reset();
        try self.reader.read_codes(input, &self.coded[input], cut.row, cut.count);
        self.known[input] = .codes;
        return true;
    }

    /// All values of the cut into the input's builder.
    pub fn materialise(self: *Columns, input: usize, cut: Cut) Error!void {
        if (!self.is_read(input)) return;
        errdefer interrupt.describe_column(@intCast(input));
        const builder = &self.builders[input];
        switch (self.known[input]) {
            .values => return,
            .codes => {
                builder.reset();
                const coded = &self.coded[input];
                try self.reader.append_coded(input, builder, coded, 0, coded.row_count);
            },
            .picked => unreachable, // then no cut is whole
            .unread => {
                builder.reset();
                try self.reader.read(input, builder, cut.row, cut.count);
            },
        }
        self.known[input] = .values;
    }

    /// An input's column; one that nobody looks at has no values.
    pub fn column_of(
        self: *const Columns,
        arena: std.mem.Allocator,
        builders: []const ColumnBuilder,
        input: usize,
        count: u32,
        wanted: bool,
    ) Error!Column {
        const field = self.query.plan.input[input];
        if (!wanted) return .{ .type = field.type, .row_count = count };
        var column = switch (self.inputs[input]) {
            .place => try builders[input].finish(arena),
            .constant => |value| try repeated(arena, &value, count),
        };
        column.type = field.type;
        return column;
    }

    /// The rows of a text by their codes, if its pages have them.
    fn coded_column(self: *Columns, arena: std.mem.Allocator, input: usize, cut: Cut) Error!?Column {
        if (!self.is_read(input) or !self.reader.picks(input)) return null;
        const dictionary = self.reader.dictionary(input) orelse return null;
        if (dictionary.entries.type.layout() != .bytes or dictionary.entries.row_count == 0) return null;
        if (!try self.know_codes(@intCast(input), cut)) return null;
        const rows = &self.coded[input];
        rows.expand();
        const coded = try arena.create(Coded);
        coded.* = .{
            .codes = rows.codes.items,
            .dictionary = try dictionary.entries.finish(arena),
            .id = dictionary.id,
        };
        const data_type = self.query.plan.input[input].type;
        coded.dictionary.type = data_type;
        var column: Column = .{ .type = data_type, .row_count = cut.count, .coded = coded };
        if (rows.has_nulls) {
            column.validity = rows.validity.items;
            coded.codes = try rows.code_of_each(arena);
        }
        return column;
    }

    /// Rows of which nobody wants to know more than that they are there.
    pub fn counted(self: *const Columns, arena: std.mem.Allocator, count: u32) Error![]Column {
        const columns = try arena.alloc(Column, self.inputs.len);
        for (columns, 0..) |*column, i| column.* = try self.column_of(arena, self.builders, i, count, false);
        return columns;
    }

    /// All rows of a cut.
    pub fn whole(self: *Columns, arena: std.mem.Allocator, cut: Cut) Error![]Column {
        const columns = try arena.alloc(Column, self.inputs.len);
        for (columns, self.used, 0..) |*column, used, i| {
            if (used and self.keys[i]) if (try self.coded_column(arena, i, cut)) |coded| {
                column.* = coded;
                continue;
            };
            if (used) try self.materialise(i, cut);
            column.* = try self.column_of(arena, self.builders, i, cut.count, used);
        }
        return columns;
    }

    /// Rows that leave as they come are decoded right into the answer.
    pub fn read_direct(self: *Columns, cut: Cut) Error!bool {
        const picked = self.query.direct orelse return false;
        if (picked.len != self.inputs.len) return false;
        for (picked, 0..) |input, output| {
            if (!self.is_read(input)) return false;
            for (picked[0..output]) |other| if (other == input) return false;
        }
        for (picked, self.query.collector) |input, *builder| {
            errdefer interrupt.describe_column(input);
            if (self.known[input] == .codes) {
                try self.reader.append_coded(input, builder, &self.coded[input], 0, cut.count);
                continue;
            }
            try self.reader.read(input, builder, cut.row, cut.count);
        }
        try self.query.count_collected(cut.count);
        return true;
    }

    // ---- values that are large ----

    /// What a row of an input takes at most by way of dictionaries, in these parts of a cut; 0 where that
    /// lets them pass together.
    pub fn coded_row_size(self: *const Columns, input: usize, cut: Cut, spans: []const Span) u64 {
        if (!self.is_read(input)) return 0;
        var size: u64 = 0;
        var count: u64 = 0;
        const picks = self.reader.picks(input);
        for (spans) |span| {
            count += if (picks) span.row_count else span.count();
            size = @max(size, self.reader.coded_row_size(input, cut.row + span.begin, cut.row + span.end));
        }
        return if (size *| count > part_size) size else 0;
    }

    /// Notes which inputs have values so large that not all rows of these parts of a cut may pass at once.
    fn find_large(self: *Columns, cut: Cut, spans: []const Span) bool {
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

    fn entry_size(self: *const Columns, input: usize, spans: []const Span) u64 {
        const size: u64 = (self.reader.dictionary(input) orelse return 0).entry_size_max;
        var count: u64 = 0;
        for (spans) |span| count += span.row_count;
        return if (size * count > part_size) size else 0;
    }

    /// Whether no input has too many bytes in the cut. Where the longest entry of a dictionary would be too
    /// many, the codes are read: they tell what it is.
    pub fn passes_whole(self: *Columns, cut: Cut) Error!bool {
        if (!self.find_large(cut, &cuts_module.whole_span(cut.count))) return true;
        var passes = true;
        for (self.large, 0..) |*size, i| if (size.* > 0) {
            const input: u32 = @intCast(i);
            if (self.reader.picks(i) and try self.know_codes(input, cut)) {
                self.coded[i].expand();
                if (self.rows_within(input, 0, part_size) == cut.count) size.* = 0;
            }
            passes = passes and size.* == 0;
        };
        return passes;
    }

    fn rows_within(self: *const Columns, input: u32, first: u32, limit: u64) u32 {
        const offsets = self.reader.dictionary(input).?.entries.offsets.items;
        return self.coded[input].rows_within(offsets, first, limit);
    }

    fn rows_together(self: *const Columns) u32 {
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

    // ---- rows that are left ----

    pub fn all_passed(self: *const Columns) bool {
        return self.rows_passed == self.rows.items.len;
    }

    /// Lists the rows that are left. Of inputs known by their codes only those of these rows stay, and of
    /// inputs with large values the codes are read in any case: they tell how many rows pass together.
    pub fn choose_rows(self: *Columns, cut: Cut, selection: ?Selection) Error!void {
        const arena = self.query.scratch.allocator();
        try self.rows.resize(self.gpa, if (selection) |found| found.count else cut.count);
        const rows = self.rows.items;
        if (selection) |found| {
            _ = bitmap.indices(found.bits, cut.count, rows);
        } else for (rows, 0..) |*row, i| row.* = @intCast(i);
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

    /// Only these of them, by their places among them.
    pub fn keep_rows(self: *Columns, places: []const u32) void {
        for (places, 0..) |place, i| self.rows.items[i] = self.rows.items[place];
        self.rows.items.len = places.len;
    }

    /// Reads the codes of the chosen rows, if all of their pages have them.
    fn pick_codes(
        self: *Columns,
        arena: std.mem.Allocator,
        input: usize,
        cut: Cut,
        spans: []const Span,
    ) Error!bool {
        if (!self.reader.picks(input)) return false;
        for (spans) |span| {
            if (!self.reader.has_codes(input, cut.row + span.begin, cut.row + span.end)) return false;
        }
        const places = try arena.dupe(u32, self.rows.items);
        const coded = &self.coded[input];
        coded.reset();
        for (spans) |span| {
            for (places[span.first..][0..span.row_count]) |*place| place.* = place.* - span.begin + coded.row_count;
            try self.reader.read_codes(input, coded, cut.row + span.begin, span.count());
        }
        try coded.keep(self.gpa, places);
        return true;
    }

    /// The next rows of those that are left, side by side: all of them, or as many as pass together.
    pub fn next_rows(self: *Columns, cut: Cut) Error!column_module.Batch {
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
        return .{ .row_count = count, .columns = columns };
    }

    fn take_rows(
        self: *Columns,
        arena: std.mem.Allocator,
        input: usize,
        cut: Cut,
        first: u32,
        rows: []const u32,
        spans: []const Span,
    ) Error!void {
        if (!self.is_read(input)) return;
        const builder = &self.taken[input];
        errdefer interrupt.describe_column(@intCast(input));
        builder.reset();
        switch (self.known[input]) {
            .values => try builder.append_indices(&try self.builders[input].finish(arena), rows),
            .codes => unreachable, // picked before
            .picked => {
                const count: u32 = @intCast(rows.len);
                try self.reader.append_coded(input, builder, &self.coded[input], first, count);
            },
            .unread => try self.read_spans(input, builder, cut, rows, spans),
        }
    }

    fn read_spans(
        self: *Columns,
        input: usize,
        builder: *ColumnBuilder,
        cut: Cut,
        rows: []const u32,
        spans: []const Span,
    ) Error!void {
        const places = try self.query.scratch.allocator().alloc(u32, rows.len);
        for (spans) |span| {
            const chosen = places[span.first..][0..span.row_count];
            for (chosen, rows[span.first..][0..span.row_count]) |*place, row| place.* = row - span.begin;
            const begin_row = cut.row + span.begin;
            if (self.reader.picks(input)) {
                try self.reader.read_selected(input, builder, begin_row, span.count(), chosen);
            } else try self.read_all(input, builder, begin_row, chosen);
        }
    }

    /// Where rows cannot be picked they are decoded side by side, no more than pass together, and then some
    /// taken. `places` are counted from row `first` on, rise, and become those of the decoded rows.
    fn read_all(self: *Columns, input: usize, builder: *ColumnBuilder, first: u64, places: []u32) Error!void {
        var decoded: ColumnBuilder = try .init(self.gpa, builder.type);
        defer decoded.deinit();
        const most = cuts_module.rows_of_size(self.large[input], expression_module.chunk_rows);
        var rest = places;
        while (rest.len > 0) {
            const begin_place = rest[0];
            var count: usize = 0;
            while (count < rest.len and rest[count] - begin_place < most) : (count += 1) rest[count] -= begin_place;
            decoded.reset();
            try self.reader.read(input, &decoded, first + begin_place, rest[count - 1] + 1);
            try builder.append_indices(&try decoded.finish(self.query.scratch.allocator()), rest[0..count]);
            rest = rest[count..];
        }
    }
};

pub fn repeated(arena: std.mem.Allocator, value: *const Column, count: u32) Error!Column {
    if (!value.type.is_nested()) return expression_module.repeat(arena, value, count);
    var builder: ColumnBuilder = try .init(arena, value.type);
    try builder.append_nulls(count); // constants of nested types are columns that a file lacks
    return builder.finish(arena);
}
