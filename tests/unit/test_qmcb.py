"""QMCB: golden bytes, round trips, Python values at the exit, and that hostile bytes are refused."""

from __future__ import annotations

import datetime
import pickle
import random
import struct
from array import array
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querymode import qmcb, types
from querymode._abi import TYPE_DEPTH_MAX, TimeUnit, TypeTag
from querymode.errors import InvalidFormatError, QueryModeError
from querymode.qmcb import (
    ColumnarBatch,
    ColumnarColumn,
    Interval,
    batch_types,
    column_values,
    columnar_batch_to_rows,
    decode_columnar_batch,
    encode_columnar_batch,
    qmcb_fields,
    read_column_value,
    wasm_result_to_qmcb,
)
from querymode.types import DataType
from tests.raises import raises_code

ZERO = b"\0\0\0\0"
UTC = datetime.timezone.utc  # noqa: UP017


def u32(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


def one(column: ColumnarColumn) -> ColumnarBatch:
    return ColumnarBatch([column], column.row_count)


def values_of(data_type: DataType, data: bytes, rows: int, nulls: bytes | None = None) -> list[Any]:
    """The Python values of a column that went through QMCB; both ways of reading agree."""
    column = ColumnarColumn("x", data_type.tag, data, rows, null_bitmap=nulls, data_type=data_type)
    column = decode_columnar_batch(encode_columnar_batch(one(column))).columns[0]
    values = column_values(column)
    assert repr(values) == repr([read_column_value(column, row) for row in range(rows)])
    return values


def text_column(name: str, texts: list[str | None]) -> ColumnarColumn:
    raw = [(text or "").encode() for text in texts]
    offsets, bitmap = array("I", [0]), bytearray((len(texts) + 7) // 8)
    for row, piece in enumerate(raw):
        offsets.append(offsets[-1] + len(piece))
        bitmap[row >> 3] |= (texts[row] is None) << (row & 7)
    return ColumnarColumn(name, 2, b"".join(raw), len(texts), offsets, null_bitmap=bitmap)


def int_column(name: str, values: list[int]) -> ColumnarColumn:
    return ColumnarColumn(name, qmcb.DTYPE_I64, array("q", values), len(values))


# ---- golden bytes: the same as in wasm/src/qmcb.zig ----

HEAD = b"QMCB\x03\0\0\0\x01\0\x01\0x"
GOLDEN: dict[int, tuple[bytes, list[Any]]] = {
    qmcb.DTYPE_F64: (b"\0\0" + struct.pack("<3d", 1.5, -2, 0), [1.5, -2.0, 0.0]),
    qmcb.DTYPE_I64: (b"\x01\x01\x02" + struct.pack("<3q", 1, 0, -1), [1, None, -1]),
    qmcb.DTYPE_UTF8: (b"\x02\0" + u32(5) + u32(0, 2, 2, 5) + "hi€".encode(), ["hi", "", "€"]),
    qmcb.DTYPE_BOOL: (b"\x03\0\x05", [True, False, True]),
    qmcb.DTYPE_F32VEC: (b"\x04\0" + u32(2) + struct.pack("<6f", *range(6)), [[0, 1], [2, 3], [4, 5]]),
    qmcb.DTYPE_NULL: (b"\x05\0", [None, None, None]),
    qmcb.DTYPE_I32: (b"\x06\0" + struct.pack("<3i", 1, -2, 0x7FFF_FFFF), [1, -2, 0x7FFF_FFFF]),
    qmcb.DTYPE_F32: (b"\x07\0" + struct.pack("<3f", 0.5, float("inf"), -0.0), [0.5, float("inf"), -0.0]),
}


@pytest.mark.parametrize("dtype", GOLDEN)
def test_golden_base_tags(dtype: int) -> None:
    section, values = GOLDEN[dtype]
    batch = decode_columnar_batch(HEAD + section)
    assert batch.row_count == 3
    assert (batch.names, batch.columns[0].dtype) == (["x"], dtype)
    assert columnar_batch_to_rows(batch) == [{"x": value} for value in values]
    assert encode_columnar_batch(batch) == HEAD + section


def test_golden_encode_of_hand_made_columns() -> None:
    made = {
        qmcb.DTYPE_F64: ColumnarColumn("x", 0, np.array([1.5, -2, 0]).data, 3),
        qmcb.DTYPE_I64: ColumnarColumn("x", 1, array("q", [1, 0, -1]), 3, null_bitmap=b"\xfa"),
        qmcb.DTYPE_UTF8: text_column("x", ["hi", "", "€"]),
        qmcb.DTYPE_BOOL: ColumnarColumn("x", 3, b"\xfd", 3),
        qmcb.DTYPE_F32VEC: ColumnarColumn(
            "x", 4, np.arange(6, dtype=np.float32).reshape(3, 2).data, 3, vector_dim=2
        ),
        qmcb.DTYPE_NULL: ColumnarColumn("x", 5, b"", 3, null_bitmap=b"\x07"),
        qmcb.DTYPE_I32: ColumnarColumn("x", 6, array("i", [1, -2, 0x7FFF_FFFF]), 3, null_bitmap=b"\xf8"),
        qmcb.DTYPE_F32: ColumnarColumn("x", 7, array("f", [0.5, float("inf"), -0.0]), 3),
    }
    assert {dtype: encode_columnar_batch(one(column)) for dtype, column in made.items()} == {
        dtype: HEAD + section for dtype, (section, _) in GOLDEN.items()
    }


HEAD2 = b"QMCB\x02\0\0\0\x01\0\0\0"
GOLDEN_NESTED = [
    (HEAD2 + b"\x18\x01\x01\x09" + u32(0, 0, 2) + b"\0\x05\0\x06\0", [None, [5, 6]]),
    (
        HEAD2 + b"\x1a\0\x02\x08" + u32(0, 1, 1) + b"\0\0" + u32(1, 0, 1) + b"k\x01\x01\x07",
        [{"k": None}, {}],
    ),
    (
        HEAD2 + b"\x19\0\x02\0\x01\0n\x05\x01\0d\x10\x12\xff\0\x01\x02" + struct.pack("<2q", 1, 2),
        [{"n": None, "d": Decimal("1E+1")}, {"n": None, "d": None}],
    ),
]


@pytest.mark.parametrize(("golden", "values"), GOLDEN_NESTED)
def test_golden_nested(golden: bytes, values: list[object]) -> None:
    batch = decode_columnar_batch(golden)
    assert column_values(batch.columns[0]) == values
    assert [read_column_value(batch.columns[0], row) for row in range(2)] == values
    assert encode_columnar_batch(batch) == golden


def test_no_columns_and_no_rows() -> None:
    empty = b"QMCB" + ZERO + b"\0\0"
    assert encode_columnar_batch(ColumnarBatch([], 0)) == empty
    assert columnar_batch_to_rows(decode_columnar_batch(empty)) == []
    assert columnar_batch_to_rows(decode_columnar_batch(b"QMCB" + u32(2) + b"\0\0")) == [{}, {}]


def test_reads_what_it_would_write_otherwise() -> None:
    loose = (
        b"QMCB" + u32(3) + b"\x03\0" + b"\0\0\x03\x01" + b"\0\0\x05\x01" + b"\0\0\x08\x01"
        b"\xf8\xfa"
        b"\xff"
        b"\xfc\x01\x02\x03"
    )
    batch = decode_columnar_batch(loose)
    assert [column_values(column) for column in batch.columns] == [
        [False, True, False],
        [None, None, None],
        [1, 2, None],
    ]
    strict = (
        b"QMCB" + u32(3) + b"\x03\0" + b"\0\0\x03\0" + b"\0\0\x05\0" + b"\0\0\x08\x01\x02\x04\x01\x02\x03"
    )
    assert encode_columnar_batch(batch) == strict


# ---- views ----


def test_numbers_are_typed_views_where_aligned_and_copies_elsewhere() -> None:
    for name in ("", "a", "ab", "abc", "abcd", "abcde", "abcdef", "abcdefg"):
        data = encode_columnar_batch(one(ColumnarColumn(name, 0, array("d", [1.5, 2.5]), 2)))
        view = decode_columnar_batch(data).columns[0].data
        assert view.format == "d"
        assert view.readonly
        assert view[1] == 2.5
        assert (view.obj is data) == ((14 + len(name)) % 8 == 0)
        numbers = np.frombuffer(view, dtype=np.float64)
        assert numbers.flags.aligned
        assert numbers.tolist() == [1.5, 2.5]


def test_formats_of_views() -> None:
    formats = {types.INT64: "q", types.INT32: "i", types.FLOAT32: "f", types.UINT16: "H", types.DATE: "i"}
    formats |= {types.time(): "q", types.decimal(5): "q", types.decimal(38): "B", types.FLOAT16: "H"}
    formats |= {types.vector(2): "f", types.INT128: "B", types.UINT64: "Q", types.INT8: "b"}
    for data_type, format in formats.items():
        column = ColumnarColumn(
            "x", data_type.tag, bytes(types.value_size(data_type)), 1, data_type=data_type
        )
        view = decode_columnar_batch(encode_columnar_batch(one(column))).columns[0].data
        assert view.format == format, data_type
        assert view.nbytes == types.value_size(data_type)


def test_decodes_from_any_buffer() -> None:
    data = HEAD + GOLDEN[qmcb.DTYPE_UTF8][0]
    for buffer in (bytearray(data), memoryview(data), np.frombuffer(data, np.uint8).data, array("b", data)):
        column = decode_columnar_batch(buffer).columns[0]
        assert column.offsets.format == "I"
        assert column.offsets.tolist() == [0, 2, 2, 5]
        assert column_values(column) == ["hi", "", "€"]


def test_batches_pickle() -> None:
    batch = ColumnarBatch([int_column("i", [1, 2]), text_column("t", ["a", None])], 2)
    again = pickle.loads(pickle.dumps(batch))
    assert columnar_batch_to_rows(again) == [{"i": 1, "t": "a"}, {"i": 2, "t": None}]
    assert "i: int64" in repr(again)
    assert repr(again.columns[1]) == "<ColumnarColumn 't' utf8, 2 rows>"


# ---- values ----


def test_small_numbers() -> None:
    assert values_of(types.INT8, b"\x80\x7f\0", 3, b"\x04") == [-128, 127, None]
    assert values_of(types.UINT8, b"\xff", 1) == [255]
    assert values_of(types.INT16, struct.pack("<h", -5), 1) == [-5]
    assert values_of(types.UINT16, b"\xff\xff", 1) == [65_535]
    assert values_of(types.UINT32, b"\xff" * 4, 1) == [2**32 - 1]
    assert values_of(types.UINT64, b"\xff" * 8, 1) == [2**64 - 1]
    assert values_of(types.FLOAT16, struct.pack("<2e", 1.5, -65504), 2) == [1.5, -65504.0]
    assert values_of(types.vector(2, half=True), struct.pack("<4e", 1, 2, 3, 4), 2, b"\x01") == [None, [3, 4]]
    assert values_of(types.vector(0), b"", 2) == [[], []]
    assert values_of(types.fixed_binary(2), b"abcd", 2) == [b"ab", b"cd"]
    assert values_of(types.fixed_binary(0), b"", 2) == [b"", b""]


def test_wide_numbers() -> None:
    numbers = [0, 1, -1, 2**127 - 1, -(2**127), 10**38 - 1, -(2**64), 2**63]
    raw = b"".join(number.to_bytes(16, "little", signed=True) for number in numbers)
    assert values_of(types.INT128, raw, len(numbers)) == numbers
    nines = (10**38 - 1).to_bytes(16, "little", signed=True)
    [value] = values_of(types.decimal(38, 5), nines, 1)
    assert str(value) == "9" * 33 + "." + "9" * 5
    values = values_of(types.decimal(12, 2), struct.pack("<3q", 150, -5, 0), 3)
    assert [str(value) for value in values] == ["1.50", "-0.05", "0.00"]
    assert values_of(types.decimal(3, -2), struct.pack("<q", 5), 1) == [Decimal(500)]


def test_bytes_and_intervals() -> None:
    column = ColumnarColumn("b", TypeTag.BINARY, b"\xff\0x", 2, u32(0, 2, 3))
    assert columnar_batch_to_rows(one(column)) == [{"b": b"\xff\0"}, {"b": b"x"}]
    raw = struct.pack("<iiq", -1, 2, -3) + bytes(16)
    [interval, _] = values_of(types.INTERVAL, raw, 2)
    assert interval == (-1, 2, -3)
    assert (interval.months, interval.days, interval.nanoseconds) == (-1, 2, -3)
    assert pickle.loads(pickle.dumps(interval)) == interval
    assert repr(interval) == "Interval(months=-1, days=2, nanoseconds=-3)"
    assert Interval() == (0, 0, 0)


@pytest.mark.parametrize(
    ("days", "value"),
    [
        (0, datetime.date(1970, 1, 1)),
        (-1, datetime.date(1969, 12, 31)),
        (-719_162, datetime.date(1, 1, 1)),
        (2_932_896, datetime.date(9999, 12, 31)),
        (2_932_897, "10000-01-01"),
        (-719_163, "0001-12-31 (BC)"),
        (-735_160, "0044-03-15 (BC)"),
        (2**31 - 1, "5881580-07-11"),
        (-(2**31), "5877642-06-23 (BC)"),
    ],
)
def test_dates(days: int, value: object) -> None:
    assert values_of(types.DATE, struct.pack("<i", days), 1) == [value]
    # Together with others, and with NULLs over whatever bytes.
    raw = struct.pack("<3i", 0, days, -(2**31))
    assert values_of(types.DATE, raw, 3, b"\x04") == [datetime.date(1970, 1, 1), value, None]


@pytest.mark.parametrize(
    ("unit", "ticks", "value"),
    [
        (TimeUnit.SECOND, 3_661, datetime.time(1, 1, 1)),
        (TimeUnit.MILLISECOND, 1, datetime.time(0, 0, 0, 1_000)),
        (TimeUnit.MICROSECOND, 86_399_999_999, datetime.time(23, 59, 59, 999_999)),
        (TimeUnit.NANOSECOND, 5_000, datetime.time(0, 0, 0, 5)),
        (TimeUnit.NANOSECOND, 1_000_000_010, "00:00:01.00000001"),
        (TimeUnit.MICROSECOND, 86_400_000_000, "24:00:00"),
        (TimeUnit.SECOND, -1, "-00:00:01"),
    ],
)
def test_times(unit: TimeUnit, ticks: int, value: object) -> None:
    assert values_of(types.time(unit), struct.pack("<q", ticks), 1) == [value]


@pytest.mark.parametrize(
    ("unit", "ticks", "value"),
    [
        (TimeUnit.SECOND, 1, datetime.datetime(1970, 1, 1, 0, 0, 1)),
        (TimeUnit.MILLISECOND, -1, datetime.datetime(1969, 12, 31, 23, 59, 59, 999_000)),
        (TimeUnit.MICROSECOND, 1_704_067_200_000_001, datetime.datetime(2024, 1, 1, 0, 0, 0, 1)),
        (TimeUnit.NANOSECOND, 1_704_067_200_000_001_000, datetime.datetime(2024, 1, 1, 0, 0, 0, 1)),
        (TimeUnit.NANOSECOND, 1_704_067_200_123_456_789, "2024-01-01 00:00:00.123456789"),
        (TimeUnit.NANOSECOND, -1, "1969-12-31 23:59:59.999999999"),
        (TimeUnit.SECOND, -62_135_596_800, datetime.datetime(1, 1, 1)),
        (TimeUnit.MICROSECOND, 253_402_300_799_999_999, datetime.datetime.max),
        (TimeUnit.SECOND, 253_402_300_800, "10000-01-01 00:00:00"),
        (TimeUnit.SECOND, -62_135_596_801, "0001-12-31 (BC) 23:59:59"),
        (TimeUnit.SECOND, 2**63 - 1, "292277026596-12-04 15:30:07"),
    ],
)
def test_timestamps(unit: TimeUnit, ticks: int, value: object) -> None:
    assert values_of(types.timestamp(unit), struct.pack("<q", ticks), 1) == [value]
    raw = struct.pack("<3q", 0, ticks, -(2**63))
    assert values_of(types.timestamp(unit), raw, 3, b"\x04") == [datetime.datetime(1970, 1, 1), value, None]


def test_timestamps_with_a_zone() -> None:
    def at(zone: str, ticks: int, unit: TimeUnit = TimeUnit.SECOND) -> Any:
        return values_of(types.timestamp(unit, zone), struct.pack("<q", ticks), 1)[0]

    berlin = at("Europe/Berlin", 1_704_067_200)
    assert berlin.isoformat() == "2024-01-01T01:00:00+01:00"
    assert berlin.tzinfo == ZoneInfo("Europe/Berlin")
    # The hour that comes twice: same clock, different moments.
    twice = [at("Europe/Berlin", seconds) for seconds in (1_729_987_200, 1_729_990_800)]
    assert [moment.isoformat() for moment in twice] == [
        "2024-10-27T02:00:00+02:00",
        "2024-10-27T02:00:00+01:00",
    ]
    assert at("+05:30", 0).isoformat() == "1970-01-01T05:30:00+05:30"
    assert at("-00:30", 0).isoformat() == "1969-12-31T23:30:00-00:30"
    assert at("Asia/Kolkata", 1, TimeUnit.NANOSECOND) == "1970-01-01 05:30:00.000000001+05:30"
    assert at("Asia/Tokyo", 253_402_300_800) == "10000-01-01 00:00:00+00"
    for strange in ("Not/AZone", "../../etc/passwd", "/etc/passwd", "Europe", "+99:99", "a\0b", " ", "+1"):
        assert at(strange, 5) == datetime.datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)


def test_nested_values() -> None:
    pair = types.struct_of([("a", types.INT8), ("t", types.UTF8)])
    child = ColumnarColumn(
        "item",
        TypeTag.STRUCTURE,
        b"",
        3,
        data_type=pair,
        null_bitmap=b"\x02",
        children=[ColumnarColumn("a", TypeTag.I8, b"\1\2\3", 3), text_column("t", ["x", "y", None])],
    )
    lists = ColumnarColumn(
        "l", TypeTag.LIST, b"", 2, u32(0, 2, 3), data_type=types.list_of(pair), children=[child]
    )
    wanted = [[{"a": 1, "t": "x"}, None], [{"a": 3, "t": None}]]
    batch = decode_columnar_batch(encode_columnar_batch(one(lists)))
    assert column_values(batch.columns[0]) == wanted
    assert [read_column_value(batch.columns[0], row) for row in range(2)] == wanted


def test_a_map_whose_keys_cannot_be_keys_is_a_list_of_pairs() -> None:
    data_type = types.map_of(types.vector(1), types.BOOL)
    entries = ColumnarColumn(
        "item",
        TypeTag.STRUCTURE,
        b"",
        2,
        data_type=types.map_entries(data_type),
        children=[
            ColumnarColumn("key", 4, array("f", [1, 2]), 2, vector_dim=1),
            ColumnarColumn("value", 3, b"\x01", 2),
        ],
    )
    column = ColumnarColumn("m", TypeTag.MAP, b"", 1, u32(0, 2), data_type=data_type, children=[entries])
    assert column_values(column) == [[([1.0], True), ([2.0], False)]]
    assert read_column_value(column, 0) == column_values(column)[0]


def test_many_columns_and_twice_the_same_name() -> None:
    for count in (1, 2, 99, 100, 101, 300):
        batch = ColumnarBatch([int_column(f"c{index}", [index, -index]) for index in range(count)], 2)
        assert columnar_batch_to_rows(batch) == [
            {f"c{index}": index for index in range(count)},
            {f"c{index}": -index for index in range(count)},
        ]
    twice = ColumnarBatch([int_column("a", [1]), int_column("a", [2])], 1)
    assert columnar_batch_to_rows(decode_columnar_batch(encode_columnar_batch(twice))) == [{"a": 2}]


def test_long_text_is_checked_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qmcb, "_TEXT_BLOCK", 16)
    monkeypatch.setattr(qmcb, "_OFFSET_BLOCK", 5)
    for character in ("é", "€", "𝄞"):
        texts = ["a" * (row % 5) + character * (row % 7) for row in range(60)]
        data = encode_columnar_batch(one(text_column("t", list(texts))))
        assert column_values(decode_columnar_batch(data).columns[0]) == texts
        start = len(data) - sum(len(text.encode()) for text in texts)
        for position in range(start, len(data)):
            if data[position] >= 0x80:
                with pytest.raises(InvalidFormatError):
                    decode_columnar_batch(data[:position] + b"\xff" + data[position + 1 :])


