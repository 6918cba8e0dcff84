"""The first rows of an order, where pieces of tables are left out by their bounds: DuckDB's keys, and the
rows that our own sort of everything has first, whatever order the table is in and however many workers look.
"""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querymode import DataFrame, QueryMode, col
from querymode.execute.top_bound import TopBound
from querymode.stage.stage import TopKey
from querymode.table.zone import Zone
from querymode.types import INT64

ROWS = 120_000
BLOCK = ROWS // 8


def _numbers() -> dict[str, Any]:
    """Keys in several orders, with ties across pieces, with NULLs and NaN in some pieces or all."""
    random = np.random.default_rng(11)
    up = np.arange(ROWS)
    down = up[::-1].copy()
    block = up // BLOCK
    floats = up.astype(np.float64) - ROWS / 2
    with_nan = floats.copy()
    with_nan[(block == 3) | (up % 50_021 == 0)] = np.nan
    zeros = np.where(up % 2 == 0, 0.0, -0.0)
    return {
        "up": up,
        "down": down,
        "shuffled": random.permutation(ROWS),
        "ties": up // 50_000,
        "ties_down": down // 50_000,
        "same": np.zeros(ROWS, dtype=np.int32),
        "holes": pa.array(down, mask=(block == 2) | (up % 70_001 == 5)),
        "block_of_nulls": pa.array(up, mask=block == 5),
        "mostly_null": pa.array(up, mask=up % 60_000 != 7),
        "nothing": pa.array([None] * ROWS, pa.int64()),
        "float": floats,
        "nan": with_nan,
        "nan_and_null": pa.array(with_nan[::-1].copy(), mask=up % 1000 == 3, from_pandas=False),
        "zeros": zeros,
        "float32": down.astype(np.float32),
        "unsigned": (down.astype(np.uint64) << 40) + np.uint64(1 << 63),
        "small": (block - 4).astype(np.int8),
    }


