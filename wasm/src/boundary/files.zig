//! Doors to files: footers, statistics, what a text looks like.
const std = @import("std");
const abi = @import("../abi.zig");
const bitmap = @import("../core/bitmap.zig");
const bounds_module = @import("../scan/bounds.zig");
const column_module = @import("../core/column.zig");
const evidence = @import("../format/evidence.zig");
const handles = @import("handles.zig");
const heap = @import("../core/heap.zig");
const interrupt = @import("../core/interrupt.zig");
const lance_deletions = @import("../format/lance/deletions.zig");
const lance_manifest = @import("../format/lance/manifest.zig");
const lance_sections = @import("../format/lance/manifest_sections.zig");
const page_list = @import("../format/parquet/page_list.zig");
const pipeline = @import("../pipeline.zig");
const qmcb = @import("../qmcb.zig");
const reader = @import("../format/reader.zig");
const scan_request = @import("../scan/request.zig");
const schema = @import("../core/schema.zig");
const text_options = @import("../format/text/options.zig");
const Arena = @import("../core/arena.zig").Arena;
const Cursor = @import("../core/cursor.zig").Cursor;
const Error = handles.Error;
const Expression = @import("../plan/expression.zig").Expression;
const File = reader.File;
const Status = abi.Status;
const Text = @import("../text_memory.zig").Text;
const file_of = handles.file_of;
const hand_over = handles.hand_over;
const input = handles.input;
const keep_answer = handles.keep_answer;
const query_of = handles.query_of;
const slot_of = handles.slot_of;
const status = handles.status;
const status_of = handles.status_of;
const write_output = handles.write_output;

// ---- files ----

/// The one filter of a plan over statistics.
pub fn prune_filter(query: *const pipeline.Query) Error!*const Expression {
    const nodes = query.plan.nodes;
    if (nodes.len == 1) if (nodes[0].predicate()) |predicate| return predicate;
    interrupt.describe("a plan over statistics is one filter", .{});
    return error.InvalidPlan;
}

pub fn bound_types(arena: std.mem.Allocator, query: *const pipeline.Query) Error![]schema.DataType {
    const types = try arena.alloc(schema.DataType, query.plan.input.len / evidence.bound_columns);
    for (types, 0..) |*data_type, i| data_type.* = query.plan.input[i * evidence.bound_columns].type;
    return types;
}

pub fn file_format(number: u32) Error!abi.FileFormat {
    return std.enums.fromInt(abi.FileFormat, number) orelse error.InvalidHandle;
}

fn footer(format: u32, address: u32, size: u32, file_size: u64, out: u32) Error!void {
    var arena: Arena = .init(heap.engine_allocator());
    defer arena.deinit();
    const found = try File.footer(arena.allocator(), try file_format(format), try input(address, size), file_size);
    try keep_answer(found orelse return error.InvalidHandle);
    try write_output(out, .{ .bytes = handles.answer, .state = .done });
}

pub fn qm_footer(
    format: u32,
    address: u32,
    size: u32,
    file_size_low: u32,
    file_size_high: u32,
    out: u32,
) callconv(.c) Status {
    interrupt.forget();
    return status(footer(format, address, size, @as(u64, file_size_high) << 32 | file_size_low, out));
}

fn manifest_part(format: u32, part: u32, address: u32, size: u32, out: u32) Error!void {
    if (format != @backingInt(abi.FileFormat.lance)) return error.InvalidHandle; // others have none
    const wanted = std.enums.fromInt(abi.ManifestPart, part) orelse return error.InvalidHandle;
    var arena: Arena = .init(heap.engine_allocator());
    defer arena.deinit();
    const bytes = try input(address, size);
    try keep_answer(switch (wanted) {
        .manifest => try lance_manifest.flatten(arena.allocator(), bytes),
        .data_file => try lance_manifest.of_data_file(arena.allocator(), bytes),
        .indices => try lance_sections.indices(arena.allocator(), bytes),
        .transaction => try lance_sections.transaction(arena.allocator(), bytes),
    });
    try write_output(out, .{ .bytes = handles.answer, .state = .done });
}

pub fn qm_manifest(format: u32, part: u32, address: u32, size: u32, out: u32) callconv(.c) Status {
    interrupt.forget();
    return status(manifest_part(format, part, address, size, out));
}

