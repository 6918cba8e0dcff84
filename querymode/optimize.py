"""Rewrites logical plans into better ones with the same rows.

    normal forms   right and full joins become left ones, ORs lose what all their branches share
    filters        go down to the scans, and become keys of joins on their way
    joins          inner ones are put in an order by estimated size; the smaller side is built
    reduction      the large side of a semi, anti or left join is cut down to the keys of the small one first

A node that several others read is rewritten once, and stays one node.
"""

from __future__ import annotations

from querymode._abi import CompareOp
from querymode.bind import columns_of
from querymode.common import share
from querymode.estimate import Estimator
from querymode.expr import And, Between, Column, Compare, Expr, InList, IsNull, Like, Literal, Not, Or
from querymode.fold import fold
from querymode.plan import (
    Filter,
    GroupBy,
    Join,
    Limit,
    MapBatches,
    Node,
    Project,
    Repeat,
    Scan,
    Sort,
    Step,
    Union,
)
from querymode.rewrite import all_of, column_uses, conjuncts, identity, parts_of, substitute

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

#: A side is cut down first where it has so many times the rows of the other.
REDUCE_FACTOR = 4
#: Expressions of at most so many parts are computed twice, if that takes a filter further down.
CHEAP_SIZE = 5
#: A build is worth asking before rows are read where it leaves at most this part of them.
SOUGHT_PART = 0.7


def optimize(node: Node) -> Node:
    """The plan to run."""
    node = fold(node)
    return share(node if _is_settled(node) else _Optimizer(node).result())


def _is_settled(node: Node) -> bool:
    """Steps over one table whose filters stand right above it: there is nothing to move."""
    above_filter = False
    while isinstance(node, Step):
        if above_filter and not isinstance(node, Filter):
            return False
        above_filter = above_filter or isinstance(node, Filter)
        node = node.input
    return isinstance(node, Scan)


def reduces(join: Join) -> bool:
    """Whether so few rows of the left side find a match that looking first pays."""
    estimator = Estimator()
    left, right = estimator.of(join.left), estimator.of(join.right)
    return any(right.values_of(theirs) <= SOUGHT_PART * left.values_of(ours) for ours, theirs in join.keys)


def _size(expression: Expr) -> int:
    return 1 + sum(map(_size, parts_of(expression)))


def columns_in(expression: Expr) -> set[str]:
    names: set[str] = set()
    columns_of(expression, names)
    return names


