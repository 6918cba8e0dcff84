//! CSV text in memory → typed columns.
//!
//! RFC 4180, read the way DuckDB 2.0 reads it. The text is gone over twice: once to find each
//! column's type from every value (so that a late value never breaks a guess), once to build the
//! columns. `Tokenizer` cuts the text into fields: 64 bytes at a time become a mask of the bytes
//! that mean something (delimiter, quote, escape, CR, LF), and fields are read off that mask.
//!
//!     text      = [BOM] record*            a record ends with LF, CR LF, CR or the end of the text
//!     record    = field (delimiter field)*
//!     field     = spaces* quote (any | quote quote)* quote spaces*  |  anything else
//!
//! A quote inside an unquoted field is an ordinary byte. Blank lines are skipped, except that in a
//! text of one column they are rows with NULL. One empty field too many at the end of a row is
//! forgiven (a trailing delimiter). Other deviations from the column count, a quote that is not
//! closed, text behind a closing quote, and bytes that are not UTF-8 are `InvalidFormat`.
//!
//! Header, when not told: the first row is one if a value in it does not fit the type of the rest of
//! its column; if all columns are text; or if the row is empty throughout. A text of one row has a
//! header if every field in it is text.
//!
//! Where we differ from DuckDB 2.0, on purpose:
//!
//!   - types come from the whole text, not a sample; integers past 64 bits are float64 (there:
//!     HUGEINT); `t`/`f`, `0x10`, `epoch`, `-01`, 24:00:00 and dates with the day or a
//!     two-digit year first stay text; spaces around any value that is not text are ignored (there:
//!     not for booleans, and not behind a float); a date among timestamps is midnight, whichever
//!     comes first; `inf` alone is a float (there: a date); a zone name is not read, but UTC is
//!   - a quoted empty field of a text column is an empty text (there: NULL); quoted fields are never
//!     NULL strings in a text column
//!   - a first row `1.5` above integers is data (there: a header)
//!   - the sniffer tries delimiters only: no comment lines, no other quotes, no skipped first lines.
//!     Rows of unequal length are an error if at least half agree with the first (there: one column)
//!   - line ends may be mixed
const std = @import("std");
const abi = @import("../../abi.zig");
const schema = @import("../../core/schema.zig");
const column_module = @import("../../core/column.zig");
const interrupt = @import("../../core/interrupt.zig");
const infer = @import("infer.zig");
const builder_module = @import("builder.zig");
const options_module = @import("options.zig");
const Arena = @import("../../core/arena.zig").Arena;
const Cursor = @import("../../core/cursor.zig").Cursor;
const Builder = builder_module.Builder;
const Batch = column_module.Batch;
const Column = column_module.Column;
const Field = schema.Field;
const Kinds = infer.Kinds;
const Options = options_module.Options;
const Allocator = std.mem.Allocator;
const assert = std.debug.assert;

pub const Error = error{ InvalidFormat, TooLarge, OutOfMemory, Cancelled, NotSupported };

/// The marks of one text, settled.
pub const Dialect = struct {
    delimiter: u8,
    quote: u8,
    escape: u8,

    fn escape_is_own(self: Dialect) bool {
        return self.quote != 0 and self.escape != 0 and self.escape != self.quote;
    }
};

/// A field's bytes in the text, without its quotes.
pub const Span = struct {
    start: usize,
    end: usize,
    quoted: bool = false,
    /// Holds doubled quotes or escapes that `unescape` removes.
    escaped: bool = false,

    fn is_empty(self: Span) bool {
        return self.start == self.end;
    }
};

pub const FieldEnd = enum { delimiter, line, text };

