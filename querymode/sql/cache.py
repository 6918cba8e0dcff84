"""Plans of texts that were asked before, so that they are not parsed again. Does not import sqlglot.

A plan is found by its text and its parameters. It stays as long as the session's tables are the same and the
files it names have not changed; plans over folders, patterns or other machines are made anew every time.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from threading import Lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from querymode.plan.nodes import Node

    #: A file, and what its state was.
    Watched = tuple[str, tuple[int, int, int]]

_PLAN_COUNT_MAX = 256
#: Plans of longer texts are not kept: they are large, and seldom asked twice.
TEXT_SIZE_MAX = 1 << 17


class PlanCache:
    """One session's plans. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._plans: OrderedDict[Hashable, tuple[Node, Sequence[Watched]]] = OrderedDict()
        #: Changes with the session's tables.
        self.version = 0

    def clear(self) -> None:
        with self._lock:
            self.version += 1
            self._plans.clear()

    def find(self, key: Hashable) -> Node | None:
        with self._lock:
            found = self._plans.get(key)
            if found is None:
                return None
            self._plans.move_to_end(key)
        node, watched = found
        if any(state_of(path) != state for path, state in watched):
            with self._lock:
                self._plans.pop(key, None)
            return None
        return node

    def keep(self, key: Hashable, node: Node, watched: Sequence[Watched], version: int) -> None:
        """`version`: of the tables that the plan was made from."""
        with self._lock:
            if version != self.version:
                return
            self._plans[key] = (node, watched)
            while len(self._plans) > _PLAN_COUNT_MAX:
                self._plans.popitem(last=False)


def plan_key(text: object, parameters: object) -> Hashable | None:
    """What a plan is found by; None where a parameter cannot be part of it."""
    if not isinstance(text, str) or len(text) > TEXT_SIZE_MAX:
        return None
    if parameters is None:
        return text
    if isinstance(parameters, dict):
        pairs = list(parameters.items())
    elif isinstance(parameters, (list, tuple)):
        pairs = list(enumerate(parameters))
    else:
        return None
    if any(type(value) not in _PLAIN for _, value in pairs):
        return None
    if any(isinstance(value, (str, bytes)) and len(value) > TEXT_SIZE_MAX for _, value in pairs):
        return None
    # 1 and True are equal, and 0.0 and -0.0, but they are not the same constants.
    return (text, *((name, type(value), repr(value)) for name, value in pairs))


_PLAIN = frozenset((int, float, str, bool, bytes, type(None)))


def state_of(path: str) -> tuple[int, int, int] | None:
    """What changes when a file does."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
