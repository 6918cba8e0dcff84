//! A data file's footer (versions 2.0 to 2.2): where its columns' pages lie. It is kept as the file has it, since
//! every column is described on its own and can be left unread.
//!
//!     file        buffers of pages … │ global buffers │ column metadata … │ table of columns │ table of global
//!                 buffers │ footer
//!     tables      entries of u64 position, u64 size
//!     footer      u64 first column metadata │ u64 table of columns │ u64 table of global buffers │
//!                 u32 global buffers │ u32 columns │ u16 major │ u16 minor │ "LANC"
//!     blob        "QMLD" │ u32 1 │ u64 size of the file │ u64 where the rest begins in it │ the file's end
//!
//!     ColumnMetadata   1 encoding  2 pages  3 positions of buffers  4 their sizes
//!     Page             1 positions of buffers  2 their sizes  3 rows  4 encoding  5 first row (not looked at)
//!     Encoding         1 elsewhere | 2 {1 bytes: a google.protobuf.Any} | 3 none
const std = @import("std");
const interrupt = @import("../../core/interrupt.zig");
const protobuf = @import("protobuf.zig");
const segments = @import("../segments.zig");
const Arena = @import("../../core/arena.zig").Arena;
const Cursor = @import("../../core/cursor.zig").Cursor;
const Message = protobuf.Message;
const Writer = @import("protobuf_writer.zig").Writer;
const Range = segments.Range;

pub const Error = error{ InvalidFormat, NotSupported, OutOfMemory };

pub const footer_size = 40;
const magic = "LANC";
const blob_magic = "QMLD";
const blob_version = 1;
const head_size = 24;
const entry_size = 16;
/// As many as top-level columns can have fields.
const column_count_max = 1 << 20;

pub const Version = enum { v2_0, v2_1, v2_2 };

/// What `qm_footer` answers. `raw` is the file's end, from the first column metadata on at the latest.
pub fn flatten(arena: std.mem.Allocator, raw: []const u8, file_size: u64) Error![]const u8 {
    @setRuntimeSafety(true);
    if (raw.len > file_size) return refuse("the end of the file is longer than the file", .{});
    const blob = try arena.alloc(u8, head_size + raw.len);
    @memcpy(blob[0..4], blob_magic);
    std.mem.writeInt(u32, blob[4..8], blob_version, .little);
    std.mem.writeInt(u64, blob[8..16], file_size, .little);
    std.mem.writeInt(u64, blob[16..24], file_size - raw.len, .little);
    @memcpy(blob[head_size..], raw);
    const file: DataFile = try .init(blob);
    for (0..file.column_count) |i| _ = try file.column(@intCast(i));
    return blob;
}

pub const DataFile = struct {
    version: Version,
    file_size: u64,
    column_count: u32,
    global_buffer_count: u32,
    /// The file's end, and where it begins.
    tail: []const u8,
    tail_start: u64,
    columns_table: u64,
    buffers_table: u64,

    /// Points into the blob.
    pub fn init(blob: []const u8) Error!DataFile {
        @setRuntimeSafety(true);
        var head: Cursor = .init(blob);
        if (!std.mem.eql(u8, try head.read_bytes(4), blob_magic) or try head.read_int(u32) != blob_version)
            return refuse("what was kept of a data file is not that", .{});
        const file_size = try head.read_int(u64);
        const tail_start = try head.read_int(u64);
        const tail = blob[head_size..];
        if (tail_start > file_size or file_size - tail_start != tail.len)
            return refuse("a data file's end has another size than it says", .{});
        if (tail.len < footer_size) return refuse("a data file of {d} bytes is too short for its footer", .{file_size});
        var footer: Cursor = .init(tail[tail.len - footer_size ..]);
        var self: DataFile = .{
            .version = undefined,
            .file_size = file_size,
            .column_count = 0,
            .global_buffer_count = 0,
            .tail = tail,
            .tail_start = tail_start,
            .columns_table = 0,
            .buffers_table = 0,
        };
        const first_column = try footer.read_int(u64);
        self.columns_table = try footer.read_int(u64);
        self.buffers_table = try footer.read_int(u64);
        self.global_buffer_count = try footer.read_int(u32);
        self.column_count = try footer.read_int(u32);
        const major = try footer.read_int(u16);
        const minor = try footer.read_int(u16);
        if (!std.mem.eql(u8, try footer.read_bytes(4), magic)) return refuse("a data file does not end like one", .{});
        self.version = try version_of(major, minor);
        if (self.column_count > column_count_max) return refuse("a data file of {d} columns", .{self.column_count});
        if (first_column < tail_start) return refuse("a data file's end was not brought as a whole", .{});
        _ = try self.bytes(self.columns_table, @as(u64, self.column_count) * entry_size);
        _ = try self.bytes(self.buffers_table, @as(u64, self.global_buffer_count) * entry_size);
        return self;
    }

    /// Of the end.
    fn bytes(self: *const DataFile, position: u64, size: u64) Error![]const u8 {
        if (position < self.tail_start or position > self.file_size or size > self.file_size - position)
            return refuse("a data file describes its columns outside of its end", .{});
        return self.tail[@intCast(position - self.tail_start)..][0..@intCast(size)];
    }

    /// The message that describes a column.
    pub fn column(self: *const DataFile, index: u32) Error!Message {
        @setRuntimeSafety(true);
        std.debug.assert(index < self.column_count);
        const entry = try self.bytes(self.columns_table + @as(u64, index) * entry_size, entry_size);
        const position = std.mem.readInt(u64, entry[0..8], .little);
        return .init(try self.bytes(position, std.mem.readInt(u64, entry[8..16], .little)));
    }
};

