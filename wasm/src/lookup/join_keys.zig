//! Key columns of a join → one 64-bit word a row, equal exactly where all keys are.
//!
//! Once all rows of the build are there, the least and the greatest value of every key are known. A key
//! then is its distance from the least one, in as many bits as the greatest needs, and several keys lie
//! side by side in the word. Keys outside of these bounds become a word that no row of the build has.
//! Floats are taken as their bits, with one zero and one NaN. Text, 128-bit values and keys that need
//! more than a word together cannot be packed; join_table.zig hashes those.
const std = @import("std");
const bitmap = @import("../core/bitmap.zig");
const column_module = @import("../core/column.zig");
const reduce = @import("../kernel/reduce.zig");
const schema = @import("../core/schema.zig");
const Arena = @import("../core/arena.zig").Arena;
const Column = column_module.Column;
const Layout = schema.Layout;
const Scalar = schema.Scalar;
const assert = std.debug.assert;

/// Where a key lies in the word: (value − base) << shift, for values up to base + range.
const Part = struct { base: u64, range: u64, shift: u6 };

/// Rows of a column: those in a list, or consecutive ones.
pub const Rows = union(enum) {
    from: u32,
    list: []const u32,
};

pub const Packing = struct {
    parts: []const Part,
    /// Words of the build are less than this, or any, when it is the greatest u64.
    domain: u64,
    /// NULL is a value like any other: 0, and values begin with 1.
    nulls: bool,

    /// null when the keys do not fit a word.
    pub fn init(arena: std.mem.Allocator, keys: []const Column, nulls: bool) error{OutOfMemory}!?Packing {
        const parts = try arena.alloc(Part, keys.len);
        var used: u7 = 0;
        for (parts, keys) |*part, *key| {
            const bounds = find_bounds(key) orelse return null;
            if (nulls and bounds.range >= std.math.maxInt(u64) - 1) return null;
            const width: u7 = 64 - @clz(bounds.range + @intFromBool(nulls));
            // One word stays free, for keys out of bounds. A single key needs none: its distance is enough.
            if (@as(u8, used) + width > @as(u8, if (keys.len == 1) 64 else 63)) return null;
            part.* = .{ .base = bounds.base, .range = bounds.range, .shift = @intCast(used) };
            used += width;
        }
        return .{
            .parts = parts,
            .nulls = nulls,
            .domain = if (keys.len == 1) parts[0].range +| 1 +| @intFromBool(nulls) else @as(u64, 1) << @intCast(used),
        };
    }

    /// The words of rows. NULL keys have any word at all, unless NULL is a value. Keys out of bounds have
    /// one that is at least `domain`.
    pub fn pack(self: *const Packing, keys: []const Column, rows: Rows, words: []u64) void {
        assert(keys.len == self.parts.len);
        for (keys, self.parts, 0..) |*key, part, i| switch (key.type.layout()) {
            .i128, .bytes, .fixed, .list, .structure => unreachable, // init refuses them
            inline else => |layout| switch (rows) {
                .from => |start| self.pack_part(layout, part, key, i == 0, Consecutive{ .start = start }, words),
                .list => |list| self.pack_part(layout, part, key, i == 0, Listed{ .rows = list }, words),
            },
        };
    }

    /// The words of a single key, for `Distances`; null where it takes more than a subtraction.
    pub fn distances(self: *const Packing, comptime T: type, keys: []const Column, start: u32) ?Distances(T) {
        if (keys.len != 1 or self.nulls) return null;
        return .{ .values = keys[0].values(T).ptr + start, .base = self.parts[0].base };
    }

    inline fn pack_part(
        self: *const Packing,
        comptime layout: Layout,
        part: Part,
        key: *const Column,
        first: bool,
        rows: anytype,
        words: []u64,
    ) void {
        if (self.nulls) return pack_nullable(layout, part, key, first, rows, words);
        if (first and self.parts.len == 1) return pack_only(layout, part, key, rows, words);
        if (first) @memset(words, 0);
        return pack_next(layout, part, key, rows, words);
    }
};

/// Words of rows in an array.
pub const Words = struct {
    words: []const u64,
    pub inline fn at(self: Words, i: usize) u64 {
        return self.words[i];
    }
};

/// Words of consecutive rows of a single key, straight from its values.
pub fn Distances(comptime T: type) type {
    return struct {
        values: [*]const T,
        base: u64,
        pub inline fn at(self: @This(), i: usize) u64 {
            return widen(T, self.values[i]) -% self.base;
        }
    };
}

