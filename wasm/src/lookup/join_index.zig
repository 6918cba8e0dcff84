//! Two ways from a row's word to the build's rows with the same word.
//!
//!     dense   words span few more values than there are rows: places by value or, where that would take
//!             too much, a bit for each value and a count of the bits before every 64 of them
//!     slots   anything else: open addressing by the word's hash, where neighbours follow in memory
//!
//! A place is a row of the build when no two rows have the same word. Else the rows are ordered so that
//! those of one word lie side by side, in the order they came in, and a place is where they begin.
//!
//! Both are asked a block of words at a time, in loops that do one thing each: the one that reads the
//! index only copies what it reads. Many of its loads are then under way at once, which stands in for
//! the prefetching that wasm lacks, and halves the time of an index larger than the cache.
const std = @import("std");
const interrupt = @import("../core/interrupt.zig");
const BlockFilter = @import("../kernel/block_filter.zig").BlockFilter;
const place_of = @import("../kernel/block_filter.zig").place;
const assert = std.debug.assert;

pub const Error = error{ Cancelled, OutOfMemory };

/// Rows that are looked up together: what is known of them stays in the first-level cache.
pub const block_rows = 512;

/// No such row.
pub const none: u32 = std.math.maxInt(u32);

/// Values of the domain for each row, up to which every value has a place of its own.
const direct_values_per_row = 4;
const direct_values_always = 1 << 16;

/// 64 values: which of them are there, and how many are before them.
const Ranks = extern struct { bits: u64, before: u64 };

