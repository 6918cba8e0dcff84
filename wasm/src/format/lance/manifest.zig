//! A manifest, which lists all files of one version of a table, to flat arrays that are read in place.
//!
//!     input       u32 size │ Manifest │ what follows is not looked at. Sections before it (indices, the transaction)
//!                 are named by their places in the file, and read on their own where somebody wants them.
//!     Manifest    1 fields  2 fragments  3 version  5 schema metadata  6 index section  7 timestamp  8 tag
//!                 9, 10 feature flags of readers and writers  11 greatest fragment id  12 transaction file
//!                 13 writer  14 next row id  15 data format  16 config  18 base paths  19 table metadata
//!                 20 branch  21 or 23 transaction section
//!     fragment    1 id  2 files  3 deletion file  4 rows  5 row ids  11 overlays
//!     file        1 path  2 fields  3 columns  4, 5 version  6 size  7 base
//!
//! The blob, little endian, every section at a multiple of 8:
//!
//!     header      "QMLM" │ u32 1 │ `Numbers` as u64 │ `Counts` as u32 │ sections × (u32 offset, u32 size)
//!     sections    in the order of `Section`, which says what an entry is. A text is (u32 offset, u32 size) in
//!                 the pool. What no fragment has takes no bytes at all.
//!
//! A table may have a hundred thousand fragments, so nobody walks them in Python: what queries ask of all of
//! them (rows, pieces) is computed here. A piece is what is scanned at once: consecutive rows of a fragment,
//! 16,384 × n of them, about 4 MiB of its files.
const std = @import("std");
const files_module = @import("manifest_files.zig");
const fragments_module = @import("manifest_fragments.zig");
const interrupt = @import("../../core/interrupt.zig");
const protobuf = @import("protobuf.zig");
const schema = @import("schema.zig");
const Arena = @import("../../core/arena.zig").Arena;
const Files = files_module.Files;
const Fragment = fragments_module.Fragment;
const Fragments = fragments_module.Fragments;
const Message = protobuf.Message;
const Writer = @import("protobuf_writer.zig").Writer;

pub const Error = error{ InvalidFormat, NotSupported, OutOfMemory, Cancelled };

pub const magic = "QMLM";
pub const version = 1;
pub const unknown = std.math.maxInt(u64);
pub const no_base = std.math.maxInt(u32);

/// Row numbers have 32 bits in row addresses.
pub const fragment_rows_max = 1 << 32;

pub const Numbers = struct {
    version: u64 = 0,
    reader_flags: u64 = 0,
    writer_flags: u64 = 0,
    /// Nanoseconds since 1970; 0 where there is none.
    timestamp: u64 = 0,
    max_fragment_id: u64 = unknown,
    next_row_id: u64 = 0,
    /// Where they lie in the file; `unknown` where there is none.
    index_section: u64 = unknown,
    transaction_section: u64 = unknown,
    /// Of all fragments, deleted ones included.
    row_count: u64 = 0,
    deleted_count: u64 = 0,

    pub const count = @typeInfo(Numbers).@"struct".field_names.len;
};

pub const Counts = struct {
    fragments: u32 = 0,
    files: u32 = 0,
    columns: u32 = 0,
    /// 1 where some fragment does not say how many rows it has, or lost: pieces are then cut by who opens it.
    rows_unknown: u32 = 0,
    /// 1 where some file is of the format's first version.
    legacy: u32 = 0,

    pub const count = @typeInfo(Counts).@"struct".field_names.len;
};

pub const Section = enum {
    /// Records of schema.zig.
    schema,
    /// Top-level columns as plans spell them.
    columns,
    /// u64 by fragment. Rows may be `unknown`; deleted ones are there if any fragment has some.
    fragment_id,
    physical_rows,
    deleted_rows,
    /// u32 by fragment: rows of each of its pieces but the last.
    piece_rows,
    /// i64 by fragment and one more: its first piece.
    first_piece,
    /// i64 by piece: its rows, deleted ones among them.
    piece_counts,
    /// u32 by fragment and one more: its first file.
    first_file,
    /// Deletion files, by fragment, if any has one: u8 kind (`abi.RowList`), u64, u64, u32.
    deletion_kind,
    deletion_version,
    deletion_id,
    deletion_base,
    /// Text by fragment: its sequence of row ids, as the file has it.
    row_ids,
    /// By file: text, u64 (0 is unknown), u32 (`no_base`), u32 (major << 16 | minor), u32.
    file_path,
    file_size,
    file_base,
    file_version,
    file_list,
    /// Lists of fields that files have: u32 by list and one more, pairs of i32 (field id, column).
    list_first,
    list_entries,
    /// u32 id, u32 is a table's root, text name, text path.
    bases,
    /// Pairs of texts.
    config,
    table_metadata,
    schema_metadata,
    /// A text each: `Texts`.
    texts,
    pool,

    pub const count = @typeInfo(Section).@"enum".field_names.len;
};

