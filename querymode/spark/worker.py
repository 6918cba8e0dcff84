"""The executor's half of `scan_udf`: runs a plan over paths in a Spark Python worker.

Spark pickles `Scan` by reference, so executors need this package, by `package_zip` or installed. A worker
process serves many tasks one after another; its engine is made at the first and kept. Workers are forked:
an engine belongs to the process that made it.
"""

from __future__ import annotations

import os

import pandas as pd
import pyarrow as pa

from querymode._version import __version__
from querymode.errors import QueryModeError, error
from querymode.session import QueryMode
from querymode.spark.cast import cast_table
from querymode.store.location import display_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from querymode.spark.scan import ScanPlan

_engines: dict[int, QueryMode] = {}
_engines_pid = 0


def engine(memory: int) -> QueryMode:
    """This process's engine with that much memory. One thread: Spark runs a worker for every core."""
    global _engines_pid
    if _engines_pid != os.getpid():
        _engines.clear()
        _engines_pid = os.getpid()
    found = _engines.get(memory)
    if found is None:
        found = _engines[memory] = QueryMode.local(memory=memory, threads=1)
    return found


class _ArrowSeries(pd.Series):  # type: ignore[misc]
    """A Series over Arrow data that reaches Spark as it is.

    Spark rebuilds nested values in Python, cell by cell through `apply`, before it makes Arrow of them again.
    That is slow, and it fails on maps, which pandas gives as lists of pairs.
    """

    def apply(self, *arguments: object, **options: object) -> _ArrowSeries:
        return self


class Scan:
    """A plan and the two functions Spark may call with a batch of paths."""

    def __init__(self, plan: ScanPlan) -> None:
        self.plan = plan

    def rows(self, paths: pd.Series) -> pd.Series:
        """The rows of each path, as a list of structs."""
        answers = self._answers(paths)
        lengths = pa.array([None if answer is None else answer.num_rows for answer in answers], pa.int32())
        return _series(_list_array(lengths, self._columns(answers), self.plan.target))

    def aggregates(self, paths: pd.Series) -> pd.DataFrame:
        """A row of aggregates for each path."""
        names = [field.name for field in self.plan.target]
        answers = [_null_row(self.plan.target) if one is None else one for one in self._answers(paths)]
        columns = self._columns(answers)
        return pd.DataFrame({name: _series(column) for name, column in zip(names, columns, strict=True)})

    def _answers(self, paths: pd.Series) -> list[pa.Table | None]:
        if self.plan.version != __version__:
            raise error(
                "QUERY_FAILED",
                f"the driver has querymode {self.plan.version} and this executor {__version__}; "
                "ship the driver's with querymode.spark.package_zip and sc.addPyFile",
            )
        return [None if pd.isna(path) else self._answer(path) for path in paths]

    def _answer(self, path: str) -> pa.Table:
        try:
            answer = self.plan.frame(engine(self.plan.memory).table(path)).to_arrow()
            names = [field.name for field in self.plan.target]
            return pa.table(cast_table(answer, self.plan.target), names=names)
        except QueryModeError as cause:
            raise _of_path(cause, display_name(path)) from cause

    def _columns(self, answers: Sequence[pa.Table | None]) -> list[Any]:
        """The answers' columns end to end."""
        columns = []
        for number, field in enumerate(self.plan.target):
            chunks = [chunk for one in answers if one is not None for chunk in one.column(number).chunks]
            try:
                columns.append(pa.concat_arrays(chunks) if chunks else pa.array([], field.type))
            except pa.ArrowInvalid as cause:
                raise error(
                    "MEMORY_EXCEEDED",
                    f"column {field.name!r} of these paths passes what one Arrow batch holds ({cause}); "
                    "lower spark.sql.execution.arrow.maxRecordsPerBatch, or filter more",
                    column=field.name,
                ) from cause
        return columns


def _of_path(cause: QueryModeError, path: str) -> QueryModeError:
    """The error with the path it is about, and with what helps in a worker only."""
    message = cause.message if path in cause.message else f"{path}: {cause.message}"
    pool = pa.default_memory_pool().backend_name
    if cause.code == "MEMORY_EXCEEDED" and pool != "system" and _is_limited():
        message += (
            f". This worker's address space is limited, and Arrow's {pool} takes a gigabyte of it: raise "
            "spark.executor.pyspark.memory, or set spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL to system"
        )
    return error(cause.code, message, table=path, column=cause.column, offset=cause.offset)


def _is_limited() -> bool:
    import resource

    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def _list_array(lengths: Any, columns: list[Any], target: pa.StructType) -> Any:
    """Structs of these columns, cut into lists; a NULL length is a NULL list."""
    from pyarrow import compute

    ends = compute.cumulative_sum_checked(compute.fill_null(lengths, 0))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    structs = pa.StructArray.from_arrays(columns, fields=list(target))
    return pa.ListArray.from_arrays(offsets, structs, mask=lengths.is_null())


def _null_row(target: pa.StructType) -> pa.Table:
    return pa.table([pa.nulls(1, field.type) for field in target], schema=pa.schema(list(target)))


def _series(array: Any) -> _ArrowSeries:
    return _ArrowSeries(array, dtype=pd.ArrowDtype(array.type))
