//! Valid Parquet files to files that are nearly valid.
//!
//!     file   [ pages, indexes, Bloom filters ] [ footer: Thrift ] [ u32 footer size, "PAR1" ]
//!
//! A `Sample` knows where a file keeps its numbers (in the footer, in page headers, in indexes) and
//! where its pages begin: a file is only interesting as long as most of it makes sense. Front and
//! footer are changed apart, and the size behind the footer is put right again, mostly: a number that
//! becomes a byte longer moves what follows it. The same random numbers give the same file.
const std = @import("std");
const flatten = @import("format/parquet/flatten.zig");
const page_header = @import("format/parquet/page_header.zig");
const thrift = @import("format/parquet/thrift.zig");
const Allocator = std.mem.Allocator;
const Arena = @import("core/arena.zig").Arena;
const File = @import("format/parquet/file.zig").File;
const Random = std.Random;

const tail_size = 8;
/// Of one file; more would only make the first ones rarer.
const number_count_max = 1 << 14;
const page_count_max = 1 << 12;
const depth_max = 16;

/// A varint, and what it stands for.
const Number = struct { offset: u32, size: u8, is_zigzag: bool };

const Span = struct { offset: u32, size: u32 };

pub const Sample = struct {
    name: []const u8,
    bytes: []const u8,
    /// Where the footer begins; the file's end where it has none.
    footer: u32,
    footer_numbers: []const Number = &.{},
    /// Of page headers and indexes.
    front_numbers: []const Number = &.{},
    /// Bodies of pages.
    pages: []const Span = &.{},

    /// Keeps `bytes`.
    pub fn init(arena: Allocator, name: []const u8, bytes: []const u8) error{OutOfMemory}!Sample {
        var self: Sample = .{ .name = name, .bytes = bytes, .footer = @intCast(bytes.len) };
        if (bytes.len < tail_size) return self;
        const size = std.mem.readInt(u32, bytes[bytes.len - tail_size ..][0..4], .little);
        if (size > bytes.len - tail_size) return self;
        self.footer = @intCast(bytes.len - tail_size - size);
        var finder: Finder = .{ .arena = arena };
        try finder.structure(bytes[0 .. bytes.len - tail_size], self.footer);
        self.footer_numbers = finder.numbers.items;
        self.find_pages(arena) catch |reason| switch (reason) {
            error.OutOfMemory => return error.OutOfMemory,
            else => {}, // not every sample can be read
        };
        return self;
    }

    fn find_pages(self: *Sample, arena: Allocator) (flatten.Error || page_header.Error)!void {
        const bytes = self.bytes;
        const blob = try flatten.flatten(arena, bytes[self.footer .. bytes.len - tail_size], bytes.len);
        const file = try File.open(arena, blob);
        var finder: Finder = .{ .arena = arena };
        var pages: std.ArrayList(Span) = .empty;
        defer self.pages = pages.items;
        defer self.front_numbers = finder.numbers.items;
        for (0..file.footer.row_group_count) |group| for (0..file.leaves.len) |leaf| {
            const chunk = file.footer.chunk(@intCast(group), @intCast(leaf));
            inline for (.{ chunk.offset_index, chunk.column_index }) |index| {
                if (index) |span| try finder.structure(bytes, @intCast(span.offset));
            }
            var offset: usize = @intCast(chunk.start);
            const end: usize = @intCast(chunk.start + chunk.compressed_size);
            while (offset < end and pages.items.len < page_count_max) {
                try finder.structure(bytes, offset);
                const header = page_header.read(bytes[offset..end]) catch break;
                const page: Span = .{ .offset = @intCast(offset + header.header_size), .size = header.compressed_size };
                if (page.size > end - page.offset) break;
                try pages.append(arena, page);
                offset = page.offset + page.size;
            }
        };
    }
};

