"""Logical plans: frozen nodes with a schema each. DataFrames and SQL both build them.

A node checks itself when it is made, so a misspelt column fails at the call that names it. Names are unique
in every schema, so a column is known by its name alone. optimize.py rewrites plans into better ones, lower.py
turns them into work for the engine.
"""

from __future__ import annotations

import struct

from querymode import _abi
from querymode._abi import AggregateOp, AggregatePhase, NodeTag
from querymode.bind import (
    Bound,
    aggregate_types,
    bind,
    bind_argument,
    bind_keys,
    bind_predicate,
    columns_of,
)
from querymode.errors import error
from querymode.expr import Aggregate, Column, Expr
from querymode.literals import encode_text
from querymode.schema import Schema
from querymode.types import BOOL, INT64, NULL, encode_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pyarrow

    from querymode.file_table import FileTable
    from querymode.memory_table import MemoryTable
    from querymode.prune import Pruning
    from querymode.types import DataType

#: "No limit" in a plan.
UNLIMITED = (1 << 64) - 1


class Node:
    """A relation: rows of a schema."""

    __slots__ = ("_work", "schema")
    schema: Schema
    _work: Work

    @property
    def children(self) -> tuple[Node, ...]:
        return ()

    def with_children(self, children: Sequence[Node]) -> Node:
        """The same node over other inputs, whose schemas hold what it names."""
        assert not children
        return self


class Scan(Node):
    """A table. `names`: what its columns are called here, if not as in the table."""

    __slots__ = ("names", "source")

    def __init__(self, source: MemoryTable | FileTable, names: Sequence[str] | None = None) -> None:
        self.source = source
        self.names = None if names is None else tuple(names)
        self.schema = source.schema
        if self.names is not None:
            self.schema = Schema(zip(self.names, source.schema.types, strict=True))


class Step(Node):
    """A node with one input."""

    __slots__ = ("input",)
    input: Node

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.input,)

    def columns_read(self, needed: set[str] | None) -> set[str] | None:
        """The input's columns that this step needs to give `needed` of its own; None is all."""
        raise NotImplementedError


class Filter(Step):
    __slots__ = ("predicate",)

    def __init__(self, source: Node, predicate: Expr) -> None:
        bind_predicate(predicate, source.schema)
        self.input = source
        self.predicate = predicate
        self.schema = source.schema

    def with_children(self, children: Sequence[Node]) -> Filter:
        return Filter(children[0], self.predicate)

    def columns_read(self, needed: set[str] | None) -> set[str] | None:
        return _and_columns(needed, (self.predicate,))


class Project(Step):
    __slots__ = ("items",)

    def __init__(self, source: Node, items: Sequence[tuple[str, Expr]]) -> None:
        self.input = source
        self.items = tuple(items)
        self.schema = Schema((name, bind(item, source.schema).type) for name, item in self.items)

    def with_children(self, children: Sequence[Node]) -> Project:
        return Project(children[0], self.items)

    def columns_read(self, needed: set[str] | None) -> set[str] | None:
        used = [item for name, item in self.items if needed is None or name in needed]
        return _and_columns(set(), used)


class GroupBy(Step):
    """Aggregates, by keys or over everything."""

    __slots__ = ("calls", "keys")

    def __init__(
        self, source: Node, keys: Sequence[tuple[str, Expr]], calls: Sequence[tuple[str, Aggregate]]
    ) -> None:
        self.input = source
        self.keys = tuple(keys)
        self.calls = tuple(calls)
        fields = [(name, _group_key(bind(key, source.schema))) for name, key in self.keys]
        for name, call in self.calls:
            fields.append((name, aggregate_types(call, _argument_type(call, source.schema))[1]))
        self.schema = Schema(fields)

    def with_children(self, children: Sequence[Node]) -> GroupBy:
        return GroupBy(children[0], self.keys, self.calls)

    def columns_read(self, needed: set[str] | None) -> set[str] | None:
        used = [key for _, key in self.keys]
        used += [call.value for _, call in self.calls if call.value is not None]
        return _and_columns(set(), used)


