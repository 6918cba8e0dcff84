"""What the keys of finished builds say of the tables that will be probed: their least and their greatest
value.
"""

from __future__ import annotations

from querymode._abi import AggregateOp, AggregatePhase
from querymode.execute.single import outputs
from querymode.expr import Aggregate, Between, Column, Expr, Literal
from querymode.plan import GroupBy, Node
from querymode.result import Result
from querymode.wire import Wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from querymode._wasm import Instance
    from querymode.execute.local import QueryRun
    from querymode.lower import KeyRange
    from querymode.schema import Schema


class _Rows(Node):
    """The rows of a stage."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema


def bounds(instance: Instance, ranges: Sequence[KeyRange], query: QueryRun) -> list[Expr] | None:
    """Conditions on columns of a table; None when a build has no key at all, so that no row can match."""
    found: list[Expr] = []
    for key_range in ranges:
        least, greatest = _extremes(instance, key_range, query)
        if least is None:
            return None
        found.append(Between(Column(key_range.column), Literal(least), Literal(greatest)))
    return found


def _extremes(instance: Instance, key_range: KeyRange, query: QueryRun) -> tuple[object, object]:
    from querymode._abi import SourceKind

    stage = key_range.build.stage
    calls = [
        ("least", Aggregate(AggregateOp.MIN, key_range.key)),
        ("greatest", Aggregate(AggregateOp.MAX, key_range.key)),
    ]
    step = GroupBy(_Rows(stage.schema), (), calls)
    wire = Wire(stage.schema)
    wire.aggregate(step, AggregatePhase.COMPLETE)
    opened = instance.query_open(wire.encoded())
    for batch in query.result(stage):
        address = instance.alloc(len(batch))
        instance.write(address, batch)
        instance.query_push(opened, SourceKind.QMCB, address=address, size=len(batch))
        instance.free(address, len(batch))
    batches = list(outputs(instance, opened, instance.query_finish(opened)))
    instance.query_close(opened)
    row = Result(batches, step.schema, {}).rows[0]
    return row["least"], row["greatest"]
