//! Values of a page, in whatever encoding, on their way into a column.
//!
//!     mini-block   the buffers of a chunk (chunk.zig)
//!     block        the same of one buffer: dictionaries
//!     full-zip     one value after another, each compressed for itself:
//!                  fixed       validity of items, for each list of a fixed size that has it, then the values
//!                  variable    the text | its codes | the general codec's bytes
//!                  struct      fields one after the other, those of any size with their length in front
//!
//! A `Reader` is opened once for a page and reads its chunks; it keeps the symbol table of compressed texts and
//! the buffers that values go through. Nothing is known here of levels: every slot is read, those of NULLs as
//! well, and what they hold is not held against them (`check_valid`).
const std = @import("std");
const bitmap = @import("../../core/bitmap.zig");
const chunk_module = @import("chunk.zig");
const compression = @import("compression.zig");
const convert = @import("convert.zig");
const fixed_module = @import("fixed.zig");
const fsst = @import("../../encoding/fsst.zig");
const general = @import("general.zig");
const interrupt = @import("../../core/interrupt.zig");
const layout = @import("layout.zig");
const schema = @import("../../core/schema.zig");
const text_module = @import("text.zig");
const types = @import("types.zig");
const Arena = @import("../../core/arena.zig").Arena;
const ColumnBuilder = @import("../../core/column_builder.zig").ColumnBuilder;
const Chunk = chunk_module.Chunk;
const Encoding = compression.Encoding;
const Leaf = types.Leaf;
const Unfit = convert.Unfit;
const assert = std.debug.assert;

pub const Error = error{ Cancelled, InvalidFormat, NotSupported, OutOfMemory, TooLarge };

