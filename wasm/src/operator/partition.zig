//! Deals rows out to partitions by the hash of their keys: the sending half of an exchange.
//!
//! Rows with equal keys (NULL equals NULL) of equal types meet in the same partition, whichever
//! instance deals. The partition is the lower half of the hash, scaled to the number of partitions:
//! the tables that a partition's rows go into take their slots from the upper bits, which still differ.
//!
//! A chunk's values are put in the order of their partitions by counting, a column at a time, so that
//! every builder is called once a chunk. Where values are not simply numbers, row numbers are put in
//! order first.
//!
//! Partitions leave as they fill. Groups of an aggregate leave undivided where a lane has few.
//!
//!     partition   u16 partition count ≥ 1, u16 keys × expression                      only as the last step
const std = @import("std");
const abi = @import("../abi.zig");
const column_builder = @import("../core/column_builder.zig");
const column_module = @import("../core/column.zig");
const expression_module = @import("../plan/expression.zig");
const expression_parser = @import("../plan/expression_parser.zig");
const hash = @import("../kernel/hash.zig");
const interrupt = @import("../core/interrupt.zig");
const keyed_rows = @import("keyed_rows.zig");
const protocol = @import("protocol.zig");
const schema = @import("../core/schema.zig");
const step_module = @import("../plan/step.zig");
const Aggregate = @import("aggregate_step.zig").Aggregate;
const Arena = @import("../core/arena.zig").Arena;
const Batch = column_module.Batch;
const Chunk = expression_module.Chunk;
const Column = column_module.Column;
const ColumnBuilder = column_builder.ColumnBuilder;
const Error = protocol.Error;
const assert = std.debug.assert;

/// A partition's rows leave when they take this much, or when those of all partitions together take as
/// much as so many batches may.
const partition_size = 1 << 20;
const partition_outputs = 2;
/// Groups of a lane that leave as one batch: handing over a batch takes longer than a few hundred groups.
const undivided_rows = 16 * 1024;
/// Rows that a partition gets of a chunk on average: for fewer the work on each partition shows.
const partition_rows = 64;

/// Which of `count` partitions rows of this hash belong to.
pub inline fn partition_of(row_hash: u64, count: u32) u32 {
    return @intCast(@as(u64, @as(u32, @truncate(row_hash))) * count >> 32);
}

const Part = struct {
    /// None until the first row comes.
    builders: []ColumnBuilder = &.{},
    row_count: u32 = 0,
    size: u64 = 0,
};

