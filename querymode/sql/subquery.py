"""Subqueries in expressions become joins.

An expression holds a subquery as a column; before it is evaluated, that column is joined to the relation at
hand (`attach`). Where a whole term of WHERE is EXISTS or IN, a semi or anti join does (`attach_condition`).
What a subquery reads of the queries around it is taken out of it in one of three ways, the first that fits:

    nothing is read       join without keys
    terms of its WHERE    equalities become keys of the join, which grouping keeps apart; where rows are
                          neither grouped nor cut, other terms become the join's residual
    anything else         the subquery is computed for the distinct outer values (blocks.Outer), and joined
                          by them

`x IN (…)` is TRUE, FALSE or NULL, which a mark join says for one column that nothing correlates; other forms
ask twice: is there a match, and could a NULL have been one.
"""

from __future__ import annotations

from querymode._abi import AggregateOp, CompareOp
from querymode.expr.nodes import (
    Aggregate,
    Case,
    Coalesce,
    Column,
    Compare,
    Expr,
    IsNull,
    Literal,
    Not,
    Or,
    joined,
)
from querymode.expr.trees import all_of, columns_in, rename, substitute
from querymode.plan.nodes import GroupBy, Join, Limit, Node, Project
from querymode.sql.blocks import Outer, SelectBlock
from querymode.sql.joins import Key, join, separated
from querymode.types import BOOL, INT64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from querymode.sql.blocks import Block, Stage

SCALAR, EXISTS, IN, ANY = "scalar", "exists", "in", "any"


class Subquery:
    """A query in an expression. `name`: the column its answer is found in."""

    __slots__ = ("block", "kind", "name", "op", "operands", "reads")

    def __init__(
        self,
        name: str,
        kind: str,
        block: Block,
        operands: Sequence[Expr],
        op: CompareOp | None,
        reads: frozenset[str],
    ) -> None:
        self.name = name
        self.kind = kind
        self.block = block
        #: What stands left of IN or of a comparison with ANY.
        self.operands = tuple(operands)
        self.op = op
        #: Columns that operands and block read of the relation it is attached to, or of those around it.
        self.reads = reads


def attach(stage: Stage, subquery: Subquery) -> None:
    """Gives the stage the subquery's column."""
    _ATTACH[subquery.kind](stage, subquery)


def attach_condition(stage: Stage, term: Expr) -> bool:
    """Keeps the rows for which a term is true, if it is EXISTS or IN and a semi or anti join can say it."""
    negated = isinstance(term, Not)
    column = term.value if isinstance(term, Not) else term
    subquery = stage.subqueries.get(column.name) if isinstance(column, Column) else None
    if subquery is None or subquery.kind not in (EXISTS, IN):
        return False
    block = _unlimited(subquery.block) if subquery.kind == EXISTS else subquery.block
    if not block.free and (subquery.kind == EXISTS or (negated and len(subquery.operands) == 1)):
        return False
    operands = [stage.expression(operand) for operand in subquery.operands]
    kind = "anti" if negated else "semi"
    for rows, terms, keys in _matches(stage, block, operands, maybe=negated and bool(operands)):
        stage.node = join(stage.node, rows.node, kind, [*rows.terms, *terms], [*rows.keys, *keys])
    return True


# ---- what a subquery reads ----


class _Rows:
    """The rows of a subquery, and how they are told to belong to a row outside."""

    __slots__ = ("items", "keys", "node", "terms")

    def __init__(
        self, node: Node, items: Sequence[Expr], keys: Sequence[Key] = (), terms: Sequence[Expr] = ()
    ) -> None:
        self.node = node
        self.items = list(items)
        self.keys = list(keys)
        self.terms = list(terms)


class _Correlation:
    """A WHERE taken apart: terms of the block alone, equalities (outer, inner), and the rest."""

    __slots__ = ("keys", "local", "residual")

    def __init__(self, local: list[Expr], keys: list[tuple[Expr, Expr]], residual: list[Expr]) -> None:
        self.local = local
        self.keys = keys
        self.residual = residual


