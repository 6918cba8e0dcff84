//! Brotli (RFC 7932), all of it but large windows, which are not in the RFC.
//!
//!     stream       window size, meta-blocks, padding to a byte
//!     meta-block   last? | size − 1 | stored? | header | commands
//!     header       for literals, commands and distances: how many block types, and if several,
//!                  codes for their types and sizes; distance parameters; context mode per literal
//!                  block type; context maps; prefix codes of literals, commands, distances
//!     command      insert and copy length | literals | distance
//!
//! A literal's code is found by its block type and the two bytes before it, a distance's by its
//! block type and the copy length, a command's by its block type. A distance beyond what was
//! written, or beyond the window, names a word of the static dictionary (brotli_dictionary.zig).
//!
//! The target is the window: nothing is copied twice. 64 bytes behind source and target may be
//! read, behind the target also written, so copies are 16 bytes wide and run over. Invariants of
//! `decode_commands`: `at` ≤ `stop` ≤ end of the target at every command and copy; between two
//! looks at `BitReader.is_past_end` there are at most five refills.
const std = @import("std");
const builtin = @import("builtin");
const assert = std.debug.assert;
const interrupt = @import("../core/interrupt.zig");
const bit_stream = @import("brotli_bits.zig");
const codes = @import("brotli_codes.zig");
const dictionary = @import("brotli_dictionary.zig");
const BitReader = bit_stream.BitReader;
const CommandCode = codes.CommandCode;
const DistanceCode = codes.DistanceCode;
const command_codes = codes.command_codes;
const command_count = codes.command_count;
const context_lookups = codes.context_lookups;
const distance_code = codes.distance_code;
const fail = bit_stream.fail;
const ladder = codes.ladder;
const load = bit_stream.load;
const recent_codes = codes.recent_codes;

pub const Error = bit_stream.Error;

/// What a caller leaves readable behind the source, and writable behind the target.
pub const slack_bytes = 64;

/// Output between two looks at the cancel byte.
const stride_bytes = 128 * 1024;

/// Fills the target with what the source holds, which must be exactly that much. Bytes behind the
/// stream's end are left alone, as other decoders do.
pub fn decompress(source: []const u8, target: []u8) Error!void {
    const start = @intFromPtr(target.ptr);
    decoder = .{
        .bits = .init(source),
        .start = start,
        .at = start,
        .end = start + target.len,
        .window_size = 0,
        .blocks = undefined,
        .literal_single = false,
        .literal_lookup = 0,
        .distance_postfix = 0,
    };
    decoder.decode_stream() catch |err| {
        const offset = decoder.bits.offset_begun();
        interrupt.describe_offset(@min(source.len, offset));
        // What lies behind a stream that is cut short can look like anything.
        return if (offset > source.len and err != error.Cancelled) fail("cut short") else err;
    };
}

const type_count_max = 256;
const literal_count = 256;
const distance_count_max = 16 + (15 << 3) + (48 << 3);
const block_size_code_count = 26;
const tree_count_max = 256;
const literal_context_count = 64;
const distance_context_count = 4;
/// Runs of zeros in a context map have up to 16 symbols of their own.
const map_symbol_count_max = tree_count_max + 16;

// Work space, too large for the stack. A module has one thread.
var decoder: Decoder = undefined;
var pool_entries: [pool_size]u16 = undefined;
var literal_map: [type_count_max * literal_context_count]u8 = undefined;
var distance_map: [type_count_max * distance_context_count]u8 = undefined;
/// Addresses of tables by block type and context, and by block type.
var literal_tables: [type_count_max][literal_context_count]usize = undefined;
var distance_tables: [type_count_max][distance_context_count]usize = undefined;
var command_tables: [type_count_max]usize = undefined;
var literal_modes: [type_count_max]u2 = undefined;
var distance_codes: [distance_count_max]DistanceCode = undefined;

