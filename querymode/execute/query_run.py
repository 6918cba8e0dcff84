"""Runs one query in this process: its stages one after the other, each on all workers.

What a stage leaves is kept, and counted, until the last stage that reads it is done.
"""

from __future__ import annotations

import time
from contextlib import closing

from querymode._abi import UNDIVIDED
from querymode.engine import threads
from querymode.engine.instance import give_back_free_memory
from querymode.engine.pool import pool
from querymode.errors import MemoryExceededError, QueryModeError
from querymode.execute.batch import drop_batches
from querymode.execute.feeds import BatchFeed, FileFeed, MemoryFeed, ReadyFeed
from querymode.execute.kept import kept_count, table_id
from querymode.execute.stage_run import MIB, WORKER_SIZE_MIN, StageRun
from querymode.stage.lower import Branch, Stage, StageOutput, in_order
from querymode.store.source import Touched
from querymode.table.files import FileTable
from querymode.table.memory import MemoryTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
    from typing import Any

    from querymode.engine.instance import Instance
    from querymode.engine.lent import LentBatch
    from querymode.execute.batch import Batch
    from querymode.execute.budget import Budget
    from querymode.execute.feeds import Feed
    from querymode.execute.files import FileScan
    from querymode.execute.limits import Limits
    from querymode.execute.profile import Profile
    from querymode.execute.ranges import Range
    from querymode.execute.top_bound import TopBound
    from querymode.expr.nodes import Expr
    from querymode.store.fetch import IoGate

    Export = Callable[[LentBatch], Any]

#: What an instance needs for row groups: their pages are decoded one after the other, beside the answer.
FILE_WORKER_SIZE = 512 * MIB
#: What rows may be to blame for.
DATA_CODES = frozenset({"INVALID_FORMAT", "NOT_SUPPORTED", "SCHEMA_MISMATCH", "QUERY_FAILED", "INTERNAL"})
#: What a column of a few rows takes in an instance: text has bits, offsets and bytes, and each lies in blocks
#: of 4 KiB of its own.
COLUMN_SIZE = 16 << 10
#: A query that is asked again may need a little more than before: one of so many parts.
NEED_MARGIN = 8


