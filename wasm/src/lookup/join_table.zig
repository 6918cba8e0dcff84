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
const join_probe = @import("join_probe.zig");
const schema = @import("../core/schema.zig");
const Arena = @import("../core/arena.zig").Arena;
const BlockFilter = @import("../kernel/block_filter.zig").BlockFilter;
const ColumnBuilder = @import("../core/column_builder.zig").ColumnBuilder;
const Packing = @import("join_keys.zig").Packing;
const Payload = @import("join_payload.zig").Payload;
const Bits = join_probe.Bits;
const Block = join_probe.Block;
const Blocks = join_probe.Blocks;
const Column = column_module.Column;
const DataType = schema.DataType;
const Field = schema.Field;
const assert = std.debug.assert;
const block_rows = join_index.block_rows;

pub const Error = error{ Cancelled, OutOfMemory, TooLarge };
pub const FindError = error{ Cancelled, OutOfMemory };
pub const FilterUse = join_probe.FilterUse;
pub const Found = join_probe.Found;
pub const Places = join_probe.Places;
pub const none = join_index.none;

/// Values of the domain that a row may cost: a bit and its share of a count make 16 bytes, half of what
/// slots take.
const dense_values_per_row = 64;
/// And this many are nothing, however few rows there are.
const dense_values_always = 1 << 20;

/// Values are counted in 32 bits.
const dense_values_max = 1 << 31;

/// Slots of more rows than this are asked only after the filter, while it turns rows away.
const filter_rows_min = 1 << 12;

/// Tables of fewer rows fit the cache, more or less: their columns are taken from as they are.
const prepared_rows_min = 1 << 16;
/// Columns are prepared once a table has been asked for this part of its rows, times their number: then
/// what it costs is soon saved.
const asked_part = 4;

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

