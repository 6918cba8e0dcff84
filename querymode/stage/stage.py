"""Stages: the work that an executor runs, as plain data that pickles.

    Work     stages in order, each after those that it reads; the last one's rows are the answer
    Stage    branches, whose lanes go through a plan each, and at most one end over all lanes' answers
    Branch   a source (a table, or the rows of an earlier stage) and a plan

Stages, builds and nodes are known by their numbers, so that another process can be told of them. Between two
stages stands an exchange, and the executor chooses what it goes through: batches in memory, files, a shuffle.

    gather      all rows of a stage, in lane order, as one lane             StageOutput, Gathered
    local       lane by lane                                                StageOutput
    broadcast   all rows of a stage to whoever runs a lane                  Build
    hash        rows of a partition together, whichever lane they are from  Partitioned
    range       rows between two keys together                              Merged

Key ranges and first rows are hints: an executor that ignores them gives the same answer, more slowly.
"""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow

    from querymode.expr.nodes import Expr
    from querymode.plan.merge_steps import MergeSteps
    from querymode.plan.nodes import Node
    from querymode.plan.prune import Pruning
    from querymode.schema import Schema
    from querymode.table.table import Table
    from querymode.types import DataType


class StageOutput(NamedTuple):
    """An earlier stage's answer as a source: all of it as one lane, or lane by lane."""

    stage: int
    gather: bool


class Build(NamedTuple):
    """Rows that joins probe: a stage's answer, and the plan that takes it in."""

    number: int
    stage: int
    #: The columns of that stage.
    schema: Schema
    plan: bytes


class KeyRange(NamedTuple):
    """A column of a branch's table cannot match outside of what a build has in its key."""

    column: str
    build: Build
    #: Over the columns of the build's stage.
    key: Expr


class TopKey(NamedTuple):
    """The first key of a sort that wants the first rows only: how many, and where lanes' answers have it."""

    rows: int
    place: int
    data_type: DataType
    descending: bool
    nulls_first: bool


class Branch:
    """A source, and what its lanes go through."""

    __slots__ = (
        "builds",
        "columns",
        "drops_rows",
        "has_filter",
        "key_ranges",
        "leading",
        "nodes",
        "passes_through",
        "plan",
        "pruning",
        "scan",
        "scan_plan",
        "sought",
        "source",
        "top_column",
    )

    def __init__(self, source: Table | StageOutput, columns: tuple[int, ...] = ()) -> None:
        self.source = source
        #: Columns of a table, by number, in the order the plan names them.
        self.columns = columns
        self.plan = b""
        self.builds: tuple[Build, ...] = ()
        #: The rows of an earlier stage leave as they are: nothing has to be run for them.
        self.passes_through = False
        #: Whether fewer rows may leave a lane than come in.
        self.drops_rows = False
        #: Files: the plan begins with a filter; which filters those are; what they say of statistics.
        self.has_filter = False
        self.leading: tuple[Expr, ...] = ()
        self.pruning: Pruning | None = None
        self.key_ranges: tuple[KeyRange, ...] = ()
        #: The column of the table that is the stage's `top` key: pieces of it that lie behind are left out.
        self.top_column: int | None = None
        #: For explain: the node of every step, the scan, and what is looked up in builds while it is read.
        self.nodes: tuple[int, ...] = ()
        self.scan: int | None = None
        #: The plan, or where it needs builds, what of it can be run without: for a forecast of reads.
        self.scan_plan = b""
        self.sought: tuple[str, ...] = ()

    @property
    def table(self) -> Table | None:
        """The source, if it is a table."""
        return None if isinstance(self.source, StageOutput) else self.source


# ---- ends ----


class Gathered:
    """A plan over all lanes' answers, in their order, by one instance."""

    __slots__ = ("builds", "nodes", "plan")

    def __init__(self, plan: bytes, builds: tuple[Build, ...] = (), nodes: tuple[int, ...] = ()) -> None:
        self.plan = plan
        self.builds = builds
        #: For explain: the nodes of the plan's steps.
        self.nodes = nodes


