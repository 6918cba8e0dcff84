"""`querymode inspect` of whatever says itself what there is to show of it (format/report.py)."""

from __future__ import annotations

from itertools import islice

from querymode.cli.cut_table import LINES_MAX, print_cut
from querymode.errors import column_not_found
from querymode.output.cells import dump_json, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from querymode.format.report import Report


def print_report(report: Report, columns: Sequence[str], *, as_json: bool) -> None:
    """`columns`: those that somebody wants to see; none: all of them."""
    names = [name for name, _ in report.schema]
    for name in columns:
        if name not in names:
            raise column_not_found(name, names)
    if as_json:
        _print_json(report, columns)
    else:
        _print_text(report, columns)


def _print_json(report: Report, columns: Sequence[str]) -> None:
    start = dump_json(report.summary_json(columns))[:-1] + ', "files": [\n'
    for file in report.files_json(columns):
        print(start + dump_json(file), end="")
        start = ",\n"
    print("]}")


def _print_text(report: Report, columns: Sequence[str]) -> None:
    for label, fact in report.facts():
        print(f"{label:<12}{printable(fact)}" if label else printable(fact))
    for sheet in report.sheets(columns):
        print(f"\n{sheet.title}")
        whole = sheet.title == "schema" and bool(columns)
        rows = islice(sheet.rows, None if whole else LINES_MAX + 1)
        shown = [[printable(cell) for cell in row] for row in rows]
        print_cut(list(sheet.columns), shown, list(sheet.is_number), sheet.row_count, whole=whole)
    remark = report.remark()
    if remark is not None:
        print(f"\n{remark}")
