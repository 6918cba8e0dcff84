"""Functions and arithmetic of dates, times and intervals: names, types and results as in DuckDB.

Times and timestamps of other units become microseconds first, as DuckDB does it. What depends on a zone
is computed in UTC; the engine knows no other zone. wasm/src/plan/function_time.zig is the other side.
"""

from __future__ import annotations

from querymode._abi import ArithmeticOp, DatePart, FunctionId, TimeUnit, TypeTag
from querymode.errors import error
from querymode.expr import literals
from querymode.expr.intervals import Interval, moved, parts
from querymode.expr.nodes import ARITHMETIC_SIGNS
from querymode.plan.bind import Bound, cast_to, constant_of, null_of, said
from querymode.plan.functions.rules import bound_call, check_count, integer, not_taken, real, taken, text
from querymode.types import (
    DATE,
    FLOAT64,
    INT32,
    INT64,
    INTERVAL,
    NULL,
    UINT8,
    UTF8,
    is_integer,
    is_numeric,
    timestamp,
)
from querymode.types import time as time_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from querymode.plan.bind import Shown
    from querymode.plan.functions.rules import FunctionRule
    from querymode.types import DataType

TIMESTAMP = timestamp(TimeUnit.MICROSECOND)
INSTANT = timestamp(TimeUnit.MICROSECOND, "UTC")
TIME = time_type(TimeUnit.MICROSECOND)

# ---- parts ----

_PART_NAMES = {
    DatePart.YEAR: "year yr y years yrs",
    DatePart.MONTH: "month mon months mons",
    DatePart.DAY: "day days d dayofmonth",
    DatePart.DECADE: "decade dec decades decs",
    DatePart.CENTURY: "century cent centuries c",
    DatePart.MILLENNIUM: "millennium mil millenniums millennia mils millenium",
    DatePart.MICROSECOND: "microseconds microsecond us usec usecs usecond useconds",
    DatePart.MILLISECOND: "milliseconds millisecond ms msec msecs msecond mseconds",
    DatePart.SECOND: "second sec seconds secs s",
    DatePart.MINUTE: "minute min minutes mins m",
    DatePart.HOUR: "hour hr hours hrs h",
    DatePart.EPOCH: "epoch",
    DatePart.DAYOFWEEK: "dow dayofweek weekday",
    DatePart.ISODOW: "isodow",
    DatePart.WEEK: "week weeks w weekofyear",
    DatePart.DAYOFYEAR: "doy dayofyear",
    DatePart.QUARTER: "quarter quarters",
    DatePart.YEARWEEK: "yearweek",
    DatePart.ISOYEAR: "isoyear",
    DatePart.ERA: "era",
    DatePart.TIMEZONE: "timezone timezone_hour timezone_minute",
    DatePart.JULIAN: "julian jd",
}
PARTS = {name: part for part, names in _PART_NAMES.items() for name in names.split()}

_TIME_PARTS = {DatePart.HOUR, DatePart.MINUTE, DatePart.SECOND, DatePart.MILLISECOND, DatePart.MICROSECOND}
_EPOCHS = {DatePart.EPOCH_MS, DatePart.EPOCH_US, DatePart.EPOCH_NS}
#: What a time of day has.
_PARTS_OF_TIME = _TIME_PARTS | _EPOCHS | {DatePart.NANOSECOND, DatePart.EPOCH, DatePart.TIMEZONE}
#: What an interval has.
_PARTS_OF_INTERVAL = (
    _TIME_PARTS
    | _EPOCHS
    | {DatePart.NANOSECOND, DatePart.EPOCH, DatePart.YEAR, DatePart.MONTH, DatePart.DAY, DatePart.QUARTER}
    | {DatePart.DECADE, DatePart.CENTURY, DatePart.MILLENNIUM}
)
_FLOAT_PARTS = {DatePart.EPOCH, DatePart.JULIAN}
#: Parts that are not lengths of time.
_NOT_UNITS = _EPOCHS | {DatePart.ERA, DatePart.TIMEZONE, DatePart.NANOSECOND}


