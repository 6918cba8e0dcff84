"""This user's private cache directory: bytes under a key, shared by all processes of the user.

What lies there is believed, machine code even run. So nothing is used unless it belongs to the effective user
and nobody else can write to it: directories 0700, files 0600, opened without following links and checked on
the descriptor; what was checked is what is read, no path is opened twice. Files are written whole or not at
all. What does not fit its checksum counts as absent. No trouble here is an error: without a usable directory
there is simply no cache.

    directory/  entries of caches without a folder
        folder/ entries of the others

    entry:  magic (8)  key (32)  checksum  size of the data (u64)  data

An entry is as old as its time of modification, which reading it refreshes. Where there is too much, the
oldest ones go.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import time
from contextlib import suppress
from zlib import crc32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Checksum = Callable[[bytes, bytes], bytes]

KEY_SIZE = 32
PRIVATE_DIRECTORY = stat.S_IFDIR | 0o700
PRIVATE_FILE = stat.S_IFREG | 0o600

#: The part of a cache's size that one entry may have.
_ENTRY_PART = 4
#: A cache that is not exact is looked through once for these parts of its limits, on average.
_COUNT_PART, _SIZE_PART = 64, 16
#: The least that an entry takes on the disk.
_BLOCK_SIZE = 4096
_TEMPORARY_SUFFIX = ".new"
_ABANDONED_SECONDS = 3600.0
#: So that what is in use stays; once a day is enough.
_REFRESH_SECONDS = 86400.0
# O_NONBLOCK: somebody's fifo must not make us wait before we have seen that it is one.
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def cache_directory() -> str:
    """Where it is: $QUERYMODE_CACHE_DIR, else in the platform's cache directory of this user.

    An OSError where this user has no home: what is relative to nothing would lie in the current folder.
    """
    chosen = os.environ.get("QUERYMODE_CACHE_DIR")
    if chosen:
        return chosen
    base = os.environ.get("XDG_CACHE_HOME") if sys.platform != "darwin" else None
    # The XDG rules: a relative path is to be ignored.
    if not base or not os.path.isabs(base):
        base = os.path.expanduser("~/Library/Caches" if sys.platform == "darwin" else "~/.cache")
        # An empty HOME would be the root of the file system.
        if os.environ.get("HOME") == "" or not os.path.isabs(base):
            raise FileNotFoundError("this user has no home directory")
    return os.path.join(base, "querymode")


def entry_key(*parts: str) -> bytes:
    """One key for everything that an entry depends on. At most one of the parts may hold NULs."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).digest()


def _crc32(key: bytes, data: bytes) -> bytes:
    return crc32(data, crc32(key)).to_bytes(4, "little")


class PrivateCache:
    """Entries of one kind. Methods never raise for what they find on the disk, and may run in many threads.

    `folder_name`: where in the cache directory they lie; "" is the directory itself, where `prefix` tells
    them from others. `magic`: 8 bytes that change when the meaning of the data does. `size_max`: bytes on the
    disk; entries of more than a quarter of it are not kept. `count_max`: entries. `exact`: for few large
    entries: the limits hold after every write; otherwise the folder is looked through by chance, and its
    oldest quarter goes at once, so that writing stays cheap. `checksum`: (key, data) → bytes, always as many.
    """

    def __init__(
        self,
        folder_name: str,
        *,
        magic: bytes,
        suffix: str,
        size_max: int,
        count_max: int = 16_384,
        prefix: str = "",
        exact: bool = False,
        checksum: Checksum = _crc32,
    ) -> None:
        assert len(magic) == 8 and "/" not in folder_name
        self._folder_name = folder_name
        self._magic = magic
        self._prefix = prefix
        self._suffix = suffix
        self._size_max = size_max
        self._count_max = count_max
        self._exact = exact
        self._checksum = checksum
        self._header_size = len(self._header(bytes(KEY_SIZE), b""))

    def read(self, key: bytes) -> bytes | None:
        """The data written under `key`, or None unless everything about it is right."""
        with self.opened() as folder:
            return folder.read(key)

    def write(self, key: bytes, data: bytes) -> bool:
        """Writes an entry whole or not at all; says which."""
        with self.opened() as folder:
            return folder.write(key, data)

    def trim(self) -> None:
        """Forgets the oldest entries where there is too much; `write` does it when it is time."""
        with self.opened() as folder:
            folder.trim()

    def opened(self) -> OpenedCache:
        """For several reads and writes of one thread: the folder is opened once."""
        return OpenedCache(self)

    def entry_name(self, key: bytes) -> str:
        return f"{self._prefix}{key.hex()[:40]}{self._suffix}"

    def _header(self, key: bytes, data: bytes) -> bytes:
        assert len(key) == KEY_SIZE
        return self._magic + key + self._checksum(key, data) + len(data).to_bytes(8, "little")

    def _open_folder(self, *, create: bool) -> int:
        directory = _open_directory(cache_directory(), None, create=create)
        if not self._folder_name:
            return directory
        try:
            return _open_directory(self._folder_name, directory, create=create)
        finally:
            os.close(directory)

    def _read(self, folder: int, key: bytes) -> bytes | None:
        descriptor = open_private(self.entry_name(key), PRIVATE_FILE, folder)
        try:
            status = os.fstat(descriptor)
            size = status.st_size - self._header_size
            if not 0 <= size <= self._size_max // _ENTRY_PART:
                return None
            header = os.read(descriptor, self._header_size)
            # One byte more than expected, so that a file that grew does not pass for whole.
            data = os.read(descriptor, size + 1)
            if header != self._header(key, data):
                return None
            if time.time() - status.st_mtime > _REFRESH_SECONDS:
                os.utime(descriptor)
            return data
        finally:
            os.close(descriptor)

    def _write(self, folder: int, key: bytes, data: bytes) -> None:
        replace_private(self.entry_name(key), (self._header(key, data), data), PRIVATE_FILE, folder)

    def _is_time_to_trim(self, size: int) -> bool:
        """After `size` bytes were written. By chance: no process knows what the others wrote."""
        chance = _COUNT_PART / self._count_max + _SIZE_PART * max(size, _BLOCK_SIZE) / self._size_max
        return self._exact or int.from_bytes(os.urandom(4), "little") < chance * (1 << 32)

    def _trim(self, folder: int, keep: str) -> None:
        entries = self._entries(folder)
        count, size = len(entries), sum(entry[1] for entry in entries)
        count_max, size_max = self._count_max, self._size_max
        if count <= count_max and size <= size_max:
            return
        if not self._exact:  # so that the next time is not soon
            count_max, size_max = count_max * 3 // 4, size_max * 3 // 4
        for _, entry_size, name in sorted(entries):
            if count <= count_max and size <= size_max:
                return
            if name != keep:
                _forget(folder, name)
                count, size = count - 1, size - entry_size

    def _entries(self, folder: int) -> list[tuple[float, int, str]]:
        """Times, sizes and names of what is there; without temporary files whose writer died."""
        entries = []
        abandoned = time.time() - _ABANDONED_SECONDS
        for name, status in _statuses(folder):
            if not name.startswith(self._prefix):
                continue
            if name.endswith(self._suffix):
                entries.append((status.st_mtime, max(status.st_size, _BLOCK_SIZE), name))
            elif name.endswith(_TEMPORARY_SUFFIX) and status.st_mtime < abandoned:
                _forget(folder, name)
        return entries


