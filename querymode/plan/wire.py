"""Plans on their way to the engine: logical steps, bound to columns, become those of engine/plan_bytes.py."""

from __future__ import annotations

from querymode._abi import ROWS_IN_ORDER, AggregatePhase, JoinKind, JoinSide, NodeTag
from querymode.engine.plan_bytes import (
    column_at,
    encode_build,
    encode_in_build,
    encode_join,
    encode_limit,
    encode_merge,
    encode_name,
    encode_partition,
    encode_plan,
    encode_sort,
)
from querymode.expr.nodes import Column
from querymode.plan.aggregates import BoundCall, encode_aggregate
from querymode.plan.bind import bind, bind_argument, bind_keys, bind_predicate
from querymode.plan.merge_steps import MergeSteps
from querymode.plan.nodes import GroupBy, Passing, Sort
from querymode.schema import Schema
from querymode.types import BOOL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from querymode.expr.nodes import Expr
    from querymode.plan.nodes import Filter, Join, Node, Step
    from querymode.types import DataType


class Wire:
    """Steps over columns; `schema` is what comes out so far."""

    def __init__(self, schema: Schema, fields: Iterable[tuple[str, DataType]] | None = None) -> None:
        self.schema = schema
        #: What goes in. Not the schema only for states of aggregates, whose names may repeat.
        self.fields = list(schema if fields is None else fields)
        self.steps: list[bytes] = []
        #: How many builds the steps name.
        self.build_count = 0
        #: Filters before anything else.
        self.filter_count = 0
        #: The sort whose runs the first step merges.
        self._merged: Sort | None = None

    def encoded(self) -> bytes:
        return encode_plan(self.fields, self.steps, self.build_count)

    def filter(self, predicate: Expr) -> None:
        if self.filter_count == len(self.steps):
            self.filter_count += 1
        self.steps.append(bytes((NodeTag.FILTER,)) + bind_predicate(predicate, self.schema).wire)

    def project(self, items: Sequence[tuple[str, Expr]]) -> None:
        bound = [(name, bind(item, self.schema)) for name, item in items]
        wire = b"".join(encode_name(name) + item.wire for name, item in bound)
        self.steps.append(bytes((NodeTag.PROJECT,)) + len(items).to_bytes(2, "little") + wire)
        self.schema = Schema((name, item.type) for name, item in bound)

    def _sort_keys(self, step: Sort) -> list[tuple[bytes, bool, bool]]:
        return [
            (bind_argument(key, self.schema).wire, descending, nulls_first)
            for key, descending, nulls_first in step.keys
        ]

    def sort(self, step: Sort, rows: int) -> None:
        self.steps.append(encode_sort(self._sort_keys(step), rows))

    def limit(self, offset: int, count: int | None) -> None:
        self.steps.append(encode_limit(offset, count))

    def step(self, step: Step) -> None:
        """One that says itself what it is for the engine."""
        self.steps.append(step.encoded(self.schema))
        if not isinstance(step, Passing):
            self.schema = step.schema

    def join(self, step: Join, build: int, theirs: Schema, needed: set[str] | None) -> None:
        """Probes a build, whose columns are `theirs`, with the rows so far."""
        names = set(step.schema.names) if needed is None else needed
        outputs: list[tuple[str, JoinSide, int]] = []
        fields: list[tuple[str, DataType]] = []
        for index, (name, data_type) in enumerate(self.schema):
            if name in names:
                outputs.append((name, JoinSide.INPUT, index))
                fields.append((name, data_type))
        if step.kind in ("inner", "left", "single"):
            for index, (name, data_type) in enumerate(theirs):
                if name in names:
                    outputs.append((name, JoinSide.BUILD, index))
                    fields.append((name, data_type))
        if step.mark is not None:
            outputs.append((step.mark, JoinSide.MARK, 0))
            fields.append((step.mark, BOOL))
        keys = [bind_keys(ours, self.schema, other, theirs)[0].wire for ours, other in step.keys]
        residual = None
        if step.residual is not None:
            residual = bind_predicate(step.residual, Schema([*self.schema, *theirs])).wire
        self.steps.append(encode_join(build, JoinKind[step.kind.upper()], keys, outputs, residual))
        self.schema = Schema(fields)

    def build(self, keys: Sequence[bytes], *, null_equal: bool) -> None:
        """The last step: the rows become what joins probe."""
        self.steps.append(encode_build(keys, nulls_equal=null_equal))

    def partition(self, count: int, keys: Sequence[bytes]) -> None:
        """The last step: rows of equal keys leave in the same part."""
        self.steps.append(encode_partition(count, keys))

    def partition_by_first(self, count: int, key_count: int) -> None:
        """The same by the first columns: the keys of a partial aggregate."""
        self.partition(count, [column_at(index) for index in range(key_count)])

    def merge(self, step: Sort) -> None:
        """The first step: sorted runs become one."""
        self._merged = step
        self.steps.append(encode_merge(self._sort_keys(step)))

    def merge_steps(self) -> MergeSteps | None:
        """For ranges of keys, where these are columns and all steps behind the merge look at a row alone."""
        if self._merged is None or self.build_count:
            return None
        if any(step[0] not in (NodeTag.FILTER, NodeTag.PROJECT) for step in self.steps[1:]):
            return None
        names = [name for name, _ in self.fields]
        keys = []
        for key, descending, nulls_first in self._merged.keys:
            if not isinstance(key, Column):
                return None
            keys.append((names.index(key.name), descending, nulls_first))
        return MergeSteps(self.fields, keys, self.steps[1:])

    def in_build(self, build: int, keys: Sequence[bytes]) -> None:
        """A filter, behind those that stand at the front already: rows whose keys the build has."""
        self.steps.insert(self.filter_count, bytes((NodeTag.FILTER,)) + encode_in_build(build, keys))
        self.filter_count += 1

    def aggregate(self, step: GroupBy, phase: AggregatePhase, group_limit: int = 0) -> None:
        # A final aggregate has states for columns; what its calls are is seen in what its partial twin read.
        schema = step.input.schema if phase == AggregatePhase.FINAL else self.schema
        bound = [(encode_name(name), BoundCall(call, schema)) for name, call in step.calls]
        if phase == AggregatePhase.FINAL:
            # Keys and states by position, as `state_fields` lays them out.
            keys = [encode_name(name) + column_at(index) for index, (name, _) in enumerate(step.keys)]
            calls = []
            position = len(keys)
            for name, call in bound:
                calls.append(call.encoded_final(name, position))
                position += len(call.states)
        else:
            keys = [encode_name(name) + bind(key, self.schema).wire for name, key in step.keys]
            calls = [call.encoded(name) for name, call in bound]
        self.schema = step.schema
        if isinstance(step.input, Sort):
            group_limit |= ROWS_IN_ORDER
        self.steps.append(encode_aggregate(phase, keys, calls, group_limit))


def plan_over(source: Node, steps: Sequence[Filter | GroupBy]) -> bytes:
    """The engine's plan of these steps, over all columns of a relation that is no table."""
    wire = Wire(source.schema)
    for step in steps:
        if isinstance(step, GroupBy):
            wire.aggregate(step, AggregatePhase.COMPLETE)
        else:
            wire.filter(step.predicate)
    return wire.encoded()


def state_fields(step: GroupBy, schema: Schema) -> list[tuple[str, DataType]]:
    """The columns that a partial aggregate hands to its final one."""
    fields = [(name, bind(key, schema).type) for name, key in step.keys]
    for name, call in step.calls:
        fields += [(name, data_type) for data_type in BoundCall(call, schema).states]
    return fields
