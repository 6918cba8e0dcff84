"""Aggregates: what they take, what they return, what lanes exchange, and how the engine is told.

The engine's side of the same rules is wasm/src/plan/aggregate_parser.zig. Types are settled here: a variance
is of float64, a median of integers is a float64, so the argument is cast before the engine sees it.

    count                                    int64
    sum                                      total: int128, float64 or decimal(38, s)
    avg                                      total, int64
    stddev_…, var_…                          int64, float64, float64
    min, max, any_value, bool_and, bool_or   value
    first, last                              value, bool
    string_agg                               utf8

are the states that a partial aggregate hands to its final one. Medians, percentiles and DISTINCT have none:
they need all rows of a group in one place.
"""

from __future__ import annotations

from querymode._abi import (
    AGGREGATE_DISTINCT,
    AGGREGATE_FILTERED,
    AggregateOp,
    AggregatePhase,
    ExpressionTag,
    NodeTag,
    TypeTag,
)
from querymode.errors import error
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
    from collections.abc import Sequence

    from querymode.errors import QueryModeError
    from querymode.expr.nodes import Aggregate
    from querymode.schema import Schema
    from querymode.types import DataType

_COUNTS = (AggregateOp.COUNT_ROWS, AggregateOp.COUNT)
_VARIANCES = (AggregateOp.STDDEV_SAMP, AggregateOp.STDDEV_POP, AggregateOp.VAR_SAMP, AggregateOp.VAR_POP)
_PERCENTILES = (AggregateOp.PERCENTILE_CONT, AggregateOp.PERCENTILE_DISC)
_PICKS = (AggregateOp.FIRST, AggregateOp.LAST, AggregateOp.ANY_VALUE)
_BOOLS = (AggregateOp.BOOL_AND, AggregateOp.BOOL_OR)
#: A value that comes twice changes nothing here, so DISTINCT does not either.
_WITHOUT_REPEATS = (*_PICKS, *_BOOLS, AggregateOp.MIN, AggregateOp.MAX)
#: Digits behind the point of a fraction that the engine counts with exactly.
_FRACTION_DIGITS = 18


def is_splittable(call: Aggregate) -> bool:
    """Whether lanes may each do a part of it."""
    if call.is_distinct and call.op not in _WITHOUT_REPEATS:
        return False
    return call.op != AggregateOp.MEDIAN and call.op not in _PERCENTILES


def depends_on_order(call: Aggregate) -> bool:
    """Whether the rows' order shows in the answer."""
    return call.op in _PICKS or call.op == AggregateOp.STRING_AGG


def result_type(call: Aggregate, argument: DataType) -> DataType:
    """What it gives for a value of that type. Refuses what it is not defined for."""
    taken = argument_type(call, argument)
    op = call.op
    if op in _COUNTS:
        return INT64
    if op == AggregateOp.SUM:
        return _total_type(call, taken)
    if op == AggregateOp.AVG:
        _total_type(call, taken)
        return FLOAT64
    return FLOAT64 if op in _VARIANCES else taken


def state_types(call: Aggregate, argument: DataType) -> list[DataType]:
    """The columns that a partial aggregate hands to its final one."""
    taken = argument_type(call, argument)
    op = call.op
    if op in _COUNTS:
        return [INT64]
    if op in (AggregateOp.SUM, AggregateOp.AVG):
        return [_total_type(call, taken)] + [INT64] * (op == AggregateOp.AVG)
    if op in _VARIANCES:
        return [INT64, FLOAT64, FLOAT64]
    return [taken, BOOL] if op in (AggregateOp.FIRST, AggregateOp.LAST) else [taken]


def argument_type(call: Aggregate, argument: DataType) -> DataType:
    """What its value is cast to before the engine aggregates it."""
    argument = aggregate_argument(argument)
    op = call.op
    if op in _COUNTS or op in _PICKS:
        return argument
    if op in (AggregateOp.SUM, AggregateOp.AVG):
        _total_type(call, argument)
        return argument
    if op in _VARIANCES and is_numeric(argument):
        return FLOAT64
    if op in (AggregateOp.MIN, AggregateOp.MAX, AggregateOp.PERCENTILE_DISC) and _has_order(argument):
        return argument
    if op in _BOOLS and argument == BOOL:
        return argument
    if op in (AggregateOp.MEDIAN, AggregateOp.PERCENTILE_CONT):
        found = _between_type(call, argument)
        if found is not None:
            return found
    if op == AggregateOp.STRING_AGG and not is_nested(argument) and not is_vector(argument):
        return UTF8
    raise _undefined(call, argument)


def _total_type(call: Aggregate, argument: DataType) -> DataType:
    if is_integer(argument) or (argument == BOOL and call.op == AggregateOp.SUM):
        return INT128
    if is_float(argument):
        return FLOAT64
    if is_decimal(argument):
        return decimal(38, argument.scale)
    raise _undefined(call, argument)


def _between_type(call: Aggregate, argument: DataType) -> DataType | None:
    """Of a value that may lie between two others; a median of what has none is the lower one."""
    is_median = call.op == AggregateOp.MEDIAN
    if is_integer(argument):
        return FLOAT64
    if argument.tag == TypeTag.F16:
        return FLOAT32
    if is_float(argument) or is_decimal(argument) or argument.tag == TypeTag.TIME:
        return argument
    if argument.tag == TypeTag.DATE:
        return timestamp()
    if argument.tag == TypeTag.TIMESTAMP:
        return argument if is_median else timestamp(zone=argument.zone)
    discrete = (TypeTag.BOOL, TypeTag.UTF8, TypeTag.BINARY, TypeTag.FIXED_BINARY)
    return argument if is_median and argument.tag in discrete else None


def _has_order(data_type: DataType) -> bool:
    return not (is_nested(data_type) or is_vector(data_type))


def _undefined(call: Aggregate, argument: DataType) -> QueryModeError:
    return error(
        "INVALID_AGGREGATE",
        f"{AGGREGATE_NAMES[call.op]} is not defined for {argument}, the type of {call.value}",
    )


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
        self._value: list[bytes] = []
        if call.value is not None:
            self._value.append(bind_as(call.value, schema, argument_type(call, argument)).wire)
        self._constants = _constants(call)
        self._where = b"" if call.where is None else bind_predicate(call.where, schema).wire
        if call.is_distinct and _has_no_key(argument) and call.op not in _WITHOUT_REPEATS:
            raise error("NOT_SUPPORTED", f"{call}: DISTINCT of {argument} is not supported yet")

    def encoded(self, name: bytes) -> bytes:
        """For a complete or partial aggregate. `name` is in its wire form."""
        return _encode(self._op, self._flags, name, [*self._value, *self._constants]) + self._where

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
    takes = 1 if call.op in _PERCENTILES or call.op == AggregateOp.STRING_AGG else 0
    name = AGGREGATE_NAMES[call.op]
    if len(call.extra) != takes:
        raise error("INVALID_AGGREGATE", f"{name} takes {takes + 1} arguments, not {len(call.extra) + 1}")
    if not takes:
        return []
    (given,) = call.extra
    if not isinstance(given, Literal):
        raise error("INVALID_AGGREGATE", f"{name} takes a constant beside its column, not {given}")
    return [_separator(given.value) if call.op == AggregateOp.STRING_AGG else _fraction(name, given.value)]


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
