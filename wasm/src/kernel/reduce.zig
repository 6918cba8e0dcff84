//! Sums and extremes of one column: `values` and a mask become one number.
//!
//! A mask is a bitmap of at least `bitmap.size(values.len)` bytes, bit set = the row counts, null =
//! every row counts. Bits past the last row are ignored. What a masked row holds is never looked at
//! in a way that could show: a NaN under a cleared bit leaks nowhere.
//!
//! Rows are taken in blocks of 64, one word of mask each:
//!
//!     word all ones   the plain vector loop, over the whole run of such words
//!     word zero       skipped
//!     few bits        bit by bit
//!     otherwise       bits spread to lanes, neutral values selected for the rows that do not count
//!
//! Row r of a block always meets lane r mod `lanes`, whichever way its block is taken, and lanes are
//! folded in a fixed tree. So a float sum depends on values and mask alone. Four or eight registers
//! of 128 bits accumulate independently, which hides the latency of an addition; the loops over whole
//! blocks are functions of their own (`noinline`), so that no outer value takes a register from them.
//!
//! Floats order as in DuckDB: NaN is greater than everything and equal to itself.
const std = @import("std");
const bitmap = @import("../core/bitmap.zig");
const widen_half = @import("cast.zig").widen_half;
const extremes = @import("reduce_extremes.zig");
const assert = std.debug.assert;

pub const block_rows = 64;
const full_word: u64 = 0xFFFF_FFFF_FFFF_FFFF;
/// At or below this many set bits of 64, visiting them one by one beats spreading all of them.
const sparse_bits_max = 6;

/// Exact for every length up to 2^32 - 1 rows.
pub fn sum_integer(comptime T: type, values: []const T, mask: ?[]const u8) i128 {
    assert(values.len <= std.math.maxInt(u32));
    const Kernel = if (@bitSizeOf(T) >= 32) SumWide(T) else SumNarrow(T);
    var kernel: Kernel = .{};
    _ = drive(Kernel, T, &kernel, values, mask);
    return kernel.finish();
}

/// HUGEINT addition as in DuckDB: rows are added in order and a running sum that leaves the type
/// is an error, even when later rows would bring it back.
pub fn sum_i128(values: []const i128, mask: ?[]const u8) error{OutOfRange}!i128 {
    var total: i128 = 0;
    var rows: RowIterator = .init(mask, values.len);
    while (rows.next()) |row| {
        const sum, const overflow = @addWithOverflow(total, values[row]);
        if (overflow != 0) return error.OutOfRange;
        total = sum;
    }
    return total;
}

pub fn sum_float(comptime T: type, values: []const T, mask: ?[]const u8) f64 {
    const Kernel = SumFloat(T);
    var kernel: Kernel = .{};
    _ = drive(Kernel, T, &kernel, values, mask);
    return kernel.finish();
}

/// null when no row counts.
pub fn min(comptime T: type, values: []const T, mask: ?[]const u8) ?T {
    return extreme(T, .min, values, mask);
}

pub fn max(comptime T: type, values: []const T, mask: ?[]const u8) ?T {
    return extreme(T, .max, values, mask);
}

pub const Which = enum { min, max };

fn extreme(comptime T: type, comptime which: Which, values: []const T, mask: ?[]const u8) ?T {
    if (T == i128) return extreme_scalar(T, which, values, mask);
    if (T == f16) return extreme_half(which, values, mask);
    const Kernel = switch (T) {
        f32, f64 => extremes.ExtremeFloat(T, which),
        i64, u64 => extremes.ExtremeWide(T, which),
        else => extremes.ExtremeInteger(T, which),
    };
    var kernel: Kernel = .{};
    if (!drive(Kernel, T, &kernel, values, mask)) return null;
    const best = kernel.finish();
    if (@typeInfo(T) != .float) return best;
    if (which == .max) {
        // -inf may be the start value: then there were only NaNs, which the kernel noticed.
        return if (kernel.any_nan()) std.math.nan(T) else best;
    }
    // The minimum skips NaNs, so +inf stands for "only NaNs" too. Rare: look again.
    if (best == std.math.inf(T) and !any_number(T, values, mask)) return std.math.nan(T);
    return best;
}