pub const PartitionOperator = struct {
    gpa: std.mem.Allocator,
    /// Lives as long as the query.
    arena: std.mem.Allocator,
    keys: []const expression_module.Expression,
    /// The columns of the input that are dealt out.
    columns: []const u32,
    names: []const []const u8,
    types: []const schema.DataType,
    parts: []Part,
    /// The number of the first part.
    first_number: u32 = 0,
    /// Of all parts together.
    held: u64 = 0,
    /// Its rows are an aggregate's groups.
    divides_groups: bool = false,
    /// Some part has left by itself.
    has_parted: bool = false,
    /// Which parts leave now, the one to look at next, and the one that is leaving.
    leaving: Leaving = .nothing,
    at: usize = 0,
    left: ?usize = null,
    answer: Arena,

    const Leaving = union(enum) {
        nothing,
        /// Those that are full; and then, while all together are too large, those of at least so many bytes.
        full,
        large: u64,
        /// All that have rows; or all rows, as one.
        every,
        undivided,
    };

    pub const Step = struct { count: u16, keys: []const expression_module.Expression };
    pub const tag: abi.NodeTag = .partition;
    pub const facts: step_module.Facts = .{ .place = .last, .leaves = .anyhow, .blocks = true, .lends = false };

    pub fn parse(parser: *expression_parser.Parser) expression_parser.Error!step_module.Parsed(Step) {
        const count = try parser.cursor.read_int(u16);
        if (count == 0) return expression_parser.refuse("no partition at all", .{});
        const keys = try parser.arena.alloc(expression_module.Expression, try parser.read_count(2));
        for (keys) |*key| key.* = try parser.parse_expression(0);
        return .{ .step = .{ .count = count, .keys = keys }, .output = parser.fields };
    }

    pub fn open(opening: *const protocol.Opening, step: *const Step) Error!PartitionOperator {
        const columns = try opening.arena.alloc(u32, opening.input.len);
        for (columns, 0..) |*column, i| column.* = @intCast(i);
        var self = try open_columns(opening, step.keys, columns, step.count);
        const before = opening.before;
        self.divides_groups = before.len > 0 and before[before.len - 1].tag == .aggregate;
        return self;
    }

    /// For the rows that an aggregate lets pass: what its keys and arguments name, in parts behind those of
    /// its states.
    pub fn open_rows(
        opening: *const protocol.Opening,
        aggregate: *const Aggregate,
        count: u32,
    ) Error!PartitionOperator {
        const arena = opening.arena;
        const input = opening.input;
        const named = try arena.alloc(bool, input.len);
        @memset(named, false);
        const keys = try arena.alloc(expression_module.Expression, aggregate.keys.len);
        for (keys, aggregate.keys) |*to, key| {
            to.* = key.expression;
            key.expression.mark_columns(named);
        }
        for (aggregate.arguments) |*value| value.mark_columns(named);
        var columns: std.ArrayList(u32) = .empty;
        for (named, 0..) |is_named, i| if (is_named) try columns.append(arena, @intCast(i));
        var self = try open_columns(opening, keys, columns.items, count);
        self.first_number = count;
        return self;
    }

    fn open_columns(
        opening: *const protocol.Opening,
        keys: []const expression_module.Expression,
        columns: []const u32,
        count: u32,
    ) Error!PartitionOperator {
        const arena = opening.arena;
        const types = try arena.alloc(schema.DataType, columns.len);
        const names = try arena.alloc([]const u8, columns.len);
        for (types, names, columns) |*to, *name, column| {
            to.* = opening.input[column].type;
            name.* = opening.input[column].name;
        }
        const parts = try arena.alloc(Part, count);
        @memset(parts, .{});
        return .{
            .gpa = opening.gpa,
            .arena = arena,
            .keys = keys,
            .columns = columns,
            .names = names,
            .types = types,
            .parts = parts,
            .answer = .init(opening.gpa),
        };
    }

    pub fn close(self: *PartitionOperator) void {
        self.answer.deinit();
        for (self.parts) |*some| for (some.builders) |*builder| builder.deinit();
    }

    pub fn size(self: *const PartitionOperator) u64 {
        return self.held + self.answer.capacity();
    }

    /// Chunks are as large as gives every partition some rows, where nothing is computed for the keys.
    pub fn chunk_rows(self: *const PartitionOperator, _: u32) u32 {
        if (!self.is_plain()) return expression_module.chunk_rows;
        const wanted = partition_rows * self.parts.len;
        return @intCast(std.math.clamp(wanted, expression_module.chunk_rows, expression_module.reduce_rows));
    }

    /// Nothing has to be computed for the keys.
    fn is_plain(self: *const PartitionOperator) bool {
        for (self.keys) |key| if (key.node != .column) return false;
        return true;
    }

    pub fn push(
        self: *PartitionOperator,
        arena: std.mem.Allocator,
        chunk: *Chunk,
        flow: protocol.Flow,
    ) Error!protocol.Pushed {
        try self.deal(arena, chunk);
        if (flow.gathers) return .kept;
        self.leaving = .full;
        self.at = 0;
        return .in_pieces;
    }

    /// The input has ended: all that is left leaves.
    pub fn finish(self: *PartitionOperator) Error!void {
        const undivided = self.divides_groups and !self.has_parted and self.row_total() <= undivided_rows;
        self.leaving = if (undivided) .undivided else .every;
        self.at = 0;
    }

    pub fn next(self: *PartitionOperator) Error!?protocol.Piece {
        _ = self.answer.reset(.free_all);
        if (self.left) |index| self.clear(index);
        self.left = null;
        while (true) switch (self.leaving) {
            .nothing => return null,
            .full => {
                if (self.find(partition_size)) |index| return try self.part(index);
                if (self.held < partition_outputs * protocol.output_limit()) {
                    self.leaving = .nothing;
                    continue;
                }
                // Those that have at least half of what is usual hold at least half of all together.
                self.leaving = .{ .large = self.held / self.parts.len / 2 };
                self.at = 0;
            },
            .large => |least| if (self.find(least)) |index| return try self.part(index) else {
                self.leaving = .nothing;
            },
            .every => if (self.find(0)) |index| return try self.part(index) else {
                self.leaving = .nothing;
            },
            .undivided => {
                self.leaving = .nothing;
                if (self.row_total() > 0) return try self.undivided_part();
            },
        };
    }

    /// The next part with rows that take at least so many bytes.
    fn find(self: *PartitionOperator, least: u64) ?usize {
        for (self.parts[self.at..], self.at..) |*candidate, index| {
            if (candidate.row_count == 0 or candidate.size < least) continue;
            self.at = index + 1;
            return index;
        }
        return null;
    }

    fn part(self: *PartitionOperator, index: usize) Error!protocol.Piece {
        try interrupt.check();
        self.has_parted = true;
        self.left = index;
        const rows = try self.batch(self.answer.allocator(), index);
        return .{ .part = .{
            .names = self.names,
            .batch = rows,
            .number = self.first_number + @as(u32, @intCast(index)),
        } };
    }

    fn undivided_part(self: *PartitionOperator) Error!protocol.Piece {
        const rows = try self.all(self.answer.allocator());
        for (0..self.parts.len) |index| self.clear(index);
        return .{ .part = .{ .names = self.names, .batch = rows, .number = abi.undivided } };
    }

    fn deal(self: *PartitionOperator, arena: std.mem.Allocator, chunk: *const Chunk) Error!void {
        var dealt: Deal = try .init(arena, self, chunk);
        for (self.parts, dealt.counts) |*target, count| {
            if (count > std.math.maxInt(u32) - target.row_count) return error.TooLarge;
            if (count == 0 or target.builders.len > 0) continue;
            target.builders = try keyed_rows.open_all(self.gpa, self.arena, self.types);
        }
        for (self.columns, 0..) |number, i| {
            const column = &chunk.columns[number];
            switch (column.type.layout()) {
                .i8, .u8, .i16, .u16, .f16, .i32, .u32, .f32, .i64, .u64, .f64, .i128 => if (column.validity == null) {
                    switch (column.type.value_size()) {
                        inline 1, 2, 4, 8, 16 => |bytes| {
                            try self.scatter(@Int(.unsigned, bytes * 8), arena, &dealt, column, i);
                        },
                        else => unreachable,
                    }
                    continue;
                },
                else => {},
            }
            if (dealt.sorted == null) try dealt.sort(arena);
            try self.gather(&dealt, column, i);
        }
        self.count_rows(dealt.counts);
    }

    /// Values that are simply there are put in order without a detour. Not straight into the builders:
    /// their memory begins at whole pages, so that as many streams would share few lines of the cache.
    fn scatter(
        self: *PartitionOperator,
        comptime T: type,
        arena: std.mem.Allocator,
        dealt: *const Deal,
        column: *const Column,
        index: usize,
    ) Error!void {
        const sorted = try arena.alloc(T, dealt.numbers.len);
        const targets = try dealt.places(T, arena, sorted);
        const values = column.values(T);
        if (dealt.rows) |rows| {
            for (dealt.numbers, rows) |number, row| put(T, targets, number, values.ptr[row]);
        } else {
            for (dealt.numbers, values) |number, value| put(T, targets, number, value);
        }
        var start: usize = 0;
        for (self.parts, dealt.counts) |*target, rows| {
            if (rows == 0) continue;
            const bytes = std.mem.sliceAsBytes(sorted[start..][0..rows]);
            @memcpy(try target.builders[index].grow_rows(rows), bytes);
            start += rows;
        }
    }

    inline fn put(comptime T: type, targets: [][*]T, number: u16, value: T) void {
        const target = &targets.ptr[number];
        target.*[0] = value;
        target.* += 1;
    }

    fn gather(self: *PartitionOperator, dealt: *const Deal, column: *const Column, index: usize) Error!void {
        var start: usize = 0;
        for (self.parts, dealt.counts) |*target, rows| {
            if (rows > 0) try target.builders[index].append_indices(column, dealt.sorted.?[start..][0..rows]);
            start += rows;
        }
    }

    fn count_rows(self: *PartitionOperator, counts: []const u32) void {
        for (self.parts, counts) |*target, rows| {
            if (rows == 0) continue;
            self.held -= target.size;
            target.row_count += rows;
            target.size = target.row_count / 8; // rows without bytes are rows too
            for (target.builders) |*builder| target.size += builder.memory_size();
            self.held += target.size;
        }
    }

    /// What a partition has collected.
    fn batch(self: *const PartitionOperator, arena: std.mem.Allocator, index: usize) error{OutOfMemory}!Batch {
        const rows = &self.parts[index];
        assert(rows.builders.len == self.types.len);
        return .{ .row_count = rows.row_count, .columns = try keyed_rows.collected(arena, rows.builders) };
    }

    fn clear(self: *PartitionOperator, index: usize) void {
        const emptied = &self.parts[index];
        for (emptied.builders) |*builder| builder.reset();
        self.held -= emptied.size;
        emptied.row_count = 0;
        emptied.size = 0;
    }

    fn row_total(self: *const PartitionOperator) u64 {
        var total: u64 = 0;
        for (self.parts) |*some| total += some.row_count;
        return total;
    }

    /// What all partitions have collected.
    fn all(self: *const PartitionOperator, arena: std.mem.Allocator) Error!Batch {
        const builders = try keyed_rows.open_all(arena, arena, self.types);
        for (self.parts, 0..) |*some, index| {
            if (some.row_count == 0) continue;
            const given = try self.batch(arena, index);
            for (builders, given.columns) |*builder, *column| try builder.append_range(column, 0, some.row_count);
        }
        return .{ .row_count = @intCast(self.row_total()), .columns = try keyed_rows.collected(arena, builders) };
    }

    pub fn reset(self: *PartitionOperator) Error!void {
        self.has_parted = false;
        self.leaving = .nothing;
        self.left = null;
        for (0..self.parts.len) |index| self.clear(index);
    }
};

