"""Tables of Parquet files: which files they are, and how each is opened.

The files are opened here only to learn their identity and footer; a query opens those it needs, and fails
if one is no longer what it was.
"""

from __future__ import annotations

import os
import reprlib
from collections.abc import Iterable
from contextlib import suppress
from functools import partial

from querymode._abi import FileFormat
from querymode._collector import CollectorPaused
from querymode.catalog import disk as local
from querymode.catalog import hive
from querymode.catalog.listing import Found, is_parquet_name
from querymode.catalog.one_schema import Member, Union
from querymode.errors import QueryModeError, error
from querymode.format.parquet.footer import default_cache, is_settled, load, read_many
from querymode.format.parquet.statistics import FooterEvidence
from querymode.format.text.names import NAMES as TEXT_FORMATS
from querymode.format.text.names import format_of_name
from querymode.store.access import absolute
from querymode.store.fetch import IoGate
from querymode.store.local import LocalFile
from querymode.store.location import display_name, local_path, scheme_of
from querymode.store.options import StoreOptions
from querymode.table.files import Cuts, FileTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from querymode.format.parquet.flat_footer import FlatFooter
    from querymode.format.parquet.footer import FooterCache
    from querymode.store.fetch import Opening
    from querymode.store.local import FileIdentity
    from querymode.store.source import ByteSource
    from querymode.table.text import TextTable

    Path = str | os.PathLike[str]

#: What `format=` may be.
FORMATS = {"parquet": FileFormat.PARQUET, **TEXT_FORMATS}
#: Files that are open at the same time while footers are read.
_OPEN_COUNT_MAX = 256


def open_table(
    where: Path | Iterable[Path],
    options: StoreOptions | None = None,
    *,
    format: str | None = None,
    hive_partitioning: bool | None = None,
    hive_types: Mapping[str, str] | str | None = None,
    name: str | None = None,
    gate: IoGate | None = None,
    cache: FooterCache | None = None,
    **dialect: Any,
) -> FileTable | TextTable:
    """The table that a file, a folder, a pattern, a URL, or a list of those stands for.

    `format`: "parquet", "csv" or "ndjson", if names do not say it. `dialect`: options of text files.
    `hive_partitioning`: whether `key=value` folders become columns: by default yes, except where the files of
    a list differ in their keys. `hive_types`: types of such columns, which are text otherwise; "infer" finds
    them out. `gate` and `cache`: through which footers are read.
    """
    options = options or StoreOptions()
    wanted = None if format is None else FORMATS.get(str(format).lower())
    if format is not None and wanted is None:
        raise error(
            "NOT_SUPPORTED", f"format={format!r} is not read yet; so far, it is: {', '.join(FORMATS)}"
        )
    gate = gate or IoGate()
    before = (gate.request_count, gate.byte_count)
    opening = _Opening(options, gate, cache or default_cache(), wanted)
    is_list = not isinstance(where, (str, os.PathLike))
    with CollectorPaused():
        found = _find_all(where, opening) if is_list else _find(where, opening)
        text_format = wanted if wanted is not None else _text_format(found)
        is_text = text_format is not None and text_format != FileFormat.PARQUET
        if dialect and not is_text:
            raise error(
                "NOT_SUPPORTED", f"{sorted(dialect)[0]}= is for text files, and these are Parquet files"
            )
        texts = None
        if is_text:
            from querymode.catalog.text import NamedOtherwise, open_texts

            assert text_format is not None
            with suppress(NamedOtherwise):
                texts = open_texts(opening, found, text_format, dialect)
        members = opening.open(found) if texts is None else [text.member for text in texts]
        values = [hive.partition_values(member.folders) for member in members]
        names = [member.name for member in members]
        keys = hive.partition_keys(names, values, wanted=hive_partitioning, uneven=not is_list)
        types = hive.partition_types(keys, values, hive_types)
        union = Union(members, values, types, has_hidden=texts is None)
        table: FileTable | TextTable
        if texts is not None:
            from querymode.table.text import TextFile, TextTable

            files = [
                TextFile(text.member.name, text.member.open, text.size, text.head, places)
                for text, places in zip(texts, union.places(), strict=True)
            ]
            assert text_format is not None
            table = TextTable(union.schema(), text_format, files, name)
        else:
            cuts = Cuts.of([member.footer.row_counts() for member in members])  # type: ignore[attr-defined]
            table = FileTable(union.schema(), union.files(), cuts, name)
            table.use_evidence(FooterEvidence(table))
    table.opening = (gate.request_count - before[0], gate.byte_count - before[1])
    return table


