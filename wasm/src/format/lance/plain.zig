//! Columns whose values lie side by side, uncompressed (versions before 2.1): any row is found by counting.
//!
//!     lists       a column of ends, and the items in a column of their own
//!     texts       ends, and bytes; of a dictionary: indices, and the texts of its entries
//!     others      values of a fixed size; validity bits beside them, where there may be NULLs
//!
//! Ends may have to be here before it is known which items or bytes are wanted, so rows are asked for in rounds,
//! from the outermost list to the values. Structures have no NULLs of their own.
const std = @import("std");
const array_encoding = @import("array_encoding.zig");
const bitmap = @import("../../core/bitmap.zig");
const compression = @import("compression.zig");
const data_file = @import("data_file.zig");
const interrupt = @import("../../core/interrupt.zig");
const levels = @import("levels.zig");
const page_module = @import("page.zig");
const reader = @import("../reader.zig");
const segments_module = @import("../segments.zig");
const types = @import("types.zig");
const values_module = @import("values.zig");
const Column = @import("../../core/column.zig").Column;
const ColumnBuilder = @import("../../core/column_builder.zig").ColumnBuilder;
const Range = segments_module.Range;
const Ranges = page_module.Ranges;
const refuse = page_module.refuse;

pub const Error = page_module.Error;

/// Ends of lists or texts: eight bytes for each, none in front of the first.
const Ends = struct {
    range: Range,
    /// In front of a NULL's.
    null_addition: u64,

    /// Of the entry before `begin` up to the one before `end`.
    fn part(self: *const Ends, begin: u64, end: u64) Error!Range {
        const first = begin -| 1;
        if (end * 8 > self.range.size) return refuse("a page has fewer ends than entries", .{});
        return .{ .file = self.range.file, .offset = self.range.offset + first * 8, .size = (end - first) * 8 };
    }
};

pub const Page = struct {
    first_row: u64,
    row_count: u64,
    /// A bit for every row.
    validity: ?Range = null,
    values: union(enum) {
        /// All are NULL, or have no type.
        none,
        fixed: Range,
        texts: struct { ends: Ends, bytes: Range },
        codes: Codes,
        lists: struct { ends: Ends, first_item: u64, item_count: u64 },
    },

    fn end(self: *const Page) u64 {
        return self.first_row + self.row_count;
    }
};

const Codes = struct {
    indices: Range,
    /// Of an index: 8 where the writer chose to have a dictionary.
    bits: u8,
    ends: Ends,
    bytes: Range,
    count: u32,
    /// 0 is NULL, and the first entry 1.
    from_one: bool,
};

/// Pages of a column of version 2.0. `leaf`: null for lists.
pub fn read_pages(
    arena: std.mem.Allocator,
    pages: []const data_file.Page,
    leaf: ?*const types.Leaf,
    has_own_dictionary: bool,
) Error![]const Page {
    @setRuntimeSafety(true);
    const found = try arena.alloc(Page, pages.len);
    var first_item: u64 = 0;
    for (found, pages) |*to, *from| {
        const encoding = try array_encoding.parse(arena, from.encoding);
        var making: Making = .{ .page = from, .leaf = leaf, .has_own_dictionary = has_own_dictionary };
        to.* = .{ .first_row = from.first_row, .row_count = from.row_count, .values = .none };
        if (leaf != null) {
            try making.fill_leaf(to, encoding);
            continue;
        }
        if (encoding.* != .list) return refuse("a column of lists has pages of something else", .{});
        const list = encoding.list;
        to.values = .{ .lists = .{
            .ends = try making.ends_of(list.ends, list.null_addition),
            .first_item = first_item,
            .item_count = list.item_count,
        } };
        first_item = std.math.add(u64, first_item, list.item_count) catch
            return refuse("lists have too many items", .{});
    }
    return found;
}

