"""What columns of a result are called where nobody gave them a name: the text of the expression, as DuckDB
writes it. Programs read results by these names, so common forms are spelt exactly as there."""

from __future__ import annotations

import re

from sqlglot import exp

from querymode.expr.spelling import TEXT_SIZE_MAX, cut_name
from querymode.sql.keywords import KEYWORDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "//",
    exp.Mod: "%",
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.DPipe: "||",
    exp.Pow: "^",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
}
_TYPE_NAMES = {"INT": "INTEGER", "TEXT": "VARCHAR", "INT128": "HUGEINT", "TIMESTAMPNTZ": "TIMESTAMP"}
_DEEPEST = 100


def unique_names(names: Sequence[str]) -> list[str]:
    """Names that come again get `_1`, `_2`, … behind them."""
    taken: set[str] = set()
    given = {name.casefold() for name in names}
    #: How far the numbers behind a name have got.
    counts: dict[str, int] = {}
    result: list[str] = []
    for name in names:
        folded = name.casefold()
        unique, count = name, counts.get(folded, 0)
        while unique.casefold() in taken or (unique != name and unique.casefold() in given):
            count += 1
            unique = f"{name}_{count}"
        counts[folded] = count
        taken.add(unique.casefold())
        result.append(unique)
    return result


def expression_name(node: exp.Expr) -> str:
    """The name of an expression without an alias."""
    if isinstance(node, exp.Paren):
        return expression_name(node.this)
    if isinstance(node, exp.Column):
        return node.name
    return cut_name(_shown(node, 0))


def _shown(node: exp.Expr, depth: int) -> str:
    rule = _RULES.get(type(node))
    if depth > _DEEPEST:
        return "…"
    if rule is not None:
        return rule(node, depth + 1)
    operator = _OPERATORS.get(type(node))
    if operator is not None:
        return f"({_shown(node.this, depth + 1)} {operator} {_shown(node.expression, depth + 1)})"
    return node.sql("duckdb")


def _column(node: exp.Column, depth: int) -> str:
    return ".".join(_identifier(part) for part in node.parts)


def _identifier(node: exp.Expr) -> str:
    name = node.name
    if re.fullmatch(r"[a-z_][a-z0-9_]*+", name) and name not in KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def _literal(node: exp.Literal, depth: int) -> str:
    if not node.is_string:
        return str(node.this)
    # No name is longer than the beginning of a long text.
    shown: str = node.this[:TEXT_SIZE_MAX]
    return "'" + shown.replace("'", "''") + "'"


def _negative(node: exp.Neg, depth: int) -> str:
    if isinstance(node.this, exp.Literal):
        return f"-{node.this.this}"
    return f"(-({_shown(node.this, depth)}))"


def _call(node: exp.Anonymous, depth: int) -> str:
    name = str(node.this).lower()
    if name == "count" and (not node.expressions or isinstance(node.expressions[0], exp.Star)):
        return "count_star()"
    if name in ("coalesce", "ifnull"):
        name = "COALESCE"
    name = f'"{name}"' if name in KEYWORDS and name != "coalesce" else name
    return f"{name}({', '.join(_argument(argument, depth) for argument in node.expressions)})"


def _argument(node: exp.Expr, depth: int) -> str:
    if isinstance(node, exp.Distinct):
        return "DISTINCT " + ", ".join(_argument(part, depth) for part in node.expressions)
    if isinstance(node, exp.Order):
        keys = ", ".join(_ordered(key, depth) for key in node.expressions)
        return f"{_argument(node.this, depth)} ORDER BY {keys}"
    return _shown(node, depth)


def _ordered(node: exp.Expr, depth: int) -> str:
    if not isinstance(node, exp.Ordered):
        return _shown(node, depth)
    return _shown(node.this, depth) + (" DESC" if node.args.get("desc") else "")


def _filter(node: exp.Filter, depth: int) -> str:
    return f"{_shown(node.this, depth)} FILTER (WHERE {_shown(node.expression.this, depth)})"


def _cast(node: exp.Cast, depth: int) -> str:
    word = "TRY_CAST" if isinstance(node, exp.TryCast) else "CAST"
    kind = node.to.sql("duckdb")
    return f"{word}({_shown(node.this, depth)} AS {_TYPE_NAMES.get(kind, kind)})"


