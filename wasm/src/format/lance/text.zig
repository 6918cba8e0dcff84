//! Texts and binaries of any size, as a chunk, a block or a full-zip page has them.
//!
//!     chunk     offsets, one more than values, counted from the start of the buffer; bytes
//!     block     word: bits of an offset, word: where the bytes begin, offsets counted from there; bytes
//!               (words and offsets have the same size, 4 or 8)
//!     value     its bytes alone
//!
//! Bytes are copied once and offsets moved by vectors, which also see whether one of them falls. Compressed texts
//! (FSST) are decoded into the column, one behind the other. What goes into a column of texts is checked to be
//! UTF-8; a text that is not is written down in `Unfit`, since it may belong to a NULL.
const std = @import("std");
const convert = @import("convert.zig");
const fixed = @import("fixed.zig");
const fsst = @import("../../encoding/fsst.zig");
const interrupt = @import("../../core/interrupt.zig");
const utf8 = @import("../../core/utf8.zig");
const ColumnBuilder = @import("../../core/column_builder.zig").ColumnBuilder;
const Place = fixed.Place;
const Unfit = convert.Unfit;
const assert = std.debug.assert;

pub const Error = error{ Cancelled, InvalidFormat, NotSupported, OutOfMemory, TooLarge };

/// A compressed text is given room for the longest that it can be, if that is less.
const room_max = 1 << 20;

pub const Text = struct {
    /// 4 or 8.
    offset_size: u8,
    /// One more than values.
    offsets: []const u8,
    /// What they count from.
    bytes: []const u8,
    count: u64,

    pub fn open(place: Place, offset_bits: u8, buffers: []const []const u8, count: u64) Error!Text {
        @setRuntimeSafety(true);
        if (buffers.len != 1) return invalid("{d} buffers of texts instead of 1", .{buffers.len});
        const bytes = buffers[0];
        const size = offset_bits / 8;
        const header: usize = if (place == .block) 2 * @as(usize, size) else 0;
        // An empty page may have nothing at all.
        if (bytes.len == 0 and count == 0) return .{ .offset_size = size, .offsets = "", .bytes = "", .count = 0 };
        if (bytes.len < header or (bytes.len - header) / size <= count) {
            return invalid("offsets of {d} texts in {d} bytes", .{ count, bytes.len });
        }
        const offsets = bytes[header..][0 .. (@as(usize, @intCast(count)) + 1) * size];
        if (place == .chunk) return .{ .offset_size = size, .offsets = offsets, .bytes = bytes, .count = count };
        const stated = read_word(bytes, size);
        const start = read_word(bytes[size..], size);
        if (stated != offset_bits) return invalid("offsets of {d} bits instead of {d}", .{ stated, offset_bits });
        if (start > bytes.len or start < header + offsets.len) return invalid("texts from byte {d} on", .{start});
        return .{
            .offset_size = size,
            .offsets = offsets,
            .bytes = bytes[@intCast(start)..],
            .count = count,
        };
    }

    /// Values from `first` on, behind the dense ones of `builder`. `table` is of codes, and on.
    pub fn read(
        self: *const Text,
        first: u64,
        count: u32,
        table: ?*const fsst.Table,
        builder: *ColumnBuilder,
        unfit: *Unfit,
    ) Error!void {
        assert(first <= self.count and count <= self.count - first);
        if (count == 0) return;
        switch (self.offset_size) {
            inline 4, 8 => |size| try self.read_of(@Int(.unsigned, size * 8), first, count, table, builder, unfit),
            else => unreachable,
        }
    }

    fn read_of(
        self: *const Text,
        comptime Offset: type,
        first: u64,
        count: u32,
        table: ?*const fsst.Table,
        builder: *ColumnBuilder,
        unfit: *Unfit,
    ) Error!void {
        const all: []align(1) const Offset = std.mem.bytesAsSlice(Offset, self.offsets);
        const offsets = all[@intCast(first)..][0 .. @as(usize, count) + 1];
        const base = try base_of(builder);
        const ends = try builder.grow_dense_offsets(count);
        const falls = move_offsets(Offset, offsets, ends[1..], base);
        if (falls or offsets[count] > self.bytes.len) {
            return invalid("offsets of texts that fall or point outside", .{});
        }
        const start: usize = @intCast(offsets[0]);
        const source = self.bytes[start..@intCast(offsets[count])];
        if (table) |found| {
            const target = try grow_decoded(found, source, base, builder);
            const size = try found.decode_all(Offset, self.bytes, offsets, target, ends[1..], base);
            builder.data.items.len = base + size;
        } else {
            if (source.len > std.math.maxInt(u32) - base) return error.TooLarge;
            @memcpy(try builder.grow_dense(source.len), source);
        }
        builder.dense_count += count;
        try check_text(builder, base, ends, unfit);
    }
};

