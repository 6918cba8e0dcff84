//! The contract between the engine and its host. No logic lives here.
//!
//! Every number and every name that crosses the boundary is written in this file and nowhere
//! else. `zig build abi` prints it as querymode/_abi.py; main.zig exports exactly the doors of
//! `Exports` and does not compile when boundary/ disagrees; tests/abi compares the built module
//! with the generated file. Values are appended, never renumbered; a retired value leaves a hole.
//!
//! The call shape: inputs are an address with a length, or a handle; outputs are written through
//! an address of an extern struct; every door that can fail returns a `Status`, 0 is success.
//! Exceptions, said aloud: `qm_alloc` returns an address (0 when memory is out), `qm_control` the
//! address of the one `Control`, and `qm_abi_version` a number.
//!
//! Any call may grow memory, so the host takes fresh views after each call. Memory never moves.
const std = @import("std");

/// Raised whenever a door, a struct, an enum value or the plan's wire form changes.
pub const version: u32 = 9;

pub const plan_magic: u32 = 0x4C504D51; // "QMPL"
pub const qmcb_magic: u32 = 0x42434D51; // "QMCB"

/// Bounds that both sides check. A type or an expression deeper than this is refused before
/// recursion could exhaust the stack; sixteen thousand columns fit a plan with room to spare.
pub const type_depth_max: u32 = 32;
pub const expression_depth_max: u32 = 200;
pub const column_count_max: u32 = 65_535;
/// Rows of one batch: QMCB's row count is a u32.
pub const row_count_max: u32 = 0xFFFF_FFFF;
/// Bytes of one value of a fixed width. Twice that still fits 32 bits, and none that is larger could be read:
/// a file's widths and Arrow's are signed numbers of 32 bits.
pub const value_size_max: u32 = 0x7FFF_FFFF;

/// Rows in flight between operators. Small enough for the second-level cache, large enough that the cost of
/// walking an expression tree disappears. Tables in memory are cut at multiples of it.
pub const chunk_rows: u32 = 16_384;

/// Bands: 1xx the request is wrong, 2xx the data is wrong, 3xx a resource ran out, 9xx we are.
pub const Status = enum(u32) {
    ok = 0,
    invalid_plan = 100,
    // 101 was column_not_found: the host knows the columns before the engine does.
    invalid_filter = 102,
    invalid_aggregate = 103,
    /// A value left its type's range while computing: overflow, a cast that does not fit.
    out_of_range = 104,
    invalid_format = 200,
    schema_mismatch = 201,
    not_supported = 202,
    memory_exceeded = 300,
    cancelled = 301,
    /// A limit of the format, such as 4 GiB of text in one column of a batch.
    too_large = 302,
    invalid_handle = 900,
    internal = 901,
};

/// One list for columns, plans and QMCB. 0 to 7 are QMCB's eight base tags, byte-exact; the rest
/// are ours for what those eight cannot say. core/schema.zig says how each is stored.
pub const TypeTag = enum(u8) {
    f64 = 0,
    i64 = 1,
    utf8 = 2,
    bool = 3,
    f32vec = 4,
    null = 5,
    i32 = 6,
    f32 = 7,
    i8 = 8,
    i16 = 9,
    u8 = 10,
    u16 = 11,
    u32 = 12,
    u64 = 13,
    f16 = 14,
    i128 = 15,
    decimal = 16,
    binary = 17,
    fixed_binary = 18,
    date = 19,
    time = 20,
    timestamp = 21,
    interval = 22,
    f16vec = 23,
    list = 24,
    structure = 25,
    map = 26,
};

pub const TimeUnit = enum(u8) { second = 0, millisecond = 1, microsecond = 2, nanosecond = 3 };

/// Pipeline steps, in the order they stand in the plan.
pub const NodeTag = enum(u8) {
    filter = 1,
    project = 2,
    aggregate = 3,
    sort = 4,
    limit = 5,
    /// The whole answer leaves as one batch, however large.
    gather = 6,
    join = 7,
    /// The last step: rows become a table that joins and `in_build` of other plans look into.
    build = 8,
    /// Last: rows leave in batches of one partition each, by the hash of their keys.
    partition = 9,
    /// First: sorted runs become one. Every push says its run in `Source.handle`.
    merge = 10,
    /// Every row as often as an expression says.
    repeat = 11,
    /// Rows become one row of sums over their hashes.
    digest = 12,
};

pub const JoinKind = enum(u8) {
    inner = 0,
    left = 1,
    semi = 2,
    anti = 3,
    /// Every row once, with TRUE, FALSE or NULL: whether it has a match.
    mark = 4,
    /// A left join that fails where a row has several matches.
    single = 5,
};

