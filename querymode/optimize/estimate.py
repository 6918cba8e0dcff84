"""How many rows a plan gives, and how many values a column has: guesses, for the order of joins alone.

Footers know the bounds of numbers and dates; where nothing is known, a filter keeps a fixed part. A wrong
guess costs time, never rows.
"""

from __future__ import annotations

import datetime as dt
import math
import weakref
from decimal import Decimal

from querymode._abi import AggregateOp, CompareOp, TypeTag
from querymode.errors import QueryModeError
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
from querymode.expr.trees import columns_in, conjuncts
from querymode.plan.nodes import (
    Filter,
    GroupBy,
    Join,
    Limit,
    Node,
    Passing,
    Project,
    Rows,
    Scan,
)
from querymode.plan.prune import statistic, statistics_fields
from querymode.schema import Schema
from querymode.types import is_decimal, is_float, is_integer, is_temporal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from querymode.engine.instance import Instance
    from querymode.table.table import Table

#: Parts of rows that conditions keep when nothing is known.
EQUAL_PART = 0.05
RANGE_PART = 0.3
LIKE_PART = 0.1
NULL_PART = 0.05
OTHER_PART = 0.3
#: Who asks for some of the groups by what they add up to wants few of them.
HAVING_PART = 0.1
#: What is left between two bounds, at least.
RANGE_LEAST = 1e-4
#: Values of a column of which nothing is known, at most.
DISTINCT_UNKNOWN = 10_000.0
DAY = 86_400
_EPOCH = dt.date(1970, 1, 1).toordinal()

Bounds = dict[str, tuple[float, float]]
_bounds: weakref.WeakKeyDictionary[Table, Bounds] = weakref.WeakKeyDictionary()


class Estimate:
    """Rows, and for columns of which something is known: how many values, and between which bounds.

    `aggregates` are the columns that groups add up to.
    """

    __slots__ = ("aggregates", "bounds", "distinct", "parts", "rows")

    def __init__(
        self,
        rows: float,
        distinct: dict[str, float],
        bounds: Bounds,
        aggregates: frozenset[str] = frozenset(),
    ) -> None:
        self.rows = rows
        self.distinct = distinct
        self.bounds = bounds
        self.aggregates = aggregates
        #: The part of rows that conditions keep, which are kept as well: they may stand in several places.
        self.parts: dict[int, tuple[Expr, float]] = {}

    def values_of(self, key: Expr) -> float:
        """How many values an expression has."""
        found = 1.0
        for name in columns_in(key):
            found *= self.distinct.get(name, min(self.rows, DISTINCT_UNKNOWN))
        return max(1.0, min(found, self.rows))

    def scaled(self, rows: float) -> Estimate:
        rows = max(1.0, rows)
        distinct = {name: min(count, rows) for name, count in self.distinct.items()}
        return Estimate(rows, distinct, self.bounds, self.aggregates)

    def pair_rows(self, right: Estimate, keys: Sequence[tuple[Expr, Expr]], has_residual: bool) -> float:
        """How many pairs an inner join with the right side leaves, at least one."""
        matching = 1.0
        if len(keys) == 1:
            ours, theirs = keys[0]
            matching /= max(self.values_of(ours), right.values_of(theirs))
        elif keys:
            # Several keys together are mostly one key of one side: they do not multiply beyond its rows.
            matching /= min(
                min(math.prod(self.values_of(ours) for ours, _ in keys), self.rows),
                min(math.prod(right.values_of(theirs) for _, theirs in keys), right.rows),
            )
        return max(1.0, self.rows * right.rows * matching * (OTHER_PART if has_residual else 1.0))

    def kept_part(
        self, kind: str, right: Estimate, keys: Sequence[tuple[Expr, Expr]], has_residual: bool
    ) -> float:
        """The part of rows that a semi or anti join with the right side leaves; its kin leave all."""
        if kind not in ("semi", "anti"):
            return 1.0
        share = [min(1.0, right.values_of(b) / self.values_of(a)) for a, b in keys]
        part = min(share, default=1.0) * (0.5 if has_residual else 1.0)
        return part if kind == "semi" else max(0.1, 1 - part)


