"""Lance files that are tables alone, by what they say of themselves: their schema and rows stand in the first
global buffer, before the descriptions of columns."""

from __future__ import annotations

import struct
from array import array
from functools import partial

from querymode._abi import FileFormat, ManifestPart
from querymode._call import check
from querymode.engine.one_task import on_instance
from querymode.errors import QueryModeError, error
from querymode.format.format import Member
from querymode.format.lance.fragments import FOOTER, KIND, composed, flat_footer, located, read_end
from querymode.format.lance.manifest import Manifest
from querymode.store.fetch import IoGate
from querymode.store.local import is_settled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from querymode.engine.instance import Instance
    from querymode.format.footer_cache import FooterCache
    from querymode.format.format import Found, HasBlob, Opening
    from querymode.store.source import ByteSource
    from querymode.types import DataType

    Saw = Callable[[bytes, bytes], None]

_MANIFEST_KIND = "lance data file 1"
_BUFFER = struct.Struct("<QQ")
_HEAD = struct.Struct("<HHIQI")
_DESCRIPTOR_SIZE_MAX = 256 << 20


class SingleFooter:
    """What the engine is told of a file."""

    __slots__ = ("blob", "fields", "tail", "tail_identity")

    def __init__(self, blob: bytes, fields: tuple[tuple[str, DataType], ...]) -> None:
        self.blob = blob
        self.fields = fields
        self.tail: tuple[int, bytes] = (0, b"")
        self.tail_identity: object = None


def load(
    opening: Opening, found: Sequence[Found]
) -> tuple[list[Member], list[SingleFooter], list[Sequence[int]]]:
    """Files, their footers, and the rows of their pieces."""
    members: list[Member] = []
    footers: list[SingleFooter] = []
    cuts: list[Sequence[int]] = []
    for batch in opening.batches(found):
        for file, source in batch:
            check()
            footer, rows = footer_of(source, opening.gate, opening.cache, opening.saw)
            members.append(Member(opening.fragment_file(file, source, footer), file.folders, footer))
            footers.append(footer)
            cuts.append(rows)
    return members, footers, cuts


def is_described_by(source: ByteSource, footer: HasBlob, cache: FooterCache) -> bool:
    """Whether a file, though it was touched, says of itself what it said."""
    return footer_of(source, IoGate(), cache)[0].blob == footer.blob


def footer_of(
    source: ByteSource, gate: IoGate, cache: FooterCache, saw: Saw | None = None
) -> tuple[SingleFooter, Sequence[int]]:
    flat = cache.find(_MANIFEST_KIND, source.identity)
    footer = cache.find(KIND, source.identity)
    if flat is None or footer is None:
        flat, footer = _read(source, gate, saw)
        if is_settled(source):
            cache.keep(_MANIFEST_KIND, source.identity, flat)
            cache.keep(KIND, source.identity, footer)
    manifest = Manifest(flat)
    blob = composed(manifest, 0, [(manifest.files_of(0)[0], footer)])
    rows: array[int] = manifest.cuts().row_counts
    return SingleFooter(blob, manifest.fields), rows


def _read(source: ByteSource, gate: IoGate, saw: Saw | None) -> tuple[bytes, bytes]:
    if saw is not None:
        _see(source, gate, saw)
    start, tail = read_end(gate, source)
    _, _, buffers, buffer_count, column_count, major, minor, _ = FOOTER.unpack_from(
        tail, len(tail) - FOOTER.size
    )
    if not buffer_count or not start <= buffers <= source.size - _BUFFER.size:
        raise error("INVALID_FORMAT", f"{source.name} does not say which columns it has")
    position, size = _BUFFER.unpack_from(tail, buffers - start)
    if size > _DESCRIPTOR_SIZE_MAX:
        raise error("NOT_SUPPORTED", f"{source.name} has a schema of {size:,} bytes")
    held = len(source.tail) - (source.size - position)
    data = source.tail[held : held + size] if held >= 0 else gate.read(source, position, size)
    head = _HEAD.pack(major, minor, column_count, source.size, size)
    try:
        return on_instance(partial(_flatten, data=head + data, tail=tail, file_size=source.size))
    except QueryModeError as failure:
        raise located(source.name, failure, start) from None


def _see(source: ByteSource, gate: IoGate, saw: Saw) -> None:
    """A name says Lance, and the file may be something else."""
    size = min(source.size, 64)
    tail = gate.read_tail(source, size)
    if tail[-4:] != b"LANC":
        saw(gate.read(source, 0, size), tail)


def _flatten(instance: Instance, data: bytes, tail: bytes, file_size: int) -> tuple[bytes, bytes]:
    address = instance.alloc(len(data))
    instance.write(address, data)
    output = instance.manifest(FileFormat.LANCE, ManifestPart.DATA_FILE, address, len(data))
    flat = instance.read(output.address, output.size)
    instance.free(address, len(data))
    return flat, flat_footer(instance, tail, file_size)
