//! What an operator is: the entries that registry.zig calls it by, checked when the engine is compiled.
//!
//!     tag                    its number on the wire
//!     Step                   what its parser makes of the wire; lives as long as the query
//!     facts                  its row of the table: where it may stand, which order it needs and leaves, whether it
//!                            blocks, whether its rows may be lent (plan/step.zig)
//!     parse                  wire → Step and the columns that come out
//!     open(opening, step)    its state
//!     push(arena, chunk, flow)   a chunk comes; what becomes of it is `Pushed`
//!     size                   bytes that its state holds now
//!     reset                  ready for the next lane
//!     close
//!
//! Where rows come out otherwise than by `push`:
//!
//!     finish                 the input has ended (of all that block, and of no others)
//!     next                   what comes out then, or of a chunk that goes on `in_pieces`, until it is null
//!
//! Where it matters:
//!
//!     is_used_up             nothing that comes changes anything any more
//!     chunk_rows(row_count)  how many rows at a time are best for it
//!     table                  what a plan that ends here has built
//!     give_up                its state as batches of `partition_count` partitions, for spilling; empty afterwards
//!     take_back(batch)       takes in what an operator of the same step has given up
//!     predicate · picks · mark_used · trace_keys · only_extremes · hands_on_states · order
//!                            what plan/ may ask of its Step: see `Rule`
const std = @import("std");
const column_module = @import("../core/column.zig");
const demand = @import("../plan/demand.zig");
const expression_module = @import("../plan/expression.zig");
const expression_parser = @import("../plan/expression_parser.zig");
const interrupt = @import("../core/interrupt.zig");
const schema = @import("../core/schema.zig");
const step_module = @import("../plan/step.zig");
const Arena = @import("../core/arena.zig").Arena;
const Column = column_module.Column;
const Expression = expression_module.Expression;
const JoinTable = @import("../lookup/join_table.zig").JoinTable;
const Parsed = step_module.Parsed;
const Rule = step_module.Rule;
const assert = std.debug.assert;

pub const Error = error{ Cancelled, InvalidPlan, NotSupported, OutOfMemory, OutOfRange, TooLarge };

/// Collected rows are handed over, whatever comes, before they take more than this, or what the host allows.
const output_size_max = 16 << 20;

pub fn output_limit() u64 {
    const size = interrupt.control.output_size;
    return if (size == 0) output_size_max else @min(size, output_size_max);
}

/// What an operator is opened with.
pub const Opening = struct {
    gpa: std.mem.Allocator,
    /// Lives as long as the query.
    arena: std.mem.Allocator,
    /// The columns that come in.
    input: []const schema.Field,
    before: []const step_module.Node = &.{},
    behind: []const step_module.Node = &.{},
};

/// What is true of the query while a chunk is pushed.
pub const Flow = struct {
    /// Of sorted runs: which one the chunk belongs to.
    run_number: u32 = 0,
    /// Nothing leaves before the end.
    gathers: bool = false,
};

pub const Pushed = enum {
    /// The chunk goes on, as it is now.
    goes_on,
    /// Nothing goes on.
    kept,
    /// What goes on comes out of `next`, while somebody behind wants it.
    in_pieces,
};

/// Rows on their way to the next step. They lie where they are until `next` is called again.
pub const Piece = union(enum) {
    /// A chunk, and the memory that it and what comes of it may take.
    chunk: struct { chunk: expression_module.Chunk, scratch: *Arena },
    /// All rows, cut into chunks as the next step likes them. Null: the query's own scratch.
    whole: struct { columns: []const Column, row_count: u32, scratch: ?*Arena = null },
    /// Some rows, one after the other.
    range: struct { columns: []const Column, start: u32, count: u32 },
    /// Some rows, in this order.
    order: struct { columns: []const Column, rows: []const u32, scratch: ?*Arena = null },
    /// Rows that leave the plan as they are, as one of its parts.
    part: struct { names: []const []const u8, batch: column_module.Batch, number: u32 },
};

/// State that has left its operator: one of `partition_count` parts by the hash of its keys.
pub const GivenUp = struct { batch: column_module.Batch, partition: u32 };

