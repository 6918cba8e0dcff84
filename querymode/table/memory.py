"""Tables in memory: columns of buffers, cut into morsels and lanes, laid into an engine's memory.

A `HostColumn` is a column as Arrow lays it out, wherever its buffers live. Tables made from Arrow refer to
Arrow's buffers; tables made from text or rows refer to decoded QMCB. Either way the engine gets copies of
the columns a query names, a morsel at a time.

Cutting moves no values: a part of a column is views of the same buffers, with the bit and the offset where
the part begins. Neither numpy nor pyarrow is needed here: tables made from text and rows come this way when
a process starts.

A morsel is at most 8 MiB and a lane a run of morsels. Both are cut from the table alone, never from
threads or budgets, so that sums of floats do not depend on who computed them.
"""

from __future__ import annotations

import struct

from querymode import _abi
from querymode._abi import CHUNK_ROWS, TypeTag
from querymode._call import check, claim
from querymode.engine.views import cut_bits, view_bytes
from querymode.errors import error
from querymode.table.table import Table
from querymode.types import value_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from querymode.schema import Schema
    from querymode.table.zone import Zone
    from querymode.types import DataType

    Buffer = bytes | bytearray | memoryview

#: What a sort orders at once. Twice as much outgrows the caches: wide rows are fetched a quarter slower.
MORSEL_SIZE_MAX = 8 << 20
#: Below this a lane costs more than it helps.
MORSEL_SIZE_MIN = 1 << 20
LANE_COUNT_WANTED = 32
#: A lane has two morsels where that leaves lanes enough: aggregates have fewer states to merge.
LANE_MORSELS = 2
#: More lanes than this balance no better, and each costs some calls and an answer that has to be merged.
LANE_COUNT_MAX = 128
#: What a column of a morsel takes in this process beside its values.
_COLUMN_SIZE = 512

#: Each row that is picked is handed over by itself, some 10 µs for each column.
PICKS_MAX = 1000
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

    def null_count(self) -> int:
        if self.type.tag == TypeTag.NULL:
            return self.row_count
        if self.validity is None:
            return 0
        bits = int.from_bytes(self.validity, "little") >> self.validity_bit
        return self.row_count - (bits & ((1 << self.row_count) - 1)).bit_count()

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


