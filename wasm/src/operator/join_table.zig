//! Rows of a join's build side, to be found by their keys.
//!
//! Rows are collected first; `finish` then knows their number and the bounds of their keys, and picks
//! an index (join_index.zig): keys that fit a word go by the word itself, others by a hash of 64 bits,
//! with a look at the keys behind it. Rows with a NULL key equal nothing: they are counted and not
//! kept, unless NULLs equal each other here. NaN equals NaN and −0.0 equals 0.0, as in group_table.zig.
//!
//! A table belongs to the query that builds it and to all queries that use it; the last one frees it.
const std = @import("std");
const bitmap = @import("../core/bitmap.zig");
const column_module = @import("../core/column.zig");
const group_keys = @import("group_keys.zig");
const hash = @import("../kernel/hash.zig");
const interrupt = @import("../core/interrupt.zig");
const join_index = @import("join_index.zig");
const schema = @import("../core/schema.zig");
const BlockFilter = @import("../kernel/block_filter.zig").BlockFilter;
const ColumnBuilder = @import("../core/column_builder.zig").ColumnBuilder;
const Packing = @import("join_keys.zig").Packing;
const Column = column_module.Column;
const DataType = schema.DataType;
const Field = schema.Field;
const assert = std.debug.assert;
const block_rows = join_index.block_rows;

pub const Error = error{ Cancelled, OutOfMemory, TooLarge };
pub const FindError = error{ Cancelled, OutOfMemory };
pub const Found = join_index.Found;
pub const none = join_index.none;

/// Values of the domain that a row may cost: a bit and its share of a count make 16 bytes, half of what
/// slots take.
const dense_values_per_row = 64;
/// And this many are nothing, however few rows there are.
const dense_values_always = 1 << 20;

/// Slots beyond the second-level cache are asked only after the filter, while it turns rows away.
const filter_slots_min = 1 << 14;

pub const Options = struct {
    /// NULL equals NULL, as in set operations and IS NOT DISTINCT FROM.
    nulls_equal: bool = false,
    /// Make a Bloom filter, also where the index does not ask for one.
    with_filter: bool = false,
};

const Index = union(enum) {
    /// No keys, or no rows.
    nothing,
    dense: join_index.Dense,
    slots: join_index.Slots,
};

/// What a probing operator has seen of the filter: one that lets most rows through costs more than
/// it saves.
pub const FilterUse = struct {
    asked: u64 = 0,
    passed: u64 = 0,

    fn is_worthwhile(self: *const FilterUse) bool {
        return self.asked < interrupt.block_rows or self.passed * 4 < self.asked * 3;
    }
};

/// What an answer may be: right, or yes where it should be no.
pub const Certainty = enum { sure, maybe };

