"""Joins in plans: the bytes of steps and expressions that look into a build (plan/join_parser.zig draws them).

A plan that ends in `encode_build` makes a table inside an instance; when its query is finished, other plans of
that instance name it by its handle. Plans are made before there are handles, so they name builds by number, and
`with_builds` puts the handles in.
"""

from __future__ import annotations

import struct

from querymode import _abi
from querymode._abi import ExpressionTag, JoinKind, JoinSide, NodeTag
from querymode.literals import encode_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: Where a plan says how many builds it names: behind its magic and version.
_BUILDS_AT = 8


def encode_build(
    keys: Sequence[bytes], *, nulls_equal: bool = False, with_filter: bool = False
) -> bytes:
    """The last step of a build. All columns that reach it are kept; `keys` are expressions over them."""
    flags = nulls_equal * _abi.BUILD_NULL_EQUAL | with_filter * _abi.BUILD_BLOOM
    return bytes((NodeTag.BUILD, flags)) + _expressions(keys)


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
    picks = b"".join(_name(name) + struct.pack("<BH", side, column) for name, side, column in outputs)
    head = struct.pack("<BHB", NodeTag.JOIN, build, kind) + _expressions(keys)
    tail = b"\x00" if residual is None else b"\x01" + residual
    return head + len(outputs).to_bytes(2, "little") + picks + tail


def encode_in_build(
    build: int, keys: Sequence[bytes], *, maybe: bool = False, null_aware: bool = False
) -> bytes:
    """A predicate: the keys are among those of the build. See `_abi.IN_BUILD_…`."""
    flags = maybe * _abi.IN_BUILD_BLOOM | null_aware * _abi.IN_BUILD_NULL_AWARE
    return struct.pack("<BHB", ExpressionTag.IN_BUILD, build, flags) + _expressions(keys)


def with_builds(plan: bytes, handles: Sequence[int]) -> bytes:
    """A plan of no handles with the handles of the builds that it names by number."""
    assert plan[_BUILDS_AT : _BUILDS_AT + 2] == b"\x00\x00"
    named = struct.pack(f"<H{len(handles)}I", len(handles), *handles)
    return plan[:_BUILDS_AT] + named + plan[_BUILDS_AT + 2 :]


def _expressions(expressions: Sequence[bytes]) -> bytes:
    return len(expressions).to_bytes(2, "little") + b"".join(expressions)


def _name(name: str) -> bytes:
    raw = encode_text(name)
    return len(raw).to_bytes(2, "little") + raw