def part_named(name: str, argument: Bound) -> DatePart | None:
    """The part that a constant names; None for NULL."""
    if argument.type == NULL or (argument.is_literal and argument.value is None):
        return None
    if not argument.is_literal or not isinstance(argument.value, str):
        raise error("NOT_SUPPORTED", f"{name} takes its part as a constant such as 'month'")
    part = PARTS.get(argument.value.lower())
    if part is None:
        raise error(
            "INVALID_FILTER", f"{argument.value!r} is no part of a date; {name} knows {', '.join(PARTS)}"
        )
    return part


def _part_constant(part: DatePart) -> Bound:
    return constant_of(int(part), int(part), UINT8, repr(part.name.lower()))


def _without_zone_data(name: str, argument: Bound) -> None:
    if argument.type.zone not in ("", "UTC"):
        raise error(
            "NOT_SUPPORTED",
            f"{name} of {said(argument)}: the engine has no zone data but UTC's; "
            "cast it to 'timestamp(us, UTC)'",
        )


def moment(name: str, argument: Bound, *, zone_matters: bool = True) -> Bound:
    """A date as it is, a timestamp in microseconds."""
    if argument.type == NULL:
        return null_of(TIMESTAMP, argument)
    if argument.type.tag == TypeTag.DATE:
        return argument
    if argument.type.tag != TypeTag.TIMESTAMP:
        raise not_taken(name, argument)
    if zone_matters:
        _without_zone_data(name, argument)
    return cast_to(argument, timestamp(TimeUnit.MICROSECOND, argument.type.zone))


def _timed(name: str, argument: Bound, *, zone_matters: bool = True) -> Bound:
    """The same, and times and intervals."""
    if argument.type.tag == TypeTag.TIME:
        return cast_to(argument, TIME)
    if argument.type.tag == TypeTag.INTERVAL:
        return argument
    return moment(name, argument, zone_matters=zone_matters)


def extract(name: str, part: DatePart, argument: Bound) -> Bound:
    tag = argument.type.tag
    allowed = {TypeTag.TIME: _PARTS_OF_TIME, TypeTag.INTERVAL: _PARTS_OF_INTERVAL}.get(tag)
    if (allowed is not None and part not in allowed) or (tag, part) == (TypeTag.DATE, DatePart.TIMEZONE):
        raise error("INVALID_FILTER", f"{said(argument)} has no part {part.name.lower()}")
    fine = part in (DatePart.NANOSECOND, DatePart.EPOCH_NS)
    if not (fine and tag == TypeTag.TIMESTAMP and argument.type.unit == TimeUnit.NANOSECOND):
        argument = _timed(name, argument, zone_matters=part not in _EPOCHS | {DatePart.EPOCH})
    is_float = part in _FLOAT_PARTS
    function = FunctionId.DATE_PART_FLOAT if is_float else FunctionId.DATE_PART
    return bound_call(name, function, FLOAT64 if is_float else INT64, [_part_constant(part), argument])


def _date_part(name: str, arguments: list[Bound]) -> Bound:
    check_count(name, len(arguments), 2, 2)
    part = part_named(name, arguments[0])
    if part is None:
        return null_of(FLOAT64, name)
    return extract(name, part, arguments[1])


def _part(part: DatePart) -> FunctionRule:
    def rule(name: str, arguments: list[Bound]) -> Bound:
        check_count(name, len(arguments), 1, 1)
        return extract(name, part, arguments[0])

    return rule


def _epoch_ms(name: str, arguments: list[Bound]) -> Bound:
    check_count(name, len(arguments), 1, 1)
    if is_integer(arguments[0].type):
        return _from_number(name, arguments[0], TIMESTAMP, 1000)
    return extract(name, DatePart.EPOCH_MS, arguments[0])


def _unit_named(name: str, argument: Bound) -> DatePart | None:
    part = part_named(name, argument)
    if part in _NOT_UNITS:
        raise error("INVALID_FILTER", f"{name} cannot count in {argument.value!r}")
    return part


def _date_trunc(name: str, arguments: list[Bound]) -> Bound:
    check_count(name, len(arguments), 2, 2)
    part = _unit_named(name, arguments[0])
    value = arguments[1]
    if value.type.tag != TypeTag.INTERVAL:
        value = moment(name, value)
    result = TIMESTAMP if value.type == DATE else value.type
    if part is None:
        return null_of(result, name)
    return bound_call(name, FunctionId.DATE_TRUNC, result, [_part_constant(part), value])


