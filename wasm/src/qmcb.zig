//! QMCB, the one columnar wire format: between engine and host, threads, spill files, Spark tasks.
//!
//! Little endian, nothing is aligned or padded. One batch:
//!
//!     ┌────────────┬───────────┬──────────────┐
//!     │ u32 magic  │ u32 rows  │ u16 columns  │                                  10 bytes
//!     ├────────────┴──┬────────┴────┬─────────┴──┬───────────────┐
//!     │ u16 name size │ name, UTF-8 │ u8 tag     │ u8 has_nulls  │  × columns    the headers
//!     ├───────────────┴──────┬──────┴────────────┴─┬─────────────┴────┐
//!     │ null bitmap,         │ type parameters     │ body(type, rows) │  × columns    the sections
//!     │ if has_nulls         │                     │                  │
//!     └──────────────────────┴─────────────────────┴──────────────────┘
//!
//! magic 0x42434D51, the letters "QMCB". A flag such as has_nulls is 0 or 1, nothing else.
//! null bitmap: ceil(rows / 8) bytes, least significant bit first, **bit set = NULL**. It is left
//! out when no row is NULL, and for the type null, which needs none (a reader skips one that is
//! there). Unused bits of a last byte, here and in bool, are written 0 and not looked at.
//!
//! type parameters (core/schema.zig owns them; without the tag, which stands in the header):
//!
//!     decimal       u8 precision 1…38, i8 scale −38…38     time       u8 unit
//!     fixed_binary  u32 width                              timestamp  u8 unit, u8 size, zone
//!     f32vec f16vec u32 dimension                          list       type of items
//!     structure     u16 count, count × (u16 size, name, type)
//!     map           type of keys, type of values           type       u8 tag, its parameters
//!     all others    nothing                                at most 32 types deep below a column
//!     unit          0 second, 1 millisecond, 2 microsecond, 3 nanosecond
//!
//! body(type, rows), by tag. The first eight are the format's base and never change:
//!
//!      0 f64          rows × 8                     8 i8            rows × 1
//!      1 i64          rows × 8                     9 i16           rows × 2
//!      2 utf8         text, below                 10 u8            rows × 1
//!      3 bool         ceil(rows / 8), packed      11 u16           rows × 2
//!      4 f32vec       rows × dimension × 4        12 u32           rows × 4
//!      5 null         nothing                     13 u64           rows × 8
//!      6 i32          rows × 4                    14 f16           rows × 2
//!      7 f32          rows × 4                    15 i128          rows × 16, two's complement
//!     16 decimal      rows × 8 when precision ≤ 18, else rows × 16: the unscaled integer
//!     17 binary       as utf8, any bytes          18 fixed_binary  rows × width
//!     19 date         rows × 4: i32 days since 1970-01-01
//!     20 time         rows × 8: i64 since midnight
//!     21 timestamp    rows × 8: i64 since 1970-01-01T00:00:00 (UTC if there is a zone)
//!     22 interval     rows × 16: i32 months, i32 days, i64 nanoseconds
//!     23 f16vec       rows × dimension × 2
//!     24 list, 26 map items, below                25 structure     fields, below
//!
//!     text:   ┌───────────────┬────────────────────────┬─────────────────────┐
//!             │ u32 text size │ u32 offset × (rows + 1)│ text size bytes     │
//!             └───────────────┴────────────────────────┴─────────────────────┘
//!     items:  ┌────────────────────────┬────────────────────────────────┐
//!             │ u32 offset × (rows + 1)│ child(item type, last offset)  │
//!             └────────────────────────┴────────────────────────────────┘
//!     fields: ┌────────────────────────┐
//!             │ child(field type, rows)│ × fields
//!             └────────────────────────┘
//!     child:  ┌───────────────┬───────────────────────────┬──────────────────┐
//!             │ u8 has_nulls  │ null bitmap, if has_nulls │ body(type, rows) │
//!             └───────────────┴───────────────────────────┴──────────────────┘
//!
//! The item type of a map is structure(key, value). Offsets begin with 0, never fall and end with
//! the text size. All of a utf8 column's text is valid UTF-8 and no offset splits a character.
//! After the last section the batch ends.
//!
//! Limits: 2^32 − 1 rows, 65,535 columns, 65,535 bytes a name, 4 GiB a section.
//!
//! Types of no width (null, empty structures, vectors of dimension 0) carry no bytes per row, so a
//! few bytes may honestly claim four billion rows: nothing here allocates per row for them, and
//! whoever reads a decoded batch does well to remember it.
const std = @import("std");
const builtin = @import("builtin");
const abi = @import("abi.zig");
const bitmap = @import("core/bitmap.zig");
const column_file = @import("core/column.zig");
const interrupt = @import("core/interrupt.zig");
const schema = @import("core/schema.zig");
const utf8 = @import("core/utf8.zig");
const Arena = @import("core/arena.zig").Arena;
const Cursor = @import("core/cursor.zig").Cursor;
const Batch = column_file.Batch;
const Column = column_file.Column;
const DataType = schema.DataType;
const TypeTag = schema.TypeTag;
const assert = std.debug.assert;

