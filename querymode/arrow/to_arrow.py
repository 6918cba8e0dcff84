"""Answers into Arrow: batches that the engine lends are copied, those in this process are looked at in place.

int128 comes out as decimal128(38, 0), the only 16-byte integer Arrow has.
"""

from __future__ import annotations

from struct import unpack_from

from querymode import types
from querymode._abi import TimeUnit, TypeTag
from querymode.engine.lent import LentColumn
from querymode.engine.views import cut_bits, view_bytes
from querymode.errors import error
from querymode.schema import Schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeAlias, TypeVar

    import numpy as np
    import pyarrow as pa

    from querymode.engine.lent import LentBatch
    from querymode.qmcb import ColumnarBatch, ColumnarColumn
    from querymode.types import DataType

    # The stubs spell every kind of array and type; what is done here goes across all of them.
    Array = Any
    ArrowType = Any
    Column: TypeAlias = ColumnarColumn | LentColumn
    #: The Arrow type that a column gets, and ours.
    _Kind: TypeAlias = tuple[ArrowType, DataType]
    _Item = TypeVar("_Item")

_UNITS = {name: unit for unit, name in types.UNIT_NAMES.items()}
OFFSET_MAX = (1 << 31) - 1
#: Chunks that are on average this many times smaller than a morsel are copied together. Larger ones are
#: not: a copy of the whole table costs its memory again, and more time than smaller morsels do.
_JOINED_BELOW = 8
#: The first integer of 39 digits.
_DECIMAL_END = 10**38


def arrow_schema(schema: Schema) -> pa.Schema:
    """Every field may be NULL."""
    import pyarrow as pa

    return pa.schema([pa.field(name, arrow_type(data_type)) for name, data_type in schema])


def arrow_type(data_type: DataType) -> ArrowType:
    import pyarrow as pa

    tag = data_type.tag
    if tag in types.PLAIN_TYPES:
        return _PLAIN_MAKERS[tag](pa)
    if tag == TypeTag.DECIMAL:
        return pa.decimal128(data_type.precision, data_type.scale)
    unit = types.UNIT_NAMES[data_type.unit]
    if tag == TypeTag.TIME:
        return pa.time32(unit) if _is_short(data_type) else pa.time64(unit)
    if tag == TypeTag.TIMESTAMP:
        return pa.timestamp(unit, data_type.zone or None)
    if tag == TypeTag.STRUCTURE:
        return pa.struct([pa.field(name, arrow_type(child)) for name, child in data_type.children])
    children = [arrow_type(child) for _, child in data_type.children]
    if tag == TypeTag.LIST:
        return pa.list_(children[0])
    if tag == TypeTag.MAP:
        return pa.map_(children[0], children[1])
    if data_type.width > OFFSET_MAX:
        raise error("NOT_SUPPORTED", f"Arrow has no values as wide as {data_type}; leave the column out")
    if tag == TypeTag.FIXED_BINARY:
        return pa.binary(data_type.width)
    return pa.list_(pa.float16() if tag == TypeTag.F16VEC else pa.float32(), data_type.width)


_PLAIN_MAKERS: dict[TypeTag, Callable[[Any], ArrowType]] = {
    TypeTag.F64: lambda pa: pa.float64(),
    TypeTag.I64: lambda pa: pa.int64(),
    TypeTag.UTF8: lambda pa: pa.string(),
    TypeTag.BOOL: lambda pa: pa.bool_(),
    TypeTag.NULL: lambda pa: pa.null(),
    TypeTag.I32: lambda pa: pa.int32(),
    TypeTag.F32: lambda pa: pa.float32(),
    TypeTag.I8: lambda pa: pa.int8(),
    TypeTag.I16: lambda pa: pa.int16(),
    TypeTag.U8: lambda pa: pa.uint8(),
    TypeTag.U16: lambda pa: pa.uint16(),
    TypeTag.U32: lambda pa: pa.uint32(),
    TypeTag.U64: lambda pa: pa.uint64(),
    TypeTag.F16: lambda pa: pa.float16(),
    TypeTag.I128: lambda pa: pa.decimal128(38, 0),
    TypeTag.BINARY: lambda pa: pa.binary(),
    TypeTag.DATE: lambda pa: pa.date32(),
    TypeTag.INTERVAL: lambda pa: pa.month_day_nano_interval(),
}


def _is_short(data_type: DataType) -> bool:
    """Arrow's times of these units have 4 bytes, ours 8."""
    return data_type.tag == TypeTag.TIME and data_type.unit in (TimeUnit.SECOND, TimeUnit.MILLISECOND)


