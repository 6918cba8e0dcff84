//! Which rows of a fragment were deleted: an Arrow file or a Roaring bitmap, to a bit for every row.
//!
//!     arrow       "ARROW1" │ messages │ footer, a flatbuffer │ u32 its size │ "ARROW1"
//!                 footer: 1 schema, one column of uint32 │ 3 batches (i64 offset, i32 size of the head, i64 of
//!                 the body). Bodies are plain, or packed by buffer (i64 size before each). Rows come in any order,
//!                 and each once.
//!     roaring     u32 12346 │ u32 containers │ (u16 key, u16 values − 1) … │ u32 offsets … │ containers
//!                 u16 12347, u16 containers − 1 │ a bit for each that has runs │ (u16 key, u16 values − 1) …
//!                 │ u32 offsets …, if there are 4 or more │ containers
//!                 container: up to 4,096 values as u16, more as 8,192 bytes of bits; with runs u16 count,
//!                 (u16 first, u16 values − 1) …
//!
//! Spec: arrow.apache.org/docs/format/Columnar.html and github.com/RoaringBitmap/RoaringFormatSpec.
const std = @import("std");
const abi = @import("../../abi.zig");
const bitmap = @import("../../core/bitmap.zig");
const interrupt = @import("../../core/interrupt.zig");
const lz4 = @import("../../codec/lz4.zig");
const zstd = @import("../../codec/zstd.zig");
const Arena = @import("../../core/arena.zig").Arena;
const Cursor = @import("../../core/cursor.zig").Cursor;

pub const Error = error{ InvalidFormat, NotSupported, OutOfMemory, Cancelled };

pub const Deletions = struct {
    bits: []u8,
    row_count: u64,
    /// Rows whose bits are set.
    count: u64 = 0,

    fn set(self: *Deletions, row: u64) Error!void {
        if (row >= self.row_count)
            return refuse("row {d} of a fragment of {d} rows is deleted", .{ row, self.row_count });
        const byte = &self.bits[@intCast(row >> 3)];
        const mask = @as(u8, 1) << @intCast(row & 7);
        self.count += @intFromBool(byte.* & mask == 0);
        byte.* |= mask;
    }
};

/// `input` has 64 readable bytes behind its end.
pub fn read(arena: std.mem.Allocator, kind: abi.RowList, input: []const u8, row_count: u64) Error!Deletions {
    @setRuntimeSafety(true);
    if (row_count > 1 << 32) return refuse("a fragment of {d} rows", .{row_count});
    const bits = try arena.alloc(u8, @intCast((row_count + 7) / 8));
    @memset(bits, 0);
    var found: Deletions = .{ .bits = bits, .row_count = row_count };
    switch (kind) {
        .none => {},
        .arrow => try read_arrow(arena, &found, input),
        .roaring => try read_roaring(&found, input),
        .members => try read_members(&found, input),
    }
    return found;
}

// ---- Roaring ----

const Run = struct { begin: u64, end: u64 };

fn read_roaring(target: *Deletions, input: []const u8) Error!void {
    @setRuntimeSafety(true);
    var containers: Containers = try .init(input);
    while (try containers.next()) |container| {
        try interrupt.check();
        var values = container;
        while (try values.next()) |run| {
            if (run.end > target.row_count)
                return refuse("row {d} of a fragment of {d} rows is deleted", .{ run.end - 1, target.row_count });
            var row = run.begin;
            while (row < run.end) : (row += 1) try target.set(row);
        }
    }
}

/// Of other numbers than rows, such as the fragments of an index: those behind the last one are left out.
fn read_members(target: *Deletions, input: []const u8) Error!void {
    @setRuntimeSafety(true);
    var containers: Containers = try .init(input);
    while (try containers.next()) |container| {
        try interrupt.check();
        var values = container;
        while (try values.next()) |run| {
            var member = run.begin;
            while (member < @min(run.end, target.row_count)) : (member += 1) try target.set(member);
        }
    }
}

