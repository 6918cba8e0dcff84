//! Functions of dates, times and intervals: which there are, and their kernels.
//!
//! Times and timestamps are in microseconds: the planner casts, as DuckDB does. Only strftime, strptime and
//! what is read in nanoseconds know finer ones. A zone is UTC or none, but for what does not depend on it.
//! Parts and units come as a constant of `abi.DatePart`.
const std = @import("std");
const abi = @import("../abi.zig");
const arithmetic = @import("../kernel/arithmetic.zig");
const bitmap = @import("../core/bitmap.zig");
const calendar = @import("../kernel/calendar.zig");
const column_module = @import("../core/column.zig");
const construct = @import("../kernel/construct.zig");
const difference = @import("../kernel/difference.zig");
const each = @import("../kernel/each.zig");
const expression_module = @import("expression.zig");
const function = @import("function.zig");
const interrupt = @import("../core/interrupt.zig");
const interval_part = @import("../kernel/interval_part.zig");
const moment = @import("../kernel/moment.zig");
const schema = @import("../core/schema.zig");
const temporal = @import("../kernel/temporal.zig");
const text = @import("../kernel/text.zig");
const time_format = @import("../kernel/time_format.zig");
const Call = function.Call;
const Column = column_module.Column;
const DataType = schema.DataType;
const DatePart = abi.DatePart;
const Error = function.Error;
const Expression = expression_module.Expression;
const Interval = @import("../core/interval.zig").Interval;
const Parameter = function.Parameter;
const Signature = function.Signature;

const part_code: Parameter = .{ .tags = &.{.u8}, .literal = true };
const pattern: Parameter = .{ .tags = &.{.utf8}, .literal = true };
const any_moment: Parameter = .of(&.{ .date, .timestamp });
const date: Parameter = .of(&.{.date});
const timestamp: Parameter = .of(&.{.timestamp});
const time: Parameter = .of(&.{.time});
const interval: Parameter = .of(&.{.interval});
const integer: Parameter = .of(&.{.i64});
const number: Parameter = .of(&.{ .i64, .f64 });
const float: Parameter = .of(&.{.f64});

pub fn signature(id: abi.FunctionId) ?Signature {
    return switch (id) {
        .date_part, .date_part_float => .{
            .parameters = &.{ part_code, .of(&.{ .date, .time, .timestamp, .interval }) },
            .result = .{ .rule = if (id == .date_part) part_fits else float_part_fits },
            .fallible = true,
        },
        .date_trunc => .{
            .parameters = &.{ part_code, .of(&.{ .date, .timestamp, .interval }) },
            .result = .{ .rule = truncation_fits },
            .fallible = true,
        },
        .date_diff, .date_sub => .{
            .parameters = &.{ part_code, .of(&.{ .date, .time, .timestamp }), .of(&.{ .date, .time, .timestamp }) },
            .result = .{ .rule = difference_fits },
            .fallible = true,
        },
        .add_interval, .subtract_interval => .{
            .parameters = &.{ .of(&.{ .date, .time, .timestamp }), interval },
            .result = .{ .rule = moved_fits },
            .fallible = true,
        },
        .add_days,
        .subtract_days,
        => .{ .parameters = &.{ date, .of(&.{.i32}) }, .result = .{ .tag = .date }, .fallible = true },
        .subtract_dates => .{ .parameters = &.{ date, date }, .result = .{ .tag = .i64 } },
        .subtract_timestamps => .{
            .parameters = &.{ timestamp, timestamp },
            .result = .{ .rule = between_fits },
            .fallible = true,
        },
        .age => .{ .parameters = &.{ timestamp, timestamp }, .result = .{ .rule = between_fits } },
        .last_day => .{ .parameters = &.{any_moment}, .result = .{ .rule = last_day_fits } },
        .make_date => .{ .parameters = &.{ integer, integer, integer }, .result = .{ .tag = .date }, .fallible = true },
        .make_time => .{
            .parameters = &.{ integer, integer, float },
            .result = .{ .rule = is_time },
            .fallible = true,
        },
        .make_timestamp => .{
            .parameters = &.{ integer, integer, integer, integer, integer, float },
            .result = .{ .rule = is_local },
            .fallible = true,
        },
        .day_name, .month_name => .{ .parameters = &.{any_moment}, .result = .{ .rule = name_fits } },
        .strftime => .{
            .parameters = &.{ any_moment, pattern },
            .result = .{ .rule = written_fits },
            .fallible = true,
        },
        .strptime,
        .try_strptime,
        => .{ .parameters = &.{ .of(&.{.utf8}), pattern }, .result = .{ .rule = is_parsed }, .fallible = true },
        .add_intervals,
        .subtract_intervals,
        => .{ .parameters = &.{ interval, interval }, .result = .{ .tag = .interval }, .fallible = true },
        .multiply_interval => .{
            .parameters = &.{ interval, number },
            .result = .{ .tag = .interval },
            .fallible = true,
        },
        .divide_interval => .{ .parameters = &.{ interval, float }, .result = .{ .tag = .interval }, .fallible = true },
        .negate_interval => .{ .parameters = &.{interval}, .result = .{ .tag = .interval }, .fallible = true },
        .to_interval => .{ .parameters = &.{ part_code, number }, .result = .{ .rule = unit_fits }, .fallible = true },
        .add_time => .{ .parameters = &.{ date, time }, .result = .{ .rule = date_and_time_fit }, .fallible = true },
        .from_number => .{
            .parameters = &.{.of(&.{ .i32, .i64 })},
            .result = .{ .rule = number_fits },
            .fallible = true,
        },
        .to_timestamp => .{ .parameters = &.{float}, .result = .{ .rule = is_instant }, .fallible = true },
        else => null,
    };
}

