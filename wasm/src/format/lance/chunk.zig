//! A chunk of a mini-block page, or a block: its buffers taken apart, and values read out of it.
//!
//!     buffers → general codec (the first of them) → validity of items, for each list of a fixed size that has it
//!             → values of a fixed size (fixed.zig) or texts (text.zig) → conversion (convert.zig) → builder
//!
//! Lists of a fixed size lie in the buffers as their items do. Those of floats are vectors of ours, which have no
//! NULL elements; the others are lists. A packed struct is a value whose bytes are those of its fields. Booleans
//! are bits, or bytes where a page of single values was asked for.
//!
//! Nothing is known here of levels: every slot is read, those of NULLs as well, and what they hold is not held
//! against them but written down in `Unfit`.
const std = @import("std");
const bitmap = @import("../../core/bitmap.zig");
const compression = @import("compression.zig");
const convert = @import("convert.zig");
const fixed_module = @import("fixed.zig");
const fsst = @import("../../encoding/fsst.zig");
const general = @import("general.zig");
const interrupt = @import("../../core/interrupt.zig");
const layout = @import("layout.zig");
const schema = @import("../../core/schema.zig");
const types = @import("types.zig");
const Arena = @import("../../core/arena.zig").Arena;
const ColumnBuilder = @import("../../core/column_builder.zig").ColumnBuilder;
const Encoding = compression.Encoding;
const Fixed = fixed_module.Fixed;
const Leaf = types.Leaf;
const Place = fixed_module.Place;
const Text = @import("text.zig").Text;
const Unfit = convert.Unfit;
const assert = std.debug.assert;

pub const Error = error{ Cancelled, InvalidFormat, NotSupported, OutOfMemory, TooLarge };

/// General codecs around each other.
pub const general_max = 2;
/// Lists of a fixed size in each other.
const levels_max = 4;

/// Lists of a fixed size around the values that are stored.
const Level = struct {
    item_count: u32,
    /// A bit for each item of the chunk.
    validity: ?[]const u8,
};

/// Buffers that values go through; kept from chunk to chunk.
pub const Scratch = struct {
    gpa: std.mem.Allocator,
    /// What general codecs have decompressed. A chunk may point into it.
    decompressed: [general_max]general.Bytes = @splat(.empty),
    /// Values before they are converted; rows of a packed struct, and one field of them.
    raw: general.Bytes = .empty,
    rows: general.Bytes = .empty,
    field: general.Bytes = .empty,

    pub fn deinit(self: *Scratch) void {
        for (&self.decompressed) |*bytes| bytes.deinit(self.gpa);
        self.raw.deinit(self.gpa);
        self.rows.deinit(self.gpa);
        self.field.deinit(self.gpa);
    }

    /// So many bytes, which nobody has written, with slack.
    pub fn buffer(self: *Scratch, list: *general.Bytes, size: u64) Error![]u8 {
        list.clearRetainingCapacity();
        const wanted = std.math.cast(usize, size +| general.slack) orelse return error.TooLarge;
        try list.ensureTotalCapacity(self.gpa, wanted);
        list.items.len = @intCast(size);
        return list.items;
    }
};

