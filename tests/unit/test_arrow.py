"""Arrow in and out, at the level of buffers: a slow reader of HostColumn against Arrow's own scalars."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from itertools import pairwise
from struct import unpack_from
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from querymode import QueryMode, types
from querymode._abi import CHUNK_ROWS, TimeUnit, TypeTag
from querymode.arrow import plain
from querymode.arrow import to_arrow as out_module
from querymode.arrow.to_arrow import arrow_schema, arrow_type, to_arrow
from querymode.errors import (
    InvalidFormatError,
    MemoryExceededError,
    NotSupportedError,
    SchemaMismatchError,
)
from querymode.qmcb import ColumnarBatch, ColumnarColumn, decode_columnar_batch, encode_columnar_batch
from querymode.schema import Schema
from querymode.table import from_arrow as arrow
from querymode.table import memory as memory_table
from querymode.table.from_arrow import from_arrow
from querymode.table.from_qmcb import from_qmcb
from querymode.table.memory import MORSEL_SIZE_MAX, HostColumn, MemoryTable

# ---- two slow readings of the same values ----


def scalar_value(scalar: Any) -> Any:
    """Arrow's value in its plainest form: times are numbers, decimals unscaled digits, maps pairs."""
    if isinstance(scalar, pa.ExtensionScalar | pa.DictionaryScalar | pa.RunEndEncodedScalar):
        scalar = scalar.as_py() if scalar is None else _inner(scalar)
    if scalar is None or not scalar.is_valid:
        return None
    kind = scalar.type
    if pa.types.is_map(kind):
        return [tuple(map(scalar_value, entry.values())) for entry in scalar.values]
    if pa.types.is_struct(kind):
        return [scalar_value(scalar[index]) for index in range(kind.num_fields)]
    if pa.types.is_nested(kind):
        return [scalar_value(item) for item in scalar.values]
    if pa.types.is_duration(kind):
        per_tick = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[kind.unit]
        return (0, 0, scalar.value * per_tick)
    if pa.types.is_date64(kind):
        return scalar.value // 86_400_000
    if pa.types.is_temporal(kind):
        return tuple(scalar.as_py()) if pa.types.is_interval(kind) else scalar.value
    if pa.types.is_decimal(kind):
        return int(scalar.as_py().scaleb(kind.scale, context=_digits()))
    if pa.types.is_floating(kind):
        return repr(float(scalar.as_py()))
    return scalar.as_py()


def _digits() -> Any:
    from decimal import Context

    return Context(prec=100)


def _inner(scalar: Any) -> Any:
    if isinstance(scalar, pa.DictionaryScalar):
        if not scalar.is_valid:
            return None
        inner = scalar.dictionary[scalar.index.as_py()]
    else:
        inner = scalar.value
    if isinstance(inner, pa.ExtensionScalar | pa.DictionaryScalar | pa.RunEndEncodedScalar):
        return _inner(inner)
    return inner


def arrow_values(array: Any) -> list[Any]:
    return [scalar_value(scalar) for scalar in array]


_FORMATS = {
    TypeTag.I8: "b",
    TypeTag.I16: "h",
    TypeTag.I32: "i",
    TypeTag.I64: "q",
    TypeTag.DATE: "i",
    TypeTag.U8: "B",
    TypeTag.U16: "H",
    TypeTag.U32: "I",
    TypeTag.U64: "Q",
    TypeTag.TIMESTAMP: "q",
    TypeTag.F16: "e",
    TypeTag.F32: "f",
    TypeTag.F64: "d",
    TypeTag.F16VEC: "e",
    TypeTag.F32VEC: "f",
}


def _bit(bits: Any, index: int) -> bool:
    return bool(memoryview(bits).cast("B")[index >> 3] >> (index & 7) & 1)


def host_values(column: HostColumn) -> list[Any]:
    """The values as the engine would find them, and that buffers have exactly the size they need."""
    _check_sizes(column)
    values = _host_values(column)
    assert len(values) == column.row_count
    if column.validity is not None:
        valid = [_bit(column.validity, column.validity_bit + row) for row in range(column.row_count)]
        assert not all(valid), "NULLs were promised"
        values = [value if is_valid else None for value, is_valid in zip(values, valid, strict=True)]
    return values


def _check_sizes(column: HostColumn) -> None:
    rows, tag = column.row_count, column.type.tag
    for buffer in (column.validity, column.data, column.offsets):
        assert buffer is None or memoryview(buffer).format == "B"
    if column.validity is not None:
        assert len(column.validity) == (rows + column.validity_bit + 7) // 8
    if tag == TypeTag.BOOL:
        assert column.data is not None
        assert len(column.data) == (rows + column.data_bit + 7) // 8
    elif column.value_width:
        assert column.data is not None
        assert len(column.data) == rows * column.value_width
    if types.has_offsets(column.type):
        assert column.offsets is not None
        assert len(column.offsets) == (rows + 1) * column.offset_width
        span = offsets_of(column)[-1]
        assert span == (column.children[0].row_count if column.children else len(column.data or b""))


