"""Binding: which type constants take, which types meet in which, and what three-valued logic gives."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any
from uuid import UUID

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from querymode import DataFrame, QueryMode, col, lit
from tests.raises import raises_code


def frame(values: Any, data_type: Any) -> DataFrame:
    return QueryMode.from_arrow(pa.table({"x": pa.array(values, data_type), "row": range(len(values))}))


def matching(values: Any, data_type: Any, condition: Any) -> list[int]:
    return [row["row"] for row in frame(values, data_type).filter(condition).select("row").rows]


x = col("x")
NOON = dt.datetime(2021, 1, 1, 12)
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("values", "data_type", "condition", "expected"),
    [
        # out of range of the column's type
        ([1, 127], pa.int8(), x > 1000, []),
        ([1, 127], pa.int8(), x < 1000, [0, 1]),
        ([1, 127], pa.int8(), x == 1000, []),
        ([1, 127], pa.int8(), x != 1000, [0, 1]),
        ([1, 127], pa.int8(), x.is_in([1, 1000]), [0]),
        ([1, 127], pa.int8(), x.between(-1000, 1000), [0, 1]),
        ([0, 255], pa.uint8(), x > -1, [0, 1]),
        ([0, (1 << 64) - 1], pa.uint64(), x == (1 << 64) - 1, [1]),
        ([0, (1 << 64) - 1], pa.uint64(), x > -1, [0, 1]),
        ([0, (1 << 64) - 1], pa.uint64(), x < 1 << 100, [0, 1]),
        ([0, (1 << 64) - 1], pa.uint64(), x.is_in([(1 << 64) - 1, -1]), [1]),
        # numbers of another kind
        ([1, 2], pa.int32(), x == 1.0, [0]),
        ([1, 2], pa.int32(), x == 1.5, []),
        ([1, 2], pa.int32(), x > 1.5, [1]),
        ([1, 2], pa.int32(), x < INF, [0, 1]),
        ([1, 2], pa.int32(), x < NAN, [0, 1]),
        ([1, 2], pa.int32(), x == Decimal("1.00"), [0]),
        ([1, 2], pa.int32(), x > Decimal("1.5"), [1]),
        ([1.0, 2.5], pa.float64(), x == 1, [0]),
        ([1.0, 2.5], pa.float64(), x == Decimal("2.5"), [1]),
        ([1.0, 2.5], pa.float64(), x.is_in([1, 2.5]), [0, 1]),
        ([1.0, 2.0**60], pa.float64(), x.is_in([1, (1 << 60) + 1]), [0, 1]),
        ([0.1, 0.2], pa.float32(), x == 0.1, [0]),
        ([0.1, 0.2], pa.float32(), x > 1e300, []),
        (np.array([1.0, 2.5], np.float16), pa.float16(), x > 1, [1]),
        (np.array([1.0, 2.5], np.float16), pa.float16(), x == 2.5, [1]),
        # decimals
        ([Decimal("1.05"), Decimal("2.00")], pa.decimal128(9, 2), x == 1.05, [0]),
        ([Decimal("1.05"), Decimal("2.00")], pa.decimal128(9, 2), x > 1.051, [1]),
        ([Decimal("1.05"), Decimal("2.00")], pa.decimal128(9, 2), x == Decimal("1.0500"), [0]),
        ([Decimal("1.05"), Decimal("2.00")], pa.decimal128(9, 2), x > Decimal("1e-30"), [0, 1]),
        ([Decimal("1.05"), Decimal("2.00")], pa.decimal128(9, 2), x.is_in([1.05, 2]), [0, 1]),
        ([Decimal("1.05"), Decimal("2.00")], pa.decimal128(9, 2), x < INF, [0, 1]),
        ([Decimal("12300")], pa.decimal128(5, -2), x == 12300, [0]),
        ([Decimal("12300")], pa.decimal128(5, -2), x > 12345, []),
        # dates and times
        ([dt.date(2020, 1, 1), dt.date(2021, 1, 1)], pa.date32(), x >= "2020-06-01", [1]),
        ([dt.date(2020, 1, 1), dt.date(2021, 1, 1)], pa.date32(), x == dt.datetime(2020, 1, 1), [0]),
        ([dt.date(2020, 1, 1), dt.date(2021, 1, 1)], pa.date32(), x < dt.datetime(2020, 1, 1, 1), [0]),
        ([dt.date(2020, 1, 1), dt.date(2021, 1, 1)], pa.date32(), x.between("2020-01-01", "2020-12-31"), [0]),
        ([dt.datetime(2020, 1, 1), NOON], pa.timestamp("us"), x > "2020-06-01", [1]),
        ([dt.datetime(2020, 1, 1), NOON], pa.timestamp("us"), x == "2021-01-01T12:00:00", [1]),
        ([dt.datetime(2020, 1, 1), NOON], pa.timestamp("us"), x > dt.date(2020, 6, 1), [1]),
        ([dt.datetime(2020, 1, 1), NOON], pa.timestamp("s"), x < dt.datetime(2020, 1, 1, 0, 0, 0, 5), [0]),
        ([dt.datetime(2020, 1, 1), NOON], pa.timestamp("s"), x == dt.datetime(2020, 1, 1, 0, 0, 0, 5), []),
        ([0, 1], pa.timestamp("ns"), x > dt.datetime(1970, 1, 1), [1]),
        ([0, 1], pa.timestamp("ns"), x == "1970-01-01 00:00:00.000000001", [1]),
        ([0, 1], pa.timestamp("us", "Europe/Berlin"), x == dt.datetime(1970, 1, 1, tzinfo=dt.UTC), [0]),
        ([0, 1], pa.timestamp("us", "Europe/Berlin"), x == "1970-01-01T01:00:00+01:00", [0]),
        ([0, 1], pa.timestamp("us", "UTC"), x == dt.datetime(1970, 1, 1), [0]),
        ([0, 1], pa.timestamp("ms", "UTC"), x.between(dt.date(1970, 1, 1), dt.date(1970, 1, 1)), [0]),
        ([0, 1], pa.timestamp("us"), x.is_in([dt.datetime(1970, 1, 1, tzinfo=dt.UTC)]), [0]),
        ([dt.time(1), dt.time(2)], pa.time64("us"), x < "01:30", [0]),
        ([dt.time(1), dt.time(2)], pa.time32("s"), x < dt.time(1, 0, 0, 5), [0]),
        ([dt.timedelta(1), dt.timedelta(2)], pa.duration("us"), x == dt.timedelta(hours=24), [0]),
        # bytes
        ([UUID(int=1).bytes, UUID(int=2).bytes], pa.binary(16), x == UUID(int=1), [0]),
        ([UUID(int=1).bytes, UUID(int=2).bytes], pa.binary(16), x.is_in([UUID(int=2), None]), [1]),
        ([UUID(int=1).bytes, UUID(int=2).bytes], pa.binary(16), x > UUID(int=1), [1]),
        ([b"a", b"\xff"], pa.binary(), x > b"b", [1]),
        # truth values and whole numbers
        ([True, False, None], pa.bool_(), x == 1, [0]),
        ([True, False, None], pa.bool_(), x.is_in([0, 2]), [1]),
        ([1, 0, 2], pa.int64(), x == True, [0]),  # noqa: E712
        ([1, 0, 2], pa.int8(), x.is_in([False]), [1]),
        # scalars of libraries
        ([1, 2], pa.int64(), x > np.int8(1), [1]),
        ([1, 2], pa.int64(), x > np.float32(1.5), [1]),
        ([1, 2], pa.int64(), x == pa.scalar(2), [1]),
        ([1, 2], pa.int64(), x.is_in(np.array([2, 3])), [1]),
        ([1, 2], pa.int64(), x.is_in(pa.array([2, None])), [1]),
        ([NOON], pa.timestamp("us"), x == np.datetime64("2021-01-01T12:00"), [0]),
        ([NOON], pa.timestamp("us"), x == np.datetime64("2021-01-01T12:00", "ns"), [0]),
    ],
)
def test_constant_beside_a_column(values: Any, data_type: Any, condition: Any, expected: list[int]) -> None:
    assert matching(values, data_type, condition) == expected


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        (pa.timestamp("us", "Europe/Berlin"), dt.datetime(2020, 1, 1)),
        (pa.timestamp("us", "Europe/Berlin"), dt.date(2020, 1, 1)),
        (pa.time64("us"), dt.date(2020, 1, 1)),
        (pa.binary(16), b"short"),
        (pa.binary(), "text"),
        (pa.string(), b"bytes"),
        (pa.bool_(), 1.5),
        (pa.float64(), True),
        (pa.int64(), dt.timedelta(1)),
        (pa.list_(pa.int64()), 1),
        (pa.struct([("a", pa.int64())]), 1),
    ],
)
def test_what_cannot_be_compared(data_type: Any, value: Any) -> None:
    for condition in (x == value, x.is_in([value]), x.between(value, value)):
        with raises_code("INVALID_FILTER") as caught:
            frame([None], data_type).filter(condition)
        assert "x" in caught.value.message


THREE = frame([1, 5, None], pa.int64())


@pytest.mark.parametrize(
    ("condition", "sql"),
    [
        (x == 5, "x = 5"),
        (x == None, "x = NULL"),  # noqa: E711
        (lit(None) == 5, "NULL = 5"),
        (x.is_in([1, 2]), "x IN (1, 2)"),
        (x.is_in([1, 2, None]), "x IN (1, 2, NULL)"),
        (x.not_in([1, 2, None]), "x NOT IN (1, 2, NULL)"),
        (x.not_in([9]), "x NOT IN (9)"),
        (x.is_in([None]), "x IN (NULL)"),
        (x.is_in([]), "x IN ()"),
        (x.not_in([]), "x NOT IN ()"),
        (x.between(None, 3), "x BETWEEN NULL AND 3"),
        (x.not_between(None, 3), "x NOT BETWEEN NULL AND 3"),
        (x.between(5, 1), "x BETWEEN 5 AND 1"),
        ((x == 5) & lit(None), "x = 5 AND NULL"),
        ((x == 5) | lit(None), "x = 5 OR NULL"),
        ((x == 5) & lit(True), "x = 5 AND true"),
        ((x == 5) | lit(True), "x = 5 OR true"),
        (~(x == 5), "NOT (x = 5)"),
        (~lit(None), "NOT NULL"),
        (x.is_null(), "x IS NULL"),
        ((x == None).is_null(), "(x = NULL) IS NULL"),  # noqa: E711
        (x + None == 5, "x + NULL = 5"),
        (-x, "-x"),
        (x * None, "x * NULL"),
        (x / 0, "x / 0"),
        (x - x / x, "x - x / x"),
    ],
)
def test_null_logic_is_sql(condition: Any, sql: str) -> None:
    oracle = duckdb.connect()
    oracle.register("t", THREE.to_arrow())
    expected = [row[0] for row in oracle.sql(f"SELECT {sql} FROM t ORDER BY row").fetchall()]
    assert [row["y"] for row in THREE.select(condition.alias("y")).rows] == expected


@pytest.mark.parametrize(
    "data_type", [pa.bool_(), pa.int64(), pa.string(), pa.binary(2), pa.float64(), pa.null()]
)
def test_nothing_is_in_an_empty_list(data_type: Any) -> None:
    """For every type alike: NULL IN () is NULL, as in DuckDB."""
    assert matching([None, None], data_type, x.is_in([])) == []
    assert matching([None, None], data_type, x.not_in([])) == []


TYPES = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(),
    "USMALLINT": pa.uint16(),
    "UINTEGER": pa.uint32(),
    "UBIGINT": pa.uint64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DECIMAL(4,1)": pa.decimal128(4, 1),
    "DECIMAL(9,2)": pa.decimal128(9, 2),
    "DECIMAL(18,4)": pa.decimal128(18, 4),
    "DECIMAL(38,10)": pa.decimal128(38, 10),
}


@pytest.mark.parametrize("sign", ["+", "-", "*", "/", "//", "%"])
def test_types_of_arithmetic_are_duckdbs(sign: str) -> None:
    """Every pair of number types, by the values and by the type."""
    names = [f"c{index}" for index in range(len(TYPES))]
    one = pa.table(
        {name: pa.array([1], data_type) for name, data_type in zip(names, TYPES.values(), strict=True)}
    )
    pairs = [(a, b) for a in names for b in names]
    calls = {
        "+": "__add__",
        "-": "__sub__",
        "*": "__mul__",
        "/": "__truediv__",
        "//": "__floordiv__",
        "%": "__mod__",
    }
    ours = QueryMode.from_arrow(one).select(
        *[getattr(col(a), calls[sign])(col(b)).alias(f"{a}{b}") for a, b in pairs]
    )
    oracle = duckdb.connect()
    oracle.register("t", one)
    sql = "SELECT " + ", ".join(f"{a} {sign} {b} AS {a}{b}" for a, b in pairs) + " FROM t"
    theirs = oracle.sql(sql)
    kinds = dict(zip(names, TYPES, strict=True))
    found = ours.to_arrow()
    expected = theirs.to_arrow_table()
    types = [(found.schema.field(a + b).type, expected.schema.field(a + b).type) for a, b in pairs]
    wrong = [
        f"{kinds[a]} {sign} {kinds[b]} is {given}, not {right}"
        for (a, b), (given, right) in zip(pairs, types, strict=True)
        if given != right
    ]
    assert not wrong, "\n".join(wrong)
    assert found.to_pylist() == expected.to_pylist()


def test_types_of_constants_beside_columns() -> None:
    one = QueryMode.from_arrow(pa.table({"i8": pa.array([1], pa.int8()), "f": pa.array([1], pa.float32())}))
    chosen = one.select(
        (col("i8") + 1).alias("a"), (col("f") * 1.19).alias("b"), (col("i8") * 1.5).alias("c")
    )
    assert chosen.dtypes() == {"a": "int8", "b": "float32", "c": "float64"}


WIDE = "9" * 38


@pytest.mark.parametrize(
    ("a", "b", "precision", "scale", "sign"),
    [
        (WIDE, "1", 38, 0, "__add__"),
        ("-" + WIDE, "1", 38, 0, "__sub__"),
        (WIDE, "2", 38, 0, "__mul__"),
        ("31000.0000", "380000.0000", 18, 4, "__mul__"),  # 19 digits, which 64 bits can hold
        ("31000.0000", "99999999999.0000", 18, 4, "__mul__"),
    ],
)
def test_a_decimal_beyond_its_digits_is_an_error(
    a: str, b: str, precision: int, scale: int, sign: str
) -> None:
    kind = pa.decimal128(precision, scale)
    pair = QueryMode.from_arrow(
        pa.table({"a": pa.array([Decimal(a)], kind), "b": pa.array([Decimal(b)], kind)})
    )
    with raises_code("QUERY_FAILED"):
        pair.select(getattr(col("a"), sign)(col("b")).alias("x")).collect()


def test_a_sum_of_decimals_beyond_38_digits_is_an_error() -> None:
    values = frame([Decimal(WIDE), Decimal("5" + "0" * 37)], pa.decimal128(38, 0))
    with raises_code("QUERY_FAILED"):
        values.agg(x.sum()).collect()
    # On the way it may be beyond them.
    half = "5" + "0" * 37
    there_and_back = frame([Decimal(WIDE), Decimal(half), Decimal("-" + half)], pa.decimal128(38, 0))
    assert there_and_back.agg(x.sum().alias("x")).rows == [{"x": Decimal(WIDE)}]


def test_the_largest_unsigned_beside_a_decimal() -> None:
    """It has 20 digits, one more than the largest signed one."""
    both = QueryMode.from_arrow(
        pa.table(
            {
                "u": pa.array([(1 << 64) - 1], pa.uint64()),
                "d": pa.array([Decimal("1.50")], pa.decimal128(9, 2)),
            }
        )
    )
    assert both.filter(col("u") > col("d")).count() == 1
    assert both.select((col("u") + col("d")).alias("x")).rows == [{"x": Decimal("18446744073709551616.50")}]


INT64_MAX = (1 << 63) - 1


@pytest.mark.parametrize(
    ("value", "data_type", "expression", "named"),
    [
        (INT64_MAX, pa.int64(), x + 1, [str(INT64_MAX), "1"]),
        (INT64_MAX, pa.int64(), x * x, [str(INT64_MAX)]),
        (-INT64_MAX - 1, pa.int64(), -x, [str(-INT64_MAX - 1)]),
        (-INT64_MAX - 1, pa.int64(), x // -1, [str(-INT64_MAX - 1), "-1"]),
        (127, pa.int8(), x + 1, ["127", "1"]),
        (0, pa.uint8(), x - 1, ["0", "1"]),
        (7, pa.int64(), x // 0, ["7", "zero"]),
        (7, pa.int64(), x % 0, ["7", "zero"]),
        (7.5, pa.float64(), x // 0, ["7.5", "zero"]),
        (300, pa.int64(), x.cast("int8"), ["300"]),
        (NAN, pa.float64(), x.cast("int64"), ["nan"]),
        (1e30, pa.float64(), x.cast("int64"), ["1"]),
    ],
)
def test_failing_arithmetic_names_the_values(
    value: Any, data_type: Any, expression: Any, named: list[str]
) -> None:
    with raises_code("QUERY_FAILED") as caught:
        frame([value], data_type).select(expression.alias("y")).collect()
    assert all(part in caught.value.message for part in named), caught.value.message


def test_division_by_zero_of_floats_is_infinite() -> None:
    got = frame([1.0, -1.0, 0.0, None], pa.float64()).select((x / 0).alias("y"), (x % 0).alias("z")).rows
    assert [row["y"] for row in got[:2]] == [INF, -INF]
    assert got[2]["y"] != got[2]["y"]
    assert got[0]["z"] != got[0]["z"]
    assert got[3] == {"y": None, "z": None}


def test_null_rows_do_not_fail() -> None:
    """What lies under a NULL is nobody's value."""
    hidden = pa.Array.from_buffers(
        pa.int64(), 2, [pa.py_buffer(b"\x02"), pa.array([INT64_MAX, 1]).buffers()[1]]
    )
    assert frame(hidden, pa.int64()).select((x + 1).alias("y")).rows == [{"y": None}, {"y": 2}]
    assert frame(hidden, pa.int64()).select(x.cast("int8").alias("y")).rows == [{"y": None}, {"y": 1}]


