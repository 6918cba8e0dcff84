//! CSV text in memory → typed columns.
//!
//! RFC 4180, read the way DuckDB 2.0 reads it. The text is gone over twice: once to find each
//! column's type from every value (so that a late value never breaks a guess; csv_layout.zig), once to
//! build the columns (csv_rows.zig). Files are read by the same two, from their head and in pieces.
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
const builder_module = @import("builder.zig");
const column_module = @import("../../core/column.zig");
const csv_rows = @import("csv_rows.zig");
const failure = @import("failure.zig");
const interrupt = @import("../../core/interrupt.zig");
const options_module = @import("options.zig");
const rows_module = @import("rows.zig");
const schema = @import("../../core/schema.zig");
const Arena = @import("../../core/arena.zig").Arena;
const Batch = column_module.Batch;
const Builder = builder_module.Builder;
const Column = column_module.Column;
const Field = schema.Field;
const Layout = @import("csv_layout.zig").Layout;
const Options = options_module.Options;
const Rows = csv_rows.Rows;
const Allocator = std.mem.Allocator;
const assert = std.debug.assert;

pub const Error = failure.Error;

pub const Reader = struct {
    gpa: Allocator,
    arena: Arena,
    text: []const u8,
    rows: Rows,
    position: usize,
    fields: []const Field,
    builders: []Builder,
    columns: []Column,
    batch_row_limit: u32,

    /// `text` stays alive and unchanged until `deinit`; the options' bytes need not.
    pub fn init(gpa: Allocator, text: []const u8, options: Options) Error!Reader {
        var arena: Arena = .init(gpa);
        errdefer arena.deinit();
        const layout: Layout = try .find(arena.allocator(), text, options, .{});
        const fields = layout.fields;
        const builders = try arena.allocator().alloc(Builder, fields.len);
        const wanted = try arena.allocator().alloc(rows_module.Wanted, fields.len);
        for (builders, wanted, fields, 0..) |*builder, *column, field, i| {
            builder.* = try .init(arena.allocator(), field.type);
            column.* = .{ .column = @intCast(i), .builder = builder, .number = @intCast(i) };
        }
        errdefer for (builders) |*builder| builder.deinit(gpa);
        const batch_row_limit = builder_module.batch_row_limit(fields);
        const row_count: u32 = @intCast(@min(layout.record_count + 1, batch_row_limit));
        for (builders) |*builder| try builder.reserve(gpa, row_count);
        const rows: Rows = try .init(gpa, arena.allocator(), .{
            .dialect = layout.dialect,
            .null_strings = layout.null_strings,
            .fields = fields,
            .wanted = wanted,
        });
        const columns = try arena.allocator().alloc(Column, fields.len);
        return .{
            .gpa = gpa,
            .arena = arena,
            .text = text,
            .rows = rows,
            .position = layout.rows_start,
            .fields = fields,
            .builders = builders,
            .columns = columns,
            .batch_row_limit = batch_row_limit,
        };
    }

    pub fn deinit(self: *Reader) void {
        for (self.builders) |*builder| builder.deinit(self.gpa);
        self.arena.deinit();
        self.* = undefined;
    }

    /// The next rows, null when there are none left. The buffers are valid until the next call.
    pub fn next(self: *Reader) Error!?Batch {
        for (self.builders) |*builder| builder.clear();
        var row_count: u32 = 0;
        // A long run of blank lines may reach the limit without a row.
        while (row_count == 0) {
            const progress = try self.rows.read(self.text, .{
                .start = self.position,
                .limit = self.position +| builder_module.batch_size_max,
                .is_last = true,
                .row_count_max = self.batch_row_limit,
            });
            self.position = progress.position;
            row_count = progress.row_count;
            if (row_count == 0 and self.position >= self.text.len) return null;
        }
        for (self.builders, self.columns) |*builder, *column| column.* = try builder.finish(self.gpa);
        return .{ .row_count = row_count, .columns = self.columns };
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
    try expect_refused("line 2: column x: 'zwei' is not an int32", 4, "1,2\nzwei,3\n", options);
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
