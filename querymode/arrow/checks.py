"""Arrow data from outside, checked in full before anything computes with it.

pyarrow believes the buffers it is handed: casting a view that points outside of them ends the process. Its
own full validation finds nearly everything; what is done here is done around it.

- Arrays that begin before their first row, and maps with NULL keys, are found in what pyarrow exports of an
  array: validation would read outside of the buffers of the former, and merely looking at the latter ends the
  process. (arrow/foreign.py looks for them before pyarrow makes a table.)
- pyarrow validates the whole child of every slice of a nested array, which takes quadratic time where a table
  is cut into many. So each level is validated with children of no type, and each child once.
- A column is looked at in pieces, with a look at the clock between them.
- The end of a day, 24:00:00, is a time here, as it is in DuckDB.
"""

from __future__ import annotations

import ctypes
import struct

from querymode._abi import TYPE_DEPTH_MAX
from querymode._call import Call, Resumed, check, claim, claimable, current
from querymode.errors import error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    import numpy as np
    import pyarrow as pa

    # The stubs spell every kind of array and type; what is done here goes across all of them.
    Array = Any
    ArrowType = Any

_DAY_TICKS = {unit: 86_400 * 10**digits for unit, digits in (("s", 0), ("ms", 3), ("us", 6), ("ns", 9))}
#: From so many bytes on, columns are checked on several threads.
_PARALLEL_SIZE = 32 << 20
#: Rows that are checked between two looks at the clock, and bytes of text.
_PIECE_ROWS = 1 << 20
_PIECE_SIZE = 64 << 20
#: Extensions, dictionaries and runs may stand around every type that there is, and around each other.
_NESTING_MAX = 4 * TYPE_DEPTH_MAX
#: What is kept of a type inside of another one, and of the arrays that have it.
_TYPE_SIZE = 512


def check_types(schema: pa.Schema) -> None:
    """Refuses types that are nested too deep, or too many: one may stand in many places of another."""
    for index, field in enumerate(schema):
        check_type(field.type, index)


def check_type(kind: ArrowType, index: int = 0) -> None:
    """The same of one; `index` is the column's, whose name may be no text."""
    waiting = [(kind, 0)]
    while waiting:
        part, depth = waiting.pop()
        if depth > _NESTING_MAX:
            raise error(
                "NOT_SUPPORTED",
                f"column {index} of the Arrow data, counted from 0: types may be nested {_NESTING_MAX} deep, "
                "no deeper",
            )
        check()
        parts = _child_types(part)
        claim(_TYPE_SIZE * len(parts), "Arrow data of so many types")
        waiting += [(inner, depth + 1) for inner in parts]


def check_table(table: pa.Table) -> None:
    """Refuses a table with a malformed column."""
    work = [
        (name, chunk)
        for name, chunks in zip(table.column_names, table.columns, strict=True)
        for chunk in chunks.chunks
    ]
    known: set[object] = set()
    for name, chunk in work:
        check()
        _check_places_of(chunk, name)
    if len(work) == 1 or table.nbytes < _PARALLEL_SIZE:
        for name, chunk in work:
            _check_column(chunk, name, known)
        return
    from concurrent.futures import ThreadPoolExecutor

    from querymode.engine.threads import core_count

    # Of their own, so that they can be told to end.
    call = _copied(current())

    def checked(item: tuple[str, Array]) -> None:
        with Resumed(call):
            _check_column(item[1], item[0], known)

    with ThreadPoolExecutor(core_count()) as pool:
        try:
            for _ in pool.map(checked, work):
                check()
        except BaseException:
            call.deadline = 0
            raise


def _copied(call: Call | None) -> Call:
    found = Call() if call is None else Call(call.deadline, call.memory)
    found.claimed = 0 if call is None else call.claimed
    return found


def check_array(array: Array, name: str) -> None:
    """The same of an array or a chunked one; `name` is for the error."""
    import pyarrow as pa

    check_type(array.type)
    for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else (array,):
        _check_places_of(chunk, name)
        _check_column(chunk, name, set())


