//! Huffman coded literals of Zstandard (RFC 8878, section 4.2).
//!
//!     table    header byte h | h < 128: h bytes of weights, coded with FSE
//!                            | h ≥ 128: h − 127 weights of 4 bits each
//!              A weight w > 0 means a code of log + 1 − w bits; the last symbol's weight is not
//!              stored, it fills the code space up to a power of two.
//!     streams  one, or four behind three 16-bit sizes; each is read from its last bit backwards,
//!              and the highest set bit of its last byte marks where it begins
//!
//! A table always has 11 bits, so that the shift of a lookup is constant. When codes are short, a
//! second table gives two symbols per lookup.
//!
//! A stream's reader holds 64 bits, the next ones on top, with a 1 as sentinel in the lowest place:
//! the zeros under the sentinel count the bits used, so refilling needs no counter. Four streams
//! advance together, to hide one lookup's latency behind the others.
//!
//! Reads reach up to 8 bytes below a stream's start. They stay inside the source, because frame and
//! block headers of at least 9 bytes come before it; such bits are noticed when the stream ends.
const std = @import("std");
const entropy = @import("zstd_entropy.zig");
const assert = std.debug.assert;
const high_bit = entropy.high_bit;
const load_u64 = entropy.load_u64;
const shift_left = entropy.shift_left;
const Fault = entropy.Fault;

pub const literals_size_max = 128 * 1024;
/// Copies run up to 16 bytes past what they need.
const slack = 64;
/// The literals of the block at hand, unless they lie in the source as they are.
pub var literals: [literals_size_max + slack]u8 align(16) = undefined;

const code_size_max = 11;
const table_size = 1 << code_size_max;
const weight_max = code_size_max + 1;
const weights_log_max = 6;

/// symbol << 8 | bits of its code. Static, so that its address is part of the load instruction.
var codes: [table_size]u16 align(16) = undefined;
var has_codes = false;
/// count of symbols << 24 | bits of all their codes << 16 | second symbol << 8 | first symbol
var code_pairs: [table_size]u32 align(16) = undefined;
var has_code_pairs = false;

/// The table, for whoever decodes a frame with others in between.
pub const Saved = struct { codes: [table_size]u16, has_codes: bool = false };

pub fn save(saved: *Saved) void {
    saved.has_codes = has_codes;
    if (has_codes) saved.codes = codes;
}

pub fn restore(saved: *const Saved) void {
    has_codes = saved.has_codes;
    has_code_pairs = false;
    if (has_codes) codes = saved.codes;
}

/// A new frame must bring its own table.
pub fn forget_table() void {
    has_codes = false;
}

pub const LiteralsOptions = struct { size: usize, has_table: bool, has_four_streams: bool };

/// Decodes a section of compressed literals into `literals`.
pub fn decode_literals(section: []const u8, options: LiteralsOptions) Fault!void {
    if (options.size == 0 or options.size > literals_size_max) return error.Corrupt;
    var table_bytes: usize = 0;
    if (options.has_table) {
        table_bytes = try read_table(section);
    } else if (!has_codes) {
        return error.Corrupt;
    }
    const streams = section[table_bytes..];
    if (!options.has_four_streams) return decode_one_stream(streams, options.size);
    try decode_four_streams(streams, options.size);
}

// --- The table ----------------------------------------------------------------------------------

const Weights = struct {
    values: [256]u8,
    count: usize,
};

/// Returns the size of the table's description.
noinline fn read_table(section: []const u8) Fault!usize {
    has_codes = false;
    has_code_pairs = false;
    var weights: Weights = undefined;
    const size = try read_weights(&weights, section);
    try build_codes(&weights);
    has_codes = true;
    return size;
}

fn read_weights(weights: *Weights, section: []const u8) Fault!usize {
    if (section.len == 0) return error.Truncated;
    const header: usize = section[0];
    if (header < 128) {
        if (header > section.len - 1) return error.Truncated;
        try read_coded_weights(weights, section[1..][0..header]);
        return 1 + header;
    }
    weights.count = header - 127;
    const size = (weights.count + 1) / 2;
    if (size > section.len - 1) return error.Truncated;
    for (weights.values[0..weights.count], 0..) |*weight, index| {
        const byte = section[1 + index / 2];
        weight.* = if (index % 2 == 0) byte >> 4 else byte & 15;
    }
    return 1 + size;
}

