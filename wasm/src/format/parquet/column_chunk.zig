//! One leaf of one row group: pages in, levels and values out.
//!
//!     chunk   [dictionary page] data page … data page
//!     page    header (Thrift), body
//!     v1      body = compress( repetition levels, definition levels, values )
//!     v2      body = repetition levels, definition levels, compress( values )
//!
//! Where the pages lie is known in one of two ways: by walking from header to header, or from the
//! offset index, which also allows pages to be left out. Either way `prepare` says whether all bytes
//! for the next rows are here, and writes down those that are not; only then are rows read. A page is
//! decompressed when its first value is asked for, so pages whose rows are all skipped cost a header.
//!
//! All numbers in pages are hostile. A page never has more values than the chunk says, and memory is
//! taken for what is decoded in one go, not for what a header claims, except for the decompressed
//! body: its size is at most what the codec can make of the bytes that are there.
const std = @import("std");
const bitmap = @import("../../core/bitmap.zig");
const brotli = @import("../../codec/brotli.zig");
const gzip = @import("../../codec/gzip.zig");
const interrupt = @import("../../core/interrupt.zig");
const lz4 = @import("../../codec/lz4.zig");
const metadata = @import("metadata.zig");
const page_header = @import("page_header.zig");
const page_index = @import("page_index.zig");
const rle = @import("../../encoding/rle.zig");
const segments_module = @import("../segments.zig");
const snappy = @import("../../codec/snappy.zig");
const statistics = @import("statistics.zig");
const values_module = @import("values.zig");
const zstd = @import("../../codec/zstd.zig");
const Chunk = metadata.Chunk;
const CodedRows = @import("../coded_rows.zig").CodedRows;
const ColumnBuilder = @import("../../core/column_builder.zig").ColumnBuilder;
const Leaf = metadata.Leaf;
const PageHeader = page_header.PageHeader;
const Range = segments_module.Range;
const Segments = segments_module.Segments;
const ValueReader = values_module.ValueReader;
const assert = std.debug.assert;

pub const Error = values_module.Error;

pub const Needs = std.ArrayList(Range);

const Buffer = std.array_list.Aligned(u8, .@"16");

/// What the scan decided once for all its columns.
pub const Options = struct {
    file_size: u64,
    /// Rows of the row group.
    row_count: u64,
    /// Bytes of a chunk that are asked for at once.
    window_size: u64,
    verify_crc: bool = false,
};

/// Behind every buffer that a codec or decoder reads or writes.
const slack = 64;
/// A header without statistics takes some thirty bytes, one with long bounds a few thousand.
const header_guess: u64 = 8 << 10;
/// Entries whose levels are decoded together.
const level_block: u32 = 4096;

/// A page that is here and has not been begun.
const Page = struct {
    offset: u64,
    header: PageHeader,
    body: []const u8,
    first_row: u64,
    /// Unknown where values repeat and no index tells.
    row_count: ?u64,

    fn end_row(self: *const Page) ?u64 {
        return if (self.row_count) |count| self.first_row + count else null;
    }

    fn value_count(self: *const Page) u32 {
        return switch (self.header.page) {
            .data => |page| page.value_count,
            .data_v2 => |page| page.value_count,
            .dictionary, .index => 0,
        };
    }
};

pub const HeaderPages = struct { first_rows: []const u64, evidence: []const statistics.Evidence };

const Levels = union(enum) {
    /// All entries have level 0.
    none,
    rle: rle.Decoder,
    packed_bits: rle.BitPackedLevels,

    fn read(self: *Levels, target: []u8) Error!void {
        switch (self.*) {
            .none => @memset(target, 0),
            .rle => |*levels| try levels.read_u8(target),
            .packed_bits => |*levels| try levels.read(target),
        }
    }
};

/// The page being read.
const Current = struct {
    offset: u64,
    first_row: u64,
    /// The row behind its last one, where rows do not go on in the next page.
    end_row: ?u64,
    /// Entries whose levels have not been read.
    entries_left: u32,
    definition: Levels,
    repetition: Levels,
};

