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