/// Where an output column of a join comes from.
pub const JoinSide = enum(u8) { input = 0, build = 1, mark = 2 };

pub const build_null_equal: u8 = 1;

pub const ExpressionTag = enum(u8) {
    column = 1,
    literal = 2,
    compare = 3,
    between = 4,
    in_list = 5,
    like = 6,
    is_null = 7,
    logical_and = 8,
    logical_or = 9,
    logical_not = 10,
    arithmetic = 11,
    negate = 12,
    cast = 13,
    /// A function of `FunctionId`.
    call = 14,
    case = 15,
    coalesce = 16,
    in_build = 17,
    /// One field of a structure.
    field = 18,
};

/// Functions of expressions. plan/function.zig says what each takes and gives;
/// querymode/plan/functions/rules.py what it is called. Each family has a hundred numbers.
pub const FunctionId = enum(u16) {
    // Text: plan/function_text.zig.
    length = 1,
    byte_length = 2,
    lower = 3,
    upper = 4,
    trim = 5,
    trim_start = 6,
    trim_end = 7,
    substring = 8,
    left = 9,
    right = 10,
    position = 11,
    replace = 12,
    /// `||`: NULL gives NULL.
    join = 13,
    /// Leaves NULLs out.
    concat = 14,
    concat_with_separator = 15,
    starts_with = 16,
    ends_with = 17,
    contains = 18,
    reverse = 19,
    repeat = 20,
    pad_left = 21,
    pad_right = 22,
    split_part = 23,
    character = 24,
    ascii = 25,
    code_point = 26,
    translate = 27,
    /// LIKE with a pattern of the row's own: the text, the pattern, its escape or nothing.
    like_escape = 28,
    // Any type.
    greatest = 80,
    least = 81,
    distinct_from = 82,
    not_distinct_from = 83,
    // Numbers: plan/function_number.zig.
    abs = 100,
    sign = 101,
    round = 102,
    floor = 103,
    ceil = 104,
    truncate = 105,
    round_even = 106,
    even = 107,
    sqrt = 110,
    cbrt = 111,
    exp = 112,
    ln = 113,
    log10 = 114,
    log2 = 115,
    log = 116,
    power = 117,
    sin = 120,
    cos = 121,
    tan = 122,
    asin = 123,
    acos = 124,
    atan = 125,
    atan2 = 126,
    cot = 127,
    sinh = 128,
    cosh = 129,
    tanh = 130,
    asinh = 131,
    acosh = 132,
    atanh = 133,
    degrees = 134,
    radians = 135,
    is_nan = 140,
    is_finite = 141,
    is_infinite = 142,
    gcd = 143,
    lcm = 144,
    factorial = 145,
    gamma = 146,
    log_gamma = 147,
    next_after = 148,
    float_divide = 149,
    float_modulo = 150,
    bit_and = 160,
    bit_or = 161,
    bit_xor = 162,
    bit_not = 163,
    shift_left = 164,
    shift_right = 165,
    bit_count = 166,
    // Dates, times and intervals: plan/function_time.zig.
    date_part = 200,
    /// Parts that are not whole numbers: epoch, julian.
    date_part_float = 201,
    date_trunc = 202,
    date_diff = 203,
    date_sub = 204,
    /// A date, time or timestamp and an interval.
    add_interval = 205,
    subtract_interval = 206,
    /// A date and whole days.
    add_days = 207,
    subtract_days = 208,
    subtract_dates = 209,
    subtract_timestamps = 210,
    age = 211,
    last_day = 212,
    make_date = 213,
    make_time = 214,
    make_timestamp = 215,
    day_name = 216,
    month_name = 217,
    time_bucket = 218,
    strftime = 219,
    strptime = 220,
    try_strptime = 221,
    add_intervals = 230,
    subtract_intervals = 231,
    multiply_interval = 232,
    divide_interval = 233,
    negate_interval = 234,
    to_interval = 235,
    /// A date and a time of day.
    add_time = 236,
    /// Days, or units of the result's type, since 1970.
    from_number = 237,
    /// Seconds since 1970.
    to_timestamp = 238,
};

/// Parts of dates, times and intervals, and units of time: the first argument of the functions that
/// take one, a constant of u8.
pub const DatePart = enum(u8) {
    year = 0,
    month = 1,
    day = 2,
    decade = 3,
    century = 4,
    millennium = 5,
    microsecond = 6,
    millisecond = 7,
    second = 8,
    minute = 9,
    hour = 10,
    /// Sunday is 0.
    dayofweek = 11,
    /// Monday is 1, Sunday 7.
    isodow = 12,
    week = 13,
    isoyear = 14,
    quarter = 15,
    dayofyear = 16,
    yearweek = 17,
    era = 18,
    /// Seconds since 1970, with their fraction.
    epoch = 19,
    julian = 20,
    nanosecond = 21,
    epoch_ms = 22,
    epoch_us = 23,
    epoch_ns = 24,
    /// Seconds east of UTC, which is where instants are read.
    timezone = 25,
};

