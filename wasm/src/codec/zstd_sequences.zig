//! Sequences of a Zstandard block (RFC 8878, sections 3.1.1.3.2 and 3.1.1.4): "copy so many literals,
//! then so many bytes from so far back", decoded and carried out in one go.
//!
//!     section  count (1..3 bytes) | modes | tables of literal lengths, offsets, match lengths
//!              | bit stream, read from its last bit backwards
//!
//! Three FSE states walk through three tables. A sequence reads extra bits of the offset, the match
//! and the literals, then the bits of the next states in the order literals, match, offset.
//! Decoding and copying are not separated: the chain from state to state hides behind the copies.
//!
//! Copies go in steps of 16 bytes and run over their end by up to 32, into bytes that later copies
//! overwrite or that are writable behind every target. Addresses below a sequence's reach are
//! checked before anything is copied, ends before anything is written.
const std = @import("std");
const builtin = @import("builtin");
const entropy = @import("zstd_entropy.zig");
const assert = std.debug.assert;
const high_bit = entropy.high_bit;
const load_u64 = entropy.load_u64;
const take_bits = entropy.take_bits;

pub const Fault = entropy.Fault || error{Overrun};

/// One state of a table: value = base + (bits_all − bits_next) extra bits. The sum is stored, because
/// the chain from state to state waits for it and not for the extra bits. Narrow fields, because
/// four narrow loads are faster than one wide load and shifts.
const Entry = extern struct {
    base: u32,
    /// The lowest next state, times the size of an entry.
    next: u16,
    bits_next: u8,
    bits_all: u8,
};

const entry_size = 8;
comptime {
    assert(@sizeOf(Entry) == entry_size);
}

const Table = enum { literals, offsets, matches };

/// Static, so that their addresses are part of the load instructions.
var entries: Entries = undefined;

const Entries = struct {
    literals: [512]Entry align(16),
    offsets: [256]Entry align(16),
    matches: [512]Entry align(16),
};

const TableState = struct {
    log: u8 = 0,
    /// A block may use its predecessor's table, but a frame must bring its own.
    is_known: bool = false,
    /// The entries are those of the format's own counts: no need to build them again.
    is_default: bool = false,
};

const TableStates = struct { literals: TableState = .{}, offsets: TableState = .{}, matches: TableState = .{} };

var table_states: TableStates = .{};

/// The tables, for whoever decodes a frame with others in between.
pub const Saved = struct { entries: Entries = undefined, states: TableStates = .{} };

pub fn save(saved: *Saved) void {
    saved.* = .{ .entries = entries, .states = table_states };
}

pub fn restore(saved: *const Saved) void {
    entries = saved.entries;
    table_states = saved.states;
}

/// What a table is made of, apart from its counts.
const Alphabet = struct {
    bases: []const u32,
    extra_bits: []const u8,
    default_counts: []const i16,
    default_log: u8,
    log_max: u8,
};

const literals_alphabet: Alphabet = .{
    .bases = &stretch(36, 0, literals_extra_bits),
    .extra_bits = &literals_extra_bits,
    .default_counts = &.{
        4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1,  1,  2,  2,
        2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1,
    },
    .default_log = 6,
    .log_max = 9,
};
const literals_extra_bits = [_]u8{
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  0,  0,  0,  0,  1,  1,
    1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
};

const matches_alphabet: Alphabet = .{
    .bases = &stretch(53, 3, matches_extra_bits),
    .extra_bits = &matches_extra_bits,
    .default_counts = &.{
        1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1,  1,  1,  1,  1,  1,  1,
        1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1,
    },
    .default_log = 6,
    .log_max = 9,
};
const matches_extra_bits = [_]u8{
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  0,  0,  0,  0,  0,  0,  0,
    0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
};

