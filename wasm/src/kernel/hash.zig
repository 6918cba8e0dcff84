//! One 64-bit hash a row: for group by, distinct, joins and partitions.
//!
//! Equal values have equal hashes wherever they are stored: integers of every width are hashed as
//! 64 bits (sign extended; 128 bits when they need them), floats as float64 with one zero and one
//! NaN, decimals by their unscaled value, fixed binary as binary of the same bytes, intervals by
//! their length with a month of 30 days (as DuckDB compares them). NULL has a hash of its own.
//! Scales, units and types are the caller's to unify before. Unequal values may share a hash.
//!
//! The mixing multiplies 64 bits by 64 bits and keeps the lower 64: a full product is a call in
//! wasm without wide arithmetic. A product's upper bits depend on all bits below, its lower bits do
//! not, so every step shifts the upper half down before the next, and the last one too: both ends
//! of a hash are good. Tables take slots and partitions from the top.
//!
//! Strings of up to 16 bytes, nearly all of them, are two words behind a mask and a few
//! multiplications, and those of up to 32 bytes four of them. Which they are is asked once for many: lengths
//! around such a border would be mispredicted branches. Longer ones go by blocks of 16 bytes, of which the
//! last overlaps the one before instead of being filled up. No byte outside the value's buffer is read.
const std = @import("std");
const bitmap = @import("../core/bitmap.zig");
const column_file = @import("../core/column.zig");
const Interval = @import("../core/interval.zig").Interval;
const Span = @import("../core/interval.zig").Span;
const widen_half = @import("cast.zig").widen_half;
const Column = column_file.Column;
const assert = std.debug.assert;

pub const Mode = enum {
    /// Overwrites `hashes`.
    first,
    /// Folds the column into the hashes of the columns before it; order matters.
    combine,
};

/// Odd numbers with about as many ones as zeros, drawn at random.
const multiplier_a: u64 = 0x9C8F_2D35_E6B1_47A7;
const multiplier_b: u64 = 0xB5A3_6F1D_0E93_C84D;
const multiplier_c: u64 = 0xD1E7_54B9_3A6C_8F2B;

pub const null_hash: u64 = 0x5F0C_93D6_A87B_214E;
const list_seed: u64 = 0x3B71_E8C2_5D94_06AF;
const structure_seed: u64 = 0x86D4_1F7A_C25E_903B;

/// Rows hashed at a time where a hash needs a place of its own before it is combined.
const block_rows = 256;

pub inline fn hash_word(value: u64) u64 {
    const a = (value ^ (value >> 32)) *% multiplier_a;
    const b = (a ^ (a >> 29)) *% multiplier_b;
    return b ^ (b >> 32);
}

pub inline fn hash_integer(value: anytype) u64 {
    const T = @TypeOf(value);
    if (T == i128) return hash_i128(value);
    if (T == u64) return hash_word(value);
    return hash_word(@bitCast(@as(i64, value)));
}

/// The lower word alone when an i64 or a u64 could hold the value.
inline fn hash_i128(value: i128) u64 {
    const low: u64 = @truncate(@as(u128, @bitCast(value)));
    const high: i64 = @truncate(value >> 64);
    if (high == 0 or high == @as(i64, @bitCast(low)) >> 63) return hash_word(low);
    return combine(hash_word(low), hash_word(@bitCast(high)));
}

pub inline fn hash_float(value: f64) u64 {
    if (value == 0) return hash_word(0);
    if (value != value) return hash_word(@bitCast(std.math.nan(f64)));
    return hash_word(@bitCast(value));
}

/// Both inputs are mixed already, so one multiplication is enough. Not symmetric: (1, 2) and (2, 1)
/// differ, and equal halves do not cancel.
pub inline fn combine(seed: u64, hash: u64) u64 {
    const mixed = (std.math.rotl(u64, seed, 29) ^ hash) *% multiplier_c;
    return mixed ^ (mixed >> 32);
}

pub fn hash_bytes(value: []const u8) u64 {
    return hash_bytes_at(value, 0, value.len);
}

