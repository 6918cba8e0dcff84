"""Expressions as a user writes them: `(col("region") == "us") & (col("age") > 25)`.

Nodes are frozen by agreement, which tests enforce (tests/frozen.py), and know nothing of any table;
plan/bind.py gives names and literals their types. Python's operators build nodes, so an expression has no
truth value: `&`, `|` and `~` instead of `and`, `or`, `not`.
"""

from __future__ import annotations

from querymode._abi import AggregateOp, ArithmeticOp, CompareOp
from querymode.errors import error
from querymode.expr.aggregate_rules import RULES, WORDS
from querymode.expr.number import NumberMethods
from querymode.expr.spelling import between, shown_value, spell
from querymode.expr.text import TextMethods
from querymode.expr.time import TimeMethods

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, ClassVar, NoReturn

    from querymode.errors import QueryModeError
    from querymode.expr.value_list import ValueList
    from querymode.types import DataType


class Expr(TextMethods, NumberMethods, TimeMethods):
    """Something that has a value for every row."""

    __slots__ = ()
    __hash__ = object.__hash__
    #: The slots that hold expressions, alone or in tuples: all that expr/trees.py needs to know of a class.
    OPERANDS: ClassVar[tuple[str, ...]] = ()

    # ---- comparisons ----

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        return Compare(CompareOp.EQ, self, as_expr(other))

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return Compare(CompareOp.NEQ, self, as_expr(other))

    def __lt__(self, other: object) -> Expr:
        return Compare(CompareOp.LT, self, as_expr(other))

    def __le__(self, other: object) -> Expr:
        return Compare(CompareOp.LTE, self, as_expr(other))

    def __gt__(self, other: object) -> Expr:
        return Compare(CompareOp.GT, self, as_expr(other))

    def __ge__(self, other: object) -> Expr:
        return Compare(CompareOp.GTE, self, as_expr(other))

    def is_in(self, values: Iterable[object]) -> Expr:
        """True where the value is one of these; NULL in the list turns a miss into NULL, as in SQL."""
        return InList(self, listed(values, "is_in", computed=True))

    def not_in(self, values: Iterable[object]) -> Expr:
        return Not(InList(self, listed(values, "not_in", computed=True)))

    def between(self, low: object, high: object) -> Expr:
        """Both ends included."""
        return Between(self, as_expr(low), as_expr(high))

    def not_between(self, low: object, high: object) -> Expr:
        return Not(Between(self, as_expr(low), as_expr(high)))

    def like(self, pattern: str, escape: str | None = None) -> Expr:
        """SQL's LIKE: `%` is any text, `_` one character."""
        return Like(self, pattern, escape, False)

    def not_like(self, pattern: str, escape: str | None = None) -> Expr:
        return Not(Like(self, pattern, escape, False))

    def ilike(self, pattern: str, escape: str | None = None) -> Expr:
        """LIKE that takes capital and small letters for the same."""
        return Like(self, pattern, escape, True)

    def is_null(self) -> Expr:
        return IsNull(self, False)

    def is_not_null(self) -> Expr:
        return IsNull(self, True)

    # ---- logic ----

    def __and__(self, other: object) -> Expr:
        return _joined_with(And, self, as_expr(other))

    def __rand__(self, other: object) -> Expr:
        return _joined_with(And, as_expr(other), self)

    def __or__(self, other: object) -> Expr:
        return _joined_with(Or, self, as_expr(other))

    def __ror__(self, other: object) -> Expr:
        return _joined_with(Or, as_expr(other), self)

    def __invert__(self) -> Expr:
        return Not(self)

    def __bool__(self) -> NoReturn:
        raise error(
            "INVALID_FILTER",
            f"{self} has no truth value: it has one for every row. "
            "Combine conditions with & | ~ (each in parentheses), not with and, or, not",
        )

    def __iter__(self) -> Iterator[object]:
        raise TypeError("an expression is not iterable")

    # ---- arithmetic ----

    def __add__(self, other: object) -> Expr:
        return Arithmetic(ArithmeticOp.ADD, self, as_expr(other))

    def __radd__(self, other: object) -> Expr:
        return Arithmetic(ArithmeticOp.ADD, as_expr(other), self)

    def __sub__(self, other: object) -> Expr:
        return Arithmetic(ArithmeticOp.SUBTRACT, self, as_expr(other))

    def __rsub__(self, other: object) -> Expr:
        return Arithmetic(ArithmeticOp.SUBTRACT, as_expr(other), self)

    def __mul__(self, other: object) -> Expr:
        return Arithmetic(ArithmeticOp.MULTIPLY, self, as_expr(other))

    def __rmul__(self, other: object) -> Expr:
        return Arithmetic(ArithmeticOp.MULTIPLY, as_expr(other), self)

    def __truediv__(self, other: object) -> Expr:
        return Arithmetic(ArithmeticOp.DIVIDE, self, as_expr(other))

    def __rtruediv__(self, other: object) -> Expr:
        return Arithmetic(ArithmeticOp.DIVIDE, as_expr(other), self)

    def __floordiv__(self, other: object) -> Expr:
        return Arithmetic(ArithmeticOp.DIVIDE_INTEGER, self, as_expr(other))

    def __rfloordiv__(self, other: object) -> Expr:
        return Arithmetic(ArithmeticOp.DIVIDE_INTEGER, as_expr(other), self)

    def __mod__(self, other: object) -> Expr:
        return Arithmetic(ArithmeticOp.MODULO, self, as_expr(other))

    def __rmod__(self, other: object) -> Expr:
        return Arithmetic(ArithmeticOp.MODULO, as_expr(other), self)

    def __neg__(self) -> Expr:
        return Negate(self)

    def cast(self, data_type: DataType | str, *, strict: bool = True) -> Expr:
        """The value as another type; with `strict=False` what does not fit becomes NULL."""
        from querymode.types import DataType, parse_type

        target = parse_type(data_type) if isinstance(data_type, str) else data_type
        if not isinstance(target, DataType):
            raise error("NOT_SUPPORTED", f"cast takes a type such as 'int64', not {_kind(data_type)}")
        return Cast(self, target, not strict)

    # ---- functions ----

    def _call(self, name: str, *arguments: object) -> Expr:
        return Function(name, (self, *map(as_expr, arguments)))

    def _called_by(self, name: str, first: object) -> Expr:
        return Function(name, (as_expr(first), self))

    def is_distinct_from(self, other: object) -> Expr:
        """Whether the values differ; NULL is a value like others, so the answer is never NULL."""
        return self._call("is_distinct_from", other)

    def is_not_distinct_from(self, other: object) -> Expr:
        return self._call("is_not_distinct_from", other)

    def fill_null(self, *values: object) -> Expr:
        """The value, or where it is NULL the first of these that is not."""
        return Coalesce((self, *map(as_expr, values)))

    def field(self, name: str) -> Expr:
        """One field of a structure."""
        return Field(self, name)

    # ---- aggregates and names ----

    def sum(self) -> Aggregate:
        return Aggregate(AggregateOp.SUM, self)

    def min(self) -> Aggregate:
        return Aggregate(AggregateOp.MIN, self)

    def max(self) -> Aggregate:
        return Aggregate(AggregateOp.MAX, self)

    def count(self) -> Aggregate:
        """How many values are not NULL."""
        return Aggregate(AggregateOp.COUNT, self)

    def avg(self) -> Aggregate:
        return Aggregate(AggregateOp.AVG, self)

    mean = avg

    def n_unique(self) -> Aggregate:
        """How many different values there are that are not NULL."""
        return Aggregate(AggregateOp.COUNT, self, distinct=True)

    def std(self, ddof: int = 1) -> Aggregate:
        """The standard deviation: of a sample, or with `ddof=0` of the population."""
        return Aggregate(_by_ddof("std", ddof, AggregateOp.STDDEV_SAMP, AggregateOp.STDDEV_POP), self)

    def var(self, ddof: int = 1) -> Aggregate:
        """The variance: of a sample, or with `ddof=0` of the population."""
        return Aggregate(_by_ddof("var", ddof, AggregateOp.VAR_SAMP, AggregateOp.VAR_POP), self)

    def median(self) -> Aggregate:
        return Aggregate(AggregateOp.MEDIAN, self)

    def quantile(self, fraction: float, interpolation: str = "linear") -> Aggregate:
        """What a fraction of the values lies below: between two of them, or ("discrete") one of them."""
        op = _INTERPOLATIONS.get(interpolation)
        if op is None:
            known = ", ".join(_INTERPOLATIONS)
            raise error(
                "INVALID_AGGREGATE", f"quantile interpolates by one of {known}, not {interpolation!r}"
            )
        return Aggregate(op, self, (as_expr(fraction),))

    def first(self) -> Aggregate:
        """The first row's value, NULL or not."""
        return Aggregate(AggregateOp.FIRST, self)

    def last(self) -> Aggregate:
        """The last row's value, NULL or not."""
        return Aggregate(AggregateOp.LAST, self)

    def any_value(self) -> Aggregate:
        """The first value that is not NULL."""
        return Aggregate(AggregateOp.ANY_VALUE, self)

    def all(self) -> Aggregate:
        """Whether all values are true; NULLs do not count."""
        return Aggregate(AggregateOp.BOOL_AND, self)

    def any(self) -> Aggregate:
        """Whether any value is true; NULLs do not count."""
        return Aggregate(AggregateOp.BOOL_OR, self)

    def string_agg(self, separator: str = ",") -> Aggregate:
        """All texts in their order, with a separator between them; NULLs do not count."""
        return Aggregate(AggregateOp.STRING_AGG, self, (as_expr(separator),))

    str_join = string_agg

    def alias(self, name: str) -> Expr:
        return Alias(self, name)

    def _pieces(self) -> Sequence[str | Expr]:
        """Its text as it is written in Python, in pieces: see expr/spelling.py."""
        raise NotImplementedError

    def __str__(self) -> str:
        return spell(self)

    __repr__ = __str__

    # ---- copies and pickles ----

    def __copy__(self) -> Expr:
        """Itself: nodes never change."""
        return self

    def __deepcopy__(self, memo: object) -> Expr:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Its nodes in one list, so that pickles may be nested as deep as expressions are."""
        from querymode.expr.trees import flattened, restored

        return restored, (flattened(self),)


class Column(Expr):
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def _pieces(self) -> Sequence[str | Expr]:
        return (f"col({shown_value(self.name)})",)


class Literal(Expr):
    """A constant. `type`: what it is where nothing beside it says otherwise; None: as its value suggests.

    `fixed`: it is of that type whatever stands beside it, as one that was cast.
    """

    __slots__ = ("fixed", "type", "value")

    def __init__(self, value: object, data_type: DataType | None = None, fixed: bool = False) -> None:
        assert data_type is not None or not fixed
        self.value = value
        self.type = data_type
        self.fixed = fixed

    def _pieces(self) -> Sequence[str | Expr]:
        return (shown_value(self.value),)


class Compare(Expr):
    __slots__ = ("left", "op", "right")
    OPERANDS = ("left", "right")

    def __init__(self, op: CompareOp, left: Expr, right: Expr) -> None:
        self.op = op
        self.left = left
        self.right = right

    def _pieces(self) -> Sequence[str | Expr]:
        return "(", self.left, f" {COMPARE_SIGNS[self.op]} ", self.right, ")"


class Between(Expr):
    __slots__ = ("high", "low", "value")
    OPERANDS = ("value", "low", "high")

    def __init__(self, value: Expr, low: Expr, high: Expr) -> None:
        self.value = value
        self.low = low
        self.high = high

    def _pieces(self) -> Sequence[str | Expr]:
        return self.value, ".between(", self.low, ", ", self.high, ")"


class InList(Expr):
    """Values are constants, or expressions, which are compared one by one."""

    __slots__ = ("value", "values")
    OPERANDS = ("value", "values")

    def __init__(self, value: Expr, values: tuple[object, ...] | ValueList) -> None:
        self.value = value
        self.values = values

    def _pieces(self) -> Sequence[str | Expr]:
        first = self.values[:10] if isinstance(self.values, tuple) else self.values.first(10)
        shown = [value if isinstance(value, Expr) else shown_value(value) for value in first]
        more = f", … {len(self.values)} in all" if len(self.values) > 10 else ""
        return (self.value, ".is_in([", *between(", ", shown), f"{more}])")


class Like(Expr):
    __slots__ = ("escape", "ignore_case", "pattern", "value")
    OPERANDS = ("value",)

    def __init__(self, value: Expr, pattern: str, escape: str | None, ignore_case: bool) -> None:
        if not isinstance(pattern, str):
            raise error("INVALID_FILTER", f"like takes a pattern (str), not {_kind(pattern)}")
        if escape is not None and not (isinstance(escape, str) and len(escape) == 1 and escape.isascii()):
            raise error("INVALID_FILTER", f"the escape of like is one ASCII character, not {escape!r}")
        self.value = value
        self.pattern = pattern
        self.escape = escape
        self.ignore_case = ignore_case

    def _pieces(self) -> Sequence[str | Expr]:
        escape = f", escape={self.escape!r}" if self.escape is not None else ""
        called = "ilike" if self.ignore_case else "like"
        return self.value, f".{called}({shown_value(self.pattern)}{escape})"


class IsNull(Expr):
    __slots__ = ("negated", "value")
    OPERANDS = ("value",)

    def __init__(self, value: Expr, negated: bool) -> None:
        self.value = value
        self.negated = negated

    def _pieces(self) -> Sequence[str | Expr]:
        return self.value, ".is_not_null()" if self.negated else ".is_null()"


class And(Expr):
    __slots__ = ("terms",)
    OPERANDS = ("terms",)

    def __init__(self, terms: tuple[Expr, ...]) -> None:
        self.terms = terms

    def _pieces(self) -> Sequence[str | Expr]:
        return ("(", *between(" & ", self.terms), ")")


class Or(Expr):
    __slots__ = ("terms",)
    OPERANDS = ("terms",)

    def __init__(self, terms: tuple[Expr, ...]) -> None:
        self.terms = terms

    def _pieces(self) -> Sequence[str | Expr]:
        return ("(", *between(" | ", self.terms), ")")


class Not(Expr):
    __slots__ = ("value",)
    OPERANDS = ("value",)

    def __init__(self, value: Expr) -> None:
        self.value = value

    def _pieces(self) -> Sequence[str | Expr]:
        return "~", self.value


class Arithmetic(Expr):
    __slots__ = ("left", "op", "right")
    OPERANDS = ("left", "right")

    def __init__(self, op: ArithmeticOp, left: Expr, right: Expr) -> None:
        self.op = op
        self.left = left
        self.right = right

    def _pieces(self) -> Sequence[str | Expr]:
        return "(", self.left, f" {ARITHMETIC_SIGNS[self.op]} ", self.right, ")"


class Negate(Expr):
    __slots__ = ("value",)
    OPERANDS = ("value",)

    def __init__(self, value: Expr) -> None:
        self.value = value

    def _pieces(self) -> Sequence[str | Expr]:
        return "-", self.value


class Cast(Expr):
    __slots__ = ("attempt", "target", "value")
    OPERANDS = ("value",)

    def __init__(self, value: Expr, target: DataType, attempt: bool) -> None:
        self.value = value
        self.target = target
        self.attempt = attempt

    def _pieces(self) -> Sequence[str | Expr]:
        return self.value, f".cast({str(self.target)!r}{', strict=False' if self.attempt else ''})"


class Function(Expr):
    """A function by its name in plan/functions/rules.py."""

    __slots__ = ("arguments", "name")
    OPERANDS = ("arguments",)

    def __init__(self, name: str, arguments: tuple[Expr, ...]) -> None:
        if not isinstance(name, str):
            raise error("NOT_SUPPORTED", f"a function is called by its name (str), not {_kind(name)}")
        self.name = name.lower()
        self.arguments = arguments

    def _pieces(self) -> Sequence[str | Expr]:
        if self.arguments and hasattr(Expr, self.name):
            first, *rest = self.arguments
            return (first, f".{self.name}(", *between(", ", rest), ")")
        if self.name in ("greatest", "least"):
            return (f"{self.name}(", *between(", ", self.arguments), ")")
        given: list[str | Expr] = [repr(self.name), *self.arguments]
        return ("call(", *between(", ", given), ")")


class Case(Expr):
    """The value of the first condition that is true; the last value, if there is one more, for the rest."""

    __slots__ = ("conditions", "values")
    OPERANDS = ("conditions", "values")

    def __init__(self, conditions: tuple[Expr, ...], values: tuple[Expr, ...]) -> None:
        if not conditions or not 0 <= len(values) - len(conditions) <= 1:
            raise error("INVALID_FILTER", f"CASE of {len(conditions)} conditions and {len(values)} values")
        self.conditions = conditions
        self.values = values

    def _pieces(self) -> Sequence[str | Expr]:
        shown: list[str | Expr] = []
        for condition, value in zip(self.conditions, self.values, strict=False):
            shown += ".when(" if shown else "when(", condition, ").then(", value, ")"
        rest = self.values[len(self.conditions) :]
        return [*shown, ".otherwise(", rest[0], ")"] if rest else shown


class Then(Case):
    """A CASE that may still get more branches."""

    __slots__ = ()

    def when(self, condition: object) -> When:
        return When(as_expr(condition), self.conditions, self.values)

    def otherwise(self, value: object) -> Expr:
        return Case(self.conditions, (*self.values, as_expr(value)))


class When:
    """`when(condition)` waits for its `then(value)`."""

    __slots__ = ("condition", "conditions", "values")

    def __init__(self, condition: Expr, conditions: tuple[Expr, ...], values: tuple[Expr, ...]) -> None:
        self.condition = condition
        self.conditions = conditions
        self.values = values

    def then(self, value: object) -> Then:
        return Then((*self.conditions, self.condition), (*self.values, as_expr(value)))


class Coalesce(Expr):
    """The first value that is not NULL."""

    __slots__ = ("values",)
    OPERANDS = ("values",)

    def __init__(self, values: tuple[Expr, ...]) -> None:
        if not values:
            raise error("INVALID_FILTER", "coalesce takes at least one value")
        self.values = values

    def _pieces(self) -> Sequence[str | Expr]:
        return ("coalesce(", *between(", ", self.values), ")")


class Field(Expr):
    """One field of a structure."""

    __slots__ = ("name", "value")
    OPERANDS = ("value",)

    def __init__(self, value: Expr, name: str) -> None:
        if not isinstance(name, str):
            raise error("COLUMN_NOT_FOUND", f"field takes a name (str), not {_kind(name)}")
        self.value = value
        self.name = name

    def _pieces(self) -> Sequence[str | Expr]:
        return self.value, f".field({shown_value(self.name)})"


class Alias(Expr):
    __slots__ = ("name", "value")
    OPERANDS = ("value",)

    def __init__(self, value: Expr, name: str) -> None:
        if not isinstance(name, str):
            raise error("QUERY_FAILED", f"alias takes a name (str), not {_kind(name)}")
        self.value = value
        self.name = name

    def _pieces(self) -> Sequence[str | Expr]:
        return self.value, f".alias({shown_value(self.name)})"


def unnamed(item: Expr) -> Expr:
    """What a name was given to."""
    while isinstance(item, Alias):
        item = item.value
    return item


class Aggregate(Expr):
    """One value for many rows; only `agg` and `select` of aggregates take it."""

    __slots__ = ("extra", "is_distinct", "op", "value", "where")
    OPERANDS = ("value", "extra", "where")

    def __init__(
        self,
        op: AggregateOp,
        value: Expr | None,
        extra: tuple[Expr, ...] = (),
        *,
        distinct: bool = False,
        where: Expr | None = None,
    ) -> None:
        self.op = op
        self.value = value
        #: A percentile's fraction, a separator.
        self.extra = extra
        self.is_distinct = distinct
        #: Only rows for which it is true count.
        self.where = where

    def distinct(self) -> Aggregate:
        """The same over every value once."""
        if self.value is None:
            raise error("INVALID_AGGREGATE", "distinct takes a column: col('x').n_unique() counts its values")
        return Aggregate(self.op, self.value, self.extra, distinct=True, where=self.where)

    def filter(self, condition: Expr) -> Aggregate:
        """The same over rows for which the condition is true."""
        if not isinstance(condition, Expr):
            raise error("INVALID_FILTER", f"filter of an aggregate takes a condition, not {_kind(condition)}")
        both = condition if self.where is None else self.where & condition
        return Aggregate(self.op, self.value, self.extra, distinct=self.is_distinct, where=both)

    def _pieces(self) -> Sequence[str | Expr]:
        shown: list[str | Expr] = ["count()"] if self.value is None else [self.value, f".{self._method()}"]
        if self.is_distinct:
            shown.append(".distinct()")
        return shown if self.where is None else [*shown, ".filter(", self.where, ")"]

    def _method(self) -> str:
        name = AGGREGATE_METHODS.get(self.op, f"{AGGREGATE_NAMES[self.op]}({{}})")
        return name.format(", ".join(str(item) for item in self.extra))


COMPARE_SIGNS = {
    CompareOp.EQ: "==",
    CompareOp.NEQ: "!=",
    CompareOp.LT: "<",
    CompareOp.LTE: "<=",
    CompareOp.GT: ">",
    CompareOp.GTE: ">=",
}
ARITHMETIC_SIGNS = {
    ArithmeticOp.ADD: "+",
    ArithmeticOp.SUBTRACT: "-",
    ArithmeticOp.MULTIPLY: "*",
    ArithmeticOp.DIVIDE: "/",
    ArithmeticOp.DIVIDE_INTEGER: "//",
    ArithmeticOp.MODULO: "%",
}
AGGREGATE_NAMES = {op: rule.name for op, rule in RULES.items()}
#: How they are called here, where that is not by their name in SQL.
AGGREGATE_METHODS = {op: rule.method for op, rule in RULES.items() if rule.method}
_INTERPOLATIONS = {"linear": AggregateOp.PERCENTILE_CONT, "discrete": AggregateOp.PERCENTILE_DISC}
#: What `aggregate("sum", …)` accepts.
AGGREGATE_WORDS = {**WORDS, "count_distinct": AggregateOp.COUNT, "n_unique": AggregateOp.COUNT}


def aggregate_by_word(word: str, value: Expr) -> Aggregate | None:
    """`aggregate("sum", …)`; None where there is no such word."""
    op = AGGREGATE_WORDS.get(word.lower())
    if op is None:
        return None
    extra: tuple[Expr, ...] = (Literal(","),) if RULES[op].constant == "separator" else ()
    return Aggregate(op, value, extra, distinct=word.lower() in ("count_distinct", "n_unique"))


def _by_ddof(name: str, ddof: object, sample: AggregateOp, population: AggregateOp) -> AggregateOp:
    if isinstance(ddof, bool) or ddof not in (0, 1):
        raise error("INVALID_AGGREGATE", f"{name} takes ddof=1 (of a sample) or ddof=0, not {ddof!r}")
    return sample if ddof == 1 else population


def col(name: str) -> Expr:
    """The column of that name."""
    if not isinstance(name, str):
        raise error("COLUMN_NOT_FOUND", f"col takes a column's name (str), not {_kind(name)}")
    return Column(name)


def lit(value: object, dtype: DataType | str | None = None, *, fixed: bool = True) -> Expr:
    """A constant; with `dtype`, one of that type wherever it stands: `lit(5, "int8")`.

    With `fixed=False` it is of that type only where nothing beside it has another, as numbers in SQL are.
    """
    if dtype is None:
        return as_expr(value)
    from querymode.expr.literals import fit, plain
    from querymode.types import DataType, parse_type

    data_type = parse_type(dtype) if isinstance(dtype, str) else dtype
    if not isinstance(data_type, DataType):
        raise error("NOT_SUPPORTED", f"lit takes a type such as 'int64', not {_kind(dtype)}")
    if value is not None and (isinstance(value, Expr) or fit(plain(value), data_type) is None):
        raise error("INVALID_FILTER", f"{value!r} is no {data_type}")
    return Literal(value, data_type, bool(fixed))


def count() -> Aggregate:
    """How many rows there are: SQL's `count(*)`."""
    return Aggregate(AggregateOp.COUNT_ROWS, None)


