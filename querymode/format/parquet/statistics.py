"""What footers say of all row groups of a table, asked of the engine: it decides what may be trusted."""

from __future__ import annotations

import struct

from querymode.engine.one_task import outputs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from querymode.engine.instance import Instance
    from querymode.format.parquet.flat_footer import FlatFooter
    from querymode.table.files import FileTable

#: Footers that an instance keeps open between queries.
OPEN_FILES_MAX = 64
#: Files whose row groups are pruned by way of their handles; more go through a list of footers.
PRUNE_HANDLES_MAX = 16


class StatisticsRequest:
    """Asks for the statistics of some columns, of all files: wasm/src/scan_request.zig draws it."""

    def __init__(self, instance: Instance, table: FileTable, columns: Sequence[str]) -> None:
        self._instance = instance
        self._table = table
        self._columns = table.column_indices(columns)
        self._blocks: list[tuple[int, int]] = []

    def __enter__(self) -> bytes:
        files = self._table.files
        parts = [struct.pack("<II", len(files), len(self._columns))]
        for file in files:
            parts.append(self._footer(file.footer, len(files)))
            parts += [file.places[index] for index in self._columns]
        return b"".join(parts)

    def _footer(self, footer: FlatFooter, count: int) -> bytes:
        if count <= PRUNE_HANDLES_MAX:
            return struct.pack("<II", 0, open_file(self._instance, footer))
        address = self._instance.alloc(len(footer.blob))
        self._instance.write(address, footer.blob)
        self._blocks.append((address, len(footer.blob)))
        return struct.pack("<II", address, len(footer.blob))

    def __exit__(self, *_: object) -> None:
        for address, size in self._blocks:
            self._instance.free(address, size)


def ask_statistics(instance: Instance, table: FileTable, columns: Sequence[str], plan: bytes) -> list[bytes]:
    """What a plan makes of the statistics of all row groups."""
    with StatisticsRequest(instance, table, columns) as request:
        query = instance.query_open(plan)
        batches = list(outputs(instance, query, instance.bounds(query, request)))
        batches += outputs(instance, query, instance.query_finish(query))
        instance.query_close(query)
    return batches


def open_file(instance: Instance, footer: FlatFooter) -> int:
    """The engine's handle of a file. An instance keeps those of the last files it saw."""
    files = instance.files
    found = files.pop(id(footer), None)
    if found is None:
        while len(files) >= OPEN_FILES_MAX:
            oldest = next(iter(files))
            instance.file_close(files.pop(oldest)[0])
        found = (instance.file_open(footer.blob), footer)
    files[id(footer)] = found
    return found[0]
