"""Which pieces of a table a top-k need not look at: those whose best row comes after the k-th best known.

    a lane's answer has k rows → its last one's first key is a bound → a piece (a morsel, a row group) whose
    least or greatest value lies behind it is left out

Only what is strictly behind goes. Rows that are equal to the bound may still be among the best, by their
other keys or because they stand first; so the answer does not depend on which lanes came first.

NULLs stand before or behind all values (`nulls_first`), and NaN is the greatest value. Values are compared
here, so this room brings them into a form in which Python orders them as the engine does.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from querymode._abi import AggregateOp, TypeTag
from querymode.expr.nodes import Aggregate, Column
from querymode.plan.nodes import GroupBy, Rows
from querymode.plan.prune import statistic, statistics_fields
from querymode.plan.wire import plan_over
from querymode.qmcb import view_own_batch
from querymode.schema import Schema
from querymode.table.zone import Zone
from querymode.types import has_offsets, value_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    from querymode.engine.instance import Instance
    from querymode.qmcb import ColumnarColumn
    from querymode.stage.stage import TopKey
    from querymode.table.files import FileTable
    from querymode.types import DataType

    T = TypeVar("T")

_FLOATS = {TypeTag.F64: "<d", TypeTag.F32: "<f", TypeTag.F16: "<e"}
_UNSIGNED = (TypeTag.U8, TypeTag.U16, TypeTag.U32, TypeTag.U64, TypeTag.BOOL)
_SIGNED = (
    TypeTag.I8,
    TypeTag.I16,
    TypeTag.I32,
    TypeTag.I64,
    TypeTag.I128,
    TypeTag.DECIMAL,
    TypeTag.DATE,
    TypeTag.TIME,
    TypeTag.TIMESTAMP,
)
_TEXTS = (TypeTag.UTF8, TypeTag.BINARY)

#: Rows of lanes that are looked at one by one for a bound, at most.
GATHERED_MAX = 1000
#: Longer texts are not remembered as a piece's greatest or least.
TEXT_SIZE_MAX = 256
#: Floats are pairs: NaN is greater than all others.
_NAN = (1, 0.0)
#: Before all values, a value, behind all values.
_FIRST, _VALUE, _LAST = range(3)


class Rank(NamedTuple):
    """The place of a key in the order that a query asks for."""

    place: int
    value: Any = None


def is_comparable(data_type: DataType) -> bool:
    """Whether values of this type are compared here as the engine does."""
    tag = data_type.tag
    return tag in _FLOATS or tag in _UNSIGNED or tag in _SIGNED or tag in _TEXTS


def value_at(column: ColumnarColumn, row: int) -> Any:
    """A value as Python compares it; None for NULL."""
    bits = column.null_bitmap
    if bits is not None and memoryview(bits)[row >> 3] >> (row & 7) & 1:
        return None
    tag = column.data_type.tag
    data = memoryview(column.data).cast("B")
    if tag == TypeTag.BOOL:
        return data[row >> 3] >> (row & 7) & 1
    if has_offsets(column.data_type):
        start, end = memoryview(column.offsets).cast("B").cast("I")[row : row + 2]
        return bytes(data[start:end])
    size = value_size(column.data_type)
    raw = bytes(data[row * size : (row + 1) * size])
    if tag in _FLOATS:
        (number,) = struct.unpack(_FLOATS[tag], raw)
        return _NAN if number != number else (0, number)
    return int.from_bytes(raw, "little", signed=tag in _SIGNED)


def values_of(column: ColumnarColumn) -> list[Any]:
    if column.data_type.tag == TypeTag.I64 and column.null_bitmap is None:
        return memoryview(column.data).cast("B").cast("q").tolist()
    return [value_at(column, row) for row in range(column.row_count)]


class TopBound:
    """The bound of one run of a stage. `note` is called under the run's lock."""

    def __init__(self, key: TopKey) -> None:
        self.key = key
        self.rank: Rank | None = None
        #: Whether a lane has been looked at: until then it is not worth reading ahead.
        self.has_seen = False
        #: The best keys of all lanes so far: values in order, and NULLs.
        self._values: list[Any] = []
        self._null_count = 0

    def note(self, batches: Sequence[bytes], row_count: int) -> None:
        """The rows of a lane, in order. Each may have only some, and all of them enough."""
        self.has_seen = True
        columns = [view_own_batch(batch).columns[self.key.place] for batch in batches]
        if self.key.rows <= GATHERED_MAX:
            self._gather([value for column in columns for value in values_of(column)])
        elif row_count >= self.key.rows:
            self._tighten(self._rank(value_at(columns[-1], columns[-1].row_count - 1)))

    def _gather(self, keys: list[Any]) -> None:
        values = [value for value in keys if value is not None]
        self._null_count += len(keys) - len(values)
        self._values += values
        self._values.sort(reverse=self.key.descending)
        del self._values[self.key.rows :]
        last = self.key.rows - 1 - (self._null_count if self.key.nulls_first else 0)
        if 0 <= last < len(self._values):
            self._tighten(self._rank(self._values[last]))
        elif len(self._values) + self._null_count >= self.key.rows:
            self._tighten(self._rank(None))

    def _tighten(self, rank: Rank) -> None:
        if self.rank is None or self._is_behind(self.rank, rank):
            self.rank = rank

    def rules_out(self, best: Rank | None) -> bool:
        """Whether no row of a piece can be in the answer. None: nothing is known of it."""
        bound = self.rank
        return bound is not None and best is not None and self._is_behind(best, bound)

    def best(self, zone: Zone | None) -> Rank | None:
        """The first place that a row of a piece may have; None: any."""
        if zone is None:
            return None
        if not zone.has_values or (zone.has_nulls and self.key.nulls_first):
            return self._rank(None)
        value = zone.greatest if self.key.descending else zone.least
        return None if value is None else self._rank(value)

    def best_of(self, ranks: Sequence[Rank | None]) -> Rank | None:
        if not ranks or None in ranks:
            return None
        return self.best_first(ranks, lambda rank: rank)[0]

    def best_first(self, pieces: Sequence[T], rank_of: Callable[[T], Rank | None]) -> list[T]:
        """In the order in which they are looked at best. Those of which nothing is known come last: the
        bound that the others leave helps with their rows."""
        ranked = [(rank_of(piece), piece) for piece in pieces]
        found: list[T] = []
        for place in (_FIRST, _VALUE, _LAST):
            same = [(rank.value, piece) for rank, piece in ranked if rank is not None and rank.place == place]
            if place == _VALUE:
                same.sort(key=lambda pair: pair[0], reverse=self.key.descending)
            found += [piece for _, piece in same]
        return found + [piece for rank, piece in ranked if rank is None]

    def _rank(self, value: Any) -> Rank:
        if value is None:
            return Rank(_FIRST if self.key.nulls_first else _LAST)
        return Rank(_VALUE, value)

    def _is_behind(self, one: Rank, other: Rank) -> bool:
        if one.place != other.place or one.place != _VALUE:
            return one.place > other.place
        return bool(one.value < other.value if self.key.descending else one.value > other.value)


