//! A chunk of a mini-block page, or a block: its buffers taken apart, and values read out of it.
//!
//!     buffers → general codec (the first of them) → validity of items, for each list of a fixed size that has it
//!             → values of a fixed size (fixed.zig) or texts (text.zig) → conversion (convert.zig) → builder
//!
//! Lists of a fixed size lie in the buffers as their items do. Those of floats are vectors of ours, which have no
//! NULL elements; the others are lists. A packed struct is a value whose bytes are those of its fields.
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
const types = @import("types.zig");
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
                    const target_bit = builder.row_count + builder.dense_count;
                    try values.read_bits(first, count, try builder.grow_dense_bits(count), target_bit);
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