pub const JoinTable = struct {
    gpa: std.mem.Allocator,
    references: u32 = 1,
    /// Types, names and what `finish` finds out.
    arena: std.heap.ArenaAllocator,
    options: Options,
    fields: []const Field = &.{},
    key_types: []const DataType = &.{},
    /// The column that each key is, or null where it is computed and has a builder of its own.
    key_columns: []const ?u32 = &.{},
    builders: []ColumnBuilder = &.{},
    key_builders: []ColumnBuilder = &.{},
    row_count: u32 = 0,
    has_null_key: bool = false,
    finished: bool = false,
    // From here on: since `finish`.
    columns: []const Column = &.{},
    keys: []const Column = &.{},
    /// null: the words are hashes.
    packing: ?Packing = null,
    index: Index = .nothing,
    filter: ?BlockFilter = null,

    /// `key_columns`: for each key the column that it is, or null.
    pub fn create(gpa: std.mem.Allocator, fields: []const Field, key_types: []const DataType, key_columns: []const ?u32, options: Options) Error!*JoinTable {
        assert(key_types.len == key_columns.len);
        const self = try gpa.create(JoinTable);
        errdefer gpa.destroy(self);
        self.* = .{ .gpa = gpa, .arena = .init(gpa), .options = options };
        errdefer self.deinit();
        const arena = self.arena.allocator();
        const owned = try arena.alloc(Field, fields.len);
        for (owned, fields) |*to, from| to.* = .{ .name = try arena.dupe(u8, from.name), .type = try from.type.clone(arena) };
        self.fields = owned;
        const types = try arena.alloc(DataType, key_types.len);
        for (types, key_types) |*to, from| to.* = try from.clone(arena);
        self.key_types = types;
        self.key_columns = try arena.dupe(?u32, key_columns);
        const builders = try arena.alloc(ColumnBuilder, fields.len);
        for (builders, owned, 1..) |*builder, field, ready| {
            builder.* = try .init(gpa, field.type);
            self.builders = builders[0..ready];
        }
        const key_builders = try arena.alloc(ColumnBuilder, key_types.len);
        for (types, key_columns) |data_type, column| if (column == null) {
            const ready = self.key_builders.len;
            key_builders[ready] = try .init(gpa, data_type);
            self.key_builders = key_builders[0 .. ready + 1];
        };
        return self;
    }

    pub fn retain(self: *JoinTable) *JoinTable {
        self.references += 1;
        return self;
    }

    pub fn release(self: *JoinTable) void {
        self.references -= 1;
        if (self.references > 0) return;
        const gpa = self.gpa;
        self.deinit();
        gpa.destroy(self);
    }

    fn deinit(self: *JoinTable) void {
        for (self.builders) |*builder| builder.deinit();
        for (self.key_builders) |*builder| builder.deinit();
        switch (self.index) {
            .nothing => {},
            inline else => |*index| index.deinit(self.gpa),
        }
        if (self.filter) |*filter| filter.deinit(self.gpa);
        self.arena.deinit();
    }

    /// No probing row has more than one match.
    pub fn is_unique(self: *const JoinTable) bool {
        return switch (self.index) {
            .nothing => self.row_count <= 1,
            .dense => |*dense| dense.is_unique(),
            .slots => |*slots| slots.unique,
        };
    }

    /// Rows by place; null when they lie in that order.
    pub fn order(self: *const JoinTable) ?[]const u32 {
        return switch (self.index) {
            .nothing => null,
            inline else => |*index| index.order,
        };
    }

    // ---- building ----

    /// Keeps the selected rows of a chunk; `selection` null: all of them.
    pub fn push(self: *JoinTable, arena: std.mem.Allocator, columns: []const Column, keys: []const Column, row_count: u32, selection: ?[]const u8) Error!void {
        assert(!self.finished and columns.len == self.builders.len and keys.len == self.key_types.len);
        const mask = if (self.options.nulls_equal) selection else try valid_rows(arena, keys, row_count, selection);
        const bits = mask orelse {
            for (self.builders, columns) |*builder, *column| try builder.append_range(column, 0, row_count);
            var own: usize = 0;
            for (self.key_columns, keys) |shared, *key| if (shared == null) {
                try self.key_builders[own].append_range(key, 0, row_count);
                own += 1;
            };
            return self.count_rows(row_count);
        };
        const rows = try arena.alloc(u32, bitmap.count(bits, row_count));
        _ = bitmap.indices(bits, row_count, rows);
        const offered = if (selection) |chosen| bitmap.count(chosen, row_count) else row_count;
        if (rows.len < offered) self.has_null_key = true;
        for (self.builders, columns) |*builder, *column| try builder.append_indices(column, rows);
        var own: usize = 0;
        for (self.key_columns, keys) |shared, *key| if (shared == null) {
            try self.key_builders[own].append_indices(key, rows);
            own += 1;
        };
        return self.count_rows(@intCast(rows.len));
    }

    fn count_rows(self: *JoinTable, count: u32) Error!void {
        // One number stays free to say "no row".
        if (count >= none - self.row_count) return error.TooLarge;
        self.row_count += count;
    }

    /// Makes the index. No rows come after that.
    pub fn finish(self: *JoinTable) Error!void {
        assert(!self.finished);
        const arena = self.arena.allocator();
        const columns = try arena.alloc(Column, self.builders.len);
        for (columns, self.builders) |*column, *builder| column.* = try builder.finish(arena);
        self.columns = columns;
        const keys = try arena.alloc(Column, self.key_types.len);
        var own: usize = 0;
        for (keys, self.key_columns) |*key, shared| {
            if (shared) |column| {
                key.* = columns[column];
            } else {
                key.* = try self.key_builders[own].finish(arena);
                own += 1;
            }
        }
        self.keys = keys;
        if (self.row_count > 0 and keys.len > 0) try self.make_index(arena);
        if (self.packing != null) {
            // The words say all there is to know of them.
            for (self.key_builders) |*builder| builder.deinit();
            self.key_builders = &.{};
            self.keys = &.{};
        }
        self.finished = true;
    }

    fn make_index(self: *JoinTable, arena: std.mem.Allocator) Error!void {
        self.packing = try Packing.init(arena, self.keys, self.options.nulls_equal);
        if (self.packing) |*packing| {
            const source: PackedRows = .{ .packing = packing, .keys = self.keys };
            const limit = @max(dense_values_always, @as(u64, self.row_count) * dense_values_per_row);
            if (packing.domain() <= limit) {
                self.index = .{ .dense = try .init(self.gpa, source, self.row_count, packing.domain()) };
            } else {
                try self.make_slots(source);
            }
        } else {
            try self.make_slots(HashedRows{ .keys = self.keys });
        }
    }

    fn make_slots(self: *JoinTable, source: anytype) Error!void {
        self.index = .{ .slots = try .init(self.gpa, source, self.row_count) };
        if (!self.options.with_filter and self.index.slots.slots.len < filter_slots_min) return;
        var filter: BlockFilter = try .init(self.gpa, self.row_count);
        errdefer filter.deinit(self.gpa);
        for (self.index.slots.slots, 0..) |slot, i| {
            if (i % interrupt.block_rows == 0) try interrupt.check();
            if (slot.count != 0) filter.add(source.hash(slot.word));
        }
        self.filter = filter;
    }

    // ---- probing ----

    /// The selected rows of a chunk that have matches. `keys` have the types of the table's keys.
    /// Not inlined: its blocks must not lie in the frame of an evaluator that calls itself.
    pub noinline fn find(self: *const JoinTable, arena: std.mem.Allocator, keys: []const Column, row_count: u32, selection: ?[]const u8, use: *FilterUse) FindError!Found {
        assert(self.finished and keys.len == self.key_types.len);
        try interrupt.check();
        const offered = if (selection) |bits| bitmap.count(bits, row_count) else row_count;
        var found: Found = try .init(arena, if (self.row_count == 0) 0 else offered, self.is_unique());
        if (self.row_count == 0) return found;
        if (keys.len == 0) {
            self.find_all(row_count, selection, &found);
            return found;
        }
        var block: Block = undefined;
        var blocks: Blocks = try .init(arena, self, keys, row_count, selection);
        while (blocks.next(&block)) {
            switch (self.index) {
                .nothing => unreachable,
                .dense => |*dense| dense.find(block.words[0..block.count], block.rows[0..block.count], &found),
                .slots => |*slots| {
                    self.hash_block(&block);
                    if (self.filter) |*filter| if (use.is_worthwhile()) filter_block(filter, &block, use);
                    const start = found.len;
                    slots.find(block.words[0..block.count], block.hashes[0..block.count], block.rows[0..block.count], &found);
                    if (self.packing == null) self.compare_keys(keys, &found, start);
                },
            }
        }
        return found;
    }

    /// Without keys every row matches all rows.
    fn find_all(self: *const JoinTable, row_count: u32, selection: ?[]const u8, found: *Found) void {
        if (selection) |bits| {
            found.len = bitmap.indices(bits, row_count, found.rows);
        } else {
            for (found.rows, 0..) |*row, i| row.* = @intCast(i);
            found.len = row_count;
        }
        @memset(found.places, 0);
        @memset(found.counts, self.row_count);
    }

    /// Which of the selected rows have a match, or may have one: one bit a row, 0 for the others.
    pub noinline fn contains(self: *const JoinTable, arena: std.mem.Allocator, keys: []const Column, row_count: u32, selection: ?[]const u8, certainty: Certainty) FindError![]align(column_module.alignment) u8 {
        const bits = try arena.alignedAlloc(u8, .fromByteUnits(column_module.alignment), bitmap.size(row_count));
        @memset(bits, 0);
        if (certainty == .maybe and self.filter != null) {
            var block: Block = undefined;
            var blocks: Blocks = try .init(arena, self, keys, row_count, selection);
            while (blocks.next(&block)) {
                self.hash_block(&block);
                const filter = &self.filter.?;
                for (block.hashes[0..block.count], block.rows[0..block.count]) |row_hash, row| {
                    put(bits, row, filter.might_contain(row_hash));
                }
            }
        } else if (self.index == .dense) {
            const dense = &self.index.dense;
            var block: Block = undefined;
            var blocks: Blocks = try .init(arena, self, keys, row_count, selection);
            while (blocks.next(&block)) {
                for (block.words[0..block.count], block.rows[0..block.count]) |word, row| put(bits, row, dense.contains(word));
            }
        } else {
            var use: FilterUse = .{};
            const found = try self.find(arena, keys, row_count, selection, &use);
            for (found.rows[0..found.len]) |row| bitmap.set(bits.ptr, row);
        }
        return bits;
    }

    /// The answer to `key IN (the build)`, from `matched`, the bits of rows that have a match: a miss is
    /// NULL where the build has a NULL key, or where the key is NULL and the build is not empty. Of
    /// several keys one NULL is enough. null: no row is NULL.
    pub fn membership_validity(self: *const JoinTable, arena: std.mem.Allocator, keys: []const Column, row_count: u32, matched: []const u8) FindError!?[]const u8 {
        if (self.options.nulls_equal) return null;
        if (self.has_null_key) return matched;
        if (self.row_count == 0) return null;
        return valid_rows(arena, keys, row_count, null);
    }

    fn hash_block(self: *const JoinTable, block: *Block) void {
        const words = block.words[0..block.count];
        if (self.packing == null) {
            @memcpy(block.hashes[0..block.count], words);
        } else {
            for (words, block.hashes[0..block.count]) |word, *to| to.* = hash.hash_word(word);
        }
    }

    fn filter_block(filter: *const BlockFilter, block: *Block, use: *FilterUse) void {
        var count: usize = 0;
        for (0..block.count) |i| {
            const row_hash = block.hashes[i];
            block.hashes[count] = row_hash;
            block.words[count] = block.words[i];
            block.rows[count] = block.rows[i];
            count += @intFromBool(filter.might_contain(row_hash));
        }
        use.asked += block.count;
        use.passed += count;
        block.count = count;
    }

    /// Equal hashes are nearly always equal keys; where they are not, the slots behind are searched.
    fn compare_keys(self: *const JoinTable, keys: []const Column, found: *Found, start: usize) void {
        const slots = &self.index.slots;
        var stored: [block_rows]u32 = undefined;
        var equal: [block_rows]bool = undefined;
        const rows = found.rows[start..found.len];
        for (found.places[start..found.len], stored[0..rows.len]) |place, *row| row.* = slots.row_at(place);
        @memset(equal[0..rows.len], true);
        for (keys, self.keys) |*key, *own| keep_equal(key, rows, own, stored[0..rows.len], equal[0..rows.len]);
        if (std.mem.findScalar(bool, equal[0..rows.len], false) == null) return;
        for (equal[0..rows.len], start..) |same, i| if (!same) {
            const key: ProbingKey = .{ .keys = keys, .row = found.rows[i], .stored = self.keys };
            const row_hash = hash_row(keys, found.rows[i]);
            const slot = slots.find_slot(row_hash, row_hash, key);
            found.places[i] = if (slot) |match| match.place else none;
            if (found.counts.len > 0) found.counts[i] = if (slot) |match| match.count else 0;
        };
        found.compact(start);
    }
};

