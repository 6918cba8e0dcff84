"""Tables of files: which files a path stands for, and which format they are of."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Iterable

from querymode.catalog import disk as local
from querymode.catalog.listing import Found
from querymode.catalog.opening import Hive, OtherFormat
from querymode.errors import QueryModeError, error
from querymode.format import registry
from querymode.store.access import absolute
from querymode.store.location import display_name, local_path, scheme_of
from querymode.store.options import StoreOptions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from querymode.catalog.opening import Opening
    from querymode.format.footer_cache import FooterCache
    from querymode.format.format import Format
    from querymode.store.fetch import IoGate
    from querymode.table.stored import StoredTable
    from querymode.table.table import Origin

    Path = str | os.PathLike[str]


def open_table(
    where: Path | Iterable[Path],
    options: StoreOptions | None = None,
    *,
    format: str | None = None,
    hive_partitioning: bool | None = None,
    hive_types: Mapping[str, str] | str | None = None,
    name: str | None = None,
    origin: Origin | None = None,
    gate: IoGate | None = None,
    cache: FooterCache | None = None,
    **reader: Any,
) -> StoredTable:
    """The table that a file, a folder, a pattern, a URL, or a list of those stands for.

    `format`: "parquet", "csv" or "ndjson", if names do not say it. `reader`: options of that format.
    `hive_partitioning`: whether `key=value` folders become columns: by default yes, except where the files of
    a list differ in their keys. `hive_types`: types of such columns, which are text otherwise; "infer" finds
    them out. `gate` and `cache`: through which footers are read.
    """
    from querymode.catalog.reference import Reference

    is_list = not isinstance(where, (str, os.PathLike))
    reference = Reference(
        where,
        options or StoreOptions(),
        said=None if format is None else registry.by_option(format),
        hive=Hive(hive_partitioning, hive_types, uneven=not is_list),
        reader=reader,
        name=name,
        origin=origin,
        cache=cache,
    )
    return reference.open(gate)


def resolve(opening: Opening, found: list[Found], reader: Mapping[str, Any], name: str | None) -> StoredTable:
    """The table that files are at this moment, whatever format they turn out to be of."""
    format = opening.said or _format_of(found)
    for _ in registry.FORMATS:
        opening.begin(format)
        _check_options(format, reader)
        try:
            return format.resolve(opening, found, reader, name)
        except OtherFormat as other:
            format = other.format
    raise error("INVALID_FORMAT", f"{found[0].path} looks like several formats; give format=")


def _format_of(found: list[Found]) -> Format:
    """By the names of files that somebody named or a pattern found. Names of one table say the same."""
    formats = {file.format or registry.by_name(file.name) for file in found}
    format = formats.pop() if len(formats) == 1 else None
    return format or registry.default()


def _check_options(format: Format, reader: Mapping[str, Any]) -> None:
    for option in sorted(reader.keys() - format.options):
        takers = " and ".join(other.title for other in registry.FORMATS if option in other.options)
        raise error("NOT_SUPPORTED", f"{option}= is for {takers} files, and these are {format.title} files")


# ---- which files ----


def find_files(where: object, opening: Opening) -> list[Found]:
    """What lies at a path, or at several."""
    return _find(where, opening) if isinstance(where, (str, os.PathLike)) else _find_all(where, opening)


def _find_all(where: object, opening: Opening) -> list[Found]:
    if not isinstance(where, Iterable) or isinstance(where, (bytes, bytearray, memoryview)):
        raise _no_path(where)
    found: list[Found] = []
    for item in where:
        files = _find(item, opening, alone=False)
        if files[0].is_named:
            # What was written before a file's name counts: there is no folder to count from.
            files[0].folders = tuple(os.fspath(item).split("/")[:-1])
        found += files
    if not found:
        raise error("TABLE_NOT_FOUND", "a table of no files has no columns; give at least one path")
    return found


def _no_path(where: object) -> QueryModeError:
    if hasattr(where, "__arrow_c_stream__") or hasattr(where, "__arrow_c_array__"):
        kind = type(where).__qualname__
        return error("TABLE_NOT_FOUND", f"a {kind} is data, no path; give it to from_arrow")
    shown = reprlib.repr(where)
    return error("TABLE_NOT_FOUND", f"{shown} is no path; give a text, or a list of texts")


def _find(where: object, opening: Opening, *, alone: bool = True) -> list[Found]:
    if not isinstance(where, (str, os.PathLike)) or not isinstance(os.fspath(where), str):
        raise _no_path(where)
    if not os.fspath(where):
        raise error("TABLE_NOT_FOUND", "the path is empty; give a file, a folder or a pattern")
    options = opening.options
    path = absolute(os.fspath(where), options.root)
    scheme = scheme_of(path)
    if scheme in ("", "file"):
        place = local_path(path, options.root)
        named = local.named_table(place, options.access) if _is_name(os.fspath(where)) else None
        return local.find(named or place, options.access, opening.said)
    if scheme in ("s3", "s3a"):
        from querymode.catalog import s3

        if _is_name(os.fspath(where)):
            table = s3.named_table(path, options, opening.gate)
            if table is not None:
                return [table]
        found = s3.find(path, options, opening.gate, opening.said)
        return _object_or_folder(path, opening) if alone and _is_unlisted(found) else found
    if "*" in path.partition("?")[0]:
        raise error(
            "NOT_SUPPORTED",
            f"{display_name(path)}: patterns cannot be used with {scheme}://, which has no listings; give a "
            "list of URLs",
        )
    return [Found(path, (), display_name(path).rpartition("/")[2], is_named=True)]


def _is_name(where: str) -> bool:
    """Of a table below the session's root, whose folder has an ending besides."""
    return "/" not in where and "." not in where and not scheme_of(where)


def _is_unlisted(found: list[Found]) -> bool:
    return found[0].is_named


def _object_or_folder(url: str, opening: Opening) -> list[Found]:
    """`s3://bucket/events.parquet` may be what other engines write: a folder of that name."""
    from querymode.catalog import s3

    found = Found(url, (), url.rpartition("/")[2], is_named=True)
    try:
        found.source = opening.open_remote(found)
    except QueryModeError as failure:
        if failure.code != "TABLE_NOT_FOUND":
            raise
        try:
            return s3.folder(url.partition("://")[2], opening.options, opening.gate, opening.said)
        except QueryModeError:
            raise failure from None
    return [found]
