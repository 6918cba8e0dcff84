//! How keys become words, and when two rows have the same keys.
//!
//! Keys of fixed size are put side by side into one or two words of 64 bits, integers as their bits, floats
//! as bits with one zero and one NaN. A text among several keys takes a word: up to seven bytes and their
//! number. Which keys are NULL is said beside the words.
const std = @import("std");
const bitmap = @import("../core/bitmap.zig");
const column_module = @import("../core/column.zig");
const equal_bytes = @import("../kernel/compare.zig").equal_bytes;
const hash = @import("../kernel/hash.zig");
const interval_module = @import("../core/interval.zig");
const rows_module = @import("rows.zig");
const schema = @import("../core/schema.zig");
const Column = column_module.Column;
const ColumnBuilder = @import("../core/column_builder.zig").ColumnBuilder;
const DataType = schema.DataType;
const Interval = interval_module.Interval;
const Rows = rows_module.Rows;
const Span = interval_module.Span;
const assert = std.debug.assert;

/// Bytes of a text that fit a word with their number.
const packed_text_max = 7;
/// Flags of NULL keys are a u32.
const packed_keys_max = 32;

/// Where a key goes: which word, from which bit on.
const Place = struct { word: u1, shift: u6 };

pub const Form = enum {
    /// One key that is an integer of up to 64 bits.
    integer,
    word,
    pair,
    /// One key that is a text.
    text,
    /// They do not fit two words.
    none,
};

pub const Words = struct {
    a: []const u64,
    /// Pairs only.
    b: []const u64 = &.{},
    /// Bit i: key i is NULL. null: none is.
    flags: ?[]const u32 = null,
    /// A text does not fit: the words mean nothing.
    too_long: bool = false,
};

pub const Packing = struct {
    form: Form,
    places: []const Place,
    /// Some word is a packed text, or the key is one.
    has_text: bool,

    pub fn init(gpa: std.mem.Allocator, types: []const DataType) error{OutOfMemory}!Packing {
        const places = try gpa.alloc(Place, types.len);
        var self: Packing = .{ .form = .none, .places = places, .has_text = false };
        for (types) |data_type| self.has_text = self.has_text or data_type.layout() == .bytes;
        if (types.len == 1) {
            places[0] = .{ .word = 0, .shift = 0 };
            self.form = single_form(types[0]);
            return self;
        }
        if (types.len > packed_keys_max) return self;
        var used = [2]u8{ 0, 0 };
        for (places, types) |*place, data_type| {
            const size = bit_count(data_type) orelse return self;
            const word: u1 = if (used[0] + size <= 64) 0 else 1;
            if (used[word] + size > 64) return self;
            place.* = .{ .word = word, .shift = @truncate(used[word]) };
            used[word] += size;
        }
        // A text of more than 7 bytes does not fit its word, which only a table of pairs can notice.
        self.form = if (used[1] == 0 and !self.has_text) .word else .pair;
        return self;
    }

    pub fn deinit(self: *const Packing, gpa: std.mem.Allocator) void {
        gpa.free(self.places);
    }

    /// The keys of the chosen rows as words. A key that is alone is not NULL in any of them.
    pub fn words(
        self: *const Packing,
        arena: std.mem.Allocator,
        columns: []const Column,
        rows: *const Rows,
    ) error{OutOfMemory}!Words {
        if (columns.len == 1 and self.form == .pair) return wide_words(arena, &columns[0], rows);
        if (self.form == .integer) return .{ .a = @ptrCast(try rows_module.integers(arena, &columns[0], rows, 0)) };
        const count = rows.count();
        const a = try arena.alloc(u64, count);
        @memset(a, 0);
        const b = try arena.alloc(u64, if (self.form == .pair) count else 0);
        @memset(b, 0);
        var result: Words = .{ .a = a, .b = b };
        var flags: ?[]u32 = null;
        for (columns, self.places, 0..) |*column, place, index| {
            if (column.validity != null or column.type.tag == .null) {
                if (flags == null) {
                    flags = try arena.alloc(u32, count);
                    @memset(flags.?, 0);
                }
                flag_nulls(flags.?, column, rows, @intCast(index));
            }
            if (!try add_word(arena, column, rows, if (place.word == 0) a else b, place.shift)) result.too_long = true;
        }
        result.flags = flags;
        return result;
    }
};

fn single_form(data_type: DataType) Form {
    return switch (data_type.layout()) {
        .bits, .i8, .i16, .i32, .i64, .u8, .u16, .u32, .u64 => .integer,
        .f16, .f32, .f64, .none => .word,
        .i128 => .pair,
        .bytes => .text,
        .fixed => if (data_type.tag == .fixed_binary and data_type.width <= 16) .pair else .none,
        .list, .structure => .none,
    };
}

