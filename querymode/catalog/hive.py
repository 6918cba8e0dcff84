"""Partition folders: `region=us/day=1/` says what is the same in all rows of the files below it.

Values are text unless a type is given for their key; `__HIVE_DEFAULT_PARTITION__` is NULL. Keys come behind
the files' own columns, in alphabetical order; a key that is also a column of the files takes its place, and
what the path says wins.
"""

from __future__ import annotations

from querymode._abi import TypeTag
from querymode.catalog.pattern import is_partition
from querymode.errors import error
from querymode.literals import encode_value, fit
from querymode.types import UTF8, is_float, is_integer, parse_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from querymode.types import DataType

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


def partition_types(keys: Iterable[str], types: Mapping[str, str] | None) -> dict[str, DataType]:
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


def encode_constant(text: str | None, data_type: DataType, key: str, name: str) -> bytes:
    """A value as the engine takes it."""
    if text is None or (not text and data_type != UTF8):
        return encode_value(None, data_type)
    stored = fit(_parsed(text, data_type), data_type)
    if stored is None:
        raise error(
            "SCHEMA_MISMATCH",
            f"{name}: the partition value {text!r} is no {data_type}; change hive_types for {key!r}",
            column=key,
        )
    return encode_value(stored, data_type)


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
