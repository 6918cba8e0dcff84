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

from struct import Struct, calcsize

from querymode._abi import COLUMN_COUNT_MAX, QMCB_MAGIC, ROW_COUNT_MAX, TypeTag
from querymode.engine.columnar import (
    DTYPE_BOOL,
    DTYPE_F32,
    DTYPE_F32VEC,
    DTYPE_F64,
    DTYPE_I32,
    DTYPE_I64,
    DTYPE_NULL,
    DTYPE_UTF8,
    EMPTY,
    ColumnarBatch,
    ColumnarColumn,
    batch_types,
    bitmap_size,
    bytes_of,
    cast,
    format_of,
    invalid,
    item_type,
    null_bits,
    sliced_column,
    without_tail,
    wrong,
)
from querymode.engine.python_values import column_values, columnar_batch_to_rows, read_column_value
from querymode.errors import column_not_found, error
from querymode.expr.intervals import Interval
from querymode.types import (
    DataType,
    decode_name,
    decode_tag,
    decode_type_parameters,
    encode_type_parameters,
    value_size,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from querymode.engine.views import Buffer
    from querymode.errors import QueryModeError

__all__ = [
    "COLUMN_SIZE_MAX",
    "DTYPE_BOOL",
    "DTYPE_F32",
    "DTYPE_F32VEC",
    "DTYPE_F64",
    "DTYPE_I32",
    "DTYPE_I64",
    "DTYPE_NULL",
    "DTYPE_UTF8",
    "NAME_SIZE_MAX",
    "ColumnarBatch",
    "ColumnarColumn",
    "Interval",
    "batch_types",
    "column_values",
    "columnar_batch_to_rows",
    "columnar_k_way_merge",
    "concat_columnar_batches",
    "concat_qmcb_batches",
    "decode_columnar_batch",
    "encode_columnar_batch",
    "qmcb_fields",
    "read_column_value",
    "rows_of",
    "slice_columnar_batch",
    "sliced_column",
    "view_own_batch",
    "wasm_result_to_qmcb",
]

#: Bytes of one column: bitmap, type parameters and values.
COLUMN_SIZE_MAX = 1 << 32
NAME_SIZE_MAX = 0xFFFF

_HEADER = Struct("<IIH")
#: Offsets checked at a time; more would hold many Python integers at once.
_OFFSET_BLOCK = 1 << 16
_TEXT_BLOCK = 1 << 20

_ALIGNMENTS = {"d": 8, "q": 8, "Q": 8, "f": 4, "i": 4, "I": 4, "h": 2, "H": 2, "b": 1, "B": 1}


def _too_large(what: str) -> QueryModeError:
    return error("QUERY_FAILED", f"QMCB: {what}; split it into several batches")


# ---- checks that reading and writing share ----


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


# ---- decode ----


def decode_columnar_batch(data: Buffer) -> ColumnarBatch:
    """Views over `data`, which must not change while they are used."""
    return _decode(_Reader(bytes_of(data, "data").toreadonly()))


def view_own_batch(data: Buffer) -> ColumnarBatch:
    """The same for bytes that our own engine has just written: rows are not looked at, and values may lie
    unaligned."""
    return _decode(_Reader(bytes_of(data, "data").toreadonly(), skim=True))


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
            raise invalid(f"{what}: {size} bytes wanted, {len(self.view) - start} left", offset=start)
        self.position = start + size
        return self.view[start : self.position]

    def take_flag(self) -> bool:
        value = self.take(1, "a flag")[0]
        if value > 1:
            raise invalid(f"a flag is {value}, not 0 or 1", offset=self.position - 1)
        return value == 1

    def take_values(self, format: str, size: int, alignment: int, what: str) -> memoryview:
        start = self.position
        values = self.take(size, what)
        if start % alignment and not self.skim:
            values = memoryview(bytes(values))
        return cast(values, format)

    def read_header(self) -> list[tuple[str, TypeTag, bool]]:
        magic, self.row_count, count = _HEADER.unpack(self.take(_HEADER.size, "the header"))
        if magic != QMCB_MAGIC:
            raise invalid(f"wrong magic 0x{magic:08X}", offset=0)
        if count * 4 > len(self.view) - self.position:
            raise invalid(f"{count} columns do not fit the bytes", offset=8)
        return [self.read_column_header() for _ in range(count)]

    def read_column_header(self) -> tuple[str, TypeTag, bool]:
        name, self.position = decode_name(self.view, self.position)
        tag = decode_tag(self.take(1, "a tag")[0], self.position - 1)
        return name, tag, self.take_flag()

    def expect_end(self) -> None:
        left = len(self.view) - self.position
        if left:
            raise invalid(f"{left} bytes after the last column", offset=self.position)

    def read_section(self, name: str, tag: TypeTag, rows: int, nulls: bool) -> ColumnarColumn:
        start = self.position
        bitmap = self.read_bitmap(rows, nulls)
        data_type, self.position = decode_type_parameters(self.view, self.position, tag)
        column = self.read_body(name, data_type, rows, bitmap)
        if self.position - start > COLUMN_SIZE_MAX:
            raise invalid("a column is larger than 4 GiB", offset=start, column=name)
        return column

    def read_child(self, name: str, data_type: DataType, rows: int) -> ColumnarColumn:
        bitmap = self.read_bitmap(rows, self.take_flag())
        return self.read_body(name, data_type, rows, bitmap)

    def read_bitmap(self, rows: int, nulls: bool) -> memoryview | None:
        return self.take(bitmap_size(rows), "a null bitmap") if nulls else None

    def read_body(
        self, name: str, data_type: DataType, rows: int, bitmap: memoryview | None
    ) -> ColumnarColumn:
        column = ColumnarColumn(name, data_type.tag, EMPTY, rows, null_bitmap=bitmap, data_type=data_type)
        tag = data_type.tag
        if tag == TypeTag.NULL:
            column.null_bitmap = None
        elif tag == TypeTag.BOOL:
            column.data = self.take(bitmap_size(rows), "values")
        elif tag in (TypeTag.UTF8, TypeTag.BINARY):
            self.read_text(column)
        elif tag in (TypeTag.LIST, TypeTag.MAP):
            column.offsets = self.read_offsets(rows)
            column.children = (self.read_child("item", item_type(data_type), column.offsets[rows]),)
        elif tag == TypeTag.STRUCTURE:
            column.children = tuple(
                self.read_child(field, child, rows) for field, child in data_type.children
            )
        else:
            format = format_of(data_type)
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
            raise invalid(f"text of {size} bytes, but the last offset is {last}", offset=start)
        text_start = self.position
        column.data = self.take(size, "text")
        if column.dtype == DTYPE_UTF8 and not self.skim:
            bad = _find_bad_text(column.data, column.offsets)
            if bad is not None:
                raise invalid(bad[0], offset=text_start + bad[1], column=column.name)

    def read_offsets(self, rows: int) -> memoryview:
        start = self.position
        offsets = self.take_values("I", (rows + 1) * 4, 4, "offsets")
        if offsets[0] != 0:
            raise invalid(f"the first offset is {offsets[0]}, not 0", offset=start)
        fall = None if self.skim else _first_fall(offsets)
        if fall is not None:
            raise invalid("offsets fall", offset=start + fall * 4)
        return offsets


def wasm_result_to_qmcb(memory: Buffer, pointer: int, size: int) -> bytes:
    """Copies a finished result out of linear memory, where the next call may overwrite it."""
    view = bytes_of(memory, "memory")
    if pointer < 0 or size < 0 or pointer + size > len(view):
        raise invalid(f"{size} bytes at {pointer} do not lie in a memory of {len(view)}", offset=pointer)
    result = bytes(view[pointer : pointer + size])
    if len(result) < _HEADER.size or _HEADER.unpack_from(result)[0] != QMCB_MAGIC:
        raise invalid("the result does not begin with the magic", offset=0)
    return result


def rows_of(batches: Iterable[bytes]) -> list[dict[str, Any]]:
    """All rows of QMCB batches, as dicts."""
    return [row for batch in batches for row in columnar_batch_to_rows(decode_columnar_batch(batch))]


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
            raise wrong(column, f"has {column.row_count} rows, the batch {rows}")
        name = _encode_name(column)
        bitmap = null_bits(column, rows)
        headers += (len(name).to_bytes(2, "little"), name, bytes((column.dtype, bitmap is not None)))
        section: list[Buffer] = [bitmap] if bitmap is not None else []
        section.append(encode_type_parameters(column.data_type))
        _encode_body(section, column, rows)
        if sum(memoryview(part).nbytes for part in section) > COLUMN_SIZE_MAX:
            raise _too_large(f"column {column.name!r} is larger than 4 GiB")
        sections += section
    return b"".join(headers + sections)


def _encode_name(column: ColumnarColumn) -> bytes:
    try:
        name = column.name.encode()
    except UnicodeEncodeError as cause:
        raise wrong(column, "has a name that is not valid Unicode") from cause
    if len(name) > NAME_SIZE_MAX:
        raise _too_large(f"a column's name has at most {NAME_SIZE_MAX} bytes, not {len(name)}")
    return name


def _data_of(column: ColumnarColumn, size: int, rows: int) -> memoryview:
    """The first `size` bytes. A column that is used whole must have no more."""
    data = bytes_of(column.data, f"the data of column {column.name!r}")
    _check_format(column)
    if len(data) < size or (rows == column.row_count and len(data) != size):
        raise wrong(column, f"has {len(data)} bytes of data, {rows} rows need {size}")
    return data[:size]


def _check_format(column: ColumnarColumn) -> None:
    """Values of another kind would be read as nonsense: integers as floats, eight bytes as four."""
    given = memoryview(column.data)
    if given.nbytes == 0 or given.itemsize == 1:
        return
    tag = column.data_type.tag
    wanted = {TypeTag.F32VEC: "f", TypeTag.F16VEC: "H"}.get(tag, format_of(column.data_type))
    kinds = ["f" if code.lstrip("<=@") in ("f", "d", "e") else "i" for code in (given.format, wanted)]
    same_kind = kinds[0] == kinds[1] or tag in (TypeTag.F16, TypeTag.F16VEC)
    if not same_kind or given.itemsize != calcsize(wanted):
        raise wrong(column, f"is {column.data_type}, but its data has the format {given.format!r}")


def _offsets_of(column: ColumnarColumn, rows: int) -> memoryview:
    offsets = bytes_of(column.offsets if column.offsets is not None else b"", "offsets")
    if offsets is not EMPTY and memoryview(column.offsets).itemsize not in (1, 4):
        raise wrong(column, "needs offsets of 4 bytes (uint32)")
    if len(offsets) % 4 or len(offsets) // 4 <= rows:
        raise wrong(column, f"needs {rows + 1} offsets of 4 bytes, not {len(offsets)} bytes")
    offsets = offsets[: (rows + 1) * 4].cast("I")
    if offsets[0] != 0 or _first_fall(offsets) is not None:
        raise wrong(column, "has offsets that do not begin with 0 or that fall")
    return offsets


def _encode_body(parts: list[Buffer], column: ColumnarColumn, rows: int) -> None:
    """`rows` may be fewer than the column has: a list may use only the first items of its child."""
    data_type, tag = column.data_type, column.data_type.tag
    if rows > column.row_count:
        raise wrong(column, f"has {column.row_count} rows, {rows} are used")
    if rows == 0:
        # No text, first offsets, no NULLs: zeros, as many as the type says.
        parts.append(bytes(_empty_body_size(data_type)))
    elif tag == TypeTag.BOOL:
        parts.append(without_tail(bytes(_data_of(column, bitmap_size(rows), rows)), rows))
    elif tag in (TypeTag.UTF8, TypeTag.BINARY):
        _encode_text(parts, column, rows)
    elif tag in (TypeTag.LIST, TypeTag.MAP):
        offsets = _offsets_of(column, rows)
        parts.append(offsets)
        _encode_children(parts, column, (item_type(data_type),), offsets[rows])
    elif tag == TypeTag.STRUCTURE:
        _encode_children(parts, column, tuple(child for _, child in data_type.children), rows)
    elif tag != TypeTag.NULL:
        parts.append(_data_of(column, rows * value_size(data_type), rows))


def _encode_text(parts: list[Buffer], column: ColumnarColumn, rows: int) -> None:
    offsets = _offsets_of(column, rows)
    data = bytes_of(column.data, f"the data of column {column.name!r}")
    if offsets[rows] > len(data):
        raise wrong(column, f"has {len(data)} bytes of text, the last offset is {offsets[rows]}")
    text = data[: offsets[rows]]
    bad = _find_bad_text(text, offsets) if column.dtype == DTYPE_UTF8 else None
    if bad is not None:
        raise wrong(column, f"is wrong at byte {bad[1]} of its text: {bad[0]}")
    parts += (len(text).to_bytes(4, "little"), offsets, text)


def _encode_children(
    parts: list[Buffer], column: ColumnarColumn, types: tuple[DataType, ...], rows: int
) -> None:
    if tuple(child.data_type for child in column.children) != types:
        found = ", ".join(str(child.data_type) for child in column.children)
        raise wrong(column, f"has children of other types: {found or 'none'}")
    for child in column.children:
        bitmap = null_bits(child, rows)
        parts.append(bytes((bitmap is not None,)))
        if bitmap is not None:
            parts.append(bitmap)
        _encode_body(parts, child, rows)


def _empty_body_size(data_type: DataType) -> int:
    if data_type.tag in (TypeTag.UTF8, TypeTag.BINARY):
        return 8
    if data_type.tag in (TypeTag.LIST, TypeTag.MAP):
        return 5 + _empty_body_size(item_type(data_type))
    return sum(1 + _empty_body_size(child) for _, child in data_type.children)


# ---- many batches: the engine does the work, here are the checks before it ----


class _Outline:
    """What a batch is, without a look at its rows."""

    __slots__ = ("columns", "row_count", "sizes")

    def __init__(self, data: Buffer) -> None:
        reader = _Reader(bytes_of(data, "data").toreadonly(), skim=True)
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
