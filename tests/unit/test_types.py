"""Types: printing, parsing, the wire form, and that nothing unsayable can be made."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from querymode import types
from querymode._abi import TYPE_DEPTH_MAX, TimeUnit, TypeTag
from querymode.errors import InvalidFormatError, QueryModeError
from querymode.types import DataType, decode_type, encode_type, parse_type
from tests.raises import raises_code

ZONES = ("", "UTC", "Europe/Berlin", "+05:30", "Etc/GMT-3", 'odd "zone", (really)')
UNITS = st.sampled_from(list(TimeUnit))
NAMES = st.text(st.characters(codec="utf-8"), max_size=8)

LEAVES: st.SearchStrategy[DataType] = st.one_of(
    st.sampled_from(list(types.PLAIN_TYPES.values())),
    st.builds(types.decimal, st.integers(1, 38), st.integers(-38, 38)),
    st.builds(types.fixed_binary, st.integers(0, 2**31 - 1)),
    st.builds(types.time, UNITS),
    st.builds(types.timestamp, UNITS, st.sampled_from(ZONES)),
    st.builds(types.vector, st.integers(0, 2**29 - 1), half=st.booleans()),
)


def _nest(inner: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    return st.one_of(
        st.builds(types.list_of, inner),
        st.builds(types.map_of, inner, inner),
        st.builds(types.struct_of, st.lists(st.tuples(NAMES, inner), max_size=4)),
    )


TYPES = st.recursive(LEAVES, _nest, max_leaves=8)


@given(TYPES)
def test_text_round_trip(data_type: DataType) -> None:
    assert parse_type(str(data_type)) == data_type
    assert parse_type(f"  {str(data_type).replace(', ', ' ,  ')} ") is not None


@given(TYPES)
def test_wire_round_trip(data_type: DataType) -> None:
    wire = encode_type(data_type)
    assert decode_type(b"xx" + wire + b"yy", 2) == (data_type, 2 + len(wire))
    assert decode_type(memoryview(wire), 0) == (data_type, len(wire))
    for size in range(len(wire)):
        with pytest.raises(InvalidFormatError) as caught:
            decode_type(wire[:size], 0)
        assert caught.value.offset is not None
        assert caught.value.offset <= size


@given(TYPES)
def test_equal_types_hash_alike_and_survive_pickling(data_type: DataType) -> None:
    again = pickle.loads(pickle.dumps(data_type))
    assert again == data_type
    assert hash(again) == hash(data_type)
    assert len({again, data_type}) == 1
    assert types.list_of(data_type) != data_type
    assert data_type != str(data_type)


@given(st.binary(max_size=40))
def test_any_bytes_decode_or_are_refused(wire: bytes) -> None:
    try:
        data_type, end = decode_type(wire, 0)
    except InvalidFormatError as failure:
        assert failure.code == "INVALID_FORMAT"
    else:
        assert encode_type(data_type) == wire[:end]


@given(st.text(max_size=30))
def test_any_text_parses_or_is_refused(text: str) -> None:
    try:
        parse_type(text)
    except QueryModeError as failure:
        assert failure.code == "NOT_SUPPORTED"


def test_every_tag_prints() -> None:
    parametric = {
        TypeTag.DECIMAL: (types.decimal(12, 2), "decimal(12,2)"),
        TypeTag.FIXED_BINARY: (types.fixed_binary(16), "fixed_binary(16)"),
        TypeTag.TIME: (types.time(TimeUnit.NANOSECOND), "time(ns)"),
        TypeTag.TIMESTAMP: (types.timestamp(zone="Europe/Berlin"), "timestamp(us, Europe/Berlin)"),
        TypeTag.F32VEC: (types.vector(128), "vector(f32, 128)"),
        TypeTag.F16VEC: (types.vector(3, half=True), "vector(f16, 3)"),
        TypeTag.LIST: (types.list_of(types.INT64), "list<int64>"),
        TypeTag.STRUCTURE: (
            types.struct_of([("a", types.INT8), ("b c", types.UTF8), ("größe", types.NULL)]),
            'struct<a: int8, "b c": utf8, größe: null>',
        ),
        TypeTag.MAP: (types.map_of(types.UTF8, types.FLOAT64), "map<utf8, float64>"),
    }
    printed = {tag: str(data_type) for tag, (data_type, _) in parametric.items()}
    assert printed == {tag: text for tag, (_, text) in parametric.items()}
    assert set(parametric) | set(types.PLAIN_TYPES) == set(TypeTag)
    assert [str(types.PLAIN_TYPES[tag]) for tag in (TypeTag.F64, TypeTag.U16, TypeTag.I128)] == [
        "float64",
        "uint16",
        "int128",
    ]
    assert str(types.timestamp(TimeUnit.SECOND)) == "timestamp(s)"


@pytest.mark.parametrize(
    ("sql", "printed"),
    [
        ("BIGINT", "int64"),
        ("integer", "int32"),
        ("INT", "int32"),
        ("smallint", "int16"),
        ("TinyInt", "int8"),
        ("hugeint", "int128"),
        ("ubigint", "uint64"),
        ("uinteger", "uint32"),
        ("usmallint", "uint16"),
        ("utinyint", "uint8"),
        ("double", "float64"),
        ("DOUBLE PRECISION", "float64"),
        ("real", "float32"),
        ("float", "float32"),
        ("varchar", "utf8"),
        ("VARCHAR(20)", "utf8"),
        ("character varying(20)", "utf8"),
        ("text", "utf8"),
        ("string", "utf8"),
        ("boolean", "bool"),
        ("blob", "binary"),
        ("bytea", "binary"),
        ("decimal", "decimal(18,3)"),
        ("numeric(5)", "decimal(5,0)"),
        ("DECIMAL(12, 2)", "decimal(12,2)"),
        ("decimal(3,-2)", "decimal(3,-2)"),
        ("date", "date"),
        ("time", "time(us)"),
        ("time(9)", "time(ns)"),
        ("timestamp", "timestamp(us)"),
        ("datetime", "timestamp(us)"),
        ("timestamp(0)", "timestamp(s)"),
        ("timestamp(3)", "timestamp(ms)"),
        ("timestamp(6)", "timestamp(us)"),
        ("timestamp_ns", "timestamp(ns)"),
        ("timestamptz", "timestamp(us, UTC)"),
        ("TIMESTAMP WITH TIME ZONE", "timestamp(us, UTC)"),
        ("timestamp(3) without time zone", "timestamp(ms)"),
        ("interval", "interval"),
        ("integer[]", "list<int32>"),
        ("varchar[][]", "list<list<utf8>>"),
        ("FLOAT[3]", "vector(f32, 3)"),
        ('struct(a int, "b c" text[])', 'struct<a: int32, "b c": list<utf8>>'),
        ("struct<>", "struct<>"),
        ("map(int, decimal(4,1))", "map<int32, decimal(4,1)>"),
        ('struct<"say ""hi""": bool>', 'struct<"say ""hi""": bool>'),
    ],
)
def test_parse_sql_names(sql: str, printed: str) -> None:
    assert str(parse_type(sql)) == printed