/// Cuts text into fields. Reads on from `position`; copies are cheap and independent.
pub const Tokenizer = struct {
    text: []const u8,
    dialect: Dialect,
    position: usize,
    /// Start of the block that `mask` is about.
    block: usize,
    /// Bytes of the block that mean something and were not handed out yet.
    mask: u64,

    const block_size = 64;
    const check_size = 4096;

    pub fn init(text: []const u8, start: usize, dialect: Dialect) Error!Tokenizer {
        var self: Tokenizer = .{ .text = text, .dialect = dialect, .position = start, .block = start, .mask = 0 };
        try self.load();
        return self;
    }

    pub fn at_end(self: *const Tokenizer) bool {
        return self.position >= self.text.len;
    }

    fn load(self: *Tokenizer) Error!void {
        if (self.block >= self.text.len) return;
        if (self.block % check_size < block_size) try interrupt.check();
        const rest = self.text[self.block..];
        if (rest.len >= block_size) {
            self.mask = marks(rest[0..block_size], self.dialect);
            return;
        }
        var padded: [block_size]u8 = @splat(0);
        @memcpy(padded[0..rest.len], rest);
        const used = (@as(u64, 1) << @intCast(rest.len)) - 1;
        self.mask = marks(&padded, self.dialect) & used;
    }

    /// Position of the next mark, or the text's length.
    inline fn next_mark(self: *Tokenizer) Error!usize {
        while (self.mask == 0) {
            if (self.text.len - self.block <= block_size) return self.text.len;
            self.block += block_size;
            try self.load();
        }
        const at = self.block + @ctz(self.mask);
        self.mask &= self.mask - 1;
        return at;
    }

    /// Forgets the mark at `at`, if there is one; no mark before it is left.
    fn drop_mark(self: *Tokenizer, at: usize) Error!void {
        while (self.mask == 0) {
            if (self.text.len - self.block <= block_size) return;
            self.block += block_size;
            try self.load();
        }
        if (self.block + @ctz(self.mask) == at) self.mask &= self.mask - 1;
    }

    pub inline fn next_field(self: *Tokenizer, span: *Span) Error!FieldEnd {
        const start = self.position;
        var first_mark = true;
        while (true) : (first_mark = false) {
            const at = try self.next_mark();
            span.* = .{ .start = start, .end = at };
            if (at == self.text.len) return self.end_text();
            const byte = self.text[at];
            if (byte == self.dialect.delimiter) {
                self.position = at + 1;
                return .delimiter;
            }
            if (byte == '\n' or byte == '\r') return self.end_line(at);
            // An escape or a quote in the middle of an unquoted field is an ordinary byte.
            if (first_mark and byte == self.dialect.quote and is_spaces(self.text[start..at])) return self.quoted_field(at, span);
        }
    }

    fn end_text(self: *Tokenizer) FieldEnd {
        self.position = self.text.len;
        return .text;
    }

    fn end_line(self: *Tokenizer, at: usize) Error!FieldEnd {
        self.position = at + 1;
        if (self.text[at] == '\r' and self.position < self.text.len and self.text[self.position] == '\n') {
            try self.drop_mark(self.position);
            self.position += 1;
        }
        return .line;
    }

    fn quoted_field(self: *Tokenizer, open: usize, span: *Span) Error!FieldEnd {
        const quote = self.dialect.quote;
        const escape = self.dialect.escape;
        span.* = .{ .start = open + 1, .end = undefined, .quoted = true };
        while (true) {
            const at = try self.next_mark();
            if (at == self.text.len) return fail(self.text, open, "a quote is not closed", .{});
            const byte = self.text[at];
            if (byte == escape and escape != 0 and escape != quote) {
                span.escaped = true;
                try self.drop_mark(at + 1);
            } else if (byte == quote) {
                const doubled = !self.dialect.escape_is_own() and at + 1 < self.text.len and self.text[at + 1] == quote;
                if (!doubled) {
                    span.end = at;
                    return self.end_quoted(at + 1);
                }
                span.escaped = true;
                try self.drop_mark(at + 1);
            }
        }
    }

    /// Only spaces may stand between a closing quote and the end of the field.
    fn end_quoted(self: *Tokenizer, after: usize) Error!FieldEnd {
        const at = try self.next_mark();
        const byte = if (at < self.text.len) self.text[at] else '\n';
        const ends = byte == self.dialect.delimiter or byte == '\n' or byte == '\r';
        if (!ends or !is_spaces(self.text[after..at])) return fail(self.text, after, "text follows a closing quote", .{});
        if (at == self.text.len) return self.end_text();
        if (byte != self.dialect.delimiter) return self.end_line(at);
        self.position = at + 1;
        return .delimiter;
    }

    /// Steps over one line end at the start of a record; false when there is none.
    pub fn skip_blank_line(self: *Tokenizer) Error!bool {
        if (self.at_end()) return false;
        const byte = self.text[self.position];
        if (byte != '\n' and byte != '\r') return false;
        const at = try self.next_mark();
        assert(at == self.position);
        _ = try self.end_line(at);
        return true;
    }

    pub fn skip_blank_lines(self: *Tokenizer) Error!void {
        while (try self.skip_blank_line()) {}
    }
};

fn marks(block: *const [Tokenizer.block_size]u8, dialect: Dialect) u64 {
    const V = @Vector(16, u8);
    const delimiter: V = @splat(dialect.delimiter);
    // Without a quote or an escape the delimiter is compared again: no byte may match 0.
    const quote: V = @splat(if (dialect.quote != 0) dialect.quote else dialect.delimiter);
    const escape: V = @splat(if (dialect.escape_is_own()) dialect.escape else dialect.delimiter);
    const line_feed: V = @splat('\n');
    const carriage_return: V = @splat('\r');
    var mask: u64 = 0;
    inline for (0..Tokenizer.block_size / 16) |i| {
        const bytes: V = block[i * 16 ..][0..16].*;
        const lines = bits(bytes == line_feed) | bits(bytes == carriage_return);
        const found = lines | bits(bytes == delimiter) | bits(bytes == quote) | bits(bytes == escape);
        mask |= @as(u64, found) << (i * 16);
    }
    return mask;
}

inline fn bits(lanes: @Vector(16, bool)) u16 {
    return @bitCast(lanes);
}

fn is_spaces(text: []const u8) bool {
    for (text) |byte| if (byte != ' ') return false;
    return true;
}

/// Says where, in lines as an editor counts them, and why.
fn fail(text: []const u8, offset: usize, comptime format: []const u8, arguments: anytype) Error {
    interrupt.describe("line {d}: " ++ format, .{infer.line_number(text, offset)} ++ arguments);
    interrupt.describe_offset(offset);
    return error.InvalidFormat;
}

/// Calls `visit(context, column, span)` for each field of the next record. The tokenizer stands at
/// a record's start, not at the end of the text. `column_count` fields, or an error.
fn read_record(tokenizer: *Tokenizer, column_count: usize, context: anytype, comptime visit: anytype) Error!void {
    const start = tokenizer.position;
    var column: usize = 0;
    var span: Span = undefined;
    while (column < column_count) {
        const end = try tokenizer.next_field(&span);
        try visit(context, column, span);
        column += 1;
        if (end == .delimiter) continue;
        if (column == column_count) return;
        return fail_count(tokenizer.text, start, column_count, column);
    }
    // A delimiter followed the last field: only an empty one may come.
    const end = try tokenizer.next_field(&span);
    if (end != .delimiter and !span.quoted and span.is_empty()) return;
    column += 1;
    if (end == .delimiter) column += try count_fields(tokenizer);
    return fail_count(tokenizer.text, start, column_count, column);
}

fn count_fields(tokenizer: *Tokenizer) Error!usize {
    var span: Span = undefined;
    var count: usize = 1;
    while (try tokenizer.next_field(&span) == .delimiter) count += 1;
    return count;
}

fn fail_count(text: []const u8, offset: usize, expected: usize, found: usize) Error {
    return fail(text, offset, "expected {d} fields, found {d}", .{ expected, found });
}

