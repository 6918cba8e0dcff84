"""`querymode inspect` of text files: how they were found to be written, and how they are cut."""

from __future__ import annotations

from itertools import islice

from querymode.cli.cut_table import LINES_MAX, print_cut
from querymode.errors import column_not_found, error
from querymode.output.cells import dump_json, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from querymode.format.text.report import TextFileReport, TextTableReport


def print_text_report(table: TextTableReport, columns: Sequence[str], *, as_json: bool) -> None:
    """`columns`: those that somebody wants to see; none: all of them."""
    names = [name for name, _ in table.schema]
    for name in columns:
        if name not in names:
            raise column_not_found(name, names)
    if as_json:
        _print_json(table, columns)
    elif table.file_count == 1:
        _print_file(next(table.files()), columns)
    else:
        _print_files(table, columns)


def refuse_row_groups() -> None:
    raise error("NOT_SUPPORTED", "text files have no row groups and no pages; --column NAME can be picked")


def _shown(fields: Any, columns: Sequence[str]) -> list[tuple[str, str]]:
    return [(name, str(kind)) for name, kind in fields if not columns or name in columns]


def _json_columns(fields: Any, columns: Sequence[str]) -> list[dict[str, str]]:
    return [{"name": name, "type": kind} for name, kind in _shown(fields, columns)]


def _print_json(table: TextTableReport, columns: Sequence[str]) -> None:
    head = {
        "row_count": None,  # known when everything has been read
        "rows_expected": table.rows_expected,
        "schema": _json_columns(table.schema, columns),
    }
    start = dump_json(head)[:-1] + ', "files": [\n'
    for report in table.files():
        file = {
            **report.summary(),
            "schema": _json_columns(report.columns, columns),
            "pieces": report.pieces_listed(),
        }
        print(start + dump_json(file), end="")
        start = ",\n"
    print("]}")


def _print_columns(fields: Any, columns: Sequence[str]) -> None:
    print("\nschema")
    rows = [(printable(name), kind) for name, kind in _shown(fields, columns)]
    print_cut(["column", "type"], rows, [False, False], whole=bool(columns))


def _print_files(table: TextTableReport, columns: Sequence[str]) -> None:
    print(f"{table.file_count:,} files, about {table.rows_expected:,} rows")
    _print_columns(table.schema, columns)
    print("\nfiles")
    rows = [
        (printable(file.name), _format(file), _dialect(file), f"{file.size:,}", f"{len(file.pieces):,}")
        for file in islice(table.files(), LINES_MAX + 1)
    ]
    titles = ["file", "format", "dialect", "bytes", "pieces"]
    print_cut(titles, rows, [False, False, False, True, True], table.file_count)
    print("\ninspect one of them to see its pieces")


def _print_file(report: TextFileReport, columns: Sequence[str]) -> None:
    summary = report.summary()
    print(printable(report.name))
    print(f"format      {_format(report)}")
    print(f"size        {report.size:,} bytes")
    if report.dialect():
        print(f"dialect     {_dialect(report)}")
    rows, size = summary["head_row_count"], summary["head_size"]
    print(f"looked at   {rows:,} rows in the first {size:,} bytes")
    print(f"columns     {summary['column_count']:,}")
    _print_columns(report.columns, columns)
    print("\npieces")
    spans = [
        [f"{number:,}", f"{start:,}", "(unknown)" if report.is_packed else f"{end:,}"]
        for number, (start, end) in enumerate(report.pieces[: LINES_MAX + 1])
    ]
    print_cut(["piece", "first byte", "end"], spans, [True, True, True], len(report.pieces))


def _format(report: TextFileReport) -> str:
    packed = f", packed with {report.compression.name}" if report.is_packed else ""
    return f"{report.format.name}{packed}"


def _dialect(report: TextFileReport) -> str:
    said = report.dialect()
    if not said:
        return ""
    words = [f"delimiter {said['delimiter']!r}"]
    words += [f"{key} {said[key]!r}" for key in ("quote", "escape") if said[key] is not None]
    words.append("names in the first row" if said["header"] else "no names in the first row")
    if said["null_strings"]:
        words.append("NULL is " + " or ".join(map(repr, said["null_strings"])))
    return ", ".join(words)