pub const Text = extern struct { offset: u32 = 0, size: u32 = 0 };

const Texts = struct {
    tag: Text = .{},
    branch: Text = .{},
    file_format: Text = .{},
    data_version: Text = .{},
    transaction_file: Text = .{},
    writer: Text = .{},
    writer_version: Text = .{},
};

const Base = extern struct { id: u32 = 0, is_root: u32 = 0, name: Text = .{}, path: Text = .{} };
const Pair = extern struct { key: Text = .{}, value: Text = .{} };

/// What texts are made of.
pub const Pool = struct {
    arena: std.mem.Allocator,
    bytes: std.ArrayList(u8) = .empty,

    pub fn add(self: *Pool, text: []const u8) Error!Text {
        const offset = self.bytes.items.len;
        if (text.len > std.math.maxInt(u32) - offset) return error.OutOfMemory;
        try self.bytes.appendSlice(self.arena, text);
        return .{ .offset = @intCast(offset), .size = @intCast(text.len) };
    }
};

/// The blob, and everything on the way to it, is in `arena`.
pub fn flatten(arena: std.mem.Allocator, input: []const u8) Error![]const u8 {
    @setRuntimeSafety(true);
    var parser: Parser = .{ .arena = arena, .pool = .{ .arena = arena } };
    try parser.read(try framed(input));
    return parser.write();
}

/// The same of a data file alone, which says of itself what a manifest would: a table of one fragment.
///
///     input   u16 major │ u16 minor │ u32 columns │ u64 size of the file │ u32 size │ FileDescriptor
///             FileDescriptor   1 schema {1 fields}  2 rows; it is the file's first global buffer
pub fn of_data_file(arena: std.mem.Allocator, input: []const u8) Error![]const u8 {
    @setRuntimeSafety(true);
    if (input.len < 16) return refuse("a message is cut short", .{});
    const major = std.mem.readInt(u16, input[0..2], .little);
    const minor = std.mem.readInt(u16, input[2..4], .little);
    const column_count = std.mem.readInt(u32, input[4..8], .little);
    const file_size = std.mem.readInt(u64, input[8..16], .little);
    var fields: std.ArrayList([]const u8) = .empty;
    var rows: u64 = 0;
    var descriptor: Message = .init(try framed(input[16..]));
    while (try descriptor.next()) |field| switch (field.number) {
        1 => {
            var inner = try field.message();
            while (try inner.next()) |part| if (part.number == 1) try fields.append(arena, try part.bytes());
        },
        2 => rows = try field.int(u64),
        else => {},
    };
    if (rows > fragment_rows_max) return refuse("a data file claims {d} rows", .{rows});
    const nodes = try schema.from_messages(arena, fields.items);
    var entries: std.ArrayList(files_module.Entry) = .empty;
    try add_columns(arena, &entries, nodes, major == 0 or minor == 0);
    if (entries.items.len != column_count)
        return refuse("a data file has {d} columns for fields that take {d}", .{ column_count, entries.items.len });
    var parser: Parser = .{ .arena = arena, .pool = .{ .arena = arena } };
    try parser.fragments.reserve(arena, 1);
    try parser.files.reserve(arena, 1);
    try parser.files.add(arena, &parser.pool, file_size, @as(u32, major) << 16 | minor, entries.items);
    parser.fragments.append(&.{ .rows = rows, .deleted = 0, .size = file_size, .first_file = 0 });
    try parser.finish(nodes);
    return parser.write();
}

/// In version 2.0 every field has a column, later on those that hold values.
fn add_columns(
    arena: std.mem.Allocator,
    entries: *std.ArrayList(files_module.Entry),
    nodes: []const schema.Node,
    every: bool,
) Error!void {
    for (nodes) |*node| {
        const is_leaf = node.children.len == 0 or node.flags.blob;
        if (every or is_leaf) try entries.append(arena, .{ .field = node.id, .column = @intCast(entries.items.len) });
        if (!is_leaf) try add_columns(arena, entries, node.children, every);
    }
}

/// A message with its size before it.
pub fn framed(input: []const u8) Error![]const u8 {
    @setRuntimeSafety(true);
    if (input.len < 4) return refuse("a message is cut short", .{});
    const size = std.mem.readInt(u32, input[0..4], .little);
    if (size > input.len - 4) return refuse("a message of {d} bytes has {d}", .{ size, input.len - 4 });
    return input[4..][0..size];
}

