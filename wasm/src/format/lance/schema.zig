//! The tree of fields of a Lance table or file: from protocol buffers, and in the form that the host keeps.
//!
//!     Field       1 kind  2 name  3 id  4 parent's id, -1 for none  5 logical type  6 nullable
//!                 8 dictionary {1 offset, 2 length}  10 metadata {1 key, 2 value}; parents come before children
//!     record      i32 id │ u8 flags │ u16 size, name │ u16 size, logical type │ u16 children │
//!                 u8 has dictionary [ u64 offset, u64 length ]            then its children's, each the same way
//!
//! The host stores records, hands them over with every fragment and never looks into them. Fields are known by
//! their ids: a file says which ids it has, so columns may be renamed, dropped and added without writing a file.
const std = @import("std");
const abi = @import("../../abi.zig");
const interrupt = @import("../../core/interrupt.zig");
const protobuf = @import("protobuf.zig");
const schema = @import("../../core/schema.zig");
const types = @import("types.zig");
const Arena = @import("../../core/arena.zig").Arena;
const Cursor = @import("../../core/cursor.zig").Cursor;
const DataType = schema.DataType;
const Writer = @import("protobuf_writer.zig").Writer;

pub const Error = error{ InvalidFormat, NotSupported, OutOfMemory };

/// More are refused before anything is made of them.
pub const field_count_max = 1 << 20;
/// Id, flags, three sizes, has dictionary.
const record_size_min = 12;

/// Where a dictionary's values lie in the file that holds the schema. Of 0.1 alone.
pub const Dictionary = struct { offset: u64, length: u64 };

pub const Flags = packed struct(u8) {
    nullable: bool = true,
    /// Its values are blobs: what is stored are their places.
    blob: bool = false,
    unused: u6 = 0,
};

pub const Node = struct {
    id: i32,
    flags: Flags,
    name: []const u8,
    logical_type: []const u8,
    dictionary: ?Dictionary = null,
    children: []const Node = &.{},

    /// Our type of the field and all below it. What has none is called binary, and refused when it is read.
    pub fn data_type(self: *const Node, arena: std.mem.Allocator) Error!DataType {
        return self.type_at(arena, 0);
    }

    fn type_at(self: *const Node, arena: std.mem.Allocator, depth: u32) Error!DataType {
        if (depth >= abi.type_depth_max) return too_deep();
        if (self.flags.blob) return .of(.binary);
        const kind = types.parse(arena, self.logical_type) catch |reason| switch (reason) {
            // The others can be read: only who asks for this one is told why it cannot.
            error.NotSupported => return .of(.binary),
            else => return reason,
        };
        if (kind == .leaf) return kind.leaf.type;
        const fields = try arena.alloc(schema.Field, self.children.len);
        for (fields, self.children) |*field, *child|
            field.* = .{ .name = child.name, .type = try child.type_at(arena, depth + 1) };
        if (kind == .structure) return .{ .tag = .structure, .children = fields };
        if (fields.len != 1)
            return refuse(
                "the field {s} of the type {s} has {d} children",
                .{ self.name, self.logical_type, fields.len },
            );
        if (kind != .map) {
            fields[0].name = "item";
            return .{ .tag = .list, .children = fields };
        }
        const entries = fields[0].type;
        if (entries.tag != .structure or entries.children.len != 2)
            return refuse("the map {s} has no keys and values", .{self.name});
        const pair = try arena.dupe(schema.Field, entries.children);
        pair[0].name = "key";
        pair[1].name = "value";
        return .{ .tag = .map, .children = pair };
    }
};

// ---- from protocol buffers ----

/// A field as its message has it: its children are found by their parent's id.
const Raw = struct {
    parent: i32 = 0,
    node: Node = .{ .id = 0, .flags = .{ .nullable = false }, .name = "", .logical_type = "" },
    first_child: u32 = none,
    last_child: u32 = none,
    next: u32 = none,
    child_count: u32 = 0,

    const none = std.math.maxInt(u32);
};

