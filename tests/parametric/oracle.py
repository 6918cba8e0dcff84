"""Functions against DuckDB: one table, one expression in both languages, the same column.

Rows that make DuckDB fail (it says which, by TRY) must fail here too, one by one; all others must be equal in
type and value. Then some rows are asked again with every column replaced by a constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pytest

from querymode import Expr, QueryMode, QueryModeError, col, lit

#: Column name → what stands for it: the column, or a constant.
Columns = Callable[[str], Expr]


class Case(NamedTuple):
    sql: str
    build: Callable[[Columns], Expr]
    #: Greatest difference of floats, relative.
    tolerance: float = 0.0
    #: Columns are replaced by constants too.
    constants: bool = True
    #: Rows at the end of the world that DuckDB refuses may have an answer here.
    lenient: bool = False

    def __str__(self) -> str:
        return self.sql


class Oracle:
    """A table in both engines."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.duck = duckdb.connect()
        self.duck.execute("SET TimeZone = 'UTC'")
        self.duck.register("arrow_table", table)
        self.duck.execute("CREATE TABLE t AS SELECT * FROM arrow_table")
        self.frame = QueryMode.from_arrow(table)
        self.values = {name: plain(table.column(name).combine_chunks()) for name in table.column_names}

    def check(self, case: Case) -> None:
        wanted, failing = self.wanted(case.sql)
        good = [row for row in range(len(wanted)) if row not in failing]
        expr = case.build(col).alias("x")
        frame = (
            self.frame if not failing else QueryMode.from_arrow(self.table.take(pa.array(good, pa.int64())))
        )
        got = frame.select(expr).to_arrow().column("x").combine_chunks()
        assert_same(got, wanted.take(pa.array(good, pa.int64())), case, [self.row(row) for row in good])
        for row in sorted(failing)[: 0 if case.lenient else 6]:
            with pytest.raises(QueryModeError) as caught:
                QueryMode.from_arrow(self.table.slice(row, 1)).select(expr).collect()
            assert caught.value.code == "QUERY_FAILED", (case.sql, self.row(row), caught.value)
        if case.constants:
            self.check_constants(case, wanted, good, failing)

    def wanted(self, sql: str) -> tuple[Any, set[int]]:
        """DuckDB's column, and the rows that it cannot compute."""
        try:
            return self.column(sql), set()
        except duckdb.Error:
            values = self.column(f"TRY({sql})")
            return values, {
                row for row in range(len(values)) if not values[row].is_valid and self.fails(sql, row)
            }

    def column(self, sql: str) -> Any:
        table = self.duck.sql(f"SELECT {sql} AS x FROM t ORDER BY row").to_arrow_table()
        return table.column("x").combine_chunks()

    def fails(self, sql: str, row: int) -> bool:
        try:
            self.duck.execute(f"SELECT {sql} FROM t WHERE row = {row}").fetchall()
        except duckdb.Error:
            return True
        return False

    def row(self, row: int) -> dict[str, Any]:
        return {name: values[row] for name, values in self.values.items()}

    def constants(self, row: int) -> Columns:
        def constant(name: str) -> Expr:
            value: Any = self.table.column(name)[row]
            return lit(value.as_py())

        return constant

    def check_constants(self, case: Case, wanted: Any, good: list[int], failing: set[int]) -> None:
        one = QueryMode.from_arrow(pa.table({"one": [1]}))
        for row in [*good[:: max(1, len(good) // 4)][:5], *sorted(failing)[:1]]:
            try:
                expr = case.build(self.constants(row)).alias("x")
                got = one.select(expr).to_arrow().column("x").combine_chunks()
            except (OverflowError, ValueError):  # a value that Python's types cannot hold
                continue
            except QueryModeError as caught:
                assert caught.code in ("QUERY_FAILED", "INVALID_FILTER"), (case.sql, self.row(row), caught)
                assert row in failing or caught.code == "INVALID_FILTER", (case.sql, self.row(row), caught)
                continue
            assert row not in failing or case.lenient, (case.sql, self.row(row))
            if row in failing:
                continue
            if got.type == wanted.type:
                assert_same(got, wanted.slice(row, 1), case, [self.row(row)])


def assert_same(got: Any, wanted: Any, case: Case, rows: list[dict[str, Any]]) -> None:
    assert got.type == wanted.type, (case.sql, got.type, wanted.type)
    for left, right, row in zip(plain(got), plain(wanted), rows, strict=True):
        assert equal(left, right, case.tolerance), (case.sql, left, right, row)


def plain(array: Any) -> list[Any]:
    """Moments as numbers: Python's own do not reach as far."""
    if pa.types.is_timestamp(array.type) or pa.types.is_time64(array.type):
        return array.cast(pa.int64()).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_date32(array.type):
        return array.cast(pa.int32()).to_pylist()  # type: ignore[no-any-return]
    return array.to_pylist()  # type: ignore[no-any-return]


def equal(left: Any, right: Any, tolerance: float) -> bool:
    if not isinstance(left, float) or not isinstance(right, float):
        return bool(left == right)
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) and math.isnan(right)
    if left == right:
        return True
    return math.isclose(left, right, rel_tol=tolerance, abs_tol=tolerance * 1e-300)
