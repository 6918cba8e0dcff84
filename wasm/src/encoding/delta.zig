//! DELTA_BINARY_PACKED: differences between neighbours, bit-packed in small blocks.
//!
//!     header   varint values per block, varint miniblocks per block,
//!              varint count of all values, zigzag first value
//!     block    zigzag least difference, one byte of bit width per miniblock, the miniblocks
//!     miniblock  values per block / miniblocks per block differences less the least one, packed
//!
//! Value i is value i - 1 + least difference + packed difference. All of it is arithmetic modulo
//! 2^64: differences of extreme values wrap, and DuckDB writes differences of u32 in 33 bits. For
//! INT32 only the low 32 bits of every summand can reach the result, so 32-bit lanes do.
//!
//! The specification asks for blocks of a multiple of 128 values and miniblocks of a multiple of
//! 32; any multiple of 8 keeps miniblocks on whole bytes and is read here. Nothing is allocated:
//! of the header's numbers only positions are derived, and those are held against the bytes
//! present. Miniblocks without values are often left out, and the last one may be cut after its
//! last value. All values equal take no bytes at all: how many are asked for is the caller's bound.
//!
//! The unpacker works on groups of 8 values and may look 64 bytes past the source's end. Values of
//! a group that a read did not ask for wait in `pending`.
const std = @import("std");
const interrupt = @import("../core/interrupt.zig");
const bitpack = @import("bitpack.zig");
const assert = std.debug.assert;

pub const Error = error{ InvalidFormat, Cancelled };

const group_values = 8;
/// Differences that are unpacked before they are summed up: a scratch of 1 or 2 KiB.
const step_values = 256;
/// No writer comes near; what positions are derived from stays far below 64 bits.
const block_values_max = 1 << 31;
/// Miniblocks between two looks at the cancel byte while only headers are read.
const miniblocks_per_check = 4096;

