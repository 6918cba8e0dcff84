//! Logical types: how Lance spells a column's type, which of ours it becomes, how its values lie in the file.
//!
//!     text                                        ours                    in the file
//!     null                                        null                    nothing
//!     bool                                        bool                    1 bit
//!     int8 … uint64 halffloat float double        the same                8 … 64 bits
//!     string large_string binary large_binary     utf8, binary            bytes and offsets
//!     fixed_size_binary:N                         fixed_binary            8 N bits
//!     decimal:128:P:S                             decimal                 128 bits, narrowed where P <= 18
//!     decimal:256:P:S                             decimal                 256 bits, narrowed; P > 38 is refused
//!     date32:day date64:ms                        date                    32 bits; 64 bits of milliseconds
//!     time32:unit time64:unit                     time(unit)              32 bits, widened; 64 bits
//!     timestamp:unit:zone                         timestamp(unit, zone)   64 bits; no zone is written "-"
//!     duration:unit                               interval                64 bits, made nanoseconds
//!     dict:value:index:ordered                    that of the value       the value's (the page has a dictionary)
//!     fixed_size_list:item:N                      f32vec, f16vec, list    N times what the item takes
//!     list large_list list.struct struct map      nested: their items and fields are fields of their own
//!
//! Types become those that the engine has for the same Arrow types wherever they come from
//! (querymode/table/from_arrow.py). Texts of types are hostile: sizes are checked as those of our own types.
const std = @import("std");
const abi = @import("../../abi.zig");
const interrupt = @import("../../core/interrupt.zig");
const schema = @import("../../core/schema.zig");
const Arena = @import("../../core/arena.zig").Arena;
const DataType = schema.DataType;

pub const Error = error{ InvalidFormat, NotSupported, OutOfMemory };

/// How values lie in the file once all compression is undone.
pub const Physical = union(enum) {
    /// No values are stored at all.
    none,
    /// Bits of a value: 1, or a multiple of 8.
    fixed: u32,
    /// Bytes of any number.
    variable,
    fixed_list: FixedList,
    /// The fields of a struct, row by row. Writers are told to; otherwise every field is a column.
    packed_struct: []const Leaf,
};

pub const FixedList = struct {
    /// At least 1.
    item_count: u32,
    item: *const Leaf,
};

/// What is done to values of the file to make them ours. Those that ours cannot hold are an error where they
/// are valid; the slots of NULLs hold anything.
pub const Conversion = union(enum) {
    none,
    /// 32 bits → 64.
    widen,
    /// Milliseconds in 64 bits → days in 32.
    date64,
    /// 128 bits → 64.
    decimal_narrow,
    /// 256 bits → 128.
    decimal256,
    /// 256 bits → 64.
    decimal256_narrow,
    /// A number of these units → interval, all of it nanoseconds.
    duration: abi.TimeUnit,
};

pub const Leaf = struct {
    type: DataType,
    physical: Physical,
    conversion: Conversion = .none,

    /// Whether a column's values can be copied as they are.
    pub fn is_plain(self: *const Leaf) bool {
        return self.conversion == .none;
    }

    /// Bits of a value in the file; null where they differ from value to value.
    pub fn bits(self: *const Leaf) ?u64 {
        switch (self.physical) {
            .none => return 0,
            .fixed => |found| return found,
            .variable => return null,
            .fixed_list => |list| return list.item_count * (list.item.bits() orelse return null),
            .packed_struct => |fields| {
                var total: u64 = 0;
                for (fields) |*field| total += field.bits() orelse return null;
                return total;
            },
        }
    }
};

pub const Kind = union(enum) {
    leaf: Leaf,
    /// Of one child; list.struct and large_list as well.
    list,
    structure,
    /// Of one child, a structure of key and value.
    map,
    /// So many structures a row; the child is the structure. Its fields are columns.
    fixed_list_of_structs: u32,
};

