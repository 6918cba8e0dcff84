//! Memory for fuzzers: a budget that ends, and blocks behind which nothing can be touched.
//!
//!     Limited   counts what is alive and refuses beyond a limit, as linear memory would
//!     Guarded   every block lies against the end of its own mapping; the page behind it is unreadable
//!
//! Both are allocators, so what is fuzzed does not know. Native only.
const std = @import("std");
const Alignment = std.mem.Alignment;
const Allocator = std.mem.Allocator;
const assert = std.debug.assert;
const page_size = std.heap.page_size_min;

pub const Limited = struct {
    backing: Allocator,
    limit: usize,
    live: usize = 0,
    /// Whoever asks for a block larger than this is reported at once: no byte of a small file can
    /// have proven that it is needed.
    block_max: usize = std.math.maxInt(usize),
    /// The largest block that was asked for, granted or not.
    largest: usize = 0,

    pub fn allocator(self: *Limited) Allocator {
        return .{ .ptr = self, .vtable = &.{ .alloc = alloc, .resize = resize, .remap = remap, .free = free } };
    }

    fn admit(self: *Limited, size: usize) bool {
        self.largest = @max(self.largest, size);
        if (size > self.block_max) std.debug.panic("a block of {d} bytes", .{size});
        return size <= self.limit - self.live;
    }

    fn alloc(context: *anyopaque, size: usize, alignment: Alignment, address: usize) ?[*]u8 {
        const self: *Limited = @ptrCast(@alignCast(context));
        if (!self.admit(size)) return null;
        const block = self.backing.rawAlloc(size, alignment, address) orelse return null;
        self.live += size;
        return block;
    }

    fn resize(context: *anyopaque, block: []u8, alignment: Alignment, size: usize, address: usize) bool {
        const self: *Limited = @ptrCast(@alignCast(context));
        if (size > block.len and !self.admit(size - block.len)) return false;
        if (!self.backing.rawResize(block, alignment, size, address)) return false;
        self.live = self.live - block.len + size;
        return true;
    }

    fn remap(context: *anyopaque, block: []u8, alignment: Alignment, size: usize, address: usize) ?[*]u8 {
        const self: *Limited = @ptrCast(@alignCast(context));
        if (size > block.len and !self.admit(size - block.len)) return null;
        const moved = self.backing.rawRemap(block, alignment, size, address) orelse return null;
        self.live = self.live - block.len + size;
        return moved;
    }

    fn free(context: *anyopaque, block: []u8, alignment: Alignment, address: usize) void {
        const self: *Limited = @ptrCast(@alignCast(context));
        self.backing.rawFree(block, alignment, address);
        self.live -= block.len;
    }
};

/// One mapping a block: slow, so a fuzzer uses it now and then. Freed blocks are unmapped, which
/// shows whoever still reads them.
pub const Guarded = struct {
    pub const allocator: Allocator = .{
        .ptr = undefined,
        .vtable = &.{ .alloc = alloc, .resize = Allocator.noResize, .remap = Allocator.noRemap, .free = free },
    };

    fn mapped_size(size: usize, alignment: Alignment) usize {
        return std.mem.alignForward(usize, size + alignment.toByteUnits() - 1, page_size) + page_size;
    }

    fn alloc(_: *anyopaque, size: usize, alignment: Alignment, _: usize) ?[*]u8 {
        assert(alignment.toByteUnits() <= page_size);
        const whole = mapped_size(size, alignment);
        const mapping = std.posix.mmap(
            null,
            whole,
            .{},
            .{ .TYPE = .PRIVATE, .ANONYMOUS = true, .NORESERVE = true },
            -1,
            0,
        ) catch return null;
        const end = whole - page_size;
        if (std.posix.errno(
            std.posix.system.mprotect(@alignCast(mapping.ptr), end, .{ .READ = true, .WRITE = true }),
        ) != .SUCCESS) {
            std.posix.munmap(mapping);
            return null;
        }
        return mapping.ptr + alignment.backward(end - size);
    }

    fn free(_: *anyopaque, block: []u8, alignment: Alignment, _: usize) void {
        const whole = mapped_size(block.len, alignment);
        const end = std.mem.alignForward(usize, @intFromPtr(block.ptr) + block.len, page_size);
        const start = end + page_size - whole;
        std.posix.munmap(@as([*]align(page_size) u8, @ptrFromInt(start))[0..whole]);
    }
};

test Limited {
    var limited: Limited = .{ .backing = std.testing.allocator, .limit = 1000 };
    const gpa = limited.allocator();
    const first = try gpa.alloc(u8, 600);
    try std.testing.expectError(error.OutOfMemory, gpa.alloc(u8, 401));
    try std.testing.expectEqual(600, limited.largest);
    gpa.free(first);
    try std.testing.expectEqual(0, limited.live);
    gpa.free(try gpa.alloc(u8, 1000));
}

test Guarded {
    const gpa = Guarded.allocator;
    inline for (.{ .@"1", .@"16", .@"64" }) |alignment| for ([_]usize{ 1, 63, 64, 4095, 4096, 4097, 70_000 }) |size| {
        const block = try gpa.alignedAlloc(u8, alignment, size);
        @memset(block, 0xA5);
        const end = @intFromPtr(block.ptr) + size;
        try std.testing.expect(
            std.mem.alignForward(usize, end, page_size) - end < @as(Alignment, alignment).toByteUnits(),
        );
        gpa.free(block);
    };
}
