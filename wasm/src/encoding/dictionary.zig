//! Dictionary codes to values.
//!
//! Codes come from the file. They are checked a batch at a time: one vector maximum over the batch
//! costs a tenth of a comparison per value, and the copying loops then trust them.
//!
//! Byte arrays take two steps, because only the first knows how much room the second needs:
//! `gather_offsets` checks the codes and adds up the sizes, `gather_bytes` copies.
//!
//! Invariants: dictionaries are readable 64 bytes past their end, targets of bytes are writable 64
//! bytes past theirs. Offsets of a dictionary never fall and end within its bytes: they are ours.
const std = @import("std");
const interrupt = @import("../core/interrupt.zig");
const assert = std.debug.assert;

pub const Error = error{ InvalidFormat, Cancelled, TooLarge };

/// Small enough that the codes are still in the first cache level when they are used.
const batch_size = 1024;

const Bytes16 = @Vector(16, u8);

/// target[i] = dictionary[codes[i]]
pub fn gather(comptime T: type, dictionary: []const T, codes: []const u32, target: []T) Error!void {
    comptime assert(@sizeOf(T) <= 16);
    assert(codes.len == target.len);
    var start: usize = 0;
    while (start < codes.len) : (start += batch_size) {
        const batch = codes[start..@min(start + batch_size, codes.len)];
        try check(batch, dictionary.len);
        gather_checked(T, dictionary.ptr, batch, target.ptr + start);
    }
}

noinline fn gather_checked(comptime T: type, dictionary: [*]const T, codes: []const u32, target: [*]T) void {
    // One load and one store each; as an integer, 16 bytes would take two.
    const Unit = if (@sizeOf(T) == 16) Bytes16 else T;
    const from: [*]align(@alignOf(T)) const Unit = @ptrCast(dictionary);
    // Sums of addresses, unlike indices, become the constant offsets that loads and stores have.
    var code_address = @intFromPtr(codes.ptr);
    var address = @intFromPtr(target);
    var left = codes.len;
    while (left >= 4) : (left -= 4) {
        inline for (0..4) |i| {
            const code: *const u32 = @ptrFromInt(code_address + i * 4);
            const to: *align(@alignOf(T)) Unit = @ptrFromInt(address + i * @sizeOf(T));
            to.* = from[code.*];
        }
        code_address += 4 * 4;
        address += 4 * @sizeOf(T);
    }
    const done = codes.len - left;
    for (codes[done..], target[done..codes.len]) |code, *to| to.* = dictionary[code];
}

/// The same for values of any width, as bytes.
pub fn gather_fixed(width: u32, dictionary: []const u8, codes: []const u32, target: []u8) Error!void {
    assert(target.len == codes.len * @as(usize, width));
    if (width == 0) return;
    var to = target.ptr;
    var start: usize = 0;
    while (start < codes.len) : (start += batch_size) {
        const batch = codes[start..@min(start + batch_size, codes.len)];
        try check(batch, dictionary.len / width);
        for (batch) |code| {
            copy_wide(to, dictionary.ptr + code * @as(usize, width), width);
            to += width;
        }
    }
}

/// Offsets of the chosen byte arrays laid one behind the other: the first is `base`, and
/// `offsets.len` is one more than `codes.len`. Returns the bytes they take together.
pub fn gather_offsets(dictionary_offsets: []const u32, codes: []const u32, offsets: []u32, base: u32) Error!u32 {
    assert(offsets.len == codes.len + 1 and dictionary_offsets.len >= 1);
    offsets[0] = base;
    var end: u64 = base;
    var start: usize = 0;
    while (start < codes.len) : (start += batch_size) {
        const batch = codes[start..@min(start + batch_size, codes.len)];
        try check(batch, dictionary_offsets.len - 1);
        end = add_sizes(dictionary_offsets.ptr, batch, offsets[start + 1 ..].ptr, end);
        if (end > std.math.maxInt(u32)) return error.TooLarge;
    }
    return @intCast(end - base);
}