pub const CompareOp = enum(u8) { eq = 0, neq = 1, lt = 2, lte = 3, gt = 4, gte = 5 };

pub const ArithmeticOp = enum(u8) {
    add = 0,
    subtract = 1,
    multiply = 2,
    /// `/`: float64 only, the planner casts.
    divide = 3,
    /// `//`: integers truncate toward zero, floats divide.
    divide_integer = 4,
    modulo = 5,
};

pub const AggregateOp = enum(u8) {
    count_rows = 0,
    count = 1,
    sum = 2,
    min = 3,
    max = 4,
    avg = 5,
    stddev_samp = 6,
    stddev_pop = 7,
    var_samp = 8,
    var_pop = 9,
    median = 10,
    percentile_cont = 11,
    percentile_disc = 12,
    first = 13,
    last = 14,
    any_value = 15,
    bool_and = 16,
    bool_or = 17,
    string_agg = 18,
};

/// Flags of an aggregate call.
pub const aggregate_distinct: u8 = 1;
pub const aggregate_filtered: u8 = 2;

/// An aggregate is complete in one instance, or split: partial states leave every lane as QMCB
/// and come back, in lane order, into a final aggregate.
pub const AggregatePhase = enum(u8) { complete = 0, partial = 1, final = 2 };

pub const SourceKind = enum(u32) {
    /// `address`/`size`: a `BatchHeader` followed by its `ColumnDescriptor`s.
    descriptor = 0,
    /// `handle`: a batch opened with `qm_batch_open`.
    batch = 1,
    /// `address`/`size`: one QMCB batch.
    qmcb = 2,
    /// `address`/`size`: `ColumnReference`s, columns of opened batches of one length side by side.
    /// Columns that are kept between queries come this way: each query names those it needs.
    columns = 3,
    /// `address`/`size`: QMCB batches one behind the other, a u32 of size before each.
    qmcb_list = 4,
    /// `address`/`size`: several lanes of opened batches, each a u32 count of morsels, and each of
    /// those a u32 count and its `ColumnReference`s. Every lane is finished, and the answers leave
    /// together as a `qmcb_list`: for plans whose lanes end in one small batch.
    lanes = 5,
    /// As `qmcb_list`, for plans that begin with a partial aggregate: states of it, which go on behind it.
    states_list = 6,
};

pub const TextFormat = enum(u32) { csv = 0, json = 1 };

pub const TextHeader = enum(u8) { absent = 0, present = 1, unknown = 2 };
pub const JsonLayout = enum(u8) { unknown = 0, array = 1, lines = 2 };

/// How a text is to be read. Its words for NULL and its columns follow (format/text/options.zig). No bytes at
/// all stand for the defaults here.
pub const TextOptions = extern struct {
    /// CSV. 0: find out.
    delimiter: u8 = 0,
    /// CSV. 0: none.
    quote: u8 = '"',
    /// CSV. 0: a quote is written twice.
    escape: u8 = 0,
    /// CSV: whether the first row holds names.
    header: TextHeader = .unknown,
    /// CSV: 0 for text throughout. JSON: 1 to look for dates and times in strings.
    infer_types: u8 = 1,
    /// JSON in memory: one array of objects, or objects on lines of their own.
    json_layout: JsonLayout = .unknown,
    /// CSV. 0: the empty field alone.
    null_string_count: u8 = 0,
    reserved: u8 = 0,
    /// 0: find out.
    column_count: u32 = 0,
};

/// Stands for a partition: an aggregate's groups that are so few that all parts left together.
pub const undivided: u32 = std.math.maxInt(u32);
/// Stands for a partition: what lies at `address` are `Part`s, several batches with a partition each.
pub const listed: u32 = undivided - 1;
/// In the group limit of a partial aggregate before `partition`: rows that grouping does not make fewer
/// leave as they are, with the columns that keys and arguments name, in the input's order. Their parts
/// are numbered behind those of states.
pub const rows_pass: u32 = 1 << 31;
/// Beside an aggregate's group limit, in any phase: rows come in an order that was asked for, and floats are
/// added in it, one by one.
pub const rows_in_order: u32 = 1 << 30;

/// A batch of a partition.
pub const Part = extern struct {
    address: u32,
    size: u32,
    row_count: u32,
    partition: u32,
};

