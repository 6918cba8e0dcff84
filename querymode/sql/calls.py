"""Calls in SQL: functions by their names, the forms with a grammar of their own, and aggregates."""

from __future__ import annotations

from sqlglot import exp

from querymode._abi import AggregateOp
from querymode.aggregates import result_type
from querymode.errors import QueryModeError
from querymode.expr import Aggregate, Coalesce, Column, Expr, Function, Literal
from querymode.sql.rewrite import fingerprint
from querymode.types import NULL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from querymode.sql.expressions import Translator
    from querymode.types import DataType

#: Aggregates by their names in SQL.
AGGREGATES = {
    "count": AggregateOp.COUNT,
    "sum": AggregateOp.SUM,
    "min": AggregateOp.MIN,
    "max": AggregateOp.MAX,
    "avg": AggregateOp.AVG,
    "mean": AggregateOp.AVG,
}


# ---- functions ----


def call(translator: Translator, node: exp.Anonymous) -> Expr:
    """A function or an aggregate."""
    name = str(node.this).lower()
    if name in AGGREGATES:
        return translator.aggregates.call(node, None)
    arguments = [translator.translate(argument) for argument in node.expressions]
    moment = translator.binder.now(name) if not arguments else None
    if moment is not None:
        return moment
    if name == "coalesce" or name == "ifnull":
        return _coalesce(translator, name, arguments, node)
    return Function(name, tuple(arguments))


def _coalesce(translator: Translator, name: str, arguments: list[Expr], node: exp.Expression) -> Expr:
    if not arguments:
        raise translator.text.error("INVALID_FILTER", f"{name} takes at least one value", node)
    return Coalesce(tuple(translator.fitted(arguments)))


def extract(translator: Translator, node: exp.Extract) -> Expr:
    return Function("date_part", (Literal(node.this.name.lower()), translator.translate(node.expression)))


def substring(translator: Translator, node: exp.Substring) -> Expr:
    parts = [node.this, node.args.get("start") or exp.Literal.number(1), node.args.get("length")]
    return Function("substring", tuple(translator.translate(part) for part in parts if part is not None))


def position(translator: Translator, node: exp.StrPosition) -> Expr:
    return Function("position", (translator.translate(node.this), translator.translate(node.args["substr"])))


_TRIMS = {"LEADING": "ltrim", "TRAILING": "rtrim"}


def trim(translator: Translator, node: exp.Trim) -> Expr:
    name = _TRIMS.get(node.args.get("position") or "", "trim")
    parts = [node.this, node.args.get("expression")]
    return Function(name, tuple(translator.translate(part) for part in parts if part is not None))


#: Words that ask for the time without parentheses.
_CURRENT: dict[type[exp.Expression], str] = {
    exp.CurrentDate: "current_date",
    exp.CurrentTime: "current_time",
    exp.CurrentTimestamp: "current_timestamp",
    exp.Localtime: "localtime",
    exp.Localtimestamp: "localtimestamp",
}


def current(translator: Translator, node: exp.Expression) -> Expr:
    """The time at which the query was asked, the same everywhere in it."""
    found = translator.binder.now(_CURRENT[type(node)])
    assert found is not None
    return found


# ---- aggregates ----


def filtered_call(translator: Translator, node: exp.Filter) -> Expr:
    if not isinstance(node.this, exp.Anonymous) or str(node.this.this).lower() not in AGGREGATES:
        raise translator.text.not_supported("FILTER behind anything but an aggregate", node)
    return translator.aggregates.call(node.this, node.expression.this)


def within_group(translator: Translator, node: exp.WithinGroup) -> Expr:
    raise translator.text.not_supported("WITHIN GROUP", node)


class Aggregates:
    """The aggregates of one SELECT: each is computed once, into a column."""

    def __init__(self, translator: Translator) -> None:
        self._translator = translator
        self._calls: dict[tuple[Any, ...], tuple[str, Aggregate]] = {}

    @property
    def calls(self) -> list[tuple[str, Aggregate]]:
        return list(self._calls.values())

    @property
    def columns(self) -> set[str]:
        return {name for name, _ in self._calls.values()}

    def call(self, node: exp.Anonymous, condition: exp.Expression | None) -> Expr:
        translator = self._translator
        name = str(node.this).lower()
        if translator.plain is not None:
            hint = "; HAVING can" if translator.plain == "WHERE" else ""
            raise translator.text.error(
                "INVALID_AGGREGATE", f"{translator.plain} cannot hold aggregates such as {name}{hint}", node
            )
        arguments, distinct, order = _arguments(node)
        values = [self._argument(argument) for argument in arguments if not isinstance(argument, exp.Star)]
        op = AGGREGATES[name]
        if op == AggregateOp.COUNT and not values:
            aggregate = Aggregate(AggregateOp.COUNT_ROWS, None)
        elif len(values) == 1:
            aggregate = Aggregate(op, values[0])
        else:
            raise translator.text.error(
                "INVALID_AGGREGATE", f"{name} takes one argument, not {len(values)}", node
            )
        if distinct or order or condition is not None:
            raise translator.text.not_supported("DISTINCT, FILTER or ORDER BY in an aggregate", node)
        return self._column(name, aggregate, node)

    def _argument(self, node: exp.Expression) -> Expr:
        return self._translator.in_clause("an aggregate", lambda: self._translator.expression(node))

    def _column(self, name: str, aggregate: Aggregate, node: exp.Expression) -> Expr:
        key = fingerprint(aggregate)
        if key not in self._calls:
            column = self._translator.names.new(name, self._type(aggregate, node))
            self._calls[key] = (column, aggregate)
        return Column(self._calls[key][0])

    def _type(self, aggregate: Aggregate, node: exp.Expression) -> DataType:
        translator = self._translator
        argument = NULL if aggregate.value is None else translator.check(aggregate.value)
        try:
            return result_type(aggregate, argument)
        except QueryModeError as failure:
            raise translator.text.located(failure, node) from None


def _arguments(node: exp.Anonymous) -> tuple[Sequence[exp.Expression], bool, list[exp.Ordered]]:
    """The arguments of an aggregate, whether they are DISTINCT, and the ORDER BY behind the last one."""
    arguments = list(node.expressions)
    distinct = False
    order: list[exp.Ordered] = []
    if arguments and isinstance(arguments[-1], exp.Order):
        order = arguments[-1].expressions
        arguments[-1] = arguments[-1].this
    if arguments and isinstance(arguments[0], exp.Distinct):
        distinct = True
        arguments = [*arguments[0].expressions, *arguments[1:]]
        if arguments and isinstance(arguments[-1], exp.Order):
            order = arguments[-1].expressions
            arguments[-1] = arguments[-1].this
    return arguments, distinct, order