// What the types of a call must be, beyond their tags.

fn is_utc(zone: []const u8) bool {
    return zone.len == 0 or std.mem.eql(u8, zone, "UTC");
}

fn is_exact(data_type: DataType) bool {
    return switch (data_type.tag) {
        .time => data_type.unit == .microsecond,
        .timestamp => data_type.unit == .microsecond and is_utc(data_type.zone),
        else => true,
    };
}

fn is_time(_: []const Expression, result: DataType) bool {
    return result.eql(.{ .tag = .time, .unit = .microsecond });
}

fn is_local(_: []const Expression, result: DataType) bool {
    return result.eql(.{ .tag = .timestamp, .unit = .microsecond });
}

fn is_instant(_: []const Expression, result: DataType) bool {
    return result.eql(.{ .tag = .timestamp, .unit = .microsecond, .zone = "UTC" });
}

fn is_parsed(_: []const Expression, result: DataType) bool {
    return result.tag == .timestamp and is_utc(result.zone) and
        (result.unit == .microsecond or result.unit == .nanosecond);
}

/// The part that a call names; null for NULL and for numbers that no part has.
fn given_part(argument: *const Expression) ?DatePart {
    if (argument.is_null_literal()) return null;
    return std.enums.fromInt(DatePart, argument.node.literal.values(u8)[0]);
}

fn part_fits(arguments: []const Expression, result: DataType) bool {
    if (result.tag != .i64) return false;
    const value = arguments[1].type;
    const part = given_part(&arguments[0]) orelse return arguments[0].is_null_literal();
    switch (part) {
        .epoch, .julian => return false,
        .nanosecond, .epoch_ns => if (value.tag == .timestamp and value.unit == .nanosecond) return true,
        else => {},
    }
    // These do not depend on a zone.
    if (part == .epoch_ms or part == .epoch_us or part == .epoch_ns)
        return value.unit == .microsecond or value.tag == .date or value.tag == .interval;
    if (!is_exact(value)) return false;
    return switch (value.tag) {
        .interval => interval_part.has(part),
        .time => part == .timezone or time_part(part) != null,
        else => true,
    };
}

fn float_part_fits(arguments: []const Expression, result: DataType) bool {
    if (result.tag != .f64) return false;
    const value = arguments[1].type;
    const part = given_part(&arguments[0]) orelse return arguments[0].is_null_literal();
    return switch (part) {
        .epoch => value.tag != .time and value.tag != .timestamp or value.unit == .microsecond,
        .julian => is_exact(value) and (value.tag == .date or value.tag == .timestamp),
        else => false,
    };
}

fn truncation_fits(arguments: []const Expression, result: DataType) bool {
    const value = arguments[1].type;
    if (!is_exact(value)) return false;
    if (given_part(&arguments[0])) |part| {
        if (difference.Unit.of(part) == null) return false;
    } else if (!arguments[0].is_null_literal()) return false;
    if (value.tag == .date) return is_local(arguments, result);
    return result.eql(value);
}

