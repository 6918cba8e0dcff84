//! Makes room for NULLs: a page holds only the values there are, a column has one per row.
//!
//!     values      a b c d . .          dense at the front, room for the rest behind
//!     validity    1 0 1 1 0 1          bit set = the next value belongs here
//!     result      a 0 b c 0 d          NULL rows are 0
//!
//! In place and from the end, so that a value is read before its place is written: of the rows
//! below r at most r are valid, hence a value never moves down. As soon as the rows left are all
//! valid, they are where they belong.
//!
//! Rows are looked at 64 at a time: all valid and all NULL words are moved and cleared whole. For
//! the others a table holds, for every pattern of a few bits, the swizzle that puts the values in
//! their places: no branch depends on a single bit, which random NULLs would make a mispredicted one.
//!
//! Invariants: `dense_count` of the first `row_count` bits are set: whoever reads the bits counts
//! them, and reads as many values. Nothing past `row_count` values is touched.
const std = @import("std");
const bitmap = @import("bitmap.zig");
const lanes_module = @import("lanes.zig");
const Bytes16 = lanes_module.Bytes16;
const assert = std.debug.assert;

/// Values of 1, 2, 4, 8 or 16 bytes.
pub fn spread(comptime T: type, values: []T, dense_count: u32, validity: []const u8, row_count: u32) void {
    assert(values.len >= row_count and dense_count <= row_count);
    const Unit = switch (@sizeOf(T)) {
        1 => u8,
        2 => u16,
        4 => u32,
        8 => u64,
        16 => Bytes16,
        else => @compileError("spread_fixed takes other sizes"),
    };
    comptime assert(@alignOf(Unit) <= @alignOf(T) or Unit == Bytes16);
    spread_rows(Placed(Unit), @ptrCast(values.ptr), dense_count, validity, row_count);
}

/// Offsets of byte arrays, `dense_count + 1` at the front, `row_count + 1` in the end: a NULL row
/// is empty.
pub fn spread_offsets(offsets: []u32, dense_count: u32, validity: []const u8, row_count: u32) void {
    assert(offsets.len > row_count and dense_count <= row_count);
    offsets[row_count] = offsets[dense_count];
    spread_rows(PlacedOffsets, offsets.ptr, dense_count, validity, row_count);
}

/// Bits, for boolean columns.
pub fn spread_bits(bits: []u8, dense_count: u32, validity: []const u8, row_count: u32) void {
    assert(bits.len >= bitmap.size(row_count) and dense_count <= row_count);
    var dense = dense_count;
    var row = row_count;
    while (dense != row and row % 8 != 0) {
        row -= 1;
        const valid = bitmap.get(validity.ptr, row);
        dense -= @intFromBool(valid);
        if (valid and bitmap.get(bits.ptr, dense)) bitmap.set(bits.ptr, row) else bitmap.clear(bits.ptr, row);
    }
    while (dense != row) {
        row -= 8;
        const mask = validity[row / 8];
        dense -= @popCount(mask);
        bits[row / 8] = deposit(@truncate(load_bits(bits, dense)), mask);
    }
}

/// Eight bits from `bit` on. The second byte is only looked at where it holds one of them.
inline fn load_bits(bits: []const u8, bit: u32) u16 {
    const low: u16 = bits[bit / 8];
    if (bit % 8 == 0) return low;
    return (low | @as(u16, bits[bit / 8 + 1]) << 8) >> @intCast(bit % 8);
}

/// The low bits of `source` in the places of the set bits of `mask`.
inline fn deposit(source: u8, mask: u8) u8 {
    const low = mask & 15;
    const rest = source >> @intCast(@popCount(low));
    return deposits[(low << 4) | (source & 15)] | deposits[(mask & 0xF0) | (rest & 15)] << 4;
}

/// The same for four bits, by mask and source: a loop over bits costs five times as much.
const deposits: [256]u8 = table: {
    @setEvalBranchQuota(10_000);
    var table: [256]u8 = @splat(0);
    for (&table, 0..) |*result, index| {
        var from = index & 15;
        for (0..4) |bit| if (index >> (4 + bit) & 1 != 0) {
            result.* |= (from & 1) << bit;
            from >>= 1;
        };
    }
    break :table table;
};

