//! Doors to scans: a piece of a file on its way into a query.
const std = @import("std");
const abi = @import("../abi.zig");
const bounds_module = @import("../scan/bounds.zig");
const driver = @import("../scan/driver.zig");
const files = @import("files.zig");
const handles = @import("handles.zig");
const heap = @import("../core/heap.zig");
const interrupt = @import("../core/interrupt.zig");
const reader = @import("../format/reader.zig");
const scan_request = @import("../scan/request.zig");
const Arena = @import("../core/arena.zig").Arena;
const Cursor = @import("../core/cursor.zig").Cursor;
const Error = handles.Error;
const File = reader.File;
const OpenScan = handles.OpenScan;
const Segment = @import("../format/segments.zig").Segment;
const Status = abi.Status;
const Stream = @import("../scan/stream.zig").Stream;
const file_of = handles.file_of;
const hand_over = handles.hand_over;
const input = handles.input;
const query_of = handles.query_of;
const slot_of = handles.slot_of;
const status = handles.status;
const write = handles.write;
const write_output = handles.write_output;

fn scan_open(query: u32, format: u32, address: u32, size: u32, out: u32) Error!void {
    const known = try files.file_format(format);
    if (reader.is_stream(known)) {
        try scan_open_stream(query, known, address, size, out);
    } else {
        try scan_open_piece(query, address, size, out);
    }
}

fn scan_open_stream(query_handle: u32, format: abi.FileFormat, address: u32, size: u32, out: u32) Error!void {
    const gpa = heap.engine_allocator();
    const query = try query_of(query_handle);
    var arena: Arena = .init(gpa);
    defer arena.deinit();
    var cursor: Cursor = .init(try input(address, size));
    const request = try scan_request.read_stream(&cursor);
    const file = try file_of(request.file);
    if (!file.is_of(format)) return error.InvalidHandle;
    const inputs = try scan_request.read_exact_inputs(arena.allocator(), &cursor, query.plan.input, file);
    const open = try gpa.create(OpenScan);
    errdefer gpa.destroy(open);
    const scan: *Stream = try .open(gpa, query, file, inputs, request.window_size, .{
        .start = request.start,
        .end = request.end,
        .is_exact = request.flags & abi.stream_exact_start != 0,
        .first_rows = request.first_rows,
    });
    errdefer scan.close();
    open.* = .{ .scan = .{ .stream = scan }, .query = query_handle, .file = request.file };
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
    if (request.piece >= file.piece_count()) return error.InvalidHandle;
    const inputs = try scan_request.read_inputs(arena.allocator(), &cursor, query.plan.input, file);
    const pruning = if (request.prune == 0) null else try scan_prune(arena.allocator(), &cursor, request.prune, file);
    if (request.prune != 0 and request.range_count != 0) return error.InvalidPlan;
    const row_count = file.piece_rows(request.piece);
    const ranges = try scan_request.read_ranges(arena.allocator(), &cursor, request.range_count, row_count);
    const open = try gpa.create(OpenScan);
    errdefer gpa.destroy(open);
    const scan: *driver.Scan = try .open(gpa, query, file, inputs, pruning, .{
        .piece = request.piece,
        .window_size = request.window_size,
        .verify_crc = request.flags & abi.scan_verify_crc != 0,
        .filter_first = request.flags & abi.scan_filter_first != 0,
        .plan_only = request.flags & abi.scan_plan_only != 0,
        .ranges = ranges,
        .deleted = try scan_request.read_deleted(&cursor, request.deleted_size, row_count),
    });
    errdefer scan.close();
    open.* = .{ .scan = .{ .piece = scan }, .query = query_handle, .file = request.file, .prune = request.prune };
    try hand_over(.{ .scan = open }, out);
}

fn scan_prune(arena: std.mem.Allocator, cursor: *Cursor, handle: u32, file: File) Error!bounds_module.Prune {
    const query = try query_of(handle);
    return .{
        .predicate = try files.prune_filter(query),
        .bindings = try scan_request.read_bindings(arena, cursor, query.plan.input, file),
        .probes = try scan_request.read_probes(arena, cursor, query.plan.input),
        .types = try files.bound_types(arena, query),
    };
}

pub fn qm_scan_open(query: u32, format: u32, address: u32, size: u32, out: u32) callconv(.c) Status {
    interrupt.forget();
    return status(scan_open(query, format, address, size, out));
}

fn scan_of(handle: u32) Error!*OpenScan {
    const slot = try slot_of(handle);
    const open = if (slot.object == .scan) slot.object.scan else return error.InvalidHandle;
    switch (open.scan) {
        inline else => |scan| {
            if (try query_of(open.query) != scan.query) return error.InvalidHandle;
            if (!scan.file.eql(try file_of(open.file))) return error.InvalidHandle;
        },
    }
    if (open.prune != 0) _ = try query_of(open.prune);
    return open;
}

fn scan_step(handle: u32, segments: u32, count: u32, out: u32) Error!void {
    const open = try scan_of(handle);
    const size = std.math.mul(u32, count, @sizeOf(abi.Segment)) catch return error.InvalidHandle;
    const bytes = try input(segments, size);
    for (0..count) |i| {
        const segment = std.mem.bytesToValue(abi.Segment, bytes[i * @sizeOf(abi.Segment) ..][0..@sizeOf(abi.Segment)]);
        const brought: Segment = .{
            .file = segment.file,
            .offset = segment.offset,
            .bytes = try input(segment.address, segment.size),
        };
        switch (open.scan) {
            inline else => |scan| try scan.add_segment(segment.owner, brought),
        }
    }
    const query = try query_of(open.query);
    const progress = switch (open.scan) {
        inline else => |scan| try scan.step(),
    };
    switch (progress) {
        .need_bytes => {
            switch (open.scan) {
                inline else => |scan| try write_needs(open, scan),
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

/// Addresses of the segments that a scan still uses.
const Live = struct {
    gpa: std.mem.Allocator,
    addresses: std.ArrayList(u32) = .empty,

    pub fn segment(self: *Live, used: Segment) error{OutOfMemory}!void {
        try self.addresses.append(self.gpa, @intCast(@intFromPtr(used.bytes.ptr)));
    }
};

fn write_needs(open: *OpenScan, scan: anytype) Error!void {
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
            .file = need.range.file,
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
    if (open.scan != .stream) return error.InvalidHandle;
    try write(abi.ScanExtent, out, open.scan.stream.reader.extent());
}

pub fn qm_scan_extent(scan: u32, out: u32) callconv(.c) Status {
    interrupt.forget();
    return status(scan_extent(scan, out));
}
