"""ByteSource: one object of bytes, read by ranges; and Patience: how long a read may go on.

What holds for every source:
- `size` and `identity` are learnt when it is opened and never change afterwards. A read sees the bytes of
  that identity, or fails: an object that changed is an error, never a mixture.
- `read_into` fills every view exactly, or raises.
- A source that is not `local` writes into a view only through `Patience.writing`, so a view may be reused
  for something else from the moment that `Patience.stop` has returned.
- `name` is for people and for errors. It never carries credentials.
"""

from __future__ import annotations

import struct
import threading
import time
from contextlib import suppress

from querymode._call import query_timeout
from querymode.errors import QueryModeError, error

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
    from types import TracebackType
    from typing import Self


#: How often a `cancelled` function is asked while nothing else happens.
_POLL_SECONDS = 0.05


class ReadCancelled(Exception):
    """Nobody wants these bytes any more. Whoever stopped the read knows why."""


class Patience:
    """How long somebody waits for bytes, and whether they still do.

    Some threads read, any thread may `stop` them. `deadline` is a moment of `time.monotonic()`.
    """

    __slots__ = ("_cancelled", "_lock", "_readings", "_stopped", "_writing", "deadline")

    def __init__(self, deadline: float | None = None, cancelled: Callable[[], bool] | None = None) -> None:
        self.deadline = deadline
        self._cancelled = cancelled
        self._stopped = threading.Event()
        self._writing = threading.Lock()
        self._lock = threading.Lock()
        self._readings: set[Reading] = set()

    def check(self) -> None:
        """Raises when there is no point in going on."""
        if self._stopped.is_set() or (self._cancelled is not None and self._cancelled()):
            raise ReadCancelled
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise query_timeout()

    def limited(self, seconds: float) -> float:
        """`seconds`, or what is left until the deadline if that is less. Never 0: sockets misread it."""
        if self.deadline is None:
            return seconds
        return min(seconds, max(0.001, self.deadline - time.monotonic()))

    def sleep(self, seconds: float) -> None:
        """Waits, unless the deadline or somebody's `stop` comes first, which raises."""
        end = time.monotonic() + seconds
        self.check()
        while (left := end - time.monotonic()) > 0:
            step = left if self._cancelled is None else min(left, _POLL_SECONDS)
            self._stopped.wait(self.limited(step))
            self.check()

    def writing(self) -> _Writing:
        """A block in which the caller's views may be written: `stop` waits for its end."""
        return _Writing(self)

    def deliver(self, target: memoryview, data: bytes | memoryview) -> None:
        with self.writing():
            target[: len(data)] = data

    def reading(self) -> Reading:
        """A block in which this thread asks another machine: `stop` hangs up on its connections."""
        return Reading(self)

    def stop(self) -> None:
        """No view is written after this has returned."""
        self._stopped.set()
        with self._lock:
            for reading in self._readings:
                reading.hang_up()
        with self._writing:
            pass


_this_thread = threading.local()


def current_reading() -> Reading | None:
    """What this thread is at, if it asks another machine."""
    return getattr(_this_thread, "reading", None)


class Reading:
    """One attempt to get an answer, and the connections it uses.

    A server that sends a byte now and then keeps a thread for ever, whatever the time-outs between two bytes
    are. So whoever stops waiting shuts the connection, by a descriptor of our own: the connection's may by
    then be closed, and be that of another file.
    """

    __slots__ = ("_outer", "_sockets", "patience")

    def __init__(self, patience: Patience) -> None:
        self.patience = patience
        self._sockets: dict[int, socket.socket] = {}
        self._outer: Reading | None = None

    def __enter__(self) -> Self:
        self._outer = current_reading()
        _this_thread.reading = self
        with self.patience._lock:
            self.patience._readings.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        _this_thread.reading = self._outer
        with self.patience._lock:
            self.patience._readings.discard(self)
            sockets, self._sockets = list(self._sockets.values()), {}
        for connection in sockets:
            connection.close()

    def hold(self, number: int, connection: socket.socket) -> None:
        """`connection` is a duplicate, ours from now on, of the descriptor `number`."""
        with self.patience._lock:
            before = self._sockets.pop(number, None)
            self._sockets[number] = connection
            if self.patience._stopped.is_set():
                self.hang_up()
        if before is not None:
            before.close()

    def hang_up(self) -> None:
        import socket  # it is there already, or there would be no connection

        for connection in self._sockets.values():
            with suppress(OSError):  # the other side was faster
                # Reset when it is closed: who still sends, with nobody to read it, would hear of it late.
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.shutdown(socket.SHUT_RDWR)


