//! Casts between numbers, decimals, bools, dates and timestamps; those of text are in cast_text.zig.
//!
//! What the casts do, as DuckDB 2.0 does it:
//!
//!     integer → integer   checked
//!     integer → float     rounded to the nearest
//!     float → integer     rounds half to even (2.5 → 2, -2.5 → -2), then checked; NaN, inf fail
//!     float → float       a finite value that would become infinite fails; NaN and inf pass
//!     bool ↔ number       true is 1; a number is true unless it is zero (NaN is true)
//!     decimal → decimal   rounds half away from zero (2.5 → 3), then |unscaled| < 10^precision
//!     integer → decimal   the same check
//!     decimal → integer   rounds half away from zero, then checked
//!     decimal → float     the float nearest to the quotient
//!     float → decimal     value times 10^scale as float64, rounds half away from zero, checked
//!     timestamp units     coarser: rounds half away from zero; finer: checked; ±infinity stays
//!     date → timestamp    checked against the range of microseconds, whatever the unit
//!     timestamp → date    rounds down
//!     timestamp → time    the rest, cut off at the unit; of infinity: none
//!
//! A value that fails is OutOfRange when `mode` is strict and NULL when it is try_cast. NULL rows
//! hold anything and never fail: a whole slice is converted in one pass that only notes whether any
//! row failed, and only then a second pass asks which, and whether they are valid. The output of a
//! row that is NULL is unspecified.
//!
//! `validity` is the input's, null when no row is NULL. `out_validity` is needed by try_cast only;
//! the caller has filled it with the input's validity, and failing rows are cleared. Functions that
//! take both return whether they cleared any.
const std = @import("std");
const bitmap = @import("../core/bitmap.zig");
const cast_decimal = @import("cast_decimal.zig");
const cast_text = @import("cast_text.zig");
const cast_time = @import("cast_time.zig");
const column_file = @import("../core/column.zig");
const interrupt = @import("../core/interrupt.zig");
const schema = @import("../core/schema.zig");
const Arena = @import("../core/arena.zig").Arena;
const Column = column_file.Column;
const DataType = schema.DataType;
const Scalar = schema.Scalar;
const assert = std.debug.assert;

pub const Mode = enum { strict, try_cast };
pub const Error = error{OutOfRange};
pub const ColumnError = error{ Cancelled, OutOfMemory, OutOfRange, NotSupported };

pub const decimal_to_float = cast_decimal.decimal_to_float;
pub const decimal_to_float_one = cast_decimal.decimal_to_float_one;
pub const float_to_decimal = cast_decimal.float_to_decimal;
pub const only_widens = cast_decimal.only_widens;
pub const powers_of_ten = cast_decimal.powers_of_ten;
pub const rescale = cast_decimal.rescale;
pub const date_to_timestamp = cast_time.date_to_timestamp;
pub const rescale_one = cast_time.rescale_one;
pub const rescale_time = cast_time.rescale_time;
pub const timestamp_to_date = cast_time.timestamp_to_date;
pub const timestamp_to_time = cast_time.timestamp_to_time;

const lanes = 16;

/// float16 as bits to float32, in lanes: exact. wasm has no instruction for it and the runtime's
/// routine takes one value at a time. The exponent is moved by a multiplication, which also turns
/// subnormal halves into the normal floats they are; infinities and NaNs get their exponent back.
pub inline fn widen_half(comptime n: comptime_int, bits: @Vector(n, u16)) @Vector(n, f32) {
    const W = @Vector(n, u32);
    const F = @Vector(n, f32);
    const wide: W = bits;
    const magnitude = (wide & @as(W, @splat(0x7FFF))) << @splat(13);
    const scaled = @as(F, @bitCast(magnitude)) * @as(F, @splat(0x1p112));
    const special = magnitude >= @as(W, @splat(0x7C00 << 13));
    const value = @select(u32, special, magnitude | @as(W, @splat(0x7F80_0000)), @as(W, @bitCast(scaled)));
    return @bitCast(value | ((wide & @as(W, @splat(0x8000))) << @splat(16)));
}

// Numbers.

pub fn cast_numeric(
    comptime From: type,
    comptime To: type,
    values: []const From,
    validity: ?[]const u8,
    out: []To,
    mode: Mode,
    out_validity: ?[]u8,
) Error!bool {
    assert(values.len == out.len);
    if (From == To) {
        @memcpy(out, values);
        return false;
    }
    if (convert_all(From, To, values, out)) return false;
    return settle(From, To, values, validity, mode, out_validity, {}, struct {
        fn fails(value: From, _: void) bool {
            return convert(From, To, value) == null;
        }
    }.fails);
}

/// Converts every row; false when some row does not fit (its output is unspecified).
fn convert_all(comptime From: type, comptime To: type, values: []const From, out: []To) bool {
    var i: usize = 0;
    var fits = true;
    if (comptime has_lanes(From, To)) {
        var bad: Flags(From) = @splat(0);
        while (i + lanes <= out.len) : (i += lanes) {
            const result, const failed = convert_lanes(From, To, values[i..][0..lanes].*);
            out[i..][0..lanes].* = result;
            bad |= failed;
        }
        fits = @reduce(.Or, bad) == 0;
    }
    while (i < out.len) : (i += 1) {
        const result = convert(From, To, values[i]);
        out[i] = result orelse 0;
        fits = fits and result != null;
    }
    return fits;
}

