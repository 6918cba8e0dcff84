//! The Thrift compact protocol, read from untrusted bytes: footers, page headers, page indexes.
//!
//!     structure   field … 0x00
//!     field       1 byte (id delta << 4 | type), or (0 << 4 | type) and the id as a zigzag varint;
//!                 a boolean's value is its type (1 true, 2 false), everything else follows
//!     byte        1 byte
//!     i16 i32 i64 zigzag varint of at most ten bytes
//!     double      8 bytes, little endian
//!     binary      varint size, bytes
//!     list, set   1 byte (count << 4 | type), or (15 << 4 | type) and a varint count; elements.
//!                 A boolean element is one byte
//!     map         varint count; when not 0: 1 byte (key type << 4 | value type); pairs
//!     uuid        16 bytes
//!
//! A structure is read by asking for its fields and skipping those with an unknown id:
//!
//!     var fields = reader.structure();
//!     while (try fields.next_field()) |field| switch (field.id) {
//!         1 => count = try reader.read_int(i32, field.type),
//!         2 => statistics = try read_statistics(reader, field.type),   // reader.expect(type, .structure)
//!         else => try reader.skip(field.type),
//!     };
//!
//! The readers take the type that the bytes claim and refuse when it is not theirs. Every element,
//! field and pair takes at least one byte, and counts are compared with the bytes that are left:
//! work and memory are bounded by the size of the input whatever it says.
const std = @import("std");
const interrupt = @import("../../core/interrupt.zig");

pub const Error = error{InvalidFormat};

/// Structures, lists and maps inside each other that `skip` follows.
pub const skip_depth_max = 32;

pub const Type = enum(u8) {
    boolean_true = 1,
    boolean_false = 2,
    byte = 3,
    i16 = 4,
    i32 = 5,
    i64 = 6,
    double = 7,
    binary = 8,
    list = 9,
    set = 10,
    map = 11,
    structure = 12,
    uuid = 13,
};

pub const Field = struct {
    id: i16,
    type: Type,

    /// Its id when `kinds` has its type under that id, else 0. Some writers use an id that the
    /// format gave away later; then the field is one of theirs and skipped like any unknown one.
    pub inline fn known(self: Field, comptime kinds: []const Kind) i16 {
        if (self.id < 0 or self.id >= kinds.len) return 0;
        return if (kinds[@intCast(self.id)].accepts(self.type)) self.id else 0;
    }
};

/// What a field may hold, as far as reading it is concerned.
pub const Kind = enum {
    none,
    boolean,
    int,
    binary,
    list,
    structure,

    fn accepts(self: Kind, actual: Type) bool {
        return switch (self) {
            .none => false,
            .boolean => actual == .boolean_true or actual == .boolean_false,
            .int => actual == .i32 or actual == .i64 or actual == .i16 or actual == .byte,
            .binary => actual == .binary,
            .list => actual == .list or actual == .set,
            .structure => actual == .structure,
        };
    }
};

/// `count` elements of `type` follow.
pub const List = struct { count: u32, type: Type };

