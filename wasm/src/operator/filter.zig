//! Leaves the rows for which an expression is TRUE.
//!
//!     filter      expression (bool)
const std = @import("std");
const abi = @import("../abi.zig");
const demand = @import("../plan/demand.zig");
const expression_module = @import("../plan/expression.zig");
const expression_parser = @import("../plan/expression_parser.zig");
const protocol = @import("protocol.zig");
const step_module = @import("../plan/step.zig");
const Chunk = expression_module.Chunk;
const Error = protocol.Error;

pub const FilterOperator = struct {
    step: *const Step,

    pub const Step = expression_module.Expression;
    pub const tag: abi.NodeTag = .filter;
    pub const facts: step_module.Facts = .{};

    pub fn parse(parser: *expression_parser.Parser) expression_parser.Error!step_module.Parsed(Step) {
        return .{ .step = try parser.parse_predicate(0), .output = parser.fields };
    }

    pub fn predicate(step: *const Step) *const expression_module.Expression {
        return step;
    }

    pub fn trace_keys(step: *const Step, trace: *demand.KeyTrace) error{OutOfMemory}!demand.KeyTrace.Found {
        trace.unmark(step);
        return .goes_on;
    }

    pub fn open(_: *const protocol.Opening, step: *const Step) Error!FilterOperator {
        return .{ .step = step };
    }

    pub fn push(
        self: *FilterOperator,
        arena: std.mem.Allocator,
        chunk: *Chunk,
        _: protocol.Flow,
    ) Error!protocol.Pushed {
        chunk.selection = try expression_module.select(arena, self.step, chunk);
        return .goes_on;
    }

    pub fn size(_: *const FilterOperator) u64 {
        return 0;
    }

    pub fn reset(_: *FilterOperator) Error!void {}

    pub fn close(_: *FilterOperator) void {}
};
