//! Which row groups or pages can hold a matching row: a predicate over their statistics.
//!
//! The host rewrites a query's filter into one over bounds (querymode/prune.py); here the bounds are
//! made into a batch with one row per row group, or per run of rows that all columns' pages have in
//! common, and the rewritten filter is evaluated like any other. What is not known is NULL, and a
//! row group is left out only when the answer is FALSE: NULL keeps it.
//!
//! The columns of the batch, for every column that the filter names:
//!
//!     min, max       of the column's type          null_count    int64
//!     nan_possible   bool                          row_count     int64: rows that the bounds speak of
//!     min_exact, max_exact   bool: the bound is the least or greatest value itself
//!
//! The same batch answers MIN and MAX of whole tables, where all bounds are exact.
const std = @import("std");
const abi = @import("abi.zig");
const bitmap = @import("core/bitmap.zig");
const column_module = @import("core/column.zig");
const expression_module = @import("plan/expression.zig");
const page_index = @import("format/parquet/page_index.zig");
const statistics = @import("format/parquet/statistics.zig");
const Column = column_module.Column;
const ColumnBuilder = @import("core/column_builder.zig").ColumnBuilder;
const DataType = @import("core/schema.zig").DataType;
const Expression = expression_module.Expression;
const assert = std.debug.assert;
const File = @import("format/parquet/file.zig").File;

pub const Error = expression_module.Error || error{ InvalidPlan, TooLarge };

/// Columns of the batch for each column of the filter.
pub const bound_columns = std.enums.values(abi.Statistic).len;

/// What the filter's columns are in a file.
pub const Binding = union(enum) {
    /// A column of the file that has one leaf.
    leaf: u32,
    /// The same value in every row (a partition's), one row long.
    constant: Column,
    /// Nothing is known of it.
    unknown,
};

/// One bit per row of the batch: set where rows may match.
pub fn survivors(arena: std.mem.Allocator, predicate: *const Expression, columns: []const Column, row_count: u32) Error![]u8 {
    const bits = try arena.alloc(u8, bitmap.size(row_count));
    var start: u32 = 0;
    while (start < row_count) : (start += expression_module.chunk_rows) {
        const count = @min(expression_module.chunk_rows, row_count - start);
        const views = try arena.alloc(Column, columns.len);
        for (views, columns) |*view, *column| view.* = try column.view(arena, start, count);
        const result = try expression_module.evaluate(arena, predicate, &.{ .row_count = count, .columns = views });
        const target = bits[start / 8 ..][0..bitmap.size(count)];
        @memcpy(target, result.data[0..target.len]);
        // Not TRUE is FALSE or NULL; NULL stays in.
        if (result.validity) |validity| {
            for (target, validity[0..target.len]) |*kept, valid| kept.* |= ~valid;
        }
    }
    return bits;
}

/// Statistics of all row groups of a file.
pub fn group_columns(arena: std.mem.Allocator, file: *const File, bindings: []const Binding, types: []const DataType) Error![]Column {
    const count = file.footer.row_group_count;
    const columns = try arena.alloc(Column, bindings.len * bound_columns);
    const rows = try arena.alloc(u64, count);
    for (rows, 0..) |*row_count, i| row_count.* = file.footer.row_group(@intCast(i)).row_count;
    for (bindings, types, 0..) |binding, data_type, i| {
        const target = columns[i * bound_columns ..][0..bound_columns];
        switch (binding) {
            .leaf => |leaf| {
                const evidence = try arena.alloc(statistics.Evidence, count);
                for (evidence, 0..) |*item, group| item.* = file.evidence(@intCast(group), leaf);
                try fill(arena, target, try statistics.build(arena, file.origin(leaf), evidence), rows);
            },
            .constant => |value| try fill_constant(arena, target, &value, rows),
            .unknown => try fill_unknown(arena, target, data_type, rows),
        }
    }
    return columns;
}

fn fill(arena: std.mem.Allocator, target: *[bound_columns]Column, bounds: statistics.Bounds, rows: []const u64) Error!void {
    target.* = .{ bounds.min, bounds.max, bounds.null_count, bounds.nan_possible, try i64_column(arena, rows), bounds.min_exact, bounds.max_exact };
}

fn i64_column(arena: std.mem.Allocator, values: []const u64) Error!Column {
    const data = try arena.alignedAlloc(i64, .@"16", values.len);
    for (data, values) |*to, from| to.* = std.math.cast(i64, from) orelse std.math.maxInt(i64);
    return .{ .type = .of(.i64), .row_count = @intCast(values.len), .data = std.mem.sliceAsBytes(data) };
}

fn bool_column(arena: std.mem.Allocator, value: bool, count: usize) Error!Column {
    const bits = try arena.alignedAlloc(u8, .@"16", bitmap.size(count));
    @memset(bits, if (value) 0xFF else 0);
    return .{ .type = .of(.bool), .row_count = @intCast(count), .data = bits };
}

fn fill_constant(arena: std.mem.Allocator, target: *[bound_columns]Column, value: *const Column, rows: []const u64) Error!void {
    const repeated = try expression_module.repeat(arena, value, @intCast(rows.len));
    const is_null = !value.is_valid(0);
    const nulls = try arena.dupe(u64, rows);
    if (!is_null) @memset(nulls, 0);
    const exact = try bool_column(arena, true, rows.len);
    target.* = .{ repeated, repeated, try i64_column(arena, nulls), try bool_column(arena, false, rows.len), try i64_column(arena, rows), exact, exact };
}

