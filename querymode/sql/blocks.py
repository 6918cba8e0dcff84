"""Bound queries: names are resolved, types are known, nodes are not made yet.

A query inside another one may read columns of the queries around it (`free`). Its nodes cannot be made
before it is known where these columns come from, so a block waits until `build` is called: without an outer
relation where nothing is free, else with the distinct values of the free columns (`Outer`). The built node
then carries those values as columns of its own, and whoever asked joins by them. This is the general way out
of correlation (Neumann and Kemper, Unnesting Arbitrary Queries); subquery.py knows shorter ones for common
forms.
"""

from __future__ import annotations

from querymode._abi import AggregateOp
from querymode.errors import error
from querymode.expr.nodes import Aggregate, Coalesce, Column, Expr, Literal
from querymode.expr.trees import columns_in, rename
from querymode.plan.nodes import Filter, GroupBy, Limit, Node, Project, Sort
from querymode.sql.joins import Key, filtered, join

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from querymode.sql.columns import Names
    from querymode.sql.scope import Field
    from querymode.sql.sources import Source
    from querymode.sql.subquery import Subquery


class Built:
    """A node, and the columns in it that hold the values of outer columns."""

    __slots__ = ("mapping", "node")

    def __init__(self, node: Node, mapping: Mapping[str, str] | None = None) -> None:
        self.node = node
        self.mapping = dict(mapping or {})


class Outer:
    """The distinct values of outer columns: what a correlated query is computed for."""

    def __init__(self, names: Names, node: Node, columns: Mapping[str, str]) -> None:
        """`columns`: the outer columns, and what they are called in `node`."""
        self._names = names
        self._columns = [(outer, names.copy(outer), inner) for outer, inner in sorted(columns.items())]
        self._node = GroupBy(node, [(name, Column(inner)) for _, name, inner in self._columns], ())

    def take(self) -> Built:
        """The values, under names of their own."""
        copies = [(self._names.copy(outer), outer, name) for outer, name, _ in self._columns]
        node = Project(self._node, [(copy, Column(name)) for copy, _, name in copies])
        return Built(node, {outer: copy for copy, outer, _ in copies})


class Block:
    """A query that is bound but not built."""

    #: What it gives, in order.
    fields: tuple[Field, ...]
    #: Columns of queries around it that it reads.
    free: frozenset[str]
    #: Whether it gives one row whatever is in its tables.
    one_row = False

    def build(self, outer: Outer | None = None) -> Built:
        """Its nodes. With an outer relation, the result has that relation's columns beside its own."""
        raise NotImplementedError


class Stage:
    """A relation in the making within a SELECT: a node, and how outer columns are called in it."""

    def __init__(self, names: Names, subqueries: Mapping[str, Subquery], built: Built) -> None:
        self.names = names
        self.subqueries = subqueries
        self.node = built.node
        self.mapping = built.mapping

    def expression(self, expression: Expr) -> Expr:
        """The expression over this stage's node; subqueries in it are joined first."""
        from querymode.sql.subquery import attach

        for name in sorted(columns_in(expression) & self.subqueries.keys()):
            if name not in self.node.schema:
                attach(self, self.subqueries[name])
        return rename(expression, self.mapping)

    def where(self, terms: Iterable[Expr]) -> None:
        """Keeps rows for which all terms are true; subqueries among them become semi and anti joins."""
        from querymode.sql.subquery import attach_condition

        plain: list[Expr] = []
        others: list[Expr] = []
        for term in terms:
            (others if columns_in(term) & self.subqueries.keys() else plain).append(term)
        self.node = filtered(self.node, [rename(term, self.mapping) for term in plain])
        for term in others:
            if not attach_condition(self, term):
                condition = self.expression(term)  # may change the node
                self.node = Filter(self.node, condition)

    def project(self, items: Sequence[tuple[str, Expr]]) -> None:
        """These columns, and those of the outer relation."""
        exprs = [(name, self.expression(item)) for name, item in items]
        projected = [*exprs, *self.carried()]
        self.node = Project(self.node, projected, [self.names.declared(name) for name, _ in projected])

    def carried(self) -> list[tuple[str, Expr]]:
        return [(name, Column(name)) for name in self.mapping.values()]

    def add(self, items: Sequence[tuple[str, Expr]]) -> None:
        """All columns that are there, and these."""
        kept: list[tuple[str, Expr]] = [(column, Column(column)) for column in self.node.schema.names]
        self.node = Project(self.node, [*kept, *items])