/// i128 has no lanes, and narrowing to float16 is a routine.
inline fn has_lanes(comptime From: type, comptime To: type) bool {
    return From != i128 and To != i128 and To != f16;
}

pub inline fn is_float(comptime T: type) bool {
    return @typeInfo(T) == .float;
}

/// Lanes that are not zero where a value failed. As wide as the values compared, so that a compare's
/// own result serves; vectors of bools carried around a loop would be packed and unpacked.
fn Flags(comptime From: type) type {
    return @Vector(lanes, @Int(.unsigned, @max(8, if (From == f16) 32 else @bitSizeOf(From))));
}

inline fn flag(comptime From: type, failed: @Vector(lanes, bool)) Flags(From) {
    const Bits = std.meta.Child(Flags(From));
    return @select(Bits, failed, @as(Flags(From), @splat(std.math.maxInt(Bits))), @as(Flags(From), @splat(0)));
}

inline fn convert_lanes(
    comptime From: type,
    comptime To: type,
    v: @Vector(lanes, From),
) struct { @Vector(lanes, To), Flags(From) } {
    const none: Flags(From) = @splat(0);
    if (From == f16) {
        const result, const failed = convert_lanes(f32, To, widen_half(lanes, @bitCast(v)));
        return .{ result, failed };
    }
    if (From == To) return .{ v, none };
    if (is_float(From) and is_float(To)) {
        const result: @Vector(lanes, To) = @floatCast(v);
        if (@bitSizeOf(To) > @bitSizeOf(From)) return .{ result, none };
        // Finite before and infinite now: the largest magnitude that still rounds to a number.
        const limit: @Vector(lanes, From) = @splat(overflow_bound(From, To));
        const inf: @Vector(lanes, From) = @splat(std.math.inf(From));
        return .{ result, flag(From, @abs(v) >= limit) & flag(From, @abs(v) != inf) };
    }
    if (is_float(From)) {
        const rounded = round_half_even(lanes, From, v);
        const low, const high = float_bounds(From, To);
        const good = flag(From, rounded >= @as(@Vector(lanes, From), @splat(low))) & flag(
            From,
            rounded < @as(@Vector(lanes, From), @splat(high)),
        );
        // A conversion out of range is undefined, so such lanes convert a zero instead.
        const safe: @Vector(lanes, From) = @bitCast(@as(Flags(From), @bitCast(rounded)) & good);
        return .{ @intFromFloat(safe), ~good };
    }
    if (is_float(To)) return .{ @floatFromInt(v), none };
    return convert_integers(From, To, v);
}

inline fn convert_integers(
    comptime From: type,
    comptime To: type,
    v: @Vector(lanes, From),
) struct { @Vector(lanes, To), Flags(From) } {
    const V = @Vector(lanes, From);
    const low = std.math.minInt(To);
    const high = std.math.maxInt(To);
    var bad: Flags(From) = @splat(0);
    if (low > std.math.minInt(From)) bad |= flag(From, v < @as(V, @splat(low)));
    if (high < std.math.maxInt(From)) bad |= flag(From, v > @as(V, @splat(high)));
    // Same signedness first, which truncates or extends without a check; then the bits as they are.
    const Resized = @Int(@typeInfo(From).int.signedness, @bitSizeOf(To));
    const result: @Vector(lanes, Resized) = if (@bitSizeOf(To) >= @bitSizeOf(From)) v else @truncate(v);
    return .{ @bitCast(result), bad };
}

/// The least magnitude that rounds to infinity: half a step above the greatest number.
fn overflow_bound(comptime From: type, comptime To: type) From {
    const digits = std.math.floatMantissaBits(To) + 1;
    const step = std.math.ldexp(@as(From, 1), std.math.floatExponentMax(To) - digits);
    return @as(From, std.math.floatMax(To)) + step;
}

/// To the nearest integer, ties to the even one. Adding 2^52 (2^23) leaves no room for a fraction,
/// and the addition itself rounds ties to even; larger values are integers already.
inline fn round_half_even(comptime n: comptime_int, comptime F: type, v: @Vector(n, F)) @Vector(n, F) {
    const big: @Vector(n, F) = @splat(1 << std.math.floatMantissaBits(F));
    const signed_big = @select(F, v < @as(@Vector(n, F), @splat(0)), -big, big);
    return @select(F, @abs(v) < big, (v + signed_big) - signed_big, v);
}

/// Low is in, high is out. Powers of two, so they are exact floats.
inline fn float_bounds(comptime F: type, comptime To: type) struct { F, F } {
    const info = @typeInfo(To).int;
    const signed = info.signedness == .signed;
    const high = comptime std.math.ldexp(@as(F, 1), info.bits - @intFromBool(signed));
    // DuckDB makes no -2^127 from a float.
    if (To == i128) return .{ comptime std.math.nextAfter(F, -high, 0), high };
    return .{ if (signed) -high else 0, high };
}

