//! What readers of rows are asked, and what they answer: CSV and JSON, in memory and in pieces.
const Builder = @import("builder.zig").Builder;

/// A column of the text, where its values go, and what errors call it.
pub const Wanted = struct { column: u32, builder: *Builder, number: u32 };

pub const Request = struct {
    start: usize,
    /// Rows that begin here or behind are not read. May lie behind the text.
    limit: usize,
    /// The text ends where the file does.
    is_last: bool,
    row_count_max: u32,
};

pub const State = enum {
    /// As many rows as were asked for, or as are good to have at once.
    full,
    /// The next row begins at the limit or behind it, or there is none.
    limit,
    /// The next row is not all here.
    short,
};

pub const Progress = struct { position: usize, row_count: u32, state: State };
