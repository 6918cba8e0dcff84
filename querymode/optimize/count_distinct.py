"""count(DISTINCT x) over everything, as the number of groups that x makes.

A set of values that is built in one place takes one worker. Groups are made by all of them, in partitions
that fit a cache.
"""

from __future__ import annotations

from querymode._abi import AggregateOp
from querymode.expr.nodes import Aggregate, Column
from querymode.expr.trees import identity, reads_columns
from querymode.plan.bind import bind
from querymode.plan.nodes import GroupBy
from querymode.types import is_nested, is_vector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from querymode.expr.nodes import Expr

_NAME = "value"


def counted_groups(node: GroupBy) -> GroupBy | None:
    """The same answer by groups; None where the step asks for something else too."""
    value = _counted_value(node)
    if value is None:
        return None
    groups = GroupBy(node.input, [(_NAME, value)], [])
    # NULL is a group, and not a value that is counted.
    count = Aggregate(AggregateOp.COUNT, Column(_NAME))
    return GroupBy(groups, [], [(name, count) for name, _ in node.calls])


def _counted_value(node: GroupBy) -> Expr | None:
    """What is counted, if that is one thing."""
    if node.keys or not node.calls:
        return None
    value = node.calls[0][1].value
    if value is None or not reads_columns(value):
        return None
    same = identity(Aggregate(AggregateOp.COUNT, value, distinct=True))
    if any(identity(call) != same for _, call in node.calls):
        return None
    data_type = bind(value, node.input.schema).type
    return None if is_nested(data_type) or is_vector(data_type) else value
