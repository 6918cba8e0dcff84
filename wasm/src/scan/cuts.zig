//! Rows that pass together. They are cut from what the query reads of a piece and from the filter alone,
//! never from what was fetched together: sums of floats come out the same however the bytes arrive.
//!
//!     rows that may match   ├────────────────────┤      ├──────────┤
//!     cuts                  ├───────┼───────┼────┤      ├───────┼──┤      16,384 rows, or fewer where they are large
//!     spans of a cut          ├──┤  ├┤                                    around the rows that a filter has left
const std = @import("std");
const expression_module = @import("../plan/expression.zig");
const RowRange = @import("../format/evidence.zig").RowRange;
pub const Span = @import("../format/reader.zig").Span;

pub const Cut = struct {
    row: u64,
    count: u32,

    pub fn end(self: Cut) u64 {
        return self.row + self.count;
    }
};

/// A cut in which rows are left, and around them the spans that the other columns are read in.
pub const Survivor = struct { cut: Cut, spans: []const Span };

/// Bytes of a column that pass together, about.
pub const part_size: u64 = 16 << 20;

/// Selected rows further apart than this are read as two spans, and what lies between is skipped.
const span_gap = 512;

pub const Cuts = struct {
    /// Rows that may match, and how far they have been cut.
    ranges: []const RowRange = &.{},
    index: usize = 0,
    row: u64 = 0,
    /// Rows of a cut, as a rule.
    size: u32 = expression_module.chunk_rows,
    /// The cut being worked on.
    current: ?Cut = null,
    /// After the filter ran over everything: the cuts in which rows are left.
    surviving: std.ArrayList(Survivor) = .empty,
    surviving_next: usize = 0,
    filter_done: bool = false,

    pub fn next(self: *Cuts) ?Cut {
        if (self.current) |cut| return cut;
        if (self.filter_done) {
            if (self.surviving_next == self.surviving.items.len) return null;
            self.current = self.surviving.items[self.surviving_next].cut;
            self.surviving_next += 1;
            return self.current;
        }
        while (self.index < self.ranges.len) {
            const range = self.ranges[self.index];
            const row = @max(self.row, range.begin);
            if (row < range.end) {
                const count: u32 = @intCast(@min(range.end - row, self.size));
                self.row = row + count;
                self.current = .{ .row = row, .count = count };
                return self.current;
            }
            self.index += 1;
        }
        return null;
    }

    /// Only so many rows of the current cut; the others come with the next one.
    pub fn shorten(self: *Cuts, count: u32) Cut {
        const row = self.current.?.row;
        self.current = .{ .row = row, .count = count };
        self.row = row + count;
        return self.current.?;
    }

    /// After the filter: where rows of the current cut are left.
    pub fn surviving_spans(self: *const Cuts) []const Span {
        return self.surviving.items[self.surviving_next - 1].spans;
    }
};

/// How many of `count` rows of a column pass together when each takes `size` bytes: a power of two of
/// them, if not all.
pub fn rows_of_size(size: u64, count: u32) u32 {
    if (size *| count <= part_size) return count;
    return @intCast(std.math.floorPowerOfTwo(u64, @max(1, part_size / size)));
}

pub fn whole_span(count: u32) [1]Span {
    return .{.{ .begin = 0, .end = count, .first = 0, .row_count = count }};
}

/// Spans that hold all of these rows and no large gap.
pub fn find_spans(arena: std.mem.Allocator, rows: []const u32) error{OutOfMemory}![]const Span {
    var spans: std.ArrayList(Span) = .empty;
    var first: usize = 0;
    for (rows, 0..) |row, i| {
        if (i + 1 < rows.len and rows[i + 1] - row <= span_gap) continue;
        try spans.append(arena, .{
            .begin = rows[first],
            .end = row + 1,
            .first = @intCast(first),
            .row_count = @intCast(i + 1 - first),
        });
        first = i + 1;
    }
    return spans.items;
}

test Cuts {
    var cuts: Cuts = .{ .ranges = &.{ .{ .begin = 5, .end = 12 }, .{ .begin = 20, .end = 21 } }, .size = 4 };
    try std.testing.expectEqual(Cut{ .row = 5, .count = 4 }, cuts.next().?);
    try std.testing.expectEqual(Cut{ .row = 5, .count = 2 }, cuts.shorten(2));
    cuts.current = null;
    for ([_]Cut{ .{ .row = 7, .count = 4 }, .{ .row = 11, .count = 1 }, .{ .row = 20, .count = 1 } }) |cut| {
        try std.testing.expectEqual(cut, cuts.next().?);
        try std.testing.expectEqual(cut, cuts.next().?);
        cuts.current = null;
    }
    try std.testing.expectEqual(null, cuts.next());
}

test find_spans {
    var arena: std.heap.ArenaAllocator = .init(std.testing.allocator);
    defer arena.deinit();
    const spans = try find_spans(arena.allocator(), &.{ 3, 4, 500, 1013, 1014 });
    try std.testing.expectEqualSlices(Span, &.{
        .{ .begin = 3, .end = 501, .first = 0, .row_count = 3 },
        .{ .begin = 1013, .end = 1015, .first = 3, .row_count = 2 },
    }, spans);
    try std.testing.expectEqual(0, (try find_spans(arena.allocator(), &.{})).len);
}