def when(condition: object) -> When:
    """`when(col("a") > 5).then("big").when(…).then(…).otherwise("small")`: SQL's CASE."""
    return When(as_expr(condition), (), ())


def coalesce(*values: object) -> Expr:
    """The first of the values that is not NULL."""
    return Coalesce(tuple(map(as_expr, values)))


def greatest(*values: object) -> Expr:
    """The greatest of the values that are not NULL."""
    return Function("greatest", tuple(map(as_expr, values)))


def least(*values: object) -> Expr:
    """The least of the values that are not NULL."""
    return Function("least", tuple(map(as_expr, values)))


def call(name: str, *arguments: object) -> Expr:
    """A function by its SQL name: `call("upper", col("name"))`. What asks for the time gets this moment."""
    if not arguments and isinstance(name, str):
        from querymode.expr.clock import Clock

        literal = Clock().literal(name)
        if literal is not None:
            return literal
    return Function(name, tuple(map(as_expr, arguments)))


def as_expr(value: object) -> Expr:
    return value if isinstance(value, Expr) else Literal(value)


def listed(values: object, what: str, *, computed: bool = False) -> tuple[object, ...] | ValueList:
    if isinstance(values, (str, bytes, Expr)) or not hasattr(values, "__iter__"):
        raise error("INVALID_FILTER", f"{what} takes a list of values, not {_kind(values)}")
    items = in_values([item.value if isinstance(item, Literal) else item for item in values])
    if not computed and isinstance(items, tuple) and any(isinstance(item, Expr) for item in items):
        raise error("INVALID_FILTER", f"{what} takes constant values, not expressions")
    return items


