//! Thrift's FileMetaData to the flat footer that footer.zig draws, in one pass over the bytes.
//!
//!     FileMetaData    2 schema  3 rows (not looked at)  4 row groups  5 key-value metadata
//!                     6 created_by  7 column_orders  8, 9 encryption
//!     RowGroup        1 column chunks  3 rows
//!     ColumnChunk     as in footer_chunk.zig
//!
//! A chunk is first read into one `Row` of numbers, all of them together memory of about the size
//! of the footer itself; there is no allocation per field. What places data must be right, or the
//! file is refused. What is only advice (statistics, indexes, bloom filters) is left out when it
//! cannot be right. The rows of the file are those of its row groups: some writers put 0 into
//! FileMetaData.
const std = @import("std");
const abi = @import("../../abi.zig");
const bound_cut = @import("bound_cut.zig");
const footer = @import("footer.zig");
const Arena = @import("../../core/arena.zig").Arena;
const ChunkFields = @import("footer_chunk.zig").ChunkFields;
const interrupt = @import("../../core/interrupt.zig");
const metadata = @import("metadata.zig");
const schema = @import("../../core/schema.zig");
const schema_tree = @import("schema_tree.zig");
const statistics = @import("statistics.zig");
const thrift = @import("thrift.zig");
const assert = std.debug.assert;
const Array = footer.Array;
const Flags = footer.Flags;
const Leaf = metadata.Leaf;
const Node = metadata.Node;
const Kind = thrift.Kind;
const Reader = thrift.Reader;

pub const Error = error{ InvalidFormat, NotSupported, OutOfMemory, Cancelled };

/// The chunk's entry of each array from `Array.start` on.
const Row = [footer.chunk_array_count]u64;

// Which fields are read, by id.
const file_kinds = [_]Kind{ .none, .none, .list, .none, .list, .list, .binary, .list, .structure, .binary };
const row_group_kinds = [_]Kind{ .none, .list, .none, .int };
/// A chunk takes no less: its structure, and in it the fields that must be there.
const chunk_size_min = 15;

/// The blob, and everything on the way to it, is in `arena`. `raw` is the Thrift structure alone.
pub fn flatten(arena: std.mem.Allocator, raw: []const u8, file_size: u64) Error![]const u8 {
    if (file_size > footer.file_size_max) return invalid("the file is larger than files are", .{});
    var parser: Parser = .{
        .arena = arena,
        .reader = .init(raw),
        .file_size = file_size,
        .data_size = file_size -| (raw.len + footer.tail_size),
    };
    try parser.read_file();
    return write(&parser);
}

