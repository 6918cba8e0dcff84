"""Merges sorted runs on all workers: each merges the rows between two keys, from all runs.

    lanes → runs, some rows of each → bounds → ranges of keys → workers: merge → one behind the other

Bounds are values of the keys, and every run is cut before the rows that are equal to one: rows of equal keys
are in one range, and come in the order of their runs there as in a merge of everything. A run lies here in
batches of about a megabyte; a worker takes in those that may have rows of its range, and the engine finds
the rows among them. Which may is known from the sampled rows, which the engine judges as it will the others.
"""

from __future__ import annotations

import itertools
import threading
from array import array
from collections import deque

from querymode._abi import OutputState, TypeTag
from querymode.engine.one_task import outputs
from querymode.execute.batch import Batch
from querymode.execute.feeds import Feed, InputBlock, push_batches
from querymode.qmcb import ColumnarBatch, ColumnarColumn, encode_columnar_batch, view_own_batch
from querymode.types import INT64, encode_type, value_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from querymode.engine.instance import Instance
    from querymode.execute.feeds import Sink
    from querymode.plan.merge_steps import Bound, MergeSteps
    from querymode.types import DataType

#: Fewer rows are merged by one worker: to find ranges takes it as long as half a million rows or so.
MERGED_ROWS_MIN = 1 << 20
#: Rows that are looked at to find out where ranges lie.
SAMPLE_COUNT = 2048
#: Size of a run's batches.
RUN_BATCH_SIZE = 1 << 20
#: Where memory is not so many times what the runs take, ranges are that many times as many: a worker holds
#: its range beside the runs and the answer. A range more costs as many batches as there are runs.
ROOM_PART = 4


class Range:
    """What lies between two bounds: its plan, and for each run which rows may be in it."""

    __slots__ = ("plan", "rows")

    def __init__(self, plan: bytes, rows: list[range]) -> None:
        self.plan = plan
        self.rows = rows


