//! The data files that a manifest lists, by column: paths, sizes, versions, and which fields each of them has.
//!
//! Fragments of a table mostly have the same fields in the same columns. Such lists are kept once; a file has its
//! list's number, and a list that is spelt like the one before is not even read.
const std = @import("std");
const interrupt = @import("../../core/interrupt.zig");
const manifest = @import("manifest.zig");
const protobuf = @import("protobuf.zig");
const Error = manifest.Error;
const Message = protobuf.Message;
const Pool = manifest.Pool;
const Text = manifest.Text;

/// A field of a file, and its column; -1 where it has none, as in files of the first version.
pub const Entry = extern struct { field: i32, column: i32 };

pub const Files = struct {
    path: std.ArrayList(Text) = .empty,
    /// 0 where it is not known.
    size: std.ArrayList(u64) = .empty,
    base: std.ArrayList(u32) = .empty,
    version: std.ArrayList(u32) = .empty,
    list: std.ArrayList(u32) = .empty,
    lists: Lists = .{},
    has_base: bool = false,
    has_legacy: bool = false,

    pub fn reserve(self: *Files, arena: std.mem.Allocator, file_count: usize) Error!void {
        inline for (.{ "path", "size", "base", "version", "list" }) |name|
            try @field(self, name).ensureTotalCapacityPrecise(arena, file_count);
    }

    pub fn count(self: *const Files) u32 {
        return @intCast(self.path.items.len);
    }

    pub fn has_unknown_size(self: *const Files, first: u32) bool {
        return std.mem.indexOfScalar(u64, self.size.items[first..], 0) != null;
    }

    /// One that has no name.
    pub fn add(
        self: *Files,
        arena: std.mem.Allocator,
        pool: *Pool,
        size: u64,
        version: u32,
        entries: []const Entry,
    ) Error!void {
        self.path.appendAssumeCapacity(try pool.add(""));
        self.size.appendAssumeCapacity(size);
        self.base.appendAssumeCapacity(manifest.no_base);
        self.version.appendAssumeCapacity(version);
        self.list.appendAssumeCapacity(try self.lists.add(arena, entries));
    }

    /// Returns its size.
    pub fn read(self: *Files, arena: std.mem.Allocator, pool: *Pool, message: Message) Error!u64 {
        @setRuntimeSafety(true);
        var fields = message;
        var path: []const u8 = "";
        var size: u64 = 0;
        var base: u32 = manifest.no_base;
        var major: u16 = 0;
        var minor: u16 = 0;
        var spelt: Spelt = .{};
        while (try fields.next()) |field| switch (field.number) {
            1 => path = try field.text(),
            2 => spelt.fields.note(field),
            3 => spelt.columns.note(field),
            4 => major = try field.int(u16),
            5 => minor = try field.int(u16),
            6 => size = try field.int(u64),
            7 => base = try field.int(u32),
            else => {},
        };
        if (path.len == 0) return refuse("a data file has no name", .{});
        const is_legacy = major == 0 and minor <= 2;
        const is_known = is_legacy or (major == 0 and minor == 3) or (major == 2 and minor <= 2);
        if (!is_known) {
            interrupt.describe(
                "the data file {s} is of Lance's version {d}.{d}; those up to 2.2 are read",
                .{ shown(path), major, minor },
            );
            return error.NotSupported;
        }
        self.path.appendAssumeCapacity(try pool.add(path));
        self.size.appendAssumeCapacity(size);
        self.base.appendAssumeCapacity(base);
        self.version.appendAssumeCapacity(@as(u32, major) << 16 | minor);
        self.list.appendAssumeCapacity(try self.lists.number_of(arena, message, spelt, is_legacy));
        self.has_base = self.has_base or base != manifest.no_base;
        self.has_legacy = self.has_legacy or is_legacy;
        return size;
    }
};

/// The fields and columns of a file as its message has them: runs of packed numbers, mostly one of each.
const Spelt = struct {
    fields: Run = .{},
    columns: Run = .{},

    const Run = struct {
        bytes: []const u8 = "",
        /// How often the field came; more than one, or numbers that are not packed, are not compared.
        parts: u32 = 0,

        fn is_same(self: Run, other: Run) bool {
            return self.parts <= 1 and other.parts <= 1 and std.mem.eql(u8, self.bytes, other.bytes);
        }

        fn note(self: *Run, field: protobuf.Field) void {
            self.parts += if (field.value == .bytes) 1 else 2;
            if (field.value == .bytes) self.bytes = field.value.bytes;
        }
    };
};

