//! The schema of a Parquet file: a preorder list of elements becomes `Node`s and `Leaf`s.
//!
//! Levels. A value's definition level counts how many of the optional and repeated elements above
//! it (itself included) are there; its repetition level says at which repeated element it continues
//! a list. Hence, from the root down:
//!
//!     required element    adds nothing
//!     optional element    definition + 1
//!     repeated element    definition + 1, repetition + 1
//!
//! and in terms of nodes, where `d` and `r` are the levels of what contains the node:
//!
//!     any node            definition = d + 1 when it may be NULL, else d
//!     list, map           repetition = r + 1, element_definition = definition + 1;
//!                         its children are contained at these two levels
//!     structure           its children are contained at its definition and at r
//!     leaf                max_definition = definition, max_repetition = r
//!
//! A list is one node though the file spends two or three elements on it, so the levels follow
//! from `nullable` and the shape alone; footer.zig stores nothing else.
//!
//! Lists are recognised by the rules of the format's LogicalTypes text. In a group marked LIST with
//! one repeated child, the child is the element itself when it is primitive, has several fields,
//! has one field that is repeated, or has one field and is called `array` or `<list>_tuple`; else
//! its only field is. A repeated field outside such a group is a list that is never NULL, of
//! elements that are never NULL. A MAP whose entries have no value is a list of its keys. A marked
//! group that has none of these shapes is a structure. Groups without a primitive inside have no
//! bytes in the file and are left out, as other readers do.
const std = @import("std");
const abi = @import("../../abi.zig");
const interrupt = @import("../../core/interrupt.zig");
const metadata = @import("metadata.zig");
const schema = @import("../../core/schema.zig");
const thrift = @import("thrift.zig");
const Arena = @import("../../core/arena.zig").Arena;
const assert = std.debug.assert;
const DataType = schema.DataType;
const Leaf = metadata.Leaf;
const Node = metadata.Node;
const PhysicalType = metadata.PhysicalType;

pub const Error = error{ InvalidFormat, NotSupported, OutOfMemory };

/// Elements of a schema. Ten times the columns that anyone was seen to write.
pub const element_count_max = 1 << 18;
/// Bytes of a value of fixed length. NULLs take as many, and so would a claim without a value.
pub const fixed_size_max = 1 << 24;

pub const Tree = struct {
    nodes: []const Node,
    leaves: []const Leaf,
};

pub const Repetition = enum(u8) { required = 0, optional = 1, repeated = 2 };

/// What an element says about its values: LogicalType and ConvertedType brought together.
pub const Annotation = struct {
    kind: Kind = .none,
    unit: schema.TimeUnit = .second,
    utc: bool = false,
    bit_width: i32 = 0,
    signed: bool = false,
    precision: i32 = 0,
    scale: i32 = 0,

    pub const Kind = enum {
        none,
        /// STRING, ENUM, JSON
        text,
        bson,
        list,
        map,
        decimal,
        date,
        time,
        timestamp,
        integer,
        null,
        uuid,
        float16,
        interval,
        variant,
        /// Known or unknown to us, its values have no order that we have.
        unordered,
    };
};

/// A SchemaElement as it stands in the footer.
pub const Element = struct {
    name: []const u8 = "",
    /// Null for groups.
    physical: ?PhysicalType = null,
    type_length: i32 = 0,
    repetition: Repetition = .required,
    child_count: u32 = 0,
    annotation: Annotation = .{},

    fn is_leaf(self: *const Element) bool {
        return self.physical != null and self.child_count == 0;
    }
};

// ---- elements ----

const element_kinds = [_]thrift.Kind{ .none, .int, .int, .int, .binary, .int, .int, .int, .int, .none, .structure };

/// The name points into the reader's bytes.
pub fn read_element(reader: *thrift.Reader) Error!Element {
    var element: Element = .{};
    var converted: ?i32 = null;
    var logical: ?Annotation = null;
    var precision: i32 = 0;
    var scale: i32 = 0;
    var fields = reader.structure();
    while (try fields.next_field()) |field| switch (field.known(&element_kinds)) {
        1 => element.physical = try read_enum(PhysicalType, reader, field.type, "physical type"),
        2 => element.type_length = try reader.read_int(i32, field.type),
        3 => element.repetition = try read_enum(Repetition, reader, field.type, "repetition"),
        4 => element.name = try reader.read_binary(field.type),
        5 => element.child_count = try read_child_count(reader, field.type),
        6 => converted = try reader.read_int(i32, field.type),
        7 => scale = try reader.read_int(i32, field.type),
        8 => precision = try reader.read_int(i32, field.type),
        10 => logical = try read_logical(reader, field.type),
        else => try reader.skip(field.type),
    };
    const old: ?Annotation = if (converted) |number| converted_annotation(number, precision, scale) else null;
    // A logical type that we do not know may come with an older name that we do.
    element.annotation = logical orelse old orelse .{};
    if (element.annotation.kind == .unordered) element.annotation = old orelse element.annotation;
    if (!std.unicode.utf8ValidateSlice(element.name)) return invalid("a column's name is not valid UTF-8");
    if (element.name.len > std.math.maxInt(u16)) return unsupported("a column's name is longer than 65535 bytes");
    return element;
}

