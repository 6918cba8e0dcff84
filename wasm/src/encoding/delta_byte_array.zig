//! DELTA_BYTE_ARRAY: every value is the beginning of the one before and a new rest.
//!
//!     prefix lengths   DELTA_BINARY_PACKED, INT32
//!     suffix lengths   DELTA_BINARY_PACKED, INT32
//!     suffixes         bytes without anything between them
//!
//! Values are read in two steps, so that the caller can make room in between: `read_offsets` says
//! where they will lie, `read_bytes` puts them together. The lengths are decoded anew in the second
//! step, so that no memory depends on how many there are said to be. A few bytes of a page can
//! stand for very many, but never for more than `read_offsets` found: it follows the length of
//! every value, refuses prefixes longer than the value before, and counts in 64 bits.
//!
//! The value before the next one is kept from read to read. It consists of bytes of the page, so it
//! is no longer than the page.
//!
//! Sources are readable, targets writable 64 bytes past their end: short copies move 16 bytes.
const std = @import("std");
const interrupt = @import("../core/interrupt.zig");
const bitpack = @import("bitpack.zig");
const lanes_module = @import("../core/lanes.zig");
const delta = @import("delta.zig");
const assert = std.debug.assert;

/// TooLarge: the bytes of these values cannot be addressed by 32-bit offsets. Fewer values can.
pub const Error = error{ InvalidFormat, Cancelled, TooLarge };
pub const ReadError = Error || error{OutOfMemory};

const step_values = 256;
const slack = 64;