/// Buffers stay where they are as long as it is read.
pub const Chunk = struct {
    levels: [levels_max]Level = undefined,
    values: union(enum) { none, fixed: Fixed, text: Text } = .none,
    count: u32 = 0,

    /// Decompresses it and holds the number of values against its bytes. An encoding that suits the leaf.
    pub fn open(
        scratch: *Scratch,
        place: Place,
        whole: *const Encoding,
        buffers: []const []const u8,
        chunk_count: u32,
    ) Error!Chunk {
        @setRuntimeSafety(true);
        var self: Chunk = .{ .count = chunk_count };
        var list: [layout.value_buffers_max][]const u8 = undefined;
        if (buffers.len > list.len) return invalid("{d} buffers of values", .{buffers.len});
        @memcpy(list[0..buffers.len], buffers);
        var rest: [][]const u8 = list[0..buffers.len];
        var encoding = whole;
        var count: u64 = chunk_count;
        var general_count: usize = 0;
        var depth: usize = 0;
        while (true) switch (encoding.*) {
            .general => |inner| {
                if (rest.len == 0) return invalid("no buffers of values", .{});
                const target = &scratch.decompressed[general_count];
                rest[0] = try general.decompress(scratch.gpa, inner.scheme, rest[0], target);
                general_count += 1;
                encoding = inner.values;
            },
            .fixed_size_list => |inner| {
                count = std.math.mul(u64, count, inner.item_count) catch return error.TooLarge;
                if (depth == levels_max) return unsupported("lists of a fixed size nested that deep", .{});
                const level = &self.levels[depth];
                level.* = .{ .item_count = inner.item_count, .validity = null };
                if (inner.has_validity) {
                    if (place == .block) return unsupported("NULL items in a dictionary", .{});
                    if (rest.len == 0) return invalid("no buffers of values", .{});
                    level.validity = rest[0];
                    if (rest[0].len < count / 8 + @intFromBool(count % 8 != 0)) {
                        return invalid("{d} bytes of validity of {d} items", .{ rest[0].len, count });
                    }
                    rest = rest[1..];
                }
                depth += 1;
                encoding = inner.values;
            },
            .fsst => |inner| encoding = inner.values,
            .packed_struct => |inner| encoding = inner.values,
            .variable => |bits| {
                self.values = .{ .text = try .open(place, bits, rest, count) };
                return self;
            },
            .variable_packed_struct, .constant => return misplaced(encoding, "a chunk"),
            .flat, .inline_bitpacking, .out_of_line_bitpacking, .rle, .byte_stream_split => {
                self.values = .{ .fixed = try .open(place, encoding, rest, count) };
                return self;
            },
        };
    }

    /// Values from `first` on, behind the dense ones of the builder. `table` is of compressed texts, and on.
    pub fn read(
        self: *Chunk,
        scratch: *Scratch,
        table: ?*const fsst.Table,
        leaf: *const Leaf,
        first: u32,
        count: u32,
        builder: *ColumnBuilder,
        unfit: *Unfit,
    ) Error!void {
        assert(first <= self.count and count <= self.count - first);
        const run: Run = .{ .chunk = self, .scratch = scratch, .table = table };
        return run.read(0, leaf, first, count, builder, unfit);
    }

    /// Values of a leaf of fixed size that lie side by side. No item of a list is NULL.
    fn open_flat(leaf: *const Leaf, bytes: []const u8, count: u32) Error!Chunk {
        var self: Chunk = .{ .count = count };
        var item = leaf;
        var item_count: u64 = count;
        var depth: usize = 0;
        while (item.physical == .fixed_list) : (depth += 1) {
            const list = item.physical.fixed_list;
            if (depth == levels_max) return unsupported("lists of a fixed size nested that deep", .{});
            self.levels[depth] = .{ .item_count = list.item_count, .validity = null };
            item_count *= list.item_count;
            item = list.item;
        }
        if (item.physical != .fixed) return unsupported("packed structs of structs", .{});
        self.values = .{ .fixed = try .of_bytes(bytes, item.physical.fixed, item_count) };
        return self;
    }
};