fn read_enum(comptime E: type, reader: *thrift.Reader, field_type: thrift.Type, comptime what: []const u8) Error!E {
    const number = try reader.read_int(i32, field_type);
    const narrow = std.math.cast(u8, number) orelse return invalid("an unknown " ++ what);
    return std.enums.fromInt(E, narrow) orelse invalid("an unknown " ++ what);
}

fn read_child_count(reader: *thrift.Reader, field_type: thrift.Type) Error!u32 {
    const count = try reader.read_int(i32, field_type);
    return std.math.cast(u32, count) orelse invalid("a group of the schema has a negative number of fields");
}

fn converted_annotation(number: i32, precision: i32, scale: i32) ?Annotation {
    return switch (number) {
        0, 4, 19 => .{ .kind = .text },
        // MAP_KEY_VALUE stands on the map itself in old files, and on its entries in others, where
        // nobody looks at it.
        1, 2 => .{ .kind = .map },
        3 => .{ .kind = .list },
        5 => .{ .kind = .decimal, .precision = precision, .scale = scale },
        6 => .{ .kind = .date },
        7 => .{ .kind = .time, .unit = .millisecond, .utc = true },
        8 => .{ .kind = .time, .unit = .microsecond, .utc = true },
        9 => .{ .kind = .timestamp, .unit = .millisecond, .utc = true },
        10 => .{ .kind = .timestamp, .unit = .microsecond, .utc = true },
        11...14 => .{ .kind = .integer, .bit_width = @as(i32, 8) << @intCast(number - 11), .signed = false },
        15...18 => .{ .kind = .integer, .bit_width = @as(i32, 8) << @intCast(number - 15), .signed = true },
        20 => .{ .kind = .bson },
        21 => .{ .kind = .interval },
        // Never in the format's text, but written by old parquet-cpp.
        24 => .{ .kind = .null },
        else => null,
    };
}

/// A union: one field, whose id is the kind.
fn read_logical(reader: *thrift.Reader, field_type: thrift.Type) Error!Annotation {
    try reader.expect(field_type, .structure);
    var result: Annotation = .{ .kind = .unordered };
    var fields = reader.structure();
    while (try fields.next_field()) |field| {
        const kind: Annotation.Kind = switch (field.id) {
            1, 4, 12 => .text,
            2 => .map,
            3 => .list,
            5 => .decimal,
            6 => .date,
            7 => .time,
            8 => .timestamp,
            10 => .integer,
            11 => .null,
            13 => .bson,
            14 => .uuid,
            15 => .float16,
            16 => .variant,
            else => .unordered,
        };
        switch (kind) {
            .decimal => try read_decimal(reader, field.type, &result),
            .time, .timestamp => try read_time(reader, field.type, &result),
            .integer => try read_integer(reader, field.type, &result),
            else => try reader.skip(field.type),
        }
        result.kind = kind;
    }
    // A unit that came after ours: the values are numbers, and that is all we know.
    if ((result.kind == .time or result.kind == .timestamp) and result.unit == .second) result.kind = .unordered;
    return result;
}

fn read_decimal(reader: *thrift.Reader, field_type: thrift.Type, result: *Annotation) Error!void {
    try reader.expect(field_type, .structure);
    var fields = reader.structure();
    while (try fields.next_field()) |field| switch (field.id) {
        1 => result.scale = try reader.read_int(i32, field.type),
        2 => result.precision = try reader.read_int(i32, field.type),
        else => try reader.skip(field.type),
    };
}

fn read_integer(reader: *thrift.Reader, field_type: thrift.Type, result: *Annotation) Error!void {
    try reader.expect(field_type, .structure);
    var fields = reader.structure();
    while (try fields.next_field()) |field| switch (field.id) {
        1 => result.bit_width = try reader.read_int(i32, field.type),
        2 => result.signed = try reader.read_bool(field.type),
        else => try reader.skip(field.type),
    };
}

fn read_time(reader: *thrift.Reader, field_type: thrift.Type, result: *Annotation) Error!void {
    try reader.expect(field_type, .structure);
    var fields = reader.structure();
    while (try fields.next_field()) |field| switch (field.id) {
        1 => result.utc = try reader.read_bool(field.type),
        2 => result.unit = try read_unit(reader, field.type),
        else => try reader.skip(field.type),
    };
}

/// `second`, which the format does not have, stands for a unit that we do not know.
fn read_unit(reader: *thrift.Reader, field_type: thrift.Type) Error!schema.TimeUnit {
    try reader.expect(field_type, .structure);
    var unit: schema.TimeUnit = .second;
    var fields = reader.structure();
    while (try fields.next_field()) |field| {
        unit = switch (field.id) {
            1 => .millisecond,
            2 => .microsecond,
            3 => .nanosecond,
            else => .second,
        };
        try reader.skip(field.type);
    }
    return unit;
}

