//! gzip, piece by piece: members one behind the other, checksums verified (codec/unpack.zig draws the window).
//!
//!     header → block → (stored | codes) → … last block → trailer → header …
//!
//! A header, and the codes at the front of a block, are read as a whole: where a source ends within them, the
//! next one must begin with them again. Codes are decoded while there is so much of the source left that no round
//! of the decoder looks behind its end, and so much room that no match overruns the window. Bits of a byte that was
//! begun are kept.
const std = @import("std");
const crc = @import("crc32.zig");
const gzip = @import("gzip.zig");
const interrupt = @import("../core/interrupt.zig");
const unpack = @import("unpack.zig");
const Outcome = unpack.Outcome;
const Window = unpack.Window;
const assert = std.debug.assert;

const Error = unpack.Error;

/// As far as a distance reaches.
pub const history = 32 * 1024;

/// A round of the decoder reads sixteen bytes at most, and writes a match of 258 behind two literals.
const source_margin = 32;
const target_margin = 512;
/// Of a block's codes: 19 lengths of 3 bits, 316 codes of 7 bits with 7 more.
const codes_size_max = 640;
/// A longer header of a member is refused: names and comments are as long as they like.
const header_size_max = 256 * 1024;
/// Output between two looks at the cancel byte.
const stride = 128 * 1024;

const Phase = enum { header, block, stored, codes, trailer };

