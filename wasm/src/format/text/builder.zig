//! Typed column buffers that grow value by value and become a `Column`.
//!
//! One `Builder` per column, children below it for lists and structures. Values are appended in row
//! order; `finish` gives a `Column` that borrows the buffers until the next `append_*`, `clear` or
//! `deinit`. `clear` keeps the memory, so a reader that makes many batches allocates only for its
//! largest.
//!
//! Invariants: data starts on a 16-byte boundary and `padding` bytes behind it are ours; offsets are
//! row_count + 1 and start at 0 once a row was appended; validity exists from the first NULL on and
//! then covers every row; a structure's children have its row count between two appends, a list's
//! child has as many rows as its last offset says.
const std = @import("std");
const abi = @import("../../abi.zig");
const bitmap = @import("../../core/bitmap.zig");
const column_module = @import("../../core/column.zig");
const schema = @import("../../core/schema.zig");
const infer = @import("infer.zig");
const Arena = @import("../../core/arena.zig").Arena;
const Cursor = @import("../../core/cursor.zig").Cursor;
const Column = column_module.Column;
const DataType = schema.DataType;
const Field = schema.Field;
const Allocator = std.mem.Allocator;
const assert = std.debug.assert;

pub const Error = error{ OutOfMemory, TooLarge };

/// What may be read past the end of a buffer, as with the host's own buffers.
const padding = 64;
const Data = std.array_list.Aligned(u8, .@"16");

/// A batch ends at this many rows, or once its columns hold about this many bytes.
pub const batch_row_count_max = 65_536;
pub const batch_size_max = 8 * 1024 * 1024;