class Estimator:
    """Estimates of nodes, each made once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Node, Estimate]] = {}

    def of(self, node: Node) -> Estimate:
        found = self._known.get(id(node))
        if found is None:
            # The node is kept beside: its number must not be used again while it is remembered.
            found = self._known[id(node)] = (node, self._new(node))
        return found[1]

    def _new(self, node: Node) -> Estimate:
        rule = _RULES.get(type(node))
        if rule is not None:
            return rule(self, node)
        if isinstance(node, Passing):
            return self.of(node.input)
        return Estimate(sum(self.of(child).rows for child in node.children), {}, {})

    def _of_scan(self, node: Scan) -> Estimate:
        return _of_scan(node)

    def _of_filter(self, node: Filter) -> Estimate:
        below = self.of(node.input)
        return below.scaled(below.rows * selectivity(node.predicate, below))

    def _of_limit(self, node: Limit) -> Estimate:
        below = self.of(node.input)
        return below if node.count is None else below.scaled(min(below.rows, node.count))

    def _of_project(self, node: Project) -> Estimate:
        below = self.of(node.input)
        distinct, bounds, aggregates = {}, {}, set()
        for name, item in node.items:
            if isinstance(item, Column):
                if item.name in below.aggregates:
                    aggregates.add(name)
                if item.name in below.distinct:
                    distinct[name] = below.distinct[item.name]
                if item.name in below.bounds:
                    bounds[name] = below.bounds[item.name]
        return Estimate(below.rows, distinct, bounds, frozenset(aggregates))

    def _of_groups(self, node: GroupBy) -> Estimate:
        below = self.of(node.input)
        rows = 1.0
        distinct = {}
        for name, key in node.keys:
            distinct[name] = below.values_of(key)
            rows *= distinct[name]
        rows = min(rows, below.rows)
        calls = frozenset(name for name, _ in node.calls) if node.keys else frozenset[str]()
        return Estimate(rows, {name: min(count, rows) for name, count in distinct.items()}, {}, calls)

    def _of_join(self, node: Join) -> Estimate:
        left, right = self.of(node.left), self.of(node.right)
        has_residual = node.residual is not None
        if node.kind in ("semi", "anti", "mark", "single"):
            return left.scaled(left.rows * left.kept_part(node.kind, right, node.keys, has_residual))
        rows = left.pair_rows(right, node.keys, has_residual)
        if node.kind in ("left", "full"):
            rows = max(rows, left.rows)
        both = Estimate(rows, left.distinct | right.distinct, left.bounds | right.bounds)
        return both.scaled(rows)


#: Others give as many rows as all their inputs.
_RULES: dict[type[Node], Callable[[Estimator, Any], Estimate]] = {
    Scan: Estimator._of_scan,
    Filter: Estimator._of_filter,
    Project: Estimator._of_project,
    GroupBy: Estimator._of_groups,
    Limit: Estimator._of_limit,
    Join: Estimator._of_join,
}


def _of_scan(node: Scan) -> Estimate:
    table = node.source
    rows = float(max(1, table.rows_expected))
    bounds: Bounds = {}
    distinct: dict[str, float] = {}
    if table.evidence is not None:
        known = table_bounds(table)
        renamed = dict(zip(table.schema.names, node.schema.names, strict=True))
        for name, (least, greatest) in known.items():
            bounds[renamed[name]] = (least, greatest)
            data_type = table.schema.type_of(name)
            if is_integer(data_type) or data_type.tag == TypeTag.DATE:
                step = DAY if data_type.tag == TypeTag.DATE else 1
                distinct[renamed[name]] = min(rows, (greatest - least) / step + 1)
    return Estimate(rows, distinct, bounds)


def table_bounds(table: Table) -> Bounds:
    """The least and greatest values of numbers and dates, as the footers say. Asked for once."""
    found = _bounds.get(table)
    if found is None:
        try:
            found = _ask_bounds(table)
        except QueryModeError:
            found = {}
        _bounds[table] = found
    return found


def _ask_bounds(table: Table) -> Bounds:
    from querymode.engine.one_task import on_instance
    from querymode.plan.wire import plan_over
    from querymode.qmcb import rows_of

    columns = [
        name
        for name, data_type in table.schema
        if (is_integer(data_type) or is_float(data_type) or is_decimal(data_type) or is_temporal(data_type))
        and data_type.tag != TypeTag.INTERVAL
    ]
    evidence = table.evidence
    if not columns or evidence is None or not table.lane_count:
        return {}
    source = Rows(Schema(statistics_fields(columns, table.schema)))
    calls = []
    for place, name in enumerate(columns):
        calls.append((f"min {place}", Aggregate(AggregateOp.MIN, Column(statistic("min", name)))))
        calls.append((f"max {place}", Aggregate(AggregateOp.MAX, Column(statistic("max", name)))))
    step = GroupBy(source, (), calls)

    def task(instance: Instance) -> list[bytes]:
        return evidence.ask(instance, columns, plan_over(source, [step]))

    row = rows_of(on_instance(task))[0]
    found: Bounds = {}
    for place, name in enumerate(columns):
        least, greatest = as_number(row[f"min {place}"]), as_number(row[f"max {place}"])
        if least is not None and greatest is not None and least <= greatest:
            found[name] = (least, greatest)
    return found


def as_number(value: object) -> float | None:
    """Where a value lies on a line: numbers as they are, dates and moments by seconds."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float | Decimal):
        return float(value)
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=dt.UTC).timestamp() if value.tzinfo is None else value.timestamp()
    if isinstance(value, dt.date):
        return float((value.toordinal() - _EPOCH) * DAY)
    return None


# ---- conditions ----


