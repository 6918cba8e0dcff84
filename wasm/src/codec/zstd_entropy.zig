//! What Zstandard's Huffman weights and its sequences share: faults, bits of a word, and the
//! counts of a Finite State Entropy table (RFC 8878, section 4.1.1).
//!
//! A table of 2^log states gives every symbol as many states as its count says. In the file, counts
//! are a forward bit stream: 4 bits log − 5, then one number per symbol, each as short as what is
//! left to share out allows; after a zero come pairs of bits that say how many more zeros follow.
//! A count of −1 stands for "less than one": one state, laid at the table's end.
//!
//! Hot loops work with addresses instead of pointers: a plain sum of addresses cannot wrap as far
//! as LLVM knows, so it folds constants into the immediate of a load.
const std = @import("std");
const assert = std.debug.assert;

/// Reasons without words: functions of the hot loops must stay small. zstd.zig words them.
pub const Fault = error{ Truncated, Corrupt };

/// Length codes of matches are the largest alphabet: 53 symbols.
pub const symbol_count_max = 64;
pub const log_max = 9;
const log_min = 5;

pub inline fn load_u64(address: usize) u64 {
    return std.mem.readInt(u64, @as(*const [8]u8, @ptrFromInt(address)), .little);
}

/// Shifts are modulo 64, as wasm's are: no mask is emitted.
pub inline fn shift_left(word: u64, count: anytype) u64 {
    return word << @truncate(count);
}

pub inline fn shift_right(word: u64, count: anytype) u64 {
    return word >> @truncate(count);
}

/// `count` bits of a word from bit `position` up.
pub inline fn take_bits(word: u64, position: u32, count: u32) u32 {
    return @truncate(shift_right(word, position) & (shift_left(1, count) -% 1));
}

pub inline fn high_bit(word: u32) u5 {
    assert(word != 0);
    return @intCast(31 - @clz(word));
}

pub const Counts = struct {
    values: [symbol_count_max]i16,
    symbol_count: u32,
    log: u8,

    pub fn slice(self: *const Counts) []const i16 {
        return self.values[0..self.symbol_count];
    }
};

pub const CountsOptions = struct { symbol_count_max: u32, log_max: u8 };

/// Reads counts from the front of `section` and returns how many bytes they took. Bits past the
/// section's end are read (they are there) and then refused.
pub fn read_counts(counts: *Counts, section: []const u8, options: CountsOptions) Fault!usize {
    assert(options.symbol_count_max <= symbol_count_max and options.log_max <= log_max);
    if (section.len == 0) return error.Truncated;
    const log: u8 = (section[0] & 15) + log_min;
    if (log > options.log_max) return error.Corrupt;
    var reader: CountReader = .{ .section = section, .bit = 4, .left = (@as(u32, 1) << @intCast(log)), .width = log };
    var symbol: u32 = 0;
    while (reader.left > 0) {
        if (symbol >= options.symbol_count_max) return error.Corrupt;
        const count = try reader.next_count();
        counts.values[symbol] = count;
        symbol += 1;
        if (count == 0) {
            const zero_count = try reader.next_zeros(options.symbol_count_max - symbol);
            @memset(counts.values[symbol..][0..zero_count], 0);
            symbol += zero_count;
        }
    }
    counts.symbol_count = symbol;
    counts.log = log;
    return (reader.bit + 7) >> 3;
}

const CountReader = struct {
    section: []const u8,
    bit: usize,
    /// States not given to a symbol yet.
    left: u32,
    /// Bits of the shorter form of a number: 2^width ≤ left + 1 < 2^(width + 1).
    width: u8,

    /// A number 0 … left + 1 stands for the counts −1 … left. Those numbers do not fill the longer
    /// form, so the smallest ones take one bit less.
    fn next_count(self: *CountReader) Fault!i16 {
        const half = @as(u32, 1) << @intCast(self.width);
        const short_count = 2 * half - 2 - self.left;
        const bits = self.peek();
        var number = bits & (half - 1);
        self.bit += self.width;
        if (number >= short_count) {
            self.bit += 1;
            number = bits & (2 * half - 1);
            if (number >= half) number -= short_count;
        }
        if (self.bit > self.section.len * 8) return error.Truncated;
        const count = @as(i16, @intCast(number)) - 1;
        assert(number <= self.left + 1);
        self.left -= @abs(count);
        while (self.left + 1 < @as(u32, 1) << @intCast(self.width)) self.width -= 1;
        return count;
    }

    fn next_zeros(self: *CountReader, zero_count_max: u32) Fault!u32 {
        var zero_count: u32 = 0;
        while (true) {
            const more = self.peek() & 3;
            self.bit += 2;
            if (self.bit > self.section.len * 8) return error.Truncated;
            zero_count += more;
            if (zero_count > zero_count_max) return error.Corrupt;
            if (more != 3) return zero_count;
        }
    }

    /// At least 25 bits; a number has at most 10. What lies behind the section is another one, or
    /// the bytes that are readable behind every source.
    fn peek(self: *const CountReader) u32 {
        const bytes: *const [4]u8 = @ptrCast(self.section.ptr + (self.bit >> 3));
        return std.mem.readInt(u32, bytes, .little) >> @intCast(self.bit & 7);
    }
};

