//! Bounds of a leaf's row groups or pages, as columns: pruning is then ordinary evaluation of an
//! expression over a batch with one row per row group or page, where unknown is NULL.
//!
//!     min, max              of the leaf's type: nothing in the group is less than / greater than
//!     null_count            i64
//!     nan_possible          bool, never NULL: a NaN may hide above max
//!     min_exact, max_exact  bool, never NULL: the bound is the group's MIN / MAX itself
//!
//! NaN is the greatest value here, as in DuckDB, yet writers leave it out of their bounds: max is
//! the greatest of the others. So `x > 5` may be pruned by `max <= 5` only where nan_possible is
//! false as well, and `x < 5` by min alone. (DuckDB 2.0 itself prunes by max and loses NaN rows of
//! files written by others.)
//!
//! What a file says is used only where its order is known to be ours. Every reason not to is in
//! this file; a bound that is not understood makes both unknown, since its writer is not.
const std = @import("std");
const bitmap = @import("../../core/bitmap.zig");
const column_module = @import("../../core/column.zig");
const schema = @import("../../core/schema.zig");
const metadata = @import("metadata.zig");
const Arena = @import("../../core/arena.zig").Arena;
const Column = column_module.Column;
const DataType = schema.DataType;
const Leaf = metadata.Leaf;

const Buffer = []align(column_module.alignment) u8;

/// What FileMetaData.column_orders says of a leaf. Absent: undefined, and then min_value and
/// max_value have no meaning either.
pub const ColumnOrder = enum(u8) { undefined = 0, type_defined = 1, ieee754_total = 2 };

/// Who wrote the file, from FileMetaData.created_by: "parquet-mr version 1.7.0 (build 0a1b2c)".
pub const Writer = struct {
    application: Application = .unknown,
    /// Zeros where there is no number to be read: older than every fix.
    version: [3]u32 = @splat(0),

    pub const Application =
        enum { unknown, parquet_mr, parquet_cpp, parquet_cpp_arrow, parquet_rs, datafusion, duckdb, polars };

    const names = [_]struct { []const u8, Application }{
        .{ "parquet-mr", .parquet_mr },
        .{ "parquet-cpp", .parquet_cpp },
        .{ "parquet-cpp-arrow", .parquet_cpp_arrow },
        .{ "parquet-rs", .parquet_rs },
        .{ "datafusion", .datafusion },
        .{ "DuckDB", .duckdb },
        .{ "Polars", .polars },
        .{ "Polars (python)", .polars },
    };

    pub fn parse(created_by: []const u8) Writer {
        const separator = " version ";
        const end = std.mem.find(u8, created_by, separator) orelse created_by.len;
        const name = std.mem.trim(u8, created_by[0..end], " ");
        var writer: Writer = .{};
        for (names) |entry| if (std.ascii.eqlIgnoreCase(name, entry[0])) {
            writer.application = entry[1];
        };
        if (end < created_by.len) writer.version = parse_version(created_by[end + separator.len ..]);
        return writer;
    }

    fn parse_version(text: []const u8) [3]u32 {
        var version: [3]u32 = @splat(0);
        var rest = text;
        if (rest.len > 0 and rest[0] == 'v') rest = rest[1..];
        for (&version) |*part| {
            var size: usize = 0;
            while (size < rest.len and std.ascii.isDigit(rest[size])) size += 1;
            part.* = std.fmt.parseInt(u32, rest[0..size], 10) catch return version;
            if (size == rest.len or rest[size] != '.') return version;
            rest = rest[size + 1 ..];
        }
        return version;
    }

    /// A dictionary that has grown too large is never taken up again: pages that it codes come before
    /// the others. So it is in all versions of these; the format demands it of nobody.
    pub fn leaves_dictionary_for_good(self: Writer) bool {
        return self.application != .unknown;
    }

    /// Of this version or a later one.
    fn is_from(self: Writer, application: Application, version: [3]u32) bool {
        return self.application == application and !self.is_before(application, version);
    }

    fn is_before(self: Writer, application: Application, version: [3]u32) bool {
        return self.application == application and std.mem.order(u32, &self.version, &version) == .lt;
    }
};

/// Whose statistics they are: the same for all row groups and pages of a leaf.
pub const Origin = struct {
    leaf: *const Leaf,
    order: ColumnOrder,
    writer: Writer,
};

/// What one row group or page says.
pub const Evidence = struct {
    statistics: metadata.Statistics = .{},
    /// min and max are those of the deprecated fields.
    deprecated: bool = false,
    /// With NULLs; null: not known.
    value_count: ?u64 = null,
    /// The column index says that the page holds NULLs only.
    all_null: bool = false,
    /// From a page's header or the column index.
    is_page: bool = false,
};

pub const Bounds = struct {
    min: Column,
    max: Column,
    null_count: Column,
    nan_possible: Column,
    min_exact: Column,
    max_exact: Column,
};

/// A bound on its way from the file's bytes to our layout. Integers of all kinds fit an i128,
/// floats of all kinds an f64.
pub const Bound = union(enum) {
    integer: i128,
    float: f64,
    bytes: []const u8,

    fn order(a: Bound, b: Bound) std.math.Order {
        return switch (a) {
            .integer => std.math.order(a.integer, b.integer),
            .float => std.math.order(a.float, b.float),
            .bytes => std.mem.order(u8, a.bytes, b.bytes),
        };
    }
};

