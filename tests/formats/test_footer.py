"""Flat footers say what the file's own footer says; thriftpy2, an independent Thrift, is the oracle."""

from __future__ import annotations

import io
import json
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import thriftpy2
from thriftpy2.protocol.compact import TCompactProtocol
from thriftpy2.transport import TMemoryBuffer

from querymode import types
from querymode._abi import FooterArray, FooterFlags
from querymode.engine.one_task import flat_footer
from querymode.errors import QueryModeError
from querymode.format.parquet import flat_footer as ff
from querymode.format.parquet.flat_footer import FlatFooter
from querymode.table.from_arrow import from_arrow
from tests.raises import raises_code

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus"

# As much of Parquet's Thrift as the comparison looks at, under names of our own.
THRIFT = """
struct Nothing {}
struct Bounds {1: binary old_max 2: binary old_min 3: i64 nulls 5: binary max 6: binary min
    7: bool max_exact 8: bool min_exact 9: i64 nans}
struct Digits {1: i32 scale 2: i32 precision}
struct Logical {5: Digits decimal 11: Nothing unknown 16: Nothing variant 17: Nothing geometry
    18: Nothing geography}
struct Element {1: i32 physical 2: i32 length 3: i32 repetition 4: binary name 5: i32 children
    6: i32 converted 7: i32 scale 8: i32 precision 10: Logical logical}
struct Pages {1: i32 kind 2: i32 encoding 3: i32 pages}
struct Meta {1: i32 physical 2: list<i32> encodings 3: list<binary> path 4: i32 codec 5: i64 values
    6: i64 plain_size 7: i64 size 9: i64 data_offset 11: i64 dictionary_offset 12: Bounds bounds
    13: list<Pages> pages 14: i64 bloom_offset 15: i32 bloom_size}
struct Column {1: binary path 2: i64 offset 3: Meta meta 4: i64 offset_index 5: i32 offset_index_size
    6: i64 column_index 7: i32 column_index_size 8: Nothing crypto 9: binary secret}
struct Group {1: list<Column> columns 2: i64 size 3: i64 rows}
struct Order {1: Nothing by_type 2: Nothing total}
struct Pair {1: binary key 2: binary value}
struct File {1: i32 version 2: list<Element> elements 3: i64 rows 4: list<Group> groups 5: list<Pair> pairs
    6: binary writer 7: list<Order> orders 8: Nothing algorithm 9: binary key}
"""
thrift: Any = thriftpy2.load_fp(io.StringIO(THRIFT), "footer_thrift")
Protocol: Any = TCompactProtocol
Buffer: Any = TMemoryBuffer


def parse(raw: bytes) -> Any:
    file = thrift.File()
    file.read(Protocol(Buffer(raw)))
    return file


def unparse(file: Any) -> bytes:
    buffer = Buffer()
    file.write(Protocol(buffer))
    return bytes(buffer.getvalue())


def tail(data: bytes) -> bytes | None:
    """The Thrift footer of a file, or None where there is none."""
    if len(data) < 12 or data[-4:] != b"PAR1":
        return None
    size = struct.unpack("<I", data[-8:-4])[0]
    return data[-8 - size : -8] if size + 8 <= len(data) else None


# ---- the comparison ----


def compare(raw: bytes, file_size: int) -> FlatFooter:
    file = parse(raw)
    flat = FlatFooter(flat_footer(raw, file_size))
    groups = file.groups or []
    leaves = [
        element for element in file.elements[1:] if element.physical is not None and not element.children
    ]
    assert flat.file_size == file_size
    assert flat.row_counts() == [group.rows for group in groups]
    assert flat.row_count == sum(group.rows for group in groups)
    assert flat.created_by == (file.writer or b"")[:200].decode(errors="replace")
    assert flat.has_key_values == (file.pairs is not None)
    assert flat.leaf_count == len(leaves)
    assert sum(len(leaf_range) for leaf_range in flat.leaf_ranges) == len(leaves)
    orders = [1 if order.by_type else 2 if order.total else 0 for order in file.orders or []]
    assert [flat.column_order(leaf) for leaf in range(len(leaves))] == (orders + [0] * len(leaves))[
        : len(leaves)
    ]
    slack = 100 if is_before_1_2_9(flat.created_by) else 0
    for row_group, group in enumerate(groups):
        for leaf, column in enumerate(group.columns):
            chunk = flat.chunk(row_group, leaf)
            compare_chunk(chunk, column.meta, slack)
            compare_bounds(chunk, column.meta.bounds or thrift.Bounds(), leaves[leaf])
            compare_spans(chunk, column, file_size)
    return flat


