//! Reads little endian values from untrusted bytes. Every read is checked; running off the end
//! or meeting an undeclared enum value is `error.InvalidFormat`.
const std = @import("std");

pub const Cursor = struct {
    bytes: []const u8,
    position: usize = 0,

    pub fn init(bytes: []const u8) Cursor {
        return .{ .bytes = bytes };
    }

    pub fn remaining(self: *const Cursor) usize {
        return self.bytes.len - self.position;
    }

    pub fn read_bytes(self: *Cursor, size: u64) error{InvalidFormat}![]const u8 {
        if (size > self.remaining()) return error.InvalidFormat;
        const start = self.position;
        self.position += @intCast(size);
        return self.bytes[start..self.position];
    }

    pub fn read_int(self: *Cursor, comptime T: type) error{InvalidFormat}!T {
        const bytes = try self.read_bytes(@sizeOf(T));
        return std.mem.readInt(T, bytes[0..@sizeOf(T)], .little);
    }

    pub fn read_enum(self: *Cursor, comptime E: type) error{InvalidFormat}!E {
        const value = try self.read_int(@typeInfo(E).@"enum".tag_type);
        return std.enums.fromInt(E, value) orelse error.InvalidFormat;
    }

    /// A byte that may only be 0 or 1.
    pub fn read_flag(self: *Cursor) error{InvalidFormat}!bool {
        return switch (try self.read_int(u8)) {
            0 => false,
            1 => true,
            else => error.InvalidFormat,
        };
    }
};

test Cursor {
    var cursor: Cursor = .init(&.{ 1, 2, 0, 7, 9 });
    try std.testing.expectEqual(true, try cursor.read_flag());
    try std.testing.expectEqual(2, try cursor.read_int(u16));
    try std.testing.expectError(error.InvalidFormat, cursor.read_int(u32));
    try std.testing.expectError(error.InvalidFormat, cursor.read_flag());
    try std.testing.expectEqualSlices(u8, &.{9}, try cursor.read_bytes(1));
    try std.testing.expectError(error.InvalidFormat, cursor.read_bytes(0xFFFF_FFFF_FFFF));
}