inline fn hash_bytes_at(data: []const u8, start: usize, size: usize) u64 {
    if (size > folded_max) return hash_long(data[start..][0..size]);
    return hash_words(if (size > 16) folded_words(data, start, size) else short_words(data, start, size), size);
}

/// Bytes that `folded_words` takes.
pub const folded_max = 32;

/// A value of up to 32 bytes at `start`: the words of its first 16 bytes, with those of the others mixed in.
/// Values that differ in one of the four words only have different ones, and those of up to 16 bytes are
/// what `short_words` says.
pub inline fn folded_words(data: []const u8, start: usize, size: usize) [2]u64 {
    if (data.len - start < folded_max) return folded_last(data[start..][0..size]);
    const head: @Vector(16, u8) = data[start..][0..16].*;
    const tail: @Vector(16, u8) = data[start + 16 ..][0..16].*;
    const head_mask: @Vector(16, u8) = folded_masks[folded_max - size ..][0..16].*;
    const tail_mask: @Vector(16, u8) = folded_masks[folded_max - size + 16 ..][0..16].*;
    return fold(@bitCast(head & head_mask), @bitCast(tail & tail_mask));
}

/// The same near the end of a buffer.
noinline fn folded_last(value: []const u8) [2]u64 {
    if (value.len <= 16) return load_short(value);
    const last: u128 = @bitCast(value[value.len - 16 ..][0..16].*);
    return fold(@bitCast(value[0..16].*), @bitCast(last >> @intCast(8 * (folded_max - value.len))));
}

inline fn fold(head: @Vector(2, u64), tail: @Vector(2, u64)) [2]u64 {
    return .{
        head[0] ^ std.math.rotl(u64, tail[0] *% multiplier_b, 32),
        head[1] ^ std.math.rotl(u64, tail[1] *% multiplier_c, 32),
    };
}

/// Thirty-two bytes from position 32 - n on: n times 0xFF, then zeros.
const folded_masks: [64]u8 = @as([32]u8, @splat(0xFF)) ++ @as([32]u8, @splat(0));

/// A value of up to 16 bytes at `start`, filled up with zeros; reads past its end where `data` goes
/// on, and masks what it read.
pub inline fn short_words(data: []const u8, start: usize, size: usize) [2]u64 {
    if (data.len - start < 16) return load_short(data[start..][0..size]);
    const loaded: @Vector(16, u8) = data[start..][0..16].*;
    const mask: @Vector(16, u8) = length_masks[16 - size ..][0..16].*;
    const words: @Vector(2, u64) = @bitCast(loaded & mask);
    return .{ words[0], words[1] };
}

/// Sixteen bytes from position 16 - n on: n times 0xFF, then zeros.
const length_masks: [32]u8 = @as([16]u8, @splat(0xFF)) ++ @as([16]u8, @splat(0));

inline fn load_short(value: []const u8) [2]u64 {
    var bytes: [16]u8 = @splat(0);
    for (bytes[0..value.len], value) |*to, byte| to.* = byte;
    return @bitCast(bytes);
}

/// The length tells "a" from "a\x00". Each word goes in by a bijection, so values that differ in
/// one word only never meet before the last step, which is a bijection too.
inline fn hash_words(words: [2]u64, size: usize) u64 {
    const a = (words[0] ^ @as(u64, size) *% multiplier_c) *% multiplier_a;
    const b = words[1] *% multiplier_b;
    const mixed = ((a ^ (a >> 32)) +% std.math.rotl(u64, b, 32)) *% multiplier_c;
    const last = (mixed ^ (mixed >> 29)) *% multiplier_a;
    return last ^ (last >> 32);
}