pub const Dense = struct {
    domain: u64,
    row_count: u32,
    unique: bool = true,
    ranks: []Ranks,
    /// By value, and one for words outside of the domain: a row or `none`; or where a value's rows begin.
    direct: []u32 = &.{},
    /// By rank: where a value's rows begin.
    starts: []u32 = &.{},
    /// Rows by value; null when they came in that order.
    order: ?[]u32 = null,
    /// The nth row has the nth value of the domain.
    is_identity: bool = false,

    /// `source.words(start, words)` gives the words of rows from `start` on.
    pub fn init(gpa: std.mem.Allocator, source: anytype, row_count: u32, domain: u64) Error!Dense {
        // One bit more, for words outside of the domain: it is never set.
        const ranks = try gpa.alloc(Ranks, @intCast(domain / 64 + 1));
        @memset(ranks, .{ .bits = 0, .before = 0 });
        var self: Dense = .{ .domain = domain, .row_count = row_count, .ranks = ranks };
        errdefer self.deinit(gpa);
        var marker: Marker = .{ .ranks = ranks };
        try each_word(source, row_count, &marker);
        var total: u64 = 0;
        for (ranks) |*block| {
            block.before = total;
            total += @popCount(block.bits);
        }
        self.unique = total == row_count;
        self.is_identity = self.unique and marker.rising and domain == row_count;
        if (self.is_identity) return self;
        const direct = domain <= @max(direct_values_always, @as(u64, row_count) * direct_values_per_row);
        if (self.unique and !(marker.rising and !direct)) try self.place_rows(gpa, source, direct);
        if (!self.unique) try self.place_runs(gpa, source, if (direct) domain else total, marker.rising);
        return self;
    }

    pub fn deinit(self: *Dense, gpa: std.mem.Allocator) void {
        gpa.free(self.ranks);
        gpa.free(self.direct);
        gpa.free(self.starts);
        if (self.order) |order| gpa.free(order);
        self.* = undefined;
    }

    pub fn memory_size(self: *const Dense) u64 {
        const order_len = if (self.order) |order| order.len else 0;
        return self.ranks.len * @sizeOf(Ranks) + (self.direct.len + self.starts.len + order_len) * @sizeOf(u32);
    }

    inline fn rank_of(self: *const Dense, word: u64) u32 {
        const block = self.ranks.ptr[@intCast(word >> 6)];
        return @intCast(block.before + @popCount(block.bits & ((@as(u64, 1) << @truncate(word)) - 1)));
    }

    /// One row a value: rows by value, or by rank.
    fn place_rows(self: *Dense, gpa: std.mem.Allocator, source: anytype, by_value: bool) Error!void {
        // One more for what is not there.
        const rows = try gpa.alloc(u32, @intCast((if (by_value) self.domain else self.row_count) + 1));
        @memset(rows, none);
        if (by_value) self.direct = rows else self.order = rows;
        if (by_value) {
            try each_word(source, self.row_count, &struct {
                rows: []u32,
                fn take(writer: @This(), word: u64, row: u32) void {
                    writer.rows[@intCast(word)] = row;
                }
            }{ .rows = rows });
        } else {
            try each_word(source, self.row_count, &struct {
                rows: []u32,
                dense: *const Dense,
                fn take(writer: @This(), word: u64, row: u32) void {
                    writer.rows[writer.dense.rank_of(word)] = row;
                }
            }{ .rows = rows, .dense = self });
        }
    }

    /// Several rows a value: where each of `value_count` values or ranks begins, and the rows in order.
    fn place_runs(self: *Dense, gpa: std.mem.Allocator, source: anytype, value_count: u64, rising: bool) Error!void {
        const by_value = value_count == self.domain;
        // Two more: the last one's end, and a value without rows for words outside of the domain.
        const starts = try gpa.alloc(u32, @intCast(value_count + 2));
        @memset(starts, 0);
        if (by_value) self.direct = starts else self.starts = starts;
        try each_word(source, self.row_count, &struct {
            starts: []u32,
            dense: ?*const Dense,
            fn take(counter: @This(), word: u64, _: u32) void {
                const value: u64 = if (counter.dense) |dense| dense.rank_of(word) else word;
                counter.starts[@intCast(value + 1)] += 1;
            }
        }{ .starts = starts, .dense = if (by_value) null else self });
        var total: u32 = 0;
        for (starts) |*start| {
            total += start.*;
            start.* = total;
        }
        if (rising) return;
        const order = try gpa.alloc(u32, self.row_count);
        self.order = order;
        // A start moves on to its end meanwhile, which is the next one's start.
        try each_word(source, self.row_count, &struct {
            starts: []u32,
            order: []u32,
            dense: ?*const Dense,
            fn take(writer: @This(), word: u64, row: u32) void {
                const value: u64 = if (writer.dense) |dense| dense.rank_of(word) else word;
                const start = &writer.starts[@intCast(value)];
                writer.order[start.*] = row;
                start.* += 1;
            }
        }{ .starts = starts, .order = order, .dense = if (by_value) null else self });
        std.mem.copyBackwards(u32, starts[1..], starts[0 .. starts.len - 1]);
        starts[0] = 0;
    }

    /// From here on a place stands for the row at it in the list that is returned, to be freed, and rows of
    /// one value have places side by side. Where values are unique, a place then is a value's rank: a
    /// look-up needs the bits alone, or nothing at all. null where nothing changes.
    pub fn take_order(self: *Dense, gpa: std.mem.Allocator) Error!?[]u32 {
        if (!self.unique) {
            defer self.order = null;
            return self.order;
        }
        if (self.is_identity) return null;
        const rows = if (self.direct.len > 0) try self.rows_by_rank(gpa) else self.order orelse return null;
        gpa.free(self.direct);
        self.direct = &.{};
        self.order = null;
        self.is_identity = self.domain == self.row_count;
        return rows;
    }

    fn rows_by_rank(self: *const Dense, gpa: std.mem.Allocator) Error![]u32 {
        const rows = try gpa.alloc(u32, self.row_count);
        errdefer gpa.free(rows);
        var rank: usize = 0;
        for (self.direct, 0..) |row, value| {
            if (value % interrupt.block_rows == 0) try interrupt.check();
            if (row == none) continue;
            rows[rank] = row;
            rank += 1;
        }
        assert(rank == rows.len);
        return rows;
    }

    /// Writes the place of each word `words.at(i)`, `none` where it is not there, and, unless unique, the
    /// number of its rows.
    pub fn find(self: *const Dense, words: anytype, places: []u32, counts: []u32) void {
        const domain = self.domain;
        if (self.is_identity) {
            for (places, 0..) |*place, i| place.* = if (words.at(i) < domain) @intCast(words.at(i)) else none;
        } else if (self.unique and self.direct.len > 0) {
            for (places, 0..) |*place, i| place.* = self.direct.ptr[@intCast(@min(words.at(i), domain))];
        } else if (self.unique) {
            for (places, 0..) |*place, i| place.* = self.find_rank(@min(words.at(i), domain), none);
            // The order's last entry is none's.
            if (self.order) |order| for (places) |*place| {
                place.* = order.ptr[@min(place.*, self.row_count)];
            };
        } else {
            self.find_runs(words, places, counts);
        }
    }

    inline fn find_rank(self: *const Dense, word: u64, missing: u32) u32 {
        const block = self.ranks.ptr[@intCast(word >> 6)];
        const rank: u32 = @intCast(block.before + @popCount(block.bits & ((@as(u64, 1) << @truncate(word)) - 1)));
        return if (block.bits >> @truncate(word) & 1 != 0) rank else missing;
    }

    fn find_runs(self: *const Dense, words: anytype, places: []u32, counts: []u32) void {
        const by_value = self.direct.len > 0;
        const starts = if (by_value) self.direct else self.starts;
        const missing: u32 = @intCast(starts.len - 2);
        if (by_value) {
            for (places, counts, 0..) |*place, *count, i| {
                const run = starts.ptr[@intCast(@min(words.at(i), self.domain))..][0..2].*;
                place.*, count.* = run;
            }
        } else {
            for (places, 0..) |*place, i| place.* = self.find_rank(@min(words.at(i), self.domain), missing);
            for (places, counts) |*place, *count| {
                const run = starts.ptr[place.*..][0..2].*;
                place.*, count.* = run;
            }
        }
        for (places, counts) |*place, *count| {
            count.* -= place.*;
            if (count.* == 0) place.* = none;
        }
    }

    /// Writes a bit for each word: whether it is there. Bits past the count are 0.
    pub fn find_bits(self: *const Dense, words: anytype, count: usize, bits: []u8) void {
        const whole = count / 8;
        for (bits[0..whole], 0..) |*byte, i| {
            var value: u8 = 0;
            inline for (0..8) |bit| value |= @as(u8, self.bit_of(words.at(i * 8 + bit))) << bit;
            byte.* = value;
        }
        if (count % 8 == 0) return;
        bits[whole] = 0;
        for (whole * 8..count) |i| bits[whole] |= @as(u8, self.bit_of(words.at(i))) << @truncate(i);
    }

    inline fn bit_of(self: *const Dense, word: u64) u1 {
        const value = @min(word, self.domain);
        return @truncate(self.ranks.ptr[@intCast(value >> 6)].bits >> @truncate(value));
    }
};

