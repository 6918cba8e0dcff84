"""Aggregates in SQL. Each call becomes a column that GROUP BY computes; the same call twice is one column."""

from __future__ import annotations

from decimal import Decimal

from sqlglot import exp

from querymode._abi import AggregateOp
from querymode.errors import QueryModeError
from querymode.expr.aggregate_rules import RULES, SQL_NAMES
from querymode.expr.nodes import Aggregate, And, Cast, Column, Expr, IsNull, Literal
from querymode.expr.trees import columns_in, identity
from querymode.plan.aggregates import BoundCall
from querymode.types import BOOL, INT32, NULL, is_float

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from querymode.sql.expressions import Translator

    #: A key of ORDER BY: does it descend, do NULLs come first?
    SortKey = tuple[Expr, bool, bool]

#: By their names in SQL: of one value, of a value and a fraction, of texts and what stands between them.
_SIMPLE = {name: op for name, op in SQL_NAMES.items() if RULES[op].constant == "none"}
_PERCENTILES = {name: op for name, op in SQL_NAMES.items() if RULES[op].constant == "fraction"}
_JOINED = {name: op for name, op in SQL_NAMES.items() if RULES[op].constant == "separator"}
_COUNT_IF = ("count_if", "countif")
#: The value beside the greatest or least other one: whether that one descends.
_BESIDE = {
    "arg_max": True,
    "max_by": True,
    "argmax": True,
    "arg_min": False,
    "min_by": False,
    "argmin": False,
}
AGGREGATES = frozenset((*_SIMPLE, *_PERCENTILES, *_JOINED, *_COUNT_IF, *_BESIDE))