/// Of a field's logical type. What has no type of ours is error.NotSupported.
pub fn parse(arena: std.mem.Allocator, text: []const u8) Error!Kind {
    @setRuntimeSafety(true);
    const nested = std.StaticStringMap(Kind).initComptime(.{
        .{ "list", .list },
        .{ "large_list", .list },
        .{ "list.struct", .list },
        .{ "large_list.struct", .list },
        .{ "struct", .structure },
        .{ "map", .map },
    });
    if (nested.get(text)) |kind| return kind;
    if (cut(text, "fixed_size_list:")) |rest| {
        const list = try split_list(text, rest);
        if (std.mem.eql(u8, list.item, "struct")) return .{ .fixed_list_of_structs = list.count };
    }
    return .{ .leaf = try parse_leaf(arena, text, 0) };
}

/// The leaf of a struct whose fields lie in one column. Of the fields' types, names and leaves.
pub fn pack(arena: std.mem.Allocator, data_type: DataType, fields: []const Leaf) Error!Leaf {
    std.debug.assert(data_type.tag == .structure and data_type.children.len == fields.len);
    return .{ .type = data_type, .physical = .{ .packed_struct = try arena.dupe(Leaf, fields) } };
}

fn parse_leaf(arena: std.mem.Allocator, text: []const u8, depth: u32) Error!Leaf {
    @setRuntimeSafety(true);
    if (depth > abi.type_depth_max) return invalid("a type is nested too deep", .{});
    if (plain_types.get(text)) |leaf| return leaf;
    if (cut(text, "fixed_size_binary:")) |rest| return parse_binary(text, rest);
    if (cut(text, "decimal:")) |rest| return parse_decimal(text, rest);
    if (cut(text, "timestamp:")) |rest| return parse_timestamp(arena, text, rest);
    if (cut(text, "time32:")) |rest| return .{
        .type = .{ .tag = .time, .unit = try parse_unit(text, rest) },
        .physical = .{ .fixed = 32 },
        .conversion = .widen,
    };
    if (cut(text, "time64:")) |rest| return .{
        .type = .{ .tag = .time, .unit = try parse_unit(text, rest) },
        .physical = .{ .fixed = 64 },
    };
    if (cut(text, "duration:")) |rest| return .{
        .type = .of(.interval),
        .physical = .{ .fixed = 64 },
        .conversion = .{ .duration = try parse_unit(text, rest) },
    };
    if (cut(text, "dict:")) |rest| {
        const ordered = std.mem.lastIndexOfScalar(u8, rest, ':') orelse return malformed(text);
        const index = std.mem.lastIndexOfScalar(u8, rest[0..ordered], ':') orelse return malformed(text);
        return parse_leaf(arena, rest[0..index], depth + 1);
    }
    if (cut(text, "fixed_size_list:")) |rest| return parse_list(arena, text, rest, depth);
    interrupt.describe("a column of Lance's type {s} is not supported; leave it out", .{shown(text)});
    return error.NotSupported;
}

const plain_types = std.StaticStringMap(Leaf).initComptime(.{
    .{ "null", Leaf{ .type = .of(.null), .physical = .none } },
    .{ "bool", fixed(.bool, 1) },
    .{ "int8", fixed(.i8, 8) },
    .{ "int16", fixed(.i16, 16) },
    .{ "int32", fixed(.i32, 32) },
    .{ "int64", fixed(.i64, 64) },
    .{ "uint8", fixed(.u8, 8) },
    .{ "uint16", fixed(.u16, 16) },
    .{ "uint32", fixed(.u32, 32) },
    .{ "uint64", fixed(.u64, 64) },
    .{ "halffloat", fixed(.f16, 16) },
    .{ "float", fixed(.f32, 32) },
    .{ "double", fixed(.f64, 64) },
    .{ "date32:day", fixed(.date, 32) },
    .{ "date64:ms", Leaf{ .type = .of(.date), .physical = .{ .fixed = 64 }, .conversion = .date64 } },
    .{ "string", Leaf{ .type = .of(.utf8), .physical = .variable } },
    .{ "large_string", Leaf{ .type = .of(.utf8), .physical = .variable } },
    .{ "binary", Leaf{ .type = .of(.binary), .physical = .variable } },
    .{ "large_binary", Leaf{ .type = .of(.binary), .physical = .variable } },
});