const pool_size =
    tree_count_max * (bit_stream.table_size_max(literal_count) + bit_stream.table_size_max(distance_count_max)) +
    type_count_max * bit_stream.table_size_max(command_count) +
    3 * (bit_stream.table_size_max(type_count_max + 2) + bit_stream.table_size_max(block_size_code_count)) +
    bit_stream.table_size_max(map_symbol_count_max);

const Category = enum(u2) { literal, command, distance };

const Blocks = struct {
    type_count: u32,
    type_table: usize,
    size_table: usize,
    current: u32,
    previous: u32,
    /// Symbols until the next block begins.
    left: u32,
    /// Address of the current type's row of literal_tables, command_tables or distance_tables.
    tables: usize,
};

const Distance = struct {
    value: u32,
    /// Whether it was named as the last one: then it is not remembered once more.
    is_last: bool,
};

const Decoder = struct {
    bits: BitReader,
    start: usize,
    at: usize,
    end: usize,
    window_size: u32,
    blocks: [3]Blocks,
    /// Whether literals of the current block have one table, whatever their context.
    literal_single: bool,
    /// Address of the contexts by the last byte, then by the one before it.
    literal_lookup: usize,
    distance_postfix: u32,
    /// The last four distances, of which `recent_last` is the last.
    recent: [4]u32 = .{ 16, 15, 11, 4 },
    recent_last: u32 = 3,

    fn decode_stream(self: *Decoder) Error!void {
        self.window_size = try read_window_size(&self.bits);
        while (!try self.decode_meta_block()) try interrupt.check();
        _ = try self.bits.align_to_byte();
        if (self.at != self.end) return fail("holds fewer bytes than announced");
    }

    /// Returns whether it was the last.
    fn decode_meta_block(self: *Decoder) Error!bool {
        const bits = &self.bits;
        const last = try bits.read(1) == 1;
        if (last and try bits.read(1) == 1) return true;
        const nibble_count = 4 + try bits.read(2);
        if (nibble_count == 7) {
            try skip_metadata(bits);
            return last;
        }
        const size = 1 + try bits.read(4 * nibble_count);
        if (nibble_count > 4 and (size - 1) >> @intCast(4 * nibble_count - 4) == 0)
            return fail("size with a leading zero");
        if (size > self.end - self.at) return fail("holds more bytes than announced");
        if (!last and try bits.read(1) == 1) {
            try self.copy_stored(size);
        } else {
            try self.read_header();
            try self.decode_commands(self.at + size);
        }
        return last;
    }

    fn copy_stored(self: *Decoder, size: usize) Error!void {
        const offset = try self.bits.align_to_byte();
        if (size > self.bits.size - offset) return fail("cut short");
        var done: usize = 0;
        while (done < size) {
            try interrupt.check();
            const part = @min(size - done, stride_bytes);
            const source: [*]const u8 = @ptrFromInt(self.bits.start + offset + done);
            const target: [*]u8 = @ptrFromInt(self.at + done);
            @memcpy(target[0..part], source[0..part]);
            done += part;
        }
        self.at += size;
        self.bits.seek(offset + size);
    }

    fn read_header(self: *Decoder) Error!void {
        const bits = &self.bits;
        var pool: bit_stream.Pool = .{ .entries = &pool_entries, .used = 0 };
        for (&self.blocks) |*blocks| blocks.* = try read_blocks(bits, &pool);
        const distance_count = try self.read_distance_parameters();
        const literal_types = self.blocks[@backingInt(Category.literal)].type_count;
        for (literal_modes[0..literal_types]) |*mode| mode.* = @intCast(try bits.read(2));
        const literal_trees = try read_context_map(
            bits,
            &pool,
            literal_map[0 .. literal_types * literal_context_count],
        );
        const distance_types = self.blocks[@backingInt(Category.distance)].type_count;
        const distance_trees = try read_context_map(
            bits,
            &pool,
            distance_map[0 .. distance_types * distance_context_count],
        );

        var trees: [tree_count_max]usize = undefined;
        for (trees[0..literal_trees]) |*tree| tree.* = try pool.read_code(bits, literal_count);
        for (literal_tables[0..literal_types], 0..) |*tables, block_type| for (tables, 0..) |*table, context| {
            table.* = trees[literal_map[block_type * literal_context_count + context]];
        };
        for (command_tables[0..self.blocks[@backingInt(Category.command)].type_count]) |*table|
            table.* = try pool.read_code(bits, command_count);
        for (trees[0..distance_trees]) |*tree| tree.* = try pool.read_code(bits, distance_count);
        for (distance_tables[0..distance_types], 0..) |*tables, block_type| for (tables, 0..) |*table, context| {
            table.* = trees[distance_map[block_type * distance_context_count + context]];
        };
        for ([_]Category{ .literal, .command, .distance }) |category| self.use_type(category, 0);
    }

    fn use_type(self: *Decoder, category: Category, block_type: u32) void {
        const blocks = &self.blocks[@backingInt(category)];
        switch (category) {
            .literal => {
                const tables = &literal_tables[block_type];
                blocks.tables = @intFromPtr(tables);
                self.literal_single = std.mem.allEqual(usize, tables, tables[0]);
                self.literal_lookup = @intFromPtr(&context_lookups[literal_modes[block_type]]);
            },
            .command => blocks.tables = @intFromPtr(&command_tables[block_type]),
            .distance => blocks.tables = @intFromPtr(&distance_tables[block_type]),
        }
    }

    /// Section 4. Returns the number of distance symbols.
    fn read_distance_parameters(self: *Decoder) Error!u32 {
        const postfix_bits: u5 = @intCast(try self.bits.read(2));
        const direct_count = try self.bits.read(4) << postfix_bits;
        const symbol_count = 16 + direct_count + (@as(u32, 48) << postfix_bits);
        self.distance_postfix = postfix_bits;
        for (distance_codes[16..symbol_count], 0..) |*code, index|
            code.* = distance_code(@intCast(index), direct_count, postfix_bits);
        return symbol_count;
    }

    /// Begins the next block of a category: its type and its size.
    noinline fn begin_block(self: *Decoder, category: Category) Error!void {
        const blocks = &self.blocks[@backingInt(category)];
        assert(blocks.left == 0);
        // With one type there are no sizes: the block never ends, but it may be counted down.
        if (blocks.type_count == 1) {
            blocks.left = block_size_unlimited;
            return;
        }
        const symbol = try self.bits.read_symbol(blocks.type_table);
        var next = switch (symbol) {
            0 => blocks.previous,
            1 => blocks.current + 1,
            else => symbol - 2,
        };
        if (next >= blocks.type_count) next -= blocks.type_count;
        assert(next < blocks.type_count);
        blocks.previous = blocks.current;
        blocks.current = next;
        blocks.left = try read_block_size(&self.bits, blocks.size_table);
        self.use_type(category, next);
    }

    /// Before a symbol is taken: there is a block it belongs to. The hot loop's bits are a copy in
    /// registers, so no function that is not inlined may see its address.
    inline fn ensure_block(self: *Decoder, bits: *BitReader, category: Category) Error!void {
        if (self.blocks[@backingInt(category)].left == 0) {
            @branchHint(.unlikely);
            self.bits = bits.*;
            try self.begin_block(category);
            bits.* = self.bits;
        }
    }

    /// Commands until the output reaches `stop`.
    noinline fn decode_commands(self: *Decoder, stop: usize) Error!void {
        assert(self.at < stop and stop <= self.end);
        var bits = self.bits;
        var at = self.at;
        defer {
            self.bits = bits;
            self.at = at;
        }
        var check_at = at + stride_bytes;
        while (true) {
            if (bits.is_past_end()) return fail("cut short");
            if (at >= check_at) {
                @branchHint(.unlikely);
                try interrupt.check();
                check_at = at + stride_bytes;
            }
            const command = try self.take_command(&bits);
            const insert_size = command.insert_base + bits.take(command.insert_bits);
            if (command.copy_bits > 16) {
                @branchHint(.unlikely);
                bits.refill();
            }
            const copy_size = command.copy_base + bits.take(command.copy_bits);
            if (insert_size > stop - at) return fail("literals past the end of the meta-block");
            if (insert_size > 0) try self.insert_literals(&bits, at, insert_size);
            at += insert_size;
            if (at == stop) return;
            const distance = try self.take_distance(&bits, command, copy_size);
            const reach: u32 = @intCast(@min(self.window_size, at - self.start));
            if (distance.value > reach) {
                const word_id = distance.value - reach - 1;
                const size = dictionary.write_word(@ptrFromInt(at), copy_size, word_id) orelse
                    return fail("no such word in the dictionary");
                if (size > stop - at) return fail("word past the end of the meta-block");
                at += size;
            } else {
                if (copy_size > stop - at) return fail("copy past the end of the meta-block");
                self.remember(distance);
                copy_match(at, distance.value, copy_size);
                at += copy_size;
            }
            if (at == stop) return;
        }
    }

    inline fn take_command(self: *Decoder, bits: *BitReader) Error!*const CommandCode {
        try self.ensure_block(bits, .command);
        const blocks = &self.blocks[@backingInt(Category.command)];
        blocks.left -= 1;
        bits.refill();
        return &command_codes[bits.take_symbol(load(usize, blocks.tables))];
    }

    inline fn insert_literals(self: *Decoder, bits: *BitReader, from: usize, size: u32) Error!void {
        const blocks = &self.blocks[@backingInt(Category.literal)];
        var at = from;
        var left = size;
        while (true) {
            try self.ensure_block(bits, .literal);
            const run = @min(left, blocks.left, @as(u32, stride_bytes));
            if (self.literal_single) {
                decode_literals(bits, at, at + run, load(usize, blocks.tables));
            } else {
                decode_literals_by_context(bits, at, at + run, self.start, .{
                    .tables = blocks.tables,
                    .lookup = self.literal_lookup,
                });
            }
            if (bits.is_past_end()) return fail("cut short");
            blocks.left -= run;
            left -= run;
            if (left == 0) return;
            at += run;
            try interrupt.check();
        }
    }

    inline fn take_distance(
        self: *Decoder,
        bits: *BitReader,
        command: *const CommandCode,
        copy_size: u32,
    ) Error!Distance {
        if (command.repeats_distance) return .{ .value = self.recent[self.recent_last & 3], .is_last = true };
        try self.ensure_block(bits, .distance);
        const blocks = &self.blocks[@backingInt(Category.distance)];
        blocks.left -= 1;
        bits.refill();
        const context: usize = @min(copy_size - 2, distance_context_count - 1);
        const symbol = bits.take_symbol(load(usize, blocks.tables + @sizeOf(usize) * context));
        if (symbol >= 16) {
            const code = &distance_codes[symbol];
            return .{
                .value = code.base + (bits.take(code.bits) << @intCast(self.distance_postfix)),
                .is_last = false,
            };
        }
        const nearby = recent_codes[symbol];
        const sum = @as(i32, @intCast(self.recent[(self.recent_last -% nearby.age) & 3])) + nearby.delta;
        if (sum <= 0) return fail("distance below one");
        return .{ .value = @intCast(sum), .is_last = symbol == 0 };
    }

    inline fn remember(self: *Decoder, distance: Distance) void {
        if (distance.is_last) return;
        self.recent_last +%= 1;
        self.recent[self.recent_last & 3] = distance.value;
    }
};