def selectivity(predicate: Expr, below: Estimate) -> float:
    """The part of rows for which it is true."""
    known = below.parts.get(id(predicate))
    if known is None:
        known = below.parts[id(predicate)] = (predicate, _selectivity(predicate, below))
    return known[1]


def _selectivity(predicate: Expr, below: Estimate) -> float:
    part = 1.0
    # The two ends of a range speak of one column: what they leave is between them.
    ends: dict[str, float] = {}
    for term in conjuncts(predicate):
        name = _limited(term, below)
        if name is None:
            part *= _part(term, below)
        else:
            ends[name] = ends.get(name, 1.0) - (1 - _part(term, below))
    for left in ends.values():
        part *= max(left, RANGE_LEAST)
    return max(part, 1e-6)


def _limited(term: Expr, below: Estimate) -> str | None:
    """The column of known bounds that a comparison with a constant gives one end."""
    if not isinstance(term, Compare) or term.op in (CompareOp.EQ, CompareOp.NEQ):
        return None
    for column, literal in ((term.left, term.right), (term.right, term.left)):
        if isinstance(column, Column) and _position(column, literal, below) is not None:
            return column.name
    return None


def _part(term: Expr, below: Estimate) -> float:
    if not isinstance(term, Not):
        return _PARTS[type(term)](term, below)
    known = below.parts.get(id(term))
    if known is None:
        known = below.parts[id(term)] = (term, _not_part(term, below))
    return known[1]


def _or_part(term: Or, below: Estimate) -> float:
    missed = 1.0
    for branch in term.terms:
        missed *= 1 - min(1.0, selectivity(branch, below))
    return 1 - missed


def _not_part(term: Not, below: Estimate) -> float:
    return max(0.05, 1 - _part(term.value, below))


def _in_part(term: InList, below: Estimate) -> float:
    return min(1.0, len(term.values) * _equal_part(term.value, below))


def _like_part(term: Like, below: Estimate) -> float:
    return LIKE_PART


def _null_part(term: IsNull, below: Estimate) -> float:
    return 1 - NULL_PART if term.negated else NULL_PART


def _other_part(term: Expr, below: Estimate) -> float:
    return OTHER_PART


def _equal_part(value: Expr, below: Estimate) -> float:
    if isinstance(value, Column) and value.name in below.distinct:
        return 1 / max(1.0, below.distinct[value.name])
    return EQUAL_PART


def _compare_part(term: Compare, below: Estimate) -> float:
    left, right, op = term.left, term.right, term.op
    if isinstance(left, Literal) and not isinstance(right, Literal):
        left, right = right, left
        op = {CompareOp.LT: CompareOp.GT, CompareOp.GT: CompareOp.LT}.get(op, op)
        op = {CompareOp.LTE: CompareOp.GTE, CompareOp.GTE: CompareOp.LTE}.get(term.op, op)
    if op == CompareOp.EQ:
        return _equal_part(left, below)
    if op == CompareOp.NEQ:
        return 1 - _equal_part(left, below)
    position = _position(left, right, below)
    if position is None:
        return HAVING_PART if _is_having(term, below) else RANGE_PART
    return position if op in (CompareOp.LT, CompareOp.LTE) else 1 - position


def _between_part(term: Between, below: Estimate) -> float:
    low, high = _position(term.value, term.low, below), _position(term.value, term.high, below)
    if low is None or high is None:
        return RANGE_PART / 2
    return max(high - low, RANGE_LEAST)


def _is_having(term: Compare, below: Estimate) -> bool:
    return not columns_in(term).isdisjoint(below.aggregates)


def _position(column: Expr, literal: Expr, below: Estimate) -> float | None:
    """How far along its column's bounds a constant lies, from 0 to 1."""
    if not isinstance(column, Column) or not isinstance(literal, Literal) or column.name not in below.bounds:
        return None
    value = as_number(_plain(literal.value))
    if value is None:
        return None
    least, greatest = below.bounds[column.name]
    if greatest <= least:
        return 1.0 if value >= greatest else 0.0
    return min(1.0, max(0.0, (value - least) / (greatest - least)))


def _plain(value: object) -> object:
    """Dates are often written as text."""
    if isinstance(value, str):
        try:
            return dt.date.fromisoformat(value[:10])
        except ValueError:
            return None
    return value


_PARTS: dict[type[Expr], Callable[[Any, Estimate], float]] = {
    And: selectivity,
    Or: _or_part,
    Not: _not_part,
    Compare: _compare_part,
    Between: _between_part,
    InList: _in_part,
    Like: _like_part,
    IsNull: _null_part,
    # Computed or stored truth, of which nothing is known.
    Column: _other_part,
    Literal: _other_part,
    Alias: _other_part,
    Arithmetic: _other_part,
    Negate: _other_part,
    Cast: _other_part,
    Function: _other_part,
    Case: _other_part,
    Then: _other_part,
    Coalesce: _other_part,
    Field: _other_part,
    Aggregate: _other_part,
}