inline fn put(bits: []u8, row: u32, value: bool) void {
    bits.ptr[row >> 3] |= @as(u8, @intFromBool(value)) << @truncate(row);
}

/// Rows that are selected and have no NULL key; null when that is all of them.
fn valid_rows(arena: std.mem.Allocator, keys: []const Column, row_count: u32, selection: ?[]const u8) FindError!?[]const u8 {
    var mask = selection;
    var owned: ?[]u8 = null;
    for (keys) |*key| {
        if (key.type.tag == .null) {
            const bits = try arena.alloc(u8, bitmap.size(row_count));
            @memset(bits, 0);
            return bits;
        }
        const validity = key.validity orelse continue;
        const before = mask orelse {
            mask = validity[0..bitmap.size(row_count)];
            continue;
        };
        const bits = owned orelse try arena.alloc(u8, bitmap.size(row_count));
        bitmap.combine(.@"and", bits, before, validity);
        owned = bits;
        mask = bits;
    }
    return mask;
}

/// Rows that are looked up together, with their words.
const Block = struct {
    rows: [block_rows]u32,
    words: [block_rows]u64,
    hashes: [block_rows]u64,
    count: usize,
};

/// Cuts a chunk into blocks of rows that may have a match.
const Blocks = struct {
    table: *const JoinTable,
    keys: []const Column,
    row_count: u32,
    mask: ?[]const u8,
    start: u32 = 0,

    fn init(arena: std.mem.Allocator, table: *const JoinTable, keys: []const Column, row_count: u32, selection: ?[]const u8) FindError!Blocks {
        const mask = if (table.options.nulls_equal) selection else try valid_rows(arena, keys, row_count, selection);
        return .{ .table = table, .keys = keys, .row_count = row_count, .mask = mask };
    }

    fn next(self: *Blocks, block: *Block) bool {
        if (self.start >= self.row_count) return false;
        const count = @min(block_rows, self.row_count - self.start);
        block.count = count;
        if (self.mask) |bits| {
            block.count = bitmap.indices(bits[self.start / 8 ..], count, &block.rows);
            for (block.rows[0..block.count]) |*row| row.* += self.start;
        } else {
            for (block.rows[0..count], self.start..) |*row, i| row.* = @intCast(i);
        }
        if (self.table.packing) |*packing| {
            block.count = packing.pack(self.keys, block.rows[0..block.count], &block.words);
        } else {
            hash_rows(self.keys, self.start, count, block);
        }
        self.start = if (self.row_count - self.start <= block_rows) self.row_count else self.start + block_rows;
        return true;
    }
};