/// Stops early if the bits run out; the caller sees that they did.
inline fn decode_literals(bits: *BitReader, from: usize, stop: usize, table: usize) void {
    var at = from;
    while (stop - at >= 3) {
        if (bits.is_past_end()) return;
        bits.refill();
        inline for (0..3) |index| store_byte(at + index, bits.take_symbol(table));
        at += 3;
    }
    bits.refill();
    while (at < stop) : (at += 1) store_byte(at, bits.take_symbol(table));
}

/// Addresses: of tables by context, of contexts by the last byte and by the one before it.
const LiteralContexts = struct { tables: usize, lookup: usize };

inline fn decode_literals_by_context(
    bits: *BitReader,
    from: usize,
    stop: usize,
    start: usize,
    contexts: LiteralContexts,
) void {
    var at = from;
    var last: u32 = if (at - start >= 1) load(u8, at - 1) else 0;
    var before: u32 = if (at - start >= 2) load(u8, at - 2) else 0;
    while (at < stop) {
        if (bits.is_past_end()) return;
        bits.refill();
        const group_stop = @min(stop, at + 3);
        while (at < group_stop) : (at += 1) {
            const context = load(u8, contexts.lookup + last) | load(u8, contexts.lookup + 256 + before);
            before = last;
            last = bits.take_symbol(load(usize, contexts.tables + @sizeOf(usize) * @as(usize, context)));
            store_byte(at, last);
        }
    }
}