const Parser = struct {
    arena: std.mem.Allocator,
    reader: Reader,
    file_size: u64,
    /// Bytes before the footer. What reaches into it was cut, or lies.
    data_size: u64,
    tree: ?schema_tree.Tree = null,
    created_by: []const u8 = "",
    has_key_values: bool = false,
    /// Per leaf; those behind its end have none.
    column_orders: []u8 = &.{},
    /// Rows before each row group, and all of them.
    first_rows: std.ArrayList(u64) = .empty,
    group_starts: std.ArrayList(u64) = .empty,
    rows: std.ArrayList(Row) = .empty,
    bounds: std.ArrayList(u8) = .empty,

    fn read_file(self: *Parser) Error!void {
        const reader = &self.reader;
        var has_row_groups = false;
        var fields = reader.structure();
        while (try fields.next_field()) |field| switch (field.known(&file_kinds)) {
            2 => try self.read_schema(field.type),
            4 => {
                if (has_row_groups) return invalid("the footer lists its row groups twice", .{});
                has_row_groups = true;
                try self.read_row_groups(field.type);
            },
            5 => {
                self.has_key_values = true;
                try reader.skip(field.type);
            },
            6 => self.created_by = try reader.read_binary(field.type),
            7 => try self.read_column_orders(field.type),
            8, 9 => return encrypted(),
            else => try reader.skip(field.type),
        };
        if (self.tree == null) return invalid("the footer has no schema", .{});
        if (!has_row_groups) try self.first_rows.append(self.arena, 0);
        if (misses_dictionary_headers(self.created_by)) self.add_dictionary_headers();
    }

    fn read_schema(self: *Parser, field_type: thrift.Type) Error!void {
        if (self.tree != null) return invalid("the footer has two schemas", .{});
        const count = try self.reader.read_list_of(field_type, .structure);
        if (count > schema_tree.element_count_max) return unsupported("the schema has too many elements");
        const elements = try self.arena.alloc(schema_tree.Element, count);
        for (elements) |*element| element.* = try schema_tree.read_element(&self.reader);
        self.tree = try schema_tree.build(self.arena, elements);
    }

    fn read_column_orders(self: *Parser, field_type: thrift.Type) Error!void {
        const count = try self.reader.read_list_of(field_type, .structure);
        self.column_orders = try self.arena.alloc(u8, count);
        for (self.column_orders) |*order| {
            order.* = @backingInt(footer.ColumnOrder.undefined);
            var fields = self.reader.structure();
            while (try fields.next_field()) |field| {
                if (field.id == 1 or field.id == 2) order.* = @intCast(field.id);
                try self.reader.skip(field.type);
            }
        }
    }

    fn read_row_groups(self: *Parser, field_type: thrift.Type) Error!void {
        const tree = self.tree orelse return invalid("the footer has row groups before a schema", .{});
        const count = try self.reader.read_list_of(field_type, .structure);
        // Counts come from the bytes: reserve no more than these bytes could hold.
        const chunk_count = @as(u64, count) * tree.leaves.len;
        if (chunk_count > self.reader.remaining() / chunk_size_min)
            return invalid("the footer has fewer column chunks than columns", .{});
        try self.rows.ensureTotalCapacityPrecise(self.arena, @intCast(chunk_count));
        try self.first_rows.ensureTotalCapacityPrecise(self.arena, @as(usize, count) + 1);
        try self.group_starts.ensureTotalCapacityPrecise(self.arena, count);
        var row_count: u64 = 0;
        for (0..count) |_| {
            try interrupt.check();
            self.first_rows.appendAssumeCapacity(row_count);
            row_count += try self.read_row_group(tree.leaves);
            if (row_count > footer.file_size_max)
                return invalid("the row groups have more rows than there can be", .{});
        }
        self.first_rows.appendAssumeCapacity(row_count);
    }

    fn read_row_group(self: *Parser, leaves: []const Leaf) Error!u64 {
        const first = self.rows.items.len;
        var row_count: ?i64 = null;
        var has_columns = leaves.len == 0;
        var fields = self.reader.structure();
        while (try fields.next_field()) |field| switch (field.known(&row_group_kinds)) {
            1 => {
                if (self.rows.items.len != first) return invalid("a row group lists its columns twice", .{});
                has_columns = true;
                try self.read_chunks(field.type, leaves);
            },
            3 => row_count = try self.reader.read_int(i64, field.type),
            else => try self.reader.skip(field.type),
        };
        if (!has_columns) return invalid("a row group has no columns", .{});
        const rows = std.math.cast(
            u64,
            row_count orelse return invalid("a row group does not say how many rows it has", .{}),
        ) orelse
            return invalid("a row group has fewer than no rows", .{});
        // No byte of the file stands for them, and there is nothing to read until they are all counted.
        if (leaves.len == 0 and rows > 0) return invalid("the file has rows but no columns", .{});
        self.finish_row_group(self.rows.items[first..], rows);
        return rows;
    }

    /// Numbers that are relative to their row group can be written only now.
    fn finish_row_group(self: *Parser, rows: []Row, row_count: u64) void {
        var start = self.file_size;
        for (rows) |*row| start = @min(start, at(row, .start).*);
        for (rows) |*row| {
            at(row, .start).* -= start;
            const values = at(row, .extra_values);
            values.* = footer.zigzag(values.* -% row_count);
        }
        self.group_starts.appendAssumeCapacity(if (rows.len == 0) 0 else start);
    }

    fn read_chunks(self: *Parser, field_type: thrift.Type, leaves: []const Leaf) Error!void {
        const count = try self.reader.read_list_of(field_type, .structure);
        if (count != leaves.len) return invalid("a row group has {d} columns, the schema {d}", .{ count, leaves.len });
        for (leaves, 0..) |*leaf, index| {
            const row = self.rows.addOneAssumeCapacity();
            row.* = @splat(0);
            self.read_chunk(row, leaf) catch |err| {
                interrupt.describe_column(@intCast(index));
                return err;
            };
        }
    }

    fn read_chunk(self: *Parser, row: *Row, leaf: *const Leaf) Error!void {
        // A copy that only inlined functions see is kept in registers.
        var reader = self.reader;
        var chunk: ChunkFields = .{};
        try chunk.read(&reader);
        self.reader = reader;
        if (chunk.is_encrypted) return encrypted();
        if (chunk.is_external) return unsupported("a column of the file is in another file");
        if (!chunk.has_metadata) return invalid("a column chunk has no metadata", .{});
        try self.fill_row(row, leaf, &chunk);
    }

    fn fill_row(self: *Parser, row: *Row, leaf: *const Leaf, chunk: *const ChunkFields) Error!void {
        if (chunk.physical != @backingInt(leaf.physical))
            return invalid("a column chunk has another type than the schema", .{});
        if (chunk.codec < 0 or chunk.codec > 7) {
            interrupt.describe("a column is compressed by an unknown codec ({d})", .{chunk.codec});
            return error.NotSupported;
        }
        var flags: Flags = .{ .all_dictionary = chunk.all_dictionary() };
        at(row, .codec).* = @intCast(chunk.codec);
        at(row, .encodings).* = chunk.encodings;
        if (chunk.dictionary_page_count > 0 and chunk.other_page_count > 0) {
            at(row, .dictionary_pages).* = chunk.dictionary_page_count;
            at(row, .other_pages).* = chunk.other_page_count;
        }
        at(row, .extra_values).* = std.math.cast(u64, chunk.value_count) orelse
            return invalid("a column chunk has fewer than no values", .{});
        at(row, .uncompressed_size).* = std.math.cast(u64, chunk.uncompressed_size) orelse
            return invalid("a column chunk has a negative size", .{});
        if (chunk.value_count > footer.file_size_max or chunk.uncompressed_size > footer.file_size_max)
            return invalid("a column chunk claims more than there can be", .{});
        try self.place(row, chunk, &flags);
        flags.column_index = self.put_span(
            row,
            .column_index_offset,
            .column_index_size,
            chunk.column_index_offset,
            chunk.column_index_size,
        );
        flags.offset_index = self.put_span(
            row,
            .offset_index_offset,
            .offset_index_size,
            chunk.offset_index_offset,
            chunk.offset_index_size,
        );
        flags.bloom = chunk.bloom_offset > 0 and self.put_bloom(row, chunk.bloom_offset, chunk.bloom_size);
        try self.put_statistics(row, leaf, chunk, &flags);
        at(row, .flags).* = @as(u16, @bitCast(flags));
    }

    /// Some writers leave the dictionary's offset at 0, and some the first data page's; some give
    /// the offset of a dictionary that is not in front of the data. Only what makes sense is used:
    /// then the chunk begins with the dictionary, else with what is called the first data page. (A
    /// dictionary page may turn up there all the same.)
    fn place(self: *Parser, row: *Row, chunk: *const ChunkFields, flags: *Flags) Error!void {
        const data = std.math.cast(u64, chunk.data_page_offset) orelse
            return invalid("a column chunk begins before the file", .{});
        const dictionary: u64 = if (chunk.dictionary_page_offset > 0) @intCast(chunk.dictionary_page_offset) else 0;
        flags.dictionary = dictionary != 0 and (dictionary < data or data == 0);
        const start = if (flags.dictionary) dictionary else data;
        const size = std.math.cast(u64, chunk.compressed_size) orelse
            return invalid("a column chunk has a negative size", .{});
        if (start > self.data_size or size > self.data_size - start) {
            interrupt.describe(
                "a column chunk of {d} bytes at offset {d} is not within the {d} bytes before the footer",
                .{ size, start, self.data_size },
            );
            return error.InvalidFormat;
        }
        at(row, .start).* = start;
        at(row, .compressed_size).* = size;
        const distance = data -| start;
        at(row, .dictionary_size).* = if (distance <= size) distance else 0;
    }

    /// An index that is not within the file is none.
    fn put_span(self: *Parser, row: *Row, offset_array: Array, size_array: Array, offset: i64, size: i32) bool {
        if (offset < 0 or size <= 0) return false;
        if (offset > self.file_size or @as(u64, @intCast(size)) > self.file_size - @as(u64, @intCast(offset)))
            return false;
        at(row, offset_array).* = @intCast(offset);
        at(row, size_array).* = @intCast(size);
        return true;
    }

    /// A size that cannot be is as good as none: the filter's own header has it, too.
    fn put_bloom(self: *Parser, row: *Row, offset: i64, size: i32) bool {
        if (size > 0 and self.put_span(row, .bloom_offset, .bloom_size, offset, size)) return true;
        at(row, .bloom_offset).* = @intCast(offset);
        return offset < self.file_size;
    }

    fn put_statistics(
        self: *Parser,
        row: *Row,
        leaf: *const Leaf,
        chunk: *const ChunkFields,
        flags: *Flags,
    ) Error!void {
        const found = chunk.statistics.values;
        if (found.null_count) |null_count| {
            flags.null_count = null_count <= chunk.value_count;
            if (flags.null_count) at(row, .null_count).* = null_count;
        }
        if (found.nan_count) |nan_count| {
            flags.nan_count = nan_count <= chunk.value_count;
            if (flags.nan_count) at(row, .nan_count).* = nan_count;
        }
        if (!leaf.ordered) return;
        var buffer: bound_cut.CutBuffer = undefined;
        var min = found.min;
        var max = found.max;
        flags.min_exact = min != null and found.min_exact;
        flags.max_exact = max != null and found.max_exact;
        if (bound_cut.is_cut_needed(min)) {
            min = bound_cut.cut_min(leaf, chunk.statistics.deprecated, min.?);
            flags.min_exact = false;
        }
        if (bound_cut.is_cut_needed(max)) {
            max = bound_cut.cut_max(leaf, chunk.statistics.deprecated, max.?, &buffer);
            flags.max_exact = false;
        }
        flags.min = min != null;
        flags.max = max != null;
        flags.deprecated = chunk.statistics.deprecated and (flags.min or flags.max);
        if (flags.min or flags.max) try self.put_bounds(row, min orelse "", max orelse "");
    }

    /// Bounds of few values are the same in row group after row group.
    fn put_bounds(self: *Parser, row: *Row, min: []const u8, max: []const u8) Error!void {
        at(row, .min_size).* = min.len;
        at(row, .max_size).* = max.len;
        const leaf_count = self.tree.?.leaves.len;
        if (self.rows.items.len > leaf_count) {
            const before = &self.rows.items[self.rows.items.len - 1 - leaf_count];
            const offset: usize = @intCast(at(before, .bounds_offset).*);
            if (at(before, .min_size).* == min.len and at(before, .max_size).* == max.len) {
                const both = self.bounds.items[offset..][0 .. min.len + max.len];
                if (std.mem.eql(u8, both[0..min.len], min) and std.mem.eql(u8, both[min.len..], max)) {
                    at(row, .bounds_offset).* = offset;
                    return;
                }
            }
        }
        at(row, .bounds_offset).* = self.bounds.items.len;
        try self.bounds.ensureUnusedCapacity(self.arena, min.len + max.len);
        self.bounds.appendSliceAssumeCapacity(min);
        self.bounds.appendSliceAssumeCapacity(max);
    }

    /// parquet-mr up to 1.2.8 did not count the dictionary page's header. What is read too much is
    /// behind the last value and nobody looks at it.
    fn add_dictionary_headers(self: *Parser) void {
        const header_size_guess = 100;
        const leaf_count = self.tree.?.leaves.len;
        for (self.rows.items, 0..) |*row, index| {
            const flags: Flags = @bitCast(@as(u16, @intCast(at(row, .flags).*)));
            if (!flags.dictionary) continue;
            const size = at(row, .compressed_size);
            const end = self.group_starts.items[index / leaf_count] + at(row, .start).* + size.*;
            size.* += @min(header_size_guess, self.file_size - end);
        }
    }
};