/// Null when the bytes are not a value of the leaf: of another size, out of the range of our type,
/// or NaN, which says nothing about the other values.
pub fn decode_bound(leaf: *const Leaf, bytes: []const u8) ?Bound {
    return switch (leaf.conversion) {
        .none, .narrow, .widen, .widen_i128 => decode_physical(leaf, bytes),
        .big_endian => decode_big_endian(leaf, bytes),
        .float16 => if (bytes.len == 2)
            float_bound(@as(f16, @bitCast(std.mem.readInt(u16, bytes[0..2], .little))))
        else
            null,
        .int96, .unsupported => null,
    };
}

fn decode_physical(leaf: *const Leaf, bytes: []const u8) ?Bound {
    switch (leaf.physical) {
        .boolean => return if (bytes.len == 1 and bytes[0] < 2) .{ .integer = bytes[0] } else null,
        .int32 => return if (bytes.len == 4)
            integer_bound(leaf.type, std.mem.readInt(i32, bytes[0..4], .little))
        else
            null,
        .int64 => return if (bytes.len == 8)
            integer_bound(leaf.type, std.mem.readInt(i64, bytes[0..8], .little))
        else
            null,
        .float => return if (bytes.len == 4)
            float_bound(@as(f32, @bitCast(std.mem.readInt(u32, bytes[0..4], .little))))
        else
            null,
        .double => return if (bytes.len == 8)
            float_bound(@as(f64, @bitCast(std.mem.readInt(u64, bytes[0..8], .little))))
        else
            null,
        .byte_array => return .{ .bytes = bytes },
        .fixed_len_byte_array => return if (bytes.len == leaf.type_length) .{ .bytes = bytes } else null,
        .int96 => return null,
    }
}

fn integer_bound(data_type: DataType, value: anytype) ?Bound {
    const Unsigned = @Int(.unsigned, @bitSizeOf(@TypeOf(value)));
    const wide: i128 = if (is_unsigned(data_type)) @as(Unsigned, @bitCast(value)) else value;
    return if (fits(data_type, wide)) .{ .integer = wide } else null;
}

fn float_bound(value: anytype) ?Bound {
    return if (std.math.isNan(value)) null else .{ .float = value };
}

fn decode_big_endian(leaf: *const Leaf, bytes: []const u8) ?Bound {
    if (leaf.physical == .fixed_len_byte_array and bytes.len != leaf.type_length) return null;
    if (bytes.len == 0) return null;
    const sign: u8 = if (bytes[0] & 0x80 != 0) 0xFF else 0;
    const excess = bytes.len -| 16;
    for (bytes[0..excess]) |byte| if (byte != sign) return null;
    // The sign must still be the sign once the excess is gone.
    if ((bytes[excess] ^ sign) & 0x80 != 0) return null;
    var value: i128 = if (sign == 0) 0 else -1;
    for (bytes[excess..]) |byte| value = value << 8 | byte;
    return if (fits(leaf.type, value)) .{ .integer = value } else null;
}

fn is_unsigned(data_type: DataType) bool {
    return switch (data_type.layout()) {
        .u8, .u16, .u32, .u64 => true,
        else => false,
    };
}

/// Values that are cut on the way to our type do not keep their order, so their bounds go, too.
fn fits(data_type: DataType, value: i128) bool {
    return switch (data_type.layout()) {
        inline .i8, .i16, .i32, .i64, .i128, .u8, .u16, .u32, .u64 => |layout| std.math.cast(
            schema.Scalar(layout),
            value,
        ) != null,
        else => false,
    };
}

fn is_float(data_type: DataType) bool {
    return switch (data_type.layout()) {
        .f16, .f32, .f64 => true,
        else => false,
    };
}

/// May min and max of this leaf be looked at, in these fields, from this writer?
pub fn is_trusted(origin: Origin, deprecated: bool) bool {
    const leaf = origin.leaf;
    // Orders that are not ours: INT96 has none in the format, and the footer knows
    // of others (types that nobody defines an order for).
    if (!leaf.ordered or leaf.conversion == .int96 or leaf.conversion == .unsupported) return false;
    if (leaf.physical == .int96) return false;
    if (leaf.type.is_nested() or leaf.type.layout() == .none) return false;
    if (deprecated) return is_deprecated_trusted(leaf);
    switch (origin.order) {
        // The fields were made together with column_orders; without it their order is anyone's
        // guess. DuckDB kept the order of the type from the start and said so from 1.5 on.
        .undefined => if (!origin.writer.is_from(.duckdb, .{ 1, 1, 0 })) return false,
        .type_defined => {},
        // -NaN < -inf < … < -0 < +0 < … < inf < NaN: ours, but for NaN, which is never a bound here.
        .ieee754_total => if (!is_float(leaf.type)) return false,
    }
    return !is_known_wrong(leaf, origin.writer);
}

/// The deprecated fields were compared as signed numbers and bytes, whatever the type: right for
/// signed integers and what is stored as such (dates, times, timestamps, decimals) and for floats;
/// wrong for unsigned integers, strings past ASCII and decimals in bytes. Booleans were written by
/// some as signed bytes and by others as bits: not worth it. min == max does not help, since
/// what was compared to get there may have been anything.
fn is_deprecated_trusted(leaf: *const Leaf) bool {
    return switch (leaf.physical) {
        .int32, .int64 => !is_unsigned(leaf.type),
        .float, .double => true,
        .boolean, .int96, .byte_array, .fixed_len_byte_array => false,
    };
}

