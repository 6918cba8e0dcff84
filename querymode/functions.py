"""Functions by name: which of the engine's each is, what it takes and the type that it gives, as in DuckDB.

A rule gets the arguments, bound, and returns the call, bound. Most rules are a `Rule`: an engine function
with a list of parameters, each of which casts its argument or refuses it. Names that mean nothing but other
expressions (NULLIF, IF, …) are in REWRITES. The engine's side is wasm/src/plan/function.zig.
"""

from __future__ import annotations

from querymode._abi import CompareOp, ExpressionTag, FunctionId, TypeTag
from querymode.bind import Bound, _cast, _null_of, _said
from querymode.errors import error
from querymode.expr import Case, Coalesce, Compare, Expr, Literal
from querymode.types import BOOL, INT64, NULL, UTF8, encode_type, is_integer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from querymode.types import DataType

    #: Casts an argument to what the function takes, or None if it cannot be that.
    Parameter = Callable[[Bound], Bound | None]
    #: Name as it was called, bound arguments → the call.
    FunctionRule = Callable[[str, list[Bound]], Bound]


def call_wire(function: FunctionId, result: DataType, arguments: list[Bound]) -> bytes:
    """A call on the wire."""
    head = bytes((ExpressionTag.CALL,)) + function.to_bytes(2, "little") + encode_type(result)
    return head + bytes((len(arguments),)) + b"".join(argument.wire for argument in arguments)


def bound_call(name: str, function: FunctionId, result: DataType, arguments: list[Bound]) -> Bound:
    shown = f"{name}({', '.join(argument.text for argument in arguments)})"
    if len(arguments) > 255:
        raise error("NOT_SUPPORTED", f"{name} of {len(arguments)} arguments; 255 is the most")
    return Bound(result, call_wire(function, result, arguments), shown)


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
        function: FunctionId,
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
            fitted = parameter(argument)
            if fitted is None:
                raise not_taken(name, argument)
            given.append(fitted)
        result = self.result(given) if callable(self.result) else self.result
        return bound_call(name, self.function, result, given)


def not_taken(name: str, argument: Bound) -> Exception:
    return error("INVALID_FILTER", f"{name} is not defined for {_said(argument)}; cast it")


# ---- parameters ----


def text(argument: Bound) -> Bound | None:
    if argument.type == NULL:
        return _null_of(UTF8, argument.text)
    return argument if argument.type == UTF8 else None


def text_or_binary(argument: Bound) -> Bound | None:
    return argument if argument.type.tag == TypeTag.BINARY else text(argument)


def integer(argument: Bound) -> Bound | None:
    """Any integer, as int64."""
    if argument.type == NULL:
        return _null_of(INT64, argument.text)
    return _cast(argument, INT64) if is_integer(argument.type) else None


def boolean(argument: Bound) -> Bound | None:
    if argument.type == NULL:
        return _null_of(BOOL, argument.text)
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
}


# ---- the table ----

TEXT_FUNCTIONS: dict[tuple[str, ...], FunctionRule] = {
    ("length", "len", "char_length", "character_length"): Rule(FunctionId.LENGTH, (text,), INT64),
    ("byte_length", "strlen", "octet_length"): Rule(FunctionId.BYTE_LENGTH, (text_or_binary,), INT64),
}

# Families with a file of their own use the rules above, so they come last.
from querymode.functions_time import TIME_FUNCTIONS  # noqa: E402

FAMILIES = (TEXT_FUNCTIONS, TIME_FUNCTIONS)

#: Every name, in lower case.
FUNCTIONS: dict[str, FunctionRule] = {
    name: rule for family in FAMILIES for names, rule in family.items() for name in names
}