def is_before_1_2_9(created_by: str) -> bool:
    name, _, version = created_by.partition(" version ")
    numbers = [int(part) for part in version.split(" ")[0].split("-")[0].split(".") if part.isdigit()]
    return name == "parquet-mr" and numbers < [1, 2, 9]


def compare_chunk(chunk: ff.Chunk, meta: Any, slack: int) -> None:
    dictionary, data = meta.dictionary_offset or 0, meta.data_offset
    has_dictionary = dictionary > 0 and (dictionary < data or data == 0)
    assert chunk.has_dictionary == has_dictionary
    assert chunk.start == (dictionary if has_dictionary else data)
    assert chunk.data_page_offset in (data, chunk.start)
    assert 0 <= chunk.compressed_size - meta.size <= slack
    assert (chunk.codec, chunk.uncompressed_size, chunk.value_count) == (
        meta.codec,
        meta.plain_size,
        meta.values,
    )
    assert chunk.encodings == sum(1 << encoding for encoding in set(meta.encodings))
    data_pages = [page for page in meta.pages or [] if page.kind in (0, 3) and page.pages]
    all_dictionary = bool(data_pages) and all(page.encoding in (2, 8) for page in data_pages)
    assert bool(chunk.flags & FooterFlags.ALL_DICTIONARY) == all_dictionary
    coded = sum(page.pages for page in data_pages if page.encoding in (2, 8))
    others = sum(page.pages for page in data_pages) - coded
    assert (chunk.dictionary_pages, chunk.other_pages) == ((coded, others) if coded and others else (0, 0))


def compare_spans(chunk: ff.Chunk, column: Any, file_size: int) -> None:
    assert chunk.column_index == span(column.column_index, column.column_index_size)
    assert chunk.offset_index == span(column.offset_index, column.offset_index_size)
    offset, size = column.meta.bloom_offset, column.meta.bloom_size or 0
    if not offset:
        assert chunk.bloom is None
    else:
        assert chunk.bloom == ff.Span(offset, size if offset + size <= file_size else 0)


def span(offset: int | None, size: int | None) -> ff.Span | None:
    return ff.Span(offset, size) if offset is not None and size else None


def compare_bounds(chunk: ff.Chunk, bounds: Any, element: Any) -> None:
    if bounds.nulls is None or 0 <= bounds.nulls <= chunk.value_count:
        assert chunk.null_count == bounds.nulls
    assert chunk.nan_count == bounds.nans
    deprecated = bounds.min is None and bounds.max is None
    low, high = (bounds.old_min, bounds.old_max) if deprecated else (bounds.min, bounds.max)
    if is_unordered(element):
        low = high = None
    is_deprecated = deprecated and (chunk.min, chunk.max) != (None, None)
    assert bool(chunk.flags & FooterFlags.DEPRECATED) == is_deprecated
    if low is not None and len(low) > 64:
        assert chunk.min is None or (low.startswith(chunk.min) and 61 <= len(chunk.min) <= 64)
        assert not chunk.flags & FooterFlags.MIN_EXACT
    else:
        assert chunk.min == low
        assert bool(chunk.flags & FooterFlags.MIN_EXACT) == bool(low is not None and bounds.min_exact)
    if high is not None and len(high) > 64:
        assert chunk.max is None or (chunk.max > high and len(chunk.max) <= 65)
        assert not chunk.flags & FooterFlags.MAX_EXACT
    else:
        assert chunk.max == high
        assert bool(chunk.flags & FooterFlags.MAX_EXACT) == bool(high is not None and bounds.max_exact)


def is_unordered(element: Any) -> bool:
    """Physical types and annotations whose order nobody knows, or of which we keep the bytes only."""
    logical = element.logical or thrift.Logical()
    strange = logical.unknown or logical.variant or logical.geometry or logical.geography
    precision = logical.decimal.precision if logical.decimal else element.precision or 0
    return bool(element.physical == 3 or element.converted in (21, 24) or strange or precision > 38)


