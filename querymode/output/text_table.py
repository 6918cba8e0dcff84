"""Tables for people: drawn on a terminal, plain aligned text everywhere else."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from querymode.output.result import Result

_RIGHT = ("int", "uint", "float", "decimal")


def is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def terminal_width() -> int:
    from shutil import get_terminal_size

    return get_terminal_size().columns


def is_number(type_name: str) -> bool:
    """Whether columns of the type stand to the right."""
    return type_name.startswith(_RIGHT) and not type_name.startswith("interval")


def print_result(result: Result) -> None:
    kinds = result.dtypes()
    rows = [[_cell(value) for value in row.values()] for row in result.rows]
    print_table(list(kinds), rows, [is_number(kind) for kind in kinds.values()])


def print_table(titles: Sequence[str], rows: Collection[Sequence[str]], right: Sequence[bool]) -> None:
    """`right`: which columns stand to the right. A cell is one line."""
    if is_terminal():
        _draw(titles, rows, right)
    else:
        for line in align(titles, rows, right):
            print(line)


def _draw(titles: Sequence[str], rows: Collection[Sequence[str]], right: Sequence[bool]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(header_style="bold", show_edge=True)
    for title, to_right in zip(titles, right, strict=True):
        table.add_column(Text(title), justify="right" if to_right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell, style="dim" if cell == "NULL" else "") for cell in row))
    Console(highlight=False).print(table)


def align(titles: Sequence[str], rows: Collection[Sequence[str]], right: Sequence[bool]) -> Iterator[str]:
    """Lines of plain text."""
    aligned = Aligned(titles, rows, right)
    yield from aligned.head()
    yield from map(aligned.line, rows)


class Aligned:
    """Plain text in columns, as wide as the titles and these rows need. Wider cells of others are not cut."""

    def __init__(self, titles: Sequence[str], rows: Collection[Sequence[str]], right: Sequence[bool]) -> None:
        self._titles = titles
        self._widths = [max(map(display_width, column)) for column in zip(titles, *rows, strict=True)]
        self._right = right

    def head(self) -> list[str]:
        return [self.line(self._titles), self.line(["-" * width for width in self._widths])]

    def line(self, cells: Sequence[str]) -> str:
        padded = []
        for cell, width, to_right in zip(cells, self._widths, self._right, strict=True):
            padding = " " * (width - display_width(cell))
            padded.append(padding + cell if to_right else cell + padding)
        return "  ".join(padded).rstrip()


def display_width(text: str) -> int:
    """Columns of a terminal."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def _cell(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:,.2f}" if abs(value) < 1e15 else f"{value:g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)
