"""How the lanes of a branch get into an engine instance: from tables in memory, from files, from batches.

A feed hands its lanes to whoever asks, and what the engine makes of them to `Sink`, which is the stage's run.
Lanes are numbered through all feeds of a stage; `first` is the number of a feed's first one.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress

from querymode._abi import OutputState, SourceKind
from querymode.execute.kept import forget_dead_tables, keeps, kept_columns, kept_count, table_id
from querymode.plan.prune import rewrite

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Protocol

    from querymode.engine.instance import Instance, Output
    from querymode.execute.batch import Batch, LaneExtent
    from querymode.execute.files import FileScan
    from querymode.execute.profile import Profile
    from querymode.execute.top_bound import Rank, TopBound
    from querymode.expr.nodes import Expr
    from querymode.stage.stage import Branch
    from querymode.table.memory import MemoryTable

    class Sink(Protocol):
        """What a feed needs of the run that it is part of."""

        #: Whether what a lane leaves is taken away before the lane is finished; whether all is over.
        streams: bool
        stopped: bool

        def allow(self, instance: Instance) -> None: ...
        def next_lane(self, instance: Instance, feed: Feed) -> int | None: ...
        def take_output(self, instance: Instance, query: int, output: Output, lane: int) -> None: ...
        def take_list(self, instance: Instance, output: Output, lanes: Sequence[int]) -> None: ...
        def lane_finished(self, lane: int) -> None: ...
        def lane_skipped(self, lane: int) -> None: ...
        def lane_provisional(self, lane: int) -> None: ...
        def lane_settled(self, lane: int) -> None: ...
        def lane_refuted(self, lane: int) -> None: ...
        def forget_lane(self, lane: int) -> None: ...
        def reopen(self, instance: Instance, query: int, feed: Feed) -> int: ...
        def count_pages(self, count: int) -> None: ...
        def let_go(self, batches: Iterable[Batch]) -> None: ...


#: Tables larger than this part of the memory are streamed through, not kept.
RESIDENT_PART = 4
#: How often a table's columns are kept at most, by all workers of a query together.
COPIES = 2
#: Lanes that another worker keeps are taken if it has so many left: a copy takes as long as several.
COPIED_LANES_MIN = 8
#: Of a worker's lanes, by how much more another one may keep.
UNEVEN_PART = 8
#: Kept lanes of one row each that are asked by one call.
LANES_TOGETHER = 16
#: Batches are pushed together up to this size, …
PUSH_SIZE_MAX = 4 << 20
#: … and up to this one by way of an instance's scratch block, without an allocation.
SCRATCH_SIZE_MAX = 32 << 10


class Refuted(Exception):
    """The lane that is being read began at the wrong place."""


class InputBlock:
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


class Feed:
    """Lanes, and who gets which: those that an instance keeps go to it first."""

    def __init__(self, first: int, lane_count: int) -> None:
        self.first = first
        self.lane_count = lane_count
        #: Lanes that no instance keeps, and those that one does.
        self.lanes: deque[int] = deque(range(first, first + lane_count))
        self.kept: dict[Instance, deque[int]] = {}
        #: Lanes stand in an order: whoever takes one, takes the first.
        self.is_best_first = False

    def restrict(self, lanes: range, start: int | None) -> None:
        """Before workers start: only these lanes are run here, others elsewhere. `start`: where the first of
        them begins, if it is one that would have to guess."""
        self.lanes = deque(lane for lane in self.lanes if lane in lanes)

    def extents(self) -> list[LaneExtent]:
        """Of lanes that cannot be sure where they begin: where they did."""
        return []

    def kept_count(self, instance: Instance) -> int:
        """How much of its lanes an idle instance has already."""
        return 0

    def assign(self, instances: Sequence[Instance]) -> None:
        """Before workers start: lanes that these instances keep are put aside for them."""

    def prepare(self, instance: Instance, sink: Sink) -> bool:
        """In the first worker, before others start. Whether lanes may have become fewer."""
        return False

    def take(self, instance: Instance) -> int | None:
        """A lane whose columns this instance keeps, else one that nobody keeps, else a busy one's last."""
        own = self.kept.get(instance)
        if own:
            return own.popleft()
        if self.lanes:
            return self.lanes.popleft()
        longest = max(self.kept.values(), key=len, default=None)
        return None if longest is None or len(longest) < 2 else self.take_from(longest, instance)

    def take_from(self, others: deque[int], instance: Instance) -> int | None:
        """One of the lanes that are put aside for somebody else."""
        try:
            return others.popleft() if self.is_best_first else others.pop()
        except IndexError:  # their owner, who takes several at a time, was faster
            return None

    def run(self, instance: Instance, query: int, sink: Sink) -> int:
        """Lanes while there are any. The query that is open then: one that failed may have been replaced."""
        self.run_lanes(instance, query, sink)
        return query

    def run_lanes(self, instance: Instance, query: int, sink: Sink) -> None:
        """Lanes while there are any, where a failure ends it all."""
        raise NotImplementedError

    def close(self, *, clean: bool) -> None:
        """After the last worker has left."""

    def may_shrink(self) -> bool:
        """Whether `prepare` may leave fewer lanes than there seem to be."""
        return False

    def keeps(self) -> bool:
        """Whether columns stay in the instances."""
        return False

    def groups_pruned(self) -> int:
        return 0

    def note_reads(self, profile: Profile, scan: int) -> None:
        """What it has read, for explain."""

    def ready(self) -> Sequence[Sequence[Batch]]:
        """Answers of lanes that nobody needs to run."""
        return ()


