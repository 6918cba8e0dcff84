"""Tables in memory on their way to another process: a batch of QMCB for each morsel, so that lanes stay."""

from __future__ import annotations

from querymode._abi import NodeTag, SourceKind
from querymode.engine.one_task import on_instance, outputs
from querymode.engine.plan_bytes import encode_plan
from querymode.qmcb import decode_columnar_batch
from querymode.table.from_qmcb import host_column
from querymode.table.memory import MemoryTable, Morsel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from querymode.engine.instance import Instance
    from querymode.schema import Schema

    Constants = tuple[tuple[object, ...], ...] | None


def packed(table: MemoryTable) -> tuple[Any, ...]:
    """What `unpacked` makes the table from."""
    batches = on_instance(lambda instance: _batches(instance, table)) if table.morsels else []
    return table.schema, batches, table.name, table.constants


def _batches(instance: Instance, table: MemoryTable) -> list[bytes]:
    plan = encode_plan(list(table.schema), [bytes((NodeTag.GATHER,))])
    columns = range(len(table.schema))
    found = []
    for morsel in table.morsels:
        layout = morsel.layout(columns)
        address = instance.alloc(max(1, layout.size))
        for place, buffer in layout.buffers:
            instance.write(address + place, buffer)
        query = instance.query_open(plan)
        batches = list(
            outputs(
                instance,
                query,
                instance.query_push(query, SourceKind.DESCRIPTOR, data=layout.descriptors(address)),
            )
        )
        batches += outputs(instance, query, instance.query_finish(query))
        instance.query_close(query)
        instance.free(address, max(1, layout.size))
        (batch,) = batches
        found.append(batch)
    return found


def unpacked(schema: Schema, batches: list[bytes], name: str | None, constants: Constants) -> MemoryTable:
    morsels = []
    for data in batches:
        batch = decode_columnar_batch(data)
        morsels.append(Morsel([host_column(column) for column in batch.columns], batch.row_count))
    table = MemoryTable(schema, morsels, name)
    table.constants = constants
    return table
