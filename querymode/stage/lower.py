"""Logical plans → stages: what every lane does on its own, and what is done with the lanes' answers.

    Stage    branches (a source each, and the plan that its lanes go through) → final plan, if any
    source   a table, or the answer of an earlier stage
    build    an earlier stage's rows, as joins of a plan probe them

A stage runs on all workers; its lanes' answers come in lane order. Its final plan runs over all of them at
once where they are few, else over every partition of them. What follows a final plan of few rows joins it;
what follows one of many is cut again. Only columns that are used are read.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from querymode._abi import ROWS_PASS, AggregatePhase
from querymode._call import check
from querymode._collector import CollectorPaused
from querymode.engine.plan_bytes import UNLIMITED, encode_plan
from querymode.errors import error
from querymode.expr.nodes import Cast, Column, Expr
from querymode.expr.trees import columns_in, substitute
from querymode.optimize.pushdown import optimize, reduces
from querymode.plan.aggregates import depends_on_order, is_splittable
from querymode.plan.bind import bind, bind_keys
from querymode.plan.nodes import (
    Filter,
    GroupBy,
    Join,
    Limit,
    MapBatches,
    Node,
    Passing,
    Project,
    Scan,
    Sort,
    Step,
    Union,
)
from querymode.plan.prune import rewrite
from querymode.plan.wire import Wire, state_fields
from querymode.schema import Schema
from querymode.stage.stage import (
    Branch,
    Build,
    Called,
    FirstRows,
    Gathered,
    KeyRange,
    Merged,
    Partitioned,
    Stage,
    StageOutput,
    TopKey,
    Work,
)
from querymode.types import BOOL, value_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from querymode.optimize.estimate import Estimator

#: Groups that a lane keeps before it hands them on; a table of them fits the second-level cache.
GROUP_LIMIT = 1 << 16
#: Tables of fewer rows are aggregated without partitions: there cannot be many groups.
PARTITION_ROWS_MIN = 1 << 17
#: Rows of a partition, about.
PARTITION_ROWS = 1 << 17
PARTITION_COUNT_MAX = 256


_lowered: WeakKeyDictionary[Node, Work] = WeakKeyDictionary()


def lower(node: Node) -> Work:
    """The work of a plan. Nodes do not change, so a frame that is asked again is not bound again."""
    found = _lowered.get(node)
    if found is None:
        try:
            with CollectorPaused():
                # Of a twin: work keeps its nodes, and one that kept its own key would be kept for ever.
                found = _Lowering(optimize(node.twin())).work()
        except RecursionError:
            raise error(
                "NOT_SUPPORTED",
                "the query has too many steps, one upon the other; compute it in several parts",
            ) from None
        _lowered[node] = found
    return found


class _Line:
    """A plan in the making, with what it will need to run."""

    __slots__ = ("branch", "builds", "drops_rows", "key_ranges", "leading", "nodes", "origins", "wire")

    def __init__(self, wire: Wire, branch: Branch | None) -> None:
        self.wire = wire
        self.branch = branch
        self.builds: list[Build] = []
        self.leading: list[Expr] = []
        self.key_ranges: list[KeyRange] = []
        self.drops_rows = False
        #: Columns that are still as the table has them, by its numbers; none behind a step that looks at rows
        #: together, whose answer depends on all of the table.
        self.origins: dict[str, int] = {}
        #: The number of the node of every step.
        self.nodes: list[int] = []

    def add_build(self, build: Build) -> int:
        for index, known in enumerate(self.builds):
            if known is build:
                return index
        self.builds.append(build)
        self.wire.build_count = len(self.builds)
        return len(self.builds) - 1

    def project(self, items: Sequence[tuple[str, Expr]]) -> None:
        self.origins = {
            name: self.origins[item.name]
            for name, item in items
            if isinstance(item, Column) and item.name in self.origins
        }
        self.wire.project(items)

    def filter(self, predicate: Expr) -> None:
        if self.wire.filter_count == len(self.wire.steps):
            self.leading.append(predicate)
        self.wire.filter(predicate)
        self.drops_rows = True


class _Pipe:
    """A stage in the making: its lines are the branches', or once `is_final` is set, the final one."""

    def __init__(self, lines: list[_Line], *, parallel: bool, row_count: int | None) -> None:
        self.branch_lines = lines
        self.lines = lines
        self.is_final = False
        #: Whether several lanes may go through it.
        self.parallel = parallel
        #: At most so many rows, if that is known.
        self.row_count = row_count
        #: See `Stage`, and its ends.
        self.rows_needed: int | None = None
        self.one_row_lanes = False
        self.top: TopKey | None = None
        self.merges = False
        self.partition_count = 0
        self.deal: bytes | None = None
        #: What a final plan does in one step with rows that passed, and in its first two with states too.
        self.rows_step: bytes | None = None

    @property
    def schema(self) -> Schema:
        return self.lines[0].wire.schema

    def mark(self, number: int) -> _Pipe:
        """The steps that have no node yet are this one's."""
        for line in self.lines:
            line.nodes += [number] * (len(line.wire.steps) - len(line.nodes))
        return self

    def begin_final(self, wire: Wire, *, parallel: bool = False) -> None:
        assert not self.is_final
        self.is_final = True
        self.parallel = parallel
        self.lines = [_Line(wire, None)]

    def branches(self) -> list[Branch]:
        found = []
        for line in self.branch_lines:
            branch = line.branch
            assert branch is not None
            branch.plan = line.wire.encoded()
            branch.builds = tuple(line.builds)
            branch.drops_rows = line.drops_rows
            branch.passes_through = isinstance(branch.source, StageOutput) and not line.wire.steps
            branch.key_ranges = tuple(line.key_ranges)
            branch.nodes = tuple(line.nodes)
            branch.scan_plan = branch.plan
            if line.builds:
                first = len(branch.sought)
                branch.scan_plan = encode_plan(
                    line.wire.fields, line.wire.steps[first : line.wire.filter_count]
                )
            _prune_by(branch, line)
            found.append(branch)
        return found

    def end(self) -> Gathered | None:
        if not self.is_final:
            return None
        (line,) = self.lines
        wire = line.wire
        plan, builds, nodes = wire.encoded(), tuple(line.builds), tuple(line.nodes)
        if self.partition_count:
            rows_plan = None
            if self.rows_step is not None:
                steps = [self.rows_step, *wire.steps[2:]]
                rows_plan = encode_plan(wire.fields, steps, wire.build_count)
            return Partitioned(self.partition_count, self.deal, rows_plan, plan, builds, nodes)
        if self.merges:
            return Merged(wire.merge_steps(), plan, builds, nodes)
        if self.top is not None:
            return FirstRows(self.top, plan, builds, nodes)
        return Gathered(plan, builds, nodes)