def _text_format(found: list[Found]) -> FileFormat | None:
    """By the names of files that somebody named or a pattern found. Names of one table say the same."""
    formats = {None if is_parquet_name(file.name) else format_of_name(file.name) for file in found}
    return formats.pop() if len(formats) == 1 else None


# ---- which files ----


def _find_all(where: object, opening: _Opening) -> list[Found]:
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


def _find(where: object, opening: _Opening, *, alone: bool = True) -> list[Found]:
    if not isinstance(where, (str, os.PathLike)) or not isinstance(os.fspath(where), str):
        raise _no_path(where)
    if not os.fspath(where):
        raise error("TABLE_NOT_FOUND", "the path is empty; give a file, a folder or a pattern")
    options = opening.options
    path = absolute(os.fspath(where), options.root)
    scheme = scheme_of(path)
    if scheme in ("", "file"):
        return local.find(local_path(path, options.root), options.access, opening.format)
    if scheme in ("s3", "s3a"):
        from querymode.catalog import s3

        found = s3.find(path, options, opening.gate, opening.format)
        return _object_or_folder(path, opening) if alone and _is_unlisted(found) else found
    if "*" in path.partition("?")[0]:
        raise error(
            "NOT_SUPPORTED",
            f"{display_name(path)}: patterns cannot be used with {scheme}://, which has no listings; give a "
            "list of URLs",
        )
    return [Found(path, (), display_name(path).rpartition("/")[2], is_named=True)]


def _is_unlisted(found: list[Found]) -> bool:
    return found[0].is_named


def _object_or_folder(url: str, opening: _Opening) -> list[Found]:
    """`s3://bucket/events.parquet` may be what other engines write: a folder of that name."""
    from querymode.catalog import s3

    found = Found(url, (), url.rpartition("/")[2], is_named=True)
    try:
        found.source = opening.open_remote(found)
    except QueryModeError as failure:
        if failure.code != "TABLE_NOT_FOUND":
            raise
        try:
            return s3.folder(url.partition("://")[2], opening.options, opening.gate, opening.format)
        except QueryModeError:
            raise failure from None
    return [found]


# ---- opening ----


