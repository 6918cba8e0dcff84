"""What stages hand to each other: an answer of the engine, in this process."""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from querymode.errors import QueryModeError


class Batch:
    """An answer of the engine, or what was made of it; its size in the engine's form, and its partition.

    Several lists may know a batch. Whoever needs it last sets `data` to None, so that its bytes are free when
    they are no longer counted.
    """

    __slots__ = ("data", "partition", "row_count", "size")

    def __init__(self, data: Any, size: int, row_count: int, partition: int = 0) -> None:
        self.data = data
        self.size = size
        self.row_count = row_count
        self.partition = partition

    def twin(self) -> Batch:
        """The same bytes, for somebody who will set them free while others still need them."""
        return Batch(self.data, self.size, self.row_count, self.partition)


class LaneFailure(NamedTuple):
    """What is wrong with a text, and in which of the table's files. `row`: of those that the lane has read of
    that file, from 0, where it is known."""

    error: QueryModeError
    file: int
    row: int | None


class LaneExtent(NamedTuple):
    """Where a lane of text took its first row to begin, where the next lane's begins, how many rows lie
    between them; or how it failed."""

    lane: int
    start: int | None
    end: int | None
    row_count: int = 0
    failure: LaneFailure | None = None


def drop_batches(lanes: Iterable[Iterable[Batch]]) -> int:
    """Frees the bytes of batches that nobody needs any more. How many they were."""
    size = 0
    for lane in lanes:
        for batch in lane:
            size += batch.size
            batch.data = None
    return size
