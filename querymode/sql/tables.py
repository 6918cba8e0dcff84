"""Tables that a statement names: registered ones, and files by their paths."""

from __future__ import annotations

import os

from querymode.errors import TableNotFoundError, error
from querymode.sql.cache import state_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from querymode.plan.nodes import Node
    from querymode.session import QueryMode
    from querymode.sql.cache import Watched


class Tables:
    """What a session has, as one statement sees it: a table is opened once however often it is named."""

    def __init__(self, session: QueryMode) -> None:
        self._session = session
        self._opened: dict[object, Node] = {}
        #: Files that were opened, and how they were found: they may change without the session's knowledge.
        self.watched: list[Watched] = []
        #: Whether `watched` is all there is to watch. Of a folder, new files would have to be watched, too.
        self.can_watch = True

    def open(self, where: str | list[str]) -> tuple[Node, str]:
        """A table's plan, and what it is called where it has no alias."""
        registered = self._registered(where)
        if registered is not None:
            return self._session._tables[registered]._node, registered.rpartition(".")[2]
        key = where if isinstance(where, str) else tuple(where)
        if key not in self._opened:
            self._watch(where)
            self._opened[key] = self._files(where)
        return self._opened[key], _stem(where)

    def _registered(self, where: str | list[str]) -> str | None:
        """Names match whatever their case, the exact one first."""
        tables = self._session._tables
        if not isinstance(where, str) or where in tables:
            return where if isinstance(where, str) else None
        folded = where.casefold()
        return next((name for name in tables if name.casefold() == folded), None)

    def _files(self, where: str | list[str]) -> Node:
        try:
            return self._session.table(where, hive_types="infer")._node
        except TableNotFoundError as failure:
            if not isinstance(where, str) or "/" in where or "." in where:
                raise
            known = ", ".join(sorted(self._session._tables)) or "none"
            raise error(
                "TABLE_NOT_FOUND",
                f"there is no table {where!r}. Registered are: {known}. Files stand in quotes: 'a.parquet'",
                table=where,
            ) from failure

    def _watch(self, where: str | list[str]) -> None:
        path = os.path.join(self._session.root, where) if isinstance(where, str) else ""
        state = state_of(path) if os.path.isfile(path) else None
        if state is None:
            self.can_watch = False
        else:
            self.watched.append((path, state))


def _stem(where: str | list[str]) -> str:
    """A file by its name without the ending."""
    text = where if isinstance(where, str) else where[0] if where else ""
    last = text.rstrip("/").rpartition("/")[2]
    return last.partition(".")[0] or last or text
