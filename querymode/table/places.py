"""Places: where a column of a table comes from in a fragment, as a scan is told (wasm/src/scan/request.zig).

    column      u32 of what the fragment has: columns, then fields of structures
    constant    a mark, then a type and a value: the same in every row
    missing     a mark: NULL in every row
    unknown     a mark, for pruning alone: nothing is known of it

Tables whose columns were changed need more: a structure whose fields come from different places, items of
lists and maps, other types, the numbers of rows. Such places have names here and are NOT_SUPPORTED: whoever
makes fragments says what it means, and scans can learn it without another seam.
"""

from __future__ import annotations

from querymode import _abi
from querymode.errors import error
from querymode.types import decode_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from querymode.errors import QueryModeError
    from querymode.types import DataType

MISSING = _abi.PLACE_MISSING.to_bytes(4, "little")
UNKNOWN = _abi.PLACE_UNKNOWN.to_bytes(4, "little")
_CONSTANT = _abi.PLACE_CONSTANT.to_bytes(4, "little")


def column(number: int) -> bytes:
    assert 0 <= number < min(_abi.PLACE_CONSTANT, _abi.PLACE_MISSING, _abi.PLACE_UNKNOWN)
    return number.to_bytes(4, "little")


def constant(value: bytes) -> bytes:
    """`value`: its type and it, as plans have them."""
    return _CONSTANT + value


def structure(fields: Sequence[bytes]) -> bytes:
    """Of a structure with these fields, which is there though it may have none of them."""
    raise _refused("a structure whose fields come from different places")


def items(place: bytes) -> bytes:
    """Of a list whose items come from that place."""
    raise _refused("a list whose items come from another place")


def entries(keys: bytes, values: bytes) -> bytes:
    """Of a map."""
    raise _refused("a map whose entries come from other places")


def cast(place: bytes, data_type: DataType) -> bytes:
    """What lies there, as another type."""
    raise _refused(f"a column that has another type than {data_type} in some file")


def row_id() -> bytes:
    """A number that a row keeps wherever it is moved."""
    raise _refused("ids of rows as a column")


def row_address() -> bytes:
    """The fragment, and the row's number there."""
    raise _refused("addresses of rows as a column")


def _refused(what: str) -> QueryModeError:
    return error("NOT_SUPPORTED", f"{what}: this is not read yet")


def is_missing(place: bytes) -> bool:
    """Whether the column is NULL in all rows there."""
    return place == MISSING or (is_constant(place) and _is_null(place))


def is_constant(place: bytes) -> bool:
    return place[:4] == _CONSTANT


def _is_null(place: bytes) -> bool:
    _, position = decode_type(place, 4)
    return place[position] == 1
