"""One thread, two and eight: the same rows, to the last bit of every float.

Lanes are cut from the table alone and their answers put together in their order, so threads may decide when
something is computed, and nothing else. Values have many magnitudes: sums in another order are other sums.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querymode import QueryMode
from tests.sql.tpch import NUMBERS, TABLES, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from querymode.output.result import Result

THREADS = (1, 2, 8)
ROWS = 160_000
ROW_GROUP_SIZE = 20_000

UNORDERED = {
    "sum of all": "SELECT sum(x), avg(x), stddev(x), var_pop(x), sum(x * y), count(*) FROM t",
    "few groups": "SELECT g, sum(x), avg(x), stddev(x), sum(n), min(s), max(y) FROM t GROUP BY g",
    "many groups": "SELECT k, sum(x), avg(y), stddev_pop(x), count(n) FROM t GROUP BY k",
    "more groups than a lane keeps": "SELECT id // 2 AS i, sum(x), avg(y) FROM t GROUP BY i",
    "text groups": "SELECT s, sum(x), count(DISTINCT k) FROM t GROUP BY s",
    "several keys": "SELECT g, s, n, sum(x) FROM t GROUP BY ALL",
    "medians": "SELECT g, median(x), quantile_cont(y, 0.9), count(DISTINCT s) FROM t GROUP BY g",
    "filtered sums": "SELECT g, sum(x) FILTER (WHERE y > 0), sum(x) FROM t WHERE k % 3 <> 1 GROUP BY g",
    "sum of a join": "SELECT u.name, sum(x * w), avg(x) FROM t JOIN u USING (k) GROUP BY u.name",
    "rows of a join": "SELECT id, name, x * w AS xw FROM t JOIN u USING (k) WHERE y > 1",
    "left join": "SELECT g, sum(w), count(u.k), sum(x) FROM t LEFT JOIN u ON t.k = u.k AND w > 0 GROUP BY g",
    "full join": "SELECT name, sum(x) FROM (FROM t WHERE n = 1) t FULL JOIN u USING (k) GROUP BY name",
    "semi join": "SELECT sum(x) FROM t WHERE k IN (SELECT k FROM u WHERE w > 0.5)",
    "anti join": "SELECT g, sum(x) FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k) GROUP BY g",
    "mark join": "SELECT sum(CASE WHEN n IN (SELECT k FROM u WHERE k < 9) THEN x ELSE y END) FROM t",
    "scalar subquery": "SELECT sum(x) FROM t WHERE x > (SELECT avg(x) FROM t)",
    "correlated": "SELECT g, sum(x) FROM t WHERE y > (SELECT avg(y) FROM t i WHERE i.g = t.g) GROUP BY g",
    "distinct": "SELECT DISTINCT k, g FROM t",
    "union all": "SELECT g, sum(x) FROM (SELECT g, x FROM t UNION ALL SELECT k % 7, w FROM u) GROUP BY g",
    "union": "SELECT k FROM t UNION SELECT k + 100 FROM u",
    "except": "SELECT k, n FROM t EXCEPT SELECT k, 1 FROM u",
    "intersect all": "SELECT k FROM t INTERSECT ALL SELECT k FROM u",
    "sums of sums": "SELECT avg(total), stddev(total) FROM (SELECT k, sum(x) AS total FROM t GROUP BY k)",
}
ORDERED = {
    "sort": "SELECT id, x, s FROM t ORDER BY s, x DESC, id",
    "sort of groups": "SELECT k, sum(x) AS total FROM t GROUP BY k ORDER BY total DESC, k",
    "sort with ties": "SELECT s, g FROM t WHERE n = 2 ORDER BY s, g",
    "top k": "SELECT id, y FROM t ORDER BY y DESC NULLS FIRST, id LIMIT 100",
    "deep offset": "SELECT id, y FROM t ORDER BY y, id LIMIT 50 OFFSET 90000",
    "text of a group": "SELECT g, string_agg(s, ',' ORDER BY id) FROM t WHERE id < 999 GROUP BY g ORDER BY g",
    "first and last": "SELECT k, first(x ORDER BY id), last(x ORDER BY id) FROM t GROUP BY k ORDER BY k",
    "limit": "SELECT id, x FROM t WHERE y > 0 LIMIT 500 OFFSET 70000",
}


def tables() -> dict[str, pa.Table]:
    random = np.random.default_rng(5)
    few = np.arange(3000)
    return {
        "t": pa.table(
            {
                "id": np.arange(ROWS),
                "k": pa.array(random.integers(0, 5000, ROWS), pa.int32()),
                "g": pa.array(random.integers(0, 9, ROWS), pa.int8()),
                "n": pa.array(random.integers(0, 5, ROWS), pa.int64(), mask=random.random(ROWS) < 0.1),
                "s": pa.array([f"text {number}" for number in random.integers(0, 300, ROWS)]),
                "x": random.normal(size=ROWS) * 10.0 ** random.integers(-8, 9, ROWS),
                "y": pa.array(random.normal(size=ROWS), mask=random.random(ROWS) < 0.05),
            }
        ),
        "u": pa.table(
            {
                "k": pa.array(np.concatenate([few, few[:500]]), pa.int32()),
                "name": [f"name {number % 40}" for number in range(3500)],
                "w": random.normal(size=3500) * 10.0 ** random.integers(-4, 5, 3500),
            }
        ),
    }


def sessions(sources: Mapping[str, pa.Table | Path]) -> dict[int, QueryMode]:
    made = {}
    for threads in THREADS:
        made[threads] = QueryMode.local(threads=threads)
        for name, source in sources.items():
            made[threads].register(name, source)
    return made


@pytest.fixture(scope="module", params=["memory", "parquet"])
def by_threads(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[int, QueryMode]:
    if request.param == "memory":
        return sessions(tables())
    folder = tmp_path_factory.mktemp("threads")
    paths = {}
    for name, table in tables().items():
        paths[name] = folder / f"{name}.parquet"
        pq.write_table(table, paths[name], row_group_size=ROW_GROUP_SIZE)
    return sessions(paths)


def answers(by_threads: dict[int, QueryMode], sql: str) -> list[Result]:
    return [session.sql(sql).collect() for session in by_threads.values()]


@pytest.mark.parametrize("sql", UNORDERED.values(), ids=UNORDERED.keys())
def test_rows(sql: str, by_threads: dict[int, QueryMode]) -> None:
    one, *more = answers(by_threads, sql)
    assert one.row_count > 0
    for other in more:
        assert other.digest() == one.digest()


@pytest.mark.parametrize("sql", ORDERED.values(), ids=ORDERED.keys())
def test_order(sql: str, by_threads: dict[int, QueryMode]) -> None:
    one, *more = answers(by_threads, sql)
    assert one.row_count > 0
    for other in more:
        assert other.to_arrow().combine_chunks() == one.to_arrow().combine_chunks()


def test_the_digest_sees_a_bit() -> None:
    """What the others rely on: sums in another order do differ, and digests with them."""
    session = QueryMode.local()
    session.register("t", tables()["t"])
    session.register("backwards", session.sql("SELECT x FROM t ORDER BY id DESC").to_arrow())
    there, back = (session.sql(f"SELECT sum(x) AS x FROM {name}").collect() for name in ("t", "backwards"))
    assert np.isclose(there.rows[0]["x"], back.rows[0]["x"])
    assert there.digest() != back.digest()


@pytest.fixture(scope="module")
def tpch(tpch_files: Path) -> dict[int, QueryMode]:
    assert pq.ParquetFile(tpch_files / "lineitem.parquet").metadata.num_row_groups > 16
    return sessions({name: tpch_files / f"{name}.parquet" for name in TABLES})


@pytest.mark.parametrize("number", NUMBERS)
def test_tpch(number: int, tpch: dict[int, QueryMode]) -> None:
    one, *more = answers(tpch, text(number))
    for other in more:
        assert other.digest() == one.digest()
