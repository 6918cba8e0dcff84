//! Deals rows out to partitions by the hash of their keys: the sending half of an exchange.
//!
//! Rows with equal keys (NULL equals NULL) of equal types meet in the same partition, whichever
//! instance deals. The partition is the lower half of the hash, scaled to the number of partitions:
//! the tables that a partition's rows go into take their slots from the upper bits, which still differ.
//!
//! A chunk's rows are put in the order of their partitions by counting, and then gathered, column by
//! column, so that every builder is called once a chunk.
const std = @import("std");
const column_builder = @import("../core/column_builder.zig");
const column_module = @import("../core/column.zig");
const expression_module = @import("../plan/expression.zig");
const hash = @import("../kernel/hash.zig");
const interrupt = @import("../core/interrupt.zig");
const keyed_rows = @import("keyed_rows.zig");
const plan_module = @import("../plan/plan.zig");
const schema = @import("../core/schema.zig");
const selected_rows = @import("aggregate.zig").selected_rows;
const Chunk = expression_module.Chunk;
const Column = column_module.Column;
const ColumnBuilder = column_builder.ColumnBuilder;
const assert = std.debug.assert;

pub const Error = error{ OutOfMemory, OutOfRange, NotSupported, TooLarge, Cancelled };

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
    types: []const schema.DataType,
    parts: []Part,
    /// Of all parts together.
    size: u64 = 0,

    pub fn init(gpa: std.mem.Allocator, arena: std.mem.Allocator, node: *const plan_module.Partition, input: []const schema.Field) Error!PartitionOperator {
        const types = try arena.alloc(schema.DataType, input.len);
        for (types, input) |*to, field| to.* = field.type;
        const parts = try arena.alloc(Part, node.count);
        @memset(parts, .{});
        return .{ .gpa = gpa, .arena = arena, .keys = node.keys, .types = types, .parts = parts };
    }

    pub fn deinit(self: *PartitionOperator) void {
        for (self.parts) |*part| for (part.builders) |*builder| builder.deinit();
    }

    /// Nothing has to be computed for the keys.
    pub fn is_plain(self: *const PartitionOperator) bool {
        for (self.keys) |key| if (key.node != .column) return false;
        return true;
    }

    pub fn push(self: *PartitionOperator, arena: std.mem.Allocator, chunk: *const Chunk) Error!void {
        const counts = try arena.alloc(u32, self.parts.len);
        const rows = try self.dealt(arena, chunk, counts);
        var start: usize = 0;
        for (self.parts, counts) |*part, count| {
            if (count > 0) try self.append(part, chunk.columns, rows[start..][0..count]);
            start += count;
        }
        assert(start == rows.len);
    }

    /// The selected rows in the order of their partitions, and how many each one gets.
    fn dealt(self: *const PartitionOperator, arena: std.mem.Allocator, chunk: *const Chunk, counts: []u32) Error![]const u32 {
        @memset(counts, 0);
        const rows = try selected_rows(arena, chunk);
        if (self.keys.len == 0) {
            counts[0] = @intCast(rows.len);
            return rows;
        }
        const hashes = try arena.alloc(u64, chunk.row_count);
        for (self.keys, 0..) |*key, i| {
            const column = try expression_module.evaluate(arena, key, chunk);
            hash.hash_column(&column, 0, hashes, if (i == 0) .first else .combine);
        }
        const numbers = try arena.alloc(u16, rows.len);
        const part_count: u32 = @intCast(self.parts.len);
        for (numbers, rows) |*number, row| {
            number.* = @intCast(partition_of(hashes.ptr[row], part_count));
            counts[number.*] += 1;
        }
        const places = try arena.dupe(u32, counts);
        var position: u32 = 0;
        for (places) |*place| {
            const count = place.*;
            place.* = position;
            position += count;
        }
        const sorted = try arena.alloc(u32, rows.len);
        for (numbers, rows) |number, row| {
            const place = &places.ptr[number];
            sorted.ptr[place.*] = row;
            place.* += 1;
        }
        return sorted;
    }

    fn append(self: *PartitionOperator, part: *Part, columns: []const Column, rows: []const u32) Error!void {
        if (part.builders.len == 0) part.builders = try keyed_rows.open_all(self.gpa, self.arena, self.types);
        self.size -= part.size;
        part.row_count += @intCast(rows.len);
        part.size = part.row_count / 8; // rows without bytes are rows too
        for (part.builders, columns) |*builder, *column| {
            try builder.append_indices(column, rows);
            part.size += builder.memory_size();
        }
        self.size += part.size;
    }

    /// What a partition has collected.
    pub fn batch(self: *const PartitionOperator, arena: std.mem.Allocator, index: usize) error{OutOfMemory}!column_module.Batch {
        const part = &self.parts[index];
        assert(part.builders.len == self.types.len);
        return .{ .row_count = part.row_count, .columns = try keyed_rows.collected(arena, part.builders) };
    }

    pub fn clear(self: *PartitionOperator, index: usize) void {
        const part = &self.parts[index];
        for (part.builders) |*builder| builder.reset();
        self.size -= part.size;
        part.row_count = 0;
        part.size = 0;
    }

    pub fn reset(self: *PartitionOperator) void {
        for (0..self.parts.len) |index| self.clear(index);
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