fn misses_dictionary_headers(created_by: []const u8) bool {
    const writer: statistics.Writer = .parse(created_by);
    return writer.application == .parquet_mr and std.mem.order(u32, &writer.version, &.{ 1, 2, 9 }) == .lt;
}

inline fn at(row: anytype, array: Array) @TypeOf(&row[0]) {
    return &row[@as(usize, @backingInt(array)) - footer.chunk_array_first];
}

// ---- writing ----

/// The least and the greatest value of an array, from which base and width follow.
const Range = struct {
    least: u64 = std.math.maxInt(u64),
    greatest: u64 = 0,

    inline fn include(self: *Range, value: u64) void {
        self.least = @min(self.least, value);
        self.greatest = @max(self.greatest, value);
    }

    fn of(values: []const u64) Range {
        var range: Range = .{};
        for (values) |value| range.include(value);
        return range;
    }

    fn base(self: Range) u64 {
        return if (self.least > self.greatest) 0 else self.least;
    }

    fn width(self: Range) u8 {
        return if (self.least > self.greatest) 0 else byte_width(self.greatest - self.least);
    }
};

fn byte_width(number: u64) u8 {
    return @intCast((64 - @as(u32, @clz(number)) + 7) / 8);
}

fn write(parser: *const Parser) Error![]const u8 {
    const tree = parser.tree.?;
    var plan: Plan = .{
        .parser = parser,
        .tree = tree,
        .created_by = parser.created_by[0..@min(parser.created_by.len, footer.created_by_size_max)],
        .orders = try column_orders(parser, tree.leaves.len),
    };
    plan.measure_arrays();
    for (tree.nodes) |*node| {
        plan.columns_size += 2 + node.name.len + 1 + schema.type_parameters_size(node.type);
        plan.records_size += records_size(node, tree.leaves);
    }
    const size = plan.size();
    if (size > std.math.maxInt(u32)) return unsupported("the footer is too large");
    const blob = try parser.arena.alloc(u8, @intCast(size));
    var writer: Writer = .{ .target = blob };
    writer.all(&plan);
    assert(writer.position == blob.len);
    return blob;
}