pub const Reader = struct {
    bytes: []const u8,
    /// Of the next byte; after a structure's end, the number of bytes it took.
    position: usize = 0,

    pub fn init(bytes: []const u8) Reader {
        return .{ .bytes = bytes };
    }

    pub fn remaining(self: *const Reader) usize {
        return self.bytes.len - self.position;
    }

    /// The fields of the structure that begins here. Inner structures may be read between two
    /// fields; each has its own `Structure`.
    pub inline fn structure(self: *Reader) Structure {
        return .{ .reader = self };
    }

    pub inline fn expect(self: *const Reader, actual: Type, wanted: Type) Error!void {
        if (actual != wanted) return invalid(self.position, "the Thrift bytes have a field of another type");
    }

    /// Any integer type is taken, as long as the value fits `T`.
    pub inline fn read_int(self: *Reader, comptime T: type, actual: Type) Error!T {
        const value: i64 = switch (actual) {
            .i32, .i64, .i16 => try self.read_zigzag(),
            .byte => @as(i8, @bitCast(try self.read_byte())),
            else => return invalid(self.position, "the Thrift bytes have a field of another type"),
        };
        if (T == i64) return value;
        return std.math.cast(T, value) orelse invalid(self.position, "a number in the Thrift bytes is out of range");
    }

    /// The value of a boolean field is in its type; no byte is read.
    pub inline fn read_bool(self: *Reader, actual: Type) Error!bool {
        return switch (actual) {
            .boolean_true => true,
            .boolean_false => false,
            else => invalid(self.position, "the Thrift bytes have a field of another type"),
        };
    }

    /// An element of a list whose type is one of the two booleans.
    pub fn read_bool_element(self: *Reader, actual: Type) Error!bool {
        _ = try self.read_bool(actual);
        return switch (try self.read_byte()) {
            0, 2 => false,
            1 => true,
            else => invalid(self.position, "a boolean in the Thrift bytes is neither true nor false"),
        };
    }

    pub fn read_double(self: *Reader, actual: Type) Error!f64 {
        try self.expect(actual, .double);
        return @bitCast(std.mem.readInt(u64, (try self.read_raw(8))[0..8], .little));
    }

    /// Points into the source.
    pub inline fn read_binary(self: *Reader, actual: Type) Error![]const u8 {
        try self.expect(actual, .binary);
        return self.read_raw(try self.read_varint());
    }

    /// A list's (or a set's) head. There are at least `count` bytes left.
    pub inline fn read_list(self: *Reader, actual: Type) Error!List {
        if (actual != .list and actual != .set)
            return invalid(self.position, "the Thrift bytes have a field of another type");
        const head = try self.read_byte();
        const count: u64 = if (head >> 4 == 15) try self.read_varint() else head >> 4;
        if (count > self.remaining())
            return invalid(self.position, "a list in the Thrift bytes is longer than they are");
        // An empty list may carry no element type.
        if (count == 0 and head & 15 == 0) return .{ .count = 0, .type = .byte };
        return .{ .count = std.math.cast(u32, count) orelse return invalid(
            self.position,
            "a list in the Thrift bytes is too long",
        ), .type = try self.type_of(head & 15) };
    }

    /// A list whose elements must be of `wanted`; returns their count.
    pub inline fn read_list_of(self: *Reader, actual: Type, wanted: Type) Error!u32 {
        const list = try self.read_list(actual);
        if (list.count != 0) try self.expect(list.type, wanted);
        return list.count;
    }

    /// The value of a field of any type. Where it fails inside of others, the position stays.
    pub inline fn skip(self: *Reader, actual: Type) Error!void {
        switch (actual) {
            .boolean_true, .boolean_false => {},
            .byte => _ = try self.read_byte(),
            .i16, .i32, .i64 => _ = try self.read_varint(),
            .binary => _ = try self.read_raw(try self.read_varint()),
            .double, .uuid, .list, .set, .map, .structure => {
                const end = skip_element(self.bytes, self.position, actual, 0);
                if (end > self.bytes.len)
                    return invalid(self.position, "the Thrift bytes end early, or are nested too deep");
                self.position = end;
            },
        }
    }

    inline fn type_of(self: *const Reader, nibble: u8) Error!Type {
        if (nibble < 1 or nibble > 13) return invalid(self.position, "the Thrift bytes have an unknown type");
        return @fromBackingInt(@intCast(nibble));
    }

    inline fn read_byte(self: *Reader) Error!u8 {
        if (self.position >= self.bytes.len) return invalid(self.position, "the Thrift bytes end early");
        defer self.position += 1;
        return self.bytes[self.position];
    }

    inline fn read_raw(self: *Reader, size: u64) Error![]const u8 {
        if (size > self.remaining()) return invalid(self.position, "the Thrift bytes end early");
        const start = self.position;
        self.position += @intCast(size);
        return self.bytes[start..self.position];
    }

    inline fn read_zigzag(self: *Reader) Error!i64 {
        const value = try self.read_varint();
        return @bitCast((value >> 1) ^ (0 -% (value & 1)));
    }

    /// Most numbers of a footer take one byte, nearly all others at most eight.
    inline fn read_varint(self: *Reader) Error!u64 {
        const position = self.position;
        if (self.bytes.len - position >= 8) {
            const word = std.mem.readInt(u64, self.bytes[position..][0..8], .little);
            if (word & 0x80 == 0) {
                self.position = position + 1;
                return word & 0x7F;
            }
            const size = varint_size(word);
            if (size != 0) {
                self.position = position + size;
                return varint_value(word, size);
            }
        }
        const slow = read_varint_slowly(self.bytes, position);
        self.position = slow.end;
        if (!slow.is_complete) return invalid(slow.end, "a number in the Thrift bytes ends early, or is too long");
        return slow.value;
    }
};

