"""The host's clock: the engine has none, so what asks for the time becomes a constant before a query runs.

One `Clock` serves one query: all of its NOW()s are the same moment, as SQL wants it. The engine has no zone
data either: days and times of day are UTC's.
"""

from __future__ import annotations

from querymode.expr.nodes import Literal

TYPE_CHECKING = False
if TYPE_CHECKING:
    import datetime as dt

#: SQL's names, and what of the moment they give.
CLOCK_NAMES = {
    "now": "instant",
    "current_timestamp": "instant",
    "get_current_timestamp": "instant",
    "transaction_timestamp": "instant",
    "today": "date",
    "current_date": "date",
    "current_localtimestamp": "local",
    "localtimestamp": "local",
    "current_localtime": "time",
    "localtime": "time",
    "current_time": "time",
}


class Clock:
    """A moment that does not pass."""

    __slots__ = ("moment",)

    def __init__(self, moment: dt.datetime | None = None) -> None:
        import datetime as dt

        self.moment = (moment or dt.datetime.now(dt.UTC)).astimezone(dt.UTC)

    def literal(self, name: str) -> Literal | None:
        """The constant that a call of this name means; None for other names."""
        kind = CLOCK_NAMES.get(name.lower())
        if kind is None:
            return None
        local = self.moment.replace(tzinfo=None)
        values = {"instant": self.moment, "date": local.date(), "local": local, "time": local.time()}
        return Literal(values[kind])


def now() -> Literal:
    """The moment of this call, as a constant."""
    return Literal(Clock().moment)


def today() -> Literal:
    """The day of this call in UTC, as a constant."""
    return Literal(Clock().moment.date())