def to_arrow(batches: list[ColumnarBatch], schema: Schema) -> pa.Table:
    """A table with a chunk for each batch. It refers to the batches' bytes where they are aligned."""
    import pyarrow as pa

    parts = [part for batch in batches for part in record_batches(batch, schema)]
    return pa.Table.from_batches(parts, arrow_schema(schema))


def record_batches(batch: ColumnarBatch, schema: Schema, *, copy: bool = False) -> list[pa.RecordBatch]:
    """One for a batch, more where Arrow's offsets end. `copy`: nothing refers to the batch's bytes."""
    columns = zip(batch.columns, schema.types, strict=True)
    assert all(_stored_alike(column.data_type, data_type) for column, data_type in columns)
    return _record_batches(batch.columns, arrow_schema(schema), 0, batch.row_count, copy)


def copied_batches(batch: LentBatch, schema: Schema) -> list[pa.RecordBatch]:
    """The same of what the engine lends: nothing refers to its memory."""
    return _record_batches(batch.columns(schema), arrow_schema(schema), 0, batch.row_count, True)


def _stored_alike(a: DataType, b: DataType) -> bool:
    """Zones and names of fields are the schema's matter."""
    if (a.tag, a.precision, a.scale, a.unit, a.width) != (b.tag, b.precision, b.scale, b.unit, b.width):
        return False
    children = zip(a.children, b.children, strict=True)
    return len(a.children) == len(b.children) and all(_stored_alike(x[1], y[1]) for x, y in children)


class _TooWide(Exception):
    """More bytes or items than 4-byte offsets of Arrow, which are signed, can tell."""


def _record_batches(
    columns: Sequence[Column], schema: pa.Schema, start: int, count: int, copy: bool
) -> list[pa.RecordBatch]:
    import pyarrow as pa

    if not columns:
        rows = pa.Array.from_buffers(pa.struct([]), count, [None])
        return [pa.RecordBatch.from_struct_array(rows)]  # type: ignore[arg-type]
    try:
        arrays = [
            _export(column, field.type, start, count, copy)
            for column, field in zip(columns, schema, strict=True)
        ]
        return [pa.RecordBatch.from_arrays(arrays, schema=schema)]
    except _TooWide:
        if count == 1:
            raise error(
                "NOT_SUPPORTED", "Arrow's strings and lists end at 2 GiB, and a value is larger"
            ) from None
        half = count // 2
        rest = _record_batches(columns, schema, start + half, count - half, copy)
        return _record_batches(columns, schema, start, half, copy) + rest


def _export(column: Column, target: ArrowType, start: int, count: int, copy: bool) -> Array:
    """Rows of a column as an array."""
    import pyarrow as pa

    data_type, tag = column.data_type, column.data_type.tag
    if tag == TypeTag.NULL:
        return pa.nulls(count)
    buffers: list[Any] = [_valid_bits(column, start, count)]
    children: list[Array] = []
    parts: Sequence[Column] = column.children
    if tag == TypeTag.BOOL:
        buffers.append(_buffer(_bits(column.data, start, count), copy=copy))
    elif tag == TypeTag.STRUCTURE:
        children = [
            _export(child, field.type, start, count, copy) for child, field in zip(parts, target, strict=True)
        ]
    elif types.has_offsets(data_type):
        offsets, first, last = _export_offsets(column.offsets, start, count, copy)
        buffers.append(offsets)
        if parts:
            children = [_export(parts[0], _item_type(target), first, last - first, copy)]
        else:
            buffers.append(_buffer(view_bytes(column.data)[first:last], copy=copy))
    else:
        size = types.value_size(data_type)
        values = view_bytes(column.data)[start * size : (start + count) * size]
        if types.is_vector(data_type):
            flat = [None, _buffer(values, copy=copy)]
            children = [pa.Array.from_buffers(target.value_type, count * data_type.width, flat)]
        else:
            buffers.append(_export_values(column, values, buffers[0], copy))
    return pa.Array.from_buffers(target, count, buffers, -1, 0, children)


def _item_type(target: ArrowType) -> ArrowType:
    import pyarrow as pa
    from pyarrow import types as kinds

    return pa.struct([target.key_field, target.item_field]) if kinds.is_map(target) else target.value_type