def _others() -> dict[str, Any]:
    up = np.arange(ROWS)
    down = up[::-1].copy()
    texts = pa.array([f"k{value:07d}" for value in range(ROWS)])
    long = pa.array(["x" * 300 + str(value // 40_000) for value in range(ROWS)])
    return {
        "text": texts.take(pa.array(down, pa.int64())),
        "long_text": long,
        "text_null": pa.array([None if value % 90_001 == 1 else f"{value % 7}é" for value in range(ROWS)]),
        "day": pa.array(down % 40_000, pa.int32()).cast(pa.date32()),
        "moment": pa.array(down * 1_000_003, pa.timestamp("ns")),
        "zoned": pa.array(up * 1_000_003 - 10**11, pa.timestamp("us", "UTC")),
        "clock": pa.array(down * 1000, pa.time64("us")),
        "narrow": pa.array(up, pa.int64()).cast(pa.decimal128(19, 0)).cast(pa.decimal128(12, 2), safe=False),
        "wide": pa.array([decimal.Decimal(int(value)) * 10**20 for value in down], pa.decimal128(38, 0)),
        "flag": pa.array(up > ROWS - 10),
        "bytes": pa.array([int(value).to_bytes(4, "big") for value in down], pa.binary()),
    }


@pytest.fixture(scope="module", params=["numbers", "others"])
def table(request: pytest.FixtureRequest) -> pa.Table:
    columns = _numbers() if request.param == "numbers" else _others()
    return pa.table({"row": np.arange(ROWS), **columns})


ORDERS = [(False, False), (False, True), (True, False), (True, True)]


def _order(descending: bool, nulls_first: bool) -> str:
    return f"{'desc' if descending else 'asc'} nulls {'first' if nulls_first else 'last'}"


def _check(sessions: list[QueryMode], reference: duckdb.DuckDBPyConnection, keys: list[str]) -> None:
    for key in keys:
        for descending, nulls_first in ORDERS:
            order = _order(descending, nulls_first)
            everything = sessions[0].sql(f"select row, {key} from t order by {key} {order}").to_arrow()
            for count, offset in ((10, 0), (100, 57)):
                text = f"select row, {key} from t order by {key} {order} limit {count} offset {offset}"
                expected = everything.slice(offset, count)
                theirs = reference.sql(text).to_arrow_table().column(key)
                assert _alike(theirs, expected.column(key)), (text, "not DuckDB's keys")
                for session in sessions:
                    for _ in range(2):  # the second time more is known of the pieces
                        ours = session.sql(text).to_arrow()
                        assert ours["row"].equals(expected["row"]), text
            # Another key decides among equal ones, the other way round.
            text = f"select row from t order by {key} {order}, row desc limit 25"
            theirs = reference.sql(text).to_arrow_table()["row"].to_pylist()
            assert all(session.sql(text).to_arrow()["row"].to_pylist() == theirs for session in sessions), (
                text
            )


def _alike(theirs: pa.ChunkedArray[Any], ours: pa.ChunkedArray[Any]) -> bool:
    """NaN is NaN."""
    pairs = zip(theirs.to_pylist(), ours.to_pylist(), strict=True)
    return all(one == other or (one != one and other != other) for one, other in pairs)


def test_tables_in_memory(table: pa.Table) -> None:
    reference = duckdb.connect()
    for start in range(1, table.num_columns, 3):
        part = table.select([0, *range(start, min(start + 3, table.num_columns))])
        keys = part.column_names[1:]
        for place in range(4):  # wide rows are cut into more morsels
            part = part.append_column(f"padding{place}", part["row"])
        sessions = [QueryMode.local(threads=threads) for threads in (1, 2, 8)]
        sessions.append(QueryMode.local(threads=2, memory="48MiB"))  # nothing is kept
        for session in sessions:
            frame = session.register("t", part)
            assert frame.agg(col("row").sum()).collect().stats["lanes"] > 5
        reference.register("t", part)
        _check(sessions, reference, keys)


@pytest.mark.parametrize("options", [{}, {"write_statistics": False}, {"write_page_index": True}])
def test_files(table: pa.Table, tmp_path: Path, options: dict[str, Any]) -> None:
    path = str(tmp_path / "t.parquet")
    pq.write_table(table, path, row_group_size=ROWS // 16, **options)
    reference = duckdb.connect()
    reference.register("t", table)
    sessions = [QueryMode.local(threads=threads) for threads in (1, 8)]
    for session in sessions:
        session.register("t", path)
    _check(sessions, reference, table.column_names[1:] if not options else table.column_names[1::3])


def test_many_row_groups_share_a_lane(tmp_path: Path) -> None:
    """More row groups than lanes: of a lane some are left out."""
    values = np.arange(60_000)
    path = str(tmp_path / "t.parquet")
    pq.write_table(pa.table({"up": values, "down": values[::-1].copy()}), path, row_group_size=100)
    for threads in (1, 2):
        frame = QueryMode.local(threads=threads).table(path)
        for key, expected in (("up", values[::-1]), ("down", values)):
            result = frame.sort(key, descending=True).limit(250).select("up").collect()
            wanted = expected[:250] if key == "up" else values[:250]
            assert [row["up"] for row in result.rows] == wanted.tolist()
            assert result.stats["row_groups_skipped"] > 500


# ---- pieces that are not looked at ----


def _adverse() -> pa.Table:
    up = np.arange(1_000_000)
    return pa.table({"up": up, "down": up[::-1].copy(), "v": up % 7})


QUERIES = [
    ("select up, v from t order by up desc limit 100", 2),
    ("select down, v from t order by down limit 100", 2),
    ("select up + 1 as x, up as y from t where v <> 3 order by y desc limit 100", 2),
    ("select up from t where up % 20000 = 0 order by up desc limit 10", 12),
    ("select * from (select up as a from t union all select down from t) order by a desc limit 50", 6),
]


@pytest.mark.parametrize(("text", "lanes_run_max"), QUERIES)
@pytest.mark.parametrize("threads", [1, 2])
def test_adverse_order_pushes_few_pieces(text: str, lanes_run_max: int, threads: int) -> None:
    table = _adverse()
    session = QueryMode.local(threads=threads)
    session.register("t", table)
    reference = duckdb.connect()
    reference.register("t", table)
    first, second = session.sql(text).collect(), session.sql(text).collect()
    assert [tuple(row.values()) for row in second.rows] == reference.sql(text).fetchall()
    assert first.rows == second.rows
    run = second.stats["lanes"] - second.stats["lanes_skipped"]
    assert second.stats["lanes"] > 10
    assert run <= lanes_run_max + 2 * threads  # which worker begins is chance


@pytest.mark.parametrize("text", [text for text, _ in QUERIES[:3]])
def test_adverse_order_reads_few_row_groups(text: str, tmp_path: Path) -> None:
    path = str(tmp_path / "t.parquet")
    pq.write_table(_adverse(), path, row_group_size=20_000)
    session = QueryMode.local(threads=2)
    session.register("t", path)
    found = session.sql(text).collect()
    assert found.stats["row_groups"] == 50
    assert found.stats["row_groups_skipped"] >= 46
    plan = session.sql(text).explain()
    assert "at most" in plan
    assert "left out 4" in session.sql(text).explain(analyze=True)
    reference = duckdb.connect()
    reference.sql(f"create view t as from '{path}'")
    assert [tuple(row.values()) for row in found.rows] == reference.sql(text).fetchall()


def test_steps_that_look_at_rows_together_see_all_of_them() -> None:
    """Behind a limit, an aggregate or another order, rows depend on pieces that the order leaves out."""
    table = _adverse()
    reference = duckdb.connect()
    reference.register("t", table)
    session = QueryMode.local(threads=2)
    session.register("t", table)
    small = table.slice(500_000, 100)
    session.register("s", small)
    reference.register("s", small)
    for text in (
        "select * from (select up from t order by down limit 100) order by up limit 3",
        "select * from (select up from t limit 100 offset 70000) order by up desc limit 3",
        "select * from (select v, max(up) as m from t group by v) order by m limit 3",
        "select * from (select max(up) as up from s union all select up from t) order by up desc limit 3",
        "select * from (from (select up from s limit 5) union all select up from t) order by up limit 3",
        "select t.up, s.v from t join s on t.v = s.v order by t.up desc, s.up limit 20",
        "select t.up, s.up as other from t left join s on t.up = s.up order by t.up desc limit 20",
        "select s.up, t.up as other from t join s on t.down = s.up order by s.up desc, other limit 20",
    ):
        expected = reference.sql(text).fetchall()
        for _ in range(2):
            assert [tuple(row.values()) for row in session.sql(text).collect().rows] == expected, text


def test_a_table_of_rows() -> None:
    """Without Arrow."""
    frame: DataFrame = QueryMode.from_json(
        [{"n": value, "d": datetime.date(2020, 1, 1) if value else None} for value in range(10)]
    )
    assert [row["n"] for row in frame.sort("n", descending=True).limit(2).collect().rows] == [9, 8]


# ---- the comparison itself ----


def test_what_lies_behind() -> None:
    """Ties stay; NULLs go where the order says; nothing is left out of what is not known."""
    unknown = Zone(None, None, True, True)
    nulls = Zone(None, None, True, False)
    for descending, nulls_first in ORDERS:
        bound = TopBound(TopKey(1, 0, INT64, descending, nulls_first))
        assert not bound.rules_out(bound.best(Zone(1, 2, False, True)))  # no bound yet
        bound.rank = bound._rank(5)
        assert not bound.rules_out(bound.best(Zone(5, 5, False, True)))
        assert bound.rules_out(bound.best(Zone(6, 9, False, True))) == (not descending)
        assert bound.rules_out(bound.best(Zone(1, 4, False, True))) == descending
        assert not bound.rules_out(bound.best(Zone(1, 9, False, True)))
        assert not bound.rules_out(None)
        assert not bound.rules_out(bound.best(unknown))
        assert bound.rules_out(bound.best(nulls)) == (not nulls_first)
        worse = Zone(1, 4, True, True) if descending else Zone(6, 9, True, True)
        assert bound.rules_out(bound.best(worse)) == (not nulls_first)
        bound.rank = bound._rank(None)
        assert not bound.rules_out(bound.best(nulls))
        assert bound.rules_out(bound.best(Zone(5, 5, False, True))) == nulls_first