pub const Error = error{ InvalidFormat, OutOfMemory, Cancelled };

pub const name_size_max = 0xFFFF;
/// Bytes of one section: bitmap, parameters and body.
pub const section_size_max: u64 = 1 << 32;

const header_size = 10;
/// Of one column, without its name.
const column_header_size = 4;

comptime {
    // Values and offsets are copied whole.
    assert(builtin.cpu.arch.endian() == .little);
}

// ---- encode ----

/// Bytes `encode` will write. What passes here can be encoded.
pub fn encoded_size(names: []const []const u8, batch: Batch) error{TooLarge}!u64 {
    assert(names.len == batch.columns.len);
    if (batch.columns.len > abi.column_count_max) return error.TooLarge;
    var total: u64 = header_size;
    for (names, batch.columns) |name, *column| {
        assert(column.row_count == batch.row_count);
        if (name.len > name_size_max) return error.TooLarge;
        try check_type_fits(column.type, 0);
        const section = bitmap_size(column, batch.row_count) +
            schema.type_parameters_size(column.type) + body_size(column, batch.row_count);
        if (section > section_size_max) return error.TooLarge;
        total += column_header_size + name.len + section;
    }
    return total;
}

/// Fills `target`, which has exactly `encoded_size` bytes.
pub fn encode(target: []u8, names: []const []const u8, batch: Batch) void {
    var writer: Writer = .{ .target = target };
    writer.put_int(u32, abi.qmcb_magic);
    writer.put_int(u32, batch.row_count);
    writer.put_int(u16, @intCast(batch.columns.len));
    for (names, batch.columns) |name, *column| {
        writer.put_int(u16, @intCast(name.len));
        writer.put(name);
        writer.put_int(u8, @backingInt(column.type.tag));
        writer.put_int(u8, @intFromBool(column.needs_bitmap(batch.row_count)));
    }
    for (batch.columns) |*column| {
        if (column.needs_bitmap(batch.row_count)) writer.put_bitmap(column.validity.?, batch.row_count);
        writer.position += schema.write_type_parameters(target[writer.position..], column.type);
        writer.put_body(column, batch.row_count);
    }
    assert(writer.position == target.len);
}

/// The wire has fewer bits for some counts than memory has.
fn check_type_fits(data_type: DataType, depth: u32) error{TooLarge}!void {
    if (depth > abi.type_depth_max) return error.TooLarge;
    if (data_type.zone.len > 0xFF or data_type.children.len > 0xFFFF) return error.TooLarge;
    for (data_type.children) |child| {
        if (child.name.len > name_size_max) return error.TooLarge;
        try check_type_fits(child.type, depth + 1);
    }
}

fn bitmap_size(column: *const Column, rows: u32) u64 {
    return if (column.needs_bitmap(rows)) bitmap.size(rows) else 0;
}

fn offsets_size(rows: u32) u64 {
    return (@as(u64, rows) + 1) * 4;
}

/// `rows` may be fewer than the column has: a list may use only the first items of its child.
fn body_size(column: *const Column, rows: u32) u64 {
    assert(rows <= column.row_count);
    if (rows == 0) return empty_body_size(column.type);
    return switch (column.type.layout()) {
        .none => 0,
        .bits => bitmap.size(rows),
        .bytes => 4 + offsets_size(rows) + column.offsets[rows],
        .list => offsets_size(rows) + child_size(&column.children[0], column.offsets[rows]),
        .structure => blk: {
            var total: u64 = 0;
            for (column.children) |*child| total += child_size(child, rows);
            break :blk total;
        },
        else => rows * column.type.value_size(),
    };
}

fn child_size(child: *const Column, rows: u32) u64 {
    return 1 + bitmap_size(child, rows) + body_size(child, rows);
}

/// A body without rows depends on its type alone, and is all zeros: no text, first offsets, no
/// NULLs. So a column without rows need not have offsets or children.
fn empty_body_size(data_type: DataType) u64 {
    return switch (data_type.layout()) {
        .bytes => 4 + offsets_size(0),
        .list => offsets_size(0) + 1 + switch (data_type.tag) {
            .map => empty_fields_size(data_type),
            else => empty_body_size(data_type.children[0].type),
        },
        .structure => empty_fields_size(data_type),
        else => 0,
    };
}

