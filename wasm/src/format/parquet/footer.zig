//! The flat footer: what a Parquet footer says, checked, in one blob that is never parsed again.
//! `flatten` makes it from Thrift (flatten.zig); the engine and the host (querymode/format/parquet/flat_footer.py)
//! read it in place, and it is what the footer cache keeps in memory and on disk.
//!
//!      0  FooterHeader (abi.zig)
//!     48  frames      one per array: u8 (width | base width << 4), base in that many bytes
//!         created_by  cut to 200 bytes
//!         columns     per top-level column: u16 name length, name, type (wire form of core/schema.zig)
//!         records     per node, all columns in preorder (a node has the children its type has):
//!                     u8  bit 0 may be NULL; leaves: bit 1 ordered, bits 2–4 physical type,
//!                         bits 5–7 conversion
//!                     u32 bytes of a value, for fixed_len_byte_array only
//!         arrays      in the order of `Array`, each entry `width` bytes: value = base + entry
//!         bounds      bytes of minima and maxima
//!         8 zero bytes, so that every entry can be read as eight bytes and masked
//!
//! Arrays have one entry per row group (`first_row` one more), per leaf, or per chunk, where the
//! chunk of row group g and leaf l is entry g × leaves + l. A width is 0 to 8; 0 means that all
//! values are the base. Entries whose chunk lacks the value (see `Flags`) are 0.
//!
//! Levels are not stored: schema_tree.zig says how they follow from shape and NULLs.
//!
//! `init` checks everything once, since a blob may come from a damaged cache file: afterwards every
//! span lies within the file, every bound within the blob, and every leaf is one that decoders take.
const std = @import("std");
const abi = @import("../../abi.zig");
const interrupt = @import("../../core/interrupt.zig");
const metadata = @import("metadata.zig");
const schema = @import("../../core/schema.zig");
const schema_tree = @import("schema_tree.zig");
const statistics_module = @import("statistics.zig");
const Cursor = @import("../../core/cursor.zig").Cursor;
const assert = std.debug.assert;
const Chunk = metadata.Chunk;
const Leaf = metadata.Leaf;
const Node = metadata.Node;

pub const flatten = @import("flatten.zig").flatten;

pub const Error = error{ InvalidFormat, OutOfMemory };

pub const header_size = @sizeOf(abi.FooterHeader);
pub const padding = abi.footer_padding;
/// Behind a Parquet footer: its size and "PAR1".
pub const tail_size = 8;
pub const created_by_size_max = 200;
/// No file is larger, so that sums of an offset and a size never overflow.
pub const file_size_max: u64 = 1 << 60;

pub const Array = abi.FooterArray;
pub const array_count = abi.footer_array_count;
pub const chunk_array_first = @backingInt(Array.start);
pub const chunk_array_count = array_count - chunk_array_first;

/// Which flags an entry needs to mean anything.
pub fn required(array: Array) Flags {
    return switch (array) {
        .null_count => .{ .null_count = true },
        .nan_count => .{ .nan_count = true },
        .column_index_offset, .column_index_size => .{ .column_index = true },
        .offset_index_offset, .offset_index_size => .{ .offset_index = true },
        .bloom_offset, .bloom_size => .{ .bloom = true },
        .min_size => .{ .min = true },
        .max_size => .{ .max = true },
        else => .{},
    };
}

/// These take bytes for every row group and every chunk, so that a small blob cannot claim many.
pub fn width_min(array: Array) u8 {
    return if (array == .first_row or array == .start) 1 else 0;
}

pub const Flags = abi.FooterFlags;

pub fn has_all(flags: Flags, wanted: Flags) bool {
    const bits: u16 = @bitCast(wanted);
    return @as(u16, @bitCast(flags)) & bits == bits;
}

pub const ColumnOrder = statistics_module.ColumnOrder;

/// A node as the blob has it.
pub const Record = packed struct(u8) {
    nullable: bool,
    ordered: bool = false,
    physical: u3 = 0,
    conversion: u3 = 0,
};

