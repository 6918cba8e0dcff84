//! What a text file looks like, from its first bytes: `abi.TextSniffed` and the settled options behind it.
const std = @import("std");
const abi = @import("../../abi.zig");
const builder_module = @import("builder.zig");
const csv_layout = @import("csv_layout.zig");
const failure = @import("failure.zig");
const infer = @import("infer.zig");
const interrupt = @import("../../core/interrupt.zig");
const json_layout = @import("json_layout.zig");
const options_module = @import("options.zig");
const schema = @import("../../core/schema.zig");
const Arena = @import("../../core/arena.zig").Arena;
const unpack = @import("../../codec/unpack.zig");
const Options = options_module.Options;

const Found = struct { rows_start: usize, row_count: usize, options: Options, fields: []const schema.Field };

/// Text of a packed head that is looked at.
const text_size_max = 1 << 20;

const Head = struct { text: []const u8, is_whole: bool, compression: abi.TextCompression };

/// The answer is the caller's. The head is readable for some bytes behind its end.
pub fn csv(gpa: std.mem.Allocator, bytes: []const u8, options: []const u8, is_all: bool) failure.Error![]u8 {
    return sniff(gpa, sniff_csv, bytes, options, is_all);
}

pub fn json(gpa: std.mem.Allocator, bytes: []const u8, options: []const u8, is_all: bool) failure.Error![]u8 {
    return sniff(gpa, sniff_json, bytes, options, is_all);
}

fn sniff(
    gpa: std.mem.Allocator,
    comptime find: fn (std.mem.Allocator, std.mem.Allocator, []const u8, Options, bool) failure.Error!Found,
    bytes: []const u8,
    options: []const u8,
    is_all: bool,
) failure.Error![]u8 {
    var arena: Arena = .init(gpa);
    defer arena.deinit();
    var window: unpack.Window = .{};
    defer window.deinit(gpa);
    const opened = try open_head(gpa, bytes, is_all, &window);
    const given = try options_module.parse(options);
    const found = try find(gpa, arena.allocator(), opened.text, given, opened.is_whole);
    var answer: std.ArrayList(u8) = .empty;
    errdefer answer.deinit(gpa);
    try answer.appendSlice(gpa, std.mem.asBytes(&abi.TextSniffed{
        .rows_start = found.rows_start,
        .row_count = std.math.lossyCast(u32, found.row_count),
        .compression = opened.compression,
    }));
    try options_module.write(gpa, &answer, &found.options, found.fields);
    return answer.toOwnedSlice(gpa);
}

fn open_head(gpa: std.mem.Allocator, bytes: []const u8, is_all: bool, window: *unpack.Window) failure.Error!Head {
    const kind = unpack.kind_of(bytes) orelse return .{ .text = bytes, .is_whole = is_all, .compression = .none };
    var stream: unpack.Stream = try .init(gpa, kind);
    defer stream.deinit(gpa);
    try window.make_room(gpa, 0, text_size_max + unpack.room_min);
    var from: usize = 0;
    const state = while (true) {
        const outcome = try stream.run(bytes[from..], is_all, window);
        from += outcome.used;
        if (outcome.state != .room or window.at >= text_size_max or outcome.used == 0) break outcome.state;
    };
    return .{
        .text = window.buffer[0..window.at],
        .is_whole = state == .end,
        .compression = switch (kind) {
            .gzip => .gzip,
            .zstd => .zstd,
        },
    };
}

fn sniff_csv(
    _: std.mem.Allocator,
    arena: std.mem.Allocator,
    head: []const u8,
    options: Options,
    is_whole: bool,
) failure.Error!Found {
    const layout: csv_layout.Layout = try .find(arena, head, options, .{
        .is_whole = is_whole,
        .record_count_max = abi.text_sample_rows,
    });
    var settled = options;
    settled.delimiter = layout.dialect.delimiter;
    settled.header = if (layout.has_header) .present else .absent;
    const first_counts: usize = @intFromBool(!layout.has_header and layout.rows_start < head.len);
    return .{
        .rows_start = layout.rows_start,
        .row_count = layout.record_count + first_counts,
        .options = settled,
        .fields = layout.fields,
    };
}

/// A column of which only NULLs were seen may turn out to be anything further on, and text holds anything.
fn sniff_json(
    gpa: std.mem.Allocator,
    arena: std.mem.Allocator,
    head: []const u8,
    options: Options,
    is_whole: bool,
) failure.Error!Found {
    const mark = csv_layout.byte_order_mark;
    const rows_start: usize = if (std.mem.startsWith(u8, head, mark)) mark.len else 0;
    var settled = options;
    settled.json_layout = .lines;
    if (options.column_count > 0) {
        const fields = try builder_module.read_declared(arena, options.columns, options.column_count);
        return .{ .rows_start = rows_start, .row_count = 0, .options = settled, .fields = fields };
    }
    // A character that the head cuts is not its fault.
    const end = if (is_whole) head.len else 1 + (std.mem.findScalarLast(u8, head, '\n') orelse return no_row(head.len));
    if (try infer.find_invalid_utf8(head[0..end])) |at|
        return (failure.Origin{}).fail(head, at, "not valid UTF-8", .{});
    const found = try json_layout.find(gpa, arena, try .init(head[0..end], .lines), .{
        .infer_types = options.infer_types,
        .is_whole = is_whole,
        .row_count_max = abi.text_sample_rows,
    });
    if (found.row_count == 0 and !is_whole) return no_row(head.len);
    const fields = try arena.dupe(schema.Field, found.fields);
    const is_all = is_whole and found.row_count < abi.text_sample_rows;
    if (!is_all) for (fields) |*field| {
        field.type = try without_null(arena, field.type);
    };
    return .{ .rows_start = rows_start, .row_count = found.row_count, .options = settled, .fields = fields };
}

fn no_row(size: usize) error{TooLarge} {
    interrupt.describe("no row ends within the first {d} bytes", .{size});
    return error.TooLarge;
}

fn without_null(arena: std.mem.Allocator, data_type: schema.DataType) error{OutOfMemory}!schema.DataType {
    if (data_type.tag == .null) return .of(.utf8);
    if (!data_type.is_nested()) return data_type;
    var copy = data_type;
    const children = try arena.dupe(schema.Field, data_type.children);
    for (children) |*child| child.type = try without_null(arena, child.type);
    copy.children = children;
    return copy;
}