def offsets_of(column: HostColumn) -> list[int]:
    form = {4: "I", 8: "Q"}[column.offset_width]
    assert column.offsets is not None
    found = [at - column.offset_base for at in memoryview(bytes(column.offsets)).cast(form)]  # type: ignore[call-overload]
    assert found[0] == 0
    assert found == sorted(found)
    return found


def _host_values(column: HostColumn) -> list[Any]:
    rows, data_type, tag = range(column.row_count), column.type, column.type.tag
    if tag == TypeTag.NULL:
        return [None for _ in rows]
    if tag == TypeTag.STRUCTURE:
        fields = [host_values(child) for child in column.children]
        assert all(len(field) == len(rows) for field in fields)
        return [[field[row] for field in fields] for row in rows]
    data = bytes(column.data) if column.data is not None else b""
    if types.has_offsets(data_type):
        items: Any = host_values(column.children[0]) if column.children else data
        spans = [items[start:end] for start, end in pairwise(offsets_of(column))]
        if tag == TypeTag.MAP:
            return [[tuple(entry) for entry in span] for span in spans]
        # What lies under a NULL need not be text.
        return [span.decode(errors="replace") for span in spans] if tag == TypeTag.UTF8 else spans
    if tag == TypeTag.BOOL:
        return [_bit(data, column.data_bit + row) for row in rows]
    width = column.value_width
    return [_fixed_value(data_type, data[row * width : (row + 1) * width]) for row in rows]


def _fixed_value(data_type: types.DataType, raw: bytes) -> Any:
    tag = data_type.tag
    if tag in (TypeTag.DECIMAL, TypeTag.TIME, TypeTag.I128):
        return int.from_bytes(raw, "little", signed=True)
    if tag == TypeTag.FIXED_BINARY:
        return raw
    if tag == TypeTag.INTERVAL:
        return unpack_from("<iiq", raw)
    if types.is_vector(data_type):
        return [repr(value) for value in unpack_from(f"<{data_type.width}{_FORMATS[tag]}", raw)]
    (value,) = unpack_from(f"<{_FORMATS[tag]}", raw)
    return repr(value) if types.is_float(data_type) else value


def table_values(table: MemoryTable, index: int = 0) -> list[Any]:
    return [value for morsel in table.morsels for value in host_values(morsel.columns[index])]


# ---- what the engine does with a HostColumn, slowly: QMCB's form of it ----


def columnar(column: HostColumn, name: str) -> ColumnarColumn:
    rows, data_type, tag = column.row_count, column.type, column.type.tag
    nulls = None
    if column.validity is not None:
        nulls = _packed([not _bit(column.validity, column.validity_bit + row) for row in range(rows)])
    data = bytes(column.data) if column.data is not None else b""
    if tag == TypeTag.BOOL:
        data = _packed([_bit(data, column.data_bit + row) for row in range(rows)])
    elif tag in (TypeTag.DECIMAL, TypeTag.TIME):
        width, size = column.value_width, types.value_size(data_type)
        numbers = [
            int.from_bytes(data[at : at + width], "little", signed=True) for at in range(0, len(data), width)
        ]
        data = b"".join(number.to_bytes(size, "little", signed=True) for number in numbers)
    offsets: Any = None
    if types.has_offsets(data_type):
        offsets = np.array(offsets_of(column), np.uint32)
    children = [columnar(child, "") for child in column.children]
    return ColumnarColumn(
        name, tag, data, rows, offsets, null_bitmap=nulls, data_type=data_type, children=children
    )


def _packed(bits: list[bool]) -> bytes:
    return np.packbits(np.array(bits, np.bool_), bitorder="little").tobytes()


def qmcb_of(table: MemoryTable) -> list[bytes]:
    return [
        encode_columnar_batch(
            ColumnarBatch(
                [columnar(c, n) for c, n in zip(morsel.columns, table.schema.names, strict=True)],
                morsel.row_count,
            )
        )
        for morsel in table.morsels
    ]


