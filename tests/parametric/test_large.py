"""Every operator over a million rows or more, once, against DuckDB.

Answers are compared as Arrow tables in one total order, or where they are large by counts and sums that a
single other row would change. Sizes are such that tables, runs and partitions outgrow what small tests see.
"""

from __future__ import annotations

import functools

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from querymode import QueryMode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

ROWS = 1_500_000
BUILD_ROWS = 300_000


def texts(word: str, count: int) -> Any:
    return pa.array([f"{word}{number}" for number in range(count)])


def large() -> pa.Table:
    random = np.random.default_rng(11)
    return pa.table(
        {
            "id": pa.array(np.arange(ROWS)),
            "k": pa.array(random.integers(0, 500_000, ROWS), mask=random.random(ROWS) < 0.02),
            "g": pa.array(random.integers(0, 12, ROWS), pa.int8(), mask=random.random(ROWS) < 0.1),
            "s": texts("text number ", 1000).take(random.integers(0, 1000, ROWS)),
            "u": texts("u", 700_000).take(random.integers(0, 700_000, ROWS)),
            "v": pa.array(random.integers(-(10**6), 10**6, ROWS)),
            "x": pa.array(np.round(random.normal(size=ROWS) * 1000, 2), mask=random.random(ROWS) < 0.05),
            "d": pa.array(random.integers(0, 20_000, ROWS), pa.int32()).cast(pa.date32()),
        }
    )


def small() -> pa.Table:
    random = np.random.default_rng(12)
    keys = np.concatenate([random.permutation(400_000)[: BUILD_ROWS - 1000], random.integers(0, 50, 1000)])
    return pa.table(
        {
            "k": pa.array(keys, mask=random.random(BUILD_ROWS) < 0.01),
            "u": texts("u", 400_000).take(keys),
            "w": pa.array(random.integers(0, 1000, BUILD_ROWS)),
        }
    )


