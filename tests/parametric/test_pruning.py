"""A filter over a file finds what it finds in the table that was written, whatever was left unread.

Random tables whose rows lie in runs or in order, so that pages and row groups differ; random sizes of both,
with and without statistics, indexes and bloom filters, by several writers; random filters. DuckDB answers
over the table in memory, where nothing is pruned. The same file is asked in several ways: as a local file,
over http, where filter columns come first, with little memory, and in parts, in a folder.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querymode import DataFrame, QueryMode, col
from querymode.plan.nodes import Scan
from querymode.table.files import FileTable
from tests.parametric.strategies import KINDS, Kind, Table, conditions, words
from tests.parametric.test_queries import RELAXED, asked, assert_same, check
from tests.unit.range_server import RangeServer

#: Bounds of longer texts are cut short by every writer, at 64 bytes or earlier.
_PREFIX = "the beginning of all of these is longer than the 64 bytes that bounds are cut to, "
_LONG_TEXTS = st.one_of(
    st.text("ab\x00é€😀", max_size=3).map(lambda tail: _PREFIX + tail),
    st.text("az\ud7ff\ue000\U0010ffff\x7f\x80", max_size=4).map(lambda tail: "z" * 62 + tail),
    st.sampled_from(["\U0010ffff" * 20, "\U0010ffff" * 16, "é" * 40, "é" * 40 + "a", "", "z" * 64, "z" * 65]),
)
_LONG_BYTES = st.one_of(
    st.binary(max_size=3).map(lambda tail: b"\xff" * 63 + tail),
    st.sampled_from(
        [b"\xff" * 70, b"\xff" * 64, b"", b"\x00" * 70, b"a" * 64, b"a" * 65, b"a" * 64 + b"\xff"]
    ),
)
EXTRA_KINDS = (
    Kind("long utf8", "VARCHAR", "text", pa.string(), _LONG_TEXTS),
    Kind("long binary", "BLOB", "bytes", pa.binary(), _LONG_BYTES),
    Kind(
        "fixed_binary(70)",
        "BLOB",
        "bytes",
        pa.binary(70),
        st.binary(max_size=2).map(lambda head: head.ljust(70, b"\xff")),
    ),
)
_HALVES = st.sampled_from(
    [0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1.5, -2.0, 65504.0, -65504.0, 2.0**-24]
)
#: DuckDB has no halves: only for comparisons with ourselves.
HALF = Kind("float16", "FLOAT", "float", pa.float16(), _HALVES, st.integers(-3, 3))
ANY_KIND = st.sampled_from([*KINDS, *EXTRA_KINDS])
ANY_KIND_OF_OURS = st.sampled_from([*KINDS, *EXTRA_KINDS, HALF])
ROW_COUNTS = st.sampled_from([0, 1, 2, 9, 40, 100, 101])


@pytest.fixture(scope="module", autouse=True)
def cache_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QUERYMODE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


# ---- tables and files ----


@st.composite
def laid_out(draw: Any, kinds: Any = ANY_KIND, row_counts: Any = ROW_COUNTS) -> Table:
    """A table whose first columns are in order, in runs or at random.

    Behind them `row`, the number of the row, and `items`, lists that are not NULL in every row.
    """
    chosen = draw(st.lists(kinds, min_size=1, max_size=3))
    names = ["a", "b", "the “c”"][: len(chosen)]
    row_count = draw(row_counts)
    random = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    arrays, pools = [], {}
    for name, kind in zip(names, chosen, strict=True):
        pools[name] = draw(st.lists(kind.values, min_size=1, max_size=12))
        indices = random.integers(0, len(pools[name]), row_count)
        layout = draw(st.sampled_from(["random", "order", "order", "runs", "runs"]))
        if layout != "random":
            indices = np.sort(indices)
        if layout == "order":
            pools[name] = in_order(pools[name], kind)
        mask = null_mask(random, draw(st.sampled_from(["none", "some", "some", "run", "all"])), row_count)
        arrays.append(pa.array(pools[name], kind.arrow).take(pa.array(indices, mask=mask)))
    items = [[row] * (row * 7 % 5) if row % 6 else None for row in range(row_count)]
    arrays += [pa.array(np.arange(row_count)), pa.array(items, pa.list_(pa.int64()))]
    table = pa.table(arrays, [*names, "row", "items"])
    return Table(table, dict(zip(names, chosen, strict=True)), pools)


def in_order(pool: list[Any], kind: Kind) -> list[Any]:
    """Sorted as DuckDB does: NaN is the greatest."""
    array = pa.array(pool, kind.arrow)
    if pa.types.is_fixed_size_binary(kind.arrow):
        array = array.cast(pa.binary())
    if pa.types.is_float16(kind.arrow):  # pyarrow does not sort these
        array = array.cast(pa.float64())
    return [pool[index] for index in pc.sort_indices(array).to_pylist()]


def null_mask(random: Any, nulls: str, count: int) -> Any:
    rows = np.arange(count)
    start = int(random.integers(0, count + 1))
    return {
        "none": rows < 0,
        "some": random.random(count) < 0.3,
        "run": (rows >= start) & (rows < start + 30),
        "all": rows >= 0,
    }[nulls]


@st.composite
def writers(draw: Any, table: Table) -> Callable[[pa.Table], bytes]:
    """Makes files of a table and of its parts."""
    writer = draw(st.sampled_from(["pyarrow", "pyarrow", "pyarrow", "duckdb", "polars"]))
    if writer == "duckdb" and HALF not in table.kinds.values():
        return partial(_by_duckdb, draw(st.sampled_from(["V1", "V2"])))
    if writer == "polars" and not any(pa.types.is_time(kind.arrow) for kind in table.kinds.values()):
        return partial(_by_polars, draw(st.sampled_from([None, 7, 20])), draw(st.sampled_from([None, 1])))
    page_rows = draw(st.sampled_from([1, 3, 10, 1000]))
    options: dict[str, Any] = {
        "row_group_size": draw(st.sampled_from([1, 5, 20, 33, 1000])),
        "max_rows_per_page": page_rows,
        "write_batch_size": page_rows,
        "use_dictionary": draw(st.sampled_from([True, False, ["a"]])),
        "dictionary_pagesize_limit": draw(st.sampled_from([None, 10])),
        "write_page_index": draw(st.sampled_from([True, True, False])),
        "write_statistics": draw(st.sampled_from([True, True, True, False, ["a"], ["row"]])),
        "data_page_version": draw(st.sampled_from(["1.0", "2.0"])),
        "store_decimal_as_integer": draw(st.booleans()),
        "compression": draw(st.sampled_from(["none", "zstd"])),
    }
    if draw(st.booleans()):
        plain = [name for name, kind in table.kinds.items() if kind.name != "bool"]
        options["bloom_filter_options"] = {name: {"ndv": 16, "fpp": 0.05} for name in plain} or None
    if not any("UTC" in kind.name for kind in table.kinds.values()):  # INT96 would forget it
        options["use_deprecated_int96_timestamps"] = draw(st.sampled_from([False, False, True]))
    return partial(_by_pyarrow, options)


def _by_pyarrow(options: dict[str, Any], table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


_duckdb_writer = duckdb.connect(config={"threads": "1"})
_duckdb_writer.execute("SET TimeZone = 'UTC'")


def _by_duckdb(version: str, table: pa.Table) -> bytes:
    """Row groups of 2048 rows at least, and one page a column; but with dictionaries and bloom filters."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t.parquet")
        _duckdb_writer.register("t", table)
        _duckdb_writer.execute(f"COPY (FROM t) TO '{path}' (FORMAT parquet, PARQUET_VERSION {version})")
        return path.read_bytes()


