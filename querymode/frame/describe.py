"""What is known of a table's columns, from its metadata where that is enough."""

from __future__ import annotations

from querymode._abi import AggregateOp
from querymode.expr.nodes import Aggregate, Column
from querymode.optimize.known_answers import known_answer
from querymode.plan.nodes import GroupBy, has_order
from querymode.plan.snapshots import pinned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from querymode.frame.frame import DataFrame


def describe(frame: DataFrame) -> list[dict[str, Any]]:
    """Per column its type, its values and NULLs, the least and the greatest."""
    frame = frame._with(pinned(frame._node))
    schema = frame.schema
    rows = frame.count()
    found: dict[str, dict[str, Any]] = {}
    left = []
    for name in schema.names:
        known = _known(frame, name)
        if known is None:
            left.append(name)
        else:
            found[name] = known
    if left:
        answer = frame._with(GroupBy(frame._node, (), _calls(frame, left))).collect().rows[0]
        for place, name in enumerate(left):
            found[name] = _picked(answer, place)
    return [
        {"column": name, "type": str(data_type), "rows": rows, "nulls": rows - found[name]["count"]}
        | {"min": found[name].get("min"), "max": found[name].get("max")}
        for name, data_type in schema
    ]


def _known(frame: DataFrame, name: str) -> dict[str, Any] | None:
    node = GroupBy(frame._node, (), _calls(frame, [name]))
    batch = known_answer(node)
    if batch is None:
        return None
    from querymode.qmcb import rows_of

    return _picked(rows_of([batch])[0], 0)


def _calls(frame: DataFrame, names: list[str]) -> list[tuple[str, Aggregate]]:
    calls = []
    for place, name in enumerate(names):
        calls.append((f"count {place}", Aggregate(AggregateOp.COUNT, Column(name))))
        if has_order(frame.schema.type_of(name)):
            calls.append((f"min {place}", Aggregate(AggregateOp.MIN, Column(name))))
            calls.append((f"max {place}", Aggregate(AggregateOp.MAX, Column(name))))
    return calls


def _picked(row: dict[str, Any], place: int) -> dict[str, Any]:
    return {kind: row.get(f"{kind} {place}") for kind in ("count", "min", "max")}
