"""Common subexpressions: what several expressions of a step compute is computed once, by a projection below
it.

Parts of CASE, COALESCE, AND and OR stay where they are: they may be asked for some rows only, and could fail
for the others.
"""

from __future__ import annotations

from querymode.expr.nodes import (
    Aggregate,
    And,
    Arithmetic,
    Case,
    Cast,
    Coalesce,
    Column,
    Expr,
    Function,
    Like,
    Or,
)
from querymode.expr.trees import columns_in, identity, map_children, parts_of, reads_columns
from querymode.plan.nodes import GroupBy, Node, Project, rebuilt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_WORTH = (Arithmetic, Function, Cast, Like, Case)
_SEALED = (Case, Coalesce, And, Or)


def share(node: Node) -> Node:
    """The plan, with what its steps compute several times computed once."""
    return rebuilt(node, _shared_step)


def _shared_step(node: Node) -> Node:
    if isinstance(node, Project):
        names = [name for name, _ in node.items]
        source, items = _shared(node.input, [item for _, item in node.items])
        return node if source is node.input else Project(source, list(zip(names, items, strict=True)))
    return _shared_groups(node) if isinstance(node, GroupBy) else node


def _shared_groups(node: GroupBy) -> Node:
    expressions: list[Expr] = [key for _, key in node.keys]
    expressions += [call for _, call in node.calls]
    source, changed = _shared(node.input, expressions)
    if source is node.input:
        return node
    keys = [(name, key) for (name, _), key in zip(node.keys, changed, strict=False)]
    calls: list[tuple[str, Aggregate]] = []
    for (name, _), call in zip(node.calls, changed[len(keys) :], strict=True):
        assert isinstance(call, Aggregate)
        calls.append((name, call))
    return GroupBy(source, keys, calls)


def _shared(source: Node, expressions: Sequence[Expr]) -> tuple[Node, list[Expr]]:
    if sum(map(_worth, expressions)) < 2:
        return source, list(expressions)
    counts: dict[object, int] = {}
    for expression in expressions:
        _count(expression, counts)
    if all(count == 1 for count in counts.values()):
        return source, list(expressions)
    chosen: dict[object, str] = {}
    made: list[tuple[str, Expr]] = []

    def change(part: Expr) -> Expr:
        if isinstance(part, _WORTH):
            key = identity(part)
            if counts.get(key, 0) > 1:
                if key not in chosen:
                    chosen[key] = f"shared {len(chosen)}"
                    made.append((chosen[key], part))
                return Column(chosen[key])
        return part if isinstance(part, _SEALED) else map_children(part, change)

    changed = [change(expression) for expression in expressions]
    if not made or any(name in source.schema for name, _ in made):
        return source, list(expressions)
    passed = columns_in(*changed) - {name for name, _ in made}
    items: list[tuple[str, Expr]] = [(name, Column(name)) for name in source.schema.names if name in passed]
    return Project(source, [*items, *made]), changed


def _worth(expression: Expr) -> int:
    """How many parts could be shared: with less than two there is nothing to compare."""
    return isinstance(expression, _WORTH) + sum(map(_worth, parts_of(expression)))


def _count(expression: Expr, counts: dict[object, int]) -> None:
    """Of a repeated part, the parts inside are not counted again: the largest one is shared."""
    if isinstance(expression, _WORTH) and reads_columns(expression):
        key = identity(expression)
        counts[key] = counts.get(key, 0) + 1
        if counts[key] > 1:
            return
    if isinstance(expression, _SEALED):
        return
    for part in parts_of(expression):
        _count(part, counts)