def _prune_by(branch: Branch, line: _Line) -> None:
    """Filters that come before everything else also speak of whole row groups and pages."""
    if isinstance(branch.source, StageOutput):
        return
    branch.has_filter = line.wire.filter_count > 0
    branch.leading = tuple(line.leading)
    if line.leading and branch.source.evidence is not None:
        branch.pruning = rewrite(line.leading, branch.source.schema)


#: The keys that a join will look for in its build, and how the build calls them: rows that it cannot find
#: there need not be read.
_Sought = tuple[tuple[Expr, ...], "Build", tuple[Expr, ...]]


class _Lowering:
    def __init__(self, node: Node) -> None:
        self._root = node
        self._stages: list[Stage] = []
        self._build_count = 0
        self._numbers: dict[Node, int] = {}
        self._uses: dict[Node, int] = {}
        self._count_uses(node)
        self._needs = _needs_of(node) if max(self._uses.values()) > 1 else {}
        #: Made when a join asks.
        self._estimator: Estimator | None = None
        #: Closed stages of nodes that are used more than once.
        self._shared: dict[Node, tuple[Stage, bool]] = {}

    def _count_uses(self, node: Node) -> None:
        self._uses[node] = self._uses.get(node, 0) + 1
        if self._uses[node] == 1:
            self._numbers[node] = len(self._numbers)
            for child in node.children:
                self._count_uses(child)

    def work(self) -> Work:
        self._close(self._pipe(self._root, None))
        return Work(self._stages, self._root, self._numbers)

    def _close(self, pipe: _Pipe) -> Stage:
        """A stage comes behind those that it reads: they were closed before it could name them."""
        branches, end = pipe.branches(), pipe.end()
        stage = Stage(
            len(self._stages),
            pipe.schema,
            branches,
            end,
            rows_needed=pipe.rows_needed,
            one_row_lanes=pipe.one_row_lanes,
        )
        self._stages.append(stage)
        return stage

    def _number(self, node: Node) -> int:
        return self._numbers[node]

    def _pipe(self, node: Node, needed: set[str] | None, sought: Sequence[_Sought] = ()) -> _Pipe:
        if self._uses[node] > 1 and not isinstance(node, Scan):
            return self._shared_pipe(node)
        return self._new_pipe(node, needed, sought).mark(self._number(node))

    def _shared_pipe(self, node: Node) -> _Pipe:
        """A node that several others read is computed once, with the columns that any of them needs."""
        known = self._shared.get(node)
        if known is None:
            pipe = self._new_pipe(node, self._needs[node], ()).mark(self._number(node))
            known = self._shared[node] = (self._close(pipe), pipe.parallel)
        stage, parallel = known
        return _output_pipe(stage, parallel=parallel)

    def _new_pipe(self, node: Node, needed: set[str] | None, sought: Sequence[_Sought]) -> _Pipe:
        check()
        if isinstance(node, Scan):
            return self._scan(node, needed, sought)
        if isinstance(node, Join):
            return self._join(node, needed, sought)
        if isinstance(node, Union):
            return self._union(node, needed)
        assert isinstance(node, Step)
        if isinstance(node, Limit) and isinstance(node.input, Sort) and self._uses[node.input] == 1:
            return self._sort(node.input, needed, node)
        rule = _RULES.get(type(node), _Lowering._other)
        return rule(self, node, needed, sought)

    # ---- sources ----

    def _scan(self, node: Scan, needed: set[str] | None, sought: Sequence[_Sought]) -> _Pipe:
        source = node.source
        columns = node.schema.indices(needed)
        branch = Branch(source, columns)
        branch.scan = self._number(node)
        branch.sought = tuple(", ".join(map(str, keys)) for keys, _, _ in sought)
        line = _Line(Wire(node.schema.part(columns)), branch)
        line.origins = {node.schema.field(index)[0]: index for index in columns}
        for keys, build, their_keys in sought:
            index = line.add_build(build)
            line.wire.in_build(index, [bind(key, line.wire.schema).wire for key in keys])
            line.drops_rows = True
            for key, their_key in zip(keys, their_keys, strict=True):
                if isinstance(key, Column) and source.evidence is not None:
                    name = source.schema.field(node.schema.index(key.name))[0]
                    line.key_ranges.append(KeyRange(name, build, their_key))
        return _Pipe([line], parallel=source.lane_count > 1, row_count=source.row_count)

    def _union(self, node: Union, needed: set[str] | None) -> _Pipe:
        lines: list[_Line] = []
        row_count: int | None = 0
        wanted = [index for index, name in enumerate(node.schema.names) if needed is None or name in needed]
        for child in node.inputs:
            names = [child.schema.names[index] for index in wanted]
            pipe = self._pipe(child, set(names))
            if pipe.is_final:
                pipe = _output_pipe(self._close(pipe), parallel=pipe.parallel)
            new_names = tuple(node.schema.names[index] for index in wanted)
            items = [(new, Column(old)) for new, old in zip(new_names, names, strict=True)]
            for line in pipe.lines:
                if line.wire.schema.names != new_names:
                    line.project(items)
            lines += pipe.lines
            if row_count is not None:
                row_count = None if pipe.row_count is None else row_count + pipe.row_count
        return _Pipe(lines, parallel=True, row_count=row_count)

    # ---- steps that every lane does on its own ----

    def _filter(self, node: Filter, needed: set[str] | None, sought: Sequence[_Sought]) -> _Pipe:
        pipe = self._pipe(node.input, node.columns_read(needed), sought)
        for line in pipe.lines:
            line.filter(node.predicate)
        return pipe

    def _project(self, node: Project, needed: set[str] | None, sought: Sequence[_Sought]) -> _Pipe:
        items = dict(node.items)
        below = [
            (tuple(substitute(key, items) for key in ours), build, theirs) for ours, build, theirs in sought
        ]
        pipe = self._pipe(node.input, node.columns_read(needed), below)
        kept = [(name, item) for name, item in node.items if needed is None or name in needed]
        for line in pipe.lines:
            line.project(kept)
        return pipe

    def _join(self, node: Join, needed: set[str] | None, sought: Sequence[_Sought]) -> _Pipe:
        left_needed, right_needed = node.columns_read(needed)
        right = self._pipe(node.right, right_needed)
        theirs = right.schema
        wire = Wire(theirs)
        keys = [bind_keys(ours, node.left.schema, other, theirs)[1].wire for ours, other in node.keys]
        wire.build(keys, null_equal=node.null_equal)
        stage = self._close(right)
        build = Build(self._build_count, stage.number, stage.schema, wire.encoded())
        self._build_count += 1
        below = self._sought_on(node.left, sought)
        if node.kind in ("inner", "semi") and not node.null_equal and self._reduces(node):
            ours = tuple(self._key_as(node, own, other) for own, other in node.keys)
            below.append((ours, build, tuple(other for _, other in node.keys)))
        pipe = self._pipe(node.left, left_needed, below)
        for line in pipe.lines:
            line.origins = {name: index for name, index in line.origins.items() if name in line.wire.schema}
            line.wire.join(node, line.add_build(build), theirs, needed)
            line.drops_rows = True
        pipe.row_count = None
        return pipe

    def _reduces(self, node: Join) -> bool:
        if self._estimator is None:
            from querymode.optimize.estimate import Estimator

            self._estimator = Estimator()
        return reduces(node, self._estimator)

    def _key_as(self, node: Join, ours: Expr, other: Expr) -> Expr:
        """A key in the type that the build has it in."""
        wanted = bind_keys(ours, node.left.schema, other, node.right.schema)[0].type
        return ours if bind(ours, node.left.schema).type == wanted else Cast(ours, wanted, False)

    def _sought_on(self, side: Node, sought: Sequence[_Sought]) -> list[_Sought]:
        return [item for item in sought if all(_reads_only(key, side.schema) for key in item[0])]

    # ---- steps over all rows ----

    def _group_by(self, node: GroupBy, needed: set[str] | None, sought: Sequence[_Sought]) -> _Pipe:
        keys = dict(node.keys)
        known = Schema((name, node.schema.type_of(name)) for name in keys)
        below = [
            (tuple(substitute(key, keys) for key in ours), build, theirs)
            for ours, build, theirs in sought
            if all(_reads_only(key, known) for key in ours)
        ]
        pipe = self._pipe(node.input, node.columns_read(needed), below)
        if not pipe.parallel:
            for line in pipe.lines:
                line.wire.aggregate(node, AggregatePhase.COMPLETE)
                line.drops_rows = True
                line.origins = {}
            return pipe
        is_split = all(is_splittable(call) for _, call in node.calls)
        states = state_fields(node, pipe.schema) if is_split else None
        partitioned = bool(node.keys) and (pipe.row_count is None or pipe.row_count >= PARTITION_ROWS_MIN)
        count = _partition_count(pipe.row_count) if partitioned else 0
        rows = _passing_fields(node, pipe.lines) if is_split and partitioned else None
        limit = (GROUP_LIMIT if partitioned else 0) | (0 if rows is None else ROWS_PASS)
        for line in pipe.lines:
            if is_split:
                line.wire.aggregate(node, AggregatePhase.PARTIAL, limit)
                if partitioned:
                    line.wire.partition_by_first(count, len(node.keys))
            elif partitioned:
                line.wire.partition(count, [bind(key, line.wire.schema).wire for _, key in node.keys])
        pipe = self._cut(pipe.mark(self._number(node)))
        pipe.one_row_lanes = not node.keys and is_split
        pipe.partition_count = count
        if is_split and partitioned:
            deal = Wire(pipe.schema, states)
            deal.partition_by_first(count, len(node.keys))
            pipe.deal = deal.encoded()
        if rows is not None:
            whole = Wire(rows)
            whole.aggregate(node, AggregatePhase.COMPLETE)
            (pipe.rows_step,) = whole.steps
            final = Wire(rows)
            final.aggregate(node, AggregatePhase.PARTIAL)
        else:
            final = Wire(pipe.schema, states)
        final.aggregate(node, AggregatePhase.FINAL if is_split else AggregatePhase.COMPLETE)
        pipe.begin_final(final, parallel=partitioned)
        return pipe

    def _sort(self, node: Sort, needed: set[str] | None, limit: Limit | None) -> _Pipe:
        pipe = self._pipe(node.input, node.columns_read(needed))
        rows = UNLIMITED if limit is None else limit.rows_needed()
        if pipe.parallel:
            for line in pipe.lines:
                line.wire.sort(node, rows)
            pipe = self._cut(pipe.mark(self._number(node)))
            if rows != UNLIMITED:
                _note_top(pipe, node, rows)
            final = Wire(pipe.schema)
            if rows == UNLIMITED:
                final.merge(node)
                pipe.merges = True
            else:
                final.sort(node, rows)
            pipe.begin_final(final)
        else:
            for line in pipe.lines:
                line.wire.sort(node, rows)
                line.origins = {}
        if limit is not None:
            for line in pipe.lines:
                line.wire.limit(limit.offset, limit.count)
            pipe.row_count = rows if rows != UNLIMITED else pipe.row_count
        return pipe

    def _plain_sort(self, node: Sort, needed: set[str] | None, sought: Sequence[_Sought]) -> _Pipe:
        return self._sort(node, needed, None)

    def _limit(self, node: Limit, needed: set[str] | None, sought: Sequence[_Sought]) -> _Pipe:
        pipe = self._pipe(node.input, needed)
        rows = node.rows_needed()
        if not pipe.is_final and node.count is not None:
            pipe.rows_needed = rows or None
        if pipe.parallel:
            if node.count is not None:
                for line in pipe.lines:
                    line.wire.limit(0, rows)
            pipe = self._cut(pipe.mark(self._number(node)))
            pipe.begin_final(Wire(pipe.schema))
        for line in pipe.lines:
            line.wire.limit(node.offset, node.count)
            line.origins = {}
        if node.count is not None:
            pipe.row_count = rows
        return pipe

    # ---- any other ----

    def _other(self, node: Step, needed: set[str] | None, sought: Sequence[_Sought]) -> _Pipe:
        """One step of the engine: in every lane where rows are looked at alone, else over all lanes' rows."""
        passes = isinstance(node, Passing)
        pipe = self._pipe(node.input, node.columns_read(needed), sought if passes and node.ROW_BY_ROW else ())
        if pipe.parallel and not node.ROW_BY_ROW:
            pipe = self._cut(pipe)
            pipe.begin_final(Wire(pipe.schema))
        for line in pipe.lines:
            line.wire.step(node)
            line.drops_rows = True
            if not (passes and node.ROW_BY_ROW):
                line.origins = {}
        pipe.row_count = None
        return pipe

    def _map_batches(self, node: MapBatches, needed: set[str] | None, sought: Sequence[_Sought]) -> _Pipe:
        pipe = self._pipe(node.input, None)
        if pipe.is_final:
            pipe = _output_pipe(self._close(pipe), parallel=pipe.parallel)
        stage = self._close(pipe)
        stage.end = Called(stage.schema, node.function)
        stage.schema = node.schema
        return _output_pipe(stage, parallel=pipe.parallel)

    def _cut(self, pipe: _Pipe) -> _Pipe:
        """A pipe whose lanes may get a final plan. One that has one becomes a stage of its own."""
        if not pipe.is_final:
            return pipe
        assert pipe.parallel
        # The lanes' part of the next step has been put behind the final plan, which runs over partitions.
        stage = self._close(pipe)
        return _output_pipe(stage, parallel=True, row_count=pipe.row_count)