/// Two states take turns; the weights end when a state wants bits that are not there.
fn read_coded_weights(weights: *Weights, section: []const u8) Fault!void {
    var counts: entropy.Counts = undefined;
    const counts_size = try entropy.read_counts(&counts, section, .{
        .symbol_count_max = weight_max + 1,
        .log_max = weights_log_max,
    });
    var states_all: [1 << weights_log_max]entropy.State = undefined;
    const states = states_all[0 .. @as(usize, 1) << @intCast(counts.log)];
    entropy.spread_symbols(states, counts.slice(), counts.log);

    var bits: WeightBits = try .init(section[counts_size..]);
    var state = bits.next(counts.log);
    var other = bits.next(counts.log);
    if (bits.left < 0) return error.Corrupt;
    weights.count = 0;
    while (bits.left >= 0) {
        // Room for this weight, the other state's, and the one that is not stored.
        if (weights.count + 2 > 255) return error.Corrupt;
        const now = states[state];
        weights.values[weights.count] = now.symbol;
        weights.count += 1;
        state = other;
        other = now.next + bits.next(now.bit_count);
    }
    weights.values[weights.count] = states[state].symbol;
    weights.count += 1;
}

/// Reads backwards; bits below the start are zeros, and `left` tells by being negative.
const WeightBits = struct {
    bytes: []const u8,
    left: i32,

    fn init(bytes: []const u8) Fault!WeightBits {
        if (bytes.len == 0) return error.Truncated;
        const last = bytes[bytes.len - 1];
        if (last == 0) return error.Corrupt;
        return .{ .bytes = bytes, .left = @as(i32, @intCast(bytes.len * 8 - 8)) + high_bit(last) };
    }

    fn next(self: *WeightBits, count: u8) u32 {
        assert(count <= weights_log_max);
        self.left -= count;
        const mask = (@as(u32, 1) << @intCast(count)) - 1;
        if (self.left <= -8) return 0;
        if (self.left < 0) return @as(u32, self.bytes[0]) << @intCast(-self.left) & mask;
        const index = @as(usize, @intCast(self.left)) / 8;
        const upper: u32 = if (index + 1 < self.bytes.len) self.bytes[index + 1] else 0;
        return (upper << 8 | self.bytes[index]) >> @intCast(self.left & 7) & mask;
    }
};

/// Codes are handed out from the longest to the shortest, within a length by symbol.
fn build_codes(weights: *Weights) Fault!void {
    var counts: [weight_max + 1]u32 = @splat(0);
    const log = try complete_weights(weights, &counts);
    const scale: u5 = @intCast(code_size_max - log);
    var starts: [weight_max + 1]u32 = undefined;
    var at: u32 = 0;
    for (1..weight_max + 1) |weight| {
        starts[weight] = at;
        at += (counts[weight] << @intCast(weight - 1)) << scale;
    }
    assert(at == table_size);
    for (weights.values[0..weights.count], 0..) |weight, symbol| {
        if (weight == 0) continue;
        const count = (@as(u32, 1) << @intCast(weight - 1)) << scale;
        fill_codes(codes[starts[weight]..][0..count], @intCast(symbol << 8 | (log + 1 - weight)));
        starts[weight] += count;
    }
}

/// Adds the weight that is not stored, counts all of them, and returns the longest code's size.
fn complete_weights(weights: *Weights, counts: *[weight_max + 1]u32) Fault!u32 {
    var sum: u32 = 0;
    for (weights.values[0..weights.count]) |weight| {
        if (weight > weight_max) return error.Corrupt;
        counts[weight] += 1;
        sum += (@as(u32, 1) << @intCast(weight)) >> 1;
    }
    if (sum == 0) return error.Corrupt;
    const log = @as(u32, high_bit(sum)) + 1;
    if (log > code_size_max) return error.Corrupt;
    const rest = (@as(u32, 1) << @intCast(log)) - sum;
    if (!std.math.isPowerOfTwo(rest)) return error.Corrupt;
    const last = @as(u8, high_bit(rest)) + 1;
    weights.values[weights.count] = last;
    weights.count += 1;
    counts[last] += 1;
    if (counts[1] < 2) return error.Corrupt;
    return log;
}