def check_round_trip(given: pa.Table) -> pa.Table:
    """Arrow → HostColumns → QMCB → Arrow and HostColumns: the same values at every station."""
    table = from_arrow(given)
    expected = [arrow_values(column) for column in given.columns]
    for index, values in enumerate(expected):
        assert table_values(table, index) == values, given.schema.field(index)
    assert table.row_count == given.num_rows
    batches = qmcb_of(table)
    out = to_arrow([decode_columnar_batch(batch) for batch in batches], table.schema)
    out.validate(full=True)
    assert out.schema == arrow_schema(table.schema)
    assert [arrow_values(column) for column in out.columns] == expected
    for column in out.columns:
        for chunk in column.chunks:
            check_alignment(chunk)
    if batches:
        again = from_qmcb(batches)
        assert again.schema == table.schema
        assert [table_values(again, index) for index in range(len(expected))] == expected
    # What came out goes in again, with the same types.
    assert from_arrow(out).schema == _without_int128(table.schema)
    return out


def _without_int128(schema: Schema) -> Schema:
    return Schema((n, types.decimal(38) if t == types.INT128 else t) for n, t in schema)


def check_alignment(array: Any) -> None:
    for buffer in array.buffers():
        assert buffer is None or buffer.size == 0 or buffer.address % 8 == 0


# ---- every type ----

UUID = b"0123456789abcdef"


# The stubs know these by halves.
struct_type: Any = pa.struct
run_end_encode: Any = getattr(pc, "run_end_encode")  # noqa: B009
list_view_from: Any = pa.ListViewArray.from_arrays


def _repeat(values: list[Any], arrow_type: Any) -> Any:
    """Enough rows for every bit offset, with NULLs here and there."""
    rows = [values[at % len(values)] if at % 5 else None for at in range(40)]
    return pa.array(rows, arrow_type)


