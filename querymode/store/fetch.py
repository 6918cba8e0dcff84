"""Fetching: which ranges become one read, how many reads run at once, and what a query may read at all.

    coalesce     pure: ranges that lie close together become one
    IoGate       one per query: counts and bounds its requests and bytes, and can stop all of them
    Ticket       ranges on their way into the caller's memory
    IoPool       threads for remote reads, shared by all queries of this process

Reads of local files are announced to the system and then made by the thread that waits for them. Remote ones
run on the pool's threads meanwhile. Once `Ticket.wait` or `Ticket.cancel` has returned or raised, nobody
writes into the ticket's views any more: they are engine memory, which is used again.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from functools import partial

from querymode._call import claim, current, earlier, query_timeout
from querymode.errors import QueryModeError, error
from querymode.store.location import display_name
from querymode.store.open import is_remote, open_source
from querymode.store.source import Patience, ReadCancelled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, TypeVar

    from querymode._call import Call
    from querymode.store.options import StoreOptions
    from querymode.store.s3 import Listed
    from querymode.store.source import ByteSource

    T = TypeVar("T")

#: (offset, size).
Range = tuple[int, int]

KIB = 1 << 10
GAP_MIN = 16 * KIB
GAP_MAX = 256 * KIB
#: For fewer than two ranges, where there is nothing to learn from.
GAP_DEFAULT = 64 * KIB

#: Remote reads at a time, in the whole process. More hide latency, until they share one line's bandwidth.
CONCURRENCY = 16
#: A new thread costs 150 µs, an idle one nothing but its stack.
_IDLE_SECONDS = 10.0
#: How often a `cancelled` function is asked while we wait.
_POLL_SECONDS = 0.05


# ---- which ranges become one ----


class MergedRange:
    """One read that serves several ranges. `parts`: (index of the range, its place in this read)."""

    __slots__ = ("offset", "parts", "size")

    def __init__(self, offset: int, size: int, parts: list[tuple[int, int]]) -> None:
        self.offset = offset
        self.size = size
        self.parts = parts

    def __repr__(self) -> str:
        return f"MergedRange({self.offset}, {self.size}, {self.parts})"


def auto_coalesce_gap(ranges: Iterable[Range]) -> int:
    """The gap worth reading over: twice the median of the gaps there are, from 16 KiB to 256 KiB."""
    ordered = sorted(item for item in ranges if item[1])
    if len(ordered) < 2:
        return GAP_DEFAULT
    gaps = []
    end = ordered[0][0]
    for offset, size in ordered:
        if offset > end:
            gaps.append(offset - end)
        end = max(end, offset + size)
    if not gaps:
        return GAP_MAX
    gaps.sort()
    middle = len(gaps) // 2
    # For an even count the median is the mean of the two in the middle, so twice that is their sum.
    doubled = 2 * gaps[middle] if len(gaps) % 2 else gaps[middle - 1] + gaps[middle]
    return min(max(doubled, GAP_MIN), GAP_MAX)


def coalesce(ranges: Sequence[Range], gap: int | None = None) -> list[MergedRange]:
    """Reads that cover all ranges, in ascending order; at most `gap` bytes nobody asked for between two.

    Ranges may come in any order and overlap. An empty range needs no read and is part of none.
    """
    if gap is None:
        gap = auto_coalesce_gap(ranges)
    merged: list[MergedRange] = []
    start = end = 0
    parts: list[tuple[int, int]] = []
    offsets = [offset for offset, _ in ranges]
    for index in sorted(range(len(ranges)), key=offsets.__getitem__):
        offset, size = ranges[index]
        assert offset >= 0 and size >= 0
        if not size:
            continue
        if parts and offset - end > gap:
            merged.append(MergedRange(start, end - start, parts))
            parts = []
        if not parts:
            start = end = offset
        parts.append((index, offset - start))
        end = max(end, offset + size)
    if parts:
        merged.append(MergedRange(start, end - start, parts))
    return merged


# ---- the threads of this process ----


class _Job:
    """Something that a thread of the pool does. `run` does not raise."""

    __slots__ = ("abandoned", "begun", "running")

    def __init__(self) -> None:
        self.begun = False
        self.running = False
        self.abandoned = False

    def run(self) -> None:
        raise NotImplementedError


class IoPool:
    """At most `limit` jobs at a time, first come, first served.

    A job that is abandoned while it runs no longer counts: it may sit on a dead connection until that
    times out, and the queries of others should not wait for it. Threads are daemons and start when needed.
    """

    def __init__(self, limit: int = CONCURRENCY) -> None:
        assert limit > 0
        self.limit = limit
        self.reset()

    def reset(self) -> None:
        """Forgets everything: what a forked child starts with, because its parent's threads are not there."""
        self._condition = threading.Condition()
        self._queue: deque[_Job] = deque()
        self._thread_count = 0
        self._idle_count = 0

    def submit(self, jobs: Sequence[_Job]) -> None:
        if not jobs:
            return
        with self._condition:
            self._queue.extend(jobs)
            self._condition.notify(len(jobs))
            self._start_threads()

    def abandon(self, jobs: Iterable[_Job]) -> list[_Job]:
        """Nobody waits for these any more. Returns those that had not begun, and now never will."""
        dropped = []
        with self._condition:
            for job in jobs:
                if job.abandoned:
                    continue
                job.abandoned = True
                if job.running:
                    self._thread_count -= 1
                elif not job.begun:
                    dropped.append(job)
            if dropped:
                self._queue = deque(job for job in self._queue if not job.abandoned)
            self._start_threads()
        return dropped

    def _start_threads(self) -> None:
        wanted = min(len(self._queue) - self._idle_count, self.limit - self._thread_count)
        for _ in range(wanted):
            try:
                threading.Thread(target=self._run, name="querymode-read", daemon=True).start()
            except RuntimeError:  # no room for its stack; fewer will do
                if self._thread_count == 0:
                    raise error("MEMORY_EXCEEDED", "this process cannot start another thread") from None
                return
            self._thread_count += 1

    def _run(self) -> None:
        while (job := self._next()) is not None:
            job.run()
            with self._condition:
                job.running = False
                if job.abandoned:
                    return  # another thread took this one's place
            del job  # or it keeps engine memory until the next one comes

    def _next(self) -> _Job | None:
        with self._condition:
            self._idle_count += 1
            arrived = self._condition.wait_for(lambda: self._queue, _IDLE_SECONDS)
            self._idle_count -= 1
            if not arrived:
                self._thread_count -= 1
                return None
            job = self._queue.popleft()
            job.begun = job.running = True
            return job