/// Version 2.0 calls itself 0.3.
fn version_of(major: u16, minor: u16) Error!Version {
    if (major == 0 and minor == 3) return .v2_0;
    if (major == 2) switch (minor) {
        0 => return .v2_0,
        1 => return .v2_1,
        2 => return .v2_2,
        else => {},
    };
    interrupt.describe("a data file of Lance's version {d}.{d}, which is not read; 2.0 to 2.2 are", .{ major, minor });
    return error.NotSupported;
}

pub const Page = struct {
    first_row: u64,
    row_count: u64,
    buffers: []const Range,
    /// A google.protobuf.Any.
    encoding: []const u8,

    pub fn end(self: *const Page) u64 {
        return self.first_row + self.row_count;
    }

    pub fn size(self: *const Page) u64 {
        var total: u64 = 0;
        for (self.buffers) |buffer| total += buffer.size;
        return total;
    }
};

/// The pages of a column, in order. `file` is the number that its ranges get.
pub fn read_pages(arena: std.mem.Allocator, column: Message, file: u32, file_size: u64) Error![]const Page {
    @setRuntimeSafety(true);
    var pages: std.ArrayList(Page) = .empty;
    var fields = column;
    var first_row: u64 = 0;
    while (try fields.next()) |field| if (field.number == 2) {
        var page = try read_page(arena, try field.message(), file, file_size);
        page.first_row = first_row;
        first_row = std.math.add(u64, first_row, page.row_count) catch
            return refuse("a column has more rows than there can be", .{});
        try pages.append(arena, page);
    };
    return pages.items;
}

fn read_page(arena: std.mem.Allocator, message: Message, file: u32, file_size: u64) Error!Page {
    @setRuntimeSafety(true);
    var page: Page = .{ .first_row = 0, .row_count = 0, .buffers = &.{}, .encoding = "" };
    var positions: std.ArrayList(u64) = .empty;
    var sizes: std.ArrayList(u64) = .empty;
    var fields = message;
    while (try fields.next()) |field| switch (field.number) {
        1 => try add_numbers(arena, &positions, field),
        2 => try add_numbers(arena, &sizes, field),
        3 => page.row_count = try field.int(u64),
        4 => page.encoding = try direct(try field.message()),
        else => {},
    };
    if (positions.items.len != sizes.items.len)
        return refuse("a page has {d} buffers with {d} sizes", .{ positions.items.len, sizes.items.len });
    const buffers = try arena.alloc(Range, sizes.items.len);
    for (buffers, positions.items, sizes.items) |*buffer, position, size| {
        if (position > file_size or size > file_size - position) {
            interrupt.describe(
                "a page's buffer of {d} bytes at {d} is not within the file's {d}",
                .{ size, position, file_size },
            );
            return error.InvalidFormat;
        }
        buffer.* = .{ .file = file, .offset = position, .size = size };
    }
    page.buffers = buffers;
    return page;
}

