//! How a page is laid out: the message PageLayout of file versions 2.1 and 2.2.
//!
//!     Any               1 type url  2 PageLayout
//!     PageLayout        1 mini-block | 2 constant | 3 full-zip | 4 blob
//!     mini-block        1 repetition  2 definition  3 values  4 dictionary (encodings)  5 items of the dictionary
//!                       6 layers  7 value buffers of a chunk  8 depth of the repetition index  9 items
//!                       10 chunks are large
//!     constant          5 layers  6 value  7 repetition  8 definition (encodings)  9, 10 how many of each
//!     full-zip          1, 2 bits of repetition and definition  3 bits of a value | 4 bits of a length
//!                       5 items  6 items with a value  7 values (encoding)  8 layers
//!     blob              1 PageLayout of the descriptions  2 layers
//!
//! Layers stand from the values outwards; each says which levels it takes. Version 2.3 lays pages out otherwise
//! (lance.encodings23) and is refused. Counts are as the file has them: who reads the page holds them against
//! its buffers.
const std = @import("std");
const compression = @import("compression.zig");
const interrupt = @import("../../core/interrupt.zig");
const protobuf = @import("protobuf.zig");
const Arena = @import("../../core/arena.zig").Arena;
const Encoding = compression.Encoding;
const Message = protobuf.Message;

pub const Error = compression.Error;

/// A layer each for a list or a struct, and one for the values: as deep as our types go.
pub const layers_max = 2 * @import("../../abi.zig").type_depth_max + 1;
/// Lists of a fixed size may lie in each other, each with a buffer of validity.
pub const value_buffers_max = compression.depth_max + 2;

pub const Layer = enum(u3) {
    all_valid_item = 1,
    all_valid_list = 2,
    nullable_item = 3,
    nullable_list = 4,
    emptyable_list = 5,
    null_and_empty_list = 6,

    pub fn is_list(self: Layer) bool {
        return switch (self) {
            .all_valid_item, .nullable_item => false,
            .all_valid_list, .nullable_list, .emptyable_list, .null_and_empty_list => true,
        };
    }

    /// Definition levels that it adds.
    pub fn level_count(self: Layer) u2 {
        return switch (self) {
            .all_valid_item, .all_valid_list => 0,
            .nullable_item, .nullable_list, .emptyable_list => 1,
            .null_and_empty_list => 2,
        };
    }
};

pub const MiniBlock = struct {
    /// Null: there are no such levels, all of them are 0.
    repetition: ?*const Encoding = null,
    definition: ?*const Encoding = null,
    /// Where there is a dictionary: of codes.
    values: *const Encoding,
    dictionary: ?*const Encoding = null,
    dictionary_count: u32 = 0,
    layers: []const Layer = &.{},
    value_buffer_count: u8 = 0,
    repetition_index_depth: u32 = 0,
    /// Values, those of NULLs included.
    item_count: u64 = 0,
    /// Words of chunks and sizes of value buffers have 4 bytes instead of 2.
    has_large_chunks: bool = false,
};

pub const FullZip = struct {
    repetition_bits: u8,
    definition_bits: u8,
    size: union(enum) {
        /// Bits of a value: whole bytes.
        value: u32,
        /// Bits of the length in front of a value: 8, 16, 32 or 64.
        length: u8,
    },
    /// Control words, and those of them with a value.
    item_count: u32,
    visible_count: u32,
    values: *const Encoding,
    layers: []const Layer,

    /// Bytes of the control word in front of an item.
    pub fn control_size(self: *const FullZip) u8 {
        const bits = self.repetition_bits + self.definition_bits;
        return if (bits == 0) 0 else if (bits <= 8) 1 else if (bits <= 16) 2 else 4;
    }
};

