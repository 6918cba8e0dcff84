//! Page headers: the Thrift structure in front of every page of a column chunk.
//!
//!     | PageHeader (Thrift compact) | compressed_size bytes of page | next PageHeader …
//!
//!     PageHeader          1 type  2 uncompressed size  3 compressed size  4 crc
//!                         5 DataPageHeader  7 DictionaryPageHeader  8 DataPageHeaderV2
//!     DataPageHeader      1 values  2 encoding  3 definition encoding  4 repetition encoding
//!                         5 Statistics
//!     DictionaryPageHeader 1 values  2 encoding  3 sorted
//!     DataPageHeaderV2    1 values  2 NULLs  3 rows  4 encoding  5 bytes of definition levels
//!                         6 bytes of repetition levels  7 compressed (true when absent)
//!                         8 Statistics
//!     Statistics          1 max  2 min (both deprecated)  3 NULLs  4 distinct  5 max  6 min
//!                         7 max exact  8 min exact  9 NaNs
//!
//! Nobody writes down how long a header is, so `read` is handed what is there and says
//! `error.Truncated` when more bytes could make a header of it. Sizes are checked for their sign
//! and against each other; whether the page fits the bytes that follow is the caller's question.
const std = @import("std");
const metadata = @import("metadata.zig");
const thrift = @import("thrift.zig");
const interrupt = @import("../../core/interrupt.zig");
const Encoding = metadata.Encoding;
const Reader = thrift.Reader;
const Type = thrift.Type;

pub const Error = error{ Truncated, InvalidFormat };

/// Statistics may hold whole values, yet no sane writer keeps bounds of many megabytes.
pub const header_size_max: usize = 16 << 20;

/// Statistics of a page or column chunk, as the file has them.
pub const RawStatistics = struct {
    values: metadata.Statistics = .{},
    /// min and max are those of the deprecated fields, whose order nobody defined.
    deprecated: bool = false,
};

pub const DataPage = struct {
    value_count: u32,
    encoding: Encoding,
    definition_encoding: Encoding,
    repetition_encoding: Encoding,
    statistics: RawStatistics,
};

pub const DataPageV2 = struct {
    value_count: u32,
    null_count: u32,
    row_count: u32,
    encoding: Encoding,
    /// The levels come before the values and are never compressed; together they fit the page.
    definition_size: u32,
    repetition_size: u32,
    is_compressed: bool,
    statistics: RawStatistics,
};

pub const DictionaryPage = struct {
    value_count: u32,
    encoding: Encoding,
    is_sorted: bool,
};

pub const Page = union(metadata.PageType) {
    data: DataPage,
    index: void,
    dictionary: DictionaryPage,
    data_v2: DataPageV2,
};

pub const PageHeader = struct {
    /// Bytes of the header itself; the page follows.
    header_size: u32,
    uncompressed_size: u32,
    compressed_size: u32,
    /// Of the page as it is stored.
    crc: ?u32,
    page: Page,
};

/// The header at the front of `bytes`.
pub fn read(bytes: []const u8) Error!PageHeader {
    var reader: Reader = .init(bytes[0..@min(bytes.len, header_size_max)]);
    return read_header(&reader) catch |reason| {
        if (reason == error.Truncated and bytes.len >= header_size_max) return invalid("a page header is too long");
        return reason;
    };
}

/// What the fields said so far: required ones may be missing, or the ones of another page type there.
const Parts = struct {
    page_type: ?i32 = null,
    uncompressed_size: ?u32 = null,
    compressed_size: ?u32 = null,
    crc: ?u32 = null,
    data: ?DataPage = null,
    dictionary: ?DictionaryPage = null,
    data_v2: ?DataPageV2 = null,
};

fn read_header(reader: *Reader) Error!PageHeader {
    var parts: Parts = .{};
    var fields = reader.structure();
    while (try next_field(&fields)) |field| switch (field.id) {
        1 => parts.page_type = try read_int(reader, i32, field.type),
        2 => parts.uncompressed_size = try read_int(reader, u31, field.type),
        3 => parts.compressed_size = try read_int(reader, u31, field.type),
        4 => parts.crc = @bitCast(try read_int(reader, i32, field.type)),
        5 => parts.data = try read_data_page(reader, field.type),
        7 => parts.dictionary = try read_dictionary_page(reader, field.type),
        8 => parts.data_v2 = try read_data_page_v2(reader, field.type),
        else => try skip(reader, field.type),
    };
    return .{
        .header_size = @intCast(reader.position),
        .uncompressed_size = parts.uncompressed_size orelse return invalid("a page header has no uncompressed size"),
        .compressed_size = parts.compressed_size orelse return invalid("a page header has no compressed size"),
        .crc = parts.crc,
        .page = try page_of(&parts),
    };
}