class _Optimizer:
    def __init__(self, root: Node) -> None:
        self._root = root
        self._uses: dict[int, int] = {}
        self._done: dict[int, Node] = {}
        self._count(root)
        self._estimator = Estimator()
        self._reductions = 0

    def _count(self, node: Node) -> None:
        self._uses[id(node)] = self._uses.get(id(node), 0) + 1
        if self._uses[id(node)] == 1:
            for child in node.children:
                self._count(child)

    def result(self) -> Node:
        return self._push(self._root, [])

    # ---- filters ----

    def _push(self, node: Node, terms: list[Expr]) -> Node:
        """The node, rewritten, with these conditions as far down as they go."""
        if self._uses.get(id(node), 0) > 1 and not isinstance(node, Scan):
            if id(node) not in self._done:
                self._done[id(node)] = _RULES[type(node)](self, node, [])
            return _filtered(self._done[id(node)], terms)
        return _RULES[type(node)](self, node, terms)

    def _scan(self, node: Scan, terms: list[Expr]) -> Node:
        return _filtered(node, terms)

    def _filter(self, node: Filter, terms: list[Expr]) -> Node:
        own = [part for term in conjuncts(node.predicate) for part in conjuncts(factored(term))]
        return self._push(node.input, [*own, *terms])

    def _project(self, node: Project, terms: list[Expr]) -> Node:
        items = dict(node.items)
        below: list[Expr] = []
        above: list[Expr] = []
        for term in terms:
            cheap = all(_size(items[name]) <= CHEAP_SIZE for name in columns_in(term))
            (below if cheap else above).append(term)
        child = self._push(node.input, [substitute(term, items) for term in below])
        return _filtered(projected(child, node.items), above)

    def _group_by(self, node: GroupBy, terms: list[Expr]) -> Node:
        keys = dict(node.keys)
        below = [term for term in terms if keys and columns_in(term) and columns_in(term) <= keys.keys()]
        above = [term for term in terms if term not in _same(below)]
        child = self._push(node.input, [substitute(term, keys) for term in below])
        return _filtered(GroupBy(child, node.keys, node.calls), above)

    def _sort(self, node: Sort, terms: list[Expr]) -> Node:
        return Sort(self._push(node.input, terms), node.keys)

    def _limit(self, node: Limit, terms: list[Expr]) -> Node:
        return _filtered(Limit(self._push(node.input, []), node.offset, node.count), terms)

    def _repeat(self, node: Repeat, terms: list[Expr]) -> Node:
        return Repeat(self._push(node.input, terms), node.count)

    def _map_batches(self, node: MapBatches, terms: list[Expr]) -> Node:
        return _filtered(node.with_children([self._push(node.input, [])]), terms)

    def _union(self, node: Union, terms: list[Expr]) -> Node:
        children = []
        for child in node.inputs:
            names = dict(zip(node.schema.names, map(Column, child.schema.names), strict=True))
            children.append(self._push(child, [substitute(term, names) for term in terms]))
        return Union(children)

    # ---- joins ----

    def _join(self, node: Join, terms: list[Expr]) -> Node:
        if node.kind == "right":
            swapped = Join(node.right, node.left, "left", _swapped(node.keys), node.residual)
            return self._push(_reordered(swapped, node), terms)
        if node.kind == "full":
            return self._full(node, terms)
        if node.kind in ("inner", "cross") and not node.null_equal:
            return self._inner(node, terms)
        kind = node.kind
        left_names, right_names = set(node.left.schema.names), set(node.right.schema.names)
        below: list[Expr] = []
        above: list[Expr] = []
        for term in terms:
            (below if columns_in(term) <= left_names else above).append(term)
        if kind == "left" and any(rejects_null(term, right_names) for term in above):
            return self._inner(Join(node.left, node.right, "inner", node.keys, node.residual), terms)
        if kind == "mark":
            semi = _asked_for(above, node.mark)
            if semi is not None:
                rest = [term for term in above if term is not semi]
                if not any(node.mark in columns_in(term) for term in rest):
                    return self._with_mark(node, [*below, *rest])
        return _filtered(self._outer(node, kind, below), above)

    def _with_mark(self, node: Join, terms: list[Expr]) -> Node:
        """Only rows that match are wanted: a semi-join, whose mark is TRUE wherever it is asked for."""
        semi = self._outer(Join(node.left, node.right, "semi", node.keys, node.residual), "semi", terms)
        names = [(name, Column(name)) for name in node.left.schema.names]
        assert node.mark is not None
        return Project(semi, [*names, (node.mark, Literal(True))])

    def _outer(self, node: Join, kind: str, terms: list[Expr]) -> Node:
        right_names = set(node.right.schema.names)
        to_right: list[Expr] = []
        residual: list[Expr] = []
        keys = list(node.keys)
        left_names = set(node.left.schema.names)
        for term in conjuncts(node.residual) if node.residual is not None else []:
            names = columns_in(term)
            pair = _as_key(term, left_names, right_names)
            if names and names <= right_names:
                to_right.append(term)
            elif pair is not None and kind != "mark":
                keys.append(pair)
            else:
                residual.append(term)
        left = self._push(node.left, terms)
        right = self._push(node.right, to_right)
        rest = all_of(residual) if residual else None
        if kind in ("semi", "anti", "left", "single") and not node.null_equal:
            right = self._reduced(left, right, keys)
        return Join(left, right, kind, keys, rest, mark=node.mark, null_equal=node.null_equal)

    def _reduced(self, left: Node, right: Node, keys: Sequence[tuple[Expr, Expr]]) -> Node:
        """The right side without rows whose keys the left side has not, where that is most of them."""
        if not keys:
            return right
        ours, theirs = self._estimator.of(left), self._estimator.of(right)
        if theirs.rows < REDUCE_FACTOR * ours.rows or not self._is_cheap_twice(left):
            return right
        self._reductions += 1
        items = [(f"key {place} of side {self._reductions}", key) for place, (key, _) in enumerate(keys)]
        wanted = Project(left, items)
        pairs = [(other, Column(name)) for (name, _), (_, other) in zip(items, keys, strict=True)]
        return Join(right, wanted, "semi", pairs)

    def _is_cheap_twice(self, node: Node) -> bool:
        """It will be kept: rows that are many would have to be held in memory."""
        return self._estimator.of(node).rows < 2_000_000

    def _full(self, node: Join, terms: list[Expr]) -> Node:
        """Rows of the left side with their matches, and those of the right side that have none."""
        left, right = self._push(node.left, []), self._push(node.right, [])
        matched = Join(left, right, "left", node.keys, node.residual, null_equal=node.null_equal)
        alone = Join(right, left, "anti", _swapped(node.keys), node.residual, null_equal=node.null_equal)
        items: list[tuple[str, Expr]] = []
        for name, data_type in left.schema:
            items.append((name, Literal(None).cast(data_type)))
        items += [(name, Column(name)) for name in right.schema.names]
        renamed = Project(matched, [(name, Column(name)) for name in node.schema.names])
        return _filtered(Union([renamed, Project(alone, items)]), terms)

    def _inner(self, node: Join, terms: list[Expr]) -> Node:
        relations: list[Node] = []
        found: list[Expr] = []
        self._flatten(node, relations, found, is_first=True)
        found += terms
        return _reordered(self._ordered(relations, found), node)

    def _flatten(
        self, node: Node, relations: list[Node], terms: list[Expr], *, is_first: bool = False
    ) -> None:
        """Inner joins in a row are one set of relations and one set of conditions.

        What several nodes read is a relation of its own, but for the first join, which is being rewritten.
        """
        if is_first or self._uses.get(id(node), 0) <= 1:
            if isinstance(node, Join) and node.kind in ("inner", "cross") and not node.null_equal:
                self._flatten(node.left, relations, terms)
                self._flatten(node.right, relations, terms)
                terms += [Compare(CompareOp.EQ, ours, theirs) for ours, theirs in node.keys]
                if node.residual is not None:
                    terms += conjuncts(node.residual)
                return
            if isinstance(node, Filter):
                self._flatten(node.input, relations, terms)
                terms += conjuncts(node.predicate)
                return
        relations.append(node)

    def _ordered(self, relations: list[Node], given: list[Expr]) -> Node:
        terms = [part for term in given for part in conjuncts(factored(term))]
        names = [set(relation.schema.names) for relation in relations]
        own: list[list[Expr]] = [[] for _ in relations]
        between: list[Expr] = []
        for term in terms:
            used = columns_in(term)
            place = next((i for i, there in enumerate(names) if used <= there), None)
            if place is not None:
                own[place].append(term)
                continue
            between.append(term)
            for i, there in enumerate(names):
                implied = implied_by(term, there)
                if implied is not None:
                    own[i].append(implied)
        parts = [self._push(relation, own[i]) for i, relation in enumerate(relations)]
        return _Order(parts, between, self._estimator).joined()


