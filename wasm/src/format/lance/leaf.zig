//! One column of a data file on its way into a query: its pages, and the rows that are read of them.
//!
//! Rows are counted through all pages of the column. A page that lies among the wanted rows as a whole is asked for
//! at once; of others first the tables by which rows are found in them, then no more than the rows.
const std = @import("std");
const constant = @import("constant.zig");
const data_file = @import("data_file.zig");
const full_zip = @import("full_zip.zig");
const interrupt = @import("../../core/interrupt.zig");
const layout_module = @import("layout.zig");
const levels = @import("levels.zig");
const mini_block = @import("mini_block.zig");
const page_module = @import("page.zig");
const plain_module = @import("plain.zig");
const segments_module = @import("../segments.zig");
const types = @import("types.zig");
const Arena = @import("../../core/arena.zig").Arena;
const ColumnBuilder = @import("../../core/column_builder.zig").ColumnBuilder;
const Page = data_file.Page;
const Ranges = page_module.Ranges;
const refuse = page_module.refuse;

pub const Error = page_module.Error;

/// Where a leaf of the schema lies.
pub const Place = struct {
    leaf: types.Leaf,
    path: levels.Path,
    /// Among the fragment's files, and among its columns. Null: no file has it, it is NULL.
    found: ?Found = null,
    /// Of version 2.0: the columns of the lists that it lies in, from the outermost in.
    lists: []const u32 = &.{},
    /// Its values are those of a dictionary that somebody gave it, rather than of the writer's choice.
    has_own_dictionary: bool = false,
    /// Why it cannot be read: said to who asks for it.
    refusal: ?[]const u8 = null,
};

pub const Found = struct { part: u32, column: u32 };

const PageReader = union(enum) {
    mini_block: mini_block.MiniBlockPage,
    full_zip: full_zip.FullZipPage,
    constant: constant.ConstantPage,
};

const OpenPage = struct {
    arena: Arena,
    layout: layout_module.Layout,
    reader: PageReader,
};

