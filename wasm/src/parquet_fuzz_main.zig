//! Mutated Parquet files by the million: none may do more than fail.
//!
//!     fuzz_parquet [--seed S] [--first I] [--count N] [--block-max BYTES] [--failures DIRECTORY] FILE …
//!     fuzz_parquet --emit DIRECTORY … inputs become files there, read without a filter, a line of each
//!     fuzz_parquet --read FILE …      reads files as they are, in every way, and says what came of it
//!
//! Input I of a seed is always the same, so `--seed S --first I --count 1` replays it; it is also
//! written to the failures' directory when it crashes, hangs or leaves memory behind. The last line is
//! a JSON object of how inputs ended.
//!
//! Every input has 256 MiB. After a second of its own processor time the cancel byte is set: slow
//! inputs must then end soon, and are counted. Every sixteenth input lives in memory where each block
//! ends at an unreadable page.
const std = @import("std");
const builtin = @import("builtin");
const fuzz = @import("parquet_fuzz.zig");
const interrupt = @import("core/interrupt.zig");
const memory = @import("fuzz_memory.zig");
const mutate = @import("parquet_mutate.zig");
const Allocator = std.mem.Allocator;
const Io = std.Io;
const linux = std.os.linux;

pub const panic = std.debug.FullPanic(on_panic);

const memory_limit = 256 << 20;
const sample_size_max = 256 << 10;
/// Larger samples are drawn less often: they take longer and are mostly more of the same.
const sample_size_common = 32 << 10;
/// As the engine has in WebAssembly.
const stack_size = 1 << 20;

const tick_microseconds = 100_000;
const cancel_ticks = 10;
const hang_ticks = 30;

const Arguments = struct {
    seed: u64 = 0,
    first: u64 = 0,
    count: u64 = 10_000,
    /// Panics where more is asked for at once.
    @"block-max": u64 = std.math.maxInt(u64),
    failures: []const u8 = ".",
    emit: []const u8 = "",
    read: bool = false,
    files: []const []const u8 = &.{},
};

/// How an input ended.
const Ending = enum { rows, cut, invalid_format, not_supported, memory_exceeded, too_large, out_of_range, cancelled };

// What a signal handler or a panic wants to know.
var current_seed: u64 = 0;
var current_index: u64 = 0;
var current_input: []const u8 = &.{};
var failures_directory: []const u8 = ".";
var ticks_of_input: u32 = 0;
var is_reported = false;

pub fn main(init: std.process.Init) !void {
    const arguments = try parse_arguments(
        init.arena.allocator(),
        try init.minimal.args.toSlice(init.arena.allocator()),
    );
    failures_directory = arguments.failures;
    current_seed = arguments.seed;
    var runner: Runner = .{ .io = init.io, .arena = init.arena.allocator(), .arguments = arguments };
    const thread = try std.Thread.spawn(.{ .stack_size = stack_size }, Runner.run, .{&runner});
    thread.join();
    if (runner.failure) |reason| return reason;
}

fn parse_arguments(arena: Allocator, given: []const [:0]const u8) !Arguments {
    var arguments: Arguments = .{};
    var files: std.ArrayList([]const u8) = .empty;
    var i: usize = 1;
    while (i < given.len) : (i += 1) {
        if (std.mem.eql(u8, given[i], "--read")) {
            arguments.read = true;
        } else if (std.mem.startsWith(u8, given[i], "--")) {
            if (i + 1 == given.len) return error.MissingValue;
            i += 1;
            try set_option(&arguments, given[i - 1][2..], given[i]);
        } else try files.append(arena, given[i]);
    }
    arguments.files = files.items;
    return arguments;
}

