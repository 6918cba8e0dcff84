"""FROM → sources, and the scope that the rest of a SELECT sees."""

from __future__ import annotations

from sqlglot import exp

from querymode._abi import CompareOp
from querymode.errors import QueryModeError
from querymode.expr.nodes import Coalesce, Column, Expr
from querymode.expr.trees import conjuncts
from querymode.plan.nodes import Node, Project, Scan
from querymode.sql.scope import Field, Relation, Scope
from querymode.sql.sources import Derived, Given, Joined, Shared, Source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from querymode.sql.binder import Binder, Cte
    from querymode.sql.expressions import Translator

_TABLE_ARGS = ("this", "alias", "db", "catalog", "joins")
_JOIN_ARGS = ("this", "on", "using", "side", "kind", "method")


class FromBinder:
    """Binds what stands in FROM, and adds its relations to the SELECT's scope."""

    def __init__(self, binder: Binder, translator: Translator) -> None:
        self.binder = binder
        self.text = binder.text
        self.translator = translator
        self.scope = translator.scope

    def bind(self, first: exp.Expr, joins: Sequence[exp.Join]) -> Source:
        source = self._relation(first)
        for join in joins:
            source = self._join(source, join)
        return source

    # ---- one relation ----

    def _relation(self, node: exp.Expr) -> Source:
        if isinstance(node, exp.Table):
            return self._table(node)
        if isinstance(node, exp.Subquery):
            return self._subquery(node)
        if isinstance(node, exp.Lateral) and isinstance(node.this, exp.Subquery):
            return self._query(node.this, node.args.get("alias"))
        if isinstance(node, exp.Values):
            return self._query(node)
        raise self.text.not_supported(f"{type(node).key.upper()} in FROM", node)

    def _subquery(self, node: exp.Subquery) -> Source:
        joins = node.args.get("joins") or ()
        source = self._in_parentheses(node) if _is_relation(node.this) else self._query(_alone(node))
        for join in joins:
            source = self._join(source, join)
        return source

    def _in_parentheses(self, node: exp.Subquery) -> Source:
        """A table or a join, not a query."""
        self.binder.refuse_others(node, ("this", "alias", "joins"), "FROM")
        alias = node.args.get("alias")
        if alias is None:
            return self._relation(node.this)
        # A join with a name of its own: its columns are seen through that name alone.
        outside, self.translator.scope = self.scope, Scope(self.scope.parent)
        try:
            inner = FromBinder(self.binder, self.translator)
            source = inner.bind(node.this, ())
            fields = [field for _, field in inner.scope.visible]
        finally:
            self.translator.scope = outside
            outside.translator = self.translator
        self._add(alias, "", fields)
        return source

    def _query(self, node: exp.Expr, alias: exp.TableAlias | None = None) -> Source:
        """A query; it may read the relations to its left, which makes it LATERAL."""
        alias = node.args.get("alias") if alias is None else alias
        self.binder.refuse_others(
            node, ("this", "alias", "with_", "expressions", "order", "limit", "offset"), "FROM"
        )
        plain, self.translator.plain = self.translator.plain, "FROM"
        try:
            block = self.binder.query(node, self.scope)
        finally:
            self.translator.plain = plain
        self._add(alias, "", block.fields)
        return Derived(block)

    def _table(self, node: exp.Table) -> Source:
        self.binder.refuse_others(node, _TABLE_ARGS, "FROM")
        source = self._named(node)
        for join in node.args.get("joins") or ():
            source = self._join(source, join)
        return source

    def _named(self, node: exp.Table) -> Source:
        alias = node.args.get("alias")
        if isinstance(node.this, exp.Anonymous):
            return self._opened(node, self._call_paths(node.this), alias)
        if isinstance(node.this, exp.Values):
            return self._query(node.this, alias)
        parts = [part.name for part in node.parts]
        if len(parts) == 1:
            cte = self.scope.cte(parts[0])
            if cte is not None:
                return self._cte(cte, node, alias)
        return self._opened(node, ".".join(parts), alias)

    def _call_paths(self, call: exp.Anonymous) -> str | list[str]:
        """`read_parquet('…')`, of a path or a list of paths."""
        name = str(call.this).lower()
        if name not in ("read_parquet", "parquet_scan") or len(call.expressions) != 1:
            raise self.text.not_supported(f"the table function {name}", call)
        paths = call.expressions[0]
        items = paths.expressions if isinstance(paths, exp.Array) else [paths]
        texts = [item.this for item in items if isinstance(item, exp.Literal) and item.is_string]
        if len(texts) != len(items):
            raise self.text.error("INVALID_FILTER", f"{name} takes a path or a list of paths", call)
        return texts if isinstance(paths, exp.Array) else texts[0]

    def _cte(self, cte: Cte, node: exp.Table, alias: exp.TableAlias | None) -> Source:
        if cte.shared is None:
            raise self.text.not_supported("a query of WITH RECURSIVE that reads itself", node)
        renamed = [(field.column, self.binder.names.copy(field.column)) for field in cte.fields]
        fields = [Field(field.name, name) for field, (_, name) in zip(cte.fields, renamed, strict=True)]
        self._add(alias, cte.name, fields)
        return Shared(cte.shared, renamed)

    def _opened(self, node: exp.Table, where: str | list[str], alias: exp.TableAlias | None) -> Source:
        try:
            table, name = self.binder.tables.open(where)
        except QueryModeError as failure:
            raise self.text.located(failure, node) from failure
        schema = table.schema
        names = self.binder.names.schema_names(schema)
        self._add(alias, name, [Field(*pair) for pair in zip(schema.names, names, strict=True)])
        if tuple(names) == schema.names:
            return Given(table)
        return Given(_renamed(table, names))

    def _add(self, alias: exp.TableAlias | None, name: str, fields: Sequence[Field]) -> None:
        if alias is not None:
            fields = self.binder.renamed(fields, alias.args.get("columns") or (), alias)
            name = alias.name or name
        self.scope.add(Relation(name, fields))

    # ---- joins ----

    def _join(self, left: Source, node: exp.Join) -> Source:
        self.binder.refuse_others(node, _JOIN_ARGS, "a join")
        kind = self._kind(node)
        seen = list(self.scope.visible)
        relations = len(self.scope.relations)
        right = self._relation(node.this)
        using = self._using(node, seen, relations)
        terms: list[Expr] = []
        added: list[tuple[str, Expr]] = []
        for name in using:
            terms.append(self._merge(name, seen, relations, kind, node, added))
        on = node.args.get("on")
        if on is not None:
            condition = self.translator.in_clause("ON", lambda: self.translator.condition(on))
            terms += conjuncts(condition)
        elif not using and kind not in ("inner",):
            raise self.text.error("SQL_SYNTAX", f"{kind.upper()} JOIN needs ON or USING", node.this)
        if kind in ("semi", "anti"):
            del self.scope.relations[relations:]
            self.scope.visible = seen
        names = self.binder.names
        return Joined(names, left, right, kind, terms, subqueries=self.translator.subqueries, added=added)

    def _kind(self, node: exp.Join) -> str:
        method, side, kind = (str(node.args.get(part) or "").upper() for part in ("method", "side", "kind"))
        if method not in ("", "NATURAL"):
            raise self.text.not_supported(f"{method} JOIN", node)
        if kind in ("SEMI", "ANTI"):
            return kind.lower()
        if kind not in ("", "INNER", "OUTER", "CROSS"):
            raise self.text.not_supported(f"{kind} JOIN", node)
        return side.lower() if side else "inner"

    def _using(self, node: exp.Join, seen: Sequence[tuple[Relation | None, Field]], first: int) -> list[str]:
        given = node.args.get("using")
        if given:
            return [identifier.name for identifier in given]
        if str(node.args.get("method") or "").upper() != "NATURAL":
            return []
        ours = {field.name.casefold() for _, field in seen}
        theirs = [field.name for relation in self.scope.relations[first:] for field in relation.fields]
        common = [name for name in theirs if name.casefold() in ours]
        if not common:
            raise self.text.error(
                "SQL_SYNTAX", "NATURAL JOIN of relations without a common column", node.this
            )
        return common

    def _merge(
        self,
        name: str,
        seen: list[tuple[Relation | None, Field]],
        first: int,
        kind: str,
        node: exp.Join,
        added: list[tuple[str, Expr]],
    ) -> Expr:
        """A column of USING: two columns become one, which is what the bare name and `*` mean."""
        folded = name.casefold()
        ours = [place for place, (_, field) in enumerate(seen) if field.name.casefold() == folded]
        theirs = [
            place
            for place, (_, field) in enumerate(self.scope.visible)
            if place >= len(seen) and field.name.casefold() == folded
        ]
        if len(ours) != 1 or len(theirs) != 1:
            side, found = ("left", ours) if len(ours) != 1 else ("right", theirs)
            what = "has no" if not found else "has more than one"
            message = f"the {side} side of the join {what} column {name!r}"
            raise self.text.error("COLUMN_NOT_FOUND", message, node.this, column=name)
        left, right = self.scope.visible[ours[0]][1], self.scope.visible[theirs[0]][1]
        term = self.translator.compared(CompareOp.EQ, Column(left.column), Column(right.column))
        self.translator.check(term, node)
        del self.scope.visible[theirs[0]]
        if kind == "right":
            self.scope.visible[ours[0]] = (None, Field(left.name, right.column))
        elif kind == "full":
            both = Coalesce((Column(left.column), Column(right.column)))
            column = self.binder.names.new(left.name, self.binder.names.type_of(both))
            self.scope.visible[ours[0]] = (None, Field(left.name, column))
            added.append((column, both))
        return term


def _is_relation(node: exp.Expr) -> bool:
    """Whether parentheses hold a table or a join: these may have names of their own inside them."""
    if isinstance(node, exp.Subquery):
        return bool(node.args.get("alias") or node.args.get("joins")) or _is_relation(node.this)
    return isinstance(node, exp.Table)


def _alone(node: exp.Subquery) -> exp.Subquery:
    """A query in parentheses without what it is joined to."""
    if not node.args.get("joins"):
        return node
    return exp.Subquery(**{name: part for name, part in node.args.items() if name != "joins"})


def _renamed(node: Node, names: Sequence[str]) -> Node:
    """A table's columns under other names."""
    if isinstance(node, Scan) and node.names is None:
        return Scan(node.source, names)
    return Project(node, [(new, Column(old)) for new, old in zip(names, node.schema.names, strict=True)])
