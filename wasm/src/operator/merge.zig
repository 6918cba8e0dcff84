//! Merges sorted runs: the receiving half of a sort that several instances share.
//!
//! The runs are cut, all at the same keys, into ranges whose rows fit the cache; a sample of all rows
//! says at which. Within a range the runs' parts are put one behind the other and sorted by counting
//! (row_order.zig), which is stable: of equal rows that of the lower run comes first. Each row is
//! moved within the cache, where a tree of losers would spend five mispredicted comparisons on it,
//! and a sort of all rows at once a miss for every pass. Parts that already stand in order, because
//! only one run has rows there, or a key is so frequent that it fills a range alone, are handed on as
//! they lie.
//!
//! Runs that are not sorted give an order that means nothing, but every row once.
//!
//!     merge       u8 bounds (1: has lower, 2: has upper), keys and limit as of sort,
//!                 [lower: a value per key], [upper: a value per key]                  only as the first step
const std = @import("std");
const abi = @import("../abi.zig");
const column_builder = @import("../core/column_builder.zig");
const column_module = @import("../core/column.zig");
const expression_module = @import("../plan/expression.zig");
const expression_parser = @import("../plan/expression_parser.zig");
const interrupt = @import("../core/interrupt.zig");
const keyed_rows = @import("keyed_rows.zig");
const protocol = @import("protocol.zig");
const row_order = @import("row_order.zig");
const schema = @import("../core/schema.zig");
const step_module = @import("../plan/step.zig");
const Arena = @import("../core/arena.zig").Arena;
const Chunk = expression_module.Chunk;
const Column = column_module.Column;
const ColumnBuilder = column_builder.ColumnBuilder;
const Error = protocol.Error;
const KeyedRows = keyed_rows.KeyedRows;
const Piece = protocol.Piece;
const SortKey = step_module.SortKey;
const SortOperator = @import("sort.zig").SortOperator;
const assert = std.debug.assert;

/// Bytes of a range's rows, and how many rows that is at least and at most.
const range_size = 1 << 19;
const range_rows_min = 8192;
const range_rows_max = 1 << 16;
/// Rows of a run in a range, on average: fewer would make finding them the larger part of the work.
const run_rows_min = 16;
/// Rows looked at for every range.
const range_samples = 8;

/// Rows of a run that is shorter grow by what is pushed next; behind others a piece of its own begins,
/// which is merged like a run: growing it would move rows that are many already.
const piece_rows = 4096;

/// A run, or a piece of it: those of one number stand in the order in which they were pushed.
const Run = struct { number: u32, rows: []ColumnBuilder };

/// A run while it is merged: rows from `position` to `end` are left.
const Cursor = struct {
    columns: []const Column,
    keys: []const row_order.Key,
    position: u32,
    end: u32,
    /// Where the current range ends.
    cut: u32,
    /// How many rows it had in the last range in which it had any: about as many are in the next.
    part_rows: u32 = 1,
};

/// Of a run: the first of its cursors that has rows left, and behind its last one.
const Head = struct { first: u32, end: u32 };

/// Where runs are cut: before the rows that are equal to a row of other keys, or behind them.
const Boundary = struct {
    keys: []const row_order.Key,
    row: u32,
    behind: bool,

    fn is_after(self: Boundary, keys: []const row_order.Key, row: u32) bool {
        const order = row_order.compare_rows(keys, row, self.keys, self.row);
        return order == .lt or (self.behind and order == .eq);
    }
};

