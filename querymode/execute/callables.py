"""Python functions over Arrow batches: the one place where Python touches rows, as users asked for."""

from __future__ import annotations

from querymode.arrow.checks import check_array
from querymode.arrow.plain import cast_array
from querymode.arrow.to_arrow import arrow_schema, record_batches
from querymode.errors import QueryModeError, error
from querymode.execute.batch import drop_batches
from querymode.plan.nodes import Project, Scan, with_types
from querymode.plan.wire import Wire
from querymode.qmcb import decode_columnar_batch
from querymode.stage.stage import Branch, Stage
from querymode.table.from_arrow import from_checked

TYPE_CHECKING = False
if TYPE_CHECKING:
    import pyarrow

    from querymode.execute.batch import Batch
    from querymode.execute.query_run import QueryRun
    from querymode.schema import Schema
    from querymode.stage.stage import Called


def apply(schema: Schema, end: Called, lanes: list[list[Batch]], query: QueryRun) -> list[list[Batch]]:
    """What a stage's function makes of its batches, in order: rows of this schema."""
    import pyarrow

    made: list[pyarrow.RecordBatch] = []
    for lane in lanes:
        for batch in lane:
            for rows in record_batches(decode_columnar_batch(batch.data), end.given, copy=True):
                made.append(_called(schema, end, rows))
            query.held -= drop_batches(((batch,),))
    table = from_checked(pyarrow.Table.from_batches(made, arrow_schema(schema)))
    branch = Branch(table, tuple(range(len(schema))))
    wire = Wire(table.schema)
    given_back = with_types(Scan(table), schema)
    if isinstance(given_back, Project):
        wire.project(given_back.items)
    branch.plan = wire.encoded()
    return query.run_stage(Stage(-1, schema, (branch,)))


def _called(schema: Schema, end: Called, rows: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
    import pyarrow

    try:
        answer = end.function(rows)
    except QueryModeError:
        raise
    except Exception as failure:
        raise error("QUERY_FAILED", f"the function of map_batches failed: {failure!r}") from failure
    if isinstance(answer, pyarrow.Table | pyarrow.RecordBatch):
        _check_answer(answer)
    if isinstance(answer, pyarrow.Table):
        if not answer.num_rows:
            return pyarrow.RecordBatch.from_pylist([], schema=arrow_schema(schema))
    elif not isinstance(answer, pyarrow.RecordBatch):
        raise error(
            "SCHEMA_MISMATCH", f"the function of map_batches gave {type(answer).__name__}, not a RecordBatch"
        )
    wanted = arrow_schema(schema)
    if answer.schema.names != wanted.names:
        raise error(
            "SCHEMA_MISMATCH",
            f"the function of map_batches gave columns {answer.schema.names}, not {wanted.names}",
        )
    try:
        return pyarrow.RecordBatch.from_arrays(
            [
                cast_array(field.name, array, field.type)
                for array, field in zip(answer.columns, wanted, strict=True)
            ],
            schema=wanted,
        )
    except pyarrow.ArrowMemoryError:
        raise
    except pyarrow.ArrowException as failure:
        raise error(
            "SCHEMA_MISMATCH", f"the function of map_batches gave other types: {failure}"
        ) from failure


def _check_answer(answer: pyarrow.Table | pyarrow.RecordBatch) -> None:
    """Before anything casts it."""
    for name, column in zip(answer.schema.names, answer.columns, strict=True):
        check_array(column, name)
