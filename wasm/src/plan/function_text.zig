//! Functions of text, and those that take any type (function_any.zig): which there are, and their kernels.
const abi = @import("../abi.zig");
const any = @import("function_any.zig");
const function = @import("function.zig");
const text = @import("../kernel/text.zig");
const text_case = @import("../kernel/text_case.zig");
const text_cut = @import("../kernel/text_cut.zig");
const text_make = @import("../kernel/text_make.zig");
const text_search = @import("../kernel/text_search.zig");
const Call = function.Call;
const Column = @import("../core/column.zig").Column;
const Parameter = function.Parameter;
const Signature = function.Signature;

const string: Parameter = .of(&.{.utf8});
const bytes: Parameter = .of(&.{ .utf8, .binary });
const integer: Parameter = .of(&.{.i64});

pub fn signature(id: abi.FunctionId) ?Signature {
    return switch (id) {
        .length => .{ .parameters = &.{string}, .result = .{ .tag = .i64 } },
        .byte_length => .{ .parameters = &.{bytes}, .result = .{ .tag = .i64 } },
        .lower, .upper, .reverse => .{ .parameters = &.{string}, .result = .{ .tag = .utf8 } },
        .trim, .trim_start, .trim_end => .{ .parameters = &.{ string, string }, .optional = 1, .result = .{
            .tag = .utf8,
        } },
        .substring => .{ .parameters = &.{ string, integer, integer }, .optional = 1, .result = .{ .tag = .utf8 } },
        .left, .right => .{ .parameters = &.{ string, integer }, .result = .{ .tag = .utf8 } },
        .position => .{ .parameters = &.{ string, string }, .result = .{ .tag = .i64 } },
        .replace, .translate => .{
            .parameters = &.{ string, string, string },
            .result = .{ .tag = .utf8 },
            .grows = true,
        },
        .join => .{ .parameters = &.{ bytes, .{ .like_first = true } }, .repeats = true, .result = .{ .like = 0 } },
        .concat => .{ .parameters = &.{string}, .repeats = true, .result = .{ .tag = .utf8 }, .nulls = .seen },
        .concat_with_separator => .{
            .parameters = &.{ string, string },
            .repeats = true,
            .result = .{ .tag = .utf8 },
            .nulls = .seen,
        },
        .starts_with, .ends_with, .contains => .{ .parameters = &.{ string, string }, .result = .{ .tag = .bool } },
        .like_escape => .{ .parameters = &.{ string, string, string }, .result = .{ .tag = .bool }, .fallible = true },
        .repeat => .{ .parameters = &.{ bytes, integer }, .result = .{ .like = 0 }, .grows = true },
        .pad_left, .pad_right => .{
            .parameters = &.{ string, integer, string },
            .result = .{ .tag = .utf8 },
            .fallible = true,
            .grows = true,
        },
        .split_part => .{ .parameters = &.{ string, string, integer }, .result = .{ .tag = .utf8 } },
        .character => .{ .parameters = &.{.of(&.{.i32})}, .result = .{ .tag = .utf8 }, .fallible = true },
        .ascii, .code_point => .{ .parameters = &.{string}, .result = .{ .tag = .i32 } },
        else => any.signature(id),
    };
}

pub fn evaluate(call: *const Call) function.Error!Column {
    const arena = call.arena;
    const count = call.row_count;
    const operands = call.operands;
    var result: Column = switch (call.id) {
        .length, .byte_length, .position => {
            const out = try call.new_values(i64);
            switch (call.id) {
                .length => try text.lengths(&operands[0], out),
                .byte_length => text.byte_lengths(&operands[0], out),
                else => try text_search.position(&operands[0], &operands[1], out),
            }
            return call.of_values(i64, out);
        },
        .ascii, .code_point => {
            const out = try call.new_values(i32);
            text.code_points(&operands[0], if (call.id == .ascii) 0 else -1, out);
            return call.of_values(i32, out);
        },
        .starts_with => return ask(.starts_with, call),
        .ends_with => return ask(.ends_with, call),
        .contains => return ask(.contains, call),
        .like_escape => {
            const bits = try call.new_bits();
            try text_search.like_patterns(arena, call.row_count, operands, call.rows, bits);
            return call.of_bits(bits);
        },
        .lower => try text_case.convert(.lower, arena, &try call.spread(0)),
        .upper => try text_case.convert(.upper, arena, &try call.spread(0)),
        .trim => try text_cut.trim(.both, arena, count, operands),
        .trim_start => try text_cut.trim(.start, arena, count, operands),
        .trim_end => try text_cut.trim(.end, arena, count, operands),
        .substring => try text_cut.substring(arena, count, operands),
        .left => try text_cut.left(arena, count, operands),
        .right => try text_cut.right(arena, count, operands),
        .split_part => try text_cut.split_part(arena, count, operands),
        .replace => try text_make.replace(arena, count, operands, call.rows),
        .translate => try text_make.translate(arena, count, operands, call.rows),
        .join => try text_make.join(false, arena, call.type, count, operands),
        .concat => try text_make.join(true, arena, call.type, count, operands),
        .concat_with_separator => return text_make.join_with_separator(arena, count, operands),
        .reverse => try text_make.reverse(arena, count, &operands[0]),
        .repeat => try text_make.repeat(arena, call.type, count, operands, call.rows),
        .pad_left => try text_make.pad(.left, arena, count, operands, call.rows),
        .pad_right => try text_make.pad(.right, arena, count, operands, call.rows),
        .character => try text_make.characters(arena, count, &operands[0], call.rows),
        else => return any.evaluate(call),
    };
    result.validity = call.validity;
    return result;
}

fn ask(comptime question: text_search.Question, call: *const Call) function.Error!Column {
    const bits = try call.new_bits();
    text_search.ask(question, &call.operands[0], &call.operands[1], call.row_count, bits);
    return call.of_bits(bits);
}
