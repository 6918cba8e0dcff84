//! Rows of a column that are known by their codes in its dictionary: enough to be judged by a filter,
//! and little beside their values.
//!
//!     row_count   6
//!     validity    1 0 1 1 0 1           where there are NULLs; bit set = the row has a value
//!     codes       7 2 2 5               of the rows that have one, side by side
//!     stretches   values 1 to 3 are 2   of long repeated runs, whose codes are not written at all
//!
//! A verdict on a code holds for the whole stretch: its bits are filled in one go. Codes are written
//! out (`expand`) when somebody wants the values behind them.
const std = @import("std");
const bitmap = @import("../core/bitmap.zig");
const rle = @import("../encoding/rle.zig");
const spread = @import("../core/spread.zig");
const Arena = @import("../core/arena.zig").Arena;
const assert = std.debug.assert;

/// Bytes behind codes and bits that decoders may write.
const slack = 64;

pub const CodedRows = struct {
    row_count: u32 = 0,
    codes: std.ArrayList(u32) = .empty,
    stretches: std.ArrayList(rle.Stretch) = .empty,
    validity: std.ArrayList(u8) = .empty,
    /// Otherwise `validity` says nothing.
    has_nulls: bool = false,
    /// Scratch of `keep`.
    places: std.ArrayList(u32) = .empty,

    pub fn deinit(self: *CodedRows, gpa: std.mem.Allocator) void {
        self.codes.deinit(gpa);
        self.stretches.deinit(gpa);
        self.validity.deinit(gpa);
        self.places.deinit(gpa);
    }

    pub fn reset(self: *CodedRows) void {
        self.row_count = 0;
        self.codes.clearRetainingCapacity();
        self.stretches.clearRetainingCapacity();
        self.has_nulls = false;
    }

    // ---- filling ----

    /// Makes room for `count` more rows: what follows then needs no memory.
    pub fn reserve(self: *CodedRows, gpa: std.mem.Allocator, count: u32) error{OutOfMemory}!void {
        const total = @as(usize, self.row_count) + count;
        try self.codes.ensureTotalCapacity(gpa, total + slack / 4);
        try self.stretches.ensureTotalCapacity(gpa, total / rle.stretch_min);
        try self.validity.ensureTotalCapacity(gpa, bitmap.size(total) + slack);
        self.validity.items.len = bitmap.size(total);
    }

    /// Rows of which each has a value; their codes follow.
    pub fn add_valid(self: *CodedRows, count: u32) void {
        if (self.has_nulls) bitmap.fill_range(self.validity.items, self.row_count, count, true);
        self.row_count += count;
    }

    /// Rows of which some may be NULL: their bits have been written to `validity`, `valid` of them set.
    pub fn add_rows(self: *CodedRows, count: u32, valid: u32) void {
        if (valid < count and !self.has_nulls) {
            bitmap.fill_range(self.validity.items, 0, self.row_count, true);
            self.has_nulls = true;
        }
        self.row_count += count;
    }

    // ---- asking ----

    /// One bit a row: the verdict on its value. `verdicts` has 0 or 1 for every code, and then for NULL.
    pub fn judge(self: *const CodedRows, verdicts: []const u8, bits: []u8) void {
        assert(bits.len == bitmap.size(self.row_count));
        const codes = self.codes.items;
        var done: u32 = 0;
        for (self.stretches.items) |stretch| {
            judge_codes(verdicts, codes[done..stretch.first], bits[done / 8 ..]);
            @memset(bits[stretch.first / 8 ..][0 .. stretch.count / 8], 0 -% verdicts[stretch.value]);
            done = stretch.first + stretch.count;
        }
        judge_codes(verdicts, codes[done..], bits[done / 8 ..]);
        if (!self.has_nulls) return;
        spread.spread_bits(bits, @intCast(codes.len), self.validity.items, self.row_count);
        if (verdicts[verdicts.len - 1] != 0) bitmap.combine(.or_not, bits, bits, self.validity.items);
    }

    /// Writes the codes of all stretches.
    pub fn expand(self: *CodedRows) void {
        for (self.stretches.items) |stretch|
            @memset(self.codes.items[stretch.first..][0..stretch.count], stretch.value);
        self.stretches.clearRetainingCapacity();
    }

    /// Leaves out all rows but these, which rise. No stretch is written out for it.
    pub fn keep(self: *CodedRows, gpa: std.mem.Allocator, rows: []const u32) error{OutOfMemory}!void {
        var places = rows;
        if (self.has_nulls) {
            try self.places.resize(gpa, rows.len);
            const bits = try gpa.alloc(u8, bitmap.size(rows.len));
            defer gpa.free(bits);
            @memset(bits, 0xFF);
            const valid = bitmap.rank_rows(self.validity.items, rows, 0, bits, 0, self.places.items);
            @memcpy(self.validity.items[0..bits.len], bits);
            places = self.places.items[0..valid];
        }
        self.keep_codes(places);
        self.row_count = @intCast(rows.len);
    }

    /// In place: a place is never before its index.
    fn keep_codes(self: *CodedRows, places: []const u32) void {
        const codes = self.codes.items;
        var done: usize = 0;
        for (self.stretches.items) |stretch| {
            while (done < places.len and places[done] < stretch.first) : (done += 1) codes[done] = codes[places[done]];
            while (done < places.len and places[done] < stretch.first + stretch.count) : (done += 1)
                codes[done] = stretch.value;
        }
        for (codes[done..places.len], places[done..]) |*code, place| code.* = codes[place];
        self.codes.items.len = places.len;
        self.stretches.clearRetainingCapacity();
    }

    /// The first row of every code whose bit is not yet set in `seen`; it is afterwards. NULLs are left out.
    pub fn first_rows(self: *const CodedRows, arena: std.mem.Allocator, seen: []u8) error{OutOfMemory}![]const u32 {
        assert(self.stretches.items.len == 0);
        var rows: std.ArrayList(u32) = .empty;
        var next: usize = 0;
        for (0..self.row_count) |row| {
            if (self.has_nulls and !bitmap.get(self.validity.items.ptr, row)) continue;
            const code = self.codes.items[next];
            next += 1;
            if (bitmap.get(seen.ptr, code)) continue;
            bitmap.set(seen.ptr, code);
            try rows.append(arena, @intCast(row));
        }
        return rows.items;
    }

    /// A code for every row, for NULLs any.
    pub fn code_of_each(self: *const CodedRows, arena: std.mem.Allocator) error{OutOfMemory}![]const u32 {
        assert(self.stretches.items.len == 0 and self.has_nulls);
        const all = try arena.alloc(u32, self.row_count);
        var next: usize = 0;
        for (all, 0..) |*code, row| {
            const valid = bitmap.get(self.validity.items.ptr, row);
            code.* = if (valid) self.codes.items[next] else 0;
            next += @intFromBool(valid);
        }
        return all;
    }

    /// Which of the codes belong to rows `first` to `first + count`.
    pub fn codes_of(self: *const CodedRows, first: u32, count: u32) []u32 {
        if (!self.has_nulls) return self.codes.items[first..][0..count];
        const begin = bitmap.count(self.validity.items, first);
        const end = bitmap.count(self.validity.items, first + count);
        return self.codes.items[begin..end];
    }

    /// How many rows from `first` on have values of at most `limit` bytes together, where code c stands
    /// for the bytes between `offsets[c]` and `offsets[c + 1]`. One at least.
    pub fn rows_within(self: *const CodedRows, offsets: []const u32, first: u32, limit: u64) u32 {
        assert(self.stretches.items.len == 0 and first < self.row_count);
        var next = if (self.has_nulls) bitmap.count(self.validity.items, first) else first;
        var size: u64 = 0;
        for (first..self.row_count) |row| {
            if (self.has_nulls and !bitmap.get(self.validity.items.ptr, row)) continue;
            const code = self.codes.items[next];
            size += offsets[code + 1] - offsets[code];
            if (size > limit and row > first) return @intCast(row - first);
            next += 1;
        }
        return self.row_count - first;
    }
};