/// Code n stands for the values from 2^n to 2^(n+1) − 1; of those, 1 to 3 mean earlier offsets.
const offsets_alphabet: Alphabet = .{
    .bases = &stretch(32, 1, offsets_extra_bits),
    .extra_bits = &offsets_extra_bits,
    .default_counts = &.{
        1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1,
    },
    .default_log = 5,
    .log_max = 8,
};
const offsets_extra_bits = offsets: {
    var result: [32]u8 = undefined;
    for (&result, 0..) |*bits, code| bits.* = code;
    break :offsets result;
};

/// The codes' ranges follow each other without a gap, from `first` on.
fn stretch(comptime count: usize, first: u64, extra_bits: [count]u8) [count]u32 {
    var result: [count]u32 = undefined;
    var next = first;
    for (&result, extra_bits) |*base, bits| {
        base.* = next;
        next += 1 << bits;
    }
    return result;
}

/// A new frame must bring its own tables.
pub fn forget_tables() void {
    table_states.literals.is_known = false;
    table_states.offsets.is_known = false;
    table_states.matches.is_known = false;
}

/// Offsets that may be named by their place. They last from block to block within a frame.
pub const RepeatOffsets = [3]u32;
pub const first_repeat_offsets: RepeatOffsets = .{ 1, 4, 8 };

pub const Block = struct {
    /// The bytes from the sequence count to the block's end.
    section: []const u8,
    /// Readable 16 bytes past their end.
    literals: []const u8,
    /// Where the block's output begins in the target, and the address behind the last byte it may
    /// have. Writable 32 bytes past that.
    target: usize,
    target_end: usize,
    /// Matches reach no further back: the frame's first byte.
    frame_start: usize,
};

/// Writes the block's output and returns the address behind it.
pub fn execute(block: Block, repeats: *RepeatOffsets) Fault!usize {
    // Additions of lengths to addresses do not wrap: no memory of ours ends in the last megabyte.
    assert(block.target_end < std.math.maxInt(usize) - (1 << 20));
    assert(block.frame_start <= block.target and block.target <= block.target_end);
    const literals = @intFromPtr(block.literals.ptr);
    var progress: Progress = .{ .target = block.target, .literal = literals };
    var count: u32 = undefined;
    const count_size = try read_sequence_count(block.section, &count);
    if (count == 0) {
        if (count_size != block.section.len) return error.Corrupt;
    } else {
        const header_size = count_size + try read_tables(block.section[count_size..]);
        progress = try execute_stream(block, block.section[header_size..], count, repeats);
    }
    const rest = literals + block.literals.len - progress.literal;
    if (rest > block.target_end - progress.target) return error.Overrun;
    const target: [*]u8 = @ptrFromInt(progress.target);
    @memcpy(target[0..rest], block.literals[block.literals.len - rest ..]);
    return progress.target + rest;
}

fn read_sequence_count(section: []const u8, count: *u32) Fault!usize {
    if (section.len == 0) return error.Truncated;
    const first: u32 = section[0];
    const size: usize = if (first < 128) 1 else if (first < 255) 2 else 3;
    if (section.len < size) return error.Truncated;
    count.* = switch (size) {
        1 => first,
        2 => ((first - 128) << 8) + section[1],
        else => @as(u32, std.mem.readInt(u16, section[1..3], .little)) + 0x7F00,
    };
    return size;
}

// --- Tables -------------------------------------------------------------------------------------

/// Reads the modes and the tables they announce; returns their size.
fn read_tables(section: []const u8) Fault!usize {
    if (section.len == 0) return error.Truncated;
    const modes: Modes = @bitCast(section[0]);
    if (modes.reserved != 0) return error.Corrupt;
    var at: usize = 1;
    at += try read_table(.literals, modes.literals, section[at..]);
    at += try read_table(.offsets, modes.offsets, section[at..]);
    at += try read_table(.matches, modes.matches, section[at..]);
    return at;
}

const Mode = enum(u2) { default, single, coded, repeat };
const Modes = packed struct(u8) { reserved: u2, matches: Mode, offsets: Mode, literals: Mode };