fn empty_fields_size(data_type: DataType) u64 {
    var total: u64 = 0;
    for (data_type.children) |child| total += 1 + empty_body_size(child.type);
    return total;
}

const Writer = struct {
    target: []u8,
    position: usize = 0,

    fn take(self: *Writer, size: usize) []u8 {
        const start = self.position;
        self.position += size;
        return self.target[start..self.position];
    }

    fn put(self: *Writer, bytes: []const u8) void {
        @memcpy(self.take(bytes.len), bytes);
    }

    fn put_int(self: *Writer, comptime T: type, value: T) void {
        std.mem.writeInt(T, self.take(@sizeOf(T))[0..@sizeOf(T)], value, .little);
    }

    /// The engine's bits say valid, the wire's say NULL.
    fn put_bitmap(self: *Writer, validity: []const u8, rows: u32) void {
        const bits = self.take(bitmap.size(rows));
        bitmap.invert(bits, validity);
        clear_tail(bits, rows);
    }

    fn put_body(self: *Writer, column: *const Column, rows: u32) void {
        if (rows == 0) return @memset(self.take(@intCast(empty_body_size(column.type))), 0);
        switch (column.type.layout()) {
            .none => {},
            .bits => {
                const bits = self.take(bitmap.size(rows));
                @memcpy(bits, column.data[0..bits.len]);
                clear_tail(bits, rows);
            },
            .bytes => {
                self.put_int(u32, column.offsets[rows]);
                self.put_offsets(column, rows);
                self.put(column.data[0..column.offsets[rows]]);
            },
            .list => {
                assert(column.children.len == 1);
                self.put_offsets(column, rows);
                self.put_child(&column.children[0], column.offsets[rows]);
            },
            .structure => {
                assert(column.children.len == column.type.children.len);
                for (column.children) |*child| self.put_child(child, rows);
            },
            else => self.put(column.data[0..@intCast(rows * column.type.value_size())]),
        }
    }

    fn put_offsets(self: *Writer, column: *const Column, rows: u32) void {
        assert(column.offsets[0] == 0);
        self.put(std.mem.sliceAsBytes(column.offsets[0 .. @as(usize, rows) + 1]));
    }

    fn put_child(self: *Writer, child: *const Column, rows: u32) void {
        const nulls = child.needs_bitmap(rows);
        self.put_int(u8, @intFromBool(nulls));
        if (nulls) self.put_bitmap(child.validity.?, rows);
        self.put_body(child, rows);
    }
};

fn clear_tail(bits: []u8, rows: u32) void {
    if (bits.len > 0) bits[bits.len - 1] &= bitmap.tail_mask(rows);
}

// ---- decode ----

pub const Decoded = struct {
    names: []const []const u8,
    batch: Batch,
};

/// Everything in the result is copied into `arena`; `bytes` may go. Nothing is believed before it
/// is checked, and what is allocated is paid for by bytes that are there.
pub fn decode(arena: std.mem.Allocator, bytes: []const u8) Error!Decoded {
    @setRuntimeSafety(true);
    var decoder: Decoder = .{ .arena = arena, .cursor = .init(bytes) };
    return decoder.read_batch() catch |failure| {
        if (failure == error.InvalidFormat and !decoder.described) {
            return decoder.fail(decoder.cursor.position, "QMCB: the bytes end too early or hold an unknown value", .{});
        }
        return failure;
    };
}