/// Opened once a page. Values are put behind the builder's rows side by side, `dense_count` counts them; the
/// caller settles. What lies below (items of lists of a fixed size, fields of packed structs) is settled here.
/// After an error the builder is good for nothing.
pub const Reader = struct {
    gpa: std.mem.Allocator,
    encoding: *const Encoding,
    /// Null: values are codes.
    leaf: ?*const Leaf,
    table: ?fsst.Table = null,
    /// Of a struct whose fields lie in one column, some of any size.
    fields: []Reader = &.{},
    opened: Chunk = .{},
    unfit: Unfit,
    scratch: chunk_module.Scratch,
    /// Full-zip values brought together.
    gathered: general.Bytes = .empty,

    /// `leaf` and `encoding` outlive the reader. An encoding that is not one for such values is refused.
    pub fn init(gpa: std.mem.Allocator, encoding: *const Encoding, leaf: *const Leaf) Error!Reader {
        var self: Reader = .{
            .gpa = gpa,
            .encoding = encoding,
            .leaf = leaf,
            .unfit = .init(gpa),
            .scratch = .{ .gpa = gpa },
        };
        errdefer self.deinit();
        try self.check(encoding, leaf, 0);
        return self;
    }

    /// Of pages with a dictionary, whose values are codes.
    pub fn init_codes(gpa: std.mem.Allocator, encoding: *const Encoding) Error!Reader {
        var codes = encoding;
        var general_count: u32 = 0;
        while (codes.* == .general) : (codes = codes.general.values) general_count += 1;
        switch (fixed_module.bits_of(codes) orelse 0) {
            8, 16, 32, 64 => {},
            else => return misplaced(codes, "codes"),
        }
        if (general_count > chunk_module.general_max) return too_many_codecs();
        return .{
            .gpa = gpa,
            .encoding = encoding,
            .leaf = null,
            .unfit = .init(gpa),
            .scratch = .{ .gpa = gpa },
        };
    }

    pub fn deinit(self: *Reader) void {
        for (self.fields) |*field| field.deinit();
        self.gpa.free(self.fields);
        self.unfit.deinit();
        self.scratch.deinit();
        self.gathered.deinit(self.gpa);
        self.* = undefined;
    }

    /// Refuses an encoding that cannot be one of the leaf's values.
    fn check(self: *Reader, encoding: *const Encoding, leaf: *const Leaf, general_count: u32) Error!void {
        switch (encoding.*) {
            .general => |inner| {
                if (general_count == chunk_module.general_max) return too_many_codecs();
                try self.check(inner.values, leaf, general_count + 1);
            },
            .fixed_size_list => |inner| {
                if (leaf.physical != .fixed_list) return misplaced(encoding, leaf_name(leaf));
                const list = leaf.physical.fixed_list;
                if (list.item_count != inner.item_count) return invalid(
                    "lists of {d} items where there are {d}",
                    .{ inner.item_count, list.item_count },
                );
                try self.check(inner.values, list.item, general_count);
            },
            .fsst => |inner| {
                if (leaf.physical != .variable or self.table != null) return misplaced(encoding, leaf_name(leaf));
                self.table = try fsst.Table.parse(inner.table);
                try self.check(inner.values, leaf, general_count);
            },
            .variable => if (leaf.physical != .variable) return misplaced(encoding, leaf_name(leaf)),
            .packed_struct => |inner| {
                if (leaf.physical != .packed_struct) return misplaced(encoding, leaf_name(leaf));
                try check_packed(inner, leaf.physical.packed_struct);
            },
            .variable_packed_struct => |fields| {
                const is_whole = encoding == self.encoding;
                if (leaf.physical != .packed_struct or !is_whole) return misplaced(encoding, leaf_name(leaf));
                try self.add_fields(fields, leaf.physical.packed_struct);
            },
            .constant => return unsupported("constants among encoded values", .{}),
            .flat, .inline_bitpacking, .out_of_line_bitpacking, .rle, .byte_stream_split => {
                const bits = fixed_module.bits_of(encoding) orelse return misplaced(encoding, leaf_name(leaf));
                const leaf_bits = if (leaf.physical == .fixed) leaf.physical.fixed else 0;
                const is_boolean = leaf_bits == 1 and encoding.* == .flat and bits == 8;
                if (leaf.physical != .fixed or (bits != leaf_bits and !is_boolean)) {
                    return misplaced(encoding, leaf_name(leaf));
                }
                // Any number of values would take no bytes.
                if (encoding.* == .out_of_line_bitpacking and encoding.out_of_line_bitpacking.packed_bits == 0) {
                    return unsupported("values packed into no bits", .{});
                }
            },
        }
    }

    fn add_fields(self: *Reader, fields: []const Encoding.Field, leaves: []const Leaf) Error!void {
        try check_field_count(fields.len, leaves.len);
        const readers = try self.gpa.alloc(Reader, fields.len);
        var done: usize = 0;
        errdefer {
            for (readers[0..done]) |*reader| reader.deinit();
            self.gpa.free(readers);
        }
        for (readers, fields, leaves) |*reader, field, *leaf| {
            reader.* = try init(self.gpa, field.value, leaf);
            done += 1;
            switch (field.size) {
                .fixed => |bits| if (try reader.fixed_size() != bits / 8) {
                    return invalid("a packed field of {d} bits", .{bits});
                },
                .length => {},
            }
        }
        self.fields = readers;
    }

    // ---- mini-block chunks, and blocks ----

    /// A chunk of a mini-block page: decompresses it and holds `chunk_count` against its size. Buffers stay where
    /// they are until the next one is opened, and are readable 64 bytes past their ends.
    pub fn open(self: *Reader, buffers: []const []const u8, chunk_count: u32) Error!void {
        self.opened = try .open(&self.scratch, .chunk, self.encoding, buffers, chunk_count);
    }

    /// A block, which is one buffer.
    pub fn open_block(self: *Reader, bytes: []const u8, count: u32) Error!void {
        self.opened = try .open(&self.scratch, .block, self.encoding, &.{bytes}, count);
    }

    /// Values `first` to `first + count` of what is open.
    pub fn read_range(self: *Reader, first: u32, count: u32, builder: *ColumnBuilder) Error!void {
        self.unfit.begin(count);
        try self.read_opened(first, count, builder);
    }

    fn read_opened(self: *Reader, first: u32, count: u32, builder: *ColumnBuilder) Error!void {
        try self.opened.read(&self.scratch, self.symbols(), self.leaf.?, first, count, builder, &self.unfit);
    }

    /// Null: texts are as they are.
    fn symbols(self: *const Reader) ?*const fsst.Table {
        if (self.table) |*table| if (table.is_on) return table;
        return null;
    }

    pub fn read(
        self: *Reader,
        buffers: []const []const u8,
        chunk_count: u32,
        first: u32,
        count: u32,
        builder: *ColumnBuilder,
    ) Error!void {
        try self.open(buffers, chunk_count);
        try self.read_range(first, count, builder);
    }

    /// Codes `first` to `first + target.len` of the open chunk; the greatest of them (0 if there are none). The
    /// slots of NULLs hold any.
    pub fn read_code_range(self: *Reader, first: u32, target: []u32) Error!u32 {
        assert(self.leaf == null);
        const values = &self.opened.values.fixed;
        const size = values.bits / 8;
        if (size == 4) {
            try values.read(first, std.mem.sliceAsBytes(target));
        } else {
            const raw = try self.scratch.buffer(&self.scratch.raw, @as(u64, target.len) * size);
            try values.read(first, raw);
            switch (size) {
                inline 1, 2, 8 => |width| {
                    const codes = std.mem.bytesAsSlice(@Int(.unsigned, width * 8), raw);
                    // What has more bits is beyond the end of any dictionary.
                    for (target, codes) |*to, code| to.* = std.math.lossyCast(u32, code);
                },
                else => unreachable,
            }
        }
        var greatest: u32 = 0;
        for (target) |code| greatest = @max(greatest, code);
        return greatest;
    }

    pub fn read_codes(
        self: *Reader,
        buffers: []const []const u8,
        chunk_count: u32,
        first: u32,
        target: []u32,
    ) Error!u32 {
        try self.open(buffers, chunk_count);
        return self.read_code_range(first, target);
    }

    /// An error if one of the values of the last `read_range`, `append_fixed` or `append_variable` that ours cannot
    /// hold is valid: its bit, from bit `first` of `validity` on, is set; null: all are. Only their reader knows
    /// which are the slots of NULLs, which may hold anything.
    pub fn check_valid(self: *const Reader, validity: ?[]const u8, first: u64) Error!void {
        return self.unfit.check(validity, first);
    }

    // ---- full-zip values ----

    /// Bytes that a full-zip value takes, its control word aside; null where sizes differ.
    pub fn fixed_size(self: *const Reader) Error!?u64 {
        var parts: Parts = .{};
        if (!try parts.add(self.encoding)) return null;
        return parts.size;
    }

    /// Full-zip values of a fixed size: `count` of them, the first at the start of `bytes`, one every `stride`,
    /// which is at least `fixed_size`.
    pub fn append_fixed(
        self: *Reader,
        bytes: []const u8,
        stride: usize,
        count: u32,
        builder: *ColumnBuilder,
    ) Error!void {
        @setRuntimeSafety(true);
        self.unfit.begin(count);
        if (count == 0) return;
        var parts: Parts = .{};
        if (!try parts.add(self.encoding)) return misplaced(self.encoding, "a full-zip page");
        assert(stride >= parts.size);
        if (bytes.len < parts.size or bytes.len - parts.size < @as(u64, count - 1) * stride) {
            return invalid("{d} values of {d} bytes in {d}", .{ count, parts.size, bytes.len });
        }
        const leaf = self.leaf.?;
        const is_gapless = parts.count == 1 and parts.list[0].bits % 8 == 0;
        const size: usize = @intCast(parts.size);
        if (is_gapless and stride != size and leaf.is_plain() and leaf.type.value_size() == size) {
            chunk_module.copy_every(try builder.grow_dense(parts.size * count), size, bytes, stride);
            builder.dense_count += count;
            return;
        }
        if (is_gapless and stride == size) return self.append_opened(&.{bytes[0 .. size * count]}, count, builder);
        return self.append_parts(&parts, bytes, stride, count, builder);
    }

    fn append_opened(self: *Reader, buffers: []const []const u8, count: u32, builder: *ColumnBuilder) Error!void {
        try self.open(buffers, count);
        try self.read_opened(0, count, builder);
    }

    /// Brings together what a chunk has in a buffer each: validity of items, and values.
    fn append_parts(
        self: *Reader,
        parts: *const Parts,
        bytes: []const u8,
        stride: usize,
        count: u32,
        builder: *ColumnBuilder,
    ) Error!void {
        var total: u64 = 0;
        for (parts.list[0..parts.count]) |part| total += (part.bits *| count +| 7) / 8;
        const target = try self.scratch.buffer(&self.gathered, total);
        @memset(target, 0);
        var buffers: [layout.value_buffers_max][]const u8 = undefined;
        var at: usize = 0;
        for (parts.list[0..parts.count], buffers[0..parts.count]) |part, *to| {
            const bits: usize = @intCast(part.bits);
            const from = bytes[@intCast(part.start)..];
            const collected = target[at..][0 .. (bits * count + 7) / 8];
            if (bits % 8 == 0) {
                chunk_module.copy_every(collected, bits / 8, from, stride);
            } else for (0..count) |row| {
                if (row % interrupt.block_rows == 0) try interrupt.check();
                bitmap.copy(collected, row * bits, from[row * stride ..], 0, bits);
            }
            to.* = collected;
            at += collected.len;
        }
        return self.append_opened(buffers[0..parts.count], count, builder);
    }

    /// Full-zip values of any size: the bytes of each as they lie in the page, nothing for a NULL.
    pub fn append_variable(self: *Reader, values: []const []const u8, builder: *ColumnBuilder) Error!void {
        self.unfit.begin(@intCast(values.len));
        switch (self.encoding.*) {
            .variable, .fsst => try text_module.append(values, self.symbols(), builder, &self.unfit),
            .general => |inner| {
                if (self.leaf.?.physical != .variable) return misplaced(self.encoding, leaf_name(self.leaf.?));
                if (inner.values.* != .variable) return unsupported("codecs around codecs for single values", .{});
                try self.append_compressed(inner.scheme, values, builder);
            },
            .variable_packed_struct => |fields| try self.append_packed(fields, values, builder),
            else => return misplaced(self.encoding, "a full-zip page"),
        }
    }

    fn append_compressed(
        self: *Reader,
        scheme: compression.Scheme,
        values: []const []const u8,
        builder: *ColumnBuilder,
    ) Error!void {
        const base = try text_module.base_of(builder);
        const ends = try builder.grow_dense_offsets(@intCast(values.len));
        for (values, ends[1..]) |value, *end| {
            try interrupt.check();
            // An empty text is stored as nothing at all.
            if (value.len > 0) _ = try general.append(scheme, value, builder);
            end.* = @intCast(builder.data.items.len);
        }
        builder.dense_count += @intCast(values.len);
        try text_module.check_text(builder, base, ends, &self.unfit);
    }

    fn append_packed(
        self: *Reader,
        fields: []const Encoding.Field,
        values: []const []const u8,
        builder: *ColumnBuilder,
    ) Error!void {
        const count: u32 = @intCast(values.len);
        const rests = try self.gpa.dupe([]const u8, values);
        defer self.gpa.free(rests);
        const parts = try self.gpa.alloc([]const u8, values.len);
        defer self.gpa.free(parts);
        for (fields, self.fields, builder.children) |field, *reader, *child| {
            for (rests, parts, values, 0..) |*rest, *part, value, row| {
                if (row % interrupt.block_rows == 0) try interrupt.check();
                part.* = if (value.len == 0) "" else try take_field(rest, field);
            }
            switch (field.size) {
                .fixed => |bits| {
                    const size = bits / 8;
                    const bytes = try self.scratch.buffer(&self.gathered, @as(u64, size) * count);
                    for (parts, 0..) |part, row| {
                        const target = bytes[row * size ..][0..size];
                        if (part.len == 0) @memset(target, 0) else @memcpy(target, part);
                    }
                    try reader.append_fixed(bytes, size, count, child);
                },
                .length => try reader.append_variable(parts, child),
            }
            _ = try child.extend_validity(child.row_count, count, false);
            try child.settle(count);
            if (reader.unfit.reason != .none) for (0..count) |row| {
                if (reader.unfit.is_marked(row)) try self.unfit.mark(row, reader.unfit.reason);
            };
        }
        for (rests) |rest| if (rest.len > 0) return invalid("packed structs that are too long", .{});
        builder.dense_count += count;
    }
};

