//! How a page's values are compressed: the message CompressiveEncoding of file versions 2.1 and 2.2, as a tree.
//!
//!     message      one field, whose number says which encoding
//!     1 flat                  1 bits
//!     2 variable              1 offsets (an encoding)  2 buffer compression: not used
//!     3 constant              1 value
//!     4 out-of-line packing   1 bits  3 values (flat: how many bits each was packed to)
//!     5 inline bit packing    1 bits
//!     6 fsst                  1 symbol table  2 values
//!     7 dictionary            not emitted inside of pages: they have their own place for one
//!     8 rle                   1 values  2 run lengths
//!     9 byte stream split     1 values
//!     10 general              1 {1 scheme: 1 LZ4, 2 zstd  2 level}  3 values
//!     11 fixed size list      1 items  2 values  3 has validity
//!     12 packed struct        1 bits of each field (packed numbers)  2 values
//!     13 variable packed      1 fields {1 value  2 bits of a value | 3 bits of a length}
//!     14 range, 15 delta      of version 2.3
//!
//! Parsing says only what is written there: whether it fits a column's type is for those to say who decode it.
//! What could not be decoded in any place (offsets of another size, run lengths that are not bytes) is refused
//! here. Trees are in the arena; symbol tables and constants point into the message.
const std = @import("std");
const interrupt = @import("../../core/interrupt.zig");
const protobuf = @import("protobuf.zig");
const Arena = @import("../../core/arena.zig").Arena;
const Message = protobuf.Message;

pub const Error = error{ InvalidFormat, NotSupported, OutOfMemory };

pub const depth_max = 16;

pub const Scheme = enum { lz4, zstd };

pub const Encoding = union(enum) {
    /// Bits of a value: 1, or whole bytes.
    flat: u32,
    /// Bits of an offset: 32 or 64.
    variable: u8,
    constant: []const u8,
    out_of_line_bitpacking: OutOfLine,
    /// Bits of a value once unpacked: 8, 16, 32 or 64.
    inline_bitpacking: u8,
    fsst: Fsst,
    /// Of runs whose lengths are bytes.
    rle: *const Encoding,
    byte_stream_split: *const Encoding,
    general: General,
    fixed_size_list: FixedSizeList,
    packed_struct: PackedStruct,
    variable_packed_struct: []const Field,

    pub const OutOfLine = struct {
        /// 8, 16, 32 or 64.
        bits: u8,
        /// At most that.
        packed_bits: u8,
    };

    pub const Fsst = struct { table: []const u8, values: *const Encoding };

    pub const General = struct { scheme: Scheme, values: *const Encoding };

    pub const FixedSizeList = struct {
        /// At least 1.
        item_count: u32,
        /// Then the first buffer has a bit for every item.
        has_validity: bool,
        values: *const Encoding,
    };

    pub const PackedStruct = struct {
        /// Whole bytes.
        bits: []const u32,
        values: *const Encoding,
    };

    pub const Field = struct {
        value: *const Encoding,
        size: union(enum) {
            /// Bits of a value: whole bytes.
            fixed: u32,
            /// Bits of the length in front of it: 8, 16, 32 or 64.
            length: u8,
        },
    };
};

pub fn parse(arena: std.mem.Allocator, bytes: []const u8) Error!*const Encoding {
    return parse_at(arena, bytes, 0);
}

fn parse_at(arena: std.mem.Allocator, bytes: []const u8, depth: u32) Error!*const Encoding {
    @setRuntimeSafety(true);
    if (depth == depth_max) return invalid("encodings are nested too deep", .{});
    var message: Message = .init(bytes);
    var found: ?Encoding = null;
    while (try message.next()) |field| {
        const inner: Parser = .{ .arena = arena, .bytes = try field.bytes(), .depth = depth };
        found = switch (field.number) {
            1 => .{ .flat = try inner.flat() },
            2 => .{ .variable = try inner.variable() },
            3 => .{ .constant = try inner.constant() },
            4 => .{ .out_of_line_bitpacking = try inner.out_of_line() },
            5 => .{ .inline_bitpacking = try inner.inline_bitpacking() },
            6 => .{ .fsst = try inner.fsst() },
            8 => .{ .rle = try inner.rle() },
            9 => .{ .byte_stream_split = try inner.only(1) },
            10 => .{ .general = try inner.general() },
            11 => .{ .fixed_size_list = try inner.fixed_size_list() },
            12 => .{ .packed_struct = try inner.packed_struct() },
            13 => .{ .variable_packed_struct = try inner.variable_packed_struct() },
            else => return unsupported("encoding {d}", .{field.number}),
        };
    }
    const encoding = try arena.create(Encoding);
    encoding.* = found orelse return invalid("an encoding says nothing", .{});
    return encoding;
}

