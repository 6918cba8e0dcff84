//! Reads a piece of a text file into a query: CSV, or JSON with an object a line.
//!
//!     open → [find the first row] → rows … → done          any step may need bytes, rows may have output
//!
//!     file  ──────┬──────────────────────────┬────────
//!               start                       end            bytes of the piece
//!                  ├──┬───┬── … ──┬──────────┼──┤          its rows: those that begin in it
//!                  extent.start                 extent.end = the next piece's first row
//!
//! Bytes come in windows of the host's size, one behind the other. A window begins with the row that the one
//! before it cut, so that every row is read from one place in memory, and the few bytes of it are read twice; a
//! row that does not fit a window is asked for again with twice the bytes, up to `abi.text_row_size_max`. One
//! window is in memory at a time.
//!
//! Rows pass in chunks of 16,384 (the first ones of fewer, where a few may do), or fewer where they begin more than `chunk_size` bytes behind the chunk's
//! first: from the text alone, never from windows. Filters are the query's own steps.
//!
//! Packed text is one piece, since nobody knows where in the file a row lies:
//!
//!     windows of the file → codec/unpack.zig → text that is still wanted → rows
//!
//! A piece that must find its first row takes its start to be outside of quotes. Where that was wrong, whatever
//! follows is wrong too, errors included: the host compares `extent` with the piece before, and reads the piece
//! again from the exact place.
const std = @import("std");
const abi = @import("abi.zig");
const builder_module = @import("format/text/builder.zig");
const column_module = @import("core/column.zig");
const columns_module = @import("scan/columns.zig");
const csv_rows = @import("format/text/csv_rows.zig");
const json_rows = @import("format/text/json_rows.zig");
const expression_module = @import("plan/expression.zig");
const failure = @import("format/text/failure.zig");
const interrupt = @import("core/interrupt.zig");
const options_module = @import("format/text/options.zig");
const pipeline = @import("pipeline.zig");
const unpack = @import("codec/unpack.zig");
const rows_module = @import("format/text/rows.zig");
const scan_module = @import("scan/driver.zig");
const schema = @import("core/schema.zig");
const segments = @import("format/segments.zig");
const Arena = @import("core/arena.zig").Arena;
const Builder = builder_module.Builder;
const Column = column_module.Column;
const ColumnBuilder = @import("core/column_builder.zig").ColumnBuilder;
const Query = pipeline.Query;
const assert = std.debug.assert;

pub const Error = pipeline.Error || failure.Error;

pub const Input = union(enum) {
    /// Of the file's columns.
    column: u32,
    /// One row, repeated.
    constant: Column,
};

pub const Options = struct {
    format: abi.FileFormat,
    request: abi.TextScanRequest,
    text: options_module.Options,
};

/// Bytes of text that pass together, about.
const chunk_size = builder_module.batch_size_max;

/// Text that was packed, on its way to rows.
const Packed = struct {
    stream: unpack.Stream,
    text: unpack.Window = .{},
    /// Where the text begins that is here.
    text_offset: u64 = 0,
    /// The next byte of the file.
    file_offset: u64 = 0,
    /// All of it is here.
    is_done: bool = false,

    /// From `offset` of the text on.
    fn from(self: *const Packed, offset: u64) []const u8 {
        if (offset < self.text_offset or offset - self.text_offset > self.text.at) return &.{};
        return self.text.buffer[@intCast(offset - self.text_offset)..self.text.at];
    }

    /// Room for more text; what lies before `offset` and is too old for the stream goes.
    fn make_room(self: *Packed, gpa: std.mem.Allocator, offset: u64, here: usize) Error!void {
        if (self.text.room() >= unpack.room_min) return;
        const history = self.stream.history();
        const wanted: usize = @intCast(@min(offset - self.text_offset, self.text.at));
        const kept = @min(wanted, self.text.at - history);
        // As much as is moved, so that bytes are moved twice at most.
        try self.text.make_room(gpa, kept, @max(unpack_size, history, here));
        self.text_offset += kept;
    }
};

