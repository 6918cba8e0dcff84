//! Zstandard, block by block: frames one behind the other, checksums verified (codec/unpack.zig draws the window).
//!
//!     header → block … last block → [checksum] → header …       skippable frames are skipped
//!
//! A block is decoded as a whole, from a copy of it: it has 128 KiB at most. Tables last from block to block of a
//! frame, and are kept with the stream while others may use the static ones. What a match may reach back to is what
//! the frame's header says, up to `abi.text_zstd_window_max`.
const std = @import("std");
const abi = @import("../abi.zig");
const huffman = @import("zstd_huffman.zig");
const interrupt = @import("../core/interrupt.zig");
const sequences = @import("zstd_sequences.zig");
const unpack = @import("unpack.zig");
const xxh64 = @import("xxh64.zig");
const zstd = @import("zstd.zig");
const Outcome = unpack.Outcome;
const Window = unpack.Window;

const Error = unpack.Error;

pub const block_size_max = zstd.block_size_max;

/// Readers of backward bit streams look so far below a block.
const lead = 16;

const Phase = enum { header, skip, block, checksum };

pub fn is_frame(head: []const u8) bool {
    if (head.len < 4) return false;
    const magic = std.mem.readInt(u32, head[0..4], .little);
    return magic == zstd.frame_magic or magic & zstd.skippable_mask == zstd.skippable_magic;
}