pub const Builder = struct {
    type: DataType,
    row_count: u32 = 0,
    has_null: bool = false,
    validity: std.ArrayList(u8) = .empty,
    data: Data = .empty,
    offsets: std.ArrayList(u32) = .empty,
    /// list: one; structure: its fields.
    children: []Builder = &.{},
    /// Where `finish` puts the children's columns.
    child_columns: []Column = &.{},

    /// `arena` outlives the builder. The type is `is_supported`.
    pub fn init(arena: Allocator, data_type: DataType) error{OutOfMemory}!Builder {
        assert(is_supported(data_type));
        var self: Builder = .{ .type = data_type };
        if (!data_type.is_nested()) return self;
        self.children = try arena.alloc(Builder, data_type.children.len);
        for (self.children, data_type.children) |*child, field| child.* = try .init(arena, field.type);
        self.child_columns = try arena.alloc(Column, data_type.children.len);
        return self;
    }

    pub fn deinit(self: *Builder, gpa: Allocator) void {
        self.validity.deinit(gpa);
        self.data.deinit(gpa);
        self.offsets.deinit(gpa);
        for (self.children) |*child| child.deinit(gpa);
        self.* = undefined;
    }

    /// Back to no rows, whatever state a failed append left; the memory stays.
    pub fn clear(self: *Builder) void {
        self.row_count = 0;
        self.has_null = false;
        self.validity.clearRetainingCapacity();
        self.data.clearRetainingCapacity();
        self.offsets.clearRetainingCapacity();
        for (self.children) |*child| child.clear();
    }

    /// Forgets the rows from `row_count` on.
    pub fn truncate(self: *Builder, row_count: u32) void {
        if (row_count >= self.row_count) return;
        self.row_count = row_count;
        if (self.has_null) self.validity.shrinkRetainingCapacity(bitmap.size(row_count));
        switch (self.type.layout()) {
            .none => {},
            .bits => self.data.shrinkRetainingCapacity(bitmap.size(row_count)),
            .bytes => {
                self.data.shrinkRetainingCapacity(self.offsets.items[row_count]);
                self.offsets.shrinkRetainingCapacity(row_count + 1);
            },
            .list => {
                self.children[0].truncate(self.offsets.items[row_count]);
                self.offsets.shrinkRetainingCapacity(row_count + 1);
            },
            .structure => for (self.children) |*child| child.truncate(row_count),
            else => self.data.shrinkRetainingCapacity(@intCast(row_count * self.type.value_size())),
        }
    }

    /// The same, whatever state an append left that broke off midway.
    pub fn rewind(self: *Builder, row_count: u32) void {
        self.row_count = row_count;
        if (self.has_null) shrink(&self.validity, bitmap.size(row_count));
        switch (self.type.layout()) {
            .none => {},
            .bits => shrink(&self.data, bitmap.size(row_count)),
            .bytes => {
                shrink(&self.offsets, row_count + 1);
                shrink(&self.data, if (row_count == 0) 0 else self.offsets.items[row_count]);
            },
            .list => {
                shrink(&self.offsets, row_count + 1);
                self.children[0].rewind(if (row_count == 0) 0 else self.offsets.items[row_count]);
            },
            .structure => for (self.children) |*child| child.rewind(row_count),
            else => shrink(&self.data, @intCast(row_count * self.type.value_size())),
        }
    }

    fn shrink(list: anytype, size: usize) void {
        if (size < list.items.len) list.shrinkRetainingCapacity(size);
    }

    /// Room for `row_count` further rows, where their size is known beforehand.
    pub fn reserve(self: *Builder, gpa: Allocator, row_count: u32) error{OutOfMemory}!void {
        switch (self.type.layout()) {
            .none => {},
            .bits => try self.reserve_data(gpa, bitmap.size(row_count) + 1),
            .bytes, .list => try self.offsets.ensureUnusedCapacity(gpa, row_count + 1),
            .structure => for (self.children) |*child| try child.reserve(gpa, row_count),
            else => try self.reserve_data(gpa, @intCast(row_count * self.type.value_size())),
        }
    }

    fn reserve_data(self: *Builder, gpa: Allocator, size: usize) error{OutOfMemory}!void {
        if (self.data.capacity - self.data.items.len >= size +| padding) return;
        try self.data.ensureUnusedCapacity(gpa, size +| padding);
    }

    pub fn append_null(self: *Builder, gpa: Allocator) Error!void {
        switch (self.type.layout()) {
            .none => {},
            .bits => try self.append_bit(gpa, false),
            .bytes => try self.append_offset(gpa, @intCast(self.data.items.len)),
            .list => try self.append_offset(gpa, self.children[0].row_count),
            .structure => for (self.children) |*child| try child.append_null(gpa),
            else => {
                const size: usize = @intCast(self.type.value_size());
                try self.reserve_data(gpa, size);
                self.data.appendNTimesAssumeCapacity(0, size);
            },
        }
        try self.end_row(gpa, false);
    }

    /// A value of fixed size: `T` is as wide as the layout says.
    pub inline fn append_value(self: *Builder, gpa: Allocator, comptime T: type, value: T) Error!void {
        assert(self.type.value_size() == @sizeOf(T));
        try self.reserve_data(gpa, @sizeOf(T));
        self.data.appendSliceAssumeCapacity(std.mem.asBytes(&value));
        try self.end_row(gpa, true);
    }

    pub fn append_bool(self: *Builder, gpa: Allocator, value: bool) Error!void {
        assert(self.type.layout() == .bits);
        try self.append_bit(gpa, value);
        try self.end_row(gpa, true);
    }

    pub fn append_bytes(self: *Builder, gpa: Allocator, bytes: []const u8) Error!void {
        try self.append_piece(gpa, bytes);
        try self.end_bytes(gpa);
    }

    /// Part of the value that `end_bytes` completes.
    pub fn append_piece(self: *Builder, gpa: Allocator, bytes: []const u8) Error!void {
        assert(self.type.layout() == .bytes);
        if (bytes.len > std.math.maxInt(u32) - self.data.items.len) return error.TooLarge;
        try self.reserve_data(gpa, bytes.len);
        self.data.appendSliceAssumeCapacity(bytes);
    }

    pub fn end_bytes(self: *Builder, gpa: Allocator) Error!void {
        assert(self.type.layout() == .bytes);
        try self.append_offset(gpa, @intCast(self.data.items.len));
        try self.end_row(gpa, true);
    }

    /// Completes a list whose values were appended to the child.
    pub fn end_list(self: *Builder, gpa: Allocator) Error!void {
        assert(self.type.layout() == .list);
        try self.append_offset(gpa, self.children[0].row_count);
        try self.end_row(gpa, true);
    }

    /// Completes a structure; fields that got no value become NULL.
    pub fn end_structure(self: *Builder, gpa: Allocator) Error!void {
        assert(self.type.layout() == .structure);
        for (self.children) |*child| {
            if (child.row_count == self.row_count) try child.append_null(gpa);
            assert(child.row_count == self.row_count + 1);
        }
        try self.end_row(gpa, true);
    }

    /// Reads the text as a value of this type. false when it is none; nothing was appended then.
    pub fn append_text(self: *Builder, gpa: Allocator, text: []const u8) Error!bool {
        switch (self.type.tag) {
            .utf8 => try self.append_bytes(gpa, text),
            .bool => try self.append_bool(gpa, infer.parse_bool(text) orelse return false),
            .decimal => if (self.type.layout() == .i64) {
                try self.append_value(gpa, i64, parse_value(.decimal, i64, self.type, text) orelse return false);
            } else {
                try self.append_value(gpa, i128, parse_value(.decimal, i128, self.type, text) orelse return false);
            },
            .null, .list, .structure => return false,
            .binary, .fixed_binary, .interval, .f32vec, .f16vec, .map => unreachable, // not supported
            inline else => |tag| {
                const T = @field(ValueType, @tagName(tag));
                try self.append_value(gpa, T, parse_value(tag, T, self.type, text) orelse return false);
            },
        }
        return true;
    }

    /// `count` rows with values that the caller sets, none of them NULL. Of a type of fixed size.
    pub fn extend(self: *Builder, gpa: Allocator, comptime T: type, count: u32) Error![]T {
        assert(self.type.value_size() == @sizeOf(T));
        if (count >= abi.row_count_max - self.row_count) return error.TooLarge;
        const size = @as(usize, count) * @sizeOf(T);
        try self.reserve_data(gpa, size);
        const target = self.data.addManyAsSliceAssumeCapacity(size);
        if (self.has_null) {
            try self.validity.resize(gpa, bitmap.size(@as(u64, self.row_count) + count));
            bitmap.fill_range(self.validity.items, self.row_count, count, true);
        }
        self.row_count += count;
        return @as([*]T, @ptrCast(@alignCast(target.ptr)))[0..count];
    }

    /// A row that is here already.
    pub fn mark_null(self: *Builder, gpa: Allocator, row: u32) Error!void {
        assert(row < self.row_count);
        if (!self.has_null) try self.begin_validity(gpa);
        bitmap.clear(self.validity.items.ptr, row);
    }

    fn append_bit(self: *Builder, gpa: Allocator, value: bool) Error!void {
        if (self.row_count & 7 == 0) {
            try self.reserve_data(gpa, 1);
            self.data.appendAssumeCapacity(0);
        }
        if (value)
            bitmap.set(self.data.items.ptr, self.row_count)
        else
            bitmap.clear(self.data.items.ptr, self.row_count);
    }

    fn append_offset(self: *Builder, gpa: Allocator, offset: u32) Error!void {
        if (self.offsets.items.len == 0) try self.offsets.append(gpa, 0);
        try self.offsets.append(gpa, offset);
    }

    inline fn end_row(self: *Builder, gpa: Allocator, valid: bool) Error!void {
        if (self.row_count == abi.row_count_max - 1) return error.TooLarge;
        // A null column says by its type that every value is NULL.
        if (!valid and !self.has_null and self.type.tag != .null) try self.begin_validity(gpa);
        if (self.has_null) try self.append_validity(gpa, valid);
        self.row_count += 1;
    }

    fn begin_validity(self: *Builder, gpa: Allocator) Error!void {
        self.has_null = true;
        try self.validity.resize(gpa, bitmap.size(self.row_count));
        @memset(self.validity.items, 0xFF);
    }

    fn append_validity(self: *Builder, gpa: Allocator, valid: bool) Error!void {
        if (self.row_count & 7 == 0) try self.validity.append(gpa, 0);
        if (valid)
            bitmap.set(self.validity.items.ptr, self.row_count)
        else
            bitmap.clear(self.validity.items.ptr, self.row_count);
    }

    /// Bytes held by this column and its children.
    pub fn memory_size(self: *const Builder) u64 {
        var total: u64 = self.data.items.len + self.validity.items.len + @as(u64, self.offsets.items.len) * 4;
        for (self.children) |*child| total += child.memory_size();
        return total;
    }

    pub fn finish(self: *Builder, gpa: Allocator) error{OutOfMemory}!Column {
        const layout = self.type.layout();
        if ((layout == .bytes or layout == .list) and self.offsets.items.len == 0) try self.offsets.append(gpa, 0);
        for (self.children, self.child_columns) |*child, *child_column| child_column.* = try child.finish(gpa);
        const all_valid = !self.has_null or bitmap.all_set(self.validity.items, self.row_count);
        return .{
            .type = self.type,
            .row_count = self.row_count,
            .validity = if (all_valid) null else self.validity.items,
            .data = self.data.items,
            .offsets = self.offsets.items,
            .children = self.child_columns,
        };
    }
};

