//! Brotli's bits and prefix codes (RFC 7932, sections 1.5.1 and 3).
//!
//!     bits      least significant first, `BitReader.word` holds the next 56 or more after a refill
//!     table     256 entries by the next 8 bits, then second tables for longer codes
//!     entry     symbol << 4 | length of the code, 0 … 15
//!               or, if that length is above 8, offset << 4 | longest code of the second table,
//!               where the entry is at offset + the bits behind the first 8
//!
//! The source has 64 readable bytes behind it. A refill loads 8 bytes at `from`, and `from` is at
//! most 8 bytes past the end as long as no bit past the end was used: whoever refills looks at
//! `is_past_end` at least once in six times, so nothing beyond the 64 bytes is read. What was made
//! of bits past the end is refused later, by `is_past_end` or at the latest by `offset`.
//!
//! Every code of a meta-block has its table in one pool. Codes are complete and given out in order
//! of length, so of the second tables those with codes of different lengths follow each other, and
//! what they leave unused adds up to less than 2^7: a table has at most 256 + symbols + 126 entries.
const std = @import("std");
const assert = std.debug.assert;
const interrupt = @import("../core/interrupt.zig");

pub const Error = error{ InvalidFormat, NotSupported, Cancelled };

/// Says what is wrong. Takes no arguments to format: it is called from hot loops.
pub noinline fn fail(reason: []const u8) error{InvalidFormat} {
    @branchHint(.cold);
    interrupt.describe("Brotli stream: {s}", .{reason});
    return error.InvalidFormat;
}

pub inline fn load(comptime T: type, address: usize) T {
    return @as(*align(1) const T, @ptrFromInt(address)).*;
}

pub const BitReader = struct {
    word: u64,
    /// How many bits of the word count. Those above them are either zero or what will come.
    count: u32,
    from: usize,
    /// The last address that a reader of valid bits can stand at.
    from_max: usize,
    start: usize,
    size: usize,

    pub fn init(source: []const u8) BitReader {
        const start = @intFromPtr(source.ptr);
        return .{ .word = 0, .count = 0, .from = start, .from_max = start +
            source.len + 8, .start = start, .size = source.len };
    }

    /// At least 56 bits afterwards.
    pub inline fn refill(self: *BitReader) void {
        self.word |= load(u64, self.from) << @truncate(self.count);
        self.from += (self.count ^ 63) >> 3;
        self.count |= 56;
    }

    pub inline fn is_past_end(self: *const BitReader) bool {
        return self.from > self.from_max;
    }

    pub inline fn skip(self: *BitReader, count: u32) void {
        self.word >>= @truncate(count);
        self.count -= count;
    }

    /// Takes bits that are known to be there.
    pub inline fn take(self: *BitReader, count: u32) u32 {
        const value: u32 = @truncate(self.word & ((@as(u64, 1) << @truncate(count)) - 1));
        self.skip(count);
        return value;
    }

    pub inline fn take_symbol(self: *BitReader, table: usize) u32 {
        var entry = load(u16, table + 2 * (@as(usize, @truncate(self.word)) & (root_size - 1)));
        if (entry & 15 > root_bits) {
            @branchHint(.unlikely);
            const rest = (self.word >> root_bits) & ((@as(u64, 1) << @truncate((entry & 15) - root_bits)) - 1);
            entry = load(u16, table + 2 * (@as(usize, entry >> 4) + @as(usize, @truncate(rest))));
        }
        self.skip(entry & 15);
        return entry >> 4;
    }

    /// For headers: any number of bits up to 32, at any place.
    pub fn read(self: *BitReader, count: u32) Error!u32 {
        try self.refill_checked();
        return self.take(count);
    }

    pub fn read_symbol(self: *BitReader, table: usize) Error!u32 {
        try self.refill_checked();
        return self.take_symbol(table);
    }

    fn refill_checked(self: *BitReader) Error!void {
        if (self.is_past_end()) return fail("cut short");
        self.refill();
    }

    /// How many bytes were begun, which is an error if they are more than there are.
    pub fn offset(self: *const BitReader) Error!usize {
        const begun = self.offset_begun();
        return if (begun > self.size) fail("cut short") else begun;
    }

    pub fn offset_begun(self: *const BitReader) usize {
        return self.from - self.start - self.count / 8;
    }

    /// Skips to the next whole byte, over zero bits only, and returns its offset.
    pub fn align_to_byte(self: *BitReader) Error!usize {
        const begun = try self.offset();
        if (self.take(self.count & 7) != 0) return fail("bits set where there is padding");
        return begun;
    }

    pub fn seek(self: *BitReader, target_offset: usize) void {
        assert(target_offset <= self.size);
        self.word = 0;
        self.count = 0;
        self.from = self.start + target_offset;
    }
};