pub const Constant = struct {
    layers: []const Layer = &.{},
    /// Null: the value is a buffer, or there is none.
    value: ?[]const u8 = null,
    /// Null: levels are plain numbers of 16 bits.
    repetition: ?*const Encoding = null,
    definition: ?*const Encoding = null,
    repetition_count: u64 = 0,
    definition_count: u64 = 0,
};

pub const Blob = struct {
    /// Of the descriptions.
    inner: *const Layout,
    layers: []const Layer = &.{},
};

pub const Layout = union(enum) {
    mini_block: MiniBlock,
    full_zip: FullZip,
    constant: Constant,
    blob: Blob,
};

/// Of the bytes of a page's encoding, a google.protobuf.Any. Everything is in `arena` or points into `bytes`.
pub fn parse(arena: std.mem.Allocator, bytes: []const u8) Error!Layout {
    @setRuntimeSafety(true);
    var url: []const u8 = "";
    var value: []const u8 = "";
    var message: Message = .init(bytes);
    while (try message.next()) |field| switch (field.number) {
        1 => url = try field.text(),
        2 => value = try field.bytes(),
        else => {},
    };
    if (!std.mem.endsWith(u8, url, "/lance.encodings21.PageLayout")) {
        interrupt.describe("Lance pages laid out as {s} are not supported", .{url[0..@min(url.len, 60)]});
        return error.NotSupported;
    }
    return parse_layout(arena, value, 0);
}

fn parse_layout(arena: std.mem.Allocator, bytes: []const u8, depth: u32) Error!Layout {
    @setRuntimeSafety(true);
    var found: ?Layout = null;
    var message: Message = .init(bytes);
    while (try message.next()) |field| {
        const inner = try field.bytes();
        found = switch (field.number) {
            1 => .{ .mini_block = try parse_mini_block(arena, inner) },
            2 => .{ .constant = try parse_constant(arena, inner) },
            3 => .{ .full_zip = try parse_full_zip(arena, inner) },
            4 => if (depth > 0) return invalid("blobs of blobs", .{}) else .{ .blob = try parse_blob(arena, inner) },
            else => {
                interrupt.describe("Lance pages of layout {d} are not supported", .{field.number});
                return error.NotSupported;
            },
        };
    }
    return found orelse invalid("no layout", .{});
}

fn parse_mini_block(arena: std.mem.Allocator, bytes: []const u8) Error!MiniBlock {
    @setRuntimeSafety(true);
    var values: ?*const Encoding = null;
    var found: MiniBlock = .{ .values = undefined };
    var layers: Layers = .{};
    var buffer_count: u64 = 0;
    var message: Message = .init(bytes);
    while (try message.next()) |field| switch (field.number) {
        1 => found.repetition = try compression.parse(arena, try field.bytes()),
        2 => found.definition = try compression.parse(arena, try field.bytes()),
        3 => values = try compression.parse(arena, try field.bytes()),
        4 => found.dictionary = try compression.parse(arena, try field.bytes()),
        5 => found.dictionary_count = try field.int(u32),
        6 => try layers.add(field),
        7 => buffer_count = try field.int(u64),
        8 => found.repetition_index_depth = try field.int(u32),
        9 => found.item_count = try field.int(u64),
        10 => found.has_large_chunks = try field.boolean(),
        else => {},
    };
    if (buffer_count > value_buffers_max) return invalid("{d} buffers of values", .{buffer_count});
    if (found.dictionary_count > 0 and found.dictionary == null) {
        return invalid("a dictionary that is not described", .{});
    }
    found.values = values orelse return invalid("values that are not described", .{});
    found.value_buffer_count = @intCast(buffer_count);
    found.layers = try layers.finish(arena);
    return found;
}

