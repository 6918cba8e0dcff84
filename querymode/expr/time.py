"""Methods of expressions that are functions of dates and times: `col("day").dt.year()`.

plan/functions/time.py says what they take. Parts have DuckDB's meaning: milliseconds and microseconds count
from the minute on.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from querymode.expr.nodes import Expr


class TimeMethods:
    __slots__ = ()

    def _call(self, name: str, *arguments: object) -> Expr:
        raise NotImplementedError

    @property
    def dt(self) -> TimeNamespace:
        """What can be asked of dates, times, timestamps and intervals."""
        return TimeNamespace(self)

    def strptime(self, format: str, *, strict: bool = True) -> Expr:
        """A text as a timestamp; with `strict=False` what does not have the format becomes NULL."""
        return self._call("strptime" if strict else "try_strptime", format)


class TimeNamespace:
    __slots__ = ("_value",)

    def __init__(self, value: TimeMethods) -> None:
        self._value = value

    def _part(self, name: str) -> Expr:
        return self._value._call(name)

    def _with(self, name: str, first: object, *rest: object) -> Expr:
        """Of functions whose first argument is the part or unit."""
        from querymode.expr.nodes import call

        return call(name, first, self._value, *rest)

    def year(self) -> Expr:
        return self._part("year")

    def quarter(self) -> Expr:
        return self._part("quarter")

    def month(self) -> Expr:
        return self._part("month")

    def week(self) -> Expr:
        """ISO's week of the year, 1 to 53."""
        return self._part("week")

    def iso_year(self) -> Expr:
        """The year that the week belongs to."""
        return self._part("isoyear")

    def day(self) -> Expr:
        return self._part("day")

    def weekday(self) -> Expr:
        """Monday is 1, Sunday 7."""
        return self._part("isodow")

    def ordinal_day(self) -> Expr:
        """The day of the year, 1 to 366."""
        return self._part("dayofyear")

    def century(self) -> Expr:
        return self._part("century")

    def millennium(self) -> Expr:
        return self._part("millennium")

    def hour(self) -> Expr:
        return self._part("hour")

    def minute(self) -> Expr:
        return self._part("minute")

    def second(self) -> Expr:
        return self._part("second")

    def millisecond(self) -> Expr:
        return self._part("millisecond")

    def microsecond(self) -> Expr:
        return self._part("microsecond")

    def nanosecond(self) -> Expr:
        return self._part("nanosecond")

    def part(self, name: str) -> Expr:
        """Any part by its SQL name: "dow", "decade", "epoch" …"""
        return self._with("date_part", name)

    def epoch(self) -> Expr:
        """Seconds since 1970, with their fraction."""
        return self._part("epoch")

    def epoch_ms(self) -> Expr:
        return self._part("epoch_ms")

    def epoch_us(self) -> Expr:
        return self._part("epoch_us")

    def epoch_ns(self) -> Expr:
        return self._part("epoch_ns")

    def truncate(self, unit: str) -> Expr:
        """Down to the first moment of the unit: "year", "month", "week", "day", "hour" …"""
        return self._with("date_trunc", unit)

    def diff(self, other: object, unit: str) -> Expr:
        """How many borders of the unit lie between this moment and the other, later one."""
        return self._with("date_diff", unit, other)

    def age(self, other: object) -> Expr:
        """Months, days and time since the other, earlier moment."""
        return self._value._call("age", other)

    def month_end(self) -> Expr:
        """The last day of the month."""
        return self._part("last_day")

    def month_name(self) -> Expr:
        return self._part("monthname")

    def day_name(self) -> Expr:
        return self._part("dayname")

    def strftime(self, format: str) -> Expr:
        """As text: "%Y-%m-%d %H:%M:%S"."""
        return self._value._call("strftime", format)

    def date(self) -> Expr:
        """The day of a timestamp."""
        from querymode.expr.nodes import Expr

        assert isinstance(self._value, Expr)
        return self._value.cast("date")
