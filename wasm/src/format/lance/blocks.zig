//! Blocks: what a page has once, in one buffer or in its description, beside the chunks of its values.
//!
//!     levels       numbers of 16 bits: plain, bit-packed, or runs, perhaps inside a general codec
//!     dictionary   values, as values.zig reads them from a block
//!     constant     fixed size: the value's bytes, in the layout
//!                  any size: u32 buffer count | u32 size of each | buffers, the last of which is the text
const std = @import("std");
const chunk = @import("chunk.zig");
const compression = @import("compression.zig");
const fixed_module = @import("fixed.zig");
const general = @import("general.zig");
const interrupt = @import("../../core/interrupt.zig");
const types = @import("types.zig");
const values = @import("values.zig");
const Arena = @import("../../core/arena.zig").Arena;
const Column = @import("../../core/column.zig").Column;
const ColumnBuilder = @import("../../core/column_builder.zig").ColumnBuilder;
const Encoding = compression.Encoding;
const Fixed = fixed_module.Fixed;
const Leaf = types.Leaf;

pub const Error = values.Error;

const plain_levels: Encoding = .{ .flat = 16 };

/// As many levels as `target` takes. Without an encoding they are plain numbers of 16 bits. `bytes` are readable
/// 64 bytes past their end.
pub fn read_levels(gpa: std.mem.Allocator, encoding: ?*const Encoding, bytes: []const u8, target: []u16) Error!void {
    var scratch: chunk.Scratch = .{ .gpa = gpa };
    defer scratch.deinit();
    var source = bytes;
    var levels = encoding orelse &plain_levels;
    var general_count: usize = 0;
    while (levels.* == .general) : (levels = levels.general.values) {
        if (general_count == chunk.general_max) return invalid("levels of {d} codecs", .{general_count + 1});
        source = try general.decompress(gpa, levels.general.scheme, source, &scratch.decompressed[general_count]);
        general_count += 1;
    }
    if (fixed_module.bits_of(levels) != 16) return invalid("levels that are not 16 bits", .{});
    var fixed: Fixed = try .open(.block, levels, &.{source}, target.len);
    try fixed.read(0, std.mem.sliceAsBytes(target));
}

/// The values of a dictionary, behind the dense ones of `builder`. `bytes` are readable 64 bytes past their end.
pub fn read_values(
    gpa: std.mem.Allocator,
    encoding: *const Encoding,
    bytes: []const u8,
    count: u32,
    leaf: *const Leaf,
    builder: *ColumnBuilder,
) Error!void {
    var reader: values.Reader = try .init(gpa, encoding, leaf);
    defer reader.deinit();
    try reader.open_block(bytes, count);
    try reader.read_range(0, count, builder);
    try reader.check_valid(null, 0);
}

/// The bytes of a constant page's value that is a buffer of its own: for `read_constant`.
pub fn constant_value(bytes: []const u8) Error![]const u8 {
    @setRuntimeSafety(true);
    if (bytes.len < 4) return invalid("a constant that is cut short", .{});
    const count = std.mem.readInt(u32, bytes[0..4], .little);
    if (count == 0 or count > (bytes.len - 4) / 4) return invalid("a constant of {d} buffers", .{count});
    var start = 4 + @as(usize, count) * 4;
    var size: usize = 0;
    for (0..count) |index| {
        start += size;
        size = std.mem.readInt(u32, bytes[4 + index * 4 ..][0..4], .little);
        if (size > bytes.len - start) return invalid("a constant that is cut short", .{});
    }
    return bytes[start..][0..size];
}

/// One value `count` times, behind the dense ones of `builder`.
pub fn read_constant(
    gpa: std.mem.Allocator,
    value: []const u8,
    count: u32,
    leaf: *const Leaf,
    builder: *ColumnBuilder,
) Error!void {
    if (leaf.physical == .none) {
        builder.dense_count += count;
        return;
    }
    var one: ColumnBuilder = try .init(gpa, leaf.type);
    defer one.deinit();
    const encoding: Encoding = switch (leaf.physical) {
        .variable => .{ .variable = 32 },
        .fixed => |bits| .{ .flat = bits },
        else => return unsupported("constants of lists or structs", .{}),
    };
    var reader: values.Reader = try .init(gpa, &encoding, leaf);
    defer reader.deinit();
    if (leaf.physical == .variable) {
        try reader.append_variable(&.{value}, &one);
    } else {
        if (value.len != (leaf.physical.fixed + 7) / 8) return invalid("a constant of {d} bytes", .{value.len});
        try reader.read(&.{value}, 1, 0, 1, &one);
    }
    try reader.check_valid(null, 0);
    try one.settle(1);
    return repeat(&one, count, builder);
}