/// The entries that every operator has, and those that it may have, by their types.
pub fn check(comptime T: type) void {
    expect(T, "parse", fn (parser: *expression_parser.Parser) expression_parser.Error!Parsed(T.Step));
    expect(T, "open", fn (opening: *const Opening, step: *const T.Step) Error!T);
    expect(
        T,
        "push",
        fn (self: *T, arena: std.mem.Allocator, chunk: *expression_module.Chunk, flow: Flow) Error!Pushed,
    );
    expect(T, "size", fn (self: *const T) u64);
    expect(T, "reset", fn (self: *T) Error!void);
    expect(T, "close", fn (self: *T) void);
    optional(T, "finish", fn (self: *T) Error!void);
    optional(T, "next", fn (self: *T) Error!?Piece);
    optional(T, "is_used_up", fn (self: *const T) bool);
    optional(T, "chunk_rows", fn (self: *const T, row_count: u32) u32);
    optional(T, "table", fn (self: *const T) *JoinTable);
    optional(T, "give_up", fn (self: *T, arena: std.mem.Allocator, partition_count: u32) Error![]const GivenUp);
    optional(T, "take_back", fn (self: *T, arena: std.mem.Allocator, batch: column_module.Batch) Error!void);
    const facts: step_module.Facts = T.facts;
    assert(facts.blocks == @hasDecl(T, "finish"));
    assert(@hasDecl(T, "give_up") == @hasDecl(T, "take_back"));
    assert(!@hasDecl(T, "order") or facts.leaves == .by_keys);
}

fn expect(comptime T: type, comptime name: []const u8, comptime Entry: type) void {
    if (!@hasDecl(T, name)) @compileError(@typeName(T) ++ " lacks " ++ name);
    if (@TypeOf(@field(T, name)) != Entry) {
        @compileError(@typeName(T) ++ "." ++ name ++ " is " ++ @typeName(@TypeOf(@field(T, name))));
    }
}

fn optional(comptime T: type, comptime name: []const u8, comptime Entry: type) void {
    if (@hasDecl(T, name)) expect(T, name, Entry);
}

/// The rule of an operator's steps, for those who do not know their type.
pub fn rule_of(comptime T: type) Rule {
    check(T);
    const Erased = struct {
        fn of(step: *const anyopaque) *const T.Step {
            return @ptrCast(@alignCast(step));
        }

        fn parse(parser: *expression_parser.Parser) expression_parser.Error!Parsed(*const anyopaque) {
            const step = try parser.arena.create(T.Step);
            const parsed = try T.parse(parser);
            step.* = parsed.step;
            return .{ .step = @ptrCast(step), .output = parsed.output };
        }
        fn predicate(step: *const anyopaque) *const Expression {
            return T.predicate(of(step));
        }
        fn picks(step: *const anyopaque, picked: []u32) bool {
            return T.picks(of(step), picked);
        }
        fn mark_used(step: *const anyopaque, used: []bool) void {
            T.mark_used(of(step), used);
        }
        fn trace_keys(step: *const anyopaque, trace: *demand.KeyTrace) error{OutOfMemory}!demand.KeyTrace.Found {
            return T.trace_keys(of(step), trace);
        }
        fn only_extremes(step: *const anyopaque) bool {
            return T.only_extremes(of(step));
        }
        fn hands_on_states(step: *const anyopaque) bool {
            return T.hands_on_states(of(step));
        }
        fn order(step: *const anyopaque) []const step_module.SortKey {
            return T.order(of(step));
        }
    };
    return .{
        .facts = T.facts,
        .parse = Erased.parse,
        .predicate = if (@hasDecl(T, "predicate")) Erased.predicate else null,
        .picks = if (@hasDecl(T, "picks")) Erased.picks else null,
        .mark_used = if (@hasDecl(T, "mark_used")) Erased.mark_used else null,
        .trace_keys = if (@hasDecl(T, "trace_keys")) Erased.trace_keys else null,
        .only_extremes = if (@hasDecl(T, "only_extremes")) Erased.only_extremes else null,
        .hands_on_states = if (@hasDecl(T, "hands_on_states")) Erased.hands_on_states else null,
        .order = if (@hasDecl(T, "order")) Erased.order else null,
    };
}