def _case(node: exp.Case, depth: int) -> str:
    parts = ["CASE "]
    for branch in node.args["ifs"]:
        condition = _shown(branch.this, depth)
        if node.this is not None:
            condition = f"({_shown(node.this, depth)} = {condition})"
        parts.append(f"WHEN ({condition}) THEN ({_shown(branch.args['true'], depth)})")
    default = node.args.get("default")
    parts.append(f"ELSE {'NULL' if default is None else _shown(default, depth)} END")
    return " ".join(parts)


def _logical(node: exp.And | exp.Or, depth: int) -> str:
    word = "AND" if isinstance(node, exp.And) else "OR"
    terms: list[str] = []
    left: exp.Expr = node
    while type(left) is type(node):
        terms.append(_shown(left.expression, depth))
        left = left.this
    terms.append(_shown(left, depth))
    return f"({f' {word} '.join(reversed(terms))})"


def _like(node: exp.Like | exp.ILike, depth: int) -> str:
    sign = ("!" if node.args.get("negate") else "") + "~~" + ("*" if isinstance(node, exp.ILike) else "")
    return f"({_shown(node.this, depth)} {sign} {_shown(node.expression, depth)})"


def _escape(node: exp.Escape, depth: int) -> str:
    like = node.this
    parts = ", ".join(_shown(part, depth) for part in (like.this, like.expression, node.expression))
    call = f"{'i' if isinstance(like, exp.ILike) else ''}like_escape({parts})"
    return f"(NOT {call})" if like.args.get("negate") else call


def _not(node: exp.Not, depth: int) -> str:
    inner = node.this
    if isinstance(inner, exp.Is):
        if isinstance(inner.expression, exp.Null):
            return f"({_shown(inner.this, depth)} IS NOT NULL)"
        return _is(inner, depth, "IS DISTINCT FROM")
    return f"(NOT {_shown(inner, depth)})"


def _in(node: exp.In, depth: int) -> str:
    query = node.args.get("query")
    if query is not None:
        return f"({_shown(node.this, depth)} = ANY{query.sql('duckdb')})"
    items = ", ".join(_shown(item, depth) for item in node.expressions)
    return f"({_shown(node.this, depth)} IN ({items}))"


def _between(node: exp.Between, depth: int) -> str:
    parts = (node.this, node.args["low"], node.args["high"])
    value, low, high = (_shown(part, depth) for part in parts)
    return f"({value} BETWEEN {low} AND {high})"


def _is(node: exp.Is, depth: int, word: str = "IS NOT DISTINCT FROM") -> str:
    value = _shown(node.this, depth)
    if isinstance(node.expression, exp.Null):
        return f"({value} IS NULL)"
    return f"(CAST({value} AS BOOLEAN) {word} {_shown(node.expression, depth)})"


def _extract(node: exp.Extract, depth: int) -> str:
    return f"date_part('{node.this.name}', {_shown(node.expression, depth)})"


def _form(name: str, *parts: str) -> Callable[[Any, int], str]:
    """A function with a grammar of its own, written as a call of its parts."""

    def shown(node: exp.Expr, depth: int) -> str:
        given = [node.args[part] for part in parts if node.args.get(part) is not None]
        return f"{name}({', '.join(_shown(part, depth) for part in given)})"

    return shown


_RULES: dict[type[exp.Expr], Callable[[Any, int], str]] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Null: lambda node, depth: "NULL",
    exp.Boolean: lambda node, depth: "true" if node.this else "false",
    exp.Paren: lambda node, depth: _shown(node.this, depth),
    exp.Neg: _negative,
    exp.Anonymous: _call,
    exp.Filter: _filter,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Case: _case,
    exp.And: _logical,
    exp.Or: _logical,
    exp.Like: _like,
    exp.ILike: _like,
    exp.Escape: _escape,
    exp.Not: _not,
    exp.In: _in,
    exp.Between: _between,
    exp.Is: _is,
    exp.Extract: _extract,
    exp.Substring: _form('"substring"', "this", "start", "length"),
    exp.StrPosition: _form('"position"', "this", "substr"),
    exp.Trim: _form('"trim"', "this", "expression"),
}
