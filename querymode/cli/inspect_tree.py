"""`querymode inspect` of formats that say what there is to see as a tree of plain values.

A fact is a line; facts of facts are a heading with lines below; facts of many things alike are a table.
"""

from __future__ import annotations

from querymode.cli.cut_table import print_cut
from querymode.errors import error
from querymode.output.cells import dump_json, printable, to_json, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from querymode.cli.inspect import Picked
    from querymode.format.format import Report


def print_tree_report(report: Report, picked: Picked, *, as_json: bool) -> None:
    if picked.row_groups or picked.pages:
        raise error(
            "NOT_SUPPORTED", "these files have no row groups and no pages to pick; --column NAME does"
        )
    tree = report.tree(picked.columns)
    if as_json:
        print(dump_json(to_json(tree)))
    else:
        _print_facts(tree)


def _print_facts(facts: dict[str, Any]) -> None:
    plain = {name: value for name, value in facts.items() if not isinstance(value, (dict, list))}
    width = max(map(len, plain), default=0)
    for name, value in plain.items():
        print(f"{printable(name):{width}}  {_cell(value)}")
    for name, value in facts.items():
        if isinstance(value, dict):
            print(f"\n{printable(name)}")
            _print_facts(value)
        elif isinstance(value, list):
            print(f"\n{printable(name)}")
            _print_table(value)


def _print_table(rows: Sequence[Any]) -> None:
    """Things alike have facts of the same names."""
    if not rows or not isinstance(rows[0], dict):
        print(", ".join(map(_cell, rows)))
        return
    titles = list(rows[0])
    right = [isinstance(rows[0][title], int) for title in titles]
    print_cut(titles, [[_cell(row[title]) for title in titles] for row in rows], right)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else to_text(value)
