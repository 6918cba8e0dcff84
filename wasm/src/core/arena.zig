//! Memory that is freed all at once.
//!
//! The standard library's arena adds sizes up unchecked, and counts what it could not give as given. Here
//! sizes come from files and plans, and usize has 32 bits: a few requests for gigabytes would wrap, and then
//! get memory that is somebody else's. Nor is anything atomic here: an instance is one thread's.
const std = @import("std");
const Alignment = std.mem.Alignment;
const assert = std.debug.assert;

/// Stands at the start of its own memory.
const Block = struct {
    /// Of all of it, and of what has been given out, this header included.
    size: usize,
    used: usize,
    /// The one that was filled before.
    next: ?*Block,

    fn bytes(self: *Block) []u8 {
        return @as([*]u8, @ptrCast(self))[0..self.size];
    }

    /// Where `size` bytes would start and end, whether or not they fit.
    fn place(self: *Block, size: usize, alignment: Alignment) ?struct { start: usize, end: usize } {
        const base = @intFromPtr(self);
        const address = std.math.add(usize, base + self.used, alignment.toByteUnits() - 1) catch return null;
        const start = alignment.backward(address) - base;
        return .{ .start = start, .end = std.math.add(usize, start, size) catch return null };
    }

    fn is_last(self: *Block, memory: []const u8) bool {
        return @intFromPtr(self) + self.used == @intFromPtr(memory.ptr) + memory.len;
    }
};

pub const Arena = struct {
    gpa: std.mem.Allocator,
    /// The block being filled.
    current: ?*Block = null,

    pub const Reset = enum {
        free_all,
        /// One block of what all blocks had: after the largest round, nothing is allocated any more.
        retain_capacity,
    };

    pub fn init(gpa: std.mem.Allocator) Arena {
        return .{ .gpa = gpa };
    }

    pub fn deinit(self: *Arena) void {
        self.free_blocks();
    }

    pub fn allocator(self: *Arena) std.mem.Allocator {
        return .{ .ptr = self, .vtable = &.{ .alloc = alloc, .resize = resize, .remap = remap, .free = free } };
    }

    /// False if nothing could be retained.
    pub fn reset(self: *Arena, mode: Reset) bool {
        const block = self.current orelse return true;
        if (mode == .free_all) {
            self.free_blocks();
        } else if (block.next == null) {
            block.used = @sizeOf(Block);
        } else {
            const total = self.capacity();
            self.free_blocks();
            return self.add_block(total, total) != null;
        }
        return true;
    }

    /// Bytes of its blocks.
    pub fn capacity(self: *const Arena) usize {
        var total: usize = 0;
        var next = self.current;
        while (next) |block| : (next = block.next) total += block.size;
        return total;
    }

    fn free_blocks(self: *Arena) void {
        while (self.current) |block| {
            self.current = block.next;
            self.gpa.rawFree(block.bytes(), .of(Block), @returnAddress());
        }
    }

    /// Of `wanted` bytes, or of `least` where these are too many.
    fn add_block(self: *Arena, least: usize, wanted: usize) ?*Block {
        var size = wanted;
        const memory = self.gpa.rawAlloc(size, .of(Block), @returnAddress()) orelse blk: {
            if (least == wanted) return null;
            size = least;
            break :blk self.gpa.rawAlloc(size, .of(Block), @returnAddress()) orelse return null;
        };
        const block: *Block = @ptrCast(@alignCast(memory));
        block.* = .{ .size = size, .used = @sizeOf(Block), .next = self.current };
        self.current = block;
        return block;
    }

    /// Makes room behind what `block` has given out, if nobody else's memory is there.
    fn grow_block(self: *Arena, block: *Block, size: usize) bool {
        if (!self.gpa.rawResize(block.bytes(), .of(Block), size, @returnAddress())) return false;
        block.size = size;
        return true;
    }

    fn take(block: *Block, size: usize, alignment: Alignment) ?[*]u8 {
        const found = block.place(size, alignment) orelse return null;
        if (found.end > block.size) return null;
        block.used = found.end;
        return block.bytes()[found.start..].ptr;
    }

    fn alloc(context: *anyopaque, size: usize, alignment: Alignment, _: usize) ?[*]u8 {
        const self: *Arena = @ptrCast(@alignCast(context));
        const current = self.current orelse return self.alloc_block(0, size, alignment);
        if (take(current, size, alignment)) |found| return found;
        const end = (current.place(size, alignment) orelse return null).end;
        if (self.grow_block(current, end)) return take(current, size, alignment);
        return self.alloc_block(current.size, size, alignment);
    }

    /// Blocks grow by half, so that there are few.
    fn alloc_block(self: *Arena, before: usize, size: usize, alignment: Alignment) ?[*]u8 {
        const least = std.math.add(usize, @sizeOf(Block) + alignment.toByteUnits(), size) catch return null;
        const wanted = before +| least;
        const block = self.add_block(least, wanted +| wanted / 2) orelse return null;
        return take(block, size, alignment).?;
    }

    fn resize(context: *anyopaque, memory: []u8, _: Alignment, size: usize, _: usize) bool {
        const self: *Arena = @ptrCast(@alignCast(context));
        const block = self.current orelse return false;
        if (!block.is_last(memory)) return size <= memory.len;
        const start = block.used - memory.len;
        if (size > block.size - start) return false;
        block.used = start + size;
        return true;
    }

    fn remap(context: *anyopaque, memory: []u8, alignment: Alignment, size: usize, return_address: usize) ?[*]u8 {
        return if (resize(context, memory, alignment, size, return_address)) memory.ptr else null;
    }

    fn free(context: *anyopaque, memory: []u8, _: Alignment, _: usize) void {
        const self: *Arena = @ptrCast(@alignCast(context));
        const block = self.current orelse return;
        if (block.is_last(memory)) block.used -= memory.len;
    }
};

