"""Parts of a stage, run wherever they were sent: the unit of work of executors that have several processes.

    run_lanes     some lanes of a stage              → what each leaves
    finish        what all lanes have left           → what the stage leaves, its end being done

Stages travel as pickles, rows as QMCB. A lane leaves the same rows wherever it runs, since lanes are cut from
the snapshot alone; whoever gathers them puts them back into their order.
"""

from __future__ import annotations

from typing import NamedTuple

from querymode.execute.batch import Batch
from querymode.execute.query_run import QueryRun, Reads
from querymode.stage.stage import Merged, Stage, StageOutput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from querymode.execute.limits import Limits

    #: By stage, what each of its lanes left.
    Inputs = Mapping[int, Sequence[Sequence["LaneBatch"]]]


class LaneBatch(NamedTuple):
    """A batch that a lane left, and the partition that it belongs to, if the stage has partitions."""

    lane: int
    partition: int
    row_count: int
    data: bytes


def lane_count(stage: Stage, lanes_of: Mapping[int, int]) -> int:
    """How many lanes a stage has. `lanes_of`: those of the stages before it."""
    total = 0
    for branch in stage.branches:
        source = branch.source
        if isinstance(source, StageOutput):
            total += 1 if source.gather else max(1, lanes_of[source.stage])
        else:
            total += max(1, source.count_lanes(runs=isinstance(stage.end, Merged)))
    return total


def run_lanes(
    stage: Stage,
    first: int,
    count: int,
    inputs: Inputs,
    limits: Limits,
    memory: int,
) -> list[LaneBatch]:
    """Lanes `first` to `first + count` of a stage. `inputs`: what the stages that it reads have left."""
    run = _query_run(stage, inputs, limits, memory)
    return list(_sent(run.run_lanes(stage, range(first, first + count))))


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
