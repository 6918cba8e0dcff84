//! The formats that there are, and what a scan asks of one. A new format is a folder, its number in
//! `abi.FileFormat` and a line in `Reader`.
//!
//!     file    open (from what the host keeps of it) · piece_count · piece_rows · place_type · bounds · close
//!     piece   open · evidence · need · read · read_codes · close        known rows, in any order that rises
//!             open · next · column · clear · extent · close             rows that come as they are found
//!
//! A file holds pieces (a row group), a piece rows of places (columns, fields of structures). A reader never
//! reads: it says which bytes it lacks (`need`), and the host brings them as segments. Whatever has a default
//! below may be missing from a format: then it knows no bounds, or has no dictionaries.
const std = @import("std");
const abi = @import("../abi.zig");
const build_options = @import("build_options");
const evidence_module = @import("evidence.zig");
const interrupt = @import("../core/interrupt.zig");
const segments = @import("segments.zig");
const Bounds = evidence_module.Bounds;
const CodedRows = @import("coded_rows.zig").CodedRows;
const Column = @import("../core/column.zig").Column;
const ColumnBuilder = @import("../core/column_builder.zig").ColumnBuilder;
const DataType = @import("../core/schema.zig").DataType;
const Needs = segments.Needs;

pub const Error = error{ Cancelled, InvalidFormat, InvalidPlan, NotSupported, OutOfMemory, TooLarge };

