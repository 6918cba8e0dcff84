"""Rows that grouping does not make fewer pass their lane as they are, and are grouped by partition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from querymode import QueryMode
from querymode._abi import ROWS_PASS, UNDIVIDED, AggregateOp, AggregatePhase, SourceKind
from querymode.engine.instance import Instance
from querymode.execute import query_run as local
from querymode.execute import stage_run as stage
from querymode.expr.nodes import Aggregate, Column
from querymode.plan.nodes import GroupBy, Scan
from querymode.plan.wire import Wire, state_fields
from querymode.schema import Schema
from querymode.table.from_arrow import from_arrow
from tests.raises import raises_code
from tests.unit.test_exchange import Engine, instance

__all__ = ["instance"]

ROWS = 200_000
PARTS = 4


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows that passed, and those that came as states, of every stage that runs over partitions."""
    counts: list[int] = [0, 0]
    run = local.QueryRun._run_partitions

    def noting(self: Any, stage: Any, end: Any, lanes: Any) -> Any:
        for lane in lanes:
            for batch in lane:
                has_passed = end.count <= batch.partition < UNDIVIDED
                counts[0 if has_passed else 1] += batch.row_count
        return run(self, stage, end, lanes)

    monkeypatch.setattr(local.QueryRun, "_run_partitions", noting)
    return counts


def keyed_table(keys: Any) -> pa.Table:
    """A key as many types have it, with NULLs; `wide` has bytes enough for several lanes."""
    random = np.random.default_rng(5)
    rows = len(keys)
    nulls = keys % 1013 == 0
    tails = np.array(["", "-more", "-more than sixteen bytes", "-more than thirty-two bytes of text"])
    texts = np.char.add(keys.astype("U8"), tails[keys % 4])
    floats = np.where(keys % 7 == 0, np.where(random.random(rows) < 0.5, 0.0, -0.0), keys / 8)
    floats[keys % 11 == 0] = np.nan
    return pa.table(
        {
            "wide": ["x" * 40] * rows,
            "v": pa.array(random.integers(-1000, 1000, rows), mask=random.random(rows) < 0.1),
            "k": pa.array(keys, mask=nulls),
            "t": pa.array(texts, mask=nulls),
            "f": floats,
            "p": pa.array((keys % 500).astype("int16")),
            "x": random.standard_normal(rows),
            "b": random.random(rows) < 0.5,
        }
    )