/// What `Chunk` has no room for.
pub const ChunkExtras = struct {
    /// Bit n: the chunk lists encoding n. Bit 15: one that no bit stands for.
    encodings: u16,
    all_dictionary: bool,
    /// Both 0 where the file does not say that there are some of each.
    dictionary_pages: u64,
    other_pages: u64,
    deprecated_bounds: bool,
};

/// The last 8 bytes of a Parquet file; returns the size of the Thrift footer before them.
pub fn check_tail(tail: *const [8]u8) error{ InvalidFormat, NotSupported }!u32 {
    if (std.mem.eql(u8, tail[4..], "PARE")) {
        interrupt.describe("the file is encrypted", .{});
        return error.NotSupported;
    }
    if (!std.mem.eql(u8, tail[4..], "PAR1")) {
        interrupt.describe("the file does not end like a Parquet file", .{});
        return error.InvalidFormat;
    }
    return std.mem.readInt(u32, tail[0..4], .little);
}

/// Where an array lies and how its entries become values.
const Frame = struct {
    base: u64 = 0,
    mask: u64 = 0,
    position: usize = 0,
    width: u8 = 0,
};

pub const FlatFooter = struct {
    bytes: []const u8,
    /// Top-level columns.
    column_count: u32,
    leaf_count: u32,
    row_group_count: u32,
    file_size: u64,
    row_count: u64,
    created_by: []const u8,
    has_key_values: bool,
    columns: []const u8,
    records: []const u8,
    bounds: []const u8,
    frames: [array_count]Frame,

    /// `blob` stays the caller's and must outlive the result.
    pub fn init(blob: []const u8) error{InvalidFormat}!FlatFooter {
        var self = read_parts(blob) catch return damaged();
        self.check_schema() catch return damaged();
        self.check_row_groups() catch return damaged();
        self.check_chunks() catch return damaged();
        return self;
    }

    pub fn row_group(self: *const FlatFooter, index: u32) metadata.RowGroup {
        assert(index < self.row_group_count);
        const first = self.value(.first_row, index);
        return .{ .first_row = first, .row_count = self.value(.first_row, index + 1) - first };
    }

    pub fn chunk(self: *const FlatFooter, group: u32, leaf: u32) Chunk {
        const index = self.chunk_index(group, leaf);
        const flags = self.flags_at(index);
        const start = self.value(.group_start, group) + self.value(.start, index);
        return .{
            .codec = @fromBackingInt(@intCast(self.value(.codec, index))),
            .start = start,
            .compressed_size = self.value(.compressed_size, index),
            .uncompressed_size = self.value(.uncompressed_size, index),
            .value_count = self.row_group(group).row_count +% unzigzag(self.value(.extra_values, index)),
            .data_page_offset = start + self.value(.dictionary_size, index),
            .has_dictionary = flags.dictionary,
            .column_index = if (flags.column_index)
                self.span(.column_index_offset, .column_index_size, index)
            else
                null,
            .offset_index = if (flags.offset_index)
                self.span(.offset_index_offset, .offset_index_size, index)
            else
                null,
            .bloom = if (flags.bloom) self.span(.bloom_offset, .bloom_size, index) else null,
            .statistics = self.statistics(flags, index),
        };
    }

    pub fn chunk_extras(self: *const FlatFooter, group: u32, leaf: u32) ChunkExtras {
        const index = self.chunk_index(group, leaf);
        const flags = self.flags_at(index);
        return .{
            .encodings = @intCast(self.value(.encodings, index)),
            .all_dictionary = flags.all_dictionary,
            .dictionary_pages = self.value(.dictionary_pages, index),
            .other_pages = self.value(.other_pages, index),
            .deprecated_bounds = flags.deprecated,
        };
    }

    pub fn column_order(self: *const FlatFooter, leaf: u32) ColumnOrder {
        assert(leaf < self.leaf_count);
        return @fromBackingInt(@intCast(self.value(.column_order, leaf)));
    }

    pub fn nodes(self: *const FlatFooter, arena: std.mem.Allocator) error{OutOfMemory}![]const Node {
        return (try self.tree(arena)).nodes;
    }

    pub fn leaves(self: *const FlatFooter, arena: std.mem.Allocator) error{OutOfMemory}![]const Leaf {
        return (try self.tree(arena)).leaves;
    }

    /// Names point into the blob.
    pub fn tree(self: *const FlatFooter, arena: std.mem.Allocator) error{OutOfMemory}!schema_tree.Tree {
        var builder: TreeBuilder = .{
            .arena = arena,
            .records = .init(self.records),
            .leaves = try .initCapacity(arena, self.leaf_count),
        };
        var columns: Cursor = .init(self.columns);
        const result = try arena.alloc(Node, self.column_count);
        for (result) |*node| {
            const name = trusted([]const u8, schema.read_name(&columns));
            const data_type = schema.read_type(&columns, arena) catch |err| switch (err) {
                error.OutOfMemory => return error.OutOfMemory,
                error.InvalidFormat => unreachable, // init has read it
            };
            node.* = try builder.node(name, data_type, 0, 0);
        }
        return .{ .nodes = result, .leaves = builder.leaves.items };
    }

    fn chunk_index(self: *const FlatFooter, group: u32, leaf: u32) usize {
        assert(group < self.row_group_count);
        assert(leaf < self.leaf_count);
        return @as(usize, group) * self.leaf_count + leaf;
    }

    inline fn value(self: *const FlatFooter, comptime array: Array, index: usize) u64 {
        const frame = &self.frames[@backingInt(array)];
        const entry = std.mem.readInt(u64, self.bytes[frame.position + index * frame.width ..][0..8], .little);
        return frame.base +% (entry & frame.mask);
    }

    fn flags_at(self: *const FlatFooter, index: usize) Flags {
        return @bitCast(@as(u16, @intCast(self.value(.flags, index))));
    }

    fn span(self: *const FlatFooter, comptime offset: Array, comptime size: Array, index: usize) metadata.Span {
        return .{ .offset = self.value(offset, index), .size = @intCast(self.value(size, index)) };
    }

    fn statistics(self: *const FlatFooter, flags: Flags, index: usize) metadata.Statistics {
        const min_size: usize = if (flags.min) @intCast(self.value(.min_size, index)) else 0;
        const start: usize = if (flags.min or flags.max) @intCast(self.value(.bounds_offset, index)) else 0;
        const max_start = start + min_size;
        return .{
            .min = if (flags.min) self.bounds[start..max_start] else null,
            .max = if (flags.max) self.bounds[max_start..][0..@intCast(self.value(.max_size, index))] else null,
            .min_exact = flags.min_exact,
            .max_exact = flags.max_exact,
            .null_count = if (flags.null_count) self.value(.null_count, index) else null,
            .nan_count = if (flags.nan_count) self.value(.nan_count, index) else null,
        };
    }

    // ---- checks ----

    fn check_schema(self: *const FlatFooter) error{InvalidFormat}!void {
        if (self.column_count > abi.column_count_max) return error.InvalidFormat;
        var checker: SchemaChecker = .{ .columns = .init(self.columns), .records = .init(self.records) };
        for (0..self.column_count) |_| {
            _ = try schema.read_name(&checker.columns);
            try checker.node(0);
        }
        if (checker.leaf_count != self.leaf_count) return error.InvalidFormat;
        if (checker.columns.remaining() != 0 or checker.records.remaining() != 0) return error.InvalidFormat;
        for (0..self.leaf_count) |leaf| {
            if (self.value(.column_order, leaf) > 2) return error.InvalidFormat;
        }
    }

    fn check_row_groups(self: *FlatFooter) error{InvalidFormat}!void {
        var last = self.value(.first_row, 0);
        if (last != 0) return error.InvalidFormat;
        for (1..@as(usize, self.row_group_count) + 1) |index| {
            const next = self.value(.first_row, index);
            if (next < last or next > file_size_max) return error.InvalidFormat;
            if (self.value(.group_start, index - 1) > self.file_size) return error.InvalidFormat;
            last = next;
        }
        self.row_count = last;
    }

    fn check_chunks(self: *const FlatFooter) error{InvalidFormat}!void {
        var index: usize = 0;
        for (0..self.row_group_count) |group| {
            const group_start = self.value(.group_start, group);
            const row_count = self.row_group(@intCast(group)).row_count;
            // One group of leaves at a time, so that no pass leaves the cache.
            const end = index + self.leaf_count;
            try self.check_places(index, end, group_start, row_count);
            try self.check_kinds(index, end);
            try self.check_spans(.column_index_offset, .column_index_size, .{ .column_index = true }, index, end);
            try self.check_spans(.offset_index_offset, .offset_index_size, .{ .offset_index = true }, index, end);
            try self.check_spans(.bloom_offset, .bloom_size, .{ .bloom = true }, index, end);
            try self.check_bounds(index, end);
            index = end;
        }
    }

    fn check_places(
        self: *const FlatFooter,
        begin: usize,
        end: usize,
        group_start: u64,
        row_count: u64,
    ) error{InvalidFormat}!void {
        const room = self.file_size - group_start;
        for (begin..end) |index| {
            const start = self.value(.start, index);
            const size = self.value(.compressed_size, index);
            if (start > room or size > room - start) return error.InvalidFormat;
            if (self.value(.dictionary_size, index) > size) return error.InvalidFormat;
            const value_count = row_count +% unzigzag(self.value(.extra_values, index));
            if (value_count > file_size_max) return error.InvalidFormat;
            if (self.value(.uncompressed_size, index) > file_size_max) return error.InvalidFormat;
        }
    }

    fn check_kinds(self: *const FlatFooter, begin: usize, end: usize) error{InvalidFormat}!void {
        for (begin..end) |index| {
            if (self.value(.codec, index) > 7) return error.InvalidFormat;
            if (self.value(.encodings, index) > 0xFFFF) return error.InvalidFormat;
            if (self.value(.flags, index) > 0x0FFF) return error.InvalidFormat;
        }
    }

    fn check_spans(
        self: *const FlatFooter,
        comptime offset_array: Array,
        comptime size_array: Array,
        wanted: Flags,
        begin: usize,
        end: usize,
    ) error{InvalidFormat}!void {
        for (begin..end) |index| {
            if (!has_all(self.flags_at(index), wanted)) continue;
            const offset = self.value(offset_array, index);
            const size = self.value(size_array, index);
            if (offset > self.file_size or size > self.file_size - offset) return error.InvalidFormat;
            if (size > std.math.maxInt(u32)) return error.InvalidFormat;
        }
    }

    fn check_bounds(self: *const FlatFooter, begin: usize, end: usize) error{InvalidFormat}!void {
        for (begin..end) |index| {
            const flags = self.flags_at(index);
            if (!flags.min and !flags.max) continue;
            const offset = self.value(.bounds_offset, index);
            const min_size = if (flags.min) self.value(.min_size, index) else 0;
            const max_size = if (flags.max) self.value(.max_size, index) else 0;
            if (min_size > 255 or max_size > 255) return error.InvalidFormat;
            if (offset > self.bounds.len or min_size + max_size > self.bounds.len - offset) return error.InvalidFormat;
        }
    }
};

