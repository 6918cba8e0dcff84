//! CRC-32 as gzip, zip and Parquet's pages use it.
const std = @import("std");
const interrupt = @import("../core/interrupt.zig");
const lz = @import("lz4.zig");

const crc_polynomial = 0xEDB88320; // of CRC-32, first bit lowest

/// crc_tables[n][b]: what byte b does to the register after n more bytes of zero.
const crc_tables: [8][256]u32 = tables: {
    @setEvalBranchQuota(20_000);
    var tables: [8][256]u32 = undefined;
    for (&tables[0], 0..) |*entry, byte| {
        var value: u32 = byte;
        for (0..8) |_| value = if (value & 1 != 0) value >> 1 ^ crc_polynomial else value >> 1;
        entry.* = value;
    }
    for (1..8) |n| for (0..256) |byte| {
        const value = tables[n - 1][byte];
        tables[n][byte] = value >> 8 ^ tables[0][value & 0xFF];
    };
    break :tables tables;
};

/// CRC-32 as gzip, zip and Parquet's pages use it.
///
/// Long inputs are shortened first. Modulo the CRC's polynomial, x^300 + x^155 + x^117 + x^89 + 1 is
/// zero, and so is its 128th power, which over bits has the same few terms: x^(300 * 128) and so
/// on. So a row of 128 bits may be taken out and added to the rows 145, 183, 211 and 300 further
/// on, and the CRC stays the same: five loads and a store where tables take sixteen lookups.
/// There are no multiples with fewer terms below degree 2,974. (Sam Russell, "Chorba: A novel
/// CRC32 implementation", arXiv 2412.16398, has the idea and more such multiples.)
pub fn crc32(bytes: []const u8) interrupt.Error!u32 {
    var crc: u32 = 0xFFFF_FFFF;
    var from: usize = 0;
    if (bytes.len >= 3 * crc_block_bytes) {
        @memset(&crc_window, @splat(0));
        crc_window[0] = @bitCast(@as(u128, crc));
        while (bytes.len - from >= 2 * crc_block_bytes) : (from += crc_block_bytes) {
            if (from % (16 * crc_block_bytes) == 0) try interrupt.check();
            crc_move_rows(.onward, bytes[from..][0..crc_block_bytes]);
        }
        crc_move_rows(.out, bytes[from..][0..crc_block_bytes]);
        crc = crc_update(0, std.mem.asBytes(&crc_window));
        from += crc_block_bytes;
    }
    return ~crc_update(crc, bytes[from..]);
}

const crc_taps = [_]usize{ 145, 183, 211 };
const crc_block_rows = 300;
const crc_block_bytes = 16 * crc_block_rows;

/// The last 300 rows as they were when they were moved away, the row n at n mod 300.
var crc_window: [crc_block_rows]lz.Row = undefined;

/// `.onward` moves these 300 rows away; `.out` only adds to them what earlier rows have moved here.
noinline fn crc_move_rows(comptime move: enum { onward, out }, block: *const [crc_block_bytes]u8) void {
    const starts = [_]usize{0} ++ crc_taps;
    const stops = crc_taps ++ [_]usize{crc_block_rows};
    inline for (starts, stops) |start, stop| {
        for (start..stop) |index| {
            var row = crc_window[index] ^ @as(lz.Row, block[index * 16 ..][0..16].*);
            inline for (crc_taps) |tap| {
                if (start < tap) {
                    row ^= crc_window[index + crc_block_rows - tap]; // of the block before
                } else if (move == .onward) row ^= crc_window[index - tap];
            }
            crc_window[index] = row;
        }
    }
}

pub fn crc_update(start: u32, bytes: []const u8) u32 {
    var crc = start;
    var from: usize = 0;
    while (bytes.len - from >= 8) : (from += 8) {
        const word = std.mem.readInt(u64, bytes[from..][0..8], .little) ^ crc;
        crc = 0;
        inline for (0..8) |index| crc ^= crc_tables[7 - index][@as(u8, @truncate(word >> 8 * index))];
    }
    for (bytes[from..]) |byte| crc = crc >> 8 ^ crc_tables[0][@as(u8, @truncate(crc)) ^ byte];
    return crc;
}

test crc32 {
    try std.testing.expectEqual(0xCBF43926, try crc32("123456789"));
    const bytes = try std.testing.allocator.alloc(u8, 60_000);
    defer std.testing.allocator.free(bytes);
    var generator: std.Random.DefaultPrng = .init(5);
    generator.random().bytes(bytes);
    const least = 3 * crc_block_bytes;
    for ([_]usize{ 0, 1, 7, 8, 9, least - 1, least, least + 1, least +
        15, least + 16, 4 * crc_block_bytes - 1, 60_000 }) |size|
        try std.testing.expectEqual(std.hash.Crc32.hash(bytes[0..size]), try crc32(bytes[0..size]));
}