/// What a call left for the host to read, until the next call on the same instance.
pub const Output = extern struct {
    /// QMCB bytes, or the descriptors of a query that lends, or 0 when this call produced none.
    address: u32,
    size: u32,
    row_count: u32,
    state: OutputState,
    /// Of plans that end in `partition`: which part the rows belong to, `undivided` or `listed`. 0 else.
    partition: u32 = 0,
};

pub const OutputState = enum(u32) {
    /// Push more, or finish.
    need_input = 0,
    /// Call `qm_query_next` for the rest.
    more_output = 1,
    /// Nothing further comes, and further input would change nothing.
    done = 2,
    /// Scans: `address`/`size` is a `NeedHeader` with what is missing; step again with it.
    need_bytes = 3,
    /// Scans: there is output, and the scan goes on with the next step.
    again = 4,
};

pub const FileFormat = enum(u32) {
    parquet = 0,
    csv = 1,
    ndjson = 2,
    lance = 3,
    /// Of tests: only the module that they build for themselves reads it.
    toy = 255,
};

/// What `qm_manifest` reads: a table's manifest, or what else its file holds; a file that is a table alone.
pub const ManifestPart = enum(u32) { manifest = 0, indices = 1, transaction = 2, data_file = 3 };

/// How a file lists deleted rows. `members` is a Roaring bitmap of anything: what lies behind the last bit that
/// is asked for is left out, where rows that do not exist are an error.
pub const RowList = enum(u32) { none = 0, arrow = 1, roaring = 2, members = 3 };

/// How a file of text is packed: what its first bytes say.
pub const TextCompression = enum(u32) { none = 0, gzip = 1, zstd = 2 };

/// Rows of a file's head that types are found from.
pub const text_sample_rows: u32 = 20_480;
/// A longer row of a file is refused: it must be in memory as a whole.
pub const text_row_size_max: u32 = 16 << 20;
/// A Zstandard frame whose matches reach further back is refused: so much of the text must stay in memory.
pub const text_zstd_window_max: u32 = 32 << 20;
/// Bytes behind a piece that are asked for with its last window, so that the last row's end is among them.
pub const text_overhang: u32 = 16 << 10;

/// What a head was found to look like (`qm_text_sniff`). Followed by the settled `TextOptions`, with the header
/// absent or present and all columns with their types: what a scan of the file takes as it is, or with other
/// types put in their places.
pub const TextSniffed = extern struct {
    /// Where the first row begins, in the text as it is when unpacked.
    rows_start: u64,
    /// Rows that were looked at, a header not counted.
    row_count: u32,
    compression: TextCompression,
};

/// What the host keeps of a text file (`qm_file_open`). Followed by `TextOptions` and what goes with them, all
/// columns of the file among it: a number of a place is one of these.
pub const TextFile = extern struct {
    size: u64,
    compression: TextCompression,
    reserved: u32 = 0,
};

/// Opens a scan of a part of a file whose rows come as they are found: of text. The columns follow
/// (scan/request.zig).
///
/// A row belongs to the piece that it begins in: `start` ≤ its first byte < `end`. The scan asks for bytes in
/// windows, one behind the other, and beyond `end` as far as its last row reaches. Where `start` is not exact,
/// it is taken to be outside of quotes, and the first row to begin behind the first line end at or after the
/// byte before `start`. `qm_scan_extent` says what came of it.
///
/// Packed text is one piece: `start` and `end` count bytes of the text, and `end` may be 2^64 - 1.
pub const StreamRequest = extern struct {
    start: u64,
    end: u64,
    /// Of `qm_file_open`.
    file: u32,
    window_size: u32,
    /// Bits of `stream_…`.
    flags: u32,
    /// Rows of the first chunk at most, where few may be all that is wanted: later ones have more. 0: as many as
    /// are good to have.
    first_rows: u32,
};

/// `start` is where a row begins, or would.
pub const stream_exact_start: u32 = 1;

/// What a scan of a part of a file has found (`qm_scan_extent`), also after it has failed.
pub const ScanExtent = extern struct {
    /// Where its first row begins, or the next piece's does if it has none; `offset_unknown` before that is known.
    start: u64,
    /// Where the first row of the next piece begins; `offset_unknown` unless it was read to its end.
    end: u64,
    /// Rows read so far.
    row_count: u64,
};

/// Opens a scan of one row group; the columns follow (scan/request.zig).
pub const ScanRequest = extern struct {
    /// Of `qm_file_open`.
    file: u32,
    /// Of the file: a row group.
    piece: u32,
    /// A query over statistics, or 0.
    prune: u32,
    /// Bits of `scan_…`.
    flags: u32,
    /// Bytes of a column chunk that are asked for at once.
    window_size: u32,
    /// Runs of rows that are wanted, and nothing else is; 0 where all are. Not together with `prune`.
    range_count: u32 = 0,
    /// Bytes of a bitmap with a bit for each row of the piece, set where the row is deleted; 0 where none is.
    deleted_size: u32 = 0,
};

