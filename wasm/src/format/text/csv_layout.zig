//! What a CSV text looks like, from its head: the marks, the header, the columns and their types.
//!
//!     [BOM] blank lines* [header] rows …
//!                                 ↑ rows_start
//!
//! Text in memory is its own head, and a column's type is what all of its values allow. Of a file the head is
//! what the host has read of it, perhaps cut inside a row, which then does not count.
//!
//! Header, when not told: the first row is one if a value in it does not fit the type of the rest of
//! its column; if all columns are text; or if the row is empty throughout. A text of one row has a
//! header if every field in it is text.
const std = @import("std");
const abi = @import("../../abi.zig");
const builder_module = @import("builder.zig");
const failure = @import("failure.zig");
const infer = @import("infer.zig");
const interrupt = @import("../../core/interrupt.zig");
const options_module = @import("options.zig");
const schema = @import("../../core/schema.zig");
const tokenizer_module = @import("tokenizer.zig");
const Allocator = std.mem.Allocator;
const Dialect = tokenizer_module.Dialect;
const Error = failure.Error;
const Field = schema.Field;
const Kinds = infer.Kinds;
const Options = options_module.Options;
const Span = tokenizer_module.Span;
const Tokenizer = tokenizer_module.Tokenizer;
const read_record = tokenizer_module.read_record;
const unescape = tokenizer_module.unescape;

pub const byte_order_mark = "\xEF\xBB\xBF";

pub const Head = struct {
    /// The text ends where the head does.
    is_whole: bool = true,
    /// Records behind the first that types are found from.
    record_count_max: usize = std.math.maxInt(usize),
};

/// Names, types and words for NULL are in the arena that it was found with.
pub const Layout = struct {
    dialect: Dialect,
    has_header: bool,
    fields: []const Field,
    null_strings: []const []const u8,
    rows_start: usize,
    /// Records behind the first that were looked at.
    record_count: usize,

    /// The text is UTF-8 where it is `whole`; of a cut head this is found out here.
    pub fn find(arena: Allocator, text: []const u8, options: Options, head: Head) Error!Layout {
        const start: usize = if (std.mem.startsWith(u8, text, byte_order_mark)) byte_order_mark.len else 0;
        const sniffed = options.delimiter == 0;
        const dialect: Dialect = .{
            .delimiter = if (sniffed) try sniff_delimiter(text, start, options, head.is_whole) else options.delimiter,
            .quote = options.quote,
            .escape = options.escape,
        };
        const end = if (head.is_whole) text.len else try whole_records(text, start, dialect);
        if (try infer.find_invalid_utf8(text[0..end])) |at|
            return (failure.Origin{}).fail(text, at, "not valid UTF-8", .{});
        var finder: Finder = .{
            .text = text[0..end],
            .tokenizer = try .init(text[0..end], start, dialect),
            .options = options,
            .null_strings = try options_module.copy_null_strings(&options, arena),
            .record_count_max = head.record_count_max,
        };
        return finder.run(arena);
    }
};

/// Where the last record that is all there ends. Two must be: a header and something to find types from.
fn whole_records(text: []const u8, start: usize, dialect: Dialect) Error!usize {
    var tokenizer: Tokenizer = try .init(text, start, dialect);
    var end = start;
    var count: usize = 0;
    var span: Span = undefined;
    try tokenizer.skip_blank_lines();
    records: while (!tokenizer.at_end()) : (count += 1) {
        while (true) {
            const field_end = tokenizer.next_field(&span) catch |err| {
                if (err != error.InvalidFormat) return err;
                interrupt.forget();
                if (tokenizer.hit_end) break :records;
                // Whoever looks for types will meet it again, and say what is wrong.
                return text.len;
            };
            if (field_end != .delimiter) break;
        }
        if (tokenizer.hit_end) break;
        end = tokenizer.position;
        try tokenizer.skip_blank_lines();
    }
    if (count >= 2) return end;
    interrupt.describe("no two rows end within the first {d} bytes", .{text.len});
    return error.TooLarge;
}