/// Values behind the dense ones of `builder`, as a full-zip page has them. `table` is of codes, and on.
pub fn append(
    values: []const []const u8,
    table: ?*const fsst.Table,
    builder: *ColumnBuilder,
    unfit: *Unfit,
) Error!void {
    const base = try base_of(builder);
    const ends = try builder.grow_dense_offsets(@intCast(values.len));
    for (values, ends[1..], 0..) |value, *end, index| {
        if (index % interrupt.block_rows == 0) try interrupt.check();
        const before = try base_of(builder);
        if (table) |found| {
            const target = try grow_decoded(found, value, before, builder);
            builder.data.items.len = before + try found.decode(value, target);
        } else {
            if (value.len > std.math.maxInt(u32) - before) return error.TooLarge;
            @memcpy(try builder.grow_dense(value.len), value);
        }
        end.* = @intCast(builder.data.items.len);
    }
    builder.dense_count += @intCast(values.len);
    try check_text(builder, base, ends, unfit);
}

/// Where the next bytes go.
pub fn base_of(builder: *const ColumnBuilder) error{TooLarge}!u32 {
    return std.math.cast(u32, builder.data.items.len) orelse error.TooLarge;
}

/// Room for codes of so many bytes, once decoded: as much as they can become, or as much as they do become.
fn grow_decoded(table: *const fsst.Table, source: []const u8, base: u32, builder: *ColumnBuilder) Error![]u8 {
    const room = fsst.Table.room(source.len);
    const size = if (room <= room_max) room else table.decoded_size(source) + fsst.symbol_size_max;
    if (size > std.math.maxInt(u32) - base) return error.TooLarge;
    return builder.grow_dense(size);
}

/// Marks texts that are none. `ends` are those of values that were just written, with the one before in front.
pub fn check_text(builder: *const ColumnBuilder, base: u32, ends: []const u32, unfit: *Unfit) Error!void {
    if (builder.type.tag != .utf8) return;
    const text = builder.data.items[base..];
    if (try utf8.find_invalid(text, ends, base) == null) return;
    for (ends[0 .. ends.len - 1], ends[1..], 0..) |start, end, index| {
        if (index % interrupt.block_rows == 0) try interrupt.check();
        if (!std.unicode.utf8ValidateSlice(text[start - base .. end - base])) try unfit.mark(index, .not_utf8);
    }
}

/// Ends of values, counted from `base`; whether an offset is less than the one before it. Then ends mean nothing.
noinline fn move_offsets(comptime Offset: type, offsets: []align(1) const Offset, ends: []u32, base: u32) bool {
    assert(offsets.len == ends.len + 1);
    const lanes = 4;
    const Vector = @Vector(lanes, Offset);
    const Ends = @Vector(lanes, u32);
    const delta = base -% @as(u32, @truncate(offsets[0]));
    var falls: @Vector(lanes, bool) = @splat(false);
    var i: usize = 0;
    while (i + lanes <= ends.len) : (i += lanes) {
        const now: Vector = @as(*align(1) const [lanes]Offset, @ptrCast(offsets[i..].ptr)).*;
        const next: Vector = @as(*align(1) const [lanes]Offset, @ptrCast(offsets[i + 1 ..].ptr)).*;
        falls = @select(bool, next < now, @as(@Vector(lanes, bool), @splat(true)), falls);
        ends[i..][0..lanes].* = @as(Ends, @truncate(next)) +% @as(Ends, @splat(delta));
    }
    var any = @reduce(.Or, falls);
    while (i < ends.len) : (i += 1) {
        any = any or offsets[i + 1] < offsets[i];
        ends[i] = @as(u32, @truncate(offsets[i + 1])) +% delta;
    }
    return any;
}

fn read_word(bytes: []const u8, size: u8) u64 {
    return switch (size) {
        inline 4, 8 => |width| std.mem.readInt(@Int(.unsigned, width * 8), bytes[0..width], .little),
        else => unreachable,
    };
}

fn invalid(comptime format: []const u8, arguments: anytype) Error {
    @branchHint(.cold);
    interrupt.describe("a Lance page has " ++ format, arguments);
    return error.InvalidFormat;
}

const testing = std.testing;

