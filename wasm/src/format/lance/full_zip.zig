//! Pages of large values, each with its levels in front of it.
//!
//!     buffers     items │ [places of rows]
//!     item        [control word] │ value of a fixed size        where it is a list's element that there is, or NULL
//!                 [control word] │ length │ value of any size   where it is not NULL
//!     control     1, 2 or 4 bytes: repetition level << bits of definition levels │ definition level
//!     places      for every row and behind the last one: where it begins in the items; 1, 2, 4 or 8 bytes each
//!
//! There are places unless all items are of one size: then a row is found by counting.
const std = @import("std");
const bitmap = @import("../../core/bitmap.zig");
const interrupt = @import("../../core/interrupt.zig");
const layout_module = @import("layout.zig");
const levels = @import("levels.zig");
const page_module = @import("page.zig");
const segments_module = @import("../segments.zig");
const values_module = @import("values.zig");
const ColumnBuilder = @import("../../core/column_builder.zig").ColumnBuilder;
const Context = page_module.Context;
const FullZip = layout_module.FullZip;
const Range = segments_module.Range;
const Ranges = page_module.Ranges;
const refuse = page_module.refuse;

pub const Error = page_module.Error;

/// Items that are looked at together.
const batch_items = 4096;

pub const FullZipPage = struct {
    context: Context,
    layout: *const FullZip,
    table: levels.Table,
    values: values_module.Reader,
    control_size: u8,
    /// Bytes of an item, where all have the same.
    stride: ?u64,
    /// Bytes of a place.
    place_size: u8 = 0,
    repetitions: std.ArrayList(u16) = .empty,
    definitions: std.ArrayList(u16) = .empty,
    slices: std.ArrayList([]const u8) = .empty,
    valid: std.ArrayList(u8) = .empty,

    pub fn init(context: Context, layout: *const FullZip) Error!FullZipPage {
        @setRuntimeSafety(true);
        var self: FullZipPage = .{
            .context = context,
            .layout = layout,
            .table = try .of(context.arena, layout.layers, context.path),
            .values = undefined,
            .control_size = layout.control_size(),
            .stride = null,
        };
        const row_count = context.page.row_count;
        const items = try context.whole(0);
        const all_visible = self.table.visible_max + 1 == self.table.definitions.len;
        if (layout.size == .value and context.path.depth == 0 and all_visible) {
            self.stride = self.control_size + layout.size.value / 8;
            const total = std.math.mul(u64, row_count, self.stride.?) catch std.math.maxInt(u64);
            if (total != items.size)
                return refuse("a page of {d} rows has {d} bytes of items", .{ row_count, items.size });
        } else {
            const places = try context.whole(1);
            const size = places.size / (row_count + 1);
            if (size * (row_count + 1) != places.size or size == 0 or size > 8 or !std.math.isPowerOfTwo(size))
                return refuse("a page of {d} rows has {d} bytes of places", .{ row_count, places.size });
            self.place_size = @intCast(size);
        }
        self.values = try .init(context.gpa, layout.values, context.leaf);
        errdefer self.values.deinit();
        if (layout.size == .value) {
            const expected = try self.values.fixed_size() orelse
                return refuse("values of any size in a page of a fixed one", .{});
            if (expected != layout.size.value / 8)
                return refuse("values of {d} bytes that take {d}", .{ expected, layout.size.value / 8 });
        }
        return self;
    }

    pub fn deinit(self: *FullZipPage) void {
        const gpa = self.context.gpa;
        self.values.deinit();
        self.repetitions.deinit(gpa);
        self.definitions.deinit(gpa);
        self.slices.deinit(gpa);
        self.valid.deinit(gpa);
    }

    // ---- bytes ----

    pub fn prepare(_: *FullZipPage, _: *Ranges) Error!bool {
        return true;
    }

    fn place_range(self: *const FullZipPage, begin: u64, end: u64) Error!Range {
        return self.context.part(1, begin * self.place_size, (end + 1) * self.place_size);
    }

    fn place(self: *const FullZipPage, row: u64) Error!u64 {
        @setRuntimeSafety(true);
        const bytes = try self.context.bytes(try self.place_range(row, row));
        return switch (self.place_size) {
            inline 1, 2, 4, 8 => |size| std.mem.readInt(@Int(.unsigned, size * 8), bytes[0..size], .little),
            else => unreachable,
        };
    }

    fn item_range(self: *const FullZipPage, begin: u64, end: u64) Error!Range {
        if (self.stride) |stride| return self.context.part(0, begin * stride, end * stride);
        return self.context.part(0, try self.place(begin), try self.place(end));
    }

    /// First the places of the rows, then, once they are here, the rows themselves.
    pub fn need(self: *FullZipPage, begin: u64, end: u64, missing: *Ranges) Error!void {
        if (self.stride == null) {
            const places = try self.place_range(begin, end);
            if (!self.context.is_here(places)) return missing.append(self.context.gpa, places);
        }
        try self.context.want(try self.item_range(begin, end), missing);
    }

    /// How far rows from `begin` on reach with about so many bytes.
    pub fn reach(self: *const FullZipPage, begin: u64, size: u64) u64 {
        const row_size = self.stride orelse self.context.page.buffers[0].size / @max(self.context.page.row_count, 1);
        return begin + @max(size / @max(row_size, 1), 1);
    }

    /// Where in the file the bytes lie that rows from `row` on need; of those that have places, unknown.
    pub fn first_used(self: *const FullZipPage, row: u64) Error!u64 {
        return if (self.stride == null) 0 else (try self.item_range(row, row)).offset;
    }

    // ---- rows ----

    pub fn read(self: *FullZipPage, builder: *ColumnBuilder, begin: u64, count: u32) Error!void {
        if (self.stride != null and self.control_size == 0) {
            const bytes = try self.context.bytes(try self.item_range(begin, begin + count));
            try page_module.add_validity(builder, null, 0, count);
            try self.values.append_fixed(bytes, @intCast(self.stride.?), count, builder);
            try self.values.check_valid(null, 0);
            return builder.settle(count);
        }
        var items = try self.items_of(begin, begin + count);
        var left = count;
        while (left > 0) {
            const step = @min(left, batch_items);
            try items.next_batch(step);
            if (self.definitions.items.len != step) return refuse("a page's items end before its rows do", .{});
            const valid = try self.valid_values();
            try page_module.add_validity(builder, valid, 0, step);
            try self.append_items(builder, valid);
            try builder.settle(step);
            left -= step;
        }
        if (!items.is_at_end()) return refuse("a page's items go on behind its rows", .{});
    }

    pub fn read_entries(self: *FullZipPage, builder: *ColumnBuilder, begin: u64, count: u32) Error!void {
        var items = try self.items_of(begin, begin + count);
        while (!items.is_at_end()) {
            try items.next_batch(batch_items);
            try self.table.append(
                self.context.gpa,
                self.context.lists,
                if (self.context.path.depth > 0) self.repetitions.items else null,
                self.definitions.items,
                self.definitions.items.len,
            );
            try self.append_items(builder, try self.valid_values());
        }
    }

    fn items_of(self: *FullZipPage, begin: u64, end: u64) Error!Items {
        return .{ .page = self, .bytes = try self.context.bytes(try self.item_range(begin, end)) };
    }

    /// By value: whether it is one. Null: all are.
    fn valid_values(self: *FullZipPage) Error!?[]const u8 {
        const codes = self.definitions.items;
        try self.valid.resize(self.context.gpa, bitmap.size(codes.len) + 8);
        const bits = self.valid.items;
        @memset(bits, 0);
        var count: usize = 0;
        var has_nulls = false;
        for (codes) |code| {
            if (code > self.table.visible_max) continue;
            if (code == 0) bits[count / 8] |= @as(u8, 1) << @intCast(count % 8) else has_nulls = true;
            count += 1;
        }
        return if (has_nulls) bits else null;
    }

    /// The values of the batch, behind the dense ones.
    fn append_items(self: *FullZipPage, builder: *ColumnBuilder, valid: ?[]const u8) Error!void {
        const slices = self.slices.items;
        if (self.layout.size == .length) {
            try self.values.append_variable(slices, builder);
            return self.values.check_valid(valid, 0);
        }
        // Values that lie at equal distances go together.
        var first: usize = 0;
        while (first < slices.len) {
            const stride = if (first + 1 < slices.len) distance(slices, first) else slices[first].len;
            var end = first + 1;
            while (end < slices.len and distance(slices, end - 1) == stride) end += 1;
            const base = slices[first].ptr;
            const size = (end - first - 1) * stride + slices[end - 1].len;
            const count: u32 = @intCast(end - first);
            try self.values.append_fixed(base[0..size], stride, count, builder);
            try self.values.check_valid(valid, @intCast(first));
            first = end;
        }
    }
};

