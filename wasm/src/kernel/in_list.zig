//! `value IN (…)`: the terms of a list, prepared once for many chunks, and rows looked up in them.
//!
//! A few terms are compared in lanes; terms that lie close together become a bitmap of their range;
//! the rest go into an open-addressing table. So a row costs the same for 500 terms or 100,000.
//! Writes value bits as kernel/compare.zig does; NULL terms and negation are the caller's.
const std = @import("std");
const bitmap = @import("../core/bitmap.zig");
const compare = @import("compare.zig");
const hash = @import("hash.zig");
const Arena = @import("../core/arena.zig").Arena;
const assert = std.debug.assert;
const block_rows = compare.block_rows;
const BytesRows = compare.BytesRows;
const equal_bytes = compare.equal_bytes;
const fill = compare.fill;
const FixedRows = compare.FixedRows;
const is_wide_float = compare.is_wide_float;
const key_of = compare.key_of;
const lane_count = compare.lane_count;
const Lanes = compare.Lanes;
const load = compare.load;
const Mask = compare.Mask;
const pack_rows = compare.pack_rows;
const pad_rows = compare.pad_rows;
const scan = compare.scan;

/// Up to this many terms a row is compared with every one of them, in lanes; past it, it is
/// looked up.
const in_terms_max = 8;
/// Terms that lie this close together are looked up in a bitmap of their range: 128 KiB at most.
const in_range_max = 1 << 20;

/// The terms of `value IN (…)`, prepared once for many chunks. NULL terms and negation are the
/// caller's.
pub fn InSet(comptime T: type) type {
    return struct {
        lookup: Lookup,

        const Self = @This();
        const Table = HashTable(T);
        const Range = RangeBits(T);
        /// Lanes of 4 and 8 bytes. The narrow ones take the range, which is small for them.
        const has_few = @sizeOf(T) == 4 or @sizeOf(T) == 8;
        const Lookup = union(enum) {
            none,
            /// Padded with repeats, so that there are two loops rather than eight.
            four: [4]T,
            eight: [8]T,
            range: Range,
            table: Table,
        };

        /// Keeps nothing of `terms`; what it needs is in `arena`.
        pub fn init(arena: std.mem.Allocator, terms: []const T) error{OutOfMemory}!Self {
            if (terms.len == 0) return .{ .lookup = .none };
            if (has_few and terms.len <= 4) return .{ .lookup = .{ .four = pad(4, terms) } };
            if (has_few and terms.len <= in_terms_max) return .{ .lookup = .{ .eight = pad(8, terms) } };
            if (!is_wide_float(T)) {
                if (try Range.init(arena, terms)) |range| return .{ .lookup = .{ .range = range } };
            }
            return .{ .lookup = .{ .table = try .init(arena, terms) } };
        }

        fn pad(comptime count: usize, terms: []const T) [count]T {
            assert(terms.len > 0 and terms.len <= count);
            var result: [count]T = undefined;
            for (&result, 0..) |*term, index| term.* = terms[@min(index, terms.len - 1)];
            return result;
        }

        pub fn match(self: *const Self, values: []const T, out: []u8) void {
            switch (self.lookup) {
                .none => fill(values.len, false, out),
                .four => |*terms| match_few(4, terms, values, out),
                .eight => |*terms| match_few(8, terms, values, out),
                .range => |range| pack_rows(values.len, Rows(Range){ .values = values, .set = range }, false, out),
                .table => |table| pack_rows(values.len, Rows(Table){ .values = values, .set = table }, false, out),
            }
        }

        fn match_few(comptime count: usize, terms: *const [count]T, values: []const T, out: []u8) void {
            if (!has_few) unreachable; // init never makes these
            var source: FewSource(T, count) = .{ .values = values, .keys = undefined, .nan = false };
            for (&source.keys, terms) |*lanes, term| {
                lanes.* = @splat(key_of(T, term));
                if (is_wide_float(T) and std.math.isNan(term)) source.nan = true;
            }
            scan(T, values.len, source, false, out);
        }

        fn Rows(comptime Set: type) type {
            return struct {
                values: []const T,
                set: Set,

                pub inline fn holds(rows: @This(), row: usize) bool {
                    return rows.set.contains(rows.values[row]);
                }
            };
        }
    };
}

