//! Parquet's hybrid of runs and packed groups: levels, dictionary codes, booleans.
//!
//!     stream   := run*
//!     run      := header(varint)  rest
//!     header   := count << 1        rest: one value, ceil(width / 8) bytes, repeated count times
//!               | groups << 1 | 1   rest: groups * 8 values packed in groups * width bytes
//!
//! The width and the number of values wanted come from elsewhere, so the stream may hold more than
//! is asked for: a last group is padded to eight values. Some writers leave out the padding's
//! bytes; a packed run that the source cuts off holds the values whose bits are all there, and
//! asking for more fails.
//!
//! Invariants: the source is readable 64 bytes past its end, targets are writable 64 bytes past
//! theirs, bitmaps included. `left` values of the current run are all inside the source.
const std = @import("std");
const bitpack = @import("bitpack.zig");
const lanes_module = @import("../core/lanes.zig");
const interrupt = @import("../core/interrupt.zig");
const assert = std.debug.assert;

pub const Error = error{ InvalidFormat, Cancelled };

/// Values that lie side by side in the stream.
pub const Run = struct {
    count: u32,
    values: union(enum) {
        /// One value, `count` times.
        repeated: u32,
        bit_packed: BitPacked,
    },
};

/// For `bitpack.unpack_at` and `bitpack.append_bits`: the first value begins at bit `bit` of
/// `bytes`.
pub const BitPacked = struct { bytes: []const u8, bit: u3 };

/// A part of a repeated run that `read_noting` has not written: values `first` to `first + count`.
/// Both are multiples of eight, so that bits made of the values begin with a byte.
pub const Stretch = struct { first: u32, count: u32, value: u32 };

/// Of shorter ones the values are written: that costs less than remembering them.
pub const stretch_min = 64;

