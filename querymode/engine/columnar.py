"""Columns and batches over buffers, as QMCB has them: what querymode/qmcb.py reads and writes."""

from __future__ import annotations

from array import array

from querymode._abi import TypeTag
from querymode.errors import error
from querymode.types import PLAIN_TYPES, DataType, has_offsets, is_vector, map_entries, value_size, vector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from querymode.engine.views import Buffer
    from querymode.errors import QueryModeError

DTYPE_F64 = 0
DTYPE_I64 = 1
DTYPE_UTF8 = 2
DTYPE_BOOL = 3
DTYPE_F32VEC = 4
DTYPE_NULL = 5
DTYPE_I32 = 6
DTYPE_F32 = 7
#: How memoryview calls the values; the others are bytes.
_FORMATS = {
    TypeTag.F64: "d",
    TypeTag.I64: "q",
    TypeTag.F32VEC: "f",
    TypeTag.I32: "i",
    TypeTag.F32: "f",
    TypeTag.I8: "b",
    TypeTag.I16: "h",
    TypeTag.U8: "B",
    TypeTag.U16: "H",
    TypeTag.U32: "I",
    TypeTag.U64: "Q",
    TypeTag.F16: "H",
    TypeTag.DATE: "i",
    TypeTag.TIME: "q",
    TypeTag.TIMESTAMP: "q",
    TypeTag.F16VEC: "H",
}


class ColumnarColumn:
    """One column. `dtype` is the QMCB tag; `data_type` says the same with all parameters.

    `null_bitmap`: bit set = NULL, or None. `offsets`: of utf8, binary, list and map. `children`: a
    list has one, a map one structure of key and value, a structure its fields.
    """

    __slots__ = (
        "children",
        "data",
        "data_type",
        "dtype",
        "name",
        "null_bitmap",
        "offsets",
        "row_count",
        "vector_dim",
    )

    def __init__(
        self,
        name: str,
        dtype: int,
        data: Buffer,
        row_count: int,
        offsets: Buffer | None = None,
        vector_dim: int | None = None,
        null_bitmap: Buffer | None = None,
        *,
        data_type: DataType | None = None,
        children: Sequence[ColumnarColumn] = (),
    ) -> None:
        self.name = name
        self.dtype = int(dtype)
        self.data: Any = data
        self.row_count = row_count
        self.offsets: Any = offsets
        self.vector_dim = vector_dim
        self.null_bitmap: Any = null_bitmap
        self.data_type = data_type if data_type is not None else _default_type(name, dtype, vector_dim)
        self.children = tuple(children)
        if self.data_type.tag != dtype:
            raise invalid(f"column {name!r} has the tag {dtype} but is {self.data_type}", column=name)
        if is_vector(self.data_type):
            self.vector_dim = self.data_type.width
            if vector_dim not in (None, self.vector_dim):
                raise invalid(f"column {name!r} is {self.data_type}, not of {vector_dim}", column=name)

    def __repr__(self) -> str:
        return f"<ColumnarColumn {self.name!r} {self.data_type}, {self.row_count} rows>"


class ColumnarBatch:
    """Columns of equal length. Pickles as QMCB."""

    __slots__ = ("columns", "row_count")

    def __init__(self, columns: Iterable[ColumnarColumn], row_count: int) -> None:
        self.columns = list(columns)
        self.row_count = row_count

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    def __reduce__(self) -> tuple[Any, ...]:
        from querymode.qmcb import decode_columnar_batch, encode_columnar_batch

        return decode_columnar_batch, (encode_columnar_batch(self),)

    def __repr__(self) -> str:
        columns = ", ".join(f"{column.name}: {column.data_type}" for column in self.columns)
        return f"<ColumnarBatch {self.row_count} rows ({columns})>"


def batch_types(batch: ColumnarBatch) -> list[DataType]:
    return [column.data_type for column in batch.columns]


def _default_type(name: str, dtype: int, vector_dim: int | None) -> DataType:
    if dtype == DTYPE_F32VEC and vector_dim is not None:
        return vector(vector_dim)
    for tag, plain in PLAIN_TYPES.items():
        if tag == dtype:
            return plain
    raise invalid(f"column {name!r} with the tag {dtype} needs its data_type", column=name)


