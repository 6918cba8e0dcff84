//! The filter of a scan: the query's leading filters, taken apart into their AND terms.
//!
//! A term over one column is asked once per entry of its dictionary, and its rows by their codes; other terms
//! follow, over decoded values, while rows are left.
const std = @import("std");
const bitmap = @import("../core/bitmap.zig");
const columns_module = @import("columns.zig");
const cuts_module = @import("cuts.zig");
const demand = @import("../plan/demand.zig");
const expression_module = @import("../plan/expression.zig");
const Arena = @import("../core/arena.zig").Arena;
const Column = @import("../core/column.zig").Column;
const ColumnBuilder = @import("../core/column_builder.zig").ColumnBuilder;
const Columns = columns_module.Columns;
const Cut = cuts_module.Cut;
const Error = columns_module.Error;
const Expression = expression_module.Expression;
const Node = @import("../plan/step.zig").Node;
const Selection = expression_module.Selection;

/// A part of the filter. All parts must be TRUE.
const Term = struct {
    expression: *const Expression,
    /// Inputs that it names.
    columns: []const bool,
    /// The one input that it names, if it is one that can be asked by its dictionary.
    single: ?u32,
    /// For every code of the dictionary, and then for NULL: 1 if the term is TRUE.
    verdicts: ?[]const u8 = null,

    /// Sorted first: terms that may cost a look at a dictionary only; late: those that look into a
    /// build; last: those that may fail, in their order, since the others take out rows that must not
    /// fail.
    fn rank(self: *const Term) u8 {
        if (self.expression.fallible) return 3;
        if (looks_up(self.expression)) return 2;
        return if (self.single != null) 0 else 1;
    }

    fn before(_: void, a: Term, b: Term) bool {
        return a.rank() < b.rank();
    }
};