pub const Decoder = struct {
    source: []const u8,
    /// Of the next run's header; behind the bytes of the current run.
    position: usize = 0,
    width: u6,
    /// Values of the current run that have not been given out.
    left: u32 = 0,
    repeated: bool = true,
    /// A repeated run's value.
    value: u32 = 0,
    /// A packed run's next value: the byte it begins in and the bit there.
    at: usize = 0,
    bit: u3 = 0,

    pub fn init(source: []const u8, width: u8) Error!Decoder {
        if (width > 32) return fail("values of {d} bits", .{width});
        return .{ .source = source, .width = @intCast(width) };
    }

    /// The next `target.len` values.
    pub fn read(self: *Decoder, target: []u32) Error!void {
        return self.read_values(u32, bitpack.unpack_at, target);
    }

    /// The same for levels, whose width the schema gives: at most 8.
    pub fn read_u8(self: *Decoder, target: []u8) Error!void {
        assert(self.width <= 8);
        return self.read_values(u8, bitpack.unpack_at, target);
    }

    /// What benchmarks compare `read` with.
    pub fn read_scalar(self: *Decoder, target: []u32) Error!void {
        return self.read_values(u32, unpack_at_scalar, target);
    }

    fn read_values(self: *Decoder, comptime T: type, comptime unpack_at: anytype, target: []T) Error!void {
        var done: usize = 0;
        while (done < target.len) {
            if (self.left == 0) try self.next_header();
            const count: u32 = @intCast(@min(self.left, target.len - done));
            if (self.repeated) {
                fill(T, target.ptr + done, @intCast(self.value), count);
            } else {
                unpack_at(T, self.source[self.at..], self.bit, self.width, target[done..][0..count]);
            }
            self.advance(count);
            done += count;
        }
    }

    /// The next values into `target` from `first` on, as `read` would; but the insides of long repeated
    /// runs are noted in `stretches`, which has room for one in every `stretch_min` values, and left
    /// undefined in the target.
    pub fn read_noting(self: *Decoder, target: []u32, first: u32, stretches: *std.ArrayList(Stretch)) Error!void {
        var done = first;
        while (done < target.len) {
            if (self.left == 0) try self.next_header();
            const count: u32 = @intCast(@min(self.left, target.len - done));
            if (!self.repeated) {
                bitpack.unpack_at(u32, self.source[self.at..], self.bit, self.width, target[done..][0..count]);
            } else if (count < stretch_min + 16) {
                fill(u32, target.ptr + done, self.value, count);
            } else {
                const stretch = self.note_stretch(done, count);
                fill(u32, target.ptr + done, self.value, stretch.first - done);
                const end = stretch.first + stretch.count;
                fill(u32, target.ptr + end, self.value, done + count - end);
                stretches.appendAssumeCapacity(stretch);
            }
            self.advance(count);
            done += count;
        }
    }

    /// What is left of `count` values from `first` on when both ends are cut to multiples of eight.
    fn note_stretch(self: *const Decoder, first: u32, count: u32) Stretch {
        const start = std.mem.alignForward(u32, first, 8);
        const end = std.mem.alignBackward(u32, first + count, 8);
        assert(end - start >= stretch_min);
        return .{ .first = start, .count = end - start, .value = self.value };
    }

    pub fn skip(self: *Decoder, count: u32) Error!void {
        var wanted = count;
        var run_count: u32 = 0;
        while (wanted != 0) : (run_count +%= 1) {
            if (run_count % 4096 == 4095) try interrupt.check();
            if (self.left == 0) try self.next_header();
            const step = @min(self.left, wanted);
            self.advance(step);
            wanted -= step;
        }
    }

    /// The next values up to the end of their run or to `limit` of them, whichever comes first.
    pub fn next_run(self: *Decoder, limit: u32) Error!Run {
        assert(limit != 0);
        if (self.left == 0) try self.next_header();
        const run: Run = .{
            .count = @min(self.left, limit),
            .values = if (self.repeated)
                .{ .repeated = self.value }
            else
                .{ .bit_packed = .{ .bytes = self.source[self.at..], .bit = self.bit } },
        };
        self.advance(run.count);
        return run;
    }

    /// Passes over the next `count` values if they are one run of `value`, as the levels of a column
    /// without NULLs are; else nothing happens.
    pub fn take_run(self: *Decoder, value: u32, count: u32) Error!bool {
        if (self.left == 0) try self.next_header();
        if (!self.repeated or self.value != value or self.left < count) return false;
        self.advance(count);
        return true;
    }

    /// The next `count` values, of one bit each, as bits of `bits` from `first_bit` on; returns how
    /// many are set. Bits below `first_bit` stay, those above the last one are unspecified.
    pub fn read_validity(self: *Decoder, bits: []u8, first_bit: u32, count: u32) Error!u32 {
        assert(self.width == 1);
        assert(@as(u64, bits.len) * 8 >= @as(u64, first_bit) + count);
        var ones: u32 = 0;
        var done: u32 = 0;
        while (done < count) {
            if (self.left == 0) {
                const short = self.read_short_runs(bits.ptr, first_bit + done, count - done);
                done += short.count;
                ones += short.ones;
                if (done == count) break;
                try self.next_header();
            }
            const step = @min(self.left, count - done);
            if (self.repeated) {
                bitpack.fill_bits(bits, first_bit + done, step, self.value != 0);
                ones += step * self.value;
            } else {
                ones += bitpack.append_bits(bits, first_bit + done, self.source[self.at..], self.bit, step);
            }
            self.advance(step);
            done += step;
        }
        return ones;
    }

    const Short = struct { count: u32, ones: u32 };

    /// Scattered NULLs make runs of a dozen values, whose kinds and lengths no processor predicts.
    /// So whole runs of up to 56 values are turned into a word and appended without a branch on
    /// either; the first one that is longer, cut off, empty, invalid or more than `limit` asks for
    /// is left to the caller.
    ///
    /// 56 and the up to 7 bits below them in their byte fit one word.
    noinline fn read_short_runs(self: *Decoder, bits: [*]u8, first_bit: u32, limit: u32) Short {
        assert(self.left == 0);
        var from = self.source.ptr + self.position;
        const stop = @intFromPtr(self.source.ptr) + self.source.len;
        var to = bits + first_bit / 8;
        var shift: u6 = @intCast(first_bit % 8);
        var pending: u64 = if (shift == 0) 0 else to[0] & ((@as(u64, 1) << shift) - 1);
        var left = limit;
        var ones: u32 = 0;
        while (true) {
            // The header and what may follow it are readable even behind the source's end. The first
            // byte of a longer header claims 64 values or more.
            const header: u32 = from[0];
            const is_packed = header & 1 != 0;
            const count = if (is_packed) header >> 1 << 3 else header >> 1;
            const size = if (is_packed) header >> 1 else 1;
            const invalid = !is_packed and from[1] > 1;
            const next = @intFromPtr(from) + 1 + size;
            if (count -% 1 >= @min(left, 56) or next > stop or invalid) break;

            const repeated: u64 = 0 -% @as(u64, from[1]);
            const values = if (is_packed) std.mem.readInt(u64, from[1..9], .little) else repeated;
            const word = values & (~@as(u64, 0) >> @intCast(64 - count));
            ones += @popCount(word);
            pending |= word << shift;
            std.mem.writeInt(u64, to[0..8], pending, .little);
            const filled = shift + count;
            to += filled / 8;
            pending >>= @intCast(filled / 8 * 8);
            shift = @intCast(filled % 8);
            left -= count;
            from = @ptrFromInt(next);
        }
        self.position = @intFromPtr(from) - @intFromPtr(self.source.ptr);
        return .{ .count = limit - left, .ones = ones };
    }

    inline fn advance(self: *Decoder, count: u32) void {
        self.left -= count;
        if (self.repeated) return;
        const bits = self.bit + @as(u64, count) * self.width;
        self.at += @intCast(bits / 8);
        self.bit = @intCast(bits % 8);
    }

    /// Starts the next run that has values. Empty ones say nothing, yet a page may be full of them.
    fn next_header(self: *Decoder) Error!void {
        assert(self.left == 0);
        while (true) {
            const header = try self.read_header();
            if (header & 1 != 0) try self.start_packed(header >> 1) else try self.start_repeated(header >> 1);
            if (self.left != 0) return;
            try interrupt.check();
        }
    }

    /// Most headers are one byte. Those of two to four are taken without a branch on their size.
    inline fn read_header(self: *Decoder) Error!u64 {
        const loaded = std.mem.readInt(u32, self.source.ptr[self.position..][0..4], .little);
        if (loaded & 0x80 == 0 and self.position < self.source.len) {
            self.position += 1;
            return loaded & 0x7F;
        }
        const last = ~loaded & 0x8080_8080;
        const size = @ctz(last) / 8 + 1;
        if (last == 0 or size > self.source.len - self.position) return self.read_header_long();
        self.position += size;
        const bytes = loaded & (last ^ (last - 1));
        return (bytes & 0x7F) | (bytes >> 1 & 0x3F80) | (bytes >> 2 & 0x1F_C000) | (bytes >> 3 & 0xFE0_0000);
    }

    /// The same byte by byte, for the ones that are longer or cut off.
    noinline fn read_header_long(self: *Decoder) Error!u64 {
        var header: u64 = 0;
        for (0..5) |i| {
            if (self.position >= self.source.len)
                return fail("runs end after {d} bytes, too few values", .{self.source.len});
            const byte = self.source[self.position];
            self.position += 1;
            header |= @as(u64, byte & 0x7F) << @intCast(7 * i);
            if (byte < 0x80) return header;
        }
        return fail("run header of more than five bytes at byte {d}", .{self.position - 5});
    }

    inline fn start_repeated(self: *Decoder, count: u64) Error!void {
        const size = (@as(usize, self.width) + 7) / 8;
        if (self.source.len - self.position < size) return fail("run at byte {d} has no value", .{self.position});
        // Four bytes can be loaded whatever the size: the source is readable past its end.
        const loaded = std.mem.readInt(u32, self.source.ptr[self.position..][0..4], .little);
        const value = if (size == 4) loaded else loaded & ((@as(u32, 1) << @intCast(8 * size)) - 1);
        if (@as(u64, value) >> self.width != 0)
            return fail("value {d} of a run has more than {d} bits", .{ value, self.width });
        self.repeated = true;
        self.value = value;
        self.position += size;
        self.left = std.math.lossyCast(u32, count);
    }

    inline fn start_packed(self: *Decoder, groups: u64) Error!void {
        const there = self.source.len - self.position;
        const size = groups * self.width;
        self.repeated = false;
        self.at = self.position;
        self.bit = 0;
        if (size <= there) {
            self.left = std.math.lossyCast(u32, groups * 8);
            self.position += @intCast(size);
        } else {
            self.left = std.math.lossyCast(u32, @as(u64, there) * 8 / self.width);
            self.position = self.source.len;
        }
    }
};

