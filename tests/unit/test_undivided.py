"""Groups that left their lanes undivided are dealt out to partitions where they are many altogether."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from querymode import QueryMode
from querymode.execute import stage_run as stage

ROWS = 400_000
QUERY = "SELECT k, t, count(*) AS n, sum(v) AS s, avg(v) AS a FROM data GROUP BY k, t"


@pytest.mark.parametrize("most", [0, 1 << 30])
@pytest.mark.parametrize("keys", [50, 5_000, 60_000])
def test_answers_are_the_same_either_way(monkeypatch: pytest.MonkeyPatch, most: int, keys: int) -> None:
    monkeypatch.setattr(stage, "GATHER_ROWS_MAX", 0)
    monkeypatch.setattr(stage, "UNDIVIDED_ROWS_MAX", most)
    numbers = [row * 7919 % keys for row in range(ROWS)]
    data = pa.table(
        {
            "k": numbers,
            "t": [None if number % 11 == 0 else f"text {number % 3}" for number in numbers],
            "v": [row % 1000 for row in range(ROWS)],
            "wide": ["x" * 40] * ROWS,  # enough bytes for several lanes
        }
    )
    session = QueryMode.local(threads=2)
    session.register("data", data)
    ours = session.sql(f"{QUERY} ORDER BY k, t").to_arrow().to_pylist()
    connection = duckdb.connect()
    connection.register("data", data)
    columns = list(ours[0])
    theirs = connection.sql(f"{QUERY} ORDER BY k, t").fetchall()
    assert [tuple(row[name] for name in columns) for row in ours] == theirs