const Decoder = struct {
    arena: std.mem.Allocator,
    cursor: Cursor,
    described: bool = false,

    fn fail(self: *Decoder, offset: u64, comptime format: []const u8, arguments: anytype) error{InvalidFormat} {
        @branchHint(.cold);
        self.described = true;
        interrupt.describe(format, arguments);
        interrupt.describe_offset(offset);
        return error.InvalidFormat;
    }

    fn read_batch(self: *Decoder) Error!Decoded {
        @setRuntimeSafety(true);
        const magic = try self.cursor.read_int(u32);
        if (magic != abi.qmcb_magic) return self.fail(0, "QMCB: wrong magic 0x{X:0>8}", .{magic});
        const rows = try self.cursor.read_int(u32);
        const count = try self.cursor.read_int(u16);
        if (count > self.cursor.remaining() / column_header_size) {
            return self.fail(8, "QMCB: {d} columns do not fit the bytes", .{count});
        }
        const names = try self.arena.alloc([]const u8, count);
        const columns = try self.arena.alloc(Column, count);
        const nulls = try self.arena.alloc(bool, count);
        for (names, columns, nulls, 0..) |*name, *column, *flag, index| {
            errdefer interrupt.describe_column(@intCast(index));
            name.* = try self.arena.dupe(u8, try schema.read_name(&self.cursor));
            column.* = .{ .type = .of(try self.cursor.read_enum(TypeTag)), .row_count = rows };
            flag.* = try self.cursor.read_flag();
        }
        for (columns, nulls, 0..) |*column, flag, index| {
            errdefer interrupt.describe_column(@intCast(index));
            column.* = try self.read_section(column.type.tag, rows, flag);
        }
        if (self.cursor.remaining() != 0) {
            return self.fail(self.cursor.position, "QMCB: {d} bytes after the last column", .{self.cursor.remaining()});
        }
        return .{ .names = names, .batch = .{ .row_count = rows, .columns = columns } };
    }

    fn read_section(self: *Decoder, tag: TypeTag, rows: u32, nulls: bool) Error!Column {
        @setRuntimeSafety(true);
        const start = self.cursor.position;
        const validity = try self.read_validity(rows, nulls);
        const borrowed = try schema.read_type_parameters(&self.cursor, self.arena, tag, 0);
        // Names and zones still point into the input.
        const owned = borrowed.zone.len > 0 or borrowed.children.len > 0;
        const data_type = if (owned) try borrowed.clone(self.arena) else borrowed;
        const column = try self.read_body(data_type, rows, validity);
        if (self.cursor.position - start > section_size_max) {
            return self.fail(start, "QMCB: a column is larger than 4 GiB", .{});
        }
        return column;
    }

    fn read_child(self: *Decoder, data_type: DataType, rows: u32) Error!Column {
        @setRuntimeSafety(true);
        const nulls = try self.cursor.read_flag();
        const validity = try self.read_validity(rows, nulls);
        return self.read_body(data_type, rows, validity);
    }

    /// A bitmap in which no row is NULL comes back as no bitmap.
    fn read_validity(self: *Decoder, rows: u32, nulls: bool) Error!?[]const u8 {
        @setRuntimeSafety(true);
        if (!nulls) return null;
        const bits = try self.cursor.read_bytes(bitmap.size(rows));
        if (none_set(bits, rows)) return null;
        const validity = try self.arena.alignedAlloc(u8, .@"16", bits.len);
        bitmap.invert(validity, bits);
        return validity;
    }

    /// Recursion is bounded: `data_type` was read with its depth checked.
    fn read_body(self: *Decoder, data_type: DataType, rows: u32, validity: ?[]const u8) Error!Column {
        @setRuntimeSafety(true);
        try interrupt.check();
        var column: Column = .{ .type = data_type, .row_count = rows, .validity = validity };
        switch (data_type.layout()) {
            .none => column.validity = null,
            .bits => column.data = try self.read_data(bitmap.size(rows)),
            .bytes => try self.read_text(&column),
            .list => try self.read_items(&column),
            .structure => column.children = try self.read_fields(data_type, rows),
            else => {
                // Four billion rows of four billion floats pass even 64 bits.
                const size = std.math.mul(u64, rows, data_type.value_size()) catch
                    return self.fail(self.cursor.position, "QMCB: values do not fit the bytes", .{});
                column.data = try self.read_data(size);
            },
        }
        return column;
    }

    fn read_data(self: *Decoder, size: u64) Error![]align(column_file.alignment) const u8 {
        @setRuntimeSafety(true);
        if (size > self.cursor.remaining()) {
            return self.fail(self.cursor.position, "QMCB: {d} bytes of values wanted, {d} left", .{
                size,
                self.cursor.remaining(),
            });
        }
        const source = try self.cursor.read_bytes(size);
        const target = try self.arena.alignedAlloc(u8, .@"16", source.len);
        @memcpy(target, source);
        return target;
    }

    fn read_text(self: *Decoder, column: *Column) Error!void {
        @setRuntimeSafety(true);
        const start = self.cursor.position;
        const size = try self.cursor.read_int(u32);
        column.offsets = try self.read_offsets(column.row_count);
        const last = column.offsets[column.row_count];
        if (last != size)
            return self.fail(start, "QMCB: text of {d} bytes, but the last offset is {d}", .{ size, last });
        const text_start = self.cursor.position;
        column.data = try self.read_data(size);
        if (column.type.tag == .utf8) try self.check_text(column, text_start);
    }

    fn read_items(self: *Decoder, column: *Column) Error!void {
        @setRuntimeSafety(true);
        column.offsets = try self.read_offsets(column.row_count);
        const child_type = switch (column.type.tag) {
            .map => column_file.map_entries_type(column.type),
            else => column.type.children[0].type,
        };
        const children = try self.arena.alloc(Column, 1);
        children[0] = try self.read_child(child_type, column.offsets[column.row_count]);
        column.children = children;
    }

    fn read_fields(self: *Decoder, data_type: DataType, rows: u32) Error![]const Column {
        @setRuntimeSafety(true);
        // Each field has at least its flag.
        if (data_type.children.len > self.cursor.remaining()) return error.InvalidFormat;
        const children = try self.arena.alloc(Column, data_type.children.len);
        for (children, data_type.children) |*child, field| child.* = try self.read_child(field.type, rows);
        return children;
    }

    fn read_offsets(self: *Decoder, rows: u32) Error![]const u32 {
        @setRuntimeSafety(true);
        const start = self.cursor.position;
        const source = try self.cursor.read_bytes(offsets_size(rows));
        const offsets = try self.arena.alignedAlloc(u32, .@"16", source.len / 4);
        @memcpy(std.mem.sliceAsBytes(offsets), source);
        if (offsets[0] != 0) return self.fail(start, "QMCB: the first offset is {d}, not 0", .{offsets[0]});
        var first: usize = 0;
        while (first < rows) : (first += interrupt.block_rows) {
            try interrupt.check();
            const last = @min(@as(usize, rows), first + interrupt.block_rows);
            if (!never_falls(offsets[first .. last + 1])) {
                return self.fail(start + first * 4, "QMCB: offsets fall", .{});
            }
        }
        return offsets;
    }

    fn check_text(self: *Decoder, column: *const Column, start: usize) Error!void {
        @setRuntimeSafety(true);
        if (try utf8.find_invalid(column.data, column.offsets, 0)) |position| {
            return self.fail(start + position, "QMCB: text is not valid UTF-8, or an offset splits a character", .{});
        }
    }
};