const Containers = struct {
    cursor: Cursor,
    /// A bit for each container with runs.
    runs: []const u8,
    /// Keys and cardinalities.
    heads: Cursor,
    left: u32,
    index: u32 = 0,
    key_before: i32 = -1,

    fn init(input: []const u8) Error!Containers {
        @setRuntimeSafety(true);
        var cursor: Cursor = .init(input);
        const cookie = cursor.read_int(u32) catch return cut_short();
        var count: u32 = undefined;
        var runs: []const u8 = "";
        if (cookie == 12_346) {
            count = cursor.read_int(u32) catch return cut_short();
        } else if (cookie & 0xFFFF == 12_347) {
            count = (cookie >> 16) + 1;
            runs = cursor.read_bytes((count + 7) / 8) catch return cut_short();
        } else return refuse("no Roaring bitmap begins with {x}", .{cookie});
        if (count > 1 << 16) return refuse("a Roaring bitmap of {d} containers", .{count});
        const heads = cursor.read_bytes(@as(u64, count) * 4) catch return cut_short();
        const has_offsets = runs.len == 0 or count >= 4;
        // Containers lie one behind the other, so nobody needs to look where.
        if (has_offsets) _ = cursor.read_bytes(@as(u64, count) * 4) catch return cut_short();
        return .{ .cursor = cursor, .runs = runs, .heads = .init(heads), .left = count };
    }

    fn next(self: *Containers) Error!?Values {
        @setRuntimeSafety(true);
        if (self.left == 0) return null;
        self.left -= 1;
        const key = self.heads.read_int(u16) catch return cut_short();
        const count = @as(u32, self.heads.read_int(u16) catch return cut_short()) + 1;
        if (key <= self.key_before) return refuse("the containers of a Roaring bitmap are out of order", .{});
        self.key_before = key;
        const has_runs = self.runs.len > 0 and bitmap.get(self.runs.ptr, self.index);
        self.index += 1;
        const base = @as(u64, key) << 16;
        if (has_runs) {
            const run_count = self.cursor.read_int(u16) catch return cut_short();
            return .{ .base = base, .kind = .runs, .cursor = .init(self.cursor.read_bytes(@as(u64, run_count) * 4) catch
                return cut_short()) };
        }
        const is_list = count <= 4096;
        const bytes = self.cursor.read_bytes(if (is_list) count * 2 else 8192) catch return cut_short();
        return .{ .base = base, .kind = if (is_list) .list else .bits, .cursor = .init(bytes) };
    }
};

/// A container's values, as runs that rise.
const Values = struct {
    base: u64,
    kind: enum { list, bits, runs },
    cursor: Cursor,
    /// Of bits: the word that is being looked at, and the number of its first bit.
    word: u64 = 0,
    word_base: u64 = 0,

    fn next(self: *Values) Error!?Run {
        @setRuntimeSafety(true);
        switch (self.kind) {
            .list => {
                if (self.cursor.remaining() == 0) return null;
                const row = self.base + try self.cursor.read_int(u16);
                return .{ .begin = row, .end = row + 1 };
            },
            .runs => {
                if (self.cursor.remaining() == 0) return null;
                const first = try self.cursor.read_int(u16);
                const size = @as(u32, try self.cursor.read_int(u16)) + 1;
                if (first + size > 1 << 16) return refuse("a run of a Roaring bitmap is too long", .{});
                return .{ .begin = self.base + first, .end = self.base + first + size };
            },
            .bits => {
                while (self.word == 0) {
                    if (self.cursor.remaining() == 0) return null;
                    self.word_base = self.base + self.cursor.position * 8;
                    self.word = try self.cursor.read_int(u64);
                }
                const row = self.word_base + @ctz(self.word);
                self.word &= self.word - 1;
                return .{ .begin = row, .end = row + 1 };
            },
        }
    }
};

// ---- Arrow ----

const arrow_magic = "ARROW1";
const block_size = 24;
/// Of a record batch, as a message's head calls it.
const batch_kind = 3;

fn read_arrow(arena: std.mem.Allocator, target: *Deletions, input: []const u8) Error!void {
    @setRuntimeSafety(true);
    const end_size = 4 + arrow_magic.len;
    const is_marked = std.mem.startsWith(u8, input, arrow_magic) and std.mem.endsWith(u8, input, arrow_magic);
    if (input.len < 8 + end_size or !is_marked)
        return refuse("an Arrow file of {d} bytes does not begin and end like one", .{input.len});
    const end = input.len - end_size;
    const footer_size = std.mem.readInt(u32, input[end..][0..4], .little);
    if (footer_size > end - 8) return cut_short();
    const footer: Table = try .root(input[end - footer_size .. end]);
    try check_schema(try footer.table(1) orelse return refuse("an Arrow file has no schema", .{}));
    if (try footer.vector(2, block_size)) |dictionaries| if (dictionaries.count > 0)
        return refuse("deleted rows are listed by a dictionary", .{});
    const blocks = try footer.vector(3, block_size) orelse return;
    for (0..blocks.count) |i| {
        try interrupt.check();
        try read_block(arena, target, input[0 .. end - footer_size], blocks, @intCast(i * block_size));
    }
}

