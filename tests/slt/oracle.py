"""What DuckDB and we answer, in the spelling of the files."""

from __future__ import annotations

import duckdb

from querymode import QueryMode
from tests.slt.data import tables
from tests.slt.runner import Answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from querymode import Result

_TYPES = {
    '"NULL"': "null",
    "BOOLEAN": "bool",
    "TINYINT": "int8",
    "SMALLINT": "int16",
    "INTEGER": "int32",
    "BIGINT": "int64",
    "HUGEINT": "int128",
    "UTINYINT": "uint8",
    "USMALLINT": "uint16",
    "UINTEGER": "uint32",
    "UBIGINT": "uint64",
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "VARCHAR": "utf8",
    "BLOB": "binary",
    "DATE": "date",
    "TIME": "time(us)",
    "TIMESTAMP": "timestamp(us)",
    "TIMESTAMP WITH TIME ZONE": "timestamp(us, UTC)",
}


def connect() -> Any:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET threads = 1")  # sums of floats have one order then
    for name, table in tables().items():
        connection.register(name, table)
    return connection


def ask_duckdb(connection: Any, sql: str) -> Answer:
    relation = connection.sql(sql)
    types = [_TYPES.get(str(kind), str(kind).lower()) for kind in relation.types]
    return Answer.of(_unique(relation.columns), types, relation.fetchall())


def _unique(names: list[str]) -> list[str]:
    """A second `id` is `id_1`, as DuckDB's own tables call it; its answers may have two."""
    return [
        f"{name}_{names[:index].count(name)}" if name in names[:index] else name
        for index, name in enumerate(names)
    ]


def session_in_memory(threads: int) -> QueryMode:
    session = QueryMode.local(threads=threads)
    for name, table in tables().items():
        session.register(name, table)
    return session


def spell_result(result: Result) -> Answer:
    types = result.dtypes()
    return Answer.of(list(types), list(types.values()), [tuple(row.values()) for row in result.rows])
