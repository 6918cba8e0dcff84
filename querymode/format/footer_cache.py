"""What the engine has made of footers, kept under what identifies a file's bytes: device, inode, size and
times, or ETag. A file that changed has another identity, so an entry is never wrong, only forgotten.

Entries in memory are this process's; those on disk are shared by all processes of a user
(store/private_cache.py). Each is of a kind: whose blob it is, and the version of its layout. A format that
keeps several things of a file has a kind for each.
"""

from __future__ import annotations

import os

from querymode._abi import VERSION as ABI_VERSION
from querymode._version import __version__
from querymode.store.private_cache import PrivateCache, entry_key
from querymode.store.vip_cache import VipCache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable

    from querymode.store.private_cache import OpenedCache
    from querymode.store.source import ByteSource

MIB = 1 << 20

MEMORY_SIZE_MAX = 64 * MIB
MEMORY_COUNT_MAX = 50_000

#: `with DISK.opened() as disk` looks the directory over once for many entries.
DISK = PrivateCache("footers", magic=b"QMFOOT\x01\n", suffix=".flat", size_max=256 * MIB)


class FooterCache:
    """What is known of files, in memory; `disk` says whether entries are shared with other processes."""

    def __init__(
        self, size_max: int = MEMORY_SIZE_MAX, count_max: int = MEMORY_COUNT_MAX, *, disk: bool = True
    ) -> None:
        self.blobs: VipCache[bytes] = VipCache(size_max, count_max)
        self.disk = disk
        # By name: a file that was written anew probably has a footer of about the same size.
        self._end_sizes: VipCache[int] = VipCache(4 * MIB, 4096)

    def find(self, kind: str, identity: Hashable) -> bytes | None:
        """In memory."""
        return self.blobs.get((kind, identity))

    def keep(self, kind: str, identity: Hashable, blob: bytes) -> None:
        """In memory. Only of a file whose later changes will show (store/local.py, `is_settled`)."""
        self.blobs.put((kind, identity), blob, len(blob))

    def find_on_disk(self, kind: str, identity: Hashable, disk: OpenedCache) -> bytes | None:
        return disk.read(_disk_key(kind, identity)) if self.disk else None

    def keep_on_disk(self, kind: str, identity: Hashable, blob: bytes, disk: OpenedCache) -> None:
        if self.disk:
            disk.write(_disk_key(kind, identity), blob)

    # `least`: what is read of a file's end where nothing is known of it (`Format.tail_size`).

    def tail_size(self, name: str, least: int) -> int:
        """How much of its end to read first of the source of that name."""
        size = self._end_sizes.get(name) or 0
        return max(least, size + size // 8)

    def opening_size(self, name: str, least: int) -> int:
        """How much of its end to ask for when a remote source is opened: nothing if the rest is known."""
        return 0 if name in self._end_sizes else least

    def note_end_size(self, source: ByteSource, size: int, least: int) -> None:
        """How much its footer takes, with what stands behind it."""
        if not source.local or size > least:
            self._end_sizes.put(source.name, size, len(source.name))

    def clear(self) -> None:
        """Forgets what is in memory."""
        self.blobs.clear()
        self._end_sizes.clear()


_default_cache = FooterCache()


def default_cache() -> FooterCache:
    """The cache of this process."""
    return _default_cache


def _disk_key(kind: str, identity: Hashable) -> bytes:
    """The identity, and the engine that made the blob."""
    return entry_key(f"{ABI_VERSION} {kind} {__version__} {_engine_stamp()} {identity!r}")


def _engine_stamp() -> str:
    """Differs after every build; reading and hashing the module would take as long as all the rest."""
    try:
        status = os.stat(os.path.join(os.path.dirname(__file__), "..", "querymode.wasm"))
    except OSError:
        return ""  # inside a zip, whose version says enough
    return f"{status.st_size} {status.st_mtime_ns}"
