//! DELTA_LENGTH_BYTE_ARRAY: the lengths of all values, then their bytes.
//!
//!     lengths   DELTA_BINARY_PACKED, INT32
//!     bytes     value 0, value 1, … without anything between them
//!
//! Values are read in two steps, so that the caller can make room in between: `read_offsets` says
//! where they will lie, `read_bytes` gives their bytes. No byte is given that is not in the page,
//! so the room asked for is never more than the page is large.
//!
//! Sources are readable 64 bytes past their end.
const std = @import("std");
const interrupt = @import("../core/interrupt.zig");
const delta = @import("delta.zig");
const assert = std.debug.assert;

/// TooLarge: the bytes of these values cannot be addressed by 32-bit offsets. Fewer values can.
pub const Error = error{ InvalidFormat, Cancelled, TooLarge };

/// Lengths that are looked at between two looks at the cancel byte when values are skipped.
const step_values = 512;

pub const Decoder = struct {
    source: []const u8,
    lengths: delta.Decoder(i32),
    /// Of the first byte that is not read yet.
    position: usize,
    /// Bytes of the values whose offsets were read and whose bytes were not.
    promised: usize = 0,

    /// `value_count` is what the page's header and levels say.
    pub fn init(source: []const u8, value_count: u64) Error!Decoder {
        const lengths: delta.Decoder(i32) = try .init(source);
        if (lengths.remaining() < value_count) {
            return fail(0, "{d} values, but {d} lengths", .{ value_count, lengths.remaining() });
        }
        return .{ .source = source, .lengths = lengths, .position = try lengths.consumed() };
    }

    /// Writes where the next `offsets.len - 1` values begin, the first at `base`, and returns where
    /// the last one ends. After an error the decoder is where it was.
    pub fn read_offsets(self: *Decoder, offsets: []u32, base: u32) Error!u32 {
        assert(offsets.len > 0 and self.promised == 0);
        const before = self.lengths;
        errdefer self.lengths = before;
        try self.lengths.read(@ptrCast(offsets[1..]));
        const total = try self.check_lengths(offsets[1..]);
        const end = @as(u64, base) + total;
        if (end > std.math.maxInt(u32)) {
            interrupt.describe("texts of {d} bytes", .{end});
            return error.TooLarge;
        }
        offsets[0] = base;
        add_up(offsets);
        self.promised = total;
        return @intCast(end);
    }

    /// The bytes of the values whose offsets were read last, which fill `target` exactly.
    pub fn read_bytes(self: *Decoder, target: []u8) Error!void {
        assert(target.len == self.promised);
        @memcpy(target, self.source[self.position..][0..target.len]);
        self.position += target.len;
        self.promised = 0;
    }

    /// The same bytes where they are, for a caller that copies them elsewhere.
    pub fn take_bytes(self: *Decoder) []const u8 {
        const bytes = self.source[self.position..][0..self.promised];
        self.position += bytes.len;
        self.promised = 0;
        return bytes;
    }

    pub fn skip(self: *Decoder, count: u64) Error!void {
        assert(self.promised == 0);
        var lengths: [step_values]u32 = undefined;
        var left = count;
        while (left > 0) {
            try interrupt.check();
            const step: usize = @intCast(@min(left, step_values));
            try self.lengths.read(@ptrCast(lengths[0..step]));
            self.position += try self.check_lengths(lengths[0..step]);
            left -= step;
        }
    }

    /// The sum of lengths, if there are so many bytes.
    fn check_lengths(self: *const Decoder, lengths: []const u32) Error!usize {
        const total = sum(lengths);
        const available = self.source.len - self.position;
        if (total.all >> 31 != 0 or total.size > available) {
            return fail(self.position, "lengths of values exceed the {d} bytes that are there", .{available});
        }
        return @intCast(total.size);
    }
};

fn fail(offset: usize, comptime format: []const u8, arguments: anytype) Error {
    @branchHint(.cold);
    interrupt.describe(format, arguments);
    interrupt.describe_offset(offset);
    return error.InvalidFormat;
}

const Sum = struct { size: u64, all: u32 };

/// A negative length shows in the highest bit of all of them together.
noinline fn sum(lengths: []const u32) Sum {
    var result: Sum = .{ .size = 0, .all = 0 };
    for (lengths) |length| {
        result.size += length;
        result.all |= length;
    }
    return result;
}

/// Lengths become ends, in place; their sum is known to fit.
noinline fn add_up(offsets: []u32) void {
    var end = offsets[0];
    for (offsets[1..]) |*offset| {
        end += offset.*;
        offset.* = end;
    }
}

// ------------------------------------------------------------------------------------ tests

const testing = std.testing;
const TestWriter = delta.TestWriter;

const TestPage = struct {
    writer: TestWriter = .{},
    offsets: [1500]u32 = undefined,
    text: [1500 * 40]u8 = undefined,
    count: usize,

    fn init(random: std.Random, count: usize) !TestPage {
        var page: TestPage = .{ .count = count };
        var lengths: [1500]i64 = undefined;
        page.offsets[0] = 0;
        for (lengths[0..count], 0..) |*length, index| {
            length.* = random.uintAtMost(u32, if (random.uintLessThan(u8, 8) == 0) 40 else 6);
            page.offsets[index + 1] = page.offsets[index] + @as(u32, @intCast(length.*));
        }
        random.bytes(&page.text);
        try page.writer.put(lengths[0..count]);
        try page.writer.bytes.appendSlice(testing.allocator, page.text[0..page.offsets[count]]);
        return page;
    }
};

