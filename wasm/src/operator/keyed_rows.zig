//! Rows with the keys they are ordered by: the input's columns, then one column for each key that is
//! not simply one of them.
const std = @import("std");
const column_module = @import("../core/column.zig");
const expression_module = @import("../plan/expression.zig");
const row_order = @import("row_order.zig");
const schema = @import("../core/schema.zig");
const column_builder = @import("../core/column_builder.zig");
const ColumnBuilder = column_builder.ColumnBuilder;
const Chunk = expression_module.Chunk;
const Column = column_module.Column;
const SortKey = @import("../plan/step.zig").SortKey;

pub const KeyedRows = struct {
    keys: []const SortKey,
    /// Of all columns.
    types: []const schema.DataType,
    /// The column of every key.
    key_columns: []const u32,
    /// How many are the input's.
    input_count: usize,

    pub fn init(
        arena: std.mem.Allocator,
        keys: []const SortKey,
        input: []const schema.Field,
    ) error{OutOfMemory}!KeyedRows {
        var types: std.ArrayList(schema.DataType) = .empty;
        for (input) |field| try types.append(arena, field.type);
        const key_columns = try arena.alloc(u32, keys.len);
        for (key_columns, keys) |*index, key| {
            index.* = if (key.expression.node == .column) key.expression.node.column else @intCast(types.items.len);
            if (key.expression.node != .column) try types.append(arena, key.expression.type);
        }
        return .{ .keys = keys, .types = types.items, .key_columns = key_columns, .input_count = input.len };
    }

    /// Nothing has to be computed.
    pub fn is_plain(self: *const KeyedRows) bool {
        return self.types.len == self.input_count;
    }

    /// All columns of a chunk.
    pub fn columns(
        self: *const KeyedRows,
        arena: std.mem.Allocator,
        chunk: *const Chunk,
    ) expression_module.Error![]const Column {
        if (self.is_plain()) return chunk.columns;
        const all = try arena.alloc(Column, self.types.len);
        @memcpy(all[0..self.input_count], chunk.columns);
        for (self.key_columns, self.keys) |index, *key| {
            if (index >= self.input_count) all[index] = try expression_module.evaluate(arena, &key.expression, chunk);
        }
        return all;
    }

    /// The keys among all columns.
    pub fn order(
        self: *const KeyedRows,
        arena: std.mem.Allocator,
        all: []const Column,
    ) error{OutOfMemory}![]const row_order.Key {
        const keys = try arena.alloc(row_order.Key, self.keys.len);
        for (keys, self.key_columns, self.keys) |*to, index, from| to.* = order_key(&all[index], from);
        return keys;
    }

    /// The keys when there is a column for each of them and no other.
    pub fn order_alone(
        self: *const KeyedRows,
        arena: std.mem.Allocator,
        alone: []const Column,
    ) error{OutOfMemory}![]const row_order.Key {
        const keys = try arena.alloc(row_order.Key, self.keys.len);
        for (keys, alone, self.keys) |*to, *column, from| to.* = order_key(column, from);
        return keys;
    }

    /// A builder for every column, in memory of `arena`; what they collect is `gpa`'s.
    pub fn open_builders(
        self: *const KeyedRows,
        gpa: std.mem.Allocator,
        arena: std.mem.Allocator,
    ) column_builder.Error![]ColumnBuilder {
        return open_all(gpa, arena, self.types);
    }

    /// The same for the keys alone.
    pub fn open_key_builders(
        self: *const KeyedRows,
        gpa: std.mem.Allocator,
        arena: std.mem.Allocator,
    ) column_builder.Error![]ColumnBuilder {
        const types = try arena.alloc(schema.DataType, self.keys.len);
        for (types, self.keys) |*to, key| to.* = key.expression.type;
        return open_all(gpa, arena, types);
    }
};

fn order_key(column: *const Column, key: SortKey) row_order.Key {
    return .{ .column = column, .descending = key.descending, .nulls_first = key.nulls_first };
}

/// A builder for every type.
pub fn open_all(
    gpa: std.mem.Allocator,
    arena: std.mem.Allocator,
    types: []const schema.DataType,
) column_builder.Error![]ColumnBuilder {
    const builders = try arena.alloc(ColumnBuilder, types.len);
    var ready: usize = 0;
    errdefer for (builders[0..ready]) |*builder| builder.deinit();
    for (builders, types) |*builder, data_type| {
        builder.* = try .init(gpa, data_type);
        ready += 1;
    }
    return builders;
}

/// Bytes of what some builders have collected.
pub fn size(builders: []const ColumnBuilder) u64 {
    var total: u64 = 0;
    for (builders) |*builder| total += builder.memory_size();
    return total;
}

/// What some builders have collected. Valid until they change.
pub fn collected(arena: std.mem.Allocator, builders: []const ColumnBuilder) error{OutOfMemory}![]Column {
    const columns = try arena.alloc(Column, builders.len);
    for (columns, builders) |*column, *builder| column.* = try builder.finish(arena);
    return columns;
}
