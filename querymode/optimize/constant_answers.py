"""Answers that stand in the query itself: `SELECT 1`, VALUES. Nothing is computed, so no engine starts."""

from __future__ import annotations

from querymode._call import check
from querymode.expr import literals
from querymode.expr.nodes import Column, Expr, Literal
from querymode.plan.nodes import Node, Project, Scan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from querymode.qmcb import ColumnarColumn
    from querymode.table.memory import HostColumn
    from querymode.types import DataType

#: Larger tables are worth an engine.
_ROWS_MAX = 1000


def constant_batch(node: Node) -> bytes | None:
    """The answer as QMCB, if its columns are constants or columns of a table of constants as they are."""
    columns = _columns(node)
    if columns is None:
        return None
    from querymode.qmcb import ColumnarBatch, encode_columnar_batch
    from querymode.table.constant import constant_column

    made = []
    for (name, data_type), values in zip(node.schema, columns, strict=True):
        if any(value is not None and literals.fit(value, data_type) is None for value in values):
            return None
        for value in values:
            literals.claim_constant(value, 3)  # as it is stored, in its column, and in the answer
        made.append(_encoded(name, data_type, constant_column(data_type, values)))
    return encode_columnar_batch(ColumnarBatch(made, len(columns[0]) if columns else 0))


def _columns(node: Node) -> list[Sequence[object]] | None:
    steps: list[Project] = []
    while isinstance(node, Project) and node.items:
        steps.append(node)
        node = node.input
    constants = node.source.constants if isinstance(node, Scan) else None
    if constants is None or not isinstance(node, Scan) or node.source.rows_expected > _ROWS_MAX:
        return None
    columns: list[Sequence[object]] = list(constants)
    for step in reversed(steps):
        check()
        found: list[Sequence[object]] = []
        for _, item in step.items:
            values = _values(item, step.input, columns, len(columns[0]))
            if values is None:
                return None
            found.append(values)
        columns = found
    return columns


def _values(item: Expr, source: Node, columns: list[Sequence[object]], count: int) -> Sequence[object] | None:
    if isinstance(item, Literal):
        return [literals.plain(item.value)] * count
    return columns[source.schema.index(item.name)] if isinstance(item, Column) else None


def _encoded(name: str, data_type: DataType, column: HostColumn) -> ColumnarColumn:
    from querymode.qmcb import ColumnarColumn

    nulls = None
    if column.validity is not None:
        every_row = (1 << column.row_count) - 1
        bits = every_row & ~int.from_bytes(column.validity, "little")
        nulls = bits.to_bytes((column.row_count + 7) // 8, "little")
    return ColumnarColumn(
        name,
        data_type.tag,
        b"" if column.data is None else column.data,
        column.row_count,
        column.offsets,
        null_bitmap=nulls,
        data_type=data_type,
    )
