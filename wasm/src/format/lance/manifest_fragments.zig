//! The fragments that a manifest lists, by column, and the pieces that their rows are scanned in.
//!
//! A piece is 16,384 × n consecutive rows of a fragment, deleted ones among them: about 4 MiB of its files, as far as
//! their sizes are known.
const std = @import("std");
const abi = @import("../../abi.zig");
const manifest = @import("manifest.zig");
const protobuf = @import("protobuf.zig");
const Error = manifest.Error;
const Message = protobuf.Message;
const Text = manifest.Text;
const no_base = manifest.no_base;
const unknown = manifest.unknown;
const unsupported = manifest.unsupported;

pub const Fragment = struct {
    id: u64 = 0,
    rows: u64 = unknown,
    /// Bytes of its files; 0 where that is not known.
    size: u64 = 0,
    deleted: u64 = unknown,
    deletion_kind: abi.RowList = .none,
    deletion_version: u64 = 0,
    deletion_id: u64 = 0,
    deletion_base: u32 = no_base,
    row_ids: Text = .{},
    first_file: u32,

    pub fn read_deletion(self: *Fragment, message: Message) Error!void {
        var fields = message;
        self.deletion_kind = .arrow;
        while (try fields.next()) |field| switch (field.number) {
            1 => self.deletion_kind = switch (try field.int(u64)) {
                0 => .arrow,
                1 => .roaring,
                else => return unsupported("this kind of deletion files"),
            },
            2 => self.deletion_version = try field.int(u64),
            3 => self.deletion_id = try field.int(u64),
            4 => self.deleted = try field.int(u64),
            7 => self.deletion_base = try field.int(u32),
            else => {},
        };
    }
};

/// By fragment.
pub const Fragments = struct {
    id: std.ArrayList(u64) = .empty,
    rows: std.ArrayList(u64) = .empty,
    size: std.ArrayList(u64) = .empty,
    deleted: std.ArrayList(u64) = .empty,
    first_file: std.ArrayList(u32) = .empty,
    deletion_kind: std.ArrayList(u8) = .empty,
    deletion_version: std.ArrayList(u64) = .empty,
    deletion_id: std.ArrayList(u64) = .empty,
    deletion_base: std.ArrayList(u32) = .empty,
    row_ids: std.ArrayList(Text) = .empty,
    has_deletions: bool = false,
    has_row_ids: bool = false,
    piece_rows: std.ArrayList(u32) = .empty,
    first_piece: std.ArrayList(u64) = .empty,
    piece_counts: std.ArrayList(u64) = .empty,

    pub fn reserve(self: *Fragments, arena: std.mem.Allocator, count: usize) Error!void {
        inline for (.{ "id", "rows", "size", "deleted", "piece_rows" }) |name|
            try @field(self, name).ensureTotalCapacityPrecise(arena, count);
        inline for (.{ "deletion_kind", "deletion_version", "deletion_id", "deletion_base", "row_ids" }) |name|
            try @field(self, name).ensureTotalCapacityPrecise(arena, count);
        try self.first_file.ensureTotalCapacityPrecise(arena, count + 1);
        try self.first_piece.ensureTotalCapacityPrecise(arena, count + 1);
    }

    pub fn append(self: *Fragments, fragment: *const Fragment) void {
        inline for (.{ "id", "rows", "size", "deleted", "first_file" }) |name|
            @field(self, name).appendAssumeCapacity(@field(fragment, name));
        self.deletion_kind.appendAssumeCapacity(@intCast(@backingInt(fragment.deletion_kind)));
        inline for (.{ "deletion_version", "deletion_id", "deletion_base", "row_ids" }) |name|
            @field(self, name).appendAssumeCapacity(@field(fragment, name));
        self.has_deletions = self.has_deletions or fragment.deletion_kind != .none;
        self.has_row_ids = self.has_row_ids or fragment.row_ids.size > 0;
    }

    /// A manifest may claim more rows than any file can have: pieces grow until there are not many more than
    /// fragments.
    pub fn cut(self: *Fragments, arena: std.mem.Allocator) Error!void {
        @setRuntimeSafety(true);
        const piece_count_max = 2 * @as(u64, self.rows.items.len) + (1 << 20);
        const scale: u32, const total: u64 = for (0..18) |shift| {
            const scale = @as(u32, 1) << @intCast(shift);
            var total: u64 = 0;
            for (self.rows.items, self.size.items) |rows, size| total += count_pieces(rows, size, scale);
            if (total <= piece_count_max) break .{ scale, total };
        } else unreachable; // the largest pieces hold every row of a fragment
        try self.piece_counts.ensureTotalCapacityPrecise(arena, @intCast(total));
        for (self.rows.items, self.size.items) |rows, size| {
            const rows_max = rows_of_pieces(rows, size, scale);
            self.piece_rows.appendAssumeCapacity(rows_max);
            self.first_piece.appendAssumeCapacity(self.piece_counts.items.len);
            const piece_count = count_pieces(rows, size, scale);
            for (0..@intCast(piece_count)) |i| {
                const first = i * @as(u64, rows_max);
                self.piece_counts.appendAssumeCapacity(@min(rows - first, rows_max));
            }
        }
        self.first_piece.appendAssumeCapacity(self.piece_counts.items.len);
    }
};

const piece_unit = 16_384;
const piece_size = 4 << 20;
/// Of pieces whose rows take few bytes: more would leave too few pieces for all workers.
const piece_units_max = 16;
/// Where nothing is known of their size.
const piece_units_default = 4;

pub fn rows_of_pieces(rows: u64, size: u64, scale: u32) u32 {
    if (rows == unknown) return piece_unit * piece_units_default;
    var units: u64 = piece_units_default;
    if (size > 0) units = std.math.clamp(rows *| piece_size / size / piece_unit, 1, piece_units_max);
    return @intCast(@min(units * piece_unit * scale, 1 << 31));
}

fn count_pieces(rows: u64, size: u64, scale: u32) u64 {
    if (rows == unknown) return 0;
    return std.math.divCeil(u64, rows, rows_of_pieces(rows, size, scale)) catch unreachable; // never 0
}

test rows_of_pieces {
    const expect = std.testing.expectEqual;
    try expect(65_536, rows_of_pieces(1000, 0, 1));
    try expect(16_384, rows_of_pieces(1_000_000, 600_000_000, 1));
    try expect(16_384 * 6, rows_of_pieces(1_000_000, 40_000_000, 1));
    try expect(16_384 * 16, rows_of_pieces(1_000_000, 1000, 1));
    try expect(16_384 * 64, rows_of_pieces(1_000_000, 1000, 4));
    try expect(1 << 31, rows_of_pieces(1 << 32, 1, 1 << 17));
    try expect(65_536, rows_of_pieces(unknown, 1000, 1));
    try expect(2, count_pieces(65_537, 0, 1));
    try expect(0, count_pieces(0, 0, 1));
}