fn take_field(rest: *[]const u8, field: Encoding.Field) Error![]const u8 {
    @setRuntimeSafety(true);
    const size: u64 = switch (field.size) {
        .fixed => |bits| bits / 8,
        .length => |bits| blk: {
            if (rest.len < bits / 8) return invalid("packed structs that are cut short", .{});
            const word: u64 = switch (bits) {
                inline 8, 16, 32, 64 => |width| word: {
                    const Word = @Int(.unsigned, width);
                    break :word std.mem.readInt(Word, rest.*[0 .. width / 8], .little);
                },
                else => unreachable,
            };
            rest.* = rest.*[bits / 8 ..];
            break :blk word;
        },
    };
    if (size > rest.len) return invalid("packed structs that are cut short", .{});
    defer rest.* = rest.*[@intCast(size)..];
    return rest.*[0..@intCast(size)];
}

/// What one value of a full-zip page consists of: validity of items for each list around it, then the values; each
/// begins with a byte.
const Parts = struct {
    const Part = struct { start: u64, bits: u64 };

    list: [layout.value_buffers_max]Part = undefined,
    count: usize = 0,
    size: u64 = 0,

    /// False where a value's size is not fixed.
    fn add(self: *Parts, whole: *const Encoding) Error!bool {
        var encoding = whole;
        var item_count: u64 = 1;
        while (true) switch (encoding.*) {
            .fixed_size_list => |inner| {
                item_count = std.math.mul(u64, item_count, inner.item_count) catch return error.TooLarge;
                if (inner.has_validity) try self.append(item_count, 1);
                encoding = inner.values;
            },
            .packed_struct => |inner| encoding = inner.values,
            .flat => |bits| {
                try self.append(item_count, bits);
                return true;
            },
            else => return false,
        };
    }

    fn append(self: *Parts, item_count: u64, bits: u32) Error!void {
        const total = std.math.mul(u64, item_count, bits) catch return error.TooLarge;
        self.list[self.count] = .{ .start = self.size, .bits = total };
        self.count += 1;
        self.size += total / 8 + @intFromBool(total % 8 != 0);
        if (self.size > std.math.maxInt(u31)) return error.TooLarge;
    }
};