/// The count is a power of two.
inline fn fill_codes(places: []u16, code: u16) void {
    if (places.len < 8) {
        for (places) |*place| place.* = code;
        return;
    }
    var index: usize = 0;
    while (index < places.len) : (index += 8) places[index..][0..8].* = @as(@Vector(8, u16), @splat(code));
}

noinline fn build_code_pairs() void {
    for (&code_pairs, 0..) |*pair, index| {
        const first: u32 = codes[index];
        const first_bits = first & 63;
        const second: u32 = codes[(index << @intCast(first_bits)) & (table_size - 1)];
        const bits = first_bits + (second & 63);
        pair.* = if (bits <= code_size_max)
            2 << 24 | bits << 16 | (second & 0xFF00) | first >> 8
        else
            1 << 24 | first_bits << 16 | first >> 8;
    }
    has_code_pairs = true;
}

// --- The streams --------------------------------------------------------------------------------

/// Symbols between two refills: 5 codes have at most 55 of the 56 bits that a refill promises.
const round_symbols = 5;
/// Bytes that a reader goes down in a round: 55 bits and 7 that were left over.
const round_bytes = 7;

const Streams = struct {
    /// Addresses of the words that `bits` were loaded from.
    at: [4]usize,
    start: [4]usize,
    bits: [4]u64,
    target: [4]usize,
    target_end: [4]usize,
};

fn decode_four_streams(section: []const u8, size: usize) Fault!void {
    var streams: Streams = undefined;
    try open_streams(&streams, section, size);
    // Two symbols per lookup pay when codes have less than 5.6 bits on average, and when there are
    // enough literals to build the second table for.
    if (size >= 8192 and section.len * 10 < size * 7) {
        if (!has_code_pairs) build_code_pairs();
        decode_pairs(&streams);
    } else {
        decode_singles(&streams, &codes);
    }
    inline for (0..4) |k| try finish_stream(.{
        .start = streams.start[k],
        .at = streams.at[k],
        .left = 64 - @as(u32, @ctz(streams.bits[k])),
        .target = streams.target[k],
        .target_end = streams.target_end[k],
    });
}

fn open_streams(streams: *Streams, section: []const u8, size: usize) Fault!void {
    const sizes_size = 6;
    if (section.len < sizes_size + 4 or size < 6) return error.Corrupt;
    const segment = (size + 3) / 4;
    if (segment * 3 > size) return error.Corrupt;
    var start = @intFromPtr(section.ptr) + sizes_size;
    var left = section.len - sizes_size;
    for (0..4) |k| {
        const stream_size = if (k < 3) std.mem.readInt(u16, section[2 * k ..][0..2], .little) else left;
        if (stream_size == 0 or stream_size > left) return error.Corrupt;
        const end = start + stream_size;
        const last = section[end - @intFromPtr(section.ptr) - 1];
        if (last == 0) return error.Corrupt;
        streams.start[k] = start;
        streams.at[k] = end - 8;
        streams.bits[k] = (load_u64(end - 8) | 1) << @intCast(8 - @as(u6, high_bit(last)));
        streams.target[k] = @intFromPtr(&literals) + k * segment;
        streams.target_end[k] = @intFromPtr(&literals) + @min((k + 1) * segment, size);
        start = end;
        left -= stream_size;
    }
}

/// How often every stream can go without a look at its limits.
inline fn rounds_possible(streams: *const Streams, symbols: usize, overshoot: usize) usize {
    var rounds: usize = std.math.maxInt(u32);
    inline for (0..4) |k| {
        rounds = @min(rounds, (streams.target_end[k] -| (streams.target[k] + overshoot)) / symbols);
        rounds = @min(rounds, (streams.at[k] -| streams.start[k]) / round_bytes);
    }
    return rounds;
}