fn page_of(parts: *const Parts) Error!Page {
    const number = parts.page_type orelse return invalid("a page header has no page type");
    const page_type = enum_of(metadata.PageType, number) orelse return invalid("a page is of an unknown type");
    switch (page_type) {
        .index => return .index,
        .data => return .{ .data = parts.data orelse return invalid("a data page has no data page header") },
        .dictionary => return .{
            .dictionary = parts.dictionary orelse return invalid("a dictionary page has no dictionary page header"),
        },
        .data_v2 => {
            const page = parts.data_v2 orelse return invalid("a data page (v2) has no header of its own");
            const level_size = @as(u64, page.definition_size) + page.repetition_size;
            // Compressed or not, the levels stand in front as they are.
            if (level_size > parts.compressed_size orelse 0)
                return invalid("the levels of a data page are longer than the page");
            if (level_size > parts.uncompressed_size orelse 0)
                return invalid("the levels of a data page are longer than the page");
            return .{ .data_v2 = page };
        },
    }
}

fn read_data_page(reader: *Reader, actual: Type) Error!DataPage {
    try expect_structure(reader, actual);
    var value_count: ?u32 = null;
    var encoding: ?Encoding = null;
    var definition: Encoding = .rle;
    var repetition: Encoding = .rle;
    var raw: RawStatistics = .{};
    var fields = reader.structure();
    while (try next_field(&fields)) |field| switch (field.id) {
        1 => value_count = try read_int(reader, u31, field.type),
        2 => encoding = try read_encoding(reader, field.type),
        3 => definition = try read_encoding(reader, field.type),
        4 => repetition = try read_encoding(reader, field.type),
        5 => raw = try read_statistics(reader, field.type),
        else => try skip(reader, field.type),
    };
    return .{
        .value_count = value_count orelse return invalid("a data page does not say how many values it has"),
        .encoding = encoding orelse return invalid("a data page has no encoding"),
        .definition_encoding = definition,
        .repetition_encoding = repetition,
        .statistics = raw,
    };
}

fn read_dictionary_page(reader: *Reader, actual: Type) Error!DictionaryPage {
    try expect_structure(reader, actual);
    var value_count: ?u32 = null;
    var encoding: ?Encoding = null;
    var is_sorted = false;
    var fields = reader.structure();
    while (try next_field(&fields)) |field| switch (field.id) {
        1 => value_count = try read_int(reader, u31, field.type),
        2 => encoding = try read_encoding(reader, field.type),
        3 => is_sorted = try reader.read_bool(field.type),
        else => try skip(reader, field.type),
    };
    return .{
        .value_count = value_count orelse return invalid("a dictionary page does not say how many values it has"),
        .encoding = encoding orelse return invalid("a dictionary page has no encoding"),
        .is_sorted = is_sorted,
    };
}

fn read_data_page_v2(reader: *Reader, actual: Type) Error!DataPageV2 {
    try expect_structure(reader, actual);
    const missing = std.math.maxInt(u32);
    var numbers: [6]u32 = @splat(missing);
    var encoding: ?Encoding = null;
    var is_compressed = true;
    var raw: RawStatistics = .{};
    var fields = reader.structure();
    while (try next_field(&fields)) |field| switch (field.id) {
        1, 2, 3, 5, 6 => |id| numbers[@intCast(id - 1)] = try read_int(reader, u31, field.type),
        4 => encoding = try read_encoding(reader, field.type),
        7 => is_compressed = try reader.read_bool(field.type),
        8 => raw = try read_statistics(reader, field.type),
        else => try skip(reader, field.type),
    };
    for ([_]usize{ 0, 1, 2, 4, 5 }) |i|
        if (numbers[i] == missing) return invalid("a data page (v2) lacks one of its numbers");
    if (numbers[1] > numbers[0]) return invalid("a data page has more NULLs than values");
    // Every row has at least one value, be it NULL.
    if (numbers[2] > numbers[0]) return invalid("a data page has more rows than values");
    return .{
        .value_count = numbers[0],
        .null_count = numbers[1],
        .row_count = numbers[2],
        .encoding = encoding orelse return invalid("a data page has no encoding"),
        .definition_size = numbers[4],
        .repetition_size = numbers[5],
        .is_compressed = is_compressed,
        .statistics = raw,
    };
}

