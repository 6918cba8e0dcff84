"""What stands in FROM, bound but not built: relations, queries, and joins of them."""

from __future__ import annotations

from querymode.errors import error
from querymode.expr.nodes import Column, Expr
from querymode.expr.trees import columns_in, rename
from querymode.plan.nodes import Join, Node, Project
from querymode.sql.blocks import Built, Outer, Stage
from querymode.sql.joins import Key, join

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from querymode.errors import QueryModeError
    from querymode.sql.blocks import Block
    from querymode.sql.columns import Names
    from querymode.sql.subquery import Subquery


class Source:
    """A relation of a FROM."""

    #: The names of its columns in the plan.
    columns: frozenset[str]
    #: Columns of queries around it that it reads.
    free: frozenset[str] = frozenset()

    def build(self, outer: Outer | None) -> Built:
        """As Block.build; `outer` is given where something is free, and may be given elsewhere."""
        raise NotImplementedError


class Given(Source):
    """A relation that is there: a table, or VALUES."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.columns = frozenset(node.schema.names)

    def build(self, outer: Outer | None) -> Built:
        return Built(self.node)


class Shared(Source):
    """A query that is used in several places (WITH): one node for all of them, and names for this one."""

    def __init__(self, cell: SharedBlock, renamed: Sequence[tuple[str, str]]) -> None:
        """`renamed`: the block's columns and what they are called here."""
        self.cell = cell
        self.renamed = tuple(renamed)
        self.columns = frozenset(name for _, name in renamed)
        self.free = cell.block.free

    def build(self, outer: Outer | None) -> Built:
        built = self.cell.build(outer)
        items = [(name, Column(column)) for column, name in self.renamed]
        carried = [(name, Column(name)) for name in built.mapping.values()]
        return Built(Project(built.node, [*items, *carried]), built.mapping)


class SharedBlock:
    """A block that is built once, unless it depends on what is around it."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self._built: Built | None = None

    def build(self, outer: Outer | None) -> Built:
        if self.block.free:
            return self.block.build(outer)
        if self._built is None:
            self._built = self.block.build()
        return self._built


class Derived(Source):
    """A query in FROM."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.columns = frozenset(field.column for field in block.fields)
        self.free = block.free

    def build(self, outer: Outer | None) -> Built:
        return self.block.build(outer)


class Joined(Source):
    """Two relations and the terms of an ON."""

    def __init__(
        self,
        names: Names,
        left: Source,
        right: Source,
        kind: str,
        terms: Sequence[Expr] = (),
        *,
        subqueries: Mapping[str, Subquery] | None = None,
        added: Sequence[tuple[str, Expr]] = (),
    ) -> None:
        """`added`: columns over both sides that come with the join, such as those of USING in a full join."""
        self.names = names
        self.left = left
        self.right = right
        self.kind = kind
        self.terms = tuple(terms)
        self.subqueries = dict(subqueries or {})
        self.added = tuple(added)
        inner = left.columns | right.columns
        self.columns = left.columns if kind in ("semi", "anti") else inner | {name for name, _ in added}
        reads = columns_in(*self.terms)
        for name in reads & self.subqueries.keys():
            reads |= self.subqueries[name].reads
        self.free = (left.free | right.free | frozenset(reads)) - inner - self.subqueries.keys()

    def build(self, outer: Outer | None) -> Built:
        if self.lateral:
            return self._build_lateral(outer)
        left = self.left.build(outer if self.left.free else None)
        right = self.right.build(outer if self.right.free else None)
        if self.free and not (left.mapping or right.mapping):
            assert outer is not None  # the terms themselves read outer columns
            left = _beside(outer, left) if self.kind != "right" else left
            right = _beside(outer, right) if self.kind == "right" else right
        return self._joined(left, right, outer)

    @property
    def lateral(self) -> bool:
        """Whether the right side reads columns of the left one."""
        return bool(self.right.free & self.left.columns)

    def _joined(self, left: Built, right: Built, outer: Outer | None) -> Built:
        """The side whose rows all come must know the outer values, if the other one does."""
        keys: list[Key] = []
        if outer is not None and right.mapping and not left.mapping and self.kind not in ("inner", "right"):
            left = _beside(outer, left)
        if outer is not None and left.mapping and not right.mapping and self.kind in ("right", "full"):
            right = _beside(outer, right)
        if left.mapping and right.mapping:
            keys = [
                Key(Column(name), Column(right.mapping[column]), nulls=True)
                for column, name in left.mapping.items()
            ]
        mapping = right.mapping if self.kind == "right" or not left.mapping else left.mapping
        if self.kind == "full" and mapping:
            raise _not_in_full()
        plain = [term for term in self.terms if not columns_in(term) & self.subqueries.keys()]
        others = [term for term in self.terms if all(term is not one for one in plain)]
        if others and self.kind != "inner":
            left, right, others = self._attach_sides(left, right, others)
            plain += others
            others = []
        node = join(left.node, right.node, self.kind, [rename(term, mapping) for term in plain], keys)
        stage = Stage(self.names, self.subqueries, Built(node, mapping))
        stage.where(others)
        if self.added:
            stage.add([(name, stage.expression(item)) for name, item in self.added])
        return Built(stage.node, mapping)

    def _attach_sides(self, left: Built, right: Built, terms: list[Expr]) -> tuple[Built, Built, list[Expr]]:
        """Subqueries in the ON of an outer join are computed for the side that they read, below the join."""
        stages = [Stage(self.names, self.subqueries, side) for side in (left, right)]
        for term in terms:
            for name in columns_in(term) & self.subqueries.keys():
                reads = self.subqueries[name].reads
                sides = [
                    stage
                    for stage, source in zip(stages, (self.left, self.right), strict=True)
                    if reads <= source.columns | stage.mapping.keys()
                ]
                if not sides:
                    raise _both_sides()
                # The right one first: a filter over it may go below the join.
                sides[-1].expression(Column(name))
        return Built(stages[0].node, left.mapping), Built(stages[1].node, right.mapping), terms

    def _build_lateral(self, outer: Outer | None) -> Built:
        """The right side is computed for the distinct values of what it reads of the left one."""
        left = self.left.build(outer if self.left.free else None)
        if outer is not None and not left.mapping:
            left = _beside(outer, left)
        if self.kind not in ("inner", "left"):
            raise _no_lateral(self.kind)
        columns = {name: left.mapping.get(name, name) for name in self.right.free}
        right = self.right.build(Outer(self.names, left.node, columns))
        keys = [
            Key(Column(columns[name]), Column(column), nulls=True) for name, column in right.mapping.items()
        ]
        terms = [rename(term, left.mapping) for term in self.terms]
        if any(columns_in(term) & self.subqueries.keys() for term in terms):
            raise _no_lateral("subquery in the ON of a")
        node: Node = join(left.node, right.node, self.kind, terms, keys)
        return Built(node, left.mapping)


def _beside(outer: Outer, built: Built) -> Built:
    """Every row of a relation with every outer value."""
    values = outer.take()
    return Built(Join(values.node, built.node, "cross"), values.mapping)


def _no_lateral(kind: str) -> QueryModeError:
    return error("NOT_SUPPORTED", f"a {kind} LATERAL join is not supported yet; inner and left ones are")


def _both_sides() -> QueryModeError:
    return error(
        "NOT_SUPPORTED",
        "a subquery in the ON of an outer join that reads columns of both sides is not supported yet",
    )


def _not_in_full() -> QueryModeError:
    return error(
        "NOT_SUPPORTED",
        "FULL JOIN in a subquery that reads columns of the query around it is not supported yet",
    )
