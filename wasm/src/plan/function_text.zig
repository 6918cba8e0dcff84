//! Functions of text, and those that take any type: which there are, and their kernels.
const abi = @import("../abi.zig");
const function = @import("function.zig");
const text = @import("../kernel/text.zig");
const Call = function.Call;
const Column = @import("../core/column.zig").Column;
const Parameter = function.Parameter;
const Signature = function.Signature;

const string: Parameter = .of(&.{.utf8});

pub fn signature(id: abi.FunctionId) ?Signature {
    return switch (id) {
        .length => .{ .parameters = &.{string}, .result = .{ .tag = .i64 } },
        .byte_length => .{ .parameters = &.{.of(&.{ .utf8, .binary })}, .result = .{ .tag = .i64 } },
        else => null,
    };
}

pub fn evaluate(call: *const Call) function.Error!Column {
    switch (call.id) {
        .length, .byte_length => {
            const out = try call.new_values(i64);
            const value = &call.operands[0];
            for (out, 0..) |*to, row| {
                const bytes = value.bytes_at(row);
                to.* = @intCast(if (call.id == .length) text.count_characters(bytes) else bytes.len);
            }
            return call.of_values(i64, out);
        },
        else => unreachable, // has no signature
    }
}
