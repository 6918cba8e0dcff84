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
from querymode._call import check, claim, claimable
from querymode.arrow.checks import check_table, check_types
from querymode.arrow.foreign import table_of_array, table_of_batches, table_of_stream
from querymode.arrow.plain import plain_column, plain_type
from querymode.arrow.to_arrow import arrow_type
from querymode.engine.lent import LentColumn
from querymode.engine.views import cut_bits, view_bytes
from querymode.errors import QueryModeError, error
from querymode.schema import Schema
from querymode.table.memory import HostColumn, MemoryTable, Morsel, cut_morsels, morsel_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, TypeAlias, TypeVar

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
    try:
        given = _as_table(data)
        check_types(given.schema)
        kinds = _plain_kinds(given)
        check_table(given)
        return _memory_table(given, kinds, name)
    except QueryModeError:
        raise
    except MemoryError as cause:  # of numpy and pyarrow, which ask for less than was claimed
        raise error("MEMORY_EXCEEDED", f"the Arrow data does not fit into memory: {cause}") from cause


def from_checked(given: pa.Table, name: str | None = None) -> MemoryTable:
    """The same of a table whose arrays are known to be right."""
    return _memory_table(given, _plain_kinds(given), name)


def _memory_table(given: pa.Table, kinds: list[_Kind], name: str | None) -> MemoryTable:
    schema, table = _made_plain(given, kinds)
    return MemoryTable(schema, list(_morsels(table, schema)), name)


def _as_table(data: object) -> pa.Table:

    try:
        table = _find_table(data)
        if table is not None:
            return table
    except (MemoryError, QueryModeError):
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
    """Of each column the type that `plain_type` gives it, and ours."""
    found = []
    for index, field in enumerate(given.schema):
        try:
            name = field.name
            target = plain_type(field.type)
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
        columns.append(chunks if target == chunks.type else plain_column(name, chunks, target))
        fields.append((name, data_type))
    schema = Schema(fields)
    # A table made of no columns would forget its rows.
    return schema, pa.table(columns, names=list(schema.names)) if columns else given


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


# ---- morsels ----


def _morsels(table: pa.Table, schema: Schema) -> Iterator[Morsel]:
    rows_max = morsel_rows(table.nbytes / max(table.num_rows, 1), table.num_rows)
    if not len(schema):
        yield from cut_morsels((), table.num_rows, rows_max)
        return
    batches = [batch for batch in table.to_batches() if batch.num_rows]
    is_small = len(batches) > 1 and table.num_rows * _JOINED_BELOW < len(batches) * rows_max
    if is_small and claimable(table.nbytes):
        claim(table.nbytes, "joining the chunks of Arrow data")
        batches = [
            batch
            for start in _checked(range(0, table.num_rows, rows_max))
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
