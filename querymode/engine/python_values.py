"""Columns to Python values: numbers, text, dates, lists; `columnar_batch_to_rows` says what becomes what."""

from __future__ import annotations

from itertools import chain, pairwise, repeat
from struct import iter_unpack, unpack

from querymode._abi import TimeUnit, TypeTag
from querymode.engine.columnar import bitmap_size, bytes_of, cast, format_of, null_bits
from querymode.errors import error
from querymode.expr.intervals import Interval
from querymode.types import DataType, has_offsets, is_nested, is_vector, value_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    import datetime
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from querymode.engine.columnar import ColumnarBatch, ColumnarColumn

#: Types of no width cost no bytes per row: a file of 14 bytes may claim four billion rows. So many of
#: them become Python objects whatever the batch's size, and so many more per byte of the batch.
_WEIGHTLESS_FREE = 1 << 22
_WEIGHTLESS_PER_BYTE = 64


def columnar_batch_to_rows(batch: ColumnarBatch) -> list[dict[str, Any]]:
    """One dict per row. Of columns with the same name the last one wins.

    int, float, str, bool, bytes, Decimal, list and dict are themselves; vectors are lists of floats,
    intervals `Interval`s; a map is a dict, or a list of pairs when its keys cannot be keys of a dict.
    Dates, times and timestamps are those of the datetime module, zone-aware where the column has a zone
    (in UTC when the zone is unknown here). A value that datetime cannot hold exactly, such as
    nanoseconds or the year 10000, is text, as DuckDB prints it: nothing is cut off or rounded.
    """
    rows = batch.row_count
    _check_weightless(batch.columns, rows)
    return _dicts(batch.names, [_values(column, rows) for column in batch.columns], rows)


def column_values(column: ColumnarColumn) -> list[Any]:
    """All values of a column, as in `columnar_batch_to_rows`."""
    _check_weightless([column], column.row_count)
    return _values(column, column.row_count)


def read_column_value(column: ColumnarColumn, row: int) -> Any:
    """One value, as in `columnar_batch_to_rows`. For many values, `column_values` is far cheaper."""
    if not 0 <= row < column.row_count:
        raise IndexError(f"row {row} of {column.row_count}")
    data_type, tag = column.data_type, column.data_type.tag
    bits = column.null_bitmap
    if tag == TypeTag.NULL or (bits is not None and bytes_of(bits, "bits")[row >> 3] >> (row & 7) & 1):
        return None
    if tag == TypeTag.STRUCTURE:
        names = [name for name, _ in data_type.children]
        return dict(zip(names, (read_column_value(child, row) for child in column.children), strict=True))
    data = bytes_of(column.data, "data")
    if tag == TypeTag.BOOL:
        return bool(data[row >> 3] >> (row & 7) & 1)
    if has_offsets(data_type):
        return _read_spanned(column, data, *bytes_of(column.offsets, "offsets").cast("I")[row : row + 2])
    size = value_size(data_type)
    return _fixed_values(data_type, data[row * size : (row + 1) * size], 1, ())[0]


def _read_spanned(column: ColumnarColumn, data: memoryview, start: int, end: int) -> Any:
    tag = column.data_type.tag
    if tag == TypeTag.UTF8:
        return str(data[start:end], "utf-8")
    if tag == TypeTag.BINARY:
        return bytes(data[start:end])
    items = column.children[0]
    _check_weightless([items], end - start)
    if tag == TypeTag.LIST:
        return [read_column_value(items, index) for index in range(start, end)]
    keys, values = ([read_column_value(c, i) for i in range(start, end)] for c in items.children)
    return _map_maker(column.data_type)(zip(keys, values, strict=True))


def _weightless_rows(column: ColumnarColumn, rows: int) -> int:
    """Values in here that no byte pays for."""
    data_type = column.data_type
    if data_type.tag in (TypeTag.LIST, TypeTag.MAP):
        last = bytes_of(column.offsets, "offsets").cast("I")[rows] if rows else 0
        return _weightless_rows(column.children[0], last)
    if data_type.tag == TypeTag.STRUCTURE and column.children:
        return sum(_weightless_rows(child, rows) for child in column.children)
    pays = data_type.tag in (TypeTag.BOOL, TypeTag.UTF8, TypeTag.BINARY) or value_size(data_type) > 0
    return 0 if pays else rows


