//! Split-block Bloom filters: "not in this column chunk" without reading it.
//!
//!     | BloomFilterHeader (Thrift compact) | bit set: blocks of 8 words of 32 bits, little endian |
//!
//!     BloomFilterHeader  1 bytes of the bit set  2 algorithm {1 BLOCK}  3 hash {1 XXHASH}
//!                        4 compression {1 UNCOMPRESSED}
//!
//! A value's hash is XXH64, seed 0, of its PLAIN bytes (byte arrays without their length). Its upper
//! half chooses a block, its lower half one bit in each of the block's words. One clear bit proves
//! that the value was never added. Spec: parquet-format, BloomFilter.md.
//!
//! A filter is advice: where it is refused here, the file can be read all the same.
const std = @import("std");
const interrupt = @import("../../core/interrupt.zig");
const metadata = @import("metadata.zig");
const schema = @import("../../core/schema.zig");
const thrift = @import("thrift.zig");
const xxh64 = @import("../../codec/xxh64.zig");
const Leaf = metadata.Leaf;
const Reader = thrift.Reader;
const assert = std.debug.assert;

pub const Error = error{ Truncated, InvalidFormat, NotSupported };

/// A header is some 15 bytes; a future one may have more fields.
pub const header_size_max = 256;
/// The spec's limit for a bit set.
pub const bitset_size_max = 128 << 20;
const block_size = 32;

const salts: @Vector(8, u32) = .{
    0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d, 0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31,
};

/// Sizes, as the header has them: what there is to be read where the footer does not say.
pub const Extent = struct {
    header_size: u32,
    bitset_size: u32,

    pub fn size(self: Extent) u64 {
        return @as(u64, self.header_size) + self.bitset_size;
    }
};

/// From the front of a filter; `header_size_max` bytes are always enough.
pub fn extent(bytes: []const u8) Error!Extent {
    var reader: Reader = .init(bytes[0..@min(bytes.len, header_size_max)]);
    return read_header(&reader) catch |reason| {
        // Only at the end of the bytes can more of them help.
        const is_short = bytes.len < header_size_max and reader.remaining() == 0;
        return if (reason == error.InvalidFormat and is_short) error.Truncated else reason;
    };
}

fn read_header(reader: *Reader) Error!Extent {
    var bitset_size: ?u32 = null;
    var fields = reader.structure();
    while (try fields.next_field()) |field| switch (field.id) {
        1 => bitset_size = try reader.read_int(u31, field.type),
        2 => try read_only_choice(reader, field.type, "a Bloom filter's algorithm is not known"),
        3 => try read_only_choice(reader, field.type, "a Bloom filter's hash is not known"),
        4 => try read_only_choice(reader, field.type, "a Bloom filter's compression is not known"),
        else => try reader.skip(field.type),
    };
    const size = bitset_size orelse return invalid("a Bloom filter has no size");
    if (size == 0 or size % block_size != 0 or size > bitset_size_max) return invalid("a Bloom filter's size is wrong");
    return .{ .header_size = @intCast(reader.position), .bitset_size = size };
}

/// A union with one member so far, number 1, an empty structure.
fn read_only_choice(reader: *Reader, actual: thrift.Type, comptime words: []const u8) Error!void {
    try reader.expect(actual, .structure);
    var is_known = false;
    var fields = reader.structure();
    while (try fields.next_field()) |field| {
        is_known = field.id == 1;
        try reader.skip(field.type);
    }
    if (is_known) return;
    interrupt.describe(words, .{});
    return error.NotSupported;
}

fn invalid(comptime words: []const u8) Error {
    @branchHint(.cold);
    interrupt.describe(words, .{});
    return error.InvalidFormat;
}

