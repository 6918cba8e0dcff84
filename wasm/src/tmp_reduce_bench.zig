const std = @import("std");
const reduce = @import("kernel/reduce.zig");
fn sl(comptime T: type, p: u32, n: u32) []const T {
    return @as([*]const T, @ptrFromInt(p))[0..n];
}
fn mk(m: u32, n: u32) ?[]const u8 {
    return if (m == 0) null else sl(u8, m, (n + 7) / 8);
}
fn gen(comptime T: type, comptime name: []const u8) void {
    const S = struct {
        fn sum(p: u32, n: u32, m: u32) callconv(.c) f64 {
            return if (@typeInfo(T) == .float) reduce.sum_float(T, sl(T, p, n), mk(m, n)) else @floatFromInt(reduce.sum_integer(T, sl(T, p, n), mk(m, n)));
        }
        fn min(p: u32, n: u32, m: u32) callconv(.c) f64 {
            const v = reduce.min(T, sl(T, p, n), mk(m, n)).?;
            return if (@typeInfo(T) == .float) v else @floatFromInt(v);
        }
        fn max(p: u32, n: u32, m: u32) callconv(.c) f64 {
            const v = reduce.max(T, sl(T, p, n), mk(m, n)).?;
            return if (@typeInfo(T) == .float) v else @floatFromInt(v);
        }
    };
    @export(&S.sum, .{ .name = "sum_" ++ name });
    @export(&S.min, .{ .name = "min_" ++ name });
    @export(&S.max, .{ .name = "max_" ++ name });
}
comptime {
    gen(i64, "int64");
    gen(u64, "uint64");
    gen(i32, "int32");
    gen(i16, "int16");
    gen(i8, "int8");
    gen(u8, "uint8");
    gen(f64, "float64");
    gen(f32, "float32");
    gen(f16, "float16");
}