fn check_packed(inner: Encoding.PackedStruct, leaves: []const Leaf) Error!void {
    try check_field_count(inner.bits.len, leaves.len);
    var total: u64 = 0;
    for (inner.bits, leaves) |bits, *leaf| {
        if (leaf.bits() orelse 0 != bits) return invalid("a packed field of {d} bits", .{bits});
        total += bits;
    }
    if (fixed_module.bits_of(inner.values) orelse 0 != total) {
        return invalid("packed structs that are not {d} bits", .{total});
    }
}

fn check_field_count(found: usize, expected: usize) Error!void {
    if (found != expected) return invalid("a packed struct of {d} fields, not {d}", .{ found, expected });
}

fn too_many_codecs() Error {
    return unsupported("more than {d} codecs around each other", .{chunk_module.general_max});
}

fn leaf_name(leaf: *const Leaf) []const u8 {
    return @tagName(leaf.type.tag);
}

fn misplaced(encoding: *const Encoding, name: []const u8) Error {
    interrupt.describe("a Lance page has the encoding {s} for {s}", .{ @tagName(encoding.*), name });
    return error.InvalidFormat;
}

fn unsupported(comptime format: []const u8, arguments: anytype) Error {
    interrupt.describe("Lance pages with " ++ format ++ " are not supported", arguments);
    return error.NotSupported;
}