/// What the engine makes of a Parquet footer and the host keeps (format/parquet/footer.zig draws it). A footer of
/// another version is read anew from its file.
pub const footer_magic: u32 = 0x46504D51; // "QMPF"
pub const footer_version: u8 = 2;
/// Zero bytes at its end, so that every entry of an array can be read as eight bytes and masked.
pub const footer_padding: u32 = 8;

/// How a flat footer begins. Its parts follow: frames, created_by, columns, records, arrays, bounds, padding.
pub const FooterHeader = extern struct {
    magic: u32 = footer_magic,
    version: u8 = footer_version,
    /// 1: the file had key-value metadata, which is not kept.
    has_key_values: u8,
    created_by_size: u16,
    /// Of all this.
    size: u32,
    /// Top-level columns.
    column_count: u32,
    leaf_count: u32,
    row_group_count: u32,
    columns_size: u32,
    records_size: u32,
    bounds_size: u32,
    frames_size: u32,
    /// Of the Parquet file.
    file_size: u64,
};

/// The arrays of a flat footer, in their order.
pub const FooterArray = enum(u8) {
    // Per row group, and one more for the end.
    first_row = 0,
    // Per row group.
    /// The smallest start of its chunks.
    group_start = 1,
    // Per leaf.
    column_order = 2,
    // Per chunk.
    /// Relative to the row group's.
    start = 3,
    compressed_size = 4,
    uncompressed_size = 5,
    /// Values less the row group's rows, zigzag: 0 where nothing repeats.
    extra_values = 6,
    /// From the start to the first data page.
    dictionary_size = 7,
    null_count = 8,
    nan_count = 9,
    column_index_offset = 10,
    column_index_size = 11,
    offset_index_offset = 12,
    offset_index_size = 13,
    bloom_offset = 14,
    /// 0: not known.
    bloom_size = 15,
    /// The minimum; the maximum is right behind it.
    bounds_offset = 16,
    min_size = 17,
    max_size = 18,
    codec = 19,
    encodings = 20,
    flags = 21,
    /// Data pages that the dictionary codes, and others, where encoding_stats lists both; else 0.
    dictionary_pages = 22,
    other_pages = 23,
};
pub const footer_array_count: u32 = @typeInfo(FooterArray).@"enum".field_names.len;

/// What a chunk has. Those that differ from chunk to chunk come first: the others then go into the
/// base and an entry takes one byte.
pub const FooterFlags = packed struct(u16) {
    dictionary: bool = false,
    /// Every data page is coded by the dictionary (encoding_stats says so).
    all_dictionary: bool = false,
    min: bool = false,
    max: bool = false,
    min_exact: bool = false,
    max_exact: bool = false,
    null_count: bool = false,
    nan_count: bool = false,
    /// The bounds are those of the deprecated fields 1 and 2.
    deprecated: bool = false,
    column_index: bool = false,
    offset_index: bool = false,
    bloom: bool = false,
    unused: u4 = 0,
};

/// Where a column comes from, instead of a place in the file: a value follows, as in plans, the same in every row;
/// NULL in every row; of pruning only, nothing is known of it.
pub const place_constant: u32 = 0xFFFF_FFFF;
pub const place_missing: u32 = 0xFFFF_FFFE;
pub const place_unknown: u32 = 0xFFFF_FFFD;

/// What is known of a column in a row group or a page: the columns of a plan over statistics, in this order
/// (scan/bounds.zig).
pub const Statistic = enum(u8) { min = 0, max = 1, nulls = 2, nan = 3, rows = 4, min_exact = 5, max_exact = 6 };

/// Of `merge`: rows from a bound on, rows before a bound.
pub const merge_has_lower: u8 = 1;
pub const merge_has_upper: u8 = 2;

pub const scan_verify_crc: u32 = 1;
/// Filter the whole row group before the other columns are asked for.
pub const scan_filter_first: u32 = 2;
/// Only say what would be read: indexes are, pages are not.
pub const scan_plan_only: u32 = 4;

/// Bytes of the file that the host has put into memory. They stay until the scan does not list them
/// any more, or is closed.
pub const Segment = extern struct {
    offset: u64,
    address: u32,
    size: u32,
    /// Of the need that it answers.
    owner: u32,
    file: u32,
};

/// That is all.
pub const plan_last: u32 = 1;
/// A round of windows: later ones follow with the next step, and begin where pages do, so not quite there.
pub const plan_round: u32 = 2;
/// Dictionaries may be asked for besides, once pages are here that use them.
pub const plan_unsure: u32 = 4;