def find_ranges(
    instance: Instance, steps: MergeSteps, runs: Sequence[Sequence[Batch]], range_count: int, sink: Sink
) -> list[Range]:
    """Ranges of about as many rows each; fewer where keys are few."""
    row_counts = [sum(batch.row_count for batch in run) for run in runs]
    step = -(-sum(row_counts) // SAMPLE_COUNT)
    samples = [sample_run(batches, steps, run, step) for run, batches in enumerate(runs)]
    inner = _find_bounds(instance, steps, samples, range_count, sink)
    bounds = [None, *inner, None]
    before = [0] * len(runs)  # samples of every run that lie before the range
    ranges: list[Range] = []
    for lower, upper in itertools.pairwise(bounds):
        after = list(before)
        for answer in _answer(instance, steps.samples_between(lower, upper), samples, sink):
            for place in view_own_batch(answer).columns[-1].data:
                after[place] += 1
        rows = [
            # From the last sample before the bounds up to the first one behind them.
            range(max(0, (first - 1) * step), row_count if upper is None else min(row_count, last * step))
            for first, last, row_count in zip(before, after, row_counts, strict=True)
        ]
        ranges.append(Range(steps.plan(lower, upper), rows))
        before = after
    return ranges


def _find_bounds(
    instance: Instance, steps: MergeSteps, samples: Sequence[bytes], range_count: int, sink: Sink
) -> list[Bound]:
    """Keys of samples that divide all of them evenly, in order."""
    found: list[Bound] = []
    batches = [view_own_batch(data) for data in _answer(instance, steps.sorted_samples(), samples, sink)]
    count = sum(batch.row_count for batch in batches)
    wanted = deque(count * i // range_count for i in range(1, range_count))
    start = 0
    for batch in batches:
        while wanted and wanted[0] < start + batch.row_count:
            row = wanted.popleft() - start
            bound = tuple(
                _bound_value(column, row, key)
                for column, key in zip(batch.columns, steps.key_types, strict=False)
            )
            if found[-1:] != [bound]:  # a key that makes up several ranges has one
                found.append(bound)
        start += batch.row_count
    return found


def _answer(instance: Instance, plan: bytes, samples: Sequence[bytes], sink: Sink) -> list[bytes]:
    query = instance.query_open(plan)
    block = InputBlock(instance)
    found: list[bytes] = []
    for run, data in enumerate(samples):
        output, _ = push_batches(block, query, deque([Batch(data, len(data), 0)]), sink, run)
        found += outputs(instance, query, output)
    block.free()
    found += outputs(instance, query, instance.query_finish(query))
    instance.query_close(query)
    return found


# ---- samples ----


def sample_run(batches: Sequence[Batch], steps: MergeSteps, run: int, step: int) -> bytes:
    """One row of so many of a run: its keys, and the number of the run."""
    views = [view_own_batch(batch.data) for batch in batches]
    rows = []
    start = 0
    for view in views:
        rows.append(range(-start % step, view.row_count, step))
        start += view.row_count
    count = sum(map(len, rows))
    columns = [
        _sample_column(f"key {i}", key, [view.columns[column] for view in views], rows)
        for i, (column, key) in enumerate(zip(steps.key_columns, steps.key_types, strict=True))
    ]
    places = run.to_bytes(8, "little") * count
    columns.append(ColumnarColumn("place", TypeTag.I64, places, count, data_type=INT64))
    return encode_columnar_batch(ColumnarBatch(columns, count))


def _sample_column(
    name: str, data_type: DataType, columns: Sequence[ColumnarColumn], rows: Sequence[range]
) -> ColumnarColumn:
    count = sum(map(len, rows))
    parts = list(zip(columns, rows, strict=True))
    nulls: bytes | None = None
    if any(column.null_bitmap is not None for column in columns):
        nulls = _packed([_bit(column.null_bitmap, row) for column, some in parts for row in some])
    offsets: array[int] | None = None
    if data_type.tag == TypeTag.BOOL:
        data = _packed([_bit(column.data, row) for column, some in parts for row in some])
    elif data_type.tag == TypeTag.NULL:
        data = b""
    else:
        values = [value for column, some in parts for value in _raw_values(column, some)]
        data = b"".join(values)
        if data_type.tag in (TypeTag.UTF8, TypeTag.BINARY):
            offsets = array("I", itertools.accumulate(map(len, values), initial=0))
    return ColumnarColumn(name, data_type.tag, data, count, offsets, null_bitmap=nulls, data_type=data_type)


def _raw_values(column: ColumnarColumn, rows: Sequence[int]) -> list[bytes]:
    data, offsets = memoryview(column.data).cast("B"), column.offsets
    if offsets is not None:
        return [bytes(data[offsets[row] : offsets[row + 1]]) for row in rows]
    size = value_size(column.data_type)
    return [bytes(data[row * size : (row + 1) * size]) for row in rows]


def _bound_value(column: ColumnarColumn, row: int, data_type: DataType) -> bytes:
    """A value of a batch as plans have it."""
    head = encode_type(data_type)
    if data_type.tag == TypeTag.NULL or _bit(column.null_bitmap, row):
        return head + b"\x01"
    if data_type.tag == TypeTag.BOOL:
        return head + bytes((0, _bit(column.data, row)))
    (value,) = _raw_values(column, (row,))
    size = b"" if column.offsets is None else len(value).to_bytes(4, "little")
    return head + b"\x00" + size + value


def _bit(bits: memoryview | None, row: int) -> bool:
    return bits is not None and bool(bits[row // 8] >> row % 8 & 1)


def _packed(bits: Sequence[bool]) -> bytes:
    found = bytearray((len(bits) + 7) // 8)
    for place, bit in enumerate(bits):
        found[place // 8] |= bit << place % 8
    return bytes(found)


# ---- merging ----


class _Held:
    """A batch of a run that several ranges may need; it is given back when the last one has it."""

    __slots__ = ("batch", "readers")

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.readers = 0


class RangeFeed(Feed):
    """One range: the batches of every run that may have rows of it."""

    def __init__(self, first: int, runs: Sequence[Sequence[_Held]], lock: threading.Lock) -> None:
        super().__init__(first, 1)
        self._runs = runs
        self._lock = lock

    def run_lanes(self, instance: Instance, query: int, sink: Sink) -> None:
        lane = sink.next_lane(instance, self)
        if lane is None:
            return
        block = InputBlock(instance)
        for run, held in enumerate(self._runs):
            batches = deque(one.batch for one in held)
            position = 0
            while batches:
                output, taken = push_batches(block, query, batches, sink, run)
                assert output.state != OutputState.DONE
                sink.let_go(self._read(held[position : position + len(taken)]))
                position += len(taken)
        block.free()
        sink.allow(instance)
        sink.take_output(instance, query, instance.query_finish(query), lane)
        sink.lane_finished(lane)

    def _read(self, held: Sequence[_Held]) -> list[Batch]:
        """Which of them no other range needs."""
        with self._lock:
            for one in held:
                one.readers -= 1
            return [one.batch for one in held if one.readers == 0]


def range_feeds(ranges: Sequence[Range], runs: Sequence[Sequence[Batch]]) -> list[RangeFeed]:
    """A feed for each range. Every row is in one; a batch without rows goes with the first."""
    lock = threading.Lock()
    all_held = [[_Held(batch) for batch in run] for run in runs]
    feeds = []
    for number, one in enumerate(ranges):
        chosen: list[list[_Held]] = []
        for run, held, rows in zip(runs, all_held, one.rows, strict=True):
            wanted = []
            start = 0
            for batch, holder in zip(run, held, strict=True):
                end = start + batch.row_count
                if (start < rows.stop and rows.start < end) or (not batch.row_count and not number):
                    holder.readers += 1
                    wanted.append(holder)
                start = end
            chosen.append(wanted)
        feeds.append(RangeFeed(number, chosen, lock))
    return feeds