#: Few rows, or rows that are summed up: compared as they are, after a sort by all columns.
QUERIES = {
    "filter": "SELECT * FROM t WHERE v BETWEEN 1000 AND 3000 AND s LIKE '%number 9%' AND x > 0",
    "filter that keeps most": "SELECT count(*), sum(v), sum(id) FROM t WHERE g <> 3 OR x IS NULL",
    "project": """SELECT sum(a), sum(b), sum(length(c)), min(c), max(c), count(e) FROM (
        SELECT v * 2 + id AS a, coalesce(k, -1) AS b, upper(s) || u AS c, CASE WHEN v > 0 THEN x END AS e
        FROM t)""",
    "group by a small integer": "SELECT g, count(*), sum(v), min(u), max(d), avg(v) FROM t GROUP BY g",
    "group by few texts": "SELECT s, count(*), sum(v), min(id), count(x) FROM t GROUP BY s",
    "group by many integers": """SELECT count(*), sum(n), sum(total), max(n), sum(k) FROM (
        SELECT k, count(*) AS n, sum(v) AS total FROM t GROUP BY k)""",
    "group by many texts": """SELECT count(*), sum(n), sum(total), max(n), min(u), max(u) FROM (
        SELECT u, count(*) AS n, sum(v) AS total FROM t GROUP BY u)""",
    "group by long texts and a number": """SELECT count(*), sum(n), sum(total), max(n), min(u), max(u) FROM (
        SELECT g, 'a prefix of some length, ' || u AS u, count(*) AS n, sum(v) AS total
        FROM t GROUP BY 1, 2)""",
    "group by everything": """SELECT count(*), sum(n), max(u), sum(v), max(x) FROM (
        SELECT k, g, s, u, v, x, d, count(*) AS n FROM t GROUP BY ALL)""",
    "a group a row": "SELECT count(*), sum(n), sum(id) FROM (SELECT id, count(x) AS n FROM t GROUP BY id)",
    "group by several keys": """SELECT count(*), sum(n), sum(total) FROM (
        SELECT g, s, d, count(*) AS n, sum(v) AS total FROM t GROUP BY g, s, d)""",
    "distinct": "SELECT count(*), sum(g), sum(k) FROM (SELECT DISTINCT g, k FROM t)",
    "count distinct": "SELECT g, count(DISTINCT k), count(DISTINCT u), count(DISTINCT s) FROM t GROUP BY g",
    "medians": """SELECT g, median(x), quantile_cont(v, 0.9), quantile_disc(id, 0.25), median(d)
        FROM t GROUP BY g""",
    "medians of many groups": """SELECT sum(m), count(*) FROM (
        SELECT k, quantile_disc(v, 0.5) AS m FROM t GROUP BY k)""",
    "inner join": "SELECT count(*), sum(t.v), sum(s.w), sum(t.id) FROM t JOIN s ON t.k = s.k",
    "inner join by text": "SELECT count(*), sum(t.v), sum(s.w) FROM t JOIN s ON t.u = s.u",
    "join with a residual": "SELECT count(*), sum(id), sum(w) FROM t JOIN s ON t.k = s.k AND v % 1000 > w",
    "left join": "SELECT count(*), count(w), sum(w), sum(t.id) FROM t LEFT JOIN s ON t.k = s.k AND w > 500",
    "right join": "SELECT count(*), count(t.id), sum(w), sum(t.id) FROM t RIGHT JOIN s ON t.u = s.u",
    "full join": """SELECT count(*), count(t.id), count(s.w), sum(s.w), sum(t.id)
        FROM t FULL JOIN s ON t.k = s.k""",
    "semi join": "SELECT count(*), sum(id) FROM t WHERE k IN (SELECT k FROM s WHERE w < 300)",
    "anti join": "SELECT count(*), sum(id) FROM t WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.k = t.k)",
    "not in": "SELECT count(*), sum(id) FROM t WHERE v NOT IN (SELECT k FROM s WHERE k IS NOT NULL)",
    "mark join": "SELECT m, sum(id) FROM (SELECT id, k IN (SELECT k FROM s) AS m FROM t) GROUP BY m",
    "scalar subquery": "SELECT count(*), sum((SELECT max(w) FROM s WHERE s.u = t.u)) FROM t",
    "join with itself": "SELECT count(*), sum(a.v + b.v) FROM t a JOIN t b ON a.id = b.id + 1",
    "cross join": "SELECT count(*), sum(v * n) FROM t CROSS JOIN (VALUES (1), (2), (-5), (100)) c(n)",
    "union": "SELECT count(*), sum(k) FROM (SELECT k FROM t UNION SELECT w FROM s)",
    "intersect": "SELECT count(*), sum(k) FROM (SELECT k, g FROM t INTERSECT SELECT k, 3 FROM s)",
    "except": "SELECT count(*), min(u), max(u) FROM (SELECT u FROM t EXCEPT SELECT u FROM s)",
    "except all": "SELECT count(*), sum(k) FROM (SELECT k FROM t EXCEPT ALL SELECT k FROM s)",
    "top k": "SELECT id, x, s FROM t ORDER BY x DESC NULLS LAST, id LIMIT 1000",
    "top k by text": "SELECT u, id FROM t ORDER BY u, id DESC LIMIT 100",
    "deep offset": "SELECT id, v FROM t ORDER BY v, id LIMIT 20 OFFSET 1200000",
    "deep offset without an order": "SELECT count(*) FROM (SELECT id FROM t LIMIT 10000000 OFFSET 1499990)",
}
#: Rows of a lane that leave it in parts, by the hash of their keys.
EXCHANGES = {
    name: sql
    for name, sql in QUERIES.items()
    if name.split()[0] in ("group", "a", "distinct", "count", "medians", "intersect", "except")
}
#: Sorted in full: the order itself is compared.
SORTS = {
    "one key": "SELECT v, id FROM t ORDER BY v, id",
    "keys with NULLs": "SELECT g, k, id FROM t ORDER BY g DESC NULLS FIRST, k NULLS LAST, id DESC",
    "texts and floats": "SELECT s, x, id FROM t ORDER BY s DESC, x NULLS FIRST, id",
}


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    return {"t": large(), "s": small()}


@pytest.fixture(scope="module")
def session(tables: dict[str, pa.Table]) -> QueryMode:
    qm = QueryMode.local(threads=2)
    for name, table in tables.items():
        qm.register(name, table)
    return qm


