//! Pushes batches through the steps of a plan and hands out answers: the only file that knows the order.
//!
//!     batch → chunks of some thousand rows → filter · project · limit → collector → QMCB, or lent columns
//!                                  ↘ aggregate · sort (until the input ends) ↗
//!
//! A step may make several chunks of one; each runs through the steps behind it before the next is
//! made. Which steps there are, operator/registry.zig knows: here they are called by what they all have in
//! common (operator/protocol.zig), and none is named.
//!
//! A `Query` owns all its memory and gives it back when it closes. What it produced waits, encoded or with
//! the builders that hold it, in `pending`; the host takes one piece per call and it stays valid until the
//! next call.
const std = @import("std");
const abi = @import("abi.zig");
const batch_export = @import("batch_export.zig");
const column_module = @import("core/column.zig");
const expression_module = @import("plan/expression.zig");
const interrupt = @import("core/interrupt.zig");
const plan_module = @import("plan/plan.zig");
const protocol = @import("operator/protocol.zig");
const qmcb = @import("qmcb.zig");
const registry = @import("operator/registry.zig");
const schema = @import("core/schema.zig");
const Arena = @import("core/arena.zig").Arena;
const ColumnBuilder = @import("core/column_builder.zig").ColumnBuilder;
const JoinTable = @import("lookup/join_table.zig").JoinTable;
const Operator = registry.Operator;
const take_rows = @import("core/column_builder.zig").take_rows;
const Batch = column_module.Batch;
const Chunk = expression_module.Chunk;
const Column = column_module.Column;
const assert = std.debug.assert;

pub const Error = error{
    Cancelled,
    InvalidAggregate,
    InvalidFilter,
    InvalidPlan,
    NotSupported,
    OutOfMemory,
    OutOfRange,
    SchemaMismatch,
    TooLarge,
};

/// Collected rows wait for company until they are worth a hand-over.
const output_size_min = 1 << 20;

/// `need_bytes` and `again` are a scan's.
pub const State = enum { need_input, more_output, done, need_bytes, again };

pub const Output = struct {
    bytes: []const u8 = &.{},
    row_count: u32 = 0,
    state: State,
    partition: u32 = 0,
};

/// Rows on their way out: QMCB, or descriptors of what the builders hold.
const Piece = struct { bytes: []u8, row_count: u32, partition: u32 = 0, builders: []ColumnBuilder = &.{} };