fn parse_constant(arena: std.mem.Allocator, bytes: []const u8) Error!Constant {
    @setRuntimeSafety(true);
    var found: Constant = .{};
    var layers: Layers = .{};
    var message: Message = .init(bytes);
    while (try message.next()) |field| switch (field.number) {
        5 => try layers.add(field),
        6 => found.value = try field.bytes(),
        7 => found.repetition = try compression.parse(arena, try field.bytes()),
        8 => found.definition = try compression.parse(arena, try field.bytes()),
        9 => found.repetition_count = try field.int(u64),
        10 => found.definition_count = try field.int(u64),
        else => {},
    };
    found.layers = try layers.finish(arena);
    return found;
}

fn parse_full_zip(arena: std.mem.Allocator, bytes: []const u8) Error!FullZip {
    @setRuntimeSafety(true);
    var repetition_bits: u32 = 0;
    var definition_bits: u32 = 0;
    var value_bits: ?u32 = null;
    var length_bits: ?u32 = null;
    var item_count: u32 = 0;
    var visible_count: u32 = 0;
    var values: ?*const Encoding = null;
    var layers: Layers = .{};
    var message: Message = .init(bytes);
    while (try message.next()) |field| switch (field.number) {
        1 => repetition_bits = try field.int(u32),
        2 => definition_bits = try field.int(u32),
        3 => value_bits = try field.int(u32),
        4 => length_bits = try field.int(u32),
        5 => item_count = try field.int(u32),
        6 => visible_count = try field.int(u32),
        7 => values = try compression.parse(arena, try field.bytes()),
        8 => try layers.add(field),
        else => {},
    };
    // A level is a number of 16 bits.
    if (repetition_bits > 16 or definition_bits > 16) {
        return invalid("levels of {d} and {d} bits", .{ repetition_bits, definition_bits });
    }
    if (visible_count > item_count) return invalid("{d} values of {d} items", .{ visible_count, item_count });
    return .{
        .repetition_bits = @intCast(repetition_bits),
        .definition_bits = @intCast(definition_bits),
        .size = if (length_bits) |bits| switch (bits) {
            8, 16, 32, 64 => .{ .length = @intCast(bits) },
            else => return invalid("lengths of {d} bits", .{bits}),
        } else if (value_bits) |bits|
            if (bits % 8 == 0) .{ .value = bits } else return invalid("values of {d} bits", .{bits})
        else
            return invalid("values of no size", .{}),
        .item_count = item_count,
        .visible_count = visible_count,
        .values = values orelse return invalid("values that are not described", .{}),
        .layers = try layers.finish(arena),
    };
}

fn parse_blob(arena: std.mem.Allocator, bytes: []const u8) Error!Blob {
    @setRuntimeSafety(true);
    var inner: ?*Layout = null;
    var layers: Layers = .{};
    var message: Message = .init(bytes);
    while (try message.next()) |field| switch (field.number) {
        1 => {
            inner = try arena.create(Layout);
            inner.?.* = try parse_layout(arena, try field.bytes(), 1);
        },
        2 => try layers.add(field),
        else => {},
    };
    return .{
        .inner = inner orelse return invalid("blobs that are not described", .{}),
        .layers = try layers.finish(arena),
    };
}

const Layers = struct {
    list: [layers_max]Layer = undefined,
    count: usize = 0,

    fn add(self: *Layers, field: protobuf.Field) Error!void {
        var numbers = try field.ints(u32);
        while (try numbers.next()) |number| {
            if (number < 1 or number > 6) return invalid("a layer of kind {d}", .{number});
            if (self.count == layers_max) return invalid("more than {d} layers", .{layers_max});
            self.list[self.count] = @fromBackingInt(@intCast(number));
            self.count += 1;
        }
    }

    /// A value has a layer of its own.
    fn finish(self: *const Layers, arena: std.mem.Allocator) Error![]const Layer {
        if (self.count == 0) return invalid("no layers", .{});
        return arena.dupe(Layer, self.list[0..self.count]);
    }
};

fn invalid(comptime format: []const u8, arguments: anytype) Error {
    interrupt.describe("a Lance page has " ++ format, arguments);
    return error.InvalidFormat;
}

const testing = std.testing;
const samples = compression.samples;