fn invalid(comptime format: []const u8, arguments: anytype) Error {
    @branchHint(.cold);
    interrupt.describe("a Lance page has " ++ format, arguments);
    return error.InvalidFormat;
}

const testing = std.testing;

fn expect_misplaced(expected: Error, encoding: Encoding, text: []const u8) !void {
    defer interrupt.forget();
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const leaf = (try types.parse(arena.allocator(), text)).leaf;
    try testing.expectError(expected, Reader.init(testing.allocator, &encoding, &leaf));
}

/// A reader, a builder, and room for what they are made of.
const Bench = struct {
    arena: Arena,
    leaf: Leaf = undefined,
    reader: Reader = undefined,
    builder: ColumnBuilder = undefined,

    fn open(self: *Bench, encoding: *const Encoding, texts: []const []const u8) !void {
        const arena = self.arena.allocator();
        if (texts.len == 1) {
            self.leaf = (try types.parse(arena, texts[0])).leaf;
        } else {
            const leaves = try arena.alloc(Leaf, texts.len);
            const fields = try arena.alloc(schema.Field, texts.len);
            for (leaves, fields, texts) |*leaf, *field, text| {
                leaf.* = (try types.parse(arena, text)).leaf;
                field.* = .{ .name = text, .type = leaf.type };
            }
            self.leaf = try types.pack(arena, .{ .tag = .structure, .children = fields }, leaves);
        }
        self.reader = try .init(testing.allocator, encoding, &self.leaf);
        self.builder = try .init(testing.allocator, self.leaf.type);
    }

    fn deinit(self: *Bench) void {
        self.reader.deinit();
        self.builder.deinit();
        self.arena.deinit();
        interrupt.forget();
    }

    fn expect(self: *Bench, comptime T: type, expected: []const T) !void {
        try testing.expectEqualSlices(u8, std.mem.sliceAsBytes(expected), self.builder.data.items);
    }

    fn expect_texts(builder: *const ColumnBuilder, expected: []const []const u8) !void {
        const offsets = builder.offsets.items;
        try testing.expectEqual(expected.len + 1, offsets.len);
        for (expected, offsets[0 .. offsets.len - 1], offsets[1..]) |value, start, end| {
            try testing.expectEqualStrings(value, builder.data.items[start..end]);
        }
    }
};

