//! Row by row: functions of single values that may have no answer, over whole columns.
//!
//! NULL rows hold anything and never fail, so every row is computed first, and only if some had no answer
//! they are asked again which of them matter.
const std = @import("std");
const bitmap = @import("../core/bitmap.zig");
const interrupt = @import("../core/interrupt.zig");

pub const Error = error{OutOfRange};

/// Computes every row, and fails if a row that is valid has no result. `operation` is the name of what failed.
pub fn each(
    comptime T: type,
    out: []T,
    validity: ?[]const u8,
    operation: []const u8,
    context: anytype,
    comptime one: fn (@TypeOf(context), usize) ?T,
) Error!void {
    var fits = true;
    for (out, 0..) |*to, row| {
        const result = one(context, row);
        fits = fits and result != null;
        to.* = result orelse std.mem.zeroes(T);
    }
    if (fits) return;
    for (0..out.len) |row| {
        if (validity) |bits| if (!bitmap.get(bits.ptr, row)) continue;
        if (one(context, row) == null) return out_of_range(operation);
    }
}

pub fn out_of_range(operation: []const u8) Error {
    @branchHint(.cold);
    interrupt.describe("{s}: the result is out of range", .{operation});
    return error.OutOfRange;
}

test each {
    defer interrupt.forget();
    const values = [_]u8{ 1, 200, 3 };
    var out: [3]u8 = undefined;
    const double = struct {
        fn one(given: []const u8, row: usize) ?u8 {
            return std.math.mul(u8, given[row], 2) catch null;
        }
    }.one;
    try std.testing.expectError(error.OutOfRange, each(u8, &out, null, "twice", @as([]const u8, &values), double));
    try each(u8, &out, &.{0b101}, "twice", @as([]const u8, &values), double);
    try std.testing.expectEqual([3]u8{ 2, 0, 6 }, out);
}
