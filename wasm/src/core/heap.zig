//! The engine's memory: runs of 4 KiB blocks over linear memory, grown when none fits.
//!
//!     | static data, stack | heap … free run … used … free run … | not grown yet |
//!
//! Free runs form a list sorted by address, the header of each in its own first bytes; neighbours
//! are merged when freed. There are mostly few runs (arenas take large blocks, the host takes whole
//! morsels), so first fit walks a short list. A scan of thousands of columns leaves thousands of
//! holes, though, when it frees column by column; `hints` are where it was busy last, so that it does
//! not walk past all of them each time. The standard wasm allocator rounds large blocks to
//! powers of two, which turns 300 MB into 512 MB; here a block costs its size, rounded to 4 KiB.
//! `slack` bytes behind every block are readable, so that kernels may load whole vectors.
const std = @import("std");
const builtin = @import("builtin");
const assert = std.debug.assert;
const Alignment = std.mem.Alignment;

pub const block_size = 4096;
pub const slack = 64;
/// Memory grows in steps of this: growing is cheap, but not free, and each step is a system call.
const growth_step = 1 << 20;
const wasm_page_size = 1 << 16;

const Run = struct {
    next: ?*Run,
    size: usize,

    fn end(self: *const Run) usize {
        return @intFromPtr(self) + self.size;
    }
};

/// Columns have several blocks each, and those of a kind lie beside each other.
const hint_count = 16;
/// A longer walk than this was to another place, which gets a hint of its own.
const near_runs = 8;

