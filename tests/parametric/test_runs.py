"""Filters on dictionary columns, whose codes lie in runs: judged run by run they come out as row by row.

Runs of every length, longer than a page and than the 16,384 rows that pass together too, between codes at
random; NULLs in runs and scattered. DuckDB answers over the table in memory. The same rows without a
dictionary, where nothing is known by codes, must give the very same answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querymode import DataFrame, QueryMode, col
from tests.parametric.test_queries import RELAXED
from tests.unit.range_server import RangeServer


@pytest.fixture(scope="module", autouse=True)
def cache_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QUERYMODE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


LENGTHS = st.sampled_from([1, 3, 8, 30, 63, 64, 71, 80, 200, 1_000, 9_000, 16_384, 40_000])


@st.composite
def runs(draw: Any, row_count: int, value_count: int) -> Any:
    """Codes of rows: pieces that are runs, many runs of about one length, or without any."""
    random = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    pieces = []
    left = row_count
    while left > 0:
        count = min(left, draw(LENGTHS) * draw(st.integers(1, 4)))
        kind = draw(st.sampled_from(["run", "run", "runs", "random"]))
        if kind == "run":
            piece = np.full(count, random.integers(0, value_count))
        elif kind == "runs":
            length = int(random.integers(2, 150))
            piece = np.repeat(random.integers(0, value_count, count // length + 1), length)[:count]
        else:
            piece = random.integers(0, value_count, count)
        pieces.append(piece)
        left -= count
    return np.concatenate(pieces)


@st.composite
def tables(draw: Any) -> pa.Table:
    row_count = draw(st.sampled_from([1, 100, 5_000, 16_384, 20_000, 50_001]))
    columns: dict[str, Any] = {}
    for name, values in (
        ("t", [f"text {number}" for number in range(40)]),
        ("n", [number * 10 for number in range(300)]),
    ):
        value_count = draw(st.sampled_from([1, 2, 17, len(values)]))
        codes = draw(runs(row_count, min(value_count, len(values))))
        nulls = draw(st.sampled_from(["none", "none", "runs", "some", "all"]))
        mask: Any = None
        if nulls == "runs":
            mask = draw(runs(row_count, 3)) == 0
        elif nulls == "some":
            mask = np.random.default_rng(draw(st.integers(0, 1 << 32))).random(row_count) < 0.1
        elif nulls == "all":
            mask = np.ones(row_count, bool)
        columns[name] = pa.array(values).take(pa.array(codes, mask=mask))
    columns["row"] = pa.array(np.arange(row_count))
    columns["v"] = pa.array(np.random.default_rng(1).random(row_count))
    return pa.table(columns)


OPTIONS = st.fixed_dictionaries(
    {
        "data_page_version": st.sampled_from(["1.0", "2.0"]),
        "max_rows_per_page": st.sampled_from([500, 3_000, 20_000]),
        "write_batch_size": st.sampled_from([100, 1_000]),
        "compression": st.sampled_from(["none", "zstd"]),
        "row_group_size": st.sampled_from([30_000, 1 << 20]),
        "dictionary_pagesize_limit": st.sampled_from([None, None, 200]),
        "write_page_index": st.booleans(),
        "write_statistics": st.booleans(),
    }
)

#: A condition and its SQL; of both columns, of one alone, of NULLs, and some that no code decides.
CONDITIONS = {
    "t = 'text 1'": col("t") == "text 1",
    "t > 'text 15'": col("t") > "text 15",
    "t IS NULL": col("t").is_null(),
    "t IS NULL OR t = 'text 0'": col("t").is_null() | (col("t") == "text 0"),
    "t <> 'text 0'": col("t") != "text 0",
    "t LIKE '%9'": col("t").like("%9"),
    "n < 50": col("n") < 50,
    "n >= 20 AND t <> 'text 3'": (col("n") >= 20) & (col("t") != "text 3"),
    "n IS NOT NULL AND t IS NOT NULL": col("n").is_not_null() & col("t").is_not_null(),
    "n < 100 AND row % 3 <> 0": (col("n") < 100) & (col("row") % 3 != 0),
    "n = row AND t = 'text 0'": (col("n") == col("row")) & (col("t") == "text 0"),
    "t = 'nowhere'": col("t") == "nowhere",
}


class Roads:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server = RangeServer()
        self.number = 0
        self.session = QueryMode.local(threads=1)
        self.oracle = duckdb.connect(config={"threads": "1"})

    def frames(self, table: pa.Table, options: dict[str, Any]) -> dict[str, DataFrame]:
        """The table with dictionaries, here and on another machine, and without."""
        self.number += 1
        path, plain = (self.folder / f"{name}{self.number}.parquet" for name in ("coded", "plain"))
        coded: Any = ["t", "n"]
        pq.write_table(table, path, use_dictionary=coded, **options)
        pq.write_table(table, plain, use_dictionary=False, **options)
        self.server.data = path.read_bytes()
        self.server.etag = f'"{self.number}"'
        return {
            "coded": self.session.table(path),
            "http": self.session.table(self.server.url(f"/{self.number}.parquet")),
            "plain": self.session.table(plain),
        }


@pytest.fixture(scope="module")
def roads(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Roads]:
    made = Roads(tmp_path_factory.mktemp("runs"))
    yield made
    made.server.close()


def answers(frame: DataFrame) -> tuple[Any, ...]:
    """Counted, with columns that were not filtered by, with those that were, and their extremes alone."""
    sums = frame.agg(col("row").sum().alias("s"), col("v").sum().alias("f"), col("row").count().alias("c"))
    return (
        frame.count(),
        sums.collect().rows,
        frame.select("row", "t", "n").to_arrow(),
        frame.agg(col("t").min().alias("a"), col("t").max().alias("b")).collect().rows,
    )


def check(roads: Roads, table: pa.Table, options: dict[str, Any], sqls: list[str]) -> None:
    frames = roads.frames(table, options)
    roads.oracle.register("rows", table)
    for sql in sqls:
        wanted = roads.oracle.sql(f"SELECT row, t, n FROM rows WHERE {sql} ORDER BY row").to_arrow_table()
        found = {road: answers(frame.filter(CONDITIONS[sql])) for road, frame in frames.items()}
        count, sums, rows, extremes = found["coded"]
        assert count == wanted.num_rows == sums[0]["c"], sql
        assert rows.cast(wanted.schema) == wanted, sql
        least, greatest = roads.oracle.execute(f"SELECT min(t), max(t) FROM rows WHERE {sql}").fetchall()[0]
        assert extremes == [{"a": least, "b": greatest}], sql
        assert found["http"] == found["coded"], sql
        assert found["plain"][2] == rows and found["plain"][3] == extremes, sql
    roads.oracle.unregister("rows")


FEW = settings(RELAXED, max_examples=40)


@given(
    table=tables(), options=OPTIONS, sqls=st.lists(st.sampled_from(list(CONDITIONS)), min_size=2, max_size=4)
)
@settings(FEW)
def test_runs(roads: Roads, table: pa.Table, options: dict[str, Any], sqls: list[str]) -> None:
    check(roads, table, options, sqls)


@pytest.mark.soak
@given(
    table=tables(), options=OPTIONS, sqls=st.lists(st.sampled_from(list(CONDITIONS)), min_size=2, max_size=4)
)
@settings(RELAXED, max_examples=1_500)
def test_runs_long(roads: Roads, table: pa.Table, options: dict[str, Any], sqls: list[str]) -> None:
    check(roads, table, options, sqls)


def test_a_table_of_one_run(roads: Roads) -> None:
    """Pages and cuts end inside of it; not one code of it is written."""
    count = 100_000
    table = pa.table({"t": ["text 1"] * count, "n": [10] * count, "row": range(count), "v": [0.5] * count})
    for version in ("1.0", "2.0"):
        options = {"data_page_version": version, "max_rows_per_page": 30_000, "write_statistics": False}
        check(
            roads, table, options, ["t = 'text 1'", "t <> 'text 0'", "n < 50", "t = 'nowhere'", "t IS NULL"]
        )
