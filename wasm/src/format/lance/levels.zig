//! Levels: what a page's layers make of its repetition and definition levels.
//!
//! Lance counts from the values outwards: definition 0 is a value, and every layer that may lack something adds
//! its numbers behind those within it (NULL, then empty). Repetition 0 goes on in the same innermost list, k
//! begins a new list k levels up. Columns are put together from levels that count from the row inwards
//! (format/nested.zig), so each page has a table from its own to those.
const std = @import("std");
const interrupt = @import("../../core/interrupt.zig");
const layout = @import("layout.zig");
const Arena = @import("../../core/arena.zig").Arena;

pub const Error = error{ InvalidFormat, OutOfMemory };

/// From a leaf outwards: itself, and each structure or list that it lies in.
pub const Step = struct {
    is_list: bool,
    /// From which level on it is not NULL.
    definition: u8,
};

pub const Path = struct {
    steps: []const Step,
    /// Lists among them.
    depth: u8,
};

/// Levels of the rows that were read, as nested.zig wants them.
pub const Lists = struct {
    definitions: *std.ArrayList(u8),
    repetitions: *std.ArrayList(u8),
};

pub const Table = struct {
    /// By a page's definition levels, those of ours.
    definitions: []u8,
    /// Levels up to this have a value, be it one that stands for NULL.
    visible_max: u16,
    depth: u8,

    pub fn of(arena: std.mem.Allocator, layers: []const layout.Layer, path: *const Path) Error!Table {
        @setRuntimeSafety(true);
        if (layers.len != path.steps.len) {
            interrupt.describe("a page has {d} layers, its column {d}", .{ layers.len, path.steps.len });
            return error.InvalidFormat;
        }
        const definitions = try arena.alloc(u8, 2 * layers.len + 1);
        definitions[0] = path.steps[0].definition;
        var count: usize = 1;
        var visible_max: ?u16 = null;
        for (layers, path.steps) |layer, step| {
            if (layer.is_list() != step.is_list) {
                interrupt.describe("a page's lists and structures are not those of its column", .{});
                return error.InvalidFormat;
            }
            if (layer.is_list() and visible_max == null) visible_max = @intCast(count - 1);
            const may_be_null = layer == .nullable_item or layer == .nullable_list or layer == .null_and_empty_list;
            const may_be_empty = layer == .emptyable_list or layer == .null_and_empty_list;
            if (may_be_null) {
                definitions[count] = step.definition - 1;
                count += 1;
            }
            if (may_be_empty) {
                definitions[count] = step.definition;
                count += 1;
            }
        }
        return .{
            .definitions = definitions[0..count],
            .visible_max = visible_max orelse @intCast(count - 1),
            .depth = path.depth,
        };
    }

    /// A leaf that has no values at all: where there should be one, it is NULL.
    pub fn forget_values(self: *Table) void {
        const leaf = self.definitions[0];
        for (self.definitions[0 .. self.visible_max + 1]) |*level| level.* = @min(level.*, leaf - 1);
    }

    pub fn check(self: *const Table, codes: []const u16) Error!void {
        var greatest: u16 = 0;
        for (codes) |code| greatest = @max(greatest, code);
        if (greatest < self.definitions.len) return;
        interrupt.describe("a definition level of {d} in a page that has {d}", .{ greatest, self.definitions.len });
        return error.InvalidFormat;
    }

    pub fn check_repetitions(self: *const Table, codes: []const u16) Error!void {
        var greatest: u16 = 0;
        for (codes) |code| greatest = @max(greatest, code);
        if (greatest <= self.depth) return;
        interrupt.describe("a repetition level of {d} in a column of {d} lists", .{ greatest, self.depth });
        return error.InvalidFormat;
    }

    /// Adds `count` entries. Null: all of a page's levels are 0, and every entry is a row.
    pub fn append(
        self: *const Table,
        gpa: std.mem.Allocator,
        lists: Lists,
        repetitions: ?[]const u16,
        definitions: ?[]const u16,
        count: usize,
    ) Error!void {
        const of_definitions = try lists.definitions.addManyAsSlice(gpa, count);
        if (definitions) |codes| {
            for (of_definitions, codes) |*to, code| to.* = self.definitions[code];
        } else @memset(of_definitions, self.definitions[0]);
        const of_repetitions = try lists.repetitions.addManyAsSlice(gpa, count);
        if (repetitions) |codes| {
            for (of_repetitions, codes) |*to, code| to.* = @intCast(self.depth - code);
        } else @memset(of_repetitions, 0);
    }

    /// Values that these entries have.
    pub fn count_visible(self: *const Table, definitions: ?[]const u16, count: usize) u32 {
        const codes = definitions orelse return @intCast(count);
        if (self.visible_max + 1 == self.definitions.len) return @intCast(count);
        var visible: u32 = 0;
        for (codes) |code| visible += @intFromBool(code <= self.visible_max);
        return visible;
    }

    /// Whether an entry begins a row.
    pub fn begins_row(self: *const Table, repetition: u16) bool {
        return repetition == self.depth;
    }
};

test Table {
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    defer interrupt.forget();
    // A list of structures that have a number: row 1, list's element 2, structure 3, number 4.
    const path: Path = .{ .steps = &.{
        .{ .is_list = false, .definition = 4 },
        .{ .is_list = false, .definition = 3 },
        .{ .is_list = true, .definition = 1 },
    }, .depth = 1 };
    const table: Table = try .of(arena.allocator(), &.{ .nullable_item, .all_valid_item, .null_and_empty_list }, &path);
    try std.testing.expectEqualSlices(u8, &.{ 4, 3, 0, 1 }, table.definitions);
    try std.testing.expectEqual(1, table.visible_max);
    try std.testing.expectEqual(2, table.count_visible(&.{ 0, 1, 2, 3 }, 4));
    var definitions: std.ArrayList(u8) = .empty;
    var repetitions: std.ArrayList(u8) = .empty;
    const lists: Lists = .{ .definitions = &definitions, .repetitions = &repetitions };
    try table.append(arena.allocator(), lists, &.{ 1, 0, 1 }, &.{ 0, 1, 2 }, 3);
    try std.testing.expectEqualSlices(u8, &.{ 4, 3, 0 }, definitions.items);
    try std.testing.expectEqualSlices(u8, &.{ 0, 1, 0 }, repetitions.items);
    try std.testing.expectError(error.InvalidFormat, table.check(&.{ 0, 4 }));
    try std.testing.expectError(error.InvalidFormat, table.check_repetitions(&.{2}));
    try std.testing.expectError(error.InvalidFormat, Table.of(arena.allocator(), &.{.nullable_item}, &path));
}
