//! Reads a Parquet file that lies in memory the way a host would, and watches the engine's side of it.
//!
//!     tail → flatten → File → [statistics] → Scan of each row group ⇄ segments → QMCB
//!
//! Whatever the bytes are, reading ends with rows or with one of the errors that a file can be blamed
//! for. What cannot be the file's fault is a panic here: bytes asked for outside of the file, a step
//! that asks again for what it was given, an answer that is not QMCB, memory that stays behind (the
//! caller looks). Segments are followed by 64 readable bytes and not one more, and those that the
//! scan has forgotten are freed, as hosts do.
//!
//! parquet_mutate.zig makes files that are nearly valid, parquet_fuzz_main.zig runs them by the million.
const std = @import("std");
const abi = @import("abi.zig");
const flatten = @import("format/parquet/flatten.zig");
const footer = @import("format/parquet/footer.zig");
const interrupt = @import("core/interrupt.zig");
const metadata = @import("format/parquet/metadata.zig");
const page_list = @import("format/parquet/page_list.zig");
const pipeline = @import("pipeline.zig");
const plan_module = @import("plan/plan.zig");
const bounds = @import("scan/bounds.zig");
const columns_module = @import("scan/columns.zig");
const evidence = @import("format/evidence.zig");
const qmcb = @import("qmcb.zig");
const driver = @import("scan/driver.zig");
const segments = @import("format/segments.zig");
const schema = @import("core/schema.zig");
const statistics = @import("format/parquet/statistics.zig");
const Allocator = std.mem.Allocator;
const Arena = @import("core/arena.zig").Arena;
const Column = @import("core/column.zig").Column;
const Cursor = @import("core/cursor.zig").Cursor;
const DataType = schema.DataType;
const File = @import("format/parquet/file.zig").File;
const Query = pipeline.Query;
const Scan = driver.Scan;
const assert = std.debug.assert;

pub const Error = driver.Error || flatten.Error;

pub const Options = struct {
    /// Bytes of a chunk that are asked for at once.
    window_size: u64 = 1 << 24,
    /// Which of the filters to use; null: all rows. The filter's columns and the pages that it
    /// rules out are chosen by it, too.
    filter: ?u32 = null,
    filter_first: bool = false,
    verify_crc: bool = false,
    /// Ask what would be read before it is.
    plan_first: bool = false,
    /// What the host reads is kept here; the engine's own memory is `gpa`.
    segments: ?Allocator = null,
    /// A few bytes of NULLs may honestly be billions of rows: no more are read.
    row_count_max: u64 = 1 << 20,
};

pub const Summary = struct {
    row_count: u64 = 0,
    /// Ranges and bytes that were asked for.
    need_count: u64 = 0,
    need_size: u64 = 0,
    /// Of all answers: the same file gives the same, however its bytes arrive.
    checksum: u64 = 0,
    /// There were more rows than asked for.
    is_cut: bool = false,
};

/// Readable behind every segment.
const slack = 64;
/// Answers that are longer are not decoded again.
const checked_size_max = 4 << 20;
/// Bytes of a filter's value.
const literal_size_max = 64;
/// Steps between two answers; each brings bytes that were not there.
const step_count_max = 1 << 16;

pub fn read_file(gpa: Allocator, bytes: []const u8, options: Options) Error!Summary {
    interrupt.forget();
    const file = try open_file(gpa, bytes);
    defer file.close();
    var reading: Reading =
        .{ .gpa = gpa, .host = options.segments orelse gpa, .bytes = bytes, .file = file, .options = options };
    try reading.read_rows();
    return reading.summary;
}

fn open_file(gpa: Allocator, bytes: []const u8) Error!*File {
    if (bytes.len < 12) return error.InvalidFormat;
    const size = try footer.check_tail(bytes[bytes.len - 8 ..][0..8]);
    if (size > bytes.len - 8) return error.InvalidFormat;
    var arena: Arena = .init(gpa);
    defer arena.deinit();
    const blob = try flatten.flatten(arena.allocator(), bytes[bytes.len - 8 - size ..][0..size], bytes.len);
    return File.open(gpa, blob) catch |reason| switch (reason) {
        error.OutOfMemory => error.OutOfMemory,
        error.InvalidFormat => std.debug.panic("a footer that was just flattened is refused: {s}", .{detail()}),
    };
}