pub const ChunkReader = struct {
    /// NULLs have none.
    pub const slots_have_values = false;

    gpa: std.mem.Allocator,
    leaf: *const Leaf,
    chunk: Chunk,
    options: Options,
    segments: Segments = .{},
    values: ValueReader,
    /// Next row of the row group to be read. Where values repeat: rows wholly behind us.
    row: u64 = 0,
    /// Pages that are here, in order, the next one first.
    queue: std.ArrayList(Page) = .empty,
    queue_first: usize = 0,
    /// Where walking goes on: the next header, its first row, the values seen before it.
    walk_offset: u64,
    walk_row: u64 = 0,
    walk_values: u64 = 0,
    index: ?page_index.OffsetIndex = null,
    /// Of the index's pages so many are coded by the dictionary, the first ones; null: not known.
    coded_pages: ?u64 = null,
    dictionary_asked: bool = false,
    /// A page was asked for of which it is not known whether it uses the dictionary.
    is_unsure: bool = false,
    /// Next page of the index to be looked at.
    index_next: usize = 0,
    /// Next page of the index that has not been asked for.
    needed_next: usize = 0,
    dictionary_offset: ?u64 = null,
    pages_taken: u32 = 0,
    pages_skipped: u32 = 0,
    current: ?Current = null,
    page_bytes: Buffer = .empty,
    /// Levels of the rows of the last `read_nested`, one entry a value or missing value.
    definitions: std.ArrayList(u8) = .empty,
    repetitions: std.ArrayList(u8) = .empty,
    /// Levels that were decoded and belong to rows not yet asked for.
    ahead_definitions: std.ArrayList(u8) = .empty,
    ahead_repetitions: std.ArrayList(u8) = .empty,
    ahead_first: usize = 0,
    /// Scratch for rows that are picked: where their values lie, and the validity they are found by.
    places: std.ArrayList(u32) = .empty,
    part_validity: std.ArrayList(u8) = .empty,
    /// The last page that was read to its end also ended a row.
    ends_whole: bool = false,

    pub fn init(gpa: std.mem.Allocator, leaf: *const Leaf, chunk: Chunk, options: Options) ChunkReader {
        return .{
            .gpa = gpa,
            .leaf = leaf,
            .chunk = chunk,
            .options = options,
            .values = .init(gpa, leaf),
            .walk_offset = chunk.start,
        };
    }

    pub fn deinit(self: *ChunkReader) void {
        self.segments.deinit(self.gpa);
        self.values.deinit();
        self.queue.deinit(self.gpa);
        self.page_bytes.deinit(self.gpa);
        self.definitions.deinit(self.gpa);
        self.repetitions.deinit(self.gpa);
        self.ahead_definitions.deinit(self.gpa);
        self.ahead_repetitions.deinit(self.gpa);
        self.places.deinit(self.gpa);
        self.part_validity.deinit(self.gpa);
    }

    /// Bytes of a row, as far as the footer knows: on average, but no less than a value of fixed size
    /// takes even in rows that are NULL.
    pub fn row_size(self: *const ChunkReader) u64 {
        const size = @min(self.chunk.uncompressed_size, ratio_max(self.chunk.codec) *| self.chunk.compressed_size);
        const fixed = switch (self.leaf.type.layout()) {
            .none, .bits, .bytes, .list, .structure => 0,
            else => self.leaf.type.value_size(),
        };
        return @max(size / @max(1, self.options.row_count), fixed);
    }

    fn repeats(self: *const ChunkReader) bool {
        return self.leaf.max_repetition > 0;
    }

    // ---- where pages are ----

    /// Uses the index from now on: before anything has been read.
    pub fn use_index(self: *ChunkReader, index: page_index.OffsetIndex, coded_pages: ?u64) void {
        assert(self.walk_row == 0 and self.queue.items.len == 0);
        self.index = index;
        self.coded_pages = coded_pages;
    }

    /// Whether the pages of rows `begin` to `end` are here. What is missing is added to `needs`.
    pub fn prepare(self: *ChunkReader, begin: u64, end: u64, needs: *Needs) Error!bool {
        assert(begin < end and end <= self.options.row_count);
        if (self.index != null) return self.prepare_indexed(begin, end, needs);
        // Where values repeat, only the levels tell how many rows a page has: all pages are brought.
        while (if (self.repeats()) self.walk_values < self.chunk.value_count else self.walk_row < end) {
            if (!try self.walk_page(needs)) return false;
        }
        return true;
    }

    /// Takes the page at `walk_offset` into the queue; false when its bytes are not here.
    fn walk_page(self: *ChunkReader, needs: *Needs) Error!bool {
        const bytes = self.segments.from(.{ .offset = self.walk_offset });
        const header = page_header.read(bytes) catch |reason| switch (reason) {
            error.Truncated => return self.need_window(self.header_least(bytes.len), bytes.len, needs),
            error.InvalidFormat => return self.fail_here(self.walk_offset),
        };
        const size = @as(u64, header.header_size) + header.compressed_size;
        if (size > bytes.len) return self.need_window(size, bytes.len, needs);
        const page: Page = .{
            .offset = self.walk_offset,
            .header = header,
            .body = bytes[header.header_size..][0..header.compressed_size],
            .first_row = self.walk_row,
            .row_count = self.count_rows(header),
        };
        self.walk_offset += size;
        switch (header.page) {
            .index => {},
            .dictionary => if (self.dictionary_offset != page.offset) try self.read_dictionary(&page),
            .data, .data_v2 => try self.enqueue(page),
        }
        return true;
    }

    fn count_rows(self: *const ChunkReader, header: PageHeader) ?u64 {
        return switch (header.page) {
            .data => |page| if (self.repeats()) null else page.value_count,
            // Some writers count values where a v2 header wants rows.
            .data_v2 => |page| if (self.repeats()) null else page.value_count,
            .dictionary, .index => 0,
        };
    }

    fn enqueue(self: *ChunkReader, page: Page) Error!void {
        const count = page.value_count();
        // A page without values is allowed, but no more of them than bytes: each has a header.
        self.walk_values += count;
        if (self.walk_values > self.chunk.value_count and self.repeats())
            return self.fail(page.offset, "pages hold more values than their column chunk");
        self.walk_row += page.row_count orelse 0;
        if (self.walk_row > self.options.row_count)
            return self.fail(page.offset, "pages hold more rows than their row group");
        if (self.queue_first == self.queue.items.len) {
            self.queue.clearRetainingCapacity();
            self.queue_first = 0;
        }
        try self.queue.append(self.gpa, page);
    }

    /// What a header may need, of which `available` bytes are not enough: no more than the chunk has, as
    /// long as it has more.
    fn header_least(self: *const ChunkReader, available: u64) u64 {
        const left = self.chunk.start + self.chunk.compressed_size -| self.walk_offset;
        return if (left > available) @min(left, available + header_guess) else header_guess;
    }

    /// How much of what is left to read at once: what is not worth a second request comes with the first.
    fn window_of(self: *const ChunkReader, left: u64) u64 {
        return if (left / 2 <= self.options.window_size) left else self.options.window_size;
    }

    /// Asks for the chunk from `walk_offset` on: a window of it, `least` bytes at least.
    fn need_window(self: *ChunkReader, least: u64, available: u64, needs: *Needs) Error!bool {
        const offset = self.walk_offset;
        const chunk_end = self.chunk.start + self.chunk.compressed_size;
        const file_left = self.options.file_size -| offset;
        var size = @max(least, self.window_of(chunk_end -| offset));
        // Old writers forgot a header in the chunk's size: the last page may lie further back.
        size = @min(size, file_left);
        // A header that is cut off is asked for in growing pieces.
        if (size <= available) size = @min(file_left, @max(least, available * 2));
        if (size <= available) return self.fail(offset, "a page reaches past the end of the file");
        try needs.append(self.gpa, .{ .offset = offset, .size = size });
        return false;
    }

    /// Asks for the next window that a scan which only plans would come to, as far as it can be foreseen;
    /// true if more follow.
    pub fn plan_window(self: *ChunkReader, needs: *Needs) Error!bool {
        const end = @min(self.chunk.start + self.chunk.compressed_size, self.options.file_size);
        if (self.walk_offset >= end) return false;
        const left = end - self.walk_offset;
        const size = @max(@min(header_guess, left), self.window_of(left));
        try needs.append(self.gpa, .{ .offset = self.walk_offset, .size = size });
        self.walk_offset += size;
        return self.walk_offset < end;
    }

    /// Bytes before the first data page, where the dictionary is.
    fn dictionary_room(self: *const ChunkReader) u64 {
        const room = self.chunk.data_page_offset -| self.chunk.start;
        const index = &(self.index orelse return room);
        return if (room == 0) index.offsets[0] -| self.chunk.start else room;
    }

    /// Asks for the dictionary together with the first page that uses it.
    fn need_dictionary_early(self: *ChunkReader, needs: *Needs) Error!void {
        const size = self.dictionary_room();
        if (self.dictionary_asked or size == 0 or self.values.dictionary != null) return;
        self.dictionary_asked = true;
        if (self.segments.from(.{ .offset = self.chunk.start }).len >= size) return;
        try needs.append(self.gpa, .{ .offset = self.chunk.start, .size = size });
    }

    /// Takes in what is here without asking for more; the row up to which headers are known, or null where
    /// they do not say which rows are theirs.
    pub fn walk_ahead(self: *ChunkReader, needs: *Needs) Error!?u64 {
        if (self.repeats() or self.index != null) return null;
        _ = try self.prepare(0, self.options.row_count, needs);
        needs.clearRetainingCapacity();
        return self.walk_row;
    }

    /// What the headers say of pages that have not been begun and lie before `end`; null if that is nothing.
    /// Rows before and behind them are pages of which nothing is known.
    pub fn header_pages(self: *const ChunkReader, arena: std.mem.Allocator, end: u64) Error!?HeaderPages {
        if (self.repeats()) return null;
        const queue = self.queue.items[self.queue_first..];
        var first_rows: std.ArrayList(u64) = try .initCapacity(arena, queue.len + 2);
        var evidence: std.ArrayList(statistics.Evidence) = try .initCapacity(arena, queue.len + 2);
        var says_nothing = true;
        var row: u64 = 0;
        for (queue) |*page| {
            if (page.first_row >= end) break;
            if (page.row_count.? == 0) continue;
            if (page.first_row > row) {
                first_rows.appendAssumeCapacity(row); // only before the first: pages follow each other
                evidence.appendAssumeCapacity(.{ .is_page = true });
            }
            const raw = switch (page.header.page) {
                .data => |header| header.statistics,
                .data_v2 => |header| header.statistics,
                .dictionary, .index => unreachable,
            };
            if (raw.values.min != null or raw.values.max != null or raw.values.null_count != null) says_nothing = false;
            first_rows.appendAssumeCapacity(page.first_row);
            evidence.appendAssumeCapacity(.{
                .statistics = raw.values,
                .deprecated = raw.deprecated,
                .value_count = page.row_count,
                .is_page = true,
            });
            row = page.end_row().?;
        }
        if (says_nothing) return null;
        if (row < self.options.row_count) {
            first_rows.appendAssumeCapacity(row);
            evidence.appendAssumeCapacity(.{ .is_page = true });
        }
        return .{ .first_rows = first_rows.items, .evidence = evidence.items };
    }

    // ---- with an offset index ----

    /// Asks for the pages that hold rows of `begin` to `end`, before they are read, and for the dictionary
    /// where it is known that one of them uses it. Rows come in order, so that no page is asked for twice.
    pub fn need_rows(self: *ChunkReader, begin: u64, end: u64, needs: *Needs) Error!void {
        const index = &self.index.?;
        var page = @max(self.needed_next, page_of(index, begin));
        while (page < index.page_count() and index.first_rows[page] < end) : (page += 1) {
            const range: Range = .{ .offset = index.offsets[page], .size = index.compressed_sizes[page] };
            if (self.segments.find(range) == null) try needs.append(self.gpa, range);
            if (self.coded_pages) |count| {
                if (page < count) try self.need_dictionary_early(needs);
            } else self.is_unsure = true;
            self.needed_next = page + 1;
        }
    }

    fn prepare_indexed(self: *ChunkReader, begin: u64, end: u64, needs: *Needs) Error!bool {
        const index = &self.index.?;
        // Pages between the rows asked for are left out.
        self.index_next = @max(self.index_next, page_of(index, begin));
        while (self.index_next < index.page_count() and index.first_rows[self.index_next] < end) {
            const page = self.index_next;
            const range: Range = .{ .offset = index.offsets[page], .size = index.compressed_sizes[page] };
            const bytes = self.segments.find(range) orelse {
                try needs.append(self.gpa, range);
                return false;
            };
            if (!try self.take_indexed(page, bytes, needs)) return false;
            self.index_next += 1;
        }
        return true;
    }

    fn page_end(self: *const ChunkReader, page: usize) u64 {
        const index = &self.index.?;
        return if (page + 1 < index.page_count()) index.first_rows[page + 1] else self.options.row_count;
    }

    fn take_indexed(self: *ChunkReader, number: usize, bytes: []const u8, needs: *Needs) Error!bool {
        const index = &self.index.?;
        const offset = index.offsets[number];
        const header = page_header.read(bytes) catch return self.fail_here(offset);
        if (@as(u64, header.header_size) + header.compressed_size > bytes.len)
            return self.fail(offset, "a page is longer than its offset index says");
        const encoding = switch (header.page) {
            .data => |page| page.encoding,
            .data_v2 => |page| page.encoding,
            .dictionary, .index => return self.fail(offset, "the offset index points at a page without data"),
        };
        // Pages of NULLs alone may be coded where there is no dictionary.
        const is_coded = encoding == .plain_dictionary or encoding == .rle_dictionary;
        if (is_coded and self.dictionary_room() > 0 and !try self.prepare_dictionary(needs)) return false;
        const first_row = index.first_rows[number];
        const row_count = self.page_end(number) - first_row;
        const page: Page = .{
            .offset = offset,
            .header = header,
            .body = bytes[header.header_size..][0..header.compressed_size],
            .first_row = first_row,
            .row_count = row_count,
        };
        if (!self.repeats() and page.value_count() != row_count)
            return self.fail(offset, "a page has another number of rows than its offset index says");
        if (self.queue_first == self.queue.items.len) {
            self.queue.clearRetainingCapacity();
            self.queue_first = 0;
        }
        try self.queue.append(self.gpa, page);
        self.pages_taken += 1;
        return true;
    }

    /// Pages that were not decoded, of an index or between rows that were.
    pub fn count_skipped(self: *const ChunkReader) u32 {
        const unread = if (self.index) |index| index.page_count() -| self.pages_taken else 0;
        return self.pages_skipped + unread;
    }

    /// The dictionary is read when the first page turns up that uses it, and fetched if it is not here.
    fn prepare_dictionary(self: *ChunkReader, needs: *Needs) Error!bool {
        if (self.values.dictionary != null) return true;
        const bytes = self.segments.from(.{ .offset = self.chunk.start });
        const room = self.dictionary_room();
        const header = page_header.read(bytes) catch |reason| switch (reason) {
            error.InvalidFormat => return self.fail_here(self.chunk.start),
            error.Truncated => return self.need_dictionary(if (bytes.len == 0)
                room
            else
                @max(room, bytes.len * 2), bytes.len, needs),
        };
        const size = @as(u64, header.header_size) + header.compressed_size;
        if (size > bytes.len) return self.need_dictionary(size, bytes.len, needs);
        if (header.page != .dictionary)
            return self.fail(self.chunk.start, "there is no dictionary where the footer says");
        try self.read_dictionary(&.{
            .offset = self.chunk.start,
            .header = header,
            .body = bytes[header.header_size..][0..header.compressed_size],
            .first_row = 0,
            .row_count = 0,
        });
        return true;
    }

    fn need_dictionary(self: *ChunkReader, size: u64, available: usize, needs: *Needs) Error!bool {
        const wanted = @min(if (size == 0) header_guess else size, self.options.file_size -| self.chunk.start);
        if (wanted <= available) return self.fail(self.chunk.start, "a dictionary reaches past the end of the file");
        try needs.append(self.gpa, .{ .offset = self.chunk.start, .size = wanted });
        return false;
    }

    /// Back to the first row; bytes, index and dictionary stay.
    pub fn rewind(self: *ChunkReader) void {
        self.row = 0;
        self.queue.clearRetainingCapacity();
        self.queue_first = 0;
        self.walk_offset = self.chunk.start;
        self.walk_row = 0;
        self.walk_values = 0;
        self.index_next = 0;
        self.pages_taken = 0;
        self.pages_skipped = 0;
        self.drop_page();
    }

    // ---- what the host may free ----

    /// The first byte that is still needed of what is here.
    pub fn oldest_used(self: *const ChunkReader) u64 {
        if (self.current) |current| return current.offset;
        if (self.queue_first < self.queue.items.len) return self.queue.items[self.queue_first].offset;
        return if (self.index == null) self.walk_offset else 0;
    }

    // ---- pages ----

    fn read_dictionary(self: *ChunkReader, page: *const Page) Error!void {
        const header = page.header.page.dictionary;
        try self.check_crc(page);
        // A page of its own: the one being read may still point into `page_bytes`.
        var buffer: Buffer = .empty;
        defer buffer.deinit(self.gpa);
        const bytes = try self.decompress(&buffer, page.body, page.header.uncompressed_size, true, page.offset);
        self.values.read_dictionary(header.encoding, bytes, header.value_count) catch |reason| {
            interrupt.describe_offset(page.offset);
            return reason;
        };
        self.dictionary_offset = page.offset;
    }

    /// Begins the next page of the queue.
    fn begin_page(self: *ChunkReader) Error!void {
        if (self.queue_first == self.queue.items.len)
            return self.fail(self.walk_offset, "a column chunk ends before its rows do");
        const page = self.queue.items[self.queue_first];
        self.queue_first += 1;
        try self.check_crc(&page);
        self.begin_body(&page) catch |reason| {
            interrupt.describe_offset(page.offset);
            return reason;
        };
    }

    fn begin_body(self: *ChunkReader, page: *const Page) Error!void {
        switch (page.header.page) {
            .data => |header| try self.begin_v1(page, header),
            .data_v2 => |header| try self.begin_v2(page, header),
            .dictionary, .index => unreachable,
        }
    }

    fn begin_v1(self: *ChunkReader, page: *const Page, header: page_header.DataPage) Error!void {
        var bytes = try self.decompress(&self.page_bytes, page.body, page.header.uncompressed_size, true, page.offset);
        const repetition =
            try take_levels(&bytes, header.repetition_encoding, self.leaf.max_repetition, header.value_count);
        const definition =
            try take_levels(&bytes, header.definition_encoding, self.leaf.max_definition, header.value_count);
        try self.values.begin(header.encoding, bytes, header.value_count);
        self.current = .{
            .offset = page.offset,
            .first_row = page.first_row,
            .end_row = page.end_row(),
            .entries_left = header.value_count,
            .definition = definition,
            .repetition = repetition,
        };
    }

    fn begin_v2(self: *ChunkReader, page: *const Page, header: page_header.DataPageV2) Error!void {
        const level_size = @as(u64, header.repetition_size) + header.definition_size;
        if (level_size > page.body.len or level_size > page.header.uncompressed_size)
            return invalid("the levels of a page are longer than the page");
        const repetition_bytes = page.body[0..header.repetition_size];
        const definition_bytes = page.body[header.repetition_size..][0..header.definition_size];
        const compressed = page.body[@intCast(level_size)..];
        const size: u32 = @intCast(page.header.uncompressed_size - level_size);
        const bytes = try self.decompress(&self.page_bytes, compressed, size, header.is_compressed, page.offset);
        const count = header.value_count;
        try self.values.begin(header.encoding, bytes, count);
        self.current = .{
            .offset = page.offset,
            .first_row = page.first_row,
            .end_row = page.end_row(),
            .entries_left = count,
            .definition = if (self.leaf.max_definition == 0) .none else .{
                .rle = try .init(definition_bytes, level_width(self.leaf.max_definition)),
            },
            .repetition = if (self.leaf.max_repetition == 0) .none else .{
                .rle = try .init(repetition_bytes, level_width(self.leaf.max_repetition)),
            },
        };
    }

    fn check_crc(self: *const ChunkReader, page: *const Page) Error!void {
        if (!self.options.verify_crc) return;
        const expected = page.header.crc orelse return;
        if (std.hash.Crc32.hash(page.body) != expected)
            return self.fail(page.offset, "the checksum of a page does not match");
    }

    /// The body of a page as its writer had it: as it lies, or decompressed into `buffer`.
    fn decompress(
        self: *ChunkReader,
        buffer: *Buffer,
        body: []const u8,
        size: u32,
        compressed: bool,
        offset: u64,
    ) Error![]const u8 {
        const codec = self.chunk.codec;
        // Arrow before 3.0 compressed the values of v2 pages and said that it had not.
        const is_stored = codec == .uncompressed or (!compressed and body.len == size);
        if (is_stored) {
            if (body.len != size) return self.fail(offset, "a page is not as long as it says");
            return body;
        }
        if (size == 0) return body[0..0];
        if (size > ratio_max(codec) * (@as(u64, body.len) + slack))
            return self.fail(offset, "a page claims more bytes than its compression can give");
        buffer.clearRetainingCapacity();
        try buffer.ensureTotalCapacity(self.gpa, @as(usize, size) + slack);
        buffer.items.len = size;
        const target = buffer.items;
        const result = switch (codec) {
            .uncompressed => unreachable,
            .snappy => snappy.decompress(body, target),
            .gzip => gzip.decompress(body, target),
            .brotli => brotli.decompress(body, target),
            .lz4 => lz4.decompress_legacy(body, target),
            .zstd => zstd.decompress(body, target),
            .lz4_raw => lz4.decompress(body, target),
            .lzo => {
                interrupt.describe("the codec LZO is not supported; write the file with ZSTD or Snappy", .{});
                return error.NotSupported;
            },
        };
        result catch |reason| {
            interrupt.describe_offset(offset);
            return reason;
        };
        return target;
    }

    // ---- rows of a leaf that does not repeat ----

    /// Its levels are its validity.
    pub fn is_flat(self: *const ChunkReader) bool {
        return self.leaf.max_repetition == 0 and self.leaf.max_definition <= 1;
    }

    pub fn skip_to(self: *ChunkReader, row: u64) Error!void {
        try self.skip(row - self.row);
    }

    /// Leaves out `count` rows. Pages that lie wholly in them are not decompressed, and with an index
    /// they need not even be here.
    pub fn skip(self: *ChunkReader, count: u64) Error!void {
        const target = self.row + count;
        while (self.row < target) {
            try interrupt.check();
            if (self.current) |*current| {
                if (current.first_row > self.row) {
                    self.row = @min(target, current.first_row);
                } else if (current.end_row != null and current.end_row.? <= target) {
                    self.row = current.end_row.?;
                    self.drop_page();
                } else if (self.repeats()) {
                    try self.read_entries(null, @intCast(@min(target - self.row, level_block)));
                } else {
                    const step: u32 = @intCast(@min(target - self.row, current.entries_left));
                    try self.skip_entries(current, step);
                    self.row += step;
                }
            } else try self.skip_page(target);
        }
    }

    /// Leaves out pages that end at or before `row`. A page that reaches further is not begun for that.
    pub fn skip_pages(self: *ChunkReader, row: u64) void {
        if (self.repeats()) return;
        if (self.current) |current| {
            if (current.end_row.? > row) return;
            self.row = current.end_row.?;
            self.drop_page();
        }
        while (self.queue_first < self.queue.items.len) : (self.queue_first += 1) {
            const end = self.queue.items[self.queue_first].end_row().?;
            if (end > row) return;
            self.row = end;
            self.pages_skipped += 1;
        }
    }

    fn drop_page(self: *ChunkReader) void {
        self.current = null;
        self.ahead_first = 0;
        self.ahead_definitions.clearRetainingCapacity();
        self.ahead_repetitions.clearRetainingCapacity();
    }

    /// Leaves out the next page, or the gap before it, if they end at or before `target`; else begins it.
    fn skip_page(self: *ChunkReader, target: u64) Error!void {
        if (self.queue_first == self.queue.items.len) {
            // Rows whose pages were never asked for: only an index allows that.
            if (self.index == null) return self.fail(self.walk_offset, "a column chunk ends before its rows do");
            self.row = target;
            return;
        }
        const page = &self.queue.items[self.queue_first];
        if (page.first_row > self.row) {
            self.row = @min(target, page.first_row);
        } else if (page.end_row() != null and page.end_row().? <= target and
            self.ahead_first == self.ahead_definitions.items.len)
        {
            self.row = page.end_row().?;
            self.queue_first += 1;
            self.pages_skipped += 1;
        } else if (self.repeats()) {
            try self.read_entries(null, @intCast(@min(target - self.row, level_block)));
        } else try self.begin_page();
    }

    fn skip_entries(self: *ChunkReader, current: *Current, count: u32) Error!void {
        var valid = count;
        if (self.leaf.max_definition > 0) {
            valid = 0;
            var levels: [level_block]u8 = undefined;
            var left = count;
            while (left > 0) {
                const step = @min(left, level_block - slack);
                try current.definition.read(levels[0..step]);
                for (levels[0..step]) |level| valid += @intFromBool(level == self.leaf.max_definition);
                left -= step;
            }
        }
        try self.values.skip(valid);
        self.consume(count);
    }

    fn consume(self: *ChunkReader, count: u32) void {
        self.current.?.entries_left -= count;
        if (self.current.?.entries_left == 0) self.current = null;
    }

    /// The next `count` rows, behind those of `builder`.
    pub fn read(self: *ChunkReader, builder: *ColumnBuilder, count: u32) Error!void {
        assert(!self.repeats());
        const first = builder.row_count;
        var done: u32 = 0;
        while (done < count) {
            if (self.current == null) try self.begin_page();
            const current = &(self.current orelse continue); // an empty page
            if (current.entries_left == 0) {
                self.current = null;
                continue;
            }
            const step = @min(count - done, current.entries_left);
            const valid = try self.read_validity(builder, current, first + done, step);
            try self.values.append(builder, valid);
            self.consume(step);
            done += step;
        }
        try builder.settle(count);
        self.row += count;
    }

    /// Of the next `count` rows those at `rows`, which rise.
    pub fn read_selected(self: *ChunkReader, builder: *ColumnBuilder, count: u32, rows: []const u32) Error!void {
        assert(!self.repeats());
        const first = builder.row_count;
        var done: u32 = 0;
        var taken: usize = 0;
        while (done < count) {
            if (self.current == null) try self.begin_page();
            const current = &(self.current orelse continue);
            if (current.entries_left == 0) {
                self.current = null;
                continue;
            }
            const step = @min(count - done, current.entries_left);
            var end = taken;
            while (end < rows.len and rows[end] < done + step) end += 1;
            if (end == taken) {
                try self.skip_entries(current, step);
            } else {
                try self.take_rows(builder, first + @as(u32, @intCast(taken)), rows[taken..end], done, step);
                self.consume(step);
            }
            taken = end;
            done += step;
        }
        try builder.settle(@intCast(rows.len));
        self.row += count;
    }

    /// Chosen rows of the next `count` of the current page; `base` is the number of its first row.
    fn take_rows(
        self: *ChunkReader,
        builder: *ColumnBuilder,
        first: u32,
        rows: []const u32,
        base: u32,
        count: u32,
    ) Error!void {
        try self.places.ensureTotalCapacity(self.gpa, rows.len);
        self.places.items.len = rows.len;
        const places = self.places.items;
        const current = &self.current.?;
        const all_valid = self.leaf.max_definition == 0 or
            (self.leaf.max_definition == 1 and current.definition == .rle and
                try current.definition.rle.take_run(1, count));
        if (all_valid) {
            for (places, rows) |*place, row| place.* = row - base;
            _ = try builder.extend_validity(first, rows.len, false);
            return self.values.append_chosen(builder, count, places);
        }
        try self.part_validity.ensureTotalCapacity(self.gpa, bitmap.size(count) + slack);
        self.part_validity.items.len = bitmap.size(count);
        const valid_count = try self.read_levels(current, self.part_validity.items, 0, count);
        const bits = (try builder.extend_validity(first, rows.len, true)).?;
        const valid = bitmap.rank_rows(self.part_validity.items, rows, base, bits, first, places);
        try self.values.append_chosen(builder, valid_count, places[0..valid]);
    }

    const PageKinds = struct { coded: bool = false, other: bool = false };

    /// Which pages hold rows of `begin` to `end`, of those that are here and have not been read.
    fn page_kinds(self: *const ChunkReader, begin: u64, end: u64) PageKinds {
        var kinds: PageKinds = .{};
        if (self.current) |current|
            if (current.entries_left > 0 and current.first_row < end and current.end_row.? > begin) {
                if (self.values.has_codes()) kinds.coded = true else kinds.other = true;
            };
        for (self.queue.items[self.queue_first..]) |*page| {
            if (page.first_row >= end) break;
            if (page.end_row().? <= begin or page.row_count == 0) continue;
            const encoding = switch (page.header.page) {
                .data => |header| header.encoding,
                .data_v2 => |header| header.encoding,
                .dictionary, .index => unreachable,
            };
            if (encoding == .rle_dictionary or
                encoding == .plain_dictionary) kinds.coded = true else kinds.other = true;
        }
        return kinds;
    }

    /// Whether rows `begin` to `end`, which are here, are all in pages of codes.
    pub fn has_codes(self: *const ChunkReader, begin: u64, end: u64) bool {
        if (self.repeats() or self.leaf.max_definition > 1) return false;
        const kinds = self.page_kinds(begin, end);
        return kinds.coded and !kinds.other;
    }

    /// Bytes that one of the rows `begin` to `end` takes by way of the dictionary: at most, but on average
    /// where it is nested in others and its codes cannot be looked at first.
    pub fn coded_row_size(self: *const ChunkReader, begin: u64, end: u64) u64 {
        if (self.values.entry_size_max == 0) return 0;
        if (self.repeats() or self.leaf.max_definition > 1)
            return self.values.entry_size_mean() *| (self.chunk.value_count / self.options.row_count + 1);
        return if (self.page_kinds(begin, end).coded) self.values.entry_size_max else 0;
    }

    /// Adds the codes of the next `count` rows, for which `has_codes` holds, to `coded`.
    pub fn read_codes(self: *ChunkReader, coded: *CodedRows, count: u32) Error!void {
        try coded.reserve(self.gpa, count);
        var done: u32 = 0;
        while (done < count) {
            if (self.current == null) try self.begin_page();
            const current = &(self.current orelse continue);
            if (current.entries_left == 0) {
                self.current = null;
                continue;
            }
            const step = @min(count - done, current.entries_left);
            try self.read_page_codes(current, coded, step);
            self.consume(step);
            done += step;
        }
        self.row += count;
    }

    fn read_page_codes(self: *ChunkReader, current: *Current, coded: *CodedRows, count: u32) Error!void {
        var valid = count;
        if (self.leaf.max_definition == 0 or
            (current.definition == .rle and try current.definition.rle.take_run(1, count)))
        {
            coded.add_valid(count);
        } else {
            valid = try self.read_levels(current, coded.validity.items, coded.row_count, count);
            coded.add_rows(count, valid);
        }
        // A page of NULLs may lack codes altogether.
        if (self.values.has_codes()) return self.values.take_codes(coded, valid);
        if (valid > 0) return invalid("a page has fewer values than it says");
    }

    /// The values of rows `first` to `first + count` of those that `coded` knows, behind the rows of
    /// `builder`.
    pub fn append_coded(
        self: *ChunkReader,
        builder: *ColumnBuilder,
        coded: *CodedRows,
        first: u32,
        count: u32,
    ) Error!void {
        coded.expand();
        const codes = coded.codes_of(first, count);
        const before = builder.row_count;
        const bits = try builder.extend_validity(before, count, codes.len < count);
        if (coded.has_nulls) if (bits) |target| bitmap.copy(target, before, coded.validity.items, first, count);
        try self.values.append_of_dictionary(builder, codes);
        try builder.settle(count);
    }

    /// Definition levels as bits behind row `first`; returns how many rows have a value.
    fn read_validity(self: *ChunkReader, builder: *ColumnBuilder, current: *Current, first: u32, count: u32) Error!u32 {
        const max = self.leaf.max_definition;
        if (max == 0) {
            _ = try builder.extend_validity(first, count, false);
            return count;
        }
        if (current.definition == .rle and max == 1 and try current.definition.rle.take_run(1, count)) {
            _ = try builder.extend_validity(first, count, false);
            return count;
        }
        return self.read_levels(current, (try builder.extend_validity(first, count, true)).?, first, count);
    }

    /// Definition levels as bits from `first` on; returns how many are set.
    fn read_levels(self: *ChunkReader, current: *Current, bits: []u8, first: u32, count: u32) Error!u32 {
        const max = self.leaf.max_definition;
        if (current.definition == .rle and max == 1) return current.definition.rle.read_validity(bits, first, count);
        var valid: u32 = 0;
        var done: u32 = 0;
        while (done < count) {
            var levels: [level_block]u8 = undefined;
            const step = @min(count - done, level_block - slack);
            try current.definition.read(levels[0..step]);
            valid += rle.levels_to_validity(levels[0..step], max, bits, first + done);
            done += step;
        }
        return valid;
    }

    // ---- rows of a leaf that repeats, or whose parents may be NULL ----

    /// The levels of the next `count` rows into `definitions` and `repetitions`, and their values
    /// behind those of `builder`, not yet settled; without a builder they are passed over.
    pub fn read_entries(self: *ChunkReader, builder: ?*ColumnBuilder, count: u32) Error!void {
        self.definitions.clearRetainingCapacity();
        self.repetitions.clearRetainingCapacity();
        var rows: u32 = 0;
        while (true) {
            try interrupt.check();
            if (self.ahead_first == self.ahead_definitions.items.len and !try self.read_ahead()) break;
            const start = self.ahead_first;
            const end = self.row_boundary(&rows, count);
            try self.definitions.appendSlice(self.gpa, self.ahead_definitions.items[start..end]);
            try self.repetitions.appendSlice(self.gpa, self.ahead_repetitions.items[start..end]);
            try self.take_values(builder, self.ahead_definitions.items[start..end]);
            self.ahead_first = end;
            if (end < self.ahead_definitions.items.len) break;
            // Whole rows: nothing of the last one is in the next page.
            if (rows == count and self.current == null and self.ends_whole) break;
        }
        if (rows < count) return self.fail(self.walk_offset, "a column chunk ends before its rows do");
        self.row += count;
    }

    /// Where the entries end that belong to the rows asked for.
    fn row_boundary(self: *ChunkReader, rows: *u32, count: u32) usize {
        if (self.leaf.max_repetition == 0) {
            const step = @min(count - rows.*, self.ahead_definitions.items.len - self.ahead_first);
            rows.* += @intCast(step);
            return self.ahead_first + step;
        }
        for (self.ahead_repetitions.items[self.ahead_first..], self.ahead_first..) |level, i| {
            if (level != 0) continue;
            if (rows.* == count) return i;
            rows.* += 1;
        }
        return self.ahead_repetitions.items.len;
    }

    /// Values of these entries. They belong to the current page: levels are never decoded beyond it
    /// before its values have been taken.
    fn take_values(self: *ChunkReader, builder: ?*ColumnBuilder, definitions: []const u8) Error!void {
        var valid: u32 = 0;
        for (definitions) |level| valid += @intFromBool(level == self.leaf.max_definition);
        if (builder) |target| try self.values.append(target, valid) else try self.values.skip(valid);
        if (self.ahead_first + definitions.len < self.ahead_definitions.items.len) return;
        const current = self.current orelse return;
        if (current.entries_left > 0) return;
        self.ends_whole = current.end_row != null;
        self.current = null;
    }

    /// Decodes the levels of some more entries; false at the chunk's end.
    fn read_ahead(self: *ChunkReader) Error!bool {
        while (self.current == null) {
            if (self.queue_first == self.queue.items.len) return false;
            try self.begin_page();
            if (self.current.?.entries_left == 0) self.current = null;
        }
        const current = &self.current.?;
        const step = @min(current.entries_left, level_block);
        inline for (.{ &self.ahead_definitions, &self.ahead_repetitions }) |list| {
            try list.ensureTotalCapacity(self.gpa, level_block + slack);
            list.items.len = step;
        }
        try current.repetition.read(self.ahead_repetitions.items);
        try current.definition.read(self.ahead_definitions.items);
        self.ahead_first = 0;
        current.entries_left -= step;
        for (self.ahead_definitions.items) |level|
            if (level > self.leaf.max_definition) return invalid("a definition level is too high");
        for (self.ahead_repetitions.items) |level|
            if (level > self.leaf.max_repetition) return invalid("a repetition level is too high");
        return true;
    }

    fn fail(self: *const ChunkReader, offset: u64, message: []const u8) error{InvalidFormat} {
        _ = self;
        interrupt.describe_offset(offset);
        return invalid(message);
    }

    fn fail_here(self: *const ChunkReader, offset: u64) error{InvalidFormat} {
        _ = self;
        interrupt.describe_offset(offset);
        return error.InvalidFormat;
    }
};