pub const State = struct {
    symbol: u8,
    /// Bits to read for the next state, and what to add to them.
    bit_count: u8,
    next: u16,
};

/// Lays the symbols over the states. The counts add up to 2^log: `read_counts` saw to that.
pub fn spread_symbols(states: []State, counts: []const i16, log: u8) void {
    const state_count = @as(u32, 1) << @intCast(log);
    assert(states.len == state_count);
    const high = lay_rare_symbols(states, counts);
    const step = (state_count >> 1) + (state_count >> 3) + 3;
    var position: u32 = 0;
    for (counts, 0..) |count, symbol| {
        var left = count;
        while (left > 0) : (left -= 1) {
            states[position].symbol = @intCast(symbol);
            // The step is odd, so it meets every state; `high` of them are free.
            position = (position + step) & (state_count - 1);
            while (position >= high) position = (position + step) & (state_count - 1);
        }
    }
    number_states(states, counts, log);
}

/// Returns how many states are left for the others.
fn lay_rare_symbols(states: []State, counts: []const i16) u32 {
    var high: u32 = @intCast(states.len);
    for (counts, 0..) |count, symbol| {
        if (count != -1) continue;
        high -= 1;
        states[high].symbol = @intCast(symbol);
    }
    return high;
}

fn number_states(states: []State, counts: []const i16, log: u8) void {
    var numbers: [symbol_count_max]u16 = undefined;
    for (counts, numbers[0..counts.len]) |count, *number| number.* = @abs(count);
    const state_count = @as(u32, 1) << @intCast(log);
    for (states) |*state| {
        const number: u32 = numbers[state.symbol];
        numbers[state.symbol] += 1;
        state.bit_count = log - @as(u8, high_bit(number));
        state.next = @intCast((number << @intCast(state.bit_count)) - state_count);
    }
}

test take_bits {
    try std.testing.expectEqual(0b101, take_bits(0b1101_0110, 1 + 3, 3));
    try std.testing.expectEqual(0, take_bits(0xFFFF, 3, 0));
    try std.testing.expectEqual(1, take_bits(1 << 63, 63, 8));
}

test read_counts {
    // log 5, then 32 states: symbol 0 takes 31 (number 32 in 6 bits), symbol 1 less than one.
    // Bits from low to high: 0000 | 32 → the long form 32 + 30 = 62 = 0b111110 | 0 in one bit.
    const bytes = [_]u8{ 0b1110_0000, 0b0000_0011 } ++ @as([8]u8, @splat(0xFF));
    var counts: Counts = undefined;
    const options: CountsOptions = .{ .symbol_count_max = 36, .log_max = 9 };
    try std.testing.expectEqual(2, try read_counts(&counts, bytes[0..2], options));
    try std.testing.expectEqual(5, counts.log);
    try std.testing.expectEqualSlices(i16, &.{ 31, -1 }, counts.slice());
    try std.testing.expectError(error.Truncated, read_counts(&counts, bytes[0..1], options));
    try std.testing.expectError(error.Truncated, read_counts(&counts, bytes[0..0], options));
    const one_symbol: CountsOptions = .{ .symbol_count_max = 1, .log_max = 9 };
    try std.testing.expectError(error.Corrupt, read_counts(&counts, bytes[0..2], one_symbol));
    try std.testing.expectError(error.Corrupt, read_counts(&counts, bytes[2..], options));
}

test spread_symbols {
    var random: std.Random.DefaultPrng = .init(8878);
    for (0..200) |_| {
        const log = random.random().intRangeAtMost(u8, 5, log_max);
        var counts: [20]i16 = @splat(0);
        var left = @as(i16, 1) << @intCast(log);
        for (counts[1..]) |*count| {
            if (left == 0) break;
            count.* = switch (random.random().uintLessThan(u8, 3)) {
                0 => 0,
                1 => -1,
                else => random.random().intRangeAtMost(i16, 1, @max(1, @divTrunc(left, 2))),
            };
            left -= @intCast(@abs(count.*));
        }
        counts[0] = left;
        var states: [1 << log_max]State = undefined;
        const used = states[0 .. @as(usize, 1) << @intCast(log)];
        spread_symbols(used, &counts, log);
        try expect_complete(used, &counts);
    }
}

/// Every symbol has its states, and from them every state can be reached exactly once.
fn expect_complete(states: []const State, counts: []const i16) !void {
    var reached: [20][1 << log_max]bool = @splat(@splat(false));
    var seen: [20]u32 = @splat(0);
    for (states) |state| {
        seen[state.symbol] += 1;
        for (0..@as(usize, 1) << @intCast(state.bit_count)) |bits| {
            const slot = &reached[state.symbol][state.next + bits];
            try std.testing.expect(!slot.*);
            slot.* = true;
        }
    }
    for (counts, seen, reached) |count, state_count, row| {
        try std.testing.expectEqual(@abs(count), state_count);
        for (row[0..states.len]) |slot| try std.testing.expectEqual(count != 0, slot);
    }
}
