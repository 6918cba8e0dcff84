"""Executors: what runs the stages of a query, wherever that is.

A session has one. Every terminal goes through its `run` or `stream`: collect, to_arrow, writers, the command
line. execute/local.py is the one for this process.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Protocol

    from querymode.engine.lent import LentBatch
    from querymode.execute.limits import Limits
    from querymode.execute.profile import Profile
    from querymode.stage.stage import Work

    #: What becomes of a batch of the answer before it leaves the worker that made it, if not a copy as QMCB.
    Export = Callable[[LentBatch], Any]

    class Executor(Protocol):
        """`limits`: what the query may use.

        `export`: the form that batches are wanted in. A hint, as is all that only saves time: an executor
        that ignores it hands out QMCB, and says so by `Answer.is_exported`, or by streaming bytes.
        """

        def run(
            self, work: Work, limits: Limits, *, export: Export | None = None, profile: Profile | None = None
        ) -> Answer:
            """The whole answer. `profile` is filled, or left as it is by who measures nothing."""

        def stream(self, work: Work, limits: Limits, *, export: Export | None = None) -> Iterator[Any]:
            """Its batches, in order, while the query still runs."""


class Answer:
    """The batches of a query, in order, and what they cost."""

    __slots__ = (
        "batches",
        "bytes_read",
        "crossings",
        "group_count",
        "groups_pruned",
        "is_exported",
        "lane_count",
        "lanes_skipped",
        "opening_bytes",
        "opening_requests",
        "pages_skipped",
        "requests",
        "result_bytes",
        "row_count",
        "seconds",
        "thread_count",
    )

    def __init__(self) -> None:
        self.batches: list[Any] = []
        self.is_exported = False
        self.row_count = 0
        self.lane_count = 0
        self.lanes_skipped = 0
        self.thread_count = 0
        self.crossings = 0
        self.seconds = 0.0
        self.requests = 0
        self.bytes_read = 0
        #: What opening its tables had cost, where it is the first query over them.
        self.opening_requests = 0
        self.opening_bytes = 0
        self.group_count = 0
        self.groups_pruned = 0
        self.pages_skipped = 0
        self.result_bytes = 0

    def stats(self) -> dict[str, Any]:
        """What the query cost, in the words that users see."""
        return {
            "rows": self.row_count,
            "ms": round(self.seconds * 1000, 3),
            "lanes": self.lane_count,
            "lanes_skipped": self.lanes_skipped,
            "threads": self.thread_count,
            "crossings": self.crossings,
            "bytes": self.bytes_read,
            "requests": self.requests,
            "opening_bytes": self.opening_bytes,
            "opening_requests": self.opening_requests,
            "row_groups": self.group_count,
            "row_groups_skipped": self.groups_pruned,
            "pages_skipped": self.pages_skipped,
            "result_bytes": self.result_bytes,
        }
