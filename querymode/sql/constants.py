"""Constants of SQL text: numbers, dates, intervals and types as they are written."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal, InvalidOperation

from sqlglot import exp
from sqlglot.expressions import DType

from querymode._abi import TimeUnit
from querymode.expr import literals
from querymode.expr.nodes import Cast, Expr, Literal
from querymode.types import (
    BINARY,
    BOOL,
    DATE,
    DECIMAL_PRECISION_MAX,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    INT128,
    INTERVAL,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    UTF8,
    decimal,
    is_decimal,
    is_float,
    is_integer,
    time,
    timestamp,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from querymode.types import DataType

TIME = time(TimeUnit.MICROSECOND)
TIMESTAMP = timestamp(TimeUnit.MICROSECOND)

_TYPES: dict[DType, DataType] = {
    DType.BOOLEAN: BOOL,
    DType.TINYINT: INT8,
    DType.SMALLINT: INT16,
    DType.INT: INT32,
    DType.BIGINT: INT64,
    DType.INT128: INT128,
    DType.UTINYINT: UINT8,
    DType.USMALLINT: UINT16,
    DType.UINT: UINT32,
    DType.UBIGINT: UINT64,
    DType.FLOAT: FLOAT32,
    DType.DOUBLE: FLOAT64,
    DType.TEXT: UTF8,
    DType.VARCHAR: UTF8,
    DType.CHAR: UTF8,
    DType.NVARCHAR: UTF8,
    DType.VARBINARY: BINARY,
    DType.DATE: DATE,
    DType.TIME: TIME,
    DType.TIMESTAMP: TIMESTAMP,
    DType.TIMESTAMPNTZ: TIMESTAMP,
    DType.DATETIME: TIMESTAMP,
    DType.TIMESTAMP_S: timestamp(TimeUnit.SECOND),
    DType.TIMESTAMP_MS: timestamp(TimeUnit.MILLISECOND),
    DType.TIMESTAMP_NS: timestamp(TimeUnit.NANOSECOND),
    DType.TIMESTAMPTZ: timestamp(TimeUnit.MICROSECOND, "UTC"),
    DType.INTERVAL: INTERVAL,
}
#: Names that sqlglot does not know.
_OTHER_NAMES = {"UINT8": UINT8, "UINT16": UINT16, "UINT32": UINT32, "UINT64": UINT64, "INTEGRAL": INT32}
_PRECISION_MAX = 9


def sql_type(node: exp.DataType) -> DataType | None:
    """The type a cast names; None if it is none of ours."""
    if node.this == DType.INTERVAL or isinstance(node.this, exp.Interval):
        return INTERVAL
    parameters = [
        parameter.this.this for parameter in node.expressions if isinstance(parameter, exp.DataTypeParam)
    ]
    if node.this == DType.DECIMAL:
        if not all(isinstance(text, str) and text.isdecimal() for text in parameters):
            return None
        precision, scale = (*map(int, parameters), 0)[:2] if parameters else (18, 3)
        return decimal(precision, scale)
    if len(parameters) != len(node.expressions) or not isinstance(node.this, DType):
        return None
    if node.this == DType.USERDEFINED:
        return _OTHER_NAMES.get(str(node.args.get("kind")).upper())
    found = _TYPES.get(node.this)
    return _of_precision(parameters[0]) if found == TIMESTAMP and parameters else found


def _of_precision(digits: object) -> DataType | None:
    """`TIMESTAMP(3)`: the coarsest unit that has so many digits behind the point."""
    if not isinstance(digits, str) or not digits.isdecimal() or int(digits) > _PRECISION_MAX:
        return None
    return timestamp(TimeUnit((int(digits) + 2) // 3))


def type_name(data_type: DataType) -> str:
    """What DESCRIBE calls a type: DuckDB's name of it."""
    for kind, ours in _TYPES.items():
        if ours == data_type:
            return _NAMES.get(kind, kind.value)
    if is_decimal(data_type):
        return f"DECIMAL({data_type.precision},{data_type.scale})"
    return str(data_type)


_NAMES = {
    DType.INT: "INTEGER",
    DType.INT128: "HUGEINT",
    DType.UINT: "UINTEGER",
    DType.TEXT: "VARCHAR",
    DType.VARBINARY: "BLOB",
    DType.TIMESTAMPTZ: "TIMESTAMP WITH TIME ZONE",
}


# ---- numbers ----


def number(text: str) -> Literal | None:
    """A number as it is written: an integer as small as it fits, a decimal with a point, else float64.

    None if it is too large; ValueError if it is none: `1e`, `1e5.`.
    """
    text = text.replace("_", "")
    if text.isdigit():
        return integer(int(text))
    lowered = text.lower()
    if lowered.startswith(("0x", "0b")):
        return integer(int(lowered, 0))
    if "e" in lowered:
        return Literal(float(text), FLOAT64, fixed=True)
    digits, _, fraction = text.partition(".")
    precision = max(len(digits) + len(fraction), 1)
    if precision > DECIMAL_PRECISION_MAX:
        return Literal(float(text), FLOAT64, fixed=True)
    try:
        return Literal(Decimal(text), decimal(precision, len(fraction)), fixed=True)
    except InvalidOperation as failure:
        raise ValueError(text) from failure


