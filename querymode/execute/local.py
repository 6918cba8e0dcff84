"""Runs one query in this process: lanes on worker threads, then the final plan over their answers.

    lanes → workers (an engine instance each) → partial QMCB, in lane order → final plan → QMCB

Memory: what the engine instances of the query hold and what it has handed out stay within its
reservation at every moment; each instance may grow by its share of what is still free. Columns of tables
in memory stay in an instance after the query, where the budget allows it, and the next query over the same
lane prefers that instance: memory is copied in once, not once per query.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque

from querymode import _pool, _wasm
from querymode._abi import OutputState, SourceKind
from querymode.errors import MemoryExceededError, error
from querymode.execute import threads
from querymode.execute.budget import Budget
from querymode.file_table import FileTable
from querymode.memory_table import MemoryTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from querymode._wasm import Instance, Output
    from querymode.errors import QueryModeError
    from querymode.execute.files import FileScan
    from querymode.plan import Work

    Export = Callable[[memoryview], Any]

MIB = 1 << 20
#: What an instance needs to pass a morsel of 16 MiB through: the morsel, its answer, some room.
WORKER_SIZE_MIN = 48 * MIB
#: The same for row groups, whose pages are decoded one after the other, with the answer beside them.
FILE_WORKER_SIZE = 512 * MIB
#: Tables larger than this part of the budget are streamed through, not kept.
RESIDENT_PART = 4
#: Kept lanes of one row each that are asked by one call.
LANES_TOGETHER = 16
#: Partial answers are pushed together up to this size, …
PUSH_SIZE_MAX = 4 * MIB
#: … and up to this one by way of an instance's scratch block, without an allocation.
SCRATCH_SIZE_MAX = 32 << 10
CANCEL_POLL_SECONDS = 0.005
#: Of a worker's memory, what a batch of an answer may take: it exists three times for a moment.
OUTPUT_PART = 16
OUTPUT_SIZE_MIN = 64 << 10
#: Of a stream's memory, what may wait for its reader.
STREAM_PART = 4

_table_ids: weakref.WeakKeyDictionary[MemoryTable, int] = weakref.WeakKeyDictionary()
_next_table_id = 0
_table_lock = threading.Lock()


def table_id(table: MemoryTable) -> int:
    """A number for a table, never used again: what instances remember it by."""
    global _next_table_id
    with _table_lock:
        found = _table_ids.get(table)
        if found is None:
            _next_table_id += 1
            found = _table_ids[table] = _next_table_id
        return found


def _after_fork_in_child() -> None:
    global _table_lock
    _table_lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork_in_child)


def _timed_out() -> QueryModeError:
    return error("QUERY_TIMEOUT", "the query ran longer than its timeout; raise timeout=, or ask for less")


class Answer:
    """The batches of a query, in order, and what they cost."""

    __slots__ = (
        "batches",
        "bytes_read",
        "crossings",
        "group_count",
        "groups_pruned",
        "lane_count",
        "pages_skipped",
        "requests",
        "result_bytes",
        "row_count",
        "seconds",
        "thread_count",
    )

    def __init__(self) -> None:
        self.batches: list[Any] = []
        self.row_count = 0
        self.lane_count = 0
        self.thread_count = 0
        self.crossings = 0
        self.seconds = 0.0
        self.requests = 0
        self.bytes_read = 0
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
            "threads": self.thread_count,
            "crossings": self.crossings,
            "bytes": self.bytes_read,
            "requests": self.requests,
            "row_groups": self.group_count,
            "row_groups_skipped": self.groups_pruned,
            "pages_skipped": self.pages_skipped,
            "result_bytes": self.result_bytes,
        }


def run(
    work: Work,
    budget: Budget,
    *,
    thread_count: int,
    memory: int | None = None,
    timeout: float | None = None,
    hardened: bool = False,
    max_requests: int | None = None,
    max_bytes: int | None = None,
    export: Export | None = None,
) -> Answer:
    """The answer to a lowered plan. `export`: see `_Run`."""
    started = time.monotonic()
    deadline = None if timeout is None else started + timeout
    limit = budget.total if memory is None else min(memory, budget.total)
    expected = _expected_size(work, limit, thread_count)
    workers = _worker_count(work, thread_count, expected)
    attempt: _Run | None = None
    try:
        with budget.reserve(expected, deadline) as reservation:
            attempt = _Run(
                work,
                reservation.size,
                workers,
                deadline,
                hardened,
                limits=(max_requests, max_bytes),
                export=export,
            )
            answer = attempt.answer()
    except MemoryExceededError:
        if attempt is None or (expected >= limit and workers == 1 and not attempt.keep):
            raise
        # Once more with everything there is, alone and without anything kept from before.
        with budget.reserve(limit, deadline) as reservation:
            _pool.pool().trim(0)
            answer = _Run(
                work,
                reservation.size,
                1,
                deadline,
                hardened,
                keep=False,
                limits=(max_requests, max_bytes),
                export=export,
            ).answer()
    answer.seconds = time.monotonic() - started
    return answer


def stream(
    work: Work,
    budget: Budget,
    *,
    thread_count: int,
    memory: int | None = None,
    timeout: float | None = None,
    hardened: bool = False,
    max_requests: int | None = None,
    max_bytes: int | None = None,
    export: Export | None = None,
) -> Iterator[Any]:
    """The batches of the answer, in order, while the query still runs.

    What waits to be taken stays within the budget: workers that are ahead of the reader wait for it. Where
    rows are sorted or aggregated, the answer exists only as a whole, and is then handed out.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    limit = budget.total if memory is None else min(memory, budget.total)
    expected = _expected_size(work, limit, thread_count)
    workers = _worker_count(work, thread_count, expected)
    with budget.reserve(expected, deadline) as reservation:
        attempt = _Run(
            work,
            reservation.size,
            workers,
            deadline,
            hardened,
            keep=False,
            limits=(max_requests, max_bytes),
            streams=work.final is None and bool(work.source.lanes),
            export=export,
        )
        yield from attempt.batches()


