"""Fragments of Lance tables, made when a query comes to them.

    fragment → its data files, opened through the query's gate → their ends → footers → the fragment's blob

The manifest says which files there are and which fields each has; the engine finds columns by the fields' ids
(wasm/src/format/lance/fragment.zig draws the blob). Files of a table never change, so what their ends say is
kept for all queries, by what identifies their bytes.
"""

from __future__ import annotations

import struct
import threading
from array import array
from bisect import bisect_right
from collections import OrderedDict
from itertools import accumulate
from typing import overload

from querymode._abi import FileFormat
from querymode._call import claim
from querymode.engine.one_task import on_instance
from querymode.errors import QueryModeError, error
from querymode.format.footer_cache import default_cache
from querymode.store.fetch import IoGate
from querymode.store.local import is_settled
from querymode.store.location import display_name, scheme_of
from querymode.store.open import open_source
from querymode.table.files import Cuts, Deleted, FragmentFile, LateFooter, SomeFragments, TableFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from querymode.engine.instance import Instance
    from querymode.format.footer_cache import FooterCache
    from querymode.format.lance.manifest import DataFile, DeletionFile, Manifest
    from querymode.format.lance.snapshot import Snapshot
    from querymode.store.options import StoreOptions
    from querymode.store.source import ByteSource
    from querymode.table.files import Fragments as Parts

KIND = "lance footer 1"
_ETAG_KIND = "lance etag 1"
_ROWS_KIND = "lance deleted rows 1"
#: What is read of the end of a file on another machine when it is opened.
TAIL_SIZE = 64 << 10
_TAIL_SIZE_MAX = 1 << 30
#: u64 first column metadata, two tables, counts, version, magic.
FOOTER = struct.Struct("<QQQIIHH4s")
_BLOB = struct.Struct("<4sIQIIII")
_PART = struct.Struct("<II")
#: Fragments that stay made: those that a query is at, and some more.
_MADE_MAX = 512
#: Endings of deletion files by kind (`RowList`).
_DELETION_ENDINGS = {1: "arrow", 2: "bin"}
_DELETIONS_SIZE_MAX = 1 << 30


class _Shared:
    """What all fragments of a table have in common."""

    def __init__(self, options: StoreOptions, cache: FooterCache) -> None:
        self.options = options
        self.cache = cache
        #: How much of a remote file's end is worth asking for: what the last one's took.
        self.tail_size = TAIL_SIZE

    def __reduce__(self) -> tuple[Any, ...]:
        return _shared_elsewhere, (self.options,)


def _shared_elsewhere(options: StoreOptions) -> _Shared:
    return _Shared(options, default_cache())


class Fragments:
    """Of one table, or of several side by side, by number."""

    def __init__(
        self,
        snapshots: Sequence[Snapshot],
        places: Sequence[Sequence[bytes]],
        options: StoreOptions,
        cache: FooterCache,
    ) -> None:
        self.snapshots = tuple(snapshots)
        self._places = tuple(map(tuple, places))
        self._shared = _Shared(options, cache)
        self._starts = [
            0,
            *accumulate(snapshot.manifest.fragment_count for snapshot in snapshots),
        ]
        self._made: OrderedDict[int, TableFile] = OrderedDict()
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": OrderedDict(), "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __iter__(self) -> Iterator[TableFile]:
        return map(self.__getitem__, range(len(self)))

    @overload
    def __getitem__(self, number: int, /) -> TableFile: ...
    @overload
    def __getitem__(self, numbers: slice, /) -> Parts: ...
    def __getitem__(self, number: int | slice, /) -> TableFile | Parts:
        if isinstance(number, slice):
            return SomeFragments(self, range(*number.indices(len(self))))
        if not 0 <= number < len(self):
            raise IndexError(number)
        with self._lock:
            found = self._made.pop(number, None) or self._make(number)
            self._made[number] = found
            if len(self._made) > _MADE_MAX:
                self._made.popitem(last=False)
        return found

    def place(self, number: int) -> tuple[Snapshot, int, int]:
        """Whose fragment it is, its number there, and the number of the table."""
        table: int = bisect_right(self._starts, number) - 1
        return self.snapshots[table], number - self._starts[table], table

    def _make(self, number: int) -> TableFile:
        snapshot, fragment, table = self.place(number)
        files = snapshot.manifest.files_of(fragment)
        openers = [_DataFile(snapshot, file, self._shared) for file in files]
        opened = [FragmentFile(opener.name, opener, size=opener.size) for opener in openers]
        footer = _FragmentFooter(snapshot, fragment, files, self._shared)
        return TableFile(opened, footer, self._places[table])


def cuts_of(snapshots: Sequence[Snapshot]) -> Cuts:
    """The pieces of all their fragments."""
    cuts = [snapshot.manifest.cuts() for snapshot in snapshots]
    if len(cuts) == 1:
        return cuts[0]
    counts, firsts = array("q"), array("q", [0])
    for cut in cuts:
        assert cut.firsts is not None
        start = len(counts)
        firsts.extend(start + first for first in cut.firsts[1:])
        counts.extend(cut.row_counts)
    return Cuts(counts, firsts)