/// Who gets which rows of a chunk.
const Deal = struct {
    /// How many rows each partition gets.
    counts: []const u32,
    /// The rows that are dealt; null: all.
    rows: ?[]const u32,
    /// The partition of each of them.
    numbers: []const u16,
    /// The rows in the order of their partitions, once it is asked for.
    sorted: ?[]const u32 = null,

    fn init(arena: std.mem.Allocator, operator: *const PartitionOperator, chunk: *const Chunk) Error!Deal {
        const rows: ?[]const u32 = if (chunk.selection == null) null else try chunk.selected_rows(arena);
        const numbers = try arena.alloc(u16, chunk.selected_count());
        if (operator.keys.len == 0) {
            @memset(numbers, 0);
        } else {
            const hashes = try arena.alloc(u64, chunk.row_count);
            for (operator.keys, 0..) |*key, i| {
                const column = try expression_module.evaluate(arena, key, chunk);
                hash.hash_column(&column, 0, hashes, if (i == 0) .first else .combine);
            }
            const part_count: u32 = @intCast(operator.parts.len);
            if (rows) |some| {
                for (numbers, some) |*number, row| number.* = @intCast(partition_of(hashes.ptr[row], part_count));
            } else {
                for (numbers, hashes) |*number, row_hash| number.* = @intCast(partition_of(row_hash, part_count));
            }
        }
        const counts = try arena.alloc(u32, operator.parts.len);
        @memset(counts, 0);
        for (numbers) |number| counts.ptr[number] += 1;
        return .{ .counts = counts, .rows = rows, .numbers = numbers };
    }

    /// Where the first value of each partition goes.
    fn places(self: *const Deal, comptime T: type, arena: std.mem.Allocator, target: []T) Error![][*]T {
        const targets = try arena.alloc([*]T, self.counts.len);
        var position: usize = 0;
        for (targets, self.counts) |*to, count| {
            to.* = target.ptr + position;
            position += count;
        }
        return targets;
    }

    fn sort(self: *Deal, arena: std.mem.Allocator) Error!void {
        const sorted = try arena.alloc(u32, self.numbers.len);
        const targets = try self.places(u32, arena, sorted);
        if (self.rows) |rows| {
            for (self.numbers, rows) |number, row| PartitionOperator.put(u32, targets, number, row);
        } else {
            for (self.numbers, 0..) |number, row| PartitionOperator.put(u32, targets, number, @intCast(row));
        }
        self.sorted = sorted;
    }
};

