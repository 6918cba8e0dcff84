"""The flat manifest of a Lance table, read in place.

The engine makes the blob and draws its layout in wasm/src/format/lance/manifest.zig. A table may have a
hundred thousand fragments: the constructor reads the header, arrays are views of the blob, and nothing here
walks them.
"""

from __future__ import annotations

import struct
from array import array
from enum import IntEnum
from typing import NamedTuple

from querymode.errors import error
from querymode.types import decode_name, decode_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from querymode.errors import QueryModeError
    from querymode.table.files import Cuts
    from querymode.types import DataType

    Fields = tuple[tuple[str, DataType], ...]

#: Of what caches keep; a part of it is the layout's version.
KIND = "lance manifest 1"
_UNKNOWN = (1 << 64) - 1
_NO_BASE = (1 << 32) - 1


class Section(IntEnum):
    """In their order."""

    SCHEMA = 0
    COLUMNS = 1
    FRAGMENT_ID = 2
    PHYSICAL_ROWS = 3
    DELETED_ROWS = 4
    PIECE_ROWS = 5
    FIRST_PIECE = 6
    PIECE_COUNTS = 7
    FIRST_FILE = 8
    DELETION_KIND = 9
    DELETION_VERSION = 10
    DELETION_ID = 11
    DELETION_BASE = 12
    ROW_IDS = 13
    FILE_PATH = 14
    FILE_SIZE = 15
    FILE_BASE = 16
    FILE_VERSION = 17
    FILE_LIST = 18
    LIST_FIRST = 19
    LIST_ENTRIES = 20
    BASES = 21
    CONFIG = 22
    TABLE_METADATA = 23
    SCHEMA_METADATA = 24
    TEXTS = 25
    POOL = 26


#: What the entries of arrays are, as `memoryview.cast` calls it.
_CODES = {
    Section.FRAGMENT_ID: "Q",
    Section.PHYSICAL_ROWS: "Q",
    Section.DELETED_ROWS: "Q",
    Section.PIECE_ROWS: "I",
    Section.FIRST_FILE: "I",
    Section.DELETION_KIND: "B",
    Section.DELETION_VERSION: "Q",
    Section.DELETION_ID: "Q",
    Section.DELETION_BASE: "I",
    Section.FILE_SIZE: "Q",
    Section.FILE_BASE: "I",
    Section.FILE_VERSION: "I",
    Section.FILE_LIST: "I",
    Section.LIST_FIRST: "I",
}
_HEADER = struct.Struct(f"<4sI10Q5I{2 * len(Section)}I")


class DataFile(NamedTuple):
    """A file of a fragment. `size`: 0 where the manifest does not say. `base`: which of the manifest's base
    paths it lies below; None for the table's own folder. `entries`: (field id, column) of each field, as the
    engine reads them."""

    path: str
    size: int
    base: int | None
    version: tuple[int, int]
    entries: bytes


class DeletionFile(NamedTuple):
    """`kind`: `RowList`."""

    kind: int
    fragment_id: int
    read_version: int
    id: int
    base: int | None


class Base(NamedTuple):
    """Where files lie that are not in the table's own folder."""

    path: str
    is_root: bool