/// One value; null when it does not fit.
fn convert(comptime From: type, comptime To: type, value: From) ?To {
    if (From == f16) return convert(f32, To, widen_half(1, .{@as(u16, @bitCast(value))})[0]);
    if (From == To) return value;
    if (is_float(From) and is_float(To)) {
        const result: To = @floatCast(value);
        return if (std.math.isInf(result) and !std.math.isInf(value)) null else result;
    }
    if (is_float(From)) {
        const rounded = round_half_even(1, From, @splat(value))[0];
        const low, const high = float_bounds(From, To);
        if (!(rounded >= low and rounded < high)) return null;
        return @intFromFloat(rounded);
    }
    if (is_float(To)) {
        const result: To = @floatFromInt(value);
        return if (To == f16 and std.math.isInf(result)) null else result;
    }
    return std.math.cast(To, value);
}

/// Some row failed: finds the valid ones among them, to refuse or to clear.
pub fn settle(
    comptime From: type,
    comptime To: type,
    values: []const From,
    validity: ?[]const u8,
    mode: Mode,
    out_validity: ?[]u8,
    context: anytype,
    comptime fails: fn (From, @TypeOf(context)) bool,
) Error!bool {
    @branchHint(.cold);
    var cleared = false;
    for (values, 0..) |value, row| {
        if (validity) |bits| if (!bitmap.get(bits.ptr, row)) continue;
        if (!fails(value, context)) continue;
        switch (mode) {
            .strict => return refuse(From, value, @typeName(To)),
            .try_cast => bitmap.clear(out_validity.?.ptr, row),
        }
        cleared = true;
    }
    return cleared;
}

/// Widens the value, so that the formatting exists once for integers and once for floats.
pub fn refuse(comptime From: type, value: From, target: []const u8) Error {
    @branchHint(.cold);
    if (comptime is_float(From)) describe_float(value, target) else describe_integer(value, target);
    return error.OutOfRange;
}

fn describe_integer(value: i128, target: []const u8) void {
    interrupt.describe("the value {d} is out of range for {s}", .{ value, target });
}

fn describe_float(value: f64, target: []const u8) void {
    interrupt.describe("the value {e} is out of range for {s}", .{ value, target });
}

/// Packed bools to 0 and 1.
pub fn bits_to_numeric(comptime To: type, bits: []const u8, out: []To) void {
    assert(bits.len >= bitmap.size(out.len));
    for (out, 0..) |*to, row| to.* = @intFromBool(bitmap.get(bits.ptr, row));
}

/// A bit for each value that is not zero. Writes whole bytes; bits past the last row are zero.
pub fn numeric_to_bits(comptime From: type, values: []const From, out: []u8) void {
    assert(out.len >= bitmap.size(values.len));
    var row: usize = 0;
    while (row < values.len) : (row += 8) {
        var byte: u8 = 0;
        for (values[row..@min(values.len, row + 8)], 0..) |value, bit| {
            byte |= @as(u8, @intFromBool(value != 0)) << @intCast(bit);
        }
        out[row / 8] = byte;
    }
}

// Columns.

/// `column` as a column of type `to`. Equal types give the column itself, other results live in
/// `arena`. Nested types, and timestamps that would need a time zone are NotSupported.
pub fn cast_column(arena: std.mem.Allocator, column: *const Column, to: DataType, mode: Mode) ColumnError!Column {
    if (column.type.eql(to)) return column.*;
    if (column.type.tag == .null) return null_column(arena, to, column.row_count);
    if (to.tag == .utf8 and cast_text.is_printable(column.type)) return cast_text.to_text(arena, column);
    if (column.type.tag == .utf8 and cast_text.is_printable(to)) return cast_text.from_text(arena, column, to, mode);
    const from_kind = kind_of(column.type);
    const to_kind = kind_of(to);
    if (!is_supported(column.type, to)) {
        interrupt.describe("cast from {s} to {s}", .{ @tagName(column.type.tag), @tagName(to.tag) });
        return error.NotSupported;
    }
    var result: Column = .{ .type = to, .row_count = column.row_count, .validity = column.validity };
    if (only_renames(column.type, to)) {
        result.data = column.data;
        return result;
    }
    const data = try allocate_data(arena, to, column.row_count);
    result.data = data;
    const rows: Rows = .{ .column = column, .mode = mode, .out_validity = try copy_validity(arena, column, mode) };
    const cleared = if (from_kind == .moment or to_kind == .moment)
        try cast_moments(&rows, to, data)
    else
        try cast_numbers(&rows, to, data);
    if (cleared) result.validity = rows.out_validity;
    return result;
}

const Kind = enum { number, moment, other };

fn kind_of(data_type: DataType) Kind {
    return switch (data_type.tag) {
        .bool, .i8, .i16, .i32, .i64, .i128, .u8, .u16, .u32, .u64, .f16, .f32, .f64, .decimal => .number,
        .date, .time, .timestamp => .moment,
        .utf8, .binary, .null, .fixed_binary, .interval, .f32vec, .f16vec, .list, .structure, .map => .other,
    };
}