const root_bits = 8;
const root_size = 1 << root_bits;
const code_size_max = 15;
pub const symbol_count_max = 704;

/// Most entries that the table for an alphabet can take; see above.
pub fn table_size_max(symbol_count: usize) usize {
    return root_size + symbol_count + 126;
}

/// Where tables are laid one behind the other.
pub const Pool = struct {
    entries: []u16,
    used: usize,

    pub fn address(self: *const Pool, position: usize) usize {
        return @intFromPtr(self.entries.ptr) + 2 * position;
    }

    /// Reads a prefix code over an alphabet and returns the address of its table.
    pub fn read_code(self: *Pool, bits: *BitReader, symbol_count: u32) Error!usize {
        assert(symbol_count >= 1 and symbol_count <= symbol_count_max);
        assert(self.entries.len - self.used >= table_size_max(symbol_count));
        var sizes: [symbol_count_max]u8 = undefined;
        const kind = try bits.read(2);
        const table = self.entries[self.used..];
        if (kind == 1) {
            self.used += try read_simple_code(bits, symbol_count, table);
        } else {
            try read_code_sizes(bits, kind, sizes[0..symbol_count]);
            self.used += build_table(table, sizes[0..symbol_count]);
        }
        return @intFromPtr(table.ptr);
    }
};

/// One to four symbols, given as they are (section 3.4). Returns the size of the table.
fn read_simple_code(bits: *BitReader, symbol_count: u32, table: []u16) Error!usize {
    const width: u32 = 32 - @clz(symbol_count - 1);
    const used_count = try bits.read(2) + 1;
    var symbols: [4]u16 = @splat(0);
    for (symbols[0..used_count], 0..) |*symbol, index| {
        symbol.* = @intCast(try bits.read(width));
        if (symbol.* >= symbol_count) return fail("symbol outside its alphabet");
        for (symbols[0..index]) |other| if (other == symbol.*) return fail("prefix code with a symbol twice");
    }
    const deep = used_count == 4 and try bits.read(1) == 1;
    const sizes: [4]u8 = switch (used_count) {
        1 => .{ 0, 0, 0, 0 },
        2 => .{ 1, 1, 0, 0 },
        3 => .{ 1, 2, 2, 0 },
        else => if (deep) .{ 1, 2, 3, 3 } else .{ 2, 2, 2, 2 },
    };
    fill_simple_table(table[0..root_size], symbols[0..used_count], sizes);
    return root_size;
}

fn fill_simple_table(table: *[root_size]u16, symbols: []u16, sizes: [4]u8) void {
    // Symbols of one length are in order, whatever the order they came in.
    for (1..symbols.len) |end| {
        var index = end;
        while (index > 0 and sizes[index - 1] == sizes[index] and symbols[index - 1] > symbols[index]) : (index -= 1)
            std.mem.swap(u16, &symbols[index - 1], &symbols[index]);
    }
    var code: u32 = 0;
    for (symbols, sizes[0..symbols.len]) |symbol, size| {
        fill(table, code, size, symbol << 4 | size);
        code = next_code(code, size);
    }
}

