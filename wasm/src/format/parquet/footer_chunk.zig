//! A ColumnChunk of the footer's Thrift, as it stands there: reading, no judging.
//!
//!     ColumnChunk     1 file path  3 ColumnMetaData  4, 5 offset index: offset, size
//!                     6, 7 column index: offset, size  8, 9 encryption
//!     ColumnMetaData  1 physical type  2 encodings  4 codec  5 values  6 uncompressed size
//!                     7 compressed size  9 first data page  11 dictionary page  12 Statistics
//!                     13 encoding_stats  14, 15 bloom filter: offset, size
//!     PageEncodingStats  1 page type  2 encoding  3 pages
//!     Statistics      as in page_header.zig
//!
//! A wide file has a hundred thousand of these, and they are nearly all of its footer. So fields
//! are first tried in the order in which writers write them, and the reader that the inlined
//! functions share never has its address taken: it lives in registers.
const std = @import("std");
const metadata = @import("metadata.zig");
const page_header = @import("page_header.zig");
const thrift = @import("thrift.zig");
const Field = thrift.Field;
const Kind = thrift.Kind;
const Reader = thrift.Reader;
const Error = thrift.Error;

// Which fields are read, by id.
const chunk_kinds = [_]Kind{ .none, .binary, .none, .structure, .int, .int, .int, .int, .structure, .binary };
const metadata_kinds = [_]Kind{
    .none, .int, .list, .none, .int,       .int,  .int, .int,
    .none, .int, .none, .int,  .structure, .list, .int, .int,
};
const page_count_kinds = [_]Kind{ .none, .int, .int, .int };
const statistics_kinds = [_]Kind{ .none, .binary, .binary, .int, .none, .binary, .binary, .boolean, .boolean, .int };

// The fields that most chunks have, as writers write them.
const chunk_order = [_]Field{
    .{ .id = 2, .type = .i64 }, .{ .id = 3, .type = .structure }, .{ .id = 4, .type = .i64 },
    .{ .id = 5, .type = .i32 }, .{ .id = 6, .type = .i64 },       .{ .id = 7, .type = .i32 },
};
const metadata_order = [_]Field{
    .{ .id = 1, .type = .i32 },        .{ .id = 2, .type = .list },  .{ .id = 3, .type = .list },
    .{ .id = 4, .type = .i32 },        .{ .id = 5, .type = .i64 },   .{ .id = 6, .type = .i64 },
    .{ .id = 7, .type = .i64 },        .{ .id = 9, .type = .i64 },   .{ .id = 11, .type = .i64 },
    .{ .id = 12, .type = .structure }, .{ .id = 13, .type = .list }, .{ .id = 16, .type = .structure },
};
const statistics_order = [_]Field{
    .{ .id = 1, .type = .binary },       .{ .id = 2, .type = .binary }, .{ .id = 3, .type = .i64 },
    .{ .id = 5, .type = .binary },       .{ .id = 6, .type = .binary }, .{ .id = 7, .type = .boolean_true },
    .{ .id = 8, .type = .boolean_true },
};

/// A ColumnChunk as it stands in the footer. Numbers that must be there start at what cannot be.
pub const ChunkFields = struct {
    has_metadata: bool = false,
    is_encrypted: bool = false,
    is_external: bool = false,
    physical: i32 = -1,
    codec: i32 = -1,
    value_count: i64 = -1,
    uncompressed_size: i64 = -1,
    compressed_size: i64 = -1,
    data_page_offset: i64 = -1,
    dictionary_page_offset: i64 = 0,
    encodings: u16 = 0,
    /// Data pages that a dictionary codes, and others.
    dictionary_page_count: u64 = 0,
    other_page_count: u64 = 0,
    statistics: page_header.RawStatistics = .{},
    bloom_offset: i64 = -1,
    bloom_size: i32 = 0,
    offset_index_offset: i64 = -1,
    offset_index_size: i32 = 0,
    column_index_offset: i64 = -1,
    column_index_size: i32 = 0,

    pub inline fn read(self: *ChunkFields, reader: *Reader) Error!void {
        var fields = reader.structure();
        inline for (chunk_order) |field| {
            if (fields.take_field(field)) try self.read_chunk_field(reader, field.id, field);
        }
        while (try fields.next_field()) |field| try self.read_chunk_field(reader, field.known(&chunk_kinds), field);
    }

    inline fn read_chunk_field(self: *ChunkFields, reader: *Reader, id: i16, field: Field) Error!void {
        switch (id) {
            1 => self.is_external = (try reader.read_binary(field.type)).len != 0,
            3 => try self.read_metadata(reader),
            4 => self.offset_index_offset = try reader.read_int(i64, field.type),
            5 => self.offset_index_size = try reader.read_int(i32, field.type),
            6 => self.column_index_offset = try reader.read_int(i64, field.type),
            7 => self.column_index_size = try reader.read_int(i32, field.type),
            8, 9 => {
                self.is_encrypted = true;
                try reader.skip(field.type);
            },
            else => try reader.skip(field.type),
        }
    }

    /// Not inlined: there are two calls, and a reader comes and goes by value.
    fn read_metadata(self: *ChunkFields, outer: *Reader) Error!void {
        var copy = outer.*;
        const reader = &copy;
        self.has_metadata = true;
        var fields = reader.structure();
        inline for (metadata_order) |field| {
            if (fields.take_field(field)) try self.read_metadata_field(reader, field.id, field);
        }
        while (try fields.next_field()) |field|
            try self.read_metadata_field(reader, field.known(&metadata_kinds), field);
        outer.* = copy;
    }

    inline fn read_metadata_field(self: *ChunkFields, reader: *Reader, id: i16, field: Field) Error!void {
        switch (id) {
            1 => self.physical = try reader.read_int(i32, field.type),
            2 => try self.read_encodings(reader, field.type),
            4 => self.codec = try reader.read_int(i32, field.type),
            5 => self.value_count = try reader.read_int(i64, field.type),
            6 => self.uncompressed_size = try reader.read_int(i64, field.type),
            7 => self.compressed_size = try reader.read_int(i64, field.type),
            9 => self.data_page_offset = try reader.read_int(i64, field.type),
            11 => self.dictionary_page_offset = try reader.read_int(i64, field.type),
            12 => self.statistics = try read_statistics(reader),
            13 => try self.read_encoding_stats(reader, field.type),
            14 => self.bloom_offset = try reader.read_int(i64, field.type),
            15 => self.bloom_size = try reader.read_int(i32, field.type),
            else => try reader.skip(field.type),
        }
    }

    inline fn read_encodings(self: *ChunkFields, reader: *Reader, field_type: thrift.Type) Error!void {
        const list = try reader.read_list(field_type);
        for (0..list.count) |_| {
            const number = try reader.read_int(i32, list.type);
            self.encodings |= @as(u16, 1) << if (number >= 0 and number < 15) @intCast(number) else 15;
        }
    }

    inline fn read_encoding_stats(self: *ChunkFields, reader: *Reader, field_type: thrift.Type) Error!void {
        const count = try reader.read_list_of(field_type, .structure);
        for (0..count) |_| {
            var numbers: [4]i32 = @splat(0);
            var fields = reader.structure();
            inline for (1..4) |id| {
                if (fields.take_field(.{ .id = id, .type = .i32 })) numbers[id] = try reader.read_int(i32, .i32);
            }
            while (try fields.next_field()) |field| {
                const id = field.known(&page_count_kinds);
                if (id == 0) try reader.skip(field.type) else numbers[@intCast(id)] = try reader.read_int(
                    i32,
                    field.type,
                );
            }
            self.count_pages(numbers[1], numbers[2], numbers[3]);
        }
    }

    inline fn count_pages(self: *ChunkFields, page_type: i32, encoding: i32, page_count: i32) void {
        if (page_type != 0 and page_type != 3) return;
        const pages = std.math.cast(u32, page_count) orelse 1;
        if (encoding == 2 or encoding == 8) self.dictionary_page_count += pages else self.other_page_count += pages;
    }

    pub fn all_dictionary(self: *const ChunkFields) bool {
        return self.dictionary_page_count > 0 and self.other_page_count == 0;
    }
};

