"""`scan_udf`: QueryMode inside a Spark UDF that takes paths.

Here is the driver's half: what is asked for, checked at once, and the types that come back. It leaves the
driver as a ScanPlan, plain words and numbers that pickle; worker.py runs it.
"""

from __future__ import annotations

from dataclasses import dataclass

from querymode._version import __version__
from querymode.errors import error
from querymode.expr.nodes import Alias, Expr, condition
from querymode.frame.frame import worded_call

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    import pyarrow as pa
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

    from querymode.errors import QueryModeError
    from querymode.frame.frame import DataFrame

#: What counts and averages are whatever they are taken of; sums, minima and maxima depend on the column.
_TYPES_KNOWN = {"count": "bigint", "avg": "double", "mean": "double"}


@dataclass(frozen=True)
class ScanPlan:
    """What to do with a path. Words, not expressions: it is read by another process, perhaps next week's."""

    columns: tuple[str, ...]
    conditions: tuple[tuple[object, ...], ...]
    #: (name, function, column)
    aggregates: tuple[tuple[str, str, str], ...]
    #: The Arrow struct that Spark wants.
    target: pa.StructType
    memory: int
    version: str = __version__

    def frame(self, table: DataFrame) -> DataFrame:
        return _frame(table, self.columns, self.conditions, self.aggregates)


def scan_udf(
    columns: Sequence[str] | None = None,
    filter: Sequence[object] | None = None,
    aggregate: Mapping[str, tuple[str, str]] | None = None,
    *,
    schema: str | StructType | None = None,
    example: str | os.PathLike[str] | None = None,
    memory: int | str = "256MiB",
) -> Callable[..., Column]:
    """A pandas UDF that reads the file of each path: its rows, or one row of aggregates.

    `columns`: what to return; every column if not given. `filter`: one condition in words, `("id", "gt", 5)`,
    or a list of conditions that must all hold. `aggregate`: names and what they are,
    `{"total": ("sum", "amount"), "n": ("count", "*")}`.

    Spark asks for types beforehand: `schema` says them (`"id bigint, amount double"`), or `example`, the path
    of a file that this process can read and that the others are like. `memory` is what a worker's engine may
    use; see querymode.spark.cast for how our types become Spark's.

    Rows come as array<struct<…>>, so the rows of one path, and of all paths in an Arrow batch, are in memory
    together (`spark.sql.execution.arrow.maxRecordsPerBatch`). Aggregates come as struct<…>. A NULL path gives
    NULL, or a struct of NULLs.

        scan = scan_udf(["id", "amount"], filter=("amount", "gt", 100), example=paths[0])
        spark.createDataFrame([(path,) for path in paths], "path string").select("path", inline(scan("path")))
    """
    from querymode._checks import parse_size
    from querymode.spark.start import require_pyspark

    require_pyspark()
    from pyspark.sql.pandas import functions
    from pyspark.sql.types import ArrayType

    from querymode.spark.cast import arrow_fields
    from querymode.spark.worker import Scan

    conditions = _conditions(filter)
    aggregates = _aggregates(aggregate)
    names = _names(columns)
    if names and aggregates:
        raise error(
            "QUERY_FAILED", "scan_udf returns rows or aggregates: give columns or aggregate, not both"
        )
    returned = _returned(names, conditions, aggregates, schema, example)
    if not aggregates:
        names = tuple(returned.names)
    plan = ScanPlan(names, conditions, aggregates, arrow_fields(returned), parse_size(memory, "memory"))
    untyped: Any = functions  # its stubs know nothing of UDFs by type hints
    pandas_udf: Callable[..., Callable[..., Column]] = untyped.pandas_udf
    scan = Scan(plan)
    if aggregates:
        return pandas_udf(scan.aggregates, returned)
    return pandas_udf(scan.rows, ArrayType(returned))


def _frame(
    table: DataFrame,
    columns: Sequence[str],
    conditions: Sequence[Sequence[Any]],
    aggregates: Sequence[tuple[str, str, str]],
) -> DataFrame:
    if conditions:
        table = table.filter(*[condition(*words) for words in conditions])
    if aggregates:
        return table.agg(*[_call(*words) for words in aggregates])
    return table.select(*columns) if columns else table


