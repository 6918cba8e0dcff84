"""sqlglot's expressions → ours, within the scope of one SELECT.

Names become columns of the plan, aggregates and subqueries become columns as well, which the SELECT computes
before the expression is evaluated. Every expression remembers the text it came from, so that an error of its
types can point there.
"""

from __future__ import annotations

from sqlglot import exp

from querymode._abi import ArithmeticOp, CompareOp
from querymode._call import check
from querymode.errors import QueryModeError
from querymode.expr.nodes import (
    TERMS_MAX,
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
    in_values,
    joined,
    too_many_terms,
)
from querymode.expr.trees import columns_in, parts_of
from querymode.sql import calls, constants, intervals
from querymode.sql.aggregates import Aggregates
from querymode.sql.scope import Ambiguous
from querymode.sql.subquery import ANY, EXISTS, IN, SCALAR, Subquery
from querymode.types import BINARY, BOOL, FLOAT64, NULL, UTF8, is_float, is_numeric, timestamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from querymode.expr.value_list import ValueList
    from querymode.sql.binder import Binder
    from querymode.sql.scope import Scope
    from querymode.types import DataType

_COMPARISONS = {
    exp.EQ: CompareOp.EQ,
    exp.NEQ: CompareOp.NEQ,
    exp.LT: CompareOp.LT,
    exp.LTE: CompareOp.LTE,
    exp.GT: CompareOp.GT,
    exp.GTE: CompareOp.GTE,
}
_NEGATED = {
    CompareOp.EQ: CompareOp.NEQ,
    CompareOp.NEQ: CompareOp.EQ,
    CompareOp.LT: CompareOp.GTE,
    CompareOp.GTE: CompareOp.LT,
    CompareOp.GT: CompareOp.LTE,
    CompareOp.LTE: CompareOp.GT,
}
_ARITHMETIC = {
    exp.Add: ArithmeticOp.ADD,
    exp.Sub: ArithmeticOp.SUBTRACT,
    exp.Mul: ArithmeticOp.MULTIPLY,
    exp.Div: ArithmeticOp.DIVIDE,
    exp.IntDiv: ArithmeticOp.DIVIDE_INTEGER,
    exp.Mod: ArithmeticOp.MODULO,
}
#: Operators that are functions by another name.
#: Names of the one zone whose clock is known.
_UTC = frozenset(("UTC", "GMT", "ETC/UTC", "ETC/GMT", "Z", "ZULU"))

_FUNCTIONS: dict[type[exp.Expr], str] = {
    exp.Pow: "power",
    exp.BitwiseAnd: "bit_and",
    exp.BitwiseOr: "bit_or",
    exp.BitwiseLeftShift: "shift_left",
    exp.BitwiseRightShift: "shift_right",
    exp.StartsWith: "starts_with",
    exp.NullSafeEQ: "is_not_distinct_from",
    exp.NullSafeNEQ: "is_distinct_from",
}


