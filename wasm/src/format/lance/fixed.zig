//! Values of a fixed size, as a chunk or a block has them: side by side, bit-packed, in runs, or with their bytes
//! apart.
//!
//!     flat              values; those of one bit are a bitmap
//!     inline packing    groups of 1024: a word (of the values' size) with a width, 128 * width bytes
//!     out of line       groups of 1024: 128 * width bytes, the width is the encoding's
//!                       the last group is flat where that takes no more room
//!     rle, chunk        buffer 0: one value for each run; buffer 1: the runs' lengths, a byte each
//!     rle, block        u64 size of the values, values, lengths
//!     byte stream split bytes 0 of all values, bytes 1 of all values, …
//!
//! Opening holds the bytes against the number of values, so that whoever makes room for values has seen the
//! bytes they come from. Reading goes on where the last one ended without starting again; going back is allowed.
//! Nothing behind the sources is read, nothing behind targets is written.
const std = @import("std");
const bitmap = @import("../../core/bitmap.zig");
const byte_stream_split = @import("../../encoding/byte_stream_split.zig");
const compression = @import("compression.zig");
const fastlanes = @import("../../encoding/fastlanes.zig");
const interrupt = @import("../../core/interrupt.zig");
const Encoding = compression.Encoding;
const assert = std.debug.assert;

pub const Error = error{ Cancelled, InvalidFormat, NotSupported };

pub const Place = enum { chunk, block };

/// Bits of a value; null where the encoding is not one of these.
pub fn bits_of(encoding: *const Encoding) ?u32 {
    return switch (encoding.*) {
        .flat => |bits| bits,
        .inline_bitpacking => |bits| bits,
        .out_of_line_bitpacking => |packing| packing.bits,
        .rle, .byte_stream_split => |values| if (values.* == .flat) values.flat else null,
        else => null,
    };
}

/// Buffers that a chunk has for it.
pub fn buffer_count(encoding: *const Encoding) usize {
    return if (encoding.* == .rle) 2 else 1;
}