/// Definition levels to validity: the bit of a row is set where its level reaches `threshold`.
/// Returns how many are set. Bits below `first_bit` stay, those above the last one are
/// unspecified. Levels are readable 64 bytes past their end.
pub fn levels_to_validity(levels: []const u8, threshold: u8, bits: []u8, first_bit: u32) u32 {
    assert(@as(u64, bits.len) * 8 >= @as(u64, first_bit) + levels.len);
    var writer: bitpack.BitWriter = .init(bits, first_bit);
    var from = levels.ptr;
    var left = levels.len;
    while (left >= 64) : (left -= 64) {
        writer.put_64(compare_64(from, threshold));
        from += 64;
    }
    if (left != 0) writer.put_last(compare_64(from, threshold), @intCast(left)) else writer.flush();
    return writer.ones;
}

inline fn compare_64(levels: [*]const u8, threshold: u8) u64 {
    const wanted: lanes_module.Bytes16 = @splat(threshold);
    var word: u64 = 0;
    inline for (0..4) |i| {
        const reached: u16 = @bitCast(lanes_module.load16(levels + 16 * i) >= wanted);
        word |= @as(u64, reached) << (16 * i);
    }
    return word;
}

/// Levels in the deprecated BIT_PACKED encoding: no runs, and the first value in the highest bits.
///
///     width 3:   byte 0            byte 1
///                a a a b b b c c   c d d d e e e f
pub const BitPackedLevels = struct {
    source: []const u8,
    width: u4,
    bit: u64 = 0,

    /// Where there are no other bounds, the source of `count` levels takes this many bytes.
    pub fn size(count: u32, width: u8) u64 {
        assert(width <= 8);
        return bitpack.packed_size(count, @intCast(width));
    }

    pub fn init(source: []const u8, width: u8) BitPackedLevels {
        assert(width <= 8);
        return .{ .source = source, .width = @intCast(width) };
    }

    pub fn read(self: *BitPackedLevels, target: []u8) Error!void {
        const first = self.bit;
        try self.skip(target.len);
        if (self.width == 0) return @memset(target, 0);
        const down: u4 = @intCast(16 - @as(u5, self.width));
        var bit = first;
        for (target) |*level| {
            // The window's second byte may lie behind the source; its bits are then shifted out.
            const window = std.mem.readInt(u16, self.source.ptr[@intCast(bit / 8)..][0..2], .big);
            level.* = @intCast((window << @intCast(bit % 8)) >> down);
            bit += self.width;
        }
    }

    pub fn skip(self: *BitPackedLevels, count: u64) Error!void {
        const end = self.bit + count * self.width;
        if (end > @as(u64, self.source.len) * 8) return fail("levels end after {d} bytes", .{self.source.len});
        self.bit = end;
    }
};

