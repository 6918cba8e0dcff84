//! What readers of pages share: where a page's bytes come from, and where its rows go.
//!
//! A page is asked for rows by their numbers within it, in any order: what it lacks of them it notes, what it
//! keeps of its own bytes (tables of chunks, dictionaries) it reads once.
const std = @import("std");
const bitmap = @import("../../core/bitmap.zig");
const data_file = @import("data_file.zig");
const interrupt = @import("../../core/interrupt.zig");
const levels = @import("levels.zig");
const reader = @import("../reader.zig");
const segments_module = @import("../segments.zig");
const types = @import("types.zig");
const ColumnBuilder = @import("../../core/column_builder.zig").ColumnBuilder;
const Range = segments_module.Range;

pub const Error = reader.Error;

/// Ranges of the file that are missing.
pub const Ranges = std.ArrayList(Range);

pub const Context = struct {
    gpa: std.mem.Allocator,
    /// For what lives as long as the page is open.
    arena: std.mem.Allocator,
    segments: *const segments_module.Segments,
    leaf: *const types.Leaf,
    path: *const levels.Path,
    page: *const data_file.Page,
    /// Where the levels of nested columns go.
    lists: levels.Lists,

    /// A part of one of the page's buffers.
    pub fn part(self: *const Context, buffer: usize, begin: u64, end: u64) Error!Range {
        @setRuntimeSafety(true);
        if (buffer >= self.page.buffers.len)
            return refuse("a page has {d} buffers, too few for its layout", .{self.page.buffers.len});
        const found = self.page.buffers[buffer];
        if (begin > end or end > found.size)
            return refuse("a page's buffer of {d} bytes ends before its rows do", .{found.size});
        return .{ .file = found.file, .offset = found.offset + begin, .size = end - begin };
    }

    pub fn whole(self: *const Context, buffer: usize) Error!Range {
        if (buffer >= self.page.buffers.len) return self.part(buffer, 0, 0);
        return self.page.buffers[buffer];
    }

    pub fn bytes(self: *const Context, range: Range) Error![]const u8 {
        if (range.size == 0) return &.{};
        return self.segments.find(range) orelse reader.not_fetched();
    }

    pub fn is_here(self: *const Context, range: Range) bool {
        return range.size == 0 or self.segments.find(range) != null;
    }

    /// Notes a range unless it is here.
    pub fn want(self: *const Context, range: Range, missing: *Ranges) Error!void {
        if (!self.is_here(range)) try missing.append(self.gpa, range);
    }
};

/// Validity of `count` rows behind the builder's, from bit `first` of `bits` on; null: all are valid.
pub fn add_validity(builder: *ColumnBuilder, bits: ?[]const u8, first: u32, count: u32) Error!void {
    const target = try builder.extend_validity(builder.row_count, count, bits != null) orelse return;
    if (bits) |source| bitmap.copy(target, builder.row_count, source, first, count);
}

/// Slots of NULLs, which have no values, behind the dense ones.
pub fn append_empty(builder: *ColumnBuilder, count: u32) Error!void {
    switch (builder.type.layout()) {
        .none => {},
        .bits => _ = try builder.grow_dense_bits(count),
        .bytes, .list => {
            const ends = try builder.grow_dense_offsets(count);
            @memset(ends[1..][0..count], ends[0]);
        },
        .structure => for (builder.children) |*child| try child.append_nulls(count),
        else => {
            const size = builder.type.value_size() * count;
            @memset((try builder.grow_dense(size))[0..@intCast(size)], 0);
        },
    }
    builder.dense_count += count;
}

/// One bit for each code, set where it is 0: where there is a value. False if all are.
pub fn mark_valid(codes: []const u16, bits: []u8) bool {
    std.debug.assert(bits.len >= bitmap.size(codes.len));
    const lanes = 16;
    var seen: @Vector(lanes, u16) = @splat(0);
    var i: usize = 0;
    while (i + lanes <= codes.len) : (i += lanes) {
        const block: @Vector(lanes, u16) = codes[i..][0..lanes].*;
        seen |= block;
        const mask: u16 = @bitCast(block == @as(@Vector(lanes, u16), @splat(0)));
        std.mem.writeInt(u16, bits[i / 8 ..][0..2], mask, .little);
    }
    var any = @reduce(.Or, seen);
    if (i < codes.len) @memset(bits[i / 8 .. bitmap.size(codes.len)], 0);
    for (codes[i..], i..) |code, place| {
        any |= code;
        bits[place / 8] |= @as(u8, @intFromBool(code == 0)) << @intCast(place % 8);
    }
    return any != 0;
}

pub fn refuse(comptime format: []const u8, arguments: anytype) error{InvalidFormat} {
    interrupt.describe(format, arguments);
    return error.InvalidFormat;
}

test mark_valid {
    var codes: [37]u16 = @splat(0);
    var bits: [8]u8 = @splat(0xAA);
    try std.testing.expect(!mark_valid(&codes, &bits));
    try std.testing.expectEqualSlices(u8, &.{ 0xFF, 0xFF, 0xFF, 0xFF, 0x1F }, bits[0..5]);
    codes[3] = 2;
    codes[33] = 1;
    try std.testing.expect(mark_valid(&codes, &bits));
    try std.testing.expectEqualSlices(u8, &.{ 0xF7, 0xFF, 0xFF, 0xFF, 0x1D }, bits[0..5]);
}
