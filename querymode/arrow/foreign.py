"""Arrow data of other libraries, through Arrow's C interface.

Streams are read here, batch by batch, and not by pyarrow: it ends the process when it meets a map with NULL
keys. So where there are maps, each batch is taken in as what a map is stored as, a list of structs. NULLs are
counted in that, and only then it gets its own type.
"""

from __future__ import annotations

import ctypes

from querymode._call import check
from querymode.arrow.checks import ArrowArray, capsule_address, check_places, exported_array
from querymode.errors import error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    import pyarrow as pa

    # The stubs spell every kind of type; what is done here goes across all of them.
    ArrowType = Any

#: Of an ArrowArray or ArrowArrayStream.
_Release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
#: Of a stream, to an ArrowSchema or ArrowArray; an errno.
_Get = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_LastError = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)
#: The size of an ArrowSchema, which only pyarrow looks into.
_SCHEMA_SIZE = 72


class _ArrowArrayStream(ctypes.Structure):
    _fields_ = (
        ("get_schema", ctypes.c_void_p),
        ("get_next", ctypes.c_void_p),
        ("get_last_error", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    )


def table_of_stream(data: Any) -> pa.Table:
    """Of something with `__arrow_c_stream__`."""
    import pyarrow as pa

    with _Stream(data.__arrow_c_stream__()) as stream:
        schema = stream.schema()
        reader = _BatchReader(schema)
        # Where something fails, tracebacks hold on to the batches for a while. A comprehension would drop
        # them at once, and producers in Python cannot release anything while an exception is on its way.
        batches = []
        for array in stream:
            batches.append(reader.take(array))
        return pa.Table.from_batches(batches, schema)


def table_of_array(data: Any) -> pa.Table:
    """Of something with `__arrow_c_array__`."""
    import pyarrow as pa

    schema_capsule, array_capsule = data.__arrow_c_array__()
    given: Any = pa.Schema
    schema = given._import_from_c_capsule(schema_capsule)
    return pa.Table.from_batches([_BatchReader(schema).take(exported_array(array_capsule))])


def table_of_batches(given: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """Of pyarrow's own. (What is wrong with their maps ends the process before anybody can see it.)"""
    import pyarrow as pa

    batches = []
    for batch in given:
        check()
        batches.append(batch)
    return pa.Table.from_batches(batches, schema)


class _Stream:
    """An ArrowArrayStream, moved out of its capsule; released once, when the block ends."""

    def __init__(self, capsule: object) -> None:
        given = _ArrowArrayStream.from_address(capsule_address(capsule, b"arrow_array_stream"))
        if not given.release:
            raise ValueError("the stream was released before; streams can be read once")
        self._stream = _ArrowArrayStream.from_buffer_copy(given)
        self._address = ctypes.addressof(self._stream)
        given.release = None

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: object) -> None:
        _Release(self._stream.release)(self._address)

    def schema(self) -> pa.Schema:
        import pyarrow as pa

        memory = ctypes.create_string_buffer(_SCHEMA_SIZE)
        self._get(self._stream.get_schema, ctypes.addressof(memory))
        given: Any = pa.Schema
        schema: pa.Schema = given._import_from_c(ctypes.addressof(memory))
        return schema

    def __iter__(self) -> Iterator[ArrowArray]:
        """Each is to be taken before the next one is asked for."""
        while True:
            check()
            array = ArrowArray()
            self._get(self._stream.get_next, ctypes.addressof(array))
            if not array.release:
                return
            yield array

    def _get(self, function: int, target: int) -> None:
        code = _Get(function)(self._address, target)
        if code:
            message = _LastError(self._stream.get_last_error)(self._address)
            raise OSError(message.decode(errors="replace") if message else f"its producer failed with {code}")


class _BatchReader:
    def __init__(self, schema: pa.Schema) -> None:
        import pyarrow as pa

        self._schema = schema
        #: With lists of structs for maps; None where there are no maps.
        self._stored: pa.Schema | None = None
        if any(_has_map(field.type) for field in schema):
            self._stored = pa.schema([field.with_type(_stored_type(field.type)) for field in schema])

    def take(self, array: ArrowArray) -> pa.RecordBatch:
        """Leaves nothing to release in `array`, whatever happens."""
        import pyarrow as pa

        given: Any = pa.RecordBatch
        batch: pa.RecordBatch
        try:
            if self._stored is None:
                batch = given._import_from_c(ctypes.addressof(array), self._schema)
                return batch
            # Before pyarrow counts NULLs, places have to be right.
            _check_columns(array, self._schema, count_nulls=False)
            stored = given._import_from_c(ctypes.addressof(array), self._stored)
        finally:
            if array.release:
                _Release(array.release)(ctypes.addressof(array))
        capsule = stored.__arrow_c_array__()[1]
        counted = exported_array(capsule)
        _check_columns(counted, self._schema)
        batch = given._import_from_c(ctypes.addressof(counted), self._schema)
        return batch


def _check_columns(array: ArrowArray, schema: pa.Schema, *, count_nulls: bool = True) -> None:
    if array.offset < 0 or array.length < 0 or array.n_children != len(schema):
        raise error(
            "INVALID_FORMAT",
            f"Arrow data of {len(schema)} columns has {array.n_children} arrays, and {array.length} rows "
            f"from row {array.offset} on",
        )
    for index, field in enumerate(schema):
        check_places(array.children[index].contents, field.type, _name(field, index), count_nulls=count_nulls)


def _name(field: pa.Field[Any], index: int) -> str:
    try:
        return field.name
    except UnicodeDecodeError:
        return str(index)


def _has_map(kind: ArrowType) -> bool:
    from pyarrow import types as kinds

    return kinds.is_map(kind) or any(map(_has_map, _parts(kind)))


def _parts(kind: ArrowType) -> list[ArrowType]:
    """Types inside of another one, though not of unions, which are refused."""
    import pyarrow as pa
    from pyarrow import types as kinds

    if isinstance(kind, pa.BaseExtensionType):
        return [kind.storage_type]
    if kinds.is_dictionary(kind) or kinds.is_run_end_encoded(kind):
        return [kind.value_type]
    if kinds.is_nested(kind) and not kinds.is_union(kind):
        return [kind.field(index).type for index in range(kind.num_fields)]
    return []


def _stored_type(kind: ArrowType) -> ArrowType:
    """With lists of structs for maps, and extensions as what they are stored as."""
    import pyarrow as pa
    from pyarrow import types as kinds

    if not _has_map(kind):
        return kind
    parts = [_stored_type(part) for part in _parts(kind)]
    if isinstance(kind, pa.BaseExtensionType):
        return parts[0]
    if kinds.is_dictionary(kind):
        return pa.dictionary(kind.index_type, parts[0], kind.ordered)
    if kinds.is_run_end_encoded(kind):
        return pa.run_end_encoded(kind.run_end_type, parts[0])
    if kinds.is_struct(kind):
        return pa.struct([field.with_type(part) for field, part in zip(kind, parts, strict=True)])
    if kinds.is_fixed_size_list(kind):
        return pa.list_(parts[0], kind.list_size)
    makers: list[tuple[Any, Any]] = [
        (kinds.is_large_list, pa.large_list),
        (kinds.is_list_view, pa.list_view),
        (kinds.is_large_list_view, pa.large_list_view),
    ]
    for is_kind, make in makers:
        if is_kind(kind):
            return make(parts[0])
    return pa.list_(parts[0])