// What follows takes and returns values only: a reader whose address nobody has lives in registers.

/// Bytes of the varint that `word` begins with; 0 when they are more than eight.
inline fn varint_size(word: u64) usize {
    const ends = ~word & 0x8080_8080_8080_8080;
    return if (ends == 0) 0 else (@as(usize, @ctz(ends)) + 1) / 8;
}

/// Pushes the groups of seven bits together, pairs first.
inline fn varint_value(word: u64, size: usize) u64 {
    var value = word & (~@as(u64, 0) >> @intCast(64 - 8 * size)) & 0x7F7F_7F7F_7F7F_7F7F;
    value = (value & 0x007F_007F_007F_007F) | (value & 0x7F00_7F00_7F00_7F00) >> 1;
    value = (value & 0x0000_3FFF_0000_3FFF) | (value & 0x3FFF_0000_3FFF_0000) >> 2;
    return (value & 0x0000_0000_0FFF_FFFF) | (value & 0x0FFF_FFFF_0000_0000) >> 4;
}

const SlowVarint = struct { value: u64, end: usize, is_complete: bool };

noinline fn read_varint_slowly(bytes: []const u8, start: usize) SlowVarint {
    var value: u64 = 0;
    var position = start;
    for (0..10) |index| {
        if (position == bytes.len) break;
        const byte = bytes[position];
        position += 1;
        if (index == 9 and byte > 1) break;
        value |= @as(u64, byte & 0x7F) << @intCast(7 * index);
        if (byte < 0x80) return .{ .value = value, .end = position, .is_complete = true };
    }
    return .{ .value = 0, .end = position, .is_complete = false };
}

/// Larger than any position.
const nowhere: usize = std.math.maxInt(usize);

/// The end of an element of a list, where a boolean is a byte; beyond the bytes when there is none.
fn skip_element(bytes: []const u8, position: usize, actual: Type, depth: u32) usize {
    return switch (actual) {
        .boolean_true, .boolean_false, .byte => position + 1,
        .i16, .i32, .i64 => skip_varint(bytes, position),
        .double => position + 8,
        .uuid => position + 16,
        .binary => skip_binary(bytes, position),
        .list, .set => skip_list(bytes, position, depth),
        .map => skip_map(bytes, position, depth),
        .structure => skip_structure(bytes, position, depth),
    };
}

inline fn skip_varint(bytes: []const u8, position: usize) usize {
    if (position + 8 <= bytes.len) {
        const word = std.mem.readInt(u64, bytes[position..][0..8], .little);
        if (word & 0x80 == 0) return position + 1;
        const size = varint_size(word);
        if (size != 0) return position + size;
    }
    const found = read_varint_slowly(bytes, @min(position, bytes.len));
    return if (found.is_complete) found.end else nowhere;
}

inline fn skip_binary(bytes: []const u8, position: usize) usize {
    if (position >= bytes.len) return nowhere;
    var size: u64 = bytes[position];
    var start = position + 1;
    if (size >= 0x80) {
        const found = read_varint_slowly(bytes, position);
        if (!found.is_complete) return nowhere;
        size = found.value;
        start = found.end;
    }
    return if (size > bytes.len - start) nowhere else start + @as(usize, @intCast(size));
}

fn skip_structure(bytes: []const u8, start: usize, depth: u32) usize {
    if (depth == skip_depth_max) return nowhere;
    var position = start;
    while (position < bytes.len) {
        const head = bytes[position];
        position += 1;
        if (head == 0) return position;
        if (head >> 4 == 0) position = skip_varint(bytes, position);
        if (position > bytes.len) return nowhere;
        const actual = element_type(head & 15) orelse return nowhere;
        switch (actual) {
            .boolean_true, .boolean_false => {},
            else => position = skip_element(bytes, position, actual, depth + 1),
        }
    }
    return nowhere;
}