fn FewBlock(comptime T: type, comptime count: usize) type {
    return struct {
        values: *const [block_rows]T,
        keys: *const [count]Lanes(T),
        nan: Mask(T),

        pub inline fn mask(self: @This(), comptime first: comptime_int) Mask(T) {
            const x = load(T, self.values[first..][0..lane_count(T)]);
            var result: Mask(T) = if (is_wide_float(T)) (x != x) & self.nan else @splat(false);
            inline for (self.keys) |key| result |= x == key;
            return result;
        }
    };
}

fn FewSource(comptime T: type, comptime count: usize) type {
    return struct {
        values: []const T,
        keys: [count]Lanes(T),
        /// A NaN is among the terms.
        nan: bool,

        pub inline fn block(self: *const @This(), row: usize) FewBlock(T, count) {
            return self.over(self.values[row..][0..block_rows]);
        }

        pub inline fn tail(self: *const @This(), row: usize, padded: *[2][block_rows]T) FewBlock(T, count) {
            return self.over(pad_rows(T, &padded[0], self.values[row..]));
        }

        pub inline fn over(self: *const @This(), values: *const [block_rows]T) FewBlock(T, count) {
            return .{ .values = values, .keys = &self.keys, .nan = @splat(self.nan) };
        }
    };
}

/// One bit for every key from the smallest term's to the largest's, and a zero past the end that
/// every key outside is sent to.
fn RangeBits(comptime T: type) type {
    return struct {
        low: Word,
        bits: [*]const u8,
        bit_count: u32,

        const Self = @This();
        const Word = @Int(.unsigned, @bitSizeOf(T));

        /// null when the terms are too far apart.
        fn init(arena: std.mem.Allocator, terms: []const T) error{OutOfMemory}!?Self {
            var low = key_of(T, terms[0]);
            var high = low;
            for (terms) |term| {
                low = @min(low, key_of(T, term));
                high = @max(high, key_of(T, term));
            }
            const distance: Word = @bitCast(high -% low);
            if (distance >= in_range_max) return null;
            const bit_count: u32 = @as(u32, @intCast(distance)) + 1;
            const bits = try arena.alloc(u8, bitmap.size(bit_count + 1));
            @memset(bits, 0);
            const self: Self = .{ .low = @bitCast(low), .bits = bits.ptr, .bit_count = bit_count };
            for (terms) |term| bitmap.set(bits.ptr, self.index_of(term));
            return self;
        }

        inline fn index_of(self: Self, value: T) u32 {
            const key: Word = @bitCast(key_of(T, value));
            const distance = key -% self.low;
            return if (distance < self.bit_count) @intCast(distance) else self.bit_count;
        }

        inline fn contains(self: Self, value: T) bool {
            return bitmap.get(self.bits, self.index_of(value));
        }
    };
}

/// Equal values, equal words: one zero, one NaN.
inline fn word_of(comptime T: type, value: T) @Int(.unsigned, @bitSizeOf(T)) {
    if (!is_wide_float(T)) return @bitCast(key_of(T, value));
    if (value == 0) return 0;
    return @bitCast(if (value != value) std.math.nan(T) else value);
}

