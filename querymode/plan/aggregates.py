"""Aggregates: which types they take and return, what lanes exchange, and how the engine is told.

Each has a row in aggregate_rules.py. Types are settled here: a variance is of float64, a median of integers
is a float64, so the argument is cast before the engine sees it.
"""

from __future__ import annotations

from querymode._abi import (
    AGGREGATE_DISTINCT,
    AGGREGATE_FILTERED,
    AggregatePhase,
    ExpressionTag,
    NodeTag,
    TypeTag,
)
from querymode.errors import error
from querymode.expr.aggregate_rules import RULES
from querymode.expr.literals import encode_text, encode_value
from querymode.expr.nodes import AGGREGATE_NAMES, Literal
from querymode.plan.bind import aggregate_argument, bind, bind_as, bind_predicate
from querymode.types import (
    BOOL,
    FLOAT32,
    FLOAT64,
    INT64,
    INT128,
    NULL,
    UTF8,
    decimal,
    is_decimal,
    is_float,
    is_integer,
    is_nested,
    is_numeric,
    is_vector,
    timestamp,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from querymode._abi import AggregateOp
    from querymode.expr.nodes import Aggregate
    from querymode.plan.bind import Bound
    from querymode.schema import Schema
    from querymode.types import DataType

#: Digits behind the point of a fraction that the engine counts with exactly.
_FRACTION_DIGITS = 18


def is_splittable(call: Aggregate) -> bool:
    """Whether lanes may each do a part of it."""
    rule = RULES[call.op]
    return rule.splits and not (call.is_distinct and rule.counts_repeats)


def depends_on_order(call: Aggregate) -> bool:
    """Whether the rows' order shows in the answer."""
    return RULES[call.op].shows_order


def result_type(call: Aggregate, argument: DataType) -> DataType:
    """What it gives for a value of that type. Refuses what it is not defined for."""
    return _type_of(RULES[call.op].gives, argument_type(call, argument))


def state_types(call: Aggregate, argument: DataType) -> list[DataType]:
    """The columns that a partial aggregate hands to its final one."""
    taken = argument_type(call, argument)
    return [_type_of(state, taken) for state in RULES[call.op].states]


def argument_type(call: Aggregate, argument: DataType) -> DataType:
    """What its value is cast to before the engine aggregates it."""
    argument = aggregate_argument(argument)
    taken = _TAKEN[RULES[call.op].takes](argument)
    if taken is None:
        raise error(
            "INVALID_AGGREGATE",
            f"{AGGREGATE_NAMES[call.op]} is not defined for {argument}, the type of {call.value}",
        )
    return taken


def _type_of(column: str, taken: DataType) -> DataType:
    """An answer's, or a state's, for a value of that type."""
    if column == "value":
        return taken
    if column == "total":
        return _total_type(taken)
    return _FIXED[column]


_FIXED = {"count": INT64, "float64": FLOAT64, "mean": FLOAT64, "squares": FLOAT64, "present": BOOL}


def _total_type(taken: DataType) -> DataType:
    if is_float(taken):
        return FLOAT64
    return decimal(38, taken.scale) if is_decimal(taken) else INT128


# What each kind of aggregate makes of a type; None where it is not defined for it.


def _as_it_is(argument: DataType) -> DataType | None:
    return argument


def _number(argument: DataType) -> DataType | None:
    return argument if is_integer(argument) or is_float(argument) or is_decimal(argument) else None


def _summable(argument: DataType) -> DataType | None:
    return argument if argument == BOOL else _number(argument)


def _float64(argument: DataType) -> DataType | None:
    return FLOAT64 if is_numeric(argument) else None


def _ordered(argument: DataType) -> DataType | None:
    return None if _has_no_key(argument) else argument


def _bool(argument: DataType) -> DataType | None:
    return argument if argument == BOOL else None


def _text(argument: DataType) -> DataType | None:
    return None if _has_no_key(argument) else UTF8


def _continuous(argument: DataType) -> DataType | None:
    """Of a value that may lie between two others."""
    if is_integer(argument):
        return FLOAT64
    if argument.tag == TypeTag.F16:
        return FLOAT32
    if is_float(argument) or is_decimal(argument) or argument.tag == TypeTag.TIME:
        return argument
    if argument.tag == TypeTag.DATE:
        return timestamp()
    return timestamp(zone=argument.zone) if argument.tag == TypeTag.TIMESTAMP else None


def _median(argument: DataType) -> DataType | None:
    """The same; of what has no value between two others it is the lower one."""
    discrete = (TypeTag.BOOL, TypeTag.UTF8, TypeTag.BINARY, TypeTag.FIXED_BINARY)
    return argument if argument.tag in (*discrete, TypeTag.TIMESTAMP) else _continuous(argument)


_TAKEN: dict[str, Callable[[DataType], DataType | None]] = {
    "nothing": _as_it_is,
    "anything": _as_it_is,
    "summable": _summable,
    "numbers": _number,
    "float64": _float64,
    "ordered": _ordered,
    "bools": _bool,
    "text": _text,
    "continuous": _continuous,
    "median": _median,
}


# ---- for the engine ----


class BoundCall:
    """A call over a schema: its wire form, its type and its states."""

    __slots__ = ("_constants", "_flags", "_op", "_value", "_where", "states", "type")

    def __init__(self, call: Aggregate, schema: Schema) -> None:
        argument = NULL if call.value is None else bind(call.value, schema).type
        self.type = result_type(call, argument)
        self.states = state_types(call, argument)
        self._op = call.op
        self._flags = AGGREGATE_DISTINCT if call.is_distinct else 0
        if call.where is not None:
            self._flags |= AGGREGATE_FILTERED
        self._value: list[Bound] = []
        if call.value is not None:
            self._value.append(bind_as(call.value, schema, argument_type(call, argument)))
        self._constants = _constants(call)
        self._where = None if call.where is None else bind_predicate(call.where, schema)
        if call.is_distinct and _has_no_key(argument) and RULES[call.op].counts_repeats:
            raise error("NOT_SUPPORTED", f"{call}: DISTINCT of {argument} is not supported yet")

    def encoded(self, name: bytes) -> bytes:
        """For a complete or partial aggregate. `name` is in its wire form."""
        arguments = [*[value.wire for value in self._value], *self._constants]
        where = b"" if self._where is None else self._where.wire
        return _encode(self._op, self._flags, name, arguments) + where

    def encoded_final(self, name: bytes, position: int) -> bytes:
        """For a final aggregate, over states that begin with column `position`."""
        columns = [
            bytes((ExpressionTag.COLUMN,)) + (position + place).to_bytes(2, "little")
            for place in range(len(self.states))
        ]
        return _encode(self._op, 0, name, [*columns, *self._constants])


def encode_aggregate(
    phase: AggregatePhase, keys: Sequence[bytes], calls: Sequence[bytes], group_limit: int = 0
) -> bytes:
    """An aggregate step."""
    head = bytes((NodeTag.AGGREGATE, phase)) + group_limit.to_bytes(4, "little")
    wire = head + len(keys).to_bytes(2, "little") + b"".join(keys)
    return wire + len(calls).to_bytes(2, "little") + b"".join(calls)


def _encode(op: AggregateOp, flags: int, name: bytes, arguments: Sequence[bytes]) -> bytes:
    return bytes((op, flags)) + name + bytes((len(arguments),)) + b"".join(arguments)


def _has_no_key(data_type: DataType) -> bool:
    return is_nested(data_type) or is_vector(data_type)


def _constants(call: Aggregate) -> list[bytes]:
    """A percentile's fraction, a separator."""
    kind = RULES[call.op].constant
    takes = 0 if kind == "none" else 1
    name = AGGREGATE_NAMES[call.op]
    if len(call.extra) != takes:
        raise error("INVALID_AGGREGATE", f"{name} takes {takes + 1} arguments, not {len(call.extra) + 1}")
    if not takes:
        return []
    (given,) = call.extra
    if not isinstance(given, Literal):
        raise error("INVALID_AGGREGATE", f"{name} takes a constant beside its column, not {given}")
    return [_separator(given.value) if kind == "separator" else _fraction(name, given.value)]


def _separator(given: object) -> bytes:
    if not isinstance(given, str | None):
        raise error("INVALID_AGGREGATE", f"string_agg takes a separator (str), not {given!r}")
    stored = None if given is None else encode_text(given)
    return bytes((ExpressionTag.LITERAL,)) + encode_value(stored, UTF8)


def _fraction(name: str, given: object) -> bytes:
    from decimal import Decimal

    if not isinstance(given, int | float | Decimal) or isinstance(given, bool) or not -1 <= given <= 1:
        raise error("INVALID_AGGREGATE", f"{name} takes a fraction from 0 to 1, not {given!r}")
    # As it was written: 0.07 of 100 values are 7 of them, which binary fractions would miss.
    exact = given if isinstance(given, Decimal) else Decimal(repr(given))
    scale = max(0, -int(exact.as_tuple().exponent))
    if scale <= _FRACTION_DIGITS:
        data_type, stored = decimal(_FRACTION_DIGITS, scale), int(exact.scaleb(scale))
        return bytes((ExpressionTag.LITERAL,)) + encode_value(stored, data_type)
    return bytes((ExpressionTag.LITERAL,)) + encode_value(float(given), FLOAT64)
