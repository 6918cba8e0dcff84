"""`querymode head` and `querymode count`."""

from __future__ import annotations

from querymode.output.cells import dump_json, printable, shortened, to_json, to_text
from querymode.output.text_table import display_width, is_number, is_terminal, print_table, terminal_width
from querymode.session import QueryMode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from querymode.frame.frame import DataFrame
    from querymode.output.result import Result

#: Longer cells are cut: on a terminal, and elsewhere.
TERMINAL_CELL_MAX = 60
CELL_MAX = 200
#: What a drawn column takes besides its text.
_BORDER = 3


def run_count(paths: list[str], *, as_json: bool) -> None:
    count = open_table(paths).count()
    print(dump_json({"row_count": count}) if as_json else count)


def run_head(paths: list[str], *, count: int, columns: list[str], as_json: bool) -> None:
    frame = open_table(paths)
    if columns:
        frame = frame.select(*columns)
    if as_json:
        _print_json(frame.head(count).collect())
    elif is_terminal():
        _draw(frame, count)
    else:
        result = frame.head(count).collect()
        _print_columns(result, _cells(result, CELL_MAX))


def open_table(paths: list[str]) -> DataFrame:
    return QueryMode.local().table(paths[0] if len(paths) == 1 else paths)


def _values(result: Result) -> Iterator[list[list[Any]]]:
    """By batch, the values of each column. Names may repeat, so rows as dicts would lose some."""
    from querymode.qmcb import column_values, decode_columnar_batch

    for batch in result.to_qmcb():
        yield [column_values(column) for column in decode_columnar_batch(batch).columns]


def _print_json(result: Result) -> None:
    """An array, one row a line."""
    lines = []
    for columns in _values(result):
        for values in zip(*columns, strict=True):
            row = dict(zip(result.columns, map(to_json, values), strict=True))
            lines.append(dump_json(row))
    print("[" + ",\n ".join(lines) + "]")


def _cells(result: Result, width: int) -> list[list[str]]:
    """By column."""
    cells: list[list[str]] = [[] for _ in result.columns]
    for columns in _values(result):
        for target, values in zip(cells, columns, strict=True):
            target += (shortened(to_text(value), width) for value in values)
    return cells


def _print_columns(result: Result, cells: list[list[str]]) -> None:
    kinds = [str(data_type) for _, data_type in result.schema][: len(cells)]
    titles = [printable(name) for name in result.columns][: len(cells)]
    print_table(titles, list(zip(*cells, strict=True)), [is_number(kind) for kind in kinds])


def _draw(frame: DataFrame, count: int) -> None:
    """As many columns as the terminal has room for, and not many more are read."""
    names, width = frame.columns, terminal_width()
    possible = max(1, width // (_BORDER + 1))
    named = names[:possible]
    if len(names) > possible and all(names.count(name) == 1 for name in named):
        result = frame.select(*named).head(count).collect()
    else:
        result = frame.head(count).collect()
    cells = _cells(result, TERMINAL_CELL_MAX)
    fitting = _fitting([[name, *column] for name, column in zip(result.columns, cells, strict=True)], width)
    _print_columns(result, cells[:fitting])
    rows = frame.count()
    print(f"{min(count, rows):,} of {rows:,} rows")
    if fitting < len(names):
        print(f"{len(names) - fitting:,} more columns; --column NAME picks some, --json has all")


def _fitting(columns: list[list[str]], width: int) -> int:
    """How many of the columns fit, at least one."""
    taken = 1
    for index, column in enumerate(columns):
        taken += _BORDER + max(map(display_width, column))
        if taken > width:
            return max(1, index)
    return len(columns)