/// A piece on its way into a query.
pub const Reader = union(enum) {
    lance: *@import("lance/fragment.zig").Fragment,
    parquet: *@import("parquet/row_group.zig").RowGroup,
    csv: *@import("text/piece.zig").Piece(@import("text/csv_rows.zig").Rows),
    ndjson: *@import("text/piece.zig").Piece(@import("text/json_rows.zig").Rows),
    toy: if (build_options.has_toy_format) *@import("toy_rows.zig").ToyRows else noreturn,

    pub fn open(gpa: std.mem.Allocator, file: File, opening: *const Opening) Error!Reader {
        switch (file.of) {
            inline else => |of, tag| {
                const Piece = @typeInfo(@FieldType(Reader, @tagName(tag))).pointer.child;
                return @unionInit(Reader, @tagName(tag), try Piece.open(gpa, of, opening));
            },
        }
    }

    pub fn close(self: Reader) void {
        switch (self) {
            inline else => |piece| piece.close(),
        }
    }

    // ---- bytes ----

    pub fn add_segment(self: Reader, gpa: std.mem.Allocator, owner: u32, segment: segments.Segment) Error!void {
        switch (self) {
            inline else => |piece| {
                if (comptime has(@TypeOf(piece), "add_segment")) return piece.add_segment(segment);
                const list = piece.segments_of(owner) orelse {
                    interrupt.describe("bytes for part {d} of a piece, which has none", .{owner});
                    return error.InvalidPlan;
                };
                try list.add(gpa, segment);
            },
        }
    }

    /// Calls back with every segment that is still of use.
    pub fn each_segment(self: Reader, context: anytype) error{OutOfMemory}!void {
        switch (self) {
            inline else => |piece| if (comptime has(@TypeOf(piece), "segments_of")) {
                var owner: u32 = 0;
                while (piece.segments_of(owner)) |list| : (owner += 1) {
                    for (list.list.items) |segment| try context.segment(segment);
                }
            },
        }
    }

    /// What lies behind the rows that have been read is of no use any more.
    pub fn forget_segments(self: Reader) void {
        switch (self) {
            inline else => |piece| if (comptime has(@TypeOf(piece), "forget_segments")) piece.forget_segments(),
        }
    }

    /// Notes what is missing for these parts of the rows from `row` on.
    pub fn need(self: Reader, input: usize, row: u64, spans: []const Span, needs: *Needs) Error!void {
        switch (self) {
            inline else => |piece| if (comptime has(@TypeOf(piece), "need"))
                try piece.need(input, row, spans, needs)
            else
                unreachable, // `is_stream` says so
        }
    }

    /// The same long before they are read, where it is known how they lie.
    pub fn need_ahead(self: Reader, input: usize, begin: u64, end: u64, needs: *Needs) Error!void {
        switch (self) {
            inline else => |piece| if (comptime has(@TypeOf(piece), "need_ahead"))
                try piece.need_ahead(input, begin, end, needs),
        }
    }

    /// Notes what reading everything would need next; true if more follows.
    pub fn plan_round(self: Reader, needs: *Needs) Error!bool {
        switch (self) {
            inline else => |piece| {
                return if (comptime has(@TypeOf(piece), "plan_round")) piece.plan_round(needs) else false;
            },
        }
    }

    /// More may be needed than was foreseen.
    pub fn is_unsure(self: Reader) bool {
        switch (self) {
            inline else => |piece| return if (comptime has(@TypeOf(piece), "is_unsure")) piece.is_unsure() else false,
        }
    }

    // ---- evidence ----

    /// Asked until it does not need bytes.
    pub fn evidence(
        self: Reader,
        question: *const evidence_module.Question,
        needs: *Needs,
    ) Error!evidence_module.Answer {
        switch (self) {
            inline else => |piece| return if (comptime has(@TypeOf(piece), "evidence"))
                piece.evidence(question, needs)
            else
                .{ .zones = &.{} },
        }
    }

    /// Zones without a row that is wanted are not read.
    pub fn leaves_out_zones(self: Reader) bool {
        switch (self) {
            inline else => |piece| {
                return if (comptime has(@TypeOf(piece), "leaves_out_zones")) piece.leaves_out_zones() else false;
            },
        }
    }

    /// After the evidence: no row is left out.
    pub fn read_everything(self: Reader) void {
        switch (self) {
            inline else => |piece| if (comptime has(@TypeOf(piece), "read_everything")) piece.read_everything(),
        }
    }

    /// What the bytes that are here say of their rows.
    pub fn seen(
        self: Reader,
        arena: std.mem.Allocator,
        bindings: []const evidence_module.Binding,
    ) Error!?evidence_module.Seen {
        switch (self) {
            inline else => |piece| {
                return if (comptime has(@TypeOf(piece), "seen")) try piece.seen(arena, bindings) else null;
            },
        }
    }

    /// Rows before `end` are not wanted.
    pub fn pass_over(self: Reader, end: u64) void {
        switch (self) {
            inline else => |piece| if (comptime has(@TypeOf(piece), "pass_over")) piece.pass_over(end),
        }
    }

    /// Zones that were not decoded.
    pub fn zones_skipped(self: Reader) u32 {
        switch (self) {
            inline else => |piece| {
                return if (comptime has(@TypeOf(piece), "zones_skipped")) piece.zones_skipped() else 0;
            },
        }
    }

    // ---- rows ----

    /// Rows `row` to `row + count` behind those of `builder`. Rows of an input are read in order.
    pub fn read(self: Reader, input: usize, builder: *ColumnBuilder, row: u64, count: u32) Error!void {
        switch (self) {
            inline else => |piece| if (comptime has(@TypeOf(piece), "read"))
                try piece.read(input, builder, row, count)
            else
                unreachable, // `is_stream` says so
        }
    }

    /// Rows before `row` are behind us.
    pub fn skip_to(self: Reader, input: usize, row: u64) Error!void {
        switch (self) {
            inline else => |piece| if (comptime has(@TypeOf(piece), "skip_to")) try piece.skip_to(input, row),
        }
    }

    /// The input is read once more from its first row.
    pub fn rewind(self: Reader, input: usize) void {
        switch (self) {
            inline else => |piece| if (comptime has(@TypeOf(piece), "rewind")) piece.rewind(input),
        }
    }

    /// Bytes of a row of the largest column, as far as that is known.
    pub fn row_size(self: Reader) u64 {
        switch (self) {
            inline else => |piece| return if (comptime has(@TypeOf(piece), "row_size")) piece.row_size() else 0,
        }
    }

    /// Whether some of an input's rows can be read alone, and all that follows here be asked of it.
    pub fn picks(self: Reader, input: usize) bool {
        switch (self) {
            inline else => |piece| return if (comptime has(@TypeOf(piece), "picks")) piece.picks(input) else false,
        }
    }

    /// Of `count` rows from `row` on those at `chosen`, which rise.
    pub fn read_selected(
        self: Reader,
        input: usize,
        builder: *ColumnBuilder,
        row: u64,
        count: u32,
        chosen: []const u32,
    ) Error!void {
        switch (self) {
            inline else => |piece| if (comptime has(@TypeOf(piece), "read_selected"))
                try piece.read_selected(input, builder, row, count, chosen)
            else
                unreachable, // `picks` says so
        }
    }

    // ---- rows that come as they are found ----

    /// Rows are read on until there are `row_count_max` of them, or as many as are good to have, or the piece
    /// ends, or bytes are missing.
    pub fn next(self: Reader, row_count_max: u32, needs: *Needs) Error!Next {
        switch (self) {
            inline else => |piece| return if (comptime has(@TypeOf(piece), "next"))
                piece.next(row_count_max, needs)
            else
                unreachable, // `is_stream` says so
        }
    }

    /// An input's values in the rows that `next` has found, until they are cleared.
    pub fn column(self: Reader, input: usize) Error!Column {
        switch (self) {
            inline else => |piece| {
                return if (comptime has(@TypeOf(piece), "next")) piece.column(input) else unreachable;
            },
        }
    }

    pub fn clear(self: Reader) void {
        switch (self) {
            inline else => |piece| if (comptime has(@TypeOf(piece), "next")) piece.clear() else unreachable,
        }
    }

    /// Where its rows begin and end, as far as that is known, also after it has failed.
    pub fn extent(self: Reader) abi.ScanExtent {
        switch (self) {
            inline else => |piece| return if (comptime has(@TypeOf(piece), "next")) piece.extent else unreachable,
        }
    }

    // ---- codes ----

    /// Whether these rows, which are here, are all known by their codes.
    pub fn has_codes(self: Reader, input: usize, begin: u64, end: u64) bool {
        switch (self) {
            inline else => |piece| return if (comptime has(@TypeOf(piece), "has_codes"))
                piece.has_codes(input, begin, end)
            else
                false,
        }
    }

    /// Adds the codes of rows that have some to `coded`.
    pub fn read_codes(self: Reader, input: usize, coded: *CodedRows, row: u64, count: u32) Error!void {
        switch (self) {
            inline else => |piece| if (comptime has(@TypeOf(piece), "read_codes"))
                try piece.read_codes(input, coded, row, count)
            else
                unreachable, // `has_codes` says so
        }
    }

    /// The values of rows that `coded` knows, behind those of `builder`.
    pub fn append_coded(
        self: Reader,
        input: usize,
        builder: *ColumnBuilder,
        coded: *CodedRows,
        first: u32,
        count: u32,
    ) Error!void {
        switch (self) {
            inline else => |piece| if (comptime has(@TypeOf(piece), "append_coded"))
                try piece.append_coded(input, builder, coded, first, count)
            else
                unreachable,
        }
    }

    pub fn dictionary(self: Reader, input: usize) ?Dictionary {
        switch (self) {
            inline else => |piece| {
                return if (comptime has(@TypeOf(piece), "dictionary")) piece.dictionary(input) else null;
            },
        }
    }

    /// Bytes that one of these rows takes by way of a dictionary; at most, if that can be told.
    pub fn coded_row_size(self: Reader, input: usize, begin: u64, end: u64) u64 {
        switch (self) {
            inline else => |piece| return if (comptime has(@TypeOf(piece), "coded_row_size"))
                piece.coded_row_size(input, begin, end)
            else
                0,
        }
    }
};