_pool = IoPool()
os.register_at_fork(after_in_child=_pool.reset)


# ---- one query's reads ----


class IoGate:
    """Every read of a query goes through here: it counts, bounds, overlaps and stops them.

    A range is a request. Reads that were queued and then cancelled before they began are not counted.
    """

    def __init__(
        self,
        *,
        max_requests: int | None = None,
        max_bytes: int | None = None,
        deadline: float | None = None,
        cancelled: Callable[[], bool] | None = None,
        pool: IoPool | None = None,
    ) -> None:
        self.max_requests = max_requests
        self.max_bytes = max_bytes
        self.deadline = deadline
        self.request_count = 0
        self.byte_count = 0
        self._cancelled = cancelled
        self._pool = pool or _pool
        self._lock = threading.Lock()
        self._tickets: set[_Waiting] = set()
        self._stopped = False

    def open(
        self,
        path: str | os.PathLike[str],
        options: StoreOptions,
        *,
        tail_size: int = 0,
        known: Listed | None = None,
        deadline: float | None = None,
    ) -> ByteSource:
        """`open_source`, counted; a server that does not answer is not waited for past the deadline."""
        if is_remote(path, options) and known is None:
            return self.begin_open(path, options, tail_size=tail_size).wait(deadline)
        self.check()
        return open_source(path, options, known=known)

    def begin_open(
        self, path: str | os.PathLike[str], options: StoreOptions, *, tail_size: int = 0
    ) -> Opening:
        """The same for several on other machines at a time: wait for each, or cancel it."""
        self.check()
        if self.max_bytes is not None:  # a small file may fit even where the tail of a large one would not
            tail_size = max(0, min(tail_size, self.max_bytes - self.byte_count))
        self._charge(1, tail_size)
        admit = partial(self._admit, display_name(os.fspath(path)), current())
        open_ = partial(open_source, path, options, tail_size=tail_size, admit=admit)
        return Opening(self, lambda patience: open_(patience=patience), tail_size)

    def ask(self, call: Callable[[Patience], T], *, deadline: float | None = None) -> T:
        """One request that reads no range, such as for a page of a listing, made by a thread of the pool."""
        self.check()
        self._charge(1, 0)
        answer: T = _Asking(self, call).wait(deadline)
        return answer

    def check(self) -> None:
        """Raises when there is no point in beginning anything."""
        if self._stopped:
            raise ReadCancelled
        Patience(self.deadline, self._cancelled).check()

    def read(self, source: ByteSource, offset: int, size: int, *, deadline: float | None = None) -> bytes:
        """One range, now."""
        source.check_range(offset, size)  # before a size that a file claims becomes memory
        if size and source.local:
            self._charge(1, size)
            until = earlier(deadline, self.deadline)
            return source.read(offset, size, patience=Patience(until, self._cancelled))
        target = bytearray(size)
        self.submit(source, [(offset, memoryview(target))]).wait(deadline)
        return bytes(target)

    def read_tail(self, source: ByteSource, size: int, *, deadline: float | None = None) -> bytes:
        """The last bytes, at most `size`; without a request where opening brought them along."""
        size = min(size, source.size)
        if size <= len(source.tail):
            return source.read_tail(size)
        return self.read(source, source.size - size, size, deadline=deadline)

    def submit(self, source: ByteSource, ranges: Sequence[tuple[int, memoryview]]) -> Ticket:
        """Begins to read ranges into views, each with one request. BUDGET_EXCEEDED before any is made."""
        wanted = [(offset, view) for offset, view in ranges if view.nbytes]
        for offset, view in wanted:
            source.check_range(offset, view.nbytes)
        self._charge(len(wanted), sum(view.nbytes for _, view in wanted))
        if source.local:
            source.prefetch((offset, view.nbytes) for offset, view in wanted)
        return Ticket(self, source, wanted)

    def carry_over(self, requests: int, size: int) -> None:
        """Counts what was read before, elsewhere, for the same query. BUDGET_EXCEEDED if it was too much."""
        self._count(requests, size)

    def cancel(self) -> None:
        """Stops everything this query reads, wakes who waits for it, and lets nothing new begin."""
        with self._lock:
            self._stopped = True
            tickets = list(self._tickets)
        for ticket in tickets:
            ticket.cancel()

    # ---- bookkeeping ----

    def _charge(self, requests: int, size: int) -> None:
        with self._lock:
            if self._stopped:
                raise ReadCancelled
        self._count(requests, size)

    def _count(self, requests: int, size: int) -> None:
        with self._lock:
            if self.max_requests is not None and self.request_count + requests > self.max_requests:
                raise error(
                    "BUDGET_EXCEEDED",
                    f"the query needs more than max_requests={self.max_requests} requests; raise it, filter "
                    "more, or select fewer columns",
                )
            if self.max_bytes is not None and self.byte_count + size > self.max_bytes:
                raise error(
                    "BUDGET_EXCEEDED",
                    f"the query needs more than max_bytes={self.max_bytes} bytes; raise it, filter more, or "
                    "select fewer columns",
                )
            self.request_count += requests
            self.byte_count += size

    def _admit(self, name: str, call: Call | None, size: int) -> None:
        """Raises if the budgets have no room for a file that comes as a whole, before it is here."""
        whole = f"{name}: the server sends the file only as a whole, and its {size} bytes are more than"
        if self.max_bytes is not None and self.byte_count + size > self.max_bytes:
            raise error(
                "BUDGET_EXCEEDED",
                f"{whole} max_bytes={self.max_bytes} leaves; raise it, or download the file",
            )
        if call is not None and call.memory is not None and call.claimed + size > call.memory:
            raise error(
                "MEMORY_EXCEEDED", f"{whole} memory={call.memory} leaves; raise it, or download the file"
            )

    def _refund(self, requests: int, size: int) -> None:
        with self._lock:
            self.request_count -= requests
            self.byte_count -= size

    def _enter(self, ticket: _Waiting) -> None:
        with self._lock:
            if self._stopped:
                raise ReadCancelled
            self._tickets.add(ticket)

    def _leave(self, ticket: _Waiting) -> None:
        with self._lock:
            self._tickets.discard(ticket)


