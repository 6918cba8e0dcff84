"""Which row groups, pages and files can hold a matching row: a filter, rewritten for statistics. Pure.

`rewrite` turns a filter over columns into one over their bounds. The engine evaluates it like any other, with
one row per row group or page (wasm/src/scan/bounds.zig), and leaves out only what comes out FALSE; NULL,
which is what an unknown bound leads to, keeps the rows. The truth table, for a column x with bounds min
and max:

    x = v         min <= v AND max >= v              x IS NULL        nulls > 0
    x <> v        min <> v OR max <> v OR nan        x IS NOT NULL    nulls < rows
    x < v         min < v                            x LIKE 'ab%'     min < 'ac' AND max >= 'ab'
    x > v         max > v OR nan                     x IN (v, w)      like x = v OR x = w
    x BETWEEN v AND w   max >= v AND min <= w        x NOT IN (v, w)  like x <> v AND x <> w

Each but IS NULL also needs a row that is not NULL: nulls < rows. `nan`: a NaN, which is greater than
everything, may hide above max. NOT is moved inwards first. What is not in the table might always match.
"""

from __future__ import annotations

from querymode._abi import CompareOp, NodeTag, Statistic
from querymode.errors import QueryModeError
from querymode.expr.literals import encode_value, fit, plain
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
    joined,
)
from querymode.plan.bind import bind_predicate
from querymode.schema import Schema
from querymode.types import BOOL, INT64, is_nested, is_vector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from querymode.types import DataType

#: Longer IN lists are pruned by their least and greatest value.
IN_VALUES_MAX = 64
#: What the number of a piece is called beside its statistics.
PIECE = "piece"
#: Terms of an OR that are looked at; more are a residual.
OR_TERMS_MAX = 256

_NEGATED = {
    CompareOp.EQ: CompareOp.NEQ,
    CompareOp.NEQ: CompareOp.EQ,
    CompareOp.LT: CompareOp.GTE,
    CompareOp.LTE: CompareOp.GT,
    CompareOp.GT: CompareOp.LTE,
    CompareOp.GTE: CompareOp.LT,
}
_MIRRORED = {
    CompareOp.EQ: CompareOp.EQ,
    CompareOp.NEQ: CompareOp.NEQ,
    CompareOp.LT: CompareOp.GT,
    CompareOp.LTE: CompareOp.GTE,
    CompareOp.GT: CompareOp.LT,
    CompareOp.GTE: CompareOp.LTE,
}


class Pruning:
    """A filter over statistics: the columns it speaks of, and the engine's plan."""

    __slots__ = ("_fields", "_predicate", "columns", "plan", "probes")

    def __init__(
        self,
        columns: tuple[str, ...],
        fields: list[tuple[str, DataType]],
        predicate: Expr,
        plan: bytes,
        probes: bytes,
    ) -> None:
        self.columns = columns
        self._fields = fields
        self._predicate = predicate
        self.plan = plan
        #: Values of which a column must have one, for Bloom filters (wasm/src/scan/request.zig).
        self.probes = probes

    @property
    def selection(self) -> bytes:
        """A plan over the statistics and a last column, which leaves that column where rows may match."""
        from querymode.plan.wire import Wire

        wire = Wire(Schema([*self._fields, (PIECE, INT64)]))
        wire.filter(Coalesce((self._predicate, Literal(True))))
        wire.project([(PIECE, Column(PIECE))])
        return wire.encoded()


def rewrite(predicates: Sequence[Expr], schema: Schema) -> Pruning | None:
    """The filter over statistics, or None where no statistic could rule anything out."""
    from querymode.engine.plan_bytes import encode_plan

    rewriter = _Rewriter(schema)
    terms = [term for term in map(rewriter.might, predicates) if term is not None]
    if not terms:
        return None
    fields = statistics_fields(rewriter.columns, schema)
    predicate = joined(And, terms)
    try:
        wire = bind_predicate(predicate, Schema(fields)).wire
    except QueryModeError:
        return None  # the filter itself says what is wrong with it
    columns = tuple(rewriter.columns)
    probes = [probe for predicate in predicates for probe in _probes(predicate, schema, columns)]
    plan = encode_plan(fields, [bytes((NodeTag.FILTER,)) + wire])
    return Pruning(columns, fields, predicate, plan, len(probes).to_bytes(4, "little") + b"".join(probes))


