"""Expressions and constants as JSON, and back: see plan/descriptor.py for what they look like.

[kind, part, …]     parts in the order of the class's arguments; FORMS says what each of them is
"""

from __future__ import annotations

from querymode._abi import EXPRESSION_DEPTH_MAX, AggregateOp, ArithmeticOp, CompareOp
from querymode._call import check
from querymode.errors import QueryModeError, error
from querymode.expr.intervals import Interval
from querymode.expr.literals import plain
from querymode.expr.nodes import (
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
    in_values,
)
from querymode.expr.trees import all_of, claim_written, conjuncts, disjuncts
from querymode.types import DataType, parse_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from enum import IntEnum
    from typing import Any

    from querymode.expr.value_list import ValueList

    Encode = Callable[[Any], Any]
    Decode = Callable[[Any, int], Any]

_DEPTH_MAX = EXPRESSION_DEPTH_MAX // 2


def _malformed(wanted: str, found: object) -> QueryModeError:
    from querymode.plan.descriptor import malformed

    return malformed(wanted, found)


# ---- constants ----


def encode_constant(value: object) -> Any:
    """A Python value as JSON."""
    kind = type(value)
    if kind in (int, str, bool) or value is None:
        return value
    if kind is float:
        return value if value - value == 0 else {"float": repr(value)}  # type: ignore[operator]
    return _encode_other(plain(value))


def _encode_other(value: object) -> Any:
    import datetime as dt
    from decimal import Decimal
    from uuid import UUID

    if isinstance(value, (bool, int, float, str)):
        base = next(base for base in (bool, int, float, str) if isinstance(value, base))
        return encode_constant(base(value))
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"bytes": bytes(value).hex()}
    if isinstance(value, Interval):
        return {"interval": list(value)}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, dt.datetime):
        return {"timestamp": value.isoformat()}
    if isinstance(value, dt.timedelta):
        return {"timedelta": [value.days, value.seconds, value.microseconds]}
    if isinstance(value, (dt.date, dt.time)):
        return {"date" if isinstance(value, dt.date) else "time": value.isoformat()}
    if isinstance(value, UUID):
        return {"uuid": str(value)}
    raise error("NOT_SUPPORTED", f"a constant of type {type(value).__name__} cannot be written down")


def decode_constant(given: Any) -> Literal:
    if not isinstance(given, dict):
        return Literal(_decode_plain(given))
    if "value" in given:
        fixed = _decode_flag(given.get("fixed", False), 0)
        return Literal(decode_constant(given["value"]).value, _decode_type(given.get("type"), 0), fixed)
    if len(given) == 1:
        ((kind, said),) = given.items()
        decode = _CONSTANTS.get(kind)
        if decode is not None:
            try:
                return Literal(decode(said))
            except (TypeError, ValueError, ArithmeticError, OverflowError):
                raise _malformed(f"a {kind} is written otherwise", said) from None
    raise _malformed("a constant has one of the known kinds", ", ".join(map(str, given)))


def _decode_plain(given: object) -> object:
    if isinstance(given, (list, dict)):
        raise _malformed("a constant is no list", given)
    return given


def _float(said: str) -> float:
    if said not in ("nan", "inf", "-inf"):
        raise ValueError(said)
    return float(said)


def _interval(said: list[int]) -> Interval:
    from querymode.expr.intervals import fits

    months, days, nanoseconds = said
    if not all(type(part) is int for part in said) or not fits(months, days, nanoseconds):
        raise ValueError(said)
    return Interval(months, days, nanoseconds)


def _decimal(said: str) -> object:
    from decimal import Decimal

    if not isinstance(said, str):
        raise TypeError(said)
    return Decimal(said)


def _timestamp(said: str) -> object:
    import datetime as dt

    return dt.datetime.fromisoformat(said)


def _date(said: str) -> object:
    import datetime as dt

    return dt.date.fromisoformat(said)


def _time(said: str) -> object:
    import datetime as dt

    return dt.time.fromisoformat(said)


def _timedelta(said: list[int]) -> object:
    import datetime as dt

    days, seconds, microseconds = said
    return dt.timedelta(days, seconds, microseconds)


def _uuid(said: str) -> object:
    from uuid import UUID

    return UUID(said)


