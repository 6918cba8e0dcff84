//! Casts to text and from it: loops over columns. print.zig and parse.zig know the single values.
//!
//! Rows that are NULL are left empty in texts, and may hold any text: they never fail.
const std = @import("std");
const bitmap = @import("../core/bitmap.zig");
const cast = @import("cast.zig");
const column_module = @import("../core/column.zig");
const interrupt = @import("../core/interrupt.zig");
const parse = @import("parse.zig");
const parse_time = @import("parse_time.zig");
const print = @import("print.zig");
const schema = @import("../core/schema.zig");
const text = @import("text.zig");
const Arena = @import("../core/arena.zig").Arena;
const Column = column_module.Column;
const DataType = schema.DataType;
const Interval = @import("../core/interval.zig").Interval;
const Scalar = schema.Scalar;
const Writer = text.Writer;

pub const Error = cast.ColumnError;

/// Whether a type has a form as text, which also reads back.
pub fn is_printable(data_type: DataType) bool {
    return switch (data_type.tag) {
        .null, .f32vec, .f16vec, .list, .structure, .map => false,
        else => true,
    };
}

// To text.

pub fn to_text(arena: std.mem.Allocator, column: *const Column) Error!Column {
    const size_max: u64 = switch (column.type.tag) {
        .binary, .fixed_binary => 0,
        .bool => 5,
        .i8, .u8 => 4,
        .i16, .u16 => 6,
        .i32, .u32 => 11,
        .i64, .u64 => 20,
        .i128 => print.integer_size_max,
        .f16, .f32, .f64 => print.float_size_max,
        .decimal => print.decimal_size_max,
        .date => print.date_size_max,
        .time => print.time_size_max,
        .timestamp => print.timestamp_size_max,
        .interval => print.interval_size_max,
        .null, .utf8, .f32vec, .f16vec, .list, .structure, .map => unreachable,
    };
    var writer: Writer = try .init(arena, column.row_count, size_max * @min(column.row_count, block_rows));
    var row: u32 = 0;
    while (row < column.row_count) {
        try interrupt.check();
        const end = @min(column.row_count, row + block_rows);
        try writer.reserve(size_max * (end - row));
        while (row < end) : (row += 1) {
            if (column.is_valid(row)) {
                if (size_max == 0) try writer.reserve(byte_count(column, row) * print.binary_growth);
                writer.size += print_value(column, row, writer.data[writer.size..]);
            }
            writer.end_row();
        }
    }
    return writer.finish(.of(.utf8), column.validity);
}

/// Rows for which room is made at once.
const block_rows = 1024;

fn byte_count(column: *const Column, row: usize) u64 {
    return if (column.type.tag == .binary) column.bytes_at(row).len else column.type.width;
}

inline fn print_value(column: *const Column, row: usize, target: []u8) usize {
    const data_type = column.type;
    switch (data_type.tag) {
        .bool => {
            const word: []const u8 = if (bitmap.get(column.data.ptr, row)) "true" else "false";
            @memcpy(target[0..word.len], word);
            return word.len;
        },
        .i128 => return print.integer(i128, column.values(i128)[row], target),
        .u64 => return print.unsigned(column.values(u64)[row], target),
        inline .i8, .i16, .i32, .i64, .u8, .u16, .u32 => |tag| return print.integer(
            i64,
            column.values(Scalar(@field(schema.Layout, @tagName(tag))))[row],
            target,
        ),
        .f64 => return print.float(f64, column.values(f64)[row], target),
        .f32 => return print.float(f32, column.values(f32)[row], target),
        .f16 => return print.float(f32, column.values(f16)[row], target),
        .decimal => return print.decimal(if (data_type.layout() == .i64)
            column.values(i64)[row]
        else
            column.values(i128)[row], data_type.precision, data_type.scale, target),
        .date => return print.date(column.values(i32)[row], target),
        .time => return print.time(column.values(i64)[row], data_type.unit, target),
        .timestamp => return print.timestamp(column.values(i64)[row], data_type.unit, data_type.zone.len > 0, target),
        .interval => return print.interval(column.values(Interval)[row], target),
        .binary => return print.binary(column.bytes_at(row), target),
        .fixed_binary => return print.binary(column.data[row * data_type.width ..][0..data_type.width], target),
        .null, .utf8, .f32vec, .f16vec, .list, .structure, .map => unreachable,
    }
}

