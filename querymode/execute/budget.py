"""Memory that several queries share: who may start, in order of arrival.

A query reserves what it expects to need and starts when that is free. An expectation is a guess, so a
query that turns out to need more is not failed for its neighbours' sake: it runs again, alone, with all
of the budget (execute/query_run.py). What fails then would have failed without neighbours too.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque

from querymode.errors import error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType


_budgets: weakref.WeakSet[Budget] = weakref.WeakSet()


class Budget:
    """`total` bytes, handed out first come first served."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._start()
        _budgets.add(self)

    def _start(self) -> None:
        """All of it is free. A forked child starts like this: its parent's queries are not here."""
        self._life = object()
        self._free = self.total
        self._waiting: deque[object] = deque()
        self._changed = threading.Condition()

    def reserve(self, size: int, deadline: float | None = None) -> Reservation:
        """Waits its turn. A large query is not overtaken by small ones for ever."""
        size = min(size, self.total)
        turn = object()
        with self._changed:
            self._waiting.append(turn)
            try:
                while self._waiting[0] is not turn or self._free < size:
                    remaining = None if deadline is None else deadline - time.monotonic()
                    if remaining is not None and remaining <= 0:
                        raise error("QUERY_TIMEOUT", "the query did not get its memory before its timeout")
                    self._changed.wait(remaining)
                self._free -= size
            finally:
                self._waiting.remove(turn)
                self._changed.notify_all()
            life = self._life
        return Reservation(self, size, life)

    def _give_back(self, size: int, life: object) -> None:
        with self._changed:
            if life is self._life:  # not one that a fork left behind
                self._free += size
            self._changed.notify_all()


class Reservation:
    """A part of the budget, until the `with` block ends."""

    __slots__ = ("_budget", "_life", "size")

    def __init__(self, budget: Budget, size: int, life: object) -> None:
        self._budget = budget
        self._life = life
        self.size = size

    def __enter__(self) -> Reservation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._budget._give_back(self.size, self._life)


def _after_fork_in_child() -> None:
    for budget in list(_budgets):
        budget._start()


os.register_at_fork(after_in_child=_after_fork_in_child)