pub const Decoder = struct {
    gpa: std.mem.Allocator,
    source: []const u8,
    /// Of the next value to be put together.
    lengths: Lengths,
    /// Of the first suffix that is not used yet.
    position: usize,
    previous: []u8 = &.{},
    /// The memory of `previous`, with room for wide loads behind it.
    previous_memory: []u8 = &.{},
    /// Values and bytes of the last `read_offsets`, which are still to be read.
    promised_values: usize = 0,
    promised_bytes: usize = 0,

    /// `value_count` is what the page's header and levels say.
    pub fn init(gpa: std.mem.Allocator, source: []const u8, value_count: u64) Error!Decoder {
        const prefixes: delta.Decoder(i32) = try .init(source);
        const suffixes_start = try prefixes.consumed();
        const suffixes: delta.Decoder(i32) = try .init(source[suffixes_start..]);
        const position = suffixes_start + try suffixes.consumed();
        if (prefixes.remaining() < value_count or suffixes.remaining() < value_count) {
            return fail(
                0,
                "{d} values, but {d} prefixes and {d} suffixes",
                .{ value_count, prefixes.remaining(), suffixes.remaining() },
            );
        }
        return .{
            .gpa = gpa,
            .source = source,
            .lengths = .{ .prefixes = prefixes, .suffixes = suffixes },
            .position = position,
        };
    }

    pub fn deinit(self: *Decoder) void {
        self.gpa.free(self.previous_memory);
        self.* = undefined;
    }

    /// Writes where the next `offsets.len - 1` values begin, the first at `base`, and returns where
    /// the last one ends. Nothing is read by it: after an error, TooLarge for one, it may be called
    /// for fewer values.
    pub fn read_offsets(self: *Decoder, offsets: []u32, base: u32) Error!u32 {
        assert(offsets.len > 0 and self.promised_values == 0);
        var ahead = self.lengths;
        var walk: Walk = .init(self, base);
        offsets[0] = base;
        var left = offsets[1..];
        while (left.len > 0) {
            const step = left[0..@min(left.len, step_values)];
            try ahead.read(step.len);
            walk_step(&walk, &ahead, step);
            try self.check(&walk);
            if (walk.end > std.math.maxInt(u32)) {
                interrupt.describe("texts of {d} bytes", .{walk.end});
                return error.TooLarge;
            }
            left = left[step.len..];
        }
        self.promised_values = offsets.len - 1;
        self.promised_bytes = @intCast(walk.end - base);
        return @intCast(walk.end);
    }

    /// The bytes of the values whose offsets were read last, which fill `target` exactly.
    pub fn read_bytes(self: *Decoder, target: []u8) ReadError!void {
        assert(target.len == self.promised_bytes);
        const count = self.promised_values;
        self.promised_values = 0;
        self.promised_bytes = 0;
        if (count == 0) return;
        var build: Build = .{
            .to = target.ptr,
            .suffix = self.source.ptr + self.position,
            // Of no value before nothing is used, but 16 bytes are loaded.
            .previous = if (self.previous.len > 0) self.previous.ptr else self.source.ptr,
        };
        var left = count;
        while (left > 0) {
            try interrupt.check();
            const step: usize = @min(left, step_values);
            try self.lengths.read(step);
            build_step(&build, &self.lengths, step);
            left -= step;
        }
        assert(build.to == target.ptr + target.len);
        self.position = build.suffix - self.source.ptr;
        assert(self.position <= self.source.len);
        try self.remember(target[build.previous - target.ptr ..]);
    }

    /// Values of `width` bytes each, as FIXED_LEN_BYTE_ARRAY has them, to all of `target`.
    pub fn read_fixed(self: *Decoder, width: usize, target: []u8) ReadError!void {
        assert(self.promised_values == 0 and width > 0 and target.len % width == 0);
        var ahead = self.lengths;
        var walk: Walk = .init(self, 0);
        var left = target.len / width;
        while (left > 0) {
            var ends: [step_values]u32 = undefined;
            const step: usize = @min(left, step_values);
            try ahead.read(step);
            if (!ahead.all_are(width, step)) return fail(self.position, "a value is not {d} bytes long", .{width});
            walk_step(&walk, &ahead, ends[0..step]);
            try self.check(&walk);
            left -= step;
        }
        self.promised_values = target.len / width;
        self.promised_bytes = target.len;
        try self.read_bytes(target);
    }

    /// Passes over values. The one before the next is put together on the way.
    pub fn skip(self: *Decoder, count: u64) ReadError!void {
        assert(self.promised_values == 0);
        var left = count;
        while (left > 0) {
            try interrupt.check();
            const step: usize = @intCast(@min(left, step_values));
            try self.lengths.read(step);
            var walk: Walk = .init(self, 0);
            var ends: [step_values]u32 = undefined;
            walk_step(&walk, &self.lengths, ends[0..step]);
            try self.check(&walk);
            try self.reserve(walk.longest);
            self.rewrite_previous(step);
            self.previous = self.previous_memory[0..@intCast(walk.length)];
            left -= step;
        }
    }

    /// Writes values over each other: each leaves the beginning of the one before as it is.
    fn rewrite_previous(self: *Decoder, count: usize) void {
        const memory = self.previous_memory.ptr;
        for (self.lengths.prefix_step[0..count], self.lengths.suffix_step[0..count]) |prefix, suffix| {
            copy(memory + prefix, self.source.ptr + self.position, suffix);
            self.position += suffix;
        }
    }

    fn check(self: *const Decoder, walk: *const Walk) Error!void {
        if (walk.shortage >> 63 != 0 or walk.suffix_size > self.source.len - self.position) {
            return fail(self.position, "prefixes or suffixes exceed the bytes that are there", .{});
        }
    }

    fn remember(self: *Decoder, value: []const u8) error{OutOfMemory}!void {
        try self.reserve(value.len);
        @memcpy(self.previous_memory[0..value.len], value);
        self.previous = self.previous_memory[0..value.len];
    }

    /// Makes room for a previous value of `size` bytes and keeps the present one.
    fn reserve(self: *Decoder, size: u64) error{OutOfMemory}!void {
        assert(size <= self.source.len);
        if (self.previous_memory.len >= size + slack) return;
        const wanted: usize = @intCast(@min(size *| 2, self.source.len));
        const memory = try self.gpa.alloc(u8, wanted + slack);
        @memcpy(memory[0..self.previous.len], self.previous);
        self.gpa.free(self.previous_memory);
        self.previous_memory = memory;
        self.previous = memory[0..self.previous.len];
    }
};

/// Both kinds of lengths, a step at a time. They are not negative where a page is smaller than
/// 2 GiB: as unsigned numbers they would exceed every bound they are held against.
const Lengths = struct {
    prefixes: delta.Decoder(i32),
    suffixes: delta.Decoder(i32),
    prefix_step: [step_values]u32 = undefined,
    suffix_step: [step_values]u32 = undefined,

    fn read(self: *Lengths, count: usize) Error!void {
        try self.prefixes.read(@ptrCast(self.prefix_step[0..count]));
        try self.suffixes.read(@ptrCast(self.suffix_step[0..count]));
    }

    fn all_are(self: *const Lengths, width: usize, count: usize) bool {
        var differing: u64 = 0;
        for (self.prefix_step[0..count], self.suffix_step[0..count]) |prefix, suffix| {
            differing |= (@as(u64, prefix) + suffix) ^ width;
        }
        return differing == 0;
    }
};