class Sort(Step):
    __slots__ = ("keys",)

    def __init__(self, source: Node, keys: Sequence[tuple[Expr, bool, bool]]) -> None:
        """Keys with: descending? NULLs first?"""
        self.input = source
        self.keys = tuple(keys)
        self.schema = source.schema
        for key, _, _ in self.keys:
            bound = bind_argument(key, source.schema)
            if not _has_order(bound.type):
                raise error("NOT_SUPPORTED", f"cannot sort by {bound.text}: {bound.type} has no order")

    def with_children(self, children: Sequence[Node]) -> Sort:
        return Sort(children[0], self.keys)

    def columns_read(self, needed: set[str] | None) -> set[str] | None:
        return _and_columns(needed, [key for key, _, _ in self.keys])


class Limit(Step):
    __slots__ = ("count", "offset")

    def __init__(self, source: Node, offset: int, count: int | None) -> None:
        self.input = source
        self.offset = offset
        self.count = count
        self.schema = source.schema

    def with_children(self, children: Sequence[Node]) -> Limit:
        return Limit(children[0], self.offset, self.count)

    def columns_read(self, needed: set[str] | None) -> set[str] | None:
        return needed

    def rows_needed(self) -> int:
        """Rows of the input that can matter."""
        return UNLIMITED if self.count is None else min(self.offset + self.count, UNLIMITED)


class Repeat(Step):
    """Every row as often as an int64 expression says: what INTERSECT ALL and EXCEPT ALL need."""

    __slots__ = ("count",)

    def __init__(self, source: Node, count: Expr) -> None:
        self.input = source
        self.count = count
        self.schema = source.schema
        bound = bind(count, source.schema)
        if bound.type != INT64:
            raise error("QUERY_FAILED", f"rows are repeated by an int64, but {bound.text} is {bound.type}")

    def with_children(self, children: Sequence[Node]) -> Repeat:
        return Repeat(children[0], self.count)

    def columns_read(self, needed: set[str] | None) -> set[str] | None:
        return _and_columns(needed, (self.count,))


class MapBatches(Step):
    """What a Python function makes of Arrow batches."""

    __slots__ = ("function",)

    def __init__(
        self, source: Node, function: Callable[[pyarrow.RecordBatch], pyarrow.RecordBatch], schema: Schema
    ) -> None:
        self.input = source
        self.function = function
        self.schema = schema

    def with_children(self, children: Sequence[Node]) -> MapBatches:
        return MapBatches(children[0], self.function, self.schema)

    def columns_read(self, needed: set[str] | None) -> set[str] | None:
        return None


#: `mark`: every row of the left side and whether it has a match: TRUE, FALSE or NULL, as IN in SQL. `single`:
#: like left, but several matches of one row are an error. `semi`, `anti`: left rows with and without a match.
JOIN_KINDS = ("inner", "left", "right", "full", "cross", "semi", "anti", "mark", "single")
_LEFT_ONLY = ("semi", "anti", "mark")


class Join(Node):
    """Pairs of rows for which all keys are equal and the residual, if any, is true.

    Keys are pairs of expressions, one over each side. `null_equal`: NULL keys equal each other. `mark`: the
    name of the bool column that a mark join adds.
    """

    __slots__ = ("keys", "kind", "left", "mark", "null_equal", "residual", "right")

    def __init__(
        self,
        left: Node,
        right: Node,
        kind: str,
        keys: Sequence[tuple[Expr, Expr]] = (),
        residual: Expr | None = None,
        *,
        mark: str | None = None,
        null_equal: bool = False,
    ) -> None:
        assert kind in JOIN_KINDS and (mark is not None) == (kind == "mark"), kind
        self.left = left
        self.right = right
        self.kind = kind
        self.keys = tuple(keys)
        self.residual = residual
        self.mark = mark
        self.null_equal = null_equal
        both = Schema([*left.schema, *right.schema])
        for ours, theirs in self.keys:
            bind_keys(ours, left.schema, theirs, right.schema)
        if residual is not None:
            bind_predicate(residual, both)
        self.schema = left.schema if kind in _LEFT_ONLY else both
        if mark is not None:
            self.schema = Schema([*left.schema, (mark, BOOL)])

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    def with_children(self, children: Sequence[Node]) -> Join:
        left, right = children
        return Join(
            left, right, self.kind, self.keys, self.residual, mark=self.mark, null_equal=self.null_equal
        )

    def columns_read(self, needed: set[str] | None) -> tuple[set[str], set[str]]:
        """Of the left and of the right side."""
        names = set(self.schema.names) if needed is None else set(needed)
        if self.residual is not None:
            columns_of(self.residual, names)
        for ours, theirs in self.keys:
            columns_of(ours, names)
            columns_of(theirs, names)
        left, right = set(self.left.schema.names), set(self.right.schema.names)
        return names & left, names & right