pub fn Decoder(comptime T: type) type {
    comptime assert(T == i32 or T == i64);
    return struct {
        source: []const u8,
        miniblock_values: u64 = 0,
        miniblock_count: u64 = 0,
        /// Values of the miniblocks to come.
        unopened: u64 = 0,
        /// The open block: what every difference adds, and the widths of its miniblocks to come.
        least: Unsigned = 0,
        widths: []const u8 = &.{},
        /// The open miniblock: its width, its first group not unpacked, values not unpacked.
        width: u8 = 0,
        position: usize = 0,
        left: u64 = 0,
        /// Of the open miniblock; before the first one, of the header.
        end: usize = 0,
        /// The value before the next one to be unpacked.
        last: Unsigned = 0,
        /// Unpacked values that nobody asked for yet.
        pending: [group_values]T = @splat(0),
        pending_first: u8 = 0,
        pending_end: u8 = 0,

        const Self = @This();
        const Unsigned = @Int(.unsigned, @bitSizeOf(T));

        /// Reads the header. A page without a byte has no values.
        pub fn init(source: []const u8) Error!Self {
            var self: Self = .{ .source = source };
            if (source.len > 0) try self.read_header();
            return self;
        }

        fn read_header(self: *Self) Error!void {
            const block_values = try read_varint(self.source, &self.end);
            const miniblock_count = try read_varint(self.source, &self.end);
            const value_count = try read_varint(self.source, &self.end);
            const first = zigzag(try read_varint(self.source, &self.end));
            if (value_count == 0) return;
            self.last = @truncate(first);
            self.pending[0] = @bitCast(self.last);
            self.pending_end = 1;
            // Of a single value there are no differences: what its header says does not matter.
            if (value_count == 1) return;
            self.unopened = value_count - 1;
            if (block_values == 0 or block_values > block_values_max or miniblock_count == 0 or
                block_values % miniblock_count != 0 or block_values / miniblock_count % group_values != 0)
            {
                return fail(0, "delta blocks of {d} values in {d} miniblocks", .{ block_values, miniblock_count });
            }
            self.miniblock_count = miniblock_count;
            self.miniblock_values = block_values / miniblock_count;
        }

        /// Values not given yet. The header's word: there may be fewer bytes.
        pub fn remaining(self: *const Self) u64 {
            return self.unopened + self.left + (self.pending_end - self.pending_first);
        }

        /// Gives the next `target.len` values.
        pub fn read(self: *Self, target: []T) Error!void {
            try self.expect(target.len);
            var done = self.take_pending(target);
            while (done < target.len) {
                if (self.left == 0) try self.open_miniblock();
                const wanted: usize = @intCast(@min(target.len - done, self.left));
                const whole = wanted - wanted % group_values;
                if (whole > 0) {
                    self.decode(target[done..][0..whole]);
                    done += whole;
                } else {
                    self.decode_pending();
                    done += self.take_pending(target[done..]);
                }
            }
        }

        /// Passes over `count` values. A miniblock of equal differences is one step.
        pub fn skip(self: *Self, count: u64) Error!void {
            try self.expect(count);
            var todo = count - self.drop_pending(count);
            while (todo > 0) {
                try interrupt.check();
                if (self.left == 0) try self.open_miniblock();
                const wanted = @min(todo, self.left);
                if (self.width == 0) {
                    self.last +%= self.least *% @as(Unsigned, @truncate(wanted));
                    self.left -= wanted;
                    todo -= wanted;
                } else if (wanted >= group_values) {
                    const step: usize = @intCast(@min(wanted, step_values));
                    todo -= self.add_up(step - step % group_values);
                } else {
                    self.decode_pending();
                    todo -= self.drop_pending(todo);
                }
            }
        }

        /// Where the bytes behind the last miniblock begin. Reads the headers of the blocks to come.
        pub fn consumed(self: *const Self) Error!usize {
            var ahead = self.*;
            var opened: usize = 0;
            while (ahead.unopened > 0) : (opened += 1) {
                if (opened % miniblocks_per_check == 0) try interrupt.check();
                ahead.left = 0;
                try ahead.open_miniblock();
            }
            return ahead.end;
        }

        fn expect(self: *const Self, count: u64) Error!void {
            if (count <= self.remaining()) return;
            return fail(self.end, "{d} delta values were expected, {d} are left", .{ count, self.remaining() });
        }

        fn take_pending(self: *Self, target: []T) usize {
            const count: usize = @min(target.len, self.pending_end - self.pending_first);
            for (target[0..count], self.pending[self.pending_first..][0..count]) |*to, from| to.* = from;
            self.pending_first += @intCast(count);
            return count;
        }

        fn drop_pending(self: *Self, limit: u64) u64 {
            const count: u64 = @min(limit, self.pending_end - self.pending_first);
            self.pending_first += @intCast(count);
            return count;
        }

        fn open_miniblock(self: *Self) Error!void {
            assert(self.left == 0 and self.unopened > 0);
            if (self.widths.len == 0) try self.open_block();
            self.width = self.widths[0];
            self.widths = self.widths[1..];
            self.position = self.end;
            if (self.width > 64) return fail(self.position, "delta values of {d} bits", .{self.width});
            const available: u64 = self.source.len - self.position;
            const count = @min(self.unopened, self.miniblock_values);
            // The last miniblock may end with its last value, although it should be filled up.
            if (bitpack.packed_size(count, @intCast(self.width)) > available)
                return fail(self.position, "delta values are cut off", .{});
            const size = self.miniblock_values / 8 * self.width;
            self.end += @intCast(@min(size, available));
            self.unopened -= count;
            self.left = count;
        }

        fn open_block(self: *Self) Error!void {
            self.least = @truncate(zigzag(try read_varint(self.source, &self.end)));
            if (self.miniblock_count > self.source.len - self.end)
                return fail(self.end, "delta block is cut off", .{});
            self.widths = self.source[self.end..][0..@intCast(self.miniblock_count)];
            self.end += self.widths.len;
        }

        /// The packed bits of the next `count` values, which the caller takes.
        fn pass(self: *Self, count: usize) []const u8 {
            assert(count <= self.left);
            const bits = self.source[self.position..self.end];
            self.position += @intCast(bitpack.packed_size(count, @intCast(self.width)));
            self.left -= count;
            return bits;
        }

        /// Whole groups to the target, or the rest of the miniblock.
        fn decode(self: *Self, target: []T) void {
            assert(target.len % group_values == 0 or target.len == self.left);
            const values: []Unsigned = @ptrCast(target);
            var done: usize = 0;
            while (done < values.len) {
                const count: usize = @min(values.len - done, step_values);
                const bits = self.pass(count);
                self.last = decode_step(Unsigned, bits, self.width, values[done..][0..count], self.last, self.least);
                done += count;
            }
        }

        /// The next group to `pending`.
        fn decode_pending(self: *Self) void {
            assert(self.pending_first == self.pending_end and self.left > 0);
            const count: u8 = @intCast(@min(self.left, group_values));
            self.pending_first = 0;
            self.pending_end = count;
            self.decode(self.pending[0..count]);
        }

        /// Adds whole groups to `last` without keeping the values.
        fn add_up(self: *Self, count: usize) usize {
            assert(count % group_values == 0 and count <= step_values);
            const total = sum_step(self.pass(count), self.width, count);
            self.last +%= self.least *% @as(Unsigned, @intCast(count)) +% @as(Unsigned, @truncate(total));
            return count;
        }
    };
}

