"""Tables over text files: CSV, and JSON with an object a line.

A piece is a run of bytes, and a lane is a piece of a large file or several small files, cut from sizes alone.
A row belongs to the piece that it begins in; a cut may fall inside of quotes, so that what a lane reads is
provisional until the lane before it has said where the next row begins (execute/text.py). How many rows there
are is known when all of it has been read. Packed files are read from front to back, as one piece.
"""

from __future__ import annotations

from typing import NamedTuple

from querymode._abi import FileFormat, TextCompression
from querymode.table.stored import StoredTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Self

    from querymode.format.text.head import Head
    from querymode.schema import Schema
    from querymode.table.files import FragmentFile

#: Bytes of a lane: enough that opening it does not show, and few enough that threads end together.
LANE_SIZE = 8 << 20
LANE_COUNT_MAX = 256
#: The end of a packed file's text, which nobody knows before it is unpacked.
END_UNKNOWN = (1 << 64) - 1


class TextFile:
    """A file of a table. `places`: for every column of the table, where it comes from."""

    __slots__ = ("beginning", "files", "head", "places", "size")

    def __init__(
        self, file: FragmentFile, size: int, head: Head, places: Sequence[bytes], beginning: bytes = b""
    ) -> None:
        self.files = (file,)
        self.size = size
        self.head = head
        self.places = tuple(places)
        #: What its head was found from, if that is kept: scans need not read it again.
        self.beginning = beginning

    def __reduce__(self) -> tuple[Any, ...]:
        # What a scan elsewhere saves is less than what a task would weigh.
        return type(self), (self.files[0], self.size, self.head, self.places)

    @property
    def name(self) -> str:
        return self.files[0].location

    def with_places(self, places: Sequence[bytes]) -> TextFile:
        return TextFile(self.files[0], self.size, self.head, places, self.beginning)


class Piece(NamedTuple):
    """Bytes of a file. `is_first`: it begins where the file's first row does."""

    file: int
    start: int
    end: int
    is_first: bool


class TextTable(StoredTable):
    """Files of one format and one schema."""

    kind = "text"

    def __init__(
        self, schema: Schema, format: FileFormat, files: Sequence[TextFile], name: str | None = None
    ) -> None:
        self.schema = schema
        self.name = name
        self.format = format
        self.files = tuple(files)
        self.lanes = _cut(self.files)

    @property
    def row_count(self) -> int | None:
        return 0 if not self.lanes else None

    @property
    def rows_expected(self) -> int:
        """By the rows of the files' heads."""
        return round(sum(_rows_expected(file) for file in self.files))

    @property
    def lane_count(self) -> int:
        return len(self.lanes)

    def guesses_start(self, lane: int) -> bool:
        return bool(self.lanes) and not self.lanes[lane][0].is_first

    def with_columns(self, schema: Schema, places: Sequence[int]) -> Self:
        files = [file.with_places([file.places[index] for index in places]) for file in self.files]
        return type(self)(schema, self.format, files, self.name)

    def describe(self) -> str:
        files = f"{len(self.files):,} files" if len(self.files) != 1 else self.files[0].name
        size = sum(file.size for file in self.files)
        return f"scan {files}: {self.format.name} of {size:,} bytes in {len(self.lanes):,} pieces"


def _rows_expected(file: TextFile) -> float:
    head = file.head
    seen = head.size - head.rows_start
    if seen <= 0:
        return 0.0
    # Text is packed to a fifth or so.
    packed = 1 if head.compression == TextCompression.NONE else 5
    return float(head.row_count * packed * (file.size - head.rows_start) / seen)


def _cut(files: Sequence[TextFile]) -> list[tuple[Piece, ...]]:
    """Lanes of about the same number of bytes."""
    total = sum(file.size for file in files)
    size = max(LANE_SIZE, -(-total // LANE_COUNT_MAX))
    lanes: list[tuple[Piece, ...]] = []
    small: list[Piece] = []
    held = 0
    for number, file in enumerate(files):
        if file.size == 0:
            continue
        start = file.head.rows_start
        if file.head.compression != TextCompression.NONE:
            pieces = [Piece(number, start, END_UNKNOWN, True)]
        else:
            count = max(1, round((file.size - start) / size))
            cuts = [start + (file.size - start) * place // count for place in range(count + 1)]
            pieces = [Piece(number, cuts[i], cuts[i + 1], i == 0) for i in range(count)]
        if len(pieces) == 1:
            small += pieces
            held += file.size
            if held >= size:
                lanes.append(tuple(small))
                small, held = [], 0
            continue
        if small:
            lanes.append(tuple(small))
            small, held = [], 0
        lanes += [(piece,) for piece in pieces]
    if small:
        lanes.append(tuple(small))
    return lanes