fn is_known_wrong(leaf: *const Leaf, writer: Writer) bool {
    const is_bytes = leaf.physical == .byte_array or leaf.physical == .fixed_len_byte_array;
    // PARQUET-251: a reused buffer was kept as bound and changed under it. Fixed in 1.8.0.
    if (is_bytes and writer.is_before(.parquet_mr, .{ 1, 8, 0 })) return true;
    // parquet-cpp compared everything as signed before 1.3.0.
    if ((is_bytes or is_unsigned(leaf.type)) and writer.is_before(.parquet_cpp, .{ 1, 3, 0 })) return true;
    // Arrow issue 15042: of a dictionary array in several chunks only the first was looked at. Such
    // arrays become byte arrays, and the file does not tell from which arrays its columns came.
    if (leaf.physical == .byte_array and writer.is_from(.parquet_cpp_arrow, .{ 5, 0, 0 }) and
        writer.is_before(.parquet_cpp_arrow, .{ 11, 0, 0 })) return true;
    return false;
}

/// Does the count say how many values are NULL?
fn is_null_count_trusted(origin: Origin) bool {
    const leaf = origin.leaf;
    // Writers differ in whether NULLs and empty lists above a leaf count as its own (Arrow issue
    // 51097, Polars issue 20621); without anything above there is no choice.
    if (leaf.max_repetition > 0 or leaf.max_definition > 1) return false;
    // ARROW-12513 and Arrow issue 34106: for dictionary arrays the count was 0 at first, and then
    // the whole column's in its first page.
    return !(leaf.physical == .byte_array and origin.writer.is_before(.parquet_cpp_arrow, .{ 12, 0, 0 }));
}

/// The two bounds of one group, or what is left of them.
const Pair = struct {
    min: ?Bound = null,
    max: ?Bound = null,
};

fn decode_pair(origin: Origin, evidence: Evidence) Pair {
    if (!is_trusted(origin, evidence.deprecated)) return .{};
    if (is_all_null(origin, evidence)) return .{}; // whatever stands there is not a value
    const pair: Pair = .{
        .min = decode_one(origin.leaf, evidence.statistics.min) catch return .{},
        .max = decode_one(origin.leaf, evidence.statistics.max) catch return .{},
    };
    if (pair.min == null or pair.max == null) return widen_zeros(pair);
    // After the zeros: [+0, -0] is what a writer may leave that takes them for equal.
    const widened = widen_zeros(pair);
    return if (widened.min.?.order(widened.max.?) == .gt) .{} else widened;
}

fn decode_one(leaf: *const Leaf, bytes: ?[]const u8) error{NotUnderstood}!?Bound {
    return decode_bound(leaf, bytes orelse return null) orelse error.NotUnderstood;
}

/// A writer that compares with `<` may keep +0 where there is a -0, or the other way round. Our
/// kernels take the two for equal, but not everyone who reads a bound need.
fn widen_zeros(pair: Pair) Pair {
    var widened = pair;
    if (is_zero(pair.min)) widened.min = .{ .float = -0.0 };
    if (is_zero(pair.max)) widened.max = .{ .float = 0.0 };
    return widened;
}

fn is_zero(bound: ?Bound) bool {
    const value = bound orelse return false;
    return value == .float and value.float == 0;
}

fn is_all_null(origin: Origin, evidence: Evidence) bool {
    if (evidence.all_null) return true;
    const value_count = evidence.value_count orelse return false;
    if (value_count == 0) return true;
    return is_null_count_trusted(origin) and evidence.statistics.null_count == value_count;
}

/// A missing count is not 0, and one that is larger than the group is nothing.
fn null_count_of(origin: Origin, evidence: Evidence) ?i64 {
    if (evidence.all_null) {
        if (evidence.value_count) |count| return std.math.cast(i64, count);
    }
    const count = evidence.statistics.null_count orelse return null;
    if (!is_null_count_trusted(origin)) return null;
    if (evidence.value_count) |limit| {
        if (count > limit) return null;
    }
    return std.math.cast(i64, count);
}

/// The format has one proof that there is no NaN: nan_count. Bounds leave NaN out, except where the
/// writer is known not to: then bounds that are numbers are another.
fn is_nan_possible(origin: Origin, evidence: Evidence, pair: Pair) bool {
    if (!is_float(origin.leaf.type) or is_all_null(origin, evidence)) return false;
    if (evidence.statistics.nan_count) |count| return count != 0;
    return pair.min == null or pair.max == null or evidence.deprecated or !is_nan_kept(origin.writer);
}

/// Would a NaN show in the bounds? In parquet-mr it compares as the greatest value from 1.10.0 until
/// nan_count came in 1.18.0, and becomes the max. DuckDB writes no bounds when there is one.
fn is_nan_kept(writer: Writer) bool {
    if (writer.is_from(.duckdb, .{ 1, 1, 0 })) return true;
    return writer.is_from(.parquet_mr, .{ 1, 10, 0 }) and writer.is_before(.parquet_mr, .{ 1, 18, 0 });
}

const Side = enum { min, max };

