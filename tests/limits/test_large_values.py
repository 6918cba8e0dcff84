"""Values of a megabyte: as many rows pass together as fit, however often a dictionary repeats them."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querymode import DataFrame, QueryMode, col
from tests.limits.child import PEAK, run
from tests.raises import raises_code
from tests.unit.range_server import RangeServer

MIB = 1 << 20


@pytest.fixture(scope="module", autouse=True)
def cache_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QUERYMODE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


def coded(codes: Any, words: Any) -> Any:
    """What a dictionary makes of a few large values and many rows, without the rows."""
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(words))


# ---- 50 GiB of rows in a file of 600 kB ----

ROWS = 50_000
WORDS = [letter * MIB for letter in "abc"]


@pytest.fixture(scope="module")
def repeated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three values of 1 MiB over 50,000 rows, some of them NULL."""
    path = tmp_path_factory.mktemp("large") / "t.parquet"
    codes = [None if row % 10 == 9 else row % 3 for row in range(ROWS)]
    table = pa.table({"id": range(ROWS), "t": coded(codes, WORDS), "v": np.arange(ROWS) / 7})
    pq.write_table(table, path, compression="zstd", dictionary_pagesize_limit=64 * MIB, store_schema=False)
    assert path.stat().st_size < 2 * MIB
    return path


#: What is asked, and what comes out.
QUESTIONS = {
    "t.count()": 50_000,
    "t.filter('t', 'is_not_null').count()": 45_000,
    "t.filter('t', 'eq', B).count()": 15_000,
    "t.filter('t', 'gt', B).select('id').limit(2).collect().rows": [{"id": 2}, {"id": 5}],
    "t.filter('t', 'eq', B).agg(col('id').sum().alias('s')).collect().rows": [
        {"s": sum(row for row in range(ROWS) if row % 3 == 1 and row % 10 != 9)}
    ],
    "short(t.agg(col('t').min().alias('low'), col('t').max().alias('high')))": [{"low": "a", "high": "c"}],
    "short(t.filter('id', 'lt', 2).agg(col('t').max().alias('high')))": [{"high": "b"}],
    "short(t.limit(3))": [{"id": 0, "t": "a", "v": 0.0}, {"id": 1, "t": "b"}, {"id": 2, "t": "c"}],
    "short(t.filter('id', 'in', [9, 20_000, 49_998]).select('t'))": [{"t": None}, {"t": "c"}, {"t": "a"}],
    "short(t.filter(col('t') >= 'c').select('t').limit(40))": [{"t": "c"}] * 40,
    "sum(batch.num_rows for batch in t.select('t').limit(1500).stream(100))": 1500,
}

