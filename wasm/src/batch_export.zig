//! A `Batch` → descriptors of where its columns lie: answers that the host copies out itself.
//!
//! The form is the one `batch_import.zig` reads. An answer that leaves as QMCB is copied twice, once into
//! the encoded bytes and once out of the engine's memory; lent columns are copied once.
const std = @import("std");
const abi = @import("abi.zig");
const column_module = @import("core/column.zig");
const schema = @import("core/schema.zig");
const Arena = @import("core/arena.zig").Arena;
const Batch = column_module.Batch;
const Column = column_module.Column;
const Descriptor = abi.ColumnDescriptor;

/// A `BatchHeader` and its descriptors. The columns must stay as they are for as long as somebody reads them.
pub fn describe(gpa: std.mem.Allocator, batch: Batch) error{ OutOfMemory, TooLarge }![]u8 {
    var count: usize = 0;
    for (batch.columns) |*column| count += descriptor_count(column);
    const size = @sizeOf(abi.BatchHeader) + count * @sizeOf(Descriptor);
    var bytes: std.ArrayList(u8) = try .initCapacity(gpa, size);
    errdefer bytes.deinit(gpa);
    const header: abi.BatchHeader = .{
        .row_count = batch.row_count,
        .column_count = @intCast(batch.columns.len),
        .descriptor_count = @intCast(count),
    };
    bytes.appendSliceAssumeCapacity(std.mem.asBytes(&header));
    for (batch.columns) |*column| try append(&bytes, column);
    return bytes.toOwnedSlice(gpa);
}

fn descriptor_count(column: *const Column) usize {
    var count: usize = 1;
    for (column.children) |*child| count += descriptor_count(child);
    return count;
}

fn append(bytes: *std.ArrayList(u8), column: *const Column) error{TooLarge}!void {
    const has_offsets = switch (column.type.layout()) {
        .bytes, .list => true,
        else => false,
    };
    const bits = if (column.needs_bitmap(column.row_count)) column.validity.? else &.{};
    const descriptor: Descriptor = .{
        .tag = column.type.tag,
        .offset_width = if (has_offsets) 4 else 0,
        .validity_bit = 0,
        .data_bit = 0,
        .value_width = std.math.cast(u32, column.type.value_size()) orelse return error.TooLarge,
        .row_count = column.row_count,
        .child_count = @intCast(column.children.len),
        .validity = address(bits),
        .validity_size = @intCast(bits.len),
        .data = address(column.data),
        .data_size = @intCast(column.data.len),
        .offsets = address(std.mem.sliceAsBytes(column.offsets)),
        .offsets_size = @intCast(column.offsets.len * 4),
        .offset_base = 0,
        .precision = column.type.precision,
        .scale = column.type.scale,
        .unit = column.type.unit,
        .width = column.type.width,
    };
    bytes.appendSliceAssumeCapacity(std.mem.asBytes(&descriptor));
    for (column.children) |*child| try append(bytes, child);
}

/// Natively, in tests, addresses are wider; there they are only looked at again by the test's own resolver.
fn address(bytes: []const u8) u32 {
    return if (bytes.len == 0) 0 else @truncate(@intFromPtr(bytes.ptr));
}

test "what is described is imported as it was" {
    const batch_import = @import("batch_import.zig");
    const gpa = std.testing.allocator;
    const Memory = struct {
        var bytes: [4096]u8 align(64) = undefined;

        fn resolve(start: u32, size: u32) ?[]const u8 {
            const first: u32 = @truncate(@intFromPtr(&bytes));
            return if (start -% first + size <= bytes.len) bytes[start -% first ..][0..size] else null;
        }
    };
    var fixed: std.heap.FixedBufferAllocator = .init(&Memory.bytes);
    const memory = fixed.allocator();
    const values = try memory.alignedAlloc(i64, .@"16", 3);
    @memcpy(values, &[_]i64{ 7, -1, 9 });
    const validity = try memory.alignedAlloc(u8, .@"16", 1);
    validity[0] = 0b101;
    const offsets = try memory.alignedAlloc(u32, .@"16", 4);
    @memcpy(offsets, &[_]u32{ 0, 1, 1, 3 });
    const text = try memory.alignedAlloc(u8, .@"16", 3);
    @memcpy(text, "abc");
    const items = [_]Column{.{ .type = .of(.i64), .row_count = 3, .data = std.mem.sliceAsBytes(values) }};
    const fields = [_]schema.Field{.{ .name = "item", .type = .of(.i64) }};
    const columns = [_]Column{
        .{ .type = .of(.i64), .row_count = 3, .validity = validity, .data = std.mem.sliceAsBytes(values) },
        .{ .type = .of(.utf8), .row_count = 3, .offsets = offsets, .data = text },
        .{ .type = .{ .tag = .list, .children = &fields }, .row_count = 3, .offsets = offsets, .children = &items },
    };
    const described = try describe(gpa, .{ .row_count = 3, .columns = &columns });
    defer gpa.free(described);
    var arena: Arena = .init(gpa);
    defer arena.deinit();
    const batch = try batch_import.import(arena.allocator(), described, Memory.resolve);
    try std.testing.expectEqual(3, batch.columns.len);
    try std.testing.expectEqual(0b101, batch.columns[0].validity.?[0]);
    try std.testing.expectEqualSlices(i64, values, batch.columns[0].values(i64));
    try std.testing.expectEqualSlices(u8, "abc", batch.columns[1].data);
    try std.testing.expectEqualSlices(u32, offsets, batch.columns[2].offsets);
    try std.testing.expectEqualSlices(i64, values, batch.columns[2].children[0].values(i64));
}