# ---- tables in memory: asked of the engine, once ----


def zone_plan(data_type: DataType) -> bytes:
    """The engine's plan of a column's zone."""
    value = Column("x")
    calls = [
        ("least", Aggregate(AggregateOp.MIN, value)),
        ("greatest", Aggregate(AggregateOp.MAX, value)),
        ("values", Aggregate(AggregateOp.COUNT, value)),
    ]
    rows = Rows(Schema((("x", data_type),)))
    return plan_over(rows, [GroupBy(rows, (), calls)])


def read_zone(answer: bytes, row_count: int) -> Zone:
    """What that plan left."""
    least, greatest, values = (value_at(column, 0) for column in view_own_batch(answer).columns)
    if isinstance(least, bytes):
        least, greatest = least[:TEXT_SIZE_MAX], None if len(greatest) > TEXT_SIZE_MAX else greatest
    return Zone(least, greatest, values < row_count, values > 0)


# ---- files: from their footers ----


def piece_zones(instance: Instance, table: FileTable, index: int) -> dict[int, Zone]:
    """The zones of pieces, as far as statistics can be trusted. Asked once: a snapshot does not change."""
    found = table.zones.get(index)
    if found is None:
        found = table.zones[index] = _ask_zones(instance, table, table.schema.field(index)[0])
    return found


def _ask_zones(instance: Instance, table: FileTable, name: str) -> dict[int, Zone]:
    if table.evidence is None:
        return {}
    source = Rows(Schema(statistics_fields((name,), table.schema)))
    kinds = [source.schema.index(statistic(kind, name)) for kind in ("min", "max", "nulls", "nan", "rows")]
    found: dict[int, Zone] = {}
    for answer in table.evidence.ask(instance, (name,), plan_over(source, [])):
        columns = view_own_batch(answer).columns
        rows = zip(*(values_of(columns[kind]) for kind in kinds), strict=True)
        for facts in rows:
            found[len(found)] = _group_zone(*facts)
    return found


def _group_zone(least: Any, greatest: Any, nulls: int | None, nan: int | None, rows: int) -> Zone:
    """NaN is greater than everything, and writers leave it out of their bounds."""
    if nan != 0:
        greatest = _NAN if isinstance(greatest, tuple) else None
    return Zone(least, greatest, nulls != 0, nulls is None or nulls < rows)