class _DataFile:
    """Opens a data file for one query."""

    __slots__ = ("_file", "_path", "_shared", "_title", "name")

    def __init__(self, snapshot: Snapshot, file: DataFile, shared: _Shared) -> None:
        self._path = snapshot.path_of("data", file.path, file.base)
        self.name = display_name(self._path)
        self._file = file
        self._shared = shared
        self._title = snapshot.title

    @property
    def size(self) -> int | None:
        """As far as the manifest is to be believed."""
        return self._file.size if self._file.size and self._file.version >= (0, 3) else None

    def __call__(self, gate: IoGate | None = None, /) -> ByteSource:
        try:
            source = self._open(gate or IoGate())
        except QueryModeError as failure:
            if failure.code != "TABLE_NOT_FOUND":
                raise
            raise error(
                "QUERY_FAILED",
                f"{self.name}, a data file of {self._title}, is not there; the version may have been cleaned "
                "up meanwhile: open the table again",
                table=self.name,
            ) from None
        # Sizes in manifests of the first version were never looked at, and some are wrong.
        if self.size not in (None, source.size):
            size = source.size
            source.close()
            raise error(
                "INVALID_FORMAT",
                f"{self.name} has {size:,} bytes, and {self._title} says {self.size:,}; the file is "
                "damaged or was cut short",
                table=self.name,
            )
        return source

    def _open(self, gate: IoGate) -> ByteSource:
        options, cache = self._shared.options, self._shared.cache
        if scheme_of(self._path) not in ("s3", "s3a"):
            return gate.open(self._path, options, tail_size=self._shared.tail_size)
        key = (self._path, self._file.size)
        etag = cache.find(_ETAG_KIND, key) if self._file.size else None
        if etag:
            from querymode.store.s3 import Listed

            known = Listed(self._path, self._file.size, etag.decode())
            return open_source(self._path, options, known=known)
        source = gate.open(self._path, options, tail_size=self._shared.tail_size)
        identity = source.identity
        if self._file.size and isinstance(identity, tuple) and str(identity[3]).startswith('"'):
            cache.keep(_ETAG_KIND, key, str(identity[3]).encode())
        return source