def _correlation(block: SelectBlock) -> _Correlation | None:
    """None where more than WHERE reads outer columns, or a subquery in WHERE does."""
    if block.source is None or block.source.free:
        return None
    found = _Correlation([], [], [])
    inner = set(block.source.columns)
    for term in block.where:
        if not block.reads((term,)) & block.free:
            found.local.append(term)
            continue
        if columns_in(term) & block.subqueries.keys():
            return None
        sides = separated(term, set(block.free), inner)
        if sides is not None:
            found.keys.append(sides)
        else:
            found.residual.append(term)
    return found


def _rows(stage: Stage, block: Block) -> _Rows:
    """The rows of a subquery of which only matters whether they are there."""
    if not block.free:
        return _Rows(block.build().node, _columns(block))
    if isinstance(block, SelectBlock):
        rows = _plain_rows(stage, block) if block.is_plain else _grouped_rows(stage, block)
        if rows is not None:
            return rows
    return _outer_rows(stage, block)


def _columns(block: Block) -> list[Expr]:
    return [Column(field.column) for field in block.fields]


def _plain_rows(stage: Stage, block: SelectBlock) -> _Rows | None:
    found = _correlation(block)
    items = [item for _, item in block.items]
    if found is None or any(
        columns_in(item) & block.subqueries.keys() and block.reads((item,)) & block.free for item in items
    ):
        return None
    inner = block.base(None, found.local)
    shown = [rename(inner.expression(item), stage.mapping) for item in items]
    keys = [Key(rename(outer, stage.mapping), theirs) for outer, theirs in found.keys]
    return _Rows(inner.node, shown, keys, [rename(term, stage.mapping) for term in found.residual])


def _grouped_rows(stage: Stage, block: SelectBlock) -> _Rows | None:
    """Groups of rows: what the equalities compare tells groups apart as well."""
    found = _strict_correlation(block)
    if found is None or found.residual or block.is_aggregate or block.tail.limited:
        return None
    carried = [(stage.names.new("key", stage.names.type_of(inner)), inner) for _, inner in found.keys]
    node = block.build_carrying(found.local, carried)
    return _Rows(node, _columns(block), _carried_keys(stage, found, carried))


def _strict_correlation(block: SelectBlock) -> _Correlation | None:
    return None if block.reads_behind_where() & block.free else _correlation(block)


def _carried_keys(stage: Stage, found: _Correlation, carried: Sequence[tuple[str, Expr]]) -> list[Key]:
    return [
        Key(rename(outer, stage.mapping), Column(name))
        for (outer, _), (name, _) in zip(found.keys, carried, strict=True)
    ]


def _outer_rows(stage: Stage, block: Block) -> _Rows:
    """The rows for every distinct combination of the outer values."""
    columns = {name: stage.mapping.get(name, name) for name in block.free}
    built = block.build(Outer(stage.names, stage.node, columns))
    keys = [Key(Column(columns[name]), Column(inner), nulls=True) for name, inner in built.mapping.items()]
    return _Rows(built.node, _columns(block), keys)


# ---- scalars ----


def _attach_scalar(stage: Stage, subquery: Subquery) -> None:
    block = subquery.block
    column = block.fields[0].column
    if not block.free:
        node = Project(block.build().node, [(subquery.name, Column(column))])
        stage.node = Join(stage.node, node, "cross" if block.one_row else "single")
        return
    if isinstance(block, SelectBlock) and _attach_by_keys(stage, subquery, block):
        return
    rows = _outer_rows(stage, block)
    items = [(subquery.name, rows.items[0]), *_kept(rows.keys)]
    kind = "left" if isinstance(block, SelectBlock) and block.is_aggregate else "single"
    stage.node = join(stage.node, Project(rows.node, items), kind, (), rows.keys)


def _kept(keys: Sequence[Key]) -> list[tuple[str, Expr]]:
    return [(key.right.name, key.right) for key in keys if isinstance(key.right, Column)]


