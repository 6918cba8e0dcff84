//! What is wrong with a text, and where.
//!
//! Of text in memory a message names the line. A piece of a file does not know how many lines came before it,
//! so there the offset in the file is told, and the row of the piece; the host makes a line of it.
const interrupt = @import("../../core/interrupt.zig");
const infer = @import("infer.zig");

pub const Error = error{ InvalidFormat, TooLarge, OutOfMemory, Cancelled, NotSupported };

/// Where a text comes from.
pub const Origin = struct {
    /// Of its first byte.
    offset: u64 = 0,
    /// It is all there is.
    is_whole: bool = true,

    pub fn fail(
        self: Origin,
        text: []const u8,
        position: usize,
        comptime format: []const u8,
        arguments: anytype,
    ) Error {
        @branchHint(.cold);
        if (self.is_whole) {
            interrupt.describe("line {d}: " ++ format, .{infer.line_number(text, position)} ++ arguments);
        } else {
            interrupt.describe(format, arguments);
        }
        interrupt.describe_offset(self.offset + position);
        return error.InvalidFormat;
    }
};