// ---- leaves ----

/// Whether an annotation may stand on such values. Those that lie about it are not read: both widths
/// and meaning would be a guess.
fn belongs(element: *const Element) bool {
    const annotation = element.annotation;
    const physical = element.physical.?;
    return switch (annotation.kind) {
        .date => physical == .int32,
        .time => physical == .int32 or physical == .int64,
        .timestamp => physical == .int64 or physical == .int96,
        .integer => switch (annotation.bit_width) {
            8, 16, 32 => physical == .int32,
            64 => physical == .int64,
            else => true,
        },
        else => true,
    };
}

/// How the values of one leaf become ours.
const Value = struct {
    type: DataType,
    conversion: metadata.Conversion = .none,
    ordered: bool = true,
};

fn leaf_value(element: *const Element) Value {
    const annotation = element.annotation;
    if (annotation.kind == .null) return .{ .type = .of(.null), .ordered = false };
    if (annotation.kind == .decimal) {
        if (decimal_value(element)) |value| return value;
    }
    return switch (element.physical.?) {
        .boolean => plain_value(.bool, annotation),
        .int32 => int32_value(annotation),
        .int64 => int64_value(annotation),
        .int96 => .{ .type = .{ .tag = .timestamp, .unit = .microsecond }, .conversion = .int96, .ordered = false },
        .float => plain_value(.f32, annotation),
        .double => plain_value(.f64, annotation),
        .byte_array => plain_value(if (annotation.kind == .text) .utf8 else .binary, annotation),
        .fixed_len_byte_array => fixed_value(element),
    };
}

/// The physical type as it is. An annotation that does not belong there, or that we do not know,
/// leaves the order of the values open.
fn plain_value(tag: schema.TypeTag, annotation: Annotation) Value {
    return .{ .type = .of(tag), .ordered = switch (annotation.kind) {
        .none, .text, .bson, .uuid => true,
        else => false,
    } };
}

fn int32_value(annotation: Annotation) Value {
    switch (annotation.kind) {
        .date => return .{ .type = .of(.date) },
        .time => if (annotation.unit == .millisecond) return .{
            .type = .{ .tag = .time, .unit = .millisecond },
            .conversion = .widen,
        },
        .integer => switch (annotation.bit_width) {
            8 => return .{ .type = .of(if (annotation.signed) .i8 else .u8), .conversion = .narrow },
            16 => return .{ .type = .of(if (annotation.signed) .i16 else .u16), .conversion = .narrow },
            32 => return .{ .type = .of(if (annotation.signed) .i32 else .u32) },
            else => {},
        },
        else => {},
    }
    return plain_value(.i32, annotation);
}

fn int64_value(annotation: Annotation) Value {
    switch (annotation.kind) {
        .time => if (annotation.unit != .millisecond) return .{ .type = .{ .tag = .time, .unit = annotation.unit } },
        .timestamp => return .{ .type = .{
            .tag = .timestamp,
            .unit = annotation.unit,
            .zone = if (annotation.utc) "UTC" else "",
        } },
        .integer => if (annotation.bit_width == 64) return .{ .type = .of(if (annotation.signed) .i64 else .u64) },
        else => {},
    }
    return plain_value(.i64, annotation);
}

fn fixed_value(element: *const Element) Value {
    const width: u32 = @intCast(element.type_length);
    switch (element.annotation.kind) {
        .float16 => if (width == 2) return .{ .type = .of(.f16), .conversion = .float16 },
        // Intervals stay their twelve bytes, as in Arrow: nothing orders or adds them.
        else => {},
    }
    var value = plain_value(.fixed_binary, element.annotation);
    value.type.width = width;
    return value;
}

/// Null where the numbers make no sense.
fn decimal_value(element: *const Element) ?Value {
    const precision = element.annotation.precision;
    const scale = element.annotation.scale;
    if (precision < 1) return null;
    if (precision > schema.decimal_precision_max) return wide_decimal(element);
    if (scale < 0 or scale > precision) return null;
    const narrow = precision <= schema.decimal_precision_narrow;
    return .{
        .type = .{ .tag = .decimal, .precision = @intCast(precision), .scale = @intCast(scale) },
        .conversion = switch (element.physical.?) {
            .int32 => if (narrow) .widen else .widen_i128,
            .int64 => if (narrow) .none else .widen_i128,
            .byte_array, .fixed_len_byte_array => .big_endian,
            .boolean, .int96, .float, .double => return null,
        },
    };
}