/// In DuckDB's order: the first wins among equals.
const delimiter_candidates = [_]u8{ ',', '|', ';', '\t' };
const sniff_size = 128 * 1024;

/// How well the start of a text can be read with one delimiter.
const Score = struct {
    /// Fields of the first record.
    column_count: usize = 0,
    record_count: usize = 0,
    /// Records with as many fields as the first.
    agree_count: usize = 0,

    fn is_consistent(self: Score) bool {
        return self.record_count == self.agree_count;
    }
};

fn sniff_delimiter(text: []const u8, start: usize, options: Options) Error!u8 {
    var best: u8 = 0;
    var best_count: usize = 1;
    var single: u8 = 0;
    var likely: u8 = 0;
    var likely_count: usize = 0;
    for (delimiter_candidates) |candidate| {
        if (candidate == options.quote or candidate == options.escape) continue;
        const dialect: Dialect = .{ .delimiter = candidate, .quote = options.quote, .escape = options.escape };
        const score = try sniff_score(text, start, dialect);
        if (score.is_consistent() and score.column_count > best_count) {
            best = candidate;
            best_count = score.column_count;
        }
        if (score.is_consistent() and score.column_count <= 1 and single == 0) single = candidate;
        if (score.column_count > 1 and score.agree_count * 2 >= score.record_count and score.agree_count > likely_count) {
            likely = candidate;
            likely_count = score.agree_count;
        }
    }
    // Nothing told while sniffing is the answer to the caller's question.
    interrupt.forget();
    if (best != 0) return best;
    // Then an error about one row says more than a single column of unsplit text.
    if (likely != 0) return likely;
    return if (single != 0) single else ',';
}

/// A record that cannot be read agrees with none and is the last.
fn sniff_score(text: []const u8, start: usize, dialect: Dialect) Error!Score {
    const end = @min(text.len, start + sniff_size);
    var tokenizer: Tokenizer = try .init(text[0..end], start, dialect);
    var score: Score = .{};
    try tokenizer.skip_blank_lines();
    while (!tokenizer.at_end()) : (try tokenizer.skip_blank_lines()) {
        const count = sniff_record(&tokenizer, score.column_count) catch |err| switch (err) {
            error.InvalidFormat => {
                // Not the record's fault if the cut went through a quoted field.
                if (end == text.len or score.record_count == 0) score.record_count += 1;
                return score;
            },
            else => return err,
        };
        // The last record of a cut text may be cut as well.
        if (tokenizer.at_end() and end < text.len and score.record_count > 0) break;
        if (score.record_count == 0) score.column_count = count;
        score.record_count += 1;
        score.agree_count += @intFromBool(count == score.column_count);
    }
    return score;
}

/// Fields of the next record, a forgiven last one not counted.
fn sniff_record(tokenizer: *Tokenizer, expected: usize) Error!usize {
    var span: Span = undefined;
    var count: usize = 1;
    while (try tokenizer.next_field(&span) == .delimiter) count += 1;
    const forgiven = count == expected + 1 and expected > 0 and !span.quoted and span.is_empty();
    return if (forgiven) expected else count;
}

const byte_order_mark = "\xEF\xBB\xBF";