fn is_supported(from: DataType, to: DataType) bool {
    if (kind_of(from) != kind_of(to) or kind_of(to) == .other) return false;
    if (kind_of(to) == .number) return true;
    if (to.tag == .time and from.tag == .timestamp) return is_local(from);
    if ((from.tag == .time) != (to.tag == .time)) return false;
    // Without a zone's rules only UTC can become local time, or the other way round.
    return is_local(from) == is_local(to) or is_utc(from) or is_utc(to);
}

fn is_local(data_type: DataType) bool {
    return data_type.zone.len == 0;
}

fn is_utc(data_type: DataType) bool {
    return std.mem.eql(u8, data_type.zone, "UTC");
}

/// Timestamps of one unit differ in the zone they are shown in, not in their values.
fn only_renames(from: DataType, to: DataType) bool {
    if (from.tag != to.tag) return false;
    if (to.tag == .decimal) {
        return from.layout() == to.layout() and from.scale == to.scale and from.precision <= to.precision;
    }
    return kind_of(to) == .moment and from.unit == to.unit;
}

/// What stays the same for all blocks of one cast.
const Rows = struct {
    column: *const Column,
    mode: Mode,
    out_validity: ?[]u8,

    /// Bitmaps of the rows from `start` on, which is a multiple of 8.
    fn validity_at(self: *const Rows, start: usize) ?[]const u8 {
        const bits = self.column.validity orelse return null;
        return bits[start / 8 ..];
    }

    fn out_validity_at(self: *const Rows, start: usize) ?[]u8 {
        const bits = self.out_validity orelse return null;
        return bits[start / 8 ..];
    }
};

fn copy_validity(arena: std.mem.Allocator, column: *const Column, mode: Mode) error{OutOfMemory}!?[]u8 {
    if (mode == .strict) return null;
    const size = bitmap.size(column.row_count);
    const bits = try arena.alignedAlloc(u8, .@"16", size);
    if (column.validity) |validity| @memcpy(bits, validity[0..size]) else @memset(bits, 0xFF);
    return bits;
}

fn allocate_data(
    arena: std.mem.Allocator,
    data_type: DataType,
    row_count: u32,
) error{OutOfMemory}![]align(column_file.alignment) u8 {
    const size = if (data_type.layout() == .bits) bitmap.size(row_count) else data_type.value_size() * row_count;
    return arena.alignedAlloc(u8, .@"16", std.math.cast(usize, size) orelse return error.OutOfMemory);
}

/// Every value NULL; what lies under them is zero.
fn null_column(arena: std.mem.Allocator, data_type: DataType, row_count: u32) error{OutOfMemory}!Column {
    var result: Column = .{ .type = data_type, .row_count = row_count };
    if (data_type.tag == .null) return result;
    const validity = try arena.alignedAlloc(u8, .@"16", bitmap.size(row_count));
    @memset(validity, 0);
    result.validity = validity;
    switch (data_type.layout()) {
        .bytes => result.offsets = try zero_offsets(arena, row_count),
        .list => {
            result.offsets = try zero_offsets(arena, row_count);
            const child = if (data_type.tag == .map)
                column_file.map_entries_type(data_type)
            else
                data_type.children[0].type;
            const children = try arena.alloc(Column, 1);
            children[0] = try null_column(arena, child, 0);
            result.children = children;
        },
        .structure => {
            const children = try arena.alloc(Column, data_type.children.len);
            for (children, data_type.children) |*child, field| child.* = try null_column(arena, field.type, row_count);
            result.children = children;
        },
        else => {
            const data = try allocate_data(arena, data_type, row_count);
            @memset(data, 0);
            result.data = data;
        },
    }
    return result;
}

fn zero_offsets(arena: std.mem.Allocator, row_count: u32) error{OutOfMemory}![]const u32 {
    const offsets = try arena.alloc(u32, @as(usize, row_count) + 1);
    @memset(offsets, 0);
    return offsets;
}

fn typed(comptime T: type, data: []align(column_file.alignment) u8, row_count: usize) []T {
    const pointer: [*]T = @ptrCast(@alignCast(data.ptr));
    return pointer[0..row_count];
}

fn cast_moments(rows: *const Rows, to: DataType, data: []align(column_file.alignment) u8) Error!bool {
    const column = rows.column;
    const validity = column.validity;
    const from = column.type;
    if (to.tag == .date) {
        return timestamp_to_date(
            column.values(i64),
            from.unit,
            validity,
            typed(i32, data, column.row_count),
            rows.mode,
            rows.out_validity,
        );
    }
    const out = typed(i64, data, column.row_count);
    if (to.tag == .time and from.tag == .timestamp)
        return timestamp_to_time(column.values(i64), from.unit, to.unit, validity, out, rows.mode, rows.out_validity);
    if (from.tag == .date)
        return date_to_timestamp(column.values(i32), to.unit, validity, out, rows.mode, rows.out_validity);
    return rescale_time(column.values(i64), from.unit, to.unit, validity, out, rows.mode, rows.out_validity);
}

