"""Columns of every type and shape that Lance files hold, as their writer encodes shapes differently.

    for name, array, versions in cases(20_000): …

A **kind** makes a column of any number of rows without NULLs at the top (nested ones have some inside), the
same in every run; `with_nulls` puts them in. Its versions are those of data files that can hold it; what
pylance refuses of the rest, `refusals` says, and a test holds it to that. Kinds of large values have fewer
rows than they are asked for, so that every case is a few megabytes.

    types         each type with random values, extremes among them: sample_columns.py
    shapes        small ranges, sorted, constant, runs, few values, all bit widths, long texts, vectors
    nested        lists, structures and maps in each other, to depth three and beyond
    settings      field metadata that asks for another encoding: general compression, byte stream split, …
"""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tests.formats import sample_columns
from tests.lance_tables import VERSIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Make = Callable[[int], Any]

#: Of values, in all rows of a case together.
CASE_BYTES_MAX = 6 << 20
SINCE_2_0, SINCE_2_1, SINCE_2_2 = VERSIONS[1:], VERSIONS[2:], VERSIONS[3:]
BEFORE_2_1 = VERSIONS[:2]
#: Rows that are made value by value in Python; more are these again, in another order.
_SLOW_ROWS = 700

NULLS = ("none", "some", "all")
#: Rare NULLs and runs of them have levels of their own encoding.
MORE_NULLS = ("rare", "runs")


