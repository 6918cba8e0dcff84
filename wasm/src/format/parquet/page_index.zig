//! The page index of a column chunk: where its pages are and what they hold, without reading them.
//!
//!     OffsetIndex   1 list of PageLocation   (2 sizes of unencoded byte arrays: skipped)
//!     PageLocation  1 offset in the file  2 compressed size with header  3 first row of the row group
//!     ColumnIndex   1 null pages  2 min values  3 max values  4 boundary order  5 null counts
//!                   (6, 7 level histograms: skipped)  8 NaN counts
//!
//! Both have one entry per data page; the dictionary page is in neither. Pages begin with whole
//! rows. What is read here holds: first rows rise strictly from 0 and stay within the row group,
//! pages follow each other within the file, and all lists of a column index have the offset index's length.
//! An offset index whose rows do not rise is given back without pages, as if there were none: pyarrow
//! (to 26 at least) writes one where the last row of a row group goes on in another page.
//! Memory is bounded by the bytes: a location takes at least 7 of them, a bound at least one.
const std = @import("std");
const statistics = @import("statistics.zig");
const thrift = @import("thrift.zig");
const interrupt = @import("../../core/interrupt.zig");
const Arena = @import("../../core/arena.zig").Arena;
const Reader = thrift.Reader;
const Type = thrift.Type;
const assert = std.debug.assert;

pub const Error = error{ InvalidFormat, OutOfMemory, Cancelled };

/// One entry per data page.
pub const OffsetIndex = struct {
    /// Of the page's header, in the file.
    offsets: []const u64,
    /// Header included.
    compressed_sizes: []const u32,
    /// Counted from the row group's first.
    first_rows: []const u64,

    pub fn page_count(self: *const OffsetIndex) u32 {
        return @intCast(self.offsets.len);
    }

    /// Rows of a page; the last one's end with the row group's.
    pub fn row_count(self: *const OffsetIndex, page: usize, row_group_row_count: u64) u64 {
        const end = if (page + 1 < self.first_rows.len) self.first_rows[page + 1] else row_group_row_count;
        assert(end >= self.first_rows[page]);
        return end - self.first_rows[page];
    }
};

pub const BoundaryOrder = enum(u8) { unordered = 0, ascending = 1, descending = 2 };

/// One entry per data page. Bounds point into the bytes that were read.
pub const ColumnIndex = struct {
    /// Pages that hold only NULLs; their bounds are empty.
    null_pages: []const bool,
    min_values: []const []const u8,
    max_values: []const []const u8,
    boundary_order: BoundaryOrder,
    null_counts: ?[]const i64 = null,
    nan_counts: ?[]const i64 = null,

    /// What the index says of one page. `value_count` is its row count where nothing repeats, and
    /// null otherwise: the index does not say.
    pub fn evidence(self: *const ColumnIndex, page: usize, value_count: ?u64) statistics.Evidence {
        const all_null = self.null_pages[page];
        return .{
            .statistics = .{
                .min = if (all_null) null else self.min_values[page],
                .max = if (all_null) null else self.max_values[page],
                .null_count = count_at(self.null_counts, page),
                .nan_count = count_at(self.nan_counts, page),
            },
            .value_count = value_count,
            .all_null = all_null,
            .is_page = true,
        };
    }

    /// Negative counts are unknown.
    fn count_at(counts: ?[]const i64, page: usize) ?u64 {
        return std.math.cast(u64, (counts orelse return null)[page]);
    }
};

pub const Limits = struct { file_size: u64, row_count: u64 };

/// Pages between two looks at the cancel byte.
const interrupt_pages = 4096;

pub fn read_offset_index(arena: std.mem.Allocator, bytes: []const u8, limits: Limits) Error!OffsetIndex {
    var reader: Reader = .init(bytes);
    var index: ?OffsetIndex = null;
    var fields = reader.structure();
    while (try fields.next_field()) |field| switch (field.id) {
        1 => index = try read_locations(arena, &reader, field.type, limits),
        else => try reader.skip(field.type),
    };
    return index orelse invalid(&reader, "an offset index has no pages");
}