fn any_number(comptime T: type, values: []const T, mask: ?[]const u8) bool {
    var rows: RowIterator = .init(mask, values.len);
    while (rows.next()) |row| if (!std.math.isNan(values[row])) return true;
    return false;
}

fn extreme_scalar(comptime T: type, comptime which: Which, values: []const T, mask: ?[]const u8) ?T {
    var rows: RowIterator = .init(mask, values.len);
    var best = values[rows.next() orelse return null];
    while (rows.next()) |row| {
        const value = values[row];
        if (if (which == .min) value < best else value > best) best = value;
    }
    return best;
}

/// Halves become integers whose order is theirs: then every NaN, also one with its sign set, has to
/// be the greatest, and the vector loop is the one of i16.
fn extreme_half(comptime which: Which, values: []const f16, mask: ?[]const u8) ?f16 {
    const Kernel = extremes.ExtremeHalf(which);
    var kernel: Kernel = .{};
    if (!drive(Kernel, f16, &kernel, values, mask)) return null;
    return kernel.finish();
}

/// Row of the least value, bytewise; the first of equal ones. null when no row counts.
pub fn min_bytes(offsets: []const u32, data: []const u8, mask: ?[]const u8, row_count: usize) ?u32 {
    return extreme_bytes(.min, offsets, data, mask, row_count);
}

pub fn max_bytes(offsets: []const u32, data: []const u8, mask: ?[]const u8, row_count: usize) ?u32 {
    return extreme_bytes(.max, offsets, data, mask, row_count);
}

fn extreme_bytes(
    comptime which: Which,
    offsets: []const u32,
    data: []const u8,
    mask: ?[]const u8,
    row_count: usize,
) ?u32 {
    assert(row_count == 0 or offsets.len > row_count);
    var rows: RowIterator = .init(mask, row_count);
    var best_row = rows.next() orelse return null;
    var best = data[offsets[best_row]..offsets[best_row + 1]];
    var best_prefix = prefix(data, offsets[best_row], best.len);
    while (rows.next()) |row| {
        const start = offsets[row];
        const size = offsets[row + 1] - start;
        const word = prefix(data, start, size);
        // The first eight bytes settle nearly every comparison without touching the winner's text.
        if (if (which == .min) word > best_prefix else word < best_prefix) continue;
        const value = data[start..][0..size];
        const wanted: std.math.Order = if (which == .min) .lt else .gt;
        if (word == best_prefix and std.mem.order(u8, value, best) != wanted) continue;
        best_row = row;
        best = value;
        best_prefix = word;
    }
    return @intCast(best_row);
}

/// The first eight bytes of a value as a number that orders as they do, short ones filled up with
/// zeros. Equal prefixes say nothing ("a" and "a\x00" share one).
inline fn prefix(data: []const u8, start: usize, size: usize) u64 {
    if (data.len - start >= 8) {
        const word = std.mem.readInt(u64, data[start..][0..8], .big);
        if (size >= 8) return word;
        if (size == 0) return 0;
        return word & (full_word << @intCast(64 - size * 8));
    }
    var word: u64 = 0;
    for (data[start..][0..size], 0..) |byte, i| word |= @as(u64, byte) << @intCast(56 - i * 8);
    return word;
}

/// Row of the least value of `width` bytes each, bytewise; the first of equal ones.
pub fn min_fixed(data: []const u8, width: usize, mask: ?[]const u8, row_count: usize) ?u32 {
    return extreme_fixed(.min, data, width, mask, row_count);
}

pub fn max_fixed(data: []const u8, width: usize, mask: ?[]const u8, row_count: usize) ?u32 {
    return extreme_fixed(.max, data, width, mask, row_count);
}

