"""Functions of numbers: names, types and results as in DuckDB.

wasm/src/plan/function_number.zig computes them.

Functions without an exact answer take and give float64. What is undefined is NaN or infinite, never an error.
Bits, common divisors and the like are for integers. Decimals are rounded exactly, to digits that are a
constant: they are part of the result's type.
"""

from __future__ import annotations

from querymode._abi import ArithmeticOp, FunctionId, TypeTag
from querymode.errors import error
from querymode.plan.bind import (
    Bound,
    arithmetic_call,
    arithmetic_types,
    cast_to,
    constant_of,
    narrow_literals,
    null_of,
    said,
)
from querymode.plan.functions.rules import Rule, bound_call, check_count, integer32, not_taken, real, taken
from querymode.types import (
    BOOL,
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    INT128,
    NULL,
    UINT64,
    decimal,
    is_decimal,
    is_float,
    is_integer,
    is_numeric,
    is_unsigned,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from querymode.plan.functions.rules import FunctionRule
    from querymode.types import DataType


def _number(name: str, argument: Bound) -> Bound:
    """A number as it is; halves as float32, which the engine computes with."""
    if argument.type == NULL:
        return null_of(INT64, argument)
    if not is_numeric(argument.type):
        raise not_taken(name, argument)
    return cast_to(argument, FLOAT32) if argument.type.tag == TypeTag.F16 else argument


def _unary(function: int, result: DataType | None) -> FunctionRule:
    """Of any number; None: the result has its type."""

    def rule(name: str, arguments: list[Bound]) -> Bound:
        check_count(name, len(arguments), 1, 1)
        value = _number(name, arguments[0])
        return bound_call(name, function, result or value.type, [value])

    return rule


# ---- rounding ----


def _rounding(function: int) -> FunctionRule:
    """`round(x)`, `round(x, digits)`."""

    def rule(name: str, arguments: list[Bound]) -> Bound:
        check_count(name, len(arguments), 1, 2)
        value = _number(name, arguments[0])
        if is_unsigned(value.type) and function != FunctionId.TRUNCATE:
            value = cast_to(value, INT128 if value.type == UINT64 else INT64)
        if is_decimal(value.type):
            return _round_decimal(name, function, value, arguments[1:])
        digits = [taken(name, argument, integer32) for argument in arguments[1:]]
        return bound_call(name, function, value.type, [value, *digits])

    return rule


def _round_decimal(name: str, function: int, value: Bound, given: list[Bound]) -> Bound:
    precision, scale = value.type.precision, value.type.scale
    if given and given[0].type == NULL:
        return null_of(value.type, name)
    if given and not (given[0].is_literal and isinstance(given[0].value, int)):
        raise error(
            "NOT_SUPPORTED", f"{name} of {said(value)} takes its digits as a constant; cast it to float64"
        )
    digits: int = given[0].value if given else 0  # type: ignore[assignment]
    if digits >= scale and (given or scale <= 0):
        return value
    digits = max(digits, -(1 << 31))
    # Nines may become a digit more.
    if function != FunctionId.TRUNCATE and digits < 0 and scale == 0 and digits >= -precision:
        value = cast_to(value, decimal(min(precision + 1, 38), scale))
    result = decimal(value.type.precision, max(digits, 0))
    if function == FunctionId.ROUND and digits >= 0:
        return cast_to(value, result)  # which rounds just so
    return bound_call(name, function, result, [value, constant_of(digits, digits, INT32, str(digits))])


def _toward(function: int) -> FunctionRule:
    """floor and ceil: of integers they are floats."""

    def rule(name: str, arguments: list[Bound]) -> Bound:
        check_count(name, len(arguments), 1, 1)
        value = _number(name, arguments[0])
        if is_integer(value.type):
            value = cast_to(value, FLOAT64)
        if is_decimal(value.type):
            if value.type.scale <= 0:
                return value
            return bound_call(name, function, decimal(value.type.precision, 0), [value])
        return bound_call(name, function, value.type, [value])

    return rule


def _round_even(name: str, arguments: list[Bound]) -> Bound:
    check_count(name, len(arguments), 2, 2)
    return _rounding(FunctionId.ROUND_EVEN)(name, arguments)


# ---- floats ----


def _math(function: int, count: int = 1) -> Rule:
    return Rule(function, (real,) * count, FLOAT64)


def _log(name: str, arguments: list[Bound]) -> Bound:
    """`log(x)` is to the base ten, `log(base, x)` to the base."""
    check_count(name, len(arguments), 1, 2)
    return _math(FunctionId.LOG10 if len(arguments) == 1 else FunctionId.LOG, len(arguments))(name, arguments)


def _pi(name: str, arguments: list[Bound]) -> Bound:
    from math import pi

    check_count(name, len(arguments), 0, 0)
    return constant_of(pi, pi, FLOAT64, "pi()")


def _finite(function: int, *, moments: bool) -> FunctionRule:
    def rule(name: str, arguments: list[Bound]) -> Bound:
        check_count(name, len(arguments), 1, 1)
        value = arguments[0]
        if not (moments and value.type.tag in (TypeTag.DATE, TypeTag.TIMESTAMP)):
            value = _number(name, value)
            if not is_float(value.type):
                value = cast_to(value, FLOAT64)
        return bound_call(name, function, BOOL, [value])

    return rule


# ---- integers ----


def _integers(name: str, arguments: list[Bound]) -> list[Bound]:
    """Two integers in one type, as arithmetic would have them."""
    check_count(name, len(arguments), 2, 2)
    for argument in arguments:
        if argument.type != NULL and not is_integer(argument.type):
            raise not_taken(name, argument)
    left, right = narrow_literals(*arguments)
    if left.type == NULL and right.type == NULL:
        return [null_of(INT32, left), null_of(INT32, right)]
    kinds = [side.type if side.type != NULL else other.type for side, other in ((left, right), (right, left))]
    common, _, _ = arithmetic_types(ArithmeticOp.ADD, *kinds)
    return [cast_to(left, common), cast_to(right, common)]


def _bits(function: int) -> FunctionRule:
    def rule(name: str, arguments: list[Bound]) -> Bound:
        sides = _integers(name, arguments)
        return bound_call(name, function, sides[0].type, sides)

    return rule


def _bit_not(name: str, arguments: list[Bound]) -> Bound:
    check_count(name, len(arguments), 1, 1)
    value = _number(name, arguments[0])
    if not is_integer(value.type):
        raise not_taken(name, value)
    return bound_call(name, FunctionId.BIT_NOT, value.type, [value])


def _bit_count(name: str, arguments: list[Bound]) -> Bound:
    check_count(name, len(arguments), 1, 1)
    value = _number(name, arguments[0])
    if not is_integer(value.type):
        raise not_taken(name, value)
    return bound_call(name, FunctionId.BIT_COUNT, INT8, [value])


def _divisors(function: int) -> FunctionRule:
    def rule(name: str, arguments: list[Bound]) -> Bound:
        sides = _integers(name, arguments)
        kind = INT128 if any(side.type in (INT128, UINT64) for side in sides) else INT64
        return bound_call(name, function, kind, [cast_to(side, kind) for side in sides])

    return rule


def _factorial(name: str, arguments: list[Bound]) -> Bound:
    check_count(name, len(arguments), 1, 1)
    return bound_call(name, FunctionId.FACTORIAL, INT128, [taken(name, arguments[0], integer32)])


def _operator(op: ArithmeticOp) -> FunctionRule:
    """An operator by its name."""

    def rule(name: str, arguments: list[Bound]) -> Bound:
        check_count(name, len(arguments), 2, 2)
        left, right = arguments
        return arithmetic_call(op, left, right, (f"{name}(", left, ", ", right, ")"))

    return rule


NUMBER_FUNCTIONS: dict[tuple[str, ...], FunctionRule] = {
    ("abs", "@"): _unary(FunctionId.ABS, None),
    ("sign",): _unary(FunctionId.SIGN, INT8),
    ("round",): _rounding(FunctionId.ROUND),
    ("trunc", "truncate"): _rounding(FunctionId.TRUNCATE),
    ("round_even", "roundbankers"): _round_even,
    ("floor",): _toward(FunctionId.FLOOR),
    ("ceil", "ceiling"): _toward(FunctionId.CEIL),
    ("even",): _math(FunctionId.EVEN),
    ("sqrt",): _math(FunctionId.SQRT),
    ("cbrt",): _math(FunctionId.CBRT),
    ("exp",): _math(FunctionId.EXP),
    ("ln",): _math(FunctionId.LN),
    ("log10",): _math(FunctionId.LOG10),
    ("log2",): _math(FunctionId.LOG2),
    ("log",): _log,
    ("pow", "power", "^", "**"): _math(FunctionId.POWER, 2),
    ("sin",): _math(FunctionId.SIN),
    ("cos",): _math(FunctionId.COS),
    ("tan",): _math(FunctionId.TAN),
    ("cot",): _math(FunctionId.COT),
    ("asin",): _math(FunctionId.ASIN),
    ("acos",): _math(FunctionId.ACOS),
    ("atan",): _math(FunctionId.ATAN),
    ("atan2",): _math(FunctionId.ATAN2, 2),
    ("sinh",): _math(FunctionId.SINH),
    ("cosh",): _math(FunctionId.COSH),
    ("tanh",): _math(FunctionId.TANH),
    ("asinh",): _math(FunctionId.ASINH),
    ("acosh",): _math(FunctionId.ACOSH),
    ("atanh",): _math(FunctionId.ATANH),
    ("degrees",): _math(FunctionId.DEGREES),
    ("radians",): _math(FunctionId.RADIANS),
    ("gamma",): _math(FunctionId.GAMMA),
    ("lgamma",): _math(FunctionId.LOG_GAMMA),
    ("nextafter",): _math(FunctionId.NEXT_AFTER, 2),
    ("fdiv",): _math(FunctionId.FLOAT_DIVIDE, 2),
    ("fmod",): _math(FunctionId.FLOAT_MODULO, 2),
    ("pi",): _pi,
    ("isnan",): _finite(FunctionId.IS_NAN, moments=False),
    ("isfinite",): _finite(FunctionId.IS_FINITE, moments=True),
    ("isinf",): _finite(FunctionId.IS_INFINITE, moments=True),
    ("gcd", "greatest_common_divisor"): _divisors(FunctionId.GCD),
    ("lcm", "least_common_multiple"): _divisors(FunctionId.LCM),
    ("factorial", "!__postfix"): _factorial,
    ("bit_and", "&"): _bits(FunctionId.BIT_AND),
    ("bit_or", "|"): _bits(FunctionId.BIT_OR),
    ("bit_xor", "xor"): _bits(FunctionId.BIT_XOR),
    ("bit_not", "~"): _bit_not,
    ("shift_left", "<<"): _bits(FunctionId.SHIFT_LEFT),
    ("shift_right", ">>"): _bits(FunctionId.SHIFT_RIGHT),
    ("bit_count",): _bit_count,
    ("mod",): _operator(ArithmeticOp.MODULO),
    ("divide",): _operator(ArithmeticOp.DIVIDE_INTEGER),
}