const Parser = struct {
    arena: std.mem.Allocator,
    pool: Pool,
    numbers: Numbers = .{},
    counts: Counts = .{},
    texts: Texts = .{},
    schema: std.ArrayList(u8) = .empty,
    columns: std.ArrayList(u8) = .empty,
    bases: std.ArrayList(Base) = .empty,
    config: std.ArrayList(Pair) = .empty,
    table_metadata: std.ArrayList(Pair) = .empty,
    schema_metadata: std.ArrayList(Pair) = .empty,
    fragments: Fragments = .{},
    files: Files = .{},

    fn read(self: *Parser, body: []const u8) Error!void {
        @setRuntimeSafety(true);
        try self.count(.init(body));
        var fields: std.ArrayList([]const u8) = .empty;
        var message: Message = .init(body);
        while (try message.next()) |field| switch (field.number) {
            1 => try fields.append(self.arena, try field.bytes()),
            2 => try self.read_fragment(try field.message()),
            3 => self.numbers.version = try field.int(u64),
            5 => try self.read_pair(&self.schema_metadata, try field.message()),
            6 => self.numbers.index_section = try field.int(u64),
            7 => self.numbers.timestamp = try read_timestamp(try field.message()),
            8 => self.texts.tag = try self.pool.add(try field.text()),
            9 => self.numbers.reader_flags = try field.int(u64),
            10 => self.numbers.writer_flags = try field.int(u64),
            11 => self.numbers.max_fragment_id = try field.int(u64),
            12 => self.texts.transaction_file = try self.pool.add(try field.text()),
            13 => try self.read_writer(try field.message()),
            14 => self.numbers.next_row_id = try field.int(u64),
            15 => try self.read_format(try field.message()),
            16 => try self.read_pair(&self.config, try field.message()),
            18 => try self.read_base(try field.message()),
            19 => try self.read_pair(&self.table_metadata, try field.message()),
            20 => self.texts.branch = try self.pool.add(try field.text()),
            21, 23 => self.numbers.transaction_section = try field.int(u64),
            else => {},
        };
        try self.finish(try schema.from_messages(self.arena, fields.items));
    }

    /// Once all fragments are there.
    fn finish(self: *Parser, nodes: []const schema.Node) Error!void {
        self.counts.columns = @intCast(nodes.len);
        try schema.write(&self.schema, self.arena, nodes);
        try schema.write_columns(&self.columns, self.arena, nodes);
        try self.cut_pieces();
    }

    /// Flags come before the rest: what a flag stands for may not look like anything known. Then memory is taken
    /// once, for as many fragments and files as there are.
    fn count(self: *Parser, body: Message) Error!void {
        @setRuntimeSafety(true);
        var message = body;
        var fragment_count: usize = 0;
        var file_count: usize = 0;
        while (try message.next()) |field| switch (field.number) {
            2 => {
                fragment_count += 1;
                var fragment = try field.message();
                while (try fragment.next()) |part| file_count += @intFromBool(part.number == 2);
            },
            9 => try check_flags(try field.int(u64)),
            else => {},
        };
        try self.fragments.reserve(self.arena, fragment_count);
        try self.files.reserve(self.arena, file_count);
    }

    fn read_fragment(self: *Parser, message: Message) Error!void {
        @setRuntimeSafety(true);
        if (self.fragments.rows.items.len % 1024 == 0) try interrupt.check();
        var fields = message;
        var fragment: Fragment = .{ .first_file = self.files.count() };
        while (try fields.next()) |field| switch (field.number) {
            1 => fragment.id = try field.int(u64),
            2 => fragment.size +|= try self.files.read(self.arena, &self.pool, try field.message()),
            3 => try fragment.read_deletion(try field.message()),
            4 => fragment.rows = try field.int(u64),
            5 => fragment.row_ids = try self.pool.add(try field.bytes()),
            11 => return unsupported("data overlays"),
            else => {},
        };
        if (self.files.count() == fragment.first_file)
            return refuse("the fragment {d} has no data files", .{fragment.id});
        if (self.files.has_unknown_size(fragment.first_file)) fragment.size = 0;
        if (fragment.rows != unknown and fragment.rows > fragment_rows_max)
            return refuse("the fragment {d} claims {d} rows", .{ fragment.id, fragment.rows });
        if (fragment.deletion_kind == .none) fragment.deleted = 0;
        if (fragment.deleted != unknown and fragment.rows != unknown and fragment.deleted > fragment.rows)
            return refuse("of the fragment {d} more rows are deleted than it has", .{fragment.id});
        self.fragments.append(&fragment);
    }

    fn read_pair(self: *Parser, target: *std.ArrayList(Pair), message: Message) Error!void {
        var fields = message;
        var pair: Pair = .{};
        while (try fields.next()) |field| switch (field.number) {
            1 => pair.key = try self.pool.add(try field.text()),
            2 => pair.value = try self.pool.add(try field.bytes()),
            else => {},
        };
        try target.append(self.arena, pair);
    }

    fn read_writer(self: *Parser, message: Message) Error!void {
        var fields = message;
        while (try fields.next()) |field| switch (field.number) {
            1 => self.texts.writer = try self.pool.add(try field.text()),
            2 => self.texts.writer_version = try self.pool.add(try field.text()),
            else => {},
        };
    }

    fn read_format(self: *Parser, message: Message) Error!void {
        var fields = message;
        while (try fields.next()) |field| switch (field.number) {
            1 => {
                const name = try field.text();
                self.texts.file_format = try self.pool.add(name);
                if (name.len > 0 and !std.mem.eql(u8, name, "lance"))
                    return unsupported("data files that are not Lance's");
            },
            2 => {
                const name = try field.text();
                self.texts.data_version = try self.pool.add(name);
                try check_version(name);
            },
            else => {},
        };
    }

    fn read_base(self: *Parser, message: Message) Error!void {
        var fields = message;
        var base: Base = .{};
        while (try fields.next()) |field| switch (field.number) {
            1 => base.id = try field.int(u32),
            2 => base.name = try self.pool.add(try field.text()),
            3 => base.is_root = @intFromBool(try field.boolean()),
            4 => base.path = try self.pool.add(try field.text()),
            else => {},
        };
        try self.bases.append(self.arena, base);
    }

    fn cut_pieces(self: *Parser) Error!void {
        self.counts.fragments = @intCast(self.fragments.rows.items.len);
        self.counts.files = self.files.count();
        self.counts.legacy = @intFromBool(self.files.has_legacy);
        for (self.fragments.rows.items, self.fragments.deleted.items) |rows, deleted| {
            if (rows == unknown or deleted == unknown) {
                self.counts.rows_unknown = 1;
                continue;
            }
            self.numbers.row_count += rows;
            self.numbers.deleted_count += deleted;
        }
        try self.fragments.cut(self.arena);
    }

    // ---- the blob ----

    fn write(self: *Parser) Error![]const u8 {
        @setRuntimeSafety(true);
        const fragments = &self.fragments;
        const files = &self.files;
        try fragments.first_file.append(self.arena, files.count());
        const has_deletions = fragments.has_deletions;
        const parts: [Section.count][]const u8 = .{
            self.schema.items,
            self.columns.items,
            std.mem.sliceAsBytes(fragments.id.items),
            std.mem.sliceAsBytes(fragments.rows.items),
            if (has_deletions) std.mem.sliceAsBytes(fragments.deleted.items) else "",
            std.mem.sliceAsBytes(fragments.piece_rows.items),
            std.mem.sliceAsBytes(fragments.first_piece.items),
            std.mem.sliceAsBytes(fragments.piece_counts.items),
            std.mem.sliceAsBytes(fragments.first_file.items),
            if (has_deletions) std.mem.sliceAsBytes(fragments.deletion_kind.items) else "",
            if (has_deletions) std.mem.sliceAsBytes(fragments.deletion_version.items) else "",
            if (has_deletions) std.mem.sliceAsBytes(fragments.deletion_id.items) else "",
            if (has_deletions) std.mem.sliceAsBytes(fragments.deletion_base.items) else "",
            if (fragments.has_row_ids) std.mem.sliceAsBytes(fragments.row_ids.items) else "",
            std.mem.sliceAsBytes(files.path.items),
            std.mem.sliceAsBytes(files.size.items),
            if (files.has_base) std.mem.sliceAsBytes(files.base.items) else "",
            std.mem.sliceAsBytes(files.version.items),
            std.mem.sliceAsBytes(files.list.items),
            std.mem.sliceAsBytes(try files.lists.firsts(self.arena)),
            std.mem.sliceAsBytes(files.lists.entries.items),
            std.mem.sliceAsBytes(self.bases.items),
            std.mem.sliceAsBytes(self.config.items),
            std.mem.sliceAsBytes(self.table_metadata.items),
            std.mem.sliceAsBytes(self.schema_metadata.items),
            std.mem.asBytes(&self.texts),
            self.pool.bytes.items,
        };
        return assemble(self.arena, &self.numbers, &self.counts, &parts);
    }
};