fn fill_unknown(arena: std.mem.Allocator, target: *[bound_columns]Column, data_type: DataType, rows: []const u64) Error!void {
    const count: u32 = @intCast(rows.len);
    const nothing = try expression_module.all_null(arena, data_type, count);
    const inexact = try bool_column(arena, false, count);
    target.* = .{ nothing, nothing, try expression_module.all_null(arena, .of(.i64), count), try bool_column(arena, true, count), try i64_column(arena, rows), inexact, inexact };
}

/// What is known of a column's pages, from an index or from their headers. There is at least one.
pub const Pages = struct {
    first_rows: []const u64,
    evidence: []const statistics.Evidence,

    pub fn of_index(arena: std.mem.Allocator, offsets: page_index.OffsetIndex, bounds: page_index.ColumnIndex, row_count: u64) Error!Pages {
        const evidence = try arena.alloc(statistics.Evidence, offsets.page_count());
        for (evidence, 0..) |*item, page| item.* = bounds.evidence(page, offsets.row_count(page, row_count));
        return .{ .first_rows = offsets.first_rows, .evidence = evidence };
    }

    fn rows_of(self: *const Pages, page: usize, row_count: u64) u64 {
        const end = if (page + 1 < self.first_rows.len) self.first_rows[page + 1] else row_count;
        return end - self.first_rows[page];
    }
};

pub const RowRange = struct {
    begin: u64,
    end: u64,

    pub fn count(self: RowRange) u64 {
        return self.end - self.begin;
    }
};

/// The rows of a row group that may match, by its pages. `pages` is null where a column has no index.
pub fn page_ranges(
    arena: std.mem.Allocator,
    file: *const File,
    row_group: u32,
    predicate: *const Expression,
    bindings: []const Binding,
    types: []const DataType,
    pages: []const ?Pages,
) Error![]const RowRange {
    const row_count = file.footer.row_group(row_group).row_count;
    const starts = try common_starts(arena, pages);
    const columns = try arena.alloc(Column, bindings.len * bound_columns);
    const rows = try arena.alloc(u64, starts.len);
    @memset(rows, row_count);
    for (bindings, types, pages, 0..) |binding, data_type, of_column, i| {
        const target = columns[i * bound_columns ..][0..bound_columns];
        if (of_column) |found| {
            try fill_pages(arena, target, file.origin(binding.leaf), &found, starts, row_count);
        } else if (binding == .constant) {
            try fill_constant(arena, target, &binding.constant, rows);
        } else try fill_unknown(arena, target, data_type, rows);
    }
    const bits = try survivors(arena, predicate, columns, @intCast(starts.len));
    return kept_ranges(arena, starts, bits, row_count);
}

/// Rows at which a page of any of the columns begins.
fn common_starts(arena: std.mem.Allocator, pages: []const ?Pages) Error![]const u64 {
    var starts: std.ArrayList(u64) = .empty;
    try starts.append(arena, 0);
    for (pages) |of_column| if (of_column) |found| try starts.appendSlice(arena, found.first_rows);
    std.mem.sort(u64, starts.items, {}, std.sort.asc(u64));
    var count: usize = 1;
    for (starts.items[1..]) |start| {
        if (start == starts.items[count - 1]) continue;
        starts.items[count] = start;
        count += 1;
    }
    return starts.items[0..count];
}

fn fill_pages(arena: std.mem.Allocator, target: *[bound_columns]Column, origin: statistics.Origin, pages: *const Pages, starts: []const u64, row_count: u64) Error!void {
    const page_count = pages.first_rows.len;
    assert(page_count > 0 and pages.evidence.len == page_count);
    const rows = try arena.alloc(u64, page_count);
    for (rows, 0..) |*page_rows, page| page_rows.* = pages.rows_of(page, row_count);
    var of_pages: [bound_columns]Column = undefined;
    try fill(arena, &of_pages, try statistics.build(arena, origin, pages.evidence), rows);
    const indices = try arena.alloc(u32, starts.len);
    var page: u32 = 0;
    for (indices, starts) |*index, start| {
        while (page + 1 < page_count and pages.first_rows[page + 1] <= start) page += 1;
        index.* = page;
    }
    for (target, &of_pages) |*to, *from| {
        var builder: ColumnBuilder = try .init(arena, from.type);
        try builder.append_indices(from, indices);
        to.* = try builder.finish(arena);
    }
}

fn kept_ranges(arena: std.mem.Allocator, starts: []const u64, bits: []const u8, row_count: u64) Error![]const RowRange {
    var ranges: std.ArrayList(RowRange) = .empty;
    for (starts, 0..) |begin, i| {
        if (!bitmap.get(bits.ptr, i)) continue;
        const end = if (i + 1 < starts.len) starts[i + 1] else row_count;
        if (begin == end) continue;
        if (ranges.items.len > 0 and ranges.items[ranges.items.len - 1].end == begin) {
            ranges.items[ranges.items.len - 1].end = end;
        } else try ranges.append(arena, .{ .begin = begin, .end = end });
    }
    return ranges.items;
}