class Translator:
    """Expressions of one SELECT."""

    def __init__(self, binder: Binder, scope: Scope) -> None:
        self.binder = binder
        self.text = binder.text
        self.names = binder.names
        self.scope = scope
        scope.translator = self
        self.subqueries: dict[str, Subquery] = {}
        self.aggregates = Aggregates(self)
        #: Where an expression stands in which aggregates cannot: "WHERE". None: they can.
        self.plain: str | None = None
        #: Names of the SELECT list → what they mean; asked where no column has the name.
        self.aliases: Callable[[str], Expr | None] = _no_alias
        #: Whether these go before columns.
        self.aliases_first = False

    def close(self) -> None:
        """Breaks its circles: to find those of ten thousand SELECTs would take the collector 0.1 s."""
        self.scope.translator = None
        self.aliases = _no_alias
        del self.aggregates

    # ---- the way in ----

    def expression(self, node: exp.Expr) -> Expr:
        """An expression of any type that has one."""
        result = self.translate(node)
        self.check(result, node)
        return result

    def condition(self, node: exp.Expr) -> Expr:
        """An expression that is true or false."""
        result = self.translate(node)
        return self.as_condition(result, node)

    def as_condition(self, value: Expr, node: exp.Expr) -> Expr:
        data_type = self.check(value, node)
        if data_type in (BOOL, NULL):
            return value
        if is_numeric(data_type):
            return self.noted(Cast(value, BOOL, False), node)
        if isinstance(value, Literal) and isinstance(value.value, str):
            return self.noted(constants.text_as(value.value, BOOL), node)
        raise self.text.error(
            "INVALID_FILTER", f"a condition is true or false, but this is {data_type}", node
        )

    def in_clause(self, clause: str, work: Callable[[], Expr]) -> Expr:
        """An expression in which aggregates cannot stand."""
        before, self.plain = self.plain, clause
        try:
            return work()
        finally:
            self.plain = before

    # ---- types and places ----

    def check(self, value: Expr, node: exp.Expr | None = None) -> DataType:
        """The type; an error in it points at the smallest part that has it."""
        try:
            return self.names.type_of(value)
        except QueryModeError as failure:
            raise self._located(failure, value, node) from None

    def _located(self, failure: QueryModeError, value: Expr, node: exp.Expr | None) -> QueryModeError:
        for part in parts_of(value):
            try:
                self.names.type_of(part)
            except QueryModeError as inner:
                return self._located(inner, part, node)
        return self.text.located(failure, self.binder.origins.get(id(value), (None, node))[1])

    def noted(self, value: Expr, node: exp.Expr) -> Expr:
        """Remembers where an expression comes from."""
        self.binder.origins[id(value)] = (value, node)
        return value

    def translate(self, node: exp.Expr) -> Expr:
        check()
        rule = _RULES.get(type(node))
        if rule is None:
            if not isinstance(node, exp.Expr):
                raise self.text.error("SQL_SYNTAX", "an expression is missing", None)
            raise self.text.not_supported(_described(node), node)
        return self.noted(rule(self, node), node)

    # ---- names ----

    def column(self, node: exp.Column) -> Expr:
        parts = [part for part in node.parts if isinstance(part, exp.Identifier)]
        if len(parts) != len(node.parts):
            raise self.text.not_supported("* inside an expression", node)
        names = [part.name for part in parts]
        try:
            found = self._column(names)
        except Ambiguous as failure:
            candidates = " or ".join(failure.candidates)
            raise self.text.error(
                "COLUMN_NOT_FOUND",
                f"{'.'.join(names)} could mean {candidates}; write which",
                node,
                column=names[-1],
            ) from None
        if found is None and self._is_bare_call(names):
            return calls.bare_call(self, names[0].lower(), node)
        if found is None:
            raise self._missing(names, node)
        return found

    @staticmethod
    def _is_bare_call(names: list[str]) -> bool:
        return len(names) == 1 and names[0].lower() in calls.BARE_CALLS

    def _column(self, names: list[str]) -> Expr | None:
        """A column, or a field of one: `t.a`, `t.a.field`, `a`, `a.field`."""
        # As in DuckDB, `current_date` is no column of a query around this one.
        for scope in (self.scope,) if self._is_bare_call(names) else self.scope.outward():
            if len(names) > 1:
                field = scope.own_qualified(names[0], names[1])
                if field is not None:
                    return _fields(Column(field.column), names[2:])
            found = self._bare(scope, names[0])
            if found is not None and (len(names) == 1 or scope.relation(names[0]) is None):
                return _fields(found, names[1:])
        return None

    def _bare(self, scope: Scope, name: str) -> Expr | None:
        translator = scope.translator
        alias = translator.aliases if translator is not None else _no_alias
        if translator is not None and translator.aliases_first:
            found = alias(name)
            if found is not None:
                return found
        field = scope.own_column(name)
        return alias(name) if field is None else Column(field.column)

    def _missing(self, names: list[str], node: exp.Column) -> QueryModeError:
        from querymode.errors import column_not_found

        if len(names) > 1:
            for scope in self.scope.outward():
                relation = scope.relation(names[0])
                if relation is not None:
                    known = [field.name for field in relation.fields]
                    return self.text.located(column_not_found(names[1], known, table=relation.alias), node)
            tables = ", ".join(
                relation.alias for scope in self.scope.outward() for relation in scope.relations
            )
            message = f"there is no table {names[0]!r} in this query; there are: {tables or '(none)'}"
            return self.text.error("COLUMN_NOT_FOUND", message, node, column=".".join(names))
        if any(scope.relation(names[0]) is not None for scope in self.scope.outward()):
            return self.text.not_supported(f"the whole row of {names[0]} as a value", node)
        return self.text.located(column_not_found(names[0], self.scope.candidates()), node)

    # ---- constants ----

    def literal(self, node: exp.Literal) -> Expr:
        if self.binder.list_at(node) is not None:
            raise self.text.not_supported("a long list of values here", node)
        return Literal(node.this) if node.is_string else self._number(node.this, node)

    def _number(self, text: str, node: exp.Expr) -> Expr:
        try:
            found = constants.number(text)
        except ValueError:
            raise self.text.error("SQL_SYNTAX", f"{text} is not a number", node) from None
        if found is None:
            raise self.text.error("INVALID_FILTER", f"{text} is too large for a number", node)
        return found

    def string(self, node: exp.Expr) -> Expr:
        """`e'…'` and `$$…$$`."""
        return Literal(node.this)

    def null(self, node: exp.Null) -> Expr:
        return Literal(None)

    def boolean(self, node: exp.Boolean) -> Expr:
        return Literal(bool(node.this))

    def hexadecimal(self, node: exp.HexString) -> Expr:
        return self._number(f"0x{node.this}", node)

    def placeholder(self, node: exp.Placeholder) -> Expr:
        return self.binder.parameters.value(node)

    def interval(self, node: exp.Interval) -> Expr:
        return intervals.interval(self, node)

    # ---- operators ----

    def paren(self, node: exp.Paren) -> Expr:
        return self.translate(node.this)

    def logical(self, node: exp.And | exp.Or) -> Expr:
        kind = And if isinstance(node, exp.And) else Or
        terms: list[Expr] = []
        for part in _chain(node):
            term = self.condition(part)
            terms.extend(term.terms if isinstance(term, kind) else (term,))
        return kind(tuple(terms))

    def negation(self, node: exp.Not) -> Expr:
        return Not(self.condition(node.this))

    def comparison(self, node: exp.Binary) -> Expr:
        op = _COMPARISONS[type(node)]
        if type(node.this) in _COMPARISONS or type(node.expression) in _COMPARISONS:
            raise self.text.error("SQL_SYNTAX", "comparisons are not chained; AND combines them", node)
        for side, other, word in ((node.expression, node.this, op), (node.this, node.expression, None)):
            if isinstance(side, (exp.Any, exp.All)):
                if word is None:
                    raise self.text.not_supported("ANY or ALL on the left of a comparison", node)
                return self._quantified(node, other, side, word)
        left, right = _row(node.this), _row(node.expression)
        if left is not None and right is not None:
            return self._rows(node, op, left, right)
        return self.compared(op, self.translate(node.this), self.translate(node.expression))

    def compared(self, op: CompareOp, left: Expr, right: Expr) -> Expr:
        left, right = self.fitted([left, right])
        return Compare(op, left, right)

    def _rows(self, node: exp.Binary, op: CompareOp, left: list[exp.Expr], right: list[exp.Expr]) -> Expr:
        if op not in (CompareOp.EQ, CompareOp.NEQ) or len(left) != len(right):
            raise self.text.not_supported("this comparison of rows", node)
        equal = self._same_row(left, right)
        return equal if op == CompareOp.EQ else Not(equal)

    def _same_row(self, left: list[exp.Expr], right: list[exp.Expr]) -> Expr:
        """As values of structures: NULL equals NULL, and the answer is true or false."""
        terms: list[Expr] = []
        for pair in zip(left, right, strict=True):
            ours, theirs = self.fitted([self.translate(part) for part in pair])
            for side, other in ((ours, theirs), (theirs, ours)):
                if isinstance(side, Literal) and side.value is not None:
                    # Files can be left out by a comparison with a constant.
                    terms += [Compare(CompareOp.EQ, other, side), IsNull(other, True)]
                    break
            else:
                terms.append(Function("is_not_distinct_from", (ours, theirs)))
        return joined(And, terms)

    def fitted(self, values: Sequence[Expr]) -> list[Expr]:
        """Constant texts beside values of another type become constants of that type, as in DuckDB."""
        texts = [isinstance(value, Literal) and isinstance(value.value, str) for value in values]
        if not any(texts) or all(texts):
            return list(values)
        target = self._other_type([value for value, text in zip(values, texts, strict=True) if not text])
        if target is None:
            return list(values)
        return [
            self._as_type(value, target) if text else value for value, text in zip(values, texts, strict=True)
        ]

    def _other_type(self, values: Sequence[Expr]) -> DataType | None:
        for value in values:
            data_type = self.check(value)
            if data_type not in (NULL, UTF8):
                return data_type
        return None

    def _as_type(self, value: Expr, target: DataType) -> Expr:
        assert isinstance(value, Literal) and isinstance(value.value, str)
        origin = self.binder.origins.get(id(value))
        result = constants.text_as(value.value, target)
        return result if origin is None else self.noted(result, origin[1])

    def arithmetic(self, node: exp.Binary) -> Expr:
        """`a + b + c` is a tree as deep as it is long: walked, not recursed into."""
        links: list[exp.Binary] = []
        left: exp.Expr = node
        while type(left) in _ARITHMETIC:
            assert isinstance(left, exp.Binary)
            links.append(left)
            left = left.this
        value = self.translate(left)
        for link in reversed(links):
            pair = self.fitted([value, self.translate(link.expression)])
            value = self.noted(Arithmetic(_ARITHMETIC[type(link)], *pair), link)
        return value

    def minus(self, node: exp.Neg) -> Expr:
        inner = node.this
        if isinstance(inner, exp.Literal) and not inner.is_string and inner.this.isdigit():
            # The least integer has no positive one.
            least = constants.integer(-int(inner.this))
            if least is not None:
                return least
        value = self.translate(node.this)
        if isinstance(value, Literal):
            constant = constants.negated(value)
            if constant is not None:
                return constant
        return Negate(value)

    def operator_function(self, node: exp.Binary) -> Expr:
        values = self.fitted([self.translate(node.this), self.translate(node.expression)])
        return Function(_FUNCTIONS[type(node)], tuple(values))

    def concatenation(self, node: exp.DPipe) -> Expr:
        parts = [self.as_text(self.translate(part)) for part in _chain(node)]
        texts = [part.value for part in parts if isinstance(part, Literal) and isinstance(part.value, str)]
        return Literal("".join(texts)) if len(texts) == len(parts) else Function("||", tuple(parts))

    def as_text(self, value: Expr) -> Expr:
        """What is neither text nor bytes is written out as text."""
        return value if self.check(value) in (UTF8, BINARY, NULL) else Cast(value, UTF8, False)

    def bit_not(self, node: exp.BitwiseNot) -> Expr:
        return Function("bit_not", (self.translate(node.this),))

    def absolute(self, node: exp.Abs) -> Expr:
        if node.this is None:
            raise self.text.error("SQL_SYNTAX", "something is missing after '@'", node)
        return Function("abs", (self.translate(node.this),))

    # ---- predicates ----

    def between(self, node: exp.Between) -> Expr:
        parts = [node.this, node.args["low"], node.args["high"]]
        value, low, high = self.fitted([self.translate(part) for part in parts])
        if node.args.get("symmetric"):
            return Or((Between(value, low, high), Between(value, high, low)))
        return Between(value, low, high)

    def is_(self, node: exp.Is) -> Expr:
        if isinstance(node.expression, exp.Null):
            return IsNull(self.translate(node.this), False)
        if not isinstance(node.expression, exp.Boolean):
            raise self.text.not_supported("IS with this on its right", node)
        value = self.condition(node.this)
        return Coalesce((value if node.expression.this else Not(value), Literal(False)))

    def like(self, node: exp.Like | exp.ILike, escape: str | None = None) -> Expr:
        value, pattern = self.translate(node.this), self.translate(node.expression)
        if (isinstance(value, Literal) and value.value is None) or (
            isinstance(pattern, Literal) and pattern.value is None
        ):
            return Cast(Literal(None), BOOL, False)
        ignore_case = isinstance(node, exp.ILike)
        result: Expr
        if not isinstance(pattern, Literal):
            operands = (value, pattern)
            if ignore_case:
                operands = (Function("lower", (value,)), Function("lower", (pattern,)))
            result = Function("like_escape", (*operands, Literal(escape or "")))
        elif isinstance(pattern.value, str):
            result = Like(value, pattern.value, escape, ignore_case)
        else:
            raise self.text.error("INVALID_FILTER", "a pattern of LIKE is a text", node.expression)
        return Not(self.noted(result, node)) if node.args.get("negate") else result

    def escape(self, node: exp.Escape) -> Expr:
        if not isinstance(node.this, (exp.Like, exp.ILike)) or not isinstance(node.expression, exp.Literal):
            raise self.text.not_supported("ESCAPE here", node)
        return self.like(node.this, node.expression.this or None)

    def in_(self, node: exp.In) -> Expr:
        query = node.args.get("query")
        if len(node.expressions) == 1 and isinstance(node.expressions[0], (exp.Values, exp.Query)):
            query = node.expressions[0]
        row = _row(node.this)
        operands = [node.this] if row is None else row
        if query is not None:
            return self.subquery(IN, query, node, [self.translate(operand) for operand in operands])
        if node.args.get("field") is not None or node.args.get("unnest") is not None:
            raise self.text.not_supported("IN with a list that is a value", node)
        if row is not None:
            return self._row_in(node, row)
        values = self.binder.list_at(node.expressions[0]) if len(node.expressions) == 1 else None
        if values is not None:
            return self._in_values(self._beside(self.translate(node.this), float in values.kinds), values)
        if len(node.expressions) > TERMS_MAX and any(
            isinstance(item, (exp.Binary, exp.Column)) for item in node.expressions
        ):
            raise self.text.located(too_many_terms(len(node.expressions)), node.this)
        items = [self.translate(item) for item in node.expressions]
        value, *items = self.fitted([self.translate(node.this), *items])
        bare = [item.value if isinstance(item, Literal) else item for item in items]
        return InList(self._beside(value, any(isinstance(item, float) for item in bare)), in_values(bare))

    def _beside(self, value: Expr, doubles: bool) -> Expr:
        """Beside doubles a shorter float is compared as one: a list takes the type of what is looked for."""
        is_short = doubles and is_float(data_type := self.check(value)) and data_type != FLOAT64
        return Cast(value, FLOAT64, False) if is_short else value

    def _in_values(self, value: Expr, values: ValueList) -> Expr:
        """The same as a short list, whose texts take the type of what stands beside them."""
        is_text = isinstance(value, Literal) and isinstance(value.value, str)
        all_texts = is_text and values.kinds == {str} and not values.has_null
        if (not is_text and str not in values.kinds) or all_texts:
            return InList(value, values)
        others = [Literal(other) for other in values.first_of_kinds() if not isinstance(other, str)]
        target = self._other_type(others if is_text else [value, *others])
        if target is None:
            return InList(value, values)
        known: dict[str, Expr] = {}
        items: list[object] = []
        for item in values:
            if isinstance(item, str):
                if item not in known:
                    check()
                    known[item] = constants.text_as(item, target)
                found = known[item]
                item = found.value if isinstance(found, Literal) else found
            items.append(item)
        return InList(self._as_type(value, target) if is_text else value, in_values(items))

    def _row_in(self, node: exp.In, row: list[exp.Expr]) -> Expr:
        terms: list[Expr] = []
        for item in node.expressions:
            other = _row(item)
            if other is None or len(other) != len(row):
                raise self.text.error(
                    "INVALID_FILTER", "the rows of IN have different numbers of values", item
                )
            terms.append(self._same_row(row, other))
        return joined(Or, terms)

    # ---- subqueries ----

    def scalar(self, node: exp.Subquery) -> Expr:
        return self.subquery(SCALAR, node, node, ())

    def exists(self, node: exp.Exists) -> Expr:
        return self.subquery(EXISTS, node.this, node, ())

    def _quantified(
        self, node: exp.Binary, operand: exp.Expr, side: exp.Any | exp.All, op: CompareOp
    ) -> Expr:
        """ALL is what ANY of the opposite is not; = ANY is IN."""
        query = side.this
        if not isinstance(query, exp.Query):
            raise self.text.not_supported("ANY or ALL of anything but a query", node)
        every = isinstance(side, exp.All)
        op = _NEGATED[op] if every else op
        value = self.translate(operand)
        kind = IN if op == CompareOp.EQ else ANY
        result = self.subquery(kind, query, node, [value], op)
        return Not(result) if every else result

    def subquery(
        self,
        kind: str,
        query: exp.Expr,
        node: exp.Expr,
        operands: Sequence[Expr],
        op: CompareOp | None = None,
    ) -> Expr:
        """A column that will hold the answer."""
        block = self.binder.query(query, self.scope)
        wanted = 1 if kind in (SCALAR, ANY) else len(operands)
        if kind != EXISTS and len(block.fields) != wanted:
            raise self.text.error(
                "SQL_SYNTAX",
                f"a subquery here gives {wanted} column{'s' * (wanted != 1)}, not {len(block.fields)}",
                query,
            )
        if kind in (IN, ANY):
            operands = [
                self._fitted_operand(operand, field.column)
                for operand, field in zip(operands, block.fields, strict=True)
            ]
        data_type = self.names.type_of(Column(block.fields[0].column)) if kind == SCALAR else BOOL
        name = self.names.new("subquery", data_type)
        reads = set(block.free)
        for operand in operands:
            reads |= self.reads(operand)
        self.subqueries[name] = Subquery(name, kind, block, operands, op, frozenset(reads))
        return Column(name)

    def _fitted_operand(self, operand: Expr, column: str) -> Expr:
        fitted = self.fitted([operand, Column(column)])
        self.check(Compare(CompareOp.EQ, *fitted))
        return fitted[0]

    def reads(self, value: Expr) -> set[str]:
        """Columns that an expression reads, also through its subqueries."""
        names = columns_in(value)
        for name in names & self.subqueries.keys():
            names |= self.subqueries[name].reads
        return names

    # ---- CASE and casts ----

    def case(self, node: exp.Case) -> Expr:
        branches = node.args["ifs"]
        default = node.args.get("default")
        conditions = [self._case_condition(node, branch) for branch in branches]
        values = [self.translate(branch.args["true"]) for branch in branches]
        values += [self.translate(default)] if default is not None else []
        return Case(tuple(conditions), tuple(self.fitted(values)))

    def _case_condition(self, node: exp.Case, branch: exp.If) -> Expr:
        if node.this is None:
            return self.condition(branch.this)
        pair = self.translate(node.this), self.translate(branch.this)
        return self.noted(self.compared(CompareOp.EQ, *pair), branch)

    def if_(self, node: exp.If) -> Expr:
        values = [self.translate(node.args["true"])]
        if node.args.get("false") is not None:
            values.append(self.translate(node.args["false"]))
        return Case((self.condition(node.this),), tuple(self.fitted(values)))

    def cast(self, node: exp.Cast) -> Expr:
        target = constants.sql_type(node.to)
        if target is None:
            raise self.text.not_supported(f"the type {node.to.sql('duckdb')}", node)
        value = self.translate(node.this)
        attempt = isinstance(node, exp.TryCast)
        found = constants.cast(value, target) if isinstance(value, Literal) else None
        return Cast(value, target, attempt) if found is None else found

    def at_time_zone(self, node: exp.AtTimeZone) -> Expr:
        """To an instant, or to what UTC's clock shows at one: the engine knows no other."""
        zone = node.args["zone"]
        if not isinstance(zone, exp.Literal) or str(zone.this).upper() not in _UTC:
            raise self.text.not_supported("AT TIME ZONE of another zone than 'UTC'", node)
        value = self.translate(node.this)
        is_instant = bool(self.check(value).zone)
        return Cast(value, timestamp(zone="" if is_instant else "UTC"), False)

    def bracket(self, node: exp.Bracket) -> Expr:
        """`s['field']` of a structure."""
        keys = node.expressions
        if len(keys) != 1 or not isinstance(keys[0], exp.Literal) or not keys[0].is_string:
            raise self.text.not_supported("[…] of lists, maps and texts", node)
        return Field(self.translate(node.this), keys[0].this)

    def dot(self, node: exp.Dot) -> Expr:
        if not isinstance(node.expression, exp.Identifier):
            raise self.text.not_supported("a call behind a dot", node)
        return Field(self.translate(node.this), node.expression.name)