fn difference_fits(arguments: []const Expression, result: DataType) bool {
    if (result.tag != .i64 or !arguments[1].type.eql(arguments[2].type) or !is_exact(arguments[1].type)) return false;
    const part = given_part(&arguments[0]) orelse return arguments[0].is_null_literal();
    const unit = difference.Unit.of(part) orelse return false;
    return arguments[1].type.tag != .time or unit.is_time();
}

fn moved_fits(arguments: []const Expression, result: DataType) bool {
    const value = arguments[0].type;
    if (value.tag == .date) return is_local(arguments, result);
    return is_exact(value) and result.eql(value);
}

fn between_fits(arguments: []const Expression, result: DataType) bool {
    return result.tag == .interval and arguments[0].type.eql(arguments[1].type) and is_exact(arguments[0].type);
}

fn last_day_fits(arguments: []const Expression, result: DataType) bool {
    return result.tag == .date and is_exact(arguments[0].type);
}

fn name_fits(arguments: []const Expression, result: DataType) bool {
    return result.tag == .utf8 and is_exact(arguments[0].type);
}

fn unit_fits(arguments: []const Expression, result: DataType) bool {
    if (result.tag != .interval) return false;
    return arguments[0].is_null_literal() or given_part(&arguments[0]) != null;
}

fn written_fits(arguments: []const Expression, result: DataType) bool {
    const value = arguments[0].type;
    const fine = value.tag == .timestamp and value.unit == .nanosecond and is_utc(value.zone);
    return result.tag == .utf8 and (fine or is_exact(value));
}

fn date_and_time_fit(arguments: []const Expression, result: DataType) bool {
    return is_exact(arguments[1].type) and is_local(arguments, result);
}

fn number_fits(arguments: []const Expression, result: DataType) bool {
    return result.tag == @as(abi.TypeTag, if (arguments[0].type.tag == .i32) .date else .timestamp);
}

pub fn evaluate(call: *const Call) Error!Column {
    switch (call.id) {
        .date_part => return evaluate_part(call),
        .date_part_float => return evaluate_float_part(call),
        .date_trunc => return evaluate_truncation(call),
        .date_diff, .date_sub => return evaluate_difference(call),
        .add_interval, .subtract_interval => return evaluate_moved(call),
        .add_days, .subtract_days => {
            const out = try call.new_values(i32);
            const sign: temporal.Sign = if (call.id == .add_days) .plus else .minus;
            try temporal.dates_and_days(
                operand(i32, &call.operands[0]),
                operand(i32, &call.operands[1]),
                sign,
                call.rows,
                out,
            );
            return call.of_values(i32, out);
        },
        .subtract_dates => {
            const out = try call.new_values(i64);
            temporal.subtract_dates(try spread(call, i32, 0), try spread(call, i32, 1), out);
            return call.of_values(i64, out);
        },
        .subtract_timestamps => return binary(
            call,
            i64,
            i64,
            Interval,
            "the difference of timestamps",
            temporal.timestamp_difference,
        ),
        .age => {
            const result = try binary(call, i64, i64, Interval, "age", total(i64, i64, Interval, difference.age));
            return without_infinite(call, i64, &.{ 0, 1 }, result);
        },
        .last_day => return evaluate_last_day(call),
        .make_date, .make_time, .make_timestamp => return evaluate_made(call),
        .day_name, .month_name => return evaluate_name(call),
        .strftime => return evaluate_written(call),
        .strptime, .try_strptime => return evaluate_parsed(call),
        .add_intervals => return binary(
            call,
            Interval,
            Interval,
            Interval,
            "the sum of intervals",
            temporal.interval_sum,
        ),
        .subtract_intervals => return binary(
            call,
            Interval,
            Interval,
            Interval,
            "the difference of intervals",
            temporal.interval_difference,
        ),
        .multiply_interval => return if (call.operands[1].column.type.tag == .i64)
            binary(call, Interval, i64, Interval, "a multiple of an interval", temporal.interval_times)
        else
            binary(call, Interval, f64, Interval, "a multiple of an interval", temporal.interval_scaled),
        .divide_interval => {
            try refuse_zero(call);
            return binary(call, Interval, f64, Interval, "a part of an interval", temporal.interval_divided);
        },
        .negate_interval => return unary(call, Interval, Interval, "minus an interval", temporal.interval_negative),
        .to_interval => return evaluate_interval(call),
        .add_time => return binary(call, i32, i64, i64, "a date and a time", temporal.add_time),
        .from_number => return if (call.type.tag == .date)
            unary(call, i32, i32, "a date from a number", struct {
                fn one(value: i32) ?i32 {
                    return value;
                }
            }.one)
        else
            unary(call, i64, i64, "a timestamp from a number", struct {
                fn one(value: i64) ?i64 {
                    return construct.timestamp(value, 1);
                }
            }.one),
        .to_timestamp => return unary(call, f64, i64, "a timestamp from seconds", construct.instant),
        else => unreachable, // has no signature
    }
}

