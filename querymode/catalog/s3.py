"""Objects below an s3:// folder, or matching a pattern. One listing tells name, size and ETag of all."""

from __future__ import annotations

from querymode.catalog.listing import (
    ICEBERG,
    Found,
    choose,
    claimed_folder,
    is_iceberg_metadata,
    nothing_found,
    nothing_matches,
)
from querymode.catalog.pattern import has_wildcards, is_hidden, matches, split_pattern, wildcard_index
from querymode.errors import QueryModeError
from querymode.store.s3 import list_prefix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from querymode.format.format import Format
    from querymode.store.fetch import IoGate
    from querymode.store.options import StoreOptions


def find(url: str, options: StoreOptions, gate: IoGate, said: Format | None = None) -> list[Found]:
    """The objects of a URL: one object, a folder or a pattern. `gate`: through which pages are asked for."""
    path = url.partition("://")[2]
    key = path.partition("/")[2]
    name = key.rpartition("/")[2]
    if has_wildcards(key):
        return glob(path, options, gate)
    if not name:
        return folder(path, options, gate, said)
    if "." not in name:  # more probably a folder: S3 itself knows neither
        try:
            return folder(path, options, gate, said)
        except QueryModeError as failure:
            if failure.code != "TABLE_NOT_FOUND":
                raise
    return [Found(url, (), name, is_named=True)]


def folder(path: str, options: StoreOptions, gate: IoGate, said: Format | None = None) -> list[Found]:
    """`path`: bucket and key."""
    root = f"s3://{path.rstrip('/')}/"
    found: list[Found] = []
    top: set[str] = set()
    for listed in list_prefix(root, options, gate.ask):
        names = listed.url[len(root) :].split("/")
        if len(names) > 1:
            top.add(ICEBERG if is_iceberg_metadata(names) else names[0])
        if names[-1] and not any(map(is_hidden, names)):
            found.append(Found(listed.url, tuple(names[:-1]), names[-1], listed))
    claimed = claimed_folder(root, top, said)
    if claimed:
        return claimed
    if not found:
        raise nothing_found(root)
    return choose(found, root, said)


def glob(path: str, options: StoreOptions, gate: IoGate) -> list[Found]:
    base, parts = split_pattern(path)
    start = len(f"s3://{base}")
    found: list[Found] = []
    for listed in list_prefix(f"s3://{path[: wildcard_index(path)]}", options, gate.ask):
        names = listed.url[start:].split("/")
        if listed.url == f"s3://{path}":  # a name that looks like a pattern
            return [Found(listed.url, (), names[-1], listed)]
        if names[-1] and matches(parts, names):
            found.append(Found(listed.url, tuple(names[:-1]), names[-1], listed))
    if not found:
        raise nothing_matches(f"s3://{path}")
    return sorted(found, key=lambda file: file.path)
