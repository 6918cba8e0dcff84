"""Every column of a query under a name of its own, and its type.

Plans know columns by name alone, so no two columns of one query share one: the second `l_orderkey` is
`l_orderkey#2`. Results of subqueries and aggregates are columns like any other, with names of this kind.
"""

from __future__ import annotations

from querymode.expr.nodes import Column
from querymode.plan.bind import bind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from querymode.expr.nodes import Expr
    from querymode.schema import Schema
    from querymode.types import DataType


class Names:
    """The columns of one query. What plan/bind.py asks of a schema, it answers for all of them at once."""

    def __init__(self) -> None:
        self._index: dict[str, int] = {}
        self._fields: list[tuple[str, DataType]] = []
        self._copies: dict[str, int] = {}
        #: Types of expressions by their identity, which lasts as long as they are kept here.
        self._types: dict[int, tuple[Expr, DataType]] = {}

    def new(self, wish: str, data_type: DataType) -> str:
        """A name that nothing else in the query has: the wish itself where it is free."""
        name = wish
        while name in self._index:
            copy = self._copies.get(wish, 1) + 1
            self._copies[wish] = copy
            name = f"{wish}#{copy}"
        self._index[name] = len(self._fields)
        self._fields.append((name, data_type))
        return name

    def copy(self, name: str) -> str:
        """A name for another instance of a column."""
        return self.new(name.partition("#")[0], self.declared(name))

    def schema_names(self, schema: Schema) -> list[str]:
        """Names for all columns of a relation."""
        return [self.new(name, data_type) for name, data_type in schema]

    def declared(self, name: str) -> DataType:
        """The type that a name was made with."""
        return self._fields[self._index[name]][1]

    def type_of(self, expression: Expr) -> DataType:
        if isinstance(expression, Column):
            return self.declared(expression.name)
        known = self._types.get(id(expression))
        if known is None:
            known = (expression, bind(expression, self).type)  # type: ignore[arg-type]
            self._types[id(expression)] = known
        return known[1]

    # ---- as plan/bind.py sees it ----

    def index(self, name: str) -> int:
        return self._index[name]

    def field(self, index: int) -> tuple[str, DataType]:
        return self._fields[index]