class Kind(NamedTuple):
    name: str
    make: Make
    versions: tuple[str, ...] = VERSIONS
    #: Of the field: what pylance's writer is asked for.
    metadata: Mapping[str, str] | None = None
    #: About how large a row is.
    row_bytes: int = 8
    #: It has NULLs of its own, or there is a reason why there should be none.
    has_nulls: bool = True
    #: It need not be read, if it is refused by name.
    is_optional: bool = False

    def rows(self, wanted: int) -> int:
        return max(1, min(wanted, CASE_BYTES_MAX // self.row_bytes))

    def column(self, rows: int, nulls: str) -> Any:
        array = _made(self.name, self.rows(rows))
        return with_nulls(array, nulls) if self.has_nulls else array

    @property
    def type(self) -> Any:
        return _made(self.name, 1).type


@cache
def by_name() -> dict[str, Kind]:
    found = {kind.name: kind for kind in _all_kinds()}
    assert len(found) == sum(1 for _ in _all_kinds()), "two kinds have one name"
    return found


def kinds() -> list[Kind]:
    return list(by_name().values())


def cases(rows: int, nulls: str = "none") -> Iterator[tuple[str, Any, tuple[str, ...]]]:
    for kind in kinds():
        yield kind.name, kind.column(rows, nulls), kind.versions


@cache
def _last_made() -> dict[tuple[str, int], Any]:
    return {}


def _made(name: str, rows: int) -> Any:
    """Kept while one kind is asked for again, with other NULLs or for another version."""
    kept = _last_made()
    if (name, rows) not in kept:
        while len(kept) >= 4:
            del kept[next(iter(kept))]
        kept[name, rows] = by_name()[name].make(rows)
    made = kept[name, rows]
    assert len(made) == rows, f"{name}: {len(made)} rows, not {rows}"
    return made


def with_nulls(array: Any, nulls: str) -> Any:
    rows = np.arange(len(array))
    if nulls == "rare":
        return _masked(array, rows % 4_999 == len(array) // 2 % 4_999)
    if nulls == "runs":
        return _masked(array, rows // 300 % 3 == 1)
    if "view" in str(array.type):  # pyarrow cannot take from these
        return with_nulls(array.cast(_without_view(array.type)), nulls).cast(array.type)
    return sample_columns.with_nulls(array, nulls)


def _without_view(given: Any) -> Any:
    return pa.string() if pa.types.is_string_view(given) else pa.binary()


def _masked(array: Any, mask: Any) -> Any:
    if pa.types.is_struct(array.type):
        fields = [array.field(index) for index in range(array.type.num_fields)]
        return pa.StructArray.from_arrays(fields, fields=list(array.type), mask=pa.array(mask))
    return array.take(pa.array(np.arange(len(array)), mask=mask))


def _random(name: str) -> np.random.Generator:
    return np.random.default_rng([1, *name.encode()])


def _all_kinds() -> Iterator[Kind]:
    yield from _types()
    yield from _integers()
    yield from _floats_and_flags()
    yield from _texts()
    yield from _vectors()
    yield from _lists()
    yield from _structures()
    yield from _maps()
    yield from _dictionaries()
    yield from _settings()


# ---- each type, values of all kinds ----

_FLAT: list[Any] = [
    *(getattr(pa, f"{sign}int{bits}")() for bits in (8, 16, 32, 64) for sign in ("", "u")),
    *(pa.float16(), pa.float32(), pa.float64(), pa.bool_()),
    *(pa.string(), pa.large_string(), pa.binary(), pa.large_binary()),
    *(pa.binary(width) for width in (1, 3, 5, 16, 33)),
    *(pa.date32(), pa.date64()),
    *(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
    *(pa.timestamp(unit, "UTC") for unit in ("s", "ms", "us", "ns")),
    *(pa.timestamp("us", zone) for zone in ("Asia/Tokyo", "America/New_York", "+05:30")),
    *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
    *(pa.decimal128(*shape) for shape in ((1, 0), (4, 4), (9, 2), (18, 0), (18, 18), (19, 5), (38, 10))),
    *(pa.decimal256(*shape) for shape in ((5, 2), (18, 3), (19, 3), (38, 10))),
]


def _types() -> Iterator[Kind]:
    for given in _FLAT:
        yield Kind(f"type {given}", _of_type(given), row_bytes=_width(given))
    yield Kind("type null", pa.nulls, has_nulls=False)
    for given in (pa.string_view(), pa.binary_view()):
        yield Kind(f"type {given}", _views(given), row_bytes=24)
    yield Kind("type uuid", _extension(pa.uuid(), pa.binary(16)), row_bytes=16)
    # Which it stores as a tree in bytes of its own, and gives back with sorted keys.
    yield Kind("type json", _json, row_bytes=24, is_optional=True)
    #: Digits that we have no type for: NOT_SUPPORTED, and the table's other columns are read all the same.
    for shape in ((40, 2), (76, 10)):
        yield Kind(f"type {pa.decimal256(*shape)}", _of_type(pa.decimal256(*shape)), row_bytes=32)
    yield Kind("decimal256 of 38 digits", _wide_decimals, row_bytes=32)


def _width(given: Any) -> int:
    try:
        return max(1, int(given.bit_width) // 8)
    except ValueError:
        return 24


def _of_type(given: Any) -> Make:
    return lambda rows: _flat(given, rows)


def _flat(given: Any, rows: int) -> Any:
    """Texts are made one by one: those of many rows are some again."""
    is_slow = _width(given) == 24 or pa.types.is_decimal(given) or pa.types.is_fixed_size_binary(given)
    return _again(sample_columns.column(given, _SLOW_ROWS if is_slow else max(rows, 8)), rows)


def _again(made: Any, rows: int) -> Any:
    """In another order from the second time on, so that no period is that of a page."""
    if len(made) >= rows:
        return made.slice(0, rows)
    order = np.random.default_rng(len(made)).integers(0, len(made), rows - len(made))
    return made.take(pa.array(np.concatenate((np.arange(len(made)), order))))


def _views(given: Any) -> Make:
    return lambda rows: _flat(_without_view(given), rows).cast(given)


def _extension(kind: Any, storage: Any) -> Make:
    return lambda rows: pa.ExtensionArray.from_storage(kind, _flat(storage, rows))


def _json(rows: int) -> Any:
    texts = [f'{{"row":{row},"odd":[null,"{_WORDS[row % 9]}"]}}' for row in range(min(rows, _SLOW_ROWS))]
    return pa.ExtensionArray.from_storage(pa.json_(), _again(pa.array(texts), rows))


def _wide_decimals(rows: int) -> Any:
    random = _random("wide")
    numbers = [Decimal(int.from_bytes(random.bytes(15), "big", signed=True)) for _ in range(_SLOW_ROWS)]
    numbers[:2] = [Decimal(10**38 - 1), Decimal(1 - 10**38)]
    return _again(pa.array(numbers, pa.decimal256(38, 0)), rows)


# ---- integers and what is stored as such ----

_INTEGER_TYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def _integers() -> Iterator[Kind]:
    for name in _INTEGER_TYPES:
        width = np.dtype(name).itemsize
        yield Kind(f"{name} of all bits", _numbers(name, _full), row_bytes=width)
        yield Kind(f"{name} below 100", _numbers(name, _small), row_bytes=width)
        yield Kind(f"{name} of every bit width", _numbers(name, _bit_widths), row_bytes=width)
        yield Kind(f"{name} constant", _numbers(name, _constant), row_bytes=width)
        yield Kind(f"{name} in runs of 100", _numbers(name, _runs(100)), row_bytes=width)
    for name in ("int16", "int32", "int64", "uint64"):
        width = np.dtype(name).itemsize
        yield Kind(f"{name} in runs of 3", _numbers(name, _runs(3)), row_bytes=width)
        yield Kind(f"{name} in runs of 1,000", _numbers(name, _runs(1_000)), row_bytes=width)
        yield Kind(f"{name} of 50 values", _numbers(name, _few), row_bytes=width)
        yield Kind(f"{name} with a rare large one", _numbers(name, _outliers), row_bytes=width)
    yield Kind("int64 around zero", _numbers("int64", _around_zero))
    yield Kind("int64 sorted", _numbers("int64", _sorted))
    yield Kind("int64 sorted from far", _numbers("int64", lambda _, __, rows: np.arange(rows) + 10**12))
    yield Kind("int64 all zero", _numbers("int64", lambda _, __, rows: np.zeros(rows)))
    yield Kind("int64 all least", _numbers("int64", lambda _, __, rows: np.full(rows, -(2**63))))
    for given in (pa.timestamp("us"), pa.timestamp("ns", "UTC"), pa.date32(), pa.date64(), pa.time64("ns")):
        yield Kind(f"{given} in order", _moments(given, _sorted), row_bytes=_width(given))
        yield Kind(f"{given} of few values", _moments(given, _few_days), row_bytes=_width(given))
    small = pa.decimal128(12, 2)
    yield Kind("decimal128 prices", lambda rows: _decimals(small, rows), row_bytes=16)
    yield Kind("decimal128 of a few", lambda rows: _again(_decimals(small, 9), rows), row_bytes=16)
    yield Kind("decimal128 constant", lambda rows: _repeated(_decimals(small, 1), rows), row_bytes=16)
    yield Kind("decimal128 of 38 digits", _wide_128, row_bytes=16)
    negative = pa.decimal128(5, -2)
    yield Kind("decimal128 of hundreds", lambda rows: _decimals(negative, rows), row_bytes=16)


def _numbers(name: str, shape: Callable[[np.random.Generator, Any, int], Any]) -> Make:
    def make(rows: int) -> Any:
        return pa.array(np.asarray(shape(_random(name), np.dtype(name), rows)).astype(name))

    return make


def _full(random: np.random.Generator, dtype: Any, rows: int) -> Any:
    info = np.iinfo(dtype)
    return random.integers(info.min, info.max, rows, dtype, endpoint=True)


def _small(random: np.random.Generator, dtype: Any, rows: int) -> Any:
    return random.integers(0, 100, rows)


def _around_zero(random: np.random.Generator, dtype: Any, rows: int) -> Any:
    return random.integers(-50, 50, rows)


def _bit_widths(random: np.random.Generator, dtype: Any, rows: int) -> Any:
    """1,024 values of each width, of which one at least needs it."""
    bits = dtype.itemsize * 8
    widths = np.arange(rows) // 1024 % (bits + 1)
    numbers = random.integers(0, 2**64, rows, np.uint64, endpoint=False)
    shifted = np.where(widths == 0, 0, numbers >> np.minimum(64 - widths, 63).astype(np.uint64))
    tops = np.where(widths == 0, 0, np.uint64(1) << np.maximum(widths - 1, 0).astype(np.uint64))
    return np.where(np.arange(rows) % 1024 == 700, tops, shifted).astype(f"uint{bits}").view(dtype)


def _constant(random: np.random.Generator, dtype: Any, rows: int) -> Any:
    return np.full(rows, 42)


def _runs(size: int) -> Callable[[np.random.Generator, Any, int], Any]:
    return lambda random, dtype, rows: np.repeat(_full(random, dtype, rows // size + 1), size)[:rows]


def _few(random: np.random.Generator, dtype: Any, rows: int) -> Any:
    return random.choice(_full(random, dtype, 50), rows)


def _outliers(random: np.random.Generator, dtype: Any, rows: int) -> Any:
    numbers = random.integers(0, 10, rows).astype(dtype)
    numbers[::3_001] = np.iinfo(dtype).max
    return numbers


def _sorted(random: np.random.Generator, dtype: Any, rows: int) -> Any:
    return np.arange(rows)


def _few_days(random: np.random.Generator, dtype: Any, rows: int) -> Any:
    return random.integers(0, 30, rows)


def _moments(given: Any, shape: Callable[[np.random.Generator, Any, int], Any]) -> Make:
    def make(rows: int) -> Any:
        storage = np.dtype(np.int32 if given.bit_width == 32 else np.int64)
        numbers = np.asarray(shape(_random(str(given)), storage, rows)).astype(storage)
        step = 86_400_000 if pa.types.is_date64(given) else 1
        return pa.array((numbers + (0 if pa.types.is_time(given) else 18_000)) * step).view(given)

    return make


def _decimals(given: Any, rows: int) -> Any:
    numbers = _random(str(given)).integers(-(10 ** min(given.precision, 6)) + 1, 10**4, min(rows, _SLOW_ROWS))
    values = [Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -given.scale)) for n in numbers.tolist()]
    return _again(pa.array([value if given.scale >= 0 else value * 1 for value in values], given), rows)


def _wide_128(rows: int) -> Any:
    random = _random("wide 128")
    numbers = [Decimal(int.from_bytes(random.bytes(15), "big", signed=True)) for _ in range(_SLOW_ROWS)]
    numbers[:2] = [Decimal(10**38 - 1), Decimal(1 - 10**38)]
    return _again(pa.array(numbers, pa.decimal128(38, 0)), rows)


def _repeated(one: Any, rows: int) -> Any:
    return one.take(pa.array(np.zeros(rows, np.int64)))


# ---- floats, booleans ----


def _floats_and_flags() -> Iterator[Kind]:
    for name in ("float16", "float32", "float64"):
        width = np.dtype(name).itemsize
        for shape, make in _FLOAT_SHAPES.items():
            yield Kind(f"{name} {shape}", _floats(name, make), row_bytes=width)
    yield Kind("bool random", lambda rows: pa.array(_random("bool").random(rows) < 0.5), row_bytes=1)
    yield Kind("bool constant", lambda rows: pa.array(np.ones(rows, bool)), row_bytes=1)
    yield Kind("bool in runs", lambda rows: pa.array(np.arange(rows) // 1000 % 2 == 0), row_bytes=1)
    yield Kind("bool seldom", lambda rows: pa.array(np.arange(rows) % 997 == 996), row_bytes=1)


_FLOAT_SHAPES: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "random": lambda random, rows: random.random(rows),
    "prices": lambda random, rows: np.round(random.random(rows) * 100, 2),
    "constant": lambda random, rows: np.full(rows, 1.5),
    "of few values": lambda random, rows: random.choice([1.5, 2.5, -0.0, 0.0, np.nan], rows),
    "in runs": lambda random, rows: np.repeat(random.random(rows // 200 + 1), 200)[:rows],
    "all zeros of both signs": lambda random, rows: np.where(np.arange(rows) % 2, -0.0, 0.0),
    "no numbers": lambda random, rows: np.full(rows, np.nan),
}


def _floats(name: str, make: Callable[[np.random.Generator, int], Any]) -> Make:
    return lambda rows: pa.array(make(_random(name), rows).astype(name))


# ---- texts and bytes ----

_WORDS = ("apple", "banana", "cherry", "dragonfruit", "elderberry", "", "ä", "日本語", "a" * 40)
_TEXT_TYPES = {"utf8": pa.string(), "large_utf8": pa.large_string(), "binary": pa.binary()}


def _texts() -> Iterator[Kind]:
    for name, given in _TEXT_TYPES.items():
        for shape, (make, size) in _TEXT_SHAPES.items():
            yield Kind(f"{name} {shape}", _text_maker(given, make), row_bytes=size)
    large = pa.large_binary()
    for shape in ("a few words", "of 300 bytes", "of 5 kB"):
        make, size = _TEXT_SHAPES[shape]
        yield Kind(f"large_binary {shape}", _text_maker(large, make), row_bytes=size)
    yield Kind("binary of 16 random bytes", _random_bytes(pa.binary(), 16), row_bytes=16)
    yield Kind("binary of 300 random bytes", _random_bytes(pa.binary(), 300), row_bytes=300)
    yield Kind("fixed binary of a few", lambda rows: _again(_random_bytes(pa.binary(7), 7)(5), rows))
    yield Kind("fixed binary constant", lambda rows: _repeated(_random_bytes(pa.binary(6), 6)(1), rows))
    yield Kind("fixed binary of 300", _random_bytes(pa.binary(300), 300), row_bytes=300)
    yield Kind("fixed binary of 20,000", _random_bytes(pa.binary(20_000), 20_000), row_bytes=20_000)
    yield Kind("fixed binary of nothing", lambda rows: pa.array([b""] * rows, pa.binary(0)), SINCE_2_2)


def _text_maker(given: Any, make: Callable[[np.random.Generator, int], list[str]]) -> Make:
    def made(rows: int) -> Any:
        texts = make(_random("text"), rows)
        is_binary = pa.types.is_binary(given) or pa.types.is_large_binary(given)
        found = pa.array([text.encode() for text in texts] if is_binary else texts, given)
        return _again(found, rows)

    return made


def _random_bytes(given: Any, size: int) -> Make:
    def make(rows: int) -> Any:
        data = _random("bytes").bytes(size * rows)
        return pa.array([data[start : start + size] for start in range(0, len(data), size)], given)

    return make


def _hexes(random: np.random.Generator, count: int, size: int) -> list[str]:
    digits = random.bytes(size // 2 * count).hex()
    return [digits[start : start + size] for start in range(0, len(digits), size)]


def _phrases(random: np.random.Generator, rows: int) -> list[str]:
    return [f"the quick brown fox {number} " * 9 for number in range(rows)]


def _of_mixed_sizes(random: np.random.Generator, rows: int) -> list[str]:
    return [f"x{number}" * (1 if number % 50 else 100) for number in range(rows)]


def _odd_letters(random: np.random.Generator, rows: int) -> list[str]:
    """Bytes that no symbol table has much use for."""
    letters = np.array([chr(number) for number in range(1, 0x500)])
    return ["".join(random.choice(letters, 12)) for _ in range(min(rows, 3_000))]


#: Texts, and about how long they are. Fewer than are wanted come again.
_TEXT_SHAPES: dict[str, tuple[Callable[[np.random.Generator, int], list[str]], int]] = {
    "short and unique": (lambda _, rows: [f"user_{number:08}" for number in range(rows)], 13),
    "a few words": (lambda random, rows: list(random.choice(_WORDS, rows)), 9),
    "of random digits": (lambda random, rows: _hexes(random, min(rows, 20_000), 32), 32),
    "of 200 bytes alike": (_phrases, 200),
    "of 300 bytes": (lambda random, rows: _hexes(random, rows, 300), 300),
    "of 300 bytes, five of them": (lambda random, rows: _hexes(random, 5, 300), 300),
    "of 5 kB": (lambda random, rows: _hexes(random, rows, 5_000), 5_000),
    "of 40 kB": (lambda random, rows: _hexes(random, rows, 40_000), 40_000),
    "of 40 kB alike": (lambda _, rows: ["all the same " * 3_000 + str(n) for n in range(rows)], 40_000),
    "of 2 MB": (lambda random, rows: [*_hexes(random, 2, 2 << 20), "", "x"][:rows], 2 << 20),
    "of mixed sizes": (_of_mixed_sizes, 18),
    "of odd letters": (_odd_letters, 20),
    "constant": (lambda _, rows: ["same"] * rows, 4),
    "empty": (lambda _, rows: [""] * rows, 1),
    "mostly empty": (lambda _, rows: ["" if number % 9 else "x" for number in range(rows)], 1),
    "in runs": (lambda _, rows: [f"run {number // 150}" for number in range(rows)], 8),
}


# ---- fixed-size lists ----


def _vectors() -> Iterator[Kind]:
    for dimension in (1, 3, 4, 16, 63, 64, 128, 768):
        yield Kind(f"vector of {dimension}", _vector("float32", dimension), row_bytes=4 * dimension)
    for name, dimension in (("float16", 128), ("float16", 3), ("float64", 4), ("float64", 64)):
        width = np.dtype(name).itemsize
        yield Kind(f"vector of {dimension} {name}", _vector(name, dimension), row_bytes=width * dimension)
    for name, dimension in (("float32", 4), ("float32", 128), ("float16", 128), ("int32", 5), ("int64", 64)):
        width = np.dtype(name).itemsize * dimension
        shape = f"vector of {dimension} {name} with NULLs in it"
        yield Kind(shape, _vector(name, dimension, holes=True), row_bytes=width)
    for name, dimension in (("int8", 3), ("uint8", 128), ("int32", 5), ("int64", 3), ("uint16", 200)):
        width = np.dtype(name).itemsize * dimension
        yield Kind(f"list of {dimension} {name}", _vector(name, dimension), row_bytes=width)
    yield Kind("list of 4 equal int32", _fixed_list(_numbers("int32", _constant), 4), row_bytes=16)
    flags = _numbers("int8", _small)
    yield Kind("list of 3 bools", _fixed_list(lambda rows: _are_even(flags(rows)), 3), row_bytes=1)
    yield Kind("list of 130 bools", _fixed_list(lambda rows: _are_even(flags(rows)), 130), row_bytes=17)
    yield Kind(
        "list of 3 decimals", _fixed_list(lambda rows: _decimals(pa.decimal128(12, 2), rows), 3), row_bytes=48
    )
    yield Kind("list of 2 moments", _fixed_list(_of_type(pa.timestamp("us", "UTC")), 2), row_bytes=16)
    yield Kind("list of 2 dates", _fixed_list(_of_type(pa.date32()), 2), row_bytes=8)
    yield Kind("list of 3 times 5 bytes", _fixed_list(_of_type(pa.binary(5)), 3), row_bytes=15)
    yield Kind("list of 3 vectors of 2", _fixed_list(_vector("float32", 2), 3), row_bytes=24)
    yield Kind("list of 20 vectors of 5", _fixed_list(_vector("float32", 5), 20), row_bytes=400)


def _vector(name: str, dimension: int, *, holes: bool = False) -> Make:
    def make(rows: int) -> Any:
        random = _random(f"{name} {dimension}")
        count = rows * dimension
        numbers = random.random(count) if name.startswith("f") else random.integers(0, 100, count)
        mask = random.random(count) < 0.1 if holes else None
        return pa.FixedSizeListArray.from_arrays(pa.array(numbers.astype(name), mask=mask), dimension)

    return make


def _fixed_list(items: Make, size: int) -> Make:
    return lambda rows: pa.FixedSizeListArray.from_arrays(items(rows * size), size)


def _are_even(numbers: Any) -> Any:
    return pa.array(np.asarray(numbers) % 2 == 0)


# ---- lists ----


def _list_of(items: Make, name: str, *, large: bool = False, sizes: Any = None) -> Make:
    """Of no to five items, some empty, none NULL."""

    def make(rows: int) -> Any:
        counts = _random(name).integers(0, 6, rows) if sizes is None else sizes(_random(name), rows)
        offsets = np.concatenate(([0], np.cumsum(counts)))
        made = items(int(offsets[-1])) if offsets[-1] else items(1).slice(0, 0)
        kind: Any = pa.LargeListArray if large else pa.ListArray
        return kind.from_arrays(pa.array(offsets, pa.int64() if large else pa.int32()), made)

    return make


def _some(items: Make) -> Make:
    """A few of them NULL."""
    return lambda rows: with_nulls(items(rows), "some")


def _lists() -> Iterator[Kind]:
    numbers, texts = _numbers("int64", _small), _text_maker(pa.string(), _TEXT_SHAPES["a few words"][0])
    items: dict[str, tuple[Make, int]] = {
        "int64": (numbers, 20),
        "int64 of all bits": (_numbers("int64", _full), 20),
        "int8": (_numbers("int8", _full), 4),
        "floats": (_floats("float32", _FLOAT_SHAPES["random"]), 12),
        "doubles with no numbers": (_floats("float64", _FLOAT_SHAPES["of few values"]), 20),
        "bools": (lambda rows: _are_even(numbers(rows)), 1),
        "words": (texts, 30),
        "unique texts": (_text_maker(pa.string(), _TEXT_SHAPES["short and unique"][0]), 35),
        "large texts": (_text_maker(pa.large_string(), _TEXT_SHAPES["of 300 bytes"][0]), 750),
        "bytes": (_random_bytes(pa.binary(), 9), 25),
        "fixed bytes": (_random_bytes(pa.binary(5), 5), 15),
        "decimals": (lambda rows: _decimals(pa.decimal128(12, 2), rows), 40),
        "narrow decimals": (lambda rows: _decimals(pa.decimal128(9, 2), rows), 40),
        "moments": (_of_type(pa.timestamp("ns", "UTC")), 20),
        "dates": (_of_type(pa.date64()), 20),
        "durations": (_of_type(pa.duration("ms")), 20),
        "constants": (_numbers("int32", _constant), 10),
        "nothing": (pa.nulls, 4),
        "vectors": (_vector("float32", 3), 30),
        "long vectors": (_vector("float32", 70), 700),
        "words of a dictionary": (lambda rows: texts(rows).dictionary_encode(), 12),
    }
    for name, (make, size) in items.items():
        yield Kind(f"list of {name}", _list_of(make, name), row_bytes=size)
        if name != "nothing":
            yield Kind(f"list of {name}, some NULL", _list_of(_some(make), name), row_bytes=size)
    yield Kind("large list of int32", _list_of(_numbers("int32", _small), "large", large=True), row_bytes=20)
    yield Kind(
        "list of 64 floats", _list_of(_floats("float32", _FLOAT_SHAPES["random"]), "64", sizes=_all_of(64))
    )
    yield Kind("list of one", _list_of(numbers, "one", sizes=_all_of(1)))
    yield Kind("empty lists", _list_of(numbers, "empty", sizes=_all_of(0)))
    yield Kind("lists, few of them not empty", _list_of(numbers, "few", sizes=_seldom))
    yield Kind("lists of up to 10,000 items", _list_of(numbers, "long", sizes=_long), row_bytes=600)
    yield Kind("lists with items under NULLs", _hidden_items, row_bytes=20, has_nulls=False)
    twice = _list_of(_some(_list_of(_some(numbers), "inner")), "outer")
    yield Kind("list of lists", twice, row_bytes=60)
    yield Kind("list of lists of texts", _list_of(_list_of(_some(texts), "inner"), "outer"), row_bytes=90)
    yield Kind("list of lists of lists", _list_of(twice, "third"), row_bytes=160)
    yield Kind("list of lists of vectors", _list_of(_list_of(_vector("float32", 4), "v"), "w"), row_bytes=100)
    large = _list_of(_list_of(numbers, "inside", large=True), "outside")
    yield Kind("list of large lists", large, row_bytes=60)


def _all_of(size: int) -> Callable[[np.random.Generator, int], Any]:
    return lambda random, rows: np.full(rows, size)


def _seldom(random: np.random.Generator, rows: int) -> Any:
    return np.where(random.random(rows) < 0.01, 3, 0)


def _long(random: np.random.Generator, rows: int) -> Any:
    return np.where(random.random(rows) < 0.01, random.integers(0, 10_000, rows), 2)


def _hidden_items(rows: int) -> Any:
    lists = _list_of(_numbers("int64", _small), "hidden", sizes=_all_of(2))(rows)
    mask = pa.array(np.arange(rows) % 3 == 1)
    return pa.ListArray.from_arrays(lists.offsets, lists.values, mask=mask)


# ---- structures ----


def _struct_of(**fields: Make) -> Make:
    return lambda rows: pa.StructArray.from_arrays([make(rows) for make in fields.values()], list(fields))


def _structures() -> Iterator[Kind]:
    numbers, texts = _numbers("int64", _sorted), _text_maker(pa.string(), _TEXT_SHAPES["a few words"][0])
    pair = _struct_of(x=_some(numbers), y=_some(texts))
    yield Kind("struct", _struct_of(x=numbers, y=texts), row_bytes=20)
    yield Kind("struct with NULLs in it", pair, row_bytes=20)
    yield Kind("struct of one", _struct_of(only=_some(_numbers("int32", _constant))), row_bytes=4)
    yield Kind(
        "struct of structs", _struct_of(a=_nullable(pair), b=_struct_of(c=_nullable(pair))), row_bytes=60
    )
    yield Kind("struct of lists", _struct_of(p=_some(_list_of(_some(numbers), "p")), q=pair), row_bytes=60)
    vectors = _struct_of(v=_some(_vector("float32", 4)), w=_vector("float16", 70), b=_vector("int8", 3))
    yield Kind("struct of vectors", vectors, row_bytes=160)
    flat = {f"f{number}": _some(_of_type(given)) for number, given in enumerate(_FLAT) if _keeps(given)}
    yield Kind("struct of all flat types", _struct_of(**flat), row_bytes=600)
    yield Kind("struct of nothing at all", _struct_of(n=pa.nulls, m=_some(numbers)), row_bytes=9)
    nothing = Kind("struct without fields", lambda rows: pa.array([{}] * rows, pa.struct([])), SINCE_2_0)
    yield nothing._replace(has_nulls=False)
    yield Kind("list of structs", _list_of(_nullable(pair), "structs"), row_bytes=60)
    deep = _list_of(_nullable(_struct_of(k=_some(_list_of(_some(pair), "k")), n=numbers)), "deep")
    yield Kind("list of structs of lists of structs", deep, row_bytes=160)
    other = _struct_of(l=_some(_list_of(_nullable(_struct_of(m=_some(_list_of(texts, "m")))), "l")))
    yield Kind("struct of lists of structs of lists", other, row_bytes=160)
    lists = _list_of(_struct_of(v=_vector("float32", 3), t=_some(texts)), "sv")
    yield Kind("list of structs with vectors", lists, row_bytes=60)
    dictionary = _struct_of(d=lambda rows: texts(rows).dictionary_encode(), n=numbers)
    yield Kind("struct with a dictionary", dictionary, row_bytes=20)
    long = _text_maker(pa.string(), _TEXT_SHAPES["of 300 bytes"][0])
    yield Kind("struct with long texts", _struct_of(t=_some(long), n=_some(numbers)), row_bytes=310)
    yield Kind("list of structs with long texts", _list_of(_struct_of(t=_some(long)), "lt"), row_bytes=800)


def _keeps(given: Any) -> bool:
    """Whether values come back with their own type, so that one odd type does not hide the others."""
    return not pa.types.is_decimal256(given)


def _nullable(make: Make) -> Make:
    """Structures of which some are NULL, with values below."""
    return lambda rows: _masked(make(rows), np.arange(rows) % 7 == 3)


# ---- maps ----


def _map_of(keys: Make, values: Make, name: str) -> Make:
    def make(rows: int) -> Any:
        entries = _list_of(lambda count: pa.array(np.arange(count)), name)(rows)
        count = len(entries.values)
        if not count:
            return pa.MapArray.from_arrays(entries.offsets, keys(1).slice(0, 0), values(1).slice(0, 0))
        return pa.MapArray.from_arrays(entries.offsets, keys(count), values(count))

    return make


def _maps() -> Iterator[Kind]:
    numbers, texts = _numbers("int32", _sorted), _text_maker(pa.string(), _TEXT_SHAPES["a few words"][0])
    unique = _text_maker(pa.string(), _TEXT_SHAPES["short and unique"][0])
    small = _map_of(unique, _some(numbers), "map")
    for name, make, size in (
        ("of numbers by text", small, 50),
        ("of texts by number", _map_of(numbers, _some(texts), "texts"), 40),
        ("of structs", _map_of(numbers, _nullable(_struct_of(x=numbers, y=_some(texts))), "structs"), 60),
        ("of lists", _map_of(unique, _some(_list_of(_some(numbers), "lists")), "of lists"), 80),
        ("of maps", _map_of(numbers, small, "maps"), 160),
    ):
        yield Kind(f"map {name}", make, SINCE_2_2, row_bytes=size)
    yield Kind("list of maps", _list_of(_some(small), "of maps"), SINCE_2_2, row_bytes=160)
    yield Kind("struct of a map", _struct_of(m=_some(small), n=numbers), SINCE_2_2, row_bytes=60)


# ---- Arrow's dictionaries ----


def _dictionary(values: Any, *, index: str = "int32", nulls: bool = False) -> Make:
    def make(rows: int) -> Any:
        codes = _random(index).integers(0, len(values), rows)
        mask = codes % 3 == 1 if nulls else None
        return pa.DictionaryArray.from_arrays(pa.array(codes.astype(index), mask=mask), values)

    return make


def _dictionaries() -> Iterator[Kind]:
    words = pa.array([word for word in _WORDS if word])
    for index in _INTEGER_TYPES:
        yield Kind(f"dictionary of texts by {index}", _dictionary(words, index=index), row_bytes=4)
    values: dict[str, tuple[Any, tuple[str, ...]]] = {
        "int64": (pa.array([5, -(2**63), 7]), VERSIONS),
        "int32": (pa.array([5, -7, 7], pa.int32()), VERSIONS),
        "uint8": (pa.array([5, 200, 7], pa.uint8()), VERSIONS),
        "large texts": (words.cast(pa.large_string()), VERSIONS),
        "bytes": (pa.array([b"\xff", b"ab", b"c" * 50]), VERSIONS),
        "doubles": (pa.array([1.5, -0.0, 7.25]), SINCE_2_0),
        "floats": (pa.array([1.5, -0.0, 7.25], pa.float32()), SINCE_2_0),
        "bools": (pa.array([True, False]), SINCE_2_0),
        "long texts": (pa.array([letter * 400 for letter in "abcdefg"]), VERSIONS),
        "one text": (pa.array(["alone"]), VERSIONS),
    }
    for name, (entries, versions) in values.items():
        yield Kind(f"dictionary of {name}", _dictionary(entries), versions, row_bytes=4)
        if len(entries) > 1:
            holes = _dictionary(entries, nulls=True)
            yield Kind(f"dictionary of {name}, some NULL", holes, versions, row_bytes=4, has_nulls=False)
    with_null = pa.array(["a", None, "c"])
    yield Kind("dictionary with NULL as an entry", _dictionary(with_null), row_bytes=4)
    many = pa.array([f"entry {number}" for number in range(5_000)])
    yield Kind("dictionary of 5,000 texts", _dictionary(many, index="int16"), row_bytes=4)
    unused = pa.array([f"unused {number}" for number in range(100)])
    first = _dictionary(unused.slice(0, 3), index="int8")
    yield Kind("dictionary, mostly unused", lambda rows: _other_entries(first(rows), unused), row_bytes=4)


def _other_entries(array: Any, entries: Any) -> Any:
    return pa.DictionaryArray.from_arrays(array.indices, entries)


# ---- what writers can be asked for ----


def _settings() -> Iterator[Kind]:
    numbers = _numbers("int64", _small)
    by_name: dict[str, tuple[Make, int]] = {
        "int64": (numbers, 8),
        "int32 in runs": (_numbers("int32", _runs(100)), 4),
        "int16": (_numbers("int16", _full), 2),
        "int8": (_numbers("int8", _small), 1),
        "bools": (lambda rows: _are_even(numbers(rows)), 1),
        "floats": (_floats("float32", _FLOAT_SHAPES["random"]), 4),
        "doubles": (_floats("float64", _FLOAT_SHAPES["prices"]), 8),
        "halves": (_floats("float16", _FLOAT_SHAPES["random"]), 2),
        "decimals": (lambda rows: _decimals(pa.decimal128(12, 2), rows), 16),
        "short texts": (_text_maker(pa.string(), _TEXT_SHAPES["short and unique"][0]), 13),
        "few texts": (_text_maker(pa.string(), _TEXT_SHAPES["a few words"][0]), 9),
        "long texts": (_text_maker(pa.string(), _TEXT_SHAPES["of 300 bytes"][0]), 300),
        "longer texts": (_text_maker(pa.large_string(), _TEXT_SHAPES["of 40 kB"][0]), 40_000),
        "bytes": (_random_bytes(pa.binary(), 9), 9),
        "fixed bytes": (_random_bytes(pa.binary(5), 5), 5),
        "lists": (_list_of(_some(numbers), "lists"), 20),
        "lists of texts": (_list_of(_text_maker(pa.string(), _TEXT_SHAPES["a few words"][0]), "t"), 30),
        "vectors of 4": (_vector("float32", 4), 16),
        "vectors of 4 with NULLs in them": (_vector("float32", 4, holes=True), 16),
        "vectors of 128": (_vector("float32", 128), 512),
        "a dictionary": (_dictionary(pa.array(["a", "bb", "ccc"])), 4),
    }
    wanted: dict[str, dict[str, str]] = {
        "by LZ4": {"compression": "lz4"},
        "by Zstandard": {"compression": "zstd"},
        "not compressed": {"compression": "none"},
        "by FSST": {"compression": "fsst"},
        "full zip": {"structural-encoding": "fullzip"},
        "full zip, Zstandard": {"structural-encoding": "fullzip", "compression": "zstd"},
        "mini-block": {"structural-encoding": "miniblock"},
    }
    for how, asked in wanted.items():
        metadata = {f"lance-encoding:{key}": value for key, value in asked.items()}
        for name, (make, size) in by_name.items():
            versions: tuple[str, ...] = SINCE_2_0
            if how == "by FSST" and name in ("bytes", "longer texts"):
                versions = SINCE_2_1  # its writer panics on offsets of 8 bytes, and on pages without a value
            if how == "mini-block" and name == "longer texts":
                versions = ("2.0", "2.2")  # chunks of 2.1 end at 32 KiB
            yield Kind(f"{name}, {how}", make, versions, metadata, size)
    yield from _single_settings(by_name)
    yield from _packed_structs()
    yield from _blobs()


def _single_settings(makes: dict[str, tuple[Make, int]]) -> Iterator[Kind]:
    for name, asked in (
        ("floats", {"bss": "on", "compression": "lz4"}),
        ("floats", {"bss": "on", "compression": "zstd"}),
        ("doubles", {"bss": "on", "compression": "zstd", "compression-level": "9"}),
        ("doubles", {"bss": "on"}),
        ("int64", {"rle-threshold": "1.0"}),
        ("int32 in runs", {"rle-threshold": "0.9", "compression": "none"}),
        ("int64", {"minichunk-size": "512"}),
        ("short texts", {"minichunk-size": "512"}),
        ("few texts", {"dict-values-compression": "zstd"}),
        ("few texts", {"dict-values-compression": "none"}),
        ("short texts", {"dict-divisor": "1", "dict-size-ratio": "1.0"}),
        ("int64", {"dict-divisor": "1000000"}),
    ):
        make, size = makes[name]
        said = " ".join(f"{key}={value}" for key, value in asked.items())
        metadata = {f"lance-encoding:{key}": value for key, value in asked.items()}
        yield Kind(f"{name}, {said}", make, SINCE_2_0, metadata, size)


def _packed_structs() -> Iterator[Kind]:
    packed = {"lance-encoding:packed": "true"}
    numbers = _struct_of(a=_numbers("int32", _full), b=_numbers("uint8", _full), c=_numbers("int64", _small))
    yield Kind("packed struct", numbers, VERSIONS, packed, 13, has_nulls=False)
    mixed = _struct_of(f=_floats("float32", _FLOAT_SHAPES["random"]), d=_of_type(pa.date32()))
    yield Kind("packed struct of floats", mixed, VERSIONS, packed, 8, has_nulls=False)
    vectors = _struct_of(v=_vector("float32", 3), n=_numbers("int32", _small))
    yield Kind("packed struct with vectors", vectors, (*BEFORE_2_1, "2.2"), packed, 16, has_nulls=False)
    texts = _struct_of(
        n=_numbers("int64", _small),
        t=_text_maker(pa.string(), _TEXT_SHAPES["a few words"][0]),
        b=_random_bytes(pa.binary(), 4),
    )
    yield Kind("packed struct with texts", texts, ("0.1", "2.2"), packed, 24, has_nulls=False)


def _blobs() -> Iterator[Kind]:
    """Inline ones, which are their bytes."""
    blob = {"lance-encoding:blob": "true"}
    for name, make in (
        ("small", _random_bytes(pa.large_binary(), 50)),
        ("large", _random_bytes(pa.large_binary(), 30_000)),
        (
            "empty",
            lambda rows: pa.array([b"" if row % 2 else b"x" for row in range(rows)], pa.large_binary()),
        ),
    ):
        size = 30_000 if name == "large" else 100
        yield Kind(f"blobs, {name}", make, SINCE_2_0, blob, size)