fn extreme_fixed(comptime which: Which, data: []const u8, width: usize, mask: ?[]const u8, row_count: usize) ?u32 {
    assert(data.len >= width * row_count);
    const wanted: std.math.Order = if (which == .min) .lt else .gt;
    var rows: RowIterator = .init(mask, row_count);
    var best = rows.next() orelse return null;
    while (rows.next()) |row| {
        const value = data[row * width ..][0..width];
        if (std.mem.order(u8, value, data[best * width ..][0..width]) == wanted) best = row;
    }
    return @intCast(best);
}

/// Of packed bools. null when no row counts.
pub fn min_bits(bits: []const u8, mask: ?[]const u8, row_count: usize) ?bool {
    const seen = bits_seen(bits, mask, row_count);
    if (!seen.any_true and !seen.any_false) return null;
    return !seen.any_false;
}

pub fn max_bits(bits: []const u8, mask: ?[]const u8, row_count: usize) ?bool {
    const seen = bits_seen(bits, mask, row_count);
    if (!seen.any_true and !seen.any_false) return null;
    return seen.any_true;
}

const BitsSeen = struct { any_true: bool, any_false: bool };

fn bits_seen(bits: []const u8, mask: ?[]const u8, row_count: usize) BitsSeen {
    const size = bitmap.size(row_count);
    assert(bits.len >= size);
    var ones: u8 = 0;
    var zeros: u8 = 0;
    for (0..size) |i| {
        var counted: u8 = if (mask) |m| m[i] else 0xFF;
        if (i + 1 == size) counted &= bitmap.tail_mask(row_count);
        ones |= bits[i] & counted;
        zeros |= ~bits[i] & counted;
    }
    return .{ .any_true = ones != 0, .any_false = zeros != 0 };
}

/// The rows that count, in order.
const RowIterator = struct {
    mask: ?[]const u8,
    row_count: usize,
    /// First row of the word at hand, and its bits not yet given out.
    base: usize = 0,
    word: u64 = 0,

    fn init(mask: ?[]const u8, row_count: usize) RowIterator {
        return .{ .mask = mask, .row_count = row_count, .word = mask_word(mask, 0, row_count) };
    }

    inline fn next(self: *RowIterator) ?usize {
        while (self.word == 0) {
            self.base += block_rows;
            if (self.base >= self.row_count) return null;
            self.word = mask_word(self.mask, self.base, self.row_count);
        }
        const row = self.base + @ctz(self.word);
        self.word &= self.word - 1;
        return row;
    }
};

/// The mask of the block that starts at `base`, a multiple of 64; zero for rows past the end.
fn mask_word(mask: ?[]const u8, base: usize, row_count: usize) u64 {
    const rows = row_count - base;
    if (rows >= block_rows) {
        const bits = mask orelse return full_word;
        return std.mem.readInt(u64, bits[base / 8 ..][0..8], .little);
    }
    if (rows == 0) return 0;
    var word: u64 = full_word;
    if (mask) |bits| {
        word = 0;
        for (bits[base / 8 ..][0..bitmap.size(rows)], 0..) |byte, i| word |= @as(u64, byte) << @intCast(i * 8);
    }
    return word & (full_word >> @intCast(block_rows - rows));
}

/// Walks the blocks and hands each to the kernel in the cheapest way. True when any row counted.
///
/// A kernel has `run` (whole blocks, every row counts), `select` (one block under a mask word) and
/// `one` (a single row, whose place in its block decides the lane).
fn drive(comptime Kernel: type, comptime T: type, kernel: *Kernel, values: []const T, mask: ?[]const u8) bool {
    const full = values.len - values.len % block_rows;
    var seen = false;
    if (mask) |bits| {
        assert(bits.len >= bitmap.size(values.len));
        seen = drive_masked(Kernel, T, kernel, values[0..full], bits);
    } else if (full > 0) {
        kernel.run(values[0..full]);
        seen = true;
    }
    var word = mask_word(mask, full, values.len);
    seen = seen or word != 0;
    while (word != 0) : (word &= word - 1) kernel.one(@ctz(word), values[full + @ctz(word)]);
    return seen;
}

