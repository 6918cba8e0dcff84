"""Columns of an answer that the engine lends: where they lie in its memory, until the next call.

What an answer becomes here (Arrow) is made from these views at once, so its bytes are copied once, straight
to where they stay. The descriptors are those that input comes with (table/memory.py).
"""

from __future__ import annotations

import struct

from querymode import _abi, types
from querymode._abi import TypeTag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from querymode.engine.instance import Instance, Output
    from querymode.schema import Schema
    from querymode.types import DataType

_HEADER = struct.Struct(_abi.BATCH_HEADER_FORMAT)
_DESCRIPTOR = struct.Struct(_abi.COLUMN_DESCRIPTOR_FORMAT)
_FIELDS = tuple(_abi.COLUMN_DESCRIPTOR_OFFSETS)
_ROW_COUNT, _CHILD_COUNT, _VALIDITY, _DATA, _OFFSETS = map(
    _FIELDS.index, ("row_count", "child_count", "validity", "data", "offsets")
)
_SIZES = tuple(_FIELDS.index(name) for name in ("validity_size", "data_size", "offsets_size"))
_TAG, _WIDTH, _DATA_SIZE = map(_FIELDS.index, ("tag", "value_width", "data_size"))


class LentColumn:
    """Views of the engine's memory."""

    __slots__ = ("children", "data", "data_type", "name", "offsets", "row_count", "validity")

    def __init__(self, name: str, data_type: DataType, row_count: int) -> None:
        self.name = name
        self.data_type = data_type
        self.row_count = row_count
        #: Bit set = valid; None when no value is NULL.
        self.validity: memoryview | None = None
        self.data = memoryview(b"")
        self.offsets = memoryview(b"")
        #: list: one; structure: its fields; map: one structure of key and value.
        self.children: tuple[LentColumn, ...] = ()


class LentBatch:
    """An output of a query that lends."""

    def __init__(self, instance: Instance, output: Output) -> None:
        self._view = instance.view
        described = instance.view(output.address, output.size)
        self.row_count: int
        self.row_count, self._column_count, _, _ = _HEADER.unpack_from(described)
        self._descriptors = list(_DESCRIPTOR.iter_unpack(described[_HEADER.size :]))

    @property
    def size(self) -> int:
        """Bytes that its columns take as Arrow, where decimals of 8 bytes become 16."""
        size: int = sum(descriptor[field] for descriptor in self._descriptors for field in _SIZES)
        for descriptor in self._descriptors:
            if descriptor[_TAG] == TypeTag.DECIMAL and descriptor[_WIDTH] == 8:
                size += descriptor[_DATA_SIZE]
        return size

    def columns(self, schema: Schema) -> list[LentColumn]:
        descriptors = iter(self._descriptors)
        assert self._column_count == len(schema)
        return [self._column(name, data_type, descriptors) for name, data_type in schema]

    def _column(self, name: str, data_type: DataType, descriptors: Iterator[tuple[Any, ...]]) -> LentColumn:
        descriptor = next(descriptors)
        column = LentColumn(name, data_type, descriptor[_ROW_COUNT])
        if descriptor[_VALIDITY]:
            column.validity = self._buffer(descriptor, _VALIDITY)
        column.data = self._buffer(descriptor, _DATA)
        column.offsets = self._buffer(descriptor, _OFFSETS)
        if descriptor[_CHILD_COUNT]:
            column.children = tuple(
                self._column(child_name, child, descriptors) for child_name, child in _children(data_type)
            )
        return column

    def _buffer(self, descriptor: tuple[Any, ...], field: int) -> memoryview:
        """An address, and the size that follows it."""
        address, size = descriptor[field : field + 2]
        return self._view(address, size) if size else memoryview(b"")


def _children(data_type: DataType) -> tuple[tuple[str, DataType], ...]:
    return (("", types.map_entries(data_type)),) if data_type.tag == TypeTag.MAP else data_type.children