pub const Stream = struct {
    phase: Phase = .header,
    /// Of the byte before the next one, those that were not used.
    bits: u64 = 0,
    bit_count: u32 = 0,
    is_last_block: bool = false,
    stored_left: usize = 0,
    codes: gzip.CodeLengths = .{},
    checksum: u32 = 0,
    /// Bytes of the member so far.
    size: u64 = 0,
    has_member: bool = false,
    /// Bytes of the file before the source, for messages.
    offset: u64 = 0,

    pub fn run(self: *Stream, source: []const u8, is_last: bool, window: *Window) Error!Outcome {
        var from: usize = 0;
        var has_tables = false;
        errdefer interrupt.describe_offset(self.offset + from);
        const state: unpack.State = while (true) {
            try interrupt.check();
            const before = window.at;
            const stop: ?unpack.State = switch (self.phase) {
                .header => try self.read_header(source, &from, is_last),
                .block => try self.read_block(source, &from, is_last),
                .stored => self.copy_stored(source, &from, window),
                .codes => try self.decode(source, &from, is_last, window, &has_tables),
                .trailer => try self.read_trailer(source, &from),
            };
            const new = window.buffer[before..window.at];
            self.checksum = ~crc.crc_update(~self.checksum, new);
            self.size += new.len;
            if (self.phase != .codes) has_tables = false;
            const reason = stop orelse continue;
            if (reason == .input and is_last) return gzip.reject("gzip stream is cut short");
            break reason;
        };
        self.offset += from;
        return .{ .used = from, .state = state };
    }

    /// Zeros may follow the last member.
    fn read_header(self: *Stream, source: []const u8, from: *usize, is_last: bool) Error!?unpack.State {
        if (self.has_member) {
            while (from.* < source.len and source[from.*] == 0) from.* += 1;
            if (from.* == source.len) return if (is_last) .end else .input;
        }
        const left = source.len - from.*;
        from.* = gzip.read_member_header(source, from.*) catch |err| {
            if (is_last or left > header_size_max or err != error.InvalidFormat) return err;
            if (left >= 3 and !std.mem.startsWith(u8, source[from.*..], "\x1F\x8B\x08")) return err;
            interrupt.forget();
            return .input;
        };
        self.phase = .block;
        self.checksum = 0;
        self.size = 0;
        self.has_member = true;
        return null;
    }

    /// Bits from the source on, with those that were kept.
    fn open_bits(self: *const Stream, source: []const u8, from: usize) gzip.State {
        const start = @intFromPtr(source.ptr);
        return .{
            .from = start + from,
            .source_end = start + source.len,
            .at = 0,
            .target_end = 0,
            .base = 0,
            .bits = self.bits,
            .bit_count = self.bit_count,
        };
    }

    fn close_bits(self: *Stream, state: *const gzip.State, source: []const u8, from: *usize) void {
        from.* = state.position() - @intFromPtr(source.ptr);
        self.bit_count = state.bit_count & 7;
        self.bits = state.bits & ((@as(u64, 1) << @intCast(self.bit_count)) - 1);
    }

    fn read_block(self: *Stream, source: []const u8, from: *usize, is_last: bool) Error!?unpack.State {
        if (!is_last and source.len - from.* < codes_size_max) return .input;
        var state = self.open_bits(source, from.*);
        state.refill();
        self.is_last_block = state.take(u1, 1) == 1;
        switch (state.take(u2, 2)) {
            0 => {
                _ = state.take(u8, state.bit_count & 7);
                const size = state.take(u16, 16);
                if (size != ~state.take(u16, 16)) return gzip.reject("stored DEFLATE block: sizes differ");
                self.stored_left = size;
                self.phase = .stored;
            },
            1 => {
                self.codes = .{};
                self.phase = .codes;
            },
            2 => {
                try gzip.read_code_lengths(&state, &self.codes);
                self.phase = .codes;
            },
            3 => return gzip.reject("DEFLATE block of unknown kind"),
        }
        if (state.is_past_end()) return gzip.reject("DEFLATE stream is cut short");
        self.close_bits(&state, source, from);
        return null;
    }

    fn end_block(self: *Stream) void {
        self.phase = if (self.is_last_block) .trailer else .block;
    }

    fn copy_stored(self: *Stream, source: []const u8, from: *usize, window: *Window) ?unpack.State {
        assert(self.bit_count == 0);
        const size = @min(self.stored_left, source.len - from.*, window.room());
        @memcpy(window.buffer[window.at..][0..size], source[from.*..][0..size]);
        window.at += size;
        from.* += size;
        self.stored_left -= size;
        if (self.stored_left == 0) {
            self.end_block();
            return null;
        }
        return if (window.room() == 0) .room else .input;
    }

    fn decode(
        self: *Stream,
        source: []const u8,
        from: *usize,
        is_last: bool,
        window: *Window,
        has_tables: *bool,
    ) Error!?unpack.State {
        if (window.room() <= target_margin) return .room;
        if (!is_last and source.len - from.* <= source_margin) return .input;
        if (!has_tables.*) try self.codes.build_tables();
        has_tables.* = true;
        var state = self.open_bits(source, from.*);
        // Never so far that bits behind the source would be used.
        if (!is_last) state.source_end -= source_margin;
        const start = @intFromPtr(window.buffer.ptr);
        state.at = start + window.at;
        state.target_end = start + window.capacity();
        state.base = start + window.at - @as(usize, @intCast(@min(window.at, self.size, history)));
        const limit = @min(state.target_end - target_margin, state.at + stride);
        const stop = gzip.decode_symbols(&state, limit);
        switch (stop) {
            .limit => if (is_last and state.is_past_end()) return gzip.reject("DEFLATE stream is cut short"),
            .end => if (state.is_past_end() and
                is_last) return gzip.reject("DEFLATE stream is cut short") else self.end_block(),
            .bad_code => return gzip.reject("DEFLATE code that stands for nothing"),
            .bad_distance => return gzip.reject("DEFLATE distance reaches before the start"),
            .too_long => unreachable, // there is room for a match
        }
        window.at = state.at - start;
        const is_short = stop == .limit and state.from > state.input_limit();
        self.close_bits(&state, source, from);
        return if (is_short) .input else null;
    }

    fn read_trailer(self: *Stream, source: []const u8, from: *usize) Error!?unpack.State {
        // The rest of the byte that was begun.
        if (source.len - from.* < 8) return .input;
        self.bits = 0;
        self.bit_count = 0;
        const trailer = source[from.*..][0..8];
        if (std.mem.readInt(u32, trailer[4..8], .little) != @as(u32, @truncate(self.size)))
            return gzip.reject("gzip member: wrong size in its trailer");
        if (std.mem.readInt(u32, trailer[0..4], .little) != self.checksum)
            return gzip.reject("gzip member: wrong CRC-32");
        from.* += 8;
        self.phase = .header;
        return null;
    }
};

test "members in pieces" {
    defer interrupt.forget();
    const text = "hello, hello, hello";
    const member = "\x1F\x8B\x08\x00\x00\x00\x00\x00\x00\xFF" ++
        "\xCBH\xCD\xC9\xC9\xD7Q\xC8@\xA2\x00" ++ "\x9F\xA1\xCA\x09\x13\x00\x00\x00";
    const stored = "\x1F\x8B\x08\x00\x00\x00\x00\x00\x00\xFF\x01\x03\x00\xFC\xFFabc\xC2A$5\x03\x00\x00\x00";
    for ([_]usize{ 1, 2, 7, 100, 5000 }) |size| {
        try unpack.expect_unpacked(.gzip, member, text, size);
        try unpack.expect_unpacked(.gzip, member ++ stored ++ member ++ "\x00\x00", text ++ "abc" ++ text, size);
    }
    for (0..member.len) |size| {
        try std.testing.expectError(error.InvalidFormat, unpack.expect_unpacked(.gzip, member[0..size], text, 10));
    }
    for (0..member.len) |at| {
        var copy = member.*;
        copy[at] ^= 0x55;
        unpack.expect_unpacked(.gzip, &copy, text, 9) catch continue;
    }
}