fn drive_masked(comptime Kernel: type, comptime T: type, kernel: *Kernel, values: []const T, bits: []const u8) bool {
    var seen = false;
    var base: usize = 0;
    while (base < values.len) {
        var word = mask_word(bits, base, values.len);
        const start = base;
        base += block_rows;
        if (word == 0) continue;
        seen = true;
        if (word == full_word) {
            while (base < values.len and mask_word(bits, base, values.len) == full_word) base += block_rows;
            kernel.run(values[start..base]);
        } else if (@popCount(word) <= sparse_bits_max) {
            while (word != 0) : (word &= word - 1) kernel.one(@ctz(word), values[start + @ctz(word)]);
        } else {
            kernel.select(values[start..][0..block_rows], word);
        }
    }
    return seen;
}

/// Bit i of `bits` as lane i, in lanes as wide as the values they choose among.
pub inline fn spread(comptime lanes: comptime_int, comptime T: type, bits: u64) @Vector(lanes, bool) {
    const Word = @Int(.unsigned, @max(lanes, @bitSizeOf(T)));
    const powers = comptime blk: {
        var result: [lanes]Word = undefined;
        for (&result, 0..) |*power, i| power.* = 1 << i;
        break :blk result;
    };
    const wide: @Vector(lanes, Word) = @splat(@truncate(bits));
    return wide & @as(@Vector(lanes, Word), powers) != @as(@Vector(lanes, Word), @splat(0));
}

/// Register `index` of several that were loaded as one long vector. One long load lets the compiler
/// put the distances into the load instructions; separate loads would each compute an address.
pub inline fn part(
    comptime width: comptime_int,
    comptime index: comptime_int,
    wide: anytype,
) @Vector(width, std.meta.Child(@TypeOf(wide))) {
    const picked = comptime blk: {
        var lanes: [width]i32 = undefined;
        for (&lanes, index * width..) |*lane, i| lane.* = i;
        break :blk lanes;
    };
    return @shuffle(std.meta.Child(@TypeOf(wide)), wide, undefined, picked);
}

/// i32, u32, i64 and u64, taken in words of 64 bits without sign: turning each sign bit adds a known
/// bias a row. The sums of whole words wrap; the sums of their upper halves do not, and pin the
/// wrapped ones down, for what the lower halves add up to is below 2^32 rows x 2^32.
fn SumWide(comptime T: type) type {
    return struct {
        const Self = @This();
        /// Values in a word: two of 32 bits are summed as one word, its halves told apart at the end.
        const pack = 64 / @bitSizeOf(T);
        const W = @Vector(2, u64);
        const unroll = 4;
        const lanes = 2 * pack * unroll;
        const bias: u64 = if (@typeInfo(T).int.signedness == .signed) 1 << (@bitSizeOf(T) - 1) else 0;
        const signs: u64 = if (pack == 1) bias else bias | bias << 32;
        const Sums = [unroll]W;

        wrapped: Sums = @splat(@splat(0)),
        high: Sums = @splat(@splat(0)),
        /// Rows that met the accumulators, for the bias.
        rows: u64 = 0,

        noinline fn run(self: *Self, values: []const T) void {
            var wrapped = self.wrapped;
            var high = self.high;
            var i: usize = 0;
            while (i < values.len) : (i += lanes) {
                const wide: @Vector(2 * unroll, u64) = @bitCast(@as(@Vector(lanes, T), values[i..][0..lanes].*));
                inline for (&wrapped, &high, 0..) |*w, *h, k| {
                    const v = part(2, k, wide) ^ @as(W, @splat(signs));
                    w.* +%= v;
                    h.* +%= v >> @splat(32);
                }
            }
            self.wrapped = wrapped;
            self.high = high;
            self.rows += values.len;
        }

        inline fn load(values: *const [2 * pack]T) W {
            return @bitCast(@as(@Vector(2 * pack, T), values.*));
        }

        noinline fn select(self: *Self, values: *const [block_rows]T, word: u64) void {
            const Bits = @Int(.unsigned, @bitSizeOf(T));
            const V = @Vector(2 * pack, Bits);
            var wrapped = self.wrapped;
            var high = self.high;
            inline for (0..block_rows / (2 * pack)) |group| {
                const loaded: V = @bitCast(load(values[group * 2 * pack ..][0 .. 2 * pack]) ^ @as(W, @splat(signs)));
                const counts = spread(2 * pack, Bits, word >> (group * 2 * pack));
                const v: W = @bitCast(@select(Bits, counts, loaded, @as(V, @splat(0))));
                wrapped[group % unroll] +%= v;
                high[group % unroll] +%= v >> @splat(32);
            }
            self.wrapped = wrapped;
            self.high = high;
            self.rows += @popCount(word);
        }

        inline fn one(self: *Self, _: usize, value: T) void {
            const Bits = @Int(.unsigned, @bitSizeOf(T));
            const v: u64 = @as(Bits, @bitCast(value)) ^ @as(Bits, @truncate(signs));
            self.wrapped[0][0] +%= v;
            self.high[0][0] +%= v >> 32;
            self.rows += 1;
        }

        fn finish(self: *const Self) i128 {
            var wrapped: u64 = 0;
            var high: u64 = 0;
            for (self.wrapped, self.high) |w, h| {
                wrapped +%= @reduce(.Add, w);
                high += @reduce(.Add, h);
            }
            const low: u128 = wrapped -% (high << 32);
            const total: u128 = if (pack == 1) (@as(u128, high) << 32) + low else high + low;
            return @as(i128, @intCast(total)) - @as(i128, self.rows) * bias;
        }
    };
}

