//! What the host keeps of a text file: `abi.TextFile`, and how it is to be read, all of its columns among it.
const std = @import("std");
const abi = @import("../../abi.zig");
const builder_module = @import("builder.zig");
const interrupt = @import("../../core/interrupt.zig");
const options_module = @import("options.zig");
const reader = @import("../reader.zig");
const schema = @import("../../core/schema.zig");
const Arena = @import("../../core/arena.zig").Arena;

pub const File = struct {
    gpa: std.mem.Allocator,
    arena: Arena,
    size: u64,
    compression: abi.TextCompression,
    options: options_module.Options,
    fields: []const schema.Field,

    pub fn open(gpa: std.mem.Allocator, blob: []const u8) reader.Error!*File {
        const head_size = @sizeOf(abi.TextFile);
        if (blob.len < head_size) return refuse("a file of text that is cut short");
        const packed_by = std.mem.readInt(u32, blob[@offsetOf(abi.TextFile, "compression")..][0..4], .little);
        const compression = std.enums.fromInt(abi.TextCompression, packed_by) orelse
            return refuse("an unknown way to pack text");
        var arena: Arena = .init(gpa);
        errdefer arena.deinit();
        // Options point into what they were read from.
        const options = options_module.parse(try arena.allocator().dupe(u8, blob[head_size..])) catch
            return error.InvalidPlan;
        const fields = builder_module.read_declared(
            arena.allocator(),
            options.columns,
            options.column_count,
        ) catch |err| return if (err == error.OutOfMemory) error.OutOfMemory else refuse("columns that no text has");
        const self = try gpa.create(File);
        self.* = .{
            .gpa = gpa,
            .arena = arena,
            .size = std.mem.readInt(u64, blob[@offsetOf(abi.TextFile, "size")..][0..8], .little),
            .compression = compression,
            .options = options,
            .fields = fields,
        };
        return self;
    }

    pub fn close(self: *File) void {
        const gpa = self.gpa;
        self.arena.deinit();
        gpa.destroy(self);
    }

    /// Rows come from runs of bytes, which nobody has numbered.
    pub fn piece_count(_: *const File) u32 {
        return 0;
    }

    pub fn piece_rows(_: *const File, _: u32) u64 {
        unreachable; // there is no piece to ask for
    }

    pub fn place_type(self: *const File, place: u32) ?schema.DataType {
        return if (place < self.fields.len) self.fields[place].type else null;
    }
};

fn refuse(message: []const u8) error{InvalidPlan} {
    interrupt.describe("{s}", .{message});
    return error.InvalidPlan;
}
