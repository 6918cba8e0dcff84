"""The constants of a long IN list, in one piece.

A list may hold a million values. For everything that walks over expressions it is one part without operands;
what is asked of its values (do they fit a column's type, which are the least and the greatest, what are their
bytes in a plan) is found out once. Short lists are plain tuples.
"""

from __future__ import annotations

from querymode._abi import TypeTag
from querymode._call import check, claim
from querymode.expr.literals import encode_text, encode_value, fit, natural_type, plain
from querymode.types import (
    DECIMAL_PRECISION_MAX,
    UTF8,
    encode_type,
    is_decimal,
    is_integer,
    is_unsigned,
    value_size,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from decimal import Decimal
    from typing import Any

    from querymode.types import DataType

#: Bytes that a value takes in the list, in the plan and while the plan is read: measured, for short values.
_VALUE_SIZE = 128
#: What is as it is; anything else may be a value of numpy's or pyarrow's.
_PLAIN = frozenset((bool, int, float, str, bytes, type(None)))
_STRIDE = 4096
#: Integers up to here are exactly themselves as float64.
_EXACT_MAX = 1 << 53


class ValueList:
    """Frozen. `values` are those that are not NULL; `kinds` are their Python types."""

    __slots__ = ("_bounds", "_misfits", "_wire", "has_null", "kinds", "values")

    def __init__(self, values: Sequence[object], has_null: bool) -> None:
        self.values = tuple(values)
        self.has_null = has_null
        self.kinds = frozenset(map(type, self.values))
        self._misfits: dict[DataType, tuple[object, ...]] = {}
        self._wire: tuple[DataType, bytes] | None = None
        self._bounds: tuple[object, object] | bool | None = False

    @classmethod
    def of(cls, items: Sequence[object]) -> ValueList:
        """Constants; none of them is an expression."""
        claim_values(len(items))
        if not set(map(type, items)) <= _PLAIN:
            items = [plain(item) for item in items]
        present = [item for item in items if item is not None]
        return cls(present, len(present) != len(items))

    def __reduce__(self) -> tuple[Any, ...]:
        return ValueList, (self.values, self.has_null)

    def __len__(self) -> int:
        return len(self.values) + self.has_null

    def __iter__(self) -> Iterator[object]:
        yield from self.values
        if self.has_null:
            yield None

    def first(self, count: int) -> tuple[object, ...]:
        return (*self.values[:count], *(None,) * self.has_null)[:count]

    def first_of_kinds(self) -> list[object]:
        """The first value of each Python type, in their order."""
        found: dict[type, object] = {}
        for value in self.values:
            if type(value) not in found:
                found[type(value)] = value
                if len(found) == len(self.kinds):
                    break
        return list(found.values())

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, ValueList)
            and (self.has_null, self.kinds, self.values) == (other.has_null, other.kinds, other.values)
            # 1, 1.0 and True are equal for Python.
            and (len(self.kinds) == 1 or all(map(_same_kind, self.values, other.values)))
        )

    def __hash__(self) -> int:
        return hash((self.has_null, self.kinds, len(self.values), self.values[:8]))

    def __repr__(self) -> str:
        return f"<{len(self)} values: {', '.join(map(repr, self.first(3)))}, …>"

    def misfits(self, target: DataType) -> tuple[object, ...]:
        """Of the values that the type cannot hold exactly, the first of each natural type."""
        found = self._misfits.get(target)
        if found is None:
            found = self._misfits[target] = self._find_misfits(target)
        return found

    def _find_misfits(self, target: DataType) -> tuple[object, ...]:
        wire = _encoded_at_once(self.values, self.kinds, target)
        if wire is not None:
            self._wire = (target, wire)
            return ()
        found: dict[DataType, object] = {}
        seen: set[object] = set()
        for number, value in enumerate(self.values):
            if number % _STRIDE == 0:
                check()
            if fit(value, target) is None:
                form = _form(value)
                if form is None or form not in seen:
                    seen.add(form)
                    found.setdefault(natural_type(value), value)
        return tuple(found.values())

    def encoded(self, target: DataType, encode: Callable[[object], bytes]) -> bytes:
        """All values for a plan, one behind the other, as `encode` would write each."""
        if self._wire is None or self._wire[0] != target:
            wire = _encoded_at_once(self.values, self.kinds, target)
            self._wire = (target, b"".join(_checked(map(encode, self.values))) if wire is None else wire)
        return self._wire[1]

    def bounds(self) -> tuple[object, object] | None:
        """The least and the greatest value; None where some have no order, as NaN."""
        if isinstance(self._bounds, bool):
            self._bounds = self._find_bounds()
        return self._bounds

    def _find_bounds(self) -> tuple[Any, Any] | None:
        values: tuple[Any, ...] = self.values
        if not values or (float in self.kinds and any(value != value for value in values)):
            return None
        try:
            return min(values), max(values)
        except (TypeError, ArithmeticError):  # of different kinds, or a NaN of decimals
            return None