pub const Fixed = struct {
    form: Form,
    /// Of a value.
    bits: u32,
    count: u64,

    const Form = union(enum) {
        flat: []const u8,
        groups: Groups,
        runs: Runs,
        split: []const u8,
    };

    const Groups = struct {
        bytes: []const u8,
        /// Of every group; null: it stands in front of each.
        width: ?u8,
        /// The next group, and where it begins.
        next: u64 = 0,
        position: usize = 0,
    };

    const Runs = struct {
        values: []const u8,
        lengths: []const u8,
        /// The next run, and the values in front of it.
        next: usize = 0,
        before: u64 = 0,
    };

    /// Of an encoding that `bits_of` has an answer for.
    pub fn open(place: Place, encoding: *const Encoding, buffers: []const []const u8, count: u64) Error!Fixed {
        @setRuntimeSafety(true);
        const bits = bits_of(encoding).?;
        const wanted = if (place == .chunk) buffer_count(encoding) else 1;
        if (buffers.len != wanted) return invalid("{d} buffers of values instead of {d}", .{ buffers.len, wanted });
        const bytes = buffers[0];
        var self: Fixed = .{ .form = .{ .flat = bytes }, .bits = bits, .count = count };
        switch (encoding.*) {
            .flat => try check_size(bytes, bits, count),
            .inline_bitpacking => {
                self.form = .{ .groups = .{ .bytes = bytes, .width = null } };
                try self.check_groups();
            },
            .out_of_line_bitpacking => |packing| {
                self.form = .{ .groups = .{ .bytes = bytes, .width = packing.packed_bits } };
                try self.check_even_groups(packing.packed_bits);
            },
            .rle => {
                self.form = .{ .runs = if (place == .chunk)
                    .{ .values = buffers[0], .lengths = buffers[1] }
                else
                    try split_runs(bytes) };
                try self.check_runs();
            },
            .byte_stream_split => {
                if (bits == 1 or bytes.len * @as(u64, 8) != try total_bits(bits, count)) {
                    return invalid("{d} values with their bytes apart in {d} bytes", .{ count, bytes.len });
                }
                self.form = .{ .split = bytes };
            },
            else => unreachable,
        }
        return self;
    }

    /// Values that lie side by side.
    pub fn of_bytes(bytes: []const u8, bits: u32, count: u64) Error!Fixed {
        try check_size(bytes, bits, count);
        return .{ .form = .{ .flat = bytes }, .bits = bits, .count = count };
    }

    /// The values from `first` on as they are, if they lie so.
    pub fn plain(self: *const Fixed, first: u64, count: u64) ?[]const u8 {
        if (self.form != .flat or self.bits == 1) return null;
        assert(first <= self.count and count <= self.count - first);
        const size: usize = self.bits / 8;
        return self.form.flat[@as(usize, @intCast(first)) * size ..][0 .. @as(usize, @intCast(count)) * size];
    }

    /// The values from `first` on, as many as the target takes. Not of bits.
    pub fn read(self: *Fixed, first: u64, target: []u8) Error!void {
        assert(self.bits != 1);
        const size = self.bits / 8;
        if (size == 0 or target.len == 0) return assert(target.len == 0);
        assert(target.len % size == 0);
        assert(first <= self.count and target.len / size <= self.count - first);
        switch (self.form) {
            .flat => |bytes| @memcpy(target, bytes[@as(usize, @intCast(first)) * size ..][0..target.len]),
            .split => |bytes| try byte_stream_split.read(bytes, size, @intCast(self.count), @intCast(first), target),
            .groups => |*groups| switch (size) {
                inline 1, 2, 4, 8 => |width| {
                    try read_groups(@Int(.unsigned, width * 8), groups, self.count, first, target);
                },
                else => unreachable, // packing is of words
            },
            .runs => |*runs| switch (size) {
                inline 1, 2, 4, 8 => |width| try read_runs(@Int(.unsigned, width * 8), runs, first, target),
                else => return unsupported("runs of values of {d} bits", .{self.bits}),
            },
        }
    }

    /// Bits from `first` on, to any bit of the target.
    pub fn read_bits(self: *Fixed, first: u64, count: usize, target: []u8, target_bit: usize) Error!void {
        assert(self.bits == 1);
        assert(first <= self.count and count <= self.count - first);
        switch (self.form) {
            .flat => |bytes| bitmap.copy(target, target_bit, bytes, @intCast(first), count),
            else => return unsupported("packed or repeated bits", .{}),
        }
    }

    fn check_size(bytes: []const u8, bits: u32, count: u64) Error!void {
        if ((try total_bits(bits, count) + 7) / 8 > bytes.len) {
            return invalid("{d} bytes for {d} values of {d} bits", .{ bytes.len, count, bits });
        }
    }

    /// Walks the groups once: there are at most as many as words.
    fn check_groups(self: *const Fixed) Error!void {
        @setRuntimeSafety(true);
        const groups = self.form.groups;
        const word_size = self.bits / 8;
        var position: usize = 0;
        var done: u64 = 0;
        while (done < self.count) : (done += fastlanes.group_size) {
            if (groups.bytes.len - position < word_size) return self.cut_short();
            const width = read_word(groups.bytes[position..], word_size);
            if (width > self.bits) return invalid("{d} bits packed into {d}", .{ self.bits, width });
            position += word_size;
            const size = fastlanes.packed_size(@intCast(width));
            if (groups.bytes.len - position < size) return self.cut_short();
            position += size;
        }
    }

    fn check_even_groups(self: *const Fixed, width: u8) Error!void {
        @setRuntimeSafety(true);
        const bytes = self.form.groups.bytes;
        const whole = self.count / fastlanes.group_size;
        const size = std.math.mul(u64, whole, fastlanes.packed_size(width)) catch return self.cut_short();
        if (size > bytes.len) return self.cut_short();
        const tail = self.count % fastlanes.group_size;
        const left = bytes.len - size;
        if (tail == 0 or left == tail * (self.bits / 8)) return;
        if (left < fastlanes.packed_size(width)) return self.cut_short();
    }

    fn cut_short(self: *const Fixed) Error {
        return invalid("{d} packed values that are cut short", .{self.count});
    }

    fn check_runs(self: *const Fixed) Error!void {
        @setRuntimeSafety(true);
        const runs = self.form.runs;
        const size = self.bits / 8;
        if (self.bits == 1 or size == 0) return unsupported("runs of values of {d} bits", .{self.bits});
        if (runs.values.len != @as(u64, runs.lengths.len) * size) {
            return invalid("{d} bytes of values for {d} runs", .{ runs.values.len, runs.lengths.len });
        }
        var total: u64 = 0;
        for (runs.lengths) |length| total += length;
        if (total != self.count) return invalid("runs of {d} values where there are {d}", .{ total, self.count });
    }
};