/// The header and all sections, in one piece of memory.
fn assemble(
    arena: std.mem.Allocator,
    numbers: *const Numbers,
    counts: *const Counts,
    parts: *const [Section.count][]const u8,
) Error![]const u8 {
    const header_size = 8 + Numbers.count * 8 + Counts.count * 4 + Section.count * 8;
    var total: u64 = std.mem.alignForward(u64, header_size, 8);
    for (parts) |part| total += std.mem.alignForward(u64, part.len, 8);
    const blob = try arena.alloc(u8, std.math.cast(u32, total) orelse return error.OutOfMemory);
    @memset(blob[0..std.mem.alignForward(usize, header_size, 8)], 0);
    @memcpy(blob[0..4], magic);
    std.mem.writeInt(u32, blob[4..8], version, .little);
    var at: usize = 8;
    inline for (@typeInfo(Numbers).@"struct".field_names) |name| {
        std.mem.writeInt(u64, blob[at..][0..8], @field(numbers, name), .little);
        at += 8;
    }
    inline for (@typeInfo(Counts).@"struct".field_names) |name| {
        std.mem.writeInt(u32, blob[at..][0..4], @field(counts, name), .little);
        at += 4;
    }
    var start = std.mem.alignForward(usize, header_size, 8);
    for (parts) |part| {
        std.mem.writeInt(u32, blob[at..][0..4], @intCast(start), .little);
        std.mem.writeInt(u32, blob[at + 4 ..][0..4], @intCast(part.len), .little);
        at += 8;
        @memcpy(blob[start..][0..part.len], part);
        const end = std.mem.alignForward(usize, start + part.len, 8);
        @memset(blob[start + part.len .. end], 0);
        start = end;
    }
    return blob;
}

