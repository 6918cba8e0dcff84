"""Runs one stage: lanes on worker threads, then the final plan over their answers.

    lanes → workers (an engine instance each) → partial QMCB, in lane order → final plan → QMCB

Where the answers are partitioned and many, the final plan is not run here: the query runs it over every
partition, as a stage of its own (execute/query_run.py). Many sorted rows are merged range by range, likewise
(execute/ranges.py).

Memory: what the engine instances of the query hold and what it has handed out stay within its reservation at
every moment; each instance may grow by its share of what is still free.
"""

from __future__ import annotations

import threading
import time
from collections import deque

from querymode._abi import LISTED, UNDIVIDED, OutputState, SourceKind
from querymode._call import query_timeout
from querymode.engine import threads
from querymode.engine.address_space import give_back_free_memory
from querymode.engine.instance import Cancelled
from querymode.engine.plan_bytes import with_builds
from querymode.engine.pool import pool
from querymode.errors import MemoryExceededError, error
from querymode.execute.batch import Batch, drop_batches
from querymode.execute.feeds import InputBlock, Refuted, push_batches
from querymode.execute.kept import kept_count
from querymode.stage.stage import Merged, Partitioned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from querymode.engine.instance import Instance, Output
    from querymode.execute.feeds import Feed
    from querymode.execute.query_run import QueryRun
    from querymode.execute.ranges import Range
    from querymode.execute.top_bound import TopBound
    from querymode.stage.stage import Build, Gathered, Stage

MIB = 1 << 20
#: What an instance needs to pass a morsel through: the morsel (of files some 16 MiB), its answer, some room.
WORKER_SIZE_MIN = 48 * MIB
CANCEL_POLL_SECONDS = 0.005
#: Of a worker's memory, what a batch of an answer may take: it exists three times for a moment.
OUTPUT_PART = 16
OUTPUT_SIZE_MIN = 64 << 10
#: Where memory is scarce, what has been freed goes back to the system whenever it is so much of it.
FREED_PART = 16
FREED_SIZE_MIN = 8 * MIB
#: Of a stream's memory, what may wait for its reader, …
STREAM_PART = 4
#: … and of one worker alone.
STREAM_PART_ALONE = 16
#: Up to so many rows of partitioned answers, the final plan takes them all at once.
GATHER_ROWS_MAX = 1 << 16
#: … and up to so many where every lane's were few: then they are few altogether, most likely.
UNDIVIDED_ROWS_MAX = 1 << 21


