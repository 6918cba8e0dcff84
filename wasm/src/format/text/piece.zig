//! Reads a piece of a text file: CSV, or JSON with an object a line.
//!
//!     open → [find the first row] → rows … → end          any step may need bytes
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
//! Rows pass in chunks of as many as the scan wants (the first ones of fewer, where a few may do), or fewer where
//! they begin more than `chunk_size` bytes behind the chunk's first: from the text alone, never from windows.
//!
//! Packed text is one piece, since nobody knows where in the file a row lies:
//!
//!     windows of the file → codec/unpack.zig → text that is still wanted → rows
//!
//! A piece that must find its first row takes its start to be outside of quotes. Where that was wrong, whatever
//! follows is wrong too, errors included: the host compares `extent` with the piece before, and reads the piece
//! again from the exact place.
const std = @import("std");
const abi = @import("../../abi.zig");
const builder_module = @import("builder.zig");
const failure = @import("failure.zig");
const interrupt = @import("../../core/interrupt.zig");
const reader = @import("../reader.zig");
const rows_module = @import("rows.zig");
const segments = @import("../segments.zig");
const unpack = @import("../../codec/unpack.zig");
const Arena = @import("../../core/arena.zig").Arena;
const Builder = builder_module.Builder;
const Column = @import("../../core/column.zig").Column;
const Needs = segments.Needs;
const assert = std.debug.assert;

const Error = reader.Error;

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

const Stage = enum { start, find, rows, end };

