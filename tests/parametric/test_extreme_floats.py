"""Kernels, aggregates and functions over the ends of float32 and float64, beside DuckDB."""

from __future__ import annotations

import math
import struct

import duckdb
import pyarrow as pa
import pytest

from querymode import QueryMode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_DOUBLES = [
    *(0.0, -0.0, 5e-324, -5e-324, 1e-310, -1e-310, 2.2250738585072014e-308, 2.225073858507201e-308, 1e-300),
    *(1.7976931348623157e308, -1.7976931348623157e308, math.inf, -math.inf, math.nan, 1e300, 1e22, 1e23),
    *(2.0, -2.0, 0.1, 1.0, -1.0, 0.5, 3.0, 1e16, 9007199254740992.0, -9007199254740992.0, 123456789.125),
    *(4503599627370497.5, 9223372036854775807.0, -9223372036854775808.0, 2147483647.5, 2.5, -2.5, 1.5),
    *(0.49999999999999994, 0.30000000000000004, 709.9, -745.2, -708.5, 1e-17, 1e-45, 1.1754942106924411e-38),
]
_FLOAT32_MAX = 3.4028234663852886e38
_UNARY = (
    *(
        "sqrt",
        "cbrt",
        "exp",
        "ln",
        "log10",
        "log2",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "cot",
        "sinh",
    ),
    *(
        "cosh",
        "tanh",
        "asinh",
        "acosh",
        "atanh",
        "degrees",
        "radians",
        "abs",
        "ceil",
        "floor",
        "trunc",
        "sign",
    ),
    *("isnan", "isinf", "isfinite", "even", "round"),
)
_EXPRESSIONS = (
    *(
        "-{c}",
        "round({c}, 2)",
        "round({c}, -3)",
        "{c}::VARCHAR::DOUBLE",
        "{c}::VARCHAR::FLOAT",
        "{c}::DOUBLE",
    ),
    *("{c} + 1", "{c} * 2", "{c} / 3", "{c} * 0.5", "{c} - {c}", "{c} / {c}", "{c} % 3", "3.0::DOUBLE % {c}"),
    *("TRY_CAST({c} AS INTEGER)", "TRY_CAST({c} AS BIGINT)", "TRY_CAST({c} AS UBIGINT)", "{c}::BOOLEAN"),
    *("TRY_CAST({c} AS HUGEINT)", "TRY_CAST({c} AS DECIMAL(18,3))", "{c} = 0", "{c} < 1e-310", "{c} >= 0"),
    *("{c} IN (0, 1e-310, 2)", "{c} BETWEEN -1e-310 AND 1e-310", "{c} IS NOT DISTINCT FROM 'nan'::DOUBLE"),
    *("power({c}, 2)", "power({c}, 0.5)", "power(2, {c})", "power({c}, -1)", "log(2, {c})", "atan2({c}, 1)"),
    *(
        "coalesce(nullif({c}, 0), 7)",
        "({c} * 1e-300::DOUBLE)",
        "fmod({c}, 2)",
        "nextafter({c}::DOUBLE, 0::DOUBLE)",
    ),
)
_AGGREGATES = ("min", "max", "count", "median", "sum", "avg")


def _float32(value: float) -> float:
    if math.isfinite(value) and abs(value) > _FLOAT32_MAX:
        return math.copysign(_FLOAT32_MAX, value)
    found: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return found


@pytest.fixture(scope="module")
def both() -> tuple[Any, QueryMode]:
    singles = [*map(_float32, _DOUBLES)]
    columns = {"id": pa.array(range(len(_DOUBLES)), pa.int32()), "d": pa.array(_DOUBLES, pa.float64())}
    table = pa.table({**columns, "f": pa.array(singles, pa.float32())})
    oracle, ours = duckdb.connect(), QueryMode.local(threads=1)
    oracle.register("t", table)
    ours.register("t", table)
    return oracle, ours


def _same(ours: object, theirs: object, ulps: int) -> bool:
    if not isinstance(ours, float) or not isinstance(theirs, float):
        return ours == theirs
    if ours == theirs or (math.isnan(ours) and math.isnan(theirs)):
        return True
    if not math.isfinite(ours) or not math.isfinite(theirs):
        return False
    return abs(ours - theirs) <= ulps * max(math.ulp(ours), math.ulp(theirs))


