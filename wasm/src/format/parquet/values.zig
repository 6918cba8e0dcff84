//! Values of a column chunk, in whatever encoding, on their way into a column.
//!
//!     page bytes → encoding → values of the file → conversion → values of ours, side by side
//!
//! Only values that are there: NULLs take no room in a page, column_chunk.zig spreads the values to
//! their rows afterwards. Pages of one chunk may differ in encoding (a dictionary that grew too large
//! is given up midway), so a `ValueReader` begins anew with every page; the dictionary stays.
const std = @import("std");
const byte_stream_split = @import("../../encoding/byte_stream_split.zig");
const convert = @import("fixed_convert.zig");
const delta = @import("../../encoding/delta.zig");
const delta_byte_array = @import("../../encoding/delta_byte_array.zig");
const delta_length = @import("../../encoding/delta_length.zig");
const dictionary_module = @import("../../encoding/dictionary.zig");
const interrupt = @import("../../core/interrupt.zig");
const metadata = @import("metadata.zig");
const plain = @import("../../encoding/plain.zig");
const rle = @import("../../encoding/rle.zig");
const utf8 = @import("../../core/utf8.zig");
const Arena = @import("../../core/arena.zig").Arena;
const CodedRows = @import("../coded_rows.zig").CodedRows;
const Column = @import("../../core/column.zig").Column;
const ColumnBuilder = @import("../../core/column_builder.zig").ColumnBuilder;
const Encoding = metadata.Encoding;
const Leaf = metadata.Leaf;
const assert = std.debug.assert;

pub const Error = error{ Cancelled, InvalidFormat, NotSupported, OutOfMemory, TooLarge };

const Bytes = std.array_list.Aligned(u8, .@"16");

/// Readable and writable behind every buffer that a decoder gets.
const slack = 64;

var last_dictionary_id: u64 = 0;

const Split = struct { bytes: []const u8, count: usize, position: usize = 0 };

const Decoder = union(enum) {
    /// Nothing has begun, or the page has no values.
    none,
    fixed: plain.Fixed,
    bits: plain.Booleans,
    rle_bits: rle.Decoder,
    bytes: plain.ByteArrays,
    codes: rle.Decoder,
    delta_i32: delta.Decoder(i32),
    delta_i64: delta.Decoder(i64),
    delta_length: delta_length.Decoder,
    delta_bytes: delta_byte_array.Decoder,
    split: Split,
};

