"""Answers that need no run: constants of the query itself, counts of whole tables, bounds in footers.

The one place for such short cuts, which every terminal asks before it plans anything.
"""

from __future__ import annotations

from querymode._abi import AggregateOp
from querymode.expr.nodes import Column
from querymode.plan.nodes import GroupBy, Node, Project, Scan, Sort

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def known_answer(node: Node) -> bytes | None:
    """The answer as one QMCB batch, if nothing has to be run for it."""
    counts = _known_counts(node)
    if counts is not None:
        return _counted(node, counts)
    if is_file_aggregate(node):
        from querymode.optimize.footer_answers import known_batch

        return known_batch(node)
    from querymode.optimize.constant_answers import constant_batch

    return constant_batch(node)


def _known_counts(node: Node) -> list[int] | None:
    """The answer to counts over a whole table, where the table knows it without reading a row."""
    if not isinstance(node, GroupBy) or node.keys or not isinstance(node.input, Scan):
        return None
    table = node.input.source
    row_count = table.row_count
    if row_count is None:
        return None
    counts = []
    for _, call in node.calls:
        if call.where is not None or call.is_distinct:
            return None
        if call.op == AggregateOp.COUNT_ROWS:
            counts.append(row_count)
        elif call.op == AggregateOp.COUNT and isinstance(call.value, Column):
            nulls = table.null_count(table.schema.index(call.value.name))
            if nulls is None:
                return None
            counts.append(row_count - nulls)
        else:
            return None
    return counts


def _counted(node: Node, counts: Sequence[int]) -> bytes:
    """A row of counts."""
    from querymode.qmcb import DTYPE_I64, ColumnarBatch, ColumnarColumn, encode_columnar_batch

    columns = [
        ColumnarColumn(name, DTYPE_I64, count.to_bytes(8, "little"), 1)
        for name, count in zip(node.schema.names, counts, strict=True)
    ]
    return encode_columnar_batch(ColumnarBatch(columns, 1))


def known_row_count(node: Node) -> int | None:
    """How many rows an answer has, where that is known without reading one."""
    if isinstance(node, Scan):
        return node.source.row_count
    return known_row_count(node.input) if isinstance(node, (Project, Sort)) else None


def is_file_aggregate(node: Node) -> bool:
    """Aggregates over whole files, which their footers may answer."""
    if not isinstance(node, GroupBy) or node.keys or not isinstance(node.input, Scan):
        return False
    return node.input.source.answers is not None