pub const MergeOperator = struct {
    gpa: std.mem.Allocator,
    step: *const Step,
    keyed: KeyedRows,
    /// What lives as long as these runs.
    arena: Arena,
    runs: std.ArrayList(Run) = .empty,
    /// The rows of a range, and what is said of them.
    gathered: []ColumnBuilder,
    range_arena: Arena,
    order: std.ArrayList(u32) = .empty,
    /// Set when the input has ended.
    cursors: []Cursor = &.{},
    started: bool = false,
    boundaries: []const Boundary = &.{},
    next_boundary: usize = 0,
    heads: []Head = &.{},
    /// Cursors that have rows of the current range, in order.
    parts: std.ArrayList(u32) = .empty,
    /// Those whose rows are handed on as they lie: from this one on.
    next_part: usize = 0,
    remaining: u64,

    /// Rows from `lower` on, up to but without `upper`: a value per key.
    pub const Step = struct { sort: SortOperator.Step, lower: ?[]const Column, upper: ?[]const Column };
    pub const tag: abi.NodeTag = .merge;
    pub const facts: step_module.Facts = .{
        .place = .first,
        .requires = .sorted_runs,
        .leaves = .by_keys,
        .blocks = true,
        .piecewise = true,
    };

    pub fn parse(parser: *expression_parser.Parser) expression_parser.Error!step_module.Parsed(Step) {
        const bounds = try parser.cursor.read_int(u8);
        if (bounds > 3) return expression_parser.refuse("a merge with unknown bounds", .{});
        const sort = try SortOperator.parse_step(parser);
        const lower = if (bounds & abi.merge_has_lower != 0) try parse_bound(parser, sort.keys) else null;
        const upper = if (bounds & abi.merge_has_upper != 0) try parse_bound(parser, sort.keys) else null;
        return .{ .step = .{ .sort = sort, .lower = lower, .upper = upper }, .output = parser.fields };
    }

    fn parse_bound(parser: *expression_parser.Parser, keys: []const SortKey) expression_parser.Error![]const Column {
        const values = try parser.arena.alloc(Column, keys.len);
        for (values, keys) |*value, key| {
            value.* = try parser.parse_value();
            if (value.type.eql(key.expression.type)) continue;
            return expression_parser.refuse("a bound of another type than its key", .{});
        }
        return values;
    }

    pub fn open(opening: *const protocol.Opening, step: *const Step) Error!MergeOperator {
        const gpa = opening.gpa;
        const keyed: KeyedRows = try .init(opening.arena, step.sort.keys, opening.input);
        return .{
            .gpa = gpa,
            .step = step,
            .keyed = keyed,
            .arena = .init(gpa),
            .range_arena = .init(gpa),
            .gathered = try keyed.open_builders(gpa, opening.arena),
            .remaining = step.sort.limit,
        };
    }

    pub fn close(self: *MergeOperator) void {
        self.forget_runs();
        self.runs.deinit(self.gpa);
        self.order.deinit(self.gpa);
        for (self.gathered) |*builder| builder.deinit();
        self.range_arena.deinit();
        self.arena.deinit();
    }

    fn forget_runs(self: *MergeOperator) void {
        for (self.runs.items) |run| for (run.rows) |*builder| builder.deinit();
        self.runs.clearRetainingCapacity();
        _ = self.arena.reset(.free_all);
    }

    pub fn size(self: *const MergeOperator) u64 {
        var total = keyed_rows.size(self.gathered) + self.arena.capacity() + self.range_arena.capacity();
        for (self.runs.items) |run| total += keyed_rows.size(run.rows);
        return total + self.order.items.len * @sizeOf(u32);
    }

    /// Where rows are only kept, chunks need not fit the cache.
    pub fn chunk_rows(self: *const MergeOperator, row_count: u32) u32 {
        return if (self.keyed.is_plain()) row_count else expression_module.chunk_rows;
    }

    pub fn reset(self: *MergeOperator) Error!void {
        self.forget_runs();
        self.started = false;
        self.cursors = &.{};
        self.heads = &.{};
        self.parts = .empty;
        self.boundaries = &.{};
        self.next_boundary = 0;
        self.next_part = 0;
        self.remaining = self.step.sort.limit;
    }

    pub fn push(
        self: *MergeOperator,
        arena: std.mem.Allocator,
        chunk: *Chunk,
        flow: protocol.Flow,
    ) Error!protocol.Pushed {
        try self.take(arena, chunk, flow.run_number);
        return .kept;
    }

    /// Copies rows to the end of a run.
    fn take(self: *MergeOperator, arena: std.mem.Allocator, chunk: *const Chunk, number: u32) Error!void {
        assert(!self.started);
        const columns = try self.keyed.columns(arena, chunk);
        if (chunk.selection != null) {
            const run = try self.run_of(number);
            const rows = try chunk.selected_rows(arena);
            for (run.rows, columns) |*builder, *column| try builder.append_indices(column, rows);
            return;
        }
        const within = try self.find_bounds(arena, try self.keyed.order(arena, columns), chunk.row_count);
        if (within.start == within.end) return;
        const run = try self.run_of(number);
        for (run.rows, columns) |*builder, *column| {
            // Most runs are one batch: then nothing is allocated in vain.
            if (builder.row_count == 0) try builder.reserve_range(column, within.start, within.end - within.start);
            try builder.append_range(column, within.start, within.end - within.start);
        }
    }

    const Within = struct { start: u32, end: u32 };

    /// The rows between the bounds.
    fn find_bounds(
        self: *const MergeOperator,
        arena: std.mem.Allocator,
        keys: []const row_order.Key,
        row_count: u32,
    ) Error!Within {
        var found: Within = .{ .start = 0, .end = row_count };
        if (self.step.lower) |lower| {
            found.start = search(keys, 0, row_count, row_count / 2, try self.boundary_before(arena, lower));
        }
        if (self.step.upper) |upper| {
            found.end = search(keys, found.start, row_count, row_count / 2, try self.boundary_before(arena, upper));
        }
        return found;
    }

    fn boundary_before(self: *const MergeOperator, arena: std.mem.Allocator, bound: []const Column) Error!Boundary {
        return .{ .keys = try self.keyed.order_alone(arena, bound), .row = 0, .behind = false };
    }

    /// Where rows of a run go. Runs come one after the other, so it is the last one or a new one; what comes
    /// back to a run later is a piece of it of its own.
    fn run_of(self: *MergeOperator, number: u32) Error!*Run {
        const runs = self.runs.items;
        if (runs.len > 0) {
            const last = &runs[runs.len - 1];
            // There is a key, and so a column.
            if (last.number == number and last.rows[0].row_count < piece_rows) return last;
        }
        try self.runs.ensureUnusedCapacity(self.gpa, 1);
        const rows = try self.keyed.open_builders(self.gpa, self.arena.allocator());
        self.runs.appendAssumeCapacity(.{ .number = number, .rows = rows });
        return &self.runs.items[self.runs.items.len - 1];
    }

    // ---- when the input has ended ----

    pub fn finish(self: *MergeOperator) Error!void {
        assert(!self.started);
        try self.start();
    }

    pub fn next(self: *MergeOperator) Error!?Piece {
        while (self.remaining > 0) {
            try interrupt.check();
            if (self.next_part < self.parts.items.len) {
                const cursor = &self.cursors[self.parts.items[self.next_part]];
                self.next_part += 1;
                return self.hand_on(cursor);
            }
            if (self.next_boundary > self.boundaries.len) return null;
            const found = try self.find_cuts();
            self.next_boundary += 1;
            if (found.row_count == 0) continue;
            if (!found.in_order) return try self.sort_range(found.row_count);
            self.next_part = 0;
        }
        return null;
    }

    fn start(self: *MergeOperator) Error!void {
        self.started = true;
        std.mem.sort(Run, self.runs.items, {}, lower_number);
        const arena = self.arena.allocator();
        const cursors = try arena.alloc(Cursor, self.runs.items.len);
        var row_count: u64 = 0;
        for (cursors, self.runs.items) |*cursor, run| {
            cursor.* = try self.open_cursor(arena, run);
            row_count += cursor.end - cursor.position;
        }
        self.cursors = cursors;
        var heads: std.ArrayList(Head) = .empty;
        for (self.runs.items, 0..) |run, i| {
            const is_first = i == 0 or run.number != self.runs.items[i - 1].number;
            if (is_first) try heads.append(arena, .{ .first = @intCast(i), .end = @intCast(i) });
            heads.items[heads.items.len - 1].end += 1;
        }
        self.heads = heads.items;
        self.parts = try .initCapacity(arena, cursors.len);
        self.next_part = 0;
        try self.find_boundaries(arena, row_count);
    }

    fn lower_number(_: void, a: Run, b: Run) bool {
        return a.number < b.number;
    }

    fn open_cursor(self: *MergeOperator, arena: std.mem.Allocator, run: Run) Error!Cursor {
        const columns = try keyed_rows.collected(arena, run.rows);
        const keys = try self.keyed.order(arena, columns);
        // Selected rows were taken as they came.
        const within = try self.find_bounds(arena, keys, columns[0].row_count);
        // What lies behind as many rows of its own run is never reached.
        const end = within.start + @as(u32, @intCast(@min(within.end - within.start, self.step.sort.limit)));
        return .{ .columns = columns, .keys = keys, .position = within.start, .end = end, .cut = within.start };
    }

    /// Every so many rows of all runs one is looked at; of these, sorted, every eighth is a boundary.
    fn find_boundaries(self: *MergeOperator, arena: std.mem.Allocator, row_count: u64) Error!void {
        const rows = self.range_rows(row_count);
        if (row_count <= rows) return;
        const sample = try self.keyed.open_key_builders(arena, arena);
        var indices: std.ArrayList(u32) = .empty;
        var skipped: u64 = 0;
        for (self.cursors) |*cursor| {
            indices.clearRetainingCapacity();
            var row: u64 = cursor.position;
            while (row + skipped < cursor.end) {
                row += skipped;
                try indices.append(arena, @intCast(row));
                skipped = rows / range_samples;
            }
            skipped -= cursor.end - row;
            for (sample, cursor.keys) |*builder, key| try builder.append_indices(key.column, indices.items);
        }
        const columns = try keyed_rows.collected(arena, sample);
        const keys = try self.keyed.order_alone(arena, columns);
        const sorted = try row_order.sorted_rows(self.gpa, keys, columns[0].row_count);
        defer self.gpa.free(sorted);
        self.boundaries = try chosen(arena, keys, sorted);
    }

    fn range_rows(self: *const MergeOperator, row_count: u64) u64 {
        var bytes: u64 = 0;
        for (self.runs.items) |run| bytes += keyed_rows.size(run.rows);
        const wanted = std.math.clamp(range_size * row_count / @max(1, bytes), range_rows_min, range_rows_max);
        return @max(wanted, run_rows_min * self.heads.len);
    }

    /// `in_order`: no part of a run reaches into that of a later one.
    const Found = struct { row_count: u64, in_order: bool };

    /// Cuts every run at the next boundary. Pieces of a run follow each other, so that only those are looked
    /// at that it has come to: there may be many more.
    fn find_cuts(self: *MergeOperator) Error!Found {
        const is_last = self.next_boundary == self.boundaries.len;
        const boundary: ?Boundary = if (is_last) null else self.boundaries[self.next_boundary];
        var found: Found = .{ .row_count = 0, .in_order = true };
        var before: ?*const Cursor = null;
        self.parts.clearRetainingCapacity();
        for (self.heads) |*head| while (head.first < head.end) : (head.first += 1) {
            const cursor = &self.cursors[head.first];
            assert(cursor.position == cursor.cut);
            cursor.cut = if (boundary) |at|
                search(cursor.keys, cursor.position, cursor.end, cursor.part_rows, at)
            else
                cursor.end;
            if (cursor.cut > cursor.position) {
                self.parts.appendAssumeCapacity(head.first);
                cursor.part_rows = cursor.cut - cursor.position;
                found.row_count += cursor.part_rows;
                if (before) |other| {
                    found.in_order = found.in_order and row_order.compare_rows(
                        other.keys,
                        other.cut - 1,
                        cursor.keys,
                        cursor.position,
                    ) != .gt;
                }
                before = cursor;
            }
            if (cursor.cut < cursor.end) break;
        };
        return found;
    }

    fn hand_on(self: *MergeOperator, cursor: *Cursor) Piece {
        const start_row = cursor.position;
        const count: u32 = @intCast(@min(cursor.cut - start_row, self.remaining));
        cursor.position = cursor.cut;
        self.remaining -= count;
        const columns = cursor.columns[0..self.keyed.input_count];
        return .{ .range = .{ .columns = columns, .start = start_row, .count = count } };
    }

    fn sort_range(self: *MergeOperator, row_count: u64) Error!Piece {
        for (self.gathered) |*builder| builder.reset();
        for (self.parts.items) |index| {
            const cursor = &self.cursors[index];
            for (self.gathered, cursor.columns) |*builder, *column| {
                try builder.append_range(column, cursor.position, cursor.cut - cursor.position);
            }
            cursor.position = cursor.cut;
        }
        self.parts.clearRetainingCapacity();
        _ = self.range_arena.reset(.retain_capacity);
        const arena = self.range_arena.allocator();
        const columns = try keyed_rows.collected(arena, self.gathered);
        try self.order.resize(self.gpa, @intCast(row_count));
        for (self.order.items, 0..) |*row, i| row.* = @intCast(i);
        try row_order.sort_rows(self.gpa, try self.keyed.order(arena, columns), self.order.items);
        const rows = self.order.items[0..@intCast(@min(row_count, self.remaining))];
        self.remaining -= rows.len;
        return .{ .order = .{ .columns = columns[0..self.keyed.input_count], .rows = rows } };
    }
};