/// What page_header.zig reads of pages, in the way that a hundred thousand of them need. A count
/// below 0 is unknown.
inline fn read_statistics(reader: *Reader) Error!page_header.RawStatistics {
    var found: StatisticsFields = .{};
    var fields = reader.structure();
    inline for (statistics_order) |field| {
        if (fields.take_field(field)) try found.read_field(reader, field.id, field);
    }
    while (try fields.next_field()) |field| try found.read_field(reader, field.known(&statistics_kinds), field);
    const is_new = found.values.min != null or found.values.max != null;
    if (!is_new) found.values.min, found.values.max = .{ found.old_min, found.old_max };
    return .{ .values = found.values, .deprecated = !is_new and (found.old_min != null or found.old_max != null) };
}

const StatisticsFields = struct {
    old_min: ?[]const u8 = null,
    old_max: ?[]const u8 = null,
    values: metadata.Statistics = .{},

    inline fn read_field(self: *StatisticsFields, reader: *Reader, id: i16, field: Field) Error!void {
        switch (id) {
            1 => self.old_max = try reader.read_binary(field.type),
            2 => self.old_min = try reader.read_binary(field.type),
            3 => self.values.null_count = std.math.cast(u64, try reader.read_int(i64, field.type)),
            5 => self.values.max = try reader.read_binary(field.type),
            6 => self.values.min = try reader.read_binary(field.type),
            7 => self.values.max_exact = try reader.read_bool(field.type),
            8 => self.values.min_exact = try reader.read_bool(field.type),
            9 => self.values.nan_count = std.math.cast(u64, try reader.read_int(i64, field.type)),
            else => try reader.skip(field.type),
        }
    }
};

test "the order of fields does not matter, nor do strangers" {
    // 3: { 5: 7 values, 4: codec 6, 1: type 2, 15: a list of somebody else's }, 8: {}, 1: "x"
    const bytes = [_]u8{
        0x3C, 0x56, 14, 0x05, 8, 12, 0x05, 2, 4, 0x09, 30, 0x15, 2, 0x00, 0x5C, 0x00, 0x08, 2, 1, 'x', 0x00,
    };
    var reader: Reader = .init(&bytes);
    var chunk: ChunkFields = .{};
    try chunk.read(&reader);
    try std.testing.expectEqual(bytes.len, reader.position);
    try std.testing.expectEqual(.{ true, true, true }, .{ chunk.has_metadata, chunk.is_encrypted, chunk.is_external });
    try std.testing.expectEqual(.{ 2, 6, 7, 0 }, .{ chunk.physical, chunk.codec, chunk.value_count, chunk.bloom_size });
}

test "pages that a dictionary codes" {
    var chunk: ChunkFields = .{};
    try std.testing.expect(!chunk.all_dictionary());
    chunk.count_pages(2, 0, 1); // the dictionary page itself is plain
    chunk.count_pages(0, 8, 3);
    try std.testing.expect(chunk.all_dictionary());
    chunk.count_pages(0, 0, 0);
    try std.testing.expect(chunk.all_dictionary());
    chunk.count_pages(3, 0, 1);
    try std.testing.expect(!chunk.all_dictionary());
}
