//! The vocabulary of a Parquet file: what its footer says, once it has been checked.
//!
//! Enums carry the numbers of parquet.thrift. A `Node` is a column of ours (a top-level one or one
//! inside another), a `Leaf` a column of the file: nested columns are many leaves that repeat the
//! shape of their parents in levels.
const schema = @import("../../core/schema.zig");
const DataType = schema.DataType;

pub const Node = @import("../nested.zig").Node;

pub const PhysicalType = enum(u8) {
    boolean = 0,
    int32 = 1,
    int64 = 2,
    int96 = 3,
    float = 4,
    double = 5,
    byte_array = 6,
    fixed_len_byte_array = 7,
};

pub const Codec = enum(u8) {
    uncompressed = 0,
    snappy = 1,
    gzip = 2,
    lzo = 3,
    brotli = 4,
    lz4 = 5,
    zstd = 6,
    lz4_raw = 7,
};

pub const Encoding = enum(u8) {
    plain = 0,
    plain_dictionary = 2,
    rle = 3,
    bit_packed = 4,
    delta_binary_packed = 5,
    delta_length_byte_array = 6,
    delta_byte_array = 7,
    rle_dictionary = 8,
    byte_stream_split = 9,
};

pub const PageType = enum(u8) { data = 0, index = 1, dictionary = 2, data_v2 = 3 };

/// How a value of the file becomes a value of ours.
pub const Conversion = enum(u8) {
    /// The same bytes: int32 as i32, u32 or date; int64 as i64, u64, time, timestamp or decimal;
    /// byte arrays as utf8 or binary; fixed ones as fixed_binary; floats; booleans.
    none = 0,
    /// int32 to 8 or 16 bits, signed or not: the low bytes.
    narrow = 1,
    /// int32 to i64: times in milliseconds, decimals.
    widen = 2,
    /// Big endian two's complement of any length to i64 or i128 (decimals).
    big_endian = 3,
    /// Julian day and nanoseconds of the day to timestamp(us).
    int96 = 4,
    /// Decimals of more than 38 digits: refused when they are read.
    unsupported = 5,
    /// int32 or int64 to the i128 of a decimal of more than 18 digits.
    widen_i128 = 6,
    /// Two bytes of half precision.
    float16 = 7,
};

/// A column of the file: primitive values with levels.
pub const Leaf = struct {
    physical: PhysicalType,
    /// fixed_len_byte_array: bytes of a value.
    type_length: u32 = 0,
    conversion: Conversion = .none,
    max_definition: u8,
    max_repetition: u8,
    /// What a value becomes.
    type: DataType,
    /// Bounds are ordered as our kernels order `type`: statistics of others are not looked at.
    ordered: bool = true,
};

/// A leaf's share of a row group.
pub const Chunk = struct {
    codec: Codec,
    /// Of the dictionary page, or of the first data page where there is none.
    start: u64,
    /// All pages with their headers.
    compressed_size: u64,
    uncompressed_size: u64,
    /// Values with NULLs; those of the row group's rows where nothing repeats.
    value_count: u64,
    /// Where the first data page begins.
    data_page_offset: u64,
    has_dictionary: bool,
    column_index: ?Span = null,
    offset_index: ?Span = null,
    bloom: ?Span = null,
    statistics: Statistics = .{},
};

/// Bytes of the file. A bloom filter's size may be unknown: 0.
pub const Span = struct { offset: u64, size: u32 };

/// As the file has them; statistics.zig decides what may be trusted.
pub const Statistics = struct {
    min: ?[]const u8 = null,
    max: ?[]const u8 = null,
    min_exact: bool = false,
    max_exact: bool = false,
    null_count: ?u64 = null,
    nan_count: ?u64 = null,
};

pub const RowGroup = struct {
    row_count: u64,
    /// Rows of the file before this one.
    first_row: u64,
};
