//! The plan's answer leaves as one batch, however large. Rows pass as they are.
//!
//!     gather      nothing
const std = @import("std");
const abi = @import("../abi.zig");
const expression_parser = @import("../plan/expression_parser.zig");
const protocol = @import("protocol.zig");
const step_module = @import("../plan/step.zig");
const Chunk = @import("../plan/expression.zig").Chunk;
const Error = protocol.Error;

pub const GatherOperator = struct {
    pub const Step = struct {};
    pub const tag: abi.NodeTag = .gather;
    pub const facts: step_module.Facts = .{ .gathers = true };

    pub fn parse(parser: *expression_parser.Parser) expression_parser.Error!step_module.Parsed(Step) {
        return .{ .step = .{}, .output = parser.fields };
    }

    pub fn open(_: *const protocol.Opening, _: *const Step) Error!GatherOperator {
        return .{};
    }

    pub fn push(_: *GatherOperator, _: std.mem.Allocator, _: *Chunk, _: protocol.Flow) Error!protocol.Pushed {
        return .goes_on;
    }

    pub fn size(_: *const GatherOperator) u64 {
        return 0;
    }

    pub fn reset(_: *GatherOperator) Error!void {}

    pub fn close(_: *GatherOperator) void {}
};
