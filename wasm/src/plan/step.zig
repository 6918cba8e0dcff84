//! A step of a plan, as far as plan/ knows it. What a step is belongs to its operator (operator/protocol.zig),
//! which stands above: a plan is read, and asked what it demands, by a table of rules that is handed in.
const std = @import("std");
const abi = @import("../abi.zig");
const demand = @import("demand.zig");
const expression_parser = @import("expression_parser.zig");
const Expression = @import("expression.zig").Expression;
const Field = @import("../core/schema.zig").Field;
const Parser = expression_parser.Parser;

/// "No limit" on the wire.
pub const unlimited: u64 = std.math.maxInt(u64);

pub const SortKey = struct { expression: Expression, descending: bool, nulls_first: bool };

/// A step out of the wire's bytes, and the columns that come out of it.
pub fn Parsed(comptime Step: type) type {
    return struct { step: Step, output: []const Field };
}

/// What is true of all steps of a kind: a row of the table of operators.
pub const Facts = struct {
    /// Where in a plan it may stand.
    place: enum { anywhere, first, last } = .anywhere,
    /// How its input must be ordered: not at all, or as runs that are sorted by its keys.
    requires: enum { any_order, sorted_runs } = .any_order,
    /// The order that rows leave in: the one in which they came, that of its keys, or one of its own.
    leaves: enum { as_they_came, by_keys, anyhow } = .as_they_came,
    /// Nothing leaves before the input has ended.
    blocks: bool = false,
    /// Its answer is made piece by piece, each only when what came of those before it has been taken.
    piecewise: bool = false,
    /// Rows behind it may be lent rather than copied. Where not, they leave in parts that have numbers.
    lends: bool = true,
    /// The plan's answer leaves as one.
    gathers: bool = false,
};

/// What plan/ may ask of a step without knowing its type.
pub const Rule = struct {
    facts: Facts,
    parse: *const fn (parser: *Parser) expression_parser.Error!Parsed(*const anyopaque),
    /// Rows are chosen, by this expression alone, and go on as they are.
    predicate: ?*const fn (step: *const anyopaque) *const Expression,
    /// Columns are picked, as they are: which.
    picks: ?*const fn (step: *const anyopaque, picked: []u32) bool,
    /// Marks the columns of its input that it looks at, where it makes columns of its own. Without it: all.
    mark_used: ?*const fn (step: *const anyopaque, used: []bool) void,
    /// Goes on with the search for columns that are only keys. Without it: there are none.
    trace_keys: ?*const fn (step: *const anyopaque, trace: *demand.KeyTrace) error{OutOfMemory}!demand.KeyTrace.Found,
    /// Whether nothing but the least and the greatest values is asked for.
    only_extremes: ?*const fn (step: *const anyopaque) bool,
    /// Whether states of this step may enter the plan behind it.
    hands_on_states: ?*const fn (step: *const anyopaque) bool,
    /// The keys that rows leave in the order of.
    order: ?*const fn (step: *const anyopaque) []const SortKey,
};

pub const Rules = std.EnumArray(abi.NodeTag, Rule);

pub const Node = struct {
    tag: abi.NodeTag,
    rule: *const Rule,
    /// As the rule's parser made it.
    step: *const anyopaque,
    /// What comes out of this step.
    output: []const Field,

    /// The step, if it is of this operator.
    pub fn as(self: *const Node, comptime Operator: type) ?*const Operator.Step {
        return if (self.tag == Operator.tag) @ptrCast(@alignCast(self.step)) else null;
    }

    pub fn predicate(self: *const Node) ?*const Expression {
        return if (self.rule.predicate) |ask| ask(self.step) else null;
    }
};