def _by_polars(group: int | None, page: int | None, table: pa.Table) -> bytes:
    sink = io.BytesIO()
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    frame.write_parquet(sink, row_group_size=group, data_page_size=page)
    return sink.getvalue()


# ---- the roads ----


class Roads:
    """The same file, read in several ways."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server = RangeServer()
        self.version = 0
        self.sessions = {
            "local": QueryMode.local(threads=2),
            "http": QueryMode.local(threads=1),
            "little": QueryMode.local(threads=1, memory="16MiB"),
            "folder": QueryMode.local(threads=2),
        }

    def frame(self, road: str, table: pa.Table, write: Callable[[pa.Table], bytes]) -> DataFrame:
        self.version += 1
        if road == "http":
            self.server.data = write(table)
            self.server.etag = f'"{self.version}"'
            return self.sessions[road].table(self.server.url(f"/{self.version}.parquet"))
        folder = self.folder / str(self.version)
        folder.mkdir()
        parts = [table] if road != "folder" else [table.slice(0, 11), table.slice(11, 40), table.slice(51)]
        for number, part in enumerate(parts):
            (folder / f"{number}.parquet").write_bytes(write(part))
        return self.sessions[road].table(folder)

    def end(self) -> None:
        self.server.close()


@pytest.fixture(scope="module")
def roads(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Roads]:
    made = Roads(tmp_path_factory.mktemp("roads"))
    yield made
    made.end()


ROADS = st.sampled_from(["local", "http", "little", "folder"])
#: Examples, and those of long runs.
FEW, MANY = settings(RELAXED, max_examples=100), settings(RELAXED, max_examples=4_000)


def check_skipped(frame: DataFrame, rows: pa.Table) -> None:
    """A row group with a matching row is never among those that were left out."""
    source = frame._node
    while not isinstance(source, Scan):
        source = source.input  # type: ignore[attr-defined]
    assert isinstance(source.source, FileTable)
    ends = np.cumsum([count for count in source.source.cuts.row_counts if count])
    matching = np.unique(np.searchsorted(ends, np.asarray(rows.column("row")), side="right"))
    stats = frame.collect().stats
    assert stats["row_groups_skipped"] <= stats["row_groups"] - len(matching)


def check_filter(roads: Roads, data: Any, table: Table, road: str) -> None:
    frame = roads.frame(road, table.arrow, data.draw(writers(table)))
    for _ in range(2):
        condition = data.draw(conditions(table))
        filtered = frame.filter(condition.expr)
        sql = f"FROM t WHERE {condition.sql} ORDER BY row"
        check(table, filtered, f"SELECT * {sql}", condition.parameters)
        check_skipped(filtered, asked(table, f"SELECT row {sql}", condition.parameters))


@given(data=st.data(), table=laid_out(), road=ROADS)
@settings(FEW, max_examples=150)
def test_filter(roads: Roads, data: Any, table: Table, road: str) -> None:
    check_filter(roads, data, table, road)


@pytest.mark.soak
@given(data=st.data(), table=laid_out(), road=ROADS)
@settings(MANY)
def test_filter_long(roads: Roads, data: Any, table: Table, road: str) -> None:
    check_filter(roads, data, table, road)


@given(data=st.data(), table=laid_out(), road=ROADS)
@settings(FEW)
def test_words(roads: Roads, data: Any, table: Table, road: str) -> None:
    """The 14 operators by their words, alone and in groups."""
    frame = roads.frame(road, table.arrow, data.draw(writers(table)))
    groups = data.draw(st.lists(st.lists(words(table), min_size=1, max_size=3), min_size=1, max_size=2))
    parameters = [value for group in groups for _, _, values in group for value in values]
    sql = " OR ".join("(" + " AND ".join(f"({text})" for _, text, _ in group) + ")" for group in groups)
    chosen = frame.where_or(*[[given for given, _, _ in group] for group in groups])
    check(table, chosen, f"SELECT * FROM t WHERE {sql} ORDER BY row", parameters)
    given, text, values = groups[0][0]
    check(table, frame.filter(*given), f"SELECT * FROM t WHERE {text} ORDER BY row", values)


def check_memory(roads: Roads, data: Any, table: Table, road: str) -> None:
    """Other columns than the filter's, filters after each other, limits and counts, as in memory."""
    memory = QueryMode.from_arrow(table.arrow)
    frame = roads.frame(road, table.arrow, data.draw(writers(table)))
    first, second = data.draw(conditions(table)), data.draw(st.none() | conditions(table))
    columns = st.sampled_from(table.arrow.column_names)
    names = data.draw(st.lists(columns, min_size=1, max_size=2, unique=True))
    limit = data.draw(st.sampled_from([None, 0, 1, 3, 50]))
    answers = []
    for source in (frame, memory):
        chosen = source.filter(first.expr)
        if second is not None:
            chosen = chosen.filter(second.expr)
        count = chosen.count()
        chosen = chosen.select(*names)
        answers.append((count, (chosen if limit is None else chosen.limit(limit)).to_arrow()))
    assert answers[0][0] == answers[1][0]
    assert_same(answers[0][1], answers[1][1])