fn has(comptime Pointer: type, comptime name: []const u8) bool {
    return @hasDecl(@typeInfo(Pointer).pointer.child, name);
}

/// What a piece is opened with.
pub const Opening = struct {
    piece: u32,
    /// By input of the query: a place of the file, or null where the file has nothing to do with it.
    places: []const ?u32,
    /// Bytes of a column that are asked for at once.
    window_size: u64,
    verify_crc: bool = false,
    /// Of a file whose rows come as they are found; it has no numbered pieces.
    part: ?Part = null,
};

/// Bytes of a file: the rows are wanted that begin among them.
pub const Part = struct {
    start: u64,
    end: u64,
    /// `start` is where a row begins, or would.
    is_exact: bool,
    /// As many may be all that is wanted; 0: more are.
    first_rows: u32,
};

pub const Next = union(enum) { need_bytes, rows: u32, end };

/// Whether rows of the format come as they are found (`next`), or are known before they are read.
pub fn is_stream(format: abi.FileFormat) bool {
    inline for (formats.field_names, formats.field_types) |name, Pointer| {
        if (Pointer != noreturn and format == @field(abi.FileFormat, name)) return has(Pointer, "next");
    }
    return false;
}

/// What a file looks like, from its first bytes: `abi.TextSniffed` and the settled options behind it. The answer
/// is the caller's. The head is readable for some bytes behind its end.
pub fn sniff(
    gpa: std.mem.Allocator,
    format: abi.FileFormat,
    head: []const u8,
    options: []const u8,
    is_whole: bool,
) Error![]u8 {
    inline for (formats.field_names, formats.field_types) |name, Pointer| {
        if (comptime Pointer != noreturn and has(Pointer, "sniff")) {
            const Piece = @typeInfo(Pointer).pointer.child;
            if (format == @field(abi.FileFormat, name)) return Piece.sniff(gpa, head, options, is_whole);
        }
    }
    interrupt.describe("a format that says itself what it holds", .{});
    return error.NotSupported;
}