/// Sixty-four bytes at a time, past the end of the run: what follows is written later. Most runs
/// are short, and a loop over their exact length would be mispredicted once per run.
inline fn fill(comptime T: type, target: [*]T, value: T, count: u32) void {
    const lane_count = 16 / @sizeOf(T);
    const vector: @Vector(lane_count, T) = @splat(value);
    var i: u32 = 0;
    while (true) {
        inline for (0..4) |part| target[i + part * lane_count ..][0..lane_count].* = vector;
        i += 4 * lane_count;
        if (i >= count) break;
    }
}

fn unpack_at_scalar(comptime T: type, source: []const u8, bit: u3, width: u7, target: []T) void {
    if (bit == 0) return bitpack.unpack_scalar(T, source, width, target);
    for (target, 0..) |*value, i| value.* = @intCast(bitpack.extract(source.ptr, bit + i * width, width));
}

noinline fn fail(comptime format: []const u8, arguments: anytype) error{InvalidFormat} {
    @branchHint(.cold);
    interrupt.describe(format, arguments);
    return error.InvalidFormat;
}

// Tests.

const testing = std.testing;
const bitmap = @import("../core/bitmap.zig");
const padding = 64;

/// Writes streams, one run at a time, by the definition above.
const Encoder = struct {
    bytes: std.ArrayList(u8) = .empty,
    width: u6,

    fn varint(self: *Encoder, value: u64) !void {
        var rest = value;
        while (rest >= 0x80) : (rest >>= 7) try self.bytes.append(testing.allocator, @as(u8, @truncate(rest)) | 0x80);
        try self.bytes.append(testing.allocator, @intCast(rest));
    }

    fn repeated(self: *Encoder, value: u32, count: u32) !void {
        try self.varint(@as(u64, count) << 1);
        for (0..(@as(usize, self.width) + 7) / 8) |i| {
            try self.bytes.append(testing.allocator, @truncate(value >> @intCast(8 * i)));
        }
    }

    fn bit_packed(self: *Encoder, values: []const u32) !void {
        const groups = (values.len + 7) / 8;
        try self.varint(groups << 1 | 1);
        const start = self.bytes.items.len;
        try self.bytes.appendNTimes(testing.allocator, 0, groups * self.width);
        for (values, 0..) |value, i| for (0..self.width) |k| {
            const at = i * self.width + k;
            if (value >> @intCast(k) & 1 != 0) bitmap.set(self.bytes.items[start..].ptr, at);
        };
    }

    /// The stream with readable bytes behind it.
    fn finish(self: *Encoder) ![]const u8 {
        const size = self.bytes.items.len;
        try self.bytes.appendNTimes(testing.allocator, 0xAA, padding);
        return self.bytes.items[0..size];
    }
};