/// What stays the same from list to item.
const Run = struct {
    chunk: *Chunk,
    scratch: *Scratch,
    table: ?*const fsst.Table,

    fn read(
        self: Run,
        depth: usize,
        leaf: *const Leaf,
        first: u64,
        count: u32,
        builder: *ColumnBuilder,
        unfit: *Unfit,
    ) Error!void {
        switch (leaf.physical) {
            .none => builder.dense_count += count,
            .variable => try self.chunk.values.text.read(first, count, self.table, builder, unfit),
            .fixed => |bits| {
                const values = &self.chunk.values.fixed;
                if (bits == 1) {
                    try self.read_bits(values, first, count, builder);
                } else {
                    try self.read_fixed(values, leaf.conversion, first, count, builder, unfit);
                }
                builder.dense_count += count;
            },
            .fixed_list => |list| if (is_vector(leaf))
                try self.read_vectors(depth, list, first, count, builder, unfit)
            else
                try self.read_lists(depth, list, first, count, builder, unfit),
            .packed_struct => |fields| try self.read_packed(fields, first, count, builder, unfit),
        }
    }

    fn read_bits(self: Run, values: *Fixed, first: u64, count: u32, builder: *ColumnBuilder) Error!void {
        const target_bit = builder.row_count + builder.dense_count;
        const target = try builder.grow_dense_bits(count);
        if (values.bits == 1) return values.read_bits(first, count, target, target_bit);
        const raw = try self.scratch.buffer(&self.scratch.raw, count);
        try values.read(first, raw);
        for (raw, target_bit..) |byte, bit| {
            target[bit / 8] |= @as(u8, @intFromBool(byte != 0)) << @intCast(bit % 8);
        }
    }

    fn read_fixed(
        self: Run,
        values: *Fixed,
        conversion: types.Conversion,
        first: u64,
        count: u32,
        builder: *ColumnBuilder,
        unfit: *Unfit,
    ) Error!void {
        const size: u64 = values.bits / 8;
        if (conversion == .none) return values.read(first, try builder.grow_dense(size * count));
        const source = values.plain(first, count) orelse blk: {
            const raw = try self.scratch.buffer(&self.scratch.raw, size * count);
            try values.read(first, raw);
            break :blk raw;
        };
        const target = try builder.grow_dense(@as(u64, convert.target_size(conversion)) * count);
        try convert.convert(conversion, source, target, unfit);
    }

    fn read_lists(
        self: Run,
        depth: usize,
        list: types.FixedList,
        first: u64,
        count: u32,
        builder: *ColumnBuilder,
        unfit: *Unfit,
    ) Error!void {
        const items = &builder.children[0];
        const item_count = std.math.cast(u32, @as(u64, count) * list.item_count) orelse return error.TooLarge;
        const item_first = first * list.item_count;
        const base = items.row_count;
        if (item_count > std.math.maxInt(u32) - base) return error.TooLarge;
        var end = base;
        for ((try builder.grow_dense_offsets(count))[1..]) |*offset| {
            end += list.item_count;
            offset.* = end;
        }
        var items_unfit: Unfit = .init(self.scratch.gpa);
        defer items_unfit.deinit();
        items_unfit.begin(item_count);
        try self.read(depth + 1, list.item, item_first, item_count, items, &items_unfit);
        if (self.chunk.levels[depth].validity) |validity| {
            const bits = (try items.extend_validity(base, item_count, true)).?;
            bitmap.copy(bits, base, validity, @intCast(item_first), item_count);
        } else _ = try items.extend_validity(base, item_count, false);
        try items.settle(item_count);
        builder.dense_count += count;
        if (items_unfit.reason == .none) return;
        for (0..item_count) |index| {
            if (!items_unfit.is_marked(index)) continue;
            if (items.validity) |bits| if (!is_set(bits.items, base + index)) continue;
            try unfit.mark(index / list.item_count, items_unfit.reason);
        }
    }

    /// Rows of fields of fixed sizes.
    fn read_packed(
        self: Run,
        fields: []const Leaf,
        first: u64,
        count: u32,
        builder: *ColumnBuilder,
        unfit: *Unfit,
    ) Error!void {
        const values = &self.chunk.values.fixed;
        const row_size = values.bits / 8;
        const rows = values.plain(first, count) orelse blk: {
            const rows = try self.scratch.buffer(&self.scratch.rows, @as(u64, row_size) * count);
            try values.read(first, rows);
            break :blk rows;
        };
        var start: usize = 0;
        for (fields, builder.children) |*field, *child| {
            const size: usize = @intCast(field.bits().? / 8);
            const bytes = try self.scratch.buffer(&self.scratch.field, @as(u64, size) * count);
            copy_every(bytes, size, if (count == 0) rows else rows[start..], row_size);
            var values_of_field: Chunk = try .open_flat(field, bytes, count);
            const run: Run = .{ .chunk = &values_of_field, .scratch = self.scratch, .table = null };
            try run.read(0, field, 0, count, child, unfit);
            _ = try child.extend_validity(child.row_count, count, false);
            try child.settle(count);
            start += size;
        }
        builder.dense_count += count;
    }

    fn read_vectors(
        self: Run,
        depth: usize,
        list: types.FixedList,
        first: u64,
        count: u32,
        builder: *ColumnBuilder,
        unfit: *Unfit,
    ) Error!void {
        const values = &self.chunk.values.fixed;
        const size = @as(u64, list.item_count) * (values.bits / 8);
        try values.read(first * list.item_count, try builder.grow_dense(size * count));
        builder.dense_count += count;
        const validity = self.chunk.levels[depth].validity orelse return;
        for (0..count) |row| {
            if (row % interrupt.block_rows == 0) try interrupt.check();
            const bit = (first + row) * list.item_count;
            if (!all_set(validity, bit, list.item_count)) try unfit.mark(row, .null_element);
        }
    }
};