class _Waiting:
    """Jobs of the pool and the one thread that waits for them; any thread may cancel."""

    def __init__(self, gate: IoGate) -> None:
        self._gate = gate
        self._patience = Patience(gate.deadline, gate._cancelled)
        self._condition = threading.Condition()
        self._jobs: set[_Job] = set()
        self._failure: BaseException | None = None
        self._cancelled = False

    def _begin(self, jobs: Sequence[_Job]) -> None:
        self._jobs.update(jobs)
        try:
            self._gate._enter(self)
            self._gate._pool.submit(jobs)
        except BaseException:
            self.cancel()
            raise

    def _ended(self, job: _Job, failure: BaseException | None) -> None:
        """Called by the pool's threads."""
        with self._condition:
            self._jobs.discard(job)
            if failure is not None and self._failure is None and not self._cancelled:
                self._failure = failure
            if self._failure is not None or not self._jobs:
                self._condition.notify_all()

    def _settled(self) -> bool:
        return self._cancelled or self._failure is not None or not self._jobs

    def _join(self, deadline: float | None) -> None:
        """Returns when all jobs have succeeded, and raises in every other case."""
        deadline = earlier(deadline, self._gate.deadline)
        with self._condition:
            while not self._settled():
                if self._gate._cancelled is not None and self._gate._cancelled():
                    raise ReadCancelled
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise query_timeout()
                polled = self._gate._cancelled is not None
                self._condition.wait(earlier(left, _POLL_SECONDS if polled else None))
            if self._failure is not None:
                raise self._failure.with_traceback(None)
            if self._cancelled:
                raise ReadCancelled
        self._gate._leave(self)

    def cancel(self) -> None:
        """Nobody waits for this any more. Once it has returned, no view is written."""
        with self._condition:
            self._cancelled = True
            jobs, self._jobs = self._jobs, set()
            self._condition.notify_all()
        self._patience.stop()
        self._dropped(self._gate._pool.abandon(jobs))
        self._gate._leave(self)

    def _dropped(self, jobs: list[_Job]) -> None:
        """These had not begun."""


