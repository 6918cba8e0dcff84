//! Columns that the host laid into linear memory → a checked `Batch`.
//!
//! Buffers are used where they lie. What Arrow allows and our columns do not is brought into shape
//! in `arena`: bitmaps that start inside a byte, offsets of eight bytes or with a base, decimals
//! and times narrower or wider than we store them. Every address, size and offset is checked here,
//! once, because everything behind relies on it.
const std = @import("std");
const abi = @import("abi.zig");
const bitmap = @import("core/bitmap.zig");
const column_module = @import("core/column.zig");
const interrupt = @import("core/interrupt.zig");
const schema = @import("core/schema.zig");
const Arena = @import("core/arena.zig").Arena;
const Batch = column_module.Batch;
const Column = column_module.Column;
const DataType = schema.DataType;
const Descriptor = abi.ColumnDescriptor;

/// A map takes two descriptors (itself, and the structure of key and value) for one level of type.
const depth_max = 2 * abi.type_depth_max;

pub const Error = error{ Cancelled, InvalidFormat, OutOfMemory };

/// Address and size → the bytes there, or null when they lie outside of memory.
pub const Resolve = *const fn (address: u32, size: u32) ?[]const u8;

pub fn import(arena: std.mem.Allocator, bytes: []const u8, resolve: Resolve) Error!Batch {
    @setRuntimeSafety(true);
    if (bytes.len < @sizeOf(abi.BatchHeader)) return refuse("a batch without a header", .{});
    const header = std.mem.bytesToValue(abi.BatchHeader, bytes[0..@sizeOf(abi.BatchHeader)]);
    const rest = bytes[@sizeOf(abi.BatchHeader)..];
    if (rest.len != @as(u64, header.descriptor_count) * @sizeOf(Descriptor))
        return refuse("descriptors cut short", .{});
    if (header.column_count > abi.column_count_max or header.column_count > header.descriptor_count)
        return refuse("more columns than descriptors", .{});
    var importer: Importer = .{ .arena = arena, .bytes = rest, .resolve = resolve };
    const columns = try arena.alloc(Column, header.column_count);
    for (columns, 0..) |*column, i| {
        interrupt.describe_column(@intCast(i));
        column.* = try importer.import_column(0);
        if (column.row_count != header.row_count)
            return refuse("a column of {d} rows in a batch of {d}", .{ column.row_count, header.row_count });
    }
    if (importer.bytes.len != 0) return refuse("descriptors without a column", .{});
    return .{ .row_count = header.row_count, .columns = columns };
}