fn fixed(tag: schema.TypeTag, bits: u32) Leaf {
    return .{ .type = .of(tag), .physical = .{ .fixed = bits } };
}

fn parse_binary(text: []const u8, rest: []const u8) Error!Leaf {
    const width = std.fmt.parseInt(u32, rest, 10) catch return malformed(text);
    if (width > abi.value_size_max / 8) return malformed(text);
    return .{ .type = .{ .tag = .fixed_binary, .width = width }, .physical = .{ .fixed = width * 8 } };
}

fn parse_decimal(text: []const u8, rest: []const u8) Error!Leaf {
    var parts = std.mem.splitScalar(u8, rest, ':');
    const bits = std.fmt.parseInt(u32, parts.first(), 10) catch return malformed(text);
    const precision = std.fmt.parseInt(u8, parts.next() orelse "", 10) catch return malformed(text);
    const scale = std.fmt.parseInt(i8, parts.next() orelse "", 10) catch return malformed(text);
    if (parts.next() != null) return malformed(text);
    const precision_max: u8 = switch (bits) {
        128 => schema.decimal_precision_max,
        256 => 76,
        else => return malformed(text),
    };
    if (precision == 0 or precision > precision_max) return malformed(text);
    if (precision > schema.decimal_precision_max or @abs(scale) > schema.decimal_precision_max) {
        interrupt.describe("a decimal of more than 38 digits is not supported; leave the column out", .{});
        return error.NotSupported;
    }
    const is_narrow = precision <= schema.decimal_precision_narrow;
    const conversion: Conversion = switch (bits) {
        256 => if (is_narrow) .decimal256_narrow else .decimal256,
        else => if (is_narrow) .decimal_narrow else .none,
    };
    return .{
        .type = .{ .tag = .decimal, .precision = precision, .scale = scale },
        .physical = .{ .fixed = bits },
        .conversion = conversion,
    };
}

fn parse_timestamp(arena: std.mem.Allocator, text: []const u8, rest: []const u8) Error!Leaf {
    const colon = std.mem.indexOfScalar(u8, rest, ':') orelse rest.len;
    const unit = try parse_unit(text, rest[0..colon]);
    const written = if (colon < rest.len) rest[colon + 1 ..] else "-";
    const zone = if (std.mem.eql(u8, written, "-")) "" else written;
    // Our own types write the zone's size in a byte.
    if (zone.len > std.math.maxInt(u8) or !std.unicode.utf8ValidateSlice(zone)) return malformed(text);
    return .{
        .type = .{ .tag = .timestamp, .unit = unit, .zone = try arena.dupe(u8, zone) },
        .physical = .{ .fixed = 64 },
    };
}

fn parse_unit(text: []const u8, unit: []const u8) Error!abi.TimeUnit {
    const units = std.StaticStringMap(abi.TimeUnit).initComptime(.{
        .{ "s", .second },
        .{ "ms", .millisecond },
        .{ "us", .microsecond },
        .{ "ns", .nanosecond },
    });
    return units.get(unit) orelse malformed(text);
}

const SplitList = struct { item: []const u8, count: u32 };

fn split_list(text: []const u8, rest: []const u8) Error!SplitList {
    const colon = std.mem.lastIndexOfScalar(u8, rest, ':') orelse return malformed(text);
    const count = std.fmt.parseInt(u32, rest[colon + 1 ..], 10) catch return malformed(text);
    if (count == 0) return malformed(text);
    return .{ .item = rest[0..colon], .count = count };
}

