//! Root of the benchmark's module: one door per decoder, called by benchmarks/codecs.py.
//!
//! The engine does not export its decoders, and a call from Python costs as much as a small page, so
//! every door repeats its work as often as it is told. It returns 0, or the number of an error.
//! Callers leave 64 bytes readable behind sources and writable behind targets.
const std = @import("std");
const brotli = @import("codec/brotli.zig");
const gzip = @import("codec/gzip.zig");
const lz4 = @import("codec/lz4.zig");
const rle = @import("encoding/rle.zig");
const snappy = @import("codec/snappy.zig");
const zstd = @import("codec/zstd.zig");

/// Never freed: the module lives as long as the benchmark.
export fn bench_alloc(size: usize) ?[*]u8 {
    const bytes = std.heap.wasm_allocator.alignedAlloc(u8, .@"64", size) catch return null;
    return bytes.ptr;
}

export fn bench_zstd(source: [*]const u8, source_size: usize, target: [*]u8, target_size: usize, rounds: u32) u32 {
    return repeat_codec(zstd, source, source_size, target[0..target_size], rounds);
}

export fn bench_gzip(source: [*]const u8, source_size: usize, target: [*]u8, target_size: usize, rounds: u32) u32 {
    return repeat_codec(gzip, source, source_size, target[0..target_size], rounds);
}

export fn bench_lz4(source: [*]const u8, source_size: usize, target: [*]u8, target_size: usize, rounds: u32) u32 {
    return repeat_codec(lz4, source, source_size, target[0..target_size], rounds);
}

export fn bench_snappy(source: [*]const u8, source_size: usize, target: [*]u8, target_size: usize, rounds: u32) u32 {
    return repeat_codec(snappy, source, source_size, target[0..target_size], rounds);
}

export fn bench_brotli(source: [*]const u8, source_size: usize, target: [*]u8, target_size: usize, rounds: u32) u32 {
    return repeat_codec(brotli, source, source_size, target[0..target_size], rounds);
}

export fn bench_hybrid(
    source: [*]const u8,
    source_size: usize,
    target: [*]u32,
    count: u32,
    width: u8,
    rounds: u32,
) u32 {
    return repeat_hybrid(rle.Decoder.read, source, source_size, target[0..count], width, rounds);
}

/// The same values one by one, for comparison.
export fn bench_hybrid_scalar(
    source: [*]const u8,
    source_size: usize,
    target: [*]u32,
    count: u32,
    width: u8,
    rounds: u32,
) u32 {
    return repeat_hybrid(rle.Decoder.read_scalar, source, source_size, target[0..count], width, rounds);
}

fn repeat_codec(comptime codec: type, source: [*]const u8, source_size: usize, target: []u8, rounds: u32) u32 {
    for (0..rounds) |_| {
        codec.decompress(opaque_source(source)[0..source_size], target) catch |fault| return error_number(fault);
    }
    return 0;
}

fn repeat_hybrid(
    comptime read: anytype,
    source: [*]const u8,
    source_size: usize,
    target: []u32,
    width: u8,
    rounds: u32,
) u32 {
    for (0..rounds) |_| {
        read_once(read, opaque_source(source)[0..source_size], target, width) catch |fault| return error_number(fault);
    }
    return 0;
}

fn read_once(comptime read: anytype, source: []const u8, target: []u32, width: u8) rle.Error!void {
    var decoder: rle.Decoder = try .init(source, width);
    try read(&decoder, target);
}

/// The compiler must not know that every round reads the same bytes: it would run one round.
inline fn opaque_source(source: [*]const u8) [*]const u8 {
    var address = source;
    const volatile_address: *volatile [*]const u8 = &address;
    return volatile_address.*;
}

fn error_number(fault: error{ InvalidFormat, NotSupported, Cancelled }) u32 {
    return switch (fault) {
        error.InvalidFormat => 1,
        error.NotSupported => 2,
        error.Cancelled => 3,
    };
}
