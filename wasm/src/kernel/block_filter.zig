//! A Bloom filter of 64-bit words: a key sets two bits of one word, so asking costs one load.
//!
//! With 12 bits a key about one answer in 25 is wrong. More bits would make fewer of them and a larger
//! filter, which costs more than wrong answers do; more bits set would cost as much again as the load.
//! The word is chosen by the hash's upper half, its bits by the lower half.
const std = @import("std");
const assert = std.debug.assert;

const keys_per_word = 5;
/// 256 KiB.
const cached_words = 1 << 15;
/// Keys that `select` takes at once.
pub const select_max = 512;

pub const BlockFilter = struct {
    words: []u64,

    pub fn init(gpa: std.mem.Allocator, key_count: usize) error{OutOfMemory}!BlockFilter {
        const words = try gpa.alloc(u64, key_count / keys_per_word + 1);
        @memset(words, 0);
        return .{ .words = words };
    }

    pub fn deinit(self: *BlockFilter, gpa: std.mem.Allocator) void {
        gpa.free(self.words);
        self.* = undefined;
    }

    pub inline fn add(self: *BlockFilter, hash: u64) void {
        self.words[place(hash, self.words.len)] |= mask(hash);
    }

    pub inline fn might_contain(self: *const BlockFilter, hash: u64) bool {
        return matches(self.words[place(hash, self.words.len)], hash);
    }

    inline fn matches(word: u64, hash: u64) bool {
        return (word >> @truncate(hash)) & (word >> @truncate(hash >> 6)) & 1 != 0;
    }

    /// Writes the numbers of the keys that may be there, in order; returns how many. A filter that is
    /// larger than the cache is read by a loop of its own, which has many reads under way at once.
    pub fn select(self: *const BlockFilter, hashes: []const u64, numbers: []u32) usize {
        assert(hashes.len <= select_max);
        var count: usize = 0;
        if (self.words.len <= cached_words) {
            for (hashes, 0..) |hash, i| {
                numbers[count] = @intCast(i);
                count += @intFromBool(self.might_contain(hash));
            }
            return count;
        }
        var words: [select_max]u64 = undefined;
        for (words[0..hashes.len], hashes) |*word, hash| word.* = self.words.ptr[place(hash, self.words.len)];
        for (words[0..hashes.len], hashes, 0..) |word, hash, i| {
            numbers[count] = @intCast(i);
            count += @intFromBool(matches(word, hash));
        }
        return count;
    }
};

/// The hash's upper half scaled to 0 … count: rising with the hash, for any count.
pub inline fn place(hash: u64, count: usize) usize {
    assert(count <= 1 << 32);
    return @intCast(((hash >> 32) * count) >> 32);
}

inline fn mask(hash: u64) u64 {
    const one: u64 = 1;
    return one << @truncate(hash) | one << @truncate(hash >> 6);
}

test "every key is found, and few others" {
    const hash_word = @import("hash.zig").hash_word;
    const gpa = std.testing.allocator;
    for ([_]usize{ 0, 1, 5, 1000, 200_000 }) |count| {
        var filter: BlockFilter = try .init(gpa, count);
        defer filter.deinit(gpa);
        for (0..count) |key| filter.add(hash_word(key));
        for (0..count) |key| try std.testing.expect(filter.might_contain(hash_word(key)));
        var wrong: usize = 0;
        for (count..count + 10_000) |key| wrong += @intFromBool(filter.might_contain(hash_word(key)));
        try std.testing.expect(wrong < 800);
        var hashes: [select_max]u64 = undefined;
        for (&hashes, 0..) |*hash, i| hash.* = hash_word(i * 7);
        var numbers: [select_max]u32 = undefined;
        var selected: usize = 0;
        const found = filter.select(&hashes, &numbers);
        for (hashes, 0..) |hash, i| if (filter.might_contain(hash)) {
            try std.testing.expectEqual(i, numbers[selected]);
            selected += 1;
        };
        try std.testing.expectEqual(selected, found);
    }
}