def _worker_count(work: Work, thread_count: int, size: int) -> int:
    """Workers that have something to do. Rows that the first lane has anyway are read by one alone."""
    table = work.source
    if isinstance(table, FileTable) and table.lanes and work.rows_needed is not None:
        is_enough = not work.has_filter and work.rows_needed <= table.lane_rows(0)
        return 1 if is_enough else max(1, min(thread_count, table.lane_count))
    return max(1, min(thread_count, table.lane_count, size // WORKER_SIZE_MIN))


def _expected_size(work: Work, limit: int, thread_count: int) -> int:
    """A guess of what a query holds at once. Small tables need little, so that many run side by side."""
    table = work.source
    if isinstance(table, FileTable):
        return min(limit, max(8 * MIB, min(thread_count, table.lane_count) * FILE_WORKER_SIZE))
    size = table.memory_size(work.columns)
    # The columns, their copies in an answer or a sort, and the instance itself.
    wanted = 8 * MIB + 4 * size
    if size > MIB:
        wanted = max(wanted, min(thread_count, table.lane_count) * WORKER_SIZE_MIN)
    return min(limit, wanted)


def worker_size(work: Work, limit: int, thread_count: int) -> int:
    """What a worker of a query may hold, as long as nothing fails."""
    expected = _expected_size(work, limit, thread_count)
    return expected // _worker_count(work, thread_count, expected)


class _Run:
    """One attempt."""

    def __init__(
        self,
        work: Work,
        size: int,
        worker_count: int,
        deadline: float | None,
        hardened: bool,
        *,
        keep: bool = True,
        limits: tuple[int | None, int | None] = (None, None),
        streams: bool = False,
        export: Export | None = None,
    ) -> None:
        self.work = work
        self.size = size
        self.worker_count = worker_count
        self.deadline = deadline
        self.hardened = hardened
        self.table = work.source
        self.indices = work.columns
        self.scan = self._file_scan(limits) if isinstance(self.table, FileTable) else None
        #: Workers that start once it is known that there is something left for them.
        self.extra_workers = 0
        if self.scan is not None and self.scan.pruning is not None:
            self.extra_workers, self.worker_count = worker_count - 1, 1
        self.table_id = 0 if isinstance(self.table, FileTable) else table_id(self.table)
        self.keep = keep and self._fits_beside(size)
        self.lock = threading.Lock()
        self.done = threading.Event()
        self.started = 0
        self.working = self.worker_count  # on lanes
        self.left = 0
        self.failure: BaseException | None = None
        self.stopped = False
        self.instances: list[Instance] = []
        self.held = 0  # bytes of answers in this process
        self.granted: dict[Instance, int] = {}  # how far each may grow
        self.answers: list[list[Any]] = [[] for _ in self.table.lanes]
        self.sizes: list[list[int]] = [[] for _ in self.table.lanes]
        self.finalising = False
        self.rows = [0] * len(self.table.lanes)
        self.finished = [False] * len(self.table.lanes)
        #: Lanes that no instance keeps, and those that one does.
        self.lanes: deque[int] = deque()
        self.kept_lanes: dict[Instance, deque[int]] = {}
        self.crossings = 0
        self.pages_skipped = 0
        #: What becomes of a finished batch before it leaves the worker that made it: a copy of its bytes,
        #: or what somebody wants to have of it, made from where it lies.
        self.export = export
        #: Batches are taken while the query runs, of this lane now.
        self.streams = streams
        self.current_lane = 0
        self.moved = threading.Condition(self.lock)

    @property
    def _memory(self) -> MemoryTable:
        assert isinstance(self.table, MemoryTable)
        return self.table

    def _fits_beside(self, size: int) -> bool:
        table = self.table
        return isinstance(table, MemoryTable) and table.memory_size(self.indices) * RESIDENT_PART <= size

    def _file_scan(self, limits: tuple[int | None, int | None]) -> FileScan:
        from querymode.execute.files import FileScan
        from querymode.fetch import IoGate

        assert isinstance(self.table, FileTable)
        gate = IoGate(max_requests=limits[0], max_bytes=limits[1], deadline=self.deadline)
        return FileScan(
            self.table,
            self.indices,
            self.work.pruning,
            gate,
            has_filter=self.work.has_filter,
            rows_needed=self.work.rows_needed,
            memory=self.size // self.worker_count,
            verify_crc=self.table.verify_crc,
        )

    # ---- the asking thread ----

    def answer(self) -> Answer:
        if self.scan is None:
            return self._answer()
        clean = False
        try:
            answer = self._answer()
            clean = True
        finally:
            self.scan.close(verify=clean)
        answer.requests = self.scan.gate.request_count
        answer.bytes_read = self.scan.gate.byte_count
        answer.group_count = len(self.scan.table.groups)
        answer.groups_pruned = self.scan.groups_pruned
        answer.pages_skipped = self.pages_skipped
        return answer

    def _answer(self) -> Answer:
        warm: list[Instance | None] = [*self._warm_instances()]
        try:
            self._start_workers(warm)
            self._wait()
        except BaseException:
            self._stop()
            for unused in filter(None, warm):
                _pool.pool().discard(unused)
            raise
        if self.failure is not None:
            raise self.failure.with_traceback(None)
        answer = Answer()
        answer.batches = [batch for lane in self.answers for batch in lane]
        answer.result_bytes = self.held
        answer.row_count = sum(self.rows)
        answer.lane_count = len(self.table.lanes)
        answer.thread_count = self.worker_count
        answer.crossings = self.crossings
        return answer

    def _start_workers(self, warm: list[Instance | None]) -> None:
        while self.started < self.worker_count:
            instance = warm[-1] if warm else None
            threads.start(lambda instance=instance: self._work(instance))  # type: ignore[misc]
            self.started += 1
            if warm:
                warm.pop()

    def batches(self) -> Iterator[Any]:
        """The answer's batches as they come, lane by lane."""
        if not self.streams:
            yield from self.answer().batches
            return
        clean = False
        warm: list[Instance | None] = [*self._warm_instances()]
        try:
            self._start_workers(warm)
            while (batch := self._next_batch()) is not None:
                yield batch
            self._wait()
            clean = True
        finally:
            if not clean:  # also when nobody wants the rest
                self._stop()
                for unused in filter(None, warm):
                    _pool.pool().discard(unused)
            if self.scan is not None:
                self.scan.close(verify=clean)
        if self.failure is not None:
            raise self.failure.with_traceback(None)

    def _next_batch(self) -> Any:
        """The next batch in order, when it is there; None when there are no more."""
        with self.moved:
            while True:
                if self.failure is not None:
                    raise self.failure.with_traceback(None)
                if self.current_lane == len(self.answers):
                    return None
                waiting = self.answers[self.current_lane]
                if waiting:
                    batch = waiting.pop(0)
                    self.held -= self.sizes[self.current_lane].pop(0)
                    self.moved.notify_all()
                    return batch
                if self.finished[self.current_lane]:
                    self.current_lane += 1
                    self.moved.notify_all()
                elif self._has_enough():
                    return None
                elif not self.moved.wait(self._seconds_left()):
                    raise _timed_out()

    def _seconds_left(self) -> float | None:
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def _warm_instances(self) -> list[Instance]:
        """Idle instances, those that keep columns of this table first; each gets the lanes it keeps."""
        share = self.size // self.worker_count
        pool = _pool.pool()
        for _ in range(self.worker_count):
            instance = pool.acquire_idle(share, hardened=self.hardened, prefer=self._kept_count)
            if instance is None:
                break
            self.instances.append(instance)
            self.kept_lanes[instance] = deque()
        if self.scan is not None:
            self.lanes.extend(range(len(self.table.lanes)))
            return list(self.instances)
        for lane, morsels in enumerate(self.table.lanes):
            key = (self.table_id, morsels.start)
            keepers = [self.kept_lanes[instance] for instance in self.instances if key in instance.resident]
            (min(keepers, key=len) if keepers else self.lanes).append(lane)
        return list(self.instances)

    def _kept_count(self, instance: Instance) -> int:
        return len(instance.resident.get((self.table_id, -1), ()))

    def _wait(self) -> None:
        if not self.done.wait(self._seconds_left()):
            raise _timed_out()

    def _stop(self) -> None:
        """Cancels what runs and waits until it has noticed.

        A worker that is still making its instance (the first one compiles the engine) is not waited for:
        it sees that we stopped, and leaves.
        """
        with self.lock:
            self.stopped = True
            running = list(self.instances)
            self.moved.notify_all()
        if self.scan is not None:
            self.scan.gate.cancel()
        for instance in running:
            instance.cancel()
        given_up = time.monotonic() + threads.CANCEL_SECONDS
        while self.started > self.left and self.instances and time.monotonic() < given_up:
            self.done.wait(CANCEL_POLL_SECONDS)

    # ---- worker threads ----

    def _work(self, instance: Instance | None) -> None:
        """A worker's whole part: lanes while there are any; the last one to end runs the final plan."""
        try:
            if instance is None:
                instance = self._new_instance()
            if instance is not None:
                self._run_lanes(instance)
                if self._is_last() and (self.work.final is not None or not self.table.lanes):
                    self._run_final(instance)
        except _wasm.Cancelled:
            pass
        except MemoryExceededError as failure:
            self._fail(failure)
        except MemoryError:
            self._fail(
                error("MEMORY_EXCEEDED", "this process has no memory left; lower memory= or its other use")
            )
        except BaseException as failure:  # handed to the asking thread, whatever it is
            self._fail(failure)
        finally:
            self._leave(instance)

    def _new_instance(self) -> Instance | None:
        instance = _pool.pool().acquire(self.size // self.worker_count, hardened=self.hardened)
        with self.lock:
            if not self.stopped:
                self.instances.append(instance)
                self.kept_lanes[instance] = deque()
                return instance
        _pool.pool().release(instance)
        return None

    def _is_last(self) -> bool:
        with self.lock:
            self.working -= 1
            return self.working == 0 and not self.stopped

    def _leave(self, instance: Instance | None) -> None:
        with self.lock:
            if instance is not None:
                self.instances.remove(instance)
                self.granted.pop(instance, None)
                self.crossings += instance.crossings
                instance.crossings = 0
            clean = not self.stopped
            self.left += 1
            last = self.left == self.worker_count
        if instance is not None:
            _pool.pool().release(instance) if clean else _pool.pool().discard(instance)
        if last:
            self.done.set()

    def _fail(self, failure: BaseException) -> None:
        with self.lock:
            if self.failure is None:
                self.failure = failure
            self.stopped = True
            running = list(self.instances)
            self.moved.notify_all()
        if self.scan is not None:
            self.scan.gate.cancel()
        for instance in running:
            instance.cancel()

    def _allow(self, instance: Instance) -> None:
        """Lets the instance grow by its share of what nobody has or may take."""
        with self.lock:
            if self.stopped:
                raise _wasm.Cancelled("stopped")
            # What another was allowed it may take at any moment, so it counts as taken.
            others = [other for other in self.instances if other is not instance]
            taken = sum(max(other.memory_size, self.granted.get(other, 0)) for other in others)
            size = instance.memory_size
            held = max(self.held, self.size // STREAM_PART) if self.streams else self.held
            free = max(0, self.size - held - taken - size)
            waiting = self.worker_count - self.left - sum(other in self.granted for other in others)
            limit = size + free // max(1, waiting)
            if limit != self.granted.get(instance):
                self.granted[instance] = limit
                instance.set_limit(limit)

    # ---- lanes ----

    def _run_lanes(self, instance: Instance) -> None:
        instance.set_output_size(max(OUTPUT_SIZE_MIN, self.size // self.worker_count // OUTPUT_PART))
        if self.scan is not None:
            self._run_file_lanes(instance, self.scan)
            return
        if (self.table_id, -1) not in instance.resident:
            _forget_dead_tables(instance)
        lane = self._next_lane(instance)
        if lane is None:
            return
        self._allow(instance)
        query = instance.query_open(self.work.lane)
        stage = _Stage(instance)
        # Lanes that give one small row each share a call: it would cost more than what it returns.
        together = LANES_TOGETHER if self.keep and self.indices and self.work.one_row_lanes else 1
        while lane is not None:
            if together > 1:
                self._run_together(instance, query, [lane, *self._more_kept_lanes(instance, together - 1)])
            else:
                self._run_lane(stage, query, lane)
            lane = self._next_lane(instance)
        stage.free()
        instance.query_close(query)

    def _run_file_lanes(self, instance: Instance, scan: FileScan) -> None:
        from querymode.execute.files import Worker

        self._allow(instance)
        _forget_dead_tables(instance)
        if scan.prune(instance):
            self._add_workers(scan)
        query = instance.query_open(self.work.lane)
        worker = Worker(scan, instance, query, lambda: self._allow(instance))

        def take(lane: int, output: Output) -> None:
            self._take_output(instance, query, output, lane)

        def finish(lane: int) -> None:
            self._take_output(instance, query, instance.query_finish(query), lane)
            self._lane_finished(lane)

        instance.take_pages_skipped()  # of queries that did not come to their end
        worker.run(lambda: self._next_lane(instance), take, finish)
        worker.close()
        with self.lock:
            self.pages_skipped += instance.take_pages_skipped()
        instance.query_close(query)

    def _add_workers(self, scan: FileScan) -> None:
        """After pruning: lanes without row groups are done, and the others get more workers."""
        left = [lane for lane, groups in enumerate(scan.lanes) if groups]
        with self.lock:
            # One lane is run even if it is empty: it says the schema, and aggregates have a row of nothing.
            self.lanes = deque(left or (self.lanes and [0]))
            for lane in set(range(len(scan.lanes))) - set(self.lanes):
                self.finished[lane] = True
            # A table without rows has no lane at all.
            extra = max(0, min(self.extra_workers, len(self.lanes) - 1)) if not self.stopped else 0
            self.worker_count += extra
            self.working += extra
            self.started += extra
            self.moved.notify_all()
        for _ in range(extra):
            threads.start(lambda: self._work(None))

    def _more_kept_lanes(self, instance: Instance, count: int) -> list[int]:
        """Half of what this instance keeps, if others could help with the rest."""
        with self.lock:
            own = self.kept_lanes[instance]
            available = len(own) if self.worker_count == 1 else len(own) // 2
            return [own.popleft() for _ in range(min(count, available))]

    def _run_together(self, instance: Instance, query: int, lanes: list[int]) -> None:
        self._allow(instance)
        wire: list[bytes] = []
        for lane in lanes:
            morsels = self.table.lanes[lane]
            wire.append(len(morsels).to_bytes(4, "little"))
            for index in morsels:
                references = _kept_columns(instance, self.table_id, self._memory, index, self.indices)
                wire += (len(self.indices).to_bytes(4, "little"), references)
        output = instance.query_push(query, SourceKind.LANES, data=b"".join(wire))
        self._hold(output.size)
        answers = instance.read(output.address, output.size)
        position = 0
        for lane in lanes:
            end = position + 4 + int.from_bytes(answers[position : position + 4], "little")
            self.answers[lane].append(answers[position + 4 : end])
            self.rows[lane] += 1
            self.finished[lane] = True
            position = end

    def _next_lane(self, instance: Instance) -> int | None:
        """A lane whose columns this instance keeps, else one that nobody keeps, else a busy one's last."""
        with self.lock:
            if self.stopped or self._has_enough():
                return None
            own = self.kept_lanes[instance]
            if own:
                return own.popleft()
            if self.lanes:
                return self.lanes.popleft()
            longest = max(self.kept_lanes.values(), key=len)
            return longest.pop() if len(longest) > 1 else None

    def _has_enough(self) -> bool:
        """LIMIT: the finished lanes at the front give all the rows that are wanted."""
        if self.work.rows_needed is None:
            return False
        rows = 0
        for lane, finished in enumerate(self.finished):
            rows += self.rows[lane]
            if rows >= self.work.rows_needed:
                return True
            if not finished:
                return False
        return False

    def _run_lane(self, stage: _Stage, query: int, lane: int) -> None:
        instance = stage.instance
        for index in self.table.lanes[lane]:
            self._allow(instance)
            output = self._push_morsel(stage, query, index)
            self._take_output(instance, query, output, lane)
            if output.state == OutputState.DONE:
                break
        self._take_output(instance, query, instance.query_finish(query), lane)
        self._lane_finished(lane)

    def _push_morsel(self, stage: _Stage, query: int, index: int) -> Output:
        instance = stage.instance
        if self.keep and self.indices:
            references = _kept_columns(instance, self.table_id, self._memory, index, self.indices)
            return instance.query_push(query, SourceKind.COLUMNS, data=references)
        layout = self._memory.morsels[index].layout(self.indices)
        # What comes out is the engine's own copy, so the next morsel may take the same place.
        address = stage.place(layout.size) if layout.buffers else 0
        for place, buffer in layout.buffers:
            instance.write(address + place, buffer)
        return instance.query_push(query, SourceKind.DESCRIPTOR, data=layout.descriptors(address))

    def _take_output(self, instance: Instance, query: int, output: Output, lane: int) -> None:
        """Copies out what a call left, and what waits behind it."""
        while True:
            if output.address:
                self._hold(output.size, lane)
                # Nobody else looks at an unfinished lane, but for its number of rows, and a stream's reader.
                self._deliver(lane, self._copied(instance, output), output)
            if output.state != OutputState.MORE_OUTPUT:
                return
            output = instance.query_next(query)

    def _copied(self, instance: Instance, output: Output) -> Any:
        if self.export is not None and (self.work.final is None or self.finalising):
            return self.export(instance.view(output.address, output.size))
        return instance.read(output.address, output.size)

    def _deliver(self, lane: int, batch: Any, output: Output) -> None:
        if not self.streams:
            self.answers[lane].append(batch)
            self.rows[lane] += output.row_count
            return
        with self.moved:
            if output.row_count:  # an empty batch only says the schema, which a stream's reader knows
                self.answers[lane].append(batch)
                self.sizes[lane].append(output.size)
                self.rows[lane] += output.row_count
            else:
                self.held -= output.size
            self.moved.notify_all()

    def _lane_finished(self, lane: int) -> None:
        with self.moved:
            self.finished[lane] = True
            self.moved.notify_all()

    def _wait_for_reader(self, size: int, lane: int) -> None:
        """A stream's batch waits until what was handed out before leaves room for it."""
        room = max(self.size // STREAM_PART, size)
        while not self.stopped and self.held + size > room:
            # The lane that is being read may always go on, or nothing would ever move.
            if lane == self.current_lane and not self.answers[lane]:
                return
            self.moved.wait(CANCEL_POLL_SECONDS * 20)
        if self.stopped:
            raise _wasm.Cancelled("stopped")

    def _hold(self, size: int, lane: int = 0) -> None:
        """Counts bytes of an answer before they are copied out."""
        with self.lock:
            if self.streams:
                self._wait_for_reader(size, lane)
                self.held += size
                return
            self.held += size
            if self.held + sum(other.memory_size for other in self.instances) > self.size:
                raise error(
                    "MEMORY_EXCEEDED",
                    f"the answer needs more than the {self.size / MIB:.0f} MiB of memory=; "
                    "raise it, select less, or aggregate",
                )

    # ---- the final plan ----

    def _run_final(self, instance: Instance) -> None:
        """Over the lanes' answers, in their order. A table without lanes has only this."""
        batches = deque(batch for lane in self.answers for batch in lane)
        self.answers, self.rows = [[]], [0]
        self.finalising = True
        query = instance.query_open(self.work.lane if self.work.final is None else self.work.final)
        stage = _Stage(instance)
        while batches:
            output = self._push_batches(stage, query, batches)
            self._take_output(instance, query, output, 0)
            if output.state == OutputState.DONE:
                break
        stage.free()
        if batches:
            with self.lock:
                self.held -= sum(map(len, batches))
        self._allow(instance)
        self._take_output(instance, query, instance.query_finish(query), 0)
        instance.query_close(query)

    def _push_batches(self, stage: _Stage, query: int, batches: deque[bytes]) -> Output:
        """As many batches as make a morsel, by one call: partial answers are many and small."""
        parts: list[bytes] = []
        size = 0
        while batches and (not parts or size + len(batches[0]) <= PUSH_SIZE_MAX):
            batch = batches.popleft()
            parts += (len(batch).to_bytes(4, "little"), batch)
            size += 4 + len(batch)
        with self.lock:
            self.held -= size - 2 * len(parts)  # of every pair, four bytes were the size
        if size <= SCRATCH_SIZE_MAX:
            return stage.instance.query_push(query, SourceKind.QMCB_LIST, data=b"".join(parts))
        self._allow(stage.instance)
        address = stage.place(size)
        position = address
        for part in parts:
            stage.instance.write(position, part)
            position += len(part)
        return stage.instance.query_push(query, SourceKind.QMCB_LIST, address=address, size=size)


class _Stage:
    """A block of an instance's memory that inputs take one after the other."""

    __slots__ = ("_address", "_size", "instance")

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self._address = 0
        self._size = 0

    def place(self, size: int) -> int:
        """Where `size` bytes may be written. What was there before is gone."""
        if size > self._size:
            self.free()
            self._address = self.instance.alloc(size)
            self._size = size
        return self._address

    def free(self) -> None:
        if self._size:
            self.instance.free(self._address, self._size)
            self._size = 0


# ---- columns that stay in an instance ----


def _kept_columns(
    instance: Instance, owner: int, table: MemoryTable, index: int, wanted: Sequence[int]
) -> bytes:
    """References to the wanted columns; those that are not there yet are brought in by one call."""
    #: Column of the table → its reference: batch handle and column in that batch.
    kept: dict[int, bytes] = instance.resident.setdefault((owner, index), {})
    missing = [column for column in wanted if column not in kept]
    if missing:
        layout = table.morsels[index].layout(missing)
        try:
            address = instance.alloc(layout.size)
        except MemoryExceededError:  # other tables' columns make room for this one's
            _forget_tables(instance, {key[0] for key in instance.resident} - {owner})
            address = instance.alloc(layout.size)
        for place, buffer in layout.buffers:
            instance.write(address + place, buffer)
        handle = instance.batch_open(layout.descriptors(address))
        for place, column in enumerate(missing):
            kept[column] = handle.to_bytes(4, "little") + place.to_bytes(4, "little")
        instance.resident.setdefault((owner, -1), []).append((handle, address, layout.size))
    return b"".join([kept[column] for column in wanted])


def _forget_dead_tables(instance: Instance) -> None:
    """Gives back what is kept for tables that nobody can ask for any more."""
    if not instance.resident:
        return
    with _table_lock:
        alive = set(_table_ids.values())
    _forget_tables(instance, {key[0] for key in instance.resident} - alive)


def _forget_tables(instance: Instance, owners: set[int]) -> None:
    for owner in owners:
        for handle, address, size in instance.resident.get((owner, -1), ()):
            instance.batch_close(handle)
            instance.free(address, size)
    for key in [key for key in instance.resident if key[0] in owners]:
        del instance.resident[key]