def _check(both: tuple[Any, QueryMode], sql: str, ulps: int = 0) -> None:
    oracle, session = both
    theirs = oracle.sql(sql).fetchall()
    ours = [tuple(row.values()) for row in session.sql(sql).collect().rows]
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert all(_same(a, b, ulps) for a, b in zip(mine, other, strict=True)), (
            f"{sql}: {mine}, DuckDB {other}"
        )


@pytest.mark.parametrize("column", ["d", "f"])
def test_functions(both: tuple[Any, QueryMode], column: str) -> None:
    for name in _UNARY:
        _check(both, f"SELECT {column}, {name}({column}) AS r FROM t ORDER BY id", ulps=2)
    for expression in _EXPRESSIONS:
        text = expression.format(c=column)
        _check(both, f"SELECT {column}, {text} AS r FROM t ORDER BY id", ulps=2)


@pytest.mark.parametrize("column", ["d", "f"])
@pytest.mark.parametrize("sign", ["+", "-", "*", "/", "%", "<", "<=", "=", ">", "<>"])
def test_operators(both: tuple[Any, QueryMode], column: str, sign: str) -> None:
    _check(both, f"SELECT a.id, b.id, a.{column} {sign} b.{column} AS r FROM t a, t b ORDER BY 1, 2")


@pytest.mark.parametrize("column", ["d", "f"])
def test_order_groups_and_keys(both: tuple[Any, QueryMode], column: str) -> None:
    _check(both, f"SELECT id FROM t ORDER BY {column}, id")
    _check(both, f"SELECT id FROM t ORDER BY {column} DESC, id")
    _check(both, f"SELECT {column}, count(*) AS n FROM t GROUP BY {column} ORDER BY 1")
    _check(both, f"SELECT count(DISTINCT {column}) AS n FROM t")
    _check(both, f"SELECT a.id, b.id FROM t a JOIN t b ON a.{column} = b.{column} ORDER BY 1, 2")
    _check(both, "SELECT a.id, b.id FROM t a JOIN t b ON a.d = b.f ORDER BY 1, 2")
    _check(both, f"SELECT id FROM t WHERE {column} IN (SELECT {column} FROM t WHERE id < 9) ORDER BY 1")


@pytest.mark.parametrize("column", ["d", "f"])
def test_aggregates(both: tuple[Any, QueryMode], column: str) -> None:
    for name in _AGGREGATES:
        # Of values that no order of adding takes beyond the type.
        tame = "" if name in _AGGREGATES[:4] else f" WHERE abs({column}) < 1e30"
        _check(both, f"SELECT id % 7 AS g, {name}({column}) AS r FROM t{tame} GROUP BY 1 ORDER BY 1", ulps=4)
        _check(both, f"SELECT {name}({column}) AS r FROM t WHERE abs({column}) < 1e-300", ulps=4)


@pytest.mark.parametrize("column", ["d", "f"])
def test_what_lies_between(both: tuple[Any, QueryMode], column: str) -> None:
    """Every pair of values: their median and quantiles, to the last bit."""
    first = f"SELECT a.id AS i, b.id AS j, a.{column} AS x FROM t a, t b"
    pairs = f"{first} UNION ALL SELECT a.id, b.id, b.{column} FROM t a, t b"
    quantiles = ", ".join(
        f"quantile_cont(x, {part}) AS q{n}" for n, part in enumerate((0.1, 0.25, 0.3, 0.9, 0, 1))
    )
    _check(both, f"SELECT i, j, median(x) AS m, {quantiles} FROM ({pairs}) GROUP BY i, j ORDER BY i, j")


@pytest.mark.parametrize(
    "text",
    [
        *(
            "1e-310",
            "5e-324",
            "2e-324",
            "3e-324",
            "2.4703282292062327e-324",
            "2.4703282292062328e-324",
            "1e-400",
        ),
        *("1.7976931348623159e308", "1e309", "2.2250738585072011e-308", "1e-45", "7e-46", "8e-46", "3.5e38"),
        *("3.4028236e38", "nan", "inf", "-inf", "1e23", "8.41e21", "9007199254740993", "1.0000000596046448"),
        "1.00000005960464477539062500001",
    ],
)
def test_texts(both: tuple[Any, QueryMode], text: str) -> None:
    casts = f"TRY_CAST('{text}' AS DOUBLE) AS a, TRY_CAST('{text}' AS FLOAT) AS b"
    read = "TRY_CAST(x AS DOUBLE) AS c, TRY_CAST(x AS FLOAT) AS d, TRY_CAST(x AS DOUBLE)::VARCHAR AS e"
    _check(both, f"SELECT {casts}, {read} FROM (VALUES ('{text}')) AS v(x)")
