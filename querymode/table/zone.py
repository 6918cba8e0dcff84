"""Zones: what is known of a column's values in a piece of a table."""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Zone(NamedTuple):
    """Values are as execute/top_bound.py compares them. None: unknown, or there are no values."""

    least: Any
    greatest: Any
    has_nulls: bool
    has_values: bool