fn column_orders(parser: *const Parser, leaf_count: usize) error{OutOfMemory}![]const u64 {
    const orders = try parser.arena.alloc(u64, leaf_count);
    for (orders, 0..) |*order, leaf| {
        order.* = if (leaf < parser.column_orders.len) parser.column_orders[leaf] else 0;
    }
    return orders;
}

fn records_size(node: *const Node, leaves: []const Leaf) u64 {
    if (node.is_leaf()) return if (leaves[node.leaf_first].physical == .fixed_len_byte_array) 5 else 1;
    var size: u64 = 1;
    for (node.children) |*child| size += records_size(child, leaves);
    return size;
}

/// What goes into the blob, and how many bytes of it.
const Plan = struct {
    parser: *const Parser,
    tree: schema_tree.Tree,
    created_by: []const u8,
    orders: []const u64,
    columns_size: u64 = 0,
    records_size: u64 = 0,
    frames_size: u64 = 0,
    arrays_size: u64 = 0,
    ranges: [footer.array_count]Range = @splat(.{}),

    fn group_count(self: *const Plan) u32 {
        return @intCast(self.parser.group_starts.items.len);
    }

    fn leaf_count(self: *const Plan) u32 {
        return @intCast(self.tree.leaves.len);
    }

    fn base(self: *const Plan, array: Array) u64 {
        return self.ranges[@backingInt(array)].base();
    }

    fn width(self: *const Plan, array: Array) u8 {
        return @max(self.ranges[@backingInt(array)].width(), footer.width_min(array));
    }

    fn size(self: *const Plan) u64 {
        return footer.header_size + self.frames_size + self.created_by.len + self.columns_size + self.records_size +
            self.arrays_size + self.parser.bounds.items.len + footer.padding;
    }

    fn measure_arrays(self: *Plan) void {
        self.ranges[@backingInt(Array.first_row)] = .of(self.parser.first_rows.items);
        self.ranges[@backingInt(Array.group_start)] = .of(self.parser.group_starts.items);
        self.ranges[@backingInt(Array.column_order)] = .of(self.orders);
        for (self.parser.rows.items) |*row| self.measure_row(row);
        for (0..footer.array_count) |number| {
            const array: Array = @fromBackingInt(@intCast(number));
            self.frames_size += 1 + byte_width(self.base(array));
            self.arrays_size += footer.array_size(array, self.group_count(), self.leaf_count(), self.width(array)) catch
                unreachable;
        }
    }

    fn measure_row(self: *Plan, row: *const Row) void {
        const flags: Flags = @bitCast(@as(u16, @intCast(at(row, .flags).*)));
        inline for (footer.chunk_array_first..footer.array_count) |number| {
            const array: Array = @fromBackingInt(number);
            if (footer.has_all(flags, footer.required(array))) self.ranges[number].include(at(row, array).*);
        }
    }
};