# ---- files of every writer ----


def typical_table(row_count: int = 40_000) -> pa.Table:
    """Twenty columns as people have them."""
    random = np.random.default_rng(1)
    columns: dict[str, Any] = {f"metric_{k}": random.normal(size=row_count) * 100 for k in range(6)}
    columns |= {f"count_{k}": random.integers(0, 10 ** (k + 2), row_count) for k in range(5)}
    columns["id"] = np.arange(row_count)
    columns["user_id"] = random.integers(0, 2**40, row_count)
    micros = np.arange(row_count) * 1_000_000 + 1_700_000_000_000_000
    columns["created_at"] = pa.array(micros, pa.timestamp("us", "UTC"))
    columns["day"] = pa.array((np.arange(row_count) // 500 + 19_000).astype("int32"), pa.date32())
    columns["region"] = np.array(["us-east", "eu-west", "ap-south", "sa-east"])[
        random.integers(0, 4, row_count)
    ]
    columns["status"] = np.array(["ok", "failed", "pending"])[random.integers(0, 3, row_count)]
    columns["email"] = [f"user{number}@example.com" for number in random.integers(0, 10**6, row_count)]
    columns["comment"] = [
        f"some longer text here {number}" for number in random.integers(0, 10**9, row_count)
    ]
    columns["active"] = pa.array(random.random(row_count) < 0.5, mask=random.random(row_count) < 0.1)
    return pa.table(columns)


def nested_table() -> pa.Table:
    point = pa.struct([("x", pa.float64()), ("tags", pa.list_(pa.string()))])
    columns = {
        "id": pa.array([1, 2, 3], pa.int8()),
        "list": pa.array([[1, None], None, []], pa.list_(pa.int32())),
        "deep": pa.array([[[["a"]]], [[]], None], pa.list_(pa.list_(pa.list_(pa.string())))),
        "point": pa.array([{"x": 1.0, "tags": ["a", None]}, None, {"x": None, "tags": []}], point),
        "points": pa.array([[{"x": 2.0, "tags": None}], None, []], pa.list_(point)),
        "map": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
        "map_of_points": pa.array([None, [(1, {"x": 1.0, "tags": []})], []], pa.map_(pa.int32(), point)),
        "größe": pa.array([None, "x" * 100, "ß" * 50]),
    }
    return pa.table(columns)


def typed_table() -> pa.Table:
    integers = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
    times = ["time32[ms]", "time64[us]", "time64[ns]", "date32[day]"]
    stamps = [f"timestamp[{unit}{zone}]" for unit in ("ms", "us", "ns") for zone in ("", ", tz=UTC")]
    columns: dict[str, Any] = {}
    for name in (*integers, *times, *stamps):
        bits = pa.int32() if "32" in name else pa.int64()
        columns[name] = pa.array([1, None, 3], bits).cast(arrow_type(name))
    for precision in (3, 9, 18, 19, 38):
        columns[f"decimal{precision}"] = pa.array(
            [Decimal("1.25"), None, Decimal("-3")], pa.decimal128(precision, 2)
        )
    for number in (np.float16, np.float32, np.float64):
        columns[number.__name__] = np.array([1.5, -0.0, np.nan], number)
    columns["bool"] = [True, None, False]
    columns["binary"] = [b"\xff" * 70, None, b""]
    columns["fixed"] = pa.array([b"abc", None, b"def"], pa.binary(3))
    columns["null"] = [None, None, None]
    return pa.table(columns)


def arrow_type(name: str) -> Any:
    if name.startswith("timestamp"):
        return pa.timestamp(name[10:12], "UTC" if "UTC" in name else None)
    return getattr(pa, name.split("[")[0])(*([name[-3:-1]] if name.startswith("time") else []))


def written(table: pa.Table, **options: Any) -> bytes:
    target = io.BytesIO()
    pq.write_table(table, target, **options)
    return target.getvalue()


def written_by_duckdb(table: pa.Table, path: Path, options: str = "") -> bytes:
    with duckdb.connect() as connection:
        connection.register("given", table)
        connection.sql(f"COPY given TO '{path}' (FORMAT parquet{options})")
    return path.read_bytes()


def written_by_polars(table: pa.Table, path: Path) -> bytes:
    pl.DataFrame(pl.from_arrow(table)).write_parquet(path, row_group_size=10_000)
    return path.read_bytes()


def compare_file(data: bytes) -> FlatFooter:
    raw = tail(data)
    assert raw is not None
    return compare(raw, len(data))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"write_page_index": True},
        {"row_group_size": 7_000, "compression": "zstd", "use_dictionary": False},
        {"write_statistics": False, "compression": "none", "data_page_version": "2.0"},
        {"store_schema": False, "version": "1.0"},
    ],
)
def test_pyarrow_files(options: dict[str, Any]) -> None:
    tables = [typical_table(), nested_table(), pa.table({"a": pa.array([], pa.int32())})]
    if options.get("version") != "1.0":  # which has no float16, no uint32 and no nanoseconds
        tables.append(typed_table())
    for table in tables:
        kept = {
            name: value for name, value in options.items() if table.num_rows > 100 or name != "row_group_size"
        }
        flat = compare_file(written(table, **kept))
        assert flat.row_count == table.num_rows
        assert [name for name, _ in flat.fields] == table.column_names
        if options.get("version") != "1.0":
            schema = from_arrow(table).schema
            assert flat.fields == tuple(zip(schema.names, schema.types, strict=True))


