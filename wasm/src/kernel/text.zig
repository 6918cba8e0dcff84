//! Loops over text. Characters are Unicode code points, as in DuckDB.
const std = @import("std");

/// Bytes that do not continue a character.
pub fn count_characters(bytes: []const u8) usize {
    const V = @Vector(16, u8);
    var count: usize = 0;
    var i: usize = 0;
    while (i + 16 <= bytes.len) : (i += 16) {
        // As signed bytes, continuations are those below -64.
        const v: @Vector(16, i8) = @bitCast(@as(V, bytes[i..][0..16].*));
        count += std.simd.countTrues(v >= @as(@Vector(16, i8), @splat(-64)));
    }
    for (bytes[i..]) |byte| count += @intFromBool(byte & 0xC0 != 0x80);
    return count;
}

test count_characters {
    try std.testing.expectEqual(0, count_characters(""));
    try std.testing.expectEqual(5, count_characters("größe"));
    try std.testing.expectEqual(20, count_characters("größe€größe€größe€ab"));
}
