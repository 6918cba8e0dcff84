//! How a page of version 2.0 is encoded: the message ArrayEncoding.
//!
//!     Any           1 type url  2 ArrayEncoding
//!     encoding      1 flat {1 bits  2 buffer  3 compression} │ 2 nullable {1 no NULLs {1 values} │ 2 some {1 validity
//!                   2 values} │ 3 all} │ 3 fixed-size list {1 items a row  2 items  3 has validity} │ 4 list {1 ends
//!                   2 added for NULL  3 items} │ 5 struct │ 6 binary {1 ends  2 bytes  3 added for NULL} │
//!                   7 dictionary {1 indices  2 items  3 how many}
//!     buffer        1 number  2 kind: 0 of the page
//!
//! Nothing is compressed. Ends are numbers of 64 bits; where a value is NULL they have something added that is
//! greater than any of them.
const std = @import("std");
const interrupt = @import("../../core/interrupt.zig");
const protobuf = @import("protobuf.zig");
const Arena = @import("../../core/arena.zig").Arena;
const Message = protobuf.Message;
const Writer = @import("protobuf_writer.zig").Writer;

pub const Error = error{ InvalidFormat, NotSupported, OutOfMemory };

const depth_max = 16;

pub const Flat = struct { bits: u32 = 0, buffer: u32 = 0 };

pub const Encoding = union(enum) {
    flat: Flat,
    /// Null: there are none, or all are NULL.
    nullable: struct { validity: ?*const Encoding, values: ?*const Encoding },
    fixed_size_list: struct { item_count: u32, items: *const Encoding },
    list: struct { ends: *const Encoding, null_addition: u64, item_count: u64 },
    structure,
    binary: struct { ends: *const Encoding, bytes: *const Encoding, null_addition: u64 },
    dictionary: struct { indices: *const Encoding, items: *const Encoding, item_count: u32 },
};

/// Of the bytes of a page's encoding, a google.protobuf.Any.
pub fn parse(arena: std.mem.Allocator, bytes: []const u8) Error!*const Encoding {
    @setRuntimeSafety(true);
    var url: []const u8 = "";
    var value: []const u8 = "";
    var message: Message = .init(bytes);
    while (try message.next()) |field| switch (field.number) {
        1 => url = try field.text(),
        2 => value = try field.bytes(),
        else => {},
    };
    if (!std.mem.endsWith(u8, url, "/lance.encodings.ArrayEncoding")) {
        interrupt.describe("a page of version 2.0 that is encoded as those of others are", .{});
        return error.NotSupported;
    }
    return parse_encoding(arena, .init(value), 0);
}

fn parse_encoding(arena: std.mem.Allocator, message: Message, depth: u32) Error!*const Encoding {
    @setRuntimeSafety(true);
    if (depth > depth_max) return refuse("encodings are nested too deep");
    var fields = message;
    var found: ?Encoding = null;
    while (try fields.next()) |field| {
        const inner = try field.message();
        found = switch (field.number) {
            1 => .{ .flat = try parse_flat(inner) },
            2 => try parse_nullable(arena, inner, depth),
            3 => try parse_fixed(arena, inner, depth),
            4 => try parse_list(arena, inner, depth),
            5 => .structure,
            6 => try parse_binary(arena, inner, depth),
            7 => try parse_dictionary(arena, inner, depth),
            else => {
                interrupt.describe("an encoding of version 2.0 that is not supported ({d})", .{field.number});
                return error.NotSupported;
            },
        };
    }
    const encoding = try arena.create(Encoding);
    encoding.* = found orelse return refuse("a page does not say how it is encoded");
    return encoding;
}

fn parse_flat(message: Message) Error!Flat {
    var fields = message;
    var flat: Flat = .{};
    while (try fields.next()) |field| switch (field.number) {
        1 => flat.bits = std.math.cast(u32, try field.int(u64)) orelse return refuse("values of too many bits"),
        2 => {
            var buffer = try field.message();
            while (try buffer.next()) |part| switch (part.number) {
                1 => flat.buffer = try part.int(u32),
                2 => if (try part.int(u32) != 0) return unsupported("buffers outside of pages"),
                else => {},
            };
        },
        3 => {
            var compression = try field.message();
            while (try compression.next()) |part| if (part.number == 1) {
                const scheme = try part.bytes();
                if (scheme.len > 0 and !std.mem.eql(u8, scheme, "none"))
                    return unsupported("compressed pages of version 2.0");
            };
        },
        else => {},
    };
    return flat;
}