class Ticket(_Waiting):
    """Ranges on their way. Wait for it, or cancel it; one of them, always, before the views are reused."""

    def __init__(self, gate: IoGate, source: ByteSource, ranges: list[tuple[int, memoryview]]) -> None:
        super().__init__(gate)
        self._source = source
        # Read by the thread that waits: what is left of it here has not been read.
        self._inline = ranges if source.local else []
        parts = [] if source.local else [_Part(self, offset, view) for offset, view in ranges]
        self._begin(parts)

    @property
    def done(self) -> bool:
        """Whether `wait` would return, or raise, at once."""
        with self._condition:
            return self._settled() and not self._inline

    def wait(self, deadline: float | None = None) -> None:
        """Returns when every view is full. Whatever it raises, the ticket is cancelled then."""
        try:
            self._read_inline(deadline)
            self._join(deadline)
        except BaseException as failure:
            if self._failure is None and isinstance(failure, QueryModeError):
                self._failure = failure  # and is raised again if somebody waits again
            self.cancel()
            raise

    def _read_inline(self, deadline: float | None) -> None:
        with self._condition:
            ranges, self._inline = self._inline, []
        if ranges:
            self._patience.deadline = earlier(deadline, self._gate.deadline)
            self._source.read_into(ranges, patience=self._patience)

    def cancel(self) -> None:
        with self._condition:
            unread, self._inline = self._inline, []
        super().cancel()
        self._gate._refund(len(unread), sum(view.nbytes for _, view in unread))

    def _dropped(self, jobs: list[_Job]) -> None:
        sizes = [job.view.nbytes for job in jobs if isinstance(job, _Part)]
        self._gate._refund(len(sizes), sum(sizes))