INTEGERS = {
    f"{sign}int{bits}": _repeat(
        [
            0,
            1,
            (1 << (bits - (not sign))) - 1 if sign else (1 << (bits - 1)) - 1,
            0 if sign else -(1 << (bits - 1)),
        ],
        getattr(pa, f"{sign}int{bits}")(),
    )
    for sign in ("", "u")
    for bits in (8, 16, 32, 64)
}
FLOATS = {
    str(kind): _repeat([1.5, -0.0, float("nan"), float("-inf"), 3.140625], kind)
    for kind in (pa.float16(), pa.float32(), pa.float64())
}
DECIMALS = {
    str(kind): _repeat([Decimal("12.34"), Decimal("-999.99"), Decimal(0)], kind)
    for kind in (
        *(pa.decimal32(5, 2), pa.decimal64(5, 2), pa.decimal64(18, 3), pa.decimal128(5, 2)),
        *(pa.decimal128(19, 2), pa.decimal128(38, 10), pa.decimal256(5, 2), pa.decimal256(38, 2)),
    )
}
TEXT = ["", "a", "größe", "x" * 50, "日本"]
TEXTS = {
    str(kind): _repeat(TEXT if "str" in str(kind) else [text.encode() for text in TEXT], kind)
    for kind in (
        *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()),
    )
}
TIMES = {
    str(kind): _repeat([0, 1, 86_399], pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    for kind in (
        *(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.date32()),
        *(pa.timestamp("s"), pa.timestamp("ms", "UTC"), pa.timestamp("us", "Europe/Berlin")),
        *(
            pa.timestamp("ns", "+05:30"),
            pa.duration("s"),
            pa.duration("ms"),
            pa.duration("us"),
            pa.duration("ns"),
        ),
    )
}
LISTS: dict[str, Any] = {
    "list": _repeat([[], [1], [1, None, 3]], pa.list_(pa.int32())),
    "large_list": _repeat([[], ["a"], ["a", None, "größe"]], pa.large_list(pa.string())),
    "list_view": _repeat([[], [1], [1, None, 3]], pa.list_view(pa.int32())),
    "large_list_view": _repeat([[], [True], [False, None, True]], pa.large_list_view(pa.bool_())),
    "overlapping views": list_view_from(
        pa.array([3, 0, 2, 5, 0, 1, 4, 4, 0, 2] * 4, pa.int32()),
        pa.array([2, 6, 0, 1, 3, 3, 2, 0, 1, 1] * 4, pa.int32()),
        pa.array(["a", "b", None, "d", "e", "f"]),
        mask=pa.array([False, False, True, False, False] * 8),
    ),
    "list of list": _repeat([[], [[1], None, []], [[2, 3]]], pa.list_(pa.large_list(pa.int16()))),
    "list of dictionary": _repeat(
        [[], ["a"], ["a", None, "b"]], pa.list_(pa.dictionary(pa.int8(), pa.string()))
    ),
    "list of views": _repeat([[], ["a"], ["a", None, "b" * 40]], pa.list_(pa.string_view())),
    "list of vectors": _repeat([[], [[1, 2]], [[3, 4], None, [5, 6]]], pa.list_(pa.list_(pa.float32(), 2))),
    "fixed_size_list of int": _repeat([[1, 2, 3], [4, None, 6]], pa.list_(pa.int64(), 3)),
    "fixed_size_list of text": _repeat([["a", "b"], ["c", None]], pa.list_(pa.string_view(), 2)),
    "empty fixed_size_list": _repeat([[]], pa.list_(pa.int64(), 0)),
    "vector f32": _repeat([[1, 2, 3], [4, -5.5, float("nan")]], pa.list_(pa.float32(), 3)),
    "vector f16": _repeat([[1, 2, 3, 4, 5]], pa.list_(pa.float16(), 5)),
    "vector of nothing": _repeat([[]], pa.list_(pa.float32(), 0)),
    "map": _repeat([[], [("a", 1)], [("b", None), ("c", 3)]], pa.map_(pa.string(), pa.int32())),
    "map of views": _repeat(
        [[], [("a", ["x"])], [("b", None)]], pa.map_(pa.string_view(), pa.list_(pa.string_view()))
    ),
    "struct": _repeat(
        [{"a": 1, "b": "x"}, {"a": None, "b": "yy"}], struct_type({"a": pa.int32(), "b": pa.string()})
    ),
    "struct to convert": _repeat(
        [{"a": 1, "b": ["x"], "c": {"d": 864_000_000}}, {"a": None, "b": [], "c": None}],
        struct_type(
            {"a": pa.duration("s"), "b": pa.list_view(pa.string()), "c": struct_type({"d": pa.date64()})}
        ),
    ),
    "struct of nothing": _repeat([{}], struct_type([])),
    "names that repeat": _repeat([{}], struct_type([("a", pa.int8()), ("a", pa.int8())])),
}
OTHERS: dict[str, Any] = {
    "bool": _repeat([True, False, False], pa.bool_()),
    "null": pa.nulls(40),
    "date64": _repeat([0, 86_400_000, -86_400_000], pa.int64()).cast(pa.timestamp("ms")).cast(pa.date64()),
    "interval": _repeat([(1, -2, 3), (-1, 0, -(1 << 60))], pa.month_day_nano_interval()),
    "fixed binary": _repeat([b"abc", b"\0\0\0"], pa.binary(3)),
    "fixed binary of nothing": _repeat([b""], pa.binary(0)),
    "uuid": _repeat([UUID], pa.binary(16)).cast(pa.uuid()),
    "tensor": pa.FixedShapeTensorArray.from_storage(
        pa.fixed_shape_tensor(pa.float32(), [2, 2]), _repeat([[1, 2, 3, 4]], pa.list_(pa.float32(), 4))
    ),
    "json": pa.ExtensionArray.from_storage(pa.json_(), _repeat(['{"a":1}'], pa.string())),
    "dictionary": _repeat(["a", "b", ""], pa.string()).dictionary_encode(),
    "dictionary of numbers": _repeat([5, 7], pa.int64()).dictionary_encode(),
    "dictionary of views": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, None, 2] * 10, pa.uint8()), pa.array(["a", None, "c" * 30], pa.string_view())
    ),
    "dictionary of lists": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, None, 2] * 10, pa.int16()), pa.array([["a"], None, ["b", "c"]])
    ),
    "runs": run_end_encode(_repeat([1, 1, 1, 2, 2, 2], pa.int64())),
    "runs of text": run_end_encode(_repeat(["a", "a", "b"], pa.string()), run_end_type=pa.int16()),
    "runs of structs": pa.RunEndEncodedArray.from_arrays(
        pa.array([3, 10, 40], pa.int32()), pa.array([{"a": ["x"]}, None, {"a": None}])
    ),
    "struct of runs": pa.StructArray.from_arrays(
        [run_end_encode(_repeat([1, 1, 2], pa.int8())), _repeat(["a"], pa.string()).dictionary_encode()],
        ["r", "d"],
        mask=pa.array([False, True] * 20),
    ),
}
ARRAYS: dict[str, Any] = {**INTEGERS, **FLOATS, **DECIMALS, **TEXTS, **TIMES, **LISTS, **OTHERS}


@pytest.mark.parametrize("name", ARRAYS)
def test_every_type(name: str) -> None:
    array = ARRAYS[name]
    count = len(array)
    parts = [array, array.slice(0, 0), array.slice(count), array.slice(1, 1)]
    parts += [array.slice(start, size) for start in (1, 7, 8, 9) for size in (8, 17, count)]
    for part in parts:
        check_round_trip(pa.table({"c": part}))
    check_round_trip(pa.table({"c": pa.chunked_array(parts)}))
    if name == "struct of runs":
        return  # pyarrow makes invalid ones
    nulls = pa.nulls(9, array.type)
    check_round_trip(pa.table({"c": nulls}))
    check_round_trip(pa.table({"c": nulls.slice(3)}))