fn parse_list(arena: std.mem.Allocator, text: []const u8, rest: []const u8, depth: u32) Error!Leaf {
    const list = try split_list(text, rest);
    const item = try arena.create(Leaf);
    item.* = try parse_leaf(arena, list.item, depth + 1);
    const size = std.math.mul(u64, list.count, item.bits() orelse 8) catch return malformed(text);
    if (size / 8 > abi.value_size_max) return malformed(text);
    const physical: Physical = .{ .fixed_list = .{ .item_count = list.count, .item = item } };
    const vector: ?schema.TypeTag = switch (item.type.tag) {
        .f32 => .f32vec,
        .f16 => .f16vec,
        else => null,
    };
    if (vector) |tag| return .{ .type = .{ .tag = tag, .width = list.count }, .physical = physical };
    const children = try arena.alloc(schema.Field, 1);
    children[0] = .{ .name = "item", .type = item.type };
    return .{ .type = .{ .tag = .list, .children = children }, .physical = physical };
}

fn cut(text: []const u8, prefix: []const u8) ?[]const u8 {
    return if (std.mem.startsWith(u8, text, prefix)) text[prefix.len..] else null;
}

/// Messages have little room, and the text may be anything.
fn shown(text: []const u8) []const u8 {
    return if (text.len <= 60 and std.unicode.utf8ValidateSlice(text)) text else "that cannot be shown";
}

fn malformed(text: []const u8) Error {
    return invalid("a column's type is written {s}", .{shown(text)});
}

fn invalid(comptime format: []const u8, arguments: anytype) Error {
    interrupt.describe(format, arguments);
    return error.InvalidFormat;
}

const testing = std.testing;

fn expect_leaf(arena: *Arena, text: []const u8, expected: DataType, bits: ?u64, conversion: Conversion) !void {
    const leaf = (try parse(arena.allocator(), text)).leaf;
    try testing.expect(leaf.type.eql(expected));
    try testing.expectEqual(bits, leaf.bits());
    try testing.expectEqual(conversion, leaf.conversion);
}

fn list_of(child: *const [1]schema.Field) DataType {
    return .{ .tag = .list, .children = child };
}

fn decimal(precision: u8, scale: i8) DataType {
    return .{ .tag = .decimal, .precision = precision, .scale = scale };
}

fn timestamp(unit: abi.TimeUnit, zone: []const u8) DataType {
    return .{ .tag = .timestamp, .unit = unit, .zone = zone };
}

test parse {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    try expect_leaf(&arena, "null", .of(.null), 0, .none);
    try expect_leaf(&arena, "bool", .of(.bool), 1, .none);
    try expect_leaf(&arena, "uint16", .of(.u16), 16, .none);
    try expect_leaf(&arena, "large_string", .of(.utf8), null, .none);
    try expect_leaf(&arena, "fixed_size_binary:5", .{ .tag = .fixed_binary, .width = 5 }, 40, .none);
    try expect_leaf(&arena, "fixed_size_binary:0", .{ .tag = .fixed_binary }, 0, .none);
    try expect_leaf(&arena, "decimal:128:18:2", decimal(18, 2), 128, .decimal_narrow);
    try expect_leaf(&arena, "decimal:128:38:-3", decimal(38, -3), 128, .none);
    try expect_leaf(&arena, "decimal:256:9:0", decimal(9, 0), 256, .decimal256_narrow);
    try expect_leaf(&arena, "decimal:256:30:1", decimal(30, 1), 256, .decimal256);
    try expect_leaf(&arena, "date32:day", .of(.date), 32, .none);
    try expect_leaf(&arena, "date64:ms", .of(.date), 64, .date64);
    try expect_leaf(&arena, "time32:ms", .{ .tag = .time, .unit = .millisecond }, 32, .widen);
    try expect_leaf(&arena, "time64:ns", .{ .tag = .time, .unit = .nanosecond }, 64, .none);
    try expect_leaf(&arena, "duration:us", .of(.interval), 64, .{ .duration = .microsecond });
    try expect_leaf(&arena, "timestamp:s:-", .{ .tag = .timestamp }, 64, .none);
    try expect_leaf(&arena, "timestamp:ms:+02:00", timestamp(.millisecond, "+02:00"), 64, .none);
    try expect_leaf(&arena, "dict:string:int8:false", .of(.utf8), null, .none);
    try expect_leaf(&arena, "dict:timestamp:us:UTC:int32:true", timestamp(.microsecond, "UTC"), 64, .none);
    try expect_leaf(&arena, "fixed_size_list:float:4", .{ .tag = .f32vec, .width = 4 }, 128, .none);
    try expect_leaf(&arena, "fixed_size_list:halffloat:3", .{ .tag = .f16vec, .width = 3 }, 48, .none);
    try expect_leaf(&arena, "fixed_size_list:int64:2", list_of(&.{.{ .name = "item", .type = .of(.i64) }}), 128, .none);
    try expect_leaf(&arena, "fixed_size_list:timestamp:us:UTC:2", list_of(&.{
        .{ .name = "item", .type = timestamp(.microsecond, "UTC") },
    }), 128, .none);
    try expect_leaf(&arena, "fixed_size_list:fixed_size_list:float:4:3", list_of(&.{
        .{ .name = "item", .type = .{ .tag = .f32vec, .width = 4 } },
    }), 384, .none);
}

