"""Expressions as trees: what is inside, whether two are the same, and copies with other parts. Pure.

The one walker there is. A class of expr/nodes.py names the slots that hold its operands in OPERANDS, and all
of this follows from that: an operand is an expression, or tuples of them as deep as they go (branches of a
CASE, sort keys with their directions), among which other values may stand.

One part may stand in many places (`e = e + e`, again and again): written out, such an expression has more
parts than there is time for. So every walk comes to a part once, or looks it up the next time; `tree_size`
says how many parts it would be.
"""

from __future__ import annotations

from querymode._abi import AggregateOp, ArithmeticOp, CompareOp
from querymode._call import claim
from querymode.errors import error
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
    """The names of all columns: once of those that are used once, else more often."""
    return (part.name for part in parts_twice(expression) if isinstance(part, Column))


def parts_twice(*expressions: Expr) -> Iterator[Expr]:
    """The expressions and all that is inside: once what stands in one place, else more often."""
    waiting = list(expressions)
    visits: dict[int, int] = {}
    while waiting:
        part = waiting.pop()
        yield part
        if part.OPERANDS:
            visit = visits[id(part)] = visits.get(id(part), 0) + 1
            if visit <= 2:  # what is inside of it stands in two places by then
                waiting += parts_of(part)


def parts_once(*expressions: Expr) -> Iterator[Expr]:
    """The expressions and all that is inside, in their order."""
    seen: set[int] = set()
    waiting = list(reversed(expressions))
    while waiting:
        part = waiting.pop()
        if id(part) not in seen:
            yield part
            if part.OPERANDS:
                seen.add(id(part))
                waiting += reversed(tuple(parts_of(part)))


#: Parts that are counted one by one, as a tree.
_SMALL = 64


def tree_size(expression: Expr) -> int:
    """How many parts it has, where one that stands in several places counts every time."""
    waiting = [expression]
    for count in range(_SMALL):  # most often, and nothing has to be looked up
        if not waiting:
            return count
        part = waiting.pop()
        if part.OPERANDS:
            waiting += parts_of(part)
    sizes: dict[int, int] = {}
    waiting = [expression]
    while waiting:
        node = waiting[-1]
        parts = () if id(node) in sizes else tuple(parts_of(node))
        missing = [part for part in parts if id(part) not in sizes]
        if missing:
            waiting += missing
            continue
        waiting.pop()
        if id(node) not in sizes:
            sizes[id(node)] = 1 + sum([sizes[id(part)] for part in parts])
    return sizes[id(expression)]


#: Parts of what is written down in full: a descriptor, Python code.
_WRITTEN_MAX = 1 << 19
_WRITTEN_SIZE = 100


def claim_written(expression: Expr) -> None:
    """Counts the memory that an expression takes where all that it repeats is written out."""
    if not expression.OPERANDS:
        return
    size = tree_size(expression)
    if size > _WRITTEN_MAX:
        raise error(
            "NOT_SUPPORTED",
            f"an expression of {size:,} parts, with all that it repeats, is not written down; "
            "compute it in several steps",
        )
    claim(size * _WRITTEN_SIZE, "an expression, written down,")


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
        into.update(_columns(expression))


def reads_columns(expression: Expr) -> bool:
    """Whether there is any column in it; else it has the same value for every row."""
    return any(True for _ in _columns(expression))


def _columns(expression: Expr) -> Iterator[str]:
    """The names of its columns. Not by parts_once, which takes twice as long: everybody asks for columns."""
    waiting = [expression]
    seen: set[int] = set()
    while waiting:
        part = waiting.pop()
        if isinstance(part, Column):
            yield part.name
        elif part.OPERANDS and id(part) not in seen:
            seen.add(id(part))
            waiting += parts_of(part)


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


#: Identities that are known, by the number of their expression, which is kept: it must stay its own.
Identities = dict[int, "tuple[Expr, object]"]


