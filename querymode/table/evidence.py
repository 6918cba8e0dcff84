"""Evidence: what is known of a table's pieces before they are read, and may rule them out.

Seven statistics of a column (plan/prune.py says what follows from them), a row for every piece. Footers hold
them (format/parquet/statistics.py), a manifest may (here), and whoever has others adds a class. What is not
known is NULL, and rules nothing out.
"""

from __future__ import annotations

from array import array

from querymode._abi import SourceKind, Statistic, TypeTag
from querymode.engine.one_task import outputs
from querymode.qmcb import ColumnarBatch, ColumnarColumn, encode_columnar_batch, view_own_batch
from querymode.table.files import bits_of_rows
from querymode.types import BOOL, INT64, is_float, value_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol, Self

    from querymode.engine.instance import Instance
    from querymode.table.files import FileTable
    from querymode.types import DataType

    class Pruning(Protocol):
        """A filter over statistics (plan/prune.py)."""

        @property
        def columns(self) -> tuple[str, ...]: ...
        @property
        def plan(self) -> bytes: ...
        @property
        def selection(self) -> bytes:
            """A plan over the statistics and the number of the piece, last, which leaves the numbers."""


class Evidence:
    """Of a table's pieces."""

    #: Whether bounds that say so, and counts, are those of the rows that files have. Tables know whether all
    #: of these are theirs (`Table.answers`).
    is_exact = True

    def of(self, table: FileTable) -> Self:
        """The same for a table of the same pieces, with other columns."""
        raise NotImplementedError

    def part(self, table: FileTable, pieces: range) -> Evidence:
        """For a table of these pieces alone, counted from 0."""
        raise NotImplementedError

    def ask(self, instance: Instance, columns: Sequence[str], plan: bytes) -> list[bytes]:
        """What a plan makes of the statistics of all pieces."""
        raise NotImplementedError

    def survivors(self, instance: Instance, pruning: Pruning) -> set[int]:
        """The pieces that may hold rows that match."""
        raise NotImplementedError

    def null_count(self, index: int) -> int | None:
        """NULLs of a column in all rows of all pieces, if that is known exactly."""
        return None


class KnownValues:
    """What a manifest says of a column, by piece: bounds as little-endian values, and what else it has. It
    speaks of all rows that files have, deleted or not.

    `known`: a bit for every piece whose bounds are known; None where all are.
    """

    __slots__ = ("greatest", "known", "least", "nulls")

    def __init__(
        self, least: bytes, greatest: bytes, nulls: array[int] | None = None, known: bytes | None = None
    ) -> None:
        self.least = least
        self.greatest = greatest
        self.nulls = nulls
        self.known = known

    def part(self, data_type: DataType, pieces: range) -> KnownValues:
        """Of some pieces."""
        first, end, count = pieces.start, pieces.stop, len(pieces)
        if data_type == BOOL:
            least, greatest = (bits_of_rows(bits, first, count) for bits in (self.least, self.greatest))
        else:
            size = value_size(data_type)
            least, greatest = self.least[first * size : end * size], self.greatest[first * size : end * size]
        nulls = None if self.nulls is None else self.nulls[first:end]
        return KnownValues(
            least, greatest, nulls, None if self.known is None else bits_of_rows(self.known, first, count)
        )


class ManifestEvidence(Evidence):
    """Statistics in flat arrays, as a manifest brings them: nothing is opened, and no object made per piece.

    `values`: what is known of a column of that name; None if nothing is.
    """

    is_exact = False

    def __init__(self, table: FileTable, values: Callable[[str], KnownValues | None]) -> None:
        self._table = table
        self._values = values

    def of(self, table: FileTable) -> ManifestEvidence:
        return ManifestEvidence(table, self._values)

    def part(self, table: FileTable, pieces: range) -> ManifestEvidence:
        found = {
            name: known.part(kind, pieces) for name, kind in table.schema if (known := self._values(name))
        }
        return ManifestEvidence(table, found.get)

    def ask(self, instance: Instance, columns: Sequence[str], plan: bytes) -> list[bytes]:
        return _run(instance, plan, self._statistics(columns))

    def survivors(self, instance: Instance, pruning: Pruning) -> set[int]:
        count = len(self._table.cuts)
        numbers = _integers("piece", range(count), count)
        found: set[int] = set()
        statistics = self._statistics(pruning.columns)
        for answer in _run(instance, pruning.selection, [*statistics, numbers]):
            found.update(view_own_batch(answer).columns[0].data)
        return found

    def _statistics(self, columns: Sequence[str]) -> list[ColumnarColumn]:
        return [column for name in columns for column in self._of_column(name)]

    def _of_column(self, name: str) -> list[ColumnarColumn]:
        """In the order of `_abi.Statistic`."""
        count = len(self._table.cuts)
        data_type = self._table.schema.type_of(name)
        known = self._values(name)
        found: dict[Statistic, ColumnarColumn] = {
            Statistic.ROWS: _integers(name, self._table.cuts.row_counts, count)
        }
        if not is_float(data_type):
            found[Statistic.NAN] = _column(name, BOOL, bytes((count + 7) // 8), count)
        if known is not None:
            unknown = None if known.known is None else bytes(255 - byte for byte in known.known)
            found[Statistic.MIN] = _column(name, data_type, known.least, count, unknown)
            found[Statistic.MAX] = _column(name, data_type, known.greatest, count, unknown)
            if known.nulls is not None:
                found[Statistic.NULLS] = _integers(name, known.nulls, count)
        types = (data_type, data_type, INT64, BOOL, INT64, BOOL, BOOL)
        return [
            found.get(kind) or _unknown(name, type_, count)
            for kind, type_ in zip(Statistic, types, strict=True)
        ]


def _run(instance: Instance, plan: bytes, columns: Sequence[ColumnarColumn]) -> list[bytes]:
    batch = encode_columnar_batch(ColumnarBatch(columns, columns[0].row_count))
    query = instance.query_open(plan)
    address = instance.alloc(len(batch))
    instance.write(address, batch)
    pushed = instance.query_push(query, SourceKind.QMCB, address=address, size=len(batch))
    found = list(outputs(instance, query, pushed))
    found += outputs(instance, query, instance.query_finish(query))
    instance.free(address, len(batch))
    instance.query_close(query)
    return found


def _column(
    name: str, data_type: DataType, data: bytes, count: int, nulls: bytes | None = None
) -> ColumnarColumn:
    return ColumnarColumn(name, data_type.tag, data, count, null_bitmap=nulls, data_type=data_type)


def _integers(name: str, values: Sequence[int], count: int) -> ColumnarColumn:
    data = values if isinstance(values, array) else array("q", values)
    return _column(name, INT64, data.tobytes(), count)


def _unknown(name: str, data_type: DataType, count: int) -> ColumnarColumn:
    """NULL for every piece."""
    nulls = b"\xff" * ((count + 7) // 8)
    offsets = bytes(4 * (count + 1)) if data_type.tag in (TypeTag.UTF8, TypeTag.BINARY) else None
    if offsets is not None:
        size = 0
    else:
        size = (count + 7) // 8 if data_type == BOOL else count * value_size(data_type)
    return ColumnarColumn(
        name, data_type.tag, bytes(size), count, offsets, null_bitmap=nulls, data_type=data_type
    )
