"""Every record of every file: in memory and from Parquet, with one thread and with two, against DuckDB."""

from __future__ import annotations

import duckdb
import pyarrow.parquet as pq
import pytest

from querymode import QueryMode, QueryModeError
from querymode.sql.output_names import unique_names
from tests.slt.data import tables
from tests.slt.runner import Record, records, same_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

RECORDS = records()
#: Small enough for several lanes.
ROW_GROUP_SIZE = 700


@pytest.fixture(scope="module")
def oracle() -> Any:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for name, table in tables().items():
        connection.register(name, table)
    return connection


@pytest.fixture(scope="module")
def answers() -> dict[str, tuple[list[str], list[tuple[object, ...]]]]:
    """What DuckDB said, so that it is asked once a record."""
    return {}


@pytest.fixture(scope="module", params=["memory-1", "memory-2", "parquet-1", "parquet-2"])
def session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> QueryMode:
    kind, threads = request.param.split("-")
    qm = QueryMode.local(threads=int(threads))
    for name, table in tables().items():
        if kind == "memory":
            qm.register(name, table)
        else:
            path = tmp_path_factory.mktemp("slt") / f"{name}.parquet"
            pq.write_table(table, path, row_group_size=ROW_GROUP_SIZE)
            qm.register(name, path)
    return qm


@pytest.mark.parametrize("record", RECORDS, ids=[record.place for record in RECORDS])
def test_record(record: Record, session: QueryMode, oracle: Any, answers: dict[str, Any]) -> None:
    if record.error is not None:
        with pytest.raises(QueryModeError) as caught:
            session.sql(record.sql).collect()
        assert caught.value.code == record.error, str(caught.value)
        return
    result = session.sql(record.sql).collect()
    rows = result.rows
    if session.threads > 1:  # answers for Arrow leave the engine another way
        arrow = session.sql(record.sql).to_arrow()
        assert arrow.schema == result.to_arrow().schema
        assert str(arrow.to_pylist()) == str(result.to_arrow().to_pylist())
    ours = [tuple(row.values()) for row in rows]
    if record.differs:
        return
    if record.place not in answers:
        relation = oracle.sql(record.sql)
        answers[record.place] = relation.columns, relation.fetchall()
    names, theirs = answers[record.place]
    assert same_rows(ours, theirs, record.ordered), f"ours {ours[:20]}\nDuckDB {theirs[:20]}"
    if rows:
        assert list(rows[0]) == unique_names(names)