#: What the engine knows of every column, in its order (wasm/src/scan/bounds.zig).
STATISTICS = tuple(kind.name.lower() for kind in Statistic)


def statistic(kind: str, name: str) -> str:
    """The name of a statistic of a column."""
    return f"{kind}\0{name}"


def statistics_fields(columns: Iterable[str], schema: Schema) -> list[tuple[str, DataType]]:
    fields: list[tuple[str, DataType]] = []
    for name in columns:
        data_type = schema.type_of(name)
        types = (data_type, data_type, INT64, BOOL, INT64, BOOL, BOOL)
        fields += zip((statistic(kind, name) for kind in STATISTICS), types, strict=True)
    return fields


class _Rewriter:
    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        #: In the order they were met.
        self.columns: dict[str, None] = {}
        #: What was found of conditions that may stand in several places, which are kept as well.
        self._known: dict[tuple[int, bool], tuple[Expr, Expr | None]] = {}

    def might(self, node: Expr) -> Expr | None:
        """When a group may hold a row for which `node` is TRUE; None: always."""
        return self._found(node, True)

    def might_not(self, node: Expr) -> Expr | None:
        """The same for a row for which `node` is FALSE."""
        return self._found(node, False)

    def _found(self, node: Expr, wanted: bool) -> Expr | None:
        known = self._known.get((id(node), wanted))
        if known is None:
            rule = (_MIGHT if wanted else _MIGHT_NOT)[type(node)]
            known = self._known[id(node), wanted] = (node, rule(self, node))
        return known[1]

    def _always(self, node: Expr) -> None:
        """Statistics say nothing of it."""

    def _not(self, node: Not) -> Expr | None:
        return self.might_not(node.value)

    def _not_not(self, node: Not) -> Expr | None:
        return self.might(node.value)

    def _and(self, node: And) -> Expr | None:
        return self._all([self.might(term) for term in node.terms])

    def _not_and(self, node: And) -> Expr | None:
        return self._either([self.might_not(term) for term in node.terms[: OR_TERMS_MAX + 1]])

    def _or(self, node: Or) -> Expr | None:
        return self._either([self.might(term) for term in node.terms[: OR_TERMS_MAX + 1]])

    def _not_or(self, node: Or) -> Expr | None:
        return self._all([self.might_not(term) for term in node.terms])

    def _comparison(self, node: Compare) -> Expr | None:
        return self._compare(node.op, node.left, node.right)

    def _not_comparison(self, node: Compare) -> Expr | None:
        return self._compare(_NEGATED[node.op], node.left, node.right)

    def _not_between(self, node: Between) -> Expr | None:
        below = self._compare(CompareOp.LT, node.value, node.low)
        return self._either([below, self._compare(CompareOp.GT, node.value, node.high)])

    def _null(self, node: IsNull) -> Expr | None:
        return self._is_null(node.value, node.negated)

    def _not_null(self, node: IsNull) -> Expr | None:
        return self._is_null(node.value, not node.negated)

    def _column(self, node: Column) -> Expr | None:
        """A condition of its own."""
        return self._compare(CompareOp.EQ, node, Literal(True))

    def _not_column(self, node: Column) -> Expr | None:
        return self._compare(CompareOp.EQ, node, Literal(False))

    def _all(self, terms: list[Expr | None]) -> Expr | None:
        """An AND rules out what any of its terms rules out."""
        known = [term for term in terms if term is not None]
        return joined(And, known) if known else None

    def _either(self, terms: list[Expr | None]) -> Expr | None:
        """An OR can rule out only what each of its terms rules out."""
        known = [term for term in terms if term is not None]
        return joined(Or, known) if known and len(known) == len(terms) <= OR_TERMS_MAX else None

    def _bounds(self, column: Expr) -> tuple[Expr, Expr, Expr, Expr] | None:
        """min, max, nan and nulls < rows of a column, if it can have them."""
        if not isinstance(column, Column) or column.name not in self.schema:
            return None
        data_type = self.schema.type_of(column.name)
        if is_nested(data_type) or is_vector(data_type):
            return None
        self.columns[column.name] = None
        low, high, nulls, nan, rows, *_ = (Column(statistic(kind, column.name)) for kind in STATISTICS)
        return low, high, nan, Compare(CompareOp.LT, nulls, rows)

    def _compare(self, op: CompareOp, left: Expr, right: Expr) -> Expr | None:
        if isinstance(left, Literal):
            left, right, op = right, left, _MIRRORED[op]
        if not isinstance(right, Literal) or not _is_plain(right.value):
            return None
        bounds = self._bounds(left)
        if bounds is None:
            return None
        low, high, nan, some = bounds
        if op == CompareOp.EQ:
            found: Expr = And((Compare(CompareOp.LTE, low, right), Compare(CompareOp.GTE, high, right)))
        elif op == CompareOp.NEQ:
            found = Or((Compare(op, low, right), Compare(op, high, right), nan))
        elif op in (CompareOp.LT, CompareOp.LTE):
            found = Compare(op, low, right)
        else:
            found = Or((Compare(op, high, right), nan))
        return And((some, found))

    def _between(self, node: Between) -> Expr | None:
        if not isinstance(node.low, Literal) or not isinstance(node.high, Literal):
            return None
        if not _is_plain(node.low.value) or not _is_plain(node.high.value):
            return None
        bounds = self._bounds(node.value)
        if bounds is None:
            return None
        low, high, _, some = bounds
        return And((some, Compare(CompareOp.GTE, high, node.low), Compare(CompareOp.LTE, low, node.high)))

    def _in(self, node: InList) -> Expr | None:
        if not isinstance(node.values, tuple):
            bounds = node.values.bounds()
            return None if bounds is None else self._between(Between(node.value, *map(Literal, bounds)))
        values = [value for value in node.values if value is not None]
        if not values or not all(map(_is_plain, values)):
            return None
        if len(values) <= IN_VALUES_MAX:
            return self._either([self._compare(CompareOp.EQ, node.value, Literal(value)) for value in values])
        try:
            least, greatest = min(values), max(values)  # type: ignore[type-var]
        except TypeError:
            return None
        return self._between(Between(node.value, Literal(least), Literal(greatest)))

    def _not_in(self, node: InList) -> Expr | None:
        if not isinstance(node.values, tuple):
            return None
        values = [value for value in node.values if value is not None]
        if len(values) > IN_VALUES_MAX or not all(map(_is_plain, values)):
            return None
        return self._all([self._compare(CompareOp.NEQ, node.value, Literal(value)) for value in values])

    def _like(self, node: Like) -> Expr | None:
        prefix, whole = _prefix(node.pattern, node.escape)
        if node.ignore_case or not prefix:
            return None
        if whole:
            return self._compare(CompareOp.EQ, node.value, Literal(prefix))
        bounds = self._bounds(node.value)
        if bounds is None:
            return None
        low, high, _, some = bounds
        terms = [some, Compare(CompareOp.GTE, high, Literal(prefix))]
        behind = _behind(prefix)
        if behind is not None:
            terms.append(Compare(CompareOp.LT, low, Literal(behind)))
        return And(tuple(terms))

    def _is_null(self, value: Expr, negated: bool) -> Expr | None:
        if not isinstance(value, Column) or self._bounds(value) is None:
            return None
        nulls, rows = Column(statistic("nulls", value.name)), Column(statistic("rows", value.name))
        return Compare(CompareOp.LT, nulls, rows) if negated else Compare(CompareOp.GT, nulls, Literal(0))


