"""SQL: a text becomes the same nodes that DataFrames build.

    text → parse.py (sqlglot's tree) → binder.py, select.py, … (blocks: names and types) → nodes

sqlglot is imported when SQL is first used. It only parses; names, types and subqueries are resolved here.
"""

from __future__ import annotations

from querymode._collector import CollectorPaused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from querymode.plan.nodes import Node
    from querymode.session import QueryMode
    from querymode.sql.statement import Planned
    from querymode.sql.stored import Stored


def plan_sql(session: QueryMode, text: str, parameters: object = None) -> Node:
    """The plan of a statement."""
    from querymode.sql.cache import TEXT_SIZE_MAX, plan_key

    plans = session._plans
    key = plan_key(text, parameters)
    found = plans.find(key) if key is not None else None
    if found is not None:
        return found
    version = plans.version
    is_plain = parameters is None and isinstance(text, str) and len(text) <= TEXT_SIZE_MAX
    planned = _stored(session, text) if is_plain else None
    if planned is None:
        from querymode.sql.statement import plan_statement

        with CollectorPaused():
            planned = plan_statement(session, text, parameters)
        if is_plain and planned.lasting:
            from querymode.sql.stored import store

            store(session, text, planned.node)
    if key is not None and planned.watched is not None:
        plans.keep(key, planned.node, planned.watched, version)
    return planned.node


def _stored(session: QueryMode, text: str) -> Planned | Stored | None:
    from querymode.sql.stored import load

    return load(session, text)
