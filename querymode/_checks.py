"""Arguments of public calls: numbers, sizes and lists, checked and in one form."""

from __future__ import annotations

import os

from querymode.errors import error

_SIZE_UNITS = {
    "b": 1,
    **{f"{unit}b": 1000**power for power, unit in enumerate("kmgt", 1)},
    **{f"{unit}ib": 1024**power for power, unit in enumerate("kmgt", 1)},
}
#: Three years: longer than that is no timeout, and more than a lock can wait.
_SECONDS_MAX = 1e8


def parse_size(value: int | str, what: str) -> int:
    """Bytes: a number, or text such as "64MiB", "2GB", "500 kB"."""
    if isinstance(value, int) and not isinstance(value, bool):
        size: float = value
    elif isinstance(value, str):
        text = value.strip().lower()
        digits = text.rstrip("bikmgt ")
        unit = text[len(digits) :].strip()
        try:
            size = float(digits) * (_SIZE_UNITS[unit] if unit else 1)
        except (ValueError, KeyError):
            size = 0
    else:
        size = 0
    if not 0 < size < 1 << 50:
        raise error("QUERY_FAILED", f'{what}={value!r} is not a size; write "512MiB" or a number of bytes')
    return int(size)


def texts(values: object, what: str) -> tuple[str, ...] | None:
    """A list of paths or names; one alone is a list of one, never its letters."""
    if values is None:
        return None
    items = (values,) if isinstance(values, (str, os.PathLike)) else values
    if not isinstance(items, (list, tuple, set, frozenset)):
        raise error("QUERY_FAILED", f"{what}={values!r}; it is a list")
    if not all(isinstance(item, (str, os.PathLike)) for item in items):
        raise error("QUERY_FAILED", f"{what}={values!r}; it is a list of paths or names")
    return tuple(os.fspath(item) for item in items)


def request_count(count: object) -> int:
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise error("QUERY_FAILED", f"max_requests={count!r}; it is a number of requests, 0 or more")
    return count


def row_count(what: str, count: object) -> int:
    index = getattr(count, "__index__", None)
    if index is None or isinstance(count, bool) or index() < 0:
        raise error("QUERY_FAILED", f"{what} takes a number of rows, not {count!r}")
    rows: int = index()
    if rows >= 1 << 63:
        raise error("QUERY_FAILED", f"{what} of {rows} rows is more than any table has")
    return rows


def seconds(timeout: float | None) -> float | None:
    if timeout is None:
        return None
    if not isinstance(timeout, (int, float)) or isinstance(timeout, bool) or not timeout > 0:
        raise error("QUERY_FAILED", f"timeout={timeout!r}; it is a number of seconds above 0")
    return None if timeout > _SECONDS_MAX else float(timeout)
