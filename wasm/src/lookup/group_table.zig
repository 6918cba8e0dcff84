//! Key values → dense group numbers, in order of first appearance.
//!
//! NULL is a key like any other; NaN equals NaN and −0.0 equals 0.0. How a key is looked up depends on
//! what it is made of (group_keys.zig says how keys become words):
//!
//!     direct    one integer, all keys within 64 k: its distance from the least one is the place
//!     word      up to 64 bits: linear probing, the word inside its slot
//!     pair      up to 128 bits, several short keys side by side: the same with two words
//!     text      one text: the same with its first 16 bytes and its length; longer ones are compared
//!     general   anything else: slots of group numbers, the hash of every group beside them
//!
//! One text that is known by its code in a dictionary is looked up once for every entry (`CodeGroups`).
//!
//! A direct table whose keys spread becomes one of words, and packed texts that turn out long make a
//! table general, for good. Slots are less than half full: a second probe is a mispredicted branch,
//! which costs more than a larger table.
const std = @import("std");
const column_module = @import("../core/column.zig");
const group_keys = @import("group_keys.zig");
const group_slots = @import("group_slots.zig");
const hash = @import("../kernel/hash.zig");
const interrupt = @import("../core/interrupt.zig");
const reduce = @import("../kernel/reduce.zig");
const rows_module = @import("rows.zig");
const schema = @import("../core/schema.zig");
const Arena = @import("../core/arena.zig").Arena;
const ColumnBuilder = @import("../core/column_builder.zig").ColumnBuilder;
const Column = column_module.Column;
const Pair = group_slots.Pair;
const Pairs = group_slots.Pairs;
const Rows = rows_module.Rows;
const Slots = group_slots.Slots;
const Texts = group_slots.Texts;
const Word = group_slots.Word;
const Words = group_slots.Words;
const assert = std.debug.assert;

pub const Error = error{ Cancelled, OutOfMemory, TooLarge };

const empty = group_slots.empty;
const slots_min_log2 = 10;
/// Keys of a direct table are no further apart. Its slots then fit the second-level cache.
const direct_span_max = 1 << 16;
/// Rows that are looked up together.
const block_rows = 1024;

const Mode = enum { direct, word, pair, text, general };

