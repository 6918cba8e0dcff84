"""Answers that footers know: MIN and MAX where every bound is exact, and counts. No page is read for them."""

from __future__ import annotations

from querymode._abi import AggregateOp, CompareOp
from querymode.engine.one_task import on_instance
from querymode.expr.nodes import Aggregate, And, Column, Compare, Expr, IsNull, Not, Or
from querymode.plan.nodes import Filter, GroupBy, Node, Rows, Scan
from querymode.plan.prune import statistic, statistics_fields
from querymode.plan.wire import plan_over
from querymode.qmcb import (
    DTYPE_I64,
    ColumnarBatch,
    ColumnarColumn,
    decode_columnar_batch,
    encode_columnar_batch,
    read_column_value,
)
from querymode.schema import Schema
from querymode.types import is_nested, is_vector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from querymode.engine.instance import Instance
    from querymode.table.table import Table

_BOUND_OF = {AggregateOp.MIN: "min", AggregateOp.MAX: "max"}


def known_batch(node: Node) -> bytes | None:
    """The answer to MIN, MAX and counts over whole files as one batch, if the footers have it."""
    if not isinstance(node, GroupBy) or node.keys or not isinstance(node.input, Scan):
        return None
    table = node.input.source
    if table.answers is None or not table.lane_count:
        return None
    bounds: dict[tuple[AggregateOp, str], None] = {}
    for _, call in node.calls:
        if call.where is not None or (call.is_distinct and call.op == AggregateOp.COUNT):
            return None
        if call.op == AggregateOp.COUNT_ROWS or (call.op == AggregateOp.COUNT and _is_column(call, table)):
            continue
        if call.op not in _BOUND_OF or not _is_column(call, table):
            return None
        bounds[call.op, _name(call)] = None
    return _ask(node, table, list(bounds)) if bounds else None


def _is_column(call: Aggregate, table: Table) -> bool:
    if not isinstance(call.value, Column):
        return False
    data_type = table.schema.type_of(call.value.name)
    return not (is_nested(data_type) or is_vector(data_type))


def _name(call: Aggregate) -> str:
    assert isinstance(call.value, Column)
    return call.value.name


def _ask(node: GroupBy, table: Table, bounds: list[tuple[AggregateOp, str]]) -> bytes | None:
    columns = tuple(dict.fromkeys(name for _, name in bounds))
    source = Rows(Schema(statistics_fields(columns, table.schema)))
    doubts = Filter(source, Or(tuple(_doubt(op, name) for op, name in bounds)))
    count = GroupBy(doubts, (), [("n", Aggregate(AggregateOp.COUNT_ROWS, None))])
    calls = [
        (str(place), Aggregate(op, Column(statistic(_BOUND_OF[op], name))))
        for place, (op, name) in enumerate(bounds)
    ]
    least = GroupBy(source, (), calls)
    evidence = table.answers
    assert evidence is not None

    def task(instance: Instance) -> bytes | None:
        (doubtful,) = evidence.ask(instance, columns, plan_over(source, [doubts, count]))
        if read_column_value(decode_columnar_batch(doubtful).columns[0], 0):
            return None
        (answer,) = evidence.ask(instance, columns, plan_over(source, [least]))
        return answer

    answer = on_instance(task)
    return None if answer is None else _assemble(node, table, bounds, decode_columnar_batch(answer))


def _doubt(op: AggregateOp, name: str) -> Expr:
    """When a row group does not know its answer: the bound is missing or not exact, and there are values."""
    kind = _BOUND_OF[op]
    nulls, rows = Column(statistic("nulls", name)), Column(statistic("rows", name))
    known: list[Expr] = [
        IsNull(Column(statistic(kind, name)), True),
        Column(statistic(f"{kind}_exact", name)),
    ]
    if op == AggregateOp.MAX:
        known.append(Not(Column(statistic("nan", name))))
    empty = And((IsNull(nulls, True), Compare(CompareOp.EQ, nulls, rows)))
    return Not(Or((And(tuple(known)), empty)))


def _assemble(
    node: GroupBy, table: Table, bounds: list[tuple[AggregateOp, str]], answer: ColumnarBatch
) -> bytes | None:
    columns = []
    for name, call in node.calls:
        if call.op in _BOUND_OF:
            found = answer.columns[bounds.index((call.op, _name(call)))]
            columns.append(_renamed(found, name))
            continue
        count = table.row_count
        if count is None:
            return None
        if call.op == AggregateOp.COUNT:
            nulls = table.null_count(table.schema.index(_name(call)))
            if nulls is None:
                return None
            count -= nulls
        columns.append(ColumnarColumn(name, DTYPE_I64, count.to_bytes(8, "little"), 1))
    return encode_columnar_batch(ColumnarBatch(columns, 1))


def _renamed(column: ColumnarColumn, name: str) -> ColumnarColumn:
    from copy import copy

    renamed = copy(column)
    renamed.name = name
    return renamed