/// Bytes and shorts: added in lanes of 32 bits as long as those cannot overflow, then in 64.
fn SumNarrow(comptime T: type) type {
    return struct {
        const Self = @This();
        const lanes = 16;
        const V = @Vector(lanes, i32);
        /// 2^14 additions of 16 bits to a lane.
        const stretch_rows: usize = (1 << 14) * lanes;

        total: i64 = 0,

        noinline fn run(self: *Self, values: []const T) void {
            var start: usize = 0;
            while (start < values.len) {
                const rows = @min(values.len - start, stretch_rows);
                self.total += run_stretch(values[start..][0..rows]);
                start += rows;
            }
        }

        inline fn run_stretch(values: []const T) i64 {
            var total: V = @splat(0);
            var i: usize = 0;
            while (i < values.len) : (i += lanes) total +%= @as(@Vector(lanes, T), values[i..][0..lanes].*);
            return fold(total);
        }

        noinline fn select(self: *Self, values: *const [block_rows]T, word: u64) void {
            var total: V = @splat(0);
            const zero: @Vector(lanes, T) = @splat(0);
            inline for (0..block_rows / lanes) |group| {
                const v: @Vector(lanes, T) = values[group * lanes ..][0..lanes].*;
                total +%= @select(T, spread(lanes, T, word >> (group * lanes)), v, zero);
            }
            self.total += fold(total);
        }

        inline fn one(self: *Self, _: usize, value: T) void {
            self.total += value;
        }

        inline fn fold(total: V) i64 {
            return @reduce(.Add, @as(@Vector(lanes, i64), total));
        }

        fn finish(self: *const Self) i128 {
            return self.total;
        }
    };
}

