//! The doors: addresses → slices, handles → objects, Zig errors → Status. Computes nothing itself.
//!
//! The host is trusted to call from one thread at a time and to pass addresses it got from
//! `qm_alloc`; what lies there is not trusted. Addresses are still checked against memory's end,
//! because a wrong one is cheaper to find here than behind.
const std = @import("std");
const builtin = @import("builtin");
const abi = @import("abi.zig");
const batch_import = @import("batch_import.zig");
const bitmap = @import("core/bitmap.zig");
const column_module = @import("core/column.zig");
const heap = @import("core/heap.zig");
const interrupt = @import("core/interrupt.zig");
const flatten = @import("format/parquet/flatten.zig");
const page_list = @import("format/parquet/page_list.zig");
const pipeline = @import("pipeline.zig");
const plan_module = @import("plan/plan.zig");
const bounds_module = @import("scan/bounds.zig");
const driver = @import("scan/driver.zig");
const evidence = @import("format/evidence.zig");
const reader = @import("format/reader.zig");
const scan_request = @import("scan/request.zig");
const qmcb = @import("qmcb.zig");
const schema = @import("core/schema.zig");
const text_options = @import("format/text/options.zig");
const text_scan = @import("text_scan.zig");
const text_sniff = @import("text_sniff.zig");
const Arena = @import("core/arena.zig").Arena;
const Cursor = @import("core/cursor.zig").Cursor;
const File = reader.File;
const JoinTable = @import("lookup/join_table.zig").JoinTable;
const Segment = @import("format/segments.zig").Segment;
const Text = @import("text_memory.zig").Text;
const TextScan = @import("text_scan.zig").TextScan;
const Status = abi.Status;

const Error = pipeline.Error || qmcb.Error || batch_import.Error || text_scan.Error || driver.Error ||
    scan_request.Error || flatten.Error || page_list.Error || error{InvalidHandle};

/// Every error of every room has its Status here; a new one does not compile until it has.
fn status_of(err: Error) Status {
    return switch (err) {
        error.Cancelled => .cancelled,
        error.InvalidAggregate => .invalid_aggregate,
        error.InvalidFilter => .invalid_filter,
        error.InvalidFormat => .invalid_format,
        error.InvalidHandle => .invalid_handle,
        error.InvalidPlan => .invalid_plan,
        error.NotSupported => .not_supported,
        error.OutOfMemory => .memory_exceeded,
        error.OutOfRange => .out_of_range,
        error.SchemaMismatch => .schema_mismatch,
        error.TooLarge => .too_large,
    };
}

fn status(result: Error!void) Status {
    result catch |err| return status_of(err);
    return .ok;
}

// ---- memory ----

fn resolve(address: u32, size: u32) ?[]const u8 {
    return resolve_mutable(address, size);
}

fn resolve_mutable(address: u32, size: u32) ?[]u8 {
    const end: u64 = @as(u64, @wasmMemorySize(0)) * 65_536;
    if (address == 0 or @as(u64, address) + size > end) return null;
    return @as([*]u8, @ptrFromInt(address))[0..size];
}

fn input(address: u32, size: u32) Error![]const u8 {
    if (size == 0) return &.{};
    return resolve(address, size) orelse {
        interrupt.describe("address {d} of {d} bytes lies outside of memory", .{ address, size });
        return error.InvalidHandle;
    };
}

fn write(comptime T: type, address: u32, value: T) Error!void {
    const bytes = resolve_mutable(address, @sizeOf(T)) orelse return error.InvalidHandle;
    @memcpy(bytes, std.mem.asBytes(&value));
}

pub fn qm_abi_version() callconv(.c) u32 {
    return abi.version;
}

pub fn qm_control() callconv(.c) u32 {
    return @intCast(@intFromPtr(&interrupt.control));
}

pub fn qm_alloc(size: u32) callconv(.c) u32 {
    const memory = heap.engine_allocator().alignedAlloc(u8, .@"64", size) catch return 0;
    return if (size == 0) heap.block_size else @intCast(@intFromPtr(memory.ptr));
}

