"""Rows of two engines, compared without their order."""

from __future__ import annotations

import math
from decimal import Decimal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def same_rows(ours: Sequence[tuple[object, ...]], theirs: Sequence[tuple[object, ...]]) -> bool:
    """Floats need not have the same last bits."""
    if len(ours) != len(theirs):
        return False
    return all(map(_same_row, sorted(ours, key=_key), sorted(theirs, key=_key)))


def _same_row(ours: tuple[object, ...], theirs: tuple[object, ...]) -> bool:
    return len(ours) == len(theirs) and all(map(_same, ours, theirs))


def _same(ours: object, theirs: object) -> bool:
    if isinstance(ours, float) and isinstance(theirs, float):
        if math.isnan(ours) or math.isnan(theirs):
            return math.isnan(ours) and math.isnan(theirs)
        return math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(ours, Decimal) and isinstance(theirs, Decimal):
        return ours == theirs
    return type(ours) is type(theirs) and ours == theirs


def _key(row: tuple[object, ...]) -> tuple[tuple[str, str], ...]:
    """Any order will do, if equal rows stand at equal places; so floats are rounded first."""
    return tuple(
        (type(value).__name__, f"{value:.6g}" if isinstance(value, float) else str(value)) for value in row
    )