/// The page that holds a row: the last one that begins at or before it.
fn page_of(index: *const page_index.OffsetIndex, row: u64) usize {
    var low: usize = 0;
    var high: usize = index.page_count();
    while (low + 1 < high) {
        const middle = (low + high) / 2;
        if (index.first_rows[middle] <= row) low = middle else high = middle;
    }
    return low;
}

/// The most that a codec makes of a byte. Snappy copies 64 bytes with 3, LZ4 255 with 1, deflate 258
/// with 2 bits; a zstd block of 4 bytes gives 128 KiB. A brotli meta-block of 8 bytes gives up to 16 MiB, of
/// which an eighth is believed: memory is taken before it is known what a page holds, and all of it would
/// let a damaged page of 1 KiB ask for 2 GiB. Pages of zeros from 64 MiB on are refused for it.
pub fn ratio_max(codec: metadata.Codec) u64 {
    return switch (codec) {
        .uncompressed => 1,
        .snappy => 32,
        .lz4, .lz4_raw => 256,
        .gzip => 1032,
        .zstd => 1 << 15,
        .brotli => 1 << 18,
        .lzo => 256,
    };
}

pub fn level_width(max: u8) u8 {
    return @intCast(std.math.log2_int_ceil(u16, @as(u16, max) + 1));
}

/// Cuts levels off the front of a v1 page.
fn take_levels(bytes: *[]const u8, encoding: metadata.Encoding, max: u8, count: u32) Error!Levels {
    // Writers name any encoding for levels that are not there.
    if (max == 0) return .none;
    const width = level_width(max);
    switch (encoding) {
        .rle => {
            if (bytes.len < 4) return invalid("the levels of a page are cut short");
            const size = std.mem.readInt(u32, bytes.*[0..4], .little);
            if (size > bytes.len - 4) return invalid("the levels of a page are longer than the page");
            const levels = bytes.*[4..][0..size];
            bytes.* = bytes.*[4 + size ..];
            return .{ .rle = try .init(levels, width) };
        },
        .bit_packed => {
            const size = (@as(u64, count) * width + 7) / 8;
            if (size > bytes.len) return invalid("the levels of a page are longer than the page");
            const levels = bytes.*[0..@intCast(size)];
            bytes.* = bytes.*[@intCast(size)..];
            return .{ .packed_bits = .init(levels, width) };
        },
        else => return invalid("the levels of a page have an encoding that is not for levels"),
    }
}

fn invalid(message: []const u8) error{InvalidFormat} {
    interrupt.describe("{s}", .{message});
    return error.InvalidFormat;
}