class Union(Node):
    """All rows of all inputs, which have the same types; the names are the first one's."""

    __slots__ = ("inputs",)

    def __init__(self, inputs: Sequence[Node]) -> None:
        self.inputs = tuple(inputs)
        self.schema = self.inputs[0].schema
        for other in self.inputs[1:]:
            if other.schema.types != self.schema.types:
                raise error(
                    "SCHEMA_MISMATCH",
                    f"a union takes inputs of the same types, not {self.schema} and {other.schema}",
                )

    @property
    def children(self) -> tuple[Node, ...]:
        return self.inputs

    def with_children(self, children: Sequence[Node]) -> Union:
        return Union(children)


def _and_columns(needed: set[str] | None, expressions: Iterable[Expr]) -> set[str] | None:
    if needed is None:
        return None
    names = set(needed)
    for expression in expressions:
        columns_of(expression, names)
    return names


def _argument_type(call: Aggregate, schema: Schema) -> DataType:
    return NULL if call.value is None else bind(call.value, schema).type


def _group_key(bound: Bound) -> DataType:
    from querymode.types import is_nested, is_vector

    if is_nested(bound.type) or is_vector(bound.type):
        raise error("NOT_SUPPORTED", f"cannot group by {bound.text} yet: it is {bound.type}")
    return bound.type


def _has_order(data_type: DataType) -> bool:
    from querymode.types import is_nested, is_vector

    return not (is_nested(data_type) or is_vector(data_type))


def known_counts(node: Node) -> list[int] | None:
    """The answer to counts over a whole table, where the table knows it without reading a row."""
    if not isinstance(node, GroupBy) or node.keys or not isinstance(node.input, Scan):
        return None
    table = node.input.source
    counts = []
    for _, call in node.calls:
        if call.op == AggregateOp.COUNT_ROWS:
            counts.append(table.row_count)
        elif call.op == AggregateOp.COUNT and isinstance(call.value, Column):
            nulls = table.null_count(table.schema.index(call.value.name))
            if nulls is None:
                return None
            counts.append(table.row_count - nulls)
        else:
            return None
    return counts


def is_file_aggregate(node: Node) -> bool:
    """Aggregates over whole files, which their footers may answer."""
    if not isinstance(node, GroupBy) or node.keys or not isinstance(node.input, Scan):
        return False
    from querymode.file_table import FileTable

    return isinstance(node.input.source, FileTable)


# ---- lowering ----


class Work:
    """What to run: `lane` over every lane's morsels; `final`, if any, over the lanes' answers."""

    __slots__ = (
        "columns",
        "final",
        "has_filter",
        "lane",
        "one_row_lanes",
        "pruning",
        "rows_needed",
        "schema",
        "source",
    )

    def __init__(self, source: MemoryTable | FileTable, columns: tuple[int, ...], schema: Schema) -> None:
        self.source = source
        #: Columns of the source, by number, in the order the lane plan names them.
        self.columns = columns
        self.schema = schema
        self.lane = b""
        self.final: bytes | None = None
        #: Lanes in order may stop once they have given this many rows together.
        self.rows_needed: int | None = None
        #: Every lane gives one row: aggregates without keys.
        self.one_row_lanes = False
        #: Files only: the lane plan begins with a filter, and what of it speaks of statistics.
        self.has_filter = False
        self.pruning: Pruning | None = None


def lower(node: Node) -> Work:
    """The work of a plan. Nodes do not change, so a frame that is asked again is not bound again."""
    found: Work | None = getattr(node, "_work", None)
    if found is None:
        found = node._work = _lower(node)
    return found


