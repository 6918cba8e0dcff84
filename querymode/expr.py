"""Expressions as a user writes them: `(col("region") == "us") & (col("age") > 25)`.

Nodes are frozen and know nothing of any table; bind.py gives names and literals their types. Python's
operators build nodes, so an expression has no truth value: `&`, `|` and `~` instead of `and`, `or`, `not`.
"""

from __future__ import annotations

from querymode._abi import AggregateOp, ArithmeticOp, CompareOp
from querymode.errors import error
from querymode.expr_text import TextMethods

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, NoReturn

    from querymode.types import DataType


class Expr(TextMethods):
    """Something that has a value for every row."""

    __slots__ = ()
    __hash__ = object.__hash__

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

    def is_null(self) -> Expr:
        return IsNull(self, False)

    def is_not_null(self) -> Expr:
        return IsNull(self, True)

    # ---- logic ----

    def __and__(self, other: object) -> Expr:
        return And((*_terms(And, self), *_terms(And, as_expr(other))))

    def __rand__(self, other: object) -> Expr:
        return And((*_terms(And, as_expr(other)), *_terms(And, self)))

    def __or__(self, other: object) -> Expr:
        return Or((*_terms(Or, self), *_terms(Or, as_expr(other))))

    def __ror__(self, other: object) -> Expr:
        return Or((*_terms(Or, as_expr(other)), *_terms(Or, self)))

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

    def alias(self, name: str) -> Expr:
        return Alias(self, name)

    def __repr__(self) -> str:
        try:
            return str(self)
        except RecursionError:
            return f"<{type(self).__name__}, nested too deep to print>"


class Column(Expr):
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return f"col({self.name!r})"


class Literal(Expr):
    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __str__(self) -> str:
        return repr(self.value)


class Compare(Expr):
    __slots__ = ("left", "op", "right")

    def __init__(self, op: CompareOp, left: Expr, right: Expr) -> None:
        self.op = op
        self.left = left
        self.right = right

    def __str__(self) -> str:
        return f"({self.left} {COMPARE_SIGNS[self.op]} {self.right})"


class Between(Expr):
    __slots__ = ("high", "low", "value")

    def __init__(self, value: Expr, low: Expr, high: Expr) -> None:
        self.value = value
        self.low = low
        self.high = high

    def __str__(self) -> str:
        return f"{self.value}.between({self.low}, {self.high})"


class InList(Expr):
    """Values are constants, or expressions, which are compared one by one."""

    __slots__ = ("value", "values")

    def __init__(self, value: Expr, values: tuple[object, ...]) -> None:
        self.value = value
        self.values = values

    def __str__(self) -> str:
        shown = ", ".join(repr(value) for value in self.values[:10])
        more = f", … {len(self.values)} in all" if len(self.values) > 10 else ""
        return f"{self.value}.is_in([{shown}{more}])"


class Like(Expr):
    __slots__ = ("escape", "ignore_case", "pattern", "value")

    def __init__(self, value: Expr, pattern: str, escape: str | None, ignore_case: bool) -> None:
        if not isinstance(pattern, str):
            raise error("INVALID_FILTER", f"like takes a pattern (str), not {_kind(pattern)}")
        if escape is not None and not (isinstance(escape, str) and len(escape) == 1 and escape.isascii()):
            raise error("INVALID_FILTER", f"the escape of like is one ASCII character, not {escape!r}")
        self.value = value
        self.pattern = pattern
        self.escape = escape
        self.ignore_case = ignore_case

    def __str__(self) -> str:
        escape = f", escape={self.escape!r}" if self.escape is not None else ""
        return f"{self.value}.like({self.pattern!r}{escape})"


class IsNull(Expr):
    __slots__ = ("negated", "value")

    def __init__(self, value: Expr, negated: bool) -> None:
        self.value = value
        self.negated = negated

    def __str__(self) -> str:
        return f"{self.value}.{'is_not_null' if self.negated else 'is_null'}()"


class And(Expr):
    __slots__ = ("terms",)

    def __init__(self, terms: tuple[Expr, ...]) -> None:
        self.terms = terms

    def __str__(self) -> str:
        return "(" + " & ".join(str(term) for term in self.terms) + ")"


class Or(Expr):
    __slots__ = ("terms",)

    def __init__(self, terms: tuple[Expr, ...]) -> None:
        self.terms = terms

    def __str__(self) -> str:
        return "(" + " | ".join(str(term) for term in self.terms) + ")"


class Not(Expr):
    __slots__ = ("value",)

    def __init__(self, value: Expr) -> None:
        self.value = value

    def __str__(self) -> str:
        return f"~{self.value}"


class Arithmetic(Expr):
    __slots__ = ("left", "op", "right")

    def __init__(self, op: ArithmeticOp, left: Expr, right: Expr) -> None:
        self.op = op
        self.left = left
        self.right = right

    def __str__(self) -> str:
        return f"({self.left} {ARITHMETIC_SIGNS[self.op]} {self.right})"


class Negate(Expr):
    __slots__ = ("value",)

    def __init__(self, value: Expr) -> None:
        self.value = value

    def __str__(self) -> str:
        return f"-{self.value}"