pub const JoinTable = struct {
    gpa: std.mem.Allocator,
    references: u32 = 1,
    /// Types, names and what `finish` finds out.
    arena: Arena,
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
    /// Joins take their rows by `take`: what they hold may have moved.
    columns: []Column = &.{},
    payloads: []Payload = &.{},
    /// Rows that joins have looked up so far, and whether that was enough to prepare columns.
    asked: u64 = 0,
    prepares: bool = false,
    /// Rows by place, where places are not rows any more; there may be one more entry.
    rows_by_place: ?[]u32 = null,
    keys: []const Column = &.{},
    /// null: the words are hashes.
    packing: ?Packing = null,
    index: Index = .nothing,
    filter: ?BlockFilter = null,

    /// `key_columns`: for each key the column that it is, or null.
    pub fn create(
        gpa: std.mem.Allocator,
        fields: []const Field,
        key_types: []const DataType,
        key_columns: []const ?u32,
        options: Options,
    ) Error!*JoinTable {
        assert(key_types.len == key_columns.len);
        const self = try gpa.create(JoinTable);
        errdefer gpa.destroy(self);
        self.* = .{ .gpa = gpa, .arena = .init(gpa), .options = options };
        errdefer self.deinit();
        const arena = self.arena.allocator();
        const owned = try arena.alloc(Field, fields.len);
        for (owned, fields) |*to, from|
            to.* = .{ .name = try arena.dupe(u8, from.name), .type = try from.type.clone(arena) };
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
        for (self.payloads) |*payload| payload.deinit(self.gpa);
        if (self.rows_by_place) |rows| self.gpa.free(rows);
        switch (self.index) {
            .nothing => {},
            inline else => |*index| index.deinit(self.gpa),
        }
        if (self.filter) |*filter| filter.deinit(self.gpa);
        self.arena.deinit();
    }

    /// Bytes of rows and index.
    pub fn memory_size(self: *const JoinTable) u64 {
        var total: u64 = self.arena.capacity();
        for (self.builders) |*builder| total += builder.memory_size();
        for (self.key_builders) |*builder| total += builder.memory_size();
        for (self.payloads) |*payload| if (payload.narrow) |narrow| {
            total += narrow.data.len;
        };
        if (self.rows_by_place) |rows| total += rows.len * @sizeOf(u32);
        switch (self.index) {
            .nothing => {},
            inline else => |*index| total += index.memory_size(),
        }
        if (self.filter) |*filter| total += filter.words.len * @sizeOf(u64);
        return total;
    }

    /// No probing row has more than one match.
    pub fn is_unique(self: *const JoinTable) bool {
        return switch (self.index) {
            .nothing => self.row_count <= 1,
            inline else => |*index| index.unique,
        };
    }

    /// What `take` wants to have, by place; null when that is the place. `expect` may change it.
    pub fn order(self: *const JoinTable) ?[]const u32 {
        return switch (self.index) {
            .nothing => null,
            inline else => |*index| if (index.unique) null else index.order,
        };
    }

    // ---- building ----

    /// Keeps the selected rows of a chunk; `selection` null: all of them.
    pub fn push(
        self: *JoinTable,
        arena: std.mem.Allocator,
        columns: []const Column,
        keys: []const Column,
        row_count: u32,
        selection: ?[]const u8,
    ) Error!void {
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
        const payloads = try arena.alloc(Payload, columns.len);
        @memset(payloads, .{});
        self.payloads = payloads;
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
            if (packing.domain <= @min(limit, dense_values_max)) {
                self.index = .{ .dense = try .init(self.gpa, source, self.row_count, packing.domain) };
            } else {
                try self.make_slots(source);
            }
        } else {
            try self.make_slots(HashedRows{ .keys = self.keys });
        }
    }

    fn make_slots(self: *JoinTable, source: anytype) Error!void {
        if (self.options.with_filter or self.row_count >= filter_rows_min)
            self.filter = try .init(self.gpa, self.row_count);
        self.index = .{
            .slots = try .init(self.gpa, source, self.row_count, if (self.filter) |*filter| filter else null),
        };
    }

    // ---- probing ----

    /// A join will look up so many rows, and take `column_count` columns of those that it finds.
    pub fn expect(self: *JoinTable, row_count: u32, column_count: u32) FindError!void {
        self.asked += row_count;
        if (self.prepares or self.row_count < prepared_rows_min) return;
        if (self.asked * asked_part < @as(u64, self.row_count) * column_count) return;
        self.prepares = true;
        self.rows_by_place = switch (self.index) {
            .nothing => null,
            .dense => |*dense| dense.take_order(self.gpa) catch |failure| switch (failure) {
                error.OutOfMemory => null,
                error.Cancelled => return failure,
            },
            // Hashes are compared by rows.
            .slots => |*slots| if (self.packing != null) slots.take_order() else null,
        };
    }

    /// Rows of a column, by the places where they were found.
    pub fn take(self: *JoinTable, arena: std.mem.Allocator, number: u32, places: []const u32) Error!Column {
        const column = &self.columns[number];
        const payload = &self.payloads[number];
        const by_place = if (self.rows_by_place) |rows| rows[0..self.row_count] else null;
        if (self.prepares and payload.state == .as_built) {
            // What hashed keys are compared with stays where it is.
            const is_key = self.packing == null and self.is_key_column(number);
            if (is_key)
                payload.state = .refused
            else
                try payload.prepare(self.gpa, self.arena.allocator(), &self.builders[number], column, by_place);
        }
        return payload.take(arena, column, places, by_place);
    }

    fn is_key_column(self: *const JoinTable, number: u32) bool {
        for (self.key_columns) |shared| if (shared == number) return true;
        return false;
    }

    /// Where the rows of a chunk have their matches. `keys` have the types of the table's keys; rows that
    /// are not selected, or have a NULL key, have none. Of several matches it is the first one's place.
    /// Not inlined: its blocks must not lie in the frame of an evaluator that calls itself.
    pub noinline fn find_places(
        self: *const JoinTable,
        arena: std.mem.Allocator,
        keys: []const Column,
        row_count: u32,
        selection: ?[]const u8,
        use: *FilterUse,
    ) FindError!Places {
        var found: Places = try .init(arena, row_count);
        const mask = try self.probing_rows(arena, keys, row_count, selection);
        if (self.index == .nothing or mask != null or self.filter != null) @memset(found.places, 0);
        if (self.index == .nothing) {
            // All rows match the first one, if there is one.
            bitmap.fill(found.bits, row_count, self.row_count > 0);
            found.close(mask);
            return found;
        }
        var blocks: Blocks = .{ .row_count = row_count, .mask = mask };
        var block: Block = undefined;
        while (try blocks.next(&block)) {
            // The filter makes a list of what is left of a block.
            const listed = block.listed or (self.filter != null and use.is_worthwhile());
            if (listed) {
                self.look_up(keys, &block, use, &block.places);
                block.scatter(&found);
            } else {
                self.look_up(keys, &block, use, found.places[block.start..]);
                found.settle(block.start, block.count);
            }
        }
        found.close(mask);
        return found;
    }

    /// The rows of a chunk that have matches, with all of them.
    pub noinline fn find_all(
        self: *const JoinTable,
        arena: std.mem.Allocator,
        keys: []const Column,
        row_count: u32,
        selection: ?[]const u8,
        use: *FilterUse,
    ) FindError!Found {
        const mask = try self.probing_rows(arena, keys, row_count, selection);
        var found: Found = try .init(arena, if (mask) |bits| bitmap.count(bits, row_count) else row_count);
        if (self.row_count == 0) return found;
        var blocks: Blocks = .{ .row_count = row_count, .mask = mask };
        var block: Block = undefined;
        while (try blocks.next(&block)) {
            if (self.index == .nothing) {
                @memset(block.places[0..block.count], 0);
                @memset(block.counts[0..block.count], self.row_count);
            } else {
                self.look_up(keys, &block, use, &block.places);
                if (self.is_unique()) @memset(block.counts[0..block.count], 1);
            }
            found.append(&block, mask);
        }
        return found;
    }

    /// Rows that are asked about; null for all. Rows with NULL keys are not, unless NULLs are equal.
    fn probing_rows(
        self: *const JoinTable,
        arena: std.mem.Allocator,
        keys: []const Column,
        row_count: u32,
        selection: ?[]const u8,
    ) FindError!?[]const u8 {
        assert(self.finished and keys.len == self.key_types.len);
        return if (self.options.nulls_equal) selection else valid_rows(arena, keys, row_count, selection);
    }

    /// Writes the places of a block's rows. The filter may take rows out of the block.
    fn look_up(self: *const JoinTable, keys: []const Column, block: *Block, use: *FilterUse, places: []u32) void {
        switch (self.index) {
            .nothing => unreachable,
            .dense => |*dense| self.with_words(
                keys,
                block,
                Finder{ .dense = dense, .places = places, .counts = &block.counts },
            ),
            .slots => |*slots| {
                const filter = if (self.filter) |*filter| (if (use.is_worthwhile()) filter else null) else null;
                self.hash_block(keys, block, filter, use);
                const count = block.count;
                slots.find(block.words[0..count], block.hashes[0..count], places[0..count], block.counts[0..count]);
                if (self.packing == null) self.compare_keys(keys, block, places[0..count]);
            },
        }
    }

    fn hash_block(
        self: *const JoinTable,
        keys: []const Column,
        block: *Block,
        filter: ?*const BlockFilter,
        use: *FilterUse,
    ) void {
        if (self.packing == null) {
            self.make_words(keys, block);
            block.hash(block.words_at(), same_word, filter, use);
        } else {
            self.with_words(keys, block, Hasher{ .block = block, .filter = filter, .use = use });
        }
    }

    /// Runs `action` over the words of a block. Consecutive values of a single key are not written down
    /// before.
    fn with_words(self: *const JoinTable, keys: []const Column, block: *Block, action: anytype) void {
        if (!block.listed) switch (keys[0].type.layout()) {
            inline .i32, .i64 => |layout| if (self.packing.?.distances(
                schema.Scalar(layout),
                keys,
                block.start,
            )) |words| {
                return action.run(words, block.count);
            },
            else => {},
        };
        self.make_words(keys, block);
        action.run(block.words_at(), block.count);
    }

    fn make_words(self: *const JoinTable, keys: []const Column, block: *Block) void {
        const words = block.words[0..block.count];
        const listed = block.rows[0..block.count];
        if (self.packing) |*packing| {
            packing.pack(keys, if (block.listed) .{ .list = listed } else .{ .from = block.start }, words);
        } else if (block.listed) {
            for (listed, words) |row, *word| hash_rows(keys, row, word[0..1]);
        } else {
            hash_rows(keys, block.start, words);
        }
    }

    /// Equal hashes are nearly always equal keys; where they are not, the slots behind are searched.
    fn compare_keys(self: *const JoinTable, keys: []const Column, block: *Block, places: []u32) void {
        const slots = &self.index.slots;
        var candidates: [block_rows]u32 = undefined;
        var asked: [block_rows]u32 = undefined;
        var stored: [block_rows]u32 = undefined;
        var equal: [block_rows]bool = undefined;
        var count: usize = 0;
        for (places, 0..) |place, i| {
            candidates[count] = @intCast(i);
            count += @intFromBool(place != none);
        }
        for (candidates[0..count], asked[0..count], stored[0..count], equal[0..count]) |i, *row, *own, *same| {
            row.* = block.row_at(i);
            own.* = slots.row_at(places[i]);
            same.* = true;
        }
        for (keys, self.keys) |*key, *own| keep_equal(key, asked[0..count], own, stored[0..count], equal[0..count]);
        for (candidates[0..count], asked[0..count], equal[0..count]) |i, row, same| {
            if (same) continue;
            const key: ProbingKey = .{ .keys = keys, .row = row, .stored = self.keys };
            const slot = slots.find_slot(block.words[i], block.hashes[i], key);
            places[i] = if (slot) |match| match.place else none;
            if (slot) |match| block.counts[i] = match.count;
        }
    }

    /// Which of the selected rows have a match: one bit a row, 0 for the others.
    pub noinline fn contains(
        self: *const JoinTable,
        arena: std.mem.Allocator,
        keys: []const Column,
        row_count: u32,
        selection: ?[]const u8,
    ) FindError!Bits {
        if (self.index != .dense) {
            var use: FilterUse = .{};
            return (try self.find_places(arena, keys, row_count, selection, &use)).bits;
        }
        const mask = try self.probing_rows(arena, keys, row_count, selection);
        const bits = try join_probe.empty_bits(arena, row_count);
        var blocks: Blocks = .{ .row_count = row_count, .mask = mask };
        var block: Block = undefined;
        while (try blocks.next(&block)) {
            var own: [block_rows / 8]u8 = undefined;
            const part = if (block.listed) &own else bits[block.start / 8 ..];
            self.with_words(keys, &block, BitFinder{ .dense = &self.index.dense, .bits = part });
            if (block.listed) block.scatter_bits(&own, bits);
        }
        if (mask) |known| bitmap.combine(.@"and", bits, bits, known);
        return bits;
    }

    /// The answer to `key IN (the build)`, from `matched`, the bits of rows that have a match: a miss is
    /// NULL where the build has a NULL key, or where the key is NULL and the build is not empty. Of
    /// several keys one NULL is enough. null: no row is NULL.
    pub fn membership_validity(
        self: *const JoinTable,
        arena: std.mem.Allocator,
        keys: []const Column,
        row_count: u32,
        matched: []const u8,
    ) FindError!?[]const u8 {
        if (self.options.nulls_equal) return null;
        if (self.has_null_key) return matched;
        if (self.row_count == 0) return null;
        return valid_rows(arena, keys, row_count, null);
    }
};