/// Text that is unpacked at once.
const unpack_size = 512 * 1024;

const Stage = enum { start, find, rows, plan, done };

/// Reads rows of its format.
const Reader = union(enum) {
    csv: csv_rows.Rows,
    json: json_rows.Rows,

    fn close(self: *Reader) void {
        switch (self.*) {
            .csv => {},
            .json => |*reader| reader.deinit(),
        }
    }

    /// The builders are empty again, and the next row begins there.
    fn begin_batch(self: *Reader, offset: u64) void {
        switch (self.*) {
            .csv => {},
            .json => |*reader| reader.begin_batch(offset),
        }
    }

    fn read(self: *Reader, text: []const u8, request: rows_module.Request) Error!rows_module.Progress {
        return switch (self.*) {
            inline else => |*reader| reader.read(text, request),
        };
    }
};

pub const TextScan = struct {
    gpa: std.mem.Allocator,
    arena: Arena,
    query: *Query,
    request: abi.TextScanRequest,
    inputs: []const Input,
    /// Which builder holds the values of an input.
    places: []const ?u32,
    /// One per column of the file that is read.
    builders: []Builder,
    /// All columns of the file.
    fields: []const schema.Field = &.{},
    /// Null until the scan is open.
    reader: ?Reader = null,
    packed_text: ?Packed = null,
    stage: Stage = .start,
    /// What is here of the file, if anything is.
    window: ?segments.Segment = null,
    /// What is missing: at most one range.
    need: ?segments.Range = null,
    /// Where the next row begins, or the search for the first goes on.
    offset: u64,
    /// The rows of the chunk that is being filled, and where the first of them begins.
    chunk_rows: u32 = 0,
    chunk_start: u64 = 0,
    /// Rows of this chunk at most, and of any: fewer where a row has many columns, however short its text.
    chunk_row_limit: u32 = expression_module.chunk_rows,
    chunk_row_limit_max: u32 = expression_module.chunk_rows,
    extent: abi.ScanExtent,

    pub fn open(gpa: std.mem.Allocator, query: *Query, inputs: []const Input, options: Options) Error!*TextScan {
        const self = try gpa.create(TextScan);
        errdefer gpa.destroy(self);
        const unknown = abi.ErrorDetail.offset_unknown;
        self.* = .{
            .gpa = gpa,
            .arena = .init(gpa),
            .query = query,
            .request = options.request,
            .inputs = inputs,
            .places = &.{},
            .builders = &.{},
            .offset = options.request.start,
            .extent = .{ .start = unknown, .end = unknown, .row_count = 0 },
        };
        self.request.window_size = std.math.clamp(self.request.window_size, window_size_min, abi.text_row_size_max);
        errdefer self.release();
        switch (options.request.compression) {
            .none => {},
            .gzip => self.packed_text = .{ .stream = try .init(gpa, .gzip) },
            .zstd => self.packed_text = .{ .stream = try .init(gpa, .zstd) },
        }
        try self.open_inputs(inputs, try self.read_columns(&options.text));
        try self.open_reader(&options);
        return self;
    }

    fn read_columns(self: *TextScan, text: *const options_module.Options) Error![]const schema.Field {
        return builder_module.read_declared(self.arena.allocator(), text.columns, text.column_count);
    }

    /// Constants outlive the request that brought them; a column that two inputs name is read once.
    fn open_inputs(self: *TextScan, inputs: []const Input, fields: []const schema.Field) Error!void {
        const arena = self.arena.allocator();
        const copies = try arena.dupe(Input, inputs);
        const places = try arena.alloc(?u32, inputs.len);
        const builders = try arena.alloc(Builder, inputs.len);
        var count: u32 = 0;
        for (copies, places, self.query.plan.input, 0..) |*input, *place, field, i| {
            place.* = null;
            switch (input.*) {
                .constant => |value| input.* = .{ .constant = try copy_constant(arena, &value, field.type) },
                .column => |column| {
                    place.* = for (copies[0..i], places[0..i]) |other, found| {
                        if (other == .column and other.column == column) break found;
                    } else null;
                    if (place.* != null) continue;
                    builders[count] = try .init(arena, fields[column].type);
                    place.* = count;
                    count += 1;
                },
            }
        }
        self.inputs = copies;
        self.places = places;
        self.builders = builders[0..count];
        self.fields = fields;
    }

    fn open_reader(self: *TextScan, options: *const Options) Error!void {
        const arena = self.arena.allocator();
        const wanted = try arena.alloc(rows_module.Wanted, self.builders.len);
        for (self.inputs, self.places, 0..) |input, place, i| if (place) |number| {
            wanted[number] = .{ .column = input.column, .builder = &self.builders[number], .number = @intCast(i) };
        };
        switch (options.format) {
            .csv => {
                for (self.fields) |field| if (field.type.is_nested()) return error.NotSupported;
                self.reader = .{ .csv = try .init(self.gpa, arena, .{
                    .dialect = .{
                        .delimiter = options.text.delimiter,
                        .quote = options.text.quote,
                        .escape = options.text.escape,
                    },
                    .null_strings = try options_module.copy_null_strings(&options.text, arena),
                    .fields = self.fields,
                    .wanted = wanted,
                    .checks_text = true,
                }) };
            },
            .ndjson => self.reader = .{ .json = try .init(self.gpa, arena, .{
                .layout = .lines,
                .fields = self.fields,
                .wanted = wanted,
                .checks_text = true,
            }) },
            else => unreachable, // `scan_open` has looked
        }
        self.chunk_row_limit_max = @min(self.chunk_row_limit_max, builder_module.row_limit(self.builders));
        const first = self.request.first_rows;
        self.chunk_row_limit = if (first == 0) self.chunk_row_limit_max else @min(first, self.chunk_row_limit_max);
    }

    pub fn close(self: *TextScan) void {
        const gpa = self.gpa;
        self.release();
        gpa.destroy(self);
    }

    fn release(self: *TextScan) void {
        if (self.reader) |*reader| reader.close();
        if (self.packed_text) |*source| {
            source.stream.deinit(self.gpa);
            source.text.deinit(self.gpa);
        }
        for (self.builders) |*builder| builder.deinit(self.gpa);
        self.arena.deinit();
    }

    // ---- bytes ----

    pub fn add_segment(self: *TextScan, segment: segments.Segment) Error!void {
        const need = self.need orelse return not_asked();
        if (segment.offset != need.offset or segment.bytes.len != need.size) return not_asked();
        self.window = segment;
        self.need = null;
    }

    /// What is here from `offset` on.
    fn text_from(self: *const TextScan, offset: u64) []const u8 {
        if (self.packed_text) |*source| return source.from(offset);
        const window = self.window orelse return &.{};
        if (offset < window.offset or offset > window.end()) return &.{};
        return window.bytes[@intCast(offset - window.offset)..];
    }

    fn is_last(self: *const TextScan) bool {
        if (self.packed_text) |*source| return source.is_done;
        const window = self.window orelse return false;
        return window.end() == self.request.file_size;
    }

    /// Asks for the bytes from `offset` on, more of them than are here.
    fn ask(self: *TextScan, offset: u64) Error!scan_module.Progress {
        const here: u64 = self.text_from(offset).len;
        if (here >= abi.text_row_size_max) return self.fail_large(offset);
        var size: u64 = self.request.window_size;
        if (offset < self.request.end) size = @min(size, self.request.end +| abi.text_overhang - offset);
        size = @min(@max(size, 2 * here), abi.text_row_size_max, self.request.file_size - offset);
        assert(size > here or self.request.file_size == offset);
        self.window = null;
        self.need = .{ .offset = offset, .size = size };
        return .need_bytes;
    }

    /// No row begins at `offset` any more.
    fn is_end(self: *const TextScan) bool {
        const source = if (self.packed_text) |*found| found else return self.offset == self.request.file_size;
        return source.is_done and self.offset >= source.text_offset + source.text.at;
    }

    /// More text from `offset` on, by what is here of the file or else by more of it.
    fn ask_packed(self: *TextScan) Error!?scan_module.Progress {
        const source = &self.packed_text.?;
        const here = source.from(self.offset).len;
        if (here >= abi.text_row_size_max) return self.fail_large(self.offset);
        while (source.from(self.offset).len <= 2 * here) {
            try source.make_room(self.gpa, self.offset, here);
            const bytes = self.file_from(source.file_offset);
            const is_whole = source.file_offset + bytes.len == self.request.file_size;
            const outcome = try source.stream.run(bytes, is_whole, &source.text);
            source.file_offset += outcome.used;
            if (outcome.state == .end) {
                source.is_done = true;
                return null;
            }
            if (outcome.state != .input or source.from(self.offset).len > 2 * here) continue;
            const left = bytes.len - outcome.used;
            const size = @max(self.request.window_size, 2 * left);
            self.window = null;
            self.need = .{ .offset = source.file_offset, .size = @min(size, self.request.file_size - source.file_offset) };
            return .need_bytes;
        }
        return null;
    }

    fn file_from(self: *const TextScan, offset: u64) []const u8 {
        const window = self.window orelse return &.{};
        return window.bytes[@intCast(offset - window.offset)..];
    }

    fn fail_large(self: *const TextScan, offset: u64) Error {
        interrupt.describe("a row of more than {d} bytes", .{abi.text_row_size_max});
        interrupt.describe_offset(offset);
        interrupt.describe_row(self.extent.row_count);
        return error.TooLarge;
    }

    // ---- steps ----

    pub fn step(self: *TextScan) Error!scan_module.Progress {
        if (self.need != null and self.stage != .plan) return not_fetched();
        while (true) switch (self.stage) {
            .start => self.begin(),
            .plan => return self.plan_all(),
            .find => if (!try self.find_row()) return self.ask(self.offset),
            .rows => {
                const has_rows = try self.read_rows();
                if (self.query.saturated) return self.finish();
                if (self.stage == .done) return self.finish();
                if (self.query.pending.items.len > 0) return .output;
                if (has_rows) continue;
                if (self.packed_text == null) return self.ask(self.offset);
                if (try self.ask_packed()) |progress| return progress;
            },
            .done => return .done,
        };
    }

    fn begin(self: *TextScan) void {
        if (self.request.flags & abi.scan_plan_only != 0) {
            self.stage = .plan;
            if (self.packed_text != null) {
                self.offset = 0;
                self.request.end = self.request.file_size;
            }
        } else if (self.is_exact()) {
            self.start_rows(self.request.start);
        } else {
            self.offset = self.request.start - 1;
            self.stage = .find;
        }
    }

    fn is_exact(self: *const TextScan) bool {
        const flagged = self.request.flags & abi.text_exact_start != 0;
        return flagged or self.request.start == 0 or self.packed_text != null;
    }

    fn start_rows(self: *TextScan, offset: u64) void {
        self.offset = offset;
        self.chunk_start = offset;
        self.reader.?.begin_batch(offset);
        self.extent.start = offset;
        self.stage = .rows;
    }

    /// Looks for the end of a line; false when more must be here to tell.
    fn find_row(self: *TextScan) Error!bool {
        const text = self.text_from(self.offset);
        if (text.len == 0 and self.offset < self.request.file_size) return false;
        const found = try find_line_end(text, self.is_last());
        if (found) |position| {
            self.start_rows(self.offset + position);
            return true;
        }
        if (self.offset + text.len - (self.request.start - 1) > abi.text_row_size_max) return self.fail_large(self.request.start);
        // What was looked at is not needed again, except a CR that may have its LF.
        self.offset += text.len - @intFromBool(text.len > 0 and text[text.len - 1] == '\r');
        self.window = null;
        return false;
    }

    /// Reads what is here; false when that is not enough. At the end of the piece `stage` is `done`.
    fn read_rows(self: *TextScan) Error!bool {
        if (self.offset >= self.request.end or self.is_end()) {
            try self.pass_chunk();
            self.extent.end = self.offset;
            self.stage = .done;
            return true;
        }
        const text = self.text_from(self.offset);
        if (text.len == 0) return false;
        const limit = @min(self.request.end, self.chunk_start +| chunk_size);
        if (self.offset >= limit) {
            try self.pass_chunk();
            return true;
        }
        self.set_origin();
        const progress = try self.reader.?.read(text, .{
            .start = 0,
            .limit = std.math.cast(usize, limit - self.offset) orelse std.math.maxInt(usize),
            .is_last = self.is_last(),
            .row_count_max = self.chunk_row_limit - self.chunk_rows,
        });
        self.offset += progress.position;
        self.chunk_rows += progress.row_count;
        self.extent.row_count += progress.row_count;
        if (progress.state == .full) try self.pass_chunk();
        return progress.state != .short;
    }

    fn set_origin(self: *TextScan) void {
        switch (self.reader.?) {
            inline else => |*reader| reader.origin = .{ .offset = self.offset, .is_whole = false },
        }
    }

    /// Rows of the chunk go into the query, and the next chunk begins.
    fn pass_chunk(self: *TextScan) Error!void {
        self.chunk_start = self.offset;
        defer self.reader.?.begin_batch(self.offset);
        if (self.chunk_rows == 0) return;
        self.chunk_row_limit = @min(self.chunk_row_limit_max, self.chunk_row_limit *| 4);
        try self.query.begin_chunk();
        const arena = self.query.scratch.allocator();
        const columns = try arena.alloc(Column, self.inputs.len);
        for (columns, self.inputs, self.places, self.query.plan.input) |*column, input, place, field| {
            column.* = if (place) |number|
                try self.builders[number].finish(self.gpa)
            else
                try columns_module.repeated(arena, &input.constant, self.chunk_rows);
            column.type = field.type;
        }
        try self.query.run_chunk(.{ .row_count = self.chunk_rows, .columns = columns }, 0);
        for (self.builders) |*builder| builder.clear();
        self.chunk_rows = 0;
    }

    fn finish(self: *TextScan) Error!scan_module.Progress {
        self.stage = .done;
        self.window = null;
        try self.query.settle_output();
        return .done;
    }

    /// Says the bytes of the piece, as its windows would be if rows were cut nowhere.
    fn plan_all(self: *TextScan) scan_module.Progress {
        const end = @min(self.request.end +| abi.text_overhang, self.request.file_size);
        const size = @min(self.request.window_size, end -| self.offset);
        self.need = .{ .offset = self.offset, .size = size };
        self.offset += size;
        if (self.offset >= end) self.stage = .done;
        return if (size > 0) .need_bytes else .done;
    }
};

