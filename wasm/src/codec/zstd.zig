//! Zstandard (RFC 8878): one or more frames, decoded in one go.
//!
//!     frame      magic 28 B5 2F FD | descriptor | [window] | [dictionary id] | [content size]
//!                | blocks | [checksum]
//!     skippable  magic 5x 2A 4D 18 | size | that many bytes, ignored
//!     block      3 bytes: is last (1 bit), kind (2), size (21) | content
//!                kinds: raw, one byte repeated, compressed
//!     compressed literals (raw, repeated, Huffman: zstd_huffman.zig) | sequences (zstd_sequences.zig)
//!
//! The target is the window: nothing is allocated for one, and no match reaches back beyond its
//! frame's first byte. A stated content size and a content checksum (XXH64) are verified. Frames
//! that want a dictionary are refused.
//!
//! Tables and decoded literals are static, about 160 KiB: an instance has one thread. The caller
//! grants 64 readable bytes behind the source and 64 writable ones behind the target. Readers of
//! backward bit streams look up to 8 bytes below their start: those bytes are in the source, because
//! a block's content comes after a frame header of at least 6 bytes and a block header of 3.
const std = @import("std");
const interrupt = @import("../core/interrupt.zig");
const entropy = @import("zstd_entropy.zig");
const huffman = @import("zstd_huffman.zig");
const sequences = @import("zstd_sequences.zig");
const xxh64 = @import("xxh64.zig");
const assert = std.debug.assert;

pub const Error = error{ InvalidFormat, NotSupported, Cancelled };

pub const Fault = sequences.Fault || interrupt.Error || error{
    Magic,
    ReservedBit,
    Dictionary,
    ContentSize,
    TargetNotFilled,
    Checksum,
};

pub const frame_magic = 0xFD2F_B528;
pub const skippable_magic = 0x184D_2A50;
pub const skippable_mask = 0xFFFF_FFF0;
pub const block_size_max = huffman.literals_size_max;

/// Bytes hashed between two looks at the cancel byte; whole stripes.
const hash_piece_size = 256 * 1024;
comptime {
    assert(hash_piece_size % xxh64.stripe_size == 0);
}

pub fn decompress(source: []const u8, target: []u8) Error!void {
    var decoder: Decoder = .{ .source = source, .target = target };
    decoder.run() catch |fault| return decoder.report(fault);
}

const FrameHeader = struct { content_size: ?u64, has_checksum: bool };

