"""Guesses of rows and values: near the truth where footers say something, sane where they do not.

What is tested is what the order of joins needs: that a filter makes a table smaller by about as much as it
does, that a key's table joins to as many rows as refer to it, and that nothing known is no reason to fail.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querymode import Expr, QueryMode, col, lit
from querymode.frame.frame import DataFrame
from querymode.optimize import estimate
from querymode.optimize.estimate import Estimator

ROWS = 10_000
FIRST_DAY = dt.date(2020, 1, 1)


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    facts = pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "k": pa.array([row % 100 for row in range(ROWS)], pa.int32()),
            "x": pa.array([row / ROWS for row in range(ROWS)], pa.float64()),
            "m": pa.array([Decimal(row % 1000) / 10 for row in range(ROWS)], pa.decimal128(9, 1)),
            "d": pa.array([FIRST_DAY + dt.timedelta(row % 365) for row in range(ROWS)], pa.date32()),
            "t": pa.array(
                [dt.datetime(2020, 1, 1) + dt.timedelta(hours=row) for row in range(ROWS)], pa.timestamp("us")
            ),
            "s": [f"text {row % 7}" for row in range(ROWS)],
            "same": pa.array([5] * ROWS, pa.int16()),
            "none": pa.nulls(ROWS, pa.int32()),
        }
    )
    keys = pa.table({"key": pa.array(range(100), pa.int32()), "name": [f"name {row}" for row in range(100)]})
    return {"facts": facts, "keys": keys}


@pytest.fixture(scope="module")
def files(tables: dict[str, pa.Table], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("estimate")
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=3000)
    pq.write_table(tables["facts"], folder / "bare.parquet", write_statistics=False)
    return folder


@pytest.fixture(scope="module")
def facts(files: Path) -> DataFrame:
    return QueryMode.local(root=files).table("facts.parquet")


@pytest.fixture(scope="module")
def keys(files: Path) -> DataFrame:
    return QueryMode.local(root=files).table("keys.parquet")


def rows(frame: DataFrame) -> float:
    return Estimator().of(frame._node).rows


# ---- tables ----


def test_footers_say_bounds_and_whole_numbers_say_values(facts: DataFrame) -> None:
    found = Estimator().of(facts._node)
    assert found.rows == ROWS
    assert found.bounds["k"] == (0, 99) and found.distinct["k"] == 100
    assert found.bounds["x"] == pytest.approx((0, 0.9999))
    assert found.bounds["m"] == pytest.approx((0, 99.9))
    assert found.distinct["d"] == 365 and found.distinct["same"] == 1
    assert found.distinct["id"] == ROWS
    for unknown in ("s", "none"):
        assert unknown not in found.bounds and unknown not in found.distinct


def test_without_statistics_only_rows_are_known(files: Path, tables: dict[str, pa.Table]) -> None:
    for frame in (QueryMode.local(root=files).table("bare.parquet"), QueryMode.from_arrow(tables["facts"])):
        found = Estimator().of(frame._node)
        assert (found.rows, found.bounds, found.distinct) == (ROWS, {}, {})
        assert found.values_of(col("k")) == min(ROWS, estimate.DISTINCT_UNKNOWN)
        assert 1 <= rows(frame.filter(col("k") < 5)) < ROWS
        assert 1 <= rows(frame.filter(col("k") == 5)) < rows(frame.filter(col("k") < 5))


def test_an_empty_table_counts_as_one_row() -> None:
    empty = QueryMode.from_arrow(pa.table({"a": pa.array([], pa.int32())}))
    assert rows(empty) == 1
    assert rows(empty.filter(col("a") > 1).group_by("a").count()) == 1


def test_renamed_columns_keep_what_is_known(files: Path) -> None:
    frame = QueryMode.local(root=files).sql("SELECT k AS other, k + 1 AS more FROM 'facts.parquet'")
    found = Estimator().of(frame._node)
    assert found.bounds == {"other": (0, 99)} and found.distinct == {"other": 100}


def test_renamed_columns_of_a_frame_keep_what_is_known(facts: DataFrame) -> None:
    assert Estimator().of(facts.select(col("k").alias("other"))._node).distinct == {"other": 100}


# ---- conditions ----


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        (col("k") == 7, 100),
        (lit(7) == col("k"), 100),
        (col("k") != 7, 9900),
        (col("k") < 25, 2500),
        (lit(25) > col("k"), 2500),
        (col("k") >= 25, 7500),
        (lit(25) <= col("k"), 7500),
        (col("k").between(10, 19), 1000),
        (col("k").is_in([1, 2, 3]), 300),
        (col("x") > 0.9, 1000),
        (col("m") < Decimal("10.0"), 1000),
        (col("d") < dt.date(2020, 2, 6), 1000),
        (col("t") < dt.datetime(2020, 1, 1) + dt.timedelta(hours=5000), 5000),
        ((col("k") < 50) & (col("x") < 0.5), 2500),
        ((col("k") < 50) | (col("x") < 0.5), 7500),
        (~(col("k") < 25), 7500),
        (col("k") > 1000, 1),
        (col("k") < 1000, ROWS),
        (col("same") == 5, ROWS),
    ],
    ids=str,
)
def test_what_a_filter_keeps(facts: DataFrame, condition: Expr, wanted: float) -> None:
    assert rows(facts.filter(condition)) == pytest.approx(wanted, rel=0.1, abs=2)


@pytest.mark.parametrize(
    "condition",
    [
        col("s") == "text 3",
        col("s") > "text 3",
        col("s").like("%3"),
        col("s").is_null(),
        col("none") == 1,
        col("none") < 1,
        col("k") * 2 < col("id"),
        col("k").is_in([]),
        col("k").is_in(list(range(1000))),
        col("x") > float("nan"),
        col("x") < float("inf"),
        col("k") < 10**30,
        col("x") < 10**30,
        col("d") < dt.date.max,
        col("t") > dt.datetime.min,
        lit(True),
        lit(None),
    ],
    ids=str,
)
def test_odd_conditions_keep_some_part(facts: DataFrame, condition: Expr) -> None:
    assert 1 <= rows(facts.filter(condition)) <= ROWS


def test_many_terms_leave_at_least_a_row(facts: DataFrame) -> None:
    frame = facts
    for number in range(12):
        frame = frame.filter(col("s") == f"text {number}").filter(col("k") == number)
    assert rows(frame) == 1


def test_numbers_of_values() -> None:
    assert estimate.as_number(dt.date(1970, 1, 2)) == estimate.DAY
    naive, zoned = dt.datetime(2020, 1, 1, 12), dt.datetime(2020, 1, 1, 12, tzinfo=dt.UTC)
    assert estimate.as_number(naive) == estimate.as_number(zoned) == zoned.timestamp()
    assert estimate.as_number(Decimal("1.5")) == 1.5
    for nothing in (None, True, "text", b"bytes", dt.time(1), [1]):
        assert estimate.as_number(nothing) is None


# ---- steps ----


def test_groups_are_no_more_than_their_keys_or_rows(facts: DataFrame) -> None:
    assert rows(facts.group_by("k").count()) == 100
    assert rows(facts.group_by("same").count()) == 1
    assert rows(facts.group_by("k", "same").count()) == 100
    assert rows(facts.group_by("k", "d", "s").count()) <= ROWS
    assert rows(facts.filter(col("id") < 50).group_by("k").count()) == pytest.approx(50, rel=0.1)
    assert rows(facts.agg(col("x").sum().alias("s"))) == 1


def test_limits_sorts_and_unions(facts: DataFrame) -> None:
    assert rows(facts.limit(10)) == 10
    assert rows(facts.limit(10 * ROWS)) == ROWS
    assert rows(facts.sort("x")) == ROWS
    assert rows(facts.union(facts)) == 2 * ROWS
    limited = Estimator().of(facts.limit(10)._node)
    assert limited.distinct["id"] == 10


def test_a_node_is_estimated_once(facts: DataFrame) -> None:
    estimator = Estimator()
    assert estimator.of(facts._node) is estimator.of(facts._node)


# ---- joins ----


def join(left: DataFrame, right: DataFrame, how: str) -> DataFrame:
    return left.join(right, left_on="k", right_on="key", how=how)


def test_references_find_their_key(facts: DataFrame, keys: DataFrame) -> None:
    assert rows(join(facts, keys, "inner")) == pytest.approx(ROWS)
    assert rows(join(facts, keys.filter(col("key") < 10), "inner")) == pytest.approx(ROWS / 10, rel=0.2)
    assert rows(join(facts, keys.filter(col("key") < 10), "left")) == ROWS


def test_semi_and_anti_joins_share_the_rows(facts: DataFrame, keys: DataFrame) -> None:
    some = keys.filter(col("key") < 10)
    kept, left_out = rows(join(facts, some, "semi")), rows(join(facts, some, "anti"))
    assert kept == pytest.approx(ROWS / 10, rel=0.2)
    assert left_out == pytest.approx(ROWS * 9 / 10, rel=0.2)
    assert rows(join(facts, keys, "semi")) == ROWS
    assert 1 <= rows(join(facts, keys, "anti")) < ROWS


def test_a_join_without_statistics_is_not_a_product(tables: dict[str, pa.Table]) -> None:
    left, right = (QueryMode.from_arrow(tables[name]) for name in ("facts", "keys"))
    assert rows(join(left, right, "inner")) <= ROWS
    assert rows(join(left, right, "left")) == ROWS
