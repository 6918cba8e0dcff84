"""`python -m tests.corrupt.arrow_bombs MEMORY TIMEOUT`: Arrow data of a few bytes that stands for very much,
wherever it can be, taken in by a session of these limits: a line of JSON for each.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow

from querymode import QueryMode, QueryModeError
from tests.corrupt.arrow_cases import _extension
from tests.limits.child import PEAK

if TYPE_CHECKING:
    from collections.abc import Callable

#: The stubs know each kind of array; here they are all alike.
pa: Any = pyarrow

#: A million and more rows of everything.
ROWS = 2_000_000
ENDLESS = 1 << 62


def runs(end: int, value: Any) -> Any:
    return pa.RunEndEncodedArray.from_arrays(pa.array([end], pa.int64()), pa.array(value))


def dictionary(entries: Any, rows: int = ROWS) -> Any:
    return pa.DictionaryArray.from_arrays(np.zeros(rows, np.int8), entries)


def views(kind: Any, rows: int = ROWS, size: int = 100_000) -> Any:
    """All of the same bytes."""
    words = np.zeros((rows, 4), np.int32)
    words[:, 0] = size
    words[:, 1] = 0x78787878
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(words), pa.py_buffer(b"x" * size)])


def list_views(items: Any, count: int, rows: int = 100_000) -> Any:
    """All of the same items."""
    starts, sizes = np.zeros(rows, np.int64), np.full(rows, count)
    return pa.LargeListViewArray.from_arrays(pa.array(starts), pa.array(sizes), items)


def empty(kind: Any, rows: int) -> Any:
    """Rows of no bytes."""
    buffers = [None, pa.py_buffer(b"")] if kind == pa.binary(0) else [None]
    children = [pa.array([], kind.value_type)] if pa.types.is_fixed_size_list(kind) else []
    return pa.Array.from_buffers(kind, rows, buffers, 0, 0, children)


def bombs() -> dict[str, Callable[[], Any]]:
    text = "x" * 1000
    numbers = pa.array(np.arange(100_000))
    return {
        "runs of a number": lambda: runs(2_000_000_000, [1]),
        "runs of a truth": lambda: runs(2_000_000_000, [True]),
        "runs of a text": lambda: runs(50_000_000, [text]),
        "runs without end": lambda: runs(ENDLESS, [1]),
        "runs of NULL without end": lambda: runs(ENDLESS, pa.nulls(1)),
        "runs of a struct": lambda: runs(1 << 40, [{"a": text}]),
        "runs of nothing": lambda: runs(1 << 40, empty(pa.struct([]), 1)),
        "dictionary of text": lambda: dictionary([text]),
        "dictionary of lists": lambda: dictionary(pa.array([list(range(1000))])),
        "dictionary of list views": lambda: dictionary(pa.array([[1] * 1000], pa.list_view(pa.int64()))),
        "dictionary of views": lambda: dictionary(pa.array([text], pa.string_view())),
        "dictionary of dictionaries": lambda: dictionary(dictionary([text], 100)),
        "dictionary of runs": lambda: dictionary(runs(1 << 40, [text])),
        "dictionary of wide NULLs": lambda: pa.DictionaryArray.from_arrays(
            pa.array([None] * ROWS, pa.int8()), pa.array([b"x" * 1000], pa.binary(1000))
        ),
        "string views": lambda: views(pa.string_view()),
        "binary views": lambda: views(pa.binary_view()),
        "list views": lambda: list_views(numbers, 100_000),
        "list views of NULL": lambda: list_views(empty(pa.null(), 1 << 40), 1 << 40),
        "list views of text": lambda: list_views(pa.array([text] * 1000), 1000),
        "list views of a dictionary": lambda: list_views(dictionary([text], 1000), 1000),
        "list views of runs": lambda: list_views(runs(1 << 40, [text]), 1 << 40),
        "list views of views": lambda: list_views(views(pa.string_view(), 1000, 1000), 1000),
        "lists of none": lambda: empty(pa.list_(pa.int64(), 0), 1 << 40),
        "vectors of none": lambda: empty(pa.list_(pa.float32(), 0), 1 << 40),
        "bytes of none": lambda: empty(pa.binary(0), ENDLESS),
        "structs of none": lambda: empty(pa.struct([]), ENDLESS),
        "NULLs": lambda: empty(pa.null(), ENDLESS),
        "days": lambda: pa.array(np.zeros(30_000_000, np.int64)).cast(pa.date64()),
        "shared structs": lambda: _shared(24),
    }


def _shared(depth: int) -> Any:
    array = pa.array([1])
    for _ in range(depth):
        array = pa.StructArray.from_arrays([array, array], ["a", "b"])
    return array


def places() -> dict[str, Callable[[Any], Any]]:
    return {
        "itself": lambda array: array,
        "a slice": lambda array: array.slice(len(array) // 3, len(array) // 3),
        "in large lists": lambda array: pa.LargeListArray.from_arrays(pa.array([0, len(array)]), array),
        "in list views": lambda array: pa.LargeListViewArray.from_arrays(
            pa.array([0, 0]), pa.array([len(array)] * 2), array
        ),
        "in lists of fixed size": lambda array: pa.FixedSizeListArray.from_arrays(array, min(len(array), 10)),
        "in a struct": lambda array: pa.StructArray.from_arrays([array], ["inner"]),
        "as a dictionary": lambda array: pa.DictionaryArray.from_arrays(pa.array([0, 0]), array),
        "in an extension": _extension,
    }


def outcome(session: QueryMode, given: Any) -> str:
    try:
        session.from_arrow(given).count()
    except QueryModeError as failure:
        return failure.code
    except BaseException as failure:
        return f"RAISED {failure!r}"[:200]
    return "taken"


def _resident() -> int:
    """Not `peak.now()`: its file is that thread's."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def main(memory: str, timeout: str) -> None:
    names: dict[str, Any] = {}
    exec(PEAK, names)
    session = QueryMode.local(memory=memory, threads=2)
    session.from_json([{"warm": 1}]).collect()
    session.timeout = float(timeout)
    peak = names["Peak"]()
    for name, make in bombs().items():
        array = make()
        for where, place in places().items():
            if name == "shared structs" and where != "itself":
                continue
            try:
                given = pa.table({"column": place(array)})
            except pa.ArrowException:
                continue  # a slice of so many rows cannot be there
            gc.collect()
            before = peak.peak = _resident()
            started = time.monotonic()
            found = outcome(session, given)
            seconds = time.monotonic() - started
            line = {"name": f"{name}, {where}", "outcome": found, "grown": peak.peak - before}
            print(json.dumps({**line, "seconds": round(seconds, 2)}), flush=True)
    print("END")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
