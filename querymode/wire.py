"""Plans on their way to the engine: steps as bytes (wasm/src/plan/plan.zig draws them)."""

from __future__ import annotations

import struct

from querymode import _abi
from querymode._abi import AggregatePhase, NodeTag
from querymode.aggregates import BoundCall, encode_aggregate
from querymode.bind import bind, bind_argument, bind_keys, bind_predicate
from querymode.errors import error
from querymode.literals import encode_text
from querymode.plan import UNLIMITED, GroupBy
from querymode.schema import Schema
from querymode.types import BOOL, encode_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from querymode.expr import Expr
    from querymode.plan import Filter, Join, Node, Sort
    from querymode.types import DataType

_HEAD = struct.Struct("<IIH")


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

    def sort(self, step: Sort, rows: int) -> None:
        keys = [
            (bind_argument(key, self.schema).wire, descending, nulls_first)
            for key, descending, nulls_first in step.keys
        ]
        self.steps.append(encode_sort(keys, rows))

    def limit(self, offset: int, count: int | None) -> None:
        self.steps.append(encode_limit(offset, count))

    def repeat(self, count: Expr) -> None:
        self.steps.append(bytes((NodeTag.REPEAT,)) + bind(count, self.schema).wire)

    def join(self, step: Join, build: int, theirs: Schema, needed: set[str] | None) -> None:
        """Probes a build, whose columns are `theirs`, with the rows so far."""
        names = set(step.schema.names) if needed is None else needed
        outputs: list[tuple[str, int, int]] = []
        fields: list[tuple[str, DataType]] = []
        for index, (name, data_type) in enumerate(self.schema):
            if name in names:
                outputs.append((name, _abi.JoinSide.INPUT, index))
                fields.append((name, data_type))
        if step.kind in ("inner", "left", "single"):
            for index, (name, data_type) in enumerate(theirs):
                if name in names:
                    outputs.append((name, _abi.JoinSide.BUILD, index))
                    fields.append((name, data_type))
        if step.mark is not None:
            outputs.append((step.mark, _abi.JoinSide.MARK, 0))
            fields.append((step.mark, BOOL))
        keys = [bind_keys(ours, self.schema, other, theirs)[0].wire for ours, other in step.keys]
        wire = struct.pack(
            "<BHBH", NodeTag.JOIN, build, _abi.JoinKind[step.kind.upper()], len(keys)
        ) + b"".join(keys)
        wire += len(outputs).to_bytes(2, "little")
        wire += b"".join(encode_name(name) + struct.pack("<BH", side, index) for name, side, index in outputs)
        wire += bytes((step.residual is not None,))
        if step.residual is not None:
            wire += bind_predicate(step.residual, Schema([*self.schema, *theirs])).wire
        self.steps.append(wire)
        self.schema = Schema(fields)

    def build(self, keys: Sequence[bytes], *, null_equal: bool, bloom: bool) -> None:
        """The last step: the rows become what joins probe."""
        flags = null_equal * _abi.BUILD_NULL_EQUAL + bloom * _abi.BUILD_BLOOM
        wire = struct.pack("<BBH", NodeTag.BUILD, flags, len(keys))
        self.steps.append(wire + b"".join(keys))

    def partition(self, count: int, keys: Sequence[bytes]) -> None:
        """The last step: rows of equal keys leave in the same part."""
        self.steps.append(struct.pack("<BHH", NodeTag.PARTITION, count, len(keys)) + b"".join(keys))

    def partition_by_first(self, count: int, key_count: int) -> None:
        """The same by the first columns: the keys of a partial aggregate."""
        self.partition(count, [column_at(index) for index in range(key_count)])

    def merge(self, step: Sort, rows: int) -> None:
        """The first step: sorted runs become one."""
        keys = [
            bytes((descending, nulls_first)) + bind_argument(key, self.schema).wire
            for key, descending, nulls_first in step.keys
        ]
        head = struct.pack("<BBH", NodeTag.MERGE, 0, len(keys))
        self.steps.append(head + b"".join(keys) + rows.to_bytes(8, "little"))

    def in_build(self, build: int, keys: Sequence[bytes], flags: int) -> None:
        """A filter, before all others but those at the front: rows whose keys the build has."""
        head = struct.pack("<BBHBH", NodeTag.FILTER, _abi.ExpressionTag.IN_BUILD, build, flags, len(keys))
        self.steps.insert(self.filter_count, head + b"".join(keys))
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


def encode_plan(
    fields: Sequence[tuple[str, DataType]], steps: Sequence[bytes], build_count: int = 0
) -> bytes:
    """A plan's wire form: what goes in, and the steps in order. `with_builds` names the builds later."""
    head = _HEAD.pack(_abi.PLAN_MAGIC, _abi.VERSION, build_count) + bytes(4 * build_count)
    inputs = b"".join(encode_name(name) + encode_type(data_type) for name, data_type in fields)
    counts = len(fields).to_bytes(2, "little"), len(steps).to_bytes(2, "little")
    return head + counts[0] + inputs + counts[1] + b"".join(steps)


def with_builds(plan: bytes, handles: Sequence[int]) -> bytes:
    """The plan for an instance in which its builds have these handles."""
    if not handles:
        return plan
    names = struct.pack(f"<{len(handles)}I", *handles)
    return plan[: _HEAD.size] + names + plan[_HEAD.size + len(names) :]


def encode_sort(keys: Sequence[tuple[bytes, bool, bool]], rows: int) -> bytes:
    """A sort step: expressions with whether they descend and whether NULLs come first."""
    wire = b"".join(bytes((descending, nulls_first)) + key for key, descending, nulls_first in keys)
    return bytes((NodeTag.SORT,)) + len(keys).to_bytes(2, "little") + wire + rows.to_bytes(8, "little")


def encode_limit(offset: int, count: int | None) -> bytes:
    rows = UNLIMITED if count is None else min(count, UNLIMITED)
    return struct.pack("<BQQ", NodeTag.LIMIT, offset, rows)


def encode_name(name: str) -> bytes:
    raw = encode_text(name)
    if len(raw) > 0xFFFF:
        raise error("NOT_SUPPORTED", f"the column name {name[:40]!r}… has more than 65,535 bytes")
    return len(raw).to_bytes(2, "little") + raw


def column_at(index: int) -> bytes:
    return bytes((_abi.ExpressionTag.COLUMN,)) + index.to_bytes(2, "little")