pub fn detail() []const u8 {
    return interrupt.control.detail.message[0..interrupt.control.detail.message_size];
}

const Held = struct { bytes: []u8 };

/// Segments that a scan still knows.
const Used = struct {
    gpa: Allocator,
    known: std.AutoHashMapUnmanaged([*]const u8, void) = .empty,

    pub fn segment(self: *Used, used: segments.Segment) error{OutOfMemory}!void {
        try self.known.put(self.gpa, used.bytes.ptr, {});
    }
};

const Reading = struct {
    gpa: Allocator,
    host: Allocator,
    bytes: []const u8,
    file: *File,
    options: Options,
    held: std.ArrayList(Held) = .empty,
    steps: u32 = 0,
    /// A hash of what the last step asked for.
    asked_before: u64 = 0,
    summary: Summary = .{},

    fn read_rows(self: *Reading) Error!void {
        var arena: Arena = .init(self.gpa);
        defer arena.deinit();
        const filter = if (self.options.filter) |number| choose_filter(self.file, number) else null;
        const query: *Query = try .open(self.gpa, try write_plan(arena.allocator(), self.file, filter), &.{});
        defer query.close();
        const pruning: ?*Query = if (filter) |chosen|
            try .open(self.gpa, try write_prune_plan(arena.allocator(), chosen), &.{})
        else
            null;
        defer if (pruning) |open| open.close();
        if (pruning) |open| try self.look_around(arena.allocator(), open, filter.?);
        const prune_by: ?bounds.Prune = if (pruning) |open| .{
            .predicate = open.plan.nodes[0].predicate().?,
            .bindings = &.{.{ .place = filter.?.column }},
            .probes = try write_probes(arena.allocator(), &filter.?),
            .types = &.{filter.?.type},
        } else null;
        for (0..self.file.footer.row_group_count) |group| {
            if (self.summary.is_cut) break;
            if (self.options.plan_first)
                try self.read_row_group(arena.allocator(), query, prune_by, @intCast(group), true);
            try self.read_row_group(arena.allocator(), query, prune_by, @intCast(group), false);
        }
        try self.take(query, try query.finish());
    }

    /// What `qm_prune` and `qm_pages` do.
    fn look_around(self: *Reading, arena: Allocator, pruning: *Query, filter: Filter) Error!void {
        const file = self.file;
        const columns = try bounds.piece_columns(
            arena,
            .{ .of = .{ .parquet = file } },
            &.{.{ .place = filter.column }},
            &.{filter.type},
        );
        _ = try bounds.survivors(arena, pruning.plan.nodes[0].predicate().?, columns, file.footer.row_group_count);
        defer self.release_all();
        for (0..@min(file.footer.row_group_count, 4)) |group| {
            const chunk = file.footer.chunk(@intCast(group), filter.leaf);
            const pages = try self.hold(chunk.start, @intCast(@min(chunk.compressed_size, 1 << 16)));
            _ = page_list.list(arena, pages) catch |reason| switch (reason) {
                error.InvalidFormat => {},
                else => |known| return known,
            };
        }
    }

    fn read_row_group(
        self: *Reading,
        arena: Allocator,
        query: *Query,
        pruning: ?bounds.Prune,
        group: u32,
        plan_only: bool,
    ) Error!void {
        const inputs = try arena.alloc(columns_module.Input, self.file.nodes.len);
        for (inputs, 0..) |*input, node| input.* = .{ .place = @intCast(node) };
        defer self.release_all();
        const scan: *Scan = try .open(self.gpa, query, .{ .of = .{ .parquet = self.file } }, inputs, pruning, .{
            .piece = group,
            .window_size = self.options.window_size,
            .verify_crc = self.options.verify_crc,
            .filter_first = self.options.filter_first,
            .plan_only = plan_only,
        });
        defer scan.close();
        self.steps = 0;
        self.asked_before = 0;
        while (!self.summary.is_cut) switch (try scan.step()) {
            .need_bytes => try self.bring(scan),
            .output => try self.take(query, query.hand_over()),
            .done => return self.take(query, query.hand_over()),
        };
    }

    fn bring(self: *Reading, scan: *Scan) Error!void {
        self.steps += 1;
        if (self.steps > step_count_max) std.debug.panic("a scan still asks for bytes after {d} steps", .{self.steps});
        // Once it may ask for none: its rows wait for their turn. Twice would be the same as before, below.
        try self.release_forgotten(scan);
        var asked: u64 = 1;
        for (scan.needs.items) |need| {
            const range = need.range;
            if (range.offset > self.bytes.len or range.size > self.bytes.len - range.offset)
                std.debug.panic(
                    "bytes {d} + {d} are asked for, the file has {d}",
                    .{ range.offset, range.size, self.bytes.len },
                );
            asked = std.hash.int(asked ^ range.offset) ^ std.hash.int(range.size << 32 | need.owner);
        }
        if (asked == self.asked_before) std.debug.panic("a scan asks for what it was just given", .{});
        self.asked_before = asked;
        for (scan.needs.items) |need| {
            const range = need.range;
            self.summary.need_count += 1;
            self.summary.need_size += range.size;
            const segment = try self.hold(range.offset, @intCast(range.size));
            try scan.add_segment(need.owner, .{ .offset = range.offset, .bytes = segment });
        }
    }

    /// A copy of some bytes of the file, with other bytes behind them.
    fn hold(self: *Reading, offset: u64, size: usize) error{OutOfMemory}![]const u8 {
        try self.held.ensureUnusedCapacity(self.gpa, 1);
        const copy = try self.host.alloc(u8, size + slack);
        @memcpy(copy[0..size], self.bytes[@intCast(offset)..][0..size]);
        @memset(copy[size..], 0xA5);
        self.held.appendAssumeCapacity(.{ .bytes = copy });
        return copy[0..size];
    }

    /// Frees what no reader of the scan knows any more.
    fn release_forgotten(self: *Reading, scan: *const Scan) error{OutOfMemory}!void {
        var used: Used = .{ .gpa = self.gpa };
        defer used.known.deinit(self.gpa);
        try scan.reader.each_segment(&used);
        var kept: usize = 0;
        for (self.held.items) |held| {
            if (!used.known.contains(held.bytes.ptr)) {
                self.host.free(held.bytes);
                continue;
            }
            self.held.items[kept] = held;
            kept += 1;
        }
        self.held.shrinkRetainingCapacity(kept);
    }

    fn release_all(self: *Reading) void {
        for (self.held.items) |held| self.host.free(held.bytes);
        self.held.clearAndFree(self.gpa);
    }

    fn take(self: *Reading, query: *Query, first: pipeline.Output) Error!void {
        self.steps = 0;
        var output = first;
        while (true) {
            if (output.bytes.len > 0) try self.check(output);
            if (output.state != .more_output) return;
            output = try query.next();
        }
    }

    fn check(self: *Reading, output: pipeline.Output) Error!void {
        self.summary.row_count += output.row_count;
        self.summary.is_cut = self.summary.row_count > self.options.row_count_max;
        if (output.bytes.len > checked_size_max) return;
        self.summary.checksum = std.hash.Wyhash.hash(self.summary.checksum, output.bytes);
        var arena: Arena = .init(self.gpa);
        defer arena.deinit();
        const decoded = qmcb.decode(arena.allocator(), output.bytes) catch |reason| switch (reason) {
            error.OutOfMemory, error.Cancelled => |known| return known,
            error.InvalidFormat => std.debug.panic("an answer is not QMCB: {s}", .{detail()}),
        };
        assert(decoded.batch.row_count == output.row_count);
    }
};