/// What values of fixed size are stored as.
const ValueType = struct {
    const @"i8" = i8;
    const @"i16" = i16;
    const @"i32" = i32;
    const @"i64" = i64;
    const @"u8" = u8;
    const @"u16" = u16;
    const @"u32" = u32;
    const @"u64" = u64;
    const @"i128" = i128;
    const @"f16" = f16;
    const @"f32" = f32;
    const @"f64" = f64;
    const date = i32;
    const time = i64;
    const timestamp = i64;
};

/// The value that a text stands for, null when it is none of that type.
pub fn parse_value(comptime tag: schema.TypeTag, comptime T: type, data_type: DataType, text: []const u8) ?T {
    return switch (tag) {
        .i8, .i16, .i32, .i64, .u8, .u16, .u32, .u64, .i128 => infer.parse_integer(T, text),
        .f16, .f32, .f64 => infer.parse_float(T, text),
        .date => infer.parse_date(text),
        .time => (infer.parse_time(text) orelse return null).in_unit(data_type.unit),
        .timestamp => (infer.parse_timestamp(text) orelse return null).in_unit(data_type.unit),
        .decimal => @intCast(
            infer.parse_decimal(text, data_type.precision, @intCast(data_type.scale)) orelse return null,
        ),
        else => @compileError("not of fixed size"),
    };
}

