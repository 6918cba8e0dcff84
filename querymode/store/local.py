"""Local files, read with preadv straight into the caller's memory.

A file is opened once and its descriptor serves the whole query, whatever happens to its name. Only where a
query has more files than descriptors, those not in use are closed for the time being; opened again, a file
must be the very same one, or the query fails.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
import weakref
from collections import OrderedDict

from querymode.errors import error
from querymode.store.source import ByteSource, Patience, changed, touched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from querymode.errors import QueryModeError
    from querymode.store.access import Access

    FileIdentity = tuple[int, int, int, int, int]

_OPEN_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK  # a FIFO must not make us wait
_IOV_MAX = os.sysconf("SC_IOV_MAX")
#: Descriptors of open files that we keep, if the process may have twice as many.
_KEPT_OPEN_MAX = 512
#: Reads of what is in the page cache: the call, and bytes a second even on a slow machine.
_QUICK_SECONDS = 0.0005
_QUICK_RATE = 0.5e9
#: A hint costs a system call; whoever wants more ranges than this reads the file anyway.
_PREFETCH_RANGES_MAX = 1024

#: A file that changed this recently may change again within one tick of the clock that its times come from.
SETTLED_NS = 20_000_000

_lock = threading.Lock()
#: The oldest first. Weak, so that a source nobody closed is closed with its last reference.
_open_files: OrderedDict[int, weakref.ref[LocalFile]] = OrderedDict()


class LocalFile(ByteSource):
    local = True

    def __init__(self, path: str, access: Access | None = None) -> None:
        self.name = path
        self._access = access
        self._path = path if access is None else access.local(path)
        self._lock = threading.Lock()
        self._users = 0
        self._closed = False
        self._descriptor = -1
        #: Reads wait for the disk: hints are worth their cost. For what is in the page cache they are not.
        self._is_slow = True
        self._descriptor, status = self._open()
        self.size = status.st_size
        self.identity: FileIdentity = _identity(status)
        _keep_open(self)

    def read(self, offset: int, size: int, *, patience: Patience | None = None) -> bytes:
        self.check_range(offset, size)
        with _Use(self) as descriptor:
            try:
                data = os.pread(descriptor, size, offset)
            except OSError as cause:
                raise _failure(self.name, cause) from cause
        # One call can be cut short by a signal or the 2 GiB limit; then the loop of read_into does it.
        return data if len(data) == size else super().read(offset, size, patience=patience)

    def read_into(
        self, ranges: Sequence[tuple[int, memoryview]], *, patience: Patience | None = None
    ) -> None:
        patience = patience or Patience()
        begun = time.perf_counter()
        with _Use(self) as descriptor:
            for offset, views in _adjacent(self.checked(ranges)):
                self._read_run(descriptor, offset, views, patience)
        size = sum(view.nbytes for _, view in ranges)
        self._is_slow = time.perf_counter() - begun > _QUICK_SECONDS + size / _QUICK_RATE

    def _read_run(self, descriptor: int, offset: int, views: list[memoryview], patience: Patience) -> None:
        while views:
            patience.check()
            try:
                with patience.writing():
                    count = os.preadv(descriptor, views[:_IOV_MAX], offset)
            except OSError as cause:
                raise _failure(self.name, cause) from cause
            if count == 0:  # the range lay inside the file when it was opened
                raise changed(self.name)
            offset += count
            views = _behind(views, count)

    def prefetch(self, ranges: Iterable[tuple[int, int]]) -> None:
        if not self._is_slow or not hasattr(os, "posix_fadvise"):
            return
        with _Use(self) as descriptor:
            for _, (offset, size) in zip(range(_PREFETCH_RANGES_MAX), ranges, strict=False):
                try:
                    os.posix_fadvise(descriptor, offset, size, os.POSIX_FADV_WILLNEED)
                except OSError:
                    return  # some file systems cannot; it was only a hint

    def verify_unchanged(self) -> None:
        """Written to in place, or another file under its name: neither may go unnoticed.

        Tools that copy put the time of a file's content back (`rsync --inplace -t`, `cp -p`). The time of its
        inode they cannot, but that also moves with permissions and links.
        """
        with self._lock:
            held = None if self._descriptor < 0 else os.fstat(self._descriptor)
        if held is not None and not self._is_same(held):
            raise changed(self.name)
        try:
            named = os.stat(self._path)
        except OSError:
            # Removed, and yet every byte came from the file that was opened: these are the rows of one file.
            return
        if not self._is_same(named):
            raise changed(self.name)
        if _identity(named) != self.identity:
            raise touched(self.name)

    def look_again(self) -> None:
        """Before anything was read: what the file is by now."""
        with _Use(self) as descriptor:
            status = os.fstat(descriptor)
        self.size, self.identity = status.st_size, _identity(status)

    def _is_same(self, status: os.stat_result) -> bool:
        # Without the time of the inode's own change, which a new name or new permissions move too.
        return _identity(status)[:4] == self.identity[:4]

    def park(self) -> None:
        """Closes the descriptor until the next read, unless a read is going on."""
        with self._lock:
            if self._users == 0 and self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1

    def close(self) -> None:
        with _lock:
            _open_files.pop(id(self), None)
        with self._lock:
            self._closed = True
            descriptor = -1
            if self._users == 0:
                descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        if getattr(self, "_descriptor", -1) >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    # ---- descriptors ----

    def _open(self) -> tuple[int, os.stat_result]:
        descriptor = _open_descriptor(self._path, self.name)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise _not_a_file(self.name, status)
            if self._access is not None:
                self._access.opened(descriptor, self._path)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor, status

    def _reopen(self) -> int:
        descriptor, status = self._open()
        if not self._is_same(status):  # what else there is to know, `verify_unchanged` will see
            os.close(descriptor)
            raise changed(self.name)
        return descriptor

    def _acquire(self) -> int:
        with self._lock:
            if self._closed:
                raise error("INTERNAL", f"{self.name} was read after it was closed")
            reopened = self._descriptor < 0
            if reopened:
                self._descriptor = self._reopen()
            self._users += 1
            descriptor = self._descriptor
        if reopened:
            _keep_open(self)
        return descriptor

    def _release(self) -> None:
        with self._lock:
            self._users -= 1
            if self._closed and self._users == 0 and self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1


class _Use:
    """A descriptor that stays open while it is read."""

    __slots__ = ("_file",)

    def __init__(self, file: LocalFile) -> None:
        self._file = file

    def __enter__(self) -> int:
        return self._file._acquire()

    def __exit__(self, *_: object) -> None:
        self._file._release()


def _open_descriptor(path: str, name: str) -> int:
    try:
        return os.open(path, _OPEN_FLAGS)
    except OSError as cause:
        if cause.errno not in (errno.EMFILE, errno.ENFILE):
            raise _failure(name, cause) from cause
    _park_idle(0)
    try:
        return os.open(path, _OPEN_FLAGS)
    except OSError as cause:
        raise _failure(name, cause) from cause


def _keep_open(file: LocalFile) -> None:
    with _lock:
        _open_files[id(file)] = weakref.ref(file)
        crowded = len(_open_files) > _KEPT_OPEN_MAX
    if crowded:
        _park_idle(min(_KEPT_OPEN_MAX, _descriptor_limit() // 2))


def _park_idle(kept_count: int) -> None:
    """Parks the files that were opened first. One that is being read stays open and is forgotten here."""
    with _lock:
        excess = max(0, len(_open_files) - kept_count)
        oldest = [_open_files.popitem(last=False)[1] for _ in range(excess)]
    for reference in oldest:
        file = reference()
        if file is not None:
            file.park()


def _descriptor_limit() -> int:
    import resource

    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 2 * _KEPT_OPEN_MAX if soft == resource.RLIM_INFINITY else soft


def identity_of(path: str, access: Access) -> FileIdentity:
    """What a LocalFile of that path would have, if it were opened now."""
    try:
        return _identity(os.stat(access.local(path)))
    except OSError as cause:
        raise _failure(path, cause) from cause


def _identity(status: os.stat_result) -> FileIdentity:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _adjacent(ranges: Iterable[tuple[int, memoryview]]) -> Iterator[tuple[int, list[memoryview]]]:
    """Ranges that touch, in the order given, as one run with several targets."""
    start = end = 0
    views: list[memoryview] = []
    for offset, view in ranges:
        if views and offset != end:
            yield start, views
            views = []
        if not views:
            start = offset
        views.append(view)
        end = offset + len(view)
    if views:
        yield start, views


def _behind(views: list[memoryview], count: int) -> list[memoryview]:
    """What is left to fill when the first `count` bytes have been."""
    index = 0
    while index < len(views) and count >= len(views[index]):
        count -= len(views[index])
        index += 1
    rest = views[index:]
    if count:
        rest[0] = rest[0][count:]
    return rest


def _failure(name: str, cause: OSError) -> QueryModeError:
    number = cause.errno
    if number in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
        return error("TABLE_NOT_FOUND", f"there is no file {name}; check its spelling and the session's root")
    if number in (errno.EACCES, errno.EPERM):
        return error("ACCESS_DENIED", f"this user may not read {name}; check its permissions")
    if number in (errno.EMFILE, errno.ENFILE):
        return error("QUERY_FAILED", f"{name}: too many open files; raise the limit (ulimit -n)")
    reason = os.strerror(number) if number else str(cause)
    return error("QUERY_FAILED", f"{name} could not be read: {reason}")


def _not_a_file(name: str, status: os.stat_result) -> QueryModeError:
    if stat.S_ISDIR(status.st_mode):
        return error("QUERY_FAILED", f"{name} is a folder; give its files, or a pattern such as {name}/*")
    return error("QUERY_FAILED", f"{name} is a device, pipe or socket; copy what it holds to a file")


def _after_fork_in_child() -> None:
    # The descriptors are the child's own; only the lock may have been held by a thread that is gone.
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork_in_child)


def is_settled(source: ByteSource) -> bool:
    """Whether every later change will show in the identity."""
    identity = source.identity
    if not (source.local and isinstance(identity, tuple) and len(identity) == 5):
        return True
    changed_ns: int = identity[4]
    return changed_ns + SETTLED_NS < time.time_ns()