#: Lists of more values than these are kept in one piece (expr/value_list.py).
LONG = 128


def in_values(items: list[object]) -> tuple[object, ...] | ValueList:
    """What an IN list holds: many constants are kept in one piece."""
    if len(items) <= LONG or any(issubclass(kind, Expr) for kind in set(map(type, items))):
        return tuple(items)
    from querymode.expr.value_list import ValueList

    return ValueList.of(items)


def joined(kind: type[And] | type[Or], terms: list[Expr]) -> Expr:
    """Terms under one AND or OR; a single one needs neither."""
    return terms[0] if len(terms) == 1 else kind(tuple(terms))


#: What the wire counts with 16 bits.
TERMS_MAX = 0xFFFF


def _joined_with(kind: type[And] | type[Or], first: Expr, second: Expr) -> Expr:
    """Both under one AND or OR, whose terms stand side by side."""
    terms = [node.terms if isinstance(node, kind) else (node,) for node in (first, second)]
    if len(terms[0]) + len(terms[1]) > TERMS_MAX:
        raise too_many_terms(len(terms[0]) + len(terms[1]))
    return kind((*terms[0], *terms[1]))


def too_many_terms(count: int) -> QueryModeError:
    return error("NOT_SUPPORTED", f"{count} conditions in one filter; {TERMS_MAX:,} is the most")


