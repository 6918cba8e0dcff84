"""The process that wasmtime's objects belong to: one lock around their making, and what a fork leaves.

A forked child starts without instances and never touches those it inherited; compiled modules stay. Nothing
native is under way in another thread while a fork happens. `native` and `live` are other objects in a child:
take them from this module each time.
"""

from __future__ import annotations

import os
import threading
import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    import wasmtime

    from querymode.engine.instance import Instance

# Held around every creation and destruction of native objects, and by a thread that forks: the
# child must not inherit a lock of the native library that a vanished thread holds.
native = threading.RLock()
live: weakref.WeakSet[Instance] = weakref.WeakSet()
_owner_pid = os.getpid()
_process = object()


def _after_fork_in_child() -> None:
    global native, live, _owner_pid, _process
    native = threading.RLock()
    _owner_pid = os.getpid()
    _process = object()
    inherited, live = list(live), weakref.WeakSet()
    for instance in inherited:
        instance.disown()


def _before_fork() -> None:
    native.acquire()


def _after_fork_in_parent() -> None:
    native.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
    )


def notice_fork() -> None:
    """Notices a fork that went past Python's hooks."""
    if os.getpid() != _owner_pid:
        _after_fork_in_child()


def process_token() -> object:
    """Another object in every process: what belongs to one is not to be used in its children."""
    notice_fork()
    return _process


def close_store(store: wasmtime.Store, pid: int) -> None:
    """Unmaps an instance's memory, in the process that made it."""
    if os.getpid() != pid:
        store._consume()  # so that collecting the object does nothing either
        return
    with native:
        store.close()