/// The top-level fields of a schema. Texts point into the messages.
pub fn from_messages(arena: std.mem.Allocator, messages: []const []const u8) Error![]const Node {
    @setRuntimeSafety(true);
    if (messages.len > field_count_max) return refuse("a schema of {d} fields", .{messages.len});
    const raws = try arena.alloc(Raw, messages.len);
    var numbers: std.AutoHashMapUnmanaged(i32, u32) = .empty;
    try numbers.ensureTotalCapacity(arena, @intCast(messages.len));
    var root: Raw = .{};
    for (raws, messages, 0..) |*raw, message, i| {
        raw.* = try read_field(.init(message));
        const parent = if (raw.parent == -1) &root else &raws[
            numbers.get(raw.parent) orelse
                return refuse("the field {s} comes before its parent {d}", .{ raw.node.name, raw.parent })
        ];
        const found = numbers.getOrPutAssumeCapacity(raw.node.id);
        if (found.found_existing) return refuse("two fields of a schema have the id {d}", .{raw.node.id});
        const index: u32 = @intCast(i);
        found.value_ptr.* = index;
        if (parent.last_child == Raw.none) parent.first_child = index else raws[parent.last_child].next = index;
        parent.last_child = index;
        parent.child_count += 1;
    }
    return children_of(arena, raws, &root, 0);
}

fn children_of(arena: std.mem.Allocator, raws: []const Raw, parent: *const Raw, depth: u32) Error![]const Node {
    if (parent.child_count == 0) return &.{};
    if (depth >= abi.type_depth_max) return too_deep();
    if (parent.child_count > std.math.maxInt(u16)) {
        interrupt.describe("{d} fields side by side; no more than 65,535 are read", .{parent.child_count});
        return error.NotSupported;
    }
    const nodes = try arena.alloc(Node, parent.child_count);
    var next = parent.first_child;
    for (nodes) |*node| {
        node.* = raws[next].node;
        node.children = try children_of(arena, raws, &raws[next], depth + 1);
        next = raws[next].next;
    }
    return nodes;
}

fn read_field(message: protobuf.Message) Error!Raw {
    @setRuntimeSafety(true);
    var fields = message;
    var raw: Raw = .{};
    while (try fields.next()) |field| switch (field.number) {
        2 => raw.node.name = try field.text(),
        3 => raw.node.id = try field.int(i32),
        4 => raw.parent = try field.int(i32),
        5 => raw.node.logical_type = try field.text(),
        6 => raw.node.flags.nullable = try field.boolean(),
        8 => raw.node.dictionary = try read_dictionary(try field.message()),
        10 => if (try is_blob_mark(try field.message())) {
            raw.node.flags.blob = true;
        },
        else => {},
    };
    const longest = std.math.maxInt(u16);
    if (raw.node.name.len > longest or raw.node.logical_type.len > longest)
        return refuse("a field's name of {d} bytes", .{raw.node.name.len});
    if (raw.node.id < 0) return refuse("the field {s} has the id {d}", .{ raw.node.name, raw.node.id });
    return raw;
}

fn read_dictionary(message: protobuf.Message) Error!Dictionary {
    var fields = message;
    var found: Dictionary = .{ .offset = 0, .length = 0 };
    while (try fields.next()) |field| switch (field.number) {
        1 => found.offset = try field.int(u64),
        2 => found.length = try field.int(u64),
        else => {},
    };
    return found;
}

fn is_blob_mark(message: protobuf.Message) Error!bool {
    var fields = message;
    var key: []const u8 = "";
    var value: []const u8 = "";
    while (try fields.next()) |field| switch (field.number) {
        1 => key = try field.bytes(),
        2 => value = try field.bytes(),
        else => {},
    };
    if (std.mem.eql(u8, key, "lance-encoding:blob")) return std.mem.eql(u8, value, "true");
    return std.mem.eql(u8, key, "ARROW:extension:name") and std.mem.eql(u8, value, "lance.blob.v2");
}

