"""Local files, folders and patterns. Links are followed, as far as they do not lead in circles or out."""

from __future__ import annotations

import errno
import os
import stat

from querymode.catalog.listing import (
    ICEBERG,
    Found,
    choose,
    is_iceberg_metadata,
    nothing_matches,
    refuse_other_table,
)
from querymode.catalog.pattern import ANY_DEPTH, has_wildcards, is_hidden, split_pattern
from querymode.errors import QueryModeError, error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from querymode.catalog.pattern import NamePattern, Parts
    from querymode.store.access import Access

#: (name, whether it is a folder, whether it is a link).
Entry = tuple[str, bool, bool]

_DEPTH_MAX = 64


def find(path: str, access: Access) -> list[Found]:
    """The files of an absolute path: a file, a folder or a pattern."""
    status = _status(path, access)
    if status is not None:
        if stat.S_ISDIR(status.st_mode):
            return folder(path, access)
        return [Found(path, (), os.path.basename(path), is_named=True)]
    if has_wildcards(path):
        return glob(path, access)
    raise _failure(path, OSError(errno.ENOENT, ""))


def _status(path: str, access: Access) -> os.stat_result | None:
    real = access.local(path)
    try:
        return os.stat(real)
    except OSError as cause:
        if cause.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP):
            return None
        raise _failure(path, cause) from cause


# ---- folders ----


def folder(path: str, access: Access) -> list[Found]:
    path = path.rstrip("/") or "/"
    entries = _entries(path, access)
    names = {name for name, is_folder, _ in entries if is_folder}
    if "metadata" in names:
        inner = _entries(f"{path}/metadata", access)
        names.update(ICEBERG for name, _, _ in inner if is_iceberg_metadata(("metadata", name)))
    refuse_other_table(path, names)
    return choose(list(_walk(path, entries, access)), path)


def _walk(path: str, entries: list[Entry], access: Access) -> Iterator[Found]:
    """The files below a folder, in no order."""
    prefix = path if path == "/" else f"{path}/"
    # Folders to look at: entries, prefix, names below the root, the places that links led to.
    stack: list[tuple[list[Entry], str, tuple[str, ...], tuple[str, ...]]] = [(entries, prefix, (), ())]
    while stack:
        entries, prefix, folders, places = stack.pop()
        for name, is_folder, is_link in entries:
            if is_hidden(name):
                continue
            if not is_folder:
                yield Found(prefix + name, folders, name)
                continue
            inner = places
            if is_link:
                place = os.path.realpath(prefix + name)
                if place in places or _is_above(place, os.path.realpath(prefix)):
                    continue
                inner = (*places, place)
            if len(folders) >= _DEPTH_MAX:
                raise error("QUERY_FAILED", f"{prefix}{name}: folders are nested more than {_DEPTH_MAX} deep")
            stack.append((_entries(prefix + name, access), f"{prefix}{name}/", (*folders, name), inner))


def _is_above(place: str, path: str) -> bool:
    return path == place or path.startswith(place.rstrip("/") + "/")


def _entries(path: str, access: Access) -> list[Entry]:
    """What lies in a folder.

    Where links may not lead out, what is listed is what was checked, whatever becomes of its name meanwhile.
    """
    try:
        if not access.restricted:
            with os.scandir(path) as entries:
                return [_entry(entry) for entry in entries]
        real = access.local(path)
        descriptor = os.open(real, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            access.opened(descriptor, real)
            with os.scandir(descriptor) as entries:
                return [_entry(entry) for entry in entries]
        finally:
            os.close(descriptor)
    except QueryModeError:  # some of which are OSErrors too
        raise
    except OSError as cause:
        raise _failure(path, cause) from cause


def _entry(entry: os.DirEntry[str]) -> Entry:
    return entry.name, entry.is_dir(), entry.is_symlink()


# ---- patterns ----


def glob(pattern: str, access: Access) -> list[Found]:
    base, parts = split_pattern(pattern)
    if _status(base, access) is None:
        raise nothing_matches(pattern)
    files: dict[str, Found] = {}
    folders: dict[str, Found] = {}
    for found, is_folder in _matching(base, parts, (), access):
        (folders if is_folder else files).setdefault(found.path, found)
    if not files:  # folders that match stand for what is in them, unless there are files that do
        below = [(match, file) for match in folders.values() for file in _below(match, access)]
        files = {file.path: _inside(match, file) for match, file in below}
    if not files:
        raise nothing_matches(pattern)
    return sorted(files.values(), key=lambda file: file.path)


def _below(match: Found, access: Access) -> list[Found]:
    found = list(_walk(match.path, _entries(match.path, access), access))
    return choose(found, match.path) if found else []


def _inside(match: Found, file: Found) -> Found:
    file.folders = (*match.folders, match.name, *file.folders)
    return file


def _matching(
    prefix: str, parts: Parts, folders: tuple[str, ...], access: Access
) -> Iterator[tuple[Found, bool]]:
    """What matches below `prefix`, which ends with a slash; some of it perhaps more than once."""
    part, rest = parts[0], parts[1:]
    if part is ANY_DEPTH:
        yield from _matching(prefix, rest, folders, access)
        for name, is_folder, is_link in _entries(prefix, access):
            # As elsewhere, `**` does not follow links to folders: they might lead in circles.
            if is_folder and not is_link and not is_hidden(name):
                yield from _matching(f"{prefix}{name}/", parts, (*folders, name), access)
        return
    for name, is_folder in _named(prefix, part, access):
        if not rest:
            yield Found(prefix + name, folders, name), is_folder
        elif is_folder:
            yield from _matching(f"{prefix}{name}/", rest, (*folders, name), access)


def _named(prefix: str, part: NamePattern, access: Access) -> Iterator[tuple[str, bool]]:
    if part.literal:
        status = _status(prefix + part.text, access)
        if status is not None:
            yield part.text, stat.S_ISDIR(status.st_mode)
        return
    for name, is_folder, _ in _entries(prefix, access):
        if part.matches(name):
            yield name, is_folder


def _failure(path: str, cause: OSError) -> QueryModeError:
    if cause.errno in (errno.ENOENT, errno.ENOTDIR):
        return error("TABLE_NOT_FOUND", f"there is no file {path}; check its spelling and the session's root")
    if cause.errno in (errno.EACCES, errno.EPERM):
        return error("ACCESS_DENIED", f"this user may not read {path}; check its permissions")
    return error("QUERY_FAILED", f"{path} could not be read: {os.strerror(cause.errno or 0)}")
