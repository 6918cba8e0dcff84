"""Joins, set operations and membership: rows as DuckDB has them, columns as Polars names them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from querymode import DataFrame, Expr, QueryMode, col, lit
from tests.raises import raises_code

NAN = float("nan")
LEFT = pa.table(
    {
        "k": pa.array([1, 2, 2, None, 3, None, 7], pa.int64()),
        "x": pa.array([10, 20, 21, 30, 40, 50, 60], pa.int32()),
        "v": ["a", "b", None, "d", "e", "f", "b"],
        "f": [0.0, NAN, 1.5, None, NAN, -0.0, 2.0],
    }
)
RIGHT = pa.table(
    {
        "k": pa.array([2, 2, None, 4, 1, 7, 7], pa.int32()),
        "y": pa.array([20, 60, 60, None, 10, 5, 5], pa.int64()),
        "v": ["b", "z", "d", "e", None, "b", "q"],
        "g": [NAN, 0.0, None, 1.5, 3.0, 2.0, 2.0],
    }
)
ORACLE = duckdb.connect()
ORACLE.register("l", LEFT)
ORACLE.register("r", RIGHT)
#: As Any, so that type checkers let mistakes through.
L: Any = QueryMode.from_arrow(LEFT)
R: Any = QueryMode.from_arrow(RIGHT)


def bag(rows: list[Any]) -> Counter[Any]:
    """Rows in any order; NaN equals NaN."""
    return Counter(
        tuple("NaN" if isinstance(value, float) and value != value else value for value in row)
        for row in rows
    )


def rows(frame: DataFrame) -> Counter[Any]:
    return bag([tuple(row.values()) for row in frame.rows])


def expected(sql: str) -> Counter[Any]:
    return bag(ORACLE.sql(sql).fetchall())


SQL_JOINS = {"inner": "JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL JOIN"}


@pytest.mark.parametrize("how", SQL_JOINS)
@pytest.mark.parametrize(
    ("ours", "theirs"), [("k", "k"), ("x", "y"), ("v", "v"), ("f", "g"), (["k", "v"], ["k", "v"])]
)
def test_joins_have_duckdbs_rows(how: str, ours: Any, theirs: Any) -> None:
    keys = list(zip(ours, theirs, strict=True)) if isinstance(ours, list) else [(ours, theirs)]
    condition = " AND ".join(f"l.{a} = r.{b}" for a, b in keys)
    sql = f"SELECT l.*, r.* FROM l {SQL_JOINS[how]} r ON {condition}"
    frame = L.join(R, left_on=ours, right_on=theirs, how=how, coalesce=False)
    assert frame.columns == ["k", "x", "v", "f", "k_right", "y", "v_right", "g"]
    assert rows(frame) == expected(sql)


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@pytest.mark.parametrize("coalesce", [None, True, False])
@pytest.mark.parametrize(
    "keys", [{"on": "k"}, {"left_on": "x", "right_on": "y"}, {"left_on": "v", "right_on": "k"}]
)
def test_joins_have_polars_columns_and_rows(how: Any, coalesce: bool | None, keys: dict[str, Any]) -> None:
    left = LEFT.set_column(1, "x", LEFT["x"].cast(pa.int64()))
    right = RIGHT.set_column(0, "k", RIGHT["k"].cast(pa.int64()))
    if keys.get("right_on") == "k":
        left = left.set_column(2, "v", left["x"])
    frame = QueryMode.from_arrow(left).join(QueryMode.from_arrow(right), how=how, coalesce=coalesce, **keys)
    wanted = pl.DataFrame(left).join(pl.DataFrame(right), how=how, coalesce=coalesce, **keys)
    assert frame.columns == wanted.columns
    assert rows(frame) == bag(wanted.rows())


def test_a_cross_join_has_every_pair() -> None:
    frame = L.join(R, how="cross")
    assert frame.columns == pl.DataFrame(LEFT).join(pl.DataFrame(RIGHT), how="cross").columns
    assert rows(frame) == expected("SELECT l.*, r.* FROM l, r")


def test_nulls_may_be_equal() -> None:
    frame = L.join(R, on="k", nulls_equal=True, coalesce=False)
    assert rows(frame) == expected("SELECT l.*, r.* FROM l JOIN r ON l.k IS NOT DISTINCT FROM r.k")
    assert L.join(R, on="k", how="anti", nulls_equal=True).rows == [
        {"k": 3, "x": 40, "v": "e", "f": pytest.approx(NAN, nan_ok=True)}
    ]


@pytest.mark.parametrize("how", [*SQL_JOINS, "semi", "anti"])
def test_conditions_beside_keys_and_alone(how: str) -> None:
    shown = "l.*" if how in ("semi", "anti") else "l.*, r.*"
    word = SQL_JOINS.get(how, f"{how.upper()} JOIN")
    for keys, where, sql in (
        ({"on": "k"}, col("x") < col("y"), "l.k = r.k AND l.x < r.y"),
        ({}, col("x") < col("y"), "l.x < r.y"),
        ({}, col("v") == col("v_right"), "l.v = r.v"),
        ({"on": "k"}, (col("v_right") == "b") & (col("x") > 20), "l.k = r.k AND r.v = 'b' AND l.x > 20"),
    ):
        frame = L.join(R, how=how, where=where, coalesce=False, **keys)
        assert rows(frame) == expected(f"SELECT {shown} FROM l {word} r ON {sql}"), (how, sql)


def test_keys_may_be_computed() -> None:
    frame = L.join(R, left_on=col("x") // 10, right_on=col("y") // 10)
    assert frame.columns == ["k", "x", "v", "f", "k_right", "y", "v_right", "g"]
    assert rows(frame) == expected("SELECT l.*, r.* FROM l JOIN r ON l.x // 10 = r.y // 10")


def test_a_frame_joins_itself() -> None:
    frame = L.filter(col("k") > 1)
    joined = frame.join(frame, on="k", suffix="_2")
    assert joined.columns == ["k", "x", "v", "f", "x_2", "v_2", "f_2"]
    wanted = "SELECT a.*, b.* EXCLUDE k FROM l a JOIN l b ON a.k = b.k WHERE a.k > 1"
    assert rows(joined) == expected(wanted)


def test_marks_and_singles() -> None:
    marked = L.join(R.select("y"), left_on="x", right_on="y", how="mark", mark="known")
    assert rows(marked) == expected("SELECT *, x IN (SELECT y FROM r) FROM l")
    single = L.join(R.filter("k", "eq", 4), on="k", how="single")
    assert rows(single.select("k", "y")) == expected("SELECT k, NULL FROM l")
    with raises_code("QUERY_FAILED", match="more than one row"):
        L.join(R, on="k", how="single").collect()


# ---- set operations ----

SETS = {"union": "UNION", "intersect": "INTERSECT", "except_": "EXCEPT"}
A = "SELECT k, v FROM l UNION ALL SELECT k, v FROM l WHERE k IS NULL OR k = 2"
B = "SELECT k, v FROM r UNION ALL SELECT NULL, 'd' UNION ALL SELECT 2, NULL UNION ALL SELECT 2, NULL"


@pytest.mark.parametrize("method", SETS)
@pytest.mark.parametrize("keep_all", [False, True])
def test_set_operations(method: str, keep_all: bool) -> None:
    left = L.select("k", "v")
    left = left.union_all(left.filter(col("k").is_null() | (col("k") == 2)))
    extra = pa.table({"k": pa.array([None, 2, 2], pa.int32()), "other": ["d", None, None]})
    right = R.select("k", "v").union_all(QueryMode.from_arrow(extra))
    frame = getattr(left, method)(right, all=keep_all)
    assert frame.columns == ["k", "v"]
    assert rows(frame) == expected(f"({A}) {SETS[method]}{' ALL' if keep_all else ''} ({B})")


def test_set_operations_over_floats() -> None:
    left, right = L.select("f"), R.select("g")
    for method, word in SETS.items():
        sql = f"SELECT f FROM l {word} SELECT g FROM r"
        found = Counter(
            {("0" if key == (0.0,) else key): n for key, n in rows(getattr(left, method)(right)).items()}
        )
        assert found == Counter({("0" if key == (0.0,) else key): n for key, n in expected(sql).items()})


def test_types_meet() -> None:
    frame = L.select("x").union_all(L.select(col("k").cast("int8")), L.select(lit(0.5).alias("z")))
    assert frame.dtypes() == {"x": "float64"}
    assert frame.count() == 21
    assert L.select("x").intersect(R.select("y")).dtypes() == {"x": "int64"}


def test_concat_goes_by_names() -> None:
    frame = L.select("k", "x").concat(R.select("v", "k"), L.select("x"))
    assert frame.dtypes() == {"k": "int64", "x": "int32", "v": "utf8"}
    wanted = "SELECT k, x FROM l UNION ALL BY NAME SELECT v, k FROM r UNION ALL BY NAME SELECT x FROM l"
    assert rows(frame) == expected(wanted)
    assert L.concat().rows[0]["x"] == 10


def test_distinct_and_unique() -> None:
    frame = R.select("k", "v").union_all(R.select("k", "v"))
    assert rows(frame.distinct()) == rows(frame.unique()) == expected("SELECT DISTINCT k, v FROM r")
    first = R.unique("k")
    assert first.columns == ["k", "y", "v", "g"]
    found = {row["k"]: (row["y"], row["v"]) for row in first.rows}
    assert found == {2: (20, "b"), None: (60, "d"), 4: (None, "e"), 1: (10, None), 7: (5, "b")}
    assert R.unique(["k", "y"]).count() == 6


# ---- membership ----


def test_filter_in_is_in_a_subquery() -> None:
    assert rows(L.filter_in("k", R)) == expected("SELECT * FROM l WHERE k IN (SELECT k FROM r)")
    assert rows(L.filter_in("x", R, "y")) == expected("SELECT * FROM l WHERE x IN (SELECT y FROM r)")
    assert rows(L.filter_in("x", R.select("y"))) == expected("SELECT * FROM l WHERE x IN (SELECT y FROM r)")
    assert rows(L.filter_in(["k", "v"], R)) == expected(
        "SELECT * FROM l WHERE (k, v) IN (SELECT k, v FROM r)"
    )
    assert L.filter_in("k", R).columns == L.columns


def test_filter_not_in_knows_nulls() -> None:
    some = R.where_not_null("k", "v")
    assert L.filter_not_in("k", R).rows == []
    assert rows(L.filter_not_in("k", some)) == expected(
        "SELECT * FROM l WHERE k NOT IN (SELECT k FROM r WHERE k IS NOT NULL AND v IS NOT NULL)"
    )
    assert rows(L.filter_not_in(["k", "v"], some)) == expected(
        "SELECT * FROM l WHERE (k, v) NOT IN (SELECT k, v FROM r WHERE k IS NOT NULL AND v IS NOT NULL)"
    )
    nothing = R.filter(col("k") > 100)
    assert L.filter_not_in("k", nothing).count() == L.count()
    assert L.filter_not_in("k", R).columns == L.columns


# ---- mistakes ----


@pytest.mark.parametrize(
    ("code", "ask"),
    [
        ("QUERY_FAILED", lambda: L.join(RIGHT, on="k")),
        ("QUERY_FAILED", lambda: L.join(R)),
        ("QUERY_FAILED", lambda: L.join(R, on="k", how="outer")),
        ("QUERY_FAILED", lambda: L.join(R, on="k", left_on="k", right_on="k")),
        ("QUERY_FAILED", lambda: L.join(R, left_on="k")),
        ("QUERY_FAILED", lambda: L.join(R, left_on=["k", "x"], right_on="k")),
        ("QUERY_FAILED", lambda: L.join(R, on="k", how="cross")),
        ("QUERY_FAILED", lambda: L.join(R, on="k", suffix=3)),
        ("QUERY_FAILED", lambda: L.join(R, on=5)),
        ("QUERY_FAILED", lambda: L.join(R, on="k", how="mark")),
        ("QUERY_FAILED", lambda: L.join(R, on="k", mark="m")),
        ("INVALID_FILTER", lambda: L.join(R, on="k", where="x < y")),
        ("INVALID_FILTER", lambda: L.join(R, left_on="v", right_on="k")),
        ("INVALID_FILTER", lambda: L.join(R, where=col("x"))),
        ("COLUMN_NOT_FOUND", lambda: L.join(R, on="x")),
        ("COLUMN_NOT_FOUND", lambda: L.join(R, where=col("nowhere") == 1)),
        ("SCHEMA_MISMATCH", lambda: L.rename({"x": "v_right"}).join(R, on="k")),
        ("QUERY_FAILED", lambda: L.union()),
        ("QUERY_FAILED", lambda: L.union([R])),
        ("SCHEMA_MISMATCH", lambda: L.union(R.select("k"))),
        ("SCHEMA_MISMATCH", lambda: L.select("v").union_all(R.select("k"))),
        ("SCHEMA_MISMATCH", lambda: L.select("v").intersect(R.select("k"))),
        (
            "SCHEMA_MISMATCH",
            lambda: L.concat(
                R.rename({"y": "f", "g": "x"}).cast({"k": "float64"}).rename({"v": "w", "k": "v"})
            ),
        ),
        ("COLUMN_NOT_FOUND", lambda: L.unique("nowhere")),
        ("QUERY_FAILED", lambda: L.unique([])),
        ("COLUMN_NOT_FOUND", lambda: L.filter_in("x", R)),
        ("QUERY_FAILED", lambda: L.filter_in([], R)),
        ("QUERY_FAILED", lambda: L.filter_in("k", R, ["k", "y"])),
        ("QUERY_FAILED", lambda: L.filter_in("k", [1, 2])),
        ("INVALID_FILTER", lambda: L.filter_in("v", R, "k")),
    ],
)
def test_mistakes_fail_at_the_call(code: str, ask: Any) -> None:
    with raises_code(code):
        ask()


def test_expressions_are_frozen_in_joins() -> None:
    condition: Expr = col("x") < col("y")
    first = L.join(R, where=condition).collect().digest()
    assert L.join(R, where=condition).collect().digest() == first