fn read_locations(arena: std.mem.Allocator, reader: *Reader, actual: Type, limits: Limits) Error!OffsetIndex {
    const count = try reader.read_list_of(actual, .structure);
    // Three fields of two bytes and the end: what a count costs its writer, before it costs us.
    if (count > reader.remaining() / 7) return invalid(reader, "an offset index has fewer pages than it says");
    if (count == 0 and limits.row_count > 0) return invalid(reader, "an offset index has no pages");
    const offsets = try arena.alloc(u64, count);
    const sizes = try arena.alloc(u32, count);
    const first_rows = try arena.alloc(u64, count);
    var is_usable = true;
    for (offsets, sizes, first_rows, 0..) |*offset, *size, *first_row, page| {
        if (page % interrupt_pages == 0) try interrupt.check();
        const location = try read_location(reader);
        if (location.offset > limits.file_size or location.size > limits.file_size - location.offset)
            return invalid(reader, "a page of the offset index is outside the file");
        // Readers give back the bytes before the page that they are at.
        if (page > 0 and location.offset < offsets[page - 1] + sizes[page - 1])
            return invalid(reader, "the pages of an offset index overlap");
        const is_rising = if (page == 0) location.first_row == 0 else location.first_row > first_rows[page - 1] and
            location.first_row < limits.row_count;
        is_usable = is_usable and is_rising;
        offset.* = location.offset;
        size.* = location.size;
        first_row.* = location.first_row;
    }
    if (!is_usable) return .{ .offsets = &.{}, .compressed_sizes = &.{}, .first_rows = &.{} };
    return .{ .offsets = offsets, .compressed_sizes = sizes, .first_rows = first_rows };
}

const Location = struct { offset: u64, size: u32, first_row: u64 };

fn read_location(reader: *Reader) Error!Location {
    var offset: ?u64 = null;
    var size: ?u32 = null;
    var first_row: ?u64 = null;
    var fields = reader.structure();
    while (try fields.next_field()) |field| switch (field.id) {
        1 => offset = try reader.read_int(u63, field.type),
        2 => size = try reader.read_int(u31, field.type),
        3 => first_row = try reader.read_int(u63, field.type),
        else => try reader.skip(field.type),
    };
    return .{
        .offset = offset orelse return invalid(reader, "a page of the offset index has no offset"),
        .size = size orelse return invalid(reader, "a page of the offset index has no size"),
        .first_row = first_row orelse return invalid(reader, "a page of the offset index has no first row"),
    };
}

/// `page_count` is the offset index's.
pub fn read_column_index(arena: std.mem.Allocator, bytes: []const u8, page_count: u32) Error!ColumnIndex {
    var reader: Reader = .init(bytes);
    var null_pages: ?[]const bool = null;
    var min_values: ?[]const []const u8 = null;
    var max_values: ?[]const []const u8 = null;
    var index: ColumnIndex =
        .{ .null_pages = &.{}, .min_values = &.{}, .max_values = &.{}, .boundary_order = .unordered };
    var fields = reader.structure();
    while (try fields.next_field()) |field| switch (field.id) {
        1 => null_pages = try read_flags(arena, &reader, field.type, page_count),
        2 => min_values = try read_bounds(arena, &reader, field.type, page_count),
        3 => max_values = try read_bounds(arena, &reader, field.type, page_count),
        // An order that is not known is none.
        4 => index.boundary_order = std.enums.fromInt(
            BoundaryOrder,
            std.math.cast(u8, try reader.read_int(i32, field.type)) orelse 0,
        ) orelse .unordered,
        5 => index.null_counts = try read_counts(arena, &reader, field.type, page_count),
        8 => index.nan_counts = try read_counts(arena, &reader, field.type, page_count),
        else => try reader.skip(field.type),
    };
    index.null_pages = null_pages orelse return invalid(&reader, "a column index has no null pages");
    index.min_values = min_values orelse return invalid(&reader, "a column index has no least values");
    index.max_values = max_values orelse return invalid(&reader, "a column index has no greatest values");
    return index;
}