def test_files_of_others(tmp_path: Path) -> None:
    for name, table in (("typical", typical_table()), ("nested", nested_table())):
        plain = compare_file(written_by_duckdb(table, tmp_path / f"{name}.duckdb"))
        assert plain.row_count == table.num_rows
        compare_file(
            written_by_duckdb(table, tmp_path / f"{name}.v2", ", PARQUET_VERSION v2, ROW_GROUP_SIZE 5000")
        )
        flat = compare_file(
            written_by_polars(
                table.drop_columns([c for c in table.column_names if "map" in c]), tmp_path / name
            )
        )
        assert flat.row_count == table.num_rows


def test_a_typical_footer_is_small() -> None:
    table = typical_table(400_000)
    for options in ({}, {"write_page_index": True}, {"write_page_index": True, "compression": "zstd"}):
        flat = compare_file(written(table, row_group_size=100_000, **options))
        assert (flat.row_group_count, flat.leaf_count) == (4, 20)
        assert len(flat.blob) <= 4096


def test_corpus() -> None:
    if not CORPUS.exists():
        pytest.skip("the corpus is not here")
    items = [
        item
        for item in json.loads((CORPUS / "manifest.json").read_text())["items"]
        if item["kind"] == "parquet"
    ]
    compared = 0
    for item in items:
        data = (CORPUS / item["file"]).read_bytes()
        raw = tail(data)
        if raw is None:
            continue
        if item["outcome"] == "read":
            flat = compare(raw, len(data))
            assert flat.row_count == item["rows"], item["file"]
            assert [name for name, _ in flat.fields] == [column["name"] for column in item["columns"]], item[
                "file"
            ]
            compared += 1
        else:
            flat_or_refused(raw, len(data))
    assert compared > 100


def flat_or_refused(raw: bytes, file_size: int) -> FlatFooter | None:
    try:
        flat = FlatFooter(flat_footer(raw, file_size))
    except QueryModeError as failure:
        assert failure.code in ("INVALID_FORMAT", "NOT_SUPPORTED")
        return None
    for row_group in range(flat.row_group_count):
        for leaf in range(flat.leaf_count):
            chunk = flat.chunk(row_group, leaf)
            assert chunk.start + chunk.compressed_size <= file_size
    return flat


# ---- what is refused, and what is forgiven ----


@pytest.fixture
def small() -> tuple[Any, int]:
    data = written(pa.table({"a": [1, 2, 3], "b": ["x", "y", None]}), write_page_index=True)
    raw = tail(data)
    assert raw is not None
    return parse(raw), len(data)


def code_of(file: Any, size: int) -> tuple[str, str]:
    with pytest.raises(QueryModeError) as failure:
        flat_footer(unparse(file), size)
    return failure.value.code, failure.value.message


