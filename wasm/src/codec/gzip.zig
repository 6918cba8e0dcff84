//! GZIP, zlib and raw DEFLATE: whole streams from slice to slice, checksums verified.
//!
//!     gzip     members, each: 1F 8B 08 | flags | time u32 | 2 bytes | [extra] [name] [comment] [CRC16]
//!              | DEFLATE | CRC-32 of the output u32 | its size mod 2^32 u32;  zeros may pad the last
//!     zlib     2 bytes | DEFLATE | Adler-32 of the output u32 BE
//!     DEFLATE  blocks, least significant bit first: last? 1 bit | kind 2 bits | stored, or codes
//!
//! Codes are looked up in two steps: the first `literal_bits` (or `distance_bits`) bits of the input
//! index a table, whose entry is a symbol or names a second table for the bits behind them.
//!
//! Both slices have 64 bytes of slack behind them, so there is one decoding loop and no careful
//! twin for the ends. It may read up to 32 bytes past the source, and is then told off: a block
//! that used bits behind the source's end is cut short, whatever those bits made it do. It writes
//! past the target at most 3 literals and what a 16-byte copy runs over; matches are checked first.
//!
//! Spec: RFC 1951, 1950 and 1952.
const std = @import("std");
const assert = std.debug.assert;
const interrupt = @import("../core/interrupt.zig");
const lz = @import("lz4.zig");

pub const crc32 = @import("crc32.zig").crc32;

pub const Error = error{ InvalidFormat, NotSupported, Cancelled };

/// Output between two looks at the cancel byte.
const stride_bytes = 128 * 1024;

/// All members of a gzip stream, which together fill the target.
pub fn decompress(source: []const u8, target: []u8) Error!void {
    var from: usize = 0;
    var at: usize = 0;
    while (true) {
        try interrupt.check();
        from = try read_member_header(source, from);
        const start = at;
        at = try inflate_at(source, &from, target, start);
        if (source.len - from < 8) return fail("gzip trailer is cut short", .{}, from);
        if (std.mem.readInt(u32, source[from + 4 ..][0..4], .little) != @as(u32, @truncate(at - start)))
            return fail("gzip member: wrong size in its trailer", .{}, from + 4);
        if (std.mem.readInt(u32, source[from..][0..4], .little) != try crc32(target[start..at]))
            return fail("gzip member: wrong CRC-32", .{}, from);
        from += 8;
        if (std.mem.allEqual(u8, source[from..], 0)) break;
    }
    if (at != target.len) return fail("gzip stream ends after {d} of {d} bytes", .{ at, target.len }, from);
}

/// A zlib stream that fills the target and ends with the source.
pub fn decompress_zlib(source: []const u8, target: []u8) Error!void {
    if (source.len < 2) return fail("zlib stream is cut short", .{}, 0);
    const header = std.mem.readInt(u16, source[0..2], .big);
    if (header % 31 != 0 or header >> 8 & 15 != 8 or header >> 12 > 7) return fail("not a zlib stream", .{}, 0);
    if (header & 0x20 != 0) {
        interrupt.describe("zlib stream with a preset dictionary", .{});
        return error.NotSupported;
    }
    var from: usize = 2;
    try inflate_exact(source, &from, target);
    if (source.len - from != 4) return fail("zlib trailer is cut short or followed by more", .{}, from);
    if (std.mem.readInt(u32, source[from..][0..4], .big) != try adler32(target))
        return fail("zlib stream: wrong Adler-32", .{}, from);
}

/// A raw DEFLATE stream that fills the target and ends with the source.
pub fn inflate(source: []const u8, target: []u8) Error!void {
    var from: usize = 0;
    try inflate_exact(source, &from, target);
    if (from != source.len) return fail("DEFLATE stream is followed by more", .{}, from);
}

fn inflate_exact(source: []const u8, from: *usize, target: []u8) Error!void {
    const size = try inflate_at(source, from, target, 0);
    if (size != target.len) return fail("DEFLATE stream ends after {d} of {d} bytes", .{ size, target.len }, from.*);
}