def _bytes_held(column: ColumnarColumn) -> int:
    buffers = (column.data, column.offsets, column.null_bitmap)
    own = sum(memoryview(buffer).nbytes for buffer in buffers if buffer is not None)
    return own + sum(map(_bytes_held, column.children))


def _check_weightless(columns: Sequence[ColumnarColumn], rows: int) -> None:
    count = sum(_weightless_rows(column, rows) for column in columns) if columns else rows
    if count <= _WEIGHTLESS_FREE or count <= _WEIGHTLESS_PER_BYTE * sum(map(_bytes_held, columns)):
        return
    raise error(
        "MEMORY_EXCEEDED",
        f"{count} values of no width, such as NULLs, would become Python objects; slice the batch first",
    )


#: Up to this many columns rows are built by a dict display made for their number.
_DISPLAY_COLUMNS_MAX = 100
_displays: dict[int, Callable[..., list[dict[str, Any]]]] = {}


def _dicts(names: Sequence[str], columns: Sequence[list[Any]], rows: int) -> list[dict[str, Any]]:
    if not columns:
        return [{} for _ in range(rows)]
    if len(columns) > _DISPLAY_COLUMNS_MAX:
        return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
    display = _displays.get(len(columns)) or _make_display(len(columns))
    return display(zip(*columns, strict=True), *names)


def _make_display(count: int) -> Callable[..., list[dict[str, Any]]]:
    """`lambda rows, k0, k1: [{k0: v0, k1: v1} for v0, v1, in rows]`, for that many columns.

    Two to three times as fast as `dict(zip(names, values))`. Names come as arguments: nothing from
    outside is part of the code.
    """
    keys = ", ".join(f"k{index}" for index in range(count))
    values = "".join(f"v{index}, " for index in range(count))
    items = ", ".join(f"k{index}: v{index}" for index in range(count))
    display: Callable[..., list[dict[str, Any]]] = eval(
        f"lambda rows, {keys}: [{{{items}}} for {values}in rows]", {}
    )
    _displays[count] = display
    return display


_BITS: list[tuple[int, ...]] = [tuple(bit for bit in range(8) if byte >> bit & 1) for byte in range(256)]


def _null_rows(column: ColumnarColumn, rows: int) -> Sequence[int]:
    bits = null_bits(column, rows)
    if bits is None:
        return ()
    return [index * 8 + bit for index, byte in enumerate(bits) if byte for bit in _BITS[byte]]


def _values(column: ColumnarColumn, rows: int) -> list[Any]:
    data_type, tag = column.data_type, column.data_type.tag
    if tag == TypeTag.NULL:
        return [None] * rows
    nulls = _null_rows(column, rows)
    if len(nulls) == rows:
        return [None] * rows
    if tag == TypeTag.STRUCTURE:
        names = [name for name, _ in data_type.children]
        values: list[Any] = _dicts(names, [_values(child, rows) for child in column.children], rows)
    elif tag == TypeTag.BOOL:
        values = _bool_values(bytes_of(column.data, "data"), rows)
    elif has_offsets(data_type):
        offsets = bytes_of(column.offsets, "offsets").cast("I")[: rows + 1].tolist()
        values = _spanned_values(column, offsets)
    else:
        data = bytes_of(column.data, "data")[: rows * value_size(data_type)]
        values = _fixed_values(data_type, data, rows, nulls)
    for row in nulls:
        values[row] = None
    return values


def _bool_values(bits: memoryview, rows: int) -> list[bool]:
    by_byte = [tuple(bool(byte >> bit & 1) for bit in range(8)) for byte in range(256)]
    values = list(chain.from_iterable(map(by_byte.__getitem__, bytes(bits[: bitmap_size(rows)]))))
    del values[rows:]
    return values


def _spanned_values(column: ColumnarColumn, offsets: list[int]) -> list[Any]:
    tag = column.data_type.tag
    if tag in (TypeTag.LIST, TypeTag.MAP):
        items = column.children[0]
        if tag == TypeTag.LIST:
            inner = _values(items, offsets[-1])
            return [inner[start:end] for start, end in pairwise(offsets)]
        pairs = list(zip(*(_values(child, offsets[-1]) for child in items.children), strict=True))
        make = _map_maker(column.data_type)
        return [make(pairs[start:end]) for start, end in pairwise(offsets)]
    data = bytes(bytes_of(column.data, "data")[: offsets[-1]])
    if tag == TypeTag.UTF8:
        if data.isascii():
            # Bytes are characters: one str for all, cut in place.
            text = data.decode("ascii")
            return [text[start:end] for start, end in pairwise(offsets)]
        return [data[start:end].decode() for start, end in pairwise(offsets)]
    return [data[start:end] for start, end in pairwise(offsets)]