fn random_value(random: std.Random, width: u6) u32 {
    return if (width == 0) 0 else random.int(u32) >> @intCast(32 - width);
}

/// Runs of every kind and length, and the values they stand for.
fn random_stream(random: std.Random, encoder: *Encoder, values: []u32) ![]const u8 {
    var done: usize = 0;
    while (done < values.len) {
        const most: usize = if (random.boolean()) 20 else 300;
        var count = @min(random.uintLessThan(usize, most), values.len - done);
        if (random.boolean()) {
            const value = random_value(random, encoder.width);
            @memset(values[done..][0..count], value);
            try encoder.repeated(value, @intCast(count));
        } else {
            if (done + count < values.len) count -= count % 8;
            for (values[done..][0..count]) |*value| value.* = random_value(random, encoder.width);
            try encoder.bit_packed(values[done..][0..count]);
        }
        done += count;
    }
    return encoder.finish();
}

fn next_part(random: std.Random, left: usize) u32 {
    const most: usize = if (random.boolean()) 10 else 400;
    return @intCast(@min(1 + random.uintLessThan(usize, most), left));
}

test "read, skip and next_run give a stream in any parts" {
    var prng: std.Random.DefaultPrng = .init(1);
    const random = prng.random();
    var values: [2000]u32 = undefined;
    var target: [2000 + padding]u32 = undefined;
    var small: [2000 + padding]u8 = undefined;
    for (0..33 * 3) |round| {
        var encoder: Encoder = .{ .width = @intCast(round % 33) };
        defer encoder.bytes.deinit(testing.allocator);
        var decoder: Decoder = try .init(try random_stream(random, &encoder, &values), encoder.width);
        var done: usize = 0;
        while (done < values.len) {
            const count = next_part(random, values.len - done);
            const wanted = values[done..][0..count];
            const got = target[0..count];
            switch (random.uintLessThan(u8, 5)) {
                0 => try decoder.skip(count),
                1 => if (encoder.width <= 8) {
                    try decoder.read_u8(small[0..count]);
                    for (wanted, small[0..count]) |a, b| try testing.expectEqual(a, b);
                } else try decoder.skip(count),
                2 => {
                    try decoder.read_scalar(got);
                    try testing.expectEqualSlices(u32, wanted, got);
                },
                3 => {
                    const run = try decoder.next_run(count);
                    try testing.expect(run.count >= 1 and run.count <= count);
                    const part = got[0..run.count];
                    switch (run.values) {
                        .repeated => |value| @memset(part, value),
                        .bit_packed => |run_packed| bitpack.unpack_at(
                            u32,
                            run_packed.bytes,
                            run_packed.bit,
                            encoder.width,
                            part,
                        ),
                    }
                    try testing.expectEqualSlices(u32, wanted[0..run.count], part);
                    done += run.count;
                    continue;
                },
                else => {
                    try decoder.read(got);
                    try testing.expectEqualSlices(u32, wanted, got);
                },
            }
            done += count;
        }
    }
}

