"""A whole statement → its plan: queries, DESCRIBE, SHOW TABLES and EXPLAIN."""

from __future__ import annotations

from sqlglot import exp

from querymode.errors import QueryModeError, error
from querymode.expr.nodes import Column
from querymode.plan.nodes import Node, Project, Scan, Union
from querymode.sql.binder import Binder
from querymode.sql.constants import type_name
from querymode.sql.parse import Statement, parse
from querymode.table.constant import constant_table
from querymode.types import UTF8

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from querymode.session import QueryMode
    from querymode.sql.cache import Watched

_DESCRIBE_COLUMNS = ("column_name", "column_type", "null", "key", "default", "extra")


class Planned:
    """A plan. `watched`: the files it depends on; None if there is more to watch, or nothing that would help.

    `lasting`: over the same tables, the text means the same when it is asked again.
    """

    __slots__ = ("lasting", "node", "watched")

    def __init__(self, node: Node, watched: Sequence[Watched] | None, lasting: bool) -> None:
        self.node = node
        self.watched = watched
        self.lasting = lasting


def plan_statement(session: QueryMode, text: str, parameters: object = None) -> Planned:
    statement = parse(text)
    binder = Binder(session, statement, parameters)
    try:
        node = _plan(session, statement, binder)
    except RecursionError:
        raise error("NOT_SUPPORTED", "the statement is nested too deep") from None
    except QueryModeError:  # some are TypeErrors too
        raise
    except (AttributeError, IndexError, KeyError, TypeError) as cause:
        # The parser's trees have odd shapes where words stand in odd places. Each that is known has an error
        # of its own; this is for the others.
        raise error("SQL_SYNTAX", "the statement has words where none belong, or lacks some") from cause
    lasting = not binder.asked_time and not statement.explain and isinstance(statement.tree, exp.Query)
    watched = binder.tables.watched if lasting and binder.tables.can_watch else None
    statement.close()
    return Planned(node, watched, lasting)


def _plan(session: QueryMode, statement: Statement, binder: Binder) -> Node:
    tree = statement.tree
    if statement.explain and isinstance(tree, (exp.Show, exp.Describe)):
        raise statement.text.not_supported(f"EXPLAIN of {type(tree).__name__.upper()}", tree)
    if isinstance(tree, exp.Show):
        return _show(session, statement, tree)
    if isinstance(tree, exp.Describe):
        return _describe(binder, tree)
    node = _query(binder, tree)
    if not statement.explain:
        return node
    from querymode.output.explain import explain

    # ANALYZE runs the query here, as DuckDB does: what it took is the statement's answer.
    analyze = statement.explain == "analyze"
    key = "analyzed_plan" if analyze else "plan"
    text = explain(session, node, analyze=analyze)
    return _texts(("explain_key", "explain_value"), [(key, text)], text)


def _query(binder: Binder, tree: exp.Expr) -> Node:
    """The nodes of a query, whose columns have the names that a user sees."""
    block = binder.query(tree, None)
    node = block.build().node
    if node.schema.names == tuple(field.name for field in block.fields):
        return node
    items = [(field.name, Column(field.column)) for field in block.fields]
    if isinstance(node, Union) and all(isinstance(part, Project) for part in node.inputs):
        return Union([_renamed(part, items) for part in node.inputs])
    return _renamed(node, items)


def _renamed(node: Node, items: Sequence[tuple[str, Column]]) -> Node:
    if not isinstance(node, Project):
        return Project(node, items)
    values = dict(node.items)
    types = [node.schema.type_of(column.name) for _, column in items]
    return Project(node.input, [(name, values[column.name]) for name, column in items], types)


def _describe(binder: Binder, tree: exp.Describe) -> Node:
    query = tree.this
    if isinstance(query, exp.Table):
        query = exp.Select(expressions=[exp.Star()], from_=exp.From(this=query))
    node = _query(binder, query)
    rows = [(name, type_name(kind), "YES", None, None, None) for name, kind in node.schema]
    return _texts(_DESCRIBE_COLUMNS, rows)


def _show(session: QueryMode, statement: Statement, tree: exp.Show) -> Node:
    if str(tree.this).upper() != "TABLES":
        raise statement.text.not_supported(f"SHOW {tree.this}", tree)
    return _texts(("name",), [(name,) for name in sorted(session._tables)])


def _texts(names: Sequence[str], rows: Sequence[Sequence[str | None]], text: str | None = None) -> Node:
    columns = [[row[place] for row in rows] for place in range(len(names))]
    return Scan(constant_table([(name, UTF8) for name in names], columns), text=text)