/// Rows of one block: its values, widened, stay in the first level of cache.
const block_rows = 256;

/// A cast is two steps, each of few kinds, instead of one of every pair of types (which would be
/// a hundred loops): widen to a hub without loss, then narrow to the target with checks.
fn cast_numbers(rows: *const Rows, to: DataType, data: []align(column_file.alignment) u8) Error!bool {
    const from = rows.column.type;
    return switch (from.layout()) {
        .i128 => cast_from_hub(i128, rows, to, data),
        .u64 => cast_from_hub(u64, rows, to, data),
        .f16, .f32, .f64 => cast_from_hub(f64, rows, to, data),
        .bits, .i8, .i16, .i32, .i64, .u8, .u16, .u32 => cast_from_hub(i64, rows, to, data),
        .none, .bytes, .fixed, .list, .structure => unreachable,
    };
}

fn cast_from_hub(
    comptime Hub: type,
    rows: *const Rows,
    to: DataType,
    data: []align(column_file.alignment) u8,
) Error!bool {
    var buffer: [block_rows]Hub align(16) = undefined;
    const row_count = rows.column.row_count;
    var cleared = false;
    var start: usize = 0;
    while (start < row_count) : (start += block_rows) {
        const count = @min(row_count - start, block_rows);
        const block = widen_block(Hub, rows.column, start, buffer[0..count]);
        cleared = (try narrow_block(Hub, block, rows, start, to, data)) or cleared;
    }
    return cleared;
}

fn widen_block(comptime Hub: type, column: *const Column, start: usize, buffer: []Hub) []const Hub {
    switch (column.type.layout()) {
        .bits => if (Hub == i64) bits_to_numeric(i64, column.data[start / 8 ..], buffer) else unreachable,
        inline .i8, .i16, .i32, .i64, .u8, .u16, .u32, .u64, .i128, .f16, .f32, .f64 => |layout| {
            const From = Scalar(layout);
            const values = column.values(From)[start..][0..buffer.len];
            if (From == Hub) return values;
            if (comptime hub_of(From) == Hub) assert(convert_all(From, Hub, values, buffer)) else unreachable;
        },
        .none, .bytes, .fixed, .list, .structure => unreachable,
    }
    return buffer;
}

fn hub_of(comptime From: type) type {
    if (From == i128 or From == u64) return From;
    return if (is_float(From)) f64 else i64;
}

fn narrow_block(
    comptime Hub: type,
    block: []const Hub,
    rows: *const Rows,
    start: usize,
    to: DataType,
    data: []align(column_file.alignment) u8,
) Error!bool {
    const from = rows.column.type;
    if (to.tag == .bool) {
        // Bytes of the bitmap: blocks start at multiples of 8.
        numeric_to_bits(Hub, block, data[start / 8 ..]);
        return false;
    }
    if (to.tag == .decimal) return switch (to.layout()) {
        inline .i64, .i128 => |layout| block_to_decimal(Hub, Scalar(layout), block, rows, start, to, data),
        else => unreachable,
    };
    if (from.tag == .decimal and (Hub == i64 or Hub == i128))
        return block_from_decimal(Hub, block, rows, start, to, data);
    return block_to_number(Hub, block, rows, start, to, data);
}

fn block_to_decimal(
    comptime Hub: type,
    comptime To: type,
    block: []const Hub,
    rows: *const Rows,
    start: usize,
    to: DataType,
    data: []align(column_file.alignment) u8,
) Error!bool {
    const out = typed(To, data, rows.column.row_count)[start..][0..block.len];
    const validity = rows.validity_at(start);
    const out_validity = rows.out_validity_at(start);
    if (Hub == f64) return float_to_decimal(To, block, to.scale, validity, out, to.precision, rows.mode, out_validity);
    const from = rows.column.type;
    const from_scale: i16 = if (from.tag == .decimal) from.scale else 0;
    return rescale(Hub, To, block, to.scale - from_scale, validity, out, to.precision, rows.mode, out_validity);
}

/// Two steps again: to float64, or rounded to a whole number, and from there on to the target.
fn block_from_decimal(
    comptime Hub: type,
    block: []const Hub,
    rows: *const Rows,
    start: usize,
    to: DataType,
    data: []align(column_file.alignment) u8,
) Error!bool {
    const scale = rows.column.type.scale;
    if (is_float_tag(to.tag)) {
        var floats: [block_rows]f64 = undefined;
        decimal_to_float(Hub, block, scale, floats[0..block.len]);
        return block_to_number(f64, floats[0..block.len], rows, start, to, data);
    }
    var whole: [block_rows]Hub = undefined;
    const out = whole[0..block.len];
    const cleared = try rescale(Hub, Hub, block, -@as(
        i16,
        scale,
    ), rows.validity_at(start), out, 0, rows.mode, rows.out_validity_at(start));
    return (try block_to_number(Hub, out, rows, start, to, data)) or cleared;
}

