//! Doors to memory, batches and queries.
const std = @import("std");
const abi = @import("../abi.zig");
const batch_import = @import("../batch_import.zig");
const column_module = @import("../core/column.zig");
const handles = @import("handles.zig");
const heap = @import("../core/heap.zig");
const interrupt = @import("../core/interrupt.zig");
const pipeline = @import("../pipeline.zig");
const plan_module = @import("../plan/plan.zig");
const qmcb = @import("../qmcb.zig");
const Arena = @import("../core/arena.zig").Arena;
const Cursor = @import("../core/cursor.zig").Cursor;
const Error = handles.Error;
const ImportedBatch = handles.ImportedBatch;
const JoinTable = @import("../lookup/join_table.zig").JoinTable;
const Status = abi.Status;
const hand_over = handles.hand_over;
const input = handles.input;
const query_of = handles.query_of;
const resolve = handles.resolve;
const resolve_mutable = handles.resolve_mutable;
const slot_of = handles.slot_of;
const status = handles.status;
const write_output = handles.write_output;

// ---- memory ----

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
    const builds = try plan_module.build_handles(plan);
    const tables = try gpa.alloc(*JoinTable, builds.len);
    defer gpa.free(tables);
    for (tables, builds) |*table, handle|
        table.* = (try query_of(handle)).finished_table() orelse return error.InvalidHandle;
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
    if (std.enums.fromInt(abi.SourceKind, std.mem.readInt(u32, bytes[0..4], .little)) == null)
        return error.InvalidHandle;
    const source = std.mem.bytesToValue(abi.Source, bytes[0..@sizeOf(abi.Source)]);
    query.run_number = if (source.kind == .batch) 0 else source.handle;
    if (source.kind == .qmcb_list or source.kind == .states_list)
        return push_list(query, source.kind, try input(source.address, source.size), out);
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
