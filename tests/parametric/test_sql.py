"""Random SQL, answered by us and by DuckDB."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from querymode import QueryMode, QueryModeError
from tests.parametric.sql_strategies import TABLES, queries
from tests.same_rows import same_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CELL = st.one_of(st.none(), st.integers(0, 4))


@st.composite
def _tables(draw: Any) -> dict[str, pa.Table]:
    found = {}
    for name, columns in TABLES.items():
        rows = draw(st.lists(st.tuples(*[_CELL] * len(columns)), max_size=6))
        found[name] = pa.table(
            {
                column: pa.array([row[place] for row in rows], pa.int32())
                for place, column in enumerate(columns)
            }
        )
    return found


def _ask_duckdb(tables: dict[str, pa.Table], sql: str) -> list[tuple[object, ...]] | None:
    """None where DuckDB itself does not do it."""
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        try:
            return list(connection.sql(sql).fetchall())
        except (duckdb.BinderException, duckdb.NotImplementedException, duckdb.InvalidInputException):
            return None


def _check(tables: dict[str, pa.Table], sql: str) -> None:
    theirs = _ask_duckdb(tables, sql)
    session = QueryMode.local(threads=2)
    for name, table in tables.items():
        session.register(name, table)
    try:
        ours = [tuple(row.values()) for row in session.sql(sql).collect().rows]
    except QueryModeError as failure:
        # Refusing is allowed where we say so; a fault of ours is not.
        assert failure.code in ("NOT_SUPPORTED",) or theirs is None, f"{failure}\n{sql}"
        return
    if theirs is not None:
        assert same_rows(ours, theirs), f"{sql}\nours {ours}\nDuckDB {theirs}"


_SETTINGS: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@given(tables=_tables(), sql=queries())
@settings(max_examples=150, **_SETTINGS)
def test_queries(tables: dict[str, pa.Table], sql: str) -> None:
    _check(tables, sql)


@pytest.mark.soak
@given(tables=_tables(), sql=queries())
@settings(max_examples=10_000, **_SETTINGS)
def test_many_queries(tables: dict[str, pa.Table], sql: str) -> None:
    _check(tables, sql)
