"""Partition folders: `region=us/day=1/` says what is the same in all rows of the files below it.

Values are text unless types are given, or are to be found out; `__HIVE_DEFAULT_PARTITION__` is NULL. Keys
come behind the files' own columns, in alphabetical order; a key that is also a column of the files takes its
place, and what the path says wins.
"""

from __future__ import annotations

from querymode._abi import TimeUnit, TypeTag
from querymode.catalog.pattern import is_partition
from querymode.errors import error
from querymode.expr.literals import encode_value, fit
from querymode.types import DATE, INT64, UTF8, DataType, is_float, is_integer, parse_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

#: For hive_types: types are found out from the values.
INFER = "infer"
_TIMESTAMP = DataType(TypeTag.TIMESTAMP, unit=TimeUnit.MICROSECOND)
NULL_VALUE = "__HIVE_DEFAULT_PARTITION__"


def partition_values(names: Iterable[str]) -> dict[str, str | None]:
    """Of the names of folders. Where a key comes twice, the inner one counts."""
    values: dict[str, str | None] = {}
    for name in names:
        if is_partition(name):
            key, _, value = name.partition("=")
            values[_decoded(key)] = None if value == NULL_VALUE else _decoded(value)
    return values


def _decoded(text: str) -> str:
    if "%" in text:
        from urllib.parse import unquote

        text = unquote(text)
    # A file's name may be bytes that are no UTF-8; a value may not.
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def partition_keys(
    names: Sequence[str], values: Sequence[dict[str, str | None]], *, wanted: bool | None, uneven: bool
) -> list[str]:
    """The keys that become columns.

    `wanted`: True insists that all files have the same keys, False takes none. `uneven`: a file may lack some
    of the keys, which are NULL there; if not, keys that differ are taken for names that mean nothing.
    """
    if wanted is False or not values:
        return []
    keys = dict.fromkeys(key for found in values for key in found)
    odd = next((index for index, found in enumerate(values) if len(found) != len(keys)), None)
    if odd is not None and wanted:
        raise error(
            "SCHEMA_MISMATCH",
            f"{names[odd]} is not in a folder for each of the partition keys {', '.join(sorted(keys))}; "
            "move it, or give hive_partitioning=False",
        )
    return sorted(keys) if odd is None or uneven else []


def partition_types(
    keys: Sequence[str], values: Sequence[dict[str, str | None]], types: Mapping[str, str] | str | None
) -> dict[str, DataType]:
    """`types`: of some of the keys, the others are text; or INFER."""
    if isinstance(types, str):
        return {key: _inferred({found.get(key) for found in values}) for key in keys}
    given = dict(types or {})
    found = {key: parse_type(str(given.pop(key))) if key in given else UTF8 for key in keys}
    if given:
        raise error(
            "COLUMN_NOT_FOUND",
            f"hive_types names {', '.join(map(repr, given))}, but the partition keys are: "
            f"{', '.join(found) or '(none)'}",
            column=next(iter(given)),
        )
    return found


def _inferred(values: set[str | None]) -> DataType:
    """As DuckDB finds it out: integers, dates or timestamps if all values are such, else text."""
    texts = [text for text in values if text is not None and not _is_null(text)]
    for data_type, looks_right in ((INT64, _is_integer), (DATE, _is_date), (_TIMESTAMP, _is_timestamp)):
        if texts and all(looks_right(text) and _stored(text, data_type) is not None for text in texts):
            return data_type
    return UTF8


def _is_null(text: str | None) -> bool:
    return text is None or text.lower() == "null"


def _is_integer(text: str) -> bool:
    """`007` is a name: as a number it would lose its zeros."""
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and (text == "0" or not text.startswith("0"))


def _is_date(text: str) -> bool:
    return text[:1].isdigit() and ":" not in text


def _is_timestamp(text: str) -> bool:
    return text[:1].isdigit() and ":" in text


def encode_constant(text: str | None, data_type: DataType, key: str, name: str) -> bytes:
    """A value as the engine takes it."""
    if text is None or (data_type != UTF8 and (not text or _is_null(text))):
        return encode_value(None, data_type)
    stored = _stored(text, data_type)
    if stored is None:
        raise error(
            "SCHEMA_MISMATCH",
            f"{name}: the partition value {text!r} is no {data_type}; change hive_types for {key!r}",
            column=key,
        )
    return encode_value(stored, data_type)


def _stored(text: str, data_type: DataType) -> Any:
    """A value as the engine holds it, or None if it is not of that type."""
    return fit(_parsed(text, data_type), data_type)


def _parsed(text: str, data_type: DataType) -> object:
    try:
        if is_integer(data_type):
            return int(text)
        if is_float(data_type):
            return float(text)
        if data_type.tag == TypeTag.BOOL:
            return {"true": True, "false": False, "1": True, "0": False}.get(text.lower())
        if data_type.tag == TypeTag.DECIMAL:
            from decimal import Decimal

            return Decimal(text)
    except (ValueError, ArithmeticError):
        return None
    return text
