"""How the files of one table are opened, to look at them and for queries.

They are opened here only to learn what they are; a query opens those it needs, and fails if one is no longer
what it was.
"""

from __future__ import annotations

from functools import partial

from querymode.catalog import hive
from querymode.catalog.one_schema import Union
from querymode.errors import error
from querymode.format import registry
from querymode.format.parquet.footer import default_cache, is_settled, load
from querymode.store.local import LocalFile
from querymode.store.location import display_name, scheme_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from querymode.catalog.listing import Found
    from querymode.format.format import Format, HasBlob, Member
    from querymode.format.parquet.footer import FooterCache
    from querymode.store.fetch import IoGate
    from querymode.store.fetch import Opening as Pending
    from querymode.store.local import FileIdentity
    from querymode.store.options import StoreOptions
    from querymode.store.source import ByteSource

#: Files that are open at the same time while they are looked at.
_OPEN_COUNT_MAX = 256


class OtherFormat(Exception):
    """A file's name says one format, and what it holds another: that counts."""

    def __init__(self, format: Format) -> None:
        self.format = format


class Hive:
    """What becomes of `key=value` folders: see `open_table`."""

    __slots__ = ("types", "uneven", "wanted")

    def __init__(self, wanted: bool | None, types: Mapping[str, str] | str | None, *, uneven: bool) -> None:
        self.wanted = wanted
        self.types = types
        self.uneven = uneven


class Opening:
    """What a format is given to open files with (format/format.py)."""

    def __init__(
        self,
        options: StoreOptions,
        gate: IoGate,
        cache: FooterCache,
        said: Format | None = None,
        hive: Hive | None = None,
    ) -> None:
        self.options = options
        self.gate = gate
        self.cache = cache
        #: What somebody said they are.
        self.said = said
        #: What they are taken for.
        self.format = said
        self._hive = hive or Hive(None, None, uneven=True)

    @property
    def saw(self) -> Callable[[bytes, bytes], None] | None:
        return None if self.said is not None else self._saw

    def _saw(self, head: bytes, tail: bytes) -> None:
        found = registry.by_content(head, tail)
        if found is not None and found is not self.format:
            raise OtherFormat(found)

    def batches(self, found: Sequence[Found]) -> Iterator[list[tuple[Found, ByteSource]]]:
        for start in range(0, len(found), _OPEN_COUNT_MAX):
            batch = list(found[start : start + _OPEN_COUNT_MAX])
            sources: list[ByteSource] = []
            try:
                self._open_batch(batch, sources)
                yield list(zip(batch, sources, strict=True))
            finally:
                for source in sources:
                    source.close()

    def _open_batch(self, batch: list[Found], sources: list[ByteSource]) -> None:
        remote = {index: file for index, file in enumerate(batch) if _is_remote(file) and file.source is None}
        opened = dict(zip(remote, self._open_together(list(remote.values())), strict=True))
        for index, file in enumerate(batch):
            sources.append(file.source or opened.get(index) or LocalFile(file.path, self.options.access))

    def opener(self, file: Found, source: ByteSource, footer: HasBlob | None) -> Callable[[], ByteSource]:
        if isinstance(source, LocalFile):
            identity = (source.identity, is_settled(source))
            return _OpenAgain(file.path, self.options, identity, footer, self.cache)
        # It holds no descriptor, and each of its reads asks for this version only, or it holds all there is
        # of a file whose server sends no parts. The tail has served.
        source.tail = b""
        return partial(_same, source)

    def unite(self, members: list[Member], *, has_hidden: bool = True) -> Union:
        values = [hive.partition_values(member.folders) for member in members]
        names = [member.name for member in members]
        keys = hive.partition_keys(names, values, wanted=self._hive.wanted, uneven=self._hive.uneven)
        types = hive.partition_types(keys, values, self._hive.types)
        return Union(members, values, types, has_hidden=has_hidden)

    # ---- other machines ----

    def open_remote(self, file: Found) -> ByteSource:
        tail_size = self.cache.opening_size(display_name(file.path))
        return self.gate.open(file.path, self.options, tail_size=tail_size, known=file.known)

    def _open_together(self, files: list[Found]) -> list[ByteSource]:
        """Opening waits for an answer, so that many are asked at a time."""
        openings: dict[int, Pending] = {}
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
        footer: HasBlob | None,
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
    path: str, options: StoreOptions, known: tuple[FileIdentity, bool], footer: HasBlob | None
) -> _OpenAgain:
    return _OpenAgain(path, options, known, footer, default_cache())


def _has_footer(source: LocalFile, footer: HasBlob, cache: FooterCache) -> bool:
    """A new link or new permissions change an inode's times, but not the footer; new content does."""
    return load([source], cache=cache)[0].blob == footer.blob
