"""Answers of queries as tables: drawn to fit the terminal, plain aligned text elsewhere, or Markdown.

A terminal shows some rows, and no more are read. Elsewhere all rows are written as they come: columns of text
are as wide as the titles and the first rows need, and a later cell that is wider moves the rest of its line.

┌────┬───────┐
│ id │ name  │      numbers to the right; cells are cut with … where a table would be wider than the
├────┼───────┤      terminal, then columns in the middle are left out, and rows in the middle where
│  1 │ Ada   │      there are many
└────┴───────┘
"""

from __future__ import annotations

import os
import sys
from collections import deque

from querymode.optimize.known_answers import known_row_count
from querymode.output.cells import printable, shortened, to_text
from querymode.output.text_table import Aligned, align, display_width, is_number, is_terminal, terminal_width
from querymode.output.writers import Format, column_batches
from querymode.plan.nodes import comes_whole, text_of
from querymode.plan.snapshots import pinned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any, BinaryIO

    from querymode.frame.frame import DataFrame

#: Rows that are drawn, half of them from the end where that is known.
DRAWN_ROWS_MAX = 40
#: Rows of an answer that comes whole are counted as far as this.
COUNTED_ROWS_MAX = 10_000
CELL_MAX = 200
#: A column is not made narrower than this, but left out.
_COLUMN_WIDTH_MIN = 6
#: What a drawn column takes besides its text.
_BORDER = 3
_GAP = "…"
_BOX = ("┌┬┐", "├┼┤", "└┴┘", "│", "─")
_BOX_ASCII = ("+++", "+++", "+++", "|", "-")


def print_first(frame: DataFrame, count: int) -> None:
    """The first rows, and how many that are."""
    table = TextTable(frame)
    rows = list(_rows(frame.limit(count + 1)))
    shown = rows[:count]
    if is_terminal():
        print("\n".join(table.drawn([table.cells(row) for row in shown])))
    else:
        _print_aligned(table, shown)
    print(f"first {count:,} rows; there are more" if len(rows) > count else counted(len(shown)))


def print_answer(frame: DataFrame) -> None:
    """All rows, on a terminal some of them."""
    text = text_of(frame._node)
    if text is not None:
        print(text)
        return
    if is_terminal():
        _print_preview(frame)
        return
    for _, text in _aligned_parts(TextTable(frame), frame):
        sys.stdout.write(text)
        sys.stdout.flush()  # whoever reads it may need no more


def _print_preview(frame: DataFrame) -> None:
    with frame._session._call():
        frame = frame._with(pinned(frame._node))  # the rows, and how many there are, of the same files
    table = TextTable(frame)
    half = DRAWN_ROWS_MAX // 2
    known = known_row_count(frame._node)
    # What is there anyway is counted; otherwise nothing is read for the sake of a number.
    counted_max = COUNTED_ROWS_MAX if comes_whole(frame._node) else DRAWN_ROWS_MAX
    first: list[Sequence[Any]] = []
    last: deque[Sequence[Any]] = deque(maxlen=half)
    total = 0
    for row in _rows(frame.limit(counted_max + 1)):
        total += 1
        (first if len(first) < DRAWN_ROWS_MAX else last).append(row)
    if total > counted_max:
        print("\n".join(table.drawn([*map(table.cells, first), [_GAP] * len(table.titles)])))
        rows = f"more than {counted(counted_max)}" if known is None else counted(known)
        print(f"{rows}, the first {DRAWN_ROWS_MAX} of them shown")
        return
    cells = [*map(table.cells, (*first, *last))]
    if total > DRAWN_ROWS_MAX:
        cells = [*cells[:half], [_GAP] * len(table.titles), *cells[-half:]]
    print("\n".join(table.drawn(cells)))
    print(counted(total) + (f", {DRAWN_ROWS_MAX} of them shown" if total > DRAWN_ROWS_MAX else ""))


def counted(rows: int) -> str:
    return "1 row" if rows == 1 else f"{rows:,} rows"


def _rows(frame: DataFrame) -> Iterator[tuple[Any, ...]]:
    for columns in column_batches(frame):
        yield from zip(*columns, strict=True)


def _print_aligned(table: TextTable, rows: Iterable[Sequence[Any]]) -> None:
    for line in align(table.titles, [table.cells(row) for row in rows], table.right):
        print(line)


def _aligned_parts(table: TextTable, frame: DataFrame) -> Iterator[tuple[int, str]]:
    """An answer as text, part by part, each with the number of its rows."""
    aligned: Aligned | None = None
    for columns in column_batches(frame):
        rows = [table.cells(row) for row in zip(*columns, strict=True)]
        lines = []
        if aligned is None:
            aligned = Aligned(table.titles, rows, table.right)
            lines = aligned.head()
        lines += map(aligned.line, rows)
        yield len(rows), "\n".join(lines) + "\n"
    if aligned is None:
        yield 0, "\n".join(Aligned(table.titles, (), table.right).head()) + "\n"


