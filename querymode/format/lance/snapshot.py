"""One version of a Lance table: its manifest, brought and kept, and where its files lie."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from functools import partial

from querymode._abi import FileFormat, ManifestPart
from querymode._call import claim, current
from querymode.engine.one_task import engine_share, on_instance
from querymode.errors import QueryModeError, error
from querymode.format.footer_cache import DISK
from querymode.format.lance.manifest import KIND, Index, Manifest, Transaction
from querymode.store.local import is_settled
from querymode.store.location import display_name, scheme_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from querymode.engine.instance import Instance
    from querymode.format.format import Opening
    from querymode.format.lance.versions import Version
    from querymode.store.source import ByteSource

#: Where the manifest begins (u64), a version that nobody needs (2 × u16), the magic.
_END = struct.Struct("<Q4s4s")
_MAGIC = b"LANC"
#: Manifests up to this size are read as a whole, with all that stands before them.
_WHOLE_SIZE = 256 << 10
_MANIFEST_SIZE_MAX = 1 << 30
#: Smaller ones of local files are read and flattened as fast as an entry of ours is found and checked.
_DISK_WORTH = 16 << 10
#: The key of a table's metadata that says which transaction dropped it.
_DROPPED = "querymode.dropped"
#: What transactions do, by the numbers of their fields.
_OPERATIONS = {
    100: "append",
    101: "delete",
    102: "overwrite",
    103: "create index",
    104: "rewrite",
    105: "merge",
    106: "restore",
    107: "reserve fragments",
    108: "update",
    109: "project",
    110: "update config",
    111: "data replacement",
    113: "clone",
}


class Snapshot:
    """A version. It travels: nothing in it is of this process."""

    __slots__ = ("folder", "manifest", "manifest_path", "number")

    def __init__(self, folder: str, number: int, manifest_path: str, manifest: Manifest) -> None:
        #: The table's, with a slash behind it.
        self.folder = folder
        self.number = number
        self.manifest_path = manifest_path
        self.manifest = manifest

    def __reduce__(self) -> tuple[object, ...]:
        return Snapshot, (self.folder, self.number, self.manifest_path, self.manifest)

    @property
    def title(self) -> str:
        return f"version {self.number} of {display_name(self.folder.rstrip('/'))}"

    def path_of(self, kind: str, name: str, base: int | None) -> str:
        """Where a file lies. `kind`: the folder of a table for such files, as in `data/x.lance`."""
        # A name that leads elsewhere would be somebody else's file.
        if name.startswith("/") or "\\" in name or not {"", ".", ".."}.isdisjoint(name.split("/")):
            raise error(
                "INVALID_FORMAT", f"{self.title} has a file of the name {name!r}, which leads elsewhere"
            )
        if base is None:
            return f"{self.folder}{kind}/{name}"
        found = self.manifest.bases().get(base)
        if found is None:
            raise error(
                "INVALID_FORMAT", f"{self.title} has files below base path {base}, which it does not name"
            )
        root = _located(found.path, self.folder)
        return f"{root}/{kind}/{name}" if found.is_root else f"{root}/{name}"


def _located(base: str, folder: str) -> str:
    """Where a base path of a manifest leads. pylance writes absolute paths without a scheme, or URLs."""
    if scheme_of(base) or base.startswith("/"):
        # In a table of an object store a path names an object of the same store only with its scheme.
        if not scheme_of(base) and scheme_of(folder) not in ("", "file"):
            raise error(
                "NOT_SUPPORTED",
                f"{display_name(folder)} has files in {base}, a path of some machine; it is not this one",
            )
        return base.rstrip("/")
    raise error("INVALID_FORMAT", f"{display_name(folder)} has a base path {base!r}, which is not absolute")


# ---- bringing it ----


def load(opening: Opening, folder: str, version: Version) -> tuple[Snapshot, object]:
    """The snapshot, and what identifies its manifest's bytes."""
    source = opening.open(version.file)
    with source:
        try:
            blob = _blob(opening, source)
        except QueryModeError as failure:
            raise _named(failure, source.name, version.number) from None
        snapshot = Snapshot(folder, version.number, version.file.path, Manifest(blob))
        if _is_dropped(opening, source, snapshot.manifest):
            raise error(
                "TABLE_NOT_FOUND", f"{display_name(folder)} was dropped, by its version {version.number}"
            )
        return snapshot, source.identity


def _named(failure: QueryModeError, name: str, number: int) -> QueryModeError:
    if failure.code not in ("INVALID_FORMAT", "NOT_SUPPORTED"):
        return failure
    return error(
        failure.code,
        f"{name}, the manifest of version {number}: {failure.message}",
        table=name,
        column=failure.column,
    )


def _blob(opening: Opening, source: ByteSource) -> bytes:
    cache = opening.cache
    blob = cache.find(KIND, source.identity)
    if blob is not None:
        return blob
    with DISK.opened() as disk:
        worth = not source.local or source.size > _DISK_WORTH
        blob = cache.find_on_disk(KIND, source.identity, disk) if worth else None
        if blob is None or not _is_whole(blob):
            blob = _flattened(opening, source)
            if worth and is_settled(source):
                cache.keep_on_disk(KIND, source.identity, blob, disk)
    if is_settled(source):
        cache.keep(KIND, source.identity, blob)
    return blob