/// Whether text can be read as this type at all.
pub fn is_supported(data_type: DataType) bool {
    return switch (data_type.tag) {
        .binary, .fixed_binary, .interval, .f32vec, .f16vec, .map => false,
        .decimal => data_type.scale >= 0,
        .list, .structure => for (data_type.children) |child| {
            if (!is_supported(child.type)) break false;
        } else true,
        else => true,
    };
}

/// Bytes that one row takes at least, children included.
pub fn row_size_min(data_type: DataType) u64 {
    return switch (data_type.layout()) {
        .none => 0,
        .bits => 1,
        .bytes, .list => 4,
        .structure => blk: {
            var size: u64 = 1;
            for (data_type.children) |child| size += row_size_min(child.type);
            break :blk size;
        },
        else => data_type.value_size(),
    };
}

/// Rows after which a batch of these columns is full, however little text they come from.
pub fn batch_row_limit(fields: []const Field) u32 {
    var size: u64 = 1;
    for (fields) |field| size += row_size_min(field.type);
    return @intCast(std.math.clamp(batch_size_max / size, 1, batch_row_count_max));
}

/// The same for builders.
pub fn row_limit(builders: []const Builder) u32 {
    var size: u64 = 1;
    for (builders) |*builder| size += row_size_min(builder.type);
    return @intCast(std.math.clamp(batch_size_max / size, 1, batch_row_count_max));
}

pub const DeclaredError = error{ InvalidFormat, OutOfMemory, NotSupported };

/// Columns as the caller names them: `count` × (u16 name length, name, type). Copied to `arena`.
pub fn read_declared(arena: Allocator, bytes: []const u8, count: u16) DeclaredError![]const Field {
    var cursor: Cursor = .init(bytes);
    // Each takes at least three bytes, so a count cannot outgrow its own bytes.
    if (count > bytes.len / 3) return error.InvalidFormat;
    const fields = try arena.alloc(Field, count);
    for (fields) |*field| {
        const name = try schema.read_name(&cursor);
        const data_type = try schema.read_type(&cursor, arena);
        if (!is_supported(data_type)) return error.NotSupported;
        field.* = .{ .name = try arena.dupe(u8, name), .type = try data_type.clone(arena) };
    }
    if (cursor.remaining() != 0) return error.InvalidFormat;
    return fields;
}