fn SumFloat(comptime T: type) type {
    return struct {
        const Self = @This();
        const W = @Vector(2, f64);
        const unroll = 8;
        const lanes = 2 * unroll;

        total: [unroll]W = @splat(@splat(0)),

        inline fn add(total: *[unroll]W, values: @Vector(lanes, T)) void {
            const wide = if (T == f16) widen_half(lanes, @bitCast(values)) else values;
            inline for (total, 0..) |*t, k| t.* += @as(W, part(2, k, wide));
        }

        noinline fn run(self: *Self, values: []const T) void {
            var total = self.total;
            var i: usize = 0;
            while (i < values.len) : (i += lanes) add(&total, values[i..][0..lanes].*);
            self.total = total;
        }

        /// Adds zero for a row that does not count: an accumulator is never -0, so zero is neutral.
        noinline fn select(self: *Self, values: *const [block_rows]T, word: u64) void {
            const Bits = @Int(.unsigned, @bitSizeOf(T));
            const V = @Vector(lanes, Bits);
            var total = self.total;
            inline for (0..block_rows / lanes) |group| {
                const loaded: V = @bitCast(@as(@Vector(lanes, T), values[group * lanes ..][0..lanes].*));
                const counts = spread(lanes, Bits, word >> (group * lanes));
                add(&total, @bitCast(@select(Bits, counts, loaded, @as(V, @splat(0)))));
            }
            self.total = total;
        }

        inline fn one(self: *Self, row: usize, value: T) void {
            const totals: *[lanes]f64 = @ptrCast(&self.total);
            totals[row % lanes] += value;
        }

        fn finish(self: *const Self) f64 {
            const stored: *const [lanes]f64 = @ptrCast(&self.total);
            var totals = stored.*;
            comptime var width = lanes / 2;
            inline while (width > 0) : (width /= 2) {
                for (0..width) |i| totals[i] += totals[i + width];
            }
            return totals[0];
        }
    };
}

const testing = std.testing;

const test_lengths = [_]usize{ 0, 1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 640, 1500 };
const test_rows_max = 1500;

const MaskKind = enum { none, all, nothing, dense, half, sparse, mixed };

/// Bits past the last row are random in every kind, as the contract allows.
fn random_mask(random: std.Random, kind: MaskKind, buffer: []u8, row_count: usize) ?[]const u8 {
    if (kind == .none) return null;
    random.bytes(buffer);
    for (0..row_count) |row| {
        const set = switch (kind) {
            .none => unreachable,
            .all => true,
            .nothing => false,
            .dense => random.uintLessThan(u8, 10) != 0,
            .half => random.boolean(),
            .sparse => random.uintLessThan(u8, 40) == 0,
            // Runs of whole blocks of one kind, as filters on sorted data leave them.
            .mixed => switch (row / 64 % 5) {
                0, 1 => true,
                2 => false,
                3 => row % 64 == 5,
                else => random.boolean(),
            },
        };
        if (set) bitmap.set(buffer.ptr, row) else bitmap.clear(buffer.ptr, row);
    }
    return buffer[0..bitmap.size(row_count)];
}

fn row_counts(mask: ?[]const u8, row: usize) bool {
    return if (mask) |bits| bitmap.get(bits.ptr, row) else true;
}

fn random_value(comptime T: type, random: std.Random) T {
    if (@typeInfo(T) == .int) return switch (random.uintLessThan(u8, 8)) {
        0 => std.math.minInt(T),
        1 => std.math.maxInt(T),
        else => random.int(T),
    };
    return switch (random.uintLessThan(u8, 60)) {
        0 => std.math.inf(T),
        1 => -std.math.inf(T),
        2 => if (random.boolean()) std.math.nan(T) else -std.math.nan(T),
        else => @floatCast(random.floatNorm(f64) * 100),
    };
}

test "sum_integer is exact" {
    var prng: std.Random.DefaultPrng = .init(1);
    const random = prng.random();
    var bits: [bitmap.size(test_rows_max)]u8 = undefined;
    inline for (.{ i8, i16, i32, i64, u8, u16, u32, u64 }) |T| {
        for (test_lengths) |length| for (std.enums.values(MaskKind)) |kind| {
            var values: [test_rows_max]T = undefined;
            for (&values) |*value| value.* = random_value(T, random);
            const mask = random_mask(random, kind, &bits, length);
            var expected: i128 = 0;
            for (values[0..length], 0..) |value, row| {
                if (row_counts(mask, row)) expected += value;
            }
            try testing.expectEqual(expected, sum_integer(T, values[0..length], mask));
        };
    }
}

test "sum_integer of nothing but extremes" {
    inline for (.{ i8, i16, i32, i64, u8, u16, u32, u64 }) |T| {
        const values = try testing.allocator.alloc(T, 300_000);
        defer testing.allocator.free(values);
        for ([_]T{ std.math.minInt(T), std.math.maxInt(T) }) |value| {
            @memset(values, value);
            try testing.expectEqual(@as(i128, value) * 300_000, sum_integer(T, values, null));
        }
    }
}