_CONSTANTS: dict[str, Callable[[Any], object]] = {
    "float": _float,
    "bytes": bytes.fromhex,
    "interval": _interval,
    "decimal": _decimal,
    "timestamp": _timestamp,
    "date": _date,
    "time": _time,
    "timedelta": _timedelta,
    "uuid": _uuid,
}


# ---- parts of expressions ----


def _encode_literal(node: Literal) -> Any:
    said = encode_constant(node.value)
    if node.type is None:
        return said
    return {"value": said, "type": str(node.type), **({"fixed": True} if node.fixed else {})}


_types: dict[str, DataType] = {}


def _decode_type(given: Any, depth: int) -> DataType:
    if not isinstance(given, str):
        raise _malformed("a type is a text", given)
    found = _types.get(given)
    if found is None:
        found = parse_type(given)
        if len(_types) < 1024:
            _types[given] = found
    return found


def _decode_text(given: Any, depth: int) -> str:
    if not isinstance(given, str):
        raise _malformed("a name or pattern is a text", given)
    return given


def _decode_optional_text(given: Any, depth: int) -> str | None:
    return None if given is None else _decode_text(given, depth)


def _decode_flag(given: Any, depth: int) -> bool:
    if not isinstance(given, bool):
        raise _malformed("a flag is true or false", given)
    return given


def _decode_list(given: Any, depth: int) -> tuple[Expr, ...]:
    if not isinstance(given, list):
        raise _malformed("operands are a list", given)
    return tuple([_decode(item, depth) for item in given])


def _encode_list(items: tuple[Expr, ...]) -> list[Any]:
    return [_encode(item) for item in items]


def _encode_values(items: Iterable[object]) -> list[Any]:
    return [_encode(item) if isinstance(item, Expr) else encode_constant(item) for item in items]


def _decode_values(given: Any, depth: int) -> tuple[object, ...] | ValueList:
    """Constants stand for themselves in a list."""
    if isinstance(given, list) and not {list, dict} & set(map(type, given)):
        return in_values(given)
    found = _decode_list(given, depth)
    return in_values(
        [item.value if isinstance(item, Literal) and item.type is None else item for item in found]
    )


def _same(value: Any) -> Any:
    return value


def _word(kind: type[IntEnum]) -> tuple[Encode, Decode]:
    by_name = {member.name.lower(): member for member in kind}

    def decode(given: Any, depth: int) -> IntEnum:
        if not isinstance(given, str) or given not in by_name:
            raise _malformed(f"an operator is one of {', '.join(by_name)}", given)
        return by_name[given]

    return (lambda value: kind(value).name.lower()), decode


# ---- expressions ----


def encode_expression(node: Expr) -> Any:
    """As JSON, which has no way to say one part in several places."""
    claim_written(node)
    return _encode(node)


def _encode(node: Expr) -> Any:
    check()
    form = _FORMS.get(type(node))
    if form is not None:
        kind, parts = form
        return [kind, *[encode(getattr(node, name)) for name, encode, _ in parts]]
    return _SPECIAL[type(node)](node)


def _encode_terms(kind: str, terms: list[Expr]) -> Any:
    return _encode(terms[0]) if len(terms) == 1 else [kind, *map(_encode, terms)]


def _encode_aggregate(node: Aggregate) -> list[Any]:
    options: dict[str, Any] = {}
    if node.extra:
        options["extra"] = _encode_list(node.extra)
    if node.is_distinct:
        options["distinct"] = True
    if node.where is not None:
        options["where"] = _encode(node.where)
    value = [] if node.value is None else [_encode(node.value)]
    return ["aggregate", AggregateOp(node.op).name.lower(), value, options]


#: Classes that are not written as their parts in order.
_SPECIAL: dict[type[Expr], Encode] = {
    Literal: _encode_literal,
    Alias: lambda node: _encode(node.value),
    And: lambda node: _encode_terms("and", conjuncts(node)),
    Or: lambda node: _encode_terms("or", disjuncts(node)),
    Aggregate: _encode_aggregate,
}


def decode_expression(given: Any) -> Expr:
    return _decode(given, 0)