test "read_noting leaves out the insides of long runs, and nothing else" {
    var prng: std.Random.DefaultPrng = .init(6);
    const random = prng.random();
    var values: [2000]u32 = undefined;
    var stretches: std.ArrayList(Stretch) = .empty;
    defer stretches.deinit(testing.allocator);
    var noted: usize = 0;
    for (0..99) |round| {
        var encoder: Encoder = .{ .width = @intCast(round % 33) };
        defer encoder.bytes.deinit(testing.allocator);
        var decoder: Decoder = try .init(try random_stream(random, &encoder, &values), encoder.width);
        var target: [2000 + padding]u32 = undefined;
        stretches.clearRetainingCapacity();
        try stretches.ensureTotalCapacity(testing.allocator, values.len / stretch_min);
        var done: u32 = 0;
        while (done < values.len) {
            const count = next_part(random, values.len - done);
            try decoder.read_noting(target[0 .. done + count], done, &stretches);
            done += count;
        }
        var end: u32 = 0;
        for (stretches.items) |stretch| {
            try testing.expect(stretch.first >= end and stretch.first % 8 == 0);
            try testing.expect(stretch.count >= stretch_min and stretch.count % 8 == 0);
            end = stretch.first + stretch.count;
            @memset(target[stretch.first..end], stretch.value);
        }
        try testing.expectEqualSlices(u32, &values, target[0..values.len]);
        noted += stretches.items.len;
    }
    try testing.expect(noted > 100);
}

test "read_validity writes any part to any bit" {
    var prng: std.Random.DefaultPrng = .init(2);
    const random = prng.random();
    var values: [3000]u32 = undefined;
    for (0..40) |_| {
        var encoder: Encoder = .{ .width = 1 };
        defer encoder.bytes.deinit(testing.allocator);
        var decoder: Decoder = try .init(try random_stream(random, &encoder, &values), 1);
        const first = random.uintLessThan(u32, 20);
        var bits: [400 + padding]u8 = undefined;
        random.bytes(&bits);
        const before = bits;
        var done: u32 = 0;
        while (done < values.len) {
            const count = next_part(random, values.len - done);
            const ones = try decoder.read_validity(bits[0..400], first + done, count);
            var expected: u32 = 0;
            for (values[done..][0..count]) |value| expected += value;
            try testing.expectEqual(expected, ones);
            done += count;
        }
        for (0..first) |i| try testing.expectEqual(bitmap.get(&before, i), bitmap.get(&bits, i));
        for (values, first..) |value, i| try testing.expectEqual(value != 0, bitmap.get(&bits, i));
        try testing.expectEqual(0, try decoder.read_validity(bits[0..400], 3200, 0));
    }
}

test levels_to_validity {
    var prng: std.Random.DefaultPrng = .init(3);
    const random = prng.random();
    const lengths = [_]usize{ 0, 1, 15, 16, 17, 63, 64, 65, 200 };
    for (lengths) |n| for (0..12) |round| {
        var levels: [200 + padding]u8 = undefined;
        for (&levels) |*level| level.* = random.uintLessThan(u8, 5);
        if (round == 0) @memset(&levels, 0);
        if (round == 1) @memset(&levels, 255);
        const threshold: u8 = if (round < 2) 200 else random.uintAtMost(u8, 5);
        const first = random.uintLessThan(u32, 20);
        var bits: [40 + padding]u8 = undefined;
        random.bytes(&bits);
        const before = bits;
        var ones = levels_to_validity(levels[0..n], threshold, bits[0..40], first);
        for (0..first) |i| try testing.expectEqual(bitmap.get(&before, i), bitmap.get(&bits, i));
        for (levels[0..n], first..) |level, i| {
            try testing.expectEqual(level >= threshold, bitmap.get(&bits, i));
            if (level >= threshold) ones -= 1;
        }
        try testing.expectEqual(0, ones);
    };
}

test BitPackedLevels {
    var prng: std.Random.DefaultPrng = .init(4);
    const random = prng.random();
    for (0..9) |w| {
        const width: u6 = @intCast(w);
        var levels: [100]u8 = undefined;
        for (&levels) |*level| level.* = @intCast(random_value(random, width));
        var source: [100 + padding]u8 = @splat(0);
        for (levels, 0..) |level, i| for (0..width) |k| {
            const at = i * width + k;
            if (level >> @intCast(width - 1 - k) & 1 != 0) source[at / 8] |= @as(u8, 0x80) >> @intCast(at % 8);
        };
        const size: usize = @intCast(BitPackedLevels.size(100, width));
        var decoder: BitPackedLevels = .init(source[0..size], width);
        var target: [100]u8 = undefined;
        try decoder.read(target[0..13]);
        try decoder.skip(20);
        try decoder.read(target[33..]);
        try testing.expectEqualSlices(u8, levels[0..13], target[0..13]);
        try testing.expectEqualSlices(u8, levels[33..], target[33..]);
        if (width == 8) try testing.expectError(error.InvalidFormat, decoder.read(target[0..1]));
    }
}

