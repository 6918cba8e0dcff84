"""Functions and arithmetic of dates, times, timestamps and intervals against DuckDB.

Random values and edges: NULL, leap days, the year 1, the epoch and before it, the first and the last date and
timestamp, infinities.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pytest

from querymode import Expr, QueryMode, call, col, interval, lit, now, today
from querymode.expr.clock import Clock
from querymode.expr.intervals import Interval
from tests.parametric.oracle import Case, Oracle
from tests.raises import raises_code

DAY = 86_400_000_000
DAY_MAX = (1 << 31) - 2
TIMESTAMP_MAX = (1 << 63) - 2
TIMESTAMP_MIN = -106_751_991 * DAY
ROWS = 240


def _days(year: int, month: int, day: int) -> int:
    return (dt.date(year, month, day) - dt.date(1970, 1, 1)).days


_EDGE_DAYS = [
    *(
        0,
        -1,
        1,
        _days(1, 1, 1),
        _days(9999, 12, 31),
        _days(2000, 2, 29),
        _days(1900, 2, 28),
        _days(2024, 2, 29),
    ),
    *(_days(2020, 12, 31), _days(2021, 1, 1), _days(2023, 1, 31), _days(1969, 12, 31), _days(2016, 1, 3)),
    *(_days(1, 1, 1) - 1, _days(1, 1, 1) - 400, -1_000_000, 5_000_000),
]
#: The rest have no timestamp, or are infinite.
_FAR_DAYS = [106_751_991, -106_751_991, 106_751_992, DAY_MAX, -DAY_MAX, (1 << 31) - 1, -(1 << 31) + 1]


def _date(dice: random.Random) -> int | None:
    choice = dice.random()
    if choice < 0.1:
        return None
    if choice < 0.3:
        return dice.choice(_EDGE_DAYS)
    if choice < 0.4:
        return dice.choice(_FAR_DAYS)
    return dice.randint(-30_000, 40_000) if choice < 0.8 else dice.randint(-3_000_000, 3_000_000)


def _timestamp(dice: random.Random) -> int | None:
    choice = dice.random()
    if choice < 0.1:
        return None
    if choice < 0.15:
        return dice.choice([TIMESTAMP_MAX, TIMESTAMP_MIN, (1 << 63) - 1, -(1 << 63) + 1, TIMESTAMP_MIN + 1])
    days = dice.choice(_EDGE_DAYS) if choice < 0.4 else dice.randint(-30_000, 40_000)
    return days * DAY + dice.choice(
        [0, 1, DAY - 1, DAY // 2, dice.randrange(DAY), dice.randrange(86_400) * 1_000_000]
    )


def _instant(dice: random.Random) -> int | None:
    """Years 1 to 9999: DuckDB's calendar library counts those before otherwise, and knows no infinity."""
    value = _timestamp(dice)
    return value if value is None or _days(1, 1, 1) * DAY <= value < _days(9999, 12, 31) * DAY else 0


def _whole_instant(dice: random.Random) -> int | None:
    """Milliseconds: of finer differences of instants DuckDB drops a part."""
    value = _instant(dice)
    return None if value is None else value // 1000 * 1000


def _near(dice: random.Random, unit: int) -> int | None:
    """Timestamps that nanoseconds reach."""
    return None if dice.random() < 0.1 else dice.randint(-9_000_000_000 * unit, 9_000_000_000 * unit)


def _time(dice: random.Random) -> int | None:
    choice = dice.random()
    if choice < 0.1:
        return None
    return dice.choice([0, DAY - 1, 59_999_999, 60_000_000]) if choice < 0.3 else dice.randrange(DAY)


def _interval(dice: random.Random) -> tuple[int, int, int] | None:
    choice = dice.random()
    if choice < 0.1:
        return None
    if choice < 0.2:
        return dice.choice(
            [(0, 0, 0), (1, 0, 0), (-13, 5, -DAY * 1000), (1 << 28, 0, 0), (0, -(1 << 31), 0), (0, 0, 10**17)]
        )
    months = dice.choice([0, dice.randint(-40, 40), dice.randint(-3000, 3000)])
    return (
        months,
        dice.choice([0, dice.randint(-800, 800)]),
        dice.choice([0, dice.randint(-(10**14), 10**14) * 1000]),
    )