pub const LeafReader = struct {
    pub const slots_have_values = true;

    arena: Arena,
    place: *const Place,
    window_size: u64,
    /// Of versions from 2.1 on. Before, rows are found by counting.
    pages: []const Page = &.{},
    opened: []?*OpenPage = &.{},
    plain: ?plain_module.Reader = null,
    segments: segments_module.Segments = .{},
    definitions: std.ArrayList(u8) = .empty,
    repetitions: std.ArrayList(u8) = .empty,
    /// The next one to be read.
    row: u64 = 0,
    scratch: Ranges = .empty,

    /// Before it is bound it reads nothing.
    pub fn init(gpa: std.mem.Allocator, place: *const Place, window_size: u64) LeafReader {
        return .{ .arena = .init(gpa), .place = place, .window_size = window_size };
    }

    /// `file`: that of its place. What is read from now on points into the reader, which must not move.
    pub fn bind(self: *LeafReader, file: ?*const data_file.DataFile) Error!void {
        const arena = self.arena.allocator();
        if (self.place.refusal) |reason| {
            interrupt.describe("{s}", .{reason});
            return error.NotSupported;
        }
        const found = self.place.found orelse return;
        const pages = try data_file.read_pages(arena, try file.?.column(found.column), found.part, file.?.file_size);
        if (file.?.version == .v2_0) return self.bind_plain(file.?, pages);
        self.pages = pages;
        self.opened = try arena.alloc(?*OpenPage, pages.len);
        @memset(self.opened, null);
    }

    fn bind_plain(self: *LeafReader, file: *const data_file.DataFile, pages: []const Page) Error!void {
        const arena = self.arena.allocator();
        const lists = try arena.alloc([]const plain_module.Page, self.place.lists.len);
        for (lists, self.place.lists) |*list, column| {
            const found = try data_file.read_pages(
                arena,
                try file.column(column),
                self.place.found.?.part,
                file.file_size,
            );
            list.* = try plain_module.read_pages(arena, found, null, false);
        }
        const leaf = &self.place.leaf;
        const own = try plain_module.read_pages(arena, pages, leaf, self.place.has_own_dictionary);
        self.plain = try .init(self.arena.gpa, arena, &self.segments, leaf, &self.place.path, lists, own);
    }

    pub fn deinit(self: *LeafReader) void {
        const gpa = self.arena.gpa;
        for (self.opened) |opened| if (opened) |page| close_page(page);
        if (self.plain) |*plain| plain.deinit();
        self.segments.deinit(gpa);
        self.definitions.deinit(gpa);
        self.repetitions.deinit(gpa);
        self.scratch.deinit(gpa);
        self.arena.deinit();
    }

    fn close_page(page: *OpenPage) void {
        const gpa = page.arena.gpa;
        switch (page.reader) {
            inline else => |*reader| reader.deinit(),
        }
        page.arena.deinit();
        gpa.destroy(page);
    }

    pub fn row_count(self: *const LeafReader) u64 {
        if (self.plain) |*plain| return plain.row_count();
        return if (self.pages.len == 0) 0 else self.pages[self.pages.len - 1].end();
    }

    pub fn is_missing(self: *const LeafReader) bool {
        return self.place.found == null;
    }

    /// Its levels are its validity: wherever it lies, it is NULL or not.
    pub fn is_flat(self: *const LeafReader) bool {
        return self.place.path.depth == 0;
    }

    /// Bytes of a row, as far as the footer tells.
    pub fn row_size(self: *const LeafReader) u64 {
        if (self.place.leaf.bits()) |bits| return bits / 8;
        var size: u64 = if (self.plain) |*plain| plain.size() else 0;
        for (self.pages) |*page| size += page.size();
        return size / @max(self.row_count(), 1);
    }

    // ---- pages ----

    fn page_of(self: *const LeafReader, row: u64) usize {
        var low: usize = 0;
        var high = self.pages.len;
        while (low + 1 < high) {
            const middle = (low + high) / 2;
            if (self.pages[middle].first_row <= row) low = middle else high = middle;
        }
        return low;
    }

    fn open(self: *LeafReader, number: usize) Error!*OpenPage {
        if (self.opened[number]) |page| return page;
        const gpa = self.arena.gpa;
        const page = try gpa.create(OpenPage);
        errdefer gpa.destroy(page);
        page.arena = .init(gpa);
        errdefer page.arena.deinit();
        const arena = page.arena.allocator();
        page.layout = try layout_module.parse(arena, self.pages[number].encoding);
        const context: page_module.Context = .{
            .gpa = gpa,
            .arena = arena,
            .segments = &self.segments,
            .leaf = &self.place.leaf,
            .path = &self.place.path,
            .page = &self.pages[number],
            .lists = .{ .definitions = &self.definitions, .repetitions = &self.repetitions },
        };
        page.reader = switch (page.layout) {
            .mini_block => |*layout| .{ .mini_block = try .init(context, layout) },
            .full_zip => |*layout| .{ .full_zip = try .init(context, layout) },
            .constant => |*layout| .{ .constant = try .init(context, layout) },
            .blob => {
                interrupt.describe("a column of blobs is not supported; leave it out", .{});
                return error.NotSupported;
            },
        };
        self.opened[number] = page;
        return page;
    }

    /// Of rows from `begin` to `end` those of each page: its number, and its own numbers of them.
    const Parts = struct {
        pages: []const Page,
        next: usize,
        begin: u64,
        end: u64,

        const Part = struct { page: usize, begin: u64, end: u64 };

        fn take(self: *Parts) ?Part {
            while (self.next < self.pages.len and self.begin < self.end) {
                const number = self.next;
                const page = &self.pages[number];
                self.next += 1;
                const begin = self.begin;
                self.begin = @min(self.end, page.end());
                if (self.begin > begin)
                    return .{ .page = number, .begin = begin - page.first_row, .end = self.begin - page.first_row };
            }
            return null;
        }
    };

    fn parts(self: *const LeafReader, begin: u64, end: u64) Parts {
        return .{ .pages = self.pages, .next = self.page_of(begin), .begin = begin, .end = end };
    }

    // ---- bytes ----

    /// Notes what is missing of these rows, and no other. Asked again when it is here: there may be more.
    pub fn need(self: *LeafReader, begin: u64, end: u64, missing: *Ranges) Error!void {
        if (self.plain) |*plain| return plain.need(begin, end, missing);
        var rest = self.parts(begin, end);
        while (rest.take()) |part| {
            const page = try self.open(part.page);
            switch (page.reader) {
                inline else => |*reader| {
                    if (try reader.prepare(missing)) try reader.need(part.begin, part.end, missing);
                },
            }
        }
    }

    /// Notes the tables of pages that are wanted in part: without them nobody knows what else is needed.
    pub fn need_tables(self: *LeafReader, begin: u64, end: u64, missing: *Ranges) Error!void {
        if (self.plain) |*plain| return plain.need_tables(begin, end, missing);
        var rest = self.parts(begin, end);
        while (rest.take()) |part| {
            if (self.is_wanted_whole(part)) continue;
            const page = try self.open(part.page);
            switch (page.reader) {
                inline else => |*reader| _ = try reader.prepare(missing),
            }
        }
    }

    fn is_wanted_whole(self: *const LeafReader, part: Parts.Part) bool {
        const page = &self.pages[part.page];
        return part.end - part.begin == page.row_count and page.size() <= self.window_size;
    }

    /// Notes what is missing of a window's worth of rows; returns how far that reaches. Rows up to `least` are
    /// read together, so no window ends before them: what lies on both sides of such an end is in no one piece.
    pub fn need_window(self: *LeafReader, begin: u64, least: u64, end: u64, missing: *Ranges) Error!u64 {
        if (self.plain) |*plain| {
            const row_bytes = plain.size() / @max(plain.row_count(), 1);
            const behind = @min(end, @max(least, begin + @max(self.window_size / @max(row_bytes, 1), 1)));
            try plain.need(begin, behind, missing);
            return behind;
        }
        var left = self.window_size;
        var reached = begin;
        var rest = self.parts(begin, end);
        while (rest.take()) |part| {
            const whole = &self.pages[part.page];
            if (self.is_wanted_whole(part)) {
                if (whole.size() > left and reached >= least) return reached;
                for (whole.buffers) |buffer| {
                    if (buffer.size > 0 and self.segments.find(buffer) == null) try missing.append(
                        self.arena.gpa,
                        buffer,
                    );
                }
                left -|= whole.size();
                reached = whole.end();
                continue;
            }
            const page = try self.open(part.page);
            switch (page.reader) {
                inline else => |*reader| {
                    if (!try reader.prepare(missing)) return reached;
                    const wanted = @max(least -| whole.first_row, reader.reach(part.begin, left));
                    const behind = @min(part.end, wanted);
                    try reader.need(part.begin, behind, missing);
                    reached = whole.first_row + behind;
                    if (behind < part.end) return reached;
                },
            }
        }
        return end;
    }

    /// Whether the bytes of some of these rows are found only by others.
    pub fn is_unsure(self: *const LeafReader, begin: u64, end: u64) bool {
        if (self.plain) |*plain| return plain.is_unsure();
        var rest = self.parts(begin, end);
        while (rest.take()) |part| {
            const page = self.opened[part.page] orelse continue;
            if (page.reader == .full_zip and page.reader.full_zip.stride == null) return true;
        }
        return false;
    }

    /// Rows before the next one are behind us.
    pub fn forget(self: *LeafReader) Error!void {
        if (self.pages.len == 0) return;
        const current = self.page_of(self.row);
        for (self.opened[0..current]) |*opened| if (opened.*) |page| {
            close_page(page);
            opened.* = null;
        };
        var used: u64 = 0;
        if (self.opened[current]) |page| switch (page.reader) {
            .mini_block => |*reader| if (reader.chunks.len > 0) {
                used = try reader.first_used(self.row - @min(self.row, self.pages[current].first_row));
                reader.opened = null;
            },
            inline else => |*reader| {
                used = try reader.first_used(self.row - @min(self.row, self.pages[current].first_row));
            },
        };
        var kept: usize = 0;
        for (self.segments.list.items) |segment| {
            if (self.is_behind(segment, current, used)) continue;
            self.segments.list.items[kept] = segment;
            kept += 1;
        }
        self.segments.list.shrinkRetainingCapacity(kept);
    }

    /// A part of a page before `current`, or of the current one before `used`.
    fn is_behind(self: *const LeafReader, segment: segments_module.Segment, current: usize, used: u64) bool {
        for (self.pages[0 .. current + 1], 0..) |*page, number| for (page.buffers) |buffer| {
            if (segment.offset < buffer.offset or segment.end() > buffer.end()) continue;
            return number < current or segment.end() <= used;
        };
        return false;
    }

    // ---- rows ----

    pub fn read(self: *LeafReader, builder: *ColumnBuilder, count: u32) Error!void {
        if (self.is_missing()) {
            try builder.append_nulls(count);
        } else if (self.plain) |*plain| {
            try plain.read(builder, self.row, count);
        } else {
            var rest = self.parts(self.row, self.row + count);
            while (rest.take()) |part| {
                const page = try self.opened_page(part.page);
                switch (page.reader) {
                    inline else => |*reader| try reader.read(builder, part.begin, @intCast(part.end - part.begin)),
                }
            }
            if (rest.begin < rest.end) return refuse("a column ends before its rows do", .{});
        }
        self.row += count;
    }

    /// The levels of the next rows, and their values behind those of `builder`, not yet settled.
    pub fn read_entries(self: *LeafReader, builder: *ColumnBuilder, count: u32) Error!void {
        self.definitions.clearRetainingCapacity();
        self.repetitions.clearRetainingCapacity();
        if (self.is_missing()) {
            interrupt.describe("a structure that lacks one of its fields in some files is not supported", .{});
            return error.NotSupported;
        }
        if (self.plain) |*plain| {
            const lists: levels.Lists = .{ .definitions = &self.definitions, .repetitions = &self.repetitions };
            try plain.read_entries(lists, builder, self.row, count);
            self.row += count;
            return;
        }
        var rest = self.parts(self.row, self.row + count);
        while (rest.take()) |part| {
            const page = try self.opened_page(part.page);
            switch (page.reader) {
                inline else => |*reader| try reader.read_entries(builder, part.begin, @intCast(part.end - part.begin)),
            }
        }
        if (rest.begin < rest.end) return refuse("a column ends before its rows do", .{});
        self.row += count;
    }

    /// The page, whose bytes are here, with its tables read.
    fn opened_page(self: *LeafReader, number: usize) Error!*OpenPage {
        const page = try self.open(number);
        self.scratch.clearRetainingCapacity();
        const is_here = switch (page.reader) {
            inline else => |*reader| try reader.prepare(&self.scratch),
        };
        return if (is_here) page else @import("../reader.zig").not_fetched();
    }
};