test "encodings that do not suit their values" {
    const flat_32: Encoding = .{ .flat = 32 };
    const flat_64: Encoding = .{ .flat = 64 };
    const text: Encoding = .{ .variable = 32 };
    const general_1: Encoding = .{ .general = .{ .scheme = .lz4, .values = &flat_32 } };
    const general_2: Encoding = .{ .general = .{ .scheme = .lz4, .values = &general_1 } };
    const table = fsst.write_table(&.{"ab"}, true);
    const compressed: Encoding = .{ .fsst = .{ .table = &table, .values = &text } };
    try expect_misplaced(error.InvalidFormat, flat_32, "int64");
    try expect_misplaced(error.InvalidFormat, .{ .flat = 8 }, "fixed_size_binary:2");
    try expect_misplaced(error.InvalidFormat, .{ .inline_bitpacking = 8 }, "bool");
    try expect_misplaced(error.InvalidFormat, flat_32, "string");
    try expect_misplaced(error.InvalidFormat, text, "int32");
    try expect_misplaced(error.InvalidFormat, compressed, "int32");
    try expect_misplaced(error.InvalidFormat, .{ .fsst = .{ .table = &table, .values = &compressed } }, "string");
    try expect_misplaced(error.InvalidFormat, .{ .fsst = .{ .table = table[0..9], .values = &text } }, "string");
    try expect_misplaced(error.InvalidFormat, .{ .rle = &text }, "string");
    try expect_misplaced(error.InvalidFormat, flat_32, "null");
    try expect_misplaced(error.NotSupported, .{ .general = .{ .scheme = .lz4, .values = &general_2 } }, "float");
    try expect_misplaced(error.NotSupported, .{ .constant = "" }, "float");
    try expect_misplaced(error.NotSupported, .{ .out_of_line_bitpacking = .{ .bits = 32, .packed_bits = 0 } }, "int32");
    const list: Encoding = .{ .fixed_size_list = .{ .item_count = 3, .has_validity = false, .values = &flat_32 } };
    try expect_misplaced(error.InvalidFormat, list, "fixed_size_list:float:4");
    try expect_misplaced(error.InvalidFormat, list, "fixed_size_list:double:3");
    try expect_misplaced(error.InvalidFormat, list, "float");
    try expect_misplaced(error.InvalidFormat, flat_32, "fixed_size_list:int8:4");
    try expect_misplaced(error.InvalidFormat, .{ .packed_struct = .{ .bits = &.{32}, .values = &flat_32 } }, "int32");
    try expect_misplaced(error.InvalidFormat, .{ .variable_packed_struct = &.{} }, "int32");
    try testing.expectError(error.InvalidFormat, Reader.init_codes(testing.allocator, &text));
    try testing.expectError(error.InvalidFormat, Reader.init_codes(testing.allocator, &.{ .flat = 1 }));
    var codes: Reader = try .init_codes(testing.allocator, &flat_64);
    codes.deinit();
}

test "a chunk in pieces" {
    var bench: Bench = .{ .arena = .init(testing.allocator) };
    const flat: Encoding = .{ .flat = 32 };
    try bench.open(&.{ .rle = &flat }, &.{"date32:day"});
    defer bench.deinit();
    const values = std.mem.sliceAsBytes(&[_]u32{ 7, 9 });
    try bench.reader.open(&.{ values, &.{ 3, 2 } }, 5);
    for (0..5) |i| try bench.reader.read_range(@intCast(i), 1, &bench.builder);
    try bench.reader.read(&.{ values, &.{ 3, 2 } }, 5, 2, 2, &bench.builder);
    try testing.expectEqual(7, bench.builder.dense_count);
    try bench.expect(u32, &.{ 7, 7, 7, 9, 9, 7, 9 });
    try testing.expectError(error.InvalidFormat, bench.reader.open(&.{values}, 5));
    try testing.expectError(error.InvalidFormat, bench.reader.open(&.{}, 5));
    const many: [layout.value_buffers_max + 1][]const u8 = @splat("");
    try testing.expectError(error.InvalidFormat, bench.reader.open(&many, 5));
}

test "codes" {
    const cases = .{
        .{ u8, [_]u8{ 3, 1, 200 }, 200 },
        .{ u16, [_]u16{ 3, 1, 2 }, 3 },
        .{ u32, [_]u32{ 3, 1, 2 }, 3 },
        .{ u64, [_]u64{ 3, 1, 1 << 40 }, std.math.maxInt(u32) },
    };
    inline for (cases) |case| {
        const encoding: Encoding = .{ .flat = @bitSizeOf(case[0]) };
        var reader: Reader = try .init_codes(testing.allocator, &encoding);
        defer reader.deinit();
        var target: [3]u32 = undefined;
        const codes: [3]case[0] = case[1];
        const greatest = try reader.read_codes(&.{std.mem.sliceAsBytes(&codes)}, 3, 0, &target);
        try testing.expectEqual(case[2], greatest);
        try testing.expectEqualSlices(u32, &.{ 3, 1 }, target[0..2]);
        try testing.expectEqual(1, try reader.read_code_range(1, target[0..1]));
        try testing.expectEqual(0, try reader.read_code_range(3, target[0..0]));
    }
}