def _ints(values: list[int | None], kind: Any) -> Any:
    return pa.array(values, pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)


def _table(seed: int) -> pa.Table:
    dice = random.Random(seed)

    def column(kind: Any, make: Any, *arguments: Any) -> Any:
        return _ints([make(dice, *arguments) for _ in range(ROWS)], kind)

    intervals = [_interval(dice) for _ in range(ROWS)]
    small = [None if dice.random() < 0.1 else dice.randint(-50, 50) for _ in range(ROWS)]
    return pa.table(
        {
            "row": pa.array(range(ROWS)),
            "d": column(pa.date32(), _date),
            "e": column(pa.date32(), _date),
            "ts": column(pa.timestamp("us"), _timestamp),
            "tt": column(pa.timestamp("us"), _timestamp),
            "s": column(pa.timestamp("s"), _near, 1),
            "ms": column(pa.timestamp("ms"), _near, 1_000),
            "ns": column(pa.timestamp("ns"), _near, 1_000_000_000),
            "tz": column(pa.timestamp("us", "UTC"), _instant),
            "tu": column(pa.timestamp("us", "UTC"), _whole_instant),
            "tv": column(pa.timestamp("us", "UTC"), _whole_instant),
            "t": column(pa.time64("us"), _time),
            "u": column(pa.time64("us"), _time),
            "i": pa.array(intervals, pa.month_day_nano_interval()),
            "j": pa.array(intervals[::-1], pa.month_day_nano_interval()),
            "n": pa.array(small, pa.int32()),
            "f": pa.array([None if x is None else x / 8 + dice.random() / 1000 for x in small]),
            "g": pa.array([dice.choice([-1, 1]) * dice.uniform(0.05, 20) for _ in range(ROWS)]),
            "y": pa.array([None if dice.random() < 0.1 else dice.randint(-3000, 9999) for _ in range(ROWS)]),
            "m": pa.array([dice.randint(0, 13) for _ in range(ROWS)]),
            "k": pa.array([dice.randint(1, 31) for _ in range(ROWS)]),
            "b": pa.array(
                [
                    dice.choice([0, 10**15, -(10**15), (1 << 63) - 1, dice.randint(-(10**12), 10**12)])
                    for _ in range(ROWS)
                ]
            ),
        }
    )


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    return Oracle(_table(7))


def case(sql: str, build: Any, **options: Any) -> Any:
    return pytest.param(Case(sql, build, **options), id=sql)


def _unary(name: str, columns: str, **options: Any) -> Iterator[Any]:
    for column in columns.split():
        # Python's datetime has no nanoseconds.
        options["constants"] = column != "ns"
        yield case(f"{name}({column})", lambda c, column=column: call(name, c(column)), **options)


_DATE_PARTS = [
    "year",
    "month",
    "day",
    "quarter",
    "week",
    "weekofyear",
    "isoyear",
    "yearweek",
    "dayofweek",
    "weekday",
    "isodow",
    "dayofyear",
    "decade",
    "century",
    "millennium",
    "era",
]
_TIME_PARTS = ["hour", "minute", "second", "millisecond", "microsecond", "nanosecond"]
_MOMENTS = "d ts s ms ns tz"


def _parts() -> Iterator[Any]:
    for name in _DATE_PARTS:
        yield from _unary(name, _MOMENTS, lenient=name in ("week", "weekofyear", "isoyear", "yearweek"))
    for name in _TIME_PARTS:
        yield from _unary(name, f"{_MOMENTS} t i")
    for name in ("epoch", "epoch_ms", "epoch_us"):
        yield from _unary(name, f"{_MOMENTS} t i")
    yield from _unary("epoch_ns", "ns t i d ts")
    yield from _unary("julian", "d ts s ms tz")
    yield from _unary("timezone_hour", "ts tz t")
    for name in ("year", "month", "day", "quarter", "decade", "century", "millennium"):
        yield from _unary(name, "i")
    for part in ("YEAR", "mons", "epoch", "julian", "dow", "us", "jd"):
        for column in ("d", "ts"):
            yield case(
                f"date_part('{part}', {column})",
                lambda c, part=part, column=column: call("date_part", part, c(column)),
            )


_UNITS = [
    "millennium",
    "century",
    "decade",
    "year",
    "quarter",
    "month",
    "week",
    "day",
    "hour",
    "minute",
    "second",
    "milliseconds",
    "microseconds",
    "isoyear",
    "yearweek",
    "dow",
    "epoch",
]


