"""What one query may use, in one place: a session says it, execute/local.py holds to it."""

from __future__ import annotations

import time
from typing import NamedTuple


class Limits(NamedTuple):
    """None is no limit of the query's own: its session's memory bounds it anyway."""

    thread_count: int
    #: Bytes, of the engine's instances and of what has been handed out together.
    memory: int | None = None
    #: Seconds, waiting for memory included.
    timeout: float | None = None
    #: Whether the engine is also interrupted where it does not look for a cancellation itself.
    hardened: bool = False
    max_requests: int | None = None
    max_bytes: int | None = None

    def deadline(self) -> float | None:
        """When a query that starts now has to be done, by the monotonic clock."""
        return None if self.timeout is None else time.monotonic() + self.timeout

    def memory_of(self, total: int) -> int:
        """What the query may have of a session's `total`."""
        return total if self.memory is None else min(self.memory, total)
