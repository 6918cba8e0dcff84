"""DataFrame methods that show a query, hand it on, or write its answer to a file."""

from __future__ import annotations

from querymode._checks import row_count
from querymode.errors import error
from querymode.frame.arguments import FrameBase

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from typing import Any

    from querymode.frame.paging import Pages

    Path = str | os.PathLike[str]


class OutputMethods(FrameBase):
    """Ways out."""

    def pipe(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """`function(frame, …)`, so that functions over frames stand in a chain."""
        if not callable(function):
            raise error("QUERY_FAILED", f"pipe takes a function, not {type(function).__name__}")
        return function(self, *arguments, **options)

    def show(self, count: int = 10) -> None:
        """Prints the first `count` rows as a table that fits the terminal."""
        rows = row_count("show", count)
        from querymode.output.answer_table import print_first

        print_first(self._with(self._node), rows)

    def lazy(self) -> Pages:
        """The answer page by page: `lazy().page(offset, count)`; iterating gives its rows one by one."""
        from querymode.frame.paging import Pages

        return Pages(self._with(self._node))

    # ---- as text ----

    def to_descriptor(self) -> str:
        """The query as JSON, which `QueryMode.from_descriptor` makes a frame of again.

        Tables are named as they were opened; it holds no data, no credentials and no Python functions.
        """
        from querymode.plan.descriptor import to_descriptor

        return to_descriptor(self._session, self._node)

    def to_code(self) -> str:
        """The query as Python: an expression over the session, `qm`, and what `from querymode import *` has.

        Lines before it import what else it needs. It builds the same query again.
        """
        from querymode.plan.to_code import to_code

        return to_code(self._session, self._node)

    # ---- files ----

    def write_parquet(
        self,
        path: Path,
        *,
        compression: str = "zstd",
        row_group_size: int = 1 << 20,
        overwrite: bool = False,
    ) -> int:
        """Writes the rows to a Parquet file, as they come, and returns how many there were.

        The file appears when it is complete, or not at all. One that is there already is TABLE_EXISTS,
        unless `overwrite=True`; so it is with the other formats. `row_group_size`: rows of a group, at most.
        """
        from querymode.output.writers import ParquetFormat, write_file

        return write_file(self._with(self._node), path, ParquetFormat(compression, row_group_size), overwrite)

    def write_csv(
        self, path: Path, *, delimiter: str = ",", header: bool = True, overwrite: bool = False
    ) -> int:
        """Writes the rows to a CSV file. NULL is empty and an empty text is `""`.

        Binary values are written in hexadecimal digits; lists, structures, maps and intervals as JSON.
        """
        from querymode.output.writers import CsvFormat, write_file

        return write_file(self._with(self._node), path, CsvFormat(delimiter, header), overwrite)

    def write_json(self, path: Path, *, lines: bool = False, overwrite: bool = False) -> int:
        """Writes the rows to a JSON file: an array with one row a line, or with `lines=True` only the lines.

        Binary values are written in hexadecimal digits; decimals, dates, times, NaN and infinities as text.
        """
        from querymode.output.writers import JsonFormat, write_file

        return write_file(self._with(self._node), path, JsonFormat(lines=bool(lines)), overwrite)

    def write_arrow(self, path: Path, *, overwrite: bool = False) -> int:
        """Writes the rows to an Arrow IPC file (Feather)."""
        from querymode.output.writers import ArrowFormat, write_file

        return write_file(self._with(self._node), path, ArrowFormat(), overwrite)