/// Is the bound a value of the group? Never of a page: Polars gives the pages of a dictionary the
/// bounds of their chunk, and the format allows as much. For texts only where the file says so: writers cut long ones.
/// Numbers cannot be cut, so known writers have kept the value itself (others may have kept wider
/// bounds when they merged files). Not so for zeros, whose sign may be wrong, nor for a max with a
/// NaN above it.
fn is_exact(origin: Origin, evidence: Evidence, pair: Pair, comptime side: Side) bool {
    const bound = pair_side(pair, side) orelse return false;
    if (evidence.is_page) return false;
    const flag = switch (side) {
        .min => evidence.statistics.min_exact,
        .max => evidence.statistics.max_exact,
    };
    switch (bound) {
        // A text that is no UTF-8 was cut, whatever the flag says.
        .bytes => |bytes| return flag and (origin.leaf.type.tag != .utf8 or std.unicode.utf8ValidateSlice(bytes)),
        .integer => return flag or origin.writer.application != .unknown,
        .float => |value| {
            if (value == 0 or (side == .max and is_nan_possible(origin, evidence, pair))) return false;
            return flag or origin.writer.application != .unknown;
        },
    }
}

/// One row for each piece of evidence. Bounds are copied: the columns do not point into the file.
pub fn build(arena: std.mem.Allocator, origin: Origin, evidence: []const Evidence) error{OutOfMemory}!Bounds {
    const count = std.math.cast(u32, evidence.len) orelse return error.OutOfMemory;
    const pairs = try arena.alloc(Pair, count);
    for (pairs, evidence) |*pair, piece| pair.* = decode_pair(origin, piece);
    return .{
        .min = try build_bounds(arena, origin.leaf.type, pairs, .min),
        .max = try build_bounds(arena, origin.leaf.type, pairs, .max),
        .null_count = try build_null_counts(arena, origin, evidence),
        .nan_possible = try build_nan_possible(arena, origin, evidence, pairs),
        .min_exact = try build_exact(arena, origin, evidence, pairs, .min),
        .max_exact = try build_exact(arena, origin, evidence, pairs, .max),
    };
}

fn pair_side(pair: Pair, comptime side: Side) ?Bound {
    return @field(pair, @tagName(side));
}

fn new_buffer(arena: std.mem.Allocator, size: u64) error{OutOfMemory}!Buffer {
    const bytes = try arena.alignedAlloc(
        u8,
        .fromByteUnits(column_module.alignment),
        std.math.cast(usize, size) orelse return error.OutOfMemory,
    );
    @memset(bytes, 0);
    return bytes;
}

fn build_bounds(
    arena: std.mem.Allocator,
    data_type: DataType,
    pairs: []const Pair,
    comptime side: Side,
) error{OutOfMemory}!Column {
    const count: u32 = @intCast(pairs.len);
    var column: Column = .{ .type = data_type, .row_count = count };
    const valid = try new_buffer(arena, bitmap.size(count));
    for (pairs, 0..) |pair, row| if (pair_side(pair, side) != null) bitmap.set(valid.ptr, row);
    if (!bitmap.all_set(valid, count)) column.validity = valid;
    switch (data_type.layout()) {
        .none => column.validity = null,
        .bits => column.data = try build_bits(arena, pairs, side),
        .bytes => try build_bytes(arena, pairs, side, &column),
        .fixed => column.data = try build_fixed(arena, data_type.value_size(), pairs, side),
        .list, .structure => unreachable, // leaves are not nested
        inline else => |layout| column.data = try build_scalars(schema.Scalar(layout), arena, pairs, side),
    }
    return column;
}

fn build_bits(arena: std.mem.Allocator, pairs: []const Pair, comptime side: Side) error{OutOfMemory}!Buffer {
    const data = try new_buffer(arena, bitmap.size(pairs.len));
    for (pairs, 0..) |pair, row| {
        const bound = pair_side(pair, side) orelse continue;
        if (bound.integer != 0) bitmap.set(data.ptr, row);
    }
    return data;
}

fn build_scalars(
    comptime T: type,
    arena: std.mem.Allocator,
    pairs: []const Pair,
    comptime side: Side,
) error{OutOfMemory}!Buffer {
    const data = try new_buffer(arena, @as(u64, pairs.len) * @sizeOf(T));
    const values: [*]T = @ptrCast(data.ptr);
    for (pairs, values) |pair, *value| {
        const bound = pair_side(pair, side) orelse continue;
        value.* = if (@typeInfo(T) == .float) @floatCast(bound.float) else @intCast(bound.integer);
    }
    return data;
}

fn build_fixed(
    arena: std.mem.Allocator,
    width: u64,
    pairs: []const Pair,
    comptime side: Side,
) error{OutOfMemory}!Buffer {
    const data = try new_buffer(arena, std.math.mul(u64, pairs.len, width) catch return error.OutOfMemory);
    const size: usize = @intCast(width);
    for (pairs, 0..) |pair, row| {
        const bound = pair_side(pair, side) orelse continue;
        @memcpy(data[row * size ..][0..size], bound.bytes);
    }
    return data;
}

fn build_bytes(
    arena: std.mem.Allocator,
    pairs: []const Pair,
    comptime side: Side,
    column: *Column,
) error{OutOfMemory}!void {
    var total: u64 = 0;
    for (pairs) |pair| if (pair_side(pair, side)) |bound| {
        total += bound.bytes.len;
    };
    if (total > std.math.maxInt(u32)) return error.OutOfMemory;
    const data = try new_buffer(arena, total);
    const offsets = try arena.alloc(u32, pairs.len + 1);
    offsets[0] = 0;
    for (pairs, offsets[0..pairs.len], offsets[1..]) |pair, start, *end| {
        const bytes = if (pair_side(pair, side)) |bound| bound.bytes else "";
        @memcpy(data[start..][0..bytes.len], bytes);
        end.* = start + @as(u32, @intCast(bytes.len));
    }
    column.data = data;
    column.offsets = offsets;
}