const Harness = struct {
    arena: Arena,
    builder: Builder,
    const gpa = std.testing.allocator;

    fn init(data_type: DataType) !Harness {
        var arena: Arena = .init(gpa);
        return .{ .builder = try .init(arena.allocator(), data_type), .arena = arena };
    }

    fn deinit(self: *Harness) void {
        self.builder.deinit(gpa);
        self.arena.deinit();
    }
};

test "values and NULLs of fixed size agree with a plain list" {
    var prng: std.Random.DefaultPrng = .init(5);
    const random = prng.random();
    var harness: Harness = try .init(.of(.i64));
    defer harness.deinit();
    const builder = &harness.builder;
    for ([_]usize{ 0, 1, 7, 8, 9, 100, 1000 }) |count| for ([_]u8{ 0, 50, 100 }) |null_percent| {
        builder.clear();
        var expected: [1000]?i64 = undefined;
        for (expected[0..count]) |*slot| {
            slot.* = if (random.uintLessThan(u8, 100) < null_percent) null else random.int(i64);
            if (slot.*) |value|
                try builder.append_value(Harness.gpa, i64, value)
            else
                try builder.append_null(Harness.gpa);
        }
        const column = try builder.finish(Harness.gpa);
        try std.testing.expectEqual(count, column.row_count);
        if (null_percent == 0) try std.testing.expectEqual(null, column.validity);
        for (expected[0..count], 0..) |slot, row| {
            try std.testing.expectEqual(slot != null, column.is_valid(row));
            if (slot) |value| try std.testing.expectEqual(value, column.values(i64)[row]);
        }
    };
}

test "bits and text" {
    var bools: Harness = try .init(.of(.bool));
    defer bools.deinit();
    var texts: Harness = try .init(.of(.utf8));
    defer texts.deinit();
    for (0..20) |i| {
        if (i % 5 == 4) {
            try bools.builder.append_null(Harness.gpa);
            try texts.builder.append_null(Harness.gpa);
        } else {
            try std.testing.expect(try bools.builder.append_text(Harness.gpa, if (i % 3 == 0) "true" else "False"));
            try std.testing.expect(try texts.builder.append_text(Harness.gpa, "abcdefgh"[0 .. i % 8]));
        }
    }
    const bool_column = try bools.builder.finish(Harness.gpa);
    const text_column = try texts.builder.finish(Harness.gpa);
    try std.testing.expectEqual(21, text_column.offsets.len);
    try std.testing.expectEqual(0, text_column.offsets[0]);
    for (0..20) |i| {
        try std.testing.expectEqual(i % 5 != 4, bool_column.is_valid(i));
        if (i % 5 == 4) continue;
        try std.testing.expectEqual(i % 3 == 0, bitmap.get(bool_column.data.ptr, i));
        try std.testing.expectEqualStrings("abcdefgh"[0 .. i % 8], text_column.bytes_at(i));
    }
}

test "lists of structures, and taking rows back" {
    const element: DataType = .{ .tag = .structure, .children = &.{
        .{ .name = "a", .type = .of(.i64) }, .{ .name = "b", .type = .of(.utf8) },
    } };
    var harness: Harness = try .init(.{ .tag = .list, .children = &.{.{ .name = "item", .type = element }} });
    defer harness.deinit();
    const list = &harness.builder;
    const item = &list.children[0];
    const gpa = Harness.gpa;
    try item.children[0].append_value(gpa, i64, 1);
    try item.end_structure(gpa);
    try item.append_null(gpa);
    try list.end_list(gpa);
    try list.append_null(gpa);
    try item.children[1].append_bytes(gpa, "gone");
    try item.end_structure(gpa);
    try list.end_list(gpa);
    list.truncate(2);
    try list.end_list(gpa);
    const column = try list.finish(gpa);
    try std.testing.expectEqualSlices(u32, &.{ 0, 2, 2, 2 }, column.offsets);
    try std.testing.expectEqual(1, column.null_count());
    const child = column.children[0];
    try std.testing.expectEqual(2, child.row_count);
    try std.testing.expect(child.is_valid(0) and !child.is_valid(1));
    try std.testing.expectEqual(1, child.children[0].values(i64)[0]);
    try std.testing.expect(!child.children[1].is_valid(0));
    try std.testing.expectEqual(0, child.children[1].data.len);
}

