"""Local files, folders and patterns. Links are followed, as far as they do not lead in circles or out."""

from __future__ import annotations

import errno
import os
import stat

from querymode._call import check
from querymode.catalog.listing import (
    ICEBERG,
    Found,
    choose,
    claimed_folder,
    is_iceberg_metadata,
    is_other_name,
    nothing_matches,
    table_folder,
)
from querymode.catalog.pattern import ANY_DEPTH, has_wildcards, is_hidden, is_partition, split_pattern
from querymode.errors import QueryModeError, error
from querymode.format import registry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from querymode.catalog.pattern import Parts
    from querymode.format.format import Format
    from querymode.store.access import Access

#: (name, whether it is a folder, whether it is a link).
Entry = tuple[str, bool, bool]

_DEPTH_MAX = 64
#: A folder below which so many names say nothing of data is not a table, but a disk or a home.
_ENTRIES_WITHOUT_DATA = 20_000
#: Of files whose names say nothing, so many are looked into.
_DOUBTFUL_MAX = 16
_LINKS_MAX = 10_000
_ENTRIES_PER_CHECK = 256


def find(path: str, access: Access, said: Format | None = None) -> list[Found]:
    """The files of an absolute path: a file, a folder or a pattern."""
    status = _status(path, access)
    if status is not None:
        if stat.S_ISDIR(status.st_mode):
            return folder(path, access, said)
        return [Found(path, (), os.path.basename(path), is_named=True)]
    if has_wildcards(path):
        return glob(path, access, said)
    raise _failure(path, OSError(errno.ENOENT, ""))


def named_table(path: str, access: Access) -> str | None:
    """The folder of a table that is known by its name: `events` lies in `events.lance`."""
    for format in registry.FORMATS:
        folder = f"{path}.{format.name}"
        if format.folder_sign is not None and _status(f"{folder}/{format.folder_sign}", access) is not None:
            return folder
    return None


def _status(path: str, access: Access) -> os.stat_result | None:
    real = access.local(path)
    try:
        return os.stat(real)
    except OSError as cause:
        if cause.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP):
            return None
        raise _failure(path, cause) from cause


# ---- folders ----


def folder(path: str, access: Access, said: Format | None = None) -> list[Found]:
    path = path.rstrip("/") or "/"
    if os.path.normpath(path) == "/":
        raise error(
            "TABLE_NOT_FOUND", "/ is the whole file system; give the folder of a table's files, or a pattern"
        )
    entries = _entries(path, access)
    names = {name for name, is_folder, _ in entries if is_folder}
    if "metadata" in names:
        inner = _entries(f"{path}/metadata", access)
        names.update(ICEBERG for name, _, _ in inner if is_iceberg_metadata(("metadata", name)))
    claimed = claimed_folder(path, names, said)
    return claimed or choose(list(_walk(path, entries, access)), path, said)


def _walk(path: str, entries: list[Entry], access: Access) -> Iterator[Found]:
    """The files below a folder, in no order, each once: what links lead to comes last, unless it came before.

    Only links that are partitions (`year=2024 -> …`) may lead to the same place twice: rows differ by them.
    """
    walk = _Walk(path, access)
    stack = [_Folder(entries, f"{path}/", os.path.realpath(path), (), ())]
    while stack or walk.links:
        current = stack.pop() if stack else walk.linked()
        if current is None:
            continue
        walk.enter(current)
        table = _table_of(current.entries) if current.names else None
        if table:  # its files alone are not what it holds
            walk.is_table = True
            yield table_folder(current.prefix.rstrip("/"), current.names, table)
            continue
        for name, is_folder, is_link in current.entries:
            if is_hidden(name):
                continue
            if not is_folder:
                found = Found(current.prefix + name, current.names, name)
                walk.saw(found)
                yield found
            elif is_link:
                walk.links.append((current, name))
            elif f"{current.real}/{name}" not in walk.seen:
                stack.append(walk.below(current, name, f"{current.real}/{name}", current.places))
        walk.count += len(current.entries)


class _Folder:
    """`real`: its path without links. `places`: where links led to on the way."""

    __slots__ = ("entries", "names", "places", "prefix", "real")

    def __init__(
        self, entries: list[Entry], prefix: str, real: str, names: tuple[str, ...], places: tuple[str, ...]
    ) -> None:
        self.entries = entries
        self.prefix = prefix
        self.real = real
        self.names = names
        self.places = places


