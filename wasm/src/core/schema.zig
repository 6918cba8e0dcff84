//! Types: how each `TypeTag` is stored, and their one wire form (plans and QMCB share it).
//!
//! A column stores its values in one of the layouts of `Layout`:
//!
//!     bool                          bits, packed, least significant first
//!     i8 … i64, u8 … u64, f16 … f64 little endian values of their width
//!     i128                          16 bytes, two's complement
//!     decimal(p, s)                 the unscaled integer: 8 bytes when p ≤ 18, else 16
//!     date                          i32, days since 1970-01-01
//!     time(unit), timestamp(unit)   i64
//!     interval                      16 bytes: i32 months, i32 days, i64 nanoseconds
//!     utf8, binary                  u32 offsets (rows + 1, first 0) and bytes
//!     fixed_binary(n)               n bytes a value
//!     f32vec(n), f16vec(n)          n values of 4 or 2 bytes
//!     list, map                     u32 offsets and one child (a map's child is a struct of two)
//!     structure                     children with the same row count
//!     null                          nothing; every value is NULL
//!
//! The wire form of a type is one byte of tag and its parameters:
//!
//!     decimal       u8 precision, i8 scale        fixed_binary  u32 width
//!     f32vec f16vec u32 dimension                 time          u8 unit
//!     timestamp     u8 unit, u8 zone length, zone list          type
//!     structure     u16 count, count × (u16 name length, name, type)
//!     map           type of keys, type of values
const std = @import("std");
const abi = @import("../abi.zig");
const Arena = @import("arena.zig").Arena;
const Cursor = @import("cursor.zig").Cursor;
const assert = std.debug.assert;

pub const TypeTag = abi.TypeTag;
pub const TimeUnit = abi.TimeUnit;

pub const Error = error{ InvalidFormat, OutOfMemory };

pub const decimal_precision_max = 38;
/// The largest precision whose unscaled value always fits an i64.
pub const decimal_precision_narrow = 18;

pub const Layout = enum {
    none,
    bits,
    i8,
    i16,
    i32,
    i64,
    i128,
    u8,
    u16,
    u32,
    u64,
    f16,
    f32,
    f64,
    bytes,
    fixed,
    list,
    structure,
};

/// The Zig type of a layout whose values are numbers.
pub fn Scalar(comptime layout: Layout) type {
    return switch (layout) {
        .i8 => i8,
        .i16 => i16,
        .i32 => i32,
        .i64 => i64,
        .i128 => i128,
        .u8 => u8,
        .u16 => u16,
        .u32 => u32,
        .u64 => u64,
        .f16 => f16,
        .f32 => f32,
        .f64 => f64,
        else => @compileError("not a scalar layout"),
    };
}

pub const Field = struct {
    name: []const u8,
    type: DataType,
};

pub const DataType = struct {
    tag: TypeTag,
    precision: u8 = 0,
    scale: i8 = 0,
    unit: TimeUnit = .second,
    /// fixed_binary: bytes; vectors: dimension.
    width: u32 = 0,
    zone: []const u8 = "",
    /// list: one; structure: its fields; map: "key" and "value".
    children: []const Field = &.{},

    pub fn of(tag: TypeTag) DataType {
        return .{ .tag = tag };
    }

    pub fn layout(self: DataType) Layout {
        return switch (self.tag) {
            .null => .none,
            .bool => .bits,
            .i8 => .i8,
            .i16 => .i16,
            .i32, .date => .i32,
            .i64, .time, .timestamp => .i64,
            .i128 => .i128,
            .u8 => .u8,
            .u16 => .u16,
            .u32 => .u32,
            .u64 => .u64,
            .f16 => .f16,
            .f32 => .f32,
            .f64 => .f64,
            .decimal => if (self.precision <= decimal_precision_narrow) .i64 else .i128,
            .utf8, .binary => .bytes,
            .interval, .fixed_binary, .f32vec, .f16vec => .fixed,
            .list, .map => .list,
            .structure => .structure,
        };
    }

    /// Bytes of one value; 0 for layouts whose values have no fixed number of bytes.
    pub fn value_size(self: DataType) u64 {
        return switch (self.layout()) {
            .none, .bits, .bytes, .list, .structure => 0,
            .i8, .u8 => 1,
            .i16, .u16, .f16 => 2,
            .i32, .u32, .f32 => 4,
            .i64, .u64, .f64 => 8,
            .i128 => 16,
            .fixed => switch (self.tag) {
                .interval => 16,
                .fixed_binary => self.width,
                .f32vec => @as(u64, self.width) * 4,
                .f16vec => @as(u64, self.width) * 2,
                else => unreachable,
            },
        };
    }

    /// As people know the kind of it, with its article.
    pub fn described(self: DataType) []const u8 {
        return switch (self.tag) {
            .i8 => "an int8",
            .i16 => "an int16",
            .i32 => "an int32",
            .i64 => "an int64",
            .i128 => "an int128",
            .u8 => "a uint8",
            .u16 => "a uint16",
            .u32 => "a uint32",
            .u64 => "a uint64",
            .f16 => "a float16",
            .f32 => "a float32",
            .f64 => "a float64",
            .f16vec, .f32vec => "a vector",
            .structure => "a struct",
            .interval => "an interval",
            inline else => |tag| "a " ++ @tagName(tag),
        };
    }

    pub fn is_nested(self: DataType) bool {
        return switch (self.layout()) {
            .list, .structure => true,
            else => false,
        };
    }

    /// Equal in every parameter, names of struct fields included.
    pub fn eql(a: DataType, b: DataType) bool {
        if (a.tag != b.tag or a.precision != b.precision or a.scale != b.scale) return false;
        if (a.unit != b.unit or a.width != b.width) return false;
        if (!std.mem.eql(u8, a.zone, b.zone)) return false;
        if (a.children.len != b.children.len) return false;
        for (a.children, b.children) |x, y| {
            if (a.tag == .structure and !std.mem.eql(u8, x.name, y.name)) return false;
            if (!x.type.eql(y.type)) return false;
        }
        return true;
    }

    /// Copies names, zones and children into `arena`.
    pub fn clone(self: DataType, arena: std.mem.Allocator) error{OutOfMemory}!DataType {
        var copy = self;
        copy.zone = try arena.dupe(u8, self.zone);
        const children = try arena.alloc(Field, self.children.len);
        for (children, self.children) |*to, from| to.* = .{
            .name = try arena.dupe(u8, from.name),
            .type = try from.type.clone(arena),
        };
        copy.children = children;
        return copy;
    }
};