pub const GroupTable = struct {
    gpa: std.mem.Allocator,
    packing: group_keys.Packing,
    mode: Mode,
    count: u32 = 0,
    /// Every group's key, unless nobody asks for them.
    keys: []ColumnBuilder,
    keeps_keys: bool,
    /// Of one key: the group of NULL.
    null_group: u32 = empty,
    direct: Direct = .{},
    words: Slots(Word) = .{},
    pairs: Slots(Pair) = .{},
    /// General: the hash of every group, and slots of group numbers.
    hashes: std.ArrayList(u64) = .empty,
    numbers: []u32 = &.{},
    /// Rows of the last chunk that opened a group, in order.
    fresh: std.ArrayList(u32) = .empty,
    code_groups: CodeGroups = .{},

    pub const Options = struct {
        /// Whether `key_columns` will be asked for.
        keeps_keys: bool = true,
    };

    pub fn init(gpa: std.mem.Allocator, types: []const schema.DataType, options: Options) Error!GroupTable {
        const packing: group_keys.Packing = try .init(gpa, types);
        errdefer packing.deinit(gpa);
        const keys = try gpa.alloc(ColumnBuilder, types.len);
        errdefer gpa.free(keys);
        var ready: usize = 0;
        errdefer for (keys[0..ready]) |*key| key.deinit();
        for (keys, types) |*key, data_type| {
            key.* = try .init(gpa, data_type);
            ready += 1;
        }
        var self: GroupTable = .{
            .gpa = gpa,
            .packing = packing,
            .mode = switch (packing.form) {
                .integer => .direct,
                .word => .word,
                .pair => .pair,
                .text => .text,
                .none => .general,
            },
            .keys = keys,
            // Long texts are compared with what is kept, and packed ones may turn out to be long.
            .keeps_keys = options.keeps_keys or packing.has_text or packing.form == .none,
        };
        try self.open_slots();
        return self;
    }

    fn open_slots(self: *GroupTable) Error!void {
        switch (self.mode) {
            .direct => {},
            .word => try self.words.open(self.gpa, slots_min_log2),
            .pair, .text => try self.pairs.open(self.gpa, slots_min_log2),
            .general => {
                self.numbers = try self.gpa.alloc(u32, 1 << slots_min_log2);
                @memset(self.numbers, empty);
            },
        }
    }

    pub fn deinit(self: *GroupTable) void {
        for (self.keys) |*key| key.deinit();
        self.gpa.free(self.keys);
        self.packing.deinit(self.gpa);
        self.gpa.free(self.direct.slots);
        self.words.close(self.gpa);
        self.pairs.close(self.gpa);
        self.hashes.deinit(self.gpa);
        self.gpa.free(self.numbers);
        self.fresh.deinit(self.gpa);
        self.code_groups.groups.deinit(self.gpa);
        self.* = undefined;
    }

    /// Forgets all groups. The slots keep their number: the next lane's groups are as many, mostly.
    pub fn reset(self: *GroupTable) void {
        self.count = 0;
        self.null_group = empty;
        @memset(self.direct.slots, empty);
        self.direct.low = std.math.maxInt(i64);
        self.direct.high = std.math.minInt(i64);
        @memset(self.words.entries, .{});
        @memset(self.pairs.entries, .{});
        self.hashes.clearRetainingCapacity();
        @memset(self.numbers, empty);
        self.code_groups.id = 0;
        for (self.keys) |*key| key.reset();
    }

    /// Bytes of keys and slots.
    pub fn memory_size(self: *const GroupTable) u64 {
        var total: u64 = self.words.entries.len * @sizeOf(Word) + self.pairs.entries.len * @sizeOf(Pair);
        total += (self.direct.slots.len + self.numbers.len + self.fresh.items.len) * @sizeOf(u32);
        total += self.code_groups.groups.items.len * @sizeOf(u32) + self.hashes.items.len * @sizeOf(u64);
        for (self.keys) |*key| total += key.memory_size();
        return total;
    }

    pub fn group_count(self: *const GroupTable) u32 {
        return self.count;
    }

    /// The keys of all groups. Valid until the table changes.
    pub fn key_columns(self: *const GroupTable, arena: std.mem.Allocator) Error![]Column {
        assert(self.keys[0].row_count == self.count);
        const columns = try arena.alloc(Column, self.keys.len);
        for (columns, self.keys) |*column, *key| column.* = try key.finish(arena);
        return columns;
    }

    /// Writes the group of each of `rows` (null: all) of the key columns to `groups`.
    pub fn find_or_add(
        self: *GroupTable,
        arena: std.mem.Allocator,
        columns: []const Column,
        rows: ?[]const u32,
        groups: []u32,
    ) Error!void {
        assert(columns.len == self.keys.len);
        assert(groups.len == if (rows) |chosen| chosen.len else columns[0].row_count);
        self.fresh.clearRetainingCapacity();
        if (groups.len == 0) return;
        try self.fresh.ensureTotalCapacity(self.gpa, groups.len);
        if (columns.len == 1 and columns[0].coded != null) return self.find_coded(arena, &columns[0], rows, groups);
        const chunk: Chunk = .{ .columns = columns, .rows = rows, .groups = groups };
        if (columns.len == 1 and self.mode != .general and
            (columns[0].validity != null or columns[0].type.tag == .null))
        {
            try self.find_beside_null(arena, chunk);
        } else {
            try self.find(arena, chunk);
        }
        if (self.keeps_keys) {
            for (self.keys, columns) |*key, *column| try key.append_indices(column, self.fresh.items);
            assert(self.keys[0].row_count == self.count);
        }
    }

    const Chunk = struct {
        columns: []const Column,
        rows: ?[]const u32,
        groups: []u32,

        inline fn row(self: Chunk, i: usize) u32 {
            return if (self.rows) |chosen| chosen[i] else @intCast(i);
        }

        fn decoded(self: Chunk, arena: std.mem.Allocator) Error!Chunk {
            return .{
                .columns = try group_keys.decoded(arena, self.columns),
                .rows = self.rows,
                .groups = self.groups,
            };
        }

        fn as_rows(self: Chunk) Rows {
            return .{ .rows = self.rows, .groups = self.groups, .group_count = 0 };
        }
    };

    /// One key with NULLs: they have a group apart, and the other rows are looked up without asking.
    fn find_beside_null(self: *GroupTable, arena: std.mem.Allocator, chunk: Chunk) Error!void {
        const column = &chunk.columns[0];
        const places = try arena.alloc(u32, chunk.groups.len);
        const rows = try arena.alloc(u32, chunk.groups.len);
        var found: usize = 0;
        for (chunk.groups, 0..) |*group, i| {
            const row = chunk.row(i);
            places[found] = @intCast(i);
            rows[found] = row;
            if (column.is_valid(row)) {
                found += 1;
                continue;
            }
            if (self.null_group == empty) self.null_group = try self.open_group(row);
            group.* = self.null_group;
        }
        if (found == 0) return;
        const groups = try arena.alloc(u32, found);
        var plain = column.*;
        plain.validity = null;
        try self.find(arena, .{ .columns = &.{plain}, .rows = rows[0..found], .groups = groups });
        for (groups, places[0..found]) |group, place| chunk.groups[place] = group;
    }

    fn find(self: *GroupTable, arena: std.mem.Allocator, chunk: Chunk) Error!void {
        switch (self.mode) {
            .direct => {
                const keys = try rows_module.integers(arena, &chunk.columns[0], &chunk.as_rows(), 0);
                if (try self.cover(keys)) return self.find_direct(keys, chunk);
                try self.spread();
                try self.find_slots(Word, &self.words, Words{ .keys = @ptrCast(keys), .flags = null }, chunk);
            },
            .word => {
                const keys = try self.packing.words(arena, chunk.columns, &chunk.as_rows());
                assert(!keys.too_long);
                try self.find_slots(Word, &self.words, Words{ .keys = keys.a, .flags = keys.flags }, chunk);
            },
            .pair => {
                const keys = try self.packing.words(arena, chunk.columns, &chunk.as_rows());
                if (keys.too_long) {
                    try self.generalise(arena);
                    return self.find_general(arena, try chunk.decoded(arena));
                }
                try self.find_slots(Pair, &self.pairs, Pairs{ .keys = keys }, chunk);
            },
            .text => {
                // The group of NULL may have been opened by this chunk, which is not stored yet.
                const stored = try self.keys[0].finish(arena);
                try self.find_texts(.{
                    .fresh = &self.fresh,
                    .column = &chunk.columns[0],
                    .rows = chunk.rows,
                    .stored = &stored,
                    .known = stored.row_count,
                }, chunk);
            },
            .general => try self.find_general(arena, try chunk.decoded(arena)),
        }
    }

    fn open_group(self: *GroupTable, row: u32) Error!u32 {
        const group = self.count;
        if (group == empty - 1) return error.TooLarge;
        self.fresh.appendAssumeCapacity(row);
        self.count += 1;
        return group;
    }

    // ---- codes ----

    /// The groups of the entries of a dictionary, `empty` where that is not known.
    const CodeGroups = struct {
        /// Of the dictionary; 0 when there is none.
        id: u64 = 0,
        groups: std.ArrayList(u32) = .empty,
    };

    /// Stands for a group that is being looked for. No table has so many.
    const sought: u32 = empty - 1;

    fn find_coded(
        self: *GroupTable,
        arena: std.mem.Allocator,
        column: *const Column,
        rows: ?[]const u32,
        groups: []u32,
    ) Error!void {
        const coded = column.coded.?;
        if (self.code_groups.id != coded.id) {
            try self.code_groups.groups.resize(self.gpa, coded.dictionary.row_count);
            @memset(self.code_groups.groups.items, empty);
            self.code_groups.id = coded.id;
        }
        const known = self.code_groups.groups.items;
        const chunk: Chunk = .{ .columns = column[0..1], .rows = rows, .groups = groups };
        if (column.validity == null) {
            if (!look_up_codes(known, coded.codes, chunk)) return;
            var missed: std.ArrayList(u32) = try .initCapacity(arena, @min(known.len, groups.len));
            for (0..groups.len) |i| note_code(known, coded.codes[chunk.row(i)], &missed);
            try self.find_entries(arena, coded, missed.items);
            _ = look_up_codes(known, coded.codes, chunk);
            return;
        }
        var missed: std.ArrayList(u32) = try .initCapacity(arena, @min(known.len, groups.len));
        var has_null = false;
        for (0..groups.len) |i| {
            const row = chunk.row(i);
            if (column.is_valid(row)) note_code(known, coded.codes[row], &missed) else has_null = true;
        }
        try self.find_entries(arena, coded, missed.items);
        if (has_null and self.null_group == empty) {
            self.null_group = try self.open_group(0);
            self.fresh.clearRetainingCapacity();
            try self.keys[0].append_nulls(1);
        }
        for (groups, 0..) |*group, i| {
            const row = chunk.row(i);
            group.* = if (column.is_valid(row)) known[coded.codes[row]] else self.null_group;
        }
    }

    /// True when the group of some entry is not known.
    noinline fn look_up_codes(known: []const u32, codes: []const u32, chunk: Chunk) bool {
        var greatest: u32 = 0;
        if (chunk.rows) |rows| {
            for (chunk.groups, rows) |*group, row| {
                group.* = known[codes[row]];
                greatest = @max(greatest, group.*);
            }
        } else for (chunk.groups, codes[0..chunk.groups.len]) |*group, code| {
            group.* = known[code];
            greatest = @max(greatest, group.*);
        }
        return greatest == empty;
    }

    inline fn note_code(known: []u32, code: u32, missed: *std.ArrayList(u32)) void {
        if (known[code] != empty) return;
        known[code] = sought;
        missed.appendAssumeCapacity(code);
    }

    /// Looks up entries as if they were rows.
    fn find_entries(
        self: *GroupTable,
        arena: std.mem.Allocator,
        coded: *const column_module.Coded,
        entries: []const u32,
    ) Error!void {
        if (entries.len == 0) return;
        const groups = try arena.alloc(u32, entries.len);
        try self.find(arena, .{ .columns = (&coded.dictionary)[0..1], .rows = entries, .groups = groups });
        try self.keys[0].append_indices(&coded.dictionary, self.fresh.items);
        // They are entries, not rows of the chunk.
        self.fresh.clearRetainingCapacity();
        for (entries, groups) |entry, group| self.code_groups.groups.items[entry] = group;
    }

    // ---- direct ----

    const Direct = struct {
        slots: []u32 = &.{},
        /// The key of slot 0.
        base: i64 = 0,
        /// Least and greatest key so far.
        low: i64 = std.math.maxInt(i64),
        high: i64 = std.math.minInt(i64),
    };

    /// Makes the slots reach over all keys; false when they lie too far apart.
    fn cover(self: *GroupTable, keys: []const i64) Error!bool {
        const direct = &self.direct;
        const low = @min(direct.low, reduce.min(i64, keys, null).?);
        const high = @max(direct.high, reduce.max(i64, keys, null).?);
        const span = @as(i128, high) - low + 1;
        if (span > direct_span_max) return false;
        direct.low = low;
        direct.high = high;
        const end = @as(i128, direct.base) + direct.slots.len;
        if (direct.slots.len > 0 and low >= direct.base and high < end) return true;
        const size = @max(256, @min(direct_span_max, std.math.ceilPowerOfTwoAssert(u32, @intCast(span)) * 2));
        const slots = try self.gpa.alloc(u32, size);
        @memset(slots, empty);
        // Room on both sides, within what an integer can be.
        const room: i64 = @intCast(@divFloor(@as(i128, size) - span, 2));
        const base = @min(low -| room, std.math.maxInt(i64) - @as(i64, size) + 1);
        for (direct.slots, 0..) |group, i| {
            if (group != empty) slots[@intCast(direct.base + @as(i64, @intCast(i)) - base)] = group;
        }
        self.gpa.free(direct.slots);
        direct.slots = slots;
        direct.base = base;
        return true;
    }

    fn find_direct(self: *GroupTable, keys: []const i64, chunk: Chunk) Error!void {
        const slots = self.direct.slots;
        const base = self.direct.base;
        if (!look_up_direct(slots, base, keys, chunk.groups)) return;
        for (chunk.groups, keys, 0..) |*found, key, i| {
            if (found.* != empty) continue;
            const slot = &slots[@intCast(key - base)];
            if (slot.* == empty) slot.* = try self.open_group(chunk.row(i));
            found.* = slot.*;
        }
    }

    /// True when some key is new.
    noinline fn look_up_direct(slots: []const u32, base: i64, keys: []const i64, groups: []u32) bool {
        var greatest: u32 = 0;
        for (groups, keys) |*group, key| {
            group.* = slots[@intCast(key - base)];
            greatest = @max(greatest, group.*);
        }
        return greatest == empty;
    }

    /// From direct to words.
    fn spread(self: *GroupTable) Error!void {
        const direct = &self.direct;
        var log2: u6 = slots_min_log2;
        while (@as(usize, self.count) * 20 > (@as(usize, 1) << @intCast(log2)) * 9) log2 += 1;
        try self.words.open(self.gpa, log2);
        for (direct.slots, 0..) |group, i| {
            if (group == empty) continue;
            const key: u64 = @bitCast(direct.base + @as(i64, @intCast(i)));
            self.words.put(.{ .key = key, .group = group });
        }
        self.gpa.free(direct.slots);
        direct.* = .{};
        self.mode = .word;
    }

    // ---- words and pairs in slots ----

    /// A reader gives the key of row i, and says whether a group with the same words has the same key.
    ///
    /// Most rows find their group in the first slot they look at. So a block of rows looks there, without a
    /// branch, and notes those that did not find it; these then search on, one by one and in order.
    fn find_slots(
        self: *GroupTable,
        comptime Entry: type,
        slots: *Slots(Entry),
        reader: anytype,
        chunk: Chunk,
    ) Error!void {
        var missed: [block_rows]u32 = undefined;
        var start: usize = 0;
        while (start < chunk.groups.len) : (start += block_rows) {
            const end = @min(start + block_rows, chunk.groups.len);
            const count =
                look_up(Entry, slots.entries, slots.shift(), reader, start, chunk.groups[start..end], &missed);
            for (missed[0..count]) |i|
                chunk.groups[i] = try self.search(Entry, slots, reader, reader.key(i), i, chunk.row(i));
        }
    }

    /// A function of its own, so that everything it needs is in registers.
    noinline fn look_up(
        comptime Entry: type,
        entries: []const Entry,
        shift: u6,
        reader: anytype,
        start: usize,
        groups: []u32,
        missed: *[block_rows]u32,
    ) usize {
        const own = reader;
        var count: usize = 0;
        for (groups, start..) |*group, i| {
            const key: Entry = own.key(i);
            const entry = entries[@intCast(key.hash() >> shift)];
            group.* = entry.group;
            missed[count] = @intCast(i);
            count += @intFromBool(entry.differs(key)) | @intFromBool(entry.group == empty);
        }
        return count;
    }

    /// The same for texts. The words of long ones do not prove that they are equal: those that seem found
    /// are compared after the whole block has looked, so that no row waits for the bytes of another.
    fn find_texts(self: *GroupTable, texts: Texts, chunk: Chunk) Error!void {
        var keys: [block_rows]Pair = undefined;
        var missed: [block_rows]u32 = undefined;
        var doubtful: [block_rows]u32 = undefined;
        var start: usize = 0;
        while (start < chunk.groups.len) : (start += block_rows) {
            const groups = chunk.groups[start..@min(start + block_rows, chunk.groups.len)];
            texts.read_keys(start, keys[0..groups.len]);
            var counts =
                look_up_texts(self.pairs.entries, self.pairs.shift(), keys[0..groups.len], groups, &missed, &doubtful);
            for (doubtful[0..counts.doubtful]) |i| {
                if (texts.same(start + i, groups[i])) continue;
                missed[counts.missed] = i;
                counts.missed += 1;
            }
            for (missed[0..counts.missed]) |i| {
                groups[i] =
                    try self.search(Pair, &self.pairs, texts, keys[i], @intCast(start + i), chunk.row(start + i));
            }
        }
    }

    const TextCounts = struct { missed: usize, doubtful: usize };

    noinline fn look_up_texts(
        entries: []const Pair,
        shift: u6,
        keys: []const Pair,
        groups: []u32,
        missed: *[block_rows]u32,
        doubtful: *[block_rows]u32,
    ) TextCounts {
        var counts: TextCounts = .{ .missed = 0, .doubtful = 0 };
        for (groups, keys, 0..) |*group, key, i| {
            const entry = entries[@intCast(key.hash() >> shift)];
            group.* = entry.group;
            const differs = entry.differs(key) or entry.group == empty;
            missed[counts.missed] = @intCast(i);
            counts.missed += @intFromBool(differs);
            doubtful[counts.doubtful] = @intCast(i);
            counts.doubtful += @intFromBool(!differs and key.extra > 16);
        }
        return counts;
    }

    fn search(
        self: *GroupTable,
        comptime Entry: type,
        slots: *Slots(Entry),
        reader: anytype,
        key: Entry,
        i: u32,
        row: u32,
    ) Error!u32 {
        const entries = slots.entries;
        var slot: usize = @intCast(key.hash() >> slots.shift());
        while (true) : (slot = (slot + 1) & (entries.len - 1)) {
            const entry = &entries[slot];
            if (entry.group == empty) {
                const group = try self.open_group(row);
                entry.* = key;
                entry.group = group;
                if (@as(u64, self.count) * 20 > entries.len * 9) try slots.grow(self.gpa);
                return group;
            }
            if (!entry.differs(key) and (reader.is_exact(key) or reader.same(i, entry.group))) return entry.group;
        }
    }

    // ---- general ----

    /// Packed texts turned out too long: hashes and numbers for the groups so far.
    fn generalise(self: *GroupTable, arena: std.mem.Allocator) Error!void {
        const columns = try self.key_columns(arena);
        const hashes = try self.hashes.addManyAsSlice(self.gpa, self.count);
        for (columns, 0..) |*column, i| hash.hash_column(column, 0, hashes, if (i == 0) .first else .combine);
        self.pairs.close(self.gpa);
        self.pairs = .{};
        self.mode = .general;
        var size: usize = 1 << slots_min_log2;
        while (hashes.len * 20 > size * 9) size *= 2;
        try self.place_numbers(size);
    }

    fn place_numbers(self: *GroupTable, size: usize) Error!void {
        const numbers = try self.gpa.alloc(u32, size);
        errdefer self.gpa.free(numbers);
        @memset(numbers, empty);
        const shift: u6 = @intCast(64 - @as(u7, std.math.log2_int(usize, size)));
        for (self.hashes.items, 0..) |group_hash, group| {
            if (group % interrupt.block_rows == 0) try interrupt.check();
            var slot: usize = @intCast(group_hash >> shift);
            while (numbers[slot] != empty) slot = (slot + 1) & (size - 1);
            numbers[slot] = @intCast(group);
        }
        self.gpa.free(self.numbers);
        self.numbers = numbers;
    }

    fn find_general(self: *GroupTable, arena: std.mem.Allocator, chunk: Chunk) Error!void {
        const hashes = try arena.alloc(u64, chunk.columns[0].row_count);
        for (chunk.columns, 0..) |*column, i| hash.hash_column(column, 0, hashes, if (i == 0) .first else .combine);
        const stored = try arena.alloc(Column, self.keys.len);
        for (stored, self.keys) |*to, *from| to.* = try from.finish(arena);
        const known = self.count;
        var shift: u6 = @intCast(64 - @as(u7, std.math.log2_int(usize, self.numbers.len)));
        for (chunk.groups, 0..) |*found, i| {
            const row = chunk.row(i);
            var slot: usize = @intCast(hashes[row] >> shift);
            found.* = while (true) : (slot = (slot + 1) & (self.numbers.len - 1)) {
                const group = self.numbers[slot];
                if (group == empty) {
                    try self.hashes.append(self.gpa, hashes[row]);
                    self.numbers[slot] = try self.open_group(row);
                    if (self.hashes.items.len * 20 > self.numbers.len * 9) {
                        try self.place_numbers(self.numbers.len * 2);
                        shift -= 1;
                    }
                    break self.count - 1;
                }
                if (self.hashes.items[group] != hashes[row]) continue;
                const equal = if (group < known)
                    group_keys.rows_equal(chunk.columns, row, stored, group)
                else
                    group_keys.rows_equal(chunk.columns, row, chunk.columns, self.fresh.items[group - known]);
                if (equal) break group;
            };
        }
    }
};