def identity(expression: Expr, known: Identities | None = None) -> object:
    """Equal for expressions that are the same throughout. `==` of expressions makes another expression.

    Constants are the same where nothing computed from them could differ, in value or in type. Python takes
    more of them for equal: 1, 1.0 and True, 0.0 and -0.0, decimals of another scale. `known`: for whoever
    asks for parts of one expression again and again.
    """
    kind = type(expression)
    if not kind.OPERANDS:
        return (kind, *[_identity_of(getattr(expression, name), {}) for name in slots_of(kind)])
    if known is None:
        known = {}
    found = known.get(id(expression))
    if found is None:
        parts = (kind, *[_identity_of(getattr(expression, name), known) for name in slots_of(kind)])
        found = known[id(expression)] = (expression, _Same(parts))
    return found[1]


class _Same:
    """What an expression is made of. It is hashed once, and what was found equal is not compared again."""

    __slots__ = ("_hash", "_parts")

    def __init__(self, parts: tuple[object, ...]) -> None:
        self._parts = parts
        self._hash = hash(parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, _Same) or self._hash != other._hash:
            return False
        if self._parts is not other._parts:
            if self._parts != other._parts:
                return False
            self._parts = other._parts
        return True


def _identity_of(part: Any, known: Identities) -> object:
    kind = type(part)
    if kind in _EXACT:
        return kind, part
    if isinstance(part, Expr):
        return identity(part, known)
    if isinstance(part, tuple | list):
        return (kind, *[_identity_of(item, known) for item in part])
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


def once(change: Callable[[Expr], Expr]) -> Callable[[Expr], Expr]:
    """A change that is made once of every part; in other places stands what was made of it."""
    # The parts are kept beside: their numbers must not be used again while they are remembered.
    done: dict[int, tuple[Expr, Expr]] = {}

    def of(part: Expr) -> Expr:
        known = done.get(id(part))
        if known is None:
            known = done[id(part)] = (part, change(part))
        return known[1]

    return of


def transform(expression: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """A copy in which `change` has replaced whatever it returned something for, outermost first."""

    return _Transform(change)(expression)


class _Transform:
    """A class, since functions that call each other are circles, which only the collector frees."""

    __slots__ = ("_change", "_done")

    def __init__(self, change: Callable[[Expr], Expr | None]) -> None:
        self._change = change
        self._done: dict[int, tuple[Expr, Expr]] = {}

    def __call__(self, part: Expr) -> Expr:
        known = self._done.get(id(part))
        if known is None:
            found = self._change(part)
            made = map_children(part, self) if found is None else found
            # The part is kept beside: its number must not be used again while it is remembered.
            known = self._done[id(part)] = (part, made)
        return known[1]


def substitute(expression: Expr, columns: Mapping[str, Expr]) -> Expr:
    """The expression with columns replaced by what they stand for."""
    if isinstance(expression, Column):  # most often
        return columns.get(expression.name, expression)
    return transform(
        expression, lambda part: columns.get(part.name, part) if isinstance(part, Column) else None
    )


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


# ---- in one list ----


class _Place:
    """Where the node that stands here is found in the list."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _Place, (self.number,)


def flattened(expression: Expr) -> list[tuple[type[Expr], list[object]]]:
    """All nodes, operands first: their classes, and what is in their slots, with places for other nodes."""
    nodes: list[tuple[type[Expr], list[object]]] = []
    places: dict[int, Any] = {}
    waiting = [expression]
    while waiting:
        node = waiting[-1]
        missing = [part for part in parts_of(node) if id(part) not in places]
        if missing:
            waiting += missing
            continue
        waiting.pop()
        if id(node) not in places:
            places[id(node)] = _Place(len(nodes))
            kind = type(node)
            values = [
                _map_part(getattr(node, name), lambda part: places[id(part)]) for name in slots_of(kind)
            ]
            nodes.append((kind, values))
    return nodes


def restored(nodes: list[tuple[type[Expr], list[object]]]) -> Expr:
    """The expression that was flattened."""
    made: list[Expr] = []
    for kind, values in nodes:
        node: Expr = object.__new__(kind)
        for name, value in zip(slots_of(kind), values, strict=True):
            object.__setattr__(node, name, _with_nodes(value, made))
        made.append(node)
    return made[-1]


def _with_nodes(value: Any, made: list[Expr]) -> Any:
    if isinstance(value, _Place):
        return made[value.number]
    if not isinstance(value, tuple):
        return value
    items = [_with_nodes(item, made) for item in value]
    return tuple(items) if type(value) is tuple else type(value)(*items)