fn fail(comptime reason: []const u8, arguments: anytype, offset: usize) error{InvalidFormat} {
    @branchHint(.cold);
    interrupt.describe(reason, arguments);
    interrupt.describe_offset(offset);
    return error.InvalidFormat;
}

// The gzip wrapping.

const MemberFlags = packed struct(u8) {
    text: bool,
    header_checksum: bool,
    extra: bool,
    name: bool,
    comment: bool,
    reserved: u3,
};

/// Returns where the member's DEFLATE stream starts.
pub fn read_member_header(source: []const u8, start: usize) Error!usize {
    const cut_short = "gzip header is cut short";
    if (source.len - start < 10) return fail(cut_short, .{}, start);
    if (!std.mem.eql(u8, source[start..][0..3], "\x1F\x8B\x08")) return fail("not a gzip member", .{}, start);
    const flags: MemberFlags = @bitCast(source[start + 3]);
    if (flags.reserved != 0) return fail("gzip header: unknown flag", .{}, start + 3);
    var from = start + 10;
    if (flags.extra) {
        if (source.len - from < 2) return fail(cut_short, .{}, from);
        const size = std.mem.readInt(u16, source[from..][0..2], .little);
        from += 2;
        if (source.len - from < size) return fail(cut_short, .{}, from);
        from += size;
    }
    if (flags.name) from = text_end(source, from) orelse return fail(cut_short, .{}, from);
    if (flags.comment) from = text_end(source, from) orelse return fail(cut_short, .{}, from);
    if (flags.header_checksum) {
        if (source.len - from < 2) return fail(cut_short, .{}, from);
        const checksum: u16 = @truncate(try crc32(source[start..from]));
        if (std.mem.readInt(u16, source[from..][0..2], .little) != checksum)
            return fail("gzip header: wrong CRC-16", .{}, from);
        from += 2;
    }
    return from;
}

fn text_end(source: []const u8, from: usize) ?usize {
    return 1 + (std.mem.indexOfScalarPos(u8, source, from, 0) orelse return null);
}

// DEFLATE.

/// Bits are taken from the low end of `bits`. Those above `bit_count` are what the input holds
/// there, or zero: refilling sets them to the same again.
pub const State = struct {
    from: usize,
    source_end: usize,
    at: usize,
    target_end: usize,
    /// The first byte that a distance may reach.
    base: usize,
    bits: u64 = 0,
    bit_count: u32 = 0,

    /// At least 56 bits from here on. Past the source they are what the slack holds; it reaches as
    /// far as `input_limit` allows.
    pub inline fn refill(state: *State) void {
        state.bits |= load_u64(state.from) << @truncate(state.bit_count);
        state.from += (63 - state.bit_count) >> 3;
        state.bit_count |= 56;
    }

    pub inline fn take(state: *State, comptime T: type, count: u32) T {
        const value: T = @truncate(state.bits & low_mask(count));
        state.bits >>= @truncate(count);
        state.bit_count -= count;
        return value;
    }

    /// The first byte of which no bit was used.
    pub fn position(state: *const State) usize {
        return state.from - state.bit_count / 8;
    }

    pub fn is_past_end(state: *const State) bool {
        return state.position() > state.source_end;
    }

    /// Beyond this, even a full bit buffer cannot all come from inside the source.
    pub fn input_limit(state: *const State) usize {
        return state.source_end + 8;
    }
};

inline fn load_u64(address: usize) u64 {
    return @as(*align(1) const u64, @ptrFromInt(address)).*;
}

inline fn low_mask(count: u32) u64 {
    return (@as(u64, 1) << @truncate(count)) - 1;
}