/// `Rows`: of the format.
pub fn Piece(comptime Rows: type) type {
    return struct {
        const Self = @This();
        pub const File = @import("file.zig").File;
        pub const sniff = Rows.sniff;

        gpa: std.mem.Allocator,
        arena: Arena,
        file: *const File,
        /// Where its rows begin, or one after it does.
        start: u64,
        end: u64,
        is_exact: bool,
        window_size: u64,
        /// Which builder holds the values of an input.
        places: []const ?u32 = &.{},
        /// One per column of the file that is read.
        builders: []Builder = &.{},
        /// Null until it is open.
        rows: ?Rows = null,
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
        /// Rows of this chunk at most; 0: as many as the scan wants. And of any: fewer where a row has many
        /// columns, however short its text.
        chunk_row_limit: u32,
        chunk_row_limit_max: u32 = 0,
        extent: abi.ScanExtent,

        pub fn open(gpa: std.mem.Allocator, file: *File, opening: *const reader.Opening) Error!*Self {
            const part = opening.part.?;
            const is_packed = file.compression != .none;
            if (part.start > part.end or (part.start > file.size and !is_packed)) {
                interrupt.describe("a piece of text that lies outside of its file", .{});
                return error.InvalidPlan;
            }
            const self = try gpa.create(Self);
            errdefer gpa.destroy(self);
            const unknown = abi.ErrorDetail.offset_unknown;
            self.* = .{
                .gpa = gpa,
                .arena = .init(gpa),
                .file = file,
                .start = part.start,
                .end = part.end,
                .is_exact = part.is_exact or part.start == 0 or is_packed,
                .window_size = std.math.clamp(opening.window_size, window_size_min, abi.text_row_size_max),
                .offset = part.start,
                .chunk_row_limit = part.first_rows,
                .extent = .{ .start = unknown, .end = unknown, .row_count = 0 },
            };
            errdefer self.release();
            switch (file.compression) {
                .none => {},
                .gzip => self.packed_text = .{ .stream = try .init(gpa, .gzip) },
                .zstd => self.packed_text = .{ .stream = try .init(gpa, .zstd) },
            }
            self.rows = try .open(gpa, self.arena.allocator(), file, try self.open_places(opening.places));
            self.chunk_row_limit_max = builder_module.row_limit(self.builders);
            return self;
        }

        /// A column that two inputs name is read once.
        fn open_places(self: *Self, inputs: []const ?u32) Error![]const rows_module.Wanted {
            const arena = self.arena.allocator();
            const places = try arena.alloc(?u32, inputs.len);
            const builders = try arena.alloc(Builder, inputs.len);
            const wanted = try arena.alloc(rows_module.Wanted, inputs.len);
            var count: u32 = 0;
            for (places, inputs, 0..) |*place, input, i| {
                place.* = null;
                const number = input orelse continue;
                place.* = for (inputs[0..i], places[0..i]) |other, found| {
                    if (other == number) break found;
                } else null;
                if (place.* != null) continue;
                builders[count] = try .init(arena, self.file.fields[number].type);
                wanted[count] = .{ .column = number, .builder = &builders[count], .number = @intCast(i) };
                place.* = count;
                count += 1;
            }
            self.places = places;
            self.builders = builders[0..count];
            return wanted[0..count];
        }

        pub fn close(self: *Self) void {
            const gpa = self.gpa;
            self.release();
            gpa.destroy(self);
        }

        fn release(self: *Self) void {
            if (self.rows) |*rows| rows.deinit();
            if (self.packed_text) |*source| {
                source.stream.deinit(self.gpa);
                source.text.deinit(self.gpa);
            }
            for (self.builders) |*builder| builder.deinit(self.gpa);
            self.arena.deinit();
        }

        // ---- bytes ----

        pub fn add_segment(self: *Self, segment: segments.Segment) Error!void {
            const need = self.need orelse return not_asked();
            if (segment.offset != need.offset or segment.bytes.len != need.size) return not_asked();
            self.window = segment;
            self.need = null;
        }

        /// What is here from `offset` on.
        fn text_from(self: *const Self, offset: u64) []const u8 {
            if (self.packed_text) |*source| return source.from(offset);
            const window = self.window orelse return &.{};
            if (offset < window.offset or offset > window.end()) return &.{};
            return window.bytes[@intCast(offset - window.offset)..];
        }

        fn is_last(self: *const Self) bool {
            if (self.packed_text) |*source| return source.is_done;
            const window = self.window orelse return false;
            return window.end() == self.file.size;
        }

        /// Nothing of the window is used any more.
        fn ask(self: *Self, range: segments.Range, needs: *Needs) Error!void {
            self.window = null;
            self.need = range;
            try needs.append(self.gpa, .{ .range = range, .owner = 0 });
        }

        /// Asks for the bytes from `offset` on, more of them than are here.
        fn ask_text(self: *Self, needs: *Needs) Error!void {
            const here: u64 = self.text_from(self.offset).len;
            if (here >= abi.text_row_size_max) return self.fail_large(self.offset);
            var size = self.window_size;
            if (self.offset < self.end) size = @min(size, self.end +| abi.text_overhang - self.offset);
            size = @min(@max(size, 2 * here), abi.text_row_size_max, self.file.size - self.offset);
            assert(size > here or self.file.size == self.offset);
            try self.ask(.{ .offset = self.offset, .size = size }, needs);
        }

        /// More text by what is here of the file; false, with a need, where that is not enough.
        fn unpack_more(self: *Self, needs: *Needs) Error!bool {
            const source = &self.packed_text.?;
            const here = source.from(self.offset).len;
            if (here >= abi.text_row_size_max) return self.fail_large(self.offset);
            while (source.from(self.offset).len <= 2 * here) {
                try source.make_room(self.gpa, self.offset, here);
                const bytes = self.file_from(source.file_offset);
                const is_whole = source.file_offset + bytes.len == self.file.size;
                const outcome = try source.stream.run(bytes, is_whole, &source.text);
                source.file_offset += outcome.used;
                if (outcome.state == .end) {
                    source.is_done = true;
                    return true;
                }
                if (outcome.state != .input or source.from(self.offset).len > 2 * here) continue;
                const wanted = @max(self.window_size, 2 * (bytes.len - outcome.used));
                const size = @min(wanted, self.file.size - source.file_offset);
                try self.ask(.{ .offset = source.file_offset, .size = size }, needs);
                return false;
            }
            return true;
        }

        fn file_from(self: *const Self, offset: u64) []const u8 {
            const window = self.window orelse return &.{};
            return window.bytes[@intCast(offset - window.offset)..];
        }

        /// No row begins at `offset` any more.
        fn is_end(self: *const Self) bool {
            const source = if (self.packed_text) |*found| found else return self.offset == self.file.size;
            return source.is_done and self.offset >= source.text_offset + source.text.at;
        }

        fn fail_large(self: *const Self, offset: u64) Error {
            interrupt.describe("a row of more than {d} bytes", .{abi.text_row_size_max});
            interrupt.describe_offset(offset);
            interrupt.describe_row(self.extent.row_count);
            return error.TooLarge;
        }

        // ---- rows ----

        pub fn next(self: *Self, row_count_max: u32, needs: *Needs) Error!reader.Next {
            if (self.need != null) return reader.not_fetched();
            while (true) switch (self.stage) {
                .start => self.begin(row_count_max),
                .find => if (!try self.find_row()) {
                    try self.ask_text(needs);
                    return .need_bytes;
                },
                .rows => switch (try self.read_rows()) {
                    .chunk => if (self.end_chunk()) |count| return .{ .rows = count },
                    .more => {},
                    .short => if (self.packed_text == null) {
                        try self.ask_text(needs);
                        return .need_bytes;
                    } else if (!try self.unpack_more(needs)) return .need_bytes,
                },
                .end => return .end,
            };
        }

        fn begin(self: *Self, row_count_max: u32) void {
            self.chunk_row_limit_max = @min(self.chunk_row_limit_max, row_count_max);
            const first = self.chunk_row_limit;
            self.chunk_row_limit = if (first == 0) self.chunk_row_limit_max else @min(first, self.chunk_row_limit_max);
            if (self.is_exact) return self.start_rows(self.start);
            self.offset = self.start - 1;
            self.stage = .find;
        }

        fn start_rows(self: *Self, offset: u64) void {
            self.offset = offset;
            self.extent.start = offset;
            self.begin_chunk();
            self.stage = .rows;
        }

        /// Looks for the end of a line; false when more must be here to tell.
        fn find_row(self: *Self) Error!bool {
            const text = self.text_from(self.offset);
            if (text.len == 0 and self.offset < self.file.size) return false;
            const found = try find_line_end(text, self.is_last());
            if (found) |position| {
                self.start_rows(self.offset + position);
                return true;
            }
            if (self.offset + text.len - (self.start - 1) > abi.text_row_size_max) return self.fail_large(self.start);
            // What was looked at is not needed again, except a CR that may have its LF.
            self.offset += text.len - @intFromBool(text.len > 0 and text[text.len - 1] == '\r');
            self.window = null;
            return false;
        }

        /// Reads what is here. At the end of the piece `stage` is `end`.
        fn read_rows(self: *Self) Error!enum { chunk, more, short } {
            if (self.offset >= self.end or self.is_end()) {
                self.extent.end = self.offset;
                self.stage = .end;
                return .chunk;
            }
            const text = self.text_from(self.offset);
            if (text.len == 0) return .short;
            const limit = @min(self.end, self.chunk_start +| chunk_size);
            if (self.offset >= limit) return .chunk;
            const rows = &self.rows.?;
            rows.origin = .{ .offset = self.offset, .is_whole = false };
            const progress = try rows.read(text, .{
                .start = 0,
                .limit = std.math.cast(usize, limit - self.offset) orelse std.math.maxInt(usize),
                .is_last = self.is_last(),
                .row_count_max = self.chunk_row_limit - self.chunk_rows,
            });
            self.offset += progress.position;
            self.chunk_rows += progress.row_count;
            self.extent.row_count += progress.row_count;
            return switch (progress.state) {
                .full => .chunk,
                .limit => .more,
                .short => .short,
            };
        }

        /// The rows of the chunk, if it has any; the next one begins.
        fn end_chunk(self: *Self) ?u32 {
            if (self.chunk_rows == 0) {
                self.begin_chunk();
                return null;
            }
            self.chunk_row_limit = @min(self.chunk_row_limit_max, self.chunk_row_limit *| 4);
            return self.chunk_rows;
        }

        fn begin_chunk(self: *Self) void {
            self.chunk_start = self.offset;
            self.rows.?.begin_batch(self.offset);
        }

        /// The values of an input in the rows of the chunk.
        pub fn column(self: *Self, input: usize) Error!Column {
            return self.builders[self.places[input].?].finish(self.gpa);
        }

        /// The rows of the chunk have passed.
        pub fn clear(self: *Self) void {
            for (self.builders) |*builder| builder.clear();
            self.chunk_rows = 0;
            self.begin_chunk();
        }
    };
}

/// The least that is asked for at once.
const window_size_min = 4096;

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
