//! FSST: texts whose frequent pieces, up to 255 symbols of one to eight bytes, became codes of one byte.
//!
//!     table     header u64 LE   "FSST" << 32 | is on << 24 | not used << 8 | symbol count
//!               symbols         count times eight bytes, the first ones of which count
//!               sizes           count times one byte, 1 to 8
//!               (padding)
//!     text      codes; 255 is an escape: the byte behind it stands for itself
//!
//! Where a table is off, texts are stored as they are.
//!
//! Decoding writes eight bytes for every code and moves on by the symbol's size, so that nothing branches on it.
//! Codes that have no symbol have size 0 in the table, and so has the escape: one test finds both, rarely. The
//! target has room for eight bytes per byte of the source, which is what a text can become at most, or for what
//! it will become and one more symbol.
//!
//! Paper: Boncz, Neumann and Leis, "FSST: Fast Random Access String Compression", VLDB 2020.
const std = @import("std");
const interrupt = @import("../core/interrupt.zig");
const assert = std.debug.assert;

pub const Error = error{ InvalidFormat, Cancelled };

pub const symbol_size_max = 8;
const escape = 255;
const magic = 0x4653_5354;
/// Bytes of codes between two looks at the cancel byte.
const stride = 64 << 10;

pub const Table = struct {
    symbols: [256]u64,
    /// 0: no symbol, or the escape.
    sizes: [256]u8,
    /// Otherwise texts are stored as they are.
    is_on: bool,

    pub fn parse(bytes: []const u8) Error!Table {
        @setRuntimeSafety(true);
        if (bytes.len < 8) return invalid("an FSST table is cut short", .{});
        const header = std.mem.readInt(u64, bytes[0..8], .little);
        if (header >> 32 != magic) return invalid("an FSST table does not begin with its name", .{});
        const count: usize = @as(u8, @truncate(header));
        if (bytes.len - 8 < count * 9) return invalid("an FSST table of {d} symbols is cut short", .{count});
        var table: Table = .{ .symbols = @splat(0), .sizes = @splat(0), .is_on = header >> 24 & 1 != 0 };
        const sizes = bytes[8 + count * 8 ..][0..count];
        for (sizes, 0..) |size, code| {
            if (size == 0 or size > symbol_size_max) return invalid("an FSST symbol of {d} bytes", .{size});
            table.symbols[code] = std.mem.readInt(u64, bytes[8 + code * 8 ..][0..8], .little);
            table.sizes[code] = size;
        }
        return table;
    }

    /// Bytes that are room enough for a text of so many bytes of codes.
    pub fn room(source_size: u64) u64 {
        return source_size * symbol_size_max;
    }

    /// Of a table that is on. Returns the text's size. `target` has `room` for it, or is `symbol_size_max` longer
    /// than `decoded_size`.
    pub fn decode(self: *const Table, source: []const u8, target: []u8) Error!usize {
        var from: usize = 0;
        var at = target.ptr;
        while (from < source.len) {
            try interrupt.check();
            // An escape at the end of a piece takes the byte behind it along.
            const piece_end = from + @min(stride, source.len - from);
            at = try self.decode_piece(source, &from, piece_end, at);
        }
        return at - target.ptr;
    }

    inline fn decode_piece(
        self: *const Table,
        source: []const u8,
        from: *usize,
        end: usize,
        start: [*]u8,
    ) Error![*]u8 {
        var at = start;
        var i = from.*;
        defer from.* = i;
        while (i < end) {
            const code = source.ptr[i];
            i += 1;
            const size = self.sizes[code];
            if (size == 0) {
                if (code != escape) return invalid("FSST code {d} has no symbol", .{code});
                if (i == source.len) return invalid("a text ends with an FSST escape", .{});
                at[0] = source.ptr[i];
                at += 1;
                i += 1;
                continue;
            }
            at[0..8].* = @bitCast(std.mem.nativeToLittle(u64, self.symbols[code]));
            at += size;
        }
        return at;
    }

    /// Texts that lie side by side, of a table that is on: text i is from `offsets[i]` to `offsets[i + 1]` in
    /// `source`. Writes where each ends, counted from `base`; returns bytes written. Offsets never fall and
    /// lie inside the source; `target` is as long as `decode` wants it for what is between the first and the last.
    pub noinline fn decode_all(
        self: *const Table,
        comptime Offset: type,
        source: []const u8,
        offsets: []align(1) const Offset,
        target: []u8,
        ends: []u32,
        base: u32,
    ) Error!usize {
        assert(offsets.len == ends.len + 1);
        var at = target.ptr;
        var from: usize = @intCast(offsets[0]);
        var checked = from;
        for (offsets[1..], ends) |offset, *end| {
            const stop: usize = @intCast(offset);
            if (stop - checked > stride) {
                try interrupt.check();
                checked = stop;
            }
            // The text is all that its codes see: an escape at its end has nothing behind it.
            at = try self.decode_piece(source[0..stop], &from, stop, at);
            end.* = base + @as(u32, @intCast(at - target.ptr));
        }
        return at - target.ptr;
    }

    /// The size that a text will have, of a table that is on.
    pub fn decoded_size(self: *const Table, source: []const u8) u64 {
        var total: u64 = 0;
        var i: usize = 0;
        while (i < source.len) {
            const size = self.sizes[source[i]];
            total += @max(1, size);
            i += if (size == 0) 2 else 1;
        }
        return total;
    }
};