pub const Filter = struct {
    /// Points into the bytes given; a multiple of `block_size`, not empty.
    bitset: []const u8,

    /// `footer_size` is what the footer says of header and bit set together, 0 when it does not.
    /// Two sizes that differ are two opinions on where the blocks are, and "no" could be wrong.
    pub fn init(bytes: []const u8, footer_size: u32) Error!Filter {
        const sizes = try extent(bytes);
        if (footer_size != 0 and footer_size != sizes.size())
            return invalid("a Bloom filter's sizes in header and footer differ");
        if (bytes.len < sizes.size()) return error.Truncated;
        return .{ .bitset = bytes[sizes.header_size..][0..sizes.bitset_size] };
    }

    pub fn might_contain(self: *const Filter, hash: u64) bool {
        const block_count = self.bitset.len / block_size;
        assert(block_count > 0 and block_count <= bitset_size_max / block_size);
        const block: usize = @intCast((hash >> 32) * block_count >> 32);
        const words = load_block(self.bitset[block * block_size ..][0..block_size]);
        const wanted = mask(@truncate(hash));
        return @reduce(.And, words & wanted == wanted);
    }
};

inline fn load_block(bytes: *const [block_size]u8) @Vector(8, u32) {
    const words: *align(1) const [8]u32 = @ptrCast(bytes);
    return words.*;
}

/// One bit for each word.
inline fn mask(key: u32) @Vector(8, u32) {
    const products = @as(@Vector(8, u32), @splat(key)) *% salts;
    const shifts: @Vector(8, u5) = @truncate(products >> @splat(27));
    return @as(@Vector(8, u32), @splat(1)) << shifts;
}

/// The hash of a value of ours, or null where the filter cannot be asked: more than one spelling in
/// the file may equal the value (zeros, NaN, decimals of free length), or the conversion loses
/// something (INT96, intervals). `value` is in the layout of the leaf's type.
pub fn hash_value(leaf: *const Leaf, value: []const u8) ?u64 {
    var plain: [16]u8 = undefined;
    return xxh64.hash(0, plain_bytes(leaf, value, &plain) orelse return null);
}

/// The PLAIN bytes of a value, in `buffer` where they differ from ours.
fn plain_bytes(leaf: *const Leaf, value: []const u8, buffer: *[16]u8) ?[]const u8 {
    switch (leaf.type.layout()) {
        .none, .list, .structure => return null,
        .bits => return null, // the format has no filters for booleans
        .bytes => return if (leaf.conversion == .none) value else null,
        .fixed => {
            if (leaf.conversion != .none) return null;
            return if (value.len == leaf.type_length) value else null;
        },
        .f16 => return plain_float(f16, value),
        .f32 => return plain_float(f32, value),
        .f64 => return plain_float(f64, value),
        inline .i8, .i16, .i32, .i64, .i128, .u8, .u16, .u32, .u64 => |layout| {
            const T = schema.Scalar(layout);
            assert(value.len == @sizeOf(T));
            return plain_integer(leaf, std.mem.readInt(T, value[0..@sizeOf(T)], .little), buffer);
        },
    }
}

fn plain_float(comptime T: type, value: []const u8) ?[]const u8 {
    assert(value.len == @sizeOf(T));
    const number: T = @bitCast(std.mem.readInt(@Int(.unsigned, @bitSizeOf(T)), value[0..@sizeOf(T)], .little));
    return if (number == 0 or std.math.isNan(number)) null else value;
}

fn plain_integer(leaf: *const Leaf, value: i128, buffer: *[16]u8) ?[]const u8 {
    switch (leaf.conversion) {
        .int96, .unsupported, .float16 => return null,
        .big_endian => {
            // Byte arrays of any length can hold the same decimal.
            if (leaf.physical != .fixed_len_byte_array) return null;
            return plain_big_endian(value, leaf.type_length, buffer);
        },
        .none, .narrow, .widen, .widen_i128 => switch (leaf.physical) {
            .int32 => return plain_physical(i32, leaf, value, buffer),
            .int64 => return plain_physical(i64, leaf, value, buffer),
            else => return null,
        },
    }
}

/// Unsigned values use the sign bit; a decimal beyond the file's width is not in the file.
fn plain_physical(comptime T: type, leaf: *const Leaf, value: i128, buffer: *[16]u8) ?[]const u8 {
    const Unsigned = @Int(.unsigned, @bitSizeOf(T));
    const is_unsigned = switch (leaf.type.layout()) {
        .u8, .u16, .u32, .u64 => true,
        else => false,
    };
    const bits: Unsigned = if (is_unsigned)
        std.math.cast(Unsigned, value) orelse return null
    else
        @bitCast(std.math.cast(T, value) orelse return null);
    std.mem.writeInt(Unsigned, buffer[0..@sizeOf(T)], bits, .little);
    return buffer[0..@sizeOf(T)];
}