class FirstRows(Gathered):
    """Every lane gives its first rows by a key, and the plan takes the first of those."""

    __slots__ = ("key",)

    def __init__(self, key: TopKey, plan: bytes, builds: tuple[Build, ...], nodes: tuple[int, ...]) -> None:
        super().__init__(plan, builds, nodes)
        self.key = key


class Merged(Gathered):
    """Every lane's answer is a sorted run, and the plan merges them.

    `steps`: what comes behind looks at every row alone, so it may run over ranges of keys.
    """

    __slots__ = ("steps",)

    def __init__(
        self, steps: MergeSteps | None, plan: bytes, builds: tuple[Build, ...], nodes: tuple[int, ...]
    ) -> None:
        super().__init__(plan, builds, nodes)
        self.steps = steps


class Partitioned(Gathered):
    """The lanes' answers leave in `count` parts, and the plan may run over each part alone.

    `rows_plan`: lanes also let rows pass that grouping does not make fewer, in as many parts behind those of
    states. The plan then begins with the partial aggregate, and states enter behind it; this one is for parts
    that have no states. `deal`: deals answers out that left undivided, each lane's groups being few.
    """

    __slots__ = ("count", "deal", "rows_plan")

    def __init__(
        self,
        count: int,
        deal: bytes | None,
        rows_plan: bytes | None,
        plan: bytes,
        builds: tuple[Build, ...],
        nodes: tuple[int, ...],
    ) -> None:
        super().__init__(plan, builds, nodes)
        self.count = count
        self.deal = deal
        self.rows_plan = rows_plan


class Called(NamedTuple):
    """A Python function over Arrow batches, and what it is given."""

    given: Schema
    function: Callable[[pyarrow.RecordBatch], pyarrow.RecordBatch]


class Stage:
    """Branches over workers, and an end, if any, over the lanes' answers."""

    __slots__ = ("branches", "end", "number", "one_row_lanes", "rows_needed", "schema")

    def __init__(
        self,
        number: int,
        schema: Schema,
        branches: Sequence[Branch],
        end: Gathered | Called | None = None,
        *,
        rows_needed: int | None = None,
        one_row_lanes: bool = False,
    ) -> None:
        self.number = number
        self.schema = schema
        self.branches = tuple(branches)
        self.end = end
        #: Lanes in order may stop once they have given this many rows together.
        self.rows_needed = rows_needed
        #: Every lane gives one row: aggregates without keys.
        self.one_row_lanes = one_row_lanes

    @property
    def final(self) -> Gathered | None:
        """The end, if it is a plan."""
        return self.end if isinstance(self.end, Gathered) else None

    @property
    def top(self) -> TopKey | None:
        return self.end.key if isinstance(self.end, FirstRows) else None

    @property
    def inputs(self) -> list[int]:
        """The stages that this one reads, each as often as it does."""
        found = [branch.source.stage for branch in self.branches if isinstance(branch.source, StageOutput)]
        found += [build.stage for branch in self.branches for build in branch.builds]
        return found + ([] if self.final is None else [build.stage for build in self.final.builds])


class Work:
    """What lowering makes of a plan. Only the stages go to other processes."""

    __slots__ = ("memory_needed", "numbers", "root", "stages")

    def __init__(self, stages: Sequence[Stage], root: Node, numbers: dict[Node, int]) -> None:
        self.stages = tuple(stages)
        #: The plan as it was optimized, and its nodes' numbers, by which stages and profiles know them.
        self.root = root
        self.numbers = numbers
        #: What the query held at most, if a guess was too low before.
        self.memory_needed = 0

    @property
    def last(self) -> Stage:
        return self.stages[-1]

    @property
    def schema(self) -> Schema:
        return self.last.schema