fn damaged() error{InvalidFormat} {
    @branchHint(.cold);
    interrupt.describe("the flattened footer is damaged", .{});
    return error.InvalidFormat;
}

/// Cuts the blob into its parts; what they say is checked later.
fn read_parts(blob: []const u8) error{InvalidFormat}!FlatFooter {
    var cursor: Cursor = .init(blob);
    const header = std.mem.bytesToValue(abi.FooterHeader, (try cursor.read_bytes(header_size))[0..header_size]);
    if (header.magic != abi.footer_magic or header.version != abi.footer_version) return error.InvalidFormat;
    if (header.has_key_values > 1 or header.size != blob.len) return error.InvalidFormat;
    if (header.file_size > file_size_max) return error.InvalidFormat;
    var self: FlatFooter = undefined;
    self.bytes = blob;
    self.has_key_values = header.has_key_values == 1;
    self.column_count = header.column_count;
    self.leaf_count = header.leaf_count;
    self.row_group_count = header.row_group_count;
    self.file_size = header.file_size;
    var frames: Cursor = .init(try cursor.read_bytes(header.frames_size));
    self.created_by = try cursor.read_bytes(header.created_by_size);
    self.columns = try cursor.read_bytes(header.columns_size);
    self.records = try cursor.read_bytes(header.records_size);
    for (&self.frames, 0..) |*frame, number| {
        const array: Array = @fromBackingInt(@intCast(number));
        frame.* = try read_frame(&frames);
        if (frame.width < width_min(array)) return error.InvalidFormat;
        frame.position = cursor.position;
        _ = try cursor.read_bytes(try array_size(array, self.row_group_count, self.leaf_count, frame.width));
    }
    if (frames.remaining() != 0) return error.InvalidFormat;
    self.bounds = try cursor.read_bytes(header.bounds_size);
    if (cursor.remaining() != padding) return error.InvalidFormat;
    return self;
}

