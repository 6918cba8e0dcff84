//! XXH64, the 64-bit hash that Zstandard frames end with and that Parquet's Bloom filters use
//! (xxHash specification 0.1.1, "XXH64 algorithm description").
//!
//!     four lanes, 8 bytes each, per stripe of 32 bytes   →  merged into one word
//!     + length  →  the last 0..31 bytes in words of 8, 4 and 1  →  avalanche
//!
//! All arithmetic wraps. `Lanes` is there for those who hash in pieces, to look at the cancel byte
//! in between; everyone else calls `hash`.
const std = @import("std");
const assert = std.debug.assert;

const prime_1: u64 = 0x9E37_79B1_85EB_CA87;
const prime_2: u64 = 0xC2B2_AE3D_27D4_EB4F;
const prime_3: u64 = 0x1656_67B1_9E37_79F9;
const prime_4: u64 = 0x85EB_CA77_C2B2_AE63;
const prime_5: u64 = 0x27D4_EB2F_1656_67C5;

pub const stripe_size = 32;

pub fn hash(seed: u64, bytes: []const u8) u64 {
    // Keys of Bloom filters are short: they need no lanes.
    if (bytes.len < stripe_size) return avalanche(mix_rest(seed +% prime_5 +% bytes.len, bytes));
    var lanes: Lanes = .init(seed);
    const whole_size = bytes.len - bytes.len % stripe_size;
    lanes.update(bytes[0..whole_size]);
    return lanes.finish(bytes.len, bytes[whole_size..]);
}

pub const Lanes = struct {
    seed: u64,
    words: [4]u64,

    pub fn init(seed: u64) Lanes {
        return .{
            .seed = seed,
            .words = .{ seed +% prime_1 +% prime_2, seed +% prime_2, seed, seed -% prime_1 },
        };
    }

    /// Whole stripes only; `finish` takes what is left over.
    pub fn update(self: *Lanes, bytes: []const u8) void {
        assert(bytes.len % stripe_size == 0);
        // Four names instead of the array: they stay in registers.
        var a, var b, var c, var d = self.words;
        var at: usize = 0;
        while (at < bytes.len) : (at += stripe_size) {
            const stripe = bytes[at..][0..stripe_size];
            a = mix_lane(a, read_word(stripe[0..8]));
            b = mix_lane(b, read_word(stripe[8..16]));
            c = mix_lane(c, read_word(stripe[16..24]));
            d = mix_lane(d, read_word(stripe[24..32]));
        }
        self.words = .{ a, b, c, d };
    }

    /// `size` counts all bytes, those given to `update` and the `rest`.
    pub fn finish(self: *const Lanes, size: u64, rest: []const u8) u64 {
        assert(rest.len == size % stripe_size);
        const merged = if (size < stripe_size) self.seed +% prime_5 else self.merge();
        return avalanche(mix_rest(merged +% size, rest));
    }

    fn merge(self: *const Lanes) u64 {
        const a, const b, const c, const d = self.words;
        var result = std.math.rotl(u64, a, 1) +% std.math.rotl(u64, b, 7) +%
            std.math.rotl(u64, c, 12) +% std.math.rotl(u64, d, 18);
        for (self.words) |word| result = (result ^ mix_lane(0, word)) *% prime_1 +% prime_4;
        return result;
    }
};

inline fn mix_lane(lane: u64, word: u64) u64 {
    return std.math.rotl(u64, lane +% word *% prime_2, 31) *% prime_1;
}

fn mix_rest(start: u64, rest: []const u8) u64 {
    assert(rest.len < stripe_size);
    var result = start;
    var at: usize = 0;
    while (rest.len - at >= 8) : (at += 8) {
        const word = mix_lane(0, read_word(rest[at..][0..8]));
        result = std.math.rotl(u64, result ^ word, 27) *% prime_1 +% prime_4;
    }
    if (rest.len - at >= 4) {
        const word: u64 = std.mem.readInt(u32, rest[at..][0..4], .little);
        result = std.math.rotl(u64, result ^ word *% prime_1, 23) *% prime_2 +% prime_3;
        at += 4;
    }
    while (at < rest.len) : (at += 1) {
        result = std.math.rotl(u64, result ^ rest[at] *% prime_5, 11) *% prime_1;
    }
    return result;
}

inline fn avalanche(word: u64) u64 {
    const a = (word ^ (word >> 33)) *% prime_2;
    const b = (a ^ (a >> 29)) *% prime_3;
    return b ^ (b >> 32);
}

inline fn read_word(bytes: *const [8]u8) u64 {
    return std.mem.readInt(u64, bytes, .little);
}

test hash {
    try std.testing.expectEqual(0xEF46_DB37_51D8_E999, hash(0, ""));
    try std.testing.expectEqual(0x44BC_2CF5_AD77_0999, hash(0, "abc"));
    try std.testing.expectEqual(0xD24E_C4F1_A98C_6E5B, hash(0, "a"));
    // An independent implementation, at every length around words and stripes.
    var bytes: [300]u8 = undefined;
    var random: std.Random.DefaultPrng = .init(64);
    random.fill(&bytes);
    for (0..bytes.len) |size| {
        const seed = random.next();
        try std.testing.expectEqual(std.hash.XxHash64.hash(seed, bytes[0..size]), hash(seed, bytes[0..size]));
        try std.testing.expectEqual(std.hash.XxHash64.hash(0, bytes[0..size]), hash(0, bytes[0..size]));
    }
}

test Lanes {
    var bytes: [107]u8 = undefined;
    for (&bytes, 0..) |*byte, index| byte.* = @intCast(index * 7 % 256);
    var lanes: Lanes = .init(5);
    lanes.update(bytes[0..64]);
    lanes.update(bytes[64..64]);
    lanes.update(bytes[64..96]);
    try std.testing.expectEqual(hash(5, &bytes), lanes.finish(bytes.len, bytes[96..]));
}