const Writer = struct {
    target: []u8,
    position: usize = 0,

    fn all(self: *Writer, plan: *const Plan) void {
        const parser = plan.parser;
        self.header(plan);
        for (0..footer.array_count) |number| self.frame(plan, @fromBackingInt(@intCast(number)));
        self.bytes(plan.created_by);
        for (plan.tree.nodes) |*node| self.column(node);
        for (plan.tree.nodes) |*node| self.records(node, plan.tree.leaves);
        self.array(plan, .first_row, parser.first_rows.items);
        self.array(plan, .group_start, parser.group_starts.items);
        self.array(plan, .column_order, plan.orders);
        for (footer.chunk_array_first..footer.array_count) |number| {
            self.chunk_array(plan, @fromBackingInt(@intCast(number)), parser.rows.items);
        }
        self.bytes(parser.bounds.items);
        self.bytes(&@as([footer.padding]u8, @splat(0)));
    }

    fn header(self: *Writer, plan: *const Plan) void {
        self.bytes(std.mem.asBytes(&abi.FooterHeader{
            .has_key_values = @intFromBool(plan.parser.has_key_values),
            .created_by_size = @intCast(plan.created_by.len),
            .size = @intCast(self.target.len),
            .column_count = @intCast(plan.tree.nodes.len),
            .leaf_count = plan.leaf_count(),
            .row_group_count = plan.group_count(),
            .columns_size = @intCast(plan.columns_size),
            .records_size = @intCast(plan.records_size),
            .bounds_size = @intCast(plan.parser.bounds.items.len),
            .frames_size = @intCast(plan.frames_size),
            .file_size = plan.parser.file_size,
        }));
        assert(self.position == footer.header_size);
    }

    fn bytes(self: *Writer, source: []const u8) void {
        @memcpy(self.target[self.position..][0..source.len], source);
        self.position += source.len;
    }

    fn int(self: *Writer, comptime T: type, value: T) void {
        std.mem.writeInt(T, self.target[self.position..][0..@sizeOf(T)], value, .little);
        self.position += @sizeOf(T);
    }

    fn frame(self: *Writer, plan: *const Plan, array_tag: Array) void {
        const base = std.mem.nativeToLittle(u64, plan.base(array_tag));
        const base_width = byte_width(plan.base(array_tag));
        self.int(u8, plan.width(array_tag) | base_width << 4);
        self.bytes(std.mem.asBytes(&base)[0..base_width]);
    }

    fn column(self: *Writer, node: *const Node) void {
        self.int(u16, @intCast(node.name.len));
        self.bytes(node.name);
        self.int(u8, @backingInt(node.type.tag));
        self.position += schema.write_type_parameters(self.target[self.position..], node.type);
    }

    fn records(self: *Writer, node: *const Node, leaves: []const Leaf) void {
        var record: footer.Record = .{ .nullable = node.nullable };
        if (!node.is_leaf()) {
            self.int(u8, @bitCast(record));
            for (node.children) |*child| self.records(child, leaves);
            return;
        }
        const leaf = &leaves[node.leaf_first];
        record.ordered = leaf.ordered;
        record.physical = @intCast(@backingInt(leaf.physical));
        record.conversion = @intCast(@backingInt(leaf.conversion));
        self.int(u8, @bitCast(record));
        if (leaf.physical == .fixed_len_byte_array) self.int(u32, leaf.type_length);
    }

    /// Entries are written as eight bytes each, and the next one overwrites what is too much. What
    /// follows the arrays has at least eight bytes, and is written after them.
    fn entry(self: *Writer, width: u8, value: u64) void {
        std.mem.writeInt(u64, self.target[self.position..][0..8], value, .little);
        self.position += width;
    }

    fn array(self: *Writer, plan: *const Plan, array_tag: Array, values: []const u64) void {
        const base = plan.base(array_tag);
        const width = plan.width(array_tag);
        if (width != 0) for (values) |value| self.entry(width, value - base);
    }

    fn chunk_array(self: *Writer, plan: *const Plan, array_tag: Array, rows: []const Row) void {
        const base = plan.base(array_tag);
        const width = plan.width(array_tag);
        const required = footer.required(array_tag);
        if (width != 0) for (rows) |*row| {
            const flags: Flags = @bitCast(@as(u16, @intCast(at(row, .flags).*)));
            self.entry(width, if (footer.has_all(flags, required)) at(row, array_tag).* - base else 0);
        };
    }
};