test "equal keys meet, and every partition gets its share" {
    for ([_]u32{ 1, 2, 3, 64, 1000, 65_535 }) |count| {
        var counts: [65_535]u32 = @splat(0);
        for (0..64 * 1000) |i| counts[partition_of(hash.hash_word(i), count)] += 1;
        for (counts[count..]) |rows| try std.testing.expectEqual(0, rows);
        if (count > 64) continue;
        const share = 64 * 1000 / count;
        for (counts[0..count]) |rows| try std.testing.expect(rows > share / 2 and rows < share * 2);
    }
    try std.testing.expectEqual(0, partition_of(0, 65_535));
    try std.testing.expectEqual(65_534, partition_of(std.math.maxInt(u64), 65_535));
}

const bitmap = @import("../core/bitmap.zig");
const random_rows = @import("random_rows.zig");
const row_order = @import("row_order.zig");

/// Deals selected rows of all types and compares each with the partition that its own hash says.
fn expect_dealt(arena: std.mem.Allocator, random: std.Random, part_count: u16, key_count: usize) !void {
    const count = 500;
    const columns = try arena.alloc(Column, random_rows.types.len + 1);
    const fields = try arena.alloc(schema.Field, columns.len);
    for (random_rows.types, columns[0..random_rows.types.len]) |data_type, *column| {
        column.* = try random_rows.column(arena, random, data_type, count);
    }
    columns[columns.len - 1] = try random_rows.numbers(arena, count);
    for (fields, columns) |*field, column| field.* = .{ .name = "", .type = column.type };
    const keys = try arena.alloc(expression_module.Expression, key_count);
    const hashes = try arena.alloc(u64, count);
    for (keys, 0..) |*key, i| {
        const index = random.uintLessThan(u32, random_rows.types.len);
        key.* = .{ .type = columns[index].type, .node = .{ .column = index } };
        hash.hash_column(&columns[index], 0, hashes, if (i == 0) .first else .combine);
    }
    const opening: protocol.Opening = .{ .gpa = std.testing.allocator, .arena = arena, .input = fields };
    var operator: PartitionOperator = try .open(&opening, &.{ .count = part_count, .keys = keys });
    defer operator.close();
    const bits = try arena.alloc(u8, bitmap.size(count));
    random.bytes(bits);
    const selected = if (random.boolean()) bits else null;
    const chunk: Chunk = .{
        .row_count = count,
        .columns = columns,
        .selection = if (selected) |some| .{ .bits = some, .count = @intCast(bitmap.count(some, count)) } else null,
    };
    for (0..2) |_| try operator.deal(arena, &chunk);
    try std.testing.expect(operator.size() > 0);
    var row_count: u32 = 0;
    for (operator.parts, 0..) |part, i| {
        if (part.row_count == 0) continue;
        const got = try operator.batch(arena, i);
        const rows = try arena.alloc(u32, got.row_count);
        for (rows, got.columns[got.columns.len - 1].values(i64)) |*row, number| row.* = @intCast(number);
        // Twice the same rows, each time in their order.
        try std.testing.expectEqualSlices(u32, rows[0 .. rows.len / 2], rows[rows.len / 2 ..]);
        for (rows, 0..) |row, j| {
            if (selected) |some| try std.testing.expect(bitmap.get(some.ptr, row));
            try std.testing.expectEqual(i, if (key_count == 0) 0 else partition_of(hashes[row], part_count));
            if (j > 0 and j != rows.len / 2) try std.testing.expect(rows[j - 1] < row);
        }
        try expect_same_rows(columns, rows, got.columns);
        row_count += got.row_count;
        operator.clear(i);
    }
    try std.testing.expectEqual(2 * chunk.selected_count(), row_count);
    try std.testing.expectEqual(0, operator.held);
}

fn expect_same_rows(columns: []const Column, rows: []const u32, got: []const Column) !void {
    for (columns, got) |*column, *other| {
        const a = [1]row_order.Key{.{ .column = column, .descending = false, .nulls_first = false }};
        const b = [1]row_order.Key{.{ .column = other, .descending = false, .nulls_first = false }};
        for (rows, 0..) |row, i| try std.testing.expectEqual(.eq, row_order.compare_rows(&a, row, &b, @intCast(i)));
    }
}

test "rows of every type are dealt by their keys" {
    var prng: std.Random.DefaultPrng = .init(41);
    for ([_]u16{ 1, 2, 7, 64, 600 }) |part_count| {
        for (0..4) |key_count| {
            var arena: Arena = .init(std.testing.allocator);
            defer arena.deinit();
            try expect_dealt(arena.allocator(), prng.random(), part_count, key_count);
        }
    }
}
