"""Rows chosen at random: their numbers are drawn first, then they are read.

Of a table, and of columns computed from one, only these rows are read: the pages of files that hold them,
where they have an index. Of everything else, and where many rows are wanted, they are picked from a stream.
"""

from __future__ import annotations

from querymode.errors import error
from querymode.plan.nodes import Node, Project, Scan, with_types
from querymode.plan.snapshots import pinned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow

    from querymode.frame.frame import DataFrame

#: Of so many rows one at most is read by its number: reading on costs less than skipping does.
_ROWS_PER_PICK = 64


def sample(frame: DataFrame, count: int, seed: object) -> DataFrame:
    """`count` rows of the frame, in its order. They stay in memory."""
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise error("QUERY_FAILED", f"seed={seed!r}; it is a number")
    from random import Random

    frame = frame._with(pinned(frame._node))
    total = frame.count()
    if count >= total:
        return frame._with(_held(frame, frame.to_arrow()))
    places = sorted(Random(seed).sample(range(total), min(count, total)))
    return frame._with(_in_memory(frame, places, total))


def _in_memory(frame: DataFrame, places: list[int], total: int) -> Node:
    import pyarrow

    from querymode.arrow.to_arrow import arrow_schema

    few = len(places) * _ROWS_PER_PICK <= total
    picked = _with_rows(frame._node, places) if places and few else None
    if picked is not None:
        table = frame._with(picked).to_arrow()
    else:
        batches = _picked_from_stream(frame, places)
        table = pyarrow.Table.from_batches(batches, arrow_schema(frame.schema))
    assert table.num_rows == len(places)
    return _held(frame, table)


def _held(frame: DataFrame, table: pyarrow.Table) -> Node:
    from querymode.table.from_arrow import from_checked

    return with_types(Scan(from_checked(table)), frame.schema)


def _with_rows(node: Node, places: list[int]) -> Node | None:
    """The same of these rows alone; None where that needs the others too."""
    if isinstance(node, Project):
        source = _with_rows(node.input, places)
        return None if source is None else Project(source, node.items)
    if not isinstance(node, Scan):
        return None
    picked = node.source.with_rows(places)
    return None if picked is None else Scan(picked, node.names)


def _picked_from_stream(frame: DataFrame, places: list[int]) -> Iterator[pyarrow.RecordBatch]:
    import pyarrow

    first = taken = 0
    # Nothing behind the last one is read.
    for batch in frame.slice(0, places[-1] + 1).stream() if places else ():
        end = taken
        while end < len(places) and places[end] < first + batch.num_rows:
            end += 1
        yield batch.take(pyarrow.array([place - first for place in places[taken:end]], pyarrow.int64()))
        first += batch.num_rows
        taken = end