/// Values of any size, as bytes.
pub fn spread_fixed(width: u32, values: []u8, dense_count: u32, validity: []const u8, row_count: u32) void {
    assert(values.len >= row_count * @as(usize, width) and dense_count <= row_count);
    var dense: usize = dense_count;
    var row: usize = row_count;
    while (dense != row) {
        row -= 1;
        const to = values.ptr + row * width;
        if (bitmap.get(validity.ptr, row)) {
            dense -= 1;
            put_exact(.copy, to, values.ptr + dense * width, width);
        } else put_exact(.clear, to, to, width);
    }
}

const Put = enum { copy, clear };

/// No byte more than `size`: what lies behind is a row already in its place. Two pieces that overlap
/// in the middle make up any size between one and two of them. A loop over bytes would become a
/// call of memory.copy or memory.fill, which costs more than the value.
inline fn put_exact(comptime put: Put, target: [*]u8, source: [*]const u8, size: usize) void {
    if (size >= 16) {
        var done: usize = 0;
        while (done + 16 < size) : (done += 16) put_piece(put, 16, target + done, source + done);
        put_piece(put, 16, target + size - 16, source + size - 16);
    } else inline for (.{ 8, 4, 2, 1 }) |piece| {
        if (size >= piece) {
            put_piece(put, piece, target, source);
            put_piece(put, piece, target + size - piece, source + size - piece);
            return;
        }
    }
}

inline fn put_piece(comptime put: Put, comptime size: usize, target: [*]u8, source: [*]const u8) void {
    const piece: @Vector(size, u8) = if (put == .copy) source[0..size].* else @splat(0);
    target[0..size].* = piece;
}

/// The walk, shared by values and offsets; `Placement` says what a group of rows becomes.
noinline fn spread_rows(
    comptime Placement: type,
    values: [*]Placement.Unit,
    dense_count: u32,
    validity: []const u8,
    row_count: u32,
) void {
    var dense: usize = dense_count;
    var row: usize = row_count;
    while (dense != row and row % 8 != 0) {
        row -= 1;
        const valid = @intFromBool(bitmap.get(validity.ptr, row));
        dense -= valid;
        values[row] = Placement.one(values + dense, valid);
    }
    while (dense != row and row % 64 != 0) {
        row -= 8;
        const mask = validity[row / 8];
        dense -= @popCount(mask);
        Placement.eight(values + row, values + dense, mask);
    }
    while (dense != row) {
        row -= 64;
        const word = std.mem.readInt(u64, validity[row / 8 ..][0..8], .little);
        dense -= @popCount(word);
        if (word == ~@as(u64, 0)) {
            move_64(Placement.Unit, values + row, values + dense);
        } else if (word == 0) {
            Placement.none_64(values + row, values + dense);
        } else mixed_64(Placement, values + row, values + dense, word);
    }
}

/// `dense` is where the values of the first of these rows begin.
inline fn mixed_64(comptime Placement: type, rows: [*]Placement.Unit, dense: [*]const Placement.Unit, word: u64) void {
    var from = dense + @popCount(word);
    var left = word;
    var row: usize = 64;
    while (row != 0) {
        row -= 8;
        const mask: u8 = @intCast(left >> 56);
        left <<= 8;
        from -= @popCount(mask);
        Placement.eight(rows + row, from, mask);
    }
}

/// From the end: the places may overlap, and values only move up.
inline fn move_64(comptime Unit: type, target: [*]Unit, source: [*]const Unit) void {
    const step = 16 / @sizeOf(Unit);
    var i: usize = 64;
    while (i != 0) {
        i -= step;
        store(Unit, target + i, load(Unit, source + i));
    }
}

/// Sixteen bytes of units, which are aligned as units are.
inline fn load(comptime Unit: type, source: [*]const Unit) Bytes16 {
    return lanes_module.load16(@ptrCast(source));
}

inline fn store(comptime Unit: type, target: [*]Unit, vector: Bytes16) void {
    const bytes: [*]u8 = @ptrCast(target);
    bytes[0..16].* = vector;
}

