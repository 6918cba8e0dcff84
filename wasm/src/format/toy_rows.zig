//! The least that a format can be, for tests alone: rows of fixed width, in two files.
//!
//!     what the host keeps    u32 rows, u32 columns │ of each column u8 file, u8 type, u16 offset in the row │
//!                            u32 bytes of a row in the first file, u32 in the second
//!     a file                 rows of values, little endian, one behind the other
const std = @import("std");
const abi = @import("../abi.zig");
const reader = @import("reader.zig");
const segments_module = @import("segments.zig");
const ColumnBuilder = @import("../core/column_builder.zig").ColumnBuilder;
const Cursor = @import("../core/cursor.zig").Cursor;
const DataType = @import("../core/schema.zig").DataType;
const Needs = segments_module.Needs;

const Column = struct {
    file: u8,
    type: DataType,
    offset: u16,
    row_size: u64,

    fn parse(cursor: *Cursor, row_sizes: *const [8]u8) error{InvalidFormat}!Column {
        const file = try cursor.read_int(u8);
        const data_type: DataType = .of(try cursor.read_enum(abi.TypeTag));
        const offset = try cursor.read_int(u16);
        const is_known = data_type.tag == .i32 or data_type.tag == .i64 or data_type.tag == .f64;
        if (file > 1 or !is_known) return error.InvalidFormat;
        const row_size = std.mem.readInt(u32, row_sizes[file * 4 ..][0..4], .little);
        if (offset + data_type.value_size() > row_size) return error.InvalidFormat;
        return .{ .file = file, .type = data_type, .offset = offset, .row_size = row_size };
    }

    fn rows(self: *const Column, first: u64, count: u32) segments_module.Range {
        return .{ .file = self.file, .offset = first * self.row_size, .size = count * self.row_size };
    }
};

const Input = struct { column: Column, segments: segments_module.Segments = .{} };

pub const ToyRows = struct {
    gpa: std.mem.Allocator,
    inputs: []Input,

    pub fn open(gpa: std.mem.Allocator, file: *File, opening: *const reader.Opening) reader.Error!*ToyRows {
        const inputs = try gpa.alloc(Input, opening.places.len);
        errdefer gpa.free(inputs);
        for (inputs, opening.places) |*input, place|
            input.* = .{ .column = if (place) |number| file.columns[number] else undefined };
        const self = try gpa.create(ToyRows);
        self.* = .{ .gpa = gpa, .inputs = inputs };
        return self;
    }

    pub fn close(self: *ToyRows) void {
        for (self.inputs) |*input| input.segments.deinit(self.gpa);
        self.gpa.free(self.inputs);
        self.gpa.destroy(self);
    }

    pub fn segments_of(self: *ToyRows, owner: u32) ?*segments_module.Segments {
        return if (owner < self.inputs.len) &self.inputs[owner].segments else null;
    }

    pub fn need(self: *ToyRows, owner: usize, row: u64, spans: []const reader.Span, needs: *Needs) reader.Error!void {
        for (spans) |span| {
            const range = self.inputs[owner].column.rows(row + span.begin, span.count());
            if (self.inputs[owner].segments.find(range) != null) continue;
            try needs.append(self.gpa, .{ .range = range, .owner = @intCast(owner) });
        }
    }

    pub fn read(self: *ToyRows, owner: usize, builder: *ColumnBuilder, row: u64, count: u32) reader.Error!void {
        const column = &self.inputs[owner].column;
        const bytes = self.inputs[owner].segments.find(column.rows(row, count)) orelse return reader.not_fetched();
        const size: usize = @intCast(column.type.value_size());
        const target = try builder.grow_rows(count);
        for (0..count) |i| {
            const from: usize = @intCast(i * column.row_size + column.offset);
            @memcpy(target[i * size ..][0..size], bytes[from..][0..size]);
        }
    }

    pub const File = struct {
        gpa: std.mem.Allocator,
        row_count: u32,
        columns: []Column,

        pub fn open(gpa: std.mem.Allocator, blob: []const u8) reader.Error!*File {
            var cursor: Cursor = .init(blob);
            const row_count = try cursor.read_int(u32);
            const column_count = try cursor.read_int(u32);
            if (cursor.remaining() != @as(u64, column_count) * 4 + 8) return error.InvalidFormat;
            const columns = try gpa.alloc(Column, column_count);
            errdefer gpa.free(columns);
            for (columns) |*column| column.* = try .parse(&cursor, blob[blob.len - 8 ..][0..8]);
            const self = try gpa.create(File);
            self.* = .{ .gpa = gpa, .row_count = row_count, .columns = columns };
            return self;
        }

        pub fn close(self: *File) void {
            self.gpa.free(self.columns);
            self.gpa.destroy(self);
        }

        pub fn piece_count(_: *const File) u32 {
            return 1;
        }

        pub fn piece_rows(self: *const File, _: u32) u64 {
            return self.row_count;
        }

        pub fn place_type(self: *const File, place: u32) ?DataType {
            return if (place < self.columns.len) self.columns[place].type else null;
        }
    };
};
