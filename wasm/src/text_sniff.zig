//! What a text file looks like, from its first bytes: `abi.TextSniffed` and the settled options behind it.
const std = @import("std");
const abi = @import("abi.zig");
const csv_layout = @import("format/text/csv_layout.zig");
const failure = @import("format/text/failure.zig");
const interrupt = @import("core/interrupt.zig");
const options_module = @import("format/text/options.zig");
const schema = @import("core/schema.zig");
const Arena = @import("core/arena.zig").Arena;
const Options = options_module.Options;

const Found = struct { rows_start: usize, row_count: usize, options: Options, fields: []const schema.Field };

/// The answer is the caller's.
pub fn sniff(gpa: std.mem.Allocator, format: abi.FileFormat, head: []const u8, options: Options, is_whole: bool) failure.Error![]u8 {
    var arena: Arena = .init(gpa);
    defer arena.deinit();
    const found = switch (format) {
        .csv => try sniff_csv(arena.allocator(), head, options, is_whole),
        .ndjson, .parquet => return refuse(),
    };
    var answer: std.ArrayList(u8) = .empty;
    errdefer answer.deinit(gpa);
    try answer.appendSlice(gpa, std.mem.asBytes(&abi.TextSniffed{
        .rows_start = found.rows_start,
        .row_count = std.math.lossyCast(u32, found.row_count),
        .compression = .none,
    }));
    try options_module.write(gpa, &answer, &found.options, found.fields);
    return answer.toOwnedSlice(gpa);
}

fn refuse() error{NotSupported} {
    interrupt.describe("not a format of text", .{});
    return error.NotSupported;
}

fn sniff_csv(arena: std.mem.Allocator, head: []const u8, options: Options, is_whole: bool) failure.Error!Found {
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
