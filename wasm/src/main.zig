//! Root of the module: exports what abi.zig lists, turns a panic into a trap. Nothing else.
const std = @import("std");
const abi = @import("abi.zig");
const interrupt = @import("core/interrupt.zig");

const doors = .{ @import("boundary/queries.zig"), @import("boundary/files.zig"), @import("boundary/scans.zig") };

comptime {
    for (@typeInfo(abi.Exports).@"struct".decl_names) |name| {
        const Wanted = @field(abi.Exports, name);
        for (doors) |room| if (@hasDecl(room, name)) {
            const typed: *const Wanted = &@field(room, name); // a differing type does not compile
            @export(typed, .{ .name = name });
        };
    }
}

pub const panic = std.debug.FullPanic(panic_to_trap);

fn panic_to_trap(message: []const u8, first_trace_address: ?usize) noreturn {
    _ = first_trace_address;
    const control = &interrupt.control;
    const size = @min(message.len, control.panic_message.len);
    @memcpy(control.panic_message[0..size], message[0..size]);
    control.panic_size = @intCast(size);
    @trap();
}

/// std.log would pull in I/O; the engine has no output.
pub const std_options: std.Options = .{ .logFn = silent };
fn silent(comptime _: std.log.Level, comptime _: @EnumLiteral(), comptime _: []const u8, _: anytype) void {}
