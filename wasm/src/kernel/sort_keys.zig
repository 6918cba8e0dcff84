//! Values → u64 keys whose unsigned order is the order of the values, and a sort of such keys.
//!
//! Numbers up to 64 bits are said exactly by their key. Longer values (text, 128-bit numbers) give
//! eight bytes at a time; `is_exact` tells the sort whether equal keys mean equal values. NaN is the
//! greatest float, −0.0 equals 0.0.
const std = @import("std");
const schema = @import("../core/schema.zig");
const interrupt = @import("../core/interrupt.zig");
const Interval = @import("../core/interval.zig").Interval;
const Span = @import("../core/interval.zig").Span;
const column_module = @import("../core/column.zig");
const Column = column_module.Column;
const assert = std.debug.assert;

pub fn is_exact(layout: schema.Layout) bool {
    return switch (layout) {
        .bytes, .fixed, .i128 => false,
        .none, .list, .structure => unreachable,
        else => true,
    };
}

/// The key of one row: for values longer than eight bytes, of the bytes from `offset` on.
pub fn key_of(column: *const Column, row: usize, offset: usize) u64 {
    switch (column.type.layout()) {
        .bits => return @intFromBool((column.data[row >> 3] >> @intCast(row & 7)) & 1 != 0),
        .bytes => return prefix(column.bytes_at(row), offset),
        .fixed => {
            if (column.type.tag == .interval) return interval_key(column.values(Interval)[row], offset);
            const width = column.type.width;
            return prefix(column.data[row * width ..][0..width], offset);
        },
        .i128 => return wide_key(column.values(i128)[row], offset),
        .none, .list, .structure => unreachable,
        inline else => |layout| {
            const T = schema.Scalar(layout);
            return number_key(T, column.values(T)[row]);
        },
    }
}

/// How many bytes of key a value has: past them `key_of` gives nothing new.
pub fn key_size(column: *const Column, row: usize) usize {
    return switch (column.type.layout()) {
        .bytes => column.offsets[row + 1] - column.offsets[row],
        .i128 => 16,
        .fixed => if (column.type.tag == .interval) 16 else column.type.width,
        else => 8,
    };
}

/// The key of a number of at most 64 bits.
pub inline fn number_key(comptime T: type, value: T) u64 {
    switch (@typeInfo(T)) {
        .int => |int| {
            if (int.signedness == .unsigned) return value;
            return @as(u64, @bitCast(@as(i64, value))) ^ (1 << 63);
        },
        .float => {
            const wide: f64 = value;
            if (wide != wide) return std.math.maxInt(u64);
            const bits: u64 = @bitCast(if (wide == 0) @as(f64, 0) else wide);
            return if (bits >> 63 != 0) ~bits else bits ^ (1 << 63);
        },
        else => comptime unreachable,
    }
}

fn wide_key(value: i128, offset: usize) u64 {
    const bits = @as(u128, @bitCast(value)) ^ (1 << 127);
    return @truncate(if (offset == 0) bits >> 64 else bits);
}

/// Whole days first, then the rest of a day.
fn interval_key(interval: Interval, offset: usize) u64 {
    const span: Span = .of(interval);
    return number_key(i64, if (offset == 0) span.days else span.rest);
}

fn prefix(bytes: []const u8, offset: usize) u64 {
    if (offset + 8 <= bytes.len) return std.mem.readInt(u64, bytes[offset..][0..8], .big);
    var padded: [8]u8 = @splat(0);
    if (offset < bytes.len) @memcpy(padded[0 .. bytes.len - offset], bytes[offset..]);
    return std.mem.readInt(u64, &padded, .big);
}

pub const Entry = struct { key: u64, row: u32 };

/// Below this a merge sort of entries beats eight passes of counting.
const radix_rows_min = 256;