fn set_option(arguments: *Arguments, name: []const u8, value: []const u8) !void {
    inline for (.{ "seed", "first", "count", "block-max" }) |known| {
        if (std.mem.eql(u8, name, known)) {
            @field(arguments, known) = try std.fmt.parseInt(u64, value, 0);
            return;
        }
    }
    inline for (.{ "failures", "emit" }) |known| {
        if (std.mem.eql(u8, name, known)) {
            @field(arguments, known) = value;
            return;
        }
    }
    return error.UnknownOption;
}

const Runner = struct {
    io: Io,
    arena: Allocator,
    arguments: Arguments,
    failure: ?anyerror = null,
    counts: std.enums.EnumArray(Ending, u64) = .initFill(0),
    guarded_count: u64 = 0,
    /// The largest block that an input asked for, and which one.
    largest: usize = 0,
    largest_index: u64 = 0,

    fn run(self: *Runner) void {
        watch();
        (if (self.arguments.read) self.read_files() else self.fuzz_files()) catch |reason| {
            self.failure = reason;
        };
    }

    fn fuzz_files(self: *Runner) !void {
        var samples: std.ArrayList(mutate.Sample) = .empty;
        for (self.arguments.files) |path| {
            const bytes = Io.Dir.cwd().readFileAlloc(
                self.io,
                path,
                self.arena,
                .limited(sample_size_max),
            ) catch |reason| switch (reason) {
                error.StreamTooLong => continue,
                else => return reason,
            };
            try samples.append(self.arena, try .init(self.arena, std.fs.path.basename(path), bytes));
        }
        if (samples.items.len == 0) return error.NoSamples;
        var mutator: mutate.Mutator = .{ .gpa = std.heap.smp_allocator, .samples = samples.items };
        defer mutator.deinit();
        for (self.arguments.first..self.arguments.first + self.arguments.count) |index|
            try self.fuzz_one(&mutator, index);
        try self.report(samples.items.len);
    }

    fn fuzz_one(self: *Runner, mutator: *mutate.Mutator, index: u64) !void {
        var generator: std.Random.DefaultPrng = .init(
            std.hash.int(self.arguments.seed) ^ std.hash.int(index +% 0x9E37_79B9),
        );
        const random = generator.random();
        const sample = pick_sample(mutator.samples, random);
        begin_input(index, &.{});
        const input = try mutator.make(sample, random);
        begin_input(index, input);
        if (self.arguments.emit.len > 0) return self.emit(input, index);
        const way = random.int(u32);
        var options = pick_options(random);
        const summary = self.read_one(input, options, way % 16 == 0);
        if (summary == null or summary.?.is_cut or way >> 4 & 7 != 0) return;
        // Other windows, the same rows.
        options.window_size = if (options.window_size > 4096) 64 else 1 << 24;
        const again = self.read_one(input, options, false) orelse
            std.debug.panic("the file was read with one window and not with another: {s}", .{fuzz.detail()});
        if (again.row_count != summary.?.row_count or again.checksum != summary.?.checksum)
            @panic("other windows give other rows");
    }

    fn read_one(self: *Runner, input: []const u8, options: fuzz.Options, guarded: bool) ?fuzz.Summary {
        self.guarded_count += @intFromBool(guarded);
        var limited: memory.Limited = .{
            .backing = if (guarded) memory.Guarded.allocator else std.heap.smp_allocator,
            .limit = memory_limit,
            .block_max = self.arguments.@"block-max",
        };
        defer if (limited.live != 0) std.debug.panic("{d} bytes were not freed", .{limited.live});
        defer if (limited.largest > self.largest) {
            self.largest = limited.largest;
            self.largest_index = current_index;
        };
        const summary = fuzz.read_file(limited.allocator(), input, options) catch |reason| {
            self.counts.getPtr(ending_of(reason)).* += 1;
            return null;
        };
        self.counts.getPtr(if (summary.is_cut) .cut else .rows).* += 1;
        return summary;
    }

    /// For readers elsewhere that should come to the same end.
    fn emit(self: *Runner, input: []const u8, index: u64) !void {
        var buffer: [1024]u8 = undefined;
        var writer: Io.Writer = .fixed(&buffer);
        try writer.print("{s}/{d}.parquet", .{ self.arguments.emit, index });
        try Io.Dir.cwd().writeFile(self.io, .{ .sub_path = writer.buffered(), .data = input });
        try self.read_shown(writer.buffered(), input, .{}, false);
    }

    fn report(self: *Runner, sample_count: usize) !void {
        var buffer: [1024]u8 = undefined;
        var writer: Io.Writer = .fixed(&buffer);
        const arguments = &self.arguments;
        try writer.print(
            "{{\"seed\": {d}, \"first\": {d}, \"count\": {d}, \"samples\": {d}, ",
            .{ arguments.seed, arguments.first, arguments.count, sample_count },
        );
        try writer.print(
            "\"guarded\": {d}, \"largest\": {d}, \"largest_index\": {d}, \"counts\": {{",
            .{ self.guarded_count, self.largest, self.largest_index },
        );
        for (std.enums.values(Ending), 0..) |ending, i| {
            try writer.print("{s}\"{t}\": {d}", .{ if (i == 0) "" else ", ", ending, self.counts.get(ending) });
        }
        try writer.writeAll("}}\n");
        try Io.File.stdout().writeStreamingAll(self.io, writer.buffered());
    }

    // ---- files as they are ----

    fn read_files(self: *Runner) !void {
        for (self.arguments.files, 0..) |path, i| {
            const bytes = try Io.Dir.cwd().readFileAlloc(self.io, path, self.arena, .limited(memory_limit));
            for (0..12) |number| {
                begin_input(i, bytes);
                try self.read_shown(path, bytes, read_options(@intCast(number)), number / 2 % 2 == 1);
            }
        }
    }

    /// `name, ending, rows, bytes, words`
    fn read_shown(self: *Runner, path: []const u8, bytes: []const u8, options: fuzz.Options, guarded: bool) !void {
        const before = self.counts;
        const summary = self.read_one(bytes, options, guarded) orelse fuzz.Summary{};
        const ending = for (std.enums.values(Ending)) |ending| {
            if (self.counts.get(ending) != before.get(ending)) break ending;
        } else unreachable;
        var buffer: [2048]u8 = undefined;
        var writer: Io.Writer = .fixed(&buffer);
        try writer.print(
            "{s}, {t}, {d}, {d}, {s}\n",
            .{ std.fs.path.basename(path), ending, summary.row_count, summary.need_size, fuzz.detail() },
        );
        try Io.File.stdout().writeStreamingAll(self.io, writer.buffered());
    }
};

