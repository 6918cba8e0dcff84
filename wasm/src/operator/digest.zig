//! Reduces rows to one row that says which rows they were, whatever their order and their cuts.
//!
//!     row hash     kernel/hash.zig over all columns, in their order: NULL, NaN and -0.0 have one form each
//!     sum          of all row hashes, modulo 2^64
//!     mixed_sum    of all row hashes, each mixed once more: rows whose sums agree by chance differ here
//!     row_count    rows
//!
//! Sums do not care for order, so batches may be cut and come as they like. Types are not hashed: the
//! host adds the schema's text.
//!
//!     digest      nothing
const std = @import("std");
const abi = @import("../abi.zig");
const expression_parser = @import("../plan/expression_parser.zig");
const hash = @import("../kernel/hash.zig");
const interrupt = @import("../core/interrupt.zig");
const protocol = @import("protocol.zig");
const schema = @import("../core/schema.zig");
const step_module = @import("../plan/step.zig");
const Arena = @import("../core/arena.zig").Arena;
const Chunk = @import("../plan/expression.zig").Chunk;
const Column = @import("../core/column.zig").Column;
const bitmap = @import("../core/bitmap.zig");
const Error = protocol.Error;
const alignment = @import("../core/column.zig").alignment;

/// What comes out, whatever goes in.
const fields = [_]schema.Field{
    .{ .name = "sum", .type = .of(.u64) },
    .{ .name = "mixed_sum", .type = .of(.u64) },
    .{ .name = "row_count", .type = .of(.u64) },
};

/// Tells the mixed sum's hashes from the sum's; drawn at random.
const mixed_seed: u64 = 0x6A09_E667_F3BC_C909;
/// Of rows without columns, of which only their number matters.
const empty_hash: u64 = 0x2545_F491_4F6C_DD1D;
const block_rows = 1024;

pub const DigestOperator = struct {
    digest: Digest = .{},
    has_ended: bool = false,
    /// The answer, while it is taken.
    answer: Arena,

    pub const Step = struct {};
    pub const tag: abi.NodeTag = .digest;
    pub const facts: step_module.Facts = .{ .leaves = .anyhow, .blocks = true };

    pub fn parse(_: *expression_parser.Parser) expression_parser.Error!step_module.Parsed(Step) {
        return .{ .step = .{}, .output = &fields };
    }

    pub fn open(opening: *const protocol.Opening, _: *const Step) Error!DigestOperator {
        return .{ .answer = .init(opening.gpa) };
    }

    pub fn push(self: *DigestOperator, _: std.mem.Allocator, chunk: *Chunk, _: protocol.Flow) Error!protocol.Pushed {
        try self.digest.push(chunk);
        return .kept;
    }

    pub fn finish(self: *DigestOperator) Error!void {
        self.has_ended = true;
    }

    pub fn next(self: *DigestOperator) Error!?protocol.Piece {
        _ = self.answer.reset(.free_all);
        if (!self.has_ended) return null;
        self.has_ended = false;
        const columns = try self.digest.finish(self.answer.allocator());
        return .{ .whole = .{ .columns = columns, .row_count = 1 } };
    }

    pub fn size(self: *const DigestOperator) u64 {
        return self.answer.capacity();
    }

    pub fn reset(self: *DigestOperator) Error!void {
        self.digest = .{};
        self.has_ended = false;
    }

    pub fn close(self: *DigestOperator) void {
        self.answer.deinit();
    }
};