fn fail(offset: usize, comptime format: []const u8, arguments: anytype) Error {
    @branchHint(.cold);
    interrupt.describe(format, arguments);
    interrupt.describe_offset(offset);
    return error.InvalidFormat;
}

/// What a walk over lengths finds. 64 bits hold the sums of all lengths a page can have.
const Walk = struct {
    /// Where the last value ends, and how long it is.
    end: u64,
    length: u64,
    longest: u64 = 0,
    suffix_size: u64 = 0,
    /// The highest bit is set when a prefix was longer than the value before.
    shortage: u64 = 0,

    fn init(decoder: *const Decoder, base: u32) Walk {
        return .{ .end = base, .length = decoder.previous.len };
    }
};

noinline fn walk_step(walk: *Walk, lengths: *const Lengths, ends: []u32) void {
    var now = walk.*;
    for (ends, lengths.prefix_step[0..ends.len], lengths.suffix_step[0..ends.len]) |*end, prefix, suffix| {
        now.shortage |= now.length -% prefix;
        now.length = @as(u64, prefix) + suffix;
        now.longest = @max(now.longest, now.length);
        now.suffix_size += suffix;
        now.end += now.length;
        end.* = @truncate(now.end);
    }
    walk.* = now;
}

/// Where the next value goes, where its suffix is, and where the value before it is.
const Build = struct {
    to: [*]u8,
    suffix: [*]const u8,
    previous: [*]const u8,
};

/// The first 16 bytes of the value before stay in a register: they were stored a moment ago, in two
/// pieces, and a load of both would wait for the stores.
noinline fn build_step(build: *Build, lengths: *const Lengths, count: usize) void {
    var now = build.*;
    var head = lanes_module.load16(now.previous);
    for (lengths.prefix_step[0..count], lengths.suffix_step[0..count]) |prefix, suffix| {
        const rest = lanes_module.load16(now.suffix);
        head = splice(head, prefix, rest);
        now.to[0..16].* = head;
        if (prefix > 16) copy_rest(now.to, now.previous, prefix);
        now.to[prefix..][0..16].* = rest;
        if (suffix > 16) copy_rest(now.to + prefix, now.suffix, suffix);
        now.previous = now.to;
        now.to += @as(usize, prefix) + suffix;
        now.suffix += suffix;
    }
    build.* = now;
}

/// The first `prefix` bytes of one and then the other's, 16 in all.
inline fn splice(head: lanes_module.Bytes16, prefix: u32, rest: lanes_module.Bytes16) lanes_module.Bytes16 {
    const lanes = std.simd.iota(u8, 16);
    const size: lanes_module.Bytes16 = @splat(@intCast(@min(prefix, 16)));
    const zero: lanes_module.Bytes16 = @splat(0);
    // Lanes of the prefix ask for lanes from 240 on, which are 0.
    return @select(u8, lanes < size, head, zero) | lanes_module.swizzle(rest, lanes -% size);
}

/// May read and write up to 15 bytes too many. A prefix is copied to where the value before ends:
/// what is read of the target there are only bytes too many.
inline fn copy(target: [*]u8, source: [*]const u8, size: usize) void {
    target[0..16].* = @as(@Vector(16, u8), source[0..16].*);
    if (size > 16) copy_rest(target, source, size);
}

noinline fn copy_rest(target: [*]u8, source: [*]const u8, size: usize) void {
    if (size > 256) return @memcpy(target[0..size], source[0..size]);
    var done: usize = 16;
    while (done < size) : (done += 16) target[done..][0..16].* = @as(@Vector(16, u8), source[done..][0..16].*);
}

// ------------------------------------------------------------------------------------ tests

const testing = std.testing;
const TestWriter = delta.TestWriter;

