"""Sorted runs that all workers merge, each a range of keys: rows come as from one merge, in DuckDB's order.

Every table has a column that numbers its rows, so that the order of equal keys shows. The oracle sorts by the
keys and then by that number.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querymode import QueryMode
from querymode.execute import ranges
from querymode.execute import stage_run as stage

if TYPE_CHECKING:
    from pathlib import Path

#: More than a megabyte of two columns: what is smaller has one worker.
ROWS = 150_000


class Found:
    """The ranges that queries were merged in."""

    def __init__(self) -> None:
        self.counts: list[int] = []


@pytest.fixture(autouse=True)
def found(monkeypatch: pytest.MonkeyPatch) -> Iterator[Found]:
    """Few rows are many here, and a run is several batches."""
    found = Found()
    find = ranges.find_ranges

    def noted(*arguments: Any) -> list[ranges.Range]:
        answer = find(*arguments)
        found.counts.append(len(answer))
        return answer

    monkeypatch.setattr(ranges, "find_ranges", noted)
    monkeypatch.setattr(ranges, "MERGED_ROWS_MIN", 1000)
    monkeypatch.setattr(stage, "OUTPUT_SIZE_MIN", 1 << 12)
    monkeypatch.setattr(ranges, "RUN_BATCH_SIZE", 1 << 12)
    yield found


def columns() -> dict[str, Any]:
    random = np.random.default_rng(3)
    numbers = random.permutation(ROWS)
    some = random.integers(0, 500, ROWS)
    holes = random.random(ROWS) < 0.1
    floats = random.standard_normal(ROWS)
    floats[random.random(ROWS) < 0.2] = np.nan
    texts = pa.array([f"{number * 2_654_435_761 % 2**32}-{number}" for number in numbers.tolist()])
    days = [datetime.date(2000, 1, 1) + datetime.timedelta(int(day)) for day in some]
    return {
        "i": numbers,
        "few": some % 3,
        "ties": pa.array(some, mask=holes),
        "same": np.zeros(ROWS, np.int64),
        "up": np.arange(ROWS),
        "down": np.arange(ROWS)[::-1].copy(),
        "mostly_null": pa.array(numbers, mask=numbers % 100 != 0),
        "nothing": pa.array([None] * ROWS, pa.int64()),
        "skewed": np.where(random.random(ROWS) < 0.9, 7, numbers),
        "f": pa.array(floats, mask=holes, from_pandas=False),
        "f32": floats.astype(np.float32),
        "zeros": np.where(some % 2 == 0, 0.0, -0.0),
        "u64": numbers.astype(np.uint64) + np.uint64(2**63),
        "i8": pa.array((some % 256 - 128).astype(np.int8), mask=holes),
        "b": pa.array(some % 2 == 0, mask=holes),
        "t": texts,
        "long": pa.array([f"https://example.com/catalogue/items/{text}" for text in texts.to_pylist()]),
        "short": pa.array(["", "a", "a\0", "ab", None, "é", "z" * 40] * ROWS)[:ROWS],
        "bytes": pa.array([bytes([n % 256, 0, n % 7]) for n in numbers.tolist()], pa.binary(), mask=holes),
        "fixed": pa.array([(n % 9999).to_bytes(3, "big") for n in numbers.tolist()], pa.binary(3)),
        "dec": pa.array([decimal.Decimal(n) / 100 for n in some.tolist()], pa.decimal128(9, 2), mask=holes),
        "wide": pa.array(
            [decimal.Decimal(n - 75_000) * 10**25 for n in numbers.tolist()], pa.decimal128(38, 2)
        ),
        "day": pa.array(days, mask=holes),
        "time": pa.array(some * 1_000_000, pa.time64("us")),
        "us": pa.array(numbers * 10**11, pa.timestamp("us")),
        "ns": pa.array(numbers * 10**9 + 1, pa.timestamp("ns")),
        "r": np.arange(ROWS),
    }


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return pa.table(columns())


def session_of(table: pa.Table, **arguments: Any) -> QueryMode:
    session = QueryMode.local(**{"memory": "1GiB", "threads": 2, **arguments})
    session.register("t", table)
    return session


def duck(table: pa.Table, text: str) -> pa.Table:
    with duckdb.connect() as connection:
        connection.register("t", table)
        answer: pa.Table = connection.sql(text).to_arrow_table()
        return answer


def numbers_of(table: pa.Table) -> list[Any]:
    return list(table.column("r").to_numpy().tolist())


ORDERS = ["", "desc", "nulls first", "desc nulls last"]


@pytest.mark.parametrize("key", [name for name in columns() if name != "r"])
def test_every_type(table: pa.Table, found: Found, key: str) -> None:
    session = session_of(table)
    for order in ORDERS:
        ours = session.sql(f"select {key}, r from t order by {key} {order}").to_arrow()
        theirs = duck(table, f"select r from t order by {key} {order}, r")
        assert numbers_of(ours) == numbers_of(theirs), order
        assert ours.column(key).combine_chunks().equals(
            table.column(key).combine_chunks().take(ours.column("r").combine_chunks())
        ) or key in ("f", "f32")  # NaN equals nothing
    one = key in ("same", "nothing", "zeros", "few", "b")
    # A query that was given too little memory at first has run twice.
    assert len(found.counts) >= len(ORDERS) and all(count > 1 or one for count in found.counts)


@pytest.mark.parametrize(
    "order",
    [
        "few, t",
        "few desc, f nulls first",
        "same, nothing, long desc",
        "b nulls first, ties desc nulls last, day",
        "skewed, short desc",
        "i8, u64 desc",
        "wide desc, i",
    ],
)
def test_several_keys(table: pa.Table, found: Found, order: str) -> None:
    ours = session_of(table).sql(f"select * from t order by {order}").to_arrow()
    assert numbers_of(ours) == numbers_of(duck(table, f"select r from t order by {order}, r"))
    assert max(found.counts) > 1


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_threads_change_nothing(table: pa.Table, found: Found, threads: int) -> None:
    session = session_of(table, threads=threads)
    for order in ("ties desc", "short, few"):
        query = session.sql(f"select * from t order by {order}")
        expected = duck(table, f"select r from t order by {order}, r")
        assert numbers_of(query.to_arrow()) == numbers_of(expected)
        assert query.collect().digest() == session.sql("select * from t").collect().digest()
    assert (max(found.counts, default=0) > 1) == (threads > 1)


def test_streams_and_rows(table: pa.Table, found: Found) -> None:
    session = session_of(table)
    expected = numbers_of(duck(table, "select r from t order by ties desc, r"))
    query = session.sql("select r, t from t order by ties desc")
    assert [number for batch in query.stream(999) for number in batch.column("r").to_pylist()] == expected
    assert [row["r"] for row in query.collect().rows] == expected
    assert len(found.counts) == 2 and min(found.counts) > 1


def test_steps_behind_the_merge(table: pa.Table, found: Found) -> None:
    """What looks at every row alone runs over ranges, everything else over one merge."""
    session = session_of(table)
    expected = duck(table, "select i * 2 as x, upper(t) as u, r from t order by long desc, r")
    ours = session.sql("select i * 2 as x, upper(t) as u, r from t order by long desc").to_arrow()
    assert ours.equals(expected.cast(ours.schema))
    assert found.counts and found.counts[0] > 1
    found.counts.clear()
    limited = session.sql("select r from t order by ties offset 100").to_arrow()
    assert numbers_of(limited) == numbers_of(duck(table, "select r from t order by ties, r offset 100"))
    expression = session.sql("select r from t order by -i").to_arrow()
    assert numbers_of(expression) == numbers_of(duck(table, "select r from t order by -i"))
    text = "select count(*) as n, sum(r) as s from (select r from t order by i offset 5)"
    assert session.sql(text).collect().rows == duck(table, text).to_pylist()


def test_explain_counts_every_row_once(table: pa.Table, found: Found) -> None:
    text = session_of(table).sql("select r, t from t order by t").explain(analyze=True)
    assert max(found.counts) > 1
    numbers = [int(number.replace(",", "")) for number in re.findall(r"([\d,]+) rows", text)]
    assert numbers and set(numbers) == {ROWS}


def test_stages_behind_a_sort(table: pa.Table, found: Found) -> None:
    """The merged rows are the input of a function over batches, in order."""
    frame = session_of(table).sql("select r, ties from t order by ties desc")
    answer = frame.map_batches(lambda batch: batch).collect()
    assert [row["r"] for row in answer.rows] == numbers_of(
        duck(table, "select r from t order by ties desc, r")
    )
    assert max(found.counts) > 1


def test_files(table: pa.Table, found: Found, tmp_path: Path) -> None:
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=ROWS // 9)
    session = QueryMode.local(memory="2GiB", threads=2)
    frame = session.table(tmp_path / "t.parquet").sort("ties", "t", descending=True)
    expected = duck(table, "select r from t order by ties desc nulls last, t desc, r")
    assert numbers_of(frame.to_arrow()) == numbers_of(expected)
    assert max(found.counts) > 1


@pytest.mark.parametrize("memory", [40, 64, 128, 256])
def test_small_memory(found: Found, memory: int) -> None:
    """Runs of several batches; where memory is short it is one merge in the end, or said to be too little."""
    count = 600_000
    random = np.random.default_rng(5)
    table = pa.table({"k": random.integers(0, count, count), "r": np.arange(count)})
    session = session_of(table, memory=f"{memory}MiB", threads=4)
    ours = session.sql("select k, r from t order by k").to_arrow()
    assert numbers_of(ours) == numbers_of(duck(table, "select r from t order by k, r"))
    assert memory < 128 or max(found.counts) > 1


def test_few_rows_are_merged_at_once(table: pa.Table, found: Found, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "MERGED_ROWS_MIN", ROWS + 1)
    ours = session_of(table).sql("select r from t order by t").to_arrow()
    assert numbers_of(ours) == numbers_of(duck(table, "select r from t order by t"))
    assert found.counts == []