fn invalid(comptime words: []const u8, arguments: anytype) error{InvalidFormat} {
    @branchHint(.cold);
    interrupt.describe(words, arguments);
    return error.InvalidFormat;
}

fn unsupported(comptime words: []const u8) error{NotSupported} {
    @branchHint(.cold);
    interrupt.describe(words, .{});
    return error.NotSupported;
}

fn encrypted() error{NotSupported} {
    return unsupported("the file is encrypted");
}

// ---- tests ----

const testing = std.testing;

/// Writes Thrift, as much as footers need.
const TestThrift = struct {
    buffer: [1 << 16]u8 = undefined,
    size: usize = 0,

    fn byte(self: *TestThrift, value: u8) void {
        self.buffer[self.size] = value;
        self.size += 1;
    }

    fn varint(self: *TestThrift, value: u64) void {
        var rest = value;
        while (rest >= 0x80) : (rest >>= 7) self.byte(@as(u8, @truncate(rest)) | 0x80);
        self.byte(@intCast(rest));
    }

    fn head(self: *TestThrift, id: i16, field_type: thrift.Type) void {
        self.byte(@backingInt(field_type));
        self.varint(footer.zigzag(@bitCast(@as(i64, id))));
    }

    fn int(self: *TestThrift, id: i16, value: i64) void {
        self.head(id, .i64);
        self.varint(footer.zigzag(@bitCast(value)));
    }

    fn text(self: *TestThrift, id: i16, value: []const u8) void {
        self.head(id, .binary);
        self.varint(value.len);
        for (value) |character| self.byte(character);
    }

    fn list(self: *TestThrift, id: i16, count: usize) void {
        self.head(id, .list);
        self.byte(0xF0 | @backingInt(thrift.Type.structure));
        self.varint(count);
    }

    fn bytes(self: *const TestThrift) []const u8 {
        return self.buffer[0..self.size];
    }

    fn element(
        self: *TestThrift,
        name: []const u8,
        physical: ?metadata.PhysicalType,
        child_count: i64,
        converted: i64,
    ) void {
        if (physical) |tag| self.int(1, @backingInt(tag));
        self.int(3, 1);
        self.text(4, name);
        self.int(5, child_count);
        if (converted >= 0) self.int(6, converted);
        self.byte(0);
    }
};

const TestChunk = struct {
    physical: metadata.PhysicalType = .int64,
    values: i64 = 10,
    start: i64 = 4,
    size: i64 = 100,
    dictionary: ?i64 = null,
    min: ?[]const u8 = null,
    max: ?[]const u8 = null,
    path: ?[]const u8 = null,
    codec: i64 = 1,
    column_index: ?[2]i64 = null,

    fn write(self: TestChunk, out: *TestThrift) void {
        if (self.path) |path| out.text(1, path);
        out.head(3, .structure);
        out.int(1, @backingInt(self.physical));
        out.int(4, self.codec);
        out.int(5, self.values);
        out.int(6, self.size * 2);
        out.int(7, self.size);
        out.int(9, self.start);
        if (self.dictionary) |offset| out.int(11, offset);
        out.head(12, .structure);
        out.int(3, 1);
        if (self.max) |max| out.text(5, max);
        if (self.min) |min| out.text(6, min);
        out.head(8, .boolean_true);
        out.byte(0);
        out.byte(0);
        if (self.column_index) |span| {
            out.int(6, span[0]);
            out.int(7, span[1]);
        }
        out.byte(0);
    }
};