def test_read_column_value_knows_its_rows() -> None:
    for row in (-1, 2):
        with pytest.raises(IndexError):
            read_column_value(int_column("i", [1, 2]), row)


# ---- round trips ----

LEAF_TYPES: st.SearchStrategy[DataType] = st.one_of(
    st.sampled_from(list(types.PLAIN_TYPES.values())),
    st.builds(types.decimal, st.integers(1, 38), st.integers(-38, 38)),
    st.builds(types.fixed_binary, st.integers(0, 3)),
    st.builds(types.time, st.sampled_from(list(TimeUnit))),
    st.builds(types.timestamp, st.sampled_from(list(TimeUnit)), st.sampled_from(["", "UTC", "Asia/Tokyo"])),
    st.builds(types.vector, st.integers(0, 3), half=st.booleans()),
)
NAMES = st.text(st.characters(codec="utf-8"), max_size=4)
TYPES = st.recursive(
    LEAF_TYPES,
    lambda inner: st.one_of(
        st.builds(types.list_of, inner),
        st.builds(types.map_of, inner, inner),
        st.builds(types.struct_of, st.lists(st.tuples(NAMES, inner), max_size=3)),
    ),
    max_leaves=5,
)


def random_column(source: random.Random, name: str, data_type: DataType, rows: int) -> ColumnarColumn:
    """Any values of that type; lists may leave items of their child unused."""
    bitmap = source.choice([None, source.randbytes((rows + 7) // 8), bytes((rows + 7) // 8)])
    column = ColumnarColumn(name, data_type.tag, b"", rows, null_bitmap=bitmap, data_type=data_type)
    tag = data_type.tag
    if tag == TypeTag.BOOL:
        column.data = source.randbytes((rows + 7) // 8)
    elif types.has_offsets(data_type):
        offsets = array("I", [0])
        pieces = [source.choice(["", "a", "€", "größe", "𝄞"]).encode() for _ in range(rows)]
        text = tag in (TypeTag.UTF8, TypeTag.BINARY)
        for piece in pieces:
            offsets.append(offsets[-1] + (len(piece) if text else source.randrange(3)))
        column.offsets, column.data = offsets, b"".join(pieces) if text else b""
        if not text:
            is_map = tag == TypeTag.MAP
            item = types.map_entries(data_type) if is_map else data_type.children[0][1]
            column.children = (random_column(source, "item", item, offsets[-1] + source.randrange(2)),)
    elif tag == TypeTag.STRUCTURE:
        column.children = tuple(random_column(source, field, t, rows) for field, t in data_type.children)
    else:
        column.data = source.randbytes(rows * types.value_size(data_type))
    return column


@st.composite
def batches(draw: st.DrawFn) -> ColumnarBatch:
    rows = draw(st.integers(0, 20))
    columns = draw(st.lists(st.tuples(NAMES, TYPES), max_size=4))
    source = draw(st.randoms(use_true_random=False))
    return ColumnarBatch([random_column(source, name, t, rows) for name, t in columns], rows)


@settings(deadline=None, max_examples=150)
@given(batches())
def test_round_trip(batch: ColumnarBatch) -> None:
    data = encode_columnar_batch(batch)
    again = decode_columnar_batch(data)
    assert again.names == batch.names
    assert batch_types(again) == batch_types(batch)
    assert qmcb_fields(data) == list(zip(batch.names, batch_types(batch), strict=True))
    assert repr(columnar_batch_to_rows(again)) == repr(columnar_batch_to_rows(batch))
    for column in again.columns:
        one_by_one = [read_column_value(column, row) for row in range(again.row_count)]
        assert repr(one_by_one) == repr(column_values(column))
    assert encode_columnar_batch(again) == data


@pytest.mark.parametrize("tag", list(TypeTag))
@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9, 64])
def test_every_type_round_trips(tag: TypeTag, rows: int) -> None:
    parametric = {
        TypeTag.DECIMAL: types.decimal(20, 3),
        TypeTag.FIXED_BINARY: types.fixed_binary(3),
        TypeTag.TIME: types.time(),
        TypeTag.TIMESTAMP: types.timestamp(TimeUnit.NANOSECOND, "UTC"),
        TypeTag.F32VEC: types.vector(3),
        TypeTag.F16VEC: types.vector(3, half=True),
        TypeTag.LIST: types.list_of(types.list_of(types.UTF8)),
        TypeTag.STRUCTURE: types.struct_of([("a", types.BOOL), ("b", types.list_of(types.INT16))]),
        TypeTag.MAP: types.map_of(types.UTF8, types.INT8),
    }
    data_type = parametric[tag] if tag in parametric else types.PLAIN_TYPES[tag]
    for seed in range(5):
        column = random_column(random.Random(seed), "c", data_type, rows)
        data = encode_columnar_batch(one(column))
        again = decode_columnar_batch(data)
        assert encode_columnar_batch(again) == data
        assert repr(column_values(again.columns[0])) == repr(column_values(column))


def test_without_rows_neither_offsets_nor_children_are_needed() -> None:
    data_type = types.struct_of(
        [("l", types.list_of(types.UTF8)), ("m", types.map_of(types.UTF8, types.INT8))]
    )
    for kind in (data_type, types.list_of(data_type), types.UTF8):
        data = encode_columnar_batch(one(ColumnarColumn("e", kind.tag, b"", 0, data_type=kind)))
        assert encode_columnar_batch(decode_columnar_batch(data)) == data


# ---- hostile bytes: the same list as in wasm/src/qmcb.zig ----

ONE2 = b"QMCB" + u32(2) + b"\x01\0\0\0"
MANY = b"QMCB\xff\xff\xff\xff\x01\0\0\0"
BAD = {
    "nothing": b"",
    "magic": b"QMCC" + ZERO + b"\0\0",
    "more columns than bytes": b"QMCB" + ZERO + b"\xff\xff\0\0\0\0",
    "trailing byte": b"QMCB" + ZERO + b"\0\0\0",
    "name is not UTF-8": b"QMCB" + ZERO + b"\x01\0\x01\0\xff\x05\0",
    "unknown tag": ONE2 + b"\x1b\0",
    "flag of 2": ONE2 + b"\x05\x02",
    "precision 39": ONE2 + b"\x10\0\x27\0" + bytes(32),
    "unit 4": ONE2 + b"\x14\0\x04" + bytes(16),
    "last offset is not the size": ONE2 + b"\x02\0" + u32(1, 0, 0, 0) + b"a",
    "first offset": ONE2 + b"\x02\0" + u32(1, 1, 1, 1) + b"a",
    "falling offsets": ONE2 + b"\x02\0" + u32(1, 0, 2, 1) + b"a",
    "split character": ONE2 + b"\x02\0" + u32(2, 0, 1, 2) + b"\xc3\xa4",
    "not UTF-8": ONE2 + b"\x02\0" + u32(2, 0, 0, 2) + b"\xc3\x28",
    "surrogate": ONE2 + b"\x02\0" + u32(3, 0, 0, 3) + b"\xed\xa0\x80",
    "far more floats than bytes": ONE2 + b"\x04\0\xff\xff\xff\xff",
    "2^66 bytes": MANY + b"\x04\0\xff\xff\xff\xff",
    "more offsets than bytes": MANY + b"\x02\0" + ZERO + ZERO,
    "too deep": ONE2 + b"\x18\0" + b"\x18" * 40,
    "more fields than bytes": ONE2 + b"\x19\0\xff\xff",
    "bitmap cut short": MANY + b"\x05\x01",
}


@pytest.mark.parametrize("name", BAD)
def test_refuses(name: str) -> None:
    with pytest.raises(InvalidFormatError) as caught:
        decode_columnar_batch(BAD[name])
    assert caught.value.code == "INVALID_FORMAT"
    assert caught.value.offset is not None
    assert 0 <= caught.value.offset <= len(BAD[name])


def sample(seed: int) -> bytes:
    source = random.Random(seed)
    kinds = [types.UTF8, types.list_of(types.UTF8), types.timestamp(zone="UTC"), types.vector(2), types.BOOL]
    kinds += [
        types.map_of(types.UTF8, types.decimal(5)),
        types.struct_of([("a", types.NULL), ("b", types.DATE)]),
    ]
    rows = source.randrange(12)
    columns = [random_column(source, f"c{i}", source.choice(kinds), rows) for i in range(4)]
    return encode_columnar_batch(ColumnarBatch(columns, rows))


def test_refuses_every_truncation() -> None:
    data = sample(3)
    for size in range(len(data)):
        with pytest.raises(InvalidFormatError):
            decode_columnar_batch(data[:size])


def mutate(source: random.Random, data: bytes) -> bytes:
    mutated = bytearray(data)
    for _ in range(source.randint(1, 3)):
        position = source.randrange(len(mutated))
        match source.randrange(6):
            case 0:
                mutated[position] ^= 1 << source.randrange(8)
            case 1:
                mutated[position] = source.choice([0, 1, 0xFF, source.randrange(256)])
            case 2:
                mutated[position] = source.randrange(len(TypeTag))
            case 3:
                del mutated[max(1, position) :]
            case 4:
                mutated += source.randbytes(source.randint(1, 8))
            case _:
                number = source.choice([0, 1, 2, 2**31 - 1, 2**32 - 1, source.randrange(64)])
                mutated[position : position + 4] = u32(number)
    return bytes(mutated)


def test_mutations_are_read_or_refused() -> None:
    readable = 0
    for seed in range(100):
        data, source = sample(seed), random.Random(seed)
        for _ in range(30):
            try:
                batch = decode_columnar_batch(mutate(source, data))
            except QueryModeError as failure:
                assert failure.code == "INVALID_FORMAT", seed
                continue
            readable += 1
            again = encode_columnar_batch(batch)
            assert encode_columnar_batch(decode_columnar_batch(again)) == again, seed
            if batch.row_count < 100:
                columnar_batch_to_rows(batch)
    assert 300 < readable < 2_500


def test_rows_that_take_no_bytes_may_be_many_but_not_become_objects() -> None:
    weightless = [b"\x05\0", b"\x12\0" + ZERO, b"\x04\0" + ZERO, b"\x19\0\x01\0\0\0\x05\0", b"\x19\0\0\0"]
    for section in weightless:
        batch = decode_columnar_batch(MANY + section)
        assert batch.row_count == 2**32 - 1
        assert encode_columnar_batch(batch) == MANY + section
        with raises_code("MEMORY_EXCEEDED"):
            columnar_batch_to_rows(batch)
    # A list of four billion NULLs.
    lists = decode_columnar_batch(b"QMCB" + u32(1) + b"\x01\0\0\0\x18\0\x05" + u32(0, 2**32 - 1) + b"\0")
    for read in (column_values, lambda column: read_column_value(column, 0)):
        with raises_code("MEMORY_EXCEEDED"):
            read(lists.columns[0])
    assert read_column_value(decode_columnar_batch(MANY + b"\x05\0").columns[0], 2**32 - 2) is None


def test_encode_refuses_what_could_not_be_decoded() -> None:
    bad = [
        ColumnarColumn("short", 0, b"\0" * 15, 2),
        ColumnarColumn("long", 0, b"\0" * 17, 2),
        ColumnarColumn("other rows", 0, b"", 0),
        ColumnarColumn("bitmap", 0, b"\0" * 16, 2, null_bitmap=b""),
        ColumnarColumn("no offsets", 2, b"", 2),
        ColumnarColumn("few offsets", 2, b"", 2, u32(0, 0)),
        ColumnarColumn("odd offsets", 2, b"", 2, u32(0, 0, 0) + b"\0"),
        ColumnarColumn("falling", 2, b"ab", 2, u32(0, 2, 1)),
        ColumnarColumn("first", 2, b"ab", 2, u32(1, 2, 2)),
        ColumnarColumn("beyond", 2, b"ab", 2, u32(0, 2, 3)),
        ColumnarColumn("not utf-8", 2, b"\xff\xff", 2, u32(0, 1, 2)),
        ColumnarColumn("split", 2, "ä".encode(), 2, u32(0, 1, 2)),
        ColumnarColumn("no child", TypeTag.LIST, b"", 2, u32(0, 0, 0), data_type=types.list_of(types.INT8)),
        ColumnarColumn(
            "child of another type",
            TypeTag.LIST,
            b"",
            2,
            u32(0, 0, 0),
            data_type=types.list_of(types.INT8),
            children=[int_column("item", [])],
        ),
        ColumnarColumn(
            "child too short",
            TypeTag.LIST,
            b"",
            2,
            u32(0, 0, 1),
            data_type=types.list_of(types.INT64),
            children=[int_column("item", [])],
        ),
        ColumnarColumn("\ud800", 5, b"", 2),
        ColumnarColumn("big endian", 0, np.array([1, 2], dtype=">f8").data, 2),
        ColumnarColumn("not a buffer", 0, [1.0, 2.0], 2),  # type: ignore[arg-type]
    ]
    for column in bad:
        with pytest.raises(InvalidFormatError):
            encode_columnar_batch(ColumnarBatch([column], 2))


def test_columns_that_contradict_themselves() -> None:
    for arguments in (
        {"dtype": TypeTag.DECIMAL},
        {"dtype": 99},
        {"dtype": 4},
        {"dtype": 0, "data_type": types.INT64},
        {"dtype": 4, "vector_dim": 3, "data_type": types.vector(2)},
    ):
        with pytest.raises(InvalidFormatError):
            ColumnarColumn("x", data=b"", row_count=0, **arguments)
    assert ColumnarColumn("v", TypeTag.F16VEC, b"", 0, data_type=types.vector(2, half=True)).vector_dim == 2


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    null = ColumnarColumn("n", 5, b"", 1)
    for batch in (
        ColumnarBatch([], 2**32),
        ColumnarBatch([], -1),
        ColumnarBatch([null] * 65_536, 1),
        ColumnarBatch([ColumnarColumn("n" * 65_536, 5, b"", 1)], 1),
    ):
        with raises_code("QUERY_FAILED"):
            encode_columnar_batch(batch)
    assert len(encode_columnar_batch(ColumnarBatch([null] * 65_535, 1))) == 10 + 65_535 * 5
    fits = encode_columnar_batch(one(int_column("i", [1, 2])))
    monkeypatch.setattr(qmcb, "COLUMN_SIZE_MAX", 15)
    with raises_code("QUERY_FAILED", match="4 GiB"):
        encode_columnar_batch(one(int_column("i", [1, 2])))
    with pytest.raises(InvalidFormatError, match="4 GiB"):
        decode_columnar_batch(fits)


def test_deepest_type_round_trips() -> None:
    data_type, column = types.INT8, ColumnarColumn("item", TypeTag.I8, b"\x07", 1)
    for _ in range(TYPE_DEPTH_MAX):
        data_type = types.list_of(data_type)
        column = ColumnarColumn(
            "item", TypeTag.LIST, b"", 1, u32(0, 1), data_type=data_type, children=[column]
        )
    data = encode_columnar_batch(one(column))
    assert encode_columnar_batch(decode_columnar_batch(data)) == data


def test_wasm_result_to_qmcb() -> None:
    data = HEAD + GOLDEN[0][0]
    memory = bytearray(64) + data + bytes(64)
    result = wasm_result_to_qmcb(memory, 64, len(data))
    assert result == data
    memory[64:] = bytes(len(memory) - 64)
    assert result == data
    for pointer, size in ((64, len(data)), (0, 0), (120, 10_000), (-1, 10), (10**9, 10)):
        with pytest.raises(InvalidFormatError):
            wasm_result_to_qmcb(memory, pointer, size)