fn parse_nullable(arena: std.mem.Allocator, message: Message, depth: u32) Error!Encoding {
    var fields = message;
    var found: Encoding = .{ .nullable = .{ .validity = null, .values = null } };
    while (try fields.next()) |field| switch (field.number) {
        1 => found.nullable.values = try child(arena, try field.message(), 1, depth),
        2 => {
            found.nullable.validity = try child(arena, try field.message(), 1, depth);
            found.nullable.values = try child(arena, try field.message(), 2, depth);
        },
        else => {},
    };
    return found;
}

fn parse_fixed(arena: std.mem.Allocator, message: Message, depth: u32) Error!Encoding {
    var fields = message;
    var count: u32 = 0;
    while (try fields.next()) |field| switch (field.number) {
        1 => count = try field.int(u32),
        3 => if (try field.boolean()) return unsupported("NULLs within vectors of version 2.0"),
        else => {},
    };
    if (count == 0) return refuse("a list of a fixed size has no items");
    return .{ .fixed_size_list = .{ .item_count = count, .items = try child(arena, message, 2, depth) } };
}

fn parse_list(arena: std.mem.Allocator, message: Message, depth: u32) Error!Encoding {
    return .{ .list = .{
        .ends = try child(arena, message, 1, depth),
        .null_addition = try number(message, 2),
        .item_count = try number(message, 3),
    } };
}

fn parse_binary(arena: std.mem.Allocator, message: Message, depth: u32) Error!Encoding {
    return .{ .binary = .{
        .ends = try child(arena, message, 1, depth),
        .bytes = try child(arena, message, 2, depth),
        .null_addition = try number(message, 3),
    } };
}

fn parse_dictionary(arena: std.mem.Allocator, message: Message, depth: u32) Error!Encoding {
    return .{ .dictionary = .{
        .indices = try child(arena, message, 1, depth),
        .items = try child(arena, message, 2, depth),
        .item_count = std.math.cast(u32, try number(message, 3)) orelse
            return refuse("a dictionary has too many items"),
    } };
}

fn child(arena: std.mem.Allocator, message: Message, wanted: u32, depth: u32) Error!*const Encoding {
    var fields = message;
    while (try fields.next()) |field| if (field.number == wanted) {
        return parse_encoding(arena, try field.message(), depth + 1);
    };
    return refuse("an encoding lacks one of its parts");
}

fn number(message: Message, wanted: u32) Error!u64 {
    var fields = message;
    var found: u64 = 0;
    while (try fields.next()) |field| if (field.number == wanted) {
        found = try field.int(u64);
    };
    return found;
}

fn refuse(comptime text: []const u8) error{InvalidFormat} {
    interrupt.describe(text, .{});
    return error.InvalidFormat;
}

fn unsupported(comptime what: []const u8) error{NotSupported} {
    interrupt.describe(what ++ " are not supported", .{});
    return error.NotSupported;
}

fn any_of(arena: std.mem.Allocator, encoding: *const Writer) []const u8 {
    var any: Writer = .init(arena);
    any.text(1, "/lance.encodings.ArrayEncoding");
    any.message(2, encoding);
    return any.bytes();
}

test parse {
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    defer interrupt.forget();
    const gpa = arena.allocator();
    var buffer: Writer = .init(gpa);
    buffer.int(1, 3);
    var flat: Writer = .init(gpa);
    flat.int(1, 64);
    flat.message(2, &buffer);
    var values: Writer = .init(gpa);
    values.message(1, &flat);
    var without: Writer = .init(gpa);
    without.message(1, &values);
    var nullable: Writer = .init(gpa);
    nullable.message(1, &without);
    var encoding: Writer = .init(gpa);
    encoding.message(2, &nullable);
    const found = try parse(gpa, any_of(gpa, &encoding));
    try std.testing.expectEqual(null, found.nullable.validity);
    try std.testing.expectEqual(Flat{ .bits = 64, .buffer = 3 }, found.nullable.values.?.flat);
    try std.testing.expectError(error.InvalidFormat, parse(gpa, any_of(gpa, &.init(gpa))));
    try std.testing.expectError(error.NotSupported, parse(gpa, encoding.bytes()));
    const bytes = any_of(gpa, &encoding);
    var random: std.Random.DefaultPrng = .init(std.testing.random_seed);
    for (0..3000) |_| {
        var round: Arena = .init(std.testing.allocator);
        defer round.deinit();
        const damaged = try round.allocator().dupe(u8, bytes);
        damaged[random.random().uintLessThan(usize, damaged.len)] = random.random().int(u8);
        _ = parse(round.allocator(), damaged) catch continue;
    }
}