/// What the decoders rely on: this conversion makes that type out of that physical one.
pub fn leaf_is_sound(leaf: *const Leaf) bool {
    const physical = leaf.physical;
    if ((physical == .fixed_len_byte_array) != (leaf.type_length != 0)) return false;
    if (leaf.type_length > fixed_size_max) return false;
    if (leaf.type.is_nested()) return false;
    const tag = leaf.type.tag;
    const is_narrow = tag == .decimal and leaf.type.precision <= schema.decimal_precision_narrow;
    return switch (leaf.conversion) {
        .none => tag == .null or switch (physical) {
            .boolean => tag == .bool,
            .int32 => tag == .i32 or tag == .u32 or tag == .date,
            .int64 => tag == .i64 or tag == .u64 or tag == .time or tag == .timestamp or is_narrow,
            .int96 => false,
            .float => tag == .f32,
            .double => tag == .f64,
            .byte_array => tag == .utf8 or tag == .binary,
            .fixed_len_byte_array => tag == .fixed_binary and leaf.type.width == leaf.type_length,
        },
        .narrow => physical == .int32 and (tag == .i8 or tag == .i16 or tag == .u8 or tag == .u16),
        .widen => physical == .int32 and (tag == .time or is_narrow),
        .big_endian => tag == .decimal and (physical == .byte_array or physical == .fixed_len_byte_array),
        .int96 => physical == .int96 and tag == .timestamp and leaf.type.unit == .microsecond,
        .unsupported => switch (physical) {
            .byte_array => tag == .binary,
            .fixed_len_byte_array => tag == .fixed_binary and leaf.type.width == leaf.type_length,
            else => false,
        },
        .widen_i128 => (physical == .int32 or physical == .int64) and tag == .decimal and !is_narrow,
        .float16 => leaf.type_length == 2 and tag == .f16,
    };
}

/// Other columns of the file can be read, this one is refused when somebody asks for it.
fn wide_decimal(element: *const Element) ?Value {
    return switch (element.physical.?) {
        .byte_array => .{ .type = .of(.binary), .conversion = .unsupported, .ordered = false },
        .fixed_len_byte_array => .{
            .type = .{ .tag = .fixed_binary, .width = @intCast(element.type_length) },
            .conversion = .unsupported,
            .ordered = false,
        },
        else => null,
    };
}

// ---- nodes ----

/// Of what contains a node.
const Levels = struct {
    definition: u8 = 0,
    repetition: u8 = 0,

    fn optional(self: Levels) Levels {
        return .{ .definition = self.definition + 1, .repetition = self.repetition };
    }

    fn repeated(self: Levels) Levels {
        return .{ .definition = self.definition + 1, .repetition = self.repetition + 1 };
    }
};

/// Names, types, nodes and leaves are in `arena` or point into the elements' bytes.
pub fn build(arena: std.mem.Allocator, elements: []const Element) Error!Tree {
    if (elements.len == 0) return invalid("the footer has no schema");
    if (elements.len > element_count_max) return unsupported("the schema has too many elements");
    var builder: Builder = .{ .arena = arena, .elements = elements[1..] };
    const nodes = try builder.fields(elements[0].child_count, .{}, 0);
    if (builder.position != builder.elements.len) return invalid("the schema has elements that belong to no group");
    if (nodes.len > abi.column_count_max) return unsupported("the file has more than 65535 columns");
    return .{ .nodes = nodes, .leaves = builder.leaves.items };
}