class StageRun:
    """One attempt at a stage."""

    def __init__(
        self,
        query: QueryRun,
        stage: Stage,
        feeds: Sequence[Feed],
        worker_count: int,
        *,
        streams: bool = False,
        bound: TopBound | None = None,
    ) -> None:
        self.query = query
        self.stage = stage
        self.feeds = list(feeds)
        self.size = query.size
        self.worker_count = worker_count
        #: Workers that start once it is known that there is something left for them.
        self.extra_workers = 0
        if len(self.feeds) == 1 and self.feeds[0].may_shrink():
            self.extra_workers, self.worker_count = worker_count - 1, 1
        self.lock = threading.Lock()
        self.done = threading.Event()
        self.started = 0
        self.working = self.worker_count  # on lanes
        self.left = 0
        self.failure: BaseException | None = None
        self.stopped = False
        self.instances: list[Instance] = []
        self.granted: dict[Instance, int] = {}  # how far each may grow
        self._builds: dict[Instance, _Builds] = {}
        self.grown = 0  # what instances held that have left
        self.held_peak = query.held
        lane_count = sum(feed.lane_count for feed in self.feeds)
        self.answers: list[deque[Batch]] = [deque() for _ in range(lane_count)]
        self.rows = [0] * lane_count
        self.finished = [False] * lane_count
        for feed in self.feeds:
            for lane, batches in enumerate(feed.ready(), feed.first):
                self.answers[lane].extend(batches)
                self.rows[lane] = sum(batch.row_count for batch in batches)
                self.finished[lane] = True
        #: Of a top-k: lanes that have all the rows that are wanted tighten it.
        self.bound = bound
        self.lanes_skipped = 0
        self.ends = True
        self.finalising = False
        #: Set when the final plan is left to the query, to be run over partitions.
        self.is_partitioned = False
        #: The same over ranges of keys.
        self.ranges: Sequence[Range] = ()
        #: Batches are taken while the query runs, of this lane now.
        self.streams = streams
        self.current_lane = 0
        #: Lanes that may have begun at the wrong place, so that the reader does not get their rows yet, and
        #: those that are still being read though they did.
        self.provisional: set[int] = set()
        self.refuted: set[int] = set()
        self.moved = threading.Condition(self.lock)

    def restrict(self, lanes: range, start: int | None) -> None:
        """Before it runs: the others are run elsewhere, and the end as well."""
        self.ends = False
        for feed in self.feeds:
            feed.restrict(lanes, start)
        self.finished = [done or lane not in lanes for lane, done in enumerate(self.finished)]

    # ---- the asking thread ----

    def run(self) -> None:
        """Until all lanes, and the final plan, are done."""
        clean = False
        try:
            self._run()
            clean = True
        finally:
            for feed in self.feeds:
                feed.close(clean=clean)

    def _run(self) -> None:
        warm: list[Instance | None] = [*self._warm_instances()]
        try:
            self._start_workers(warm)
            if not self.done.wait(self._seconds_left()):
                raise query_timeout()
        except BaseException:
            self._stop(warm)
            raise
        if self.failure is not None:
            raise self.failure.with_traceback(None)

    def _start_workers(self, warm: list[Instance | None]) -> None:
        while self.started < self.worker_count:
            instance = warm[-1] if warm else None
            threads.start(lambda instance=instance: self._work(instance))  # type: ignore[misc]
            with self.lock:
                self.started += 1
            if warm:
                warm.pop()

    def batches(self) -> Iterator[Any]:
        """The answer's batches as they come, lane by lane."""
        clean = False
        warm: list[Instance | None] = [*self._warm_instances()]
        try:
            self._start_workers(warm)
            while (batch := self._next_batch()) is not None:
                yield batch.data
            if not self.done.wait(self._seconds_left()):
                raise query_timeout()
            clean = True
        finally:
            if not clean:  # also when nobody wants the rest
                self._stop(warm)
            for feed in self.feeds:
                feed.close(clean=clean)
        if self.failure is not None:
            raise self.failure.with_traceback(None)

    def _next_batch(self) -> Batch | None:
        """The next batch in order, when it is there; None when there are no more."""
        with self.moved:
            while True:
                if self.failure is not None:
                    raise self.failure.with_traceback(None)
                if self.current_lane == len(self.answers):
                    return None
                waiting = self.answers[self.current_lane]
                if waiting and self.current_lane not in self.provisional:
                    batch = waiting.popleft()
                    self.query.held -= batch.size
                    self.moved.notify_all()
                    return batch
                if self.finished[self.current_lane]:
                    self.current_lane += 1
                    self.moved.notify_all()
                elif self._has_enough():
                    return None
                elif not self.moved.wait(self._seconds_left()):
                    raise query_timeout()

    def _seconds_left(self) -> float | None:
        deadline = self.query.deadline
        return None if deadline is None else max(0.0, deadline - time.monotonic())

    def _warm_instances(self) -> list[Instance]:
        """Idle instances, those that keep columns of our tables first; each gets the lanes it keeps.

        Others hold at most an even share of the memory. Those that keep our columns may hold more, as long as
        the workers without an instance have enough to begin with: refused, they would be lost for good, since
        memory never shrinks, and their columns would be copied into new ones.
        """
        share = self.size // self.worker_count
        free = self.size - self.query.held
        instances = pool()
        for left in reversed(range(self.worker_count)):
            instance = instances.acquire_idle(
                share,
                hardened=self.query.limits.hardened,
                prefer=self._kept_count,
                preferred_limit=free - left * WORKER_SIZE_MIN,
            )
            if instance is None:
                break
            free -= max(instance.memory_size, WORKER_SIZE_MIN)
            self.instances.append(instance)
            self.query.was_alone = False  # what it holds from before may be what is missing
        for feed in self.feeds:
            feed.assign(self.instances)
        return list(self.instances)

    def _kept_count(self, instance: Instance) -> int:
        """Columns of this stage first, then of the query's other stages: those are counted as the query's."""
        own = sum(feed.kept_count(instance) for feed in self.feeds)
        return 2 * own + any(kept_count(instance, owner) for owner in self.query.owners)

    def _stop(self, unused: list[Instance | None]) -> None:
        """Cancels what runs and waits until it has noticed; discards instances that no worker took.

        A worker that is still making its instance (the first one compiles the engine) is not waited for:
        it sees that we stopped, and leaves.
        """
        self._cancel()
        given_up = time.monotonic() + threads.CANCEL_SECONDS
        while self.started > self.left and self.instances and time.monotonic() < given_up:
            self.done.wait(CANCEL_POLL_SECONDS)
        for instance in filter(None, unused):
            pool().discard(instance)

    def drop_answers(self) -> None:
        """After a failure: the next attempt needs the memory, and tracebacks may refer to this run."""
        drop_batches(self.answers)
        self.feeds = []

    # ---- worker threads ----

    def _work(self, instance: Instance | None) -> None:
        """A worker's whole part: lanes while there are any; the last one to end runs the final plan."""
        try:
            if instance is None:
                instance = self._new_instance()
            if instance is not None:
                self._run_lanes(instance)
                if self._is_last() and self.ends and self.stage.final is not None:
                    self._run_final(instance, self.stage.final)
        except Cancelled:
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
        with self.lock:
            taken = sum(max(WORKER_SIZE_MIN, other.memory_size) for other in self.instances)
        limit = min(self.size // self.worker_count, max(WORKER_SIZE_MIN, self.size - taken))
        instance = pool().acquire(limit, hardened=self.query.limits.hardened)
        with self.lock:
            if not self.stopped:
                self.instances.append(instance)
                return instance
        pool().give_back(instance, clean=True)
        return None

    def _is_last(self) -> bool:
        with self.lock:
            self.working -= 1
            return self.working == 0 and not self.stopped

    def _leave(self, instance: Instance | None) -> None:
        """Whatever fails here is reported, and the asking thread woken: it would wait for ever."""
        try:
            if instance is not None:
                self._part_with(instance)
        except BaseException as failure:  # handed to the asking thread, whatever it is
            internal = error("INTERNAL", "a worker of the query could not give its instance back")
            internal.__cause__ = failure
            self._fail(internal)
        finally:
            with self.lock:
                self.left += 1
                last = self.left == self.worker_count
                self.query.peak = max(self.query.peak, self.grown + self.held_peak)
            if last:
                self.done.set()

    def _part_with(self, instance: Instance) -> None:
        with self.lock:
            self.instances.remove(instance)
            self.granted.pop(instance, None)
            self.grown += instance.memory_size
            self.query.crossings += instance.crossings
            instance.crossings = 0
            clean = not self.stopped
        pool().give_back(instance, clean=clean)

    def _fail(self, failure: BaseException) -> None:
        with self.lock:
            if self.failure is None:
                self.failure = failure
        self._cancel()

    def _cancel(self) -> None:
        with self.lock:
            self.stopped = True
            running = list(self.instances)
            self.moved.notify_all()
        self.query.cancel_reads()
        for instance in running:
            instance.cancel()

    def allow(self, instance: Instance) -> None:
        """Lets the instance grow by its share of what nobody has or may take."""
        with self.lock:
            if self.stopped:
                raise Cancelled("stopped")
            # What another was allowed it may take at any moment, so it counts as taken.
            others = [other for other in self.instances if other is not instance]
            taken = sum(max(other.memory_size, self.granted.get(other, 0)) for other in others)
            size = instance.memory_size
            held = max(self.query.held, self._waiting_size()) if self.streams else self.query.held
            free = max(0, self.size - held - taken - size)
            waiting = self.worker_count - self.left - sum(other in self.granted for other in others)
            limit = size + free // max(1, waiting)
            if limit != self.granted.get(instance):
                self.granted[instance] = limit
                instance.set_limit(limit)

    # ---- lanes ----

    def _run_lanes(self, instance: Instance) -> None:
        size = self.size // self.worker_count // OUTPUT_PART
        if self._merge_worker_count() > 1:
            from querymode.execute.ranges import RUN_BATCH_SIZE

            size = min(size, RUN_BATCH_SIZE)
        instance.set_output_size(max(OUTPUT_SIZE_MIN, size))
        builds = self._builds[instance] = _Builds(self, instance)
        for branch, feed in zip(self.stage.branches, self.feeds, strict=True):
            if feed.prepare(instance, self):
                self._add_workers(feed)
            if not self._has_lanes(feed):
                continue
            self.allow(instance)
            query = self._open(instance, branch.plan, builds.handles(branch.builds))
            query = feed.run(instance, query, self)
            self._note_rows(instance, query, branch.nodes, is_final=False)
            instance.query_close(query)
        builds.close()

    def _has_lanes(self, feed: Feed) -> bool:
        with self.lock:
            return bool(feed.lanes or any(feed.kept.values())) and not self.stopped

    def _add_workers(self, feed: Feed) -> None:
        """After pruning: the lanes that are left get more workers."""
        with self.lock:
            extra = max(0, min(self.extra_workers, len(feed.lanes) - 1)) if not self.stopped else 0
            self.extra_workers = 0
            self._count_workers(extra)
            self.moved.notify_all()
        for waiting in reversed(range(extra)):
            try:
                threads.start(lambda: self._work(None))
            except BaseException:
                with self.lock:
                    self._count_workers(-waiting - 1)  # or the query would wait for them
                raise

    def _count_workers(self, change: int) -> None:
        self.worker_count += change
        self.working += change
        self.started += change

    def next_lane(self, instance: Instance, feed: Feed) -> int | None:
        with self.lock:
            if self.stopped or self._has_enough():
                return None
            return feed.take(instance)

    def _has_enough(self) -> bool:
        """LIMIT: the finished lanes at the front give all the rows that are wanted."""
        if self.stage.rows_needed is None:
            return False
        rows = 0
        for lane, finished in enumerate(self.finished):
            if lane in self.provisional:
                return False
            rows += self.rows[lane]
            if rows >= self.stage.rows_needed:
                return True
            if not finished:
                return False
        return False

    def take_list(self, instance: Instance, output: Output, lanes: Sequence[int]) -> None:
        """One small answer for each of these lanes."""
        self._hold(output.size, lanes[0])
        answers = instance.read(output.address, output.size)
        position = 0
        for lane in lanes:
            end = position + 4 + int.from_bytes(answers[position : position + 4], "little")
            data = answers[position + 4 : end]
            self.answers[lane].append(Batch(data, len(data), 1))
            self.rows[lane] += 1
            self.finished[lane] = True
            position = end

    def take_output(self, instance: Instance, query: int, output: Output, lane: int) -> None:
        """Copies out what a call left, and what waits behind it."""
        while True:
            if output.partition == LISTED:
                self._take_parts(instance, output, lane)
            elif output.address:
                # Nobody else looks at an unfinished lane, but for its number of rows, and a stream's reader.
                self._deliver(lane, self._copied(instance, output, lane))
            if output.state != OutputState.MORE_OUTPUT:
                return
            output = instance.query_next(query)

    def _take_parts(self, instance: Instance, output: Output, lane: int) -> None:
        """Many partitions by one call."""
        parts = instance.listed_parts(output)
        self._hold(sum(size for _, size, _, _ in parts), lane)
        for address, size, row_count, partition in parts:
            self._deliver(lane, Batch(instance.read(address, size), size, row_count, partition))

    def _exports(self) -> bool:
        return self.query.exports(self.stage, final=self.finalising)

    def _copied(self, instance: Instance, output: Output, lane: int) -> Batch:
        data: Any
        if self._exports():
            from querymode.engine.lent import LentBatch

            assert self.query.export is not None
            lent = LentBatch(instance, output)
            size = lent.size
            self._hold(size, lane)
            data = self.query.export(lent)
        else:
            size = output.size
            self._hold(size, lane)
            data = instance.read(output.address, size)
        return Batch(data, size, output.row_count, output.partition)

    def _open(self, instance: Instance, plan: bytes, builds: Sequence[int]) -> int:
        query = instance.query_open(with_builds(plan, builds))
        if self._exports():
            instance.query_lend(query)
        return query

    def _deliver(self, lane: int, batch: Batch) -> None:
        if not self.streams:
            self.answers[lane].append(batch)
            self.rows[lane] += batch.row_count
            return
        with self.moved:
            if batch.row_count:  # an empty batch only says the schema, which a stream's reader knows
                self.answers[lane].append(batch)
                self.rows[lane] += batch.row_count
            else:
                self.query.held -= batch.size
            self.moved.notify_all()

    def lane_finished(self, lane: int) -> None:
        with self.moved:
            self.finished[lane] = True
            self.provisional.discard(lane)
            if self.bound is not None:
                self.bound.note([batch.data for batch in self.answers[lane]], self.rows[lane])
            self.moved.notify_all()

    def lane_skipped(self, lane: int) -> None:
        """None of its rows can be in the answer."""
        with self.moved:
            self.finished[lane] = True
            self.lanes_skipped += 1
            self.moved.notify_all()

    def lane_provisional(self, lane: int) -> None:
        """Of a stream: its rows wait until somebody knows whether they are right."""
        with self.lock:
            self.provisional.add(lane)

    def lane_settled(self, lane: int) -> None:
        """They are, though not all of them are here."""
        with self.moved:
            self.provisional.discard(lane)
            self.moved.notify_all()

    def lane_refuted(self, lane: int) -> None:
        """They are not: whoever reads it is told so when it has the next ones."""
        with self.moved:
            self.refuted.add(lane)
            self.moved.notify_all()

    def forget_lane(self, lane: int) -> None:
        """What it left was not right; it is run again, from where it begins."""
        self.let_go(self.answers[lane])
        with self.lock:
            self.answers[lane].clear()
            self.rows[lane] = 0
            self.provisional.discard(lane)
            self.refuted.discard(lane)

    def reopen(self, instance: Instance, query: int, feed: Feed) -> int:
        """The same plan anew, for a query that failed."""
        branch = self.stage.branches[self.feeds.index(feed)]
        instance.query_close(query)
        return self._open(instance, branch.plan, self._builds[instance].handles(branch.builds))

    def count_pages(self, count: int) -> None:
        with self.lock:
            self.query.pages_skipped += count

    def _note_rows(self, instance: Instance, query: int, nodes: Sequence[int], *, is_final: bool) -> None:
        profile = self.query.profile
        if profile is not None and nodes:
            counts = instance.query_profile(query)
            with self.lock:
                profile.add_rows(nodes, counts, is_final=is_final)

    def let_go(self, batches: Iterable[Batch]) -> None:
        """Nobody needs them any more."""
        size = drop_batches((batches,))
        with self.lock:
            self.query.held -= size
            self.query.freed += size
            is_much = self.query.freed > max(FREED_SIZE_MIN, self.size // FREED_PART)
            # Most queries are far from their limit, and memory that stays mapped is faster the next time.
            is_scarce = is_much and self.query.has_all_memory and self._taken() > self.size // 2
            if is_scarce:
                self.query.freed = 0
        if is_scarce:
            give_back_free_memory()

    def _taken(self) -> int:
        return self.query.held + sum(instance.memory_size for instance in self.instances)

    def _wait_for_reader(self, size: int, lane: int) -> None:
        """A stream's batch waits until what was handed out before leaves room for it."""
        room = max(self._waiting_size(), size)
        while not self.stopped and lane not in self.refuted and self.query.held + size > room:
            # The lane that is being read may always go on, or nothing would ever move.
            if lane == self.current_lane and not self.answers[lane]:
                return
            self.moved.wait(CANCEL_POLL_SECONDS * 20)
        if self.stopped:
            raise Cancelled("stopped")
        if lane in self.refuted:
            raise Refuted

    def _waiting_size(self) -> int:
        """What may wait for a stream's reader. One worker is never ahead of it by more than a batch."""
        is_alone = self.worker_count + self.extra_workers == 1
        return self.size // (STREAM_PART_ALONE if is_alone else STREAM_PART)

    def _hold(self, size: int, lane: int) -> None:
        """Counts bytes of an answer before they are copied out."""
        with self.lock:
            if self.streams:
                self._wait_for_reader(size, lane)
                self.query.held += size
                return
            self.query.held += size
            self.held_peak = max(self.held_peak, self.query.held)
            if self._taken() > self.size:
                raise error(
                    "MEMORY_EXCEEDED",
                    f"the answer needs more than the {self.size / MIB:.0f} MiB of memory=; "
                    "raise it, select less, or aggregate",
                )

    # ---- the final plan ----

    def _gather_rows_max(self) -> int:
        whole = all(batch.partition == UNDIVIDED for lane in self.answers for batch in lane)
        return UNDIVIDED_ROWS_MAX if whole else GATHER_ROWS_MAX

    def _merge_worker_count(self) -> int:
        """How many may merge the lanes' answers side by side, if these are many rows."""
        end = self.stage.end
        many = isinstance(end, Merged) and end.steps is not None
        return self.query.workers(len(self.answers)) if many else 1

    def _find_ranges(self, instance: Instance) -> bool:
        """Whether the final plan is left to the query, to be run over ranges of keys."""
        count = self._merge_worker_count()
        if count == 1:
            return False
        from querymode.execute import ranges

        if sum(self.rows) >= ranges.MERGED_ROWS_MIN:
            assert isinstance(self.stage.end, Merged) and self.stage.end.steps is not None
            runs = [list(lane) for lane in self.answers]
            if self.query.held * ranges.ROOM_PART > self.size:
                count *= ranges.ROOM_PART
            self.ranges = ranges.find_ranges(instance, self.stage.end.steps, runs, count, self)
        return len(self.ranges) > 1

    def _final_batches(self) -> tuple[list[deque[Batch]], list[deque[Batch]]]:
        """What the final plan takes behind its first step, and what it takes there: run by run, or as one."""
        end = self.stage.end
        if isinstance(end, Merged):
            return [], [deque(lane) for lane in self.answers]
        takes_both = isinstance(end, Partitioned) and end.rows_plan is not None
        part_count = end.count if isinstance(end, Partitioned) else 0
        states: deque[Batch] = deque()
        rows: deque[Batch] = deque()
        for lane in self.answers:
            for batch in lane:
                has_passed = part_count <= batch.partition < UNDIVIDED
                (rows if has_passed or not takes_both else states).append(batch)
        return [states], [rows]

    def _run_final(self, instance: Instance, final: Gathered) -> None:
        """Over the lanes' answers, in their order."""
        if isinstance(final, Partitioned) and sum(self.rows) > self._gather_rows_max():
            self.is_partitioned = True
            return
        if self._find_ranges(instance):
            return
        states, lanes = self._final_batches()
        self.answers, self.rows, self.finished = [deque()], [0], [False]
        self.finalising = True
        builds = _Builds(self, instance)
        query = self._open(instance, final.plan, builds.handles(final.builds))
        block = InputBlock(instance)
        kinds = [SourceKind.STATES_LIST] * len(states) + [SourceKind.QMCB_LIST] * len(lanes)
        for run, (kind, batches) in enumerate(zip(kinds, [*states, *lanes], strict=True)):
            while batches:
                output, taken = push_batches(block, query, batches, self, run, kind)
                self.let_go(taken)
                self.take_output(instance, query, output, 0)
                if output.state == OutputState.DONE:
                    self.let_go(batches)
                    batches.clear()
        block.free()
        self.allow(instance)
        self.take_output(instance, query, instance.query_finish(query), 0)
        self.finished[0] = True
        self._note_rows(instance, query, final.nodes, is_final=True)
        instance.query_close(query)
        builds.close()


class _Builds:
    """What joins probe, in one instance: made when first needed."""

    def __init__(self, run: StageRun, instance: Instance) -> None:
        self._run = run
        self._instance = instance
        self._handles: dict[int, int] = {}

    def handles(self, builds: Sequence[Build]) -> list[int]:
        return [self._handle(build) for build in builds]

    def _handle(self, build: Build) -> int:
        found = self._handles.get(build.number)
        if found is None:
            found = self._handles[build.number] = self._make(build)
        return found

    def _make(self, build: Build) -> int:
        instance = self._instance
        self._run.allow(instance)
        query = instance.query_open(build.plan)
        block = InputBlock(instance)
        batches = deque(self._run.query.result(build.stage))
        while batches:
            push_batches(block, query, batches, self._run)
        block.free()
        self._run.allow(instance)
        instance.query_finish(query)
        return query

    def close(self) -> None:
        for handle in self._handles.values():
            self._instance.query_close(handle)
        self._handles = {}