fn distance(slices: []const []const u8, index: usize) usize {
    return @intFromPtr(slices[index + 1].ptr) - @intFromPtr(slices[index].ptr);
}

/// Items one behind the other.
const Items = struct {
    page: *FullZipPage,
    bytes: []const u8,
    position: usize = 0,

    fn is_at_end(self: *const Items) bool {
        return self.position == self.bytes.len;
    }

    /// Up to `count` of them: their levels, and the bytes of those that have a value.
    fn next_batch(self: *Items, count: u32) Error!void {
        @setRuntimeSafety(true);
        try interrupt.check();
        const page = self.page;
        const gpa = page.context.gpa;
        inline for (.{ &page.repetitions, &page.definitions }) |list| {
            list.clearRetainingCapacity();
            try list.ensureTotalCapacity(gpa, count);
        }
        page.slices.clearRetainingCapacity();
        try page.slices.ensureTotalCapacity(gpa, count);
        const definition_bits: u5 = @intCast(page.layout.definition_bits);
        const mask = (@as(u32, 1) << definition_bits) - 1;
        for (0..count) |_| {
            if (self.is_at_end()) break;
            const word: u32 = switch (page.control_size) {
                0 => 0,
                1 => try self.int(u8),
                2 => try self.int(u16),
                else => try self.int(u32),
            };
            const definition = std.math.cast(u16, word & mask) orelse
                return refuse("a definition level of {d}", .{word & mask});
            const repetition = std.math.cast(u16, word >> definition_bits) orelse
                return refuse("a repetition level of {d}", .{word});
            page.definitions.appendAssumeCapacity(definition);
            page.repetitions.appendAssumeCapacity(repetition);
            if (definition > page.table.visible_max) continue;
            const size: u64 = switch (page.layout.size) {
                .value => |bits| bits / 8,
                .length => |bits| if (definition != 0) 0 else switch (bits) {
                    8 => try self.int(u8),
                    16 => try self.int(u16),
                    32 => try self.int(u32),
                    else => try self.int(u64),
                },
            };
            page.slices.appendAssumeCapacity(try self.take(size));
        }
        try page.table.check(page.definitions.items);
        try page.table.check_repetitions(page.repetitions.items);
    }

    fn take(self: *Items, size: u64) Error![]const u8 {
        @setRuntimeSafety(true);
        if (size > self.bytes.len - self.position) return refuse("a page's items are cut short", .{});
        defer self.position += @intCast(size);
        return self.bytes[self.position..][0..@intCast(size)];
    }

    fn int(self: *Items, comptime T: type) Error!T {
        @setRuntimeSafety(true);
        return std.mem.readInt(T, (try self.take(@sizeOf(T)))[0..@sizeOf(T)], .little);
    }
};
