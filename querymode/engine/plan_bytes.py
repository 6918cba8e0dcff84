"""The bytes of plans and of their steps: what wasm/src/plan/ reads. Expressions come encoded.

A plan that ends in `encode_build` makes a table inside an instance; when its query is finished, other plans
of that instance name it by its handle. Plans are made before there are handles: `with_builds` puts them in.
"""

from __future__ import annotations

import struct

from querymode import _abi
from querymode._abi import ExpressionTag, JoinKind, JoinSide, NodeTag
from querymode._call import claim
from querymode.errors import error
from querymode.expr.literals import encode_text, encode_value
from querymode.types import encode_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from querymode.types import DataType

#: Larger plans are counted with the call's memory: they hold long constants, or very many.
_SIZE_CLAIMED = 1 << 16
_HEAD = struct.Struct("<IIH")
#: More rows than there are.
UNLIMITED = (1 << 64) - 1


def encode_plan(
    fields: Sequence[tuple[str, DataType]], steps: Sequence[bytes], build_count: int = 0
) -> bytes:
    """A plan's wire form: what goes in, and the steps in order. `with_builds` names the builds later."""
    head = _HEAD.pack(_abi.PLAN_MAGIC, _abi.VERSION, build_count) + bytes(4 * build_count)
    inputs = b"".join(encode_name(name) + encode_type(data_type) for name, data_type in fields)
    counts = len(fields).to_bytes(2, "little"), len(steps).to_bytes(2, "little")
    size = sum(map(len, steps))
    if size > _SIZE_CLAIMED:
        claim(2 * size, "the plan")  # the steps, and all of them together
    return head + counts[0] + inputs + counts[1] + b"".join(steps)


def with_builds(plan: bytes, handles: Sequence[int]) -> bytes:
    """The plan for an instance in which its builds have these handles."""
    if not handles:
        return plan
    names = struct.pack(f"<{len(handles)}I", *handles)
    return plan[: _HEAD.size] + names + plan[_HEAD.size + len(names) :]


def encode_sort(keys: Sequence[tuple[bytes, bool, bool]], rows: int) -> bytes:
    """A sort step: expressions with whether they descend and whether NULLs come first."""
    wire = b"".join(bytes((descending, nulls_first)) + key for key, descending, nulls_first in keys)
    return bytes((NodeTag.SORT,)) + len(keys).to_bytes(2, "little") + wire + rows.to_bytes(8, "little")


def encode_limit(offset: int, count: int | None) -> bytes:
    rows = UNLIMITED if count is None else min(count, UNLIMITED)
    return struct.pack("<BQQ", NodeTag.LIMIT, offset, rows)


def encode_name(name: str) -> bytes:
    raw = encode_text(name)
    if len(raw) > 0xFFFF:
        raise error("NOT_SUPPORTED", f"the column name {name[:40]!r}… has more than 65,535 bytes")
    return len(raw).to_bytes(2, "little") + raw


def column_at(index: int) -> bytes:
    return bytes((_abi.ExpressionTag.COLUMN,)) + index.to_bytes(2, "little")


# ---- joins ----


def encode_build(keys: Sequence[bytes], *, nulls_equal: bool = False) -> bytes:
    """The last step of a build. All columns that reach it are kept; `keys` are expressions over them."""
    return bytes((NodeTag.BUILD, nulls_equal * _abi.BUILD_NULL_EQUAL)) + _expressions(keys)


def encode_join(
    build: int,
    kind: JoinKind,
    keys: Sequence[bytes],
    outputs: Sequence[tuple[str, JoinSide, int]],
    residual: bytes | None = None,
) -> bytes:
    """A join step with the plan's build of that number.

    Keys are expressions over the input, of the types of the build's keys; none pairs every row with every
    row. Outputs are a name, a side and a column of that side (0 for the mark). The residual is a predicate
    over the input's columns followed by the build's.
    """
    picks = b"".join(encode_name(name) + struct.pack("<BH", side, column) for name, side, column in outputs)
    head = struct.pack("<BHB", NodeTag.JOIN, build, kind) + _expressions(keys)
    tail = b"\x00" if residual is None else b"\x01" + residual
    return head + len(outputs).to_bytes(2, "little") + picks + tail


def encode_in_build(build: int, keys: Sequence[bytes]) -> bytes:
    """A predicate: the keys are among those of the build."""
    return struct.pack("<BH", ExpressionTag.IN_BUILD, build) + _expressions(keys)


def _expressions(expressions: Sequence[bytes]) -> bytes:
    return len(expressions).to_bytes(2, "little") + b"".join(expressions)


# ---- exchange ----


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
    flags = (lower is not None) * _abi.MERGE_HAS_LOWER | (upper is not None) * _abi.MERGE_HAS_UPPER
    bounds = b"".join(lower or ()) + b"".join(upper or ())
    # All but the first byte is a sort's.
    return bytes((NodeTag.MERGE, flags)) + encode_sort(keys, rows)[1:] + bounds


def encode_bound(value: object, data_type: DataType) -> bytes:
    """A bound of one key of this type; None is NULL."""
    return encode_value(value, data_type)


def encode_repeat(count: bytes) -> bytes:
    """Every row as often as an int64 expression says."""
    return bytes((NodeTag.REPEAT,)) + count