const Making = struct {
    page: *const data_file.Page,
    leaf: ?*const types.Leaf,
    has_own_dictionary: bool,

    fn fill_leaf(self: *const Making, to: *Page, encoding: *const array_encoding.Encoding) Error!void {
        @setRuntimeSafety(true);
        const leaf = self.leaf.?;
        switch (encoding.*) {
            .nullable => |nullable| {
                const inner = nullable.values orelse return;
                if (nullable.validity) |validity| to.validity = try self.buffer_of(validity, 1);
                if (inner.* == .nullable) return refuse("a page says twice which of its values are NULL", .{});
                return self.fill_leaf(to, inner);
            },
            .flat, .fixed_size_list => if (leaf.physical != .none) {
                const bits = leaf.bits() orelse return refuse("texts of a fixed size", .{});
                to.values = .{ .fixed = try self.buffer_of(encoding, bits) };
            },
            .binary => |binary| {
                if (leaf.physical != .variable) return refuse("a page of texts in a column of others", .{});
                to.values = .{ .texts = .{
                    .ends = try self.ends_of(binary.ends, binary.null_addition),
                    .bytes = try self.buffer_of(binary.bytes, 8),
                } };
            },
            .dictionary => |dictionary| {
                if (leaf.physical != .variable) {
                    interrupt.describe("a dictionary of something else than texts is not supported", .{});
                    return error.NotSupported;
                }
                var items = dictionary.items;
                if (items.* == .nullable) items = items.nullable.values orelse return;
                if (items.* != .binary) return refuse("a dictionary of texts has other entries", .{});
                const bits = try index_bits(dictionary.indices);
                to.values = .{ .codes = .{
                    .indices = try self.buffer_of(dictionary.indices, bits),
                    .bits = bits,
                    .ends = try self.ends_of(items.binary.ends, items.binary.null_addition),
                    .bytes = try self.buffer_of(items.binary.bytes, 8),
                    .count = dictionary.item_count,
                    .from_one = !self.has_own_dictionary,
                } };
            },
            .list, .structure => return refuse("a column of values has pages of something else", .{}),
        }
    }

    fn index_bits(encoding: *const array_encoding.Encoding) Error!u8 {
        var inner = encoding;
        if (inner.* == .nullable) inner = inner.nullable.values orelse return refuse("codes that are NULL", .{});
        if (inner.* == .flat) switch (inner.flat.bits) {
            8, 16, 32, 64 => |bits| return @intCast(bits),
            else => {},
        };
        return refuse("codes are no numbers", .{});
    }

    /// Where numbers of so many bits lie.
    fn buffer_of(self: *const Making, encoding: *const array_encoding.Encoding, bits: u64) Error!Range {
        @setRuntimeSafety(true);
        var inner = encoding;
        var count: u64 = 1;
        for (0..16) |_| switch (inner.*) {
            .nullable => |nullable| {
                if (nullable.validity != null) {
                    interrupt.describe("NULLs within vectors of version 2.0 are not supported", .{});
                    return error.NotSupported;
                }
                inner = nullable.values orelse return refuse("numbers of a page that are NULL", .{});
            },
            .fixed_size_list => |list| {
                count = std.math.mul(u64, count, list.item_count) catch return refuse("lists of too many items", .{});
                inner = list.items;
            },
            .flat => |flat| {
                if (std.math.mul(u64, count, flat.bits) catch 0 != bits)
                    return refuse("values of {d} bits where {d} belong", .{ count *% flat.bits, bits });
                if (flat.buffer >= self.page.buffers.len) return refuse("a page has no buffer {d}", .{flat.buffer});
                return self.page.buffers[flat.buffer];
            },
            else => return refuse("numbers of a page are encoded as something else", .{}),
        };
        return refuse("encodings are nested too deep", .{});
    }

    fn ends_of(self: *const Making, encoding: *const array_encoding.Encoding, null_addition: u64) Error!Ends {
        return .{ .range = try self.buffer_of(encoding, 64), .null_addition = null_addition };
    }
};