const Builder = struct {
    arena: std.mem.Allocator,
    /// Without the root.
    elements: []const Element,
    position: usize = 0,
    leaves: std.ArrayList(Leaf) = .empty,

    fn take(self: *Builder) Error!*const Element {
        if (self.position == self.elements.len) return invalid("a group of the schema has more fields than there are");
        defer self.position += 1;
        return &self.elements[self.position];
    }

    fn peek(self: *const Builder) ?*const Element {
        return if (self.position == self.elements.len) null else &self.elements[self.position];
    }

    /// The next `count` elements with all that is below them; groups of nothing are left out.
    fn fields(self: *Builder, count: u32, levels: Levels, depth: u32) Error![]const Node {
        var nodes: std.ArrayList(Node) = .empty;
        for (0..count) |_| {
            if (try self.field(levels, depth)) |node| try nodes.append(self.arena, node);
        }
        return nodes.items;
    }

    /// The next element, in the light of its repetition.
    fn field(self: *Builder, levels: Levels, depth: u32) Error!?Node {
        const element = try self.take();
        switch (element.repetition) {
            .required => return self.content(element, levels, false, depth),
            .optional => return self.content(element, levels.optional(), true, depth),
            .repeated => {
                const item = try self.content(element, levels.repeated(), false, depth + 1) orelse return null;
                return try self.list_node(element.name, levels, false, item);
            },
        }
    }

    /// `levels` are those of the node itself; its fields, if any, are next.
    fn content(self: *Builder, element: *const Element, levels: Levels, nullable: bool, depth: u32) Error!?Node {
        if (depth > abi.type_depth_max) return unsupported("the columns of the file are nested too deep");
        if (element.is_leaf()) return try self.leaf(element, levels, nullable);
        const child = self.peek();
        const holds_repeated = element.child_count == 1 and child != null and child.?.repetition == .repeated;
        if (holds_repeated) switch (element.annotation.kind) {
            .list => return self.list(element, levels, nullable, depth),
            .map => return self.map(element, levels, nullable, depth),
            else => {},
        };
        return self.structure(element, levels, nullable, depth);
    }

    fn leaf(self: *Builder, element: *const Element, levels: Levels, nullable: bool) Error!Node {
        const is_fixed = element.physical.? == .fixed_len_byte_array;
        if (is_fixed and element.type_length < 1) return invalid("a column of fixed length has no length");
        if (is_fixed and element.type_length > fixed_size_max)
            return unsupported("a column of fixed length has values of more than 16 MiB");
        if (!belongs(element)) return invalid("a column's logical type does not fit its physical one");
        const value = leaf_value(element);
        const index = self.leaves.items.len;
        try self.leaves.append(self.arena, .{
            .physical = element.physical.?,
            .type_length = if (is_fixed) @intCast(element.type_length) else 0,
            .conversion = value.conversion,
            .max_definition = levels.definition,
            .max_repetition = levels.repetition,
            .type = value.type,
            .ordered = value.ordered,
        });
        assert(leaf_is_sound(&self.leaves.items[index]));
        return .{
            .name = element.name,
            .type = value.type,
            .definition = levels.definition,
            .nullable = nullable,
            .leaf_first = @intCast(index),
            .leaf_count = 1,
        };
    }

    fn structure(self: *Builder, element: *const Element, levels: Levels, nullable: bool, depth: u32) Error!?Node {
        const children = try self.fields(element.child_count, levels, depth + 1);
        if (children.len == 0) return null;
        if (children.len > std.math.maxInt(u16)) return unsupported("a group of the schema has more than 65535 fields");
        return .{
            .name = element.name,
            .type = try structure_type(self.arena, children),
            .definition = levels.definition,
            .nullable = nullable,
            .leaf_first = children[0].leaf_first,
            .leaf_count = leaf_count_of(children),
            .children = children,
        };
    }

    fn list(self: *Builder, element: *const Element, levels: Levels, nullable: bool, depth: u32) Error!?Node {
        const repeated = try self.take();
        const inner = levels.repeated();
        const item = if (self.is_list_element(repeated, element.name))
            try self.content(repeated, inner, false, depth + 1)
        else
            try self.field(inner, depth + 1);
        return try self.list_node(element.name, levels, nullable, item orelse return null);
    }

    fn is_list_element(self: *const Builder, repeated: *const Element, list_name: []const u8) bool {
        if (repeated.child_count != 1) return true;
        const only = self.peek() orelse return true;
        if (only.repetition == .repeated) return true;
        if (std.mem.eql(u8, repeated.name, "array")) return true;
        const suffix = "_tuple";
        return repeated.name.len == list_name.len + suffix.len and
            std.mem.startsWith(u8, repeated.name, list_name) and std.mem.endsWith(u8, repeated.name, suffix);
    }

    fn map(self: *Builder, element: *const Element, levels: Levels, nullable: bool, depth: u32) Error!?Node {
        if (self.peek().?.child_count != 2) return self.list(element, levels, nullable, depth);
        _ = try self.take();
        const entries = try self.fields(2, levels.repeated(), depth + 1);
        return switch (entries.len) {
            0 => null,
            // The value was a group of nothing, or the key: what is left is a list.
            1 => try self.list_node(element.name, levels, nullable, entries[0]),
            else => try self.map_node(element.name, levels, nullable, entries),
        };
    }

    fn list_node(self: *Builder, name: []const u8, levels: Levels, nullable: bool, item: Node) Error!Node {
        const children = try self.arena.alloc(Node, 1);
        children[0] = item;
        children[0].name = "item";
        return container(name, try list_type(self.arena, item.type), levels, nullable, children);
    }

    fn map_node(self: *Builder, name: []const u8, levels: Levels, nullable: bool, entries: []const Node) Error!Node {
        const children = try self.arena.dupe(Node, entries);
        children[0].name = "key";
        children[1].name = "value";
        return container(name, try map_type(self.arena, children), levels, nullable, children);
    }
};

/// A list or a map whose own definition is that of `levels`.
fn container(name: []const u8, data_type: DataType, levels: Levels, nullable: bool, children: []const Node) Node {
    const inner = levels.repeated();
    return .{
        .name = name,
        .type = data_type,
        .definition = levels.definition,
        .repetition = inner.repetition,
        .element_definition = inner.definition,
        .nullable = nullable,
        .leaf_first = children[0].leaf_first,
        .leaf_count = leaf_count_of(children),
        .children = children,
    };
}

fn leaf_count_of(nodes: []const Node) u32 {
    var count: u32 = 0;
    for (nodes) |node| count += node.leaf_count;
    return count;
}

fn list_type(arena: std.mem.Allocator, item: DataType) error{OutOfMemory}!DataType {
    return .{ .tag = .list, .children = try arena.dupe(schema.Field, &.{.{ .name = "item", .type = item }}) };
}