/// A message and its body: u32 FFFFFFFF (not in old files), u32 size, and so much of a flatbuffer.
fn read_block(arena: std.mem.Allocator, target: *Deletions, messages: []const u8, blocks: Vector, at: u32) Error!void {
    @setRuntimeSafety(true);
    const offset = try blocks.int(u64, at);
    const head_size = try blocks.int(u32, at + 8);
    if (offset > messages.len or head_size > messages.len - offset) return cut_short();
    var cursor: Cursor = .init(messages[@intCast(offset)..]);
    var head: Cursor = .init(cursor.read_bytes(head_size) catch return cut_short());
    var size = head.read_int(u32) catch return cut_short();
    if (size == 0xFFFF_FFFF) size = head.read_int(u32) catch return cut_short();
    const message: Table = try .root(head.read_bytes(size) catch return cut_short());
    const body = cursor.read_bytes(try blocks.int(u64, at + 16)) catch return cut_short();
    if (try message.int(u8, 1) != batch_kind) return refuse("an Arrow file of deleted rows has more than rows", .{});
    try read_batch(arena, target, try message.table(2) orelse return cut_short(), body);
}

/// One column of uint32.
fn check_schema(table: Table) Error!void {
    @setRuntimeSafety(true);
    const fields = try table.vector(1, 4) orelse return refuse("deleted rows without a column", .{});
    const is_big_endian = try table.int(u16, 0) != 0;
    if (fields.count == 1 and !is_big_endian) {
        const field = try fields.table(0);
        const is_integer = try field.int(u8, 2) == 2;
        const is_dictionary = try field.table(4) != null;
        if (is_integer and !is_dictionary) if (try field.table(3)) |integer| {
            if (try integer.int(u32, 0) == 32 and try integer.int(u8, 1) == 0) return;
        };
    }
    return refuse("deleted rows are one column of uint32, and these are something else", .{});
}

fn read_batch(arena: std.mem.Allocator, target: *Deletions, batch: Table, body: []const u8) Error!void {
    @setRuntimeSafety(true);
    const count = try batch.int(u64, 0);
    const buffers = try batch.vector(2, 16) orelse return cut_short();
    if (buffers.count < 2) return refuse("a column of deleted rows has {d} buffers", .{buffers.count});
    const nodes = try batch.vector(1, 16) orelse return cut_short();
    if (nodes.count != 1 or try nodes.int(u64, 8) != 0) return refuse("a deleted row is NULL", .{});
    const offset = try buffers.int(u64, 16);
    const size = try buffers.int(u64, 24);
    if (offset > body.len or size > body.len - offset) return cut_short();
    var values = body[@intCast(offset)..][0..@intCast(size)];
    if (count > (1 << 32)) return refuse("{d} rows are deleted", .{count});
    if (try batch.table(3)) |compression| values = try unpack(arena, try compression.int(u8, 0), values, count * 4);
    if (values.len / 4 < count) return cut_short();
    for (0..@intCast(count)) |i| {
        if (i % interrupt.block_rows == 0) try interrupt.check();
        try target.set(std.mem.readInt(u32, values[i * 4 ..][0..4], .little));
    }
}

