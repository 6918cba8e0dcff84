"""Places that scans know have bytes; those that they do not know yet are refused by what they mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from querymode import _abi
from querymode.table import places
from querymode.types import INT64
from tests.raises import raises_code

if TYPE_CHECKING:
    from collections.abc import Callable


def test_places_that_are_read() -> None:
    assert places.column(258) == b"\x02\x01\0\0"
    value, null = bytes((INT64.tag, 0)) + bytes(8), bytes((INT64.tag, 1))
    assert places.constant(value) == _abi.PLACE_CONSTANT.to_bytes(4, "little") + value
    assert places.is_constant(places.constant(value)) and not places.is_constant(places.column(0))
    assert places.is_missing(places.MISSING) and places.is_missing(places.constant(null))
    some = [places.constant(value), places.column(0), places.UNKNOWN]
    assert not any(map(places.is_missing, some))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: places.structure([places.column(1), places.MISSING]), "structure"),
        (lambda: places.items(places.column(1)), "list"),
        (lambda: places.entries(places.column(1), places.column(2)), "map"),
        (lambda: places.cast(places.column(1), INT64), "int64"),
        (places.row_id, "ids of rows"),
        (places.row_address, "addresses of rows"),
    ],
)
def test_places_that_are_not_read_yet(make: Callable[[], bytes], words: str) -> None:
    with raises_code("NOT_SUPPORTED", match=words):
        make()
