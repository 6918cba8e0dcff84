"""Columns that Python functions compute: what `DataFrame.computed` puts into a plan."""

from __future__ import annotations

from querymode.errors import QueryModeError, error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    import pyarrow

    from querymode.types import DataType


class ComputedColumn:
    """A function over batches that gives every batch one column more, or another one in a column's place."""

    def __init__(
        self, name: str, function: Callable[[pyarrow.RecordBatch], Any], data_type: DataType
    ) -> None:
        self.name = name
        self.function = function
        self.data_type = data_type

    def __call__(self, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        import pyarrow

        given = self._called(batch)
        if isinstance(given, pyarrow.Array | pyarrow.ChunkedArray):
            self._check_count(given, batch)  # before it is made plain
        values = self._array(given)
        self._check_count(values, batch)
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        columns[self.name] = values
        return pyarrow.RecordBatch.from_arrays(list(columns.values()), list(columns))

    def _check_count(self, values: Any, batch: pyarrow.RecordBatch) -> None:
        if len(values) != batch.num_rows:
            raise error(
                "SCHEMA_MISMATCH",
                f"the function of computed gave {len(values)} values of {self.name!r} "
                f"for {batch.num_rows} rows",
                column=self.name,
            )

    def _called(self, batch: pyarrow.RecordBatch) -> Any:
        try:
            return self.function(batch)
        except QueryModeError:
            raise
        except Exception as failure:
            raise error(
                "QUERY_FAILED",
                f"the function of computed failed for {self.name!r}: {failure!r}",
                column=self.name,
            ) from failure

    def _array(self, given: Any) -> Any:
        import pyarrow

        from querymode.arrow.checks import check_array
        from querymode.arrow.plain import cast_array
        from querymode.arrow.to_arrow import arrow_type

        target = arrow_type(self.data_type)
        if isinstance(given, pyarrow.Array | pyarrow.ChunkedArray) and given.type != target:
            # What is cast here; the rest is checked with all columns.
            check_array(given, self.name)
        try:
            if not isinstance(given, pyarrow.Array | pyarrow.ChunkedArray):
                return pyarrow.array(given, type=target)
            return cast_array(self.name, given, target)
        except (pyarrow.ArrowException, TypeError, ValueError, OverflowError) as failure:
            raise error(
                "SCHEMA_MISMATCH",
                f"the function of computed gave no {self.data_type} for {self.name!r}: {failure}",
                column=self.name,
            ) from failure