@pytest.mark.parametrize("name", ARRAYS)
def test_slices_below_slices(name: str) -> None:
    """Children that are slices themselves, below parents that are slices."""
    array = ARRAYS[name]
    inner = array.slice(3, len(array) - 3)
    parent = pa.StructArray.from_arrays(
        [inner], ["f"], mask=pa.array([at % 3 == 0 for at in range(len(inner))])
    )
    check_round_trip(pa.table({"c": parent.slice(1)}))
    offsets = pa.array([0, 2, 2, None, len(inner) - 1, len(inner)], pa.int32())
    lists = pa.ListArray.from_arrays(offsets, inner)
    check_round_trip(pa.table({"c": lists}))
    check_round_trip(pa.table({"c": lists.slice(1, 3)}))
    check_round_trip(pa.table({"c": pa.StructArray.from_arrays([lists.slice(1)], ["l"]).slice(2)}))


@pytest.mark.parametrize("name", ARRAYS)
def test_columns_cut_into_morsels(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "morsel_rows", lambda size, count: 7)
    table = pa.table({"c": ARRAYS[name], "n": range(len(ARRAYS[name]))})
    check_round_trip(table)
    assert [morsel.row_count for morsel in from_arrow(table.slice(1, 16)).morsels] == [7, 7, 2]
    monkeypatch.setattr(arrow, "_JOINED_BELOW", 1)
    chunks = pa.concat_tables([table.slice(start, size) for start in range(0, 36, 5) for size in (4, 0)])
    check_round_trip(chunks)
    assert [morsel.row_count for morsel in from_arrow(chunks).morsels] == [7, 7, 7, 7, 4]


def test_indices_into_nothing_below_null() -> None:
    kind = struct_type([("d", pa.dictionary(pa.int16(), pa.string()))])
    check_round_trip(pa.table({"c": pa.array([None, None], kind)}))


def test_types() -> None:
    wanted = {
        "decimal32(5, 2)": "decimal(5,2)",
        "decimal256(38, 2)": "decimal(38,2)",
        "string_view": "utf8",
        "large_binary": "binary",
        "time32[ms]": "time(ms)",
        "timestamp[us, tz=Europe/Berlin]": "timestamp(us, Europe/Berlin)",
        "duration[ms]": "interval",
        "date64": "date",
        "uuid": "fixed_binary(16)",
        "tensor": "vector(f32, 4)",
        "vector f16": "vector(f16, 5)",
        "fixed_size_list of int": "list<int64>",
        "list of dictionary": "list<utf8>",
        "runs of structs": "struct<a: list<utf8>>",
        "map of views": "map<utf8, list<utf8>>",
        "struct to convert": "struct<a: interval, b: list<utf8>, c: struct<d: date>>",
    }
    for name, text in wanted.items():
        assert str(from_arrow(pa.table({"c": ARRAYS[name]})).schema.type_of("c")) == text


def test_int128_comes_out_as_decimal() -> None:
    data = b"".join(value.to_bytes(16, "little", signed=True) for value in (5, -(10**38) + 1, 10**38 - 1))
    column = ColumnarColumn("n", TypeTag.I128, data, 3)
    table = to_arrow([ColumnarBatch([column], 3)], Schema([("n", types.INT128)]))
    table.validate(full=True)
    assert table["n"].to_pylist() == [5, -(10**38) + 1, 10**38 - 1]


@pytest.mark.parametrize("value", [10**38, -(10**38), (1 << 127) - 1, -(1 << 127), 10**38 + (1 << 70)])
def test_integers_of_39_digits_are_refused(value: int) -> None:
    data = value.to_bytes(16, "little", signed=True)
    schema = Schema([("n", types.INT128)])
    with pytest.raises(NotSupportedError, match="39 digits"):
        to_arrow([ColumnarBatch([ColumnarColumn("n", TypeTag.I128, data, 1)], 1)], schema)
    under_null = ColumnarColumn("n", TypeTag.I128, data, 1, null_bitmap=b"\1")
    assert to_arrow([ColumnarBatch([under_null], 1)], schema)["n"].to_pylist() == [None]


def test_arrow_types_of_ours() -> None:
    for data_type, text in (
        (types.time(TimeUnit.SECOND), "time32[s]"),
        (types.time(TimeUnit.NANOSECOND), "time64[ns]"),
        (types.timestamp(TimeUnit.MILLISECOND, "UTC"), "timestamp[ms, tz=UTC]"),
        (types.decimal(7, -2), "decimal128(7, -2)"),
        (
            types.map_of(types.UTF8, types.vector(3, half=True)),
            "map<string, fixed_size_list<item: halffloat>[3]>",
        ),
        (types.INTERVAL, "month_day_nano_interval"),
    ):
        assert str(arrow_type(data_type)) == text
    with pytest.raises(NotSupportedError):
        arrow_type(types.fixed_binary(1 << 31))