def _truncations() -> Iterator[Any]:
    for unit in _UNITS:
        for column in ("d", "ts", "tz", "s", "ns", "i"):
            yield case(
                f"date_trunc('{unit}', {column})",
                lambda c, unit=unit, column=column: call("date_trunc", unit, c(column)),
                constants=column != "ns",
            )


def _differences() -> Iterator[Any]:
    for unit in _UNITS:
        for name in ("date_diff", "date_sub"):
            pairs = [("d", "e"), ("ts", "tt"), ("s", "ms"), ("d", "ts")]
            if unit == "yearweek":
                pass  # DuckDB's calendar library has weeks of its own
            elif name == "date_diff" or unit not in (
                "month",
                "quarter",
                "year",
                "decade",
                "century",
                "millennium",
                "isoyear",
            ):
                pairs.append(("tu", "tv"))
            if unit in ("hour", "minute", "second", "milliseconds", "microseconds", "epoch"):
                pairs.append(("t", "u"))
            for a, b in pairs:
                yield case(
                    f"{name}('{unit}', {a}, {b})",
                    lambda c, x=(name, unit, a, b): call(x[0], x[1], c(x[2]), c(x[3])),
                    lenient=unit == "isoyear",
                )
    for a, b in (("d", "e"), ("ts", "tt"), ("tu", "tv"), ("s", "d")):
        yield case(f"age({a}, {b})", lambda c, a=a, b=b: call("age", c(a), c(b)))


def _arithmetic() -> Iterator[Any]:
    for column in ("d", "ts", "tz", "t", "s", "ms", "ns"):
        yield case(f"{column} + i", lambda c, x=column: c(x) + c("i"), constants=column != "ns")
        yield case(f"i + {column}", lambda c, x=column: c("i") + c(x), constants=column != "ns")
        yield case(f"{column} - i", lambda c, x=column: c(x) - c("i"), constants=column != "ns")
    for text, value in (
        ("1 month", interval(months=1)),
        ("-1 month", interval(months=-1)),
        ("13 months 5 days", interval(months=13, days=5)),
        ("-7 months 40 days 77 hours", interval(months=-7, days=40, hours=77)),
        ("90 days", dt.timedelta(days=90)),
        ("36 hours 5 microseconds", dt.timedelta(hours=36, microseconds=5)),
        ("30000 years", interval(years=30_000)),
    ):
        for column in ("d", "ts", "tz", "t"):
            yield case(f"{column} + INTERVAL '{text}'", lambda c, x=column, v=value: c(x) + v)
            yield case(f"{column} - INTERVAL '{text}'", lambda c, x=column, v=value: c(x) - lit(v))
    yield case("d + n", lambda c: c("d") + c("n"), constants=False)
    yield case("n + d", lambda c: c("n") + c("d"), constants=False)
    yield case("d - n", lambda c: c("d") - c("n"), constants=False)
    yield case("d + 3", lambda c: c("d") + 3)
    yield case("d - e", lambda c: c("d") - c("e"))
    yield case("d + t", lambda c: c("d") + c("t"))
    yield case("t + d", lambda c: c("t") + c("d"))
    for a, b in (("ts", "tt"), ("tu", "tv"), ("s", "ms"), ("ns", "s"), ("ts", "d"), ("d", "ts")):
        yield case(f"{a} - {b}", lambda c, a=a, b=b: c(a) - c(b), constants=a != "ns")
    yield case("i + j", lambda c: c("i") + c("j"))
    yield case("i - j", lambda c: c("i") - c("j"))
    yield case("-i", lambda c: -c("i"))
    yield case("i * n", lambda c: c("i") * c("n"), constants=False)
    yield case("n * i", lambda c: c("n") * c("i"), constants=False)
    yield case("i * g", lambda c: c("i") * c("g"))
    yield case("g * i", lambda c: c("g") * c("i"))
    yield case("i / g", lambda c: c("i") / c("g"))
    yield case("i / n", lambda c: c("i") / c("n"), constants=False)
    yield case("date_add(d, i)", lambda c: call("date_add", c("d"), c("i")))


