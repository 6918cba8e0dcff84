"""Tables in memory: columns of buffers, cut into morsels and lanes, laid into an engine's memory.

A `HostColumn` is a column as Arrow lays it out, wherever its buffers live. Tables made from Arrow refer to
Arrow's buffers; tables made from text or rows refer to decoded QMCB. Either way the engine gets copies of
the columns a query names, a morsel at a time.

A morsel is at most 16 MiB and a lane a run of morsels. Both are cut from the table alone, never from
threads or budgets, so that sums of floats do not depend on who computed them.
"""

from __future__ import annotations

import struct

from querymode import _abi
from querymode.types import value_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from querymode.schema import Schema
    from querymode.types import DataType

    Buffer = bytes | bytearray | memoryview

MORSEL_SIZE_MAX = 16 << 20
#: More lanes than this balance no better, and every lane's answer has to be merged.
LANE_COUNT_MAX = 256
#: Morsels begin at multiples of the engine's chunk, so that chunks are whole.
CHUNK_ROWS = 16_384

#: Buffers lie on multiples of this in the engine's memory.
_ALIGNMENT = 64
#: Readable bytes behind the last buffer, for whole vectors.
_SLACK = 64

_HEADER = struct.Struct(_abi.BATCH_HEADER_FORMAT)
_DESCRIPTOR = struct.Struct(_abi.COLUMN_DESCRIPTOR_FORMAT)


class HostColumn:
    """A column outside of the engine. Buffers may be slices: bits and offsets say where they begin."""

    __slots__ = (
        "children",
        "data",
        "data_bit",
        "offset_base",
        "offset_width",
        "offsets",
        "row_count",
        "type",
        "validity",
        "validity_bit",
        "value_width",
    )

    def __init__(
        self,
        data_type: DataType,
        row_count: int,
        *,
        validity: Buffer | None = None,
        validity_bit: int = 0,
        data: Buffer | None = None,
        data_bit: int = 0,
        value_width: int | None = None,
        offsets: Buffer | None = None,
        offset_width: int = 0,
        offset_base: int = 0,
        children: Sequence[HostColumn] = (),
    ) -> None:
        self.type = data_type
        self.row_count = row_count
        #: Bit set = valid; None when no value is NULL.
        self.validity = validity
        self.validity_bit = validity_bit
        self.data = data
        self.data_bit = data_bit
        #: Bytes of a value as they lie in `data`; the engine brings decimals and times to its own width.
        self.value_width = value_size(data_type) if value_width is None else value_width
        self.offsets = offsets
        self.offset_width = offset_width
        self.offset_base = offset_base
        #: list: one; structure: its fields; map: one structure of key and value.
        self.children = tuple(children)

    def memory_size(self) -> int:
        own = sum(len_of(buffer) for buffer in (self.validity, self.data, self.offsets))
        return own + sum(child.memory_size() for child in self.children)


def len_of(buffer: Buffer | None) -> int:
    return 0 if buffer is None else memoryview(buffer).nbytes


class Layout:
    """Where the buffers of some columns go in one block of the engine's memory, and their descriptors."""

    def __init__(self, columns: Sequence[HostColumn], row_count: int) -> None:
        self.size = 0
        self.buffers: list[tuple[int, Buffer]] = []
        self._parts: list[tuple[HostColumn, int, int, int]] = []
        for column in columns:
            self._add(column)
        self.size += _SLACK
        self._header = _HEADER.pack(row_count, len(columns), len(self._parts), 0)

    def _add(self, column: HostColumn) -> None:
        validity, data, offsets = map(self._place, (column.validity, column.data, column.offsets))
        self._parts.append((column, validity, data, offsets))
        for child in column.children:
            self._add(child)

    def _place(self, buffer: Buffer | None) -> int:
        size = len_of(buffer)
        if buffer is None or size == 0:
            return -1
        place = self.size
        self.buffers.append((place, buffer))
        self.size += (size + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
        return place

    def descriptors(self, base: int) -> bytes:
        """For a block that begins at `base`."""
        return self._header + b"".join(_describe(base, *part) for part in self._parts)


def _describe(base: int, column: HostColumn, validity: int, data: int, offsets: int) -> bytes:
    data_type = column.type
    return _DESCRIPTOR.pack(
        data_type.tag,
        column.offset_width,
        column.validity_bit,
        column.data_bit,
        column.value_width,
        column.row_count,
        len(column.children),
        base + validity if validity >= 0 else 0,
        len_of(column.validity),
        base + data if data >= 0 else 0,
        len_of(column.data),
        base + offsets if offsets >= 0 else 0,
        len_of(column.offsets),
        column.offset_base,
        data_type.precision,
        data_type.scale,
        data_type.unit,
        0,
        data_type.width,
    )


class Morsel:
    """Rows of a table that are handed over together."""

    __slots__ = ("columns", "row_count")

    def __init__(self, columns: Sequence[HostColumn], row_count: int) -> None:
        self.columns = tuple(columns)
        self.row_count = row_count

    def layout(self, indices: Sequence[int]) -> Layout:
        return Layout([self.columns[index] for index in indices], self.row_count)


class MemoryTable:
    """Columns in this process's memory."""

    def __init__(self, schema: Schema, morsels: Sequence[Morsel], name: str | None = None) -> None:
        self.schema = schema
        self.name = name
        self.morsels = tuple(morsels)
        self.row_count = sum(morsel.row_count for morsel in self.morsels)
        count = len(self.morsels)
        run = max(1, -(-count // LANE_COUNT_MAX))
        #: Each a range of morsels.
        self.lanes = [range(start, min(start + run, count)) for start in range(0, count, run)]
        self._column_sizes: dict[int, int] = {}

    @property
    def lane_count(self) -> int:
        return len(self.lanes)

    def column_indices(self, names: Sequence[str]) -> tuple[int, ...]:
        return tuple(self.schema.index(name) for name in names)

    def has_no_nulls(self, index: int) -> bool:
        """Known without a look at any row: no morsel has a bitmap."""
        from querymode.types import NULL

        if self.schema.types[index] == NULL:
            return False
        return all(morsel.columns[index].validity is None for morsel in self.morsels)

    def memory_size(self, indices: Sequence[int]) -> int:
        """Bytes of these columns, over all morsels."""
        return sum(map(self._column_size, indices))

    def _column_size(self, index: int) -> int:
        size = self._column_sizes.get(index)
        if size is None:
            size = sum(morsel.columns[index].memory_size() for morsel in self.morsels)
            self._column_sizes[index] = size
        return size


def morsel_rows(row_size: float) -> int:
    """Rows that make a morsel of at most 16 MiB, in whole chunks where they fit."""
    rows = int(MORSEL_SIZE_MAX / max(row_size, 1 / 8))
    return rows // CHUNK_ROWS * CHUNK_ROWS if rows >= CHUNK_ROWS else max(rows, 1)
