//! Packed text, piece by piece, in bounded memory: gzip and Zstandard files, told by their first bytes.
//!
//!     source (some bytes of the file) → Stream → Window
//!
//!     buffer  | history, and text that is still wanted | new text → | room |          slack
//!             0                                        at           capacity
//!
//! A stream takes what it can use of a source and says how much that was. What it did not use must stand at the
//! front of the next source: so nothing is kept here but a few bits. Its output goes behind what the window holds,
//! of which the last `history` bytes are what matches may reach back to.
//!
//! Tables of the codecs are static. A stream makes its own anew whenever it goes on, so that several streams may
//! take turns.
const std = @import("std");
const gzip_stream = @import("gzip_stream.zig");
const zstd_stream = @import("zstd_stream.zig");

pub const Error = error{ InvalidFormat, NotSupported, Cancelled, OutOfMemory };

/// Readable and writable behind a window's end, and readable behind a source.
pub const slack = 64;

pub const Window = struct {
    /// `capacity` and the slack.
    buffer: []u8 = &.{},
    at: usize = 0,

    pub fn deinit(self: *Window, gpa: std.mem.Allocator) void {
        gpa.free(self.buffer);
    }

    pub fn capacity(self: *const Window) usize {
        return self.buffer.len -| slack;
    }

    pub fn room(self: *const Window) usize {
        return self.capacity() - self.at;
    }

    /// Drops all before `kept`, and makes room for `size` bytes.
    pub fn make_room(self: *Window, gpa: std.mem.Allocator, kept: usize, size: usize) error{OutOfMemory}!void {
        const left = self.at - kept;
        if (self.capacity() - left < size or self.buffer.len == 0) {
            const larger = try gpa.alloc(u8, left + size + slack);
            @memcpy(larger[0..left], self.buffer[kept..self.at]);
            gpa.free(self.buffer);
            self.buffer = larger;
        } else {
            @memmove(self.buffer[0..left], self.buffer[kept..self.at]);
        }
        self.at = left;
    }
};

pub const State = enum {
    /// Nothing more can be done without bytes behind the source.
    input,
    /// The window is full, or nearly so.
    room,
    /// That was all, and the source has ended.
    end,
};

pub const Outcome = struct {
    /// Bytes of the source that are not needed again.
    used: usize,
    state: State,
};

/// Room that a stream needs to get on: a block of Zstandard.
pub const room_min = zstd_stream.block_size_max + 1024;

pub const Kind = enum { gzip, zstd };

pub fn kind_of(head: []const u8) ?Kind {
    if (std.mem.startsWith(u8, head, "\x1F\x8B\x08")) return .gzip;
    if (zstd_stream.is_frame(head)) return .zstd;
    return null;
}

pub const Stream = union(Kind) {
    gzip: gzip_stream.Stream,
    zstd: *zstd_stream.Stream,

    pub fn init(gpa: std.mem.Allocator, kind: Kind) error{OutOfMemory}!Stream {
        return switch (kind) {
            .gzip => .{ .gzip = .{} },
            .zstd => .{ .zstd = try .create(gpa) },
        };
    }

    pub fn deinit(self: *Stream, gpa: std.mem.Allocator) void {
        if (self.* == .zstd) self.zstd.destroy(gpa);
    }

    /// Bytes before the window's end that must stay.
    pub fn history(self: *const Stream) usize {
        return switch (self.*) {
            .gzip => gzip_stream.history,
            .zstd => |stream| stream.history(),
        };
    }

    pub fn run(self: *Stream, source: []const u8, is_last: bool, window: *Window) Error!Outcome {
        return switch (self.*) {
            .gzip => |*stream| stream.run(source, is_last, window),
            .zstd => |stream| stream.run(source, is_last, window),
        };
    }
};

/// A stream in pieces of these sizes must give what it gives at once.
pub fn expect_unpacked(kind: Kind, bytes: []const u8, expected: []const u8, source_size: usize) !void {
    const gpa = std.testing.allocator;
    var stream: Stream = try .init(gpa, kind);
    defer stream.deinit(gpa);
    var window: Window = .{};
    defer window.deinit(gpa);
    var seen: usize = 0;
    var from: usize = 0;
    var size = source_size;
    while (true) {
        try window.make_room(gpa, window.at - @min(window.at, stream.history()), room_min);
        const padded = try gpa.alloc(u8, @min(size, bytes.len - from) + slack);
        defer gpa.free(padded);
        @memset(padded, 0xA5);
        const source = padded[0 .. padded.len - slack];
        @memcpy(source, bytes[from..][0..source.len]);
        const before = window.at;
        const outcome = try stream.run(source, from + source.len == bytes.len, &window);
        const new = window.buffer[before..window.at];
        try std.testing.expect(expected.len - seen >= new.len);
        try std.testing.expectEqualSlices(u8, expected[seen..][0..new.len], new);
        seen += new.len;
        from += outcome.used;
        size = if (outcome.used == 0 and outcome.state == .input) size * 2 else source_size;
        if (outcome.state == .end) break;
    }
    try std.testing.expectEqual(expected.len, seen);
    try std.testing.expectEqual(bytes.len, from);
}

test kind_of {
    try std.testing.expectEqual(.gzip, kind_of("\x1F\x8B\x08\x00"));
    try std.testing.expectEqual(.zstd, kind_of("\x28\xB5\x2F\xFD"));
    try std.testing.expectEqual(null, kind_of("a,b\n"));
    try std.testing.expectEqual(null, kind_of(""));
}
