"""The order of joins: inner, semi and anti joins in a row become a tree of two sides each.

Greedily: always the step that leaves the fewest estimated rows next. Pairs of parts that a condition links
wait in a heap by that number; a pair whose parts have changed since is passed over. So the work grows with
the conditions, not with all pairs there are. Pairs that nothing links are looked at when no other is left.
"""

from __future__ import annotations

import heapq
from bisect import insort

from querymode._abi import CompareOp
from querymode._call import check
from querymode.expr.nodes import Compare
from querymode.expr.trees import all_of, columns_in
from querymode.plan.nodes import Join, filtered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Protocol

    from querymode.expr.nodes import Expr
    from querymode.optimize.estimate import Estimate, Estimator
    from querymode.plan.nodes import Node

    class Reductions(Protocol):
        """Who knows when the large side of a semi or anti join is cut down first."""

        def can_reduce(self, left: Node, right: Node) -> bool: ...

        def reduced(self, left: Node, right: Node, keys: Sequence[tuple[Expr, Expr]]) -> Node: ...


class Reducer:
    """A semi or anti join without its left side: it keeps rows or drops them, wherever its keys are."""

    def __init__(
        self, kind: str, right: Node, keys: Sequence[tuple[Expr, Expr]], residual: Expr | None
    ) -> None:
        self.kind = kind
        self.right = right
        self.keys = keys
        self.residual = residual
        self._inner_names = set(right.schema.names)
        self.names: set[str] = set()
        for ours, _ in keys:
            self.names |= columns_in(ours)
        if residual is not None:
            self.names |= columns_in(residual) - self._inner_names

    def fits(self, there: set[str]) -> bool:
        """Whether it can be joined to a relation of these columns: a condition reads both sides by name."""
        return self.names <= there and (self.residual is None or there.isdisjoint(self._inner_names))


