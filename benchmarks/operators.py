"""Operators one by one over ten million rows, in files and in memory: against DuckDB, and against ourselves.

Both sides get the same text and hand back Arrow. Both keep the order of rows that a query does not sort, as
they do unless told otherwise. Every answer is compared before anything is timed.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import duckdb
import numpy
import pyarrow
import pyarrow.compute
import pyarrow.parquet

from benchmarks.harness import Table, race
from querymode import QueryMode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    Tables = Mapping[str, pyarrow.Table]
    Action = Callable[[], pyarrow.Table]

ROW_COUNT = 10_000_000
THREAD_COUNT = 2
MANY_THREADS = 8
ROUNDS = 5
MEMORY = "4GiB"
#: About as many as DuckDB writes itself: enough of them for every thread.
ROW_GROUP_ROWS = 131_072
#: Of the rows of `facts` in the last join, one of so many finds its item.
STRAY_FACTOR = 20

FILE_RATIO_MAX, FILE_MEAN_MAX = 1.3, 0.8
THREADS_RATIO_MAX = 1.15
DOUBLE_RATIO_MAX = 2.2


class Case(NamedTuple):
    """A query. `memory_ratio_max`: its bar over tables in memory. `in_files`: it is run over files too."""

    name: str
    text: str
    memory_ratio_max: float
    in_files: bool = True


def run(rows: int = ROW_COUNT) -> None:
    tables = make_tables(rows)
    cases = make_cases(rows)
    _files(tables, [case for case in cases if case.in_files], rows)
    _memory(tables, cases, rows)
    _threads(tables, cases)
    _doubled(tables, cases)


# ---- data and queries ----


def make_tables(rows: int) -> dict[str, pyarrow.Table]:
    """`facts` has keys of few, more and many groups; `items` is joined to it; `shuffled` is to be sorted."""
    random = numpy.random.default_rng(7)
    many, half = rows // 10, rows // 2
    facts: dict[str, Any] = {}
    for name, count in (("few", 10), ("medium", 10_000), ("many", many)):
        numbers = random.integers(0, count, rows)
        facts[name] = numbers
        facts[f"{name}_text"] = _texts(numpy.arange(count)).take(pyarrow.array(numbers))
    facts["item"] = random.integers(0, many, rows)
    facts["stray"] = random.integers(0, many * STRAY_FACTOR, rows)
    facts["v"] = random.integers(0, 1000, rows)
    facts["place"] = random.permutation(rows)
    facts["up"] = numpy.arange(rows)
    facts["down"] = numpy.arange(rows, 0, -1)
    items = {"id": random.permutation(many), "w": random.integers(0, 1000, many)}
    numbers = random.permutation(half)
    texts = _texts(numbers)
    shuffled = {
        "i": numbers,
        "f": random.standard_normal(half),
        "t": texts,
        "long": pyarrow.compute.binary_join_element_wise("https://example.com/catalogue/items", texts, "/"),
        "v": random.integers(0, 1000, half),
    }
    named = {"facts": facts, "items": items, "shuffled": shuffled}
    return {name: pyarrow.table(columns) for name, columns in named.items()}


def _texts(numbers: Any) -> Any:
    """A text for every number, of 3 to 18 characters, which differ from the first one on."""
    first = pyarrow.array(numbers * 2_654_435_761 % (1 << 32)).cast(pyarrow.string())
    return pyarrow.compute.binary_join_element_wise(first, pyarrow.array(numbers).cast(pyarrow.string()), "-")


def make_cases(rows: int) -> list[Case]:
    def group(key: str) -> str:
        return f"select {key}, sum(v) as total, count(*) as n from facts group by {key}"

    def join(key: str) -> str:
        return f"select count(*) as n, sum(v + w) as total from facts join items on facts.{key} = items.id"

    def sort(key: str) -> str:
        return f"select {key}, v from shuffled order by {key}"

    def top(key: str, order: str) -> str:
        return f"select {key}, v from facts order by {key} {order} limit 100"

    many, half = rows // 10, rows // 2
    return [
        Case("group by 10 ints", group("few"), 0.8),
        Case("group by 10,000 ints", group("medium"), 1.0),
        Case(f"group by {many:,} ints", group("many"), 0.8),
        Case("group by 10 texts", group("few_text"), 1.2),
        Case("group by 10,000 texts", group("medium_text"), 1.2),
        Case(f"group by {many:,} texts", group("many_text"), 1.2),
        Case(f"join with {many:,} rows", join("item"), 1.0),
        Case("join, 5 % of the rows match", join("stray"), 1.0),
        Case(f"sort {half:,} ints", sort("i"), 0.7),
        Case(f"sort {half:,} floats", sort("f"), 0.7),
        Case(f"sort {half:,} texts", sort("t"), 1.2),
        Case("sort texts with a long prefix", sort("long"), 1.2, in_files=False),
        Case("top 100", top("place", "asc"), 1.0),
        Case("top 100 descending, rows ascend", top("up", "desc"), 1.0),
        Case("top 100 ascending, rows descend", top("down", "asc"), 1.0),
        Case("count distinct ints", "select count(distinct many) as n from facts", 1.0),
        Case(
            "filter and project",
            "select place + v * 2 as x from facts where medium < 5000",
            0.8,
            in_files=False,
        ),
    ]


# ---- the two engines ----


def _ours(session: QueryMode, case: Case) -> Action:
    return lambda: session.sql(case.text).to_arrow()


def _theirs(connection: duckdb.DuckDBPyConnection, case: Case) -> Action:
    return lambda: connection.sql(case.text).to_arrow_table()


def _session(tables: Mapping[str, pyarrow.Table | str], threads: int = THREAD_COUNT) -> QueryMode:
    session = QueryMode.local(threads=threads, memory=MEMORY)
    for name, table in tables.items():
        session.register(name, table)
    return session


def _connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": THREAD_COUNT})


def _check(case: Case, ours: pyarrow.Table, theirs: pyarrow.Table) -> None:
    """Rows that no ORDER BY puts in order may come in any: their first columns do so here."""
    if "order by" not in case.text:
        ours, theirs = (table.sort_by(table.column_names[0]) for table in (ours, theirs))
    same = ours.column_names == theirs.column_names and ours.num_rows == theirs.num_rows
    if not same or not ours.equals(theirs.cast(ours.schema)):
        raise SystemExit(f"{case.name}: our answer is not DuckDB's: {case.text}")


def _race(case: Case, session: QueryMode, connection: duckdb.DuckDBPyConnection) -> dict[str, float]:
    ours, theirs = _ours(session, case), _theirs(connection, case)
    _check(case, ours(), theirs())
    return race({"ours": ours, "duckdb": theirs}, rounds=ROUNDS)


# ---- the four sections ----


def _files(tables: Tables, cases: Sequence[Case], rows: int) -> None:
    with tempfile.TemporaryDirectory() as folder, _connection() as connection:
        paths = {name: str(Path(folder) / f"{name}.parquet") for name in tables}
        for name, path in paths.items():
            pyarrow.parquet.write_table(tables[name], path, row_group_size=ROW_GROUP_ROWS)
            connection.read_parquet(path).create_view(name)
        time.sleep(0.05)  # footers of what was written this moment are not cached
        connection.execute("set parquet_metadata_cache = true")  # nor would DuckDB keep them unless told to
        session = _session(paths)
        table = Table(f"Operators, {rows:,} rows of Parquet, {THREAD_COUNT} threads")
        ratios = []
        for case in cases:
            best = _race(case, session, connection)
            ratio = table.compare(case.name, best["ours"], best["duckdb"], "duckdb", ratio_max=FILE_RATIO_MAX)
            ratios.append(ratio)
        table.mean("geometric mean", ratios, ratio_max=FILE_MEAN_MAX)


def _memory(tables: Tables, cases: Sequence[Case], rows: int) -> None:
    """DuckDB has its own tables, which is its best case."""
    with _connection() as connection:
        for name, data in tables.items():
            connection.register("given", data)
            connection.execute(f"create table {name} as from given")
            connection.unregister("given")
        session = _session(tables)
        table = Table(f"Operators, {rows:,} rows in memory, {THREAD_COUNT} threads")
        ratios = []
        for case in cases:
            best = _race(case, session, connection)
            ratio = table.compare(
                case.name, best["ours"], best["duckdb"], "duckdb", ratio_max=case.memory_ratio_max
            )
            ratios.append(ratio)
        table.mean("geometric mean", ratios)


def _threads(tables: Tables, cases: Sequence[Case]) -> None:
    """More threads than cores shall not cost much."""
    few, many = _session(tables), _session(tables, MANY_THREADS)
    table = Table(f"Operators in memory, {MANY_THREADS} threads against {THREAD_COUNT}")
    for case in cases:
        best = race({"few": _ours(few, case), "many": _ours(many, case)}, rounds=ROUNDS)
        peer = f"{THREAD_COUNT} threads"
        table.compare(case.name, best["many"], best["few"], peer, ratio_max=THREADS_RATIO_MAX)


def _doubled(tables: Tables, cases: Sequence[Case]) -> None:
    """Twice the rows take twice the time. What is joined to them stays as it is."""
    halves = {
        name: data if name == "items" else data.slice(0, len(data) // 2) for name, data in tables.items()
    }
    whole, half = _session(tables), _session(halves)
    table = Table("Operators in memory, all rows against half of them")
    for case in cases:
        best = race({"half": _ours(half, case), "whole": _ours(whole, case)}, rounds=ROUNDS)
        table.compare(case.name, best["whole"], best["half"], "half", ratio_max=DOUBLE_RATIO_MAX)