/// One DEFLATE stream from source[from..] to target[start..]; moves `from` behind it and returns
/// where its output ends.
fn inflate_at(source: []const u8, from: *usize, target: []u8, start: usize) Error!usize {
    assert(from.* <= source.len and start <= target.len);
    const source_start = @intFromPtr(source.ptr);
    const target_start = @intFromPtr(target.ptr);
    var state: State = .{
        .from = source_start + from.*,
        .source_end = source_start + source.len,
        .at = target_start + start,
        .target_end = target_start + target.len,
        .base = target_start + start,
    };
    inflate_blocks(&state) catch |err| {
        interrupt.describe_offset(@min(state.position() - source_start, source.len));
        return err;
    };
    from.* = state.position() - source_start;
    return state.at - target_start;
}

fn inflate_blocks(state: *State) Error!void {
    while (true) {
        state.refill();
        const is_last = state.take(u1, 1) == 1;
        switch (state.take(u2, 2)) {
            0 => try copy_stored(state),
            1 => {
                try build_fixed_tables();
                try decode_block(state);
            },
            2 => {
                try read_tables(state);
                try decode_block(state);
            },
            3 => return reject("DEFLATE block of unknown kind"),
        }
        if (state.is_past_end()) return reject("DEFLATE stream is cut short");
        if (is_last) return;
        try interrupt.check();
    }
}

pub fn reject(comptime reason: []const u8) error{InvalidFormat} {
    @branchHint(.cold);
    interrupt.describe(reason, .{});
    return error.InvalidFormat;
}

/// Size and its complement at the next whole byte, then the bytes.
fn copy_stored(state: *State) Error!void {
    _ = state.take(u8, state.bit_count & 7);
    const size = state.take(u16, 16);
    if (size != ~state.take(u16, 16)) return reject("stored DEFLATE block: sizes differ");
    state.from = state.position();
    state.bits = 0;
    state.bit_count = 0;
    if (state.from > state.source_end or size > state.source_end - state.from)
        return reject("DEFLATE stream is cut short");
    if (size > state.target_end - state.at) return reject("DEFLATE stream holds too much");
    try lz.copy_long(state.at, state.from, size);
    state.from += size;
    state.at += size;
}

fn decode_block(state: *State) Error!void {
    while (true) {
        const stop = decode_symbols(state, @min(state.target_end, state.at +| stride_bytes));
        switch (stop) {
            .limit => {},
            .end => break,
            .bad_code => return reject("DEFLATE code that stands for nothing"),
            .bad_distance => return reject("DEFLATE distance reaches before the start"),
            .too_long => return reject("DEFLATE stream holds too much"),
        }
        if (state.at > state.target_end) break;
        if (state.is_past_end()) return reject("DEFLATE stream is cut short");
        try interrupt.check();
    }
    if (state.at > state.target_end) return reject("DEFLATE stream holds too much");
}

pub const Stop = enum { limit, end, bad_code, bad_distance, too_long };

/// The hot loop: until the block's end, until the output passes `limit`, or until trouble. Per
/// round one or two literals and a match, or three literals; 56 bits are enough for those.
pub noinline fn decode_symbols(shared: *State, limit: usize) Stop {
    // A copy whose address nobody has taken lives in registers.
    var state = shared.*;
    const input_limit = state.input_limit();
    const stop: Stop = while (state.from <= input_limit and state.at <= limit) {
        state.refill();
        var entry = literal_at(state.bits);
        if (entry & is_literal != 0) {
            put_literal(&state, entry);
            entry = literal_at(state.bits);
            if (entry & is_literal != 0) {
                put_literal(&state, entry);
                entry = literal_at(state.bits);
                if (entry & is_literal != 0) {
                    put_literal(&state, entry);
                    continue;
                }
            }
        }
        if (entry & is_special != 0) {
            @branchHint(.unlikely);
            if (entry & is_table != 0) {
                _ = state.take(u32, literal_bits);
                entry =
                    literal_table[(entry >> 16) + (@as(u32, @truncate(state.bits)) & low_mask_u32(entry >> 8 & 15))];
                if (entry & is_literal != 0) {
                    put_literal(&state, entry);
                    continue;
                }
            }
            if (entry & is_special != 0) {
                if (entry & is_end == 0) break .bad_code;
                _ = state.take(u32, entry & 0xFF);
                break .end;
            }
        }
        const length = take_value(&state, entry);
        state.refill();
        entry = distance_table[@as(u32, @truncate(state.bits)) & low_mask_u32(distance_bits)];
        if (entry & is_special != 0) {
            @branchHint(.unlikely);
            if (entry & is_table == 0) break .bad_code;
            _ = state.take(u32, distance_bits);
            entry = distance_table[(entry >> 16) + (@as(u32, @truncate(state.bits)) & low_mask_u32(entry >> 8 & 15))];
            if (entry & is_special != 0) break .bad_code;
        }
        const distance = take_value(&state, entry);
        if (distance > state.at - state.base) break .bad_distance;
        const end = state.at + length;
        if (end > state.target_end) break .too_long;
        lz.copy_match(state.at, distance, end);
        state.at = end;
    } else .limit;
    shared.* = state;
    return stop;
}

