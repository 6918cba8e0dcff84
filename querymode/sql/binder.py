"""A statement's queries → blocks: WITH, set operations and VALUES. select.py does SELECT."""

from __future__ import annotations

from sqlglot import exp

from querymode.expr.clock import CLOCK_NAMES, Clock
from querymode.expr.nodes import Column, Expr, Literal
from querymode.sql.blocks import Block, SelectBlock, Tail
from querymode.sql.columns import Names
from querymode.sql.parameters import Parameters
from querymode.sql.scope import Field, Relation, Scope
from querymode.sql.select import SelectBinder, bind_tail
from querymode.sql.set_operations import bind_set_operation
from querymode.sql.sources import Derived, SharedBlock
from querymode.sql.tables import Tables
from querymode.sql.values import bind_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from querymode.expr.value_list import ValueList
    from querymode.session import QueryMode
    from querymode.sql.parse import Statement

#: What a query in parentheses, a SELECT or a set operation may have behind it.
TAIL = ("order", "limit", "offset")


class Cte:
    """A query of WITH: what it is called, and its columns. `block` is None while it is bound."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.shared: SharedBlock | None = None
        self.fields: tuple[Field, ...] = ()


class Binder:
    """Binds the queries of one statement."""

    def __init__(self, session: QueryMode, statement: Statement, parameters: object) -> None:
        self.text = statement.text
        self.names = Names()
        self.parameters = Parameters(parameters, statement)
        self._clock: Clock | None = None
        self.tables = Tables(session)
        #: Where expressions come from: by their identity, and kept alive with it.
        self.origins: dict[int, tuple[Expr, exp.Expr]] = {}
        self._lists = statement.lists

    @property
    def asked_time(self) -> bool:
        """Whether the answer depends on when the question was asked."""
        return self._clock is not None

    def now(self, name: str) -> Literal | None:
        """The constant that a function without arguments means, if it asks for the time."""
        if name not in CLOCK_NAMES:
            return None
        if self._clock is None:
            self._clock = Clock()
        return self._clock.literal(name)

    def list_at(self, node: exp.Expr) -> ValueList | None:
        """The long list that a literal stands for."""
        return self._lists.get(node.meta.get("start", -1)) if self._lists else None

    def query(self, node: exp.Expr, parent: Scope | None) -> Block:
        """A query in parentheses or not, with the scope around it. Its alias is its user's concern."""
        with_ = node.args.get("with_")
        if with_ is not None:
            parent = self._with(with_, parent)
        if isinstance(node, exp.Subquery):
            self.refuse_others(node, ("this", "alias", "with_", *TAIL), "a query in parentheses")
            return self._with_tail(node, self.query(node.this, parent), parent)
        if isinstance(node, exp.Select):
            return SelectBinder(self, node, parent).bind()
        if isinstance(node, exp.SetOperation):
            block = bind_set_operation(self, node, parent)
            return self._with_tail(node, block, parent)
        if isinstance(node, exp.Values):
            return self._with_tail(node, bind_values(self, node, parent), parent)
        raise self.text.not_supported(f"{type(node).key.upper()} as a query", node)

    def _with_tail(self, node: exp.Expr, block: Block, parent: Scope | None) -> Block:
        """ORDER BY and LIMIT behind a set operation or parentheses: over its columns."""
        if not any(node.args.get(part) is not None for part in TAIL):
            return block
        scope = Scope(parent)
        scope.add(Relation("", block.fields))
        items: list[tuple[str, Expr]] = [(field.column, Column(field.column)) for field in block.fields]
        translator, tail = bind_tail(self, node, scope, items)
        return SelectBlock(
            self.names,
            Derived(block),
            block.fields,
            items,
            subqueries=translator.subqueries,
            tail=tail or Tail(),
        )

    # ---- WITH ----

    def _with(self, node: exp.With, parent: Scope | None) -> Scope:
        frame = Scope(parent)
        for query in node.expressions:
            self.refuse_others(query, ("this", "alias", "materialized"), "WITH")
            alias = query.args["alias"]
            name = alias.name
            if name.casefold() in frame.ctes:
                raise self.text.error("SQL_SYNTAX", f"WITH names {name!r} twice", alias)
            cte = Cte(name)
            if node.args.get("recursive"):
                frame.ctes[name.casefold()] = cte
            block = self.query(query.this, frame)
            cte.shared = SharedBlock(block)
            cte.fields = tuple(self.renamed(block.fields, alias.args.get("columns") or (), alias))
            frame.ctes[name.casefold()] = cte
        return frame

    # ---- helpers of all rooms ----

    def renamed(
        self, fields: Sequence[Field], columns: Sequence[exp.Identifier], node: exp.Expr
    ) -> list[Field]:
        """Columns under the names of an alias such as `t(a, b)`; those behind the last one keep theirs."""
        if len(columns) > len(fields):
            raise self.text.error("SQL_SYNTAX", f"{len(columns)} names for {len(fields)} columns", node)
        new = [Field(_identifier(name), field.column) for name, field in zip(columns, fields, strict=False)]
        return [*new, *fields[len(columns) :]]

    def refuse_others(self, node: exp.Expr, known: Sequence[str], what: str) -> None:
        """An argument of the tree that nobody looks at is a construct that would be lost without a word."""
        for name, value in node.args.items():
            if value and name not in known:
                word = _ARGUMENT_WORDS.get(name, name.rstrip("_").upper().replace("_", " "))
                place = value[0] if isinstance(value, list) else value
                place = place if isinstance(place, exp.Expr) else node
                raise self.text.not_supported(f"{word} in {what}", place)


def _identifier(node: exp.Expr) -> str:
    return node.name


_ARGUMENT_WORDS = {
    "windows": "WINDOW",
    "locks": "FOR UPDATE",
    "pivots": "PIVOT",
    "sample": "SAMPLE",
    "when": "AT",
    "laterals": "LATERAL VIEW",
    "match": "MATCH_RECOGNIZE",
    "kind": "SELECT AS",
    "into": "INTO",
    "key_expressions": "USING KEY",
}