const Importer = struct {
    arena: std.mem.Allocator,
    bytes: []const u8,
    resolve: Resolve,

    /// The next descriptor and, for nested types, those behind it.
    fn import_column(self: *Importer, depth: u32) Error!Column {
        @setRuntimeSafety(true);
        if (depth > depth_max) return refuse("a type nested deeper than {d}", .{abi.type_depth_max});
        const given = try self.next_descriptor();
        var column: Column = .{ .type = try import_type(given), .row_count = given.row_count };
        column.validity =
            try self.import_bits(given.validity, given.validity_size, given.validity_bit, given.row_count);
        const children = try self.import_children(given, depth);
        column.children = children;
        switch (column.type.layout()) {
            .none => column.validity = null,
            .bits => column.data = (try self.import_bits(
                given.data,
                given.data_size,
                given.data_bit,
                given.row_count,
            )) orelse blk: {
                if (given.row_count > 0) return refuse("a bool column without values", .{});
                break :blk &.{};
            },
            .bytes => {
                column.offsets = try self.import_offsets(given);
                column.data = try self.buffer(given.data, given.data_size);
                if (column.offsets[given.row_count] > column.data.len)
                    return refuse("offsets point behind the values", .{});
            },
            .list => {
                if (children.len != 1) return refuse("a list has one child", .{});
                column.offsets = try self.import_offsets(given);
                if (column.offsets[given.row_count] > children[0].row_count)
                    return refuse("offsets point behind the items", .{});
                column.type.children = try self.list_fields(column.type.tag, &children[0]);
            },
            .structure => {
                for (children) |child|
                    if (child.row_count != given.row_count) return refuse("fields of different length", .{});
                const fields = try self.arena.alloc(schema.Field, children.len);
                for (fields, children) |*field, child| field.* = .{ .name = "", .type = child.type };
                column.type.children = fields;
            },
            else => column.data = try self.import_values(given, column.type),
        }
        return column;
    }

    fn next_descriptor(self: *Importer) Error!Descriptor {
        if (self.bytes.len < @sizeOf(Descriptor)) return refuse("descriptors cut short", .{});
        const bytes = self.bytes[0..@sizeOf(Descriptor)];
        self.bytes = self.bytes[@sizeOf(Descriptor)..];
        // Enum fields must be checked before the bytes may be looked at as a Descriptor.
        if (std.enums.fromInt(abi.TypeTag, bytes[@offsetOf(Descriptor, "tag")]) == null)
            return refuse("an unknown type", .{});
        if (std.enums.fromInt(abi.TimeUnit, bytes[@offsetOf(Descriptor, "unit")]) == null)
            return refuse("an unknown unit", .{});
        const descriptor = std.mem.bytesToValue(Descriptor, bytes);
        if (descriptor.validity_bit > 7 or descriptor.data_bit > 7) return refuse("a bit beyond its byte", .{});
        return descriptor;
    }

    fn import_children(self: *Importer, given: Descriptor, depth: u32) Error![]Column {
        const nested = switch (given.tag) {
            .list, .map, .structure => true,
            else => false,
        };
        if (!nested and given.child_count != 0) return refuse("children of a type that has none", .{});
        if (given.child_count > self.bytes.len / @sizeOf(Descriptor))
            return refuse("more children than descriptors", .{});
        const children = try self.arena.alloc(Column, given.child_count);
        for (children) |*child| child.* = try self.import_column(depth + 1);
        return children;
    }

    fn list_fields(self: *Importer, tag: abi.TypeTag, child: *const Column) Error![]const schema.Field {
        if (tag == .map) {
            if (child.type.tag != .structure or child.children.len != 2)
                return refuse("a map's item is a key and a value", .{});
            return child.type.children;
        }
        const fields = try self.arena.alloc(schema.Field, 1);
        fields[0] = .{ .name = "item", .type = child.type };
        return fields;
    }

    fn buffer(self: *Importer, address: u32, size: u32) Error![]align(column_module.alignment) const u8 {
        if (size == 0) return &.{};
        const bytes = self.resolve(address, size) orelse return refuse("a buffer outside of memory", .{});
        if (@intFromPtr(bytes.ptr) % column_module.alignment != 0) return refuse("a buffer off its alignment", .{});
        return @alignCast(bytes);
    }

    fn import_bits(
        self: *Importer,
        address: u32,
        size: u32,
        first_bit: u8,
        count: u32,
    ) Error!?[]align(column_module.alignment) const u8 {
        if (address == 0 and size == 0) return null;
        const bits = try self.buffer(address, size);
        if (bits.len < bitmap.size(@as(u64, count) + first_bit)) return refuse("a bitmap shorter than its column", .{});
        if (first_bit == 0) return bits[0..bitmap.size(count)];
        const shifted = try self.arena.alignedAlloc(u8, .fromByteUnits(column_module.alignment), bitmap.size(count));
        bitmap.copy(shifted, 0, bits, first_bit, count);
        return shifted;
    }

    fn import_offsets(self: *Importer, given: Descriptor) Error![]const u32 {
        const bytes = try self.buffer(given.offsets, given.offsets_size);
        const count = @as(u64, given.row_count) + 1;
        if (given.offset_width != 4 and given.offset_width != 8)
            return refuse("offsets of {d} bytes", .{given.offset_width});
        if (bytes.len / given.offset_width < count) return refuse("fewer offsets than rows", .{});
        if (given.offset_width == 4 and given.offset_base == 0) {
            const offsets = @as([*]const u32, @ptrCast(bytes.ptr))[0..@intCast(count)];
            try check_offsets(offsets);
            return offsets;
        }
        const offsets = try self.arena.alloc(u32, @intCast(count));
        if (given.offset_width == 4) {
            try rebase(u32, offsets, @as([*]const u32, @ptrCast(bytes.ptr))[0..offsets.len], given.offset_base);
        } else {
            try rebase(u64, offsets, @as([*]const u64, @ptrCast(bytes.ptr))[0..offsets.len], given.offset_base);
        }
        try check_offsets(offsets);
        return offsets;
    }

    fn import_values(
        self: *Importer,
        given: Descriptor,
        data_type: DataType,
    ) Error![]align(column_module.alignment) const u8 {
        const bytes = try self.buffer(given.data, given.data_size);
        const size = data_type.value_size();
        if (given.value_width == size) {
            if (bytes.len < size * given.row_count) return refuse("fewer values than rows", .{});
            return bytes[0..@intCast(size * given.row_count)];
        }
        if (bytes.len / @max(1, given.value_width) < given.row_count) return refuse("fewer values than rows", .{});
        if (data_type.tag == .decimal or data_type.tag == .time) {
            const out_size = std.math.cast(usize, size * given.row_count) orelse return error.OutOfMemory;
            const out = try self.arena.alignedAlloc(u8, .fromByteUnits(column_module.alignment), out_size);
            switch (given.value_width) {
                4 => try self.resize_values(i32, given, size, bytes, out),
                8 => try self.resize_values(i64, given, size, bytes, out),
                16 => try self.resize_values(i128, given, size, bytes, out),
                else => return refuse("values of {d} bytes", .{given.value_width}),
            }
            return out;
        }
        return refuse("values of {d} bytes where {d} are stored", .{ given.value_width, size });
    }

    fn resize_values(
        self: *Importer,
        comptime From: type,
        given: Descriptor,
        size: u64,
        bytes: []align(column_module.alignment) const u8,
        out: []align(column_module.alignment) u8,
    ) Error!void {
        const from = @as([*]const From, @ptrCast(bytes.ptr))[0..given.row_count];
        const validity = try self.import_bits(given.validity, given.validity_size, given.validity_bit, given.row_count);
        if (size == 8) return resize_to(From, i64, from, validity, @as([*]i64, @ptrCast(out.ptr))[0..from.len]);
        return resize_to(From, i128, from, validity, @as([*]i128, @ptrCast(out.ptr))[0..from.len]);
    }
};