inline fn literal_at(bits: u64) u32 {
    return literal_table[@as(u32, @truncate(bits)) & low_mask_u32(literal_bits)];
}

inline fn put_literal(state: *State, entry: u32) void {
    @as(*u8, @ptrFromInt(state.at)).* = @truncate(entry >> 16);
    state.at += 1;
    state.bits >>= @truncate(entry);
    state.bit_count -= entry & 0xFF;
}

/// A length or a distance: its base and the extra bits behind its code.
inline fn take_value(state: *State, entry: u32) u32 {
    const code_and_extra = state.bits & low_mask(entry & 0x3F);
    state.bits >>= @truncate(entry);
    state.bit_count -= entry & 0xFF;
    return (entry >> 16) + @as(u32, @truncate(code_and_extra >> @truncate(entry >> 8 & 15)));
}

inline fn low_mask_u32(count: u32) u32 {
    return (@as(u32, 1) << @truncate(count)) - 1;
}

// Code tables.

const literal_bits = 11;
const distance_bits = 8;

// An entry, where `taken` counts the bits it uses up and code lengths are below 16:
//     literal        1 << 31 | byte << 16 | taken
//     length or distance       base << 16 | code length << 8 | taken, extra bits included
//     end of block                    special | is_end | taken
//     second table  start << 16 | special | is_table | index bits << 8 | taken
//     no symbol                       special
const is_literal: u32 = 1 << 31;
const is_special: u32 = 1 << 15;
const is_end: u32 = 1 << 14;
const is_table: u32 = 1 << 13;

/// No set of codes up to 15 bits takes more than 2342 entries for literals, 402 for distances.
var literal_table: [2560]u32 = undefined;
var distance_table: [512]u32 = undefined;
/// A stream may consist of thousands of tiny blocks with the fixed codes.
var tables_are_fixed = false;

const length_base = [29]u16{
    3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23,  27,
    31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258,
};
const length_extra = [29]u8{ 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0 };
const distance_base = [30]u16{
    1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
    193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577,
};
const distance_extra = [30]u8{
    0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13,
};

const Alphabet = enum { literals, distances, code_lengths };

/// What a symbol's entry holds; `length` is what its code takes at this level.
fn symbol_entry(comptime alphabet: Alphabet, symbol: u32, length: u32) u32 {
    switch (alphabet) {
        .code_lengths => return symbol << 16 | length,
        .literals => {
            if (symbol < 256) return is_literal | symbol << 16 | length;
            if (symbol == 256) return is_special | is_end | length;
            if (symbol > 285) return is_special;
            const index = symbol - 257;
            return @as(u32, length_base[index]) << 16 | length << 8 | (length + length_extra[index]);
        },
        .distances => {
            if (symbol > 29) return is_special;
            return @as(u32, distance_base[symbol]) << 16 | length << 8 | (length + distance_extra[symbol]);
        },
    }
}

/// Symbols sorted by code length, and how many there are of each length.
const Codes = struct {
    count: [16]u16 = @splat(0),
    sorted: [288]u16 = undefined,
    /// Some bit patterns stand for no symbol.
    is_incomplete: bool,
};

