"""Datasets of fixtures/lance whose manifests, footers and pages say what is not so.

Sizes and positions around each lie are put right, so that it is found out where it would hurt.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fixtures.settled import Manifest, changed, fields_of, message_of, values_at, varint_of
from tests.corrupt.lance_files import DataFile, with_field

#: Of Manifest, DataFragment, DataFile, DeletionFile and Field.
FIELDS, FRAGMENTS, READER_FLAGS, DATA_FORMAT = 1, 2, 9, 15
ID, FILES, DELETION_FILE, PHYSICAL_ROWS = 1, 2, 3, 4
PATH, FILE_FIELDS, COLUMN_INDICES, MAJOR, FILE_SIZE = 1, 2, 3, 4, 6
DELETED_ROWS = 4
NAME, FIELD_ID, PARENT_ID, LOGICAL_TYPE = 2, 3, 4, 5
#: Of ColumnMetadata and its Page.
PAGES = 2
BUFFER_OFFSETS, BUFFER_SIZES, PAGE_LENGTH = 1, 2, 3

Lie = Callable[[Path], None]
LIES: dict[str, tuple[str, Lie]] = {}


def newest(dataset: Path) -> Path:
    return min((dataset / "_versions").glob("*.manifest"))


def of_manifest(*path: int, value: Any) -> Lie:
    """Tells it in the newest manifest, in every repetition of the field; adds it where it is missing."""

    def tell(dataset: Path) -> None:
        manifest = Manifest(newest(dataset).read_bytes())
        *outer, number = path
        if outer:
            manifest.message = changed(
                manifest.message, tuple(outer), lambda old: with_field(old, number, _value(value, old))
            )
        else:
            manifest.message = with_field(manifest.message, number, _value(value, manifest.message))
        newest(dataset).write_bytes(manifest.data())

    return tell


def _value(value: Any, old: bytes) -> Any:
    return value(old) if callable(value) else value


def of_pages(number: int, value: Any) -> Lie:
    """Tells it in the first page of every column of every data file."""

    def tell(dataset: Path) -> None:
        for path in (dataset / "data").iterdir():
            file = DataFile(path.read_bytes())
            file.columns = [
                changed(column, (PAGES,), lambda page: with_field(page, number, _value(value, page)))
                for column in file.columns
            ]
            path.write_bytes(file.data())

    return tell


def of_footer(start: int, layout: str, value: int) -> Lie:
    """`start`: counted from the end of the file."""

    def tell(dataset: Path) -> None:
        for path in (dataset / "data").iterdir():
            data = bytearray(path.read_bytes())
            struct.pack_into(layout, data, len(data) - start, value)
            path.write_bytes(data)

    return tell


def packed(*values: int) -> bytes:
    return b"".join(map(varint_of, values))


def deep_schema(count: int) -> Lie:
    """Each field the parent of the next one."""

    def tell(dataset: Path) -> None:
        manifest = Manifest(newest(dataset).read_bytes())
        kept = [field for field in fields_of(manifest.message) if field.number != FIELDS]
        (first, *_) = values_at(manifest.message, (FIELDS,))
        minus_one = (1 << 64) - 1
        fields = []
        for number in range(count):
            field = with_field(with_field(first, FIELD_ID, number), LOGICAL_TYPE, b"struct")
            fields.append(with_field(field, PARENT_ID, number - 1 if number else minus_one))
        template = fields_of(manifest.message)[0]
        manifest.message = message_of([*(template._replace(value=field) for field in fields), *kept])
        newest(dataset).write_bytes(manifest.data())

    return tell


def many_fragments(count: int) -> Lie:
    """The first one, again and again: a message of a few bytes each."""

    def tell(dataset: Path) -> None:
        manifest = Manifest(newest(dataset).read_bytes())
        fields = fields_of(manifest.message)
        fragment = next(field for field in fields if field.number == FRAGMENTS)
        kept = [field for field in fields if field.number != FRAGMENTS]
        manifest.message = message_of([*kept, *[fragment._replace(value=b"")] * count])
        newest(dataset).write_bytes(manifest.data())

    return tell


def bitmap(data: bytes) -> Lie:
    def tell(dataset: Path) -> None:
        for path in (dataset / "_deletions").iterdir():
            path.write_bytes(data)

    return tell


HUGE_NUMBERS = {"2^31": 1 << 31, "2^32 - 1": (1 << 32) - 1, "2^63": 1 << 63, "2^64 - 1": (1 << 64) - 1}
for said, number in HUGE_NUMBERS.items():
    LIES |= {
        f"a fragment of {said} rows": (
            "fragments_2.2.lance",
            of_manifest(FRAGMENTS, PHYSICAL_ROWS, value=number),
        ),
        f"a fragment whose number is {said}": (
            "fragments_2.2.lance",
            of_manifest(FRAGMENTS, ID, value=number),
        ),
        f"{said} rows deleted": (
            "deletions_arrow.lance",
            of_manifest(FRAGMENTS, DELETION_FILE, DELETED_ROWS, value=number),
        ),
        f"a file of {said} bytes": (
            "fragments_2.2.lance",
            of_manifest(FRAGMENTS, FILES, FILE_SIZE, value=number),
        ),
        f"files of version {said}": (
            "fragments_2.2.lance",
            of_manifest(FRAGMENTS, FILES, MAJOR, value=number),
        ),
        f"a field whose number is {said}": (
            "fragments_2.2.lance",
            of_manifest(FIELDS, FIELD_ID, value=number),
        ),
        f"fields below {said}": ("fragments_2.2.lance", of_manifest(FIELDS, PARENT_ID, value=number)),
        f"a column at {said}": (
            "fragments_2.2.lance",
            of_manifest(FRAGMENTS, FILES, COLUMN_INDICES, value=packed(number, number)),
        ),
        f"reader flags {said}": ("fragments_2.2.lance", of_manifest(READER_FLAGS, value=number)),
        f"a page of {said} rows": ("encodings_2.2.lance", of_pages(PAGE_LENGTH, number)),
        f"buffers at {said}": ("encodings_2.2.lance", of_pages(BUFFER_OFFSETS, packed(*[number] * 3))),
        f"buffers of {said} bytes": ("encodings_2.2.lance", of_pages(BUFFER_SIZES, packed(*[number] * 3))),
    }
    for place, what in ((40, "column metadata"), (32, "the table of columns"), (24, "the table of buffers")):
        LIES[f"{what} at {said}"] = ("types_2.2.lance", of_footer(place, "<Q", number))
for place, what in ((16, "buffers"), (12, "columns")):
    for count in (1 << 20, (1 << 32) - 1):
        LIES[f"{count:,} {what}"] = ("types_2.2.lance", of_footer(place, "<I", count))
for kind in (
    *("", ":", "list", "map", "decimal:128:99:5", "decimal:128:5:99", "decimal:256:200:1", "timestamp:us"),
    *("fixed_size_list:float:0", "fixed_size_list:float:-1", "fixed_size_list:float:4294967295"),
    *(
        "fixed_size_list:" * 300 + "float:1" + ":1" * 300,
        "fixed_size_binary:2147483647",
        "fixed_size_binary:x",
    ),
    *("dict:string:int8", "dict:dict:string:int8:false:int8:false", "time32:ns", "int128", "\ud800"),
):
    LIES[f"type {kind[:60]!r}"] = (
        "fragments_2.2.lance",
        of_manifest(FIELDS, LOGICAL_TYPE, value=kind.encode(errors="surrogatepass")),
    )
LIES |= {
    "a field that is its own parent": (
        "fragments_2.2.lance",
        of_manifest(FIELDS, PARENT_ID, value=lambda field: (values_at(field, (FIELD_ID,)) or [0])[0]),
    ),
    "fields of one name": ("fragments_2.2.lance", of_manifest(FIELDS, NAME, value=b"n")),
    "a name that is not UTF-8": ("fragments_2.2.lance", of_manifest(FIELDS, NAME, value=b"\xff\xfe")),
    "structures 100,000 deep": ("fragments_2.2.lance", deep_schema(100_000)),
    "a million empty fragments": ("fragments_2.2.lance", many_fragments(1_000_000)),
    "files of no columns": ("fragments_2.2.lance", of_manifest(FRAGMENTS, FILES, FILE_FIELDS, value=b"")),
    "columns that are of all fields": (
        "fragments_2.2.lance",
        of_manifest(FRAGMENTS, FILES, FILE_FIELDS, value=packed(*[0] * 500)),
    ),
    "format 9.9": ("fragments_2.2.lance", of_manifest(DATA_FORMAT, 2, value=b"9.9")),
    "format 2.3": ("fragments_2.2.lance", of_manifest(DATA_FORMAT, 2, value=b"2.3")),
    "a bitmap of all rows there may be": (
        "deletions_roaring.lance",
        bitmap(b"\x3b\x30\xff\xff" + b"\xff" * 60_000),
    ),
    "a bitmap of 2^32 containers": ("deletions_roaring.lance", bitmap(b"\x3a\x30\0\0" + b"\xff" * 400)),
    "an empty bitmap": ("deletions_roaring.lance", bitmap(b"\x3a\x30\0\0\0\0\0\0")),
    "a bitmap of a run that wraps around": (
        "deletions_roaring.lance",
        bitmap(b"\x3b\x30\0\0\x01\0\0\xff\xff\x01\0\xff\xff\xff\xff"),
    ),
}