def integer(value: int) -> Literal | None:
    for data_type, bits in ((INT32, 31), (INT64, 63), (INT128, 127)):
        if -(1 << bits) <= value < 1 << bits:
            return Literal(value, data_type)
    return Literal(float(value), FLOAT64, fixed=True) if abs(value) < 10**308 else None


def parameter(value: object) -> Literal:
    """A value from Python."""
    value = literals.plain(value)
    literals.claim_constant(value)
    if isinstance(value, int) and not isinstance(value, bool):
        found = integer(value)
        if found is not None:
            return found
    literals.natural_type(value)  # refuses what is no value
    return Literal(value)


def negated(literal: Literal) -> Literal | None:
    """Minus a constant, as a constant: −2147483648 is an int32 though 2147483648 is not."""
    value = literal.value
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return None
    if isinstance(value, int) and not literal.fixed:
        return integer(-value)
    if literal.type is not None and literals.fit(-value, literal.type) is None:
        return None
    return Literal(-value, literal.type, literal.fixed)


# ---- text as other types ----

_INTEGER = re.compile(r"\s*+[+-]?\d{1,40}+\s*+", re.ASCII)
_NUMBER = re.compile(r"\s*+[+-]?(?:\d++(?:\.\d*+)?|\.\d++)(?:e[+-]?\d++)?\s*+", re.IGNORECASE | re.ASCII)
#: Longer ones are left to the engine: Python would take them apart digit by digit.
_DECIMAL = re.compile(
    r"\s*+[+-]?(?:\d{1,40}+(?:\.\d{0,40}+)?|\.\d{1,40}+)(?:e[+-]?\d{1,3}+)?\s*+", re.IGNORECASE | re.ASCII
)
_DATE = re.compile(r"\s*+(\d\d\d\d)-(\d{1,2}+)-(\d{1,2}+)\s*+", re.ASCII)
_TIMESTAMP = re.compile(
    r"\s*+(\d\d\d\d)-(\d{1,2}+)-(\d{1,2}+)(?:[ T](\d{1,2}+):(\d\d)(?::(\d\d)(?:\.(\d{1,6}+))?)?)?\s*+",
    re.ASCII,
)
_TIME = re.compile(r"\s*+(\d{1,2}+):(\d\d)(?::(\d\d)(?:\.(\d{1,6}+))?)?\s*+", re.ASCII)
_ODD_FLOATS = ("nan", "inf", "-inf", "infinity", "-infinity")
_TRUTHS = {"true": True, "t": True, "1": True, "yes": True, "y": True} | {
    "false": False,
    "f": False,
    "0": False,
    "no": False,
    "n": False,
}


def text_as(text: str, target: DataType) -> Expr:
    """A constant text as another type: at once where it is plainly one, else by a cast of the engine's."""
    found = _plain_text_as(text, target)
    return Cast(Literal(text), target, False) if found is None else Literal(found, target, fixed=True)


def cast(literal: Literal, target: DataType) -> Literal | None:
    """A constant that was cast, as a constant; None where that is left to the engine."""
    value = literal.value
    if isinstance(value, str):
        found = text_as(value, target)
        return found if isinstance(found, Literal) else None
    if value is None or isinstance(value, bool) or literals.fit(value, target) is None:
        return None
    if is_float(target):
        assert isinstance(value, (int, float, Decimal))
        if target != FLOAT64 and literals.fit(value, target) != value:
            return None
        value = float(value)  # has a zero below zero
    return Literal(value, target, fixed=True)


def _plain_text_as(text: str, target: DataType) -> object | None:
    if target == BOOL:
        return _TRUTHS.get(text.strip().lower())
    if is_integer(target) and _INTEGER.fullmatch(text):
        value = int(text)
        return value if literals.fit(value, target) is not None else None
    if is_float(target) and (_NUMBER.fullmatch(text) or text.strip().lower() in _ODD_FLOATS):
        number = float(text)
        # Shorter floats are left to the engine where they round: it does so once, this would be twice.
        once = target == FLOAT64 or literals.fit(number, target) == number
        return literals.fit(number, target) if once or number != number else None
    if is_decimal(target) and _DECIMAL.fullmatch(text):
        exact = Decimal(text.strip())
        return exact if literals.fit(exact, target) is not None else None
    try:
        if target == DATE and (found := _DATE.fullmatch(text)):
            return dt.date(*map(int, found.groups()))
        if target == TIMESTAMP and (found := _TIMESTAMP.fullmatch(text)):
            year, month, day, hour, minute, second, fraction = found.groups(default="0")
            date = dt.date(int(year), int(month), int(day))
            return dt.datetime.combine(date, _time(hour, minute, second, fraction))
        if target == TIME and (found := _TIME.fullmatch(text)):
            return _time(*found.groups(default="0"))
    except ValueError:
        return None
    return None


def _time(hour: str, minute: str, second: str, fraction: str) -> dt.time:
    return dt.time(int(hour), int(minute), int(second), int(fraction.ljust(6, "0")))
