"""The executor of this process: a query's stages on worker threads, within the memory that it may have.

What was too little memory is tried once more with all there is, and then by one worker alone.
"""

from __future__ import annotations

import time
from contextlib import closing

from querymode.engine import threads
from querymode.engine.address_space import give_back_free_memory
from querymode.engine.pool import pool
from querymode.errors import MemoryExceededError, QueryModeError
from querymode.execute.kept import kept_count, table_id
from querymode.execute.query_run import QueryRun, Reads
from querymode.execute.stage_run import MIB, WORKER_SIZE_MIN
from querymode.stage.stage import Merged
from querymode.store.source import Touched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from typing import Any

    from querymode.execute.budget import Budget
    from querymode.execute.executor import Answer, Export
    from querymode.execute.limits import Limits
    from querymode.execute.profile import Profile
    from querymode.stage.stage import Stage, Work
    from querymode.table.table import Table

#: What an instance needs for row groups: their pages are decoded one after the other, beside the answer.
FILE_WORKER_SIZE = 512 * MIB
#: What a column of a few rows takes in an instance: text has bits, offsets and bytes, and each lies in blocks
#: of 4 KiB of its own.
COLUMN_SIZE = 16 << 10
#: A query that is asked again may need a little more than before: one of so many parts.
NEED_MARGIN = 8


class LocalExecutor:
    """Runs queries on threads. All of them share a budget, which is their session's."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    def run(
        self, work: Work, limits: Limits, *, export: Export | None = None, profile: Profile | None = None
    ) -> Answer:
        started = time.monotonic()
        reads = Reads(_tables(work), limits)
        try:
            answer = self._run(work, limits, reads, export, profile)
        except Touched:  # a file, by somebody who may have changed nothing in it: now it is as it is
            if profile is not None:
                profile.forget()
            answer = self._run(work, limits, reads, export, profile)
        answer.seconds = time.monotonic() - started
        return answer

    def _run(
        self, work: Work, limits: Limits, reads: Reads, export: Export | None, profile: Profile | None
    ) -> Answer:
        """With as much memory as it takes."""
        deadline = limits.deadline
        most = limits.memory_of(self._budget.total)
        expected = _expected_size(work, most, limits.thread_count)
        answer: Answer | None = None
        for size, alone in _attempts(expected, most):
            attempt: QueryRun | None = None
            try:
                with self._budget.reserve(size, deadline) as reservation:
                    if size > expected or alone:
                        _make_room()
                    attempt = QueryRun(
                        work.stages,
                        limits,
                        reservation.size,
                        deadline,
                        alone=alone,
                        export=export,
                        reads=reads,
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
                work.memory_needed = attempt.peak + attempt.peak // NEED_MARGIN
            break
        assert answer is not None
        return answer

    def stream(self, work: Work, limits: Limits, *, export: Export | None = None) -> Iterator[Any]:
        """The batches of the answer, in order, while the query still runs.

        What waits to be taken stays within the budget: workers that are ahead of the reader wait for it.
        Where rows are sorted or aggregated, the answer exists only as a whole, and is then handed out. A file
        that was touched meanwhile is read again only as long as nobody has seen a row of it.
        """
        reads = Reads(_tables(work), limits)
        for is_last in (False, True):
            handed_out = False
            try:
                # Closed at once when the reader wants no more: it holds the query's memory.
                with closing(self._batches(work, limits, reads, export)) as batches:
                    for batch in batches:
                        handed_out = True
                        yield batch
                return
            except Touched:
                if is_last or handed_out:
                    raise

    def _batches(
        self, work: Work, limits: Limits, reads: Reads, export: Export | None
    ) -> Generator[Any, None, None]:
        """With as much memory as it takes, as long as nothing has been handed out."""
        deadline = limits.deadline
        most = limits.memory_of(self._budget.total)
        expected = _expected_size(work, most, limits.thread_count)
        for size, alone in _attempts(expected, most):
            attempt: QueryRun | None = None
            has_begun = False
            try:
                with self._budget.reserve(size, deadline) as reservation:
                    if size > expected or alone:
                        _make_room()
                    attempt = QueryRun(
                        work.stages,
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
                work.memory_needed = attempt.peak + attempt.peak // NEED_MARGIN
            return


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


def _make_room() -> None:
    """Before an attempt that needs all there is."""
    pool().trim(0)
    give_back_free_memory()


def _is_final(attempt: QueryRun | None, size: int, alone: bool, most: int) -> bool:
    """Whether another attempt would have no more memory than this one."""
    return attempt is None or alone or (size >= most and attempt.was_alone)


def _expected_size(work: Work, limit: int, thread_count: int) -> int:
    """A guess of what a query holds at once. Small tables need little, so that many run side by side."""
    wanted = 8 * MIB
    tables: dict[int, int] = {}
    computing = min(thread_count, threads.workers_max())
    stages = work.stages
    if len(stages) > 1 and any(table.is_stored for table in _tables(work)):
        # What stages leave for each other is beside what their workers hold.
        wanted = limit // 2
    for stage in stages:
        for branch in stage.branches:
            table = branch.table
            if table is None:
                continue
            if table.is_stored:
                wanted = max(wanted, min(thread_count, table.lane_count) * FILE_WORKER_SIZE)
            else:
                size = table.memory_size(branch.columns)
                workers = min(computing, table.lane_count) * WORKER_SIZE_MIN
                # The columns, their copies in an answer or a sort, and what workers hold of groups and rows
                # before they hand them on, which does not shrink with the table.
                # A merge has the runs, its ranges of them and the answer at once.
                wanted += (6 if isinstance(stage.end, Merged) else 4) * size + min(4 * size, workers)
                wanted += len(branch.columns) * min(computing, table.lane_count) * COLUMN_SIZE
                tables[table_id(table)] = tables.get(table_id(table), 0) + size
                if size > MIB:
                    wanted = max(wanted, workers)
    wanted = max(wanted, work.memory_needed)
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


def worker_size(work: Work, stage: Stage, total: int, limits: Limits) -> int:
    """What a worker of a stage may hold, as long as nothing fails."""
    size = _expected_size(work, limits.memory_of(total), limits.thread_count)
    lanes = [branch.table.lane_count for branch in stage.branches if branch.table is not None]
    return size // QueryRun(work.stages, limits, size, None).worker_count(stage, max(1, sum(lanes)))


def _tables(work: Work) -> list[Table]:
    branches = [branch for stage in work.stages for branch in stage.branches]
    return [branch.table for branch in branches if branch.table is not None]