/// Random values that share beginnings, and the page that holds them.
const TestPage = struct {
    writer: TestWriter = .{},
    offsets: [count_max + 1]u32 = undefined,
    text: std.ArrayList(u8) = .empty,
    count: usize,

    const count_max = 1200;

    fn init(random: std.Random, count: usize, fixed: ?u32) !TestPage {
        var page: TestPage = .{ .count = count };
        errdefer page.deinit();
        page.offsets[0] = 0;
        var prefixes: [count_max]i64 = undefined;
        var suffixes: [count_max]i64 = undefined;
        var rest: std.ArrayList(u8) = .empty;
        defer rest.deinit(testing.allocator);
        for (0..count) |index| {
            const before: u32 = if (index == 0) 0 else page.offsets[index] - page.offsets[index - 1];
            const prefix = random.uintAtMost(u32, before);
            const limit: u32 = if (random.uintLessThan(u8, 30) == 0) 600 else 20;
            const suffix = if (fixed) |width| width - prefix else random.uintAtMost(u32, limit);
            const start = if (index == 0) 0 else page.offsets[index - 1];
            for (0..prefix) |i| try page.text.append(testing.allocator, page.text.items[start + i]);
            for (0..suffix) |_| {
                const byte = random.int(u8);
                try page.text.append(testing.allocator, byte);
                try rest.append(testing.allocator, byte);
            }
            prefixes[index] = prefix;
            suffixes[index] = suffix;
            page.offsets[index + 1] = page.offsets[index] + prefix + suffix;
        }
        try page.writer.put(prefixes[0..count]);
        try page.writer.put(suffixes[0..count]);
        try page.writer.bytes.appendSlice(testing.allocator, rest.items);
        return page;
    }

    fn deinit(page: *TestPage) void {
        page.writer.deinit();
        page.text.deinit(testing.allocator);
    }
};

fn check_read(page: *const TestPage, decoder: *Decoder, first: usize, count: usize, base: u32) !void {
    var offsets: [TestPage.count_max + 1]u32 = undefined;
    const end = try decoder.read_offsets(offsets[0 .. count + 1], base);
    const expected = page.text.items[page.offsets[first]..page.offsets[first + count]];
    for (offsets[0 .. count + 1], page.offsets[first..][0 .. count + 1]) |offset, place| {
        try testing.expectEqual(place - page.offsets[first] + base, offset);
    }
    try testing.expectEqual(expected.len + base, end);
    const target = try testing.allocator.alloc(u8, expected.len + slack);
    defer testing.allocator.free(target);
    try decoder.read_bytes(target[0..expected.len]);
    try testing.expectEqualSlices(u8, expected, target[0..expected.len]);
}

test Decoder {
    var prng: std.Random.DefaultPrng = .init(21);
    const random = prng.random();
    for ([_]usize{ 0, 1, 2, 32, 33, 256, 257, 1200 }) |count| {
        for (0..4) |_| {
            var page: TestPage = try .init(random, count, null);
            defer page.deinit();
            var decoder: Decoder = try .init(testing.allocator, try page.writer.finish(), count);
            defer decoder.deinit();
            var done: usize = 0;
            while (done < count) {
                const step = random.uintAtMost(usize, @min(count - done, 500));
                if (random.uintLessThan(u8, 3) == 0)
                    try decoder.skip(step)
                else
                    try check_read(&page, &decoder, done, step, random.int(u16));
                done += step;
            }
            var offsets: [2]u32 = undefined;
            try testing.expectError(error.InvalidFormat, decoder.skip(1));
            try testing.expectError(error.InvalidFormat, decoder.read_offsets(&offsets, 0));
        }
    }
}

test "read_fixed" {
    var prng: std.Random.DefaultPrng = .init(22);
    const random = prng.random();
    for ([_]u32{ 1, 5, 16, 17, 40 }) |width| {
        var page: TestPage = try .init(random, 700, width);
        defer page.deinit();
        var decoder: Decoder = try .init(testing.allocator, try page.writer.finish(), 700);
        defer decoder.deinit();
        var target: [300 * 40 + slack]u8 = undefined;
        try decoder.read_fixed(width, target[0 .. 300 * width]);
        try testing.expectEqualSlices(u8, page.text.items[0 .. 300 * width], target[0 .. 300 * width]);
        try decoder.skip(200);
        try testing.expectError(error.InvalidFormat, decoder.read_fixed(width + 1, target[0 .. 10 * (width + 1)]));
        try decoder.read_fixed(width, target[0 .. 200 * width]);
        try testing.expectEqualSlices(u8, page.text.items[500 * width ..], target[0 .. 200 * width]);
    }
}

