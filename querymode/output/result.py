"""The answer to a query: QMCB batches, and the ways to look at them.

Batches stay as they came. Rows, Arrow, pandas and Polars are made when asked for, and only then are their
libraries imported.
"""

from __future__ import annotations

from querymode._shutdown import guards_shutdown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    import pandas
    import polars
    import pyarrow

    from querymode.schema import Schema


@guards_shutdown
class Result:
    """What `collect()` returns."""

    def __init__(self, batches: list[bytes], schema: Schema, stats: dict[str, Any]) -> None:
        self._batches = batches
        self.schema = schema
        #: What the query cost: rows, ms, lanes, threads, bytes of the answer.
        self.stats = stats
        self._rows: list[dict[str, Any]] | None = None

    @property
    def columns(self) -> list[str]:
        return list(self.schema.names)

    @property
    def row_count(self) -> int:
        return sum(int.from_bytes(batch[4:8], "little") for batch in self._batches)

    def __len__(self) -> int:
        return self.row_count

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One dict a row. Made once."""
        if self._rows is None:
            from querymode.qmcb import rows_of

            self._rows = rows_of(self._batches)
        return self._rows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def dtypes(self) -> dict[str, str]:
        return {name: str(data_type) for name, data_type in self.schema}

    def digest(self) -> str:
        """32 hexadecimal digits for the schema and the rows, whatever order the rows are in.

        Answers with the same columns, types and rows have the same digest, with any number of threads. NaN
        equals NaN, -0.0 equals 0.0, and NULL equals NULL.
        """
        from hashlib import blake2b

        from querymode.engine.batch_ops import digest

        sums = digest(self._batches) if self._batches else (0, 0, 0)
        fields = [f"{len(name)}:{name}:{data_type}" for name, data_type in self.schema]
        return blake2b(repr((fields, sums)).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

    def to_qmcb(self) -> list[bytes]:
        """The batches as they came from the engine."""
        return list(self._batches)

    def to_arrow(self) -> pyarrow.Table:
        from querymode.arrow.to_arrow import to_arrow
        from querymode.qmcb import view_own_batch

        return to_arrow([view_own_batch(batch) for batch in self._batches], self.schema)

    def to_pandas(self) -> pandas.DataFrame:
        return self.to_arrow().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        import polars

        frame = polars.from_arrow(self.to_arrow())
        assert isinstance(frame, polars.DataFrame)
        return frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        stream: object = self.to_arrow().__arrow_c_stream__(requested_schema)  # type: ignore[no-untyped-call]
        return stream

    def __repr__(self) -> str:
        columns = ", ".join(f"{name}: {data_type}" for name, data_type in self.schema)
        return f"<Result of {self.row_count} rows: {columns}>"