inline fn refill(at: *usize, bits: *u64) void {
    const used: u32 = @ctz(bits.*);
    at.* -= used >> 3;
    bits.* = shift_left(load_u64(at.*) | 1, used & 7);
}

noinline fn decode_singles(streams: *Streams, table: [*]const u16) void {
    while (true) {
        var rounds = rounds_possible(streams, round_symbols, 0);
        if (rounds == 0) break;
        // Sixteen names instead of arrays: they stay in registers.
        var at_0, var at_1, var at_2, var at_3 = streams.at;
        var bits_0, var bits_1, var bits_2, var bits_3 = streams.bits;
        var target_0, var target_1, var target_2, var target_3 = streams.target;
        while (true) {
            inline for (0..round_symbols) |k| {
                inline for (
                    .{ &bits_0, &bits_1, &bits_2, &bits_3 },
                    .{ &target_0, &target_1, &target_2, &target_3 },
                ) |bits, target| {
                    const code = table[@intCast(bits.* >> 64 - code_size_max)];
                    bits.* = shift_left(bits.*, code);
                    @as(*u8, @ptrFromInt(target.* + k)).* = @intCast(code >> 8);
                }
            }
            inline for (.{ &target_0, &target_1, &target_2, &target_3 }) |target| target.* += round_symbols;
            inline for (.{ &at_0, &at_1, &at_2, &at_3 }, .{ &bits_0, &bits_1, &bits_2, &bits_3 }) |at, bits|
                refill(at, bits);
            rounds -= 1;
            if (rounds == 0) break;
        }
        streams.at = .{ at_0, at_1, at_2, at_3 };
        streams.bits = .{ bits_0, bits_1, bits_2, bits_3 };
        streams.target = .{ target_0, target_1, target_2, target_3 };
    }
}

noinline fn decode_pairs(streams: *Streams) void {
    const table: [*]const u32 = &code_pairs;
    while (true) {
        // A lookup stores two bytes, of which the second may be one too many.
        var rounds = rounds_possible(streams, 2 * round_symbols, 1);
        if (rounds == 0) break;
        var at_0, var at_1, var at_2, var at_3 = streams.at;
        var bits_0, var bits_1, var bits_2, var bits_3 = streams.bits;
        var target_0, var target_1, var target_2, var target_3 = streams.target;
        while (true) {
            inline for (0..round_symbols) |_| {
                inline for (
                    .{ &bits_0, &bits_1, &bits_2, &bits_3 },
                    .{ &target_0, &target_1, &target_2, &target_3 },
                ) |bits, target| {
                    const pair = table[@intCast(bits.* >> 64 - code_size_max)];
                    bits.* = shift_left(bits.*, pair >> 16);
                    std.mem.writeInt(u16, @as(*[2]u8, @ptrFromInt(target.*)), @truncate(pair), .little);
                    target.* += pair >> 24;
                }
            }
            inline for (.{ &at_0, &at_1, &at_2, &at_3 }, .{ &bits_0, &bits_1, &bits_2, &bits_3 }) |at, bits|
                refill(at, bits);
            rounds -= 1;
            if (rounds == 0) break;
        }
        streams.at = .{ at_0, at_1, at_2, at_3 };
        streams.bits = .{ bits_0, bits_1, bits_2, bits_3 };
        streams.target = .{ target_0, target_1, target_2, target_3 };
    }
}

fn decode_one_stream(section: []const u8, size: usize) Fault!void {
    if (section.len == 0) return error.Truncated;
    const last = section[section.len - 1];
    if (last == 0) return error.Corrupt;
    const start = @intFromPtr(section.ptr);
    const target = @intFromPtr(&literals);
    return finish_stream(.{
        .start = start,
        .at = start + section.len - 8,
        .left = 56 + @as(u32, high_bit(last)),
        .target = target,
        .target_end = target + size,
    });
}