const Consecutive = struct {
    start: u32,
    inline fn at(self: Consecutive, i: usize) usize {
        return self.start + i;
    }
};

const Listed = struct {
    rows: []const u32,
    inline fn at(self: Listed, i: usize) usize {
        return self.rows[i];
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

inline fn load(comptime layout: Layout, data: [*]const u8, row: usize) u64 {
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

fn pack_only(comptime layout: Layout, part: Part, key: *const Column, rows: anytype, words: []u64) void {
    for (words, 0..) |*word, i| word.* = load(layout, key.data.ptr, rows.at(i)) -% part.base;
}

/// All bits set is out of bounds, and stays so.
fn pack_next(comptime layout: Layout, part: Part, key: *const Column, rows: anytype, words: []u64) void {
    for (words, 0..) |*word, i| {
        const distance = load(layout, key.data.ptr, rows.at(i)) -% part.base;
        const inside = word.* | distance << part.shift;
        word.* = if (distance <= part.range) inside else std.math.maxInt(u64);
    }
}

fn pack_nullable(
    comptime layout: Layout,
    part: Part,
    key: *const Column,
    first: bool,
    rows: anytype,
    words: []u64,
) void {
    for (words, 0..) |*word, i| {
        const before = if (first) 0 else word.*;
        const valid = key.is_valid(rows.at(i));
        const distance = if (valid) load(layout, key.data.ptr, rows.at(i)) -% part.base else 0;
        const code = if (valid) distance +% 1 else 0;
        word.* = if (distance <= part.range) before | code << part.shift else std.math.maxInt(u64);
    }
}

const testing = std.testing;

test "words of several keys are equal exactly where the keys are" {
    var arena: Arena = .init(testing.allocator);
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
    var words: [count]u64 = undefined;
    packing.pack(&keys, .{ .from = 0 }, &words);
    for (0..count) |i| for (0..i) |j| {
        const same_float = c[i] == c[j] or (c[i] != c[i] and c[j] != c[j]);
        try testing.expectEqual(a[i] == a[j] and b[i] == b[j] and same_float, words[i] == words[j]);
    };
    for (words) |word| try testing.expect(word < packing.domain);
    var some: [3]u64 = undefined;
    packing.pack(&keys, .{ .list = &.{ 7, 100, 199 } }, &some);
    try testing.expectEqualSlices(u64, &.{ words[7], words[100], words[199] }, &some);
}

test "bounds: extremes, keys outside of them, NULL as a value" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const wide: [2]i64 align(16) = .{ std.math.minInt(i64), std.math.maxInt(i64) };
    const whole: Column = .{ .type = .of(.i64), .row_count = 2, .data = std.mem.sliceAsBytes(&wide) };
    const packing = (try Packing.init(arena.allocator(), &.{whole}, false)).?;
    try testing.expectEqual(std.math.maxInt(u64), packing.domain);
    try testing.expectEqual(null, try Packing.init(arena.allocator(), &.{whole}, true));
    try testing.expectEqual(null, try Packing.init(arena.allocator(), &.{ whole, whole }, false));

    const narrow: [3]i32 align(16) = .{ -5, 100, 7 };
    const column: Column =
        .{ .type = .of(.i32), .row_count = 3, .validity = &.{0b101}, .data = std.mem.sliceAsBytes(&narrow) };
    const bounded = (try Packing.init(arena.allocator(), &.{column}, true)).?;
    try testing.expectEqual(14, bounded.domain);
    const probing: [4]i32 align(16) = .{ -6, -5, 7, 8 };
    const probe: Column =
        .{ .type = .of(.i32), .row_count = 4, .validity = &.{0b0111}, .data = std.mem.sliceAsBytes(&probing) };
    const outside = std.math.maxInt(u64);
    var words: [4]u64 = undefined;
    bounded.pack(&.{probe}, .{ .from = 0 }, &words);
    try testing.expectEqualSlices(u64, &.{ outside, 1, 13, 0 }, &words);
    const pair = (try Packing.init(arena.allocator(), &.{ column, column }, false)).?;
    pair.pack(&.{ probe, probe }, .{ .from = 0 }, &words);
    try testing.expectEqualSlices(u64, &.{ outside, 0, 12 | 12 << 4, outside }, &words);
}
