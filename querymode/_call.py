"""The public call that is under way on this thread: how long it may take, and what it may hold and read.

Every public method enters a call, and its limits count from that moment on, whatever is being done: listing,
opening, parsing, planning or running. A call inside another one ends with it. Loops whose length comes from a
user's text or files ask `check`; what they keep of them is announced with `claim` before it is made.
"""

from __future__ import annotations

import threading
import time

from querymode.errors import error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from querymode.errors import QueryModeError
    from querymode.store.fetch import IoGate

_here = threading.local()


class Call:
    """One call's limits. `deadline` is a moment of `time.monotonic()`; None is no limit."""

    __slots__ = ("_outer", "claimed", "deadline", "gate", "max_bytes", "max_requests", "memory")

    def __init__(
        self,
        deadline: float | None = None,
        memory: int | None = None,
        *,
        max_requests: int | None = None,
        max_bytes: int | None = None,
    ) -> None:
        self.deadline = deadline
        self.memory = memory
        self.max_requests = max_requests
        self.max_bytes = max_bytes
        #: Bytes of this process that were announced so far.
        self.claimed = 0
        #: Through which it lists and opens; made by store/fetch.py when that is first asked for.
        self.gate: IoGate | None = None
        self._outer: Call | None = None

    def seconds_left(self) -> float | None:
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def claim(self, size: int, what: str) -> None:
        """Counts bytes that `what` is going to take in this process; MEMORY_EXCEEDED if they are too many."""
        claimed = self.claimed + size
        if self.memory is not None and claimed > self.memory:
            raise error(
                "MEMORY_EXCEEDED",
                f"{what} needs about {claimed:,} bytes, but memory= allows {self.memory:,}; raise it",
            )
        self.claimed = claimed

    def __enter__(self) -> Call:
        outer = self._outer = current()
        if outer is not None:
            self.deadline = earlier(self.deadline, outer.deadline)
            self.claimed = outer.claimed
        _here.call = self
        return self

    def __exit__(self, *_: object) -> None:
        _here.call = self._outer
        self._outer = None


class Resumed:
    """A block that goes on with a call that was entered elsewhere: on another thread, or before a pause."""

    __slots__ = ("_call", "_outer")

    def __init__(self, call: Call | None) -> None:
        self._call = call
        self._outer: Call | None = None

    def __enter__(self) -> None:
        self._outer = current()
        _here.call = self._call

    def __exit__(self, *_: object) -> None:
        _here.call = self._outer


def current() -> Call | None:
    """The call of this thread, if one is under way."""
    return getattr(_here, "call", None)


def check() -> None:
    """Raises QUERY_TIMEOUT when this thread's call has had its time."""
    call = getattr(_here, "call", None)
    if call is not None and call.deadline is not None and time.monotonic() >= call.deadline:
        raise query_timeout()


def claim(size: int, what: str) -> None:
    """See `Call.claim`; without a call nothing is counted."""
    call = getattr(_here, "call", None)
    if call is not None:
        call.claim(size, what)


def claimable(size: int) -> bool:
    """Whether that many bytes may still be claimed."""
    call = current()
    return call is None or call.memory is None or call.claimed + size <= call.memory


def deadline() -> float | None:
    """When this thread's call has to be done."""
    call = current()
    return None if call is None else call.deadline


def earlier(first: float | None, second: float | None) -> float | None:
    """Of two deadlines; None is no deadline."""
    if first is None or second is None:
        return first if second is None else second
    return min(first, second)


def query_timeout() -> QueryModeError:
    return error("QUERY_TIMEOUT", "the query ran longer than its timeout; raise timeout=, or ask for less")
