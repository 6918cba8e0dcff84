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
const abi = @import("../abi.zig");
const bitmap = @import("../core/bitmap.zig");
const boolean = @import("../kernel/boolean.zig");
const column_module = @import("../core/column.zig");
const expression_module = @import("../plan/expression.zig");
const interrupt = @import("../core/interrupt.zig");
const join_table = @import("../lookup/join_table.zig");
const join_step = @import("join_step.zig");
const protocol = @import("protocol.zig");
const schema = @import("../core/schema.zig");
const step_module = @import("../plan/step.zig");
const take_values = @import("../core/take.zig").take_values;
const take_rows = @import("../core/column_builder.zig").take_rows;
const Arena = @import("../core/arena.zig").Arena;
const Chunk = expression_module.Chunk;
const Column = column_module.Column;
const ColumnBuilder = @import("../core/column_builder.zig").ColumnBuilder;
const Found = join_table.Found;
const Places = join_table.Places;
const JoinTable = join_table.JoinTable;
const assert = std.debug.assert;
const chunk_rows = expression_module.chunk_rows;
const empty_bits = @import("../lookup/join_probe.zig").empty_bits;
const none = join_table.none;

const Error = protocol.Error;

pub const JoinOperator = struct {
    node: *const Step,
    /// What one part of the answer takes; steps behind the join use it too.
    scratch: Arena,
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

    pub const Step = join_step.Join;
    pub const tag: abi.NodeTag = .join;
    /// A left join with a residual puts rows without a match behind others of their chunk.
    pub const facts: step_module.Facts = .{ .leaves = .anyhow };
    pub const parse = join_step.parse;

    pub fn mark_used(step: *const Step, used: []bool) void {
        for (step.keys) |*key| key.mark_columns(used);
        for (step.picks) |pick| if (pick.side == .input) {
            used[pick.column] = true;
        };
        if (step.residual) |residual| for (used, residual.named[0..used.len]) |*mark, named| {
            mark.* = mark.* or named;
        };
    }

    pub fn open(opening: *const protocol.Opening, step: *const Step) Error!JoinOperator {
        return .{ .node = step, .scratch = .init(opening.gpa) };
    }

    /// Of the rows that it looks into, the build holds the bytes.
    pub fn size(self: *const JoinOperator) u64 {
        return self.scratch.capacity();
    }

    pub fn reset(_: *JoinOperator) Error!void {}

    pub fn close(self: *JoinOperator) void {
        self.scratch.deinit();
    }

    pub fn push(self: *JoinOperator, arena: std.mem.Allocator, chunk: *Chunk, _: protocol.Flow) Error!protocol.Pushed {
        chunk.* = try self.joined(arena, chunk) orelse return .in_pieces;
        return .goes_on;
    }

    pub fn next(self: *JoinOperator) Error!?protocol.Piece {
        const chunk = try self.next_part() orelse return null;
        return .{ .chunk = .{ .chunk = chunk, .scratch = &self.scratch } };
    }

    /// What becomes of a chunk; null when it comes in parts, out of `next_part`.
    fn joined(self: *JoinOperator, arena: std.mem.Allocator, chunk: *const Chunk) Error!?Chunk {
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
            return if (self.node.kind == .inner)
                try self.emit_inner(arena, chunk, &found)
            else
                try self.emit_left(arena, chunk, &found);
        }
        const found = try table.find_all(arena, keys, chunk.row_count, selected_bits(chunk), &self.use);
        if (table.is_unique() or self.node.kind == .single or (left and found.len == 0)) {
            const single = try self.single_matches(arena, chunk, &found);
            return if (self.node.kind == .inner)
                try self.emit_inner(arena, chunk, &single)
            else
                try self.emit_left(arena, chunk, &single);
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
    fn next_part(self: *JoinOperator) Error!?Chunk {
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

    fn push_existence(
        self: *JoinOperator,
        arena: std.mem.Allocator,
        chunk: *const Chunk,
        keys: []const Column,
    ) Error!Chunk {
        const count = chunk.row_count;
        const table = self.node.table;
        const mark = if (self.node.residual != null)
            try self.ask_pairs(arena, chunk, keys)
        else blk: {
            const bits = try table.contains(arena, keys, count, selected_bits(chunk));
            const validity = if (self.node.kind == .mark)
                try table.membership_validity(arena, keys, count, bits)
            else
                null;
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
    fn ask_pairs(
        self: *JoinOperator,
        arena: std.mem.Allocator,
        chunk: *const Chunk,
        keys: []const Column,
    ) Error!Column {
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
        return expression_module.evaluate(arena, &residual.predicate, &.{
            .row_count = @intCast(matches.rows.len),
            .columns = columns,
        });
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
    fn single_matches(
        self: *JoinOperator,
        arena: std.mem.Allocator,
        chunk: *const Chunk,
        found: *const Found,
    ) Error!Places {
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
    fn emit_inner(
        self: *const JoinOperator,
        arena: std.mem.Allocator,
        chunk: *const Chunk,
        found: *const Places,
    ) Error!Chunk {
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
        return .{ .row_count = chunk.row_count, .columns = columns, .selection = if (all) null else .{
            .bits = found.bits,
            .count = found.count,
        } };
    }

    /// All rows, with their one match or NULLs.
    fn emit_left(
        self: *const JoinOperator,
        arena: std.mem.Allocator,
        chunk: *const Chunk,
        found: *const Places,
    ) Error!Chunk {
        const present = if (found.count == chunk.row_count) null else found.bits;
        const columns = try self.build_columns(arena, found.places, present);
        for (columns, self.node.picks) |*column, pick| if (pick.side == .input) {
            column.* = chunk.columns[pick.column];
        };
        return .{ .row_count = chunk.row_count, .columns = columns, .selection = chunk.selection };
    }

    /// Pairs side by side; `none` makes NULLs.
    fn emit_pairs(
        self: *const JoinOperator,
        arena: std.mem.Allocator,
        chunk: *const Chunk,
        matches: Matches,
    ) Error!Chunk {
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
    fn build_columns(
        self: *const JoinOperator,
        arena: std.mem.Allocator,
        builds: []const u32,
        present: ?[]const u8,
    ) Error![]Column {
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
                self.builds[self.len..][0..few].* = if (place == none)
                    @splat(none)
                else if (order) |rows| rows[from..][0..few].* else next;
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

/// Keys of a build, or to look up in one.
pub fn evaluate_keys(
    arena: std.mem.Allocator,
    expressions: []const expression_module.Expression,
    chunk: *const Chunk,
) Error![]Column {
    const keys = try arena.alloc(Column, expressions.len);
    for (keys, expressions) |*key, *expression| key.* = try expression_module.evaluate(arena, expression, chunk);
    return keys;
}

fn selected_bits(chunk: *const Chunk) ?[]const u8 {
    return if (chunk.selection) |selection| selection.bits else null;
}

/// All selected rows: those without a match have one that is `none`.
fn with_misses(arena: std.mem.Allocator, chunk: *const Chunk, found: *const Found) Error!Found {
    const rows = try chunk.selected_rows(arena);
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

// ---- tests: every kind against two loops ----

const testing = std.testing;
const group_keys = @import("../lookup/group_keys.zig");
const hash = @import("../kernel/hash.zig");
const BuildOperator = @import("build.zig").BuildOperator;
const random_rows = @import("random_rows.zig");
const Expression = expression_module.Expression;

/// Keys, a number for each row, and a value for the residual.
const TestSide = struct {
    fields: []const schema.Field,
    columns: []const Column,
    row_count: u32,
    selection: ?[]const u8 = null,

    fn init(arena: std.mem.Allocator, random: std.Random, keys: []const Column, row_count: u32) !TestSide {
        const columns = try arena.alloc(Column, keys.len + 2);
        @memcpy(columns[0..keys.len], keys);
        columns[keys.len] = try random_rows.numbers(arena, row_count);
        const values = try arena.alignedAlloc(i64, .@"16", row_count);
        for (values) |*value| value.* = random.uintLessThan(u8, 4);
        const validity = try arena.alloc(u8, bitmap.size(row_count));
        for (validity) |*byte| byte.* = random.int(u8) | random.int(u8) | random.int(u8);
        columns[keys.len + 1] =
            .{ .type = .of(.i64), .row_count = row_count, .data = std.mem.sliceAsBytes(values), .validity = validity };
        const fields = try arena.alloc(schema.Field, columns.len);
        for (fields, columns) |*field, *column| field.* = .{ .name = "", .type = column.type };
        var selection: ?[]u8 = null;
        if (random.boolean()) {
            selection = try arena.alloc(u8, bitmap.size(row_count));
            random.bytes(selection.?);
        }
        return .{ .fields = fields, .columns = columns, .row_count = row_count, .selection = selection };
    }

    fn chunk(self: *const TestSide) Chunk {
        const bits = self.selection orelse return .{ .row_count = self.row_count, .columns = self.columns };
        return .{ .row_count = self.row_count, .columns = self.columns, .selection = .{
            .bits = bits,
            .count = @intCast(bitmap.count(bits, self.row_count)),
        } };
    }

    fn has(self: *const TestSide, row: usize) bool {
        return if (self.selection) |bits| bitmap.get(bits.ptr, row) else true;
    }
};

const TestCase = struct {
    kind: abi.JoinKind,
    key_count: usize = 1,
    residual: bool = false,
    nulls_equal: bool = false,
    with_filter: bool = false,
    /// The build's keys are expressions, which have columns of their own.
    computed: bool = false,
};

/// The input's number, and the build's or what the mark says; NULL is −1.
const TestRow = [2]i64;
const TestRows = std.ArrayList(TestRow);

fn test_keys(arena: std.mem.Allocator, side: *const TestSide, case: TestCase, computed: bool) ![]Expression {
    const keys = try arena.alloc(Expression, case.key_count);
    for (keys, 0..) |*key, i| {
        key.* = .{ .type = side.columns[i].type, .node = .{ .column = @intCast(i) } };
        if (!computed) continue;
        const terms = try arena.alloc(Expression, 1);
        terms[0] = key.*;
        key.node = .{ .coalesce = terms };
    }
    return keys;
}

fn test_build(arena: std.mem.Allocator, side: *const TestSide, case: TestCase) !*JoinTable {
    const node: BuildOperator.Step = .{
        .keys = try test_keys(arena, side, case, case.computed),
        .nulls_equal = case.nulls_equal,
        .with_filter = case.with_filter,
    };
    var build: BuildOperator = try .open(&.{ .gpa = testing.allocator, .arena = arena, .input = side.fields }, &node);
    errdefer build.close();
    var chunk = side.chunk();
    try testing.expectEqual(.kept, try build.push(arena, &chunk, .{}));
    try build.finish();
    try testing.expect(build.size() > 0 or build.rows.row_count == 0);
    return build.table();
}

/// The residual is `input's value < build's value`.
fn test_residual(arena: std.mem.Allocator, input: *const TestSide, build: *const TestSide) !join_step.Residual {
    const sides = try arena.alloc(Expression, 2);
    const places = [2]u32{ @intCast(input.columns.len - 1), @intCast(input.columns.len + build.columns.len - 1) };
    const named = try arena.alloc(bool, input.columns.len + build.columns.len);
    @memset(named, false);
    for (sides, places) |*side, place| {
        side.* = .{ .type = .of(.i64), .node = .{ .column = place } };
        named[place] = true;
    }
    return .{
        .predicate = .{ .type = .of(.bool), .node = .{
            .compare = .{ .op = .lt, .left = &sides[0], .right = &sides[1] },
        } },
        .named = named,
    };
}

fn append_test_rows(arena: std.mem.Allocator, rows: *TestRows, chunk: *const Chunk) !void {
    try testing.expect(chunk.row_count <= chunk_rows);
    for (0..chunk.row_count) |row| {
        if (chunk.selection) |selection| if (!bitmap.get(selection.bits.ptr, row)) continue;
        const second = &chunk.columns[1];
        const value: i64 = if (!second.is_valid(row))
            -1
        else if (second.type.tag == .bool)
            @intFromBool(bitmap.get(second.data.ptr, row))
        else
            second.values(i64)[row];
        try rows.append(arena, .{ chunk.columns[0].values(i64)[row], value });
    }
    if (chunk.row_count > 0) try testing.expectEqual(2, chunk.columns.len);
}

fn joined(arena: std.mem.Allocator, input: *const TestSide, build: *const TestSide, case: TestCase) !TestRows {
    const table = try test_build(arena, build, case);
    defer table.release();
    const number: u32 = @intCast(case.key_count);
    const second: join_step.Pick = switch (case.kind) {
        .inner, .left, .single => .{ .side = .build, .column = number },
        .semi, .anti => .{ .side = .input, .column = number },
        .mark => .{ .side = .mark, .column = 0 },
    };
    const node: JoinOperator.Step = .{
        .table = table,
        .kind = case.kind,
        .keys = try test_keys(arena, input, case, false),
        .picks = &.{ .{ .side = .input, .column = number }, second },
        .residual = if (case.residual) try test_residual(arena, input, build) else null,
    };
    var join: JoinOperator = try .open(&.{ .gpa = testing.allocator, .arena = arena, .input = input.fields }, &node);
    defer join.close();
    var rows: TestRows = .empty;
    // Twice: what one chunk leaves must not touch the next.
    for (0..2) |_| if (try join.joined(arena, &input.chunk())) |whole| {
        try append_test_rows(arena, &rows, &whole);
    } else while (try join.next_part()) |part| try append_test_rows(arena, &rows, &part);
    return rows;
}

fn has_null_key(side: *const TestSide, row: usize, case: TestCase) bool {
    for (side.columns[0..case.key_count]) |*key| if (!key.is_valid(row)) return true;
    return false;
}

fn expected_row(
    arena: std.mem.Allocator,
    rows: *TestRows,
    input: *const TestSide,
    row: usize,
    build: *const TestSide,
    case: TestCase,
) !void {
    var matches: usize = 0;
    var unknown = false;
    var others: usize = 0;
    const id: i64 = @intCast(row);
    for (0..build.row_count) |other| {
        if (!build.has(other)) continue;
        others += 1;
        const some_null = has_null_key(input, row, case) or has_null_key(build, other, case);
        const equal = (case.nulls_equal or !some_null) and
            group_keys.rows_equal(input.columns[0..case.key_count], row, build.columns[0..case.key_count], other);
        if (!equal) {
            unknown = unknown or (!case.residual and !case.nulls_equal and some_null);
            continue;
        }
        if (case.residual) {
            const left = &input.columns[case.key_count + 1];
            const right = &build.columns[case.key_count + 1];
            if (!left.is_valid(row) or !right.is_valid(other)) {
                unknown = true;
                continue;
            }
            if (left.values(i64)[row] >= right.values(i64)[other]) continue;
        }
        matches += 1;
        if (case.kind == .single and matches > 1) return error.OutOfRange;
        if (case.kind == .inner or case.kind == .left or case.kind == .single)
            try rows.append(arena, .{ id, @intCast(other) });
    }
    const mark: i64 = if (matches > 0) 1 else if (unknown) -1 else 0;
    switch (case.kind) {
        .inner => {},
        .left, .single => if (matches == 0) try rows.append(arena, .{ id, -1 }),
        .semi => if (matches > 0) try rows.append(arena, .{ id, id }),
        .anti => if (matches == 0) try rows.append(arena, .{ id, id }),
        .mark => try rows.append(arena, .{ id, mark }),
    }
}

fn expected_rows(arena: std.mem.Allocator, input: *const TestSide, build: *const TestSide, case: TestCase) !TestRows {
    var rows: TestRows = .empty;
    for (0..2) |_| for (0..input.row_count) |row| {
        if (input.has(row)) try expected_row(arena, &rows, input, row, build, case);
    };
    return rows;
}

fn earlier(_: void, a: TestRow, b: TestRow) bool {
    return a[0] < b[0] or (a[0] == b[0] and a[1] < b[1]);
}

fn expect_joined(arena: std.mem.Allocator, input: *const TestSide, build: *const TestSide, case: TestCase) !void {
    const wanted = expected_rows(arena, input, build, case) catch |failure| {
        try testing.expectError(failure, joined(arena, input, build, case));
        return;
    };
    const found = try joined(arena, input, build, case);
    errdefer std.debug.print("{any}, {d} × {d} rows\n", .{ case, input.row_count, build.row_count });
    if (case.kind == .left and case.residual)
        for ([_]TestRows{ wanted, found }) |rows| std.mem.sort(TestRow, rows.items, {}, earlier);
    try testing.expectEqualSlices(TestRow, wanted.items, found.items);
}

fn expect_all_kinds(
    arena: std.mem.Allocator,
    random: std.Random,
    input: *const TestSide,
    build: *const TestSide,
    key_count: usize,
) !void {
    for (std.enums.values(abi.JoinKind)) |kind|
        for ([_]bool{ false, true }) |residual| for ([_]bool{ false, true }) |nulls_equal| {
            try expect_joined(arena, input, build, .{
                .kind = kind,
                .key_count = key_count,
                .residual = residual,
                .nulls_equal = nulls_equal,
                .with_filter = random.boolean(),
                .computed = random.boolean(),
            });
        };
}

test "joins of every kind by keys of every type" {
    var prng: std.Random.DefaultPrng = .init(41);
    const random = prng.random();
    for (0..120) |round| {
        var arena_state: Arena = .init(testing.allocator);
        defer arena_state.deinit();
        const arena = arena_state.allocator();
        const key_count = round % 4;
        const counts = [2]u32{ random.uintLessThan(u32, 60), random.uintLessThan(u32, if (round % 3 == 0) 3 else 30) };
        var sides: [2]TestSide = undefined;
        for (&sides, counts) |*side, count| {
            const keys = try arena.alloc(Column, key_count);
            for (keys, 0..) |*key, i| {
                const data_type = random_rows.types[(round + i * 7) % random_rows.types.len];
                key.* = try random_rows.column(arena, random, data_type, count);
            }
            side.* = try .init(arena, random, keys, count);
        }
        // Every other time the build's keys are some of the input's: long values have matches too.
        if (counts[0] > 0 and round % 2 == 0) {
            const rows = try arena.alloc(u32, counts[1]);
            for (rows) |*row| row.* = random.uintLessThan(u32, counts[0]);
            const keys = try arena.alloc(Column, key_count);
            for (keys, sides[0].columns[0..key_count]) |*key, *from| key.* = try take_rows(arena, from, rows);
            sides[1] = try .init(arena, random, keys, counts[1]);
        }
        try expect_all_kinds(arena, random, &sides[0], &sides[1], key_count);
    }
}

fn binary_column(arena: std.mem.Allocator, values: []const []const u8) !Column {
    const offsets = try arena.alloc(u32, values.len + 1);
    offsets[0] = 0;
    for (offsets[1..], offsets[0..values.len], values) |*end, start, value|
        end.* = start + @as(u32, @intCast(value.len));
    const data = try arena.alignedAlloc(u8, .@"16", offsets[values.len]);
    for (values, offsets[0..values.len]) |value, start| @memcpy(data[start..][0..value.len], value);
    return .{ .type = .of(.binary), .row_count = @intCast(values.len), .data = data, .offsets = offsets };
}

test "keys that share a hash are told apart" {
    var prng: std.Random.DefaultPrng = .init(42);
    const random = prng.random();
    for ([_]usize{ 1, 8, 30 }) |distinct| {
        var arena_state: Arena = .init(testing.allocator);
        defer arena_state.deinit();
        const arena = arena_state.allocator();
        const values = try arena.alloc([16]u8, distinct * 2);
        for (values, 0..) |*value, number| {
            value.* = hash.colliding_value(number);
            try testing.expectEqual(hash.hash_bytes(&@as([16]u8, @splat(0))), hash.hash_bytes(value));
        }
        var sides: [2]TestSide = undefined;
        for (&sides, 0..) |*side, i| {
            const picked = try arena.alloc([]const u8, 40);
            // The second side lacks half of them.
            for (picked) |*value| value.* = &values[random.uintLessThan(usize, if (i == 0) distinct * 2 else distinct)];
            side.* = try .init(arena, random, &.{try binary_column(arena, picked)}, 40);
        }
        try expect_all_kinds(arena, random, &sides[0], &sides[1], 1);
        try expect_all_kinds(arena, random, &sides[1], &sides[0], 1);
    }
}

test "a key with more matches than a chunk has rows" {
    var prng: std.Random.DefaultPrng = .init(43);
    var arena_state: Arena = .init(testing.allocator);
    defer arena_state.deinit();
    const arena = arena_state.allocator();
    const build_count = 2 * chunk_rows + 5;
    const same = try arena.alignedAlloc(i64, .@"16", build_count);
    @memset(same, 7);
    same[3] = 8;
    const input_keys = try arena.alignedAlloc(i64, .@"16", 3);
    @memcpy(input_keys, &[3]i64{ 7, 9, 8 });
    const input_key: Column = .{ .type = .of(.i64), .row_count = 3, .data = std.mem.sliceAsBytes(input_keys) };
    const build_key: Column = .{ .type = .of(.i64), .row_count = build_count, .data = std.mem.sliceAsBytes(same) };
    for ([_]usize{ 0, 1 }) |key_count| {
        var input: TestSide = try .init(arena, prng.random(), (&input_key)[0..1][0..key_count], 3);
        var build: TestSide = try .init(arena, prng.random(), (&build_key)[0..1][0..key_count], build_count);
        input.selection = null;
        build.selection = null;
        for (std.enums.values(abi.JoinKind)) |kind| for ([_]bool{ false, true }) |residual| {
            try expect_joined(arena, &input, &build, .{ .kind = kind, .key_count = key_count, .residual = residual });
        };
    }
}

test "a build that gets no rows, and an input that brings none" {
    var prng: std.Random.DefaultPrng = .init(44);
    const random = prng.random();
    for ([_][2]u32{ .{ 0, 0 }, .{ 5, 0 }, .{ 0, 5 } }) |counts| for (0..3) |key_count| {
        var arena_state: Arena = .init(testing.allocator);
        defer arena_state.deinit();
        const arena = arena_state.allocator();
        var sides: [2]TestSide = undefined;
        for (&sides, counts) |*side, count| {
            const keys = try arena.alloc(Column, key_count);
            for (keys, 0..) |*key, i|
                key.* = try random_rows.column(arena, random, .of(if (i == 0) .utf8 else .i32), count);
            side.* = try .init(arena, random, keys, count);
        }
        try expect_all_kinds(arena, random, &sides[0], &sides[1], key_count);
    };
}