test sum_i128 {
    const top = std.math.maxInt(i128);
    try testing.expectEqual(0, try sum_i128(&.{}, null));
    try testing.expectEqual(top, try sum_i128(&.{ top, -5, 5 }, null));
    // The running sum counts, as in DuckDB.
    try testing.expectError(error.OutOfRange, sum_i128(&.{ top, 1, -5 }, null));
    try testing.expectEqual(top - 5, try sum_i128(&.{ top, 1, -5 }, &.{0b11111101}));
}

/// The order of additions written down plainly: lane = row mod 16, then halves folded.
fn expected_sum(comptime T: type, values: []const T, mask: ?[]const u8) f64 {
    var totals: [16]f64 = @splat(0);
    for (values, 0..) |value, row| {
        if (row_counts(mask, row)) totals[row % 16] += value;
    }
    for ([_]usize{ 8, 4, 2, 1 }) |width| {
        for (0..width) |i| totals[i] += totals[i + width];
    }
    return totals[0];
}

test "sum_float adds in its one order, and masked rows leave no trace" {
    var prng: std.Random.DefaultPrng = .init(2);
    const random = prng.random();
    var bits: [bitmap.size(test_rows_max)]u8 = undefined;
    inline for (.{ f16, f32, f64 }) |T| {
        for (test_lengths) |length| for (std.enums.values(MaskKind)) |kind| {
            var values: [test_rows_max]T = undefined;
            for (&values) |*value| value.* = @floatCast(random.floatNorm(f64));
            const mask = random_mask(random, kind, &bits, length);
            const expected = expected_sum(T, values[0..length], mask);
            try testing.expectEqual(expected, sum_float(T, values[0..length], mask));
            for (values[0..length], 0..) |*value, row| {
                if (!row_counts(mask, row)) value.* = if (row % 2 == 0) std.math.nan(T) else std.math.inf(T);
            }
            try testing.expectEqual(expected, sum_float(T, values[0..length], mask));
        };
    }
}

/// NaN above everything.
fn is_less(comptime T: type, a: T, b: T) bool {
    if (@typeInfo(T) == .float) {
        if (std.math.isNan(a)) return false;
        if (std.math.isNan(b)) return true;
    }
    return a < b;
}

fn expect_extreme(comptime T: type, expected: ?T, got: ?T) !void {
    if (@typeInfo(T) == .float) if (expected) |value| if (std.math.isNan(value)) {
        return testing.expect(std.math.isNan(got.?));
    };
    try testing.expectEqual(expected, got);
}

fn check_extremes(comptime T: type, values: []const T, mask: ?[]const u8) !void {
    var least: ?T = null;
    var greatest: ?T = null;
    for (values, 0..) |value, row| {
        if (!row_counts(mask, row)) continue;
        if (least == null or is_less(T, value, least.?)) least = value;
        if (greatest == null or is_less(T, greatest.?, value)) greatest = value;
    }
    try expect_extreme(T, least, min(T, values, mask));
    try expect_extreme(T, greatest, max(T, values, mask));
}

test "min and max" {
    var prng: std.Random.DefaultPrng = .init(3);
    const random = prng.random();
    var bits: [bitmap.size(test_rows_max)]u8 = undefined;
    inline for (.{ i8, i16, i32, i64, i128, u8, u16, u32, u64, f16, f32, f64 }) |T| {
        for (test_lengths) |length| for (std.enums.values(MaskKind)) |kind| {
            var values: [test_rows_max]T = undefined;
            for (&values) |*value| value.* = random_value(T, random);
            const mask = random_mask(random, kind, &bits, length);
            try check_extremes(T, values[0..length], mask);
            // Without the edges, so that the extreme lies anywhere.
            for (&values) |*value|
                value.* = if (@typeInfo(T) == .int) random.int(T) >> 1 else @floatCast(random.floatNorm(f64));
            try check_extremes(T, values[0..length], mask);
        };
    }
}

