"""Which versions a Lance table has, and which of them is meant.

    _versions/<2⁶⁴ − 1 − version, 20 digits>.manifest     newest first, in the order of names
    _versions/<version>.manifest                          as older writers name them; never both
    _refs/tags/<name>.json                                {"branch": null, "version": 3, …}

The newest version is what the listing says. Hints lie, numbers have gaps, and what lies beside manifests
(detached versions, files that are not finished) is none.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from querymode.errors import QueryModeError, error
from querymode.store.location import display_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from querymode.format.format import Found, Opening

VERSIONS = "_versions"
TAGS = "_refs/tags"
_BRANCHES = "_refs/branches"
_NAME = re.compile(r"([0-9]{1,20}+)\.manifest")
_NEWEST_FIRST = (1 << 64) - 1
#: Names of this many digits count down.
_DIGITS = 20
#: Detached versions have the highest bit.
_NUMBER_MAX = (1 << 63) - 1
_TAG = re.compile(r"[A-Za-z0-9._-]++")
_TAG_SIZE_MAX = 64 << 10
#: What one page of a listing holds. Where names count down, the newest version is in the first.
_PAGE = 1000


class Version(NamedTuple):
    number: int
    file: Found


def wanted(opening: Opening, folder: Found, options: Mapping[str, Any]) -> int | None:
    """The number that `version=` or `ref=` stand for; None for the newest."""
    version, ref = options.get("version"), options.get("ref")
    if version is not None and ref is not None:
        raise error("QUERY_FAILED", f"version={version!r} and ref={ref!r} both say which version; give one")
    if isinstance(version, str):
        version, ref = None, version
    if ref is not None:
        if not isinstance(ref, str):
            raise error("QUERY_FAILED", f"ref={ref!r}; it is the name of a tag")
        return _tagged(opening, folder.path, ref)
    if version is not None and (not isinstance(version, int) or isinstance(version, bool) or version < 1):
        raise error("QUERY_FAILED", f"version={version!r}; it is a number from 1 on, or the name of a tag")
    return version


def find(opening: Opening, folder: Found, number: int | None) -> Version:
    """The version of that number, or the newest."""
    newest_first = False
    newest: Version | None = None
    smallest: int | None = None
    seen = 0
    for file in opening.inside(folder, VERSIONS):
        seen += 1
        found = _version(file)
        if found is None:
            continue
        counts_down = len(file.name.partition(".")[0]) == _DIGITS
        if newest is not None and counts_down != newest_first:
            raise error(
                "INVALID_FORMAT",
                f"{display_name(folder.path)} has manifests that are named in two ways, so that nobody can "
                "tell which is the newest; remove those that were put there by mistake",
            )
        newest_first = counts_down
        if found.number == number:
            return found
        if newest is None or found.number > newest.number:
            newest = found
        smallest = found.number if smallest is None else min(smallest, found.number)
        # From here on they are all older.
        is_past = seen >= _PAGE if number is None else found.number < number
        if file.known is not None and newest_first and is_past:
            break
    if newest is None:
        raise error("TABLE_NOT_FOUND", f"{display_name(folder.path)} is a Lance table without a version")
    if number is None:
        return newest
    raise error(
        "TABLE_NOT_FOUND",
        f"{display_name(folder.path)} has no version {number}; the newest is {newest.number}"
        + ("" if newest.number < number else ", and older ones may have been cleaned up"),
    )


def find_all(opening: Opening, folder: Found) -> list[Version]:
    """By rising number."""
    files = opening.inside(folder, VERSIONS)
    return sorted((found for file in files if (found := _version(file))), key=lambda found: found.number)


def _version(file: Found) -> Version | None:
    match = _NAME.fullmatch(file.name)
    if match is None:
        return None
    digits = match[1]
    number = _NEWEST_FIRST - int(digits) if len(digits) == _DIGITS else int(digits)
    return Version(number, file) if 0 <= number <= _NUMBER_MAX else None


# ---- tags ----


def _tagged(opening: Opening, folder: str, name: str) -> int:
    if not _TAG.fullmatch(name) or set(name) == {"."}:
        raise error("QUERY_FAILED", f"ref={name!r} cannot be the name of a tag")
    where = display_name(folder)
    document = _json(opening, f"{folder.rstrip('/')}/{TAGS}/{name}.json")
    if document is None:
        if _json(opening, f"{folder.rstrip('/')}/{_BRANCHES}/{name}.json") is not None:
            raise error("NOT_SUPPORTED", f"{where}: {name!r} is a branch, which is not read yet; tags are")
        raise error("TABLE_NOT_FOUND", f"{where} has no tag {name!r}; its versions can be given by number")
    version = document.get("version")
    if document.get("branch") is not None:
        raise error("NOT_SUPPORTED", f"{where}: the tag {name!r} is of a branch, which is not read yet")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise error("INVALID_FORMAT", f"{where}: the tag {name!r} does not say which version it is of")
    return version


def _json(opening: Opening, path: str) -> dict[str, Any] | None:
    import json

    try:
        source = opening.open(path)
    except QueryModeError as failure:
        if failure.code != "TABLE_NOT_FOUND":
            raise
        return None
    with source:
        if source.size > _TAG_SIZE_MAX:
            raise error("INVALID_FORMAT", f"{source.name} has {source.size:,} bytes, too many for a tag")
        data = opening.gate.read_tail(source, source.size)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise error("INVALID_FORMAT", f"{source.name} is not the JSON that a tag is written in")
    return document