def _call(name: str, function: str, column: str) -> Expr:
    return Alias(worded_call(function, column, name)[1], name)


# ---- what was asked for ----


def _names(columns: Sequence[str] | None) -> tuple[str, ...]:
    if columns is None:
        return ()
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    if not names or not all(isinstance(name, str) for name in names):
        raise error("QUERY_FAILED", f"columns={columns!r}; it is a list of at least one column's name")
    return names


def _conditions(given: Sequence[Any] | None) -> tuple[tuple[object, ...], ...]:
    if given is None:
        return ()
    if isinstance(given, (str, Expr)) or not hasattr(given, "__iter__"):
        raise _invalid_filter(given)
    words = tuple(given)
    listed = (words,) if words and isinstance(words[0], str) else words
    if not all(isinstance(one, (tuple, list)) and len(one) >= 2 for one in listed):
        raise _invalid_filter(given)
    for one in listed:
        condition(*one)  # a wrong word fails here, not in a task
    return tuple(tuple(one) for one in listed)


def _invalid_filter(given: object) -> QueryModeError:
    return error(
        "INVALID_FILTER",
        f"filter={given!r}; it is (column, operator, value), as in ('id', 'gt', 5), or a list of such",
    )


def _aggregates(given: Mapping[str, Any] | None) -> tuple[tuple[str, str, str], ...]:
    if given is None:
        return ()
    if not isinstance(given, dict) or not given:
        raise error("INVALID_AGGREGATE", 'aggregate is a dict such as {"total": ("sum", "amount")}')
    calls = []
    for name, words in given.items():
        if not isinstance(words, (tuple, list)) or len(words) != 2 or not isinstance(words[1], str):
            raise error("INVALID_AGGREGATE", f"{name!r}: {words!r} is not (function, column)", column=name)
        calls.append((name, words[0], words[1]))
        _call(*calls[-1])
    return tuple(calls)


# ---- what comes back ----


def _returned(
    columns: tuple[str, ...],
    conditions: tuple[tuple[object, ...], ...],
    aggregates: tuple[tuple[str, str, str], ...],
    schema: str | StructType | None,
    example: str | os.PathLike[str] | None,
) -> StructType:
    if schema is not None and example is not None:
        raise error("QUERY_FAILED", "scan_udf takes the types from schema or from example, not from both")
    if example is not None:
        from querymode.session import QueryMode
        from querymode.spark.cast import spark_schema

        table = QueryMode.local(threads=1).table(example)
        return spark_schema(_frame(table, columns, conditions, aggregates).schema)
    if schema is None:
        schema = _known_schema(aggregates)
    parsed = _parsed(schema)
    expected = tuple(name for name, _, _ in aggregates) or columns
    if expected and sorted(parsed.names) != sorted(expected):
        said, asked = ", ".join(parsed.names), ", ".join(expected)
        raise error("SCHEMA_MISMATCH", f"schema has the columns {said}, and asked for are {asked}")
    return parsed


def _known_schema(aggregates: Sequence[tuple[str, str, str]]) -> str:
    types = [_TYPES_KNOWN.get(function.lower()) for _, function, _ in aggregates]
    if not types or None in types:
        raise error(
            "QUERY_FAILED",
            'Spark asks for the types beforehand: give schema="id bigint, amount double", '
            "or example= the path of a file that is like the others",
        )
    return ", ".join(f"`{name}` {kind}" for (name, _, _), kind in zip(aggregates, types, strict=True))


def _parsed(schema: str | StructType) -> StructType:
    from pyspark.sql.types import DataType, StructType

    parsed = schema if isinstance(schema, DataType) else DataType.fromDDL(schema)
    if not isinstance(parsed, StructType) or not parsed.names:
        raise error(
            "SCHEMA_MISMATCH", f"schema={schema!r}; it is columns and types, as in 'id bigint, v double'"
        )
    return parsed
