//! The least and the greatest of a column's numbers: the kernels that reduce.zig drives over blocks of rows.
const std = @import("std");
const reduce = @import("reduce.zig");
const Which = reduce.Which;
const block_rows = reduce.block_rows;
const part = reduce.part;
const spread = reduce.spread;

pub fn ExtremeInteger(comptime T: type, comptime which: Which) type {
    return struct {
        const Self = @This();
        const width = 16 / @sizeOf(T);
        const V = @Vector(width, T);
        const unroll = 4;
        const lanes = width * unroll;
        const neutral: T = if (which == .min) std.math.maxInt(T) else std.math.minInt(T);

        best: [unroll]V = @splat(@splat(neutral)),

        inline fn better(a: anytype, b: @TypeOf(a)) @TypeOf(a) {
            return if (which == .min) @min(a, b) else @max(a, b);
        }

        pub noinline fn run(self: *Self, values: []const T) void {
            var best = self.best;
            var i: usize = 0;
            while (i < values.len) : (i += lanes) {
                const wide: @Vector(lanes, T) = values[i..][0..lanes].*;
                inline for (&best, 0..) |*b, k| b.* = better(b.*, part(width, k, wide));
            }
            self.best = best;
        }

        pub noinline fn select(self: *Self, values: *const [block_rows]T, word: u64) void {
            var best = self.best;
            inline for (0..block_rows / width) |group| {
                const v: V = values[group * width ..][0..width].*;
                const counts = spread(width, T, word >> (group * width));
                const b = &best[group % unroll];
                b.* = better(b.*, @select(T, counts, v, @as(V, @splat(neutral))));
            }
            self.best = best;
        }

        pub inline fn one(self: *Self, _: usize, value: T) void {
            self.best[0][0] = better(self.best[0][0], value);
        }

        pub fn finish(self: *const Self) T {
            var best = self.best[0];
            for (self.best[1..]) |b| best = better(best, b);
            return if (which == .min) @reduce(.Min, best) else @reduce(.Max, best);
        }
    };
}

/// For kernels whose `keep_better` is dear. "Does anything here beat the best?" is two instructions
/// a register, and the answer is nearly always no. Where it is yes (values that rise or fall), the
/// next blocks are taken without asking.
fn run_asking(comptime T: type, kernel: anytype, values: []const T) void {
    const rows_unasked = 8 * block_rows;
    var i: usize = 0;
    while (i < values.len) {
        i += kernel.rows_beaten(values[i..]);
        const end = @min(values.len, i + rows_unasked);
        kernel.keep_better(values[i..end]);
        i = end;
    }
}

/// i64 and u64, whose minimum is no single instruction.
pub fn ExtremeWide(comptime T: type, comptime which: Which) type {
    return struct {
        const Self = @This();
        const V = @Vector(2, i64);
        const unroll = 4;
        const lanes = 2 * unroll;
        /// Turned sign bits make unsigned values order as signed ones.
        const sign: i64 = if (T == u64) std.math.minInt(i64) else 0;
        const neutral: i64 = if (which == .min) std.math.maxInt(i64) else std.math.minInt(i64);

        best: [unroll]V = @splat(@splat(neutral)),

        inline fn load(comptime n: comptime_int, values: *const [n]T) @Vector(n, i64) {
            return @as(@Vector(n, i64), @bitCast(@as(@Vector(n, T), values.*))) ^ @as(@Vector(n, i64), @splat(sign));
        }

        inline fn beats(v: V, best: V) @Vector(2, bool) {
            return if (which == .min) v < best else v > best;
        }

        pub fn run(self: *Self, values: []const T) void {
            run_asking(T, self, values);
        }

        /// How many rows from the first on hold nothing better than the best; a multiple of 16.
        noinline fn rows_beaten(self: *const Self, values: []const T) usize {
            const best: V = @splat(self.fold());
            var i: usize = 0;
            while (i < values.len) : (i += 16) {
                const wide = load(16, values[i..][0..16]);
                var any: V = @splat(0);
                inline for (0..8) |k| {
                    any |= @select(i64, beats(part(2, k, wide), best), @as(V, @splat(-1)), @as(V, @splat(0)));
                }
                if (@reduce(.Or, any != @as(V, @splat(0)))) break;
            }
            return i;
        }

        noinline fn keep_better(self: *Self, values: []const T) void {
            var best = self.best;
            var i: usize = 0;
            while (i < values.len) : (i += lanes) {
                const wide = load(lanes, values[i..][0..lanes]);
                inline for (&best, 0..) |*b, k| b.* = better(b.*, part(2, k, wide));
            }
            self.best = best;
        }

        inline fn better(best: V, v: V) V {
            return @select(i64, beats(v, best), v, best);
        }

        pub noinline fn select(self: *Self, values: *const [block_rows]T, word: u64) void {
            var best = self.best;
            inline for (0..block_rows / 2) |group| {
                const v = load(2, values[group * 2 ..][0..2]);
                const counts = spread(2, u64, word >> (group * 2));
                const b = &best[group % unroll];
                b.* = better(b.*, @select(i64, counts, v, @as(V, @splat(neutral))));
            }
            self.best = best;
        }

        pub inline fn one(self: *Self, _: usize, value: T) void {
            self.best[0] = better(self.best[0], @splat(@as(i64, @bitCast(value)) ^ sign));
        }

        fn fold(self: *const Self) i64 {
            const values: *const [lanes]i64 = @ptrCast(&self.best);
            var best = values[0];
            for (values[1..]) |v| best = if (which == .min) @min(best, v) else @max(best, v);
            return best;
        }

        pub fn finish(self: *const Self) T {
            return @bitCast(self.fold() ^ sign);
        }
    };
}