class ReadyFeed(Feed):
    """Batches of an earlier stage that go to the final plan as they are."""

    def __init__(self, first: int, lanes: Sequence[Sequence[Batch]]) -> None:
        super().__init__(first, len(lanes))
        self.lanes.clear()
        self._ready = lanes

    def ready(self) -> Sequence[Sequence[Batch]]:
        return self._ready


class MemoryFeed(Feed):
    """A table in memory. Where it is small beside the memory, its columns stay in the instances."""

    def __init__(
        self,
        first: int,
        branch: Branch,
        table: MemoryTable,
        size: int,
        workers: int,
        *,
        keep: bool,
        one_row_lanes: bool,
        makes_runs: bool,
        bound: TopBound | None = None,
    ) -> None:
        self._lanes = table.run_lanes if makes_runs else table.lanes
        # A table without rows has a lane too: it says the schema, and aggregates have a row of nothing.
        super().__init__(first, max(1, len(self._lanes)))
        self._table = table
        self._columns = branch.columns
        self._id = table_id(table)
        self._keep = keep and table.memory_size(self._columns) * RESIDENT_PART <= size
        #: Up to here an instance also keeps copies of what another one keeps, so that work can move.
        self._morsels_kept_max = -(-COPIES * len(table.morsels) // workers)
        self._borrowed: set[int] = set()
        #: What a top-k knows: morsels behind it are not pushed.
        self._bound = bound if branch.top_column is not None else None
        self._top_column = branch.top_column
        #: Lanes that give one small row each share a call: it would cost more than what it returns.
        self._together = LANES_TOGETHER if self._keep and self._columns and one_row_lanes else 1

    def kept_count(self, instance: Instance) -> int:
        return kept_count(instance, self._id)

    def keeps(self) -> bool:
        return self._keep

    def _morsels(self, lane: int) -> range:
        return self._lanes[lane - self.first] if self._lanes else range(0)

    def assign(self, instances: Sequence[Instance]) -> None:
        if not self._lanes:
            return
        self.kept = {instance: deque() for instance in instances}
        wanted = list(self.lanes)
        self.lanes.clear()
        for lane in wanted:
            key = (self._id, self._morsels(lane).start)
            keepers = [self.kept[instance] for instance in instances if key in instance.resident]
            (min(keepers, key=len) if keepers else self.lanes).append(lane)
        self._balance()
        if self._bound is not None and self._table.zones:
            self.is_best_first = True
            for lanes in (self.lanes, *self.kept.values()):
                best = self._bound.best_first(lanes, self._rank)
                lanes.clear()
                lanes.extend(best)

    def _balance(self) -> None:
        """Evens out who keeps what, at once: otherwise lanes move one by one, while somebody waits for them,
        and only after ten queries or so does each instance have its half."""
        if len(self.kept) < 2 or self.lanes:
            return
        share = sum(map(len, self.kept.values())) // len(self.kept)
        while True:
            most, least = max(self.kept.values(), key=len), min(self.kept.values(), key=len)
            if len(most) - len(least) < 2 + share // UNEVEN_PART:
                return
            lane = most.pop()
            least.append(lane)
            self._borrowed.add(lane)

    def _rank(self, lane: int) -> Rank | None:
        """The first place in a top-k's order that a row of the lane may have."""
        assert self._bound is not None
        return self._bound.best_of([self._morsel_rank(index) for index in self._morsels(lane)])

    def _morsel_rank(self, index: int) -> Rank | None:
        assert self._bound is not None and self._top_column is not None
        return self._bound.best(self._table.zones.get((self._top_column, index)))

    def take_from(self, others: deque[int], instance: Instance) -> int | None:
        """What this instance keeps as well, else a lane that is worth copying."""
        for lane in tuple(others if self.is_best_first else reversed(others)):
            if all(keeps(instance, self._id, index, self._columns) for index in self._morsels(lane)):
                with suppress(ValueError):  # its owner was faster
                    others.remove(lane)
                    return lane
        taken = super().take_from(others, instance) if len(others) >= COPIED_LANES_MIN else None
        if taken is not None:
            self._borrowed.add(taken)
        return taken

    def _stays(self, instance: Instance, lane: int) -> bool:
        """Whether the lane's columns stay in the instance. Not where another one keeps them and this one has
        copies enough: with many workers each would come to keep all of the table."""
        if not (self._keep and self._columns):
            return False
        if lane not in self._borrowed:
            return True
        morsels = self._morsels(lane)
        if all(keeps(instance, self._id, index, self._columns) for index in morsels):
            return True
        kept = [
            index
            for index in range(len(self._table.morsels))
            if keeps(instance, self._id, index, self._columns)
        ]
        return len(kept) + len(morsels) <= self._morsels_kept_max

    def run_lanes(self, instance: Instance, query: int, sink: Sink) -> None:
        if (self._id, -1) not in instance.resident:
            forget_dead_tables(instance)
        block = InputBlock(instance)
        zones = None if self._top_column is None else _Zones(block, self._table, self._top_column)
        while (lane := sink.next_lane(instance, self)) is not None:
            if self._bound is not None and self._bound.rules_out(self._rank(lane)):
                sink.lane_skipped(lane)
                continue
            stays = self._stays(instance, lane)
            if self._together > 1 and stays:
                self._run_together(instance, query, sink, lane)
            else:
                self._run_lane(block, query, sink, lane, zones, stays=stays)
        if zones is not None:
            zones.close()
        block.free()

    def _run_lane(
        self, block: InputBlock, query: int, sink: Sink, lane: int, zones: _Zones | None, *, stays: bool
    ) -> None:
        instance = block.instance
        for index in self._morsels(lane):
            if self._bound is not None and self._bound.rules_out(self._morsel_rank(index)):
                continue
            sink.allow(instance)
            output = push_morsel(block, query, self._table, index, self._columns, self._id if stays else None)
            sink.take_output(instance, query, output, lane)
            if zones is not None:
                zones.find_out(self._id if stays else None, index)
            if output.state == OutputState.DONE:
                break
        sink.take_output(instance, query, instance.query_finish(query), lane)
        sink.lane_finished(lane)

    def _run_together(self, instance: Instance, query: int, sink: Sink, lane: int) -> None:
        sink.allow(instance)
        lanes = [lane, *self._more_kept(instance, self._together - 1)]
        wire: list[bytes] = []
        for one in lanes:
            morsels = self._morsels(one)
            wire.append(len(morsels).to_bytes(4, "little"))
            for index in morsels:
                references = kept_columns(instance, self._id, self._table, index, self._columns)
                wire += (len(self._columns).to_bytes(4, "little"), references)
        output = instance.query_push(query, SourceKind.LANES, data=b"".join(wire))
        sink.take_list(instance, output, lanes)

    def _more_kept(self, instance: Instance, count: int) -> list[int]:
        """Half of what this instance keeps, if others could help with the rest."""
        own = self.kept.get(instance)
        if own is None:
            return []
        found: list[int] = []
        available = len(own) if len(self.kept) == 1 else len(own) // 2
        while own and len(found) < min(count, available):
            try:
                found.append(own.popleft())
            except IndexError:  # another worker was faster
                break
        return found


class _Zones:
    """Finds out the least and greatest value of a column, morsel by morsel, and notes it with the table."""

    def __init__(self, block: InputBlock, table: MemoryTable, column: int) -> None:
        self._block = block
        self._table = table
        self._column = column
        self._query = 0

    def find_out(self, owner: int | None, index: int) -> None:
        """`owner`: the instance keeps the column anyway, as this table's."""
        from querymode.execute.top_bound import read_zone, zone_plan

        key = (self._column, index)
        if key in self._table.zones:
            return
        instance = self._block.instance
        if not self._query:
            self._query = instance.query_open(zone_plan(self._table.schema.field(self._column)[1]))
        push_morsel(self._block, self._query, self._table, index, (self._column,), owner)
        output = instance.query_finish(self._query)
        answer = instance.read(output.address, output.size)
        self._table.zones[key] = read_zone(answer, self._table.morsels[index].row_count)

    def close(self) -> None:
        if self._query:
            self._block.instance.query_close(self._query)


def push_morsel(
    block: InputBlock, query: int, table: MemoryTable, index: int, columns: Sequence[int], owner: int | None
) -> Output:
    """`owner`: they stay in the instance, under this number of the table."""
    instance = block.instance
    if owner is not None:
        references = kept_columns(instance, owner, table, index, columns)
        return instance.query_push(query, SourceKind.COLUMNS, data=references)
    layout = table.morsels[index].layout(columns)
    # What comes out is the engine's own copy, so the next morsel may take the same place.
    address = block.place(layout.size) if layout.buffers else 0
    for place, buffer in layout.buffers:
        instance.write(address + place, buffer)
    return instance.query_push(query, SourceKind.DESCRIPTOR, data=layout.descriptors(address))


class BatchFeed(Feed):
    """Batches that an earlier stage left: a list for every lane.

    `states`: batches that enter behind the plan's first step, before the others.
    """

    def __init__(
        self,
        first: int,
        lanes: Sequence[Sequence[Batch]],
        *,
        consume: bool,
        states: Sequence[Sequence[Batch]] = (),
    ) -> None:
        super().__init__(first, len(lanes))
        self._batches = [deque(lane) for lane in lanes]
        self._states = [deque(lane) for lane in states]
        #: Whether nobody else wants them: what has been pushed need not be held any more.
        self._consume = consume

    def run_lanes(self, instance: Instance, query: int, sink: Sink) -> None:
        block = InputBlock(instance)
        while (lane := sink.next_lane(instance, self)) is not None:
            if self._states:
                states = self._states[lane - self.first]
                self._push(block, query, states, sink, lane, SourceKind.STATES_LIST)
            self._push(block, query, self._batches[lane - self.first], sink, lane, SourceKind.QMCB_LIST)
            sink.allow(instance)
            sink.take_output(instance, query, instance.query_finish(query), lane)
            sink.lane_finished(lane)
        block.free()

    def _push(
        self, block: InputBlock, query: int, batches: deque[Batch], sink: Sink, lane: int, kind: SourceKind
    ) -> None:
        while batches:
            output, taken = push_batches(block, query, batches, sink, kind=kind)
            if self._consume:
                sink.let_go(taken)
            sink.take_output(block.instance, query, output, lane)
            if output.state == OutputState.DONE:
                break
        if self._consume:
            sink.let_go(batches)
        batches.clear()


def push_batches(
    block: InputBlock,
    query: int,
    batches: deque[Batch],
    sink: Sink,
    run: int = 0,
    kind: SourceKind = SourceKind.QMCB_LIST,
) -> tuple[Output, list[Batch]]:
    """As many batches as make a morsel, by one call: partial answers are many and small. And which ones."""
    instance = block.instance
    taken: list[Batch] = []
    parts: list[bytes] = []
    size = 0
    while batches and (not taken or size + batches[0].size <= PUSH_SIZE_MAX):
        batch = batches.popleft()
        taken.append(batch)
        parts += (batch.size.to_bytes(4, "little"), batch.data)
        size += 4 + batch.size
    if size <= SCRATCH_SIZE_MAX:
        return instance.query_push(query, kind, data=b"".join(parts), handle=run), taken
    sink.allow(instance)
    address = block.place(size)
    position = address
    for part in parts:
        instance.write(position, part)
        position += len(part)
    output = instance.query_push(query, kind, address=address, size=size, handle=run)
    return output, taken


class FileFeed(Feed):
    """Pieces of files."""

    def __init__(
        self,
        first: int,
        branch: Branch,
        scan: FileScan,
        bounds: Callable[[Instance], list[Expr] | None],
        bound: TopBound | None = None,
    ) -> None:
        table = scan.table
        super().__init__(first, len(scan.lanes))
        self.scan = scan
        self._branch = branch
        #: What builds say of columns of this table; None when they say that no row can match.
        self._bounds = bounds
        self._lock = threading.Lock()
        self._pages_skipped = 0
        #: What a top-k knows: pieces behind it are not read. Their ranks, by what footers say.
        self._bound = bound if branch.top_column is not None and len(table.pieces) > 1 else None
        self._ranks: dict[int, Rank | None] = {}
        self._groups_behind = 0
        self._prepared = not (branch.pruning or branch.key_ranges or self._bound)

    def prepare(self, instance: Instance, sink: Sink) -> bool:
        """Statistics rule out row groups. Lanes without any are done; one is run even if it is empty: it says
        the schema, and aggregates have a row of nothing."""
        with self._lock:
            if self._prepared:
                return False
            sink.allow(instance)
            forget_dead_tables(instance)
            self._use_bounds(instance)
            self.scan.prune(instance)
            left = [lane for lane in self.lanes if self.scan.lanes[lane - self.first]]
            kept = left or list(self.lanes)[:1]
            for lane in set(self.lanes).difference(kept):
                sink.lane_finished(lane)
            self._rank_groups(instance)
            self.lanes = deque(kept if self._bound is None else self._bound.best_first(kept, self._rank))
            self._prepared = True
            return True

    def _rank_groups(self, instance: Instance) -> None:
        column = self._branch.top_column
        if self._bound is None or column is None:
            return
        from querymode.execute.top_bound import piece_zones

        zones = piece_zones(instance, self.scan.table, column)
        self._ranks = {piece: self._bound.best(zone) for piece, zone in zones.items()}

    def _rank(self, lane: int) -> Rank | None:
        assert self._bound is not None
        return self._bound.best_of([self._ranks.get(piece) for piece in self.scan.lanes[lane - self.first]])

    def _is_behind(self, piece: int) -> bool:
        if self._bound is None or not self._bound.rules_out(self._ranks.get(piece)):
            return False
        with self._lock:
            self._groups_behind += 1
        return True

    def _next_lane(self, instance: Instance, sink: Sink) -> int | None:
        while (lane := sink.next_lane(instance, self)) is not None:
            if self._bound is None or not self._bound.rules_out(self._rank(lane)):
                return lane
            with self._lock:
                self._groups_behind += len(self.scan.lanes[lane - self.first])
            sink.lane_skipped(lane)
        return None

    def _use_bounds(self, instance: Instance) -> None:
        bounds = self._bounds(instance)
        if bounds is None:
            self.scan.drop_all()
        elif bounds:
            self.scan.use_pruning(rewrite([*self._branch.leading, *bounds], self.scan.table.schema))

    def run_lanes(self, instance: Instance, query: int, sink: Sink) -> None:
        from querymode.execute.files import Worker

        self.prepare(instance, sink)
        sink.allow(instance)
        forget_dead_tables(instance)
        worker = Worker(self.scan, instance, query, lambda: sink.allow(instance), first_lane=self.first)
        if self._bound is not None:
            worker.bound, worker.is_behind = self._bound, self._is_behind

        def finish(lane: int) -> None:
            sink.take_output(instance, query, instance.query_finish(query), lane)
            sink.lane_finished(lane)

        instance.take_pages_skipped()  # of queries that did not come to their end
        worker.run(
            lambda: self._next_lane(instance, sink),
            lambda lane, output: sink.take_output(instance, query, output, lane),
            finish,
        )
        worker.close()
        pages = instance.take_pages_skipped()
        with self._lock:
            self._pages_skipped += pages
        sink.count_pages(pages)

    def may_shrink(self) -> bool:
        return not self._prepared

    def groups_pruned(self) -> int:
        return self.scan.groups_pruned + self._groups_behind

    def note_reads(self, profile: Profile, scan: int) -> None:
        profile.add_reads(
            scan,
            requests=self.scan.request_count,
            bytes=self.scan.byte_count,
            row_groups=len(self.scan.table.pieces),
            row_groups_skipped=self.groups_pruned(),
            pages_skipped=self._pages_skipped,
        )

    def close(self, *, clean: bool) -> None:
        self.scan.close(verify=clean)