@given(data=st.data(), table=laid_out(ANY_KIND_OF_OURS), road=ROADS)
@settings(FEW)
def test_same_as_in_memory(roads: Roads, data: Any, table: Table, road: str) -> None:
    check_memory(roads, data, table, road)


@pytest.mark.soak
@given(data=st.data(), table=laid_out(ANY_KIND_OF_OURS), road=ROADS)
@settings(MANY)
def test_same_as_in_memory_long(roads: Roads, data: Any, table: Table, road: str) -> None:
    check_memory(roads, data, table, road)


@given(data=st.data(), kind=ANY_KIND_OF_OURS, road=ROADS)
@settings(FEW)
def test_least_and_greatest(roads: Roads, data: Any, kind: Kind, road: str) -> None:
    """MIN, MAX and COUNT, which footers may know, or know only in part."""
    table = data.draw(laid_out(kinds=st.just(kind)))
    memory = QueryMode.from_arrow(table.arrow)
    frame = roads.frame(road, table.arrow, data.draw(writers(table)))
    calls = [call for name in table.kinds for call in (col(name).min(), col(name).max(), col(name).count())]
    named = [call.alias(f"x{number}") for number, call in enumerate(calls)]
    assert_same(frame.agg(*named).to_arrow(), memory.agg(*named).to_arrow())