def _map_maker(data_type: DataType) -> Callable[[Iterable[tuple[Any, Any]]], Any]:
    key = data_type.children[0][1]
    return list if is_nested(key) or is_vector(key) else dict


def _fixed_values(data_type: DataType, data: memoryview, rows: int, nulls: Sequence[int]) -> list[Any]:
    """Values of a fixed size. Those of `nulls` may be anything, and come out as anything."""
    tag = data_type.tag
    if tag == TypeTag.F16:
        return list(unpack(f"<{rows}e", data))
    if is_vector(data_type):
        count = rows * data_type.width
        flat = data.cast("f").tolist() if tag == TypeTag.F32VEC else list(unpack(f"<{count}e", data))
        return _cut(flat, data_type.width, rows)
    if tag == TypeTag.FIXED_BINARY:
        return _cut(bytes(data), data_type.width, rows)
    if tag == TypeTag.INTERVAL:
        return [Interval(*parts) for parts in iter_unpack("<iiq", data)]
    if value_size(data_type) == 16:
        values: list[Any] = [low + (high << 64) for low, high in iter_unpack("<Qq", data)]
    else:
        values = cast(data, format_of(data_type)).tolist()
    convert = _CONVERTERS.get(tag)
    if convert is None:
        return values
    for row in nulls:
        values[row] = 0
    return convert(data_type, values)


def _cut(flat: Any, width: int, rows: int) -> list[Any]:
    if width == 0:
        return [flat[:0] for _ in range(rows)]
    return [flat[start : start + width] for start in range(0, rows * width, width)]


def _decimal_values(data_type: DataType, values: list[int]) -> list[Any]:
    from decimal import Context

    # The default context would round to 28 digits.
    return list(map(Context(prec=60).scaleb, values, repeat(-data_type.scale)))


_EPOCH_ORDINAL = 719_163  # date(1970, 1, 1).toordinal()
_DATE_DAYS = (-719_162, 2_932_896)  # of 0001-01-01 and 9999-12-31
_DAY_SECONDS = 86_400
_UNITS_PER_SECOND = {
    TimeUnit.SECOND: 1,
    TimeUnit.MILLISECOND: 1_000,
    TimeUnit.MICROSECOND: 1_000_000,
    TimeUnit.NANOSECOND: 1_000_000_000,
}


def _date_values(data_type: DataType, values: list[int]) -> list[Any]:
    from datetime import date

    first, last = _DATE_DAYS
    make = date.fromordinal
    if values and min(values) >= first and max(values) <= last:
        return [make(days + _EPOCH_ORDINAL) for days in values]
    return [make(days + _EPOCH_ORDINAL) if first <= days <= last else _date_text(days) for days in values]


def _date_text(days: int) -> str:
    """Any day, as DuckDB prints it."""
    from datetime import date

    # The calendar repeats after 400 years.
    cycles, rest = divmod(days, 146_097)
    day = date.fromordinal(rest + _EPOCH_ORDINAL)
    year = day.year + 400 * cycles
    era = "" if year > 0 else " (BC)"
    return f"{year if year > 0 else 1 - year:04d}-{day.month:02d}-{day.day:02d}{era}"


def _clock_text(ticks: int, per_second: int) -> str:
    """A time of the day; the fraction without its last zeros."""
    sign = "-" if ticks < 0 else ""
    seconds, fraction = divmod(abs(ticks), per_second)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    digits = f".{fraction:0{len(str(per_second)) - 1}d}".rstrip("0") if fraction else ""
    return f"{sign}{hour:02d}:{minute:02d}:{second:02d}{digits}"


