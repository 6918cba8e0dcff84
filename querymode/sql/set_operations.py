"""UNION, INTERSECT and EXCEPT, with and without ALL, by place or BY NAME."""

from __future__ import annotations

from sqlglot import exp

from querymode._abi import AggregateOp, ArithmeticOp
from querymode._call import check
from querymode.expr import literals
from querymode.expr.nodes import Aggregate, Arithmetic, Cast, Coalesce, Column, Expr, Function, Literal
from querymode.expr.trees import in_type
from querymode.plan.bind import common_type
from querymode.plan.nodes import GroupBy, Node, Project, Repeat, Scan, Union
from querymode.sql.blocks import Block, Built, Outer, SelectBlock
from querymode.sql.joins import Key, join
from querymode.sql.scope import Field, Scope
from querymode.table.constant import constant_table
from querymode.types import INT64, UTF8

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from querymode.sql.binder import Binder
    from querymode.sql.columns import Names
    from querymode.types import DataType

UNION, INTERSECT, EXCEPT = "union", "intersect", "except"
_ARGS = ("this", "expression", "distinct", "by_name", "with_", "order", "limit", "offset")


class SetBlock(Block):
    """Queries with as many columns each. `parts`: per query, what gives each column of the result."""

    def __init__(
        self,
        names: Names,
        kind: str,
        distinct: bool,
        fields: Sequence[Field],
        parts: Sequence[tuple[Block, Sequence[Expr]]],
    ) -> None:
        self.names = names
        self.kind = kind
        self.distinct = distinct
        self.fields = tuple(fields)
        self.parts = tuple(parts)
        self.free = frozenset().union(*(block.free for block, _ in parts))

    def build(self, outer: Outer | None = None) -> Built:
        mapping: dict[str, str] = {}
        nodes: list[Node] = []
        rows: list[list[object]] = []
        types = [self.names.type_of(Column(field.column)) for field in self.fields]
        for block, values in self.parts:
            check()
            row = _constant_row(block, values, types) if outer is None and self.kind == UNION else None
            if row is not None:
                rows.append(row)
                continue
            nodes += self._row_nodes(rows, types)
            rows = []
            built = block.build(outer if block.free else None)
            if outer is not None and not built.mapping:
                values_of = outer.take()
                built = Built(join(values_of.node, built.node, "inner"), values_of.mapping)
            if not mapping:
                mapping = {name: self.names.copy(name) for name in sorted(built.mapping)}
            items = [(field.column, value) for field, value in zip(self.fields, values, strict=True)]
            carried = [(column, Column(built.mapping[name])) for name, column in mapping.items()]
            kept_types = [self.names.declared(column) for column in mapping]
            nodes.append(Project(built.node, [*items, *carried], [*types, *kept_types]))
        nodes += self._row_nodes(rows, types)
        columns = [*(field.column for field in self.fields), *mapping.values()]
        return Built(self._combined(nodes, columns), mapping)

    def _row_nodes(self, rows: list[list[object]], types: Sequence[DataType]) -> list[Node]:
        """Rows of constants in a row are one table, however many queries gave them."""
        if not rows:
            return []
        columns = [field.column for field in self.fields]
        return [Scan(constant_table(list(zip(columns, types, strict=True)), list(zip(*rows, strict=True))))]

    def _combined(self, nodes: list[Node], columns: list[str]) -> Node:
        if self.kind == UNION:
            union: Node = Union(nodes) if len(nodes) > 1 else nodes[0]
            return _distinct(union, columns) if self.distinct else union
        left, right = nodes
        others = [self.names.copy(column) for column in columns]
        right = Project(right, [(new, Column(old)) for new, old in zip(others, columns, strict=True)])
        keys = [Key(Column(a), Column(b), nulls=True) for a, b in zip(columns, others, strict=True)]
        if self.distinct:
            return join(
                _distinct(left, columns), right, "semi" if self.kind == INTERSECT else "anti", (), keys
            )
        return self._counted(left, right, columns, others, keys)

    def _counted(
        self, left: Node, right: Node, columns: list[str], others: list[str], keys: list[Key]
    ) -> Node:
        """How often a row is there on either side says how often it is in the result."""
        ours, theirs = self.names.new("count", INT64), self.names.new("count", INT64)
        counts = [Aggregate(AggregateOp.COUNT_ROWS, None)]
        left = GroupBy(left, [(name, Column(name)) for name in columns], [(ours, counts[0])])
        right = GroupBy(right, [(name, Column(name)) for name in others], [(theirs, counts[0])])
        if self.kind == INTERSECT:
            both = join(left, right, "inner", (), keys)
            count: Expr = Function("least", (Column(ours), Column(theirs)))
        else:
            both = join(left, right, "left", (), keys)
            taken = Coalesce((Column(theirs), Literal(0, INT64)))
            count = Arithmetic(ArithmeticOp.SUBTRACT, Column(ours), taken)
        repeated = Repeat(both, count)
        return Project(repeated, [(name, Column(name)) for name in columns])