/// Hands every row's word to `taker`.
fn each_word(source: anytype, row_count: u32, taker: anytype) Error!void {
    var words: [block_rows]u64 = undefined;
    var row: u32 = 0;
    while (row < row_count) {
        try interrupt.check();
        const count = @min(block_rows, row_count - row);
        source.words(row, words[0..count]);
        for (words[0..count]) |word| {
            taker.take(word, row);
            row += 1;
        }
    }
}

const Marker = struct {
    ranks: []Ranks,
    rising: bool = true,
    last: u64 = 0,

    fn take(self: *Marker, word: u64, _: u32) void {
        self.rising = self.rising and word >= self.last;
        self.last = word;
        self.ranks[@intCast(word >> 6)].bits |= @as(u64, 1) << @truncate(word);
    }
};

/// Rows in the order they are inserted: as they came, or, where there are more slots than fit the cache,
/// roughly in the order of their slots.
const Entries = struct {
    words: []u64 = &.{},
    rows: []u32 = &.{},

    /// A part's slots take 128 KiB.
    const part_slots = 8192;
    const parts_log2_max = 10;

    fn init(gpa: std.mem.Allocator, row_count: u32, slot_count: usize) Error!Entries {
        if (slot_count <= 4 * part_slots) return .{};
        const words = try gpa.alloc(u64, row_count);
        errdefer gpa.free(words);
        return .{ .words = words, .rows = try gpa.alloc(u32, row_count) };
    }

    fn deinit(self: *Entries, gpa: std.mem.Allocator) void {
        gpa.free(self.words);
        gpa.free(self.rows);
    }

    inline fn row_at(self: *const Entries, i: usize) u32 {
        return if (self.rows.len > 0) self.rows[i] else @intCast(i);
    }

    /// By the hash's upper bits, which choose the slot; rows of one word stay in their order.
    fn sort(self: *Entries, source: anytype, row_count: u32) Error!void {
        const parts = @as(usize, row_count) * 2 / part_slots;
        const log2 = @min(parts_log2_max, std.math.log2_int(usize, parts) + 1);
        var starts: [(1 << parts_log2_max) + 1]u32 = @splat(0);
        const shift: u6 = @intCast(64 - @as(u7, log2));
        try each_word(source, row_count, &struct {
            source: @TypeOf(source),
            starts: []u32,
            shift: u6,
            fn take(counter: @This(), word: u64, _: u32) void {
                counter.starts[@intCast((counter.source.hash(word) >> counter.shift) + 1)] += 1;
            }
        }{ .source = source, .starts = &starts, .shift = shift });
        for (starts[1..], starts[0 .. starts.len - 1]) |*start, before| start.* += before;
        try each_word(source, row_count, &struct {
            source: @TypeOf(source),
            starts: []u32,
            shift: u6,
            entries: *Entries,
            fn take(writer: @This(), word: u64, row: u32) void {
                const start = &writer.starts[@intCast(writer.source.hash(word) >> writer.shift)];
                writer.entries.words[start.*] = word;
                writer.entries.rows[start.*] = row;
                start.* += 1;
            }
        }{ .source = source, .starts = &starts, .shift = shift, .entries = self });
    }
};