fn check_values(page: *const TestPage, first: usize, offsets: []const u32, base: u32, bytes: []const u8) !void {
    for (offsets, page.offsets[first..][0..offsets.len]) |offset, expected| {
        try testing.expectEqual(expected - page.offsets[first] + base, offset);
    }
    const end = page.offsets[first + offsets.len - 1];
    try testing.expectEqualSlices(u8, page.text[page.offsets[first]..end], bytes);
}

test Decoder {
    var prng: std.Random.DefaultPrng = .init(11);
    const random = prng.random();
    for ([_]usize{ 0, 1, 2, 32, 33, 129, 1499 }) |count| {
        var page: TestPage = try .init(random, count);
        defer page.writer.deinit();
        var decoder: Decoder = try .init(try page.writer.finish(), count);
        var offsets: [1500]u32 = undefined;
        var text: [1500 * 40]u8 = undefined;
        var done: usize = 0;
        while (done < count) {
            const step = random.uintAtMost(usize, @min(count - done, 300));
            const base = random.int(u16);
            if (random.uintLessThan(u8, 3) == 0) try decoder.skip(step) else {
                const end = try decoder.read_offsets(offsets[0 .. step + 1], base);
                const bytes = text[0 .. end - base];
                if (random.boolean()) try decoder.read_bytes(bytes) else @memcpy(bytes, decoder.take_bytes());
                try check_values(&page, done, offsets[0 .. step + 1], base, bytes);
            }
            done += step;
        }
        try testing.expectError(error.InvalidFormat, decoder.skip(1));
        try testing.expectError(error.InvalidFormat, decoder.read_offsets(offsets[0..2], 0));
        try testing.expectEqual(7, try decoder.read_offsets(offsets[0..1], 7));
    }
}

test "lengths that the bytes do not cover" {
    var offsets: [5]u32 = undefined;
    for ([_][4]i64{
        .{ 1, -1, 2, 2 },
        .{ 1, 2, 3, 4 },
        .{ std.math.maxInt(i32), 0, 0, 0 },
        .{ -5, 1, 1, 1 },
    }) |lengths| {
        var writer: TestWriter = .{};
        defer writer.deinit();
        try writer.put(&lengths);
        try writer.bytes.appendSlice(testing.allocator, "123456789");
        var decoder: Decoder = try .init(try writer.finish(), 4);
        const position = decoder.position;
        try testing.expectError(error.InvalidFormat, decoder.read_offsets(&offsets, 0));
        try testing.expectEqual(4, decoder.lengths.remaining());
        try testing.expectError(error.InvalidFormat, decoder.skip(4));
        try testing.expectEqual(position, decoder.position);
        try testing.expectError(error.InvalidFormat, Decoder.init(writer.bytes.items, 5));
    }
}

test "offsets beyond 32 bits leave the decoder where it was" {
    var writer: TestWriter = .{};
    defer writer.deinit();
    try writer.put(&.{ 3, 4 });
    try writer.bytes.appendSlice(testing.allocator, "abcdefg");
    var decoder: Decoder = try .init(try writer.finish(), 2);
    var offsets: [3]u32 = undefined;
    const limit = std.math.maxInt(u32);
    try testing.expectError(error.TooLarge, decoder.read_offsets(&offsets, limit - 6));
    try testing.expectEqual(limit, try decoder.read_offsets(offsets[0..2], limit - 3));
    try testing.expectEqualStrings("abc", decoder.take_bytes());
    try testing.expectEqual(limit, try decoder.read_offsets(offsets[0..2], limit - 4));
    try testing.expectEqualStrings("defg", decoder.take_bytes());
}

test "any change of bytes gives values or an error" {
    var prng: std.Random.DefaultPrng = .init(12);
    const random = prng.random();
    for (0..30) |_| {
        var page: TestPage = try .init(random, 200);
        defer page.writer.deinit();
        const size = (try page.writer.finish()).len;
        for (0..20) |_| {
            const at = random.uintLessThan(usize, if (random.boolean()) 20 else size);
            const before = page.writer.bytes.items[at];
            page.writer.bytes.items[at] = random.int(u8);
            defer page.writer.bytes.items[at] = before;
            const cut = if (random.boolean()) size else random.uintAtMost(usize, size);
            read_mutated(random, page.writer.bytes.items[0..cut]) catch {};
        }
    }
}

fn read_mutated(random: std.Random, source: []const u8) Error!void {
    var decoder: Decoder = try .init(source, random.uintAtMost(u64, 200));
    var offsets: [101]u32 = undefined;
    for (0..6) |_| {
        const count = random.uintAtMost(usize, 100);
        if (random.boolean()) try decoder.skip(count) else {
            const end = try decoder.read_offsets(offsets[0 .. count + 1], 0);
            assert(decoder.take_bytes().len == end);
            for (offsets[0..count], offsets[1..][0..count]) |start, next| assert(start <= next);
        }
    }
}