_RULES: dict[type[Node], Callable[..., Node]] = {
    Scan: _Optimizer._scan,
    Filter: _Optimizer._filter,
    Project: _Optimizer._project,
    GroupBy: _Optimizer._group_by,
    Sort: _Optimizer._sort,
    Limit: _Optimizer._limit,
    Repeat: _Optimizer._repeat,
    MapBatches: _Optimizer._map_batches,
    Union: _Optimizer._union,
    Join: _Optimizer._join,
}


class _Order:
    """Joins relations two by two, always the pair with the fewest rows next."""

    def __init__(self, parts: list[Node], terms: list[Expr], estimator: Estimator) -> None:
        self._parts = parts
        self._terms = terms
        self._estimator = estimator
        self._pairs: dict[tuple[int, int], Join] = {}
        self._made: list[Node] = list(parts)

    def joined(self) -> Node:
        while len(self._parts) > 1:
            best: tuple[tuple[bool, float, int, int], Join] | None = None
            for i in range(len(self._parts)):
                for j in range(i + 1, len(self._parts)):
                    join = self._known_pair(self._parts[i], self._parts[j])
                    rows = self._estimator.of(join).rows
                    rank = (not join.keys, rows, i, j)
                    if best is None or rank < best[0]:
                        best = (rank, join)
            assert best is not None
            (_, _, i, j), join = best
            self._terms = [term for term in self._terms if not self._is_used(term, join)]
            del self._parts[j]
            self._parts[i] = join
            self._made.append(join)
        return _filtered(self._parts[0], self._terms)

    def _is_used(self, term: Expr, join: Join) -> bool:
        return columns_in(term) <= set(join.schema.names)

    def _known_pair(self, a: Node, b: Node) -> Join:
        """Parts stay alive until the end, so their numbers stand for them."""
        found = self._pairs.get((id(a), id(b)))
        if found is None:
            found = self._pairs[id(a), id(b)] = self._pair(a, b)
        return found

    def _pair(self, a: Node, b: Node) -> Join:
        """The smaller side is built, the larger one probes."""
        left, right = (a, b) if self._estimator.of(a).rows >= self._estimator.of(b).rows else (b, a)
        left_names, right_names = set(left.schema.names), set(right.schema.names)
        keys: list[tuple[Expr, Expr]] = []
        residual: list[Expr] = []
        for term in self._terms:
            if not columns_in(term) <= left_names | right_names:
                continue
            pair = _as_key(term, left_names, right_names)
            if pair is None:
                residual.append(term)
            else:
                keys.append(pair)
        return Join(left, right, "inner", keys, all_of(residual) if residual else None)