_FORMATS = [
    "%Y-%m-%d %H:%M:%S.%f",
    "%y %-y %-m %-d %-H %-I %I %p %-M %-S %-j %j",
    "%a %A %b %B %h %w %u %U %W %V %G",
    "%c|%x|%X|%T|%%|%z|äö%Z",
]


def _texts() -> Iterator[Any]:
    yield from _unary("dayname", _MOMENTS)
    yield from _unary("monthname", _MOMENTS)
    yield from _unary("last_day", "ts s ms ns tz")
    for format_ in _FORMATS:
        for column in ("d", "ts", "tz", "s"):
            yield case(
                f"strftime({column}, '{format_}')",
                lambda c, x=column, f=format_: call("strftime", c(x), f),
                lenient="%G" in format_,
            )
    yield case("strftime(ns, '%c %n')", lambda c: call("strftime", c("ns"), "%c %n"), constants=False)
    yield case("strftime('%c', ts)", lambda c: call("strftime", "%c", c("ts")))


def _made() -> Iterator[Any]:
    yield case("make_date(y, m, k)", lambda c: call("make_date", c("y"), c("m"), c("k")))
    yield case("make_date(n)", lambda c: call("make_date", c("n")), constants=False)
    yield case("make_time(m, k, f)", lambda c: call("make_time", c("m"), c("k"), c("f")))
    yield case("make_timestamp(y, m, k, m, n, f)", lambda c: call("make_timestamp", *map(c, "ymkmnf")))
    yield case("make_timestamp(b)", lambda c: call("make_timestamp", c("b")))
    yield case("make_timestamp_ms(b)", lambda c: call("make_timestamp_ms", c("b")))
    yield case("make_timestamp_ns(b)", lambda c: call("make_timestamp_ns", c("b")))
    yield case("make_timestamptz(b)", lambda c: call("make_timestamptz", c("b")))
    yield case("epoch_ms(b)", lambda c: call("epoch_ms", c("b")))
    yield case("to_timestamp(b)", lambda c: call("to_timestamp", c("b")))
    yield case("to_timestamp(f)", lambda c: call("to_timestamp", c("f")))
    for unit in ("years", "quarters", "months", "weeks", "days", "decades", "centuries", "millennia"):
        yield from _unary(f"to_{unit}", "n y b")
    for unit in ("hours", "minutes", "seconds", "milliseconds", "microseconds"):
        yield from _unary(f"to_{unit}", "n y")
    yield from _unary("to_seconds", "f")
    yield from _unary("to_milliseconds", "f")
    yield from _unary("isfinite", "d ts tz")
    yield from _unary("isinf", "d ts tz")


@pytest.mark.parametrize(
    "given", [*_parts(), *_truncations(), *_differences(), *_arithmetic(), *_texts(), *_made()]
)
def test_function(oracle: Oracle, given: Case) -> None:
    oracle.check(given)


# ---- text to timestamps ----

_PARSED = [
    (
        "%Y-%m-%d",
        [
            "2020-01-02",
            " 2020-1-2 ",
            "2020-02-30",
            "2020-01-02x",
            "",
            "20200102",
            "infinity",
            "-Infinity ",
            "epoch",
            "inf",
        ],
    ),
    ("%Y%m%d", ["20200102", "2020010", "202001023"]),
    (
        "%d %b %Y %I:%M %p",
        ["1 feb 2020 12:30 am", "31 Dec 1999 01:00 PM", "1 Foo 2020 1:1 AM", "1 Feb 2020 13:00 PM"],
    ),
    ("%B %d, %y", ["January 5, 99", "MAY 5, 68", "Jan 5, 20"]),
    ("%Y-%j", ["2020-060", "2019-366", "2020-0", "2020-367"]),
    ("%Y %U %w", ["2020 10 1", "2020 0 0", "2020 53 6", "2020 54 1", "2020 1 7"]),
    ("%Y %W %w", ["2020 10 1", "2021 0 0", "2020 53 6"]),
    ("%G-W%V-%u", ["2020-W53-7", "2021-W01-1", "2020-W54-1", "2020-W10-8"]),
    ("%H:%M:%S.%f", ["01:02:03.5", "23:59:59.999999", "24:00:00.0", "01:60:00.0", "1:2:3.1234567"]),
    ("%c", ["2020-01-02 10:11:12", "2020-01-02  10:11:12", "2020-01-0210:11:12"]),
    (
        "%x %X %z",
        [
            "2020-01-02 10:00:00 +05:30",
            "2020-01-02 10:00:00 -0530",
            "2020-01-02 10:00:00 +02",
            "2020-01-02 10:00:00 Z",
        ],
    ),
    ("%x %T.%n", ["2020-01-02 10:00:00.123456789", "2020-01-02 10:00:00.5", "2500-01-02 10:00:00.5"]),
    ("%A %a %x", ["Monday Tue 2020-01-02", "Mon Tue 2020-01-02"]),
    ("%Y-%m-%d%%", ["2020-01-02%", "2020-01-02"]),
    ("%m/%d %j %Y", ["01/02 300 2020"]),
    ("%x %Z", ["2020-01-02 UTC", "2020-01-02 utc"]),
]


