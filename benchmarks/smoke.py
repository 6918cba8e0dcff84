"""Six queries over the same data, ours and DuckDB's, two threads each, everything in memory.

Ours run on columns that an earlier run left in the engine, DuckDB's on its own table. Every answer is
compared first. A ratio above its limit is measured again before it counts.
"""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import numpy
import pyarrow

from benchmarks.harness import Table, race
from querymode import DataFrame, QueryMode, col

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Action = Callable[[], Any]

ROW_COUNT = 5_000_000
THREAD_COUNT = 2
ROUNDS = 9
LIMITS: dict[str, float] = json.loads(Path(__file__).with_name("limits.json").read_text())

CITIES = (
    "Amsterdam",
    "Berlin",
    "Copenhagen",
    "Dublin",
    "Edinburgh",
    "Florence",
    "Geneva",
    "Hamburg",
    "Innsbruck",
    "Jena",
)


def run() -> bool:
    """Whether all ratios are within their limits."""
    data = _data()
    orders = QueryMode.local(threads=THREAD_COUNT).register("orders", data)
    with duckdb.connect(config={"threads": THREAD_COUNT}) as connection:
        connection.register("arrow_orders", data)
        connection.execute("create table orders as from arrow_orders")
        connection.unregister("arrow_orders")
        cases = _cases(orders, connection)
        for name, (ours, theirs) in cases.items():
            _check(name, ours(), theirs())
        return _race_all(cases)


def _data() -> pyarrow.Table:
    random = numpy.random.default_rng(11)
    places = [f"{city} {side}" for city in CITIES for side in ("North", "South", "East", "West")]
    return pyarrow.table(
        {
            "id": pyarrow.array(random.permutation(ROW_COUNT)),
            "customer": pyarrow.array(random.integers(0, 10_000, ROW_COUNT)),
            "amount": pyarrow.array(random.integers(1, 1_000_000, ROW_COUNT) / 100),
            "city": _texts(random, CITIES),
            "place": _texts(random, places),
        }
    )


def _texts(random: numpy.random.Generator, words: Sequence[str]) -> Any:
    indices: Any = pyarrow.array(random.integers(0, len(words), ROW_COUNT))
    return pyarrow.array(words).take(indices)


def _cases(orders: DataFrame, connection: Any) -> dict[str, tuple[Action, Action]]:
    def sql(query: str) -> Action:
        return lambda: connection.sql(query).to_arrow_table()

    total = col("amount").sum().alias("total")
    return {
        "filter, count": (
            orders.filter("amount", "gt", 5000).agg(col("amount").count().alias("n")).to_arrow,
            sql("select count(amount) n from orders where amount > 5000"),
        ),
        "filter, sum": (
            orders.filter("customer", "between", (2000, 4000)).agg(total).to_arrow,
            sql("select sum(amount) total from orders where customer between 2000 and 4000"),
        ),
        "group by 10 texts": (
            orders.group_by("city").agg(total).to_arrow,
            sql("select city, sum(amount) total from orders group by city"),
        ),
        "group by 10 k integers": (
            orders.group_by("customer").agg(total).to_arrow,
            sql("select customer, sum(amount) total from orders group by customer"),
        ),
        "top 100": (
            orders.sort("amount", "id", descending=[True, False]).limit(100).select("id", "amount").to_arrow,
            sql("select id, amount from orders order by amount desc, id limit 100"),
        ),
        "like, 2 columns to Arrow": (
            orders.filter("place", "like", "%n South").select("id", "place").to_arrow,
            sql("select id, place from orders where place like '%n South'"),
        ),
    }


def _check(name: str, ours: pyarrow.Table, theirs: pyarrow.Table) -> None:
    """The same rows in any order; floats to nine digits, as sums depend on order."""
    left, right = (_sorted_columns(table) for table in (ours, theirs))
    for mine, other in zip(left, right, strict=True):
        floats = mine.dtype.kind == "f"
        same = numpy.allclose(mine, other, rtol=1e-9) if floats else numpy.array_equal(mine, other)
        if mine.shape != other.shape or not same:
            raise SystemExit(f"{name}: our answer is not DuckDB's")


def _sorted_columns(table: pyarrow.Table) -> list[Any]:
    ordered = table.sort_by(table.column_names[0])
    return [numpy.asarray(column.to_numpy()) for column in ordered.columns]


def _race_all(cases: dict[str, tuple[Action, Action]]) -> bool:
    table = Table(f"Six queries over {ROW_COUNT / 1e6:.0f} M rows, {THREAD_COUNT} threads")
    ratios, passed = [], True
    for name, (ours, theirs) in cases.items():
        limit = LIMITS[name]
        best = race({"ours": ours, "duckdb": theirs}, rounds=ROUNDS)
        if best["ours"] > limit * best["duckdb"]:
            again = race({"ours": ours, "duckdb": theirs}, rounds=3 * ROUNDS)
            best = {side: min(best[side], again[side]) for side in best}
        ratio = table.compare(name, best["ours"], best["duckdb"], "duckdb", ratio_max=limit)
        ratios.append(ratio)
        passed = passed and ratio <= limit
    table.mean("geometric mean", ratios)
    return passed
