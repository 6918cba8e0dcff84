"""Relations that stand in the text itself: VALUES, and the one row of a SELECT without FROM."""

from __future__ import annotations

from sqlglot import exp

from querymode.expr import literals
from querymode.expr.nodes import Column, Expr, Literal
from querymode.expr.trees import columns_in, in_type
from querymode.plan.bind import common_type
from querymode.plan.nodes import Node, Project, Scan, Union
from querymode.sql.blocks import Block, Built, Outer, Stage
from querymode.sql.expressions import Translator
from querymode.sql.scope import Field, Scope
from querymode.table.constant import constant_table
from querymode.types import INT8, NULL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from querymode.sql.binder import Binder
    from querymode.sql.columns import Names
    from querymode.sql.subquery import Subquery
    from querymode.types import DataType


def one_row(names: Names) -> Node:
    """A row of which nobody asks what is in it."""
    name = names.new("row", INT8)
    return Scan(constant_table([(name, INT8)], [[0]]))


# ---- VALUES ----


class ValuesBlock(Block):
    """Rows of expressions."""

    def __init__(
        self,
        names: Names,
        fields: Sequence[Field],
        rows: Sequence[Sequence[Expr]],
        subqueries: Mapping[str, Subquery],
    ) -> None:
        self.names = names
        self.fields = tuple(fields)
        self.rows = rows
        self.subqueries = subqueries
        reads: set[str] = set()
        for row in rows:
            for name in columns_in(*row):
                reads |= subqueries[name].reads if name in subqueries else {name}
        self.free = frozenset(reads - subqueries.keys())

    def build(self, outer: Outer | None = None) -> Built:
        columns = [field.column for field in self.fields]
        if outer is None and all(isinstance(value, Literal) for row in self.rows for value in row):
            types = [self.names.type_of(Column(column)) for column in columns]
            cells = [[row[place].value for row in self.rows] for place in range(len(columns))]  # type: ignore[attr-defined]
            return Built(Scan(constant_table(list(zip(columns, types, strict=True)), cells)))
        mapping: dict[str, str] = {}
        nodes: list[Node] = []
        for row in self.rows:
            built = Built(one_row(self.names)) if outer is None else outer.take()
            stage = Stage(self.names, self.subqueries, built)
            mapping = mapping or {name: self.names.copy(name) for name in sorted(built.mapping)}
            items = [(column, stage.expression(value)) for column, value in zip(columns, row, strict=True)]
            carried = [(column, Column(built.mapping[name])) for name, column in mapping.items()]
            nodes.append(Project(stage.node, [*items, *carried]))
        return Built(nodes[0] if len(nodes) == 1 else Union(nodes), mapping)


def bind_values(binder: Binder, node: exp.Values, parent: Scope | None) -> ValuesBlock:
    translator = Translator(binder, Scope(parent))
    translator.plain = "VALUES"
    rows = [
        [translator.translate(value) for value in (row.expressions if isinstance(row, exp.Tuple) else [row])]
        for row in node.expressions
    ]
    if any(len(row) != len(rows[0]) for row in rows):
        raise binder.text.error("SQL_SYNTAX", "the rows of VALUES have different numbers of values", node)
    columns = [translator.fitted([row[place] for row in rows]) for place in range(len(rows[0]))]
    fields: list[Field] = []
    for place, cells in enumerate(columns):
        data_type = _common_cell_type(translator, cells, node)
        fields.append(Field(f"col{place}", binder.names.new(f"col{place}", data_type)))
        columns[place] = [_as(cell, data_type, translator) for cell in cells]
    settled = [[columns[place][row] for place in range(len(columns))] for row in range(len(rows))]
    return ValuesBlock(binder.names, fields, settled, translator.subqueries)


def _common_cell_type(translator: Translator, cells: Sequence[Expr], node: exp.Expr) -> DataType:
    result = NULL
    for cell in cells:
        other = translator.check(cell)
        wider = common_type(result, other)
        if wider is None:
            message = f"a column of VALUES holds {result} and {other}; cast one"
            raise translator.text.error("SCHEMA_MISMATCH", message, translator.binder.origins[id(cell)][1])
        result = wider
    return result


def _as(cell: Expr, data_type: DataType, translator: Translator) -> Expr:
    """A constant stays one where it fits the column's type."""
    if isinstance(cell, Literal) and (cell.value is None or literals.fit(cell.value, data_type) is not None):
        return Literal(cell.value, data_type)
    return in_type(cell, translator.check(cell), data_type)
