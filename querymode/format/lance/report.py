"""What Lance tables and files are made of, as `querymode inspect` shows it: from manifests alone."""

from __future__ import annotations

from itertools import islice

from querymode.format.report import Report, Sheet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from querymode.table.files import FileTable

#: Fragments of which the files are listed.
_FRAGMENTS_MAX = 10_000


class LanceReport(Report):
    no_groups = "Lance tables have no row groups"

    def __init__(self, table: FileTable) -> None:
        self.schema = table.schema
        self._table = table

    @property
    def _deleted_count(self) -> int | None:
        return 0 if self._table.deleted is None else self._table.deleted.row_count

    def facts(self) -> Iterator[tuple[str, str]]:
        table = self._table
        yield "", table.title
        yield "format", "Lance"
        yield "rows", f"{table.row_count:,}"
        if self._deleted_count:
            yield "deleted", f"{self._deleted_count:,}"
        yield "fragments", f"{len(table.files):,}"

    def sheets(self, columns: Sequence[str]) -> Iterator[Sheet]:
        fields = self._fields(columns)
        rows = [(name, str(kind)) for name, kind in fields]
        yield Sheet("schema", ("column", "type"), (False, False), rows, len(rows))
        files = ((f"{number:,}", name, size) for number, name, size in self._files())
        yield Sheet(
            "files", ("fragment", "file", "bytes"), (True, False, True), files, len(self._table.files)
        )

    def _fields(self, columns: Sequence[str]) -> list[tuple[str, Any]]:
        return [field for field in self.schema if not columns or field[0] in columns]

    def _files(self) -> Iterator[tuple[int, str, str]]:
        for number, fragment in enumerate(islice(self._table.files, _FRAGMENTS_MAX)):
            for file in fragment.files:
                yield number, file.location, "" if not file.size else f"{file.size:,}"

    def summary_json(self, columns: Sequence[str]) -> dict[str, Any]:
        return {
            "row_count": self._table.row_count,
            "deleted_row_count": self._deleted_count,
            "fragment_count": len(self._table.files),
            "schema": [{"name": name, "type": str(kind)} for name, kind in self._fields(columns)],
        }

    def files_json(self, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
        for number, fragment in enumerate(self._table.files):
            for file in fragment.files:
                yield {"fragment": number, "name": file.location, "size": file.size}