/// One of the messages that an encoding may be.
const Parser = struct {
    arena: std.mem.Allocator,
    bytes: []const u8,
    depth: u32,

    fn child(self: Parser, field: protobuf.Field) Error!*const Encoding {
        return parse_at(self.arena, try field.bytes(), self.depth + 1);
    }

    fn only(self: Parser, number: u32) Error!*const Encoding {
        return try self.optional(number) orelse invalid("an encoding lacks its values", .{});
    }

    fn optional(self: Parser, number: u32) Error!?*const Encoding {
        var found: ?*const Encoding = null;
        var message: Message = .init(self.bytes);
        while (try message.next()) |field| {
            if (field.number == number) found = try self.child(field);
        }
        return found;
    }

    /// 0 where it is not there, as everywhere in protocol buffers.
    fn int(self: Parser, comptime T: type, number: u32) Error!T {
        var found: T = 0;
        var message: Message = .init(self.bytes);
        while (try message.next()) |field| {
            if (field.number == number) found = try field.int(T);
        }
        return found;
    }

    fn data(self: Parser, number: u32) Error!?[]const u8 {
        var found: ?[]const u8 = null;
        var message: Message = .init(self.bytes);
        while (try message.next()) |field| {
            if (field.number == number) found = try field.bytes();
        }
        return found;
    }

    fn flat(self: Parser) Error!u32 {
        if (try self.data(2) != null) return unsupported("compression of single buffers", .{});
        const bits = try self.int(u32, 1);
        // Binaries of no bytes have no bits.
        if (bits != 1 and bits % 8 != 0) return invalid("values of {d} bits", .{bits});
        return bits;
    }

    fn variable(self: Parser) Error!u8 {
        if (try self.data(2) != null) return unsupported("compression of single buffers", .{});
        const offsets = try self.only(1);
        if (offsets.* == .flat) switch (offsets.flat) {
            32 => return 32,
            64 => return 64,
            else => {},
        };
        return unsupported("offsets that are not plain numbers of 32 or 64 bits", .{});
    }

    fn constant(self: Parser) Error![]const u8 {
        return try self.data(1) orelse "";
    }

    fn word_bits(self: Parser) Error!u8 {
        const bits = try self.int(u64, 1);
        return switch (bits) {
            8, 16, 32, 64 => @intCast(bits),
            else => invalid("bit packing of values of {d} bits", .{bits}),
        };
    }

    fn out_of_line(self: Parser) Error!Encoding.OutOfLine {
        const bits = try self.word_bits();
        const values: Parser = .{
            .arena = self.arena,
            .bytes = try self.data(3) orelse return invalid("bit packing without values", .{}),
            .depth = self.depth,
        };
        // A flat encoding of any number of bits, which is why `flat` is not asked.
        const values_flat: Parser = .{
            .arena = self.arena,
            .bytes = try values.data(1) orelse return unsupported("bit packing around another encoding", .{}),
            .depth = self.depth,
        };
        const packed_bits = try values_flat.int(u64, 1);
        if (packed_bits > bits) return invalid("{d} bits packed into {d}", .{ bits, packed_bits });
        return .{ .bits = bits, .packed_bits = @intCast(packed_bits) };
    }

    fn inline_bitpacking(self: Parser) Error!u8 {
        if (try self.data(2) != null) return unsupported("compression of single buffers", .{});
        return self.word_bits();
    }

    fn fsst(self: Parser) Error!Encoding.Fsst {
        return .{
            .table = try self.data(1) orelse return invalid("FSST without a symbol table", .{}),
            .values = try self.only(2),
        };
    }

    fn rle(self: Parser) Error!*const Encoding {
        const lengths = try self.only(2);
        if (lengths.* != .flat or lengths.flat != 8) return unsupported("run lengths that are not bytes", .{});
        return self.only(1);
    }

    fn general(self: Parser) Error!Encoding.General {
        const compression: Parser = .{
            .arena = self.arena,
            .bytes = try self.data(1) orelse return invalid("compression without a scheme", .{}),
            .depth = self.depth,
        };
        const scheme = try compression.int(u32, 1);
        return .{
            .scheme = switch (scheme) {
                1 => .lz4,
                2 => .zstd,
                else => return unsupported("compression scheme {d}", .{scheme}),
            },
            .values = try self.only(3),
        };
    }

    fn fixed_size_list(self: Parser) Error!Encoding.FixedSizeList {
        const item_count = try self.int(u32, 1);
        if (item_count == 0) return invalid("lists of a fixed size of 0", .{});
        return .{
            .item_count = item_count,
            .has_validity = try self.int(u64, 3) != 0,
            .values = try self.only(2),
        };
    }

    fn packed_struct(self: Parser) Error!Encoding.PackedStruct {
        var bits: std.ArrayList(u32) = .empty;
        var message: Message = .init(self.bytes);
        while (try message.next()) |field| {
            if (field.number != 1) continue;
            var numbers = try field.ints(u32);
            while (try numbers.next()) |number| try bits.append(self.arena, try whole_bytes(number));
        }
        return .{ .bits = bits.items, .values = try self.only(2) };
    }

    fn variable_packed_struct(self: Parser) Error![]const Encoding.Field {
        var fields: std.ArrayList(Encoding.Field) = .empty;
        var message: Message = .init(self.bytes);
        while (try message.next()) |field| {
            if (field.number != 1) continue;
            const inner: Parser = .{ .arena = self.arena, .bytes = try field.bytes(), .depth = self.depth };
            try fields.append(self.arena, try inner.packed_field());
        }
        return fields.items;
    }

    fn packed_field(self: Parser) Error!Encoding.Field {
        const fixed_bits = try self.int(u32, 2);
        const length_bits = try self.int(u32, 3);
        return .{
            .value = try self.only(1),
            .size = switch (length_bits) {
                0 => .{ .fixed = try whole_bytes(fixed_bits) },
                8, 16, 32, 64 => .{ .length = @intCast(length_bits) },
                else => return invalid("lengths of {d} bits", .{length_bits}),
            },
        };
    }
};