inline fn store_byte(address: usize, value: u32) void {
    @as(*u8, @ptrFromInt(address)).* = @truncate(value);
}

const Block = @Vector(16, u8);

inline fn copy_block(target: usize, source: usize) void {
    @as(*align(1) Block, @ptrFromInt(target)).* = load(Block, source);
}

/// Writes up to 31 bytes more than asked for.
inline fn copy_match(target: usize, distance: usize, size: usize) void {
    const stop = target + size;
    if (distance < 16) {
        @branchHint(.unlikely);
        return repeat_pattern(target, distance, stop);
    }
    var at = target;
    while (true) {
        copy_block(at, at - distance);
        at += 16;
        if (at >= stop) return;
    }
}

extern fn @"llvm.wasm.swizzle"(Block, Block) Block;

/// The last `distance` bytes again and again: 16 bytes of them at a time, moving on by as many as
/// whole repetitions take.
fn repeat_pattern(target: usize, distance: usize, stop: usize) void {
    assert(distance >= 1 and distance < 16);
    const pattern = spread(load(Block, target - distance), distance);
    const step = 16 - 16 % distance;
    var at = target;
    while (at < stop) : (at += step) @as(*align(1) Block, @ptrFromInt(at)).* = pattern;
}

inline fn spread(block: Block, distance: usize) Block {
    if (comptime builtin.cpu.arch.isWasm()) return @"llvm.wasm.swizzle"(block, pattern_lanes[distance]);
    const bytes: [16]u8 = block;
    var spreaded: [16]u8 = undefined;
    for (&spreaded, 0..) |*byte, index| byte.* = bytes[index % distance];
    return spreaded;
}

