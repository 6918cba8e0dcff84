//! What the host says when it opens a scan or prunes: where the columns of a plan come from in a file.
//!
//!     column      u32 of the file's places (top-level columns, then fields of structures), or one of
//!                 `constant`  a value follows, as in plans: the same in every row
//!                 `missing`   NULL in every row
//!                 `unknown`   pruning only: nothing is known of it
//!     scan        ScanRequest, input_count × column; when it prunes: prune_count × column, probes;
//!                 range_count × (u32 first row, u32 behind the last), rising; deleted_size bytes of bits
//!     stream      StreamRequest, input_count × column
//!     probes      u32 count × (u32 column of the pruning, u32 values × value): one of them must be there
//!     prune       u32 files, u32 columns; files × (u32 address, u32 size of a flat footer, columns × column)
const std = @import("std");
const abi = @import("../abi.zig");
const evidence = @import("../format/evidence.zig");
const expression_module = @import("../plan/expression.zig");
const interrupt = @import("../core/interrupt.zig");
const plan_module = @import("../plan/plan.zig");
const Column = @import("../core/column.zig").Column;
const Cursor = @import("../core/cursor.zig").Cursor;
const Field = @import("../core/schema.zig").Field;
const File = @import("../format/reader.zig").File;
const Input = @import("columns.zig").Input;
const bound_columns = evidence.bound_columns;

pub const Error = error{ InvalidPlan, OutOfMemory };

const constant = abi.place_constant;
const missing = abi.place_missing;
const unknown = abi.place_unknown;

fn refuse(message: []const u8) error{InvalidPlan} {
    interrupt.describe("{s}", .{message});
    return error.InvalidPlan;
}

pub fn read_header(cursor: *Cursor) Error!abi.ScanRequest {
    const bytes = cursor.read_bytes(@sizeOf(abi.ScanRequest)) catch return refuse("a scan request is cut short");
    return std.mem.bytesToValue(abi.ScanRequest, bytes[0..@sizeOf(abi.ScanRequest)]);
}

/// Where the plan's input comes from.
pub fn read_inputs(arena: std.mem.Allocator, cursor: *Cursor, fields: []const Field, file: File) Error![]Input {
    const inputs = try arena.alloc(Input, fields.len);
    for (inputs, fields) |*input, field| {
        const place = cursor.read_int(u32) catch return refuse("a scan request is cut short");
        input.* = switch (place) {
            constant => .{ .constant = try read_constant(arena, cursor, field) },
            missing => .{ .constant = .{ .type = field.type, .row_count = 1, .validity = &.{0} } },
            unknown => return refuse("a column that nothing is known of cannot be read"),
            else => .{ .place = try check_place(file, place, field) },
        };
    }
    return inputs;
}

fn read_constant(arena: std.mem.Allocator, cursor: *Cursor, field: Field) Error!Column {
    const value = plan_module.read_value(arena, cursor) catch |reason| switch (reason) {
        error.OutOfMemory => return error.OutOfMemory,
        else => return refuse("a constant of a scan request is malformed"),
    };
    if (!value.type.eql(field.type)) return refuse("a constant has another type than its column");
    return value;
}

fn check_place(file: File, place: u32, field: Field) Error!u32 {
    const found = file.place_type(place) orelse return refuse("a column that the file does not have");
    if (found.tag != field.type.tag) return refuse("a column has another type than the file says");
    return place;
}

pub fn read_stream(cursor: *Cursor) Error!abi.StreamRequest {
    const bytes = cursor.read_bytes(@sizeOf(abi.StreamRequest)) catch return refuse("a scan request is cut short");
    return std.mem.bytesToValue(abi.StreamRequest, bytes[0..@sizeOf(abi.StreamRequest)]);
}

/// The same of a file whose columns come in exactly the types that it was opened with.
pub fn read_exact_inputs(arena: std.mem.Allocator, cursor: *Cursor, fields: []const Field, file: File) Error![]Input {
    const inputs = try read_inputs(arena, cursor, fields, file);
    for (inputs, fields) |input, field| {
        if (input == .place and !file.place_type(input.place).?.eql(field.type))
            return refuse("a column has another type than the file says");
    }
    return inputs;
}