class Grouping:
    """GROUP BY, or aggregates over everything where there are no keys."""

    __slots__ = ("calls", "keys", "order")

    def __init__(
        self,
        keys: Sequence[tuple[str, Expr]],
        calls: Sequence[tuple[str, Aggregate]],
        order: Sequence[tuple[Expr, bool, bool]] = (),
    ) -> None:
        self.keys = tuple(keys)
        self.calls = tuple(calls)
        #: In what order aggregates see the rows, if that matters.
        self.order = tuple(order)

    def expressions(self) -> list[Expr]:
        parts: list[Expr] = [key for key, _, _ in self.order]
        return parts + [key for _, key in self.keys] + [call for _, call in self.calls]

    def built(self, stage: Stage, carried: Sequence[tuple[str, Expr]]) -> GroupBy:
        """The groups of a stage's rows, which keys that are carried along tell apart as well."""
        order = [(stage.expression(key), down, first) for key, down, first in self.order]
        keys = [(name, stage.expression(key)) for name, key in self.keys]
        calls = [(name, stage.expression(call)) for name, call in self.calls]
        node = Sort(stage.node, order) if order else stage.node
        return GroupBy(node, [*carried, *keys], calls)  # type: ignore[arg-type]

    def of_nothing(self) -> dict[str, Expr]:
        """What aggregates of a group say that has no rows, in terms of the NULLs an outer join puts there."""
        zero = Literal(0)
        return {
            name: Coalesce((Column(name), zero))
            for name, call in self.calls
            if call.op in (AggregateOp.COUNT, AggregateOp.COUNT_ROWS)
        }


class Tail:
    """ORDER BY, LIMIT and OFFSET. Sort keys are columns of the result or `hidden` ones beside it."""

    __slots__ = ("count", "hidden", "keys", "offset")

    def __init__(
        self,
        keys: Sequence[tuple[Expr, bool, bool]] = (),
        hidden: Sequence[tuple[str, Expr]] = (),
        offset: int = 0,
        count: int | None = None,
    ) -> None:
        self.keys = tuple(keys)
        self.hidden = tuple(hidden)
        self.offset = offset
        self.count = count

    @property
    def limited(self) -> bool:
        return self.offset > 0 or self.count is not None

    def apply(self, node: Node, columns: Sequence[str], carried: Sequence[str]) -> Node:
        """Sorts and cuts a node, which has the hidden columns; `carried` tell groups of rows apart."""
        if self.keys:
            node = Sort(node, self.keys)
        if self.limited and carried:
            node = self._first_of_each(node, columns, carried)
        elif self.limited:
            node = Limit(node, self.offset, self.count)
        if self.hidden:
            node = Project(node, [(name, Column(name)) for name in (*columns, *carried)])
        return node

    def _first_of_each(self, node: Node, columns: Sequence[str], carried: Sequence[str]) -> Node:
        if self.count == 0:
            return Filter(node, Literal(False))
        if self.offset or self.count != 1:
            raise error(
                "NOT_SUPPORTED",
                "LIMIT of more than one row, or OFFSET, in a subquery that reads columns of the query around "
                "it, is not supported yet",
            )
        calls = [(name, Aggregate(AggregateOp.FIRST, Column(name))) for name in columns]
        calls += [(name, Aggregate(AggregateOp.FIRST, Column(name))) for name, _ in self.hidden]
        return GroupBy(node, [(name, Column(name)) for name in carried], calls)