/// A packed buffer: its size unpacked before it, or -1 where it is not packed.
fn unpack(arena: std.mem.Allocator, codec: u8, source: []const u8, size: u64) Error![]const u8 {
    @setRuntimeSafety(true);
    if (source.len < 8) return if (size == 0) "" else cut_short();
    const raw_size = std.mem.readInt(u64, source[0..8], .little);
    if (raw_size == std.math.maxInt(u64)) return source[8..];
    // Rows are different numbers: neither codec packs them a thousandfold.
    if (raw_size < size or raw_size > size + 64 or raw_size / 1024 > source.len)
        return refuse("{d} bytes of rows became {d}", .{ raw_size, source.len });
    const slack = lz4.slack_bytes;
    const target = try arena.alloc(u8, @as(usize, @intCast(raw_size)) + slack);
    const bytes = target[0..@intCast(raw_size)];
    // The last bytes of a file have nothing behind them that may be read.
    const padded = try arena.alloc(u8, source.len - 8 + slack);
    @memcpy(padded[0 .. source.len - 8], source[8..]);
    @memset(padded[source.len - 8 ..], 0);
    switch (codec) {
        0 => try lz4.decompress_legacy(padded[0 .. source.len - 8], bytes),
        1 => try zstd.decompress(padded[0 .. source.len - 8], bytes),
        else => {
            interrupt.describe("rows are packed by a codec {d}, which is not known", .{codec});
            return error.NotSupported;
        },
    }
    return bytes;
}

// ---- flatbuffers ----

/// A table of a flatbuffer: its fields are found through a list of offsets, and may be missing.
const Table = struct {
    bytes: []const u8,
    position: u32,
    fields: []const u8,

    fn root(bytes: []const u8) Error!Table {
        return .at(bytes, try number(u32, bytes, 0));
    }

    fn at(bytes: []const u8, position: u32) Error!Table {
        @setRuntimeSafety(true);
        const back = try number(i32, bytes, position);
        const start = std.math.cast(u32, @as(i64, position) - back) orelse return cut_short();
        const size = try number(u16, bytes, start);
        if (size < 4 or start + @as(u64, size) > bytes.len) return cut_short();
        return .{ .bytes = bytes, .position = position, .fields = bytes[start + 4 ..][0 .. size - 4] };
    }

    /// Where a field lies, if it is there.
    fn place(self: Table, field: u32) Error!?u32 {
        @setRuntimeSafety(true);
        if (field * 2 + 2 > self.fields.len) return null;
        const offset = std.mem.readInt(u16, self.fields[field * 2 ..][0..2], .little);
        return if (offset == 0) null else self.position + offset;
    }

    fn int(self: Table, comptime T: type, field: u32) Error!T {
        return number(T, self.bytes, try self.place(field) orelse return 0);
    }

    fn table(self: Table, field: u32) Error!?Table {
        const found = try self.place(field) orelse return null;
        return try .at(self.bytes, try follow(self.bytes, found));
    }

    fn vector(self: Table, field: u32, entry_size: u32) Error!?Vector {
        @setRuntimeSafety(true);
        const found = try self.place(field) orelse return null;
        const start = try follow(self.bytes, found);
        const count = try number(u32, self.bytes, start);
        if (@as(u64, count) * entry_size > self.bytes.len - start - 4) return cut_short();
        return .{ .bytes = self.bytes, .start = start + 4, .count = count };
    }
};

const Vector = struct {
    bytes: []const u8,
    start: u32,
    count: u32,

    fn int(self: Vector, comptime T: type, offset: u32) Error!T {
        return number(T, self.bytes, self.start + offset);
    }

    fn table(self: Vector, index: u32) Error!Table {
        return .at(self.bytes, try follow(self.bytes, self.start + index * 4));
    }
};

fn follow(bytes: []const u8, position: u32) Error!u32 {
    @setRuntimeSafety(true);
    const found = @as(u64, position) + try number(u32, bytes, position);
    return if (found < bytes.len) @intCast(found) else cut_short();
}

fn number(comptime T: type, bytes: []const u8, position: u32) Error!T {
    @setRuntimeSafety(true);
    if (@as(u64, position) + @sizeOf(T) > bytes.len) return cut_short();
    return std.mem.readInt(T, bytes[position..][0..@sizeOf(T)], .little);
}

fn cut_short() error{InvalidFormat} {
    return refuse("the list of deleted rows is cut short", .{});
}

fn refuse(comptime format: []const u8, arguments: anytype) error{InvalidFormat} {
    interrupt.describe(format, arguments);
    return error.InvalidFormat;
}

// ---- tests ----

const testing = std.testing;