@pytest.mark.parametrize(("format_", "texts"), _PARSED, ids=[format_ for format_, _ in _PARSED])
def test_strptime(format_: str, texts: list[str]) -> None:
    table = pa.table({"row": range(len(texts) + 1), "x": [*texts, None]})
    given = Oracle(table)
    given.check(Case(f"strptime(x, '{format_}')", lambda c: c("x").strptime(format_)))
    # Of words DuckDB's try_strptime makes the year 1900.
    words = pa.array([text.strip().lower().lstrip("-") in ("infinity", "epoch") for text in [*texts, ""]])
    given = Oracle(table.filter(pa.compute.invert(words)))
    given.check(Case(f"try_strptime(x, '{format_}')", lambda c: c("x").strptime(format_, strict=False)))


# ---- what has no oracle ----


def one(expression: Expr) -> Any:
    return QueryMode.from_json([{"one": 1}]).select(expression.alias("x")).rows[0]["x"]


def test_methods_are_the_functions() -> None:
    moment = dt.datetime(2024, 2, 29, 13, 14, 15, 678901)
    value = lit(moment)
    asked = {
        "year": 2024,
        "quarter": 1,
        "month": 2,
        "week": 9,
        "iso_year": 2024,
        "day": 29,
        "weekday": 4,
        "ordinal_day": 60,
        "century": 21,
        "millennium": 3,
        "hour": 13,
        "minute": 14,
        "second": 15,
        "millisecond": 15678,
        "microsecond": 15678901,
        "nanosecond": 15678901000,
        "epoch_ms": 1709212455679,
        "epoch_us": 1709212455678901,
        "epoch_ns": 1709212455678901000,
        "month_end": dt.date(2024, 2, 29),
        "month_name": "February",
        "day_name": "Thursday",
        "date": dt.date(2024, 2, 29),
    }
    for name, wanted in asked.items():
        assert one(getattr(value.dt, name)()) == wanted, name
    assert one(value.dt.epoch()) == 1709212455.678901
    assert one(value.dt.part("decade")) == 202
    assert one(value.dt.truncate("hour")) == dt.datetime(2024, 2, 29, 13)
    assert one(value.dt.diff(dt.datetime(2024, 3, 1), "day")) == 1
    assert one(value.dt.age(dt.datetime(2024, 1, 29, 13, 14, 15, 678901))) == Interval(1, 0, 0)
    assert one(value.dt.strftime("%e %-d|%d %H")) == "29 29|29 13"
    assert one(lit(dt.date(2024, 2, 3)).dt.strftime("%e")) == " 3"
    assert one(lit("2024-02-29").strptime("%Y-%m-%d")) == dt.datetime(2024, 2, 29)


def test_intervals_are_made_of_units() -> None:
    assert interval(years=1, quarters=1, months=1) == Interval(16, 0, 0)
    assert interval(weeks=1, days=-1) == Interval(0, 6, 0)
    assert interval(hours=1, minutes=1, seconds=1, milliseconds=1, microseconds=1, nanoseconds=1) == Interval(
        0, 0, 3661001001001
    )
    for wrong in ({"months": 1 << 40}, {"fortnights": 1}, {"days": 1.5}):
        with raises_code("QUERY_FAILED"):
            interval(**wrong)