fn build_null_counts(arena: std.mem.Allocator, origin: Origin, evidence: []const Evidence) error{OutOfMemory}!Column {
    const count: u32 = @intCast(evidence.len);
    const data = try new_buffer(arena, @as(u64, count) * 8);
    const valid = try new_buffer(arena, bitmap.size(count));
    const values: [*]i64 = @ptrCast(data.ptr);
    for (evidence, values, 0..) |piece, *value, row| {
        value.* = null_count_of(origin, piece) orelse continue;
        bitmap.set(valid.ptr, row);
    }
    return .{ .type = .of(.i64), .row_count = count, .data = data, .validity = if (bitmap.all_set(valid, count))
        null
    else
        valid };
}

fn build_nan_possible(
    arena: std.mem.Allocator,
    origin: Origin,
    evidence: []const Evidence,
    pairs: []const Pair,
) error{OutOfMemory}!Column {
    const data = try new_buffer(arena, bitmap.size(evidence.len));
    for (evidence, pairs, 0..) |piece, pair, row| if (is_nan_possible(origin, piece, pair)) bitmap.set(data.ptr, row);
    return .{ .type = .of(.bool), .row_count = @intCast(evidence.len), .data = data };
}

fn build_exact(
    arena: std.mem.Allocator,
    origin: Origin,
    evidence: []const Evidence,
    pairs: []const Pair,
    comptime side: Side,
) error{OutOfMemory}!Column {
    const data = try new_buffer(arena, bitmap.size(evidence.len));
    for (evidence, pairs, 0..) |piece, pair, row| {
        if (is_exact(origin, piece, pair, side)) bitmap.set(data.ptr, row);
    }
    return .{ .type = .of(.bool), .row_count = @intCast(evidence.len), .data = data };
}

const testing = std.testing;

fn test_leaf(physical: metadata.PhysicalType, conversion: metadata.Conversion, data_type: DataType) Leaf {
    return .{
        .physical = physical,
        .conversion = conversion,
        .max_definition = 1,
        .max_repetition = 0,
        .type = data_type,
    };
}

fn test_origin(leaf: *const Leaf) Origin {
    return .{ .leaf = leaf, .order = .type_defined, .writer = .parse("parquet-cpp-arrow version 26.0.1") };
}

fn bytes_of(comptime value: anytype) []const u8 {
    const S = struct {
        const stored = value;
    };
    return std.mem.asBytes(&S.stored);
}

fn range_of(comptime min: anytype, comptime max: @TypeOf(min)) Evidence {
    return .{ .statistics = .{ .min = bytes_of(min), .max = bytes_of(max) } };
}

fn expect_none(origin: Origin, evidence: Evidence) !void {
    const pair = decode_pair(origin, evidence);
    try testing.expect(pair.min == null and pair.max == null);
}

fn expect_pair(origin: Origin, evidence: Evidence, min: Bound, max: Bound) !void {
    const pair = decode_pair(origin, evidence);
    try testing.expectEqualDeep(Pair{ .min = min, .max = max }, pair);
}

test "created_by" {
    const cases = [_]struct { []const u8, Writer.Application, [3]u32 }{
        .{ "parquet-mr version 1.7.0 (build 0a1b)", .parquet_mr, .{ 1, 7, 0 } },
        .{ "parquet-mr version 1.5.0-cdh5.5.0 (build x)", .parquet_mr, .{ 1, 5, 0 } },
        .{ "parquet-mr", .parquet_mr, .{ 0, 0, 0 } },
        .{ "parquet-mr version 1.99999999999.2", .parquet_mr, .{ 1, 0, 0 } },
        .{ "parquet-cpp version 1.3", .parquet_cpp, .{ 1, 3, 0 } },
        .{ "parquet-cpp-arrow version 26.0.1", .parquet_cpp_arrow, .{ 26, 0, 1 } },
        .{ "DuckDB version v2.0.0 (build 1)", .duckdb, .{ 2, 0, 0 } },
        .{ "Polars (python) version 2.1.0 (build 7)", .polars, .{ 2, 1, 0 } },
        .{ "impala version 2.0", .unknown, .{ 2, 0, 0 } },
        .{ "", .unknown, .{ 0, 0, 0 } },
    };
    for (cases) |case| {
        const writer: Writer = .parse(case[0]);
        try testing.expectEqual(case[1], writer.application);
        try testing.expectEqual(case[2], writer.version);
    }
}