def _lower(node: Node) -> Work:
    steps: list[Step] = []
    bottom = node
    while isinstance(bottom, Step):
        steps.append(bottom)
        bottom = bottom.input
    assert isinstance(bottom, Scan)
    steps.reverse()
    needs = _needed_columns(steps)
    columns = bottom.schema.indices(needs[0])
    work = Work(bottom.source, columns, node.schema)
    lane = _Wire(bottom.schema.part(columns))
    final: _Wire | None = None
    for index, step in enumerate(steps):
        target = final or lane
        if isinstance(step, Filter):
            target.filter(step)
        elif isinstance(step, Project):
            target.project(step, needs[index + 1])
        elif final is not None or bottom.source.lane_count <= 1:
            if isinstance(step, Limit) and all(
                isinstance(before, Filter | Project) for before in steps[:index]
            ):
                work.rows_needed = None if step.count is None else step.rows_needed() or None
            _add_whole(target, step, _limit_behind(steps, index))
        else:
            final = _split(lane, work, step, _limit_behind(steps, index))
    work.lane = lane.encoded()
    _push_filters(work, steps)
    work.final = final.encoded() if final is not None else None
    return work


def _push_filters(work: Work, steps: list[Step]) -> None:
    """Filters that come before everything else also speak of whole row groups and pages."""
    from querymode.file_table import FileTable

    leading: list[Expr] = []
    for step in steps:
        if not isinstance(step, Filter):
            break
        leading.append(step.predicate)
    if not leading or not isinstance(work.source, FileTable):
        return
    from querymode.prune import rewrite

    work.has_filter = True
    work.pruning = rewrite(leading, work.source.schema)


def plan_over(source: Node, steps: Sequence[Filter | GroupBy]) -> bytes:
    """The engine's plan of these steps, over all columns of a relation that is no table."""
    wire = _Wire(source.schema)
    for step in steps:
        if isinstance(step, Filter):
            wire.filter(step)
        else:
            wire.aggregate(step, AggregatePhase.COMPLETE)
    return wire.encoded()


def _needed_columns(steps: list[Step]) -> list[set[str] | None]:
    """For the source and then behind every step: which columns are used further up."""
    needs: list[set[str] | None] = [None]
    for step in reversed(steps):
        needs.append(step.columns_read(needs[-1]))
    needs.reverse()
    return needs


def _limit_behind(steps: list[Step], index: int) -> Limit | None:
    following = steps[index + 1] if index + 1 < len(steps) else None
    return following if isinstance(following, Limit) else None


def _add_whole(target: _Wire, step: Step, limit: Limit | None) -> None:
    """All of a step. A sort that a limit follows need not order more than the limit lets through."""
    if isinstance(step, GroupBy):
        target.aggregate(step, AggregatePhase.COMPLETE)
    elif isinstance(step, Sort):
        target.sort(step, UNLIMITED if limit is None else limit.rows_needed())
    elif isinstance(step, Limit):
        target.limit(step.offset, step.count)


def _split(lane: _Wire, work: Work, step: Step, limit: Limit | None) -> _Wire:
    """A step's share of every lane; returns the plan that does the rest of it once."""
    if isinstance(step, GroupBy):
        states = _state_fields(step, lane.schema)
        lane.aggregate(step, AggregatePhase.PARTIAL)
        work.one_row_lanes = not step.keys
        final = _Wire(lane.schema, states)
        final.aggregate(step, AggregatePhase.FINAL)
        return final
    final = _Wire(lane.schema)
    if isinstance(step, Sort):
        rows = UNLIMITED if limit is None else limit.rows_needed()
        if rows != UNLIMITED:
            lane.sort(step, rows)
        final.sort(step, rows)
    elif isinstance(step, Limit):
        if step.count is not None:
            lane.limit(0, step.rows_needed())
            work.rows_needed = step.rows_needed()
        final.limit(step.offset, step.count)
    return final


