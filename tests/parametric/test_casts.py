"""Casts to text and from it, of every type: what DuckDB prints and reads, random values and odd texts."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from querymode import QueryMode, col
from tests.parametric.columns import TYPES, check, values_of
from tests.raises import raises_code

S = col("s")

_NUMBERS = [
    "0", "1", "-1", "+1", "12", "-128", "127", "128", "255", "256", "32767", "65535", "2147483647",
    "-2147483648", "2147483648", "9223372036854775807", "-9223372036854775808", "9223372036854775808",
    "18446744073709551615", "18446744073709551616", "1.5", "2.5", "-1.5", "-2.5", "0.5", "0.49", "1.",
    ".5", ".", "-", "+", "e", "1e3", "1E3", "1e+3", "1e-1", "5e-1", "5e-2", "1e", "e1", "1e1e1",
    "15e-1", "25e-1", "1e18", "1e19", "1e38", "1e39", "1e308", "1e309", "1e-400", "0x1F", "0XfF",
    "0b101", "0x", "0xG", "-0x1", "0b2", "1_000", "1__0", "_1", "1_", "1_0.5_0", "1._5", "1_e1",
    "00012", "-0", "-0.4", "nan", "NaN", "-nan", "inf", "-inf", "+inf", "Infinity", "infinit", "1,5",
    "1d", "abc", "é", "99.994", "99.995", "99.9949", "1.005", "0.005", "0.0049",
    "123456789012345678901234567890", "0.1", "1e-5", "123456.789", "3.4028235e38", "3.5e38", "1.17e-38",
    "170141183460469231731687303715884105727", "170141183460469231731687303715884105728",
]  # fmt: skip
_MOMENTS = [
    "2020-01-02", "2020-1-2", "20-01-02", "1-1-1", "2020/01/02", "2020-13-01", "2020-02-30",
    "2020-02-29", "2021-02-29", "0000-01-01", "-0044-03-15", "9999-12-31", "10000-01-01",
    "294247-01-10", "5881580-07-10", "5881580-07-11", "20200102", "2020-01", "epoch", "infinity",
    "-infinity", "Infinity", "inf", "01:02:03", "1:2:3", "01:02", "24:00:00", "24:00:01", "25:00",
    "12:60", "12:00:60", "12:", "12:30:", "01:02:03.5", "01:02:03.123456", "01:02:03.1234567",
    "01:02:03.123456789", "2020-01-02T03:04:05", "2020-01-02t03:04:05", "2020-01-02T03:04:05Z",
    "2020-01-02T03:04:05+02", "1969-12-31T23:59:59.9", "2020-01-02T03:04:05-01:30",
    "2020-01-02T03:04:05+0130", "2020-01-02T03:04:05+1", "2020-01-02T24:00:00", "1677-09-21",
    "2262-04-12",
]  # fmt: skip
_PHRASES = [
    "", " ", " 12 ", "\t5\n", "- 5", "1 2", "1 e3", "1e 3", " 2020-01-02 ", "2020 01 02",
    "0044-03-15 (BC)", "2020-01-02 (bc)", "2020-01-02 BC", "2020-01-02 03:04:05",
    "2020-01-02  03:04:05 ", "2020-01-02 03:04:05.999999", "2020-01-02 03:04:05 UTC",
    "2020-01-02 03:04:05 utc ", "2020-01-02 03:04:05+01:00", "2020-01-02 03:04:05-01:02:03",
    "2020-01-02 03", "2020-01-02 03:04", "0044-03-15 (BC) 01:02:03", "2020-01-02 03:04:05.5+00",
    "2020-01-02 x", "2020-01-02x", "01:02:03 PM", "01:02:03+01", "1 day",
    "1 year 2 months 3 days 04:05:06.7", "3.5 days", "1.5", "-1.5 days", "1 day ago", "-1 day 01:02:03",
    "1 day -01:02:03", "5 hours 3 minutes", "1.5 months", "2 weeks", "1.5 weeks", "1.5 years",
    "1.5 quarters", "@ 1 day", "1day", "0.1234567 seconds", "1 day 5", "1 foo", "99999999999 days",
    "1 dow", "+1 day", "1000000:00:00", "1 Day 2 HOURS", "2.5 centuries", "1.5 milliseconds",
    "1 decade", "true", "TRUE", "t", "y", "no", "f", "on", " true", "yes", "truee", "a\\x00b", "\\xFF",
    "\\x4", "\\q", "'quoted'", "x" * 100,
]  # fmt: skip
_TEXTS = [*_NUMBERS, *_MOMENTS, *_PHRASES]


def random_numbers(source: random.Random, count: int) -> list[str]:
    """Texts of the shape of numbers, most of them right."""
    found = []
    for _ in range(count):
        sign = source.choice(["", "", "-", "+"])
        whole = str(source.randrange(10 ** source.randrange(1, 22)))
        fraction = source.choice(["", "", "." + str(source.randrange(10 ** source.randrange(1, 12)))])
        exponent = source.choice(["", "", "", f"e{source.randrange(-12, 12)}"])
        found.append(sign + whole + fraction + exponent)
    return found


def _is_asked(text: str, name: str) -> bool:
    """Not where DuckDB gives up because the digits before an exponent do not fit the type on their own."""
    if name.startswith("decimal"):
        return "e" not in text.lower()
    if name == "interval":  # ours are of nanoseconds and end after 292 years
        return len(text) < 10 or not text[1:].replace(".", "").isdigit()
    if name == "int128":  # Arrow has no integer of 39 digits
        return len(text) < 38 and text != "1e38"
    return "e-" not in text.lower() or len(text) < 12


@pytest.mark.parametrize("name", TYPES)
def test_text_to(name: str) -> None:
    source = random.Random(name)
    texts = [text for text in [*_TEXTS, *random_numbers(source, 3000)] if _is_asked(text, name)]
    table = pa.table({"s": pa.array([*texts, None], pa.string())})
    check(table, [(S.cast(name, strict=False), f"TRY_CAST(s AS {TYPES[name]})")])


@pytest.mark.parametrize("name", TYPES)
def test_text_that_is_no_value(name: str) -> None:
    """A strict cast fails where DuckDB's does, and names the text; elsewhere it gives the same."""
    asked = [text for text in _TEXTS if _is_asked(text, name)]
    tried = (
        QueryMode.from_arrow(pa.table({"s": asked})).select(S.cast(name, strict=False).is_null()).to_arrow()
    )
    for text, is_null in zip(asked, tried.column(0).to_pylist(), strict=True):
        frame = QueryMode.from_arrow(pa.table({"s": [text]})).select(S.cast(name).is_null().alias("x"))
        if not is_null:
            assert frame.rows == [{"x": False}]
            continue
        with raises_code("QUERY_FAILED") as caught:
            frame.collect()
        assert text[:60] in caught.value.message


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("rows", [0, 1, 20_000])
def test_to_text(name: str, rows: int) -> None:
    """Prints as DuckDB does, and reads back as itself."""
    table = pa.table({"v": values_of(name, rows, rows)})
    value = col("v").cast(name)
    if name == "float32":
        _check_shortest(table)
    else:
        check(table, [(value.cast("utf8"), f"v::{TYPES[name]}::VARCHAR")])
    same = value.cast("utf8").cast(name)
    counts = QueryMode.from_arrow(table).agg(
        (same == value).cast("int64").sum().alias("n"), value.count().alias("m")
    )
    row = counts.rows[0]
    assert (row["n"] or 0) == row["m"]


def _check_shortest(table: pa.Table) -> None:
    """DuckDB prints some float32 with digits that only a double needs; numpy prints the fewest."""
    answer = QueryMode.from_arrow(table).select(col("v").cast("utf8").alias("x")).to_arrow()
    for value, printed in zip(table.column("v").to_pylist(), answer.column("x").to_pylist(), strict=True):
        if value is None or value in (float("inf"), -float("inf")) or value != value:
            continue
        number = np.float32(value)
        shapes = (np.format_float_scientific(number, trim="-"), np.format_float_positional(number, trim="0"))
        assert printed in shapes, value
