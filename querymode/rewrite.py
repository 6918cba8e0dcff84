"""Expressions made of other expressions: substitution, and taking conditions apart. Pure."""

from __future__ import annotations

from querymode.expr import And, Column, Expr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any


def map_children(expression: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """The same node over changed operands; itself, when none of them changed."""
    changed: dict[str, Any] = {}
    for name in slots_of(type(expression)):
        part = getattr(expression, name)
        new = _map_part(part, change)
        if new is not part:
            changed[name] = new
    if not changed:
        return expression
    copy: Expr = object.__new__(type(expression))
    for name in slots_of(type(expression)):
        setattr(copy, name, changed.get(name, getattr(expression, name)))
    return copy


def _map_part(part: Any, change: Callable[[Expr], Expr]) -> Any:
    if isinstance(part, Expr):
        return change(part)
    if isinstance(part, tuple):
        items = tuple(_map_part(item, change) for item in part)
        return items if any(new is not old for new, old in zip(items, part, strict=True)) else part
    return part


def slots_of(kind: type[Expr]) -> list[str]:
    return [slot for base in kind.__mro__ for slot in getattr(base, "__slots__", ())]


def substitute(expression: Expr, columns: Mapping[str, Expr]) -> Expr:
    """The expression with columns replaced by what they stand for."""
    if isinstance(expression, Column):
        return columns.get(expression.name, expression)
    return map_children(expression, lambda part: substitute(part, columns))


def conjuncts(predicate: Expr) -> list[Expr]:
    """The terms that must all be true."""
    if isinstance(predicate, And):
        return [term for part in predicate.terms for term in conjuncts(part)]
    return [predicate]


def all_of(terms: Iterable[Expr]) -> Expr:
    """One condition of several, of which there is at least one."""
    found = tuple(terms)
    return found[0] if len(found) == 1 else And(found)