ZEROS = QueryMode.from_arrow(pa.table({"a": [10, 20, 30], "b": [0, 2, None], "c": [1, None, 3]}))
QUOTIENT = col("a") // col("b")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (lambda f: f.filter(col("b") != 0).select(QUOTIENT.alias("x")), [{"x": 10}]),
        (lambda f: f.filter(col("b") != 0).filter(QUOTIENT > 1).select("a"), [{"a": 20}]),
        (lambda f: f.filter((col("b") != 0) & (QUOTIENT > 1)).select("a"), [{"a": 20}]),
        (lambda f: f.filter((col("b") == 0) | (QUOTIENT > 1)).select("a"), [{"a": 10}, {"a": 20}]),
        (lambda f: f.filter(col("b") != 0).agg(QUOTIENT.sum().alias("x")), [{"x": 10}]),
        (
            lambda f: f.filter(col("b") != 0).group_by("c").agg(QUOTIENT.sum().alias("x")),
            [{"c": None, "x": 10}],
        ),
        (lambda f: f.filter(col("b") != 0).group_by(QUOTIENT.alias("k")).count(), [{"k": 10, "count": 1}]),
        (lambda f: f.filter(col("b") != 0).sort(QUOTIENT).select("a"), [{"a": 20}]),
        (lambda f: f.offset(1).limit(1).filter(QUOTIENT > 1).select("a"), [{"a": 20}]),
    ],
)
def test_rows_that_are_filtered_out_do_not_fail(query: Any, expected: list[Any]) -> None:
    assert query(ZEROS).rows == expected