noinline fn fail(offset: usize, comptime format: []const u8, arguments: anytype) Error {
    @branchHint(.cold);
    interrupt.describe(format, arguments);
    interrupt.describe_offset(offset);
    return error.InvalidFormat;
}

fn read_varint(source: []const u8, position: *usize) Error!u64 {
    var value: u64 = 0;
    for (0..10) |index| {
        if (position.* == source.len) return fail(source.len, "delta header is cut off", .{});
        const byte = source[position.*];
        position.* += 1;
        value |= @as(u64, byte & 0x7F) << @truncate(7 * index);
        if (byte < 0x80) return value;
    }
    return fail(position.*, "number of more than 64 bits", .{});
}

inline fn zigzag(value: u64) u64 {
    return (value >> 1) ^ (0 -% (value & 1));
}

// -------------------------------------------------------------------------------- hot loops

/// Unpacks and sums up, in place or from a scratch: 64-bit results of up to 25 bits have the fast
/// unpacker to 32 bits, INT32 may have been packed wider than it is.
fn decode_step(comptime U: type, bits: []const u8, width: u8, target: []U, last: U, least: U) U {
    assert(target.len <= step_values);
    if (width == 0) return progress(U, target, last, least);
    if (width <= @bitSizeOf(U) and (U == u32 or width > prefix_width_max)) {
        bitpack.unpack(U, bits, @intCast(width), target);
        return accumulate(U, U, target.ptr, target, last, least);
    }
    const P = if (U == u32) u64 else u32;
    var scratch: [step_values]P = undefined;
    bitpack.unpack(P, bits, @intCast(width), scratch[0..target.len]);
    return accumulate(U, P, &scratch, target, last, least);
}

/// Sums of eight values of so many bits stay below 2^32.
const prefix_width_max = 25;

const Words = @Vector(4, u32);

/// An arithmetic progression: all differences are equal.
noinline fn progress(comptime U: type, target: []U, last: U, least: U) U {
    const lanes = 16 / @sizeOf(U);
    var next = steps(U, lanes, 1, least) +% @as(@Vector(lanes, U), @splat(last));
    var done: usize = 0;
    while (done + lanes <= target.len) : (done += lanes) {
        target[done..][0..lanes].* = next;
        next +%= @splat(least *% lanes);
    }
    var value = last +% least *% @as(U, @intCast(done));
    for (target[done..]) |*to| {
        value +%= least;
        to.* = value;
    }
    return value;
}

/// `first`, `first + 1`, … times the least difference.
inline fn steps(comptime U: type, comptime lanes: comptime_int, comptime first: U, least: U) @Vector(lanes, U) {
    return (std.simd.iota(U, lanes) + @as(@Vector(lanes, U), @splat(first))) *% @as(@Vector(lanes, U), @splat(least));
}

/// Sums of up to four lanes each, by two shifted additions.
inline fn prefix_sums(values: Words) Words {
    const zero: Words = @splat(0);
    const pairs = values +% @shuffle(u32, values, zero, [4]i32{ -1, 0, 1, 2 });
    return pairs +% @shuffle(u32, pairs, zero, [4]i32{ -1, -1, 0, 1 });
}

inline fn splat_last(values: Words) Words {
    return @shuffle(u32, values, undefined, [4]i32{ 3, 3, 3, 3 });
}

/// Differences become values. Where differences have 32 bits, a group at a time: sums inside the
/// group do not wait for the group before.
noinline fn accumulate(comptime U: type, comptime P: type, differences: [*]const P, target: []U, last: U, least: U) U {
    var value = last;
    var done: usize = 0;
    if (P == u32) {
        while (done + group_values <= target.len) : (done += group_values) {
            const low = prefix_sums(differences[done..][0..4].*);
            const high = prefix_sums(differences[done + 4 ..][0..4].*) +% splat_last(low);
            value = put_group(U, low, high, target[done..][0..group_values], value, least);
        }
    }
    for (target[done..], differences[done..]) |*to, difference| {
        value +%= @as(U, @truncate(difference)) +% least;
        to.* = value;
    }
    return value;
}

