"""CASE, COALESCE, NULLIF, GREATEST, LEAST and IS DISTINCT FROM over every type, and fields of structures."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from querymode import Expr, QueryMode, call, coalesce, col, greatest, least, lit, when
from tests.parametric.columns import TYPES, Cases, check, values_of
from tests.parametric.test_functions import _ASCII, _BEYOND, text_table
from tests.raises import raises_code

A, B, C, N = col("a"), col("b"), col("c"), col("n")


def mixed(pool: Any, rows: int, seed: int) -> pa.Table:
    """Three columns of few values, so that many are equal, and a small number; all with NULLs."""
    source = random.Random(seed)
    few = [source.randrange(len(pool)) for _ in range(12)]

    def column() -> Any:
        indices = [None if source.random() < 0.2 else source.choice(few) for _ in range(rows)]
        return pool.take(pa.array(indices, pa.int64()))

    numbers = [source.choice([None, 0, 1, 2, 3]) for _ in range(rows)]
    columns = {name: column() for name in "abc"}
    return pa.table({**columns, "n": pa.array(numbers, pa.int32()), "z": pa.array([None] * rows, pa.int32())})


def choosing() -> Cases:
    return [
        (when(N == 1).then(A).otherwise(B), "CASE WHEN n = 1 THEN a ELSE b END"),
        (when(N == 1).then(A), "CASE WHEN n = 1 THEN a END"),
        (
            when(N == 0).then(A).when(N > 1).then(B).when(N.is_null()).then(C),
            "CASE WHEN n = 0 THEN a WHEN n > 1 THEN b WHEN n IS NULL THEN c END",
        ),
        (when(lit(None)).then(A).otherwise(B), "CASE WHEN NULL THEN a ELSE b END"),
        (when(lit(True)).then(A).otherwise(B), "CASE WHEN true THEN a ELSE b END"),
        (when(N == 1).then(None).otherwise(B), "CASE WHEN n = 1 THEN NULL ELSE b END"),
        (when(N == 7).then(A).otherwise(None), "CASE WHEN n = 7 THEN a ELSE NULL END"),
        (coalesce(A, B), "coalesce(a, b)"),
        (coalesce(A, B, C), "coalesce(a, b, c)"),
        (coalesce(None, A), "coalesce(NULL, a)"),
        (A.fill_null(B), "ifnull(a, b)"),
        (call("if", N == 2, A, B), "if(n = 2, a, b)"),
    ]


def comparing() -> Cases:
    return [
        (call("nullif", A, B), "nullif(a, b)"),
        (greatest(A, B), "greatest(a, b)"),
        (least(A, B, C), "least(a, b, c)"),
        (greatest(A, None, B), "greatest(a, NULL, b)"),
        (least(A), "least(a)"),
        (A.is_distinct_from(B), "a IS DISTINCT FROM b"),
        (A.is_not_distinct_from(B), "a IS NOT DISTINCT FROM b"),
        (A.is_distinct_from(None), "a IS DISTINCT FROM NULL"),
        (A.is_in([B, C]), "a IN (b, c)"),
        (A.between(B, C), "a BETWEEN b AND c"),
    ]


@pytest.mark.parametrize("rows", [0, 1, 16_384, 20_000])
@pytest.mark.parametrize("name", TYPES)
def test_every_type(name: str, rows: int) -> None:
    table = mixed(values_of(name, 50, 3), rows, rows)
    # As a column of this type, which Arrow may have brought in as another.
    cast = {column: f"{column}::{TYPES[name]}" for column in "abc"}
    cases = choosing() + comparing()
    if name == "interval":  # DuckDB orders them by months first in GREATEST and LEAST, unlike anywhere else
        cases = [(expr, sql) for expr, sql in cases if not sql.startswith(("greatest", "least"))]
    check(table, [(expr, _cast_names(sql, cast)) for expr, sql in cases])


def _cast_names(sql: str, names: dict[str, str]) -> str:
    words = sql.replace("(", "( ").replace(")", " )").replace(",", " ,").split()
    return " ".join(names.get(word, word) for word in words)


@pytest.mark.parametrize("parts", [_ASCII, _ASCII + _BEYOND], ids=["ascii", "unicode"])
def test_text(parts: list[str]) -> None:
    texts = text_table(100, parts, 8).column("s").combine_chunks()
    table = mixed(texts, 20_000, 4)
    several = when(N == 1).then("eins").when(N == 2).then(A).otherwise("größe")
    more: Cases = [
        (several, "CASE n WHEN 1 THEN 'eins' WHEN 2 THEN a ELSE 'größe' END"),
        (coalesce(A, "none"), "coalesce(a, 'none')"),
        (call("nullif", A, "ab"), "nullif(a, 'ab')"),
        (greatest(A, "m"), "greatest(a, 'm')"),
        (least("m", A, B), "least('m', a, b)"),
        (A.is_distinct_from("ab"), "a IS DISTINCT FROM 'ab'"),
    ]
    check(table, choosing() + comparing() + more)


def test_nested() -> None:
    source = random.Random(5)
    lists = pa.array([None, [], [1], [1, None, 3], [4, 5]], pa.list_(pa.int64()))
    structs = pa.array([None, {"x": 1, "y": ["a"]}, {"x": None, "y": None}, {"x": 3, "y": []}])
    for pool in (lists, structs):
        check(mixed(pool, 3000, source.randrange(100)), choosing())


def test_literals_adapt() -> None:
    """Types of constants beside columns, as in DuckDB."""
    table = pa.table(
        {
            "i": pa.array([1, None, 3], pa.int8()),
            "s": pa.array([1, None, 3], pa.int16()),
            "d": pa.array(["1.25", None, "3.50"]).cast(pa.decimal128(4, 2)),
            "f": pa.array([1.5, None, 2.5], pa.float32()),
            "x": pa.array([1.5, None, 2.5]),
            "day": pa.array([1, None, 3], pa.int32()).cast(pa.date32()),
        }
    )
    check(
        table,
        [
            (coalesce(col("i"), 5), "coalesce(i, 5)"),
            (coalesce(col("i"), 300), "coalesce(i, 300)"),
            (coalesce(col("i"), 1 << 40), f"coalesce(i, {1 << 40})"),
            (coalesce(col("i"), col("s"), 7), "coalesce(i, s, 7)"),
            (coalesce(col("d"), 0), "coalesce(d, 0)"),
            (coalesce(col("d"), col("s")), "coalesce(d, s)"),
            (coalesce(col("d"), col("x")), "coalesce(d, x)"),
            (coalesce(col("f"), 0.25), "coalesce(f, 0.25)"),
            (coalesce(col("x"), 1), "coalesce(x, 1)"),
            (when(col("i") > 1).then(col("d")).otherwise(0), "CASE WHEN i > 1 THEN d ELSE 0 END"),
            (coalesce(col("day"), "2020-01-01"), "coalesce(day, '2020-01-01')"),
            (greatest(col("i"), 2), "greatest(i, 2)"),
            (greatest(col("i"), col("x")), "greatest(i, x)"),
        ],
    )


def test_branches_that_fail_are_asked_only_for_their_rows() -> None:
    table = pa.table({"a": [10, 20, None, 7, 5], "b": [0, 5, 1, None, 0], "t": ["1", "x", None, "3", "y"]})
    b, t = col("b"), col("t")
    number = when(t.is_in(["1", "3"])).then(t.cast("int64"))
    known = "CASE WHEN t IN ('1', '3') THEN t::BIGINT END"
    check(
        table,
        [
            (when(b != 0).then(A // b).otherwise(-1), "CASE WHEN b <> 0 THEN a // b ELSE -1 END"),
            (when(b == 0).then(0).otherwise(A // b), "CASE WHEN b = 0 THEN 0 ELSE a // b END"),
            (
                when(b == 0).then(0).when(A // b > 1).then(A),
                "CASE WHEN b = 0 THEN 0 WHEN a // b > 1 THEN a END",
            ),
            (number, known),
            (coalesce(number, b, t.cast("int64")), f"coalesce({known}, b, t::BIGINT)"),
        ],
    )
    frame = QueryMode.from_arrow(table)
    assert frame.filter((b != 0) & (A // b > 1)).select(b).rows == [{"b": 5}]
    for expr in (when(b == 0).then(A // b), coalesce(None, t.cast("int64")), when(A // b > 1).then(1)):
        with raises_code("QUERY_FAILED"):
            frame.select(expr).collect()


def test_fields() -> None:
    rows = [None, {"x": 1, "y": {"z": "a"}}, {"x": None, "y": None}, {"x": 3, "y": {"z": None}}]
    table = pa.table({"s": pa.array([rows[number % 4] for number in range(20_000)])})
    s = col("s")
    check(
        table,
        [
            (s.field("x"), "s.x"),
            (s.field("y").field("z"), "s.y.z"),
            (s.field("y"), "s.y"),
            (s.field("y").field("z").upper(), "upper(s.y.z)"),
            (coalesce(s.field("x"), 9), "coalesce(s.x, 9)"),
        ],
    )
    assert QueryMode.from_arrow(table).filter(s.field("x") == 3).count() == 5000


@pytest.mark.parametrize(
    ("expr", "code"),
    [
        (when(A).then(1), "INVALID_FILTER"),
        (when(A > 1).then("x").otherwise(1), "INVALID_FILTER"),
        (coalesce(A, "x"), "INVALID_FILTER"),
        (call("coalesce"), "NOT_SUPPORTED"),
        (call("nullif", A), "INVALID_FILTER"),
        (A.field("x"), "COLUMN_NOT_FOUND"),
        (greatest(), "INVALID_FILTER"),
        (call("no_such_function", A), "NOT_SUPPORTED"),
        (A.upper(), "INVALID_FILTER"),
        (call("upper"), "INVALID_FILTER"),
        (call("upper", "a", "b"), "INVALID_FILTER"),
    ],
)
def test_mistakes(expr: Expr, code: str) -> None:
    frame = QueryMode.from_arrow(pa.table({"a": [1]}))
    with raises_code(code):
        frame.select(expr)