const testing = std.testing;

fn plain_column(comptime T: type, tag: schema.TypeTag, values: []align(16) const T) Column {
    return .{ .type = .of(tag), .row_count = @intCast(values.len), .data = std.mem.sliceAsBytes(values) };
}

test "groups are numbered by first appearance and survive growth" {
    const gpa = testing.allocator;
    // Close together, far apart, and close together at first.
    for ([_][2]i64{ .{ 1, 0 }, .{ 7919 << 20, 0 }, .{ 1, 1 << 40 } }) |shape| {
        var table: GroupTable = try .init(gpa, &.{.of(.i64)}, .{});
        defer table.deinit();
        var arena: Arena = .init(gpa);
        defer arena.deinit();
        const count = 4096;
        const values = try gpa.alignedAlloc(i64, .@"16", count);
        defer gpa.free(values);
        var groups: [count]u32 = undefined;
        for (0..2) |_| {
            for (0..3) |round| {
                for (values, 0..) |*value, i| {
                    const number: i64 = @intCast((i / 2) + round * count / 2);
                    value.* = -500 + number * shape[0] + @as(i64, @intCast(round)) * shape[1];
                }
                try table.find_or_add(arena.allocator(), &.{plain_column(i64, .i64, values)}, null, &groups);
                for (groups, 0..) |group, i| try testing.expectEqual(round * count / 2 + i / 2, group);
            }
            try testing.expectEqual(3 * count / 2, table.group_count());
            const keys = try table.key_columns(arena.allocator());
            try testing.expectEqual(values[count - 1], keys[0].values(i64)[3 * count / 2 - 1]);
            table.reset();
        }
    }
}

