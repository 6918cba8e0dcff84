"""Arrow tables into ours. The way back is arrow/to_arrow.py.

Each type is first made plain: dictionaries, runs and views become their values, extensions
what they are stored as. Arrays that are plain already, which most are, are handed on as views of Arrow's
own buffers. Some types have no twin here and come out as another one:

    decimal32/64/256     decimal128              date64        date32
    large and view types the usual string, binary and list
    duration             month_day_nano_interval, all of it nanoseconds
    fixed_size_list      stays for float32 and float16 (a vector); else list

Unions have no columns here and are refused. What comes from outside is checked before (arrow/checks.py).
"""

from __future__ import annotations

from functools import cache
from struct import unpack_from

from querymode import types
from querymode._abi import TypeTag
from querymode._call import check
from querymode.arrow.checks import check_table
from querymode.arrow.foreign import table_of_array, table_of_batches, table_of_stream
from querymode.arrow.to_arrow import OFFSET_MAX, arrow_type, owned_buffer
from querymode.engine.lent import LentColumn
from querymode.engine.views import cut_bits, view_bytes
from querymode.errors import QueryModeError, error
from querymode.schema import Schema
from querymode.table.memory import HostColumn, MemoryTable, Morsel, cut_morsels, morsel_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, TypeAlias, TypeVar

    import numpy as np
    import pyarrow as pa

    from querymode.qmcb import ColumnarColumn
    from querymode.types import DataType

    # The stubs spell every kind of array and type; what is done here goes across all of them.
    Array = Any
    ArrowType = Any
    Column: TypeAlias = ColumnarColumn | LentColumn
    #: The Arrow type that a column gets, and ours.
    _Kind: TypeAlias = tuple[ArrowType, DataType]
    _Item = TypeVar("_Item")

_UNITS = {name: unit for unit, name in types.UNIT_NAMES.items()}
#: Chunks that are on average this many times smaller than a morsel are copied together. Larger ones are
#: not: a copy of the whole table costs its memory again, and more time than smaller morsels do.
_JOINED_BELOW = 8
#: The first integer of 39 digits.
_DECIMAL_END = 10**38


def from_arrow(data: object, name: str | None = None) -> MemoryTable:
    """A table over Arrow's buffers: a Table, RecordBatch, RecordBatchReader, a list of RecordBatches, or
    whatever offers `__arrow_c_stream__` or `__arrow_c_array__` (Polars, DuckDB, pandas).

    >>> import pyarrow
    >>> from_arrow(pyarrow.table({"id": [1, 2]})).schema
    Schema(id: int64)
    """
    given = _as_table(data)
    kinds = _plain_kinds(given)
    check_table(given)
    return _memory_table(given, kinds, name)


def from_checked(given: pa.Table, name: str | None = None) -> MemoryTable:
    """The same of a table whose arrays are known to be right."""
    return _memory_table(given, _plain_kinds(given), name)


def _memory_table(given: pa.Table, kinds: list[_Kind], name: str | None) -> MemoryTable:
    schema, table = _made_plain(given, kinds)
    return MemoryTable(schema, list(_morsels(table, schema)), name)


def _as_table(data: object) -> pa.Table:
    import pyarrow as pa

    try:
        table = _find_table(data)
        if table is not None:
            return table
    except (pa.ArrowMemoryError, QueryModeError):
        raise
    except Exception as cause:  # of pyarrow, and whatever the producer of a stream raises
        raise error("INVALID_FORMAT", f"Arrow data of {_kind(data)} cannot be read: {cause}") from cause
    raise error(
        "INVALID_FORMAT",
        f"{_kind(data)} is not an Arrow table. Give a pyarrow Table, RecordBatch or RecordBatchReader, a "
        "list of RecordBatches, or an object with __arrow_c_stream__, such as a frame of Polars, DuckDB or "
        "pandas ≥ 2.2; pyarrow.table(…) makes a table of a dict of columns",
    )