pub const ValueReader = struct {
    gpa: std.mem.Allocator,
    leaf: *const Leaf,
    decoder: Decoder = .none,
    /// What the decoder of the current page keeps.
    page_arena: Arena,
    /// The chunk's dictionary, as values of ours.
    dictionary: ?ColumnBuilder = null,
    /// No other dictionary has it.
    dictionary_id: u64 = 0,
    /// Of texts and binaries: bytes of the dictionary's longest one.
    entry_size_max: u32 = 0,
    codes: std.ArrayList(u32) = .empty,
    raw: Bytes = .empty,
    raw_offsets: std.ArrayList(u32) = .empty,

    pub fn init(gpa: std.mem.Allocator, leaf: *const Leaf) ValueReader {
        return .{ .gpa = gpa, .leaf = leaf, .page_arena = .init(gpa) };
    }

    pub fn deinit(self: *ValueReader) void {
        if (self.dictionary) |*builder| builder.deinit();
        self.page_arena.deinit();
        self.codes.deinit(self.gpa);
        self.raw.deinit(self.gpa);
        self.raw_offsets.deinit(self.gpa);
    }

    /// The values of a page: `bytes` behind its levels, which hold at most `value_count` values.
    pub fn begin(self: *ValueReader, encoding: Encoding, bytes: []const u8, value_count: u32) Error!void {
        _ = self.page_arena.reset(.retain_capacity);
        self.decoder = .none;
        // Writers leave pages of NULLs empty, without even a bit width.
        if (bytes.len == 0 and value_count == 0) return;
        if (self.leaf.conversion == .unsupported) {
            interrupt.describe("a decimal of more than 38 digits is not supported; leave the column out", .{});
            return error.NotSupported;
        }
        self.decoder = switch (encoding) {
            .plain => self.begin_plain(bytes),
            .plain_dictionary, .rle_dictionary => if (bytes.len == 0) .none else try self.begin_codes(bytes),
            .rle => try self.begin_rle(bytes),
            .delta_binary_packed => switch (self.leaf.physical) {
                .int32 => .{ .delta_i32 = try .init(bytes) },
                .int64 => .{ .delta_i64 = try .init(bytes) },
                else => return self.misplaced(encoding),
            },
            .delta_length_byte_array => switch (self.leaf.physical) {
                .byte_array => .{ .delta_length = try .init(bytes, 0) },
                else => return self.misplaced(encoding),
            },
            .delta_byte_array => switch (self.leaf.physical) {
                .byte_array, .fixed_len_byte_array => .{
                    .delta_bytes = try .init(self.page_arena.allocator(), bytes, 0),
                },
                else => return self.misplaced(encoding),
            },
            .byte_stream_split => try self.begin_split(bytes),
            .bit_packed => return self.misplaced(encoding),
        };
    }

    fn misplaced(self: *const ValueReader, encoding: Encoding) Error {
        interrupt.describe(
            "a page of {s} values has the encoding {s}",
            .{ @tagName(self.leaf.physical), @tagName(encoding) },
        );
        return error.InvalidFormat;
    }

    fn begin_plain(self: *const ValueReader, bytes: []const u8) Decoder {
        return switch (self.leaf.physical) {
            .boolean => .{ .bits = .init(bytes) },
            .byte_array => .{ .bytes = .init(bytes) },
            else => .{ .fixed = .init(bytes, raw_size(self.leaf)) },
        };
    }

    fn begin_codes(self: *const ValueReader, bytes: []const u8) Error!Decoder {
        if (self.dictionary == null) return invalid("a page of codes without a dictionary");
        return .{ .codes = try .init(bytes[1..], bytes[0]) };
    }

    fn begin_rle(self: *const ValueReader, bytes: []const u8) Error!Decoder {
        if (self.leaf.physical != .boolean) return self.misplaced(.rle);
        if (bytes.len < 4) return invalid("a page of run-length booleans is cut short");
        const size = std.mem.readInt(u32, bytes[0..4], .little);
        if (size > bytes.len - 4) return invalid("run-length booleans reach past their page");
        return .{ .rle_bits = try .init(bytes[4..][0..size], 1) };
    }

    fn begin_split(self: *const ValueReader, bytes: []const u8) Error!Decoder {
        const width = raw_size(self.leaf);
        if (width == 0 or self.leaf.physical == .boolean) return self.misplaced(.byte_stream_split);
        return .{ .split = .{ .bytes = bytes, .count = try byte_stream_split.count_values(bytes, width) } };
    }

    /// Reads the dictionary page.
    pub fn read_dictionary(self: *ValueReader, encoding: Encoding, bytes: []const u8, value_count: u32) Error!void {
        if (self.dictionary != null) return invalid("a column chunk has two dictionaries");
        if (encoding != .plain and encoding != .plain_dictionary) return self.misplaced(encoding);
        if (self.leaf.physical == .boolean) return invalid("a dictionary of booleans");
        // Every value takes bytes (a byte array its length), so the count cannot outgrow them.
        const size_min = if (self.leaf.physical == .byte_array) 4 else raw_size(self.leaf);
        if (@as(u64, value_count) * size_min > bytes.len) return invalid("a dictionary has fewer values than it says");
        if (size_min == 0 and value_count > dictionary_count_max)
            return invalid("a dictionary of too many empty values");
        var builder: ColumnBuilder = try .init(self.gpa, self.leaf.type);
        errdefer builder.deinit();
        try self.begin(.plain, bytes, value_count);
        try self.append(&builder, value_count);
        try builder.settle(value_count);
        self.decoder = .none;
        self.dictionary = builder;
        last_dictionary_id += 1;
        self.dictionary_id = last_dictionary_id;
        if (self.leaf.type.layout() == .bytes) self.entry_size_max = longest(builder.offsets.items);
    }

    /// Puts the next `count` values behind those of `builder`; rows and validity are the caller's.
    pub fn append(self: *ValueReader, builder: *ColumnBuilder, count: u32) Error!void {
        if (count == 0) return;
        defer builder.dense_count += count;
        switch (self.leaf.type.layout()) {
            .none => try self.skip(count),
            .bits => try self.append_bits(builder, count),
            .bytes => try self.append_bytes(builder, count),
            .list, .structure => unreachable, // a leaf's type has no children
            else => try self.append_fixed(builder, count),
        }
    }

    /// Of the next `count` values those at `chosen`, which rise: the others are decoded as little as
    /// their encoding allows.
    pub fn append_chosen(self: *ValueReader, builder: *ColumnBuilder, count: u32, chosen: []const u32) Error!void {
        if (chosen.len == 0) return self.skip(count);
        assert(chosen[chosen.len - 1] < count);
        if (self.leaf.type.layout() == .none) {
            try self.skip(count);
            builder.dense_count += @intCast(chosen.len);
            return;
        }
        switch (self.decoder) {
            .codes => {
                const codes = try self.read_codes(count);
                // In place: a chosen place is never behind its index.
                for (chosen, 0..) |index, i| self.codes.items[i] = codes[index];
                try self.append_of_dictionary(builder, self.codes.items[0..chosen.len]);
            },
            .fixed => |*values| if (self.leaf.conversion == .none) {
                const width: usize = raw_size(self.leaf);
                const source = try values.take(@as(u64, width) * count);
                const target = try builder.grow_dense(@as(u64, width) * chosen.len);
                take_unaligned(width, source, chosen, target);
                builder.dense_count += @intCast(chosen.len);
            } else try self.append_taken(builder, count, chosen),
            .bytes => try self.append_chosen_bytes(builder, count, chosen),
            else => try self.append_taken(builder, count, chosen),
        }
    }

    /// Decodes all and takes some.
    fn append_taken(self: *ValueReader, builder: *ColumnBuilder, count: u32, chosen: []const u32) Error!void {
        var all: ColumnBuilder = try .init(self.gpa, self.leaf.type);
        defer all.deinit();
        try self.append(&all, count);
        try all.settle(count);
        const column: Column =
            .{ .type = all.type, .row_count = count, .data = all.data.items, .offsets = all.offsets.items };
        try builder.append_dense(&column, chosen);
    }

    fn append_chosen_bytes(self: *ValueReader, builder: *ColumnBuilder, count: u32, chosen: []const u32) Error!void {
        if (self.leaf.type.layout() != .bytes) return self.append_taken(builder, count, chosen);
        const values = &self.decoder.bytes;
        const places = try self.offsets_buffer(count);
        _ = try values.read_offsets(places, 0);
        const base = builder.data.items.len;
        var size: u64 = 0;
        for (chosen) |index| size += places[index + 1] - places[index];
        if (base + size > std.math.maxInt(u32)) return error.TooLarge;
        const offsets = try builder.grow_dense_offsets(@intCast(chosen.len));
        const target = try builder.grow_dense(size);
        var position: usize = 0;
        for (chosen, offsets[1..]) |index, *end| {
            // Before every value stands its length.
            const start = values.first + places[index] + 4 * (@as(usize, index) + 1);
            const length = places[index + 1] - places[index];
            copy_wide(target.ptr + position, values.source.ptr + start, length);
            position += length;
            end.* = @intCast(base + position);
        }
        builder.dense_count += @intCast(chosen.len);
        if (self.leaf.type.tag != .utf8) return;
        if (try utf8.find_invalid(target, offsets, @intCast(base)) != null) return invalid("text is not UTF-8");
    }

    pub fn has_codes(self: *const ValueReader) bool {
        return self.decoder == .codes;
    }

    /// Entries of the dictionary; codes are less.
    pub fn dictionary_count(self: *const ValueReader) u32 {
        return if (self.dictionary) |*builder| builder.row_count else 0;
    }

    /// Bytes of an entry of the dictionary, rounded up.
    pub fn entry_size_mean(self: *const ValueReader) u64 {
        const builder = &(self.dictionary orelse return 0);
        return if (builder.row_count == 0) 0 else builder.data.items.len / builder.row_count + 1;
    }

    /// Where entry c of the dictionary of texts or binaries begins; it ends where the next one begins.
    pub fn entry_offsets(self: *const ValueReader) []const u32 {
        return self.dictionary.?.offsets.items;
    }

    /// Adds the next `count` codes of a page that has them, each less than `dictionary_count`.
    pub fn take_codes(self: *ValueReader, coded: *CodedRows, count: u32) Error!void {
        var checked = coded.codes.items.len;
        const stretch_count = coded.stretches.items.len;
        coded.codes.items.len += count;
        try self.decoder.codes.read_noting(coded.codes.items, @intCast(checked), &coded.stretches);
        for (coded.stretches.items[stretch_count..]) |stretch| {
            try self.check_codes(coded.codes.items[checked..stretch.first]);
            try self.check_codes(&.{stretch.value});
            checked = stretch.first + stretch.count;
        }
        try self.check_codes(coded.codes.items[checked..]);
    }

    fn check_codes(self: *const ValueReader, codes: []const u32) Error!void {
        var greatest: u32 = 0;
        for (codes) |code| greatest = @max(greatest, code);
        if (codes.len > 0 and greatest >= self.dictionary_count())
            return invalid("a code beyond the end of its dictionary");
    }

    /// Values of the dictionary, behind the dense ones of `builder`.
    pub fn append_of_dictionary(self: *ValueReader, builder: *ColumnBuilder, codes: []const u32) Error!void {
        if (codes.len == 0) return; // pages of NULLs have codes without a dictionary
        const source = &self.dictionary.?;
        const count: u32 = @intCast(codes.len);
        switch (self.leaf.type.layout()) {
            .bytes => {
                const base = builder.data.items.len;
                const offsets = try builder.grow_dense_offsets(count);
                const size = try dictionary_module.gather_offsets(source.offsets.items, codes, offsets, @intCast(base));
                const target = try builder.grow_dense(size);
                try dictionary_module.gather_bytes(source.offsets.items, source.data.items, codes, target);
            },
            .none => {}, // a column of the type NULL may have one, and nothing of it is wanted
            .bits, .list, .structure => unreachable, // these have no dictionaries
            else => {
                const size: usize = @intCast(self.leaf.type.value_size());
                try gather_fixed(source.data.items, size, codes, try builder.grow_dense(@as(u64, size) * count));
            },
        }
        builder.dense_count += count;
    }

    pub fn skip(self: *ValueReader, count: u32) Error!void {
        switch (self.decoder) {
            .none => if (count > 0) return too_few(),
            .split => |*values| {
                if (count > values.count - values.position) return too_few();
                values.position += count;
            },
            inline .fixed,
            .bits,
            .rle_bits,
            .bytes,
            .codes,
            .delta_i32,
            .delta_i64,
            .delta_length,
            .delta_bytes,
            => |*values| try values.skip(count),
        }
    }

    // ---- booleans ----

    fn append_bits(self: *ValueReader, builder: *ColumnBuilder, count: u32) Error!void {
        const first = builder.row_count + builder.dense_count;
        const target = try builder.grow_dense_bits(count);
        switch (self.decoder) {
            .bits => |*values| try values.read(target, first, count),
            .rle_bits => |*values| _ = try values.read_validity(target, first, count),
            else => return too_few(),
        }
    }

    // ---- values of fixed size ----

    fn append_fixed(self: *ValueReader, builder: *ColumnBuilder, count: u32) Error!void {
        const size: usize = @intCast(self.leaf.type.value_size());
        try self.expect_fixed(count);
        const target = try builder.grow_dense(@as(u64, size) * count);
        if (self.decoder == .codes)
            return gather_fixed(self.dictionary.?.data.items, size, try self.read_codes(count), target);
        if (self.leaf.physical == .byte_array) return self.convert_byte_arrays(target, count);
        if (self.leaf.conversion == .none) return self.read_raw(target, count);
        const raw = try self.raw_buffer(@as(u64, raw_size(self.leaf)) * count);
        try self.read_raw(raw, count);
        try self.convert_fixed(raw, target, count);
    }

    /// Before room is made: the schema may claim values of a gigabyte, a page that lacks them does not.
    fn expect_fixed(self: *const ValueReader, count: u32) Error!void {
        const width: u64 = raw_size(self.leaf);
        const has_values = switch (self.decoder) {
            .fixed => |*values| width * count <= values.source.len - values.position,
            .split => |*values| count <= values.count - values.position,
            .delta_bytes => |*values| width <= values.source.len,
            else => true,
        };
        if (!has_values) return too_few();
    }

    fn read_codes(self: *ValueReader, count: u32) Error![]const u32 {
        try self.codes.ensureTotalCapacity(self.gpa, count + slack / 4);
        self.codes.items.len = count;
        try self.decoder.codes.read(self.codes.items);
        return self.codes.items;
    }

    fn raw_buffer(self: *ValueReader, size: u64) Error![]align(16) u8 {
        const needed = std.math.cast(usize, size + slack) orelse return error.TooLarge;
        self.raw.clearRetainingCapacity();
        try self.raw.ensureTotalCapacity(self.gpa, needed);
        self.raw.items.len = @intCast(size);
        return self.raw.items;
    }

    /// Values as the file has them.
    fn read_raw(self: *ValueReader, target: []u8, count: u32) Error!void {
        switch (self.decoder) {
            .fixed => |*values| try values.read(target),
            .delta_i32 => |*values| try values.read(typed(i32, target)),
            .delta_i64 => |*values| try values.read(typed(i64, target)),
            .split => |*values| {
                if (count > values.count - values.position) return too_few();
                try byte_stream_split.read(values.bytes, raw_size(self.leaf), values.count, values.position, target);
                values.position += count;
            },
            .delta_bytes => |*values| try values.read_fixed(raw_size(self.leaf), target),
            .none, .bits, .rle_bits, .bytes, .codes, .delta_length => return too_few(),
        }
    }

    fn offsets_buffer(self: *ValueReader, count: u32) Error![]u32 {
        try self.raw_offsets.ensureTotalCapacity(self.gpa, @as(usize, count) + 1 + slack / 4);
        self.raw_offsets.items.len = @as(usize, count) + 1;
        return self.raw_offsets.items;
    }

    fn convert_fixed(self: *const ValueReader, raw: []align(16) const u8, target: []u8, count: u32) Error!void {
        const leaf = self.leaf;
        switch (leaf.conversion) {
            .none, .unsupported => unreachable,
            .narrow => switch (leaf.type.layout()) {
                .i8, .u8 => convert.narrow(u8, typed_const(i32, raw), target[0..count]),
                .i16, .u16 => convert.narrow(u16, typed_const(i32, raw), typed(u16, target)),
                else => unreachable,
            },
            .widen => convert.widen(typed_const(i32, raw), typed(i64, target)),
            .widen_i128 => if (leaf.physical == .int32)
                convert.widen_i128(i32, typed_const(i32, raw), typed(i128, target))
            else
                convert.widen_i128(i64, typed_const(i64, raw), typed(i128, target)),
            .big_endian => switch (leaf.type.layout()) {
                .i64 => try convert.big_endian_fixed(i64, raw, leaf.type_length, typed(i64, target)),
                .i128 => try convert.big_endian_fixed(i128, raw, leaf.type_length, typed(i128, target)),
                else => unreachable,
            },
            .int96 => convert.int96(raw, typed(i64, target)),
            .float16 => convert.float16(raw, typed(f16, target)),
        }
    }

    /// Decimals in byte arrays, each of its own length.
    fn convert_byte_arrays(self: *ValueReader, target: []u8, count: u32) Error!void {
        const offsets = try self.offsets_buffer(count);
        const total = try self.read_offsets(offsets, 0);
        const raw = try self.raw_buffer(total);
        try self.read_bytes(raw);
        switch (self.leaf.type.layout()) {
            .i64 => try convert.big_endian_bytes(i64, offsets, raw, typed(i64, target)),
            .i128 => try convert.big_endian_bytes(i128, offsets, raw, typed(i128, target)),
            else => unreachable,
        }
    }

    // ---- byte arrays ----

    fn append_bytes(self: *ValueReader, builder: *ColumnBuilder, count: u32) Error!void {
        const base = builder.data.items.len;
        const offsets = try builder.grow_dense_offsets(count);
        switch (self.decoder) {
            .codes => {
                // The dictionary's text was looked at when it was read.
                const codes = try self.read_codes(count);
                const source = &self.dictionary.?;
                const size = try dictionary_module.gather_offsets(source.offsets.items, codes, offsets, @intCast(base));
                return dictionary_module.gather_bytes(
                    source.offsets.items,
                    source.data.items,
                    codes,
                    try builder.grow_dense(size),
                );
            },
            .bytes => |*values| {
                const room = values.remaining();
                try builder.data.ensureUnusedCapacity(builder.gpa, room + slack);
                const size = try values.read(offsets, @intCast(base), builder.data.unusedCapacitySlice()[0..room]);
                builder.data.items.len += size;
            },
            else => {
                const end = try self.read_offsets(offsets, @intCast(base));
                try self.read_bytes(try builder.grow_dense(end - base));
            },
        }
        if (self.leaf.type.tag != .utf8) return;
        const text = builder.data.items[base..];
        if (try utf8.find_invalid(text, offsets, @intCast(base)) != null) return invalid("text is not UTF-8");
    }

    fn read_offsets(self: *ValueReader, offsets: []u32, base: u32) Error!u32 {
        return switch (self.decoder) {
            .bytes => |*values| base + try values.read_offsets(offsets, base),
            inline .delta_length, .delta_bytes => |*values| try values.read_offsets(offsets, base),
            else => too_few(),
        };
    }

    fn read_bytes(self: *ValueReader, target: []u8) Error!void {
        switch (self.decoder) {
            .bytes => |*values| values.read_bytes(target),
            inline .delta_length, .delta_bytes => |*values| try values.read_bytes(target),
            else => return too_few(),
        }
    }
};

