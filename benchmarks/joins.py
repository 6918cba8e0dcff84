"""Joins of 10 M rows with 10 k and 1 M rows in memory against DuckDB, one thread and two.

They go through the engine's doors: every instance builds its own table and probes its share of the other side's
morsels, as queries do. Columns lie in the engine's memory beforehand, as DuckDB's lie in its own; building and
probing are both timed. Answers are compared before anything is timed.

    python -m benchmarks.joins text     runs the cases whose name has "text" in it
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import duckdb
import numpy
import pyarrow

from benchmarks.harness import Table, race
from querymode._abi import AggregateOp, AggregatePhase, JoinKind, JoinSide, NodeTag, SourceKind
from querymode._wasm import Instance
from querymode.arrow import from_arrow
from querymode.expr import Aggregate, Column
from querymode.join_wire import encode_build, encode_in_build, encode_join
from querymode.plan import GroupBy, Node
from querymode.result import Result
from querymode.schema import Schema
from querymode.wire import Wire, column_at, with_builds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Numbers = numpy.ndarray[Any, Any]

PROBE_ROWS = 10_000_000
ROUNDS = 5
RATIO_MAX = 1.0

#: What is joined, how DuckDB says it, and which columns come out.
KINDS = {
    "inner": (JoinKind.INNER, "JOIN", ("p",)),
    "both": (JoinKind.INNER, "JOIN", ("p", "v")),
    "left": (JoinKind.LEFT, "LEFT JOIN", ("p",)),
    "semi": (JoinKind.SEMI, "SEMI JOIN", ("v",)),
    "filter": (None, "SEMI JOIN", ("v",)),
}


class _Relation(Node):
    def __init__(self, schema: Schema) -> None:
        self.schema = schema


class Case:
    """Two tables and the plans that join them: columns k… are the keys, p and v are added up."""

    def __init__(self, name: str, kind: str, probe: pyarrow.Table, build: pyarrow.Table) -> None:
        self.name = name
        self.probe, self.build = probe, build
        keys = [column for column in build.column_names if column.startswith("k")]
        kind_code, words, sums = KINDS[kind]
        theirs, wire = from_arrow(build).schema, Wire(from_arrow(probe).schema)
        making = Wire(theirs)
        making.steps.append(encode_build([column_at(theirs.index(key)) for key in keys]))
        self.build_plan = making.encoded()
        ours = [column_at(wire.schema.index(key)) for key in keys]
        wire.build_count = 1
        if kind_code is None:
            wire.steps.append(bytes((NodeTag.FILTER,)) + encode_in_build(0, ours))
        else:
            outputs = [
                (name, JoinSide.BUILD, theirs.index(name))
                if name == "p"
                else (name, JoinSide.INPUT, wire.schema.index(name))
                for name in sums
            ]
            wire.steps.append(encode_join(0, kind_code, ours, outputs))
            wire.schema = Schema((name, (theirs if name == "p" else wire.schema).type_of(name)) for name in sums)
        calls = [("c", Aggregate(AggregateOp.COUNT_ROWS, None))]
        calls += [(name, Aggregate(AggregateOp.SUM, Column(name))) for name in sums]
        step = GroupBy(_Relation(wire.schema), (), calls)
        wire.aggregate(step, AggregatePhase.COMPLETE)
        self.answer = step.schema
        self.probe_plan = wire.encoded()
        on = " AND ".join(f"probe.{key} = build.{key}" for key in keys)
        totals = ", ".join(f"sum({name})" for name in sums)
        self.sql = f"SELECT count(*), {totals} FROM probe {words} build ON {on}"


class Engine:
    """An instance with the build and a share of the probe side in it."""

    def __init__(self, case: Case, part: int, parts: int) -> None:
        self.case = case
        self.instance = Instance()
        self.build = self._load(case.build, 0, 1)
        self.probe = self._load(case.probe, part, parts)

    def _load(self, data: pyarrow.Table, part: int, parts: int) -> list[int]:
        table = from_arrow(data)
        batches = []
        for morsel in table.morsels[part::parts]:
            layout = morsel.layout(range(len(table.schema)))
            address = self.instance.alloc(layout.size)
            for place, buffer in layout.buffers:
                self.instance.write(address + place, buffer)
            batches.append(self.instance.batch_open(layout.descriptors(address)))
        return batches

    def run(self) -> list[int]:
        build, _ = self._drive(self.case.build_plan, self.build)
        query, answer = self._drive(with_builds(self.case.probe_plan, [build]), self.probe)
        self.instance.query_close(query)
        self.instance.query_close(build)
        return answer

    def _drive(self, plan: bytes, batches: list[int]) -> tuple[int, list[int]]:
        query = self.instance.query_open(plan)
        for batch in batches:
            self.instance.query_push(query, SourceKind.BATCH, batch)
        output = self.instance.query_finish(query)
        if not output.size:
            return query, []
        result = Result([self.instance.read(output.address, output.size)], self.case.answer, {})
        return query, [int(value or 0) for value in result.rows[0].values()]


def run(only: str = "") -> None:
    table = Table(f"Joins of {PROBE_ROWS / 1e6:.0f} M rows in memory", name_width=44)
    for case in cases(only):
        connection = duckdb.connect()
        connection.execute("SET memory_limit = '8GB'")
        for name, data in (("probe", case.probe), ("build", case.build)):
            connection.register("given", data)
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
        for threads in (1, 2):
            _compare(table, case, connection, threads)
        connection.close()


def _compare(table: Table, case: Case, connection: duckdb.DuckDBPyConnection, threads: int) -> None:
    connection.execute(f"SET threads = {threads}")
    engines = [Engine(case, part, threads) for part in range(threads)]
    with ThreadPoolExecutor(threads) as pool:

        def ours() -> list[int]:
            answers = list(pool.map(Engine.run, engines))
            return [sum(values) for values in zip(*answers, strict=True)]

        def theirs() -> list[int]:
            row = connection.execute(case.sql).fetchone()
            assert row is not None
            return [int(value or 0) for value in row]

        assert ours() == theirs(), f"{case.name}: {ours()} and DuckDB's {theirs()}"
        best = race({"ours": ours, "duckdb": theirs}, rounds=ROUNDS)
    name = f"{case.name}, {threads} thread{'s' * (threads > 1)}"
    table.compare(name, best["ours"], best["duckdb"], "DuckDB", ratio_max=RATIO_MAX)
    for engine in engines:
        engine.instance.close()


def cases(only: str) -> Iterator[Case]:
    for name, make in _makers():
        if only in name:
            yield make(name)


def _makers() -> Iterator[tuple[str, Callable[[str], Case]]]:
    for rows, words in ((1_000_000, "1 M"), (10_000, "10 k")):
        for hits in (50, 5):
            yield f"sparse {words}, {hits} % hits", _numbers(rows, hits, "inner", sparse=True)
            yield f"dense {words}, {hits} % hits", _numbers(rows, hits, "inner")
    yield "dense 1 M in order, 50 % hits", _numbers(1_000_000, 50, "inner", ordered=True)
    yield "sparse 1 M, 100 % hits, both sides", _numbers(1_000_000, 100, "both", sparse=True)
    yield "dense 1 M, 100 % hits, both sides", _numbers(1_000_000, 100, "both")
    yield "sparse 1 M left, 50 % hits", _numbers(1_000_000, 50, "left", sparse=True)
    yield "sparse 1 M semi, 50 % hits", _numbers(1_000_000, 50, "semi", sparse=True)
    yield "sparse 1 M filter, 5 % hits", _numbers(1_000_000, 5, "filter", sparse=True)
    yield "dense 1 M filter, 50 % hits", _numbers(1_000_000, 50, "filter")
    yield "sparse 1 M of 250 k keys, 50 % hits", _numbers(1_000_000, 50, "inner", sparse=True, copies=4)
    yield "dense 1 M of 250 k keys, 50 % hits", _numbers(1_000_000, 50, "inner", copies=4)
    yield "two keys 1 M, 50 % hits", _two_keys(1_000_000, sparse=False)
    yield "two sparse keys 1 M, 50 % hits", _two_keys(1_000_000, sparse=True)
    yield "text 1 M, 50 % hits", _texts(1_000_000, 50)
    yield "text 10 k, 50 % hits", _texts(10_000, 50)
    yield "text 1 M, 5 % hits", _texts(1_000_000, 5)


def _numbers(
    rows: int, hits: int, kind: str, *, sparse: bool = False, ordered: bool = False, copies: int = 1
) -> Callable[[str], Case]:
    def make(name: str) -> Case:
        random = numpy.random.default_rng(11)
        keys = numpy.repeat(numpy.arange(rows // copies), copies)
        if not ordered:
            random.shuffle(keys)
        drawn = random.integers(0, rows // copies * 100 // hits, PROBE_ROWS)
        probe = pyarrow.table({"k": _spread(drawn, sparse), "v": random.integers(0, 1000, PROBE_ROWS)})
        build = pyarrow.table({"k": _spread(keys, sparse), "p": random.integers(0, 1000, rows)})
        return Case(name, kind, probe, build)

    return make


def _spread(numbers: Numbers, sparse: bool) -> Numbers:
    """Far apart and one to one: a product with an odd number."""
    if not sparse:
        return numbers
    return (numbers.astype(numpy.uint64) * numpy.uint64(0x9E37_79B9_7F4A_7C15)).astype(numpy.int64)


def _two_keys(rows: int, *, sparse: bool) -> Callable[[str], Case]:
    def make(name: str) -> Case:
        random = numpy.random.default_rng(12)
        numbers = random.permutation(rows)
        drawn = random.integers(0, rows * 2, PROBE_ROWS)

        def pair(numbers: Numbers) -> dict[str, Numbers]:
            return {"k1": _spread(numbers // 1000, sparse), "k2": _spread(numbers % 1000, sparse)}

        probe = pyarrow.table({**pair(drawn), "v": random.integers(0, 1000, PROBE_ROWS)})
        build = pyarrow.table({**pair(numbers), "p": random.integers(0, 1000, rows)})
        return Case(name, "inner", probe, build)

    return make


def _texts(rows: int, hits: int) -> Callable[[str], Case]:
    def make(name: str) -> Case:
        random = numpy.random.default_rng(13)
        words = pyarrow.array([f"Customer#{number * 7919:09d}" for number in range(rows * 100 // hits)])
        drawn = random.integers(0, len(words), PROBE_ROWS)
        probe = pyarrow.table({"k": words.take(drawn), "v": random.integers(0, 1000, PROBE_ROWS)})
        build = pyarrow.table(
            {"k": words.take(random.permutation(rows)), "p": random.integers(0, 1000, rows)}
        )
        return Case(name, "inner", probe, build)

    return make


if __name__ == "__main__":
    run(*sys.argv[1:])