/// What becomes of values: 0 where the bit is clear.
fn Placed(comptime T: type) type {
    return struct {
        const Unit = if (T == Bytes16) [16]u8 else T;
        /// Rows that one swizzle fills.
        const step = @min(8, 16 / @sizeOf(Unit));
        const places = place_table(Unit, step, .values);

        inline fn one(dense: [*]const Unit, valid: u1) Unit {
            return if (valid != 0) dense[0] else std.mem.zeroes(Unit);
        }

        inline fn eight(rows: [*]Unit, dense: [*]const Unit, mask: u8) void {
            place_eight(Unit, step, &places, rows, dense, mask);
        }

        inline fn none_64(rows: [*]Unit, dense: [*]const Unit) void {
            _ = dense;
            fill_64(Unit, rows, @splat(0));
        }
    };
}

/// What becomes of offsets: a row begins where the next value does, its own or a later one.
const PlacedOffsets = struct {
    const Unit = u32;
    const places = place_table(u32, 4, .offsets);

    inline fn one(dense: [*]const u32, valid: u1) u32 {
        _ = valid;
        return dense[0];
    }

    inline fn eight(rows: [*]u32, dense: [*]const u32, mask: u8) void {
        place_eight(u32, 4, &places, rows, dense, mask);
    }

    inline fn none_64(rows: [*]u32, dense: [*]const u32) void {
        fill_64(u32, rows, @bitCast(@as(@Vector(4, u32), @splat(dense[0]))));
    }
};

inline fn fill_64(comptime Unit: type, rows: [*]Unit, vector: Bytes16) void {
    const step = 16 / @sizeOf(Unit);
    var i: usize = 0;
    while (i < 64) : (i += step) store(Unit, rows + i, vector);
}

/// Eight rows, `step` at a time from the end. A load may take in rows past the group's values, but
/// none past the group.
inline fn place_eight(
    comptime Unit: type,
    comptime step: usize,
    places: *const [1 << step]Bytes16,
    rows: [*]Unit,
    dense: [*]const Unit,
    mask: u8,
) void {
    const low_bits = (1 << step) - 1;
    comptime var row = 8;
    inline while (row != 0) {
        row -= step;
        const pattern = mask >> row & low_bits;
        const from = dense + @popCount(mask & ((1 << row) - 1));
        if (step * @sizeOf(Unit) == 8) {
            const half: *align(1) const u64 = @ptrCast(from);
            const moved: @Vector(2, u64) = @bitCast(
                lanes_module.swizzle(@bitCast(@Vector(2, u64){ half.*, 0 }), places[pattern]),
            );
            const to: *align(1) u64 = @ptrCast(rows + row);
            to.* = moved[0];
        } else {
            store(Unit, rows + row, lanes_module.swizzle(load(Unit, from), places[pattern]));
        }
    }
}

const Kind = enum { values, offsets };

/// For every pattern of `step` bits the swizzle that moves units to their rows.
fn place_table(comptime Unit: type, comptime step: usize, comptime kind: Kind) [1 << step]Bytes16 {
    @setEvalBranchQuota(100_000);
    const size = @sizeOf(Unit);
    var table: [1 << step]Bytes16 = undefined;
    for (&table, 0..) |*places, pattern| {
        var lanes: [16]u8 = @splat(0xFF); // No lane: 0.
        var next: usize = 0;
        for (0..step) |row| {
            const valid = pattern >> row & 1 != 0;
            if (valid or kind == .offsets) {
                for (0..size) |byte| lanes[row * size + byte] = next * size + byte;
            }
            if (valid) next += 1;
        }
        places.* = lanes;
    }
    return table;
}

// Tests.

const testing = std.testing;
const row_counts = [_]u32{ 0, 1, 7, 8, 9, 63, 64, 65, 127, 128, 129, 200, 256, 700 };
const row_count_max = 700;
const bitmap_size_max = 88;

/// Patterns in turn: none NULL, all NULL, random of some density, whole words of either kind.
fn random_validity(random: std.Random, round: usize, validity: []u8) void {
    const density = random.int(u8);
    for (validity, 0..) |*byte, i| {
        byte.* = switch (round % 5) {
            0 => 0xFF,
            1 => 0,
            2 => if (i / 8 % 3 == 0) 0xFF else if (i / 8 % 3 == 1) 0 else random.int(u8),
            else => 0,
        };
        if (round % 5 >= 3) for (0..8) |k| {
            if (random.int(u8) <= density) byte.* |= @as(u8, 1) << @intCast(k);
        };
    }
}