fn read_table(comptime table: Table, mode: Mode, section: []const u8) Fault!usize {
    const alphabet = switch (table) {
        .literals => &literals_alphabet,
        .offsets => &offsets_alphabet,
        .matches => &matches_alphabet,
    };
    const state = &@field(table_states, @tagName(table));
    return read_table_entries(&@field(entries, @tagName(table)), state, alphabet, mode, section);
}

noinline fn read_table_entries(
    table: []Entry,
    state: *TableState,
    alphabet: *const Alphabet,
    mode: Mode,
    section: []const u8,
) Fault!usize {
    if (mode == .repeat) {
        return if (state.is_known) 0 else error.Corrupt;
    }
    const keeps_default = mode == .default and state.is_default;
    // Until the new table is complete there is none.
    state.is_known = false;
    state.is_default = false;
    var size: usize = 0;
    switch (mode) {
        .default => {
            if (!keeps_default) build_entries(table, alphabet.default_counts, alphabet.default_log, alphabet);
            state.log = alphabet.default_log;
            state.is_default = true;
        },
        .single => {
            if (section.len == 0) return error.Truncated;
            if (section[0] >= alphabet.bases.len) return error.Corrupt;
            table[0] = entry_of(alphabet, .{ .symbol = section[0], .bit_count = 0, .next = 0 });
            state.log = 0;
            size = 1;
        },
        .coded => {
            var counts: entropy.Counts = undefined;
            size = try entropy.read_counts(&counts, section, .{
                .symbol_count_max = @intCast(alphabet.bases.len),
                .log_max = alphabet.log_max,
            });
            build_entries(table, counts.slice(), counts.log, alphabet);
            state.log = counts.log;
        },
        .repeat => unreachable,
    }
    state.is_known = true;
    return size;
}

fn build_entries(table: []Entry, counts: []const i16, log: u8, alphabet: *const Alphabet) void {
    var states: [1 << entropy.log_max]entropy.State = undefined;
    const state_count = @as(usize, 1) << @intCast(log);
    assert(state_count <= table.len);
    entropy.spread_symbols(states[0..state_count], counts, log);
    for (table[0..state_count], states[0..state_count]) |*entry, state| entry.* = entry_of(alphabet, state);
}

inline fn entry_of(alphabet: *const Alphabet, state: entropy.State) Entry {
    return .{
        .base = alphabet.bases[state.symbol],
        .next = state.next * entry_size,
        .bits_next = state.bit_count,
        .bits_all = alphabet.extra_bits[state.symbol] + state.bit_count,
    };
}

// --- The stream ---------------------------------------------------------------------------------

const Progress = struct { target: usize, literal: usize };

fn execute_stream(block: Block, stream: []const u8, count: u32, repeats: *RepeatOffsets) Fault!Progress {
    if (stream.len == 0) return error.Truncated;
    const last = stream[stream.len - 1];
    if (last == 0) return error.Corrupt;
    const start = @intFromPtr(stream.ptr);
    const literals = @intFromPtr(block.literals.ptr);
    try execute_sequences(
        start + stream.len - 8,
        start - 8,
        56 + @as(u32, high_bit(last)),
        count,
        literals,
        literals + block.literals.len,
        block.target,
        block.target_end,
        block.frame_start,
        repeats,
    );
    return loop_progress;
}

/// What `execute_sequences` reached: a static, so that it returns nothing but its error.
var loop_progress: Progress = undefined;

/// An entry by its byte offset; indexing an array would not fold the address into the load.
inline fn entry_at(comptime table: Table, offset: u32) *const Entry {
    return @ptrFromInt(@intFromPtr(&@field(entries, @tagName(table))) + offset);
}