// ---- filters ----

/// `column op value`, or IS NOT NULL where values cannot be compared.
const Filter = struct {
    column: u32,
    leaf: u32,
    type: DataType,
    op: ?abi.CompareOp,
    value: [literal_size_max]u8 = @splat(0),
    value_size: usize = 0,
};

/// The `number`-th filter that a file allows: every column at the top that has one leaf, compared
/// with a bound of one of its row groups. Null when there is no such column.
fn choose_filter(file: *const File, number: u32) ?Filter {
    const node_count: u32 = @intCast(file.nodes.len);
    if (node_count == 0) return null;
    for (0..node_count) |i| {
        const column = (number + @as(u32, @intCast(i))) % node_count;
        const node = &file.nodes[column];
        if (!node.is_leaf() or file.leaves[node.leaf_first].max_repetition > 0) continue;
        var filter: Filter = .{ .column = column, .leaf = node.leaf_first, .type = node.type, .op = null };
        const ops = [_]?abi.CompareOp{ .gte, .lte, .eq, .neq, null };
        filter.op = ops[number / node_count % ops.len];
        if (!choose_value(file, &filter, number)) filter.op = null;
        return filter;
    }
    return null;
}

/// A value of the column's type: a bound if there is one, else zeros. False where there is none.
fn choose_value(file: *const File, filter: *Filter, number: u32) bool {
    const bound = choose_bound(file, filter.leaf, number);
    switch (filter.type.layout()) {
        .none, .list, .structure => return false,
        .bits => filter.value_size = 1,
        .bytes => if (bound) |known| {
            if (filter.type.tag == .utf8 and !std.unicode.utf8ValidateSlice(known.bytes)) return true;
            filter.value_size = @min(known.bytes.len, literal_size_max);
            if (filter.type.tag == .utf8)
                while (filter.value_size < known.bytes.len and known.bytes[filter.value_size] & 0xC0 == 0x80) {
                    filter.value_size -= 1;
                };
            @memcpy(filter.value[0..filter.value_size], known.bytes[0..filter.value_size]);
        },
        .fixed => {
            if (filter.type.value_size() > filter.value.len or filter.type.tag == .f32vec or filter.type.tag == .f16vec)
                return false;
            filter.value_size = @intCast(filter.type.value_size());
        },
        inline .i8, .i16, .i32, .i64, .i128, .u8, .u16, .u32, .u64 => |layout| {
            const T = schema.Scalar(layout);
            const value: T = if (bound) |known| @intCast(known.integer) else 0;
            filter.value_size = @sizeOf(T);
            std.mem.writeInt(T, filter.value[0..@sizeOf(T)], value, .little);
        },
        inline .f16, .f32, .f64 => |layout| {
            const T = schema.Scalar(layout);
            const value: T = if (bound) |known| @floatCast(known.float) else 0;
            filter.value_size = @sizeOf(T);
            @memcpy(filter.value[0..@sizeOf(T)], std.mem.asBytes(&value));
        },
    }
    return true;
}