# ---- what is refused ----


@pytest.mark.parametrize(
    "array",
    [
        pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array([1, 2])]),
        pa.StructArray.from_arrays(
            [pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array([1, 2])])], ["u"]
        ),
        pa.array([1], pa.decimal256(39, 0)),
        pa.array([[1]], pa.list_(pa.decimal256(76, 0))),
        pa.array([[1.0, None]], pa.list_(pa.float32(), 2)),
    ],
)
def test_not_supported_names_the_column(array: Any) -> None:
    with pytest.raises(NotSupportedError, match="'odd'") as caught:
        from_arrow(pa.table({"fine": range(len(array)), "odd": array}))
    assert caught.value.column == "odd"


def test_values_that_do_not_fit_name_the_column() -> None:
    for array in (
        pa.array([1 << 40], pa.duration("s")),
        pa.Array.from_buffers(pa.date64(), 1, [None, pa.py_buffer((5).to_bytes(8, "little"))]),
    ):
        with pytest.raises(InvalidFormatError, match="'odd'"):
            from_arrow(pa.table({"odd": array}))


def test_null_elements_below_null_vectors_do_no_harm() -> None:
    vectors = pa.FixedSizeListArray.from_arrays(
        pa.array([1, None, 3, 4], pa.float32()), 2, mask=pa.array([True, False])
    )
    assert table_values(from_arrow(pa.table({"v": vectors}))) == [None, ["3.0", "4.0"]]


@pytest.mark.parametrize(
    "data", [{"a": [1]}, [{"a": 1}], [], None, 5, "text", pa.array([1]), pa.chunked_array([[1]])]
)
def test_other_things_are_refused(data: object) -> None:
    with pytest.raises(InvalidFormatError, match=type(data).__name__):
        from_arrow(data)


def test_names_stand_once() -> None:
    with pytest.raises(SchemaMismatchError, match="'a'"):
        from_arrow(pa.table([[1], [2]], names=["a", "a"]))


def test_batches_with_other_columns_are_refused() -> None:
    batches = [pa.record_batch({"a": [1]}), pa.record_batch({"b": [1]})]
    with pytest.raises(InvalidFormatError):
        from_arrow(batches)
    with pytest.raises(SchemaMismatchError):
        from_qmcb([batch for part in batches for batch in qmcb_of(from_arrow(part))])
    with pytest.raises(InvalidFormatError):
        from_qmcb([])


# ---- where tables come from ----


class OnlyStream:
    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)  # type: ignore[no-untyped-call]


class OnlyArray:
    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self.batch.__arrow_c_array__(requested_schema)  # type: ignore[no-untyped-call]


def test_sources() -> None:
    table = pa.table({"a": [1, 2, None], "b": ["x", None, "z"]})
    batch = table.to_batches()[0]
    sources: list[object] = [
        table,
        batch,
        [batch],
        (batch,),
        table.to_reader(),
        OnlyStream(table),
        OnlyArray(batch),
    ]
    sources += [pa.array([{"a": 1, "b": "x"}, {"a": 2, "b": None}, {"a": None, "b": "z"}])]
    for source in sources:
        ours = from_arrow(source, "t")
        assert ours.name == "t"
        assert str(ours.schema) == "Schema(a: int64, b: utf8)"
        assert [table_values(ours, 0), table_values(ours, 1)] == [[1, 2, None], ["x", None, "z"]]


def test_polars_and_duckdb() -> None:
    import duckdb
    import polars

    frame = polars.DataFrame({"a": [1, None, 3], "s": ["x", "y" * 40, None], "l": [[1], None, []]})
    frame = frame.with_columns(polars.col("s").cast(polars.Categorical).alias("c"))
    ours = from_arrow(frame)
    assert str(ours.schema) == "Schema(a: int64, s: utf8, l: list<int64>, c: utf8)"
    assert table_values(ours, 1) == table_values(ours, 3) == ["x", "y" * 40, None]
    relation = duckdb.sql(
        "select 1::hugeint as h, [1, null] as l, {'a': date '2020-01-01'} as s, interval 3 day as i"
    )
    ours = from_arrow(relation)
    assert table_values(ours, 1) == [[1, None]]
    assert table_values(ours, 3) == [(0, 3, 0)]