def test_encrypted_and_external(small: tuple[Any, int]) -> None:
    file, size = small
    file.groups[0].columns[1].path = b"other.parquet"
    code, message = code_of(file, size)
    assert code == "NOT_SUPPORTED" and "another file" in message
    file.groups[0].columns[1].path = None
    file.groups[0].columns[1].crypto = thrift.Nothing()
    code, message = code_of(file, size)
    assert code == "NOT_SUPPORTED" and "encrypted" in message
    file.groups[0].columns[1].crypto = None
    file.algorithm = thrift.Nothing()
    code, message = code_of(file, size)
    assert code == "NOT_SUPPORTED" and "encrypted" in message


@pytest.mark.parametrize(
    "change",
    [
        lambda file: file.groups[0].columns.pop(),
        lambda file: setattr(file.groups[0], "rows", -1),
        lambda file: setattr(file.groups[0].columns[0], "meta", None),
        lambda file: setattr(file.groups[0].columns[0].meta, "size", 1 << 40),
        lambda file: setattr(file.groups[0].columns[0].meta, "size", -5),
        lambda file: (
            file.groups[0].columns[0].meta.__dict__.update(dictionary_offset=None, data_offset=1 << 40)
        ),
        lambda file: setattr(file.groups[0].columns[0].meta, "values", -1),
        lambda file: setattr(file.groups[0].columns[0].meta, "physical", 4),
        lambda file: setattr(file.elements[0], "children", 3),
        lambda file: setattr(file.elements[0], "children", 1),
        lambda file: setattr(file.elements[1], "name", b"\xff"),
        lambda file: setattr(file.elements[1], "physical", 9),
        lambda file: setattr(file, "elements", None),
        lambda file: setattr(file, "groups", file.groups * 2 + [thrift.Group()]),
    ],
)
def test_lies_are_refused(small: tuple[Any, int], change: Any) -> None:
    file, size = small
    change(file)
    assert code_of(file, size)[0] == "INVALID_FORMAT"


def test_wrong_advice_is_dropped(small: tuple[Any, int]) -> None:
    file, size = small
    column = file.groups[0].columns[0]
    column.column_index = size - 1
    column.meta.bloom_offset = 1 << 50
    column.meta.bounds.nulls = 17
    column.meta.dictionary_offset = column.meta.data_offset + 1
    file.rows = 0
    flat = FlatFooter(flat_footer(unparse(file), size))
    chunk = flat.chunk(0, 0)
    assert flat.row_count == 3
    assert (chunk.column_index, chunk.bloom, chunk.null_count) == (None, None, None)
    assert (chunk.has_dictionary, chunk.start) == (False, column.meta.data_offset)
    assert chunk.offset_index is not None


def test_columns_of_one_name_are_kept() -> None:
    table = pa.table([pa.array([1]), pa.array(["x"])], names=["a", "a"])
    assert compare_file(written(table)).fields == (("a", types.INT64), ("a", types.UTF8))


def test_damaged_thrift_is_refused_or_read(small: tuple[Any, int]) -> None:
    file, size = small
    raw = unparse(file)
    random = np.random.default_rng(3)
    for _ in range(300):
        damaged = bytearray(raw)
        for position in random.integers(0, len(raw), random.integers(1, 4)):
            damaged[position] = random.integers(0, 256)
        flat_or_refused(
            bytes(damaged[: random.integers(1, len(raw) + 1)] if random.random() < 0.2 else damaged), size
        )


def test_a_damaged_blob_is_noticed(small: tuple[Any, int]) -> None:
    file, size = small
    blob = flat_footer(unparse(file), size)
    for damaged in (b"", blob[:40], blob[:-1], blob + b"\0", b"X" + blob[1:], blob[:4] + b"\x09" + blob[5:]):
        with raises_code("INVALID_FORMAT"):
            FlatFooter(damaged)


def test_bulk_access() -> None:
    flat = compare_file(written(typical_table(), row_group_size=9_000))
    leaf = flat.leaf_ranges[17].start
    chunks = [flat.chunk(row_group, leaf) for row_group in range(flat.row_group_count)]
    assert flat.chunk_values(FooterArray.COMPRESSED_SIZE, leaf) == [chunk.compressed_size for chunk in chunks]
    assert flat.chunk_values(FooterArray.CODEC, leaf) == [chunk.codec for chunk in chunks]
    assert flat.chunk_values(FooterArray.FLAGS, leaf) == [chunk.flags for chunk in chunks]
    with pytest.raises(IndexError):
        flat.chunk(flat.row_group_count, 0)