/// For tests: values with different numbers, and all with the hash of 16 zero bytes.
pub fn colliding_value(number: u64) [16]u8 {
    const zeros = 16 *% multiplier_c *% multiplier_a;
    const a = (number ^ 16 *% multiplier_c) *% multiplier_a;
    var inverse: u64 = multiplier_b;
    for (0..6) |_| inverse *%= 2 -% multiplier_b *% inverse;
    assert(inverse *% multiplier_b == 1);
    const rest = (zeros ^ (zeros >> 32)) -% (a ^ (a >> 32));
    return @bitCast([2]u64{ number, std.math.rotr(u64, rest, 32) *% inverse });
}

fn hash_long(value: []const u8) u64 {
    assert(value.len > folded_max);
    var state: u64 = @as(u64, value.len) *% multiplier_c;
    var position: usize = 0;
    while (position + 16 < value.len) : (position += 16) state = absorb(state, value[position..][0..16]);
    state = absorb(state, value[value.len - 16 ..][0..16]);
    return hash_word(state);
}

inline fn absorb(state: u64, block: *const [16]u8) u64 {
    const words: [2]u64 = @bitCast(block.*);
    const a = (state ^ words[0]) *% multiplier_a;
    const b = (words[1] ^ std.math.rotl(u64, state, 32)) *% multiplier_b;
    return (a ^ (a >> 32)) +% std.math.rotl(u64, b, 27);
}

/// Hashes rows start … start + hashes.len of the column.
pub fn hash_column(column: *const Column, start: u32, hashes: []u64, mode: Mode) void {
    assert(@as(u64, start) + hashes.len <= column.row_count);
    switch (mode) {
        .first => fill(column, start, hashes),
        .combine => {
            var block: [block_rows]u64 = undefined;
            var done: usize = 0;
            while (done < hashes.len) {
                const count = @min(hashes.len - done, block_rows);
                fill(column, @intCast(start + done), block[0..count]);
                for (hashes[done..][0..count], block[0..count]) |*to, hash| {
                    to.* = combine(to.*, hash);
                }
                done += count;
            }
        },
    }
}

fn fill(column: *const Column, start: u32, hashes: []u64) void {
    switch (column.type.layout()) {
        .none => return @memset(hashes, null_hash),
        .bits => for (hashes, start..) |*to, row| {
            to.* = hash_word(@intFromBool(bitmap.get(column.data.ptr, row)));
        },
        .i8 => fill_integers(i8, column, start, hashes),
        .i16 => fill_integers(i16, column, start, hashes),
        .i32 => fill_integers(i32, column, start, hashes),
        .i64 => fill_integers(i64, column, start, hashes),
        .i128 => fill_integers(i128, column, start, hashes),
        .u8 => fill_integers(u8, column, start, hashes),
        .u16 => fill_integers(u16, column, start, hashes),
        .u32 => fill_integers(u32, column, start, hashes),
        .u64 => fill_integers(u64, column, start, hashes),
        .f16 => fill_floats(f16, column, start, hashes),
        .f32 => fill_floats(f32, column, start, hashes),
        .f64 => fill_floats(f64, column, start, hashes),
        .bytes => fill_bytes(column, start, hashes),
        .fixed => fill_fixed(column, start, hashes),
        .list => fill_lists(column, start, hashes),
        .structure => {
            @memset(hashes, structure_seed);
            for (column.children) |*child| hash_column(child, start, hashes, .combine);
        },
    }
    const validity = column.validity orelse return;
    for (hashes, start..) |*to, row| {
        if (!bitmap.get(validity.ptr, row)) to.* = null_hash;
    }
}

fn fill_integers(comptime T: type, column: *const Column, start: u32, hashes: []u64) void {
    for (hashes, column.values(T)[start..][0..hashes.len]) |*to, value| {
        to.* = hash_integer(value);
    }
}

fn fill_floats(comptime T: type, column: *const Column, start: u32, hashes: []u64) void {
    for (hashes, column.values(T)[start..][0..hashes.len]) |*to, value| {
        to.* = hash_float(widen(T, value));
    }
}

inline fn widen(comptime T: type, value: T) f64 {
    return if (T == f16) widen_half(1, .{@as(u16, @bitCast(value))})[0] else value;
}

