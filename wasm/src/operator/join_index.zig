//! Two ways from a row's word to the build's rows with the same word.
//!
//!     dense   words span few more values than there are rows: a bit for each value, and before every 64
//!             of them how many bits are set so far. The number of a bit is its place.
//!     slots   anything else: open addressing by the word's hash, where neighbours follow in memory.
//!
//! A place is a row of the build when no two rows have the same word. Else the rows are ordered so that
//! those of one word lie side by side, in the order they came in, and a place is where they begin.
//! Both are asked a block of words at a time, without branches that depend on a word: loads that miss
//! the cache then overlap, which stands in for prefetching.
const std = @import("std");
const interrupt = @import("../core/interrupt.zig");
const place_of = @import("../kernel/block_filter.zig").place;
const assert = std.debug.assert;

pub const Error = error{ Cancelled, OutOfMemory };

/// Rows that are looked up together.
pub const block_rows = 1024;

/// No such row.
pub const none: u32 = std.math.maxInt(u32);

/// Probing rows that have matches, in order, with the place of the matches and their number.
pub const Found = struct {
    rows: []u32,
    places: []u32,
    /// Empty when a row has one match at most.
    counts: []u32,
    len: usize = 0,

    pub fn init(arena: std.mem.Allocator, capacity: usize, unique: bool) error{OutOfMemory}!Found {
        return .{
            .rows = try arena.alloc(u32, capacity),
            .places = try arena.alloc(u32, capacity),
            .counts = if (unique) &.{} else try arena.alloc(u32, capacity),
        };
    }

    /// Forgets rows from `start` on whose place is `none`.
    pub fn compact(self: *Found, start: usize) void {
        var kept = start;
        for (start..self.len) |i| {
            self.rows[kept] = self.rows[i];
            self.places[kept] = self.places[i];
            if (self.counts.len > 0) self.counts[kept] = self.counts[i];
            kept += @intFromBool(self.places[i] != none);
        }
        self.len = kept;
    }
};

/// 64 values: which of them are there, and how many are before them.
const Block = extern struct { bits: u64, rank: u64 };