fn split_runs(bytes: []const u8) Error!Fixed.Runs {
    @setRuntimeSafety(true);
    if (bytes.len < 8) return invalid("runs that are cut short", .{});
    const size = std.mem.readInt(u64, bytes[0..8], .little);
    if (size > bytes.len - 8) return invalid("runs that are cut short", .{});
    return .{ .values = bytes[8..][0..@intCast(size)], .lengths = bytes[8 + @as(usize, @intCast(size)) ..] };
}

fn total_bits(bits: u32, count: u64) Error!u64 {
    return std.math.mul(u64, bits, count) catch invalid("{d} values", .{count});
}

fn read_word(bytes: []const u8, size: usize) u64 {
    return switch (size) {
        inline 1, 2, 4, 8 => |width| std.mem.readInt(@Int(.unsigned, width * 8), bytes[0..width], .little),
        else => unreachable,
    };
}

/// Groups have been walked by `check_groups` or counted by `check_even_groups`.
fn read_groups(comptime T: type, groups: *Fixed.Groups, count: u64, first: u64, target: []u8) Error!void {
    const group_size = fastlanes.group_size;
    if (first / group_size < groups.next) {
        groups.next = 0;
        groups.position = 0;
    }
    var at = first;
    var to: usize = 0;
    while (to < target.len) {
        try interrupt.check();
        const source = next_group(T, groups);
        const group = at / group_size;
        if (groups.next < group) {
            groups.next += 1;
            groups.position = source.end;
            continue;
        }
        const from: usize = @intCast(at % group_size);
        const room = (target.len - to) / @sizeOf(T);
        const taken: usize = @min(group_size - from, room);
        const values = target[to..][0 .. taken * @sizeOf(T)];
        const left: usize = @intCast(@min(group_size, count - group * group_size));
        if (groups.width != null and left < group_size and is_raw(T, groups, left)) {
            @memcpy(values, groups.bytes[groups.position + from * @sizeOf(T) ..][0..values.len]);
        } else if (taken == group_size) {
            fastlanes.unpack(T, source.bytes, source.width, @ptrCast(values[0 .. group_size * @sizeOf(T)]));
        } else {
            var unpacked: [group_size]T = undefined;
            fastlanes.unpack(T, source.bytes, source.width, &unpacked);
            @memcpy(values, std.mem.sliceAsBytes(unpacked[from..][0..taken]));
        }
        at += taken;
        to += values.len;
        // A group that was not read to its end is the next one still.
        if (from + taken == group_size) {
            groups.next += 1;
            groups.position = source.end;
        }
    }
}

const Group = struct { bytes: []const u8, width: u8, end: usize };

fn next_group(comptime T: type, groups: *const Fixed.Groups) Group {
    var position = groups.position;
    const width: u8 = groups.width orelse blk: {
        position += @sizeOf(T);
        break :blk @intCast(read_word(groups.bytes[groups.position..], @sizeOf(T)));
    };
    const size = fastlanes.packed_size(width);
    // The last group may be shorter, where it is not packed.
    const bytes = groups.bytes[position..@min(groups.bytes.len, position + size)];
    return .{ .bytes = bytes, .width = width, .end = position + size };
}

/// Whether the last group, of `left` values, is not packed.
fn is_raw(comptime T: type, groups: *const Fixed.Groups, left: usize) bool {
    return groups.bytes.len - groups.position == left * @sizeOf(T);
}