fn is_float_tag(tag: schema.TypeTag) bool {
    return tag == .f16 or tag == .f32 or tag == .f64;
}

fn block_to_number(
    comptime Hub: type,
    block: []const Hub,
    rows: *const Rows,
    start: usize,
    to: DataType,
    data: []align(column_file.alignment) u8,
) Error!bool {
    switch (to.layout()) {
        inline .i8, .i16, .i32, .i64, .u8, .u16, .u32, .u64, .i128, .f16, .f32, .f64 => |layout| {
            const To = Scalar(layout);
            const out = typed(To, data, rows.column.row_count)[start..][0..block.len];
            return cast_numeric(Hub, To, block, rows.validity_at(start), out, rows.mode, rows.out_validity_at(start));
        },
        .none, .bits, .bytes, .fixed, .list, .structure => unreachable,
    }
}

const testing = std.testing;

test "widen_half agrees with the compiler for every half" {
    for (0..1 << 12) |block| {
        var bits: [16]u16 = undefined;
        for (&bits, block * 16..) |*b, i| b.* = @intCast(i);
        const got: [16]f32 = widen_half(16, bits);
        for (got, bits) |value, b| {
            const half: f16 = @bitCast(b);
            const wanted: f32 = half;
            if (std.math.isNan(wanted)) try testing.expect(std.math.isNan(value)) else try testing.expectEqual(
                wanted,
                value,
            );
        }
    }
}

const number_types = .{ i8, i16, i32, i64, i128, u8, u16, u32, u64, f16, f32, f64 };

fn random_number(comptime T: type, random: std.Random) T {
    if (@typeInfo(T) == .int) return switch (random.uintLessThan(u8, 6)) {
        0 => std.math.minInt(T),
        1 => std.math.maxInt(T),
        2 => random.int(T),
        3 => random.int(T) >> (@bitSizeOf(T) / 2),
        else => random.int(u7),
    };
    return switch (random.uintLessThan(u8, 10)) {
        0 => std.math.inf(T),
        1 => -std.math.nan(T),
        2 => @floatCast(@as(f64, @floatFromInt(random.int(i8))) + 0.5),
        3 => std.math.floatMax(T),
        4 => @floatCast(std.math.clamp(@as(f64, @floatFromInt(random.int(i64))), -60000, 60000)),
        else => @floatCast(random.floatNorm(f64) * 40),
    };
}

/// Independent of the code above: wide floats, and the language's own rounding.
fn expected_number(comptime From: type, comptime To: type, value: From) ?To {
    if (@typeInfo(From) == .int and @typeInfo(To) == .int) return std.math.cast(To, value);
    if (@typeInfo(From) == .int) {
        const result: To = @floatFromInt(value);
        return if (std.math.isInf(result)) null else result;
    }
    if (@typeInfo(To) == .float) {
        const result: To = @floatCast(value);
        return if (std.math.isInf(result) and !std.math.isInf(value)) null else result;
    }
    const wide: f128 = value;
    if (std.math.isNan(wide) or @abs(wide) >= 0x1p127) return null;
    const down: i128 = @intFromFloat(@floor(wide));
    const rest = wide - @floor(wide);
    const whole = if (rest > 0.5 or (rest == 0.5 and @mod(down, 2) == 1)) down + 1 else down;
    return std.math.cast(To, whole);
}

fn expect_number(comptime T: type, wanted: T, got: T) !void {
    if (@typeInfo(T) == .float and std.math.isNan(wanted)) return testing.expect(std.math.isNan(got));
    try testing.expectEqual(wanted, got);
}

fn check_cast(comptime From: type, comptime To: type, values: []const From, validity: ?[]const u8) !void {
    var out: [100]To = undefined;
    var out_validity: [13]u8 = @splat(0xFF);
    if (validity) |bits| @memcpy(out_validity[0..bits.len], bits);
    const cleared = try cast_numeric(From, To, values, validity, out[0..values.len], .try_cast, &out_validity);
    var any_failed = false;
    for (values, 0..) |value, row| {
        const is_valid = if (validity) |bits| bitmap.get(bits.ptr, row) else true;
        const wanted = expected_number(From, To, value);
        try testing.expectEqual(is_valid and wanted != null, bitmap.get(&out_validity, row));
        if (!is_valid) continue;
        if (wanted) |number| try expect_number(To, number, out[row]) else any_failed = true;
    }
    try testing.expectEqual(any_failed, cleared);
    const strict = cast_numeric(From, To, values, validity, out[0..values.len], .strict, null);
    if (any_failed) try testing.expectError(error.OutOfRange, strict) else try testing.expect(!try strict);
}

test "cast_numeric: every pair of types" {
    defer interrupt.forget();
    var prng: std.Random.DefaultPrng = .init(31);
    const random = prng.random();
    inline for (number_types) |From| inline for (number_types) |To| {
        for ([_]usize{ 0, 1, 15, 16, 17, 33, 100 }) |length| {
            var values: [100]From = undefined;
            for (&values) |*value| value.* = random_number(From, random);
            var validity: [13]u8 = undefined;
            random.bytes(&validity);
            try check_cast(From, To, values[0..length], null);
            try check_cast(From, To, values[0..length], validity[0..bitmap.size(length)]);
            // Small whole numbers fit everywhere, so that the pass without failures is met too.
            for (&values) |*value|
                value.* = if (@typeInfo(From) == .float) @floatFromInt(random.int(u7)) else random.int(u7);
            try check_cast(From, To, values[0..length], null);
        }
    };
}

