"""Plans over the newest snapshots of their tables.

A plan keeps the snapshots that it was bound to. Every terminal asks here, once, for what the references stand
for by now: a query has one snapshot of a table for its whole life, however often it reads it. As long as no
file changes, the plan stays the same object, so that what was lowered for it serves again; afterwards the
plan over the new snapshots does, until they change too.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from querymode._call import check
from querymode.plan.nodes import Node, Scan, rebuilt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from querymode.table.table import Table


class _Resolved:
    """What became of a plan. None of it is the plan itself, which would then be kept for ever.

    `bound`: tables of the plan that have a reference. `newest`: what those stood for, and `node` a plan over
    that, whose tables are `used`; None as long as they are `bound`.
    """

    __slots__ = ("bound", "newest", "node", "used")

    def __init__(self, bound: tuple[Table, ...]) -> None:
        self.bound = self.newest = self.used = bound
        self.node: Node | None = None


_plans: WeakKeyDictionary[Node, _Resolved] = WeakKeyDictionary()


def resolved(node: Node) -> Node:
    """The plan over what its tables are now. SCHEMA_MISMATCH where they have no longer what it names."""
    plan = _plans.get(node)
    if plan is None:
        plan = _plans[node] = _Resolved(_referenced(node))
    if not plan.bound:
        return node
    newest = _newest(plan.bound)
    if any(new is not old for new, old in zip(newest, plan.newest, strict=True)):
        plan = _plans[node] = _rebound(node, plan.bound, newest)
    for snapshot, table in zip(plan.newest, plan.used, strict=True):
        if snapshot is not table:  # looking at it costs who reads it
            requests, size = snapshot.take_opening()
            table.opening = (table.opening[0] + requests, table.opening[1] + size)
    return node if plan.node is None else plan.node


def pinned(node: Node) -> Node:
    """The plan over what its tables are now, for several queries that have to see the same."""
    return _with_tables(resolved(node), lambda table: table.pinned())


def _newest(tables: tuple[Table, ...]) -> tuple[Table, ...]:
    """What all of them stand for now: asked once where several stand for the same."""
    if len(tables) == 1:
        return (_current(tables[0]),)
    found: dict[Hashable, Table] = {}
    newest = []
    for table in tables:
        assert table.reference is not None
        key = table.reference.key
        if key not in found:
            found[key] = _current(table)
        newest.append(found[key])
    return tuple(newest)


def _current(table: Table) -> Table:
    assert table.reference is not None
    return table.reference.current()


def _rebound(node: Node, bound: tuple[Table, ...], newest: tuple[Table, ...]) -> _Resolved:
    plan = _Resolved(bound)
    plan.newest = newest
    plan.used = tuple(new.bound_to(old.schema) for new, old in zip(newest, bound, strict=True))
    if any(new is not old for new, old in zip(plan.used, bound, strict=True)):
        replaced = {id(old): new for old, new in zip(bound, plan.used, strict=True)}
        plan.node = _with_tables(node, lambda table: replaced.get(id(table), table))
    return plan


def _with_tables(node: Node, change: Callable[[Table], Table]) -> Node:
    changed: dict[int, Table] = {}

    def scan(node: Node) -> Node:
        if not isinstance(node, Scan):
            return node
        table = changed.get(id(node.source))
        if table is None:
            table = changed[id(node.source)] = change(node.source)
        return node if table is node.source else Scan(table, node.names, text=node.text)

    return rebuilt(node, scan)


def _referenced(root: Node) -> tuple[Table, ...]:
    found: dict[int, Table] = {}
    seen: set[int] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if len(seen) % 256 == 0:
            check()
        if isinstance(node, Scan) and node.source.reference is not None:
            found[id(node.source)] = node.source
        stack += node.children
    return tuple(found.values())
