//! Which rows a sort with a limit need not even collect.
//!
//! As soon as as many rows as are wanted have been seen, the last of the best is a bound: what lies
//! behind it cannot be among the best any more. Rows are compared with the bound's first key many at
//! a time, so that nearly all of them are never looked at again.
//!
//! A chunk that passes the bound in large numbers (the first one, or all of them when the input comes
//! in the opposite order) is cut before it is collected: a sample of its rows says about where the
//! last of the best lies, and if enough rows are not behind that, it is the new bound.
const std = @import("std");
const bitmap = @import("../core/bitmap.zig");
const column_builder = @import("../core/column_builder.zig");
const column_module = @import("../core/column.zig");
const expression_module = @import("../plan/expression.zig");
const keyed_rows = @import("keyed_rows.zig");
const row_order = @import("row_order.zig");
const Chunk = expression_module.Chunk;
const Column = column_module.Column;
const ColumnBuilder = column_builder.ColumnBuilder;
const KeyedRows = keyed_rows.KeyedRows;
const CompareOp = @import("../abi.zig").CompareOp;
const assert = std.debug.assert;

pub const Error = error{ OutOfMemory, TooLarge, Cancelled };

/// Rows of a chunk beyond a few times the limit that are collected rather than cut.
const uncut_rows = 1024;
const sample_size = 512;
/// Of several keys the others are compared row by row, where fewer rows than this part of a chunk are
/// within the first.
const compared_part = 16;