/// Words of 32 or 64 bits, then bytes.
fn buffer(comptime Offset: type, comptime words: []const Offset, comptime bytes: []const u8) []const u8 {
    comptime var found: []const u8 = "";
    inline for (words) |word| found = found ++ comptime &@as([@sizeOf(Offset)]u8, @bitCast(word));
    return found ++ bytes;
}

fn expect_texts(text: *const Text, first: u64, table: ?*const fsst.Table, expected: []const []const u8) !void {
    var builder: ColumnBuilder = try .init(testing.allocator, .of(.utf8));
    defer builder.deinit();
    var unfit: Unfit = .init(testing.allocator);
    defer unfit.deinit();
    unfit.begin(@intCast(expected.len));
    // Something is there already.
    try append(&.{"before"}, null, &builder, &unfit);
    try text.read(first, @intCast(expected.len), table, &builder, &unfit);
    try builder.settle(@intCast(1 + expected.len));
    try unfit.check(null, 0);
    try expect_column(&builder, expected);
}

fn expect_column(builder: *const ColumnBuilder, expected: []const []const u8) !void {
    const offsets = builder.offsets.items[1..];
    try testing.expectEqual(expected.len + 1, offsets.len);
    for (expected, offsets[0 .. offsets.len - 1], offsets[1..]) |value, start, end| {
        try testing.expectEqualStrings(value, builder.data.items[start..end]);
    }
}

test "a chunk of texts" {
    const chunks = .{
        .{ u32, comptime buffer(u32, &.{ 28, 30, 30, 33, 34, 34, 37 }, "abcdefghi") },
        .{ u64, comptime buffer(u64, &.{ 56, 58, 58, 61, 62, 62, 65 }, "abcdefghi") },
    };
    inline for (chunks) |chunk| {
        const text: Text = try .open(.chunk, @bitSizeOf(chunk[0]), &.{chunk[1]}, 6);
        try expect_texts(&text, 0, null, &.{ "ab", "", "cde", "f", "", "ghi" });
        try expect_texts(&text, 2, null, &.{ "cde", "f" });
        try expect_texts(&text, 6, null, &.{});
        try testing.expectError(error.InvalidFormat, Text.open(.chunk, @bitSizeOf(chunk[0]), &.{chunk[1][0..9]}, 6));
    }
    _ = try Text.open(.chunk, 32, &.{""}, 0);
    try testing.expectError(error.InvalidFormat, Text.open(.chunk, 32, &.{""}, 1));
    try testing.expectError(error.InvalidFormat, Text.open(.chunk, 32, &.{""}, std.math.maxInt(u64)));
    try testing.expectError(error.InvalidFormat, Text.open(.chunk, 32, &.{}, 0));
    interrupt.forget();
}

test "a block of texts" {
    const blocks = .{
        .{ u32, comptime buffer(u32, &.{ 32, 20, 0, 2, 5 }, "abcde") },
        .{ u64, comptime buffer(u64, &.{ 64, 40, 0, 2, 5 }, "abcde") },
    };
    inline for (blocks) |block| {
        const text: Text = try .open(.block, @bitSizeOf(block[0]), &.{block[1]}, 2);
        try expect_texts(&text, 0, null, &.{ "ab", "cde" });
    }
    defer interrupt.forget();
    const Case = struct { block: []const u8, count: u64 };
    const cases = [_]Case{
        .{ .block = buffer(u32, &.{ 64, 20, 0, 2, 5 }, "abcde"), .count = 2 }, // offsets of another size
        .{ .block = buffer(u32, &.{ 32, 19, 0, 2, 5 }, "abcde"), .count = 2 }, // bytes inside of offsets
        .{ .block = buffer(u32, &.{ 32, 26, 0, 2, 5 }, "abcde"), .count = 2 }, // bytes behind the end
        .{ .block = buffer(u32, &.{ 32, 20, 0, 2, 5 }, "abcde"), .count = 3 },
        .{ .block = buffer(u32, &.{32}, ""), .count = 0 },
    };
    for (cases) |case| {
        try testing.expectError(error.InvalidFormat, Text.open(.block, 32, &.{case.block}, case.count));
    }
}

test "offsets that lie" {
    defer interrupt.forget();
    const cases = [_][]const u8{
        buffer(u32, &.{ 24, 26, 25, 27, 28, 29 }, "abcdefgh"), // falls
        buffer(u32, &.{ 24, 25, 26, 27, 28, 27 }, "abcdefgh"), // falls at the end
        buffer(u32, &.{ 33, 33, 33, 33, 33, 33 }, "abcdefgh"), // outside
        buffer(u32, &.{ 24, 25, 26, 27, 28, 0xFFFF_FFFF }, "abcdefgh"),
    };
    for (cases) |case| {
        var builder: ColumnBuilder = try .init(testing.allocator, .of(.binary));
        defer builder.deinit();
        var unfit: Unfit = .init(testing.allocator);
        const text: Text = try .open(.chunk, 32, &.{case}, 5);
        try testing.expectError(error.InvalidFormat, text.read(0, 5, null, &builder, &unfit));
    }
}

