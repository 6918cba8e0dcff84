"""What the files behind a frame are made of: for `querymode inspect`, and whoever else wants to see it."""

from __future__ import annotations

from querymode.errors import error
from querymode.plan.nodes import Scan
from querymode.plan.snapshots import resolved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from querymode.frame.frame import DataFrame


def report_of(frame: DataFrame) -> Any:
    """Of a table as it is now; a query, and a table in memory, have no files to tell of."""
    from querymode.format.registry import by_number

    with frame._session._call():
        node = resolved(frame._node)
    table = node.source if isinstance(node, Scan) else None
    if table is None or table.format is None:
        raise error("NOT_SUPPORTED", "only tables of files, as table() opens them, can be inspected")
    return by_number(table.format).report(table)
