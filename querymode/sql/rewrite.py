"""Expressions as trees: their parts, a key that equal ones share, and copies with other columns.

`==` on expressions builds a comparison, so whether two are the same is asked by `fingerprint`.
"""

from __future__ import annotations

from querymode.bind import columns_of
from querymode.expr import And, Column, Expr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any


def slots_of(node: Expr) -> Iterator[str]:
    for kind in type(node).__mro__:
        yield from getattr(kind, "__slots__", ())


def parts_of(node: Expr) -> Iterator[Expr]:
    """The expressions directly inside."""
    for slot in slots_of(node):
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
    return (type(node), *(_key(getattr(node, slot)) for slot in slots_of(node)))


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
    if changed is not None:
        return changed
    copy = object.__new__(type(node))
    same = True
    for slot in slots_of(node):
        part = getattr(node, slot)
        new = _transform_part(part, change)
        same = same and new is part
        setattr(copy, slot, new)
    return node if same else copy


def _transform_part(part: Any, change: Callable[[Expr], Expr | None]) -> Any:
    if isinstance(part, Expr):
        return transform(part, change)
    if isinstance(part, tuple):
        items = tuple(_transform_part(item, change) for item in part)
        return items if any(new is not old for new, old in zip(items, part, strict=True)) else part
    return part


def rename(node: Expr, mapping: Mapping[str, str]) -> Expr:
    """The same over columns of other names."""
    if not mapping:
        return node

    def change(part: Expr) -> Expr | None:
        return Column(mapping[part.name]) if isinstance(part, Column) and part.name in mapping else None

    return transform(node, change)


def replace_columns(node: Expr, values: Mapping[str, Expr]) -> Expr:
    """The same with expressions in the place of columns."""
    return transform(node, lambda part: values.get(part.name) if isinstance(part, Column) else None)


def conjuncts(node: Expr) -> list[Expr]:
    """The terms of an AND, however deep it is nested."""
    terms: list[Expr] = []
    waiting = [node]
    while waiting:
        term = waiting.pop()
        if isinstance(term, And):
            waiting.extend(reversed(term.terms))
        else:
            terms.append(term)
    return terms
