//! Joins: rows of the input meet the rows of a table that another query has built.
//!
//! A chunk comes in and goes on as a chunk where no row can become several: semi, anti and mark joins,
//! `single` ones, and all where keys of the build are unique. Columns of the input then stay where they
//! are. Else pairs are made in parts of at most a chunk's rows, each handed on before the next is made,
//! so that a key with a million matches takes no more memory than one with ten.
//!
//! A residual decides which pairs count. It is computed over pairs whose keys match, or over all pairs
//! where there are no keys.
//!
//! What a mark join says of a row: TRUE when a pair counts. Else, without a residual, it answers
//! `key IN (build)`: NULL where the build has a NULL key, or where the key is NULL and the build is not
//! empty (of several keys one NULL is enough), and FALSE otherwise. With a residual the keys only say
//! which rows belong together, and the residual is the question: NULL where it is NULL for some pair.
//!
//! Rows come out in the order of the input, matches of a row in the order of the build. A left join with
//! a residual, and several matches to a key, puts a chunk's rows without a match behind the others.
const std = @import("std");
const bitmap = @import("../core/bitmap.zig");
const boolean = @import("../kernel/boolean.zig");
const column_module = @import("../core/column.zig");
const expression_module = @import("../plan/expression.zig");
const interrupt = @import("../core/interrupt.zig");
const join_table = @import("join_table.zig");
const plan_module = @import("../plan/plan.zig");
const schema = @import("../core/schema.zig");
const selected_rows = @import("aggregate.zig").selected_rows;
const take_values = @import("../kernel/take.zig").take_values;
const take_rows = @import("../core/column_builder.zig").take_rows;
const Chunk = expression_module.Chunk;
const Column = column_module.Column;
const ColumnBuilder = @import("../core/column_builder.zig").ColumnBuilder;
const Found = join_table.Found;
const Places = join_table.Places;
const JoinTable = join_table.JoinTable;
const assert = std.debug.assert;
const chunk_rows = expression_module.chunk_rows;
const empty_bits = @import("join_probe.zig").empty_bits;
const none = join_table.none;

pub const Error = error{ Cancelled, OutOfMemory, OutOfRange, NotSupported, TooLarge };

/// The last step of a build: rows go into the table.
pub const BuildOperator = struct {
    node: *const plan_module.Build,
    table: *JoinTable,

    pub fn init(gpa: std.mem.Allocator, arena: std.mem.Allocator, node: *const plan_module.Build, fields: []const schema.Field) Error!BuildOperator {
        const types = try arena.alloc(schema.DataType, node.keys.len);
        const columns = try arena.alloc(?u32, node.keys.len);
        for (types, columns, node.keys) |*data_type, *column, key| {
            data_type.* = key.type;
            column.* = if (key.node == .column) key.node.column else null;
        }
        const table: *JoinTable = try .create(gpa, fields, types, columns, .{
            .nulls_equal = node.nulls_equal,
            .with_filter = node.with_filter,
        });
        return .{ .node = node, .table = table };
    }

    pub fn push(self: *BuildOperator, arena: std.mem.Allocator, chunk: *const Chunk) Error!void {
        const keys = try evaluate_keys(arena, self.node.keys, chunk);
        try self.table.push(arena, chunk.columns, keys, chunk.row_count, selected_bits(chunk));
    }
};