def test_empty_tables_keep_their_columns() -> None:
    ours = from_arrow(
        pa.schema([("a", pa.int8()), ("d", pa.dictionary(pa.int8(), pa.string()))]).empty_table()
    )
    assert ours.morsels == ()
    assert str(ours.schema) == "Schema(a: int8, d: utf8)"
    assert to_arrow([], ours.schema).schema == arrow_schema(ours.schema)


def test_rows_without_columns() -> None:
    rows = pa.RecordBatch.from_struct_array(pa.array([{}, {}], struct_type([])))
    ours = from_arrow(rows)
    assert (ours.row_count, len(ours.schema)) == (2, 0)
    assert to_arrow([ColumnarBatch([], 2)], ours.schema).num_rows == 2


def test_missing_buffers_of_empty_arrays() -> None:
    empty = pa.Array.from_buffers(pa.list_(pa.int32()), 0, [None, None], children=[pa.array([], pa.int32())])
    column = arrow.host_column(empty, types.list_of(types.INT32), "c")
    assert host_values(column) == []


# ---- memory ----


def first_chunk(column: Any) -> Any:
    return column.chunk(0)


def test_plain_columns_are_not_copied() -> None:
    numbers = np.arange(100)
    text = pa.array([f"text {at}" for at in range(100)])
    ours = from_arrow(pa.table({"n": numbers, "t": text}).slice(10, 50))
    (morsel,) = ours.morsels
    data = morsel.columns[0].data
    assert np.frombuffer(data, np.int64).ctypes.data == numbers.ctypes.data + 80  # type: ignore[arg-type]
    offsets, chars = text.buffers()[1:]
    assert offsets is not None
    assert chars is not None
    column = morsel.columns[1]
    assert pa.py_buffer(column.offsets).address == offsets.address + 40  # type: ignore[arg-type]
    assert pa.py_buffer(column.data).address == chars.address + column.offset_base  # type: ignore[arg-type]
    assert (column.validity, column.offset_base) == (None, 60)


def test_answers_refer_to_aligned_bytes() -> None:
    table = from_arrow(pa.table({"n": range(1000)}))
    column = table.morsels[0].columns[0]
    raw = np.frombuffer(column.data, np.int64)  # type: ignore[arg-type]
    out = to_arrow([ColumnarBatch([ColumnarColumn("n", TypeTag.I64, raw, 1000)], 1000)], table.schema)  # type: ignore[arg-type]
    assert first_chunk(out["n"]).buffers()[1].address == raw.ctypes.data


def test_morsels_are_at_most_16_mib() -> None:
    wide = pa.array(["x" * 400_000] * 100 + ["y"] * 200_000)
    table = pa.table({"s": wide, "n": range(len(wide))})
    for given in (table, pa.Table.from_batches(table.to_batches(999))):
        ours = from_arrow(given)
        assert ours.row_count == len(wide)
        for morsel in ours.morsels:
            assert sum(column.memory_size() for column in morsel.columns) <= MORSEL_SIZE_MAX
        lengths = [size for m in ours.morsels for size in np.diff(offsets_of(m.columns[0])).tolist()]
        assert lengths == [400_000] * 100 + [1] * 200_000
    numbers = from_arrow(pa.table({"n": np.zeros(5_000_000)}))
    sizes = [morsel.row_count for morsel in numbers.morsels]
    assert sum(sizes) == 5_000_000
    assert 32 <= len(sizes) <= 40  # enough for several threads, though three morsels could hold it
    assert all(size % CHUNK_ROWS == 0 for size in sizes[:-1])


def test_large_qmcb_batches_are_cut() -> None:
    table = pa.table({"n": np.arange(3_000_000), "b": np.arange(3_000_000) % 3 == 0})
    (batch,) = qmcb_of_numpy(table)
    ours = from_qmcb([batch])
    assert len(ours.morsels) > 2
    assert ours.row_count == 3_000_000
    parts = [np.frombuffer(m.columns[0].data, np.int64) for m in ours.morsels]  # type: ignore[arg-type]
    assert np.array_equal(np.concatenate(parts), np.arange(3_000_000))


def qmcb_of_numpy(table: pa.Table) -> list[bytes]:
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        data = first_chunk(column).buffers()[1]
        tag = TypeTag.BOOL if column.type == pa.bool_() else TypeTag.I64
        size = (len(column) + 7) // 8 if tag == TypeTag.BOOL else len(column) * 8
        columns.append(ColumnarColumn(name, tag, memoryview(data)[:size], len(column)))
    return [encode_columnar_batch(ColumnarBatch(columns, table.num_rows))]