fn plain_big_endian(value: i128, type_length: u32, buffer: *[16]u8) ?[]const u8 {
    if (type_length == 0 or type_length > 16) return null;
    std.mem.writeInt(i128, buffer, value, .big);
    const excess = 16 - type_length;
    const sign: u8 = if (value < 0) 0xFF else 0;
    for (buffer[0..excess]) |byte| if (byte != sign) return null;
    if ((buffer[excess] ^ sign) & 0x80 != 0) return null;
    return buffer[excess..];
}

const testing = std.testing;

fn test_leaf(physical: metadata.PhysicalType, conversion: metadata.Conversion, data_type: schema.DataType) Leaf {
    return .{
        .physical = physical,
        .conversion = conversion,
        .max_definition = 0,
        .max_repetition = 0,
        .type = data_type,
    };
}

const test_header = [_]u8{ 0x15, 0x40, 0x1C, 0x1C, 0x00, 0x00, 0x1C, 0x1C, 0x00, 0x00, 0x1C, 0x1C, 0x00, 0x00, 0x00 };

/// A filter of one block with the given keys, as a writer makes it.
fn test_filter(hashes: []const u64) [test_header.len + block_size]u8 {
    var words: [8]u32 = @splat(0);
    for (hashes) |hash| for (&words, 0..) |*word, i| {
        const salt: [8]u32 = salts;
        word.* |= @as(u32, 1) << @intCast((@as(u32, @truncate(hash)) *% salt[i]) >> 27);
    };
    var bytes: [test_header.len + block_size]u8 = undefined;
    bytes[0..test_header.len].* = test_header;
    for (words, 0..) |word, i| std.mem.writeInt(u32, bytes[test_header.len + i * 4 ..][0..4], word, .little);
    return bytes;
}

test "what was added is found, most of the rest is not" {
    const leaf = test_leaf(.int64, .none, .of(.i64));
    var hashes: [6]u64 = undefined;
    for (&hashes, 0..) |*hash, i| hash.* = hash_value(&leaf, std.mem.asBytes(&@as(i64, @intCast(i * 1000)))).?;
    const bytes = test_filter(&hashes);
    const filter: Filter = try .init(&bytes, bytes.len);
    for (hashes) |hash| try testing.expect(filter.might_contain(hash));
    var false_positives: u32 = 0;
    for (0..1000) |i| {
        const hash = hash_value(&leaf, std.mem.asBytes(&@as(i64, @intCast(i * 1000 + 1)))).?;
        false_positives += @intFromBool(filter.might_contain(hash));
    }
    try testing.expect(false_positives < 20);
}

test "a filter of two blocks that DuckDB wrote" {
    const text = "1580011c1c00001c1c00001c1c0000006a92f600908f93fd3c3a5e1c6d99957a585fdc8d07514175" ++
        "80fec20d39fdcdb4892269658070727127275a6cca52d229eb065293e9093496465e4d028e25f942";
    var bytes: [80]u8 = undefined;
    _ = try std.fmt.hexToBytes(&bytes, text);
    const filter: Filter = try .init(&bytes, bytes.len);
    const leaf = test_leaf(.int64, .none, .of(.i64));
    var others: u32 = 0;
    for (0..2000) |i| {
        const is_found = filter.might_contain(hash_value(&leaf, std.mem.asBytes(&@as(i64, @intCast(i * 1000003)))).?);
        if (i < 41) try testing.expect(is_found) else others += @intFromBool(is_found);
    }
    try testing.expect(others < 100);
}

