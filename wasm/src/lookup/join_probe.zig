//! How rows of a chunk are looked up in a join's table: block by block, and what is found of them.
const std = @import("std");
const bitmap = @import("../core/bitmap.zig");
const column_module = @import("../core/column.zig");
const compare = @import("../kernel/compare.zig");
const interrupt = @import("../core/interrupt.zig");
const join_index = @import("join_index.zig");
const Arena = @import("../core/arena.zig").Arena;
const BlockFilter = @import("../kernel/block_filter.zig").BlockFilter;
const Words = @import("join_keys.zig").Words;
const block_rows = join_index.block_rows;
const none = join_index.none;

const Error = error{OutOfMemory};
pub const Bits = []align(column_module.alignment) u8;

pub fn empty_bits(arena: std.mem.Allocator, count: usize) Error!Bits {
    const bits = try arena.alignedAlloc(u8, .fromByteUnits(column_module.alignment), bitmap.size(count));
    @memset(bits, 0);
    return bits;
}

/// What a probing operator has seen of the filter: one that lets most rows through costs more than
/// it saves.
pub const FilterUse = struct {
    asked: u64 = 0,
    passed: u64 = 0,

    pub fn is_worthwhile(self: *const FilterUse) bool {
        return self.asked < interrupt.block_rows or self.passed * 4 < self.asked * 3;
    }
};

/// Which rows of a chunk have a match, and its place; 0 for rows that have none.
pub const Places = struct {
    places: []u32,
    bits: Bits,
    count: u32 = 0,

    pub fn init(arena: std.mem.Allocator, row_count: u32) Error!Places {
        return .{ .places = try arena.alloc(u32, row_count), .bits = try empty_bits(arena, row_count) };
    }

    /// From places that are `none` where there is no match.
    pub fn of(arena: std.mem.Allocator, places: []u32) Error!Places {
        var self: Places = .{ .places = places, .bits = try empty_bits(arena, places.len) };
        self.settle(0, places.len);
        self.close(null);
        return self;
    }

    /// Rows from `start` on, a multiple of 8, have places or `none`.
    pub fn settle(self: *Places, start: usize, count: usize) void {
        const places = self.places[start..][0..count];
        compare.compare_scalar(u32, .neq, places, none, self.bits[start / 8 ..][0..bitmap.size(count)]);
        point_to_first(places);
    }

    /// Takes out rows that are not in `mask`, and counts what is left.
    pub fn close(self: *Places, mask: ?[]const u8) void {
        if (mask) |known| bitmap.combine(.@"and", self.bits, self.bits, known);
        self.count = @intCast(bitmap.count(self.bits, self.places.len));
    }
};

/// `none` to 0. LLVM does not see that this could be done by vectors.
fn point_to_first(places: []u32) void {
    const V = @Vector(4, u32);
    const whole = places.len & ~@as(usize, 3);
    var i: usize = 0;
    while (i < whole) : (i += 4) {
        const four: V = places[i..][0..4].*;
        places[i..][0..4].* = @select(u32, four == @as(V, @splat(none)), @as(V, @splat(0)), four);
    }
    for (places[whole..]) |*place| place.* = if (place.* == none) 0 else place.*;
}

/// Rows of a chunk that have matches, in order, with the place of the matches and their number.
pub const Found = struct {
    rows: []u32,
    places: []u32,
    counts: []u32,
    len: usize = 0,

    /// One more than `capacity`: rows are written before it is known whether they have matches.
    pub fn init(arena: std.mem.Allocator, capacity: usize) Error!Found {
        return .{
            .rows = try arena.alloc(u32, capacity + 1),
            .places = try arena.alloc(u32, capacity + 1),
            .counts = try arena.alloc(u32, capacity + 1),
        };
    }

    pub fn append(self: *Found, block: *const Block, mask: ?[]const u8) void {
        for (block.places[0..block.count], block.counts[0..block.count], 0..) |place, count, i| {
            const row = block.row_at(i);
            const asked = if (mask) |bits| bitmap.get(bits.ptr, row) else true;
            self.rows.ptr[self.len] = row;
            self.places.ptr[self.len] = place;
            self.counts.ptr[self.len] = count;
            self.len += @intFromBool(asked and place != none);
        }
    }
};