fn map_type(arena: std.mem.Allocator, entries: []const Node) error{OutOfMemory}!DataType {
    return .{ .tag = .map, .children = try arena.dupe(schema.Field, &.{
        .{ .name = "key", .type = entries[0].type },
        .{ .name = "value", .type = entries[1].type },
    }) };
}

fn structure_type(arena: std.mem.Allocator, children: []const Node) error{OutOfMemory}!DataType {
    const named = try arena.alloc(schema.Field, children.len);
    for (named, children) |*to, from| to.* = .{ .name = from.name, .type = from.type };
    return .{ .tag = .structure, .children = named };
}

fn invalid(comptime words: []const u8) error{InvalidFormat} {
    @branchHint(.cold);
    interrupt.describe(words, .{});
    return error.InvalidFormat;
}

fn unsupported(comptime words: []const u8) error{NotSupported} {
    @branchHint(.cold);
    interrupt.describe(words, .{});
    return error.NotSupported;
}

// ---- tests ----

const testing = std.testing;

fn group(name: []const u8, repetition: Repetition, child_count: u32, kind: Annotation.Kind) Element {
    return .{ .name = name, .repetition = repetition, .child_count = child_count, .annotation = .{ .kind = kind } };
}

fn primitive(name: []const u8, repetition: Repetition, physical: PhysicalType) Element {
    return .{ .name = name, .repetition = repetition, .physical = physical };
}

/// Types as text, with `!` behind what may not be NULL.
fn print_node(writer: *std.Io.Writer, node: *const Node) std.Io.Writer.Error!void {
    switch (node.type.tag) {
        .list, .map => |tag| {
            try writer.print("{s}<", .{@tagName(tag)});
            for (node.children, 0..) |*child, index| {
                if (index > 0) try writer.writeAll(", ");
                try print_node(writer, child);
            }
            try writer.writeAll(">");
        },
        .structure => {
            try writer.writeAll("{");
            for (node.children, 0..) |*child, index| {
                if (index > 0) try writer.writeAll(", ");
                try writer.print("{s}: ", .{child.name});
                try print_node(writer, child);
            }
            try writer.writeAll("}");
        },
        else => |tag| try writer.writeAll(@tagName(tag)),
    }
    if (!node.nullable) try writer.writeAll("!");
}

fn expect_column(elements: []const Element, wanted: []const u8) !void {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const all = try std.mem.concat(arena.allocator(), Element, &.{ &.{group("root", .required, 1, .none)}, elements });
    const tree = try build(arena.allocator(), all);
    var buffer: [500]u8 = undefined;
    var writer: std.Io.Writer = .fixed(&buffer);
    for (tree.nodes) |*node| try print_node(&writer, node);
    try testing.expectEqualStrings(wanted, writer.buffered());
}

test "lists of the three-level form" {
    try expect_column(&.{
        group("l", .optional, 1, .list),
        group("list", .repeated, 1, .none),
        primitive("element", .optional, .int32),
    }, "list<i32>");
    try expect_column(&.{
        group("l", .required, 1, .list),
        group("bag", .repeated, 1, .none),
        group("array_element", .optional, 1, .list),
        group("bag", .repeated, 1, .none),
        primitive("array_element", .required, .byte_array),
    }, "list<list<binary!>>!");
}

test "lists of the older forms" {
    try expect_column(&.{ group("l", .optional, 1, .list), primitive("element", .repeated, .int32) }, "list<i32!>");
    try expect_column(&.{
        group("l", .optional, 1, .list),
        group("element", .repeated, 2, .none),
        primitive("a", .required, .int32),
        primitive("b", .optional, .double),
    }, "list<{a: i32!, b: f64}!>");
    inline for (.{ "array", "l_tuple" }) |name| try expect_column(&.{
        group("l", .optional, 1, .list),
        group(name, .repeated, 1, .none),
        primitive("a", .optional, .int32),
    }, "list<{a: i32}!>");
    try expect_column(&.{
        group("l", .optional, 1, .list),
        group("m_tuple", .repeated, 1, .none),
        primitive("a", .optional, .int32),
    }, "list<i32>");
    // A list of lists without a word about the inner elements.
    try expect_column(&.{
        group("a", .required, 1, .list),
        group("array", .repeated, 1, .list),
        primitive("array", .repeated, .int32),
    }, "list<list<i32!>!>!");
    try expect_column(&.{
        group("a", .optional, 1, .list),
        group("element", .repeated, 1, .none),
        primitive("x", .repeated, .int32),
    }, "list<{x: list<i32!>!}!>");
}

test "repeated fields without a list around them" {
    try expect_column(&.{primitive("l", .repeated, .int64)}, "list<i64!>!");
    try expect_column(&.{
        group("s", .optional, 1, .none),
        group("phone", .repeated, 2, .none),
        primitive("number", .required, .int64),
        primitive("kind", .optional, .byte_array),
    }, "{phone: list<{number: i64!, kind: binary}!>!}");
    try expect_column(&.{
        group("l", .repeated, 1, .list),
        group("list", .repeated, 1, .none),
        primitive("element", .optional, .int32),
    }, "list<list<i32>!>!");
}

