"""Expressions: the words, the operators, and the mistakes that are caught before a query runs."""

from __future__ import annotations

import datetime as dt
import operator
from typing import Any

import pyarrow as pa
import pytest

from querymode import QueryMode, col, lit
from querymode.expr.nodes import FILTER_WORDS
from tests.raises import raises_code

TABLE = pa.table(
    {
        "id": [1, 2, 3, None],
        "name": ["ab", "é", "", None],
        "price": [1.5, float("nan"), -0.0, None],
        "day": [dt.date(2020, 1, 1), dt.date(2021, 1, 1), None, None],
        "ok": [True, False, None, None],
        "tags": [["x"], [], None, None],
    }
)
FRAME = QueryMode.from_arrow(TABLE)


def ids(*condition: object) -> list[int | None]:
    return [row["id"] for row in FRAME.filter(*condition).select("id").rows]


def refused(code: str, ask: Any) -> str:
    with raises_code(code) as caught:
        ask()
    return caught.value.message


WORDS: list[tuple[tuple[object, ...], list[int | None]]] = [
    (("id", "eq", 2), [2]),
    (("id", "neq", 2), [1, 3]),
    (("id", "gt", 2), [3]),
    (("id", "gte", 2), [2, 3]),
    (("id", "lt", 2), [1]),
    (("id", "lte", 2), [1, 2]),
    (("id", "in", [1, 3, 9]), [1, 3]),
    (("id", "not_in", [1, 9]), [2, 3]),
    (("id", "between", (2, 3)), [2, 3]),
    (("id", "not_between", [2, 3]), [1]),
    (("name", "like", "_b"), [1]),
    (("name", "not_like", "%b"), [2, 3]),
    (("id", "is_null"), [None]),
    (("id", "is_not_null"), [1, 2, 3]),
]


def test_all_words_are_here() -> None:
    assert {words[1] for words, _ in WORDS} == set(FILTER_WORDS)
    assert len(FILTER_WORDS) == 14


@pytest.mark.parametrize(("words", "expected"), WORDS)
def test_word(words: tuple[object, ...], expected: list[int | None]) -> None:
    assert ids(*words) == expected
    assert ids(*words) == [row["id"] for row in FRAME.where(*words).rows]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (col("id") == 2, [2]),
        (lit(2) == col("id"), [2]),
        (col("id") != 2, [1, 3]),
        (lit(1) < col("id"), [2, 3]),
        (col("id") <= lit(1), [1]),
        (col("id").is_in([1, None]), [1]),
        (col("id").is_in(value for value in (1, 2)), [1, 2]),
        (col("id").not_in([1, None]), []),
        (col("id").between(2, col("id")), [2, 3]),
        (col("id").not_between(None, 1), [2, 3]),
        (col("id").between(None, 1), []),
        ((col("id") > 1) & (col("id") < 3), [2]),
        ((col("id") == 1) | (col("id") == 3), [1, 3]),
        (~(col("id") == 1), [2, 3]),
        (True & (col("id") == 1), [1]),
        ((col("id") == 1) | False, [1]),
        (col("ok"), [1]),
        (~col("ok"), [2]),
        (col("ok") == False, [2]),  # noqa: E712
        (col("id") == None, []),  # noqa: E711
        (col("id") != None, []),  # noqa: E711
        ((col("id") == None) | (col("id") == 2), [2]),  # noqa: E711
        (lit(None), []),
        (lit(True), [1, 2, 3, None]),
        (col("price") == float("nan"), [2]),
        (col("price") > 1e308, [2]),
        (col("price") == 0, [3]),
        (col("id") * 2 + 1 == 5, [2]),
        (-col("id") == -3, [3]),
        (7 // col("id") == 3, [2]),
        (10 % col("id") == 1, [3]),
        (3 / col("id") == 1.5, [2]),
        (5 - col("id") == 4, [1]),
        ((col("id") == 2).alias("renamed"), [2]),
        (col("name").like("%!%", "!"), []),
        (col("tags").is_null(), [3, None]),
    ],
)
def test_expression(condition: Any, expected: list[int | None]) -> None:
    assert ids(condition) == expected


def test_several_conditions_must_all_hold() -> None:
    assert ids(col("id") > 1, col("id") < 3) == [2]
    assert ids(*[col("id") != number for number in range(2, 300)]) == [1]


