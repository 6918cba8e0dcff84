//! Random batches must survive QMCB, and mutated QMCB must be refused or read, never crash.
//!
//! Each round has a seed of its own, printed when the round fails; `round(seed)` replays it. Memory
//! is a fixed multiple of the input's size, so a length that is believed too early fails here.
const std = @import("std");
const bitmap = @import("core/bitmap.zig");
const column_file = @import("core/column.zig");
const interrupt = @import("core/interrupt.zig");
const schema = @import("core/schema.zig");
const qmcb = @import("qmcb.zig");
const Allocator = std.mem.Allocator;
const Arena = @import("core/arena.zig").Arena;
const Batch = column_file.Batch;
const Column = column_file.Column;
const DataType = schema.DataType;
const Field = schema.Field;
const TypeTag = schema.TypeTag;
const testing = std.testing;

const mutations_per_round = 40;

pub const Sample = struct { names: []const []const u8, batch: Batch };

/// Draws types and values. Small on purpose: mutations should hit lengths and tags.
pub const Generator = struct {
    arena: Allocator,
    random: std.Random,

    pub fn sample(self: Generator) error{OutOfMemory}!Sample {
        const count = self.random.uintAtMost(usize, 5);
        const rows = switch (self.random.uintLessThan(u8, 5)) {
            0 => self.random.uintAtMost(u32, 1),
            else => self.random.uintAtMost(u32, 20),
        };
        const names = try self.arena.alloc([]const u8, count);
        const columns = try self.arena.alloc(Column, count);
        for (names, columns) |*name, *slot| {
            name.* = self.pick_text();
            slot.* = try self.column(try self.data_type(self.random.enumValue(TypeTag), 0), rows);
        }
        return .{ .names = names, .batch = .{ .row_count = rows, .columns = columns } };
    }

    fn pick_text(self: Generator) []const u8 {
        const texts = [_][]const u8{ "", "a", "region", "größe", "€", "𝄞x", "Europe/Berlin" };
        return texts[self.random.uintLessThan(usize, texts.len)];
    }

    pub fn data_type(self: Generator, tag: TypeTag, depth: u32) error{OutOfMemory}!DataType {
        var result: DataType = .of(tag);
        switch (tag) {
            .decimal => {
                result.precision = self.random.intRangeAtMost(u8, 1, 38);
                result.scale = self.random.intRangeAtMost(i8, -38, 38);
            },
            .fixed_binary, .f32vec, .f16vec => result.width = self.random.uintAtMost(u32, 3),
            .time => result.unit = self.random.enumValue(schema.TimeUnit),
            .timestamp => {
                result.unit = self.random.enumValue(schema.TimeUnit);
                result.zone = self.pick_text();
            },
            .list => result.children = try self.fields(&.{"item"}, depth),
            .map => result.children = try self.fields(&.{ "key", "value" }, depth),
            .structure => {
                const names: []const []const u8 = &.{ "", "b", "größe" };
                result.children = try self.fields(names[0..self.random.uintAtMost(usize, 3)], depth);
            },
            else => {},
        }
        return result;
    }

    fn fields(self: Generator, names: []const []const u8, depth: u32) error{OutOfMemory}![]const Field {
        const result = try self.arena.alloc(Field, names.len);
        for (result, names) |*field, name| {
            var tag = self.random.enumValue(TypeTag);
            while (depth == 3 and DataType.of(tag).is_nested()) tag = self.random.enumValue(TypeTag);
            field.* = .{ .name = name, .type = try self.data_type(tag, depth + 1) };
        }
        return result;
    }

    pub fn column(self: Generator, data_type_: DataType, rows: u32) error{OutOfMemory}!Column {
        var result: Column = .{ .type = data_type_, .row_count = rows, .validity = try self.validity(rows) };
        switch (data_type_.layout()) {
            .none => result.validity = null,
            .bits => result.data = try self.bytes(bitmap.size(rows)),
            .bytes => try self.text(&result),
            .list => try self.items(&result),
            .structure => {
                const children = try self.arena.alloc(Column, data_type_.children.len);
                for (children, data_type_.children) |*child, field| child.* = try self.column(field.type, rows);
                result.children = children;
            },
            else => result.data = try self.bytes(@intCast(rows * data_type_.value_size())),
        }
        return result;
    }

    fn validity(self: Generator, rows: u32) error{OutOfMemory}!?[]const u8 {
        if (self.random.boolean()) return null;
        const bits = try self.bytes(bitmap.size(rows));
        if (self.random.uintLessThan(u8, 3) == 0) @memset(bits, self.random.int(u8) | 0x7F);
        return bits;
    }

    fn bytes(self: Generator, size: usize) error{OutOfMemory}![]align(16) u8 {
        const result = try self.arena.alignedAlloc(u8, .@"16", size);
        self.random.bytes(result);
        return result;
    }

    fn text(self: Generator, target: *Column) error{OutOfMemory}!void {
        const offsets = try self.arena.alloc(u32, @as(usize, target.row_count) + 1);
        const data = try self.arena.alignedAlloc(u8, .@"16", @as(usize, target.row_count) * 16 + 3);
        var size: u32 = 0;
        for (offsets[0..target.row_count]) |*offset| {
            offset.* = size;
            const value = self.pick_text();
            @memcpy(data[size..][0..value.len], value);
            size += @intCast(value.len);
        }
        offsets[target.row_count] = size;
        target.offsets = offsets;
        target.data = data; // with bytes to spare: only those up to the last offset count
    }

    fn items(self: Generator, target: *Column) error{OutOfMemory}!void {
        const offsets = try self.arena.alloc(u32, @as(usize, target.row_count) + 1);
        offsets[0] = 0;
        for (offsets[1..], offsets[0..target.row_count]) |*next, last| next.* = last + self.random.uintAtMost(u32, 2);
        const spare = self.random.uintAtMost(u32, 2);
        const child_type = switch (target.type.tag) {
            .map => column_file.map_entries_type(target.type),
            else => target.type.children[0].type,
        };
        const children = try self.arena.alloc(Column, 1);
        children[0] = try self.column(child_type, offsets[target.row_count] + spare);
        target.offsets = offsets;
        target.children = children;
    }
};