def _find_table(data: Any) -> pa.Table | None:
    import pyarrow as pa

    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return table_of_batches([data], data.schema)
    if isinstance(data, pa.RecordBatchReader):
        return table_of_batches(data, data.schema)
    if isinstance(data, list | tuple):
        is_batches = bool(data) and all(isinstance(batch, pa.RecordBatch) for batch in data)
        return table_of_batches(data, data[0].schema) if is_batches else None
    if hasattr(data, "__arrow_c_stream__"):
        return table_of_stream(data)
    if hasattr(data, "__arrow_c_array__"):
        return table_of_array(data)
    return None


def _checked(items: Iterable[_Item]) -> Iterator[_Item]:
    """Ends where the call has had its time."""
    for item in items:
        check()
        yield item


def _kind(data: object) -> str:
    kind = type(data)
    prefix = "" if kind.__module__ == "builtins" else f"{kind.__module__.partition('.')[0]}."
    return f"a {prefix}{kind.__qualname__}"


def _plain_kinds(given: pa.Table) -> list[_Kind]:
    """Of each column the type that `_plain` gives it, and ours."""
    found = []
    for index, field in enumerate(given.schema):
        try:
            name = field.name
            target = _plain_type(field.type)
            found.append((target, _data_type(target)))
        except UnicodeDecodeError as cause:
            raise error(
                "INVALID_FORMAT",
                f"column {index} of the Arrow data, counted from 0, has a name, a field or a time zone that "
                "is not UTF-8; rename it before",
            ) from cause
        except QueryModeError as cause:
            raise error(cause.code, f"column {name!r}: {cause.message}", column=name) from cause
    return found


def _made_plain(given: pa.Table, kinds: list[_Kind]) -> tuple[Schema, pa.Table]:
    import pyarrow as pa

    columns = []
    fields = []
    for name, chunks, (target, data_type) in zip(given.column_names, given.columns, kinds, strict=True):
        check()
        columns.append(chunks if target is chunks.type else _plain_column(name, chunks, target))
        fields.append((name, data_type))
    schema = Schema(fields)
    # A table made of no columns would forget its rows.
    return schema, pa.table(columns, names=list(schema.names)) if columns else given


def _plain_column(name: str, chunks: Any, target: ArrowType) -> Any:
    import pyarrow as pa

    given = chunks.type
    try:
        try:
            return pa.chunked_array([_plain(chunk) for chunk in _checked(chunks.chunks)], target)
        except (pa.ArrowInvalid, pa.ArrowCapacityError):
            # Text that took little room as a dictionary or in views may need offsets of 8 bytes.
            target = _plain_type(given, large=True)
            return pa.chunked_array([_plain(chunk, large=True) for chunk in _checked(chunks.chunks)], target)
    except pa.ArrowMemoryError:
        raise
    except pa.ArrowException as cause:
        raise error(
            "INVALID_FORMAT", f"column {name!r} of {given}: {cause}; cast it before", column=name
        ) from cause


def _plain_type(given: ArrowType, large: bool = False) -> ArrowType:
    """The type that `_plain` gives arrays of this one; itself where there is nothing to do."""
    import pyarrow as pa
    from pyarrow import types as kinds

    if isinstance(given, pa.BaseExtensionType):
        return _plain_type(given.storage_type, large)
    if kinds.is_dictionary(given) or kinds.is_run_end_encoded(given):
        return _widened(_plain_type(given.value_type, large), large)
    if kinds.is_string_view(given):
        return pa.large_string() if large else pa.string()
    if kinds.is_binary_view(given):
        return pa.large_binary() if large else pa.binary()
    if kinds.is_decimal256(given) and given.precision <= types.DECIMAL_PRECISION_MAX:
        return pa.decimal128(given.precision, given.scale)
    if kinds.is_date64(given):
        return pa.date32()
    if kinds.is_duration(given):
        return pa.month_day_nano_interval()
    return _plain_nested_type(given, large) if kinds.is_nested(given) else given


def _widened(plain: ArrowType, large: bool) -> ArrowType:
    import pyarrow as pa

    wide = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
    return wide.get(plain, plain) if large else plain