fn expect_cast(comptime From: type, comptime To: type, value: From, wanted: ?To) !void {
    var out: [17]To = undefined;
    const values: [17]From = @splat(value); // lanes and the tail after them
    const result = cast_numeric(From, To, &values, null, &out, .strict, null);
    if (wanted) |number| {
        try testing.expect(!try result);
        for (out) |got| try testing.expectEqual(number, got);
    } else try testing.expectError(error.OutOfRange, result);
}

test "cast_numeric: edges as DuckDB answers them" {
    defer interrupt.forget();
    try expect_cast(f64, i32, 2.5, 2);
    try expect_cast(f64, i32, 3.5, 4);
    try expect_cast(f64, i32, -2.5, -2);
    try expect_cast(f64, i32, 0.49999999999999994, 0);
    try expect_cast(f64, i8, 127.4, 127);
    try expect_cast(f64, i8, 127.5, null);
    try expect_cast(f64, i8, -128.5, -128);
    try expect_cast(f64, i8, -128.6, null);
    try expect_cast(f64, u8, -0.5, 0);
    try expect_cast(f64, u8, -0.6, null);
    try expect_cast(f64, u8, 255.5, null);
    try expect_cast(f64, i64, 9223372036854775808.0, null);
    try expect_cast(f64, i64, 9223372036854774784.0, 9223372036854774784);
    try expect_cast(f64, i64, -9223372036854775808.0, std.math.minInt(i64));
    try expect_cast(f64, i128, -0x1p127, null);
    try expect_cast(f64, i128, 1.7e38, 169999999999999998061923293023115935744);
    try expect_cast(f64, f32, 1e39, null);
    try expect_cast(f64, f32, 3.4028235e38, 3.4028235e38);
    try expect_cast(f64, f32, 3.4028235677973366e38, null);
    try expect_cast(f64, f32, std.math.inf(f64), std.math.inf(f32));
    try expect_cast(f64, f32, 1e-50, 0);
    try expect_cast(i64, f32, 16777217, 16777216);
    const detail = &interrupt.control.detail;
    try expect_cast(i32, i8, 300, null);
    try testing.expectEqualStrings("the value 300 is out of range for i8", detail.message[0..detail.message_size]);
}

test "bits and numbers" {
    var out: [10]i16 = undefined;
    bits_to_numeric(i16, &.{ 0b1010_0001, 0b10 }, &out);
    try testing.expectEqualSlices(i16, &.{ 1, 0, 0, 0, 0, 1, 0, 1, 0, 1 }, &out);
    var bits: [2]u8 = undefined;
    numeric_to_bits(f64, &.{ 0.1, -0.0, std.math.nan(f64), 0, 0, 0, 0, 1, 2 }, &bits);
    try testing.expectEqualSlices(u8, &.{ 0b1000_0101, 1 }, &bits);
}

/// In 300 bits nothing overflows.
fn make_column(comptime T: type, data_type: DataType, values: []align(16) const T, validity: ?[]const u8) Column {
    return .{
        .type = data_type,
        .row_count = @intCast(values.len),
        .data = std.mem.sliceAsBytes(values),
        .validity = validity,
    };
}

fn decimal(precision: u8, scale: i8) DataType {
    return .{ .tag = .decimal, .precision = precision, .scale = scale };
}

test "cast_column: numbers, bools and decimals" {
    defer interrupt.forget();
    var arena_state: Arena = .init(testing.allocator);
    defer arena_state.deinit();
    const arena = arena_state.allocator();

    const shorts: [4]i16 align(16) = .{ 5, -300, 0, 99 };
    const column = make_column(i16, .of(.i16), &shorts, &.{0b1101});
    const same = try cast_column(arena, &column, .of(.i16), .strict);
    try testing.expectEqual(column.data.ptr, same.data.ptr);
    const doubles = try cast_column(arena, &column, .of(.f64), .strict);
    try testing.expectEqualSlices(f64, &.{ 5, -300, 0, 99 }, doubles.values(f64));
    // -300 is NULL, so it does not matter that it does not fit.
    const bytes = try cast_column(arena, &column, .of(.u8), .strict);
    try testing.expectEqual(99, bytes.values(u8)[3]);
    const bools = try cast_column(arena, &column, .of(.bool), .strict);
    try testing.expectEqual(0b1001, bools.data[0] & 0b1101);
    const back = try cast_column(arena, &bools, decimal(4, 2), .strict);
    try testing.expectEqual(100, back.values(i64)[0]);
    const money = try cast_column(arena, &column, decimal(30, 2), .strict);
    try testing.expectEqual(9900, money.values(i128)[3]);
    const narrow_money = try cast_column(arena, &money, decimal(3, 1), .strict);
    try testing.expectEqual(990, narrow_money.values(i64)[3]);
    try testing.expectError(error.OutOfRange, cast_column(arena, &money, decimal(3, 2), .strict));
    const tried = try cast_column(arena, &money, decimal(3, 2), .try_cast);
    try testing.expectEqual(0b0101, tried.validity.?[0] & 0b1111);
    try testing.expectEqual(500, tried.values(i64)[0]);
}