fn gather_fixed(source: []align(16) const u8, size: usize, codes: []const u32, target: []u8) Error!void {
    switch (size) {
        inline 1, 2, 4, 8, 16 => |width| {
            const T = @Int(.unsigned, width * 8);
            const values: []const T = @as([*]const T, @ptrCast(@alignCast(source.ptr)))[0 .. source.len / width];
            const to: []T = @as([*]T, @ptrCast(@alignCast(target.ptr)))[0..codes.len];
            try dictionary_module.gather(T, values, codes, to);
        },
        else => try dictionary_module.gather_fixed(@intCast(size), source, codes, target),
    }
}

/// Values of a page, which may lie anywhere.
fn take_unaligned(width: usize, source: []const u8, chosen: []const u32, target: []u8) void {
    switch (width) {
        inline 4, 8 => |size| {
            const T = @Int(.unsigned, size * 8);
            const from: [*]align(1) const T = @ptrCast(source.ptr);
            for (typed(T, target), chosen) |*to, index| to.* = from[index];
        },
        else => for (chosen, 0..) |index, i|
            @memcpy(target[i * width ..][0..width], source[index * width ..][0..width]),
    }
}

/// May write up to 15 bytes too many, and read as many.
fn copy_wide(target: [*]u8, source: [*]const u8, size: usize) void {
    var done: usize = 0;
    while (done < size) : (done += 16) target[done..][0..16].* = source[done..][0..16].*;
}

