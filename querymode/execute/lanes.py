"""Parts of a stage, run wherever they were sent: the unit of work of executors that have several processes.

    part_of       a stage for who runs some of its lanes
    run_lanes     some lanes of a stage              → what each leaves
    lanes_again   where all lanes began and ended    → those that have to be run once more, and from where
    finish        what all lanes have left           → what the stage leaves, its end being done

Stages travel as pickles, rows as QMCB. A lane leaves the same rows wherever it runs, since lanes are cut from
the snapshot alone; whoever gathers them puts them back into their order. A lane of text that begins inside of
a file has guessed where its first row does (execute/text.py): whoever gathers asks `lanes_again`, and runs
what it names, until it names none.
"""

from __future__ import annotations

from copy import copy
from typing import NamedTuple

from querymode.execute.batch import Batch
from querymode.execute.misfit import located
from querymode.execute.query_run import QueryRun, Reads
from querymode.stage.stage import Branch, Merged, Stage, StageOutput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from querymode.execute.batch import LaneExtent
    from querymode.execute.limits import Limits
    from querymode.table.text import TextTable

    #: By stage, what each of its lanes left.
    Inputs = Mapping[int, Sequence[Sequence["LaneBatch"]]]


class LaneBatch(NamedTuple):
    """A batch that a lane left, and the partition that it belongs to, if the stage has partitions."""

    lane: int
    partition: int
    row_count: int
    data: bytes


class LanesDone(NamedTuple):
    """What lanes have left; of lanes of text, where they began and ended."""

    batches: list[LaneBatch]
    extents: list[LaneExtent]


class Again(NamedTuple):
    """A lane that has to be run from there."""

    lane: int
    start: int


def lane_count(stage: Stage, lanes_of: Mapping[int, int]) -> int:
    """How many lanes a stage has. `lanes_of`: those of the stages before it."""
    return sum(_branch_lanes(stage, branch, lanes_of) for branch in stage.branches)


def _branch_lanes(stage: Stage, branch: Branch, lanes_of: Mapping[int, int]) -> int:
    source = branch.source
    if isinstance(source, StageOutput):
        return 1 if source.gather else max(1, lanes_of[source.stage])
    return max(1, source.count_lanes(runs=isinstance(stage.end, Merged)))


def part_of(stage: Stage, lanes: range, inputs: Inputs) -> Stage:
    """The stage for who runs these lanes alone: its tables hold what they read. A task that is sent somewhere
    is sent this, and no whole manifest."""
    lanes_of = {number: len(left) for number, left in inputs.items()}
    part = copy(stage)
    branches = []
    first = 0
    for branch in stage.branches:
        count = _branch_lanes(stage, branch, lanes_of)
        table = branch.table
        if table is not None:
            branch = copy(branch)
            branch.source = table.slice(range(max(0, lanes.start - first), min(count, lanes.stop - first)))
        branches.append(branch)
        first += count
    part.branches = tuple(branches)
    return part


def run_lanes(
    stage: Stage,
    first: int,
    count: int,
    inputs: Inputs,
    limits: Limits,
    memory: int,
    start: int | None = None,
) -> LanesDone:
    """Lanes `first` to `first + count` of a stage. `inputs`: what the stages that it reads have left.
    `start`: where the first of them begins, if `lanes_again` has said so."""
    run = _query_run(stage, inputs, limits, memory)
    lanes, extents = run.run_lanes(stage, range(first, first + count), start)
    return LanesDone(list(_sent(lanes)), extents)


def lanes_again(
    stage: Stage,
    lanes: Sequence[Sequence[LaneBatch]],
    extents: Mapping[int, LaneExtent],
    inputs: Inputs,
) -> list[Again]:
    """Lanes whose rows are not right, or were not read though they are wanted: at most one of every file,
    since the next one's start is known only when that one has been read. What they have left before is to be
    thrown away. `extents`: by lane, the last of each. A failure that is nobody's wrong guess is raised."""
    lanes_of = {number: len(left) for number, left in inputs.items()}
    guessing = _guessing(stage, lanes_of)
    again: list[Again] = []
    end: int | None = None  # of the lane before, if it is settled
    row_count = 0
    rows_before = 0  # of the lane's file
    for lane, batches in enumerate(lanes):
        if stage.rows_needed is not None and row_count >= stage.rows_needed:
            break  # what is behind those rows may be wrong, or missing
        extent = extents.get(lane)
        if lane not in guessing:
            rows_before = 0
        else:
            if end is None:
                continue
            if extent is None or extent.start != end:
                again.append(Again(lane, end))
                end = None
                continue
        if extent is not None and extent.failure is not None and not again:
            raise located(_table_of(stage, lane, lanes_of), extent.failure, rows_before)
        end = None if extent is None else extent.end
        rows_before += 0 if extent is None else extent.row_count
        row_count += sum(batch.row_count for batch in batches)
    return again


def _guessing(stage: Stage, lanes_of: Mapping[int, int]) -> set[int]:
    """Lanes that cannot be sure where they begin."""
    found = set()
    first = 0
    for branch in stage.branches:
        count = _branch_lanes(stage, branch, lanes_of)
        if branch.table is not None:
            found |= {first + lane for lane in range(count) if branch.table.guesses_start(lane)}
        first += count
    return found


def _table_of(stage: Stage, lane: int, lanes_of: Mapping[int, int]) -> TextTable:
    """What a lane of text is a part of."""
    for branch in stage.branches:
        count = _branch_lanes(stage, branch, lanes_of)
        if lane < count:
            return branch.table  # type: ignore[return-value]
        lane -= count
    raise AssertionError(lane)


def finish(
    stage: Stage,
    lanes: Sequence[Sequence[LaneBatch]],
    inputs: Inputs,
    limits: Limits,
    memory: int,
) -> list[list[LaneBatch]]:
    """What a stage leaves, when all of its lanes are done."""
    if stage.end is None:
        return [list(lane) for lane in lanes]
    ready = Stage(stage.number, stage.schema, stage.branches[:1], stage.end)
    run = _query_run(ready, inputs, limits, memory)
    answers = run.finish_stage(ready, [[_batch(item) for item in lane] for lane in lanes])
    return [list(_sent([lane])) for lane in answers]


def _query_run(stage: Stage, inputs: Inputs, limits: Limits, memory: int) -> QueryRun:
    results = {
        number: [[_batch(item) for item in lane] for lane in lanes]
        for number, lanes in inputs.items()
        if number in stage.inputs
    }
    reads = Reads([branch.table for branch in stage.branches if branch.table is not None], limits)
    return QueryRun([stage], limits, memory, limits.deadline, reads=reads, results=results)


def _batch(item: LaneBatch) -> Batch:
    return Batch(item.data, len(item.data), item.row_count, item.partition)


def _sent(lanes: Iterable[Iterable[Batch]]) -> Iterable[LaneBatch]:
    for number, lane in enumerate(lanes):
        for batch in lane:
            yield LaneBatch(number, batch.partition, batch.row_count, batch.data)