/// A sum of 1024 sizes fits 64 bits with ease, so the caller looks at it once per batch.
noinline fn add_sizes(dictionary_offsets: [*]const u32, codes: []const u32, ends: [*]u32, start: u64) u64 {
    var end = start;
    for (codes, 0..) |code, i| {
        end += dictionary_offsets[code + 1] - dictionary_offsets[code];
        ends[i] = @truncate(end);
    }
    return end;
}

/// The bytes that belong to `gather_offsets`, which has checked these codes; `target` is as long
/// as it said.
pub fn gather_bytes(
    dictionary_offsets: []const u32,
    dictionary_bytes: []const u8,
    codes: []const u32,
    target: []u8,
) Error!void {
    assert(dictionary_offsets[dictionary_offsets.len - 1] <= dictionary_bytes.len);
    var to = target.ptr;
    var start: usize = 0;
    while (start < codes.len) : (start += batch_size) {
        try interrupt.check(); // A few codes may stand for gigabytes.
        const batch = codes[start..@min(start + batch_size, codes.len)];
        to = copy_values(dictionary_offsets.ptr, dictionary_bytes.ptr, batch, to);
    }
    assert(to == target.ptr + target.len);
}

noinline fn copy_values(offsets: [*]const u32, bytes: [*]const u8, codes: []const u32, target: [*]u8) [*]u8 {
    var to = target;
    for (codes) |code| {
        const start = offsets[code];
        const size = offsets[code + 1] - start;
        copy_wide(to, bytes + start, size);
        to += size;
    }
    return to;
}

/// The first 16 bytes whatever the size: what is worth a dictionary is mostly shorter. Up to 16
/// bytes behind the target change; the next value overwrites them.
inline fn copy_wide(target: [*]u8, source: [*]const u8, size: usize) void {
    target[0..16].* = source[0..16].*;
    var done: usize = 16;
    while (done < size) : (done += 16) target[done..][0..16].* = source[done..][0..16].*;
}

fn check(codes: []const u32, entry_count: usize) Error!void {
    const largest = max(codes);
    if (largest < entry_count) return;
    interrupt.describe("dictionary code {d}, but the dictionary has {d} entries", .{ largest, entry_count });
    return error.InvalidFormat;
}

noinline fn max(codes: []const u32) u32 {
    assert(codes.len != 0);
    const V = @Vector(4, u32);
    var largest: V = @splat(0);
    var other: V = @splat(0); // Two chains: a maximum waits for the one before it.
    var i: usize = 0;
    while (i + 8 <= codes.len) : (i += 8) {
        largest = @max(largest, @as(V, codes[i..][0..4].*));
        other = @max(other, @as(V, codes[i + 4 ..][0..4].*));
    }
    var result: u32 = @reduce(.Max, @max(largest, other));
    while (i < codes.len) : (i += 1) result = @max(result, codes[i]);
    return result;
}

// Tests.

const testing = std.testing;
const padding = 64;
const lengths = [_]usize{ 0, 1, 7, 8, 9, 15, 16, 17, 1023, 1024, 1025, 2500 };

fn random_codes(random: std.Random, entry_count: u32, codes: []u32) void {
    for (codes) |*code| code.* = random.uintLessThan(u32, entry_count);
}

fn check_gather(comptime T: type, random: std.Random) !void {
    var dictionary: [300]T = undefined;
    random.bytes(std.mem.asBytes(&dictionary));
    var codes: [2500]u32 = undefined;
    var target: [2500]T = undefined;
    for (lengths) |n| {
        random_codes(random, 300, &codes);
        try gather(T, &dictionary, codes[0..n], target[0..n]);
        for (codes[0..n], target[0..n]) |code, value| try testing.expectEqual(dictionary[code], value);
        if (n == 0) continue;
        codes[random.uintLessThan(usize, n)] = 300;
        try testing.expectError(error.InvalidFormat, gather(T, &dictionary, codes[0..n], target[0..n]));
    }
}

test gather {
    defer interrupt.forget();
    var prng: std.Random.DefaultPrng = .init(1);
    inline for (.{ u8, u16, u32, i64, i128, [12]u8 }) |T| try check_gather(T, prng.random());
    var none: [1]u32 = undefined;
    try testing.expectError(error.InvalidFormat, gather(u32, &.{}, &.{0}, &none));
    try gather(u32, &.{}, &.{}, none[0..0]);
}

