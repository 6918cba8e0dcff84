"""Calls in SQL: functions by their names, and the forms with a grammar of their own."""

from __future__ import annotations

from sqlglot import exp

from querymode.expr.nodes import Coalesce, Expr, Function, Literal
from querymode.sql.aggregates import AGGREGATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from querymode.sql.expressions import Translator


#: Aggregates in SQL; functions of two values have these names here, for which SQL has operators.
_BITWISE = ("bit_and", "bit_or", "bit_xor")


def call(translator: Translator, node: exp.Anonymous) -> Expr:
    """A function or an aggregate."""
    name = str(node.this).lower()
    if name in AGGREGATES:
        return translator.aggregates.call(node)
    if name in _BITWISE:
        raise translator.text.not_supported(f"the aggregate {name}", node)
    arguments = [translator.translate(argument) for argument in node.expressions]
    moment = translator.binder.now(name) if not arguments else None
    if moment is not None:
        return moment
    if name == "coalesce" or name == "ifnull":
        return _coalesce(translator, name, arguments, node)
    if name in ("concat", "concat_ws"):
        arguments = [translator.as_text(argument) for argument in arguments]
    return Function(name, tuple(arguments))


def _coalesce(translator: Translator, name: str, arguments: list[Expr], node: exp.Expr) -> Expr:
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


#: Words that are calls without parentheses, unless the FROM beside them has a column of that name.
BARE_CALLS = frozenset(
    (
        *("current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"),
        *("current_user", "session_user", "user", "current_role", "current_catalog", "current_schema"),
    )
)


def bare_call(translator: Translator, name: str, node: exp.Expr) -> Expr:
    """The time at which the query was asked, the same everywhere in it."""
    found = translator.binder.now(name)
    if found is None:
        raise translator.text.not_supported(name, node)
    return found


# ---- around aggregates ----


def filtered_call(translator: Translator, node: exp.Filter) -> Expr:
    condition = node.expression.this
    if isinstance(node.this, exp.WithinGroup):
        return within_group(translator, node.this, condition)
    if not isinstance(node.this, exp.Anonymous) or str(node.this.this).lower() not in AGGREGATES:
        raise translator.text.not_supported("FILTER behind anything but an aggregate", node)
    return translator.aggregates.call(node.this, condition)


def within_group(translator: Translator, node: exp.WithinGroup, condition: exp.Expr | None = None) -> Expr:
    """`percentile_cont(0.5) WITHIN GROUP (ORDER BY x)`."""
    if not isinstance(node.this, exp.Anonymous) or not isinstance(node.expression, exp.Order):
        raise translator.text.not_supported("WITHIN GROUP here", node)
    return translator.aggregates.within_group(node.this, node.expression.expressions, condition)