fn expect_refused(prefixes: []const i64, suffixes: []const i64, rest: []const u8) !void {
    var writer: TestWriter = .{};
    defer writer.deinit();
    try writer.put(prefixes);
    try writer.put(suffixes);
    try writer.bytes.appendSlice(testing.allocator, rest);
    var decoder: Decoder = try .init(testing.allocator, try writer.finish(), prefixes.len);
    defer decoder.deinit();
    var offsets: [8]u32 = undefined;
    try testing.expectError(error.InvalidFormat, decoder.read_offsets(offsets[0 .. prefixes.len + 1], 0));
    try testing.expectError(error.InvalidFormat, decoder.skip(prefixes.len));
    try testing.expectError(error.InvalidFormat, Decoder.init(testing.allocator, writer.bytes.items, prefixes.len + 1));
}

test "prefixes and suffixes that the bytes do not cover" {
    try expect_refused(&.{ 1, 0 }, &.{ 1, 1 }, "abcdef");
    try expect_refused(&.{ 0, 2, 4 }, &.{ 2, 1, 1 }, "abcdef");
    try expect_refused(&.{ 0, -1 }, &.{ 2, 1 }, "abcdef");
    try expect_refused(&.{ 0, 0 }, &.{ 2, -1 }, "abcdef");
    try expect_refused(&.{ 0, 0 }, &.{ 5, 2 }, "abcdef");
    try expect_refused(&.{ 0, std.math.minInt(i32) }, &.{ 1, std.math.minInt(i32) }, "abcdef");
}

test "a few bytes that stand for gigabytes" {
    const length = 400_000;
    const count = 16_384;
    const prefixes = try testing.allocator.alloc(i64, count);
    defer testing.allocator.free(prefixes);
    const suffixes = try testing.allocator.alloc(i64, count);
    defer testing.allocator.free(suffixes);
    @memset(prefixes, length);
    @memset(suffixes, 0);
    prefixes[0] = 0;
    suffixes[0] = length;
    var writer: TestWriter = .{};
    defer writer.deinit();
    try writer.put(prefixes);
    try writer.put(suffixes);
    try writer.bytes.appendNTimes(testing.allocator, 'x', length);
    var decoder: Decoder = try .init(testing.allocator, try writer.finish(), count);
    defer decoder.deinit();
    const offsets = try testing.allocator.alloc(u32, count + 1);
    defer testing.allocator.free(offsets);
    try testing.expectError(error.TooLarge, decoder.read_offsets(offsets, 0));
    // Fewer values can be read all the same, and all be skipped.
    try decoder.skip(count - 3);
    try testing.expectEqual(3 * length, try decoder.read_offsets(offsets[0..4], 0));
    const target = try testing.allocator.alloc(u8, 3 * length + slack);
    defer testing.allocator.free(target);
    try decoder.read_bytes(target[0 .. 3 * length]);
    try testing.expect(std.mem.allEqual(u8, target[0 .. 3 * length], 'x'));
}

test "any change of bytes gives values or an error" {
    var prng: std.Random.DefaultPrng = .init(23);
    const random = prng.random();
    for (0..20) |_| {
        var page: TestPage = try .init(random, 200, null);
        defer page.deinit();
        const size = (try page.writer.finish()).len;
        for (0..20) |_| {
            const at = random.uintLessThan(usize, if (random.boolean()) 150 else size);
            const before = page.writer.bytes.items[at];
            page.writer.bytes.items[at] = random.int(u8);
            defer page.writer.bytes.items[at] = before;
            const cut = if (random.boolean()) size else random.uintAtMost(usize, size);
            read_mutated(random, page.writer.bytes.items[0..cut]) catch |err|
                try testing.expect(err != error.OutOfMemory);
        }
    }
}

fn read_mutated(random: std.Random, source: []const u8) ReadError!void {
    var decoder: Decoder = try .init(testing.allocator, source, random.uintAtMost(u64, 200));
    defer decoder.deinit();
    var offsets: [101]u32 = undefined;
    for (0..6) |_| {
        const count = random.uintAtMost(usize, 100);
        if (random.boolean()) try decoder.skip(count) else {
            const end = try decoder.read_offsets(offsets[0 .. count + 1], 0);
            const target = try testing.allocator.alloc(u8, end + slack);
            defer testing.allocator.free(target);
            try decoder.read_bytes(target[0..end]);
        }
    }
}
