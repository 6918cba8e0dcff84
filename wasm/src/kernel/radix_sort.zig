//! Sorts numbers of 64 bits that carry a row in their lower bits: the inner loop of sort and merge.
//!
//! By counting, eight bits at a time, from the lower to the upper digit. Not all bits need a pass: n
//! values that are spread evenly are told apart by little more than log2(n) of their upper bits, and
//! the few that are not lie side by side afterwards and are settled there. How many bits it takes is
//! estimated from a sample. Digits in which all values agree are left out.
const std = @import("std");
const interrupt = @import("../core/interrupt.zig");
const assert = std.debug.assert;

const digit_bits = 8;
const digit_values = 1 << digit_bits;
const passes_max = 6;

/// Bits beyond those that the values take to differ: then about one value in thirty meets another.
const spare_bits = 5;

/// A sample is worth its time for so many values, and then has so many of them.
const sampled_rows_min = 4096;
const sample_size = 128;

/// Up to here insertion beats counting.
const insertion_max = 40;

/// The values in order, in `values` or in `scratch`, whichever they end up in. Values that agree from
/// bit `low` up are in order already.
pub fn sort(values: []u64, scratch: []u64, low: u6) interrupt.Error![]u64 {
    assert(scratch.len >= values.len);
    return sort_bits(values, scratch[0..values.len], low, 64);
}

/// The same for values that agree from bit `high` up.
fn sort_bits(values: []u64, scratch: []u64, low: u6, high: u7) interrupt.Error![]u64 {
    if (values.len <= insertion_max) {
        insertion_sort(values);
        return values;
    }
    const wanted = @min(high - low, differing_bits(values, low, high) + spare_bits);
    const passes: u7 = @min((wanted + digit_bits - 1) / digit_bits, passes_max);
    const first: u6 = @intCast(@max(high -| passes * digit_bits, low));
    const sorted = switch (passes) {
        0 => values,
        inline 1...passes_max => |count| try sort_digits(count, values, scratch, first),
        else => unreachable,
    };
    if (first > low) try settle(sorted, if (sorted.ptr == values.ptr) scratch else values, low, first);
    return sorted;
}

/// Bits below `high` in which most values differ from their neighbours in the order.
fn differing_bits(values: []const u64, low: u6, high: u7) u7 {
    const even: u7 = @intCast(64 - @clz(@as(u64, values.len) - 1));
    if (values.len < sampled_rows_min or high - low <= even) return even;
    var sample: [sample_size]u64 = undefined;
    const step = values.len / sample_size;
    for (&sample, 0..) |*value, i| value.* = values[i * step] >> low;
    insertion_sort(&sample);
    // How many bits neighbours agree in. The values that lie between them agree in more.
    var agreeing: [64]u32 = @splat(0);
    var distinct: u32 = 0;
    for (sample[1..], sample[0 .. sample_size - 1]) |a, b| {
        if (a == b) continue;
        agreeing[high - low - (64 - @clz(a ^ b))] += 1;
        distinct += 1;
    }
    var bits: u7 = 0;
    var seen: u32 = 0;
    while (bits < 63) : (bits += 1) {
        seen += agreeing[bits];
        if (seen * 8 >= distinct * 7) break;
    }
    return @min(bits + 64 - @clz(@as(u64, step)), 64);
}

/// Counting passes over `count` digits from bit `first` up. Never inlined: the callers recurse, and
/// the counters would stay on the stack.
noinline fn sort_digits(comptime count: usize, values: []u64, scratch: []u64, first: u6) interrupt.Error![]u64 {
    var starts: [count][digit_values]u32 = @splat(@splat(0));
    var blocks = std.mem.window(u64, values, interrupt.block_rows, interrupt.block_rows);
    while (blocks.next()) |block| {
        try interrupt.check();
        for (block) |value| {
            inline for (0..count) |digit| starts[digit][digit_of(value, first, digit)] += 1;
        }
    }
    var from = values;
    var to = scratch;
    inline for (0..count) |digit| {
        if (starts[digit][digit_of(from[0], first, digit)] != values.len) {
            try scatter(from, to, &starts[digit], first, digit);
            std.mem.swap([]u64, &from, &to);
        }
    }
    return from;
}

inline fn digit_of(value: u64, first: u6, digit: usize) usize {
    // The last digit may begin so high that a shift would pass the value's end.
    return @intCast((value >> first >> @intCast(digit * digit_bits)) & (digit_values - 1));
}

fn scatter(
    from: []const u64,
    to: []u64,
    starts: *[digit_values]u32,
    first: u6,
    comptime digit: usize,
) interrupt.Error!void {
    var position: u32 = 0;
    for (starts) |*start| {
        const count = start.*;
        start.* = position;
        position += count;
    }
    var blocks = std.mem.window(u64, from, interrupt.block_rows, interrupt.block_rows);
    while (blocks.next()) |block| {
        try interrupt.check();
        for (block) |value| {
            const start = &starts[digit_of(value, first, digit)];
            to.ptr[start.*] = value;
            start.* += 1;
        }
    }
}

/// Sorts, within values that agree from bit `high` up and stand side by side, the bits from `low` on.
fn settle(values: []u64, scratch: []u64, low: u6, high: u6) interrupt.Error!void {
    var at: usize = 1;
    var checked: usize = 0;
    while (at < values.len) : (at += 1) {
        if (at - checked >= interrupt.block_rows) {
            checked = at;
            try interrupt.check();
        }
        if ((values[at] ^ values[at - 1]) >> high != 0) continue;
        const start = at - 1;
        while (at < values.len and (values[at] ^ values[start]) >> high == 0) at += 1;
        const run = values[start..at];
        const sorted = try sort_bits(run, scratch[start..at], low, high);
        if (sorted.ptr != run.ptr) @memcpy(run, sorted);
    }
}

fn insertion_sort(values: []u64) void {
    for (1..@max(values.len, 1)) |i| {
        const value = values[i];
        var place = i;
        while (place > 0 and values[place - 1] > value) : (place -= 1) values[place] = values[place - 1];
        values[place] = value;
    }
}

test sort {
    var prng: std.Random.DefaultPrng = .init(3);
    const random = prng.random();
    var values: [3000]u64 = undefined;
    var scratch: [3000]u64 = undefined;
    var expected: [3000]u64 = undefined;
    for ([_]usize{ 0, 1, 2, insertion_max, insertion_max + 1, 300, 3000 }) |n| {
        for ([_]u64{ 0, 1, 0xFF, 0xFF00_0000, 0xF000_0000_0000_0001, std.math.maxInt(u64) }) |mask| {
            for ([_]u6{ 12, 40, 63 }) |low| {
                for (values[0..n], 0..) |*value, i| {
                    // A few values are frequent, so that long runs agree in their upper bits.
                    const bits = if (random.boolean()) random.int(u64) else random.uintLessThan(u64, 3) << 60;
                    value.* = ((bits & mask) >> low << low) | i;
                }
                @memcpy(expected[0..n], values[0..n]);
                std.sort.block(u64, expected[0..n], {}, std.sort.asc(u64));
                try std.testing.expectEqualSlices(u64, expected[0..n], try sort(values[0..n], &scratch, low));
            }
        }
    }
}