/// The boundaries among sorted samples. A key that is met twice is so frequent that its rows get a
/// range of their own.
fn chosen(arena: std.mem.Allocator, keys: []const row_order.Key, sorted: []const u32) Error![]const Boundary {
    var boundaries: std.ArrayList(Boundary) = .empty;
    var at: usize = range_samples;
    while (at < sorted.len) : (at += range_samples) {
        const row = sorted[at];
        const last: ?Boundary = boundaries.getLastOrNull();
        if (last != null and row_order.compare_rows(keys, last.?.row, keys, row) == .eq) {
            if (!last.?.behind) try boundaries.append(arena, .{ .keys = keys, .row = row, .behind = true });
        } else {
            try boundaries.append(arena, .{ .keys = keys, .row = row, .behind = false });
        }
    }
    return boundaries.items;
}

/// The first row from `start` on that is not before the boundary; `end` where there is none. Looks around
/// `expected` rows from the start first, in steps that double: a comparison of rows that were not read
/// before waits for memory.
fn search(keys: []const row_order.Key, start: u32, end: u32, expected: u32, boundary: Boundary) u32 {
    var low = start;
    var high = end;
    var step = expected / 8 + 1;
    if (end - start > expected and !boundary.is_after(keys, start + expected)) {
        high = start + expected;
        while (high - low > step and !boundary.is_after(keys, high - step)) {
            high -= step;
            step *|= 2;
        }
        if (high - low > step) low = high - step + 1;
    } else {
        if (end - start > expected) low = start + expected + 1;
        while (high - low > step and boundary.is_after(keys, low + step)) {
            low += step + 1;
            step *|= 2;
        }
        if (high - low > step) high = low + step;
    }
    while (low < high) {
        const middle = low + (high - low) / 2;
        if (boundary.is_after(keys, middle)) low = middle + 1 else high = middle;
    }
    return low;
}