def shapes() -> dict[str, Any]:
    random = np.random.default_rng(6)
    few = random.integers(0, 100, ROWS)
    many = random.permutation(ROWS)
    half = ROWS // 2
    return {
        "many": many,
        "twice": random.integers(0, half, ROWS),
        # Lanes of either kind, so that partitions have rows and states of the same keys.
        "few, then many": np.concatenate([few[:half], many[:half]]),
        "both in turn": np.where(np.arange(ROWS) // 25_000 % 2 == 0, few, many),
    }


QUERIES = (
    "select k, sum(v) as s, count(*) as n, avg(v) as a, count(v) as c, max(x) as h from data group by k",
    "select t, sum(v) as s, count(*) as n from data group by t",
    "select t, p, sum(v) filter (where b) as s, count(*) filter (where v > 0) as n from data group by t, p",
    "select f, count(*) as n, min(k) as l from data group by f",
    "select k + 1 as j, sum(v * 2) as s, bool_and(b) as y from data where p <> 7 group by j",
    "select k, count(*) as n from data where b group by k",
    "select t, min(t) as l, first(v) as g, string_agg(p, ',') as j from data group by t",
    "select distinct k, p from data",
    "select k, sum(w) as s from (select k, v as w from data union all select v, k from data) group by k",
)


def check(session: QueryMode, connection: duckdb.DuckDBPyConnection, query: str) -> None:
    """DuckDB compares: NaN is NaN, and rows may come in any order."""
    ours = session.sql(query).to_arrow()
    connection.register("ours", ours)
    connection.execute(f"create or replace table theirs as {query}")
    assert connection.sql("select count(*) from theirs").fetchall() == [(len(ours),)], query
    assert connection.sql("from ours except all from theirs limit 3").fetchall() == [], query


@pytest.mark.parametrize("shape", list(shapes()))
@pytest.mark.parametrize("gathered", [False, True])
def test_answers_are_duckdbs(
    monkeypatch: pytest.MonkeyPatch, passed: list[int], shape: str, gathered: bool
) -> None:
    monkeypatch.setattr(stage, "GATHER_ROWS_MAX", 1 << 30 if gathered else 0)
    data = keyed_table(shapes()[shape])
    session = QueryMode.local(threads=2)
    session.register("data", data)
    connection = duckdb.connect(config={"threads": 1})
    connection.register("data", data)
    for query in QUERIES if shape in ("many", "both in turn") else QUERIES[:2]:
        check(session, connection, query)
    if not gathered:
        has_passed, as_states = passed
        assert has_passed > ROWS // 2
        assert as_states > 0 or shape in ("many", "twice")


def test_texts_of_files_pass_too(tmp_path: Path, passed: list[int]) -> None:
    data = keyed_table(shapes()["twice"]).drop_columns(["wide"])
    path = tmp_path / "data.parquet"
    pyarrow.parquet.write_table(data, path, row_group_size=50_000)
    session = QueryMode.local(threads=2)
    session.register("data", str(path))
    connection = duckdb.connect()
    connection.register("data", data)
    for query in (QUERIES[1], QUERIES[2], QUERIES[5]):
        check(session, connection, query)
    assert passed[0] > ROWS


@pytest.mark.parametrize("shape", ["many", "both in turn"])
def test_sums_of_floats_do_not_depend_on_threads(shape: str) -> None:
    data = keyed_table(shapes()[shape])
    answers = []
    for threads in (1, 2, 8):
        session = QueryMode.local(threads=threads)
        session.register("data", data)
        table = session.sql(
            "select k, sum(x) as s, avg(x) as a, stddev(x) as d from data group by k"
        ).to_arrow()
        answers.append(table.sort_by("k"))
    assert answers[0].equals(answers[1])
    assert answers[0].equals(answers[2])


@pytest.mark.parametrize("column", ["k", "t", "f", "p", "v", "b", "x"])
def test_distinct_values_are_counted_as_groups(column: str) -> None:
    data = keyed_table(shapes()["twice"])
    session = QueryMode.local(threads=2)
    session.register("data", data)
    connection = duckdb.connect()
    connection.register("data", data)
    for query in (
        f"select count(distinct {column}) as n from data",
        f"select count(distinct {column}) as n, count(distinct {column}) + 1 as m from data where v > 0",
        f"select count(distinct {column}) as n, count(*) as m from data",
        f"select count(distinct {column}) as n from data where false",
    ):
        assert session.sql(query).to_arrow().to_pylist() == connection.sql(query).to_arrow_table().to_pylist()


# ---- through the doors ----


def grouped(table: pa.Table) -> GroupBy:
    total, count = Aggregate(AggregateOp.SUM, Column("v")), Aggregate(AggregateOp.COUNT_ROWS, None)
    return GroupBy(Scan(from_arrow(table)), [("k", Column("k"))], [("s", total), ("n", count)])


def lane_steps(step: GroupBy, limit: int = 1 << 16) -> list[bytes]:
    wire = Wire(step.input.schema)
    wire.aggregate(step, AggregatePhase.PARTIAL, limit | ROWS_PASS)
    wire.partition_by_first(PARTS, 1)
    return wire.steps


def final_plan(step: GroupBy) -> Wire:
    wire = Wire(Schema([field for field in step.input.schema if field[0] != "unused"]))
    wire.aggregate(step, AggregatePhase.PARTIAL)
    wire.aggregate(step, AggregatePhase.FINAL)
    return wire


def test_a_long_lane_takes_samples(instance: Instance) -> None:
    """Every 2^18 rows that pass: the second sample behind the change is the first that sees it."""
    many, few = np.arange(300_000), np.arange(300_000) % 10
    keys = np.concatenate([many, few])
    table = pa.table({"unused": keys, "k": keys, "v": keys})
    step = grouped(table)
    engine = Engine(instance, step.input.schema, lane_steps(step))
    batches = engine.push_table(table) + engine.finish()
    engine.schema = Schema([field for field in step.input.schema if field[0] != "unused"])
    rows = engine.table([batch for batch in batches if PARTS <= batch[0] < UNDIVIDED])
    assert rows.num_rows == 1 << 19
    assert rows["k"].equals(rows["v"])
    # Both go into the final plan, the states behind its first step.
    final = Engine(instance, engine.schema, final_plan(step).steps)
    for number, batch in batches:
        kind = SourceKind.QMCB_LIST if PARTS <= number < UNDIVIDED else SourceKind.STATES_LIST
        data = len(batch).to_bytes(4, "little") + batch
        address = instance.alloc(len(data))
        instance.write(address, data)
        instance.query_push(final.query, kind, address=address, size=len(data))
        instance.free(address, len(data))
    final.schema = step.schema
    answer = final.table(final.finish()).sort_by("k")
    assert answer["k"].to_pylist() == list(range(300_000))
    assert answer["n"].to_pylist() == [30_001] * 10 + [1] * 299_990
    assert answer["s"].to_pylist()[9:12] == [9 * 30_001, 10, 11]


def test_states_and_rows_for_plans_that_take_none(instance: Instance) -> None:
    table = pa.table({"k": [1], "v": [2]})
    step = grouped(table)
    states = Engine(instance, Schema(state_fields(step, step.input.schema)), [])
    batch = b"".join(data for _, data in Engine(instance, step.input.schema, []).push_table(table))
    with raises_code("INTERNAL", match="rows alone"):
        instance.query_push(
            states.query, SourceKind.STATES_LIST, data=len(batch).to_bytes(4, "little") + batch
        )
    final = Engine(instance, step.input.schema, final_plan(step).steps)
    with raises_code("SCHEMA_MISMATCH", match="2 columns for a plan of 3"):
        instance.query_push(
            final.query, SourceKind.STATES_LIST, data=len(batch).to_bytes(4, "little") + batch
        )
    with raises_code("INTERNAL", match="refused its plan"):
        Engine(instance, step.input.schema, lane_steps(step)[:1])
