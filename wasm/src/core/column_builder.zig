//! Collects rows of other columns into one column of its own: results, group keys, rows to sort.
//!
//! Buffers grow by doubling and are kept by `reset`, so a builder that is emptied again and again
//! touches fresh memory once. Validity appears with the first NULL.
//!
//! Decoders fill a builder in two steps: values that are there are put behind the rows, side by side
//! (`grow_dense…`), and `settle` then moves them to the rows whose validity bits are set.
const std = @import("std");
const bitmap = @import("bitmap.zig");
const column_module = @import("column.zig");
const schema = @import("schema.zig");
const spread = @import("spread.zig");
const take = @import("take.zig");
const Arena = @import("arena.zig").Arena;
const Column = column_module.Column;
const DataType = schema.DataType;
const assert = std.debug.assert;

pub const Error = error{ OutOfMemory, TooLarge };

const Bytes = std.array_list.Aligned(u8, .fromByteUnits(column_module.alignment));

/// Decoders store whole vectors.
const dense_slack = 64;

comptime {
    assert(dense_slack >= take.compress_slack);
}

pub const ColumnBuilder = struct {
    gpa: std.mem.Allocator,
    type: DataType,
    row_count: u32 = 0,
    /// Values behind the last row that wait for `settle`.
    dense_count: u32 = 0,
    validity: ?std.ArrayList(u8) = null,
    data: Bytes = .empty,
    offsets: std.ArrayList(u32) = .empty,
    children: []ColumnBuilder = &.{},

    pub fn init(gpa: std.mem.Allocator, data_type: DataType) Error!ColumnBuilder {
        var self: ColumnBuilder = .{ .gpa = gpa, .type = data_type };
        errdefer self.deinit();
        switch (data_type.layout()) {
            .bytes => try self.offsets.append(gpa, 0),
            .list => {
                try self.offsets.append(gpa, 0);
                const child = if (data_type.tag == .map)
                    column_module.map_entries_type(data_type)
                else
                    data_type.children[0].type;
                try self.add_children(&.{.{ .name = "", .type = child }});
            },
            .structure => try self.add_children(data_type.children),
            else => {},
        }
        return self;
    }

    fn add_children(self: *ColumnBuilder, fields: []const schema.Field) Error!void {
        const children = try self.gpa.alloc(ColumnBuilder, fields.len);
        for (children, fields) |*child, field| child.* = .{ .gpa = self.gpa, .type = field.type };
        self.children = children;
        for (children, fields) |*child, field| child.* = try init(self.gpa, field.type);
    }

    pub fn deinit(self: *ColumnBuilder) void {
        if (self.validity) |*bits| bits.deinit(self.gpa);
        self.data.deinit(self.gpa);
        self.offsets.deinit(self.gpa);
        for (self.children) |*child| child.deinit();
        self.gpa.free(self.children);
        self.* = undefined;
    }

    /// Forgets the rows, keeps the memory.
    pub fn reset(self: *ColumnBuilder) void {
        self.row_count = 0;
        self.dense_count = 0;
        if (self.validity) |*bits| bits.deinit(self.gpa);
        self.validity = null;
        self.data.clearRetainingCapacity();
        if (self.offsets.items.len > 0) self.offsets.shrinkRetainingCapacity(1);
        for (self.children) |*child| child.reset();
    }

    /// What has been collected. Valid until the builder changes.
    pub fn finish(self: *const ColumnBuilder, arena: std.mem.Allocator) error{OutOfMemory}!Column {
        const children = try arena.alloc(Column, self.children.len);
        for (children, self.children) |*to, *from| to.* = try from.finish(arena);
        return .{
            .type = self.type,
            .row_count = self.row_count,
            .validity = if (self.validity) |bits| bits.items else null,
            .data = self.data.items,
            .offsets = self.offsets.items,
            .children = children,
        };
    }

    pub fn memory_size(self: *const ColumnBuilder) u64 {
        var total: u64 = self.data.items.len + self.offsets.items.len * 4;
        for (self.children) |*child| total += child.memory_size();
        return total;
    }

    /// Room for exactly the rows of a column, where nothing is collected yet.
    pub fn reserve(self: *ColumnBuilder, column: *const Column) Error!void {
        return self.reserve_range(column, 0, column.row_count);
    }

    /// The same for some of its rows.
    pub fn reserve_range(self: *ColumnBuilder, column: *const Column, start: u32, count: u32) Error!void {
        assert(start + count <= column.row_count);
        switch (self.type.layout()) {
            .none, .structure => {},
            .bytes, .list => {
                try self.offsets.ensureTotalCapacityPrecise(self.gpa, @as(usize, count) + 1);
                if (self.type.layout() == .bytes and count > 0) {
                    try self.data.ensureTotalCapacityPrecise(
                        self.gpa,
                        column.offsets[start + count] - column.offsets[start],
                    );
                }
            },
            .bits => try self.data.ensureTotalCapacityPrecise(self.gpa, bitmap.size(count)),
            else => {
                const size = std.math.cast(usize, self.type.value_size() * count) orelse return error.TooLarge;
                try self.data.ensureTotalCapacityPrecise(self.gpa, size);
            },
        }
    }

    /// Room for about what another one holds, so that nothing moves while it fills.
    pub fn reserve_like(self: *ColumnBuilder, other: *const ColumnBuilder) Error!void {
        const data = other.data.items.len;
        const offsets = other.offsets.items.len;
        try self.data.ensureTotalCapacityPrecise(self.gpa, data + data / 16 + dense_slack);
        if (offsets > 0)
            try self.offsets.ensureTotalCapacityPrecise(self.gpa, offsets + offsets / 16 + dense_slack / 4);
        for (self.children, other.children) |*child, *full| try child.reserve_like(full);
    }

    fn check_room(self: *const ColumnBuilder, count: usize) Error!void {
        if (count > std.math.maxInt(u32) - self.row_count) return error.TooLarge;
    }

    /// Makes room for `count` more validity bits, valid by default; null when none is needed yet.
    fn grow_validity(self: *ColumnBuilder, count: usize, needed: bool) Error!?[]u8 {
        return self.extend_validity(self.row_count, count, needed);
    }

    /// The same for rows from `first` on, which need not be settled yet.
    pub fn extend_validity(self: *ColumnBuilder, first: u32, count: usize, needed: bool) Error!?[]u8 {
        if (self.validity == null) {
            if (!needed) return null;
            var bits: std.ArrayList(u8) = .empty;
            try bits.ensureTotalCapacity(self.gpa, bitmap.size(@as(u64, first) + count) + dense_slack);
            bits.items.len = bitmap.size(first);
            @memset(bits.items, 0xFF);
            self.validity = bits;
        }
        const bits = &self.validity.?;
        const size = bitmap.size(@as(u64, first) + count);
        try bits.ensureTotalCapacity(self.gpa, size + dense_slack);
        bits.items.len = size;
        bitmap.fill_range(bits.items, first, count, true);
        return bits.items;
    }

    pub fn append_nulls(self: *ColumnBuilder, count: u32) Error!void {
        try self.check_room(count);
        if (self.type.tag != .null and count > 0) {
            const bits = (try self.grow_validity(count, true)).?;
            bitmap.fill_range(bits, self.row_count, count, false);
        }
        switch (self.type.layout()) {
            .none => {},
            .bits => try self.grow_bits(count),
            .bytes, .list => try self.offsets.appendNTimes(self.gpa, self.offsets.getLast(), count),
            .structure => for (self.children) |*child| try child.append_nulls(count),
            else => @memset(try self.grow_data(self.type.value_size() * count), 0),
        }
        self.row_count += count;
    }

    fn grow_data(self: *ColumnBuilder, size: u64) Error![]u8 {
        return self.data.addManyAsSlice(self.gpa, std.math.cast(usize, size) orelse return error.TooLarge);
    }

    fn grow_bits(self: *ColumnBuilder, count: usize) Error!void {
        const before = self.data.items.len;
        try self.data.resize(self.gpa, bitmap.size(@as(u64, self.row_count) + count));
        @memset(self.data.items[before..], 0);
    }

    // ---- values first, rows later ----

    /// Room for `size` bytes of values behind what is there; writable `dense_slack` bytes further.
    pub fn grow_dense(self: *ColumnBuilder, size: u64) Error![]u8 {
        const before = self.data.items.len;
        const wanted = std.math.cast(usize, size + dense_slack) orelse return error.TooLarge;
        try self.data.ensureUnusedCapacity(self.gpa, wanted);
        self.data.items.len += @intCast(size);
        return self.data.items[before..];
    }

    /// Room for the ends of `count` values, with the end of the one before them in front.
    pub fn grow_dense_offsets(self: *ColumnBuilder, count: u32) Error![]u32 {
        const before = self.offsets.items.len;
        try self.offsets.ensureUnusedCapacity(self.gpa, @as(usize, count) + dense_slack / 4);
        self.offsets.items.len += count;
        return self.offsets.items[before - 1 ..];
    }

    /// Room for `count` bits behind the rows and the dense values; returns all bits of the column.
    pub fn grow_dense_bits(self: *ColumnBuilder, count: u32) Error![]u8 {
        const before = self.data.items.len;
        const size = bitmap.size(@as(u64, self.row_count) + self.dense_count + count);
        try self.data.ensureTotalCapacity(self.gpa, size + dense_slack);
        self.data.items.len = size;
        @memset(self.data.items[before..], 0);
        return self.data.items;
    }

    /// Chosen values of a column without NULLs, behind the dense ones.
    pub fn append_dense(self: *ColumnBuilder, column: *const Column, indices: []const u32) Error!void {
        switch (self.type.layout()) {
            .none => {},
            .bits => {
                const first = self.row_count + self.dense_count;
                take.take_bits(try self.grow_dense_bits(@intCast(indices.len)), first, column.data, indices);
            },
            .bytes => try self.append_bytes_indices(column, indices),
            .list, .structure => unreachable,
            else => try self.append_fixed_indices(column, indices),
        }
        self.dense_count += @intCast(indices.len);
    }

    /// Makes `count` rows of the dense values: all of them valid, or those whose bits are set in
    /// `validity`, which `grow_validity` has made room for.
    pub fn settle(self: *ColumnBuilder, count: u32) Error!void {
        const dense = self.dense_count;
        const first = self.row_count;
        assert(dense <= count);
        self.dense_count = 0;
        self.row_count += count;
        if (dense == count) return;
        const bits = try self.bits_from(first, count);
        defer if (first % 8 != 0) self.gpa.free(bits);
        switch (self.type.layout()) {
            .none => {},
            .list, .structure => unreachable, // built by their own rules
            .bits => try self.settle_bits(first, dense, bits, count),
            .bytes => {
                _ = try self.grow_dense_offsets(count - dense);
                spread.spread_offsets(self.offsets.items[first..], dense, bits, count);
            },
            else => try self.settle_fixed(first, dense, bits, count),
        }
    }

    /// Validity from row `first` on, moved to bit 0 where it does not begin there.
    fn bits_from(self: *ColumnBuilder, first: u32, count: u32) Error![]u8 {
        const source = self.validity.?.items;
        if (first % 8 == 0) return source[first / 8 ..];
        const bits = try self.gpa.alloc(u8, bitmap.size(count) + dense_slack);
        bitmap.copy(bits, 0, source, first, count);
        return bits;
    }

    fn settle_bits(self: *ColumnBuilder, first: u32, dense: u32, bits: []const u8, count: u32) Error!void {
        const size = bitmap.size(@as(u64, first) + count);
        try self.data.ensureTotalCapacity(self.gpa, size + dense_slack);
        self.data.items.len = size;
        const values = try self.gpa.alloc(u8, bitmap.size(count) + dense_slack);
        defer self.gpa.free(values);
        bitmap.copy(values, 0, self.data.items, first, dense);
        spread.spread_bits(values, dense, bits, count);
        bitmap.copy(self.data.items, first, values, 0, count);
    }

    fn settle_fixed(self: *ColumnBuilder, first: u32, dense: u32, bits: []const u8, count: u32) Error!void {
        const size: usize = @intCast(self.type.value_size());
        _ = try self.grow_dense(@as(u64, size) * (count - dense));
        const target = self.data.items[first * size ..];
        switch (size) {
            inline 1, 2, 4, 8, 16 => |width| {
                const T = @Int(.unsigned, width * 8);
                const values: []T = @as([*]T, @ptrCast(@alignCast(target.ptr)))[0..count];
                spread.spread(T, values, dense, bits, count);
            },
            else => spread.spread_fixed(@intCast(size), target, dense, bits, count),
        }
    }

    pub fn append_range(self: *ColumnBuilder, column: *const Column, start: u32, count: u32) Error!void {
        assert(start + count <= column.row_count);
        try self.check_room(count);
        if (try self.grow_validity(count, column.validity != null)) |bits| {
            if (column.validity) |source| bitmap.copy(bits, self.row_count, source, start, count);
        }
        switch (self.type.layout()) {
            .none => {},
            .bits => {
                try self.grow_bits(count);
                bitmap.copy(self.data.items, self.row_count, column.data, start, count);
            },
            .bytes => try self.append_bytes_range(column, start, count),
            .list => {
                const first = column.offsets[start];
                try self.append_offsets(column.offsets[start..][0 .. count + 1]);
                try self.children[0].append_range(&column.children[0], first, column.offsets[start + count] - first);
            },
            .structure => for (self.children, column.children) |*child, *source|
                try child.append_range(source, start, count),
            else => {
                const size: usize = @intCast(self.type.value_size());
                const target = try self.grow_data(@as(u64, size) * count);
                @memcpy(target, column.data[start * size ..][0..target.len]);
            },
        }
        self.row_count += count;
    }

    fn append_bytes_range(self: *ColumnBuilder, column: *const Column, start: u32, count: u32) Error!void {
        const offsets = column.offsets[start..][0 .. count + 1];
        const source = column.data[offsets[0]..offsets[count]];
        if (source.len > std.math.maxInt(u32) - self.data.items.len) return error.TooLarge;
        try self.append_offsets(offsets);
        try self.data.appendSlice(self.gpa, source);
    }

    /// Appends the ends of `offsets` moved to behind what is here. For lists the child follows.
    fn append_offsets(self: *ColumnBuilder, offsets: []const u32) Error!void {
        const base = self.offsets.getLast();
        const first = offsets[0];
        if (offsets[offsets.len - 1] - first > std.math.maxInt(u32) - base) return error.TooLarge;
        const ends = try self.offsets.addManyAsSlice(self.gpa, offsets.len - 1);
        for (ends, offsets[1..]) |*to, from| to.* = from - first + base;
    }

    pub fn append_indices(self: *ColumnBuilder, column: *const Column, indices: []const u32) Error!void {
        try self.check_room(indices.len);
        if (try self.grow_validity(indices.len, column.validity != null)) |bits| {
            if (column.validity) |source| take.take_bits(bits, self.row_count, source, indices);
        }
        switch (self.type.layout()) {
            .none => {},
            .bits => {
                try self.grow_bits(indices.len);
                take.take_bits(self.data.items, self.row_count, column.data, indices);
            },
            .bytes => if (column.coded) |coded| {
                const codes = try self.gpa.alloc(u32, indices.len);
                defer self.gpa.free(codes);
                for (codes, indices) |*code, index| code.* = coded.codes[index];
                try self.append_bytes_indices(&coded.dictionary, codes);
            } else try self.append_bytes_indices(column, indices),
            .list => for (indices) |index| {
                const first = column.offsets[index];
                try self.append_offsets(column.offsets[index..][0..2]);
                try self.children[0].append_range(&column.children[0], first, column.offsets[index + 1] - first);
            },
            .structure => for (self.children, column.children) |*child, *source|
                try child.append_indices(source, indices),
            else => try self.append_fixed_indices(column, indices),
        }
        self.row_count += @intCast(indices.len);
    }

    /// The rows that a filter left.
    pub fn append_selected(self: *ColumnBuilder, column: *const Column, selected: *Selected) Error!void {
        const is_fixed = switch (self.type.layout()) {
            .none, .bits, .bytes, .list, .structure, .fixed => false,
            else => column.validity == null and self.validity == null,
        };
        if (is_fixed and selected.is_dense()) switch (self.type.value_size()) {
            inline 4, 8 => |width| {
                const T = @Int(.unsigned, width * 8);
                try self.check_room(selected.count);
                const target = try self.grow_dense(@as(u64, width) * selected.count);
                const written = take.compress(
                    T,
                    @ptrCast(@alignCast(target.ptr)),
                    column.values(T)[0..selected.row_count],
                    selected.bits,
                );
                assert(written == selected.count);
                self.row_count += selected.count;
                return;
            },
            else => {},
        };
        return self.append_indices(column, try selected.rows());
    }

    /// `count` more rows without NULLs, of values of fixed size that the caller writes.
    pub fn grow_rows(self: *ColumnBuilder, count: u32) Error![]u8 {
        try self.check_room(count);
        _ = try self.grow_validity(count, false);
        const target = try self.grow_data(self.type.value_size() * count);
        self.row_count += count;
        return target;
    }

    fn append_fixed_indices(self: *ColumnBuilder, column: *const Column, indices: []const u32) Error!void {
        if (indices.len == 0) return; // an empty slice may lie anywhere
        const size: usize = @intCast(self.type.value_size());
        const target = try self.grow_data(@as(u64, size) * indices.len);
        switch (size) {
            inline 1, 2, 4, 8, 16 => |width| {
                const T = @Int(.unsigned, width * 8);
                const values: []T = @as([*]T, @ptrCast(@alignCast(target.ptr)))[0..indices.len];
                take.take_values(T, values, column.values(T), indices);
            },
            else => take.take_fixed(size, target, column.data, indices),
        }
    }

    fn append_bytes_indices(self: *ColumnBuilder, column: *const Column, indices: []const u32) Error!void {
        const size = take.bytes_size(column.offsets, indices);
        const base = self.data.items.len;
        if (size > std.math.maxInt(u32) - take.bytes_slack - base) return error.TooLarge;
        try self.data.ensureUnusedCapacity(self.gpa, @as(usize, @intCast(size)) + take.bytes_slack);
        const ends = try self.offsets.addManyAsSlice(self.gpa, indices.len);
        const target = self.data.unusedCapacitySlice()[0 .. @as(usize, @intCast(size)) + take.bytes_slack];
        take.take_bytes(target, ends, @intCast(base), column.offsets, column.data, indices);
        self.data.items.len = base + @as(usize, @intCast(size));
    }
};

