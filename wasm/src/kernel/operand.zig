//! An argument of a kernel: a column, or one value that stands for every row.
const Column = @import("../core/column.zig").Column;

pub const Operand = struct {
    /// Of one row when it is constant.
    column: Column,
    is_constant: bool,

    pub inline fn bytes_at(self: *const Operand, row: usize) []const u8 {
        return self.column.bytes_at(if (self.is_constant) 0 else row);
    }

    pub inline fn value_at(self: *const Operand, comptime T: type, row: usize) T {
        const pointer: [*]const T = @ptrCast(@alignCast(self.column.data.ptr));
        return pointer[if (self.is_constant) 0 else row];
    }

    pub inline fn is_valid(self: *const Operand, row: usize) bool {
        return self.column.is_valid(if (self.is_constant) 0 else row);
    }

    /// All bytes of its values: utf8 and binary. Those of a column lie side by side.
    pub fn all_bytes(self: *const Operand) []const u8 {
        const offsets = self.column.offsets;
        return self.column.data[offsets[0]..offsets[offsets.len - 1]];
    }
};
