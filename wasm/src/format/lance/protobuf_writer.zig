//! Protocol buffers, written: what tests read. The reader, protobuf.zig, draws them.
const std = @import("std");
const protobuf = @import("protobuf.zig");
const Arena = @import("../../core/arena.zig").Arena;

/// A message. Memory that cannot be had ends a test, so nothing here can fail otherwise.
pub const Writer = struct {
    gpa: std.mem.Allocator,
    list: std.ArrayList(u8) = .empty,

    pub fn init(gpa: std.mem.Allocator) Writer {
        return .{ .gpa = gpa };
    }

    pub fn bytes(self: *const Writer) []const u8 {
        return self.list.items;
    }

    pub fn varint(self: *Writer, value: u64) void {
        var left = value;
        while (left >= 0x80) : (left >>= 7) self.byte(@as(u8, @truncate(left)) | 0x80);
        self.byte(@truncate(left));
    }

    /// Negative numbers take ten bytes.
    pub fn int(self: *Writer, number: u32, value: i64) void {
        self.varint(number << 3);
        self.varint(@bitCast(value));
    }

    pub fn text(self: *Writer, number: u32, value: []const u8) void {
        self.varint(number << 3 | 2);
        self.varint(value.len);
        self.list.appendSlice(self.gpa, value) catch @panic("no memory");
    }

    pub fn message(self: *Writer, number: u32, value: *const Writer) void {
        self.text(number, value.bytes());
    }

    pub fn ints(self: *Writer, number: u32, values: []const i64) void {
        var inner: Writer = .init(self.gpa);
        for (values) |value| inner.varint(@bitCast(value));
        self.message(number, &inner);
        inner.list.deinit(self.gpa);
    }

    fn byte(self: *Writer, value: u8) void {
        self.list.append(self.gpa, value) catch @panic("no memory");
    }
};

test Writer {
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    var writer: Writer = .init(arena.allocator());
    writer.int(1, -1);
    writer.text(2, "ab");
    writer.ints(3, &.{ 300, 0 });
    var message: protobuf.Message = .init(writer.bytes());
    try std.testing.expectEqual(-1, try (try message.next()).?.int(i32));
    try std.testing.expectEqualStrings("ab", try (try message.next()).?.text());
    var numbers = try (try message.next()).?.ints(u16);
    try std.testing.expectEqual(300, try numbers.next());
    try std.testing.expectEqual(0, try numbers.next());
}