const Finder = struct {
    text: []const u8,
    tokenizer: Tokenizer,
    options: Options,
    null_strings: []const []const u8,
    record_count_max: usize,
    /// The first record, spans into the text.
    first: []const Span = &.{},
    /// What each column may be, by the records after the first.
    kinds: []Kinds = &.{},
    record_count: usize = 0,
    has_header: bool = false,
    fields: []const Field = &.{},

    fn run(self: *Finder, arena: Allocator) Error!Layout {
        try self.tokenizer.skip_blank_lines();
        var rows_start = self.tokenizer.position;
        self.first = try self.read_first_record(arena);
        if (self.options.column_count > 0) {
            self.fields = try builder_module.read_declared(arena, self.options.columns, self.options.column_count);
            for (self.fields) |field| if (field.type.is_nested()) return error.NotSupported;
            self.has_header = self.find_header();
        } else {
            self.fields = try self.infer_fields(arena);
        }
        if (self.has_header) {
            rows_start = self.tokenizer.position;
            if (self.options.column_count == 0) try self.name_fields(arena);
        }
        return .{
            .dialect = self.tokenizer.dialect,
            .has_header = self.has_header,
            .fields = self.fields,
            .null_strings = self.null_strings,
            .rows_start = rows_start,
            .record_count = self.record_count,
        };
    }

    /// Leaves the tokenizer behind the first record.
    fn read_first_record(self: *Finder, arena: Allocator) Error![]const Span {
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
    fn infer_fields(self: *Finder, arena: Allocator) Error![]const Field {
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

    fn infer_records(self: *Finder, tokenizer: *Tokenizer) Error!void {
        const column_count = self.first.len;
        while (!tokenizer.at_end()) {
            if (column_count > 1) try tokenizer.skip_blank_lines();
            if (tokenizer.at_end()) break;
            if (self.record_count == self.record_count_max) break;
            try read_record(tokenizer, column_count, self, infer_value);
            self.record_count += 1;
        }
    }

    fn infer_value(self: *Finder, column: usize, span: Span) Error!void {
        const kinds = &self.kinds[column];
        if (!kinds.is_none()) kinds.* = self.narrow(kinds.*, span);
    }

    /// NULL and the quoted empty field say nothing about a type.
    fn narrow(self: *const Finder, kinds: Kinds, span: Span) Kinds {
        if (span.is_empty() or self.is_null_string(span)) return kinds;
        if (span.escaped) return .none;
        return infer.recognise(infer.trim(self.text[span.start..span.end]), kinds);
    }

    fn is_null_string(self: *const Finder, span: Span) bool {
        const text = self.text[span.start..span.end];
        for (self.null_strings) |string| if (std.mem.eql(u8, string, text)) return true;
        return false;
    }

    fn find_header(self: *const Finder) bool {
        if (self.first.len == 0) return false;
        return switch (self.options.header) {
            .absent => false,
            .present => true,
            .unknown => if (self.options.column_count > 0) self.find_header_declared() else self.find_header_inferred(),
        };
    }

    /// A first row that does not fit the types, or repeats the names.
    fn find_header_declared(self: *const Finder) bool {
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

    fn find_header_inferred(self: *const Finder) bool {
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

    fn name_fields(self: *Finder, arena: Allocator) Error!void {
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

/// Makes names differ, case aside, the way DuckDB does: a, a, A become a, a_1, A_2.
const Names = struct {
    arena: Allocator,
    /// Lower case name → the suffix to try next.
    taken: std.StringHashMapUnmanaged(u32) = .empty,

    const size_max = std.math.maxInt(u16);

    pub fn unique(self: *Names, name: []const u8) Error![]const u8 {
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

fn sniff_delimiter(text: []const u8, start: usize, options: Options, is_whole: bool) Error!u8 {
    var best: u8 = 0;
    var best_count: usize = 1;
    var single: u8 = 0;
    var likely: u8 = 0;
    var likely_count: usize = 0;
    for (delimiter_candidates) |candidate| {
        if (candidate == options.quote or candidate == options.escape) continue;
        const dialect: Dialect = .{ .delimiter = candidate, .quote = options.quote, .escape = options.escape };
        const score = try sniff_score(text, start, dialect, is_whole);
        if (score.is_consistent() and score.column_count > best_count) {
            best = candidate;
            best_count = score.column_count;
        }
        if (score.is_consistent() and score.column_count <= 1 and single == 0) single = candidate;
        if (score.column_count > 1 and score.agree_count * 2 >= score.record_count and
            score.agree_count > likely_count)
        {
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
fn sniff_score(text: []const u8, start: usize, dialect: Dialect, is_whole: bool) Error!Score {
    const end = @min(text.len, start + sniff_size);
    const is_cut = end < text.len or !is_whole;
    var tokenizer: Tokenizer = try .init(text[0..end], start, dialect);
    var score: Score = .{};
    try tokenizer.skip_blank_lines();
    while (!tokenizer.at_end()) : (try tokenizer.skip_blank_lines()) {
        const count = sniff_record(&tokenizer, score.column_count) catch |err| switch (err) {
            error.InvalidFormat => {
                // Not the record's fault if the cut went through a quoted field.
                if (!is_cut or score.record_count == 0) score.record_count += 1;
                return score;
            },
            else => return err,
        };
        // The last record of a cut text may be cut as well.
        if (tokenizer.at_end() and is_cut and score.record_count > 0) break;
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
