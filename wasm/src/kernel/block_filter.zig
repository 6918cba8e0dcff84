//! A Bloom filter of 64-bit words: a key sets four bits of one word, so asking costs one load.
//!
//! Two bytes a key leave about one wrong answer in a hundred. The word is chosen by the hash's upper
//! half, its bits by the lower half.
const std = @import("std");
const assert = std.debug.assert;

const keys_per_word = 4;

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
        const wanted = mask(hash);
        return self.words[place(hash, self.words.len)] & wanted == wanted;
    }
};

/// The hash's upper half scaled to 0 … count: rising with the hash, for any count.
pub inline fn place(hash: u64, count: usize) usize {
    assert(count <= 1 << 32);
    return @intCast(((hash >> 32) * count) >> 32);
}

inline fn mask(hash: u64) u64 {
    const one: u64 = 1;
    return one << @truncate(hash) | one << @truncate(hash >> 6) | one << @truncate(hash >> 12) | one << @truncate(hash >> 18);
}

test "every key is found, and few others" {
    const hash_word = @import("hash.zig").hash_word;
    const gpa = std.testing.allocator;
    for ([_]usize{ 0, 1, 5, 1000, 100_000 }) |count| {
        var filter: BlockFilter = try .init(gpa, count);
        defer filter.deinit(gpa);
        for (0..count) |key| filter.add(hash_word(key));
        for (0..count) |key| try std.testing.expect(filter.might_contain(hash_word(key)));
        var wrong: usize = 0;
        for (count..count + 10_000) |key| wrong += @intFromBool(filter.might_contain(hash_word(key)));
        try std.testing.expect(wrong < 400);
    }
}