def _is_whole(blob: bytes) -> bool:
    """An entry that another build of us wrote may have another layout."""
    try:
        Manifest(blob)
    except (QueryModeError, LookupError, ValueError):
        return False
    return True


def _flattened(opening: Opening, source: ByteSource) -> bytes:
    end = _tail(opening, source)
    if len(end) < _END.size or source.size < _END.size + 4:
        raise error("INVALID_FORMAT", f"it has {source.size} bytes, too few for a manifest")
    position, _, magic = _END.unpack_from(end, len(end) - _END.size)
    if magic != _MAGIC or position > source.size - _END.size - 4:
        raise error("INVALID_FORMAT", "it does not end like a manifest; it is damaged or was cut short")
    return _part(opening, source, ManifestPart.MANIFEST, position, source.size - _END.size - position)


def _tail(opening: Opening, source: ByteSource) -> bytes:
    if not source.local and source.size <= _WHOLE_SIZE and len(source.tail) < source.size:
        source.tail = opening.gate.read(source, 0, source.size)
    return opening.gate.read_tail(source, _END.size)


def _part(opening: Opening, source: ByteSource, part: ManifestPart, position: int, size: int) -> bytes:
    """What the engine makes of bytes of a manifest's file."""
    share = engine_share(current())
    if size > min(_MANIFEST_SIZE_MAX, share // 2):
        raise error(
            "MEMORY_EXCEEDED",
            f"{source.name} has {size:,} bytes to be read at once, which takes more than the {share:,} bytes "
            "that memory= leaves; raise it",
        )
    held = len(source.tail) - (source.size - position)
    data = source.tail[held : held + size] if held >= 0 else opening.gate.read(source, position, size)
    blob = on_instance(partial(_asked, part=part, data=data))
    claim(len(blob), "what the manifest of this table says")
    return blob


def _asked(instance: Instance, part: ManifestPart, data: bytes) -> bytes:
    address = instance.alloc(max(len(data), 1))
    instance.write(address, data)
    output = instance.manifest(FileFormat.LANCE, part, address, len(data))
    blob = instance.read(output.address, output.size)
    instance.free(address, max(len(data), 1))
    return blob


# ---- what else its file holds ----


def _section(
    opening: Opening, source: ByteSource, part: ManifestPart, position: int, others: list[int | None]
) -> bytes:
    """A section that begins there, and ends where another one begins, or before."""
    behind = [other for other in others if other is not None and other > position]
    end = min(behind, default=source.size - _END.size)
    if not position < end <= source.size:
        raise error(
            "INVALID_FORMAT", f"{source.name} has a section at {position}, outside of its {source.size} bytes"
        )
    return _part(opening, source, part, position, end - position)


def transaction(opening: Opening, source: ByteSource, manifest: Manifest) -> Transaction | None:
    """What made the version, where the manifest itself says so."""
    if manifest.transaction_section is None:
        return None
    position = manifest.transaction_section
    return Transaction.parse(
        _section(
            opening,
            source,
            ManifestPart.TRANSACTION,
            position,
            [_body(opening, source), manifest.index_section],
        )
    )


def indices(opening: Opening, source: ByteSource, manifest: Manifest) -> list[Index]:
    if manifest.index_section is None:
        return []
    position = manifest.index_section
    return Index.parse_all(
        _section(
            opening,
            source,
            ManifestPart.INDICES,
            position,
            [_body(opening, source), manifest.transaction_section],
        )
    )


def _body(opening: Opening, source: ByteSource) -> int:
    position: int = _END.unpack(opening.gate.read_tail(source, _END.size))[0]
    return position


def _is_dropped(opening: Opening, source: ByteSource, manifest: Manifest) -> bool:
    """Every commit carries the key on, so it counts only where the version's own transaction set it."""
    if manifest.fragment_count:
        return False
    dropped = manifest.table_metadata.get(_DROPPED)
    if dropped is None:
        return False
    made = transaction(opening, source, manifest)
    # Without the transaction its file's name tells: <read version>-<uuid>.txn
    uuid = made.uuid if made else manifest.transaction_file.partition("-")[2].removesuffix(".txn")
    return bool(uuid) and dropped == uuid.encode()


def described(opening: Opening, version: Version) -> dict[str, Any]:
    """A version as plain values. What is None is not known, as of a version with features that are not."""
    found: dict[str, Any] = dict.fromkeys(
        ("timestamp", "rows", "fragments", "data_version", "writer", "operation", "read_version")
    )
    found = {"version": version.number, **found}
    source = opening.open(version.file)
    with source:
        try:
            manifest = Manifest(_blob(opening, source))
            made = transaction(opening, source, manifest)
        except QueryModeError as failure:
            if failure.code != "NOT_SUPPORTED":
                raise _named(failure, source.name, version.number) from None
            return found
    if manifest.timestamp_ns:
        found["timestamp"] = datetime.fromtimestamp(manifest.timestamp_ns / 1e9, UTC)
    found["rows"] = None if manifest.rows_unknown else manifest.row_count
    found["fragments"] = manifest.fragment_count
    found["data_version"] = manifest.data_version or "0.1"
    found["writer"] = manifest.writer or None
    if made is not None:
        found["operation"] = _OPERATIONS.get(made.operation, "other")
        found["read_version"] = made.read_version
    return found
