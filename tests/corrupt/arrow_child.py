"""`python -m tests.corrupt.arrow_child ROAD START`: malformed Arrow data, from a case on, a line for each.

A line begins before anything is done with a case, so that the last one says where a process died.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from querymode import QueryMode, QueryModeError
from querymode.table.from_arrow import from_arrow
from tests.corrupt import arrow_cases as cases
from tests.unit.test_arrow import arrow_values, table_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Made = tuple[str, Callable[[], Any]]

#: What pyarrow itself refuses to make or to read is out of our reach.
_THEIRS = (pa.ArrowException, OverflowError, ValueError, TypeError, OSError)


def tables() -> Iterator[Made]:
    for case in cases.malformed():
        for where, place in cases.places().items():
            yield f"{case.name}, {where}", lambda case=case, place=place: cases.table_of(place(case.array))  # type: ignore[misc]


def streams() -> Iterator[Made]:
    """The same through Arrow's C interface, which knows no sizes of buffers: only what shows without them."""
    sizeless = ("runs", "dictionary", "decimal", "time", "date", "string: b")
    for name, make in tables():
        # … but it has those of the bytes of views.
        is_view = name.startswith(("string_view", "binary_view"))
        if is_view or (name.startswith(sizeless) and "negative" not in name):
            yield name, lambda make=make: cases.Streamed(make())  # type: ignore[misc]


def messages() -> Iterator[Made]:
    for case in cases.malformed():
        for where, place in cases.places().items():
            if case.changed is not None:
                yield f"{case.name}, {where}", lambda case=case, place=place: _received(case, place)  # type: ignore[misc]


def _received(case: cases.Case, place: Callable[[Any], Any]) -> Any:
    assert case.changed is not None
    stream = cases.sent_changed(place(case.good), case.changed)
    if stream is None:
        raise TypeError("the bytes are not in the stream as they are")
    return pa.ipc.open_stream(stream).read_all()


def misshapen() -> Iterator[Made]:
    for name, good in cases.good_arrays().items():
        for where, place in cases.places().items():
            try:
                found = list(cases.sent_misshapen(place(good)))
            except _THEIRS:
                continue
            for way, stream in found:
                yield f"{name}, {where}: {way}", lambda stream=stream: pa.ipc.open_stream(stream).read_all()  # type: ignore[misc]


def functions() -> Iterator[Made]:
    """What functions of `map_batches` and `computed` give back."""
    one = QueryMode.from_json([{"row": 1}])
    for case in cases.malformed():
        batch = pa.RecordBatch.from_arrays([case.array], names=["column"])
        schema = batch.schema
        yield (
            f"{case.name}, map_batches",
            lambda batch=batch, schema=schema: _Asked(  # type: ignore[misc]
                one.map_batches(lambda _: batch, schema)
            ),
        )


class _Asked:
    """Something whose rows are wanted."""

    def __init__(self, frame: Any) -> None:
        self.frame = frame


ROADS = {
    "tables": tables,
    "streams": streams,
    "messages": messages,
    "misshapen": misshapen,
    "functions": functions,
}


def outcome(make: Callable[[], Any], may_be_right: bool) -> str:
    try:
        given = make()
    except _THEIRS:
        return "theirs"
    print("made", end=" ", flush=True)
    try:
        if isinstance(given, _Asked):
            given.frame.collect()
            return "ACCEPTED"
        taken = from_arrow(given)
    except QueryModeError as failure:
        # pyarrow may refuse a stream before there are columns.
        known = failure.column == "column" or "cannot be read" in failure.message
        is_right = failure.code == "INVALID_FORMAT" and known
        return "refused" if is_right or failure.code == "SCHEMA_MISMATCH" else f"REFUSED ODDLY: {failure}"
    except Exception as failure:
        return f"RAISED {failure!r}"
    if not may_be_right:
        return "ACCEPTED"
    given.validate(full=True)
    wanted = [value for chunk in given.column(0).chunks for value in arrow_values(chunk)]
    return "equal" if table_values(taken) == wanted else "OTHER ROWS"


def main(road: str, start: int) -> None:
    for index, (name, make) in enumerate(ROADS[road]()):
        if index >= start:
            print(f"{index} {name}:", end=" ", flush=True)
            print(outcome(make, road == "misshapen"), flush=True)
    print("END")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