/// What the columns of a filter over statistics are; `fields` are the plan's, `bound_columns` for each.
pub fn read_bindings(
    arena: std.mem.Allocator,
    cursor: *Cursor,
    fields: []const Field,
    file: File,
) Error![]evidence.Binding {
    if (fields.len % bound_columns != 0) return refuse("a plan that is not one of statistics");
    const bindings = try arena.alloc(evidence.Binding, fields.len / bound_columns);
    for (bindings, 0..) |*binding, i| {
        const field = fields[i * bound_columns];
        const place = cursor.read_int(u32) catch return refuse("a scan request is cut short");
        binding.* = switch (place) {
            constant => .{ .constant = try read_constant(arena, cursor, field) },
            missing => .{ .constant = try null_of(arena, field) },
            unknown => .unknown,
            else => bind(file, try check_place(file, place, field), field),
        };
    }
    return bindings;
}

fn null_of(arena: std.mem.Allocator, field: Field) Error!Column {
    return expression_module.all_null(arena, field.type, 1) catch |reason| switch (reason) {
        error.OutOfMemory => error.OutOfMemory,
        else => refuse("a missing column cannot be pruned by"),
    };
}

fn bind(file: File, place: u32, field: Field) evidence.Binding {
    const is_known = file.has_bounds(place) and file.place_type(place).?.eql(field.type);
    return if (is_known) .{ .place = place } else .unknown;
}

/// Runs of rows of a piece: in order, and none is empty.
pub fn read_ranges(arena: std.mem.Allocator, cursor: *Cursor, count: u32, row_count: u64) Error![]evidence.RowRange {
    if (count > cursor.remaining() / 8) return refuse("a scan request has fewer runs of rows than it says");
    const ranges = try arena.alloc(evidence.RowRange, count);
    var last: u64 = 0;
    for (ranges) |*range| {
        const begin = cursor.read_int(u32) catch return refuse("a scan request is cut short");
        const end = cursor.read_int(u32) catch return refuse("a scan request is cut short");
        if (begin < last or end <= begin or end > row_count)
            return refuse("runs of rows that do not rise within their piece");
        range.* = .{ .begin = begin, .end = end };
        last = end;
    }
    return ranges;
}

/// A bit for each row of the piece; empty where no row is deleted.
pub fn read_deleted(cursor: *Cursor, size: u32, row_count: u64) Error![]const u8 {
    if (size != 0 and size != row_count / 8 + @intFromBool(row_count % 8 != 0))
        return refuse("a bitmap of deleted rows that is not as long as its piece");
    return cursor.read_bytes(size) catch refuse("a scan request is cut short");
}

pub fn read_probes(arena: std.mem.Allocator, cursor: *Cursor, fields: []const Field) Error![]evidence.Probe {
    const count = cursor.read_int(u32) catch return refuse("a scan request is cut short");
    // Each takes eight bytes at least, so a count cannot outgrow its own bytes.
    if (count > cursor.remaining() / 8) return refuse("a scan request has fewer probes than it says");
    const probes = try arena.alloc(evidence.Probe, count);
    for (probes) |*probe| {
        const binding = cursor.read_int(u32) catch return refuse("a scan request is cut short");
        if (binding >= fields.len / bound_columns) return refuse("a probe of a column that is not pruned by");
        const value_count = cursor.read_int(u32) catch return refuse("a scan request is cut short");
        if (value_count > cursor.remaining()) return refuse("a probe has fewer values than it says");
        const values = try arena.alloc(Column, value_count);
        for (values) |*value| {
            value.* = try read_constant(arena, cursor, fields[binding * bound_columns]);
            const layout = value.type.layout();
            if (!value.is_valid(0) or layout == .bits or layout == .none)
                return refuse("a probe of a value that cannot be asked for");
        }
        probe.* = .{ .binding = binding, .values = values };
    }
    return probes;
}