pub const Dense = struct {
    blocks: []Block,
    /// Where the rows of the nth value begin; empty when every value has one row.
    starts: []u32 = &.{},
    /// Rows by value; null when they came in that order.
    order: ?[]u32 = null,

    /// `source.words(start, words)` gives the words of rows from `start` on.
    pub fn init(gpa: std.mem.Allocator, source: anytype, row_count: u32, domain: u64) Error!Dense {
        const blocks = try gpa.alloc(Block, @intCast(domain / 64 + 1));
        @memset(blocks, .{ .bits = 0, .rank = 0 });
        var self: Dense = .{ .blocks = blocks };
        errdefer self.deinit(gpa);
        const seen = try self.mark(source, row_count);
        var rank: u64 = 0;
        for (blocks) |*block| {
            block.rank = rank;
            rank += @popCount(block.bits);
        }
        if (rank < row_count) try self.count_values(gpa, source, row_count, @intCast(rank));
        if (!seen.rising) try self.arrange(gpa, source, row_count);
        return self;
    }

    pub fn deinit(self: *Dense, gpa: std.mem.Allocator) void {
        gpa.free(self.blocks);
        gpa.free(self.starts);
        if (self.order) |order| gpa.free(order);
        self.* = undefined;
    }

    pub fn is_unique(self: *const Dense) bool {
        return self.starts.len == 0;
    }

    fn mark(self: *Dense, source: anytype, row_count: u32) Error!struct { rising: bool } {
        var words: [block_rows]u64 = undefined;
        var rising = true;
        var last: u64 = 0;
        var start: u32 = 0;
        while (start < row_count) : (start += block_rows) {
            try interrupt.check();
            const count = @min(block_rows, row_count - start);
            source.words(start, words[0..count]);
            for (words[0..count]) |word| {
                rising = rising and word >= last;
                last = word;
                self.blocks[@intCast(word >> 6)].bits |= @as(u64, 1) << @truncate(word);
            }
            if (count < block_rows) break;
        }
        return .{ .rising = rising };
    }

    inline fn rank_of(self: *const Dense, word: u64) u32 {
        const block = self.blocks[@intCast(word >> 6)];
        const below = (@as(u64, 1) << @truncate(word)) - 1;
        return @intCast(block.rank + @popCount(block.bits & below));
    }

    fn count_values(self: *Dense, gpa: std.mem.Allocator, source: anytype, row_count: u32, value_count: u32) Error!void {
        self.starts = try gpa.alloc(u32, value_count + 1);
        @memset(self.starts, 0);
        var words: [block_rows]u64 = undefined;
        var start: u32 = 0;
        while (start < row_count) : (start += block_rows) {
            try interrupt.check();
            const count = @min(block_rows, row_count - start);
            source.words(start, words[0..count]);
            for (words[0..count]) |word| self.starts[self.rank_of(word) + 1] += 1;
            if (count < block_rows) break;
        }
        var total: u32 = 0;
        for (self.starts) |*entry| {
            total += entry.*;
            entry.* = total;
        }
    }

    /// Rows by value. `starts` moves on to each value's end meanwhile, and back by one value at last.
    fn arrange(self: *Dense, gpa: std.mem.Allocator, source: anytype, row_count: u32) Error!void {
        const order = try gpa.alloc(u32, row_count);
        self.order = order;
        const unique = self.is_unique();
        var words: [block_rows]u64 = undefined;
        var start: u32 = 0;
        while (start < row_count) : (start += block_rows) {
            try interrupt.check();
            const count = @min(block_rows, row_count - start);
            source.words(start, words[0..count]);
            for (words[0..count], start..) |word, row| {
                const rank = self.rank_of(word);
                const at = if (unique) rank else self.starts[rank];
                if (!unique) self.starts[rank] += 1;
                order[at] = @intCast(row);
            }
            if (count < block_rows) break;
        }
        if (unique) return;
        std.mem.copyBackwards(u32, self.starts[1..], self.starts[0 .. self.starts.len - 1]);
        self.starts[0] = 0;
    }

    /// Notes which of the words are there. All of them are within the domain.
    pub fn find(self: *const Dense, words: []const u64, rows: []const u32, found: *Found) void {
        const start = found.len;
        var count = start;
        for (words, rows) |word, row| {
            const block = self.blocks.ptr[@intCast(word >> 6)];
            const bit: u6 = @truncate(word);
            found.rows.ptr[count] = row;
            found.places.ptr[count] = @intCast(block.rank + @popCount(block.bits & ((@as(u64, 1) << bit) - 1)));
            count += @intCast(block.bits >> bit & 1);
        }
        found.len = count;
        const places = found.places[start..count];
        if (!self.is_unique()) {
            for (places, found.counts[start..count]) |*place, *number| {
                const begin = self.starts[place.*];
                number.* = self.starts[place.* + 1] - begin;
                place.* = begin;
            }
        } else if (self.order) |order| {
            for (places) |*place| place.* = order.ptr[place.*];
        }
    }

    /// Whether each of the words is there.
    pub inline fn contains(self: *const Dense, word: u64) bool {
        return self.blocks.ptr[@intCast(word >> 6)].bits >> @truncate(word) & 1 != 0;
    }
};

/// A word, and the place and number of its rows; no rows: a free slot.
const Slot = extern struct { word: u64, place: u32, count: u32 };