fn encode_alloc(gpa: Allocator, names: []const []const u8, batch: Batch) ![]u8 {
    const bytes = try gpa.alloc(u8, @intCast(try qmcb.encoded_size(names, batch)));
    qmcb.encode(bytes, names, batch);
    return bytes;
}

/// Equal in what a reader may look at: validity, the values of valid rows, the used part of children.
fn expect_equal_columns(a: *const Column, b: *const Column, rows: u32) !void {
    try testing.expect(a.type.eql(b.type));
    for (0..rows) |row| try testing.expectEqual(a.is_valid(row), b.is_valid(row));
    switch (a.type.layout()) {
        .none => {},
        .bits => for (0..rows) |row| try testing.expectEqual(bitmap.get(a.data.ptr, row), bitmap.get(b.data.ptr, row)),
        .bytes => for (0..rows) |row| try testing.expectEqualSlices(u8, a.bytes_at(row), b.bytes_at(row)),
        .list => {
            const end = @as(usize, rows) + 1;
            try testing.expectEqualSlices(u32, a.offsets[0..end], b.offsets[0..end]);
            try expect_equal_columns(&a.children[0], &b.children[0], a.offsets[rows]);
        },
        .structure => for (a.children, b.children) |*x, *y| try expect_equal_columns(x, y, rows),
        else => {
            const size: usize = @intCast(rows * a.type.value_size());
            try testing.expectEqualSlices(u8, a.data[0..size], b.data[0..size]);
        },
    }
}

