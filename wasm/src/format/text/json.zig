//! JSON text in memory → typed columns, one row per object.
//!
//! The text is an array of objects, objects on lines of their own, or one object; anything else at
//! the top is `InvalidFormat`, and so is everything RFC 8259 does not allow, with the one exception
//! that Python makes: the numbers NaN, Infinity and -Infinity. The text is gone over twice without
//! building a tree of values: once to unite the types of all values (json_layout.zig), once to append the
//! values to `Builder`s (json_rows.zig). Files of lines are read by the same two, from their head and in pieces.
//!
//! Columns are the keys of all rows in the order they first appear; a missing key is NULL, of a key
//! that comes twice in one object the last value counts (its type must also hold the others).
//!
//!     only null           null
//!     true, false         bool
//!     integers            i64; u64 when some are past i64, all fit and none is negative; else f64
//!     other numbers       f64, also together with integers
//!     strings             utf8; date, time or timestamp when asked to and every one reads as such
//!     arrays              list of what all elements have in common
//!     objects             structure of the keys of all of them
//!     a mixture           utf8: the JSON text of each value, strings without their quotes
//!     objects without keys, or with more than 65,535     utf8, as a mixture
//!
//! Where we differ from DuckDB 2.0, on purpose:
//!
//!   - integers past i64 are u64 or f64 (there: HUGEINT up to 64 unsigned bits, then f64)
//!   - a mixture is text whose strings lose their quotes (there: JSON)
//!   - duplicate keys are allowed (there: an error), a trailing comma is not
//!   - rows that are null, numbers or arrays are refused, and so are two objects on one line
//!   - objects never become a MAP; rows without any key give rows of no columns
//!   - names that differ in case only are left as they are (there: A, a_1)
//!   - a byte order mark is skipped; spaces around a date make it text; a date among timestamps is
//!     midnight (there: text)
//!
//! With columns given, other keys are read over, and a value that does not fit is `InvalidFormat`.
const std = @import("std");
const abi = @import("../../abi.zig");
const builder_module = @import("builder.zig");
const column_module = @import("../../core/column.zig");
const failure = @import("failure.zig");
const infer = @import("infer.zig");
const interrupt = @import("../../core/interrupt.zig");
const json_layout = @import("json_layout.zig");
const json_rows = @import("json_rows.zig");
const rows_module = @import("rows.zig");
const schema = @import("../../core/schema.zig");
const Arena = @import("../../core/arena.zig").Arena;
const Batch = column_module.Batch;
const Builder = builder_module.Builder;
const Column = column_module.Column;
const DataType = schema.DataType;
const Field = schema.Field;
const Options = @import("options.zig").Options;
const Allocator = std.mem.Allocator;
const assert = std.debug.assert;

pub const Error = failure.Error;