fn choose_bound(file: *const File, leaf: u32, number: u32) ?statistics.Bound {
    const count = file.footer.row_group_count;
    if (count == 0) return null;
    const known = file.footer.chunk(number % count, leaf).statistics;
    const bytes = (if (number & 8 == 0) known.min else known.max) orelse return null;
    return statistics.decode_bound(&file.leaves[leaf], bytes);
}

// ---- plans ----

const PlanWriter = struct {
    arena: Allocator,
    bytes: std.ArrayList(u8) = .empty,

    fn int(self: *PlanWriter, comptime T: type, number: T) error{OutOfMemory}!void {
        const target = try self.bytes.addManyAsSlice(self.arena, @sizeOf(T));
        std.mem.writeInt(T, target[0..@sizeOf(T)], number, .little);
    }

    fn tag(self: *PlanWriter, known: anytype) error{OutOfMemory}!void {
        try self.int(u8, @backingInt(known));
    }

    fn head(self: *PlanWriter, column_count: usize) error{OutOfMemory}!void {
        try self.int(u32, abi.plan_magic);
        try self.int(u32, abi.version);
        try self.int(u16, 0); // builds
        try self.int(u16, @intCast(column_count));
    }

    fn field(self: *PlanWriter, name: []const u8, kind: DataType) error{OutOfMemory}!void {
        try self.int(u16, @intCast(name.len));
        try self.bytes.appendSlice(self.arena, name);
        try self.data_type(kind);
    }

    fn data_type(self: *PlanWriter, kind: DataType) error{OutOfMemory}!void {
        try self.tag(kind.tag);
        const size: usize = @intCast(schema.type_parameters_size(kind));
        _ = schema.write_type_parameters(try self.bytes.addManyAsSlice(self.arena, size), kind);
    }

    fn column(self: *PlanWriter, index: u32) error{OutOfMemory}!void {
        try self.tag(abi.ExpressionTag.column);
        try self.int(u16, @intCast(index));
    }

    fn value(self: *PlanWriter, filter: *const Filter) error{OutOfMemory}!void {
        try self.data_type(filter.type);
        try self.int(u8, 0);
        if (filter.type.layout() == .bytes) try self.int(u32, @intCast(filter.value_size));
        try self.bytes.appendSlice(self.arena, filter.value[0..filter.value_size]);
    }

    fn compare(self: *PlanWriter, op: abi.CompareOp, index: u32, filter: *const Filter) error{OutOfMemory}!void {
        try self.tag(abi.ExpressionTag.compare);
        try self.tag(op);
        try self.column(index);
        try self.tag(abi.ExpressionTag.literal);
        try self.value(filter);
    }
};