/// Slots of a cache line.
const line_slots = 4;

/// The slots where a word may be: those of its line, from its own on and round, then of the next line.
const Walk = struct {
    position: usize,
    steps: u32 = 0,

    inline fn init(hash: u64, slot_count: usize) Walk {
        return .{ .position = place_of(hash, slot_count) };
    }

    inline fn step(self: *Walk, slot_count: usize) void {
        const mask = line_slots - 1;
        self.steps +%= 1;
        self.position = (self.position & ~@as(usize, mask)) | ((self.position + 1) & mask);
        if (self.steps & mask != 0) return;
        self.position += line_slots;
        if (self.position >= slot_count) self.position -= slot_count;
    }
};

/// A word, and the place and number of its rows; no rows: a free slot.
const Slot = extern struct { word: u64, place: u32, count: u32 };

pub const Slots = struct {
    slots: []align(64) Slot,
    unique: bool = true,
    /// Rows by slot, when some have the same word.
    order: ?[]u32 = null,

    /// `source` as above; `source.hash(word)` is a word's hash, and `source.same(a, b)` says whether two
    /// rows with the same word are equal. Words also go into `filter`.
    pub fn init(gpa: std.mem.Allocator, source: anytype, row_count: u32, filter: ?*BlockFilter) Error!Slots {
        const wanted = std.mem.alignForward(u64, @max(16, @as(u64, row_count) * 2), line_slots);
        const slot_count = std.math.cast(usize, wanted) orelse return error.OutOfMemory;
        var self: Slots = .{ .slots = try gpa.alignedAlloc(Slot, .@"64", slot_count) };
        errdefer self.deinit(gpa);
        var entries: Entries = try .init(gpa, row_count, slot_count);
        defer entries.deinit(gpa);
        if (entries.words.len > 0) try entries.sort(source, row_count);
        const slot_of = try gpa.alloc(u32, row_count);
        defer gpa.free(slot_of);
        try self.insert_all(source, &entries, slot_of, filter);
        if (!self.unique) try self.arrange(gpa, &entries, slot_of);
        return self;
    }

    pub fn deinit(self: *Slots, gpa: std.mem.Allocator) void {
        gpa.free(self.slots);
        if (self.order) |order| gpa.free(order);
        self.* = undefined;
    }

    pub fn memory_size(self: *const Slots) u64 {
        const order_len = if (self.order) |order| order.len else 0;
        return self.slots.len * @sizeOf(Slot) + order_len * @sizeOf(u32);
    }

    fn insert_all(
        self: *Slots,
        source: anytype,
        entries: *const Entries,
        slot_of: []u32,
        filter: ?*BlockFilter,
    ) Error!void {
        var own: [block_rows]u64 = undefined;
        // Slots are emptied just before they are needed, while they are in the cache.
        var emptied: usize = 0;
        var start: usize = 0;
        while (start < slot_of.len) : (start += block_rows) {
            try interrupt.check();
            const count = @min(block_rows, slot_of.len - start);
            const sorted = entries.words.len > 0;
            const words = if (sorted) entries.words[start..][0..count] else own[0..count];
            if (!sorted) source.words(@intCast(start), words);
            for (words, start..) |word, i| slot_of[i] = self.insert(source, word, entries.row_at(i), filter, &emptied);
        }
        self.empty_until(&emptied, self.slots.len);
    }

    fn empty_until(self: *Slots, emptied: *usize, wanted: usize) void {
        const end = @min(wanted, self.slots.len);
        @memset(self.slots[emptied.*..end], .{ .word = 0, .place = 0, .count = 0 });
        emptied.* = end;
    }

    inline fn insert(self: *Slots, source: anytype, word: u64, row: u32, filter: ?*BlockFilter, emptied: *usize) u32 {
        const hash = source.hash(word);
        var walk: Walk = .init(hash, self.slots.len);
        while (true) : (walk.step(self.slots.len)) {
            if (walk.position >= emptied.*)
                self.empty_until(emptied, (walk.position | (line_slots - 1)) + Entries.part_slots);
            const slot = &self.slots[walk.position];
            if (slot.count == 0) {
                slot.* = .{ .word = word, .place = row, .count = 1 };
                if (filter) |found| found.add(hash);
                break;
            }
            if (slot.word == word and source.same(slot.place, row)) {
                slot.count += 1;
                self.unique = false;
                break;
            }
        }
        return @intCast(walk.position);
    }

    /// Rows by slot. A place moves on to its rows' end meanwhile, and back at last.
    fn arrange(self: *Slots, gpa: std.mem.Allocator, entries: *const Entries, slot_of: []const u32) Error!void {
        const order = try gpa.alloc(u32, slot_of.len);
        self.order = order;
        var total: u32 = 0;
        for (self.slots) |*slot| {
            slot.place = total;
            total += slot.count;
        }
        for (slot_of, 0..) |position, i| {
            if (i % interrupt.block_rows == 0) try interrupt.check();
            const slot = &self.slots[position];
            order[slot.place] = entries.row_at(i);
            slot.place += 1;
        }
        for (self.slots) |*slot| slot.place -= slot.count;
    }

    /// As `Dense.take_order`. Places of keys that are compared must stay: `row_at` does not know the rows
    /// any more.
    pub fn take_order(self: *Slots) ?[]u32 {
        defer self.order = null;
        return self.order;
    }

    /// Some row of those at a place.
    pub inline fn row_at(self: *const Slots, place: u32) u32 {
        return if (self.order) |order| order[place] else place;
    }

    /// Writes the place of each word, `none` where it is not there, and, unless unique, the number of
    /// its rows. Words with equal bits may still be different keys when they are hashes: the caller looks
    /// at the keys, and asks `find_slot` where they differ.
    pub fn find(self: *const Slots, words: []const u64, hashes: []const u64, places: []u32, counts: []u32) void {
        assert(words.len <= block_rows and words.len == hashes.len and words.len == places.len);
        var positions: [block_rows]u32 = undefined;
        for (positions[0..words.len], hashes) |*position, hash| position.* = @intCast(place_of(hash, self.slots.len));
        var read: [block_rows]Slot = undefined;
        for (read[0..words.len], positions[0..words.len]) |*slot, position| slot.* = self.slots.ptr[position];
        // Rows whose slot is taken by another word.
        var taken: [block_rows]u32 = undefined;
        var taken_count: usize = 0;
        for (words, read[0..words.len], places, 0..) |word, slot, *place, i| {
            const here = slot.count != 0 and slot.word == word;
            place.* = if (here) slot.place else none;
            taken[taken_count] = @intCast(i);
            taken_count += @intFromBool(slot.count != 0 and slot.word != word);
        }
        if (!self.unique) for (counts, read[0..words.len]) |*count, slot| {
            count.* = slot.count;
        };
        for (taken[0..taken_count]) |i| {
            const slot = self.find_slot(words[i], hashes[i], Anything{}) orelse continue;
            places[i] = slot.place;
            if (!self.unique) counts[i] = slot.count;
        }
    }

    const Anything = struct {
        inline fn equals(_: Anything, _: u32) bool {
            return true;
        }
    };

    /// The slot of a word whose rows `key.equals` a row of.
    pub inline fn find_slot(self: *const Slots, word: u64, hash: u64, key: anytype) ?*const Slot {
        var walk: Walk = .init(hash, self.slots.len);
        while (true) : (walk.step(self.slots.len)) {
            const slot = &self.slots[walk.position];
            if (slot.count == 0) return null;
            if (slot.word == word and key.equals(self.row_at(slot.place))) return slot;
        }
    }
};