fn whole_bytes(bits: u32) Error!u32 {
    // pylance writes Booleans so, and cannot read them either.
    if (bits == 0 or bits % 8 != 0) return unsupported("packed fields of {d} bits", .{bits});
    return bits;
}

fn unsupported(comptime format: []const u8, arguments: anytype) Error {
    interrupt.describe("Lance pages with " ++ format ++ " are not supported", arguments);
    return error.NotSupported;
}

fn invalid(comptime format: []const u8, arguments: anytype) Error {
    interrupt.describe("a Lance page has " ++ format, arguments);
    return error.InvalidFormat;
}

const testing = std.testing;

/// Messages as Lance writes them, for tests of those who read pages as well.
pub const samples = struct {
    pub const flat_1 = [_]u8{ 0x0A, 2, 0x08, 1 };
    pub const flat_8 = [_]u8{ 0x0A, 2, 0x08, 8 };
    pub const flat_16 = [_]u8{ 0x0A, 2, 0x08, 16 };
    pub const flat_32 = [_]u8{ 0x0A, 2, 0x08, 32 };
    pub const flat_64 = [_]u8{ 0x0A, 2, 0x08, 64 };
    pub const variable_32 = [_]u8{ 0x12, 6, 0x0A, 4 } ++ flat_32;
    pub const variable_64 = [_]u8{ 0x12, 6, 0x0A, 4 } ++ flat_64;
    pub const out_of_line_1 = [_]u8{ 0x22, 8, 0x08, 16, 0x1A, 4 } ++ flat_1;
    pub const inline_32 = [_]u8{ 0x2A, 2, 0x08, 32 };
    pub const rle_32 = [_]u8{ 0x42, 12, 0x0A, 4 } ++ flat_32 ++ [_]u8{ 0x12, 4 } ++ flat_8;
    pub const lz4_flat_32 = [_]u8{ 0x52, 10, 0x0A, 2, 0x08, 1, 0x1A, 4 } ++ flat_32;
};