def pair(name: str, first: Bound, second: Bound) -> tuple[Bound, Bound]:
    """Two moments in one type. A constant text or date takes the other's type where it can."""
    first, second = _adapted(first, second), _adapted(second, first)
    sides = [_timed(name, side) for side in (first, second)]
    kinds = {side.type for side in sides}
    if len(kinds) == 2 and {kind.tag for kind in kinds} == {TypeTag.DATE, TypeTag.TIMESTAMP}:
        target = next(kind for kind in kinds if kind.tag == TypeTag.TIMESTAMP)
        if not target.zone:
            sides = [cast_to(side, target) for side in sides]
            kinds = {target}
    if len(kinds) != 1 or INTERVAL in kinds:
        raise error("INVALID_FILTER", f"{name} of {said(first)} and {said(second)}; cast one of them")
    return sides[0], sides[1]


def _adapted(side: Bound, other: Bound) -> Bound:
    if other.type.tag not in (TypeTag.DATE, TypeTag.TIME, TypeTag.TIMESTAMP):
        return side
    if side.type == NULL:
        return null_of(other.type, side)
    if side.is_literal and side.type == UTF8:
        stored = literals.fit(side.value, other.type)
        if stored is not None:
            return constant_of(side.value, stored, other.type, side)
    return side


def _difference(function: int) -> FunctionRule:
    def rule(name: str, arguments: list[Bound]) -> Bound:
        check_count(name, len(arguments), 3, 3)
        part = _unit_named(name, arguments[0])
        first, second = pair(name, arguments[1], arguments[2])
        if first.type == TIME and part is not None and part not in _TIME_PARTS | {DatePart.EPOCH}:
            raise error("INVALID_FILTER", f"{said(first)} has no part {part.name.lower()}")
        if part is None:
            return null_of(INT64, name)
        return bound_call(name, function, INT64, [_part_constant(part), first, second])

    return rule


def _age(name: str, arguments: list[Bound]) -> Bound:
    check_count(name, len(arguments), 2, 2)
    first, second = pair(name, *arguments)
    if first.type == DATE:
        first, second = cast_to(first, TIMESTAMP), cast_to(second, TIMESTAMP)
    if first.type == TIME:
        raise not_taken(name, first)
    return bound_call(name, FunctionId.AGE, INTERVAL, [first, second])


def _of_moment(function: int, result: DataType) -> FunctionRule:
    def rule(name: str, arguments: list[Bound]) -> Bound:
        check_count(name, len(arguments), 1, 1)
        return bound_call(name, function, result, [moment(name, arguments[0])])

    return rule


# ---- text ----

_LETTERS = set("YymBbhdejUWVwuAaHIpMSgfnzZGcxXT%")
_BARE_LETTERS = set("dmyHIMSj")


def _format(name: str, argument: Bound) -> Bound:
    """A constant format with letters that exist. NULL is left to the engine."""
    format_ = text(argument)
    if format_ is None or not argument.is_literal:
        raise error("NOT_SUPPORTED", f"{name} takes its format as a constant text, not {said(argument)}")
    if isinstance(argument.value, str):
        _check_letters(name, argument.value)
    return format_


def _check_letters(name: str, format_: str) -> None:
    if not format_:
        raise error("INVALID_FILTER", f"{name} takes a format such as '%Y-%m-%d', not an empty text")
    rest = iter(format_)
    for character in rest:
        if character != "%":
            continue
        letter = next(rest, "")
        known = _LETTERS
        if letter == "-":
            letter, known = next(rest, ""), _BARE_LETTERS
        if letter not in known:
            raise error("INVALID_FILTER", f"the format {format_!r} of {name} has no meaning at %{letter}")


def _strftime(name: str, arguments: list[Bound]) -> Bound:
    check_count(name, len(arguments), 2, 2)
    value, format_ = arguments
    if value.type == UTF8:
        value, format_ = format_, value
    if value.type.tag == TypeTag.TIMESTAMP and value.type.unit == TimeUnit.NANOSECOND:
        _without_zone_data(name, value)
    else:
        value = moment(name, value)
    return bound_call(name, FunctionId.STRFTIME, UTF8, [value, _format(name, format_)])


