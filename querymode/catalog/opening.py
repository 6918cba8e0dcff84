"""How the files of one table are opened, to look at them and for queries.

They are opened here only to learn what they are; a query opens those it needs, and fails if one is no longer
what it was. What tells versions of a file apart is its mark: every query asks for those first (reference.py).
"""

from __future__ import annotations

import time
from functools import partial
from typing import NamedTuple

from querymode._call import check
from querymode.catalog import disk, hive, s3
from querymode.catalog.one_schema import Union
from querymode.format import registry
from querymode.format.footer_cache import default_cache
from querymode.store.local import SETTLED_NS, LocalFile, identity_of, is_settled
from querymode.store.location import display_name, scheme_of
from querymode.store.source import changed
from querymode.table.files import FragmentFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
    from typing import Any

    from querymode.catalog.listing import Found
    from querymode.format.footer_cache import FooterCache
    from querymode.format.format import Format, HasBlob, Member
    from querymode.store.fetch import IoGate
    from querymode.store.fetch import Opening as Pending
    from querymode.store.local import FileIdentity
    from querymode.store.options import StoreOptions
    from querymode.store.source import ByteSource
    from querymode.table.files import Opener

    #: A file, the folders that count for it, and what differs when it was changed.
    Mark = tuple[str, Sequence[str], object]

#: Files that are open at the same time while they are looked at.
_OPEN_COUNT_MAX = 256
_FILES_PER_CHECK = 256
#: Small files beside those that hold data come with their opening.
_WHOLE_SIZE = 64 << 10
#: A file that still moves then is read as it is: if it was changed meanwhile, the last look at it tells.
_SETTLING_MAX = 5


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
        #: Options of their format.
        self.reader: Mapping[str, Any] = {}
        #: What they are taken for.
        self.format = said
        #: Of all that were opened to be looked at.
        self.marks: list[Mark] = []
        self.has_remote = False
        #: Other machines are asked whether files are still the same, and need not send anything of them.
        self.looks_again = False
        self._hive = hive or Hive(None, None, uneven=True)

    @property
    def saw(self) -> Callable[[bytes, bytes], None] | None:
        return None if self.said is not None else self._saw

    def _saw(self, head: bytes, tail: bytes) -> None:
        found = registry.by_content(head, tail)
        if found is not None and found is not self.format:
            raise OtherFormat(found)

    def begin(self, format: Format) -> None:
        """Files are going to be looked at, as those of this format."""
        self.format = format
        self.marks = []

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
            source = file.source or opened.get(index) or LocalFile(file.path, self.options.access)
            sources.append(source)
            self.has_remote |= _is_remote(file)
            mark = _remote_mark(file, source) if _is_remote(file) else _local_mark(source)
            self.marks.append((file.path, tuple(file.folders), mark))

    def marks_of(self, found: Sequence[Found], before: Sequence[Mark]) -> list[Mark] | None:
        """Of files as they are now; None where they are not the files of `before`. Local ones are not opened,
        others are asked for a byte, unless their listing says enough."""
        if [file.path for file in found] != [path for path, _, _ in before]:
            return None
        held = {path: mark for path, _, mark in before if isinstance(mark, _Whole)}
        self._ask_again(
            [
                file
                for file in found
                if _is_remote(file) and not (file.is_folder or file.known or file.source or file.path in held)
            ]
        )
        marks: list[Mark] = []
        for number, file in enumerate(found):
            if number % _FILES_PER_CHECK == 0:
                check()
            mark: object
            if file.format is not None:
                mark = file.format.mark(self, file, self.reader)
            elif file.path in held:
                mark = held[file.path]
            elif _is_remote(file):
                mark = _remote_mark(file, file.source)
            else:
                mark = identity_of(file.path, self.options.access)
            marks.append((file.path, tuple(file.folders), mark))
        return marks

    def _ask_again(self, files: list[Found]) -> None:
        for start in range(0, len(files), _OPEN_COUNT_MAX):
            batch = files[start : start + _OPEN_COUNT_MAX]
            for file, source in zip(batch, self._open_together(batch), strict=True):
                file.source = source

    def fragment_file(self, file: Found, source: ByteSource, footer: HasBlob | None = None) -> FragmentFile:
        opener = self._opener(file, source, footer)
        return FragmentFile(source.name, opener, source.identity, source.size)

    def _opener(self, file: Found, source: ByteSource, footer: HasBlob | None) -> Opener:
        if isinstance(source, LocalFile):
            identity = (source.identity, is_settled(source))
            assert self.format is not None
            return _OpenAgain(file.path, self.options, identity, (self.format, footer), self.cache)
        # It holds no descriptor, and each of its reads asks for this version only, or it holds all there is
        # of a file whose server sends no parts. The tail has served.
        source.tail = b""
        return partial(_same, source)

    # ---- folders that are tables ----

    def open(self, file: Found | str) -> ByteSource:
        if isinstance(file, str):
            return self.gate.open(file, self.options, tail_size=_WHOLE_SIZE)
        if file.source is not None:
            return file.source
        return self.open_remote(file) if _is_remote(file) else LocalFile(file.path, self.options.access)

    def inside(self, folder: Found, name: str) -> Iterator[Found]:
        path = f"{folder.path.rstrip('/')}/{name}"
        if not _is_remote(folder):
            return disk.files_in(path, self.options.access)
        if folder.inside is not None:
            listed, is_all = folder.inside
            return iter(s3.files_of(listed)) if is_all else s3.files_in(path, self, listed)
        return s3.files_in(path, self)

    def has_inside(self, folder: str, name: str) -> bool:
        scheme = scheme_of(folder)
        if scheme in ("s3", "s3a"):
            return s3.has_objects(f"{folder}/{name}/", self.options, self.gate)
        # HTTP has no listings.
        return scheme in ("", "file") and any(disk.files_in(f"{folder}/{name}", self.options.access))

    def identity(self, file: Found) -> object:
        if _is_remote(file):
            return _remote_mark(file, file.source)
        return identity_of(file.path, self.options.access)

    def note(self, folder: Found, mark: object) -> None:
        self.has_remote |= _is_remote(folder)
        self.marks.append((folder.path, tuple(folder.folders), mark))

    def unite(self, members: list[Member], *, has_hidden: bool = True) -> Union:
        values = [hive.partition_values(member.folders) for member in members]
        names = [member.name for member in members]
        keys = hive.partition_keys(names, values, wanted=self._hive.wanted, uneven=self._hive.uneven)
        types = hive.partition_types(keys, values, self._hive.types)
        return Union(members, values, types, has_hidden=has_hidden)

    # ---- other machines ----

    def open_remote(self, file: Found) -> ByteSource:
        return self.gate.open(file.path, self.options, tail_size=self._tail_size(file), known=file.known)

    def _tail_size(self, file: Found) -> int:
        if self.looks_again:
            return 0
        format = self.format or registry.by_name(file.name) or registry.default()
        return self.cache.opening_size(display_name(file.path), format.tail_size)

    def _open_together(self, files: list[Found]) -> list[ByteSource]:
        """Opening waits for an answer, so that many are asked at a time."""
        openings: dict[int, Pending] = {}
        try:
            for index, file in enumerate(files):
                if file.known is None:
                    openings[index] = self.gate.begin_open(
                        file.path, self.options, tail_size=self._tail_size(file)
                    )
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