/// A footer of one row group of ten rows with a column of int64 (or of text) for each chunk.
fn test_footer(out: *TestThrift, chunks: []const TestChunk) void {
    out.list(2, chunks.len + 1);
    out.element("root", null, @intCast(chunks.len), -1);
    for (chunks) |chunk| out.element("c", chunk.physical, 0, if (chunk.physical == .byte_array) 0 else -1);
    out.list(4, 1);
    out.list(1, chunks.len);
    for (chunks) |chunk| chunk.write(out);
    out.int(3, 10);
    out.byte(0);
    out.text(6, "somebody");
    out.byte(0);
}

fn flatten_chunks(arena: std.mem.Allocator, chunks: []const TestChunk) !footer.FlatFooter {
    const out = try arena.create(TestThrift);
    out.* = .{};
    test_footer(out, chunks);
    return .init(try flatten(arena, out.bytes(), 1000));
}

test "chunks come back" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const flat = try flatten_chunks(arena.allocator(), &.{
        .{ .start = 50, .dictionary = 4, .min = "abcdefgh", .max = "ABCDEFGH", .column_index = .{ 300, 20 } },
        .{ .start = 204, .dictionary = 0, .values = 7, .codec = 6 },
        .{ .start = 0, .dictionary = 404, .column_index = .{ 990, 20 } },
        .{ .start = 504, .dictionary = 700, .size = 40, .physical = .byte_array, .min = "" },
    });
    try testing.expectEqual(10, flat.row_count);
    try testing.expectEqualStrings("somebody", flat.created_by);
    const first = flat.chunk(0, 0);
    try testing.expectEqual(.{ 4, 50, true, 100, 200, 10, .snappy }, .{
        first.start,             first.data_page_offset, first.has_dictionary, first.compressed_size,
        first.uncompressed_size, first.value_count,      first.codec,
    });
    try testing.expectEqualStrings("abcdefgh", first.statistics.min.?);
    try testing.expectEqualStrings("ABCDEFGH", first.statistics.max.?);
    try testing.expectEqual(.{ true, false, 1, null }, .{
        first.statistics.min_exact,  first.statistics.max_exact,
        first.statistics.null_count, first.statistics.nan_count,
    });
    try testing.expectEqual(metadata.Span{ .offset = 300, .size = 20 }, first.column_index.?);
    const second = flat.chunk(0, 1);
    try testing.expectEqual(.{ 204, 204, false, 7, .zstd }, .{
        second.start, second.data_page_offset, second.has_dictionary, second.value_count, second.codec,
    });
    try testing.expectEqual(null, second.column_index);
    // The first data page is not known: pages are walked from the start.
    const third = flat.chunk(0, 2);
    try testing.expectEqual(
        .{ 404, 404, true, null },
        .{ third.start, third.data_page_offset, third.has_dictionary, third.column_index },
    );
    const fourth = flat.chunk(0, 3);
    try testing.expectEqual(.{ 504, false }, .{ fourth.start, fourth.has_dictionary });
    try testing.expectEqualStrings("", fourth.statistics.min.?);
    try testing.expectEqual(null, fourth.statistics.max);
    const nodes = try flat.nodes(arena.allocator());
    try testing.expectEqual(4, nodes.len);
    try testing.expectEqual(.utf8, nodes[3].type.tag);
}

test "long bounds are cut" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const Case = struct { []const u8, []const u8, ?[]const u8 };
    const a: [100]u8 = @splat('a');
    const last: [17][4]u8 = @splat("\u{10FFFF}".*);
    const cases = [_]Case{
        .{ &a, a[0..64], a[0..63] ++ "b" },
        .{ a[0..63] ++ "\x7F" ++ "z", a[0..63] ++ "\x7F", a[0..63] ++ "\xC2\x80" },
        .{ a[0..63] ++ "ß" ++ "z", a[0..63], a[0..62] ++ "b" },
        .{ a[0..62] ++ "ß" ++ "z", a[0..62] ++ "ß", a[0..62] ++ "à" },
        .{ a[0..61] ++ "\u{D7FF}" ++ "z", a[0..61] ++ "\u{D7FF}", a[0..61] ++ "\u{E000}" },
        .{ a[0..60] ++ "\u{10FFFF}" ++ "z", a[0..60] ++ "\u{10FFFF}", a[0..59] ++ "b" },
        .{ @ptrCast(&last), @ptrCast(last[0..16]), null },
    };
    for (cases) |case| {
        const flat = try flatten_chunks(arena.allocator(), &.{
            .{ .physical = .byte_array, .min = case[0], .max = case[0] },
        });
        const found = flat.chunk(0, 0).statistics;
        try testing.expectEqualStrings(case[1], found.min.?);
        try testing.expectEqual(case[2] == null, found.max == null);
        if (case[2]) |max| try testing.expectEqualStrings(max, found.max.?);
        try testing.expect(!found.min_exact and !found.max_exact);
    }
}