_SILENT: dict[type[Expr], Callable[[_Rewriter, Any], Expr | None]] = {
    Literal: _Rewriter._always,
    Alias: _Rewriter._always,
    Arithmetic: _Rewriter._always,
    Negate: _Rewriter._always,
    Cast: _Rewriter._always,
    Function: _Rewriter._always,
    Case: _Rewriter._always,
    Then: _Rewriter._always,
    Coalesce: _Rewriter._always,
    Field: _Rewriter._always,
    Aggregate: _Rewriter._always,
}
_MIGHT: dict[type[Expr], Callable[[_Rewriter, Any], Expr | None]] = {
    Not: _Rewriter._not,
    And: _Rewriter._and,
    Or: _Rewriter._or,
    Compare: _Rewriter._comparison,
    Between: _Rewriter._between,
    InList: _Rewriter._in,
    Like: _Rewriter._like,
    IsNull: _Rewriter._null,
    Column: _Rewriter._column,
    **_SILENT,
}
_MIGHT_NOT: dict[type[Expr], Callable[[_Rewriter, Any], Expr | None]] = {
    Not: _Rewriter._not_not,
    And: _Rewriter._not_and,
    Or: _Rewriter._not_or,
    Compare: _Rewriter._not_comparison,
    Between: _Rewriter._not_between,
    InList: _Rewriter._not_in,
    Like: _Rewriter._always,
    IsNull: _Rewriter._not_null,
    Column: _Rewriter._not_column,
    **_SILENT,
}