// Loops.

/// A function of two values that always has an answer, as one that need not.
fn total(comptime A: type, comptime B: type, comptime T: type, comptime one: fn (A, B) T) fn (A, B) ?T {
    return struct {
        fn wrapped(a: A, b: B) ?T {
            return one(a, b);
        }
    }.wrapped;
}

fn binary(
    call: *const Call,
    comptime A: type,
    comptime B: type,
    comptime T: type,
    what: []const u8,
    comptime one: fn (A, B) ?T,
) Error!Column {
    const out = try call.new_values(T);
    try each.each(T, out, call.rows, what, call, struct {
        fn at(c: *const Call, row: usize) ?T {
            return one(c.operands[0].value_at(A, row), c.operands[1].value_at(B, row));
        }
    }.at);
    return call.of_values(T, out);
}

fn unary(
    call: *const Call,
    comptime A: type,
    comptime T: type,
    what: []const u8,
    comptime one: fn (A) ?T,
) Error!Column {
    const out = try call.new_values(T);
    try each.each(T, out, call.rows, what, call, struct {
        fn at(c: *const Call, row: usize) ?T {
            return one(c.operands[0].value_at(A, row));
        }
    }.at);
    return call.of_values(T, out);
}

fn operand(comptime T: type, given: *const function.Operand) arithmetic.Operand(T) {
    if (given.is_constant) return .{ .scalar = given.value_at(T, 0) };
    return .{ .values = given.column.values(T) };
}

/// The values of all rows, also of a constant.
fn spread(call: *const Call, comptime T: type, index: usize) Error![]const T {
    const column = try call.spread(index);
    return column.values(T);
}

/// Rows in which one of these operands is infinite become NULL.
fn without_infinite(call: *const Call, comptime T: type, numbers: []const usize, result: Column) Error!Column {
    var answer = result;
    answer.validity = try finite_rows(call, T, numbers, result.validity);
    return answer;
}

fn finite_rows(call: *const Call, comptime T: type, numbers: []const usize, before: ?[]const u8) Error!?[]const u8 {
    var validity = before;
    for (numbers) |index| {
        const given = &call.operands[index];
        if (given.is_constant) {
            if (!moment.is_infinite(T, given.value_at(T, 0))) continue;
            const bits = try call.new_bits();
            @memset(bits, 0);
            return bits;
        }
        const values = given.column.values(T);
        if (!moment.any_infinite(T, values)) continue;
        const bits = try call.new_bits();
        moment.mark_finite(T, values, validity, bits);
        validity = bits;
    }
    return validity;
}

// Parts.

fn part_of(call: *const Call) DatePart {
    return @fromBackingInt(@intCast(call.operands[0].value_at(u8, 0))); // the signature has looked
}

fn calendar_part(part: DatePart) ?calendar.DatePart {
    return switch (part) {
        inline .year,
        .month,
        .day,
        .quarter,
        .week,
        .isoyear,
        .yearweek,
        .dayofweek,
        .isodow,
        .dayofyear,
        .decade,
        .century,
        .millennium,
        .era,
        => |known| @field(calendar.DatePart, @tagName(known)),
        else => null,
    };
}

fn time_part(part: DatePart) ?moment.TimePart {
    return switch (part) {
        inline .hour, .minute, .second, .millisecond, .microsecond, .nanosecond => |known| @field(
            moment.TimePart,
            @tagName(known),
        ),
        else => null,
    };
}

