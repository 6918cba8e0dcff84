"""Frames between processes: what `pickle` makes of them.

A frame travels as its descriptor (plan/descriptor.py), with its session. Files are opened again where it
arrives; paths mean what they meant, because the session's root travels as an absolute one. Tables in memory
travel with the frame (table/travel.py), even if the session has names for them, since names do not: a session
arrives with its options and no tables.

What does not travel is NOT_SUPPORTED, by name: functions of Python, addresses that hold credentials, and
credentials in `storage_options`. Leaving these out would only move the error to where nobody expects it;
sessions without them find those of the environment, there as here.
"""

from __future__ import annotations

import json

from querymode.errors import error
from querymode.frame.frame import DataFrame
from querymode.plan.descriptor import Decoder, describe_table, described, parse_nodes
from querymode.plan.nodes import Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from querymode.session import QueryMode
    from querymode.table.table import Table


def reduce_frame(session: QueryMode, node: Node) -> tuple[Any, ...]:
    """For `DataFrame.__reduce__`."""
    carried: list[Table] = []
    places: dict[int, int] = {}

    def table_of(table: Table) -> dict[str, Any]:
        found = describe_table(table)
        if found is not None:
            return found
        if table.is_stored:
            raise error(
                "NOT_SUPPORTED",
                "the table's address holds credentials or a query, which do not travel; open it where the "
                "frame is needed",
            )
        if id(table) not in places:
            places[id(table)] = len(carried)
            carried.append(table)
        return _attached(places[id(table)])

    return restore_frame, (session, described(node, table_of), tuple(carried))


def restore_frame(session: QueryMode, descriptor: str, carried: tuple[Table, ...]) -> DataFrame:
    """The frame that was pickled, in the session that came with it."""
    with session._call():
        decoder = Decoder(session)
        for place, table in enumerate(carried):
            decoder.tables[json.dumps(_attached(place), sort_keys=True)] = table
        return DataFrame(session, decoder.decode(parse_nodes(descriptor)))


def _attached(place: int) -> dict[str, Any]:
    """How the descriptor of a pickle names a table that travels beside it. No other descriptor may."""
    return {"attached": place}