#: Others are one step of the engine.
_RULES: dict[type[Step], Callable[..., _Pipe]] = {
    Filter: _Lowering._filter,
    Project: _Lowering._project,
    GroupBy: _Lowering._group_by,
    Sort: _Lowering._plain_sort,
    Limit: _Lowering._limit,
    MapBatches: _Lowering._map_batches,
}


def _note_top(pipe: _Pipe, node: Sort, rows: int) -> None:
    """Where the first key is a column of the tables, their bounds say what cannot be among the first rows."""
    key, descending, nulls_first = node.keys[0]
    if rows == 0 or not isinstance(key, Column):
        return
    for line in pipe.branch_lines:
        assert line.branch is not None
        line.branch.top_column = line.origins.get(key.name)
    pipe.top = TopKey(
        rows, pipe.schema.index(key.name), pipe.schema.type_of(key.name), descending, nulls_first
    )


def _needs_of(root: Node) -> dict[Node, set[str] | None]:
    """For every node: which of its columns somebody reads; None is all."""
    order: list[Node] = []
    seen: set[Node] = set()

    def visit(node: Node) -> None:
        if node not in seen:
            seen.add(node)
            for child in node.children:
                visit(child)
            order.append(node)

    visit(root)
    needs: dict[Node, set[str] | None] = {root: None}
    for node in reversed(order):  # whoever reads a node comes before it
        for child, names in _reads(node, needs[node]):
            before = needs.get(child, set())
            needs[child] = None if before is None or names is None else before | names
    return needs


