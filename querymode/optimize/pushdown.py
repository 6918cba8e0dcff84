"""Rewrites logical plans into better ones with the same rows.

    groups         keys that other keys determine are computed above
    normal forms   right and full joins become left ones, ORs lose what all their branches share
    filters        go down to the scans, and become keys of joins on their way
    joins          inner, semi and anti ones are put in an order by estimated size; the smaller side is built
    reduction      the large side of a semi, anti or left join is cut down to the keys of the small one first
    distinct       what is counted once for every value is grouped by it (optimize/count_distinct.py)

A node that several others read is rewritten once, and stays one node.
"""

from __future__ import annotations

from querymode._abi import CompareOp
from querymode._call import check
from querymode.expr.nodes import (
    Aggregate,
    Alias,
    And,
    Arithmetic,
    Between,
    Case,
    Cast,
    Coalesce,
    Column,
    Compare,
    Expr,
    Field,
    Function,
    InList,
    IsNull,
    Like,
    Literal,
    Negate,
    Not,
    Or,
    Then,
)
from querymode.expr.trees import all_of, column_uses, columns_in, conjuncts, identity, substitute, tree_size
from querymode.optimize.common_subexpressions import share
from querymode.optimize.fold_constants import fold
from querymode.optimize.join_order import Order, Reducer
from querymode.plan.nodes import (
    Filter,
    GroupBy,
    Join,
    Node,
    Passing,
    Project,
    Scan,
    Sort,
    Step,
    Union,
    filtered,
    rebuilt,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from querymode.optimize.estimate import Estimate, Estimator

#: A side is cut down first where it has so many times the rows of the other.
REDUCE_FACTOR = 4
#: Expressions of at most so many parts are computed twice, if that takes a filter further down.
CHEAP_SIZE = 5
#: Conditions of more parts stay above a projection that would make them larger.
PUSHED_SIZE = 1000
#: The side that it is cut down to is kept in memory: it must not have more rows than this.
KEPT_ROWS_MAX = 2_000_000
#: A build is worth asking before rows are read where it leaves at most this part of them.
SOUGHT_PART = 0.7


def optimize(node: Node) -> Node:
    """The plan to run."""
    node = rebuilt(fold(node), _with_fewer_keys)
    return share(rebuilt(node if _is_settled(node) else _Optimizer(node).result(), _with_counted_groups))


def _with_fewer_keys(node: Node) -> Node:
    if isinstance(node, GroupBy):
        from querymode.optimize.redundant_keys import fewer_keys

        return fewer_keys(node) or node
    if isinstance(node, Project) and isinstance(node.input, Project):
        return projected(node.input, node.items)
    return node


def _with_counted_groups(node: Node) -> Node:
    if not isinstance(node, GroupBy):
        return node
    from querymode.optimize.count_distinct import counted_groups

    return counted_groups(node) or node


def _is_settled(node: Node) -> bool:
    """Steps over one table whose filters stand right above it: there is nothing to move."""
    above_filter = False
    while isinstance(node, Step):
        if above_filter and not isinstance(node, Filter):
            return False
        above_filter = above_filter or isinstance(node, Filter)
        node = node.input
    return isinstance(node, Scan)


def reduces(join: Join, estimator: Estimator) -> bool:
    """Whether so few rows of the left side find a match that looking first pays."""
    left, right = estimator.of(join.left), estimator.of(join.right)
    if _has_all_keys(join, left, right):
        return False
    if len(join.keys) > 1 and right.rows <= SOUGHT_PART * left.rows:
        return True
    return any(right.values_of(theirs) <= SOUGHT_PART * left.values_of(ours) for ours, theirs in join.keys)


def _has_all_keys(join: Join, left: Estimate, right: Estimate) -> bool:
    """Whether the right side is a whole table with keys from end to end of the left's: what these refer to.

    How many values a column has is known from its bounds alone, which says too many where keys are far apart.
    """
    table = join.right
    while isinstance(table, Project):
        table = table.input
    if not isinstance(table, Scan):
        return False
    for ours, theirs in join.keys:
        own = left.bounds.get(ours.name) if isinstance(ours, Column) else None
        other = right.bounds.get(theirs.name) if isinstance(theirs, Column) else None
        if own is None or other is None:
            return False
        if min(own[1], other[1]) - max(own[0], other[0]) < SOUGHT_PART * (own[1] - own[0]):
            return False
    return bool(join.keys)


def _stays_small(term: Expr, items: Mapping[str, Expr]) -> bool:
    """Whether a condition may be written over what its columns stand for.

    One that a hundred projections each write twice would have more parts than there is time for.
    """
    if all(isinstance(items[name], Column | Literal) for name in columns_in(term)):
        return True
    return tree_size(substitute(term, items)) <= max(PUSHED_SIZE, CHEAP_SIZE * tree_size(term))


class _Optimizer:
    def __init__(self, root: Node) -> None:
        # Here, because most queries of one table are settled and need no estimates.
        from querymode.optimize.estimate import Estimator

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
                self._done[id(node)] = self._pushed(node, [])
            return filtered(self._done[id(node)], terms)
        return self._pushed(node, terms)

    def _pushed(self, node: Node, terms: list[Expr]) -> Node:
        return _RULES.get(type(node), _Optimizer._other)(self, node, terms)

    def _other(self, node: Node, terms: list[Expr]) -> Node:
        """Conditions pass a step that passes all columns and looks at every row alone; others keep them."""
        if isinstance(node, Passing) and node.ROW_BY_ROW:
            return self._below(node, terms)
        children = [self._push(child, []) for child in node.children]
        return filtered(node.with_children(children), terms)

    def _below(self, node: Passing, terms: list[Expr]) -> Node:
        return node.with_children([self._push(node.input, terms)])

    def _scan(self, node: Scan, terms: list[Expr]) -> Node:
        return filtered(node, terms)

    def _filter(self, node: Filter, terms: list[Expr]) -> Node:
        own = [part for term in conjuncts(node.predicate) for part in conjuncts(factored(term))]
        return self._push(node.input, [*own, *terms])

    def _project(self, node: Project, terms: list[Expr]) -> Node:
        items = dict(node.items)
        below: list[Expr] = []
        above: list[Expr] = []
        for term in terms:
            cheap = all(tree_size(items[name]) <= CHEAP_SIZE for name in columns_in(term))
            (below if cheap and _stays_small(term, items) else above).append(term)
        child = self._push(node.input, [substitute(term, items) for term in below])
        if child is node.input and not isinstance(child, Project):
            return filtered(node, above)
        return filtered(projected(child, node.items), above)

    def _group_by(self, node: GroupBy, terms: list[Expr]) -> Node:
        keys = dict(node.keys)
        below = [
            term
            for term in terms
            if keys and columns_in(term) and columns_in(term) <= keys.keys() and _stays_small(term, keys)
        ]
        above = [term for term in terms if term not in _same(below)]
        child = self._push(node.input, [substitute(term, keys) for term in below])
        return filtered(GroupBy(child, node.keys, node.calls), above)

    def _union(self, node: Union, terms: list[Expr]) -> Node:
        children = []
        for child in node.inputs:
            names: dict[str, Expr] = {}
            if terms:
                names.update(zip(node.schema.names, map(Column, child.schema.names), strict=True))
            children.append(self._push(child, [substitute(term, names) for term in terms]))
        same = all(new is old for new, old in zip(children, node.inputs, strict=True))
        return node if same else Union(children)

    # ---- joins ----

    def _join(self, node: Join, terms: list[Expr]) -> Node:
        if node.kind == "right":
            keys = _swapped(node.keys)
            swapped = Join(node.right, node.left, "left", keys, node.residual, null_equal=node.null_equal)
            return self._push(_reordered(swapped, node), terms)
        if node.kind == "full":
            return self._full(node, terms)
        if node.kind in ("inner", "cross", "semi", "anti") and not node.null_equal:
            return self._inner(node, terms)
        kind = node.kind
        left_names, right_names = set(node.left.schema.names), set(node.right.schema.names)
        below: list[Expr] = []
        above: list[Expr] = []
        for term in terms:
            (below if columns_in(term) <= left_names else above).append(term)
        if kind == "left" and any(rejects_null(term, right_names) for term in above):
            if not node.null_equal:
                return self._inner(Join(node.left, node.right, "inner", node.keys, node.residual), terms)
            kind = "inner"
        if kind == "mark":
            semi = _asked_for(above, node.mark)
            if semi is not None:
                rest = [term for term in above if term is not semi]
                if not any(node.mark in columns_in(term) for term in rest):
                    return self._inner(node, terms)
        return filtered(self._outer(node, kind, below), above)

    def _outer(self, node: Join, kind: str, terms: list[Expr]) -> Node:
        keys, residual, to_right = _conditions(node, set(node.left.schema.names))
        left = self._push(node.left, terms)
        right = self._push(node.right, to_right)
        if kind in ("left", "single") and not node.null_equal:
            right = self.reduced(left, right, keys)
        return Join(left, right, kind, keys, residual, mark=node.mark, null_equal=node.null_equal)

    def can_reduce(self, left: Node, right: Node) -> bool:
        """Whether the right side is best cut down to the keys of the left one, which is then kept."""
        ours, theirs = self._estimator.of(left), self._estimator.of(right)
        return theirs.rows >= REDUCE_FACTOR * ours.rows and ours.rows < KEPT_ROWS_MAX

    def reduced(self, left: Node, right: Node, keys: Sequence[tuple[Expr, Expr]]) -> Node:
        """The right side without rows whose keys the left side has not, where that is most of them."""
        if not keys or not self.can_reduce(left, right):
            return right
        self._reductions += 1
        items = [(f"key {place} of side {self._reductions}", key) for place, (key, _) in enumerate(keys)]
        wanted = Project(left, items)
        pairs = [(other, Column(name)) for (name, _), (_, other) in zip(items, keys, strict=True)]
        return Join(right, wanted, "semi", pairs)

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
        return filtered(Union([renamed, Project(alone, items)]), terms)

    def _inner(self, node: Join, terms: list[Expr]) -> Node:
        joins = _Joins(list(terms))
        self._flatten(node, joins, is_first=True)
        made = self._ordered(joins)
        if joins.marks:
            # Only rows that match were asked for: the marks are TRUE for all that are left.
            items: list[tuple[str, Expr]] = [(name, Column(name)) for name in made.schema.names]
            made = Project(made, items + [(name, Literal(True)) for name in joins.marks])
        return _reordered(made, node)

    def _flatten(self, node: Node, joins: _Joins, *, is_first: bool = False) -> None:
        """Joins in a row that keep or drop rows of their inputs are one set of relations and conditions.

        What several nodes read is a relation of its own, but for the first join, which is being rewritten.
        Conditions of a node come before those below it: a mark must know whether somebody asks for it.
        """
        if is_first or self._uses.get(id(node), 0) <= 1:
            if isinstance(node, Filter):
                joins.terms += conjuncts(node.predicate)
                self._flatten(node.input, joins)
                return
            if isinstance(node, Join) and not node.null_equal:
                if node.kind in ("inner", "cross"):
                    joins.terms += [Compare(CompareOp.EQ, ours, theirs) for ours, theirs in node.keys]
                    if node.residual is not None:
                        joins.terms += conjuncts(node.residual)
                    self._flatten(node.left, joins)
                    self._flatten(node.right, joins)
                    return
                asked = _asked_for(joins.terms, node.mark) if node.kind == "mark" else None
                if asked is not None:
                    rest = [term for term in joins.terms if term is not asked]
                    if not any(node.mark in columns_in(term) for term in rest):
                        joins.terms = rest
                        assert node.mark is not None
                        joins.marks.append(node.mark)
                        joins.reducers.append(self._reducer(node, "semi"))
                        self._flatten(node.left, joins)
                        return
                elif node.kind in ("semi", "anti"):
                    joins.reducers.append(self._reducer(node, node.kind))
                    self._flatten(node.left, joins)
                    return
        joins.relations.append(node)

    def _reducer(self, node: Join, kind: str) -> Reducer:
        keys, residual, to_right = _conditions(node, set(node.left.schema.names))
        return Reducer(kind, self._push(node.right, to_right), keys, residual)

    def _ordered(self, joins: _Joins) -> Node:
        relations = joins.relations
        terms = [part for term in joins.terms for part in conjuncts(factored(term))]
        owners = {name: i for i, relation in enumerate(relations) for name in relation.schema.names}
        own: list[list[Expr]] = [[] for _ in relations]
        between: list[Expr] = []
        for term in terms:
            check()
            used = columns_in(term)
            places = {owners.get(name, -1) for name in used}
            if not used:
                own[0].append(term)
                continue
            if len(places) == 1 and -1 not in places:
                own[places.pop()].append(term)
                continue
            between.append(term)
            for i in sorted(places - {-1}):
                implied = implied_by(term, set(relations[i].schema.names))
                if implied is not None:
                    own[i].append(implied)
        parts = [self._push(relation, own[i]) for i, relation in enumerate(relations)]
        return Order(parts, between, joins.reducers, self, self._estimator).joined()


_RULES: dict[type[Node], Callable[..., Node]] = {
    Scan: _Optimizer._scan,
    Filter: _Optimizer._filter,
    Project: _Optimizer._project,
    GroupBy: _Optimizer._group_by,
    Sort: _Optimizer._below,
    Union: _Optimizer._union,
    Join: _Optimizer._join,
}


class _Joins:
    """What a tree of joins is made of."""

    def __init__(self, terms: list[Expr]) -> None:
        self.relations: list[Node] = []
        self.reducers: list[Reducer] = []
        self.terms = terms
        #: Names of marks that are TRUE once all reducers are done.
        self.marks: list[str] = []


# ---- projections ----


def projected(node: Node, items: Sequence[tuple[str, Expr]]) -> Node:
    """A projection. One right above another becomes one, where nothing is computed twice for it."""
    if isinstance(node, Project) and not _repeats(node, items):
        inner = dict(node.items)
        below = node.input
        if not isinstance(below, Project):
            picked = [item.name for _, item in items if isinstance(item, Column)]
            if len(picked) == len(items):  # the types are known
                types = map(node.schema.type_of, picked)
                return Project(
                    below, [(name, inner[at]) for (name, _), at in zip(items, picked, strict=True)], types
                )
        return projected(below, [(name, substitute(item, inner)) for name, item in items])
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
    branches = [[(identity(part), part) for part in conjuncts(branch)] for branch in term.terms]
    common = set.intersection(*({same for same, _ in branch} for branch in branches))
    if not common:
        return term
    shared = {same: part for same, part in branches[0] if same in common}
    rest = [[part for same, part in branch if same not in common] for branch in branches]
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
    """Whether it cannot be true where all these columns are NULL. No is always a right answer."""
    return _REJECTING[type(term)](term, names)


def _is_one(value: Expr, names: set[str]) -> bool:
    return isinstance(value, Column) and value.name in names


def _unknown(value: Expr, names: set[str]) -> bool:
    return False


_REJECTING: dict[type[Expr], Callable[[Any, set[str]], bool]] = {
    Column: _is_one,
    Compare: lambda term, names: _is_one(term.left, names) or _is_one(term.right, names),
    Between: lambda term, names: _is_one(term.value, names),
    InList: lambda term, names: _is_one(term.value, names),
    Like: lambda term, names: _is_one(term.value, names),
    IsNull: lambda term, names: term.negated and _is_one(term.value, names),
    Not: lambda term, names: (
        isinstance(term.value, Between | InList | Like) and rejects_null(term.value, names)
    ),
    And: lambda term, names: any(rejects_null(part, names) for part in term.terms),
    # What these make of NULL is not looked at.
    Or: _unknown,
    Literal: _unknown,
    Alias: _unknown,
    Arithmetic: _unknown,
    Negate: _unknown,
    Cast: _unknown,
    Function: _unknown,
    Case: _unknown,
    Then: _unknown,
    Coalesce: _unknown,
    Field: _unknown,
    Aggregate: _unknown,
}


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


def _conditions(node: Join, left: set[str]) -> tuple[list[tuple[Expr, Expr]], Expr | None, list[Expr]]:
    """A join's keys, what else it asks of both sides, and what it asks of its right side alone."""
    right = set(node.right.schema.names)
    keys = list(node.keys)
    residual: list[Expr] = []
    to_right: list[Expr] = []
    for term in conjuncts(node.residual) if node.residual is not None else []:
        names = columns_in(term)
        pair = _as_key(term, left, right)
        if names and names <= right:
            to_right.append(term)
        elif pair is not None and node.kind != "mark" and not node.null_equal:
            keys.append(pair)
        else:
            residual.append(term)
    return keys, all_of(residual) if residual else None, to_right


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


def _swapped(keys: Sequence[tuple[Expr, Expr]]) -> list[tuple[Expr, Expr]]:
    return [(theirs, ours) for ours, theirs in keys]


def _reordered(node: Node, like: Node) -> Node:
    """The columns in another node's order."""
    if node.schema.names == like.schema.names:
        return node
    return Project(node, [(name, Column(name)) for name in like.schema.names])
