"""Columns of tables in memory that stay in engine instances between queries: copied in once, not once per
query.
"""

from __future__ import annotations

import os
import threading
import weakref

from querymode.errors import MemoryExceededError
from querymode.table.memory import MemoryTable
from querymode.table.table import Table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from querymode.engine.instance import Instance

_table_ids: weakref.WeakKeyDictionary[Table, int] = weakref.WeakKeyDictionary()
_next_table_id = 0
_table_lock = threading.Lock()


def table_id(table: Table) -> int:
    """A number for a table, never used again: what instances remember it by."""
    global _next_table_id
    with _table_lock:
        found = _table_ids.get(table)
        if found is None:
            _next_table_id += 1
            found = _table_ids[table] = _next_table_id
        return found


def _after_fork_in_child() -> None:
    global _table_lock
    _table_lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork_in_child)


def kept_columns(
    instance: Instance, owner: int, table: MemoryTable, index: int, wanted: Sequence[int]
) -> bytes:
    """References to the wanted columns; those that are not there yet are brought in by one call."""
    #: Column of the table → its reference: batch handle and column in that batch.
    kept: dict[int, bytes] = instance.resident.setdefault((owner, index), {})
    missing = [column for column in wanted if column not in kept]
    if missing:
        layout = table.morsels[index].layout(missing)
        try:
            address = instance.alloc(layout.size)
        except MemoryExceededError:  # other tables' columns make room for this one's
            _forget_tables(instance, {key[0] for key in instance.resident} - {owner})
            address = instance.alloc(layout.size)
        for place, buffer in layout.buffers:
            instance.write(address + place, buffer)
        handle = instance.batch_open(layout.descriptors(address))
        for place, column in enumerate(missing):
            kept[column] = handle.to_bytes(4, "little") + place.to_bytes(4, "little")
        instance.resident.setdefault((owner, -1), []).append((handle, address, layout.size))
        instance.kept_sizes[owner] = instance.kept_sizes.get(owner, 0) + layout.size
    return b"".join([kept[column] for column in wanted])


def kept_count(instance: Instance, owner: int) -> int:
    """How many pieces of a table an instance has already."""
    return len(instance.resident.get((owner, -1), ()))


def keeps(instance: Instance, owner: int, index: int, wanted: Sequence[int]) -> bool:
    """Whether it has all these columns of a morsel."""
    kept = instance.resident.get((owner, index), {})
    return all(column in kept for column in wanted)


def forget_dead_tables(instance: Instance) -> None:
    """Gives back what is kept for tables that nobody can ask for any more."""
    if not instance.resident:
        return
    with _table_lock:
        alive = set(_table_ids.values())
    _forget_tables(instance, {key[0] for key in instance.resident} - alive)


def _forget_tables(instance: Instance, owners: set[int]) -> None:
    for owner in owners:
        for handle, address, size in instance.resident.get((owner, -1), ()):
            instance.batch_close(handle)
            instance.free(address, size)
        instance.kept_sizes.pop(owner, None)
    for key in [key for key in instance.resident if key[0] in owners]:
        del instance.resident[key]