fn read_timestamp(message: Message) Error!u64 {
    var fields = message;
    var seconds: i64 = 0;
    var nanoseconds: i64 = 0;
    while (try fields.next()) |field| switch (field.number) {
        1 => seconds = try field.int(i64),
        2 => nanoseconds = try field.int(i32),
        else => {},
    };
    return @bitCast(seconds *| std.time.ns_per_s +| nanoseconds);
}

/// Deletion files, stable row ids, an old mark of version 2, config, base paths, transactions in the manifest
/// alone, files of several versions.
const known_flags: u64 = 1 | 2 | 4 | 8 | 16 | 32 | 256;

fn check_flags(flags: u64) Error!void {
    const others = flags & ~known_flags;
    if (others == 0) return;
    const flag = others & (~others +% 1); // the lowest
    return switch (flag) {
        64 => unsupported("data overlays"),
        128 => unsupported("covering indices"),
        512 => unsupported("the feature 512, fragments that are listed elsewhere"),
        1024 => unsupported("the feature 1024, indices over moved fragments"),
        2048 => unsupported("managed blobs"),
        else => {
            interrupt.describe("the table uses a feature that is not known here (flag {d})", .{flag});
            return error.NotSupported;
        },
    };
}

fn check_version(name: []const u8) Error!void {
    for ([_][]const u8{ "", "0.1", "0.2", "0.3", "2.0", "2.1", "2.2" }) |known|
        if (std.mem.eql(u8, name, known)) return;
    interrupt.describe(
        "the table's files are of Lance's version {s}; those up to 2.2 are read",
        .{name[0..@min(name.len, 40)]},
    );
    return error.NotSupported;
}

pub fn unsupported(what: []const u8) Error {
    interrupt.describe("the table uses {s}, which are not read", .{what});
    return error.NotSupported;
}

fn refuse(comptime format: []const u8, arguments: anytype) error{InvalidFormat} {
    interrupt.describe(format, arguments);
    return error.InvalidFormat;
}

// ---- tests ----

const testing = std.testing;

/// Reads the blob as the host does.
const Blob = struct {
    bytes: []const u8,

    fn number(self: Blob, comptime name: []const u8) u64 {
        return std.mem.readInt(u64, self.bytes[8 + 8 * std.meta.fieldIndex(Numbers, name).? ..][0..8], .little);
    }

    fn count(self: Blob, comptime name: []const u8) u32 {
        return std.mem.readInt(
            u32,
            self.bytes[8 + 8 * Numbers.count + 4 * std.meta.fieldIndex(Counts, name).? ..][0..4],
            .little,
        );
    }

    fn section(self: Blob, which: Section) []const u8 {
        const at = 8 + 8 * Numbers.count + 4 * Counts.count + 8 * @as(usize, @backingInt(which));
        const start = std.mem.readInt(u32, self.bytes[at..][0..4], .little);
        testing.expect(start % 8 == 0) catch unreachable;
        return self.bytes[start..][0..std.mem.readInt(u32, self.bytes[at + 4 ..][0..4], .little)];
    }

    fn values(self: Blob, comptime T: type, which: Section) []align(1) const T {
        return std.mem.bytesAsSlice(T, self.section(which));
    }

    fn text(self: Blob, which: Section, index: usize) []const u8 {
        const found = self.values(u32, which)[2 * index ..][0..2].*;
        return self.section(.pool)[found[0]..][0..found[1]];
    }
};