pub const Lists = struct {
    entries: std.ArrayList(Entry) = .empty,
    /// Where each list ends.
    ends: std.ArrayList(u32) = .empty,
    /// Lists by their entries.
    known: std.StringHashMapUnmanaged(u32) = .empty,
    fields: std.ArrayList(i32) = .empty,
    columns: std.ArrayList(i32) = .empty,
    last: ?struct { spelt: Spelt, is_legacy: bool, number: u32 } = null,

    fn number_of(self: *Lists, arena: std.mem.Allocator, message: Message, spelt: Spelt, is_legacy: bool) Error!u32 {
        if (self.last) |last| if (last.is_legacy == is_legacy and
            last.spelt.fields.is_same(spelt.fields) and last.spelt.columns.is_same(spelt.columns)) return last.number;
        const found = try self.read(arena, message, is_legacy);
        self.last = .{ .spelt = spelt, .is_legacy = is_legacy, .number = found };
        return found;
    }

    fn read(self: *Lists, arena: std.mem.Allocator, message: Message, is_legacy: bool) Error!u32 {
        @setRuntimeSafety(true);
        self.fields.clearRetainingCapacity();
        self.columns.clearRetainingCapacity();
        var parts = message;
        while (try parts.next()) |field| {
            if (field.number != 2 and field.number != 3) continue;
            const target = if (field.number == 2) &self.fields else &self.columns;
            var numbers = try field.ints(i32);
            while (try numbers.next()) |number| try target.append(arena, number);
        }
        if (!is_legacy and self.columns.items.len != self.fields.items.len)
            return refuse(
                "a data file has {d} fields in {d} columns",
                .{ self.fields.items.len, self.columns.items.len },
            );
        const entries = try arena.alloc(Entry, self.fields.items.len);
        for (entries, self.fields.items, 0..) |*entry, field, i|
            entry.* = .{ .field = field, .column = if (is_legacy) -1 else self.columns.items[i] };
        return self.add(arena, entries);
    }

    /// The number of a list that is known by its entries.
    pub fn add(self: *Lists, arena: std.mem.Allocator, entries: []const Entry) Error!u32 {
        @setRuntimeSafety(true);
        const found = try self.known.getOrPut(arena, std.mem.sliceAsBytes(entries));
        if (!found.found_existing) {
            found.value_ptr.* = @intCast(self.ends.items.len);
            try self.entries.appendSlice(arena, entries);
            try self.ends.append(arena, @intCast(self.entries.items.len));
        }
        return found.value_ptr.*;
    }

    /// Where each list begins, and behind the last one the end.
    pub fn firsts(self: *const Lists, arena: std.mem.Allocator) Error![]const u32 {
        const found = try arena.alloc(u32, self.ends.items.len + 1);
        found[0] = 0;
        @memcpy(found[1..], self.ends.items);
        return found;
    }
};

fn shown(path: []const u8) []const u8 {
    return path[0..@min(path.len, 80)];
}

fn refuse(comptime format: []const u8, arguments: anytype) error{InvalidFormat} {
    interrupt.describe(format, arguments);
    return error.InvalidFormat;
}

const Arena = @import("../../core/arena.zig").Arena;
const Writer = @import("protobuf_writer.zig").Writer;

test "lists are shared however they are spelt" {
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    const memory = arena.allocator();
    var plain: Writer = .init(memory);
    plain.text(1, "a");
    plain.ints(2, &.{ 4, -2 });
    plain.ints(3, &.{ 0, -1 });
    plain.int(4, 2);
    var odd: Writer = .init(memory);
    odd.text(1, "b");
    odd.int(2, 4);
    odd.ints(3, &.{0});
    odd.ints(2, &.{-2});
    odd.int(3, -1);
    odd.int(4, 2);
    odd.int(5, 1);
    odd.int(7, 3);
    var other: Writer = .init(memory);
    other.text(1, "c");
    other.ints(2, &.{4});
    other.ints(3, &.{0});
    other.int(4, 2);
    var pool: Pool = .{ .arena = memory };
    var files: Files = .{};
    try files.reserve(memory, 5);
    for ([_]*const Writer{ &plain, &odd, &other, &plain, &plain }) |writer|
        _ = try files.read(memory, &pool, .init(writer.bytes()));
    try std.testing.expectEqualSlices(u32, &.{ 0, 0, 1, 0, 0 }, files.list.items);
    try std.testing.expectEqualSlices(u32, &.{ 0, 2, 3 }, try files.lists.firsts(memory));
    try std.testing.expect(files.has_base and !files.has_legacy);
    try std.testing.expectEqual(2 << 16 | 1, files.version.items[1]);
}