/// Reads a type. Names and zones point into the cursor's bytes; children are in `arena`.
pub fn read_type(cursor: *Cursor, arena: std.mem.Allocator) Error!DataType {
    const tag = try cursor.read_enum(TypeTag);
    return read_type_parameters(cursor, arena, tag, 0);
}

/// Reads what follows the tag: QMCB keeps the tag in its header, the parameters before the values.
pub fn read_type_parameters(cursor: *Cursor, arena: std.mem.Allocator, tag: TypeTag, depth: u32) Error!DataType {
    @setRuntimeSafety(true);
    if (depth > abi.type_depth_max) return error.InvalidFormat;
    var result: DataType = .of(tag);
    switch (tag) {
        .decimal => {
            result.precision = try cursor.read_int(u8);
            result.scale = try cursor.read_int(i8);
            if (result.precision == 0 or result.precision > decimal_precision_max) return error.InvalidFormat;
            if (@abs(result.scale) > decimal_precision_max) return error.InvalidFormat;
        },
        .fixed_binary, .f32vec, .f16vec => {
            result.width = try cursor.read_int(u32);
            if (result.value_size() > abi.value_size_max) return error.InvalidFormat;
        },
        .time => result.unit = try cursor.read_enum(TimeUnit),
        .timestamp => {
            result.unit = try cursor.read_enum(TimeUnit);
            result.zone = try cursor.read_bytes(try cursor.read_int(u8));
            if (!std.unicode.utf8ValidateSlice(result.zone)) return error.InvalidFormat;
        },
        .list => {
            const children = try arena.alloc(Field, 1);
            children[0] = .{ .name = "item", .type = try read_child(cursor, arena, depth) };
            result.children = children;
        },
        .map => {
            const children = try arena.alloc(Field, 2);
            children[0] = .{ .name = "key", .type = try read_child(cursor, arena, depth) };
            children[1] = .{ .name = "value", .type = try read_child(cursor, arena, depth) };
            result.children = children;
        },
        .structure => {
            const count = try cursor.read_int(u16);
            // Each field takes at least three bytes, so a count cannot outgrow its own bytes.
            if (count > cursor.remaining() / 3) return error.InvalidFormat;
            const children = try arena.alloc(Field, count);
            for (children) |*child| child.* = .{
                .name = try read_name(cursor),
                .type = try read_child(cursor, arena, depth),
            };
            result.children = children;
        },
        .f64,
        .i64,
        .utf8,
        .bool,
        .null,
        .i32,
        .f32,
        .i8,
        .i16,
        .u8,
        .u16,
        .u32,
        .u64,
        .f16,
        .i128,
        .binary,
        .date,
        .interval,
        => {},
    }
    return result;
}

fn read_child(cursor: *Cursor, arena: std.mem.Allocator, depth: u32) Error!DataType {
    const tag = try cursor.read_enum(TypeTag);
    return read_type_parameters(cursor, arena, tag, depth + 1);
}

/// A u16 length and that many bytes of UTF-8.
pub fn read_name(cursor: *Cursor) error{InvalidFormat}![]const u8 {
    const name = try cursor.read_bytes(try cursor.read_int(u16));
    if (!std.unicode.utf8ValidateSlice(name)) return error.InvalidFormat;
    return name;
}