class Answer:
    """The batches of a query, in order, and what they cost."""

    __slots__ = (
        "batches",
        "bytes_read",
        "crossings",
        "group_count",
        "groups_pruned",
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


def run(
    last: Stage,
    budget: Budget,
    limits: Limits,
    *,
    export: Export | None = None,
    profile: Profile | None = None,
) -> Answer:
    """The answer to a lowered plan. `export`: see `QueryRun`. `profile`: is filled."""
    started = time.monotonic()
    reads = Reads(_sources(last), limits)
    try:
        answer = _run(last, budget, limits, reads, export, profile)
    except Touched:  # a file, by somebody who may have changed nothing in it: now it is as it is
        if profile is not None:
            profile.forget()
        answer = _run(last, budget, limits, reads, export, profile)
    answer.seconds = time.monotonic() - started
    return answer


def _run(
    last: Stage,
    budget: Budget,
    limits: Limits,
    reads: Reads,
    export: Export | None,
    profile: Profile | None,
) -> Answer:
    """With as much memory as it takes."""
    deadline = limits.deadline
    most = limits.memory_of(budget.total)
    expected = _expected_size(last, most, limits.thread_count)
    answer: Answer | None = None
    for size, alone in _attempts(expected, most):
        attempt: QueryRun | None = None
        try:
            with budget.reserve(size, deadline) as reservation:
                if size > expected or alone:
                    _make_room()
                attempt = QueryRun(
                    last, limits, reservation.size, deadline, alone=alone, export=export, reads=reads
                )
                attempt.profile = profile
                attempt.has_all_memory = size >= most
                answer = _undisturbed(attempt)
        except MemoryExceededError:
            if _is_final(attempt, size, alone, most):
                give_back_free_memory()
                raise
            continue
        if size > expected:
            # The next time this is asked, the guess is right at once.
            last.memory_needed = attempt.peak + attempt.peak // NEED_MARGIN
        break
    assert answer is not None
    return answer


def _undisturbed(attempt: QueryRun) -> Answer:
    try:
        return attempt.answer()
    except QueryModeError as failure:
        blamed = attempt.blamed(failure)
        if blamed is failure:
            raise
        raise blamed from None


def _attempts(expected: int, most: int) -> list[tuple[int, bool]]:
    """Sizes, and whether it is alone. What was too little is tried once more with everything there is, and
    then by one worker, without anything kept from before: what needs the least memory."""
    return [(expected, False), *([(most, False)] if expected < most else []), (most, True)]


def stream(last: Stage, budget: Budget, limits: Limits, *, export: Export | None = None) -> Iterator[Any]:
    """The batches of the answer, in order, while the query still runs.

    What waits to be taken stays within the budget: workers that are ahead of the reader wait for it. Where
    rows are sorted or aggregated, the answer exists only as a whole, and is then handed out. A file that was
    touched meanwhile is read again only as long as nobody has seen a row of it.
    """
    reads = Reads(_sources(last), limits)
    for is_last in (False, True):
        handed_out = False
        try:
            # Closed at once when the reader wants no more: it holds the query's memory.
            with closing(_batches(last, budget, limits, reads, export)) as batches:
                for batch in batches:
                    handed_out = True
                    yield batch
            return
        except Touched:
            if is_last or handed_out:
                raise


def _batches(
    last: Stage, budget: Budget, limits: Limits, reads: Reads, export: Export | None
) -> Generator[Any, None, None]:
    """With as much memory as it takes, as long as nothing has been handed out."""
    deadline = limits.deadline
    most = limits.memory_of(budget.total)
    expected = _expected_size(last, most, limits.thread_count)
    for size, alone in _attempts(expected, most):
        attempt: QueryRun | None = None
        has_begun = False
        try:
            with budget.reserve(size, deadline) as reservation:
                if size > expected or alone:
                    _make_room()
                attempt = QueryRun(
                    last,
                    limits,
                    reservation.size,
                    deadline,
                    keep=False,
                    alone=alone,
                    export=export,
                    reads=reads,
                )
                attempt.has_all_memory = size >= most
                for batch in attempt.batches():
                    has_begun = True
                    yield batch
        except QueryModeError as failure:
            blamed = failure if attempt is None else attempt.blamed(failure)
            # Rows that somebody has seen cannot be handed out again.
            if isinstance(blamed, MemoryExceededError) and not has_begun:
                if not _is_final(attempt, size, alone, most):
                    continue
                give_back_free_memory()
            if blamed is failure:
                raise
            raise blamed from None
        if size > expected:
            last.memory_needed = attempt.peak + attempt.peak // NEED_MARGIN
        return


def _make_room() -> None:
    """Before an attempt that needs all there is."""
    pool().trim(0)
    give_back_free_memory()


def _is_final(attempt: QueryRun | None, size: int, alone: bool, most: int) -> bool:
    """Whether another attempt would have no more memory than this one."""
    return attempt is None or alone or (size >= most and attempt.was_alone)


def _expected_size(last: Stage, limit: int, thread_count: int) -> int:
    """A guess of what a query holds at once. Small tables need little, so that many run side by side."""
    wanted = 8 * MIB
    tables: dict[int, int] = {}
    computing = min(thread_count, threads.workers_max())
    stages = in_order(last)
    if len(stages) > 1 and any(isinstance(b.source, FileTable) for stage in stages for b in stage.branches):
        # What stages leave for each other is beside what their workers hold.
        wanted = limit // 2
    for stage in stages:
        for branch in stage.branches:
            table = branch.source
            if isinstance(table, FileTable):
                wanted = max(wanted, min(thread_count, table.lane_count) * FILE_WORKER_SIZE)
            elif isinstance(table, MemoryTable):
                size = table.memory_size(branch.columns)
                workers = min(computing, table.lane_count) * WORKER_SIZE_MIN
                # The columns, their copies in an answer or a sort, and what workers hold of groups and rows
                # before they hand them on, which does not shrink with the table.
                # A merge has the runs, its ranges of them and the answer at once.
                wanted += (6 if stage.merges else 4) * size + min(4 * size, workers)
                wanted += len(branch.columns) * min(computing, table.lane_count) * COLUMN_SIZE
                tables[table_id(table)] = tables.get(table_id(table), 0) + size
                if size > MIB:
                    wanted = max(wanted, workers)
    wanted = max(wanted, last.memory_needed)
    return min(limit, max(wanted, _size_with_kept(tables, wanted, computing)))


def _size_with_kept(tables: dict[int, int], wanted: int, worker_count: int) -> int:
    """The same with the idle instances that keep columns of these tables, which the query will use.

    All that they hold is the query's while it runs: other columns of the tables too, and free blocks, which
    it works in before they grow. What they hand out comes on top in any case.
    """
    held, kept = pool().preferred_sizes(
        lambda instance: sum(kept_count(instance, owner) for owner in tables), worker_count
    )
    if not held:
        return 0
    columns = sum(tables.values())
    return held + max(2 * columns + 8 * MIB, wanted - columns - (held - kept))


def worker_size(last: Stage, stage: Stage, total: int, limits: Limits) -> int:
    """What a worker of a stage may hold, as long as nothing fails."""
    size = _expected_size(last, limits.memory_of(total), limits.thread_count)
    lanes = [
        branch.source.lane_count for branch in stage.branches if not isinstance(branch.source, StageOutput)
    ]
    return size // QueryRun(last, limits, size, None).worker_count(stage, max(1, sum(lanes)))


def _sources(last: Stage) -> list[object]:
    return [branch.source for stage in in_order(last) for branch in stage.branches]


class Reads:
    """What a query has read in all its attempts, and what opening its tables had cost before."""

    def __init__(self, sources: Iterable[object], limits: Limits) -> None:
        self._limits = limits
        self._gate: IoGate | None = None
        opening = [source.take_opening() for source in sources if isinstance(source, FileTable)]
        self.opening_requests = sum(requests for requests, _ in opening)
        self.opening_bytes = sum(size for _, size in opening)

    @property
    def requests(self) -> int:
        return 0 if self._gate is None else self._gate.request_count - self.opening_requests

    @property
    def bytes(self) -> int:
        return 0 if self._gate is None else self._gate.byte_count - self.opening_bytes

    def new_gate(self) -> IoGate:
        """For the next attempt, which may read what the ones before have left of the limits."""
        from querymode.store.fetch import IoGate

        before, limits = self._gate, self._limits
        gate = self._gate = IoGate(
            max_requests=limits.max_requests, max_bytes=limits.max_bytes, deadline=limits.deadline
        )
        if before is None:
            gate.carry_over(self.opening_requests, self.opening_bytes)
        else:
            gate.carry_over(before.request_count, before.byte_count)
        return gate


class QueryRun:
    """One attempt at a query: what its stages share."""

    def __init__(
        self,
        last: Stage,
        limits: Limits,
        size: int,
        deadline: float | None,
        *,
        alone: bool = False,
        keep: bool = True,
        export: Export | None = None,
        reads: Reads | None = None,
    ) -> None:
        self.last = last
        self.limits = limits
        self.size = size
        self.deadline = deadline
        #: What becomes of a batch of the answer before it leaves the worker that made it: a copy of its bytes
        #: as QMCB, or what somebody wants to have of its columns, made from where they lie.
        self.export = export
        self.profile: Profile | None = None
        #: One worker, and nothing kept from before: what needs the least memory.
        self._alone = alone
        self._keep = keep and not alone
        self.was_alone = True
        #: Bytes of answers in this process.
        self.held = 0
        #: The most that its instances and answers held together, about.
        self.peak = 0
        #: Bytes of answers that were freed since free memory was last given back to the system, which is
        #: done by queries that have all the memory there is.
        self.freed = 0
        self.has_all_memory = False
        self.crossings = 0
        self.pages_skipped = 0
        self._reads = reads
        self._gate: IoGate | None = None
        self._scans: list[FileScan] = []
        self._results: dict[int, list[list[Batch]]] = {}
        self._readers: dict[int, int] = {}
        self._answer = Answer()
        self._stages = in_order(last)
        #: Its tables in memory, by what instances remember them by.
        self.owners = {
            table_id(branch.source)
            for stage in self._stages
            for branch in stage.branches
            if isinstance(branch.source, MemoryTable)
        }
        for stage in self._stages:
            for before in stage.inputs:
                self._readers[id(before)] = self._readers.get(id(before), 0) + 1

    # ---- stages ----

    def answer(self) -> Answer:
        answer = self._answer
        for stage in self._stages:
            self._results[id(stage)] = self.run_stage(stage)
            self._release_inputs(stage)
        # Of the last stage as it was planned: its final plan may have become a stage of its own.
        lanes = self._results[id(self._stages[-1])]
        answer.batches = [batch.data for lane in lanes for batch in lane]
        answer.row_count = sum(batch.row_count for lane in lanes for batch in lane)
        answer.result_bytes = self.held
        answer.crossings = self.crossings
        answer.pages_skipped = self.pages_skipped
        assert self._reads is not None
        answer.requests, answer.bytes_read = self._reads.requests, self._reads.bytes
        answer.opening_requests = self._reads.opening_requests
        answer.opening_bytes = self._reads.opening_bytes
        return answer

    def batches(self) -> Iterator[Any]:
        last = self.last
        if (
            last.final is not None
            or last.function is not None
            or not any(map(self._lane_count, last.branches))
        ):
            yield from self.answer().batches
            return
        for stage in self._stages[:-1]:
            self._results[id(stage)] = self.run_stage(stage)
            self._release_inputs(stage)
        yield from self._stage_run(last, streams=True).batches()

    def run_stage(self, stage: Stage) -> list[list[Batch]]:
        run = self._stage_run(stage)
        started = time.monotonic()
        try:
            lanes = self._run_whole(stage, run)
        except BaseException:
            self.cancel_reads()
            run.drop_answers()
            for batches in self._results.values():
                drop_batches(batches)
            raise
        if self.profile is not None:
            self._note(stage, run, time.monotonic() - started)
        if stage.function is not None:
            from querymode.execute.callables import apply

            return apply(stage, stage.given, lanes, self)
        return lanes

    def _run_whole(self, stage: Stage, run: StageRun) -> list[list[Batch]]:
        """Its lanes, and its final plan, which may be a stage of its own."""
        run.run()
        self._answer.lanes_skipped += run.lanes_skipped
        self._answer.groups_pruned += sum(feed.groups_pruned() for feed in run.feeds)
        lanes = [list(lane) for lane in run.answers]
        if not run.is_partitioned and len(run.ranges) < 2:
            return lanes
        if self.profile is not None:
            self.profile.forget_rows(stage.final_nodes)
        if run.is_partitioned:
            return self._run_partitions(stage, lanes)
        return self._run_ranges(stage, run.ranges, lanes)

    def _note(self, stage: Stage, run: StageRun, seconds: float) -> None:
        assert self.profile is not None
        nodes = stage.final_nodes or next((branch.nodes for branch in stage.branches if branch.nodes), ())
        top = nodes[-1] if nodes else stage.branches[0].scan
        if top is not None:
            self.profile.seconds[id(top)] = self.profile.seconds.get(id(top), 0.0) + seconds
        for branch, feed in zip(stage.branches, run.feeds, strict=True):
            if branch.scan is not None and isinstance(feed, FileFeed):
                feed.note_reads(self.profile, branch.scan)

    def _run_partitions(self, stage: Stage, lanes: list[list[Batch]]) -> list[list[Batch]]:
        """The final plan over every partition of the lanes' answers."""
        assert stage.final is not None
        count = stage.partition_count
        parts: list[list[Batch]] = [[] for _ in range(2 * count)]
        for lane in self._divided(stage, lanes):
            for batch in lane:
                parts[batch.partition].append(batch)
        with_states = [number for number in range(count) if parts[number]]
        only_rows = [number for number in range(count) if parts[number + count] and not parts[number]]
        following = Stage()
        following.schema = stage.schema
        branches, feeds = [], []
        if with_states:
            branches.append(_final_branch(stage, stage.final))
            states = [parts[number] for number in with_states]
            if stage.rows_final is None:
                feeds.append(BatchFeed(0, states, consume=True))
            else:
                rows = [parts[number + count] for number in with_states]
                feeds.append(BatchFeed(0, rows, consume=True, states=states))
        if only_rows:
            assert stage.rows_final is not None
            branches.append(_final_branch(stage, stage.rows_final))
            rows = [parts[number + count] for number in only_rows]
            feeds.append(BatchFeed(len(with_states), rows, consume=True))
        following.branches = tuple(branches)
        if stage is self.last:
            self.last = following
        return self._run_over(following, feeds)

    def _run_ranges(
        self, stage: Stage, ranges: Sequence[Range], lanes: list[list[Batch]]
    ) -> list[list[Batch]]:
        """The final plan over every range of keys."""
        from querymode.execute.ranges import range_feeds

        following = Stage()
        following.schema = stage.schema
        branches = []
        for one in ranges:
            branch = Branch(StageOutput(stage, gather=False))
            branch.plan = one.plan
            branch.nodes = stage.final_nodes
            branches.append(branch)
        following.branches = tuple(branches)
        if stage is self.last:
            self.last = following
        return self._run_over(following, range_feeds(ranges, lanes))

    def _run_over(self, stage: Stage, feeds: Sequence[Feed]) -> list[list[Batch]]:
        """A stage over batches, which it gives back as it goes."""
        run = StageRun(self, stage, feeds, self.workers(sum(feed.lane_count for feed in feeds)))
        try:
            run.run()
        except BaseException:
            run.drop_answers()
            raise
        return [list(lane) for lane in run.answers]

    def _divided(self, stage: Stage, lanes: list[list[Batch]]) -> list[list[Batch]]:
        """Batches of one partition each."""
        whole = [[batch for batch in lane if batch.partition == UNDIVIDED] for lane in lanes]
        if not any(whole):
            return lanes
        assert stage.deal is not None
        dealing = Stage()
        branch = Branch(StageOutput(stage, gather=False))
        branch.plan = stage.deal
        dealing.branches = (branch,)
        # A lane each, though it be empty: the answers stay in the lanes' order.
        dealt = self._run_over(dealing, [BatchFeed(0, whole, consume=True)])
        parted = [[batch for batch in lane if batch.partition != UNDIVIDED] for lane in lanes]
        return [[*lane, *answer] for lane, answer in zip(parted, dealt, strict=True)]

    def _stage_run(self, stage: Stage, *, streams: bool = False) -> StageRun:
        lane_counts = list(map(self._lane_count, stage.branches))
        workers = self.worker_count(stage, sum(lane_counts))
        feeds: list[Feed] = []
        first = 0
        bound = self._top_bound(stage)
        for branch in stage.branches:
            feeds.append(self._feed(branch, stage, first, workers, bound))
            first += feeds[-1].lane_count
        self._answer.lane_count = max(self._answer.lane_count, first)
        self._answer.thread_count = max(self._answer.thread_count, workers)
        run = StageRun(self, stage, feeds, workers, streams=streams, bound=bound)
        self.was_alone = self.was_alone and workers == 1 and not any(feed.keeps() for feed in feeds)
        return run

    def _top_bound(self, stage: Stage) -> TopBound | None:
        if stage.top is None or all(branch.top_column is None for branch in stage.branches):
            return None
        from querymode.execute.top_bound import TopBound, is_comparable

        return TopBound(stage.top) if is_comparable(stage.top.data_type) else None

    def _lane_count(self, branch: Branch) -> int:
        """At least one: a table without rows still says its schema, and aggregates have a row of nothing."""
        if isinstance(branch.source, StageOutput):
            return 1 if branch.source.gather else max(1, len(self._results[id(branch.source.stage)]))
        return max(1, branch.source.lane_count)

    def _feed(self, branch: Branch, stage: Stage, first: int, workers: int, bound: TopBound | None) -> Feed:
        source = branch.source
        if isinstance(source, StageOutput):
            lanes = self._results[id(source.stage)]
            consume = self._readers[id(source.stage)] == 1
            if branch.passes_through and not self.exports(stage):
                if not consume:  # the final plan lets go of what it has taken in
                    self.held += sum(batch.size for lane in lanes for batch in lane)
                    lanes = [[batch.twin() for batch in lane] for lane in lanes]
                return ReadyFeed(first, lanes)
            if source.gather:
                lanes = [[batch for lane in lanes for batch in lane]]
            return BatchFeed(first, lanes or [[]], consume=consume)
        if isinstance(source, FileTable):
            scan = self._file_scan(branch, stage, workers)
            return FileFeed(first, branch, scan, self._bounds_of(branch), bound)
        return MemoryFeed(
            first,
            branch,
            self.size,
            workers,
            keep=self._keep,
            one_row_lanes=stage.one_row_lanes,
            makes_runs=stage.merges and stage.top is None,
            bound=bound,
        )

    def exports(self, stage: Stage, *, final: bool = False) -> bool:
        """Whether what the stage's lanes make, or its `final` plan, is the answer, and leaves in a form of
        somebody's own: then even rows that only pass are looked at."""
        is_answer = stage is self.last and stage.function is None and (final or stage.final is None)
        return is_answer and self.export is not None

    # ---- what stages leave ----

    def result(self, stage: Stage) -> list[Batch]:
        """All batches of an earlier stage, in order."""
        return [batch for lane in self._results[id(stage)] for batch in lane]

    def _release_inputs(self, stage: Stage) -> None:
        for before in stage.inputs:
            self._readers[id(before)] -= 1
            if self._readers[id(before)] == 0:
                lanes = self._results.pop(id(before))
                if not self._was_consumed(stage, before):
                    self.held -= sum(batch.size for lane in lanes for batch in lane)

    def _was_consumed(self, stage: Stage, before: Stage) -> bool:
        """Whether its only reader was a feed, which gave every batch back as it went in."""
        feeds = [branch.source for branch in stage.branches if isinstance(branch.source, StageOutput)]
        return stage.inputs.count(before) == 1 and any(source.stage is before for source in feeds)

    # ---- workers ----

    def workers(self, lane_count: int, *, reads: bool = False) -> int:
        """`reads`: they wait for bytes of files, so that more of them than cores may help."""
        most = 1 if self._alone else self.limits.thread_count
        if not reads:
            most = min(most, threads.workers_max())
        return max(1, min(most, lane_count, self.size // WORKER_SIZE_MIN))

    def worker_count(self, stage: Stage, lane_count: int) -> int:
        """Workers that have something to do. Rows that the first lane has anyway are read by one alone."""
        table = stage.branches[0].source
        if (
            isinstance(table, FileTable)
            and len(stage.branches) == 1
            and table.lanes
            and stage.rows_needed is not None
        ):
            is_enough = not stage.branches[0].drops_rows and stage.rows_needed <= table.lane_rows(0)
            if is_enough or self._alone:
                return 1
            return max(1, min(self.limits.thread_count, lane_count))
        reads = any(isinstance(branch.source, FileTable) for branch in stage.branches)
        return self.workers(lane_count, reads=reads)

    # ---- files ----

    def cancel_reads(self) -> None:
        if self._gate is not None:
            self._gate.cancel()

    def _file_scan(self, branch: Branch, stage: Stage, workers: int) -> FileScan:
        from querymode.execute.files import FileScan

        table = branch.source
        assert isinstance(table, FileTable)
        if self._gate is None:
            assert self._reads is not None
            self._gate = self._reads.new_gate()
        self._answer.group_count += len(table.groups)
        scan = FileScan(
            table,
            branch.columns,
            branch.pruning,
            self._gate,
            has_filter=branch.has_filter,
            rows_needed=stage.rows_needed,
            memory=self.size // workers,
            verify_crc=table.verify_crc,
        )
        self._scans.append(scan)
        return scan

    def blamed(self, failure: QueryModeError) -> QueryModeError:
        """What to raise for a failure: bytes of two versions of a file look damaged, but are not."""
        disturbances = [scan.disturbance for scan in self._scans if scan.disturbance is not None]
        if failure.code not in DATA_CODES or not disturbances:
            return failure
        sure = [one for one in disturbances if not isinstance(one, Touched)]
        return (sure or disturbances)[0]

    def _bounds_of(self, branch: Branch) -> Callable[[Instance], list[Expr] | None]:
        from querymode.execute.key_ranges import bounds

        return lambda instance: bounds(instance, branch.key_ranges, self)


def _final_branch(stage: Stage, plan: bytes) -> Branch:
    """Partitions of a stage's answers through its final plan, or that for rows, which is a step shorter."""
    branch = Branch(StageOutput(stage, gather=False))
    branch.plan, branch.builds = plan, stage.final_builds
    branch.nodes = stage.final_nodes if plan is stage.final else stage.final_nodes[1:]
    return branch