const Digest = struct {
    sum: u64 = 0,
    mixed_sum: u64 = 0,
    row_count: u64 = 0,

    fn push(self: *Digest, chunk: *const Chunk) Error!void {
        var hashes: [block_rows]u64 = undefined;
        var start: u32 = 0;
        while (start < chunk.row_count) {
            try interrupt.check();
            const count: u32 = @min(block_rows, chunk.row_count - start);
            const block = hashes[0..count];
            if (chunk.columns.len == 0) @memset(block, empty_hash);
            for (chunk.columns, 0..) |*column, i| hash.hash_column(
                column,
                start,
                block,
                if (i == 0) .first else .combine,
            );
            if (chunk.selection) |selection| self.add_selected(block, selection.bits, start) else self.add(block);
            start += count;
        }
    }

    fn add(self: *Digest, hashes: []const u64) void {
        for (hashes) |row| {
            self.sum +%= row;
            self.mixed_sum +%= hash.hash_word(row ^ mixed_seed);
        }
        self.row_count += hashes.len;
    }

    fn add_selected(self: *Digest, hashes: []const u64, bits: []const u8, start: u32) void {
        for (hashes, start..) |row, index| if (bitmap.get(bits.ptr, index)) self.add(&.{row});
    }

    /// One row of `fields`.
    fn finish(self: *const Digest, arena: std.mem.Allocator) Error![]const Column {
        const columns = try arena.alloc(Column, fields.len);
        const values = [_]u64{ self.sum, self.mixed_sum, self.row_count };
        for (columns, fields, values) |*column, field, value| {
            const data = try arena.alignedAlloc(u8, .fromByteUnits(alignment), @sizeOf(u64));
            std.mem.writeInt(u64, data[0..8], value, .little);
            column.* = .{ .type = field.type, .row_count = 1, .data = data };
        }
        return columns;
    }
};

const testing = std.testing;

fn column_of(values: []align(16) const i64) Column {
    return .{ .type = .of(.i64), .row_count = @intCast(values.len), .data = std.mem.sliceAsBytes(values) };
}

fn digest_of(chunks: []const Chunk) !Digest {
    var digest: Digest = .{};
    for (chunks) |*chunk| try digest.push(chunk);
    return digest;
}

test "order and cuts do not matter, rows do" {
    const there: [4]i64 align(16) = .{ 1, 2, 3, 2 };
    const back: [4]i64 align(16) = .{ 2, 3, 2, 1 };
    const other: [4]i64 align(16) = .{ 2, 3, 3, 1 };
    const whole = try digest_of(&.{.{ .row_count = 4, .columns = &.{column_of(&there)} }});
    try testing.expectEqual(whole, try digest_of(&.{.{ .row_count = 4, .columns = &.{column_of(&back)} }}));
    const first: [1]i64 align(16) = .{3};
    const rest: [3]i64 align(16) = .{ 2, 1, 2 };
    const cut = try digest_of(&.{
        .{ .row_count = 1, .columns = &.{column_of(&first)} },
        .{ .row_count = 3, .columns = &.{column_of(&rest)} },
    });
    try testing.expectEqual(whole, cut);
    const changed = try digest_of(&.{.{ .row_count = 4, .columns = &.{column_of(&other)} }});
    try testing.expect(whole.sum != changed.sum and whole.mixed_sum != changed.mixed_sum);
}

test "which value stands in which column matters" {
    const one: [2]i64 align(16) = .{ 1, 2 };
    const two: [2]i64 align(16) = .{ 3, 4 };
    const a = try digest_of(&.{.{ .row_count = 2, .columns = &.{ column_of(&one), column_of(&two) } }});
    const b = try digest_of(&.{.{ .row_count = 2, .columns = &.{ column_of(&two), column_of(&one) } }});
    try testing.expect(a.sum != b.sum);
}

test "only selected rows count, over several blocks" {
    var values: [3000]i64 align(16) = undefined;
    for (&values, 0..) |*value, i| value.* = @intCast(i);
    var bits: [375]u8 = @splat(0b0101_0101);
    const selected = try digest_of(&.{.{
        .row_count = 3000,
        .columns = &.{column_of(&values)},
        .selection = .{ .bits = &bits, .count = 1500 },
    }});
    var even: [1500]i64 align(16) = undefined;
    for (&even, 0..) |*value, i| value.* = @intCast(2 * i);
    try testing.expectEqual(try digest_of(&.{.{ .row_count = 1500, .columns = &.{column_of(&even)} }}), selected);
}

test "rows without columns are counted" {
    const digest = try digest_of(&.{.{ .row_count = 5, .columns = &.{} }});
    try testing.expectEqual(5, digest.row_count);
    try testing.expect(digest.sum != (try digest_of(&.{.{ .row_count = 4, .columns = &.{} }})).sum);
}

test "finish" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const digest: Digest = .{ .sum = 1, .mixed_sum = 2, .row_count = 3 };
    for (try digest.finish(arena.allocator()), 1..) |column, i| try testing.expectEqual(i, column.values(u64)[0]);
}