fn resize_to(comptime From: type, comptime To: type, from: []const From, validity: ?[]const u8, to: []To) Error!void {
    for (from, to, 0..) |value, *target, row| {
        if (row % interrupt.block_rows == 0) try interrupt.check();
        target.* = std.math.cast(To, value) orelse blk: {
            // What lies under a NULL is nobody's value.
            if (validity) |bits| if (!bitmap.get(bits.ptr, row)) break :blk 0;
            return refuse("a value beyond its precision", .{});
        };
    }
}

fn rebase(comptime T: type, target: []u32, source: []const T, base: u64) Error!void {
    for (target, source, 0..) |*to, from, i| {
        if (i % interrupt.block_rows == 0) try interrupt.check();
        if (from < base or from - base > std.math.maxInt(u32)) return refuse("an offset out of range", .{});
        to.* = @intCast(from - base);
    }
}

fn check_offsets(offsets: []const u32) Error!void {
    if (offsets[0] != 0) return refuse("the first offset is not 0", .{});
    var start: usize = 1;
    while (start < offsets.len) : (start += interrupt.block_rows) {
        try interrupt.check();
        const end = @min(offsets.len, start + interrupt.block_rows);
        var falling: u32 = 0;
        for (offsets[start - 1 .. end - 1], offsets[start..end]) |a, b| falling |= @intFromBool(b < a);
        if (falling != 0) return refuse("falling offsets", .{});
    }
}

fn import_type(given: Descriptor) Error!DataType {
    var data_type: DataType = .of(given.tag);
    switch (given.tag) {
        .decimal => {
            if (given.precision == 0 or given.precision > schema.decimal_precision_max)
                return refuse("a precision of {d}", .{given.precision});
            data_type.precision = given.precision;
            data_type.scale = given.scale;
        },
        .fixed_binary, .f32vec, .f16vec => {
            data_type.width = given.width;
            if (data_type.value_size() > abi.value_size_max)
                return refuse("values of {d} bytes", .{data_type.value_size()});
        },
        .time, .timestamp => data_type.unit = given.unit,
        else => {},
    }
    return data_type;
}