// ---- the host's form ----

/// Adds the records of these fields, in preorder.
pub fn write(target: *std.ArrayList(u8), gpa: std.mem.Allocator, nodes: []const Node) error{OutOfMemory}!void {
    for (nodes) |*node| {
        const head_size = record_size_min + node.name.len + node.logical_type.len;
        try target.ensureUnusedCapacity(gpa, head_size + @sizeOf(Dictionary));
        put(target, i32, node.id);
        put(target, u8, @bitCast(node.flags));
        for ([_][]const u8{ node.name, node.logical_type }) |text| {
            put(target, u16, @intCast(text.len));
            target.appendSliceAssumeCapacity(text);
        }
        put(target, u16, @intCast(node.children.len));
        put(target, u8, @intFromBool(node.dictionary != null));
        if (node.dictionary) |dictionary| {
            put(target, u64, dictionary.offset);
            put(target, u64, dictionary.length);
        }
        try write(target, gpa, node.children);
    }
}

fn put(target: *std.ArrayList(u8), comptime T: type, value: T) void {
    std.mem.writeInt(T, target.addManyAsArrayAssumeCapacity(@sizeOf(T)), value, .little);
}

/// The top-level fields of records. Texts point into them.
pub fn read(arena: std.mem.Allocator, records: []const u8) Error![]const Node {
    @setRuntimeSafety(true);
    var cursor: Cursor = .init(records);
    var nodes: std.ArrayList(Node) = .empty;
    while (cursor.remaining() > 0) try nodes.append(arena, try read_record(arena, &cursor, 0));
    return nodes.items;
}

fn read_record(arena: std.mem.Allocator, cursor: *Cursor, depth: u32) Error!Node {
    @setRuntimeSafety(true);
    if (depth >= abi.type_depth_max) return too_deep();
    var node: Node = .{
        .id = try cursor.read_int(i32),
        .flags = @bitCast(try cursor.read_int(u8)),
        .name = try schema.read_name(cursor),
        .logical_type = try schema.read_name(cursor),
    };
    const child_count = try cursor.read_int(u16);
    if (try cursor.read_flag()) {
        node.dictionary = .{ .offset = try cursor.read_int(u64), .length = try cursor.read_int(u64) };
    }
    if (child_count > cursor.remaining() / record_size_min) return refuse("a schema is cut short", .{});
    const children = try arena.alloc(Node, child_count);
    for (children) |*child| child.* = try read_record(arena, cursor, depth + 1);
    node.children = children;
    return node;
}

/// Names and types of fields, as plans spell them: u16 size, name, type.
pub fn write_columns(target: *std.ArrayList(u8), arena: std.mem.Allocator, nodes: []const Node) Error!void {
    for (nodes, 0..) |*node, i| {
        const data_type = node.data_type(arena) catch |reason| {
            interrupt.describe_column(@intCast(i));
            return reason;
        };
        const size = std.math.cast(usize, schema.type_parameters_size(data_type)) orelse return error.OutOfMemory;
        try target.ensureUnusedCapacity(arena, 3 + node.name.len + size);
        put(target, u16, @intCast(node.name.len));
        target.appendSliceAssumeCapacity(node.name);
        put(target, u8, @backingInt(data_type.tag));
        _ = schema.write_type_parameters(target.addManyAsSliceAssumeCapacity(size), data_type);
    }
}

fn too_deep() Error {
    interrupt.describe("fields lie more than {d} deep in each other", .{abi.type_depth_max});
    return error.NotSupported;
}

fn refuse(comptime format: []const u8, arguments: anytype) error{InvalidFormat} {
    interrupt.describe(format, arguments);
    return error.InvalidFormat;
}

// ---- tests ----

const testing = std.testing;

