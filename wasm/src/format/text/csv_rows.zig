//! CSV rows → values of the columns that somebody wants. Text in memory and pieces of files are read here alike.
//!
//!     text[start..] → csv_marks.zig: ordinary rows, some hundred at a time → column by column → Builder
//!                   ↘ tokenizer.zig: any other row, by itself → field by field ↗
//!
//! Fields of other columns are not looked at, beyond that they are there and are UTF-8. Values in their usual
//! spelling are read by loops of their own (values.zig); what those do not know goes to infer.zig, as every
//! value does that stands in an odd row.
//!
//! A text may be a part of a file, and end inside a row; `read` then says `short` and where that row begins.
const std = @import("std");
const builder_module = @import("builder.zig");
const csv_marks = @import("csv_marks.zig");
const failure = @import("failure.zig");
const infer = @import("infer.zig");
const interrupt = @import("../../core/interrupt.zig");
const options_module = @import("options.zig");
const rows_module = @import("rows.zig");
const schema = @import("../../core/schema.zig");
const tokenizer_module = @import("tokenizer.zig");
const values = @import("values.zig");
const Allocator = std.mem.Allocator;
const Builder = builder_module.Builder;
const Dialect = tokenizer_module.Dialect;
const Error = failure.Error;
const Field = schema.Field;
const File = @import("file.zig").File;
const Origin = failure.Origin;
const Progress = rows_module.Progress;
const Request = rows_module.Request;
const Span = tokenizer_module.Span;
const Tokenizer = tokenizer_module.Tokenizer;
const Wanted = rows_module.Wanted;
const assert = std.debug.assert;

/// Marks that are found at once: they and the text between them stay in the cache.
const mark_count = 4096;
/// Where rows are odd, what was found behind them is found again: then fewer at once.
const mark_count_min = 64;