fn read_frame(cursor: *Cursor) error{InvalidFormat}!Frame {
    const head = try cursor.read_int(u8);
    const width = head & 15;
    const base_width = head >> 4;
    if (width > 8 or base_width > 8) return error.InvalidFormat;
    var base: [8]u8 = @splat(0);
    @memcpy(base[0..base_width], try cursor.read_bytes(base_width));
    return .{ .base = std.mem.readInt(u64, &base, .little), .mask = mask_of(width), .width = width };
}

pub fn mask_of(width: u8) u64 {
    assert(width <= 8);
    return if (width == 0) 0 else ~@as(u64, 0) >> @intCast(64 - 8 * @as(u32, width));
}

pub fn array_size(array: Array, row_group_count: u32, leaf_count: u32, width: u8) error{InvalidFormat}!u64 {
    const entries: u64 = switch (array) {
        .first_row => @as(u64, row_group_count) + 1,
        .group_start => row_group_count,
        .column_order => leaf_count,
        else => @as(u64, row_group_count) * leaf_count,
    };
    return std.math.mul(u64, entries, width) catch error.InvalidFormat;
}

pub fn zigzag(number: u64) u64 {
    return (number << 1) ^ (0 -% (number >> 63));
}

pub fn unzigzag(number: u64) u64 {
    return (number >> 1) ^ (0 -% (number & 1));
}