def invalid(message: str, *, offset: int | None = None, column: str | None = None) -> QueryModeError:
    where = f" (at byte {offset})" if offset is not None else ""
    return error("INVALID_FORMAT", f"QMCB: {message}{where}", offset=offset, column=column)


def wrong(column: ColumnarColumn, why: str) -> QueryModeError:
    return invalid(f"column {column.name!r} ({column.data_type}) {why}", column=column.name)


def item_type(data_type: DataType) -> DataType:
    return map_entries(data_type) if data_type.tag == TypeTag.MAP else data_type.children[0][1]


def format_of(data_type: DataType) -> str:
    if data_type.tag == TypeTag.DECIMAL:
        return "q" if value_size(data_type) == 8 else "B"
    return _FORMATS.get(data_type.tag, "B")


EMPTY = memoryview(b"")


def bytes_of(buffer: Buffer, what: str) -> memoryview:
    """Any contiguous buffer, as bytes."""
    try:
        view = memoryview(buffer)
    except TypeError as cause:
        raise invalid(f"{what} is a {type(buffer).__name__}, not a buffer") from cause
    if view.nbytes == 0:
        return EMPTY
    if view.format[:1] in (">", "!") and view.itemsize > 1:
        raise invalid(f"{what} is big endian")
    try:
        return view.cast("B")
    except TypeError:
        # Formats that memoryview does not know, and views with gaps.
        return memoryview(view.tobytes())


def cast(view: memoryview, format: str) -> memoryview[Any]:
    return view.cast(format)  # type: ignore[call-overload, no-any-return]


def bitmap_size(rows: int) -> int:
    return (rows + 7) // 8


def without_tail(bits: bytes, rows: int) -> bytes:
    """The bits, those past the last row cleared."""
    used = rows & 7
    return bits if used == 0 else bits[:-1] + bytes((bits[-1] & ((1 << used) - 1),))


def null_bits(column: ColumnarColumn, rows: int) -> bytes | None:
    """None when no row is NULL in fact."""
    if column.null_bitmap is None or column.dtype == DTYPE_NULL:
        return None
    size = bitmap_size(rows)
    bits = bytes_of(column.null_bitmap, "a null bitmap")
    if len(bits) < size:
        raise wrong(column, f"has a null bitmap of {len(bits)} bytes, {rows} rows need {size}")
    used = without_tail(bytes(bits[:size]), rows)
    return None if used == bytes(size) else used


def sliced_column(column: ColumnarColumn, start: int, stop: int) -> ColumnarColumn:
    """Some rows as a column of their own. Values stay where they are; offsets and bits are copied."""
    assert 0 <= start <= stop <= column.row_count
    data_type, tag = column.data_type, column.data_type.tag
    data, offsets, children = bytes_of(column.data, "data"), None, column.children
    if has_offsets(data_type):
        given = bytes_of(column.offsets, "offsets").cast("I")[start : stop + 1].tolist()
        first, last = given[0], given[-1]
        offsets = array("I", [offset - first for offset in given])
        data, children = data[first:last], tuple(sliced_column(child, first, last) for child in children)
    elif tag == TypeTag.STRUCTURE:
        children = tuple(sliced_column(child, start, stop) for child in children)
    elif tag == TypeTag.BOOL:
        data = memoryview(_sliced_bits(data, start, stop))
    else:
        size = value_size(data_type)
        data = data[start * size : stop * size]
    nulls = column.null_bitmap
    bits = None if nulls is None else _sliced_bits(bytes_of(nulls, "bits"), start, stop)
    return ColumnarColumn(
        column.name,
        column.dtype,
        data,
        stop - start,
        offsets,
        null_bitmap=bits,
        data_type=data_type,
        children=children,
    )


def _sliced_bits(bits: memoryview, start: int, stop: int) -> bytes:
    size = bitmap_size(stop - start)
    if start % 8 == 0:
        return bytes(bits[start // 8 : start // 8 + size])
    shifted = int.from_bytes(bits[start // 8 : bitmap_size(stop)], "little") >> start % 8
    return shifted.to_bytes(size + 1, "little")[:size]