/// Their lengths add up to the number of values: `check_runs`.
fn read_runs(comptime T: type, runs: *Fixed.Runs, first: u64, target: []u8) Error!void {
    if (first < runs.before) {
        runs.next = 0;
        runs.before = 0;
    }
    const end = first + target.len / @sizeOf(T);
    while (runs.before + runs.lengths[runs.next] <= first) {
        runs.before += runs.lengths[runs.next];
        runs.next += 1;
    }
    var at = first;
    while (at < end) {
        if (runs.next % 1024 == 0) try interrupt.check();
        const run_end = runs.before + runs.lengths[runs.next];
        const stop = @min(run_end, end);
        const value = std.mem.readInt(T, runs.values[runs.next * @sizeOf(T) ..][0..@sizeOf(T)], .little);
        fill(T, target, @intCast(at - first), @intCast(stop - at), value);
        at = stop;
        if (stop < run_end) break; // the run goes on
        runs.before = run_end;
        runs.next += 1;
    }
}

inline fn fill(comptime T: type, target: []u8, first: usize, count: usize, value: T) void {
    const lanes = 16 / @sizeOf(T);
    const vector: [16]u8 = @bitCast(@as(@Vector(lanes, T), @splat(value)));
    const start = first * @sizeOf(T);
    const end = start + count * @sizeOf(T);
    var at = start;
    // Whole vectors, which the next run writes over, as long as they end inside of the target.
    while (at < end and target.len - at >= 16) : (at += 16) target[at..][0..16].* = vector;
    while (at < end) : (at += @sizeOf(T)) std.mem.writeInt(T, target[at..][0..@sizeOf(T)], value, .little);
}

fn unsupported(comptime format: []const u8, arguments: anytype) Error {
    interrupt.describe("Lance pages with " ++ format ++ " are not supported", arguments);
    return error.NotSupported;
}

fn invalid(comptime format: []const u8, arguments: anytype) Error {
    @branchHint(.cold);
    interrupt.describe("a Lance page has " ++ format, arguments);
    return error.InvalidFormat;
}

const testing = std.testing;

const flat_32: Encoding = .{ .flat = 32 };

/// Every range of the values, in an order that also goes back.
fn expect_values(
    comptime T: type,
    place: Place,
    encoding: *const Encoding,
    buffers: []const []const u8,
    expected: []const T,
) !void {
    var fixed: Fixed = try .open(place, encoding, buffers, expected.len);
    const target = try testing.allocator.alloc(T, expected.len);
    defer testing.allocator.free(target);
    const n = expected.len;
    const ranges = [_][2]usize{ .{ 0, n }, .{ n / 3, n / 2 }, .{ n / 2, n }, .{ 0, 1 }, .{ 1, n / 4 }, .{ n, n } };
    for (ranges) |range| {
        if (range[1] < range[0]) continue;
        const part = target[0 .. range[1] - range[0]];
        try fixed.read(range[0], std.mem.sliceAsBytes(part));
        try testing.expectEqualSlices(T, expected[range[0]..range[1]], part);
    }
}

fn expect_error(
    expected: Error,
    place: Place,
    encoding: *const Encoding,
    buffers: []const []const u8,
    count: u64,
) !void {
    defer interrupt.forget();
    try testing.expectError(expected, Fixed.open(place, encoding, buffers, count));
}

fn sequence(comptime T: type, comptime count: usize, comptime modulus: T) [count]T {
    @setEvalBranchQuota(100_000);
    var values: [count]T = undefined;
    for (&values, 0..) |*value, i| value.* = @intCast(i * 7 % modulus);
    return values;
}

/// A group with its width in front.
fn pack_inline(comptime T: type, values: []const T, bytes: *std.ArrayList(u8)) !void {
    var rest = values;
    while (rest.len > 0) {
        var group: [1024]T = @splat(0);
        const taken = @min(1024, rest.len);
        @memcpy(group[0..taken], rest[0..taken]);
        rest = rest[taken..];
        const width = fastlanes.width_of(T, &group);
        var word: [@sizeOf(T)]u8 = undefined;
        std.mem.writeInt(T, &word, width, .little);
        try bytes.appendSlice(testing.allocator, &word);
        fastlanes.pack(T, &group, width, try bytes.addManyAsSlice(testing.allocator, fastlanes.packed_size(width)));
    }
}