class Manifest:
    """One version of a table. `blob` is kept, not copied."""

    __slots__ = (
        "_fields",
        "_sections",
        "_views",
        "blob",
        "column_count",
        "deleted_count",
        "file_count",
        "fragment_count",
        "index_section",
        "is_legacy",
        "max_fragment_id",
        "next_row_id",
        "reader_flags",
        "rows_unknown",
        "stored_count",
        "timestamp_ns",
        "transaction_section",
        "version",
        "writer_flags",
    )

    #: Rows that files have, and how many of them were deleted.
    stored_count: int
    deleted_count: int
    fragment_count: int

    def __reduce__(self) -> tuple[type[Manifest], tuple[bytes]]:
        return Manifest, (self.blob,)

    def __init__(self, blob: bytes) -> None:
        self.blob = blob
        if len(blob) < _HEADER.size:
            raise _damaged("it is too short")
        magic, layout, *numbers = _HEADER.unpack_from(blob)
        if magic != b"QMLM" or layout != 1:
            raise _damaged("it does not begin like one")
        self.version, self.reader_flags, self.writer_flags, self.timestamp_ns = numbers[:4]
        self.max_fragment_id = _known(numbers[4])
        self.next_row_id = numbers[5]
        #: Where they begin in the file.
        self.index_section = _known(numbers[6])
        self.transaction_section = _known(numbers[7])
        self.stored_count, self.deleted_count = numbers[8:10]
        self.fragment_count, self.file_count, self.column_count = numbers[10:13]
        #: Some fragment does not say how many rows it has, or lost.
        self.rows_unknown, self.is_legacy = bool(numbers[13]), bool(numbers[14])
        self._sections = numbers[15:]
        if any(sum(self._span(section)) > len(blob) for section in Section):
            raise _damaged("its sizes do not add up")
        self._views: dict[Section, memoryview] = {}
        self._fields: Fields | None = None

    def _span(self, section: Section) -> tuple[int, int]:
        return self._sections[2 * section], self._sections[2 * section + 1]

    def section(self, section: Section) -> memoryview:
        start, size = self._span(section)
        return memoryview(self.blob)[start : start + size]

    def values(self, section: Section) -> memoryview:
        """An array. It is empty where no fragment has what it is about."""
        found = self._views.get(section)
        if found is None:
            found = self._views[section] = self.section(section).cast(_CODES[section])  # type: ignore[call-overload]
        return found

    # ---- texts ----

    def _text(self, section: Section, index: int) -> bytes:
        position = self._sections[2 * section] + 8 * index
        offset, size = struct.unpack_from("<II", self.blob, position)
        start = self._sections[2 * Section.POOL] + offset
        return self.blob[start : start + size]

    @property
    def tag(self) -> str:
        return self._text(Section.TEXTS, 0).decode()

    @property
    def branch(self) -> str:
        return self._text(Section.TEXTS, 1).decode()

    @property
    def data_version(self) -> str:
        """Of the format of the data files; empty in old manifests."""
        return self._text(Section.TEXTS, 3).decode()

    @property
    def transaction_file(self) -> str:
        return self._text(Section.TEXTS, 4).decode()

    @property
    def writer(self) -> str:
        return b" ".join(filter(None, (self._text(Section.TEXTS, number) for number in (5, 6)))).decode()

    def _pairs(self, section: Section) -> dict[str, bytes]:
        count = self._span(section)[1] // 16
        return {
            self._text(section, 2 * index).decode(): self._text(section, 2 * index + 1)
            for index in range(count)
        }

    @property
    def config(self) -> dict[str, bytes]:
        return self._pairs(Section.CONFIG)

    @property
    def table_metadata(self) -> dict[str, bytes]:
        return self._pairs(Section.TABLE_METADATA)

    @property
    def schema_metadata(self) -> dict[str, bytes]:
        return self._pairs(Section.SCHEMA_METADATA)

    # ---- columns ----

    @property
    def fields(self) -> Fields:
        """Names and types of the top-level columns."""
        if self._fields is None:
            fields = []
            position, _ = self._span(Section.COLUMNS)
            for _ in range(self.column_count):
                name, position = decode_name(self.blob, position)
                data_type, position = decode_type(self.blob, position)
                fields.append((name, data_type))
            self._fields = tuple(fields)
        return self._fields

    @property
    def schema_records(self) -> bytes:
        """As every fragment hands them to the engine."""
        return bytes(self.section(Section.SCHEMA))

    # ---- fragments ----

    @property
    def row_count(self) -> int:
        return self.stored_count - self.deleted_count

    def cuts(self) -> Cuts:
        from querymode.table.files import Cuts

        return Cuts(
            array("q", bytes(self.section(Section.PIECE_COUNTS))),
            array("q", bytes(self.section(Section.FIRST_PIECE))),
        )

    def fragment_id(self, fragment: int) -> int:
        return int(self.values(Section.FRAGMENT_ID)[fragment])

    def physical_rows(self, fragment: int) -> int | None:
        return _known(self.values(Section.PHYSICAL_ROWS)[fragment])

    def piece_rows(self, fragment: int) -> int:
        return int(self.values(Section.PIECE_ROWS)[fragment])

    def files_of(self, fragment: int) -> list[DataFile]:
        firsts = self.values(Section.FIRST_FILE)
        return [self._file(number) for number in range(firsts[fragment], firsts[fragment + 1])]

    def _file(self, number: int) -> DataFile:
        bases = self.values(Section.FILE_BASE)
        version = self.values(Section.FILE_VERSION)[number]
        firsts = self.values(Section.LIST_FIRST)
        entry = self.values(Section.FILE_LIST)[number]
        entries = self.section(Section.LIST_ENTRIES)[8 * firsts[entry] : 8 * firsts[entry + 1]]
        return DataFile(
            path=self._text(Section.FILE_PATH, number).decode(),
            size=self.values(Section.FILE_SIZE)[number],
            base=_base(bases[number]) if bases else None,
            version=(version >> 16, version & 0xFFFF),
            entries=bytes(entries),
        )

    @property
    def has_deletions(self) -> bool:
        return bool(self._span(Section.DELETION_KIND)[1])

    def deletion_file(self, fragment: int) -> DeletionFile | None:
        kinds = self.values(Section.DELETION_KIND)
        if not kinds or not kinds[fragment]:
            return None
        return DeletionFile(
            kind=kinds[fragment],
            fragment_id=self.fragment_id(fragment),
            read_version=self.values(Section.DELETION_VERSION)[fragment],
            id=self.values(Section.DELETION_ID)[fragment],
            base=_base(self.values(Section.DELETION_BASE)[fragment]),
        )

    def deleted_rows(self, fragment: int) -> int | None:
        """How many."""
        counts = self.values(Section.DELETED_ROWS)
        return _known(counts[fragment]) if counts else 0

    def row_ids(self, fragment: int) -> bytes:
        """The fragment's sequence of stable row ids, as the file has it; empty where there is none."""
        return self._text(Section.ROW_IDS, fragment) if self._span(Section.ROW_IDS)[1] else b""

    def bases(self) -> dict[int, Base]:
        found = {}
        start, size = self._span(Section.BASES)
        for position in range(start, start + size, 24):
            number, is_root, _, _, offset, length = struct.unpack_from("<6I", self.blob, position)
            pool = self._sections[2 * Section.POOL] + offset
            found[number] = Base(self.blob[pool : pool + length].decode(), bool(is_root))
        return found


