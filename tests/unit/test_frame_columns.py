"""Columns that are dropped, renamed, added, cast, filled and computed; rows that are picked in words."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any, cast

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from querymode import DataFrame, QueryMode, call, col, count, lit
from tests.raises import raises_code

TABLE = pa.table(
    {
        "id": pa.array([1, 2, 3, 4, None], pa.int64()),
        "price": pa.array([1.5, None, 3.5, float("nan"), 5.0]),
        "name": ["ann", None, "Bob", "cy%", ""],
        "day": pa.array([dt.date(2024, 1, day) for day in (1, 2, 3, 4)] + [None]),
        "paid": pa.array([True, False, None, True, None]),
    }
)
#: As Any, so that type checkers let mistakes through.
FRAME: Any = QueryMode.from_arrow(TABLE)
ORACLE = duckdb.connect()
ORACLE.register("t", TABLE)


def ids(frame: Any) -> list[Any]:
    return [row["id"] for row in frame.rows]


# ---- columns ----


def test_drop() -> None:
    assert FRAME.drop("name", "day").columns == ["id", "price", "paid"]
    assert FRAME.drop(["name"], col("day")).columns == ["id", "price", "paid"]
    assert FRAME.drop().columns == FRAME.columns


def test_rename() -> None:
    assert FRAME.rename({"id": "key"}).columns == ["key", "price", "name", "day", "paid"]
    assert FRAME.rename(str.upper).columns == ["ID", "PRICE", "NAME", "DAY", "PAID"]
    swapped = FRAME.rename({"id": "price", "price": "id"})
    assert swapped.columns[:2] == ["price", "id"] and swapped.rows[0]["price"] == 1


def test_with_columns() -> None:
    frame = FRAME.with_columns((col("id") * 2).alias("twice"), id=col("id") + 1, one=1)
    assert frame.columns == ["id", "price", "name", "day", "paid", "twice", "one"]
    assert frame.rows[0]["id"] == 2 and frame.rows[0]["twice"] == 2 and frame.rows[0]["one"] == 1


def test_cast() -> None:
    frame = FRAME.cast({"id": "int8", "paid": "int32"})
    assert frame.dtypes()["id"] == "int8" and frame.rows[0]["paid"] == 1
    assert set(FRAME.select("id", "price").cast("float32").dtypes().values()) == {"float32"}
    big = FRAME.with_columns(id=col("id") * 100)
    with raises_code("QUERY_FAILED"):
        big.cast({"id": "int8"}).collect()
    assert ids(big.cast({"id": "int8"}, strict=False)) == [100, None, None, None, None]


def test_fill_null() -> None:
    numbers = FRAME.fill_null(0)
    assert ids(numbers) == [1, 2, 3, 4, 0] and numbers.rows[1]["price"] == 0.0
    assert numbers.rows[1]["name"] is None and numbers.dtypes() == FRAME.dtypes()
    assert FRAME.fill_null("?").rows[1]["name"] == "?"
    assert FRAME.fill_null(dt.date(2030, 1, 1)).rows[4]["day"] == dt.date(2030, 1, 1)
    assert FRAME.fill_null(True).rows[2]["paid"] is True
    mixed = FRAME.fill_null({"id": -1, "day": "2025-01-01"}).rows[4]
    assert (mixed["id"], mixed["day"]) == (-1, dt.date(2025, 1, 1))
    assert FRAME.fill_null({"price": col("id")}).rows[1]["price"] == 2.0
    assert FRAME.fill_null(0.5).dtypes()["id"] == "int64"  # which cannot hold it, and stays as it is


def test_computed() -> None:
    frame = FRAME.computed(
        "length", lambda batch: [len(text or "") for text in batch["name"].to_pylist()], "int32"
    )
    assert frame.dtypes()["length"] == "int32" and frame.rows[2]["length"] == 3
    replaced = FRAME.computed("id", lambda batch: np.arange(batch.num_rows), "int16")
    assert replaced.columns == FRAME.columns and ids(replaced) == [0, 1, 2, 3, 4]
    assert (
        FRAME.computed("d", lambda batch: [Decimal("1.5")] * batch.num_rows, "decimal(9,2)").rows[0]["d"]
        == 1.5
    )
    assert frame.filter(col("length") > 0).agg(col("length").sum().alias("s")).rows == [{"s": 9}]


def test_map_batches() -> None:
    same = FRAME.map_batches(lambda batch: batch.slice(1, 2))
    assert ids(same) == [2, 3] and same.dtypes() == FRAME.dtypes()
    other = FRAME.map_batches(lambda batch: batch.select(["id"]), schema={"id": "int64"})
    assert other.columns == ["id"]
    arrow = FRAME.map_batches(lambda batch: batch.select(["id"]), schema=pa.schema([("id", pa.int64())]))
    assert arrow.dtypes() == {"id": "int64"}
    wide = FRAME.agg(col("id").sum().alias("total"))
    assert wide.map_batches(lambda batch: batch).dtypes() == wide.dtypes() == {"total": "int128"}
    assert wide.map_batches(lambda batch: batch).rows == [{"total": 10}]
    # Also as the last step before Arrow.
    assert same.to_arrow().to_pylist() == same.rows
    assert [row for batch in same.stream() for row in batch.to_pylist()] == same.rows
    assert same.union_all(same).to_arrow().to_pylist() == same.rows * 2


def test_functions_that_fail_say_so() -> None:
    def fails(batch: pa.RecordBatch) -> Any:
        raise ValueError("no luck")

    failed, mismatch = "QUERY_FAILED", "SCHEMA_MISMATCH"
    cases: list[tuple[Any, str, str]] = [
        (lambda: FRAME.computed("x", fails, "int64").rows, failed, "no luck"),
        (
            lambda: FRAME.computed("x", lambda batch: [1], "int64").rows,
            mismatch,
            "1 values of 'x' for 5 rows",
        ),
        (lambda: FRAME.computed("x", lambda batch: ["a"] * 5, "int64").rows, mismatch, "no int64"),
        (lambda: FRAME.map_batches(fails).rows, failed, "no luck"),
        (lambda: FRAME.map_batches(lambda batch: 5).rows, mismatch, "not a RecordBatch"),
        (lambda: FRAME.map_batches(lambda batch: batch.select(["id"])).rows, mismatch, "columns"),
    ]
    for ask, code, said in cases:
        with raises_code(code, match=said):
            ask()


# ---- rows, in words ----


@pytest.mark.parametrize(
    ("frame", "sql"),
    [
        (FRAME.where_in("id", [1, 3, 9]), "id IN (1, 3, 9)"),
        (FRAME.where_in("id", [1, None]), "id IN (1, NULL)"),
        (FRAME.where_not_in("id", [1, 3]), "id NOT IN (1, 3)"),
        (FRAME.where_not_in("id", [1, None]), "id NOT IN (1, NULL)"),
        (FRAME.where_in("name", []), "false"),
        (FRAME.where_between("price", 1.5, 4), "price BETWEEN 1.5 AND 4"),
        (FRAME.where_not_between("id", 2, 3), "id NOT BETWEEN 2 AND 3"),
        (FRAME.where_between("id", 2, col("price")), "id BETWEEN 2 AND price"),
        (FRAME.where_like("name", "%n%"), "name LIKE '%n%'"),
        (FRAME.where_not_like("name", "_nn"), "name NOT LIKE '_nn'"),
        (FRAME.where_like("name", "cy!%", "!"), "name LIKE 'cy!%' ESCAPE '!'"),
        (FRAME.where_null("paid"), "paid IS NULL"),
        (FRAME.where_null("paid", "id"), "paid IS NULL AND id IS NULL"),
        (FRAME.where_not_null("paid", "name"), "paid IS NOT NULL AND name IS NOT NULL"),
        (FRAME.where_in(col("id") * 2, [2]), "id * 2 IN (2)"),
        (FRAME.filter(col("name").ilike("B%")), "name ILIKE 'B%'"),
    ],
)
def test_words_are_sql(frame: Any, sql: str) -> None:
    wanted = [row[0] for row in ORACLE.sql(f"SELECT id FROM t WHERE {sql}").fetchall()]
    assert sorted(ids(frame), key=str) == sorted(wanted, key=str)


def test_value_counts() -> None:
    frame = QueryMode.from_json([{"a": word} for word in "xxyzzz"])
    assert frame.value_counts("a").rows == [
        {"a": "z", "count": 3},
        {"a": "x", "count": 2},
        {"a": "y", "count": 1},
    ]
    assert frame.value_counts("a", sort=False).count() == 3
    assert frame.value_counts("a", name="n").columns == ["a", "n"]
    nulls = FRAME.value_counts("paid").rows
    assert {row["paid"]: row["count"] for row in nulls} == {True: 2, None: 2, False: 1}
    assert frame.value_counts(col("a") == "x").rows[0]["count"] == 4


def test_slices() -> None:
    frame = QueryMode.from_json([{"n": number} for number in range(10)])

    def numbers(part: DataFrame) -> list[int]:
        return [row["n"] for row in part.rows]

    assert numbers(frame.slice(2, 3)) == [2, 3, 4]
    assert numbers(frame.slice(8)) == [8, 9]
    assert numbers(frame.limit(5).slice(3, 5)) == [3, 4]
    assert numbers(frame.tail(2)) == [8, 9]
    assert numbers(frame.limit(3).tail(2)) == [1, 2]
    assert numbers(frame.tail(100)) == list(range(10))
    assert numbers(frame.filter(col("n") < 2).repeat(2)) == [0, 0, 1, 1]
    assert numbers(frame.repeat(col("n") - 7)) == [8, 9, 9]


def test_samples() -> None:
    frame = QueryMode.from_arrow(pa.table({"n": range(100_000), "t": [f"t{n}" for n in range(100_000)]}))
    one, same, other = frame.sample(50, seed=1), frame.sample(50, seed=1), frame.sample(50, seed=2)
    numbers = [row["n"] for row in one.rows]
    assert len(set(numbers)) == 50 and numbers == sorted(numbers)
    assert all(row["t"] == f"t{row['n']}" for row in one.rows)
    assert one.rows == same.rows and one.rows != other.rows
    assert max(numbers) > 50_000 and min(numbers) < 50_000
    assert frame.filter(col("n") < 3).sample(10).count() == 3
    assert frame.sample(0).count() == 0 and frame.sample(0).dtypes() == frame.dtypes()
    total = frame.agg(col("n").sum().alias("s"))
    assert total.sample(1).dtypes() == {"s": "int128"}


def test_aggregates_without_a_column() -> None:
    assert FRAME.agg(count().alias("rows"), col("id").count().alias("ids")).rows == [{"rows": 5, "ids": 4}]
    assert sorted(str(row["paid"]) for row in FRAME.group_by("paid").keys().rows) == ["False", "None", "True"]


def test_typed_constants() -> None:
    frame = FRAME.limit(1).select(
        lit(5, "int8").alias("a"), lit(None, "date").alias("b"), lit("x", "utf8").alias("c")
    )
    assert frame.dtypes() == {"a": "int8", "b": "date", "c": "utf8"}


# ---- mistakes ----


@pytest.mark.parametrize(
    ("code", "ask"),
    [
        ("COLUMN_NOT_FOUND", lambda: FRAME.drop("nowhere")),
        ("QUERY_FAILED", lambda: FRAME.drop(3)),
        ("QUERY_FAILED", lambda: FRAME.select("id").drop("id")),
        ("COLUMN_NOT_FOUND", lambda: FRAME.rename({"nowhere": "x"})),
        ("SCHEMA_MISMATCH", lambda: FRAME.rename({"id": "name"})),
        ("QUERY_FAILED", lambda: FRAME.rename("id")),
        ("QUERY_FAILED", lambda: FRAME.rename({"id": 5})),
        ("QUERY_FAILED", lambda: FRAME.rename(lambda name: None)),
        ("QUERY_FAILED", lambda: FRAME.with_columns()),
        ("QUERY_FAILED", lambda: FRAME.with_columns(5)),
        ("SCHEMA_MISMATCH", lambda: FRAME.with_columns(lit(1).alias("x"), x=2)),
        ("INVALID_AGGREGATE", lambda: FRAME.with_columns(x=col("id").sum())),
        ("COLUMN_NOT_FOUND", lambda: FRAME.cast({"nowhere": "int8"})),
        ("QUERY_FAILED", lambda: FRAME.cast(5)),
        ("NOT_SUPPORTED", lambda: FRAME.cast({"id": "integerish"})),
        ("INVALID_FILTER", lambda: FRAME.fill_null(None)),
        ("INVALID_FILTER", lambda: FRAME.fill_null({"id": None})),
        ("INVALID_FILTER", lambda: FRAME.select("id").fill_null("text")),
        ("INVALID_FILTER", lambda: FRAME.fill_null({"id": "text"})),
        ("COLUMN_NOT_FOUND", lambda: FRAME.fill_null({"nowhere": 1})),
        ("QUERY_FAILED", lambda: FRAME.computed("x", 5, "int64")),
        ("QUERY_FAILED", lambda: FRAME.computed("x", len, 5)),
        ("QUERY_FAILED", lambda: FRAME.computed("", len, "int64")),
        ("QUERY_FAILED", lambda: FRAME.map_batches("x")),
        ("QUERY_FAILED", lambda: FRAME.map_batches(len, schema=5)),
        ("COLUMN_NOT_FOUND", lambda: FRAME.where_in("nowhere", [1])),
        ("INVALID_FILTER", lambda: FRAME.where_in("id", 5)),
        ("INVALID_FILTER", lambda: FRAME.where_in("id", ["x"])),
        ("INVALID_FILTER", lambda: FRAME.where_between("id", "a", "b")),
        ("INVALID_FILTER", lambda: FRAME.where_like("name", 5)),
        ("INVALID_FILTER", lambda: FRAME.where_like("id", "%")),
        ("INVALID_FILTER", lambda: FRAME.where_null()),
        ("QUERY_FAILED", lambda: FRAME.where_null(5)),
        ("COLUMN_NOT_FOUND", lambda: FRAME.value_counts("nowhere")),
        ("QUERY_FAILED", lambda: FRAME.value_counts("id", name=3)),
        ("QUERY_FAILED", lambda: FRAME.slice(-1)),
        ("QUERY_FAILED", lambda: FRAME.slice(0, "x")),
        ("QUERY_FAILED", lambda: FRAME.tail(-1)),
        ("QUERY_FAILED", lambda: FRAME.sample(-1)),
        ("QUERY_FAILED", lambda: FRAME.sample(1, seed="x")),
        ("QUERY_FAILED", lambda: FRAME.repeat("name")),
        ("QUERY_FAILED", lambda: FRAME.repeat(-1)),
        ("QUERY_FAILED", lambda: FRAME.pipe(5)),
        ("QUERY_FAILED", lambda: FRAME.show("x")),
        ("QUERY_FAILED", lambda: FRAME.lazy().page(-1, 5)),
        ("INVALID_FILTER", lambda: lit("x", "int8")),
        ("INVALID_FILTER", lambda: lit(300, "int8")),
        ("NOT_SUPPORTED", lambda: lit(3, cast(Any, 8))),
        ("NOT_SUPPORTED", lambda: FRAME.select(call("no_such_function", col("id")))),
    ],
)
def test_mistakes_fail_at_the_call(code: str, ask: Any) -> None:
    with raises_code(code):
        ask()