fn expect_count(reader: *Reader, count: u32, page_count: u32) Error!void {
    if (count != page_count)
        return invalid(reader, "a column index and its offset index have different numbers of pages");
}

fn read_flags(arena: std.mem.Allocator, reader: *Reader, actual: Type, page_count: u32) Error![]const bool {
    const list = try reader.read_list(actual);
    try expect_count(reader, list.count, page_count);
    const flags = try arena.alloc(bool, list.count);
    for (flags, 0..) |*flag, page| {
        if (page % interrupt_pages == 0) try interrupt.check();
        flag.* = try reader.read_bool_element(list.type);
    }
    return flags;
}

fn read_bounds(arena: std.mem.Allocator, reader: *Reader, actual: Type, page_count: u32) Error![]const []const u8 {
    const count = try reader.read_list_of(actual, .binary);
    try expect_count(reader, count, page_count);
    const bounds = try arena.alloc([]const u8, count);
    for (bounds, 0..) |*bound, page| {
        if (page % interrupt_pages == 0) try interrupt.check();
        bound.* = try reader.read_binary(.binary);
    }
    return bounds;
}

fn read_counts(arena: std.mem.Allocator, reader: *Reader, actual: Type, page_count: u32) Error!?[]const i64 {
    const count = try reader.read_list_of(actual, .i64);
    // Some leave an optional list empty rather than out.
    if (count == 0) return null;
    try expect_count(reader, count, page_count);
    const counts = try arena.alloc(i64, count);
    for (counts, 0..) |*value, page| {
        if (page % interrupt_pages == 0) try interrupt.check();
        value.* = try reader.read_int(i64, .i64);
    }
    return counts;
}

fn invalid(reader: *const Reader, comptime words: []const u8) error{InvalidFormat} {
    @branchHint(.cold);
    interrupt.describe(words, .{});
    interrupt.describe_offset(reader.position);
    return error.InvalidFormat;
}

const testing = std.testing;

const test_offset_index = [_]u8{
    0x19, 0x3C, // 1: three locations
    0x16, 0x08, 0x15, 0xC8, 0x01, 0x16, 0x00, 0x00, // 4, 100, 0
    0x16, 0xD0, 0x01, 0x15, 0x64, 0x16, 0x14, 0x00, // 104, 50, 10
    0x16, 0xB4, 0x02, 0x15, 0x02, 0x16, 0x28, 0x00, // 154, 1, 20
    0x19, 0x36, 1, 2, 3, // 2: skipped
    0x00,
};

test read_offset_index {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const index = try read_offset_index(arena.allocator(), &test_offset_index, .{ .file_size = 155, .row_count = 25 });
    try testing.expectEqualSlices(u64, &.{ 4, 104, 154 }, index.offsets);
    try testing.expectEqualSlices(u32, &.{ 100, 50, 1 }, index.compressed_sizes);
    try testing.expectEqualSlices(u64, &.{ 0, 10, 20 }, index.first_rows);
    try testing.expectEqual(5, index.row_count(2, 25));
    try testing.expectEqual(10, index.row_count(0, 25));
}

test "offset indexes that cannot be" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    defer interrupt.forget();
    const limits: Limits = .{ .file_size = 155, .row_count = 25 };
    try testing.expectError(
        error.InvalidFormat,
        read_offset_index(arena.allocator(), &test_offset_index, .{ .file_size = 154, .row_count = 25 }),
    );
    for (0..test_offset_index.len) |size| {
        try testing.expectError(
            error.InvalidFormat,
            read_offset_index(arena.allocator(), test_offset_index[0..size], limits),
        );
    }
    // The size or the offset is negative; a page begins before the one in front of it ends.
    for ([_][2]u8{ .{ 14, 0x63 }, .{ 3, 0x07 }, .{ 11, 0xCE } }) |change| {
        var bytes = test_offset_index;
        bytes[change[0]] = change[1];
        try testing.expectError(error.InvalidFormat, read_offset_index(arena.allocator(), &bytes, limits));
    }
    try testing.expectError(error.InvalidFormat, read_offset_index(arena.allocator(), &.{0}, limits));
    try testing.expectError(error.InvalidFormat, read_offset_index(arena.allocator(), &.{ 0x19, 0x0C, 0x00 }, limits));
    const none = try read_offset_index(arena.allocator(), &.{ 0x19, 0x0C, 0x00 }, .{
        .file_size = 155,
        .row_count = 0,
    });
    try testing.expectEqual(0, none.page_count());
}