def test_where_or() -> None:
    frame = FRAME.where_or([("id", "eq", 1), ("name", "like", "a%")], [("id", "gte", 1), ("id", "lt", 3)])
    assert [row["id"] for row in frame.rows] == [1, 2]  # row 1 matches twice and comes once
    groups: list[Any] = [[col("id") == 3], [["id", "is_null"]]]
    assert FRAME.where_or(*groups).count() == 2


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("id", "eq"), ["eq", "'id'"]),
        (("id", "eq", 1, 2), ["eq", "'id'", "2"]),
        (("id", "eq", [1]), ["eq", "list", "'id'"]),
        (("id", "is_null", 5), ["is_null", "5", "'id'"]),
        (("id", "in", 5), ["in", "int"]),
        (("id", "in", "ab"), ["in", "str"]),
        (("id", "in", None), ["in", "NoneType"]),
        (("id", "in", [col("id")]), ["in", "expressions"]),
        (("id", "between", (1, 2, 3)), ["between", "3"]),
        (("id", "between", 5), ["between", "int"]),
        (("name", "like", 5), ["like", "int"]),
        (("name", "like", None), ["like", "NoneType"]),
        (("id", "like", "5%"), ["like", "id", "int64"]),
        (("id", "equals", 5), ["'equals'", "eq, neq"]),
        (("name", "gt", 5), ["name", "utf8", "5", "int64"]),
        (("id", "eq", "5"), ["id", "int64", "'5'", "utf8"]),
        (("id", "in", [1, "x"]), ["id", "int64", "'x'"]),
        (("day", "eq", "soon"), ["day", "date", "'soon'"]),
        (("day", "in", ["2020-01-01", "soon"]), ["day", "date", "'soon'"]),
        (("ok", "eq", 1.5), ["ok", "bool", "1.5"]),
        (("tags", "eq", "x"), ["tags", "list<utf8>", "'x'"]),
        (("id", "eq", object()), ["object"]),
        (("id", "eq", 1j), ["complex"]),
        (("id", "eq", 1 << 200), [str(1 << 200)]),
        (("id",), ["filter"]),
        ((), ["filter"]),
        ((5,), ["filter"]),
        ((None, "eq", 5), ["filter"]),
        ((col("id"),), ["id", "int64"]),
        ((col("id") & True,), ["id", "int64"]),
        ((col("name") + 1 == 2,), ["+", "name", "utf8"]),
        ((-col("name") == 2,), ["name", "utf8"]),
        ((col("name").like("a!", "!"),), ["escape"]),
    ],
)
def test_mistakes_name_both_sides(words: tuple[object, ...], named: list[str]) -> None:
    message = refused("INVALID_FILTER", lambda: FRAME.filter(*words).rows)
    assert all(part in message for part in named), message


@pytest.mark.parametrize("groups", [(), ([],), ("abc",), (("id", "eq", 1),), ([("id", "eq")],), ([5],), (5,)])
def test_where_or_mistakes(groups: tuple[Any, ...]) -> None:
    refused("INVALID_FILTER", lambda: FRAME.where_or(*groups))


@pytest.mark.parametrize(
    "ask",
    [
        lambda: bool(col("a") == 1),
        lambda: (col("a") > 1) and (col("a") < 3),
        lambda: (col("a") > 1) or (col("a") < 3),
        lambda: not col("a"),
        lambda: 1 < col("a") < 3,
        lambda: col("a") in [1, 2],
    ],
)
def test_an_expression_has_no_truth_value(ask: Any) -> None:
    assert "&" in refused("INVALID_FILTER", ask)


def test_an_expression_is_not_iterable() -> None:
    with pytest.raises(TypeError):
        list(col("a"))


@pytest.mark.parametrize("sign", [operator.xor, operator.matmul])
def test_operators_without_meaning(sign: Any) -> None:
    with pytest.raises(TypeError):
        sign(col("a"), col("b"))


def test_text_of_expressions() -> None:
    assert repr((col("a") > 1) & ~col("b").is_null()) == "((col('a') > 1) & ~col('b').is_null())"
    assert repr(col("a").like("x%", "!")) == "col('a').like('x%', escape='!')"
    assert repr(col("a").cast("int32", strict=False)) == "col('a').cast('int32', strict=False)"
    assert "… 1000 in all" in repr(col("a").is_in(range(1000)))


def test_names_and_types_are_checked_when_written() -> None:
    refused("COLUMN_NOT_FOUND", lambda: col(5))  # type: ignore[arg-type]
    refused("QUERY_FAILED", lambda: col("a").alias(5))  # type: ignore[arg-type]
    refused("NOT_SUPPORTED", lambda: col("a").cast("no such type"))
    refused("INVALID_FILTER", lambda: col("a").like("x", "!!"))
    refused("INVALID_FILTER", lambda: col("a").like("x", "é"))


def test_depth_is_bounded_and_width_is_not() -> None:
    deep = col("id")
    for _ in range(5_000):
        deep = deep + 1
    refused("NOT_SUPPORTED", lambda: FRAME.select(deep.alias("x")))
    wide = col("id") == 1
    for number in range(2, 3_000):
        wide = wide | (col("id") == number)
    assert ids(wide) == [1, 2, 3]
    assert ids(col("id").is_in(range(2, 100_000))) == [2, 3]


def test_a_deep_expression_without_a_name_is_refused_too() -> None:
    deep = col("id")
    for _ in range(5_000):
        deep = deep + 1
    refused("NOT_SUPPORTED", lambda: FRAME.select(deep))
    refused("NOT_SUPPORTED", lambda: FRAME.filter(deep > 1))


def test_a_type_is_a_type() -> None:
    refused("NOT_SUPPORTED", lambda: FRAME.select(col("id").cast(5)))  # type: ignore[arg-type]


def test_an_aggregate_does_not_stand_inside_an_expression() -> None:
    assert "sum" in refused("INVALID_AGGREGATE", lambda: FRAME.filter(col("id").sum() > 1))
    assert "sum" in refused("INVALID_AGGREGATE", lambda: FRAME.agg(col("id").sum().sum()))