/// The columns of ends on the way to a leaf, from the outermost in, and the leaf's own.
pub const Reader = struct {
    gpa: std.mem.Allocator,
    segments: *const segments_module.Segments,
    leaf: *const types.Leaf,
    path: *const levels.Path,
    lists: []const []const Page,
    pages: []const Page,
    /// Null: the type has none.
    values: ?values_module.Reader,
    scratch_bits: std.ArrayList(u8) = .empty,
    slices: std.ArrayList([]const u8) = .empty,

    const variable: compression.Encoding = .{ .variable = 64 };

    pub fn init(
        gpa: std.mem.Allocator,
        arena: std.mem.Allocator,
        segments: *const segments_module.Segments,
        leaf: *const types.Leaf,
        path: *const levels.Path,
        lists: []const []const Page,
        pages: []const Page,
    ) Error!Reader {
        return .{
            .gpa = gpa,
            .segments = segments,
            .leaf = leaf,
            .path = path,
            .lists = lists,
            .pages = pages,
            .values = if (leaf.physical == .none) null else try .init(gpa, try encoding_of(arena, leaf), leaf),
        };
    }

    /// As pages of later versions would say it.
    fn encoding_of(arena: std.mem.Allocator, leaf: *const types.Leaf) Error!*const compression.Encoding {
        const found = try arena.create(compression.Encoding);
        found.* = switch (leaf.physical) {
            .none => unreachable, // has no values
            .fixed => |bits| .{ .flat = bits },
            .variable => variable,
            .fixed_list => |list| .{ .fixed_size_list = .{
                .item_count = list.item_count,
                .has_validity = false,
                .values = try encoding_of(arena, list.item),
            } },
            .packed_struct => return refuse("a packed structure of version 2.0", .{}),
        };
        return found;
    }

    pub fn deinit(self: *Reader) void {
        if (self.values) |*values| values.deinit();
        self.scratch_bits.deinit(self.gpa);
        self.slices.deinit(self.gpa);
    }

    pub fn row_count(self: *const Reader) u64 {
        const pages = if (self.lists.len > 0) self.lists[0] else self.pages;
        return if (pages.len == 0) 0 else pages[pages.len - 1].end();
    }

    pub fn size(self: *const Reader) u64 {
        var total: u64 = 0;
        for (self.pages) |*page| total += switch (page.values) {
            .none => 0,
            .fixed => |range| range.size,
            .texts => |texts| texts.bytes.size + texts.ends.range.size,
            .codes => |codes| codes.indices.size,
            .lists => |list| list.ends.range.size,
        };
        for (self.lists) |pages| for (pages) |*page| {
            total += page.values.lists.ends.range.size;
        };
        return total;
    }

    // ---- bytes ----

    fn want(self: *const Reader, range: Range, missing: *Ranges) Error!bool {
        if (range.size == 0 or self.segments.find(range) != null) return true;
        try missing.append(self.gpa, range);
        return false;
    }

    fn bytes(self: *const Reader, range: Range) Error![]const u8 {
        if (range.size == 0) return &.{};
        return self.segments.find(range) orelse reader.not_fetched();
    }

    /// Notes what is missing of rows; where ends are, nothing behind them yet.
    pub fn need(self: *Reader, begin: u64, end: u64, missing: *Ranges) Error!void {
        const before = missing.items.len;
        var span: Span = .{ .begin = begin, .end = end };
        for (self.lists) |pages| {
            var parts: Parts = .of(pages, span);
            while (parts.take()) |part| {
                _ = try self.want(try part.page.values.lists.ends.part(part.begin, part.end), missing);
            }
            if (missing.items.len > before) return;
            span = try self.items_of(pages, span);
        }
        var parts: Parts = .of(self.pages, span);
        while (parts.take()) |part| try self.need_values(part, missing);
    }

    fn need_values(self: *const Reader, part: Part, missing: *Ranges) Error!void {
        if (part.page.validity) |range| _ = try self.want(try bits_of(range, 1, part.begin, part.end), missing);
        switch (part.page.values) {
            .none, .lists => {},
            .fixed => |range| _ = try self.want(try bits_of(range, self.leaf.bits().?, part.begin, part.end), missing),
            .texts => |texts| {
                const ends = try texts.ends.part(part.begin, part.end);
                if (!try self.want(ends, missing)) return;
                _ = try self.want((try self.extent(&texts.ends, texts.bytes, part.begin, part.end)).range, missing);
            },
            .codes => |codes| {
                _ = try self.want(try bits_of(codes.indices, codes.bits, part.begin, part.end), missing);
                const ends = try codes.ends.part(0, codes.count);
                _ = try self.want(ends, missing);
                _ = try self.want(codes.bytes, missing);
            },
        }
    }

    /// Notes ends alone.
    pub fn need_tables(self: *Reader, begin: u64, end: u64, missing: *Ranges) Error!void {
        if (self.lists.len > 0) {
            var parts: Parts = .of(self.lists[0], .{ .begin = begin, .end = end });
            while (parts.take()) |part| {
                _ = try self.want(try part.page.values.lists.ends.part(part.begin, part.end), missing);
            }
            return;
        }
        var parts: Parts = .of(self.pages, .{ .begin = begin, .end = end });
        while (parts.take()) |part| if (part.page.values == .texts) {
            _ = try self.want(try part.page.values.texts.ends.part(part.begin, part.end), missing);
        };
    }

    /// Whether more is needed than ends that are here tell.
    pub fn is_unsure(self: *const Reader) bool {
        if (self.lists.len == 0) return false;
        return self.lists.len > 1 or self.leaf.physical == .variable;
    }

    // ---- ends ----

    fn items_of(self: *const Reader, pages: []const Page, span: Span) Error!Span {
        var found: ?Span = null;
        var parts: Parts = .of(pages, span);
        while (parts.take()) |part| {
            const list = &part.page.values.lists;
            const reached = try self.extent(
                &list.ends,
                .{ .offset = 0, .size = list.item_count },
                part.begin,
                part.end,
            );
            const begin = list.first_item + reached.range.offset;
            if (found == null) found = .{ .begin = begin, .end = begin };
            found.?.end = begin + reached.range.size;
        }
        return found orelse .{ .begin = 0, .end = 0 };
    }

    const Extent = struct {
        /// In `within`.
        range: Range,
        ends: []const u8,
        /// What the first of the entries begins with, as ends count.
        start: u64,
    };

    /// What lies between the ends of entries.
    fn extent(self: *const Reader, ends: *const Ends, within: Range, begin: u64, end: u64) Error!Extent {
        @setRuntimeSafety(true);
        const found = try self.bytes(try ends.part(begin, end));
        const skipped: usize = if (begin > 0) 8 else 0;
        const start = if (begin > 0) plain_end(found, 0, ends.null_addition) else 0;
        const behind = if (end > begin) plain_end(found, found.len - 8, ends.null_addition) else start;
        if (start > behind or behind > within.size) return refuse("a page's ends fall, or lie behind its items", .{});
        return .{
            .range = .{ .file = within.file, .offset = within.offset + start, .size = behind - start },
            .ends = found[skipped..],
            .start = start,
        };
    }

    // ---- rows ----

    pub fn read(self: *Reader, builder: *ColumnBuilder, begin: u64, count: u32) Error!void {
        try self.append_slots(builder, .{ .begin = begin, .end = begin + count }, true);
    }

    /// Values of slots; of those that are read as levels `is_valid` tells who is there.
    fn append_slots(self: *Reader, builder: *ColumnBuilder, span: Span, settles: bool) Error!void {
        var parts: Parts = .of(self.pages, span);
        while (parts.take()) |part| {
            var next = part;
            while (next.begin < part.end) {
                try interrupt.check();
                next.end = @min(part.end, next.begin + interrupt.block_rows);
                const count: u32 = @intCast(next.end - next.begin);
                if (part.page.values == .none) {
                    if (settles) try builder.append_nulls(count) else try page_module.append_empty(builder, count);
                } else {
                    const valid = try self.append_part(builder, next);
                    if (settles) try page_module.add_validity(builder, valid, 0, count);
                    if (settles) try builder.settle(count);
                }
                next.begin = next.end;
            }
        }
        if (parts.span.begin < parts.span.end) return refuse("a column ends before its rows do", .{});
    }

    /// Values side by side; a bit for each that says whether it is one, or null: all are.
    fn append_part(self: *Reader, builder: *ColumnBuilder, part: Part) Error!?[]const u8 {
        const count: u32 = @intCast(part.end - part.begin);
        switch (part.page.values) {
            .none, .lists => unreachable,
            .fixed => |range| {
                const found = try self.bytes(try bits_of(range, self.leaf.bits().?, part.begin, part.end));
                const skipped: u32 = @intCast(part.begin % 8);
                try self.values.?.open(&.{found}, count + skipped);
                try self.values.?.read_range(skipped, count, builder);
                const valid = try self.validity_of(part);
                try self.values.?.check_valid(valid, 0);
                return valid;
            },
            .texts => |texts| {
                const found = try self.extent(&texts.ends, texts.bytes, part.begin, part.end);
                const valid = try self.cut_texts(&found, texts.ends.null_addition, try self.bytes(found.range), count);
                try self.values.?.append_variable(self.slices.items, builder);
                try self.values.?.check_valid(valid, 0);
                return valid;
            },
            .codes => |*codes| return self.append_codes(builder, codes, part),
        }
    }

    fn validity_of(self: *Reader, part: Part) Error!?[]const u8 {
        const range = part.page.validity orelse return null;
        const count: usize = @intCast(part.end - part.begin);
        const found = try self.bytes(try bits_of(range, 1, part.begin, part.end));
        try self.scratch_bits.resize(self.gpa, bitmap.size(count) + 8);
        bitmap.copy(self.scratch_bits.items, 0, found, @intCast(part.begin % 8), count);
        return self.scratch_bits.items;
    }

    /// Texts between their ends, into `slices`.
    fn cut_texts(
        self: *Reader,
        found: *const Extent,
        null_addition: u64,
        text: []const u8,
        count: u32,
    ) Error!?[]const u8 {
        @setRuntimeSafety(true);
        try self.slices.resize(self.gpa, count);
        try self.scratch_bits.resize(self.gpa, bitmap.size(count) + 8);
        @memset(self.scratch_bits.items, 0);
        var has_nulls = false;
        var last: u64 = 0;
        for (self.slices.items, 0..) |*slice, i| {
            const raw = std.mem.readInt(u64, found.ends[i * 8 ..][0..8], .little);
            const is_null = null_addition > 0 and raw >= null_addition;
            const end = (if (is_null) raw - null_addition else raw) -% found.start;
            if (end < last or end > text.len) return refuse("a page's ends fall, or lie behind its bytes", .{});
            slice.* = text[@intCast(last)..@intCast(end)];
            last = end;
            if (is_null) has_nulls = true else bitmap.set(self.scratch_bits.items.ptr, i);
        }
        return if (has_nulls) self.scratch_bits.items else null;
    }

    fn append_codes(self: *Reader, builder: *ColumnBuilder, codes: *const Codes, part: Part) Error!?[]const u8 {
        @setRuntimeSafety(true);
        const count: u32 = @intCast(part.end - part.begin);
        const entries = try self.extent(&codes.ends, codes.bytes, 0, codes.count);
        const known = try self.cut_texts(
            &entries,
            codes.ends.null_addition,
            try self.bytes(entries.range),
            codes.count,
        );
        const texts = try self.gpa.dupe([]const u8, self.slices.items);
        defer self.gpa.free(texts);
        const missing = try self.gpa.alloc(bool, texts.len);
        defer self.gpa.free(missing);
        for (missing, 0..) |*is_missing, i| is_missing.* = known != null and !bitmap.get(known.?.ptr, i);
        const skipped: usize = @intCast(part.begin % 8);
        const width = codes.bits / 8;
        const from_byte = try self.bytes(try bits_of(codes.indices, codes.bits, part.begin, part.end));
        const indices = from_byte[skipped * width ..];
        try self.slices.resize(self.gpa, count);
        try self.scratch_bits.resize(self.gpa, bitmap.size(count) + 8);
        @memset(self.scratch_bits.items, 0);
        for (self.slices.items, 0..) |*slice, i| {
            slice.* = "";
            const index = std.mem.readVarInt(u64, indices[i * width ..][0..width], .little);
            if (codes.from_one and index == 0) continue;
            const entry = index - @intFromBool(codes.from_one);
            if (entry >= texts.len) return refuse("a code is beyond its dictionary", .{});
            if (missing[@intCast(entry)]) continue;
            slice.* = texts[@intCast(entry)];
            bitmap.set(self.scratch_bits.items.ptr, i);
        }
        // A page with NULLs of its own says so beside its codes.
        if (part.page.validity) |range| {
            const own = try self.bytes(try bits_of(range, 1, part.begin, part.end));
            for (0..count) |i| {
                if (!bitmap.get(own.ptr, i + skipped)) bitmap.clear(self.scratch_bits.items.ptr, i);
            }
        }
        try self.values.?.append_variable(self.slices.items, builder);
        try self.values.?.check_valid(self.scratch_bits.items, 0);
        return self.scratch_bits.items;
    }

    // ---- levels ----

    const Entry = struct { repetition: u8, definition: u8, is_open: bool };

    /// Levels of rows, and a value for every slot.
    pub fn read_entries(
        self: *Reader,
        lists: levels.Lists,
        builder: *ColumnBuilder,
        begin: u64,
        count: u32,
    ) Error!void {
        var entries: std.ArrayList(Entry) = .empty;
        defer entries.deinit(self.gpa);
        try entries.appendNTimes(self.gpa, .{ .repetition = 0, .definition = 0, .is_open = true }, count);
        var span: Span = .{ .begin = begin, .end = begin + count };
        var depth: u8 = 0;
        var step = self.path.steps.len;
        for (self.lists) |pages| {
            step -= 1;
            while (!self.path.steps[step].is_list) step -= 1;
            depth += 1;
            try self.open_lists(&entries, pages, span, depth, self.path.steps[step].definition);
            span = try self.items_of(pages, span);
        }
        const first_bit = lists.definitions.items.len;
        try self.append_leaf_levels(lists, entries.items, span);
        std.debug.assert(lists.definitions.items.len == first_bit + entries.items.len);
        try self.append_slots(builder, span, false);
    }

    /// Every open entry becomes as many as its list has items, or one that says that there are none.
    fn open_lists(
        self: *Reader,
        entries: *std.ArrayList(Entry),
        pages: []const Page,
        span: Span,
        depth: u8,
        definition: u8,
    ) Error!void {
        @setRuntimeSafety(true);
        var opened: std.ArrayList(Entry) = .empty;
        errdefer opened.deinit(self.gpa);
        var left = entries.items;
        var parts: Parts = .of(pages, span);
        while (parts.take()) |part| {
            const list = &part.page.values.lists;
            const found = try self.extent(&list.ends, .{ .offset = 0, .size = list.item_count }, part.begin, part.end);
            var last = found.start;
            for (0..@intCast(part.end - part.begin)) |i| {
                if (i % interrupt.block_rows == 0) try interrupt.check();
                while (left.len > 0 and !left[0].is_open) : (left = left[1..]) try opened.append(self.gpa, left[0]);
                if (left.len == 0) return refuse("lists do not fit into those around them", .{});
                const raw = std.mem.readInt(u64, found.ends[i * 8 ..][0..8], .little);
                const is_null = list.ends.null_addition > 0 and raw >= list.ends.null_addition;
                const end = if (is_null) raw - list.ends.null_addition else raw;
                if (end < last or end > list.item_count)
                    return refuse("a page's ends fall, or lie behind its items", .{});
                const items: usize = @intCast(end - last);
                last = end;
                const outer = left[0];
                left = left[1..];
                if (items == 0) {
                    const level = if (is_null) definition - 1 else definition;
                    try opened.append(
                        self.gpa,
                        .{ .repetition = outer.repetition, .definition = level, .is_open = false },
                    );
                    continue;
                }
                if (is_null) return refuse("a list that is NULL has items", .{});
                try opened.append(self.gpa, .{ .repetition = outer.repetition, .definition = 0, .is_open = true });
                try opened.appendNTimes(
                    self.gpa,
                    .{ .repetition = depth, .definition = 0, .is_open = true },
                    items - 1,
                );
            }
        }
        try opened.appendSlice(self.gpa, left);
        for (left) |entry| if (entry.is_open) return refuse("a column of lists ends before its rows do", .{});
        entries.deinit(self.gpa);
        entries.* = opened;
    }

    /// The slots that are left are values or NULL: that much of their pages is read here.
    fn append_leaf_levels(self: *Reader, lists: levels.Lists, entries: []const Entry, span: Span) Error!void {
        const full = self.path.steps[0].definition;
        try lists.definitions.ensureUnusedCapacity(self.gpa, entries.len);
        try lists.repetitions.ensureUnusedCapacity(self.gpa, entries.len);
        var left = entries;
        var parts: Parts = .of(self.pages, span);
        while (parts.take()) |part| {
            const count: usize = @intCast(part.end - part.begin);
            const valid = try self.valid_slots(part);
            for (0..count) |i| {
                while (left.len > 0 and !left[0].is_open) : (left = left[1..]) {
                    put_entry(lists, left[0].repetition, left[0].definition);
                }
                if (left.len == 0) return refuse("values do not fit into the lists around them", .{});
                const is_marked = if (valid) |bits| bitmap.get(bits.ptr, i) else true;
                const is_valid = is_marked and part.page.values != .none;
                put_entry(lists, left[0].repetition, if (is_valid) full else full - 1);
                left = left[1..];
            }
        }
        for (left) |entry| {
            if (entry.is_open) return refuse("a column ends before its rows do", .{});
            put_entry(lists, entry.repetition, entry.definition);
        }
    }

    fn put_entry(lists: levels.Lists, repetition: u8, definition: u8) void {
        lists.definitions.appendAssumeCapacity(definition);
        lists.repetitions.appendAssumeCapacity(repetition);
    }

    /// Which slots have a value, without reading values. Null: all.
    fn valid_slots(self: *Reader, part: Part) Error!?[]const u8 {
        switch (part.page.values) {
            .none => return null,
            .fixed => return self.validity_of(part),
            .texts, .codes => {
                var unused: ColumnBuilder = try .init(self.gpa, self.leaf.type);
                defer unused.deinit();
                return self.append_part(&unused, part);
            },
            .lists => unreachable,
        }
    }
};

