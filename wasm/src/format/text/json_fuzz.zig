//! Broken JSON must give `json.Error` or well-formed batches, never a crash; and it is accepted only
//! when the standard library's reader accepts it too. `fuzz` replays a seed.
const std = @import("std");
const csv_fuzz = @import("csv_fuzz.zig");
const json = @import("json.zig");
const Options = @import("options.zig").Options;
const interrupt = @import("../../core/interrupt.zig");

const texts = [_][]const u8{
    "[{\"a\":1,\"b\":[1,2.5,null],\"c\":{\"d\":\"x\",\"e\":[]}},{\"a\":-3e5,\"c\":{\"f\":true}}]",
    "{\"a\":\"2020-01-01\",\"b\":\"\\u00e9\\ud83d\\ude00\\n\"}\n{\"b\":\"ö\",\"a\":null,\"a\":\"2020-01-02\"}\r\n{}\n",
    "[{\"k\":[[{\"x\":1}],[{\"y\":\"z\"},{}]]},{\"k\":[]},{\"k\":null}]",
    "{\"m\":1,\"n\":18446744073709551615}\n{\"m\":\"text\",\"n\":0}\n{\"m\":{\"deep\":[1,2,{\"er\":false}]}}",
    "[ ]",
    "{\"0123456789abcdef0123456789abcdef\":\"0123456789abcdef0123456789abcdef\\\"\\\\0123456789abcdef\"}",
};
const pieces = [_][]const u8{
    "{", "}", "[", "]",  ",", ":",  "\"", "\\",   "\\u",  "\\ud800", "null", "true",
    "1", "-", "0", "e9", ".", "\n", " ",  "\xFF", "\x00", "\"a\":",  "{}",   "[[[[[[[[",
};

pub fn fuzz(gpa: std.mem.Allocator, seed: u64) !void {
    var prng: std.Random.DefaultPrng = .init(seed);
    const random = prng.random();
    var text: std.ArrayList(u8) = .empty;
    defer text.deinit(gpa);
    try text.appendSlice(gpa, texts[random.uintLessThan(usize, texts.len)]);
    for (0..random.uintLessThan(usize, 5)) |_| {
        if (random.boolean()) {
            try csv_fuzz.mutate(gpa, random, &text);
        } else {
            try text.insertSlice(
                gpa,
                random.uintAtMost(usize, text.items.len),
                pieces[random.uintLessThan(usize, pieces.len)],
            );
        }
    }
    const choices = [_]Options{
        .{},
        .{ .infer_types = false },
        .{ .json_layout = .lines },
        .{ .column_count = 2, .columns = "\x01\x00a\x02\x01\x00b\x18\x00" },
        .{ .column_count = 1, .columns = "\x01\x00c\x19\x01\x00\x01\x00d\x02" },
    };
    const options = choices[random.uintLessThan(usize, choices.len)];
    read(gpa, text.items, options) catch |err| switch (err) {
        error.InvalidFormat, error.TooLarge, error.NotSupported => return,
        error.Cancelled, error.OutOfMemory, error.Malformed => return err,
    };
    if (options.json_layout == .unknown and text.items.len > 0 and text.items[0] == '[')
        try check_accepted(gpa, text.items);
}

/// Of an array we read, the standard library must say that it is JSON (it has no NaN; nor do our texts).
fn check_accepted(gpa: std.mem.Allocator, text: []const u8) !void {
    const valid = try std.json.validate(gpa, text);
    if (!valid) return error.Malformed;
}

fn read(gpa: std.mem.Allocator, text: []const u8, options: Options) (json.Error || error{Malformed})!void {
    var reader: json.Reader = try .init(gpa, text, options);
    defer reader.deinit();
    var row_count: usize = 0;
    while (try reader.next()) |batch| {
        row_count += batch.row_count;
        if (batch.row_count == 0 or row_count > text.len) return error.Malformed;
        if (batch.columns.len != reader.fields.len) return error.Malformed;
        for (batch.columns) |*column| try csv_fuzz.check_column(column, batch.row_count);
    }
}

test "mutated texts" {
    defer interrupt.forget();
    for (0..1500) |seed| fuzz(std.testing.allocator, seed) catch |err| {
        std.debug.print("json fuzz: seed {d}\n", .{seed});
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