pub const Terms = struct {
    /// Lives as long as the scan.
    arena: std.mem.Allocator,
    columns: *Columns,
    list: []Term,
    /// Inputs that terms name.
    filtered: []const bool,

    pub fn open(arena: std.mem.Allocator, columns: *Columns, filters: []const Node) Error!Terms {
        const filtered = try arena.alloc(bool, columns.inputs.len);
        demand.mark_filtered(filters, filtered);
        var list: std.ArrayList(Term) = .empty;
        for (filters) |*node| try add(arena, columns, &list, node.predicate().?);
        std.mem.sort(Term, list.items, {}, Term.before);
        return .{ .arena = arena, .columns = columns, .list = list.items, .filtered = filtered };
    }

    fn add(
        arena: std.mem.Allocator,
        columns: *const Columns,
        list: *std.ArrayList(Term),
        expression: *const Expression,
    ) Error!void {
        if (expression.node == .logical_and) {
            for (expression.node.logical_and) |*term| try add(arena, columns, list, term);
            return;
        }
        const named = try arena.alloc(bool, columns.inputs.len);
        @memset(named, false);
        expression.mark_columns(named);
        const single = single_input(columns, expression, named);
        try list.append(arena, .{ .expression = expression, .columns = named, .single = single });
    }

    fn single_input(columns: *const Columns, expression: *const Expression, named: []const bool) ?u32 {
        if (expression.fallible) return null;
        var found: ?u32 = null;
        for (named, 0..) |is_named, i| if (is_named) {
            if (found != null or !columns.is_read(i)) return null;
            found = @intCast(i);
        };
        const input = found orelse return null;
        return if (columns.reader.picks(input)) input else null;
    }

    /// The rows of the cut, or of some of them, for which all terms are TRUE; null when that is all of them
    /// for want of a filter.
    pub fn select(self: *Terms, arena: std.mem.Allocator, cut: Cut, before: ?Selection) Error!?Selection {
        var selection = before;
        for (self.list) |*term| {
            if (selection) |rows| if (rows.count == 0) break;
            selection = try self.apply_codes(arena, term, cut, selection) orelse
                try self.apply_values(arena, term, cut, selection);
        }
        return selection;
    }

    /// A term that is decided by codes; null when it cannot be, here.
    fn apply_codes(
        self: *Terms,
        arena: std.mem.Allocator,
        term: *Term,
        cut: Cut,
        before: ?Selection,
    ) Error!?Selection {
        const input = term.single orelse return null;
        if (!try self.columns.know_codes(input, cut)) return null;
        const verdicts = term.verdicts orelse try self.judge_dictionary(term, input) orelse return null;
        const bits = try arena.alloc(u8, bitmap.size(cut.count));
        self.columns.coded[input].judge(verdicts, bits);
        if (before) |selection| bitmap.combine(.@"and", bits, bits, selection.bits);
        return .{ .bits = bits, .count = @intCast(bitmap.count(bits, cut.count)) };
    }

    fn apply_values(
        self: *Terms,
        arena: std.mem.Allocator,
        term: *const Term,
        cut: Cut,
        before: ?Selection,
    ) Error!Selection {
        const views = try arena.alloc(Column, self.columns.inputs.len);
        for (views, term.columns, 0..) |*view, named, i| {
            if (named) try self.columns.materialise(i, cut);
            view.* = try self.columns.column_of(arena, self.columns.builders, i, cut.count, named);
        }
        const chunk: expression_module.Chunk = .{ .row_count = cut.count, .columns = views, .selection = before };
        return expression_module.select(arena, term.expression, &chunk);
    }

    /// What a row takes at most of the columns that must be decoded for all rows of a cut, whose bytes are
    /// here; 0 where that lets them pass together.
    pub fn row_size(self: *const Terms, cut: Cut) u64 {
        var size: u64 = 0;
        for (self.list) |*term| {
            if (self.judges_codes(term, cut)) continue;
            for (term.columns, 0..) |named, input| if (named) {
                size = @max(size, self.columns.coded_row_size(input, cut, &cuts_module.whole_span(cut.count)));
            };
        }
        return size;
    }

    /// Whether a term is decided by the codes of a cut whose bytes are here.
    fn judges_codes(self: *const Terms, term: *const Term, cut: Cut) bool {
        const input = term.single orelse return false;
        return self.pays_to_judge(input) and self.columns.reader.has_codes(input, cut.row, cut.end());
    }

    /// A term is not evaluated over a dictionary of more entries than the piece could repay.
    fn pays_to_judge(self: *const Terms, input: u32) bool {
        const dictionary = self.columns.reader.dictionary(input) orelse return true;
        return dictionary.entries.row_count <= self.columns.row_count / 2 + 64;
    }

    /// Evaluates a term over a dictionary.
    fn judge_dictionary(self: *Terms, term: *Term, input: u32) Error!?[]const u8 {
        const dictionary = (self.columns.reader.dictionary(input) orelse return null).entries;
        if (!self.pays_to_judge(input)) return null;
        const verdicts = try self.arena.alloc(u8, dictionary.row_count + 1);
        var arena: Arena = .init(self.columns.gpa);
        defer arena.deinit();
        var entries: ColumnBuilder = try .init(arena.allocator(), dictionary.type);
        try entries.append_range(&try dictionary.finish(arena.allocator()), 0, dictionary.row_count);
        try entries.append_nulls(1);
        const column = try entries.finish(arena.allocator());
        var start: u32 = 0;
        while (start < column.row_count) : (start += expression_module.chunk_rows) {
            const count = @min(expression_module.chunk_rows, column.row_count - start);
            const views = try arena.allocator().alloc(Column, self.columns.inputs.len);
            views[input] = try column.view(arena.allocator(), start, count);
            views[input].type = self.columns.query.plan.input[input].type;
            const chunk: expression_module.Chunk = .{ .row_count = count, .columns = views };
            const found = try expression_module.select(arena.allocator(), term.expression, &chunk);
            for (verdicts[start..][0..count], 0..) |*verdict, i| {
                verdict.* = @intFromBool(bitmap.get(found.bits.ptr, i));
            }
        }
        term.verdicts = verdicts;
        return verdicts;
    }
};

fn looks_up(expression: *const Expression) bool {
    return switch (expression.node) {
        .in_build => true,
        .logical_not => |term| term.node == .in_build,
        else => false,
    };
}
