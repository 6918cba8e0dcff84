//! Functions of every type that has an order: greatest, least, and comparisons for which NULL is a value.
const std = @import("std");
const abi = @import("../abi.zig");
const bitmap = @import("../core/bitmap.zig");
const choose = @import("../kernel/choose.zig");
const expression = @import("expression.zig");
const expression_parser = @import("expression_parser.zig");
const function = @import("function.zig");
const Arena = @import("../core/arena.zig").Arena;
const Call = function.Call;
const Column = @import("../core/column.zig").Column;
const Signature = function.Signature;

/// What `expression_parser.is_orderable` says, as a list.
const orderable: function.Parameter = .of(&orderable_tags());

fn orderable_tags() [orderable_count]abi.TypeTag {
    var found: [orderable_count]abi.TypeTag = undefined;
    var count: usize = 0;
    for (std.enums.values(abi.TypeTag)) |tag| if (expression_parser.is_orderable(.of(tag))) {
        found[count] = tag;
        count += 1;
    };
    return found;
}

const orderable_count = blk: {
    var count: usize = 0;
    for (std.enums.values(abi.TypeTag)) |tag| count += @intFromBool(expression_parser.is_orderable(.of(tag)));
    break :blk count;
};

const same: function.Parameter = .{ .like_first = true };

pub fn signature(id: abi.FunctionId) ?Signature {
    return switch (id) {
        .greatest, .least => .{
            .parameters = &.{ orderable, same },
            .optional = 1,
            .repeats = true,
            .result = .{ .like = 0 },
            .nulls = .seen,
        },
        .distinct_from, .not_distinct_from => .{
            .parameters = &.{ orderable, same },
            .result = .{ .tag = .bool },
            .nulls = .seen,
        },
        else => null,
    };
}

pub fn evaluate(call: *const Call) function.Error!Column {
    return switch (call.id) {
        .greatest => extreme(.gt, call),
        .least => extreme(.lt, call),
        .distinct_from => distinct(call, false),
        .not_distinct_from => distinct(call, true),
        else => unreachable, // has no signature
    };
}

/// Of all values that are not NULL, the one that comes before the others by `op`; the first of equal ones.
fn extreme(op: abi.CompareOp, call: *const Call) function.Error!Column {
    var best = try call.spread(0);
    for (1..call.operands.len) |index| {
        const next = try call.spread(index);
        const better = try call.new_bits();
        expression.compare_both(op, &next, &best, better);
        if (best.validity) |validity| bitmap.combine(.or_not, better, better, validity);
        if (next.validity) |validity| bitmap.combine(.@"and", better, better, validity);
        const kept = try call.new_bits();
        bitmap.invert(kept, better);
        best = try choose.choose(call.arena, call.type, call.row_count, &.{
            .{ .column = best, .bits = kept },
            .{ .column = next, .bits = better },
        });
    }
    return best;
}

/// IS DISTINCT FROM: two NULLs are the same, and NULL is distinct from every value.
fn distinct(call: *const Call, negated: bool) function.Error!Column {
    const a = try call.spread(0);
    const b = try call.spread(1);
    const bits = try call.new_bits();
    expression.compare_both(.neq, &a, &b, bits);
    for (bits, 0..) |*byte, i| {
        const x: u8 = if (a.validity) |validity| validity[i] else 0xFF;
        const y: u8 = if (b.validity) |validity| validity[i] else 0xFF;
        byte.* = (x ^ y) | (x & y & byte.*);
        if (negated) byte.* = ~byte.*;
    }
    return expression.bool_column(call.row_count, bits, null);
}

test "the greatest of numbers and NULLs, and what is distinct" {
    var arena: Arena = .init(std.testing.allocator);
    defer arena.deinit();
    const x: [4]i32 align(16) = .{ 1, 5, 9, 9 };
    const y: [4]i32 align(16) = .{ 3, 5, 0, 0 };
    const a: function.Operand = .{
        .column = .{ .type = .of(.i32), .row_count = 4, .validity = &.{0b0111}, .data = std.mem.sliceAsBytes(&x) },
        .is_constant = false,
    };
    const b: function.Operand = .{
        .column = .{ .type = .of(.i32), .row_count = 4, .validity = &.{0b0011}, .data = std.mem.sliceAsBytes(&y) },
        .is_constant = false,
    };
    var call: Call = .{
        .arena = arena.allocator(),
        .id = .greatest,
        .type = .of(.i32),
        .row_count = 4,
        .operands = &.{ a, b },
        .validity = null,
        .rows = null,
    };
    const greatest = try evaluate(&call);
    try std.testing.expectEqualSlices(i32, &.{ 3, 5, 9 }, greatest.values(i32)[0..3]);
    try std.testing.expectEqual(0b0111, greatest.validity.?[0] & 0xF);
    call.id = .least;
    const least = try evaluate(&call);
    try std.testing.expectEqualSlices(i32, &.{ 1, 5, 9 }, least.values(i32)[0..3]);
    call.id = .distinct_from;
    call.type = .of(.bool);
    try std.testing.expectEqual(0b0101, (try evaluate(&call)).data[0] & 0xF);
}