class _Writing:
    __slots__ = ("_patience",)

    def __init__(self, patience: Patience) -> None:
        self._patience = patience

    def __enter__(self) -> None:
        self._patience._writing.acquire()
        if self._patience._stopped.is_set():
            self._patience._writing.release()
            raise ReadCancelled

    def __exit__(self, *_: object) -> None:
        self._patience._writing.release()


class ByteSource:
    """Bytes that are read by ranges. Safe to use from many threads; closing ends all use."""

    #: For errors and explain; without credentials.
    name: str
    size: int
    #: The key of what may be cached about this object's bytes: equal only for the same bytes.
    identity: Hashable
    #: Reads are quick enough to be made by the thread that needs them.
    local: bool = False
    #: What opening it has already cost.
    opening_requests: int = 0
    opening_bytes: int = 0
    #: Bytes of it that are in memory, and stay there.
    held_size: int = 0
    #: The last bytes, where opening brought them along.
    tail: bytes = b""

    def read(self, offset: int, size: int, *, patience: Patience | None = None) -> bytes:
        target = bytearray(size)
        self.read_into([(offset, memoryview(target))], patience=patience)
        return bytes(target)

    def read_into(
        self, ranges: Sequence[tuple[int, memoryview]], *, patience: Patience | None = None
    ) -> None:
        """Fills each view with the bytes from its offset on."""
        raise NotImplementedError

    def read_tail(self, size: int, *, patience: Patience | None = None) -> bytes:
        """The last bytes, at most `size` of them; without a request where opening brought them along."""
        size = min(size, self.size)
        if size <= len(self.tail):
            return self.tail[len(self.tail) - size :]
        return self.read(self.size - size, size, patience=patience)

    def prefetch(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Says that these (offset, size) will be read soon. A hint: it may do nothing."""

    def verify_unchanged(self) -> None:
        """Raises if the object is not what it was when it was opened; `Touched` if that is only likely.

        For sources that cannot ask for "this version only" with each read; the others need do nothing.
        """

    def close(self) -> None:
        """Gives back what the source holds. May be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} ({self.size} bytes)>"

    # ---- for sources ----

    def checked(self, ranges: Iterable[tuple[int, memoryview]]) -> Iterator[tuple[int, memoryview]]:
        """The ranges with something to read, as views of bytes, none of them outside the object."""
        for offset, view in ranges:
            target = view if view.format == "B" and view.ndim == 1 else view.cast("B")
            assert not target.readonly
            self.check_range(offset, len(target))
            if len(target):
                yield offset, target

    def check_range(self, offset: int, size: int) -> None:
        # The size was known before anybody chose a range, so a range outside comes from metadata that lies.
        if offset < 0 or size < 0 or offset + size > self.size:
            raise error(
                "INVALID_FORMAT",
                f"{self.name} has {self.size} bytes, but something in it points to {size} bytes at {offset}; "
                "the file is damaged or was cut short",
                offset=offset,
            )


def changed(name: str) -> QueryModeError:
    """What every source says when it meets other bytes than those it was opened for."""
    return error("QUERY_FAILED", f"{name} changed while it was read; run the query again")


class Touched(QueryModeError):
    """Perhaps other bytes, perhaps only a new name or other permissions: reading it all once more tells."""


def touched(name: str) -> Touched:
    return Touched("QUERY_FAILED", changed(name).message)
