//! Parts of a file that are here: the ranges that the host has read for one column.
//!
//! A reader asks for bytes by their place in the file. What is missing it writes down as a need; the
//! scan then stops, the host reads the ranges and comes back. Nothing here knows a format.
//!
//! Every segment is readable 64 bytes past its end (the host's memory is the engine's heap), so that
//! decoders may load whole vectors.
const std = @import("std");

pub const Segment = struct {
    offset: u64,
    bytes: []const u8,

    pub fn end(self: Segment) u64 {
        return self.offset + self.bytes.len;
    }
};

pub const Range = struct {
    offset: u64,
    size: u64,

    pub fn end(self: Range) u64 {
        return self.offset + self.size;
    }
};

/// A range that is missing, and who wants it: a number that the segment comes back with.
pub const Need = struct { range: Range, owner: u32 };

pub const Needs = std.ArrayList(Need);

pub const Segments = struct {
    /// In order of their offsets.
    list: std.ArrayList(Segment) = .empty,

    pub fn deinit(self: *Segments, gpa: std.mem.Allocator) void {
        self.list.deinit(gpa);
    }

    pub fn add(self: *Segments, gpa: std.mem.Allocator, segment: Segment) error{OutOfMemory}!void {
        try self.list.insert(gpa, self.count_before(segment.offset), segment);
    }

    /// How many segments begin at or before `offset`.
    fn count_before(self: *const Segments, offset: u64) usize {
        var low: usize = 0;
        var high = self.list.items.len;
        while (low < high) {
            const middle = (low + high) / 2;
            if (self.list.items[middle].offset <= offset) low = middle + 1 else high = middle;
        }
        return low;
    }

    /// All that is here from `offset` on, in one piece. Where segments overlap, the one that begins
    /// last counts: it was read because the one before ended too early.
    pub fn from(self: *const Segments, offset: u64) []const u8 {
        const count = self.count_before(offset);
        if (count == 0) return &.{};
        const segment = self.list.items[count - 1];
        if (segment.end() <= offset) return &.{};
        return segment.bytes[@intCast(offset - segment.offset)..];
    }

    pub fn find(self: *const Segments, range: Range) ?[]const u8 {
        const bytes = self.from(range.offset);
        return if (bytes.len >= range.size) bytes[0..@intCast(range.size)] else null;
    }

    /// Forgets what ends at or before `offset`.
    pub fn forget_before(self: *Segments, offset: u64) void {
        var kept: usize = 0;
        for (self.list.items) |segment| {
            if (segment.end() <= offset) continue;
            self.list.items[kept] = segment;
            kept += 1;
        }
        self.list.shrinkRetainingCapacity(kept);
    }
};

test Segments {
    const gpa = std.testing.allocator;
    const text = "0123456789abcdefghij";
    var segments: Segments = .{};
    defer segments.deinit(gpa);
    try segments.add(gpa, .{ .offset = 10, .bytes = text[10..15] });
    try segments.add(gpa, .{ .offset = 2, .bytes = text[2..6] });
    try segments.add(gpa, .{ .offset = 4, .bytes = text[4..9] });
    try std.testing.expectEqualStrings("345", segments.find(.{ .offset = 3, .size = 3 }).?);
    try std.testing.expectEqualStrings("45678", segments.from(4));
    try std.testing.expectEqualStrings("8", segments.from(8));
    try std.testing.expectEqualStrings("", segments.from(9));
    try std.testing.expectEqualStrings("", segments.from(0));
    try std.testing.expect(segments.find(.{ .offset = 14, .size = 2 }) == null);
    segments.forget_before(9);
    try std.testing.expectEqual(1, segments.list.items.len);
}