pub const JoinOperator = struct {
    node: *const plan_module.Join,
    /// What one part of the answer takes; steps behind the join use it too.
    scratch: std.heap.ArenaAllocator,
    use: join_table.FilterUse = .{},
    /// The chunk that parts are made of, and how far they have got.
    expansion: ?Expansion = null,

    const Expansion = struct {
        chunk: Chunk,
        pairs: Pairs,
        /// Left joins with a residual: rows that have had a match.
        matched: ?[]u8,
        stage: enum { pairs, unmatched, done } = .pairs,
    };

    pub fn init(gpa: std.mem.Allocator, node: *const plan_module.Join) JoinOperator {
        return .{ .node = node, .scratch = .init(gpa) };
    }

    pub fn deinit(self: *JoinOperator) void {
        self.scratch.deinit();
    }

    /// What becomes of a chunk; null when it comes in parts, out of `next`.
    pub fn push(self: *JoinOperator, arena: std.mem.Allocator, chunk: *const Chunk) Error!?Chunk {
        const keys = try evaluate_keys(arena, self.node.keys, chunk);
        switch (self.node.kind) {
            .semi, .anti, .mark => return try self.push_existence(arena, chunk, keys),
            .inner, .left, .single => {},
        }
        const table = self.node.table;
        try table.expect(if (chunk.selection) |selection| selection.count else chunk.row_count, self.taken_count());
        const left = self.node.kind == .left;
        if (table.is_unique() and self.node.residual == null) {
            const found = try table.find_places(arena, keys, chunk.row_count, selected_bits(chunk), &self.use);
            return if (self.node.kind == .inner) try self.emit_inner(arena, chunk, &found) else try self.emit_left(arena, chunk, &found);
        }
        const found = try table.find_all(arena, keys, chunk.row_count, selected_bits(chunk), &self.use);
        if (table.is_unique() or self.node.kind == .single or (left and found.len == 0)) {
            const single = try self.single_matches(arena, chunk, &found);
            return if (self.node.kind == .inner) try self.emit_inner(arena, chunk, &single) else try self.emit_left(arena, chunk, &single);
        }
        const residual = self.node.residual != null;
        self.expansion = .{
            .chunk = chunk.*,
            .pairs = .{
                .found = if (left and !residual) try with_misses(arena, chunk, &found) else found,
            },
            .matched = if (left and residual) try empty_bits(arena, chunk.row_count) else null,
        };
        return null;
    }

    /// The next part of the chunk that was pushed last, in `scratch`; null when there is none.
    pub fn next(self: *JoinOperator) Error!?Chunk {
        const state = &self.expansion.?;
        while (true) {
            try interrupt.check();
            _ = self.scratch.reset(.retain_capacity);
            const arena = self.scratch.allocator();
            switch (state.stage) {
                .pairs => {
                    var batch: Batch = try .init(arena);
                    batch.fill(&state.pairs, self.node.table.order(), null);
                    if (batch.len == 0) {
                        state.stage = if (state.matched != null) .unmatched else .done;
                        continue;
                    }
                    if (self.node.residual != null) try self.keep_true(arena, &state.chunk, &batch);
                    if (state.matched) |bits| for (batch.rows[0..batch.len]) |row| bitmap.set(bits.ptr, row);
                    if (batch.len > 0) return try self.emit_pairs(arena, &state.chunk, batch.matches());
                },
                .unmatched => {
                    state.stage = .done;
                    const rows = try unmatched_rows(arena, &state.chunk, state.matched.?);
                    if (rows.len == 0) return null;
                    const builds = try arena.alloc(u32, rows.len);
                    @memset(builds, none);
                    return try self.emit_pairs(arena, &state.chunk, .{ .rows = rows, .builds = builds });
                },
                .done => return null,
            }
        }
    }

    /// How many columns of the build are taken; text counts as several, by what a copy of it costs.
    fn taken_count(self: *const JoinOperator) u32 {
        var count: u32 = 0;
        const table = self.node.table;
        for (self.node.picks) |pick| if (pick.side == .build) {
            count += if (table.fields[pick.column].type.value_size() > 0) 1 else 4;
        };
        return count;
    }

    // ---- semi, anti, mark ----

    fn push_existence(self: *JoinOperator, arena: std.mem.Allocator, chunk: *const Chunk, keys: []const Column) Error!Chunk {
        const count = chunk.row_count;
        const table = self.node.table;
        const mark = if (self.node.residual != null)
            try self.ask_pairs(arena, chunk, keys)
        else blk: {
            const bits = try table.contains(arena, keys, count, selected_bits(chunk), .sure);
            const validity = if (self.node.kind == .mark) try table.membership_validity(arena, keys, count, bits) else null;
            break :blk expression_module.bool_column(count, bits, validity);
        };
        var selection = chunk.selection;
        if (self.node.kind != .mark) {
            const bits = try arena.alloc(u8, bitmap.size(count));
            if (self.node.kind == .semi) @memcpy(bits, mark.data[0..bits.len]) else bitmap.invert(bits, mark.data);
            if (chunk.selection) |before| bitmap.combine(.@"and", bits, bits, before.bits);
            selection = .{ .bits = bits, .count = @intCast(bitmap.count(bits, count)) };
        }
        const columns = try arena.alloc(Column, self.node.picks.len);
        for (columns, self.node.picks) |*column, pick| column.* = switch (pick.side) {
            .input => chunk.columns[pick.column],
            .mark => mark,
            .build => unreachable, // the parser refuses it
        };
        return .{ .row_count = count, .columns = columns, .selection = selection };
    }

    /// Whether some pair of a row counts. A row that has one is not asked again.
    fn ask_pairs(self: *JoinOperator, arena: std.mem.Allocator, chunk: *const Chunk, keys: []const Column) Error!Column {
        const found = try self.node.table.find_all(arena, keys, chunk.row_count, selected_bits(chunk), &self.use);
        const matched = try empty_bits(arena, chunk.row_count);
        const unknown = try empty_bits(arena, chunk.row_count);
        var pairs: Pairs = .{ .found = found };
        var nulls = false;
        while (true) {
            try interrupt.check();
            _ = self.scratch.reset(.retain_capacity);
            const part = self.scratch.allocator();
            var batch: Batch = try .init(part);
            batch.fill(&pairs, self.node.table.order(), matched);
            if (batch.len == 0) break;
            const answer = try self.ask(part, chunk, &batch);
            for (batch.rows[0..batch.len], 0..) |row, i| {
                if (answer.is_valid(i)) {
                    if (bitmap.get(answer.data.ptr, i)) bitmap.set(matched.ptr, row);
                } else {
                    bitmap.set(unknown.ptr, row);
                    nulls = true;
                }
            }
        }
        if (!nulls) return expression_module.bool_column(chunk.row_count, matched, null);
        // Known: a match, or no pair that nobody knows about.
        bitmap.combine(.or_not, unknown, matched, unknown);
        return expression_module.bool_column(chunk.row_count, matched, unknown);
    }

    // ---- the residual ----

    /// The residual over a batch of pairs: columns that it does not name have no values.
    fn ask(self: *const JoinOperator, arena: std.mem.Allocator, chunk: *const Chunk, batch: *const Batch) Error!Column {
        const residual = &self.node.residual.?;
        const table = self.node.table;
        const matches = batch.matches();
        const columns = try arena.alloc(Column, residual.named.len);
        const input_count = columns.len - table.columns.len;
        for (columns, residual.named, 0..) |*column, named, i| {
            const build = i >= input_count;
            const source = if (build) &table.columns[i - input_count] else &chunk.columns[i];
            column.* = if (!named)
                .{ .type = source.type, .row_count = @intCast(matches.rows.len) }
            else if (build)
                try table.take(arena, @intCast(i - input_count), matches.builds)
            else
                try take_rows(arena, source, matches.rows);
        }
        return expression_module.evaluate(arena, &residual.predicate, &.{ .row_count = @intCast(matches.rows.len), .columns = columns });
    }

    /// Keeps the pairs that count.
    fn keep_true(self: *const JoinOperator, arena: std.mem.Allocator, chunk: *const Chunk, batch: *Batch) Error!void {
        const answer = try self.ask(arena, chunk, batch);
        const bits = try arena.alloc(u8, bitmap.size(batch.len));
        _ = boolean.selection(batch.len, .{ .values = answer.data, .validity = answer.validity }, bits);
        var kept: usize = 0;
        for (0..batch.len) |i| {
            batch.rows[kept] = batch.rows[i];
            batch.builds[kept] = batch.builds[i];
            kept += @intFromBool(bitmap.get(bits.ptr, i));
        }
        batch.len = kept;
    }

    /// The pair that counts of each row; several are an error.
    fn single_matches(self: *JoinOperator, arena: std.mem.Allocator, chunk: *const Chunk, found: *const Found) Error!Places {
        const places = try arena.alloc(u32, chunk.row_count);
        @memset(places, none);
        var pairs: Pairs = .{ .found = found.* };
        while (true) {
            try interrupt.check();
            _ = self.scratch.reset(.retain_capacity);
            const part = self.scratch.allocator();
            var batch: Batch = try .init(part);
            batch.fill(&pairs, self.node.table.order(), null);
            if (batch.len == 0) break;
            if (self.node.residual != null) try self.keep_true(part, chunk, &batch);
            for (batch.rows[0..batch.len], batch.builds[0..batch.len]) |row, build| {
                if (places[row] != none) return several_rows();
                places[row] = build;
            }
        }
        return .of(arena, places);
    }

    // ---- what goes on ----

    /// Rows with their one match. Where most rows have one, the input's columns stay as they are.
    fn emit_inner(self: *const JoinOperator, arena: std.mem.Allocator, chunk: *const Chunk, found: *const Places) Error!Chunk {
        if (found.count == 0) return .{ .row_count = 0, .columns = &.{} };
        if (found.count < chunk.row_count / 2) {
            const rows = try arena.alloc(u32, found.count);
            _ = bitmap.indices(found.bits, chunk.row_count, rows);
            const builds = try arena.alloc(u32, found.count);
            take_values(u32, builds, found.places, rows);
            return self.emit_pairs(arena, chunk, .{ .rows = rows, .builds = builds });
        }
        const all = found.count == chunk.row_count;
        const columns = try arena.alloc(Column, self.node.picks.len);
        for (columns, self.node.picks) |*column, pick| column.* = switch (pick.side) {
            .input => chunk.columns[pick.column],
            .build => try self.node.table.take(arena, pick.column, found.places),
            .mark => unreachable,
        };
        return .{ .row_count = chunk.row_count, .columns = columns, .selection = if (all) null else .{ .bits = found.bits, .count = found.count } };
    }

    /// All rows, with their one match or NULLs.
    fn emit_left(self: *const JoinOperator, arena: std.mem.Allocator, chunk: *const Chunk, found: *const Places) Error!Chunk {
        const present = if (found.count == chunk.row_count) null else found.bits;
        const columns = try self.build_columns(arena, found.places, present);
        for (columns, self.node.picks) |*column, pick| if (pick.side == .input) {
            column.* = chunk.columns[pick.column];
        };
        return .{ .row_count = chunk.row_count, .columns = columns, .selection = chunk.selection };
    }

    /// Pairs side by side; `none` makes NULLs.
    fn emit_pairs(self: *const JoinOperator, arena: std.mem.Allocator, chunk: *const Chunk, matches: Matches) Error!Chunk {
        const missing = self.node.kind == .left and std.mem.findScalar(u32, matches.builds, none) != null;
        const present = if (missing) (try Places.of(arena, matches.builds)).bits else null;
        const columns = try self.build_columns(arena, matches.builds, present);
        for (columns, self.node.picks) |*column, pick| if (pick.side == .input) {
            column.* = try take_rows(arena, &chunk.columns[pick.column], matches.rows);
        };
        return .{ .row_count = @intCast(matches.rows.len), .columns = columns };
    }

    /// The build's columns, in their places among all that are picked, with NULLs where `present` is not
    /// set.
    fn build_columns(self: *const JoinOperator, arena: std.mem.Allocator, builds: []const u32, present: ?[]const u8) Error![]Column {
        const columns = try arena.alloc(Column, self.node.picks.len);
        const table = self.node.table;
        for (columns, self.node.picks) |*column, pick| if (pick.side == .build) {
            if (table.row_count == 0) {
                var builder: ColumnBuilder = try .init(arena, table.fields[pick.column].type);
                try builder.append_nulls(@intCast(builds.len));
                column.* = try builder.finish(arena);
                continue;
            }
            column.* = try table.take(arena, pick.column, builds);
            const bits = present orelse continue;
            const validity = column.validity orelse {
                column.validity = bits;
                continue;
            };
            const both = try arena.alloc(u8, bitmap.size(builds.len));
            bitmap.combine(.@"and", both, validity, bits);
            column.validity = both;
        };
        return columns;
    }
};