def _plain_nested_type(given: ArrowType, large: bool) -> ArrowType:
    import pyarrow as pa
    from pyarrow import types as kinds

    if kinds.is_union(given):
        return given
    old = [given.field(index).type for index in range(given.num_fields)]
    if kinds.is_map(given):
        old = [given.key_type, given.item_type]
    new = [_plain_type(child, large) for child in old]
    is_vector = kinds.is_fixed_size_list(given) and new[0] in (pa.float32(), pa.float16())
    is_kept = is_vector or any(
        is_kind(given) for is_kind in (kinds.is_struct, kinds.is_map, kinds.is_list, kinds.is_large_list)
    )
    if is_kept and all(a is b for a, b in zip(old, new, strict=True)):
        return given
    if kinds.is_struct(given):
        return pa.struct([field.with_type(child) for field, child in zip(given, new, strict=True)])
    if kinds.is_map(given):
        return pa.map_(*new)
    if is_vector:
        return pa.list_(new[0], given.list_size)
    if kinds.is_large_list(given) or kinds.is_large_list_view(given) or (large and not kinds.is_list(given)):
        return pa.large_list(new[0])
    return pa.list_(new[0])


def _data_type(plain: ArrowType) -> DataType:
    from pyarrow import types as kinds

    found = _plain_types().get(plain)
    if found is not None:
        return found
    if kinds.is_decimal(plain) and plain.precision <= types.DECIMAL_PRECISION_MAX:
        return types.decimal(plain.precision, plain.scale)
    if kinds.is_fixed_size_binary(plain):
        return types.fixed_binary(plain.byte_width)
    if kinds.is_time(plain):
        return types.time(_UNITS[plain.unit])
    if kinds.is_timestamp(plain):
        return types.timestamp(_UNITS[plain.unit], plain.tz or "")
    if kinds.is_fixed_size_list(plain):
        return types.vector(plain.list_size, half=kinds.is_float16(plain.value_type))
    if kinds.is_list(plain) or kinds.is_large_list(plain):
        return types.list_of(_data_type(plain.value_type))
    if kinds.is_struct(plain):
        return types.struct_of((field.name, _data_type(field.type)) for field in plain)
    if kinds.is_map(plain):
        return types.map_of(_data_type(plain.key_type), _data_type(plain.item_type))
    raise error("NOT_SUPPORTED", f"Arrow's {plain} has no type here; cast it or leave it out")


@cache
def _plain_types() -> dict[ArrowType, DataType]:
    import pyarrow as pa

    # int128 comes out as a decimal, but decimals that come in stay decimals.
    twins = [data_type for data_type in types.PLAIN_TYPES.values() if data_type != types.INT128]
    found = {arrow_type(data_type): data_type for data_type in twins}
    return {**found, pa.large_string(): types.UTF8, pa.large_binary(): types.BINARY}


# ---- plain arrays ----


def _plain(array: Array, large: bool = False) -> Array:
    """The same values in an array of `_plain_type`."""
    import pyarrow as pa
    from pyarrow import types as kinds

    given = array.type
    target = _plain_type(given, large)
    if target is given:
        return array
    if isinstance(given, pa.BaseExtensionType):
        return _plain(array.storage, large)
    if kinds.is_dictionary(given):
        if len(array.dictionary) == 0:
            # Below a NULL struct pyarrow writes indices all the same.
            return pa.nulls(len(array), target)
        return _plain(array.dictionary, large).cast(target).take(array.indices)
    if kinds.is_run_end_encoded(given):
        return _plain(array.values, large).cast(target).take(_run_indices(array))
    if kinds.is_duration(given):
        return _plain_duration(array)
    if kinds.is_struct(given):
        fields = [_plain(array.field(index), large) for index in range(given.num_fields)]
        return _from_parts(target, array, [], fields)
    if kinds.is_nested(given):
        return _plain_list(array, target, large)
    if kinds.is_string_view(given) or kinds.is_binary_view(given):
        _check_view_size(array, large)
    return array.cast(target)


def _check_view_size(array: Array, large: bool) -> None:
    """pyarrow's own cast does not notice when 4-byte offsets overflow."""
    import numpy as np
    import pyarrow as pa

    if large or len(array) == 0:
        return
    # A view is 16 bytes, its length the first four.
    views = _numbers(array.buffers()[1], np.int32, array.offset * 4, len(array) * 4).reshape(-1, 4)
    size = int(views[:, 0].sum(dtype=np.int64))
    if size > OFFSET_MAX:
        raise pa.ArrowCapacityError(f"{size} bytes of text in one array")