test "compressed texts" {
    const table: fsst.Table = try .parse(&fsst.write_table(&.{ "the ", "quick" }, true));
    const chunk = buffer(u32, &.{ 16, 18, 18, 21 }, &.{ 0, 1, 255, 'x', 1 });
    const text: Text = try .open(.chunk, 32, &.{chunk}, 3);
    try expect_texts(&text, 0, &table, &.{ "the quick", "", "xquick" });
    try expect_texts(&text, 2, &table, &.{"xquick"});
    var builder: ColumnBuilder = try .init(testing.allocator, .of(.utf8));
    defer builder.deinit();
    var unfit: Unfit = .init(testing.allocator);
    defer unfit.deinit();
    unfit.begin(3);
    try append(&.{"?"}, null, &builder, &unfit);
    try append(&.{ &.{ 1, 0 }, "", &.{ 255, 'y' } }, &table, &builder, &unfit);
    try builder.settle(4);
    try expect_column(&builder, &.{ "quickthe ", "", "y" });
}

test "a long compressed text" {
    const table: fsst.Table = try .parse(&fsst.write_table(&.{ "the ", "quick" }, true));
    const codes = try testing.allocator.alloc(u8, room_max / 4);
    defer testing.allocator.free(codes);
    @memset(codes, 1);
    var builder: ColumnBuilder = try .init(testing.allocator, .of(.utf8));
    defer builder.deinit();
    var unfit: Unfit = .init(testing.allocator);
    defer unfit.deinit();
    unfit.begin(1);
    try append(&.{codes}, &table, &builder, &unfit);
    try testing.expectEqual(codes.len * 5, builder.data.items.len);
    try testing.expect(std.mem.endsWith(u8, builder.data.items, "quickquick"));
}

test "texts that are none" {
    defer interrupt.forget();
    var unfit: Unfit = .init(testing.allocator);
    defer unfit.deinit();
    const chunk = buffer(u32, &.{ 16, 17, 18, 20 }, "\xC3\xA4\xC3\xA4"); // a character in halves, and a whole one
    inline for (.{ .utf8, .binary }) |tag| {
        var builder: ColumnBuilder = try .init(testing.allocator, .of(tag));
        defer builder.deinit();
        unfit.begin(3);
        const text: Text = try .open(.chunk, 32, &.{chunk}, 3);
        try text.read(0, 3, null, &builder, &unfit);
        const is_text = tag == .utf8;
        try testing.expectEqual(is_text, unfit.is_marked(0) and unfit.is_marked(1) and !unfit.is_marked(2));
        if (is_text) try testing.expectError(error.InvalidFormat, unfit.check(&.{0b101}, 0));
        try unfit.check(&.{0b100}, 0);
    }
}

test "chunks and blocks at random" {
    defer interrupt.forget();
    var prng: std.Random.DefaultPrng = .init(144);
    const random = prng.random();
    const table: fsst.Table = try .parse(&fsst.write_table(&.{ "the ", "quick", "z" }, true));
    var unfit: Unfit = .init(testing.allocator);
    defer unfit.deinit();
    for (0..4000) |_| {
        var bytes: [80]u8 = @splat(0);
        for (0..10) |i| bytes[i * 8] = 20 + @as(u8, @intCast(i)) + random.uintLessThan(u8, 3);
        bytes[0] = if (random.boolean()) 32 else 64;
        for (0..random.uintLessThan(u8, 3)) |_| bytes[random.uintLessThan(usize, bytes.len)] = random.int(u8);
        const place: Place = if (random.boolean()) .chunk else .block;
        const bits: u8 = if (random.boolean()) 32 else 64;
        const count = random.uintLessThan(u32, 12);
        const text = Text.open(place, bits, &.{bytes[0..random.uintAtMost(usize, bytes.len)]}, count) catch continue;
        var builder: ColumnBuilder = try .init(testing.allocator, .of(.utf8));
        defer builder.deinit();
        unfit.begin(count);
        text.read(0, count, if (random.boolean()) &table else null, &builder, &unfit) catch continue;
        try testing.expectEqual(builder.data.items.len, builder.offsets.getLast());
        unfit.check(null, 0) catch {};
    }
}
