"""Tables of Python values: VALUES, and the one row of a SELECT without FROM."""

from __future__ import annotations

from querymode._abi import TypeTag
from querymode.expr import literals
from querymode.schema import Schema
from querymode.table.memory import HostColumn, MemoryTable, Morsel
from querymode.types import NULL, has_offsets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from querymode.types import DataType


def constant_table(
    fields: Sequence[tuple[str, DataType]], columns: Sequence[Sequence[object]]
) -> MemoryTable:
    """A table of Python values, which fit the types of their columns."""
    count = len(columns[0])
    hosts = [
        constant_column(data_type, values) for (_, data_type), values in zip(fields, columns, strict=True)
    ]
    table = MemoryTable(Schema(fields), [Morsel(hosts, count)] if count else [])
    table.constants = tuple(map(tuple, columns))
    return table


def constant_column(data_type: DataType, values: Sequence[object]) -> HostColumn:
    """Values of Python that fit the type."""
    count = len(values)
    if data_type == NULL:
        return HostColumn(data_type, count)
    stored = [literals.fit(value, data_type) for value in values]
    assert all((kept is None) == (value is None) for kept, value in zip(stored, values, strict=True))
    validity = None if None not in stored else _bits([kept is not None for kept in stored])
    if has_offsets(data_type):
        texts = [b"" if kept is None else bytes(kept) for kept in stored]  # type: ignore[call-overload]
        return _spans(data_type, texts, validity)
    if data_type.tag == TypeTag.BOOL:
        data = _bits(stored)
    else:
        zero = literals.encode_stored(_zero(data_type), data_type)
        data = b"".join(zero if kept is None else literals.encode_stored(kept, data_type) for kept in stored)
    return HostColumn(data_type, count, validity=validity, data=data)


def _bits(flags: Sequence[object]) -> bytes:
    """One bit each, the first in the lowest place."""
    packed = bytearray((len(flags) + 7) // 8)
    for row, flag in enumerate(flags):
        if flag:
            packed[row >> 3] |= 1 << (row & 7)
    return bytes(packed)


def _zero(data_type: DataType) -> object:
    if data_type.tag == TypeTag.FIXED_BINARY:
        return bytes(data_type.width)
    if data_type.tag == TypeTag.INTERVAL:
        return (0, 0, 0)
    return 0.0 if data_type.tag in (TypeTag.F64, TypeTag.F32, TypeTag.F16) else 0


def _spans(data_type: DataType, texts: Sequence[bytes], validity: bytes | None) -> HostColumn:
    ends = [0]
    for text in texts:
        ends.append(ends[-1] + len(text))
    offsets = b"".join(end.to_bytes(4, "little") for end in ends)
    return HostColumn(
        data_type, len(texts), validity=validity, data=b"".join(texts), offsets=offsets, offset_width=4
    )
