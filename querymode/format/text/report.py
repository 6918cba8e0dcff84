"""What text files were found to look like, as plain values: dialect, columns, pieces.

Everything comes from the heads that were read when the table was opened; nothing is read here.
"""

from __future__ import annotations

from querymode._abi import FileFormat, TextCompression, TextHeader
from querymode.engine.text_options import OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Literal

    from querymode.table.text import TextFile, TextTable


class TextTableReport:
    """All files of a table."""

    kind: Literal["text"] = "text"

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