class _Walk:
    """What a walk has seen."""

    def __init__(self, path: str, access: Access) -> None:
        self._path = path
        self._access = access
        #: Names in the folders that were gone through.
        self.count = 0
        self._linked_count = 0
        self._doubtful: list[str] = []
        self.is_table = False
        #: Folders, by their real paths.
        self.seen: set[str] = set()
        #: To folders: the folder that it lies in, and its name.
        self.links: list[tuple[_Folder, str]] = []

    def enter(self, current: _Folder) -> None:
        check()
        self.seen.add(current.real)
        if self.count > _ENTRIES_WITHOUT_DATA and not self.is_table:
            self.is_table = any(_ends_as_data(path, self._access) for path in self._doubtful)
            if not self.is_table:
                raise error(
                    "TABLE_NOT_FOUND",
                    f"{self._path}: none of the first {self.count:,} names below it is that of a data file; "
                    f"give the folder of a table's files, or a pattern such as {self._path}/**/*.parquet",
                )

    def saw(self, found: Found) -> None:
        if registry.by_name(found.name) is not None:
            self.is_table = True
        elif len(self._doubtful) < _DOUBTFUL_MAX and not is_other_name(found.name):
            self._doubtful.append(found.path)

    def linked(self) -> _Folder | None:
        """What the next link leads to, unless that was seen, or is around the link itself."""
        outer, name = self.links.pop()
        place = os.path.realpath(outer.prefix + name)
        if place in outer.places or _is_above(place, outer.real):
            return None
        if place in self.seen and not is_partition(name):
            return None
        self._linked_count += 1
        if self._linked_count > _LINKS_MAX:
            raise error(
                "QUERY_FAILED", f"{self._path}: more than {_LINKS_MAX:,} links to folders lie below it"
            )
        return self.below(outer, name, place, (*outer.places, place))

    def below(self, outer: _Folder, name: str, real: str, places: tuple[str, ...]) -> _Folder:
        path = outer.prefix + name
        if len(outer.names) >= _DEPTH_MAX:
            raise error("QUERY_FAILED", f"{path}: folders are nested more than {_DEPTH_MAX} deep")
        return _Folder(_entries(path, self._access), f"{path}/", real, (*outer.names, name), places)