/// Refuses what zlib refuses: more codes than there are bit patterns, and fewer, unless it is a
/// single code of one bit or, for distances, none at all.
fn sort_codes(comptime alphabet: Alphabet, lengths: []const u8) Error!Codes {
    var codes: Codes = .{ .is_incomplete = false };
    for (lengths) |length| codes.count[length] += 1;
    const used = lengths.len - codes.count[0];
    codes.count[0] = 0;
    var next: [16]u16 = @splat(0);
    var left: i32 = 1;
    for (1..16) |length| {
        left = left * 2 - codes.count[length];
        if (left < 0) return reject("DEFLATE codes: too many");
        next[length] = next[length - 1] + codes.count[length - 1];
    }
    if (left > 0) {
        codes.is_incomplete = true;
        const is_single = used == 1 and codes.count[1] == 1 and alphabet != .code_lengths;
        if (!is_single and !(used == 0 and alphabet == .distances)) return reject("DEFLATE codes: too few");
    }
    for (lengths, 0..) |length, symbol| if (length != 0) {
        codes.sorted[next[length]] = @intCast(symbol);
        next[length] += 1;
    };
    return codes;
}

fn build_table(comptime alphabet: Alphabet, comptime index_bits: u5, table: []u32, lengths: []const u8) Error!void {
    const codes = try sort_codes(alphabet, lengths);
    if (codes.is_incomplete) @memset(table[0 .. 1 << index_bits], is_special);
    var code: u32 = 0; // of the next symbol, first bit lowest
    var index: usize = 0; // into codes.sorted
    for (1..@as(usize, index_bits) + 1) |length| {
        for (0..codes.count[length]) |_| {
            const entry = symbol_entry(alphabet, codes.sorted[index], @intCast(length));
            fill(table[0 .. 1 << index_bits], code, @intCast(length), entry);
            code = next_code(code, @intCast(length));
            index += 1;
        }
    }
    if (alphabet != .code_lengths)
        try build_second_tables(alphabet, index_bits, table, &codes, .{ .code = code, .index = index });
}

const Progress = struct { code: u32, index: usize };

/// Codes longer than the index: those that share their first bits are neighbours, and share a table.
fn build_second_tables(
    comptime alphabet: Alphabet,
    comptime index_bits: u5,
    table: []u32,
    codes: *const Codes,
    progress: Progress,
) Error!void {
    var code = progress.code;
    var index = progress.index;
    var prefix: u32 = std.math.maxInt(u32);
    var second: []u32 = &.{};
    var second_start: usize = 1 << index_bits;
    for (@as(usize, index_bits) + 1..16) |length| {
        const length_left: u5 = @intCast(length - index_bits);
        for (0..codes.count[length]) |done| {
            if (code & low_mask_u32(index_bits) != prefix) {
                prefix = code & low_mask_u32(index_bits);
                const bits = second_table_bits(codes, index_bits, length, done);
                second_start += second.len;
                // No code gets here: the tables hold the worst case. It is checked all the same.
                if (second_start + (@as(usize, 1) << bits) > table.len) return reject("DEFLATE codes: too many");
                second = table[second_start..][0 .. @as(usize, 1) << bits];
                table[prefix] = @as(u32, @intCast(second_start)) << 16 |
                    is_special | is_table | @as(u32, bits) << 8 | index_bits;
            }
            fill(second, code >> index_bits, length_left, symbol_entry(alphabet, codes.sorted[index], length_left));
            code = next_code(code, @intCast(length));
            index += 1;
        }
    }
}

/// How many bits index the second table that starts with the code number `done` of this length:
/// as many as it takes for the codes that follow to fill it.
fn second_table_bits(codes: *const Codes, index_bits: u5, length: usize, done: usize) u5 {
    var bits: u5 = @intCast(length - index_bits);
    var room = (@as(i32, 1) << bits) - @as(i32, @intCast(codes.count[length] - done));
    while (room > 0 and bits + index_bits < 15) {
        bits += 1;
        room = room * 2 - codes.count[bits + index_bits];
    }
    return bits;
}