fn evaluate_part(call: *const Call) Error!Column {
    const part = part_of(call);
    const value = &call.operands[1];
    switch (value.column.type.tag) {
        .date => return date_parts(call, part),
        .timestamp => return without_infinite(call, i64, &.{1}, try timestamp_parts(call, part)),
        .time => return time_parts(call, part),
        .interval => {
            const out = try call.new_values(i64);
            try each.each(i64, out, call.rows, "a part of an interval", call, struct {
                fn at(c: *const Call, row: usize) ?i64 {
                    return interval_part.part_of(part_of_call(c), c.operands[1].value_at(Interval, row));
                }
                const part_of_call = part_of;
            }.at);
            return call.of_values(i64, out);
        },
        else => unreachable,
    }
}

fn date_parts(call: *const Call, part: DatePart) Error!Column {
    const out = try call.new_values(i64);
    const days = try spread(call, i32, 1);
    if (calendar_part(part)) |known| {
        const near = switch (known) {
            inline else => |which| calendar.date_part(which, days, out),
        };
        const result = call.of_values(i64, out);
        return if (near) result else without_infinite(call, i32, &.{1}, result);
    }
    const factor: i64 = switch (part) {
        .epoch_ms => 86_400_000,
        .epoch_us => 86_400_000_000,
        .epoch_ns => 86_400_000_000_000,
        // Midnight, in UTC.
        else => 0,
    };
    const rows = try finite_rows(call, i32, &.{1}, call.rows);
    const Context = struct { days: []const i32, factor: i64 };
    try each.each(i64, out, rows, "the epoch of a date", Context{ .days = days, .factor = factor }, struct {
        fn at(c: Context, row: usize) ?i64 {
            return std.math.mul(i64, c.days[row], c.factor) catch null;
        }
    }.at);
    return without_infinite(call, i32, &.{1}, call.of_values(i64, out));
}

fn timestamp_parts(call: *const Call, part: DatePart) Error!Column {
    const out = try call.new_values(i64);
    const values = try spread(call, i64, 1);
    if (call.operands[1].column.type.unit == .nanosecond) {
        for (out, values) |*to, value| to.* = if (part == .nanosecond) @mod(value, 60_000_000_000) else value;
        return call.of_values(i64, out);
    }
    if (calendar_part(part)) |known| {
        switch (known) {
            inline else => |which| moment.date_part(which, values, out),
        }
    } else if (time_part(part)) |known| {
        switch (known) {
            inline else => |which| moment.time_part(which, values, out),
        }
    } else switch (part) {
        .epoch_us => @memcpy(out, values),
        // To the nearest, half away from zero.
        .epoch_ms => for (out, values) |*to, value| {
            const rest = @rem(value, 1000);
            to.* = @divTrunc(value, 1000) + @intFromBool(rest >= 500) - @intFromBool(rest <= -500);
        },
        .epoch_ns => try each.each(i64, out, try finite_rows(call, i64, &.{
            1,
        }, call.rows), "the epoch of a timestamp", values, struct {
            fn at(v: []const i64, row: usize) ?i64 {
                return std.math.mul(i64, v[row], 1000) catch null;
            }
        }.at),
        .timezone => @memset(out, 0),
        else => unreachable,
    }
    return call.of_values(i64, out);
}

fn time_parts(call: *const Call, part: DatePart) Error!Column {
    const out = try call.new_values(i64);
    const values = try spread(call, i64, 1);
    if (time_part(part)) |known| {
        switch (known) {
            inline else => |which| moment.part_of_time(which, values, out),
        }
    } else switch (part) {
        .epoch_us => @memcpy(out, values),
        .epoch_ms => for (out, values) |*to, value| {
            to.* = @divTrunc(value, 1000);
        },
        .epoch_ns => for (out, values) |*to, value| {
            to.* = value *% 1000;
        },
        .timezone => @memset(out, 0),
        else => unreachable,
    }
    return call.of_values(i64, out);
}

fn evaluate_float_part(call: *const Call) Error!Column {
    const part = part_of(call);
    const out = try call.new_values(f64);
    const value = &call.operands[1];
    const result = call.of_values(f64, out);
    switch (value.column.type.tag) {
        .date => {
            for (out, 0..) |*to, row| {
                const day: i64 = value.value_at(i32, row);
                to.* = @floatFromInt(if (part == .epoch) day * 86_400 else day + julian_epoch);
            }
            return without_infinite(call, i32, &.{1}, result);
        },
        .timestamp => {
            const has_zone = value.column.type.zone.len > 0;
            for (out, 0..) |*to, row| {
                const ticks = value.value_at(i64, row);
                to.* = if (part == .julian) julian(ticks) else if (has_zone) instant_epoch(ticks) else seconds(ticks);
            }
            return without_infinite(call, i64, &.{1}, result);
        },
        .time => for (out, 0..) |*to, row| {
            to.* = seconds(value.value_at(i64, row));
        },
        .interval => for (out, 0..) |*to, row| {
            to.* = interval_part.epoch(value.value_at(Interval, row));
        },
        else => unreachable,
    }
    return result;
}