class Transaction(NamedTuple):
    """What made a version. `operation`: the number of the field that says what it did."""

    read_version: int
    operation: int
    uuid: str
    properties: dict[str, str]

    @classmethod
    def parse(cls, blob: bytes) -> Transaction:
        read_version, operation = struct.unpack_from("<QI", blob, 8)
        reader = _Reader(blob, 20)
        uuid = reader.text().decode()
        properties = {}
        for _ in range(reader.count()):
            key = reader.text().decode(errors="replace")
            properties[key] = reader.text().decode(errors="replace")
        return cls(read_version, operation, uuid, properties)


class Index(NamedTuple):
    """An index of the table. `fragments`: a Roaring bitmap of the ids of those that it covers; nothing is
    known of others. `details`: a message of the type `kind`."""

    uuid: str
    dataset_version: int
    version: int
    base: int | None
    fields: tuple[int, ...]
    name: str
    kind: str
    details: bytes
    fragments: bytes
    files: tuple[tuple[str, int], ...]

    @classmethod
    def parse_all(cls, blob: bytes) -> list[Index]:
        reader = _Reader(blob, 8)
        return [cls._parse(reader) for _ in range(reader.count())]

    @classmethod
    def _parse(cls, reader: _Reader) -> Index:
        digits = reader.take(16).hex()
        dataset_version, version, base = reader.unpack("<QiI")
        uuid = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
        fields = tuple(reader.unpack("<i")[0] for _ in range(reader.count()))
        name, kind, details, fragments = (reader.text() for _ in range(4))
        files = tuple((reader.text().decode(), reader.unpack("<Q")[0]) for _ in range(reader.count()))
        return cls(
            uuid,
            dataset_version,
            version,
            _base(base),
            fields,
            name.decode(),
            kind.decode(errors="replace"),
            details,
            fragments,
            files,
        )


class _Reader:
    """Reads what wasm/src/format/lance/manifest_sections.zig draws."""

    __slots__ = ("_blob", "_position")

    def __init__(self, blob: bytes, position: int) -> None:
        self._blob = blob
        self._position = position

    def unpack(self, layout: str) -> tuple[int, ...]:
        found = struct.unpack_from(layout, self._blob, self._position)
        self._position += struct.calcsize(layout)
        return found

    def count(self) -> int:
        (found,) = struct.unpack_from("<I", self._blob, self._position)
        self._position += 4
        return int(found)

    def text(self) -> bytes:
        return self.take(self.count())

    def take(self, size: int) -> bytes:
        self._position += size
        return self._blob[self._position - size : self._position]


def _known(number: int) -> int | None:
    return None if number == _UNKNOWN else int(number)


def _base(number: int) -> int | None:
    return None if number == _NO_BASE else number


def _damaged(why: str) -> QueryModeError:
    return error("INVALID_FORMAT", f"a flat manifest is damaged: {why}")