/// Reads how long the code of each symbol is (section 3.5).
fn read_code_sizes(bits: *BitReader, skipped: u32, sizes: []u8) Error!void {
    var size_table: [32]u16 = undefined;
    try read_size_code(bits, skipped, &size_table);
    @memset(sizes, 0);
    var space: i32 = 1 << code_size_max;
    var symbol: usize = 0;
    var last_size: u8 = 8;
    var repeat: Repeat = .{};
    while (symbol < sizes.len and space > 0) {
        try bits.refill_checked();
        const entry = size_table[@as(usize, @truncate(bits.word)) & 31];
        bits.skip(entry & 15);
        const size: u8 = @intCast(entry >> 4);
        if (size < 16) {
            repeat = .{};
            sizes[symbol] = size;
            symbol += 1;
            if (size == 0) continue;
            last_size = size;
            space -= @as(i32, 1) << @intCast(code_size_max - size);
        } else {
            const repeated = if (size == 16) last_size else 0;
            const digit_bits: u5 = if (size == 16) 2 else 3;
            const added = repeat.extend(repeated, digit_bits, bits.take(digit_bits));
            if (added > sizes.len - symbol) return fail("prefix code with too many symbols");
            @memset(sizes[symbol..][0..added], repeated);
            symbol += added;
            if (repeated != 0) space -= @as(i32, @intCast(added)) << @intCast(code_size_max - repeated);
        }
    }
    if (space != 0) return fail("prefix code that is not complete");
}

/// A run of one length; codes for it that follow each other are digits of one number.
const Repeat = struct {
    count: u32 = 0,
    size: u8 = 0,

    /// Returns how many symbols came in addition. The count stays below 2^15: it is refused when
    /// it passes the alphabet's size, before the next digit.
    fn extend(self: *Repeat, size: u8, digit_bits: u5, digit: u32) u32 {
        if (self.size != size) self.* = .{ .size = size };
        const before = self.count;
        if (before > 0) self.count = (before - 2) << digit_bits;
        self.count += digit + 3;
        return self.count - before;
    }
};

