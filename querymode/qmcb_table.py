"""Columns outside of the engine, cut into morsels; and tables made of decoded QMCB.

Cutting moves no values: a part of a column is views of the same buffers, with the bit and the offset
where the part begins. Neither numpy nor pyarrow is needed here, because tables made from text and rows
come this way when a process starts.
"""

from __future__ import annotations

from querymode._abi import TypeTag
from querymode.errors import error
from querymode.memory_table import CHUNK_ROWS, MORSEL_SIZE_MAX, HostColumn, MemoryTable, Morsel, morsel_rows
from querymode.qmcb import decode_columnar_batch
from querymode.schema import Schema
from querymode.types import has_offsets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from querymode.memory_table import Buffer
    from querymode.qmcb import ColumnarColumn


def from_qmcb(batches: Sequence[bytes], name: str | None = None) -> MemoryTable:
    """A table whose columns are views of the batches, which must have the same columns."""
    schema: Schema | None = None
    morsels: list[Morsel] = []
    for data in batches:
        batch = decode_columnar_batch(data)
        fields = Schema((column.name, column.data_type) for column in batch.columns)
        if schema is not None and fields != schema:
            raise error("SCHEMA_MISMATCH", f"batches differ in their columns: {schema} and {fields}")
        schema = fields
        columns = [_host_column(column) for column in batch.columns]
        size = sum(column.memory_size() for column in columns)
        morsels += cut_morsels(columns, batch.row_count, morsel_rows(size / max(batch.row_count, 1)))
    if schema is None:
        raise error("INVALID_FORMAT", "no batch, and so no columns; an empty table is one batch without rows")
    return MemoryTable(schema, morsels, name)


def _host_column(column: ColumnarColumn) -> HostColumn:
    data_type = column.data_type
    spanned = has_offsets(data_type)
    nested = bool(column.children) or data_type.tag == TypeTag.NULL
    return HostColumn(
        data_type,
        column.row_count,
        validity=_inverted(column.null_bitmap, column.row_count),
        data=None if nested else view_bytes(column.data),
        offsets=view_bytes(column.offsets) if spanned else None,
        offset_width=4 if spanned else 0,
        children=[_host_column(child) for child in column.children],
    )


def _inverted(nulls: Buffer | None, row_count: int) -> bytes | None:
    """Bit set = valid, from bit set = NULL; None when nothing is NULL."""
    if nulls is None:
        return None
    # One big integer: a few passes in C instead of a loop over bytes.
    every_row = (1 << row_count) - 1
    null_bits = int.from_bytes(nulls, "little") & every_row
    return (null_bits ^ every_row).to_bytes((row_count + 7) // 8, "little") if null_bits else None


def view_bytes(buffer: Buffer) -> memoryview:
    return memoryview(buffer).cast("B")


# ---- cutting ----


def cut_morsels(columns: Sequence[HostColumn], row_count: int, rows_max: int) -> Iterator[Morsel]:
    """Morsels of `rows_max` rows, the last one shorter; where rows are unusually large, of fewer."""
    for start in range(0, row_count, rows_max):
        count = min(rows_max, row_count - start)
        yield from _fitting([slice_column(column, start, count) for column in columns], count)


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


def cut_bits(bits: Buffer, first_bit: int, count: int) -> tuple[memoryview, int]:
    """The bytes with these bits, and the bit in the first byte where they begin."""
    if count == 0:
        return memoryview(b""), 0
    return view_bytes(bits)[first_bit >> 3 : (first_bit + count + 7) >> 3], first_bit & 7


def _all_set(bits: memoryview, bit: int, count: int) -> bool:
    if len(bits) > 2 and bits[1] != 0xFF:
        return False
    every_row = ((1 << count) - 1) << bit
    return int.from_bytes(bits, "little") & every_row == every_row