/// Followed by `need_count` times `Need`, then `live_count` addresses (u32) of segments in use.
pub const NeedHeader = extern struct {
    need_count: u32,
    live_count: u32,
    /// Bits of `plan_…` when the scan only plans and this is what its rows would need; 0 for what must be
    /// brought before it can go on.
    plan: u32,
    /// 1 for indexes and Bloom filters: small, far apart, and not worth what lies between them.
    is_index: u32,
};

pub const Need = extern struct {
    offset: u64,
    size: u32,
    /// Who wants it: comes back with the segment.
    owner: u32,
    /// Of the files that hold the piece; most formats have one, which is 0.
    file: u32 = 0,
    reserved: u32 = 0,
};

pub const Source = extern struct {
    kind: SourceKind,
    /// The opened batch; of all other kinds the number of the run, for plans that begin with `merge`.
    handle: u32,
    address: u32,
    size: u32,
};

/// A column of a batch opened with `qm_batch_open`.
pub const ColumnReference = extern struct {
    batch: u32,
    column: u32,
};

pub const BatchHeader = extern struct {
    row_count: u32,
    /// Top-level columns; nested ones follow their parent in preorder.
    column_count: u32,
    descriptor_count: u32,
    reserved: u32 = 0,
};

/// One column as it lies in linear memory. Buffers of input are the host's: they are 16-byte aligned, stay
/// put and unchanged until the batch is closed (or the push returns), and are freed by the host. Buffers of
/// output are the engine's (`qm_query_lend`).
pub const ColumnDescriptor = extern struct {
    tag: TypeTag,
    /// Width of the offsets: 0 none, 4 or 8 bytes.
    offset_width: u8,
    /// Bits to skip at the start of `validity` (Arrow slices need not start at a byte).
    validity_bit: u8,
    /// The same for the values of a bool column.
    data_bit: u8,
    /// Bytes of one value as delivered. A decimal comes as 4, 8 or 16 bytes, a time as 4 or 8.
    value_width: u32,
    row_count: u32,
    child_count: u32,
    /// Bit set = valid. 0 when no value is NULL.
    validity: u32,
    validity_size: u32,
    data: u32,
    data_size: u32,
    offsets: u32,
    offsets_size: u32,
    /// Subtracted from every offset: a slice's offsets do not start at 0.
    offset_base: u64,
    /// Decimal: precision and scale. Fixed binary and vectors: `width`. Time, timestamp: unit.
    precision: u8,
    scale: i8,
    unit: TimeUnit,
    reserved: u8 = 0,
    width: u32,

    comptime {
        std.debug.assert(@sizeOf(ColumnDescriptor) == 56);
        std.debug.assert(@offsetOf(ColumnDescriptor, "offset_base") == 40);
    }
};

/// What went wrong, where it is known. Strings are cut to fit, never split inside a character.
pub const ErrorDetail = extern struct {
    /// Byte offset inside the input, or `offset_unknown`.
    offset: u64,
    /// Of text: the row, from 0, counted in the text or in the piece of a file; or `row_unknown`.
    row: u64,
    /// Column index, or `column_unknown`.
    column: u32,
    message_size: u32,
    message: [240]u8,

    pub const offset_unknown: u64 = 0xFFFF_FFFF_FFFF_FFFF;
    pub const row_unknown: u64 = 0xFFFF_FFFF_FFFF_FFFF;
    pub const column_unknown: u32 = 0xFFFF_FFFF;
};

/// The one place the host may look at and write to at any time.
pub const Control = extern struct {
    /// The host sets it to 1 from any thread to stop the running call with `cancelled`.
    cancel: u8,
    reserved: [3]u8 = @splat(0),
    /// Written by a panic just before the trap.
    panic_size: u32,
    panic_message: [248]u8,
    detail: ErrorDetail,
    /// Bytes of a batch that leaves: the host lowers it where memory is short. 0: as large as is good.
    output_size: u32,
    /// Pages that scans have left out so far. The host reads it and sets it to 0.
    pages_skipped: u32,
};