const testing = std.testing;
const bitmap = @import("../core/bitmap.zig");
const Words = @import("join_keys.zig").Words;
const hash_word = @import("../kernel/hash.zig").hash_word;

const TestSource = struct {
    given: []const u64,
    /// Few hashes, so that words share slots.
    poor: bool = false,

    fn words(self: TestSource, start: u32, out: []u64) void {
        @memcpy(out, self.given[start..][0..out.len]);
    }
    fn hash(self: TestSource, word: u64) u64 {
        return if (self.poor) word << 61 else hash_word(word);
    }
    fn same(_: TestSource, _: u32, _: u32) bool {
        return true;
    }
};

fn expect_found(
    given: []const u64,
    asked: []const u64,
    places: []const u32,
    counts: ?[]const u32,
    order: ?[]const u32,
) !void {
    for (asked, places, 0..) |word, place, i| {
        var matches: u32 = 0;
        for (given, 0..) |stored, row| {
            if (stored != word) continue;
            const found = if (counts == null) place else if (order) |rows| rows[place + matches] else place + matches;
            try testing.expectEqual(row, found);
            matches += 1;
        }
        if (matches == 0) try testing.expectEqual(none, place) else if (counts) |numbers|
            try testing.expectEqual(matches, numbers[i]);
    }
}

