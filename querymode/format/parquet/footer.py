"""Footers of Parquet files: in memory, else on disk, else from the file itself by way of the engine.

    source → identity → memory ─┬→ FlatFooter
                          disk ─┤
             tail → engine → blob

What is cached is the flat footer (flat_footer.py), under the source's identity (format/footer_cache.py).
"""

from __future__ import annotations

from functools import partial

from querymode._abi import FOOTER_VERSION, FileFormat
from querymode._call import check, claim, current
from querymode.engine.one_task import engine_share, on_instance
from querymode.errors import QueryModeError, error
from querymode.format.footer_cache import DISK, default_cache
from querymode.format.format import Format
from querymode.format.parquet.flat_footer import FlatFooter
from querymode.store.fetch import IoGate, read_many
from querymode.store.local import is_settled
from querymode.store.vip_cache import VipCache
from querymode.types import PLAIN_TYPES, decode_name, decode_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from querymode.engine.instance import Instance
    from querymode.format.footer_cache import FooterCache
    from querymode.store.private_cache import OpenedCache
    from querymode.store.source import ByteSource
    from querymode.types import DataType

    Fields = tuple[tuple[str, DataType], ...]
    #: Takes how a file begins and ends.
    Saw = Callable[[bytes, bytes], None]

KIB = 1 << 10
MIB = 1 << 20

TAIL_SIZE = Format.tail_size
#: As the cache of footers knows it.
KIND = str(FOOTER_VERSION)
#: Behind the footer: its size (u32) and the magic.
_END_SIZE = 8
#: "PAR1", an empty footer and what follows it: nothing is shorter.
_FILE_SIZE_MIN = 12
#: Larger ones would not fit an engine's memory together with what they become.
_FOOTER_SIZE_MAX = 1 << 30

#: Large files have large indexes before their footers: reading more at once spares a request or two.
LARGE_FILE = 64 * MIB
LARGE_TAIL_SIZE = 2 * TAIL_SIZE
#: Tables of more files than this do not hold on to what was read besides the footers.
TAILS_KEPT = 16

#: Sources whose footers are looked for together, and bytes of footers that are held for the engine.
_BATCH_COUNT = 256
_BATCH_SIZE = 64 * MIB

#: Smaller footers of local files are read and flattened as fast as a file of ours is found and checked.
DISK_WORTH = 16 * KIB


def load(
    sources: Sequence[ByteSource],
    *,
    gate: IoGate | None = None,
    cache: FooterCache | None = None,
    limit: int | None = None,
    saw: Saw | None = None,
) -> list[FlatFooter]:
    """The footers of open sources, in their order. INVALID_FORMAT names the source that has none.

    `limit`: bytes of memory for the engine; what the call may have if not given. `saw`: is told how a
    file begins and ends that is not Parquet, and may know what to do with it; if not, another format is
    NOT_SUPPORTED. Without it these have to be Parquet files, and another format is a fault of the file.
    """
    gate = gate or IoGate()
    cache = cache or default_cache()
    footers: list[FlatFooter] = []
    for start in range(0, len(sources), _BATCH_COUNT):
        batch = _Batch(sources[start : start + _BATCH_COUNT], gate, cache, limit)
        footers += batch.load(saw)
    return footers


def _tail_size(source: ByteSource) -> int:
    return TAIL_SIZE if source.size < LARGE_FILE else LARGE_TAIL_SIZE


class _Pending:
    """A source whose footer has to be read."""

    __slots__ = ("footer_size", "front", "index", "source", "tail")

    def __init__(self, index: int, source: ByteSource, tail: bytes) -> None:
        self.index = index
        self.source = source
        self.tail = tail
        self.footer_size = 0
        #: Bytes of the footer before the tail, if they have been read.
        self.front = b""

    @property
    def front_size(self) -> int:
        return max(0, self.footer_size + _END_SIZE - len(self.tail))

    @property
    def offset(self) -> int:
        return self.source.size - _END_SIZE - self.footer_size

    @property
    def in_tail(self) -> bytes:
        """What the tail holds of the footer."""
        start = max(0, len(self.tail) - _END_SIZE - self.footer_size)
        return self.tail[start : len(self.tail) - _END_SIZE]