/// Bounds point into the reader's bytes. A negative count is unknown, not an error: statistics are
/// advice, and the page can be read without.
pub fn read_statistics(reader: *Reader, actual: Type) Error!RawStatistics {
    try expect_structure(reader, actual);
    var old: [2]?[]const u8 = @splat(null);
    var values: metadata.Statistics = .{};
    var fields = reader.structure();
    while (try next_field(&fields)) |field| switch (field.id) {
        1 => old[1] = try read_binary(reader, field.type),
        2 => old[0] = try read_binary(reader, field.type),
        3 => values.null_count = std.math.cast(u64, try read_int(reader, i64, field.type)),
        5 => values.max = try read_binary(reader, field.type),
        6 => values.min = try read_binary(reader, field.type),
        7 => values.max_exact = try reader.read_bool(field.type),
        8 => values.min_exact = try reader.read_bool(field.type),
        9 => values.nan_count = std.math.cast(u64, try read_int(reader, i64, field.type)),
        else => try skip(reader, field.type),
    };
    if (values.min != null or values.max != null) return .{ .values = values };
    values.min, values.max = old;
    return .{ .values = values, .deprecated = values.min != null or values.max != null };
}

// thrift.zig has one error for everything. Whether the bytes merely ran out shows in where its
// reader stands: only at their end can more bytes help. (A wrong last byte is called Truncated,
// too; with more bytes behind it, it will not be.)

fn why(reader: *const Reader) Error {
    return if (reader.remaining() == 0) error.Truncated else error.InvalidFormat;
}

fn next_field(fields: *thrift.Structure) Error!?thrift.Field {
    return fields.next_field() catch why(fields.reader);
}

fn expect_structure(reader: *Reader, actual: Type) Error!void {
    try reader.expect(actual, .structure);
}

fn read_int(reader: *Reader, comptime T: type, actual: Type) Error!T {
    return reader.read_int(T, actual) catch why(reader);
}

fn read_encoding(reader: *Reader, actual: Type) Error!Encoding {
    const number = try read_int(reader, i32, actual);
    return enum_of(Encoding, number) orelse invalid("a page has an unknown encoding");
}

/// A size is looked at before the bytes are taken: one that no header may have is wrong now, not
/// after more reading.
fn read_binary(reader: *Reader, actual: Type) Error![]const u8 {
    var probe = reader.*;
    const zigzag: u64 = @bitCast(try read_int(&probe, i64, if (actual == .binary) .i64 else actual));
    const size = zigzag << 1 ^ (0 -% (zigzag >> 63));
    if (size > header_size_max) return invalid("a bound in a page header is too long");
    if (size > probe.remaining()) return error.Truncated;
    return reader.read_binary(actual);
}

fn skip(reader: *Reader, actual: Type) Error!void {
    switch (actual) {
        .binary => _ = try read_binary(reader, actual),
        // Inside of these an end cannot be told from nonsense; more bytes will tell.
        .list, .set, .map, .structure, .double, .uuid => reader.skip(actual) catch return error.Truncated,
        else => reader.skip(actual) catch return why(reader),
    }
}

fn enum_of(comptime E: type, number: i32) ?E {
    return std.enums.fromInt(E, std.math.cast(u8, number) orelse return null);
}

fn invalid(comptime words: []const u8) Error {
    @branchHint(.cold);
    interrupt.describe(words, .{});
    return error.InvalidFormat;
}

const testing = std.testing;

const test_data_page = [_]u8{
    0x15, 0x00, // 1: data page
    0x15, 0xC8, 0x01, // 2: 100
    0x15, 0x64, // 3: 50
    0x15, 0x01, // 4: crc -1
    0x1C, // 5
    0x15, 0x14, 0x15, 0x10, 0x15, 0x06, 0x15, 0x06, // 10 values, rle_dictionary, rle, rle
    0x1C, 0x18, 1,    'z',  0x18, 1,    'a',  0x16,
    0x04, 0x28, 1,    'y',  0x18, 1,    'b',  0x11,
    0x12, 0x16, 0x02, 0x00, 0x00, 0x00,
};

test "a data page with everything" {
    const bytes = test_data_page ++ [_]u8{ 1, 2, 3 };
    const header = try read(&bytes);
    try testing.expectEqual(test_data_page.len, header.header_size);
    try testing.expectEqual(100, header.uncompressed_size);
    try testing.expectEqual(50, header.compressed_size);
    try testing.expectEqual(0xFFFF_FFFF, header.crc.?);
    const page = header.page.data;
    try testing.expectEqual(10, page.value_count);
    try testing.expectEqual(.rle_dictionary, page.encoding);
    try testing.expectEqual(false, page.statistics.deprecated);
    const values = page.statistics.values;
    try testing.expectEqualStrings("b", values.min.?);
    try testing.expectEqualStrings("y", values.max.?);
    try testing.expectEqual(2, values.null_count.?);
    try testing.expectEqual(1, values.nan_count.?);
    try testing.expect(values.max_exact and !values.min_exact);
}

