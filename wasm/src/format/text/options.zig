//! How a text is to be read: `abi.TextOptions` and what follows it, for text in memory, for heads of files
//! and for pieces of files alike.
//!
//!     TextOptions
//!     null_string_count × (u8 length, bytes)                 none: the empty field is NULL
//!     column_count × (u16 name length, name, type)           none: find out (core/schema.zig has types)
//!
//! No bytes at all are the defaults.
const std = @import("std");
const abi = @import("../../abi.zig");
const interrupt = @import("../../core/interrupt.zig");
const schema = @import("../../core/schema.zig");
const Cursor = @import("../../core/cursor.zig").Cursor;
const Allocator = std.mem.Allocator;

pub const Error = error{InvalidFormat};

/// Slices borrow the wire bytes; readers copy what they keep.
pub const Options = struct {
    delimiter: u8 = 0,
    quote: u8 = '"',
    escape: u8 = 0,
    header: abi.TextHeader = .unknown,
    infer_types: bool = true,
    json_layout: abi.JsonLayout = .unknown,
    null_string_count: u8 = 0,
    /// Checked.
    null_strings: []const u8 = &.{},
    column_count: u16 = 0,
    /// Not yet checked: `builder.read_declared` does.
    columns: []const u8 = &.{},
};

pub fn parse(bytes: []const u8) Error!Options {
    if (bytes.len == 0) return .{};
    var cursor: Cursor = .init(bytes);
    var options: Options = .{
        .delimiter = try cursor.read_int(u8),
        .quote = try cursor.read_int(u8),
        .escape = try cursor.read_int(u8),
        .header = try cursor.read_enum(abi.TextHeader),
        .infer_types = try cursor.read_flag(),
        .json_layout = try cursor.read_enum(abi.JsonLayout),
        .null_string_count = try cursor.read_int(u8),
    };
    if (try cursor.read_int(u8) != 0) return error.InvalidFormat;
    options.column_count = std.math.cast(u16, try cursor.read_int(u32)) orelse return error.InvalidFormat;
    comptime std.debug.assert(@offsetOf(abi.TextOptions, "column_count") == 8 and @sizeOf(abi.TextOptions) == 12);
    const start = cursor.position;
    for (0..options.null_string_count) |_| _ = try cursor.read_bytes(try cursor.read_int(u8));
    options.null_strings = bytes[start..cursor.position];
    options.columns = try cursor.read_bytes(cursor.remaining());
    if (options.column_count == 0 and options.columns.len != 0) return error.InvalidFormat;
    try check_marks(options);
    return options;
}

/// The three marks are ASCII, no line ends, and tell each other apart.
fn check_marks(options: Options) Error!void {
    for ([_]u8{ options.delimiter, options.quote, options.escape }) |mark| {
        if (mark < 0x80 and mark != '\n' and mark != '\r') continue;
        interrupt.describe("delimiter, quote and escape must be single ASCII characters and no line ends", .{});
        return error.InvalidFormat;
    }
    const given = options.delimiter != 0;
    const clash = given and (options.delimiter == options.quote or options.delimiter == options.escape);
    if (!clash and (options.quote != ' ' and options.escape != ' ')) return;
    interrupt.describe("delimiter, quote and escape must differ", .{});
    return error.InvalidFormat;
}

pub fn copy_null_strings(
    options: *const Options,
    arena: Allocator,
) error{ InvalidFormat, OutOfMemory }![]const []const u8 {
    const strings = try arena.alloc([]const u8, options.null_string_count);
    var cursor: Cursor = .init(options.null_strings);
    for (strings) |*string| string.* = try arena.dupe(u8, try cursor.read_bytes(try cursor.read_int(u8)));
    return strings;
}

/// The same on the wire, with these columns instead of its own.
pub fn write(
    gpa: Allocator,
    target: *std.ArrayList(u8),
    options: *const Options,
    fields: []const schema.Field,
) error{OutOfMemory}!void {
    const head: abi.TextOptions = .{
        .delimiter = options.delimiter,
        .quote = options.quote,
        .escape = options.escape,
        .header = options.header,
        .infer_types = @intFromBool(options.infer_types),
        .json_layout = options.json_layout,
        .null_string_count = options.null_string_count,
        .column_count = @intCast(fields.len),
    };
    try target.appendSlice(gpa, std.mem.asBytes(&head));
    try target.appendSlice(gpa, options.null_strings);
    for (fields) |field| {
        const size: usize = @intCast(2 + field.name.len + 1 + schema.type_parameters_size(field.type));
        const bytes = try target.addManyAsSlice(gpa, size);
        std.mem.writeInt(u16, bytes[0..2], @intCast(field.name.len), .little);
        @memcpy(bytes[2..][0..field.name.len], field.name);
        bytes[2 + field.name.len] = @backingInt(field.type.tag);
        _ = schema.write_type_parameters(bytes[3 + field.name.len ..], field.type);
    }
}

test parse {
    const defaults = try parse("");
    try std.testing.expectEqual('"', defaults.quote);
    const wire = ";'\\\x01\x00\x02\x02\x00\x01\x00\x00\x00\x00\x02NA\x01\x00a\x01";
    const options = try parse(wire);
    try std.testing.expectEqual(abi.TextHeader.present, options.header);
    try std.testing.expectEqual(abi.JsonLayout.lines, options.json_layout);
    try std.testing.expectEqual(false, options.infer_types);
    try std.testing.expectEqualStrings("\x00\x02NA", options.null_strings);
    try std.testing.expectEqual(1, options.column_count);
    try std.testing.expectEqualStrings("\x01\x00a\x01", options.columns);
    for (1..16) |size| try std.testing.expectError(error.InvalidFormat, parse(wire[0..size]));
    const tail = "\x02\x01\x00\x00\x00\x00\x00\x00\x00";
    defer interrupt.forget();
    for ([_][]const u8{
        ",\"\x00" ++ "\x03\x01\x00\x00\x00\x00\x00\x00\x00",
        ",\"\x00" ++ "\x02\x02\x00\x00\x00\x00\x00\x00\x00",
        ",\"\x00" ++ "\x02\x01\x00\x00\x01\x00\x00\x00\x00",
        ",\"\x00" ++ tail ++ "x",
        ",,\x00" ++ tail,
        ",\"," ++ tail,
        "\n\"\x00" ++ tail,
        "\x80\"\x00" ++ tail,
        ", \x00" ++ tail,
    }) |bytes| try std.testing.expectError(error.InvalidFormat, parse(bytes));
}

test write {
    const gpa = std.testing.allocator;
    const builder = @import("builder.zig");
    var arena: @import("../../core/arena.zig").Arena = .init(gpa);
    defer arena.deinit();
    var bytes: std.ArrayList(u8) = .empty;
    defer bytes.deinit(gpa);
    const fields = [_]schema.Field{
        .{ .name = "größe", .type = .{ .tag = .decimal, .precision = 9, .scale = 2 } },
        .{ .name = "", .type = .of(.utf8) },
    };
    const given: Options = .{ .delimiter = ';', .null_string_count = 1, .null_strings = "\x02NA", .header = .absent };
    try write(gpa, &bytes, &given, &fields);
    const back = try parse(bytes.items);
    try std.testing.expectEqualStrings(given.null_strings, back.null_strings);
    try std.testing.expectEqual(given.header, back.header);
    const columns = try builder.read_declared(arena.allocator(), back.columns, back.column_count);
    for (fields, columns) |field, column| {
        try std.testing.expectEqualStrings(field.name, column.name);
        try std.testing.expect(field.type.eql(column.type));
    }
}
