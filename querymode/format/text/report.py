"""What text files were found to look like, as plain values: dialect, columns, pieces.

Everything comes from the heads that were read when the table was opened; nothing is read here.
"""

from __future__ import annotations

from querymode._abi import FileFormat, TextCompression, TextHeader
from querymode.engine.text_options import OPTIONS
from querymode.format.report import Report, Sheet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from querymode.table.text import TextFile, TextTable
    from querymode.types import DataType

    Fields = Iterable[tuple[str, DataType]]


class TextTableReport(Report):
    """All files of a table."""

    no_groups = "text files have no row groups and no pages"

    def __init__(self, table: TextTable) -> None:
        self.schema = table.schema
        self.rows_expected = table.rows_expected
        self.file_count = len(table.files)
        self._table = table

    def files(self) -> Iterator[TextFileReport]:
        pieces: list[list[tuple[int, int]]] = [[] for _ in self._table.files]
        for lane in self._table.lanes:
            for piece in lane:
                pieces[piece.file].append((piece.start, piece.end))
        for file, spans in zip(self._table.files, pieces, strict=True):
            yield TextFileReport(self._table.format, file, spans)

    def facts(self) -> Iterator[tuple[str, str]]:
        if self.file_count == 1:
            yield from next(self.files()).facts()
        else:
            yield "", f"{self.file_count:,} files, about {self.rows_expected:,} rows"

    def sheets(self, columns: Sequence[str]) -> Iterator[Sheet]:
        fields = next(self.files()).columns if self.file_count == 1 else self.schema
        rows = [(name, str(kind)) for name, kind in fields if not columns or name in columns]
        yield Sheet("schema", ("column", "type"), (False, False), rows, len(rows))
        if self.file_count == 1:
            yield next(self.files()).pieces_sheet()
            return
        titles = ("file", "format", "dialect", "bytes", "pieces")
        files = (file.row() for file in self.files())
        yield Sheet("files", titles, (False, False, False, True, True), files, self.file_count)

    def remark(self) -> str | None:
        return None if self.file_count == 1 else "inspect one of them to see its pieces"

    def summary_json(self, columns: Sequence[str]) -> dict[str, Any]:
        return {
            "row_count": None,  # known when everything has been read
            "rows_expected": self.rows_expected,
            "schema": _columns_json(self.schema, columns),
        }

    def files_json(self, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
        for file in self.files():
            yield {
                **file.summary(),
                "schema": _columns_json(file.columns, columns),
                "pieces": file.pieces_listed(),
            }


def _columns_json(fields: Fields, columns: Sequence[str]) -> list[dict[str, str]]:
    return [{"name": name, "type": str(kind)} for name, kind in fields if not columns or name in columns]


class TextFileReport:
    """One file of a table. `pieces`: from which byte to which, where the text is not packed."""

    def __init__(self, format: FileFormat, file: TextFile, pieces: list[tuple[int, int]]) -> None:
        self.name = file.name
        self.size = file.size
        self.format = format
        self.compression = file.head.compression
        self.columns = file.head.columns
        self.pieces = pieces
        self._head = file.head

    @property
    def is_packed(self) -> bool:
        return self.compression != TextCompression.NONE

    def dialect(self) -> dict[str, Any]:
        """How CSV is written; JSON is always written in the same way."""
        if self.format != FileFormat.CSV:
            return {}
        delimiter, quote, escape, header, *_ = OPTIONS.unpack_from(self._head.options)
        return {
            "delimiter": chr(delimiter),
            "quote": chr(quote) if quote else None,
            "escape": chr(escape) if escape else None,
            "header": header == TextHeader.PRESENT,
            "null_strings": self._head.null_strings(),
        }

    def summary(self) -> dict[str, Any]:
        """`head_size`, `head_row_count`: what was looked at to find out the rest. `rows_start`: where the
        first row begins in the unpacked text."""
        head = self._head
        return {
            "name": self.name,
            "format": self.format.name,
            "compression": self.compression.name,
            "size": self.size,
            "dialect": self.dialect(),
            "rows_start": head.rows_start,
            "head_size": head.size,
            "head_row_count": head.row_count,
            "column_count": len(self.columns),
        }

    def pieces_listed(self) -> list[dict[str, int | None]]:
        """The end of packed text is known when it has been read."""
        return [
            {"number": number, "start": start, "end": None if self.is_packed else end}
            for number, (start, end) in enumerate(self.pieces)
        ]

    # ---- in words ----

    def facts(self) -> Iterator[tuple[str, str]]:
        yield "", self.name
        yield "format", self._format_words()
        yield "size", f"{self.size:,} bytes"
        if self.dialect():
            yield "dialect", self._dialect_words()
        yield "looked at", f"{self._head.row_count:,} rows in the first {self._head.size:,} bytes"
        yield "columns", f"{len(self.columns):,}"

    def pieces_sheet(self) -> Sheet:
        spans = (
            (f"{number:,}", f"{start:,}", "(unknown)" if self.is_packed else f"{end:,}")
            for number, (start, end) in enumerate(self.pieces)
        )
        return Sheet("pieces", ("piece", "first byte", "end"), (True, True, True), spans, len(self.pieces))

    def row(self) -> tuple[str, ...]:
        """Among several files."""
        sizes = (f"{self.size:,}", f"{len(self.pieces):,}")
        return (self.name, self._format_words(), self._dialect_words(), *sizes)

    def _format_words(self) -> str:
        packed = f", packed with {self.compression.name}" if self.is_packed else ""
        return f"{self.format.name}{packed}"

    def _dialect_words(self) -> str:
        said = self.dialect()
        if not said:
            return ""
        words = [f"delimiter {said['delimiter']!r}"]
        words += [f"{key} {said[key]!r}" for key in ("quote", "escape") if said[key] is not None]
        words.append("names in the first row" if said["header"] else "no names in the first row")
        if said["null_strings"]:
            words.append("NULL is " + " or ".join(map(repr, said["null_strings"])))
        return ", ".join(words)
