//! The pages of a column chunk as rows, for people who look into files. Only headers are read.
//!
//!     bytes   header, page, header, page, … cut anywhere
//!
//! Every header that is whole becomes a row, whether its page is whole or not: the next bytes are
//! then those from `offset + header_size + compressed_size` of the last row on, so that a caller may
//! skip what lies between. No row at all: the first header is longer than the bytes.
//!
//!     type, encoding     numbers of parquet.thrift; encoding is NULL for an index page
//!     offset             of the header, from the first byte
//!     header_size, compressed_size (of the page alone), uncompressed_size
//!     values             entries of a data page with its NULLs, or of a dictionary; NULL for an index page
//!     rows               only v2 headers say
//!     nulls              only v2 headers, and v1 headers with statistics
//!     crc                NULL where there is none
//!
//! All are int64. Nothing relates pages to each other or to their chunk: that is the caller's.
const std = @import("std");
const bitmap = @import("../../core/bitmap.zig");
const column_module = @import("../../core/column.zig");
const interrupt = @import("../../core/interrupt.zig");
const page_header = @import("page_header.zig");
const Arena = @import("../../core/arena.zig").Arena;
const Batch = column_module.Batch;
const Column = column_module.Column;
const PageHeader = page_header.PageHeader;

pub const Error = error{ InvalidFormat, OutOfMemory, Cancelled, TooLarge };

pub const names = @typeInfo(Row).@"struct".field_names;

const Row = struct {
    type: ?i64,
    encoding: ?i64,
    offset: ?i64,
    header_size: ?i64,
    compressed_size: ?i64,
    uncompressed_size: ?i64,
    values: ?i64,
    rows: ?i64,
    nulls: ?i64,
    crc: ?i64,
};

/// Headers between two looks at the cancel byte.
const interrupt_pages = 1024;

pub fn list(arena: std.mem.Allocator, bytes: []const u8) Error!Batch {
    var rows: std.ArrayList(Row) = .empty;
    var offset: u64 = 0;
    while (offset < bytes.len) {
        if (rows.items.len % interrupt_pages == 0) try interrupt.check();
        const header = page_header.read(bytes[@intCast(offset)..]) catch |reason| switch (reason) {
            error.Truncated => break,
            error.InvalidFormat => {
                interrupt.describe_offset(offset);
                return error.InvalidFormat;
            },
        };
        try rows.append(arena, row_of(offset, &header));
        // A header takes at least one byte, so this ends.
        offset += @as(u64, header.header_size) + header.compressed_size;
    }
    interrupt.forget(); // a header that was cut may have complained before
    return batch_of(arena, rows.items);
}

fn row_of(offset: u64, header: *const PageHeader) Row {
    var row: Row = .{
        .type = @backingInt(header.page),
        .encoding = null,
        .offset = @intCast(offset),
        .header_size = header.header_size,
        .compressed_size = header.compressed_size,
        .uncompressed_size = header.uncompressed_size,
        .values = null,
        .rows = null,
        .nulls = null,
        .crc = if (header.crc) |crc| crc else null,
    };
    switch (header.page) {
        .index => {},
        inline .data, .data_v2, .dictionary => |page| {
            row.encoding = @backingInt(page.encoding);
            row.values = page.value_count;
        },
    }
    switch (header.page) {
        .index, .dictionary => {},
        .data => |page| row.nulls = known_nulls(page.statistics.values.null_count, page.value_count),
        .data_v2 => |page| {
            row.rows = page.row_count;
            row.nulls = page.null_count;
        },
    }
    return row;
}

/// Statistics are advice: a count that cannot be is none.
fn known_nulls(null_count: ?u64, value_count: u32) ?i64 {
    const count = null_count orelse return null;
    return if (count <= value_count) @intCast(count) else null;
}

fn batch_of(arena: std.mem.Allocator, rows: []const Row) Error!Batch {
    const count = std.math.cast(u32, rows.len) orelse return error.TooLarge;
    const columns = try arena.alloc(Column, names.len);
    inline for (columns, names) |*column, name| {
        const values = try arena.alignedAlloc(i64, .fromByteUnits(column_module.alignment), count);
        const valid = try arena.alloc(u8, bitmap.size(count));
        @memset(valid, 0);
        for (rows, values, 0..) |*row, *value, index| {
            value.* = @field(row, name) orelse 0;
            if (@field(row, name) != null) bitmap.set(valid.ptr, index);
        }
        column.* = .{ .type = .of(.i64), .row_count = count, .validity = valid, .data = std.mem.sliceAsBytes(values) };
    }
    return .{ .row_count = count, .columns = columns };
}

