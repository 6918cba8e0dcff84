//! What a manifest's file holds besides the manifest: the table's indices, and the transaction that made it.
//!
//!     input            u32 size │ message │ what follows is not looked at
//!     IndexSection     1 indices: 1 uuid {1 bytes}  2 fields  3 name  4 dataset version  5 fragments, a Roaring
//!                      bitmap  6 details {1 type, 2 value}  7 version  9 base  10 files {1 path, 2 size}
//!     Transaction      1 read version  2 uuid  4 properties {1 key, 2 value}  100 … what it did, a field each
//!
//!     indices          "QMLI" │ u32 1 │ u32 count │ of each: 16 bytes uuid │ u64 dataset version │ i32 version │
//!                      u32 base │ u32 count, i32 fields │ name │ type of details │ details │ bitmap │
//!                      u32 count, files (path, u64 size)
//!     transaction      "QMLT" │ u32 1 │ u64 read version │ u32 number of what it did │ uuid │ u32 count, pairs
//!
//! A text is its u32 size and its bytes; nothing is aligned, since both are small and read once.
const std = @import("std");
const interrupt = @import("../../core/interrupt.zig");
const manifest = @import("manifest.zig");
const protobuf = @import("protobuf.zig");
const Arena = @import("../../core/arena.zig").Arena;
const Error = manifest.Error;
const Message = protobuf.Message;
const Writer = @import("protobuf_writer.zig").Writer;

/// The answer and everything on the way to it are in `arena`.
pub fn indices(arena: std.mem.Allocator, input: []const u8) Error![]const u8 {
    @setRuntimeSafety(true);
    var target: Target = .{ .arena = arena };
    try target.bytes("QMLI");
    try target.int(u32, 1);
    const count_at = try target.count();
    var section: Message = .init(try manifest.framed(input));
    var count: u32 = 0;
    while (try section.next()) |field| if (field.number == 1) {
        try interrupt.check();
        try read_index(&target, try field.message());
        count += 1;
    };
    target.set_count(count_at, count);
    return target.list.items;
}

fn read_index(target: *Target, message: Message) Error!void {
    @setRuntimeSafety(true);
    var uuid: [16]u8 = @splat(0);
    var name: []const u8 = "";
    var dataset_version: u64 = 0;
    var bitmap: []const u8 = "";
    var details: [2][]const u8 = .{ "", "" };
    var index_version: i32 = 0;
    var base: u32 = manifest.no_base;
    var index = message;
    while (try index.next()) |field| switch (field.number) {
        1 => uuid = try read_uuid(try field.message()),
        3 => name = try field.text(),
        4 => dataset_version = try field.int(u64),
        5 => bitmap = try field.bytes(),
        6 => details = try read_pair(try field.message()),
        7 => index_version = try field.int(i32),
        9 => base = try field.int(u32),
        else => {},
    };
    try target.bytes(&uuid);
    try target.int(u64, dataset_version);
    try target.int(i32, index_version);
    try target.int(u32, base);
    const field_count_at = try target.count();
    var field_count: u32 = 0;
    index = message;
    while (try index.next()) |field| if (field.number == 2) {
        var ids = try field.ints(i32);
        while (try ids.next()) |id| : (field_count += 1) try target.int(i32, id);
    };
    target.set_count(field_count_at, field_count);
    for ([_][]const u8{ name, details[0], details[1], bitmap }) |text| try target.text(text);
    const file_count_at = try target.count();
    var file_count: u32 = 0;
    index = message;
    while (try index.next()) |field| if (field.number == 10) {
        var file = try field.message();
        var path: []const u8 = "";
        var size: u64 = 0;
        while (try file.next()) |part| switch (part.number) {
            1 => path = try part.text(),
            2 => size = try part.int(u64),
            else => {},
        };
        try target.text(path);
        try target.int(u64, size);
        file_count += 1;
    };
    target.set_count(file_count_at, file_count);
}

fn read_uuid(message: Message) Error![16]u8 {
    var fields = message;
    while (try fields.next()) |field| if (field.number == 1) {
        const found = try field.bytes();
        if (found.len == 16) return found[0..16].*;
    };
    interrupt.describe("an index has no uuid", .{});
    return error.InvalidFormat;
}

fn read_pair(message: Message) Error![2][]const u8 {
    var fields = message;
    var found: [2][]const u8 = .{ "", "" };
    while (try fields.next()) |field| switch (field.number) {
        1, 2 => found[field.number - 1] = try field.bytes(),
        else => {},
    };
    return found;
}