const TestFile = struct {
    path: []const u8 = "a.lance",
    fields: []const i64 = &.{ 0, 1 },
    columns: []const i64 = &.{ 0, 1 },
    major: i64 = 2,
    minor: i64 = 2,
    size: i64 = 0,
};
const TestFragment = struct {
    id: i64,
    rows: ?i64 = 10,
    files: []const TestFile = &.{.{}},
    deleted: ?i64 = null,
    more: ?u32 = null,
};

const TestManifest = struct {
    fragments: []const TestFragment = &.{},
    fields: []const schema.TestField = &.{
        .{ .name = "id", .id = 0, .type = "int64" },
        .{ .name = "t", .id = 1, .type = "string" },
    },
    flags: i64 = 0,
    data_version: []const u8 = "2.2",
    transaction_number: u32 = 23,

    fn bytes(self: TestManifest, arena: std.mem.Allocator) []const u8 {
        var body: Writer = .init(arena);
        for (self.fields) |field| {
            var inner: Writer = .init(arena);
            field.write_to(&inner);
            body.message(1, &inner);
        }
        for (self.fragments) |fragment| body.message(2, &fragment_message(arena, fragment));
        body.int(3, 7);
        body.int(6, 111);
        var time: Writer = .init(arena);
        time.int(1, 1_700_000_000);
        time.int(2, 5);
        body.message(7, &time);
        body.int(9, self.flags);
        body.int(self.transaction_number, 222);
        var format: Writer = .init(arena);
        format.text(1, "lance");
        format.text(2, self.data_version);
        body.message(15, &format);
        for ([_]u32{ 16, 19, 5 }) |number| {
            var pair: Writer = .init(arena);
            pair.text(1, "key");
            pair.text(2, "value");
            body.message(number, &pair);
        }
        var base: Writer = .init(arena);
        base.int(1, 3);
        base.int(3, 1);
        base.text(4, "/other");
        body.message(18, &base);
        body.text(99, "from the future");
        var whole: std.ArrayList(u8) = .empty;
        whole.appendSlice(arena, &std.mem.toBytes(@as(u32, @intCast(body.bytes().len)))) catch unreachable;
        whole.appendSlice(arena, body.bytes()) catch unreachable;
        whole.appendSlice(arena, "behind it") catch unreachable;
        return whole.items;
    }
};

fn fragment_message(arena: std.mem.Allocator, fragment: TestFragment) Writer {
    var writer: Writer = .init(arena);
    writer.int(1, fragment.id);
    for (fragment.files) |file| {
        var inner: Writer = .init(arena);
        inner.text(1, file.path);
        inner.ints(2, file.fields);
        if (file.columns.len > 0) inner.ints(3, file.columns);
        inner.int(4, file.major);
        inner.int(5, file.minor);
        inner.int(6, file.size);
        writer.message(2, &inner);
    }
    if (fragment.deleted) |deleted| {
        var inner: Writer = .init(arena);
        inner.int(1, 1);
        inner.int(2, 4);
        inner.int(3, 99);
        inner.int(4, deleted);
        writer.message(3, &inner);
    }
    if (fragment.rows) |rows| writer.int(4, rows);
    if (fragment.more) |number| writer.text(number, "ids");
    return writer;
}

