"""Arrow data in every way in which it can be malformed, and odd data that is not.

A case is an array made of buffers; `places` puts it into lists, structs and dictionaries; `arrow_child.py`
hands it over. What is wrong is wrong in a row that counts: under a NULL anything may lie.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: The stubs know each kind of array; here they are all alike.
pa: Any = pyarrow

ROWS = 12
_TEXTS = ["", "a", "grün", "twelve bytes", "more than twelve bytes", "some more than twelve"]


class Case(NamedTuple):
    name: str
    array: Any
    #: The buffer that was changed, before and after, where both have one size: such bytes can come in a file.
    changed: tuple[bytes, bytes] | None = None
    good: Any = None


# ---- arrays as their parts ----


class Parts(NamedTuple):
    """What `from_buffers` is given."""

    type: Any
    length: int
    buffers: list[Any]
    null_count: int = -1
    offset: int = 0
    children: tuple[Any, ...] = ()
    dictionary: Any = None

    def array(self) -> Any:
        buffers = [None if part is None else pa.py_buffer(part) for part in self.buffers]
        if self.dictionary is not None:
            return pa.DictionaryArray.from_buffers(
                self.type, self.length, buffers, self.dictionary, self.null_count, self.offset
            )
        return pa.Array.from_buffers(
            self.type, self.length, buffers, self.null_count, self.offset, list(self.children)
        )


def parts_of(array: Any) -> Parts:
    """Of an array that is not a slice. `buffers()` also has those of the children; they come behind."""
    kind, count = array.type, _own_buffers(array.type)
    given = array.buffers()
    own = given if count is None else given[:count]
    return Parts(
        kind,
        len(array),
        [None if part is None else part.to_pybytes() for part in own],
        -1,
        0,
        tuple(_children(array)),
        array.dictionary if pa.types.is_dictionary(kind) else None,
    )


def _own_buffers(kind: Any) -> int | None:
    is_view = pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)
    if is_view:
        return 3
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        return 2
    if pa.types.is_struct(kind) or pa.types.is_fixed_size_list(kind) or pa.types.is_run_end_encoded(kind):
        return 1
    return 2 if pa.types.is_dictionary(kind) else None


def _children(array: Any) -> list[Any]:
    kind = array.type
    if pa.types.is_map(kind):
        entry = pa.struct([kind.key_field, kind.item_field])
        return [pa.Array.from_buffers(entry, len(array.keys), [None], 0, 0, [array.keys, array.items])]
    if pa.types.is_struct(kind):
        return [array.field(index) for index in range(kind.num_fields)]
    if pa.types.is_run_end_encoded(kind):
        return [array.run_ends, array.values]
    return [array.values] if pa.types.is_nested(kind) else []


# ---- good arrays, one of every type ----


def good_arrays() -> dict[str, Any]:
    texts = pa.array(_TEXTS * 2)
    numbers = pa.array(range(ROWS), pa.int64())
    made = {f"{kind}": _numbers(kind, range(ROWS)) for kind in _number_types()}
    made["float16"] = pa.array(np.arange(ROWS, dtype=np.float16))
    made["bool"] = pa.array([True, False, True] * 4)
    made["null"] = pa.nulls(ROWS)
    for kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        made[f"{kind}"] = texts.cast(kind)
    for kind in (pa.string_view(), pa.binary_view()):
        made[f"{kind}"] = pa.array(_TEXTS * 2, kind)
    made["fixed_size_binary"] = pa.array([b"abc"] * ROWS, pa.binary(3))
    for kind in (pa.date64(), pa.duration("ms"), pa.timestamp("us", "UTC")):
        made[f"{kind}"] = _numbers(kind, range(0, ROWS * 86_400_000, 86_400_000))
    interval = pa.MonthDayNano([1, 2, 3])
    made["interval"] = pa.array([interval] * ROWS, pa.month_day_nano_interval())
    for kind in (pa.decimal32(7, 2), pa.decimal64(12, 2), pa.decimal128(20, 2), pa.decimal256(30, 2)):
        made[f"{kind}"] = _numbers(kind, range(ROWS))
    spans = [0, 0, 2, 3, 5, 8, 9, 12]
    made["list"] = pa.ListArray.from_arrays(pa.array(spans, pa.int32()), numbers)
    made["large_list"] = pa.LargeListArray.from_arrays(pa.array(spans, pa.int64()), numbers)
    starts, sizes = [0, 4, 2, 0, 11], [3, 4, 5, 0, 1]
    made["list_view"] = pa.ListViewArray.from_arrays(
        pa.array(starts, pa.int32()), pa.array(sizes, pa.int32()), numbers
    )
    made["large_list_view"] = pa.LargeListViewArray.from_arrays(pa.array(starts), pa.array(sizes), numbers)
    made["fixed_size_list"] = pa.FixedSizeListArray.from_arrays(numbers, 3)
    made["vector"] = pa.FixedSizeListArray.from_arrays(numbers.cast(pa.float32()), 4)
    made["struct"] = pa.StructArray.from_arrays([numbers, texts], ["n", "t"])
    made["map"] = pa.MapArray.from_arrays(pa.array(spans, pa.int32()), texts, numbers)
    made["dictionary"] = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 1] * 3, pa.int32()), texts[:3])
    made["dictionary of uint8"] = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 2] * 4, pa.uint8()), texts[:3]
    )
    for width in (pa.int16(), pa.int32(), pa.int64()):
        made[f"runs of {width}"] = pa.RunEndEncodedArray.from_arrays(
            pa.array([2, 5, ROWS], width), texts[1:4]
        )
    made["extension"] = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"x" * 16] * ROWS, pa.binary(16)))
    return made


def _numbers(kind: Any, values: range) -> Any:
    if pa.types.is_decimal(kind):
        raw = b"".join(value.to_bytes(kind.byte_width, "little") for value in values)
        return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(raw)])
    width = {4: pa.int32(), 8: pa.int64()}.get(kind.byte_width, kind)
    return pa.array(values, width if pa.types.is_temporal(kind) else kind).cast(kind)


def _number_types() -> list[Any]:
    whole = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
    times = [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]
    return [*whole, pa.float32(), pa.float64(), pa.date32(), *times]


# ---- what can be wrong ----


def malformed() -> Iterator[Case]:
    for name, array in good_arrays().items():
        yield from _of_content(name, array)


def _of_content(name: str, array: Any) -> Iterator[Case]:
    kind = array.type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    if is_text:
        for bad in (b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xc0\xaf"):
            yield from _changed(f"{name}: {bad!r}", array, 2, 9, bad)
        # Each value alone is not text, all together are.
        yield from _changed(f"{name}: a character cut in two", array, *_cut_character(array))
    if is_text or is_bytes or name in ("list", "large_list", "map"):
        yield from _of_offsets(name, array)
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        yield from _of_views(name, array)
    if name.endswith("list_view"):
        yield from _of_list_views(name, array)
    if name.startswith("dictionary"):
        yield from _of_indices(name, array)
    if name.startswith("runs"):
        yield from _of_runs(name, array)
    yield from _of_values(name, array)
    good = parts_of(array)
    if name not in ("null", "extension"):
        yield from _made(f"{name}: a negative offset", good._replace(offset=-4))


def _cut_character(array: Any) -> tuple[int, int, bytes]:
    width = 8 if pa.types.is_large_string(array.type) else 4
    offsets = np.frombuffer(array.buffers()[1], f"i{width}")
    # Behind the g, the r and the first byte of the ü of "grün".
    value = int(offsets[2]) + 3
    return 1, 3 * width, value.to_bytes(width, "little")


def _of_offsets(name: str, array: Any) -> Iterator[Case]:
    width = 8 if name.startswith("large") else 4
    count = len(array)
    top = (1 << (8 * width - 1)) - 1
    for way, row, value in (
        ("falls", 3, 0 if name in ("list", "large_list", "map") else 1),
        ("is negative", 3, -1),
        ("is far below", 3, -top),
        ("lies behind the values", 3, 10_000),
        ("is as large as can be", 3, top),
        ("ends behind the values", count, 10_000),
        ("ends at the largest", count, top),
        ("ends below 0", count, -1),
        ("begins below 0", 0, -1),
        ("begins behind the others", 0, 10_000),
    ):
        raw = value.to_bytes(width, "little", signed=True)
        changed = list(_changed(f"{name}: an offset {way}", array, 1, row * width, raw))
        yield from (case for case in changed if way != "falls" or _falls(array, row, value, width))


def _falls(array: Any, row: int, value: int, width: int) -> bool:
    offsets = np.frombuffer(array.buffers()[1], f"i{width}")
    return bool(value < offsets[row - 1])


def _of_views(name: str, array: Any) -> Iterator[Case]:
    long, short = 4, 1
    for way, row, form, at, value in (
        ("an offset behind its buffer", long, "<i", 12, 1000),
        ("an offset far behind its buffer", long, "<i", 12, (1 << 31) - 1),
        ("a negative offset", long, "<i", 12, -8),
        ("the least offset", long, "<i", 12, -(1 << 31)),
        ("a buffer that is not there", long, "<i", 8, 1),
        ("buffer 2^31 - 1", long, "<i", 8, (1 << 31) - 1),
        ("buffer -1", long, "<i", 8, -1),
        ("a length behind its buffer", long, "<i", 0, 1 << 20),
        ("the greatest length", long, "<i", 0, (1 << 31) - 1),
        ("a negative length", long, "<i", 0, -1),
        ("a negative length of a short one", short, "<i", 0, -5),
        ("another prefix", long, "<i", 4, 0x41414141),
        ("something behind a short one", short, "<i", 12, 1),
    ):
        yield from _changed(f"{name}: {way}", array, 1, row * 16 + at, struct.pack(form, value))
    if pa.types.is_string_view(array.type):
        yield from _changed(f"{name}: not UTF-8 inside", array, 1, short * 16 + 4, b"\xff")
        yield from _changed(f"{name}: not UTF-8 outside", array, 2, 14, b"\xff")


def _of_list_views(name: str, array: Any) -> Iterator[Case]:
    width = 8 if name.startswith("large") else 4
    top = (1 << (8 * width - 1)) - 1
    for way, buffer, value in (
        ("a negative size", 2, -1),
        ("the least size", 2, -top - 1),
        ("a size behind the items", 2, 1000),
        ("the greatest size", 2, top),
        ("a negative offset", 1, -1),
        ("an offset behind the items", 1, 1000),
        ("the greatest offset", 1, top),
    ):
        raw = value.to_bytes(width, "little", signed=True)
        yield from _changed(f"{name}: {way}", array, buffer, width, raw)


def _of_indices(name: str, array: Any) -> Iterator[Case]:
    if name.endswith("uint8"):
        yield from _changed(f"{name}: index 255", array, 1, 2, b"\xff")
        return
    for value in (3, -1, (1 << 31) - 1, -(1 << 31)):
        yield from _changed(f"{name}: index {value}", array, 1, 8, struct.pack("<i", value))
    good = parts_of(array)
    yield from _made(f"{name}: no dictionary", good._replace(dictionary=good.dictionary[:0]))


def _of_runs(name: str, array: Any) -> Iterator[Case]:
    kind = array.type.run_end_type
    values = array.values
    for way, ends in (
        ("falling ends", [5, 2, ROWS]),
        ("an end twice", [2, 2, ROWS]),
        ("an end of 0", [0, 5, ROWS]),
        ("a negative end", [-3, 5, ROWS]),
        ("ends before the last row", [2, 5, 7]),
        ("no ends", []),
        ("a NULL as end", [2, None, ROWS]),
    ):
        child = pa.array(ends, kind)
        children = (child, values.slice(0, len(child)))
        yield from _made(f"{name}: {way}", parts_of(array)._replace(children=children))
    yield from _made(
        f"{name}: fewer values than ends", parts_of(array)._replace(children=(array.run_ends, values[:1]))
    )


def _of_values(name: str, array: Any) -> Iterator[Case]:
    kind = array.type
    if pa.types.is_decimal(kind):
        width = kind.byte_width
        for value in (10**kind.precision, -(10**kind.precision), (1 << (8 * width - 1)) - 1):
            raw = value.to_bytes(width, "little", signed=True)
            yield from _changed(f"{name}: {value}", array, 1, 2 * width, raw)
    if pa.types.is_time(kind):
        day = 86_400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
        width = kind.byte_width
        for value in (-1, day + 1, (1 << (8 * width - 1)) - 1):
            raw = value.to_bytes(width, "little", signed=True)
            yield from _changed(f"{name}: {value}", array, 1, 2 * width, raw)
    if pa.types.is_date64(kind):
        yield from _changed(f"{name}: half a day", array, 1, 16, struct.pack("<q", 43_200_000))
        yield from _changed(f"{name}: beyond days", array, 1, 16, struct.pack("<q", 86_400_000 << 35))


def _changed(name: str, array: Any, buffer: int, at: int, raw: bytes) -> Iterator[Case]:
    """With some bytes of a buffer replaced."""
    good = parts_of(array)
    before = good.buffers[buffer]
    after = before[:at] + raw + before[at + len(raw) :]
    assert len(after) == len(before)
    assert after != before
    buffers = [*good.buffers[:buffer], after, *good.buffers[buffer + 1 :]]
    yield from _made(name, good._replace(buffers=buffers), (before, after), array)


def _made(
    name: str, parts: Parts, changed: tuple[bytes, bytes] | None = None, good: Any = None
) -> Iterator[Case]:
    """pyarrow refuses some of these itself."""
    try:
        array = parts.array()
    except (pa.ArrowException, ValueError, OverflowError, TypeError):
        return
    yield Case(name, array, changed, good)


# ---- where it lies ----


def places() -> dict[str, Callable[[Any], Any]]:
    return {
        "itself": lambda array: array,
        "in lists": lambda array: _nested(pa.list_(array.type), 1, [np.array([0, len(array)], "i4")], array),
        "in large lists": lambda array: _nested(
            pa.large_list(array.type), 1, [np.array([0, len(array)], "i8")], array
        ),
        "in list views": lambda array: _nested(
            pa.list_view(array.type), 1, [np.array([0], "i4"), np.array([len(array)], "i4")], array
        ),
        "in lists of fixed size": lambda array: _nested(pa.list_(array.type, len(array)), 1, [], array),
        "in a struct": lambda array: _nested(pa.struct([("inner", array.type)]), len(array), [], array),
        "in lists of structs": lambda array: places()["in lists"](places()["in a struct"](array)),
        "as values of a map": _map_values,
        "as a dictionary": _dictionary,
        "as values of runs": _runs,
        "in an extension": _extension,
    }


def _nested(kind: Any, count: int, buffers: list[Any], child: Any) -> Any:
    return pa.Array.from_buffers(kind, count, [None, *map(pa.py_buffer, buffers)], -1, 0, [child])


def _map_values(array: Any) -> Any:
    keys = pa.array(range(len(array)), pa.int64())
    kind = pa.map_(pa.int64(), array.type)
    entry = pa.struct([kind.key_field, kind.item_field])
    entries = pa.Array.from_buffers(entry, len(array), [None], 0, 0, [keys, array])
    return _nested(kind, 1, [np.array([0, len(array)], "i4")], entries)


def _dictionary(array: Any) -> Any:
    indices = pa.py_buffer(np.arange(len(array), dtype=np.int32))
    return pa.DictionaryArray.from_buffers(
        pa.dictionary(pa.int32(), array.type), len(array), [None, indices], array
    )


def _runs(array: Any) -> Any:
    ends = pa.array(range(1, len(array) + 1), pa.int32())
    kind = pa.run_end_encoded(pa.int32(), array.type)
    return pa.Array.from_buffers(kind, len(array), [None], 0, 0, [ends, array])


class _Wrapped(pyarrow.ExtensionType):
    def __init__(self, storage: Any) -> None:
        super().__init__(storage, "querymode.test")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: Any, _: bytes) -> _Wrapped:
        return cls(storage)


def _extension(array: Any) -> Any:
    return pa.ExtensionArray.from_storage(_Wrapped(array.type), array)


# ---- how it comes ----


class Streamed:
    """Polars, DuckDB and pandas hand their data over like this."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested: object = None) -> object:
        return self._table.__arrow_c_stream__(requested)