const Decoder = struct {
    source: []const u8,
    target: []u8,
    /// The next byte of the source, and of the target.
    position: usize = 0,
    written: usize = 0,

    fn run(self: *Decoder) Fault!void {
        while (self.position < self.source.len) {
            try interrupt.check();
            const magic = try self.read_int(u32);
            if (magic == frame_magic) {
                try self.decode_frame();
            } else if (magic & skippable_mask == skippable_magic) {
                _ = try self.read_bytes(try self.read_int(u32));
            } else {
                return error.Magic;
            }
        }
        if (self.written != self.target.len) return error.TargetNotFilled;
    }

    fn decode_frame(self: *Decoder) Fault!void {
        const header = try self.read_frame_header();
        const start = self.written;
        huffman.forget_table();
        sequences.forget_tables();
        var repeats = sequences.first_repeat_offsets;
        while (!try self.decode_block(start, &repeats)) try interrupt.check();
        const content = self.target[start..self.written];
        if (header.content_size) |size| {
            if (size != content.len) return error.ContentSize;
        }
        if (header.has_checksum) {
            const stated = try self.read_int(u32);
            if (stated != @as(u32, @truncate(try hash_content(content)))) return error.Checksum;
        }
    }

    fn read_frame_header(self: *Decoder) Fault!FrameHeader {
        const descriptor = try self.read_int(u8);
        if (descriptor & 0x08 != 0) return error.ReservedBit;
        const is_single_segment = descriptor & 0x20 != 0;
        // The window's size would only tell how much to allocate.
        if (!is_single_segment) _ = try self.read_int(u8);
        const dictionary_id = switch (@as(u2, @truncate(descriptor))) {
            0 => 0,
            1 => try self.read_int(u8),
            2 => try self.read_int(u16),
            3 => try self.read_int(u32),
        };
        if (dictionary_id != 0) return error.Dictionary;
        const content_size: ?u64 = switch (@as(u2, @truncate(descriptor >> 6))) {
            0 => if (is_single_segment) try self.read_int(u8) else null,
            1 => @as(u64, try self.read_int(u16)) + 256,
            2 => try self.read_int(u32),
            3 => try self.read_int(u64),
        };
        return .{ .content_size = content_size, .has_checksum = descriptor & 0x04 != 0 };
    }

    /// Returns whether it was the frame's last block.
    fn decode_block(self: *Decoder, frame_start: usize, repeats: *sequences.RepeatOffsets) Fault!bool {
        const header = try self.read_int(u24);
        const size: usize = header >> 3;
        if (size > block_size_max) return error.Corrupt;
        switch (@as(u2, @truncate(header >> 1))) {
            0 => @memcpy(try self.write(size), try self.read_bytes(size)),
            1 => @memset(try self.write(size), try self.read_int(u8)),
            2 => try self.decode_compressed_block(try self.read_bytes(size), frame_start, repeats),
            3 => return error.Corrupt,
        }
        return header & 1 != 0;
    }

    fn decode_compressed_block(
        self: *Decoder,
        content: []const u8,
        frame_start: usize,
        repeats: *sequences.RepeatOffsets,
    ) Fault!void {
        const literals = try read_literals(content);
        const base = @intFromPtr(self.target.ptr);
        const room = @min(self.target.len - self.written, block_size_max);
        const end = try sequences.execute(.{
            .section = content[literals.section_size..],
            .literals = literals.bytes,
            .target = base + self.written,
            .target_end = base + self.written + room,
            .frame_start = base + frame_start,
        }, repeats);
        self.written = end - base;
        assert(self.written <= self.target.len);
    }

    /// The next `size` bytes of the target, to be filled by the caller.
    fn write(self: *Decoder, size: usize) Fault![]u8 {
        if (size > self.target.len - self.written) return error.Overrun;
        self.written += size;
        return self.target[self.written - size .. self.written];
    }

    fn read_bytes(self: *Decoder, size: usize) Fault![]const u8 {
        if (size > self.source.len - self.position) return error.Truncated;
        self.position += size;
        return self.source[self.position - size .. self.position];
    }

    fn read_int(self: *Decoder, comptime T: type) Fault!T {
        const size = @bitSizeOf(T) / 8;
        const bytes = try self.read_bytes(size);
        return std.mem.readInt(T, bytes[0..size], .little);
    }

    fn report(self: *const Decoder, fault: Fault) Error {
        return describe_fault(fault, self.position);
    }
};

pub fn describe_fault(fault: Fault, position: u64) Error {
    const reason = switch (fault) {
        error.Cancelled => return error.Cancelled,
        error.Truncated => "it ends too early",
        error.Corrupt => "its bytes are garbled",
        error.Overrun => "it holds more bytes than the page states",
        error.TargetNotFilled => "it holds fewer bytes than the page states",
        error.Magic => "it does not begin like a frame",
        error.ReservedBit => "it uses a reserved bit",
        error.Dictionary => "it wants a dictionary",
        error.ContentSize => "its content is not as long as it states",
        error.Checksum => "its checksum does not match",
    };
    interrupt.describe("Zstandard data cannot be decoded: {s}", .{reason});
    interrupt.describe_offset(position);
    return if (fault == error.Dictionary) error.NotSupported else error.InvalidFormat;
}