/// Notes every number of a Thrift structure: values, sizes of texts, counts of lists.
const Finder = struct {
    arena: Allocator,
    numbers: std.ArrayList(Number) = .empty,

    fn structure(self: *Finder, bytes: []const u8, start: usize) error{OutOfMemory}!void {
        var reader: thrift.Reader = .init(bytes);
        reader.position = start;
        self.fields(&reader, 0) catch |reason| switch (reason) {
            error.OutOfMemory => return error.OutOfMemory,
            error.InvalidFormat => {},
        };
    }

    fn fields(self: *Finder, reader: *thrift.Reader, depth: u32) (thrift.Error || error{OutOfMemory})!void {
        if (depth == depth_max) return error.InvalidFormat;
        var inner = reader.structure();
        while (try inner.next_field()) |field| try self.value(reader, field.type, depth);
    }

    fn value(
        self: *Finder,
        reader: *thrift.Reader,
        kind: thrift.Type,
        depth: u32,
    ) (thrift.Error || error{OutOfMemory})!void {
        const start = reader.position;
        switch (kind) {
            .i16, .i32, .i64 => {
                try reader.skip(kind);
                try self.note(start, reader.position, true);
            },
            .binary => {
                const text = try reader.read_binary(kind);
                try self.note(start, reader.position - text.len, false);
            },
            .list, .set => {
                const list = try reader.read_list(kind);
                // A count of 15 or more has a byte before it.
                try self.note(if (reader.position > start + 1) start + 1 else start, reader.position, false);
                const is_boolean = list.type == .boolean_true or list.type == .boolean_false;
                for (0..list.count) |_| {
                    if (is_boolean) reader.position += 1 else try self.value(reader, list.type, depth + 1);
                }
            },
            .structure => try self.fields(reader, depth + 1),
            else => try reader.skip(kind),
        }
    }

    fn note(self: *Finder, start: usize, end: usize, is_zigzag: bool) error{OutOfMemory}!void {
        if (self.numbers.items.len == number_count_max) return;
        try self.numbers.append(
            self.arena,
            .{ .offset = @intCast(start), .size = @intCast(end - start), .is_zigzag = is_zigzag },
        );
    }
};

