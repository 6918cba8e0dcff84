"""Steps of plans that exchange rows between instances: partition, merge and repeat, as bytes.

wasm/src/plan/plan.zig draws them. Expressions come encoded; `plan.column_at` makes the simplest ones.
"""

from __future__ import annotations

from querymode._abi import NodeTag
from querymode.literals import encode_value
from querymode.plan import UNLIMITED, encode_sort

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from querymode.types import DataType

_HAS_LOWER, _HAS_UPPER = 1, 2


def encode_partition(count: int, keys: Sequence[bytes]) -> bytes:
    """The last step: rows leave in batches of one of `count` partitions each, by the hash of their keys."""
    head = bytes((NodeTag.PARTITION,)) + count.to_bytes(2, "little") + len(keys).to_bytes(2, "little")
    return head + b"".join(keys)


def encode_merge(
    keys: Sequence[tuple[bytes, bool, bool]],
    rows: int = UNLIMITED,
    *,
    lower: Sequence[bytes] | None = None,
    upper: Sequence[bytes] | None = None,
) -> bytes:
    """The first step: sorted runs become one. Keys and rows are those of the sort that made the runs.

    Bounds are a value per key (`encode_bound`): rows from `lower` on and before `upper`, in the sort's order.
    """
    flags = (_HAS_LOWER if lower is not None else 0) | (_HAS_UPPER if upper is not None else 0)
    bounds = b"".join(lower or ()) + b"".join(upper or ())
    # All but the first byte is a sort's.
    return bytes((NodeTag.MERGE, flags)) + encode_sort(keys, rows)[1:] + bounds


def encode_bound(value: object, data_type: DataType) -> bytes:
    """A bound of one key of this type; None is NULL."""
    return encode_value(value, data_type)


def encode_repeat(count: bytes) -> bytes:
    """Every row as often as an int64 expression says."""
    return bytes((NodeTag.REPEAT,)) + count