test "NULL, NaN and zero are one group each" {
    const gpa = testing.allocator;
    var table: GroupTable = try .init(gpa, &.{.of(.f64)}, .{});
    defer table.deinit();
    var arena: Arena = .init(gpa);
    defer arena.deinit();
    const nan = std.math.nan(f64);
    const values: [8]f64 align(16) = .{ 0, -0.0, nan, -nan, 1, 5, 7, 0 };
    const column: Column =
        .{ .type = .of(.f64), .row_count = 8, .validity = &.{0b1001_1111}, .data = std.mem.sliceAsBytes(&values) };
    var groups: [8]u32 = undefined;
    try table.find_or_add(arena.allocator(), &.{column}, &.{ 0, 1, 2, 3, 4, 5, 6, 7 }, &groups);
    try testing.expectEqual(groups[0], groups[1]);
    try testing.expectEqual(groups[0], groups[7]);
    try testing.expectEqual(groups[2], groups[3]);
    try testing.expectEqual(groups[5], groups[6]);
    try testing.expectEqual(4, table.group_count());
    const keys = try table.key_columns(arena.allocator());
    for (groups, 0..) |group, row| try testing.expectEqual(column.is_valid(row), keys[0].is_valid(group));
}

test "texts of every length, and those that share words" {
    const gpa = testing.allocator;
    var table: GroupTable = try .init(gpa, &.{.of(.utf8)}, .{});
    defer table.deinit();
    var arena: Arena = .init(gpa);
    defer arena.deinit();
    // Lengths from 0 on, twice, the same bytes: only the length tells them apart.
    for ([_]u32{ 16, 20, 33, 40 }) |count| {
        table.reset();
        var bytes: [1600]u8 align(16) = @splat('a');
        var many: [81]u32 = undefined;
        many[0] = 0;
        for (many[1..], 0..) |*offset, i| offset.* = many[i] + @as(u32, @intCast(i % count));
        const texts: Column =
            .{ .type = .of(.utf8), .row_count = 2 * count, .data = bytes[0..many[2 * count]], .offsets = &many };
        var buffer: [80]u32 = undefined;
        const groups = buffer[0 .. 2 * count];
        try table.find_or_add(arena.allocator(), &.{texts}, null, groups);
        for (groups, 0..) |group, i| try testing.expectEqual(i % count, group);
        bytes[many[count] - 1] = 'b'; // the last byte of the longest
        try table.find_or_add(arena.allocator(), &.{texts}, null, groups);
        try testing.expectEqual(count, groups[count - 1]);
        try testing.expectEqual(count - 1, groups[2 * count - 1]);
        // The same rows in another order.
        const rows = [_]u32{ 2 * count - 1, 3, count - 1 };
        try table.find_or_add(arena.allocator(), &.{texts}, &rows, groups[0..3]);
        try testing.expectEqualSlices(u32, &.{ count - 1, 3, count }, groups[0..3]);
    }
}