fn skip_list(bytes: []const u8, start: usize, depth: u32) usize {
    if (depth == skip_depth_max) return nowhere;
    var reader: Reader = .{ .bytes = bytes, .position = @min(start, bytes.len) };
    const list = reader.read_list(.list) catch return nowhere;
    var position = reader.position;
    for (0..list.count) |_| {
        position = switch (list.type) {
            .i16, .i32, .i64 => skip_varint(bytes, position),
            .binary => skip_binary(bytes, position),
            else => skip_element(bytes, position, list.type, depth + 1),
        };
        if (position > bytes.len) return nowhere;
    }
    return position;
}

fn skip_map(bytes: []const u8, start: usize, depth: u32) usize {
    if (depth == skip_depth_max) return nowhere;
    const head = read_varint_slowly(bytes, @min(start, bytes.len));
    if (!head.is_complete) return nowhere;
    if (head.value == 0) return head.end;
    if (head.value > (bytes.len - head.end) / 2) return nowhere;
    const types = bytes[head.end];
    const key = element_type(types >> 4) orelse return nowhere;
    const value = element_type(types & 15) orelse return nowhere;
    var position = head.end + 1;
    for (0..@as(usize, @intCast(head.value)) * 2) |index| {
        position = skip_element(bytes, position, if (index % 2 == 0) key else value, depth + 1);
        if (position > bytes.len) return nowhere;
    }
    return position;
}

inline fn element_type(nibble: u8) ?Type {
    return if (nibble < 1 or nibble > 13) null else @fromBackingInt(@intCast(nibble));
}

fn invalid(position: usize, comptime words: []const u8) Error {
    @branchHint(.cold);
    interrupt.describe(words, .{});
    interrupt.describe_offset(position);
    return error.InvalidFormat;
}

pub const Structure = struct {
    reader: *Reader,
    last_id: i16 = 0,

    /// Takes the head of the next field if it is this one, written the usual way. Structures that
    /// come by the hundred thousand are first read in the order in which writers write them: a
    /// row of predictable branches instead of a jump per field.
    pub inline fn take_field(self: *Structure, comptime field: Field) bool {
        const delta = field.id - self.last_id;
        if (delta < 1 or delta > 15 or self.reader.position >= self.reader.bytes.len) return false;
        const head = @as(u8, @intCast(delta)) << 4 | @backingInt(field.type);
        if (self.reader.bytes[self.reader.position] != head) return false;
        self.reader.position += 1;
        self.last_id = field.id;
        return true;
    }

    /// Null at the structure's end. The field's value must be read or skipped before the next call.
    pub inline fn next_field(self: *Structure) Error!?Field {
        const head = try self.reader.read_byte();
        if (head == 0) return null;
        const data_type = try self.reader.type_of(head & 15);
        if (head >> 4 == 0) {
            self.last_id = try self.reader.read_int(i16, .i16);
        } else {
            // A sum past the largest id would wrap to a negative one, which nobody knows.
            self.last_id +%= head >> 4;
        }
        return .{ .id = self.last_id, .type = data_type };
    }
};

const testing = std.testing;