def table_of(array: Any) -> Any:
    """Not checked by anybody."""
    batch = pa.RecordBatch.from_arrays([array], names=["column"])
    return pa.Table.from_batches([batch])


def sent(table: Any) -> bytes:
    target = pa.BufferOutputStream()
    with pa.ipc.new_stream(target, table.schema) as writer:
        writer.write_table(table)
    written: bytes = target.getvalue().to_pybytes()
    return written


def sent_changed(good: Any, changed: tuple[bytes, bytes]) -> bytes | None:
    """A stream with the bytes changed, where they are found in it."""
    before, after = changed
    stream = sent(table_of(good))
    return stream.replace(before, after) if stream.count(before) == 1 else None


def sent_misshapen(good: Any) -> Iterator[tuple[str, bytes]]:
    """Streams that announce other lengths of arrays and buffers than they have."""
    stream = sent(table_of(good))
    message = _record_batch_at(stream)
    for what, field, names in (("array", 1, ("rows", "NULLs")), ("buffer", 2, ("place", "size"))):
        for index, at in enumerate(_structs_at(stream, message, field)):
            for name, place in zip(names, (at, at + 8), strict=True):
                (value,) = struct.unpack_from("<q", stream, place)
                for other in _other_lengths(name, value):
                    raw = struct.pack("<q", other)
                    way = f"{name} of {what} {index} {other} for {value}"
                    yield way, stream[:place] + raw + stream[place + 8 :]