pub const structs = .{
    Output,      Source,     ColumnReference, BatchHeader,  ColumnDescriptor, ErrorDetail, Control,
    ScanRequest, Segment,    NeedHeader,      Need,         Part,             TextOptions, TextSniffed,
    TextFile,    ScanExtent, StreamRequest,   FooterHeader,
};
pub const enums = .{
    Status,       TypeTag,         TimeUnit,       NodeTag,    ExpressionTag, CompareOp,
    ArithmeticOp, AggregateOp,     AggregatePhase, SourceKind, TextFormat,    OutputState,
    FileFormat,   JoinKind,        JoinSide,       DatePart,   TextHeader,    Statistic,
    JsonLayout,   TextCompression, ManifestPart,   RowList,
};
/// In Python these are plain numbers: nobody shows them, and a hundred members of an enum take longer to make
/// than most modules take to load.
pub const number_sets = .{ FunctionId, FooterArray };
/// Bits of a number, plain numbers in Python.
pub const flag_sets = .{FooterFlags};
pub const constants = .{
    .{ "PLAN_MAGIC", plan_magic },
    .{ "QMCB_MAGIC", qmcb_magic },
    .{ "TYPE_DEPTH_MAX", type_depth_max },
    .{ "EXPRESSION_DEPTH_MAX", expression_depth_max },
    .{ "COLUMN_COUNT_MAX", column_count_max },
    .{ "ROW_COUNT_MAX", row_count_max },
    .{ "VALUE_SIZE_MAX", value_size_max },
    .{ "PLACE_CONSTANT", place_constant },
    .{ "PLACE_MISSING", place_missing },
    .{ "PLACE_UNKNOWN", place_unknown },
    .{ "MERGE_HAS_LOWER", merge_has_lower },
    .{ "MERGE_HAS_UPPER", merge_has_upper },
    .{ "CHUNK_ROWS", chunk_rows },
    .{ "FOOTER_MAGIC", footer_magic },
    .{ "FOOTER_VERSION", footer_version },
    .{ "FOOTER_PADDING", footer_padding },
    .{ "FOOTER_ARRAY_COUNT", footer_array_count },
    .{ "SCAN_VERIFY_CRC", scan_verify_crc },
    .{ "SCAN_FILTER_FIRST", scan_filter_first },
    .{ "SCAN_PLAN_ONLY", scan_plan_only },
    .{ "STREAM_EXACT_START", stream_exact_start },
    .{ "TEXT_SAMPLE_ROWS", text_sample_rows },
    .{ "TEXT_ROW_SIZE_MAX", text_row_size_max },
    .{ "TEXT_ZSTD_WINDOW_MAX", text_zstd_window_max },
    .{ "TEXT_OVERHANG", text_overhang },
    .{ "AGGREGATE_DISTINCT", aggregate_distinct },
    .{ "AGGREGATE_FILTERED", aggregate_filtered },
    .{ "BUILD_NULL_EQUAL", build_null_equal },
    .{ "UNDIVIDED", undivided },
    .{ "LISTED", listed },
    .{ "ROWS_PASS", rows_pass },
    .{ "ROWS_IN_ORDER", rows_in_order },
    .{ "PLAN_LAST", plan_last },
    .{ "PLAN_ROUND", plan_round },
    .{ "PLAN_UNSURE", plan_unsure },
    .{ "OFFSET_UNKNOWN", ErrorDetail.offset_unknown },
    .{ "ROW_UNKNOWN", ErrorDetail.row_unknown },
    .{ "COLUMN_UNKNOWN", ErrorDetail.column_unknown },
};

