//! Which pieces of files, or runs of their rows, can hold a matching row: a predicate over statistics.
//!
//! The host rewrites a query's filter into one over bounds (querymode/plan/prune.py); here the bounds are
//! made into a batch with one row per piece, or per run of rows that the zones of all columns have in
//! common, and the rewritten filter is evaluated like any other. What is not known is NULL, and rows are
//! left out only when the answer is FALSE: NULL keeps them.
//!
//! The columns of the batch, for every column that the filter names:
//!
//!     min, max       of the column's type          null_count    int64
//!     nan_possible   bool                          row_count     int64: rows that the bounds speak of
//!     min_exact, max_exact   bool: the bound is the least or greatest value itself
//!
//! The same batch answers MIN and MAX of whole tables, where all bounds are exact.
const std = @import("std");
const bitmap = @import("../core/bitmap.zig");
const evidence = @import("../format/evidence.zig");
const expression_module = @import("../plan/expression.zig");
const Binding = evidence.Binding;
const Bounds = evidence.Bounds;
const Column = @import("../core/column.zig").Column;
const ColumnBuilder = @import("../core/column_builder.zig").ColumnBuilder;
const DataType = @import("../core/schema.zig").DataType;
const Expression = expression_module.Expression;
const File = @import("../format/reader.zig").File;
const RowRange = evidence.RowRange;
const Zones = evidence.Zones;
const bound_columns = evidence.bound_columns;

pub const Error = expression_module.Error || error{ InvalidFormat, InvalidPlan, TooLarge };

/// A filter over statistics, and what its columns are in a file.
pub const Prune = struct {
    predicate: *const Expression,
    bindings: []const Binding,
    probes: []const evidence.Probe,
    types: []const DataType,

    /// Its columns outlive the request that brought them.
    pub fn copy(self: Prune, arena: std.mem.Allocator) Error!Prune {
        var result = self;
        result.types = try arena.dupe(DataType, self.types);
        const bindings = try arena.dupe(Binding, self.bindings);
        for (bindings) |*binding| if (binding.* == .constant) {
            binding.constant = try copy_value(arena, &binding.constant);
        };
        result.bindings = bindings;
        const probes = try arena.dupe(evidence.Probe, self.probes);
        for (probes) |*probe| {
            const values = try arena.dupe(Column, probe.values);
            for (values) |*value| value.* = try copy_value(arena, value);
            probe.values = values;
        }
        result.probes = probes;
        return result;
    }

    /// The rows of a piece that may match, by their zones.
    pub fn row_ranges(
        self: Prune,
        arena: std.mem.Allocator,
        zones: []const ?Zones,
        row_count: u64,
    ) Error![]const RowRange {
        const starts = try common_starts(arena, zones);
        const columns = try arena.alloc(Column, self.bindings.len * bound_columns);
        const rows = try arena.alloc(u64, starts.len);
        @memset(rows, row_count);
        for (self.bindings, self.types, zones, 0..) |binding, data_type, of_column, i| {
            const target = columns[i * bound_columns ..][0..bound_columns];
            if (of_column) |found| {
                try fill_zones(arena, target, &found, starts);
            } else if (binding == .constant) {
                try fill_constant(arena, target, &binding.constant, rows);
            } else try fill_unknown(arena, target, data_type, rows);
        }
        const bits = try survivors(arena, self.predicate, columns, @intCast(starts.len));
        return kept_ranges(arena, starts, bits, row_count);
    }
};

fn copy_value(arena: std.mem.Allocator, value: *const Column) Error!Column {
    var builder: ColumnBuilder = try .init(arena, value.type);
    try builder.append_range(value, 0, 1);
    return builder.finish(arena);
}

/// One bit per row of the batch: set where rows may match.
pub fn survivors(
    arena: std.mem.Allocator,
    predicate: *const Expression,
    columns: []const Column,
    row_count: u32,
) Error![]u8 {
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

/// Statistics of all pieces of a file.
pub fn piece_columns(
    arena: std.mem.Allocator,
    file: File,
    bindings: []const Binding,
    types: []const DataType,
) Error![]Column {
    const columns = try arena.alloc(Column, bindings.len * bound_columns);
    const rows = try arena.alloc(u64, file.piece_count());
    for (rows, 0..) |*row_count, i| row_count.* = file.piece_rows(@intCast(i));
    for (bindings, types, 0..) |binding, data_type, i| {
        const target = columns[i * bound_columns ..][0..bound_columns];
        switch (binding) {
            .place => |place| target.* = try file.bounds(arena, place),
            .constant => |value| try fill_constant(arena, target, &value, rows),
            .unknown => try fill_unknown(arena, target, data_type, rows),
        }
    }
    return columns;
}

fn fill_constant(arena: std.mem.Allocator, target: *Bounds, value: *const Column, rows: []const u64) Error!void {
    const repeated = try expression_module.repeat(arena, value, @intCast(rows.len));
    const is_null = !value.is_valid(0);
    const nulls = try arena.dupe(u64, rows);
    if (!is_null) @memset(nulls, 0);
    const exact = try evidence.bool_column(arena, true, rows.len);
    target.* = .{
        repeated,
        repeated,
        try evidence.i64_column(arena, nulls),
        try evidence.bool_column(arena, false, rows.len),
        try evidence.i64_column(arena, rows),
        exact,
        exact,
    };
}

fn fill_unknown(arena: std.mem.Allocator, target: *Bounds, data_type: DataType, rows: []const u64) Error!void {
    const count: u32 = @intCast(rows.len);
    const nothing = try expression_module.all_null(arena, data_type, count);
    const inexact = try evidence.bool_column(arena, false, count);
    target.* = .{
        nothing,
        nothing,
        try expression_module.all_null(arena, .of(.i64), count),
        try evidence.bool_column(arena, true, count),
        try evidence.i64_column(arena, rows),
        inexact,
        inexact,
    };
}

/// Rows at which a zone of any of the columns begins.
fn common_starts(arena: std.mem.Allocator, zones: []const ?Zones) Error![]const u64 {
    var starts: std.ArrayList(u64) = .empty;
    try starts.append(arena, 0);
    for (zones) |of_column| if (of_column) |found| try starts.appendSlice(arena, found.first_rows);
    std.mem.sort(u64, starts.items, {}, std.sort.asc(u64));
    var count: usize = 1;
    for (starts.items[1..]) |start| {
        if (start == starts.items[count - 1]) continue;
        starts.items[count] = start;
        count += 1;
    }
    return starts.items[0..count];
}

fn fill_zones(arena: std.mem.Allocator, target: *Bounds, zones: *const Zones, starts: []const u64) Error!void {
    const indices = try arena.alloc(u32, starts.len);
    var zone: u32 = 0;
    for (indices, starts) |*index, start| {
        while (zone + 1 < zones.first_rows.len and zones.first_rows[zone + 1] <= start) zone += 1;
        index.* = zone;
    }
    for (target, &zones.bounds) |*to, *from| {
        var builder: ColumnBuilder = try .init(arena, from.type);
        try builder.append_indices(from, indices);
        to.* = try builder.finish(arena);
    }
}

fn kept_ranges(
    arena: std.mem.Allocator,
    starts: []const u64,
    bits: []const u8,
    row_count: u64,
) Error![]const RowRange {
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