class _Wire:
    """A plan on its way to bytes; `schema` is what comes out so far."""

    def __init__(self, schema: Schema, fields: Iterable[tuple[str, DataType]] | None = None) -> None:
        self.schema = schema
        #: What goes in. Not the schema only for states of aggregates, whose names may repeat.
        self.fields = list(schema if fields is None else fields)
        self.steps: list[bytes] = []

    def encoded(self) -> bytes:
        return encode_plan(self.fields, self.steps)

    def filter(self, step: Filter) -> None:
        self.steps.append(bytes((NodeTag.FILTER,)) + bind_predicate(step.predicate, self.schema).wire)

    def project(self, step: Project, needed: set[str] | None) -> None:
        items = [(name, item) for name, item in step.items if needed is None or name in needed]
        bound = [(name, bind(item, self.schema)) for name, item in items]
        wire = b"".join(_name(name) + item.wire for name, item in bound)
        self.steps.append(bytes((NodeTag.PROJECT,)) + len(items).to_bytes(2, "little") + wire)
        self.schema = Schema((name, item.type) for name, item in bound)

    def sort(self, step: Sort, rows: int) -> None:
        keys = [
            (bind_argument(key, self.schema).wire, descending, nulls_first)
            for key, descending, nulls_first in step.keys
        ]
        self.steps.append(encode_sort(keys, rows))

    def limit(self, offset: int, count: int | None) -> None:
        self.steps.append(encode_limit(offset, count))

    def aggregate(self, step: GroupBy, phase: AggregatePhase) -> None:
        if phase == AggregatePhase.FINAL:
            keys, calls = self._final_parts(step)
        else:
            keys = [_name(name) + bind(key, self.schema).wire for name, key in step.keys]
            calls = [_call(name, call.op, _argument(call, self.schema)) for name, call in step.calls]
        self.schema = step.schema
        wire = bytes((NodeTag.AGGREGATE, phase)) + len(keys).to_bytes(2, "little") + b"".join(keys)
        self.steps.append(wire + len(calls).to_bytes(2, "little") + b"".join(calls))

    def _final_parts(self, step: GroupBy) -> tuple[list[bytes], list[bytes]]:
        """Keys and states by position, as `_state_fields` lays them out."""
        keys = [_name(name) + column_at(index) for index, (name, _) in enumerate(step.keys)]
        calls = []
        position = len(keys)
        for name, call in step.calls:
            calls.append(_call(name, call.op, column_at(position)))
            position += 2 if call.op == AggregateOp.AVG else 1
        return keys, calls


def _state_fields(step: GroupBy, schema: Schema) -> list[tuple[str, DataType]]:
    """The columns that a partial aggregate hands to its final one."""
    fields = [(name, bind(key, schema).type) for name, key in step.keys]
    for name, call in step.calls:
        fields.append((name, aggregate_types(call, _argument_type(call, schema))[0]))
        if call.op == AggregateOp.AVG:
            fields.append((name, INT64))
    return fields


def encode_plan(fields: Sequence[tuple[str, DataType]], steps: Sequence[bytes]) -> bytes:
    """A plan's wire form: what goes in, and the steps in order (wasm/src/plan/plan.zig draws it)."""
    head = struct.pack("<IIHH", _abi.PLAN_MAGIC, _abi.VERSION, 0, len(fields))
    inputs = b"".join(_name(name) + encode_type(data_type) for name, data_type in fields)
    return head + inputs + len(steps).to_bytes(2, "little") + b"".join(steps)


def encode_sort(keys: Sequence[tuple[bytes, bool, bool]], rows: int) -> bytes:
    """A sort step: expressions with whether they descend and whether NULLs come first."""
    wire = b"".join(bytes((descending, nulls_first)) + key for key, descending, nulls_first in keys)
    return bytes((NodeTag.SORT,)) + len(keys).to_bytes(2, "little") + wire + rows.to_bytes(8, "little")


def encode_limit(offset: int, count: int | None) -> bytes:
    rows = UNLIMITED if count is None else min(count, UNLIMITED)
    return struct.pack("<BQQ", NodeTag.LIMIT, offset, rows)


def _name(name: str) -> bytes:
    raw = encode_text(name)
    if len(raw) > 0xFFFF:
        raise error("NOT_SUPPORTED", f"the column name {name[:40]!r}… has more than 65,535 bytes")
    return len(raw).to_bytes(2, "little") + raw


def column_at(index: int) -> bytes:
    return bytes((_abi.ExpressionTag.COLUMN,)) + index.to_bytes(2, "little")


def _argument(call: Aggregate, schema: Schema) -> bytes | None:
    return None if call.value is None else bind_argument(call.value, schema).wire


def _call(name: str, op: AggregateOp, argument: bytes | None) -> bytes:
    head = bytes((op,)) + _name(name)
    return head + b"\x00" if argument is None else head + b"\x01" + argument