/// The hot loop. Everything it needs comes as a parameter and as an absolute address: so it stays in
/// a register or one stack slot, and nothing is derived again in every turn.
///
/// The word at `at` has `left` unread bits, the lower ones. The bit position 8·at + left only
/// falls, so the comparison behind the loop finds any stream that was too short or too long.
noinline fn execute_sequences(
    at_first: usize,
    low: usize,
    left_first: u32,
    count: u32,
    literal_first: usize,
    literal_end: usize,
    target_first: usize,
    target_end: usize,
    frame_start: usize,
    repeats: *RepeatOffsets,
) Fault!void {
    var at = at_first;
    var left = left_first;
    var literal = literal_first;
    var target = target_first;
    var word = load_u64(at);
    left -= table_states.literals.log;
    var literals_state = take_bits(word, left, table_states.literals.log) * entry_size;
    left -= table_states.offsets.log;
    var offsets_state = take_bits(word, left, table_states.offsets.log) * entry_size;
    left -= table_states.matches.log;
    var matches_state = take_bits(word, left, table_states.matches.log) * entry_size;
    // The first repeat offset, and the second above it: both move with one shift.
    var repeats_01: u64 = repeats[0] | @as(u64, repeats[1]) << 32;
    var repeat_2 = repeats[2];
    var sequences_left = count;
    while (true) {
        // At least 56 unread bits from here on.
        at -= (left ^ 63) >> 3;
        left |= 56;
        if (at < low) return error.Corrupt;
        word = load_u64(at);

        const literals_entry = entry_at(.literals, literals_state).*;
        const matches_entry = entry_at(.matches, matches_state).*;
        const offsets_entry = entry_at(.offsets, offsets_state).*;
        const offset_next: u32 = offsets_entry.bits_next;
        const match_next: u32 = matches_entry.bits_next;
        const literal_next: u32 = literals_entry.bits_next;
        const offset_extra = offsets_entry.bits_all - offset_next;
        const match_extra = matches_entry.bits_all - match_next;
        const literal_extra = literals_entry.bits_all - literal_next;
        const bits_all = @as(u32, offsets_entry.bits_all) + matches_entry.bits_all + literals_entry.bits_all;
        var offset_value: u32 = undefined;
        var match_size: u32 = undefined;
        var literal_size: u32 = undefined;
        if (bits_all > 56) {
            @branchHint(.unlikely);
            left -= offset_extra;
            offset_value = offsets_entry.base + take_bits(word, left, offset_extra);
            left -= match_extra;
            match_size = matches_entry.base + take_bits(word, left, match_extra);
            at -= (left ^ 63) >> 3;
            left |= 56;
            if (at < low) return error.Corrupt;
            word = load_u64(at);
            left -= literal_extra;
            literal_size = literals_entry.base + take_bits(word, left, literal_extra);
            left -= offset_next + match_next + literal_next;
        } else {
            offset_value = offsets_entry.base + take_bits(word, left - offset_extra, offset_extra);
            match_size = matches_entry.base + take_bits(word, left - offset_extra - match_extra, match_extra);
            literal_size = literals_entry.base +
                take_bits(word, left - offset_extra - match_extra - literal_extra, literal_extra);
            left -= bits_all;
        }
        // The next states, from the lowest bits up.
        offsets_state = offsets_entry.next + take_bits(word, left, offset_next) * entry_size;
        matches_state = matches_entry.next + take_bits(word, left + offset_next, match_next) * entry_size;
        literals_state = literals_entry.next +
            take_bits(word, left + offset_next + match_next, literal_next) * entry_size;
        sequences_left -= 1;
        if (sequences_left == 0) {
            @branchHint(.unlikely);
            left += offset_next + match_next + literal_next; // the last one has no next states
        }

        // A branch for new offsets, selects for repeated ones: all of one kind is slower.
        var offset: u32 = undefined;
        if (offset_value > 3) {
            offset = offset_value - 3;
            repeat_2 = @truncate(repeats_01 >> 32);
            repeats_01 = repeats_01 << 32 | offset;
        } else {
            const repeat_0: u32 = @truncate(repeats_01);
            const repeat_1: u32 = @truncate(repeats_01 >> 32);
            const place = offset_value - 1 + @intFromBool(literals_entry.base == 0);
            const near = if (place == 0) repeat_0 else repeat_1;
            const far = if (place == 2) repeat_2 else repeat_0 -% 1;
            offset = if (place < 2) near else far;
            repeat_2 = if (place < 2) repeat_2 else repeat_1;
            repeats_01 = if (place == 0) repeats_01 else repeats_01 << 32 | offset;
            if (offset == 0) return error.Corrupt;
        }

        const match_target = target +% literal_size;
        const match_end = match_target +% match_size;
        if (literal_size > literal_end -% literal) return error.Corrupt;
        if (offset > match_target -% frame_start) return error.Corrupt;
        if (match_end > target_end) return error.Overrun;
        copy_literals(target, literal, literal_size);
        copy_match(match_target, offset, match_size);
        literal +%= literal_size;
        target = match_end;
        if (sequences_left == 0) break;
    }
    if (left & 7 != 0 or at + (left >> 3) != low + 8) return error.Corrupt;
    repeats.* = .{ @truncate(repeats_01), @truncate(repeats_01 >> 32), repeat_2 };
    loop_progress = .{ .target = target, .literal = literal };
}