test "cast_column: decimals to numbers, halves, blocks" {
    defer interrupt.forget();
    var arena_state: Arena = .init(testing.allocator);
    defer arena_state.deinit();
    const arena = arena_state.allocator();

    const tenths: [5]i64 align(16) = .{ 25, 35, -25, 24, 2555 };
    const column = make_column(i64, decimal(5, 1), &tenths, null);
    const whole = try cast_column(arena, &column, .of(.i32), .strict);
    try testing.expectEqualSlices(i32, &.{ 3, 4, -3, 2, 256 }, whole.values(i32));
    try testing.expectError(error.OutOfRange, cast_column(arena, &column, .of(.i8), .strict));
    const singles = try cast_column(arena, &column, .of(.f32), .strict);
    try testing.expectEqualSlices(f32, &.{ 2.5, 3.5, -2.5, 2.4, 255.5 }, singles.values(f32));
    const halves = try cast_column(arena, &column, .of(.f16), .strict);
    const from_halves = try cast_column(arena, &halves, decimal(5, 1), .strict);
    try testing.expectEqualSlices(i64, &tenths, from_halves.values(i64));

    var many: [1000]i32 align(16) = undefined;
    for (&many, 0..) |*value, i| value.* = @intCast(i);
    const longer = make_column(i32, .of(.i32), &many, null);
    const tried = try cast_column(arena, &longer, .of(.i8), .try_cast);
    try testing.expectEqual(1000 - 128, tried.null_count());
    for (0..128) |i| try testing.expect(tried.is_valid(i) and tried.values(i8)[i] == i);
    const bits = try cast_column(arena, &longer, .of(.bool), .strict);
    for (0..1000) |i| try testing.expectEqual(i != 0, bitmap.get(bits.data.ptr, i));
    const again = try cast_column(arena, &bits, .of(.u64), .strict);
    try testing.expectEqual(0, again.values(u64)[0]);
    try testing.expectEqual(1, again.values(u64)[999]);
}

test "cast_column: moments, NULL, and what it refuses" {
    defer interrupt.forget();
    var arena_state: Arena = .init(testing.allocator);
    defer arena_state.deinit();
    const arena = arena_state.allocator();

    const days: [2]i32 align(16) = .{ 18262, -1 };
    const dates = make_column(i32, .of(.date), &days, null);
    const stamps = try cast_column(arena, &dates, .{ .tag = .timestamp, .unit = .millisecond }, .strict);
    try testing.expectEqualSlices(i64, &.{ 1_577_836_800_000, -86_400_000 }, stamps.values(i64));
    const back = try cast_column(arena, &stamps, .of(.date), .strict);
    try testing.expectEqualSlices(i32, &days, back.values(i32));
    const utc = try cast_column(arena, &stamps, .{ .tag = .timestamp, .unit = .millisecond, .zone = "UTC" }, .strict);
    try testing.expectEqual(stamps.data.ptr, utc.data.ptr);
    const finer =
        try cast_column(arena, &utc, .{ .tag = .timestamp, .unit = .nanosecond, .zone = "Europe/Berlin" }, .strict);
    try testing.expectEqual(-86_400_000_000_000, finer.values(i64)[1]);
    // Berlin's local time needs Berlin's rules.
    try testing.expectError(error.NotSupported, cast_column(arena, &finer, .of(.date), .strict));
    try testing.expectError(error.NotSupported, cast_column(arena, &dates, .of(.i32), .strict));
    try testing.expectError(error.NotSupported, cast_column(arena, &dates, .of(.binary), .strict));

    const nothing: Column = .{ .type = .of(.null), .row_count = 9 };
    const types = [_]DataType{
        .of(.i64),
        .of(.bool),
        .of(.utf8),
        .{ .tag = .list, .children = &.{.{ .name = "item", .type = .of(.utf8) }} },
        decimal(30, 2),
        .{ .tag = .structure, .children = &.{.{ .name = "a", .type = .of(.f32) }} },
        .{ .tag = .fixed_binary, .width = 3 },
        .{
            .tag = .map,
            .children = &.{ .{ .name = "key", .type = .of(.utf8) }, .{ .name = "value", .type = .of(.i8) } },
        },
    };
    for (types) |data_type| {
        const nulls = try cast_column(arena, &nothing, data_type, .strict);
        try testing.expectEqual(9, nulls.null_count());
        try testing.expect(nulls.type.eql(data_type));
        if (data_type.layout() == .structure) try testing.expectEqual(9, nulls.children[0].row_count);
        if (data_type.layout() == .bytes or data_type.layout() == .list) try testing.expectEqual(10, nulls.offsets.len);
    }
}