test "deprecated bounds are told apart" {
    var reader: Reader = .init(&.{ 0x18, 1, 'z', 0x18, 1, 'a', 0x16, 0x01, 0x00 });
    const raw = try read_statistics(&reader, .structure);
    try testing.expect(raw.deprecated);
    try testing.expectEqualStrings("a", raw.values.min.?);
    try testing.expectEqualStrings("z", raw.values.max.?);
    try testing.expectEqual(null, raw.values.null_count);
    reader = .init(&.{ 0x36, 0x00, 0x00 });
    try testing.expect(!(try read_statistics(&reader, .structure)).deprecated);
}

const test_v2 = [_]u8{
    0x15, 0x06, 0x15, 0x28, 0x15, 0x14, 0x5C, // v2, 20 and 10 bytes
    0x15, 0x0A, 0x15, 0x02, 0x15, 0x08, 0x15, 0x00, 0x15, 0x04, 0x15, 0x06, 0x12, 0x00, // 5, 1, 4, plain, 2, 3, false
    0x00,
};

test "version 2 and dictionary pages" {
    const header = try read(&test_v2);
    try testing.expectEqual(null, header.crc);
    const page = header.page.data_v2;
    try testing.expectEqualSlices(
        u32,
        &.{ 5, 1, 4, 2, 3 },
        &.{ page.value_count, page.null_count, page.row_count, page.definition_size, page.repetition_size },
    );
    try testing.expect(!page.is_compressed);
    // The flag is true unless the file says otherwise.
    var bytes = test_v2;
    bytes[19] = 0;
    try testing.expect((try read(bytes[0..21])).page.data_v2.is_compressed);
    const dictionary = try read(
        &.{ 0x15, 0x04, 0x15, 0x28, 0x15, 0x14, 0x4C, 0x15, 0x0A, 0x15, 0x04, 0x11, 0x00, 0x00 },
    );
    try testing.expectEqual(
        DictionaryPage{ .value_count = 5, .encoding = .plain_dictionary, .is_sorted = true },
        dictionary.page.dictionary,
    );
}

test "sizes, counts and types that cannot be" {
    defer interrupt.forget();
    // More NULLs than values, more rows, longer levels; unknown encoding; negative size; the header
    // of another type of page; an unknown type of page.
    for ([_][2]u8{ .{
        10,
        12,
    }, .{ 12, 12 }, .{ 16, 16 }, .{ 14, 2 }, .{ 14, 40 }, .{ 5, 1 }, .{ 1, 0 }, .{ 1, 8 }, .{ 1, 1 } }) |change| {
        var bytes = test_v2;
        bytes[change[0]] = change[1];
        try testing.expectError(error.InvalidFormat, read(&bytes));
    }
    // A bound longer than any header.
    try testing.expectError(error.InvalidFormat, read(&.{ 0x5C, 0x5C, 0x18, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0, 0, 0 }));
}

test "a header that is cut asks for more" {
    defer interrupt.forget();
    for ([_][]const u8{ &test_data_page, &test_v2 }) |bytes| {
        for (0..bytes.len) |size| try testing.expectError(error.Truncated, read(bytes[0..size]));
        _ = try read(bytes);
    }
    const endless = try testing.allocator.alloc(u8, header_size_max);
    defer testing.allocator.free(endless);
    endless[0..5].* = .{ 0xF8, 0x80, 0x80, 0x80, 0x08 }; // 15: 16 MiB
    try testing.expectError(error.Truncated, read(endless[0 .. header_size_max - 1]));
    try testing.expectError(error.InvalidFormat, read(endless));
}

test "unknown fields are skipped" {
    const front = [_]u8{ 0x15, 0x04, 0x15, 0x28, 0x15, 0x14, 0x4C, 0x15, 0x0A, 0x15, 0x04, 0x00 };
    // 20: binary, 21: list of structures, 22: double
    const unknown = [_]u8{ 0xD8, 2, 'x', 'y', 0x19, 0x2C, 0x00, 0x15, 0x02, 0x00, 0x17, 1, 2, 3, 4, 5, 6, 7, 8, 0x00 };
    const bytes = front ++ unknown;
    try testing.expectEqual(bytes.len, (try read(&bytes)).header_size);
    for (0..bytes.len) |size| try testing.expectError(error.Truncated, read(bytes[0..size]));
    interrupt.forget();
}

test "mutated headers are read or refused" {
    var prng: std.Random.DefaultPrng = .init(5);
    const random = prng.random();
    defer interrupt.forget();
    for (0..5000) |_| {
        var bytes = test_data_page;
        for (0..random.intRangeAtMost(u8, 1, 3)) |_| bytes[random.uintLessThan(usize, bytes.len)] = random.int(u8);
        const header = read(bytes[0..random.uintAtMost(usize, bytes.len)]) catch continue;
        try testing.expect(header.header_size <= bytes.len);
    }
}
