"""The flat footer of a Parquet file, read in place.

The engine makes the blob from the file's own footer, checks it and draws its layout in
wasm/src/format/parquet/footer.zig. It is what the footer cache keeps, so looking into it must cost
next to nothing: the constructor reads 48 bytes and the frames, everything else waits until it is
asked for. Nothing here parses Thrift or judges statistics.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple

from querymode._abi import TypeTag
from querymode.errors import error
from querymode.types import decode_name, decode_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable

    from querymode.errors import QueryModeError
    from querymode.types import DataType

MAGIC = b"QMPF"
VERSION = 2

_HEADER = struct.Struct("<4sBBH8IQ")
#: So that every entry can be read as eight bytes.
_PADDING = 8


class Array(IntEnum):
    """The arrays of the blob, in their order: per row group, per leaf, per chunk."""

    FIRST_ROW = 0
    GROUP_START = 1
    COLUMN_ORDER = 2
    START = 3
    COMPRESSED_SIZE = 4
    UNCOMPRESSED_SIZE = 5
    EXTRA_VALUES = 6
    DICTIONARY_SIZE = 7
    NULL_COUNT = 8
    NAN_COUNT = 9
    COLUMN_INDEX_OFFSET = 10
    COLUMN_INDEX_SIZE = 11
    OFFSET_INDEX_OFFSET = 12
    OFFSET_INDEX_SIZE = 13
    BLOOM_OFFSET = 14
    BLOOM_SIZE = 15
    BOUNDS_OFFSET = 16
    MIN_SIZE = 17
    MAX_SIZE = 18
    CODEC = 19
    ENCODINGS = 20
    FLAGS = 21
    DICTIONARY_PAGES = 22
    OTHER_PAGES = 23


_ARRAY_COUNT = len(Array)

DICTIONARY = 1 << 0
#: Every data page is coded by the dictionary.
ALL_DICTIONARY = 1 << 1
MIN = 1 << 2
MAX = 1 << 3
MIN_EXACT = 1 << 4
MAX_EXACT = 1 << 5
HAS_NULL_COUNT = 1 << 6
HAS_NAN_COUNT = 1 << 7
#: The bounds are those of the deprecated fields.
DEPRECATED = 1 << 8
COLUMN_INDEX = 1 << 9
OFFSET_INDEX = 1 << 10
BLOOM = 1 << 11


class Span(NamedTuple):
    """Bytes of the file. A bloom filter's size may be unknown: 0."""

    offset: int
    size: int


class Chunk(NamedTuple):
    """A leaf's share of a row group, as the file says it."""

    codec: int
    start: int
    compressed_size: int
    uncompressed_size: int
    value_count: int
    data_page_offset: int
    #: Bit n: the chunk lists encoding n; bit 15: one that no bit stands for.
    encodings: int
    flags: int
    #: Data pages that the dictionary codes, and others, where the file lists both; else 0.
    dictionary_pages: int
    other_pages: int
    column_index: Span | None
    offset_index: Span | None
    bloom: Span | None
    min: bytes | None
    max: bytes | None
    null_count: int | None
    nan_count: int | None

    @property
    def has_dictionary(self) -> bool:
        return bool(self.flags & DICTIONARY)