def test_the_clock_stands_still() -> None:
    clock = Clock(dt.datetime(2024, 2, 29, 23, 30, tzinfo=dt.timezone(dt.timedelta(hours=-2))))
    assert clock.literal("NOW").value == dt.datetime(2024, 3, 1, 1, 30, tzinfo=dt.UTC)  # type: ignore[union-attr]
    assert clock.literal("current_date").value == dt.date(2024, 3, 1)  # type: ignore[union-attr]
    assert clock.literal("localtimestamp").value == dt.datetime(2024, 3, 1, 1, 30)  # type: ignore[union-attr]
    assert clock.literal("year") is None
    before = dt.datetime.now(dt.UTC)
    moment = one(now())
    assert before <= moment <= dt.datetime.now(dt.UTC)
    assert abs(one(today()) - before.date()) <= dt.timedelta(days=1)
    assert one(call("now")) >= moment


def test_dates_of_constants_are_constants() -> None:
    """So that filters by them prune, and a date stays a date where it is compared with one."""
    from querymode.plan.bind import bind
    from querymode.schema import Schema

    schema = Schema([])
    bound = bind(lit(dt.date(1998, 12, 1)) - dt.timedelta(days=90), schema)
    assert bound.is_literal and bound.value == dt.datetime(1998, 9, 2)
    bound = bind(lit(dt.date(2024, 1, 31)) + interval(months=1, hours=1), schema)
    assert bound.value == dt.datetime(2024, 2, 29, 1)
    assert not bind(lit(dt.date(9999, 12, 31)) + interval(days=1), schema).is_literal
    frame = QueryMode.from_arrow(pa.table({"d": pa.array([dt.date(1998, 9, day) for day in (1, 2, 3)])}))
    assert frame.filter(col("d") <= lit(dt.date(1998, 12, 1)) - dt.timedelta(days=90)).count() == 2


@pytest.mark.parametrize(
    ("expression", "code", "words"),
    [
        (call("year", "x"), "INVALID_FILTER", "year is not defined"),
        (call("year", col("t")), "INVALID_FILTER", "no part year"),
        (call("week", col("i")), "INVALID_FILTER", "no part week"),
        (call("date_part", "fortnight", col("d")), "INVALID_FILTER", "fortnight"),
        (call("date_part", col("s"), col("d")), "NOT_SUPPORTED", "constant"),
        (call("date_trunc", "era", col("d")), "INVALID_FILTER", "era"),
        (call("date_diff", "day", col("d"), col("t")), "INVALID_FILTER", "cast"),
        (call("date_diff", "year", col("t"), col("t")), "INVALID_FILTER", "no part year"),
        (call("year", col("z")), "NOT_SUPPORTED", "no zone data"),
        (col("z") + interval(days=1), "NOT_SUPPORTED", "no zone data"),
        (col("d") + 1.5, "INVALID_FILTER", "not defined"),
        (col("d") * 2, "INVALID_FILTER", "not defined"),
        (col("i") // 2, "INVALID_FILTER", "not defined"),
        (3 - col("d"), "INVALID_FILTER", "not defined"),
        (call("strftime", col("d"), "%Q"), "INVALID_FILTER", "%Q"),
        (call("strftime", col("d"), ""), "INVALID_FILTER", "empty"),
        (call("strftime", col("d"), col("s")), "NOT_SUPPORTED", "constant"),
        (call("make_date", 1.5, 1, 1), "INVALID_FILTER", "make_date"),
        (call("age", col("d")), "INVALID_FILTER", "2 arguments"),
    ],
)
def test_refusals(expression: Expr, code: str, words: str) -> None:
    table = pa.table(
        {
            "d": pa.array([dt.date(2024, 1, 1)]),
            "t": pa.array([dt.time(1)]),
            "i": pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
            "s": ["month"],
            "z": pa.array([dt.datetime(2024, 1, 1, tzinfo=dt.UTC)], pa.timestamp("us", "Europe/Berlin")),
        }
    )
    with raises_code(code) as caught:
        QueryMode.from_arrow(table).select(expression.alias("x")).collect()
    assert words in str(caught.value)


def test_zones_do_not_matter_for_instants() -> None:
    moment = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)
    frame = QueryMode.from_arrow(pa.table({"z": pa.array([moment], pa.timestamp("us", "Europe/Berlin"))}))
    row = frame.select(call("epoch_ms", col("z")).alias("a"), call("epoch", col("z")).alias("b")).rows[0]
    assert row == {"a": 1704110400000, "b": 1704110400.0}
    assert frame.select(col("z").cast("timestamp(us, UTC)").dt.hour().alias("h")).rows == [{"h": 12}]
