"""Runs one query in this process: its stages one after the other, each on all workers.

What a stage leaves is kept, and counted, until the last stage that reads it is done.
"""

from __future__ import annotations

import time

from querymode._abi import UNDIVIDED
from querymode.engine import threads
from querymode.errors import QueryModeError
from querymode.execute.batch import drop_batches
from querymode.execute.executor import Answer
from querymode.execute.feeds import BatchFeed, FileFeed, MemoryFeed, ReadyFeed
from querymode.execute.kept import table_id
from querymode.execute.stage_run import WORKER_SIZE_MIN, StageRun
from querymode.stage.stage import Branch, Called, Merged, Partitioned, Stage, StageOutput
from querymode.store.source import Touched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from querymode.engine.instance import Instance
    from querymode.execute.batch import Batch, LaneExtent
    from querymode.execute.executor import Export
    from querymode.execute.feeds import Feed
    from querymode.execute.files import FileReads, FileScan
    from querymode.execute.limits import Limits
    from querymode.execute.profile import Profile
    from querymode.execute.ranges import Range
    from querymode.execute.top_bound import TopBound
    from querymode.expr.nodes import Expr
    from querymode.store.fetch import IoGate
    from querymode.table.files import FileTable
    from querymode.table.memory import MemoryTable
    from querymode.table.table import Table
    from querymode.table.text import TextTable


#: What rows may be to blame for.
DATA_CODES = frozenset({"INVALID_FORMAT", "NOT_SUPPORTED", "SCHEMA_MISMATCH", "QUERY_FAILED", "INTERNAL"})


