"""What footers say of all row groups of a table, asked of the engine: it decides what may be trusted."""

from __future__ import annotations

import struct

from querymode._abi import FileFormat
from querymode.engine.one_task import outputs
from querymode.engine.open_files import open_file
from querymode.table.evidence import Evidence
from querymode.table.places import is_constant, is_missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from querymode.engine.instance import Instance
    from querymode.format.parquet.flat_footer import FlatFooter
    from querymode.table.evidence import Pruning
    from querymode.table.files import FileTable, TableFile

#: Files whose row groups are pruned by way of their handles; more go through a list of footers.
PRUNE_HANDLES_MAX = 16


class StatisticsRequest:
    """Asks for the statistics of some columns, of all files: wasm/src/scan/request.zig draws it."""

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
            return struct.pack("<II", 0, open_file(self._instance, FileFormat.PARQUET, footer))
        address = self._instance.alloc(len(footer.blob))
        self._instance.write(address, footer.blob)
        self._blocks.append((address, len(footer.blob)))
        return struct.pack("<II", address, len(footer.blob))

    def __exit__(self, *_: object) -> None:
        for address, size in self._blocks:
            self._instance.free(address, size)


class FooterEvidence(Evidence):
    """Of tables of Parquet files. The pieces are all row groups of all files, in order."""

    def __init__(self, table: FileTable) -> None:
        self._table = table

    def of(self, table: FileTable) -> FooterEvidence:
        return FooterEvidence(table)

    def part(self, table: FileTable, pieces: range) -> FooterEvidence:
        return FooterEvidence(table)

    def ask(self, instance: Instance, columns: Sequence[str], plan: bytes) -> list[bytes]:
        with StatisticsRequest(instance, self._table, columns) as request:
            query = instance.query_open(plan)
            batches = list(outputs(instance, query, instance.bounds(query, request)))
            batches += outputs(instance, query, instance.query_finish(query))
            instance.query_close(query)
        return batches

    def survivors(self, instance: Instance, pruning: Pruning) -> set[int]:
        with StatisticsRequest(instance, self._table, pruning.columns) as request:
            query = instance.query_open(pruning.plan)
            output = instance.prune(query, request)
            kept = instance.read(output.address, output.size) if output.size else b""
            instance.query_close(query)
        return {piece for piece, is_kept in enumerate(kept) if is_kept}

    def null_count(self, index: int) -> int | None:
        total = 0
        for file in self._table.files:
            nulls = _null_count(file, index)
            if nulls is None:
                return None
            total += nulls
        return total


def _null_count(file: TableFile, index: int) -> int | None:
    footer: FlatFooter = file.footer
    place = file.places[index]
    if is_missing(place):
        return sum(footer.row_counts())
    if is_constant(place):
        return 0
    column = int.from_bytes(place, "little")
    if column >= footer.column_count:
        return None  # a field of a structure: writers disagree on what its NULLs are
    leaves = footer.leaf_ranges[column]
    if len(leaves) != 1:
        return None
    total = 0
    for group in range(footer.row_group_count):
        nulls = footer.chunk(group, leaves.start).null_count
        if nulls is None:
            return None
        total += nulls
    return total