def _attach_by_keys(stage: Stage, subquery: Subquery, block: SelectBlock) -> bool:
    found = _strict_correlation(block)
    if found is None:
        return False
    if block.is_aggregate:
        return _attach_aggregate(stage, subquery, block, found)
    first_only = block.tail.count == 1 and not block.tail.offset
    if block.tail.limited and not first_only:
        return False
    if found.residual and (block.distinct or not block.is_plain):
        return False
    names = stage.names
    carried = [(names.new("key", names.type_of(inner)), inner) for _, inner in found.keys]
    inner_columns = columns_in(*found.residual) - block.free
    behind = {name: names.copy(name) for name in sorted(inner_columns)}
    beside = [(copy, Column(name)) for name, copy in behind.items()]
    node = block.build_carrying(found.local, [*carried, *beside])
    kept = [(name, Column(name)) for name, _ in (*carried, *beside)]
    value = (subquery.name, Column(block.fields[0].column))
    terms = [rename(rename(term, behind), stage.mapping) for term in found.residual]
    keys = _carried_keys(stage, found, carried)
    stage.node = join(
        stage.node, Project(node, [value, *kept]), "left" if first_only else "single", terms, keys
    )
    return True


def _attach_aggregate(stage: Stage, subquery: Subquery, block: SelectBlock, found: _Correlation) -> bool:
    """A group for every key; a row without a group gets what aggregates of nothing are (count is 0)."""
    parts = [*block.having, block.items[0][1]]
    if found.residual or block.tail.limited or columns_in(*parts) & block.subqueries.keys():
        return False
    assert block.grouping is not None
    inner = block.base(None, found.local)
    carried = [
        (stage.names.new("key", stage.names.type_of(theirs)), inner.expression(theirs))
        for _, theirs in found.keys
    ]
    groups = block.grouping.built(inner, carried)
    stage.node = join(stage.node, groups, "left", (), _carried_keys(stage, found, carried))
    *having, value = (substitute(part, block.grouping.of_nothing()) for part in parts)
    if having:
        value = Case((all_of(having),), (value,))
    stage.add([(subquery.name, value)])
    return True


# ---- EXISTS, IN, ANY ----


def _attach_exists(stage: Stage, subquery: Subquery) -> None:
    block = _unlimited(subquery.block)
    if not block.free:
        count = stage.names.new("count", INT64)
        rows = GroupBy(
            Limit(block.build().node, 0, 1), (), [(count, Aggregate(AggregateOp.COUNT_ROWS, None))]
        )
        stage.node = Join(stage.node, rows, "cross")
        stage.add([(subquery.name, Compare(CompareOp.GT, Column(count), Literal(0)))])
        return
    found = _rows(stage, block)
    stage.add([(subquery.name, _is_marked(stage, found, ()))])


def _unlimited(block: Block) -> Block:
    """For EXISTS: one row is as good as many, in whatever order."""
    if isinstance(block, SelectBlock) and block.tail.count != 0 and not block.tail.offset:
        return block.without_tail()
    return block


def _is_marked(stage: Stage, rows: _Rows, terms: Sequence[Expr], keys: Sequence[Key] = ()) -> Expr:
    """Whether a row has a match; never NULL."""
    mark = stage.names.new("mark", BOOL)
    stage.node = join(stage.node, rows.node, "mark", [*rows.terms, *terms], [*rows.keys, *keys], mark=mark)
    return Coalesce((Column(mark), Literal(False)))


def _matches(
    stage: Stage, block: Block, operands: Sequence[Expr], *, maybe: bool
) -> Iterator[tuple[_Rows, list[Expr], list[Key]]]:
    """The rows that are equal to the operands, and by which terms and keys; then, if `maybe`, those of which
    it is open. Only a NULL leaves it open: pairs with one are compared one by one, but they are few beside
    all rows with all rows."""
    rows = _rows(stage, block)
    yield rows, _equal(operands, rows), []
    if maybe:
        rows = _rows(stage, block)
        yield rows, [_any_null(rows.items), *_not_unequal(operands, rows)], []
        rows = _rows(stage, block)
        has_null = Case((_any_null(operands),), (Literal(1),))
        yield rows, _not_unequal(operands, rows), [Key(has_null, Literal(1))]