/// Rows of the input, each with a row of the build.
const Matches = struct { rows: []u32, builds: []u32 };

/// The pairs of a chunk, one after the other.
const Pairs = struct {
    found: Found,
    index: usize = 0,
    /// Pairs of the current row that have been given out.
    given: u32 = 0,
};

const Batch = struct {
    rows: []u32,
    builds: []u32,
    len: usize = 0,

    /// Most rows have few matches. So many are written at once, some too many: a call that copies by length
    /// costs several times as much.
    const few = 4;
    const Few = @Vector(few, u32);

    fn init(arena: std.mem.Allocator) Error!Batch {
        return .{ .rows = try arena.alloc(u32, chunk_rows + few), .builds = try arena.alloc(u32, chunk_rows + few) };
    }

    fn matches(self: *const Batch) Matches {
        return .{ .rows = self.rows[0..self.len], .builds = self.builds[0..self.len] };
    }

    /// The next pairs, without those of rows that are settled. `order`: the table's, as it is now.
    fn fill(self: *Batch, pairs: *Pairs, order: ?[]const u32, settled: ?[]const u8) void {
        const found = &pairs.found;
        self.len = 0;
        while (pairs.index < found.len and self.len < chunk_rows) {
            const row = found.rows[pairs.index];
            const place = found.places[pairs.index];
            const total = found.counts[pairs.index];
            const skipped = if (settled) |bits| bitmap.get(bits.ptr, row) else false;
            const count: u32 = if (skipped) 0 else @intCast(@min(total - pairs.given, chunk_rows - self.len));
            const from = place +% pairs.given;
            const whole = place == none or order == null or from + few <= order.?.len;
            if (count <= few and whole) {
                self.rows[self.len..][0..few].* = @splat(row);
                const next: Few = @as(Few, @splat(from)) +% std.simd.iota(u32, few);
                self.builds[self.len..][0..few].* = if (place == none) @splat(none) else if (order) |rows| rows[from..][0..few].* else next;
            } else {
                @memset(self.rows[self.len..][0..count], row);
                const builds = self.builds[self.len..][0..count];
                if (place == none) {
                    @memset(builds, none);
                } else if (order) |rows| {
                    @memcpy(builds, rows[from..][0..count]);
                } else {
                    for (builds, from..) |*build, i| build.* = @intCast(i);
                }
            }
            self.len += count;
            pairs.given += count;
            if (!skipped and pairs.given < total) continue;
            pairs.index += 1;
            pairs.given = 0;
        }
    }
};