fn none_set(bits: []const u8, rows: u32) bool {
    if (bits.len == 0) return true;
    for (bits[0 .. bits.len - 1]) |byte| if (byte != 0) return false;
    return bits[bits.len - 1] & bitmap.tail_mask(rows) == 0;
}

fn never_falls(offsets: []const u32) bool {
    // No early exit, so that the loop runs in lanes.
    var falls = false;
    for (offsets[0 .. offsets.len - 1], offsets[1..]) |a, b| falls = falls or b < a;
    return !falls;
}

// ---- tests ----

const testing = std.testing;

fn encode_alloc(names: []const []const u8, batch: Batch) ![]u8 {
    const bytes = try testing.allocator.alloc(u8, @intCast(try encoded_size(names, batch)));
    encode(bytes, names, batch);
    return bytes;
}

/// The batch encodes to `golden`, and `golden` decodes to something that encodes the same.
fn expect_golden(golden: []const u8, names: []const []const u8, batch: Batch) !void {
    const bytes = try encode_alloc(names, batch);
    defer testing.allocator.free(bytes);
    try testing.expectEqualSlices(u8, golden, bytes);
    try expect_same_again(bytes);
}

fn expect_same_again(bytes: []const u8) !void {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const decoded = try decode(arena.allocator(), bytes);
    const again = try encode_alloc(decoded.names, decoded.batch);
    defer testing.allocator.free(again);
    try testing.expectEqualSlices(u8, bytes, again);
}

fn expect_invalid(bytes: []const u8) !void {
    defer interrupt.forget();
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    try testing.expectError(error.InvalidFormat, decode(arena.allocator(), bytes));
    try testing.expect(interrupt.control.detail.message_size > 0);
    try testing.expect(interrupt.control.detail.offset <= bytes.len);
}

/// Values as the aligned bytes a column keeps.
fn data_of(comptime T: type, comptime items: []const T) []align(16) const u8 {
    const Box = struct {
        const value: [items.len]T align(16) = items[0..items.len].*;
    };
    return std.mem.sliceAsBytes(@as([]align(16) const T, &Box.value));
}

fn one(column: Column) Batch {
    const Box = struct {
        var columns: [1]Column = undefined;
    };
    Box.columns[0] = column;
    return .{ .row_count = column.row_count, .columns = &Box.columns };
}

/// Three rows of one column named x, which encode to `section` after its tag.
fn expect_golden_section(tag_and_section: []const u8, column: Column) !void {
    const head = "QMCB" ++ "\x03\x00\x00\x00" ++ "\x01\x00" ++ "\x01\x00x";
    var golden: [128]u8 = undefined;
    @memcpy(golden[0..head.len], head);
    @memcpy(golden[head.len..][0..tag_and_section.len], tag_and_section);
    try expect_golden(golden[0 .. head.len + tag_and_section.len], &.{"x"}, one(column));
}