class MemoryTable(Table):
    """Columns in this process's memory."""

    kind = "memory"

    def __init__(self, schema: Schema, morsels: Sequence[Morsel], name: str | None = None) -> None:
        self.schema = schema
        self.name = name
        self.morsels = tuple(morsels)
        self._row_count = sum(morsel.row_count for morsel in self.morsels)
        count = len(self.morsels)
        #: Each a range of morsels.
        self.lanes = cut_lanes(count, LANE_COUNT_MAX, min(LANE_MORSELS, count // LANE_COUNT_WANTED))
        #: … and those that are to become sorted runs.
        self.run_lanes = cut_lanes(count, LANE_COUNT_MAX)
        #: By column and morsel, what queries found out of its values (execute/top_bound.py).
        self.zones: dict[tuple[int, int], Zone] = {}
        self._column_sizes: dict[int, int] = {}
        self._null_counts: dict[int, int] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        from querymode.table.travel import packed, unpacked

        return unpacked, packed(self)

    @property
    def row_count(self) -> int:
        return self._row_count

    def describe(self) -> str:
        return f"table in memory, {self._row_count:,} rows"

    def with_rows(self, places: Sequence[int]) -> MemoryTable | None:
        """As views of this one's. Each is a morsel, so it is for a few."""
        if len(places) > PICKS_MAX:
            return None
        found = []
        first = taken = 0
        for morsel in self.morsels:
            while taken < len(places) and places[taken] < first + morsel.row_count:
                row = places[taken] - first
                found.append(Morsel([slice_column(column, row, 1) for column in morsel.columns], 1))
                taken += 1
            first += morsel.row_count
        return MemoryTable(self.schema, found, self.name)

    @property
    def lane_count(self) -> int:
        return len(self.lanes)

    def count_lanes(self, *, runs: bool) -> int:
        return len(self.run_lanes if runs else self.lanes)

    def null_count(self, index: int) -> int:
        """NULLs of a column. Counted once: the table does not change."""
        count = self._null_counts.get(index)
        if count is None:
            count = sum(morsel.columns[index].null_count() for morsel in self.morsels)
            self._null_counts[index] = count
        return count

    def memory_size(self, indices: Sequence[int]) -> int:
        """Bytes of these columns, over all morsels."""
        return sum(map(self._column_size, indices))

    def _column_size(self, index: int) -> int:
        size = self._column_sizes.get(index)
        if size is None:
            size = sum(morsel.columns[index].memory_size() for morsel in self.morsels)
            self._column_sizes[index] = size
        return size


def cut_lanes(count: int, lane_count_max: int, size: int = 1) -> list[range]:
    """Runs of as many units of work, at least of `size`, as leave no more lanes than that."""
    size = max(1, size, -(-count // lane_count_max))
    return [range(start, min(start + size, count)) for start in range(0, count, size)]


def morsel_rows(row_size: float, row_count: int) -> int:
    """Rows of a morsel: of at most 8 MiB, in whole chunks where they fit.

    A table that has fewer than 32 of those is cut finer, so that several threads end at the same time.
    """
    size = min(MORSEL_SIZE_MAX, max(MORSEL_SIZE_MIN, row_size * row_count / LANE_COUNT_WANTED))
    rows = int(size / max(row_size, 1 / 8))
    return rows // CHUNK_ROWS * CHUNK_ROWS if rows >= CHUNK_ROWS else max(rows, 1)


# ---- buffers ----


# ---- cutting ----


def cut_morsels(columns: Sequence[HostColumn], row_count: int, rows_max: int) -> Iterator[Morsel]:
    """Morsels of `rows_max` rows, the last one shorter; where rows are unusually large, of fewer."""
    # Rows of no bytes may be without number, so all are counted before there is one.
    parts = 1 + sum(map(_part_count, columns))
    claim(_COLUMN_SIZE * parts * -(-row_count // rows_max), "a table of so many rows and columns")
    for start in range(0, row_count, rows_max):
        check()
        count = min(rows_max, row_count - start)
        yield from _fitting([slice_column(column, start, count) for column in columns], count)


def _part_count(column: HostColumn) -> int:
    """Columns, with those inside of it."""
    return 1 + sum(map(_part_count, column.children))


def _fitting(columns: list[HostColumn], row_count: int) -> Iterator[Morsel]:
    if row_count == 1 or sum(column.memory_size() for column in columns) <= MORSEL_SIZE_MAX:
        yield Morsel(columns, row_count)
        return
    half = row_count // 2
    if half > CHUNK_ROWS:
        half -= half % CHUNK_ROWS
    yield from _fitting([slice_column(column, 0, half) for column in columns], half)
    rest = row_count - half
    yield from _fitting([slice_column(column, half, rest) for column in columns], rest)


def slice_column(column: HostColumn, start: int, count: int) -> HostColumn:
    """Rows of a column, as views of its buffers."""
    assert start >= 0
    assert start + count <= column.row_count
    if count == column.row_count:
        return column
    part = HostColumn(column.type, count, value_width=column.value_width)
    tag = column.type.tag
    if column.validity is not None:
        bits, bit = cut_bits(column.validity, column.validity_bit + start, count)
        if not _all_set(bits, bit, count):
            part.validity, part.validity_bit = bits, bit
    if tag == TypeTag.STRUCTURE:
        part.children = tuple(slice_column(child, start, count) for child in column.children)
    elif tag == TypeTag.BOOL and column.data is not None:
        part.data, part.data_bit = cut_bits(column.data, column.data_bit + start, count)
    elif column.offsets is not None:
        _slice_spans(column, part, start)
    elif column.data is not None:
        width = column.value_width
        part.data = view_bytes(column.data)[start * width : (start + count) * width]
    return part


def _slice_spans(column: HostColumn, part: HostColumn, start: int) -> None:
    assert column.offsets is not None
    width = column.offset_width
    offsets = view_bytes(column.offsets)[start * width : (start + part.row_count + 1) * width]
    first = int.from_bytes(offsets[:width], "little")
    last = int.from_bytes(offsets[-width:], "little")
    begin, end = first - column.offset_base, last - column.offset_base
    # Somebody else's offsets; the engine looks at those in between.
    if not 0 <= begin <= end or any(end > child.row_count for child in column.children):
        raise error("INVALID_FORMAT", f"offsets of a column of {column.type} do not rise within its values")
    part.offsets, part.offset_width, part.offset_base = offsets, width, first
    if column.data is not None:
        part.data = view_bytes(column.data)[begin:end]
    part.children = tuple(slice_column(child, begin, end - begin) for child in column.children)


def _all_set(bits: memoryview, bit: int, count: int) -> bool:
    if len(bits) > 2 and bits[1] != 0xFF:
        return False
    every_row = ((1 << count) - 1) << bit
    return int.from_bytes(bits, "little") & every_row == every_row