/// The code of the lengths themselves: 18 symbols of at most 5 bits, the likely ones first.
fn read_size_code(bits: *BitReader, skipped: u32, table: *[32]u16) Error!void {
    const order = [18]u8{ 1, 2, 3, 4, 0, 5, 17, 6, 16, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
    // By the next four bits: how long the code for a length is, and that length.
    const code_sizes = [16]u8{ 2, 2, 2, 3, 2, 2, 2, 4, 2, 2, 2, 3, 2, 2, 2, 4 };
    const values = [16]u8{ 0, 4, 3, 2, 0, 4, 3, 1, 0, 4, 3, 2, 0, 4, 3, 5 };
    var sizes: [18]u8 = @splat(0);
    var space: i32 = 32;
    var used_count: u32 = 0;
    for (order[skipped..]) |symbol| {
        try bits.refill_checked();
        const next: u4 = @truncate(bits.word);
        bits.skip(code_sizes[next]);
        const size = values[next];
        if (size == 0) continue;
        sizes[symbol] = size;
        used_count += 1;
        space -= @as(i32, 32) >> @intCast(size);
        if (space <= 0) break;
    }
    if (used_count == 1) return fill_only(table, &sizes);
    if (space != 0) return fail("code of lengths that is not complete");
    var code: u32 = 0;
    for (1..6) |size| for (sizes, 0..) |symbol_size, symbol| if (symbol_size == size) {
        fill(table, code, size, @intCast(symbol << 4 | size));
        code = next_code(code, @intCast(size));
    };
}

/// A single symbol takes no bits, whatever length it was given.
fn fill_only(table: *[32]u16, sizes: *const [18]u8) void {
    for (sizes, 0..) |size, symbol| if (size != 0) @memset(table, @intCast(symbol << 4));
}

/// Every entry whose index ends in the code.
fn fill(table: []u16, code: usize, size: usize, entry: u16) void {
    var index = code;
    while (index < table.len) : (index += @as(usize, 1) << @intCast(size)) table[index] = entry;
}

/// Codes count upwards with their first bit as the highest, and are kept with it as the lowest. A
/// longer code continues with zeros, which need nothing here.
fn next_code(code: u32, size: u8) u32 {
    if (size == 0) return 0;
    var bit = @as(u32, 1) << @intCast(size - 1);
    while (code & bit != 0) bit >>= 1;
    return if (bit == 0) 0 else (code & (bit - 1)) | bit;
}

/// Lays the table of a complete code, and returns its size.
fn build_table(table: []u16, sizes: []const u8) usize {
    var counts: [code_size_max + 1]u16 = @splat(0);
    for (sizes) |size| counts[size] += 1;
    var sorted: [symbol_count_max]u16 = undefined;
    sort_symbols(&sorted, sizes, counts);
    var code: u32 = 0;
    var position: usize = 0;
    for (1..root_bits + 1) |size| for (0..counts[size]) |_| {
        fill(table[0..root_size], code, size, @intCast(sorted[position] << 4 | size));
        position += 1;
        code = next_code(code, @intCast(size));
    };
    return build_second_tables(table, sorted[position..], code, &counts);
}

fn sort_symbols(sorted: *[symbol_count_max]u16, sizes: []const u8, counts: [code_size_max + 1]u16) void {
    var places: [code_size_max + 1]u16 = @splat(0);
    for (2..code_size_max + 1) |size| places[size] = places[size - 1] + counts[size - 1];
    for (sizes, 0..) |size, symbol| if (size != 0) {
        sorted[places[size]] = @intCast(symbol);
        places[size] += 1;
    };
}

fn build_second_tables(
    table: []u16,
    symbols: []const u16,
    first_code: u32,
    counts: *const [code_size_max + 1]u16,
) usize {
    var code = first_code;
    var position: usize = 0;
    var table_end: usize = root_size;
    var second: []u16 = table[0..0];
    var root: u32 = root_size; // which entry of the first table the second one continues
    for (root_bits + 1..code_size_max + 1) |size| {
        var left: usize = counts[size];
        while (left > 0) : (left -= 1) {
            if (code & (root_size - 1) != root) {
                root = code & (root_size - 1);
                const longest = second_table_size(size, left, counts);
                second = table[table_end..][0 .. @as(usize, 1) << @intCast(longest - root_bits)];
                table[root] = @intCast(table_end << 4 | longest);
                table_end += second.len;
            }
            fill(second, code >> root_bits, size - root_bits, @intCast(symbols[position] << 4 | size));
            position += 1;
            code = next_code(code, @intCast(size));
        }
    }
    return table_end;
}

/// The longest code in the second table that begins with `left` or fewer codes of this length.
fn second_table_size(first_size: usize, left: usize, counts: *const [code_size_max + 1]u16) usize {
    var size = first_size;
    var space = @as(usize, 1) << @intCast(size - root_bits);
    var used: usize = left;
    while (space > used) {
        size += 1;
        space = 2 * (space - used);
        used = counts[size]; // a complete code fills the table at the latest with its longest codes
    }
    return size;
}

/// Writes bits the way the reader takes them.
const TestWriter = struct {
    bytes: [4096 + 64]u8 = @splat(0),
    bit: usize = 0,

    fn write(self: *TestWriter, value: u64, count: usize) void {
        for (0..count) |index| {
            self.bytes[self.bit >> 3] |= @as(u8, @intCast(value >> @intCast(index) & 1)) << @intCast(self.bit & 7);
            self.bit += 1;
        }
    }

    fn reader(self: *const TestWriter) BitReader {
        return .init(self.bytes[0 .. (self.bit + 7) >> 3]);
    }
};

test BitReader {
    var writer: TestWriter = .{};
    var random: std.Random.DefaultPrng = .init(1);
    var values: [300]u32 = undefined;
    for (&values, 0..) |*value, index| {
        value.* = random.random().int(u32) & ((@as(u32, 1) << @intCast(index % 25)) - 1);
        writer.write(value.*, index % 25);
    }
    var bits = writer.reader();
    for (values, 0..) |value, index| try std.testing.expectEqual(value, try bits.read(@intCast(index % 25)));
    try std.testing.expectEqual((writer.bit + 7) >> 3, try bits.align_to_byte());
    // Bits that are not there are refused, at the latest a few reads on.
    for (0..6) |_| _ = bits.read(24) catch return;
    return error.TestExpectedError;
}

test "code that is looked up bit by bit" {
    var random: std.Random.DefaultPrng = .init(2);
    for ([_]usize{ 2, 3, 26, 256, 272, 520, 704 }) |symbol_count| for (0..20) |_| {
        var sizes: [symbol_count_max]u8 = @splat(0);
        random_code(random.random(), sizes[0..symbol_count]);
        var table: [2048]u16 = undefined;
        const table_size = build_table(&table, sizes[0..symbol_count]);
        try std.testing.expect(table_size <= table_size_max(symbol_count));
        try expect_codes(&table, sizes[0..symbol_count]);
    };
}

/// Splits leaves at random until every symbol, or nearly, has one.
fn random_code(random: std.Random, sizes: []u8) void {
    var leaves: [symbol_count_max]u8 = @splat(0);
    var leaf_count: usize = 1;
    const deep = random.boolean();
    for (0..sizes.len * 2) |_| {
        if (leaf_count == sizes.len) break;
        const index = if (deep) leaf_count - 1 -
            random.uintLessThan(usize, @min(leaf_count, 3)) else random.uintLessThan(usize, leaf_count);
        if (leaves[index] == code_size_max) continue;
        leaves[index] += 1;
        leaves[leaf_count] = leaves[index];
        leaf_count += 1;
    }
    @memcpy(sizes, leaves[0..sizes.len]);
    random.shuffle(u8, sizes);
}

/// Every code, written first bit first as the standard counts them, gives its symbol.
fn expect_codes(table: []const u16, sizes: []const u8) !void {
    var code: u32 = 0;
    for (1..code_size_max + 1) |size| {
        code <<= 1;
        for (sizes, 0..) |symbol_size, symbol| if (symbol_size == size) {
            const reversed = @bitReverse(code) >> @intCast(32 - size);
            var bits: BitReader = undefined;
            bits.count = 63;
            bits.word = reversed | @as(u64, 0x2A5A5A) << @intCast(size);
            try std.testing.expectEqual(symbol, bits.take_symbol(@intFromPtr(table.ptr)));
            try std.testing.expectEqual(63 - size, bits.count);
            code += 1;
        };
    }
    try std.testing.expectEqual(1 << code_size_max, code);
}

test "simple codes" {
    const cases = [_]struct { symbols: []const u8, deep: u1, bits: u16, expected: []const u8 }{
        .{ .symbols = &.{9}, .deep = 0, .bits = 0, .expected = &.{ 9, 9 } },
        .{ .symbols = &.{ 9, 4 }, .deep = 0, .bits = 0b10, .expected = &.{ 4, 9 } },
        .{ .symbols = &.{ 9, 5, 4 }, .deep = 0, .bits = 0b11_01_0, .expected = &.{ 9, 4, 5 } },
        .{ .symbols = &.{ 9, 5, 4, 1 }, .deep = 0, .bits = 0b11_01_10_00, .expected = &.{ 1, 4, 5, 9 } },
        .{ .symbols = &.{ 9, 5, 4, 1 }, .deep = 1, .bits = 0b111_011_01_0, .expected = &.{ 9, 5, 1, 4 } },
    };
    for (cases) |case| {
        var writer: TestWriter = .{};
        writer.write(1, 2);
        writer.write(case.symbols.len - 1, 2);
        for (case.symbols) |symbol| writer.write(symbol, 4);
        if (case.symbols.len == 4) writer.write(case.deep, 1);
        writer.write(case.bits, 16);
        var entries: [table_size_max(10)]u16 = undefined;
        var pool: Pool = .{ .entries = &entries, .used = 0 };
        var bits = writer.reader();
        const table = try pool.read_code(&bits, 10);
        for (case.expected) |symbol| try std.testing.expectEqual(symbol, try bits.read_symbol(table));
    }
}

test "codes that are refused" {
    defer interrupt.forget();
    var entries: [table_size_max(10)]u16 = undefined;
    // A symbol twice; a symbol outside; lengths that leave room; a run beyond the alphabet.
    const cases = [_]struct { bits: u64, count: u6 }{
        .{ .bits = 0b0011_0011_01_01, .count = 12 },
        .{ .bits = 0b1010_00_01, .count = 8 },
        .{ .bits = 0b01_01_00, .count = 40 },
        .{ .bits = 0b111_0010_00, .count = 40 },
    };
    for (cases) |case| {
        var writer: TestWriter = .{};
        writer.write(case.bits, case.count);
        var bits = writer.reader();
        var pool: Pool = .{ .entries = &entries, .used = 0 };
        try std.testing.expectError(error.InvalidFormat, pool.read_code(&bits, 10));
    }
}