/// The number of 1970-01-01.
const julian_epoch = 2_440_588;

fn julian(ticks: i64) f64 {
    const time_of_day: f64 = @floatFromInt(@mod(ticks, moment.day_microseconds));
    const day: f64 = @floatFromInt(@as(i64, moment.day_of(ticks)) + julian_epoch);
    return time_of_day / moment.day_microseconds + day;
}

fn seconds(ticks: i64) f64 {
    return @as(f64, @floatFromInt(ticks)) / 1_000_000;
}

/// DuckDB adds milliseconds and microseconds of instants up, which may differ in the last digit.
fn instant_epoch(ticks: i64) f64 {
    const milliseconds: f64 = @floatFromInt(@divFloor(ticks, 1000));
    const rest: f64 = @floatFromInt(@mod(ticks, 1000));
    return milliseconds / 1000 + rest / 1_000_000;
}

// Truncation.

fn evaluate_truncation(call: *const Call) Error!Column {
    const value = &call.operands[1];
    if (value.column.type.tag == .interval) {
        const out = try call.new_values(Interval);
        for (out, 0..) |*to, row| to.* = interval_part.truncate(part_of(call), value.value_at(Interval, row)).?;
        return call.of_values(Interval, out);
    }
    const out = try call.new_values(i64);
    const unit = difference.Unit.of(part_of(call)).?;
    const fits = if (value.column.type.tag == .date)
        truncate_dates(unit, try spread(call, i32, 1), out)
    else
        truncate_timestamps(unit, try spread(call, i64, 1), out);
    const infinite = if (value.column.type.tag == .date)
        try keep_infinite(call, i32, out)
    else
        try keep_infinite(call, i64, out);
    if (!fits or infinite) try refuse_truncation(call, unit, out);
    return call.of_values(i64, out);
}

fn date_unit(unit: difference.Unit) calendar.DateUnit {
    return switch (unit) {
        inline .week, .month, .quarter, .year, .isoyear, .decade, .century, .millennium => |known| @field(
            calendar.DateUnit,
            @tagName(known),
        ),
        else => .day,
    };
}

fn truncate_dates(unit: difference.Unit, days: []const i32, out: []i64) bool {
    return switch (date_unit(unit)) {
        inline else => |known| moment.truncate_days(known, days, out),
    };
}

fn truncate_timestamps(unit: difference.Unit, values: []const i64, out: []i64) bool {
    switch (unit) {
        .microsecond => @memcpy(out, values),
        inline .millisecond, .second, .minute, .hour => |known| moment.truncate_times(
            @field(moment.TimeUnit, @tagName(known)),
            values,
            out,
        ),
        else => return switch (date_unit(unit)) {
            inline else => |known| moment.truncate_dates(known, values, out),
        },
    }
    return true;
}

/// Infinite moments stay; whether there was one.
fn keep_infinite(call: *const Call, comptime T: type, out: []i64) Error!bool {
    const values = try spread(call, T, 1);
    if (!moment.any_infinite(T, values)) return false;
    for (out, values) |*to, value| {
        if (moment.is_infinite(T, value)) to.* = if (value > 0) std.math.maxInt(i64) else -std.math.maxInt(i64);
    }
    return true;
}

/// Some row is infinite, or its unit begins before all timestamps: which of them matters?
fn refuse_truncation(call: *const Call, unit: difference.Unit, out: []const i64) Error!void {
    for (out, 0..) |result, row| {
        if (!call.matters(row) or moment.is_infinite(i64, result)) continue;
        var one: [1]i64 = undefined;
        const fits = if (call.operands[1].column.type.tag == .date)
            truncate_dates(unit, &.{call.operands[1].value_at(i32, row)}, &one)
        else
            truncate_timestamps(unit, &.{call.operands[1].value_at(i64, row)}, &one);
        if (!fits) return each.out_of_range("date_trunc");
    }
}