test "nested types" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    for ([_][]const u8{ "list", "large_list", "list.struct" }) |text| {
        try testing.expectEqual(.list, std.meta.activeTag(try parse(arena.allocator(), text)));
    }
    try testing.expectEqual(.structure, std.meta.activeTag(try parse(arena.allocator(), "struct")));
    try testing.expectEqual(.map, std.meta.activeTag(try parse(arena.allocator(), "map")));
    try testing.expectEqual(3, (try parse(arena.allocator(), "fixed_size_list:struct:3")).fixed_list_of_structs);
}

test "types that are none" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    defer interrupt.forget();
    const malformed_texts = [_][]const u8{
        "fixed_size_binary:",       "fixed_size_binary:-1",     "fixed_size_binary:4294967296",
        "decimal:128:39:0",         "decimal:128:0:0",          "decimal:64:9:0",
        "decimal:128:9",            "decimal:256:77:0",         "timestamp:days:-",
        "timestamp:us:\xFF",        "time32:",                  "duration:h",
        "dict:string",              "dict:string:int8",         "fixed_size_list:float",
        "fixed_size_list:float:0",  "fixed_size_list:float:x",  "fixed_size_list:double:4294967295",
        "fixed_size_list:struct:0", "fixed_size_list:struct:x",
    };
    for (malformed_texts) |text| try testing.expectError(error.InvalidFormat, parse(arena.allocator(), text));
    const unsupported_texts = [_][]const u8{
        "",                  "interval",               "decimal:256:50:2",
        "decimal:128:9:-50", "fixed_size_list:list:2", "dict::int8:false",
    };
    for (unsupported_texts) |text| try testing.expectError(error.NotSupported, parse(arena.allocator(), text));
    var deep: std.ArrayList(u8) = .empty;
    defer deep.deinit(testing.allocator);
    for (0..40) |_| try deep.appendSlice(testing.allocator, "dict:");
    try deep.appendSlice(testing.allocator, "int8");
    for (0..40) |_| try deep.appendSlice(testing.allocator, ":int8:false");
    try testing.expectError(error.InvalidFormat, parse(arena.allocator(), deep.items));
}

test "types at random" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    defer interrupt.forget();
    const words = [_][]const u8{
        "fixed_size_list", "dict", "timestamp", "us",    ":", ":", ":", "-",
        "99999999999",     "3",    "decimal",   "128",   ":", ":", ":", "\xC3",
        "fixed_size_list", "dict", "struct",    "float",
    };
    var prng: std.Random.DefaultPrng = .init(13);
    const random = prng.random();
    for (0..4000) |_| {
        var buffer: [256]u8 = undefined;
        var text: std.ArrayList(u8) = .initBuffer(&buffer);
        for (0..random.uintLessThan(u8, 12)) |_| {
            text.appendSliceAssumeCapacity(words[random.uintLessThan(usize, words.len)]);
        }
        _ = parse(arena.allocator(), text.items) catch {};
        _ = arena.reset(.retain_capacity);
    }
}