/// An Any around the layout `number`.
fn any(comptime number: u8, comptime inner: []const u8) []const u8 {
    const url = "/lance.encodings21.PageLayout";
    return comptime &([_]u8{ 0x0A, url.len } ++ url.* ++ [_]u8{ 0x12, inner.len + 2, number << 3 | 2, inner.len } ++
        inner[0..inner.len].*);
}

const mini_block_sample = [_]u8{ 0x12, 10 } ++ samples.out_of_line_1 ++ [_]u8{ 0x1A, 8 } ++ samples.variable_32 ++
    [_]u8{ 0x32, 2, 3, 5, 0x38, 1, 0x40, 1, 0x48, 0xB8, 0x17, 0x50, 1 };
const full_zip_sample = [_]u8{ 0x08, 1, 0x10, 2, 0x18, 0x80, 0x20, 0x28, 7, 0x30, 6, 0x3A, 4 } ++ samples.flat_32 ++
    [_]u8{ 0x42, 2, 3, 6 };

fn expect_error(expected: Error, bytes: []const u8) !void {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    defer interrupt.forget();
    try testing.expectError(expected, parse(arena.allocator(), bytes));
}

test "mini-block" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const found = (try parse(arena.allocator(), any(1, &mini_block_sample))).mini_block;
    try testing.expectEqual(null, found.repetition);
    try testing.expectEqual(1, found.definition.?.out_of_line_bitpacking.packed_bits);
    try testing.expectEqual(32, found.values.variable);
    try testing.expectEqualSlices(Layer, &.{ .nullable_item, .emptyable_list }, found.layers);
    try testing.expectEqual(1, found.value_buffer_count);
    try testing.expectEqual(1, found.repetition_index_depth);
    try testing.expectEqual(3000, found.item_count);
    try testing.expect(found.has_large_chunks);
    try testing.expectEqual(2, found.layers[0].level_count() + found.layers[1].level_count());
    try testing.expect(found.layers[1].is_list() and !found.layers[0].is_list());
}

test "full-zip" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const found = (try parse(arena.allocator(), any(3, &full_zip_sample))).full_zip;
    try testing.expectEqual(1, found.repetition_bits);
    try testing.expectEqual(2, found.definition_bits);
    try testing.expectEqual(1, found.control_size());
    try testing.expectEqual(4096, found.size.value);
    try testing.expectEqual(7, found.item_count);
    try testing.expectEqual(6, found.visible_count);
    try testing.expectEqual(32, found.values.flat);
    try testing.expectEqualSlices(Layer, &.{ .nullable_item, .null_and_empty_list }, found.layers);
    const sample = [_]u8{ 0x08, 9, 0x20, 32, 0x28, 7, 0x3A, 8 } ++ samples.variable_32 ++ [_]u8{ 0x42, 1, 1 };
    const variable = (try parse(arena.allocator(), any(3, &sample))).full_zip;
    try testing.expectEqual(32, variable.size.length);
    try testing.expectEqual(2, variable.control_size());
}

test "constant" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const sample = [_]u8{ 0x2A, 1, 3, 0x32, 1, 42, 0x42, 4 } ++ samples.flat_16 ++ [_]u8{ 0x50, 9 };
    const found = (try parse(arena.allocator(), any(2, &sample))).constant;
    try testing.expectEqualStrings("*", found.value.?);
    try testing.expectEqual(16, found.definition.?.flat);
    try testing.expectEqual(9, found.definition_count);
    const empty = (try parse(arena.allocator(), any(2, &.{ 0x2A, 1, 3, 0x32, 0 }))).constant;
    try testing.expectEqualStrings("", empty.value.?);
    const none = (try parse(arena.allocator(), any(2, &.{ 0x28, 3 }))).constant;
    try testing.expectEqual(null, none.value);
}