fn fill_bytes(column: *const Column, start: u32, hashes: []u64) void {
    const offsets = column.offsets[start..][0 .. hashes.len + 1];
    var longest: u32 = 0;
    for (offsets[0..hashes.len], offsets[1..]) |from, end| longest = @max(longest, end - from);
    switch (longest) {
        0...16 => for (hashes, offsets[0..hashes.len], offsets[1..]) |*to, from, end| {
            to.* = hash_words(short_words(column.data, from, end - from), end - from);
        },
        17...folded_max => for (hashes, offsets[0..hashes.len], offsets[1..]) |*to, from, end| {
            to.* = hash_words(folded_words(column.data, from, end - from), end - from);
        },
        else => for (hashes, offsets[0..hashes.len], offsets[1..]) |*to, from, end| {
            to.* = hash_bytes_at(column.data, from, end - from);
        },
    }
}

fn fill_fixed(column: *const Column, start: u32, hashes: []u64) void {
    const size: usize = @intCast(column.type.value_size());
    for (hashes, start..) |*to, row| to.* = switch (column.type.tag) {
        .interval => hash_interval(column.values(Interval)[row]),
        .f32vec => hash_vector(f32, column.data[row * size ..][0..size]),
        .f16vec => hash_vector(f16, column.data[row * size ..][0..size]),
        else => hash_bytes_at(column.data, row * size, size),
    };
}

fn hash_interval(interval: Interval) u64 {
    const span: Span = .of(interval);
    return combine(hash_integer(span.days), hash_integer(span.rest));
}

/// Number by number, because -0 equals 0 inside a vector too.
fn hash_vector(comptime T: type, bytes: []const u8) u64 {
    var state = list_seed;
    var position: usize = 0;
    while (position < bytes.len) : (position += @sizeOf(T)) {
        const value: T = @bitCast(bytes[position..][0..@sizeOf(T)].*);
        state = combine(state, hash_float(widen(T, value)));
    }
    return state;
}

/// Elements are hashed in blocks across list borders; a list's hash is its elements' in order, and
/// its length, which tells [[]] from [] and [a, b] from [a], [b].
fn fill_lists(column: *const Column, start: u32, hashes: []u64) void {
    const child = &column.children[0];
    const offsets = column.offsets[start..][0 .. hashes.len + 1];
    var block: [block_rows]u64 = undefined;
    var block_start: usize = 0;
    var block_end: usize = 0;
    for (hashes, offsets[0..hashes.len], offsets[1..]) |*to, from, end| {
        var state = combine(list_seed, hash_word(end - from));
        for (from..end) |element| {
            if (element >= block_end or element < block_start) {
                block_start = element;
                block_end = @min(element + block_rows, offsets[hashes.len]);
                fill(child, @intCast(block_start), block[0 .. block_end - block_start]);
            }
            state = combine(state, block[element - block_start]);
        }
        to.* = state;
    }
}

const testing = std.testing;

fn hash_one(column: *const Column, row: u32) u64 {
    var hash: [1]u64 = undefined;
    hash_column(column, row, &hash, .first);
    return hash[0];
}

fn column_of(comptime T: type, data_type: column_file.Column, values: []align(16) const T) Column {
    var column = data_type;
    column.data = std.mem.sliceAsBytes(values);
    column.row_count = @intCast(values.len);
    return column;
}

fn plain(tag: @import("../core/schema.zig").TypeTag) Column {
    return .{ .type = .of(tag), .row_count = 0 };
}