@pytest.mark.parametrize(
    "text",
    [
        *("", "no_such_type", "int64 x", "decimal(39,0)", "decimal(0)", "decimal(", "decimal(1,99)"),
        *("list<int64", "list<>", "map<utf8>", "struct<a>", 'struct<"a: int8>', "vector(f64, 2)"),
        *("vector(f32, -1)", "int64[3]", "timestamp(fortnight)", "fixed_binary", "varchar(x)"),
        *("list<" * 40 + "int8" + ">" * 40, "int8" + "[]" * 40, "decimal(99999999999999999999)"),
    ],
)
def test_parse_refuses(text: str) -> None:
    with raises_code("NOT_SUPPORTED"):
        parse_type(text)


def test_parse_failure_lists_what_there_is() -> None:
    with raises_code("NOT_SUPPORTED", match=r"decimal\(p,s\).*struct<.*varchar"):
        parse_type("strnig")


def test_wire_golden() -> None:
    nested = types.map_of(types.UTF8, types.struct_of([("ä", types.decimal(9, -1)), ("t", types.time())]))
    assert encode_type(nested) == b"\x1a\x02\x19\x02\x00\x02\x00\xc3\xa4\x10\x09\xff\x01\x00t\x14\x02"
    assert encode_type(types.timestamp(TimeUnit.NANOSECOND, "UTC")) == b"\x15\x03\x03UTC"
    assert encode_type(types.vector(258)) == b"\x04\x02\x01\x00\x00"