# ---- that it prunes at all ----


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.name != "bool"], ids=lambda kind: kind.name)
def test_sorted_files_are_read_in_part(roads: Roads, kind: Kind) -> None:
    """Each type has an order that pruning knows: of 20 row groups, one or two are left by `=`."""
    values = sorted_values(kind)
    table = pa.table({"a": values, "row": range(len(values))})
    frame = roads.frame(
        "local", table, partial(_by_pyarrow, {"row_group_size": 10, "write_page_index": True})
    )
    value = values[105].as_py()
    for words_of in (("a", "eq", value), ("a", "in", [value]), ("a", "between", [value, value])):
        answer = frame.filter(*words_of).collect()
        assert answer.rows == [{"a": value, "row": 105}]
        assert answer.stats["row_groups_skipped"] >= 18, words_of


def sorted_values(kind: Kind) -> Any:
    """200 different values in order."""
    if kind.name in ("int8", "uint8"):
        return pa.array(range(200) if kind.name == "uint8" else range(-100, 100), kind.arrow)
    if kind.family == "text":
        return pa.array([f"text {number:04}" for number in range(200)])
    if kind.family == "bytes":
        return pa.array([number.to_bytes(3, "big") for number in range(200)], kind.arrow)
    if kind.family == "decimal":
        return pa.array([Decimal(number) for number in range(200)], kind.arrow)
    if kind.arrow == pa.date32():
        return pa.array(range(200), pa.int32()).cast(kind.arrow)
    numbers = pa.array([number * 1_000_000 for number in range(200)], pa.int64())
    return numbers.cast(kind.arrow) if kind.family == "temporal" else pa.array(range(200)).cast(kind.arrow)
