//! Key columns of a join → one 64-bit word a row, equal exactly where all keys are.
//!
//! Once all rows of the build are there, the least and the greatest value of every key are known. A key
//! then is its distance from the least one, in as many bits as the greatest needs, and several keys lie
//! side by side in the word. A probing row with a key outside of these bounds has no match, and is out
//! before anything is looked up. Floats are taken as their bits, with one zero and one NaN. Text, 128-bit
//! values and keys that need more than 64 bits together cannot be packed; join_table.zig hashes those.
const std = @import("std");
const bitmap = @import("../core/bitmap.zig");
const column_module = @import("../core/column.zig");
const reduce = @import("../kernel/reduce.zig");
const schema = @import("../core/schema.zig");
const Column = column_module.Column;
const Layout = schema.Layout;
const Scalar = schema.Scalar;
const assert = std.debug.assert;

/// Where a key lies in the word: (value − base) << shift, for values up to base + range.
const Part = struct { base: u64, range: u64, shift: u6 };

pub const Packing = struct {
    parts: []const Part,
    /// Bits of a word that are in use.
    bits: u7,
    /// NULL is a value like any other: 0, and values begin with 1.
    nulls: bool,

    /// null when the keys do not fit a word.
    pub fn init(arena: std.mem.Allocator, keys: []const Column, nulls: bool) error{OutOfMemory}!?Packing {
        const parts = try arena.alloc(Part, keys.len);
        var used: u7 = 0;
        for (parts, keys) |*part, *key| {
            const bounds = find_bounds(key) orelse return null;
            if (nulls and bounds.range == std.math.maxInt(u64)) return null;
            const codes = bounds.range + @intFromBool(nulls);
            const width: u7 = 64 - @clz(codes);
            if (@as(u8, used) + width > 64) return null;
            // A key without bits is 0 wherever it is put; the word's end is no place.
            part.* = .{ .base = bounds.base, .range = bounds.range, .shift = if (width == 0) 0 else @intCast(used) };
            used += width;
        }
        return .{ .parts = parts, .bits = used, .nulls = nulls };
    }

    /// Words are less than this; the greatest u64 when that is too small to say it.
    pub fn domain(self: *const Packing) u64 {
        if (self.parts.len == 1) return self.parts[0].range +| 1 +| @intFromBool(self.nulls);
        return if (self.bits >= 64) std.math.maxInt(u64) else @as(u64, 1) << @intCast(self.bits);
    }

    /// Writes the words of `rows` and drops rows whose keys are outside of the bounds; returns how
    /// many are left. Rows with a NULL key have been left out before, unless NULL is a value.
    pub fn pack(self: *const Packing, keys: []const Column, rows: []u32, words: []u64) usize {
        assert(keys.len == self.parts.len and words.len >= rows.len);
        var count = rows.len;
        for (keys, self.parts, 0..) |*key, part, i| {
            count = switch (key.type.layout()) {
                .i128, .bytes, .fixed, .list, .structure => unreachable, // init refuses them
                inline else => |layout| if (self.nulls)
                    pack_nullable(layout, i == 0, part, key, rows[0..count], words)
                else if (i == 0)
                    pack_part(layout, true, part, key, rows[0..count], words)
                else
                    pack_part(layout, false, part, key, rows[0..count], words),
            };
        }
        return count;
    }
};

const Bounds = struct { base: u64, range: u64 };

fn find_bounds(key: *const Column) ?Bounds {
    switch (key.type.layout()) {
        .i128, .bytes, .fixed, .list, .structure => return null,
        .none => return .{ .base = 0, .range = 0 },
        .bits => return .{ .base = 0, .range = 1 },
        .f16 => return .{ .base = 0, .range = std.math.maxInt(u16) },
        .f32 => return .{ .base = 0, .range = std.math.maxInt(u32) },
        .f64 => return .{ .base = 0, .range = std.math.maxInt(u64) },
        inline else => |layout| {
            const T = Scalar(layout);
            const low = reduce.min(T, key.values(T), key.validity) orelse return .{ .base = 0, .range = 0 };
            const high = reduce.max(T, key.values(T), key.validity).?;
            return .{ .base = widen(T, low), .range = widen(T, high) -% widen(T, low) };
        },
    }
}

/// Signed values are sign-extended, so that distances come out right without a look at the sign.
inline fn widen(comptime T: type, value: T) u64 {
    return if (@typeInfo(T).int.signedness == .signed) @bitCast(@as(i64, value)) else value;
}

inline fn load(comptime layout: Layout, data: [*]const u8, row: u32) u64 {
    switch (layout) {
        .none => return 0,
        .bits => return @intFromBool(bitmap.get(data, row)),
        .f16, .f32, .f64 => {
            const T = Scalar(layout);
            const value = @as([*]const T, @ptrCast(@alignCast(data)))[row];
            const U = @Int(.unsigned, @bitSizeOf(T));
            if (value == 0) return 0;
            if (value != value) return @as(U, @bitCast(std.math.nan(T)));
            return @as(U, @bitCast(value));
        },
        else => {
            const T = Scalar(layout);
            return widen(T, @as([*]const T, @ptrCast(@alignCast(data)))[row]);
        },
    }
}