def _strptime(function: int) -> FunctionRule:
    def rule(name: str, arguments: list[Bound]) -> Bound:
        check_count(name, len(arguments), 2, 2)
        value = text(arguments[0])
        if value is None:
            raise not_taken(name, arguments[0])
        format_ = _format(name, arguments[1])
        letters = str(format_.value or "").replace("%%", "")
        unit = TimeUnit.NANOSECOND if "%n" in letters else TimeUnit.MICROSECOND
        zone = "UTC" if "%z" in letters or "%Z" in letters else ""
        return bound_call(name, function, timestamp(unit, zone), [value, format_])

    return rule


# ---- from numbers ----


def _numbers(name: str, arguments: list[Bound]) -> list[Bound]:
    return [taken(name, argument, integer) for argument in arguments]


def _from_number(name: str, argument: Bound, result: DataType, factor: int = 1) -> Bound:
    number = taken(name, argument, integer)
    if factor != 1:
        from querymode.plan.bind import arithmetic_call

        times = constant_of(factor, factor, INT64, str(factor))
        number = arithmetic_call(ArithmeticOp.MULTIPLY, number, times)
    return bound_call(name, FunctionId.FROM_NUMBER, result, [number])


def _make_date(name: str, arguments: list[Bound]) -> Bound:
    if len(arguments) == 1:
        number = cast_to(taken(name, arguments[0], integer), INT32)
        return bound_call(name, FunctionId.FROM_NUMBER, DATE, [number])
    check_count(name, len(arguments), 3, 3)
    return bound_call(name, FunctionId.MAKE_DATE, DATE, _numbers(name, arguments))


def _make_time(name: str, arguments: list[Bound]) -> Bound:
    check_count(name, len(arguments), 3, 3)
    numbers = [*_numbers(name, arguments[:2]), taken(name, arguments[2], real)]
    return bound_call(name, FunctionId.MAKE_TIME, TIME, numbers)


def _make_timestamp(result: DataType) -> FunctionRule:
    def rule(name: str, arguments: list[Bound]) -> Bound:
        if len(arguments) == 1:
            return _from_number(name, arguments[0], result)
        check_count(name, len(arguments), 6, 6)
        numbers = [*_numbers(name, arguments[:5]), taken(name, arguments[5], real)]
        return cast_to(bound_call(name, FunctionId.MAKE_TIMESTAMP, TIMESTAMP, numbers), result)

    return rule


def _counted(result: DataType, factor: int) -> FunctionRule:
    def rule(name: str, arguments: list[Bound]) -> Bound:
        check_count(name, len(arguments), 1, 1)
        return _from_number(name, arguments[0], result, factor)

    return rule


def _to_timestamp(name: str, arguments: list[Bound]) -> Bound:
    check_count(name, len(arguments), 1, 1)
    return bound_call(name, FunctionId.TO_TIMESTAMP, INSTANT, [taken(name, arguments[0], real)])


def _to_interval(part: DatePart) -> FunctionRule:
    fractional = part in (DatePart.SECOND, DatePart.MILLISECOND)

    def rule(name: str, arguments: list[Bound]) -> Bound:
        check_count(name, len(arguments), 1, 1)
        count = taken(name, arguments[0], real) if fractional else taken(name, arguments[0], integer)
        return bound_call(name, FunctionId.TO_INTERVAL, INTERVAL, [_part_constant(part), count])

    return rule


# ---- arithmetic ----


_TEMPORAL = (TypeTag.DATE, TypeTag.TIME, TypeTag.TIMESTAMP, TypeTag.INTERVAL)


def arithmetic(op: ArithmeticOp, left: Bound, right: Bound, shown: Shown) -> Bound:
    """`date + interval` and its like; what has no meaning is refused."""
    name = ARITHMETIC_SIGNS[op]
    result = None
    if op == ArithmeticOp.ADD:
        result = _sum(name, left, right) or _sum(name, right, left)
    elif op == ArithmeticOp.SUBTRACT:
        result = _subtraction(name, left, right)
    elif op == ArithmeticOp.MULTIPLY:
        result = _multiple(name, left, right) or _multiple(name, right, left)
    elif op == ArithmeticOp.DIVIDE and left.type == INTERVAL and _is_number(right):
        result = bound_call(name, FunctionId.DIVIDE_INTERVAL, INTERVAL, [left, cast_to(right, FLOAT64)])
    if result is None:
        raise error("INVALID_FILTER", f"{name} is not defined for {said(left)} and {said(right)}")
    return result.copy(shown)