def _other_lengths(name: str, value: int) -> Iterator[int]:
    if name == "place":
        return
    yield from {0, 1, value // 2, value + 100, 1 << 31, 1 << 40, (1 << 62) + 5, -1} - {value}


def _record_batch_at(stream: bytes) -> int:
    """Where the table of the record batch lies. Each message is a continuation mark, a size, a flatbuffer."""
    at = 0
    while True:
        (size,) = struct.unpack_from("<i", stream, at + 4)
        message = _table_at(stream, at + 8)
        if stream[_field_at(stream, message, 1)] == 3:  # RecordBatch
            return _table_at(stream, _field_at(stream, message, 2))
        body = _field_at(stream, message, 3)
        at += 8 + size + (struct.unpack_from("<q", stream, body)[0] if body else 0)


def _table_at(stream: bytes, at: int) -> int:
    return at + int(struct.unpack_from("<I", stream, at)[0])


def _field_at(stream: bytes, table: int, index: int) -> int:
    """0 where the table leaves it out."""
    directory = table - struct.unpack_from("<i", stream, table)[0]
    if 4 + 2 * index >= struct.unpack_from("<H", stream, directory)[0]:
        return 0
    (at,) = struct.unpack_from("<H", stream, directory + 4 + 2 * index)
    return table + int(at) if at else 0


def _structs_at(stream: bytes, table: int, field: int) -> list[int]:
    """A vector of pairs of 8 bytes each."""
    vector = _table_at(stream, _field_at(stream, table, field))
    (count,) = struct.unpack_from("<I", stream, vector)
    return [vector + 4 + 16 * index for index in range(count)]