pub const Reader = struct {
    gpa: Allocator,
    arena: Arena,
    text: []const u8,
    tokenizer: Tokenizer,
    options: Options,
    null_strings: []const []const u8,
    /// The first record, spans into the text.
    first: []const Span,
    /// What each column may be, by the records after the first.
    kinds: []Kinds,
    record_count: usize,
    has_header: bool,
    fields: []const Field,
    builders: []Builder,
    columns: []Column,
    batch_row_limit: u32,

    /// `text` stays alive and unchanged until `deinit`; the options' bytes need not.
    pub fn init(gpa: Allocator, text: []const u8, options: Options) Error!Reader {
        if (try infer.find_invalid_utf8(text)) |offset| return fail(text, offset, "not valid UTF-8", .{});
        const start: usize = if (std.mem.startsWith(u8, text, byte_order_mark)) byte_order_mark.len else 0;
        const dialect: Dialect = .{
            .delimiter = if (options.delimiter != 0) options.delimiter else try sniff_delimiter(text, start, options),
            .quote = options.quote,
            .escape = options.escape,
        };
        var self: Reader = .{
            .gpa = gpa,
            .arena = .init(gpa),
            .text = text,
            .tokenizer = try .init(text, start, dialect),
            .options = options,
            .null_strings = &.{},
            .first = &.{},
            .kinds = &.{},
            .record_count = 0,
            .has_header = false,
            .fields = &.{},
            .builders = &.{},
            .columns = &.{},
            .batch_row_limit = 1,
        };
        errdefer self.deinit();
        try self.prepare();
        return self;
    }

    pub fn deinit(self: *Reader) void {
        for (self.builders) |*builder| builder.deinit(self.gpa);
        self.arena.deinit();
        self.* = undefined;
    }

    fn prepare(self: *Reader) Error!void {
        const arena = self.arena.allocator();
        self.null_strings = try options_module.copy_null_strings(&self.options, arena);
        try self.tokenizer.skip_blank_lines();
        const data_start = self.tokenizer;
        self.first = try self.read_first_record(arena);
        if (self.options.column_count > 0) {
            self.fields = try builder_module.read_declared(arena, self.options.columns, self.options.column_count);
            for (self.fields) |field| if (field.type.is_nested()) return error.NotSupported;
            self.has_header = self.find_header();
        } else {
            self.fields = try self.infer_fields(arena);
        }
        // The options' bytes may go from here on.
        self.options.columns = &.{};
        self.options.null_strings = &.{};
        if (!self.has_header) {
            self.tokenizer = data_start;
        } else if (self.options.column_count == 0) {
            try self.name_fields(arena);
        }
        try self.prepare_builders(arena);
    }

    /// Leaves the tokenizer behind the first record.
    fn read_first_record(self: *Reader, arena: Allocator) Error![]const Span {
        if (self.tokenizer.at_end()) return &.{};
        var spans: std.ArrayList(Span) = .empty;
        while (spans.items.len < abi.column_count_max) {
            const end = try self.tokenizer.next_field(try spans.addOne(arena));
            if (end != .delimiter) return spans.items;
        }
        interrupt.describe("more than {d} columns", .{abi.column_count_max});
        return error.TooLarge;
    }

    /// Types from the whole text, names by position.
    fn infer_fields(self: *Reader, arena: Allocator) Error![]const Field {
        const column_count = @max(1, self.first.len);
        self.kinds = try arena.alloc(Kinds, column_count);
        @memset(self.kinds, .all);
        if (self.options.infer_types or self.options.header == .unknown) {
            var tokenizer = self.tokenizer;
            try self.infer_records(&tokenizer);
        }
        self.has_header = self.find_header();
        const fields = try arena.alloc(Field, column_count);
        for (fields, self.kinds, 0..) |*field, *kinds, i| {
            if (!self.has_header and self.first.len > 0) kinds.* = self.narrow(kinds.*, self.first[i]);
            field.* = .{
                .name = try std.fmt.allocPrint(arena, "column{d}", .{i}),
                .type = if (self.options.infer_types) kinds.data_type() else .of(.utf8),
            };
        }
        return fields;
    }

    fn infer_records(self: *Reader, tokenizer: *Tokenizer) Error!void {
        const column_count = self.first.len;
        while (!tokenizer.at_end()) {
            if (column_count > 1) try tokenizer.skip_blank_lines();
            if (tokenizer.at_end()) break;
            try read_record(tokenizer, column_count, self, infer_value);
            self.record_count += 1;
        }
    }

    fn infer_value(self: *Reader, column: usize, span: Span) Error!void {
        const kinds = &self.kinds[column];
        if (!kinds.is_none()) kinds.* = self.narrow(kinds.*, span);
    }

    /// NULL and the quoted empty field say nothing about a type.
    fn narrow(self: *const Reader, kinds: Kinds, span: Span) Kinds {
        if (span.is_empty() or self.is_null_string(span)) return kinds;
        if (span.escaped) return .none;
        return infer.recognise(infer.trim(self.text[span.start..span.end]), kinds);
    }

    fn is_null_string(self: *const Reader, span: Span) bool {
        const text = self.text[span.start..span.end];
        for (self.null_strings) |string| if (std.mem.eql(u8, string, text)) return true;
        return false;
    }

    fn find_header(self: *const Reader) bool {
        if (self.first.len == 0) return false;
        return switch (self.options.header) {
            .absent => false,
            .present => true,
            .unknown => if (self.options.column_count > 0) self.find_header_declared() else self.find_header_inferred(),
        };
    }

    /// A first row that does not fit the types, or repeats the names.
    fn find_header_declared(self: *const Reader) bool {
        if (self.first.len != self.fields.len) return false;
        var same = true;
        for (self.first, self.fields) |span, field| {
            const text = infer.trim(self.text[span.start..span.end]);
            same = same and std.mem.eql(u8, text, field.name);
            if (span.is_empty() or self.is_null_string(span)) continue;
            if (!could_hold(field.type, text)) return true;
        }
        return same;
    }

    fn find_header_inferred(self: *const Reader) bool {
        var all_empty = true;
        var all_text = true;
        for (self.first, self.kinds) |span, rest| {
            const kinds = self.narrow(.all, span);
            all_empty = all_empty and span.is_empty();
            if (self.record_count == 0) {
                // Nothing to compare with: only a text may be a name.
                all_text = all_text and kinds.is_none();
            } else if (!rest.is_none() and !rest.unseen) {
                all_text = false;
                if (kinds.both(rest).is_none()) return true;
            }
        }
        return all_text or (all_empty and self.record_count > 0);
    }

    fn name_fields(self: *Reader, arena: Allocator) Error!void {
        const fields = try arena.dupe(Field, self.fields);
        var names: Names = .{ .arena = arena };
        for (fields, self.first) |*field, span| {
            const text = self.text[span.start..span.end];
            var name = if (span.quoted) text else infer.trim(text);
            if (span.escaped) name = try unescape(arena, text, self.tokenizer.dialect);
            field.name = try names.unique(if (name.len > 0) name else field.name);
        }
        self.fields = fields;
    }

    fn prepare_builders(self: *Reader, arena: Allocator) Error!void {
        const builders = try arena.alloc(Builder, self.fields.len);
        for (builders, self.fields) |*builder, field| builder.* = try .init(arena, field.type);
        self.builders = builders;
        self.columns = try arena.alloc(Column, self.fields.len);
        self.batch_row_limit = builder_module.batch_row_limit(self.fields);
        const row_count: u32 = @intCast(@min(self.record_count + 1, self.batch_row_limit));
        for (builders) |*builder| try builder.reserve(self.gpa, row_count);
    }

    /// The next rows, null when there are none left. The buffers are valid until the next call.
    pub fn next(self: *Reader) Error!?Batch {
        for (self.builders) |*builder| builder.clear();
        const start = self.tokenizer.position;
        var row_count: u32 = 0;
        while (row_count < self.batch_row_limit) : (row_count += 1) {
            if (self.tokenizer.position - start >= builder_module.batch_size_max) break;
            if (self.fields.len > 1) try self.tokenizer.skip_blank_lines();
            if (self.tokenizer.at_end()) break;
            try read_record(&self.tokenizer, self.fields.len, self, append_field);
        }
        if (row_count == 0) return null;
        for (self.builders, self.columns) |*builder, *column| column.* = try builder.finish(self.gpa);
        return .{ .row_count = row_count, .columns = self.columns };
    }

    fn append_field(self: *Reader, column: usize, span: Span) Error!void {
        const builder = &self.builders[column];
        const text = self.text[span.start..span.end];
        if (builder.type.tag == .utf8) {
            if (!span.quoted and self.is_null_text(span)) return builder.append_null(self.gpa);
            if (span.escaped) return self.append_escaped(builder, text);
            return builder.append_bytes(self.gpa, text);
        }
        if (span.is_empty() or self.is_null_string(span)) return builder.append_null(self.gpa);
        if (try builder.append_text(self.gpa, infer.trim(text))) return;
        interrupt.describe_column(@intCast(column));
        return fail(self.text, span.start, "column {s}: '{s}' is not a {t}", .{
            infer.excerpt(self.fields[column].name), infer.excerpt(text), builder.type.tag,
        });
    }

    /// Given NULL strings replace the default, the empty field.
    fn is_null_text(self: *const Reader, span: Span) bool {
        return if (self.null_strings.len == 0) span.is_empty() else self.is_null_string(span);
    }

    fn append_escaped(self: *Reader, builder: *Builder, text: []const u8) Error!void {
        var pieces: Pieces = .{ .text = text, .dialect = self.tokenizer.dialect };
        while (pieces.next()) |piece| {
            try interrupt.check();
            try builder.append_piece(self.gpa, piece);
        }
        try builder.end_bytes(self.gpa);
    }
};