const random_rows = @import("random_rows.zig");

/// The last column of a piece: what its rows are known by.
fn append_numbers(arena: std.mem.Allocator, numbers: *std.ArrayList(u32), piece: Piece) !void {
    switch (piece) {
        .order => |some| {
            const values = some.columns[some.columns.len - 1].values(i64);
            for (some.rows) |row| try numbers.append(arena, @intCast(values[row]));
        },
        .range => |some| {
            const values = some.columns[some.columns.len - 1].values(i64);
            for (values[some.start..][0..some.count]) |value| try numbers.append(arena, @intCast(value));
        },
        else => unreachable,
    }
}

/// Runs of random rows and what their merge must be.
const Case = struct {
    arena: std.mem.Allocator,
    random: std.Random,
    fields: []schema.Field,
    step: MergeOperator.Step,
    /// All rows of all runs, one run behind the other.
    columns: []Column,
    /// How many rows each run has.
    sizes: []u32,

    fn init(arena: std.mem.Allocator, random: std.Random, count: u32, run_count: usize) !Case {
        const key_count = 1 + random.uintLessThan(usize, 3);
        const fields = try arena.alloc(schema.Field, key_count + 1);
        const columns = try arena.alloc(Column, fields.len);
        const keys = try arena.alloc(SortKey, key_count);
        for (keys, fields[0..key_count], columns[0..key_count], 0..) |*key, *field, *column, i| {
            field.* = .{ .name = "", .type = random_rows.types[random.uintLessThan(usize, random_rows.types.len)] };
            column.* = try random_rows.column(arena, random, field.type, count);
            key.* = .{
                .expression = .{ .type = field.type, .node = .{ .column = @intCast(i) } },
                .descending = random.boolean(),
                .nulls_first = random.boolean(),
            };
        }
        fields[key_count] = .{ .name = "", .type = .of(.i64) };
        columns[key_count] = try random_rows.numbers(arena, count);
        const sizes = try arena.alloc(u32, run_count);
        var left = count;
        for (sizes) |*size| {
            size.* = random.uintAtMost(u32, left);
            left -= size.*;
        }
        if (run_count > 0) sizes[run_count - 1] += left;
        const limit: u64 = if (random.boolean()) step_module.unlimited else random.uintAtMost(u64, count);
        return .{
            .arena = arena,
            .random = random,
            .fields = fields,
            .step = .{ .sort = .{ .keys = keys, .limit = limit }, .lower = null, .upper = null },
            .columns = columns,
            .sizes = sizes,
        };
    }

    fn bound(self: *Case) ![]const Column {
        const row = self.random.uintLessThan(u32, self.columns[0].row_count);
        return random_rows.taken(self.arena, self.columns[0..self.step.sort.keys.len], &.{row});
    }

    /// Sorts each run and pushes it, in pieces, among those of the others.
    fn push_all(self: *Case, operator: *MergeOperator) !void {
        const Pushed = struct { run: u32, rows: []const u32 };
        var waiting: std.ArrayList([]const u32) = .empty;
        const keys = try operator.keyed.order(self.arena, self.columns);
        var first: u32 = 0;
        for (self.sizes) |size| {
            const rows = try self.arena.alloc(u32, size);
            for (rows, first..) |*row, i| row.* = @intCast(i);
            try row_order.sort_rows(std.testing.allocator, keys, rows);
            try waiting.append(self.arena, rows);
            first += size;
        }
        var pieces: std.ArrayList(Pushed) = .empty;
        const together = self.random.boolean();
        while (true) {
            var left = false;
            for (waiting.items, 0..) |*rows, run| {
                if (rows.len == 0) continue;
                left = true;
                const size = if (together) rows.len else self.random.uintAtMost(usize, rows.len);
                try pieces.append(self.arena, .{ .run = @intCast(run), .rows = rows.*[0..size] });
                rows.* = rows.*[size..];
            }
            if (!left) break;
        }
        for (pieces.items) |piece| {
            const columns = try random_rows.taken(self.arena, self.columns, piece.rows);
            try operator.take(self.arena, &.{ .row_count = @intCast(piece.rows.len), .columns = columns }, piece.run);
        }
    }

    /// The numbers of the rows that must come, in order.
    fn expected(self: *Case, keyed: *const KeyedRows) ![]const u32 {
        const keys = try keyed.order(self.arena, self.columns);
        const sorted = try self.arena.alloc(u32, if (self.sizes.len == 0) 0 else self.columns[0].row_count);
        for (sorted, 0..) |*row, i| row.* = @intCast(i);
        try row_order.sort_rows(std.testing.allocator, keys, sorted);
        var kept: std.ArrayList(u32) = .empty;
        for (sorted) |row| {
            if (self.step.lower) |lower| {
                if (row_order.compare_rows(keys, row, try keyed.order_alone(self.arena, lower), 0) == .lt) continue;
            }
            if (self.step.upper) |upper| {
                if (row_order.compare_rows(keys, row, try keyed.order_alone(self.arena, upper), 0) != .lt) continue;
            }
            if (kept.items.len < self.step.sort.limit) try kept.append(self.arena, row);
        }
        return kept.items;
    }

    fn expect_merged(self: *Case, operator: *MergeOperator) !void {
        try self.push_all(operator);
        var merged: std.ArrayList(u32) = .empty;
        try operator.finish();
        while (try operator.next()) |piece| try append_numbers(self.arena, &merged, piece);
        try std.testing.expect(merged.items.len == 0 or operator.size() > 0);
        try std.testing.expectEqualSlices(u32, try self.expected(&operator.keyed), merged.items);
    }
};

