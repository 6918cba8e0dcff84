"""Warm engine instances between queries, shared by everything in this process."""

from __future__ import annotations

import atexit
import threading
import time

from querymode import errors
from querymode._wasm import (
    FULL_RESERVATION,
    MOVABLE,
    Instance,
    default_program,
    hardened_by_default,
    process_token,
    release_programs,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from querymode._wasm import Program

IDLE_SECONDS = 10.0


class InstancePool:
    """Warm instances. First touch of memory is ten times slower than the next: we keep what was touched."""

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self.idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._idle: list[Instance] = []  # the most recently used is last
        self._closer: threading.Thread | None = None

    def acquire(
        self,
        limit: int,
        *,
        hardened: bool = False,
        prefer: Callable[[Instance], int] | None = None,
        program: Program | None = None,
    ) -> Instance:
        """An instance that may grow to `limit` bytes, for one thread, until it is released or discarded.

        Of the idle ones that fit, the one that `prefer` scores highest; then the most recently used.
        `prefer` runs under the pool's lock: it may look at the instance, not at the pool.
        """
        program = program if program is not None else default_program()
        instance = self.acquire_idle(limit, hardened=hardened, prefer=prefer, program=program)
        if instance is not None:
            return instance
        try:
            return Instance(limit, hardened=hardened, program=program)
        except errors.MemoryExceededError:
            # Idle instances may hold the address space that was missing.
            if not self.close_idle():
                raise
        return Instance(limit, hardened=hardened, program=program)

    def acquire_idle(
        self,
        limit: int,
        *,
        hardened: bool = False,
        prefer: Callable[[Instance], int] | None = None,
        program: Program | None = None,
    ) -> Instance | None:
        """Like `acquire`, but never makes a new one."""
        program = program if program is not None else default_program()
        instance = self._take_idle(limit, hardened or hardened_by_default(), prefer, program)
        if instance is not None:
            instance.set_limit(limit)
        return instance

    def _take_idle(
        self, limit: int, hardened: bool, prefer: Callable[[Instance], int] | None, program: Program
    ) -> Instance | None:
        cramped: Instance | None = None
        with self._lock:
            fitting = [
                (prefer(instance) if prefer is not None else 0, position)
                for position, instance in enumerate(self._idle)
                if instance.program is program
                and instance.hardened == hardened
                and instance.memory_size <= limit
            ]
            if not fitting:
                return None
            instance = self._idle.pop(max(fitting)[1])
            if instance.reservation in (FULL_RESERVATION, MOVABLE) or instance.reservation >= limit:
                return instance
            cramped = instance
        # Under a limit on address space it reserved for a smaller query: make room for a better one.
        cramped.close()
        return None

    def release(self, instance: Instance) -> None:
        """Keeps it warm for a while, unless something happened to it."""
        if not instance.reusable:
            instance.close()
            return
        instance.idle_since = time.monotonic()
        with self._lock:
            assert instance not in self._idle
            self._idle.append(instance)
            if self._closer is None:
                self._closer = threading.Thread(target=self._close_old, name="querymode-idle", daemon=True)
                self._closer.start()

    def discard(self, instance: Instance) -> None:
        instance.close()

    def close_idle(self) -> int:
        """Closes all idle instances; says how many there were."""
        return self.trim(0)

    def trim(self, size: int) -> int:
        """Closes idle instances, the longest unused first, until the others hold at most `size` bytes."""
        dropped = []
        with self._lock:
            while self._idle and self._idle_size() > size:
                dropped.append(self._idle.pop(0))
        for instance in dropped:
            instance.close()
        return len(dropped)

    def idle_count(self) -> int:
        with self._lock:
            return len(self._idle)

    def idle_size(self) -> int:
        with self._lock:
            return self._idle_size()

    def _idle_size(self) -> int:
        return sum(instance.memory_size for instance in self._idle)

    def _close_old(self) -> None:
        """Runs while there are idle instances, then ends; the next release starts it again."""
        while True:
            with self._lock:
                oldest = time.monotonic() - self.idle_seconds
                old = [instance for instance in self._idle if instance.idle_since <= oldest]
                self._idle = [instance for instance in self._idle if instance.idle_since > oldest]
                if not self._idle:
                    self._closer = None
                pause = min((instance.idle_since for instance in self._idle), default=0.0) - oldest
            for instance in old:
                instance.close()
            if pause <= 0.0:
                return
            old = []
            time.sleep(pause)


_pool: InstancePool | None = None
_pool_process: object = None
_pool_lock = threading.Lock()


def pool() -> InstancePool:
    """The pool of this process; a forked child starts with an empty one."""
    global _pool, _pool_process, _pool_lock
    process = process_token()
    if _pool_process is not process:
        _pool, _pool_process, _pool_lock = None, process, threading.Lock()
    if _pool is None:
        with _pool_lock:
            if _pool is None:
                _pool = InstancePool()
    return _pool


def _close_at_exit() -> None:
    """While modules are still whole: freed later, wasmtime's objects would complain on the way out."""
    if _pool is not None and _pool_process is process_token():
        _pool.close_idle()
    release_programs()


atexit.register(_close_at_exit)