@pytest.fixture(scope="module")
def file_session(tables: dict[str, pa.Table], tmp_path_factory: pytest.TempPathFactory) -> QueryMode:
    """Row groups so large that a scan hands over much before it ends."""
    qm = QueryMode.local(threads=2)
    folder = tmp_path_factory.mktemp("large")
    for name, table in tables.items():
        path = folder / f"{name}.parquet"
        pq.write_table(table, path, row_group_size=ROWS // 3)
        qm.register(name, qm.table(str(path)))
    return qm


@pytest.fixture(scope="module")
def oracle(tables: dict[str, pa.Table]) -> Any:
    connection = duckdb.connect()
    connection.execute("SET threads = 2")
    for name, table in tables.items():
        connection.register(f"arrow_{name}", table)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM arrow_{name}")
    return connection


@pytest.fixture(scope="module")
def expected(oracle: Any) -> Callable[[str], pa.Table]:
    return functools.cache(lambda sql: oracle.sql(sql).to_arrow_table())


def plain(table: pa.Table, names: list[str]) -> pa.Table:
    """In types that both have: sums are HUGEINT there and int128 here, both decimals of 38 digits."""
    columns = [column.combine_chunks() for column in table.columns]
    return pa.table([pc.cast(c, pa.float64()) if pa.types.is_floating(c.type) else c for c in columns], names)


def assert_same(ours: pa.Table, theirs: pa.Table) -> None:
    assert ours.num_rows == theirs.num_rows and ours.num_columns == theirs.num_columns
    names = [f"c{place}" for place in range(ours.num_columns)]
    left, right = plain(ours, names), plain(theirs, names)
    for name in names:
        a, b = left.column(name), right.column(name)
        if pa.types.is_floating(b.type) and a.type == b.type:
            assert a.null_count == b.null_count
            assert np.allclose(a.to_numpy(), b.to_numpy(), rtol=1e-9, equal_nan=True), name
        else:
            assert a.to_pylist() == b.to_pylist() if ours.num_rows < 5000 else a.cast(b.type) == b, name


def in_order(table: pa.Table) -> pa.Table:
    named = table.rename_columns([f"c{place}" for place in range(table.num_columns)])
    return named.sort_by([(name, "ascending") for name in named.column_names])


@pytest.mark.parametrize("sql", QUERIES.values(), ids=QUERIES.keys())
def test_rows(sql: str, session: QueryMode, expected: Callable[[str], pa.Table]) -> None:
    assert_same(in_order(session.sql(sql).to_arrow()), in_order(expected(sql)))


@pytest.mark.parametrize("sql", EXCHANGES.values(), ids=EXCHANGES.keys())
def test_rows_of_files(sql: str, file_session: QueryMode, expected: Callable[[str], pa.Table]) -> None:
    assert_same(in_order(file_session.sql(sql).to_arrow()), in_order(expected(sql)))


def test_parts_that_fill_one_by_one(tmp_path: Path) -> None:
    """A part that is full leaves in the middle of a scan, and still says which one it is."""
    random = np.random.default_rng(5)
    count = 500_000
    numbers = np.where(random.random(count) < 0.2, 0, (random.random(count) ** 2 * 200_000).astype(int))
    path = tmp_path / "visits.parquet"
    pages = pa.array([f"http://example{n % 30}.com/path/{n}" if n else "" for n in range(200_000)])
    pq.write_table(pa.table({"page": pages.take(numbers)}), path, row_group_size=count // 2)
    qm = QueryMode.local(threads=2)
    for key in ("1", "1::SMALLINT", "'a'", "length(page)"):
        counted = qm.sql(f"SELECT count(*) FROM (SELECT {key}, page FROM '{path}' GROUP BY 1, 2)").to_arrow()
        assert counted.column(0).to_pylist() == [len(np.unique(numbers))], key


@pytest.mark.parametrize("sql", SORTS.values(), ids=SORTS.keys())
def test_sort(sql: str, session: QueryMode, expected: Callable[[str], pa.Table]) -> None:
    assert_same(session.sql(sql).to_arrow(), expected(sql))