fn repeat(one: *const ColumnBuilder, count: u32, builder: *ColumnBuilder) Error!void {
    const column: Column = .{
        .type = one.type,
        .row_count = 1,
        .data = one.data.items,
        .offsets = one.offsets.items,
    };
    const first: [interrupt.block_rows]u32 = @splat(0);
    var left = count;
    while (left > 0) {
        try interrupt.check();
        const taken = @min(left, first.len);
        try builder.append_dense(&column, first[0..taken]);
        left -= taken;
    }
}

fn unsupported(comptime format: []const u8, arguments: anytype) Error {
    interrupt.describe("Lance pages with " ++ format ++ " are not supported", arguments);
    return error.NotSupported;
}

fn invalid(comptime format: []const u8, arguments: anytype) Error {
    interrupt.describe("a Lance page has " ++ format, arguments);
    return error.InvalidFormat;
}

const testing = std.testing;

test read_levels {
    const gpa = testing.allocator;
    const runs: Encoding = .{ .rle = &plain_levels };
    const packing: Encoding = .{ .out_of_line_bitpacking = .{ .bits = 16, .packed_bits = 1 } };
    const nothing: Encoding = .{ .out_of_line_bitpacking = .{ .bits = 16, .packed_bits = 0 } };
    const lz4: Encoding = .{ .general = .{ .scheme = .lz4, .values = &plain_levels } };
    const compressed = try general.with_slack(gpa, &(.{ 6, 0, 0, 0, 0x60 } ++ [_]u8{ 1, 0, 0, 0, 1, 0 }));
    defer gpa.free(compressed);
    var bits: [128]u8 = @splat(0);
    bits[0] = 0b1; // value 0
    bits[2 * 2] = 0b1; // lane 2: value 2
    const Case = struct { encoding: ?*const Encoding, bytes: []const u8 };
    const cases = [_]Case{
        .{ .encoding = null, .bytes = &.{ 1, 0, 0, 0, 1, 0 } },
        .{ .encoding = &plain_levels, .bytes = &.{ 1, 0, 0, 0, 1, 0 } },
        .{ .encoding = &runs, .bytes = &.{ 6, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 1, 1 } },
        .{ .encoding = &packing, .bytes = &bits },
        .{ .encoding = &packing, .bytes = &.{ 1, 0, 0, 0, 1, 0 } },
        .{ .encoding = &lz4, .bytes = compressed[0..11] },
    };
    defer interrupt.forget();
    for (cases) |case| {
        var levels: [3]u16 = undefined;
        try read_levels(gpa, case.encoding, case.bytes, &levels);
        try testing.expectEqualSlices(u16, &.{ 1, 0, 1 }, &levels);
        const cut = case.bytes[0 .. case.bytes.len - 1];
        try testing.expectError(error.InvalidFormat, read_levels(gpa, case.encoding, cut, &levels));
    }
    var levels: [3]u16 = undefined;
    try read_levels(gpa, &nothing, "", &levels);
    try testing.expectEqualSlices(u16, &.{ 0, 0, 0 }, &levels);
    try testing.expectError(error.InvalidFormat, read_levels(gpa, &.{ .flat = 8 }, "abcdef", &levels));
    try testing.expectError(error.InvalidFormat, read_levels(gpa, &.{ .variable = 32 }, "abcdef", &levels));
    // More levels, and fewer, than the runs have.
    for ([_]u8{ 2, 4 }) |count| {
        const found = read_levels(gpa, &runs, &.{ 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, count }, &levels);
        try testing.expectError(error.InvalidFormat, found);
    }
}

fn leaf_of(arena: *Arena, text: []const u8) !Leaf {
    return (try types.parse(arena.allocator(), text)).leaf;
}

test read_values {
    defer interrupt.forget();
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const texts: Encoding = .{ .variable = 32 };
    const text_leaf = try leaf_of(&arena, "string");
    var words: ColumnBuilder = try .init(testing.allocator, text_leaf.type);
    defer words.deinit();
    const block = [_]u8{ 32, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 'a', 'b', 'c' };
    try read_values(testing.allocator, &texts, &block, 2, &text_leaf, &words);
    try testing.expectEqual(2, words.dense_count);
    try testing.expectEqualStrings("abc", words.data.items);
    try testing.expectEqualSlices(u32, &.{ 0, 1, 3 }, words.offsets.items);
    var bad = block;
    bad[20] = 0xFF; // no text
    try testing.expectError(error.InvalidFormat, read_values(testing.allocator, &texts, &bad, 2, &text_leaf, &words));
    try testing.expectError(error.InvalidFormat, read_values(testing.allocator, &texts, &block, 3, &text_leaf, &words));
    const flat: Encoding = .{ .flat = 128 };
    const lz4: Encoding = .{ .general = .{ .scheme = .lz4, .values = &flat } };
    const number_leaf = try leaf_of(&arena, "decimal:128:9:0");
    var numbers: ColumnBuilder = try .init(testing.allocator, number_leaf.type);
    defer numbers.deinit();
    const compressed = try general.with_slack(testing.allocator, &(.{ 16, 0, 0, 0, 0x2A, 7, 0, 1, 0, 0 }));
    defer testing.allocator.free(compressed);
    try read_values(testing.allocator, &lz4, compressed[0..10], 1, &number_leaf, &numbers);
    try testing.expectEqualSlices(u8, &.{ 7, 0, 0, 0, 0, 0, 0, 0 }, numbers.data.items);
    // Not in 64 bits.
    const long: [16]u8 = @splat(1);
    const found = read_values(testing.allocator, &flat, &long, 1, &number_leaf, &numbers);
    try testing.expectError(error.InvalidFormat, found);
}