/// Makes one file after the other in the same memory.
pub const Mutator = struct {
    gpa: Allocator,
    samples: []const Sample,
    bytes: std.ArrayList(u8) = .empty,
    scratch: std.ArrayList(u8) = .empty,
    /// Where the footer of `bytes` begins.
    footer: usize = 0,

    pub fn deinit(self: *Mutator) void {
        self.bytes.deinit(self.gpa);
        self.scratch.deinit(self.gpa);
    }

    /// Valid until the next call.
    pub fn make(self: *Mutator, sample: *const Sample, random: Random) error{OutOfMemory}![]const u8 {
        self.bytes.clearRetainingCapacity();
        try self.bytes.appendSlice(self.gpa, sample.bytes);
        self.footer = sample.footer;
        // Mostly one change: several at once rarely get past the first check.
        const counts = [_]u8{ 1, 1, 1, 1, 2, 2, 3, 6 };
        for (0..counts[random.uintLessThan(usize, counts.len)]) |_| {
            if (self.bytes.items.len < tail_size + 1 or self.footer > self.bytes.items.len - tail_size) break;
            try self.change(sample, random);
        }
        return self.bytes.items;
    }

    fn change(self: *Mutator, sample: *const Sample, random: Random) error{OutOfMemory}!void {
        switch (random.uintLessThan(u8, 32)) {
            0...8 => try self.change_number(sample, sample.footer_numbers, random),
            9...14 => try self.change_number(sample, sample.front_numbers, random),
            15...20 => self.change_page(sample, random),
            21 => self.change_bytes(0, self.footer, random),
            22, 23 => self.change_bytes(self.footer, self.bytes.items.len - tail_size, random),
            24 => self.swap_pages(sample, random),
            25, 26 => self.splice_page(sample, random),
            27, 28 => try self.change_footer_size(random),
            29 => try self.cut_front(random),
            30 => try self.splice_footer(random),
            else => self.change_tail(random),
        }
    }

    // ---- numbers ----

    fn change_number(
        self: *Mutator,
        sample: *const Sample,
        numbers: []const Number,
        random: Random,
    ) error{OutOfMemory}!void {
        if (numbers.len == 0) return self.change_bytes(0, self.bytes.items.len, random);
        const number = numbers[random.uintLessThan(usize, numbers.len)];
        // An earlier change may have moved it; then this one is just another byte.
        if (number.offset + number.size > self.bytes.items.len - tail_size) return;
        const before = read_varint(sample.bytes[number.offset..][0..number.size]);
        const value = self.pick_value(sample, number, before, random);
        if (number.size == 1 and !number.is_zigzag and random.boolean()) {
            // The head of a short list: its count is the upper half.
            self.bytes.items[number.offset] = self.bytes.items[number.offset] & 15 | @as(u8, @truncate(value)) << 4;
            return;
        }
        if (random.uintLessThan(u8, 4) != 0) return self.write_padded(number, value);
        var buffer: [10]u8 = undefined;
        try self.replace(number.offset, number.size, write_varint(&buffer, value));
    }

    /// In as many bytes as there were: what follows stays where it is.
    fn write_padded(self: *Mutator, number: Number, value: u64) void {
        var left = value;
        for (self.bytes.items[number.offset..][0..number.size], 1..) |*byte, i| {
            byte.* = @as(u8, @truncate(left & 0x7F)) | @as(u8, if (i < number.size) 0x80 else 0);
            left >>= 7;
        }
    }

    fn pick_value(self: *const Mutator, sample: *const Sample, number: Number, before: u64, random: Random) u64 {
        const old: i64 = if (number.is_zigzag) unzigzag(before) else @bitCast(before);
        const value: i64 = switch (random.uintLessThan(u8, 8)) {
            0, 1 => old +% random.intRangeAtMost(i64, -3, 3),
            2 => old *% random.intRangeAtMost(i64, 2, 9),
            3 => old >> random.uintLessThan(u6, 8),
            4 => @as(i64, 1) << random.uintLessThan(u6, 63),
            5 => edges[random.uintLessThan(usize, edges.len)],
            // A number that stands elsewhere in the file: offsets that meet, counts of others.
            6 => self.other_value(sample, random),
            else => @intCast(self.bytes.items.len -| random.uintLessThan(usize, 64)),
        };
        return if (number.is_zigzag) zigzag(value) else @bitCast(value);
    }

    fn other_value(self: *const Mutator, sample: *const Sample, random: Random) i64 {
        _ = self;
        const lists = [_][]const Number{ sample.footer_numbers, sample.front_numbers };
        const numbers = lists[random.uintLessThan(usize, lists.len)];
        if (numbers.len == 0) return 0;
        const number = numbers[random.uintLessThan(usize, numbers.len)];
        const raw = read_varint(sample.bytes[number.offset..][0..number.size]);
        return if (number.is_zigzag) unzigzag(raw) else @bitCast(raw);
    }

    // ---- bytes ----

    fn change_bytes(self: *Mutator, begin: usize, end: usize, random: Random) void {
        if (begin >= end) return;
        const part = self.bytes.items[begin..end];
        const at = random.uintLessThan(usize, part.len);
        switch (random.uintLessThan(u8, 6)) {
            0, 1 => part[at] ^= @as(u8, 1) << random.uintLessThan(u3, 7),
            2 => part[at] = edge_bytes[random.uintLessThan(usize, edge_bytes.len)],
            3 => part[at] = random.int(u8),
            4 => part[at] = part[at] +% random.intRangeAtMost(u8, 0, 6) -% 3,
            else => if (part.len - at >= 4) {
                const old = std.mem.readInt(u32, part[at..][0..4], .little);
                const step = old +% random.intRangeAtMost(u32, 0, 16) -% 8;
                const value = if (random.boolean()) step else @as(
                    u32,
                    @truncate(@as(u64, @bitCast(edges[random.uintLessThan(usize, edges.len)]))),
                );
                std.mem.writeInt(u32, part[at..][0..4], value, .little);
            },
        }
    }

    /// Pages begin with sizes, widths and run lengths; most of the rest is values.
    fn change_page(self: *Mutator, sample: *const Sample, random: Random) void {
        const page = self.pick_page(sample, random) orelse return self.change_bytes(0, self.footer, random);
        const size = if (random.boolean()) @min(page.size, 16) else page.size;
        self.change_bytes(page.offset, page.offset + size, random);
    }

    fn pick_page(self: *const Mutator, sample: *const Sample, random: Random) ?Span {
        if (sample.pages.len == 0) return null;
        const page = sample.pages[random.uintLessThan(usize, sample.pages.len)];
        return if (page.offset + page.size <= self.footer) page else null;
    }

    fn swap_pages(self: *Mutator, sample: *const Sample, random: Random) void {
        const a = self.pick_page(sample, random) orelse return;
        const b = self.pick_page(sample, random) orelse return;
        const size = @min(a.size, b.size);
        if (a.offset + size > b.offset and b.offset + size > a.offset) return;
        for (self.bytes.items[a.offset..][0..size], self.bytes.items[b.offset..][0..size]) |*x, *y|
            std.mem.swap(u8, x, y);
    }

    /// The beginning of another file's page over the beginning of one here.
    fn splice_page(self: *Mutator, sample: *const Sample, random: Random) void {
        const target = self.pick_page(sample, random) orelse return;
        const other = &self.samples[random.uintLessThan(usize, self.samples.len)];
        if (other.pages.len == 0) return;
        const source = other.pages[random.uintLessThan(usize, other.pages.len)];
        const size = @min(source.size, target.size);
        const begin = if (random.boolean()) 0 else random.uintAtMost(u32, size);
        const from = other.bytes[source.offset..][begin..size];
        @memcpy(self.bytes.items[target.offset..][begin..size], from);
    }

    // ---- sizes ----

    fn change_footer_size(self: *Mutator, random: Random) error{OutOfMemory}!void {
        const end = self.bytes.items.len - tail_size;
        if (self.footer >= end) return;
        const at = self.footer + random.uintLessThan(usize, end - self.footer);
        const size = @min(random.uintAtMost(usize, 24), end - at);
        switch (random.uintLessThan(u8, 3)) {
            0 => try self.replace(at, size, &.{}),
            1 => {
                try self.copy_out(at, size);
                try self.replace(at, 0, self.scratch.items);
            },
            else => {
                try self.scratch.resize(self.gpa, size);
                random.bytes(self.scratch.items);
                try self.replace(at, 0, self.scratch.items);
            },
        }
    }

    fn copy_out(self: *Mutator, at: usize, size: usize) error{OutOfMemory}!void {
        self.scratch.clearRetainingCapacity();
        try self.scratch.appendSlice(self.gpa, self.bytes.items[at..][0..size]);
    }

    /// The footer now speaks of bytes that are gone, or of what lies behind them.
    fn cut_front(self: *Mutator, random: Random) error{OutOfMemory}!void {
        if (self.footer == 0) return;
        const at = random.uintLessThan(usize, self.footer);
        const size = if (random.boolean()) self.footer - at else @min(random.uintAtMost(usize, 64), self.footer - at);
        try self.bytes.replaceRange(self.gpa, at, size, &.{});
        self.footer -= size;
    }

    fn splice_footer(self: *Mutator, random: Random) error{OutOfMemory}!void {
        const other = &self.samples[random.uintLessThan(usize, self.samples.len)];
        const from = other.bytes[other.footer..][0..(other.bytes.len - other.footer) -| tail_size];
        const end = self.bytes.items.len - tail_size;
        const cut = random.uintAtMost(usize, @min(from.len, end - self.footer));
        try self.replace(self.footer + cut, end - self.footer - cut, from[cut..]);
    }

    /// Bytes of the file for others, and the footer's size put right.
    fn replace(self: *Mutator, at: usize, size: usize, bytes: []const u8) error{OutOfMemory}!void {
        try self.bytes.replaceRange(self.gpa, at, size, bytes);
        if (at < self.footer) {
            self.footer = self.footer + bytes.len - @min(size, self.footer);
            return;
        }
        const footer_size = self.bytes.items.len -| tail_size -| self.footer;
        std.mem.writeInt(
            u32,
            self.bytes.items[self.bytes.items.len - tail_size ..][0..4],
            @intCast(footer_size),
            .little,
        );
    }

    fn change_tail(self: *Mutator, random: Random) void {
        const length = self.bytes.items.len;
        if (random.boolean()) return self.change_bytes(length - tail_size, length, random);
        self.bytes.shrinkRetainingCapacity(random.uintLessThan(usize, length));
    }
};