fn invalid(comptime format: []const u8, arguments: anytype) Error {
    @branchHint(.cold);
    interrupt.describe(format, arguments);
    return error.InvalidFormat;
}

const testing = std.testing;

/// The bytes of a table of these symbols, at the size that Lance gives them all.
pub fn write_table(symbols: []const []const u8, is_on: bool) [2312]u8 {
    var bytes: [2312]u8 = @splat(0);
    const on: u64 = @intFromBool(is_on);
    std.mem.writeInt(u64, bytes[0..8], @as(u64, magic) << 32 | on << 24 | symbols.len, .little);
    for (symbols, 0..) |symbol, code| {
        @memcpy(bytes[8 + code * 8 ..][0..symbol.len], symbol);
        bytes[8 + symbols.len * 8 + code] = @intCast(symbol.len);
    }
    return bytes;
}

const words = [_][]const u8{ "the ", "quick", "brownish", "x", "fo" };

fn expect_decoded(expected: []const u8, codes: []const u8) !void {
    const table: Table = try .parse(&write_table(&words, true));
    var target: [256]u8 = @splat(0xEE);
    const size = try table.decode(codes, target[0..@intCast(Table.room(codes.len))]);
    try testing.expectEqualStrings(expected, target[0..size]);
    try testing.expectEqual(expected.len, table.decoded_size(codes));
}

test "decode" {
    try expect_decoded("", "");
    try expect_decoded("the quick", &.{ 0, 1 });
    try expect_decoded("brownish fox", &.{ 2, 255, ' ', 4, 3 });
    try expect_decoded("\xFF\xFFthe ", &.{ 255, 255, 255, 255, 0 });
}

test "decode_all" {
    const table: Table = try .parse(&write_table(&words, true));
    const source = [_]u8{ 9, 9, 0, 1, 255, 'z', 3, 9 };
    inline for (.{ u32, u64 }) |Offset| {
        var target: [64]u8 = undefined;
        var ends: [4]u32 = undefined;
        const size = try table.decode_all(Offset, &source, &.{ 2, 4, 4, 6, 7 }, &target, &ends, 100);
        try testing.expectEqualStrings("the quickzx", target[0..size]);
        try testing.expectEqualSlices(u32, &.{ 109, 109, 110, 111 }, &ends);
        // An escape's byte is not the next text's.
        const cut = table.decode_all(Offset, &source, &.{ 2, 5, 7 }, &target, ends[0..2], 0);
        try testing.expectError(error.InvalidFormat, cut);
    }
    interrupt.forget();
}

test "tables that are none" {
    defer interrupt.forget();
    var bytes = write_table(&words, true);
    try testing.expect((try Table.parse(&bytes)).is_on);
    _ = try Table.parse(bytes[0 .. 8 + words.len * 9]);
    try testing.expectError(error.InvalidFormat, Table.parse(""));
    try testing.expectError(error.InvalidFormat, Table.parse(bytes[0..7]));
    try testing.expectError(error.InvalidFormat, Table.parse(bytes[0 .. 7 + words.len * 9]));
    for ([_]u8{ 0, 9, 255 }) |size| {
        bytes[8 + words.len * 8 + 1] = size;
        try testing.expectError(error.InvalidFormat, Table.parse(&bytes));
    }
    bytes = write_table(&words, false);
    try testing.expect(!(try Table.parse(&bytes)).is_on);
    bytes[4] = 'X';
    try testing.expectError(error.InvalidFormat, Table.parse(&bytes));
}

test "codes that are none" {
    defer interrupt.forget();
    const table: Table = try .parse(&write_table(&words, true));
    var target: [64]u8 = undefined;
    for ([_][]const u8{ &.{5}, &.{ 0, 254 }, &.{ 0, 255 }, &.{255} }) |codes| {
        try testing.expectError(error.InvalidFormat, table.decode(codes, &target));
    }
    const all: [255][]const u8 = @splat("a");
    _ = try (try Table.parse(&write_table(&all, true))).decode(&.{254}, &target);
}

test "a text of many pieces" {
    // An escape lies across the end of the first piece.
    const codes = try testing.allocator.alloc(u8, stride + 5);
    defer testing.allocator.free(codes);
    @memset(codes, 3);
    codes[stride - 1] = 255;
    codes[stride] = 'y';
    const target = try testing.allocator.alloc(u8, @intCast(Table.room(codes.len)));
    defer testing.allocator.free(target);
    const table: Table = try .parse(&write_table(&words, true));
    try testing.expectEqual(codes.len - 1, try table.decode(codes, target));
    try testing.expectEqualStrings("xyx", target[stride - 2 ..][0..3]);
}

test "tables and codes at random" {
    defer interrupt.forget();
    var prng: std.Random.DefaultPrng = .init(55);
    const random = prng.random();
    for (0..4000) |_| {
        var bytes = write_table(&words, true);
        for (0..random.uintLessThan(u8, 3)) |_| bytes[random.uintLessThan(usize, 60)] = random.int(u8);
        const table = Table.parse(bytes[0..random.uintAtMost(usize, bytes.len)]) catch continue;
        var codes: [24]u8 = undefined;
        for (&codes) |*code| code.* = if (random.boolean()) random.uintLessThan(u8, 6) else random.int(u8);
        var target: [24 * 8]u8 = undefined;
        const size = table.decode(&codes, &target) catch continue;
        try testing.expectEqual(size, table.decoded_size(&codes));
    }
}