test "runs of every type, with bounds and limits, merge as a stable sort of their rows" {
    var prng: std.Random.DefaultPrng = .init(21);
    const random = prng.random();
    for (0..120) |round| {
        var arena: Arena = .init(std.testing.allocator);
        defer arena.deinit();
        const count: u32 = if (round % 10 == 0) 20_000 else random.intRangeAtMost(u32, 1, 300);
        var case: Case = try .init(arena.allocator(), random, count, round % 7);
        if (random.boolean()) case.step.lower = try case.bound();
        if (random.boolean()) case.step.upper = try case.bound();
        var operator: MergeOperator = try .open(
            &.{ .gpa = std.testing.allocator, .arena = arena.allocator(), .input = case.fields },
            &case.step,
        );
        defer operator.close();
        try case.expect_merged(&operator);
        try operator.reset();
        try case.expect_merged(&operator);
    }
}

test "a frequent key gets a range of its own, and runs that do not overlap are handed on" {
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    const count = 60_000;
    const values = try arena.allocator().alignedAlloc(i64, .@"16", count);
    for (values, 0..) |*value, i| value.* = if (i % 3 == 0) @intCast(i) else 30_000;
    var keys = [1]SortKey{.{
        .expression = .{ .type = .of(.i64), .node = .{ .column = 0 } },
        .descending = false,
        .nulls_first = false,
    }};
    var prng: std.Random.DefaultPrng = .init(22);
    var fields = [2]schema.Field{ .{ .name = "", .type = .of(.i64) }, .{ .name = "", .type = .of(.i64) } };
    var columns = [2]Column{
        .{ .type = .of(.i64), .row_count = count, .data = std.mem.sliceAsBytes(values) },
        try random_rows.numbers(arena.allocator(), count),
    };
    var sizes = [3]u32{ 20_000, 20_000, 20_000 };
    var case: Case = .{
        .arena = arena.allocator(),
        .random = prng.random(),
        .fields = &fields,
        .step = .{ .sort = .{ .keys = &keys, .limit = step_module.unlimited }, .lower = null, .upper = null },
        .columns = &columns,
        .sizes = &sizes,
    };
    var operator: MergeOperator = try .open(
        &.{ .gpa = std.testing.allocator, .arena = arena.allocator(), .input = case.fields },
        &case.step,
    );
    defer operator.close();
    try case.expect_merged(&operator);
    for (values, 0..) |*value, i| value.* = @intCast(i);
    try operator.reset();
    try case.push_all(&operator);
    try operator.finish();
    while (try operator.next()) |piece| try std.testing.expect(piece == .range);
}