/// Every index whose low bits are the code.
fn fill(table: []u32, code: u32, length: u5, entry: u32) void {
    var index: usize = code;
    while (index < table.len) : (index += @as(usize, 1) << length) table[index] = entry;
}

/// The code after this one of the same length, counted with the first bit lowest.
fn next_code(code: u32, length: u5) u32 {
    var bit = @as(u32, 1) << (length - 1);
    while (code & bit != 0) bit >>= 1;
    return if (bit == 0) 0 else code & (bit - 1) | bit;
}

fn build_fixed_tables() Error!void {
    if (tables_are_fixed) return;
    var lengths: [288]u8 = undefined;
    @memset(lengths[0..144], 8);
    @memset(lengths[144..256], 9);
    @memset(lengths[256..280], 7);
    @memset(lengths[280..288], 8);
    try build_table(.literals, literal_bits, &literal_table, &lengths);
    try build_table(.distances, distance_bits, &distance_table, &@as([32]u8, @splat(5)));
    tables_are_fixed = true;
}

const length_order = [19]u8{ 16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15 };

/// The codes of a block: how long they are.
pub const CodeLengths = struct {
    literal_count: usize = 0,
    distance_count: usize = 0,
    lengths: [286 + 30]u8 = undefined,

    /// Without lengths of its own a block has the fixed codes.
    pub fn build_tables(self: *const CodeLengths) Error!void {
        if (self.literal_count == 0) return build_fixed_tables();
        tables_are_fixed = false;
        try build_table(.literals, literal_bits, &literal_table, self.lengths[0..self.literal_count]);
        const distances = self.lengths[self.literal_count..][0..self.distance_count];
        try build_table(.distances, distance_bits, &distance_table, distances);
    }
};

/// The tables of a block that brings its own codes.
fn read_tables(state: *State) Error!void {
    var codes: CodeLengths = .{};
    try read_code_lengths(state, &codes);
    try codes.build_tables();
}

pub fn read_code_lengths(state: *State, codes: *CodeLengths) Error!void {
    const literal_count = @as(usize, state.take(u5, 5)) + 257;
    const distance_count = @as(usize, state.take(u5, 5)) + 1;
    const order_count = @as(usize, state.take(u4, 4)) + 4;
    if (literal_count > 286 or distance_count > 30) return reject("DEFLATE codes: too many");
    var code_lengths: [19]u8 = @splat(0);
    for (length_order[0..order_count]) |symbol| {
        state.refill();
        code_lengths[symbol] = state.take(u3, 3);
    }
    var table: [128]u32 = undefined;
    try build_table(.code_lengths, 7, &table, &code_lengths);
    try read_lengths(state, &table, codes.lengths[0 .. literal_count + distance_count]);
    if (codes.lengths[256] == 0) return reject("DEFLATE codes: none for the end");
    codes.literal_count = literal_count;
    codes.distance_count = distance_count;
}

fn read_lengths(state: *State, table: *const [128]u32, lengths: []u8) Error!void {
    var index: usize = 0;
    while (index < lengths.len) {
        if (state.from > state.input_limit()) return reject("DEFLATE stream is cut short");
        state.refill();
        const entry = table[@as(u32, @truncate(state.bits)) & 127];
        _ = state.take(u32, entry & 15);
        const symbol = entry >> 16;
        if (symbol < 16) {
            lengths[index] = @intCast(symbol);
            index += 1;
            continue;
        }
        if (symbol == 16 and index == 0) return reject("DEFLATE codes: nothing to repeat");
        const length: u8 = if (symbol == 16) lengths[index - 1] else 0;
        const count: usize = switch (symbol) {
            16 => 3 + state.take(usize, 2),
            17 => 3 + state.take(usize, 3),
            else => 11 + state.take(usize, 7),
        };
        if (count > lengths.len - index) return reject("DEFLATE codes: too many");
        @memset(lengths[index..][0..count], length);
        index += count;
    }
}