def _microseconds(per_second: int, values: list[int]) -> tuple[list[int], bool]:
    """In microseconds, and whether that is exact for all."""
    if per_second <= 1_000_000:
        factor = 1_000_000 // per_second
        return (values if factor == 1 else [value * factor for value in values]), True
    return [value // 1_000 for value in values], not any(value % 1_000 for value in values)


def _time_values(data_type: DataType, values: list[int]) -> list[Any]:
    from datetime import time

    per_second = _UNITS_PER_SECOND[data_type.unit]
    micros, exact = _microseconds(per_second, values)

    def make(value: int) -> datetime.time:
        seconds, fraction = divmod(value, 1_000_000)
        return time(seconds // 3_600, seconds // 60 % 60, seconds % 60, fraction)

    end = _DAY_SECONDS * 1_000_000
    if exact and values and min(micros) >= 0 and max(micros) < end:
        return list(map(make, micros))
    return [
        make(micro) if 0 <= micro < end and _is_exact(per_second, value) else _clock_text(value, per_second)
        for value, micro in zip(values, micros, strict=True)
    ]


def _is_exact(per_second: int, value: int) -> bool:
    return per_second <= 1_000_000 or value % 1_000 == 0


def _timestamp_values(data_type: DataType, values: list[int]) -> list[Any]:
    from datetime import datetime, timedelta, timezone

    per_second = _UNITS_PER_SECOND[data_type.unit]
    micros, exact = _microseconds(per_second, values)
    zone = _find_zone(data_type.zone) if data_type.zone else None
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc if zone is not None else None)  # noqa: UP017
    # A day away from both ends every zone can still say what time it is.
    first = (_DATE_DAYS[0] + 1) * _DAY_SECONDS * 1_000_000
    last = _DATE_DAYS[1] * _DAY_SECONDS * 1_000_000
    if zone is None:
        first, last = first - _DAY_SECONDS * 1_000_000, last + _DAY_SECONDS * 1_000_000

    def make(micro: int) -> datetime:
        moment = epoch + timedelta(0, 0, micro)
        return moment if zone is None else moment.astimezone(zone)

    if exact and values and min(micros) >= first and max(micros) < last:
        return list(map(make, micros))
    return [
        (make(micro) if _is_exact(per_second, value) else _timestamp_text(value, per_second, make(micro)))
        if first <= micro < last
        else _timestamp_text(value, per_second, epoch)
        for value, micro in zip(values, micros, strict=True)
    ]


def _timestamp_text(value: int, per_second: int, moment: datetime.datetime) -> str:
    """As DuckDB prints it; `moment` tells how far its zone is from UTC."""
    offset = moment.utcoffset()
    ahead = 0 if offset is None else offset.days * _DAY_SECONDS + offset.seconds
    days, ticks = divmod(value + ahead * per_second, _DAY_SECONDS * per_second)
    suffix = "" if offset is None else _offset_text(ahead)
    return f"{_date_text(days)} {_clock_text(ticks, per_second)}{suffix}"


def _offset_text(seconds: int) -> str:
    hours, rest = divmod(abs(seconds), 3_600)
    minutes = f":{rest // 60:02d}" if rest else ""
    precise = f":{rest % 60:02d}" if rest % 60 else ""
    return f"{'-' if seconds < 0 else '+'}{hours:02d}{minutes}{precise}"


def _find_zone(name: str) -> datetime.tzinfo:
    """The zone of that name, `+hh:mm` included. One that is unknown here is UTC: same moments."""
    from datetime import timedelta, timezone
    from zoneinfo import ZoneInfo

    if name[0] in "+-" and len(name) == 6 and name[3] == ":" and (name[1:3] + name[4:]).isdecimal():
        minutes = int(name[1:3]) * 60 + int(name[4:])
        if minutes < 24 * 60:
            return timezone(timedelta(minutes=-minutes if name[0] == "-" else minutes))
    try:
        # UTC itself comes out as datetime's own, which needs no files.
        return timezone.utc if name in ("UTC", "Z", "Etc/UTC") else ZoneInfo(name)  # noqa: UP017
    except (ValueError, OSError, LookupError):
        # ZoneInfoNotFoundError is a KeyError; odd names end in ValueError, names of directories in OSError.
        return timezone.utc  # noqa: UP017


_CONVERTERS: dict[TypeTag, Callable[[DataType, list[int]], list[Any]]] = {
    TypeTag.DECIMAL: _decimal_values,
    TypeTag.DATE: _date_values,
    TypeTag.TIME: _time_values,
    TypeTag.TIMESTAMP: _timestamp_values,
}