test "integers of every width" {
    const i32_leaf = test_leaf(.int32, .none, .of(.i32));
    try expect_pair(test_origin(&i32_leaf), range_of(@as(i32, -5), @as(i32, 7)), .{ .integer = -5 }, .{ .integer = 7 });
    try expect_none(test_origin(&i32_leaf), range_of(@as(i32, 8), @as(i32, 7))); // min > max
    try expect_none(test_origin(&i32_leaf), range_of(@as(i64, 1), @as(i64, 7))); // wrong length
    const u32_leaf = test_leaf(.int32, .none, .of(.u32));
    try expect_pair(test_origin(&u32_leaf), range_of(@as(i32, 5), @as(i32, -1)), .{ .integer = 5 }, .{
        .integer = 0xFFFF_FFFF,
    });
    const u64_leaf = test_leaf(.int64, .none, .of(.u64));
    try expect_pair(test_origin(&u64_leaf), range_of(@as(i64, 5), @as(i64, -1)), .{ .integer = 5 }, .{
        .integer = std.math.maxInt(u64),
    });
    const u8_leaf = test_leaf(.int32, .narrow, .of(.u8));
    try expect_pair(test_origin(&u8_leaf), range_of(@as(i32, 5), @as(i32, 255)), .{ .integer = 5 }, .{
        .integer = 255,
    });
    // Values past the declared width are cut by the reader; their bounds say nothing.
    try expect_none(test_origin(&u8_leaf), range_of(@as(i32, 5), @as(i32, 256)));
    const date_leaf = test_leaf(.int32, .none, .of(.date));
    try expect_pair(test_origin(&date_leaf), range_of(@as(i32, -1), @as(i32, 1)), .{ .integer = -1 }, .{
        .integer = 1,
    });
    const bool_leaf = test_leaf(.boolean, .none, .of(.bool));
    try expect_pair(test_origin(&bool_leaf), range_of(@as(u8, 0), @as(u8, 1)), .{ .integer = 0 }, .{ .integer = 1 });
    try expect_none(test_origin(&bool_leaf), range_of(@as(u8, 0), @as(u8, 2)));
}

test "decimals in every storage" {
    const narrow: DataType = .{ .tag = .decimal, .precision = 9, .scale = 2 };
    const wide: DataType = .{ .tag = .decimal, .precision = 38, .scale = 2 };
    const int_leaf = test_leaf(.int32, .widen, narrow);
    try expect_pair(test_origin(&int_leaf), range_of(@as(i32, -5), @as(i32, 7)), .{ .integer = -5 }, .{ .integer = 7 });
    const long_leaf = test_leaf(.int64, .widen_i128, wide);
    try expect_pair(test_origin(&long_leaf), range_of(@as(i64, -5), @as(i64, 7)), .{ .integer = -5 }, .{
        .integer = 7,
    });
    var fixed = test_leaf(.fixed_len_byte_array, .big_endian, narrow);
    fixed.type_length = 4;
    try expect_pair(
        test_origin(&fixed),
        .{ .statistics = .{ .min = "\xFF\xFF\xFF\xFB", .max = "\x00\x00\x01\x00" } },
        .{ .integer = -5 },
        .{ .integer = 256 },
    );
    try expect_none(test_origin(&fixed), .{ .statistics = .{ .min = "\xFF\xFB", .max = "\x00\x00\x01\x00" } });
    const any = test_leaf(.byte_array, .big_endian, wide);
    try expect_pair(test_origin(&any), .{ .statistics = .{ .min = "\xFB", .max = "\x01\x00" } }, .{ .integer = -5 }, .{
        .integer = 256,
    });
    try expect_none(test_origin(&any), .{ .statistics = .{ .min = "", .max = "\x01" } });
    // Twenty bytes are fine as long as the first four repeat the sign.
    const sign: [20]u8 = @splat(0xFF);
    try testing.expectEqual(Bound{ .integer = -1 }, decode_bound(&any, &sign).?);
    try testing.expectEqual(null, decode_bound(&any, "\x00" ++ sign));
    try testing.expectEqual(null, decode_bound(&any, "\x01" ++ sign[0..16]));
    try testing.expectEqual(
        Bound{ .integer = std.math.minInt(i128) },
        decode_bound(&any, "\x80" ++ @as([15]u8, @splat(0))).?,
    );
    // Past the i64 of a narrow decimal.
    const narrow_bytes = test_leaf(.byte_array, .big_endian, narrow);
    try testing.expectEqual(null, decode_bound(&narrow_bytes, "\x01" ++ @as([8]u8, @splat(0))));
}

test "floats: NaN and the two zeros" {
    const leaf = test_leaf(.double, .none, .of(.f64));
    const origin = test_origin(&leaf);
    const nan = std.math.nan(f64);
    try expect_none(origin, range_of(@as(f64, 1), nan));
    try expect_none(origin, range_of(nan, @as(f64, 1)));
    try expect_pair(origin, range_of(@as(f64, 1), @as(f64, 2)), .{ .float = 1 }, .{ .float = 2 });
    const zeros = decode_pair(origin, range_of(@as(f64, 0.0), @as(f64, -0.0)));
    try testing.expect(std.math.signbit(zeros.min.?.float) and !std.math.signbit(zeros.max.?.float));
    const half = test_leaf(.fixed_len_byte_array, .float16, .of(.f16));
    try expect_pair(test_origin(&half), range_of(@as(f16, -1.5), @as(f16, 2)), .{ .float = -1.5 }, .{ .float = 2 });
    try expect_none(test_origin(&half), range_of(std.math.nan(f16), @as(f16, 2)));
    const single = test_leaf(.float, .none, .of(.f32));
    try expect_pair(test_origin(&single), range_of(@as(f32, -1.5), std.math.inf(f32)), .{ .float = -1.5 }, .{
        .float = std.math.inf(f64),
    });
}