const pattern_lanes: [16]Block = lanes: {
    var lanes: [16]Block = @splat(@splat(0));
    for (1..16) |distance| for (0..16) |index| {
        lanes[distance][index] = index % distance;
    };
    break :lanes lanes;
};

/// Section 9.1.
fn read_window_size(bits: *BitReader) Error!u32 {
    const window_bits: u5 = window: {
        if (try bits.read(1) == 0) break :window 16;
        const high = try bits.read(3);
        if (high != 0) break :window @intCast(17 + high);
        const low = try bits.read(3);
        if (low == 1) {
            interrupt.describe("Brotli stream with a large window", .{});
            return error.NotSupported;
        }
        break :window if (low == 0) 17 else @intCast(8 + low);
    };
    return (@as(u32, 1) << window_bits) - 16;
}

fn skip_metadata(bits: *BitReader) Error!void {
    if (try bits.read(1) != 0) return fail("reserved bit set");
    const byte_count = try bits.read(2);
    var size: u32 = 0;
    if (byte_count > 0) {
        size = try bits.read(8 * byte_count);
        if (byte_count > 1 and size >> @intCast(8 * byte_count - 8) == 0) return fail("size with a leading zero");
        size += 1;
    }
    const offset = try bits.align_to_byte();
    if (size > bits.size - offset) return fail("cut short");
    bits.seek(offset + size);
}