pub const Reader = struct {
    gpa: Allocator,
    arena: Arena,
    text: []const u8,
    rows: json_rows.Rows,
    position: usize,
    fields: []const Field,
    builders: []Builder,
    columns: []Column,
    batch_row_limit: u32,

    /// `text` stays alive and unchanged until `deinit`; the options' bytes need not.
    pub fn init(gpa: Allocator, text: []const u8, options: Options) Error!Reader {
        if (try infer.find_invalid_utf8(text)) |offset| {
            return (failure.Origin{}).fail(text, offset, "not valid UTF-8", .{});
        }
        const steps: json_layout.Steps = try .init(text, options.json_layout);
        var arena: Arena = .init(gpa);
        errdefer arena.deinit();
        const fields = if (options.column_count > 0)
            try builder_module.read_declared(arena.allocator(), options.columns, options.column_count)
        else
            (try json_layout.find(gpa, arena.allocator(), steps, .{ .infer_types = options.infer_types })).fields;
        const builders = try arena.allocator().alloc(Builder, fields.len);
        const wanted = try arena.allocator().alloc(rows_module.Wanted, fields.len);
        for (builders, wanted, fields, 0..) |*builder, *column, field, i| {
            builder.* = try .init(arena.allocator(), field.type);
            column.* = .{ .column = @intCast(i), .builder = builder, .number = @intCast(i) };
        }
        const columns = try arena.allocator().alloc(Column, fields.len);
        const rows: json_rows.Rows = try .init(gpa, arena.allocator(), .{
            .layout = steps.layout,
            .fields = fields,
            .wanted = wanted,
        });
        return .{
            .gpa = gpa,
            .arena = arena,
            .text = text,
            .rows = rows,
            .position = steps.scanner.position,
            .fields = fields,
            .builders = builders,
            .columns = columns,
            .batch_row_limit = builder_module.batch_row_limit(fields),
        };
    }

    pub fn deinit(self: *Reader) void {
        self.rows.deinit();
        for (self.builders) |*builder| builder.deinit(self.gpa);
        self.arena.deinit();
        self.* = undefined;
    }

    /// The next rows, null when there are none left. The buffers are valid until the next call.
    pub fn next(self: *Reader) Error!?Batch {
        for (self.builders) |*builder| builder.clear();
        self.rows.begin_batch(self.position);
        const progress = try self.rows.read(self.text, .{
            .start = self.position,
            .limit = std.math.maxInt(usize),
            .is_last = true,
            .row_count_max = self.batch_row_limit,
        });
        self.position = progress.position;
        if (progress.row_count == 0) return null;
        for (self.builders, self.columns) |*builder, *column| column.* = try builder.finish(self.gpa);
        return .{ .row_count = progress.row_count, .columns = self.columns };
    }
};