/// The least that is asked for at once.
const window_size_min = 4096;

fn copy_constant(arena: std.mem.Allocator, value: *const Column, data_type: schema.DataType) Error!Column {
    var builder: ColumnBuilder = try .init(arena, data_type);
    if (value.is_valid(0)) try builder.append_range(value, 0, 1) else try builder.append_nulls(1);
    return builder.finish(arena);
}

/// The byte behind the first line end; null when there is none, or it may be half of a CR LF.
fn find_line_end(text: []const u8, is_last: bool) interrupt.Error!?usize {
    var at: usize = 0;
    while (at < text.len) {
        try interrupt.check();
        const end = @min(text.len, at + 64 * 1024);
        const found = std.mem.findAny(u8, text[at..end], "\r\n") orelse {
            at = end;
            continue;
        };
        at += found + 1;
        if (text[at - 1] == '\n') return at;
        if (at == text.len) return if (is_last) at else null;
        return at + @intFromBool(text[at] == '\n');
    }
    return if (is_last) text.len else null;
}

fn not_asked() error{InvalidPlan} {
    interrupt.describe("bytes that a scan of text did not ask for", .{});
    return error.InvalidPlan;
}

fn not_fetched() error{InvalidPlan} {
    interrupt.describe("the host has not fetched what was asked for", .{});
    return error.InvalidPlan;
}