fn could_hold(data_type: schema.DataType, text: []const u8) bool {
    return switch (data_type.tag) {
        .utf8 => true,
        .bool => infer.parse_bool(text) != null,
        .date => infer.parse_date(text) != null,
        .time => infer.parse_time(text) != null,
        .timestamp => infer.parse_timestamp(text) != null,
        .null => false,
        else => infer.parse_f64(text) != null,
    };
}

/// The stretches of a quoted field between the bytes that escaping added.
const Pieces = struct {
    text: []const u8,
    dialect: Dialect,
    position: usize = 0,
    /// The byte at `position` was escaped and stands for itself.
    literal: bool = false,

    fn next(self: *Pieces) ?[]const u8 {
        if (self.position >= self.text.len) return null;
        const start = self.position;
        const escape = if (self.dialect.escape_is_own()) self.dialect.escape else self.dialect.quote;
        var search = start + @intFromBool(self.literal);
        while (std.mem.indexOfScalarPos(u8, self.text, search, escape)) |at| : (search = at + 1) {
            if (at + 1 == self.text.len) break;
            const escaped = self.text[at + 1];
            // An escape before any other byte is kept: dropping it would lose what was written.
            if (escaped != self.dialect.quote and escaped != escape) continue;
            self.position = at + 1;
            self.literal = true;
            return self.text[start..at];
        }
        self.position = self.text.len;
        return self.text[start..];
    }
};

fn unescape(arena: Allocator, text: []const u8, dialect: Dialect) error{OutOfMemory}![]const u8 {
    var result: std.ArrayList(u8) = .empty;
    var pieces: Pieces = .{ .text = text, .dialect = dialect };
    while (pieces.next()) |piece| try result.appendSlice(arena, piece);
    return result.items;
}

/// Makes names differ, case aside, the way DuckDB does: a, a, A become a, a_1, A_2.
const Names = struct {
    arena: Allocator,
    /// Lower case name → the suffix to try next.
    taken: std.StringHashMapUnmanaged(u32) = .empty,

    const size_max = std.math.maxInt(u16);

    fn unique(self: *Names, name: []const u8) Error![]const u8 {
        if (name.len > size_max - 8) {
            interrupt.describe("a column name of {d} bytes", .{name.len});
            return error.TooLarge;
        }
        const key = try std.ascii.allocLowerString(self.arena, name);
        const entry = try self.taken.getOrPut(self.arena, key);
        if (!entry.found_existing) {
            entry.value_ptr.* = 1;
            return self.arena.dupe(u8, name);
        }
        var suffix = entry.value_ptr.*;
        while (true) : (suffix += 1) {
            const candidate = try std.fmt.allocPrint(self.arena, "{s}_{d}", .{ name, suffix });
            const other = try self.taken.getOrPut(self.arena, try std.ascii.allocLowerString(self.arena, candidate));
            if (other.found_existing) continue;
            other.value_ptr.* = 1;
            self.taken.getPtr(key).?.* = suffix + 1;
            return candidate;
        }
    }
};

/// What a text reads as, in one line: `name:type …` and then each row as `value|value`, NULL as ~.
fn render(gpa: Allocator, text: []const u8, options: Options) ![]const u8 {
    var out: std.Io.Writer.Allocating = .init(gpa);
    errdefer out.deinit();
    var reader: Reader = try .init(gpa, text, options);
    defer reader.deinit();
    for (reader.fields, 0..) |field, i| {
        if (i > 0) try out.writer.writeByte(' ');
        try out.writer.print("{s}:{t}{s}", .{ field.name, field.type.tag, field.type.zone });
    }
    while (try reader.next()) |batch| for (0..batch.row_count) |row| {
        try out.writer.writeAll(" /");
        for (batch.columns, 0..) |*column, i| {
            assert(column.row_count == batch.row_count);
            try out.writer.writeByte(if (i == 0) ' ' else '|');
            try render_value(&out.writer, column, row);
        }
    };
    return out.toOwnedSlice();
}

fn render_value(writer: *std.Io.Writer, column: *const Column, row: usize) !void {
    if (!column.is_valid(row)) return writer.writeByte('~');
    switch (column.type.layout()) {
        .bytes => try writer.writeAll(column.bytes_at(row)),
        .bits => try writer.print("{}", .{@import("../../core/bitmap.zig").get(column.data.ptr, row)}),
        .i32 => try writer.print("{d}", .{column.values(i32)[row]}),
        .i64 => try writer.print("{d}", .{column.values(i64)[row]}),
        .f64 => try writer.print("{d}", .{column.values(f64)[row]}),
        else => try writer.writeByte('?'),
    }
}

