"""Intervals as Python values: `interval(months=1, days=3)`, and dates moved by them.

Months, days and the rest of an interval do not convert into each other: a month has no fixed number of days.
`datetime.timedelta` is an interval without months. What is moved here follows the engine's rules
(wasm/src/kernel/temporal.zig), so that constants of a query are computed before it is planned.
"""

from __future__ import annotations

from querymode.errors import error

TYPE_CHECKING = False
if TYPE_CHECKING:
    import datetime as dt


class Interval(tuple[int, int, int]):
    """Months, days and nanoseconds, which do not convert into each other."""

    __slots__ = ()

    def __new__(cls, months: int = 0, days: int = 0, nanoseconds: int = 0) -> Interval:
        return super().__new__(cls, (months, days, nanoseconds))

    @property
    def months(self) -> int:
        return self[0]

    @property
    def days(self) -> int:
        return self[1]

    @property
    def nanoseconds(self) -> int:
        return self[2]

    def __getnewargs__(self) -> tuple[int, int, int]:
        return self[0], self[1], self[2]

    def __neg__(self) -> Interval:
        return Interval(-self[0], -self[1], -self[2])

    def __repr__(self) -> str:
        return f"Interval(months={self[0]}, days={self[1]}, nanoseconds={self[2]})"


SECOND = 1_000_000_000
#: Months, days and nanoseconds of a unit.
UNITS = {
    "years": (12, 0, 0),
    "quarters": (3, 0, 0),
    "months": (1, 0, 0),
    "weeks": (0, 7, 0),
    "days": (0, 1, 0),
    "hours": (0, 0, 3600 * SECOND),
    "minutes": (0, 0, 60 * SECOND),
    "seconds": (0, 0, SECOND),
    "milliseconds": (0, 0, 1_000_000),
    "microseconds": (0, 0, 1_000),
    "nanoseconds": (0, 0, 1),
}


def interval(**units: int) -> Interval:
    """An interval of whole units: years, quarters, months, weeks, days, hours … nanoseconds."""
    total = [0, 0, 0]
    for name, count in units.items():
        if name not in UNITS:
            raise error("QUERY_FAILED", f"{name!r} is not a unit of intervals; there are {', '.join(UNITS)}")
        if isinstance(count, bool) or not isinstance(count, int):
            raise error("QUERY_FAILED", f"an interval has whole {name}, not {count!r}")
        total = [sum_ + part * count for sum_, part in zip(total, UNITS[name], strict=True)]
    if not fits(*total):
        raise error("QUERY_FAILED", f"an interval of {units} is out of range")
    return Interval(*total)


def fits(months: int, days: int, nanoseconds: int) -> bool:
    """Whether the engine can hold it."""
    return (
        all(-(1 << 31) <= part < 1 << 31 for part in (months, days)) and -(1 << 63) <= nanoseconds < 1 << 63
    )


def parts(value: object) -> tuple[int, int, int] | None:
    """Months, days and nanoseconds of whatever is an interval: ours, a timedelta, pyarrow's."""
    import datetime as dt

    if isinstance(value, dt.timedelta):
        return 0, value.days, value.seconds * SECOND + value.microseconds * 1000
    if isinstance(value, tuple) and hasattr(value, "months") and hasattr(value, "nanoseconds"):
        months, days, nanoseconds = value
        return months, days, nanoseconds
    return None


def moved(moment: dt.date, by: tuple[int, int, int], sign: int) -> dt.datetime | None:
    """A date or datetime and an interval; None where Python's calendar ends, or microseconds do not do."""
    import calendar
    import datetime as dt

    months, days, nanoseconds = (sign * part for part in by)
    start = moment if isinstance(moment, dt.datetime) else dt.datetime(moment.year, moment.month, moment.day)
    if start.tzinfo is not None:
        start = start.astimezone(dt.UTC)
        if min(months, days, nanoseconds) < 0 and months:  # instants move by the time first
            return None
    if nanoseconds % 1000:
        return None
    year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        return None
    day = min(start.day, calendar.monthrange(year, month + 1)[1])
    try:
        whole = start.replace(year=year, month=month + 1, day=day)
        return whole + dt.timedelta(days=days, microseconds=nanoseconds // 1000)
    except OverflowError:
        return None
