"""Joins with builds beyond the cache, whose columns move while they are probed: DuckDB's rows."""

from __future__ import annotations

import duckdb
import numpy
import pyarrow
import pytest

from querymode import QueryMode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Columns are prepared in builds of 65,536 rows and more.
BUILD_ROWS, PROBE_ROWS = 70_000, 500_000

KEYS = {
    "every value of a range, in any order": lambda random: random.permutation(BUILD_ROWS) - 9,
    "half of a range": lambda random: random.permutation(2 * BUILD_ROWS)[:BUILD_ROWS],
    "a tenth of a range": lambda random: random.permutation(10 * BUILD_ROWS)[:BUILD_ROWS],
    "a tenth of a range, rising": lambda random: numpy.sort(random.permutation(10 * BUILD_ROWS)[:BUILD_ROWS]),
    "far apart": lambda random: random.permutation(BUILD_ROWS) * 1_000_003,
    "some of them twice": lambda random: random.permutation(BUILD_ROWS) // 2 * 3,
}
COLUMNS = "narrow, wide, small, maybe, f, text, id"
QUERIES = {
    "inner": f"SELECT row, {COLUMNS} FROM p JOIN b ON p.key = b.id",
    "inner, no columns of the build": "SELECT row FROM p JOIN b ON p.key = b.id",
    "left": f"SELECT row, {COLUMNS} FROM p LEFT JOIN b ON p.key = b.id",
    "residual": "SELECT row, wide, narrow FROM p JOIN b ON p.key = b.id AND p.v < b.narrow",
    "left, residual": "SELECT row, wide, maybe FROM p LEFT JOIN b ON p.key = b.id AND p.v < b.narrow",
    "semi": "SELECT row FROM p WHERE EXISTS (SELECT * FROM b WHERE b.id = p.key AND b.narrow > p.v)",
    "two of the same": "SELECT row, x.f, y.text FROM p JOIN b x ON p.key = x.id JOIN b y ON p.other = y.id",
}


def tables(keys: Any) -> dict[str, pyarrow.Table]:
    random = numpy.random.default_rng(11)
    some = numpy.concatenate([keys, keys.max() + 1 + numpy.arange(len(keys) // 5)])
    nulls = random.integers(0, 20, BUILD_ROWS) == 0
    build = {
        "id": pyarrow.array(keys, mask=numpy.arange(BUILD_ROWS) % 997 == 5),
        "narrow": random.integers(-500, 500, BUILD_ROWS),
        "wide": random.integers(-(1 << 62), 1 << 62, BUILD_ROWS),
        "small": random.integers(0, 200, BUILD_ROWS).astype(numpy.int16),
        "maybe": pyarrow.array(random.integers(0, 9, BUILD_ROWS), mask=nulls),
        "f": random.standard_normal(BUILD_ROWS),
        "text": pyarrow.array(numpy.char.mod("text %d", random.integers(0, BUILD_ROWS, BUILD_ROWS))),
    }
    probe = {
        "row": numpy.arange(PROBE_ROWS),
        "key": pyarrow.array(random.choice(some, PROBE_ROWS), mask=random.integers(0, 50, PROBE_ROWS) == 0),
        "other": random.choice(some, PROBE_ROWS),
        "v": random.integers(-500, 500, PROBE_ROWS),
    }
    return {"b": pyarrow.table(build), "p": pyarrow.table(probe)}


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_rows_are_duckdbs(keys: Any) -> None:
    given = tables(keys(numpy.random.default_rng(3)))
    with duckdb.connect(config={"threads": 2}) as connection:
        session = QueryMode.local(threads=2)
        for name, table in given.items():
            session.register(name, table)
            connection.register(name, table)
        for name, text in QUERIES.items():
            sql = f"{text} ORDER BY ALL"
            ours = session.sql(sql).to_arrow()
            assert ours.equals(connection.sql(sql).to_arrow_table().cast(ours.schema)), name