test flatten {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const memory = arena.allocator();
    const manifest: TestManifest = .{ .flags = 1 | 2 | 4 | 8 | 16 | 32 | 256, .fragments = &.{
        .{ .id = 3, .rows = 100_000, .files = &.{
            .{ .path = "x.lance" },
            .{ .path = "y.lance", .fields = &.{ 2, -2 }, .columns = &.{ 0, -1 }, .size = 70 },
        } },
        .{ .id = 5, .rows = 200_000, .deleted = 7, .files = &.{.{ .path = "z.lance", .size = 1 << 25 }}, .more = 5 },
        .{ .id = 6, .rows = 0 },
    } };
    const blob: Blob = .{ .bytes = try flatten(memory, manifest.bytes(memory)) };
    try testing.expectEqualStrings(magic, blob.bytes[0..4]);
    try testing.expectEqual(7, blob.number("version"));
    try testing.expectEqual(1_700_000_000_000_000_005, blob.number("timestamp"));
    try testing.expectEqual(111, blob.number("index_section"));
    try testing.expectEqual(222, blob.number("transaction_section"));
    try testing.expectEqual(300_000, blob.number("row_count"));
    try testing.expectEqual(7, blob.number("deleted_count"));
    try testing.expectEqual(3, blob.count("fragments"));
    try testing.expectEqual(4, blob.count("files"));
    try testing.expectEqual(2, blob.count("columns"));
    try testing.expectEqualSlices(u8, &.{ 2, 0, 'i', 'd', 1, 1, 0, 't', 2 }, blob.section(.columns));
    try expect_values(u64, blob, .fragment_id, &.{ 3, 5, 6 });
    try expect_values(u32, blob, .first_file, &.{ 0, 2, 3, 4 });
    try expect_values(u32, blob, .file_list, &.{ 0, 1, 0, 0 });
    try expect_values(u32, blob, .list_first, &.{ 0, 2, 4 });
    try expect_values(i32, blob, .list_entries, &.{ 0, 0, 1, 1, 2, 0, -2, -1 });
    try expect_values(u64, blob, .file_size, &.{ 0, 70, 1 << 25, 0 });
    try expect_values(u8, blob, .deletion_kind, &.{ 0, 2, 0 });
    try expect_values(u64, blob, .deletion_id, &.{ 0, 99, 0 });
    try expect_values(u32, blob, .piece_rows, &.{ 65_536, 16_384, 65_536 });
    try expect_values(u64, blob, .first_piece, &.{ 0, 2, 15, 15 });
    const pieces = blob.values(u64, .piece_counts);
    for ([_]u64{ 65_536, 34_464, 16_384 }, pieces[0..3]) |expected, rows| try testing.expectEqual(expected, rows);
    try testing.expectEqual(200_000 - 12 * 16_384, pieces[14]);
    try testing.expectEqualStrings("z.lance", blob.text(.file_path, 2));
    try testing.expectEqualStrings("ids", blob.text(.row_ids, 1));
    try testing.expectEqualStrings("value", blob.text(.config, 1));
    try testing.expectEqualStrings("key", blob.text(.table_metadata, 0));
    try testing.expectEqualStrings("2.2", blob.text(.texts, 3));
    try testing.expectEqual(6 * 4, blob.section(.bases).len);
    try testing.expectEqual(0, blob.section(.file_base).len);
}

fn expect_values(comptime T: type, blob: Blob, which: Section, expected: []const T) !void {
    const found = blob.values(T, which);
    try testing.expectEqual(expected.len, found.len);
    for (found, expected) |a, b| try testing.expectEqual(b, a);
}

test "manifests of all versions, and what they leave out" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const memory = arena.allocator();
    const cases = [_]struct { i64, i64, []const u8 }{
        .{ 0, 0, "" },
        .{ 0, 2, "0.1" },
        .{ 0, 3, "2.0" },
        .{ 2, 0, "2.0" },
        .{ 2, 1, "2.1" },
        .{ 2, 2, "2.2" },
    };
    for (cases) |case| {
        const is_legacy = case[0] == 0 and case[1] < 3;
        const manifest: TestManifest = .{
            .data_version = case[2],
            .transaction_number = 21,
            .fragments = &.{.{ .id = 0, .rows = null, .files = &.{.{
                .major = case[0],
                .minor = case[1],
                .columns = if (is_legacy) &.{} else &.{ 0, 1 },
            }} }},
        };
        const blob: Blob = .{ .bytes = try flatten(memory, manifest.bytes(memory)) };
        try testing.expectEqual(222, blob.number("transaction_section"));
        try testing.expectEqual(@intFromBool(is_legacy), blob.count("legacy"));
        try testing.expectEqual(1, blob.count("rows_unknown"));
        try expect_values(u64, blob, .first_piece, &.{ 0, 0 });
        try expect_values(i32, blob, .list_entries, if (is_legacy) &.{ 0, -1, 1, -1 } else &.{ 0, 0, 1, 1 });
    }
    const empty: Blob = .{ .bytes = try flatten(memory, &.{ 0, 0, 0, 0 }) };
    try testing.expectEqual(0, empty.count("fragments"));
    try testing.expectEqual(unknown, empty.number("index_section"));
}

test "what is refused" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const memory = arena.allocator();
    defer interrupt.forget();
    for ([_]i64{ 64, 128, 512, 1024, 2048, 4096, std.math.minInt(i64) }) |flag| {
        const manifest: TestManifest = .{ .flags = 1 | flag };
        try testing.expectError(error.NotSupported, flatten(memory, manifest.bytes(memory)));
    }
    const unread = [_]TestManifest{
        .{ .data_version = "2.3" },
        .{ .fragments = &.{.{ .id = 0, .files = &.{.{ .minor = 3 }} }} },
        .{ .fragments = &.{.{ .id = 0, .more = 11 }} },
    };
    for (unread) |manifest| try testing.expectError(error.NotSupported, flatten(memory, manifest.bytes(memory)));
    const wrong = [_]TestManifest{
        .{ .fragments = &.{.{ .id = 0, .files = &.{} }} },
        .{ .fragments = &.{.{ .id = 0, .files = &.{.{ .columns = &.{} }} }} },
        .{ .fragments = &.{.{ .id = 0, .files = &.{.{ .path = "" }} }} },
        .{ .fragments = &.{.{ .id = 0, .rows = 1 << 33 }} },
        .{ .fragments = &.{.{ .id = 0, .rows = 10, .deleted = 11 }} },
    };
    for (wrong) |manifest| try testing.expectError(error.InvalidFormat, flatten(memory, manifest.bytes(memory)));
}