test "the same integer hashes alike in every width" {
    const numbers = [_]i8{ 0, 1, 5, 127, -1, -5, -128 };
    for (numbers) |number| {
        const wanted = hash_word(@bitCast(@as(i64, number)));
        inline for (.{ .{ i8, .i8 }, .{ i16, .i16 }, .{ i32, .i32 }, .{ i64, .i64 }, .{ i128, .i128 } }) |pair| {
            const values: [1]pair[0] align(16) = .{number};
            const column = column_of(pair[0], plain(pair[1]), &values);
            try testing.expectEqual(wanted, hash_one(&column, 0));
        }
        if (number >= 0) inline for (.{ .{ u8, .u8 }, .{ u16, .u16 }, .{ u32, .u32 }, .{ u64, .u64 } }) |pair| {
            const values: [1]pair[0] align(16) = .{@intCast(number)};
            const column = column_of(pair[0], plain(pair[1]), &values);
            try testing.expectEqual(wanted, hash_one(&column, 0));
        };
    }
    try testing.expectEqual(hash_integer(@as(u64, 1 << 63)), hash_integer(@as(i128, 1 << 63)));
    try testing.expect(hash_integer(@as(i128, 1 << 64)) != hash_integer(@as(i128, 0)));
    try testing.expect(hash_integer(@as(i128, 1 << 64)) != hash_integer(@as(i128, 1 << 65)));
}

test "floats: one zero, one NaN, every width" {
    const numbers = [_]f16{ 1.5, -0.0, 0.0, std.math.nan(f16), -std.math.nan(f16), std.math.inf(f16), 6.0e-8 };
    for (numbers) |number| {
        const half: [1]f16 align(16) = .{number};
        const single: [1]f32 align(16) = .{number};
        const double: [1]f64 align(16) = .{number};
        const wanted = hash_one(&column_of(f64, plain(.f64), &double), 0);
        try testing.expectEqual(wanted, hash_one(&column_of(f16, plain(.f16), &half), 0));
        try testing.expectEqual(wanted, hash_one(&column_of(f32, plain(.f32), &single), 0));
    }
    try testing.expectEqual(hash_float(0.0), hash_float(-0.0));
    try testing.expectEqual(hash_float(std.math.nan(f64)), hash_float(-std.math.nan(f64)));
    try testing.expect(hash_float(1) != hash_float(2));
}

test "bytes: the buffer's end, every length, and equal hashes in every storage" {
    var prng: std.Random.DefaultPrng = .init(21);
    var text: [80]u8 align(16) = undefined;
    prng.random().bytes(&text);
    for (0..80) |size| {
        for ([_]usize{ 0, 1, 7 }) |gap| {
            if (size + gap > text.len) continue;
            // Last value of its buffer, and with other bytes after it.
            const ends = hash_bytes_at(text[0 .. gap + size], gap, size);
            try testing.expectEqual(ends, hash_bytes_at(&text, gap, size));
            try testing.expectEqual(ends, hash_bytes(text[gap..][0..size]));
        }
        if (size > 0) {
            var changed = text;
            changed[size - 1] ^= 1;
            try testing.expect(hash_bytes(changed[0..size]) != hash_bytes(text[0..size]));
            changed = text;
            changed[0] ^= 0x80;
            try testing.expect(hash_bytes(changed[0..size]) != hash_bytes(text[0..size]));
        }
    }
    try testing.expect(hash_bytes("a") != hash_bytes("a\x00"));
    try testing.expect(hash_bytes("") != hash_bytes("\x00"));

    const offsets = [_]u32{ 0, 5, 5, 80 };
    const column: Column = .{ .type = .of(.utf8), .row_count = 3, .data = &text, .offsets = &offsets };
    const fixed: Column = .{ .type = .{ .tag = .fixed_binary, .width = 5 }, .row_count = 16, .data = &text };
    try testing.expectEqual(hash_one(&column, 0), hash_one(&fixed, 0));
    try testing.expectEqual(hash_bytes(text[75..80]), hash_one(&fixed, 15));
    try testing.expectEqual(hash_bytes(""), hash_one(&column, 1));
    try testing.expectEqual(hash_bytes(text[5..80]), hash_one(&column, 2));
}