def _no_alias(name: str) -> None:
    return None


def _fields(value: Expr, names: Sequence[str]) -> Expr:
    for name in names:
        value = Field(value, name)
    return value


def _row(node: exp.Expr) -> list[exp.Expr] | None:
    """The values of `(a, b)` or `row(a, b)`."""
    if isinstance(node, exp.Tuple) or (isinstance(node, exp.Anonymous) and str(node.this).lower() == "row"):
        return list(node.expressions)
    return None


def _chain(node: exp.Expr) -> list[exp.Expr]:
    """The operands of a chain of one operator, which the tree nests to the left."""
    kind = type(node)
    operands: list[exp.Expr] = []
    while type(node) is kind:
        assert isinstance(node, exp.Binary)
        operands.append(node.expression)
        node = node.this
    operands.append(node)
    operands.reverse()
    return operands


def _described(node: exp.Expr) -> str:
    words: dict[type[exp.Expr], str] = {
        exp.Window: "a window function",
        exp.Star: "* inside an expression",
        exp.Lambda: "a lambda",
        exp.Array: "a list",
        exp.Struct: "a structure",
        exp.Tuple: "a row as a value",
        exp.Collate: "COLLATE",
        exp.SimilarTo: "SIMILAR TO",
        exp.RegexpLike: "matching regular expressions",
        exp.Glob: "GLOB",
        exp.Columns: "COLUMNS(…)",
    }
    found = words.get(type(node))
    return found if found is not None else type(node).key.upper().replace("_", " ")


