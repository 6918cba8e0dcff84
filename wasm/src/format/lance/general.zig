//! Buffers and values that a general codec has compressed, with their size in front.
//!
//!     LZ4     u32 size | raw block
//!     zstd    u64 size | frame
//!
//! Sizes are what the file says: room is made for one only where the codec could make so many bytes of those that
//! are there. Sources are readable 64 bytes past their end, as segments are; what is decompressed is, too.
const std = @import("std");
const compression = @import("compression.zig");
const interrupt = @import("../../core/interrupt.zig");
const lz4 = @import("../../codec/lz4.zig");
const zstd = @import("../../codec/zstd.zig");
const ColumnBuilder = @import("../../core/column_builder.zig").ColumnBuilder;
const Scheme = compression.Scheme;

pub const Error = error{ Cancelled, InvalidFormat, NotSupported, OutOfMemory, TooLarge };

pub const Bytes = std.array_list.Aligned(u8, .@"16");

/// Behind every buffer.
pub const slack = 64;

const Content = struct { size: usize, source: []const u8 };

fn read_size(scheme: Scheme, bytes: []const u8) Error!Content {
    @setRuntimeSafety(true);
    const header: usize = switch (scheme) {
        .lz4 => 4,
        .zstd => 8,
    };
    // Bytes that one byte can become at most.
    const ratio: u64 = switch (scheme) {
        .lz4 => 256,
        .zstd => 1 << 15,
    };
    if (bytes.len < header) return invalid("compressed bytes that are cut short", .{});
    const size = switch (scheme) {
        .lz4 => std.mem.readInt(u32, bytes[0..4], .little),
        .zstd => std.mem.readInt(u64, bytes[0..8], .little),
    };
    const source = bytes[header..];
    if (size > source.len * ratio) return invalid("{d} compressed bytes that became {d}", .{ source.len, size });
    return .{ .size = std.math.cast(usize, size) orelse return error.TooLarge, .source = source };
}

fn run(scheme: Scheme, source: []const u8, target: []u8) Error!void {
    switch (scheme) {
        .lz4 => try lz4.decompress(source, target),
        .zstd => try zstd.decompress(source, target),
    }
}

/// Into `target`, which is emptied before.
pub fn decompress(gpa: std.mem.Allocator, scheme: Scheme, bytes: []const u8, target: *Bytes) Error![]const u8 {
    const content = try read_size(scheme, bytes);
    target.clearRetainingCapacity();
    try target.ensureTotalCapacity(gpa, std.math.add(usize, content.size, slack) catch return error.TooLarge);
    target.items.len = content.size;
    try run(scheme, content.source, target.items);
    @memset(target.unusedCapacitySlice()[0..slack], 0);
    return target.items;
}

/// One value, behind the bytes of `builder`; its size.
pub fn append(scheme: Scheme, bytes: []const u8, builder: *ColumnBuilder) Error!usize {
    const content = try read_size(scheme, bytes);
    if (content.size > std.math.maxInt(u32) -| builder.data.items.len) return error.TooLarge;
    try run(scheme, content.source, try builder.grow_dense(content.size));
    return content.size;
}

fn invalid(comptime format: []const u8, arguments: anytype) Error {
    interrupt.describe("a Lance page has " ++ format, arguments);
    return error.InvalidFormat;
}

const testing = std.testing;

/// "hello hello hello hello ": literals "hello ", then a match of 18 bytes, 6 back, then nothing.
pub const lz4_sample = [_]u8{ 24, 0, 0, 0, 0x6E, 'h', 'e', 'l', 'l', 'o', ' ', 6, 0, 0x00 };
/// "abc", stored.
pub const zstd_sample = [_]u8{ 3, 0, 0, 0, 0, 0, 0, 0, 0x28, 0xB5, 0x2F, 0xFD, 0x20, 3, 0x19, 0, 0, 'a', 'b', 'c' };

/// The same bytes, readable 64 bytes further.
pub fn with_slack(gpa: std.mem.Allocator, bytes: []const u8) ![]u8 {
    const copy = try gpa.alloc(u8, bytes.len + slack);
    @memcpy(copy[0..bytes.len], bytes);
    @memset(copy[bytes.len..], 0);
    return copy;
}

fn expect_decompressed(scheme: Scheme, bytes: []const u8, expected: []const u8) !void {
    const source = try with_slack(testing.allocator, bytes);
    defer testing.allocator.free(source);
    var target: Bytes = .empty;
    defer target.deinit(testing.allocator);
    const found = try decompress(testing.allocator, scheme, source[0..bytes.len], &target);
    try testing.expectEqualStrings(expected, found);
    var builder: ColumnBuilder = try .init(testing.allocator, .of(.binary));
    defer builder.deinit();
    try testing.expectEqual(expected.len, try append(scheme, source[0..bytes.len], &builder));
    try testing.expectEqualStrings(expected, builder.data.items);
}

test decompress {
    try expect_decompressed(.lz4, &lz4_sample, "hello hello hello hello ");
    try expect_decompressed(.zstd, &zstd_sample, "abc");
    defer interrupt.forget();
    var target: Bytes = .empty;
    defer target.deinit(testing.allocator);
    var source = lz4_sample ++ @as([slack]u8, @splat(0));
    const whole = source[0..lz4_sample.len];
    for ([_]u8{ 23, 25, 0 }) |size| {
        source[0] = size;
        try testing.expectError(error.InvalidFormat, decompress(testing.allocator, .lz4, whole, &target));
    }
    // More than any byte can become.
    source[0..4].* = @splat(0xFF);
    try testing.expectError(error.InvalidFormat, decompress(testing.allocator, .lz4, whole, &target));
    try testing.expectError(error.InvalidFormat, decompress(testing.allocator, .lz4, whole[0..3], &target));
    try testing.expectError(error.InvalidFormat, decompress(testing.allocator, .zstd, whole[0..7], &target));
    try testing.expectError(error.InvalidFormat, decompress(testing.allocator, .zstd, whole, &target));
}