// Differences.

fn evaluate_difference(call: *const Call) Error!Column {
    const is_date = call.operands[1].column.type.tag == .date;
    return if (is_date) differences(call, i32) else differences(call, i64);
}

fn differences(call: *const Call, comptime T: type) Error!Column {
    const unit = difference.Unit.of(part_of(call)).?;
    const out = try call.new_values(i64);
    const has_infinity = call.operands[1].column.type.tag != .time;
    const rows = if (has_infinity) try finite_rows(call, T, &.{ 1, 2 }, call.rows) else call.rows;
    if (call.id == .date_diff) {
        try difference.diff(T, unit, operand(T, &call.operands[1]), operand(T, &call.operands[2]), rows, out);
    } else {
        const Context = struct { call: *const Call, unit: difference.Unit };
        try each.each(i64, out, rows, "date_sub", Context{ .call = call, .unit = unit }, struct {
            fn at(c: Context, row: usize) ?i64 {
                var ends: [2]i64 = undefined;
                for (&ends, c.call.operands[1..3]) |*end, *given| {
                    const value = given.value_at(T, row);
                    end.* = if (T == i32) temporal.midnight(value) orelse return null else value;
                }
                return difference.whole_units(c.unit, ends[0], ends[1]);
            }
        }.at);
    }
    const result = call.of_values(i64, out);
    return if (has_infinity) without_infinite(call, T, &.{ 1, 2 }, result) else result;
}

// Dates and intervals.

fn evaluate_moved(call: *const Call) Error!Column {
    const sign: temporal.Sign = if (call.id == .add_interval) .plus else .minus;
    const intervals = operand(Interval, &call.operands[1]);
    const out = try call.new_values(i64);
    const value = &call.operands[0];
    switch (value.column.type.tag) {
        .date => try temporal.dates_and_intervals(operand(i32, value), intervals, sign, call.rows, out),
        .timestamp => {
            const clock: temporal.Clock = if (value.column.type.zone.len == 0) .local else .instant;
            try temporal.timestamps_and_intervals(operand(i64, value), intervals, sign, clock, call.rows, out);
        },
        .time => for (out, 0..) |*to, row| {
            to.* = temporal.add_to_time(value.value_at(i64, row), intervals.at(row), sign);
        },
        else => unreachable,
    }
    return call.of_values(i64, out);
}

fn refuse_zero(call: *const Call) Error!void {
    for (0..call.row_count) |row| {
        if (call.operands[1].value_at(f64, row) != 0 or !call.matters(row)) continue;
        interrupt.describe("division of an interval by zero", .{});
        return error.OutOfRange;
    }
}

fn evaluate_interval(call: *const Call) Error!Column {
    const out = try call.new_values(Interval);
    try each.each(Interval, out, call.rows, "an interval", call, struct {
        fn at(c: *const Call, row: usize) ?Interval {
            const count = &c.operands[1];
            if (count.column.type.tag == .f64)
                return construct.fractional_interval(part_of(c), count.value_at(f64, row));
            return construct.interval(part_of(c), count.value_at(i64, row));
        }
    }.at);
    return call.of_values(Interval, out);
}

fn evaluate_last_day(call: *const Call) Error!Column {
    const out = try call.new_values(i32);
    const value = &call.operands[0];
    if (value.column.type.tag == .date) {
        calendar.last_days(try spread(call, i32, 0), out);
        return without_infinite(call, i32, &.{0}, call.of_values(i32, out));
    }
    const days = try call.arena.alloc(i32, call.row_count);
    moment.days(try spread(call, i64, 0), days);
    calendar.last_days(days, out);
    return without_infinite(call, i64, &.{0}, call.of_values(i32, out));
}

fn evaluate_made(call: *const Call) Error!Column {
    switch (call.id) {
        .make_date => {
            const out = try call.new_values(i32);
            try each.each(i32, out, call.rows, "make_date", call, struct {
                fn at(c: *const Call, row: usize) ?i32 {
                    return made_date(c, row);
                }
            }.at);
            return call.of_values(i32, out);
        },
        .make_time => {
            const out = try call.new_values(i64);
            try each.each(i64, out, call.rows, "make_time", call, struct {
                fn at(c: *const Call, row: usize) ?i64 {
                    return made_time(c, 0, row);
                }
            }.at);
            return call.of_values(i64, out);
        },
        .make_timestamp => {
            const out = try call.new_values(i64);
            try each.each(i64, out, call.rows, "make_timestamp", call, struct {
                fn at(c: *const Call, row: usize) ?i64 {
                    return temporal.timestamp_of(
                        made_date(c, row) orelse return null,
                        made_time(c, 3, row) orelse return null,
                    );
                }
            }.at);
            return call.of_values(i64, out);
        },
        else => unreachable,
    }
}