const Stream = struct {
    start: usize,
    /// The word at this address has `left` unread bits, the lower ones.
    at: usize,
    left: u32,
    target: usize,
    target_end: usize,
};

/// Decodes the rest of one stream. It must end where it starts: no bit too many, none too few.
noinline fn finish_stream(stream: Stream) Fault!void {
    const low = stream.start - 8;
    var at = stream.at;
    var left = stream.left;
    var target = stream.target;
    while (target + round_symbols <= stream.target_end) : (target += round_symbols) {
        at -= (63 -| left) >> 3;
        left = if (left == 64) 64 else left | 56;
        if (at < low) return error.Corrupt;
        var bits = shift_left(load_u64(at), 64 - left);
        inline for (0..round_symbols) |k| {
            const code = codes[@intCast(bits >> 64 - code_size_max)];
            bits = shift_left(bits, code);
            left -= code & 63;
            @as(*u8, @ptrFromInt(target + k)).* = @intCast(code >> 8);
        }
    }
    while (target < stream.target_end) : (target += 1) {
        at -= (63 -| left) >> 3;
        left = if (left == 64) 64 else left | 56;
        if (at < low) return error.Corrupt;
        const code = codes[@intCast(shift_left(load_u64(at), 64 - left) >> 64 - code_size_max)];
        left -= code & 63;
        @as(*u8, @ptrFromInt(target)).* = @intCast(code >> 8);
    }
    if (left & 7 != 0 or at + (left >> 3) != stream.start) return error.Corrupt;
}

// --- Tests --------------------------------------------------------------------------------------

const testing = std.testing;

/// Seven symbols with codes of 1, 2, 3, 4, 5, 6 and 6 bits: weights 6, 5, 4, 3, 2, 1 and, not stored, 1.
const sample_table = [_]u8{ 127 + 6, 0x65, 0x43, 0x21 };
const sample_symbol_count = 7;

/// Sixteen symbols of 4 bits, every other one unused.
const flat_table: [16]u8 = [_]u8{127 + 30} ++ @as([15]u8, @splat(0x10));

const SampleCode = struct { bits: u32, size: u5 };

/// Canonical codes as the format counts them: from the longest up.
fn sample_code(symbol: u8) SampleCode {
    if (symbol == 6) return .{ .bits = 1, .size = 6 };
    return .{ .bits = if (symbol == 5) 0 else 1, .size = @intCast(symbol + 1) };
}

fn flat_code(symbol: u8) SampleCode {
    return .{ .bits = symbol / 2, .size = 4 };
}

/// Symbols are written from the last to the first, each above the one before; then the mark.
fn encode_stream(target: []u8, symbols: []const u8, comptime code_of: fn (u8) SampleCode) usize {
    var bits: u64 = 0;
    var bit_count: u6 = 0;
    var size: usize = 0;
    for (0..symbols.len + 1) |index| {
        const mark: SampleCode = .{ .bits = 1, .size = 1 };
        const code = if (index == symbols.len) mark else code_of(symbols[symbols.len - 1 - index]);
        bits |= @as(u64, code.bits) << bit_count;
        bit_count += code.size;
        while (bit_count >= 8 or (index == symbols.len and bit_count > 0)) {
            target[size] = @truncate(bits);
            size += 1;
            bits >>= 8;
            bit_count -|= 8;
        }
    }
    return size;
}

fn encode_four_streams(target: []u8, symbols: []const u8, comptime code_of: fn (u8) SampleCode) usize {
    const segment = (symbols.len + 3) / 4;
    var at: usize = 6;
    for (0..4) |k| {
        const first = k * segment;
        const size = encode_stream(target[at..], symbols[first..@min(first + segment, symbols.len)], code_of);
        if (k < 3) std.mem.writeInt(u16, target[2 * k ..][0..2], @intCast(size), .little);
        at += size;
    }
    return at;
}

fn draw_symbols(random: std.Random, symbols: []u8, is_flat: bool) void {
    for (symbols) |*symbol| {
        symbol.* = if (is_flat)
            2 * random.uintLessThan(u8, 16)
        else
            @min(sample_symbol_count - 1, @ctz(random.int(u32) | 1 << 31));
    }
}