fn refuse(comptime format: []const u8, arguments: anytype) error{InvalidFormat} {
    interrupt.describe(format, arguments);
    return error.InvalidFormat;
}

var test_memory: [512]u8 align(16) = @splat(0);

fn resolve_test(address: u32, size: u32) ?[]const u8 {
    if (@as(u64, address) + size > test_memory.len) return null;
    return test_memory[address..][0..size];
}

fn descriptor_of(tag: abi.TypeTag, row_count: u32) Descriptor {
    var descriptor = std.mem.zeroes(Descriptor);
    descriptor.tag = tag;
    descriptor.row_count = row_count;
    return descriptor;
}

fn import_test(
    arena: std.mem.Allocator,
    row_count: u32,
    column_count: u32,
    descriptors: []const Descriptor,
) Error!Batch {
    defer interrupt.forget();
    var bytes: [1024]u8 = undefined;
    const header: abi.BatchHeader = .{
        .row_count = row_count,
        .column_count = column_count,
        .descriptor_count = @intCast(descriptors.len),
    };
    @memcpy(bytes[0..16], std.mem.asBytes(&header));
    const rest = std.mem.sliceAsBytes(descriptors);
    @memcpy(bytes[16..][0..rest.len], rest);
    return import(arena, bytes[0 .. 16 + rest.len], resolve_test);
}

test "offsets with a base and of eight bytes" {
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    @memcpy(test_memory[64..70], "abcdef");
    @memcpy(test_memory[0..32], std.mem.asBytes(&[_]u64{ 100, 101, 104, 106 }));
    var text = descriptor_of(.utf8, 3);
    text.offset_width = 8;
    text.offset_base = 100;
    text.offsets_size = 32;
    text.offsets = 0;
    text.data = 64;
    text.data_size = 6;
    const batch = try import_test(arena.allocator(), 3, 1, &.{text});
    try std.testing.expectEqualStrings("bcd", batch.columns[0].bytes_at(1));
    text.data_size = 5;
    try std.testing.expectError(error.InvalidFormat, import_test(arena.allocator(), 3, 1, &.{text}));
    text.data_size = 6;
    text.offset_base = 101;
    try std.testing.expectError(error.InvalidFormat, import_test(arena.allocator(), 3, 1, &.{text}));
}

test "bitmaps that start inside a byte, decimals that change width" {
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    test_memory[16] = 0b0101_1000;
    @memcpy(test_memory[128..][0..48], std.mem.sliceAsBytes(&[_]i128{ -5, 1 << 100, 7 }));
    var decimal = descriptor_of(.decimal, 3);
    decimal.precision = 12;
    decimal.scale = 2;
    decimal.value_width = 16;
    decimal.validity = 16;
    decimal.validity_size = 1;
    decimal.validity_bit = 4; // valid, NULL, valid
    decimal.data = 128;
    decimal.data_size = 48;
    const batch = try import_test(arena.allocator(), 3, 1, &.{decimal});
    try std.testing.expectEqualSlices(i64, &.{ -5, 0, 7 }, batch.columns[0].values(i64));
    try std.testing.expectEqual(1, batch.columns[0].null_count());
    decimal.validity_bit = 3; // the second is valid, and too large for twelve digits
    try std.testing.expectError(error.InvalidFormat, import_test(arena.allocator(), 3, 1, &.{decimal}));
}

test "nested columns check their children" {
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    @memcpy(test_memory[0..12], std.mem.asBytes(&[_]u32{ 0, 2, 3 }));
    var list = descriptor_of(.list, 2);
    list.offset_width = 4;
    list.offsets_size = 12;
    list.child_count = 1;
    var item = descriptor_of(.i32, 3);
    item.value_width = 4;
    item.data = 256;
    item.data_size = 12;
    const batch = try import_test(arena.allocator(), 2, 1, &.{ list, item });
    try std.testing.expectEqual(3, batch.columns[0].children[0].row_count);
    item.row_count = 2;
    item.data_size = 8;
    try std.testing.expectError(error.InvalidFormat, import_test(arena.allocator(), 2, 1, &.{ list, item }));
    try std.testing.expectError(error.InvalidFormat, import_test(arena.allocator(), 2, 1, &.{list}));
}