class _Part(_Job):
    """One range of a ticket."""

    __slots__ = ("offset", "ticket", "view")

    def __init__(self, ticket: Ticket, offset: int, view: memoryview) -> None:
        super().__init__()
        self.ticket = ticket
        self.offset = offset
        self.view = view

    def run(self) -> None:
        failure: BaseException | None = None
        try:
            self.ticket._source.read_into([(self.offset, self.view)], patience=self.ticket._patience)
        except BaseException as caught:  # handed to the waiting thread, whatever it is
            failure = caught
        self.ticket._ended(self, failure)


class _Asking(_Waiting):
    """A call on a thread of the pool, because it cannot be interrupted where it runs."""

    def __init__(self, gate: IoGate, call: Callable[[Patience], Any]) -> None:
        super().__init__(gate)
        self.call = call
        self.results: list[Any] = []
        self._begin([_Call(self)])

    #: Bytes that were charged for it beforehand.
    _tail_size = 0

    def _dropped(self, jobs: list[_Job]) -> None:
        if jobs:
            self._gate._refund(1, self._tail_size)

    def wait(self, deadline: float | None = None) -> Any:
        try:
            self._join(deadline)
        except BaseException:
            self.cancel()
            raise
        return self.results[0]


class _Call(_Job):
    __slots__ = ("asking",)

    def __init__(self, asking: _Asking) -> None:
        super().__init__()
        self.asking = asking

    def run(self) -> None:
        asking = self.asking
        failure: BaseException | None = None
        try:
            asking.results.append(asking.call(asking._patience))
        except BaseException as caught:  # handed to the waiting thread, whatever it is
            failure = caught
        asking._ended(self, failure)


class Opening(_Asking):
    """A source on its way."""

    def __init__(self, gate: IoGate, call: Callable[[Patience], ByteSource], tail_size: int) -> None:
        self._tail_size = tail_size
        super().__init__(gate, call)

    def wait(self, deadline: float | None = None) -> ByteSource:
        source: ByteSource = super().wait(deadline)
        self._gate._refund(1, self._tail_size)
        self._gate._charge(source.opening_requests, source.opening_bytes)
        if source.held_size:
            claim(source.held_size, source.name)
        return source


def opening_gate() -> IoGate | None:
    """What this thread's call lists and opens through: it counts, and ends with the call."""
    call = current()
    if call is None:
        return None
    if call.gate is None:
        call.gate = IoGate(max_requests=call.max_requests, max_bytes=call.max_bytes, deadline=call.deadline)
    return call.gate


def read_many(gate: IoGate, wanted: Sequence[tuple[ByteSource, int, int]]) -> list[bytes]:
    """(source, offset, size) → bytes: local ones one after the other, remote ones at the same time."""
    answers: list[bytes | bytearray] = []
    tickets = []
    try:
        for source, offset, size in wanted:
            brought = len(source.tail) - (source.size - offset)
            if brought >= 0:
                answers.append(source.tail[brought : brought + size])
            elif source.local:
                answers.append(gate.read(source, offset, size))
            else:
                source.check_range(offset, size)
                target = bytearray(size)
                answers.append(target)
                tickets.append(gate.submit(source, [(offset, memoryview(target))]))
        for ticket in tickets:
            ticket.wait()
    except BaseException:
        for ticket in tickets:
            ticket.cancel()
        raise
    return [bytes(answer) for answer in answers]