fn hash_content(content: []const u8) interrupt.Error!u64 {
    var lanes: xxh64.Lanes = .init(0);
    const whole_size = content.len - content.len % xxh64.stripe_size;
    var at: usize = 0;
    while (at < whole_size) {
        try interrupt.check();
        const piece_size: usize = @min(hash_piece_size, whole_size - at);
        lanes.update(content[at..][0..piece_size]);
        at += piece_size;
    }
    return lanes.finish(content.len, content[whole_size..]);
}

// --- Literals section ---------------------------------------------------------------------------

pub const Literals = struct {
    /// In the source or in `huffman.literals`; both are readable past their end.
    bytes: []const u8,
    section_size: usize,
};

const LiteralsKind = enum(u2) { raw, repeated, compressed, compressed_with_last_table };

/// header: kind (2 bits), form of the sizes (2 bits), sizes | content
pub fn read_literals(content: []const u8) Fault!Literals {
    if (content.len == 0) return error.Truncated;
    const kind: LiteralsKind = @fromBackingInt(@as(u2, @truncate(content[0])));
    const form: u2 = @truncate(content[0] >> 2);
    return switch (kind) {
        .raw, .repeated => read_plain_literals(content, kind, form),
        else => read_compressed_literals(content, kind, form),
    };
}

fn read_plain_literals(content: []const u8, kind: LiteralsKind, form: u2) Fault!Literals {
    const header_size: usize = switch (form) {
        0, 2 => 1,
        1 => 2,
        3 => 3,
    };
    const header = try read_header(content, header_size);
    const size: usize = @intCast(if (header_size == 1) header >> 3 else header >> 4);
    if (size > block_size_max) return error.Corrupt;
    const rest = content[header_size..];
    if (kind == .raw) {
        if (rest.len < size) return error.Truncated;
        return .{ .bytes = rest[0..size], .section_size = header_size + size };
    }
    if (rest.len < 1) return error.Truncated;
    @memset(huffman.literals[0..size], rest[0]);
    return .{ .bytes = huffman.literals[0..size], .section_size = header_size + 1 };
}

fn read_compressed_literals(content: []const u8, kind: LiteralsKind, form: u2) Fault!Literals {
    const header_size: usize, const size_bits: u32 = switch (form) {
        0, 1 => .{ 3, 10 },
        2 => .{ 4, 14 },
        3 => .{ 5, 18 },
    };
    const header = try read_header(content, header_size);
    const size = entropy.take_bits(header, 4, size_bits);
    const compressed_size = entropy.take_bits(header, 4 + size_bits, size_bits);
    const rest = content[header_size..];
    if (rest.len < compressed_size) return error.Truncated;
    try huffman.decode_literals(rest[0..compressed_size], .{
        .size = size,
        .has_table = kind == .compressed,
        .has_four_streams = form != 0,
    });
    return .{ .bytes = huffman.literals[0..size], .section_size = header_size + compressed_size };
}

fn read_header(content: []const u8, size: usize) Fault!u64 {
    if (content.len < size) return error.Truncated;
    var header: u64 = 0;
    for (content[0..size], 0..) |byte, index| header |= @as(u64, byte) << @intCast(8 * index);
    return header;
}

// --- Tests --------------------------------------------------------------------------------------

const testing = std.testing;
const slack = 64;

fn from_hex(comptime text: []const u8) [text.len / 2]u8 {
    @setEvalBranchQuota(20_000);
    var bytes: [text.len / 2]u8 = undefined;
    _ = std.fmt.hexToBytes(&bytes, text) catch unreachable;
    return bytes;
}