const testing = std.testing;

test "alignment, order and reuse" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const memory = arena.allocator();
    var random: std.Random.DefaultPrng = .init(1);
    for (0..20) |_| {
        var known: std.ArrayList([]u8) = .empty;
        defer known.deinit(testing.allocator);
        for (0..100) |number| {
            const size = random.random().uintAtMost(usize, 3000) + 1;
            const bytes = if (number % 3 == 0) try memory.alignedAlloc(u8, .@"64", size) else try memory.alloc(
                u8,
                size,
            );
            if (number % 3 == 0) try testing.expect(std.mem.isAligned(@intFromPtr(bytes.ptr), 64));
            @memset(bytes, @truncate(number));
            try known.append(testing.allocator, bytes);
        }
        for (known.items, 0..) |bytes, number| try testing.expect(std.mem.allEqual(u8, bytes, @truncate(number)));
        const before = arena.capacity();
        try testing.expect(arena.reset(.retain_capacity));
        try testing.expect(arena.current.?.next == null and arena.capacity() <= before);
    }
    try testing.expect(arena.reset(.free_all));
    try testing.expectEqual(0, arena.capacity());
}

test "the last one grows, shrinks and goes" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const memory = arena.allocator();
    const first = try memory.alloc(u8, 100);
    const last = try memory.alloc(u8, 10);
    try testing.expect(!memory.resize(first, 101));
    try testing.expect(memory.resize(first, 99));
    try testing.expect(memory.resize(last, 20));
    try testing.expect(!memory.resize(last, 1 << 30));
    memory.free(last.ptr[0..20]);
    try testing.expectEqual(last.ptr, (try memory.alloc(u8, 5)).ptr);
}

test "what cannot be had changes nothing" {
    const small: std.mem.Allocator = .{ .ptr = undefined, .vtable = &.{
        .alloc = Small.alloc,
        .resize = std.mem.Allocator.noResize,
        .remap = std.mem.Allocator.noRemap,
        .free = Small.free,
    } };
    var arena: Arena = .init(small);
    defer arena.deinit();
    const memory = arena.allocator();
    const first = try memory.alloc(u8, 64);
    @memset(first, 7);
    for (0..100) |_| {
        for ([_]usize{ std.math.maxInt(usize), std.math.maxInt(usize) -
            40, std.math.maxInt(usize) / 2, std.math.maxInt(usize) / 3 * 2 }) |size|
        {
            try testing.expect(memory.rawAlloc(size, .@"16", 0) == null);
        }
    }
    const second = try memory.alloc(u8, 64);
    @memset(second, 8);
    try testing.expect(std.mem.allEqual(u8, first, 7));
    // Half as much again is more than there is; what is asked for is not.
    _ = try memory.alloc(u8, 4000);
}

/// Has no more than a page.
const Small = struct {
    fn alloc(_: *anyopaque, size: usize, alignment: Alignment, address: usize) ?[*]u8 {
        return if (size > 4096) null else testing.allocator.rawAlloc(size, alignment, address);
    }

    fn free(_: *anyopaque, memory: []u8, alignment: Alignment, address: usize) void {
        testing.allocator.rawFree(memory, alignment, address);
    }
};
