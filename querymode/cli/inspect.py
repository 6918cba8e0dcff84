"""`querymode inspect`: what files are made of; those of Parquet here, others by what they say themselves."""

from __future__ import annotations

from itertools import islice

from querymode.cli.cut_table import LINES_MAX, print_cut
from querymode.cli.inspect_any import print_report
from querymode.cli.rows import open_table
from querymode.errors import column_not_found, error
from querymode.frame.report import report_of
from querymode.output.cells import dump_json, printable, shortened, to_json, to_text
from querymode.output.text_table import is_terminal, print_table
from querymode.types import is_nested

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from querymode.format.parquet.report import FileReport, SchemaNode, TableReport

#: Pages of a list, unless somebody picked them.
PAGES_MAX = 10
_BOUND_WIDTH = 32


class Picked:
    """Which row groups and columns somebody wants to see; empty: all of them."""

    def __init__(self, row_groups: Sequence[int], columns: Sequence[str], *, pages: bool) -> None:
        self.row_groups = list(dict.fromkeys(row_groups))
        self.columns = list(dict.fromkeys(columns))
        self.pages = pages

    @property
    def has_choice(self) -> bool:
        return bool(self.row_groups or self.columns)

    def groups_of(self, report: FileReport) -> list[int]:
        count = report.footer.row_group_count
        return [number for number in self.row_groups or range(count) if number < count]

    def leaves_of(self, report: FileReport) -> list[int]:
        return [index for index, leaf in enumerate(report.leaves) if self.has(leaf.path)]

    def has(self, path: str) -> bool:
        """Whether the path, or one that it lies in, is picked."""
        return not self.columns or any(f"{path}.".startswith(f"{name}.") for name in self.columns)

    def check(self, table: TableReport) -> None:
        """Whatever was named must be in some file."""
        count = table.row_group_count()
        for number in self.row_groups:
            if number >= count:
                raise error(
                    "QUERY_FAILED", f"there is no row group {number}; there are {count}, counted from 0"
                )
        if self.columns:
            paths = table.paths()
            for name in self.columns:
                if name not in paths:
                    raise column_not_found(name, paths)


def run_inspect(paths: list[str], picked: Picked, *, as_json: bool) -> None:
    table = report_of(open_table(paths))
    if table.no_groups is not None:
        if picked.row_groups or picked.pages:
            raise error("NOT_SUPPORTED", f"{table.no_groups}; --column NAME can be picked")
        print_report(table, picked.columns, as_json=as_json)
        return
    picked.check(table)
    if as_json:
        _print_json(table, picked)
    elif table.file_count == 1:
        _print_file(next(table.files()), picked)
    else:
        _print_files(table, picked)


# ---- JSON ----


def _print_json(table: TableReport, picked: Picked) -> None:
    head = {
        "row_count": table.row_count,
        "schema": [{"name": name, "type": str(data_type)} for name, data_type in table.schema],
    }
    start = dump_json(head)[:-1] + ', "files": [\n'
    for report in table.files():
        text = dump_json(to_json(_file(report, picked)))
        print(start + text, end="")
        start = ",\n"
    print("]}")


def _file(report: FileReport, picked: Picked) -> dict[str, Any]:
    leaves = picked.leaves_of(report)
    report.load_bounds(leaves)
    return {
        **report.summary(),
        "schema": [node.to_dict() for node in report.schema],
        "row_groups": [_row_group(report, number, leaves, picked) for number in picked.groups_of(report)],
    }


def _row_group(report: FileReport, number: int, leaves: list[int], picked: Picked) -> dict[str, Any]:
    chunks = []
    for leaf in leaves:
        chunk = report.chunk(number, leaf)
        if picked.pages:
            chunk["pages"] = report.pages(number, leaf)
        chunks.append(chunk)
    return {**report.row_group(number), "chunks": chunks}


# ---- text ----


def _print_files(table: TableReport, picked: Picked) -> None:
    print(f"{table.file_count:,} files, {table.row_count:,} rows")
    print("\nschema")
    print_cut(
        ["column", "type"],
        [(printable(name), str(data_type)) for name, data_type in table.schema],
        [False, False],
    )
    print("\nfiles")
    numbers = [
        (printable(file.name), file.footer.row_count, file.footer.row_group_count, file.footer.file_size)
        for file in islice(table.files(), LINES_MAX + 1)
    ]
    rows = [(name, *(f"{number:,}" for number in counts)) for name, *counts in numbers]
    titles = ["file", "rows", "row groups", "bytes"]
    print_cut(titles, rows, [False, True, True, True], table.file_count)
    if not picked.has_choice and not picked.pages:
        print("\ninspect one of them, or pick with --row-group or --column, to see row groups and columns")
        return
    for report in table.files():
        print()
        _print_file(report, picked)


def _print_file(report: FileReport, picked: Picked) -> None:
    summary = report.summary()
    print(printable(report.name))
    print(f"created by  {printable(summary['created_by']) or '(unknown)'}")
    print(f"size        {summary['size']:,} bytes")
    print(f"rows        {summary['row_count']:,} in {summary['row_group_count']:,} row groups")
    print(f"columns     {summary['column_count']:,} ({summary['leaf_count']:,} leaves)")
    print("\nschema")
    print_cut(
        ["column", "type", "physical type"],
        [row for node in report.schema for row in _schema_rows(node, picked)],
        [False, False, False],
        whole=bool(picked.columns),
    )
    groups = picked.groups_of(report)
    print("\nrow groups")
    titles = ["row group", "rows", "first row", "offset", "compressed", "uncompressed"]
    shown = groups if picked.row_groups else groups[: LINES_MAX + 1]
    rows = [[f"{number:,}" for number in report.row_group(group).values()] for group in shown]
    print_cut(titles, rows, [True] * 6, len(groups), whole=bool(picked.row_groups))
    _print_groups(report, groups, picked)


