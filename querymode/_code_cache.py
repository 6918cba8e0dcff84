"""Compiled machine code on disk, so that a new process need not compile the engine again.

Loading machine code is running somebody's program. An entry is therefore used only when the
directory (0700) and the file (0600) belong to the effective user, both opened without following
links and checked on the descriptor, and when the bytes match the checksum in the header; what was
checked is what is loaded, no path is opened twice. Anything else counts as absent: the caller
compiles and writes the entry anew. No trouble here is ever an error: without a usable directory
there is simply no cache.

    entry:  magic (8)  key (32)  sha256 of the code (32)  size of the code (u64)  code
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
import sys
import time

_MAGIC = b"QMCODE\x01\n"
_HEADER = struct.Struct("<8s32s32sQ")
# No engine of ours compiles to a hundredth of this; a larger file is not ours.
_CODE_SIZE_MAX = 1 << 30
_ENTRY_COUNT_MAX = 8
_PREFIX, _SUFFIX, _TEMPORARY_SUFFIX = "engine-", ".code", ".new"
_ABANDONED_SECONDS = 3600.0
# So that pruning by age keeps what is in use; once a day is enough.
_REFRESH_SECONDS = 86400.0
# Differ from moment to moment or from core to core, and compilers do not look at them.
_CPU_LINES_IGNORED = (
    b"cpu MHz",
    b"bogomips",
    b"BogoMIPS",
    b"processor",
    b"apicid",
    b"initial apicid",
    b"core id",
)


def cache_directory() -> str:
    """Where entries live: $QUERYMODE_CACHE_DIR, else the platform's cache directory of this user."""
    chosen = os.environ.get("QUERYMODE_CACHE_DIR")
    if chosen:
        return chosen
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Caches/querymode")
    base = os.environ.get("XDG_CACHE_HOME")
    # The XDG rules: a relative path is to be ignored.
    if not base or not os.path.isabs(base):
        base = os.path.expanduser("~/.cache")
    return os.path.join(base, "querymode")


def entry_key(*parts: str) -> bytes:
    """One key for everything that machine code depends on."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).digest()


def cpu_identity() -> str:
    """What the compiler may have tuned for: model and feature flags of the first processor."""
    machine = os.uname()
    text = f"{machine.sysname} {machine.machine}"
    try:
        # One read: the first processor's lines. The whole file is slow where there are many.
        descriptor = os.open("/proc/cpuinfo", os.O_RDONLY | os.O_CLOEXEC)
        try:
            first = os.read(descriptor, 16384).split(b"\n\n", 1)[0]
        finally:
            os.close(descriptor)
    except OSError:
        return f"{text} {machine.release}"
    lines = [line for line in first.split(b"\n") if not line.startswith(_CPU_LINES_IGNORED)]
    return f"{text} {hashlib.sha256(b''.join(lines)).hexdigest()}"


def load(key: bytes) -> bytes | None:
    """The machine code stored under `key`, or None unless everything about it is right."""
    directory = _open_directory(create=False)
    if directory is None:
        return None
    try:
        return _load_entry(directory, key)
    except OSError:
        return None
    finally:
        os.close(directory)


def _load_entry(directory: int, key: bytes) -> bytes | None:
    # O_NONBLOCK: somebody's fifo must not make us wait before we have seen that it is one.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    descriptor = os.open(_entry_name(key), flags, dir_fd=directory)
    try:
        status = os.fstat(descriptor)
        if not _is_private_file(status):
            return None
        header = os.read(descriptor, _HEADER.size)
        # One byte more than expected, so that a file that grew does not pass for whole.
        code = os.read(descriptor, status.st_size - _HEADER.size + 1)
        if not _is_verified(header, code, key):
            return None
        if time.time() - status.st_mtime > _REFRESH_SECONDS:
            os.utime(descriptor)
        return code
    finally:
        os.close(descriptor)


def _is_private_file(status: os.stat_result) -> bool:
    return (
        stat.S_ISREG(status.st_mode)
        and stat.S_IMODE(status.st_mode) == 0o600
        and status.st_uid == os.geteuid()
        and _HEADER.size < status.st_size <= _HEADER.size + _CODE_SIZE_MAX
    )


def _is_verified(header: bytes, code: bytes, key: bytes) -> bool:
    if len(header) != _HEADER.size:
        return False
    magic, stored_key, checksum, size = _HEADER.unpack(header)
    if magic != _MAGIC or stored_key != key or size != len(code):
        return False
    return hashlib.sha256(code).digest() == bytes(checksum)


def store(key: bytes, code: bytes | bytearray) -> bool:
    """Writes an entry whole or not at all; False where there is no directory to write to."""
    directory = _open_directory(create=True)
    if directory is None:
        return False
    try:
        _store_entry(directory, key, code)
        _prune(directory, keep=_entry_name(key))
        return True
    except OSError:
        return False
    finally:
        os.close(directory)


def _store_entry(directory: int, key: bytes, code: bytes | bytearray) -> None:
    name = _entry_name(key)
    # Unique among processes and threads; O_EXCL refuses a planted file or link.
    temporary = f"{name}.{os.getpid()}.{time.monotonic_ns()}{_TEMPORARY_SUFFIX}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600, dir_fd=directory)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), 0o600)  # whatever the umask says
            file.write(_HEADER.pack(_MAGIC, key, hashlib.sha256(code).digest(), len(code)))
            file.write(code)
        os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        os.unlink(temporary, dir_fd=directory)
        raise


def _entry_name(key: bytes) -> str:
    return f"{_PREFIX}{key.hex()[:40]}{_SUFFIX}"


def _open_directory(*, create: bool) -> int | None:
    """A descriptor of the cache directory, if it is ours alone."""
    path = cache_directory()
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        if create:
            _make_directory(path)
        descriptor = os.open(path, flags)
    except (OSError, ValueError):
        return None
    status = os.fstat(descriptor)
    if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) == 0o700:
        return descriptor
    os.close(descriptor)
    return None


def _make_directory(path: str) -> None:
    if os.path.lexists(path):
        return  # whatever it is: the descriptor is checked
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    os.mkdir(path, 0o700)


def _prune(directory: int, *, keep: str) -> None:
    """Forgets the least recently used entries, and temporary files whose writer died."""
    ours: list[tuple[float, str]] = []
    abandoned: list[str] = []
    oldest = time.time() - _ABANDONED_SECONDS
    for entry in os.scandir(directory):
        if not entry.name.startswith(_PREFIX) or entry.name == keep:
            continue
        modified = entry.stat(follow_symlinks=False).st_mtime
        if entry.name.endswith(_SUFFIX):
            ours.append((modified, entry.name))
        elif entry.name.endswith(_TEMPORARY_SUFFIX) and modified < oldest:
            abandoned.append(entry.name)
    surplus = max(0, len(ours) + 1 - _ENTRY_COUNT_MAX)
    for name in abandoned + [name for _, name in sorted(ours)[:surplus]]:
        os.unlink(name, dir_fd=directory)