/// One bit per code: what the verdict on it is.
fn judge_codes(verdicts: []const u8, codes: []const u32, bits: []u8) void {
    const whole = codes.len / 8;
    for (bits[0..whole], 0..) |*byte, i| {
        var value: u8 = 0;
        inline for (0..8) |bit| value |= verdicts.ptr[codes.ptr[i * 8 + bit]] << bit;
        byte.* = value;
    }
    if (codes.len % 8 == 0) return;
    var value: u8 = 0;
    for (codes[whole * 8 ..], 0..) |code, bit| value |= verdicts[code] << @intCast(bit);
    bits[whole] = value;
}

// Tests.

const testing = std.testing;

/// The same rows one by one: a code, or null.
fn random_rows(random: std.Random, coded: *CodedRows, rows: []?u32, code_count: u32) !void {
    coded.reset();
    var done: usize = 0;
    while (done < rows.len) {
        const count: u32 = @intCast(@min(rows.len - done, 1 + random.uintLessThan(usize, 300)));
        const part = rows[done..][0..count];
        const is_run = random.boolean();
        const value = random.uintLessThan(u32, code_count);
        const density: u8 = if (random.boolean()) 0 else random.int(u8);
        for (part) |*row| {
            row.* = if (is_run) value else random.uintLessThan(u32, code_count);
            if (random.int(u8) < density) row.* = null;
        }
        try add_page(coded, part, density > 0);
        done += count;
    }
}

