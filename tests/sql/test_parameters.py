"""Parameters are constants: bound, never pasted."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from querymode import QueryMode
from tests.raises import raises_code


def test_marks_in_the_order_of_the_text(qm: QueryMode) -> None:
    # The tree has LIMIT before WHERE; the text has not.
    sql = "SELECT a + ? AS x FROM t WHERE a > ? ORDER BY a LIMIT ?"
    assert qm.sql(sql, [100, 1, 1]).rows == [{"x": 102}]


def test_names(qm: QueryMode) -> None:
    sql = "SELECT a FROM t WHERE a = $wanted OR b = $other OR a = $wanted"
    assert qm.sql(sql, {"wanted": 1, "other": 20}).count() == 2


def test_numbers(qm: QueryMode) -> None:
    assert qm.sql("SELECT $2 AS x, $1 AS y", [1, 2]).rows == [{"x": 2, "y": 1}]


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        5,
        2**40,
        1.5,
        "it's",
        "'; DROP TABLE t; --",
        b"\x00\xff",
        Decimal("1.25"),
        dt.date(2020, 2, 29),
    ],
)
def test_values_come_back_as_they_are(qm: QueryMode, value: object) -> None:
    assert qm.sql("SELECT ? AS x", [value]).rows == [{"x": value}]


def test_a_text_is_no_sql(qm: QueryMode) -> None:
    assert qm.sql("SELECT a FROM t WHERE s = ?", ["x' OR '1'='1"]).count() == 0


def test_a_text_beside_a_date_is_a_date(qm: QueryMode) -> None:
    assert qm.sql("SELECT a FROM t WHERE d >= ?", ["1970-01-02"]).count() == 2


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("SELECT ?", None),
        ("SELECT ?", []),
        ("SELECT ?", [1, 2]),
        ("SELECT 1", [1]),
        ("SELECT $a", {}),
        ("SELECT $a", {"b": 1}),
        ("SELECT $a", {"a": 1, "b": 2}),
        ("SELECT $a", [1]),
        ("SELECT ?", {"a": 1}),
        ("SELECT ?", 5),
    ],
)
def test_wrong_counts_and_names(qm: QueryMode, sql: str, parameters: object) -> None:
    with raises_code("QUERY_FAILED"):
        qm.sql(sql, parameters)  # type: ignore[arg-type]


def test_both_kinds_at_once(qm: QueryMode) -> None:
    with raises_code("SQL_SYNTAX"):
        qm.sql("SELECT ?, $a", [1])


def test_what_is_no_value(qm: QueryMode) -> None:
    with raises_code("INVALID_FILTER"):
        qm.sql("SELECT ?", [object()])


def test_numbers_side_by_side(qm: QueryMode) -> None:
    rows = qm.sql("SELECT $1,$2, $tag$text$tag$ AS s,$1", [1, 2]).rows
    assert list(rows[0].values()) == [1, 2, "text", 1]
    many = ",".join(f"${number}" for number in range(1, 5000))
    with raises_code("QUERY_FAILED", match="4999 parameters, but 0 values"):
        qm.sql(f"SELECT {many}")