class Order:
    """Joins relations two by two, always the pair with the fewest rows next.

    A part is known by the place of its first relation, and a change of a part makes a new version of it.
    """

    def __init__(
        self,
        parts: list[Node],
        terms: list[Expr],
        reducers: list[Reducer],
        reductions: Reductions,
        estimator: Estimator,
    ) -> None:
        self._parts = dict(enumerate(parts))
        self._terms = [_Term(term) for term in terms]
        self._reducers = reducers
        self._reductions = reductions
        self._estimator = estimator
        self._versions = dict.fromkeys(self._parts, 0)
        self._names = {place: set(part.schema.names) for place, part in self._parts.items()}
        self._links: dict[int, dict[int, list[_Term]]] = {place: {} for place in self._parts}
        #: Conditions over three parts and more.
        self._wide: list[_Term] = []
        self._heap: list[tuple[bool, float, int, int, int, int]] = []
        self._find_links()
        for place in self._parts:
            self._rank_links(place, only_behind=True)

    def _find_links(self) -> None:
        owners = {name: place for place, names in self._names.items() for name in names}
        for number, term in enumerate(self._terms):
            term.number = number
            term.find(owners)
            self._link(term)

    def _link(self, term: _Term) -> None:
        if len(term.parts) == 2:
            a, b = term.parts
            terms = self._links[a].setdefault(b, [])
            insort(terms, term, key=_number)
            self._links[b][a] = terms
        elif len(term.parts) > 2:
            self._wide.append(term)

    def joined(self) -> Node:
        while len(self._parts) > 1 or self._reducers:
            check()
            pair = self._best_pair()
            reducer = self._best_reducer()
            if reducer is not None and (pair is None or reducer[0] <= self._rank_by_position(pair)):
                self._reduce(*reducer[1])
                continue
            assert pair is not None
            self._join(pair[2], pair[3])
        (part,) = self._parts.values()
        return filtered(part, [term.expression for term in self._terms if not term.is_used])

    # ---- pairs ----

    def _rank_links(self, place: int, *, only_behind: bool = False) -> None:
        for other in self._links[place]:
            if other > place or not only_behind:
                first, second = min(place, other), max(place, other)
                keys, residual = self._conditions(*self._sides(first, second))
                ours, theirs = map(self._estimate, self._sides(first, second))
                rows = ours.pair_rows(theirs, keys, bool(residual))
                heapq.heappush(self._heap, (not keys, rows, first, second, *self._state(first, second)))

    def _state(self, first: int, second: int) -> tuple[int, int]:
        return self._versions[first], self._versions[second]

    def _estimate(self, place: int) -> Estimate:
        return self._estimator.of(self._parts[place])

    def _best_pair(self) -> tuple[bool, float, int, int] | None:
        heap = self._heap
        while heap and not self._is_current(heap[0]):
            heapq.heappop(heap)
        best = heap[0][:4] if heap else None
        if len(self._parts) > 1 and (best is None or best[0]):
            # No key: the product of any two counts, and that of the two smallest is the smallest.
            ranked = ((self._estimate(place).rows, place) for place in self._parts)
            (rows, a), (more, b) = heapq.nsmallest(2, ranked)
            product = (True, max(1.0, rows * more), min(a, b), max(a, b))
            best = product if best is None else min(best, product)
        return best

    def _is_current(self, entry: tuple[bool, float, int, int, int, int]) -> bool:
        _, _, first, second, *versions = entry
        known = self._versions.get(first), self._versions.get(second)
        return known == tuple(versions)

    def _rank_by_position(self, rank: tuple[bool, float, int, int]) -> tuple[bool, float, int, int]:
        """With places among the parts that are left."""
        keyless, rows, first, second = rank
        places = sorted(self._parts)
        return keyless, rows, places.index(first), places.index(second)

    def _sides(self, first: int, second: int) -> tuple[int, int]:
        """The larger one probes, the smaller one is built."""
        smaller = self._estimate(first).rows < self._estimate(second).rows
        return (second, first) if smaller else (first, second)

    def _conditions(self, left: int, right: int) -> tuple[list[tuple[Expr, Expr]], list[Expr]]:
        keys: list[tuple[Expr, Expr]] = []
        residual: list[Expr] = []
        for term in self._links[left].get(right, ()):
            pair = term.as_key(left, right)
            if pair is None:
                residual.append(term.expression)
            else:
                keys.append(pair)
        return keys, residual

    def _join(self, first: int, second: int) -> None:
        left, right = self._sides(first, second)
        keys, residual = self._conditions(left, right)
        made = Join(
            self._parts[left], self._parts[right], "inner", keys, all_of(residual) if residual else None
        )
        self._merge_links(first, second)
        del self._parts[second], self._versions[second]
        self._names[first] |= self._names.pop(second)
        self._replace(first, made)

    def _replace(self, place: int, part: Node) -> None:
        self._parts[place] = part
        self._versions[place] += 1
        self._rank_links(place)

    def _merge_links(self, first: int, second: int) -> None:
        """Conditions on the second part are on the first one now; those on these two are done."""
        for term in self._links[first].pop(second, ()):
            term.is_used = True
        moved = [term for other, terms in self._links.pop(second).items() if other != first for term in terms]
        for term in moved:
            (other,) = term.parts - {second}
            self._links[other].pop(second, None)
        moved += self._wide
        self._wide = []
        for term in moved:
            term.move(second, first)
            self._link(term)

    # ---- semi and anti joins ----

    def _best_reducer(self) -> tuple[tuple[bool, float, int, int], tuple[int, Reducer]] | None:
        """The rank is of the same kind: what it leaves, or what it takes to build its right side."""
        best: tuple[tuple[bool, float, int, int], tuple[int, Reducer]] | None = None
        if not self._reducers:
            return None
        for i, place in enumerate(sorted(self._parts)):
            part = self._parts[place]
            ours = self._estimator.of(part)
            for j, reducer in enumerate(self._reducers):
                if not reducer.fits(self._names[place]):
                    continue
                theirs = self._estimator.of(reducer.right)
                has_residual = reducer.residual is not None
                part_kept = ours.kept_part(reducer.kind, theirs, reducer.keys, has_residual)
                rows = max(1.0, ours.rows * part_kept)
                if not self._reductions.can_reduce(part, reducer.right):
                    rows = max(rows, theirs.rows)
                rank = (not reducer.keys, rows, i, j)
                if best is None or rank < best[0]:
                    best = (rank, (place, reducer))
        return best

    def _reduce(self, place: int, reducer: Reducer) -> None:
        left = self._parts[place]
        right = self._reductions.reduced(left, reducer.right, reducer.keys)
        self._reducers.remove(reducer)
        self._replace(place, Join(left, right, reducer.kind, reducer.keys, reducer.residual))


def _number(term: _Term) -> int:
    return term.number


class _Term:
    """A condition over several parts of a join, and which parts these are by now."""

    __slots__ = ("expression", "is_used", "number", "parts", "sides")

    def __init__(self, expression: Expr) -> None:
        self.expression = expression
        self.is_used = False
        self.number = 0
        self.parts: set[int] = set()
        #: Of an equality: the parts of its left and of its right.
        self.sides: tuple[set[int], set[int]] | None = None

    def find(self, owners: Mapping[str, int]) -> None:
        """None at all where a column belongs to no part: then it stays above the joins."""
        names = columns_in(self.expression)
        if not names <= owners.keys():
            return
        self.parts = {owners[name] for name in names}
        if isinstance(self.expression, Compare) and self.expression.op == CompareOp.EQ:
            left, right = columns_in(self.expression.left), columns_in(self.expression.right)
            self.sides = {owners[name] for name in left}, {owners[name] for name in right}

    def move(self, old: int, new: int) -> None:
        for places in (self.parts, *(self.sides or ())):
            if old in places:
                places.remove(old)
                places.add(new)

    def as_key(self, left: int, right: int) -> tuple[Expr, Expr] | None:
        """An equality of something of the left side and something of the right one, in that order."""
        if self.sides is None:
            return None
        assert isinstance(self.expression, Compare)
        if self.sides == ({left}, {right}):
            return self.expression.left, self.expression.right
        if self.sides == ({right}, {left}):
            return self.expression.right, self.expression.left
        return None