def _from_parts(target: ArrowType, array: Array, buffers: list[Any], children: list[Array]) -> Array:
    """An array with the NULLs of another one, whose slice is not seen any more."""
    import pyarrow as pa

    return pa.Array.from_buffers(target, len(array), [_validity(array), *buffers], -1, 0, children)


def _validity(array: Array) -> pa.Buffer | None:
    import pyarrow.compute as pc

    if array.null_count == 0:
        return None
    # Computed, so it begins with a byte, wherever the array began.
    valid: Array = pc.invert(pc.is_null(array))
    assert valid.offset == 0
    bits: pa.Buffer = valid.buffers()[1]
    return bits


def _run_indices(array: Array) -> Array:
    """For each row, which of the values it has. Runs end at rows of the array before it was sliced."""
    import numpy as np

    ends = np.asarray(array.run_ends).astype(np.int64) - array.offset
    ends = np.clip(ends, 0, len(array))
    return np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))


def _plain_duration(array: Array) -> Array:
    import numpy as np
    import pyarrow as pa

    exact = array.cast(pa.duration("ns"))
    values = np.zeros((len(exact), 2), np.int64)
    if len(exact):
        values[:, 1] = _numbers(exact.buffers()[1], np.int64, exact.offset, len(exact))
    return _from_parts(pa.month_day_nano_interval(), exact, [owned_buffer(values)], [])


def _plain_list(array: Array, target: ArrowType, large: bool) -> Array:
    """Lists of every kind, and maps, in order and without gaps."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import types as kinds

    given = array.type
    if kinds.is_list_view(given) or kinds.is_large_list_view(given):
        items, offsets = _gathered(array, large)
    elif kinds.is_fixed_size_list(given):
        size = given.list_size
        items = array.values.slice(array.offset * size, len(array) * size)
        offsets = np.arange(len(array) + 1, dtype=np.int64) * size
    else:
        offsets = _offsets(array)
        items = array.values.slice(offsets[0], offsets[-1] - offsets[0])
        offsets = offsets - offsets[0]
    if kinds.is_fixed_size_list(target):
        return _from_parts(target, array, [], [_plain(items, large)])
    width = np.int64 if kinds.is_large_list(target) else np.int32
    if offsets[-1] > np.iinfo(width).max:
        raise pa.ArrowCapacityError(f"{offsets[-1]} items in one list array")
    if kinds.is_map(target):
        fields = [_plain(items.field(index), large) for index in range(2)]
        entry = pa.struct([target.key_field, target.item_field])
        child = pa.Array.from_buffers(entry, len(items), [None], 0, 0, fields)
    else:
        child = _plain(items, large)
    return _from_parts(target, array, [owned_buffer(offsets.astype(width))], [child])


def _offsets(array: Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    import numpy as np
    from pyarrow import types as kinds

    buffer = array.buffers()[1]
    if len(array) == 0 or buffer is None:
        return np.zeros(1, np.int64)
    width = np.int64 if kinds.is_large_list(array.type) else np.int32
    found: np.ndarray[Any, np.dtype[np.int64]]
    found = _numbers(buffer, width, array.offset, len(array) + 1).astype(np.int64)
    return found


def _numbers(buffer: Any, kind: Any, start: int, count: int) -> Any:
    """Some of a buffer's; it may end in the middle of another one."""
    import numpy as np

    return np.frombuffer(buffer, kind, count, start * np.dtype(kind).itemsize)


def _gathered(array: Array, large: bool) -> tuple[Array, np.ndarray[Any, np.dtype[np.int64]]]:
    """The items of views in the order of rows, and offsets. Views may overlap and lie in any order."""
    import numpy as np

    starts = np.asarray(array.offsets).astype(np.int64)
    sizes = np.asarray(array.sizes).astype(np.int64)
    if array.null_count:
        sizes = np.where(np.asarray(array.is_valid()), sizes, 0)
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    used = starts[sizes > 0]
    first, last = (used.min(), (starts + sizes)[sizes > 0].max()) if len(used) else (0, 0)
    indices = np.repeat(starts - first - offsets[:-1], sizes) + np.arange(offsets[-1])
    # Views of text cannot be taken from, so the items become plain before.
    return _plain(array.values.slice(first, last - first), large).take(indices), offsets