fn pack_part(comptime layout: Layout, comptime first: bool, part: Part, key: *const Column, rows: []u32, words: []u64) usize {
    var count: usize = 0;
    for (rows, 0..) |row, i| {
        const distance = load(layout, key.data.ptr, row) -% part.base;
        const before = if (first) 0 else words[i];
        words[count] = before | distance << part.shift;
        rows[count] = row;
        count += @intFromBool(distance <= part.range);
    }
    return count;
}

fn pack_nullable(comptime layout: Layout, first: bool, part: Part, key: *const Column, rows: []u32, words: []u64) usize {
    var count: usize = 0;
    for (rows, 0..) |row, i| {
        const valid = key.is_valid(row);
        const distance = if (valid) load(layout, key.data.ptr, row) -% part.base else 0;
        const code = if (valid) distance +% 1 else 0;
        const before = if (first) 0 else words[i];
        words[count] = before | code << part.shift;
        rows[count] = row;
        count += @intFromBool(distance <= part.range);
    }
    return count;
}

const testing = std.testing;

test "words of several keys are equal exactly where the keys are" {
    var arena: std.heap.ArenaAllocator = .init(testing.allocator);
    defer arena.deinit();
    var prng: std.Random.DefaultPrng = .init(3);
    const random = prng.random();
    const count = 200;
    var a: [count]i64 align(16) = undefined;
    var b: [count]i16 align(16) = undefined;
    var c: [count]f32 align(16) = undefined;
    for (&a, &b, &c) |*x, *y, *z| {
        x.* = random.intRangeAtMost(i64, -3, 3);
        y.* = random.intRangeAtMost(i16, -2, 2);
        z.* = ([_]f32{ 0, -0.0, std.math.nan(f32), -std.math.nan(f32), 1.5 })[random.uintLessThan(usize, 5)];
    }
    const keys = [_]Column{
        .{ .type = .of(.i64), .row_count = count, .data = std.mem.sliceAsBytes(&a) },
        .{ .type = .of(.i16), .row_count = count, .data = std.mem.sliceAsBytes(&b) },
        .{ .type = .of(.f32), .row_count = count, .data = std.mem.sliceAsBytes(&c) },
    };
    const packing = (try Packing.init(arena.allocator(), &keys, false)).?;
    var rows: [count]u32 = undefined;
    for (&rows, 0..) |*row, i| row.* = @intCast(i);
    var words: [count]u64 = undefined;
    try testing.expectEqual(count, packing.pack(&keys, &rows, &words));
    for (0..count) |i| for (0..i) |j| {
        const same_float = c[i] == c[j] or (c[i] != c[i] and c[j] != c[j]);
        try testing.expectEqual(a[i] == a[j] and b[i] == b[j] and same_float, words[i] == words[j]);
    };
}

test "bounds: extremes, keys outside of them, NULL as a value" {
    var arena: std.heap.ArenaAllocator = .init(testing.allocator);
    defer arena.deinit();
    const wide: [2]i64 align(16) = .{ std.math.minInt(i64), std.math.maxInt(i64) };
    const whole: Column = .{ .type = .of(.i64), .row_count = 2, .data = std.mem.sliceAsBytes(&wide) };
    const packing = (try Packing.init(arena.allocator(), &.{whole}, false)).?;
    try testing.expectEqual(std.math.maxInt(u64), packing.domain());
    try testing.expectEqual(null, try Packing.init(arena.allocator(), &.{whole}, true));
    try testing.expectEqual(null, try Packing.init(arena.allocator(), &.{ whole, whole }, false));

    const narrow: [3]i32 align(16) = .{ -5, 100, 7 };
    const column: Column = .{ .type = .of(.i32), .row_count = 3, .validity = &.{0b101}, .data = std.mem.sliceAsBytes(&narrow) };
    const bounded = (try Packing.init(arena.allocator(), &.{column}, true)).?;
    try testing.expectEqual(14, bounded.domain());
    const probing: [4]i32 align(16) = .{ -6, -5, 7, 8 };
    const probe: Column = .{ .type = .of(.i32), .row_count = 4, .validity = &.{0b0111}, .data = std.mem.sliceAsBytes(&probing) };
    var rows = [_]u32{ 0, 1, 2, 3 };
    var words: [4]u64 = undefined;
    try testing.expectEqual(3, bounded.pack(&.{probe}, &rows, &words));
    try testing.expectEqualSlices(u32, &.{ 1, 2, 3 }, rows[0..3]);
    try testing.expectEqualSlices(u64, &.{ 1, 13, 0 }, words[0..3]);
}