/// Open addressing, linear probing, at most half full. 0 marks a free slot, so the term 0 is kept
/// apart.
fn HashTable(comptime T: type) type {
    return struct {
        slots: [*]const Word,
        slot_mask: u32,
        has_zero: bool,

        const Self = @This();
        const Word = @Int(.unsigned, @bitSizeOf(T));

        fn init(arena: std.mem.Allocator, terms: []const T) error{OutOfMemory}!Self {
            const slot_count = try table_size(terms.len);
            const slots = try arena.alloc(Word, slot_count);
            @memset(slots, 0);
            var self: Self = .{ .slots = slots.ptr, .slot_mask = @intCast(slot_count - 1), .has_zero = false };
            for (terms) |term| {
                const word = word_of(T, term);
                if (word == 0) self.has_zero = true else slots[self.find(word)] = word;
            }
            return self;
        }

        /// The slot of `word`, or the free slot where it would go.
        inline fn find(self: Self, word: Word) u32 {
            var slot = @as(u32, @truncate(hash_word(Word, word))) & self.slot_mask;
            while (self.slots[slot] != word and self.slots[slot] != 0) slot = (slot + 1) & self.slot_mask;
            return slot;
        }

        inline fn contains(self: Self, value: T) bool {
            const word = word_of(T, value);
            const found = self.slots[self.find(word)] == word;
            return found and (word != 0 or self.has_zero);
        }
    };
}

/// A power of two, at least twice the count.
fn table_size(count: usize) error{OutOfMemory}!usize {
    if (count > 1 << 28) return error.OutOfMemory;
    return std.math.ceilPowerOfTwoAssert(usize, @max(count, 4)) * 2;
}

inline fn hash_word(comptime Word: type, word: Word) u64 {
    if (Word != u128) return hash.hash_word(word);
    return hash.combine(hash.hash_word(@truncate(word)), hash.hash_word(@truncate(word >> 64)));
}

/// The terms of `bytes IN (…)`.
pub const BytesInSet = struct {
    slots: []const Slot,
    terms: []const []const u8,

    const Slot = struct {
        /// The half of the hash that did not choose the slot.
        hash: u32,
        /// 1 + index of the term; 0 is a free slot.
        term: u32,
    };

    /// Copies the terms into `arena`.
    pub fn init(arena: std.mem.Allocator, terms: []const []const u8) error{OutOfMemory}!BytesInSet {
        const copies = try arena.alloc([]const u8, terms.len);
        const slots = try arena.alloc(Slot, try table_size(terms.len));
        @memset(slots, .{ .hash = 0, .term = 0 });
        const self: BytesInSet = .{ .slots = slots, .terms = copies };
        for (copies, terms, 1..) |*copy, term, number| {
            copy.* = try arena.dupe(u8, term);
            const term_hash = hash.hash_bytes(term);
            const slot = self.find(term_hash, term);
            if (slots[slot].term == 0) slots[slot] = .{ .hash = @intCast(term_hash >> 32), .term = @intCast(number) };
        }
        return self;
    }

    fn find(self: *const BytesInSet, value_hash: u64, bytes: []const u8) usize {
        const mask = self.slots.len - 1;
        const check: u32 = @intCast(value_hash >> 32);
        var index = @as(u32, @truncate(value_hash)) & mask;
        while (true) : (index = (index + 1) & mask) {
            const slot = self.slots[index];
            if (slot.term == 0) return index;
            if (slot.hash != check) continue;
            const term = self.terms[slot.term - 1];
            if (term.len == bytes.len and equal_bytes(term, bytes)) return index;
        }
    }

    pub fn contains(self: *const BytesInSet, bytes: []const u8) bool {
        return self.slots[self.find(hash.hash_bytes(bytes), bytes)].term != 0;
    }

    pub fn match(self: *const BytesInSet, offsets: []const u32, data: []const u8, out: []u8) void {
        const rows: BytesRows = .{ .offsets = offsets, .data = data };
        pack_rows(rows.row_count(), Rows(BytesRows){ .set = self, .rows = rows }, false, out);
    }

    /// fixed_binary; terms of another width match nothing.
    pub fn match_fixed(self: *const BytesInSet, width: usize, data: []const u8, row_count: usize, out: []u8) void {
        assert(data.len >= row_count * width);
        const rows: FixedRows = .{ .width = width, .data = data };
        pack_rows(row_count, Rows(FixedRows){ .set = self, .rows = rows }, false, out);
    }

    fn Rows(comptime Source: type) type {
        return struct {
            set: *const BytesInSet,
            rows: Source,

            pub inline fn holds(self: @This(), row: usize) bool {
                return self.set.contains(self.rows.at(row));
            }
        };
    }
};