pub fn qm_free(address: u32, size: u32) callconv(.c) Status {
    interrupt.forget();
    if (size == 0) return .ok;
    const memory = resolve_mutable(address, size) orelse return .invalid_handle;
    if (address % heap.block_size != 0) return .invalid_handle;
    heap.engine_allocator().free(@as([]align(64) u8, @alignCast(memory)));
    return .ok;
}

// ---- handles ----

const ImportedBatch = struct {
    arena: Arena,
    batch: column_module.Batch,
};

/// A scan, with the handles it was opened with: they must still stand for the same objects.
const OpenScan = struct {
    scan: union(enum) { piece: *driver.Scan, text: *TextScan },
    query: u32,
    file: u32 = 0,
    prune: u32 = 0,
    /// What the last step asked for.
    needs: std.ArrayList(u8) = .empty,
};

const Object = union(enum) {
    free,
    batch: *ImportedBatch,
    query: *pipeline.Query,
    text: *Text,
    file: File,
    scan: *OpenScan,
};

const Slot = struct { object: Object = .free, generation: u8 = 0 };

var slots: std.ArrayList(Slot) = .empty;

/// A handle is a slot and its generation, so that one used after closing is refused.
fn open_handle(object: Object) Error!u32 {
    const index = for (slots.items, 0..) |slot, i| {
        if (slot.object == .free) break i;
    } else blk: {
        try slots.append(heap.engine_allocator(), .{});
        break :blk slots.items.len - 1;
    };
    if (index >= 1 << 24) return error.InvalidHandle;
    const slot = &slots.items[index];
    slot.object = object;
    slot.generation = if (slot.generation == 0xFF) 1 else slot.generation + 1;
    return @as(u32, slot.generation) << 24 | @as(u32, @intCast(index));
}

/// Opens a handle and tells it. Where it could not be told, nothing is opened.
fn hand_over(object: Object, out: u32) Error!void {
    const target = resolve_mutable(out, @sizeOf(u32)) orelse return error.InvalidHandle;
    const handle = try open_handle(object);
    @memcpy(target, std.mem.asBytes(&handle));
}

fn slot_of(handle: u32) Error!*Slot {
    const index = handle & 0xFF_FFFF;
    if (index >= slots.items.len) return error.InvalidHandle;
    const slot = &slots.items[index];
    if (slot.object == .free or slot.generation != handle >> 24) return error.InvalidHandle;
    return slot;
}

fn query_of(handle: u32) Error!*pipeline.Query {
    const slot = try slot_of(handle);
    return switch (slot.object) {
        .query => |query| query,
        else => error.InvalidHandle,
    };
}

// ---- batches ----

fn batch_open(address: u32, size: u32, out: u32) Error!void {
    const gpa = heap.engine_allocator();
    const batch = try gpa.create(ImportedBatch);
    errdefer gpa.destroy(batch);
    batch.arena = .init(gpa);
    errdefer batch.arena.deinit();
    batch.batch = try batch_import.import(batch.arena.allocator(), try input(address, size), resolve);
    try hand_over(.{ .batch = batch }, out);
}

pub fn qm_batch_open(address: u32, size: u32, out: u32) callconv(.c) Status {
    interrupt.forget();
    return status(batch_open(address, size, out));
}

fn batch_close(handle: u32) Error!void {
    const slot = try slot_of(handle);
    const batch = switch (slot.object) {
        .batch => |batch| batch,
        else => return error.InvalidHandle,
    };
    batch.arena.deinit();
    heap.engine_allocator().destroy(batch);
    slot.object = .free;
}

pub fn qm_batch_close(handle: u32) callconv(.c) Status {
    interrupt.forget();
    return status(batch_close(handle));
}

// ---- queries ----

fn query_open(address: u32, size: u32, out: u32) Error!void {
    const gpa = heap.engine_allocator();
    const plan = try input(address, size);
    const handles = try plan_module.build_handles(plan);
    const tables = try gpa.alloc(*JoinTable, handles.len);
    defer gpa.free(tables);
    for (tables, handles) |*table, handle| table.* = (try query_of(handle)).finished_table() orelse return error.InvalidHandle;
    const query = try pipeline.Query.open(gpa, plan, tables);
    errdefer query.close();
    try hand_over(.{ .query = query }, out);
}