inline fn put_group(comptime U: type, low: Words, high: Words, target: *[group_values]U, last: U, least: U) U {
    const lanes = 16 / @sizeOf(U);
    const sums: [group_values]u32 = @bitCast([2]Words{ low, high });
    const base: @Vector(lanes, U) = @splat(last);
    inline for (0..group_values / lanes) |part| {
        const piece: @Vector(lanes, U) = @as(@Vector(lanes, u32), sums[part * lanes ..][0..lanes].*);
        target[part * lanes ..][0..lanes].* = piece +% (base +% steps(U, lanes, part * lanes + 1, least));
    }
    return target[group_values - 1];
}

fn sum_step(bits: []const u8, width: u8, count: usize) u64 {
    if (width <= 32) return sum_unpacked(u32, bits, width, count);
    return sum_unpacked(u64, bits, width, count);
}

noinline fn sum_unpacked(comptime P: type, bits: []const u8, width: u8, count: usize) u64 {
    var scratch: [step_values]P = undefined;
    bitpack.unpack(P, bits, @intCast(width), scratch[0..count]);
    var total: u64 = 0;
    for (scratch[0..count]) |value| total +%= value;
    return total;
}

// ------------------------------------------------------------------------------------ tests

const testing = std.testing;

/// Writes pages for the tests of the delta encodings, with every freedom the format leaves.
pub const TestWriter = struct {
    bytes: std.ArrayList(u8) = .empty,
    block_values: u64 = 128,
    miniblock_count: u64 = 4,
    /// Bits added to the width every miniblock needs.
    extra_width: u8 = 0,
    /// The last miniblock ends with its last value, miniblocks behind it are left out.
    cut: bool = false,

    pub fn deinit(self: *TestWriter) void {
        self.bytes.deinit(testing.allocator);
    }

    pub fn put_varint(self: *TestWriter, value: u64) !void {
        var rest = value;
        while (rest >= 0x80) : (rest >>= 7) try self.bytes.append(testing.allocator, @as(u8, @truncate(rest)) | 0x80);
        try self.bytes.append(testing.allocator, @intCast(rest));
    }

    pub fn put_zigzag(self: *TestWriter, value: i64) !void {
        try self.put_varint(@bitCast((value << 1) ^ (value >> 63)));
    }

    pub fn put(self: *TestWriter, values: []const i64) !void {
        try self.put_varint(self.block_values);
        try self.put_varint(self.miniblock_count);
        try self.put_varint(values.len);
        try self.put_zigzag(if (values.len == 0) 0 else values[0]);
        var first: usize = 1;
        while (first < values.len) : (first += @intCast(self.block_values)) {
            const end: usize = @min(values.len, first + @as(usize, @intCast(self.block_values)));
            try self.put_block(values[first - 1 .. end]);
        }
    }

    fn put_block(self: *TestWriter, values: []const i64) !void {
        var least: i64 = std.math.maxInt(i64);
        for (values[0 .. values.len - 1], values[1..]) |a, b| least = @min(least, b -% a);
        try self.put_zigzag(least);
        const widths = self.bytes.items.len;
        try self.bytes.appendNTimes(testing.allocator, 0, @intCast(self.miniblock_count));
        const size: usize = @intCast(self.block_values / self.miniblock_count);
        for (0..@intCast(self.miniblock_count)) |index| {
            const first = index * size;
            if (first + 1 >= values.len) {
                // A width of a miniblock that is not there means nothing.
                if (self.cut) self.bytes.items[widths + index] = 0xEE;
                continue;
            }
            const end = @min(values.len - 1, first + size);
            const width = try self.put_miniblock(values[first .. end + 1], least, size);
            self.bytes.items[widths + index] = width;
        }
    }

    fn put_miniblock(self: *TestWriter, values: []const i64, least: i64, size: usize) !u8 {
        var all: u64 = 0;
        for (values[0 .. values.len - 1], values[1..]) |a, b| all |= @bitCast(b -% a -% least);
        const width: u8 = @min(64, 64 - @as(u8, @clz(all)) + self.extra_width);
        const start = self.bytes.items.len;
        const kept = if (self.cut) values.len - 1 else size;
        try self.bytes.appendNTimes(testing.allocator, 0, (kept * width + 7) / 8);
        for (values[0 .. values.len - 1], values[1..], 0..) |a, b, index| {
            const difference: u64 = @bitCast(b -% a -% least);
            for (0..width) |bit| {
                const at = index * width + bit;
                self.bytes.items[start + at / 8] |= @as(u8, @truncate(difference >> @intCast(bit) & 1)) <<
                    @intCast(at % 8);
            }
        }
        return width;
    }

    /// The bytes, with room for wide loads behind them.
    pub fn finish(self: *TestWriter) ![]const u8 {
        const size = self.bytes.items.len;
        try self.bytes.appendNTimes(testing.allocator, 0xA5, 64);
        self.bytes.items.len = size;
        return self.bytes.items;
    }
};