const formats = @typeInfo(Reader).@"union";

/// Rows of a chunk, around selected ones.
pub const Span = struct {
    begin: u32,
    end: u32,
    /// Its selected rows: where they begin in the list of all, and how many there are.
    first: u32,
    row_count: u32,

    pub fn count(self: Span) u32 {
        return self.end - self.begin;
    }
};

/// Of a column whose rows may be known by codes.
pub const Dictionary = struct {
    entries: *const ColumnBuilder,
    /// No other dictionary has it.
    id: u64,
    /// Of texts and binaries: bytes of the longest one.
    entry_size_max: u32,
};

/// What a format keeps of a file, by the same names as `Reader`.
const Files = blk: {
    var types: [formats.field_names.len]type = undefined;
    for (&types, formats.field_types) |*File_, Piece| {
        File_.* = if (Piece == noreturn) noreturn else *@typeInfo(Piece).pointer.child.File;
    }
    break :blk @Union(.auto, formats.tag_type.?, formats.field_names, &types, &@splat(.{}));
};

/// A file as far as the host has read it: its footer, or whatever a format needs to find rows.
pub const File = struct {
    of: Files,

    /// Copies what it needs of `blob`.
    pub fn open(gpa: std.mem.Allocator, format: abi.FileFormat, blob: []const u8) (Error || error{InvalidHandle})!File {
        inline for (@typeInfo(Files).@"union".field_names, @typeInfo(Files).@"union".field_types) |name, Pointer| {
            if (Pointer != noreturn and format == @field(abi.FileFormat, name)) {
                const Format = @typeInfo(Pointer).pointer.child;
                return .{ .of = @unionInit(Files, name, try Format.open(gpa, blob)) };
            }
        }
        return error.InvalidHandle;
    }

    /// The end of a file as it is, to what the host keeps of it. Null: the format has no such thing.
    pub fn footer(arena: std.mem.Allocator, format: abi.FileFormat, raw: []const u8, file_size: u64) Error!?[]const u8 {
        inline for (@typeInfo(Files).@"union".field_names, @typeInfo(Files).@"union".field_types) |name, Pointer| {
            if (Pointer != noreturn and format == @field(abi.FileFormat, name)) {
                const Format = @typeInfo(Pointer).pointer.child;
                if (comptime !@hasDecl(Format, "read_footer")) return null;
                return try Format.read_footer(arena, raw, file_size);
            }
        }
        return null;
    }

    pub fn close(self: File) void {
        switch (self.of) {
            inline else => |file| file.close(),
        }
    }

    pub fn eql(self: File, other: File) bool {
        return std.meta.eql(self.of, other.of);
    }

    pub fn is_of(self: File, format: abi.FileFormat) bool {
        switch (self.of) {
            inline else => |_, tag| return format == @field(abi.FileFormat, @tagName(tag)),
        }
    }

    pub fn piece_count(self: File) u32 {
        switch (self.of) {
            inline else => |file| return file.piece_count(),
        }
    }

    pub fn piece_rows(self: File, piece: u32) u64 {
        switch (self.of) {
            inline else => |file| return file.piece_rows(piece),
        }
    }

    /// Null where there is no such place.
    pub fn place_type(self: File, place: u32) ?DataType {
        switch (self.of) {
            inline else => |file| return file.place_type(place),
        }
    }

    /// Whether something can be known of a place's values.
    pub fn has_bounds(self: File, place: u32) bool {
        switch (self.of) {
            inline else => |file| {
                return if (comptime has(@TypeOf(file), "has_bounds")) file.has_bounds(place) else false;
            },
        }
    }

    /// One row for every piece.
    pub fn bounds(self: File, arena: std.mem.Allocator, place: u32) Error!Bounds {
        switch (self.of) {
            inline else => |file| {
                return if (comptime has(@TypeOf(file), "bounds")) file.bounds(arena, place) else unreachable;
            },
        }
    }
};

pub fn not_fetched() error{InvalidPlan} {
    interrupt.describe("the host has not fetched what was asked for", .{});
    return error.InvalidPlan;
}