def _schema_rows(node: SchemaNode, picked: Picked, depth: int = 0) -> Iterator[tuple[str, str, str]]:
    children = [row for child in node.children for row in _schema_rows(child, picked, depth + 1)]
    if children or picked.has(node.path):
        kind = _kind(node) if is_nested(node.type) else str(node.type)
        physical = node.physical or ""
        yield (
            "  " * depth + printable(node.name),
            kind if node.nullable else f"{kind} not null",
            physical if node.width is None else f"{physical}({node.width})",
        )
        yield from children


def _kind(node: SchemaNode) -> str:
    return str(node.type).partition("<")[0]


def _print_groups(report: FileReport, groups: list[int], picked: Picked) -> None:
    leaves = picked.leaves_of(report)
    left = None if picked.has_choice else LINES_MAX
    for position, group in enumerate(groups):
        if left is not None and position and len(leaves) > left:
            print(
                f"\n… {len(groups) - position:,} more row groups; --row-group N or --column NAME picks some, "
                "--json has all"
            )
            return
        shown = leaves if left is None else leaves[:left]
        left = None if left is None else left - len(shown)
        print(f"\nrow group {group:,}")
        report.load_bounds(shown)
        _print_chunks([report.chunk(group, leaf) for leaf in shown])
        if len(shown) < len(leaves):
            print(f"… {len(leaves) - len(shown):,} more columns; --column NAME picks some, --json has all")
        if picked.pages:
            for leaf in shown:
                _print_pages(report, group, leaf, whole=bool(picked.columns and picked.row_groups))


_CHUNK_TITLES = (
    *("column", "codec", "encodings", "compressed", "uncompressed", "values", "nulls"),
    *("min", "max", "dictionary", "page index", "bloom filter"),
)
_CHUNK_RIGHT = [title in ("compressed", "uncompressed", "values", "nulls") for title in _CHUNK_TITLES]


def _print_chunks(chunks: list[dict[str, Any]]) -> None:
    rows = [
        (
            printable(chunk["column"]),
            chunk["codec"],
            " ".join(chunk["encodings"]),
            *(_number(chunk[key]) for key in ("compressed_size", "uncompressed_size")),
            *(_number(chunk[key]) for key in ("value_count", "null_count")),
            _bound(chunk, "min", "≥ "),
            _bound(chunk, "max", "≤ "),
            _dictionary(chunk),
            _index(chunk),
            _bloom(chunk),
        )
        for chunk in chunks
    ]
    # Twelve columns do not fit a terminal, so there it is two tables.
    count = len(_CHUNK_TITLES)
    parts = ([0, 1, 2, 3, 4, 5], [0, *range(6, count)]) if is_terminal() else [range(count)]
    for part in parts:
        cells = [[row[index] for index in part] for row in rows]
        titles, right = _CHUNK_TITLES, _CHUNK_RIGHT
        print_table([titles[index] for index in part], cells, [right[index] for index in part])


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _bound(chunk: dict[str, Any], side: str, about: str) -> str:
    """A bound that need not be a value is marked; one that the engine does not believe is not shown."""
    if chunk["bounds"] == "not trusted":
        return "(not trusted)"
    if chunk[side] is None:
        return ""
    mark = "" if chunk[f"is_{side}_exact"] else about
    return mark + shortened(to_text(chunk[side]), _BOUND_WIDTH)


def _dictionary(chunk: dict[str, Any]) -> str:
    if chunk["dictionary_size"] is None:
        return "no"
    return f"{chunk['dictionary_size']:,} bytes" + (", all pages" if chunk["is_all_dictionary"] else "")


def _index(chunk: dict[str, Any]) -> str:
    if chunk["offset_index"] is None:
        return "no"
    return "yes" if chunk["column_index"] is not None else "offsets only"


def _bloom(chunk: dict[str, Any]) -> str:
    span = chunk["bloom_filter"]
    if span is None:
        return "no"
    return "yes" if span["size"] is None else f"{span['size']:,} bytes"


_PAGE_TITLES = {
    "number": "page",
    "type": "type",
    "encoding": "encoding",
    "offset": "offset",
    "compressed_size": "compressed",
    "uncompressed_size": "uncompressed",
    "value_count": "values",
    "row_count": "rows",
    "null_count": "nulls",
}


def _print_pages(report: FileReport, group: int, leaf: int, *, whole: bool) -> None:
    pages = report.pages(group, leaf, None if whole else PAGES_MAX + 1)
    print(f"\npages of {printable(report.leaves[leaf].path)} in row group {group:,}")
    rows = []
    for page in pages if whole else pages[:PAGES_MAX]:
        values = [page[key] for key in _PAGE_TITLES]
        cells = [_number(value) if isinstance(value, int) else value or "" for value in values]
        rows.append([*cells, "no" if page["crc"] is None else f"{page['crc']:08x}"])
    right = [key not in ("type", "encoding") for key in _PAGE_TITLES]
    print_table([*_PAGE_TITLES.values(), "crc"], rows, [*right, False])
    if len(rows) < len(pages):
        print("… and more; --row-group N with --column NAME lists all of a column, --json has all")
