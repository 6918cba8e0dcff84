"""SQL: a text becomes the same nodes that DataFrames build.

    text → parse.py (sqlglot's tree) → binder.py, select.py, … (blocks: names and types) → nodes of plan.py

sqlglot is imported when SQL is first used. It only parses; names, types and subqueries are resolved here.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from querymode.plan import Node
    from querymode.session import QueryMode


def plan_sql(session: QueryMode, text: str, parameters: object = None) -> Node:
    """The plan of a statement."""
    from querymode.sql.cache import plan_key

    plans = session._plans
    key = plan_key(text, parameters)
    found = plans.find(key) if key is not None else None
    if found is not None:
        return found
    from querymode.sql.statement import plan_statement

    version = plans.version
    planned = plan_statement(session, text, parameters)
    if key is not None and planned.watched is not None:
        plans.keep(key, planned.node, planned.watched, version)
    return planned.node
