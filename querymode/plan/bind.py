"""Expressions + a schema → typed wire bytes for the engine.

Binding resolves names, gives constants the type of the column they stand beside, puts casts where two
types meet (DuckDB's rules), and refuses what has no meaning, naming both sides. The engine only accepts
operands of equal type, so the rules of this file are the only ones there are.
"""

from __future__ import annotations

from querymode._abi import EXPRESSION_DEPTH_MAX, ArithmeticOp, CompareOp, ExpressionTag, TypeTag
from querymode._call import check, claim
from querymode.errors import column_not_found, error
from querymode.expr import literals
from querymode.expr.nodes import (
    AGGREGATE_NAMES,
    ARITHMETIC_SIGNS,
    TERMS_MAX,
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
    as_expr,
    too_many_terms,
)
from querymode.expr.spelling import cut_name, shown_value, spell
from querymode.types import (
    BOOL,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    INT128,
    INTERVAL,
    NULL,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    UTF8,
    decimal,
    encode_type,
    is_decimal,
    is_float,
    is_integer,
    is_nested,
    is_numeric,
    is_temporal,
    is_unsigned,
    is_vector,
    timestamp,
    value_size,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from querymode.expr.spelling import Spelled
    from querymode.expr.value_list import ValueList
    from querymode.schema import Schema
    from querymode.types import DataType

    #: Bytes, or pieces of them one behind the other.
    Wired = bytes | tuple["bytes | Bound", ...]
    #: The same of a text in messages.
    Shown = str | Spelled | tuple["str | Spelled", ...]

_SIGNED = {1: INT8, 2: INT16, 4: INT32, 8: INT64, 16: INT128}
_UNSIGNED = {1: UINT8, 2: UINT16, 4: UINT32, 8: UINT64}
#: Digits of an integer type: what it is beside a decimal.
_INTEGER_DIGITS = {1: 3, 2: 5, 4: 10, 8: 19, 16: 38}
_UINT64_DIGITS = 20
_LITERAL = bytes((ExpressionTag.LITERAL,))
#: Types of which the engine has neither sets nor ranges.
_SETLESS = (TypeTag.BOOL, TypeTag.FIXED_BINARY, TypeTag.INTERVAL, TypeTag.NULL)


#: Expressions within one: the engine reads more of them than this for longer than a query's end may take.
PARTS_MAX = 1 << 19
#: What has as many bytes on the wire is put together once, however often it stands there.
_WIRE_KEPT = 1 << 16
#: Pieces of a wire between two looks at the clock.
_STRIDE = 4096


class Bound:
    """A typed expression: its wire bytes, and its value when it is a constant.

    Wire and text are put together when they are asked for, of the pieces that are given here: types are asked
    for more often, and what stands in several places has its bytes in each of them.
    `is_fixed`: a constant that was cast; others take the type of what they stand beside.
    """

    __slots__ = ("_parts", "_shown", "_size", "_wire", "is_fixed", "is_literal", "type", "value")

    def __init__(
        self,
        data_type: DataType,
        wire: Wired,
        shown: Shown,
        value: object = None,
        is_literal: bool = False,
    ) -> None:
        self.type = data_type
        self._wire = wire
        #: Bytes of the wire, and how many expressions they hold; -1: nobody asked.
        self._size = self._parts = -1
        self._shown = shown
        self.value = value
        self.is_literal = is_literal
        self.is_fixed = False

    @property
    def wire(self) -> bytes:
        if not isinstance(self._wire, bytes):
            if self._size < 0:
                self._measure()
            self._wire = self._made_wire()
        return self._wire

    def _measure(self) -> None:
        size, parts = 0, 1
        for piece in (self._wire,) if isinstance(self._wire, bytes) else self._wire:
            if isinstance(piece, bytes):
                size += len(piece)
            else:
                if piece._size < 0:
                    piece._measure()
                size += piece._size
                parts += piece._parts
        self._size, self._parts = size, parts

    def _made_wire(self) -> bytes:
        if self._size <= _WIRE_KEPT:
            assert isinstance(self._wire, tuple)
            return b"".join([piece if isinstance(piece, bytes) else piece.wire for piece in self._wire])
        if self._parts > PARTS_MAX:
            raise error(
                "NOT_SUPPORTED",
                f"an expression has {self._parts:,} parts, with all that it repeats; "
                f"{PARTS_MAX:,} is the most. Compute it in several steps",
            )
        claim(self._size, "an expression")
        pieces: list[bytes] = []
        waiting: list[bytes | Bound] = [self]
        while waiting:
            piece = waiting.pop()
            if isinstance(piece, bytes):
                pieces.append(piece)
            elif isinstance(piece._wire, bytes) or piece._size <= _WIRE_KEPT:
                pieces.append(piece.wire)
            else:
                waiting += reversed(piece._wire)
            if len(pieces) % _STRIDE == 0:
                check()
        return b"".join(pieces)

    @property
    def text(self) -> str:
        """As messages call it."""
        return self._shown if isinstance(self._shown, str) else spell(self)

    def _pieces(self) -> Sequence[str | Spelled]:
        """For expr/spelling.py."""
        if isinstance(self._shown, tuple):
            return self._shown
        return (self._shown,)

    def copy(self, shown: Shown | None = None) -> Bound:
        """The same, by another text if one is given."""
        return Bound(self.type, (self,), self if shown is None else shown, self.value, self.is_literal)

    @property
    def adapts(self) -> bool:
        return self.is_literal and not self.is_fixed

    def fixed(self) -> Bound:
        self.is_fixed = self.is_literal
        return self


def bind(expression: Expr, schema: Schema) -> Bound:
    """The expression over columns of this schema."""
    check()
    return _Binder(schema).bind(expression, 0)


def bind_predicate(expression: Expr, schema: Schema) -> Bound:
    bound = bind(expression, schema)
    if bound.type == NULL:
        return null_of(BOOL, bound)
    if bound.type != BOOL:
        raise error("INVALID_FILTER", f"a filter is true or false, but {bound.text} is {bound.type}")
    return bound


def bind_keys(left: Expr, left_schema: Schema, right: Expr, right_schema: Schema) -> tuple[Bound, Bound]:
    """Two keys of a join in the one type that they are compared in."""
    ours, theirs = bind(left, left_schema), bind(right, right_schema)
    return unify(ours, theirs)


def output_name(expression: Expr) -> str:
    """What a computed column is called when nobody gave it a name."""
    return cut_name(_output_name(expression))


def _output_name(expression: Expr) -> str:
    if isinstance(expression, (Alias, Column)):
        return expression.name
    if isinstance(expression, Aggregate) and expression.value is not None:
        distinct = "distinct_" if expression.is_distinct else ""
        return f"{AGGREGATE_NAMES[expression.op]}_{distinct}{_output_name(expression.value)}"
    if isinstance(expression, Aggregate):
        return "count"
    return str(expression)


class _Binder:
    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        #: What was bound already, by its number: what it is, so that the number stays its own, what came of
        #: it, and how deep it is.
        self._known: dict[int, tuple[Expr, Bound, int]] = {}
        #: The depth of the deepest part so far.
        self._deepest = 0

    def bind(self, expression: Expr, depth: int) -> Bound:
        kind = type(expression)
        if not kind.OPERANDS:
            self._reach(depth)
            return self._rule(expression)(self, expression, depth + 1)
        known = self._known.get(id(expression))
        if known is not None:
            self._reach(depth + known[2])
            return known[1]
        deepest, self._deepest = self._deepest, 0
        self._reach(depth)
        bound = self._rule(expression)(self, expression, depth + 1)
        self._known[id(expression)] = (expression, bound, self._deepest - depth)
        self._deepest = max(self._deepest, deepest)
        return bound

    def _reach(self, depth: int) -> None:
        if depth > self._deepest:
            self._deepest = depth
            if depth > EXPRESSION_DEPTH_MAX // 2:
                raise error(
                    "NOT_SUPPORTED",
                    f"an expression is nested deeper than {EXPRESSION_DEPTH_MAX // 2}; split it",
                )

    def _rule(self, expression: Expr) -> Callable[[_Binder, Any, int], Bound]:
        rule = _RULES.get(type(expression))
        if rule is None:
            raise error("INVALID_FILTER", f"{expression} does not stand here")
        return rule

    def column(self, node: Column, depth: int) -> Bound:
        index = self.schema.index(node.name)
        wire = bytes((ExpressionTag.COLUMN,)) + index.to_bytes(2, "little")
        return Bound(self.schema.field(index)[1], wire, node.name)

    def literal(self, node: Literal, depth: int) -> Bound:
        value = literals.plain(node.value)
        data_type = literals.natural_type(value) if node.type is None else node.type
        literals.claim_constant(value)
        stored = literals.fit(value, data_type)
        if stored is None and value is not None:
            raise error("INVALID_FILTER", f"{value!r} cannot be held as {data_type}")
        constant = constant_of(value, stored, data_type, node)
        return constant.fixed() if node.fixed else constant

    def alias(self, node: Alias, depth: int) -> Bound:
        return self.bind(node.value, depth)

    def compare(self, node: Compare, depth: int) -> Bound:
        left, right = self.pair(node.left, node.right, depth)
        return Bound(BOOL, (bytes((ExpressionTag.COMPARE, node.op)), left, right), node)

    def pair(self, first: Expr, second: Expr, depth: int) -> tuple[Bound, Bound]:
        return unify(self.bind(first, depth), self.bind(second, depth))

    def between(self, node: Between, depth: int) -> Bound:
        value = self.bind(node.value, depth)
        low, high = self.bind(node.low, depth), self.bind(node.high, depth)
        fast = _between_wire(value, low, high)
        if fast is not None:
            return Bound(BOOL, fast, node)
        terms = (Compare(CompareOp.GTE, node.value, node.low), Compare(CompareOp.LTE, node.value, node.high))
        return self.bind(And(terms), depth)

    def in_list(self, node: InList, depth: int) -> Bound:
        if not isinstance(node.values, tuple):
            return self.in_values(node, node.values, depth)
        if any(isinstance(value, Expr) for value in node.values):
            return self.in_expressions(node, depth)
        values = [literals.plain(value) for value in node.values]
        if not values:  # false, and NULL for NULL, as in DuckDB
            return self.bind(Compare(CompareOp.NEQ, node.value, node.value), depth)
        present = [value for value in values if value is not None]
        column = self.bind(node.value, depth)
        target = _list_type(column, present)
        if target.tag in _SETLESS:
            return self.in_terms(node, values, depth)
        column = cast_to(column, target)
        encoded = b"".join(_member(value, target, column) for value in present)
        return _in_list(column, len(present) != len(values), len(present), encoded, node)

    def in_values(self, node: InList, values: ValueList, depth: int) -> Bound:
        """The same for a list in one piece."""
        column = self.bind(node.value, depth)
        target = _list_type(column, values.misfits(column.type))
        if target.tag in _SETLESS:
            return self.in_terms(node, values if len(values.kinds) > 1 else dict.fromkeys(values), depth)
        column = cast_to(column, target)
        encoded = values.encoded(target, lambda value: _member(value, target, column))
        return _in_list(column, values.has_null, len(values.values), encoded, node)

    def in_expressions(self, node: InList, depth: int) -> Bound:
        """One comparison a value. Where one is a float, all are compared as that float, as in DuckDB."""
        value, others = node.value, [as_expr(other) for other in node.values]
        common = NULL
        for bound in [self.bind(part, depth) for part in (value, *others)]:
            whole = bound.adapts and is_integer(bound.type)
            common = common_type(common, INT32 if whole else bound.type) or BOOL
        if is_float(common):
            value, others = Cast(value, common, False), [Cast(other, common, False) for other in others]
        return self.bind(Or(tuple(Compare(CompareOp.EQ, value, other) for other in others)), depth)

    def in_terms(self, node: InList, values: Iterable[object], depth: int) -> Bound:
        """Types without a set in the engine: one comparison a value."""
        terms = tuple(Compare(CompareOp.EQ, node.value, Literal(value)) for value in values)
        return self.bind(Or(terms), depth)

    def like(self, node: Like, depth: int) -> Bound:
        value = self.bind(node.value, depth)
        if value.type == NULL:
            return null_of(BOOL, node)
        if value.type.tag != TypeTag.UTF8:
            raise error("INVALID_FILTER", f"like compares text, but {value.text} is {value.type}")
        escape = ord(node.escape) if node.escape else 0
        if node.escape and _ends_in_escape(node.pattern, node.escape):
            raise error("INVALID_FILTER", f"the pattern {node.pattern!r} ends in its escape {node.escape!r}")
        pattern = literals.encode_text(node.pattern)
        head = bytes((ExpressionTag.LIKE, node.ignore_case, escape))
        return Bound(BOOL, (head, value, len(pattern).to_bytes(4, "little"), pattern), node)

    def is_null(self, node: IsNull, depth: int) -> Bound:
        value = self.bind(node.value, depth)
        return Bound(BOOL, (bytes((ExpressionTag.IS_NULL, node.negated)), value), node)

    def logical(self, node: And | Or, depth: int) -> Bound:
        if not node.terms:
            raise error("INVALID_FILTER", "and, or of no conditions")
        if len(node.terms) > TERMS_MAX:
            raise too_many_terms(len(node.terms))
        tag = ExpressionTag.LOGICAL_AND if isinstance(node, And) else ExpressionTag.LOGICAL_OR
        head = bytes((tag,)) + len(node.terms).to_bytes(2, "little")
        return Bound(BOOL, (head, *[self.term(term, depth) for term in node.terms]), node)

    def term(self, node: Expr, depth: int) -> Bound:
        check()
        bound = self.bind(node, depth)
        if bound.type == NULL:
            return null_of(BOOL, bound)
        if bound.type != BOOL:
            raise error(
                "INVALID_FILTER", f"& | ~ combine conditions, but {bound.text} is {bound.type}, not bool"
            )
        return bound

    def negation(self, node: Not, depth: int) -> Bound:
        return Bound(BOOL, (bytes((ExpressionTag.LOGICAL_NOT,)), self.term(node.value, depth)), node)

    def arithmetic(self, node: Arithmetic, depth: int) -> Bound:
        left, right = self.bind(node.left, depth), self.bind(node.right, depth)
        if is_temporal(left.type) or is_temporal(right.type):
            from querymode.plan.functions import time

            return time.arithmetic(node.op, left, right, node)
        return arithmetic_call(node.op, left, right, node)

    def negate(self, node: Negate, depth: int) -> Bound:
        value = self.bind(node.value, depth)
        if value.type == NULL:
            return null_of(INT64, value)
        if value.type == INTERVAL:
            from querymode.plan.functions import time

            return time.negated(value, node)
        if not is_numeric(value.type):
            raise error("INVALID_FILTER", f"minus takes a number, but {said(value)} is not one")
        if is_unsigned(value.type):  # has no negative of its own: the next larger type has
            value = cast_to(value, _SIGNED[value_size(value.type) * 2])
        if value.type.tag == TypeTag.F16:
            value = cast_to(value, FLOAT32)
        return Bound(value.type, (bytes((ExpressionTag.NEGATE,)), value), node)

    def cast(self, node: Cast, depth: int) -> Bound:
        found = _checked_cast(self.bind(node.value, depth), node.target, node.attempt)
        # Not the constant itself, which may be known by its own type elsewhere.
        return found.copy().fixed()

    def function(self, node: Function, depth: int) -> Bound:
        from querymode.plan.functions.rules import REWRITES, check_count
        from querymode.plan.functions.table import FUNCTIONS

        if node.name in REWRITES:
            count, meaning = REWRITES[node.name]
            check_count(node.name, len(node.arguments), count, count)
            return self.bind(meaning(*node.arguments), depth)
        rule = FUNCTIONS.get(node.name)
        if rule is None:
            raise error("NOT_SUPPORTED", f"there is no function {node.name!r}")
        return rule(node.name, [self.bind(argument, depth) for argument in node.arguments])

    def case(self, node: Case, depth: int) -> Bound:
        conditions = [self.term(condition, depth) for condition in node.conditions]
        if len(conditions) > 0xFFFF:
            raise error("NOT_SUPPORTED", f"CASE of {len(conditions)} branches; 65,535 is the most")
        values = unify_all([self.bind(value, depth) for value in node.values], "CASE")
        pieces: list[bytes | Bound] = [bytes((ExpressionTag.CASE,)) + len(conditions).to_bytes(2, "little")]
        for condition, value in zip(conditions, values, strict=False):
            pieces += condition, value
        rest = values[len(conditions) :]
        pieces += (b"\x01", rest[0]) if rest else (b"\x00",)
        return Bound(values[0].type, tuple(pieces), node)

    def coalesce(self, node: Coalesce, depth: int) -> Bound:
        if len(node.values) > 0xFFFF:
            raise error("NOT_SUPPORTED", f"coalesce of {len(node.values)} values; 65,535 is the most")
        values = unify_all([self.bind(value, depth) for value in node.values], "coalesce")
        head = bytes((ExpressionTag.COALESCE,)) + len(values).to_bytes(2, "little")
        return Bound(values[0].type, (head, *values), node)

    def field(self, node: Field, depth: int) -> Bound:
        value = self.bind(node.value, depth)
        if value.type.tag != TypeTag.STRUCTURE:
            raise error("COLUMN_NOT_FOUND", f"{said(value)} is not a structure and has no fields")
        names = [name for name, _ in value.type.children]
        if node.name not in names:
            raise column_not_found(node.name, names)
        index = names.index(node.name)
        head = bytes((ExpressionTag.FIELD,)) + index.to_bytes(2, "little")
        return Bound(value.type.children[index][1], (head, value), node)

    def aggregate(self, node: Aggregate, depth: int) -> Bound:
        raise error(
            "INVALID_AGGREGATE",
            f"{node} is an aggregate; it stands alone in agg or select, not inside another",
        )


_RULES: dict[type[Expr], Callable[[_Binder, Any, int], Bound]] = {
    Column: _Binder.column,
    Literal: _Binder.literal,
    Alias: _Binder.alias,
    Compare: _Binder.compare,
    Between: _Binder.between,
    InList: _Binder.in_list,
    Like: _Binder.like,
    IsNull: _Binder.is_null,
    And: _Binder.logical,
    Or: _Binder.logical,
    Not: _Binder.negation,
    Arithmetic: _Binder.arithmetic,
    Negate: _Binder.negate,
    Cast: _Binder.cast,
    Function: _Binder.function,
    Case: _Binder.case,
    Then: _Binder.case,
    Coalesce: _Binder.coalesce,
    Field: _Binder.field,
    Aggregate: _Binder.aggregate,
}


def _ends_in_escape(pattern: str, escape: str) -> bool:
    """An odd number of them at the end: the last one escapes nothing."""
    return (len(pattern) - len(pattern.rstrip(escape))) % 2 == 1


def constant_of(value: object, stored: object, data_type: DataType, shown: Shown) -> Bound:
    """Its value is what is stored from now on: a text that became a date is no text any more."""
    wire = (_LITERAL, *literals.value_pieces(stored, data_type))
    if isinstance(stored, float):
        value = stored
    elif isinstance(value, str) and data_type != UTF8:
        value = literals.moment(value, data_type)
        if value is None:
            return Bound(data_type, wire, shown)
    return Bound(data_type, wire, shown, value, True)


def null_of(data_type: DataType, shown: Shown) -> Bound:
    """NULL of a type."""
    return constant_of(None, None, data_type, shown)


def said(bound: Bound) -> str:
    """A side of a comparison in a message: constants with their value, columns with their name."""
    return f"{bound.text} ({bound.type})"


def cast_to(bound: Bound, target: DataType, attempt: bool = False) -> Bound:
    """The value in another type; constants that fit become constants of it."""
    if bound.type == target:
        return bound
    if bound.type == NULL and not is_nested(target) and not is_vector(target):
        return null_of(target, bound)
    if bound.is_literal:
        stored = literals.fit(bound.value, target)
        if stored is not None:
            return constant_of(bound.value, stored, target, bound)
    return Bound(target, (bytes((ExpressionTag.CAST, attempt)) + encode_type(target), bound), bound)


def _checked_cast(bound: Bound, target: DataType, attempt: bool = False) -> Bound:
    """The same where somebody asks for it, and may ask for what there is not."""
    if not castable(bound.type, target):
        raise error("NOT_SUPPORTED", f"cannot cast {said(bound)} to {target}")
    return cast_to(bound, target, attempt)


def castable(source: DataType, target: DataType) -> bool:
    """What the engine's casts can do."""
    if source in (target, NULL):
        return True
    if UTF8 in (source, target):
        other = target if source == UTF8 else source
        return not (is_nested(other) or is_vector(other))
    numbers = [is_numeric(side) or side == BOOL for side in (source, target)]
    if all(numbers):
        return True
    moments = (TypeTag.DATE, TypeTag.TIMESTAMP)
    if source.tag in moments and target.tag in moments:
        return _on_one_clock(source, target)
    if source.tag == TypeTag.TIMESTAMP and target.tag == TypeTag.TIME:
        return not source.zone
    return source.tag == target.tag == TypeTag.TIME


def _on_one_clock(a: DataType, b: DataType) -> bool:
    """Dates and timestamps without a zone are UTC's where they meet an instant: the only clock known."""
    return bool(a.zone) == bool(b.zone) or "UTC" in (a.zone, b.zone)


def unify(left: Bound, right: Bound) -> tuple[Bound, Bound]:
    """Both sides in one type that can be compared."""
    for side, other in ((left, right), (right, left)):
        if other.is_literal and not side.is_literal and other.type != NULL:
            stored = _same_value(other, side.type)
            if stored is not None:
                adapted = constant_of(other.value, stored, side.type, other)
                return (left, adapted) if side is left else (adapted, right)
    common = _comparable(common_type(left.type, right.type))
    if common is None:
        raise error("INVALID_FILTER", f"cannot compare {said(left)} with {said(right)}")
    return cast_to(left, common), cast_to(right, common)


#: Floats up to here are the only ones that integers of their value become.
_EXACT_FLOAT_MAX = 1 << 53
_EXACT_FLOAT_DIGITS = 15


def _same_value(constant: Bound, target: DataType) -> object | None:
    """What a constant is in a type in which comparisons with it have the answer that they have in its own.

    A float that was cast is compared as a float: beside float32 it is not rounded, beside large integers and
    decimals these are.
    """
    stored = literals.fit(constant.value, target)
    value = constant.value
    if stored is None or not constant.is_fixed or not isinstance(value, float):
        return stored
    if is_float(target):
        return stored if stored == value or value != value else None
    if is_decimal(target) and target.precision > _EXACT_FLOAT_DIGITS:
        return None
    return stored if abs(value) < _EXACT_FLOAT_MAX else None


def unify_all(values: list[Bound], what: str) -> list[Bound]:
    """All values in one type: constants adapt to the others where they can."""
    common = NULL
    for value in sorted(values, key=lambda bound: bound.adapts):
        wider = common_type(common, value.type)
        if value.adapts and common != NULL:
            whole = isinstance(value.value, int)
            if not (whole and is_decimal(common)) and literals.fit(value.value, common) is not None:
                continue
            if whole and literals.fit(value.value, INT32) is not None:
                wider = common_type(common, INT32)  # as DuckDB takes whole numbers
        if wider is None:
            raise error("INVALID_FILTER", f"{what} of {common} and {said(value)}, which have no common type")
        common = wider
    return [cast_to(value, common) for value in values]


def _comparable(data_type: DataType | None) -> DataType | None:
    if data_type == NULL:
        return INT32  # NULL against NULL: any type will do
    return None if data_type is None or is_nested(data_type) or is_vector(data_type) else data_type


def _between_wire(value: Bound, low: Bound, high: Bound) -> Wired | None:
    """One pass over the values where both ends are constants that fit the column's type."""
    if value.is_literal or not (low.is_literal and high.is_literal):
        return None
    tag = value.type.tag
    if is_nested(value.type) or is_vector(value.type):
        return None
    if tag in _SETLESS:
        return None
    ends = [_same_value(end, value.type) for end in (low, high)]
    if ends[0] is None or ends[1] is None:
        return None
    encoded = b"".join(literals.encode_value(end, value.type) for end in ends)
    return (bytes((ExpressionTag.BETWEEN,)), value, encoded)


def _in_list(column: Bound, has_null: bool, count: int, encoded: bytes, shown: Shown) -> Bound:
    head = bytes((ExpressionTag.IN_LIST, has_null))
    return Bound(BOOL, (head, column, count.to_bytes(4, "little"), encoded), shown)


def _list_type(column: Bound, values: Iterable[object]) -> DataType:
    """The column's own type when every value fits it, else one that all share."""
    target = column.type
    for value in values:
        if literals.fit(value, column.type) is None:
            wider = _comparable(common_type(target, literals.natural_type(value)))
            if wider is None:
                raise error("INVALID_FILTER", f"cannot look for {shown_value(value)} in {said(column)}")
            target = wider
    if is_nested(target) or is_vector(target):
        raise error("INVALID_FILTER", f"in is not defined for {said(column)}")
    return target


def _member(value: object, target: DataType, column: Bound) -> bytes:
    stored = literals.fit(int(value) if isinstance(value, bool) and is_integer(target) else value, target)
    if stored is None and is_float(target) and literals.is_number(value):
        stored = literals.fit(float(value), target)  # type: ignore[arg-type]  # rounded, as a comparison would
    if stored is None:
        raise error("INVALID_FILTER", f"cannot look for {value!r} in {said(column)}")
    return literals.encode_value(stored, target)


# ---- types ----


def common_type(a: DataType, b: DataType) -> DataType | None:
    """The type two values are compared in, as in DuckDB; None where they cannot be."""
    if a == b:
        return a
    if a == NULL or b == NULL:
        return b if a == NULL else a
    if is_numeric(a) and is_numeric(b):
        return _common_number(a, b)
    if BOOL in (a, b):
        other = b if a == BOOL else a
        return other if is_integer(other) else None
    tags = {a.tag, b.tag}
    if tags == {TypeTag.DATE, TypeTag.TIMESTAMP}:
        return (a if a.tag == TypeTag.TIMESTAMP else b) if _on_one_clock(a, b) else None
    if tags == {TypeTag.TIMESTAMP} and _on_one_clock(a, b):
        return timestamp(max(a.unit, b.unit), a.zone or b.zone)
    if tags == {TypeTag.TIME}:
        return a if a.unit > b.unit else b
    return None


def _common_number(a: DataType, b: DataType) -> DataType:
    if is_float(a) or is_float(b):
        if FLOAT64 in (a, b):
            return FLOAT64
        return FLOAT32
    if is_decimal(a) or is_decimal(b):
        x, y = _as_decimal_type(a), _as_decimal_type(b)
        scale = max(x.scale, y.scale)
        return _capped(max(x.precision - x.scale, y.precision - y.scale) + scale, scale)
    return _common_integer(a, b)


def _common_integer(a: DataType, b: DataType) -> DataType:
    size = max(value_size(a), value_size(b))
    if is_unsigned(a) and is_unsigned(b):
        return _UNSIGNED[size]
    if not is_unsigned(a) and not is_unsigned(b):
        return _SIGNED[size]
    unsigned, signed = (a, b) if is_unsigned(a) else (b, a)
    return _SIGNED[max(value_size(unsigned) * 2, value_size(signed))]


def _as_decimal_type(data_type: DataType) -> DataType:
    if is_decimal(data_type):
        return data_type
    return decimal(_UINT64_DIGITS if data_type == UINT64 else _INTEGER_DIGITS[value_size(data_type)], 0)


def _capped(precision: int, scale: int) -> DataType:
    return decimal(min(precision, 38), min(scale, 38))


def arithmetic_call(op: ArithmeticOp, left: Bound, right: Bound, shown: Shown | None = None) -> Bound:
    """Numbers under one of the six operators."""
    for side in (left, right):
        if not (is_numeric(side.type) or side.type == NULL):
            raise error(
                "INVALID_FILTER", f"{ARITHMETIC_SIGNS[op]} takes numbers, but {said(side)} is not one"
            )
    if shown is None:
        shown = ("(", left, f" {ARITHMETIC_SIGNS[op]} ", right, ")")
    if left.type == NULL and right.type == NULL:
        return null_of(INT32, shown)
    left, right = narrow_literals(left, right)
    first, second, result = arithmetic_types(op, left.type, right.type)
    head = bytes((ExpressionTag.ARITHMETIC, op)) + encode_type(result)
    return Bound(result, (head, cast_to(left, first), cast_to(right, second)), shown)


def narrow_literals(left: Bound, right: Bound) -> tuple[Bound, Bound]:
    """`col + 1` stays in the column's type where 1 fits it."""
    if right.adapts and not left.adapts:
        return left, _narrow(right, left.type)
    if left.adapts and not right.adapts:
        return _narrow(left, right.type), right
    return left, right


def _narrow(literal: Bound, target: DataType) -> Bound:
    if literal.type == NULL:
        return null_of(target, literal)
    if is_decimal(target):
        if isinstance(literal.value, int):
            exact = decimal(max(len(str(abs(literal.value))), 1), 0)
            return constant_of(literal.value, literal.value, exact, literal)
        return literal
    if is_integer(target) and not is_integer(literal.type):
        return literal
    stored = literals.fit(literal.value, target)
    return literal if stored is None else constant_of(literal.value, stored, target, literal)


def arithmetic_types(op: ArithmeticOp, a: DataType, b: DataType) -> tuple[DataType, DataType, DataType]:
    """What both sides are cast to, and the result."""
    if is_float(a) or is_float(b):
        common = _common_number(a, b)
        return common, common, common
    if op == ArithmeticOp.DIVIDE:
        return FLOAT64, FLOAT64, FLOAT64
    if is_decimal(a) or is_decimal(b):
        return _decimal_types(op, _as_decimal_type(a), _as_decimal_type(b))
    common = _common_integer(a, b)
    if is_unsigned(a) != is_unsigned(b):
        unsigned, signed = (a, b) if is_unsigned(a) else (b, a)
        if value_size(signed) <= value_size(unsigned) < 8:
            common = INT64
    return common, common, common


def _decimal_types(op: ArithmeticOp, a: DataType, b: DataType) -> tuple[DataType, DataType, DataType]:
    if op == ArithmeticOp.DIVIDE_INTEGER:
        return FLOAT64, FLOAT64, FLOAT64
    if op == ArithmeticOp.MULTIPLY:
        scale = a.scale + b.scale
        if scale > 38:
            raise error("NOT_SUPPORTED", f"{a} × {b} needs more than 38 digits behind the point; cast one")
        precision = a.precision + b.precision
        # Two values that fit 18 digits stay in 64 bits; a product beyond them is an error, as in DuckDB.
        if precision > 18 and a.precision <= 18 and b.precision <= 18 and scale <= 18:
            precision = 18
        result = _capped(precision, scale)
        width = 18 if result.precision <= 18 else 38
        return decimal(width, a.scale), decimal(width, b.scale), result
    scale = max(a.scale, b.scale)
    whole = max(a.precision - a.scale, b.precision - b.scale)
    result = _capped(whole + scale + (op != ArithmeticOp.MODULO), scale)
    return result, result, result


def aggregate_argument(argument: DataType) -> DataType:
    """A column that is NULL throughout is aggregated and sorted as integers, as in DuckDB."""
    return INT32 if argument == NULL else argument


def bind_argument(expression: Expr, schema: Schema) -> Bound:
    bound = bind(expression, schema)
    return cast_to(bound, aggregate_argument(bound.type))


def bind_as(expression: Expr, schema: Schema, target: DataType) -> Bound:
    """The expression, cast to a type."""
    return _checked_cast(bind(expression, schema), target)
