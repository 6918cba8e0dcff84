"""DataFrame: terminals, limit and offset, sort, aggregates, and tables from text and rows."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from querymode import DataFrame, QueryMode, col, lit
from tests.raises import raises_code

HUNDRED = QueryMode.from_arrow(pa.table({"n": list(range(100))}))
EMPTY = QueryMode.from_arrow(pa.table({"n": pa.array([], pa.int64()), "s": pa.array([], pa.string())}))


def numbers(frame: DataFrame) -> list[Any]:
    return [row["n"] for row in frame.rows]


def refused(code: str, ask: Any) -> str:
    with raises_code(code) as caught:
        ask()
    return caught.value.message


# ---- limit and offset ----


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (lambda f: f.limit(20).offset(40), range(40, 60)),
        (lambda f: f.offset(40).limit(20), range(40, 60)),
        (lambda f: f.offset(40).offset(5).limit(3), range(45, 48)),
        (lambda f: f.limit(5).limit(10), range(5)),
        (lambda f: f.limit(10).limit(5), range(5)),
        (lambda f: f.limit(20).offset(90), range(90, 100)),
        (lambda f: f.offset(200), range(0)),
        (lambda f: f.limit(0), range(0)),
        (lambda f: f.head(), range(5)),
        (lambda f: f.head(2), range(2)),
        (lambda f: f.limit(10).filter(col("n") > 5).limit(2), range(6, 8)),
        (lambda f: f.filter(col("n") > 5).limit(10).filter(col("n") > 6).offset(1), range(8, 16)),
        (lambda f: f.limit(10).sort("n", "desc").limit(2), [9, 8]),
        (lambda f: f.sort("n", "desc").offset(97), [2, 1, 0]),
        (lambda f: f.sort("n", "desc").limit(3).offset(1).sort("n"), [96, 97, 98]),
        (lambda f: f.limit((1 << 63) - 1).offset(98), [98, 99]),
        (lambda f: f.sort("n").limit((1 << 63) - 1).offset(98), [98, 99]),
        (lambda f: f.offset((1 << 63) - 1), []),
    ],
)
@pytest.mark.parametrize("rows", [1, 7, 1 << 20])
def test_limit_and_offset(query: Any, expected: Any, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("querymode.table.from_arrow.morsel_rows", lambda size, count: rows)
    frame = query(QueryMode.from_arrow(pa.table({"n": list(range(100))})))
    assert numbers(frame) == list(expected)
    assert frame.count() == len(expected)
    assert frame.exists() == bool(expected)
    assert frame.first() == ({"n": expected[0]} if expected else None)


@pytest.mark.parametrize("count", [-1, 1.0, "5", None, True, 1 << 63])
def test_limit_takes_a_count(count: Any) -> None:
    refused("QUERY_FAILED", lambda: HUNDRED.limit(count))
    refused("QUERY_FAILED", lambda: HUNDRED.offset(count))


# ---- sort ----


def test_sort() -> None:
    table = QueryMode.from_arrow(pa.table({"n": [2, None, 1], "amount": [1.0, math.nan, None]}))
    assert numbers(table.sort("n")) == [1, 2, None]
    assert numbers(table.sort("n", "asc")) == [1, 2, None]
    assert numbers(table.sort("n", "desc")) == [2, 1, None]
    assert numbers(table.sort("n", "DESC")) == [2, 1, None]
    assert numbers(table.sort("n", descending=True)) == [2, 1, None]
    assert numbers(table.sort("n", nulls_first=True)) == [None, 1, 2]
    assert numbers(table.sort("n", "desc", nulls_first=True)) == [None, 2, 1]
    assert numbers(table.sort("amount", "desc")) == [None, 2, 1]  # NaN is the largest
    assert numbers(table.sort(-col("n"))) == [2, 1, None]
    assert numbers(table.sort(lit(1)).limit(1)) == [2]


def test_sort_by_columns_that_are_called_like_directions() -> None:
    table = QueryMode.from_arrow(pa.table({"n": [1, 1, 0], "desc": [2, 1, 3]}))
    assert table.sort("n", "desc").rows == [
        {"n": 0, "desc": 3},
        {"n": 1, "desc": 1},
        {"n": 1, "desc": 2},
    ]


def test_sort_by_several() -> None:
    table = QueryMode.from_arrow(pa.table({"a": [1, 1, 2], "n": [1, 2, 3]}))
    assert numbers(table.sort("a", "n", descending=[True, False])) == [3, 1, 2]
    assert numbers(table.sort("a", "n", descending=[False, True])) == [2, 1, 3]
    assert numbers(table.sort("a", "n", descending=True)) == [3, 2, 1]
    assert numbers(table.sort(["a", "n"])) == [1, 2, 3]


def test_sort_mistakes() -> None:
    refused("QUERY_FAILED", lambda: HUNDRED.sort())
    refused("QUERY_FAILED", lambda: HUNDRED.sort("n", descending=[True, False]))
    refused("QUERY_FAILED", lambda: HUNDRED.sort(1))  # type: ignore[arg-type]
    refused("COLUMN_NOT_FOUND", lambda: HUNDRED.sort("m"))
    refused("COLUMN_NOT_FOUND", lambda: HUNDRED.sort("n", "down"))
    refused("NOT_SUPPORTED", lambda: QueryMode.from_arrow(pa.table({"l": [[1]]})).sort("l"))


# ---- columns ----


def test_select() -> None:
    table = QueryMode.from_arrow(pa.table({"a": [1], "b": [2]}))
    assert table.select("b", "a").columns == ["b", "a"]
    assert table.select(["b"]).rows == [{"b": 2}]
    assert table.select((col("a") + col("b")).alias("c")).rows == [{"c": 3}]
    assert table.select(col("a") + 1).columns == ["(col('a') + 1)"]
    constants = table.select(lit(5).alias("x"), lit("é").alias("y"), lit(None).alias("z"))
    assert constants.rows == [{"x": 5, "y": "é", "z": None}]
    assert constants.dtypes() == {"x": "int64", "y": "utf8", "z": "null"}
    assert "'b'" in refused(
        "COLUMN_NOT_FOUND", lambda: QueryMode.from_arrow(pa.table({"B": [1]})).select("b")
    )
    refused("SCHEMA_MISMATCH", lambda: table.select("a", "a"))
    refused("QUERY_FAILED", lambda: table.select())
    refused("QUERY_FAILED", lambda: table.select(5))  # type: ignore[arg-type]


def test_a_column_may_have_any_name() -> None:
    names = ["", "a b", "é", "日本", 'say "x"', "select", "a" * 300, "\x00"]
    table = QueryMode.from_arrow(pa.table([[index] for index in range(len(names))], names))
    assert table.rows == [{name: index for index, name in enumerate(names)}]
    for index, name in enumerate(names):
        assert table.filter(col(name) == index).count() == 1


def test_dtypes() -> None:
    fields = {
        "int8": pa.int8(),
        "uint64": pa.uint64(),
        "float16": pa.float16(),
        "float32": pa.float32(),
        "float64": pa.float64(),
        "bool": pa.bool_(),
        "utf8": pa.large_string(),
        "binary": pa.binary(),
        "fixed_binary(4)": pa.binary(4),
        "decimal(9,2)": pa.decimal128(9, 2),
        "date": pa.date32(),
        "time(us)": pa.time64("us"),
        "timestamp(s)": pa.timestamp("s"),
        "timestamp(ns, Europe/Berlin)": pa.timestamp("ns", "Europe/Berlin"),
        "interval": pa.month_day_nano_interval(),
        "list<int64>": pa.list_(pa.int64()),
        "struct<a: int64>": pa.struct([("a", pa.int64())]),
        "map<utf8, int64>": pa.map_(pa.string(), pa.int64()),
        "vector(f32, 3)": pa.list_(pa.float32(), 3),
        "null": pa.null(),
    }
    table = pa.table({name: pa.array([None], data_type) for name, data_type in fields.items()})
    frame = QueryMode.from_arrow(table)
    assert frame.dtypes() == {name: name for name in fields}
    assert frame.collect().dtypes() == frame.dtypes()
    assert "int8: int8" in repr(frame)


# ---- terminals on nothing ----


def test_an_empty_table() -> None:
    assert (EMPTY.count(), EMPTY.first(), EMPTY.exists(), EMPTY.rows, EMPTY.shape()) == (
        0,
        None,
        False,
        [],
        (0, 2),
    )
    assert [(field.name, str(field.type)) for field in EMPTY.to_arrow().schema] == [
        ("n", "int64"),
        ("s", "string"),
    ]
    assert EMPTY.filter(col("n") > 1).select("s").sort("s").limit(3).rows == []
    assert EMPTY.group_by("s").agg(col("n").sum()).rows == []
    assert EMPTY.collect().row_count == 0


@pytest.mark.parametrize("frame", [EMPTY, EMPTY.filter(lit(False)), HUNDRED.filter(col("n") > 1000)])
def test_aggregates_over_no_rows(frame: DataFrame) -> None:
    calls = [getattr(col("n"), name)().alias(name) for name in ("sum", "min", "max", "avg", "count")]
    nothing = {"sum": None, "min": None, "max": None, "avg": None, "count": 0}
    assert frame.agg(*calls).rows == [nothing]
    assert frame.aggregate("count").rows == [{"count": 0}]


def test_a_table_without_columns_has_rows() -> None:
    assert QueryMode.from_arrow(pa.table({"a": [1, 2]}).select([])).count() == 2


# ---- aggregates ----


@pytest.mark.parametrize(
    ("data_type", "value"),
    [(pa.int64(), (1 << 63) - 1), (pa.int64(), -(1 << 63)), (pa.uint64(), (1 << 64) - 1), (pa.int8(), -128)],
)
def test_sums_of_integers_are_exact(data_type: Any, value: int) -> None:
    frame = QueryMode.from_arrow(pa.table({"n": pa.array([value] * 3 + [None], data_type)}))
    answer = frame.agg(col("n").sum().alias("sum"), col("n").avg().alias("avg"))
    assert answer.rows == [{"sum": 3 * value, "avg": float(value)}]
    assert type(answer.rows[0]["sum"]) is int
    assert answer.dtypes() == {"sum": "int128", "avg": "float64"}
    assert answer.to_arrow().schema.field("sum").type == pa.decimal128(38, 0)


def test_aggregate_forms() -> None:
    table = QueryMode.from_arrow(pa.table({"k": ["a", "b", "a"], "n": [1, 2, 4]}))
    assert table.aggregate("sum", "n", "total").rows == [{"total": 7}]
    assert table.aggregate("mean", "n").rows == [{"avg_n": 7 / 3}]
    assert table.aggregate("count", "*", "rows").rows == [{"rows": 3}]
    assert table.select(col("n").max(), col("n").min().alias("low")).rows == [{"max_n": 4, "low": 1}]
    grouped = [{"k": "a", "total": 5}, {"k": "b", "total": 2}]
    assert table.group_by("k").agg(col("n").sum().alias("total")).sort("k").rows == grouped
    assert table.group_by("k").aggregate("sum", "n", "total").sort("k").rows == grouped
    assert table.group_by("k").count().sort("k").rows == [{"k": "a", "count": 2}, {"k": "b", "count": 1}]
    assert table.group_by((col("n") % 2).alias("odd")).count().sort("odd").rows == [
        {"odd": 0, "count": 2},
        {"odd": 1, "count": 1},
    ]
    sums = table.agg((col("n") * 2).sum().alias("x"), col("n").cast("float64").sum().alias("y"))
    assert sums.rows == [{"x": 14, "y": 7.0}]
    kept = table.group_by("k").agg(col("n").sum().alias("total")).filter(col("total") > 2)
    assert kept.select((col("total") + 1).alias("x")).rows == [{"x": 6}]


def test_groups_of_special_values() -> None:
    table = QueryMode.from_arrow(pa.table({"k": [0.0, -0.0, math.nan, math.nan, None, None], "n": [1] * 6}))
    rows = table.group_by("k").agg(col("n").sum().alias("n")).sort("k").rows
    assert [row["n"] for row in rows] == [2, 2, 2]
    assert rows[0]["k"] == 0.0
    assert math.isnan(rows[1]["k"])
    assert rows[2]["k"] is None


def test_aggregates_of_other_types() -> None:
    days = [dt.date(2020, 1, 2), dt.date(1969, 1, 1), None]
    table = pa.table({"s": ["é", "", "z"], "b": [True, False, None], "d": days, "x": [b"\xff", b"", None]})
    frame = QueryMode.from_arrow(table)
    for name, low, high in (("s", "", "é"), ("b", False, True), ("d", days[1], days[0]), ("x", b"", b"\xff")):
        assert frame.agg(col(name).min().alias("a"), col(name).max().alias("b")).rows == [
            {"a": low, "b": high}
        ]
    assert frame.agg(col("b").sum().alias("x")).rows == [{"x": 1}]


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        (lambda f: f.agg(col("s").sum()), "INVALID_AGGREGATE"),
        (lambda f: f.agg(col("s").avg()), "INVALID_AGGREGATE"),
        (lambda f: f.agg(col("b").avg()), "INVALID_AGGREGATE"),
        (lambda f: f.agg(col("l").min()), "INVALID_AGGREGATE"),
        (lambda f: f.agg(), "INVALID_AGGREGATE"),
        (lambda f: f.agg(col("s")), "INVALID_AGGREGATE"),
        (lambda f: f.agg("s"), "INVALID_AGGREGATE"),
        (lambda f: f.select("s", col("s").max()), "INVALID_AGGREGATE"),
        (lambda f: f.aggregate("middle", "s"), "INVALID_AGGREGATE"),
        (lambda f: f.aggregate("sum"), "INVALID_AGGREGATE"),
        (lambda f: f.aggregate(5, "s"), "INVALID_AGGREGATE"),
        (lambda f: f.aggregate("max", "S"), "COLUMN_NOT_FOUND"),
        (lambda f: f.group_by(), "INVALID_AGGREGATE"),
        (lambda f: f.group_by("S"), "COLUMN_NOT_FOUND"),
        (lambda f: f.group_by("l").count(), "NOT_SUPPORTED"),
        (lambda f: f.group_by("s").agg(col("s")), "INVALID_AGGREGATE"),
        (lambda f: f.agg(col("s").max(), col("s").max()), "SCHEMA_MISMATCH"),
    ],
)
def test_aggregate_mistakes(ask: Any, code: str) -> None:
    frame = QueryMode.from_arrow(pa.table({"s": ["a"], "b": [True], "l": [[1]]}))
    refused(code, lambda: ask(frame))


# ---- sessions ----


def test_register_and_table() -> None:
    session = QueryMode.local(threads=1, memory="64MiB")
    session.register("numbers", HUNDRED)
    session.register("words", pa.table({"w": ["a"]}))
    assert session.table("numbers").count() == 100
    assert session.table("words").rows == [{"w": "a"}]
    message = refused("TABLE_NOT_FOUND", lambda: session.table("number"))
    assert "numbers" in message
    assert "words" in message
    refused("TABLE_NOT_FOUND", lambda: session.register("", HUNDRED))
    refused("INVALID_FORMAT", lambda: session.register("x", {"a": [1]}))


@pytest.mark.parametrize(
    "options",
    [
        {"memory": "1MiB"},
        {"memory": "many"},
        {"memory": -1},
        {"memory": True},
        {"threads": 0},
        {"threads": 1.5},
        {"timeout": 0},
        {"timeout": "1s"},
    ],
)
def test_settings_are_checked(options: dict[str, Any]) -> None:
    message = refused("QUERY_FAILED", lambda: QueryMode.local(**options))
    assert next(iter(options)) in message


# ---- tables from text and rows ----


def test_csv_types_and_quotes() -> None:
    frame = QueryMode.from_csv('a,b,c,d,e\n1,"x, ""y""\nz",2020-01-01,1.5,true\n2,,,,\n')
    assert frame.dtypes() == {"a": "int64", "b": "utf8", "c": "date", "d": "float64", "e": "bool"}
    assert frame.rows == [
        {"a": 1, "b": 'x, "y"\nz', "c": dt.date(2020, 1, 1), "d": 1.5, "e": True},
        {"a": 2, "b": None, "c": None, "d": None, "e": None},
    ]


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("\ufeffa;b\r\n1;2\r\n", {}, [{"a": 1, "b": 2}]),
        ("a\tb\n1\té\n", {}, [{"a": 1, "b": "é"}]),
        ("1,2\n3,4\n", {"header": False}, [{"column0": 1, "column1": 2}, {"column0": 3, "column1": 4}]),
        ("a,b\n01,2\n", {"infer_types": False}, [{"a": "01", "b": "2"}]),
        ("a|b\n1,5|2\n", {"delimiter": "|"}, [{"a": "1,5", "b": 2}]),
        ("a,b\n'x,y',2\n", {"quote": "'"}, [{"a": "x,y", "b": 2}]),
        ("a,b\n", {}, []),
        ("a,b\n", {"header": True}, []),
        ("a,b", {"header": True}, []),
        (b"a,b\n1,2", {}, [{"a": 1, "b": 2}]),
    ],
)
def test_csv(text: Any, options: dict[str, Any], expected: list[Any]) -> None:
    frame = QueryMode.from_csv(text, **options)
    assert frame.rows == expected
    assert frame.count() == len(expected)
    if not expected:
        assert frame.columns == ["a", "b"]
        assert frame.first() is None
        assert not frame.exists()


@pytest.mark.parametrize("text", ["a,b\n1,2,3\n", "a,b\n1,2\n3\n", 'a\n"open\n', b"a\n\xff\n"])
def test_broken_csv_names_the_line(text: Any) -> None:
    assert "line" in refused("INVALID_FORMAT", lambda: QueryMode.from_csv(text).rows)


def test_csv_options_are_checked() -> None:
    refused("INVALID_FORMAT", lambda: QueryMode.from_csv("a", delimiter=",,"))
    refused("INVALID_FORMAT", lambda: QueryMode.from_csv("a", quote="é"))
    refused("INVALID_FORMAT", lambda: QueryMode.from_csv(5))


def test_json_rows() -> None:
    row: dict[str, Any] = {
        "day": dt.date(2020, 1, 1),
        "at": dt.datetime(2020, 1, 1, 12, 30, 0, 5),
        "nested": {"list": [1, 2], "deep": {"é": "日本\x00"}},
        "big": 1 << 63,
        "low": -math.inf,
        "flag": True,
        "none": None,
        "float": 1.5,
    }
    frame = QueryMode.from_json([row, {}])
    assert frame.rows == [row, dict.fromkeys(row)]
    assert frame.dtypes() == {
        "day": "date",
        "at": "timestamp(us)",
        "nested": "struct<list: list<int64>, deep: struct<é: utf8>>",
        "big": "uint64",
        "low": "float64",
        "flag": "bool",
        "none": "null",
        "float": "float64",
    }
    assert math.isnan(QueryMode.from_json([{"x": math.nan}]).rows[0]["x"])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ('[{"a":1},{"a":2}]', [{"a": 1}, {"a": 2}]),
        ('{"a":1}\n{"a":2}\n', [{"a": 1}, {"a": 2}]),
        (b'[{"a":"\\u00e9"}]', [{"a": "é"}]),
        ([{"a": 1}, {"b": 2}], [{"a": 1, "b": None}, {"a": None, "b": 2}]),
        ([{"a": 1}, {"a": 2.5}], [{"a": 1.0}, {"a": 2.5}]),
        ([{"a": 1}, {"a": "x"}], [{"a": "1"}, {"a": "x"}]),
        ([{"a": UUID(int=1)}], [{"a": str(UUID(int=1))}]),
        ([], []),
        ("[]", []),
        ([{}, {}], [{}, {}]),
    ],
)
def test_json(given: Any, expected: list[Any]) -> None:
    frame = QueryMode.from_json(given)
    assert frame.rows == expected
    assert frame.count() == len(expected)


@pytest.mark.parametrize("given", ["[{", '[{"a":1},', "[1]", "nonsense", [1], {"a": 1}, 5, [{"a": "\ud800"}]])
def test_broken_json(given: Any) -> None:
    refused("INVALID_FORMAT", lambda: QueryMode.from_json(given).rows)


@pytest.mark.parametrize("value", [Decimal("1.5"), b"x", object()])
def test_json_holds_no_other_values(value: Any) -> None:
    refused("NOT_SUPPORTED", lambda: QueryMode.from_json([{"a": value}]))
