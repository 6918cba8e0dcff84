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
from querymode.expr.trees import (
    columns_in,
    identity,
    map_children,
    once,
    parts_of,
    parts_twice,
    reads_columns,
    tree_size,
)
from querymode.plan.nodes import Filter, GroupBy, Node, Project, rebuilt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from querymode.expr.trees import Identities

_WORTH = (Arithmetic, Function, Cast, Like, Case)
_SEALED = (Case, Coalesce, And, Or)
#: Parts of what is worth a step of its own for what it shares inside.
_LARGE = 64
#: Parts of a condition that is worth a projection below it.
_HUGE = 4096


def share(node: Node) -> Node:
    """The plan, with what its steps compute several times computed once."""
    return rebuilt(node, _shared_step)


def _shared_step(node: Node) -> Node:
    if isinstance(node, Project):
        names = [name for name, _ in node.items]
        source, items = _shared(node.input, [item for _, item in node.items])
        return node if source is node.input else Project(source, list(zip(names, items, strict=True)))
    if isinstance(node, Filter):
        return _shared_condition(node)
    return _shared_groups(node) if isinstance(node, GroupBy) else node


def _shared_condition(node: Filter) -> Node:
    """Filters work on columns as they are read, unless that would take much longer than a projection does."""
    if tree_size(node.predicate) <= _HUGE:
        return node
    source, (predicate,) = _shared(node.input, [node.predicate], whole=True)
    if source is node.input:
        return node
    return Project(Filter(source, predicate), [(name, Column(name)) for name in node.schema.names])


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


def _shared(source: Node, expressions: Sequence[Expr], *, whole: bool = False) -> tuple[Node, list[Expr]]:
    """A projection of what is shared, and the expressions over it. `whole`: all other columns pass it."""
    if not _have_parts_to_share(expressions):
        return source, list(expressions)
    known: Identities = {}
    counts = _counts(expressions, known)
    if all(count == 1 for count in counts.values()):
        return source, list(expressions)
    chosen: dict[object, str] = {}
    #: How many projections lie below the one that has it.
    levels: dict[str, int] = {}
    made: list[list[tuple[str, Expr]]] = []

    def choose(part: Expr) -> str:
        name = chosen[identity(part, known)] = f"shared {len(chosen)}"
        # Small parts are computed with what they share rather than by one more step.
        large = not isinstance(part, _SEALED) and tree_size(part) > _LARGE
        inner = map_children(part, change) if large else part
        level = levels[name] = max(
            [levels[other] + 1 for other in columns_in(inner) if other in levels], default=0
        )
        made.extend([] for _ in range(len(made), level + 1))
        made[level].append((name, inner))
        return name

    def changed_part(part: Expr) -> Expr:
        if isinstance(part, _WORTH):
            key = identity(part, known)
            if counts.get(key, 0) > 1:
                return Column(chosen[key] if key in chosen else choose(part))
        return part if isinstance(part, _SEALED) else map_children(part, change)

    change = once(changed_part)
    changed = [change(expression) for expression in expressions]
    if not made or any(name in source.schema for name in levels):
        return source, list(expressions)
    return _projections(source, made, set(source.schema.names) if whole else columns_in(*changed)), changed


def _projections(source: Node, made: list[list[tuple[str, Expr]]], needed: set[str]) -> Node:
    """One upon the other: each makes its items, and passes what is needed above it."""
    passed: list[set[str]] = []
    for items in reversed(made):
        needed = needed - {name for name, _ in items}
        passed.append(needed)
        needed = needed | columns_in(*[item for _, item in items])
    for items, names in zip(made, reversed(passed), strict=True):
        passing: list[tuple[str, Expr]] = [
            (name, Column(name)) for name in source.schema.names if name in names
        ]
        source = Project(source, [*passing, *items])
    return source


def _have_parts_to_share(expressions: Sequence[Expr]) -> bool:
    """With less than two there is nothing to compare."""
    found = 0
    for part in parts_twice(*expressions):
        found += isinstance(part, _WORTH)
        if found > 1:
            return True
    return False


def _counts(expressions: Sequence[Expr], known: Identities) -> dict[object, int]:
    """How often parts stand there. Inside of a repeated part nothing is counted again: the largest one is
    shared.
    """
    counts: dict[object, int] = {}
    visits: dict[int, int] = {}
    waiting = list(reversed(expressions))
    while waiting:
        part = waiting.pop()
        if not part.OPERANDS:
            continue
        if isinstance(part, _WORTH) and reads_columns(part):
            key = identity(part, known)
            counts[key] = counts.get(key, 0) + 1
            if counts[key] > 1:
                continue
        visits[id(part)] = visits.get(id(part), 0) + 1
        if visits[id(part)] <= 2 and not isinstance(part, _SEALED):
            waiting += reversed(tuple(parts_of(part)))
    return counts
