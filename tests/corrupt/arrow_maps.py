"""`python -m tests.corrupt.arrow_maps`: maps of a producer that counts what is released, a line for each.

pyarrow ends the process when it meets a map with NULL keys, so this is done in one of its own.
"""

from __future__ import annotations

import ctypes
import errno
from typing import TYPE_CHECKING, Any

import pyarrow

from querymode import QueryModeError
from querymode.arrow.checks import ArrowArray, exported_array
from querymode.arrow.foreign import _ArrowArrayStream, _Get, _Release
from querymode.table.from_arrow import from_arrow
from tests.unit.test_arrow import table_values

if TYPE_CHECKING:
    from collections.abc import Callable

# The stubs spell every kind of array; these go across all of them.
pa: Any = pyarrow

_ENTRY = pa.struct([("key", pa.string()), ("value", pa.int64())])
_MAP = pa.map_(pa.string(), pa.int64())
_GOOD = [[("a", 1), ("b", None)], None, [], [("c", 3)]]
_BAD = [[("a", 1)], [("b", 2), (None, 3)], None, []]
#: Not as text, which ctypes would not free.
_Address = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


class Producer:
    """Hands batches over as if their columns had other types, and counts what it has given and got back."""

    def __init__(
        self,
        batches: list[Any],
        schema: Any,
        fails: bytes | None = None,
        change: Callable[[ArrowArray], None] | None = None,
    ) -> None:
        self._left = list(batches)
        self._schema = schema
        self._fails = fails
        self._change = change
        self._releases: dict[int, Any] = {}
        self._kept: list[Any] = []
        self.given = self.got_back = self.streams_released = 0

    def __arrow_c_array__(self, requested: object = None) -> tuple[object, object]:
        capsule = self._left[0].__arrow_c_array__()[1]
        self._counted(exported_array(capsule))
        return self._schema.__arrow_c_schema__(), capsule

    def _counted(self, array: ArrowArray) -> None:
        # pyarrow asks for memory of its own for each, so this tells them apart.
        self._releases[array.private_data] = _Release(array.release)
        counting = _Release(self._release_array)
        self._kept.append(counting)
        array.release = ctypes.cast(counting, ctypes.c_void_p)
        if self._change is not None:
            self._change(array)
        self.given += 1

    def _release_array(self, address: int) -> None:
        self.got_back += 1
        self._releases[ArrowArray.from_address(address).private_data](address)

    def _get_schema(self, _: int, target: int) -> int:
        self._schema._export_to_c(target)
        return 0

    def _get_next(self, _: int, target: int) -> int:
        if self._left:
            self._left.pop(0)._export_to_c(target)
            self._counted(ArrowArray.from_address(target))
            return 0
        if self._fails is not None:
            return errno.EIO
        ArrowArray.from_address(target).release = None
        return 0

    def _release_stream(self, address: int) -> None:
        self.streams_released += 1
        _ArrowArrayStream.from_address(address).release = None


class StreamProducer(Producer):
    def __arrow_c_stream__(self, requested: object = None) -> object:
        message = ctypes.create_string_buffer(self._fails or b"")
        functions = [
            _Get(self._get_schema),
            _Get(self._get_next),
            _Address(lambda _: ctypes.addressof(message) if self._fails else None),
            _Release(self._release_stream),
        ]
        stream = _ArrowArrayStream(*(ctypes.cast(function, ctypes.c_void_p) for function in functions))
        self._kept += [*functions, stream, message]
        make = ctypes.pythonapi.PyCapsule_New
        make.restype = ctypes.py_object
        make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(stream), b"arrow_array_stream", None)


# ---- cases ----


def nested(pairs: Any) -> dict[str, tuple[Any, Any]]:
    """Where maps may be: an array in the form they are stored in, and the type it should get."""
    count = len(pairs)
    ends = pa.array([0, 1, count], pa.int32())
    lists = pa.ListArray.from_arrays(ends, pairs)
    large = pa.LargeListArray.from_arrays(ends.cast(pa.int64()), pairs)
    views = pa.ListViewArray.from_arrays(
        pa.array([1, 0], pa.int32()), pa.array([count - 1, 1], pa.int32()), pairs
    )
    fixed = pa.FixedSizeListArray.from_arrays(pairs, 2)
    structs = pa.StructArray.from_arrays([pairs], ["inner"])
    keys = pa.array([str(index) for index in range(count)])
    outer = pa.StructArray.from_arrays([keys, pairs], ["key", "value"])
    indices = pa.array(range(count), pa.int32())
    return {
        "itself": (pairs, _MAP),
        "in lists": (lists, pa.list_(_MAP)),
        "in large lists": (large, pa.large_list(_MAP)),
        "in list views": (views, pa.list_view(_MAP)),
        "in lists of two": (fixed, pa.list_(_MAP, 2)),
        "in structs": (structs, pa.struct([("inner", _MAP)])),
        "in maps": (pa.ListArray.from_arrays(ends, outer), pa.map_(pa.string(), _MAP)),
        "in a dictionary": (
            pa.DictionaryArray.from_arrays(indices, pairs),
            pa.dictionary(pa.int32(), _MAP),
        ),
        "sliced": (pairs.slice(1, count - 2), _MAP),
        "no rows": (pairs.slice(0, 0), _MAP),
    }


def stored(values: list[Any]) -> Any:
    return pa.array(values, pa.list_(_ENTRY))


def unknown_nulls(node: ArrowArray) -> None:
    """Counts of NULLs are not told, neither of the array nor of anything inside."""
    for index in range(node.n_children):
        child = node.children[index].contents
        child.null_count = -1
        unknown_nulls(child)


def before_the_first_row(node: ArrowArray) -> None:
    node.children[0].contents.children[0].contents.offset = -(1 << 40)


def no_entries(node: ArrowArray) -> None:
    node.children[0].contents.n_children = 0


def run(name: str, given: Any) -> None:
    print(name, end=": ", flush=True)
    try:
        outcome: object = table_values(from_arrow(given))
    except QueryModeError as failure:
        outcome = f"{failure.code} {failure.column} {failure.message}"
    if isinstance(given, Producer):
        is_stream = isinstance(given, StreamProducer)
        if given.given != given.got_back or given.streams_released != int(is_stream):
            outcome = f"NOT RELEASED ONCE {outcome}"
    print(outcome, flush=True)


def main() -> None:
    changes = {"counted": None, "not counted": unknown_nulls}
    for kind in (Producer, StreamProducer):
        for told, change in changes.items():
            for what, values in (("good", _GOOD), ("bad", _BAD)):
                for where, (array, target) in nested(stored(values)).items():
                    batch, schema = pa.record_batch({"c": array}), pa.schema([("c", target)])
                    producer = kind([batch], schema, change=change)
                    run(f"{what} {where}, {told}, {kind.__name__}", producer)
        good, bad = (pa.record_batch({"c": stored(values)}) for values in (_GOOD, _BAD))
        schema = pa.schema([("c", _MAP)])
        run(f"before the first row, {kind.__name__}", kind([good], schema, change=before_the_first_row))
        run(f"no entries, {kind.__name__}", kind([good], schema, change=no_entries))
    plain = pa.record_batch({"c": [1]})
    run("several", StreamProducer([good, good], schema))
    run("none", StreamProducer([], schema))
    run("second bad", StreamProducer([good, bad, good], schema))
    run("failing", StreamProducer([good], schema, fails=b"the disk is \xff full"))
    run("failing silently", StreamProducer([good], schema, fails=b""))
    run("failing without maps", StreamProducer([plain], plain.schema, fails=b"no more"))
    print("END")


if __name__ == "__main__":
    main()