test of_data_file {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const memory = arena.allocator();
    var inner: Writer = .init(memory);
    const fields = [_]schema.TestField{
        .{ .name = "id", .id = 0, .type = "int64" },
        .{ .name = "p", .id = 1, .type = "struct" },
        .{ .name = "x", .id = 2, .parent = 1, .type = "float" },
    };
    for (fields) |field| {
        var message: Writer = .init(memory);
        field.write_to(&message);
        inner.message(1, &message);
    }
    var descriptor: Writer = .init(memory);
    descriptor.message(1, &inner);
    descriptor.int(2, 70_000);
    const size = std.mem.toBytes(@as(u32, @intCast(descriptor.bytes().len)));
    for ([_][2]u16{ .{ 2, 2 }, .{ 0, 3 } }) |file_version| {
        const columns: u32 = if (file_version[0] == 0) 3 else 2;
        const head = std.mem.toBytes(file_version) ++ std.mem.toBytes(columns) ++ std.mem.toBytes(@as(u64, 9000));
        const input = try std.mem.concat(memory, u8, &.{ &head, &size, descriptor.bytes() });
        const blob: Blob = .{ .bytes = try of_data_file(memory, input) };
        try testing.expectEqual(70_000, blob.number("row_count"));
        try expect_values(u32, blob, .first_file, &.{ 0, 1 });
        const expected: []const i32 = if (columns == 3) &.{ 0, 0, 1, 1, 2, 2 } else &.{ 0, 0, 2, 1 };
        try expect_values(i32, blob, .list_entries, expected);
        input[4] += 1;
        try testing.expectError(error.InvalidFormat, of_data_file(memory, input));
    }
    defer interrupt.forget();
}

test "claims of many rows take little memory" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    const memory = arena.allocator();
    var fragments: [200]TestFragment = undefined;
    for (&fragments, 0..) |*fragment, i| fragment.* = .{ .id = @intCast(i), .rows = fragment_rows_max };
    const manifest: TestManifest = .{ .fragments = &fragments };
    const blob: Blob = .{ .bytes = try flatten(memory, manifest.bytes(memory)) };
    const counts = blob.values(u64, .piece_counts);
    try testing.expect(counts.len <= (1 << 20) + 2 * fragments.len);
    var total: u64 = 0;
    for (counts) |rows| total += rows;
    try testing.expectEqual(@as(u64, fragments.len) * fragment_rows_max, total);
}

test "mutated manifests" {
    var arena: Arena = .init(testing.allocator);
    defer arena.deinit();
    var kept: Arena = .init(testing.allocator);
    defer kept.deinit();
    defer interrupt.forget();
    const manifest: TestManifest = .{ .flags = 1, .fragments = &.{
        .{ .id = 3, .rows = 100_000, .files = &.{
            .{},
            .{ .fields = &.{ 2, -2 }, .columns = &.{ 0, -1 }, .size = 70 },
        } },
        .{ .id = 5, .rows = 200_000, .deleted = 7, .more = 5 },
    } };
    const original = manifest.bytes(kept.allocator());
    const copy = try kept.allocator().dupe(u8, original);
    var prng: std.Random.DefaultPrng = .init(5);
    const random = prng.random();
    for (0..4000) |_| {
        @memcpy(copy, original);
        for (0..random.intRangeAtMost(u8, 1, 4)) |_| {
            const at = random.uintLessThan(usize, copy.len);
            copy[at] = if (random.boolean()) random.int(u8) else copy[at] ^ @as(u8, 1) << random.int(u3);
        }
        const size = if (random.uintLessThan(u8, 8) == 0) random.uintLessThan(usize, copy.len) else copy.len;
        if (flatten(arena.allocator(), copy[0..size])) |bytes| {
            const blob: Blob = .{ .bytes = bytes };
            const count = blob.count("fragments");
            try testing.expectEqual(count + 1, blob.values(u32, .first_file).len);
            try testing.expectEqual(blob.values(u64, .first_piece)[count], blob.values(u64, .piece_counts).len);
            for (0..blob.count("files")) |i| _ = blob.text(.file_path, i);
        } else |reason| try testing.expect(reason != error.OutOfMemory);
        _ = arena.reset(.retain_capacity);
    }
}
