//! Joins on the wire → steps, checked and typed. plan/plan.zig draws the whole plan.
//!
//!     join        u16 build (of the plan's), u8 JoinKind, u16 keys × expression,
//!                 u16 outputs × (name, u8 JoinSide, u16 column (0 for the mark)),
//!                 u8 has residual, [expression (bool) over the input's columns and then the build's]
//!
//! A join without keys pairs every row with every row.
const std = @import("std");
const abi = @import("../abi.zig");
const schema = @import("../core/schema.zig");
const expression_module = @import("../plan/expression.zig");
const expression_parser = @import("../plan/expression_parser.zig");
const step_module = @import("../plan/step.zig");
const JoinTable = @import("../lookup/join_table.zig").JoinTable;
const Error = expression_parser.Error;
const Expression = expression_module.Expression;
const Field = schema.Field;
const Parser = expression_parser.Parser;
const refuse = expression_parser.refuse;

/// An output column.
pub const Pick = struct { side: abi.JoinSide, column: u32 };

/// What a pair of rows must also fulfil, and the columns it names: the input's, then the build's.
pub const Residual = struct { predicate: Expression, named: []const bool };

pub const Join = struct {
    table: *JoinTable,
    kind: abi.JoinKind,
    keys: []const Expression,
    picks: []const Pick,
    residual: ?Residual,
};

pub fn parse(self: *Parser) Error!step_module.Parsed(Join) {
    const table = try self.parse_build();
    const kind = try self.cursor.read_enum(abi.JoinKind);
    const keys = try self.parse_build_keys(table, 0);
    const picks = try self.arena.alloc(Pick, try self.read_count(5));
    const fields = try self.arena.alloc(Field, picks.len);
    for (picks, fields) |*pick, *field| {
        field.name = try schema.read_name(&self.cursor);
        pick.* = .{ .side = try self.cursor.read_enum(abi.JoinSide), .column = try self.cursor.read_int(u16) };
        field.type = try pick_type(self, table, kind, pick.*);
    }
    const residual = if (try self.cursor.read_flag()) try parse_residual(self, table) else null;
    return .{
        .step = .{ .table = table, .kind = kind, .keys = keys, .picks = picks, .residual = residual },
        .output = fields,
    };
}

fn pick_type(self: *const Parser, table: *const JoinTable, kind: abi.JoinKind, pick: Pick) Error!schema.DataType {
    switch (pick.side) {
        .mark => {
            if (kind != .mark or pick.column != 0) return refuse("a mark of a join that makes none", .{});
            return .of(.bool);
        },
        .build => switch (kind) {
            .semi, .anti, .mark => return refuse("a column of the build out of a join that hands out none", .{}),
            .inner, .left, .single => {},
        },
        .input => {},
    }
    const fields = if (pick.side == .input) self.fields else table.fields;
    if (pick.column >= fields.len) {
        return refuse("column {d} of {d} on one side of a join", .{ pick.column, fields.len });
    }
    return fields[pick.column].type;
}

fn parse_residual(self: *Parser, table: *const JoinTable) Error!Residual {
    const input = self.fields;
    const named = try self.arena.alloc(bool, input.len + table.fields.len);
    @memset(named, false);
    self.fields = try std.mem.concat(self.arena, Field, &.{ input, table.fields });
    self.named = named;
    defer {
        self.fields = input;
        self.named = null;
    }
    return .{ .predicate = try self.parse_predicate(0), .named = named };
}