pub fn qm_query_open(address: u32, size: u32, out: u32) callconv(.c) Status {
    interrupt.forget();
    return status(query_open(address, size, out));
}

fn query_lend(handle: u32) Error!void {
    try (try query_of(handle)).lend();
}

pub fn qm_query_lend(query: u32) callconv(.c) Status {
    interrupt.forget();
    return status(query_lend(query));
}

fn write_output(out: u32, output: pipeline.Output) Error!void {
    try write(abi.Output, out, .{
        .address = if (output.bytes.len == 0) 0 else @intCast(@intFromPtr(output.bytes.ptr)),
        .size = @intCast(output.bytes.len),
        .row_count = output.row_count,
        .partition = output.partition,
        .state = switch (output.state) {
            .need_input => .need_input,
            .more_output => .more_output,
            .done => .done,
            .need_bytes => .need_bytes,
            .again => .again,
        },
    });
}

/// Columns of several opened batches as one batch. `size` 0 and no reference: nothing to read.
fn gather_columns(arena: std.mem.Allocator, bytes: []const u8) Error!column_module.Batch {
    const count = bytes.len / @sizeOf(abi.ColumnReference);
    const columns = try arena.alloc(column_module.Column, count);
    for (columns, 0..) |*column, i| {
        const at = bytes[i * @sizeOf(abi.ColumnReference) ..][0..@sizeOf(abi.ColumnReference)];
        const reference = std.mem.bytesToValue(abi.ColumnReference, at);
        const slot = try slot_of(reference.batch);
        if (slot.object != .batch) return error.InvalidHandle;
        const batch = slot.object.batch.batch;
        if (reference.column >= batch.columns.len) return error.InvalidHandle;
        column.* = batch.columns[reference.column];
        if (column.row_count != columns[0].row_count) return error.InvalidHandle;
    }
    return .{ .row_count = if (count == 0) 0 else columns[0].row_count, .columns = columns };
}

fn query_push(handle: u32, source_address: u32, out: u32) Error!void {
    const query = try query_of(handle);
    const bytes = try input(source_address, @sizeOf(abi.Source));
    if (std.enums.fromInt(abi.SourceKind, std.mem.readInt(u32, bytes[0..4], .little)) == null) return error.InvalidHandle;
    const source = std.mem.bytesToValue(abi.Source, bytes[0..@sizeOf(abi.Source)]);
    query.run_number = if (source.kind == .batch) 0 else source.handle;
    if (source.kind == .qmcb_list or source.kind == .states_list) return push_list(query, source.kind, try input(source.address, source.size), out);
    if (source.kind == .lanes) return push_lanes(query, try input(source.address, source.size), out);
    var arena: Arena = .init(heap.engine_allocator());
    defer arena.deinit();
    const batch = switch (source.kind) {
        .qmcb_list, .states_list, .lanes => unreachable,
        .descriptor => try batch_import.import(arena.allocator(), try input(source.address, source.size), resolve),
        .batch => blk: {
            const slot = try slot_of(source.handle);
            break :blk if (slot.object == .batch) slot.object.batch.batch else return error.InvalidHandle;
        },
        .columns => try gather_columns(arena.allocator(), try input(source.address, source.size)),
        .qmcb => (try qmcb.decode(arena.allocator(), try input(source.address, source.size))).batch,
    };
    try write_output(out, try query.push(batch));
}

/// Several small batches by one call: the answers of many lanes on their way to the final plan.
fn push_list(query: *pipeline.Query, kind: abi.SourceKind, bytes: []const u8, out: u32) Error!void {
    var arena: Arena = .init(heap.engine_allocator());
    defer arena.deinit();
    var cursor: Cursor = .init(bytes);
    var saturated = false;
    while (cursor.remaining() > 0 and !saturated) {
        _ = arena.reset(.retain_capacity);
        const part = try cursor.read_bytes(try cursor.read_int(u32));
        const batch = (try qmcb.decode(arena.allocator(), part)).batch;
        saturated = if (kind == .states_list) try query.take_states(batch) else try query.take(batch);
    }
    try write_output(out, query.hand_over());
}