def _is_number(side: Bound) -> bool:
    return is_numeric(side.type) or side.type == NULL


def _sum(name: str, left: Bound, right: Bound) -> Bound | None:
    tags = (left.type.tag, right.type.tag)
    if tags[0] == TypeTag.DATE and (is_integer(right.type) or right.type == NULL):
        return bound_call(name, FunctionId.ADD_DAYS, DATE, [left, cast_to(right, INT32)])
    if tags == (TypeTag.DATE, TypeTag.TIME):
        return bound_call(name, FunctionId.ADD_TIME, TIMESTAMP, [left, cast_to(right, TIME)])
    if tags == (TypeTag.INTERVAL, TypeTag.INTERVAL):
        return bound_call(name, FunctionId.ADD_INTERVALS, INTERVAL, [left, right])
    if tags[0] in _TEMPORAL and (tags[1] == TypeTag.INTERVAL or right.type == NULL):
        return _moved(name, left, right, 1)
    return None


def _moved(name: str, left: Bound, right: Bound, sign: int) -> Bound:
    """A date, time, timestamp or interval, and an interval."""
    right = cast_to(right, INTERVAL)
    if left.type == INTERVAL:
        function = FunctionId.ADD_INTERVALS if sign > 0 else FunctionId.SUBTRACT_INTERVALS
        return bound_call(name, function, INTERVAL, [left, right])
    folded = _fold(left, right, sign)
    if folded is not None:
        return folded
    left = _timed(name, left)
    result = TIMESTAMP if left.type == DATE else left.type
    function = FunctionId.ADD_INTERVAL if sign > 0 else FunctionId.SUBTRACT_INTERVAL
    return bound_call(name, function, result, [left, right])


def _fold(left: Bound, right: Bound, sign: int) -> Bound | None:
    """Constants are moved here, so that the result is a constant: filters by it prune."""
    import datetime as dt

    if not (left.is_literal and right.is_literal and isinstance(left.value, dt.date)):
        return None
    by = parts(right.value)
    result = moved(left.value, by, sign) if by is not None else None
    if result is None:
        return None
    target = INSTANT if result.tzinfo is not None else TIMESTAMP
    return constant_of(result, literals.fit(result, target), target, repr(result))


def _subtraction(name: str, left: Bound, right: Bound) -> Bound | None:
    if left.type == UTF8:
        left = _adapted(left, right)
    if right.type == UTF8:
        right = _adapted(right, left)
    tags = (left.type.tag, right.type.tag)
    if tags == (TypeTag.DATE, TypeTag.DATE):
        return bound_call(name, FunctionId.SUBTRACT_DATES, INT64, [left, right])
    if tags[0] == TypeTag.DATE and (is_integer(right.type) or right.type == NULL):
        return bound_call(name, FunctionId.SUBTRACT_DAYS, DATE, [left, cast_to(right, INT32)])
    if tags[0] in _TEMPORAL and (tags[1] == TypeTag.INTERVAL or right.type == NULL):
        return _moved(name, left, right, -1)
    if left.type == NULL and right.type == INTERVAL:
        return _moved(name, cast_to(left, INTERVAL), right, -1)
    if set(tags) <= {TypeTag.DATE, TypeTag.TIMESTAMP}:
        first, second = pair(name, left, right)
        return bound_call(name, FunctionId.SUBTRACT_TIMESTAMPS, INTERVAL, [first, second])
    return None


def _multiple(name: str, left: Bound, right: Bound) -> Bound | None:
    if left.type != INTERVAL or not _is_number(right):
        return None
    target = INT64 if is_integer(right.type) or right.type == NULL else FLOAT64
    return bound_call(name, FunctionId.MULTIPLY_INTERVAL, INTERVAL, [left, cast_to(right, target)])


