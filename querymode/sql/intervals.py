"""INTERVAL in SQL text: `INTERVAL '3' DAY`, `INTERVAL '1 year 2 months'`, `INTERVAL (x) HOURS`."""

from __future__ import annotations

import re
from fractions import Fraction

from sqlglot import exp

from querymode.expr.intervals import SECOND, UNITS, Interval, fits
from querymode.expr.nodes import Cast, Expr, Function, Literal
from querymode.types import FLOAT64, INT32, INT64, INTERVAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from querymode.sql.expressions import Translator

#: Unit → months, days and nanoseconds. SQL has no word for nanoseconds.
_UNITS = {
    "millennium": (12_000, 0, 0),
    "century": (1_200, 0, 0),
    "decade": (120, 0, 0),
    **{words.removesuffix("s"): size for words, size in UNITS.items() if words != "nanoseconds"},
}
_NAMES = {
    **{word: unit for unit in _UNITS for word in (unit, f"{unit}s")},
    "millennia": "millennium",
    "centuries": "century",
    "y": "year",
    "yr": "year",
    "yrs": "year",
    "mon": "month",
    "mons": "month",
    "w": "week",
    "d": "day",
    "h": "hour",
    "hr": "hour",
    "hrs": "hour",
    "m": "minute",
    "min": "minute",
    "mins": "minute",
    "s": "second",
    "sec": "second",
    "secs": "second",
    "ms": "millisecond",
    "msec": "millisecond",
    "us": "microsecond",
    "usec": "microsecond",
}
#: Functions that make intervals of numbers, where they are not the unit with `to_` and `s`.
_FUNCTIONS = {"millennium": "to_millennia", "century": "to_centuries"}
#: Longer numbers than these are no interval.
_PART = re.compile(r"\s*+([+-]?\d{1,40}+)\s*+([a-z]++)\s*+", re.IGNORECASE)
_TIME = re.compile(r"\s*+([+-]?)(\d{1,40}+):(\d{1,2}+)(?::(\d{1,2}+)(?:\.(\d{1,9}+))?)?\s*+")
_NUMBER = re.compile(r"\s*+[+-]?(?:\d{1,40}+(?:\.\d{0,400}+)?|\.\d{1,400}+)\s*+")


def interval(translator: Translator, node: exp.Interval) -> Expr:
    """A constant interval, or a call that makes one of a number."""
    unit = _unit(translator, node)
    inner = node.this.unnest() if node.this is not None else None
    if unit is None:
        if not isinstance(inner, exp.Literal):
            raise translator.text.error(
                "INVALID_FILTER", "this is not an interval such as '1 year 2 days'", node
            )
        found = parse(inner.this)
        # The engine knows about fractions and `ago`.
        return Cast(Literal(inner.this), INTERVAL, False) if found is None else Literal(found)
    number = _number(inner)
    if number is not None:
        # DuckDB cuts fractions off, but for seconds.
        whole = number if unit in ("second", "millisecond", "microsecond") else Fraction(int(number))
        found = _sum([(whole, unit)])
        if found is None:
            raise translator.text.error("INVALID_FILTER", "this interval is out of range", node)
        return Literal(found)
    assert inner is not None
    return _call(translator.translate(inner), unit)


def _unit(translator: Translator, node: exp.Interval) -> str | None:
    unit = node.args.get("unit")
    if unit is None:
        return None
    known = _NAMES.get(unit.name.lower()) if isinstance(unit, exp.Var) else None
    if known is None:
        raise translator.text.not_supported(f"the unit {unit.sql('duckdb')} of an interval", node)
    return known


def _number(node: exp.Expr | None) -> Fraction | None:
    if isinstance(node, exp.Neg):
        inner = _number(node.this)
        return None if inner is None else -inner
    if isinstance(node, exp.Literal) and _NUMBER.fullmatch(node.this):
        return Fraction(node.this.strip())
    return None


def _call(value: Expr, unit: str) -> Expr:
    name = _FUNCTIONS.get(unit, f"to_{unit}s")
    if unit in ("second", "millisecond"):
        return Function(name, (Cast(value, FLOAT64, False),))
    return Function(
        name, (Cast(value, INT64 if unit in ("hour", "minute", "microsecond") else INT32, False),)
    )


def parse(text: str) -> Interval | None:
    """`1 year 2 months 03:04:05`; None if it is not as plain as that."""
    parts: list[tuple[Fraction, str]] = []
    position = 0
    while (found := _PART.match(text, position)) is not None:
        unit = _NAMES.get(found[2].lower())
        if unit is None:
            return None
        parts.append((Fraction(int(found[1])), unit))
        position = found.end()
    rest = text[position:]
    if rest.strip():
        time = _TIME.fullmatch(rest)
        if time is None:
            return None
        sign = -1 if time[1] == "-" else 1
        seconds = int(time[2]) * 3600 + int(time[3]) * 60 + int(time[4] or 0)
        parts.append(
            (sign * (Fraction(seconds) + Fraction(int((time[5] or "0").ljust(9, "0")), SECOND)), "second")
        )
    return _sum(parts) if parts else None


def _sum(parts: list[tuple[Fraction, str]]) -> Interval | None:
    months, days, nanoseconds = Fraction(0), Fraction(0), Fraction(0)
    for number, unit in parts:
        month, day, nanosecond = _UNITS[unit]
        months += number * month
        days += number * day
        nanoseconds += number * nanosecond
    found = (int(months), int(days), int(nanoseconds / 1000) * 1000)
    return Interval(*found) if fits(*found) else None