fn add_numbers(arena: std.mem.Allocator, list: *std.ArrayList(u64), field: protobuf.Field) Error!void {
    var numbers = try field.ints(u64);
    while (try numbers.next()) |number| try list.append(arena, number);
}

/// What an encoding is, where it stands in the footer itself.
fn direct(encoding: Message) Error![]const u8 {
    var fields = encoding;
    while (try fields.next()) |field| switch (field.number) {
        1 => {
            interrupt.describe("a page's encoding stands elsewhere in the file, which is not supported", .{});
            return error.NotSupported;
        },
        2 => {
            var inner = try field.message();
            while (try inner.next()) |part| if (part.number == 1) return part.bytes();
        },
        else => {},
    };
    return refuse("a page does not say how it is encoded", .{});
}

fn refuse(comptime format: []const u8, arguments: anytype) Error {
    interrupt.describe(format, arguments);
    return error.InvalidFormat;
}

// ---- tests ----

/// A file of one column with two pages.
fn sample(arena: std.mem.Allocator, minor: u16) ![]const u8 {
    var any: Writer = .init(arena);
    any.text(1, "how");
    var encoding: Writer = .init(arena);
    encoding.message(2, &any);
    var column: Writer = .init(arena);
    for ([_][2]i64{ .{ 0, 10 }, .{ 64, 7 } }) |page| {
        var message: Writer = .init(arena);
        message.ints(1, &.{page[0]});
        message.ints(2, &.{8});
        message.int(3, page[1]);
        message.message(4, &encoding);
        column.message(2, &message);
    }
    var bytes: std.ArrayList(u8) = .empty;
    try bytes.appendNTimes(arena, 0, 100);
    try bytes.appendSlice(arena, column.bytes());
    const table = bytes.items.len;
    for ([_]u64{ 100, column.bytes().len }) |number| try bytes.appendSlice(arena, std.mem.asBytes(&number));
    for ([_]u64{ 100, table, bytes.items.len }) |number| try bytes.appendSlice(arena, std.mem.asBytes(&number));
    for ([_]u32{ 0, 1 }) |number| try bytes.appendSlice(arena, std.mem.asBytes(&number));
    for ([_]u16{ 2, minor }) |number| try bytes.appendSlice(arena, std.mem.asBytes(&number));
    try bytes.appendSlice(arena, magic);
    return bytes.items;
}

test flatten {
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    defer interrupt.forget();
    const file = try sample(arena.allocator(), 2);
    const opened: DataFile = try .init(try flatten(arena.allocator(), file[90..], file.len));
    try std.testing.expectEqual(Version.v2_2, opened.version);
    const pages = try read_pages(arena.allocator(), try opened.column(0), 3, file.len);
    try std.testing.expectEqual(2, pages.len);
    try std.testing.expectEqual(10, pages[1].first_row);
    try std.testing.expectEqual(17, pages[1].end());
    try std.testing.expectEqual(Range{ .file = 3, .offset = 64, .size = 8 }, pages[1].buffers[0]);
    try std.testing.expectEqualStrings("how", pages[0].encoding);
    try std.testing.expectError(error.InvalidFormat, flatten(arena.allocator(), file[101..], file.len));
    try std.testing.expectError(
        error.InvalidFormat,
        flatten(arena.allocator(), file[90 .. file.len - 1], file.len - 1),
    );
    try std.testing.expectError(
        error.NotSupported,
        flatten(arena.allocator(), try sample(arena.allocator(), 3), file.len),
    );
}

test "damaged files" {
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    defer interrupt.forget();
    const file = try sample(arena.allocator(), 1);
    var random: std.Random.DefaultPrng = .init(std.testing.random_seed);
    for (0..3000) |_| {
        var round: Arena = .init(std.testing.allocator);
        defer round.deinit();
        const bytes = try round.allocator().dupe(u8, file);
        for (0..random.random().intRangeAtMost(usize, 1, 3)) |_| {
            bytes[random.random().uintLessThan(usize, bytes.len)] = random.random().int(u8);
        }
        const start = random.random().uintAtMost(usize, 100);
        const blob = flatten(round.allocator(), bytes[start..], bytes.len) catch continue;
        const opened: DataFile = try .init(blob);
        for (0..opened.column_count) |i| {
            _ = read_pages(round.allocator(), try opened.column(@intCast(i)), 0, opened.file_size) catch continue;
        }
    }
}