test "full-zip vectors" {
    var bench: Bench = .{ .arena = .init(testing.allocator) };
    const flat: Encoding = .{ .flat = 32 };
    const list: Encoding = .{ .fixed_size_list = .{ .item_count = 2, .has_validity = false, .values = &flat } };
    try bench.open(&list, &.{"fixed_size_list:float:2"});
    defer bench.deinit();
    try testing.expectEqual(8, (try bench.reader.fixed_size()).?);
    const page = "\x00abcdefgh\x01ijklmnop";
    try bench.reader.append_fixed(page[1..], 9, 2, &bench.builder);
    try bench.reader.append_fixed(page[1..], 8, 1, &bench.builder);
    try testing.expectEqual(3, bench.builder.dense_count);
    try testing.expectEqualStrings("abcdefghijklmnopabcdefgh", bench.builder.data.items);
    for ([_]u32{ 3, 0xFFFF_FFFF }) |count| {
        const found = bench.reader.append_fixed(page[1..], 9, count, &bench.builder);
        try testing.expectError(error.InvalidFormat, found);
    }
    try testing.expectError(error.InvalidFormat, bench.reader.append_fixed("abc", 8, 1, &bench.builder));
}

test "full-zip lists with NULL items" {
    var bench: Bench = .{ .arena = .init(testing.allocator) };
    const flat: Encoding = .{ .flat = 8 };
    const inner: Encoding = .{ .fixed_size_list = .{ .item_count = 3, .has_validity = true, .values = &flat } };
    const outer: Encoding = .{ .fixed_size_list = .{ .item_count = 2, .has_validity = true, .values = &inner } };
    try bench.open(&outer, &.{"fixed_size_list:fixed_size_list:int8:3:2"});
    defer bench.deinit();
    try testing.expectEqual(8, (try bench.reader.fixed_size()).?);
    const page = [_]u8{ 0, 0b01, 0b000110, 1, 2, 3, 4, 5, 6, 0, 0b11, 0b111011, 7, 8, 9, 10, 11, 12 };
    try bench.reader.append_fixed(page[1..], 9, 2, &bench.builder);
    try bench.reader.check_valid(null, 0);
    try bench.builder.settle(2);
    const lists = &bench.builder.children[0];
    const items = &lists.children[0];
    try testing.expectEqualSlices(u32, &.{ 0, 2, 4 }, bench.builder.offsets.items);
    try testing.expectEqualSlices(u32, &.{ 0, 3, 6, 9, 12 }, lists.offsets.items);
    try testing.expectEqual(4, lists.row_count);
    try testing.expectEqual(0b1101, lists.validity.?.items[0] & 0b1111);
    try testing.expectEqualSlices(u8, &.{ 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 }, items.data.items);
    try testing.expectEqual(0b11_000110, items.validity.?.items[0]);
    try testing.expectEqual(0b1110, items.validity.?.items[1] & 0b1111);
}

test "full-zip Booleans" {
    var bench: Bench = .{ .arena = .init(testing.allocator) };
    try bench.open(&.{ .flat = 8 }, &.{"bool"});
    defer bench.deinit();
    try bench.reader.append_fixed(&.{ 1, 9, 0, 9, 1, 9 }, 2, 3, &bench.builder);
    try bench.reader.append_fixed(&.{ 1, 0 }, 1, 2, &bench.builder);
    try bench.builder.settle(5);
    try testing.expectEqualSlices(u8, &.{0b01101}, bench.builder.data.items);
}

test "full-zip texts" {
    const plain: Encoding = .{ .variable = 32 };
    const table = fsst.write_table(&.{ "hello", "b" }, true);
    const off = fsst.write_table(&.{"hello"}, false);
    const compressed: Encoding = .{ .fsst = .{ .table = &table, .values = &plain } };
    const not_compressed: Encoding = .{ .fsst = .{ .table = &off, .values = &plain } };
    const zstd: Encoding = .{ .general = .{ .scheme = .zstd, .values = &plain } };
    const Case = struct { encoding: *const Encoding, values: []const []const u8, expected: []const []const u8 };
    const zstd_value = try general.with_slack(testing.allocator, &general.zstd_sample);
    defer testing.allocator.free(zstd_value);
    const cases = [_]Case{
        .{ .encoding = &plain, .values = &.{ "ab", "", "c" }, .expected = &.{ "ab", "", "c" } },
        .{ .encoding = &compressed, .values = &.{ "\x00\x01", "", "\xFFx" }, .expected = &.{ "hellob", "", "x" } },
        .{ .encoding = &not_compressed, .values = &.{ "ab", "" }, .expected = &.{ "ab", "" } },
        .{
            .encoding = &zstd,
            .values = &.{ zstd_value[0..general.zstd_sample.len], "" },
            .expected = &.{ "abc", "" },
        },
    };
    for (cases) |case| {
        var bench: Bench = .{ .arena = .init(testing.allocator) };
        try bench.open(case.encoding, &.{"string"});
        defer bench.deinit();
        try bench.reader.append_variable(case.values, &bench.builder);
        try testing.expectEqual(case.values.len, bench.builder.dense_count);
        try Bench.expect_texts(&bench.builder, case.expected);
        try bench.reader.append_variable(&.{}, &bench.builder);
        try testing.expectEqual(null, try bench.reader.fixed_size());
        try testing.expectError(error.InvalidFormat, bench.reader.append_fixed("abcd", 4, 1, &bench.builder));
    }
    var bench: Bench = .{ .arena = .init(testing.allocator) };
    try bench.open(&zstd, &.{"binary"});
    defer bench.deinit();
    try testing.expectError(error.InvalidFormat, bench.reader.append_variable(&.{"too short"}, &bench.builder));
}