fn push_lanes(query: *pipeline.Query, bytes: []const u8, out: u32) Error!void {
    if (query.has_partitions()) {
        interrupt.describe("a list of lanes does not say partitions", .{});
        return error.InvalidPlan;
    }
    var arena: Arena = .init(heap.engine_allocator());
    defer arena.deinit();
    var cursor: Cursor = .init(bytes);
    while (cursor.remaining() > 0) {
        var saturated = false;
        for (0..try cursor.read_int(u32)) |_| {
            _ = arena.reset(.retain_capacity);
            const size = @as(u64, try cursor.read_int(u32)) * @sizeOf(abi.ColumnReference);
            const batch = try gather_columns(arena.allocator(), try cursor.read_bytes(size));
            if (!saturated) saturated = try query.take(batch);
        }
        try query.complete();
    }
    try write_output(out, try query.hand_over_list());
}

pub fn qm_query_push(query: u32, source: u32, out: u32) callconv(.c) Status {
    interrupt.forget();
    return status(query_push(query, source, out));
}

fn query_finish(handle: u32, out: u32) Error!void {
    const query = try query_of(handle);
    try write_output(out, try query.finish());
}

pub fn qm_query_finish(query: u32, out: u32) callconv(.c) Status {
    interrupt.forget();
    return status(query_finish(query, out));
}

fn query_next(handle: u32, out: u32) Error!void {
    const slot = try slot_of(handle);
    try write_output(out, switch (slot.object) {
        .query => |query| try query.next(),
        .text => |text| try text.next(),
        .batch, .file, .scan, .free => return error.InvalidHandle,
    });
}

pub fn qm_query_next(query: u32, out: u32) callconv(.c) Status {
    interrupt.forget();
    return status(query_next(query, out));
}

fn query_close(handle: u32) Error!void {
    const slot = try slot_of(handle);
    switch (slot.object) {
        .query => |query| query.close(),
        .text => |text| text.close(),
        .batch, .file, .scan, .free => return error.InvalidHandle,
    }
    slot.object = .free;
}

pub fn qm_query_close(query: u32) callconv(.c) Status {
    interrupt.forget();
    return status(query_close(query));
}

fn query_profile(handle: u32, out: u32) Error!void {
    const query = try query_of(handle);
    try write_output(out, .{ .bytes = std.mem.sliceAsBytes(query.row_counts), .state = .done });
}

pub fn qm_query_profile(query: u32, out: u32) callconv(.c) Status {
    interrupt.forget();
    return status(query_profile(query, out));
}

// ---- files ----

/// What the last `qm_footer`, `qm_prune`, `qm_leaf_bounds` or `qm_pages` left.
var answer: []u8 = &.{};

fn keep_answer(bytes: []const u8) Error!void {
    const gpa = heap.engine_allocator();
    const copy = try gpa.dupe(u8, bytes);
    gpa.free(answer);
    answer = copy;
}

fn file_format(number: u32) Error!abi.FileFormat {
    return std.enums.fromInt(abi.FileFormat, number) orelse error.InvalidHandle;
}

fn footer(format: u32, address: u32, size: u32, file_size: u64, out: u32) Error!void {
    if (format != @backingInt(abi.FileFormat.parquet)) return error.InvalidHandle; // text has none
    var arena: Arena = .init(heap.engine_allocator());
    defer arena.deinit();
    try keep_answer(try flatten.flatten(arena.allocator(), try input(address, size), file_size));
    try write_output(out, .{ .bytes = answer, .state = .done });
}