_RULES: dict[type[exp.Expr], Callable[[Translator, Any], Expr]] = {
    exp.Column: Translator.column,
    exp.Literal: Translator.literal,
    exp.ByteString: Translator.string,
    exp.RawString: Translator.string,
    exp.Null: Translator.null,
    exp.Boolean: Translator.boolean,
    exp.HexString: Translator.hexadecimal,
    exp.Placeholder: Translator.placeholder,
    exp.Interval: Translator.interval,
    exp.Paren: Translator.paren,
    exp.And: Translator.logical,
    exp.Or: Translator.logical,
    exp.Not: Translator.negation,
    **dict.fromkeys(_COMPARISONS, Translator.comparison),
    **dict.fromkeys(_ARITHMETIC, Translator.arithmetic),
    **dict.fromkeys(_FUNCTIONS, Translator.operator_function),
    exp.Neg: Translator.minus,
    exp.DPipe: Translator.concatenation,
    exp.BitwiseNot: Translator.bit_not,
    exp.Abs: Translator.absolute,
    exp.Between: Translator.between,
    exp.Is: Translator.is_,
    exp.Like: Translator.like,
    exp.ILike: Translator.like,
    exp.Escape: Translator.escape,
    exp.In: Translator.in_,
    exp.Subquery: Translator.scalar,
    exp.Exists: Translator.exists,
    exp.Case: Translator.case,
    exp.If: Translator.if_,
    exp.Cast: Translator.cast,
    exp.TryCast: Translator.cast,
    exp.AtTimeZone: Translator.at_time_zone,
    exp.Bracket: Translator.bracket,
    exp.Dot: Translator.dot,
    exp.Anonymous: calls.call,
    exp.Filter: calls.filtered_call,
    exp.WithinGroup: calls.within_group,
    exp.Extract: calls.extract,
    exp.Substring: calls.substring,
    exp.StrPosition: calls.position,
    exp.Trim: calls.trim,
}
