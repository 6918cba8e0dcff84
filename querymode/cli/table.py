"""A result as a table for people."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from querymode.result import Result

_RIGHT = ("int", "uint", "float", "decimal")


def print_table(result: Result) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(header_style="bold", show_edge=True)
    for name, kind in result.dtypes().items():
        table.add_column(Text(name), justify="right" if kind.startswith(_RIGHT) else "left")
    for row in result.rows:
        table.add_row(*(Text(_cell(value), style="dim" if value is None else "") for value in row.values()))
    Console(highlight=False).print(table)


def _cell(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:,.2f}" if abs(value) < 1e15 else f"{value:g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)
