"""Tables of Parquet files, for tests that look into them."""

from __future__ import annotations

from typing import Any

from querymode.catalog import files
from querymode.table.files import FileTable


def open_table(where: Any, *arguments: Any, **options: Any) -> FileTable:
    table = files.open_table(where, *arguments, **options)
    assert isinstance(table, FileTable)
    return table