SCRIPT = """
import json
from querymode import QueryMode, col
from querymode.errors import QueryModeError

session = QueryMode.local(memory="256MiB", threads=2)
t = session.table(PATH)
B = "b" * (1 << 20)

def short(frame):
    rows = frame.collect().rows
    for row in rows:
        for name, value in row.items():
            if isinstance(value, str):
                assert len(value) == 1 << 20 and value == value[0] * len(value)
                row[name] = value[0]
    return rows

session.table(PATH).filter("id", "eq", 1).collect()  # what the process takes anyway
peak = Peak()
answers = {question: eval(question) for question in QUESTIONS}
try:
    t.select("t").collect()
    code = None
except QueryModeError as failure:
    code = failure.code
print(json.dumps({"answers": answers, "code": code, "excess": peak.peak - peak.baseline - (256 << 20)}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_values_of_a_megabyte_within_a_small_budget(repeated: Path) -> None:
    script = SCRIPT.replace("PATH", repr(str(repeated))).replace("QUESTIONS", repr(list(QUESTIONS)))
    found = run(PEAK + script, timeout=120)
    for question, wanted in QUESTIONS.items():
        answer = found["answers"][question]
        if isinstance(wanted, list):
            answer = [{name: row[name] for name in want} for row, want in zip(answer, wanted, strict=True)]
        assert answer == wanted, question
    assert found["code"] == "MEMORY_EXCEEDED"
    print(f"beyond the budget {found['excess'] / 1e6:.0f} MB")
    assert found["excess"] < 150_000_000


# ---- the same answers by every road, as DuckDB's ----


def words(random: Any, sizes: list[int]) -> list[str]:
    return ["".join(random.choice(list("abcdefgh"), 8)) * (size // 8) for size in sizes]


def tables() -> dict[str, tuple[pa.Table, dict[str, Any]]]:
    random = np.random.default_rng(5)
    count = 20_000
    rows = {"id": np.arange(count), "v": random.random(count) * 10.0 ** random.integers(-9, 9, count)}
    skewed = words(random, [2 * MIB, 70_000, *[16] * 500])
    runs = np.repeat(random.integers(2, 502, count // 100), 100)
    runs[3_000:3_040] = 0
    runs[9_000:10_100] = 1
    some = random.random(count) < 0.2
    fewer = {name: values[:6_000] for name, values in rows.items()}
    even = coded(random.integers(0, 12, 6_000), words(random, [40_000] * 12))
    longer = coded(random.integers(0, 2, 6_000), words(random, [8, 70_000]))
    plain = pa.array(words(random, [8, 300_000, 16, 16]) * 75)
    late = pa.array([*skewed[1:3] * 2_000, *[f"{number} {'x' * 2_000}" for number in range(2_000)]])
    page = {"write_page_index": True, "max_rows_per_page": 3_000, "dictionary_pagesize_limit": 64 * MIB}
    lists = pa.ListArray.from_arrays(
        pa.array(np.arange(0, 3 * 4_000 + 1, 3), pa.int32()),
        coded(random.integers(0, 3, 12_000), skewed[1:4]),
    )
    return {
        "one long entry among short ones": (pa.table({**rows, "t": coded(runs, skewed)}), {}),
        "the same with NULLs": (
            pa.table({**rows, "t": coded(pa.array(runs, mask=some), skewed)}),
            {"data_page_version": "2.0", **page},
        ),
        "many of 40 kB": (pa.table({**fewer, "t": even}), page),
        "two such columns": (pa.table({**fewer, "t": even, "u": longer}), page),
        "plain": (pa.table({"id": range(300), "v": rows["v"][:300], "t": plain}), {"use_dictionary": False}),
        "a dictionary that is given up": (
            pa.table({**fewer, "t": late}),
            {"write_page_index": True, "max_rows_per_page": 700, "write_batch_size": 700},
        ),
        "lists": (pa.table({"id": range(4_000), "v": rows["v"][:4_000], "t": lists}), page),
    }


TABLES = tables()


class Roads:
    """A file by several ways, whose cuts must not differ."""

    def __init__(self, path: Path, data: bytes) -> None:
        path.write_bytes(data)
        self.server = RangeServer(data)
        self.frames: dict[str, DataFrame] = {
            "local": QueryMode.local(threads=1).table(path),
            "little": QueryMode.local(threads=2, memory="192MiB").table(path),
            "http": QueryMode.local(threads=1).table(self.server.url("/t.parquet")),
        }


@pytest.fixture(params=TABLES)
def roads(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Roads, pa.Table]]:
    table, options = TABLES[request.param]
    sink = io.BytesIO()
    pq.write_table(table, sink, store_schema=False, **options)
    made = Roads(tmp_path / "t.parquet", sink.getvalue())
    yield made, pq.read_table(io.BytesIO(sink.getvalue()))
    made.server.close()


def asked(frame: DataFrame, is_text: bool) -> dict[str, Any]:
    """Sums are floats, whose last bits tell how rows were cut."""
    total = [col("v").sum().alias("s"), col("t").count().alias("n")]
    if "u" in frame.columns:
        total.append(col("u").count().alias("u"))
    some = frame.filter(col("id") % 5 != 0)
    few = frame.filter((col("id") % 97 == 0) | (col("id") < 30))
    answers = {
        "all": frame.agg(*total).collect().rows,
        "most": some.agg(*total).collect().rows,
        "few": few.sort("id").agg(*total).collect().rows,
        "streamed": sum(batch.num_rows for batch in frame.select("t", "id").stream(1_000)),
    }
    if is_text:
        mean = frame.filter("id", "eq", 7).collect().rows[0]["t"]
        answers |= {
            "by it": frame.filter("t", "lte", mean).agg(*total).collect().rows,
            "by two": frame.filter((col("t") <= mean) | (col("id") > 3_000)).agg(*total).collect().rows,
            "extremes": some.agg(col("t").min().alias("a"), col("t").max().alias("b")).collect().rows,
            "with others": some.agg(col("t").min().alias("a"), col("v").sum().alias("s")).collect().rows,
        }
    return answers


def test_every_road_gives_the_same(roads: tuple[Roads, pa.Table]) -> None:
    made, table = roads
    is_text = table.schema.field("t").type == pa.string()
    answers = {road: asked(frame, is_text) for road, frame in made.frames.items()}
    assert answers["little"] == answers["local"]
    assert answers["http"] == answers["local"]
    (mean,) = table.column("t").slice(7, 1).to_pylist()
    connection = duckdb.connect()
    connection.register("rows", table)
    for name, sql in {
        "all": "TRUE",
        "most": "id % 5 <> 0",
        "few": "id % 97 = 0 OR id < 30",
        "by it": "t <= $1",
        "by two": "t <= $1 OR id > 3000",
    }.items():
        if name not in answers["local"]:
            continue
        given = [mean] if "$1" in sql else []
        query = f"SELECT fsum(v), count(t) FROM rows WHERE {sql}"
        (wanted,) = connection.execute(query, given).fetchall()
        (row,) = answers["local"][name]
        assert (row["s"], row["n"]) == (pytest.approx(wanted[0], rel=1e-9), wanted[1]), name
    assert answers["local"]["streamed"] == table.num_rows
    if is_text:
        query = "SELECT min(t) AS a, max(t) AS b FROM rows WHERE id % 5 <> 0"
        (wanted,) = connection.execute(query).fetchall()
        (row,) = answers["local"]["extremes"]
        assert (row["a"], row["b"]) == wanted


def test_a_value_larger_than_the_budget_is_refused(tmp_path: Path) -> None:
    table = pa.table({"id": range(3), "t": coded([0, 0, 0], ["x" * (40 * MIB)])})
    pq.write_table(table, tmp_path / "t.parquet", compression="zstd", store_schema=False)
    frame = QueryMode.local(memory="48MiB", threads=1).table(tmp_path / "t.parquet")
    with raises_code("MEMORY_EXCEEDED"):
        frame.collect()
    assert frame.filter("id", "gt", 1).select("id").collect().rows == [{"id": 2}]


@pytest.mark.parametrize("codec", ["snappy", "gzip", "lz4", "zstd"])
def test_a_page_of_nothing_but_zeros(tmp_path: Path, codec: Any) -> None:
    """What compresses best is no reason to distrust a page: 80 MiB may come in a hundred bytes."""
    table = pa.table({"b": pa.array([bytes(80 * MIB)])})
    pq.write_table(
        table, tmp_path / "t.parquet", compression=codec, use_dictionary=False, write_statistics=False
    )
    frame = QueryMode.local(threads=1).table(tmp_path / "t.parquet")
    assert frame.collect().rows[0]["b"] == bytes(80 * MIB)
