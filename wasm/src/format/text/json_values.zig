//! JSON values → builders: the objects of rows, and what they hold.
//!
//! A `Shape` says which keys go where; all others are stepped over. Rows mostly have their keys in the same
//! order, so the key behind the last one is tried first.
const std = @import("std");
const builder_module = @import("builder.zig");
const failure = @import("failure.zig");
const infer = @import("infer.zig");
const interrupt = @import("../../core/interrupt.zig");
const json_scanner = @import("json_scanner.zig");
const usual = @import("values.zig");
const Allocator = std.mem.Allocator;
const Builder = builder_module.Builder;
const Error = failure.Error;
const Scalar = json_scanner.Scalar;
const Scanner = json_scanner.Scanner;
const Unescaper = json_scanner.Unescaper;
const append_decoded = json_scanner.append_decoded;

/// A builder with the names of its fields.
pub const Shape = struct {
    builder: *Builder,
    names: std.array_hash_map.String(void) = .empty,
    children: []Shape = &.{},

    pub fn init(arena: Allocator, builder: *Builder) Error!Shape {
        var self: Shape = .{ .builder = builder };
        self.children = try arena.alloc(Shape, builder.children.len);
        for (self.children, builder.children) |*child, *child_builder| child.* = try .init(arena, child_builder);
        if (builder.type.tag != .structure) return self;
        try self.names.ensureTotalCapacity(arena, builder.children.len);
        for (builder.type.children) |field| {
            if (!self.names.getOrPutAssumeCapacity(field.name).found_existing) continue;
            interrupt.describe("two columns are called {s}", .{infer.excerpt(field.name)});
            return error.InvalidFormat;
        }
        return self;
    }

    fn find(self: *const Shape, name: []const u8, guess: usize) ?usize {
        const fields = self.builder.type.children;
        if (guess < fields.len and std.mem.eql(u8, fields[guess].name, name)) return guess;
        return self.names.getIndex(name);
    }
};

pub const Values = struct {
    gpa: Allocator,
    scanner: Scanner,
    scratch: std.ArrayList(u8) = .empty,

    pub fn deinit(self: *Values) void {
        self.scratch.deinit(self.gpa);
    }

    pub fn append_value(self: *Values, shape: *const Shape, depth: u32) Error!void {
        const scanner = &self.scanner;
        const start = scanner.position;
        const builder = shape.builder;
        const kind = try scanner.kind();
        if (kind == .array and builder.type.tag == .list) return self.append_list(shape, depth);
        if (kind == .object and builder.type.tag == .structure) return self.append_object(shape, depth);
        if (kind != .array and kind != .object) return self.append_scalar(builder, try scanner.scalar());
        if (builder.type.tag != .utf8) return self.fail_type(builder, start);
        try scanner.skip_value(depth);
        try builder.append_bytes(self.gpa, scanner.text[start..scanner.position]);
    }

    fn append_list(self: *Values, shape: *const Shape, depth: u32) Error!void {
        const scanner = &self.scanner;
        try scanner.check_depth(depth);
        var more = try scanner.first(']');
        while (more) : (more = try scanner.next(']')) try self.append_value(&shape.children[0], depth + 1);
        try shape.builder.end_list(self.gpa);
    }

    pub fn append_object(self: *Values, shape: *const Shape, depth: u32) Error!void {
        const scanner = &self.scanner;
        const row = shape.builder.row_count;
        try scanner.check_depth(depth);
        var more = try scanner.first('}');
        var guess: usize = 0;
        while (more) : (more = try scanner.next('}')) {
            const name = try self.decoded(try scanner.key());
            const index = shape.find(name, guess) orelse {
                try scanner.skip_value(depth + 1);
                continue;
            };
            guess = index + 1;
            const child = &shape.children[index];
            // A key that comes again takes its earlier value back.
            child.builder.truncate(row);
            try self.append_value(child, depth + 1);
        }
        // A wide table takes its time per row, however short the row's text.
        try interrupt.check();
        try shape.builder.end_structure(self.gpa);
    }

    fn append_scalar(self: *Values, builder: *Builder, scalar: Scalar) Error!void {
        if (scalar.kind == .null) return builder.append_null(self.gpa);
        const text = self.scanner.text[scalar.start..scalar.end];
        if (!scalar.escaped and try self.append_usual(builder, text)) return;
        if (scalar.escaped and builder.type.tag == .utf8) return self.append_escaped(builder, text);
        if (try builder.append_text(self.gpa, try self.decoded(scalar))) return;
        return self.fail_type(builder, scalar.start);
    }

    /// Values in their usual spelling.
    pub inline fn append_usual(self: *Values, builder: *Builder, text: []const u8) Error!bool {
        switch (builder.type.tag) {
            .utf8 => try builder.append_bytes(self.gpa, text),
            inline .i64, .f64, .date => |tag| {
                const value = usual.parse_usual(tag, builder.type, text, text) orelse return false;
                try builder.append_value(self.gpa, usual.Value(tag), value);
            },
            else => return false,
        }
        return true;
    }

    fn append_escaped(self: *Values, builder: *Builder, text: []const u8) Error!void {
        var pieces: Unescaper = .{ .text = text };
        while (pieces.next()) |piece| {
            try interrupt.check();
            try builder.append_piece(self.gpa, piece);
        }
        try builder.end_bytes(self.gpa);
    }

    /// Valid until the next call.
    pub fn decoded(self: *Values, scalar: Scalar) Error![]const u8 {
        const text = self.scanner.text[scalar.start..scalar.end];
        if (!scalar.escaped) return text;
        self.scratch.clearRetainingCapacity();
        try append_decoded(self.gpa, &self.scratch, text);
        return self.scratch.items;
    }

    fn fail_type(self: *Values, builder: *const Builder, offset: usize) Error {
        const scanner = &self.scanner;
        const rest = scanner.text[offset..];
        return scanner.fail_at(offset, "expected {s}, found {s}", .{
            builder.type.described(),
            infer.excerpt(rest[0..@min(rest.len, 24)]),
        });
    }
};