/// Bytes that `write_type_parameters` writes.
pub fn type_parameters_size(data_type: DataType) u64 {
    return switch (data_type.tag) {
        .decimal => 2,
        .fixed_binary, .f32vec, .f16vec => 4,
        .time => 1,
        .timestamp => 2 + data_type.zone.len,
        .list, .map => blk: {
            var size: u64 = 0;
            for (data_type.children) |child| size += 1 + type_parameters_size(child.type);
            break :blk size;
        },
        .structure => blk: {
            var size: u64 = 2;
            for (data_type.children) |child| size += 2 + child.name.len + 1 + type_parameters_size(child.type);
            break :blk size;
        },
        .f64,
        .i64,
        .utf8,
        .bool,
        .null,
        .i32,
        .f32,
        .i8,
        .i16,
        .u8,
        .u16,
        .u32,
        .u64,
        .f16,
        .i128,
        .binary,
        .date,
        .interval,
        => 0,
    };
}

/// Writes the parameters to the front of `target`; returns how many bytes it took.
pub fn write_type_parameters(target: []u8, data_type: DataType) usize {
    var position: usize = 0;
    switch (data_type.tag) {
        .decimal => {
            target[0] = data_type.precision;
            target[1] = @bitCast(data_type.scale);
            position = 2;
        },
        .fixed_binary, .f32vec, .f16vec => {
            std.mem.writeInt(u32, target[0..4], data_type.width, .little);
            position = 4;
        },
        .time => {
            target[0] = @backingInt(data_type.unit);
            position = 1;
        },
        .timestamp => {
            target[0] = @backingInt(data_type.unit);
            target[1] = @intCast(data_type.zone.len);
            @memcpy(target[2..][0..data_type.zone.len], data_type.zone);
            position = 2 + data_type.zone.len;
        },
        .list, .map => for (data_type.children) |child| {
            target[position] = @backingInt(child.type.tag);
            position += 1;
            position += write_type_parameters(target[position..], child.type);
        },
        .structure => {
            std.mem.writeInt(u16, target[0..2], @intCast(data_type.children.len), .little);
            position = 2;
            for (data_type.children) |child| {
                std.mem.writeInt(u16, target[position..][0..2], @intCast(child.name.len), .little);
                position += 2;
                @memcpy(target[position..][0..child.name.len], child.name);
                position += child.name.len;
                target[position] = @backingInt(child.type.tag);
                position += 1;
                position += write_type_parameters(target[position..], child.type);
            }
        },
        .f64,
        .i64,
        .utf8,
        .bool,
        .null,
        .i32,
        .f32,
        .i8,
        .i16,
        .u8,
        .u16,
        .u32,
        .u64,
        .f16,
        .i128,
        .binary,
        .date,
        .interval,
        => {},
    }
    assert(position == type_parameters_size(data_type));
    return position;
}

test "type parameters round trip" {
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    const inner: DataType = .{ .tag = .structure, .children = &.{
        .{ .name = "a", .type = .{ .tag = .decimal, .precision = 12, .scale = -2 } },
        .{ .name = "größe", .type = .{ .tag = .timestamp, .unit = .microsecond, .zone = "Europe/Berlin" } },
    } };
    const types = [_]DataType{
        .of(.f64),
        inner,
        .{ .tag = .list, .children = &.{.{ .name = "item", .type = inner }} },
        .{ .tag = .map, .children = &.{ .{ .name = "key", .type = .of(.utf8) }, .{ .name = "value", .type = inner } } },
        .{ .tag = .f32vec, .width = 128 },
    };
    for (types) |data_type| {
        var buffer: [256]u8 = undefined;
        const size = write_type_parameters(&buffer, data_type);
        var cursor: Cursor = .init(buffer[0..size]);
        const back = try read_type_parameters(&cursor, arena.allocator(), data_type.tag, 0);
        try std.testing.expect(back.eql(data_type));
        try std.testing.expectEqual(0, cursor.remaining());
    }
}

test "a value of more than 2 GiB is refused" {
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    const Case = struct { tag: TypeTag, most: u32 };
    const cases = [_]Case{
        .{ .tag = .fixed_binary, .most = 0x7FFF_FFFF },
        .{ .tag = .f32vec, .most = 0x1FFF_FFFF },
        .{ .tag = .f16vec, .most = 0x3FFF_FFFF },
    };
    for (cases) |case| for ([_]u32{ case.most, case.most + 1, 0xFFFF_FFFF }) |width| {
        const bytes: [4]u8 = @bitCast(std.mem.nativeToLittle(u32, width));
        var cursor: Cursor = .init(&bytes);
        const found = read_type_parameters(&cursor, arena.allocator(), case.tag, 0);
        if (width == case.most) {
            try std.testing.expectEqual(width, (try found).width);
        } else {
            try std.testing.expectError(error.InvalidFormat, found);
        }
    };
}

test "a type nested too deep is refused" {
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    const bytes: [100]u8 = @splat(@backingInt(TypeTag.list));
    var cursor: Cursor = .init(&bytes);
    try std.testing.expectError(error.InvalidFormat, read_type(&cursor, arena.allocator()));
}
