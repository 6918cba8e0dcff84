"""A cache that a scan over many things cannot empty of the few that are used all the time.

An entry that was found three times is a VIP. Room is made by the least recently used entry that is none; a
VIP goes only when nothing else is left. Every 10,000 lookups all counts halve, and a VIP whose count has
come down to nothing is an ordinary entry again: what was popular last week makes room in the end.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from typing import Generic, TypeVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable
    from typing import Any

T = TypeVar("T")

#: Found this often, an entry is a VIP.
VIP_COUNT = 3
#: Counts halve after this many lookups.
HALVING_LOOKUPS = 10_000
#: Of an entry beside its value: its key, counts and places in tables.
ENTRY_OVERHEAD = 512


class _Entry(Generic[T]):
    __slots__ = ("count", "size", "used", "value")

    def __init__(self, value: T, size: int, used: int) -> None:
        self.value = value
        self.size = size
        #: How often it was found; halves with the others'.
        self.count = 0
        #: The lookup that found it last.
        self.used = used


class VipCache(Generic[T]):
    """At most `size_max` bytes, overhead included, and `count_max` entries. Safe to use from many threads."""

    def __init__(self, size_max: int, count_max: int) -> None:
        assert size_max > 0 and count_max > 0
        self.size_max = size_max
        self.count_max = count_max
        self.size = 0
        self._lookups = 0
        # Each with the least recently used first.
        self._ordinary: OrderedDict[Hashable, _Entry[T]] = OrderedDict()
        self._vips: OrderedDict[Hashable, _Entry[T]] = OrderedDict()
        # One thread may come twice: by a signal handler, or when forking.
        self._lock = threading.RLock()
        _caches.add(self)

    def __len__(self) -> int:
        return len(self._ordinary) + len(self._vips)

    def __contains__(self, key: Hashable) -> bool:
        """Without counting as a lookup."""
        with self._lock:
            return key in self._ordinary or key in self._vips

    def is_vip(self, key: Hashable) -> bool:
        return key in self._vips

    def get(self, key: Hashable) -> T | None:
        with self._lock:
            self._lookups += 1
            if self._lookups % HALVING_LOOKUPS == 0:
                self._halve()
            entry = self._vips.get(key)
            if entry is not None:
                self._vips.move_to_end(key)
            else:
                entry = self._ordinary.get(key)
                if entry is None:
                    return None
                self._ordinary.move_to_end(key)
            entry.count += 1
            entry.used = self._lookups
            if entry.count == VIP_COUNT and key in self._ordinary:
                self._vips[key] = self._ordinary.pop(key)
            return entry.value

    def put(self, key: Hashable, value: T, size: int) -> None:
        """Keeps a value of `size` bytes, unless it would fill half of the cache on its own."""
        size += ENTRY_OVERHEAD
        with self._lock:
            self.discard(key)
            if size > self.size_max // 2:
                return
            self._ordinary[key] = _Entry(value, size, self._lookups)
            self.size += size
            while self.size > self.size_max or len(self) > self.count_max:
                self._evict()

    def discard(self, key: Hashable) -> None:
        with self._lock:
            entry = self._ordinary.pop(key, None) or self._vips.pop(key, None)
            if entry is not None:
                self.size -= entry.size

    def clear(self) -> None:
        with self._lock:
            self._ordinary.clear()
            self._vips.clear()
            self.size = 0

    def _evict(self) -> None:
        if len(self._ordinary) > 1 or not self._vips:
            _, entry = self._ordinary.popitem(last=False)
        else:  # the only ordinary one has just come
            _, entry = self._vips.popitem(last=False)
        self.size -= entry.size

    def _halve(self) -> None:
        for entry in (*self._ordinary.values(), *self._vips.values()):
            entry.count //= 2
        former = [key for key, entry in self._vips.items() if entry.count == 0]
        if not former:
            return
        for key in former:
            self._ordinary[key] = self._vips.pop(key)
        # They take their place among the others by when they were used last.
        self._ordinary = OrderedDict(sorted(self._ordinary.items(), key=lambda item: item[1].used))


_caches: weakref.WeakSet[VipCache[Any]] = weakref.WeakSet()
#: While a thread forks: the caches it holds.
_held: list[VipCache[Any]] = []
_fork_lock = threading.RLock()


def _before_fork() -> None:
    # No thread is in the middle of a change when its memory is copied.
    _fork_lock.acquire()
    _held[:] = list(_caches)
    for cache in _held:
        cache._lock.acquire()


def _after_fork_in_parent() -> None:
    for cache in _held:
        cache._lock.release()
    _held.clear()
    _fork_lock.release()


def _after_fork_in_child() -> None:
    global _fork_lock
    _fork_lock = threading.RLock()
    for cache in _held:
        cache._lock = threading.RLock()
    _held.clear()


os.register_at_fork(
    before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
)
