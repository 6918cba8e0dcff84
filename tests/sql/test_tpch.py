"""TPC-H's 22 queries at a tenth of its smallest scale: the rows of DuckDB, and the joins we want."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from querymode import QueryMode
from querymode.sql import plan_sql
from tests.same_rows import same_rows
from tests.sql.shapes import joins
from tests.sql.tpch import NUMBERS, TABLES, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@pytest.fixture(scope="module")
def session(tpch_files: Path) -> QueryMode:
    qm = QueryMode.local(threads=2)
    for name in TABLES:
        qm.register(name, tpch_files / f"{name}.parquet")
    return qm


@pytest.fixture(scope="module")
def oracle(tpch_files: Path) -> Any:
    connection = duckdb.connect()
    for name in TABLES:
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM '{tpch_files / name}.parquet'")
    return connection


@pytest.mark.parametrize("number", NUMBERS)
def test_rows(number: int, session: QueryMode, oracle: Any) -> None:
    theirs = oracle.sql(text(number))
    rows = session.sql(text(number)).collect().rows
    ours = [tuple(row.values()) for row in rows]
    # All of them are ordered, but some leave ties open.
    assert same_rows(ours, theirs.fetchall())
    assert not rows or list(rows[0]) == theirs.columns


@pytest.mark.parametrize("number", NUMBERS)
def test_joins_have_keys(number: int, session: QueryMode) -> None:
    """Nothing is computed for outer values; a join without keys gets them from WHERE, or is of one row."""
    for join in joins(plan_sql(session, text(number))):
        assert join.kind in ("inner", "left", "semi", "anti", "mark", "cross")
        assert not join.null_equal
        assert join.keys or join.kind == "cross"