# ---- what pyarrow does not find, or does not survive ----


class ArrowArray(ctypes.Structure):
    """Arrow's C data interface."""


ArrowArray._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.c_void_p),
    ("children", ctypes.POINTER(ctypes.POINTER(ArrowArray))),
    ("dictionary", ctypes.POINTER(ArrowArray)),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]


def exported_array(capsule: object) -> ArrowArray:
    """Alive as long as the capsule is."""
    return ArrowArray.from_address(capsule_address(capsule, b"arrow_array"))


def capsule_address(capsule: object, name: bytes) -> int:
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address: int = pointer_of(capsule, name)
    return address


def _check_places_of(array: Array, name: str) -> None:
    if _child_types(array.type):
        exported = array.__arrow_c_array__()[1]
        check_places(exported_array(exported), array.type, name)
    elif array.offset < 0:
        raise _malformed(name, array.type, "it begins before its first row")


def check_places(node: ArrowArray, kind: ArrowType, name: str, *, count_nulls: bool = True) -> None:
    """Refuses arrays that begin before their first row, lack a part, or are maps with NULL keys.

    Those of other libraries need not say how many NULLs they have; `count_nulls` is for those of pyarrow.
    """
    import pyarrow as pa
    from pyarrow import types as kinds

    while isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if node.offset < 0 or node.length < 0:
        raise _malformed(name, kind, "it begins before its first row")
    if kinds.is_dictionary(kind):
        if not node.dictionary:
            raise _malformed(name, kind, "it lacks its dictionary")
        check_places(node.dictionary.contents, kind.value_type, name, count_nulls=count_nulls)
        return
    parts = _child_types(kind)
    if not parts:
        return
    if node.n_children != len(parts) or not all(node.children[: len(parts)]):
        raise _malformed(name, kind, f"it has {node.n_children} arrays inside, not {len(parts)}")
    for index, part in enumerate(parts):
        check_places(node.children[index].contents, part, name, count_nulls=count_nulls)
    if count_nulls and kinds.is_map(kind):
        entries = node.children[0].contents
        if entries.null_count or entries.children[0].contents.null_count:
            raise _malformed(name, kind, "it has NULL keys")


def _child_types(kind: ArrowType) -> list[ArrowType]:
    import pyarrow as pa
    from pyarrow import types as kinds

    if isinstance(kind, pa.BaseExtensionType):
        return _child_types(kind.storage_type)
    if kinds.is_dictionary(kind):
        return [kind.value_type]
    if kinds.is_run_end_encoded(kind):
        return [kind.run_end_type, kind.value_type]
    if kinds.is_map(kind):
        return [pa.struct([kind.key_field, kind.item_field])]
    if kinds.is_struct(kind):
        return [field.type for field in kind]
    if kinds.is_nested(kind) and not kinds.is_union(kind):
        items: ArrowType = kind
        return [items.value_type]
    return []


# ---- level by level ----


def _check_column(array: Array, name: str, known: set[object]) -> None:
    import pyarrow as pa

    check()
    try:
        array.validate()
        _check(array, known)
    except pa.ArrowMemoryError:
        raise
    except pa.ArrowException as cause:
        raise _malformed(name, array.type, str(cause)) from cause


