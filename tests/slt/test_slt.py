"""Every record of every file: our answers, in memory and from Parquet, with one thread and two; DuckDB's."""

from __future__ import annotations

import duckdb
import pyarrow.parquet as pq
import pytest

from querymode import QueryMode
from tests.raises import raises_code
from tests.slt.data import tables
from tests.slt.oracle import ask_duckdb, connect, session_in_memory, spell_result
from tests.slt.runner import Record, as_in_file, paths, read, records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

RECORDS = records()
ANSWERED = [record for record in RECORDS if record.error is None]
#: Small enough for several lanes.
ROW_GROUP_SIZE = 700


@pytest.fixture(scope="module")
def oracle() -> Any:
    return connect()


@pytest.fixture(scope="module", params=["memory-1", "memory-2", "parquet-1", "parquet-2"])
def session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> QueryMode:
    kind, threads = request.param.split("-")
    if kind == "memory":
        return session_in_memory(int(threads))
    qm = QueryMode.local(threads=int(threads))
    for name, table in tables().items():
        path = tmp_path_factory.mktemp("slt") / f"{name}.parquet"
        pq.write_table(table, path, row_group_size=ROW_GROUP_SIZE)
        qm.register(name, path)
    return qm


def wanted(record: Record) -> list[str]:
    assert record.answer is not None, "no rows yet: python -m tests.slt.write"
    return record.answer.lines()


@pytest.mark.parametrize("record", RECORDS, ids=[record.place for record in RECORDS])
def test_record(record: Record, session: QueryMode) -> None:
    if record.error is not None:
        with raises_code(record.error):
            session.sql(record.sql).collect()
        return
    result = session.sql(record.sql).collect()
    if session.threads > 1:  # answers for Arrow leave the engine another way
        arrow = session.sql(record.sql).to_arrow()
        assert arrow.schema == result.to_arrow().schema
        assert str(arrow.to_pylist()) == str(result.to_arrow().to_pylist())
    assert as_in_file(spell_result(result), record).lines() == wanted(record)


@pytest.mark.parametrize("record", ANSWERED, ids=[record.place for record in ANSWERED])
def test_duckdb_agrees(record: Record, oracle: Any) -> None:
    if record.differs is None:
        assert as_in_file(ask_duckdb(oracle, record.sql), record).lines() == wanted(record)
        return
    try:
        answer = as_in_file(ask_duckdb(oracle, record.sql), record)
    except duckdb.Error:
        return
    assert answer.lines() != wanted(record), "DuckDB gives this, too: `differs:` is out of date"


@pytest.mark.parametrize("path", paths(), ids=[path.stem for path in paths()])
def test_files_are_as_they_would_be_written(path: Path) -> None:
    """Nothing in a file is overlooked by whoever reads it; rows without an order stand in ours."""
    written = []
    for record in read(path):
        answer = record.answer
        if answer is not None and not record.is_ordered:
            record = record._replace(answer=answer.sorted())
        written.append("\n".join(record.lines()))
    assert path.read_text() == "\n\n".join(written) + "\n"
