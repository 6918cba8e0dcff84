"""Lance tables for tests: what pylance writes, and what we should read of it.

pylance is asked inside of tests only. Importing it takes half a second, which other tests need not wait for,
and the golden files are read without it.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from querymode import QueryMode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from querymode import DataFrame

#: Versions of data files, oldest first, as pylance's `data_storage_version` calls them.
VERSIONS = ("0.1", "2.0", "2.1", "2.2")
#: Those that are read. A test says when another one could be here.
READS = ("2.0", "2.1", "2.2")


def skip_unless_read(version: str) -> None:
    if version not in READS:
        pytest.skip(f"Lance files {version} are not read yet")


def pylance() -> Any:
    return pytest.importorskip("lance", reason="pylance is not installed; pip install 'querymode[dev]'")


def table_at(session: QueryMode, path: Path, version: int | str | None = None) -> DataFrame:
    """At a version by its number, or a tag by its name."""
    if isinstance(version, str):
        return session.table(path, ref=version)
    return session.table(path, version=version)


def ours(table: pa.Table) -> pa.Table:
    """The table as it comes back from us: of our types, whatever Arrow has beside them."""
    return QueryMode.from_arrow(table).to_arrow()


def known_to_pylance(path: Path | str, version: int | str | None = None, **options: Any) -> pa.Table:
    """What pylance reads, as it should come back from us."""
    return ours(pylance().dataset(str(path), version=version).to_table(**options))
