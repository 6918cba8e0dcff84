"""What the package promises about itself: cheap to import, small, the same bytes from two builds."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import querymode
from querymode.engine.program import load_wasm

HEAVY = ("numpy", "pyarrow", "wasmtime", "sqlglot", "boto3", "pandas", "polars", "google.protobuf", "rich")

LOADED = """
import sys
{statement}
print(*[name for name in {heavy!r} if name in sys.modules])
"""


def loaded_by(statement: str) -> list[str]:
    script = LOADED.format(statement=statement, heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_import_brings_only_the_standard_library() -> None:
    assert loaded_by("import querymode") == []
    assert loaded_by("from querymode import QueryMode, QueryModeError, col, lit") == []


def test_a_small_query_needs_only_the_engine() -> None:
    query = (
        "from querymode import QueryMode, col; "
        "rows = QueryMode.from_json([{'a': 1}, {'a': 2}, {'a': 3}]).filter(col('a') > 1).rows; "
        "assert rows == [{'a': 2}, {'a': 3}], rows"
    )
    assert loaded_by(query) == ["wasmtime"]


@pytest.mark.parametrize("name", querymode.__all__)
def test_public_names_exist(name: str) -> None:
    assert getattr(querymode, name) is not None
    assert name in dir(querymode)


def test_unknown_names_do_not() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = querymode.no_such_name


def test_local_shows_its_options() -> None:
    shown = inspect.signature(querymode.QueryMode.local)
    assert shown.return_annotation == "QueryMode"
    assert [(name, one.default) for name, one in shown.parameters.items()] == [
        ("root", "."),
        ("memory", "2GiB"),
        ("threads", None),
        ("timeout", None),
        ("storage_options", None),
        ("buckets", None),
        ("allowed_paths", None),
        ("allow_network", True),
        ("hardened", False),
    ]
    assert [name for name, one in shown.parameters.items() if one.kind is one.KEYWORD_ONLY] == ["hardened"]
    assert all(f"`{name}`" in (querymode.QueryMode.local.__doc__ or "") for name in ("memory", "hardened"))
    session = querymode.QueryMode.local("/tmp", "64MiB", 3, 2.5)
    assert (session.root, session.memory, session.threads, session.timeout) == ("/tmp", 64 << 20, 3, 2.5)


def test_engine_is_small() -> None:
    """It is compiled when a machine first uses it, at some 2 MB a second."""
    assert len(load_wasm()) <= 3_200_000