def _check(array: Array, known: set[object], *, below_null: bool = False) -> None:
    """Of an array whose lengths are right.

    `known`: children that have been checked; `below_null`: rows may be NULL because what they belong to is.
    """
    import pyarrow as pa
    from pyarrow import types as kinds

    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        _check(array.storage, known, below_null=below_null)
    elif _child_types(kind):
        children = _children(array)
        if below_null and kinds.is_dictionary(kind) and not len(children[0]):
            # Below a NULL struct pyarrow writes indices into nothing all the same.
            array.indices.validate(full=True)
            return
        _check_level(array, children, known)
        below_null = kinds.is_struct(kind) and (below_null or array.null_count > 0)
        for child in children:
            if _first_met(child, known):
                _check(child, known, below_null=below_null)
    elif kinds.is_string(kind) or kinds.is_large_string(kind):
        for piece in _pieces_of_text(array, _text_size):
            piece.validate(full=True)
    elif kinds.is_string_view(kind):
        _check_views_of_text(array)
    elif kinds.is_time(kind):
        for piece in _pieces(array):
            _check_times(piece)
    elif _takes_bytes(kind):
        for piece in _pieces(array):
            piece.validate(full=True)
    else:  # of any number of rows
        array.validate(full=True)


def _pieces(array: Array) -> Iterator[Array]:
    import pyarrow as pa

    if len(array) <= _PIECE_ROWS:
        yield array
        return
    null_count = 0
    for start in range(0, len(array), _PIECE_ROWS):
        check()
        piece = array.slice(start, _PIECE_ROWS)
        yield piece
        null_count += piece.null_count
    # A slice forgets what was said of the whole.
    if null_count != array.null_count:
        raise pa.ArrowInvalid(f"{array.null_count} NULLs were announced, there are {null_count}")


def _takes_bytes(kind: ArrowType) -> bool:
    from pyarrow import types as kinds

    if kinds.is_null(kind) or kinds.is_nested(kind):
        return False
    return not kinds.is_fixed_size_binary(kind) or kind.byte_width > 0


def _pieces_of_text(array: Array, size_of: Callable[[Array], int]) -> Iterator[Array]:
    """Offsets may be wrong yet, and with them sizes."""
    for piece in _pieces(array):
        waiting = [piece]
        while waiting:
            part = waiting.pop()
            check()
            half = len(part) // 2
            if half and size_of(part) > _PIECE_SIZE:
                waiting += [part.slice(half), part.slice(0, half)]
            else:
                yield part


def _text_size(array: Array) -> int:
    from pyarrow import types as kinds

    form = "<q" if kinds.is_large_string(array.type) else "<i"
    width = struct.calcsize(form)
    offsets = array.buffers()[1]
    ends = (array.offset, array.offset + len(array))
    if offsets is None or offsets.size < (ends[1] + 1) * width:
        return 0  # which is for pyarrow to say
    first, last = (struct.unpack_from(form, offsets, at * width)[0] for at in ends)
    return int(last - first)


def _check_views_of_text(array: Array) -> None:
    """Many views may have one text, and be more to read than there is time for: then places come first."""
    import pyarrow as pa

    size = 0
    held = sum(buffer.size for buffer in array.buffers() if buffer is not None)
    for piece in _pieces(array):
        part_size = view_sizes(piece)
        if size <= held < size + part_size:
            _check_places_of_views(array.view(pa.binary_view()))
        size += part_size
        for part in (piece,) if part_size <= _PIECE_SIZE else _pieces_of_text(piece, view_sizes):
            part.validate(full=True)


def _check_places_of_views(array: Array) -> None:
    size = 0
    for piece in _pieces(array):
        piece.validate(full=True)
        size += view_sizes(piece)
    if not claimable(size):
        claim(size, "the text of Arrow's views")


def view_sizes(array: Array) -> int:
    """The bytes that views have, which are not NULL."""
    import numpy as np

    return int(view_lengths(array).sum(dtype=np.int64)) if len(array) else 0


def view_lengths(array: Array) -> np.ndarray[Any, Any]:
    """0 where it is NULL."""
    import numpy as np

    # A view is 16 bytes, its length the first four.
    words = np.frombuffer(array.buffers()[1], np.int32, 4 * len(array), 16 * array.offset)
    lengths = words[::4]
    return np.where(np.asarray(array.is_valid()), lengths, 0) if array.null_count else lengths


def _first_met(array: Array, known: set[object]) -> bool:
    key = identity(array)
    if key in known:
        return False
    known.add(key)
    return True