// --- Copies -------------------------------------------------------------------------------------

const Lanes = @Vector(16, u8);

inline fn load_lanes(address: usize) Lanes {
    return @as(*align(1) const Lanes, @ptrFromInt(address)).*;
}

inline fn store_lanes(address: usize, lanes: Lanes) void {
    @as(*align(1) Lanes, @ptrFromInt(address)).* = lanes;
}

/// Writes up to 16 bytes too many.
inline fn copy_literals(target: usize, source: usize, size: usize) void {
    store_lanes(target, load_lanes(source));
    if (size > 16) {
        var to = target +% 16;
        var from = source +% 16;
        const end = target +% size;
        while (true) {
            store_lanes(to, load_lanes(from));
            to +%= 16;
            from +%= 16;
            if (to >= end) break;
        }
    }
}

/// Writes up to 32 bytes too many. The first 32 are copied whatever the size: the second half costs
/// less than a wrong guess about it.
inline fn copy_match(target: usize, offset: u32, size: usize) void {
    const source = target -% offset;
    if (offset >= 16) {
        @branchHint(.likely);
        store_lanes(target, load_lanes(source));
        store_lanes(target +% 16, load_lanes(source +% 16));
        if (size > 32) {
            var to = target +% 32;
            const end = target +% size;
            while (true) {
                store_lanes(to, load_lanes(to -% offset));
                to +%= 16;
                if (to >= end) break;
            }
        }
    } else {
        const pattern = shuffle(load_lanes(source), overlap_shuffles[offset]);
        store_lanes(target, pattern);
        if (size > overlap_steps[offset]) repeat_pattern(target, pattern, offset, size);
    }
}

/// The match overlaps its own output: a pattern of `offset` bytes over and over.
inline fn repeat_pattern(target: usize, pattern: Lanes, offset: u32, size: usize) void {
    const step: usize = overlap_steps[offset];
    var to = target +% step;
    const end = target +% size;
    while (to < end) : (to +%= step) store_lanes(to, pattern);
}

/// Row n repeats lanes 0 to n − 1.
const overlap_shuffles: [16]Lanes = rows: {
    var result: [16][16]u8 = @splat(@splat(0));
    for (1..16) |offset| {
        for (&result[offset], 0..) |*lane, index| lane.* = index % offset;
    }
    var rows: [16]Lanes = undefined;
    for (&rows, result) |*row, lanes| row.* = lanes;
    break :rows rows;
};

/// The largest multiple of the offset within 16 bytes.
const overlap_steps: [16]u8 = steps: {
    var result: [16]u8 = @splat(16);
    for (1..16) |offset| result[offset] = 16 - 16 % offset;
    break :steps result;
};

extern fn @"llvm.wasm.swizzle"(Lanes, Lanes) Lanes;