/// Rows that are looked up together: consecutive ones, or those of a list.
pub const Block = struct {
    start: u32,
    count: usize,
    listed: bool,
    rows: [block_rows]u32,
    words: [block_rows]u64,
    hashes: [block_rows]u64,
    places: [block_rows]u32,
    counts: [block_rows]u32,

    pub inline fn row_at(self: *const Block, i: usize) u32 {
        return if (self.listed) self.rows[i] else self.start + @as(u32, @intCast(i));
    }

    pub fn words_at(self: *const Block) Words {
        return .{ .words = self.words[0..self.count] };
    }

    /// Words and hashes of the block's rows. Where there is a filter, only rows that it lets through stay.
    pub fn hash(
        self: *Block,
        words: anytype,
        comptime hash_of: fn (u64) callconv(.@"inline") u64,
        filter: ?*const BlockFilter,
        use: *FilterUse,
    ) void {
        for (self.hashes[0..self.count], 0..) |*to, i| to.* = hash_of(words.at(i));
        const wanted = filter orelse {
            for (self.words[0..self.count], 0..) |*to, i| to.* = words.at(i);
            return;
        };
        var numbers: [block_rows]u32 = undefined;
        const kept = wanted.select(self.hashes[0..self.count], &numbers);
        for (numbers[0..kept], 0..) |i, to| {
            self.words[to] = words.at(i);
            self.hashes[to] = self.hashes[i];
            self.rows[to] = self.row_at(i);
        }
        use.asked += self.count;
        use.passed += kept;
        self.count = kept;
        self.listed = true;
    }

    /// Puts the places where their rows are. The others are 0 already.
    pub fn scatter(self: *const Block, found: *Places) void {
        for (self.rows[0..self.count], self.places[0..self.count]) |row, place| {
            const match = place != none;
            found.places.ptr[row] = if (match) place else 0;
            found.bits.ptr[row >> 3] |= @as(u8, @intFromBool(match)) << @truncate(row);
        }
    }

    /// Puts bits of the listed rows where these are.
    pub fn scatter_bits(self: *const Block, from: []const u8, bits: Bits) void {
        for (self.rows[0..self.count], 0..) |row, i| {
            bits.ptr[row >> 3] |= @as(u8, @intFromBool(bitmap.get(from.ptr, i))) << @truncate(row);
        }
    }
};

/// Cuts a chunk into blocks.
pub const Blocks = struct {
    row_count: u32,
    /// Rows that are asked about. Where they are few, only they are in the blocks; else the others are too.
    mask: ?[]const u8,
    start: u32 = 0,

    pub fn next(self: *Blocks, block: *Block) interrupt.Error!bool {
        while (self.start < self.row_count) {
            const start = self.start;
            if (start % interrupt.block_rows == 0) try interrupt.check();
            block.start = start;
            block.count = @min(block_rows, self.row_count - start);
            block.listed = false;
            self.start = if (self.row_count - start <= block_rows) self.row_count else start + block_rows;
            const mask = self.mask orelse return true;
            const bits = mask[start / 8 ..];
            const asked = bitmap.count(bits, block.count);
            if (asked == 0) continue;
            if (asked * 2 >= block.count) return true;
            block.listed = true;
            block.count = bitmap.indices(bits, block.count, &block.rows);
            for (block.rows[0..block.count]) |*row| row.* += start;
            return true;
        }
        return false;
    }
};

test "blocks and places follow the mask" {
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    var prng: std.Random.DefaultPrng = .init(9);
    const random = prng.random();
    for ([_]u32{ 0, 1, 7, 511, 512, 513, 3000 }) |row_count| for ([_]?u8{ null, 0, 10, 60, 100 }) |percent| {
        const mask = try empty_bits(arena.allocator(), row_count);
        for (0..row_count) |row| if (random.uintLessThan(u8, 100) < percent orelse 100) bitmap.set(mask.ptr, row);
        var blocks: Blocks = .{ .row_count = row_count, .mask = if (percent == null) null else mask };
        var block: Block = undefined;
        var found: Places = try .init(arena.allocator(), row_count);
        @memset(found.places, 0);
        const bits = try empty_bits(arena.allocator(), row_count);
        while (try blocks.next(&block)) {
            for (block.places[0..block.count], block.words[0..block.count], 0..) |*place, *word, i| {
                const row = block.row_at(i);
                place.* = if (row % 3 == 0) none else row * 2;
                word.* = @intFromBool(row % 3 != 0);
            }
            if (block.listed) {
                block.scatter(&found);
            } else {
                @memcpy(found.places[block.start..][0..block.count], block.places[0..block.count]);
                found.settle(block.start, block.count);
            }
            var part: [block_rows / 8]u8 = undefined;
            for (block.words[0..block.count], 0..) |word, i| bitmap.fill_range(&part, i, 1, word != 0);
            if (block.listed) block.scatter_bits(&part, bits) else @memcpy(
                bits[block.start / 8 ..][0..bitmap.size(block.count)],
                part[0..bitmap.size(block.count)],
            );
        }
        bitmap.combine(.@"and", bits, bits, mask);
        found.close(if (percent == null) null else mask);
        var count: u32 = 0;
        for (0..row_count) |row| {
            const wanted = row % 3 != 0 and bitmap.get(mask.ptr, row);
            count += @intFromBool(wanted);
            try std.testing.expectEqual(wanted, bitmap.get(found.bits.ptr, row));
            try std.testing.expectEqual(wanted, bitmap.get(bits.ptr, row));
            if (wanted) try std.testing.expectEqual(row * 2, found.places[row]);
        }
        try std.testing.expectEqual(count, found.count);
    };
}