class Reads:
    """What a query has read in all its attempts, and what opening its tables had cost before."""

    def __init__(self, tables: Iterable[Table], limits: Limits) -> None:
        self._limits = limits
        self._gate: IoGate | None = None
        opening = [table.take_opening() for table in tables]
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
        stages: Sequence[Stage],
        limits: Limits,
        size: int,
        deadline: float | None,
        *,
        alone: bool = False,
        keep: bool = True,
        export: Export | None = None,
        reads: Reads | None = None,
        results: dict[int, list[list[Batch]]] | None = None,
    ) -> None:
        #: Whose rows are the answer. Where its final plan becomes a stage of its own, that one.
        self.last = stages[-1]
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
        self._scans: list[FileReads] = []
        #: What stages have left, by their numbers. Some may have been run elsewhere.
        self._results: dict[int, list[list[Batch]]] = dict(results or {})
        self.held += sum(batch.size for lanes in self._results.values() for lane in lanes for batch in lane)
        self._readers: dict[int, int] = {}
        self._answer = Answer()
        self._stages = stages
        #: Its tables in memory, by what instances remember them by.
        self.owners = {
            table_id(branch.table)
            for stage in self._stages
            for branch in stage.branches
            if branch.table is not None and not branch.table.is_stored
        }
        for stage in self._stages:
            for before in stage.inputs:
                self._readers[before] = self._readers.get(before, 0) + 1

    # ---- stages ----

    def answer(self) -> Answer:
        answer = self._answer
        for stage in self._stages:
            self._results[stage.number] = self.run_stage(stage)
            self._release_inputs(stage)
        # Of the last stage as it was planned: its final plan may have become a stage of its own.
        lanes = self._results[self._stages[-1].number]
        answer.batches = [batch.data for lane in lanes for batch in lane]
        answer.is_exported = self.export is not None
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
        if last.end is not None or not any(map(self.lane_count, last.branches)):
            yield from self.answer().batches
            return
        for stage in self._stages[:-1]:
            self._results[stage.number] = self.run_stage(stage)
            self._release_inputs(stage)
        yield from self._stage_run(last, streams=True).batches()

    def run_stage(self, stage: Stage) -> list[list[Batch]]:
        """What its lanes leave, or its end, if it has one."""
        return self._run_to_end(stage, self._stage_run(stage))

    def run_lanes(
        self, stage: Stage, lanes: range, start: int | None
    ) -> tuple[list[list[Batch]], list[LaneExtent]]:
        """What these lanes leave, and where they began; others are run elsewhere, and so is the end."""
        run = self._stage_run(stage)
        run.restrict(lanes, start)
        run.run()
        return [list(lane) for lane in run.answers], [one for feed in run.feeds for one in feed.extents()]

    def finish_stage(self, stage: Stage, lanes: list[list[Batch]]) -> list[list[Batch]]:
        """The end of a stage whose lanes were run elsewhere."""
        return self._run_to_end(stage, StageRun(self, stage, [ReadyFeed(0, lanes)], 1))

    def _run_to_end(self, stage: Stage, run: StageRun) -> list[list[Batch]]:
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
        if isinstance(stage.end, Called):
            from querymode.execute.callables import apply

            return apply(stage.schema, stage.end, lanes, self)
        return lanes

    def _run_whole(self, stage: Stage, run: StageRun) -> list[list[Batch]]:
        """Its lanes, and its final plan, which may be a stage of its own."""
        run.run()
        self._answer.lanes_skipped += run.lanes_skipped
        self._answer.groups_pruned += sum(feed.groups_pruned() for feed in run.feeds)
        lanes = [list(lane) for lane in run.answers]
        if not run.is_partitioned and len(run.ranges) < 2:
            return lanes
        assert stage.final is not None
        if self.profile is not None:
            self.profile.forget_rows(stage.final.nodes)
        if run.is_partitioned:
            assert isinstance(stage.end, Partitioned)
            return self._run_partitions(stage, stage.end, lanes)
        return self._run_ranges(stage, run.ranges, lanes)

    def _note(self, stage: Stage, run: StageRun, seconds: float) -> None:
        assert self.profile is not None
        nodes = () if stage.final is None else stage.final.nodes
        nodes = nodes or next((branch.nodes for branch in stage.branches if branch.nodes), ())
        top = nodes[-1] if nodes else stage.branches[0].scan
        if top is not None:
            self.profile.seconds[top] = self.profile.seconds.get(top, 0.0) + seconds
        for branch, feed in zip(stage.branches, run.feeds, strict=True):
            if branch.scan is not None:
                feed.note_reads(self.profile, branch.scan)

    def _run_partitions(self, stage: Stage, end: Partitioned, lanes: list[list[Batch]]) -> list[list[Batch]]:
        """The final plan over every partition of the lanes' answers."""
        count = end.count
        parts: list[list[Batch]] = [[] for _ in range(2 * count)]
        for lane in self._divided(stage, end, lanes):
            for batch in lane:
                parts[batch.partition].append(batch)
        with_states = [number for number in range(count) if parts[number]]
        only_rows = [number for number in range(count) if parts[number + count] and not parts[number]]
        branches, feeds = [], []
        if with_states:
            branches.append(_final_branch(stage, end, end.plan))
            states = [parts[number] for number in with_states]
            if end.rows_plan is None:
                feeds.append(BatchFeed(0, states, consume=True))
            else:
                rows = [parts[number + count] for number in with_states]
                feeds.append(BatchFeed(0, rows, consume=True, states=states))
        if only_rows:
            assert end.rows_plan is not None
            branches.append(_final_branch(stage, end, end.rows_plan))
            rows = [parts[number + count] for number in only_rows]
            feeds.append(BatchFeed(len(with_states), rows, consume=True))
        return self._run_over(self._following(stage, branches), feeds)

    def _run_ranges(
        self, stage: Stage, ranges: Sequence[Range], lanes: list[list[Batch]]
    ) -> list[list[Batch]]:
        """The final plan over every range of keys."""
        from querymode.execute.ranges import range_feeds

        assert stage.final is not None
        branches = []
        for one in ranges:
            branch = Branch(StageOutput(stage.number, gather=False))
            branch.plan = one.plan
            branch.nodes = stage.final.nodes
            branches.append(branch)
        return self._run_over(self._following(stage, branches), range_feeds(ranges, lanes))

    def _following(self, stage: Stage, branches: Sequence[Branch]) -> Stage:
        """What a stage's final plan becomes where several instances run it."""
        following = Stage(stage.number, stage.schema, branches)
        if stage is self.last:
            self.last = following
        return following

    def _run_over(self, stage: Stage, feeds: Sequence[Feed]) -> list[list[Batch]]:
        """A stage over batches, which it gives back as it goes."""
        run = StageRun(self, stage, feeds, self.workers(sum(feed.lane_count for feed in feeds)))
        try:
            run.run()
        except BaseException:
            run.drop_answers()
            raise
        return [list(lane) for lane in run.answers]

    def _divided(self, stage: Stage, end: Partitioned, lanes: list[list[Batch]]) -> list[list[Batch]]:
        """Batches of one partition each."""
        whole = [[batch for batch in lane if batch.partition == UNDIVIDED] for lane in lanes]
        if not any(whole):
            return lanes
        assert end.deal is not None
        branch = Branch(StageOutput(stage.number, gather=False))
        branch.plan = end.deal
        dealing = Stage(stage.number, stage.schema, (branch,))
        # A lane each, though it be empty: the answers stay in the lanes' order.
        dealt = self._run_over(dealing, [BatchFeed(0, whole, consume=True)])
        parted = [[batch for batch in lane if batch.partition != UNDIVIDED] for lane in lanes]
        return [[*lane, *answer] for lane, answer in zip(parted, dealt, strict=True)]

    def _stage_run(self, stage: Stage, *, streams: bool = False) -> StageRun:
        lane_counts = list(map(self.lane_count, stage.branches))
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

    def lane_count(self, branch: Branch) -> int:
        """At least one: a table without rows still says its schema, and aggregates have a row of nothing."""
        if isinstance(branch.source, StageOutput):
            return 1 if branch.source.gather else max(1, len(self._results[branch.source.stage]))
        return max(1, branch.source.lane_count)

    def _feed(self, branch: Branch, stage: Stage, first: int, workers: int, bound: TopBound | None) -> Feed:
        source = branch.source
        if isinstance(source, StageOutput):
            lanes = self._results[source.stage]
            consume = self._readers[source.stage] == 1
            if branch.passes_through and not self.exports(stage):
                if not consume:  # the final plan lets go of what it has taken in
                    self.held += sum(batch.size for lane in lanes for batch in lane)
                    lanes = [[batch.twin() for batch in lane] for lane in lanes]
                return ReadyFeed(first, lanes)
            if source.gather:
                lanes = [[batch for lane in lanes for batch in lane]]
            return BatchFeed(first, lanes or [[]], consume=consume)
        return _FEEDS[source.kind](self, branch, source, stage, first, workers, bound)

    def _memory_feed(
        self,
        branch: Branch,
        table: MemoryTable,
        stage: Stage,
        first: int,
        workers: int,
        bound: TopBound | None,
    ) -> Feed:
        return MemoryFeed(
            first,
            branch,
            table,
            self.size,
            workers,
            keep=self._keep,
            one_row_lanes=stage.one_row_lanes,
            makes_runs=isinstance(stage.end, Merged),
            bound=bound,
        )

    def _file_feed(
        self,
        branch: Branch,
        table: FileTable,
        stage: Stage,
        first: int,
        workers: int,
        bound: TopBound | None,
    ) -> Feed:
        scan = self._file_scan(branch, table, stage, workers)
        return FileFeed(first, branch, scan, self._bounds_of(branch), bound)

    def exports(self, stage: Stage, *, final: bool = False) -> bool:
        """Whether what the stage's lanes make, or its `final` plan, is the answer, and leaves in a form of
        somebody's own: then even rows that only pass are looked at."""
        is_answer = stage is self.last and not isinstance(stage.end, Called) and (final or stage.end is None)
        return is_answer and self.export is not None

    # ---- what stages leave ----

    def result(self, stage: int) -> list[Batch]:
        """All batches of an earlier stage, in order."""
        return [batch for lane in self._results[stage] for batch in lane]

    def _release_inputs(self, stage: Stage) -> None:
        for before in stage.inputs:
            self._readers[before] -= 1
            if self._readers[before] == 0:
                lanes = self._results.pop(before)
                if not self._was_consumed(stage, before):
                    self.held -= sum(batch.size for lane in lanes for batch in lane)

    def _was_consumed(self, stage: Stage, before: int) -> bool:
        """Whether its only reader was a feed, which gave every batch back as it went in."""
        feeds = [branch.source for branch in stage.branches if isinstance(branch.source, StageOutput)]
        return stage.inputs.count(before) == 1 and any(source.stage == before for source in feeds)

    # ---- workers ----

    def workers(self, lane_count: int, *, reads: bool = False) -> int:
        """`reads`: they wait for bytes of files, so that more of them than cores may help."""
        most = 1 if self._alone else self.limits.thread_count
        if not reads:
            most = min(most, threads.workers_max())
        return max(1, min(most, lane_count, self.size // WORKER_SIZE_MIN))

    def worker_count(self, stage: Stage, lane_count: int) -> int:
        """Workers that have something to do. Rows that the first lane has anyway are read by one alone."""
        table = stage.branches[0].table
        reads = any(branch.table is not None and branch.table.is_stored for branch in stage.branches)
        if (
            table is not None
            and table.is_stored
            and len(stage.branches) == 1
            and table.lane_count
            and stage.rows_needed is not None
        ):
            rows = table.lane_rows(0)
            if rows is None:
                rows = table.rows_expected // table.lane_count
            is_enough = not stage.branches[0].drops_rows and stage.rows_needed <= rows
            if is_enough or self._alone:
                return 1
            return max(1, min(self.limits.thread_count, lane_count))
        return self.workers(lane_count, reads=reads)

    # ---- files ----

    def cancel_reads(self) -> None:
        if self._gate is not None:
            self._gate.cancel()

    def _text_feed(
        self,
        branch: Branch,
        table: TextTable,
        stage: Stage,
        first: int,
        workers: int,
        bound: TopBound | None,
    ) -> Feed:
        from querymode.execute.text import TextFeed, TextReads

        reads = TextReads(
            table,
            branch.columns,
            self._io_gate(),
            rows_needed=stage.rows_needed,
            memory=self.size // workers,
        )
        self._scans.append(reads)
        return TextFeed(first, reads)

    def _io_gate(self) -> IoGate:
        if self._gate is None:
            assert self._reads is not None
            self._gate = self._reads.new_gate()
        return self._gate

    def _file_scan(self, branch: Branch, table: FileTable, stage: Stage, workers: int) -> FileScan:
        from querymode.execute.files import FileScan

        self._answer.group_count += len(table.pieces)
        scan = FileScan(
            table,
            branch.columns,
            branch.pruning,
            self._io_gate(),
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


#: How lanes of a table get into an engine, by the table's kind.
_FEEDS: dict[str, Callable[..., Feed]] = {
    "memory": QueryRun._memory_feed,
    "pieces": QueryRun._file_feed,
    "text": QueryRun._text_feed,
}


def _final_branch(stage: Stage, end: Partitioned, plan: bytes) -> Branch:
    """Partitions of a stage's answers through its final plan, or that for rows, which is a step shorter."""
    branch = Branch(StageOutput(stage.number, gather=False))
    branch.plan, branch.builds = plan, end.builds
    branch.nodes = end.nodes if plan is end.plan else end.nodes[1:]
    return branch