test constant_value {
    defer interrupt.forget();
    const text = [_]u8{ 2, 0, 0, 0, 8, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0 } ++ "hello".*;
    try testing.expectEqualStrings("hello", try constant_value(&text));
    try testing.expectEqualStrings("ab", try constant_value(&.{ 1, 0, 0, 0, 2, 0, 0, 0, 'a', 'b' }));
    try testing.expectEqualStrings("", try constant_value(&.{ 1, 0, 0, 0, 0, 0, 0, 0 }));
    for (0..text.len) |size| try testing.expectError(error.InvalidFormat, constant_value(text[0..size]));
    try testing.expectError(error.InvalidFormat, constant_value(&.{ 0, 0, 0, 0, 0, 0, 0, 0 }));
    try testing.expectError(error.InvalidFormat, constant_value(&@as([64]u8, @splat(0xFF))));
}

test read_constant {
    defer interrupt.forget();
    const Case = struct { text: []const u8, value: []const u8, expected: []const u8 };
    const cases = [_]Case{
        .{ .text = "int16", .value = &.{ 1, 2 }, .expected = &.{ 1, 2, 1, 2, 1, 2 } },
        .{ .text = "bool", .value = &.{1}, .expected = &.{0b111} },
        .{ .text = "bool", .value = &.{0}, .expected = &.{0} },
        .{
            .text = "date64:ms",
            .value = &.{ 0, 0x5C, 0x26, 5, 0, 0, 0, 0 },
            .expected = &.{ 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0 },
        },
        .{ .text = "fixed_size_binary:0", .value = "", .expected = "" },
        .{ .text = "string", .value = "ab", .expected = "ababab" },
        .{ .text = "null", .value = "", .expected = "" },
    };
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    for (cases) |case| {
        const leaf = try leaf_of(&arena, case.text);
        var builder: ColumnBuilder = try .init(testing.allocator, leaf.type);
        defer builder.deinit();
        try read_constant(testing.allocator, case.value, 3, &leaf, &builder);
        try builder.settle(3);
        try testing.expectEqual(3, builder.row_count);
        try testing.expectEqualSlices(u8, case.expected, builder.data.items);
    }
    const leaf = try leaf_of(&arena, "int32");
    var builder: ColumnBuilder = try .init(testing.allocator, leaf.type);
    defer builder.deinit();
    try testing.expectError(error.InvalidFormat, read_constant(testing.allocator, "abc", 3, &leaf, &builder));
    const vector = try leaf_of(&arena, "fixed_size_list:float:1");
    try testing.expectError(error.NotSupported, read_constant(testing.allocator, "abcd", 3, &vector, &builder));
    const text = try leaf_of(&arena, "string");
    try testing.expectError(error.InvalidFormat, read_constant(testing.allocator, "\xFF", 3, &text, &builder));
}

test "blocks at random" {
    defer interrupt.forget();
    const runs: Encoding = .{ .rle = &plain_levels };
    const lz4: Encoding = .{ .general = .{ .scheme = .lz4, .values = &plain_levels } };
    const zstd: Encoding = .{ .general = .{ .scheme = .zstd, .values = &runs } };
    const encodings = [_]?*const Encoding{ null, &runs, &lz4, &zstd };
    const seeds = [_][]const u8{
        &.{ 6, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 1, 1 },
        &.{ 6, 0, 0, 0, 0x60, 1, 0, 0, 0, 1, 0 },
        &general.lz4_sample,
        &general.zstd_sample,
        &.{ 2, 0, 0, 0, 8, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 'h', 'e', 'l', 'l', 'o' },
    };
    var prng: std.Random.DefaultPrng = .init(610);
    const random = prng.random();
    for (0..4000) |_| {
        var buffer: [64 + general.slack]u8 = @splat(0);
        const seed = seeds[random.uintLessThan(usize, seeds.len)];
        @memcpy(buffer[0..seed.len], seed);
        for (0..random.uintLessThan(u8, 4)) |_| buffer[random.uintLessThan(usize, seed.len)] = random.int(u8);
        const bytes = buffer[0..if (random.boolean()) seed.len else random.uintAtMost(usize, seed.len)];
        var levels: [3]u16 = undefined;
        const encoding = encodings[random.uintLessThan(usize, encodings.len)];
        read_levels(testing.allocator, encoding, bytes, levels[0..random.uintAtMost(usize, 3)]) catch {};
        _ = constant_value(bytes) catch {};
    }
}