test "headers are cut, wrong or of another kind" {
    const bytes = test_filter(&.{1});
    for (0..bytes.len) |size| try testing.expectError(error.Truncated, Filter.init(bytes[0..size], 0));
    try testing.expectEqual(bytes.len, (try extent(&bytes)).size());
    _ = try Filter.init(&bytes, 0);
    try testing.expectError(error.InvalidFormat, Filter.init(&bytes, bytes.len + 32));
    var other = bytes;
    other[1] = 0x42; // 33 bytes
    try testing.expectError(error.InvalidFormat, Filter.init(&other, 0));
    other[1] = 0;
    try testing.expectError(error.InvalidFormat, Filter.init(&other, 0));
    other = bytes;
    other[7] = 0x2C; // the second member of the hash union
    try testing.expectError(error.NotSupported, Filter.init(&other, 0));
    const long: [header_size_max]u8 = @splat(0x15);
    try testing.expectError(error.InvalidFormat, Filter.init(&long, 0));
    interrupt.forget();
}

fn expect_plain(leaf: Leaf, value: anytype, comptime wanted: ?[]const u8) !void {
    var buffer: [16]u8 = undefined;
    const found = plain_bytes(&leaf, if (@TypeOf(value) == []const u8) value else std.mem.asBytes(&value), &buffer);
    if (wanted) |bytes| try testing.expectEqualSlices(u8, bytes, found.?) else try testing.expectEqual(null, found);
}

test "values return to the bytes of the file" {
    try expect_plain(test_leaf(.int32, .narrow, .of(.i8)), @as(i8, -2), &.{ 0xFE, 0xFF, 0xFF, 0xFF });
    try expect_plain(test_leaf(.int32, .narrow, .of(.u8)), @as(u8, 254), &.{ 0xFE, 0, 0, 0 });
    try expect_plain(test_leaf(.int32, .none, .of(.u32)), @as(u32, 0xFFFF_FFFE), &.{ 0xFE, 0xFF, 0xFF, 0xFF });
    try expect_plain(test_leaf(.int64, .none, .of(.u64)), @as(u64, 1) << 63, &.{ 0, 0, 0, 0, 0, 0, 0, 0x80 });
    const narrow: schema.DataType = .{ .tag = .decimal, .precision = 9, .scale = 2 };
    try expect_plain(test_leaf(.int32, .widen, narrow), @as(i64, -2), &.{ 0xFE, 0xFF, 0xFF, 0xFF });
    try expect_plain(test_leaf(.int32, .widen, narrow), @as(i64, 1) << 31, null);
    const wide: schema.DataType = .{ .tag = .decimal, .precision = 20, .scale = 2 };
    try expect_plain(test_leaf(.int64, .widen_i128, wide), @as(i128, 3), &.{ 3, 0, 0, 0, 0, 0, 0, 0 });
    var fixed = test_leaf(.fixed_len_byte_array, .big_endian, wide);
    fixed.type_length = 3;
    try expect_plain(fixed, @as(i128, -2), &.{ 0xFF, 0xFF, 0xFE });
    try expect_plain(fixed, @as(i128, 0x7F_FFFF), &.{ 0x7F, 0xFF, 0xFF });
    try expect_plain(fixed, @as(i128, 0x80_0000), null);
    fixed.type_length = 17;
    try expect_plain(fixed, @as(i128, 1), null);
    try expect_plain(test_leaf(.byte_array, .big_endian, wide), @as(i128, 1), null);
    try expect_plain(test_leaf(.byte_array, .none, .of(.utf8)), @as([]const u8, "ab"), "ab");
    try expect_plain(test_leaf(.double, .none, .of(.f64)), @as(f64, 1), &.{ 0, 0, 0, 0, 0, 0, 0xF0, 0x3F });
    try expect_plain(test_leaf(.double, .none, .of(.f64)), @as(f64, -0.0), null);
    try expect_plain(test_leaf(.float, .none, .of(.f32)), std.math.nan(f32), null);
    try expect_plain(test_leaf(.int96, .int96, .{ .tag = .timestamp, .unit = .microsecond }), @as(i64, 1), null);
    try expect_plain(test_leaf(.boolean, .none, .of(.bool)), @as(u8, 1), null);
    var uuid = test_leaf(.fixed_len_byte_array, .none, .{ .tag = .fixed_binary, .width = 2 });
    uuid.type_length = 2;
    try expect_plain(uuid, @as([]const u8, "xy"), "xy");
}