def _reads(node: Node, needed: set[str] | None) -> list[tuple[Node, set[str] | None]]:
    """What a node reads of its inputs, to give these columns."""
    if isinstance(node, Join):
        left, right = node.columns_read(needed)
        return [(node.left, left), (node.right, right)]
    if isinstance(node, Union):
        places = [place for place, name in enumerate(node.schema.names) if needed is None or name in needed]
        return [(child, {child.schema.names[place] for place in places}) for child in node.inputs]
    if isinstance(node, Step):
        return [(node.input, node.columns_read(needed))]
    return [(child, None) for child in node.children]


def _output_pipe(stage: Stage, *, parallel: bool, row_count: int | None = None) -> _Pipe:
    line = _Line(Wire(stage.schema), Branch(StageOutput(stage.number, gather=not parallel)))
    return _Pipe([line], parallel=parallel, row_count=row_count)


def _partition_count(row_count: int | None) -> int:
    if row_count is None:
        return PARTITION_COUNT_MAX // 4
    return max(8, min(PARTITION_COUNT_MAX, row_count // PARTITION_ROWS))


def _passing_fields(node: GroupBy, lines: Sequence[_Line]) -> Schema | None:
    """The columns of rows that pass an aggregate by; None where states are to be preferred.

    States keep the order of rows, and they may be far smaller than texts that are only counted. The engine
    finds the columns itself, in the order of each line's own.
    """
    names = node.columns_read(None)
    if not names or any(depends_on_order(call) for _, call in node.calls):
        return None
    found = [[field for field in line.wire.schema if field[0] in names] for line in lines]
    keys = {key.name for _, key in node.keys if isinstance(key, Column)}
    if any(not (value_size(kind) or kind == BOOL or name in keys) for name, kind in found[0]):
        return None
    return Schema(found[0]) if all(fields == found[0] for fields in found) else None


def _reads_only(key: Expr, schema: Schema) -> bool:
    return all(name in schema for name in columns_in(key))
