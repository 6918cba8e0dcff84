//! JSON rows → values of the columns that somebody wants. Text in memory and pieces of files are read here alike.
//!
//!     lines   (spaces* object spaces* line end | blank line)*        files, and text in memory
//!     array   spaces* [ object , … ] spaces*                         text in memory alone
//!
//! An object is a row. It may well go on over several lines, though a piece that begins among them will not find
//! out by itself. The row's own keys are guessed: the next column's name is compared where the next key stands,
//! and if that is it, neither the key is read nor its place looked up. Values that nobody wants are stepped over.
const std = @import("std");
const abi = @import("../../abi.zig");
const builder_module = @import("builder.zig");
const failure = @import("failure.zig");
const infer = @import("infer.zig");
const interrupt = @import("../../core/interrupt.zig");
const json_layout = @import("json_layout.zig");
const json_values = @import("json_values.zig");
const rows_module = @import("rows.zig");
const schema = @import("../../core/schema.zig");
const utf8 = @import("../../core/utf8.zig");
const Allocator = std.mem.Allocator;
const Error = failure.Error;
const Field = schema.Field;
const File = @import("file.zig").File;
const Origin = failure.Origin;
const Progress = rows_module.Progress;
const Request = rows_module.Request;
const Shape = json_values.Shape;
const Values = json_values.Values;
const Wanted = rows_module.Wanted;

/// Bytes of text between two looks at how large the builders have become: values may take far more than their
/// text.
const measure_size = 64 * 1024;

const V = @Vector(16, u8);

/// A column of the text.
const Key = struct {
    /// `"name":`, and zeros up to a multiple of 16 bytes.
    pattern: []const u8,
    size: usize,
    /// The name stands in a text as it is, without escapes.
    is_plain: bool,
    /// Of `shapes`; null for a column that nobody wants.
    place: ?u32 = null,

    fn init(arena: Allocator, name: []const u8) error{OutOfMemory}!Key {
        const size = name.len + 3;
        const pattern = try arena.alloc(u8, std.mem.alignForward(usize, size, 16));
        @memset(pattern, 0);
        pattern[0] = '"';
        @memcpy(pattern[1..][0..name.len], name);
        pattern[size - 2] = '"';
        pattern[size - 1] = ':';
        const is_plain = for (name) |byte| {
            if (byte < ' ' or byte == '"' or byte == '\\') break false;
        } else true;
        return .{ .pattern = pattern, .size = size, .is_plain = is_plain };
    }

    /// The text is as long as the pattern at least.
    inline fn matches(self: *const Key, text: []const u8) bool {
        if (!self.is_plain) return false;
        var at: usize = 0;
        while (at + 16 < self.size) : (at += 16) {
            if (differing(text[at..][0..16], self.pattern[at..][0..16]) != 0) return false;
        }
        const last: u5 = @intCast(self.size - at);
        return differing(text[at..][0..16], self.pattern[at..][0..16]) & ((@as(u32, 1) << last) - 1) == 0;
    }
};

inline fn differing(a: *const [16]u8, b: *const [16]u8) u16 {
    return bits(@as(V, a.*) != @as(V, b.*));
}

inline fn bits(lanes: @Vector(16, bool)) u16 {
    return @bitCast(lanes);
}

/// Bytes behind a key's pattern that `read_usual_pair` may look at without looking whether they are there: a
/// space, the first block of a value, what stands behind it.
const usual_slack = 64;
/// Strings are looked at as far as this; longer ones are the scanner's.
const usual_blocks = 2;

const UsualValue = struct { start: usize, end: usize, behind: usize, is_null: bool = false };

/// A string without escapes, a number without exponent, true, false or null, all of them short; what stands behind
/// is within the text.
inline fn usual_value(text: []const u8, at: usize) ?UsualValue {
    const first = text[at];
    if (first == '"') return usual_string(text, at + 1);
    if (first -% '0' < 10 or first == '-') return usual_number(text, at);
    if (std.mem.eql(u8, text[at..][0..4], "null"))
        return .{ .start = at, .end = at + 4, .behind = at + 4, .is_null = true };
    if (std.mem.eql(u8, text[at..][0..4], "true")) return .{ .start = at, .end = at + 4, .behind = at + 4 };
    if (std.mem.eql(u8, text[at..][0..5], "false")) return .{ .start = at, .end = at + 5, .behind = at + 5 };
    return null;
}

