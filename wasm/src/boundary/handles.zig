//! What all doors share: addresses → slices, handles → objects, Zig errors → Status.
//!
//! The host is trusted to call from one thread at a time and to pass addresses it got from
//! `qm_alloc`; what lies there is not trusted. Addresses are still checked against memory's end,
//! because a wrong one is cheaper to find here than behind.
const std = @import("std");
const builtin = @import("builtin");
const abi = @import("../abi.zig");
const batch_import = @import("../batch_import.zig");
const column_module = @import("../core/column.zig");
const driver = @import("../scan/driver.zig");
const flatten = @import("../format/parquet/flatten.zig");
const heap = @import("../core/heap.zig");
const interrupt = @import("../core/interrupt.zig");
const page_list = @import("../format/parquet/page_list.zig");
const pipeline = @import("../pipeline.zig");
const qmcb = @import("../qmcb.zig");
const scan_request = @import("../scan/request.zig");
const stream = @import("../scan/stream.zig");
const Arena = @import("../core/arena.zig").Arena;
const File = @import("../format/reader.zig").File;
const Status = abi.Status;
const Text = @import("../text_memory.zig").Text;

pub const Error = pipeline.Error || qmcb.Error || batch_import.Error || stream.Error || driver.Error ||
    scan_request.Error || flatten.Error || page_list.Error || error{InvalidHandle};

/// Every error of every room has its Status here; a new one does not compile until it has.
pub fn status_of(err: Error) Status {
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

pub fn status(result: Error!void) Status {
    result catch |err| return status_of(err);
    return .ok;
}

// ---- memory ----

pub fn resolve(address: u32, size: u32) ?[]const u8 {
    return resolve_mutable(address, size);
}

pub fn resolve_mutable(address: u32, size: u32) ?[]u8 {
    const end: u64 = @as(u64, @wasmMemorySize(0)) * 65_536;
    if (address == 0 or @as(u64, address) + size > end) return null;
    return @as([*]u8, @ptrFromInt(address))[0..size];
}

pub fn input(address: u32, size: u32) Error![]const u8 {
    if (size == 0) return &.{};
    return resolve(address, size) orelse {
        interrupt.describe("address {d} of {d} bytes lies outside of memory", .{ address, size });
        return error.InvalidHandle;
    };
}

pub fn write(comptime T: type, address: u32, value: T) Error!void {
    const bytes = resolve_mutable(address, @sizeOf(T)) orelse return error.InvalidHandle;
    @memcpy(bytes, std.mem.asBytes(&value));
}

// ---- handles ----

pub const ImportedBatch = struct {
    arena: Arena,
    batch: column_module.Batch,
};

/// A scan, with the handles it was opened with: they must still stand for the same objects.
pub const OpenScan = struct {
    scan: union(enum) { piece: *driver.Scan, stream: *stream.Stream },
    query: u32,
    file: u32,
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
pub fn hand_over(object: Object, out: u32) Error!void {
    const target = resolve_mutable(out, @sizeOf(u32)) orelse return error.InvalidHandle;
    const handle = try open_handle(object);
    @memcpy(target, std.mem.asBytes(&handle));
}

pub fn slot_of(handle: u32) Error!*Slot {
    const index = handle & 0xFF_FFFF;
    if (index >= slots.items.len) return error.InvalidHandle;
    const slot = &slots.items[index];
    if (slot.object == .free or slot.generation != handle >> 24) return error.InvalidHandle;
    return slot;
}

pub fn query_of(handle: u32) Error!*pipeline.Query {
    const slot = try slot_of(handle);
    return switch (slot.object) {
        .query => |query| query,
        else => error.InvalidHandle,
    };
}

pub fn file_of(handle: u32) Error!File {
    const slot = try slot_of(handle);
    return if (slot.object == .file) slot.object.file else error.InvalidHandle;
}

// ---- answers ----

pub fn write_output(out: u32, output: pipeline.Output) Error!void {
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

/// What the last `qm_footer`, `qm_manifest`, `qm_deletions`, `qm_prune`, `qm_leaf_bounds` or `qm_pages` left.
pub var answer: []u8 = &.{};

pub fn keep_answer(bytes: []const u8) Error!void {
    const gpa = heap.engine_allocator();
    const copy = try gpa.dupe(u8, bytes);
    gpa.free(answer);
    answer = copy;
}

comptime {
    std.debug.assert(builtin.cpu.arch.isWasm());
}