def identity(array: Array) -> object:
    """An array is known by where it lies, and by where those inside of it lie."""
    import pyarrow as pa

    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return kind, identity(array.storage)
    places = [None if buffer is None else buffer.address for buffer in array.buffers()]
    inside = [identity(child) for child in _children(array)] if _child_types(kind) else ()
    return kind, len(array), array.offset, *places, *inside


def _children(array: Array) -> list[Array]:
    """All of them, though only a slice of the array is looked at; of a struct that slice."""
    from pyarrow import types as kinds

    kind = array.type
    if kinds.is_dictionary(kind):
        return [array.dictionary]
    if kinds.is_run_end_encoded(kind):
        return [array.run_ends, array.values]
    if kinds.is_struct(kind):
        return [array.field(index) for index in range(kind.num_fields)]
    return [array.keys, array.items] if kinds.is_map(kind) else [array.values]


def _check_level(array: Array, children: list[Array], known: set[object]) -> None:
    """Bits, offsets, sizes, indices and ends, with children that have a length and nothing else."""
    import pyarrow as pa
    from pyarrow import types as kinds

    kind = array.type
    # Not pa.nulls(…), which makes bits for them.
    hollow = [pa.Array.from_buffers(pa.null(), len(child), [None]) for child in children[-1:]]
    rows = len(array), array.buffers(), array.null_count, array.offset
    if kinds.is_struct(kind):
        level = _level(pa.struct([]), 1, rows, [])
    elif kinds.is_dictionary(kind):
        count, buffers, null_count, offset = rows
        hollow_type = pa.dictionary(kind.index_type, pa.null())
        level = pa.DictionaryArray.from_buffers(
            hollow_type, count, buffers[:2], hollow[0], null_count, offset
        )
    elif kinds.is_run_end_encoded(kind):
        if not _first_met(children[0], known):
            return  # all ends have been looked at
        level = _level(pa.run_end_encoded(kind.run_end_type, pa.null()), 1, rows, [children[0], *hollow])
    elif kinds.is_fixed_size_list(kind):
        level = _level(pa.list_(pa.null(), kind.list_size), 1, rows, hollow)
    elif kinds.is_list_view(kind) or kinds.is_large_list_view(kind):
        is_large = kinds.is_large_list_view(kind)
        views: ArrowType = pa.large_list_view(pa.null()) if is_large else pa.list_view(pa.null())
        level = _level(views, 3, rows, hollow)
    else:  # a map is a list of its entries
        is_large = kinds.is_large_list(kind)
        lists: ArrowType = pa.large_list(pa.null()) if is_large else pa.list_(pa.null())
        level = _level(lists, 2, rows, hollow)
    # Others have any number of rows in no bytes at all.
    has_places = not (
        kinds.is_struct(kind) or kinds.is_run_end_encoded(kind) or kinds.is_fixed_size_list(kind)
    )
    for piece in _pieces(level) if has_places else (level,):
        piece.validate(full=True)


def _level(kind: ArrowType, own: int, rows: tuple[int, list[Any], int, int], children: list[Array]) -> Array:
    """The first `own` buffers are the level's, others its children's."""
    import pyarrow as pa

    count, buffers, null_count, offset = rows
    return pa.Array.from_buffers(kind, count, buffers[:own], null_count, offset, children)


def _check_times(array: Array) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = array.type
    ticks = array.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    ticks.validate(full=True)
    bounds = pc.min_max(ticks)
    least, greatest = bounds["min"].as_py(), bounds["max"].as_py()
    if least is not None and not 0 <= least <= greatest <= _DAY_TICKS[kind.unit]:
        raise pa.ArrowInvalid(f"{least if least < 0 else greatest} {kind.unit} is not a time of a day")


def _malformed(name: str, kind: ArrowType, why: str) -> Exception:
    return error("INVALID_FORMAT", f"column {name!r} of {kind} is malformed: {why}", column=name)