const edge_bytes = [_]u8{ 0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF };

const edges = [_]i64{
    0,                         1,                    -1,                       2,
    127,                       128,                  255,                      256,
    32_767,                    65_535,               65_536,                   (1 << 20) - 1,
    1 << 24,                   (1 << 30),            (1 << 31),                (1 << 31) - 1,
    std.math.minInt(i32),      std.math.maxInt(u32), 1 << 32,                  (1 << 40) + 1,
    1 << 60,                   (1 << 60) + 1,        1 << 62,                  std.math.maxInt(i64),
    std.math.maxInt(i64) - 63, std.math.minInt(i64), std.math.minInt(i64) + 1,
};

fn zigzag(value: i64) u64 {
    return @bitCast((value << 1) ^ (value >> 63));
}

fn unzigzag(value: u64) i64 {
    return @bitCast((value >> 1) ^ (0 -% (value & 1)));
}

fn read_varint(bytes: []const u8) u64 {
    var value: u64 = 0;
    for (bytes, 0..) |byte, i| value |= std.math.shl(u64, byte & 0x7F, 7 * i);
    return value;
}

fn write_varint(buffer: *[10]u8, value: u64) []const u8 {
    var left = value;
    for (buffer, 1..) |*byte, size| {
        byte.* = @truncate(left & 0x7F);
        left >>= 7;
        if (left == 0) return buffer[0..size];
        byte.* |= 0x80;
    }
    unreachable;
}