/// Sorts by key, keeping the order of equal keys. `scratch` is as long as `entries`.
pub fn sort_entries(entries: []Entry, scratch: []Entry) interrupt.Error!void {
    assert(scratch.len >= entries.len);
    if (entries.len < radix_rows_min) {
        std.sort.block(Entry, entries, {}, less_entry);
        return;
    }
    const differing = try differing_bits(entries);
    var from = entries;
    var to = scratch[0..entries.len];
    var shift: u7 = 0;
    while (shift < 64) : (shift += 8) {
        if (@as(u8, @truncate(differing >> @intCast(shift))) == 0) continue;
        try radix_pass(from, to, @intCast(shift));
        std.mem.swap([]Entry, &from, &to);
    }
    if (from.ptr != entries.ptr) @memcpy(entries, from);
}

fn less_entry(_: void, a: Entry, b: Entry) bool {
    return a.key < b.key;
}

/// Bits in which any two keys differ: bytes without one need no pass.
fn differing_bits(entries: []const Entry) interrupt.Error!u64 {
    var differing: u64 = 0;
    for (entries, 0..) |entry, i| {
        if (i % interrupt.block_rows == 0) try interrupt.check();
        differing |= entry.key ^ entries[0].key;
    }
    return differing;
}

/// One stable counting pass over a byte of the key.
fn radix_pass(from: []const Entry, to: []Entry, shift: u6) interrupt.Error!void {
    var starts: [256]u32 = @splat(0);
    var at: usize = 0;
    while (at < from.len) : (at += interrupt.block_rows) {
        try interrupt.check();
        for (from[at..@min(from.len, at + interrupt.block_rows)]) |entry| starts[@as(u8, @truncate(entry.key >> shift))] += 1;
    }
    var position: u32 = 0;
    for (&starts) |*start| {
        const count = start.*;
        start.* = position;
        position += count;
    }
    var block: usize = 0;
    while (block < from.len) : (block += interrupt.block_rows) {
        try interrupt.check();
        for (from[block..@min(from.len, block + interrupt.block_rows)]) |entry| {
            const start = &starts[@as(u8, @truncate(entry.key >> shift))];
            to[start.*] = entry;
            start.* += 1;
        }
    }
}

test "keys order numbers as SQL does" {
    const floats = [_]f64{ -std.math.inf(f64), -1e300, -1, -0.0, 1e-300, 1, std.math.inf(f64), std.math.nan(f64) };
    for (floats[1..], floats[0 .. floats.len - 1]) |b, a| try std.testing.expect(number_key(f64, a) < number_key(f64, b));
    try std.testing.expectEqual(number_key(f64, 0.0), number_key(f64, -0.0));
    try std.testing.expectEqual(number_key(f64, std.math.nan(f64)), number_key(f64, -std.math.nan(f64)));
    const ints = [_]i64{ std.math.minInt(i64), -1, 0, 1, std.math.maxInt(i64) };
    for (ints[1..], ints[0 .. ints.len - 1]) |b, a| try std.testing.expect(number_key(i64, a) < number_key(i64, b));
    try std.testing.expect(wide_key(-1, 0) < wide_key(1 << 64, 0));
    try std.testing.expect(wide_key(1, 8) < wide_key(2, 8));
}

test sort_entries {
    var prng: std.Random.DefaultPrng = .init(3);
    const random = prng.random();
    var entries: [1000]Entry = undefined;
    var scratch: [1000]Entry = undefined;
    for ([_]usize{ 0, 1, 2, 255, 256, 257, 1000 }) |n| {
        for ([_]u64{ 1, 10, 1 << 40, std.math.maxInt(u64) }) |range| {
            for (entries[0..n], 0..) |*entry, i| entry.* = .{ .key = random.uintLessThan(u64, range), .row = @intCast(i) };
            try sort_entries(entries[0..n], &scratch);
            for (entries[0..n -| 1], 1..) |a, i| {
                const b = entries[i];
                try std.testing.expect(a.key < b.key or (a.key == b.key and a.row < b.row));
            }
        }
    }
}