fn deletions(format: u32, kind: u32, bytes: []const u8, row_count: u64, out: u32) Error!void {
    if (format != @backingInt(abi.FileFormat.lance)) return error.InvalidHandle;
    const wanted = std.enums.fromInt(abi.RowList, kind) orelse return error.InvalidHandle;
    var arena: Arena = .init(heap.engine_allocator());
    defer arena.deinit();
    const found = try lance_deletions.read(arena.allocator(), wanted, bytes, row_count);
    try keep_answer(found.bits);
    const count = std.math.cast(u32, found.count) orelse return error.TooLarge;
    try write_output(out, .{ .bytes = handles.answer, .row_count = count, .state = .done });
}

pub fn qm_deletions(
    format: u32,
    kind: u32,
    address: u32,
    size: u32,
    row_count_low: u32,
    row_count_high: u32,
    out: u32,
) callconv(.c) Status {
    interrupt.forget();
    const bytes = input(address, size) catch |err| return status_of(err);
    return status(deletions(format, kind, bytes, @as(u64, row_count_high) << 32 | row_count_low, out));
}

fn file_open(format: u32, address: u32, size: u32, out: u32) Error!void {
    const file = try File.open(heap.engine_allocator(), try file_format(format), try input(address, size));
    errdefer file.close();
    try hand_over(.{ .file = file }, out);
}

pub fn qm_file_open(format: u32, address: u32, size: u32, out: u32) callconv(.c) Status {
    interrupt.forget();
    return status(file_open(format, address, size, out));
}

fn file_close(handle: u32) Error!void {
    (try file_of(handle)).close();
    (try slot_of(handle)).object = .free;
}

pub fn qm_file_close(file: u32) callconv(.c) Status {
    interrupt.forget();
    return status(file_close(file));
}

/// The files of a request over statistics, one after the other, with their batches of bounds.
const BoundFiles = struct {
    query: *pipeline.Query,
    format: abi.FileFormat,
    cursor: Cursor,
    left: u32,

    fn init(query: *pipeline.Query, format: u32, bytes: []const u8) Error!BoundFiles {
        var cursor: Cursor = .init(bytes);
        const left = try cursor.read_int(u32);
        const columns = @as(u64, try cursor.read_int(u32)) * evidence.bound_columns;
        if (columns != query.plan.input.len) return error.InvalidPlan;
        return .{ .query = query, .format = try file_format(format), .cursor = cursor, .left = left };
    }

    fn next(self: *BoundFiles, arena: std.mem.Allocator) Error!?column_module.Batch {
        if (self.left == 0) return null;
        self.left -= 1;
        try interrupt.check();
        // A file that is open already comes as address 0 and its handle.
        const address = try self.cursor.read_int(u32);
        const size = try self.cursor.read_int(u32);
        const file = if (address == 0) try file_of(size) else try File.open(
            arena,
            self.format,
            try input(address, size),
        );
        const bindings = try scan_request.read_bindings(arena, &self.cursor, self.query.plan.input, file);
        const columns = try bounds_module.piece_columns(arena, file, bindings, try bound_types(arena, self.query));
        return .{ .row_count = file.piece_count(), .columns = columns };
    }
};

fn prune_files(handle: u32, format: u32, address: u32, size: u32, out: u32) Error!void {
    const gpa = heap.engine_allocator();
    const query = try query_of(handle);
    const predicate = try prune_filter(query);
    var files: BoundFiles = try .init(query, format, try input(address, size));
    var kept: std.ArrayList(u8) = .empty;
    defer kept.deinit(gpa);
    var arena: Arena = .init(gpa);
    defer arena.deinit();
    while (try files.next(arena.allocator())) |batch| {
        const bits = try bounds_module.survivors(arena.allocator(), predicate, batch.columns, batch.row_count);
        for (0..batch.row_count) |i| try kept.append(gpa, @intFromBool(bitmap.get(bits.ptr, i)));
        _ = arena.reset(.retain_capacity);
    }
    try keep_answer(kept.items);
    try write_output(out, .{ .bytes = handles.answer, .state = .done });
}

pub fn qm_prune(query: u32, format: u32, address: u32, size: u32, out: u32) callconv(.c) Status {
    interrupt.forget();
    return status(prune_files(query, format, address, size, out));
}