fn expect_both(given: []const u64, asked: []const u64, domain: u64) !void {
    const gpa = testing.allocator;
    var places: [block_rows]u32 = undefined;
    var counts: [block_rows]u32 = undefined;
    const answer = places[0..asked.len];
    {
        var dense: Dense = try .init(gpa, TestSource{ .given = given }, @intCast(given.len), domain);
        defer dense.deinit(gpa);
        dense.find(Words{ .words = asked }, answer, counts[0..asked.len]);
        var bits: [block_rows / 8]u8 = undefined;
        dense.find_bits(Words{ .words = asked }, asked.len, &bits);
        for (answer, 0..) |place, i| try testing.expectEqual(place != none, bitmap.get(&bits, i));
        try expect_found(given, asked, answer, if (dense.unique) null else &counts, dense.order);
        if (try dense.take_order(gpa)) |rows| {
            defer gpa.free(rows);
            dense.find(Words{ .words = asked }, answer, counts[0..asked.len]);
            if (dense.unique) for (answer) |*place| {
                place.* = if (place.* == none) none else rows[place.*];
            };
            try expect_found(given, asked, answer, if (dense.unique)
                null
            else
                &counts, if (dense.unique) null else rows);
        }
    }
    for ([_]bool{ false, true }) |poor| {
        const source: TestSource = .{ .given = given, .poor = poor };
        var filter: BlockFilter = try .init(gpa, given.len);
        defer filter.deinit(gpa);
        var slots: Slots = try .init(gpa, source, @intCast(given.len), &filter);
        defer slots.deinit(gpa);
        for (given) |word| try testing.expect(filter.might_contain(source.hash(word)));
        var hashes: [block_rows]u64 = undefined;
        for (hashes[0..asked.len], asked) |*hash, word| hash.* = source.hash(word);
        slots.find(asked, hashes[0..asked.len], answer, counts[0..asked.len]);
        try expect_found(given, asked, answer, if (slots.unique) null else &counts, slots.order);
        const rows = slots.take_order() orelse continue;
        defer gpa.free(rows);
        slots.find(asked, hashes[0..asked.len], answer, counts[0..asked.len]);
        try expect_found(given, asked, answer, &counts, rows);
    }
}