def _kind(value: object) -> str:
    return type(value).__name__


# ---- the 14 operators as words ----


def _pair(value: object, word: str) -> tuple[object, object]:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise error("INVALID_FILTER", f"{word} takes a pair (low, high), not {value!r} ({_kind(value)})")
    return value[0], value[1]


_COMPARISONS = {
    "eq": CompareOp.EQ,
    "neq": CompareOp.NEQ,
    "gt": CompareOp.GT,
    "gte": CompareOp.GTE,
    "lt": CompareOp.LT,
    "lte": CompareOp.LTE,
}
_WITH_VALUE: dict[str, Callable[[Expr, Any], Expr]] = {
    "in": lambda column, value: InList(column, listed(value, "in")),
    "not_in": lambda column, value: Not(InList(column, listed(value, "not_in"))),
    "between": lambda column, value: column.between(*_pair(value, "between")),
    "not_between": lambda column, value: column.not_between(*_pair(value, "not_between")),
    "like": lambda column, value: column.like(value),
    "not_like": lambda column, value: column.not_like(value),
}
_WITHOUT_VALUE: dict[str, Callable[[Expr], Expr]] = {
    "is_null": lambda column: column.is_null(),
    "is_not_null": lambda column: column.is_not_null(),
}
FILTER_WORDS = (*_COMPARISONS, *_WITH_VALUE, *_WITHOUT_VALUE)


def condition(column: str, word: str, *value: object) -> Expr:
    """`filter("id", "gt", 5)` as an expression."""
    left = col(column)
    if word not in FILTER_WORDS:
        raise error("INVALID_FILTER", f"{word!r} is not an operator; there are {', '.join(FILTER_WORDS)}")
    if word in _WITHOUT_VALUE:
        if value and value != (None,):
            raise error("INVALID_FILTER", f"{word} takes no value, got {value[0]!r} (column {column!r})")
        return _WITHOUT_VALUE[word](left)
    if len(value) != 1:
        raise error("INVALID_FILTER", f"{word} takes one value, got {len(value)} (column {column!r})")
    if word in _COMPARISONS:
        if isinstance(value[0], (list, tuple, set, frozenset, dict)):
            kind = _kind(value[0])
            raise error("INVALID_FILTER", f"{word} takes one value, not a {kind} (column {column!r})")
        return Compare(_COMPARISONS[word], left, as_expr(value[0]))
    return _WITH_VALUE[word](left, value[0])