fn read_options(number: u32) fuzz.Options {
    const windows = [_]u64{ 64, 4096, 1 << 24 };
    return .{
        .window_size = windows[number % 3],
        .filter = if (number < 4) null else number / 2 - 2,
        .filter_first = number % 2 == 0,
        .verify_crc = number % 5 == 0,
        .plan_first = number % 4 == 0,
    };
}

fn pick_sample(samples: []const mutate.Sample, random: std.Random) *const mutate.Sample {
    for (0..8) |_| {
        const sample = &samples[random.uintLessThan(usize, samples.len)];
        if (sample.bytes.len <= sample_size_common) return sample;
    }
    return &samples[random.uintLessThan(usize, samples.len)];
}

fn pick_options(random: std.Random) fuzz.Options {
    const windows = [_]u64{ 64, 256, 4096, 1 << 16, 1 << 24, 1 << 24 };
    return .{
        .window_size = windows[random.uintLessThan(usize, windows.len)],
        .filter = if (random.boolean()) random.int(u16) else null,
        .filter_first = random.boolean(),
        .verify_crc = random.uintLessThan(u8, 16) == 0,
        .plan_first = random.uintLessThan(u8, 8) == 0,
    };
}

/// A file can be blamed for these and for no others.
fn ending_of(reason: fuzz.Error) Ending {
    return switch (reason) {
        error.InvalidFormat => .invalid_format,
        error.NotSupported => .not_supported,
        error.OutOfMemory => .memory_exceeded,
        error.TooLarge => .too_large,
        error.OutOfRange => .out_of_range,
        error.Cancelled => .cancelled,
        error.InvalidAggregate, error.InvalidFilter, error.InvalidPlan, error.SchemaMismatch => std.debug.panic(
            "the host is blamed: {t}, {s}",
            .{ reason, fuzz.detail() },
        ),
    };
}