/// What pyarrow writes of the rows 5, 1, 9, 70.
const plain_sample = from_hex(
    "4152524f57310000ffffffff780000001000000000000a000c000600050008000a000000000104000c0000000800080000000400" ++
        "08000000040000000100000014000000100014000800000007000c00000010001000000000000002100000002000000004000000" ++
        "0000000006000000726f775f6964000000000600080004000600000020000000ffffffff8800000014000000000000000c001600" ++
        "0600050008000c000c0000000003040018000000100000000000000000000a0018000c00040008000a0000003c00000010000000" ++
        "04000000000000000000000002000000000000000000000000000000000000000000000000000000100000000000000000000000" ++
        "010000000400000000000000000000000000000005000000010000000900000046000000ffffffff00000000100000000c001400" ++
        "060008000c0010000c00000000000400340000002400000004000000010000008800000000000000900000000000000010000000" ++
        "0000000000000000080008000000040008000000040000000100000014000000100014000800000007000c000000100010000000" ++
        "000000021000000020000000040000000000000006000000726f775f6964000000000600080004000600000020000000a0000000" ++
        "4152524f5731",
);
/// Of 0, 2, … 78, packed by LZ4 and by zstd.
const lz4_sample = from_hex(
    "4152524f57310000ffffffff780000001000000000000a000c000600050008000a000000000104000c0000000800080000000400" ++
        "08000000040000000100000014000000100014000800000007000c00000010001000000000000002100000002000000004000000" ++
        "0000000006000000726f775f6964000000000600080004000600000020000000ffffffff9800000014000000000000000c001800" ++
        "0600050008000c000c000000000304001c000000b800000000000000000000000c001c001000040008000c000c00000048000000" ++
        "1c000000140000002800000000000000000000000400040004000000020000000000000000000000000000000000000000000000" ++
        "00000000b700000000000000000000000100000028000000000000000000000000000000a00000000000000004224d18604082a0" ++
        "00008000000000020000000400000006000000080000000a0000000c0000000e0000001000000012000000140000001600000018" ++
        "0000001a0000001c0000001e00000020000000220000002400000026000000280000002a0000002c0000002e0000003000000032" ++
        "0000003400000036000000380000003a0000003c0000003e00000040000000420000004400000046000000480000004a0000004c" ++
        "0000004e0000000000000000ffffffff00000000100000000c001400060008000c0010000c000000000004003400000024000000" ++
        "04000000010000008800000000000000a000000000000000b8000000000000000000000008000800000004000800000004000000" ++
        "0100000014000000100014000800000007000c000000100010000000000000021000000020000000040000000000000006000000" ++
        "726f775f6964000000000600080004000600000020000000a00000004152524f5731",
);
const zstd_sample = from_hex(
    "4152524f57310000ffffffff780000001000000000000a000c000600050008000a000000000104000c0000000800080000000400" ++
        "08000000040000000100000014000000100014000800000007000c00000010001000000000000002100000002000000004000000" ++
        "0000000006000000726f775f6964000000000600080004000600000020000000ffffffffa000000014000000000000000c001800" ++
        "0600050008000c000c000000000304001c0000006000000000000000000000000c001e001000040008000c000c00000050000000" ++
        "24000000180000002800000000000000000000000000060008000700060000000000000102000000000000000000000000000000" ++
        "0000000000000000000000005a00000000000000000000000100000028000000000000000000000000000000a000000000000000" ++
        "28b52ffd20a04d0200024a111510cd9b01664033a019501352908214a420056990026f9cf1c5154f1cf1c30d2f9cf0c1050f1cf0" ++
        "efdebb73dfae3d3bf6ebd6ab539f2e3d3af4e7ce9b335fae3c39f2e30300000000000000ffffffff00000000100000000c001400" ++
        "060008000c0010000c00000000000400340000002400000004000000010000008800000000000000a80000000000000060000000" ++
        "0000000000000000080008000000040008000000040000000100000014000000100014000800000007000c000000100010000000" ++
        "000000021000000020000000040000000000000006000000726f775f6964000000000600080004000600000020000000a0000000" ++
        "4152524f5731",
);

fn from_hex(comptime digits: []const u8) [digits.len / 2]u8 {
    @setEvalBranchQuota(20_000);
    var bytes: [digits.len / 2]u8 = undefined;
    _ = std.fmt.hexToBytes(&bytes, digits) catch unreachable;
    return bytes;
}

fn expect_rows(kind: abi.RowList, input: []const u8, row_count: u64, rows: []const u64) !void {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const found = try read(arena.allocator(), kind, input, row_count);
    try testing.expectEqual(rows.len, found.count);
    for (rows) |row| try testing.expect(bitmap.get(found.bits.ptr, @intCast(row)));
}