test "slots beyond the cache" {
    const count = 40_000;
    var prng: std.Random.DefaultPrng = .init(6);
    const given = try testing.allocator.alloc(u64, count);
    defer testing.allocator.free(given);
    for (given) |*word| word.* = prng.random().uintLessThan(u64, count) * 977;
    var asked: [300]u64 = undefined;
    for (&asked, 0..) |*word, i| word.* = (i * 131) * 977;
    try expect_both(given, &asked, count * 977);
    for (given, 0..) |*word, i| word.* = i * 977; // unique
    try expect_both(given, &asked, count * 977);
}

test "dense and slots agree with a search" {
    var prng: std.Random.DefaultPrng = .init(5);
    const random = prng.random();
    var given: [900]u64 = undefined;
    var asked: [500]u64 = undefined;
    for ([_]usize{ 1, 2, 63, 64, 65, 300, 900 }) |count| for ([_]u64{ 1, 64, 100, 5000, 200_000 }) |domain| {
        for (&asked) |*word| word.* = random.uintLessThan(u64, domain * 2); // and beyond
        for (given[0..count]) |*word| word.* = random.uintLessThan(u64, domain);
        if (domain > 5000) for (given[0..@min(count, 200)], asked[0..@min(count, 200)]) |*word, other| {
            word.* = other % domain;
        };
        try expect_both(given[0..count], &asked, domain);
        std.mem.sort(u64, given[0..count], {}, std.sort.asc(u64));
        try expect_both(given[0..count], &asked, domain);
        if (count > domain) continue;
        for (given[0..count], 0..) |*word, i| word.* = i; // unique and rising
        try expect_both(given[0..count], &asked, domain);
        try expect_both(given[0..count], &asked, count);
        for (given[0..count], 0..) |*word, i| word.* = i * (domain / count);
        try expect_both(given[0..count], &asked, domain);
        random.shuffle(u64, given[0..count]);
        try expect_both(given[0..count], &asked, domain);
    };
}