def _decode(given: Any, depth: int) -> Expr:
    if not isinstance(given, list):
        return decode_constant(given)
    check()
    if depth >= _DEPTH_MAX:
        raise error("NOT_SUPPORTED", f"an expression of the descriptor is nested deeper than {_DEPTH_MAX}")
    if not given or not isinstance(given[0], str):
        raise _malformed("an expression begins with its kind", given[0] if given else given)
    kind = given[0]
    rule = _RULES.get(kind)
    if rule is not None:
        return rule(given, depth + 1)
    form = _KINDS.get(kind)
    if form is None:
        raise error("NOT_SUPPORTED", f"the descriptor has an expression {kind!r}, which is unknown")
    make, parts = form
    if len(given) != len(parts) + 1:
        raise _malformed(f"{kind} has {len(parts)} parts", len(given) - 1)
    return make(*[decode(item, depth + 1) for (_, _, decode), item in zip(parts, given[1:], strict=True)])


def _decode_and(given: list[Any], depth: int) -> Expr:
    return all_of(_terms(given, depth))


def _decode_or(given: list[Any], depth: int) -> Expr:
    terms = _terms(given, depth)
    return terms[0] if len(terms) == 1 else Or(terms)


def _terms(given: list[Any], depth: int) -> tuple[Expr, ...]:
    if len(given) < 2:
        raise _malformed("and, or have terms", given[0])
    return _decode_list(given[1:], depth)


_DECODE_AGGREGATE = _word(AggregateOp)[1]


def _decode_aggregate(given: list[Any], depth: int) -> Expr:
    if (
        len(given) != 4
        or not isinstance(given[2], list)
        or len(given[2]) > 1
        or not isinstance(given[3], dict)
    ):
        raise _malformed("an aggregate has an operator, its value and options", len(given) - 1)
    op = _DECODE_AGGREGATE(given[1], depth)
    value = _decode_list(given[2], depth)
    if bool(value) == (op == AggregateOp.COUNT_ROWS):
        raise _malformed("an aggregate has a value, unless it counts rows", given[1])
    options = given[3]
    where = options.get("where")
    return Aggregate(
        op,
        value[0] if value else None,
        _decode_list(options.get("extra", []), depth),
        distinct=_decode_flag(options.get("distinct", False), depth),
        where=None if "where" not in options else _decode(where, depth),
    )


_RULES: dict[str, Callable[[list[Any], int], Expr]] = {
    "and": _decode_and,
    "or": _decode_or,
    "aggregate": _decode_aggregate,
}

_Part = tuple[str, "Encode", "Decode"]


def _part(name: str, encode: Encode = _encode, decode: Decode = _decode) -> _Part:
    return name, encode, decode


def _listed(name: str) -> _Part:
    return _part(name, _encode_list, _decode_list)


def _text(name: str) -> _Part:
    return _part(name, _same, _decode_text)


def _flag(name: str) -> _Part:
    return _part(name, bool, _decode_flag)


#: Class → its kind, and its parts in the order of its arguments.
_FORMS: dict[type[Expr], tuple[str, tuple[_Part, ...]]] = {
    Column: ("col", (_text("name"),)),
    Compare: ("compare", (_part("op", *_word(CompareOp)), _part("left"), _part("right"))),
    Between: ("between", (_part("value"), _part("low"), _part("high"))),
    InList: ("in", (_part("value"), _part("values", _encode_values, _decode_values))),
    Like: (
        "like",
        (
            _part("value"),
            _text("pattern"),
            _part("escape", _same, _decode_optional_text),
            _flag("ignore_case"),
        ),
    ),
    IsNull: ("is_null", (_part("value"), _flag("negated"))),
    Not: ("not", (_part("value"),)),
    Arithmetic: ("arithmetic", (_part("op", *_word(ArithmeticOp)), _part("left"), _part("right"))),
    Negate: ("negate", (_part("value"),)),
    Cast: ("cast", (_part("value"), _part("target", str, _decode_type), _flag("attempt"))),
    Function: ("call", (_text("name"), _listed("arguments"))),
    Case: ("case", (_listed("conditions"), _listed("values"))),
    Coalesce: ("coalesce", (_listed("values"),)),
    Field: ("field", (_part("value"), _text("name"))),
}
_KINDS: dict[str, tuple[Callable[..., Expr], tuple[_Part, ...]]] = {
    kind: (form_class, parts) for form_class, (kind, parts) in _FORMS.items()
}
_FORMS[Then] = _FORMS[Case]