/// 1 … 256 in up to 11 bits.
fn read_count(bits: *BitReader) Error!u32 {
    if (try bits.read(1) == 0) return 1;
    const width: u5 = @intCast(try bits.read(3));
    return 1 + (@as(u32, 1) << width) + try bits.read(width);
}

const block_size_unlimited = std.math.maxInt(u32);

fn read_blocks(bits: *BitReader, pool: *bit_stream.Pool) Error!Blocks {
    var blocks: Blocks = .{
        .type_count = try read_count(bits),
        .type_table = 0,
        .size_table = 0,
        .current = 0,
        .previous = 1,
        .left = block_size_unlimited,
        .tables = 0,
    };
    if (blocks.type_count == 1) return blocks;
    blocks.type_table = try pool.read_code(bits, blocks.type_count + 2);
    blocks.size_table = try pool.read_code(bits, block_size_code_count);
    blocks.left = try read_block_size(bits, blocks.size_table);
    return blocks;
}

const block_size_bits: [block_size_code_count]u5 = .{
    2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 7, 8, 9, 10, 11, 12, 13, 24,
};
const block_size_bases = ladder(block_size_code_count, 1, block_size_bits);

fn read_block_size(bits: *BitReader, table: usize) Error!u32 {
    const symbol = try bits.read_symbol(table);
    return block_size_bases[symbol] + try bits.read(block_size_bits[symbol]);
}

/// Section 7.3. Returns how many prefix codes the map speaks of.
fn read_context_map(bits: *BitReader, pool: *bit_stream.Pool, map: []u8) Error!u32 {
    const tree_count = try read_count(bits);
    @memset(map, 0);
    if (tree_count == 1) return 1;
    const run_codes = if (try bits.read(1) == 0) 0 else 1 + try bits.read(4);
    // The code is needed no longer than this function runs, and so is its table.
    const used = pool.used;
    const table = try pool.read_code(bits, tree_count + run_codes);
    pool.used = used;
    var index: usize = 0;
    while (index < map.len) {
        const symbol = try bits.read_symbol(table);
        if (symbol == 0 or symbol > run_codes) {
            map[index] = @intCast(symbol -| run_codes);
            index += 1;
        } else {
            index += (@as(usize, 1) << @intCast(symbol)) + try bits.read(symbol);
            if (index > map.len) return fail("context map too long");
        }
    }
    if (try bits.read(1) == 1) move_to_front(map);
    return tree_count;
}

/// Replaces places in a list by what stands there; what was named moves to the list's front.
fn move_to_front(map: []u8) void {
    var list: [256]u8 = undefined;
    for (&list, 0..) |*value, index| value.* = @intCast(index);
    for (map) |*entry| {
        const place = entry.*;
        const value = list[place];
        std.mem.copyBackwards(u8, list[1 .. @as(usize, place) + 1], list[0..place]);
        list[0] = value;
        entry.* = value;
    }
}

// Streams by the reference encoder, and three by a generator that uses what encoders do not: many
// block types, context maps with runs, all context modes, postfix bits and direct distances.

const test_stream_words =
    "1b9f00e09c07b68bb5c89e357d447e918e1a84c7874a1611b1941b5c2339bdd101550ed827131c6953c1131ef262292c" ++
    "6dee1b02b703af3270c1dc80776dbcb2318003863e031e61640560fa2739c11e";
const test_text_words = "<p>The international community, and the government of the United States: information about " ++
    "each university. THE END, the following example is not available.</p>";
const test_stream_flushed = "0b04000024c3c4c6829320b4016100004082ac0850240001";
const test_stream_stored = "8b0f80c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e703";
const test_stream_patterns = "1be7030024c3c4c66a31c6aa4098ad14e301";

