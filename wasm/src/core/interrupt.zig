//! The cancel byte: the host sets it from another thread, long loops read it once per block.
//!
//! A loop over rows calls `check` at least once per `block_rows` rows (or per few KiB of text).
//! That is cheaper than the engine's own epoch checks, which double byte-wise loops, and it leaves
//! the instance in order. The test suite also runs with epochs on: a loop that forgot its check
//! shows there as a trap.
const std = @import("std");
const abi = @import("../abi.zig");

pub const Error = error{Cancelled};

/// Rows of simple work between two checks: tens of microseconds.
pub const block_rows = 16_384;

pub var control: abi.Control = .{
    .cancel = 0,
    .panic_size = 0,
    .panic_message = @splat(0),
    .detail = .{
        .offset = abi.ErrorDetail.offset_unknown,
        .row = abi.ErrorDetail.row_unknown,
        .column = abi.ErrorDetail.column_unknown,
        .message_size = 0,
        .message = @splat(0),
    },
    .output_size = 0,
    .pages_skipped = 0,
};

pub inline fn check() Error!void {
    if (is_cancelled()) return error.Cancelled;
}

/// For kernels deep inside of a row, which give up and leave it to their caller to `check`: the answer of a
/// query that was cancelled is nobody's.
pub inline fn is_cancelled() bool {
    const byte: *volatile u8 = &control.cancel;
    return byte.* != 0;
}

/// What the next failing Status is about. Later words win: the innermost cause speaks first, an
/// outer room that knows the column may only add it.
pub fn describe(comptime format: []const u8, arguments: anytype) void {
    var writer: std.Io.Writer = .fixed(&control.detail.message);
    writer.print(format, arguments) catch {}; // cut to what fits
    control.detail.message_size = @intCast(writer.end);
}

pub fn describe_offset(offset: u64) void {
    control.detail.offset = offset;
}

pub fn describe_column(column: u32) void {
    control.detail.column = column;
}

/// Rows of text, from 0.
pub fn describe_row(row: u64) void {
    control.detail.row = row;
}

/// Called at every door, so that no call reports its predecessor's trouble.
pub fn forget() void {
    control.detail.offset = abi.ErrorDetail.offset_unknown;
    control.detail.row = abi.ErrorDetail.row_unknown;
    control.detail.column = abi.ErrorDetail.column_unknown;
    control.detail.message_size = 0;
}

test describe {
    defer forget();
    describe("value {d} of {s}", .{ 7, "x" });
    try std.testing.expectEqualStrings("value 7 of x", control.detail.message[0..control.detail.message_size]);
    describe("{s}", .{@as([]const u8, &@as([300]u8, @splat('a')))});
    try std.testing.expectEqual(240, control.detail.message_size);
}