/// Walks types and records side by side without building them.
const SchemaChecker = struct {
    columns: Cursor,
    records: Cursor,
    leaf_count: u64 = 0,

    fn node(self: *SchemaChecker, depth: u32) schema_error!void {
        if (depth > abi.type_depth_max) return error.InvalidFormat;
        const record: Record = @bitCast(try self.records.read_int(u8));
        const tag = try self.columns.read_enum(schema.TypeTag);
        switch (tag) {
            .list, .map, .structure => {
                if (record != Record{ .nullable = record.nullable }) return error.InvalidFormat;
                switch (tag) {
                    .list => try self.node(depth + 1),
                    .map => for (0..2) |_| try self.node(depth + 1),
                    else => try self.structure(depth + 1),
                }
            },
            else => try self.leaf(tag, record),
        }
    }

    fn structure(self: *SchemaChecker, depth: u32) schema_error!void {
        const count = try self.columns.read_int(u16);
        if (count == 0) return error.InvalidFormat;
        for (0..count) |_| {
            _ = try schema.read_name(&self.columns);
            try self.node(depth);
        }
    }

    fn leaf(self: *SchemaChecker, tag: schema.TypeTag, record: Record) schema_error!void {
        // Types without children take no memory.
        var nothing: std.heap.FixedBufferAllocator = .init(&.{});
        const data_type = schema.read_type_parameters(&self.columns, nothing.allocator(), tag, 0) catch
            return error.InvalidFormat;
        const found = try read_leaf(&self.records, record, data_type, 0, 0);
        if (!schema_tree.leaf_is_sound(&found)) return error.InvalidFormat;
        self.leaf_count += 1;
    }

    const schema_error = error{InvalidFormat};
};