const testing = std.testing;
const random_value = compare.random_value;
const test_lengths = compare.test_lengths;
const test_rows_max = compare.test_rows_max;
const test_types = compare.test_types;
const TestBytes = compare.TestBytes;
const TestOut = compare.TestOut;
const twin_order = compare.twin_order;

fn check_in_set(comptime T: type, random: std.Random, term_count: usize, spread: bool) !void {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    var terms: [40]T = undefined;
    for (terms[0..term_count]) |*term| {
        term.* = if (spread) @bitCast(random.int(@Int(.unsigned, @bitSizeOf(T)))) else random_value(T, random);
    }
    const set: InSet(T) = try .init(arena.allocator(), terms[0..term_count]);
    var values: [test_rows_max]T = undefined;
    var expected: [test_rows_max]bool = undefined;
    var out: TestOut(test_rows_max) = .{};
    for ([_]usize{ 0, 1, 7, 8, 9, 63, 64, 65, 200 }) |n| {
        for (values[0..n], expected[0..n]) |*value, *want| {
            const known = term_count > 0 and random.boolean();
            value.* = if (known) terms[random.uintLessThan(usize, term_count)] else random_value(T, random);
            want.* = false;
            for (terms[0..term_count]) |term| want.* = want.* or twin_order(T, value.*, term) == .eq;
        }
        set.match(values[0..n], out.slice(n));
        try out.expect(expected[0..n]);
    }
}

test InSet {
    var prng: std.Random.DefaultPrng = .init(12);
    inline for (test_types) |T| {
        for ([_]usize{ 0, 1, 3, 4, 5, 8, 9, 17, 40 }) |term_count| {
            try check_in_set(T, prng.random(), term_count, false);
            try check_in_set(T, prng.random(), term_count, true);
        }
    }
}

test "InSet: a dense range takes a bitmap, a scattered one a table" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    var terms: [500]i64 = undefined;
    for (&terms, 0..) |*term, index| term.* = -300 + @as(i64, @intCast(index)) * 2;
    const dense: InSet(i64) = try .init(arena.allocator(), &terms);
    try testing.expect(dense.lookup == .range);
    for (&terms) |*term| term.* *= 1 << 40;
    const scattered: InSet(i64) = try .init(arena.allocator(), &terms);
    try testing.expect(scattered.lookup == .table);
    var out: [1]u8 = undefined;
    scattered.match(&.{ terms[0], terms[0] + 1, 0, terms[499], 1 }, &out);
    try testing.expectEqual(0b01101, out[0]);
    dense.match(&.{ -300, -301, 698, 700, std.math.minInt(i64) }, &out);
    try testing.expectEqual(0b00101, out[0]);
}

test BytesInSet {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    var prng: std.Random.DefaultPrng = .init(15);
    const terms_source: TestBytes = .init(prng.random());
    var terms: [60][]const u8 = undefined;
    for (&terms, 0..) |*term, index| term.* = terms_source.at(index);
    var out: TestOut(test_rows_max) = .{};
    for ([_]usize{ 0, 1, 5, 60 }) |term_count| for (test_lengths) |n| {
        const set: BytesInSet = try .init(arena.allocator(), terms[0..term_count]);
        const rows: TestBytes = .init(prng.random());
        var expected: [test_rows_max]bool = undefined;
        for (expected[0..n], 0..) |*want, row| {
            want.* = for (terms[0..term_count]) |term| {
                if (std.mem.eql(u8, term, rows.at(row))) break true;
            } else false;
        }
        set.match(rows.offsets[0 .. n + 1], rows.bytes(n), out.slice(n));
        try out.expect(expected[0..n]);
    };
    const set: BytesInSet = try .init(arena.allocator(), &.{ "abc", "abcd", "xyz" });
    set.match_fixed(3, "abcxyaxyz", 3, out.slice(3));
    try out.expect(&.{ true, false, true });
}
