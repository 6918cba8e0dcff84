//! The slots of group_table.zig, and how rows become what is looked for in them: words, pairs of words, and texts.
//!
//! A reader of keys has `key` (of a row of the block), `is_exact` (whether equal keys are proof), and `same`
//! (asks where they are not).
const std = @import("std");
const group_keys = @import("group_keys.zig");
const hash = @import("../kernel/hash.zig");
const interrupt = @import("../core/interrupt.zig");
const Column = @import("../core/column.zig").Column;

pub const Error = error{ Cancelled, OutOfMemory, TooLarge };

/// No group: a slot that is free.
pub const empty: u32 = std.math.maxInt(u32);

/// Numbers with as many ones as zeros, drawn at random, and other than those of kernel/hash.zig: rows
/// that were partitioned by its hashes are spread anew.
const multiplier_a: u64 = 0xD6E8_FEB8_6659_FD93;
const multiplier_b: u64 = 0x9E6C_63D0_876A_9A47;
const multiplier_c: u64 = 0xC2B2_AE3D_27D4_EB4F;

pub const Word = extern struct {
    key: u64 = 0,
    /// Of several keys: which are NULL.
    flags: u32 = 0,
    group: u32 = empty,

    /// The upper bits are the good ones.
    pub inline fn hash(self: Word) u64 {
        const mixed = self.key ^ @as(u64, self.flags) *% multiplier_b;
        return (mixed ^ (mixed >> 32)) *% multiplier_a;
    }
    pub inline fn differs(self: *const Word, other: Word) bool {
        return (self.key ^ other.key) | (self.flags ^ other.flags) != 0;
    }
};

pub const Pair = extern struct {
    words: [2]u64 = .{ 0, 0 },
    /// A text's length; of several keys, which are NULL.
    extra: u32 = 0,
    group: u32 = empty,

    pub inline fn hash(self: Pair) u64 {
        const a, const b = self.words;
        const x = (a ^ (a >> 32) ^ self.extra) *% multiplier_a;
        const y = (b ^ (b >> 32)) *% multiplier_b;
        return (x ^ std.math.rotl(u64, y, 32)) *% multiplier_c;
    }
    pub inline fn differs(self: *const Pair, other: Pair) bool {
        const difference = @as(@Vector(2, u64), self.words) ^ @as(@Vector(2, u64), other.words);
        return @reduce(.Or, difference) | (self.extra ^ other.extra) != 0;
    }
};

pub fn Slots(comptime Entry: type) type {
    return struct {
        const Self = @This();
        entries: []Entry = &.{},

        pub fn open(self: *Self, gpa: std.mem.Allocator, log2: u6) Error!void {
            self.entries = try gpa.alloc(Entry, @as(usize, 1) << @intCast(log2));
            @memset(self.entries, .{});
        }

        pub fn close(self: *Self, gpa: std.mem.Allocator) void {
            gpa.free(self.entries);
        }

        pub fn shift(self: *const Self) u6 {
            return @intCast(64 - @as(u7, std.math.log2_int(usize, self.entries.len)));
        }

        /// A key that is not there.
        pub fn put(self: *Self, entry: Entry) void {
            var slot: usize = @intCast(entry.hash() >> self.shift());
            while (self.entries[slot].group != empty) slot = (slot + 1) & (self.entries.len - 1);
            self.entries[slot] = entry;
        }

        pub noinline fn grow(self: *Self, gpa: std.mem.Allocator) Error!void {
            const size = std.math.mul(usize, self.entries.len, 2) catch return error.TooLarge;
            const old = self.entries;
            const entries = try gpa.alloc(Entry, size);
            @memset(entries, .{});
            self.entries = entries;
            defer gpa.free(old);
            for (old, 0..) |entry, i| {
                if (i % interrupt.block_rows == 0) try interrupt.check();
                if (entry.group != empty) self.put(entry);
            }
        }
    };
}

pub const Words = struct {
    keys: []const u64,
    flags: ?[]const u32,

    pub inline fn key(self: Words, i: usize) Word {
        return .{ .key = self.keys[i], .flags = if (self.flags) |flags| flags[i] else 0 };
    }
    pub inline fn is_exact(_: Words, _: Word) bool {
        return true;
    }
    pub inline fn same(_: Words, _: usize, _: u32) bool {
        unreachable; // words are all there is
    }
};

pub const Pairs = struct {
    keys: group_keys.Words,

    pub inline fn key(self: Pairs, i: usize) Pair {
        return .{ .words = .{ self.keys.a[i], self.keys.b[i] }, .extra = if (self.keys.flags) |flags| flags[i] else 0 };
    }
    pub inline fn is_exact(_: Pairs, _: Pair) bool {
        return true;
    }
    pub inline fn same(_: Pairs, _: usize, _: u32) bool {
        unreachable;
    }
};

/// A text of up to 16 bytes is its words and its length. A longer one has two words that all of its bytes
/// are mixed into, which are proof of a difference only.
pub const Texts = struct {
    /// Rows of the chunk that opened a group, behind those that are known.
    fresh: *const std.ArrayList(u32),
    column: *const Column,
    rows: ?[]const u32,
    /// Groups below `known` are in `stored`, the others are rows of the chunk.
    stored: *const Column,
    known: u32,

    inline fn row(self: Texts, i: usize) usize {
        return if (self.rows) |chosen| chosen[i] else i;
    }
    pub noinline fn read_keys(self: Texts, first: usize, keys: []Pair) void {
        // Lengths on both sides of a border would be mispredicted branches.
        switch (self.longest(first, keys.len)) {
            0...16 => for (keys, first..) |*to, i| {
                const start, to.extra = self.span(i);
                to.words = hash.short_words(self.column.data, start, to.extra);
            },
            17...hash.folded_max => for (keys, first..) |*to, i| {
                const start, to.extra = self.span(i);
                to.words = hash.folded_words(self.column.data, start, to.extra);
            },
            else => for (keys, first..) |*to, i| {
                const start, to.extra = self.span(i);
                to.words = if (to.extra <= hash.folded_max) hash.folded_words(
                    self.column.data,
                    start,
                    to.extra,
                ) else long_words(self.column.data[start..][0..to.extra]);
            },
        }
    }
    inline fn span(self: Texts, i: usize) struct { u32, u32 } {
        const start = self.column.offsets[self.row(i)];
        return .{ start, self.column.offsets[self.row(i) + 1] - start };
    }
    fn longest(self: Texts, first: usize, count: usize) u32 {
        var greatest: u32 = 0;
        if (self.rows) |rows| {
            for (rows[first..][0..count]) |at| {
                greatest = @max(greatest, self.column.offsets[at + 1] - self.column.offsets[at]);
            }
        } else {
            const offsets = self.column.offsets[first..];
            for (offsets[0..count], offsets[1..][0..count]) |from, end| greatest = @max(greatest, end - from);
        }
        return greatest;
    }
    fn long_words(bytes: []const u8) [2]u64 {
        return .{ hash.hash_bytes(bytes), std.mem.readInt(u64, bytes[0..8], .little) };
    }
    pub inline fn is_exact(_: Texts, given: Pair) bool {
        return given.extra <= 16;
    }
    pub fn same(self: Texts, i: usize, group: u32) bool {
        const stored = if (group < self.known)
            self.stored.bytes_at(group)
        else
            self.column.bytes_at(self.fresh.items[group - self.known]);
        return group_keys.same_bytes(self.column.bytes_at(self.row(i)), stored);
    }
};