/// Two sums modulo 65521; 5552 bytes are the most that 32 bits hold without taking the remainder.
fn adler32(bytes: []const u8) interrupt.Error!u32 {
    var sum: u32 = 1;
    var sum_of_sums: u32 = 0;
    var from: usize = 0;
    while (from < bytes.len) {
        const size: usize = @min(bytes.len - from, 5552);
        for (bytes[from..][0..size]) |byte| {
            sum += byte;
            sum_of_sums += sum;
        }
        sum %= 65521;
        sum_of_sums %= 65521;
        from += size;
        try interrupt.check();
    }
    return sum_of_sums << 16 | sum;
}

const testing = std.testing;

const text = "hello, hello, hello";
const text_deflate = "\xCBH\xCD\xC9\xC9\xD7Q\xC8@\xA2\x00";
const text_trailer = "\x9F\xA1\xCA\x09\x13\x00\x00\x00";
const text_member = "\x1F\x8B\x08\x00\x00\x00\x00\x00\x00\xFF" ++ text_deflate ++ text_trailer;
const text_zlib = "x\x9C\xCBH\xCD\xC9\xC9\xD7Q\xC8@\xA2\x00D(\x06\xD5";
const stored_member = "\x1F\x8B\x08\x00\x00\x00\x00\x00\x00\xFF\x01\x03\x00\xFC\xFFabc\xC2A$5\x03\x00\x00\x00";
const empty_member = "\x1F\x8B\x08\x00\x00\x00\x00\x00\x00\xFF\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00";

test "decompress: members" {
    try lz.expect_output(decompress, text_member, text);
    try lz.expect_output(decompress, stored_member, "abc");
    try lz.expect_output(decompress, empty_member, "");
    try lz.expect_output(decompress, text_member ++ empty_member ++
        stored_member ++ text_member, text ++ "abc" ++ text);
    try lz.expect_output(decompress, text_member ++ "\x00\x00\x00", text);
    // Extra field, name, comment and the header's own checksum.
    const header = "\x1F\x8B\x08\x1F\x00\x00\x00\x00\x00\x03\x03\x00xyzname\x00comment\x00\xAA+";
    try lz.expect_output(decompress, header ++ text_deflate ++ text_trailer, text);
    for (0..header.len) |size| try lz.expect_refused(decompress, header[0..size], 0);
    try lz.expect_refused(decompress, header[0 .. header.len - 1] ++ "?" ++ text_deflate ++ text_trailer, text.len);
}

test "decompress: refuses what is cut short or lies" {
    for (0..text_member.len) |size| try lz.expect_refused(decompress, text_member[0..size], text.len);
    for ([_]usize{ 0, text.len - 1, text.len + 1, 1000 }) |size| try lz.expect_refused(decompress, text_member, size);
    try lz.expect_refused(decompress, text_member ++ text_member, text.len);
    try lz.expect_refused(decompress, text_member ++ "more", text.len);
    for (text_member.len - 8..text_member.len) |index| { // checksum and size
        var damaged = text_member.*;
        damaged[index] ^= 1;
        try lz.expect_refused(decompress, &damaged, text.len);
    }
}

test "a distance does not reach into the member before" {
    // One fixed block: a match of 3 bytes, 1 back, and the end.
    const match = "\x03\x02\x00";
    try lz.expect_refused(inflate, match, 3);
    try lz.expect_output(inflate, "\x4B\x04\x02\x00", "aaaa"); // the same behind a literal
    const trailer = "\x00\x00\x00\x00\x03\x00\x00\x00";
    try lz.expect_refused(decompress, stored_member ++ stored_member[0..10] ++ match ++ trailer, 6);
}

test decompress_zlib {
    try lz.expect_output(decompress_zlib, text_zlib, text);
    for (0..text_zlib.len) |size| try lz.expect_refused(decompress_zlib, text_zlib[0..size], text.len);
    try lz.expect_refused(decompress_zlib, text_zlib ++ "\x00", text.len);
    for ([_]usize{ 0, 1, text_zlib.len - 1 }) |index| {
        var damaged = text_zlib.*;
        damaged[index] ^= 1;
        try lz.expect_refused(decompress_zlib, &damaged, text.len);
    }
    var target: [text.len + lz.slack_bytes]u8 = undefined;
    const preset = "\x78\xBB\x00\x00\x00\x00" ++ @as([lz.slack_bytes]u8, @splat(0));
    try testing.expectError(error.NotSupported, decompress_zlib(preset[0..6], target[0..text.len]));
}