/// Bits of a key beside others; null when it does not fit a word.
fn bit_count(data_type: DataType) ?u8 {
    return switch (data_type.layout()) {
        .none => 0,
        .bits, .i8, .u8 => 8,
        .i16, .u16, .f16 => 16,
        .i32, .u32, .f32 => 32,
        .i64, .u64, .f64, .bytes => 64,
        .i128, .list, .structure => null,
        .fixed => if (data_type.tag == .fixed_binary and data_type.width <= 8) @intCast(data_type.width * 8) else null,
    };
}

fn flag_nulls(flags: []u32, column: *const Column, rows: *const Rows, index: u5) void {
    for (flags, 0..) |*flag, i| {
        const row = if (rows.rows) |chosen| chosen[i] else i;
        flag.* |= @as(u32, @intFromBool(!column.is_valid(row))) << index;
    }
}

/// Adds a key to the words, 0 where it is NULL; false when a text is too long.
fn add_word(
    arena: std.mem.Allocator,
    column: *const Column,
    rows: *const Rows,
    target: []u64,
    shift: u6,
) error{OutOfMemory}!bool {
    switch (column.type.layout()) {
        .none => {},
        .bits, .i8, .i16, .i32, .i64, .u8, .u16, .u32, .u64 => {
            const values = try rows_module.integers(arena, column, rows, 0);
            const kept: u64 = if (bit_count(column.type).? == 64)
                std.math.maxInt(u64)
            else
                (@as(u64, 1) << @intCast(bit_count(column.type).?)) - 1;
            for (target, values) |*word, value| word.* |= (@as(u64, @bitCast(value)) & kept) << shift;
        },
        .f64 => for (target, try rows_module.floats(arena, column, rows, 0)) |*word, value| {
            word.* |= float_bits(f64, u64, value) << shift;
        },
        // What was widened is narrowed again without loss.
        .f32 => for (target, try rows_module.floats(arena, column, rows, 0)) |*word, value| {
            word.* |= @as(u64, float_bits(f32, u32, @floatCast(value))) << shift;
        },
        .f16 => for (target, try rows_module.floats(arena, column, rows, 0)) |*word, value| {
            word.* |= @as(u64, float_bits(f16, u16, @floatCast(value))) << shift;
        },
        .bytes => if (column.coded) |coded| {
            // The words of all entries first: they are fewer than rows, as a rule.
            const entries = try arena.alloc(u64, coded.dictionary.row_count);
            const all: Rows = .{ .rows = null, .groups = &.{}, .group_count = 0 };
            if (!add_texts(&coded.dictionary, &all, entries)) return false;
            add_coded(column, coded.codes, entries, rows, target);
        } else return add_texts(column, rows, target),
        .fixed => for (target, 0..) |*word, i| {
            const row = if (rows.rows) |chosen| chosen[i] else i;
            if (!column.is_valid(row)) continue;
            var bytes: [8]u8 = @splat(0);
            for (bytes[0..column.type.width], column.data[row * column.type.width ..][0..column.type.width]) |*to, byte|
                to.* = byte;
            word.* |= std.mem.readInt(u64, &bytes, .little) << shift;
        },
        .i128, .list, .structure => unreachable, // they have no place in a word
    }
    return true;
}

inline fn float_bits(comptime T: type, comptime Word: type, value: T) Word {
    if (value == 0) return 0;
    if (value != value) return @bitCast(std.math.nan(T));
    return @bitCast(value);
}

fn add_texts(column: *const Column, rows: *const Rows, target: []u64) bool {
    var longest: u32 = 0;
    if (rows.rows == null and column.validity == null) {
        for (target, column.offsets[0..target.len], column.offsets[1..][0..target.len]) |*word, start, end| {
            const size = end - start;
            longest = @max(longest, size);
            word.* = text_word(column.data, start, @min(size, packed_text_max));
        }
        return longest <= packed_text_max;
    }
    for (target, 0..) |*word, i| {
        const row = if (rows.rows) |chosen| chosen[i] else i;
        if (column.validity != null and !column.is_valid(row)) continue;
        const start = column.offsets[row];
        const size = column.offsets[row + 1] - start;
        longest = @max(longest, size);
        word.* = text_word(column.data, start, @min(size, packed_text_max));
    }
    return longest <= packed_text_max;
}

fn add_coded(column: *const Column, codes: []const u32, entries: []const u64, rows: *const Rows, target: []u64) void {
    if (column.validity != null) {
        for (target, 0..) |*word, i| {
            const row = if (rows.rows) |chosen| chosen[i] else i;
            if (column.is_valid(row)) word.* = entries[codes[row]];
        }
    } else if (rows.rows) |chosen| {
        for (target, chosen) |*word, row| word.* = entries[codes[row]];
    } else for (target, codes[0..target.len]) |*word, code| word.* = entries[code];
}

