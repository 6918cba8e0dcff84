//! Pages of many small chunks, each with some hundred or thousand values.
//!
//!     buffers     words of chunks │ chunks │ [dictionary] │ [repetition index]
//!     word        u16 or u32: bytes of the chunk / 8 − 1, << 4 │ log2 of its values; the last chunk has the rest
//!     chunk       u16 levels │ [u16 size of repetitions] │ [u16 size of definitions] │ sizes of value buffers,
//!                 u16 or u32 each │ pad │ repetitions │ pad │ definitions │ pad │ value buffers, each │ pad
//!     index       for every chunk: u64 rows that end in it │ u64 items of a row that goes on behind it
//!
//! Everything is padded to 8 bytes. A column without lists has a value for every row, so a row's chunk is found
//! by counting; with lists the index says where rows begin and end. Rows are numbered within the page.
const std = @import("std");
const blocks = @import("blocks.zig");
const interrupt = @import("../../core/interrupt.zig");
const layout_module = @import("layout.zig");
const levels = @import("levels.zig");
const page_module = @import("page.zig");
const segments_module = @import("../segments.zig");
const values_module = @import("values.zig");
const bitmap = @import("../../core/bitmap.zig");
const Column = @import("../../core/column.zig").Column;
const ColumnBuilder = @import("../../core/column_builder.zig").ColumnBuilder;
const Context = page_module.Context;
const MiniBlock = layout_module.MiniBlock;
const Range = segments_module.Range;
const Ranges = page_module.Ranges;
const refuse = page_module.refuse;

pub const Error = page_module.Error;

const Chunk = struct {
    /// In the buffer of chunks.
    offset: u64,
    value_count: u32,
    size: u32,
    /// The first row that begins in it or behind it.
    first_row: u64,
    /// Rows that end before it.
    rows_before: u64,
};

/// What has been read of the last chunk that was looked at.
const Opened = struct {
    chunk: usize,
    /// By value: whether it is one. Null: all are.
    valid: ?[]const u8,
    repetitions: ?[]const u16,
    definitions: ?[]const u16,
    entry_count: u32,
};