test inflate {
    try lz.expect_output(inflate, text_deflate, text);
    for (0..text_deflate.len) |size| try lz.expect_refused(inflate, text_deflate[0..size], text.len);
    try lz.expect_refused(inflate, text_deflate ++ "\x00", text.len);
    try lz.expect_refused(inflate, "\x07", 0); // a block of kind 3
    try lz.expect_refused(inflate, "\x01\x03\x00\xFC\xFEabc", 3); // stored, and the sizes differ
    try lz.expect_output(inflate, "\x01\x03\x00\xFC\xFFabc", "abc");
    try lz.expect_refused(inflate, "\xFD\xFF\xFF", 3); // more codes than there are
}

/// Bytes of a given taste: the rarer the last ones, the longer their codes.
fn write_sample(random: std.Random, bytes: []u8, taste: enum { random, skewed, repeated, zeros }) void {
    for (bytes, 0..) |*byte, index| byte.* = switch (taste) {
        .random => random.int(u8),
        .skewed => @as(u8, @clz(random.int(u31))) * 8 + random.uintLessThan(u8, 8),
        .repeated => if (index < 300 or
            random.uintLessThan(u8, 50) == 0) random.int(u8) else bytes[index - 1 - index % 299],
        .zeros => 0,
    };
}

fn expect_round_trip(
    comptime decoder: fn ([]const u8, []u8) Error!void,
    container: std.compress.flate.Container,
    random: std.Random,
    bytes: []const u8,
) !void {
    const flate = std.compress.flate;
    var output: std.Io.Writer.Allocating = try .initCapacity(testing.allocator, 64);
    defer output.deinit();
    const window = try testing.allocator.alloc(u8, flate.max_window_len);
    defer testing.allocator.free(window);
    const compress = try testing.allocator.create(flate.Compress);
    defer testing.allocator.destroy(compress);
    compress.* = try .init(&output.writer, window, container, .level_6);
    try compress.writer.writeAll(bytes);
    try compress.finish();
    try lz.expect_output(decoder, output.written(), bytes);
    try lz.expect_refused(decoder, output.written(), bytes.len + 1);
    if (bytes.len > 0) try lz.expect_refused(decoder, output.written(), bytes.len - 1);
    try lz.expect_survival(decoder, random, output.written(), bytes.len);
}

test "round trips, whole and damaged" {
    var generator: std.Random.DefaultPrng = .init(3);
    const random = generator.random();
    var bytes: [40_000]u8 = undefined;
    inline for (.{ .random, .skewed, .repeated, .zeros }) |taste| {
        for ([_]usize{ 0, 1, 15, 16, 17, 300, 5000, 40_000 }) |size| {
            write_sample(random, bytes[0..size], taste);
            try expect_round_trip(decompress, .gzip, random, bytes[0..size]);
            try expect_round_trip(decompress_zlib, .zlib, random, bytes[0..size]);
            try expect_round_trip(inflate, .raw, random, bytes[0..size]);
        }
    }
}

test adler32 {
    var bytes: [20_000]u8 = @splat(0xFF);
    for ([_]usize{ 0, 1, 5551, 5552, 5553, 20_000 }) |size|
        try testing.expectEqual(std.hash.Adler32.hash(bytes[0..size]), try adler32(bytes[0..size]));
}

test "decompress: looks at the cancel byte" {
    interrupt.control.cancel = 1;
    defer interrupt.control.cancel = 0;
    var target: [text.len + lz.slack_bytes]u8 = undefined;
    const source = text_member ++ @as([lz.slack_bytes]u8, @splat(0));
    try testing.expectError(error.Cancelled, decompress(source[0..text_member.len], target[0..text.len]));
}