test "golden: the eight base tags" {
    try expect_golden_section("\x00\x00" ++
        "\x00\x00\x00\x00\x00\x00\xf8\x3f" ++
        "\x00\x00\x00\x00\x00\x00\x00\xc0" ++
        "\x00\x00\x00\x00\x00\x00\x00\x00", .{
        .type = .of(.f64),
        .row_count = 3,
        .data = data_of(f64, &.{ 1.5, -2, 0 }),
    });
    // Row 1 is NULL: the wire says 0b010, the engine 0b101 and whatever in the unused bits.
    try expect_golden_section("\x01\x01" ++ "\x02" ++
        "\x01\x00\x00\x00\x00\x00\x00\x00" ++
        "\x00\x00\x00\x00\x00\x00\x00\x00" ++
        "\xff\xff\xff\xff\xff\xff\xff\xff", .{
        .type = .of(.i64),
        .row_count = 3,
        .validity = "\xad",
        .data = data_of(i64, &.{ 1, 0, -1 }),
    });
    try expect_golden_section("\x02\x00" ++ "\x05\x00\x00\x00" ++
        "\x00\x00\x00\x00\x02\x00\x00\x00\x02\x00\x00\x00\x05\x00\x00\x00" ++ "hi\xe2\x82\xac", .{
        .type = .of(.utf8),
        .row_count = 3,
        .data = data_of(u8, "hi€"),
        .offsets = &.{ 0, 2, 2, 5 },
    });
    try expect_golden_section("\x03\x00" ++ "\x05", .{
        .type = .of(.bool),
        .row_count = 3,
        .data = data_of(u8, &.{0xFD}),
    });
    try expect_golden_section("\x04\x00" ++ "\x02\x00\x00\x00" ++
        "\x00\x00\x80\x3f\x00\x00\x00\x40" ++
        "\x00\x00\x40\x40\x00\x00\x80\x40" ++
        "\x00\x00\xa0\x40\x00\x00\xc0\x40", .{
        .type = .{ .tag = .f32vec, .width = 2 },
        .row_count = 3,
        .data = data_of(f32, &.{ 1, 2, 3, 4, 5, 6 }),
    });
    try expect_golden_section("\x05\x00", .{ .type = .of(.null), .row_count = 3 });
    // A bitmap in which every row is valid is not written.
    try expect_golden_section("\x06\x00" ++ "\x01\x00\x00\x00\xfe\xff\xff\xff\xff\xff\xff\x7f", .{
        .type = .of(.i32),
        .row_count = 3,
        .validity = "\x07",
        .data = data_of(i32, &.{ 1, -2, 0x7FFF_FFFF }),
    });
    try expect_golden_section("\x07\x00" ++ "\x00\x00\x00\x3f\x00\x00\x80\x7f\x00\x00\x00\x80", .{
        .type = .of(.f32),
        .row_count = 3,
        .data = data_of(f32, &.{ 0.5, std.math.inf(f32), -0.0 }),
    });
}

test "golden: bitmap before vector dimension, two columns, no columns" {
    const rows_of = "\x01\x00\x00\x00";
    try expect_golden("QMCB" ++ rows_of ++ "\x02\x00" ++ "\x01\x00a\x04\x01" ++ "\x02\x00\xc3\xa4\x05\x00" ++
        "\x01" ++ "\x01\x00\x00\x00" ++ "\x00\x00\x00\x00", &.{ "a", "ä" }, .{ .row_count = 1, .columns = &.{
        .{ .type = .{ .tag = .f32vec, .width = 1 }, .row_count = 1, .validity = "\x00", .data = data_of(f32, &.{0}) },
        .{ .type = .of(.null), .row_count = 1 },
    } });
    try expect_golden("QMCB" ++ "\xff\xff\xff\xff" ++ "\x00\x00", &.{}, .{ .row_count = 0xFFFF_FFFF, .columns = &.{} });
}

const list_of_i16: DataType = .{ .tag = .list, .children = &.{.{ .name = "item", .type = .of(.i16) }} };
const map_of_text: DataType = .{ .tag = .map, .children = &.{
    .{ .name = "key", .type = .of(.utf8) },
    .{ .name = "value", .type = .of(.i8) },
} };

const map_column: Column = .{ .type = map_of_text, .row_count = 2, .offsets = &.{ 0, 1, 1 }, .children = &.{
    .{ .type = column_file.map_entries_type(map_of_text), .row_count = 1, .children = &.{
        .{ .type = .of(.utf8), .row_count = 1, .offsets = &.{ 0, 1 }, .data = data_of(u8, "k") },
        .{ .type = .of(.i8), .row_count = 1, .validity = "\x00", .data = data_of(i8, &.{7}) },
    } },
} };