pub const MiniBlockPage = struct {
    context: Context,
    layout: *const MiniBlock,
    table: levels.Table,
    values: values_module.Reader,
    /// With one more behind the last.
    chunks: []const Chunk = &.{},
    dictionary: ?ColumnBuilder = null,
    entries: Column = undefined,
    opened: ?Opened = null,
    repetitions: std.ArrayList(u16) = .empty,
    definitions: std.ArrayList(u16) = .empty,
    valid: std.ArrayList(u8) = .empty,
    codes: std.ArrayList(u32) = .empty,

    pub fn init(context: Context, layout: *const MiniBlock) Error!MiniBlockPage {
        const has_lists = context.path.depth > 0;
        if (!has_lists and layout.item_count != context.page.row_count)
            return refuse("a page of {d} rows has {d} values", .{ context.page.row_count, layout.item_count });
        if (has_lists and layout.repetition_index_depth == 0) {
            interrupt.describe("a page of lists without an index of its rows is not supported", .{});
            return error.NotSupported;
        }
        return .{
            .context = context,
            .layout = layout,
            .table = try .of(context.arena, layout.layers, context.path),
            .values = if (layout.dictionary != null)
                try .init_codes(context.gpa, layout.values)
            else
                try .init(context.gpa, layout.values, context.leaf),
        };
    }

    pub fn deinit(self: *MiniBlockPage) void {
        const gpa = self.context.gpa;
        self.values.deinit();
        if (self.dictionary) |*builder| builder.deinit();
        self.repetitions.deinit(gpa);
        self.definitions.deinit(gpa);
        self.valid.deinit(gpa);
        self.codes.deinit(gpa);
    }

    // ---- tables ----

    /// Notes what must be here before anything is known of rows. True if it is, and has been read.
    pub fn prepare(self: *MiniBlockPage, missing: *Ranges) Error!bool {
        if (self.chunks.len > 0) return true;
        const before = missing.items.len;
        try self.context.want(try self.context.whole(0), missing);
        if (self.layout.dictionary != null) try self.context.want(try self.context.whole(2), missing);
        if (self.context.path.depth > 0) try self.context.want(try self.index_range(), missing);
        if (missing.items.len > before) return false;
        try self.read_chunks();
        if (self.layout.dictionary != null) try self.read_dictionary();
        return true;
    }

    fn index_range(self: *const MiniBlockPage) Error!Range {
        return self.context.whole(if (self.layout.dictionary != null) 3 else 2);
    }

    fn read_chunks(self: *MiniBlockPage) Error!void {
        @setRuntimeSafety(true);
        const words = try self.context.bytes(try self.context.whole(0));
        const word_size: usize = if (self.layout.has_large_chunks) 4 else 2;
        const count = words.len / word_size;
        if (words.len % word_size != 0) return refuse("a page's words of chunks are cut short", .{});
        const chunks = try self.context.arena.alloc(Chunk, count + 1);
        var left = self.layout.item_count;
        var offset: u64 = 0;
        for (chunks[0..count], 0..) |*chunk, i| {
            if (i % interrupt.block_rows == 0) try interrupt.check();
            const word = if (self.layout.has_large_chunks)
                std.mem.readInt(u32, words[i * 4 ..][0..4], .little)
            else
                std.mem.readInt(u16, words[i * 2 ..][0..2], .little);
            const is_last = i + 1 == count;
            const value_count = if (is_last or word & 15 == 0) left else @as(u64, 1) << @intCast(word & 15);
            if (value_count > left or value_count > std.math.maxInt(u32))
                return refuse("a page's chunks have more values than it", .{});
            const size = (@as(u64, word >> 4) + 1) * 8;
            chunk.* = .{
                .offset = offset,
                .value_count = @intCast(value_count),
                .size = std.math.cast(u32, size) orelse return refuse("a chunk of {d} bytes", .{size}),
                .first_row = self.layout.item_count - left,
                .rows_before = self.layout.item_count - left,
            };
            left -= value_count;
            offset += size;
        }
        const chunk_bytes = (try self.context.whole(1)).size;
        if (left > 0 or offset > chunk_bytes)
            return refuse("a page's chunks do not add up to its values or bytes", .{});
        chunks[count] = .{
            .offset = offset,
            .value_count = 0,
            .size = 0,
            .first_row = self.context.page.row_count,
            .rows_before = self.context.page.row_count,
        };
        if (self.context.path.depth > 0) try self.place_rows(chunks);
        self.chunks = chunks;
    }

    /// Where rows of lists begin and end.
    fn place_rows(self: *const MiniBlockPage, chunks: []Chunk) Error!void {
        @setRuntimeSafety(true);
        const index = try self.context.bytes(try self.index_range());
        const stride = (@as(u64, self.layout.repetition_index_depth) + 1) * 8;
        const count = chunks.len - 1;
        if (stride > index.len or index.len != stride * count)
            return refuse("an index of rows is not one of {d} chunks", .{count});
        var ended: u64 = 0;
        var goes_on = false;
        for (chunks[0..count], 0..) |*chunk, i| {
            chunk.rows_before = ended;
            chunk.first_row = ended + @intFromBool(goes_on);
            const entry = index[i * @as(usize, @intCast(stride)) ..][0..@intCast(stride)];
            const rows = std.mem.readInt(u64, entry[0..8], .little);
            if (rows > self.context.page.row_count - ended)
                return refuse("an index of rows counts more than there are", .{});
            const rest = std.mem.readInt(u64, entry[8..16], .little) > 0;
            if (goes_on and rows == 0 and !rest) return refuse("an index of rows loses one of them", .{});
            ended += rows;
            goes_on = rest;
        }
        if (ended != self.context.page.row_count or goes_on)
            return refuse("an index of rows does not count all of them", .{});
    }

    fn read_dictionary(self: *MiniBlockPage) Error!void {
        const bytes = try self.context.bytes(try self.context.whole(2));
        var builder: ColumnBuilder = try .init(self.context.gpa, self.context.leaf.type);
        errdefer builder.deinit();
        const count = self.layout.dictionary_count;
        try blocks.read_values(self.context.gpa, self.layout.dictionary.?, bytes, count, self.context.leaf, &builder);
        try builder.settle(count);
        self.entries = try builder.finish(self.context.arena);
        self.dictionary = builder;
    }

    /// The last chunk that begins with `row` or before, of those in which a row begins.
    fn chunk_of(self: *const MiniBlockPage, row: u64) usize {
        var low: usize = 0;
        var high = self.chunks.len - 1;
        while (low + 1 < high) {
            const middle = (low + high) / 2;
            if (self.chunks[middle].first_row <= row) low = middle else high = middle;
        }
        return low;
    }

    /// The chunk in which the rows before `end` have all ended, and the first behind it.
    fn chunk_behind(self: *const MiniBlockPage, end: u64) usize {
        var low: usize = 0;
        var high = self.chunks.len - 1;
        while (low < high) {
            const middle = (low + high) / 2;
            if (self.chunks[middle + 1].rows_before >= end) high = middle else low = middle + 1;
        }
        return low + 1;
    }

    // ---- bytes ----

    fn chunk_range(self: *const MiniBlockPage, first: usize, behind: usize) Error!Range {
        return self.context.part(1, self.chunks[first].offset, self.chunks[behind].offset);
    }

    /// Notes what is missing of rows `begin` to `end`: chunks side by side as one range.
    pub fn need(self: *MiniBlockPage, begin: u64, end: u64, missing: *Ranges) Error!void {
        var first: ?usize = null;
        const behind = self.chunk_behind(end);
        for (self.chunk_of(begin)..behind) |chunk| {
            const is_here = self.context.is_here(try self.chunk_range(chunk, chunk + 1));
            if (!is_here) {
                first = first orelse chunk;
            } else if (first) |from| {
                try missing.append(self.context.gpa, try self.chunk_range(from, chunk));
                first = null;
            }
        }
        if (first) |from| try missing.append(self.context.gpa, try self.chunk_range(from, behind));
    }

    /// How far the chunks from `begin` on reach with at most so many bytes: the row behind, more than `begin`.
    pub fn reach(self: *const MiniBlockPage, begin: u64, size: u64) u64 {
        const first = self.chunk_of(begin);
        var low = first + 1;
        var high = self.chunks.len - 1;
        while (low < high) {
            const middle = (low + high + 1) / 2;
            if (self.chunks[middle].offset - self.chunks[first].offset <= size) low = middle else high = middle - 1;
        }
        while (self.chunks[low].rows_before <= begin and low + 1 < self.chunks.len) low += 1;
        return @max(self.chunks[low].rows_before, begin + 1);
    }

    /// Where in the file the bytes lie that rows from `row` on need.
    pub fn first_used(self: *const MiniBlockPage, row: u64) Error!u64 {
        return (try self.chunk_range(self.chunk_of(row), self.chunks.len - 1)).offset;
    }

    // ---- chunks ----

    fn open(self: *MiniBlockPage, number: usize) Error!*const Opened {
        if (self.opened) |*opened| if (opened.chunk == number) return opened;
        self.opened = null;
        const chunk = &self.chunks[number];
        var parts: Parts = .{ .bytes = try self.context.bytes(try self.chunk_range(number, number + 1)) };
        const level_count = try parts.int(u16);
        const repetition_size: u32 = if (self.layout.repetition != null) try parts.int(u16) else 0;
        const definition_size: u32 = if (self.layout.definition != null) try parts.int(u16) else 0;
        var sizes: [layout_module.value_buffers_max]u32 = undefined;
        const buffer_count = self.layout.value_buffer_count;
        for (sizes[0..buffer_count]) |*size| {
            size.* = if (self.layout.has_large_chunks) try parts.int(u32) else try parts.int(u16);
        }
        const has_levels = self.layout.repetition != null or self.layout.definition != null;
        const entry_count: u32 = if (has_levels) level_count else chunk.value_count;
        var opened: Opened = .{
            .chunk = number,
            .valid = null,
            .repetitions = null,
            .definitions = null,
            .entry_count = entry_count,
        };
        if (self.layout.repetition) |encoding| {
            try self.repetitions.resize(self.context.gpa, entry_count);
            try blocks.read_levels(self.context.gpa, encoding, try parts.take(repetition_size), self.repetitions.items);
            try self.table.check_repetitions(self.repetitions.items);
            opened.repetitions = self.repetitions.items;
        }
        if (self.layout.definition) |encoding| {
            try self.definitions.resize(self.context.gpa, entry_count);
            try blocks.read_levels(self.context.gpa, encoding, try parts.take(definition_size), self.definitions.items);
            try self.table.check(self.definitions.items);
            opened.definitions = self.definitions.items;
            opened.valid = try self.valid_values(self.definitions.items);
        }
        const visible = self.table.count_visible(opened.definitions, entry_count);
        if (visible != chunk.value_count)
            return refuse("a chunk of {d} values has levels of {d}", .{ chunk.value_count, visible });
        var buffers: [layout_module.value_buffers_max][]const u8 = undefined;
        for (buffers[0..buffer_count], sizes[0..buffer_count]) |*buffer, size| buffer.* = try parts.take(size);
        try self.values.open(buffers[0..buffer_count], chunk.value_count);
        self.opened = opened;
        return &self.opened.?;
    }

    /// A bit for every value; null where none is NULL.
    fn valid_values(self: *MiniBlockPage, codes: []const u16) Error!?[]const u8 {
        try self.valid.resize(self.context.gpa, bitmap.size(codes.len) + 8);
        const bits = self.valid.items;
        if (!page_module.mark_valid(codes, bits)) return null;
        if (self.table.visible_max + 1 == self.table.definitions.len) return bits;
        // Entries without a value have no bit.
        var count: usize = 0;
        @memset(bits, 0);
        for (codes) |code| {
            if (code > self.table.visible_max) continue;
            if (code == 0) bitmap.set(bits.ptr, count);
            count += 1;
        }
        return bits;
    }

    // ---- rows ----

    /// Rows of a column without lists or structures around it, behind those of `builder`.
    pub fn read(self: *MiniBlockPage, builder: *ColumnBuilder, begin: u64, count: u32) Error!void {
        var row = begin;
        const end = begin + count;
        while (row < end) {
            try interrupt.check();
            const number = self.chunk_of(row);
            const chunk = &self.chunks[number];
            const opened = try self.open(number);
            const first: u32 = @intCast(row - chunk.first_row);
            const taken: u32 = @intCast(@min(end - row, chunk.value_count - first));
            if (opened.entry_count != chunk.value_count) return refuse("a chunk has other levels than values", .{});
            try page_module.add_validity(builder, opened.valid, first, taken);
            try self.append_values(builder, first, taken);
            try builder.settle(taken);
            row += taken;
        }
    }

    /// Values of the open chunk, behind the dense ones.
    fn append_values(self: *MiniBlockPage, builder: *ColumnBuilder, first: u32, count: u32) Error!void {
        const valid = self.opened.?.valid;
        if (self.dictionary == null) {
            try self.values.read_range(first, count, builder);
            return self.values.check_valid(valid, first);
        }
        try self.codes.resize(self.context.gpa, count);
        const codes = self.codes.items;
        const entry_count = self.layout.dictionary_count;
        if (try self.values.read_code_range(first, codes) >= entry_count and count > 0) {
            for (codes, first..) |*code, place| {
                if (code.* < entry_count) continue;
                if (valid == null or bitmap.get(valid.?.ptr, place))
                    return refuse("a code is beyond its dictionary", .{});
                code.* = 0;
            }
            if (entry_count == 0) return page_module.append_empty(builder, count);
        }
        try builder.append_dense(&self.entries, codes);
    }

    /// Levels and values of rows, values not yet settled.
    pub fn read_entries(self: *MiniBlockPage, builder: *ColumnBuilder, begin: u64, count: u32) Error!void {
        const end = begin + count;
        const behind = self.chunk_behind(end);
        for (self.chunk_of(begin)..behind) |number| {
            try interrupt.check();
            const opened = try self.open(number);
            const first = find_row(self, opened, begin);
            const last = find_row(self, opened, end);
            const repetitions = if (opened.repetitions) |codes| codes[first..last] else null;
            const definitions = if (opened.definitions) |codes| codes[first..last] else null;
            try self.table.append(self.context.gpa, self.context.lists, repetitions, definitions, last - first);
            const before = if (opened.definitions) |codes| codes[0..first] else null;
            const first_value = self.table.count_visible(before, first);
            const taken = self.table.count_visible(definitions, last - first);
            if (taken > 0) try self.append_values(builder, first_value, taken);
        }
    }

    /// The entry of a chunk with which `row` begins; all of them if it begins behind it, none if before.
    fn find_row(self: *const MiniBlockPage, opened: *const Opened, row: u64) u32 {
        var next = self.chunks[opened.chunk].first_row;
        if (row < next) return 0;
        const repetitions = opened.repetitions orelse return @intCast(@min(row - next, opened.entry_count));
        for (repetitions, 0..) |code, i| {
            if (!self.table.begins_row(code)) continue;
            if (next == row) return @intCast(i);
            next += 1;
        }
        return opened.entry_count;
    }
};

/// A chunk from front to back.
const Parts = struct {
    bytes: []const u8,
    position: usize = 0,
    in_header: bool = true,

    fn int(self: *Parts, comptime T: type) Error!T {
        @setRuntimeSafety(true);
        if (@sizeOf(T) > self.bytes.len - self.position)
            return refuse("a chunk of {d} bytes is cut short", .{self.bytes.len});
        defer self.position += @sizeOf(T);
        return std.mem.readInt(T, self.bytes[self.position..][0..@sizeOf(T)], .little);
    }

    /// What comes next begins at a multiple of eight.
    fn take(self: *Parts, size: u32) Error![]const u8 {
        @setRuntimeSafety(true);
        const begin = std.mem.alignForward(usize, self.position, 8);
        if (begin > self.bytes.len or size > self.bytes.len - begin)
            return refuse("a chunk of {d} bytes is cut short", .{self.bytes.len});
        self.position = begin + size;
        return self.bytes[begin..][0..size];
    }
};
