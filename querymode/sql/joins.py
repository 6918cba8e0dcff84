"""Two relations and the terms of an ON → a join with keys, a residual, and filters below it."""

from __future__ import annotations

from querymode._abi import CompareOp
from querymode.expr.nodes import Compare, Expr, Function, IsNull, Literal
from querymode.expr.trees import all_of, columns_in
from querymode.plan.nodes import Filter, Join, Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Sides of which a term over that side alone may become a filter below the join.
_FILTERED = {
    "inner": (True, True),
    "semi": (True, True),
    "left": (False, True),
    "anti": (False, True),
    "mark": (False, True),
    "single": (False, True),
    "right": (True, False),
    "full": (False, False),
}


class Key:
    """A pair of equal expressions, one of each side. `nulls`: NULL equals NULL."""

    __slots__ = ("left", "nulls", "right")

    def __init__(self, left: Expr, right: Expr, nulls: bool = False) -> None:
        self.left = left
        self.right = right
        self.nulls = nulls


def filtered(node: Node, terms: Sequence[Expr]) -> Node:
    """Rows for which all terms are true."""
    kept = [term for term in terms if not (isinstance(term, Literal) and term.value is True)]
    return Filter(node, all_of(kept)) if kept else node


def join(
    left: Node,
    right: Node,
    kind: str,
    terms: Iterable[Expr] = (),
    keys: Iterable[Key] = (),
    *,
    mark: str | None = None,
) -> Node:
    """`kind` is one of plan.JOIN_KINDS but cross, which is an inner join without terms."""
    ours, theirs = set(left.schema.names), set(right.schema.names)
    filter_left, filter_right = _FILTERED[kind]
    all_keys = list(keys)
    residual: list[Expr] = []
    below: tuple[list[Expr], list[Expr]] = ([], [])
    for term in terms:
        names = columns_in(term)
        key = _key(term, ours, theirs, kind)
        if key is not None:
            all_keys.append(key)
        elif names and names <= ours and filter_left:
            below[0].append(term)
        elif names and names <= theirs and filter_right:
            below[1].append(term)
        elif not (isinstance(term, Literal) and term.value is True):
            residual.append(term)
    left, right = filtered(left, below[0]), filtered(right, below[1])
    pairs, null_equal = _pairs(all_keys, residual)
    if kind == "inner" and not pairs:
        return filtered(Join(left, right, "cross"), residual)
    condition = all_of(residual) if residual else None
    return Join(left, right, kind, pairs, condition, mark=mark, null_equal=null_equal)


def _pairs(keys: list[Key], residual: list[Expr]) -> tuple[list[tuple[Expr, Expr]], bool]:
    """Keys as a join takes them. Where some take NULLs for equal, all do; the residual refuses theirs."""
    null_equal = any(key.nulls for key in keys)
    if null_equal:
        residual += [IsNull(key.right, True) for key in keys if not key.nulls]
    return [(key.left, key.right) for key in keys], null_equal


def separated(term: Expr, ours: set[str], theirs: set[str]) -> tuple[Expr, Expr] | None:
    """The two sides of `a = b` if each speaks of one set of columns alone: ours, theirs."""
    if not isinstance(term, Compare) or term.op != CompareOp.EQ:
        return None
    first, second = columns_in(term.left), columns_in(term.right)
    if not first or not second:
        return None
    if first <= ours and second <= theirs:
        return term.left, term.right
    if first <= theirs and second <= ours:
        return term.right, term.left
    return None


def _key(term: Expr, ours: set[str], theirs: set[str], kind: str) -> Key | None:
    # A mark knows NULLs of its keys apart, so none of them may be taken for equal.
    if kind != "mark" and isinstance(term, Function) and term.name == "is_not_distinct_from":
        sides = separated(Compare(CompareOp.EQ, *term.arguments), ours, theirs)
        return None if sides is None else Key(*sides, nulls=True)
    sides = separated(term, ours, theirs)
    return None if sides is None else Key(*sides)