test "NULL, bools, intervals, vectors" {
    const bits: [1]u8 align(16) = .{0b0110};
    const column: Column = .{ .type = .of(.bool), .row_count = 4, .data = &bits, .validity = &.{0b0111} };
    try testing.expectEqual(hash_word(0), hash_one(&column, 0));
    try testing.expectEqual(hash_word(1), hash_one(&column, 1));
    try testing.expectEqual(hash_word(1), hash_one(&column, 2));
    try testing.expectEqual(null_hash, hash_one(&column, 3));
    const nothing: Column = .{ .type = .of(.null), .row_count = 2 };
    try testing.expectEqual(null_hash, hash_one(&nothing, 1));

    var intervals: [32]u8 align(16) = @splat(0);
    std.mem.writeInt(i32, intervals[0..4], 1, .little); // one month
    std.mem.writeInt(i32, intervals[20..24], 29, .little); // 29 days and a day of nanoseconds
    std.mem.writeInt(i64, intervals[24..32], 86_400 * 1_000_000_000, .little);
    const spans: Column = .{ .type = .of(.interval), .row_count = 2, .data = &intervals };
    try testing.expectEqual(hash_one(&spans, 0), hash_one(&spans, 1));

    const numbers: [4]f32 align(16) = .{ 0.0, 1, -0.0, 1 };
    const vectors: Column = .{
        .type = .{ .tag = .f32vec, .width = 2 },
        .row_count = 2,
        .data = std.mem.sliceAsBytes(&numbers),
    };
    try testing.expectEqual(hash_one(&vectors, 0), hash_one(&vectors, 1));
}

test "hash_column: combine, and any start" {
    var values: [1000]i64 align(16) = undefined;
    for (&values, 0..) |*value, i| value.* = @intCast(i * i);
    const column = column_of(i64, plain(.i64), &values);
    var all: [1000]u64 = undefined;
    hash_column(&column, 0, &all, .first);
    var some: [600]u64 = undefined;
    hash_column(&column, 77, &some, .first);
    try testing.expectEqualSlices(u64, all[77..677], &some);
    hash_column(&column, 77, &some, .combine);
    for (some, all[77..677]) |got, hash| try testing.expectEqual(combine(hash, hash), got);
    try testing.expect(combine(1, 2) != combine(2, 1));
}

test "lists and structures" {
    // [[1, 2], [], NULL, [1], [2], [1, 2]] with a child that crosses blocks.
    const child_values: [7]i64 align(16) = .{ 1, 2, 9, 1, 2, 1, 2 };
    const children = [_]Column{column_of(i64, plain(.i64), &child_values)};
    const list: Column = .{
        .type = .{ .tag = .list, .children = &.{.{ .name = "item", .type = .of(.i64) }} },
        .row_count = 6,
        .validity = &.{0b111011},
        .offsets = &.{ 0, 2, 2, 3, 4, 5, 7 },
        .children = &children,
    };
    var hashes: [6]u64 = undefined;
    hash_column(&list, 0, &hashes, .first);
    try testing.expectEqual(hashes[0], hashes[5]);
    try testing.expectEqual(null_hash, hashes[2]);
    for (0..5) |i| for (0..i) |j| try testing.expect(hashes[i] != hashes[j]);
    for (0..6) |i| try testing.expectEqual(hashes[i], hash_one(&list, @intCast(i)));

    const structure: Column = .{
        .type = .{
            .tag = .structure,
            .children = &.{ .{ .name = "a", .type = list.type }, .{ .name = "b", .type = list.type } },
        },
        .row_count = 6,
        .validity = &.{0b101111},
        .children = &.{ list, list },
    };
    hash_column(&structure, 0, &hashes, .first);
    try testing.expectEqual(hashes[0], hashes[5]);
    try testing.expectEqual(null_hash, hashes[4]);
    try testing.expect(hashes[1] != hashes[2]);
}

test "a long list across blocks" {
    var numbers: [1000]i64 align(16) = undefined;
    for (&numbers, 0..) |*value, i| value.* = @intCast(i % 500);
    const children = [_]Column{column_of(i64, plain(.i64), &numbers)};
    const list: Column = .{
        .type = .{ .tag = .list, .children = &.{.{ .name = "item", .type = .of(.i64) }} },
        .row_count = 2,
        .offsets = &.{ 0, 500, 1000 },
        .children = &children,
    };
    var hashes: [2]u64 = undefined;
    hash_column(&list, 0, &hashes, .first);
    try testing.expectEqual(hashes[0], hashes[1]);
}

