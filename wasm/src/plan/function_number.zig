//! Functions of numbers: which there are, and their kernels.
const abi = @import("../abi.zig");
const function = @import("function.zig");
const Column = @import("../core/column.zig").Column;
const Signature = function.Signature;

pub fn signature(id: abi.FunctionId) ?Signature {
    return switch (id) {
        else => null,
    };
}

pub fn evaluate(call: *const function.Call) function.Error!Column {
    return switch (call.id) {
        else => unreachable, // has no signature
    };
}
