//! Broken CSV must give `csv.Error` or well-formed batches, never a crash. `fuzz` replays a seed:
//! sensible texts are mutated, read with random options, and every batch is gone over.
const std = @import("std");
const csv = @import("csv.zig");
const options_module = @import("options.zig");
const column_module = @import("../../core/column.zig");
const interrupt = @import("../../core/interrupt.zig");

const texts = [_][]const u8{
    "a,b,c\n1,2.5,x\n,\"y \"\"z\"\"\",2020-01-01\n-7,1e300,\"line\nbreak\"\n",
    "id;when;ok\r\n1;2020-01-01T10:00:00.5Z;true\r\n2;2021-12-31 23:59:59+02:00;FALSE\r\n",
    "x\t y\t\n\n\"q\" \t 12:30\t\n\xEF\xBB\xBF\t9223372036854775808\t\n",
    "\xEF\xBB\xBFname|größe\nÄ|1\n😀|nan\n\\\"|inf",
    "0123456789012345678901234567890123456789012345678901234567890123456789," ++
        "\"0123456789012345678901234567890123456789012345678901234567890123456789\"\n",
};
const pieces = [_][]const u8{
    ",",    ";",  "\"", "\"\"",       "\n",   "\r", "\r\n", "\\", " ", "1",
    "-",    "e",  ".",  "2020-01-01", "\xFF",
    "ä",
    "\x00", "NA", "",
};

pub fn fuzz(gpa: std.mem.Allocator, seed: u64) !void {
    var prng: std.Random.DefaultPrng = .init(seed);
    const random = prng.random();
    var text: std.ArrayList(u8) = .empty;
    defer text.deinit(gpa);
    try text.appendSlice(gpa, texts[random.uintLessThan(usize, texts.len)]);
    for (0..random.uintLessThan(usize, 6)) |_| try mutate(gpa, random, &text);
    var options_bytes: [64]u8 = undefined;
    const options = options_module.parse(random_options(random, &options_bytes)) catch return;
    read(gpa, text.items, options) catch |err| switch (err) {
        error.InvalidFormat, error.TooLarge, error.NotSupported => {},
        error.Cancelled, error.OutOfMemory, error.Malformed => return err,
    };
}

/// Replaces a random stretch by a piece or by part of the text itself.
pub fn mutate(gpa: std.mem.Allocator, random: std.Random, text: *std.ArrayList(u8)) !void {
    const start = random.uintAtMost(usize, text.items.len);
    const removed = random.uintAtMost(usize, @min(4, text.items.len - start));
    var copy: [16]u8 = undefined;
    var inserted: []const u8 = pieces[random.uintLessThan(usize, pieces.len)];
    if (random.boolean()) {
        const from = random.uintAtMost(usize, text.items.len);
        const size = random.uintAtMost(usize, @min(copy.len, text.items.len - from));
        @memcpy(copy[0..size], text.items[from..][0..size]);
        inserted = copy[0..size];
    }
    try text.replaceRange(gpa, start, removed, inserted);
}

fn random_options(random: std.Random, bytes: *[64]u8) []const u8 {
    if (random.boolean()) return "";
    const marks = "\x00,;|\t\"'\\ ";
    bytes[0] = marks[random.uintLessThan(usize, marks.len)];
    bytes[1] = marks[random.uintLessThan(usize, marks.len)];
    bytes[2] = marks[random.uintLessThan(usize, marks.len)];
    bytes[3] = random.uintLessThan(u8, 3);
    bytes[4] = random.uintLessThan(u8, 2);
    const nulls = "\x00\x01\x00\x00\x00\x00\x00\x02NA";
    const columns = "\x00\x00\x00\x03\x00\x00\x00\x01\x00a\x02\x01\x00b\x01\x01\x00c\x13";
    const tail = if (random.boolean()) nulls else columns;
    @memcpy(bytes[5..][0..tail.len], tail);
    return bytes[0 .. 5 + tail.len];
}

fn read(
    gpa: std.mem.Allocator,
    text: []const u8,
    options: options_module.Options,
) (csv.Error || error{Malformed})!void {
    var reader: csv.Reader = try .init(gpa, text, options);
    defer reader.deinit();
    var row_count: usize = 0;
    while (try reader.next()) |batch| {
        row_count += batch.row_count;
        if (batch.row_count == 0 or row_count > text.len + 1) return error.Malformed;
        if (batch.columns.len != reader.fields.len) return error.Malformed;
        for (batch.columns) |*column| try check_column(column, batch.row_count);
    }
}

/// What core/column.zig promises of a column.
pub fn check_column(column: *const column_module.Column, row_count: u32) error{Malformed}!void {
    if (column.row_count != row_count) return error.Malformed;
    if (column.validity) |validity| if (validity.len < (row_count + 7) / 8) return error.Malformed;
    switch (column.type.layout()) {
        .none => {},
        .bits => if (column.data.len < (row_count + 7) / 8) return error.Malformed,
        .bytes => {
            try check_offsets(column, column.data.len);
            if (!std.unicode.utf8ValidateSlice(column.data)) return error.Malformed;
        },
        .list => {
            try check_offsets(column, column.children[0].row_count);
            try check_column(&column.children[0], column.offsets[row_count]);
        },
        .structure => for (column.children) |*child| try check_column(child, row_count),
        else => if (column.data.len != row_count * column.type.value_size()) return error.Malformed,
    }
}

fn check_offsets(column: *const column_module.Column, end: usize) error{Malformed}!void {
    const offsets = column.offsets;
    if (offsets.len != @as(usize, column.row_count) + 1 or offsets[0] != 0) return error.Malformed;
    for (offsets[0..column.row_count], offsets[1..]) |a, b| if (a > b) return error.Malformed;
    if (offsets[column.row_count] != end) return error.Malformed;
}

test "mutated texts" {
    defer interrupt.forget();
    for (0..1500) |seed| fuzz(std.testing.allocator, seed) catch |err| {
        std.debug.print("csv fuzz: seed {d}\n", .{seed});
        return err;
    };
}

test "memory that runs out is only an error" {
    defer interrupt.forget();
    for (texts) |text| for (0..100) |fail_index| {
        var failing: std.testing.FailingAllocator = .init(std.testing.allocator, .{ .fail_index = fail_index });
        read(failing.allocator(), text, .{}) catch |err| switch (err) {
            error.OutOfMemory => continue,
            error.InvalidFormat => {},
            else => return err,
        };
        if (!failing.has_induced_failure) break;
    };
}
