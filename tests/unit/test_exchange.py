"""The steps that exchange rows, and top-k, through the doors: beside numpy, pyarrow and DuckDB."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from querymode._abi import LISTED, ArithmeticOp, ExpressionTag, NodeTag, OutputState, SourceKind, TypeTag
from querymode.arrow.to_arrow import to_arrow
from querymode.engine import instance as _wasm
from querymode.engine.instance import Cancelled, Instance
from querymode.engine.plan_bytes import (
    UNLIMITED,
    column_at,
    encode_bound,
    encode_limit,
    encode_merge,
    encode_partition,
    encode_plan,
    encode_repeat,
    encode_sort,
)
from querymode.errors import MemoryExceededError
from querymode.expr.literals import encode_value
from querymode.qmcb import decode_columnar_batch
from querymode.schema import Schema
from querymode.table.from_arrow import from_arrow
from querymode.types import BOOL, INT64, DataType, encode_type
from tests.raises import raises_code

Key = tuple[bytes, bool, bool]

GATHER = bytes((NodeTag.GATHER,))


@pytest.fixture
def instance() -> Iterator[Instance]:
    with Instance(1 << 30) as opened:
        yield opened
        assert not opened.broken


class Engine:
    """One plan over Arrow tables."""

    def __init__(self, instance: Instance, schema: Schema, steps: Sequence[bytes]) -> None:
        self.instance = instance
        self.schema = schema
        self.query = instance.query_open(encode_plan(list(schema), steps))

    def push(self, batch: bytes, run: int = 0) -> list[tuple[int, bytes]]:
        address = self.instance.alloc(len(batch))
        self.instance.write(address, batch)
        output = self.instance.query_push(self.query, SourceKind.QMCB, run, address=address, size=len(batch))
        self.instance.free(address, len(batch))
        return self._taken(output)

    def push_table(self, table: pa.Table) -> list[tuple[int, bytes]]:
        """All morsels of a table, each as it lies in memory."""
        taken = []
        for morsel in from_arrow(table).morsels:
            layout = morsel.layout(range(len(self.schema)))
            address = self.instance.alloc(layout.size)
            for place, buffer in layout.buffers:
                self.instance.write(address + place, buffer)
            output = self.instance.query_push(
                self.query, SourceKind.DESCRIPTOR, data=layout.descriptors(address)
            )
            self.instance.free(address, layout.size)
            taken += self._taken(output)
        return taken

    def finish(self) -> list[tuple[int, bytes]]:
        return self._taken(self.instance.query_finish(self.query))

    def _taken(self, output: _wasm.Output) -> list[tuple[int, bytes]]:
        taken = []
        while True:
            if output.partition == LISTED:
                for address, size, _, partition in self.instance.listed_parts(output):
                    taken.append((partition, self.instance.read(address, size)))
            elif output.address:
                taken.append((output.partition, self.instance.read(output.address, output.size)))
            if output.state != OutputState.MORE_OUTPUT:
                return taken
            output = self.instance.query_next(self.query)

    def table(self, batches: Sequence[tuple[int, bytes]]) -> pa.Table:
        return to_arrow([decode_columnar_batch(batch) for _, batch in batches], self.schema).combine_chunks()


def run_plan(instance: Instance, table: pa.Table, *steps: bytes) -> pa.Table:
    engine = Engine(instance, from_arrow(table).schema, steps)
    return engine.table(engine.push_table(table) + engine.finish())


@functools.cache
def mixed_table(rows: int, seed: int = 1) -> pa.Table:
    """Columns of many types, with NULLs and values that repeat; `row` tells rows apart."""
    random = np.random.default_rng(seed)

    def nullable(values: Any, data_type: pa.DataType | None = None) -> Any:
        return pa.array(values, data_type, mask=random.random(rows) < 0.1)

    words = np.array(["", "a", "ab", "größe", "a longer text than sixteen bytes", "a longer text than"])
    return pa.table(
        {
            "small": nullable(random.integers(-3, 3, rows), pa.int8()),
            "number": nullable(random.integers(-(1 << 62), 1 << 62, rows)),
            "float": nullable(random.choice([0.0, -0.0, np.nan, 1.5, -1e300, np.inf], rows)),
            "text": nullable(random.choice(words, rows)),
            "name": pa.array([f"Customer#{value:09d}" for value in random.integers(0, 50, rows)]),
            "flag": nullable(random.random(rows) < 0.5),
            "day": nullable(random.integers(0, 20000, rows).astype("int32"), pa.date32()),
            "price": nullable(random.integers(-500, 500, rows), pa.int64()).cast(pa.decimal128(38, 2)),
            "items": pa.array([list(range(value)) for value in random.integers(0, 4, rows)]),
            "row": pa.array(range(rows)),
        }
    )


def same(left: pa.Table, right: pa.Table) -> bool:
    """To the bit: NaN is not equal to itself, and zeros of both signs are."""
    return bool(_as_bits(left).equals(_as_bits(right)))


def _filled(column: Any, value: object) -> Any:
    return column.fill_null(value)


def _as_bits(table: pa.Table) -> pa.Table:
    for place, name in enumerate(table.column_names):
        if table.schema.field(place).type == pa.float64():
            chunks = [chunk.view(pa.int64()) for chunk in table.column(place).chunks]
            table = table.set_column(place, name, pa.chunked_array(chunks, pa.int64()))
    return table


# ---- partition ----


def parts_of(engine: Engine, batches: Sequence[tuple[int, bytes]]) -> dict[int, pa.Table]:
    parts: dict[int, list[tuple[int, bytes]]] = {}
    for number, batch in batches:
        parts.setdefault(number, []).append((number, batch))
    return {number: engine.table(some) for number, some in parts.items()}


@pytest.mark.parametrize("count", [1, 3, 64, 1000])
@pytest.mark.parametrize("keys", [["number"], ["text"], ["small", "float"], ["name", "flag", "price"], []])
def test_every_row_goes_to_one_partition(instance: Instance, count: int, keys: list[str]) -> None:
    table = mixed_table(40_000)
    schema = from_arrow(table).schema
    steps = [encode_partition(count, [column_at(schema.index(key)) for key in keys])]
    engine = Engine(instance, schema, steps)
    parts = parts_of(engine, engine.push_table(table) + engine.finish())
    assert set(parts) <= set(range(count))
    seen: dict[tuple[object, ...], int] = {}
    for number, part in parts.items():
        rows = part["row"].to_numpy()
        assert (np.diff(rows) > 0).all()
        assert same(part, table.take(rows))
        for values in set(zip(*(_comparable(part[key]) for key in keys), strict=True)) if keys else ():
            assert seen.setdefault(values, number) == number
    assert sum(part.num_rows for part in parts.values()) == table.num_rows
    if not keys:
        assert set(parts) == {0}


def _comparable(column: Any) -> list[object]:
    """With one NaN."""
    return ["nan" if value != value else value for value in column.to_pylist()]


def test_partitions_are_even_and_do_not_depend_on_the_instance(instance: Instance) -> None:
    table = pa.table({"key": np.arange(100_000), "row": np.arange(100_000)})
    steps = [encode_partition(7, [column_at(0)])]
    engine = Engine(instance, from_arrow(table).schema, steps)
    parts = parts_of(engine, engine.push_table(table) + engine.finish())
    assert len(parts) == 7
    assert all(abs(part.num_rows - 100_000 / 7) < 1000 for part in parts.values())
    with Instance(1 << 30) as other:
        turned = table.take(np.arange(100_000)[::-1])
        engine = Engine(other, engine.schema, steps)
        again = parts_of(engine, engine.push_table(turned) + engine.finish())
    for number, part in parts.items():
        assert (np.sort(again[number]["key"].to_numpy()) == part["key"].to_numpy()).all()


def test_partitions_leave_when_they_are_large(instance: Instance) -> None:
    table = pa.table({"key": np.arange(1_000_000), "row": np.arange(1_000_000)})
    engine = Engine(instance, from_arrow(table).schema, [encode_partition(4, [column_at(0)])])
    early = engine.push_table(table)
    late = engine.finish()
    assert early
    assert all(1_000_000 < len(batch) < 2_000_000 for _, batch in early)
    # What is left comes once each, in order.
    assert [number for number, _ in late] == sorted({number for number, _ in late})
    assert engine.table(early + late).num_rows == 1_000_000
    instance.set_output_size(64 << 10)
    small = engine.push_table(table) + engine.finish()
    assert len(small) > 2 * len(early + late)
    assert engine.table(small).num_rows == 1_000_000
    instance.set_output_size(0)


def test_many_partitions_together_stay_within_their_bound(instance: Instance) -> None:
    rows = 3_000_000
    table = pa.table({"key": np.arange(rows), "row": np.arange(rows)})
    engine = Engine(instance, from_arrow(table).schema, [encode_partition(500, [column_at(0)])])
    early = engine.push_table(table)
    assert sum(len(batch) for _, batch in early) > 8 << 20  # of 48 MB, at most 32 MiB wait
    assert sum(decode_columnar_batch(batch).row_count for _, batch in early + engine.finish()) == rows


def test_gathered_partitions_leave_once_each(instance: Instance) -> None:
    table = pa.table({"key": np.arange(1_000_000)})
    engine = Engine(instance, from_arrow(table).schema, [GATHER, encode_partition(3, [column_at(0)])])
    assert engine.push_table(table) == []
    assert [number for number, _ in engine.finish()] == [0, 1, 2]


def test_nothing_to_partition_still_says_the_schema(instance: Instance) -> None:
    table = pa.table({"key": pa.array([], pa.int64())})
    engine = Engine(instance, from_arrow(table).schema, [encode_partition(8, [column_at(0)])])
    ((number, batch),) = engine.finish()
    assert number == 0
    assert decode_columnar_batch(batch).row_count == 0


def test_computed_keys_and_filtered_rows(instance: Instance) -> None:
    table = pa.table({"key": np.arange(50_000), "keep": np.arange(50_000) % 3 == 0})
    modulo = bytes((ExpressionTag.ARITHMETIC, ArithmeticOp.MODULO)) + encode_type(INT64) + column_at(0)
    key = modulo + bytes((ExpressionTag.LITERAL,)) + encode_value(10, INT64)
    steps = [bytes((NodeTag.FILTER,)) + column_at(1), encode_partition(16, [key])]
    engine = Engine(instance, from_arrow(table).schema, steps)
    parts = parts_of(engine, engine.push_table(table) + engine.finish())
    assert sum(part.num_rows for part in parts.values()) == 16_667
    digits = [set(np.unique(part["key"].to_numpy() % 10)) for part in parts.values()]
    assert sum(map(len, digits)) == 10
    assert set.union(*digits) == set(range(10))


def test_lanes_and_partitions_do_not_go_together(instance: Instance) -> None:
    schema = from_arrow(pa.table({"key": [1]})).schema
    engine = Engine(instance, schema, [encode_partition(2, [column_at(0)])])
    with raises_code("INTERNAL", match="partitions"):
        instance.query_push(engine.query, SourceKind.LANES, data=b"")


# ---- merge ----


def sorted_runs(instance: Instance, table: pa.Table, keys: list[Key], cuts: list[int]) -> list[list[bytes]]:
    """Parts of a table, each sorted by an engine."""
    engine = Engine(instance, from_arrow(table).schema, [encode_sort(keys, UNLIMITED)])
    runs = []
    for start, end in zip([0, *cuts], [*cuts, table.num_rows], strict=True):
        runs.append(
            [batch for _, batch in engine.push_table(table.slice(start, end - start)) + engine.finish()]
        )
    return runs


def merged(
    instance: Instance, schema: Schema, runs: list[list[bytes]], merge: bytes, *steps: bytes
) -> pa.Table:
    engine = Engine(instance, schema, [merge, *steps])
    for number, run in enumerate(runs):
        for batch in run:
            assert engine.push(batch, number) == []
    return engine.table(engine.finish())


@pytest.mark.parametrize("cuts", [[], [20_000], [1, 2, 2, 30_000], list(range(2500, 40_000, 2500))])
@pytest.mark.parametrize(
    ("names", "descending", "nulls_first"),
    [
        (["number"], False, False),
        (["small"], True, False),
        (["text", "small"], False, True),
        (["name", "number"], True, True),
        (["float", "day"], False, False),
        (["price", "flag", "text"], True, False),
    ],
)
def test_merged_runs_are_a_stable_sort(
    instance: Instance, names: list[str], descending: bool, nulls_first: bool, cuts: list[int]
) -> None:
    table = mixed_table(40_000)
    schema = from_arrow(table).schema
    keys = [(column_at(schema.index(name)), descending, nulls_first) for name in names]
    runs = sorted_runs(instance, table, keys, cuts)
    answer = merged(instance, schema, runs, encode_merge(keys))
    assert answer.num_rows == table.num_rows
    order = f"{'desc' if descending else 'asc'} nulls {'first' if nulls_first else 'last'}"
    by = ", ".join(f"{name} {order}" for name in names)
    expected: Any = duckdb.sql(f'select "row" from "table" order by {by}, "row"')
    assert answer["row"].to_pylist() == expected.to_arrow_table()["row"].to_pylist()
    assert same(answer, table.take(answer["row"]))


def test_ranges_merged_apart_are_the_whole(instance: Instance) -> None:
    table = mixed_table(40_000)
    schema = from_arrow(table).schema
    number = schema.index("number")
    keys = [(column_at(schema.index("small")), True, False), (column_at(number), False, True)]
    runs = sorted_runs(instance, table, keys, [10_000, 25_000])
    whole = merged(instance, schema, runs, encode_merge(keys))
    small_type, number_type = schema.types[schema.index("small")], schema.types[number]
    bounds = [
        [encode_bound(a, small_type), encode_bound(b, number_type)] for a, b in ((1, None), (0, 5), (None, 0))
    ]
    parts = [
        merged(instance, schema, runs, encode_merge(keys, lower=lower, upper=upper))
        for lower, upper in zip([None, *bounds], [*bounds, None], strict=True)
    ]
    assert all(part.num_rows for part in parts)
    assert same(pa.concat_tables(parts).combine_chunks(), whole)
    # An upper bound before the lower one leaves nothing.
    nothing = merged(instance, schema, runs, encode_merge(keys, lower=bounds[1], upper=bounds[0]))
    assert nothing.num_rows == 0


@pytest.mark.parametrize("limit", [0, 1, 100, 25_000, 40_000, 1 << 40])
def test_a_merge_stops_at_its_limit(instance: Instance, limit: int) -> None:
    table = mixed_table(40_000)
    schema = from_arrow(table).schema
    keys = [(column_at(schema.index("number")), False, False)]
    runs = sorted_runs(instance, table, keys, [10_000, 25_000])
    whole = merged(instance, schema, runs, encode_merge(keys))
    assert same(merged(instance, schema, runs, encode_merge(keys, limit)), whole.slice(0, limit))
    # The same by a step behind it.
    assert same(
        merged(instance, schema, runs, encode_merge(keys), encode_limit(0, limit)), whole.slice(0, limit)
    )


def test_runs_may_come_interleaved_and_in_lists(instance: Instance) -> None:
    table = mixed_table(40_000)
    schema = from_arrow(table).schema
    keys = [(column_at(schema.index("small")), False, False)]
    whole = merged(instance, schema, sorted_runs(instance, table, keys, [10_000]), encode_merge(keys))
    plain = Engine(instance, schema, [])
    runs = []
    for start, end in ((0, 10_000), (10_000, 40_000)):
        run = run_plan(instance, table.slice(start, end - start), encode_sort(keys, UNLIMITED))
        pieces = [run.slice(first, 1700) for first in range(0, run.num_rows, 1700)]
        runs.append([batch for piece in pieces for _, batch in plain.push_table(piece)])
    engine = Engine(instance, schema, [encode_merge(keys)])
    for number in (1, 0):
        for batch in runs[number][:2]:
            engine.push(batch, number)
    for number in (0, 1):
        rest = b"".join(len(batch).to_bytes(4, "little") + batch for batch in runs[number][2:])
        instance.query_push(engine.query, SourceKind.QMCB_LIST, number, data=rest)
    assert same(engine.table(engine.finish()), whole)


def test_steps_behind_a_merge(instance: Instance) -> None:
    table = mixed_table(40_000)
    schema = from_arrow(table).schema
    keys = [(column_at(schema.index("number")), False, False)]
    runs = sorted_runs(instance, table, keys, [10_000, 25_000])
    whole = merged(instance, schema, runs, encode_merge(keys))
    flag = bytes((NodeTag.FILTER,)) + column_at(schema.index("flag"))
    kept = whole.filter(_filled(whole["flag"], False))
    assert same(merged(instance, schema, runs, encode_merge(keys), flag), kept)
    again = encode_sort([(column_at(schema.index("row")), False, False)], UNLIMITED)
    assert same(merged(instance, schema, runs, encode_merge(keys), again), table)
    assert same(merged(instance, schema, runs, encode_merge(keys), GATHER), whole)
    computed = [(bytes((ExpressionTag.NEGATE,)) + column_at(schema.index("row")), False, False)]
    turned = sorted_runs(instance, table, computed, [7])
    assert (
        merged(instance, schema, turned, encode_merge(computed))["row"].to_pylist()
        == list(range(40_000))[::-1]
    )


def test_a_merge_hands_out_piece_by_piece_and_starts_afresh(instance: Instance) -> None:
    rows = 2_000_000
    table = pa.table({"key": np.random.default_rng(3).permutation(rows), "row": np.arange(rows)})
    schema = from_arrow(table).schema
    keys = [(column_at(0), False, False)]
    runs = sorted_runs(instance, table, keys, [700_000])
    engine = Engine(instance, schema, [encode_merge(keys)])
    for _ in range(2):
        for number, run in enumerate(runs):
            for batch in run:
                engine.push(batch, number)
        output = instance.query_finish(engine.query)
        assert output.state == OutputState.MORE_OUTPUT
        with raises_code("INTERNAL", match="not been taken"):
            engine.push(runs[0][0])
        batches = [(0, instance.read(output.address, output.size))]
        batches += engine._taken(instance.query_next(engine.query))
        assert len(batches) > 1
        assert (engine.table(batches)["key"].to_numpy() == np.arange(rows)).all()


def test_a_merge_of_nothing(instance: Instance) -> None:
    schema = from_arrow(pa.table({"key": [1], "text": ["x"]})).schema
    keys = [(column_at(1), False, False)]
    assert merged(instance, schema, [], encode_merge(keys)).num_rows == 0


@pytest.mark.parametrize(
    "steps",
    [
        [encode_limit(0, 1), encode_merge([(column_at(0), False, False)])],
        [encode_partition(2, [column_at(0)]), encode_limit(0, 1)],
        [encode_partition(0, [column_at(0)])],
        [encode_merge([])],
        [encode_merge([(column_at(0), False, False)], lower=[encode_bound(True, BOOL)])],
        [encode_merge([(column_at(0), False, False)], lower=[])],
        [encode_repeat(column_at(1))],
    ],
)
def test_plans_that_make_no_sense_are_refused(instance: Instance, steps: list[bytes]) -> None:
    schema = from_arrow(pa.table({"key": [1], "text": ["x"]})).schema
    with raises_code("INTERNAL", match="refused its plan"):
        Engine(instance, schema, steps)


# ---- repeat ----


def test_rows_are_repeated(instance: Instance) -> None:
    random = np.random.default_rng(4)
    rows = 3000
    counts = random.choice(
        [0, 0, 1, 2, 3, -5, -(1 << 63), 20_000], rows, p=[0.3, 0.2, 0.2, 0.1, 0.1, 0.05, 0.04, 0.01]
    )
    table = mixed_table(rows).append_column("n", pa.array(counts, mask=random.random(rows) < 0.2))
    place = from_arrow(table).schema.index("n")
    answer = run_plan(instance, table, encode_repeat(column_at(place)))
    wanted = np.maximum(_filled(table["n"], 0).to_numpy(), 0)
    assert same(answer, table.take(np.repeat(np.arange(rows), wanted)))
    # Behind a filter, and with steps that follow.
    flag = bytes((NodeTag.FILTER,)) + column_at(table.schema.get_field_index("flag"))
    kept = table.filter(_filled(table["flag"], False))
    expected = kept.take(np.repeat(np.arange(kept.num_rows), np.maximum(_filled(kept["n"], 0).to_numpy(), 0)))
    steps = (flag, encode_repeat(column_at(place)), encode_limit(10, 50_000), flag)
    assert same(run_plan(instance, table, *steps), expected.slice(10, 50_000))


def test_a_limit_before_a_repeat_does_not_end_it(instance: Instance) -> None:
    table = pa.table({"n": [30_000, 7, 9]})
    answer = run_plan(instance, table, encode_limit(0, 2), encode_repeat(column_at(0)))
    assert answer["n"].to_pylist() == [30_000] * 30_000 + [7] * 7


def test_endless_repeats_end_by_limit_memory_or_cancel(instance: Instance) -> None:
    table = pa.table({"n": pa.array([(1 << 63) - 1] * 3)})
    started = time.monotonic()
    assert (
        run_plan(instance, table, encode_repeat(column_at(0)), encode_limit(3, 100_000)).num_rows == 100_000
    )
    assert time.monotonic() - started < 5
    with Instance(64 << 20) as small, pytest.raises(MemoryExceededError):
        run_plan(small, table, encode_repeat(column_at(0)))
    nothing = bytes((NodeTag.FILTER, ExpressionTag.IS_NULL, 0)) + column_at(0)
    with Instance(64 << 20) as other:
        threading.Timer(0.2, other.cancel).start()
        with pytest.raises(Cancelled):
            run_plan(other, table, encode_repeat(column_at(0)), nothing)


# ---- top-k ----


@pytest.mark.parametrize("limit", [1, 100, 5000])
@pytest.mark.parametrize(
    "names", [["number"], ["small"], ["float", "number"], ["text", "name"], ["flag", "day"]]
)
@pytest.mark.parametrize(
    ("descending", "nulls_first"), [(False, False), (True, False), (False, True), (True, True)]
)
def test_top_k_is_the_head_of_a_sort(
    instance: Instance, names: list[str], descending: bool, nulls_first: bool, limit: int
) -> None:
    table = mixed_table(200_000)
    schema = from_arrow(table).schema
    keys = [(column_at(schema.index(name)), descending, nulls_first) for name in names]
    whole = run_plan(instance, table, encode_sort(keys, UNLIMITED))
    assert same(run_plan(instance, table, encode_sort(keys, limit)), whole.slice(0, limit))


@pytest.mark.parametrize("kind", ["up", "down", "alike"])
def test_top_k_of_sorted_inputs(instance: Instance, kind: str) -> None:
    rows = 1_000_000
    values = {"up": np.arange(rows), "down": np.arange(rows)[::-1], "alike": np.zeros(rows, "int64")}[kind]
    table = pa.table({"key": pa.array(values), "row": np.arange(rows)})
    best = run_plan(instance, table, encode_sort([(column_at(0), False, False)], 50))
    expected = np.arange(rows)[::-1][:50] if kind == "down" else np.arange(50)
    assert best["row"].to_pylist() == expected.tolist()


def test_types_have_an_encoding_of_bounds() -> None:
    assert encode_bound(None, DataType(TypeTag.UTF8)) == bytes((TypeTag.UTF8, 1))
    assert encode_bound(b"ab", DataType(TypeTag.UTF8)) == bytes((TypeTag.UTF8, 0, 2, 0, 0, 0)) + b"ab"