fn check_spread(random: std.Random, width: u32, function: anytype, context: anytype) !void {
    for (row_counts) |row_count| for (0..10) |round| {
        var validity: [bitmap_size_max]u8 = undefined;
        random_validity(random, round, &validity);
        const dense_count: u32 = @intCast(bitmap.count(&validity, row_count));
        var values: [row_count_max * 40 + 1]u8 align(16) = undefined;
        random.bytes(&values);
        const before = values;
        function(context, values[0 .. row_count * width], dense_count, validity[0..bitmap.size(row_count)], row_count);
        var next: usize = 0;
        for (0..row_count) |row| {
            const value = values[row * width ..][0..width];
            if (bitmap.get(&validity, row)) {
                try testing.expectEqualSlices(u8, before[next * width ..][0..width], value);
                next += 1;
            } else for (value) |byte| try testing.expectEqual(0, byte);
        }
        const end = row_count * width;
        try testing.expectEqualSlices(u8, before[end..][0..1], values[end..][0..1]);
    };
}

fn Typed(comptime T: type) type {
    return struct {
        fn run(_: void, values: []u8, dense_count: u32, validity: []const u8, row_count: u32) void {
            const typed: [*]T = @ptrCast(@alignCast(values.ptr));
            spread(T, typed[0..row_count], dense_count, validity, row_count);
        }
    };
}

test spread {
    var prng: std.Random.DefaultPrng = .init(1);
    inline for (.{ u8, i16, f32, u64, i128, [16]u8 }) |T| {
        try check_spread(prng.random(), @sizeOf(T), Typed(T).run, {});
    }
}

fn run_fixed(width: u32, values: []u8, dense_count: u32, validity: []const u8, row_count: u32) void {
    spread_fixed(width, values, dense_count, validity, row_count);
}

test spread_fixed {
    var prng: std.Random.DefaultPrng = .init(2);
    for ([_]u32{ 0, 1, 3, 5, 7, 8, 9, 12, 15, 16, 17, 31, 32, 33, 40 }) |width| {
        try check_spread(prng.random(), width, run_fixed, width);
    }
}

test spread_offsets {
    var prng: std.Random.DefaultPrng = .init(3);
    const random = prng.random();
    for (row_counts) |row_count| for (0..10) |round| {
        var validity: [bitmap_size_max]u8 = undefined;
        random_validity(random, round, &validity);
        const dense_count: u32 = @intCast(bitmap.count(&validity, row_count));
        var offsets: [row_count_max + 2]u32 = @splat(7);
        offsets[0] = 1000;
        for (1..dense_count + 1) |i| offsets[i] = offsets[i - 1] + random.uintLessThan(u32, 9);
        const before = offsets;
        spread_offsets(offsets[0 .. row_count + 1], dense_count, validity[0..bitmap.size(row_count)], row_count);
        var next: usize = 0;
        for (0..row_count) |row| {
            try testing.expectEqual(before[next], offsets[row]);
            if (bitmap.get(&validity, row)) next += 1;
            try testing.expectEqual(before[next], offsets[row + 1]);
        }
        try testing.expectEqual(7, offsets[row_count + 1]);
    };
}

test spread_bits {
    var prng: std.Random.DefaultPrng = .init(4);
    const random = prng.random();
    for (row_counts) |row_count| for (0..10) |round| {
        var validity: [bitmap_size_max]u8 = undefined;
        random_validity(random, round, &validity);
        const dense_count: u32 = @intCast(bitmap.count(&validity, row_count));
        var bits: [bitmap_size_max]u8 = undefined;
        random.bytes(&bits);
        const before = bits;
        const size = bitmap.size(row_count);
        spread_bits(bits[0..size], dense_count, validity[0..size], row_count);
        var next: usize = 0;
        for (0..row_count) |row| {
            const valid = bitmap.get(&validity, row);
            try testing.expectEqual(valid and bitmap.get(&before, next), bitmap.get(&bits, row));
            if (valid) next += 1;
        }
        try testing.expectEqualSlices(u8, before[size..], bits[size..]);
    };
}