test "rows of Arrow files" {
    try expect_rows(.arrow, &plain_sample, 71, &.{ 1, 5, 9, 70 });
    var even: [40]u64 = undefined;
    for (&even, 0..) |*row, i| row.* = i * 2;
    try expect_rows(.arrow, &lz4_sample, 79, &even);
    try expect_rows(.arrow, &zstd_sample, 79, &even);
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    defer interrupt.forget();
    try testing.expectError(error.InvalidFormat, read(arena.allocator(), .arrow, &plain_sample, 70));
    for (0..plain_sample.len) |size|
        try testing.expectError(error.InvalidFormat, read(arena.allocator(), .arrow, plain_sample[0..size], 71));
}

fn u16s(list: *std.ArrayList(u8), arena: std.mem.Allocator, values: []const u16) void {
    for (values) |value| list.appendSlice(arena, &std.mem.toBytes(value)) catch unreachable;
}

/// Cookie, containers, keys and cardinalities, offsets that nobody looks at; then an array and bits.
fn roaring_sample(arena: std.mem.Allocator) []u8 {
    var list: std.ArrayList(u8) = .empty;
    u16s(&list, arena, &.{ 12_346, 0, 2, 0, 0, 2, 3, 4999, 0, 0, 0, 0 });
    u16s(&list, arena, &.{ 4, 7, 65_535 });
    for (0..8192) |i| list.append(arena, if (i < 625) 0xFF else 0) catch unreachable;
    return list.items;
}

fn run_sample(arena: std.mem.Allocator) []u8 {
    var list: std.ArrayList(u8) = .empty;
    u16s(&list, arena, &.{ 12_347, 1 });
    list.append(arena, 0b10) catch unreachable;
    u16s(&list, arena, &.{ 0, 0, 1, 6, 9, 2, 0, 1, 100, 4 });
    return list.items;
}

test "rows of Roaring bitmaps" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const memory = arena.allocator();
    var rows: std.ArrayList(u64) = .empty;
    try rows.appendSlice(memory, &.{ 4, 7, 65_535 });
    for (0..5000) |i| try rows.append(memory, (3 << 16) + i);
    try expect_rows(.roaring, roaring_sample(memory), (3 << 16) + 5000, rows.items);
    const base = 1 << 16;
    try expect_rows(
        .roaring,
        run_sample(memory),
        base + 105,
        &.{ 9, base, base + 1, base + 100, base + 101, base + 102, base + 103, base + 104 },
    );
    try expect_rows(.roaring, &.{ 0x3A, 0x30, 0, 0, 0, 0, 0, 0 }, 5, &.{});
    defer interrupt.forget();
    try testing.expectError(error.InvalidFormat, read(memory, .roaring, run_sample(memory), base + 104));
    for ([_][]const u8{ roaring_sample(memory), run_sample(memory) }) |sample| {
        for (0..@min(sample.len, 300)) |size| {
            try testing.expectError(error.InvalidFormat, read(memory, .roaring, sample[0..size], 1 << 20));
        }
    }
    try expect_rows(.members, run_sample(memory), base + 101, &.{ 9, base, base + 1, base + 100 });
}

test "mutated lists of rows" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    var kept: Arena = .init(testing.allocator);
    defer kept.deinit();
    defer interrupt.forget();
    const samples = [_]struct { abi.RowList, []const u8 }{
        .{ .arrow, &plain_sample },
        .{ .arrow, &lz4_sample },
        .{ .arrow, &zstd_sample },
        .{ .roaring, roaring_sample(kept.allocator()) },
        .{ .roaring, run_sample(kept.allocator()) },
    };
    var prng: std.Random.DefaultPrng = .init(3);
    const random = prng.random();
    for (samples) |sample| for (0..1500) |_| {
        const copy = try arena.allocator().dupe(u8, sample[1]);
        const reach = if (sample[0] == .arrow) copy.len else @min(copy.len, 320);
        for (0..random.intRangeAtMost(u8, 1, 4)) |_| copy[random.uintLessThan(usize, reach)] ^= random.int(u8);
        _ = read(arena.allocator(), sample[0], copy, 1 << 18) catch {};
        _ = arena.reset(.retain_capacity);
    };
}
