"""Functions of numbers against DuckDB: random values of every type, NULL, extremes, NaN and infinities."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from querymode import QueryMode, call, col, lit
from tests.parametric.oracle import Case, Oracle
from tests.raises import raises_code

ROWS = 240
_INTEGERS = {
    f"{'u' if unsigned else 'i'}{bits}": (bits, not unsigned)
    for bits in (8, 16, 32, 64)
    for unsigned in (False, True)
}
_DECIMALS = {
    "p3": (3, 1),
    "p9": (9, 2),
    "p18": (18, 4),
    "p18w": (18, 0),
    "p28": (28, 6),
    "p38": (38, 10),
    "p38w": (38, 0),
}


def _integer(dice: random.Random, bits: int, signed: bool) -> int | None:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    choice = dice.random()
    if choice < 0.1:
        return None
    if choice < 0.3:
        return dice.choice([low, high, low + 1, high - 1, 0, 1])
    return dice.randint(max(low, -100), min(high, 100)) if choice < 0.7 else dice.randint(low, high)


def _decimal(dice: random.Random, precision: int, scale: int) -> Decimal | None:
    choice = dice.random()
    end = 10**precision - 1
    if choice < 0.1:
        return None
    if choice < 0.3:
        digits = dice.choice(
            [end, -end, 0, 5 * 10 ** max(scale - 1, 0), -5 * 10 ** max(scale - 1, 0), 45, -45, 95]
        )
    else:
        digits = dice.randint(-end, end) if choice < 0.6 else dice.randint(-min(end, 9999), min(end, 9999))
    kept = max(-end, min(end, digits))
    return Decimal((int(kept < 0), tuple(map(int, str(abs(kept)))), -scale))  # other ways round to 28 digits


_SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.5,
    -2.5,
    float("nan"),
    float("inf"),
    float("-inf"),
    1e300,
    -1e300,
    1e-300,
]


def _float(dice: random.Random) -> float | None:
    choice = dice.random()
    if choice < 0.1:
        return None
    if choice < 0.3:
        return dice.choice(_SPECIAL)
    if choice < 0.6:
        return dice.uniform(-10, 10)
    return dice.uniform(-1, 1) if choice < 0.7 else dice.uniform(-1e6, 1e6)


def _table(seed: int) -> pa.Table:
    dice = random.Random(seed)
    columns: dict[str, Any] = {"row": pa.array(range(ROWS))}
    for name, (bits, signed) in _INTEGERS.items():
        kind = getattr(pa, f"{'' if signed else 'u'}int{bits}")()
        columns[name] = pa.array([_integer(dice, bits, signed) for _ in range(ROWS)], kind)
    for name, (precision, scale) in _DECIMALS.items():
        columns[name] = pa.array(
            [_decimal(dice, precision, scale) for _ in range(ROWS)], pa.decimal128(precision, scale)
        )
    for name in ("f", "g", "h"):
        columns[name] = pa.array([_float(dice) for _ in range(ROWS)])
    floats = [_float(dice) for _ in range(ROWS)]
    columns["f32"] = pa.array(
        [x if x is None or abs(x) < 1e30 or x - x != 0 else 1.5 for x in floats], pa.float32()
    )
    columns["small"] = pa.array([_integer(dice, 8, True) for _ in range(ROWS)], pa.int8())
    columns["digits"] = pa.array(
        [dice.choice([None, *range(-6, 8), 20, -20, 400, -400]) for _ in range(ROWS)], pa.int32()
    )
    columns["up"] = pa.array([dice.choice([None, *range(-2, 40)]) for _ in range(ROWS)], pa.int32())
    return pa.table(columns)


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    return Oracle(_table(11))


def case(sql: str, build: Any, **options: Any) -> Any:
    return pytest.param(Case(sql, build, **options), id=sql)


def _unary(name: str, columns: Any, **options: Any) -> Iterator[Any]:
    for column in columns:
        yield case(f"{name}({column})", lambda c, column=column: call(name, c(column)), **options)


#: A constant of Python is an int64, float64 or decimal of its own digits: other types have no constants.
_TYPED = {"constants": False}


def _rounded() -> Iterator[Any]:
    for name in ("abs", "sign", "round", "trunc", "floor", "ceil", "ceiling"):
        yield from _unary(name, [*_INTEGERS, *_DECIMALS, "f32"], **_TYPED)
        yield from _unary(name, ["f"])
    for name in ("round", "trunc", "round_even"):
        for column in [*_DECIMALS, "f", "f32", "i8", "i32", "i64", "u8", "u64"]:
            if name == "round_even" and column.startswith("p"):
                continue
            for digits in (-40, -20, -3, -1, 0, 1, 3, 12):
                # Beyond all digits of a decimal DuckDB gives 0 for NULL.
                if column in _DECIMALS and -digits > _DECIMALS[column][0] - _DECIMALS[column][1] - (
                    name == "trunc"
                ):
                    continue
                yield case(
                    f"{name}({column}, {digits})",
                    lambda c, x=(name, column, digits): call(x[0], c(x[1]), x[2]),
                    **_TYPED,
                )
        for column in ("f", "i16", "i64"):
            yield case(
                f"{name}({column}, digits)",
                lambda c, x=(name, column): call(x[0], c(x[1]), c("digits")),
                **_TYPED,
            )
    yield from _unary("even", ["f", "i32", "p9"])


#: Library functions are right to about a unit in the last place, on either side.
_CLOSE = {"tolerance": 4e-15}


def _floats() -> Iterator[Any]:
    for name in (
        *(
            "sqrt",
            "cbrt",
            "exp",
            "ln",
            "log",
            "log10",
            "log2",
            "sin",
            "cos",
            "tan",
            "asin",
            "acos",
            "atan",
            "sinh",
            "cosh",
        ),
        *("tanh", "asinh", "acosh", "atanh", "degrees", "radians"),
    ):
        yield from _unary(name, ["f", "i32", "p9", "u64", "f32"], **_CLOSE, **_TYPED)
    for name in ("pow", "power", "atan2", "fmod", "fdiv", "log", "nextafter"):
        yield case(f"{name}(f, g)", lambda c, name=name: call(name, c("f"), c("g")), tolerance=1e-13)
        yield case(f"{name}(g, h)", lambda c, name=name: call(name, c("g"), c("h")), tolerance=1e-13)
        yield case(
            f"{name}(f, i8)",
            lambda c, name=name: call(name, c("f"), c("i8")),
            tolerance=1e-13,
            constants=False,
        )
    yield case("pi()", lambda c: call("pi"))
    for name in ("isnan", "isfinite", "isinf"):
        yield from _unary(name, ["f", "f32", "i32"], **_TYPED)


def _whole() -> Iterator[Any]:
    pairs = [
        ("i8", "small"),
        ("i16", "i8"),
        ("i32", "i16"),
        ("i64", "i32"),
        ("u8", "u16"),
        ("u64", "i64"),
        ("u8", "i8"),
        ("u32", "i32"),
        ("i64", "u16"),
    ]
    for name in ("gcd", "lcm"):
        for a, b in pairs:
            if (name, a) == ("lcm", "u64"):
                continue  # of 39 digits, which Arrow has no type for
            yield case(f"{name}({a}, {b})", lambda c, x=(name, a, b): call(x[0], c(x[1]), c(x[2])), **_TYPED)
    for name, sign in (("bit_and", "&"), ("bit_or", "|"), ("xor", None), ("<<", "<<"), (">>", ">>")):
        for a, b in [*pairs, ("i32", "up"), ("u32", "up"), ("i8", "i8")]:
            sql = f"{a} {sign} {b}" if sign else f"xor({a}, {b})"
            yield case(sql, lambda c, x=(name, a, b): call(x[0], c(x[1]), c(x[2])), **_TYPED)
    yield from _unary("bit_count", _INTEGERS, **_TYPED)
    yield from _unary("factorial", ["i8", "up"], **_TYPED)
    for column in _INTEGERS:
        yield case(f"~{column}", lambda c, x=column: call("bit_not", c(x)), **_TYPED)
    for a, b in [*pairs, ("p9", "p3"), ("p18", "i32"), ("f", "g"), ("p28", "p18"), ("f32", "i8")]:
        yield case(f"mod({a}, {b})", lambda c, x=(a, b): call("mod", c(x[0]), c(x[1])), **_TYPED)


def _division() -> Iterator[Any]:
    """`//`, `%` and `/` of decimals and floats, and of both with integers."""
    sides = ("p3", "p9", "p18", "p28", "f", "f32", "i32", "u8")
    for a in sides:
        for b in sides:
            if {a, b} <= {"i32", "u8"}:
                continue
            yield case(f"{a} // {b}", lambda c, x=(a, b): c(x[0]) // c(x[1]), **_TYPED)
            yield case(f"{a} / {b}", lambda c, x=(a, b): c(x[0]) / c(x[1]), **_TYPED)
            yield case(f"{a} % {b}", lambda c, x=(a, b): c(x[0]) % c(x[1]), **_TYPED)


@pytest.mark.parametrize("given", [*_rounded(), *_floats(), *_whole(), *_division()])
def test_function(oracle: Oracle, given: Case) -> None:
    oracle.check(given)


# ---- what has no oracle ----


def one(expression: Any) -> Any:
    return QueryMode.from_json([{"one": 1}]).select(expression.alias("x")).rows[0]["x"]


def test_methods_are_the_functions() -> None:
    x = lit(2.25)
    for name in (
        *(
            "abs",
            "sign",
            "round",
            "trunc",
            "floor",
            "ceil",
            "sqrt",
            "cbrt",
            "exp",
            "ln",
            "log10",
            "log2",
            "sin",
            "cos",
            "tan",
        ),
        *("atan", "sinh", "cosh", "tanh", "degrees", "radians"),
    ):
        assert one(getattr(x, name)()) == one(call(name, 2.25)), name
    assert one(lit(0.5).asin()) == one(call("asin", 0.5))
    assert one(lit(0.5).acos()) == one(call("acos", 0.5))
    assert (one(x.is_nan()), one(x.is_finite()), one(x.is_infinite())) == (False, True, False)
    assert one(abs(lit(-3))) == 3
    assert one(x.round(1)) == 2.3
    assert (one(x**2), one(2 ** lit(3)), one(x.pow(0.5))) == (5.0625, 8.0, 1.5)
    six = lit(6)
    assert (one(six << 2), one(six >> 1), one(six.bit_and(3)), one(six.bit_or(1)), one(six.bit_xor(3))) == (
        24,
        3,
        2,
        7,
        5,
    )
    assert (one(six.bit_not()), one(six.bit_count())) == (-7, 2)


def test_decimals_stay_exact() -> None:
    assert one(lit(Decimal("2.675")).round(2)) == Decimal("2.68")
    assert one(lit(Decimal("99999.995")).round(2)) == Decimal("100000.00")
    assert one(lit(Decimal("95")).round(-1)) == 100
    assert one(lit(Decimal("-1.5")).floor()) == -2
    assert one(lit(Decimal("-1.5")).ceil()) == -1


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        (call("abs", "x"), "INVALID_FILTER"),
        (call("abs", True), "INVALID_FILTER"),
        (call("sqrt", "4"), "INVALID_FILTER"),
        (call("round", 1.5, 1.5), "INVALID_FILTER"),
        (call("round", 1, 2, 3), "INVALID_FILTER"),
        (call("round", Decimal("1.5"), col("one")), "NOT_SUPPORTED"),
        (call("gcd", 1.5, 2), "INVALID_FILTER"),
        (call("bit_and", 1.5, 2), "INVALID_FILTER"),
        (call("bit_not", 1.5), "INVALID_FILTER"),
        (call("pi", 1), "INVALID_FILTER"),
        (call("factorial", 34), "QUERY_FAILED"),
        (call("abs", -(1 << 63)), "QUERY_FAILED"),
        (lit(1) << 63, "QUERY_FAILED"),
    ],
)
def test_refusals(expression: Any, code: str) -> None:
    with raises_code(code):
        one(expression)