/// Rows of a chunk, by their bits. Their numbers are written down when somebody asks for them.
pub const Selected = struct {
    arena: std.mem.Allocator,
    bits: []const u8,
    row_count: u32,
    count: u32,
    numbers: ?[]const u32 = null,

    /// So many stay that going through all of them is the faster way.
    fn is_dense(self: *const Selected) bool {
        return self.count >= self.row_count / 4;
    }

    pub fn rows(self: *Selected) Error![]const u32 {
        if (self.numbers) |numbers| return numbers;
        const numbers = try self.arena.alloc(u32, self.count);
        const found = bitmap.indices(self.bits, self.row_count, numbers);
        assert(found == self.count);
        self.numbers = numbers;
        return numbers;
    }
};

/// The rows of a column that a filter left, in the arena of the selection.
pub fn take_selected(column: *const Column, selected: *Selected) Error!Column {
    var builder: ColumnBuilder = try .init(selected.arena, column.type);
    try builder.append_selected(column, selected);
    return builder.finish(selected.arena);
}

/// Chosen rows of a column, in `arena`.
pub fn take_rows(arena: std.mem.Allocator, column: *const Column, indices: []const u32) Error!Column {
    var builder: ColumnBuilder = try .init(arena, column.type);
    try builder.append_indices(column, indices);
    return builder.finish(arena);
}