const testing = std.testing;

test "varints survive" {
    var buffer: [10]u8 = undefined;
    for (edges) |edge| {
        try testing.expectEqual(edge, unzigzag(zigzag(edge)));
        const raw: u64 = @bitCast(edge);
        try testing.expectEqual(raw, read_varint(write_varint(&buffer, raw)));
    }
}

test "a sample knows its numbers and pages, and mutations can be had again" {
    const test_file = &@import("parquet_fuzz.zig").test_file;
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const sample: Sample = try .init(arena.allocator(), "test", test_file);
    try testing.expectEqual(test_file.len - tail_size - 107, sample.footer);
    try testing.expectEqual(4, sample.pages.len);
    try testing.expect(sample.footer_numbers.len > 30 and sample.front_numbers.len >= 4 * 5);
    for (sample.front_numbers) |number| try testing.expect(number.offset + number.size <= sample.footer);
    var mutators: [2]Mutator = @splat(.{ .gpa = testing.allocator, .samples = &.{sample} });
    defer for (&mutators) |*mutator| mutator.deinit();
    var changed_count: usize = 0;
    for (0..300) |seed| {
        var files: [2][]const u8 = undefined;
        for (&files, &mutators) |*bytes, *mutator| {
            var generator: std.Random.DefaultPrng = .init(seed);
            bytes.* = try mutator.make(&sample, generator.random());
        }
        try testing.expectEqualSlices(u8, files[0], files[1]);
        changed_count += @intFromBool(!std.mem.eql(u8, files[0], test_file));
    }
    try testing.expect(changed_count > 250);
}