pub fn qm_footer(format: u32, address: u32, size: u32, file_size_low: u32, file_size_high: u32, out: u32) callconv(.c) Status {
    interrupt.forget();
    return status(footer(format, address, size, @as(u64, file_size_high) << 32 | file_size_low, out));
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

fn file_of(handle: u32) Error!File {
    const slot = try slot_of(handle);
    return if (slot.object == .file) slot.object.file else error.InvalidHandle;
}

fn file_close(handle: u32) Error!void {
    (try file_of(handle)).close();
    (try slot_of(handle)).object = .free;
}

pub fn qm_file_close(file: u32) callconv(.c) Status {
    interrupt.forget();
    return status(file_close(file));
}

/// The one filter of a plan over statistics.
fn prune_filter(query: *const pipeline.Query) Error!*const @import("plan/expression.zig").Expression {
    const nodes = query.plan.nodes;
    if (nodes.len == 1) if (nodes[0].predicate()) |predicate| return predicate;
    interrupt.describe("a plan over statistics is one filter", .{});
    return error.InvalidPlan;
}

fn bound_types(arena: std.mem.Allocator, query: *const pipeline.Query) Error![]schema.DataType {
    const types = try arena.alloc(schema.DataType, query.plan.input.len / evidence.bound_columns);
    for (types, 0..) |*data_type, i| data_type.* = query.plan.input[i * evidence.bound_columns].type;
    return types;
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
        const file = if (address == 0) try file_of(size) else try File.open(arena, self.format, try input(address, size));
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
    try write_output(out, .{ .bytes = answer, .state = .done });
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

/// A small batch as the answer of a call.
fn answer_batch(names: []const []const u8, batch: column_module.Batch, out: u32) Error!void {
    const gpa = heap.engine_allocator();
    const size = std.math.cast(usize, try qmcb.encoded_size(names, batch)) orelse return error.TooLarge;
    const encoded = try gpa.alloc(u8, size);
    qmcb.encode(encoded, names, batch);
    gpa.free(answer);
    answer = encoded;
    try write_output(out, .{ .bytes = answer, .row_count = batch.row_count, .state = .done });
}

fn leaf_bounds(handle: u32, leaf: u32, out: u32) Error!void {
    const file = switch ((try file_of(handle)).of) {
        .parquet => |parquet| parquet,
    };
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

// ---- scans ----

fn scan_open(query: u32, format: u32, address: u32, size: u32, out: u32) Error!void {
    switch (try file_format(format)) {
        .csv, .ndjson => |known| try scan_open_text(query, known, address, size, out),
        else => try scan_open_piece(query, address, size, out),
    }
}

fn scan_open_text(query_handle: u32, format: abi.FileFormat, address: u32, size: u32, out: u32) Error!void {
    const gpa = heap.engine_allocator();
    const query = try query_of(query_handle);
    var arena: Arena = .init(gpa);
    defer arena.deinit();
    var cursor: Cursor = .init(try input(address, size));
    const options = try scan_request.read_text(&cursor, format);
    const inputs = try scan_request.read_text_inputs(arena.allocator(), &cursor, query.plan.input, &options.text);
    const open = try gpa.create(OpenScan);
    errdefer gpa.destroy(open);
    const scan: *TextScan = try .open(gpa, query, inputs, options);
    errdefer scan.close();
    open.* = .{ .scan = .{ .text = scan }, .query = query_handle };
    try hand_over(.{ .scan = open }, out);
}

fn scan_open_piece(query_handle: u32, address: u32, size: u32, out: u32) Error!void {
    const gpa = heap.engine_allocator();
    const query = try query_of(query_handle);
    var arena: Arena = .init(gpa);
    defer arena.deinit();
    var cursor: Cursor = .init(try input(address, size));
    const request = try scan_request.read_header(&cursor);
    const file = try file_of(request.file);
    if (request.row_group >= file.piece_count()) return error.InvalidHandle;
    const inputs = try scan_request.read_inputs(arena.allocator(), &cursor, query.plan.input, file);
    const pruning = if (request.prune == 0) null else try scan_prune(arena.allocator(), &cursor, request.prune, file);
    if (request.prune != 0 and request.range_count != 0) return error.InvalidPlan;
    const row_count = file.piece_rows(request.row_group);
    const open = try gpa.create(OpenScan);
    errdefer gpa.destroy(open);
    const scan: *driver.Scan = try .open(gpa, query, file, inputs, pruning, .{
        .piece = request.row_group,
        .window_size = request.window_size,
        .verify_crc = request.flags & abi.scan_verify_crc != 0,
        .filter_first = request.flags & abi.scan_filter_first != 0,
        .plan_only = request.flags & abi.scan_plan_only != 0,
        .ranges = try scan_request.read_ranges(arena.allocator(), &cursor, request.range_count, row_count),
    });
    errdefer scan.close();
    open.* = .{ .scan = .{ .piece = scan }, .query = query_handle, .file = request.file, .prune = request.prune };
    try hand_over(.{ .scan = open }, out);
}

fn scan_prune(arena: std.mem.Allocator, cursor: *Cursor, handle: u32, file: File) Error!bounds_module.Prune {
    const query = try query_of(handle);
    return .{
        .predicate = try prune_filter(query),
        .bindings = try scan_request.read_bindings(arena, cursor, query.plan.input, file),
        .probes = try scan_request.read_probes(arena, cursor, query.plan.input),
        .types = try bound_types(arena, query),
    };
}

pub fn qm_scan_open(query: u32, format: u32, address: u32, size: u32, out: u32) callconv(.c) Status {
    interrupt.forget();
    return status(scan_open(query, format, address, size, out));
}

fn scan_of(handle: u32) Error!*OpenScan {
    const slot = try slot_of(handle);
    const open = if (slot.object == .scan) slot.object.scan else return error.InvalidHandle;
    const query = switch (open.scan) {
        inline else => |scan| scan.query,
    };
    if (try query_of(open.query) != query) return error.InvalidHandle;
    if (open.scan == .piece and !open.scan.piece.file.eql(try file_of(open.file))) return error.InvalidHandle;
    if (open.prune != 0) _ = try query_of(open.prune);
    return open;
}

fn scan_step(handle: u32, segments: u32, count: u32, out: u32) Error!void {
    const open = try scan_of(handle);
    const size = std.math.mul(u32, count, @sizeOf(abi.Segment)) catch return error.InvalidHandle;
    const bytes = try input(segments, size);
    for (0..count) |i| {
        const segment = std.mem.bytesToValue(abi.Segment, bytes[i * @sizeOf(abi.Segment) ..][0..@sizeOf(abi.Segment)]);
        const brought: Segment = .{ .offset = segment.offset, .bytes = try input(segment.address, segment.size) };
        switch (open.scan) {
            .piece => |scan| try scan.add_segment(segment.owner, brought),
            .text => |scan| try scan.add_segment(brought),
        }
    }
    const query = try query_of(open.query);
    const progress = switch (open.scan) {
        inline else => |scan| try scan.step(),
    };
    switch (progress) {
        .need_bytes => {
            switch (open.scan) {
                .piece => |scan| try write_needs(open, scan),
                .text => |scan| try write_text_need(open, scan),
            }
            try write_output(out, .{ .bytes = open.needs.items, .state = .need_bytes });
        },
        .output => {
            var output = query.hand_over();
            output.state = .again;
            try write_output(out, output);
        },
        .done => try write_output(out, query.hand_over()),
    }
}

fn write_text_need(open: *OpenScan, scan: *const TextScan) Error!void {
    const gpa = heap.engine_allocator();
    const need = scan.need.?;
    const is_planned = scan.request.flags & abi.scan_plan_only != 0;
    const step_bits: u32 = if (scan.stage == .done) abi.plan_last else abi.plan_round;
    open.needs.clearRetainingCapacity();
    // Nothing that was brought before is used any more.
    try open.needs.appendSlice(gpa, std.mem.asBytes(&abi.NeedHeader{
        .need_count = 1,
        .live_count = 0,
        .plan = if (is_planned) step_bits else 0,
        .is_index = 0,
    }));
    const wire: abi.Need = .{ .offset = need.offset, .size = @intCast(need.size), .owner = 0 };
    try open.needs.appendSlice(gpa, std.mem.asBytes(&wire));
}

/// Addresses of the segments that a scan still uses.
const Live = struct {
    gpa: std.mem.Allocator,
    addresses: std.ArrayList(u32) = .empty,

    pub fn segment(self: *Live, used: Segment) error{OutOfMemory}!void {
        try self.addresses.append(self.gpa, @intCast(@intFromPtr(used.bytes.ptr)));
    }
};

fn write_needs(open: *OpenScan, scan: *const driver.Scan) Error!void {
    const gpa = heap.engine_allocator();
    open.needs.clearRetainingCapacity();
    var live: Live = .{ .gpa = gpa };
    defer live.addresses.deinit(gpa);
    try scan.reader.each_segment(&live);
    const header: abi.NeedHeader = .{
        .need_count = @intCast(scan.needs.items.len),
        .live_count = @intCast(live.addresses.items.len),
        .plan = scan.plan_bits(),
        .is_index = @intFromBool(scan.needs_evidence()),
    };
    try open.needs.appendSlice(gpa, std.mem.asBytes(&header));
    for (scan.needs.items) |need| {
        const wire: abi.Need = .{
            .offset = need.range.offset,
            .size = std.math.cast(u32, need.range.size) orelse return error.TooLarge,
            .owner = need.owner,
        };
        try open.needs.appendSlice(gpa, std.mem.asBytes(&wire));
    }
    try open.needs.appendSlice(gpa, std.mem.sliceAsBytes(live.addresses.items));
}

pub fn qm_scan_step(scan: u32, segments: u32, count: u32, out: u32) callconv(.c) Status {
    interrupt.forget();
    return status(scan_step(scan, segments, count, out));
}

fn scan_close(handle: u32) Error!void {
    const gpa = heap.engine_allocator();
    const slot = try slot_of(handle);
    const open = if (slot.object == .scan) slot.object.scan else return error.InvalidHandle;
    open.needs.deinit(gpa);
    switch (open.scan) {
        inline else => |scan| scan.close(),
    }
    gpa.destroy(open);
    slot.object = .free;
}

pub fn qm_scan_close(scan: u32) callconv(.c) Status {
    interrupt.forget();
    return status(scan_close(scan));
}

fn scan_extent(handle: u32, out: u32) Error!void {
    const slot = try slot_of(handle);
    const open = if (slot.object == .scan) slot.object.scan else return error.InvalidHandle;
    if (open.scan != .text) return error.InvalidHandle;
    try write(abi.ScanExtent, out, open.scan.text.extent);
}

pub fn qm_scan_extent(scan: u32, out: u32) callconv(.c) Status {
    interrupt.forget();
    return status(scan_extent(scan, out));
}

// ---- text ----

fn text_open(format: u32, address: u32, size: u32, options: u32, options_size: u32, out: u32) Error!void {
    const known = std.enums.fromInt(abi.TextFormat, format) orelse return error.InvalidHandle;
    const given = try text_options.parse(try input(options, options_size));
    const text: *Text = try .open(heap.engine_allocator(), known, try input(address, size), given);
    errdefer text.close();
    try hand_over(.{ .text = text }, out);
}

pub fn qm_text_open(format: u32, address: u32, size: u32, options: u32, options_size: u32, out: u32) callconv(.c) Status {
    interrupt.forget();
    return status(text_open(format, address, size, options, options_size, out));
}

fn sniff_text(format: u32, address: u32, size: u32, options: []const u8, is_whole: u32, out: u32) Error!void {
    const known = std.enums.fromInt(abi.FileFormat, format) orelse return error.InvalidHandle;
    const given = try text_options.parse(options);
    const found = try text_sniff.sniff(heap.engine_allocator(), known, try input(address, size), given, is_whole != 0);
    heap.engine_allocator().free(answer);
    answer = found;
    try write_output(out, .{ .bytes = answer, .state = .done });
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

comptime {
    std.debug.assert(builtin.cpu.arch.isWasm());
}
