//! A column of values in memory, and a batch of columns.
//!
//! Buffers are borrowed: whoever made them keeps them alive. Every data buffer starts on a 16-byte
//! boundary. Validity is Arrow's way round (bit set = valid); QMCB turns it on the way out.
const std = @import("std");
const bitmap = @import("bitmap.zig");
const schema = @import("schema.zig");
const DataType = schema.DataType;
const assert = std.debug.assert;

pub const alignment = 16;

pub const Coded = struct {
    /// The entry of every row; of a NULL any one.
    codes: []const u32,
    /// Entries without NULLs, one at least.
    dictionary: Column,
    /// No other dictionary has it.
    id: u64,
};

pub const Column = struct {
    type: DataType,
    row_count: u32,
    /// null: no value is NULL. Otherwise at least bitmap.size(row_count) bytes, first row at bit 0.
    validity: ?[]const u8 = null,
    /// Values of fixed size, packed bits of a bool, or the bytes of utf8 and binary.
    data: []align(alignment) const u8 = &.{},
    /// utf8, binary, list, map: row_count + 1, never falling, the last within data (or the child's
    /// row count). The first is 0, except in a `view`, which keeps its parent's data whole.
    offsets: []const u32 = &.{},
    /// list: one; structure: its fields; map: one structure of key and value.
    children: []const Column = &.{},
    /// Texts that are known by their places in a dictionary, and then have neither data nor offsets. Only
    /// what takes keys of groups gets such columns (plan/demand.zig, `mark_keys`).
    coded: ?*const Coded = null,

    /// The values as a slice of `T`. The caller has switched on the layout.
    pub fn values(self: *const Column, comptime T: type) []const T {
        comptime assert(@alignOf(T) <= alignment);
        const pointer: [*]const T = @ptrCast(@alignCast(self.data.ptr));
        return pointer[0..self.row_count];
    }

    pub fn is_valid(self: *const Column, row: usize) bool {
        if (self.type.tag == .null) return false;
        const bits = self.validity orelse return true;
        return bitmap.get(bits.ptr, row);
    }

    pub fn null_count(self: *const Column) u32 {
        if (self.type.tag == .null) return self.row_count;
        const bits = self.validity orelse return 0;
        return self.row_count - @as(u32, @intCast(bitmap.count(bits, self.row_count)));
    }

    /// Whether a bitmap has to say which of the first `rows` are NULL: it may well have every bit set.
    pub fn needs_bitmap(self: *const Column, rows: u32) bool {
        if (self.type.tag == .null) return false;
        const bits = self.validity orelse return false;
        return !bitmap.all_set(bits, rows);
    }

    /// utf8 and binary: the bytes of one value.
    pub fn bytes_at(self: *const Column, row: usize) []const u8 {
        return self.data[self.offsets[row]..self.offsets[row + 1]];
    }

    /// Rows `start` to `start + count` without a copy. A start that is a multiple of 16 keeps every
    /// buffer aligned and every bitmap at bit 0.
    pub fn view(self: *const Column, arena: std.mem.Allocator, start: u32, count: u32) error{OutOfMemory}!Column {
        assert(start % 16 == 0 and start + count <= self.row_count);
        var part = self.*;
        part.row_count = count;
        if (self.validity) |bits| part.validity = bits[start / 8 ..][0..bitmap.size(count)];
        switch (self.type.layout()) {
            .none => {},
            .bits => part.data = @alignCast(self.data[start / 8 ..][0..bitmap.size(count)]),
            .bytes, .list => part.offsets = self.offsets[start..][0 .. count + 1],
            .structure => {
                const children = try arena.alloc(Column, self.children.len);
                for (children, self.children) |*to, *from| to.* = try from.view(arena, start, count);
                part.children = children;
            },
            else => {
                const size: usize = @intCast(self.type.value_size());
                part.data = @alignCast(self.data[start * size ..][0 .. count * size]);
            },
        }
        return part;
    }

    /// Bytes this column and its children take; what a budget counts.
    pub fn memory_size(self: *const Column) u64 {
        var total: u64 = self.data.len + @as(u64, self.offsets.len) * 4;
        if (self.validity) |bits| total += bits.len;
        for (self.children) |*child| total += child.memory_size();
        return total;
    }
};

pub const Batch = struct {
    row_count: u32,
    columns: []const Column,
};

/// The child of a map is always a structure of its two fields; types keep the two directly.
pub fn map_entries_type(map: DataType) DataType {
    assert(map.tag == .map and map.children.len == 2);
    return .{ .tag = .structure, .children = map.children };
}