pub const Heap = struct {
    first: ?*Run = null,
    /// Runs of the list, anywhere in it.
    hints: [hint_count]?*Run = @splat(null),
    hint_next: u8 = 0,
    /// Address of `size` fresh bytes right behind the last growth, or null. Natively a test's own.
    grow: *const fn (size: usize) ?usize,

    pub fn allocator(self: *Heap) std.mem.Allocator {
        return .{ .ptr = self, .vtable = &.{ .alloc = alloc, .resize = resize, .remap = remap, .free = free } };
    }

    /// Makes a range of memory available. It need not touch earlier ranges.
    pub fn add(self: *Heap, start: usize, end: usize) void {
        const from = std.mem.alignForward(usize, start, block_size);
        const to = std.mem.alignBackward(usize, end, block_size);
        if (to > from) self.insert(from, to - from);
    }

    fn rounded(size: usize) ?usize {
        const padded = std.math.add(usize, size, slack + block_size - 1) catch return null;
        return padded & ~@as(usize, block_size - 1);
    }

    fn take(self: *Heap, size: usize) ?usize {
        var link: *?*Run = &self.first;
        while (link.*) |run| : (link = &run.next) {
            if (run.size < size) continue;
            self.cut(link, run, size);
            return @intFromPtr(run);
        }
        return null;
    }

    /// Takes the first `size` bytes of a run out of the list.
    fn cut(self: *Heap, link: *?*Run, run: *Run, size: usize) void {
        if (run.size == size) {
            link.* = run.next;
            self.move_hints(run, null);
            return;
        }
        const rest: *Run = @ptrFromInt(@intFromPtr(run) + size);
        rest.* = .{ .next = run.next, .size = run.size - size };
        link.* = rest;
        self.move_hints(run, rest);
    }

    fn move_hints(self: *Heap, from: *Run, to: ?*Run) void {
        for (&self.hints) |*hint| {
            if (hint.* == from) hint.* = to;
        }
    }

    /// The last run that begins before `address`, and a hint for the next time.
    fn before(self: *Heap, address: usize) ?*Run {
        var nearest: usize = 0;
        var found: ?*Run = null;
        for (self.hints, 0..) |hint, i| {
            const run = hint orelse continue;
            if (@intFromPtr(run) >= address) continue;
            if (found) |other| if (@intFromPtr(other) > @intFromPtr(run)) continue;
            found = run;
            nearest = i;
        }
        const is_hinted = found != null;
        var steps: usize = 0;
        var next = if (found) |run| run.next else self.first;
        while (next) |run| : (next = run.next) {
            if (@intFromPtr(run) >= address) break;
            found = run;
            steps += 1;
        }
        if (is_hinted and steps <= near_runs) {
            self.hints[nearest] = found;
        } else {
            self.hints[self.hint_next] = found;
            self.hint_next = (self.hint_next + 1) % hint_count;
        }
        return found;
    }

    fn insert(self: *Heap, address: usize, size: usize) void {
        assert(address % block_size == 0 and size % block_size == 0 and size > 0);
        const previous = self.before(address);
        const next = if (previous) |p| p.next else self.first;
        assert(previous == null or previous.?.end() <= address); // freed twice, or overlapping
        assert(next == null or address + size <= @intFromPtr(next.?));
        const run: *Run = @ptrFromInt(address);
        run.* = .{ .next = next, .size = size };
        if (previous) |p| p.next = run else self.first = run;
        self.merge(run);
        if (previous) |p| self.merge(p);
    }

    fn merge(self: *Heap, run: *Run) void {
        const next = run.next orelse return;
        if (run.end() != @intFromPtr(next)) return;
        run.size += next.size;
        run.next = next.next;
        self.move_hints(next, run);
    }

    fn last(self: *Heap) ?*Run {
        var run = self.first orelse return null;
        while (run.next) |next| run = next;
        return run;
    }

    fn obtain(self: *Heap, size: usize) ?usize {
        if (self.take(size)) |address| return address;
        if (size > std.math.maxInt(usize) - growth_step) return null;
        const stepped = std.mem.alignForward(usize, size, growth_step);
        for ([_]usize{ stepped, std.mem.alignForward(usize, size, wasm_page_size) }) |wanted| {
            if (wanted < size) return null;
            const address = self.grow(wanted) orelse continue;
            self.insert(address, wanted);
            return self.take(size);
        }
        // Near the limit the last free run may lack only a little: grow by just that much.
        const tail = self.last() orelse return null;
        const missing = std.mem.alignForward(usize, size - @min(size, tail.size), wasm_page_size);
        const address = self.grow(missing) orelse return null;
        self.insert(address, missing);
        return self.take(size);
    }

    fn alloc(context: *anyopaque, size: usize, alignment: Alignment, _: usize) ?[*]u8 {
        const self: *Heap = @ptrCast(@alignCast(context));
        assert(alignment.toByteUnits() <= block_size);
        const address = self.obtain(rounded(size) orelse return null) orelse return null;
        return @ptrFromInt(address);
    }

    fn resize(context: *anyopaque, memory: []u8, _: Alignment, new_size: usize, _: usize) bool {
        const self: *Heap = @ptrCast(@alignCast(context));
        const old = rounded(memory.len).?;
        const new = rounded(new_size) orelse return false;
        const address = @intFromPtr(memory.ptr);
        if (new < old) self.insert(address + new, old - new);
        if (new <= old) return true;
        return self.extend(address + old, new - old);
    }

    /// Takes `size` bytes from a free run that starts exactly at `address`.
    fn extend(self: *Heap, address: usize, size: usize) bool {
        const link: *?*Run = if (self.before(address)) |previous| &previous.next else &self.first;
        const run = link.* orelse return false;
        if (@intFromPtr(run) != address or run.size < size) return false;
        self.cut(link, run, size);
        return true;
    }

    fn remap(context: *anyopaque, memory: []u8, alignment: Alignment, new_size: usize, return_address: usize) ?[*]u8 {
        return if (resize(context, memory, alignment, new_size, return_address)) memory.ptr else null;
    }

    fn free(context: *anyopaque, memory: []u8, _: Alignment, _: usize) void {
        const self: *Heap = @ptrCast(@alignCast(context));
        self.insert(@intFromPtr(memory.ptr), rounded(memory.len).?);
    }
};