inline fn usual_string(text: []const u8, start: usize) ?UsualValue {
    inline for (0..usual_blocks) |block| {
        const at = start + block * 16;
        const bytes: V = text[at..][0..16].*;
        const odd = bits(bytes == @as(V, @splat('"'))) |
            bits(bytes == @as(V, @splat('\\'))) | bits(bytes < @as(V, @splat(' ')));
        if (odd != 0) {
            const end = at + @ctz(odd);
            return if (text[end] == '"') .{ .start = start, .end = end, .behind = end + 1 } else null;
        }
    }
    return null;
}

inline fn usual_number(text: []const u8, start: usize) ?UsualValue {
    const digits = start + @intFromBool(text[start] == '-');
    const bytes: V = text[digits..][0..16].*;
    var others: u32 = bits(bytes -% @as(V, @splat('0')) > @as(V, @splat(9)));
    if (others == 0) return null;
    var size: usize = @ctz(others);
    if (size == 0 or (size > 1 and text[digits] == '0')) return null;
    if (text[digits + size] == '.') {
        others &= others - 1;
        if (others == 0) return null;
        const all: usize = @ctz(others);
        if (all == size + 1) return null;
        size = all;
    }
    return .{ .start = start, .end = digits + size, .behind = digits + size };
}

pub const Rows = struct {
    gpa: Allocator,
    values: Values,
    layout: abi.JsonLayout,
    wanted: []const Wanted,
    shapes: []const Shape,
    /// All columns, in the order in which rows are likely to have them.
    keys: []const Key,
    places: std.StringHashMapUnmanaged(u32),
    origin: Origin = .{},
    /// Nobody has looked yet whether the text is UTF-8.
    checks_text: bool,
    /// Arrays: some element has been read; the closing bracket has been.
    started: bool = false,
    finished: bool = false,
    /// Rows read so far.
    row_count: u64 = 0,
    /// Rows in the builders, and where in the file their size was looked at last.
    built_count: u32 = 0,
    measured_at: u64 = 0,

    pub const Options = struct {
        layout: abi.JsonLayout,
        fields: []const Field,
        wanted: []const Wanted,
        checks_text: bool = false,
    };

    pub const sniff = @import("sniff.zig").json;

    /// Of a file: `file` and `wanted` stay.
    pub fn open(gpa: Allocator, arena: Allocator, file: *const File, wanted: []const Wanted) Error!Rows {
        return .init(gpa, arena, .{
            .layout = .lines,
            .fields = file.fields,
            .wanted = wanted,
            .checks_text = true,
        });
    }

    pub fn init(gpa: Allocator, arena: Allocator, options: Options) Error!Rows {
        const shapes = try arena.alloc(Shape, options.wanted.len);
        const keys = try arena.alloc(Key, options.fields.len);
        var places: std.StringHashMapUnmanaged(u32) = .empty;
        try places.ensureTotalCapacity(arena, @intCast(options.fields.len));
        for (keys, options.fields, 0..) |*key, field, i| {
            key.* = try .init(arena, field.name);
            if (!places.getOrPutAssumeCapacity(field.name).found_existing) {
                places.putAssumeCapacity(field.name, @intCast(i));
                continue;
            }
            interrupt.describe("two columns are called {s}", .{infer.excerpt(field.name)});
            return error.InvalidFormat;
        }
        for (shapes, options.wanted, 0..) |*shape, wanted, i| {
            shape.* = try .init(arena, wanted.builder);
            keys[wanted.column].place = @intCast(i);
        }
        return .{
            .gpa = gpa,
            .values = .{ .gpa = gpa, .scanner = .{ .text = "" } },
            .layout = options.layout,
            .wanted = options.wanted,
            .shapes = shapes,
            .keys = keys,
            .places = places,
            .checks_text = options.checks_text,
        };
    }

    pub fn deinit(self: *Rows) void {
        self.values.deinit();
    }

    /// The builders are empty again, and the next row begins at this byte of the file.
    pub fn begin_batch(self: *Rows, offset: u64) void {
        self.built_count = 0;
        self.measured_at = offset;
    }

    /// Appends rows to the builders of the wanted columns.
    pub fn read(self: *Rows, text: []const u8, request: Request) Error!Progress {
        var progress: Progress = .{ .position = request.start, .row_count = 0, .state = .full };
        self.values.scanner = .{ .text = text, .position = request.start, .origin = self.origin };
        try self.read_rows(text, request, &progress);
        if (self.checks_text) try self.check_text(text, request.start, progress.position);
        return progress;
    }

    fn read_rows(self: *Rows, text: []const u8, request: Request, progress: *Progress) Error!void {
        errdefer interrupt.describe_row(self.row_count);
        while (progress.row_count < request.row_count_max) {
            if (self.is_large(progress.position)) break;
            const more = switch (self.layout) {
                .array => try self.next_element(progress),
                else => try self.next_line(text, request, progress),
            };
            if (!more) break;
            const is_read = self.read_row(text, request) catch |err| {
                if (!self.is_cut(err, text, request)) return err;
                interrupt.forget();
                self.rewind();
                progress.state = .short;
                break;
            };
            if (!is_read) {
                self.rewind();
                progress.state = .short;
                break;
            }
            progress.position = self.values.scanner.position;
            progress.row_count += 1;
            self.row_count += 1;
            self.built_count += 1;
        }
    }

    fn is_cut(self: *const Rows, err: Error, text: []const u8, request: Request) bool {
        if (err != error.InvalidFormat or request.is_last) return false;
        return self.values.scanner.position + json_layout.cut_size >= text.len;
    }

    /// Takes a row back that was not complete.
    fn rewind(self: *Rows) void {
        for (self.wanted) |wanted| wanted.builder.rewind(self.built_count);
    }

    fn is_large(self: *Rows, position: usize) bool {
        const offset = self.origin.offset + position;
        if (offset - self.measured_at < measure_size) return false;
        self.measured_at = offset;
        var size: u64 = 0;
        for (self.wanted) |wanted| size += wanted.builder.memory_size();
        return size >= builder_module.batch_size_max;
    }

    fn check_text(self: *Rows, text: []const u8, start: usize, end: usize) Error!void {
        if (try utf8.is_ascii(text[start..end])) return;
        const at = try infer.find_invalid_utf8(text[start..end]) orelse return;
        return self.origin.fail(text, start + at, "not valid UTF-8", .{});
    }

    // ---- from row to row ----

    /// Moves to the next line that is not blank; false when there is none here, and then `state` says why.
    fn next_line(self: *Rows, text: []const u8, request: Request, progress: *Progress) Error!bool {
        const scanner = &self.values.scanner;
        scanner.position = progress.position;
        while (true) {
            if (progress.position >= request.limit) {
                progress.state = .limit;
                return false;
            }
            const ended = end_line(text, scanner, request.is_last) orelse {
                progress.state = .short;
                return false;
            };
            if (!ended) break;
            progress.position = scanner.position;
            if (scanner.position < text.len) continue;
            progress.state = if (request.is_last) .limit else .short;
            return false;
        }
        if (text[scanner.position] == '{') return true;
        return scanner.fail("expected an object", .{});
    }

    fn next_element(self: *Rows, progress: *Progress) Error!bool {
        const scanner = &self.values.scanner;
        scanner.position = progress.position;
        progress.state = .limit;
        if (self.finished) return false;
        const more = if (self.started) try scanner.next(']') else try scanner.first(']');
        self.started = true;
        if (!more) {
            self.finished = true;
            try scanner.skip_space();
            if (!scanner.at_end()) return scanner.fail("text follows the array", .{});
            progress.position = scanner.position;
            return false;
        }
        progress.state = .full;
        if (scanner.peek() == '{') return true;
        return scanner.fail("expected an object", .{});
    }

    /// Reads the object that the scanner stands at, and the end of its line; false when that is not here.
    fn read_row(self: *Rows, text: []const u8, request: Request) Error!bool {
        try self.read_object();
        const scanner = &self.values.scanner;
        if (self.layout == .array) return true;
        const ended = end_line(text, scanner, request.is_last) orelse return false;
        if (!ended) return scanner.fail("expected the end of the line", .{});
        return true;
    }

    // ---- a row's own keys ----

    /// Pairs in their usual spelling are read here, any other by the scanner: the next column's key where it is
    /// expected, a value without escapes, exponents or nesting, and a comma or the end right behind it.
    fn read_object(self: *Rows) Error!void {
        const scanner = &self.values.scanner;
        try interrupt.check();
        var more = try scanner.first('}');
        var guess: usize = 0;
        while (more) {
            if (guess < self.keys.len) if (try self.read_usual_pair(&self.keys[guess])) |has_next| {
                guess += 1;
                more = has_next;
                continue;
            };
            guess = try self.read_pair(guess);
            more = try scanner.next('}');
        }
        for (self.wanted) |wanted| {
            if (wanted.builder.row_count == self.built_count) try wanted.builder.append_null(self.gpa);
        }
    }

    /// Any key and its value; the scanner is then behind them. Which column follows, most likely.
    fn read_pair(self: *Rows, guess: usize) Error!usize {
        const scanner = &self.values.scanner;
        const index = try self.read_key() orelse {
            try scanner.skip_value(1);
            return guess;
        };
        const place = self.keys[index].place orelse {
            try scanner.skip_value(1);
            return index + 1;
        };
        const shape = &self.shapes[place];
        // A key that comes again takes its earlier value back.
        shape.builder.truncate(self.built_count);
        errdefer interrupt.describe_column(self.wanted[place].number);
        try self.values.append_value(shape, 1);
        return index + 1;
    }

    /// Null, and nothing has happened, unless all is as it usually is. Else whether another pair follows; the
    /// scanner stands at it, or behind the object.
    inline fn read_usual_pair(self: *Rows, key: *const Key) Error!?bool {
        const scanner = &self.values.scanner;
        const text = scanner.text;
        var at = scanner.position;
        if (text.len - at < key.pattern.len + usual_slack or !key.matches(text[at..])) return null;
        at += key.size;
        at += @intFromBool(text[at] == ' ');
        const value = usual_value(text, at) orelse return null;
        const has_next = text[value.behind] == ',';
        if (!has_next and text[value.behind] != '}') return null;
        if (key.place) |place| {
            const builder = self.shapes[place].builder;
            // One that has a value already is for `read_pair`.
            if (builder.row_count != self.built_count) return null;
            if (value.is_null) {
                try builder.append_null(self.gpa);
            } else if (!try self.values.append_usual(builder, text[value.start..value.end])) return null;
        }
        scanner.position = value.behind + 1;
        if (has_next) try scanner.skip_space();
        return has_next;
    }

    /// A key that is none of the columns is null.
    fn read_key(self: *Rows) Error!?usize {
        const name = try self.values.decoded(try self.values.scanner.key());
        return if (self.places.get(name)) |index| index else null;
    }
};

/// Steps over spaces and a line end. true: behind it, or at the end of the text; false: something else stands
/// there; null: the text goes on, and what follows is not here.
fn end_line(text: []const u8, scanner: anytype, is_last: bool) ?bool {
    var at = scanner.position;
    while (at < text.len and (text[at] == ' ' or text[at] == '\t')) at += 1;
    scanner.position = at;
    if (at == text.len) return if (is_last) true else null;
    if (text[at] == '\n') {
        scanner.position = at + 1;
        return true;
    }
    if (text[at] != '\r') return false;
    if (at + 1 == text.len and !is_last) return null;
    scanner.position = at + 1 + @intFromBool(at + 1 < text.len and text[at + 1] == '\n');
    return true;
}
