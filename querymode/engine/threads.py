"""Worker threads of this process: engine calls run here, never on the thread that asked.

The asking thread waits where a signal can reach it, so Ctrl-C and timeouts stop a query while the engine
is busy. Threads are daemons, are kept for the next query, and end after a while without work.
"""

from __future__ import annotations

import os
import threading
from queue import Empty, SimpleQueue

from querymode.errors import error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: A new thread costs 150 µs, an idle one nothing but its stack.
IDLE_SECONDS = 10.0
#: How long a cancelled call may take to notice before we stop waiting for it and abandon its instance.
CANCEL_SECONDS = 2.0

_lock = threading.Lock()
_idle: list[_Worker] = []


def core_count() -> int:
    """The cores that this process may use."""
    available = getattr(os, "sched_getaffinity", None)
    return len(available(0)) if available is not None else os.cpu_count() or 1


def workers_max() -> int:
    """The most workers that compute side by side, whatever `threads=` allows.

    A worker more than there are cores does nothing sooner. It only takes its share of the query's memory,
    copies columns that the others keep already, and waits for its turn in the middle of a lane: with 8
    workers on 2 cores queries over tables in memory took up to three times as long. Lanes are cut without
    regard to workers, so answers are the same. Workers that read files wait for bytes, and are not
    bounded by this. QUERYMODE_WORKERS_MAX overrides it: tests have 8 workers on any machine.
    """
    given = os.environ.get("QUERYMODE_WORKERS_MAX", "")
    return int(given) if given.isdigit() and int(given) > 0 else core_count()


class _Worker:
    def __init__(self) -> None:
        self.tasks: SimpleQueue[Callable[[], None]] = SimpleQueue()
        try:
            threading.Thread(target=self._run, name="querymode-worker", daemon=True).start()
        except RuntimeError:  # no room for its stack
            raise error("MEMORY_EXCEEDED", "this process cannot start another thread") from None

    def _run(self) -> None:
        while True:
            try:
                task = self.tasks.get(timeout=IDLE_SECONDS)
            except Empty:
                with _lock:
                    if self in _idle:
                        _idle.remove(self)
                        return
                continue  # somebody took us from the list: the task is on its way
            task()
            del task  # or it keeps the query's memory until the next one comes
            with _lock:
                _idle.append(self)


def start(task: Callable[[], None]) -> None:
    """Runs `task`, which must not raise, on an idle or a new thread."""
    with _lock:
        worker = _idle.pop() if _idle else None
    if worker is None:
        worker = _Worker()
    worker.tasks.put(task)


def _after_fork_in_child() -> None:
    # A fork copies the list of threads, but not the threads.
    global _lock
    _lock = threading.Lock()
    _idle.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