fn is_vector(leaf: *const Leaf) bool {
    return leaf.type.tag == .f32vec or leaf.type.tag == .f16vec;
}

fn all_set(bits: []const u8, first: u64, count: u32) bool {
    var bit = first;
    const end = first + count;
    while (bit < end and bit % 8 != 0) : (bit += 1) if (!is_set(bits, bit)) return false;
    while (end - bit >= 8) : (bit += 8) if (bits[@intCast(bit / 8)] != 0xFF) return false;
    while (bit < end) : (bit += 1) if (!is_set(bits, bit)) return false;
    return true;
}

fn is_set(bits: []const u8, bit: u64) bool {
    return bits[@intCast(bit / 8)] >> @intCast(bit % 8) & 1 != 0;
}

/// Fills the target with pieces of `size` bytes, one from every `stride` of the source.
pub fn copy_every(target: []u8, size: usize, source: []const u8, stride: usize) void {
    if (size == 0) return;
    switch (size) {
        inline 1, 2, 4, 8, 16 => |known| copy_every_known(known, target, source, stride),
        else => for (0..target.len / size) |row| {
            @memcpy(target[row * size ..][0..size], source[row * stride ..][0..size]);
        },
    }
}

noinline fn copy_every_known(comptime size: usize, target: []u8, source: []const u8, stride: usize) void {
    for (0..target.len / size) |row| target[row * size ..][0..size].* = source[row * stride ..][0..size].*;
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

/// A chunk of a type's values, read whole into a column.
const Bench = struct {
    arena: Arena,
    scratch: Scratch,
    leaf: Leaf = undefined,
    builder: ColumnBuilder = undefined,
    unfit: Unfit,

    fn init(text: []const u8) !Bench {
        var self: Bench = .{
            .arena = .init(testing.allocator),
            .scratch = .{ .gpa = testing.allocator },
            .unfit = .init(testing.allocator),
        };
        self.leaf = (try types.parse(self.arena.allocator(), text)).leaf;
        self.builder = try .init(testing.allocator, self.leaf.type);
        return self;
    }

    fn deinit(self: *Bench) void {
        self.builder.deinit();
        self.unfit.deinit();
        self.scratch.deinit();
        self.arena.deinit();
        interrupt.forget();
    }

    fn read(self: *Bench, encoding: *const Encoding, buffers: []const []const u8, count: u32, first: u32) !void {
        var chunk: Chunk = try .open(&self.scratch, .chunk, encoding, buffers, count);
        self.unfit.begin(count - first);
        try chunk.read(&self.scratch, null, &self.leaf, first, count - first, &self.builder, &self.unfit);
        try testing.expectEqual(count - first, self.builder.dense_count);
        try self.builder.settle(count - first);
    }
};

const flat_1: Encoding = .{ .flat = 1 };
const flat_8: Encoding = .{ .flat = 8 };
const flat_32: Encoding = .{ .flat = 32 };

test "numbers, converted and not" {
    const numbers = [_]u32{ 5, 0xFFFF_FFFF, 7 };
    const bytes = std.mem.sliceAsBytes(&numbers);
    var plain: Bench = try .init("uint32");
    defer plain.deinit();
    try plain.read(&flat_32, &.{bytes}, 3, 1);
    try testing.expectEqualSlices(u8, bytes[4..], plain.builder.data.items);
    var times: Bench = try .init("time32:ms");
    defer times.deinit();
    try times.read(&flat_32, &.{bytes}, 3, 0);
    try testing.expectEqualSlices(u8, std.mem.sliceAsBytes(&[_]i64{ 5, -1, 7 }), times.builder.data.items);
    // Runs are not side by side before they are converted.
    try times.read(&.{ .rle = &flat_32 }, &.{ bytes[0..4], &.{2} }, 2, 0);
    try testing.expectEqualSlices(u8, std.mem.sliceAsBytes(&[_]i64{ 5, -1, 7, 5, 5 }), times.builder.data.items);
}

test "Booleans, as bits and as bytes" {
    var bench: Bench = try .init("bool");
    defer bench.deinit();
    try bench.read(&flat_1, &.{&.{0b0000_1101}}, 5, 1);
    try bench.read(&flat_8, &.{&.{ 1, 0, 0, 1, 1, 1 }}, 6, 0);
    try testing.expectEqualSlices(u8, &.{ 0b1001_0110, 0b11 }, bench.builder.data.items);
}

test "behind a general codec" {
    var bench: Bench = try .init("fixed_size_binary:6");
    defer bench.deinit();
    const flat: Encoding = .{ .flat = 48 };
    const lz4: Encoding = .{ .general = .{ .scheme = .lz4, .values = &flat } };
    const bytes = try general.with_slack(testing.allocator, &general.lz4_sample);
    defer testing.allocator.free(bytes);
    const source = bytes[0..general.lz4_sample.len];
    try bench.read(&lz4, &.{source}, 4, 2);
    try testing.expectEqualStrings("hello hello ", bench.builder.data.items);
    try testing.expectError(error.InvalidFormat, bench.read(&lz4, &.{source}, 5, 0));
    try testing.expectError(error.InvalidFormat, bench.read(&lz4, &.{}, 4, 0));
}

test "vectors" {
    const list: Encoding = .{ .fixed_size_list = .{ .item_count = 2, .has_validity = false, .values = &flat_32 } };
    const nullable: Encoding = .{ .fixed_size_list = .{ .item_count = 2, .has_validity = true, .values = &flat_32 } };
    var bench: Bench = try .init("fixed_size_list:float:2");
    defer bench.deinit();
    const items = [_]f32{ 1, 2, 3, 4, 5, 6 };
    const bytes = std.mem.sliceAsBytes(&items);
    try bench.read(&list, &.{bytes}, 3, 1);
    try testing.expectEqualSlices(u8, bytes[8..], bench.builder.data.items);
    try bench.read(&nullable, &.{ &.{0b111011}, bytes }, 3, 0);
    try testing.expect(!bench.unfit.is_marked(0) and bench.unfit.is_marked(1) and !bench.unfit.is_marked(2));
    try testing.expectError(error.NotSupported, bench.unfit.check(null, 0));
    try bench.unfit.check(&.{0b101}, 0); // a NULL's elements are nobody's
    const short: [1][]const u8 = .{&.{}};
    try testing.expectError(error.InvalidFormat, bench.read(&nullable, &short, 3, 0));
    try testing.expectError(error.InvalidFormat, bench.read(&nullable, &.{ &.{}, bytes }, 3, 0));
    try testing.expectError(error.InvalidFormat, bench.read(&list, &.{bytes}, 4, 0));
    try testing.expectError(error.InvalidFormat, bench.read(&list, &.{bytes}, std.math.maxInt(u32), 0));
}

test "lists of a fixed size" {
    const list: Encoding = .{ .fixed_size_list = .{ .item_count = 3, .has_validity = true, .values = &flat_32 } };
    var bench: Bench = try .init("fixed_size_list:date32:day:3");
    defer bench.deinit();
    const items = [_]i32{ 1, 2, 3, 4, 5, 6 };
    const bytes = std.mem.sliceAsBytes(&items);
    for (0..2) |_| try bench.read(&list, &.{ &.{0b110101}, bytes }, 2, 0);
    try bench.read(&list, &.{ &.{0b110101}, bytes }, 2, 1);
    try testing.expectEqualSlices(u32, &.{ 0, 3, 6, 9, 12, 15 }, bench.builder.offsets.items);
    const child = &bench.builder.children[0];
    try testing.expectEqual(15, child.row_count);
    try testing.expectEqual(0b01_110101, child.validity.?.items[0]);
    try testing.expectEqual(0b110_1101, child.validity.?.items[1] & 0x7F);
    try testing.expectEqualSlices(u8, bytes[12..], child.data.items[48..]);
}

test "items that do not fit mark their list, unless they are NULL" {
    const flat: Encoding = .{ .flat = 64 };
    const list: Encoding = .{ .fixed_size_list = .{ .item_count = 2, .has_validity = true, .values = &flat } };
    var bench: Bench = try .init("fixed_size_list:date64:ms:2");
    defer bench.deinit();
    const items = [_]i64{ 1, 0, 86_400_000, 1 };
    try bench.read(&list, &.{ &.{0b1110}, std.mem.sliceAsBytes(&items) }, 2, 0);
    try testing.expect(!bench.unfit.is_marked(0) and bench.unfit.is_marked(1));
}

test "packed structs" {
    var bench: Bench = try .init("int8");
    defer bench.deinit();
    const arena = bench.arena.allocator();
    const texts = [_][]const u8{ "int8", "time32:s", "fixed_size_list:int8:2", "fixed_size_binary:3" };
    var leaves: [texts.len]Leaf = undefined;
    var fields: [texts.len]schema.Field = undefined;
    for (texts, &leaves, &fields) |text, *leaf, *field| {
        leaf.* = (try types.parse(arena, text)).leaf;
        field.* = .{ .name = text, .type = leaf.type };
    }
    bench.leaf = try types.pack(arena, .{ .tag = .structure, .children = &fields }, &leaves);
    bench.builder.deinit();
    bench.builder = try .init(testing.allocator, bench.leaf.type);
    const flat: Encoding = .{ .flat = 80 };
    const encoding: Encoding = .{ .packed_struct = .{ .bits = &.{ 8, 32, 16, 24 }, .values = &flat } };
    try bench.read(&encoding, &.{"\x01\x05\x00\x00\x00\x02\x03abc" ++ "\x04\x06\x00\x00\x00\x07\x08def"}, 2, 0);
    try bench.read(&encoding, &.{"\x01\x05\x00\x00\x00\x02\x03abc"}, 1, 1);
    const children = bench.builder.children;
    try testing.expectEqual(2, bench.builder.row_count);
    try testing.expectEqualSlices(u8, &.{ 1, 4 }, children[0].data.items);
    try testing.expectEqualSlices(u8, std.mem.sliceAsBytes(&[_]i64{ 5, 6 }), children[1].data.items);
    try testing.expectEqualSlices(u32, &.{ 0, 2, 4 }, children[2].offsets.items);
    try testing.expectEqualSlices(u8, &.{ 2, 3, 7, 8 }, children[2].children[0].data.items);
    try testing.expectEqualStrings("abcdef", children[3].data.items);
}

test "at random" {
    const rle: Encoding = .{ .rle = &flat_32 };
    const inner: Encoding = .{ .fixed_size_list = .{ .item_count = 2, .has_validity = true, .values = &flat_32 } };
    const outer: Encoding = .{ .fixed_size_list = .{ .item_count = 3, .has_validity = true, .values = &inner } };
    const lz4: Encoding = .{ .general = .{ .scheme = .lz4, .values = &flat_32 } };
    const Case = struct { text: []const u8, encoding: *const Encoding };
    const cases = [_]Case{
        .{ .text = "int32", .encoding = &rle },
        .{ .text = "time32:s", .encoding = &rle },
        .{ .text = "date32:day", .encoding = &lz4 },
        .{ .text = "fixed_size_list:fixed_size_list:float:2:3", .encoding = &outer },
        .{ .text = "fixed_size_list:fixed_size_list:int32:2:3", .encoding = &outer },
        .{ .text = "string", .encoding = &.{ .variable = 32 } },
    };
    var prng: std.Random.DefaultPrng = .init(377);
    const random = prng.random();
    for (cases) |case| for (0..700) |_| {
        var bench: Bench = try .init(case.text);
        defer bench.deinit();
        var bytes: [120 + general.slack]u8 = undefined;
        for (&bytes) |*byte| byte.* = if (random.boolean()) random.uintLessThan(u8, 4) else random.int(u8);
        var buffers: [3][]const u8 = undefined;
        for (&buffers, 0..) |*buffer, i| buffer.* = bytes[i * 40 ..][0..random.uintAtMost(usize, 40)];
        const count = random.uintLessThan(u32, 8);
        const first = random.uintAtMost(u32, count);
        bench.read(case.encoding, buffers[0..random.uintAtMost(usize, 3)], count, first) catch continue;
        bench.unfit.check(null, 0) catch {};
    };
}