/// What column_chunk.zig does with a page, whose codes are one run where they are the same.
fn add_page(coded: *CodedRows, rows: []const ?u32, has_levels: bool) !void {
    const count: u32 = @intCast(rows.len);
    try coded.reserve(testing.allocator, count);
    var valid: u32 = 0;
    for (rows, coded.row_count..) |row, i| {
        valid += @intFromBool(row != null);
        if (!has_levels) continue;
        if (row != null) bitmap.set(coded.validity.items.ptr, i) else bitmap.clear(coded.validity.items.ptr, i);
    }
    if (has_levels) coded.add_rows(count, valid) else coded.add_valid(count);
    const first: u32 = @intCast(coded.codes.items.len);
    for (rows) |row| if (row) |code| coded.codes.appendAssumeCapacity(code);
    const codes = coded.codes.items[first..];
    for (codes) |code| if (code != codes[0]) return;
    const begin = std.mem.alignForward(u32, first, 8);
    const end = std.mem.alignBackward(u32, first + valid, 8);
    if (end < begin + rle.stretch_min) return;
    coded.stretches.appendAssumeCapacity(.{ .first = begin, .count = end - begin, .value = codes[0] });
    @memset(coded.codes.items[begin..end], 0xAAAA_AAAA);
}

fn expect_rows(coded: *CodedRows, rows: []const ?u32) !void {
    coded.expand();
    try testing.expectEqual(rows.len, coded.row_count);
    for (rows, 0..) |row, i| {
        const codes = coded.codes_of(@intCast(i), 1);
        if (row) |code| try testing.expectEqualSlices(u32, &.{code}, codes) else try testing.expectEqual(0, codes.len);
    }
}

test "rows come back as they went in, are judged one by one, and are kept" {
    var prng: std.Random.DefaultPrng = .init(1);
    const random = prng.random();
    var coded: CodedRows = .{};
    defer coded.deinit(testing.allocator);
    var noted: usize = 0;
    for (0..300) |round| {
        var buffer: [1200]?u32 = undefined;
        const rows = buffer[0 .. 1 + random.uintLessThan(usize, buffer.len)];
        const code_count = 1 + random.uintLessThan(u32, 20);
        try random_rows(random, &coded, rows, code_count);
        noted += coded.stretches.items.len;

        var verdicts: [21]u8 = undefined;
        for (verdicts[0 .. code_count + 1]) |*verdict| verdict.* = @intFromBool(random.boolean());
        var bits: [150]u8 = undefined;
        coded.judge(verdicts[0 .. code_count + 1], bits[0..bitmap.size(rows.len)]);
        for (rows, 0..) |row, i| try testing.expectEqual(verdicts[row orelse code_count] != 0, bitmap.get(&bits, i));

        if (round % 2 == 0) {
            try expect_rows(&coded, rows);
            continue;
        }
        var chosen: [1200]u32 = undefined;
        var kept: [1200]?u32 = undefined;
        var count: usize = 0;
        for (rows, 0..) |row, i| if (bitmap.get(&bits, i)) {
            chosen[count], kept[count] = .{ @intCast(i), row };
            count += 1;
        };
        try coded.keep(testing.allocator, chosen[0..count]);
        try expect_rows(&coded, kept[0..count]);
        if (count > 0) try expect_within(random, &coded, kept[0..count]);
        try expect_first(&coded, kept[0..count]);
    }
    try testing.expect(noted > 100);
}

/// Code c has c bytes.
fn expect_within(random: std.Random, coded: *const CodedRows, rows: []const ?u32) !void {
    var offsets: [21]u32 = undefined;
    for (&offsets, 0..) |*offset, code| offset.* = @intCast(code * (code -| 1) / 2);
    const first = random.uintLessThan(u32, @intCast(rows.len));
    const limit = random.uintLessThan(u32, 500);
    const count = coded.rows_within(&offsets, first, limit);
    var size: u32 = 0;
    for (rows[first..][0..count]) |row| size += row orelse 0;
    try testing.expect(count == 1 or (count > 1 and size <= limit));
    if (first + count < rows.len) try testing.expect(size + rows[first + count].? > limit);
}

fn expect_first(coded: *const CodedRows, rows: []const ?u32) !void {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    var seen: [3]u8 = .{ 0b101, 0, 0 };
    const found = try coded.first_rows(arena.allocator(), &seen);
    var next: usize = 0;
    var before: [21]bool = @splat(false);
    before[0], before[2] = .{ true, true };
    for (rows, 0..) |row, i| if (row) |code| {
        if (before[code]) continue;
        before[code] = true;
        try testing.expectEqual(i, found[next]);
        next += 1;
    };
    try testing.expectEqual(next, found.len);
    for (before[0..20], 0..) |known, code| try testing.expectEqual(known, bitmap.get(&seen, code));
}
