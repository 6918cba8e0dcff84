"""Warm engine instances between queries, shared by everything in this process."""

from __future__ import annotations

import atexit
import threading
import time

from querymode import errors
from querymode.engine.address_space import FULL_RESERVATION, MOVABLE
from querymode.engine.instance import Instance, hardened_by_default
from querymode.engine.process import process_token
from querymode.engine.program import default_program, release_programs
from querymode.engine.threads import workers_max

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from querymode.engine.program import Program

IDLE_SECONDS = 10.0
#: Of a table's columns, what is worth closing an instance for that keeps a copy of them.
COPY_SIZE_MIN = 4 << 20


class InstancePool:
    """Warm instances. First touch of memory is ten times slower than the next: we keep what was touched."""

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self.idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._idle: list[Instance] = []  # the most recently used is last
        self._closer: threading.Thread | None = None
        self._in_use = 0
        #: The most that were in use at once: since when this is counted, now and in the time before.
        self._peaks = (time.monotonic(), 0, 0)

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
        if instance is None:
            instance = self._make(limit, hardened, program)
            self._note_use()
        return instance

    def _make(self, limit: int, hardened: bool, program: Program) -> Instance:
        try:
            return Instance(limit, hardened=hardened, program=program)
        except errors.MemoryExceededError:
            # Idle instances may hold the address space that was missing.
            if not self.close_idle():
                raise
        return Instance(limit, hardened=hardened, program=program)

    def _note_use(self) -> None:
        with self._lock:
            self._in_use += 1
            since, peak, before = self._peaks
            now = time.monotonic()
            if now - since > self.idle_seconds:
                since, peak, before = now, 0, peak
            self._peaks = (since, max(peak, self._in_use), before)

    def _note_end(self) -> None:
        with self._lock:
            self._in_use = max(0, self._in_use - 1)

    def acquire_idle(
        self,
        limit: int,
        *,
        hardened: bool = False,
        prefer: Callable[[Instance], int] | None = None,
        preferred_limit: int = 0,
        program: Program | None = None,
    ) -> Instance | None:
        """Like `acquire`, but never makes a new one.

        One that `prefer` scores above zero may hold up to `preferred_limit` already: what it keeps for the
        caller is worth more than an even share, and a new one would hold the same once more.
        """
        program = program if program is not None else default_program()
        instance = self._take_idle(
            limit, max(limit, preferred_limit), hardened or hardened_by_default(), prefer, program
        )
        if instance is not None:
            self._note_use()
            instance.set_limit(max(limit, instance.memory_size))
        return instance

    def _take_idle(
        self,
        limit: int,
        preferred_limit: int,
        hardened: bool,
        prefer: Callable[[Instance], int] | None,
        program: Program,
    ) -> Instance | None:
        cramped: Instance | None = None
        with self._lock:
            scored = [
                (prefer(instance) if prefer is not None else 0, position)
                for position, instance in enumerate(self._idle)
                if instance.program is program and instance.hardened == hardened
            ]
            fitting = [
                (score, position)
                for score, position in scored
                if self._idle[position].memory_size <= (preferred_limit if score > 0 else limit)
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

    def give_back(self, instance: Instance, *, clean: bool) -> None:
        """For the next query, if nothing happened to it. One that cannot be taken back is not used again."""
        if not clean:
            self.discard(instance)
            return
        try:
            self.release(instance)
        except BaseException:
            self.discard(instance)
            raise

    def release(self, instance: Instance) -> None:
        """Keeps it warm for a while, unless something happened to it."""
        self._note_end()
        if not instance.reusable:
            instance.close()
            return
        instance.idle_since = time.monotonic()
        with self._lock:
            assert instance not in self._idle
            if self._closer is None:  # before others can see the instance: this may fail
                closer = threading.Thread(target=self._close_old, name="querymode-idle", daemon=True)
                closer.start()
                self._closer = closer
            self._idle.append(instance)
            superfluous = self._take_copies(instance)
        for copy in superfluous:
            copy.close()

    def _take_copies(self, released: Instance) -> list[Instance]:
        """Of idle instances that keep large columns of the same table, those beyond what is used at once.

        That is the number of cores, or more where several queries ran side by side a moment ago. The longest
        unused go: they would be asked last.
        """
        most = max(workers_max(), *self._peaks[1:])
        found: list[Instance] = []
        for owner, size in released.kept_sizes.items():
            if size < COPY_SIZE_MIN:
                continue
            holders = [other for other in self._idle if other.kept_sizes.get(owner, 0) >= COPY_SIZE_MIN]
            for copy in holders[: max(0, len(holders) - most)]:
                self._idle.remove(copy)
                found.append(copy)
        return found

    def preferred_sizes(self, prefer: Callable[[Instance], int], count: int) -> tuple[int, int]:
        """What the `count` idle instances hold that `prefer` scores highest, above zero; and keep of that."""
        with self._lock:
            scored = [(prefer(instance), position) for position, instance in enumerate(self._idle)]
            best = sorted((pair for pair in scored if pair[0] > 0), reverse=True)[:count]
            chosen = [self._idle[position] for _, position in best]
            kept = sum(sum(instance.kept_sizes.values()) for instance in chosen)
            return sum(instance.memory_size for instance in chosen), kept

    def discard(self, instance: Instance) -> None:
        """Closes it, also where a release failed midway: nobody gets it again."""
        self._note_end()
        with self._lock:
            if instance in self._idle:
                self._idle.remove(instance)
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
