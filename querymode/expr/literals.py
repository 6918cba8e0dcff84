"""Python values as constants of a query: their natural type, and their bytes in a plan.

A constant beside a column takes the column's type where that says the same value exactly: `col("day") >=
"2024-01-01"` compares dates, `col("price") == 0.05` compares decimals. What does not fit keeps its
natural type, and plan/bind.py finds a common one or refuses.
"""

from __future__ import annotations

import struct

from querymode._abi import TimeUnit, TypeTag
from querymode._call import claim
from querymode.errors import error
from querymode.expr.intervals import fits, parts
from querymode.types import (
    BINARY,
    BOOL,
    DATE,
    DECIMAL_PRECISION_MAX,
    FLOAT64,
    INT64,
    INT128,
    INTERVAL,
    NULL,
    UTF8,
    decimal,
    encode_type,
    is_integer,
    is_unsigned,
    timestamp,
    value_size,
)
from querymode.types import time as time_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    import datetime as dt
    from decimal import Decimal
    from typing import Any

    from querymode.types import DataType

#: Ticks of a second, by TimeUnit.
TICKS = (1, 1_000, 1_000_000, 1_000_000_000)

_MICROSECONDS_A_DAY = 86_400_000_000


def plain(value: object) -> object:
    """numpy and pyarrow scalars as the Python value they hold."""
    if type(value).__name__ == "datetime64":
        return _plain_datetime64(value)
    for method in ("item", "as_py"):
        convert = getattr(value, method, None)
        if convert is not None and not isinstance(value, (str, bytes, bytearray, memoryview, int, float)):
            try:
                return convert()
            except (TypeError, ValueError):
                break
    return value


def _plain_datetime64(value: Any) -> object:
    """`item()` would make a bare integer of nanoseconds: their text says them, a datetime cannot."""
    coarse = value.astype("datetime64[us]")
    return coarse.item() if coarse == value else str(value)


def natural_type(value: object) -> DataType:
    """The type of a constant that stands alone."""
    if value is None:
        return NULL
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        if -(1 << 63) <= value < 1 << 63:
            return INT64
        if -(1 << 127) <= value < 1 << 127:
            return INT128
        raise error("INVALID_FILTER", f"{value} does not fit 128 bits")
    if isinstance(value, float):
        return FLOAT64
    if isinstance(value, str):
        return UTF8
    if isinstance(value, (bytes, bytearray, memoryview)):
        return BINARY
    return _library_type(value)


def _library_type(value: object) -> DataType:
    # By name: importing datetime, decimal and uuid just to ask would cost every start.
    import datetime as dt

    if isinstance(value, dt.datetime):
        return timestamp(TimeUnit.MICROSECOND, "UTC" if value.tzinfo is not None else "")
    if isinstance(value, dt.date):
        return DATE
    if isinstance(value, dt.time):
        return time_type(TimeUnit.MICROSECOND)
    if parts(value) is not None:
        return INTERVAL
    found = _as_decimal(value)
    if found is not None:
        return _decimal_type(found)
    if _is_uuid(value):
        return BINARY
    raise error(
        "INVALID_FILTER",
        f"{type(value).__name__} is not a value a query can hold; "
        "use bool, int, float, str, bytes, Decimal, date, time, datetime, timedelta, interval or None",
    )


def _is_uuid(value: object) -> bool:
    return type(value).__name__ == "UUID" and hasattr(value, "bytes")


def is_number(value: object) -> bool:
    return isinstance(value, (int, float)) or _as_decimal(value) is not None


def _as_decimal(value: object) -> Decimal | None:
    from decimal import Decimal

    return value if isinstance(value, Decimal) else None


def _decimal_type(value: Decimal) -> DataType:
    if not value.is_finite():
        return FLOAT64
    if _is_long(value):
        raise error("INVALID_FILTER", f"{value} has more than {DECIMAL_PRECISION_MAX} digits")
    digits, scale = _unscaled(value)
    precision = max(len(str(abs(digits))), scale, 1)
    if precision > DECIMAL_PRECISION_MAX:
        raise error("INVALID_FILTER", f"{value} has more than {DECIMAL_PRECISION_MAX} digits")
    return decimal(precision, scale)


def _is_long(value: Decimal) -> bool:
    """Whether the digits are too many to be looked at: Python does not make integers of thousands of them."""
    return (
        value.adjusted() > DECIMAL_PRECISION_MAX or len(value.as_tuple().digits) > 2 * DECIMAL_PRECISION_MAX
    )


