"""Expressions made of other expressions: substitution, and taking conditions apart. Pure."""

from __future__ import annotations

from querymode.expr.nodes import And, Column, Expr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
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


_slots: dict[type[Expr], tuple[str, ...]] = {}


def slots_of(kind: type[Expr]) -> tuple[str, ...]:
    found = _slots.get(kind)
    if found is None:
        found = tuple(slot for base in kind.__mro__ for slot in getattr(base, "__slots__", ()))
        _slots[kind] = found
    return found


def identity(expression: Expr) -> object:
    """Equal for expressions that are the same throughout. `==` of expressions makes another expression."""
    return _identity_of(expression)


def _identity_of(part: Any) -> object:
    if isinstance(part, Expr):
        return (type(part), *(_identity_of(getattr(part, name)) for name in slots_of(type(part))))
    if isinstance(part, tuple | list):
        return (tuple, *map(_identity_of, part))
    # 1, 1.0 and True are equal for Python, and not the same constant.
    try:
        hash(part)
    except TypeError:
        return (type(part), id(part))
    return (type(part), repr(part) if isinstance(part, float) else part)


def substitute(expression: Expr, columns: Mapping[str, Expr]) -> Expr:
    """The expression with columns replaced by what they stand for."""
    if isinstance(expression, Column):
        return columns.get(expression.name, expression)
    return map_children(expression, lambda part: substitute(part, columns))


def parts_of(expression: Expr) -> Iterator[Expr]:
    """The operands of a node."""
    for name in slots_of(type(expression)):
        part = getattr(expression, name)
        if isinstance(part, Expr):
            yield part
        elif isinstance(part, tuple):
            yield from _flat(part)


def _flat(parts: tuple[Any, ...]) -> Iterator[Expr]:
    for item in parts:
        if isinstance(item, Expr):
            yield item
        elif isinstance(item, tuple):
            yield from _flat(item)


def column_uses(expression: Expr) -> Iterator[str]:
    """The names of all columns, each as often as it is used."""
    waiting = [expression]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Column):
            yield part.name
        else:
            waiting += parts_of(part)


def columns_in(expression: Expr) -> set[str]:
    """The names of all columns that the expression reads."""
    return set(column_uses(expression))


def conjuncts(predicate: Expr) -> list[Expr]:
    """The terms that must all be true."""
    if isinstance(predicate, And):
        return [term for part in predicate.terms for term in conjuncts(part)]
    return [predicate]


def all_of(terms: Iterable[Expr]) -> Expr:
    """One condition of several, of which there is at least one."""
    found = tuple(terms)
    return found[0] if len(found) == 1 else And(found)