fn made_date(call: *const Call, row: usize) ?i32 {
    return construct.date(
        call.operands[0].value_at(i64, row),
        call.operands[1].value_at(i64, row),
        call.operands[2].value_at(i64, row),
    );
}

fn made_time(call: *const Call, first: usize, row: usize) ?i64 {
    const given = call.operands[first..];
    return construct.time(given[0].value_at(i64, row), given[1].value_at(i64, row), given[2].value_at(f64, row));
}

// Text.

fn evaluate_name(call: *const Call) Error!Column {
    const value = &call.operands[0];
    const is_date = value.column.type.tag == .date;
    const longest = 9; // September, Wednesday
    var writer: text.Writer = try .init(call.arena, call.row_count, @as(u64, call.row_count) * longest);
    for (0..call.row_count) |row| {
        const day = if (is_date) value.value_at(i32, row) else moment.day_of(value.value_at(i64, row));
        writer.put(if (call.id == .day_name)
            time_format.day_names[@intCast(calendar.part_of(.dayofweek, day))]
        else
            time_format.month_names[@intCast(calendar.part_of(.month, day) - 1)]);
        writer.end_row();
    }
    const result = writer.finish(call.type, call.validity);
    return if (is_date) without_infinite(call, i32, &.{0}, result) else without_infinite(call, i64, &.{0}, result);
}

fn read_format(call: *const Call) Error!time_format.Format {
    const letters = call.operands[1].bytes_at(0);
    return time_format.Format.init(call.arena, letters) catch |err| switch (err) {
        error.OutOfMemory => error.OutOfMemory,
        error.InvalidPattern => {
            interrupt.describe("the format '{s}' of a time", .{letters[0..@min(letters.len, 100)]});
            return error.NotSupported;
        },
    };
}

fn evaluate_written(call: *const Call) Error!Column {
    const format = try read_format(call);
    const value = &call.operands[0];
    const kind = value.column.type;
    const zone = if (kind.zone.len == 0) "" else "UTC";
    var writer: text.Writer = try .init(call.arena, call.row_count, 0);
    for (0..call.row_count) |row| {
        if (row % text.block_rows == 0) try interrupt.check();
        if (call.matters(row)) {
            try writer.reserve(format.size_max());
            const target = writer.data[writer.size..];
            writer.size += if (kind.tag == .date)
                time_format.write_date(&format, value.value_at(i32, row), target)
            else
                time_format.write(&format, value.value_at(i64, row), kind.unit == .nanosecond, zone, target);
        }
        writer.end_row();
    }
    return writer.finish(call.type, call.validity);
}

fn evaluate_parsed(call: *const Call) Error!Column {
    const format = try read_format(call);
    const out = try call.new_values(i64);
    const bits: ?[]u8 = if (call.id == .try_strptime) try call.new_bits() else null;
    for (out, 0..) |*to, row| {
        if (row % text.block_rows == 0) try interrupt.check();
        to.* = 0;
        const given = call.operands[0].bytes_at(row);
        const found = if (call.matters(row)) parse_one(call, &format, given) else 0;
        if (bits) |made| {
            if (found != null and call.matters(row)) bitmap.set(made.ptr, row) else bitmap.clear(made.ptr, row);
        } else if (found == null) {
            interrupt.describe(
                "'{s}' is not a time of the format '{s}'",
                .{ given[0..@min(given.len, 80)], call.operands[1].bytes_at(0) },
            );
            return error.OutOfRange;
        }
        to.* = found orelse 0;
    }
    var result = call.of_values(i64, out);
    if (bits) |made| result.validity = made;
    return result;
}

fn parse_one(call: *const Call, format: *const time_format.Format, given: []const u8) ?i64 {
    const found = time_format.parse(format, given) orelse return null;
    return if (call.type.unit == .nanosecond) found.timestamp_nanoseconds() else found.timestamp();
}