class TextTable:
    """Titles and cells of an answer as text."""

    def __init__(self, frame: DataFrame) -> None:
        self.titles = [printable(name) for name in frame.schema.names]
        self.right = [is_number(str(data_type)) for data_type in frame.schema.types]

    def cells(self, row: Sequence[Any]) -> list[str]:
        return [shortened(to_text(value), CELL_MAX) for value in row]

    def drawn(self, rows: list[list[str]]) -> list[str]:
        """Lines that fit the terminal."""
        return _Drawing(self.titles, rows, self.right, terminal_width()).lines()


class _Drawing:
    def __init__(
        self, titles: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool], width: int
    ) -> None:
        columns = [[title, *cells] for title, *cells in zip(titles, *rows, strict=True)]
        widths = [max(map(display_width, column)) for column in columns]
        self._columns, self._right, self._widths = _fitted(columns, list(right), widths, width)
        coding = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "")
        self._box = _BOX if coding.startswith("utf") else _BOX_ASCII
        self._has_colour = is_terminal() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"

    def lines(self) -> list[str]:
        top, middle, bottom, _, _ = self._box
        title, *rows = zip(*self._columns, strict=True)
        lines = [self._rule(top), self._line(title, "\x1b[1m"), self._rule(middle)]
        return [*lines, *(self._line(row) for row in rows), self._rule(bottom)]

    def _rule(self, corners: str) -> str:
        dash = self._box[4]
        return corners[0] + corners[1].join(dash * (width + 2) for width in self._widths) + corners[2]

    def _line(self, cells: Sequence[str], style: str = "") -> str:
        bar = self._box[3]
        shown = [
            self._cell(cell, width, right, style)
            for cell, width, right in zip(cells, self._widths, self._right, strict=True)
        ]
        return f"{bar} " + f" {bar} ".join(shown) + f" {bar}"

    def _cell(self, cell: str, width: int, right: bool, style: str) -> str:
        text = _cut(cell, width)
        padding = " " * (width - display_width(text))
        if not style and cell == "NULL":
            style = "\x1b[2m"
        if style and self._has_colour:
            text = f"{style}{text}\x1b[0m"
        return padding + text if right else text + padding


def _fitted(
    columns: list[list[str]], right: list[bool], widths: list[int], width: int
) -> tuple[list[list[str]], list[bool], list[int]]:
    """Columns that fit: wide ones are made narrower first, then some in the middle go."""
    narrowest = [min(one, _COLUMN_WIDTH_MIN) for one in widths]
    if _total(narrowest) > width and len(columns) > 1:
        first, last = _ends(narrowest, width)
        gap = [_GAP] * len(columns[0])
        columns = [*columns[:first], gap, *columns[len(columns) - last :]]
        right = [*right[:first], False, *right[len(right) - last :]]
        widths = [*widths[:first], 1, *widths[len(widths) - last :]]
    while _total(widths) > width:
        widest = max(widths)
        if widest <= min(_COLUMN_WIDTH_MIN, max(1, width - 4)):
            break
        # The widest columns, as far as the next one, or as far as it takes.
        places = [place for place, one in enumerate(widths) if one == widest]
        below = max((one for one in widths if one < widest), default=_COLUMN_WIDTH_MIN)
        excess = -(-(_total(widths) - width) // len(places))
        target = max(widest - excess, below if below < widest else widest - 1, 1)
        for place in places:
            widths[place] = min(widest - 1, target) if target >= widest else target
    return columns, right, widths


def _total(widths: Sequence[int]) -> int:
    return 1 + sum(width + _BORDER for width in widths)


def _ends(widths: list[int], width: int) -> tuple[int, int]:
    """How many columns of both ends fit beside a gap; at least the first."""
    first, last = 1, 0
    used = _total([widths[0], 1])
    while first + last < len(widths):
        from_end = last < first - 1 or first == len(widths)
        following = widths[len(widths) - 1 - last] if from_end else widths[first]
        used += following + _BORDER
        if used > width:
            break
        first, last = (first, last + 1) if from_end else (first + 1, last)
    return first, last


def _cut(text: str, width: int) -> str:
    if display_width(text) <= width:
        return text
    kept = ""
    for letter in text:
        if display_width(kept + letter) > width - 1:
            break
        kept += letter
    return kept + _GAP if width > 0 else ""


# ---- formats ----


class TableFormat(Format):
    """Plain aligned text, for files."""

    def write(self, frame: DataFrame, file: BinaryIO) -> int:
        total = 0
        for rows, text in _aligned_parts(TextTable(frame), frame):
            file.write(text.encode())
            total += rows
        return total


class MarkdownFormat(Format):
    """A table as GitHub and others read it. Nothing is cut."""

    def write(self, frame: DataFrame, file: BinaryIO) -> int:
        table = TextTable(frame)
        rules = ["---:" if right else "---" for right in table.right]
        for cells in (list(map(_escaped, table.titles)), rules):
            file.write(f"| {' | '.join(cells)} |\n".encode())
        total = 0
        for row in _rows(frame):
            cells = ["" if value is None else _escaped(to_text(value)) for value in row]
            file.write(f"| {' | '.join(cells)} |\n".encode())
            total += 1
        return total


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|")