/// All columns of the file, and the rows that pass the filter.
fn write_plan(arena: Allocator, file: *const File, filter: ?Filter) error{OutOfMemory}![]const u8 {
    var writer: PlanWriter = .{ .arena = arena };
    try writer.head(file.nodes.len);
    for (file.nodes) |*node| try writer.field(node.name, node.type);
    try writer.int(u16, @intFromBool(filter != null));
    if (filter) |chosen| {
        try writer.tag(abi.NodeTag.filter);
        if (chosen.op) |op| {
            try writer.compare(op, chosen.column, &chosen);
        } else {
            try writer.tag(abi.ExpressionTag.is_null);
            try writer.int(u8, 1);
            try writer.column(chosen.column);
        }
    }
    return writer.bytes.items;
}

/// The same filter over min, max, null_count, nan_possible, row_count and so on, as querymode/plan/prune.py has it.
fn write_prune_plan(arena: Allocator, filter: Filter) error{OutOfMemory}![]const u8 {
    var writer: PlanWriter = .{ .arena = arena };
    try writer.head(evidence.bound_columns);
    for (0..evidence.bound_columns) |i| try writer.field(&.{@intCast('a' + i)}, switch (i) {
        0, 1 => filter.type,
        2, 4 => .of(.i64),
        else => .of(.bool),
    });
    try writer.int(u16, 1);
    try writer.tag(abi.NodeTag.filter);
    try writer.tag(abi.ExpressionTag.logical_or);
    try writer.int(u16, 2);
    try writer.column(3);
    if (filter.op) |op| switch (op) {
        .gte, .gt => try writer.compare(op, 1, &filter),
        .lte, .lt => try writer.compare(op, 0, &filter),
        .eq => {
            try writer.tag(abi.ExpressionTag.logical_and);
            try writer.int(u16, 2);
            try writer.compare(.lte, 0, &filter);
            try writer.compare(.gte, 1, &filter);
        },
        .neq => {
            try writer.tag(abi.ExpressionTag.logical_or);
            try writer.int(u16, 2);
            try writer.compare(.neq, 0, &filter);
            try writer.compare(.neq, 1, &filter);
        },
    } else {
        try writer.tag(abi.ExpressionTag.compare);
        try writer.tag(abi.CompareOp.lt);
        try writer.column(2);
        try writer.column(4);
    }
    return writer.bytes.items;
}

