"""Text and Python rows → QMCB batches, by the engine's own parsers."""

from __future__ import annotations

import sys

from querymode._abi import TextFormat
from querymode._call import check, claim
from querymode.engine.text_options import text_options
from querymode.errors import error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

#: Of rows that become JSON, how many at a time; fewer where they are long.
_CHUNK_ROWS = 1024
_CHUNK_SIZE = 1 << 20
#: What Python itself refuses to write unless it is told otherwise: time grows with the square of the digits.
_DIGITS_MAX = 4300
_BITS_MAX = int(_DIGITS_MAX * 3.3219280948873623)
#: What the memory is for, in errors.
_TEXT = "the text"


def csv_batches(
    text: str | bytes, *, delimiter: str | None, header: bool | None, quote: str, infer_types: bool
) -> list[bytes]:
    from querymode.engine.one_task import parse_text

    options = text_options(delimiter=delimiter, header=header, quote=quote, infer_types=infer_types)
    return parse_text(TextFormat.CSV, _encoded(text, "from_csv"), options)


def json_batches(rows: str | bytes | Iterable[Mapping[str, Any]]) -> list[bytes]:
    from querymode.engine.one_task import parse_text

    if isinstance(rows, (str, bytes, bytearray, memoryview)):
        text = _encoded(rows, "from_json")
    else:
        text = _dumped(rows)
    return parse_text(TextFormat.JSON, text, b"")


def _dumped(rows: Iterable[Mapping[str, Any]]) -> bytes:
    import json

    if isinstance(rows, dict) or not hasattr(rows, "__iter__"):
        raise error("INVALID_FORMAT", f"from_json takes a list of dicts, not {type(rows).__name__}")
    from collections.abc import Mapping

    encode = json.JSONEncoder(default=_plain, ensure_ascii=False).encode
    lines = []
    chunk: list[Any] = []
    chunk_rows = 1
    is_unlimited = not 0 < sys.get_int_max_str_digits() <= _DIGITS_MAX
    for position, row in enumerate(rows):
        if not isinstance(row, Mapping):
            kind = type(row).__name__
            raise error("INVALID_FORMAT", f"from_json takes a list of dicts, but row {position} is {kind}")
        chunk.append(dict(row))
        if is_unlimited:
            _check_integers(chunk[-1])
        if len(chunk) >= chunk_rows:
            lines.append(_dumped_chunk(chunk, encode))
            fitting = chunk_rows * _CHUNK_SIZE // max(len(lines[-1]), 1)
            chunk_rows = max(1, min(_CHUNK_ROWS, 2 * chunk_rows, fitting))
            chunk.clear()
    if chunk or not lines:
        lines.append(_dumped_chunk(chunk, encode))
    claim(sum(map(len, lines)), _TEXT)
    return b"[%b]" % b",".join(lines)


def _check_integers(row: dict[str, Any]) -> None:
    """Of any depth; what holds itself is refused where it is written."""
    waiting: list[Any] = [row]
    known: set[int] = set()
    while waiting:
        value = waiting.pop()
        if isinstance(value, int):
            if value.bit_length() > _BITS_MAX:
                raise error("INVALID_FORMAT", f"from_json: an integer has more than {_DIGITS_MAX} digits")
        elif isinstance(value, (dict, list, tuple)) and id(value) not in known:
            known.add(id(value))
            waiting += value.values() if isinstance(value, dict) else value


def _dumped_chunk(rows: list[Any], encode: Callable[[object], str]) -> bytes:
    """These rows without the brackets around them. Long inputs are dumped in chunks, or they could not be
    interrupted."""
    check()
    try:
        text = encode(rows)[1:-1].encode()
    except (TypeError, ValueError, RecursionError) as cause:  # a lone surrogate is a ValueError too
        raise error("INVALID_FORMAT", f"these rows cannot be written as JSON: {cause}") from None
    claim(len(text), _TEXT)
    return text


def _plain(value: object) -> object:
    """Dates as ISO text, which the reader turns back; numpy scalars as Python numbers."""
    import datetime as dt

    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    convert = getattr(value, "tolist", None) or getattr(value, "item", None)
    if convert is not None:
        return convert()
    if type(value).__name__ == "UUID":
        return str(value)
    raise error(
        "NOT_SUPPORTED",
        f"from_json cannot hold {type(value).__name__}; make an Arrow table of these rows and use from_arrow",
    )


def _encoded(text: str | bytes | bytearray | memoryview, what: str) -> bytes:
    if isinstance(text, (bytes, bytearray, memoryview)):
        return bytes(text)
    if not isinstance(text, str):
        raise error("INVALID_FORMAT", f"{what} takes text, not {type(text).__name__}")
    claim(len(text), _TEXT)
    try:
        encoded = text.encode()
    except UnicodeEncodeError as cause:
        raise error("INVALID_FORMAT", f"{what}: character {cause.start} is not valid Unicode") from None
    claim(len(encoded) - len(text), _TEXT)
    return encoded
