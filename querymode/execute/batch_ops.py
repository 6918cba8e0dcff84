"""Functions over QMCB batches that touch rows: small plans, run by the engine."""

from __future__ import annotations

import struct

from querymode import _abi
from querymode._abi import ExpressionTag, NodeTag, SourceKind
from querymode.errors import column_not_found, error
from querymode.execute.single import on_instance, outputs
from querymode.qmcb import qmcb_fields
from querymode.types import NULL, encode_type, is_nested, is_vector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from querymode._wasm import Instance

_UNLIMITED = (1 << 64) - 1
_GATHER = bytes((NodeTag.GATHER,))


def concat(batches: Sequence[bytes]) -> bytes:
    """The rows of all batches, in order."""
    return _run(batches, [_GATHER])


def take_slice(batch: bytes, offset: int, limit: int | None) -> bytes:
    """Rows from `offset` on, at most `limit`."""
    return _run([batch], [_limit(offset, limit), _GATHER])


def merge_sorted(batches: Sequence[bytes], keys: Sequence[tuple[str, bool]], limit: int | None) -> bytes:
    """Sorted batches → one; equal rows keep the order of their batches. Keys: name, descending?

    The engine's sort is stable, so sorting runs that stand one behind the other is their merge.
    """
    fields = qmcb_fields(batches[0])
    names = [name for name, _ in fields]
    wire: list[bytes] = []
    for name, descending in keys:
        if name not in names:
            raise column_not_found(name, names)
        data_type = fields[names.index(name)][1]
        if is_nested(data_type) or is_vector(data_type):
            raise error("NOT_SUPPORTED", f"cannot merge by {name!r}: {data_type} has no order")
        if data_type != NULL:  # all rows are alike in such a column
            index = names.index(name).to_bytes(2, "little")
            wire.append(bytes((descending, 0, ExpressionTag.COLUMN)) + index)
    if not wire:
        return _run(batches, [_limit(0, limit), _GATHER])
    rows = _UNLIMITED if limit is None else limit
    head = bytes((NodeTag.SORT,)) + len(wire).to_bytes(2, "little")
    return _run(batches, [head + b"".join(wire) + rows.to_bytes(8, "little"), _GATHER])


def _limit(offset: int, limit: int | None) -> bytes:
    return struct.pack("<BQQ", NodeTag.LIMIT, offset, _UNLIMITED if limit is None else limit)


def _fields(batch: bytes) -> list[tuple[str, bytes]]:
    """Names of a batch, with the wire form of their types."""
    return [(name, encode_type(data_type)) for name, data_type in qmcb_fields(batch)]


def _run(batches: Sequence[bytes], steps: Sequence[bytes]) -> bytes:
    fields = _fields(batches[0])
    plan = struct.pack("<IIH", _abi.PLAN_MAGIC, _abi.VERSION, len(fields))
    for name, data_type in fields:
        raw = name.encode()
        plan += len(raw).to_bytes(2, "little") + raw + data_type
    plan += len(steps).to_bytes(2, "little") + b"".join(steps)

    def task(instance: Instance) -> bytes:
        query = instance.query_open(plan)
        for batch in batches:
            address = instance.alloc(len(batch))
            instance.write(address, batch)
            instance.query_push(query, SourceKind.QMCB, address=address, size=len(batch))
            instance.free(address, len(batch))
        (answer,) = outputs(instance, query, instance.query_finish(query))
        instance.query_close(query)
        return answer

    return on_instance(task)