test gather_fixed {
    defer interrupt.forget();
    var prng: std.Random.DefaultPrng = .init(2);
    const random = prng.random();
    var dictionary: [50 * 70 + padding]u8 = undefined;
    random.bytes(&dictionary);
    var codes: [1100]u32 = undefined;
    const target = try testing.allocator.alloc(u8, 1100 * 70 + padding);
    defer testing.allocator.free(target);
    for ([_]u32{ 0, 1, 3, 5, 12, 15, 16, 17, 31, 32, 33, 70 }) |width| for ([_]usize{ 0, 1, 2, 1100 }) |n| {
        random_codes(random, 50, &codes);
        const sized = target[0 .. n * width];
        try gather_fixed(width, dictionary[0 .. 50 * width], codes[0..n], sized);
        for (codes[0..n], 0..) |code, i| {
            try testing.expectEqualSlices(u8, dictionary[code * width ..][0..width], sized[i * width ..][0..width]);
        }
        if (n == 0 or width == 0) continue;
        codes[n - 1] = 50;
        try testing.expectError(
            error.InvalidFormat,
            gather_fixed(width, dictionary[0 .. 50 * width], codes[0..n], sized),
        );
    };
}

test "gather_offsets and gather_bytes" {
    defer interrupt.forget();
    var prng: std.Random.DefaultPrng = .init(3);
    const random = prng.random();
    var dictionary_offsets: [101]u32 = undefined;
    dictionary_offsets[0] = 7;
    for (dictionary_offsets[1..], dictionary_offsets[0..100]) |*end, start| {
        end.* = start + if (random.boolean()) random.uintAtMost(u32, 17) else random.uintAtMost(u32, 70);
    }
    var bytes: [8000 + padding]u8 = undefined;
    random.bytes(&bytes);
    const dictionary_bytes = bytes[0..dictionary_offsets[100]];
    var codes: [2500]u32 = undefined;
    var offsets: [2501]u32 = undefined;
    const target = try testing.allocator.alloc(u8, 2500 * 70 + padding);
    defer testing.allocator.free(target);
    for (lengths) |n| {
        random_codes(random, 100, &codes);
        const size = try gather_offsets(&dictionary_offsets, codes[0..n], offsets[0 .. n + 1], 1000);
        @memset(target[0 .. size + padding], 0);
        try gather_bytes(&dictionary_offsets, dictionary_bytes, codes[0..n], target[0..size]);
        try testing.expectEqual(1000, offsets[0]);
        try testing.expectEqual(1000 + size, offsets[n]);
        for (codes[0..n], 0..) |code, i| {
            const wanted = dictionary_bytes[dictionary_offsets[code]..dictionary_offsets[code + 1]];
            try testing.expectEqualSlices(u8, wanted, target[offsets[i] - 1000 .. offsets[i + 1] - 1000]);
        }
        for (target[size + 16 ..][0 .. padding - 16]) |byte| try testing.expectEqual(0, byte);
        if (n == 0) continue;
        codes[n / 2] = 100;
        try testing.expectError(
            error.InvalidFormat,
            gather_offsets(&dictionary_offsets, codes[0..n], offsets[0 .. n + 1], 0),
        );
    }
}

test "gather_offsets refuses more bytes than offsets can count" {
    const dictionary_offsets = [_]u32{ 0, 1 << 30 };
    var offsets: [5]u32 = undefined;
    try testing.expectEqual(
        3 << 30,
        try gather_offsets(&dictionary_offsets, &.{ 0, 0, 0 }, offsets[0..4], (1 << 30) - 1),
    );
    try testing.expectEqual(std.math.maxInt(u32), offsets[3]);
    try testing.expectError(error.TooLarge, gather_offsets(&dictionary_offsets, &.{ 0, 0, 0 }, offsets[0..4], 1 << 30));
    try testing.expectError(error.TooLarge, gather_offsets(&dictionary_offsets, &.{ 0, 0, 0, 0 }, &offsets, 0));
}