fn random_series(random: std.Random, spread: u6, values: []i64, comptime T: type) void {
    var value: i64 = random.int(T);
    for (values) |*to| {
        to.* = value;
        const step = random.int(i64) >> spread;
        // Runs of equal steps give miniblocks of no width.
        if (random.uintLessThan(u8, 100) != 0) value +%= step;
        value = @as(T, @truncate(value));
    }
}

/// Reads everything in pieces of random sizes, some of them skipped.
fn check_decoder(comptime T: type, random: std.Random, source: []const u8, values: []const i64, used: usize) !void {
    var decoder: Decoder(T) = try .init(source);
    var buffer: [2000]T = undefined;
    var done: usize = 0;
    while (done < values.len) {
        try testing.expectEqual(values.len - done, decoder.remaining());
        if (random.uintLessThan(u8, 4) == 0) try testing.expectEqual(used, try decoder.consumed());
        const limit: usize = if (random.boolean()) 20 else 2000;
        const count = random.uintAtMost(usize, @min(values.len - done, limit));
        if (random.uintLessThan(u8, 3) == 0) try decoder.skip(count) else {
            try decoder.read(buffer[0..count]);
            for (values[done..][0..count], buffer[0..count]) |expected, value|
                try testing.expectEqual(@as(T, @truncate(expected)), value);
        }
        done += count;
    }
    try testing.expectEqual(used, try decoder.consumed());
    try testing.expectError(error.InvalidFormat, decoder.read(buffer[0..1]));
    try testing.expectError(error.InvalidFormat, decoder.skip(1));
    try decoder.skip(0);
}

const test_layouts = [_][2]u64{ .{ 128, 4 }, .{ 256, 4 }, .{ 2048, 8 }, .{ 8, 1 }, .{ 24, 3 }, .{ 512, 1 }, .{
    40,
    5,
} };

fn check_series(comptime T: type, random: std.Random, count: usize, spread: u6, layout: [2]u64, cut: bool) !void {
    var values: [4100]i64 = undefined;
    random_series(random, spread, values[0..count], T);
    var writer: TestWriter = .{ .block_values = layout[0], .miniblock_count = layout[1], .cut = cut };
    defer writer.deinit();
    if (random.boolean()) writer.extra_width = random.uintLessThan(u8, 5);
    try writer.put(values[0..count]);
    const used = writer.bytes.items.len;
    if (!cut) try writer.bytes.appendSlice(testing.allocator, "bytes behind");
    try check_decoder(T, random, try writer.finish(), values[0..count], used);
}

test Decoder {
    var prng: std.Random.DefaultPrng = .init(5);
    const random = prng.random();
    for ([_]usize{ 0, 1, 2, 8, 9, 32, 33, 128, 129, 130, 1000, 4100 }) |count| {
        for (test_layouts) |layout| {
            for ([_]bool{ false, true }) |cut| {
                const spread = random.int(u6);
                try check_series(i64, random, count, spread, layout, cut);
                try check_series(i32, random, count, @max(spread, 31), layout, cut);
            }
        }
    }
}

test "INT32 packed in more than 32 bits" {
    // As DuckDB writes u32: differences of the zero-extended values.
    const values = [_]i64{ 0, 4_294_967_295, 0, 4_000_000_000, 1, 2, 3 };
    var writer: TestWriter = .{ .block_values = 2048, .miniblock_count = 8 };
    defer writer.deinit();
    try writer.put(&values);
    var decoder: Decoder(i32) = try .init(try writer.finish());
    var target: [7]i32 = undefined;
    try decoder.read(&target);
    for (values, target) |expected, value|
        try testing.expectEqual(@as(u32, @intCast(expected)), @as(u32, @bitCast(value)));
    try testing.expectEqual(33, decoder.width);
}