test "wrong places and foreign files are refused" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    defer interrupt.forget();
    const cases = [_]struct { TestChunk, Error }{
        .{ .{ .start = 950 }, error.InvalidFormat },
        .{ .{ .start = -1 }, error.InvalidFormat },
        .{ .{ .size = -1 }, error.InvalidFormat },
        .{ .{ .size = std.math.maxInt(i64) >> 1 }, error.InvalidFormat },
        .{ .{ .values = -1 }, error.InvalidFormat },
        .{ .{ .values = std.math.maxInt(i64) }, error.InvalidFormat },
        .{ .{ .path = "other.parquet" }, error.NotSupported },
        .{ .{ .codec = 8 }, error.NotSupported },
    };
    for (cases) |case| try testing.expectError(case[1], flatten_chunks(arena.allocator(), &.{case[0]}));
    const secret = [_]u8{ 0x8C, 0x00, 0x00 };
    try testing.expectError(error.NotSupported, flatten(arena.allocator(), &secret, 1000));
    try testing.expectError(error.InvalidFormat, flatten(arena.allocator(), &.{0}, 1000));
}

test "a writer that forgot the dictionary's header gets a little more" {
    try testing.expect(misses_dictionary_headers("parquet-mr version 1.2.8 (build 123)"));
    try testing.expect(!misses_dictionary_headers("parquet-mr version 1.2.9"));
    try testing.expect(!misses_dictionary_headers("impala version 1.0.0"));
}

test "damaged blobs are refused or read, never overrun" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    defer interrupt.forget();
    const good = (try flatten_chunks(arena.allocator(), &.{
        .{ .start = 50, .dictionary = 4, .min = "abcdefgh", .max = "ABCDEFGH", .column_index = .{ 300, 20 } },
        .{ .start = 204, .values = 7, .codec = 6 },
        .{ .start = 504, .physical = .byte_array, .min = "", .max = "zz" },
    })).bytes;
    for (0..good.len) |size| try testing.expectError(error.InvalidFormat, footer.FlatFooter.init(good[0..size]));
    var random: std.Random.DefaultPrng = .init(7);
    var kept: u32 = 0;
    for (0..good.len) |position| for (0..8) |bit| {
        // A copy of its own size: reads past the end are noticed.
        const blob = try testing.allocator.dupe(u8, good);
        defer testing.allocator.free(blob);
        blob[position] ^= @as(u8, 1) << @intCast(bit);
        if (bit == 7) blob[random.random().uintLessThan(usize, blob.len)] = random.random().int(u8);
        const flat = footer.FlatFooter.init(blob) catch continue;
        kept += 1;
        try expect_readable(&flat);
    };
    try testing.expect(kept > 0);
}

fn expect_readable(flat: *const footer.FlatFooter) !void {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const tree = try flat.tree(arena.allocator());
    try testing.expectEqual(flat.leaf_count, tree.leaves.len);
    for (0..flat.row_group_count) |group| for (0..flat.leaf_count) |leaf| {
        const chunk = flat.chunk(@intCast(group), @intCast(leaf));
        try testing.expect(chunk.start + chunk.compressed_size <= flat.file_size);
        try testing.expect(chunk.data_page_offset <= chunk.start + chunk.compressed_size);
        if (chunk.statistics.min) |min| std.mem.doNotOptimizeAway(std.mem.count(u8, min, "a"));
        if (chunk.statistics.max) |max| std.mem.doNotOptimizeAway(std.mem.count(u8, max, "a"));
        std.mem.doNotOptimizeAway(flat.chunk_extras(@intCast(group), @intCast(leaf)));
        std.mem.doNotOptimizeAway(flat.column_order(@intCast(leaf)));
    };
}

test "damaged Thrift is refused or read" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    defer interrupt.forget();
    const out = try arena.allocator().create(TestThrift);
    out.* = .{};
    test_footer(out, &.{
        .{ .start = 50, .dictionary = 4, .min = "abcdefgh", .max = "ABCDEFGH", .column_index = .{ 300, 20 } },
        .{ .start = 504, .physical = .byte_array, .min = "", .max = "zz" },
    });
    for (0..out.size) |position| for (0..9) |bit| {
        var scratch: Arena = .init(testing.allocator);
        defer scratch.deinit();
        const raw = if (bit == 8)
            try scratch.allocator().dupe(u8, out.bytes()[0..position])
        else
            try scratch.allocator().dupe(u8, out.bytes());
        if (bit < 8) raw[position] ^= @as(u8, 1) << @intCast(bit);
        const blob = flatten(scratch.allocator(), raw, 1000) catch continue;
        const flat: footer.FlatFooter = try .init(blob);
        try expect_readable(&flat);
    };
}