test "several keys in a word, in a pair, and in neither" {
    const gpa = testing.allocator;
    var arena: Arena = .init(gpa);
    defer arena.deinit();
    const small: [6]i16 align(16) = .{ 1, 1, -1, 1, 1, 5 };
    const dates: [6]i32 align(16) = .{ 7, 8, 7, 7, 7, 0 };
    const doubles: [6]f64 align(16) = .{ 0.0, 0.5, 0.0, -0.0, 0.0, 1 };
    const text: [24]u8 align(16) = "abababaverylongtextababx".*;
    const short: Column = .{ .type = .of(.utf8), .row_count = 6, .data = &text, .offsets = &.{ 0, 2, 4, 6, 6, 6, 6 } };
    const long: Column =
        .{ .type = .of(.utf8), .row_count = 6, .data = &text, .offsets = &.{ 0, 2, 4, 6, 19, 21, 23 } };
    const a = plain_column(i16, .i16, &small);
    var b = plain_column(i32, .date, &dates);
    const c = plain_column(f64, .f64, &doubles);
    b.validity = &.{0b01_1111};
    var groups: [6]u32 = undefined;
    {
        var table: GroupTable = try .init(gpa, &.{ .of(.i16), .of(.date) }, .{});
        defer table.deinit();
        try table.find_or_add(arena.allocator(), &.{ a, b }, null, &groups);
        try testing.expectEqual(.word, table.mode);
        try testing.expectEqualSlices(u32, &.{ 0, 1, 2, 0, 0, 3 }, &groups);
    }
    {
        var table: GroupTable = try .init(gpa, &.{ .of(.date), .of(.f64) }, .{});
        defer table.deinit();
        try table.find_or_add(arena.allocator(), &.{ b, c }, null, &groups);
        try testing.expectEqual(.pair, table.mode);
        try testing.expectEqualSlices(u32, &.{ 0, 1, 0, 0, 0, 2 }, &groups);
    }
    {
        var table: GroupTable = try .init(gpa, &.{ .of(.utf8), .of(.i16) }, .{});
        defer table.deinit();
        try table.find_or_add(arena.allocator(), &.{ short, a }, null, &groups);
        try testing.expectEqual(.pair, table.mode);
        try testing.expectEqualSlices(u32, &.{ 0, 0, 1, 2, 2, 3 }, &groups);
        try table.find_or_add(arena.allocator(), &.{ long, a }, null, &groups);
        try testing.expectEqual(.general, table.mode);
        try testing.expectEqualSlices(u32, &.{ 0, 0, 1, 4, 0, 5 }, &groups);
        table.reset();
        try table.find_or_add(arena.allocator(), &.{ short, a }, null, &groups);
        try testing.expectEqualSlices(u32, &.{ 0, 0, 1, 2, 2, 3 }, &groups);
    }
}