fn expect_error(expected: Error, bytes: []const u8) !void {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    defer interrupt.forget();
    try testing.expectError(expected, parse(arena.allocator(), bytes));
}

test parse {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const gpa = arena.allocator();
    try testing.expectEqual(64, (try parse(gpa, &samples.flat_64)).flat);
    try testing.expectEqual(32, (try parse(gpa, &samples.variable_32)).variable);
    try testing.expectEqual(64, (try parse(gpa, &samples.variable_64)).variable);
    const out_of_line = (try parse(gpa, &samples.out_of_line_1)).out_of_line_bitpacking;
    try testing.expectEqual(Encoding.OutOfLine{ .bits = 16, .packed_bits = 1 }, out_of_line);
    try testing.expectEqual(32, (try parse(gpa, &samples.inline_32)).inline_bitpacking);
    try testing.expectEqual(32, (try parse(gpa, &samples.rle_32)).rle.flat);
    const general = (try parse(gpa, &samples.lz4_flat_32)).general;
    try testing.expectEqual(.lz4, general.scheme);
    try testing.expectEqual(32, general.values.flat);
    const split = try parse(gpa, &([_]u8{ 0x4A, 6, 0x0A, 4 } ++ samples.flat_32));
    try testing.expectEqual(32, split.byte_stream_split.flat);
    const fsst = (try parse(gpa, &([_]u8{ 0x32, 13, 0x0A, 1, 'T', 0x12, 8 } ++ samples.variable_32))).fsst;
    try testing.expectEqualStrings("T", fsst.table);
    try testing.expectEqual(32, fsst.values.variable);
    const list = (try parse(gpa, &([_]u8{ 0x5A, 10, 0x08, 3, 0x18, 1, 0x12, 4 } ++ samples.flat_32))).fixed_size_list;
    try testing.expectEqual(3, list.item_count);
    try testing.expect(list.has_validity);
    try testing.expectEqual(32, list.values.flat);
    try testing.expectEqualStrings("ab", (try parse(gpa, &.{ 0x1A, 4, 0x0A, 2, 'a', 'b' })).constant);
}

test "packed structs" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const fixed_fields = [_]u8{ 0x62, 11, 0x0A, 3, 32, 64, 8, 0x12, 4, 0x0A, 2, 0x08, 104 };
    const fixed = (try parse(arena.allocator(), &fixed_fields)).packed_struct;
    try testing.expectEqualSlices(u32, &.{ 32, 64, 8 }, fixed.bits);
    try testing.expectEqual(104, fixed.values.flat);
    const variable_fields = [_]u8{ 0x6A, 24, 0x0A, 8, 0x0A, 4 } ++ samples.flat_32 ++ [_]u8{ 0x10, 32 } ++
        [_]u8{ 0x0A, 12, 0x0A, 8 } ++ samples.variable_32 ++ [_]u8{ 0x18, 32 };
    const variable = (try parse(arena.allocator(), &variable_fields)).variable_packed_struct;
    try testing.expectEqual(2, variable.len);
    try testing.expectEqual(32, variable[0].size.fixed);
    try testing.expectEqual(32, variable[1].size.length);
    try testing.expectEqual(32, variable[1].value.variable);
}

