//! Sixteen bytes at once, as WebAssembly has them and Zig cannot say.
const std = @import("std");
const builtin = @import("builtin");

pub const Bytes16 = @Vector(16, u8);

const is_wasm = builtin.cpu.arch.isWasm();

extern fn @"llvm.wasm.swizzle"(Bytes16, Bytes16) Bytes16;

/// Lane i of the result is `bytes[lanes[i]]`, 0 where that is no lane. Natively a loop: tests then
/// run the same tables.
pub inline fn swizzle(bytes: Bytes16, lanes: Bytes16) Bytes16 {
    if (comptime is_wasm) return @"llvm.wasm.swizzle"(bytes, lanes);
    const from: [16]u8 = bytes;
    var to: [16]u8 = lanes;
    for (&to) |*lane| lane.* = if (lane.* < 16) from[lane.*] else 0;
    return to;
}

pub inline fn load16(source: [*]const u8) Bytes16 {
    return source[0..16].*;
}

test swizzle {
    const bytes: Bytes16 = std.simd.iota(u8, 16);
    var lanes: [16]u8 = @splat(200);
    lanes[3] = 7;
    const moved: [16]u8 = swizzle(bytes, lanes);
    for (moved, 0..) |byte, lane| try std.testing.expectEqual(@as(u8, if (lane == 3) 7 else 0), byte);
}