pub const Slots = struct {
    slots: []align(64) Slot,
    unique: bool = true,
    /// Rows by slot, when some have the same word.
    order: ?[]u32 = null,

    /// `source` as above, and `source.same(a, b)` says whether two rows with the same word are equal.
    pub fn init(gpa: std.mem.Allocator, source: anytype, row_count: u32) Error!Slots {
        const wanted = @max(16, @as(u64, row_count) * 2);
        const slot_count = std.math.cast(usize, wanted) orelse return error.OutOfMemory;
        const slots = try gpa.alignedAlloc(Slot, .@"64", slot_count);
        @memset(slots, .{ .word = 0, .place = 0, .count = 0 });
        var self: Slots = .{ .slots = slots };
        errdefer self.deinit(gpa);
        const slot_of = try gpa.alloc(u32, row_count);
        defer gpa.free(slot_of);
        try self.insert_all(source, slot_of);
        if (!self.unique) try self.arrange(gpa, slot_of);
        return self;
    }

    pub fn deinit(self: *Slots, gpa: std.mem.Allocator) void {
        gpa.free(self.slots);
        if (self.order) |order| gpa.free(order);
        self.* = undefined;
    }

    fn insert_all(self: *Slots, source: anytype, slot_of: []u32) Error!void {
        var words: [block_rows]u64 = undefined;
        var start: usize = 0;
        while (start < slot_of.len) : (start += block_rows) {
            try interrupt.check();
            const count = @min(block_rows, slot_of.len - start);
            source.words(@intCast(start), words[0..count]);
            for (words[0..count], start..) |word, row| slot_of[row] = self.insert(source, word, @intCast(row));
        }
    }

    inline fn insert(self: *Slots, source: anytype, word: u64, row: u32) u32 {
        var position = place_of(source.hash(word), self.slots.len);
        while (true) {
            const slot = &self.slots[position];
            if (slot.count == 0) {
                slot.* = .{ .word = word, .place = row, .count = 1 };
                break;
            }
            if (slot.word == word and source.same(slot.place, row)) {
                slot.count += 1;
                self.unique = false;
                break;
            }
            position = if (position + 1 == self.slots.len) 0 else position + 1;
        }
        return @intCast(position);
    }

    /// Rows by slot. A place moves on to its rows' end meanwhile, and back at last.
    fn arrange(self: *Slots, gpa: std.mem.Allocator, slot_of: []const u32) Error!void {
        const order = try gpa.alloc(u32, slot_of.len);
        self.order = order;
        var total: u32 = 0;
        for (self.slots) |*slot| {
            slot.place = total;
            total += slot.count;
        }
        try interrupt.check();
        for (slot_of, 0..) |position, row| {
            if (row % interrupt.block_rows == 0) try interrupt.check();
            const slot = &self.slots[position];
            order[slot.place] = @intCast(row);
            slot.place += 1;
        }
        for (self.slots) |*slot| slot.place -= slot.count;
    }

    /// Some row of those at a place.
    pub inline fn row_at(self: *const Slots, place: u32) u32 {
        return if (self.order) |order| order[place] else place;
    }

    /// Notes which of the words are there. Words with equal bits may still be different keys when they
    /// are hashes: the caller looks at the keys, and asks `find_one` where they differ.
    pub fn find(self: *const Slots, words: []const u64, hashes: []const u64, rows: []const u32, found: *Found) void {
        if (self.unique) self.find_block(true, words, hashes, rows, found) else self.find_block(false, words, hashes, rows, found);
    }

    fn find_block(self: *const Slots, comptime unique: bool, words: []const u64, hashes: []const u64, rows: []const u32, found: *Found) void {
        assert(words.len <= block_rows and words.len == hashes.len);
        // Rows whose slot is taken by another word: their place in `found` and in the block.
        var taken: [block_rows][2]u32 = undefined;
        var taken_count: usize = 0;
        const start = found.len;
        var count = start;
        for (words, hashes, rows, 0..) |word, hash, row, i| {
            const slot = self.slots.ptr[place_of(hash, self.slots.len)];
            found.rows.ptr[count] = row;
            found.places.ptr[count] = slot.place;
            if (!unique) found.counts.ptr[count] = slot.count;
            taken[taken_count] = .{ @intCast(count), @intCast(i) };
            const used = slot.count != 0;
            count += @intFromBool(used);
            taken_count += @intFromBool(used and slot.word != word);
        }
        found.len = count;
        var missed = false;
        for (taken[0..taken_count]) |pair| {
            const slot = self.find_slot(words[pair[1]], hashes[pair[1]], Anything{});
            found.places[pair[0]] = if (slot) |match| match.place else none;
            if (!unique) if (slot) |match| {
                found.counts[pair[0]] = match.count;
            };
            missed = missed or slot == null;
        }
        if (missed) found.compact(start);
    }

    const Anything = struct {
        inline fn equals(_: Anything, _: u32) bool {
            return true;
        }
    };

    /// The slot of a word whose rows `key.equals` a row of.
    pub inline fn find_slot(self: *const Slots, word: u64, hash: u64, key: anytype) ?*const Slot {
        var position = place_of(hash, self.slots.len);
        while (true) {
            const slot = &self.slots[position];
            if (slot.count == 0) return null;
            if (slot.word == word and key.equals(self.row_at(slot.place))) return slot;
            position = if (position + 1 == self.slots.len) 0 else position + 1;
        }
    }
};

