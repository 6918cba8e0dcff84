"""Which columns a name in the text can mean.

A scope holds the relations of one FROM. Names match whatever their case, as in DuckDB; a name that no
relation of the scope has is looked for in the scopes around it, which makes the query correlated.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from querymode.sql.binder import Cte
    from querymode.sql.expressions import Translator


class Field:
    """A column as a query sees it: what it is called, and its name in the plan."""

    __slots__ = ("column", "name")

    def __init__(self, name: str, column: str) -> None:
        self.name = name
        self.column = column


class Relation:
    """A table of a FROM under its alias."""

    __slots__ = ("_by_name", "alias", "fields")

    def __init__(self, alias: str, fields: Sequence[Field]) -> None:
        self.alias = alias
        self.fields = tuple(fields)
        #: Made when somebody looks for a name: a table of thousands of columns is asked for many.
        self._by_name: dict[str, list[Field]] | None = None

    def find(self, name: str) -> list[Field]:
        if self._by_name is None:
            self._by_name = {}
            for field in self.fields:
                self._by_name.setdefault(field.name.casefold(), []).append(field)
        return self._by_name.get(name.casefold(), [])


class Ambiguous(Exception):
    """A name that means several columns."""

    def __init__(self, candidates: list[str]) -> None:
        super().__init__(candidates)
        self.candidates = candidates


class Scope:
    """The relations of a FROM, and the scope of the query around it."""

    def __init__(self, parent: Scope | None = None) -> None:
        self.parent = parent
        self.relations: list[Relation] = []
        #: What `*` gives, in order. USING leaves one of two columns out.
        self.visible: list[tuple[Relation | None, Field]] = []
        #: Queries of WITH, by their folded names.
        self.ctes: dict[str, Cte] = {}
        #: Expressions of the SELECT, whose aliases the queries inside it may use.
        self.translator: Translator | None = None

    def add(self, relation: Relation) -> None:
        self.relations.append(relation)
        self.visible += [(relation, field) for field in relation.fields]

    @property
    def columns(self) -> set[str]:
        """Names in the plan of all columns."""
        hidden = {field.column for relation in self.relations for field in relation.fields}
        return hidden | {field.column for _, field in self.visible}

    def relation(self, alias: str) -> Relation | None:
        """The relation of that name here; Ambiguous if there are two."""
        folded = alias.casefold()
        found = [relation for relation in self.relations if relation.alias.casefold() == folded]
        if len(found) > 1:
            raise Ambiguous([relation.alias for relation in found])
        return found[0] if found else None

    def own_column(self, name: str) -> Field | None:
        """The column that a bare name means in this scope alone."""
        folded = name.casefold()
        found = [(relation, field) for relation, field in self.visible if field.name.casefold() == folded]
        if len({field.column for _, field in found}) > 1:
            raise Ambiguous(
                [
                    field.name if relation is None else f"{relation.alias}.{field.name}"
                    for relation, field in found
                ]
            )
        return found[0][1] if found else None

    def own_qualified(self, table: str, name: str) -> Field | None:
        relation = self.relation(table)
        found = relation.find(name) if relation is not None else []
        if len(found) > 1:
            raise Ambiguous([f"{table}.{field.name}" for field in found])
        return found[0] if found else None

    def outward(self) -> Iterator[Scope]:
        """This scope and those around it."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def candidates(self) -> list[str]:
        """All names that could be meant, for a message."""
        names: dict[str, None] = {}
        for scope in self.outward():
            for relation, field in scope.visible:
                plain = field.name
                qualified = f"{relation.alias}.{plain}" if relation is not None and relation.alias else plain
                names[qualified if plain in names else plain] = None
        return list(names)

    def cte(self, name: str) -> Cte | None:
        folded = name.casefold()
        return next((scope.ctes[folded] for scope in self.outward() if folded in scope.ctes), None)