class _FragmentFooter(LateFooter):
    """What the engine is told of a fragment."""

    def __init__(self, snapshot: Snapshot, fragment: int, files: Sequence[DataFile], shared: _Shared) -> None:
        self._snapshot = snapshot
        self._fragment = fragment
        self._files = tuple(files)
        self._shared = shared
        self._blob: bytes | None = None
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_blob": None, "_lock": None, "tail": (0, b""), "tail_identity": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    @property
    def blob(self) -> bytes:
        assert self._blob is not None, "a footer that nobody has brought"
        return self._blob

    def bring(self, instance: Instance, gate: IoGate, source: Callable[[int], ByteSource]) -> None:
        with self._lock:
            if self._blob is None:
                self._blob = self._composed(instance, gate, source)
                claim(len(self._blob), "what the files of this table say of themselves")

    def _composed(self, instance: Instance, gate: IoGate, source: Callable[[int], ByteSource]) -> bytes:
        footers = [
            self._footer(instance, gate, source(number), keeps_tail=number == 0)
            for number in range(len(self._files))
        ]
        files = list(zip(self._files, footers, strict=True))
        return composed(self._snapshot.manifest, self._fragment, files)

    def _footer(self, instance: Instance, gate: IoGate, source: ByteSource, *, keeps_tail: bool) -> bytes:
        cache = self._shared.cache
        blob = cache.find(KIND, source.identity)
        if blob is not None:
            return blob
        start, tail = read_end(gate, source)
        try:
            blob = flat_footer(instance, tail, source.size)
        except QueryModeError as failure:
            raise located(source.name, failure, start) from None
        if not source.local:
            taken = source.size - start
            self._shared.tail_size = max(TAIL_SIZE, min(taken + taken // 8, 1 << 24))
        if is_settled(source):
            cache.keep(KIND, source.identity, blob)
        if keeps_tail and not source.local and source.tail:
            self.tail = (source.size - len(source.tail), source.tail)
            self.tail_identity = source.identity
            source.tail = b""
        return blob


def composed(manifest: Manifest, fragment: int, files: Sequence[tuple[DataFile, bytes]]) -> bytes:
    """What the engine is told of a fragment. `files`: each with its footer."""
    schema = manifest.schema_records
    rows = manifest.physical_rows(fragment)
    assert rows is not None
    head = _BLOB.pack(b"QMLF", 1, rows, manifest.piece_rows(fragment), len(files), len(schema), 0)
    parts = [head, _padded(schema)]
    for file, footer in files:
        parts += (_PART.pack(len(file.entries) // 8, len(footer)), file.entries, _padded(footer))
    return b"".join(parts)


def read_end(gate: IoGate, source: ByteSource) -> tuple[int, bytes]:
    """A file's end, from the first column's description on, and where that begins."""
    if source.size < FOOTER.size:
        raise error("INVALID_FORMAT", f"{source.name} has {source.size} bytes, too few for a Lance file")
    end = gate.read_tail(source, FOOTER.size)
    start, _, _, _, _, major, minor, magic = FOOTER.unpack(end)
    if magic != b"LANC":
        raise error(
            "INVALID_FORMAT", f"{source.name} does not end like a Lance file; it is damaged or was cut short"
        )
    if (major, minor) <= (0, 2):
        raise error(
            "NOT_SUPPORTED", f"{source.name} is a file of Lance's first version, which is not read yet"
        )
    size = source.size - start
    if not FOOTER.size <= size <= _TAIL_SIZE_MAX:
        raise error(
            "INVALID_FORMAT", f"{source.name} says that its columns are described at {start}, outside of it"
        )
    return start, gate.read_tail(source, size)


def flat_footer(instance: Instance, tail: bytes, file_size: int) -> bytes:
    address = instance.alloc(len(tail))
    instance.write(address, tail)
    output = instance.footer(FileFormat.LANCE, address, len(tail), file_size)
    blob = instance.read(output.address, output.size)
    instance.free(address, len(tail))
    return blob


def located(name: str, failure: QueryModeError, start: int) -> QueryModeError:
    """With the file's name, and the offset in the file."""
    offset = None if failure.offset is None else start + failure.offset
    message = failure.message if failure.code == "INTERNAL" else f"{name}: {failure.message}"
    return error(failure.code, message, table=name, column=failure.column, offset=offset)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


class DeletedRows(Deleted):
    """Of fragments of Lance tables. Lists of them lie in files of their own, which are read when a query
    comes to their fragments."""

    def __init__(self, fragments: Fragments) -> None:
        self._fragments = fragments
        self.row_count = _deleted_count(fragments.snapshots)
        self._bitmaps: OrderedDict[int, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_bitmaps": OrderedDict(), "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def bitmap(self, fragment: int, gate: IoGate, /) -> bytes:
        snapshot, number, _ = self._fragments.place(fragment)
        file = snapshot.manifest.deletion_file(number)
        if file is None:
            return b""
        with self._lock:
            found = self._bitmaps.pop(fragment, None)
        if found is None:  # two threads may both read it
            found = self._read(snapshot, number, file, gate)
        with self._lock:
            self._bitmaps[fragment] = found
            if len(self._bitmaps) > _MADE_MAX:
                self._bitmaps.popitem(last=False)
        return found

    def _read(self, snapshot: Snapshot, fragment: int, file: DeletionFile, gate: IoGate) -> bytes:
        name = f"{file.fragment_id}-{file.read_version}-{file.id}.{_DELETION_ENDINGS[file.kind]}"
        path = snapshot.path_of("_deletions", name, file.base)
        rows = snapshot.manifest.physical_rows(fragment)
        expected = snapshot.manifest.deleted_rows(fragment)
        assert rows is not None
        shared = self._fragments._shared
        # Their names are made at random, once for each file.
        key = (path, rows, expected)
        bits = shared.cache.find(_ROWS_KIND, key)
        if bits is None:
            bits = self._bits(snapshot, path, file, (rows, expected), gate)
            shared.cache.keep(_ROWS_KIND, key, bits)
        return bits

    def _bits(
        self, snapshot: Snapshot, path: str, file: DeletionFile, counts: tuple[int, int | None], gate: IoGate
    ) -> bytes:
        rows, expected = counts
        shown = display_name(path)
        try:
            source = gate.open(path, self._fragments._shared.options, tail_size=TAIL_SIZE)
        except QueryModeError as failure:
            if failure.code != "TABLE_NOT_FOUND":
                raise
            raise error(
                "QUERY_FAILED",
                f"{shown}, the deleted rows of a fragment of {snapshot.title}, is not there; the version may "
                "have been cleaned up meanwhile: open the table again",
                table=shown,
            ) from None
        with source:
            if source.size > _DELETIONS_SIZE_MAX:
                raise error("NOT_SUPPORTED", f"{shown} has {source.size:,} bytes; no more than 1 GiB is read")
            data = gate.read_tail(source, source.size)
        try:
            bits, count = on_instance(lambda instance: _row_bits(instance, file.kind, data, rows))
        except QueryModeError as failure:
            raise located(shown, failure, 0) from None
        if expected is not None and count != expected:
            raise error(
                "INVALID_FORMAT",
                f"{shown} lists {count:,} deleted rows, and {snapshot.title} says that it is {expected:,}",
                table=shown,
            )
        claim(len(bits), "which rows of this table were deleted")
        return bits


def _row_bits(instance: Instance, kind: int, data: bytes, rows: int) -> tuple[bytes, int]:
    address = instance.alloc(max(len(data), 1))
    instance.write(address, data)
    output = instance.deletions(FileFormat.LANCE, kind, address, len(data), rows)
    bits = instance.read(output.address, output.size) if output.size else b""
    instance.free(address, max(len(data), 1))
    return bits, output.row_count


def _deleted_count(snapshots: Sequence[Snapshot]) -> int | None:
    if any(snapshot.manifest.rows_unknown for snapshot in snapshots):
        return None
    counts: list[int] = [snapshot.manifest.deleted_count for snapshot in snapshots]
    return sum(counts)
