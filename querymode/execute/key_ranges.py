"""What the keys of finished builds say of the tables that will be probed: their least and their greatest
value.
"""

from __future__ import annotations

from querymode._abi import AggregateOp, AggregatePhase
from querymode.engine.one_task import outputs
from querymode.expr.nodes import Aggregate, Between, Column, Expr, Literal
from querymode.plan.nodes import GroupBy, Rows
from querymode.plan.wire import Wire
from querymode.qmcb import rows_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from querymode.engine.instance import Instance
    from querymode.execute.query_run import QueryRun
    from querymode.stage.stage import KeyRange


def bounds(instance: Instance, ranges: Sequence[KeyRange], query: QueryRun) -> list[Expr] | None:
    """Conditions on columns of a table; None when a build has no key at all, so that no row can match."""
    found: list[Expr] = []
    for same in _by_build(ranges):
        for key_range, (least, greatest) in zip(same, _extremes(instance, same, query), strict=True):
            if least is None:
                return None
            found.append(Between(Column(key_range.column), Literal(least), Literal(greatest)))
    return found


def _by_build(ranges: Sequence[KeyRange]) -> list[list[KeyRange]]:
    """The rows of a build are looked through once, for all of its keys."""
    found: dict[int, list[KeyRange]] = {}
    for key_range in ranges:
        found.setdefault(key_range.build.number, []).append(key_range)
    return list(found.values())


def _extremes(instance: Instance, ranges: Sequence[KeyRange], query: QueryRun) -> list[tuple[object, object]]:
    """The least and the greatest value of every key of one build."""
    from querymode._abi import SourceKind

    build = ranges[0].build
    calls = []
    for place, key_range in enumerate(ranges):
        calls.append((f"least {place}", Aggregate(AggregateOp.MIN, key_range.key)))
        calls.append((f"greatest {place}", Aggregate(AggregateOp.MAX, key_range.key)))
    step = GroupBy(Rows(build.schema), (), calls)
    wire = Wire(build.schema)
    wire.aggregate(step, AggregatePhase.COMPLETE)
    opened = instance.query_open(wire.encoded())
    for batch in query.result(build.stage):
        address = instance.alloc(batch.size)
        instance.write(address, batch.data)
        instance.query_push(opened, SourceKind.QMCB, address=address, size=batch.size)
        instance.free(address, batch.size)
    batches = list(outputs(instance, opened, instance.query_finish(opened)))
    instance.query_close(opened)
    row = rows_of(batches)[0]
    return [(row[f"least {place}"], row[f"greatest {place}"]) for place in range(len(ranges))]