def _unscaled(value: Decimal) -> tuple[int, int]:
    """The digits as an integer, and how many of them stand behind the point."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    number = int("".join(map(str, digits)) or "0")
    number = -number if sign else number
    return (number * 10**exponent, 0) if exponent > 0 else (number, -exponent)


def fit(value: object, target: DataType) -> object | None:
    """What is stored for `value` in a column of type `target`; None where it is not exactly that value."""
    tag = target.tag
    if value is None:
        return None
    if tag == TypeTag.BOOL:
        return value if isinstance(value, bool) else None
    if isinstance(value, bool):
        return None
    if is_integer(target):
        return _fit_integer(value, target)
    if tag in (TypeTag.F64, TypeTag.F32, TypeTag.F16):
        return _fit_float(value, tag)
    if tag == TypeTag.DECIMAL:
        return _fit_decimal(value, target)
    if tag == TypeTag.UTF8:
        return encode_text(value) if isinstance(value, str) else None
    if tag in (TypeTag.BINARY, TypeTag.FIXED_BINARY):
        return _fit_binary(value, target)
    if tag in (TypeTag.DATE, TypeTag.TIME, TypeTag.TIMESTAMP, TypeTag.INTERVAL):
        return _fit_temporal(value, target)
    return None


def _whole(value: object) -> int | None:
    """The integer that a number is, or None."""
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    found = _as_decimal(value)
    if found is not None and found.is_finite() and found == found.to_integral_value():
        return int(found)
    return None


def _fit_integer(value: object, target: DataType) -> int | None:
    number = _whole(value)
    if number is None:
        return None
    bits = value_size(target) * 8
    low, high = (0, 1 << bits) if is_unsigned(target) else (-(1 << bits - 1), 1 << bits - 1)
    return number if low <= number < high else None


_FLOAT_FORMATS = {TypeTag.F64: "<d", TypeTag.F32: "<f", TypeTag.F16: "<e"}


def _fit_float(value: object, tag: TypeTag) -> float | None:
    if isinstance(value, float):
        number = value
    elif isinstance(value, int) or _as_decimal(value) is not None:
        try:
            number = float(value)  # type: ignore[arg-type]
        except (OverflowError, ValueError):  # a signalling NaN is a ValueError
            return None
        if isinstance(value, int) and int(number) != value:
            return None
    else:
        return None
    try:
        stored: float = struct.unpack(_FLOAT_FORMATS[tag], struct.pack(_FLOAT_FORMATS[tag], number))[0]
    except OverflowError:
        return None
    # An integer must be that integer; a fraction is rounded to the column's precision, as in SQL.
    return stored if isinstance(value, float) or stored != stored or stored == value else None


def _fit_decimal(value: object, target: DataType) -> int | None:
    from decimal import Decimal

    if isinstance(value, int):
        digits, scale = value, 0
    else:
        found = Decimal(repr(value)) if isinstance(value, float) else _as_decimal(value)
        if found is None or not found.is_finite() or _is_long(found):
            return None
        digits, scale = _unscaled(found)
    if scale > target.scale:
        quotient, rest = divmod(digits, 10 ** (scale - target.scale))
        if rest:
            return None
        digits, scale = quotient, target.scale
    number = digits * 10 ** (target.scale - scale)
    return number if abs(number) < 10**target.precision else None


def _fit_binary(value: object, target: DataType) -> bytes | None:
    if _is_uuid(value):
        raw: bytes = value.bytes  # type: ignore[attr-defined]
    elif isinstance(value, (bytes, bytearray, memoryview)):
        raw = bytes(value)
    else:
        return None
    return raw if target.tag == TypeTag.BINARY or len(raw) == target.width else None


def _fit_temporal(value: object, target: DataType) -> int | tuple[int, int, int] | None:
    import datetime as dt

    if target.tag == TypeTag.INTERVAL:
        found = parts(value)
        return found if found is not None and fits(*found) else None
    nanoseconds = 0
    if isinstance(value, str):
        value, nanoseconds = _parse_temporal(value, target)
    if target.tag == TypeTag.TIME:
        if not isinstance(value, dt.time) or value.tzinfo is not None:
            return None
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return _ticks(seconds * TICKS[2] + value.microsecond, nanoseconds, target.unit)
    if not isinstance(value, dt.date):
        return None
    microseconds = _microseconds(value, target.zone)
    if microseconds is None:
        return None
    if target.tag == TypeTag.DATE:
        days, rest = divmod(microseconds, _MICROSECONDS_A_DAY)
        return None if rest or nanoseconds else days
    return _ticks(microseconds, nanoseconds, target.unit)


def moment(text: str, target: DataType) -> dt.date | dt.time | None:
    """What a text that fits `target` says; None where Python's types cannot hold it."""
    found, nanoseconds = _parse_temporal(text, target)
    return None if nanoseconds else found


