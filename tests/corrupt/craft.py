"""Parquet files by hand: every number may be a lie. A Thrift compact writer, pages, chunks and footers.

A structure is a dict of field id → value; values are made by `i32`, `i64`, `text`, `items` and dicts.

    craft.file([craft.Leaf("x", Physical.INT32)], [[craft.chunk(craft.page(values, count=3))]], rows=[3])
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

MAGIC = b"PAR1"


class Physical(IntEnum):
    BOOLEAN = 0
    INT32 = 1
    INT64 = 2
    INT96 = 3
    FLOAT = 4
    DOUBLE = 5
    BYTE_ARRAY = 6
    FIXED = 7


class Encoding(IntEnum):
    PLAIN = 0
    PLAIN_DICTIONARY = 2
    RLE = 3
    BIT_PACKED = 4
    DELTA = 5
    DELTA_LENGTH = 6
    DELTA_BYTES = 7
    DICTIONARY = 8
    SPLIT = 9


class Codec(IntEnum):
    NONE = 0
    SNAPPY = 1
    GZIP = 2
    BROTLI = 4
    ZSTD = 6
    LZ4_RAW = 7


# --- Thrift -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Value:
    kind: int
    bytes: bytes


Thrift = Value | Mapping[int, "Thrift"]


def varint(number: int) -> bytes:
    out = bytearray()
    number &= (1 << 64) - 1
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def zigzag(number: int) -> bytes:
    return varint((number << 1) ^ (number >> 63))


def i32(number: int) -> Value:
    return Value(5, zigzag(number))


def i64(number: int) -> Value:
    return Value(6, zigzag(number))


def flag(value: bool) -> Value:
    return Value(1 if value else 2, b"")


def text(value: bytes | str) -> Value:
    data = value.encode() if isinstance(value, str) else value
    return Value(8, varint(len(data)) + data)


def items(values: Sequence[Thrift], *, claim: int | None = None) -> Value:
    """A list. `claim` says another count than there is."""
    kind = _wrap(values[0]).kind if values else 12
    count = len(values) if claim is None else claim
    head = bytes((count << 4 | kind,)) if count < 15 else bytes((0xF0 | kind,)) + varint(count)
    return Value(9, head + b"".join(_wrap(value).bytes for value in values))


def thrift(fields: Mapping[int, Thrift]) -> bytes:
    out = bytearray()
    last = 0
    for number in sorted(fields):
        value = _wrap(fields[number])
        step = number - last
        out += bytes((step << 4 | value.kind,)) if step <= 15 else bytes((value.kind,)) + zigzag(number)
        out += value.bytes
        last = number
    return bytes(out) + b"\0"


def _wrap(value: Thrift) -> Value:
    return value if isinstance(value, Value) else Value(12, thrift(value))


# --- Encodings ----------------------------------------------------------------------------------


def run(value: int, count: int, width: int) -> bytes:
    """A run of the RLE/bit-packed hybrid."""
    return varint(count << 1) + value.to_bytes((width + 7) // 8, "little")


def packed(groups: int, data: bytes) -> bytes:
    return varint(groups << 1 | 1) + data


def levels(data: bytes) -> bytes:
    """In front of the values of a v1 page."""
    return struct.pack("<I", len(data)) + data


def delta_head(block: int, miniblocks: int, count: int, first: int = 0) -> bytes:
    return varint(block) + varint(miniblocks) + varint(count) + zigzag(first)


def plain(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}i", *numbers)


# --- Pages --------------------------------------------------------------------------------------


def _page(kind: int, body: bytes, head: Mapping[int, Thrift], place: int, size: int | None) -> bytes:
    fields: dict[int, Thrift] = {
        1: i32(kind),
        2: i32(len(body) if size is None else size),
        3: i32(len(body)),
        place: head,
    }
    return thrift(fields) + body


def page(
    body: bytes,
    *,
    count: int,
    encoding: int = Encoding.PLAIN,
    levels_encoding: int = Encoding.RLE,
    size: int | None = None,
) -> bytes:
    """A data page (v1). `size` is what it claims to be when decompressed."""
    head = {1: i32(count), 2: i32(encoding), 3: i32(levels_encoding), 4: i32(levels_encoding)}
    return _page(0, body, head, 5, size)


def page_v2(
    body: bytes,
    *,
    count: int,
    nulls: int = 0,
    rows: int | None = None,
    encoding: int = Encoding.PLAIN,
    definition: int = 0,
    repetition: int = 0,
    compressed: bool = False,
    size: int | None = None,
) -> bytes:
    head = {
        1: i32(count),
        2: i32(nulls),
        3: i32(count if rows is None else rows),
        4: i32(encoding),
        5: i32(definition),
        6: i32(repetition),
        7: flag(compressed),
    }
    return _page(3, body, head, 8, size)


def dictionary(body: bytes, *, count: int, encoding: int = Encoding.PLAIN, size: int | None = None) -> bytes:
    return _page(2, body, {1: i32(count), 2: i32(encoding)}, 7, size)


# --- Files --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Leaf:
    name: str
    physical: int = Physical.INT32
    #: 0 required, 1 optional, 2 repeated.
    repetition: int = 0
    type_length: int = 0
    converted: int | None = None

    def element(self) -> dict[int, Thrift]:
        fields: dict[int, Thrift] = {
            1: i32(self.physical),
            3: i32(self.repetition),
            4: text(self.name),
        }
        if self.type_length:
            fields[2] = i32(self.type_length)
        if self.converted is not None:
            fields[6] = i32(self.converted)
        return fields


def group(name: str, children: int, repetition: int = 1, converted: int | None = None) -> dict[int, Thrift]:
    fields: dict[int, Thrift] = {3: i32(repetition), 4: text(name), 5: i32(children)}
    if converted is not None:
        fields[6] = i32(converted)
    return fields


@dataclass(frozen=True)
class Chunk:
    """The bytes of a column chunk, and what the footer says of them; None: the truth."""

    data: bytes
    values: int
    physical: int = Physical.INT32
    codec: int = Codec.NONE
    #: Bytes of the dictionary page at the front.
    dictionary_size: int = 0
    start: int | None = None
    size: int | None = None
    #: Bytes put behind the pages, and the fields of ColumnChunk that point there.
    offset_index: bytes = b""
    column_index: bytes = b""
    #: ColumnMetaData as it shall be, over what is made of the above.
    fields: Mapping[int, Thrift] = field(default_factory=dict)

    def but(self, **changes: object) -> Chunk:
        return replace(self, **changes)  # type: ignore[arg-type]


Element = Leaf | Mapping[int, Thrift]


def location(offset: int, size: int, row: int) -> dict[int, Thrift]:
    return {1: i64(offset), 2: i32(size), 3: i64(row)}


def offset_index(*locations: Mapping[int, Thrift], claim: int | None = None) -> bytes:
    return thrift({1: items(list(locations), claim=claim)})


def metadata(chunk: Chunk, start: int) -> dict[int, Thrift]:
    fields: dict[int, Thrift] = {
        1: i32(chunk.physical),
        2: items([i32(0)]),
        3: items([text("x")]),
        4: i32(chunk.codec),
        5: i64(chunk.values),
        6: i64(len(chunk.data)),
        7: i64(len(chunk.data) if chunk.size is None else chunk.size),
        9: i64(start + chunk.dictionary_size),
    }
    if chunk.dictionary_size:
        fields[11] = i64(start)
    return {**fields, **chunk.fields}


def file(
    schema: Sequence[Element],
    row_groups: Sequence[Sequence[Chunk]],
    rows: Sequence[int],
    *,
    top: int | None = None,
    footer: Mapping[int, Thrift] | None = None,
) -> bytes:
    """`top` is how many of the schema's elements are columns of their own; `footer` replaces its fields."""
    out = bytearray(MAGIC)
    groups: list[Thrift] = []
    for chunks, count in zip(row_groups, rows, strict=True):
        groups.append({1: items([_place(out, chunk) for chunk in chunks]), 2: i64(0), 3: i64(count)})
    elements = [item.element() if isinstance(item, Leaf) else item for item in schema]
    root = group("schema", len(elements) if top is None else top, 0)
    fields: dict[int, Thrift] = {
        1: i32(2),
        2: items([root, *elements]),
        3: i64(sum(rows)),
        4: items(groups),
        6: text("craft"),
        **(footer or {}),
    }
    return finish(bytes(out), thrift(fields))


def _place(out: bytearray, chunk: Chunk) -> Thrift:
    start = len(out) if chunk.start is None else chunk.start
    out += chunk.data
    fields: dict[int, Thrift] = {2: i64(0), 3: metadata(chunk, start)}
    for place, index in ((4, chunk.offset_index), (6, chunk.column_index)):
        if index:
            fields |= {place: i64(len(out)), place + 1: i32(len(index))}
            out += index
    return fields


def finish(front: bytes, footer: bytes, *, claim: int | None = None) -> bytes:
    size = len(footer) if claim is None else claim
    return front + footer + struct.pack("<I", size) + MAGIC