const Finder = struct {
    dense: *const join_index.Dense,
    places: []u32,
    counts: []u32,
    fn run(self: Finder, words: anytype, count: usize) void {
        self.dense.find(words, self.places[0..count], self.counts[0..count]);
    }
};

const BitFinder = struct {
    dense: *const join_index.Dense,
    bits: []u8,
    fn run(self: BitFinder, words: anytype, count: usize) void {
        self.dense.find_bits(words, count, self.bits);
    }
};

const Hasher = struct {
    block: *Block,
    filter: ?*const BlockFilter,
    use: *FilterUse,
    fn run(self: Hasher, words: anytype, _: usize) void {
        self.block.hash(words, hash.hash_word, self.filter, self.use);
    }
};

/// Words that are hashes already.
inline fn same_word(word: u64) u64 {
    return word;
}

/// Rows that are selected and have no NULL key; null when that is all of them.
fn valid_rows(
    arena: std.mem.Allocator,
    keys: []const Column,
    row_count: u32,
    selection: ?[]const u8,
) FindError!?[]const u8 {
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

fn hash_rows(keys: []const Column, start: u32, hashes: []u64) void {
    for (keys, 0..) |*key, i| hash.hash_column(key, start, hashes, if (i == 0) .first else .combine);
}

/// The table's own rows by words that are keys.
const PackedRows = struct {
    packing: *const Packing,
    keys: []const Column,

    pub fn words(self: PackedRows, start: u32, out: []u64) void {
        self.packing.pack(self.keys, .{ .from = start }, out);
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
        hash_rows(self.keys, start, out);
    }
    pub inline fn hash(_: HashedRows, word: u64) u64 {
        return word;
    }
    pub inline fn same(self: HashedRows, a: u32, b: u32) bool {
        return group_keys.rows_equal(self.keys, a, self.keys, b);
    }
};

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
            for (a_rows, b_rows, equal) |i, j, *same|
                same.* = same.* and group_keys.same_bytes(a.bytes_at(i), b.bytes_at(j));
            return;
        },
        else => {},
    };
    for (a_rows, b_rows, equal) |i, j, *same| same.* = same.* and group_keys.values_equal(a, i, b, j);
}