pub const Query = struct {
    gpa: std.mem.Allocator,
    /// The plan and the operators' fixed parts: lives as long as the query.
    arena: Arena,
    /// What one chunk needs while it passes through.
    scratch: Arena,
    plan: plan_module.Plan,
    operators: []Operator,
    /// Rows that came to every step so far, and behind them those that left the last one.
    row_counts: []u64 = &.{},
    /// Tables of other queries that the plan looks into.
    tables: []const *JoinTable = &.{},
    names: []const []const u8,
    collector: []ColumnBuilder,
    collected_rows: u32 = 0,
    pending: std.ArrayList(Piece) = .empty,
    /// Handed out by the last call.
    lent: ?Piece = null,
    /// The same where the last call handed out a list of parts.
    lent_parts: std.ArrayList(Piece) = .empty,
    lent_list: []abi.Part = &.{},
    /// Answers leave as descriptors of the collected columns, which stay where they are.
    lends: bool = false,
    /// Builders that came back, for the rows after those that are being collected.
    spare: ?[]ColumnBuilder = null,
    emitted: bool = false,
    /// Set when rows pass through unchanged: they are encoded from where they lie.
    direct: ?[]const u32 = null,
    /// Nothing leaves before the end, and then all at once.
    gathers: bool = false,
    /// A limit is used up: more input changes nothing.
    saturated: bool = false,
    finished: bool = false,
    /// The operator whose answer is being taken, and whether it knows that its input has ended.
    ending: usize = 0,
    has_ended: bool = false,
    /// The input has ended and all that comes of it waits. Some answers come piece by piece.
    completed: bool = false,
    /// The run of a merge that the batch belongs to.
    run_number: u32 = 0,
    /// A call failed midway: columns may differ in length. Only closing is left.
    failed: bool = false,

    /// `tables` are those behind the plan's handles; the query keeps them alive.
    pub fn open(gpa: std.mem.Allocator, plan_bytes: []const u8, tables: []const *JoinTable) Error!*Query {
        const self = try gpa.create(Query);
        errdefer gpa.destroy(self);
        self.* = .{
            .gpa = gpa,
            .arena = .init(gpa),
            .scratch = .init(gpa),
            .plan = undefined,
            .operators = &.{},
            .names = &.{},
            .collector = &.{},
        };
        errdefer self.release();
        const arena = self.arena.allocator();
        self.tables = try arena.dupe(*JoinTable, tables);
        for (self.tables) |table| _ = table.retain();
        self.plan = try plan_module.parse(arena, try arena.dupe(u8, plan_bytes), self.tables, &registry.rules);
        try self.open_operators(arena);
        try self.open_collector(arena);
        self.direct = try self.find_direct(arena);
        return self;
    }

    fn open_operators(self: *Query, arena: std.mem.Allocator) Error!void {
        const operators = try arena.alloc(Operator, self.plan.nodes.len);
        self.row_counts = try arena.alloc(u64, self.plan.nodes.len + 1);
        @memset(self.row_counts, 0);
        var fields = self.plan.input;
        for (operators, self.plan.nodes, 0..) |*operator, *node, i| {
            const opening: protocol.Opening = .{
                .gpa = self.gpa,
                .arena = arena,
                .input = fields,
                .before = self.plan.nodes[0..i],
                .behind = self.plan.nodes[i + 1 ..],
            };
            operator.* = try .open(&opening, node);
            self.operators = operators[0 .. i + 1];
            if (node.rule.facts.gathers) self.gathers = true;
            fields = node.output;
        }
    }

    fn open_collector(self: *Query, arena: std.mem.Allocator) Error!void {
        const fields = self.plan.output();
        const names = try arena.alloc([]const u8, fields.len);
        for (names, fields) |*name, field| name.* = field.name;
        self.names = names;
        self.collector = try self.new_builders();
    }

    fn new_builders(self: *const Query) Error![]ColumnBuilder {
        const fields = self.plan.output();
        const builders = try self.gpa.alloc(ColumnBuilder, fields.len);
        var made: usize = 0;
        errdefer {
            for (builders[0..made]) |*builder| builder.deinit();
            self.gpa.free(builders);
        }
        for (builders, fields) |*builder, field| {
            builder.* = try .init(self.gpa, field.type);
            made += 1;
        }
        return builders;
    }

    fn free_builders(self: *const Query, builders: []ColumnBuilder) void {
        for (builders) |*builder| builder.deinit();
        self.gpa.free(builders);
    }

    fn free_piece(self: *const Query, piece: Piece) void {
        self.gpa.free(piece.bytes);
        self.free_builders(piece.builders);
    }

    /// Answers leave as descriptors from here on.
    pub fn lend(self: *Query) Error!void {
        if (self.emitted or self.has_partitions()) return refuse("only a new query that ends in rows can lend them");
        self.lends = true;
    }

    pub fn close(self: *Query) void {
        const gpa = self.gpa;
        self.release();
        gpa.destroy(self);
    }

    fn release(self: *Query) void {
        for (self.operators) |*operator| operator.close();
        for (self.tables) |table| table.release();
        self.free_builders(self.collector);
        self.take_back();
        if (self.spare) |spare| self.free_builders(spare);
        self.lent_parts.deinit(self.gpa);
        for (self.pending.items) |piece| self.free_piece(piece);
        self.pending.deinit(self.gpa);
        self.scratch.deinit();
        self.arena.deinit();
    }

    /// Ready for the next lane: the plan stays, what was computed goes.
    fn restart(self: *Query) Error!void {
        for (self.operators) |*operator| try operator.reset();
        self.ending = 0;
        self.has_ended = false;
        assert(self.collected_rows == 0);
        self.emitted = false;
        self.saturated = false;
        self.finished = false;
        self.completed = false;
    }

    /// A finished build stays as it is.
    fn refuse_ended(self: *const Query) Error!void {
        if (self.failed) return refuse("the query has failed before");
        if (self.finished and self.built() != null) return refuse("the build is finished");
    }

    /// What the plan has built, if that is what it ends in.
    fn built(self: *const Query) ?*JoinTable {
        return if (self.operators.len > 0) self.operators[self.operators.len - 1].table() else null;
    }

    /// The table of a finished build, for other queries.
    pub fn finished_table(self: *const Query) ?*JoinTable {
        return if (self.finished and !self.failed) self.built() else null;
    }

    pub fn push(self: *Query, batch: Batch) Error!Output {
        if (self.has_more()) return refuse("output of the finished query has not been taken");
        _ = try self.take(batch);
        return self.hand_over();
    }

    /// Works a batch in; what comes of it waits for `hand_over`. True when more input changes nothing.
    pub fn take(self: *Query, batch: Batch) Error!bool {
        try self.refuse_ended();
        errdefer self.failed = true;
        if (self.finished) try self.restart();
        try check_input(batch, self.plan.input);
        if (self.direct != null and !self.lends) {
            try self.emit_direct(batch, self.direct.?);
        } else {
            try self.push_chunks(&self.scratch, batch.columns, batch.row_count, 0);
            if (!self.gathers and self.collected_size() >= @min(output_size_min, protocol.output_limit())) {
                try self.encode_collected();
            }
        }
        return self.saturated;
    }

    /// The same for states of the aggregate that the plan begins with: they go on behind it.
    pub fn take_states(self: *Query, batch: Batch) Error!bool {
        try self.refuse_ended();
        errdefer self.failed = true;
        const nodes = self.plan.nodes;
        const ask = if (nodes.len < 2) null else nodes[0].rule.hands_on_states;
        if (ask == null or !ask.?(nodes[0].step)) return refuse("states for a plan that takes rows alone");
        if (self.finished) try self.restart();
        try check_input(batch, nodes[0].output);
        try self.push_chunks(&self.scratch, batch.columns, batch.row_count, 1);
        return self.saturated;
    }

    // ---- for scans, which make their own chunks ----

    /// Before a chunk is made: `scratch` is the chunk's from here on.
    pub fn begin_chunk(self: *Query) Error!void {
        try self.refuse_ended();
        if (self.finished) {
            if (self.has_more()) return refuse("output of the finished query has not been taken");
            try self.restart();
        }
        try interrupt.check();
        _ = self.scratch.reset(.retain_capacity);
    }

    /// Runs a chunk from step `first` on.
    pub fn run_chunk(self: *Query, chunk: Chunk, first: usize) Error!void {
        errdefer self.failed = true;
        try self.run(chunk, first);
    }

    /// At the end of a scan: rows that are worth a hand-over are encoded.
    pub fn settle_output(self: *Query) Error!void {
        if (!self.gathers and self.collected_size() >= @min(output_size_min, protocol.output_limit())) {
            try self.encode_collected();
        }
    }

    pub fn hand_over(self: *Query) Output {
        return self.hand_out(if (self.saturated) .done else .need_input);
    }

    /// Ends the input.
    pub fn finish(self: *Query) Error!Output {
        try self.end_input();
        try self.advance();
        if (self.built()) |table| return .{ .row_count = table.row_count, .state = .done };
        return self.hand_out(.done);
    }

    /// Ends the input; all that comes of it waits to be handed out.
    pub fn complete(self: *Query) Error!void {
        try self.end_input();
        while (!self.completed) try self.advance();
    }

    fn end_input(self: *Query) Error!void {
        try self.refuse_ended();
        errdefer self.failed = true;
        if (self.finished) try self.restart();
        self.finished = true;
    }

    /// The finished query has not handed out all of its output.
    fn has_more(self: *const Query) bool {
        return self.finished and (self.pending.items.len > 0 or (!self.completed and !self.failed));
    }

    /// After the input's end: goes on until something waits, or nothing comes any more.
    fn advance(self: *Query) Error!void {
        errdefer self.failed = true;
        while (self.ending < self.operators.len) : (self.ending += 1) {
            if (!try self.take_answer(self.ending)) return;
            self.has_ended = false;
        }
        if (self.built() == null) {
            // Even an empty answer says its schema, unless nobody reads it there.
            if (self.collected_rows > 0 or !(self.emitted or self.lends)) try self.encode_collected();
        }
        self.completed = true;
    }

    /// What an operator has at its input's end goes on; false where more of it has to wait.
    fn take_answer(self: *Query, place: usize) Error!bool {
        const operator = &self.operators[place];
        const facts = operator.facts();
        if (!facts.blocks) return true;
        if (!self.has_ended) try operator.finish();
        self.has_ended = true;
        const waiting = self.pending.items.len;
        while (!(facts.piecewise and self.ends_before(place + 1))) {
            const piece = try operator.next() orelse break;
            try self.emit(piece, place + 1);
            if (facts.piecewise and self.pending.items.len > waiting) return false;
        }
        return true;
    }

    /// All that waits, as one list: a u32 of size before each batch.
    pub fn hand_over_list(self: *Query) Error!Output {
        if (self.lends) return refuse("a list of answers is copied, not lent");
        var size: usize = 0;
        var row_count: u32 = 0;
        for (self.pending.items) |piece| {
            size += 4 + piece.bytes.len;
            row_count += piece.row_count;
        }
        const list = try self.gpa.alloc(u8, size);
        var position: usize = 0;
        for (self.pending.items) |piece| {
            std.mem.writeInt(u32, list[position..][0..4], @intCast(piece.bytes.len), .little);
            @memcpy(list[position + 4 ..][0..piece.bytes.len], piece.bytes);
            position += 4 + piece.bytes.len;
            self.free_piece(piece);
        }
        self.pending.clearRetainingCapacity();
        self.take_back();
        self.lent = .{ .bytes = list, .row_count = row_count };
        return .{ .bytes = list, .row_count = row_count, .state = .need_input };
    }

    pub fn next(self: *Query) Error!Output {
        if (self.has_more() and self.pending.items.len == 0) try self.advance();
        return self.hand_out(if (self.finished or self.saturated) .done else .need_input);
    }

    fn hand_out(self: *Query, idle: State) Output {
        self.take_back();
        if (self.pending.items.len == 0) return .{ .state = idle };
        if (self.pending.items.len > 1 and self.has_partitions()) {
            if (self.hand_out_parts(idle)) |output| return output else |_| {} // one by one, then
        }
        const piece = self.pending.orderedRemove(0);
        self.lent = piece;
        return .{
            .bytes = piece.bytes,
            .row_count = piece.row_count,
            .state = if (self.pending.items.len > 0 or self.has_more()) .more_output else idle,
            .partition = piece.partition,
        };
    }

    /// The host has read what the last call handed out. One set of builders is kept: its memory has been
    /// touched, and new memory is what costs.
    fn take_back(self: *Query) void {
        for (self.lent_parts.items) |piece| self.free_piece(piece);
        self.lent_parts.clearRetainingCapacity();
        self.gpa.free(self.lent_list);
        self.lent_list = &.{};
        const lent = self.lent orelse return;
        self.lent = null;
        if (!self.lends or self.spare != null) return self.free_piece(lent);
        self.gpa.free(lent.bytes);
        for (lent.builders) |*builder| builder.reset();
        self.spare = lent.builders;
    }

    /// All that waits: handing over a part takes longer than a few hundred rows of it.
    fn hand_out_parts(self: *Query, idle: State) error{OutOfMemory}!Output {
        const list = try self.gpa.alloc(abi.Part, self.pending.items.len);
        var row_count: u32 = 0;
        for (list, self.pending.items) |*part, piece| {
            part.* = .{
                .address = @truncate(@intFromPtr(piece.bytes.ptr)),
                .size = @intCast(piece.bytes.len),
                .row_count = piece.row_count,
                .partition = piece.partition,
            };
            row_count +|= piece.row_count;
        }
        std.mem.swap(std.ArrayList(Piece), &self.pending, &self.lent_parts);
        self.lent_list = list;
        return .{
            .bytes = std.mem.sliceAsBytes(list),
            .row_count = row_count,
            .state = if (self.has_more()) .more_output else idle,
            .partition = abi.listed,
        };
    }

    fn check_input(batch: Batch, fields: []const schema.Field) Error!void {
        if (batch.columns.len != fields.len) {
            interrupt.describe("a batch of {d} columns for a plan of {d}", .{ batch.columns.len, fields.len });
            return error.SchemaMismatch;
        }
        for (batch.columns, fields, 0..) |*column, field, i| {
            if (same_storage(column.type, field.type)) continue;
            interrupt.describe_column(@intCast(i));
            interrupt.describe("column {s} is not stored as its type {s}", .{ field.name, @tagName(field.type.tag) });
            return error.SchemaMismatch;
        }
    }

    /// The input column of every output column, when the plan only picks columns.
    fn find_direct(self: *const Query, arena: std.mem.Allocator) Error!?[]const u32 {
        const nodes = self.plan.nodes;
        if (nodes.len > 1 or (nodes.len == 1 and nodes[0].rule.picks == null)) return null;
        const picked = try arena.alloc(u32, self.plan.output().len);
        for (picked, 0..) |*column, i| column.* = @intCast(i);
        if (nodes.len == 1 and !nodes[0].rule.picks.?(nodes[0].step, picked)) return null;
        return picked;
    }

    fn emit_direct(self: *Query, batch: Batch, picked: []const u32) Error!void {
        if (batch.row_count == 0) return;
        defer _ = self.scratch.reset(.retain_capacity);
        const columns = try self.scratch.allocator().alloc(Column, picked.len);
        for (columns, picked, self.plan.output()) |*to, index, field| {
            to.* = batch.columns[index];
            to.type = field.type;
        }
        self.row_counts[self.operators.len] += batch.row_count;
        try self.encode(.{ .row_count = batch.row_count, .columns = columns });
    }

    /// Cuts columns into chunks and runs each from step `first` on, with `scratch` for what it needs.
    fn push_chunks(self: *Query, scratch: *Arena, columns: []const Column, row_count: u32, first: usize) Error!void {
        const step = self.chunk_step(row_count, first);
        var start: u32 = 0;
        while (start < row_count and !(self.saturated and first == 0)) : (start += step) {
            try interrupt.check();
            _ = scratch.reset(.retain_capacity);
            const arena = scratch.allocator();
            const count = @min(step, row_count - start);
            const views = try arena.alloc(Column, columns.len);
            const fields = if (first == 0) self.plan.input else self.plan.nodes[first - 1].output;
            for (views, columns, fields) |*view, *column, field| {
                view.* = try column.view(arena, start, count);
                view.type = field.type;
            }
            try self.run_in(arena, .{ .row_count = count, .columns = views }, first);
            if (start >= row_count - count) break; // the next start could pass 2^32
        }
    }

    /// How many rows at a time go through the steps from `first` on.
    fn chunk_step(self: *const Query, row_count: u32, first: usize) u32 {
        if (first == self.operators.len) return expression_module.chunk_rows;
        return self.operators[first].chunk_rows(row_count);
    }

    fn run(self: *Query, first_chunk: Chunk, first: usize) Error!void {
        return self.run_in(self.scratch.allocator(), first_chunk, first);
    }

    fn run_in(self: *Query, arena: std.mem.Allocator, first_chunk: Chunk, first: usize) Error!void {
        var chunk = first_chunk;
        const flow: protocol.Flow = .{ .run_number = self.run_number, .gathers = self.gathers };
        for (self.operators[first..], first + 1..) |*operator, following| {
            self.row_counts[following - 1] += chunk.selected_count();
            switch (try operator.push(arena, &chunk, flow)) {
                .goes_on => {},
                .kept => return,
                .in_pieces => return self.run_pieces(operator, following),
            }
            if (operator.is_used_up()) self.saturated = true;
            if (chunk.selected_count() == 0) return;
        }
        try self.collect(arena, &chunk);
    }

    /// What a chunk became, piece by piece, while somebody behind wants it.
    fn run_pieces(self: *Query, operator: *Operator, first: usize) Error!void {
        while (!self.ends_before(first)) {
            const piece = try operator.next() orelse return;
            try self.emit(piece, first);
        }
    }

    /// A piece goes on with step `first`.
    fn emit(self: *Query, piece: protocol.Piece, first: usize) Error!void {
        switch (piece) {
            .chunk => |made| try self.run_in(made.scratch.allocator(), made.chunk, first),
            .whole => |all| try self.push_chunks(all.scratch orelse &self.scratch, all.columns, all.row_count, first),
            .range => |some| try self.emit_range(some.columns, some.start, some.count, first),
            .order => |some| try self.emit_rows(some.scratch orelse &self.scratch, some.columns, some.rows, first),
            .part => |part| {
                try self.encode_named(part.names, part.batch);
                self.pending.items[self.pending.items.len - 1].partition = part.number;
            },
        }
    }

    /// Rows leave in parts that have numbers.
    pub fn has_partitions(self: *const Query) bool {
        return self.operators.len > 0 and !self.operators[self.operators.len - 1].facts().lends;
    }

    /// A step from `first` on is used up: nothing that comes there changes anything.
    fn ends_before(self: *const Query, first: usize) bool {
        for (self.operators[first..]) |*operator| if (operator.is_used_up()) return true;
        return false;
    }

    /// Bytes that the steps hold between two chunks.
    pub fn state_size(self: *const Query) u64 {
        var total: u64 = 0;
        for (self.operators) |*operator| total += operator.size();
        return total;
    }

    /// Rows of columns, in this order, from step `first` on.
    fn emit_rows(self: *Query, scratch: *Arena, columns: []const Column, rows: []const u32, first: usize) Error!void {
        var start: usize = 0;
        while (start < rows.len) : (start += expression_module.chunk_rows) {
            try interrupt.check();
            _ = scratch.reset(.retain_capacity);
            const part = rows[start..@min(rows.len, start + expression_module.chunk_rows)];
            if (first == self.operators.len) {
                try self.collect_rows(columns, part);
            } else {
                const taken = try take_columns(scratch.allocator(), columns, part);
                try self.run_in(scratch.allocator(), .{ .row_count = @intCast(part.len), .columns = taken }, first);
            }
        }
    }

    /// Consecutive rows of columns, from step `first` on.
    fn emit_range(self: *Query, columns: []const Column, start: u32, count: u32, first: usize) Error!void {
        var done: u32 = 0;
        while (done < count) {
            try interrupt.check();
            _ = self.scratch.reset(.retain_capacity);
            const arena = self.scratch.allocator();
            const part = @min(count - done, expression_module.chunk_rows);
            if (first == self.operators.len) {
                for (self.collector, columns) |*builder, *column| try builder.append_range(column, start + done, part);
                try self.count_collected(part);
            } else {
                const taken = try arena.alloc(Column, columns.len);
                for (taken, columns) |*to, *from| {
                    var builder: ColumnBuilder = try .init(arena, from.type);
                    try builder.append_range(from, start + done, part);
                    to.* = try builder.finish(arena);
                }
                try self.run(.{ .row_count = part, .columns = taken }, first);
            }
            done += part;
        }
    }

    fn collect(self: *Query, arena: std.mem.Allocator, chunk: *const Chunk) Error!void {
        if (chunk.selection != null) {
            var selected = chunk.selected(arena);
            for (self.collector, chunk.columns) |*builder, *column| try builder.append_selected(column, &selected);
            return self.count_collected(selected.count);
        }
        for (self.collector, chunk.columns) |*builder, *column| try builder.append_range(column, 0, chunk.row_count);
        try self.count_collected(chunk.row_count);
    }

    fn collect_rows(self: *Query, columns: []const Column, rows: []const u32) Error!void {
        for (self.collector, columns) |*builder, *column| try builder.append_indices(column, rows);
        try self.count_collected(@intCast(rows.len));
    }

    pub fn count_collected(self: *Query, count: u32) Error!void {
        self.collected_rows += count;
        self.row_counts[self.operators.len] += count;
        if (!self.gathers and self.collected_size() >= protocol.output_limit()) try self.encode_collected();
    }

    /// Never 0 for rows without bytes, so that a billion NULLs are handed over too.
    fn collected_size(self: *const Query) u64 {
        var total: u64 = self.collected_rows / 8;
        for (self.collector) |*builder| total += builder.memory_size();
        return total;
    }

    fn encode_collected(self: *Query) Error!void {
        var arena: Arena = .init(self.gpa);
        defer arena.deinit();
        const columns = try arena.allocator().alloc(Column, self.collector.len);
        for (columns, self.collector) |*column, *builder| column.* = try builder.finish(arena.allocator());
        const batch: Batch = .{ .row_count = self.collected_rows, .columns = columns };
        if (self.lends) {
            try self.lend_collected(batch);
        } else {
            try self.encode(batch);
            for (self.collector) |*builder| builder.reset();
        }
        self.collected_rows = 0;
    }

    fn encode(self: *Query, batch: Batch) Error!void {
        return self.encode_named(self.names, batch);
    }

    fn encode_named(self: *Query, names: []const []const u8, batch: Batch) Error!void {
        const size = try qmcb.encoded_size(names, batch);
        const bytes = try self.gpa.alloc(u8, std.math.cast(usize, size) orelse return error.TooLarge);
        errdefer self.gpa.free(bytes);
        qmcb.encode(bytes, names, batch);
        try self.pending.append(self.gpa, .{ .bytes = bytes, .row_count = batch.row_count });
        self.emitted = true;
    }

    /// The builders themselves wait, and others collect what follows.
    fn lend_collected(self: *Query, batch: Batch) Error!void {
        const bytes = try batch_export.describe(self.gpa, batch);
        errdefer self.gpa.free(bytes);
        try self.pending.ensureUnusedCapacity(self.gpa, 1);
        const following = self.spare orelse try self.new_builders();
        self.spare = following;
        if (self.collected_size() >= protocol.output_limit()) {
            // More is coming, and as much of it.
            for (following, self.collector) |*builder, *full| try builder.reserve_like(full);
        }
        self.spare = null;
        self.pending.appendAssumeCapacity(
            .{ .bytes = bytes, .row_count = batch.row_count, .builders = self.collector },
        );
        self.collector = following;
        self.emitted = true;
    }
};