class SelectBlock(Block):
    """One SELECT."""

    def __init__(
        self,
        names: Names,
        source: Source | None,
        fields: Sequence[Field],
        items: Sequence[tuple[str, Expr]],
        *,
        subqueries: Mapping[str, Subquery] | None = None,
        where: Sequence[Expr] = (),
        grouping: Grouping | None = None,
        having: Sequence[Expr] = (),
        distinct: bool = False,
        distinct_on: Sequence[Expr] = (),
        tail: Tail | None = None,
    ) -> None:
        self.names = names
        self.source = source
        self.fields = tuple(fields)
        self.items = tuple(items)
        self.subqueries = dict(subqueries or {})
        self.where = tuple(where)
        self.grouping = grouping
        self.having = tuple(having)
        self.distinct = distinct
        self.distinct_on = tuple(distinct_on)
        self.tail = tail or Tail()
        self.free = frozenset(self._free())

    # ---- what it reads ----

    def reads(self, expressions: Iterable[Expr]) -> set[str]:
        """All columns that expressions read, also through the subqueries in them."""
        names = columns_in(*expressions)
        for name in names & self.subqueries.keys():
            names |= self.subqueries[name].reads
        return names

    def _free(self) -> set[str]:
        names = self.reads(self.where) | self.reads_behind_where()
        local = set(self.subqueries)
        if self.source is not None:
            names |= self.source.free
            local |= self.source.columns
        if self.grouping is not None:
            local |= {name for name, _ in (*self.grouping.keys, *self.grouping.calls)}
        local |= {name for name, _ in (*self.items, *self.tail.hidden)}
        return names - local

    def reads_behind_where(self) -> set[str]:
        """Columns that anything but FROM and WHERE reads."""
        parts: list[Expr] = [item for _, item in (*self.items, *self.tail.hidden)]
        parts += [*self.having, *self.distinct_on]
        if self.grouping is not None:
            parts += self.grouping.expressions()
        return self.reads(parts)

    @property
    def is_aggregate(self) -> bool:
        """Aggregates without keys: one row before HAVING."""
        return self.grouping is not None and not self.grouping.keys

    @property
    def one_row(self) -> bool:  # type: ignore[override]
        if self.having or self.tail.offset or self.tail.count == 0:
            return False
        return self.is_aggregate or (self.source is None and not self.where)

    @property
    def is_plain(self) -> bool:
        """Neither groups nor limits rows: a row of it is a row of its FROM that WHERE lets through."""
        return self.grouping is None and not self.distinct_on and not self.tail.limited

    def constants(self) -> dict[str, Literal] | None:
        """The values of its one row, where they stand in the text."""
        if self.source is not None or not self.one_row or self.grouping is not None or self.tail.keys:
            return None
        found = {name: item for name, item in self.items if isinstance(item, Literal)}
        return found if len(found) == len(self.items) else None

    def without_tail(self) -> SelectBlock:
        """The same rows in any order, and all of them."""
        if not self.tail.keys and not self.tail.limited:
            return self
        copy = object.__new__(SelectBlock)
        copy.__dict__ = {**self.__dict__, "tail": Tail()}
        copy.free = frozenset(copy._free())
        return copy

    # ---- building ----

    def build(self, outer: Outer | None = None) -> Built:
        stage = self.base(outer)
        if self.grouping is not None:
            self._group(stage, outer)
        return self._finish(stage)

    def build_carrying(self, where: Sequence[Expr], carried: Sequence[tuple[str, Expr]]) -> Node:
        """With other terms in WHERE, and expressions over FROM carried along to tell rows apart by."""
        stage = self.base(None, where)
        self.carry(stage, carried)
        if self.grouping is not None:
            self._group(stage, None)
        return self._finish(stage).node

    def carry(self, stage: Stage, carried: Sequence[tuple[str, Expr]]) -> None:
        stage.add([(name, stage.expression(item)) for name, item in carried])
        stage.mapping = {name: name for name, _ in carried}

    def base(self, outer: Outer | None, where: Sequence[Expr] | None = None) -> Stage:
        """FROM and WHERE."""
        terms = self.where if where is None else where
        if self.source is None:
            from querymode.sql.values import one_row

            built = Built(one_row(self.names)) if outer is None else outer.take()
        else:
            built = self.source.build(outer if self.source.free else None)
        stage = Stage(self.names, self.subqueries, built)
        if outer is not None and not stage.mapping:
            plain = [term for term in terms if not columns_in(term) & self.subqueries.keys()]
            terms = [term for term in terms if all(term is not other for other in plain)]
            values = outer.take()
            stage.node = join(
                values.node, stage.node, "inner", [rename(term, values.mapping) for term in plain]
            )
            stage.mapping = values.mapping
        stage.where(terms)
        return stage

    def _group(self, stage: Stage, outer: Outer | None) -> None:
        grouping = self.grouping
        assert grouping is not None
        groups = grouping.built(stage, stage.carried())
        if outer is None or grouping.keys:
            stage.node = groups
            return
        # Without keys there is a row for every outer value, also for those that no row goes with.
        values = outer.take()
        pairs = [
            Key(Column(name), Column(stage.mapping[column]), nulls=True)
            for column, name in values.mapping.items()
        ]
        stage.node = join(values.node, groups, "left", (), pairs)
        stage.mapping = values.mapping
        counts = grouping.of_nothing()
        items = [(name, counts.get(name, Column(name))) for name, _ in grouping.calls]
        stage.node = Project(stage.node, [*items, *stage.carried()])

    def _finish(self, stage: Stage) -> Built:
        stage.where(self.having)
        if self.distinct_on:
            self._first_of_distinct(stage)
        else:
            stage.project([*self.items, *self.tail.hidden])
            if self.distinct:
                self._distinct(stage)
        columns = [name for name, _ in self.items]
        carried = list(stage.mapping.values())
        return Built(self.tail.apply(stage.node, columns, carried), stage.mapping)

    def _distinct(self, stage: Stage) -> None:
        """Of rows that differ only in what they are sorted by, the first one is kept."""
        hidden = [(name, Aggregate(AggregateOp.FIRST, Column(name))) for name, _ in self.tail.hidden]
        keys = [(name, Column(name)) for name, _ in self.items]
        stage.node = GroupBy(stage.node, [*keys, *stage.carried()], hidden)

    def _first_of_distinct(self, stage: Stage) -> None:
        on = [(self.names.new("distinct_on", self.names.type_of(key)), key) for key in self.distinct_on]
        shown = [*self.items, *self.tail.hidden]
        stage.project([*on, *shown])
        if self.tail.keys:
            stage.node = Sort(stage.node, self.tail.keys)
        calls = [(name, Aggregate(AggregateOp.FIRST, Column(name))) for name, _ in shown]
        groups = GroupBy(stage.node, [*((name, Column(name)) for name, _ in on), *stage.carried()], calls)
        stage.node = Project(groups, [*((name, Column(name)) for name, _ in shown), *stage.carried()])