/// Up to seven bytes, and their number in the eighth.
inline fn text_word(data: []const u8, start: u32, size: u32) u64 {
    const loaded = if (data.len - start < 8)
        hash.short_words(data, start, size)[0]
    else
        std.mem.readInt(u64, data[start..][0..8], .little);
    return loaded & ((@as(u64, 1) << @intCast(8 * size)) - 1) | @as(u64, size) << 56;
}

/// Columns with all of their values.
pub fn decoded(arena: std.mem.Allocator, columns: []const Column) error{ OutOfMemory, TooLarge }![]const Column {
    const all = try arena.dupe(Column, columns);
    for (all) |*column| if (column.coded) |coded| {
        var builder: ColumnBuilder = try .init(arena, column.type);
        const rows = try arena.alloc(u32, column.row_count);
        for (rows, 0..) |*row, i| row.* = @intCast(i);
        try builder.append_indices(column, rows);
        column.* = try builder.finish(arena);
        assert(coded.codes.len == column.row_count);
    };
    return all;
}

/// One key of up to 128 bits that is not NULL.
fn wide_words(arena: std.mem.Allocator, column: *const Column, rows: *const Rows) error{OutOfMemory}!Words {
    const a = try arena.alloc(u64, rows.count());
    const b = try arena.alloc(u64, rows.count());
    for (a, b, 0..) |*low, *high, i| {
        const row = if (rows.rows) |chosen| chosen[i] else i;
        if (column.type.layout() == .i128) {
            const value: u128 = @bitCast(column.values(i128)[row]);
            low.* = @truncate(value);
            high.* = @truncate(value >> 64);
        } else {
            const short = hash.short_words(column.data, row * column.type.width, column.type.width);
            low.* = short[0];
            high.* = short[1];
        }
    }
    return .{ .a = a, .b = b };
}

/// Integers of one width compare as their bits.
pub fn Bits(comptime layout: schema.Layout) type {
    return switch (layout) {
        .i8, .u8 => u8,
        .i16, .u16 => u16,
        .i32, .u32 => u32,
        .i64, .u64 => u64,
        .i128 => u128,
        else => comptime unreachable,
    };
}

pub inline fn same_bytes(a: []const u8, b: []const u8) bool {
    return a.len == b.len and equal_bytes(a, b);
}

pub fn rows_equal(a: []const Column, a_row: usize, b: []const Column, b_row: usize) bool {
    for (a, b) |*x, *y| if (!values_equal(x, a_row, y, b_row)) return false;
    return true;
}

pub fn values_equal(a: *const Column, a_row: usize, b: *const Column, b_row: usize) bool {
    const valid = a.is_valid(a_row);
    if (valid != b.is_valid(b_row)) return false;
    if (!valid) return true;
    switch (a.type.layout()) {
        .none => return true,
        .bits => return bitmap.get(a.data.ptr, a_row) == bitmap.get(b.data.ptr, b_row),
        .bytes => return same_bytes(a.bytes_at(a_row), b.bytes_at(b_row)),
        .fixed => {
            if (a.type.tag == .interval)
                return Span.of(a.values(Interval)[a_row]).equal(.of(b.values(Interval)[b_row]));
            const size: usize = @intCast(a.type.value_size());
            return same_bytes(a.data[a_row * size ..][0..size], b.data[b_row * size ..][0..size]);
        },
        .list, .structure => unreachable, // aggregate_step.zig refuses them as keys
        inline .f16, .f32, .f64 => |layout| {
            const T = schema.Scalar(layout);
            const x = a.values(T)[a_row];
            const y = b.values(T)[b_row];
            return x == y or (x != x and y != y);
        },
        inline .i8, .u8, .i16, .u16, .i32, .u32, .i64, .u64, .i128 => |layout| {
            const T = Bits(layout);
            return a.values(T)[a_row] == b.values(T)[b_row];
        },
    }
}

test "forms of keys" {
    const gpa = std.testing.allocator;
    const forms = [_]struct { []const DataType, Form }{
        .{ &.{.of(.i32)}, .integer },
        .{ &.{.of(.bool)}, .integer },
        .{ &.{.of(.f64)}, .word },
        .{ &.{.of(.i128)}, .pair },
        .{ &.{.of(.binary)}, .text },
        .{ &.{.of(.interval)}, .none },
        .{ &.{ .of(.i32), .of(.i32) }, .word },
        .{ &.{ .of(.bool), .of(.i32), .of(.i16), .of(.u8) }, .word },
        .{ &.{ .of(.i64), .of(.bool) }, .pair },
        .{ &.{ .of(.i32), .of(.utf8), .of(.i32) }, .pair },
        .{ &.{ .of(.utf8), .of(.utf8) }, .pair },
        .{ &.{ .of(.utf8), .of(.utf8), .of(.bool) }, .none },
        .{ &.{ .of(.i64), .of(.i64), .of(.i8) }, .none },
    };
    for (forms) |form| {
        const packing: Packing = try .init(gpa, form[0]);
        defer packing.deinit(gpa);
        try std.testing.expectEqual(form[1], packing.form);
    }
}