test "flat" {
    const values = sequence(u32, 9, 100);
    const bytes = std.mem.sliceAsBytes(&values);
    try expect_values(u32, .chunk, &flat_32, &.{bytes}, &values);
    const fixed: Fixed = try .open(.block, &flat_32, &.{bytes}, 9);
    try testing.expectEqualSlices(u8, bytes[8..20], fixed.plain(2, 3).?);
    try expect_error(error.InvalidFormat, .chunk, &flat_32, &.{bytes}, 10);
    try expect_error(error.InvalidFormat, .chunk, &flat_32, &.{bytes}, std.math.maxInt(u64));
    try expect_error(error.InvalidFormat, .chunk, &flat_32, &.{ bytes, bytes }, 9);
    try expect_error(error.InvalidFormat, .chunk, &flat_32, &.{}, 0);
}

test "bits" {
    const encoding: Encoding = .{ .flat = 1 };
    var fixed: Fixed = try .open(.chunk, &encoding, &.{&.{ 0b1011_0001, 0b10 }}, 10);
    var target: [2]u8 = @splat(0);
    try fixed.read_bits(4, 6, &target, 3);
    try testing.expectEqualSlices(u8, &.{ 0b0101_1000, 1 }, &target);
    try testing.expectEqual(null, fixed.plain(0, 1));
    try expect_error(error.InvalidFormat, .chunk, &encoding, &.{&.{ 1, 2 }}, 17);
}

test "inline packing" {
    inline for (.{ u8, u16, u32, u64 }) |T| {
        const encoding: Encoding = .{ .inline_bitpacking = @bitSizeOf(T) };
        inline for (.{ 1, 100, 1024, 2500 }) |count| {
            const values = sequence(T, count, 113);
            var bytes: std.ArrayList(u8) = .empty;
            defer bytes.deinit(testing.allocator);
            try pack_inline(T, &values, &bytes);
            try expect_values(T, .chunk, &encoding, &.{bytes.items}, &values);
            try expect_error(error.InvalidFormat, .chunk, &encoding, &.{bytes.items[0 .. bytes.items.len - 1]}, count);
            try expect_error(error.InvalidFormat, .block, &encoding, &.{bytes.items}, count + 1024);
            bytes.items[0] = @bitSizeOf(T) + 1;
            try expect_error(error.InvalidFormat, .chunk, &encoding, &.{bytes.items}, count);
        }
        // No bits at all: zeros.
        const zeros: [1024]T = @splat(0);
        try expect_values(T, .chunk, &encoding, &.{std.mem.sliceAsBytes(zeros[0..1])}, &zeros);
    }
}

test "out-of-line packing" {
    const encoding: Encoding = .{ .out_of_line_bitpacking = .{ .bits = 16, .packed_bits = 3 } };
    const values = sequence(u16, 2048, 8);
    var bytes: [2 * 3 * 128]u8 = undefined;
    for (0..2) |group| {
        fastlanes.pack(u16, values[group * 1024 ..][0..1024], 3, bytes[group * 3 * 128 ..][0 .. 3 * 128]);
    }
    try expect_values(u16, .block, &encoding, &.{&bytes}, &values);
    // The last group packed, and as it is.
    try expect_values(u16, .block, &encoding, &.{&bytes}, values[0..1500]);
    const raw = bytes[0 .. 3 * 128].* ++ @as([14]u8, @bitCast(values[1024..][0..7].*));
    try expect_values(u16, .block, &encoding, &.{&raw}, values[0..1031]);
    try expect_error(error.InvalidFormat, .block, &encoding, &.{&raw}, 1030);
    try expect_error(error.InvalidFormat, .block, &encoding, &.{&bytes}, 2049);
    try expect_error(error.InvalidFormat, .block, &encoding, &.{bytes[0..127]}, 1024);
    try expect_error(error.InvalidFormat, .block, &encoding, &.{&bytes}, std.math.maxInt(u64));
}