/// The one heap of the instance. Set up by the first use.
var wasm_heap: Heap = .{ .grow = grow_wasm };
var wasm_heap_ready = false;

pub fn engine_allocator() std.mem.Allocator {
    comptime assert(builtin.cpu.arch.isWasm());
    if (!wasm_heap_ready) {
        wasm_heap_ready = true;
        const base = @intFromPtr(@extern(*u8, .{ .name = "__heap_base" }));
        wasm_heap.add(base, @wasmMemorySize(0) * wasm_page_size);
    }
    return wasm_heap.allocator();
}

fn grow_wasm(size: usize) ?usize {
    // A run that ended at 4 GiB would end at 0: that last page is never asked for.
    if (@as(u64, @wasmMemorySize(0)) * wasm_page_size + size >= 1 << 32) return null;
    const before = @wasmMemoryGrow(0, size / wasm_page_size);
    if (before < 0) return null;
    return @as(usize, @intCast(before)) * wasm_page_size;
}

var test_memory: [64 * block_size]u8 align(block_size) = undefined;

fn grow_nothing(_: usize) ?usize {
    return null;
}

fn test_heap() Heap {
    var heap: Heap = .{ .grow = grow_nothing };
    const start = @intFromPtr(&test_memory);
    heap.add(start, start + test_memory.len);
    return heap;
}

test "freed neighbours merge into one run" {
    var heap = test_heap();
    const gpa = heap.allocator();
    var blocks: [16][]u8 = undefined;
    for (&blocks, 0..) |*block, i| block.* = try gpa.alloc(u8, 1 + i * 700);
    for ([_]usize{ 3, 1, 0, 2, 15, 4, 14, 5, 13, 6, 12, 7, 11, 8, 10, 9 }) |i| gpa.free(blocks[i]);
    try std.testing.expect(heap.first.?.next == null);
    try std.testing.expectEqual(test_memory.len, heap.first.?.size);
}

test "random use never hands out overlapping blocks" {
    var heap = test_heap();
    const gpa = heap.allocator();
    var prng: std.Random.DefaultPrng = .init(7);
    const random = prng.random();
    var blocks: [24]?[]u8 = @splat(null);
    for (0..4000) |round| {
        const slot = random.uintLessThan(usize, blocks.len);
        const mark: u8 = @truncate(slot);
        if (blocks[slot]) |block| {
            for (block) |byte| try std.testing.expectEqual(mark, byte);
            if (round % 3 == 0) {
                const size = random.uintLessThan(usize, 20_000) + 1;
                if (gpa.resize(block, size)) {
                    blocks[slot] = block.ptr[0..size];
                    @memset(blocks[slot].?, mark);
                }
            } else {
                gpa.free(block);
                blocks[slot] = null;
            }
        } else {
            blocks[slot] = gpa.alloc(u8, random.uintLessThan(usize, 30_000) + 1) catch continue;
            @memset(blocks[slot].?, mark);
        }
    }
    for (blocks) |block| if (block) |b| gpa.free(b);
    try std.testing.expectEqual(test_memory.len, heap.first.?.size);
}

test "hints are runs of the list, whatever was taken and merged" {
    var heap = test_heap();
    const gpa = heap.allocator();
    var prng: std.Random.DefaultPrng = .init(11);
    const random = prng.random();
    var blocks: [40]?[]u8 = @splat(null);
    for (0..4000) |_| {
        const slot = random.uintLessThan(usize, blocks.len);
        if (blocks[slot]) |block| {
            gpa.free(block);
            blocks[slot] = null;
        } else {
            blocks[slot] = gpa.alloc(u8, random.uintLessThan(usize, 9_000) + 1) catch null;
        }
        for (heap.hints) |hint| {
            var run = heap.first;
            while (run != null and run != hint) run = run.?.next;
            try std.testing.expectEqual(hint, run);
        }
    }
    for (blocks) |block| if (block) |b| gpa.free(b);
}