fn expect_rows(builder: *const ColumnBuilder, expected: []const ?[]const u8) !void {
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    const column = try builder.finish(arena.allocator());
    try std.testing.expectEqual(expected.len, column.row_count);
    for (expected, 0..) |wanted, row| {
        try std.testing.expectEqual(wanted != null, column.is_valid(row));
        if (wanted) |text| try std.testing.expectEqualStrings(text, column.bytes_at(row));
    }
}

test "byte columns keep rows and NULLs over every way of appending" {
    const aligned: [11]u8 align(16) = "onetwothree".*;
    const source: Column = .{
        .type = .of(.utf8),
        .row_count = 4,
        .validity = &.{0b1011},
        .data = &aligned,
        .offsets = &.{ 0, 3, 6, 6, 11 },
    };
    var builder: ColumnBuilder = try .init(std.testing.allocator, .of(.utf8));
    defer builder.deinit();
    try builder.append_range(&source, 0, 2);
    try builder.append_indices(&source, &.{ 3, 2, 0 });
    try builder.append_nulls(1);
    try builder.append_range(&source, 1, 3);
    try expect_rows(&builder, &.{ "one", "two", "three", null, "one", null, "two", null, "three" });
    builder.reset();
    try builder.append_range(&source, 3, 1);
    try expect_rows(&builder, &.{"three"});
}