test "fields and writers that are not trusted" {
    const integer = test_leaf(.int64, .none, .of(.i64));
    const unsigned = test_leaf(.int64, .none, .of(.u64));
    const timestamp = test_leaf(.int64, .none, .{ .tag = .timestamp, .unit = .microsecond });
    const float = test_leaf(.float, .none, .of(.f32));
    const text = test_leaf(.byte_array, .none, .of(.utf8));
    const decimal = test_leaf(.byte_array, .big_endian, .{ .tag = .decimal, .precision = 9 });
    const boolean = test_leaf(.boolean, .none, .of(.bool));
    const half = test_leaf(.fixed_len_byte_array, .float16, .of(.f16));
    // Deprecated fields, whatever the column order.
    for ([_]*const Leaf{ &integer, &timestamp, &float }) |leaf|
        try testing.expect(is_trusted(.{ .leaf = leaf, .order = .undefined, .writer = .{} }, true));
    for ([_]*const Leaf{ &unsigned, &text, &decimal, &boolean, &half }) |leaf|
        try testing.expect(!is_trusted(test_origin(leaf), true));
    // New fields need an order.
    for ([_]*const Leaf{ &integer, &unsigned, &float, &text, &decimal, &boolean, &half }) |leaf| {
        try testing.expect(is_trusted(test_origin(leaf), false));
        try testing.expect(!is_trusted(.{ .leaf = leaf, .order = .undefined, .writer = .{} }, false));
        const is_number = leaf == &float or leaf == &half;
        try testing.expectEqual(
            is_number,
            is_trusted(.{ .leaf = leaf, .order = .ieee754_total, .writer = .{} }, false),
        );
    }
    const old_mr: Writer = .parse("parquet-mr version 1.7.0");
    const old_cpp: Writer = .parse("parquet-cpp version 1.2.9");
    try testing.expect(!is_trusted(.{ .leaf = &text, .order = .type_defined, .writer = old_mr }, false));
    try testing.expect(
        is_trusted(.{ .leaf = &text, .order = .type_defined, .writer = .parse("parquet-mr version 1.8.0") }, false),
    );
    try testing.expect(is_trusted(.{ .leaf = &unsigned, .order = .type_defined, .writer = old_mr }, false));
    try testing.expect(!is_trusted(.{ .leaf = &unsigned, .order = .type_defined, .writer = old_cpp }, false));
    try testing.expect(is_trusted(.{ .leaf = &integer, .order = .type_defined, .writer = old_cpp }, false));
    var unordered = integer;
    unordered.ordered = false;
    try testing.expect(!is_trusted(test_origin(&unordered), false));
    const int96 = test_leaf(.int96, .int96, .{ .tag = .timestamp, .unit = .microsecond });
    const wide = test_leaf(.fixed_len_byte_array, .unsupported, .{ .tag = .fixed_binary, .width = 40 });
    for ([_]*const Leaf{ &int96, &wide }) |leaf| try testing.expect(!is_trusted(test_origin(leaf), false));
}

test "writers whose mistakes are known" {
    const text = test_leaf(.byte_array, .none, .of(.utf8));
    const integer = test_leaf(.int64, .none, .of(.i64));
    const counted: Evidence = .{ .statistics = .{ .null_count = 1 }, .value_count = 3 };
    for ([_]struct { []const u8, bool, bool }{
        .{ "parquet-cpp-arrow version 4.0.1", true, false },
        .{ "parquet-cpp-arrow version 10.0.1", false, false },
        .{ "parquet-cpp-arrow version 11.0.0", true, false },
        .{ "parquet-cpp-arrow version 12.0.0", true, true },
    }) |case| {
        const writer: Writer = .parse(case[0]);
        const texts: Origin = .{ .leaf = &text, .order = .type_defined, .writer = writer };
        const integers: Origin = .{ .leaf = &integer, .order = .type_defined, .writer = writer };
        try testing.expectEqual(case[1], is_trusted(texts, false));
        try testing.expectEqual(case[2], null_count_of(texts, counted) != null);
        try testing.expect(is_trusted(integers, false) and null_count_of(integers, counted) != null);
    }
    var nested = integer;
    nested.max_definition = 2;
    try testing.expectEqual(null, null_count_of(test_origin(&nested), counted));
    // DuckDB left column_orders out.
    try testing.expect(
        is_trusted(.{ .leaf = &text, .order = .undefined, .writer = .parse("DuckDB version v1.4.1 (build b)") }, false),
    );
    try testing.expect(!is_trusted(.{ .leaf = &text, .order = .undefined, .writer = .parse("DuckDB") }, false));
}

test "writers that do not hide NaN" {
    const leaf = test_leaf(.double, .none, .of(.f64));
    const piece = range_of(@as(f64, 1), @as(f64, 2));
    for ([_]struct { []const u8, bool }{
        .{ "parquet-mr version 1.9.0 (build 0)", true },
        .{ "parquet-mr version 1.17.0 (build 0)", false },
        .{ "parquet-mr version 1.18.0 (build 0)", true },
        .{ "parquet-cpp-arrow version 26.0.1", true },
        .{ "DuckDB version v1.2.0 (build 0)", false },
        .{ "Polars (python) version 2.1.0", true },
    }) |case| {
        const origin: Origin = .{ .leaf = &leaf, .order = .type_defined, .writer = .parse(case[0]) };
        try testing.expectEqual(case[1], is_nan_possible(origin, piece, decode_pair(origin, piece)));
        try testing.expect(is_nan_possible(origin, .{}, .{}));
    }
}