fn expect_csv(expected: []const u8, text: []const u8, options: Options) !void {
    const found = try render(std.testing.allocator, text, options);
    defer std.testing.allocator.free(found);
    try std.testing.expectEqualStrings(expected, found);
}

fn expect_refused(message: []const u8, offset: ?u64, text: []const u8, options: Options) !void {
    defer interrupt.forget();
    try std.testing.expectError(error.InvalidFormat, render(std.testing.allocator, text, options));
    const detail = &interrupt.control.detail;
    try std.testing.expectEqualStrings(message, detail.message[0..detail.message_size]);
    if (offset) |wanted| try std.testing.expectEqual(wanted, detail.offset);
}

test "texts that DuckDB reads the same way" {
    const cases = [_][2][]const u8{
        .{ "a,b\n1,2\n", "a:i64 b:i64 / 1|2" },
        .{ "a,b\nx,y\n", "a:utf8 b:utf8 / x|y" },
        .{ "1,2\n3,4\n", "column0:i64 column1:i64 / 1|2 / 3|4" },
        .{ "", "column0:utf8" },
        .{ "\n", "column0:utf8" },
        .{ "a\n", "a:utf8" },
        .{ "a,b", "a:utf8 b:utf8" },
        .{ "1,x\n", "column0:i64 column1:utf8 / 1|x" },
        .{ "a,1\n", "column0:utf8 column1:i64 / a|1" },
        .{ "1,a\n2,b\n", "column0:i64 column1:utf8 / 1|a / 2|b" },
        .{ "x,1\ny,2\n", "column0:utf8 column1:i64 / x|1 / y|2" },
        .{ "1\na\nb\n", "1:utf8 / a / b" },
        .{ "true,a\nx,b\n", "true:utf8 a:utf8 / x|b" },
        .{ "d,x\n2020-01-02,y\n", "d:date x:utf8 / 18263|y" },
        .{ "2020-01-01,x\n2020-01-02,y\n", "column0:date column1:utf8 / 18262|x / 18263|y" },
        .{ ",x\n1,y\n", "column0:i64 column1:utf8 / ~|x / 1|y" },
        .{ "1,\n2,3\n", "column0:i64 column1:i64 / 1|~ / 2|3" },
        .{ "5,a\n,b\n", "5:utf8 a:utf8 / ~|b" },
        .{ "AAA|\n", "column0:utf8 column1:utf8 / AAA|~" },
        .{ "AAA|BBB", "AAA:utf8 BBB:utf8" },
        .{ ",\n1,2\n", "column0:i64 column1:i64 / 1|2" },
        .{ ",,\n,,\n", "column0:utf8 column1:utf8 column2:utf8 / ~|~|~" },
        .{ "a,b,c\n,,\n", "a:utf8 b:utf8 c:utf8 / ~|~|~" },
        .{ "a,a,a\n1,2,3\n", "a:i64 a_1:i64 a_2:i64 / 1|2|3" },
        .{ "a,a,a_1\n1,2,3\n", "a:i64 a_1:i64 a_1_1:i64 / 1|2|3" },
        .{ "a,A\n1,2\n", "a:i64 A_1:i64 / 1|2" },
        .{ "column1,\n1,2\n", "column1:i64 column1_1:i64 / 1|2" },
        .{ " a , b\n1,2\n", "a:i64 b:i64 / 1|2" },
        .{ "\"a b\",\"c,d\"\n1,2\n", "a b:i64 c,d:i64 / 1|2" },
        .{ "a,b\n1,\n,\n", "a:i64 b:utf8 / 1|~ / ~|~" },
        .{ "a,b\n\n1,2\n\n", "a:i64 b:i64 / 1|2" },
        .{ "\n\na,b\n1,2\n", "a:i64 b:i64 / 1|2" },
        .{ "a\n1\n\n2\n", "a:i64 / 1 / ~ / 2" },
        .{ "a\n1\n\n", "a:i64 / 1 / ~" },
        .{ "a,b\n1,2,\n", "a:i64 b:i64 / 1|2" },
        .{ "a;b\n1;2\n", "a:i64 b:i64 / 1|2" },
        .{ "a|b\n1|2\n", "a:i64 b:i64 / 1|2" },
        .{ "a\tb\n1\t2\n", "a:i64 b:i64 / 1|2" },
        .{ "a;b\n1,5;2,5\n", "a:utf8 b:utf8 / 1,5|2,5" },
        .{ "name\nSmith, John\nBob\n", "name:utf8 / Smith, John / Bob" },
        .{ "a,b\r\n1,2\r\n", "a:i64 b:i64 / 1|2" },
        .{ "a,b\r1,2\r", "a:i64 b:i64 / 1|2" },
        .{ "\xEF\xBB\xBFa,b\n1,2\n", "a:i64 b:i64 / 1|2" },
        .{ "a,b\n\"x\ny\",1\n", "a:utf8 b:i64 / x\ny|1" },
        .{ "a,b\n\"x\"\"y\",1\n", "a:utf8 b:i64 / x\"y|1" },
        .{ "a,b\nx\"y,1\n", "a:utf8 b:i64 / x\"y|1" },
        .{ "a,b\n \"x\" ,1\n", "a:utf8 b:i64 / x|1" },
        .{ "a,b\n\"1\",2\n", "a:i64 b:i64 / 1|2" },
        .{ "a\n\"true\"\n", "a:bool / true" },
        .{ "a, b\n1, x\n", "a:i64 b:utf8 / 1| x" },
        .{ "a\ntrue\nFALSE\n", "a:bool / true / false" },
        .{ "a\n 1\n2 \n", "a:i64 / 1 / 2" },
        .{ "a\n-0\n", "a:i64 / 0" },
        .{ "a\n01\n007\n", "a:utf8 / 01 / 007" },
        .{ "a\n+1\n", "a:utf8 / +1" },
        .{ "a\n  \n1\n", "a:utf8 /    / 1" },
        .{ "a\n1\n1.5\n", "a:f64 / 1 / 1.5" },
        .{ "a\n1.5\ninfinity\nNaN\n", "a:f64 / 1.5 / inf / nan" },
        .{ "a\n1.5\n9223372036854775808\n", "a:f64 / 1.5 / 9223372036854776000" },
        .{ "a\n1e400\n", "a:f64 / inf" },
        .{ "a\ntrue\n1\n", "a:utf8 / true / 1" },
        .{ "a\n12:00\n", "a:time / 43200000000" },
        .{ "a\n2020-1-1\n", "a:date / 18262" },
        .{ "a\n2020-01-01T00:00:00\n", "a:timestamp / 1577836800000000" },
        .{ "a\n2020-01-01 00:00:00.1234567\n", "a:timestamp / 1577836800123456" },
        .{ "a\n2020-01-01 02:00:00+02\n", "a:timestampUTC / 1577836800000000" },
        .{ "a\n2020-01-01 00:00:00\n2020-01-01 00:00:00Z\n", "a:timestampUTC / 1577836800000000 / 1577836800000000" },
        .{ "a\n2020-13-01\n", "a:utf8 / 2020-13-01" },
    };
    for (cases) |case| try expect_csv(case[1], case[0], .{});
}

