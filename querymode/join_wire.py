"""Joins in plans: the bytes of steps and expressions that look into a build (plan/join_parser.zig draws them).

A plan that ends in `encode_build` makes a table inside an instance. Once its query is finished, other plans of
that instance name it by number, and `wire.with_builds` gives them its handle.
"""

from __future__ import annotations

import struct

from querymode import _abi
from querymode._abi import ExpressionTag, JoinKind, JoinSide, NodeTag
from querymode.wire import encode_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def encode_build(keys: Sequence[bytes], *, null_equal: bool = False, bloom: bool = False) -> bytes:
    """The last step of a build. All columns that reach it are kept; `keys` are expressions over them."""
    flags = null_equal * _abi.BUILD_NULL_EQUAL | bloom * _abi.BUILD_BLOOM
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
    picks = b"".join(encode_name(name) + struct.pack("<BH", side, column) for name, side, column in outputs)
    head = struct.pack("<BHB", NodeTag.JOIN, build, kind) + _expressions(keys)
    tail = b"\x00" if residual is None else b"\x01" + residual
    return head + len(outputs).to_bytes(2, "little") + picks + tail


def encode_in_build(
    build: int, keys: Sequence[bytes], *, bloom: bool = False, null_aware: bool = False
) -> bytes:
    """A predicate: the keys are among those of the build, or, by its Bloom filter, may be."""
    flags = bloom * _abi.IN_BUILD_BLOOM | null_aware * _abi.IN_BUILD_NULL_AWARE
    return struct.pack("<BHB", ExpressionTag.IN_BUILD, build, flags) + _expressions(keys)


def _expressions(expressions: Sequence[bytes]) -> bytes:
    return len(expressions).to_bytes(2, "little") + b"".join(expressions)
