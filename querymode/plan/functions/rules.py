"""Functions by name: which of the engine's each is, what it takes and the type that it gives, as in DuckDB.

A rule gets the arguments, bound, and returns the call, bound. Most rules are a `Rule`: an engine function
with a list of parameters, each of which casts its argument or refuses it. Names that mean nothing but other
expressions (NULLIF, IF, …) are in REWRITES. The engine's side is wasm/src/plan/function.zig.
"""

from __future__ import annotations

from querymode._abi import CompareOp, ExpressionTag, FunctionId, TypeTag
from querymode.errors import error
from querymode.expr.nodes import Case, Coalesce, Compare, Expr, Function, Literal
from querymode.expr.spelling import between
from querymode.plan.bind import Bound, cast_to, castable, null_of, said, unify, unify_all
from querymode.types import (
    BOOL,
    FLOAT64,
    INT32,
    INT64,
    NULL,
    UTF8,
    encode_type,
    is_integer,
    is_nested,
    is_numeric,
    is_vector,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from querymode.types import DataType

    #: Casts an argument to what the function takes, or None if it cannot be that.
    Parameter = Callable[[Bound], Bound | None]
    #: Name as it was called, bound arguments → the call.
    FunctionRule = Callable[[str, list[Bound]], Bound]


def bound_call(name: str, function: int, result: DataType, arguments: list[Bound]) -> Bound:
    if len(arguments) > 255:
        raise error("NOT_SUPPORTED", f"{name} of {len(arguments)} arguments; 255 is the most")
    head = bytes((ExpressionTag.CALL,)) + function.to_bytes(2, "little") + encode_type(result)
    shown = (f"{name}(", *between(", ", arguments), ")")
    return Bound(result, (head + bytes((len(arguments),)), *arguments), shown)


def check_count(name: str, count: int, least: int, most: int | None) -> None:
    if count >= least and (most is None or count <= most):
        return
    wanted = f"{least}" if most == least else f"at least {least}" if most is None else f"{least} to {most}"
    raise error("INVALID_FILTER", f"{name} takes {wanted} argument{'s' * (wanted != '1')}, not {count}")


class Rule:
    """An engine function whose arguments are cast one by one."""

    __slots__ = ("function", "optional", "parameters", "repeats", "result")

    def __init__(
        self,
        function: int,
        parameters: tuple[Parameter, ...],
        result: DataType | Callable[[list[Bound]], DataType],
        *,
        optional: int = 0,
        repeats: bool = False,
    ) -> None:
        self.function = function
        self.parameters = parameters
        self.result = result
        #: So many of the last parameters may be left out.
        self.optional = optional
        #: The last parameter may come again and again.
        self.repeats = repeats

    def __call__(self, name: str, arguments: list[Bound]) -> Bound:
        count = len(self.parameters)
        check_count(name, len(arguments), count - self.optional, None if self.repeats else count)
        given = []
        for number, argument in enumerate(arguments):
            parameter = self.parameters[min(number, count - 1)]
            given.append(taken(name, argument, parameter))
        result = self.result(given) if callable(self.result) else self.result
        return bound_call(name, self.function, result, given)


def not_taken(name: str, argument: Bound) -> Exception:
    return error("INVALID_FILTER", f"{name} is not defined for {said(argument)}; cast it")


def taken(name: str, argument: Bound, parameter: Callable[[Bound], Bound | None]) -> Bound:
    """An argument as a parameter takes it, or an error that names both."""
    found = parameter(argument)
    if found is None:
        raise not_taken(name, argument)
    return found


# ---- parameters ----


def text(argument: Bound) -> Bound | None:
    if argument.type == NULL:
        return null_of(UTF8, argument)
    return argument if argument.type == UTF8 else None


def text_or_binary(argument: Bound) -> Bound | None:
    return argument if argument.type.tag == TypeTag.BINARY else text(argument)


def integer(argument: Bound) -> Bound | None:
    """Any integer, as int64."""
    if argument.type == NULL:
        return null_of(INT64, argument)
    return cast_to(argument, INT64) if is_integer(argument.type) else None


def integer32(argument: Bound) -> Bound | None:
    if argument.type == NULL:
        return null_of(INT32, argument)
    return cast_to(argument, INT32) if is_integer(argument.type) else None


def real(argument: Bound) -> Bound | None:
    """Any number, as float64."""
    return cast_to(argument, FLOAT64) if argument.type == NULL or is_numeric(argument.type) else None


def as_text(argument: Bound) -> Bound | None:
    """Any type that has a form as text."""
    return cast_to(argument, UTF8) if castable(argument.type, UTF8) else None


def boolean(argument: Bound) -> Bound | None:
    if argument.type == NULL:
        return null_of(BOOL, argument)
    return argument if argument.type == BOOL else None


def like(index: int) -> Callable[[list[Bound]], DataType]:
    """The result has the type of that argument."""
    return lambda arguments: arguments[index].type


# ---- names that mean other expressions ----


def _nullif(value: Expr, other: Expr) -> Expr:
    return Case((Compare(CompareOp.EQ, value, other),), (Literal(None), value))


def _if(condition: Expr, value: Expr, otherwise: Expr) -> Expr:
    return Case((condition,), (value, otherwise))


#: Name → number of arguments, and what it means.
REWRITES: dict[str, tuple[int, Callable[..., Expr]]] = {
    "nullif": (2, _nullif),
    "if": (3, _if),
    "ifnull": (2, lambda value, other: Coalesce((value, other))),
    "date_add": (2, lambda date, step: date + step),
    "bit_length": (1, lambda value: Function("byte_length", (value,)) * 8),
}


def _join(name: str, arguments: list[Bound]) -> Bound:
    """`||`: of two binaries a binary, else text, to which whatever is not text is cast."""
    check_count(name, len(arguments), 2, None)
    if all(argument.type.tag == TypeTag.BINARY for argument in arguments):
        return bound_call(name, FunctionId.JOIN, arguments[0].type, arguments)
    return Rule(FunctionId.JOIN, (as_text,), UTF8, repeats=True)(name, arguments)


def _extreme(function: int) -> FunctionRule:
    """GREATEST and LEAST: all arguments in one type; NULLs are not looked at."""

    def rule(name: str, arguments: list[Bound]) -> Bound:
        check_count(name, len(arguments), 1, None)
        values = unify_all(arguments, name)
        if values[0].type == NULL:
            return values[0]
        _check_order(name, values[0])
        return bound_call(name, function, values[0].type, values)

    return rule


def _distinct(function: int) -> FunctionRule:
    """IS [NOT] DISTINCT FROM: comparisons that are never NULL."""

    def rule(name: str, arguments: list[Bound]) -> Bound:
        check_count(name, len(arguments), 2, 2)
        left, right = arguments
        pair = list(unify(left, right))
        _check_order(name, pair[0])
        return bound_call(name, function, BOOL, pair)

    return rule


def _check_order(name: str, value: Bound) -> None:
    if is_nested(value.type) or is_vector(value.type):
        raise not_taken(name, value)


# ---- the table ----

TEXT_FUNCTIONS: dict[tuple[str, ...], FunctionRule] = {
    ("length", "len", "char_length", "character_length"): Rule(FunctionId.LENGTH, (text,), INT64),
    ("byte_length", "strlen", "octet_length"): Rule(FunctionId.BYTE_LENGTH, (text_or_binary,), INT64),
    ("lower", "lcase"): Rule(FunctionId.LOWER, (text,), UTF8),
    ("upper", "ucase"): Rule(FunctionId.UPPER, (text,), UTF8),
    ("trim",): Rule(FunctionId.TRIM, (text, text), UTF8, optional=1),
    ("trim_start", "ltrim"): Rule(FunctionId.TRIM_START, (text, text), UTF8, optional=1),
    ("trim_end", "rtrim"): Rule(FunctionId.TRIM_END, (text, text), UTF8, optional=1),
    ("substring", "substr"): Rule(FunctionId.SUBSTRING, (text, integer, integer), UTF8, optional=1),
    ("head", "left"): Rule(FunctionId.LEFT, (text, integer), UTF8),
    ("tail", "right"): Rule(FunctionId.RIGHT, (text, integer), UTF8),
    ("position", "strpos", "instr"): Rule(FunctionId.POSITION, (text, text), INT64),
    ("contains",): Rule(FunctionId.CONTAINS, (text, text), BOOL),
    ("starts_with", "prefix", "^@"): Rule(FunctionId.STARTS_WITH, (text, text), BOOL),
    ("ends_with", "suffix"): Rule(FunctionId.ENDS_WITH, (text, text), BOOL),
    ("like_escape",): Rule(FunctionId.LIKE_ESCAPE, (text, text, text), BOOL),
    ("replace",): Rule(FunctionId.REPLACE, (text, text, text), UTF8),
    ("||",): _join,
    ("concat",): Rule(FunctionId.CONCAT, (as_text,), UTF8, repeats=True),
    ("concat_ws",): Rule(FunctionId.CONCAT_WITH_SEPARATOR, (text, as_text), UTF8, repeats=True),
    ("reverse",): Rule(FunctionId.REVERSE, (text,), UTF8),
    ("repeat",): Rule(FunctionId.REPEAT, (text_or_binary, integer), like(0)),
    ("pad_left", "lpad"): Rule(FunctionId.PAD_LEFT, (text, integer, text), UTF8),
    ("pad_right", "rpad"): Rule(FunctionId.PAD_RIGHT, (text, integer, text), UTF8),
    ("split_part",): Rule(FunctionId.SPLIT_PART, (text, text, integer), UTF8),
    ("translate",): Rule(FunctionId.TRANSLATE, (text, text, text), UTF8),
    ("chr",): Rule(FunctionId.CHARACTER, (integer32,), UTF8),
    ("ascii",): Rule(FunctionId.ASCII, (text,), INT32),
    ("code_point", "unicode", "ord"): Rule(FunctionId.CODE_POINT, (text,), INT32),
}

GENERAL_FUNCTIONS: dict[tuple[str, ...], FunctionRule] = {
    ("greatest",): _extreme(FunctionId.GREATEST),
    ("least",): _extreme(FunctionId.LEAST),
    ("is_distinct_from",): _distinct(FunctionId.DISTINCT_FROM),
    ("is_not_distinct_from",): _distinct(FunctionId.NOT_DISTINCT_FROM),
}