class Cast(Expr):
    __slots__ = ("attempt", "target", "value")

    def __init__(self, value: Expr, target: DataType, attempt: bool) -> None:
        self.value = value
        self.target = target
        self.attempt = attempt

    def __str__(self) -> str:
        return f"{self.value}.cast({str(self.target)!r}{', strict=False' if self.attempt else ''})"


class Function(Expr):
    """A function by its name in functions.py."""

    __slots__ = ("arguments", "name")

    def __init__(self, name: str, arguments: tuple[Expr, ...]) -> None:
        if not isinstance(name, str):
            raise error("NOT_SUPPORTED", f"a function is called by its name (str), not {_kind(name)}")
        self.name = name.lower()
        self.arguments = arguments

    def __str__(self) -> str:
        if self.arguments and hasattr(Expr, self.name):
            first, *rest = self.arguments
            return f"{first}.{self.name}({', '.join(map(str, rest))})"
        if self.name in ("greatest", "least"):
            return f"{self.name}({', '.join(map(str, self.arguments))})"
        return f"call({', '.join((repr(self.name), *map(str, self.arguments)))})"


class Case(Expr):
    """The value of the first condition that is true; the last value, if there is one more, for the rest."""

    __slots__ = ("conditions", "values")

    def __init__(self, conditions: tuple[Expr, ...], values: tuple[Expr, ...]) -> None:
        if not conditions or not 0 <= len(values) - len(conditions) <= 1:
            raise error("INVALID_FILTER", f"CASE of {len(conditions)} conditions and {len(values)} values")
        self.conditions = conditions
        self.values = values

    def __str__(self) -> str:
        shown = "".join(
            f"{'.' * (number > 0)}when({condition}).then({value})"
            for number, (condition, value) in enumerate(zip(self.conditions, self.values, strict=False))
        )
        rest = self.values[len(self.conditions) :]
        return shown + (f".otherwise({rest[0]})" if rest else "")


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

    def __init__(self, values: tuple[Expr, ...]) -> None:
        if not values:
            raise error("INVALID_FILTER", "coalesce takes at least one value")
        self.values = values

    def __str__(self) -> str:
        return f"coalesce({', '.join(map(str, self.values))})"


class Field(Expr):
    """One field of a structure."""

    __slots__ = ("name", "value")

    def __init__(self, value: Expr, name: str) -> None:
        if not isinstance(name, str):
            raise error("COLUMN_NOT_FOUND", f"field takes a name (str), not {_kind(name)}")
        self.value = value
        self.name = name

    def __str__(self) -> str:
        return f"{self.value}.field({self.name!r})"


class Alias(Expr):
    __slots__ = ("name", "value")

    def __init__(self, value: Expr, name: str) -> None:
        if not isinstance(name, str):
            raise error("QUERY_FAILED", f"alias takes a name (str), not {_kind(name)}")
        self.value = value
        self.name = name

    def __str__(self) -> str:
        return f"{self.value}.alias({self.name!r})"


class Aggregate(Expr):
    """One value for many rows; only `agg` and `select` of aggregates take it."""

    __slots__ = ("op", "value")

    def __init__(self, op: AggregateOp, value: Expr | None) -> None:
        self.op = op
        self.value = value

    def __str__(self) -> str:
        if self.value is None:
            return "count()"
        return f"{self.value}.{AGGREGATE_NAMES[self.op]}()"


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
AGGREGATE_NAMES = {
    AggregateOp.COUNT_ROWS: "count",
    AggregateOp.COUNT: "count",
    AggregateOp.SUM: "sum",
    AggregateOp.MIN: "min",
    AggregateOp.MAX: "max",
    AggregateOp.AVG: "avg",
}
#: What `aggregate("sum", …)` accepts.
AGGREGATE_WORDS = {
    "count": AggregateOp.COUNT,
    "sum": AggregateOp.SUM,
    "min": AggregateOp.MIN,
    "max": AggregateOp.MAX,
    "avg": AggregateOp.AVG,
    "mean": AggregateOp.AVG,
}


def col(name: str) -> Expr:
    """The column of that name."""
    if not isinstance(name, str):
        raise error("COLUMN_NOT_FOUND", f"col takes a column's name (str), not {_kind(name)}")
    return Column(name)


def lit(value: object) -> Expr:
    """A constant."""
    return as_expr(value)


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
    """A function by its SQL name: `call("upper", col("name"))`."""
    return Function(name, tuple(map(as_expr, arguments)))


def as_expr(value: object) -> Expr:
    return value if isinstance(value, Expr) else Literal(value)


def listed(values: object, what: str, *, computed: bool = False) -> tuple[object, ...]:
    if isinstance(values, (str, bytes, Expr)) or not hasattr(values, "__iter__"):
        raise error("INVALID_FILTER", f"{what} takes a list of values, not {_kind(values)}")
    items = tuple(item.value if isinstance(item, Literal) else item for item in values)
    if not computed and any(isinstance(item, Expr) for item in items):
        raise error("INVALID_FILTER", f"{what} takes constant values, not expressions")
    return items


def _terms(kind: type[And] | type[Or], node: Expr) -> tuple[Expr, ...]:
    return node.terms if isinstance(node, kind) else (node,)


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
