"""Where linear memory lies: how much address space is reserved for it, and what the system is asked.

Nothing here knows of wasmtime.
"""

from __future__ import annotations

import os
import sys
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

# wasm32 ends at 4 GiB; a quarter stays free so that sizes and ends of buffers never wrap.
MEMORY_MAX = 3 * GIB

# The whole 32-bit space is reserved where it can be had: then the generated code needs no bounds
# checks and memory never moves. The smaller ones are for processes with a limited address space.
FULL_RESERVATION = 4 * GIB
SMALL_RESERVATIONS = (2 * GIB, GIB, 512 * MIB, 256 * MIB, 128 * MIB)
# No reservation at all: memory moves when it grows.
MOVABLE = 0
# What the rest of the process keeps of its address space: stacks, allocator arenas, Arrow.
_ADDRESS_SPACE_KEPT = 256 * MIB

# From here on linear memory asks for huge pages, as numpy does for its large arrays: scans of kept
# columns gain 10 to 25 %, and giving memory back costs a thirtieth. The first megabytes stay on
# small pages, because a small query should not clear 2 MiB to touch 4 KiB.
HUGE_PAGES_FROM = 16 * MIB
_HUGE_PAGE_SIZE = 2 * MIB
_MADV_HUGEPAGE = 14
_M_ARENA_MAX = -8

# With less than this left, wasmtime itself may abort the process instead of returning an error.
_ADDRESS_SPACE_MIN = 96 * MIB


def reservations(limit: int) -> Iterator[int]:
    """The reservations to try, best first, for an instance that may grow to `limit`."""
    import resource

    if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
        yield FULL_RESERVATION  # and if that fails, go on as if there were a limit
    _share_malloc_arenas()
    if not _address_space_free(_ADDRESS_SPACE_MIN):
        return
    if _address_space_free(2 * FULL_RESERVATION + _ADDRESS_SPACE_KEPT):
        yield FULL_RESERVATION
    for size in SMALL_RESERVATIONS:
        # Not more than half of what is left, so that other workers' instances find room, and not
        # far more than the limit asks for.
        oversized = size // 2 >= limit and size != SMALL_RESERVATIONS[-1]
        if not oversized and _address_space_free(2 * size + _ADDRESS_SPACE_KEPT):
            yield size
    if _address_space_free(SMALL_RESERVATIONS[-1] + 64 * MIB):
        yield SMALL_RESERVATIONS[-1]
    yield MOVABLE


def _address_space_free(size: int) -> bool:
    """Tries it: nothing else knows about every limit there may be."""
    import mmap

    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    try:
        mmap.mmap(-1, size, flags=flags, prot=0).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True


@cache
def _libc() -> Any:
    """The C library's functions, for us alone: other users of ctypes may give them other types."""
    import ctypes

    return ctypes.CDLL(None)


def _share_malloc_arenas() -> None:
    """Where address space is short: glibc would reserve 64 MiB of it for every further thread."""
    mallopt = getattr(_libc(), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 2)


def give_back_free_memory() -> None:
    """What was freed goes back to the system: glibc would keep it for later.

    For queries near their limit: what they have freed is not theirs any more, and should not look so.
    """
    trim = getattr(_libc(), "malloc_trim", None)
    if trim is not None:
        trim(0)


def ask_for_huge_pages(address: int, size: int) -> None:
    """A hint: where the kernel does not know it, nothing changes."""
    if sys.platform != "linux" or os.environ.get("QUERYMODE_HUGE_PAGES") == "0":
        return
    import ctypes

    madvise = _libc().madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    start = -(-address // _HUGE_PAGE_SIZE) * _HUGE_PAGE_SIZE
    madvise(start, address + size - start, _MADV_HUGEPAGE)