def _ends_as_data(path: str, access: Access) -> bool:
    try:
        descriptor = os.open(access.local(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
    except (OSError, QueryModeError):
        return False
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size < 12:
            return False
        return registry.by_content(b"", os.pread(descriptor, 4, status.st_size - 4)) is not None
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _is_above(place: str, path: str) -> bool:
    return path == place or path.startswith(place.rstrip("/") + "/")


def _entries(path: str, access: Access) -> list[Entry]:
    """What lies in a folder.

    Where links may not lead out, what is listed is what was checked, whatever becomes of its name meanwhile.
    """
    try:
        if not access.restricted:
            with os.scandir(path) as entries:
                return _listed(entries)
        real = access.local(path)
        descriptor = os.open(real, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            access.opened(descriptor, real)
            with os.scandir(descriptor) as entries:
                return _listed(entries)
        finally:
            os.close(descriptor)
    except QueryModeError:  # some of which are OSErrors too
        raise
    except OSError as cause:
        raise _failure(path, cause) from cause


def files_in(path: str, access: Access) -> Iterator[Found]:
    """Those that lie directly in a folder, in no order; none if there is no such folder."""
    status = _status(path, access)
    if status is None or not stat.S_ISDIR(status.st_mode):
        return
    for name, is_folder, _ in _entries(path, access):
        if not is_folder:
            yield Found(f"{path}/{name}", (), name)


def _listed(entries: Iterable[os.DirEntry[str]]) -> list[Entry]:
    found: list[Entry] = []
    for number, entry in enumerate(entries):
        if number % _ENTRIES_PER_CHECK == 0:
            check()
        try:
            found.append((entry.name, entry.is_dir(), entry.is_symlink()))
        except OSError as cause:
            if cause.errno != errno.ELOOP:  # a link that leads nowhere
                raise
    return found


# ---- patterns ----


def glob(pattern: str, access: Access, said: Format | None = None) -> list[Found]:
    base, parts = split_pattern(pattern)
    if _status(base, access) is None:
        raise nothing_matches(pattern)
    files: dict[str, Found] = {}
    folders: dict[str, Found] = {}
    for found, is_folder in _matching(base, parts, access):
        table = _table_of(_entries(found.path, access)) if is_folder else None
        if table and (said is None or said is table):
            found = table_folder(found.path, found.folders, table)
            files.setdefault(found.path, found)
        else:
            (folders if is_folder else files).setdefault(found.path, found)
    if not files:  # folders that match stand for what is in them, unless there are files that do
        below = [(match, file) for match in folders.values() for file in _below(match, access, said)]
        files = {file.path: _inside(match, file) for match, file in below}
    if not files:
        raise nothing_matches(pattern)
    return sorted(files.values(), key=lambda file: file.path)


def _below(match: Found, access: Access, said: Format | None) -> list[Found]:
    found = list(_walk(match.path, _entries(match.path, access), access))
    return choose(found, match.path, said) if found else []


def _table_of(entries: list[Entry]) -> Format | None:
    """The format whose table a folder is, by what lies in it."""
    return registry.of_folder({name for name, is_folder, _ in entries if is_folder})


def _inside(match: Found, file: Found) -> Found:
    file.folders = (*match.folders, match.name, *file.folders)
    return file


#: A folder that matches so far: its path with a slash, its names below the base, the places that links led
#: to, and which parts of the pattern its names may match.
_Step = tuple[str, tuple[str, ...], tuple[str, ...], frozenset[int]]


def _matching(base: str, parts: Parts, access: Access) -> Iterator[tuple[Found, bool]]:
    """What matches below `base`, and whether it is a folder. All readings of `**` are followed at once."""
    stack: list[_Step] = [(base, (), (), _with_following({0}, parts))]
    seen: set[tuple[str, frozenset[int]]] = set()
    has_parents = any(part is not ANY_DEPTH and part.text == ".." for part in parts)
    while stack:
        prefix, names, places, states = stack.pop()
        check()
        if has_parents:  # `a*/../a*/..` comes to the same folder again and again
            key = (os.path.realpath(prefix), states)
            if key in seen:
                continue
            seen.add(key)
        for name, is_folder, is_link in _candidates(prefix, parts, states, access):
            following = set()
            for state in states:
                part = parts[state]
                if part is ANY_DEPTH:
                    # As elsewhere, `**` does not follow links to folders: they might lead in circles.
                    if is_folder and not is_link and not is_hidden(name):
                        following.add(state)
                elif part.matches(name):
                    if state + 1 < len(parts):
                        following.add(state + 1)
                    else:
                        yield Found(prefix + name, names, name), is_folder
            if not is_folder or not following:
                continue
            inner = places
            if is_link:
                place = os.path.realpath(prefix + name)
                if place in places or _is_above(place, os.path.realpath(prefix)):
                    continue
                inner = (*places, place)
            stack.append((f"{prefix}{name}/", (*names, name), inner, _with_following(following, parts)))


def _with_following(states: set[int], parts: Parts) -> frozenset[int]:
    """`**` may stand for no folder at all."""
    return frozenset((*states, *(state + 1 for state in states if parts[state] is ANY_DEPTH)))


def _candidates(prefix: str, parts: Parts, states: frozenset[int], access: Access) -> Iterable[Entry]:
    """What lies in a folder; where names are spelt out, only these, which need not be listed."""
    texts = {
        part.text for part in (parts[state] for state in states) if part is not ANY_DEPTH and part.literal
    }
    if len(texts) < len(states):
        entries = _entries(prefix, access)
        # The files of a table are not what it holds: nobody comes upon them by chance.
        return [] if ANY_DEPTH in (parts[state] for state in states) and _table_of(entries) else entries
    statuses = ((text, _status(prefix + text, access)) for text in texts)
    # A link that is spelt out is meant: it is followed wherever it leads.
    return [(text, stat.S_ISDIR(status.st_mode), False) for text, status in statuses if status is not None]


def _failure(path: str, cause: OSError) -> QueryModeError:
    if cause.errno in (errno.ENOENT, errno.ENOTDIR):
        return error("TABLE_NOT_FOUND", f"there is no file {path}; check its spelling and the session's root")
    if cause.errno in (errno.EACCES, errno.EPERM):
        return error("ACCESS_DENIED", f"this user may not read {path}; check its permissions")
    return error("QUERY_FAILED", f"{path} could not be read: {os.strerror(cause.errno or 0)}")
