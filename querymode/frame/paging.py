"""`DataFrame.lazy()`: a query whose answer is looked at page by page."""

from __future__ import annotations

from querymode._checks import row_count
from querymode._shutdown import guards_shutdown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from querymode.frame.frame import DataFrame
    from querymode.output.result import Result


@guards_shutdown
class Pages:
    """Nothing is read until a page is asked for, and then only what that page needs.

    Rows have an order, so the same page is the same rows; of a sorted frame, it is a part of that order.
    """

    def __init__(self, frame: DataFrame) -> None:
        self._frame = frame

    def page(self, offset: int, count: int) -> Result:
        """`count` rows from row `offset` on; fewer at the end, none behind it."""
        return self._frame.slice(row_count("page", offset), row_count("page", count)).collect()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """All rows, one dict each, as the query makes them: the answer is never in memory as a whole."""
        from querymode.qmcb import columnar_batch_to_rows, decode_columnar_batch

        frame = self._frame
        for batch in frame._session._stream_qmcb(frame._node, frame._session._limits()):
            yield from columnar_batch_to_rows(decode_columnar_batch(batch))

    def count(self) -> int:
        """How many rows there are."""
        return self._frame.count()

    def __repr__(self) -> str:
        return f"<Pages of {self._frame!r}>"
