"""What one query may use, in one place: a session says it, execute/query_run.py holds to it."""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from querymode._call import Call


class Limits(NamedTuple):
    """None is no limit of the query's own: its session's memory bounds it anyway."""

    thread_count: int
    #: Bytes, of the engine's instances and of what has been handed out together.
    memory: int | None = None
    #: When the call has to be done, by `time.monotonic()`: counted from its start, whatever it does first.
    deadline: float | None = None
    #: Whether the engine is also interrupted where it does not look for a cancellation itself.
    hardened: bool = False
    max_requests: int | None = None
    max_bytes: int | None = None

    def memory_of(self, total: int) -> int:
        """What the query may have of a session's `total`."""
        return total if self.memory is None else min(self.memory, total)

    def call(self, total: int) -> Call:
        """The call that these are the limits of, to be entered."""
        from querymode._call import Call

        return Call(
            self.deadline,
            self.memory_of(total),
            max_requests=self.max_requests,
            max_bytes=self.max_bytes,
        )