def test_text_larger_than_arrows_offsets_is_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(out_module, "OFFSET_MAX", 60)
    names = [
        "large_list",
        "map",
        "struct",
        "list of vectors",
        "string",
        "bool",
        "decimal128(5, 2)",
        "interval",
    ]
    given = pa.table({name: ARRAYS[name] for name in names})
    out = check_round_trip(given)
    assert out.column(0).num_chunks > 1
    monkeypatch.setattr(out_module, "OFFSET_MAX", 10)
    with pytest.raises(NotSupportedError, match="2 GiB"):
        check_round_trip(given)


def test_decoded_text_may_need_wide_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def refuse_narrow(chunks: Any, what: str, *, large: bool = False) -> Any:
        calls.append(large)
        if not large:
            raise pa.ArrowCapacityError("too much")
        return measured(chunks, what, large=large)

    measured = plain._measured
    monkeypatch.setattr(plain, "_measured", refuse_narrow)
    names = ["dictionary", "string_view", "list of dictionary", "fixed_size_list of text", "list of views"]
    for name in names:
        ours = from_arrow(pa.table({"c": ARRAYS[name]}))
        assert table_values(ours) == arrow_values(ARRAYS[name])
    assert True in calls


def test_views_of_much_text_get_wide_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "OFFSET_MAX", 60)
    for name in ("string_view", "binary_view", "list of views", "dictionary of views"):
        ours = from_arrow(pa.table({"c": ARRAYS[name]}))
        assert table_values(ours) == arrow_values(ARRAYS[name])
        column = ours.morsels[0].columns[0]
        wide = column.children[0] if column.children else column
        assert wide.offset_width == (4 if name == "dictionary of views" else 8)


def test_offsets_that_fall_are_refused() -> None:
    offsets = pa.py_buffer(np.array([0, 9, 2, 3], np.int32))  # type: ignore[arg-type]
    broken = pa.Array.from_buffers(
        pa.list_(pa.int8()), 3, [None, offsets], children=[pa.array([1, 2, 3], pa.int8())]
    )
    column = arrow.host_column(broken, types.list_of(types.INT8), "c")
    for start in (0, 1):
        with pytest.raises(InvalidFormatError):
            memory_table.slice_column(column, start, 1)


def test_import_is_cheap() -> None:
    """Tables of text and rows must not pay for Arrow."""
    code = (
        "import sys, querymode.table.from_arrow, querymode.table.from_qmcb; "
        "print({'numpy', 'pyarrow'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"


# ---- what is nested, and what stands for more than it takes ----


def _deep(depth: int) -> Any:
    kind: Any = pa.int64()
    for _ in range(depth):
        kind = pa.list_(kind)
    return kind


@pytest.mark.parametrize("depth", [33, 100, 200, 2000])
def test_types_that_are_nested_too_deep(depth: int) -> None:
    with pytest.raises(NotSupportedError, match="deep, no deeper"):
        from_arrow(pa.table({"c": pa.nulls(1, _deep(depth))}))


def test_every_piece_is_made_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """With pieces of a few rows, and of a few bytes, there are the same values in the same order."""
    for rows, size in ((3, 1 << 20), (1 << 20, 7), (2, 1)):
        monkeypatch.setattr(plain, "_PIECE_ROWS", rows)
        monkeypatch.setattr(plain, "_PIECE_SIZE", size)
        monkeypatch.setattr(plain, "_CONCATENATED_MAX", size)
        for array in ARRAYS.values():
            for given in (array, array.slice(1), pa.chunked_array([array, array.slice(2)])):
                chunks = given.chunks if isinstance(given, pa.ChunkedArray) else [given]
                wanted = [value for chunk in chunks for value in arrow_values(chunk)]
                assert table_values(from_arrow(pa.table({"c": given}))) == wanted


def test_what_is_measured_is_what_is_made() -> None:
    for name, array in ARRAYS.items():
        many = pa.concat_arrays([array] * 200) if not name.startswith(("run", "ext")) else array
        part = plain._Parts(False).of(many)
        made = part.plain()
        bits = len(many) * 2 + 200
        assert made.nbytes <= part.size(copied=True) + bits, name
        assert part.size() <= part.size(copied=True), name
        assert abs(part.row_sizes().sum() - part.size(copied=True)) <= 1 + part.size(copied=True) / 10, name


def test_what_functions_give_back_is_counted_too() -> None:
    session = QueryMode.local(memory="64MiB")
    one = session.from_json([{"row": 1}])
    runs: Any = pa.RunEndEncodedArray.from_arrays(pa.array([2_000_000_000], pa.int32()), pa.array([1]))
    batch = pa.RecordBatch.from_arrays([runs], names=["a"])
    with pytest.raises(MemoryExceededError):
        one.map_batches(lambda _: batch, pa.schema([("a", pa.int64())])).collect()
    with pytest.raises(SchemaMismatchError, match="2000000000 values"):
        one.computed("a", lambda _: runs, "int64").collect()