const test_streams_generated = [_]struct { hex: []const u8, size: usize, crc: u32 }{ .{
    .hex = "e218a080db4e270c468f883c0940116d448c9a9dffe21718d297467a7a1768e10eacc9b9a4858f08384b633405c053a3" ++
        "a5e804f3114a8aa8451ce080b1dff1fbfd7ebfdfeff7fbfd7ebf295f760062a1313e5a6020ea1475872f7e1d3d90a65d" ++
        "3b26ed4a4156658ff046c47805",
    .size = 200,
    .crc = 0x49416cd4,
}, .{
    .hex = "218b001bf7a40105b0000862ff8080c36280806220c380ff638062ff6261626180ff710c50c06e566307ebc2118741a4" ++
        "11c05fe3a9586d4af0f70011b28813a9cda297d06a52a469c10a5f6248ea3a30af23eaec47d0f8737d093e9c21698422" ++
        "28b0fb4fefed6f7fdbdfdffe9efded6f7fcffef637d9dffef6f7f6b7bff76e7ffb9b6e6a7ffb5b41b8ebbf7fff3e7bf8" ++
        "57f7efdfbf7ffffe7dee5fff4afefdebdfbffef7af7f0fc525154415803079882542a40ab490918768300cc5737340e9" ++
        "24e9c20e",
    .size = 223,
    .crc = 0x20732a64,
}, .{
    .hex = "013c0004616320806280ffff62c363c3632062c3710c109930c658311c150b74d3e2b3c3069c540f0ad8b86fc7fb8d83" ++
        "ddd5fb51e8fc050817d8385c00304481da03ed8b2c8adc008e727777ebd7af5fd7effa6579fdcaf7eb5777fdcafa5dbf" ++
        "7ed7af5fbf243f038e7ddff77ddff77ddfe7d32b1781849824e2934c028214421253e0df3a69e6cf7cd8f9339dcbe4cf" ++
        "4ee15d61c3d5fab2b57bf9bb35281a8ae6ed2b5e3d68c4f65674e9e728e2de58b513",
    .size = 216,
    .crc = 0xcf20b07,
} };

const TestStream = struct {
    source: [256 + slack_bytes]u8,
    size: usize,
    target: [1024 + slack_bytes + 16]u8,

    fn init(hex: []const u8) TestStream {
        var stream: TestStream = .{ .source = @splat(0x5A), .size = hex.len / 2, .target = @splat(0xC3) };
        _ = std.fmt.hexToBytes(&stream.source, hex) catch unreachable;
        return stream;
    }

    /// Whatever happens, nothing behind the slack is touched.
    fn run(self: *TestStream, source_size: usize, target_size: usize) Error![]const u8 {
        defer interrupt.forget();
        const behind = self.target[target_size + slack_bytes ..];
        @memset(behind, 0xC3);
        defer assert(std.mem.allEqual(u8, behind, 0xC3));
        try decompress(self.source[0..source_size], self.target[0..target_size]);
        return self.target[0..target_size];
    }
};

fn expect_stream(hex: []const u8, expected: []const u8) !void {
    var stream: TestStream = .init(hex);
    try std.testing.expectEqualSlices(u8, expected, try stream.run(stream.size, expected.len));
    try expect_refusals(&stream, expected.len);
}

/// A stream cut anywhere fails, and so does another target size.
fn expect_refusals(stream: *TestStream, size: usize) !void {
    for (0..stream.size) |cut| try std.testing.expectError(error.InvalidFormat, stream.run(cut, size));
    try std.testing.expectError(error.InvalidFormat, stream.run(stream.size, size + 1));
    if (size > 0) try std.testing.expectError(error.InvalidFormat, stream.run(stream.size, size - 1));
}

test decompress {
    try expect_stream("06", "");
    try expect_stream(test_stream_words, test_text_words);
    try expect_stream(test_stream_flushed, "abcabcabcabcabcd");
    var stored: [32]u8 = undefined;
    for (&stored, 200..) |*byte, value| byte.* = @intCast(value);
    try expect_stream(test_stream_stored, &stored);
    var patterns: [1000]u8 = @splat('a');
    for (patterns[300..700], 0..) |*byte, index| byte.* = "ab"[index % 2];
    for (patterns[700..], 0..) |*byte, index| byte.* = "abc"[index % 3];
    try expect_stream(test_stream_patterns, &patterns);
}

