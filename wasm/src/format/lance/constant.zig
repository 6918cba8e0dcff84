//! Pages in which all values are the same, or there is none.
//!
//!     buffers     none │ value │ repetitions, definitions │ value, repetitions, definitions
//!
//! Levels, where there are any, are read once for the whole page. A page without a value is one of NULLs.
const std = @import("std");
const bitmap = @import("../../core/bitmap.zig");
const blocks = @import("blocks.zig");
const interrupt = @import("../../core/interrupt.zig");
const layout_module = @import("layout.zig");
const levels = @import("levels.zig");
const page_module = @import("page.zig");
const Arena = @import("../../core/arena.zig").Arena;
const ColumnBuilder = @import("../../core/column_builder.zig").ColumnBuilder;
const Constant = layout_module.Constant;
const Context = page_module.Context;
const Encoding = @import("compression.zig").Encoding;
const Ranges = page_module.Ranges;
const refuse = page_module.refuse;

pub const Error = page_module.Error;

pub const ConstantPage = struct {
    context: Context,
    layout: *const Constant,
    table: levels.Table,
    is_open: bool = false,
    value: ?[]const u8 = null,
    repetitions: ?[]const u16 = null,
    definitions: ?[]const u16 = null,
    /// Entries; where there are no levels, rows.
    entry_count: u64 = 0,
    /// Where a row begins, so that what follows need not count from the first.
    known_row: u64 = 0,
    known_entry: usize = 0,
    valid: std.ArrayList(u8) = .empty,

    pub fn init(context: Context, layout: *const Constant) Error!ConstantPage {
        return .{ .context = context, .layout = layout, .table = try .of(context.arena, layout.layers, context.path) };
    }

    pub fn deinit(self: *ConstantPage) void {
        self.valid.deinit(self.context.gpa);
    }

    /// Notes what is missing; true once everything is here and has been read.
    pub fn prepare(self: *ConstantPage, missing: *Ranges) Error!bool {
        if (self.is_open) return true;
        const before = missing.items.len;
        for (self.context.page.buffers) |buffer| try self.context.want(buffer, missing);
        if (missing.items.len > before) return false;
        try self.open();
        self.is_open = true;
        return true;
    }

    fn open(self: *ConstantPage) Error!void {
        @setRuntimeSafety(true);
        const count = self.context.page.buffers.len;
        if (count > 3) return refuse("a page of one value has {d} buffers", .{count});
        const has_levels = count >= 2;
        if (has_levels) {
            self.repetitions = try self.read_levels(count - 2, self.layout.repetition, self.layout.repetition_count);
            self.definitions = try self.read_levels(count - 1, self.layout.definition, self.layout.definition_count);
        }
        if (self.repetitions) |codes| try self.table.check_repetitions(codes);
        if (self.definitions) |codes| try self.table.check(codes);
        self.entry_count = self.context.page.row_count;
        if (self.repetitions orelse self.definitions) |codes| self.entry_count = codes.len;
        if (self.definitions) |codes| if (codes.len != self.entry_count)
            return refuse("a page has {d} repetitions and {d} definitions", .{ self.entry_count, codes.len });
        try self.check_rows();
        if (self.layout.value) |value| {
            self.value = value;
        } else if (count % 2 == 1) {
            const bytes = try self.context.bytes(try self.context.whole(0));
            // Bytes of the file do not stay, the page does.
            if (bytes.len > 0) self.value = try self.context.arena.dupe(u8, try blocks.constant_value(bytes));
        }
        if (self.value == null) self.table.forget_values();
    }

    fn read_levels(self: *ConstantPage, buffer: usize, encoding: ?*const Encoding, said: u64) Error!?[]const u16 {
        @setRuntimeSafety(true);
        const bytes = try self.context.bytes(try self.context.whole(buffer));
        if (bytes.len == 0) return null;
        const count = if (encoding == null) bytes.len / 2 else said;
        // Runs of up to 255 take two bytes at least, and bits an eighth.
        if (count > @as(u64, bytes.len) * 1024)
            return refuse("a page of {d} bytes of levels says that it has {d}", .{ bytes.len, count });
        const codes = try self.context.arena.alloc(u16, @intCast(count));
        try blocks.read_levels(self.context.gpa, encoding, bytes, codes);
        return codes;
    }

    fn check_rows(self: *const ConstantPage) Error!void {
        var rows = self.entry_count;
        if (self.repetitions) |codes| {
            rows = 0;
            for (codes) |code| rows += @intFromBool(self.table.begins_row(code));
            if (codes.len > 0 and !self.table.begins_row(codes[0]))
                return refuse("a page does not begin with a row", .{});
        }
        if (rows != self.context.page.row_count)
            return refuse("a page of {d} rows has levels of {d}", .{ self.context.page.row_count, rows });
    }

    pub fn need(_: *ConstantPage, _: u64, _: u64, _: *Ranges) Error!void {}

    pub fn reach(self: *const ConstantPage, _: u64, _: u64) u64 {
        return self.context.page.row_count;
    }

    pub fn first_used(_: *const ConstantPage, _: u64) Error!u64 {
        return 0;
    }

    // ---- rows ----

    pub fn read(self: *ConstantPage, builder: *ColumnBuilder, begin: u64, count: u32) Error!void {
        if (self.value == null) return builder.append_nulls(count);
        var valid: ?[]const u8 = null;
        if (self.definitions) |codes| valid = try self.valid_values(codes[@intCast(begin)..][0..count]);
        try page_module.add_validity(builder, valid, 0, count);
        try blocks.read_constant(self.context.gpa, self.value.?, count, self.context.leaf, builder);
        try builder.settle(count);
    }

    fn valid_values(self: *ConstantPage, codes: []const u16) Error!?[]const u8 {
        try self.valid.resize(self.context.gpa, bitmap.size(codes.len) + 8);
        return if (page_module.mark_valid(codes, self.valid.items)) self.valid.items else null;
    }

    pub fn read_entries(self: *ConstantPage, builder: *ColumnBuilder, begin: u64, count: u32) Error!void {
        const first = self.entry_of(begin);
        const last = self.entry_of(begin + count);
        const definitions = if (self.definitions) |codes| codes[first..last] else null;
        const repetitions = if (self.repetitions) |codes| codes[first..last] else null;
        try self.table.append(self.context.gpa, self.context.lists, repetitions, definitions, last - first);
        const visible = self.table.count_visible(definitions, last - first);
        if (visible == 0) return;
        const value = self.value orelse return page_module.append_empty(builder, visible);
        try blocks.read_constant(self.context.gpa, value, visible, self.context.leaf, builder);
    }

    /// The entry that a row begins with. Rows are asked for one behind the other.
    fn entry_of(self: *ConstantPage, row: u64) usize {
        const codes = self.repetitions orelse return @intCast(row);
        if (row < self.known_row) {
            self.known_row = 0;
            self.known_entry = 0;
        }
        while (self.known_row < row and self.known_entry < codes.len) {
            self.known_entry += 1;
            while (self.known_entry < codes.len and !self.table.begins_row(codes[self.known_entry])) {
                self.known_entry += 1;
            }
            self.known_row += 1;
        }
        return self.known_entry;
    }
};