def _export_offsets(offsets: Any, start: int, count: int, copy: bool) -> tuple[pa.Buffer, int, int]:
    import numpy as np

    view = view_bytes(offsets)[start * 4 : (start + count + 1) * 4]
    (first,), (last,) = unpack_from("<I", view), unpack_from("<I", view, count * 4)
    if last - first > OFFSET_MAX:
        raise _TooWide
    if first == 0:
        return _buffer(view, copy=copy), 0, last
    return owned_buffer((np.frombuffer(view, np.uint32) - np.uint32(first)).astype(np.int32)), first, last


def _export_values(column: Column, values: memoryview, validity: pa.Buffer | None, copy: bool) -> pa.Buffer:
    import numpy as np

    data_type = column.data_type
    size = types.value_size(data_type)
    if data_type.tag == TypeTag.DECIMAL and size == 8:
        narrow = np.frombuffer(values, np.int64)
        wide_values = np.empty((len(narrow), 2), np.int64)
        wide_values[:, 0] = narrow
        np.right_shift(narrow, 63, out=wide_values[:, 1])
        return owned_buffer(wide_values)
    if _is_short(data_type):
        wide = np.frombuffer(values, np.int64)
        short = wide.astype(np.int32)
        _check_rows(column, short == wide, validity, "times that are no times of a day")
        return owned_buffer(short)
    if data_type.tag == TypeTag.I128:
        _check_rows(
            column, _fits_decimal(values), validity, "integers of 39 digits; cast it to float64 or utf8"
        )
    return _buffer(values, 16 if size == 16 else 8, copy=copy)


def _fits_decimal(values: memoryview) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which 16-byte integers have at most 38 digits."""
    import numpy as np

    halves = np.frombuffer(values, np.uint64).reshape(-1, 2)
    low, high = halves[:, 0], halves[:, 1].view(np.int64)
    fits = np.ones(len(high), np.bool_)
    for limit, beyond, below in (
        (_DECIMAL_END, np.greater, np.greater_equal),
        (-_DECIMAL_END, np.less, np.less_equal),
    ):
        limit_high, limit_low = limit >> 64, limit & ((1 << 64) - 1)
        fits &= ~(beyond(high, limit_high) | ((high == limit_high) & below(low, np.uint64(limit_low))))
    return fits


def _check_rows(column: Column, good: Any, validity: pa.Buffer | None, what: str) -> None:
    """Refuses a column with bad rows. What lies under a NULL is nobody's value."""
    import numpy as np

    if not good.all() and validity is not None:
        valid = np.unpackbits(np.frombuffer(view_bytes(memoryview(validity)), np.uint8), bitorder="little")
        good = good | (valid[: len(good)] == 0)
    if not good.all():
        name = column.name
        raise error("NOT_SUPPORTED", f"column {name!r} goes to Arrow with {what}", column=name)


def _bits(bits: Any, start: int, count: int) -> memoryview:
    """Bits of a bitmap, from the first bit of a byte on."""
    import numpy as np

    view, bit = cut_bits(bits, start, count)
    if bit == 0:
        return view
    single = np.unpackbits(np.frombuffer(view, np.uint8), bitorder="little")[bit : bit + count]
    return np.packbits(single, bitorder="little").data


def _valid_bits(column: Column, start: int, count: int) -> pa.Buffer | None:
    """Bit set = valid. QMCB says it the other way round."""
    import numpy as np

    if isinstance(column, LentColumn):
        bits = column.validity
        return None if bits is None else _buffer(_bits(bits, start, count), copy=True)
    nulls = column.null_bitmap
    if nulls is None:
        return None
    return owned_buffer(np.invert(np.frombuffer(_bits(nulls, start, count), np.uint8)))


def owned_buffer(values: Any) -> pa.Buffer:
    """The memory of a new numpy array, which is aligned."""
    import pyarrow as pa

    return pa.py_buffer(values)


def _buffer(view: memoryview, alignment: int = 8, *, copy: bool = False) -> pa.Buffer:
    """The bytes where they lie, unless readers that insist on alignment would refuse them there."""
    import numpy as np
    import pyarrow as pa

    buffer = pa.py_buffer(view)
    if not copy and buffer.address % alignment == 0:
        return buffer
    # Not from Arrow's default pool: mimalloc takes three times as long to touch new memory as malloc does,
    # and the first answer of a process is all new memory (900 MB: 1.1 s against 0.8).
    target = pa.allocate_buffer(view.nbytes, memory_pool=pa.system_memory_pool())
    if view.nbytes:  # numpy copies without the GIL
        np.copyto(np.frombuffer(memoryview(target), np.uint8), np.frombuffer(view, np.uint8))
    return target
