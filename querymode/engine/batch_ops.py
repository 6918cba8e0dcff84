"""Functions over QMCB batches that touch rows: small plans, run by the engine."""

from __future__ import annotations

from querymode._abi import NodeTag, SourceKind
from querymode.engine.one_task import on_instance, outputs
from querymode.engine.plan_bytes import UNLIMITED, column_at, encode_limit, encode_plan, encode_sort
from querymode.errors import column_not_found, error
from querymode.qmcb import decode_columnar_batch, qmcb_fields
from querymode.types import NULL, is_nested, is_vector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from querymode.engine.instance import Instance

_GATHER = bytes((NodeTag.GATHER,))


def concat(batches: Sequence[bytes]) -> bytes:
    """The rows of all batches, in order."""
    return _run(batches, [_GATHER])


def take_slice(batch: bytes, offset: int, limit: int | None) -> bytes:
    """Rows from `offset` on, at most `limit`."""
    return _run([batch], [encode_limit(offset, limit), _GATHER])


def merge_sorted(batches: Sequence[bytes], keys: Sequence[tuple[str, bool]], limit: int | None) -> bytes:
    """Sorted batches → one; equal rows keep the order of their batches. Keys: name, descending?

    The engine's sort is stable, so sorting runs that stand one behind the other is their merge.
    """
    fields = qmcb_fields(batches[0])
    names = [name for name, _ in fields]
    ordered: list[tuple[bytes, bool, bool]] = []
    for name, descending in keys:
        if name not in names:
            raise column_not_found(name, names)
        data_type = fields[names.index(name)][1]
        if is_nested(data_type) or is_vector(data_type):
            raise error("NOT_SUPPORTED", f"cannot merge by {name!r}: {data_type} has no order")
        if data_type != NULL:  # all rows are alike in such a column
            ordered.append((column_at(names.index(name)), descending, False))
    if not ordered:
        return _run(batches, [encode_limit(0, limit), _GATHER])
    return _run(batches, [encode_sort(ordered, UNLIMITED if limit is None else limit), _GATHER])


def digest(batches: Sequence[bytes]) -> tuple[int, int, int]:
    """Two sums over the hashes of all rows, and their number: see wasm/src/operator/digest.zig."""
    batch = decode_columnar_batch(_run(batches, [bytes((NodeTag.DIGEST,))]))
    first, second, rows = (column.data[0] for column in batch.columns)
    return first, second, rows


def _run(batches: Sequence[bytes], steps: Sequence[bytes]) -> bytes:
    plan = encode_plan(qmcb_fields(batches[0]), steps)

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