test "maps" {
    try expect_column(&.{
        group("m", .optional, 1, .map),
        group("key_value", .repeated, 2, .none),
        primitive("key", .required, .byte_array),
        primitive("value", .optional, .int32),
    }, "map<binary!, i32>");
    try expect_column(&.{
        group("m", .required, 1, .map),
        group("map", .repeated, 2, .map),
        primitive("k", .optional, .int32),
        group("v", .optional, 1, .list),
        group("list", .repeated, 1, .none),
        primitive("element", .optional, .int32),
    }, "map<i32, list<i32>>!");
    try expect_column(&.{
        group("m", .required, 1, .map),
        group("key_value", .repeated, 1, .none),
        primitive("key", .required, .int32),
    }, "list<i32!>!");
}

test "marks that do not fit, and groups of nothing" {
    try expect_column(&.{ group("l", .optional, 1, .list), primitive("x", .optional, .int32) }, "{x: i32}");
    try expect_column(&.{
        group("m", .optional, 2, .map),
        primitive("x", .repeated, .int32),
        primitive("y", .optional, .int32),
    }, "{x: list<i32!>!, y: i32}");
    try expect_column(&.{ group("s", .optional, 1, .none), group("inner", .optional, 0, .none) }, "");
    try expect_column(&.{
        group("m", .required, 1, .map),
        group("key_value", .repeated, 2, .none),
        primitive("key", .required, .int32),
        group("value", .optional, 0, .none),
    }, "list<i32!>!");
}

test "levels" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const tree = try build(arena.allocator(), &.{
        group("root", .repeated, 2, .none),
        primitive("id", .required, .int64),
        group("l", .optional, 1, .list),
        group("list", .repeated, 1, .none),
        group("element", .optional, 2, .none),
        primitive("a", .required, .int32),
        primitive("b", .repeated, .int32),
    });
    try testing.expectEqual(2, tree.nodes.len);
    try testing.expectEqual(3, tree.leaves.len);
    const list = tree.nodes[1];
    try testing.expectEqual(.{ 1, 1, 2 }, .{ list.definition, list.repetition, list.element_definition });
    try testing.expectEqual(.{ 1, 2 }, .{ list.leaf_first, list.leaf_count });
    const item = list.children[0];
    try testing.expectEqual(.{ 3, true }, .{ item.definition, item.nullable });
    const b = item.children[1];
    try testing.expectEqual(.{ 3, 2, 4 }, .{ b.definition, b.repetition, b.element_definition });
    for (tree.leaves, [_][2]u8{ .{ 0, 0 }, .{ 3, 1 }, .{ 4, 2 } }) |leaf, wanted| {
        try testing.expectEqual(wanted, .{ leaf.max_definition, leaf.max_repetition });
    }
}

test "schemas that lie are refused" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    defer interrupt.forget();
    try testing.expectError(error.InvalidFormat, build(arena.allocator(), &.{}));
    try testing.expectError(
        error.InvalidFormat,
        build(arena.allocator(), &.{group("r", .required, 1_000_000_000, .none)}),
    );
    try testing.expectError(error.InvalidFormat, build(arena.allocator(), &.{
        group("r", .required, 1, .none),
        primitive("a", .required, .int32),
        primitive("b", .required, .int32),
    }));
    try testing.expectError(error.InvalidFormat, build(arena.allocator(), &.{
        group("r", .required, 1, .none),
        primitive("a", .required, .fixed_len_byte_array),
    }));
    var deep: [100]Element = @splat(group("g", .optional, 1, .none));
    deep[99] = primitive("x", .required, .int32);
    try testing.expectError(error.NotSupported, build(arena.allocator(), &deep));
    deep[33] = primitive("x", .required, .int32);
    const tree = try build(arena.allocator(), deep[0..34]);
    try testing.expectEqual(32, tree.leaves[0].max_definition);
}

