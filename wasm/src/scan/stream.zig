//! Reads a part of a file into a query whose rows nobody has counted: they come as they are found.
//!
//!     open → rows … → done          any step may need bytes, or have output
//!
//! What the bytes mean, and how rows are cut into chunks, the format's reader knows (format/reader.zig). Filters
//! are the query's own steps.
const std = @import("std");
const columns_module = @import("columns.zig");
const driver = @import("driver.zig");
const expression_module = @import("../plan/expression.zig");
const pipeline = @import("../pipeline.zig");
const reader_module = @import("../format/reader.zig");
const segments_module = @import("../format/segments.zig");
const Arena = @import("../core/arena.zig").Arena;
const Column = @import("../core/column.zig").Column;
const ColumnBuilder = @import("../core/column_builder.zig").ColumnBuilder;
const DataType = @import("../core/schema.zig").DataType;
const File = reader_module.File;
const Input = columns_module.Input;
const Needs = segments_module.Needs;
const Query = pipeline.Query;
const Reader = reader_module.Reader;
const Segment = segments_module.Segment;

pub const Error = columns_module.Error;

pub const Stream = struct {
    gpa: std.mem.Allocator,
    arena: Arena,
    query: *Query,
    file: File,
    reader: Reader,
    /// Constants are copies.
    inputs: []const Input = &.{},
    needs: Needs = .empty,
    is_done: bool = false,

    pub fn open(
        gpa: std.mem.Allocator,
        query: *Query,
        file: File,
        inputs: []const Input,
        window_size: u64,
        part: reader_module.Part,
    ) Error!*Stream {
        const self = try gpa.create(Stream);
        errdefer gpa.destroy(self);
        self.* = .{ .gpa = gpa, .arena = .init(gpa), .query = query, .file = file, .reader = undefined };
        errdefer self.arena.deinit();
        const arena = self.arena.allocator();
        const copies = try arena.dupe(Input, inputs);
        const places = try arena.alloc(?u32, inputs.len);
        for (copies, places, query.plan.input) |*input, *place, field| switch (input.*) {
            .place => |number| place.* = number,
            .constant => |value| {
                place.* = null;
                input.* = .{ .constant = try copy_constant(arena, &value, field.type) };
            },
        };
        self.inputs = copies;
        self.reader = try .open(gpa, file, &.{
            .piece = 0,
            .places = places,
            .window_size = window_size,
            .part = part,
        });
        return self;
    }

    pub fn close(self: *Stream) void {
        const gpa = self.gpa;
        self.reader.close();
        self.needs.deinit(gpa);
        self.arena.deinit();
        gpa.destroy(self);
    }

    pub fn add_segment(self: *Stream, owner: u32, segment: Segment) Error!void {
        try self.reader.add_segment(self.gpa, owner, segment);
    }

    /// As of scans of known rows: there is no plan, and no evidence.
    pub fn plan_bits(_: *const Stream) u32 {
        return 0;
    }

    pub fn needs_evidence(_: *const Stream) bool {
        return false;
    }

    pub fn step(self: *Stream) Error!driver.Progress {
        if (self.is_done) return .done;
        self.needs.clearRetainingCapacity();
        while (true) switch (try self.reader.next(expression_module.chunk_rows, &self.needs)) {
            .need_bytes => return .need_bytes,
            .end => break,
            .rows => |count| {
                try self.pass(count);
                if (self.query.saturated) break;
                if (self.query.pending.items.len > 0) return .output;
            },
        };
        self.is_done = true;
        try self.query.settle_output();
        return .done;
    }

    fn pass(self: *Stream, row_count: u32) Error!void {
        try self.query.begin_chunk();
        const arena = self.query.scratch.allocator();
        const columns = try arena.alloc(Column, self.inputs.len);
        for (columns, self.inputs, self.query.plan.input, 0..) |*column, input, field, i| {
            column.* = switch (input) {
                .place => try self.reader.column(i),
                .constant => |*value| try columns_module.repeated(arena, value, row_count),
            };
            column.type = field.type;
        }
        try self.query.run_chunk(.{ .row_count = row_count, .columns = columns }, 0);
        self.reader.clear();
    }
};

fn copy_constant(arena: std.mem.Allocator, value: *const Column, data_type: DataType) Error!Column {
    var builder: ColumnBuilder = try .init(arena, data_type);
    if (value.is_valid(0)) try builder.append_range(value, 0, 1) else try builder.append_nulls(1);
    return builder.finish(arena);
}