/// Hashes of a block's rows; where few rows of the block are left, of these alone.
fn hash_rows(keys: []const Column, start: u32, count: u32, block: *Block) void {
    const rows = block.rows[0..block.count];
    if (rows.len * 4 < count) {
        for (rows, block.words[0..rows.len]) |row, *word| word.* = hash_row(keys, row);
        return;
    }
    const hashes = block.hashes[0..count];
    for (keys, 0..) |*key, i| hash.hash_column(key, start, hashes, if (i == 0) .first else .combine);
    for (rows, block.words[0..rows.len]) |row, *word| word.* = hashes[row - start];
}

fn hash_row(keys: []const Column, row: u32) u64 {
    var row_hash: [1]u64 = undefined;
    for (keys, 0..) |*key, i| hash.hash_column(key, row, &row_hash, if (i == 0) .first else .combine);
    return row_hash[0];
}

/// The table's own rows by words that are keys.
const PackedRows = struct {
    packing: *const Packing,
    keys: []const Column,

    pub fn words(self: PackedRows, start: u32, out: []u64) void {
        var rows: [block_rows]u32 = undefined;
        for (rows[0..out.len], start..) |*row, i| row.* = @intCast(i);
        const count = self.packing.pack(self.keys, rows[0..out.len], out);
        assert(count == out.len); // the bounds are those of these rows
    }
    pub inline fn hash(_: PackedRows, word: u64) u64 {
        return hash_of_word(word);
    }
    pub inline fn same(_: PackedRows, _: u32, _: u32) bool {
        return true;
    }
};