pub fn transaction(arena: std.mem.Allocator, input: []const u8) Error![]const u8 {
    @setRuntimeSafety(true);
    const body = try manifest.framed(input);
    var read_version: u64 = 0;
    var operation: u32 = 0;
    var uuid: []const u8 = "";
    var fields: Message = .init(body);
    while (try fields.next()) |field| switch (field.number) {
        1 => read_version = try field.int(u64),
        2 => uuid = try field.text(),
        100...199 => operation = field.number,
        else => {},
    };
    var target: Target = .{ .arena = arena };
    try target.bytes("QMLT");
    try target.int(u32, 1);
    try target.int(u64, read_version);
    try target.int(u32, operation);
    try target.text(uuid);
    const count_at = try target.count();
    var count: u32 = 0;
    fields = .init(body);
    while (try fields.next()) |field| if (field.number == 4) {
        for (try read_pair(try field.message())) |text| try target.text(text);
        count += 1;
    };
    target.set_count(count_at, count);
    return target.list.items;
}

const Target = struct {
    arena: std.mem.Allocator,
    list: std.ArrayList(u8) = .empty,

    fn bytes(self: *Target, source: []const u8) Error!void {
        try self.list.appendSlice(self.arena, source);
    }

    fn int(self: *Target, comptime T: type, value: T) Error!void {
        try self.bytes(&std.mem.toBytes(std.mem.nativeToLittle(T, value)));
    }

    fn text(self: *Target, source: []const u8) Error!void {
        try self.int(u32, @intCast(source.len));
        try self.bytes(source);
    }

    /// Where a count will stand.
    fn count(self: *Target) Error!usize {
        try self.int(u32, 0);
        return self.list.items.len - 4;
    }

    fn set_count(self: *Target, at: usize, value: u32) void {
        std.mem.writeInt(u32, self.list.items[at..][0..4], value, .little);
    }
};

// ---- tests ----

fn framed(arena: std.mem.Allocator, writer: *const Writer) ![]u8 {
    const size = std.mem.toBytes(@as(u32, @intCast(writer.bytes().len)));
    return std.mem.concat(arena, u8, &.{ &size, writer.bytes(), "more" });
}

fn sample_indices(memory: std.mem.Allocator) ![]u8 {
    var uuid: Writer = .init(memory);
    uuid.text(1, "0123456789abcdef");
    var details: Writer = .init(memory);
    details.text(1, "/lance.table.ZoneMapIndexDetails");
    details.text(2, "D");
    var file: Writer = .init(memory);
    file.text(1, "zonemap.lance");
    file.int(2, 300);
    var index: Writer = .init(memory);
    index.message(1, &uuid);
    index.ints(2, &.{ 3, 4 });
    index.text(3, "zones");
    index.int(4, 9);
    index.text(5, "B");
    index.message(6, &details);
    index.int(7, -1);
    index.message(10, &file);
    var section: Writer = .init(memory);
    section.message(1, &index);
    return framed(memory, &section);
}

test indices {
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    const memory = arena.allocator();
    const found = try indices(memory, try sample_indices(memory));
    try std.testing.expectEqualStrings("QMLI\x01\x00\x00\x00\x01\x00\x00\x00" ++
        "0123456789abcdef\x09\x00\x00\x00\x00\x00\x00\x00" ++
        "\xff\xff\xff\xff\xff\xff\xff\xff\x02\x00\x00\x00\x03\x00\x00\x00\x04\x00\x00\x00\x05\x00\x00\x00zones" ++
        "\x20\x00\x00\x00/lance.table.ZoneMapIndexDetails\x01\x00\x00\x00D\x01\x00\x00\x00B\x01\x00\x00\x00" ++
        "\x0d\x00\x00\x00zonemap.lance\x2c\x01\x00\x00\x00\x00\x00\x00", found);
}

test transaction {
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    const memory = arena.allocator();
    var pair: Writer = .init(memory);
    pair.text(1, "k");
    pair.text(2, "v");
    var writer: Writer = .init(memory);
    writer.int(1, 6);
    writer.text(2, "an id");
    writer.message(4, &pair);
    writer.text(102, "");
    const found = try transaction(memory, try framed(memory, &writer));
    try std.testing.expectEqualStrings("QMLT\x01\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00\x66\x00\x00\x00" ++
        "\x05\x00\x00\x00an id\x01\x00\x00\x00\x01\x00\x00\x00k\x01\x00\x00\x00v", found);
}

test "mutated sections" {
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    var kept: Arena = .init(std.testing.allocator);
    defer kept.deinit();
    defer interrupt.forget();
    const original = try sample_indices(kept.allocator());
    const copy = try kept.allocator().dupe(u8, original);
    var prng: std.Random.DefaultPrng = .init(7);
    const random = prng.random();
    for (0..3000) |_| {
        @memcpy(copy, original);
        for (0..3) |_| copy[random.uintLessThan(usize, copy.len)] = random.int(u8);
        _ = indices(arena.allocator(), copy) catch {};
        _ = transaction(arena.allocator(), copy) catch {};
        _ = arena.reset(.retain_capacity);
    }
}