test "types of leaves" {
    const Case = struct { PhysicalType, i32, Annotation, schema.TypeTag, metadata.Conversion, bool };
    const cases = [_]Case{
        .{ .boolean, 0, .{}, .bool, .none, true },
        .{ .int32, 0, .{}, .i32, .none, true },
        .{ .int32, 0, .{ .kind = .integer, .bit_width = 8, .signed = true }, .i8, .narrow, true },
        .{ .int32, 0, .{ .kind = .integer, .bit_width = 16 }, .u16, .narrow, true },
        .{ .int32, 0, .{ .kind = .integer, .bit_width = 64 }, .i32, .none, false },
        .{ .int32, 0, .{ .kind = .date }, .date, .none, true },
        .{ .int32, 0, .{ .kind = .time, .unit = .millisecond }, .time, .widen, true },
        .{ .int32, 0, .{ .kind = .decimal, .precision = 9, .scale = 2 }, .decimal, .widen, true },
        .{ .int32, 0, .{ .kind = .decimal, .precision = 20, .scale = 2 }, .decimal, .widen_i128, true },
        .{ .int64, 0, .{ .kind = .decimal, .precision = 18 }, .decimal, .none, true },
        .{ .int64, 0, .{ .kind = .decimal, .precision = 19 }, .decimal, .widen_i128, true },
        .{ .int64, 0, .{ .kind = .decimal, .precision = 0 }, .i64, .none, false },
        .{ .int64, 0, .{ .kind = .integer, .bit_width = 64 }, .u64, .none, true },
        .{ .int64, 0, .{ .kind = .timestamp, .unit = .nanosecond, .utc = true }, .timestamp, .none, true },
        .{ .int64, 0, .{ .kind = .integer, .bit_width = 64, .signed = true }, .i64, .none, true },
        .{ .int64, 0, .{ .kind = .time, .unit = .millisecond }, .i64, .none, false },
        .{ .int96, 0, .{}, .timestamp, .int96, false },
        .{ .int96, 0, .{ .kind = .decimal, .precision = 9 }, .timestamp, .int96, false },
        .{ .byte_array, 0, .{ .kind = .text }, .utf8, .none, true },
        .{ .byte_array, 0, .{ .kind = .bson }, .binary, .none, true },
        .{ .byte_array, 0, .{ .kind = .unordered }, .binary, .none, false },
        .{ .byte_array, 0, .{ .kind = .decimal, .precision = 77, .scale = 38 }, .binary, .unsupported, false },
        .{ .byte_array, 0, .{ .kind = .decimal, .precision = 38, .scale = 38 }, .decimal, .big_endian, true },
        .{ .fixed_len_byte_array, 5, .{ .kind = .decimal, .precision = 11, .scale = 1 }, .decimal, .big_endian, true },
        .{ .fixed_len_byte_array, 32, .{ .kind = .decimal, .precision = 76 }, .fixed_binary, .unsupported, false },
        .{ .fixed_len_byte_array, 16, .{ .kind = .uuid }, .fixed_binary, .none, true },
        .{ .fixed_len_byte_array, 2, .{ .kind = .float16 }, .f16, .float16, true },
        .{ .fixed_len_byte_array, 3, .{ .kind = .float16 }, .fixed_binary, .none, false },
        .{ .fixed_len_byte_array, 12, .{ .kind = .interval }, .fixed_binary, .none, false },
        .{ .int32, 0, .{ .kind = .null }, .null, .none, false },
        .{ .fixed_len_byte_array, 3, .{ .kind = .null }, .null, .none, false },
    };
    for (cases) |case| {
        const element: Element = .{ .physical = case[0], .type_length = case[1], .annotation = case[2] };
        const value = leaf_value(&element);
        try testing.expectEqual(.{ case[3], case[4], case[5] }, .{ value.type.tag, value.conversion, value.ordered });
        try testing.expect(leaf_is_sound(&.{
            .physical = case[0],
            .type_length = if (case[0] == .fixed_len_byte_array) @intCast(case[1]) else 0,
            .conversion = value.conversion,
            .max_definition = 0,
            .max_repetition = 0,
            .type = value.type,
        }));
    }
}

test read_element {
    // optional byte_array "ab", converted UTF8, logical STRING
    const text = [_]u8{ 0x15, 12, 0x25, 2, 0x18, 2, 'a', 'b', 0x25, 0, 0x4C, 0x1C, 0x00, 0x00, 0x00 };
    var reader: thrift.Reader = .init(&text);
    const element = try read_element(&reader);
    try testing.expectEqualStrings("ab", element.name);
    try testing.expectEqual(
        .{ .byte_array, .optional, .text },
        .{ element.physical.?, element.repetition, element.annotation.kind },
    );
    // int64, converted TIMESTAMP_MICROS, logical TIMESTAMP(not UTC, nanoseconds): the logical one wins
    const time = [_]u8{ 0x15, 4, 0x55, 20, 0x4C, 0x8C, 0x12, 0x1C, 0x3C, 0x00, 0x00, 0x00, 0x00, 0x00 };
    reader = .init(&time);
    const stamp = (try read_element(&reader)).annotation;
    try testing.expectEqual(.{ .timestamp, .nanosecond, false }, .{ stamp.kind, stamp.unit, stamp.utc });
    // An unknown logical type beside a converted one.
    const unknown = [_]u8{ 0x15, 12, 0x55, 0, 0x4C, 0x0C, 0x78, 0x00, 0x00, 0x00 };
    reader = .init(&unknown);
    try testing.expectEqual(.text, (try read_element(&reader)).annotation.kind);
    defer interrupt.forget();
    reader = .init(&.{ 0x48, 1, 0xFF, 0x00 });
    try testing.expectError(error.InvalidFormat, read_element(&reader));
    reader = .init(&.{ 0x15, 20, 0x00 });
    try testing.expectError(error.InvalidFormat, read_element(&reader));
}
