"""Tables made of decoded QMCB: what text and rows become."""

from __future__ import annotations

from querymode._abi import TypeTag
from querymode.engine.views import view_bytes
from querymode.errors import error
from querymode.qmcb import decode_columnar_batch
from querymode.schema import Schema
from querymode.table.memory import HostColumn, MemoryTable, Morsel, cut_morsels, morsel_rows
from querymode.types import has_offsets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from querymode.qmcb import ColumnarColumn
    from querymode.table.memory import Buffer


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
        columns = [host_column(column) for column in batch.columns]
        size = sum(column.memory_size() for column in columns)
        rows = morsel_rows(size / max(batch.row_count, 1), batch.row_count)
        morsels += cut_morsels(columns, batch.row_count, rows)
    if schema is None:
        raise error("INVALID_FORMAT", "no batch, and so no columns; an empty table is one batch without rows")
    return MemoryTable(schema, morsels, name)


def host_column(column: ColumnarColumn) -> HostColumn:
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
        children=[host_column(child) for child in column.children],
    )


def _inverted(nulls: Buffer | None, row_count: int) -> bytes | None:
    """Bit set = valid, from bit set = NULL; None when nothing is NULL."""
    if nulls is None:
        return None
    # One big integer: a few passes in C instead of a loop over bytes.
    every_row = (1 << row_count) - 1
    null_bits = int.from_bytes(nulls, "little") & every_row
    return (null_bits ^ every_row).to_bytes((row_count + 7) // 8, "little") if null_bits else None
