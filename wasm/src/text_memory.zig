//! Text in memory on its way to QMCB: what `from_csv` and `from_json` read.
const std = @import("std");
const abi = @import("abi.zig");
const column_module = @import("core/column.zig");
const csv = @import("format/text/csv.zig");
const json = @import("format/text/json.zig");
const pipeline = @import("pipeline.zig");
const qmcb = @import("qmcb.zig");
const schema = @import("core/schema.zig");
const Arena = @import("core/arena.zig").Arena;
const ColumnBuilder = @import("core/column_builder.zig").ColumnBuilder;
const Options = @import("format/text/options.zig").Options;

pub const Error = csv.Error || json.Error || qmcb.Error;

const Reader = union(enum) {
    csv: csv.Reader,
    json: json.Reader,

    fn open(gpa: std.mem.Allocator, format: abi.TextFormat, text: []const u8, options: Options) Error!Reader {
        return switch (format) {
            .csv => .{ .csv = try .init(gpa, text, options) },
            .json => .{ .json = try .init(gpa, text, options) },
        };
    }

    fn close(self: *Reader) void {
        switch (self.*) {
            inline else => |*reader| reader.deinit(),
        }
    }

    fn fields(self: *const Reader) []const schema.Field {
        return switch (self.*) {
            inline else => |*reader| reader.fields,
        };
    }
};

pub const Text = struct {
    gpa: std.mem.Allocator,
    reader: Reader,
    names: []const []const u8,
    encoded: []u8 = &.{},
    /// A batch has been handed out. The first one may be empty: it carries the schema.
    started: bool = false,

    /// `text` stays until it is closed.
    pub fn open(gpa: std.mem.Allocator, format: abi.TextFormat, text: []const u8, options: Options) Error!*Text {
        var reader: Reader = try .open(gpa, format, text, options);
        errdefer reader.close();
        const fields = reader.fields();
        const names = try gpa.alloc([]const u8, fields.len);
        errdefer gpa.free(names);
        for (names, fields) |*name, field| name.* = field.name;
        const self = try gpa.create(Text);
        self.* = .{ .gpa = gpa, .reader = reader, .names = names };
        return self;
    }

    pub fn next(self: *Text) Error!pipeline.Output {
        self.gpa.free(self.encoded);
        self.encoded = &.{};
        var arena: Arena = .init(self.gpa);
        defer arena.deinit();
        const batch = switch (self.reader) {
            inline else => |*reader| try reader.next(),
        } orelse blk: {
            if (self.started) return .{ .state = .done };
            break :blk try empty_batch(arena.allocator(), self.reader.fields());
        };
        self.started = true;
        const size = std.math.cast(usize, try qmcb.encoded_size(self.names, batch)) orelse return error.TooLarge;
        self.encoded = try self.gpa.alloc(u8, size);
        qmcb.encode(self.encoded, self.names, batch);
        return .{ .bytes = self.encoded, .row_count = batch.row_count, .state = .more_output };
    }

    pub fn close(self: *Text) void {
        self.gpa.free(self.encoded);
        self.gpa.free(self.names);
        self.reader.close();
        self.gpa.destroy(self);
    }
};

fn empty_batch(arena: std.mem.Allocator, fields: []const schema.Field) Error!column_module.Batch {
    const columns = try arena.alloc(column_module.Column, fields.len);
    for (columns, fields) |*column, field| {
        const builder: ColumnBuilder = try .init(arena, field.type);
        column.* = try builder.finish(arena);
    }
    return .{ .row_count = 0, .columns = columns };
}