const hash_of_word = hash.hash_word;

/// The table's own rows by words that are hashes.
const HashedRows = struct {
    keys: []const Column,

    pub fn words(self: HashedRows, start: u32, out: []u64) void {
        for (self.keys, 0..) |*key, i| hash_column(key, start, out, if (i == 0) .first else .combine);
    }
    pub inline fn hash(_: HashedRows, word: u64) u64 {
        return word;
    }
    pub inline fn same(self: HashedRows, a: u32, b: u32) bool {
        return group_keys.rows_equal(self.keys, a, self.keys, b);
    }
};

const hash_column = hash.hash_column;

const ProbingKey = struct {
    keys: []const Column,
    row: u32,
    stored: []const Column,

    pub fn equals(self: ProbingKey, row: u32) bool {
        return group_keys.rows_equal(self.keys, self.row, self.stored, row);
    }
};

/// Column by column, so that each is looked at once to see what it is.
fn keep_equal(a: *const Column, a_rows: []const u32, b: *const Column, b_rows: []const u32, equal: []bool) void {
    const plain = a.validity == null and b.validity == null;
    if (plain) switch (a.type.layout()) {
        inline .i8, .u8, .i16, .u16, .i32, .u32, .i64, .u64, .i128 => |layout| {
            const T = group_keys.Bits(layout);
            const x = a.values(T);
            const y = b.values(T);
            for (a_rows, b_rows, equal) |i, j, *same| same.* = same.* and x.ptr[i] == y.ptr[j];
            return;
        },
        .bytes => {
            for (a_rows, b_rows, equal) |i, j, *same| same.* = same.* and group_keys.same_bytes(a.bytes_at(i), b.bytes_at(j));
            return;
        },
        else => {},
    };
    for (a_rows, b_rows, equal) |i, j, *same| same.* = same.* and group_keys.values_equal(a, i, b, j);
}
