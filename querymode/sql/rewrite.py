"""Expressions as trees: their columns, a key that equal ones share, and copies over other columns.

`==` on expressions builds a comparison, so whether two are the same is asked by `fingerprint`.
"""

from __future__ import annotations

from querymode.expr.nodes import Column, Expr
from querymode.expr.trees import map_children, slots_of, substitute
from querymode.plan.bind import columns_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any


def parts_of(node: Expr) -> Iterator[Expr]:
    """The expressions directly inside."""
    for slot in slots_of(type(node)):
        part = getattr(node, slot)
        if isinstance(part, Expr):
            yield part
        elif isinstance(part, tuple):
            yield from (item for item in part if isinstance(item, Expr))


def used_columns(expressions: Iterable[Expr]) -> set[str]:
    names: set[str] = set()
    for expression in expressions:
        columns_of(expression, names)
    return names


def fingerprint(node: Expr) -> tuple[Any, ...]:
    """Equal for expressions that mean the same by their looks."""
    return (type(node), *(_key(getattr(node, slot)) for slot in slots_of(type(node))))


def _key(part: object) -> object:
    if isinstance(part, Expr):
        return fingerprint(part)
    if isinstance(part, tuple):
        return tuple(map(_key, part))
    # 1, 1.0 and True are equal and hash alike, but are different constants; so are 0.0 and -0.0.
    return type(part), repr(part) if isinstance(part, float) or part.__hash__ is None else part


def transform(node: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """A copy in which `change` has replaced whatever it returned something for, outermost first."""
    changed = change(node)
    return map_children(node, lambda part: transform(part, change)) if changed is None else changed


def rename(node: Expr, mapping: Mapping[str, str]) -> Expr:
    """The same over columns of other names."""
    return substitute(node, {old: Column(new) for old, new in mapping.items()}) if mapping else node