class Aggregates:
    """The aggregates of one SELECT."""

    def __init__(self, translator: Translator) -> None:
        self._translator = translator
        self._calls: dict[object, tuple[str, Aggregate]] = {}
        #: In what order rows come to them, if any of them says.
        self.order: tuple[SortKey, ...] = ()

    @property
    def calls(self) -> list[tuple[str, Aggregate]]:
        return list(self._calls.values())

    @property
    def columns(self) -> set[str]:
        return {name for name, _ in self._calls.values()}

    def call(self, node: exp.Anonymous, condition: exp.Expr | None = None) -> Expr:
        name = str(node.this).lower()
        arguments, distinct, order = _arguments(node)
        if any(isinstance(argument, exp.Star) for argument in arguments) and (name != "count" or distinct):
            raise self._translator.text.error("INVALID_AGGREGATE", f"{name} of * is not defined", node)
        values = [self._argument(argument) for argument in arguments if not isinstance(argument, exp.Star)]
        where = self._condition(condition)
        keys = [self._sort_key(term) for term in order]
        sorted_by = columns_in(*[key for key, _, _ in keys])
        if distinct and sorted_by - columns_in(*values):
            message = f"{name} of DISTINCT values cannot be ordered by anything else"
            raise self._translator.text.error("INVALID_AGGREGATE", message, node)
        owner = self._owner([*values, *([] if where is None else [where]), *(key for key, _, _ in keys)])
        owner.refuse(name, node)
        if name in _BESIDE:
            return owner._beside(node, name, values, where)
        aggregate = self._aggregate(node, name, values, distinct, where)
        if aggregate.op in _PERCENTILES.values() and keys:
            aggregate = self._directed(node, name, aggregate, keys)
        if keys and self._is_ordered(aggregate):
            owner._sort(node, keys)
        return owner._column(name, aggregate, node)

    def _is_ordered(self, aggregate: Aggregate) -> bool:
        """Whether the answer depends on the order of rows; of sums, those of floats do, which round."""
        if aggregate.op in (AggregateOp.SUM, AggregateOp.AVG):
            assert aggregate.value is not None
            return is_float(self._translator.check(aggregate.value))
        return RULES[aggregate.op].shows_order

    def within_group(
        self, node: exp.Anonymous, order: Sequence[exp.Ordered], condition: exp.Expr | None
    ) -> Expr:
        name = str(node.this).lower()
        self.refuse(name, node)
        op = _PERCENTILES.get(name)
        if op is None or len(node.expressions) != 1 or len(order) != 1:
            raise self._translator.text.not_supported(f"{name} WITHIN GROUP", node)
        key = self._sort_key(order[0])
        fraction = Literal(self._fraction(name, self._argument(node.expressions[0]), node))
        aggregate = Aggregate(op, key[0], (fraction,), where=self._condition(condition))
        return self._column(name, self._directed(node, name, aggregate, [key]), node)

    def _directed(
        self, node: exp.Anonymous, name: str, aggregate: Aggregate, keys: list[SortKey]
    ) -> Aggregate:
        """A percentile counts from the other end where its values descend."""
        value, descends, _ = keys[0]
        if not descends or aggregate.value is None or identity(value) != identity(aggregate.value):
            return aggregate
        if aggregate.op == AggregateOp.PERCENTILE_DISC:
            raise self._translator.text.not_supported(f"{name} of descending values", node)
        fraction = self._fraction(name, aggregate.extra[0], node)
        return Aggregate(
            aggregate.op,
            aggregate.value,
            (Literal(1 - fraction),),
            distinct=aggregate.is_distinct,
            where=aggregate.where,
        )

    # ---- the parts of a call ----

    def refuse(self, name: str, node: exp.Expr) -> None:
        translator = self._translator
        if translator.plain is not None:
            hint = "; HAVING can" if translator.plain == "WHERE" else ""
            message = f"{translator.plain} cannot hold aggregates such as {name}{hint}"
            raise translator.text.error("INVALID_AGGREGATE", message, node)

    def _owner(self, values: Sequence[Expr]) -> Aggregates:
        """Whose rows are aggregated: those of the query around this one, if only its columns are read."""
        read: set[str] = set().union(*(self._translator.reads(value) for value in values))
        for scope in self._translator.scope.outward() if read else ():
            if scope.translator is not None and read & scope.columns:
                return scope.translator.aggregates if read <= scope.columns else self
        return self

    def _argument(self, node: exp.Expr) -> Expr:
        return self._translator.in_clause("an aggregate", lambda: self._translator.expression(node))

    def _condition(self, node: exp.Expr | None) -> Expr | None:
        if node is None:
            return None
        return self._translator.in_clause("FILTER", lambda: self._translator.condition(node))

    def _sort_key(self, term: exp.Ordered) -> SortKey:
        return self._argument(term.this), bool(term.args.get("desc")), bool(term.args.get("nulls_first"))

    def _aggregate(
        self, node: exp.Anonymous, name: str, values: list[Expr], distinct: bool, where: Expr | None
    ) -> Aggregate:
        if name == "count" and not values:
            return Aggregate(AggregateOp.COUNT_ROWS, None, where=where)
        if name in _COUNT_IF and len(values) == 1:
            # As in DuckDB it is a sum: NULL where there is nothing to look at.
            told = Cast(self._translator.as_condition(values[0], node), INT32, False)
            return Aggregate(AggregateOp.SUM, told, distinct=distinct, where=where)
        wanted = 1 if name in _SIMPLE or name in _COUNT_IF else 2
        if name in _JOINED and len(values) == 1:
            values = [*values, Literal(",")]
        if len(values) != wanted:
            message = f"{name} takes {wanted} argument{'s' * (wanted > 1)}, not {len(values)}"
            raise self._translator.text.error("INVALID_AGGREGATE", message, node)
        if name in ("bool_and", "bool_or") and self._translator.check(values[0]) == NULL:
            values = [Cast(values[0], BOOL, False)]
        if name in _SIMPLE:
            return Aggregate(_SIMPLE[name], values[0], distinct=distinct, where=where)
        if name in _JOINED:
            return Aggregate(_JOINED[name], values[0], (values[1],), distinct=distinct, where=where)
        fraction = Literal(self._fraction(name, values[1], node))
        return Aggregate(_PERCENTILES[name], values[0], (fraction,), distinct=distinct, where=where)

    def _fraction(self, name: str, value: Expr, node: exp.Expr) -> Decimal | float | int:
        if isinstance(value, Literal) and isinstance(value.value, (Decimal, float, int)):
            return value.value
        raise self._translator.text.not_supported(
            f"{name} with a fraction that is not a constant number", node
        )

    def _beside(self, node: exp.Anonymous, name: str, values: list[Expr], where: Expr | None) -> Expr:
        """`arg_max(a, b)`: the first `a` of rows that are sorted by `b`."""
        if len(values) != 2:
            message = f"{name} takes 2 arguments, not {len(values)}"
            raise self._translator.text.error("INVALID_AGGREGATE", message, node)
        present: list[Expr] = [IsNull(value, True) for value in values]
        present += [] if where is None else [where]
        self._sort(node, [(values[1], _BESIDE[name], False)])
        return self._column(name, Aggregate(AggregateOp.FIRST, values[0], where=And(tuple(present))), node)

    def _sort(self, node: exp.Expr, keys: list[SortKey]) -> None:
        """All aggregates of a SELECT see rows in one order."""
        if self.order and _order_key(self.order) != _order_key(keys):
            raise self._translator.text.not_supported(
                "another ORDER BY in an aggregate of the same SELECT", node
            )
        self.order = tuple(keys)

    def _column(self, name: str, aggregate: Aggregate, node: exp.Expr) -> Expr:
        key = identity(aggregate)
        if key not in self._calls:
            names = self._translator.names
            try:
                data_type = BoundCall(aggregate, names).type  # type: ignore[arg-type]
            except QueryModeError as failure:
                raise self._translator.text.located(failure, node) from None
            self._calls[key] = (names.new(name, data_type), aggregate)
        return Column(self._calls[key][0])


def _order_key(keys: Sequence[SortKey]) -> list[object]:
    return [(identity(value), descends, first) for value, descends, first in keys]


def _arguments(node: exp.Anonymous) -> tuple[Sequence[exp.Expr], bool, list[exp.Ordered]]:
    """The arguments of an aggregate, whether they are DISTINCT, and the ORDER BY behind the last one."""
    arguments = list(node.expressions)
    distinct = bool(arguments) and isinstance(arguments[0], exp.Distinct)
    if distinct:
        arguments = [*arguments[0].expressions, *arguments[1:]]
    order: list[exp.Ordered] = []
    if arguments and isinstance(arguments[-1], exp.Order):
        order = arguments[-1].expressions
        arguments[-1] = arguments[-1].this
        if isinstance(arguments[-1], exp.Distinct):
            distinct = True
            arguments = [*arguments[:-1], *arguments[-1].expressions]
    return arguments, distinct, order
