"""Rows chosen at random: their numbers are drawn first, then they are picked from a stream."""

from __future__ import annotations

from querymode.errors import error
from querymode.plan import Node, Scan, with_types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from querymode.frame import DataFrame


def sample(frame: DataFrame, count: int, seed: object) -> DataFrame:
    """`count` rows of the frame, in its order. They stay in memory."""
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise error("QUERY_FAILED", f"seed={seed!r}; it is a number")
    from random import Random

    total = frame.count()
    places = sorted(Random(seed).sample(range(total), min(count, total)))
    return frame._with(_in_memory(frame, places))


def _in_memory(frame: DataFrame, places: list[int]) -> Node:
    import pyarrow

    from querymode.arrow import arrow_schema, from_arrow

    picked = []
    first = taken = 0
    # Nothing behind the last one is read.
    for batch in frame.slice(0, places[-1] + 1).stream() if places else ():
        end = taken
        while end < len(places) and places[end] < first + batch.num_rows:
            end += 1
        picked.append(
            batch.take(pyarrow.array([place - first for place in places[taken:end]], pyarrow.int64()))
        )
        first += batch.num_rows
        taken = end
    table = pyarrow.Table.from_batches(picked, arrow_schema(frame.schema))
    return with_types(Scan(from_arrow(table)), frame.schema)
