"""Calls of all functions for grow.py: mostly as the planner would write them, some as it never would.

The planner's own rules choose the casts and the result's type, so calls get past the parser; arguments are
of any type that the rules take. Raw calls have any function's number over anything, for the parser to judge.
"""

from __future__ import annotations

from random import Random

from querymode._abi import ArithmeticOp, FunctionId, TypeTag
from querymode.errors import QueryModeError
from querymode.plan.bind import Bound, constant_of
from querymode.plan.functions import time as functions_time
from querymode.plan.functions.number import NUMBER_FUNCTIONS
from querymode.plan.functions.rules import GENERAL_FUNCTIONS, TEXT_FUNCTIONS, Rule, bound_call
from querymode.plan.functions.table import FUNCTIONS
from querymode.plan.functions.time import PARTS, TIME_FUNCTIONS
from querymode.types import INT64, INTERVAL, UTF8, DataType, decimal, time, timestamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    #: Wire bytes of any expression of a type.
    Expression = Callable[[DataType], bytes]

_INTEGERS = [DataType(tag) for tag in (TypeTag.I8, TypeTag.I32, TypeTag.I64, TypeTag.U8, TypeTag.U64)]
_REALS = [
    DataType(TypeTag.F64),
    DataType(TypeTag.F32),
    decimal(9, 2),
    decimal(38, 10),
    DataType(TypeTag.I128),
]
_MOMENTS = [
    DataType(TypeTag.DATE),
    DataType(TypeTag.INTERVAL),
    *(timestamp(unit) for unit in range(4)),
    timestamp(2, "UTC"),
    *(time(unit) for unit in range(4)),
]
_TEXTS = [UTF8, UTF8, UTF8, DataType(TypeTag.BINARY)]
#: What the functions of a family take, for the most part.
_FAMILIES = (
    (TEXT_FUNCTIONS, [*_TEXTS, *_INTEGERS]),
    (GENERAL_FUNCTIONS, [*_TEXTS, *_INTEGERS, *_REALS, *_MOMENTS]),
    (NUMBER_FUNCTIONS, [*_INTEGERS, *_REALS, *_REALS]),
    (TIME_FUNCTIONS, [*_MOMENTS, *_MOMENTS, *_INTEGERS, DataType(TypeTag.F64), UTF8]),
)
_FORMATS = (
    "%Y-%m-%d", "%d.%m.%y %H:%M:%S.%f", "%A %B %j %%", "%-I %p %z", "%Z", "%c %x %X", "%g", "%n",
    "%U %W %u %w",
    "%", "%Q", "", "ä%Yö",
)  # fmt: skip
_NUMBERS = (0, 1, -1, 2, 7, 40, 1000, -(1 << 63), (1 << 63) - 1)


_FUNCTIONS = [number for name, number in vars(FunctionId).items() if name.isupper()]


class CallGrower:
    def __init__(self, random: Random, expression: Expression) -> None:
        self.random = random
        self.expression = expression

    def call(self) -> Bound:
        """Some call, or a literal where none of the tries were taken by the rules."""
        for _ in range(8):
            try:
                return self._time_arithmetic() if self.random.random() < 0.15 else self._named()
            except QueryModeError:
                continue
        return self._literal()

    def raw(self, result: DataType) -> bytes:
        """Any function, of anything."""
        arguments = [
            self._argument(self.random.choice(_FAMILIES)[1]) for _ in range(self.random.randrange(5))
        ]
        return bound_call("any", self.random.choice(_FUNCTIONS), result, arguments).wire

    def _named(self) -> Bound:
        family, types = self.random.choice(_FAMILIES)
        name = self.random.choice(self.random.choice(list(family)))
        rule = FUNCTIONS[name]
        if isinstance(rule, Rule):
            count = len(rule.parameters) - self.random.randrange(rule.optional + 1)
            count += self.random.randrange(4) * rule.repeats
        else:
            count = self.random.choice((1, 1, 2, 2, 3, 6))
        return rule(name, [self._argument(types) for _ in range(count)])

    def _time_arithmetic(self) -> Bound:
        ops = (ArithmeticOp.ADD, ArithmeticOp.SUBTRACT, ArithmeticOp.MULTIPLY, ArithmeticOp.DIVIDE)
        if self.random.random() < 0.1:
            return functions_time.negated(Bound(INTERVAL, self.expression(INTERVAL), ""), "-")
        sides = self._argument(_MOMENTS), self._argument(_FAMILIES[-1][1])
        return functions_time.arithmetic(self.random.choice(ops), *sides, "")

    def _argument(self, types: list[DataType]) -> Bound:
        if self.random.random() < 0.3:
            return self._literal()
        data_type = self.random.choice(types)
        return Bound(data_type, self.expression(data_type), "")

    def _literal(self) -> Bound:
        """A constant that the planner can see: names of parts, formats, counts."""
        chosen = self.random.randrange(4)
        if chosen == 0:
            number = self.random.choice(_NUMBERS)
            return constant_of(number, number, INT64, "")
        text = self.random.choice((*PARTS,) if chosen == 1 else _FORMATS)
        return constant_of(text, text.encode(), UTF8, "")
