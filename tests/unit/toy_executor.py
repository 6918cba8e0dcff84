"""An executor of two child processes, which proves that stages, rows and limits are plain data.

Every stage's lanes are split unevenly between the two. All they are sent and send back goes through pickles.
"""

from __future__ import annotations

import multiprocessing
import pickle
from typing import TYPE_CHECKING, Any

from querymode.execute.executor import Answer
from querymode.execute.lanes import Again, LaneBatch, finish, lane_count, lanes_again, part_of, run_lanes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from querymode.execute.batch import LaneExtent
    from querymode.execute.executor import Export
    from querymode.execute.lanes import Inputs
    from querymode.execute.limits import Limits
    from querymode.execute.profile import Profile
    from querymode.stage.stage import Stage, Work

MEMORY = 1 << 30


def run_task(task: bytes) -> bytes:
    """In a child."""
    stage, first, count, start, inputs, limits = pickle.loads(task)
    return pickle.dumps(run_lanes(stage, first, count, inputs, limits, MEMORY, start))


class ToyExecutor:
    def __init__(self) -> None:
        self._children = multiprocessing.get_context("spawn").Pool(2)
        #: Lanes of every stage, by child.
        self.shares: list[tuple[int, int]] = []
        #: Bytes of all that was sent.
        self.task_sizes: list[int] = []
        #: Lanes that had to be run once more.
        self.repeated: list[Again] = []

    def run(
        self, work: Work, limits: Limits, *, export: Export | None = None, profile: Profile | None = None
    ) -> Answer:
        answer = Answer()
        lanes = self._lanes(work, limits)
        answer.batches = [item.data for lane in lanes for item in lane]
        answer.row_count = sum(item.row_count for lane in lanes for item in lane)
        return answer

    def stream(self, work: Work, limits: Limits, *, export: Export | None = None) -> Iterator[Any]:
        for lane in self._lanes(work, limits):
            for item in lane:
                yield item.data

    def _lanes(self, work: Work, limits: Limits) -> list[list[LaneBatch]]:
        done: dict[int, list[list[LaneBatch]]] = {}
        for stage in work.stages:
            inputs = {number: done[number] for number in stage.inputs}
            lanes = self._run_stage(stage, inputs, limits)
            done[stage.number] = finish(stage, lanes, inputs, limits, MEMORY)
        return done[work.last.number]

    def _run_stage(
        self, stage: Stage, inputs: dict[int, list[list[LaneBatch]]], limits: Limits
    ) -> list[list[LaneBatch]]:
        count = lane_count(stage, {number: len(lanes) for number, lanes in inputs.items()})
        cut = count // 3
        self.shares.append((cut, count - cut))
        lanes: list[list[LaneBatch]] = [[] for _ in range(count)]
        extents: dict[int, LaneExtent] = {}

        def run(parts: list[tuple[int, int, int | None]]) -> None:
            tasks = [self._task(stage, *part, inputs, limits) for part in parts]
            for answer in self._children.map(run_task, tasks):
                done = pickle.loads(answer)
                extents.update((extent.lane, extent) for extent in done.extents)
                for item in done.batches:
                    lanes[item.lane].append(item)

        run([(first, size, None) for first, size in ((0, cut), (cut, count - cut)) if size])
        while again := lanes_again(stage, lanes, extents, inputs):
            self.repeated += again
            for lane, _ in again:
                lanes[lane].clear()
            run([(lane, 1, start) for lane, start in again])
        return lanes

    def _task(
        self, stage: Stage, first: int, count: int, start: int | None, inputs: Inputs, limits: Limits
    ) -> bytes:
        part = part_of(stage, range(first, first + count), inputs)
        task = pickle.dumps((part, first, count, start, inputs, limits))
        self.task_sizes.append(len(task))
        return task

    def close(self) -> None:
        self._children.terminate()
        self._children.join()
