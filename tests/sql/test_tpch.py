"""TPC-H's 22 queries at a tenth of its smallest scale: the rows of DuckDB, and the joins we want."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from querymode import QueryMode
from querymode.sql import plan_sql
from tests.slt.runner import same_rows
from tests.sql.shapes import joins

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

QUERIES = Path(__file__).parents[2] / "benchmarks" / "tpch"
TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tpch")
    program = Path(sys.executable).parent / "tpchgen-cli"
    subprocess.run([program, "parquet", "-s", "0.1", "--output-dir", folder], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def session(files: Path) -> QueryMode:
    qm = QueryMode.local(threads=2)
    for name in TABLES:
        qm.register(name, files / f"{name}.parquet")
    return qm


@pytest.fixture(scope="module")
def oracle(files: Path) -> Any:
    connection = duckdb.connect()
    for name in TABLES:
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM '{files / name}.parquet'")
    return connection


def text(number: int) -> str:
    return (QUERIES / f"q{number:02}.sql").read_text()


@pytest.mark.parametrize("number", range(1, 23))
def test_rows(number: int, session: QueryMode, oracle: Any) -> None:
    theirs = oracle.sql(text(number))
    rows = session.sql(text(number)).collect().rows
    ours = [tuple(row.values()) for row in rows]
    # All of them are ordered, but some leave ties open.
    assert same_rows(ours, theirs.fetchall(), ordered=False)
    assert not rows or list(rows[0]) == theirs.columns


@pytest.mark.parametrize("number", range(1, 23))
def test_joins_have_keys(number: int, session: QueryMode) -> None:
    """Nothing is computed for outer values; a join without keys gets them from WHERE, or is of one row."""
    for join in joins(plan_sql(session, text(number))):
        assert join.kind in ("inner", "left", "semi", "anti", "mark", "cross")
        assert not join.null_equal
        assert join.keys or join.kind == "cross"