class _Whole(NamedTuple):
    """The mark of a file whose server sends all of it or nothing: it stays as it came, since asking for it
    again would be reading it again."""

    identity: Hashable


def _remote_mark(file: Found, source: ByteSource | None) -> Hashable:
    if file.known is not None:
        return file.known.etag, file.known.size
    assert source is not None
    return _Whole(source.identity) if source.held_size else source.identity


def _local_mark(source: ByteSource) -> object:
    """Equal to none where the file may change again without a trace."""
    return source.identity if is_settled(source) else object()


def _same(source: ByteSource, gate: IoGate | None = None, /) -> ByteSource:
    return source


class _OpenAgain:
    """Opens a local file for a query. `known`: its identity, and whether it would have shown every change
    since then. `read`: what it was read as. In another process, that process's cache of footers serves."""

    __slots__ = ("_cache", "_known", "_options", "_path", "_read")

    def __init__(
        self,
        path: str,
        options: StoreOptions,
        known: tuple[FileIdentity, bool],
        read: tuple[Format, HasBlob | None],
        cache: FooterCache,
    ) -> None:
        self._path = path
        self._options = options
        self._known = known
        self._read = read
        self._cache = cache

    def __reduce__(self) -> tuple[Any, ...]:
        return _opener_elsewhere, (self._path, self._options, self._known, self._read)

    def __call__(self, gate: IoGate | None = None, /) -> ByteSource:
        identity, was_settled = self._known
        source = LocalFile(self._path, self._options.access)
        try:
            _settle(source)
            if was_settled and source.identity == identity:
                return source
            # A new link or new permissions change an inode's times as well, but not what is in the file.
            format, footer = self._read
            if source.identity[:4] == identity[:4] and format.has_footer(source, footer, self._cache):
                return source
        except BaseException:
            source.close()
            raise
        source.close()
        raise changed(self._path)


def _settle(source: LocalFile) -> None:
    """Waits until a file that was written a moment ago rests. Its times move when a write begins: somebody
    may still be at it, and that would never show."""
    for _ in range(_SETTLING_MAX):
        if is_settled(source):
            return
        check()
        time.sleep(SETTLED_NS / 1e9)
        source.look_again()


def _opener_elsewhere(
    path: str,
    options: StoreOptions,
    known: tuple[FileIdentity, bool],
    read: tuple[Format, HasBlob | None],
) -> _OpenAgain:
    return _OpenAgain(path, options, known, read, default_cache())