// From text.

pub fn from_text(arena: std.mem.Allocator, column: *const Column, to: DataType, mode: cast.Mode) Error!Column {
    if (to.tag == .binary) return to_binary(arena, column, mode);
    var result: Column = .{ .type = to, .row_count = column.row_count, .validity = column.validity };
    const size = if (to.layout() == .bits) bitmap.size(column.row_count) else to.value_size() * column.row_count;
    const data = try arena.alignedAlloc(u8, .@"16", std.math.cast(usize, size) orelse return error.OutOfMemory);
    @memset(data, 0);
    result.data = data;
    var failures: Failures = .{ .arena = arena, .column = column, .to = to, .mode = mode };
    for (0..column.row_count) |row| {
        if (row % block_rows == 0) try interrupt.check();
        if (!column.is_valid(row)) continue;
        if (!parse_value(column.bytes_at(row), to, row, data)) try failures.add(row);
    }
    if (failures.validity) |bits| result.validity = bits;
    return result;
}

/// What did not fit: an error, or a NULL.
const Failures = struct {
    arena: std.mem.Allocator,
    column: *const Column,
    to: DataType,
    mode: cast.Mode,
    /// The column's, without the rows that failed; null before the first.
    validity: ?[]u8 = null,

    fn add(self: *Failures, row: usize) Error!void {
        @branchHint(.cold);
        if (self.mode == .strict) {
            const bytes = self.column.bytes_at(row);
            const shown = bytes[0..text.skip_characters(bytes, 0, 60)];
            interrupt.describe(
                "the text '{s}'{s} is not a value of type {s}",
                .{ shown, if (shown.len < bytes.len) "…" else "", @tagName(self.to.tag) },
            );
            return error.OutOfRange;
        }
        if (self.validity == null) {
            const size = bitmap.size(self.column.row_count);
            const bits = try self.arena.alignedAlloc(u8, .@"16", size);
            if (self.column.validity) |known| @memcpy(bits, known[0..size]) else @memset(bits, 0xFF);
            self.validity = bits;
        }
        bitmap.clear(self.validity.?.ptr, row);
    }
};

/// Writes the value of a row; false when the text is none.
fn parse_value(bytes: []const u8, to: DataType, row: usize, data: []align(column_module.alignment) u8) bool {
    switch (to.tag) {
        .bool => if (parse.boolean(bytes) orelse return false) bitmap.set(data.ptr, row),
        inline .i8, .i16, .i32, .i64, .i128, .u8, .u16, .u32, .u64 => |tag| {
            const T = Scalar(@field(schema.Layout, @tagName(tag)));
            put(T, data, row, parse.integer(T, bytes) orelse return false);
        },
        inline .f16, .f32, .f64 => |tag| {
            const T = Scalar(@field(schema.Layout, @tagName(tag)));
            put(T, data, row, parse.float(T, bytes) orelse return false);
        },
        .decimal => {
            const value = parse.decimal(bytes, to.precision, to.scale) orelse return false;
            if (to.layout() == .i64) put(i64, data, row, @intCast(value)) else put(i128, data, row, value);
        },
        .date => put(i32, data, row, parse_time.date(bytes) orelse return false),
        .time => {
            const value = parse_time.time(bytes) orelse return false;
            put(i64, data, row, cast.rescale_one(if (to.unit == .nanosecond) value else @divFloor(
                value,
                1000,
            ), if (to.unit == .nanosecond) .nanosecond else .microsecond, to.unit) orelse return false);
        },
        .timestamp => {
            const moment = parse_time.timestamp(bytes, to.zone.len > 0) orelse return false;
            const value = if (to.unit == .nanosecond)
                moment.in_nanoseconds()
            else
                cast.rescale_one(moment.microseconds, .microsecond, to.unit);
            put(i64, data, row, value orelse return false);
        },
        .interval => put(Interval, data, row, parse_time.interval(bytes) orelse return false),
        .fixed_binary => {
            if (parse.binary(bytes, null) != to.width) return false;
            _ = parse.binary(bytes, data[row * to.width ..][0..to.width]);
        },
        .null, .utf8, .binary, .f32vec, .f16vec, .list, .structure, .map => unreachable,
    }
    return true;
}