pub const TopK = struct {
    gpa: std.mem.Allocator,
    keyed: KeyedRows,
    limit: u32,
    /// The keys of the bound: one row, once `known`.
    bound: []ColumnBuilder,
    known: bool = false,
    /// Enough rows at or before the bound have come before what comes now: who is equal to it in
    /// every key is behind it. Not so for the next lane, which may stand before this one.
    strict: bool = false,
    /// A bound that is tried.
    trial: []ColumnBuilder,

    pub fn init(gpa: std.mem.Allocator, arena: std.mem.Allocator, keyed: KeyedRows, limit: u32) Error!TopK {
        const bound = try keyed.open_key_builders(gpa, arena);
        errdefer for (bound) |*builder| builder.deinit();
        const trial = try keyed.open_key_builders(gpa, arena);
        return .{ .gpa = gpa, .keyed = keyed, .limit = limit, .bound = bound, .trial = trial };
    }

    pub fn deinit(self: *TopK) void {
        for (self.bound) |*builder| builder.deinit();
        for (self.trial) |*builder| builder.deinit();
    }

    pub fn memory_size(self: *const TopK) u64 {
        return keyed_rows.size(self.bound) + keyed_rows.size(self.trial);
    }

    /// The bound stays: as many rows as are wanted have been seen at or before it, so what lies
    /// behind cannot be among the best of all lanes.
    pub fn next_lane(self: *TopK) void {
        self.strict = false;
    }

    /// The bound is this row from here on: the last of the best so far.
    pub fn tighten(self: *TopK, columns: []const Column, row: u32) Error!void {
        try self.set(self.bound, columns, row);
        self.known = true;
        self.strict = true;
    }

    fn set(self: *const TopK, bound: []ColumnBuilder, columns: []const Column, row: u32) Error!void {
        for (bound, self.keyed.key_columns) |*builder, index| {
            builder.reset();
            try builder.append_indices(&columns[index], &.{row});
        }
    }

    /// Rows of the chunk that may be among the best; null: all of them. `columns` are its columns
    /// with all keys.
    pub fn candidates(
        self: *TopK,
        arena: std.mem.Allocator,
        chunk: *const Chunk,
        columns: []const Column,
    ) Error!?[]const u32 {
        if (self.limit == 0) return &.{};
        const uncut = 4 * @as(u64, self.limit) + uncut_rows;
        if (!self.known) {
            if (chunk.selected_count() > uncut) {
                return try self.cut(arena, chunk, columns, try chunk.selected_rows(arena));
            }
            return if (chunk.selection == null) null else try chunk.selected_rows(arena);
        }
        const rows = try self.within(arena, self.bound, self.strict, chunk, columns);
        return if (rows.len > uncut) try self.cut(arena, chunk, columns, rows) else rows;
    }

    /// Some of the rows, the best `limit` of them included. Afterwards there is a bound.
    fn cut(
        self: *TopK,
        arena: std.mem.Allocator,
        chunk: *const Chunk,
        columns: []const Column,
        rows: []const u32,
    ) Error![]const u32 {
        const keys = try self.keyed.order(arena, columns);
        if (try self.sampled(arena, keys, rows)) |row| {
            try self.set(self.trial, columns, row);
            if (try self.cut_by_trial(arena, chunk, columns, rows.len / 2)) |some| {
                std.mem.swap([]ColumnBuilder, &self.bound, &self.trial);
                self.known = true;
                self.strict = true;
                return some;
            }
        }
        const best = try arena.dupe(u32, rows);
        try row_order.sort_rows(self.gpa, keys, best);
        try self.tighten(columns, best[self.limit - 1]);
        return best[0..self.limit];
    }

    /// The rows that are not behind the trial, if they are at least `limit` and not too many.
    fn cut_by_trial(
        self: *const TopK,
        arena: std.mem.Allocator,
        chunk: *const Chunk,
        columns: []const Column,
        many: usize,
    ) Error!?[]const u32 {
        const within_trial = try self.within(arena, self.trial, false, chunk, columns);
        if (within_trial.len < self.limit) return null;
        if (within_trial.len <= many) return within_trial;
        // Many are equal to it, perhaps, and of these the first ones do.
        const before = try self.within(arena, self.trial, true, chunk, columns);
        if (before.len > self.limit) return null;
        const some = try arena.alloc(u32, self.limit);
        @memcpy(some[0..before.len], before);
        var next: usize = 0;
        var count = before.len;
        for (within_trial) |row| {
            if (count == some.len) break;
            if (next < before.len and before[next] == row) {
                next += 1;
            } else {
                some[count] = row;
                count += 1;
            }
        }
        return some;
    }

    /// A row that is probably behind the best `limit` and before most others.
    fn sampled(self: *const TopK, arena: std.mem.Allocator, keys: []const row_order.Key, rows: []const u32) Error!?u32 {
        const share = @as(f64, @floatFromInt(self.limit)) * sample_size / @as(f64, @floatFromInt(rows.len));
        // Three standard deviations too far: to come back with too few rows is the dearer mistake.
        const rank: usize = @trunc(share + 3 * @sqrt(share) + 2);
        if (rank >= sample_size / 2) return null;
        const sample = try arena.alloc(u32, sample_size);
        for (sample, 0..) |*row, i| row.* = rows[i * rows.len / sample_size];
        try row_order.sort_rows(self.gpa, keys, sample);
        return sample[rank];
    }

    /// Selected rows of the chunk that are not behind the bound; `strict`: that are before it.
    fn within(
        self: *const TopK,
        arena: std.mem.Allocator,
        bound: []const ColumnBuilder,
        strict: bool,
        chunk: *const Chunk,
        columns: []const Column,
    ) Error![]const u32 {
        const limits = try keyed_rows.collected(arena, bound);
        const first = try self.within_key(arena, 0, limits, strict and limits.len == 1, columns);
        const rows = try chosen(arena, first, chunk);
        if (limits.len == 1) return rows;
        if (rows.len > chunk.row_count / compared_part) {
            return chosen(arena, try self.within_all(arena, limits, strict, columns), chunk);
        }
        const keys = try self.keyed.order(arena, columns);
        const limit_keys = try self.keyed.order_alone(arena, limits);
        var count: usize = 0;
        for (rows) |row| {
            rows[count] = row;
            const order = row_order.compare_rows(keys, row, limit_keys, 0);
            count += @intFromBool(if (strict) order == .lt else order != .gt);
        }
        return rows[0..count];
    }

    /// The same by bits, key by key from the last on: before the limit, or equal to it and within the rest.
    fn within_all(
        self: *const TopK,
        arena: std.mem.Allocator,
        limits: []const Column,
        strict: bool,
        columns: []const Column,
    ) Error![]u8 {
        const rest = try self.within_key(arena, limits.len - 1, limits, strict, columns);
        for (1..limits.len) |i| {
            const key = limits.len - 1 - i;
            bitmap.combine(.@"and", rest, rest, try self.within_key(arena, key, limits, false, columns));
            bitmap.combine(.@"or", rest, rest, try self.within_key(arena, key, limits, true, columns));
        }
        return rest;
    }

    /// Rows whose key is not behind the limit's, as bits; `strict`: that is before it.
    fn within_key(
        self: *const TopK,
        arena: std.mem.Allocator,
        index: usize,
        limits: []const Column,
        strict: bool,
        columns: []const Column,
    ) Error![]u8 {
        const key = self.keyed.keys[index];
        const limit = &limits[index];
        const column = &columns[self.keyed.key_columns[index]];
        const bits = try arena.alignedAlloc(u8, .fromByteUnits(column_module.alignment), bitmap.size(column.row_count));
        if (limit.is_valid(0)) {
            const op: CompareOp = if (key.descending) (if (strict) .gt else .gte) else (if (strict) .lt else .lte);
            expression_module.compare_literal(op, column, limit, bits);
            const validity = column.validity orelse return bits;
            if (key.nulls_first) {
                bitmap.combine(.or_not, bits, bits, validity);
            } else {
                bitmap.combine(.@"and", bits, bits, validity);
            }
            return bits;
        }
        // The limit is NULL: who is not, is before it or behind it, as a whole.
        bitmap.fill(bits, column.row_count, !(key.nulls_first and strict));
        const validity = column.validity orelse {
            if (key.nulls_first) bitmap.fill(bits, column.row_count, false);
            return bits;
        };
        if (key.nulls_first) bitmap.combine(
            .and_not,
            bits,
            bits,
            validity,
        ) else if (strict) bitmap.combine(.@"and", bits, bits, validity);
        return bits;
    }
};

/// The selected rows whose bits are set.
fn chosen(arena: std.mem.Allocator, bits: []u8, chunk: *const Chunk) Error![]u32 {
    if (chunk.selection) |selection| bitmap.combine(.@"and", bits, bits, selection.bits);
    const rows = try arena.alloc(u32, bitmap.count(bits, chunk.row_count));
    const found = bitmap.indices(bits, chunk.row_count, rows);
    assert(found == rows.len);
    return rows;
}