# ---- morsels ----


def _morsels(table: pa.Table, schema: Schema) -> Iterator[Morsel]:
    rows_max = morsel_rows(table.nbytes / max(table.num_rows, 1), table.num_rows)
    if not len(schema):
        yield from cut_morsels((), table.num_rows, rows_max)
        return
    batches = [batch for batch in table.to_batches() if batch.num_rows]
    if len(batches) > 1 and table.num_rows * _JOINED_BELOW < len(batches) * rows_max:
        batches = [
            batch
            for start in range(0, table.num_rows, rows_max)
            for batch in _joined(table.slice(start, rows_max))
        ]
    for batch in _checked(batches):
        columns = [
            host_column(array, data_type, name)
            for array, (name, data_type) in zip(batch.columns, schema, strict=True)
        ]
        yield from cut_morsels(columns, batch.num_rows, rows_max)


def _joined(table: pa.Table) -> list[pa.RecordBatch]:
    import pyarrow as pa

    try:
        return table.combine_chunks().to_batches()
    except (pa.ArrowInvalid, pa.ArrowCapacityError):
        # More than 2 GiB of text inside lists, in what is 8 MiB on average.
        half = table.num_rows // 2
        if half == 0:
            raise
        return _joined(table.slice(0, half)) + _joined(table.slice(half))


def host_column(array: Array, data_type: DataType, name: str) -> HostColumn:
    """A plain array as a column of views; `name` is for errors."""
    column = HostColumn(data_type, len(array))
    tag = data_type.tag
    if tag == TypeTag.NULL:
        return column
    buffers = array.buffers()
    start, count = array.offset, len(array)
    if array.null_count:
        column.validity, column.validity_bit = cut_bits(buffers[0], start, count)
    if tag == TypeTag.STRUCTURE:
        column.children = tuple(
            host_column(array.field(index), child, name)
            for index, (_, child) in enumerate(data_type.children)
        )
    elif types.has_offsets(data_type):
        _set_spans(column, array, name)
    elif count == 0:
        column.data = b""
    elif tag == TypeTag.BOOL:
        column.data, column.data_bit = cut_bits(buffers[1], start, count)
    else:
        if types.is_vector(data_type):
            array = _elements(array, name)
            buffers, start = array.buffers(), array.offset
            width = array.type.byte_width
            count = len(array)
        else:
            width = column.value_width = array.type.byte_width
        column.data = _view(buffers[1])[start * width : (start + count) * width]
    return column


def _view(buffer: pa.Buffer | None) -> memoryview:
    return memoryview(b"") if buffer is None else view_bytes(memoryview(buffer))


def _set_spans(column: HostColumn, array: Array, name: str) -> None:
    from pyarrow import types as kinds

    data_type = column.type
    given = array.type
    wide = kinds.is_large_list(given) or kinds.is_large_string(given) or kinds.is_large_binary(given)
    width = column.offset_width = 8 if wide else 4
    offsets, start, count = array.buffers()[1], array.offset, len(array)
    first = last = 0
    if count == 0:
        # The buffer may be missing, or any offset may stand in it.
        column.offsets = bytes(width)
    else:
        column.offsets = _view(offsets)[start * width : (start + count + 1) * width]
        first, last = (
            unpack_from("<q" if wide else "<i", column.offsets, at * width)[0] for at in (0, count)
        )
    column.offset_base = first
    if not types.is_nested(data_type):
        column.data = _view(array.buffers()[2])[first:last]
        return
    is_map = data_type.tag == TypeTag.MAP
    item = types.map_entries(data_type) if is_map else data_type.children[0][1]
    column.children = (host_column(array.values.slice(first, last - first), item, name),)


def _elements(array: Array, name: str) -> Array:
    size = array.type.list_size
    elements = array.values.slice(array.offset * size, len(array) * size)
    # NULLs do no harm below a vector that is NULL itself.
    if elements.null_count and array.flatten().null_count:
        raise error(
            "NOT_SUPPORTED",
            f"column {name!r}: a vector of {array.type} has NULL elements; cast the column to list<"
            f"{array.type.value_type}>",
            column=name,
        )
    return elements
