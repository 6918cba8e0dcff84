"""QMCB in Python: views over its bytes, and Python values at the exit.

The byte layout is drawn at the top of wasm/src/qmcb.zig; this file accepts and refuses exactly what
the engine does. Whatever is wrong with the bytes is INVALID_FORMAT with an offset; nothing is
allocated that the bytes do not pay for.

Decoding makes views: numbers are typed memoryviews, so `column.data[0]` is a number and
`numpy.frombuffer(column.data, dtype)` works. A view needs its values aligned, counted from the start of the
buffer; where they are not, the column is copied. What memoryview has no numbers for stays raw:
16-byte values (int128, wide decimals, intervals) are bytes, halves are their 16 bits.

Rows become Python objects only in `columnar_batch_to_rows` and `read_column_value`. Everything else
that touches rows (concatenating, slicing, merging) is done by the engine.
"""

from __future__ import annotations

from array import array
from itertools import chain, pairwise, repeat
from struct import Struct, calcsize, iter_unpack, unpack

from querymode._abi import COLUMN_COUNT_MAX, QMCB_MAGIC, ROW_COUNT_MAX, TimeUnit, TypeTag
from querymode.errors import column_not_found, error
from querymode.expr.intervals import Interval as Interval
from querymode.types import (
    PLAIN_TYPES,
    DataType,
    decode_name,
    decode_tag,
    decode_type_parameters,
    encode_type_parameters,
    has_offsets,
    is_nested,
    is_vector,
    map_entries,
    value_size,
    vector,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import datetime
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, Protocol

    from querymode.errors import QueryModeError

    class Buffer(Protocol):
        def __buffer__(self, flags: int, /) -> memoryview: ...


DTYPE_F64 = 0
DTYPE_I64 = 1
DTYPE_UTF8 = 2
DTYPE_BOOL = 3
DTYPE_F32VEC = 4
DTYPE_NULL = 5
DTYPE_I32 = 6
DTYPE_F32 = 7

#: Bytes of one column: bitmap, type parameters and values.
COLUMN_SIZE_MAX = 1 << 32
NAME_SIZE_MAX = 0xFFFF

_HEADER = Struct("<IIH")
#: Offsets checked at a time; more would hold many Python integers at once.
_OFFSET_BLOCK = 1 << 16
_TEXT_BLOCK = 1 << 20
#: Types of no width cost no bytes per row: a file of 14 bytes may claim four billion rows. So many of
#: them become Python objects whatever the batch's size, and so many more per byte of the batch.
_WEIGHTLESS_FREE = 1 << 22
_WEIGHTLESS_PER_BYTE = 64

#: How memoryview calls the values; the others are bytes.
_FORMATS = {
    TypeTag.F64: "d",
    TypeTag.I64: "q",
    TypeTag.F32VEC: "f",
    TypeTag.I32: "i",
    TypeTag.F32: "f",
    TypeTag.I8: "b",
    TypeTag.I16: "h",
    TypeTag.U8: "B",
    TypeTag.U16: "H",
    TypeTag.U32: "I",
    TypeTag.U64: "Q",
    TypeTag.F16: "H",
    TypeTag.DATE: "i",
    TypeTag.TIME: "q",
    TypeTag.TIMESTAMP: "q",
    TypeTag.F16VEC: "H",
}
_ALIGNMENTS = {"d": 8, "q": 8, "Q": 8, "f": 4, "i": 4, "I": 4, "h": 2, "H": 2, "b": 1, "B": 1}


class ColumnarColumn:
    """One column. `dtype` is the QMCB tag; `data_type` says the same with all parameters.

    `null_bitmap`: bit set = NULL, or None. `offsets`: of utf8, binary, list and map. `children`: a
    list has one, a map one structure of key and value, a structure its fields.
    """

    __slots__ = (
        "children",
        "data",
        "data_type",
        "dtype",
        "name",
        "null_bitmap",
        "offsets",
        "row_count",
        "vector_dim",
    )

    def __init__(
        self,
        name: str,
        dtype: int,
        data: Buffer,
        row_count: int,
        offsets: Buffer | None = None,
        vector_dim: int | None = None,
        null_bitmap: Buffer | None = None,
        *,
        data_type: DataType | None = None,
        children: Sequence[ColumnarColumn] = (),
    ) -> None:
        self.name = name
        self.dtype = int(dtype)
        self.data: Any = data
        self.row_count = row_count
        self.offsets: Any = offsets
        self.vector_dim = vector_dim
        self.null_bitmap: Any = null_bitmap
        self.data_type = data_type if data_type is not None else _default_type(name, dtype, vector_dim)
        self.children = tuple(children)
        if self.data_type.tag != dtype:
            raise _invalid(f"column {name!r} has the tag {dtype} but is {self.data_type}", column=name)
        if is_vector(self.data_type):
            self.vector_dim = self.data_type.width
            if vector_dim not in (None, self.vector_dim):
                raise _invalid(f"column {name!r} is {self.data_type}, not of {vector_dim}", column=name)

    def __repr__(self) -> str:
        return f"<ColumnarColumn {self.name!r} {self.data_type}, {self.row_count} rows>"


class ColumnarBatch:
    """Columns of equal length. Pickles as QMCB."""

    __slots__ = ("columns", "row_count")

    def __init__(self, columns: Iterable[ColumnarColumn], row_count: int) -> None:
        self.columns = list(columns)
        self.row_count = row_count

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    def __reduce__(self) -> tuple[Any, ...]:
        return decode_columnar_batch, (encode_columnar_batch(self),)

    def __repr__(self) -> str:
        columns = ", ".join(f"{column.name}: {column.data_type}" for column in self.columns)
        return f"<ColumnarBatch {self.row_count} rows ({columns})>"


def batch_types(batch: ColumnarBatch) -> list[DataType]:
    return [column.data_type for column in batch.columns]


def _default_type(name: str, dtype: int, vector_dim: int | None) -> DataType:
    if dtype == DTYPE_F32VEC and vector_dim is not None:
        return vector(vector_dim)
    for tag, plain in PLAIN_TYPES.items():
        if tag == dtype:
            return plain
    raise _invalid(f"column {name!r} with the tag {dtype} needs its data_type", column=name)


def _invalid(message: str, *, offset: int | None = None, column: str | None = None) -> QueryModeError:
    where = f" (at byte {offset})" if offset is not None else ""
    return error("INVALID_FORMAT", f"QMCB: {message}{where}", offset=offset, column=column)


def _too_large(what: str) -> QueryModeError:
    return error("QUERY_FAILED", f"QMCB: {what}; split it into several batches")


# ---- checks that reading and writing share ----


def _bitmap_size(rows: int) -> int:
    return (rows + 7) // 8


def _without_tail(bits: bytes, rows: int) -> bytes:
    """The bits, those past the last row cleared."""
    used = rows & 7
    return bits if used == 0 else bits[:-1] + bytes((bits[-1] & ((1 << used) - 1),))


def _first_fall(offsets: memoryview) -> int | None:
    """Index of a block in which an offset is smaller than the one before, if there is one."""
    for start in range(0, len(offsets) - 1, _OFFSET_BLOCK):
        block = offsets[start : start + _OFFSET_BLOCK + 1].tolist()
        # Sorting what is sorted is one pass in C.
        if block != sorted(block):
            return start
    return None


_CONTINUATION = bytes(1 if byte & 0xC0 == 0x80 else 0 for byte in range(256))


def _find_bad_text(text: memoryview, offsets: memoryview) -> tuple[str, int] | None:
    """What is wrong with a utf8 column and where in its text, if something is."""
    try:
        str(text, "ascii")
        return None
    except UnicodeDecodeError:
        pass
    position = 0
    while position < len(text):
        # Block by block: as one str, four bytes a character, it would take four times the text.
        block = bytes(text[position : position + _TEXT_BLOCK])
        whole = _cut_between_characters(block) if position + len(block) < len(text) else len(block)
        try:
            block[:whole].decode()
        except UnicodeDecodeError as cause:
            return "text is not valid UTF-8", position + cause.start
        position += whole
    continues = bytes(text).translate(_CONTINUATION) + b"\0"
    for start in range(0, len(offsets), _OFFSET_BLOCK):
        block_offsets = offsets[start : start + _OFFSET_BLOCK].tolist()
        if any(map(continues.__getitem__, block_offsets)):
            return "an offset splits a character", next(o for o in block_offsets if continues[o])
    return None


def _cut_between_characters(block: bytes) -> int:
    """The largest size that does not end inside a character, where one of the last four bytes begins one."""
    for size in range(len(block) - 1, max(0, len(block) - 5), -1):
        if not _CONTINUATION[block[size]]:
            return size
    return len(block)


def _item_type(data_type: DataType) -> DataType:
    return map_entries(data_type) if data_type.tag == TypeTag.MAP else data_type.children[0][1]


# ---- decode ----


def decode_columnar_batch(data: Buffer) -> ColumnarBatch:
    """Views over `data`, which must not change while they are used."""
    return _decode(_Reader(_bytes_of(data, "data").toreadonly()))


def view_own_batch(data: Buffer) -> ColumnarBatch:
    """The same for bytes that our own engine has just written: rows are not looked at, and values may lie
    unaligned."""
    return _decode(_Reader(_bytes_of(data, "data").toreadonly(), skim=True))


def _decode(reader: _Reader) -> ColumnarBatch:
    columns = [
        reader.read_section(name, tag, reader.row_count, nulls) for name, tag, nulls in reader.read_header()
    ]
    reader.expect_end()
    return ColumnarBatch(columns, reader.row_count)


class _Reader:
    """A position in untrusted bytes. `skim` skips the checks that look at every row."""

    def __init__(self, view: memoryview, *, skim: bool = False) -> None:
        self.view = view
        self.position = 0
        self.row_count = 0
        self.skim = skim

    def take(self, size: int, what: str) -> memoryview:
        start = self.position
        if size > len(self.view) - start:
            raise _invalid(f"{what}: {size} bytes wanted, {len(self.view) - start} left", offset=start)
        self.position = start + size
        return self.view[start : self.position]

    def take_flag(self) -> bool:
        value = self.take(1, "a flag")[0]
        if value > 1:
            raise _invalid(f"a flag is {value}, not 0 or 1", offset=self.position - 1)
        return value == 1

    def take_values(self, format: str, size: int, alignment: int, what: str) -> memoryview:
        start = self.position
        values = self.take(size, what)
        if start % alignment and not self.skim:
            values = memoryview(bytes(values))
        return _cast(values, format)

    def read_header(self) -> list[tuple[str, TypeTag, bool]]:
        magic, self.row_count, count = _HEADER.unpack(self.take(_HEADER.size, "the header"))
        if magic != QMCB_MAGIC:
            raise _invalid(f"wrong magic 0x{magic:08X}", offset=0)
        if count * 4 > len(self.view) - self.position:
            raise _invalid(f"{count} columns do not fit the bytes", offset=8)
        return [self.read_column_header() for _ in range(count)]

    def read_column_header(self) -> tuple[str, TypeTag, bool]:
        name, self.position = decode_name(self.view, self.position)
        tag = decode_tag(self.take(1, "a tag")[0], self.position - 1)
        return name, tag, self.take_flag()

    def expect_end(self) -> None:
        left = len(self.view) - self.position
        if left:
            raise _invalid(f"{left} bytes after the last column", offset=self.position)

    def read_section(self, name: str, tag: TypeTag, rows: int, nulls: bool) -> ColumnarColumn:
        start = self.position
        bitmap = self.read_bitmap(rows, nulls)
        data_type, self.position = decode_type_parameters(self.view, self.position, tag)
        column = self.read_body(name, data_type, rows, bitmap)
        if self.position - start > COLUMN_SIZE_MAX:
            raise _invalid("a column is larger than 4 GiB", offset=start, column=name)
        return column

    def read_child(self, name: str, data_type: DataType, rows: int) -> ColumnarColumn:
        bitmap = self.read_bitmap(rows, self.take_flag())
        return self.read_body(name, data_type, rows, bitmap)

    def read_bitmap(self, rows: int, nulls: bool) -> memoryview | None:
        return self.take(_bitmap_size(rows), "a null bitmap") if nulls else None

    def read_body(
        self, name: str, data_type: DataType, rows: int, bitmap: memoryview | None
    ) -> ColumnarColumn:
        column = ColumnarColumn(name, data_type.tag, _EMPTY, rows, null_bitmap=bitmap, data_type=data_type)
        tag = data_type.tag
        if tag == TypeTag.NULL:
            column.null_bitmap = None
        elif tag == TypeTag.BOOL:
            column.data = self.take(_bitmap_size(rows), "values")
        elif tag in (TypeTag.UTF8, TypeTag.BINARY):
            self.read_text(column)
        elif tag in (TypeTag.LIST, TypeTag.MAP):
            column.offsets = self.read_offsets(rows)
            column.children = (self.read_child("item", _item_type(data_type), column.offsets[rows]),)
        elif tag == TypeTag.STRUCTURE:
            column.children = tuple(
                self.read_child(field, child, rows) for field, child in data_type.children
            )
        else:
            format = _format_of(data_type)
            # Raw 16-byte values are aligned too, for those who read them as two halves.
            alignment = 8 if format == "B" and value_size(data_type) == 16 else _ALIGNMENTS[format]
            column.data = self.take_values(format, rows * value_size(data_type), alignment, "values")
        return column

    def read_text(self, column: ColumnarColumn) -> None:
        start = self.position
        size = int.from_bytes(self.take(4, "the size of a text"), "little")
        column.offsets = self.read_offsets(column.row_count)
        last = column.offsets[column.row_count]
        if last != size:
            raise _invalid(f"text of {size} bytes, but the last offset is {last}", offset=start)
        text_start = self.position
        column.data = self.take(size, "text")
        if column.dtype == DTYPE_UTF8 and not self.skim:
            bad = _find_bad_text(column.data, column.offsets)
            if bad is not None:
                raise _invalid(bad[0], offset=text_start + bad[1], column=column.name)

    def read_offsets(self, rows: int) -> memoryview:
        start = self.position
        offsets = self.take_values("I", (rows + 1) * 4, 4, "offsets")
        if offsets[0] != 0:
            raise _invalid(f"the first offset is {offsets[0]}, not 0", offset=start)
        fall = None if self.skim else _first_fall(offsets)
        if fall is not None:
            raise _invalid("offsets fall", offset=start + fall * 4)
        return offsets


_EMPTY = memoryview(b"")


def _cast(view: memoryview, format: str) -> memoryview[Any]:
    return view.cast(format)  # type: ignore[call-overload, no-any-return]


def _format_of(data_type: DataType) -> str:
    if data_type.tag == TypeTag.DECIMAL:
        return "q" if value_size(data_type) == 8 else "B"
    return _FORMATS.get(data_type.tag, "B")


def wasm_result_to_qmcb(memory: Buffer, pointer: int, size: int) -> bytes:
    """Copies a finished result out of linear memory, where the next call may overwrite it."""
    view = _bytes_of(memory, "memory")
    if pointer < 0 or size < 0 or pointer + size > len(view):
        raise _invalid(f"{size} bytes at {pointer} do not lie in a memory of {len(view)}", offset=pointer)
    result = bytes(view[pointer : pointer + size])
    if len(result) < _HEADER.size or _HEADER.unpack_from(result)[0] != QMCB_MAGIC:
        raise _invalid("the result does not begin with the magic", offset=0)
    return result


# ---- encode ----


def encode_columnar_batch(batch: ColumnarBatch) -> bytes:
    """Checks the batch as a decoder would: what comes out can be decoded."""
    rows, columns = batch.row_count, batch.columns
    if not 0 <= rows <= ROW_COUNT_MAX:
        raise _too_large(f"a batch has at most {ROW_COUNT_MAX} rows, not {rows}")
    if len(columns) > COLUMN_COUNT_MAX:
        raise _too_large(f"a batch has at most {COLUMN_COUNT_MAX} columns, not {len(columns)}")
    headers: list[Buffer] = [_HEADER.pack(QMCB_MAGIC, rows, len(columns))]
    sections: list[Buffer] = []
    for column in columns:
        if column.row_count != rows:
            raise _wrong(column, f"has {column.row_count} rows, the batch {rows}")
        name = _encode_name(column)
        bitmap = _encode_bitmap(column, rows)
        headers += (len(name).to_bytes(2, "little"), name, bytes((column.dtype, bitmap is not None)))
        section: list[Buffer] = [bitmap] if bitmap is not None else []
        section.append(encode_type_parameters(column.data_type))
        _encode_body(section, column, rows)
        if sum(memoryview(part).nbytes for part in section) > COLUMN_SIZE_MAX:
            raise _too_large(f"column {column.name!r} is larger than 4 GiB")
        sections += section
    return b"".join(headers + sections)


def _wrong(column: ColumnarColumn, why: str) -> QueryModeError:
    return _invalid(f"column {column.name!r} ({column.data_type}) {why}", column=column.name)


def _encode_name(column: ColumnarColumn) -> bytes:
    try:
        name = column.name.encode()
    except UnicodeEncodeError as cause:
        raise _wrong(column, "has a name that is not valid Unicode") from cause
    if len(name) > NAME_SIZE_MAX:
        raise _too_large(f"a column's name has at most {NAME_SIZE_MAX} bytes, not {len(name)}")
    return name


def _bytes_of(buffer: Buffer, what: str) -> memoryview:
    """Any contiguous buffer, as bytes."""
    try:
        view = memoryview(buffer)
    except TypeError as cause:
        raise _invalid(f"{what} is a {type(buffer).__name__}, not a buffer") from cause
    if view.nbytes == 0:
        return _EMPTY
    if view.format[:1] in (">", "!") and view.itemsize > 1:
        raise _invalid(f"{what} is big endian")
    try:
        return view.cast("B")
    except TypeError:
        # Formats that memoryview does not know, and views with gaps.
        return memoryview(view.tobytes())


def _data_of(column: ColumnarColumn, size: int, rows: int) -> memoryview:
    """The first `size` bytes. A column that is used whole must have no more."""
    data = _bytes_of(column.data, f"the data of column {column.name!r}")
    _check_format(column)
    if len(data) < size or (rows == column.row_count and len(data) != size):
        raise _wrong(column, f"has {len(data)} bytes of data, {rows} rows need {size}")
    return data[:size]


def _check_format(column: ColumnarColumn) -> None:
    """Values of another kind would be read as nonsense: integers as floats, eight bytes as four."""
    given = memoryview(column.data)
    if given.nbytes == 0 or given.itemsize == 1:
        return
    tag = column.data_type.tag
    wanted = {TypeTag.F32VEC: "f", TypeTag.F16VEC: "H"}.get(tag, _format_of(column.data_type))
    kinds = ["f" if code.lstrip("<=@") in ("f", "d", "e") else "i" for code in (given.format, wanted)]
    same_kind = kinds[0] == kinds[1] or tag in (TypeTag.F16, TypeTag.F16VEC)
    if not same_kind or given.itemsize != calcsize(wanted):
        raise _wrong(column, f"is {column.data_type}, but its data has the format {given.format!r}")


def _offsets_of(column: ColumnarColumn, rows: int) -> memoryview:
    offsets = _bytes_of(column.offsets if column.offsets is not None else b"", "offsets")
    if offsets is not _EMPTY and memoryview(column.offsets).itemsize not in (1, 4):
        raise _wrong(column, "needs offsets of 4 bytes (uint32)")
    if len(offsets) % 4 or len(offsets) // 4 <= rows:
        raise _wrong(column, f"needs {rows + 1} offsets of 4 bytes, not {len(offsets)} bytes")
    offsets = offsets[: (rows + 1) * 4].cast("I")
    if offsets[0] != 0 or _first_fall(offsets) is not None:
        raise _wrong(column, "has offsets that do not begin with 0 or that fall")
    return offsets


def _encode_bitmap(column: ColumnarColumn, rows: int) -> bytes | None:
    """None when no row is NULL in fact."""
    if column.null_bitmap is None or column.dtype == DTYPE_NULL:
        return None
    size = _bitmap_size(rows)
    bits = _bytes_of(column.null_bitmap, "a null bitmap")
    if len(bits) < size:
        raise _wrong(column, f"has a null bitmap of {len(bits)} bytes, {rows} rows need {size}")
    used = _without_tail(bytes(bits[:size]), rows)
    return None if used == bytes(size) else used


def _encode_body(parts: list[Buffer], column: ColumnarColumn, rows: int) -> None:
    """`rows` may be fewer than the column has: a list may use only the first items of its child."""
    data_type, tag = column.data_type, column.data_type.tag
    if rows > column.row_count:
        raise _wrong(column, f"has {column.row_count} rows, {rows} are used")
    if rows == 0:
        # No text, first offsets, no NULLs: zeros, as many as the type says.
        parts.append(bytes(_empty_body_size(data_type)))
    elif tag == TypeTag.BOOL:
        parts.append(_without_tail(bytes(_data_of(column, _bitmap_size(rows), rows)), rows))
    elif tag in (TypeTag.UTF8, TypeTag.BINARY):
        _encode_text(parts, column, rows)
    elif tag in (TypeTag.LIST, TypeTag.MAP):
        offsets = _offsets_of(column, rows)
        parts.append(offsets)
        _encode_children(parts, column, (_item_type(data_type),), offsets[rows])
    elif tag == TypeTag.STRUCTURE:
        _encode_children(parts, column, tuple(child for _, child in data_type.children), rows)
    elif tag != TypeTag.NULL:
        parts.append(_data_of(column, rows * value_size(data_type), rows))


def _encode_text(parts: list[Buffer], column: ColumnarColumn, rows: int) -> None:
    offsets = _offsets_of(column, rows)
    data = _bytes_of(column.data, f"the data of column {column.name!r}")
    if offsets[rows] > len(data):
        raise _wrong(column, f"has {len(data)} bytes of text, the last offset is {offsets[rows]}")
    text = data[: offsets[rows]]
    bad = _find_bad_text(text, offsets) if column.dtype == DTYPE_UTF8 else None
    if bad is not None:
        raise _wrong(column, f"is wrong at byte {bad[1]} of its text: {bad[0]}")
    parts += (len(text).to_bytes(4, "little"), offsets, text)


def _encode_children(
    parts: list[Buffer], column: ColumnarColumn, types: tuple[DataType, ...], rows: int
) -> None:
    if tuple(child.data_type for child in column.children) != types:
        found = ", ".join(str(child.data_type) for child in column.children)
        raise _wrong(column, f"has children of other types: {found or 'none'}")
    for child in column.children:
        bitmap = _encode_bitmap(child, rows)
        parts.append(bytes((bitmap is not None,)))
        if bitmap is not None:
            parts.append(bitmap)
        _encode_body(parts, child, rows)


def _empty_body_size(data_type: DataType) -> int:
    if data_type.tag in (TypeTag.UTF8, TypeTag.BINARY):
        return 8
    if data_type.tag in (TypeTag.LIST, TypeTag.MAP):
        return 5 + _empty_body_size(_item_type(data_type))
    return sum(1 + _empty_body_size(child) for _, child in data_type.children)


# ---- to Python values ----


def rows_of(batches: Iterable[bytes]) -> list[dict[str, Any]]:
    """All rows of QMCB batches, as dicts."""
    return [row for batch in batches for row in columnar_batch_to_rows(decode_columnar_batch(batch))]


def columnar_batch_to_rows(batch: ColumnarBatch) -> list[dict[str, Any]]:
    """One dict per row. Of columns with the same name the last one wins.

    int, float, str, bool, bytes, Decimal, list and dict are themselves; vectors are lists of floats,
    intervals `Interval`s; a map is a dict, or a list of pairs when its keys cannot be keys of a dict.
    Dates, times and timestamps are those of the datetime module, zone-aware where the column has a zone
    (in UTC when the zone is unknown here). A value that datetime cannot hold exactly, such as
    nanoseconds or the year 10000, is text, as DuckDB prints it: nothing is cut off or rounded.
    """
    rows = batch.row_count
    _check_weightless(batch.columns, rows)
    return _dicts(batch.names, [_values(column, rows) for column in batch.columns], rows)


def column_values(column: ColumnarColumn) -> list[Any]:
    """All values of a column, as in `columnar_batch_to_rows`."""
    _check_weightless([column], column.row_count)
    return _values(column, column.row_count)


def sliced_column(column: ColumnarColumn, start: int, stop: int) -> ColumnarColumn:
    """Some rows as a column of their own. Values stay where they are; offsets and bits are copied."""
    assert 0 <= start <= stop <= column.row_count
    data_type, tag = column.data_type, column.data_type.tag
    data, offsets, children = _bytes_of(column.data, "data"), None, column.children
    if has_offsets(data_type):
        given = _bytes_of(column.offsets, "offsets").cast("I")[start : stop + 1].tolist()
        first, last = given[0], given[-1]
        offsets = array("I", [offset - first for offset in given])
        data, children = data[first:last], tuple(sliced_column(child, first, last) for child in children)
    elif tag == TypeTag.STRUCTURE:
        children = tuple(sliced_column(child, start, stop) for child in children)
    elif tag == TypeTag.BOOL:
        data = memoryview(_sliced_bits(data, start, stop))
    else:
        size = value_size(data_type)
        data = data[start * size : stop * size]
    nulls = column.null_bitmap
    bits = None if nulls is None else _sliced_bits(_bytes_of(nulls, "bits"), start, stop)
    return ColumnarColumn(
        column.name,
        column.dtype,
        data,
        stop - start,
        offsets,
        null_bitmap=bits,
        data_type=data_type,
        children=children,
    )


def _sliced_bits(bits: memoryview, start: int, stop: int) -> bytes:
    size = _bitmap_size(stop - start)
    if start % 8 == 0:
        return bytes(bits[start // 8 : start // 8 + size])
    shifted = int.from_bytes(bits[start // 8 : _bitmap_size(stop)], "little") >> start % 8
    return shifted.to_bytes(size + 1, "little")[:size]


def read_column_value(column: ColumnarColumn, row: int) -> Any:
    """One value, as in `columnar_batch_to_rows`. For many values, `column_values` is far cheaper."""
    if not 0 <= row < column.row_count:
        raise IndexError(f"row {row} of {column.row_count}")
    data_type, tag = column.data_type, column.data_type.tag
    bits = column.null_bitmap
    if tag == TypeTag.NULL or (bits is not None and _bytes_of(bits, "bits")[row >> 3] >> (row & 7) & 1):
        return None
    if tag == TypeTag.STRUCTURE:
        names = [name for name, _ in data_type.children]
        return dict(zip(names, (read_column_value(child, row) for child in column.children), strict=True))
    data = _bytes_of(column.data, "data")
    if tag == TypeTag.BOOL:
        return bool(data[row >> 3] >> (row & 7) & 1)
    if has_offsets(data_type):
        return _read_spanned(column, data, *_bytes_of(column.offsets, "offsets").cast("I")[row : row + 2])
    size = value_size(data_type)
    return _fixed_values(data_type, data[row * size : (row + 1) * size], 1, ())[0]


def _read_spanned(column: ColumnarColumn, data: memoryview, start: int, end: int) -> Any:
    tag = column.data_type.tag
    if tag == TypeTag.UTF8:
        return str(data[start:end], "utf-8")
    if tag == TypeTag.BINARY:
        return bytes(data[start:end])
    items = column.children[0]
    _check_weightless([items], end - start)
    if tag == TypeTag.LIST:
        return [read_column_value(items, index) for index in range(start, end)]
    keys, values = ([read_column_value(c, i) for i in range(start, end)] for c in items.children)
    return _map_maker(column.data_type)(zip(keys, values, strict=True))


def _weightless_rows(column: ColumnarColumn, rows: int) -> int:
    """Values in here that no byte pays for."""
    data_type = column.data_type
    if data_type.tag in (TypeTag.LIST, TypeTag.MAP):
        last = _bytes_of(column.offsets, "offsets").cast("I")[rows] if rows else 0
        return _weightless_rows(column.children[0], last)
    if data_type.tag == TypeTag.STRUCTURE and column.children:
        return sum(_weightless_rows(child, rows) for child in column.children)
    pays = data_type.tag in (TypeTag.BOOL, TypeTag.UTF8, TypeTag.BINARY) or value_size(data_type) > 0
    return 0 if pays else rows


def _bytes_held(column: ColumnarColumn) -> int:
    buffers = (column.data, column.offsets, column.null_bitmap)
    own = sum(memoryview(buffer).nbytes for buffer in buffers if buffer is not None)
    return own + sum(map(_bytes_held, column.children))


def _check_weightless(columns: Sequence[ColumnarColumn], rows: int) -> None:
    count = sum(_weightless_rows(column, rows) for column in columns) if columns else rows
    if count <= _WEIGHTLESS_FREE or count <= _WEIGHTLESS_PER_BYTE * sum(map(_bytes_held, columns)):
        return
    raise error(
        "MEMORY_EXCEEDED",
        f"{count} values of no width, such as NULLs, would become Python objects; slice the batch first",
    )


#: Up to this many columns rows are built by a dict display made for their number.
_DISPLAY_COLUMNS_MAX = 100
_displays: dict[int, Callable[..., list[dict[str, Any]]]] = {}


def _dicts(names: Sequence[str], columns: Sequence[list[Any]], rows: int) -> list[dict[str, Any]]:
    if not columns:
        return [{} for _ in range(rows)]
    if len(columns) > _DISPLAY_COLUMNS_MAX:
        return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
    display = _displays.get(len(columns)) or _make_display(len(columns))
    return display(zip(*columns, strict=True), *names)


def _make_display(count: int) -> Callable[..., list[dict[str, Any]]]:
    """`lambda rows, k0, k1: [{k0: v0, k1: v1} for v0, v1, in rows]`, for that many columns.

    Two to three times as fast as `dict(zip(names, values))`. Names come as arguments: nothing from
    outside is part of the code.
    """
    keys = ", ".join(f"k{index}" for index in range(count))
    values = "".join(f"v{index}, " for index in range(count))
    items = ", ".join(f"k{index}: v{index}" for index in range(count))
    display: Callable[..., list[dict[str, Any]]] = eval(
        f"lambda rows, {keys}: [{{{items}}} for {values}in rows]", {}
    )
    _displays[count] = display
    return display


_BITS: list[tuple[int, ...]] = [tuple(bit for bit in range(8) if byte >> bit & 1) for byte in range(256)]


def _null_rows(column: ColumnarColumn, rows: int) -> Sequence[int]:
    bits = _encode_bitmap(column, rows)
    if bits is None:
        return ()
    return [index * 8 + bit for index, byte in enumerate(bits) if byte for bit in _BITS[byte]]


def _values(column: ColumnarColumn, rows: int) -> list[Any]:
    data_type, tag = column.data_type, column.data_type.tag
    if tag == TypeTag.NULL:
        return [None] * rows
    nulls = _null_rows(column, rows)
    if len(nulls) == rows:
        return [None] * rows
    if tag == TypeTag.STRUCTURE:
        names = [name for name, _ in data_type.children]
        values: list[Any] = _dicts(names, [_values(child, rows) for child in column.children], rows)
    elif tag == TypeTag.BOOL:
        values = _bool_values(_bytes_of(column.data, "data"), rows)
    elif has_offsets(data_type):
        offsets = _bytes_of(column.offsets, "offsets").cast("I")[: rows + 1].tolist()
        values = _spanned_values(column, offsets)
    else:
        data = _bytes_of(column.data, "data")[: rows * value_size(data_type)]
        values = _fixed_values(data_type, data, rows, nulls)
    for row in nulls:
        values[row] = None
    return values


def _bool_values(bits: memoryview, rows: int) -> list[bool]:
    by_byte = [tuple(bool(byte >> bit & 1) for bit in range(8)) for byte in range(256)]
    values = list(chain.from_iterable(map(by_byte.__getitem__, bytes(bits[: _bitmap_size(rows)]))))
    del values[rows:]
    return values


def _spanned_values(column: ColumnarColumn, offsets: list[int]) -> list[Any]:
    tag = column.data_type.tag
    if tag in (TypeTag.LIST, TypeTag.MAP):
        items = column.children[0]
        if tag == TypeTag.LIST:
            inner = _values(items, offsets[-1])
            return [inner[start:end] for start, end in pairwise(offsets)]
        pairs = list(zip(*(_values(child, offsets[-1]) for child in items.children), strict=True))
        make = _map_maker(column.data_type)
        return [make(pairs[start:end]) for start, end in pairwise(offsets)]
    data = bytes(_bytes_of(column.data, "data")[: offsets[-1]])
    if tag == TypeTag.UTF8:
        if data.isascii():
            # Bytes are characters: one str for all, cut in place.
            text = data.decode("ascii")
            return [text[start:end] for start, end in pairwise(offsets)]
        return [data[start:end].decode() for start, end in pairwise(offsets)]
    return [data[start:end] for start, end in pairwise(offsets)]


def _map_maker(data_type: DataType) -> Callable[[Iterable[tuple[Any, Any]]], Any]:
    key = data_type.children[0][1]
    return list if is_nested(key) or is_vector(key) else dict


def _fixed_values(data_type: DataType, data: memoryview, rows: int, nulls: Sequence[int]) -> list[Any]:
    """Values of a fixed size. Those of `nulls` may be anything, and come out as anything."""
    tag = data_type.tag
    if tag == TypeTag.F16:
        return list(unpack(f"<{rows}e", data))
    if is_vector(data_type):
        count = rows * data_type.width
        flat = data.cast("f").tolist() if tag == TypeTag.F32VEC else list(unpack(f"<{count}e", data))
        return _cut(flat, data_type.width, rows)
    if tag == TypeTag.FIXED_BINARY:
        return _cut(bytes(data), data_type.width, rows)
    if tag == TypeTag.INTERVAL:
        return [Interval(*parts) for parts in iter_unpack("<iiq", data)]
    if value_size(data_type) == 16:
        values: list[Any] = [low + (high << 64) for low, high in iter_unpack("<Qq", data)]
    else:
        values = _cast(data, _format_of(data_type)).tolist()
    convert = _CONVERTERS.get(tag)
    if convert is None:
        return values
    for row in nulls:
        values[row] = 0
    return convert(data_type, values)


def _cut(flat: Any, width: int, rows: int) -> list[Any]:
    if width == 0:
        return [flat[:0] for _ in range(rows)]
    return [flat[start : start + width] for start in range(0, rows * width, width)]


def _decimal_values(data_type: DataType, values: list[int]) -> list[Any]:
    from decimal import Context

    # The default context would round to 28 digits.
    return list(map(Context(prec=60).scaleb, values, repeat(-data_type.scale)))


# ---- calendar ----

_EPOCH_ORDINAL = 719_163  # date(1970, 1, 1).toordinal()
_DATE_DAYS = (-719_162, 2_932_896)  # of 0001-01-01 and 9999-12-31
_DAY_SECONDS = 86_400
_UNITS_PER_SECOND = {
    TimeUnit.SECOND: 1,
    TimeUnit.MILLISECOND: 1_000,
    TimeUnit.MICROSECOND: 1_000_000,
    TimeUnit.NANOSECOND: 1_000_000_000,
}


def _date_values(data_type: DataType, values: list[int]) -> list[Any]:
    from datetime import date

    first, last = _DATE_DAYS
    make = date.fromordinal
    if values and min(values) >= first and max(values) <= last:
        return [make(days + _EPOCH_ORDINAL) for days in values]
    return [make(days + _EPOCH_ORDINAL) if first <= days <= last else _date_text(days) for days in values]


def _date_text(days: int) -> str:
    """Any day, as DuckDB prints it."""
    from datetime import date

    # The calendar repeats after 400 years.
    cycles, rest = divmod(days, 146_097)
    day = date.fromordinal(rest + _EPOCH_ORDINAL)
    year = day.year + 400 * cycles
    era = "" if year > 0 else " (BC)"
    return f"{year if year > 0 else 1 - year:04d}-{day.month:02d}-{day.day:02d}{era}"


def _clock_text(ticks: int, per_second: int) -> str:
    """A time of the day; the fraction without its last zeros."""
    sign = "-" if ticks < 0 else ""
    seconds, fraction = divmod(abs(ticks), per_second)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    digits = f".{fraction:0{len(str(per_second)) - 1}d}".rstrip("0") if fraction else ""
    return f"{sign}{hour:02d}:{minute:02d}:{second:02d}{digits}"


def _microseconds(per_second: int, values: list[int]) -> tuple[list[int], bool]:
    """In microseconds, and whether that is exact for all."""
    if per_second <= 1_000_000:
        factor = 1_000_000 // per_second
        return (values if factor == 1 else [value * factor for value in values]), True
    return [value // 1_000 for value in values], not any(value % 1_000 for value in values)


def _time_values(data_type: DataType, values: list[int]) -> list[Any]:
    from datetime import time

    per_second = _UNITS_PER_SECOND[data_type.unit]
    micros, exact = _microseconds(per_second, values)

    def make(value: int) -> datetime.time:
        seconds, fraction = divmod(value, 1_000_000)
        return time(seconds // 3_600, seconds // 60 % 60, seconds % 60, fraction)

    end = _DAY_SECONDS * 1_000_000
    if exact and values and min(micros) >= 0 and max(micros) < end:
        return list(map(make, micros))
    return [
        make(micro) if 0 <= micro < end and _is_exact(per_second, value) else _clock_text(value, per_second)
        for value, micro in zip(values, micros, strict=True)
    ]


def _is_exact(per_second: int, value: int) -> bool:
    return per_second <= 1_000_000 or value % 1_000 == 0


def _timestamp_values(data_type: DataType, values: list[int]) -> list[Any]:
    from datetime import datetime, timedelta, timezone

    per_second = _UNITS_PER_SECOND[data_type.unit]
    micros, exact = _microseconds(per_second, values)
    zone = _find_zone(data_type.zone) if data_type.zone else None
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc if zone is not None else None)  # noqa: UP017
    # A day away from both ends every zone can still say what time it is.
    first = (_DATE_DAYS[0] + 1) * _DAY_SECONDS * 1_000_000
    last = _DATE_DAYS[1] * _DAY_SECONDS * 1_000_000
    if zone is None:
        first, last = first - _DAY_SECONDS * 1_000_000, last + _DAY_SECONDS * 1_000_000

    def make(micro: int) -> datetime:
        moment = epoch + timedelta(0, 0, micro)
        return moment if zone is None else moment.astimezone(zone)

    if exact and values and min(micros) >= first and max(micros) < last:
        return list(map(make, micros))
    return [
        (make(micro) if _is_exact(per_second, value) else _timestamp_text(value, per_second, make(micro)))
        if first <= micro < last
        else _timestamp_text(value, per_second, epoch)
        for value, micro in zip(values, micros, strict=True)
    ]


def _timestamp_text(value: int, per_second: int, moment: datetime.datetime) -> str:
    """As DuckDB prints it; `moment` tells how far its zone is from UTC."""
    offset = moment.utcoffset()
    ahead = 0 if offset is None else offset.days * _DAY_SECONDS + offset.seconds
    days, ticks = divmod(value + ahead * per_second, _DAY_SECONDS * per_second)
    suffix = "" if offset is None else _offset_text(ahead)
    return f"{_date_text(days)} {_clock_text(ticks, per_second)}{suffix}"


def _offset_text(seconds: int) -> str:
    hours, rest = divmod(abs(seconds), 3_600)
    minutes = f":{rest // 60:02d}" if rest else ""
    precise = f":{rest % 60:02d}" if rest % 60 else ""
    return f"{'-' if seconds < 0 else '+'}{hours:02d}{minutes}{precise}"


def _find_zone(name: str) -> datetime.tzinfo:
    """The zone of that name, `+hh:mm` included. One that is unknown here is UTC: same moments."""
    from datetime import timedelta, timezone
    from zoneinfo import ZoneInfo

    if name[0] in "+-" and len(name) == 6 and name[3] == ":" and (name[1:3] + name[4:]).isdecimal():
        minutes = int(name[1:3]) * 60 + int(name[4:])
        if minutes < 24 * 60:
            return timezone(timedelta(minutes=-minutes if name[0] == "-" else minutes))
    try:
        # UTC itself comes out as datetime's own, which needs no files.
        return timezone.utc if name in ("UTC", "Z", "Etc/UTC") else ZoneInfo(name)  # noqa: UP017
    except (ValueError, OSError, LookupError):
        # ZoneInfoNotFoundError is a KeyError; odd names end in ValueError, names of directories in OSError.
        return timezone.utc  # noqa: UP017


_CONVERTERS: dict[TypeTag, Callable[[DataType, list[int]], list[Any]]] = {
    TypeTag.DECIMAL: _decimal_values,
    TypeTag.DATE: _date_values,
    TypeTag.TIME: _time_values,
    TypeTag.TIMESTAMP: _timestamp_values,
}


# ---- many batches: the engine does the work, here are the checks before it ----


class _Outline:
    """What a batch is, without a look at its rows."""

    __slots__ = ("columns", "row_count", "sizes")

    def __init__(self, data: Buffer) -> None:
        reader = _Reader(_bytes_of(data, "data").toreadonly(), skim=True)
        self.columns: list[tuple[str, DataType]] = []
        self.sizes: list[int] = []
        for name, tag, nulls in reader.read_header():
            start = reader.position
            column = reader.read_section(name, tag, reader.row_count, nulls)
            self.columns.append((name, column.data_type))
            self.sizes.append(reader.position - start)
        reader.expect_end()
        self.row_count = reader.row_count


def qmcb_fields(data: Buffer) -> list[tuple[str, DataType]]:
    """Names and types of a batch that is not decoded. Its values are not looked at."""
    return _Outline(data).columns


def concat_qmcb_batches(batches: Sequence[Buffer]) -> bytes:
    """One batch with the rows of all, in order. Nothing becomes Python objects on the way."""
    batches = list(batches)
    outlines = _check_alike(batches)
    if not outlines:
        return encode_columnar_batch(ColumnarBatch([], 0))
    if len(outlines) == 1:
        decode_columnar_batch(batches[0])  # refuses what is malformed
        return bytes(batches[0])
    rows = sum(outline.row_count for outline in outlines)
    if rows > ROW_COUNT_MAX:
        raise _too_large(f"{rows} rows do not fit one batch, {ROW_COUNT_MAX} do")
    for (name, _), *sizes in zip(outlines[0].columns, *(o.sizes for o in outlines), strict=True):
        if sum(sizes) > COLUMN_SIZE_MAX:
            raise _too_large(f"column {name!r} would be larger than 4 GiB")
    from querymode.engine.batch_ops import concat

    whole: bytes = concat([bytes(batch) for batch in batches])
    return whole


def concat_columnar_batches(batches: Sequence[ColumnarBatch]) -> ColumnarBatch:
    return decode_columnar_batch(concat_qmcb_batches([encode_columnar_batch(batch) for batch in batches]))


def slice_columnar_batch(batch: ColumnarBatch, offset: int, limit: int | None = None) -> ColumnarBatch:
    """Rows from `offset` on, at most `limit`; past the end there are none."""
    _check_count("offset", offset)
    if limit is not None:
        _check_count("limit", limit)
    from querymode.engine.batch_ops import take_slice

    return decode_columnar_batch(take_slice(encode_columnar_batch(batch), offset, limit))


def columnar_k_way_merge(
    batches: Sequence[ColumnarBatch],
    column: str | Sequence[str],
    direction: str | Sequence[str] = "asc",
    limit: int | None = None,
) -> ColumnarBatch:
    """Merges batches that are each sorted by `column` already.

    NULLs are last in both directions, NaN is greater than every number, and of equal rows those of
    the earlier batch come first.
    """
    names = [column] if isinstance(column, str) else list(column)
    directions = [direction] * len(names) if isinstance(direction, str) else list(direction)
    if len(directions) != len(names) or not names:
        raise error("QUERY_FAILED", f"{len(names)} columns to merge by, but {len(directions)} directions")
    for word in directions:
        if word not in ("asc", "desc"):
            raise error("QUERY_FAILED", f"a direction is 'asc' or 'desc', not {word!r}")
    if limit is not None:
        _check_count("limit", limit)
    encoded = [encode_columnar_batch(batch) for batch in batches]
    outlines = _check_alike(encoded)
    if not outlines:
        return ColumnarBatch([], 0)
    known = [name for name, _ in outlines[0].columns]
    for name in names:
        if name not in known:
            raise column_not_found(name, known)
    from querymode.engine.batch_ops import merge_sorted

    keys = [(name, word == "desc") for name, word in zip(names, directions, strict=True)]
    return decode_columnar_batch(merge_sorted(encoded, keys, limit))


def _check_count(what: str, value: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 64:
        raise error("QUERY_FAILED", f"{what} is {value!r}; it is a number of rows")


def _check_alike(batches: Sequence[Buffer]) -> list[_Outline]:
    outlines = [_Outline(batch) for batch in batches]
    for outline in outlines[1:]:
        if outline.columns != outlines[0].columns:
            raise _mismatch(outlines[0].columns, outline.columns)
    return outlines


def _mismatch(first: list[tuple[str, DataType]], other: list[tuple[str, DataType]]) -> QueryModeError:
    if len(first) != len(other):
        why = f"{len(first)} columns ({_listed(first)}) and {len(other)} ({_listed(other)})"
    else:
        pair = next((a, b) for a, b in zip(first, other, strict=True) if a != b)
        why = " and ".join(f"{name!r} of {data_type}" for name, data_type in pair)
    return error("SCHEMA_MISMATCH", f"batches with different columns do not go together: {why}")


def _listed(columns: list[tuple[str, DataType]]) -> str:
    names = ", ".join(name for name, _ in columns[:10])
    return names + (", …" if len(columns) > 10 else "")