def test_depth_is_bounded_on_all_roads() -> None:
    deepest = types.INT8
    for _ in range(TYPE_DEPTH_MAX):
        deepest = types.list_of(deepest)
    wire = encode_type(deepest)
    assert decode_type(wire, 0)[0] == parse_type(str(deepest)) == deepest
    with raises_code("NOT_SUPPORTED"):
        types.list_of(deepest)
    with pytest.raises(InvalidFormatError):
        decode_type(bytes((TypeTag.LIST,)) + wire, 0)


@pytest.mark.parametrize(
    "wire",
    [b"\x1b", b"\xff", b"\x10\x27\x00", b"\x10\x00\x00", b"\x10\x05\x27", b"\x14\x04", b"\x15\x00\x01\xff"],
)
def test_decode_refuses(wire: bytes) -> None:
    with pytest.raises(InvalidFormatError):
        decode_type(wire, 0)


def test_what_cannot_be_said_cannot_be_made() -> None:
    makers: list[Callable[[], DataType]] = [
        lambda: types.decimal(39),
        lambda: types.decimal(5, 39),
        lambda: types.vector(-1),
        lambda: types.fixed_binary(2**32),
        lambda: types.timestamp(zone="z" * 256),
        lambda: types.struct_of([("\ud800", types.INT8)]),
        lambda: types.struct_of([("n" * 65_536, types.INT8)]),
        lambda: types.struct_of([("n", types.INT8)] * 65_536),
        lambda: DataType(TypeTag.LIST),
        lambda: DataType(TypeTag.I8, width=1),
        lambda: DataType(TypeTag.I8, unit=1),
        lambda: DataType(TypeTag.I8, zone="UTC"),
        lambda: DataType(TypeTag.I8, precision=1),
    ]
    for make in makers:
        with raises_code("NOT_SUPPORTED"):
            make()


def test_types_are_frozen() -> None:
    with pytest.raises(AttributeError):
        types.INT8.width = 3
    with pytest.raises(AttributeError):
        del types.INT8.width
    assert repr(types.INT8) == "<DataType int8>"


def test_children_of_lists_and_maps_have_one_name() -> None:
    assert DataType(TypeTag.LIST, children=(("element", types.INT8),)) == types.list_of(types.INT8)
    by_other_names = DataType(TypeTag.MAP, children=(("k", types.UTF8), ("v", types.INT8)))
    assert by_other_names == types.map_of(types.UTF8, types.INT8)
    assert types.struct_of([("a", types.INT8)]) != types.struct_of([("b", types.INT8)])


def test_questions() -> None:
    integers = {tag for tag, plain in types.PLAIN_TYPES.items() if types.is_integer(plain)}
    assert {tag.name for tag in integers} == {"I8", "I16", "I32", "I64", "I128", "U8", "U16", "U32", "U64"}
    assert types.is_unsigned(types.UINT8)
    assert not types.is_unsigned(types.INT8)
    assert types.is_float(types.FLOAT16)
    assert types.is_numeric(types.decimal(3))
    assert types.is_decimal(types.decimal(3))
    assert not types.is_numeric(types.BOOL)
    assert types.is_temporal(types.INTERVAL)
    assert types.is_vector(types.vector(3))
    assert types.is_nested(types.map_of(types.UTF8, types.UTF8))
    assert not types.is_nested(types.vector(3))
    assert types.has_offsets(types.list_of(types.UTF8))
    assert not types.has_offsets(types.BOOL)


def test_value_size() -> None:
    sizes = {types.decimal(18): 8, types.decimal(19): 16, types.vector(3): 12, types.vector(3, half=True): 6}
    sizes |= {types.fixed_binary(7): 7, types.INTERVAL: 16, types.DATE: 4, types.time(): 8, types.FLOAT16: 2}
    sizes |= {types.UTF8: 0, types.BOOL: 0, types.NULL: 0, types.list_of(types.INT8): 0, types.INT128: 16}
    assert {data_type: types.value_size(data_type) for data_type in sizes} == sizes