pub const Rows = struct {
    gpa: Allocator,
    dialect: Dialect,
    null_strings: []const []const u8,
    /// Of all columns of the text.
    fields: []const Field,
    wanted: []const Wanted,
    origin: Origin = .{},
    /// Nobody has looked yet whether the text is UTF-8.
    checks_text: bool,
    marks: []u32,
    /// Of one row.
    spans: []Span,
    mark_limit: usize,
    /// Rows read so far.
    row_count: u64 = 0,

    pub const Options = struct {
        dialect: Dialect,
        null_strings: []const []const u8,
        fields: []const Field,
        wanted: []const Wanted,
        checks_text: bool = false,
    };

    pub const sniff = @import("sniff.zig").csv;

    /// Of a file: `file` and `wanted` stay.
    pub fn open(gpa: Allocator, arena: Allocator, file: *const File, wanted: []const Wanted) Error!Rows {
        if (file.options.delimiter == 0 or file.fields.len == 0) {
            interrupt.describe("a file of CSV that nobody has looked at", .{});
            return error.InvalidFormat;
        }
        for (file.fields) |field| if (field.type.is_nested()) return error.NotSupported;
        return .init(gpa, arena, .{
            .dialect = .{
                .delimiter = file.options.delimiter,
                .quote = file.options.quote,
                .escape = file.options.escape,
            },
            .null_strings = try options_module.copy_null_strings(&file.options, arena),
            .fields = file.fields,
            .wanted = wanted,
            .checks_text = true,
        });
    }

    pub fn deinit(_: *Rows) void {}

    /// The builders are empty again.
    pub fn begin_batch(_: *Rows, _: u64) void {}

    /// The slices of `options` stay, and so does `arena`.
    pub fn init(gpa: Allocator, arena: Allocator, options: Options) error{OutOfMemory}!Rows {
        const limit = @max(mark_count, 2 * options.fields.len);
        return .{
            .gpa = gpa,
            .dialect = options.dialect,
            .null_strings = options.null_strings,
            .fields = options.fields,
            .wanted = options.wanted,
            .checks_text = options.checks_text,
            .marks = try arena.alloc(u32, limit + csv_marks.slack + 1),
            .spans = try arena.alloc(Span, options.fields.len),
            .mark_limit = limit,
        };
    }

    /// Appends rows to the builders of the wanted columns.
    pub fn read(self: *Rows, text: []const u8, request: Request) Error!Progress {
        var progress: Progress = .{ .position = request.start, .row_count = 0, .state = .full };
        while (progress.row_count < request.row_count_max) {
            const at = progress.position;
            if (at >= request.limit or (at >= text.len and request.is_last)) {
                progress.state = .limit;
                return progress;
            }
            const left = request.row_count_max - progress.row_count;
            const count = try self.read_ordinary(text, request, at, left);
            if (count > 0) {
                progress.row_count += count;
                progress.position = self.marks[count * self.fields.len] + 1;
            } else if (!try self.read_odd(text, request, &progress)) {
                progress.state = .short;
                return progress;
            }
        }
        return progress;
    }

    /// Rows that csv_marks.zig understands, from `at` on; 0 where the next one is not.
    fn read_ordinary(self: *Rows, text: []const u8, request: Request, at: usize, most: u32) Error!u32 {
        const column_count = self.fields.len;
        const found =
            try csv_marks.find(text, at, self.dialect, column_count, self.marks, self.mark_limit, request.is_last);
        const largest = self.marks.len - csv_marks.slack - 1;
        const smallest = @max(mark_count_min, column_count);
        self.mark_limit = if (found.is_regular) @min(largest, self.mark_limit * 2) else @max(
            smallest,
            self.mark_limit / 4,
        );
        var count = @min(found.row_count, most);
        while (count > 0 and csv_marks.field_start(self.marks, column_count, count - 1, 0) >= request.limit) count -= 1;
        if (count == 0) return 0;
        const end = self.marks[count * column_count];
        if (found.has_high and self.checks_text) try self.check_text(text, at, end, count);
        for (self.wanted) |wanted| try self.convert(text, wanted, count);
        self.row_count += count;
        return count;
    }

    /// `ordinary_count`: rows that `marks` has.
    fn check_text(self: *Rows, text: []const u8, start: usize, end: usize, ordinary_count: usize) Error!void {
        const at = try infer.find_invalid_utf8(text[start..end]) orelse return;
        var row: usize = 0;
        while (row < ordinary_count and self.marks[(row + 1) * self.fields.len] < start + at) row += 1;
        return self.fail(row, text, start + at, "not valid UTF-8", .{});
    }

    /// `row` counts from those that `row_count` knows.
    fn fail(
        self: *Rows,
        row: usize,
        text: []const u8,
        at: usize,
        comptime format: []const u8,
        arguments: anytype,
    ) Error {
        interrupt.describe_row(self.row_count + row);
        return self.origin.fail(text, at, format, arguments);
    }

    // ---- ordinary rows, column by column ----

    fn convert(self: *Rows, text: []const u8, wanted: Wanted, count: u32) Error!void {
        switch (wanted.builder.type.tag) {
            .utf8 => try self.convert_text(text, wanted, count),
            .decimal => if (wanted.builder.type.layout() == .i64) {
                try self.convert_fixed(.decimal, i64, text, wanted, count);
            } else {
                try self.convert_any(text, wanted, count);
            },
            inline .i64, .i32, .f64, .date, .timestamp => |tag| {
                try self.convert_fixed(tag, values.Value(tag), text, wanted, count);
            },
            else => try self.convert_any(text, wanted, count),
        }
    }

    /// Where a field of an ordinary row lies.
    const Fields = struct {
        text: []const u8,
        marks: []const u32,
        column_count: usize,
        column: usize,
        is_last: bool,
        quote: u8,

        /// With its quotes.
        inline fn at(self: *const Fields, row: usize) []const u8 {
            const start = csv_marks.field_start(self.marks, self.column_count, row, self.column);
            var end = csv_marks.field_end(self.marks, self.column_count, row, self.column);
            if (self.is_last and end > start and self.text[end - 1] == '\r' and self.text[end] == '\n') end -= 1;
            return self.text[start..end];
        }

        fn span(self: *const Fields, row: usize) Span {
            const field = self.at(row);
            const start = @intFromPtr(field.ptr) - @intFromPtr(self.text.ptr);
            const is_quoted = self.quote != 0 and field.len > 0 and field[0] == self.quote;
            if (!is_quoted) return .{ .start = start, .end = start + field.len };
            const inner = field[1 .. field.len - 1];
            return .{
                .start = start + 1,
                .end = start + 1 + inner.len,
                .quoted = true,
                .escaped = std.mem.indexOfScalar(u8, inner, self.quote) != null,
            };
        }
    };

    fn fields_of(self: *const Rows, text: []const u8, column: usize) Fields {
        return .{
            .text = text,
            .marks = self.marks,
            .column_count = self.fields.len,
            .column = column,
            .is_last = column + 1 == self.fields.len,
            .quote = self.dialect.quote,
        };
    }

    fn convert_fixed(
        self: *Rows,
        comptime tag: schema.TypeTag,
        comptime T: type,
        text: []const u8,
        wanted: Wanted,
        count: u32,
    ) Error!void {
        const builder = wanted.builder;
        const fields = self.fields_of(text, wanted.column);
        const first = builder.row_count;
        const target = try builder.extend(self.gpa, T, count);
        // A word for NULL may look like a value.
        const quick = self.null_strings.len == 0;
        for (target, 0..) |*slot, row| {
            if (quick) if (values.parse_usual(tag, builder.type, text, fields.at(row))) |value| {
                slot.* = value;
                continue;
            };
            slot.* = try self.unusual_value(tag, T, text, wanted, fields.span(row), row) orelse null_value: {
                try builder.mark_null(self.gpa, first + @as(u32, @intCast(row)));
                break :null_value 0;
            };
        }
    }

    /// null: NULL.
    fn unusual_value(
        self: *Rows,
        comptime tag: schema.TypeTag,
        comptime T: type,
        text: []const u8,
        wanted: Wanted,
        span: Span,
        row: usize,
    ) Error!?T {
        const bytes = text[span.start..span.end];
        if (bytes.len == 0 or self.is_null_string(bytes)) return null;
        return builder_module.parse_value(tag, T, wanted.builder.type, infer.trim(bytes)) orelse
            self.fail_value(row, text, wanted, span);
    }

    fn convert_text(self: *Rows, text: []const u8, wanted: Wanted, count: u32) Error!void {
        const builder = wanted.builder;
        const fields = self.fields_of(text, wanted.column);
        try builder.reserve(self.gpa, count);
        for (0..count) |row| {
            const field = fields.at(row);
            const is_plain = field.len > 0 and self.null_strings.len == 0 and field[0] != self.dialect.quote;
            if (is_plain)
                try builder.append_bytes(self.gpa, field)
            else
                try self.append_field(text, wanted, fields.span(row), row);
        }
    }

    fn convert_any(self: *Rows, text: []const u8, wanted: Wanted, count: u32) Error!void {
        const fields = self.fields_of(text, wanted.column);
        for (0..count) |row| try self.append_field(text, wanted, fields.span(row), row);
    }

    // ---- any row, field by field ----

    /// Steps over blank lines, or reads one row; false when it is not all here.
    fn read_odd(self: *Rows, text: []const u8, request: Request, progress: *Progress) Error!bool {
        const at = progress.position;
        var tokenizer: Tokenizer = try .init(text, at, self.dialect);
        tokenizer.origin = self.origin;
        if (self.fields.len > 1 and try self.skip_blank_lines(&tokenizer, request, progress)) return true;
        if (tokenizer.hit_end and !request.is_last or tokenizer.at_end()) return false;
        interrupt.describe_row(self.row_count);
        tokenizer_module.read_record(&tokenizer, self.fields.len, self, note_span) catch |err| {
            if (err != error.InvalidFormat or request.is_last or !tokenizer.hit_end) return err;
            interrupt.forget();
            return false;
        };
        interrupt.forget();
        if (tokenizer.hit_end and !request.is_last) return false;
        if (self.checks_text) try self.check_text(text, at, tokenizer.position, 0);
        for (self.wanted) |wanted| try self.append_field(text, wanted, self.spans[wanted.column], 0);
        self.row_count += 1;
        progress.row_count += 1;
        progress.position = tokenizer.position;
        return true;
    }

    /// Whether there were any. The last one of a text that goes on may be half of a CR LF.
    fn skip_blank_lines(self: *Rows, tokenizer: *Tokenizer, request: Request, progress: *Progress) Error!bool {
        _ = self;
        const start = progress.position;
        while (progress.position < request.limit and try tokenizer.skip_blank_line()) {
            if (tokenizer.hit_end and !request.is_last) break;
            progress.position = tokenizer.position;
        }
        return progress.position > start;
    }

    fn note_span(self: *Rows, column: usize, span: Span) Error!void {
        self.spans[column] = span;
    }

    fn append_field(self: *Rows, text: []const u8, wanted: Wanted, span: Span, row: usize) Error!void {
        const builder = wanted.builder;
        const bytes = text[span.start..span.end];
        if (builder.type.tag == .utf8) {
            if (!span.quoted and self.is_null_text(bytes)) return builder.append_null(self.gpa);
            if (span.escaped) return self.append_escaped(builder, bytes);
            return builder.append_bytes(self.gpa, bytes);
        }
        if (bytes.len == 0 or self.is_null_string(bytes)) return builder.append_null(self.gpa);
        if (try builder.append_text(self.gpa, infer.trim(bytes))) return;
        return self.fail_value(row, text, wanted, span);
    }

    fn fail_value(self: *Rows, row: usize, text: []const u8, wanted: Wanted, span: Span) Error {
        interrupt.describe_column(wanted.number);
        return self.fail(row, text, span.start, "column {s}: '{s}' is not {s}", .{
            infer.excerpt(self.fields[wanted.column].name),
            infer.excerpt(text[span.start..span.end]),
            wanted.builder.type.described(),
        });
    }

    fn is_null_string(self: *const Rows, bytes: []const u8) bool {
        for (self.null_strings) |string| if (std.mem.eql(u8, string, bytes)) return true;
        return false;
    }

    /// Given NULL strings replace the default, the empty field.
    fn is_null_text(self: *const Rows, bytes: []const u8) bool {
        return if (self.null_strings.len == 0) bytes.len == 0 else self.is_null_string(bytes);
    }

    fn append_escaped(self: *Rows, builder: *Builder, text: []const u8) Error!void {
        var pieces: tokenizer_module.Pieces = .{ .text = text, .dialect = self.dialect };
        while (pieces.next()) |piece| {
            try interrupt.check();
            try builder.append_piece(self.gpa, piece);
        }
        try builder.end_bytes(self.gpa);
    }
};