/// What an equality lets Bloom filters be asked.
fn write_probes(arena: Allocator, filter: *const Filter) Error![]const evidence.Probe {
    if (filter.op != .eq or filter.type.layout() == .bits) return &.{};
    var writer: PlanWriter = .{ .arena = arena };
    try writer.value(filter);
    var cursor: Cursor = .init(writer.bytes.items);
    const values = try arena.alloc(Column, 1);
    values[0] = try plan_module.read_value(arena, &cursor);
    return arena.dupe(evidence.Probe, &.{.{ .binding = 0, .values = values }});
}

const testing = std.testing;
const mutate = @import("parquet_mutate.zig");

/// x: int32, NULL in rows 4 and 5, a dictionary page, a page of codes, a page of values;
/// t: text, three times "a", "bc", "".
pub const test_file = bytes_of(
    "504152311504151815184c1506150000000a000000140000001e0000001500151815182c150c151015061506000004000000" ++
        "08010400020364001500152415242c150615001506150600000200000006010100000002000000030000001500155a155a2c" ++
        "1512150015061506000001000000610200000062630000000001000000610200000062630000000001000000610200000062" ++
        "63000000001504193c35001806736368656d611504001502250218017800150c25001801742500001612191c192c26001c15" ++
        "02191500191801781500161216b20116b201263a2608000026001c150c1915001918017815001612167c167c26ba01000016" ++
        "0016120028056372616674006b00000050415231",
);

fn bytes_of(comptime hex: []const u8) [hex.len / 2]u8 {
    @setEvalBranchQuota(10_000);
    var bytes: [hex.len / 2]u8 = undefined;
    _ = std.fmt.hexToBytes(&bytes, hex) catch unreachable;
    return bytes;
}

test read_file {
    const plain = try read_file(testing.allocator, &test_file, .{});
    try testing.expectEqual(9, plain.row_count);
    for ([_]u64{ 1, 64, 100, 1 << 20 }) |window_size| {
        const other = try read_file(testing.allocator, &test_file, .{ .window_size = window_size });
        try testing.expectEqual(plain.checksum, other.checksum);
    }
    const cut = try read_file(testing.allocator, &test_file, .{ .row_count_max = 3 });
    try testing.expect(cut.is_cut);
    // x >= 0, t >= "", x <= 0, …
    for ([_]u64{ 7, 9, 0, 3 }, 0..) |row_count, filter| for ([_]bool{ false, true }) |filter_first| {
        const filtered = try read_file(testing.allocator, &test_file, .{
            .filter = @intCast(filter),
            .filter_first = filter_first,
        });
        try testing.expectEqual(row_count, filtered.row_count);
    };
    defer interrupt.forget();
    for (0..test_file.len) |size|
        try testing.expectError(error.InvalidFormat, read_file(testing.allocator, test_file[0..size], .{}));
}

test "mutated files end with rows or with an error that is theirs" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    defer interrupt.forget();
    const samples = [_]mutate.Sample{try .init(arena.allocator(), "test", &test_file)};
    var mutator: mutate.Mutator = .{ .gpa = testing.allocator, .samples = &samples };
    defer mutator.deinit();
    var read_count: u32 = 0;
    for (0..1000) |seed| {
        errdefer std.debug.print("seed {d}\n", .{seed});
        var generator: std.Random.DefaultPrng = .init(seed);
        const bytes = try mutator.make(&samples[0], generator.random());
        const filter: ?u32 = if (seed % 2 == 0) null else @intCast(seed / 2);
        if (read_file(testing.allocator, bytes, .{ .filter = filter, .filter_first = seed % 3 == 0 })) |_| {
            read_count += 1;
        } else |reason| switch (reason) {
            error.InvalidFormat, error.NotSupported, error.OutOfMemory, error.TooLarge, error.OutOfRange => {},
            else => return reason,
        }
    }
    try testing.expect(read_count > 100 and read_count < 900);
}