fn refuse(message: []const u8) error{InvalidPlan} {
    interrupt.describe("{s}", .{message});
    return error.InvalidPlan;
}

/// A batch says how its values lie; the plan says what they mean. Zones and names may differ.
fn same_storage(a: schema.DataType, b: schema.DataType) bool {
    if (a.tag != b.tag or a.width != b.width or a.unit != b.unit) return false;
    if (a.precision != b.precision or a.scale != b.scale) return false;
    if (a.children.len != b.children.len) return false;
    for (a.children, b.children) |x, y| if (!same_storage(x.type, y.type)) return false;
    return true;
}

fn take_columns(arena: std.mem.Allocator, columns: []const Column, rows: []const u32) Error![]Column {
    const taken = try arena.alloc(Column, columns.len);
    for (taken, columns) |*to, *from| to.* = try take_rows(arena, from, rows);
    return taken;
}

test "steps say what they hold" {
    const gpa = std.testing.allocator;
    // x int64, sorted, without a limit
    const head = [_]u8{ 'Q', 'M', 'P', 'L', abi.version, 0, 0, 0, 0, 0, 1, 0, 1, 0, 'x', 1, 1, 0 };
    const no_limit: [8]u8 = @splat(0xFF);
    const sort = [_]u8{ 4, 1, 0, 0, 0, 1, 0, 0 } ++ no_limit;
    const query: *Query = try .open(gpa, &(head ++ sort), &.{});
    defer query.close();
    try std.testing.expectEqual(0, query.state_size());
    const values: [1000]i64 align(16) = @splat(7);
    const column: Column = .{ .type = .of(.i64), .row_count = values.len, .data = std.mem.sliceAsBytes(&values) };
    for (1..3) |round| {
        _ = try query.push(.{ .row_count = values.len, .columns = &.{column} });
        try std.testing.expectEqual(round * @sizeOf(@TypeOf(values)), query.state_size());
    }
    // The next lane begins with nothing.
    try std.testing.expectEqual(2 * values.len, (try query.finish()).row_count);
    _ = try query.push(.{ .row_count = 1, .columns = &.{try column.view(gpa, 0, 1)} });
    try std.testing.expectEqual(8, query.state_size());
}

