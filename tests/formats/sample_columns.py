"""Columns of every type that Parquet files hold, with the values that readers get wrong.

Values are random but the same in every run. A third of each flat column is long runs of a few values, a third
a few values in random order, a third all different: what run lengths, dictionaries and fallbacks are for.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

ROW_COUNT = 1_500
#: Milliseconds of the years 1800 to 2200: in every unit down to nanoseconds they fit 8 bytes.
_MOMENTS = (-5_000_000_000_000, 7_000_000_000_000)
_LETTERS = ["a", "b", "Z", " ", "%", "\x00", "é", "ß", "€", "日", "😀", "\U0010ffff", "\ud7ff", "\ue000"]


class Sample(NamedTuple):
    """A type as it is written, and as it comes back where that is another one."""

    name: str
    written: Any
    read: Any


def sample(written: Any, read: Any = None, name: str | None = None) -> Sample:
    return Sample(name or str(written), written, written if read is None else read)


#: Types that come back as they are.
_SAME = [
    *(getattr(pa, f"{sign}int{bits}")() for bits in (8, 16, 32, 64) for sign in ("", "u")),
    pa.float16(),
    pa.float32(),
    pa.float64(),
    pa.bool_(),
    pa.string(),
    pa.binary(),
    pa.binary(1),
    pa.binary(5),
    pa.binary(16),
    pa.date32(),
    pa.time32("ms"),
    pa.time64("us"),
    pa.time64("ns"),
    pa.timestamp("ms"),
    pa.timestamp("us"),
    pa.timestamp("ns"),
    pa.timestamp("us", "UTC"),
    pa.timestamp("ns", "UTC"),
    pa.decimal128(4, 4),
    pa.decimal128(9, 2),
    pa.decimal128(18, 0),
    pa.decimal128(19, 5),
    pa.decimal128(38, 10),
    pa.null(),
]
#: Types that come back as another one, and why.
KNOWN_DIFFERENCES: list[tuple[Any, Any, str]] = [
    (pa.large_string(), pa.string(), "a width of offsets is a matter of memory, not of the file"),
    (pa.large_binary(), pa.binary(), "the same"),
    (pa.string_view(), pa.string(), "the same"),
    (pa.dictionary(pa.int32(), pa.string()), pa.string(), "dictionaries are an encoding"),
    (pa.date64(), pa.date32(), "Parquet's DATE counts days"),
    (pa.time32("s"), pa.time32("ms"), "Parquet has no seconds"),
    (pa.timestamp("s"), pa.timestamp("ms"), "Parquet has no seconds"),
    (pa.timestamp("ms", "Asia/Tokyo"), pa.timestamp("ms", "UTC"), "Parquet knows UTC or local, no zones"),
    (pa.duration("us"), pa.int64(), "Parquet has no durations; the Arrow schema in the file is not followed"),
    (pa.decimal32(7, 2), pa.decimal128(7, 2), "one type of decimals here, whatever their width"),
    (pa.decimal64(15, 3), pa.decimal128(15, 3), "the same"),
    (pa.decimal256(38, 3), pa.decimal128(38, 3), "the same, up to 38 digits"),
    (pa.uuid(), pa.binary(16), "UUID is its 16 bytes"),
    (pa.json_(), pa.string(), "JSON is its text"),
]

_PAIR = pa.struct([("x", pa.int32()), ("y", pa.string())])
_REQUIRED = pa.field("item", pa.int32(), nullable=False)
_NESTED: list[tuple[Any, Any]] = [
    (pa.list_(pa.int32()), None),
    (pa.list_(pa.string()), None),
    (pa.list_(pa.bool_()), None),
    (pa.list_(pa.list_(pa.int64())), None),
    (pa.list_(pa.list_(pa.list_(pa.string()))), None),
    (pa.list_(_REQUIRED), pa.list_(pa.int32())),
    (pa.large_list(pa.int16()), pa.list_(pa.int16())),
    (pa.list_(pa.float32(), 3), pa.list_(pa.float32())),
    (_PAIR, None),
    (pa.struct([pa.field("a", pa.int64(), nullable=False), ("b", _PAIR)]), None),
    (pa.struct([("a", pa.struct([("b", pa.struct([("c", pa.struct([("d", pa.int8())]))]))]))]), None),
    (pa.list_(_PAIR), None),
    (pa.struct([("p", pa.list_(pa.int32())), ("q", pa.decimal128(9, 2)), ("r", pa.list_(_PAIR))]), None),
    (pa.list_(pa.struct([("k", pa.list_(pa.struct([("v", pa.string())])))])), None),
    (pa.map_(pa.string(), pa.int32()), None),
    (pa.map_(pa.int32(), _PAIR), None),
    (pa.map_(pa.string(), pa.list_(pa.map_(pa.int8(), pa.string()))), None),
    (pa.list_(pa.map_(pa.string(), pa.float64())), None),
]


def _nullable(data_type: Any) -> Any:
    """The type without "not null", which answers never say."""
    if pa.types.is_struct(data_type):
        return pa.struct([(field.name, _nullable(field.type)) for field in data_type])
    if pa.types.is_list(data_type):
        return pa.list_(_nullable(data_type.value_type))
    if pa.types.is_map(data_type):
        return pa.map_(_nullable(data_type.key_type), _nullable(data_type.item_type))
    return data_type


FLAT = [
    *(sample(data_type) for data_type in _SAME),
    *(sample(written, read) for written, read, _ in KNOWN_DIFFERENCES),
]
NESTED = [
    sample(written, _nullable(read or written), f"nested {number}")
    for number, (written, read) in enumerate(_NESTED)
]
SAMPLES = FLAT + NESTED


# ---- values ----


def column(kind: Any, row_count: int = ROW_COUNT, seed: int = 0) -> Any:
    """An array without NULLs at the top; in lists, structs and maps there are some at every level."""
    random = np.random.default_rng([seed, *str(kind).encode()])
    if pa.types.is_null(kind):
        return pa.nulls(row_count)
    if pa.types.is_string_view(kind):
        return column(pa.string(), row_count, seed).cast(kind)
    if pa.types.is_dictionary(kind):
        return column(kind.value_type, row_count, seed).dictionary_encode()
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, column(kind.storage_type, row_count, seed))
    if pa.types.is_nested(kind):
        return pa.array([_value(random, kind, nullable=False) for _ in range(row_count)], kind)
    third = row_count // 3
    few = random.integers(0, 5, third)
    indices = np.concatenate((np.sort(few), few, np.arange(row_count - 2 * third)))
    return _distinct(random, kind, row_count).take(pa.array(indices))


def _distinct(random: Any, kind: Any, count: int) -> Any:
    """Mostly different values, the extremes among them."""
    if pa.types.is_boolean(kind):
        return pa.array(random.random(count) < 0.5)
    if pa.types.is_floating(kind):
        bits = random.bytes(count * kind.bit_width // 8)  # every NaN, subnormal and infinity there is
        return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(bits)])
    if pa.types.is_integer(kind):
        numbers: Any = np.iinfo(kind.to_pandas_dtype())
        return pa.array(_integers(random, numbers.min, numbers.max, count, numbers.dtype))
    if pa.types.is_decimal(kind):
        end = 10**kind.precision - 1
        numbers = _integers(random, -min(end, 2**62), min(end, 2**62), count, np.int64).tolist()
        numbers[:2] = [end, -end]
        return pa.array([_decimal(number, kind.scale) for number in numbers], kind)
    if pa.types.is_temporal(kind):
        return _temporal(random, kind, count)
    if pa.types.is_fixed_size_binary(kind):
        return pa.array([random.bytes(kind.byte_width) for _ in range(count)], kind)
    values = [_text(random) for _ in range(count)]
    return pa.array([text.encode() + b"\xff" for text in values] if "binary" in str(kind) else values, kind)


def _integers(random: Any, low: int, high: int, count: int, dtype: Any) -> Any:
    near = random.integers(max(low, -100), min(high, 100), count, dtype, endpoint=True)
    far = random.integers(low, high, count, dtype, endpoint=True)
    mixed = np.where(random.random(count) < 0.5, near, far)
    mixed[:4] = [low, high, low, 0]
    return mixed


def _decimal(number: int, scale: int) -> Decimal:
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))


def _temporal(random: Any, kind: Any, count: int) -> Any:
    unit = {"s": 1, "ms": 1000, "us": 10**6, "ns": 10**9}.get(getattr(kind, "unit", ""), 1)
    storage: Any = np.int32 if kind.bit_width == 32 else np.int64
    if pa.types.is_time(kind):
        low, high = 0, 86_400 * unit - 1
    elif pa.types.is_date32(kind):
        low, high = -719_162, 2_932_896  # the years 1 to 9999
    elif pa.types.is_date64(kind):
        days = random.integers(-719_162, 2_932_896, count)
        return pa.array(days * 86_400_000).view(kind)
    else:
        low, high = (bound * unit // 1000 for bound in _MOMENTS)
    return pa.array(_integers(random, low, high, count, storage)).view(kind)


def _text(random: Any) -> str:
    size = int(random.integers(0, 12))
    if random.random() < 0.3:
        return "the same beginning, which is long, and then " + "".join(random.choice(_LETTERS, size))
    return "".join(random.choice(_LETTERS, size))


def _value(random: Any, kind: Any, *, nullable: bool = True) -> Any:
    """A Python value: NULL, and lists without items, wherever the type allows them."""
    if nullable and random.random() < 0.2:
        return None
    if pa.types.is_struct(kind):
        return {field.name: _value(random, field.type, nullable=field.nullable) for field in kind}
    if pa.types.is_map(kind):
        keys = {_value(random, kind.key_type, nullable=False): None for _ in range(_length(random))}
        return [(key, _value(random, kind.item_type)) for key in keys]
    if pa.types.is_fixed_size_list(kind):
        return [float(random.integers(0, 99)) for _ in range(kind.list_size)]
    if pa.types.is_nested(kind):
        field: Any = kind.value_field  # type: ignore[union-attr]
        return [_value(random, field.type, nullable=field.nullable) for _ in range(_length(random))]
    number = int(random.integers(-100, 100))
    if pa.types.is_boolean(kind):
        return number > 0
    if pa.types.is_string(kind):
        return _text(random) if number > 0 else str(number)
    if pa.types.is_decimal(kind):
        return _decimal(number, kind.scale)
    return number


def _length(random: Any) -> int:
    """Mostly few items, sometimes more than a page of a small file holds."""
    kind = random.random()
    return 0 if kind < 0.25 else 40 if kind > 0.99 else int(random.integers(1, 4))


# ---- NULLs ----

NULLS = ("required", "none", "some", "all", "first", "last", "runs")


def with_nulls(array: Any, nulls: str) -> Any:
    """The same column with some rows NULL: `first` and `last` leave whole pages without a value."""
    count = len(array)
    rows = np.arange(count)
    mask = {
        "required": rows < 0,
        "none": rows < 0,
        "some": np.random.default_rng(count).random(count) < 0.3,
        "all": rows >= 0,
        "first": rows < count // 4,
        "last": rows >= count - count // 4,
        "runs": rows // 100 % 2 == 1,
    }[nulls]
    if not mask.any():
        return array
    if pa.types.is_struct(array.type):  # taking would put NULLs into fields that are required
        return pa.StructArray.from_arrays(
            [array.field(index) for index in range(array.type.num_fields)],
            fields=list(array.type),
            mask=pa.array(mask),
        )
    indices = pa.array(rows, mask=mask)
    if pa.types.is_string_view(array.type):  # pyarrow cannot take from these
        return array.cast(pa.string()).take(indices).cast(array.type)
    return array.take(indices)