fn push_bounds(handle: u32, format: u32, address: u32, size: u32, out: u32) Error!void {
    const query = try query_of(handle);
    var files: BoundFiles = try .init(query, format, try input(address, size));
    var arena: Arena = .init(heap.engine_allocator());
    defer arena.deinit();
    while (try files.next(arena.allocator())) |batch| {
        _ = try query.take(batch);
        _ = arena.reset(.retain_capacity);
    }
    try write_output(out, query.hand_over());
}

pub fn qm_bounds(query: u32, format: u32, address: u32, size: u32, out: u32) callconv(.c) Status {
    interrupt.forget();
    return status(push_bounds(query, format, address, size, out));
}

// ---- looking into files ----

/// A small batch as the handles.answer of a call.
fn answer_batch(names: []const []const u8, batch: column_module.Batch, out: u32) Error!void {
    const gpa = heap.engine_allocator();
    const size = std.math.cast(usize, try qmcb.encoded_size(names, batch)) orelse return error.TooLarge;
    const encoded = try gpa.alloc(u8, size);
    qmcb.encode(encoded, names, batch);
    gpa.free(handles.answer);
    handles.answer = encoded;
    try write_output(out, .{ .bytes = handles.answer, .row_count = batch.row_count, .state = .done });
}

fn leaf_bounds(handle: u32, leaf: u32, out: u32) Error!void {
    const any = try file_of(handle);
    if (any.of != .parquet) return error.InvalidHandle;
    const file = any.of.parquet;
    if (leaf >= file.leaves.len) return error.InvalidHandle;
    var arena: Arena = .init(heap.engine_allocator());
    defer arena.deinit();
    var columns = try file.leaf_bounds(arena.allocator(), leaf);
    for (&columns) |*column| if (column.type.tag == .utf8) {
        column.type = .of(.binary);
    };
    const names = comptime std.meta.fieldNames(abi.Statistic);
    try answer_batch(names, .{ .row_count = file.piece_count(), .columns = &columns }, out);
}

pub fn qm_leaf_bounds(file: u32, leaf: u32, out: u32) callconv(.c) Status {
    interrupt.forget();
    return status(leaf_bounds(file, leaf, out));
}

fn pages(format: u32, address: u32, size: u32, out: u32) Error!void {
    if (format != @backingInt(abi.FileFormat.parquet)) return error.InvalidHandle;
    var arena: Arena = .init(heap.engine_allocator());
    defer arena.deinit();
    try answer_batch(page_list.names, try page_list.list(arena.allocator(), try input(address, size)), out);
}

pub fn qm_pages(format: u32, address: u32, size: u32, out: u32) callconv(.c) Status {
    interrupt.forget();
    return status(pages(format, address, size, out));
}

// ---- text ----

fn text_open(format: u32, address: u32, size: u32, options: u32, options_size: u32, out: u32) Error!void {
    const known = std.enums.fromInt(abi.TextFormat, format) orelse return error.InvalidHandle;
    const given = try text_options.parse(try input(options, options_size));
    const text: *Text = try .open(heap.engine_allocator(), known, try input(address, size), given);
    errdefer text.close();
    try hand_over(.{ .text = text }, out);
}

pub fn qm_text_open(
    format: u32,
    address: u32,
    size: u32,
    options: u32,
    options_size: u32,
    out: u32,
) callconv(.c) Status {
    interrupt.forget();
    return status(text_open(format, address, size, options, options_size, out));
}

fn sniff_text(format: u32, address: u32, size: u32, options: []const u8, is_whole: u32, out: u32) Error!void {
    const known = try file_format(format);
    const found = try reader.sniff(heap.engine_allocator(), known, try input(address, size), options, is_whole != 0);
    heap.engine_allocator().free(handles.answer);
    handles.answer = found;
    try write_output(out, .{ .bytes = handles.answer, .state = .done });
}

pub fn qm_text_sniff(
    format: u32,
    address: u32,
    size: u32,
    options: u32,
    options_size: u32,
    is_whole: u32,
    out: u32,
) callconv(.c) Status {
    interrupt.forget();
    const given = input(options, options_size) catch |err| return status_of(err);
    return status(sniff_text(format, address, size, given, is_whole, out));
}