def _is_plain(value: object) -> bool:
    """Neither NULL nor NaN: those have rules of their own, and pruning keeps out of them."""
    given = plain(value)
    if isinstance(given, Expr):
        return False
    return given is not None and not (isinstance(given, float) and given != given)


def _prefix(pattern: str, escape: str | None) -> tuple[str, bool]:
    """The text before a pattern's first wildcard, and whether there is no wildcard at all."""
    prefix = []
    characters = iter(pattern)
    for character in characters:
        if escape is not None and character == escape:
            following = next(characters, None)
            if following is None:
                return "", False
            prefix.append(following)
        elif character in "%_":
            return "".join(prefix), False
        else:
            prefix.append(character)
    return "".join(prefix), True


def _behind(prefix: str) -> str | None:
    """The least text greater than all that begin with `prefix`, in the order of UTF-8."""
    for end in range(len(prefix), 0, -1):
        following = ord(prefix[end - 1]) + 1
        if 0xD800 <= following <= 0xDFFF:  # not characters
            following = 0xE000
        if following <= 0x10FFFF:
            return prefix[: end - 1] + chr(following)
    return None


def _probes(node: Expr, schema: Schema, columns: tuple[str, ...]) -> Iterator[bytes]:
    """What must hold in every row that matches, as far as it is `x = v` or `x IN (v, w)`."""
    if isinstance(node, And):
        for term in node.terms:
            yield from _probes(term, schema, columns)
        return
    if isinstance(node, Compare) and node.op == CompareOp.EQ:
        column, value = (node.right, node.left) if isinstance(node.left, Literal) else (node.left, node.right)
        values = [value.value] if isinstance(value, Literal) else []
    elif isinstance(node, InList) and isinstance(node.values, tuple):
        column, values = node.value, [value for value in node.values if value is not None]
    else:
        return
    if not isinstance(column, Column) or column.name not in columns or not 0 < len(values) <= IN_VALUES_MAX:
        return
    data_type = schema.type_of(column.name)
    if data_type == BOOL or not all(map(_is_plain, values)):
        return
    # A value that the type cannot hold exactly is compared in another type: then nothing is asked.
    stored = [fit(plain(value), data_type) for value in values]
    if any(value is None for value in stored):
        return
    wire = [encode_value(value, data_type) for value in stored]
    head = columns.index(column.name).to_bytes(4, "little") + len(wire).to_bytes(4, "little")
    yield head + b"".join(wire)
