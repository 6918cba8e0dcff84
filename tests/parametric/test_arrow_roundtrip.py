"""Random Arrow tables of every type: through buffers, through QMCB and through the engine, the same."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from querymode.arrow.to_arrow import arrow_schema, to_arrow
from querymode.execute.budget import Budget
from querymode.execute.limits import Limits
from querymode.execute.local import LocalExecutor
from querymode.plan.nodes import Scan
from querymode.qmcb import decode_columnar_batch
from querymode.stage.lower import lower
from querymode.table import from_arrow as arrow
from querymode.table.from_arrow import from_arrow
from querymode.table.from_qmcb import from_qmcb
from tests.unit.test_arrow import ARRAYS, arrow_values, check_round_trip

struct_type: Any = pa.struct

_UNITS: tuple[Any, ...] = ("s", "ms", "us", "ns")
_LEAVES: list[Any] = [
    *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()),
    *(pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.null(), pa.date32(), pa.date64()),
    *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()),
    *(pa.binary(0), pa.binary(5), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    *(pa.timestamp(unit) for unit in _UNITS),
    *(pa.timestamp("us", "Europe/Berlin"), pa.month_day_nano_interval()),
    *(pa.duration(unit) for unit in _UNITS),
    *(
        pa.decimal32(9, 4),
        pa.decimal64(18, 2),
        pa.decimal128(9, 4),
        pa.decimal128(38, 3),
        pa.decimal256(30, 3),
    ),
    *(pa.dictionary(pa.int16(), pa.string()), pa.dictionary(pa.uint8(), pa.int64())),
]


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        inner.map(pa.list_),
        inner.map(pa.large_list),
        inner.map(pa.list_view),
        inner.map(pa.large_list_view),
        st.tuples(inner, st.integers(0, 3)).map(lambda pair: pa.list_(*pair)),
        st.sampled_from([pa.list_(pa.float32(), 3), pa.list_(pa.float16(), 2)]),
        st.lists(inner, max_size=3).map(
            lambda fields: struct_type([(f"f{i}", t) for i, t in enumerate(fields)])
        ),
        st.tuples(st.sampled_from([pa.string(), pa.int32()]), inner).map(lambda pair: pa.map_(*pair)),
    )


TYPES = st.recursive(st.sampled_from(_LEAVES), _nested, max_leaves=4)


def _values(kind: Any) -> st.SearchStrategy[Any]:
    """Python values that pyarrow takes for the type, NULLs included."""
    return st.none() if pa.types.is_null(kind) else st.none() | _valid_values(kind)


def _valid_values(kind: Any) -> st.SearchStrategy[Any]:
    if pa.types.is_dictionary(kind):
        # Few, so that their indices fit.
        return st.sampled_from(
            ["", "a", "größe"] if pa.types.is_string(kind.value_type) else [0, -1, 1 << 40]
        )
    if pa.types.is_nested(kind):
        return _nested_values(kind)
    if pa.types.is_boolean(kind):
        return st.booleans()
    if pa.types.is_integer(kind):
        signed = pa.types.is_signed_integer(kind)
        bits = kind.bit_width - signed
        return st.integers(-(1 << bits) if signed else 0, (1 << bits) - 1)
    if pa.types.is_floating(kind):
        width: Any = kind.bit_width
        return st.floats(width=width)
    if pa.types.is_decimal(kind):
        end = 10 ** min(kind.precision, 28) - 1
        return st.integers(-end, end).map(lambda digits: Decimal(digits).scaleb(-kind.scale))
    if pa.types.is_interval(kind):
        part = st.integers(-(1 << 31), (1 << 31) - 1)
        return st.tuples(part, part, st.integers(-(1 << 63), (1 << 63) - 1))
    if pa.types.is_temporal(kind):
        return _temporal_values(kind)
    if pa.types.is_fixed_size_binary(kind):
        return st.binary(min_size=kind.byte_width, max_size=kind.byte_width)
    if "string" in str(kind):
        return st.text(st.characters(codec="utf-8"), max_size=20)
    return st.binary(max_size=20)


def _nested_values(kind: Any) -> st.SearchStrategy[Any]:
    if pa.types.is_struct(kind):
        return st.fixed_dictionaries({field.name: _values(field.type) for field in kind})
    if pa.types.is_map(kind):
        return st.lists(st.tuples(_valid_values(kind.key_type), _values(kind.item_type)), max_size=3)
    if pa.types.is_fixed_size_list(kind):
        # Vectors have no NULL elements.
        is_vector = kind.value_type in (pa.float16(), pa.float32())
        item = (_valid_values if is_vector else _values)(kind.value_type)
        return st.lists(item, min_size=kind.list_size, max_size=kind.list_size)
    return st.lists(_values(kind.value_type), max_size=3)


def _temporal_values(kind: Any) -> st.SearchStrategy[Any]:
    if pa.types.is_date64(kind):
        return st.integers(-10_000, 10_000).map(lambda days: days * 86_400_000)
    if pa.types.is_time(kind):
        per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
        return st.integers(0, 86_400 * per_second - 1)
    return st.integers(-(1 << 31), (1 << 31) - 1)


@st.composite
def arrays(draw: st.DrawFn, rows: int) -> Any:
    """An array of that many rows: a slice of a longer one, in one or in several chunks."""
    kind = draw(TYPES)
    start = draw(st.sampled_from([0, 1, 7, 8, 9]))
    values = draw(st.lists(_values(kind), min_size=start, max_size=start + 2))
    values += draw(st.lists(_values(kind), min_size=rows, max_size=rows))
    array = pa.array(values, kind).slice(len(values) - rows)
    cuts = sorted(draw(st.lists(st.integers(0, rows), max_size=2)))
    bounds = [0, *cuts, rows]
    chunks = [array.slice(a, b - a) for a, b in pairwise(bounds)]
    return pa.chunked_array(chunks, kind)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    rows = draw(st.integers(0, 20))
    columns = draw(st.lists(arrays(rows), min_size=1, max_size=3))
    return pa.table({f"c{index}": column for index, column in enumerate(columns)})


FEW = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@FEW
@given(tables())
def test_buffers(table: pa.Table) -> None:
    check_round_trip(table)


def through_engine(table: pa.Table) -> pa.Table:
    ours = from_arrow(table)
    answer = LocalExecutor(Budget(1 << 30)).run(lower(Scan(ours)), Limits(thread_count=1))
    out = to_arrow([decode_columnar_batch(batch) for batch in answer.batches], ours.schema)
    out.validate(full=True)
    assert out.schema == arrow_schema(ours.schema)
    if answer.batches:
        assert from_qmcb(answer.batches).schema == ours.schema
    return out


def check_engine(table: pa.Table) -> None:
    out = through_engine(table)
    for name in table.column_names:
        assert arrow_values(out[name]) == arrow_values(table[name]), table.schema.field(name)


@FEW
@given(tables())
def test_engine(table: pa.Table) -> None:
    check_engine(table)


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("rows_max", [1 << 20, 7])
def test_every_type_through_the_engine(name: str, rows_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "morsel_rows", lambda size, count: rows_max)
    array = ARRAYS[name]
    parts = [array, array.slice(0, 0), array.slice(1), array.slice(7, 9), array.slice(9, 20)]
    check_engine(pa.table({"c": pa.chunked_array(parts), "n": range(sum(map(len, parts)))}))


def test_more_rows_than_a_chunk() -> None:
    rows = 50_000
    table = pa.table(
        {
            "n": range(rows),
            "s": [None if at % 7 == 0 else f"text {at}" for at in range(rows)],
            "l": [None if at % 5 == 0 else [at] * (at % 4) for at in range(rows)],
            "d": pa.array([f"value {at % 10}" for at in range(rows)]).dictionary_encode(),
        }
    )
    out = through_engine(pa.concat_tables([table.slice(3, 20_001), table.slice(20_004)]))
    expected = table.slice(3).set_column(3, "d", table["d"].slice(3).cast(pa.string()))
    assert out.to_pydict() == expected.to_pydict()