inline fn shuffle(lanes: Lanes, indices: Lanes) Lanes {
    if (builtin.cpu.arch.isWasm()) return @"llvm.wasm.swizzle"(lanes, indices);
    const from: [16]u8 = lanes;
    const order: [16]u8 = indices;
    var result: [16]u8 = undefined;
    for (&result, order) |*lane, index| lane.* = from[index];
    return result;
}

// --- Tests --------------------------------------------------------------------------------------

const testing = std.testing;

test stretch {
    try testing.expectEqual(16, literals_alphabet.bases[16]);
    try testing.expectEqual(64, literals_alphabet.bases[25]);
    try testing.expectEqual(65_536, literals_alphabet.bases[35]);
    try testing.expectEqual(3, matches_alphabet.bases[0]);
    try testing.expectEqual(131, matches_alphabet.bases[43]);
    try testing.expectEqual(65_539, matches_alphabet.bases[52]);
    try testing.expectEqual(1, offsets_alphabet.bases[0]);
    try testing.expectEqual(1 << 31, offsets_alphabet.bases[31]);
}

test read_sequence_count {
    var count: u32 = undefined;
    try testing.expectEqual(1, try read_sequence_count(&.{ 0x7F, 9 }, &count));
    try testing.expectEqual(127, count);
    try testing.expectEqual(2, try read_sequence_count(&.{ 0x81, 9 }, &count));
    try testing.expectEqual(0x109, count);
    try testing.expectEqual(3, try read_sequence_count(&.{ 0xFF, 1, 2 }, &count));
    try testing.expectEqual(0x7F00 + 0x201, count);
    for ([_][]const u8{ "", &.{0x80}, &.{ 0xFF, 1 } }) |short| {
        try testing.expectError(error.Truncated, read_sequence_count(short, &count));
    }
}

test copy_match {
    var bytes: [600]u8 = undefined;
    var expected: [600]u8 = undefined;
    for (1..70) |offset| {
        for ([_]usize{ 3, 4, 15, 16, 17, 31, 32, 33, 48, 100, 401 }) |size| {
            for (&bytes, 0..) |*byte, index| byte.* = @truncate(index *% 37 +% offset);
            expected = bytes;
            for (100..100 + size) |index| expected[index] = expected[index - offset];
            copy_match(@intFromPtr(&bytes) + 100, @intCast(offset), size);
            try testing.expectEqualSlices(u8, expected[0 .. 100 + size], bytes[0 .. 100 + size]);
            // No further than promised.
            try testing.expectEqualSlices(u8, expected[100 + size + 32 ..], bytes[100 + size + 32 ..]);
        }
    }
}

test copy_literals {
    var bytes: [300]u8 = undefined;
    var source: [300]u8 = undefined;
    for (&source, 0..) |*byte, index| byte.* = @truncate(index *% 91);
    for (0..200) |size| {
        @memset(&bytes, 0xA5);
        copy_literals(@intFromPtr(&bytes), @intFromPtr(&source), size);
        try testing.expectEqualSlices(u8, source[0..size], bytes[0..size]);
        try testing.expect(std.mem.allEqual(u8, bytes[size + 16 ..], 0xA5));
    }
}

test read_table_entries {
    forget_tables();
    try testing.expectError(error.Corrupt, read_table(.offsets, .repeat, ""));
    try testing.expectEqual(0, try read_table(.offsets, .default, ""));
    const default = entries.offsets[0..32].*;
    try testing.expectEqual(0, try read_table(.offsets, .repeat, ""));
    try testing.expectError(error.Corrupt, read_table(.offsets, .single, &.{32}));
    try testing.expectError(error.Corrupt, read_table(.offsets, .repeat, ""));
    try testing.expectEqual(1, try read_table(.offsets, .single, &.{5}));
    try testing.expectEqual(Entry{ .base = 32, .next = 0, .bits_next = 0, .bits_all = 5 }, entries.offsets[0]);
    try testing.expectEqual(0, try read_table(.offsets, .default, ""));
    try testing.expectEqual(default, entries.offsets[0..32].*);
}
