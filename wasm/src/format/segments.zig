//! Parts of files that are here: the ranges that the host has read for one column.
//!
//! A reader asks for bytes by their file, a number, and their place in it; most formats have one file. What is
//! missing it writes down as a need; the scan then stops, the host reads the ranges and comes back. Nothing here
//! knows a format.
//!
//! Every segment is readable 64 bytes past its end (the host's memory is the engine's heap), so that
//! decoders may load whole vectors.
const std = @import("std");

pub const Place = struct {
    file: u32 = 0,
    offset: u64,
};

pub const Segment = struct {
    file: u32 = 0,
    offset: u64,
    bytes: []const u8,

    pub fn end(self: Segment) u64 {
        return self.offset + self.bytes.len;
    }
};

pub const Range = struct {
    file: u32 = 0,
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
    /// In order of their files and offsets.
    list: std.ArrayList(Segment) = .empty,

    pub fn deinit(self: *Segments, gpa: std.mem.Allocator) void {
        self.list.deinit(gpa);
    }

    pub fn add(self: *Segments, gpa: std.mem.Allocator, segment: Segment) error{OutOfMemory}!void {
        try self.list.insert(gpa, self.count_before(.{ .file = segment.file, .offset = segment.offset }), segment);
    }

    /// How many segments begin at or before `place`.
    fn count_before(self: *const Segments, place: Place) usize {
        var low: usize = 0;
        var high = self.list.items.len;
        while (low < high) {
            const middle = (low + high) / 2;
            const segment = &self.list.items[middle];
            const is_before = if (segment.file == place.file)
                segment.offset <= place.offset
            else
                segment.file < place.file;
            if (is_before) low = middle + 1 else high = middle;
        }
        return low;
    }

    /// All that is here from `place` on, in one piece. Where segments overlap, the one that begins
    /// last counts: it was read because the one before ended too early.
    pub fn from(self: *const Segments, place: Place) []const u8 {
        const count = self.count_before(place);
        if (count == 0) return &.{};
        const segment = self.list.items[count - 1];
        if (segment.file != place.file or segment.end() <= place.offset) return &.{};
        return segment.bytes[@intCast(place.offset - segment.offset)..];
    }

    pub fn find(self: *const Segments, range: Range) ?[]const u8 {
        const bytes = self.from(.{ .file = range.file, .offset = range.offset });
        return if (bytes.len >= range.size) bytes[0..@intCast(range.size)] else null;
    }

    /// Forgets what ends at or before `place` in its file.
    pub fn forget_before(self: *Segments, place: Place) void {
        var kept: usize = 0;
        for (self.list.items) |segment| {
            if (segment.file == place.file and segment.end() <= place.offset) continue;
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
    try std.testing.expectEqualStrings("45678", segments.from(.{ .offset = 4 }));
    try std.testing.expectEqualStrings("8", segments.from(.{ .offset = 8 }));
    try std.testing.expectEqualStrings("", segments.from(.{ .offset = 9 }));
    try std.testing.expectEqualStrings("", segments.from(.{ .offset = 0 }));
    try std.testing.expect(segments.find(.{ .offset = 14, .size = 2 }) == null);
    segments.forget_before(.{ .offset = 9 });
    try std.testing.expectEqual(1, segments.list.items.len);
    try segments.add(gpa, .{ .file = 1, .offset = 11, .bytes = text[0..4] });
    try std.testing.expectEqualStrings("abcde", segments.from(.{ .offset = 10 }));
    try std.testing.expectEqualStrings("12", segments.find(.{ .file = 1, .offset = 12, .size = 2 }).?);
    try std.testing.expectEqualStrings("", segments.from(.{ .file = 1, .offset = 10 }));
    try std.testing.expectEqualStrings("", segments.from(.{ .file = 2, .offset = 12 }));
    segments.forget_before(.{ .file = 1, .offset = 15 });
    try std.testing.expectEqual(1, segments.list.items.len);
}
