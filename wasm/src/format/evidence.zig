//! What a format may know of rows before it has read them, in a form that no format owns.
//!
//!     bounds    one row for every piece of a file, or for every zone of a piece: what a filter over
//!               statistics is evaluated on (scan/bounds.zig)
//!     zones     runs of rows of one piece that have bounds of their own: pages, blocks
//!     probes    values of which a row must have one
//!
//! What is not known is NULL, and only what a filter calls FALSE is left out.
const std = @import("std");
const abi = @import("../abi.zig");
const bitmap = @import("../core/bitmap.zig");
const Column = @import("../core/column.zig").Column;

/// The columns of a filter over statistics for each column that it speaks of, by `abi.Statistic`.
pub const bound_columns = std.enums.values(abi.Statistic).len;
pub const Bounds = [bound_columns]Column;

/// What a column of a filter is in a file.
pub const Binding = union(enum) {
    /// A place of the file that has bounds.
    place: u32,
    /// The same value in every row (a partition's), one row long.
    constant: Column,
    /// Nothing is known of it.
    unknown,
};

/// A row must have one of these values in a column: what a Bloom filter can be asked.
pub const Probe = struct {
    /// Of the bindings.
    binding: u32,
    /// Each one row long, of the column's type.
    values: []const Column,
};

pub const RowRange = struct {
    begin: u64,
    end: u64,

    pub fn count(self: RowRange) u64 {
        return self.end - self.begin;
    }
};

/// What is known of a column in parts of a piece. There is at least one; the first begins with row 0.
pub const Zones = struct {
    first_rows: []const u64,
    bounds: Bounds,

    /// Rows of each zone.
    pub fn counts(
        arena: std.mem.Allocator,
        first_rows: []const u64,
        row_count: u64,
    ) error{OutOfMemory}![]const u64 {
        const rows = try arena.alloc(u64, first_rows.len);
        for (rows, 0..) |*count, zone| {
            const end = if (zone + 1 < first_rows.len) first_rows[zone + 1] else row_count;
            count.* = end - first_rows[zone];
        }
        return rows;
    }
};

/// What a reader wants to know before it looks for evidence.
pub const Question = struct {
    /// Empty where nothing is asked of statistics.
    bindings: []const Binding = &.{},
    probes: []const Probe = &.{},
    /// The filter's columns are read before the others.
    filters_first: bool,
    /// Single rows are wanted.
    picks_rows: bool,
};

pub const Answer = union(enum) {
    /// What must be brought first has been noted.
    need_bytes,
    /// No row can match.
    excluded,
    /// By binding: null where it has none. Empty when nothing is known of parts.
    zones: []const ?Zones,
};

/// What is known of the zones whose bytes happen to be here.
pub const Seen = struct {
    /// The row up to which all bindings were looked at.
    end: u64,
    zones: []const ?Zones,
};

pub fn i64_column(arena: std.mem.Allocator, values: []const u64) error{OutOfMemory}!Column {
    const data = try arena.alignedAlloc(i64, .@"16", values.len);
    for (data, values) |*to, from| to.* = std.math.cast(i64, from) orelse std.math.maxInt(i64);
    return .{ .type = .of(.i64), .row_count = @intCast(values.len), .data = std.mem.sliceAsBytes(data) };
}

pub fn bool_column(arena: std.mem.Allocator, value: bool, count: usize) error{OutOfMemory}!Column {
    const bits = try arena.alignedAlloc(u8, .@"16", bitmap.size(count));
    @memset(bits, if (value) 0xFF else 0);
    return .{ .type = .of(.bool), .row_count = @intCast(count), .data = bits };
}