test decode_literals {
    var random: std.Random.DefaultPrng = .init(42);
    const symbols = try testing.allocator.alloc(u8, 40_000);
    defer testing.allocator.free(symbols);
    const buffer = try testing.allocator.alloc(u8, 60_000);
    defer testing.allocator.free(buffer);
    // Headers come before every section, and more bytes behind it.
    const section = buffer[16..];
    // From 8192 literals on, both tables give two symbols per lookup.
    for ([_]usize{ 1, 2, 3, 4, 5, 6, 7, 9, 40, 41, 63, 255, 1000, 8191, 8192, 8193, 20_011, 40_000 }) |size| {
        inline for (.{ false, true }) |is_flat| {
            draw_symbols(random.random(), symbols[0..size], is_flat);
            const code_of = if (is_flat) flat_code else sample_code;
            const table: []const u8 = if (is_flat) &flat_table else &sample_table;
            @memcpy(section[0..table.len], table);
            for ([_]bool{ false, true }) |has_four_streams| {
                if (has_four_streams and size < 6) continue;
                if (has_four_streams and (size + 3) / 4 * 3 > size) continue;
                const streams_size = if (has_four_streams)
                    encode_four_streams(section[table.len..], symbols[0..size], code_of)
                else
                    encode_stream(section[table.len..], symbols[0..size], code_of);
                try expect_literals(section[0 .. table.len + streams_size], symbols[0..size], has_four_streams);
            }
        }
    }
}

fn expect_literals(section: []u8, expected: []const u8, has_four_streams: bool) !void {
    @memset(literals[0..expected.len], 0xEE);
    const options: LiteralsOptions = .{
        .size = expected.len,
        .has_table = true,
        .has_four_streams = has_four_streams,
    };
    try decode_literals(section, options);
    try testing.expectEqualSlices(u8, expected, literals[0..expected.len]);
    // A literal more or less than there is.
    var wrong = options;
    wrong.size -= 1;
    try testing.expectError(error.Corrupt, decode_literals(section, wrong));
    wrong.size += 2;
    try testing.expectError(error.Corrupt, decode_literals(section, wrong));
    // The mark is gone.
    const last = section[section.len - 1];
    section[section.len - 1] = 0;
    try testing.expectError(error.Corrupt, decode_literals(section, options));
    section[section.len - 1] = last;
}

test forget_table {
    var bytes: [40]u8 = @splat(0);
    const section = bytes[16..];
    @memcpy(section[0..sample_table.len], &sample_table);
    const size = sample_table.len + encode_stream(section[sample_table.len..], &.{ 3, 1, 0, 6 }, sample_code);
    try decode_literals(section[0..size], .{ .size = 4, .has_table = true, .has_four_streams = false });
    const again: LiteralsOptions = .{ .size = 4, .has_table = false, .has_four_streams = false };
    try decode_literals(section[sample_table.len..size], again);
    try testing.expectEqualSlices(u8, &.{ 3, 1, 0, 6 }, literals[0..4]);
    forget_table();
    try testing.expectError(error.Corrupt, decode_literals(section[sample_table.len..size], again));
}

test read_weights {
    var weights: Weights = undefined;
    try testing.expectError(error.Truncated, read_weights(&weights, ""));
    try testing.expectError(error.Truncated, read_weights(&weights, sample_table[0..3]));
    try testing.expectError(error.Truncated, read_weights(&weights, &.{ 9, 1, 2 }));
    try testing.expectEqual(4, try read_weights(&weights, &sample_table));
    try build_codes(&weights);
    try testing.expectEqual(sample_symbol_count, weights.count);
    // Weights that fill no power of two, that are too large, and none at all.
    for ([_][2]u8{ .{ 0x31, 2 }, .{ 0xD0, 1 }, .{ 0x00, 2 } }) |bad| {
        const table = [_]u8{ 127 + bad[1], bad[0], 0x20 };
        _ = try read_weights(&weights, &table);
        try testing.expectError(error.Corrupt, build_codes(&weights));
    }
}