test "texts that we read our own way" {
    const cases = [_][2][]const u8{
        .{ "a\n9223372036854775808\n", "a:f64 / 9223372036854776000" },
        .{ "a\nt\nf\n", "a:utf8 / t / f" },
        .{ "a,b\n\"x\",\"\"\n,y\n", "a:utf8 b:utf8 / x| / ~|y" },
        .{ "a\n2020-01-01\n2020-01-01 12:00:00\n", "a:timestamp / 1577836800000000 / 1577880000000000" },
        .{ "1.5,a\n2,b\n", "column0:f64 column1:utf8 / 1.5|a / 2|b" },
        .{ "a,b\r\n1,2\n3,4\r5,6", "a:i64 b:i64 / 1|2 / 3|4 / 5|6" },
        .{ "a\n true\n1.5 \n", "a:utf8 /  true / 1.5 " },
        .{ "a\n true \n", "a:bool / true" },
    };
    for (cases) |case| try expect_csv(case[1], case[0], .{});
}

test "options change the reading" {
    try expect_csv("column0:utf8 column1:utf8 / a|b / 1|2", "a,b\n1,2\n", .{ .header = .absent });
    try expect_csv("1:i64 2:i64 / 3|4", "1,2\n3,4\n", .{ .header = .present });
    try expect_csv("a:utf8 b:utf8 / 1|2", "a,b\n1,2\n", .{ .infer_types = false });
    try expect_csv("column0:utf8 column1:utf8 / 1|2", "1,2\n", .{ .infer_types = false });
    try expect_csv("a:utf8 b:i64 / \"x|1", "a,b\n\"x,1\n", .{ .quote = 0, .delimiter = ',' });
    try expect_csv("a:utf8 b:utf8 / x'y,z|it's", "a;b\n'x''y,z';it's\n", .{ .quote = '\'' });
    const backslash: Options = .{ .escape = '\\', .delimiter = ',' };
    try expect_csv("a:utf8 b:utf8 / x\"y,\\n\\|\\z", "a,b\n\"x\\\"y,\\n\\\\\",\\z\n", backslash);
    try expect_csv("a,b:utf8 / 1,2", "a,b\n1,2\n", .{ .delimiter = ';' });
    const nulls: Options = .{ .null_string_count = 2, .null_strings = "\x02NA\x01-" };
    try expect_csv("a:utf8 b:i64 / ~|1 / |2 / NA|~ / x|~", "a,b\nNA,1\n,2\n\"NA\",-\nx,\n", nulls);
}

test "columns that the caller names" {
    var options: Options = .{ .column_count = 2, .columns = "\x01\x00x\x06\x01\x00y\x02" };
    try expect_csv("x:i32 y:utf8 / 1|2 / 7|~", "a,b\n1,2\n007,\n", options);
    try expect_csv("x:i32 y:utf8 / 1|2", "1,2\n", options);
    try expect_refused("line 2: column x: 'zwei' is not a i32", 4, "1,2\nzwei,3\n", options);
    try expect_refused("line 1: expected 2 fields, found 3", 0, "1,2,3\n", options);
    options.header = .present;
    try expect_csv("x:i32 y:utf8", "1,2\n", options);
    options.columns = "\x01\x00x\x18\x06\x01\x00y\x02";
    try std.testing.expectError(error.NotSupported, render(std.testing.allocator, "1,2\n", options));
    options.columns = "\x01\x00x\x06";
    try std.testing.expectError(error.InvalidFormat, render(std.testing.allocator, "1,2\n", options));
    const texts: Options = .{ .column_count = 2, .columns = "\x01\x00x\x02\x01\x00y\x02" };
    try expect_csv("x:utf8 y:utf8 / 1|2", "x,y\n1,2\n", texts);
    try expect_csv("x:utf8 y:utf8 / y|x", "y,x\n", texts);
}