fn mutate(random: std.Random, gpa: Allocator, source: []const u8) error{OutOfMemory}![]u8 {
    const bytes = try gpa.alloc(u8, source.len + 8);
    @memcpy(bytes[0..source.len], source);
    random.bytes(bytes[source.len..]);
    var size = source.len;
    for (0..random.intRangeAtMost(usize, 1, 3)) |_| {
        const position = random.uintLessThan(usize, @max(1, size));
        switch (random.uintLessThan(u8, 8)) {
            0 => bytes[position] ^= @as(u8, 1) << random.int(u3),
            1 => bytes[position] = random.int(u8),
            2 => bytes[position] = @backingInt(random.enumValue(TypeTag)),
            3 => size = position,
            4 => size = source.len + random.uintAtMost(usize, 8),
            5 => bytes[position] = if (random.boolean()) 0 else 0xFF,
            6 => {
                const values = [_]u32{ 0, 1, 2, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFE, 0xFFFF_FFFF, random.uintAtMost(
                    u32,
                    64,
                ) };
                std.mem.writeInt(
                    u32,
                    bytes[@min(position, bytes.len - 4)..][0..4],
                    values[random.uintLessThan(usize, values.len)],
                    .little,
                );
            },
            else => bytes[4] = random.uintAtMost(u8, 24), // rows
        }
    }
    return bytes[0..size];
}

/// Decodes within a bounded multiple of the input; what is read must encode, and decode the same.
fn try_decode(memory: []u8, bytes: []const u8) !bool {
    defer interrupt.forget();
    var fixed: std.heap.FixedBufferAllocator = .init(memory[0..@min(memory.len, 16 * 1024 + 160 * bytes.len)]);
    const decoded = qmcb.decode(fixed.allocator(), bytes) catch |failure| switch (failure) {
        error.InvalidFormat => return false,
        else => return failure,
    };
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const again = try encode_alloc(arena.allocator(), decoded.names, decoded.batch);
    try testing.expect(again.len <= bytes.len);
    const second = try qmcb.decode(arena.allocator(), again);
    const third = try encode_alloc(arena.allocator(), second.names, second.batch);
    try testing.expectEqualSlices(u8, again, third);
    return true;
}

/// Returns how many of the mutated inputs were still readable.
pub fn round(seed: u64, memory: []u8) !usize {
    errdefer std.debug.print("qmcb_fuzz: round({d}) failed\n", .{seed});
    var prng: std.Random.DefaultPrng = .init(seed);
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const generator: Generator = .{ .arena = arena.allocator(), .random = prng.random() };
    const sample = try generator.sample();
    const bytes = try encode_alloc(arena.allocator(), sample.names, sample.batch);
    const decoded = try qmcb.decode(arena.allocator(), bytes);
    try testing.expectEqual(sample.batch.row_count, decoded.batch.row_count);
    for (sample.names, decoded.names) |a, b| try testing.expectEqualStrings(a, b);
    for (sample.batch.columns, decoded.batch.columns) |*a, *b| try expect_equal_columns(a, b, sample.batch.row_count);
    var readable: usize = 0;
    for (0..mutations_per_round) |_| {
        const mutated = try mutate(prng.random(), arena.allocator(), bytes);
        if (try try_decode(memory, mutated)) readable += 1;
    }
    return readable;
}

test "random batches round trip, mutated ones do not crash" {
    const memory = try testing.allocator.alloc(u8, 4 << 20);
    defer testing.allocator.free(memory);
    var readable: usize = 0;
    for (0..500) |seed| readable += try round(seed, memory);
    // Mutations that are all refused, or all harmless, would test nothing.
    try testing.expect(readable > 2_000 and readable < 15_000);
}

test "every type round trips, with and without NULLs, from no rows on" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    var prng: std.Random.DefaultPrng = .init(7);
    const generator: Generator = .{ .arena = arena.allocator(), .random = prng.random() };
    for (std.enums.values(TypeTag)) |tag| {
        for ([_]u32{ 0, 1, 7, 8, 9, 64, 100 }) |rows| {
            var column = try generator.column(try generator.data_type(tag, 0), rows);
            for ([_]?[]const u8{ null, &@as(
                [13]u8,
                @splat(0xFF),
            ), &@as([13]u8, @splat(0)), &@as([13]u8, @splat(0x5A)) }) |validity| {
                column.validity = if (tag == .null) null else validity;
                const bytes = try encode_alloc(arena.allocator(), &.{"c"}, .{ .row_count = rows, .columns = &.{
                    column,
                } });
                const decoded = try qmcb.decode(arena.allocator(), bytes);
                try expect_equal_columns(&column, &decoded.batch.columns[0], rows);
                try testing.expectEqual(column.null_count() == 0 or
                    tag == .null, decoded.batch.columns[0].validity == null);
            }
        }
    }
}
