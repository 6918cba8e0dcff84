"""Tables that are stored: a snapshot of the files behind a name, and how to look at them again.

    reference    what somebody named: paths and options (catalog/reference.py)
    snapshot     what it stood for at a moment: a schema and files of known identity (this module's classes)

A plan keeps the snapshot that its columns were bound to. Every terminal asks for the newest one before it
runs (plan/snapshots.py), and one query has one snapshot for its whole life.
"""

from __future__ import annotations

from copy import copy

from querymode.errors import error
from querymode.table.table import Table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Self

    from querymode._abi import FileFormat
    from querymode.schema import Schema
    from querymode.types import DataType


class StoredTable(Table):
    """A snapshot: files of one schema, as they were when they were looked at."""

    is_stored = True
    format: FileFormat

    def __getstate__(self) -> dict[str, Any]:
        # A snapshot travels, a reference does not: every part of a query has the same rows.
        return {**self.__dict__, "reference": None, "opening": (0, 0)}

    def pinned(self) -> Self:
        table = copy(self)
        table.reference, table.opening = None, self.take_opening()
        return table

    def with_columns(self, schema: Schema, places: Sequence[int]) -> Self:
        """The same rows with these columns: for each, the number that it has here."""
        raise NotImplementedError

    def bound_to(self, schema: Schema) -> StoredTable:
        """The same rows for who knows the table by an earlier schema. What came later is left out."""
        if schema == self.schema:
            return self
        own = _numbers(self.schema)
        fields = (*schema, *schema.hidden)
        places = [self._place_of(key, fields[index][1], own) for key, index in _numbers(schema).items()]
        table = self.with_columns(schema, places)
        table.name, table.origin, table.reference = self.name, self.origin, self.reference
        table.opening = self.take_opening()
        return table

    def _place_of(self, key: tuple[str, int], data_type: DataType, own: dict[tuple[str, int], int]) -> int:
        name, index = key[0], own.get(key)
        found = None if index is None else self.schema.field(index)[1]
        if index is None or found != data_type:
            now = "is gone" if found is None else f"is {found} now, and was {data_type}"
            raise error(
                "SCHEMA_MISMATCH",
                f"the files of {self.title} have changed, and their column {name!r} {now}; make the query "
                "anew, from table(…) on",
                column=name,
            )
        return index

    @property
    def title(self) -> str:
        """What people know it by."""
        if self.name is not None or self.origin is None:
            return self.name or "the table"
        where = self.origin.where
        return where if isinstance(where, str) else f"{where[0]} and others"


def _numbers(schema: Schema) -> dict[tuple[str, int], int]:
    """Columns by their names, and how often the name stood before: a file may bring one twice."""
    seen: dict[str, int] = {}
    found = {}
    for index, (name, _) in enumerate((*schema, *schema.hidden)):
        found[name, seen.setdefault(name, 0)] = index
        seen[name] += 1
    return found