test "min and max of rising, falling and equal values" {
    inline for (.{ i32, i64, u64, f16, f32, f64 }) |T| {
        var values: [test_rows_max]T = undefined;
        for (0..3) |shape| {
            for (&values, 0..) |*value, i| {
                const number = switch (shape) {
                    0 => i,
                    1 => test_rows_max - i,
                    else => 7,
                };
                value.* = if (@typeInfo(T) == .float) @floatFromInt(number) else @intCast(number);
            }
            try check_extremes(T, &values, null);
        }
    }
}

test "min and max: NaN and infinities" {
    inline for (.{ f16, f32, f64 }) |T| {
        const nan = std.math.nan(T);
        const inf = std.math.inf(T);
        for ([_]usize{ 1, 64, 130 }) |length| {
            var values: [130]T = @splat(nan);
            try check_extremes(T, values[0..length], null); // only NaN
            values[length / 2] = inf;
            try check_extremes(T, values[0..length], null);
            values = @splat(-inf);
            try check_extremes(T, values[0..length], null);
            values[length - 1] = -nan;
            try check_extremes(T, values[0..length], null);
        }
    }
}

test "min and max of bytes" {
    var prng: std.Random.DefaultPrng = .init(4);
    const random = prng.random();
    var bits: [13]u8 = undefined;
    for (0..400) |round| {
        var data: [1200]u8 = undefined;
        var offsets: [101]u32 = undefined;
        offsets[0] = 0;
        const row_count = if (round < 3) round else random.uintLessThan(usize, 100);
        for (0..row_count) |row| {
            // Few different bytes, zero among them: shared prefixes and ties.
            const size = random.uintLessThan(u32, 12);
            for (data[offsets[row]..][0..size]) |*byte|
                byte.* = if (random.uintLessThan(u8, 4) == 0) random.int(u8) else random.uintLessThan(u8, 2);
            offsets[row + 1] = offsets[row] + size;
        }
        const text = data[0..offsets[row_count]];
        const mask = random_mask(random, random.enumValue(MaskKind), &bits, row_count);
        var least: ?u32 = null;
        var greatest: ?u32 = null;
        for (0..row_count) |row| {
            if (!row_counts(mask, row)) continue;
            const value = text[offsets[row]..offsets[row + 1]];
            if (least == null or std.mem.order(u8, value, text[offsets[least.?]..offsets[least.? + 1]]) == .lt)
                least = @intCast(row);
            if (greatest == null or std.mem.order(u8, value, text[offsets[greatest.?]..offsets[greatest.? + 1]]) == .gt)
                greatest = @intCast(row);
        }
        try testing.expectEqual(least, min_bytes(offsets[0 .. row_count + 1], text, mask, row_count));
        try testing.expectEqual(greatest, max_bytes(offsets[0 .. row_count + 1], text, mask, row_count));
    }
}

test "min and max of fixed bytes and bits" {
    const data = "bbabcbaab";
    try testing.expectEqual(2, min_fixed(data, 3, null, 3)); // aab
    try testing.expectEqual(1, max_fixed(data, 3, null, 3)); // bcb
    try testing.expectEqual(0, min_fixed(data, 3, &.{0b011}, 3)); // bba
    try testing.expectEqual(null, max_fixed(data, 3, &.{0b11111000}, 3));
    try testing.expectEqual(0, min_fixed("", 0, null, 2));

    const bits = [_]u8{ 0b1111_1110, 0xFF };
    try testing.expectEqual(false, min_bits(&bits, null, 10));
    try testing.expectEqual(true, max_bits(&bits, null, 10));
    try testing.expectEqual(true, min_bits(&bits, &.{ 0b1111_1110, 0 }, 10));
    try testing.expectEqual(false, max_bits(&bits, &.{ 1, 0 }, 10));
    try testing.expectEqual(null, max_bits(&bits, &.{ 0, 0b1111_1100 }, 10));
    try testing.expectEqual(null, min_bits(&.{}, null, 0));
}