test "keys at the ends of their type" {
    const gpa = testing.allocator;
    var arena: Arena = .init(gpa);
    defer arena.deinit();
    const least = std.math.minInt(i64);
    const most = std.math.maxInt(i64);
    const tables = [_][4]i64{
        .{ most, most - 1, most - 5, most },
        .{ least, least + 1, least + 300, least },
        .{ least, most, 0, least },
        .{ -1, 0, 1, -1 },
    };
    for (tables) |keys| {
        var table: GroupTable = try .init(gpa, &.{.of(.i64)}, .{ .keeps_keys = false });
        defer table.deinit();
        const values: [4]i64 align(16) = keys;
        var groups: [4]u32 = undefined;
        for (0..2) |_| {
            try table.find_or_add(arena.allocator(), &.{plain_column(i64, .i64, &values)}, null, &groups);
            try testing.expectEqualSlices(u32, &.{ 0, 1, 2, 0 }, &groups);
        }
    }
}

test "codes of a dictionary and the values themselves give the same groups" {
    const gpa = testing.allocator;
    var arena: Arena = .init(gpa);
    defer arena.deinit();
    var prng: std.Random.DefaultPrng = .init(11);
    const random = prng.random();
    // An entry that stands there twice, an empty one, and some too long for a word.
    const entries = [_][]const u8{
        "a",
        "",
        "seven77",
        "a",
        "a text of more than sixteen bytes",
        "eight888",
        "another text of more than sixteen bytes",
    };
    const count = 300;
    for ([_]bool{
        false,
        true,
    }) |has_nulls| for ([_]usize{ 3, entries.len }) |entry_count| for ([_]bool{ false, true }) |beside| {
        var dictionary: ColumnBuilder = try .init(arena.allocator(), .of(.utf8));
        for (entries[0..entry_count]) |text| {
            const data = try arena.allocator().alignedAlloc(u8, .@"16", text.len);
            @memcpy(data, text);
            const one: Column = .{ .type = .of(.utf8), .row_count = 1, .data = data, .offsets = &.{
                0,
                @intCast(text.len),
            } };
            try dictionary.append_range(&one, 0, 1);
        }
        const types: []const schema.DataType = if (beside) &.{ .of(.utf8), .of(.i64) } else &.{.of(.utf8)};
        var coded_table: GroupTable = try .init(gpa, types, .{});
        defer coded_table.deinit();
        var plain_table: GroupTable = try .init(gpa, types, .{});
        defer plain_table.deinit();
        for (0..4) |round| {
            const codes = try arena.allocator().alloc(u32, count);
            for (codes) |*code| code.* = random.uintLessThan(u32, @intCast(entry_count));
            const bits = try arena.allocator().alloc(u8, count / 8 + 1);
            random.bytes(bits);
            const numbers = try arena.allocator().alignedAlloc(i64, .@"16", count);
            for (numbers) |*number| number.* = random.uintLessThan(u8, 3);
            const coded: column_module.Coded = .{
                .codes = codes,
                .dictionary = try dictionary.finish(arena.allocator()),
                .id = round / 2 + 1,
            };
            const text: Column = .{ .type = .of(.utf8), .row_count = count, .validity = if (has_nulls)
                bits
            else
                null, .coded = &coded };
            const columns: []const Column = if (beside) &.{ text, plain_column(i64, .i64, numbers) } else &.{text};
            const rows = try arena.allocator().alloc(u32, count / 2);
            for (rows, 0..) |*row, i| row.* = @intCast(i * 2 + 1);
            const chosen: ?[]const u32 = if (round % 2 == 0) null else rows;
            var groups: [2][count]u32 = undefined;
            const size = if (chosen) |some| some.len else count;
            try coded_table.find_or_add(arena.allocator(), columns, chosen, groups[0][0..size]);
            try plain_table.find_or_add(
                arena.allocator(),
                try group_keys.decoded(arena.allocator(), columns),
                chosen,
                groups[1][0..size],
            );
            try testing.expectEqual(plain_table.count, coded_table.count);
            const keys = try coded_table.key_columns(arena.allocator());
            const wanted = try plain_table.key_columns(arena.allocator());
            for (groups[0][0..size], groups[1][0..size]) |a, b|
                try testing.expect(group_keys.rows_equal(keys, a, wanted, b));
        }
    };
}