test "columns of bounds" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const leaf = test_leaf(.byte_array, .none, .of(.utf8));
    const bounds = try build(arena.allocator(), test_origin(&leaf), &.{
        .{ .statistics = .{ .min = "apple", .max = "b", .min_exact = true, .null_count = 3 }, .value_count = 3 },
        .{ .statistics = .{ .min = "apple", .max = "b", .min_exact = true, .null_count = 2 }, .value_count = 3 },
        .{ .statistics = .{ .min = "c" } },
        .{ .statistics = .{ .max = "z\xFF", .max_exact = true, .null_count = 9 }, .value_count = 8 },
        .{ .all_null = true, .value_count = 7 },
        .{ .all_null = true },
    });
    const min_valid = [_]bool{ false, true, true, false, false, false };
    const max_valid = [_]bool{ false, true, false, true, false, false };
    const null_counts = [_]?i64{ 3, 2, null, null, 7, null };
    for (min_valid, max_valid, null_counts, 0..) |min, max, count, row| {
        try testing.expectEqual(min, bounds.min.is_valid(row));
        try testing.expectEqual(max, bounds.max.is_valid(row));
        try testing.expectEqual(count != null, bounds.null_count.is_valid(row));
        if (count) |value| try testing.expectEqual(value, bounds.null_count.values(i64)[row]);
        try testing.expect(!bitmap.get(bounds.nan_possible.data.ptr, row));
        try testing.expectEqual(row == 1, bitmap.get(bounds.min_exact.data.ptr, row));
        try testing.expect(!bitmap.get(bounds.max_exact.data.ptr, row)); // row 3 is no UTF-8
    }
    try testing.expectEqualStrings("apple", bounds.min.bytes_at(1));
    try testing.expectEqualStrings("b", bounds.max.bytes_at(1));
    try testing.expectEqualStrings("z\xFF", bounds.max.bytes_at(3));
}

test "NaN may hide above max, and exactness of numbers" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const leaf = test_leaf(.float, .none, .of(.f32));
    var pieces: [4]Evidence = @splat(range_of(@as(f32, 0), @as(f32, 2)));
    pieces[1].statistics.nan_count = 0;
    pieces[2].statistics.nan_count = 1;
    pieces[3].value_count = 4;
    pieces[3].statistics.null_count = 4;
    const bounds = try build(arena.allocator(), test_origin(&leaf), &pieces);
    try testing.expectEqual(0b0101, bounds.nan_possible.data[0]);
    try testing.expectEqual(0b0010, bounds.max_exact.data[0]);
    try testing.expectEqual(0, bounds.min_exact.data[0]); // a zero, of whichever sign
    try testing.expectEqualSlices(f32, &.{ 2, 2, 2, 0 }, bounds.max.values(f32));
    try testing.expectEqual(1, bounds.max.null_count());
    // Somebody unknown may have kept wider bounds, unless the file says they are exact.
    const integer = test_leaf(.int32, .none, .of(.i32));
    const unknown: Origin = .{ .leaf = &integer, .order = .type_defined, .writer = .{} };
    var wider = [_]Evidence{ range_of(@as(i32, 1), @as(i32, 2)), range_of(@as(i32, 1), @as(i32, 2)) };
    wider[1].statistics.max_exact = true;
    const exact = try build(arena.allocator(), unknown, &wider);
    wider[1].is_page = true;
    try testing.expectEqual(0, (try build(arena.allocator(), unknown, &wider)).max_exact.data[0]);
    try testing.expectEqual(0, exact.min_exact.data[0]);
    try testing.expectEqual(0b10, exact.max_exact.data[0]);
}

test "every type builds, at every length and without evidence" {
    const types = [_]DataType{
        .of(.bool),
        .of(.i8),
        .of(.i16),
        .of(.i32),
        .of(.i64),
        .of(.u8),
        .of(.u16),
        .of(.u32),
        .of(.u64),
        .of(.f16),
        .of(.f32),
        .of(.f64),
        .of(.date),
        .of(.time),
        .of(.utf8),
        .of(.binary),
        .of(.interval),
        .of(.null),
        .{ .tag = .decimal, .precision = 38 },
        .{ .tag = .fixed_binary, .width = 16 },
    };
    for (types) |data_type| {
        const leaf = test_leaf(.int32, .none, data_type);
        for ([_]usize{ 0, 1, 7, 8, 9, 100 }) |count| {
            var arena: Arena = .init(testing.allocator);
            defer arena.deinit();
            const pieces = try arena.allocator().alloc(Evidence, count);
            @memset(pieces, .{});
            const bounds = try build(arena.allocator(), test_origin(&leaf), pieces);
            try testing.expectEqual(count, bounds.min.null_count());
            try testing.expectEqual(count, bounds.max.null_count());
            try testing.expectEqual(count, bounds.null_count.null_count());
        }
    }
    const uuid: Leaf = .{
        .physical = .fixed_len_byte_array,
        .type_length = 2,
        .max_definition = 0,
        .max_repetition = 0,
        .type = .{ .tag = .fixed_binary, .width = 2 },
    };
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const bounds = try build(arena.allocator(), test_origin(&uuid), &.{ .{}, .{
        .statistics = .{ .min = "aa", .max = "bb" },
    } });
    try testing.expectEqualStrings("\x00\x00aa", bounds.min.data);
}