/// The counts of `buckets` equally likely buckets differ from their mean by chance alone: the sum of
/// squared differences over the mean is about the number of buckets, within a few of its deviations.
fn expect_balanced(counts: []const u32, total: usize) !void {
    const mean = @as(f64, @floatFromInt(total)) / @as(f64, @floatFromInt(counts.len));
    var chi: f64 = 0;
    for (counts) |count| {
        const difference = @as(f64, @floatFromInt(count)) - mean;
        chi += difference * difference / mean;
    }
    const freedom: f64 = @floatFromInt(counts.len - 1);
    // Too even is fine for a table; multiplicative hashes of sequences often are.
    try testing.expect(chi < freedom + 8 * @sqrt(2 * freedom));
}

fn bucket_counts(
    comptime part: enum { top, bottom },
    counts: []u32,
    comptime hash_of: fn (usize) u64,
    total: usize,
) void {
    @memset(counts, 0);
    const bits = std.math.log2_int(usize, counts.len);
    for (0..total) |i| {
        const hash = hash_of(i);
        counts[@intCast(if (part == .top) hash >> @intCast(64 - @as(u7, bits)) else hash & (counts.len - 1))] += 1;
    }
}

fn hash_sequence(i: usize) u64 {
    return hash_integer(@as(u64, i));
}

fn hash_stride(i: usize) u64 {
    return hash_integer(@as(i64, @intCast(i)) << 20);
}

fn hash_whole_float(i: usize) u64 {
    return hash_float(@floatFromInt(i));
}

fn hash_customer(i: usize) u64 {
    var text: [18]u8 = "Customer#000000000".*;
    var rest = i;
    var position: usize = text.len;
    while (rest > 0) : (rest /= 10) {
        position -= 1;
        text[position] = '0' + @as(u8, @intCast(rest % 10));
    }
    return hash_bytes(&text);
}

fn hash_short_text(i: usize) u64 {
    var text: [12]u8 = "key-00000000".*;
    std.mem.writeInt(u32, text[8..12], @intCast(i), .big);
    return hash_bytes(&text);
}

fn hash_pair(i: usize) u64 {
    return combine(hash_integer(@as(u64, i % 1000)), hash_integer(@as(u64, i / 1000)));
}

test "top and bottom bits are balanced over regular keys" {
    const counts = try testing.allocator.alloc(u32, 1 << 16);
    defer testing.allocator.free(counts);
    inline for (.{
        hash_sequence,
        hash_stride,
        hash_whole_float,
        hash_customer,
        hash_short_text,
        hash_pair,
    }) |hash_of| {
        bucket_counts(.top, counts, hash_of, 1_000_000);
        try expect_balanced(counts, 1_000_000);
        bucket_counts(.bottom, counts[0..1024], hash_of, 200_000);
        try expect_balanced(counts[0..1024], 200_000);
    }
}

test "a changed input bit changes about half of the output bits" {
    var prng: std.Random.DefaultPrng = .init(22);
    const random = prng.random();
    const rounds = 200;
    var flips: [64][64]u32 = @splat(@splat(0));
    for (0..rounds) |_| {
        const value = random.int(u64);
        const hash = hash_word(value);
        for (0..64) |bit| {
            const change = hash ^ hash_word(value ^ @as(u64, 1) << @intCast(bit));
            for (0..64) |out_bit| flips[bit][out_bit] += @intCast(change >> @intCast(out_bit) & 1);
        }
    }
    for (flips, 0..) |row, bit| {
        var total: u32 = 0;
        for (row) |count| total += count;
        const mean = @as(f64, @floatFromInt(total)) / (64 * rounds);
        errdefer std.debug.print("input bit {d}: {d}\n", .{ bit, mean });
        try testing.expect(mean > 0.4 and mean < 0.6);
    }
}