/// Exported name and type; main.zig binds each to the function of that name in boundary/.
pub const Exports = struct {
    pub const qm_abi_version = fn () callconv(.c) u32;
    /// Address of the `Control`; constant for the life of the instance.
    pub const qm_control = fn () callconv(.c) u32;
    /// 64-byte aligned, readable 64 bytes past its end. The host frees with the same size.
    pub const qm_alloc = fn (size: u32) callconv(.c) u32;
    pub const qm_free = fn (address: u32, size: u32) callconv(.c) Status;
    /// Checks a batch once and keeps it for many pushes; writes the handle (u32) to `out`.
    /// The host keeps the buffers unchanged until `qm_batch_close`; the descriptor may go at once.
    pub const qm_batch_open = fn (address: u32, size: u32, out: u32) callconv(.c) Status;
    pub const qm_batch_close = fn (handle: u32) callconv(.c) Status;
    /// Copies what it needs of the plan; writes the handle (u32) to `out`.
    pub const qm_query_open = fn (address: u32, size: u32, out: u32) callconv(.c) Status;
    /// From here on the query's answers are a `BatchHeader` and its `ColumnDescriptor`s, of columns that stay
    /// where they are until the next call on the query. For a query without output so far.
    pub const qm_query_lend = fn (query: u32) callconv(.c) Status;
    /// `source` is the address of a `Source`, `out` of an `Output`.
    pub const qm_query_push = fn (query: u32, source: u32, out: u32) callconv(.c) Status;
    /// Ends the input. When all output has been taken, the query starts afresh with the next push:
    /// one opened plan serves many lanes.
    pub const qm_query_finish = fn (query: u32, out: u32) callconv(.c) Status;
    pub const qm_query_next = fn (query: u32, out: u32) callconv(.c) Status;
    pub const qm_query_close = fn (query: u32) callconv(.c) Status;
    /// How many rows came to every step so far, and how many left the last one: a u64 each. Filters at the
    /// front of a scan's plan are the scan's own, and have 0. Stays until the query is closed.
    pub const qm_query_profile = fn (query: u32, out: u32) callconv(.c) Status;
    /// Text to typed columns: `format` is a `TextFormat`, the options are `TextOptions` and what follows
    /// them. Opens a handle that `qm_query_next` reads and `qm_query_close` closes.
    pub const qm_text_open =
        fn (format: u32, address: u32, size: u32, options: u32, options_size: u32, out: u32) callconv(.c) Status;
    /// A file's footer, as the file has it, to the flat form that `qm_file_open` takes and caches keep.
    /// The result stays until the next call. `file_size` is given as its low and high half.
    pub const qm_footer = fn (
        format: u32,
        address: u32,
        size: u32,
        file_size_low: u32,
        file_size_high: u32,
        out: u32,
    ) callconv(.c) Status;
    /// A part of a table's manifest (`ManifestPart`), as its file has it, to a flat form that is read in place
    /// and cached: the format draws it. The result stays until the next call.
    pub const qm_manifest = fn (format: u32, part: u32, address: u32, size: u32, out: u32) callconv(.c) Status;
    /// A list of rows (`RowList`) to a bit for each of `row_count` rows, and how many of them are set. The bits
    /// stay until the next call.
    pub const qm_deletions = fn (
        format: u32,
        kind: u32,
        address: u32,
        size: u32,
        row_count_low: u32,
        row_count_high: u32,
        out: u32,
    ) callconv(.c) Status;
    /// Copies what the host keeps of a file of a `FileFormat`, a flat footer; writes the handle (u32) to `out`.
    pub const qm_file_open = fn (format: u32, address: u32, size: u32, out: u32) callconv(.c) Status;
    pub const qm_file_close = fn (file: u32) callconv(.c) Status;
    /// Which pieces may match, by `query` over their statistics: one byte each, 0 or 1, of all files of the
    /// request (scan/request.zig), which are of one `FileFormat`. They stay until the next call.
    pub const qm_prune = fn (query: u32, format: u32, address: u32, size: u32, out: u32) callconv(.c) Status;
    /// The same statistics as rows of the query: what MIN and MAX of whole tables are answered from.
    pub const qm_bounds = fn (query: u32, format: u32, address: u32, size: u32, out: u32) callconv(.c) Status;
    /// Starts reading a row group or a piece of text into a query; writes the handle (u32) to `out`.
    /// `format` is a `FileFormat`, and the request its `ScanRequest` or `StreamRequest`. The query and the
    /// file must stay open until the scan is closed.
    pub const qm_scan_open = fn (query: u32, format: u32, address: u32, size: u32, out: u32) callconv(.c) Status;
    /// Goes on with `count` more `Segment`s. `need_input`: done; `done`: and the query wants no more;
    /// with output, `again` or (at the end) `more_output`.
    pub const qm_scan_step = fn (scan: u32, segments: u32, count: u32, out: u32) callconv(.c) Status;
    pub const qm_scan_close = fn (scan: u32) callconv(.c) Status;
    /// `out` is the address of a `ScanExtent`. For scans of a `StreamRequest`, at any time until they are closed.
    pub const qm_scan_extent = fn (scan: u32, out: u32) callconv(.c) Status;
    /// What a text file looks like, from its first bytes: `format` is a `FileFormat` of text, the options are
    /// `TextOptions` with what is known already, `is_whole` is 1 where the bytes are all of the file. Leaves a
    /// `TextSniffed` and what follows it until the next call. `too_large`: more bytes are needed to tell.
    pub const qm_text_sniff = fn (
        format: u32,
        address: u32,
        size: u32,
        options: u32,
        options_size: u32,
        is_whole: u32,
        out: u32,
    ) callconv(.c) Status;
    /// What the statistics of a leaf, nested or not, say of each row group: one row each, with the
    /// columns of scan/bounds.zig; text comes as binary, since bounds may be cut inside a character. Stays
    /// until the next call.
    pub const qm_leaf_bounds = fn (file: u32, leaf: u32, out: u32) callconv(.c) Status;
    /// The pages whose headers lie in the bytes, the first of which begins one
    /// (format/parquet/page_list.zig). The rows stay until the next call.
    pub const qm_pages = fn (format: u32, address: u32, size: u32, out: u32) callconv(.c) Status;
};