test "golden: list, map, structure" {
    const head = "QMCB" ++ "\x02\x00\x00\x00" ++ "\x01\x00" ++ "\x00\x00";
    const names: []const []const u8 = &.{""};
    // The child has a third item, a NULL, that no row uses: it stays behind.
    const list_column: Column =
        .{ .type = list_of_i16, .row_count = 2, .validity = "\x02", .offsets = &.{ 0, 0, 2 }, .children = &.{
            .{ .type = .of(.i16), .row_count = 3, .validity = "\x03", .data = data_of(i16, &.{ 5, 6, 7 }) },
        } };
    try expect_golden(head ++ "\x18\x01" ++ "\x01" ++ "\x09" ++
        "\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00" ++
        "\x00" ++ "\x05\x00\x06\x00", names, one(list_column));
    try expect_golden(head ++ "\x1a\x00" ++ "\x02\x08" ++
        "\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00" ++ "\x00" ++
        "\x00" ++ "\x01\x00\x00\x00" ++ "\x00\x00\x00\x00\x01\x00\x00\x00" ++ "k" ++
        "\x01\x01\x07", names, one(map_column));
    const pair: DataType = .{ .tag = .structure, .children = &.{
        .{ .name = "n", .type = .of(.null) },
        .{ .name = "d", .type = .{ .tag = .decimal, .precision = 18, .scale = -1 } },
    } };
    try expect_golden(head ++ "\x19\x00" ++ "\x02\x00" ++ "\x01\x00n\x05" ++ "\x01\x00d\x10\x12\xff" ++
        "\x00" ++
        "\x01\x02" ++ "\x01\x00\x00\x00\x00\x00\x00\x00" ++ "\x02\x00\x00\x00\x00\x00\x00\x00", names, one(.{
        .type = pair,
        .row_count = 2,
        .children = &.{
            .{ .type = .of(.null), .row_count = 2 },
            .{ .type = pair.children[1].type, .row_count = 2, .validity = "\x01", .data = data_of(i64, &.{ 1, 2 }) },
        },
    }));
}

test "a column without rows needs neither offsets nor children" {
    const nested: DataType = .{ .tag = .structure, .children = &.{
        .{ .name = "l", .type = list_of_i16 },
        .{ .name = "m", .type = map_of_text },
        .{ .name = "b", .type = .of(.bool) },
    } };
    for ([_]DataType{ nested, list_of_i16, map_of_text, .of(.utf8), .of(.f64) }) |data_type| {
        const bytes = try encode_alloc(&.{"e"}, one(.{ .type = data_type, .row_count = 0 }));
        defer testing.allocator.free(bytes);
        try expect_same_again(bytes);
    }
}

test "reads what it would write otherwise: idle bitmaps, unused bits, a bitmap for null" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const decoded = try decode(arena.allocator(), "QMCB" ++ "\x03\x00\x00\x00" ++ "\x03\x00" ++
        "\x00\x00\x03\x01" ++ "\x00\x00\x05\x01" ++ "\x00\x00\x08\x01" ++
        "\xf8" ++ "\xfa" ++ "\xff" ++ "\xfc" ++ "\x01\x02\x03");
    for (decoded.batch.columns[0..2]) |column| try testing.expectEqual(null, column.validity);
    try testing.expectEqual(2, decoded.batch.columns[0].data[0] & 7);
    try testing.expectEqual(1, decoded.batch.columns[2].null_count());
    try testing.expect(!decoded.batch.columns[2].is_valid(2));
}

test "rows that take no bytes may be many" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const bytes = "QMCB" ++ "\xff\xff\xff\xff" ++ "\x04\x00" ++
        "\x00\x00\x05\x00" ++ "\x00\x00\x12\x00" ++ "\x00\x00\x04\x00" ++ "\x00\x00\x19\x00" ++
        "\x00\x00\x00\x00" ++ "\x00\x00\x00\x00" ++ "\x01\x00\x00\x00\x05\x00";
    const decoded = try decode(arena.allocator(), bytes);
    try testing.expectEqual(0xFFFF_FFFF, decoded.batch.columns[3].children[0].row_count);
    try testing.expect(arena.capacity() < 64 * 1024);
    try expect_same_again(bytes);
}