class OpenedCache:
    """A cache whose folder is opened when first needed. Without a usable one, nothing is found or kept."""

    __slots__ = ("_cache", "_folder", "_refused")

    def __init__(self, cache: PrivateCache) -> None:
        self._cache = cache
        self._folder = -1
        #: What need not be tried again: -1 nothing, 0 to open the folder, 1 to make it.
        self._refused = -1

    def __enter__(self) -> OpenedCache:
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    def read(self, key: bytes) -> bytes | None:
        if self._open(create=False):
            with suppress(OSError):
                return self._cache._read(self._folder, key)
        return None

    def write(self, key: bytes, data: bytes) -> bool:
        if len(data) <= self._cache._size_max // _ENTRY_PART and self._open(create=True):
            with suppress(OSError):
                self._cache._write(self._folder, key, data)
                if self._cache._is_time_to_trim(len(data)):
                    self.trim(keep=self._cache.entry_name(key))
                return True
        return False

    def trim(self, keep: str = "") -> None:
        if self._open(create=False):
            with suppress(OSError):
                self._cache._trim(self._folder, keep)

    def _open(self, *, create: bool) -> bool:
        if self._folder < 0 and create > self._refused:
            self._refused = int(create)
            with suppress(OSError, ValueError):  # ValueError: a path with a NUL
                self._folder = self._cache._open_folder(create=create)
        return self._folder >= 0


# ---- files and directories that are ours alone ----


def open_private(path: str, mode: int, folder: int | None = None) -> int:
    """A descriptor for reading what is at `path` if it is ours, of this type and with these permissions.

    Anything else is an OSError.
    """
    flags = _READ_FLAGS | os.O_DIRECTORY if stat.S_ISDIR(mode) else _READ_FLAGS
    descriptor = os.open(path, flags, dir_fd=folder)
    try:
        status = os.fstat(descriptor)
        if status.st_mode != mode or status.st_uid != os.geteuid():
            raise PermissionError(f"{path} is not this user's alone, with mode {stat.S_IMODE(mode):04o}")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def make_private(path: str, folder: int | None = None) -> None:
    """A directory for this user alone. Whatever is there already stays: whoever opens it looks at it."""
    if folder is None:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with suppress(FileExistsError):
        os.mkdir(path, 0o700, dir_fd=folder)


def replace_private(path: str, parts: Sequence[bytes], mode: int, folder: int | None = None) -> None:
    """Writes a file of ours, whole or not at all, over whatever is there, links included."""
    permissions = stat.S_IMODE(mode)
    # Unique among processes and threads; O_EXCL refuses a planted file or link.
    temporary = f"{path}.{os.getpid()}.{os.urandom(8).hex()}{_TEMPORARY_SUFFIX}"
    descriptor = os.open(temporary, _WRITE_FLAGS, permissions, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), permissions)  # whatever the umask says
            for part in parts:
                file.write(part)
        os.replace(temporary, path, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        _forget(folder, temporary)
        raise


def _open_directory(path: str, folder: int | None, *, create: bool) -> int:
    try:
        return open_private(path, PRIVATE_DIRECTORY, folder)
    except FileNotFoundError:
        if not create:
            raise
    make_private(path, folder)
    return open_private(path, PRIVATE_DIRECTORY, folder)


def _statuses(folder: int) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # another process was faster
                yield entry.name, entry.stat(follow_symlinks=False)


def _forget(folder: int | None, name: str) -> None:
    with suppress(OSError):  # another process was faster, or it is no file
        os.unlink(name, dir_fd=folder)
