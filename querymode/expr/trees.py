"""Expressions as trees: what is inside, whether two are the same, and copies with other parts. Pure.

The one walker there is. A class of expr/nodes.py names the slots that hold its operands in OPERANDS, and all
of this follows from that: an operand is an expression, or tuples of them as deep as they go (branches of a
CASE, sort keys with their directions), among which other values may stand.
"""

from __future__ import annotations

from querymode._abi import AggregateOp, ArithmeticOp, CompareOp
from querymode.expr.nodes import And, Cast, Column, Expr, Or
from querymode.types import DataType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any


# ---- what is inside ----


def parts_of(expression: Expr) -> Iterator[Expr]:
    """The operands of a node."""
    for name in expression.OPERANDS:
        part = getattr(expression, name)
        if isinstance(part, Expr):
            yield part
        elif isinstance(part, tuple):
            yield from expressions_in(part)


def expressions_in(parts: tuple[Any, ...]) -> Iterator[Expr]:
    """Those in tuples, as deep as they go."""
    for item in parts:
        if isinstance(item, Expr):
            yield item
        elif isinstance(item, tuple):
            yield from expressions_in(item)


def column_uses(expression: Expr) -> Iterator[str]:
    """The names of all columns, each as often as it is used."""
    waiting = [expression]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Column):
            yield part.name
        else:
            waiting += parts_of(part)


def columns_in(*expressions: Expr) -> set[str]:
    """The names of all columns that the expressions read."""
    names: set[str] = set()
    for expression in expressions:
        columns_of(expression, names)
    return names


def columns_of(expression: Expr, into: set[str]) -> None:
    """Adds the names of all columns that the expression reads."""
    if isinstance(expression, Column):  # most often, and a walk would take longer
        into.add(expression.name)
    else:
        into.update(column_uses(expression))


def reads_columns(expression: Expr) -> bool:
    """Whether there is any column in it; else it has the same value for every row."""
    return any(True for _ in column_uses(expression))


def conjuncts(predicate: Expr) -> list[Expr]:
    """The terms that must all be true."""
    return _terms(And, predicate)


def disjuncts(predicate: Expr) -> list[Expr]:
    """The terms of which one must be true."""
    return _terms(Or, predicate)


def _terms(kind: type[And] | type[Or], predicate: Expr) -> list[Expr]:
    if isinstance(predicate, kind):
        return [term for part in predicate.terms for term in _terms(kind, part)]
    return [predicate]


# ---- sameness ----

#: Of these, what Python calls equal is the same.
_EXACT = frozenset(
    (bool, int, str, bytes, type(None), DataType, CompareOp, ArithmeticOp, AggregateOp),
)


def identity(expression: Expr) -> object:
    """Equal for expressions that are the same throughout. `==` of expressions makes another expression.

    Constants are the same where nothing computed from them could differ, in value or in type. Python takes
    more of them for equal: 1, 1.0 and True, 0.0 and -0.0, decimals of another scale.
    """
    kind = type(expression)
    return (kind, *[_identity_of(getattr(expression, name)) for name in slots_of(kind)])


def _identity_of(part: Any) -> object:
    kind = type(part)
    if kind in _EXACT:
        return kind, part
    if isinstance(part, Expr):
        return identity(part)
    if isinstance(part, tuple | list):
        return (kind, *map(_identity_of, part))
    # By their text also a NaN is itself. (By name: most processes never need decimals.)
    if isinstance(part, float) or kind.__name__ == "Decimal":
        return kind, repr(part)
    if isinstance(part, bytearray | memoryview):
        return kind, bytes(part)
    try:
        hash(part)
    except TypeError:
        return kind, _Itself(part)
    return kind, repr(part), part


class _Itself:
    """A value that cannot be looked up is only the same as itself. It is kept: its number stays its own."""

    __slots__ = ("_value",)

    def __init__(self, value: object) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and self._value is other._value

    def __hash__(self) -> int:
        return id(self._value)


_slots: dict[type[object], tuple[str, ...]] = {}


def slots_of(kind: type[object]) -> tuple[str, ...]:
    """All that a node of this class is made of: its operands and the rest."""
    found = _slots.get(kind)
    if found is None:
        slots = [slot for base in kind.__mro__ for slot in getattr(base, "__slots__", ())]
        found = _slots[kind] = tuple(slot for slot in slots if slot != "__weakref__")
    return found


# ---- copies ----


def map_children(expression: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """The same node over changed operands; itself, when none of them changed."""
    changed: dict[str, Any] = {}
    for name in expression.OPERANDS:
        part = getattr(expression, name)
        new = _map_part(part, change)
        if new is not part:
            changed[name] = new
    if not changed:
        return expression
    copy: Expr = object.__new__(type(expression))
    for name in slots_of(type(expression)):
        object.__setattr__(copy, name, changed[name] if name in changed else getattr(expression, name))
    return copy


def _map_part(part: Any, change: Callable[[Expr], Expr]) -> Any:
    if isinstance(part, Expr):
        return change(part)
    if isinstance(part, tuple):
        items = [_map_part(item, change) for item in part]
        if all(new is old for new, old in zip(items, part, strict=True)):
            return part
        return tuple(items) if type(part) is tuple else type(part)(*items)  # its items have names
    return part


def transform(expression: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """A copy in which `change` has replaced whatever it returned something for, outermost first."""
    changed = change(expression)
    return map_children(expression, lambda part: transform(part, change)) if changed is None else changed


def substitute(expression: Expr, columns: Mapping[str, Expr]) -> Expr:
    """The expression with columns replaced by what they stand for."""
    if isinstance(expression, Column):
        return columns.get(expression.name, expression)
    return map_children(expression, lambda part: substitute(part, columns))


def rename(expression: Expr, names: Mapping[str, str]) -> Expr:
    """The same over columns of other names."""
    return substitute(expression, {old: Column(new) for old, new in names.items()}) if names else expression


def in_type(expression: Expr, own: DataType, wanted: DataType) -> Expr:
    """An expression of one type in another; itself, where that is the same."""
    return expression if own == wanted else Cast(expression, wanted, False)


def all_of(terms: Iterable[Expr]) -> Expr:
    """One condition of several, of which there is at least one."""
    found = tuple(terms)
    return found[0] if len(found) == 1 else And(found)