const testing = std.testing;

fn expect_rows(table: *JoinTable, arena: std.mem.Allocator, asked: *const Column, stride: i64) !void {
    var use: FilterUse = .{};
    const found = try table.find_places(arena, asked[0..1], asked.row_count, null, &use);
    const taken = [_]Column{ try table.take(arena, 0, found.places), try table.take(arena, 1, found.places) };
    for (asked.values(i64), 0..) |key, i| {
        const match = @mod(key, stride) == 0 and key >= 0 and key < table.row_count * stride;
        try testing.expectEqual(match, bitmap.get(found.bits.ptr, i));
        if (!match) continue;
        try testing.expectEqual(key, taken[0].values(i64)[i]);
        try testing.expectEqual(@mod(key, 100), taken[1].values(i64)[i]);
    }
}

test "rows stay the same when columns are prepared, whatever the index" {
    const gpa = testing.allocator;
    const count = prepared_rows_min;
    // Every value of the domain, places by value, by rank, and slots.
    for ([_]i64{ 1, 3, 40, 100_003 }) |stride| {
        var arena: Arena = .init(gpa);
        defer arena.deinit();
        const fields = [_]Field{ .{ .name = "id", .type = .of(.i64) }, .{ .name = "w", .type = .of(.i64) } };
        const table: *JoinTable = try .create(gpa, &fields, &.{.of(.i64)}, &.{0}, .{});
        defer table.release();
        const ids = try arena.allocator().alignedAlloc(i64, .@"16", count);
        const others = try arena.allocator().alignedAlloc(i64, .@"16", count);
        for (ids, others, 0..) |*id, *other, i| {
            id.* = @as(i64, @intCast(i * 40_503 % count)) * stride; // odd: all of them, in another order
            other.* = @mod(id.*, 100);
        }
        const columns = [_]Column{
            .{ .type = .of(.i64), .row_count = count, .data = std.mem.sliceAsBytes(ids) },
            .{ .type = .of(.i64), .row_count = count, .data = std.mem.sliceAsBytes(others) },
        };
        try table.push(arena.allocator(), &columns, columns[0..1], count, null);
        try table.finish();
        const keys = try arena.allocator().alignedAlloc(i64, .@"16", 2000);
        for (keys, 0..) |*key, i| key.* = @as(i64, @intCast(i)) * stride * 50 - 300 + @as(i64, @intCast(i % 2));
        const asked: Column = .{ .type = .of(.i64), .row_count = 2000, .data = std.mem.sliceAsBytes(keys) };
        try expect_rows(table, arena.allocator(), &asked, stride);
        try table.expect(count, 2);
        try testing.expect(table.prepares);
        try testing.expectEqual(stride < 100, table.rows_by_place != null);
        try expect_rows(table, arena.allocator(), &asked, stride);
    }
}
