//! Values as the file stores them become values as our columns store them: a function for each `Conversion` of
//! types.zig.
//!
//!     widen             i32                     → i64
//!     date64            i64 milliseconds        → i32 days
//!     decimal_narrow    i128                    → i64
//!     decimal256        i256                    → i128
//!     decimal256_narrow i256                    → i64
//!     duration          i64 of some unit        → interval: no months, no days, i64 nanoseconds
//!
//! Values that ours cannot hold are written down in `Unfit`, not refused: a NULL's slot holds anything, and only
//! whoever knows the levels knows which slots are NULL.
const std = @import("std");
const abi = @import("../../abi.zig");
const bitmap = @import("../../core/bitmap.zig");
const interrupt = @import("../../core/interrupt.zig");
const types = @import("types.zig");
const assert = std.debug.assert;

pub const Error = error{ Cancelled, InvalidFormat, NotSupported, OutOfMemory };

/// Values of the last read that ours cannot hold. There are hardly ever any.
pub const Unfit = struct {
    gpa: std.mem.Allocator,
    /// A bit for each value that was read, once there is one to set.
    bits: std.ArrayList(u8) = .empty,
    count: u32 = 0,
    reason: Reason = .none,

    pub const Reason = enum { none, null_element, not_utf8, out_of_range };

    pub fn init(gpa: std.mem.Allocator) Unfit {
        return .{ .gpa = gpa };
    }

    pub fn deinit(self: *Unfit) void {
        self.bits.deinit(self.gpa);
    }

    /// `count` values are going to be read.
    pub fn begin(self: *Unfit, count: u32) void {
        self.reason = .none;
        self.count = count;
    }

    pub fn mark(self: *Unfit, index: usize, reason: Reason) error{OutOfMemory}!void {
        @branchHint(.cold);
        assert(index < self.count and reason != .none);
        if (self.reason == .none) {
            try self.bits.resize(self.gpa, bitmap.size(self.count));
            @memset(self.bits.items, 0);
        }
        self.reason = reason;
        self.bits.items[index / 8] |= @as(u8, 1) << @intCast(index % 8);
    }

    pub fn is_marked(self: *const Unfit, index: usize) bool {
        return self.reason != .none and self.bits.items[index / 8] >> @intCast(index % 8) & 1 != 0;
    }

    /// An error if one of them is valid: its bit, from bit `first` of `validity` on, is set. Null: all are.
    pub fn check(self: *const Unfit, validity: ?[]const u8, first: u64) Error!void {
        if (self.reason == .none) return;
        for (0..self.count) |index| {
            if (index % interrupt.block_rows == 0) try interrupt.check();
            if (!self.is_marked(index)) continue;
            const bit = first + index;
            if (validity) |bits| if (bits[@intCast(bit / 8)] >> @intCast(bit % 8) & 1 == 0) continue;
            return self.refuse();
        }
    }

    fn refuse(self: *const Unfit) Error {
        switch (self.reason) {
            .none => unreachable,
            .null_element => {
                interrupt.describe("a vector has NULL elements; store the column as a list", .{});
                return error.NotSupported;
            },
            .not_utf8 => interrupt.describe("text is not UTF-8", .{}),
            .out_of_range => interrupt.describe("a value does not fit its column's type", .{}),
        }
        return error.InvalidFormat;
    }
};

/// Bytes of a value before.
pub fn source_size(conversion: types.Conversion) u32 {
    return switch (conversion) {
        .none => unreachable,
        .widen => 4,
        .date64, .duration => 8,
        .decimal_narrow => 16,
        .decimal256, .decimal256_narrow => 32,
    };
}

/// And after.
pub fn target_size(conversion: types.Conversion) u32 {
    return switch (conversion) {
        .none => unreachable,
        .widen, .decimal_narrow, .decimal256_narrow => 8,
        .date64 => 4,
        .duration, .decimal256 => 16,
    };
}

/// As many values as the source has. Neither source nor target need to be aligned.
pub fn convert(conversion: types.Conversion, source: []const u8, target: []u8, unfit: *Unfit) Error!void {
    const count = source.len / source_size(conversion);
    assert(source.len % source_size(conversion) == 0);
    assert(target.len == count * target_size(conversion));
    var first: usize = 0;
    while (first < count) : (first += interrupt.block_rows) {
        try interrupt.check();
        const size = @min(interrupt.block_rows, count - first);
        const from = source[first * source_size(conversion) ..][0 .. size * source_size(conversion)];
        const to = target[first * target_size(conversion) ..][0 .. size * target_size(conversion)];
        switch (conversion) {
            .none => unreachable,
            .widen => widen(words(i32, from), words_of(i64, to)),
            .date64 => try date64(words(i64, from), words_of(i32, to), first, unfit),
            .decimal_narrow => try narrow(2, 1, words(i64, from), words_of(i64, to), first, unfit),
            .decimal256 => try narrow(4, 2, words(i64, from), words_of(i64, to), first, unfit),
            .decimal256_narrow => try narrow(4, 1, words(i64, from), words_of(i64, to), first, unfit),
            .duration => |unit| try duration(unit, words(i64, from), words_of(i64, to), first, unfit),
        }
    }
}

inline fn words(comptime T: type, bytes: []const u8) []align(1) const T {
    return std.mem.bytesAsSlice(T, bytes);
}

inline fn words_of(comptime T: type, bytes: []u8) []align(1) T {
    return std.mem.bytesAsSlice(T, bytes);
}

fn widen(source: []align(1) const i32, target: []align(1) i64) void {
    for (source, target) |from, *to| to.* = from;
}