test "packed structs with fields of any size" {
    const flat: Encoding = .{ .flat = 32 };
    const plain: Encoding = .{ .variable = 32 };
    const fields = [_]Encoding.Field{
        .{ .value = &flat, .size = .{ .fixed = 32 } },
        .{ .value = &plain, .size = .{ .length = 8 } },
    };
    const encoding: Encoding = .{ .variable_packed_struct = &fields };
    var bench: Bench = .{ .arena = .init(testing.allocator) };
    try bench.open(&encoding, &.{ "time32:s", "string" });
    defer bench.deinit();
    const rows = [_][]const u8{ "\x05\x00\x00\x00\x02ab", "", "\x07\x00\x00\x00\x00" };
    try bench.reader.append_variable(&rows, &bench.builder);
    try bench.builder.settle(3);
    const children = bench.builder.children;
    try testing.expectEqualSlices(u8, std.mem.sliceAsBytes(&[_]i64{ 5, 0, 7 }), children[0].data.items);
    try Bench.expect_texts(&children[1], &.{ "ab", "", "" });
    const cases = [_][]const u8{ "\x05", "\x05\x00\x00\x00", "\x05\x00\x00\x00\x02a", "\x05\x00\x00\x00\x00a" };
    for (cases) |row| {
        try testing.expectError(error.InvalidFormat, bench.reader.append_variable(&.{row}, &bench.builder));
    }
}

test "fields that do not suit their struct" {
    defer interrupt.forget();
    const flat: Encoding = .{ .flat = 32 };
    const plain: Encoding = .{ .variable = 32 };
    const cases = [_]Encoding{
        .{ .variable_packed_struct = &.{.{ .value = &flat, .size = .{ .fixed = 32 } }} },
        .{ .variable_packed_struct = &.{
            .{ .value = &flat, .size = .{ .fixed = 64 } },
            .{ .value = &plain, .size = .{ .length = 32 } },
        } },
        .{ .variable_packed_struct = &.{
            .{ .value = &flat, .size = .{ .fixed = 32 } },
            .{ .value = &plain, .size = .{ .fixed = 32 } },
        } },
        .{ .packed_struct = .{ .bits = &.{ 32, 32 }, .values = &flat } },
        .{ .packed_struct = .{ .bits = &.{32}, .values = &flat } },
    };
    for (&cases) |*encoding| {
        var bench: Bench = .{ .arena = .init(testing.allocator) };
        defer bench.arena.deinit();
        try testing.expectError(error.InvalidFormat, bench.open(encoding, &.{ "int32", "string" }));
    }
}

test "full-zip values at random" {
    const flat: Encoding = .{ .flat = 32 };
    const plain: Encoding = .{ .variable = 32 };
    const table = fsst.write_table(&.{ "hello", "b" }, true);
    const compressed: Encoding = .{ .fsst = .{ .table = &table, .values = &plain } };
    const lz4: Encoding = .{ .general = .{ .scheme = .lz4, .values = &plain } };
    const fields = [_]Encoding.Field{
        .{ .value = &flat, .size = .{ .fixed = 32 } },
        .{ .value = &compressed, .size = .{ .length = 16 } },
    };
    const encodings = [_]Encoding{ plain, compressed, lz4, .{ .variable_packed_struct = &fields } };
    var prng: std.Random.DefaultPrng = .init(233);
    const random = prng.random();
    for (&encodings) |*encoding| for (0..1000) |_| {
        var bench: Bench = .{ .arena = .init(testing.allocator) };
        const is_struct = encoding.* == .variable_packed_struct;
        try bench.open(encoding, if (is_struct) &.{ "int32", "string" } else &.{"string"});
        defer bench.deinit();
        var bytes: [24 + general.slack]u8 = undefined;
        for (&bytes) |*byte| byte.* = if (random.boolean()) random.uintLessThan(u8, 4) else random.int(u8);
        const cut = random.uintAtMost(usize, 24);
        bench.reader.append_variable(&.{ bytes[0..cut], bytes[cut..24] }, &bench.builder) catch continue;
        try testing.expectEqual(2, bench.builder.dense_count);
        bench.reader.check_valid(null, 0) catch {};
    };
}