test "lent columns stay while others are collected" {
    const gpa = std.testing.allocator;
    // x int64 and no steps
    const plan = [_]u8{ 'Q', 'M', 'P', 'L', @import("abi.zig").version, 0, 0, 0, 0, 0, 1, 0, 1, 0, 'x', 1, 0, 0 };
    const query: *Query = try .open(gpa, &plan, &.{});
    defer query.close();
    try query.lend();
    const count = output_size_min / 8;
    const values = try gpa.alignedAlloc(i64, .@"16", count);
    defer gpa.free(values);
    const column: Column = .{ .type = .of(.i64), .row_count = count, .data = std.mem.sliceAsBytes(values) };
    for (0..3) |round| {
        for (values, 0..) |*value, i| value.* = @intCast(round * count + i);
        const output = try query.push(.{ .row_count = count, .columns = &.{column} });
        try std.testing.expectEqual(count, output.row_count);
        const builders = query.lent.?.builders;
        try std.testing.expect(builders.ptr != query.collector.ptr);
        const rows = @as([*]const i64, @ptrCast(@alignCast(builders[0].data.items.ptr)))[0..count];
        try std.testing.expectEqualSlices(i64, values, rows);
    }
    // Nothing is left, and nobody needs to be told so.
    try std.testing.expectEqual(0, (try query.finish()).bytes.len);
    try std.testing.expectError(error.InvalidPlan, query.lend());
}