def negated(value: Bound, shown: Shown) -> Bound:
    by = parts(value.value) if value.is_literal else None
    if by is not None:
        opposite = -Interval(*by)
        stored = literals.fit(opposite, INTERVAL)
        if stored is not None:
            return constant_of(opposite, stored, INTERVAL, shown)
    return bound_call("-", FunctionId.NEGATE_INTERVAL, INTERVAL, [value]).copy(shown)


# ---- the table ----

TIME_FUNCTIONS: dict[tuple[str, ...], FunctionRule] = {
    ("date_part", "datepart", "extract"): _date_part,
    ("year",): _part(DatePart.YEAR),
    ("month",): _part(DatePart.MONTH),
    ("day", "dayofmonth"): _part(DatePart.DAY),
    ("decade",): _part(DatePart.DECADE),
    ("century",): _part(DatePart.CENTURY),
    ("millennium",): _part(DatePart.MILLENNIUM),
    ("quarter",): _part(DatePart.QUARTER),
    ("week", "weekofyear"): _part(DatePart.WEEK),
    ("isoyear",): _part(DatePart.ISOYEAR),
    ("yearweek",): _part(DatePart.YEARWEEK),
    ("dayofweek", "weekday"): _part(DatePart.DAYOFWEEK),
    ("isodow",): _part(DatePart.ISODOW),
    ("dayofyear",): _part(DatePart.DAYOFYEAR),
    ("era",): _part(DatePart.ERA),
    ("hour",): _part(DatePart.HOUR),
    ("minute",): _part(DatePart.MINUTE),
    ("second",): _part(DatePart.SECOND),
    ("millisecond",): _part(DatePart.MILLISECOND),
    ("microsecond",): _part(DatePart.MICROSECOND),
    ("nanosecond",): _part(DatePart.NANOSECOND),
    ("epoch",): _part(DatePart.EPOCH),
    ("epoch_ms",): _epoch_ms,
    ("epoch_us",): _part(DatePart.EPOCH_US),
    ("epoch_ns",): _part(DatePart.EPOCH_NS),
    ("julian",): _part(DatePart.JULIAN),
    ("timezone_hour", "timezone_minute"): _part(DatePart.TIMEZONE),
    ("date_trunc", "datetrunc"): _date_trunc,
    ("date_diff", "datediff"): _difference(FunctionId.DATE_DIFF),
    ("date_sub", "datesub"): _difference(FunctionId.DATE_SUB),
    ("age",): _age,
    ("last_day",): _of_moment(FunctionId.LAST_DAY, DATE),
    ("dayname",): _of_moment(FunctionId.DAY_NAME, UTF8),
    ("monthname",): _of_moment(FunctionId.MONTH_NAME, UTF8),
    ("strftime",): _strftime,
    ("strptime",): _strptime(FunctionId.STRPTIME),
    ("try_strptime",): _strptime(FunctionId.TRY_STRPTIME),
    ("make_date",): _make_date,
    ("make_time",): _make_time,
    ("make_timestamp",): _make_timestamp(TIMESTAMP),
    ("make_timestamptz",): _make_timestamp(INSTANT),
    ("make_timestamp_ms",): _counted(TIMESTAMP, 1000),
    ("make_timestamp_ns",): _counted(timestamp(TimeUnit.NANOSECOND), 1),
    ("to_timestamp",): _to_timestamp,
    ("to_years",): _to_interval(DatePart.YEAR),
    ("to_quarters",): _to_interval(DatePart.QUARTER),
    ("to_months",): _to_interval(DatePart.MONTH),
    ("to_weeks",): _to_interval(DatePart.WEEK),
    ("to_days",): _to_interval(DatePart.DAY),
    ("to_hours",): _to_interval(DatePart.HOUR),
    ("to_minutes",): _to_interval(DatePart.MINUTE),
    ("to_seconds",): _to_interval(DatePart.SECOND),
    ("to_milliseconds",): _to_interval(DatePart.MILLISECOND),
    ("to_microseconds",): _to_interval(DatePart.MICROSECOND),
    ("to_decades",): _to_interval(DatePart.DECADE),
    ("to_centuries",): _to_interval(DatePart.CENTURY),
    ("to_millennia",): _to_interval(DatePart.MILLENNIUM),
}