test "an offset index whose rows do not rise has no pages" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const past_the_end = try read_offset_index(arena.allocator(), &test_offset_index, .{
        .file_size = 155,
        .row_count = 20,
    });
    try testing.expectEqual(0, past_the_end.page_count());
    // The first row is not 0; a row repeats.
    for ([_][2]u8{ .{ 8, 2 }, .{ 16, 0 } }) |change| {
        var bytes = test_offset_index;
        bytes[change[0]] = change[1];
        const index = try read_offset_index(arena.allocator(), &bytes, .{ .file_size = 155, .row_count = 25 });
        try testing.expectEqual(0, index.page_count());
    }
}

const test_column_index = [_]u8{
    0x19, 0x32, 2, 1, 2, // 1: false, true, false
    0x19, 0x38, 1, 'a', 0, 2, 'c', 'd', // 2
    0x19, 0x38, 1, 'b', 0, 1, 'e', // 3
    0x15, 0x02, // 4: ascending
    0x19, 0x36, 0, 20, 1, // 5: 0, 10, -1
    0x39, 0x36, 0, 0, 4, // 8: 0, 0, 2
    0x00,
};

test read_column_index {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    defer interrupt.forget();
    const index = try read_column_index(arena.allocator(), &test_column_index, 3);
    try testing.expectEqualSlices(bool, &.{ false, true, false }, index.null_pages);
    try testing.expectEqual(.ascending, index.boundary_order);
    const last = index.evidence(2, 7);
    try testing.expectEqualStrings("cd", last.statistics.min.?);
    try testing.expectEqualStrings("e", last.statistics.max.?);
    try testing.expectEqual(null, last.statistics.null_count);
    try testing.expectEqual(2, last.statistics.nan_count.?);
    const middle = index.evidence(1, null);
    try testing.expect(middle.all_null and middle.statistics.min == null);
    try testing.expectEqual(10, middle.statistics.null_count.?);
    try testing.expectError(error.InvalidFormat, read_column_index(arena.allocator(), &test_column_index, 2));
    for (0..test_column_index.len) |size| {
        try testing.expectError(
            error.InvalidFormat,
            read_column_index(arena.allocator(), test_column_index[0..size], 3),
        );
    }
}

test "a mutated index is read or refused" {
    var prng: std.Random.DefaultPrng = .init(3);
    const random = prng.random();
    defer interrupt.forget();
    for (0..3000) |_| {
        var arena: Arena = .init(testing.allocator);
        defer arena.deinit();
        var offsets = test_offset_index;
        var columns = test_column_index;
        for (0..random.intRangeAtMost(u8, 1, 3)) |_| {
            offsets[random.uintLessThan(usize, offsets.len)] = random.int(u8);
            columns[random.uintLessThan(usize, columns.len)] = random.int(u8);
        }
        if (read_offset_index(arena.allocator(), &offsets, .{ .file_size = 1000, .row_count = 100 })) |index| {
            for (index.offsets, index.compressed_sizes) |offset, size| try testing.expect(offset + size <= 1000);
            for (0..index.page_count()) |page| try testing.expect(index.row_count(page, 100) <= 100);
        } else |_| {}
        const index = read_column_index(arena.allocator(), &columns, 3) catch continue;
        for (0..3) |page| _ = index.evidence(page, 10);
    }
}