#: Python reads more than these (20200102, 2020-W01-4, 12), the engine and DuckDB do not.
_ISO_DATE = r"\d\d\d\d-\d\d-\d\d"
_ISO_TIME = r"\d\d:\d\d(:\d\d(\.\d*+)?)?"
_ISO = {
    TypeTag.DATE: _ISO_DATE,
    TypeTag.TIME: _ISO_TIME,
    TypeTag.TIMESTAMP: rf"{_ISO_DATE}([ T]{_ISO_TIME}(Z|[+-]\d\d(:?\d\d)?)?)?",
}


def _parse_temporal(text: str, target: DataType) -> tuple[dt.date | dt.time | None, int]:
    """An ISO text, and the nanoseconds that Python's types cannot hold."""
    import datetime as dt
    import re

    kept, nanoseconds = _split_nanoseconds(text)
    if nanoseconds is None or not re.fullmatch(_ISO[target.tag], text, re.ASCII):
        return None, 0
    try:
        if target.tag == TypeTag.DATE:
            return dt.date.fromisoformat(kept), nanoseconds
        if target.tag == TypeTag.TIME:
            return dt.time.fromisoformat(kept), nanoseconds
        moment = dt.datetime.fromisoformat(kept)
    except ValueError:
        return None, 0
    # A text without a zone means the column's own clock; for instants that clock is UTC.
    if target.zone and moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.UTC)
    return moment, nanoseconds


def _split_nanoseconds(text: str) -> tuple[str, int | None]:
    """The text with at most six digits of fraction, and what the next three say; None if more follow."""
    point = text.find(".")
    if point < 0:
        return text, 0
    end = point + 1
    while end < len(text) and text[end].isdigit():
        end += 1
    fraction = text[point + 1 : end]
    if fraction[9:].strip("0"):
        return text, None
    return text[: point + 1] + fraction[:6] + text[end:], int(fraction[6:9].ljust(3, "0") or "0")


def _microseconds(value: dt.date, zone: str) -> int | None:
    """Since 1970. None where one side has a zone and the other has not."""
    import datetime as dt

    if isinstance(value, dt.datetime):
        if (value.tzinfo is not None) != bool(zone):
            return None
        delta = value.replace(tzinfo=None) - dt.datetime(1970, 1, 1)
        delta -= value.utcoffset() or dt.timedelta()
    else:
        if zone:
            return None
        delta = dt.datetime(value.year, value.month, value.day) - dt.datetime(1970, 1, 1)
    return delta.days * _MICROSECONDS_A_DAY + delta.seconds * TICKS[2] + delta.microseconds


def _ticks(microseconds: int, nanoseconds: int, unit: int) -> int | None:
    number, rest = divmod(microseconds * 1000 + nanoseconds, TICKS[3] // TICKS[unit])
    return None if rest or not -(1 << 63) <= number < 1 << 63 else number


def encode_text(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as cause:
        raise error("INVALID_FILTER", f"{text!r} is not valid Unicode at character {cause.start}") from None


def encode_value(stored: object, data_type: DataType) -> bytes:
    """A value of a plan: type, whether it is NULL, and what `fit` returned for it."""
    head = encode_type(data_type)
    if stored is None:
        return head + b"\x01"
    return head + b"\x00" + encode_stored(stored, data_type)


def value_pieces(stored: object, data_type: DataType) -> tuple[bytes, ...]:
    """The same in pieces: a long text or binary is not copied."""
    if (
        isinstance(stored, bytes)
        and len(stored) > CONSTANT_SIZE_CLAIMED
        and data_type.tag != TypeTag.FIXED_BINARY
    ):
        return encode_type(data_type) + b"\x00" + len(stored).to_bytes(4, "little"), stored
    return (encode_value(stored, data_type),)


#: Texts and binaries of more bytes than these are counted with the call's memory.
CONSTANT_SIZE_CLAIMED = 1 << 16


def claim_constant(value: object, copies: int = 1) -> None:
    """Counts the copies that are about to be made of a constant, if it is a long one."""
    if isinstance(value, (str, bytes, bytearray)) and len(value) > CONSTANT_SIZE_CLAIMED:
        claim(copies * len(value), "a long constant")


def encode_stored(stored: object, data_type: DataType) -> bytes:
    tag = data_type.tag
    if tag == TypeTag.BOOL:
        return b"\x01" if stored else b"\x00"
    if isinstance(stored, bytes):
        return stored if tag == TypeTag.FIXED_BINARY else len(stored).to_bytes(4, "little") + stored
    if isinstance(stored, float):
        return struct.pack(_FLOAT_FORMATS[tag], stored)
    if isinstance(stored, tuple):
        return struct.pack("<iiq", *stored)
    assert isinstance(stored, int)
    return stored.to_bytes(value_size(data_type), "little", signed=not is_unsigned(data_type))