def _constant_row(block: Block, values: Sequence[Expr], types: Sequence[DataType]) -> list[object] | None:
    """What a query of constants gives, in the types of the result."""
    constants = block.constants() if isinstance(block, SelectBlock) else None
    if constants is None:
        return None
    row: list[object] = []
    for value, data_type in zip(values, types, strict=True):
        column = value.value if isinstance(value, Cast) else value
        assert isinstance(column, (Column, Literal))
        literal = constants[column.name] if isinstance(column, Column) else column
        if literal.value is not None and literals.fit(literal.value, data_type) is None:
            return None
        row.append(literal.value)
    return row


def _distinct(node: Node, columns: Sequence[str]) -> Node:
    return GroupBy(node, [(name, Column(name)) for name in columns], ())


# ---- binding ----


def bind_set_operation(binder: Binder, node: exp.SetOperation, parent: Scope | None) -> SetBlock:
    binder.refuse_others(node, _ARGS, "a set operation")
    kind = {exp.Union: UNION, exp.Intersect: INTERSECT, exp.Except: EXCEPT}[type(node)]
    distinct = bool(node.args.get("distinct"))
    by_name = bool(node.args.get("by_name"))
    operands = list(_operands(node))
    blocks = [binder.query(operand, parent) for operand in operands]
    if by_name:
        if kind != UNION:
            raise binder.text.not_supported(f"{kind.upper()} BY NAME", node)
        names, places = _by_name(blocks)
    else:
        names = [field.name for field in blocks[0].fields]
        places = [list(range(len(block.fields))) for block in blocks]
        for operand, block in zip(operands, blocks, strict=True):
            if len(block.fields) != len(names):
                message = f"{kind.upper()} of {len(names)} and {len(block.fields)} columns"
                raise binder.text.error("SQL_SYNTAX", message, operand)
    fields: list[Field] = []
    values: list[list[Expr]] = [[] for _ in blocks]
    for index, name in enumerate(names):
        columns = [
            Literal(None) if place is None else Column(block.fields[place].column)
            for block, place in zip(blocks, (row[index] for row in places), strict=True)
        ]
        data_type = _common(binder, columns, operands)
        fields.append(Field(name, binder.names.new(name, data_type)))
        for number, column in enumerate(columns):
            values[number].append(in_type(column, binder.names.type_of(column), data_type))
    return SetBlock(binder.names, kind, distinct, fields, list(zip(blocks, values, strict=True)))


def _operands(node: exp.SetOperation) -> Iterator[exp.Expr]:
    """The queries of a chain of the same operation, which the tree nests to the left."""
    chain: list[exp.Expr] = [node.expression]
    left = node.this
    while (
        type(left) is type(node) is exp.Union
        and bool(left.args.get("by_name")) == bool(node.args.get("by_name"))
        and (node.args.get("distinct") or not left.args.get("distinct"))
        and not any(left.args.get(part) for part in ("with_", "order", "limit", "offset"))
    ):
        chain.append(left.expression)
        left = left.this
    chain.append(left)
    yield from reversed(chain)


def selected_place(node: exp.Expr, term: exp.Expr) -> int | None:
    """The place of a column that ORDER BY calls as one of the queries does, not as the result does."""
    if isinstance(node, exp.SetOperation):
        if node.args.get("by_name"):
            return None
        found = selected_place(node.this, term)
        return selected_place(node.expression, term) if found is None else found
    if isinstance(node, exp.Subquery):
        return selected_place(node.this, term)
    if not isinstance(node, exp.Select) or any(item.is_star for item in node.expressions):
        return None
    return next((place for place, item in enumerate(node.expressions) if _is_called(node, item, term)), None)


def _is_called(select: exp.Select, item: exp.Expr, term: exp.Expr) -> bool:
    if item.unalias() == term:
        return True
    if not isinstance(term, exp.Column) or term.name.casefold() != item.alias_or_name.casefold():
        return False
    if not term.table:
        return True
    source = select.args.get("from_")
    if source is None or select.args.get("joins") or not isinstance(item, exp.Column) or item.table:
        return False
    return str(source.this.alias_or_name).casefold() == term.table.casefold()


def _by_name(blocks: Sequence[Block]) -> tuple[list[str], list[list[int | None]]]:
    """All names in order of appearance, and per query the place of each."""
    names: dict[str, str] = {}
    for block in blocks:
        for field in block.fields:
            names.setdefault(field.name.casefold(), field.name)
    found = [{field.name.casefold(): place for place, field in enumerate(block.fields)} for block in blocks]
    return list(names.values()), [[places.get(name) for name in names] for places in found]


def _common(binder: Binder, columns: Sequence[Expr], operands: Sequence[exp.Expr]) -> DataType:
    result = binder.names.type_of(columns[0])
    for column, operand in zip(columns[1:], operands[1:], strict=True):
        other = binder.names.type_of(column)
        wider = common_type(result, other)
        if wider is None and UTF8 in (result, other):
            wider = UTF8
        if wider is None:
            message = f"columns of {result} and {other} have no common type; cast one"
            raise binder.text.error("SCHEMA_MISMATCH", message, operand)
        result = wider
    return result