test "headers that lie" {
    const cases = [_]struct { u64, u64, u64 }{
        .{ 0, 4, 9 },       .{ 128, 0, 9 },                  .{ 128, 3, 9 },
        .{
            32,
            8,
            9,
        },
        .{ 1 << 32, 4, 9 }, .{ std.math.maxInt(u64), 1, 9 }, .{ std.math.maxInt(u64) & ~@as(u64, 7), 1, 9 },
        .{ 12, 1, 2 },
    };
    for (cases) |case| {
        var writer: TestWriter = .{};
        defer writer.deinit();
        for ([_]u64{ case[0], case[1], case[2], 0 }) |number| try writer.put_varint(number);
        const source = try writer.finish();
        try testing.expectError(error.InvalidFormat, Decoder(i64).init(source));
        for (0..source.len) |size| {
            if (size != 0) try testing.expectError(error.InvalidFormat, Decoder(i64).init(source[0..size]));
        }
    }
    try testing.expectError(error.InvalidFormat, Decoder(i32).init(&@as([11]u8, @splat(0xFF))));
    const empty: Decoder(i32) = try .init("");
    try testing.expectEqual(0, empty.remaining());
}

test "a count without bytes is an error when they are needed, and no work before" {
    var writer: TestWriter = .{};
    defer writer.deinit();
    // 2^62 values in blocks of 2^31 equal differences: the second block is missing.
    for ([_]u64{ 1 << 31, 1, 1 << 62, 2, 4, 0 }) |number| try writer.put_varint(number);
    const source = try writer.finish();
    var decoder: Decoder(i64) = try .init(source);
    try testing.expectEqual(1 << 62, decoder.remaining());
    try testing.expectError(error.InvalidFormat, decoder.consumed());
    try decoder.skip(1 << 31);
    var target: [3]i64 = undefined;
    try decoder.read(target[0..1]);
    try testing.expectEqual(1 + 2 * (1 << 31), target[0]);
    try testing.expectError(error.InvalidFormat, decoder.read(target[0..1]));
    decoder = try .init(source);
    try testing.expectError(error.InvalidFormat, decoder.skip(1 << 40));
    // A count of miniblocks that the bytes cannot hold.
    writer.bytes.clearRetainingCapacity();
    for ([_]u64{ 1 << 31, 1 << 20, 1 << 62, 2, 4, 0 }) |number| try writer.put_varint(number);
    decoder = try .init(try writer.finish());
    try testing.expectError(error.InvalidFormat, decoder.skip(2));
}

test "any change of bytes gives values or an error" {
    var prng: std.Random.DefaultPrng = .init(6);
    const random = prng.random();
    var values: [600]i64 = undefined;
    for (0..60) |_| {
        random_series(random, random.int(u6), &values, i64);
        const layout = test_layouts[random.uintLessThan(usize, test_layouts.len)];
        var writer: TestWriter = .{ .block_values = layout[0], .miniblock_count = layout[1] };
        defer writer.deinit();
        try writer.put(&values);
        const size = (try writer.finish()).len;
        for (0..20) |_| {
            const at = random.uintLessThan(usize, if (random.boolean()) @min(size, 20) else size);
            const before = writer.bytes.items[at];
            writer.bytes.items[at] = random.int(u8);
            defer writer.bytes.items[at] = before;
            const cut = if (random.boolean()) size else random.uintAtMost(usize, size);
            inline for (.{ i32, i64 }) |T| read_mutated(T, random, writer.bytes.items[0..cut]) catch {};
        }
    }
}

fn read_mutated(comptime T: type, random: std.Random, source: []const u8) Error!void {
    var decoder: Decoder(T) = try .init(source);
    const end: ?usize = decoder.consumed() catch null;
    if (end) |position| std.debug.assert(position <= source.len);
    var target: [100]T = undefined;
    for (0..10) |_| {
        if (random.boolean())
            try decoder.read(target[0..random.uintAtMost(usize, 100)])
        else
            try decoder.skip(random.uintAtMost(usize, 100));
    }
}