pub const Stream = struct {
    phase: Phase = .header,
    skip_left: u64 = 0,
    window_size: u64 = 0,
    content_size: ?u64 = null,
    has_checksum: bool = false,
    /// Bytes of the frame so far.
    size: u64 = 0,
    repeats: sequences.RepeatOffsets = sequences.first_repeat_offsets,
    huffman_table: huffman.Saved = .{ .codes = undefined },
    sequence_tables: sequences.Saved = .{},
    lanes: xxh64.Lanes = .init(0),
    /// Bytes that do not make a stripe yet.
    rest: [xxh64.stripe_size]u8 = undefined,
    rest_size: usize = 0,
    /// Bytes of the file before the source, for messages.
    offset: u64 = 0,
    /// The block that is being decoded: `lead`, its bytes, and the slack.
    block: []u8,

    pub fn create(gpa: std.mem.Allocator) error{OutOfMemory}!*Stream {
        const self = try gpa.create(Stream);
        errdefer gpa.destroy(self);
        self.* = .{ .block = try gpa.alloc(u8, lead + block_size_max + unpack.slack) };
        return self;
    }

    pub fn destroy(self: *Stream, gpa: std.mem.Allocator) void {
        gpa.free(self.block);
        gpa.destroy(self);
    }

    pub fn history(self: *const Stream) usize {
        return @intCast(@min(self.window_size, self.size));
    }

    pub fn run(self: *Stream, source: []const u8, is_last: bool, window: *Window) Error!Outcome {
        var from: usize = 0;
        huffman.restore(&self.huffman_table);
        sequences.restore(&self.sequence_tables);
        const state = self.run_phases(source, &from, is_last, window) catch |fault| switch (fault) {
            error.WindowSize => {
                interrupt.describe_offset(self.offset + from);
                return error.NotSupported;
            },
            else => |other| return zstd.describe_fault(other, self.offset + from),
        };
        huffman.save(&self.huffman_table);
        sequences.save(&self.sequence_tables);
        self.offset += from;
        return .{ .used = from, .state = state };
    }

    fn run_phases(
        self: *Stream,
        source: []const u8,
        from: *usize,
        is_last: bool,
        window: *Window,
    ) (zstd.Fault || error{WindowSize})!unpack.State {
        while (true) {
            try interrupt.check();
            if (self.phase == .header and from.* == source.len and is_last) return .end;
            const before = window.at;
            const stop: ?unpack.State = switch (self.phase) {
                .header => try self.read_header(source, from),
                .skip => self.skip(source, from),
                .block => try self.decode_block(source, from, window),
                .checksum => try self.read_checksum(source, from),
            };
            self.note(window.buffer[before..window.at]);
            const reason = stop orelse continue;
            if (reason == .input and is_last) return error.Truncated;
            return reason;
        }
    }

    fn note(self: *Stream, new: []const u8) void {
        self.size += new.len;
        if (!self.has_checksum) return;
        var left = new;
        if (self.rest_size > 0) {
            const taken = @min(left.len, self.rest.len - self.rest_size);
            @memcpy(self.rest[self.rest_size..][0..taken], left[0..taken]);
            self.rest_size += taken;
            left = left[taken..];
            if (self.rest_size < self.rest.len) return;
            self.lanes.update(&self.rest);
        }
        const whole = left.len - left.len % xxh64.stripe_size;
        self.lanes.update(left[0..whole]);
        self.rest_size = left.len - whole;
        @memcpy(self.rest[0..self.rest_size], left[whole..]);
    }

    /// magic | descriptor | [window] | [dictionary id] | [content size]
    fn read_header(self: *Stream, source: []const u8, from: *usize) (zstd.Fault || error{WindowSize})!?unpack.State {
        const bytes = source[from.*..];
        if (bytes.len < 6) return .input;
        const magic = std.mem.readInt(u32, bytes[0..4], .little);
        if (magic & zstd.skippable_mask == zstd.skippable_magic) {
            if (bytes.len < 8) return .input;
            self.skip_left = std.mem.readInt(u32, bytes[4..8], .little);
            self.phase = .skip;
            from.* += 8;
            return null;
        }
        if (magic != zstd.frame_magic) return error.Magic;
        const descriptor = bytes[4];
        if (descriptor & 0x08 != 0) return error.ReservedBit;
        const is_single = descriptor & 0x20 != 0;
        const id_size = ([_]usize{ 0, 1, 2, 4 })[descriptor & 3];
        const size_size = ([_]usize{ @intFromBool(is_single), 2, 4, 8 })[descriptor >> 6];
        const header_size = 5 + @as(usize, @intFromBool(!is_single)) + id_size + size_size;
        if (bytes.len < header_size) return .input;
        var at: usize = 5;
        var window_size: u64 = 0;
        if (!is_single) {
            const exponent: u6 = @intCast(bytes[at] >> 3);
            const base = @as(u64, 1) << (10 + exponent);
            window_size = base + base / 8 * (bytes[at] & 7);
            at += 1;
        }
        if (read_little(bytes[at..][0..id_size]) != 0) return error.Dictionary;
        at += id_size;
        self.content_size = if (size_size == 0) null else read_little(bytes[at..][0..size_size]) +
            @as(u64, if (size_size == 2) 256 else 0);
        if (is_single) window_size = self.content_size.?;
        if (window_size > abi.text_zstd_window_max) {
            interrupt.describe(
                "a Zstandard frame with a window of {d} bytes; {d} are the most",
                .{ window_size, abi.text_zstd_window_max },
            );
            return error.WindowSize;
        }
        self.window_size = @max(window_size, 1024);
        self.has_checksum = descriptor & 0x04 != 0;
        self.size = 0;
        self.lanes = .init(0);
        self.rest_size = 0;
        self.repeats = sequences.first_repeat_offsets;
        huffman.forget_table();
        sequences.forget_tables();
        self.phase = .block;
        from.* += header_size;
        return null;
    }

    fn skip(self: *Stream, source: []const u8, from: *usize) ?unpack.State {
        const size: usize = @intCast(@min(self.skip_left, source.len - from.*));
        from.* += size;
        self.skip_left -= size;
        if (self.skip_left > 0) return .input;
        self.phase = .header;
        return null;
    }

    fn decode_block(self: *Stream, source: []const u8, from: *usize, window: *Window) zstd.Fault!?unpack.State {
        const bytes = source[from.*..];
        if (bytes.len < 3) return .input;
        if (window.room() < block_size_max) return .room;
        const before = window.at;
        const header = std.mem.readInt(u24, bytes[0..3], .little);
        const size: usize = header >> 3;
        if (size > block_size_max) return error.Corrupt;
        const kind: u2 = @truncate(header >> 1);
        const content_size = if (kind == 1) 1 else size;
        if (bytes.len - 3 < content_size) return .input;
        const content = bytes[3..][0..content_size];
        switch (kind) {
            0 => @memcpy(window.buffer[window.at..][0..size], content),
            1 => @memset(window.buffer[window.at..][0..size], content[0]),
            2 => try self.decode_compressed(content, window),
            3 => return error.Corrupt,
        }
        if (kind != 2) window.at += size;
        from.* += 3 + content_size;
        if (header & 1 == 0) return null;
        if (self.content_size) |stated| if (stated != self.size + (window.at - before)) return error.ContentSize;
        self.phase = if (self.has_checksum) .checksum else .header;
        return null;
    }

    fn decode_compressed(self: *Stream, bytes: []const u8, window: *Window) zstd.Fault!void {
        const content = self.block[lead..][0..bytes.len];
        @memcpy(content, bytes);
        const literals = try zstd.read_literals(content);
        const base = @intFromPtr(window.buffer.ptr);
        const reach: usize = @intCast(@min(window.at, self.size));
        const end = try sequences.execute(.{
            .section = content[literals.section_size..],
            .literals = literals.bytes,
            .target = base + window.at,
            .target_end = base + window.at + block_size_max,
            .frame_start = base + window.at - reach,
        }, &self.repeats);
        window.at = end - base;
    }

    fn read_checksum(self: *Stream, source: []const u8, from: *usize) zstd.Fault!?unpack.State {
        if (source.len - from.* < 4) return .input;
        const stated = std.mem.readInt(u32, source[from.*..][0..4], .little);
        const found = self.lanes.finish(self.size, self.rest[0..self.rest_size]);
        if (stated != @as(u32, @truncate(found))) return error.Checksum;
        from.* += 4;
        self.phase = .header;
        return null;
    }
};

fn read_little(bytes: []const u8) u64 {
    var value: u64 = 0;
    for (bytes, 0..) |byte, i| value |= @as(u64, byte) << @intCast(8 * i);
    return value;
}

test "frames in pieces" {
    defer interrupt.forget();
    for ([_]usize{ 1, 3, 50, 5000 }) |size| {
        try unpack.expect_unpacked(.zstd, &zstd.sample_checked, &zstd.sample_text(), size);
        const twice = zstd.sample_plain ++ "\x50\x2A\x4D\x18\x03\x00\x00\x00abc".* ++ zstd.sample_checked;
        try unpack.expect_unpacked(.zstd, &twice, &(zstd.sample_text() ++ zstd.sample_text()), size);
    }
    for (0..zstd.sample_checked.len) |size| {
        if (size == 0) continue;
        try std.testing.expectError(
            error.InvalidFormat,
            unpack.expect_unpacked(.zstd, zstd.sample_checked[0..size], &zstd.sample_text(), 100),
        );
    }
    for (0..zstd.sample_checked.len) |at| {
        var copy = zstd.sample_checked;
        copy[at] ^= 0x55;
        unpack.expect_unpacked(.zstd, &copy, &zstd.sample_text(), 64) catch continue;
    }
}