test "encodings that are none" {
    try expect_error(error.InvalidFormat, "");
    try expect_error(error.InvalidFormat, &.{ 0x0A, 2, 0x08, 33 }); // flat 33
    try expect_error(error.NotSupported, &.{ 0x0A, 4, 0x08, 32, 0x12, 0 }); // flat with a compressed buffer
    try expect_error(error.InvalidFormat, &.{ 0x12, 0 }); // no offsets
    try expect_error(error.NotSupported, &([_]u8{ 0x12, 6, 0x0A, 4 } ++ samples.flat_16)); // offsets of 16 bits
    try expect_error(error.InvalidFormat, &.{ 0x22, 8, 0x08, 16, 0x1A, 4, 0x0A, 2, 0x08, 17 }); // 16 bits in 17
    try expect_error(error.InvalidFormat, &.{ 0x22, 8, 0x08, 12, 0x1A, 4, 0x0A, 2, 0x08, 1 }); // words of 12 bits
    try expect_error(error.NotSupported, &([_]u8{ 0x22, 8, 0x08, 16, 0x1A, 4 } ++ samples.inline_32)); // not flat
    try expect_error(error.InvalidFormat, &.{ 0x2A, 2, 0x08, 128 }); // words of 128 bits
    try expect_error(error.InvalidFormat, &([_]u8{ 0x32, 10, 0x12, 8 } ++ samples.variable_32)); // no table
    const long_runs = [_]u8{ 0x42, 12, 0x0A, 4 } ++ samples.flat_32 ++ [_]u8{ 0x12, 4 } ++ samples.flat_16;
    try expect_error(error.NotSupported, &long_runs);
    const scheme_3 = [_]u8{ 0x52, 10, 0x0A, 2, 0x08, 3, 0x1A, 4 } ++ samples.flat_32;
    try expect_error(error.NotSupported, &scheme_3);
    try expect_error(error.InvalidFormat, &([_]u8{ 0x52, 6, 0x1A, 4 } ++ samples.flat_32)); // no scheme
    try expect_error(error.InvalidFormat, &([_]u8{ 0x5A, 6, 0x12, 4 } ++ samples.flat_32)); // lists of 0
    try expect_error(error.NotSupported, &.{ 0x62, 8, 0x0A, 1, 1, 0x12, 3, 0x0A, 1, 0x08 }); // a Boolean in a struct
    try expect_error(error.NotSupported, &.{ 0x7A, 0 }); // delta
    try expect_error(error.NotSupported, &.{ 0x3A, 0 }); // dictionary
    try expect_error(error.InvalidFormat, &.{ 0x08, 1 }); // a number
}

test "encodings nested too deep" {
    var bytes: [200]u8 = undefined;
    var size: usize = samples.flat_32.len;
    @memcpy(bytes[bytes.len - size ..], &samples.flat_32);
    for (0..depth_max + 4) |_| {
        const inner = size;
        size += 4;
        bytes[bytes.len - size ..][0..4].* = .{ 0x4A, @intCast(inner + 2), 0x0A, @intCast(inner) };
        if (inner == samples.flat_32.len) {
            var arena: Arena = .init(testing.allocator);
            defer arena.deinit();
            _ = try parse(arena.allocator(), bytes[bytes.len - size ..]);
        }
    }
    try expect_error(error.InvalidFormat, bytes[bytes.len - size ..]);
}

test "encodings at random" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    defer interrupt.forget();
    const seeds = [_][]const u8{
        &samples.variable_64,
        &samples.out_of_line_1,
        &samples.rle_32,
        &samples.lz4_flat_32,
        &([_]u8{ 0x62, 11, 0x0A, 3, 32, 64, 8, 0x12, 4, 0x0A, 2, 0x08, 104 }),
        &([_]u8{ 0x5A, 10, 0x08, 3, 0x18, 1, 0x12, 4 } ++ samples.flat_32),
    };
    var prng: std.Random.DefaultPrng = .init(21);
    const random = prng.random();
    for (0..5000) |_| {
        var buffer: [64]u8 = undefined;
        const seed = seeds[random.uintLessThan(usize, seeds.len)];
        const bytes = buffer[0..random.intRangeAtMost(usize, 0, seed.len)];
        @memcpy(bytes, seed[0..bytes.len]);
        if (bytes.len > 0) for (0..random.uintLessThan(u8, 4)) |_| {
            bytes[random.uintLessThan(usize, bytes.len)] = random.int(u8);
        };
        _ = parse(arena.allocator(), bytes) catch {};
        _ = arena.reset(.retain_capacity);
    }
}