test "fields of every type, known and skipped" {
    const bytes = [_]u8{
        0x15, 0x0D, // 1: i32 = -7
        0x11, // 2: true
        0x12, // 3: false
        0x18, 3, 'a', 'b', 'c', // 4: binary
        0x17, 0, 0, 0, 0, 0, 0, 0xF8, 0x3F, // 5: double 1.5
        0x29, 0x35, 2, 4, 6, // 7: list of i32 1 2 3
        0x03 | 0x10, 0xFE, // 8: byte -2
        0x06, 0xC8, 0x01, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01, // 100: i64 min
        0x1C, 0x15, 2, 0x00, // 101: structure { 1: 1 }
        0x1B, 1, 0x58, 2, 1, 'x', // 102: map i32 → binary
        0x19, 0x21, 1, 2, // 103: list of bool true, false
        0x00,
    };
    inline for (.{ false, true }) |skip_all| {
        var reader: Reader = .init(&bytes);
        var fields = reader.structure();
        var seen: u32 = 0;
        while (try fields.next_field()) |field| {
            seen += 1;
            if (skip_all) try reader.skip(field.type) else switch (field.id) {
                1 => try testing.expectEqual(-7, try reader.read_int(i32, field.type)),
                2 => try testing.expect(try reader.read_bool(field.type)),
                3 => try testing.expect(!try reader.read_bool(field.type)),
                4 => try testing.expectEqualStrings("abc", try reader.read_binary(field.type)),
                5 => try testing.expectEqual(1.5, try reader.read_double(field.type)),
                7 => {
                    try testing.expectEqual(3, try reader.read_list_of(field.type, .i32));
                    for (1..4) |wanted|
                        try testing.expectEqual(@as(i32, @intCast(wanted)), try reader.read_int(i32, .i32));
                },
                8 => try testing.expectEqual(-2, try reader.read_int(i32, field.type)),
                100 => try testing.expectEqual(std.math.minInt(i64), try reader.read_int(i64, field.type)),
                103 => {
                    const list = try reader.read_list(field.type);
                    try testing.expectEqual(2, list.count);
                    try testing.expect(try reader.read_bool_element(list.type));
                    try testing.expect(!try reader.read_bool_element(list.type));
                },
                else => try reader.skip(field.type),
            }
        }
        try testing.expectEqual(11, seen);
        try testing.expectEqual(bytes.len, reader.position);
    }
}

test "fields of another type are unknown" {
    const kinds = [_]Kind{ .none, .int, .list };
    const fields = [_]Field{
        .{ .id = 1, .type = .i64 },       .{ .id = 2, .type = .set }, .{ .id = 1, .type = .binary },
        .{ .id = 0, .type = .i32 },       .{ .id = 3, .type = .i32 }, .{ .id = -1, .type = .i32 },
        .{ .id = 2, .type = .structure },
    };
    for (fields, [_]i16{ 1, 2, 0, 0, 0, 0, 0 }) |field, wanted| try testing.expectEqual(wanted, field.known(&kinds));
}

test "wrong types, ranges and sizes are refused" {
    var reader: Reader = .init(&.{ 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02 });
    try testing.expectError(error.InvalidFormat, reader.read_int(i64, .i64));
    reader = .init(&.{ 0x80, 0x80, 0x80, 0x80, 0x10 });
    try testing.expectError(error.InvalidFormat, reader.read_int(i32, .i32));
    reader = .init(&.{5});
    try testing.expectError(error.InvalidFormat, reader.read_int(i32, .binary));
    try testing.expectError(error.InvalidFormat, reader.read_binary(.binary));
    reader = .init(&.{ 0xF5, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01 });
    try testing.expectError(error.InvalidFormat, reader.read_list(.list));
    reader = .init(&.{0x3F});
    try testing.expectError(error.InvalidFormat, reader.read_list(.list));
    reader = .init(&.{0x1E});
    var fields = reader.structure();
    try testing.expectError(error.InvalidFormat, fields.next_field());
    interrupt.forget();
}

test "skip stops at its depth" {
    // Lists of lists: one byte opens each level.
    inline for (.{ .{ skip_depth_max, true }, .{ skip_depth_max + 1, false } }) |case| {
        var bytes: [64]u8 = @splat(0x19);
        bytes[case[0] - 1] = 0;
        var reader: Reader = .init(&bytes);
        if (case[1]) try reader.skip(.list) else try testing.expectError(error.InvalidFormat, reader.skip(.list));
    }
    interrupt.forget();
}

test "random bytes are read or refused" {
    var random: std.Random.DefaultPrng = .init(1);
    defer interrupt.forget();
    for (0..2000) |_| {
        var bytes: [200]u8 = undefined;
        random.fill(&bytes);
        var reader: Reader = .init(bytes[0..random.random().uintAtMost(usize, bytes.len)]);
        reader.skip(.structure) catch continue;
        try testing.expect(reader.position <= reader.bytes.len);
    }
}