fn several_rows() error{OutOfRange} {
    interrupt.describe("more than one row returned by a subquery that is used as a value", .{});
    return error.OutOfRange;
}

fn evaluate_keys(arena: std.mem.Allocator, expressions: []const expression_module.Expression, chunk: *const Chunk) Error![]Column {
    const keys = try arena.alloc(Column, expressions.len);
    for (keys, expressions) |*key, *expression| key.* = try expression_module.evaluate(arena, expression, chunk);
    return keys;
}

fn selected_bits(chunk: *const Chunk) ?[]const u8 {
    return if (chunk.selection) |selection| selection.bits else null;
}

/// All selected rows: those without a match have one that is `none`.
fn with_misses(arena: std.mem.Allocator, chunk: *const Chunk, found: *const Found) Error!Found {
    const rows = try selected_rows(arena, chunk);
    var all: Found = try .init(arena, rows.len);
    var at: usize = 0;
    for (rows, 0..) |row, i| {
        const match = at < found.len and found.rows[at] == row;
        all.rows[i] = row;
        all.places[i] = if (match) found.places[at] else none;
        all.counts[i] = if (match) found.counts[at] else 1;
        at += @intFromBool(match);
    }
    all.len = rows.len;
    return all;
}

fn unmatched_rows(arena: std.mem.Allocator, chunk: *const Chunk, matched: []const u8) Error![]u32 {
    const bits = try arena.alloc(u8, bitmap.size(chunk.row_count));
    bitmap.invert(bits, matched);
    if (chunk.selection) |selection| bitmap.combine(.@"and", bits, bits, selection.bits);
    const rows = try arena.alloc(u32, bitmap.count(bits, chunk.row_count));
    _ = bitmap.indices(bits, chunk.row_count, rows);
    return rows;
}