/// What a text reads as, in one line: `name:type …` and then each row, nested values as JSON-like
/// text, NULL as ~.
fn render(gpa: Allocator, text: []const u8, options: Options) ![]const u8 {
    var out: std.Io.Writer.Allocating = .init(gpa);
    errdefer out.deinit();
    var reader: Reader = try .init(gpa, text, options);
    defer reader.deinit();
    for (reader.fields, 0..) |field, i| {
        if (i > 0) try out.writer.writeByte(' ');
        try out.writer.print("{s}:", .{field.name});
        try render_type(&out.writer, field.type);
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

fn render_type(writer: *std.Io.Writer, data_type: DataType) !void {
    try writer.print("{t}{s}", .{ data_type.tag, data_type.zone });
    if (data_type.children.len == 0) return;
    try writer.writeByte('(');
    for (data_type.children, 0..) |child, i| {
        if (i > 0) try writer.writeByte(' ');
        if (data_type.tag == .structure) try writer.print("{s}:", .{child.name});
        try render_type(writer, child.type);
    }
    try writer.writeByte(')');
}

fn render_value(writer: *std.Io.Writer, column: *const Column, row: usize) !void {
    if (!column.is_valid(row)) return writer.writeByte('~');
    switch (column.type.layout()) {
        .bytes => try writer.writeAll(column.bytes_at(row)),
        .bits => try writer.print("{}", .{@import("../../core/bitmap.zig").get(column.data.ptr, row)}),
        .i32 => try writer.print("{d}", .{column.values(i32)[row]}),
        .i64 => try writer.print("{d}", .{column.values(i64)[row]}),
        .u64 => try writer.print("{d}", .{column.values(u64)[row]}),
        .f64 => try writer.print("{d}", .{column.values(f64)[row]}),
        .list => {
            try writer.writeByte('[');
            for (column.offsets[row]..column.offsets[row + 1], 0..) |child_row, i| {
                if (i > 0) try writer.writeByte(',');
                try render_value(writer, &column.children[0], child_row);
            }
            try writer.writeByte(']');
        },
        .structure => {
            try writer.writeByte('{');
            for (column.children, 0..) |*child, i| {
                if (i > 0) try writer.writeByte(',');
                try render_value(writer, child, row);
            }
            try writer.writeByte('}');
        },
        else => try writer.writeByte('?'),
    }
}

fn expect_json(expected: []const u8, text: []const u8, options: Options) !void {
    const found = try render(std.testing.allocator, text, options);
    defer std.testing.allocator.free(found);
    try std.testing.expectEqualStrings(expected, found);
}

fn expect_refused(message: []const u8, offset: u64, text: []const u8, options: Options) !void {
    defer interrupt.forget();
    try std.testing.expectError(error.InvalidFormat, render(std.testing.allocator, text, options));
    const detail = &interrupt.control.detail;
    try std.testing.expectEqualStrings(message, detail.message[0..detail.message_size]);
    try std.testing.expectEqual(offset, detail.offset);
}

test "texts that DuckDB reads the same way" {
    const cases = [_][2][]const u8{
        .{ "{\"a\":1}", "a:i64 / 1" },
        .{ "{\"a\":1}\n{\"a\":2}\n", "a:i64 / 1 / 2" },
        .{ " [ {\"a\" : 1 } , {\"b\":2}\n]\n", "a:i64 b:i64 / 1|~ / ~|2" },
        .{ "[{\"a\":null}]", "a:null / ~" },
        .{ "[{\"a\":null},{\"a\":1}]", "a:i64 / ~ / 1" },
        .{ "[{\"a\":true},{\"a\":false}]", "a:bool / true / false" },
        .{ "[{\"a\":1},{\"a\":1.5}]", "a:f64 / 1 / 1.5" },
        .{ "[{\"a\":1.0}]", "a:f64 / 1" },
        .{ "[{\"a\":-0}]", "a:i64 / 0" },
        .{ "[{\"a\":1e400}]", "a:f64 / inf" },
        .{ "[{\"a\":99999999999999999999}]", "a:f64 / 100000000000000000000" },
        .{ "[{\"a\":NaN},{\"a\":Infinity},{\"a\":-Infinity}]", "a:f64 / nan / inf / -inf" },
        .{ "[{\"a\":[1,2]},{\"a\":[1.5]},{\"a\":null}]", "a:list(f64) / [1,2] / [1.5] / ~" },
        .{ "[{\"a\":[null]}]", "a:list(null) / [~]" },
        .{ "[{\"a\":[[1],[2,3]]}]", "a:list(list(i64)) / [[1],[2,3]]" },
        .{ "[{\"a\":{\"b\":1}},{\"a\":{\"c\":\"x\"}}]", "a:structure(b:i64 c:utf8) / {1,~} / {~,x}" },
        .{ "[{\"a\":{\"b\":1}},{}]", "a:structure(b:i64) / {1} / ~" },
        .{ "[{\"a\":\"2020-01-01\"}]", "a:date / 18262" },
        .{ "[{\"a\":\"2020-01-01\"},{\"a\":\"\"}]", "a:utf8 / 2020-01-01 / " },
        .{ "[{\"a\":\"2020-01-01 00:00:00\"}]", "a:timestamp / 1577836800000000" },
        .{ "[{\"a\":\"2020-01-01T00:00:00Z\"}]", "a:timestampUTC / 1577836800000000" },
        .{ "[{\"a\":\"12:00:00\"}]", "a:time / 43200000000" },
        .{ "[{\"a\":\"true\"},{\"a\":\"1\"}]", "a:utf8 / true / 1" },
        .{ "[{\"a\":\"1\"}]", "a:utf8 / 1" },
        .{ "{\"a\":1}\n\n{\"a\":2}", "a:i64 / 1 / 2" },
        .{ "{\"a\":\n1}\n{\"a\":2}", "a:i64 / 1 / 2" },
        .{ "[{\"a\":\"\\u0041\\n\\\"\\/\\\\\\ud83d\\ude00é\"}]", "a:utf8 / A\n\"/\\😀é" },
        .{ "[{\"\\u0061\":1},{\"a\":2}]", "a:i64 / 1 / 2" },
    };
    for (cases) |case| try expect_json(case[1], case[0], .{});
}

test "texts that we read our own way" {
    const cases = [_][2][]const u8{
        .{ "", "" },
        .{ " \n", "" },
        .{ "[]", "" },
        .{ "[{},{}]", " / /" },
        .{ "\xEF\xBB\xBF[{\"a\":1}]", "a:i64 / 1" },
        .{
            "[{\"a\":9223372036854775808},{\"a\":18446744073709551615}]",
            "a:u64 / 9223372036854775808 / 18446744073709551615",
        },
        .{ "[{\"a\":9223372036854775808},{\"a\":-1}]", "a:f64 / 9223372036854776000 / -1" },
        .{ "[{\"a\":9223372036854775808},{\"a\":0.5}]", "a:f64 / 9223372036854776000 / 0.5" },
        .{ "[{\"a\":1},{\"a\":\"x\"},{\"a\":null}]", "a:utf8 / 1 / x / ~" },
        .{ "[{\"a\":true},{\"a\":1}]", "a:utf8 / true / 1" },
        .{ "[{\"a\":[]}]", "a:list(null) / []" },
        .{ "[{\"a\":[1,\"x\\n\", {\"b\": 2}]}]", "a:list(utf8) / [1,x\n,{\"b\": 2}]" },
        .{ "[{\"a\":[1, 2]},{\"a\":1}]", "a:utf8 / [1, 2] / 1" },
        .{ "[{\"a\":{}},{\"a\":{ }}]", "a:utf8 / {} / { }" },
        .{ "[{\"a\":[{},{\"b\":1}]}]", "a:list(structure(b:i64)) / [{~},{1}]" },
        .{ "[{\"a\":1,\"a\":2}]", "a:i64 / 2" },
        .{
            "[{\"a\":[1,2],\"b\":{\"c\":1,\"c\":null},\"a\":[3]},{\"a\":null,\"a\":[]}]",
            "a:list(i64) b:structure(c:i64) / [3]|{~} / []|~",
        },
        .{ "[{\"A\":1,\"a\":2}]", "A:i64 a:i64 / 1|2" },
        .{ "[{\"a\":\" 2020-01-01\"}]", "a:utf8 /  2020-01-01" },
        .{ "[{\"\":1}]", ":i64 / 1" },
    };
    for (cases) |case| try expect_json(case[1], case[0], .{});
}

test "options change the reading" {
    try expect_json("a:utf8 / 2020-01-01", "[{\"a\":\"2020-01-01\"}]", .{ .infer_types = false });
    try expect_json("a:i64 / 1", "{\"a\":1}\n", .{ .json_layout = .lines });
    try expect_refused("line 1: expected '['", 0, "{\"a\":1}", .{ .json_layout = .array });
    try expect_refused("line 1: expected an object", 0, "[{\"a\":1}]", .{ .json_layout = .lines });
}

test "columns that the caller names" {
    // a: i32, b: list of f64, c: utf8
    const options: Options = .{ .column_count = 3, .columns = "\x01\x00a\x06\x01\x00b\x18\x00\x01\x00c\x02" };
    const text = "{\"c\":[1, 2],\"x\":[{}],\"a\":\"7\"}\n{\"b\":[1,null,2.5]}\n{\"a\":8,\"c\":1.50}";
    try expect_json("a:i32 b:list(f64) c:utf8 / 7|~|[1, 2] / ~|[1,~,2.5]|~ / 8|~|1.50", text, options);
    try expect_refused("line 1: expected an int32, found 1.5}", 5, "{\"a\":1.5}", options);
    try expect_refused("line 2: expected an int32, found [1]}", 6, "{\"a\":\n[1]}"[0..6] ++ "[1]}", options);
    try expect_refused("line 1: expected a list, found 1}", 5, "{\"b\":1}", options);
    const twice: Options = .{ .column_count = 2, .columns = "\x01\x00a\x06\x01\x00a\x06" };
    try std.testing.expectError(error.InvalidFormat, render(std.testing.allocator, "", twice));
    const binary: Options = .{ .column_count = 1, .columns = "\x01\x00a\x11" };
    try std.testing.expectError(error.NotSupported, render(std.testing.allocator, "", binary));
    interrupt.forget();
}

test "what is wrong is said with its offset" {
    const cases = [_]struct { []const u8, u64, []const u8 }{
        .{ "[1,2]", 1, "line 1: expected an object" },
        .{ "1", 0, "line 1: expected an object" },
        .{ "\"x\"", 0, "line 1: expected an object" },
        .{ "[{\"a\":1},null]", 9, "line 1: expected an object" },
        .{ "[{\"a\":1},]", 9, "line 1: expected an object" },
        .{ "[{\"a\":1,}]", 8, "line 1: expected a key" },
        .{ "[{\"a\":[1,]}]", 9, "line 1: expected a value" },
        .{ "[{\"a\":1}", 8, "line 1: expected ',' or ']'" },
        .{ "[", 1, "line 1: expected an object" },
        .{ "[{\"a\":1}] x", 10, "line 1: text follows the array" },
        .{ "[{\"a\":1}]\n[{\"a\":2}]", 10, "line 2: text follows the array" },
        .{ "{\"a\":1} {\"a\":2}", 8, "line 1: expected the end of the line" },
        .{ "{\"a\":1}{\"a\":2}", 7, "line 1: expected the end of the line" },
        .{ "{\"a\":1}\n{\"a\":", 13, "line 2: expected a value" },
        .{ "{\"a\":1}\n5", 8, "line 2: expected an object" },
        .{ "{\"a\" 1}", 5, "line 1: expected ':'" },
        .{ "{\"a\":1 \"b\":2}", 7, "line 1: expected ',' or '}'" },
        .{ "{a:1}", 1, "line 1: expected a key" },
        .{ "{\"a\":01}", 5, "line 1: a number starts with 0" },
        .{ "{\"a\":-}", 6, "line 1: expected a digit" },
        .{ "{\"a\":1.}", 7, "line 1: expected a digit" },
        .{ "{\"a\":1e+}", 8, "line 1: expected a digit" },
        .{ "{\"a\":.5}", 5, "line 1: expected a value" },
        .{ "{\"a\":+1}", 5, "line 1: expected a value" },
        .{ "{\"a\":0x1}", 6, "line 1: expected ',' or '}'" },
        .{ "{\"a\":tru}", 5, "line 1: expected a value" },
        .{ "{\"a\":nulll}", 9, "line 1: expected ',' or '}'" },
        .{ "{\"a\":-Inf}", 6, "line 1: expected a value" },
        .{ "{\"a\":'x'}", 5, "line 1: expected a value" },
        .{ "{\"a\":\"x", 5, "line 1: a string is not closed" },
        .{ "{\"a\":\"x\\", 7, "line 1: an unknown escape in a string" },
        .{ "{\"a\":\"\\x\"}", 6, "line 1: an unknown escape in a string" },
        .{ "{\"a\":\"\\u12g4\"}", 6, "line 1: \\u needs four digits" },
        .{ "{\"a\":\"\\u12", 6, "line 1: \\u needs four digits" },
        .{ "{\"a\":\"\\ud800\"}", 6, "line 1: half of a surrogate pair" },
        .{ "{\"a\":\"\\ud800\\u0041\"}", 6, "line 1: half of a surrogate pair" },
        .{ "{\"a\":\"\\udc00\"}", 6, "line 1: half of a surrogate pair" },
        .{ "{\"a\":\"x\ty\"}", 7, "line 1: a control character in a string" },
        .{ "{\"a\":\"01234567890123456789\x00\"}", 26, "line 1: a control character in a string" },
        .{ "{\"a\":\"\xFF\"}", 6, "line 1: not valid UTF-8" },
        .{ "{\"a\":1}\n/* x */", 8, "line 2: expected an object" },
    };
    for (cases) |case| try expect_refused(case[2], case[1], case[0], .{});
}

test "depth is bounded" {
    const gpa = std.testing.allocator;
    defer interrupt.forget();
    const max = abi.type_depth_max;
    inline for (.{ max - 1, max, 10_000 }) |count| {
        const open: [count]u8 = @splat('[');
        const close: [count]u8 = @splat(']');
        const text = "{\"a\":" ++ open ++ close ++ "}";
        const skipped: Options = .{ .column_count = 1, .columns = "\x01\x00b\x01" };
        const as_text: Options = .{ .column_count = 1, .columns = "\x01\x00a\x02" };
        for ([_]Options{ .{}, skipped, as_text }) |options| {
            if (count < max) {
                gpa.free(try render(gpa, text, options));
            } else {
                try std.testing.expectError(error.InvalidFormat, render(gpa, text, options));
            }
        }
    }
}

test "limits: keys, columns, digits" {
    defer interrupt.forget();
    const gpa = std.testing.allocator;
    const digits: [infer.number_size_max]u8 = @splat('1');
    gpa.free(try render(gpa, "{\"a\":" ++ digits ++ "}", .{}));
    try std.testing.expectError(error.TooLarge, render(gpa, "{\"a\":1" ++ digits ++ "}", .{}));
    const key: [65_536]u8 = @splat('k');
    try std.testing.expectError(error.TooLarge, render(gpa, "{\"" ++ key ++ "\":1}", .{}));
    var text: std.Io.Writer.Allocating = .init(gpa);
    defer text.deinit();
    for (0..65_536) |i| try text.writer.print("{c}\"{d}\":0", .{ @as(u8, if (i == 0) '{' else ','), i });
    try text.writer.writeAll("}");
    try std.testing.expectError(error.TooLarge, Reader.init(gpa, text.written(), .{}));
    const nested = try std.fmt.allocPrint(gpa, "{{\"a\":{s}}}", .{text.written()});
    defer gpa.free(nested);
    var reader: Reader = try .init(gpa, nested, .{});
    defer reader.deinit();
    try std.testing.expectEqual(.utf8, reader.fields[0].type.tag);
    try std.testing.expectEqualStrings(text.written(), (try reader.next()).?.columns[0].bytes_at(0));
}

test "batches are cut by rows and by size" {
    const gpa = std.testing.allocator;
    var text: std.Io.Writer.Allocating = .init(gpa);
    defer text.deinit();
    for (0..70_000) |i| try text.writer.print("{{\"i\":{d},\"l\":[{d}]}}\n", .{ i, i });
    var reader: Reader = try .init(gpa, text.written(), .{});
    defer reader.deinit();
    var row: i64 = 0;
    for ([_]u32{ 65_536, 4_464 }) |row_count| {
        const batch = (try reader.next()).?;
        try std.testing.expectEqual(row_count, batch.row_count);
        for (0..row_count) |i| {
            try std.testing.expectEqual(row, batch.columns[0].values(i64)[i]);
            try std.testing.expectEqual(row, batch.columns[1].children[0].values(i64)[i]);
            row += 1;
        }
    }
    try std.testing.expectEqual(null, try reader.next());
    text.clearRetainingCapacity();
    const long: [200_000]u8 = @splat('x');
    for (0..100) |_| try text.writer.print("{{\"s\":\"{s}\"}}\n", .{&long});
    var large: Reader = try .init(gpa, text.written(), .{});
    defer large.deinit();
    try std.testing.expectEqual(42, (try large.next()).?.row_count);
    try std.testing.expectEqual(42, (try large.next()).?.row_count);
    try std.testing.expectEqual(16, (try large.next()).?.row_count);
}

test "cancellation is seen" {
    interrupt.control.cancel = 1;
    defer interrupt.control.cancel = 0;
    try std.testing.expectError(error.Cancelled, Reader.init(std.testing.allocator, "[{\"a\":1}]", .{}));
}