class _Batch:
    def __init__(
        self, sources: Sequence[ByteSource], gate: IoGate, cache: FooterCache, limit: int | None
    ) -> None:
        self.sources = sources
        self.gate = gate
        self.cache = cache
        self.limit = limit
        self.footers: list[FlatFooter | None] = [None] * len(sources)

    def load(self, saw: Saw | None) -> list[FlatFooter]:
        missing = [index for index in range(len(self.sources)) if not self._find_in_memory(index)]
        if missing:
            with DISK.opened() as disk:
                self._load_missing(missing, disk, saw)
        assert None not in self.footers
        return self.footers  # type: ignore[return-value]

    def _load_missing(self, missing: list[int], disk: OpenedCache, saw: Saw | None) -> None:
        # Of another machine's file an entry is cheaper than the tail; of a local one only if it is large.
        missing = [
            index for index in missing if self.sources[index].local or not self._find_on_disk(index, disk)
        ]
        pending = self._read_tails(missing)
        for item in pending:
            item.footer_size = _footer_size(item.source, item.tail, self.gate, saw)
            _refuse_large(item.source, item.footer_size)
            self.cache.note_end_size(item.source, item.footer_size + _END_SIZE, TAIL_SIZE)
        pending = [item for item in pending if not self._find_large_on_disk(item, disk)]
        for group in _groups(pending):
            check()
            self._read_fronts(group)
            blobs = on_instance(partial(_flatten, group=group, gate=self.gate), self.limit)
            for item, blob in zip(group, blobs, strict=True):
                self._keep(item, blob, disk)

    def _find_in_memory(self, index: int) -> bool:
        blob = self.cache.find(KIND, self.sources[index].identity)
        if blob is not None:
            self.footers[index] = _flat(blob)
        return blob is not None

    def _find_on_disk(self, index: int, disk: OpenedCache) -> bool:
        source = self.sources[index]
        blob = self.cache.find_on_disk(KIND, source.identity, disk)
        if blob is None:
            return False
        try:
            self.footers[index] = _flat(blob)
        except (QueryModeError, LookupError, ValueError):  # an engine with another idea of it wrote it
            return False
        self.cache.keep(KIND, source.identity, blob)
        return True

    def _find_large_on_disk(self, item: _Pending, disk: OpenedCache) -> bool:
        return item.source.local and item.footer_size > DISK_WORTH and self._find_on_disk(item.index, disk)

    def _read_tails(self, indices: list[int]) -> list[_Pending]:
        sources = [self.sources[index] for index in indices]
        sizes = [
            len(source.tail) or min(source.size, self.cache.tail_size(source.name, _tail_size(source)))
            for source in sources
        ]
        tails = read_many(
            self.gate,
            [(source, source.size - size, size) for source, size in zip(sources, sizes, strict=True)],
        )
        return [_Pending(*fields) for fields in zip(indices, sources, tails, strict=True)]

    def _read_fronts(self, group: list[_Pending]) -> None:
        """What the tails lack. Local files are read straight into the engine's memory instead."""
        short = [item for item in group if item.front_size and not item.source.local]
        fronts = read_many(self.gate, [(item.source, item.offset, item.front_size) for item in short])
        for item, front in zip(short, fronts, strict=True):
            item.front = front

    def _keep(self, item: _Pending, blob: bytes, disk: OpenedCache) -> None:
        claim(len(blob), "what the footers of these files say")
        footer = self.footers[item.index] = _flat(blob)
        source = item.source
        if not is_settled(source):
            return
        if len(self.sources) <= TAILS_KEPT:
            footer.tail = (source.size - len(item.tail), item.tail[: -item.footer_size - _END_SIZE])
            footer.tail_identity = source.identity
        self.cache.keep(KIND, source.identity, blob)
        if item.footer_size > DISK_WORTH or not source.local:
            self.cache.keep_on_disk(KIND, source.identity, blob, disk)


def _refuse_large(source: ByteSource, footer_size: int) -> None:
    """Before memory is taken for it. What it becomes has to fit beside it."""
    share = engine_share(current())
    if footer_size > share // 2:
        raise error(
            "MEMORY_EXCEEDED",
            f"{source.name} has a footer of {footer_size:,} bytes, which takes more than the {share:,} bytes "
            "that memory= leaves; raise it",
        )