/// 900 bytes of `sample_text`: at level 19 with size and checksum, at level 1 with neither.
pub const sample_checked = from_hex(
    "28b52ffd648402e5090056902a15804d1b001018d9602089817db4b27b735d1298d1112b0023002100c7b384784011f3" ++
        "00c580380de01484c3284a6074da4b98362988d6b4c47940001542636ad91138208759025dac5fbd64bb792dbe73baae" ++
        "23732a101c4d129c56e957375dafd3b2e26567d50fb503dfc343dc4eccd3ffca166fcd76d7fbb22a6c564e4ed6f7a3d9" ++
        "75de6aed6b0ff5019d659b6a7d997aae43fc62d5d3a9f1626a3662de8c9b8b5579cd9e689a7b7c4ea8718622855baac5" ++
        "4044300c9d7a2002420693a6c31cfb03300634c4c78531f79b9fe2a6375ac9025856e57a0d76d8f2c799705404735414" ++
        "ae827d6768e500b626a8297189f244900b2971dd068fb240b11ad6527d28b3bd459d49f22e88ad7fdd698093a060231c" ++
        "83ace2548870c48f30ceddc30356a50c46c1e7cdd8d3d660385e93901a5b9132732cd4e84f0d0afd6736",
);
pub const sample_plain = from_hex(
    "28b52ffd00004d0a0016502a1990a56903ddea5bb45284bc7d8cbbd304484ada99624d7667622c0021001f00656c2329" ++
        "38084a0120801c0a521090c36020020c9ab1c142248582707e65f2ac10493138be53d5c548906320c59b29c4eb29ad69" ++
        "ec509d792f8471281076a2d77834bd19ccdbee1c51cd3fb50566b3d1676f8d0addca327b0f968ac8279f97a68eb5ae32" ++
        "c313f6109a5fca07e7a8f05e76f726995dbc896aec89be9f7dadcaa4fc13ab7aae1fd62d065fa8b18612d8b22c6b3042" ++
        "c654da06101a959434cd01e8f08c630b5a63df60ac3431b7826f2eae095440dbc1cf77a9dfa8c1053862baa38a184681" ++
        "e43812f66b65644f5536d826eec8b8fb72f887bdda474a0649c6186a678a2ced39a01b9cf303c72b64ef498e69dc5a9a" ++
        "d0371463814d9e120a375928022a36960a107fdc598c88ebdc04ab24614e708ef1f6b4d5964db17ae15076dfbb7eaa82" ++
        "7635",
);

const sample_size = 900;

pub fn sample_text() [sample_size]u8 {
    const words = [_][]const u8{ "alpha", "beta", "gamma", "delta", "order", "price", "north", "south" };
    var text: [sample_size + slack]u8 = undefined;
    var writer: std.Io.Writer = .fixed(&text);
    var state: u32 = 1;
    while (writer.end < sample_size) {
        state = (state *% 1103515245 +% 12345) & 0x7FFF_FFFF;
        writer.print("{s} ", .{words[(state >> 16) % 8]}) catch unreachable;
        if ((state >> 20) % 4 == 0) writer.print("{d};", .{state >> 8}) catch unreachable;
    }
    return text[0..sample_size].*;
}

/// Decodes into a target of `size` bytes between marks that must stay.
fn decode(gpa: std.mem.Allocator, bytes: []const u8, size: usize) (Error || error{OutOfMemory})![]u8 {
    defer interrupt.forget();
    const source = try gpa.alloc(u8, bytes.len + slack);
    defer gpa.free(source);
    @memset(source, 0xEE);
    @memcpy(source[0..bytes.len], bytes);
    const marked = try gpa.alloc(u8, slack + size + 2 * slack);
    defer gpa.free(marked);
    @memset(marked, 0xA5);
    const outcome = decompress(source[0..bytes.len], marked[slack..][0..size]);
    assert(std.mem.allEqual(u8, marked[0..slack], 0xA5));
    assert(std.mem.allEqual(u8, marked[2 * slack + size ..], 0xA5));
    try outcome;
    return gpa.dupe(u8, marked[slack..][0..size]);
}

fn expect_decoded(expected: []const u8, bytes: []const u8) !void {
    const decoded = try decode(testing.allocator, bytes, expected.len);
    defer testing.allocator.free(decoded);
    try testing.expectEqualSlices(u8, expected, decoded);
}

