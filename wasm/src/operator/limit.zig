//! Leaves some rows out at the start, and all behind a number of others.
//!
//!     limit       u64 offset, u64 count (all bits set: no end)
const std = @import("std");
const abi = @import("../abi.zig");
const bitmap = @import("../core/bitmap.zig");
const expression_parser = @import("../plan/expression_parser.zig");
const protocol = @import("protocol.zig");
const step_module = @import("../plan/step.zig");
const Chunk = @import("../plan/expression.zig").Chunk;
const Error = protocol.Error;

pub const LimitOperator = struct {
    step: *const Step,
    skip: u64,
    remaining: u64,

    pub const Step = struct { offset: u64, count: u64 };
    pub const tag: abi.NodeTag = .limit;
    pub const facts: step_module.Facts = .{};

    pub fn parse(parser: *expression_parser.Parser) expression_parser.Error!step_module.Parsed(Step) {
        const offset = try parser.cursor.read_int(u64);
        const count = try parser.cursor.read_int(u64);
        return .{ .step = .{ .offset = offset, .count = count }, .output = parser.fields };
    }

    pub fn open(_: *const protocol.Opening, step: *const Step) Error!LimitOperator {
        return .{ .step = step, .skip = step.offset, .remaining = step.count };
    }

    pub fn push(self: *LimitOperator, arena: std.mem.Allocator, chunk: *Chunk, _: protocol.Flow) Error!protocol.Pushed {
        const available = chunk.selected_count();
        const skipped = @min(self.skip, available);
        const taken: u32 = @intCast(@min(self.remaining, available - skipped));
        self.skip -= skipped;
        self.remaining -= taken;
        if (taken == available) return .goes_on;
        const rows = try chunk.selected_rows(arena);
        const bits = try arena.alloc(u8, bitmap.size(chunk.row_count));
        @memset(bits, 0);
        for (rows[@intCast(skipped)..][0..taken]) |row| bitmap.set(bits.ptr, row);
        chunk.selection = .{ .bits = bits, .count = taken };
        return .goes_on;
    }

    pub fn is_used_up(self: *const LimitOperator) bool {
        return self.remaining == 0;
    }

    pub fn size(_: *const LimitOperator) u64 {
        return 0;
    }

    pub fn reset(self: *LimitOperator) Error!void {
        self.skip = self.step.offset;
        self.remaining = self.step.count;
    }

    pub fn close(_: *LimitOperator) void {}
};
