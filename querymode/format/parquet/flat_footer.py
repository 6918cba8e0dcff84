"""The flat footer of a Parquet file, read in place.

The engine makes the blob from the file's own footer, checks it and draws its layout in
wasm/src/format/parquet/footer.zig. It is what the footer cache keeps, so looking into it must cost
next to nothing: the constructor reads its header and the frames, everything else waits until it is
asked for. Nothing here parses Thrift or judges statistics.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import NamedTuple

from querymode import _abi
from querymode._abi import FooterArray, FooterFlags, TypeTag
from querymode.errors import error
from querymode.types import decode_name, decode_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable

    from querymode.errors import QueryModeError
    from querymode.types import DataType

_HEADER = struct.Struct(_abi.FOOTER_HEADER_FORMAT)


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
        return bool(self.flags & FooterFlags.DICTIONARY)


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
        "records_start",
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
        if (magic, version) != (_abi.FOOTER_MAGIC, _abi.FOOTER_VERSION):
            raise _damaged("it does not begin like one")
        size, self.column_count, self.leaf_count, self.row_group_count = numbers[:4]
        columns_size, records_size, bounds_size, frames_size, self.file_size = numbers[4:]
        self.has_key_values = bool(has_key_values)
        self._created_by = _HEADER.size + frames_size
        self._columns = self._created_by + created_by_size
        self.records_start = self._columns + columns_size
        end = self._read_frames(_HEADER.size, self.records_start + records_size)
        self._bounds = end
        if size != len(blob) or end + bounds_size + _abi.FOOTER_PADDING != size:
            raise _damaged("its sizes do not add up")
        self._fields: tuple[tuple[str, DataType], ...] | None = None
        self._leaf_ranges: tuple[range, ...] | None = None

    def _read_frames(self, position: int, array_position: int) -> int:
        """Per array: base, width, where it begins. Returns where the last one ends."""
        blob = self.blob
        groups, leaves = self.row_group_count, self.leaf_count
        counts = (groups + 1, groups, leaves, *(groups * leaves,) * (_abi.FOOTER_ARRAY_COUNT - 3))
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
        return self._value(FooterArray.FIRST_ROW, self.row_group_count)

    @property
    def column_bytes(self) -> bytes:
        """Names and types of the top-level columns, as `fields` decodes them."""
        return self.blob[self._columns : self.records_start]

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
        return self._value(FooterArray.COLUMN_ORDER, leaf)

    # ---- row groups ----

    def first_row(self, row_group: int) -> int:
        """Rows of the file before the row group."""
        return self._value(FooterArray.FIRST_ROW, row_group)

    def row_counts(self) -> list[int]:
        firsts = self.values(FooterArray.FIRST_ROW, 0, self.row_group_count + 1)
        return [end - first for first, end in pairwise(firsts)]

    # ---- chunks ----

    def chunk(self, row_group: int, leaf: int) -> Chunk:
        if not (0 <= row_group < self.row_group_count and 0 <= leaf < self.leaf_count):
            raise IndexError((row_group, leaf))
        value = self._value
        index = row_group * self.leaf_count + leaf
        flags = value(FooterArray.FLAGS, index)
        start = value(FooterArray.GROUP_START, row_group) + value(FooterArray.START, index)
        first_row, end_row = self.first_row(row_group), self.first_row(row_group + 1)
        low, high = self._bounds_of(flags, index)
        return Chunk(
            codec=value(FooterArray.CODEC, index),
            start=start,
            compressed_size=value(FooterArray.COMPRESSED_SIZE, index),
            uncompressed_size=value(FooterArray.UNCOMPRESSED_SIZE, index),
            value_count=end_row - first_row + _unzigzag(value(FooterArray.EXTRA_VALUES, index)),
            data_page_offset=start + value(FooterArray.DICTIONARY_SIZE, index),
            encodings=value(FooterArray.ENCODINGS, index),
            flags=flags,
            dictionary_pages=value(FooterArray.DICTIONARY_PAGES, index),
            other_pages=value(FooterArray.OTHER_PAGES, index),
            column_index=self._span(flags & FooterFlags.COLUMN_INDEX, FooterArray.COLUMN_INDEX_OFFSET, index),
            offset_index=self._span(flags & FooterFlags.OFFSET_INDEX, FooterArray.OFFSET_INDEX_OFFSET, index),
            bloom=self._span(flags & FooterFlags.BLOOM, FooterArray.BLOOM_OFFSET, index),
            min=low,
            max=high,
            null_count=value(FooterArray.NULL_COUNT, index) if flags & FooterFlags.NULL_COUNT else None,
            nan_count=value(FooterArray.NAN_COUNT, index) if flags & FooterFlags.NAN_COUNT else None,
        )

    def chunk_values(self, array: int, leaf: int) -> list[int]:
        """One number of all chunks of a leaf, by row group, as the array has it: `START` is relative to
        `GROUP_START`, and what `FLAGS` denies is no number."""
        if not (FooterArray.START <= array < _abi.FOOTER_ARRAY_COUNT and 0 <= leaf < self.leaf_count):
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

    def _span(self, is_there: int, offset_array: int, index: int) -> Span | None:
        if not is_there:
            return None
        return Span(self._value(offset_array, index), self._value(offset_array + 1, index))

    def _bounds_of(self, flags: int, index: int) -> tuple[bytes | None, bytes | None]:
        if not flags & (FooterFlags.MIN | FooterFlags.MAX):
            return None, None
        start = self._bounds + self._value(FooterArray.BOUNDS_OFFSET, index)
        middle = start + (self._value(FooterArray.MIN_SIZE, index) if flags & FooterFlags.MIN else 0)
        end = middle + (self._value(FooterArray.MAX_SIZE, index) if flags & FooterFlags.MAX else 0)
        return (
            self.blob[start:middle] if flags & FooterFlags.MIN else None,
            self.blob[middle:end] if flags & FooterFlags.MAX else None,
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