test "what is wrong is said with its line" {
    const comma: Options = .{ .delimiter = ',' };
    try expect_refused("line 3: expected 2 fields, found 1", 8, "a,b\n1,2\n3\n4,5\n", comma);
    try expect_refused("line 3: expected 2 fields, found 1", 8, "a,b\n1,2\n3\n4,5\n", .{});
    try expect_refused("line 2: expected 2 fields, found 4", 4, "a,b\n1,2,3,4\n", comma);
    try expect_refused("line 2: expected 2 fields, found 3", 4, "a,b\n1,2,\"\"\n", comma);
    try expect_refused("line 4: expected 2 fields, found 1", 13, "a,b\n\"x\r\ny\",1\n2\n", comma);
    try expect_refused("line 2: a quote is not closed", 4, "a,b\n\"x,1\n", comma);
    try expect_refused("line 2: a quote is not closed", 6, "a,b\n1,\"", .{});
    try expect_refused("line 2: text follows a closing quote", 7, "a,b\n\"x\"y,1\n", comma);
    try expect_refused("line 2: text follows a closing quote", 7, "a,b\n\"x\"\"y\",\"z\"z\n"[0..7] ++ "y\"", comma);
    try expect_refused("line 2: not valid UTF-8", 2, "a\r\xFF", comma);
}

test "batches are cut, and buffers are used again" {
    const gpa = std.testing.allocator;
    var text: std.Io.Writer.Allocating = .init(gpa);
    defer text.deinit();
    try text.writer.writeAll("number,word,half\n");
    for (0..70_000) |i| try text.writer.print("{d},w{d},{d}.5\n", .{ i, i % 10, i });
    var reader: Reader = try .init(gpa, text.written(), .{});
    defer reader.deinit();
    try std.testing.expectEqual(.f64, reader.fields[2].type.tag);
    var row: usize = 0;
    for ([_]u32{ 65_536, 4_464 }) |row_count| {
        const batch = (try reader.next()).?;
        try std.testing.expectEqual(row_count, batch.row_count);
        for (0..row_count) |i| {
            try std.testing.expectEqual(@as(i64, @intCast(row)), batch.columns[0].values(i64)[i]);
            try std.testing.expectEqual('0' + row % 10, batch.columns[1].bytes_at(i)[1]);
            try std.testing.expectEqual(@as(f64, @floatFromInt(row)) + 0.5, batch.columns[2].values(f64)[i]);
            row += 1;
        }
    }
    try std.testing.expectEqual(null, try reader.next());
    try std.testing.expectEqual(null, try reader.next());
}

test "cancellation is seen" {
    interrupt.control.cancel = 1;
    defer interrupt.control.cancel = 0;
    try std.testing.expectError(error.Cancelled, Reader.init(std.testing.allocator, "a,b\n1,2\n", .{}));
}

test "too many columns, and too long a name" {
    defer interrupt.forget();
    const gpa = std.testing.allocator;
    const commas = try gpa.alloc(u8, abi.column_count_max);
    defer gpa.free(commas);
    @memset(commas, ',');
    try std.testing.expectError(error.TooLarge, Reader.init(gpa, commas, .{ .delimiter = ',' }));
    @memset(commas, 'x');
    try std.testing.expectError(error.TooLarge, Reader.init(gpa, commas, .{ .header = .present }));
}

/// The same grammar, byte by byte.
fn scalar_fields(gpa: Allocator, text: []const u8, dialect: Dialect, out: *std.ArrayList([]const u8)) !void {
    var position: usize = 0;
    while (position <= text.len) {
        var value: std.ArrayList(u8) = .empty;
        var start = position;
        while (start < text.len and text[start] == ' ') start += 1;
        if (start < text.len and text[start] == dialect.quote) {
            position = start + 1;
            while (true) : (position += 1) {
                if (position >= text.len) return error.InvalidFormat;
                if (text[position] == dialect.quote) {
                    if (position + 1 >= text.len or text[position + 1] != dialect.quote) break;
                    position += 1;
                }
                try value.append(gpa, text[position]);
            }
            position += 1;
            while (position < text.len and text[position] == ' ') position += 1;
        } else {
            while (position < text.len and std.mem.indexOfScalar(u8, ",\r\n", text[position]) == null) : (position += 1) {
                try value.append(gpa, text[position]);
            }
        }
        try out.append(gpa, value.items);
        if (position == text.len) return;
        if (std.mem.indexOfScalar(u8, ",\r\n", text[position]) == null) return error.InvalidFormat;
        if (text[position] == '\r' and position + 1 < text.len and text[position + 1] == '\n') position += 1;
        const was_line = text[position] != ',';
        position += 1;
        if (was_line and position == text.len) return;
    }
}

test "the tokenizer agrees with a byte by byte one" {
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    defer interrupt.forget();
    const dialect: Dialect = .{ .delimiter = ',', .quote = '"', .escape = 0 };
    var prng: std.Random.DefaultPrng = .init(6);
    const random = prng.random();
    var buffer: [300]u8 = undefined;
    for (0..3000) |i| {
        _ = arena.reset(.retain_capacity);
        const text = buffer[0 .. i % 290];
        const alphabet = if (i % 2 == 0) "aaaaaaaaaaaaaaab,\n \"\r" else "ab,\"";
        for (text) |*byte| byte.* = alphabet[random.uintLessThan(usize, alphabet.len)];
        var expected: std.ArrayList([]const u8) = .empty;
        const scalar = scalar_fields(arena.allocator(), text, dialect, &expected);
        var tokenizer: Tokenizer = try .init(text, 0, dialect);
        var count: usize = 0;
        var end: FieldEnd = .line;
        const vector = while (text.len > 0) : (count += 1) {
            var span: Span = undefined;
            end = tokenizer.next_field(&span) catch |err| break err;
            var value = text[span.start..span.end];
            if (span.escaped) value = @constCast(try unescape(arena.allocator(), value, dialect));
            try std.testing.expectEqualStrings(expected.items[count], value);
            if (end == .text or (end == .line and tokenizer.at_end())) break {};
        } else {};
        if (scalar) |_| try vector else |err| try std.testing.expectError(err, @as(Error!void, vector));
        if (text.len > 0 and count + 1 < expected.items.len) try std.testing.expect(if (vector) |_| false else |_| true);
    }
}