fn read_leaf(
    records: *Cursor,
    record: Record,
    data_type: schema.DataType,
    definition: u8,
    repetition: u8,
) error{InvalidFormat}!Leaf {
    const physical: metadata.PhysicalType = @fromBackingInt(@intCast(record.physical));
    return .{
        .physical = physical,
        .type_length = if (physical == .fixed_len_byte_array) try records.read_int(u32) else 0,
        .conversion = @fromBackingInt(@intCast(record.conversion)),
        .max_definition = definition,
        .max_repetition = repetition,
        .type = data_type,
        .ordered = record.ordered,
    };
}

/// What `init` has read once cannot fail the second time.
fn trusted(comptime T: type, result: error{InvalidFormat}!T) T {
    return result catch unreachable;
}

/// Nodes from types and records; levels as schema_tree.zig explains.
const TreeBuilder = struct {
    arena: std.mem.Allocator,
    records: Cursor,
    leaves: std.ArrayList(Leaf),

    fn node(
        self: *TreeBuilder,
        name: []const u8,
        data_type: schema.DataType,
        outer: u8,
        repetition: u8,
    ) error{OutOfMemory}!Node {
        const record: Record = @bitCast(trusted(u8, self.records.read_int(u8)));
        var result: Node = .{
            .name = name,
            .type = data_type,
            .definition = outer + @intFromBool(record.nullable),
            .nullable = record.nullable,
            .leaf_first = @intCast(self.leaves.items.len),
            .leaf_count = 0,
        };
        switch (data_type.tag) {
            .list, .map => {
                result.repetition = repetition + 1;
                result.element_definition = result.definition + 1;
                result.children = try self.children(data_type, result.element_definition, result.repetition);
            },
            .structure => result.children = try self.children(data_type, result.definition, repetition),
            else => self.leaves.appendAssumeCapacity(
                trusted(Leaf, read_leaf(&self.records, record, data_type, result.definition, repetition)),
            ),
        }
        result.leaf_count = @intCast(self.leaves.items.len - result.leaf_first);
        return result;
    }

    fn children(
        self: *TreeBuilder,
        data_type: schema.DataType,
        definition: u8,
        repetition: u8,
    ) error{OutOfMemory}![]const Node {
        const result = try self.arena.alloc(Node, data_type.children.len);
        for (result, data_type.children) |*to, from| to.* = try self.node(from.name, from.type, definition, repetition);
        return result;
    }
};

test check_tail {
    defer interrupt.forget();
    try std.testing.expectEqual(0x01020304, try check_tail("\x04\x03\x02\x01PAR1"));
    try std.testing.expectError(error.NotSupported, check_tail("\x04\x03\x02\x01PARE"));
    try std.testing.expectEqualStrings(
        "the file is encrypted",
        interrupt.control.detail.message[0..interrupt.control.detail.message_size],
    );
    try std.testing.expectError(error.InvalidFormat, check_tail("\x04\x03\x02\x01LANC"));
}

test zigzag {
    for ([_]u64{ 0, 1, 5, 1 << 62, 1 << 63, ~@as(u64, 0), ~@as(u64, 76) }) |number| {
        try std.testing.expectEqual(number, unzigzag(zigzag(number)));
    }
    try std.testing.expectEqual(1, zigzag(~@as(u64, 0)));
}

test mask_of {
    try std.testing.expectEqual(0, mask_of(0));
    try std.testing.expectEqual(0xFFFFFF, mask_of(3));
    try std.testing.expectEqual(~@as(u64, 0), mask_of(8));
}