/// An end, as it would be if its entry were not NULL.
fn plain_end(bytes: []const u8, at: usize, null_addition: u64) u64 {
    const raw = std.mem.readInt(u64, bytes[at..][0..8], .little);
    return if (null_addition > 0 and raw >= null_addition) raw - null_addition else raw;
}

/// Bytes of values of `bits` each, from a row on that is a multiple of eight.
fn bits_of(range: Range, bits: u64, begin: u64, end: u64) Error!Range {
    @setRuntimeSafety(true);
    const first = begin - begin % 8;
    const size = std.math.divCeil(u64, std.math.mul(u64, end, bits) catch std.math.maxInt(u64), 8) catch unreachable;
    if (size > range.size) return refuse("a page of {d} bytes ends before its rows do", .{range.size});
    return .{ .file = range.file, .offset = range.offset + first * bits / 8, .size = size - first * bits / 8 };
}

const Span = struct { begin: u64, end: u64 };

const Part = struct { page: *const Page, begin: u64, end: u64 };

/// Entries by the pages that they lie in, with their numbers there.
const Parts = struct {
    pages: []const Page,
    span: Span,

    fn of(pages: []const Page, span: Span) Parts {
        var low: usize = 0;
        var high = pages.len;
        while (low < high) {
            const middle = (low + high) / 2;
            if (pages[middle].end() <= span.begin) low = middle + 1 else high = middle;
        }
        return .{ .pages = pages[low..], .span = span };
    }

    fn take(self: *Parts) ?Part {
        while (self.pages.len > 0 and self.span.begin < self.span.end) {
            const page = &self.pages[0];
            const begin = self.span.begin;
            const end = @min(self.span.end, page.end());
            if (end < page.end()) {} else self.pages = self.pages[1..];
            if (end <= begin) continue;
            self.span.begin = end;
            return .{ .page = page, .begin = begin - page.first_row, .end = end - page.first_row };
        }
        return null;
    }
};