def _attach_in(stage: Stage, subquery: Subquery) -> None:
    operands = [stage.expression(operand) for operand in subquery.operands]
    block = subquery.block
    if not block.free and len(operands) == 1:
        keys = [Key(operands[0], Column(block.fields[0].column))]
        stage.node = join(stage.node, block.build().node, "mark", (), keys, mark=subquery.name)
        return
    marks = [_is_marked(stage, *match) for match in _matches(stage, block, operands, maybe=True)]
    value = Case(tuple(marks), (Literal(True), Literal(None), Literal(None), Literal(False)))
    stage.add([(subquery.name, value)])


def _equal(operands: Sequence[Expr], rows: _Rows) -> list[Expr]:
    return [Compare(CompareOp.EQ, *pair) for pair in zip(operands, rows.items, strict=False)]


def _any_null(values: Sequence[Expr]) -> Expr:
    return joined(Or, [IsNull(value, False) for value in values])


def _not_unequal(operands: Sequence[Expr], rows: _Rows) -> list[Expr]:
    """Equal, or NULL and so perhaps equal."""
    return [
        Or((Compare(CompareOp.EQ, operand, item), IsNull(operand, False), IsNull(item, False)))
        for operand, item in zip(operands, rows.items, strict=True)
    ]


def _attach_any(stage: Stage, subquery: Subquery) -> None:
    """`x < ANY (…)`: the least and the greatest value decide, and whether there are NULLs."""
    operand = stage.expression(subquery.operands[0])
    rows = _rows(stage, subquery.block)
    if rows.terms or columns_in(*rows.items) - set(rows.node.schema.names):
        rows = _outer_rows(stage, subquery.block)
    item = rows.items[0]
    names = stage.names
    data_type = names.type_of(item)
    total, present = names.new("count", INT64), names.new("count", INT64)
    least, greatest = names.new("min", data_type), names.new("max", data_type)
    calls = [
        (total, Aggregate(AggregateOp.COUNT_ROWS, None)),
        (present, Aggregate(AggregateOp.COUNT, item)),
        (least, Aggregate(AggregateOp.MIN, item)),
        (greatest, Aggregate(AggregateOp.MAX, item)),
    ]
    carried = [(names.new("key", names.type_of(key.right)), key.right) for key in rows.keys]
    groups = GroupBy(rows.node, carried, calls)
    keys = [Key(key.left, Column(name), key.nulls) for key, (name, _) in zip(rows.keys, carried, strict=True)]
    stage.node = join(stage.node, groups, "left", (), keys) if keys else Join(stage.node, groups, "cross")
    assert subquery.op is not None
    hit = _hit(subquery.op, operand, Column(least), Column(greatest))
    no_rows = Compare(CompareOp.EQ, Coalesce((Column(total), Literal(0))), Literal(0))
    unknown = Or((IsNull(operand, False), Compare(CompareOp.LT, Column(present), Column(total))))
    value = Case((no_rows, hit, unknown), (Literal(False), Literal(True), Literal(None), Literal(False)))
    stage.add([(subquery.name, value)])


def _hit(op: CompareOp, operand: Expr, least: Expr, greatest: Expr) -> Expr:
    if op in (CompareOp.LT, CompareOp.LTE):
        return Compare(op, operand, greatest)
    if op in (CompareOp.GT, CompareOp.GTE):
        return Compare(op, operand, least)
    assert op == CompareOp.NEQ
    return Or((Compare(op, operand, least), Compare(op, operand, greatest)))


_ATTACH: dict[str, Callable[[Stage, Subquery], None]] = {
    SCALAR: _attach_scalar,
    EXISTS: _attach_exists,
    IN: _attach_in,
    ANY: _attach_any,
}