fn expect_refused(reason: Error, bytes: []const u8, size: usize) !void {
    try testing.expectError(reason, decode(testing.allocator, bytes, size));
}

test decompress {
    const text = sample_text();
    try expect_decoded(&text, &sample_checked);
    try expect_decoded(&text, &sample_plain);
    try expect_decoded("", "");
    for ([_][]const u8{ &sample_checked, &sample_plain }) |bytes| {
        try expect_refused(error.InvalidFormat, bytes, sample_size - 1);
        try expect_refused(error.InvalidFormat, bytes, sample_size + 1);
        for (0..bytes.len) |size| try expect_refused(error.InvalidFormat, bytes[0..size], sample_size);
    }
}

test "decompress: several frames, skippable ones between them" {
    const text = sample_text();
    const skippable = from_hex("5e2a4d1803000000aabbcc");
    const bytes = skippable ++ sample_plain ++ skippable ++ sample_checked ++ skippable;
    try expect_decoded(&(text ++ text), &bytes);
    try expect_decoded("", &skippable);
    try expect_refused(error.InvalidFormat, skippable[0 .. skippable.len - 1], 0);
    try expect_refused(error.InvalidFormat, &(sample_plain ++ [_]u8{0}), sample_size);
}

test "decompress: raw and repeated blocks, block sizes" {
    // One segment, content of 8 bytes: raw "abc", then "x" five times.
    const bytes = from_hex("28b52ffd2008" ++ "180000616263" ++ "2b000078");
    try expect_decoded("abcxxxxx", &bytes);
    // Stated size 9, a reserved kind of block, a reserved bit, and 128 KiB + 1 bytes in a block.
    try expect_refused(error.InvalidFormat, &from_hex("28b52ffd2009" ++ "180000616263" ++ "2b000078"), 8);
    try expect_refused(error.InvalidFormat, &from_hex("28b52ffd2008" ++ "1e0000616263"), 8);
    try expect_refused(error.InvalidFormat, &from_hex("28b52ffd2808" ++ "180000616263" ++ "2b000078"), 8);
    try expect_refused(error.InvalidFormat, &from_hex("28b52ffd0000" ++ "0b001078"), 128 * 1024 + 1);
    const large: [128 * 1024]u8 = @splat('x');
    try expect_decoded(&large, &from_hex("28b52ffd0000" ++ "03001078"));
}

test "decompress: dictionaries are refused, an id of zero is none" {
    try expect_refused(error.NotSupported, &from_hex("28b52ffd210701" ++ "190000616263"), 3);
    try expect_decoded("abc", &from_hex("28b52ffd210003" ++ "190000616263"));
}

test "decompress: checksum" {
    var bytes = sample_checked;
    bytes[bytes.len - 2] ^= 1;
    try expect_refused(error.InvalidFormat, &bytes, sample_size);
}

test "decompress: cancelled" {
    interrupt.control.cancel = 1;
    defer interrupt.control.cancel = 0;
    try expect_refused(error.Cancelled, &sample_plain, sample_size);
}

test "decompress: every byte changed in several ways" {
    const text = sample_text();
    const changes = [_]u8{ 0x01, 0x80, 0xFF, 0x15 };
    for (0..sample_checked.len) |index| {
        for (changes) |change| {
            var bytes = sample_checked;
            bytes[index] ^= change;
            // Only bits that mean nothing may change without harm.
            if (decode(testing.allocator, &bytes, sample_size)) |decoded| {
                defer testing.allocator.free(decoded);
                try testing.expectEqualSlices(u8, &text, decoded);
            } else |_| {}
            bytes = sample_plain[0..sample_checked.len].*;
            bytes[index] ^= change;
            if (decode(testing.allocator, &bytes, sample_size)) |decoded| testing.allocator.free(decoded) else |_| {}
        }
    }
}
