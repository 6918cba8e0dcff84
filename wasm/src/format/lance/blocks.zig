//! Blocks: levels, dictionaries, constants.
const std = @import("std");
const compression = @import("compression.zig");
const types = @import("types.zig");
const values = @import("values.zig");
const ColumnBuilder = @import("../../core/column_builder.zig").ColumnBuilder;
const Encoding = compression.Encoding;

pub const Error = values.Error;

/// As many levels as `target` takes. Without an encoding they are plain numbers of 16 bits.
pub fn read_levels(gpa: std.mem.Allocator, encoding: ?*const Encoding, bytes: []const u8, target: []u16) Error!void {
    _ = gpa;
    _ = encoding;
    _ = bytes;
    _ = target;
    return error.NotSupported;
}

/// The values of a dictionary, behind the dense ones of `builder`.
pub fn read_values(
    gpa: std.mem.Allocator,
    encoding: *const Encoding,
    bytes: []const u8,
    count: u32,
    leaf: *const types.Leaf,
    builder: *ColumnBuilder,
) Error!void {
    _ = gpa;
    _ = encoding;
    _ = bytes;
    _ = count;
    _ = leaf;
    _ = builder;
    return error.NotSupported;
}

/// The bytes of a constant page's value that is a buffer of its own.
pub fn constant_value(bytes: []const u8) Error![]const u8 {
    _ = bytes;
    return error.NotSupported;
}

/// One value `count` times, behind the dense ones of `builder`.
pub fn read_constant(
    gpa: std.mem.Allocator,
    value: []const u8,
    count: u32,
    leaf: *const types.Leaf,
    builder: *ColumnBuilder,
) Error!void {
    _ = gpa;
    _ = value;
    _ = count;
    _ = leaf;
    _ = builder;
    return error.NotSupported;
}