test "lists and structures follow their parents" {
    const list_type: DataType = .{ .tag = .list, .children = &.{.{ .name = "item", .type = .of(.i32) }} };
    const structure: DataType = .{ .tag = .structure, .children = &.{
        .{ .name = "a", .type = list_type },
        .{ .name = "b", .type = .of(.bool) },
    } };
    const items: [4]i32 align(16) = .{ 1, 2, 3, 4 };
    const bits: [1]u8 align(16) = .{0b101};
    const children = [_]Column{
        .{ .type = list_type, .row_count = 3, .offsets = &.{ 0, 2, 2, 4 }, .children = &.{
            .{ .type = .of(.i32), .row_count = 4, .data = std.mem.sliceAsBytes(&items) },
        } },
        .{ .type = .of(.bool), .row_count = 3, .data = &bits },
    };
    const source: Column = .{ .type = structure, .row_count = 3, .children = &children };
    var builder: ColumnBuilder = try .init(std.testing.allocator, structure);
    defer builder.deinit();
    try builder.append_indices(&source, &.{ 2, 0 });
    try builder.append_range(&source, 1, 2);
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    const column = try builder.finish(arena.allocator());
    try std.testing.expectEqualSlices(u32, &.{ 0, 2, 4, 4, 6 }, column.children[0].offsets);
    try std.testing.expectEqualSlices(i32, &.{ 3, 4, 1, 2, 3, 4 }, column.children[0].children[0].values(i32));
    try std.testing.expectEqual(0b1011, column.children[1].data[0]);
}