test "blob" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const sample = [_]u8{ 0x0A, mini_block_sample.len + 2, 0x0A, mini_block_sample.len } ++ mini_block_sample ++
        [_]u8{ 0x12, 1, 1 };
    const found = (try parse(arena.allocator(), any(4, &sample))).blob;
    try testing.expectEqual(3000, found.inner.mini_block.item_count);
    try testing.expectEqualSlices(Layer, &.{.all_valid_item}, found.layers);
    try expect_error(error.InvalidFormat, any(4, &([_]u8{ 0x0A, 4, 0x22, 2, 0x12, 0, 0x12, 1, 1 })));
    try expect_error(error.InvalidFormat, any(4, &.{ 0x12, 1, 1 }));
}

test "layouts that are none" {
    const flat = [_]u8{ 0x1A, 4 } ++ samples.flat_32;
    try expect_error(error.NotSupported, "");
    try expect_error(error.NotSupported, &([_]u8{ 0x0A, 31 } ++ "/lance.encodings23.PlanarLayout".*));
    try expect_error(error.InvalidFormat, &([_]u8{ 0x0A, 29 } ++ "/lance.encodings21.PageLayout".*));
    try expect_error(error.NotSupported, any(5, &.{}));
    try expect_error(error.InvalidFormat, any(1, &flat)); // no layers
    try expect_error(error.InvalidFormat, any(1, &.{ 0x32, 1, 1 })); // no values
    try expect_error(error.InvalidFormat, any(1, &(flat ++ [_]u8{ 0x32, 1, 7 }))); // a layer there is not
    try expect_error(error.InvalidFormat, any(1, &(flat ++ [_]u8{ 0x32, 1, 0 })));
    try expect_error(error.InvalidFormat, any(1, &(flat ++ [_]u8{ 0x32, 1, 1, 0x38, 99 }))); // 99 buffers
    try expect_error(error.InvalidFormat, any(1, &(flat ++ [_]u8{ 0x32, 1, 1, 0x28, 4 }))); // 4 items of no dictionary
    const layers: [100]u8 = @splat(1);
    try expect_error(error.InvalidFormat, any(1, &(flat ++ [_]u8{ 0x32, 100 } ++ layers)));
    const zip = [_]u8{ 0x3A, 4 } ++ samples.flat_32 ++ [_]u8{ 0x42, 1, 1 };
    try expect_error(error.InvalidFormat, any(3, &zip)); // no size
    try expect_error(error.InvalidFormat, any(3, &(zip ++ [_]u8{ 0x18, 31 }))); // 31 bits
    try expect_error(error.InvalidFormat, any(3, &(zip ++ [_]u8{ 0x20, 24 }))); // lengths of 24 bits
    try expect_error(error.InvalidFormat, any(3, &(zip ++ [_]u8{ 0x18, 32, 0x08, 17 }))); // levels of 17 bits
    try expect_error(error.InvalidFormat, any(3, &(zip ++ [_]u8{ 0x18, 32, 0x30, 1 }))); // 1 value of 0 items
}

test "layouts at random" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    defer interrupt.forget();
    const seeds = [_][]const u8{ any(1, &mini_block_sample), any(3, &full_zip_sample) };
    var prng: std.Random.DefaultPrng = .init(34);
    const random = prng.random();
    for (0..5000) |_| {
        var buffer: [128]u8 = undefined;
        const seed = seeds[random.uintLessThan(usize, seeds.len)];
        const bytes = buffer[0..if (random.boolean()) seed.len else random.uintAtMost(usize, seed.len)];
        @memcpy(bytes, seed[0..bytes.len]);
        // Most of what is changed lies behind the url.
        if (bytes.len > 33) for (0..random.uintLessThan(u8, 4)) |_| {
            bytes[random.intRangeLessThan(usize, 31, bytes.len)] = random.int(u8);
        };
        _ = parse(arena.allocator(), bytes) catch {};
        _ = arena.reset(.retain_capacity);
    }
}