def _groups(pending: list[_Pending]) -> Iterator[list[_Pending]]:
    """Runs whose footers fit in memory together."""
    group: list[_Pending] = []
    size = 0
    size_max = min(_BATCH_SIZE, engine_share(current()) // 4)
    for item in pending:
        if group and size + item.footer_size > size_max:
            yield group
            group, size = [], 0
        group.append(item)
        size += item.footer_size
    if group:
        yield group


# ---- the engine's part ----


def _flatten(instance: Instance, group: list[_Pending], gate: IoGate) -> list[bytes]:
    """Raw footers to flat ones, all in one visit: a change of threads costs as much as ten of them."""
    size = max(item.footer_size for item in group)
    address = instance.alloc(max(size, 1))
    blobs = []
    for item in group:
        _place(instance, address, item, gate)
        try:
            output = instance.footer(FileFormat.PARQUET, address, item.footer_size, item.source.size)
        except QueryModeError as failure:
            raise _located(item, failure) from None
        blobs.append(instance.read(output.address, output.size))
    instance.free(address, max(size, 1))
    return blobs


def _place(instance: Instance, address: int, item: _Pending, gate: IoGate) -> None:
    front_size = item.front_size
    instance.write(address + front_size, item.in_tail)
    if item.front:
        instance.write(address, item.front)
    elif front_size:
        gate.submit(item.source, [(item.offset, instance.view(address, front_size))]).wait()


def _located(item: _Pending, failure: QueryModeError) -> QueryModeError:
    """With the file's name, and the offset in the file instead of the one in its footer."""
    offset = None if failure.offset is None else item.offset + failure.offset
    message = failure.message if failure.code == "INTERNAL" else f"{item.source.name}: {failure.message}"
    return error(failure.code, message, column=failure.column, offset=offset)


#: Files of one table mostly have the same columns: decoded once, kept once.
_fields: VipCache[Fields] = VipCache(16 * MIB, 1024)


def _flat(blob: bytes) -> FlatFooter:
    footer = FlatFooter(blob)
    columns = footer.column_bytes
    fields = _fields.get(columns)
    if fields is None:
        fields = _decode_fields(columns)
        _fields.put(columns, fields, 2 * len(columns) + 256 * footer.column_count)
    footer._fields = fields
    return footer


def _decode_fields(columns: bytes) -> Fields:
    """What `FlatFooter.fields` decodes, with a short way for plain types: thousands of columns are common."""
    fields = []
    position, size = 0, len(columns)
    while position < size:
        end = position + 2 + int.from_bytes(columns[position : position + 2], "little")
        data_type = PLAIN_TYPES.get(columns[end])  # type: ignore[call-overload]
        if data_type is None:
            name, _ = decode_name(columns, position)
            data_type, position = decode_type(columns, end)
        else:
            name, position = columns[position + 2 : end].decode(), end + 1
        fields.append((name, data_type))
    return tuple(fields)


# ---- is it Parquet at all? ----


def _footer_size(source: ByteSource, tail: bytes, gate: IoGate, saw: Saw | None) -> int:
    """The size of the footer, from the last bytes of a file that ends like a Parquet file."""
    if tail[-4:] != b"PAR1" or source.size < _FILE_SIZE_MIN:
        raise _not_parquet(source, tail, gate, saw)
    size = int.from_bytes(tail[-8:-4], "little")
    if size + _FILE_SIZE_MIN > source.size:
        raise error(
            "INVALID_FORMAT",
            f"{source.name} has {source.size} bytes, but says that {size} of them are its footer; the file "
            "is damaged or was cut short",
            offset=source.size - _END_SIZE,
        )
    if size > _FOOTER_SIZE_MAX:
        raise error(
            "NOT_SUPPORTED", f"{source.name} has a footer of {size} bytes; no more than 1 GiB is read"
        )
    return size


def _not_parquet(source: ByteSource, tail: bytes, gate: IoGate, saw: Saw | None) -> QueryModeError:
    if source.size == 0:
        return error(
            "INVALID_FORMAT",
            f"{source.name} is empty, so it is no Parquet file; write it again, or leave it out",
        )
    if tail[-4:] == b"PARE":
        return error("NOT_SUPPORTED", f"{source.name}: the file is encrypted; write it without encryption")
    (head,) = (
        read_many(gate, [(source, 0, min(source.size, 64))]) if source.size > len(tail) else (tail[:64],)
    )
    if saw is not None:
        saw(head, tail)
    other, what = _looks_like(head, tail)
    if other and saw is not None:
        return error(
            "NOT_SUPPORTED",
            f"{source.name} looks like {what}, not Parquet; give format= if it is CSV or NDJSON",
        )
    return error(
        "INVALID_FORMAT", f"{source.name} is no Parquet file: it looks like {what}; write it again", offset=0
    )


_HEADS = (
    (b"ARROW1", "an Arrow file"),
    (b"Obj\x01", "an Avro file"),
    (b"ORC", "an ORC file"),
    (b"\x1f\x8b", "something compressed with gzip"),
    (b"\x28\xb5\x2f\xfd", "something compressed with zstd"),
    (b"BZh", "something compressed with bzip2"),
    (b"PK\x03\x04", "a zip archive"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\x89HDF", "an HDF5 file"),
)


def _looks_like(head: bytes, tail: bytes) -> tuple[bool, str]:
    """Whether it is some other format, and which."""
    if tail[-4:] == b"LANC":
        return True, "a Lance file"
    for magic, name in _HEADS:
        if head.startswith(magic):
            return True, name
    if head[8:12] == b"DUCK":
        return True, "a DuckDB database"
    if head.startswith(b"PAR1"):
        return False, "the beginning of one whose end is missing"
    if not head.strip(b"\0"):
        return False, "a file of zeros that was never filled"
    start = head.lstrip()[:1]
    if _is_text(head):
        return True, "JSON" if start in (b"{", b"[") else "text, such as CSV"
    return False, "something else that begins with " + head[:8].hex(" ")


def _is_text(head: bytes) -> bool:
    try:
        text = head.decode()
    except UnicodeDecodeError as failure:
        if failure.start < len(head) - 3:  # more than a letter cut in two
            return False
        text = head[: failure.start].decode()
    return all(letter.isprintable() or letter in "\r\n\t\ufeff" for letter in text)