const testing = std.testing;
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

fn expect_found(given: []const u64, asked: []const u64, found: *const Found, order: ?[]const u32) !void {
    var at: usize = 0;
    for (asked, 0..) |word, row| {
        if (std.mem.findScalar(u64, given, word) == null) continue;
        try testing.expectEqual(row, found.rows[at]);
        const count = if (found.counts.len == 0) 1 else found.counts[at];
        const place = found.places[at];
        var matches: usize = 0;
        for (given, 0..) |stored, stored_row| {
            if (stored != word) continue;
            const place_row = if (found.counts.len == 0 or order == null) place + matches else order.?[place + matches];
            try testing.expectEqual(stored_row, place_row);
            matches += 1;
        }
        try testing.expectEqual(matches, count);
        at += 1;
    }
    try testing.expectEqual(at, found.len);
}

fn expect_both(given: []const u64, asked: []const u64, domain: u64) !void {
    const gpa = testing.allocator;
    var arena: std.heap.ArenaAllocator = .init(gpa);
    defer arena.deinit();
    const rows = try arena.allocator().alloc(u32, asked.len);
    for (rows, 0..) |*row, i| row.* = @intCast(i);
    {
        var dense: Dense = try .init(gpa, TestSource{ .given = given }, @intCast(given.len), domain);
        defer dense.deinit(gpa);
        var found: Found = try .init(arena.allocator(), asked.len, dense.is_unique());
        dense.find(asked, rows, &found);
        try expect_found(given, asked, &found, dense.order);
    }
    for ([_]bool{ false, true }) |poor| {
        const source: TestSource = .{ .given = given, .poor = poor };
        var slots: Slots = try .init(gpa, source, @intCast(given.len));
        defer slots.deinit(gpa);
        var found: Found = try .init(arena.allocator(), asked.len, slots.unique);
        const hashes = try arena.allocator().alloc(u64, asked.len);
        for (hashes, asked) |*hash, word| hash.* = source.hash(word);
        slots.find(asked, hashes, rows, &found);
        try expect_found(given, asked, &found, slots.order);
    }
}

test "dense and slots agree with a search" {
    var prng: std.Random.DefaultPrng = .init(5);
    const random = prng.random();
    var given: [900]u64 = undefined;
    var asked: [700]u64 = undefined;
    for ([_]usize{ 1, 2, 63, 64, 65, 300, 900 }) |count| for ([_]u64{ 1, 64, 100, 5000 }) |domain| {
        for (&asked) |*word| word.* = random.uintLessThan(u64, domain);
        for (given[0..count]) |*word| word.* = random.uintLessThan(u64, domain);
        try expect_both(given[0..count], &asked, domain);
        std.mem.sort(u64, given[0..count], {}, std.sort.asc(u64));
        try expect_both(given[0..count], &asked, domain);
        if (count > domain) continue;
        for (given[0..count], 0..) |*word, i| word.* = i; // unique and rising
        try expect_both(given[0..count], &asked, domain);
        random.shuffle(u64, given[0..count]);
        try expect_both(given[0..count], &asked, domain);
    };
}