test "runs" {
    inline for (.{ u8, u16, u32, u64 }) |T| {
        const flat: Encoding = .{ .flat = @bitSizeOf(T) };
        const encoding: Encoding = .{ .rle = &flat };
        const run_values = [_]T{ 5, 9, 200, 5, 1 };
        const lengths = [_]u8{ 3, 0, 255, 1, 17 };
        var expected: std.ArrayList(T) = .empty;
        defer expected.deinit(testing.allocator);
        for (run_values, lengths) |value, length| try expected.appendNTimes(testing.allocator, value, length);
        const values = std.mem.sliceAsBytes(&run_values);
        try expect_values(T, .chunk, &encoding, &.{ values, &lengths }, expected.items);
        const size: [8]u8 = .{ @sizeOf(@TypeOf(run_values)), 0, 0, 0, 0, 0, 0, 0 };
        const block = size ++ @as([@sizeOf(@TypeOf(run_values))]u8, @bitCast(run_values)) ++ lengths;
        try expect_values(T, .block, &encoding, &.{&block}, expected.items);
        try expect_error(error.InvalidFormat, .chunk, &encoding, &.{ values, &lengths }, expected.items.len + 1);
        try expect_error(error.InvalidFormat, .chunk, &encoding, &.{ values, &lengths }, expected.items.len - 1);
        try expect_error(error.InvalidFormat, .chunk, &encoding, &.{ values, lengths[0..4] }, 259);
        try expect_error(error.InvalidFormat, .chunk, &encoding, &.{values}, expected.items.len);
        try expect_error(error.InvalidFormat, .block, &encoding, &.{block[0..7]}, expected.items.len);
        try expect_error(error.InvalidFormat, .block, &encoding, &.{block[0..9]}, expected.items.len);
    }
    const wide: Encoding = .{ .flat = 128 };
    const encoding: Encoding = .{ .rle = &wide };
    var fixed: Fixed = try .open(.chunk, &encoding, &.{ &@as([16]u8, @splat(1)), &.{4} }, 4);
    var target: [64]u8 = undefined;
    try testing.expectError(error.NotSupported, fixed.read(0, &target));
}

test "bytes apart" {
    const encoding: Encoding = .{ .byte_stream_split = &flat_32 };
    const values = sequence(u32, 40, 60_000);
    var bytes: [160]u8 = undefined;
    for (values, 0..) |value, i| {
        for (0..4) |byte| bytes[byte * 40 + i] = @truncate(value >> @intCast(8 * byte));
    }
    try expect_values(u32, .chunk, &encoding, &.{&bytes}, &values);
    try expect_error(error.InvalidFormat, .chunk, &encoding, &.{&bytes}, 39);
    try expect_error(error.InvalidFormat, .chunk, &encoding, &.{&bytes}, 41);
}

test "at random" {
    defer interrupt.forget();
    var prng: std.Random.DefaultPrng = .init(89);
    const random = prng.random();
    const flat_16: Encoding = .{ .flat = 16 };
    const encodings = [_]Encoding{
        flat_32,
        .{ .inline_bitpacking = 8 },
        .{ .inline_bitpacking = 64 },
        .{ .out_of_line_bitpacking = .{ .bits = 16, .packed_bits = 0 } },
        .{ .out_of_line_bitpacking = .{ .bits = 32, .packed_bits = 2 } },
        .{ .rle = &flat_16 },
        .{ .byte_stream_split = &flat_16 },
    };
    var target: [3000 * 8]u8 = undefined;
    for (0..5000) |_| {
        var bytes: [600]u8 = undefined;
        // Mostly small numbers: widths and lengths that could be meant.
        for (&bytes) |*byte| {
            byte.* = if (random.uintLessThan(u8, 8) == 0) random.int(u8) else random.uintLessThan(u8, 3);
        }
        const encoding = &encodings[random.uintLessThan(usize, encodings.len)];
        const cut = random.uintAtMost(usize, bytes.len);
        const place: Place = if (random.boolean()) .chunk else .block;
        const count = random.uintAtMost(u64, 3000);
        const buffers = [_][]const u8{ bytes[0..cut], bytes[cut..] };
        const used = if (place == .chunk) buffer_count(encoding) else 1;
        var fixed = Fixed.open(place, encoding, buffers[0..used], count) catch continue;
        const size = fixed.bits / 8;
        const first = random.uintAtMost(u64, count);
        const taken = random.uintAtMost(usize, @intCast(count - first));
        try fixed.read(first, target[0 .. taken * size]);
        try fixed.read(0, target[0 .. @as(usize, @intCast(first)) * size]);
    }
}