def claim_values(count: int) -> None:
    """Counts the memory that so many values of a list will take."""
    claim(count * _VALUE_SIZE, "a long list of values")


def _same_kind(a: object, b: object) -> bool:
    return type(a) is type(b)


def _form(value: Any) -> object:
    """What the natural type depends on, where that takes long to find; None: ask."""
    if type(value).__name__ != "Decimal" or not value.is_finite():
        return None
    _, digits, exponent = value.as_tuple()
    return len(digits), exponent


def _checked(pieces: Iterator[bytes]) -> Iterator[bytes]:
    for number, piece in enumerate(pieces):
        if number % _STRIDE == 0:
            check()
        yield piece


def _encoded_at_once(values: Sequence[Any], kinds: frozenset[type], target: DataType) -> bytes | None:
    """The bytes of values that all fit; None where each must be looked at."""
    if target.tag == TypeTag.F64 and all(kind in (int, float) or _is_decimal_kind(kind) for kind in kinds):
        return _encoded_floats(values, kinds, target)
    if len(kinds) != 1:
        return None
    (kind,) = kinds
    if kind is str and target == UTF8:
        return _encoded_texts(values)
    if kind is int and is_integer(target) and value_size(target) <= 8:
        return _encoded_integers(values, target)
    if _is_decimal_kind(kind) and is_decimal(target):
        return _encoded_decimals(values, target)
    if kind.__name__ == "date" and kind.__module__ == "datetime" and target.tag == TypeTag.DATE:
        epoch = 719_163  # 1970-01-01
        return _fixed([value.toordinal() - epoch for value in values], "<i4", target)
    return None


def _encoded_texts(values: Sequence[str]) -> bytes:
    head = encode_value(b"", UTF8)[:-4]
    wire = bytearray()
    for number, value in enumerate(values):
        if number % _STRIDE == 0:
            check()
        text = encode_text(value)
        wire += head
        wire += len(text).to_bytes(4, "little")
        wire += text
    return bytes(wire)


def _encoded_integers(values: Sequence[int], target: DataType) -> bytes | None:
    bits = value_size(target) * 8
    low, high = (0, (1 << bits) - 1) if is_unsigned(target) else (-(1 << bits - 1), (1 << bits - 1) - 1)
    if min(values) < low or max(values) > high:
        return None
    return _fixed(values, f"<{'u' if is_unsigned(target) else 'i'}{bits // 8}", target)


def _is_decimal_kind(kind: type) -> bool:
    return kind.__name__ == "Decimal" and kind.__module__ == "decimal"


def _encoded_floats(values: Sequence[Any], kinds: frozenset[type], target: DataType) -> bytes | None:
    """Fractions are rounded, as a comparison with the column would; integers must be themselves."""
    if int in kinds:
        integers = values if len(kinds) == 1 else [value for value in values if type(value) is int]
        if min(integers) < -_EXACT_MAX or max(integers) > _EXACT_MAX:
            return None
    try:
        return _fixed(values if kinds <= {int, float} else list(map(float, values)), "<f8", target)
    except (OverflowError, ValueError):  # a decimal beyond all floats, a signalling NaN
        return None


def _encoded_decimals(values: Sequence[Decimal], target: DataType) -> bytes | None:
    from decimal import Context, Decimal, Inexact, InvalidOperation

    exact = Context(prec=2 * DECIMAL_PRECISION_MAX, traps=[Inexact, InvalidOperation])
    unit = Decimal(1).scaleb(-target.scale)
    head, size, limit = encode_type(target) + b"\x00", value_size(target), 10**target.precision
    wire = bytearray()
    try:
        for number, value in enumerate(values):
            if number % _STRIDE == 0:
                check()
            stored = int(exact.quantize(value, unit).scaleb(target.scale, exact))
            if not -limit < stored < limit:
                return None
            wire += head
            wire += stored.to_bytes(size, "little", signed=True)
    except (Inexact, InvalidOperation, ValueError):  # the last one is a NaN
        return None
    return bytes(wire)


def _fixed(values: Sequence[object], form: str, target: DataType) -> bytes:
    import numpy

    head = encode_type(target) + b"\x00"
    rows = numpy.empty(len(values), dtype=[("head", f"V{len(head)}"), ("value", form)])
    rows["head"] = numpy.void(head)
    rows["value"] = numpy.fromiter(values, dtype=form, count=len(values))
    return rows.tobytes()
