"""Expressions over a table, in two spellings, compared with DuckDB column by column."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa

from querymode import Expr, QueryMode

ORACLE = duckdb.connect()
ORACLE.execute("SET TimeZone = 'UTC'")
ORACLE.execute("SET threads = 1")

#: A DataFrame expression and the same in SQL.
Cases = list[tuple[Expr, str]]


def check(table: pa.Table, cases: Cases) -> None:
    """Each case alone gives what DuckDB gives, in value and type."""
    ORACLE.register("t", table)
    items = ", ".join(f"{sql} AS c{number}" for number, (_, sql) in enumerate(cases))
    theirs = ORACLE.sql(f"SELECT {items} FROM t").to_arrow_table()
    frame = QueryMode.from_arrow(table)
    ours = frame.select(*[expr.alias(f"c{number}") for number, (expr, _) in enumerate(cases)]).to_arrow()
    wrong = []
    for number, (expr, sql) in enumerate(cases):
        a, b = ours.column(number), theirs.column(number)
        if a.type != b.type:
            wrong.append(f"{expr}: {a.type}, not {b.type} as {sql}")
            continue
        if a.equals(b):
            continue
        pairs = enumerate(zip(_plain(a), _plain(b), strict=True))
        for row, (x, y) in [(row, pair) for row, pair in pairs if _differ(*pair)][:3]:
            wrong.append(f"{expr}: {x!r}, not {y!r} as {sql}, for {table.slice(row, 1).to_pylist()[0]}")
    assert not wrong, "\n".join(wrong)


def _plain(column: Any) -> list[Any]:
    """Values that Python can hold: its dates end in 9999."""
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(column.type) or pa.types.is_time64(column.type):
        column = column.cast(pa.int64())
    values: list[Any] = column.to_pylist()
    return values


def _differ(a: Any, b: Any) -> bool:
    return a != b and not (a != a and b != b)