test "runs that are not sorted lose no row" {
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    var prng: std.Random.DefaultPrng = .init(23);
    const count = 30_000;
    const column = try random_rows.column(arena.allocator(), prng.random(), .of(.i64), count);
    const all = [2]Column{ column, try random_rows.numbers(arena.allocator(), count) };
    var keys = [1]SortKey{.{
        .expression = .{ .type = .of(.i64), .node = .{ .column = 0 } },
        .descending = true,
        .nulls_first = true,
    }};
    const step: MergeOperator.Step = .{
        .sort = .{ .keys = &keys, .limit = step_module.unlimited },
        .lower = null,
        .upper = null,
    };
    const fields = [2]schema.Field{ .{ .name = "", .type = .of(.i64) }, .{ .name = "", .type = .of(.i64) } };
    var operator: MergeOperator = try .open(
        &.{ .gpa = std.testing.allocator, .arena = arena.allocator(), .input = &fields },
        &step,
    );
    defer operator.close();
    for (0..3) |run| {
        try operator.take(arena.allocator(), &.{ .row_count = count, .columns = &all }, @intCast(run));
    }
    try operator.finish();
    var numbers: std.ArrayList(u32) = .empty;
    while (try operator.next()) |piece| try append_numbers(arena.allocator(), &numbers, piece);
    var seen: [count]u8 = @splat(0);
    for (numbers.items) |number| seen[number] += 1;
    for (seen) |times| try std.testing.expectEqual(3, times);
}