fn padded(comptime bytes: []const u8) []const u8 {
    const behind: [padding]u8 = @splat(0xFF);
    const all = bytes ++ behind;
    return all[0..bytes.len];
}

test "a stream that lies or ends early is refused" {
    defer interrupt.forget();
    var target: [200]u32 = undefined;
    const bad = [_]struct { bytes: []const u8, width: u8 }{
        .{ .bytes = padded(""), .width = 3 },
        .{ .bytes = padded("\x14"), .width = 3 }, // ten times what?
        .{ .bytes = padded("\x14\x08"), .width = 3 }, // 8 does not fit into three bits
        .{ .bytes = padded("\x14\xFF\xFF\xFF"), .width = 25 },
        .{ .bytes = padded("\x10\x01"), .width = 3 }, // eight of the ten values
        .{ .bytes = padded("\x05\x01\x02\x03"), .width = 3 }, // two groups, bytes of eight values
        .{ .bytes = padded("\x80\x80\x80\x80\x80\x00"), .width = 3 },
        .{ .bytes = padded("\xFF"), .width = 3 },
        .{ .bytes = padded("\x00\x00\x00\x00\x00\x00"), .width = 3 }, // empty runs only
    };
    for (bad) |case| {
        var decoder: Decoder = try .init(case.bytes, case.width);
        try testing.expectError(error.InvalidFormat, decoder.read(target[0..10]));
        decoder = try .init(case.bytes, case.width);
        try testing.expectError(error.InvalidFormat, decoder.skip(10));
        var stretches: std.ArrayList(Stretch) = .empty;
        decoder = try .init(case.bytes, case.width);
        try testing.expectError(error.InvalidFormat, decoder.read_noting(target[0..10], 0, &stretches));
    }
    try testing.expectError(error.InvalidFormat, Decoder.init("", 33));
}

test "a packed run may lack the bytes of its padding" {
    defer interrupt.forget();
    var target: [10 + padding]u32 = undefined;
    // Two groups claimed, ten values of three bits there.
    var decoder: Decoder = try .init(padded("\x05\x88\xC6\xFA\x11"), 3);
    try decoder.read(target[0..10]);
    try testing.expectEqualSlices(u32, &.{ 0, 1, 2, 3, 4, 5, 6, 7, 1, 2 }, target[0..10]);
    try testing.expectError(error.InvalidFormat, decoder.read(target[0..1]));
    // Width 0: no bytes at all, as many values as are asked for.
    decoder = try .init(padded("\x03\xFE\xFF\xFF\xFF\x0F"), 0);
    try decoder.read(target[0..10]);
    try testing.expectEqual(0, target[9]);
    try decoder.skip(0x7FFF_0000);
}

test "random bytes never lead outside" {
    defer interrupt.forget();
    var prng: std.Random.DefaultPrng = .init(5);
    const random = prng.random();
    var target: [300 + padding]u32 = undefined;
    var small: [300 + padding]u8 = undefined;
    for (0..3000) |_| {
        var bytes: [40 + padding]u8 = undefined;
        random.bytes(&bytes);
        const source = bytes[0..random.uintLessThan(usize, 40)];
        const width = random.uintAtMost(u8, 32);
        var decoder: Decoder = try .init(source, width);
        for (0..20) |_| {
            const count = random.uintAtMost(u32, 300);
            (switch (random.uintLessThan(u8, 4)) {
                0 => decoder.read(target[0..count]),
                1 => decoder.skip(random.int(u32) >> random.int(u5)),
                2 => if (width <= 8) decoder.read_u8(small[0..count]) else decoder.skip(count),
                else => if (width != 1)
                    next_run_only(&decoder, count + 1)
                else if (decoder.read_validity(&small, 3, count)) |ones|
                    try testing.expect(ones <= count)
                else |reason|
                    reason,
            }) catch break;
            try testing.expect(decoder.position <= source.len and decoder.at <= source.len);
        }
    }
}

fn next_run_only(decoder: *Decoder, limit: u32) Error!void {
    _ = try decoder.next_run(limit);
}