# ---- projections ----


def projected(node: Node, items: Sequence[tuple[str, Expr]]) -> Node:
    """A projection. One right above another becomes one, where nothing is computed twice for it."""
    if isinstance(node, Project) and not _repeats(node, items):
        inner = dict(node.items)
        return projected(node.input, [(name, substitute(item, inner)) for name, item in items])
    names = tuple(name for name, _ in items)
    if names == node.schema.names and all(
        isinstance(item, Column) and item.name == name for name, item in items
    ):
        return node
    return Project(node, items)


def _repeats(node: Project, items: Sequence[tuple[str, Expr]]) -> bool:
    """Whether some item of the inner projection, other than a plain column, is used more than once."""
    uses: dict[str, int] = {}
    for _, item in items:
        for name in column_uses(item):
            uses[name] = uses.get(name, 0) + 1
    return any(uses.get(name, 0) > 1 and not isinstance(item, Column | Literal) for name, item in node.items)


# ---- conditions ----


def factored(term: Expr) -> Expr:
    """(a AND b) OR (a AND c) is a AND (b OR c)."""
    if not isinstance(term, Or):
        return term
    branches = [conjuncts(branch) for branch in term.terms]
    common = set.intersection(*({identity(part) for part in branch} for branch in branches))
    if not common:
        return term
    shared = {identity(part): part for part in branches[0] if identity(part) in common}
    rest = [[part for part in branch if identity(part) not in common] for branch in branches]
    if not all(rest):
        return all_of(shared.values())
    return all_of([*shared.values(), Or(tuple(all_of(branch) for branch in rest))])


def implied_by(term: Expr, names: set[str]) -> Expr | None:
    """What an OR over several relations says of one of them alone."""
    if not isinstance(term, Or):
        return None
    branches = []
    for branch in term.terms:
        own = [part for part in conjuncts(branch) if columns_in(part) and columns_in(part) <= names]
        if not own:
            return None
        branches.append(all_of(own))
    return Or(tuple(branches))


def rejects_null(term: Expr, names: set[str]) -> bool:
    """Whether it cannot be true where all these columns are NULL."""
    if isinstance(term, Compare):
        return any(isinstance(side, Column) and side.name in names for side in (term.left, term.right))
    if isinstance(term, Between | InList | Like):
        return isinstance(term.value, Column) and term.value.name in names
    if isinstance(term, IsNull):
        return term.negated and isinstance(term.value, Column) and term.value.name in names
    if isinstance(term, Not):
        return isinstance(term.value, Between | InList | Like) and rejects_null(term.value, names)
    if isinstance(term, And):
        return any(rejects_null(part, names) for part in term.terms)
    return isinstance(term, Column) and term.name in names


def _as_key(term: Expr, left: set[str], right: set[str]) -> tuple[Expr, Expr] | None:
    """An equality of something of the left side and something of the right one, in that order."""
    if not isinstance(term, Compare) or term.op != CompareOp.EQ:
        return None
    first, second = columns_in(term.left), columns_in(term.right)
    if not first or not second:
        return None
    if first <= left and second <= right:
        return term.left, term.right
    if first <= right and second <= left:
        return term.right, term.left
    return None


def _asked_for(terms: Iterable[Expr], mark: str | None) -> Expr | None:
    return next((term for term in terms if isinstance(term, Column) and term.name == mark), None)


def _same(terms: list[Expr]) -> _Identity:
    return _Identity(terms)


class _Identity:
    """Membership by identity: `==` of expressions makes another expression."""

    def __init__(self, terms: list[Expr]) -> None:
        self._numbers = {id(term) for term in terms}

    def __contains__(self, term: object) -> bool:
        return id(term) in self._numbers


def _filtered(node: Node, terms: list[Expr]) -> Node:
    return Filter(node, all_of(terms)) if terms else node


def _swapped(keys: Sequence[tuple[Expr, Expr]]) -> list[tuple[Expr, Expr]]:
    return [(theirs, ours) for ours, theirs in keys]


def _reordered(node: Node, like: Node) -> Node:
    """The columns in another node's order."""
    if node.schema.names == like.schema.names:
        return node
    return Project(node, [(name, Column(name)) for name in like.schema.names])
