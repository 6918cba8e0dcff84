"""Relations that stand in the text itself: VALUES, and the one row of a SELECT without FROM."""

from __future__ import annotations

from sqlglot import exp

from querymode import literals
from querymode._abi import TypeTag
from querymode.bind import common_type
from querymode.expr import Cast, Column, Expr, Literal
from querymode.memory_table import HostColumn, MemoryTable, Morsel
from querymode.plan import Node, Project, Scan, Union
from querymode.schema import Schema
from querymode.sql.blocks import Block, Built, Outer, Stage
from querymode.sql.expressions import Translator
from querymode.sql.rewrite import used_columns
from querymode.sql.scope import Field, Scope
from querymode.types import INT8, NULL, has_offsets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from querymode.sql.binder import Binder
    from querymode.sql.names import Names
    from querymode.sql.subquery import Subquery
    from querymode.types import DataType


def one_row(names: Names) -> Node:
    """A row of which nobody asks what is in it."""
    name = names.new("row", INT8)
    return Scan(constant_table([(name, INT8)], [[0]]))


def constant_table(
    fields: Sequence[tuple[str, DataType]], columns: Sequence[Sequence[object]]
) -> MemoryTable:
    """A table of Python values, which fit the types of their columns."""
    count = len(columns[0])
    hosts = [_column(data_type, values) for (_, data_type), values in zip(fields, columns, strict=True)]
    return MemoryTable(Schema(fields), [Morsel(hosts, count)] if count else [])


def _column(data_type: DataType, values: Sequence[object]) -> HostColumn:
    count = len(values)
    if data_type == NULL:
        return HostColumn(data_type, count)
    stored = [literals.fit(value, data_type) for value in values]
    assert all((kept is None) == (value is None) for kept, value in zip(stored, values, strict=True))
    valid = sum(1 << row for row, kept in enumerate(stored) if kept is not None)
    validity = None if valid == (1 << count) - 1 else valid.to_bytes((count + 7) // 8, "little")
    if has_offsets(data_type):
        texts = [b"" if kept is None else bytes(kept) for kept in stored]  # type: ignore[call-overload]
        return _spans(data_type, texts, validity)
    if data_type.tag == TypeTag.BOOL:
        bits = sum(1 << row for row, kept in enumerate(stored) if kept)
        data = bits.to_bytes((count + 7) // 8, "little")
    else:
        zero = literals.encode_stored(_zero(data_type), data_type)
        data = b"".join(zero if kept is None else literals.encode_stored(kept, data_type) for kept in stored)
    return HostColumn(data_type, count, validity=validity, data=data)


def _zero(data_type: DataType) -> object:
    if data_type.tag == TypeTag.FIXED_BINARY:
        return bytes(data_type.width)
    if data_type.tag == TypeTag.INTERVAL:
        return (0, 0, 0)
    return 0.0 if data_type.tag in (TypeTag.F64, TypeTag.F32, TypeTag.F16) else 0


def _spans(data_type: DataType, texts: Sequence[bytes], validity: bytes | None) -> HostColumn:
    ends = [0]
    for text in texts:
        ends.append(ends[-1] + len(text))
    offsets = b"".join(end.to_bytes(4, "little") for end in ends)
    return HostColumn(
        data_type, len(texts), validity=validity, data=b"".join(texts), offsets=offsets, offset_width=4
    )


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
            for name in used_columns(row):
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
    return cell if translator.check(cell) == data_type else Cast(cell, data_type, False)