inline fn put(comptime T: type, data: []align(column_module.alignment) u8, row: usize, value: T) void {
    @as([*]T, @ptrCast(data.ptr))[row] = value;
}

fn to_binary(arena: std.mem.Allocator, column: *const Column, mode: cast.Mode) Error!Column {
    var failures: Failures = .{ .arena = arena, .column = column, .to = .of(.binary), .mode = mode };
    var writer: Writer = try .init(arena, column.row_count, column.offsets[column.row_count] - column.offsets[0]);
    for (0..column.row_count) |row| {
        if (row % block_rows == 0) try interrupt.check();
        if (column.is_valid(row)) {
            if (parse.binary(column.bytes_at(row), writer.data[writer.size..])) |size|
                writer.size += size
            else
                try failures.add(row);
        }
        writer.end_row();
    }
    return writer.finish(.of(.binary), failures.validity orelse column.validity);
}

const testing = std.testing;

fn text_column(arena: std.mem.Allocator, values: []const []const u8) !Column {
    var writer: Writer = try .init(arena, @intCast(values.len), 0);
    for (values) |value| {
        try writer.reserve(value.len);
        writer.put(value);
        writer.end_row();
    }
    return writer.finish(.of(.utf8), null);
}

test "texts that read back as themselves, for every type" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const gpa = arena.allocator();
    const Case = struct { DataType, []const []const u8 };
    for ([_]Case{
        .{ .of(.bool), &.{ "true", "false" } },
        .{ .of(.i8), &.{ "-128", "0", "127" } },
        .{ .of(.u64), &.{ "18446744073709551615", "0" } },
        .{ .of(.i128), &.{"-170141183460469231731687303715884105728"} },
        .{ .of(.f64), &.{ "0.1", "1e+16", "nan", "-inf", "-0.0" } },
        .{ .of(.f32), &.{ "0.1", "3.4028235e+38" } },
        .{ .{ .tag = .decimal, .precision = 38, .scale = 10 }, &.{ "-0.0000000001", "1.5000000000" } },
        .{ .{ .tag = .decimal, .precision = 4, .scale = 2 }, &.{ "-0.01", "99.99" } },
        .{ .of(.date), &.{ "2020-02-29", "0045-03-15 (BC)", "infinity", "-infinity" } },
        .{ .{ .tag = .time, .unit = .microsecond }, &.{ "01:02:03.5", "24:00:00" } },
        .{ .{ .tag = .timestamp, .unit = .nanosecond }, &.{ "2020-02-29 23:59:59.123456789", "infinity" } },
        .{ .{ .tag = .timestamp, .unit = .second, .zone = "UTC" }, &.{"2020-02-29 23:59:59+00"} },
        .{ .of(.interval), &.{ "1 year 2 months -3 days 04:05:06.5", "00:00:00" } },
        .{ .of(.binary), &.{ "a\\x00\\xFF", "" } },
        .{ .{ .tag = .fixed_binary, .width = 2 }, &.{ "\\x00a", "bc" } },
    }) |case| {
        const texts = try text_column(gpa, case[1]);
        const values = try cast.cast_column(gpa, &texts, case[0], .strict);
        const back = try cast.cast_column(gpa, &values, .of(.utf8), .strict);
        for (case[1], 0..) |wanted, row| try testing.expectEqualStrings(wanted, back.bytes_at(row));
    }
}

test "what does not fit is an error that names it, or NULL" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    defer interrupt.forget();
    const gpa = arena.allocator();
    var texts = try text_column(gpa, &.{ "1", "größer", "3" });
    const tried = try cast.cast_column(gpa, &texts, .of(.i32), .try_cast);
    try testing.expectEqual(0b101, tried.validity.?[0] & 0b111);
    try testing.expectError(error.OutOfRange, cast.cast_column(gpa, &texts, .of(.i32), .strict));
    const detail = &interrupt.control.detail;
    try testing.expect(std.mem.find(u8, detail.message[0..detail.message_size], "größer") != null);
    try testing.expectError(error.NotSupported, cast.cast_column(gpa, &texts, .of(.null), .try_cast));
    texts.validity = &.{0b101};
    const strict = try cast.cast_column(gpa, &texts, .of(.i32), .strict);
    try testing.expectEqual(3, strict.values(i32)[2]);
}