const testing = std.testing;

/// Type 0, 100 and 4 bytes, crc; 10 values, plain, statistics with 3 NULLs.
const test_data = [_]u8{
    0x15, 0x00, 0x15, 0xC8, 0x01, 0x15, 0x08, 0x15, 0x01, 0x1C, 0x15, 0x14,
    0x15, 0x00, 0x15, 0x06, 0x15, 0x06, 0x1C, 0x36, 0x06, 0x00, 0x00, 0x00,
};
/// Type 2, 20 and 2 bytes; 5 values, plain.
const test_dictionary = [_]u8{ 0x15, 0x04, 0x15, 0x28, 0x15, 0x04, 0x4C, 0x15, 0x0A, 0x15, 0x00, 0x00, 0x00 };
/// Type 3, 20 and 10 bytes; 5 values, 1 NULL, 4 rows, rle_dictionary.
const test_v2 = [_]u8{
    0x15, 0x06, 0x15, 0x28, 0x15, 0x14, 0x5C, 0x15, 0x0A, 0x15, 0x02, 0x15,
    0x08, 0x15, 0x10, 0x15, 0x04, 0x15, 0x06, 0x12, 0x00, 0x00,
};
/// Type 1, nothing inside.
const test_index = [_]u8{ 0x15, 0x02, 0x15, 0x00, 0x15, 0x00, 0x00 };

const test_chunk = test_dictionary ++ [_]u8{ 1, 2 } ++ test_data ++
    [_]u8{ 1, 2, 3, 4 } ++ test_index ++ test_v2 ++ [_]u8{ 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 };

fn expect_row(batch: Batch, row: usize, expected: [names.len]?i64) !void {
    for (batch.columns, expected) |*column, value| {
        try testing.expectEqual(value != null, column.is_valid(row));
        if (value) |number| try testing.expectEqual(number, column.values(i64)[row]);
    }
}

test "every kind of page" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const batch = try list(arena.allocator(), &test_chunk);
    try testing.expectEqual(4, batch.row_count);
    try expect_row(batch, 0, .{ 2, 0, 0, test_dictionary.len, 2, 20, 5, null, null, null });
    const data = test_dictionary.len + 2;
    try expect_row(batch, 1, .{ 0, 0, data, test_data.len, 4, 100, 10, null, 3, 0xFFFF_FFFF });
    const index = data + test_data.len + 4;
    try expect_row(batch, 2, .{ 1, null, index, test_index.len, 0, 0, null, null, null, null });
    try expect_row(batch, 3, .{ 3, 8, index + test_index.len, test_v2.len, 10, 20, 5, 4, 1, null });
}

test "bytes may end anywhere" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const whole = try list(arena.allocator(), &test_chunk);
    for (0..test_chunk.len) |size| {
        const batch = try list(arena.allocator(), test_chunk[0..size]);
        var expected: u32 = 0;
        for (whole.columns[2].values(i64), whole.columns[3].values(i64)) |offset, header_size| {
            if (offset + header_size <= size) expected += 1;
        }
        try testing.expectEqual(expected, batch.row_count);
        try testing.expectEqual(0, interrupt.control.detail.message_size);
    }
}

test "what is no header says where it stands" {
    defer interrupt.forget();
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    var bytes = test_chunk;
    bytes[test_dictionary.len + 2 + 1] = 0x7E; // an unknown type of page
    try testing.expectError(error.InvalidFormat, list(arena.allocator(), &bytes));
    try testing.expectEqual(test_dictionary.len + 2, interrupt.control.detail.offset);
}

test "mutated chunks are listed or refused" {
    defer interrupt.forget();
    var prng: std.Random.DefaultPrng = .init(9);
    const random = prng.random();
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    for (0..5000) |_| {
        _ = arena.reset(.retain_capacity);
        var bytes = test_chunk;
        for (0..random.intRangeAtMost(u8, 1, 4)) |_| bytes[random.uintLessThan(usize, bytes.len)] = random.int(u8);
        const batch = list(arena.allocator(), &bytes) catch continue;
        for (batch.columns[2].values(i64)) |offset| try testing.expect(offset < bytes.len);
    }
}