fn longest(offsets: []const u32) u32 {
    var size: u32 = 0;
    for (offsets[0 .. offsets.len - 1], offsets[1..]) |start, end| size = @max(size, end - start);
    return size;
}

/// A dictionary of values without bytes (fixed length 0) is bounded by this alone.
const dictionary_count_max = 1 << 20;

/// Bytes of a value as the file has it; 0 for byte arrays.
pub fn raw_size(leaf: *const Leaf) u32 {
    return switch (leaf.physical) {
        .boolean, .byte_array => 0,
        .int32, .float => 4,
        .int64, .double => 8,
        .int96 => 12,
        .fixed_len_byte_array => leaf.type_length,
    };
}

fn typed(comptime T: type, bytes: []u8) []T {
    return @as([*]T, @ptrCast(@alignCast(bytes.ptr)))[0 .. bytes.len / @sizeOf(T)];
}

fn typed_const(comptime T: type, bytes: []const u8) []const T {
    return @as([*]const T, @ptrCast(@alignCast(bytes.ptr)))[0 .. bytes.len / @sizeOf(T)];
}

fn invalid(message: []const u8) error{InvalidFormat} {
    interrupt.describe("{s}", .{message});
    return error.InvalidFormat;
}

fn too_few() error{InvalidFormat} {
    return invalid("a page has fewer values than it says");
}

test "a column of the type NULL has values, in pages of codes too, and none of them is wanted" {
    const gpa = std.testing.allocator;
    const leaf: Leaf = .{ .physical = .int32, .max_definition = 1, .max_repetition = 0, .type = .of(.null) };
    var reader: ValueReader = .init(gpa, &leaf);
    defer reader.deinit();
    try reader.read_dictionary(.plain, &.{ 1, 0, 0, 0, 2, 0, 0, 0 }, 2);
    // One bit a code, a run of eight of them.
    const page = [_]u8{ 1, 0b0000_0011, 0b0101_0101 } ++ @as([slack]u8, @splat(0));
    var builder: ColumnBuilder = try .init(gpa, leaf.type);
    defer builder.deinit();
    try reader.begin(.rle_dictionary, page[0..3], 8);
    try reader.append_chosen(&builder, 8, &.{ 0, 3, 7 });
    try std.testing.expectEqual(3, builder.dense_count);
    try reader.append_of_dictionary(&builder, &.{ 1, 0 });
    try std.testing.expectEqual(5, builder.dense_count);
}