test "refuses" {
    const rows = "\x02\x00\x00\x00";
    const head = "QMCB" ++ rows ++ "\x01\x00\x00\x00";
    const zero = "\x00\x00\x00\x00";
    const bad = [_][]const u8{
        "", // nothing
        "QMCC" ++ zero ++ "\x00\x00", // magic
        "QMCB" ++ zero ++ "\xff\xff" ++ "\x00\x00\x00\x00", // more columns than bytes
        "QMCB" ++ zero ++ "\x00\x00" ++ "\x00", // trailing byte
        "QMCB" ++ zero ++ "\x01\x00" ++ "\x01\x00\xff\x05\x00", // name is not UTF-8
        head ++ "\x1b\x00", // unknown tag
        head ++ "\x05\x02", // flag of 2
        head ++ "\x10\x00" ++ "\x27\x00", // precision 39
        head ++ "\x14\x00" ++ "\x04", // unit 4
        head ++ "\x02\x00" ++ "\x01\x00\x00\x00" ++ zero ++ zero ++ zero ++ "a", // last offset is not the size
        head ++ "\x02\x00" ++ "\x01\x00\x00\x00" ++ "\x01\x00\x00\x00" ++
            "\x01\x00\x00\x00" ++ "\x01\x00\x00\x00" ++ "a", // first offset
        head ++ "\x02\x00" ++ "\x01\x00\x00\x00" ++ zero ++ "\x02\x00\x00\x00" ++ "\x01\x00\x00\x00" ++ "a", // falling
        head ++ "\x02\x00" ++ "\x02\x00\x00\x00" ++ zero ++ "\x01\x00\x00\x00" ++
            "\x02\x00\x00\x00" ++ "\xc3\xa4", // split character
        head ++ "\x02\x00" ++ "\x02\x00\x00\x00" ++ zero ++ zero ++ "\x02\x00\x00\x00" ++ "\xc3\x28", // not UTF-8
        head ++ "\x04\x00" ++ "\xff\xff\xff\xff", // far more floats than bytes
        "QMCB" ++ "\xff\xff\xff\xff" ++ "\x01\x00\x00\x00" ++ "\x04\x00" ++ "\xff\xff\xff\xff", // 2^66 bytes
        "QMCB" ++ "\xff\xff\xff\xff" ++ "\x01\x00\x00\x00" ++ "\x02\x00" ++ zero ++ zero,
        head ++ "\x18\x00" ++ @as([40]u8, @splat(0x18)), // too deep
        head ++ "\x19\x00" ++ "\xff\xff", // more fields than bytes
    };
    for (bad) |bytes| try expect_invalid(bytes);
    // The same bytes are fine as binary.
    try expect_same_again(head ++ "\x11\x00" ++ "\x02\x00\x00\x00" ++
        zero ++ "\x01\x00\x00\x00" ++ "\x02\x00\x00\x00" ++ "\xc3\x28");
}

test "refuses every truncation" {
    const bytes = try encode_alloc(&.{ "m", "t", "z", "v" }, .{ .row_count = 2, .columns = &.{
        map_column,
        .{ .type = .of(.utf8), .row_count = 2, .validity = "\x01", .offsets = &.{ 0, 3, 6 }, .data = data_of(
            u8,
            "€uro",
        ) },
        .{ .type = .{ .tag = .timestamp, .unit = .nanosecond, .zone = "Asia/Tokyo" }, .row_count = 2, .data = data_of(
            i64,
            &.{ 1, 2 },
        ) },
        .{ .type = .{ .tag = .f16vec, .width = 3 }, .row_count = 2, .data = data_of(u16, &.{ 1, 2, 3, 4, 5, 6 }) },
    } });
    defer testing.allocator.free(bytes);
    try expect_same_again(bytes);
    for (0..bytes.len) |size| try expect_invalid(bytes[0..size]);
}

test encoded_size {
    const long: [65_536]u8 = @splat('n');
    const column: Column = .{ .type = .of(.null), .row_count = 1 };
    try testing.expectError(error.TooLarge, encoded_size(&.{&long}, one(column)));
    try testing.expectEqual(10 + 4 + 65_535, try encoded_size(&.{long[1..]}, one(column)));
    const names: [65_536][]const u8 = @splat("");
    const columns: [65_536]Column = @splat(column);
    try testing.expectError(error.TooLarge, encoded_size(&names, .{ .row_count = 1, .columns = &columns }));
    const zoned: DataType = .{ .tag = .timestamp, .zone = long[0..256] };
    try testing.expectError(error.TooLarge, encoded_size(&.{"z"}, one(.{ .type = zoned, .row_count = 0 })));
}

test "more than 4 GiB in a column is refused" {
    // Only lengths are looked at, so the memory need not be there.
    const wide: DataType = .{ .tag = .fixed_binary, .width = 0x4000_0000 };
    try testing.expectError(error.TooLarge, encoded_size(&.{"w"}, one(.{ .type = wide, .row_count = 4 })));
    _ = try encoded_size(&.{"w"}, one(.{ .type = wide, .row_count = 3 }));
}

test "decode stops when cancelled" {
    interrupt.control.cancel = 1;
    defer interrupt.control.cancel = 0;
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const bytes = "QMCB" ++ "\x01\x00\x00\x00" ++ "\x01\x00\x00\x00" ++ "\x05\x00";
    try testing.expectError(error.Cancelled, decode(arena.allocator(), bytes));
}