test "bytes behind the source do not matter" {
    var stream: TestStream = .init("11" ++ test_stream_words); // a large window
    try std.testing.expectError(error.NotSupported, stream.run(1, 0));
    try std.testing.expectError(error.InvalidFormat, stream.run(0, 0));
    stream = .init(test_stream_words ++ "ffff");
    try std.testing.expectEqualStrings(test_text_words, try stream.run(stream.size, test_text_words.len));
}

test "what encoders do not write" {
    for (test_streams_generated) |case| {
        var stream: TestStream = .init(case.hex);
        const output = try stream.run(stream.size, case.size);
        try std.testing.expectEqual(case.crc, std.hash.Crc32.hash(output));
        try expect_refusals(&stream, case.size);
    }
}

test "damaged streams give a result or an error" {
    var random: std.Random.DefaultPrng = .init(3);
    const sources = [_][]const u8{
        test_stream_words,
        test_stream_flushed,
        test_stream_patterns,
        test_streams_generated[0].hex,
        test_streams_generated[1].hex,
    };
    for (sources) |hex| {
        const whole: TestStream = .init(hex);
        for (0..whole.size * 8) |bit| {
            var stream = whole;
            stream.source[bit >> 3] ^= @as(u8, 1) << @intCast(bit & 7);
            if (bit % 3 == 0) stream.source[random.random().uintLessThan(usize, stream.size)] = random.random().int(u8);
            if (stream.run(stream.size, 200)) |_| {} else |err| try std.testing.expect(err != error.Cancelled);
        }
    }
}

test "windows: 10 to 24 bits, not more" {
    const cases = [_]struct { bits: u8, size: error{NotSupported}!u32 }{
        .{ .bits = 0b0, .size = 1 << 16 },
        .{ .bits = 0b0000001, .size = 1 << 17 },
        .{ .bits = 0b0100001, .size = 1 << 10 },
        .{ .bits = 0b1110001, .size = 1 << 15 },
        .{ .bits = 0b0011, .size = 1 << 18 },
        .{ .bits = 0b1111, .size = 1 << 24 },
        .{ .bits = 0b0010001, .size = error.NotSupported },
    };
    defer interrupt.forget();
    for (cases) |case| {
        var source: [1 + slack_bytes]u8 = @splat(0);
        source[0] = case.bits;
        var bits: BitReader = .init(source[0..1]);
        if (case.size) |size| {
            try std.testing.expectEqual(size - 16, try read_window_size(&bits));
        } else |err| try std.testing.expectError(err, read_window_size(&bits));
    }
}

test "cancelled" {
    interrupt.control.cancel = 1;
    defer interrupt.control.cancel = 0;
    var stream: TestStream = .init(test_stream_flushed);
    try std.testing.expectError(error.Cancelled, stream.run(stream.size, 16));
}

test copy_match {
    for (1..40) |distance| for ([_]usize{ 1, 2, 3, 15, 16, 17, 31, 32, 33, 100 }) |size| {
        var bytes: [256]u8 = undefined;
        for (&bytes, 0..) |*byte, index| byte.* = @truncate(index * 7);
        var expected = bytes;
        for (64..64 + size) |index| expected[index] = expected[index - distance];
        copy_match(@intFromPtr(&bytes) + 64, distance, size);
        try std.testing.expectEqualSlices(u8, expected[0 .. 64 + size], bytes[0 .. 64 + size]);
        try std.testing.expectEqualSlices(u8, expected[64 + size + 32 ..], bytes[64 + size + 32 ..]);
    };
}

test "block sizes are those of the RFC" {
    try std.testing.expectEqual(16625, block_size_bases[25]);
}

test move_to_front {
    var map = [_]u8{ 0, 1, 1, 2, 0, 255, 0 };
    move_to_front(&map);
    try std.testing.expectEqualSlices(u8, &.{ 0, 1, 0, 2, 2, 255, 255 }, &map);
}
