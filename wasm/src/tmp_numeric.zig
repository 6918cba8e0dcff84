test {
    _ = @import("kernel/arithmetic.zig");
    _ = @import("kernel/cast.zig");
    _ = @import("kernel/reduce.zig");
    _ = @import("kernel/hash.zig");
}
test "x" {
    const std = @import("std");
    const cast = @import("kernel/cast.zig");
    const Column = @import("core/column.zig").Column;
    var arena: std.heap.ArenaAllocator = .init(std.testing.allocator);
    defer arena.deinit();
    const v: [3]f64 align(16) = .{ 2.5, 3.5, -2.5 };
    const c: Column = .{ .type = .of(.f64), .row_count = 3, .data = std.mem.sliceAsBytes(&v) };
    const r = try cast.cast_column(arena.allocator(), &c, .of(.i32), .strict);
    try std.testing.expectEqualSlices(i32, &.{ 2, 4, -2 }, r.values(i32));
}
