//! Protocol buffers, read from untrusted bytes: manifests, footers, descriptions of pages.
//!
//!     message     field …
//!     field       varint (number << 3 | wire type), and its value:
//!                 0 varint of at most ten bytes   1 eight bytes   2 varint size and bytes   5 four bytes
//!
//! A message is read by asking for its fields; those that nobody knows are passed over by asking for the next:
//!
//!     var message: Message = .init(bytes);
//!     while (try message.next()) |field| switch (field.number) {
//!         1 => id = try field.int(u64),
//!         2 => try files.append(arena, try field.bytes()),
//!         else => {},
//!     };
//!
//! A reader says which kind of value it wants and refuses another. Every field takes at least two bytes, so
//! work is bounded by the size of the input whatever it says; messages inside of messages are bytes until
//! somebody reads them, so depth is the reader's own business.
const std = @import("std");
const interrupt = @import("../../core/interrupt.zig");

pub const Error = error{InvalidFormat};

const WireType = enum(u3) { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5, _ };

pub const Field = struct {
    number: u32,
    value: union(enum) {
        varint: u64,
        fixed64: u64,
        bytes: []const u8,
        fixed32: u32,
    },

    /// An integer that `T` can hold. Negative ones are written as 64 bits, whatever their type.
    pub fn int(self: Field, comptime T: type) Error!T {
        const raw = switch (self.value) {
            .varint, .fixed64 => |value| value,
            .fixed32 => |value| value,
            .bytes => return refuse("field {d} is no number", .{self.number}),
        };
        const found = if (@typeInfo(T).int.signedness == .signed)
            std.math.cast(T, @as(i64, @bitCast(raw)))
        else
            std.math.cast(T, raw);
        return found orelse refuse("field {d} is beyond its range", .{self.number});
    }

    pub fn boolean(self: Field) Error!bool {
        return try self.int(u64) != 0;
    }

    pub fn bytes(self: Field) Error![]const u8 {
        return switch (self.value) {
            .bytes => |value| value,
            else => refuse("field {d} is a number where a text or a message belongs", .{self.number}),
        };
    }

    pub fn text(self: Field) Error![]const u8 {
        const found = try self.bytes();
        if (!std.unicode.utf8ValidateSlice(found)) return refuse("field {d} is not UTF-8", .{self.number});
        return found;
    }

    pub fn message(self: Field) Error!Message {
        return .init(try self.bytes());
    }

    /// The numbers of a repeated field, which come packed or one by one.
    pub fn ints(self: Field, comptime T: type) Error!Ints(T) {
        return switch (self.value) {
            .bytes => |value| .{ .rest = .init(value) },
            else => .{ .single = try self.int(T) },
        };
    }
};

pub fn Ints(comptime T: type) type {
    return struct {
        single: ?T = null,
        rest: Message = .init(""),

        pub fn next(self: *@This()) Error!?T {
            if (self.single) |found| {
                self.single = null;
                return found;
            }
            if (self.rest.is_at_end()) return null;
            const field: Field = .{ .number = 0, .value = .{ .varint = try self.rest.varint() } };
            return try field.int(T);
        }
    };
}

pub const Message = struct {
    bytes: []const u8,
    position: usize = 0,

    pub fn init(bytes: []const u8) Message {
        return .{ .bytes = bytes };
    }

    pub fn is_at_end(self: *const Message) bool {
        return self.position == self.bytes.len;
    }

    /// Null behind the last one.
    pub fn next(self: *Message) Error!?Field {
        @setRuntimeSafety(true);
        if (self.is_at_end()) return null;
        const key = try self.varint();
        const number = std.math.cast(u29, key >> 3) orelse return refuse("a field's number is beyond its range", .{});
        if (number == 0) return refuse("a field has the number 0", .{});
        const wire_type: WireType = @fromBackingInt(@intCast(@as(u3, @truncate(key))));
        return .{ .number = number, .value = switch (wire_type) {
            .varint => .{ .varint = try self.varint() },
            .fixed64 => .{ .fixed64 = std.mem.readInt(u64, (try self.take(8))[0..8], .little) },
            .bytes => .{ .bytes = try self.take(try self.varint()) },
            .fixed32 => .{ .fixed32 = std.mem.readInt(u32, (try self.take(4))[0..4], .little) },
            _ => return refuse("field {d} is of a kind that there is not", .{number}),
        } };
    }

    fn take(self: *Message, size: u64) Error![]const u8 {
        @setRuntimeSafety(true);
        if (size > self.bytes.len - self.position) return refuse("a message is cut short", .{});
        const start = self.position;
        self.position += @intCast(size);
        return self.bytes[start..self.position];
    }

    pub fn varint(self: *Message) Error!u64 {
        @setRuntimeSafety(true);
        var value: u64 = 0;
        for (0..10) |i| {
            const byte = (try self.take(1))[0];
            if (i == 9 and byte > 1) break;
            value |= @as(u64, byte & 0x7F) << @intCast(7 * i);
            if (byte < 0x80) return value;
        }
        return refuse("a number has more than 64 bits", .{});
    }
};

fn refuse(comptime format: []const u8, arguments: anytype) Error {
    interrupt.describe(format, arguments);
    return error.InvalidFormat;
}

test Message {
    var message: Message = .init(&.{
        0x08, 0x96, 0x01, // 1: 150
        0x12, 0x02, 'a', 'b', // 2: "ab"
        0x1A, 0x03, 0x01, 0xAC, 0x02, // 3: packed 1, 300
        0x21, 1, 0, 0, 0, 0, 0, 0, 0x80, // 4: fixed64
        0x2D, 7, 0, 0, 0, // 5: fixed32
        0x30, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01, // 6: -1
    });
    try std.testing.expectEqual(150, try (try message.next()).?.int(u8));
    try std.testing.expectEqualStrings("ab", try (try message.next()).?.text());
    var numbers = try (try message.next()).?.ints(u16);
    try std.testing.expectEqual(1, try numbers.next());
    try std.testing.expectEqual(300, try numbers.next());
    try std.testing.expectEqual(null, try numbers.next());
    const fixed = (try message.next()).?;
    try std.testing.expectEqual(0x8000_0000_0000_0001, try fixed.int(u64));
    try std.testing.expectError(error.InvalidFormat, fixed.int(u32));
    try std.testing.expectError(error.InvalidFormat, fixed.bytes());
    try std.testing.expectEqual(7, try (try message.next()).?.int(u32));
    const last = (try message.next()).?;
    try std.testing.expectEqual(-1, try last.int(i32));
    try std.testing.expectError(error.InvalidFormat, last.int(u32));
    try std.testing.expectEqual(null, try message.next());
}

test "what is no message" {
    const cases = [_][]const u8{
        &.{0x08}, // no value
        &.{ 0x08, 0x80 }, // a number that does not end
        &.{ 0x00, 0x01 }, // field 0
        &.{ 0x0B, 0x01 }, // a group
        &.{ 0x12, 0x03, 'a' }, // shorter than it says
        &.{ 0x12, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01 },
        &.{ 0x08, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02 }, // 65 bits
    };
    for (cases) |bytes| {
        var message: Message = .init(bytes);
        try std.testing.expectError(error.InvalidFormat, message.next());
    }
    defer interrupt.forget();
}