test "append_text reads every supported type and refuses what does not fit" {
    const cases = [_]struct { DataType, []const u8, bool }{
        .{ .of(.i8), "-128", true },
        .{ .of(.i8), "128", false },
        .{ .of(.i16), "-1", true },
        .{ .of(.i32), "2147483648", false },
        .{ .of(.u8), "255", true },
        .{ .of(.u16), "-1", false },
        .{ .of(.u32), "7", true },
        .{ .of(.u64), "18446744073709551615", true },
        .{ .of(.i128), "18446744073709551616", true },
        .{ .of(.f16), "1.5", true },
        .{ .of(.f32), "1e40", true },
        .{ .of(.f32), "x", false },
        .{ .of(.date), "2020-01-01", true },
        .{ .of(.date), "2020-01-01 00:00", false },
        .{ .{ .tag = .time, .unit = .second }, "10:00", true },
        .{ .{ .tag = .time, .unit = .second }, "25:00", false },
        .{ .{ .tag = .timestamp, .unit = .nanosecond }, "2300-01-01", false },
        .{ .{ .tag = .timestamp, .unit = .second }, "2300-01-01", true },
        .{ .{ .tag = .decimal, .precision = 4, .scale = 2 }, "12.34", true },
        .{ .{ .tag = .decimal, .precision = 4, .scale = 2 }, "123", false },
        .{ .{ .tag = .decimal, .precision = 30, .scale = 0 }, "1234567890123456789012", true },
        .{ .of(.null), "1", false },
        .{ .of(.bool), "1", false },
        .{ .of(.bool), "TRUE", true },
    };
    for (cases) |case| {
        var harness: Harness = try .init(case[0]);
        defer harness.deinit();
        try std.testing.expectEqual(case[2], try harness.builder.append_text(Harness.gpa, case[1]));
        const column = try harness.builder.finish(Harness.gpa);
        try std.testing.expectEqual(@intFromBool(case[2]), column.row_count);
        if (case[2]) try std.testing.expectEqual(@max(1, case[0].value_size()), column.data.len);
    }
}

test "a null column and an empty text column" {
    var nulls: Harness = try .init(.of(.null));
    defer nulls.deinit();
    try nulls.builder.append_null(Harness.gpa);
    const column = try nulls.builder.finish(Harness.gpa);
    try std.testing.expectEqual(1, column.null_count());
    try std.testing.expectEqual(null, column.validity);
    var texts: Harness = try .init(.of(.utf8));
    defer texts.deinit();
    try std.testing.expectEqualSlices(u32, &.{0}, (try texts.builder.finish(Harness.gpa)).offsets);
}

test read_declared {
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    const fields = try read_declared(arena.allocator(), "\x01\x00a\x01\x02\x00bc\x14\x02", 2);
    try std.testing.expectEqualStrings("a", fields[0].name);
    try std.testing.expectEqual(.i64, fields[0].type.tag);
    try std.testing.expectEqual(.time, fields[1].type.tag);
    try std.testing.expectError(error.InvalidFormat, read_declared(arena.allocator(), "\x01\x00a\x01", 2));
    try std.testing.expectError(error.InvalidFormat, read_declared(arena.allocator(), "\x01\x00a\x01\x00", 1));
    try std.testing.expectError(error.InvalidFormat, read_declared(arena.allocator(), "\x01\x00a\xFF", 1));
    try std.testing.expectError(error.NotSupported, read_declared(arena.allocator(), "\x01\x00a\x11", 1));
}

test batch_row_limit {
    try std.testing.expectEqual(batch_row_count_max, batch_row_limit(&.{.{ .name = "a", .type = .of(.i64) }}));
    var fields: [1000]Field = undefined;
    for (&fields) |*field| field.* = .{ .name = "a", .type = .of(.i64) };
    try std.testing.expectEqual(1048, batch_row_limit(&fields));
}
