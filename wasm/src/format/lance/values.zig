//! Values of a page, in whatever encoding, on their way into a column.
const std = @import("std");
const compression = @import("compression.zig");
const types = @import("types.zig");
const ColumnBuilder = @import("../../core/column_builder.zig").ColumnBuilder;
const Encoding = compression.Encoding;

pub const Error = error{ Cancelled, InvalidFormat, NotSupported, OutOfMemory, TooLarge };

/// Opened once a page. Values are put behind the builder's rows side by side, `dense_count` counts them; the
/// caller settles. What lies below (items of lists of a fixed size, fields of packed structs) is settled here.
pub const Reader = struct {
    gpa: std.mem.Allocator,

    /// `leaf` and `encoding` outlive the reader.
    pub fn init(gpa: std.mem.Allocator, encoding: *const Encoding, leaf: *const types.Leaf) Error!Reader {
        _ = encoding;
        _ = leaf;
        return .{ .gpa = gpa };
    }

    /// Of pages with a dictionary, whose values are codes.
    pub fn init_codes(gpa: std.mem.Allocator, encoding: *const Encoding) Error!Reader {
        _ = encoding;
        return .{ .gpa = gpa };
    }

    pub fn deinit(self: *Reader) void {
        self.* = undefined;
    }

    /// A chunk of a mini-block page: decompresses it and holds `chunk_count` against its size. Buffers stay where
    /// they are until the next one is opened.
    pub fn open(self: *Reader, buffers: []const []const u8, chunk_count: u32) Error!void {
        _ = self;
        _ = buffers;
        _ = chunk_count;
        return error.NotSupported;
    }

    /// Values `first` to `first + count` of the open chunk.
    pub fn read_range(self: *Reader, first: u32, count: u32, builder: *ColumnBuilder) Error!void {
        _ = self;
        _ = first;
        _ = count;
        _ = builder;
        return error.NotSupported;
    }

    /// Codes `first` to `first + target.len` of the open chunk; the greatest of them (0 if there are none). The
    /// slots of NULLs hold any.
    pub fn read_code_range(self: *Reader, first: u32, target: []u32) Error!u32 {
        _ = self;
        _ = first;
        _ = target;
        return error.NotSupported;
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

    /// Full-zip values of a fixed size: `count` of them, the first at the start of `bytes`, one every `stride`.
    pub fn append_fixed(self: *Reader, bytes: []const u8, stride: usize, count: u32, builder: *ColumnBuilder) Error!void {
        _ = self;
        _ = bytes;
        _ = stride;
        _ = count;
        _ = builder;
        return error.NotSupported;
    }

    /// Full-zip values of any size: the bytes of each as they lie in the page, nothing for a NULL.
    pub fn append_variable(self: *Reader, values: []const []const u8, builder: *ColumnBuilder) Error!void {
        _ = self;
        _ = values;
        _ = builder;
        return error.NotSupported;
    }

    /// An error if one of the values of the last `read_range`, `append_fixed` or `append_variable` that ours cannot
    /// hold is valid: its bit, from bit `first` of `validity` on, is set; null: all are. Only their reader knows
    /// which are the slots of NULLs, which may hold anything.
    pub fn check_valid(self: *const Reader, validity: ?[]const u8, first: u32) Error!void {
        _ = self;
        _ = validity;
        _ = first;
    }
};