/// The extreme among numbers, and whether a NaN was met. "value < best" is false for NaN, which is
/// both the rule wanted here and one machine instruction (wasm's pmin and pmax). Looking for NaN
/// makes the maximum dearer, so it asks first: "not all at most the best" is true for NaN too.
pub fn ExtremeFloat(comptime T: type, comptime which: Which) type {
    return struct {
        const Self = @This();
        const width = 16 / @sizeOf(T);
        const V = @Vector(width, T);
        const unroll = if (which == .min) 8 else 4;
        const lanes = width * unroll;
        const Bits = @Int(.unsigned, @bitSizeOf(T));
        const Flags = @Vector(width, Bits);
        const neutral: T = if (which == .min) std.math.inf(T) else -std.math.inf(T);

        best: [unroll]V = @splat(@splat(neutral)),
        /// Any bit set: a NaN was met in that lane. Kept for the maximum only.
        nan: Flags = @splat(0),

        inline fn better(best: V, v: V) V {
            return @select(T, if (which == .min) v < best else best < v, v, best);
        }

        inline fn flags(condition: @Vector(width, bool)) Flags {
            return @select(Bits, condition, @as(Flags, @splat(std.math.maxInt(Bits))), @as(Flags, @splat(0)));
        }

        pub fn run(self: *Self, values: []const T) void {
            if (which == .max) run_asking(T, self, values) else self.keep_better(values);
        }

        /// How many rows from the first on hold neither a greater number nor a NaN.
        noinline fn rows_beaten(self: *const Self, values: []const T) usize {
            const best: V = @splat(self.fold());
            const stride = width * 8;
            var i: usize = 0;
            while (i < values.len) : (i += stride) {
                const wide: @Vector(stride, T) = values[i..][0..stride].*;
                var all: Flags = @splat(std.math.maxInt(Bits));
                inline for (0..8) |k| all &= flags(part(width, k, wide) <= best);
                if (@reduce(.Or, all != @as(Flags, @splat(std.math.maxInt(Bits))))) break;
            }
            return i;
        }

        noinline fn keep_better(self: *Self, values: []const T) void {
            var best = self.best;
            var nan = self.nan;
            var i: usize = 0;
            while (i < values.len) : (i += lanes) {
                const wide: @Vector(lanes, T) = values[i..][0..lanes].*;
                inline for (&best, 0..) |*b, k| {
                    const v = part(width, k, wide);
                    b.* = better(b.*, v);
                    if (which == .max) nan |= flags(v != v);
                }
            }
            self.best = best;
            self.nan = nan;
        }

        pub noinline fn select(self: *Self, values: *const [block_rows]T, word: u64) void {
            var best = self.best;
            var nan = self.nan;
            inline for (0..block_rows / width) |group| {
                const loaded: V = values[group * width ..][0..width].*;
                const counts = spread(width, Bits, word >> (group * width));
                const v = @select(T, counts, loaded, @as(V, @splat(neutral)));
                const b = &best[group % unroll];
                b.* = better(b.*, v);
                if (which == .max) nan |= flags(v != v);
            }
            self.best = best;
            self.nan = nan;
        }

        pub inline fn one(self: *Self, _: usize, value: T) void {
            const v: V = @splat(value);
            self.best[0] = better(self.best[0], v);
            if (which == .max) self.nan |= flags(v != v);
        }

        pub fn any_nan(self: *const Self) bool {
            return @reduce(.Or, self.nan) != 0;
        }

        fn fold(self: *const Self) T {
            const values: *const [lanes]T = @ptrCast(&self.best);
            var best = values[0];
            for (values[1..]) |v| {
                if (if (which == .min) v < best else v > best) best = v;
            }
            return best;
        }

        pub fn finish(self: *const Self) T {
            return self.fold();
        }
    };
}

/// Halves as ordered integers, so that wasm needs no conversion of them.
pub fn ExtremeHalf(comptime which: Which) type {
    return struct {
        const Self = @This();
        const Inner = ExtremeInteger(i16, which);
        const nan_key: i16 = 0x7FFF;

        inner: Inner = .{},

        /// Negative numbers have their magnitude turned; any NaN becomes the greatest key.
        inline fn keys(comptime n: comptime_int, bits: @Vector(n, i16)) @Vector(n, i16) {
            const K = @Vector(n, i16);
            const magnitude = bits & @as(K, @splat(0x7FFF));
            const ordered = bits ^ ((bits >> @splat(15)) & @as(K, @splat(0x7FFF)));
            return @select(i16, magnitude > @as(K, @splat(0x7C00)), @as(K, @splat(nan_key)), ordered);
        }

        pub fn run(self: *Self, values: []const f16) void {
            var i: usize = 0;
            while (i < values.len) : (i += block_rows) self.inner.run(&block_keys(values[i..][0..block_rows]));
        }

        pub fn select(self: *Self, values: *const [block_rows]f16, word: u64) void {
            self.inner.select(&block_keys(values), word);
        }

        fn block_keys(values: *const [block_rows]f16) [block_rows]i16 {
            return keys(block_rows, @bitCast(@as(@Vector(block_rows, f16), values.*)));
        }

        pub fn one(self: *Self, row: usize, value: f16) void {
            const key: [1]i16 = keys(1, .{@as(i16, @bitCast(value))});
            self.inner.one(row, key[0]);
        }

        pub fn finish(self: *const Self) f16 {
            const key = self.inner.finish();
            return @bitCast(key ^ ((key >> 15) & 0x7FFF));
        }
    };
}