// ---- crashes and hangs ----

fn begin_input(index: u64, input: []const u8) void {
    current_index = index;
    current_input = input;
    interrupt.control.cancel = 0;
    @atomicStore(u32, &ticks_of_input, 0, .monotonic);
}

/// Signals land on a stack of their own: the usual one may be what ran out.
fn watch() void {
    if (builtin.os.tag != .linux) return;
    const state = struct {
        var stack: [256 << 10]u8 align(16) = undefined;
    };
    std.posix.sigaltstack(&.{ .sp = &state.stack, .size = state.stack.len, .flags = 0 }, null) catch {};
    const crash: std.posix.Sigaction = .{
        .handler = .{ .handler = on_crash },
        .mask = std.posix.sigemptyset(),
        .flags = linux.SA.ONSTACK | linux.SA.RESETHAND,
    };
    inline for (.{ .SEGV, .BUS, .ILL, .FPE }) |signal| std.posix.sigaction(signal, &crash, null);
    const tick: std.posix.Sigaction = .{
        .handler = .{ .handler = on_tick },
        .mask = std.posix.sigemptyset(),
        .flags = linux.SA.ONSTACK | linux.SA.RESTART,
    };
    std.posix.sigaction(.VTALRM, &tick, null);
    // The call takes microseconds where the type says nanoseconds.
    const every: linux.itimerspec = .{
        .it_interval = .{ .sec = 0, .nsec = tick_microseconds },
        .it_value = .{ .sec = 0, .nsec = tick_microseconds },
    };
    _ = linux.setitimer(@backingInt(linux.ITIMER.VIRTUAL), &every, null);
}

/// The signal is sent again when the handler returns, and then ends the process.
fn on_crash(signal: std.posix.SIG) callconv(.c) void {
    save_input(@tagName(signal));
}

fn on_tick(_: std.posix.SIG) callconv(.c) void {
    const ticks = @atomicRmw(u32, &ticks_of_input, .Add, 1, .monotonic) + 1;
    if (ticks == cancel_ticks) interrupt.control.cancel = 1;
    if (ticks < hang_ticks) return;
    save_input("hangs");
    std.debug.dumpCurrentStackTrace(.{});
    linux.exit_group(3);
}

fn on_panic(message: []const u8, address: ?usize) noreturn {
    save_input(message);
    std.debug.defaultPanic(message, address);
}

/// System calls only: this runs in signal handlers.
fn save_input(what: []const u8) void {
    if (is_reported) return;
    is_reported = true;
    var buffer: [1024]u8 = undefined;
    const path = std.fmt.bufPrintSentinel(
        &buffer,
        "{s}/parquet_{d}_{d}.bin",
        .{ failures_directory, current_seed, current_index },
        0,
    ) catch return;
    const file: i32 = @bitCast(
        @as(u32, @truncate(linux.open(path, .{ .ACCMODE = .WRONLY, .CREAT = true, .TRUNC = true }, 0o644))),
    );
    if (file >= 0) {
        _ = linux.write(file, current_input.ptr, current_input.len);
        _ = linux.close(file);
    }
    var text: [2048]u8 = undefined;
    const line = std.fmt.bufPrint(
        &text,
        "{s}: --seed {d} --first {d} --count 1, {d} bytes in {s}\n",
        .{ what, current_seed, current_index, current_input.len, path },
    ) catch return;
    _ = linux.write(2, line.ptr, line.len);
}