class FlatFooter:
    """What one Parquet file holds. `blob` is kept, not copied."""

    __slots__ = (
        "_bounds",
        "_columns",
        "_created_by",
        "_fields",
        "_frames",
        "_leaf_ranges",
        "blob",
        "column_count",
        "file_size",
        "has_key_values",
        "leaf_count",
        "row_group_count",
        "tail",
        "tail_identity",
    )

    def __reduce__(self) -> tuple[type[FlatFooter], tuple[bytes]]:
        # What was read beside it is of the process that read it.
        return FlatFooter, (self.blob,)

    def __init__(self, blob: bytes) -> None:
        self.blob = blob
        #: Bytes of the file right before its footer, where reading the footer brought them along: their
        #: place, and they. Page indexes lie there. They are those of a source of this identity.
        self.tail: tuple[int, bytes] = (0, b"")
        self.tail_identity: Hashable = None
        if len(blob) < _HEADER.size:
            raise _damaged("it is too short")
        magic, version, has_key_values, created_by_size, *numbers = _HEADER.unpack_from(blob)
        if magic != MAGIC or version != VERSION:
            raise _damaged("it does not begin like one")
        size, self.column_count, self.leaf_count, self.row_group_count = numbers[:4]
        columns_size, records_size, bounds_size, frames_size, self.file_size = numbers[4:]
        self.has_key_values = bool(has_key_values)
        self._created_by = _HEADER.size + frames_size
        self._columns = self._created_by + created_by_size
        end = self._read_frames(_HEADER.size, self._columns + columns_size + records_size)
        self._bounds = end
        if size != len(blob) or end + bounds_size + _PADDING != size:
            raise _damaged("its sizes do not add up")
        self._fields: tuple[tuple[str, DataType], ...] | None = None
        self._leaf_ranges: tuple[range, ...] | None = None

    def _read_frames(self, position: int, array_position: int) -> int:
        """Per array: base, width, where it begins. Returns where the last one ends."""
        blob = self.blob
        groups, leaves = self.row_group_count, self.leaf_count
        counts = (groups + 1, groups, leaves, *(groups * leaves,) * (_ARRAY_COUNT - 3))
        frames: list[int] = []  # flat: a tuple for each is work for the garbage collector
        for count in counts:
            if position >= self._created_by:
                raise _damaged("its frames end early")
            head = blob[position]
            width, base_end = head & 15, position + 1 + (head >> 4)
            frames += (int.from_bytes(blob[position + 1 : base_end], "little"), width, array_position)
            position = base_end
            array_position += count * width
        self._frames = tuple(frames)
        return array_position

    # ---- the file ----

    @property
    def created_by(self) -> str:
        return self.blob[self._created_by : self._columns].decode(errors="replace")

    @property
    def row_count(self) -> int:
        return self._value(Array.FIRST_ROW, self.row_group_count)

    @property
    def fields(self) -> tuple[tuple[str, DataType], ...]:
        """Names and types of the top-level columns; a name may come twice."""
        if self._fields is None:
            fields = []
            position = self._columns
            for _ in range(self.column_count):
                name, position = decode_name(self.blob, position)
                data_type, position = decode_type(self.blob, position)
                fields.append((name, data_type))
            self._fields = tuple(fields)
        return self._fields

    @property
    def leaf_ranges(self) -> tuple[range, ...]:
        """Per top-level column its leaves: the columns of the file that it is made of."""
        if self._leaf_ranges is None:
            ranges = []
            first = 0
            for _, data_type in self.fields:
                end = first + leaf_count(data_type)
                ranges.append(range(first, end))
                first = end
            self._leaf_ranges = tuple(ranges)
        return self._leaf_ranges

    def column_order(self, leaf: int) -> int:
        """0 undefined, 1 the type's, 2 IEEE 754 total order."""
        return self._value(Array.COLUMN_ORDER, leaf)

    # ---- row groups ----

    def first_row(self, row_group: int) -> int:
        """Rows of the file before the row group."""
        return self._value(Array.FIRST_ROW, row_group)

    def row_counts(self) -> list[int]:
        firsts = self.values(Array.FIRST_ROW, 0, self.row_group_count + 1)
        return [end - first for first, end in pairwise(firsts)]

    # ---- chunks ----

    def chunk(self, row_group: int, leaf: int) -> Chunk:
        if not (0 <= row_group < self.row_group_count and 0 <= leaf < self.leaf_count):
            raise IndexError((row_group, leaf))
        value = self._value
        index = row_group * self.leaf_count + leaf
        flags = value(Array.FLAGS, index)
        start = value(Array.GROUP_START, row_group) + value(Array.START, index)
        first_row, end_row = value(Array.FIRST_ROW, row_group), value(Array.FIRST_ROW, row_group + 1)
        low, high = self._bounds_of(flags, index)
        return Chunk(
            codec=value(Array.CODEC, index),
            start=start,
            compressed_size=value(Array.COMPRESSED_SIZE, index),
            uncompressed_size=value(Array.UNCOMPRESSED_SIZE, index),
            value_count=end_row - first_row + _unzigzag(value(Array.EXTRA_VALUES, index)),
            data_page_offset=start + value(Array.DICTIONARY_SIZE, index),
            encodings=value(Array.ENCODINGS, index),
            flags=flags,
            dictionary_pages=value(Array.DICTIONARY_PAGES, index),
            other_pages=value(Array.OTHER_PAGES, index),
            column_index=self._span(Array.COLUMN_INDEX_OFFSET, index) if flags & COLUMN_INDEX else None,
            offset_index=self._span(Array.OFFSET_INDEX_OFFSET, index) if flags & OFFSET_INDEX else None,
            bloom=self._span(Array.BLOOM_OFFSET, index) if flags & BLOOM else None,
            min=low,
            max=high,
            null_count=value(Array.NULL_COUNT, index) if flags & HAS_NULL_COUNT else None,
            nan_count=value(Array.NAN_COUNT, index) if flags & HAS_NAN_COUNT else None,
        )

    def chunk_values(self, array: int, leaf: int) -> list[int]:
        """One number of all chunks of a leaf, by row group, as the array has it: `START` is relative to
        `GROUP_START`, and what `FLAGS` denies is no number."""
        if not (Array.START <= array < _ARRAY_COUNT and 0 <= leaf < self.leaf_count):
            raise IndexError((array, leaf))
        return self.values(array, leaf, self.row_group_count, self.leaf_count)

    def values(self, array: int, first: int, count: int, step: int = 1) -> list[int]:
        """`count` entries of an array from `first` on, each `step` further."""
        base, width, position = self._frames[3 * array : 3 * array + 3]
        if width == 0:
            return [base] * count
        blob = self.blob
        position += first * width
        stride = step * width
        places = range(position, position + count * stride, stride)
        return [base + int.from_bytes(blob[place : place + width], "little") for place in places]

    def _value(self, array: int, index: int) -> int:
        base, width, position = self._frames[3 * array : 3 * array + 3]
        if width == 0:
            return base
        position += index * width
        return base + int.from_bytes(self.blob[position : position + width], "little")

    def _span(self, offset_array: int, index: int) -> Span:
        return Span(self._value(offset_array, index), self._value(offset_array + 1, index))

    def _bounds_of(self, flags: int, index: int) -> tuple[bytes | None, bytes | None]:
        if not flags & (MIN | MAX):
            return None, None
        start = self._bounds + self._value(Array.BOUNDS_OFFSET, index)
        middle = start + (self._value(Array.MIN_SIZE, index) if flags & MIN else 0)
        end = middle + (self._value(Array.MAX_SIZE, index) if flags & MAX else 0)
        return (
            self.blob[start:middle] if flags & MIN else None,
            self.blob[middle:end] if flags & MAX else None,
        )


def leaf_count(data_type: DataType) -> int:
    """Columns of a Parquet file that a column of this type is made of."""
    if data_type.tag in (TypeTag.LIST, TypeTag.MAP, TypeTag.STRUCTURE):
        return sum(leaf_count(child) for _, child in data_type.children)
    return 1


def _unzigzag(number: int) -> int:
    return (number >> 1) ^ -(number & 1)


def _damaged(why: str) -> QueryModeError:
    return error("INVALID_FORMAT", f"a flat footer is damaged: {why}")
