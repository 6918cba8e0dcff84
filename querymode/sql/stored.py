"""Plans of SQL texts on disk, so that a process that asks what was asked before need not import sqlglot.

A plan is kept as its descriptor, under a key of everything that decides what a text means: the text, where
relative paths begin, what is registered, and the code that planned it. The files that it names are opened
again when it is loaded; unless their columns are what they were, the text is parsed anew. Plans that depend
on the moment, that have parameters, or whose tables cannot be written down are not kept; nor are those of
texts, tables or roots that may hold credentials.
"""

from __future__ import annotations

import json
import os
import sys

from querymode._secrets import has_secrets, tells_of_secrets
from querymode.errors import QueryModeError
from querymode.sql.cache import state_of
from querymode.store.private_cache import PrivateCache, entry_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from querymode.plan.nodes import Node
    from querymode.session import QueryMode
    from querymode.sql.cache import Watched

_CACHE = PrivateCache("plans", magic=b"QMPLAN\x01\n", suffix=".plan", size_max=32 << 20, count_max=4096)
#: A program that asks ever new texts would fill the disk with them and never ask again.
_STORED_MAX = 64
_stored = 0


class Stored:
    """A plan that was found. `watched`: the files that it depends on; None if there is more to it."""

    __slots__ = ("node", "watched")

    def __init__(self, node: Node, watched: Sequence[Watched] | None) -> None:
        self.node = node
        self.watched = watched


def load(session: QueryMode, text: str) -> Stored | None:
    """The plan of a text that was asked before, unless parsing it again is as cheap."""
    if "sqlglot" in sys.modules:
        return None
    key = _key(session, text)
    data = _CACHE.read(key) if key is not None else None
    if data is None:
        return None
    try:
        return _decoded(session, json.loads(data))
    except (QueryModeError, ValueError, TypeError, LookupError):
        return None  # parsing says what is wrong


def store(session: QueryMode, text: str, node: Node) -> None:
    """Keeps a plan for other processes."""
    global _stored
    if _stored >= _STORED_MAX or tells_of_secrets(text) or has_secrets(session.root):
        return
    from querymode.plan.descriptor import to_descriptor

    key = _key(session, text)
    if key is None:
        return
    try:
        descriptor = to_descriptor(session, node)
    except QueryModeError:
        return
    if has_secrets(descriptor):  # the text may name a table that was registered by such a query
        return
    _stored += 1
    _CACHE.write(key, json.dumps([descriptor, _schemas(node)], separators=(",", ":")).encode())


def _decoded(session: QueryMode, stored: list[Any]) -> Stored | None:
    from querymode.plan.descriptor import from_descriptor

    descriptor, schemas = stored
    watched = _watched(session, descriptor)
    node = from_descriptor(session, descriptor)
    return Stored(node, watched) if _schemas(node) == schemas else None


def _schemas(root: Node) -> list[str]:
    """The columns of all tables, in the order in which the plan is walked."""
    from querymode.plan.nodes import Scan

    found: list[str] = []
    seen: set[int] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Scan):
            found.append(repr(node.source.schema))
        stack += node.children
    return found


def _watched(session: QueryMode, descriptor: str) -> list[Watched] | None:
    """The state of all files, before they are opened."""
    found: list[Watched] = []
    for part in json.loads(descriptor)["nodes"]:
        table = part.get("table", {})
        if "paths" in table:
            return None
        if "path" in table:
            path = os.path.join(session.root, table["path"])
            state = state_of(path) if os.path.isfile(path) else None
            if state is None:
                return None
            found.append((path, state))
    return found


# ---- keys ----


def _key(session: QueryMode, text: str) -> bytes | None:
    code, tables = _code_state(), _tables_state(session)
    if code is None or tables is None:
        return None
    return entry_key(code, os.path.abspath(session.root), tables, text)


def _tables_state(session: QueryMode) -> str | None:
    """What is registered. None if some of it cannot be written down."""
    if not session._tables:
        return ""
    from querymode.plan.descriptor import to_descriptor

    try:
        described = [
            [name, to_descriptor(session, frame._node), _schemas(frame._node)]
            for name, frame in sorted(session._tables.items())
        ]
    except QueryModeError:
        return None
    return json.dumps(described)


_state: str | None = None


def _code_state() -> str | None:
    """The code that plans: when it changes, so may its plans. None where there are no files to look at."""
    global _state
    if _state is None:
        from querymode._abi import VERSION
        from querymode._version import __version__

        package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        parts = [__version__, str(VERSION)]
        try:
            waiting = [package]
            while waiting:
                with os.scandir(waiting.pop()) as entries:
                    found = sorted(entries, key=lambda entry: entry.name)
                waiting += [entry.path for entry in found if entry.is_dir() and entry.name != "__pycache__"]
                parts += [_entry_state(entry) for entry in found if entry.name.endswith(".py")]
        except OSError:
            return None
        _state = "\n".join(parts)
    return _state


def _entry_state(entry: os.DirEntry[str]) -> str:
    status = entry.stat()
    return f"{entry.name} {status.st_size} {status.st_mtime_ns}"