class _Opening:
    """How the files of one table are opened and their footers read."""

    def __init__(
        self, options: StoreOptions, gate: IoGate, cache: FooterCache, format: FileFormat | None
    ) -> None:
        self.options = options
        self.gate = gate
        self.cache = cache
        #: What somebody said they are.
        self.format = format

    def open(self, found: list[Found]) -> list[Member]:
        members: list[Member] = []
        for start in range(0, len(found), _OPEN_COUNT_MAX):
            batch = found[start : start + _OPEN_COUNT_MAX]
            sources: list[ByteSource] = []
            try:
                self.open_batch(batch, sources)
                members += self._members(batch, sources)
            finally:
                for source in sources:
                    source.close()
        return members

    def open_batch(self, batch: list[Found], sources: list[ByteSource]) -> None:
        remote = {index: file for index, file in enumerate(batch) if _is_remote(file) and file.source is None}
        opened = dict(zip(remote, self._open_together(list(remote.values())), strict=True))
        for index, file in enumerate(batch):
            sources.append(file.source or opened.get(index) or LocalFile(file.path, self.options.access))

    def _members(self, batch: list[Found], sources: list[ByteSource]) -> list[Member]:
        kept = self._without_other_formats(list(zip(batch, sources, strict=True)))
        footers = load(
            [source for _, source in kept],
            gate=self.gate,
            cache=self.cache,
            parquet_expected=self.format is not None,
        )
        return [
            Member(source.name, file.folders, self.opener(file, source, footer), footer)
            for (file, source), footer in zip(kept, footers, strict=True)
        ]

    def _without_other_formats(self, pairs: list[tuple[Found, ByteSource]]) -> list[tuple[Found, ByteSource]]:
        """Files in a folder of Parquet files whose names do not say what they are."""
        doubtful = [source for file, source in pairs if file.optional]
        sizes = [min(4, source.size) for source in doubtful]
        ends = read_many(
            self.gate,
            [(source, source.size - size, size) for source, size in zip(doubtful, sizes, strict=True)],
        )
        others = {
            id(source) for source, end in zip(doubtful, ends, strict=True) if end not in (b"PAR1", b"PARE")
        }
        return [pair for pair in pairs if id(pair[1]) not in others]

    def opener(self, file: Found, source: ByteSource, footer: FlatFooter | None) -> Callable[[], ByteSource]:
        """Opens the file that this is once more."""
        if isinstance(source, LocalFile):
            identity = (source.identity, is_settled(source))
            return _OpenAgain(file.path, self.options, identity, footer, self.cache)
        # It holds no descriptor, and each of its reads asks for this version only, or it holds all there is
        # of a file whose server sends no parts. The tail has served.
        source.tail = b""
        return partial(_same, source)

    # ---- other machines ----

    def open_remote(self, file: Found) -> ByteSource:
        tail_size = self.cache.opening_size(display_name(file.path))
        return self.gate.open(file.path, self.options, tail_size=tail_size, known=file.known)

    def _open_together(self, files: list[Found]) -> list[ByteSource]:
        """Opening waits for an answer, so that many are asked at a time."""
        openings: dict[int, Opening] = {}
        try:
            for index, file in enumerate(files):
                if file.known is None:
                    tail_size = self.cache.opening_size(display_name(file.path))
                    openings[index] = self.gate.begin_open(file.path, self.options, tail_size=tail_size)
            return [
                openings[index].wait() if index in openings else self.open_remote(file)
                for index, file in enumerate(files)
            ]
        except BaseException:
            for opening in openings.values():
                opening.cancel()
            raise


def _is_remote(file: Found) -> bool:
    return file.known is not None or scheme_of(file.path) not in ("", "file")


def _same(source: ByteSource) -> ByteSource:
    return source


class _OpenAgain:
    """Opens a local file for a query. `known`: its identity, and whether it would have shown every change
    since then. In another process, that process's cache of footers serves."""

    __slots__ = ("_cache", "_footer", "_known", "_options", "_path")

    def __init__(
        self,
        path: str,
        options: StoreOptions,
        known: tuple[FileIdentity, bool],
        footer: FlatFooter | None,
        cache: FooterCache,
    ) -> None:
        self._path = path
        self._options = options
        self._known = known
        self._footer = footer
        self._cache = cache

    def __reduce__(self) -> tuple[Any, ...]:
        return _opener_elsewhere, (self._path, self._options, self._known, self._footer)

    def __call__(self) -> ByteSource:
        identity, was_settled = self._known
        source = LocalFile(self._path, self._options.access)
        try:
            if was_settled and source.identity == identity:
                return source
            # Text has no footer to look at: the file itself is, when the scan ends.
            is_same = self._footer is None or _has_footer(source, self._footer, self._cache)
            if source.identity[:4] == identity[:4] and is_same:
                return source
        except BaseException:
            source.close()
            raise
        source.close()
        raise error(
            "QUERY_FAILED",
            f"{self._path} changed since the table was opened; open it again with table(…), and make the "
            "query anew",
        )


def _opener_elsewhere(
    path: str, options: StoreOptions, known: tuple[FileIdentity, bool], footer: FlatFooter | None
) -> _OpenAgain:
    return _OpenAgain(path, options, known, footer, default_cache())


def _has_footer(source: LocalFile, footer: FlatFooter, cache: FooterCache) -> bool:
    """A new link or new permissions change an inode's times, but not the footer; new content does."""
    return load([source], cache=cache)[0].blob == footer.blob