/// A message of a field, for tests here and beside.
pub const TestField = struct {
    name: []const u8,
    id: i32,
    parent: i32 = -1,
    type: []const u8,

    pub fn write_to(self: TestField, writer: *Writer) void {
        writer.text(2, self.name);
        writer.int(3, self.id);
        writer.int(4, self.parent);
        writer.text(5, self.type);
        writer.int(6, 1);
    }
};

fn messages_of(arena: std.mem.Allocator, fields: []const TestField) ![]const []const u8 {
    const messages = try arena.alloc([]const u8, fields.len);
    for (messages, fields) |*message, field| {
        var writer: Writer = .init(arena);
        field.write_to(&writer);
        message.* = writer.bytes();
    }
    return messages;
}

test "a tree there and back" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const memory = arena.allocator();
    const messages = try messages_of(memory, &.{
        .{ .name = "id", .id = 0, .type = "int64" },
        .{ .name = "point", .id = 3, .type = "struct" },
        .{ .name = "tags", .id = 1, .type = "list" },
        .{ .name = "x", .id = 4, .parent = 3, .type = "double" },
        .{ .name = "item", .id = 2, .parent = 1, .type = "string" },
        .{ .name = "y", .id = 5, .parent = 3, .type = "double" },
        .{ .name = "pairs", .id = 6, .type = "map" },
        .{ .name = "entries", .id = 7, .parent = 6, .type = "struct" },
        .{ .name = "k", .id = 8, .parent = 7, .type = "string" },
        .{ .name = "v", .id = 9, .parent = 7, .type = "int32" },
        .{ .name = "nothing", .id = 10, .type = "struct" },
    });
    const nodes = try from_messages(memory, messages);
    try testing.expectEqual(5, nodes.len);
    try testing.expectEqualStrings("y", nodes[1].children[1].name);
    var records: std.ArrayList(u8) = .empty;
    try write(&records, memory, nodes);
    const back = try read(memory, records.items);
    try testing.expectEqualDeep(nodes, back);
    try testing.expectEqual(.list, (try back[2].data_type(memory)).tag);
    const map = try back[3].data_type(memory);
    try testing.expectEqualStrings("value", map.children[1].name);
    try testing.expectEqual(.i32, map.children[1].type.tag);
    try testing.expectEqual(0, (try back[4].data_type(memory)).children.len);
    for (0..records.items.len) |size| {
        const cut = read(memory, records.items[0..size]) catch continue;
        try testing.expect(cut.len < nodes.len);
    }
    defer interrupt.forget();
}

test "trees that cannot be" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const memory = arena.allocator();
    defer interrupt.forget();
    const cases = [_][]const TestField{
        &.{.{ .name = "x", .id = 1, .parent = 0, .type = "int64" }},
        &.{.{ .name = "x", .id = 1, .parent = 1, .type = "int64" }},
        &.{ .{ .name = "x", .id = 1, .type = "int64" }, .{ .name = "y", .id = 1, .type = "int64" } },
        &.{.{ .name = "x", .id = -1, .type = "int64" }},
    };
    for (cases) |fields| {
        try testing.expectError(error.InvalidFormat, from_messages(memory, try messages_of(memory, fields)));
    }
    var deep: [40]TestField = undefined;
    for (&deep, 0..) |*field, i| {
        field.* = .{ .name = "d", .id = @intCast(i), .parent = @as(i32, @intCast(i)) - 1, .type = "struct" };
    }
    try testing.expectError(error.NotSupported, from_messages(memory, try messages_of(memory, &deep)));
    const shapeless = try from_messages(memory, try messages_of(memory, &.{
        .{ .name = "l", .id = 0, .type = "list" },
        .{ .name = "a", .id = 1, .parent = 0, .type = "int64" },
        .{ .name = "b", .id = 2, .parent = 0, .type = "int64" },
    }));
    try testing.expectError(error.InvalidFormat, shapeless[0].data_type(memory));
}