const day_milliseconds = 24 * 60 * 60 * 1000;

/// Arrow's own conversion refuses times of the day as well.
fn date64(source: []align(1) const i64, target: []align(1) i32, first: usize, unfit: *Unfit) Error!void {
    for (source, target, first..) |from, *to, index| {
        const day = @divFloor(from, day_milliseconds);
        to.* = @truncate(day);
        if (to.* != day or from != day *% day_milliseconds) try unfit.mark(index, .out_of_range);
    }
}

/// Keeps the low words of every value; those above must be but its sign.
fn narrow(
    comptime before: usize,
    comptime after: usize,
    source: []align(1) const i64,
    target: []align(1) i64,
    first: usize,
    unfit: *Unfit,
) Error!void {
    for (first..first + source.len / before, 0..) |index, i| {
        const from = source[i * before ..][0..before];
        inline for (0..after) |word| target[i * after + word] = from[word];
        const sign = from[after - 1] >> 63;
        var other: i64 = 0;
        inline for (after..before) |word| other |= from[word] ^ sign;
        if (other != 0) try unfit.mark(index, .out_of_range);
    }
}

fn duration(
    unit: abi.TimeUnit,
    source: []align(1) const i64,
    target: []align(1) i64,
    first: usize,
    unfit: *Unfit,
) Error!void {
    const factor: i64 = switch (unit) {
        .second => 1_000_000_000,
        .millisecond => 1_000_000,
        .microsecond => 1000,
        .nanosecond => 1,
    };
    const most = @divTrunc(std.math.maxInt(i64), factor);
    for (source, first.., 0..) |from, index, i| {
        target[i * 2] = 0; // months and days
        target[i * 2 + 1] = from *% factor;
        if (from > most or from < -most) try unfit.mark(index, .out_of_range);
    }
}

const testing = std.testing;

fn expect_converted(
    conversion: types.Conversion,
    comptime S: type,
    source: []const S,
    comptime T: type,
    expected: []const T,
    unfit_bits: u8,
) !void {
    var unfit: Unfit = .init(testing.allocator);
    defer unfit.deinit();
    unfit.begin(@intCast(source.len));
    // Shifted by a byte: nothing is aligned.
    const from = try std.mem.concat(testing.allocator, u8, &.{ "x", std.mem.sliceAsBytes(source) });
    defer testing.allocator.free(from);
    const to = try testing.allocator.alloc(u8, 1 + expected.len * @sizeOf(T));
    defer testing.allocator.free(to);
    try convert(conversion, from[1..], to[1..], &unfit);
    try testing.expectEqualSlices(u8, std.mem.sliceAsBytes(expected), to[1..]);
    for (0..source.len) |i| try testing.expectEqual(unfit_bits >> @intCast(i) & 1 != 0, unfit.is_marked(i));
}

test convert {
    const days = [_]i64{ 0, 3, -1, 1 << 36 };
    var milliseconds: [5]i64 = undefined;
    for (days, milliseconds[0..4]) |day, *to| to.* = day * day_milliseconds;
    milliseconds[4] = -1;
    try expect_converted(.widen, i32, &.{ -5, 7 }, i64, &.{ -5, 7 }, 0);
    try expect_converted(.date64, i64, &milliseconds, i32, &.{ 0, 3, -1, 0, -1 }, 0b11000);
    const ends = [_]i64{ std.math.minInt(i64), std.math.maxInt(i64) };
    try expect_converted(.date64, i64, &ends, i32, &.{ 622191232, -622191233 }, 0b11);
    const long: i128 = 1 << 63;
    try expect_converted(.decimal_narrow, i128, &.{ 5, -5, long, -long - 1, -long }, i64, &.{
        5, -5, std.math.minInt(i64), std.math.maxInt(i64), std.math.minInt(i64),
    }, 0b01100);
    const longer: i256 = 1 << 127;
    try expect_converted(.decimal256, i256, &.{ 5, -5, longer }, i128, &.{ 5, -5, std.math.minInt(i128) }, 0b100);
    try expect_converted(.decimal256_narrow, i256, &.{ 5, -5, longer, 1 << 64 }, i64, &.{ 5, -5, 0, 0 }, 0b1100);
    const most = std.math.maxInt(i64);
    try expect_converted(.{ .duration = .microsecond }, i64, &.{ 5, -5 }, i64, &.{ 0, 5000, 0, -5000 }, 0);
    try expect_converted(.{ .duration = .nanosecond }, i64, &.{ most, -most }, i64, &.{ 0, most, 0, -most }, 0);
    const wrapped = 9_223_372_037 *% @as(i64, 1_000_000_000);
    try expect_converted(.{ .duration = .second }, i64, &.{9_223_372_037}, i64, &.{ 0, wrapped }, 1);
}

test Unfit {
    defer interrupt.forget();
    var unfit: Unfit = .init(testing.allocator);
    defer unfit.deinit();
    unfit.begin(20);
    try unfit.check(null, 0);
    try unfit.mark(17, .null_element);
    try testing.expectError(error.NotSupported, unfit.check(null, 0));
    try unfit.check(&.{ 0xFF, 0xFF, 0xFF, 0b1110_1111 }, 11);
    try testing.expectError(error.NotSupported, unfit.check(&.{ 0, 0, 0, 0b0001_0000 }, 11));
    try unfit.mark(2, .not_utf8);
    try testing.expectError(error.InvalidFormat, unfit.check(null, 0));
    unfit.begin(3);
    try unfit.check(null, 0);
}
