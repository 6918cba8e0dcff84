"""What it costs to plan a text that was never asked before, and what a small answer costs with it.

Every turn asks another text: a plan that is kept answers none of them, except where that is what is timed.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from pathlib import Path

import numpy
import pyarrow

from benchmarks.harness import Table, race, seconds
from benchmarks.parquet import POINT_ROWS, write_points
from querymode import QueryMode
from querymode.stage.lower import lower

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Text = Callable[[int], str]

#: Few enough that points' texts are also written to the cache on disk, as a process does with its first 64.
ROUNDS = 15
PLAN_SECONDS_MAX = 0.050
POINT_PLAN_SECONDS_MAX = 0.003
POINT_KEPT_PLAN_SECONDS_MAX = 0.0003
POINT_SECONDS_MAX = 0.006
POINT_FRAME_SECONDS_MAX = 0.003

IN_TERMS = 500
COLUMNS = 200
UNION_BRANCHES = 20
JOINED_TABLES = 10


def run() -> None:
    _texts(Table("Planning, without running: a new text every time"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "points.parquet"
        write_points(path)
        time.sleep(0.05)  # the footer of what was written this moment is not cached
        _points(Table("id = x of 10 M rows, the footer cached"), str(path))


def _plan(session: QueryMode, text: str) -> None:
    """Parsed, bound, optimised and cut into stages: all that is done before rows are touched."""
    lower(session.sql(text)._node)


# ---- large texts ----


def in_list(number: int) -> str:
    terms = ", ".join(str(number + 7 * term) for term in range(IN_TERMS))
    return f"select id from t0 where id in ({terms})"


def projection(number: int) -> str:
    return f"select {', '.join(f'c{i} + {number} as x{i}' for i in range(COLUMNS))} from wide"


def union(number: int) -> str:
    branches = range(UNION_BRANCHES)
    return " union all ".join(f"select id, v + {number} as v from t0 where id > {i}" for i in branches)


def join(number: int) -> str:
    """A star of which every second point has a point of its own."""
    joins = " ".join(
        f"join t{i} on t{i}.id = t{i - 1 if i % 2 == 0 else 0}.k{i}" for i in range(1, JOINED_TABLES)
    )
    total = " + ".join(f"t{i}.v" for i in range(JOINED_TABLES))
    return f"select t0.id, sum({total}) as total from t0 {joins} where t1.v < {number} group by t0.id"


def _texts(table: Table) -> None:
    session = QueryMode.local(threads=2)
    numbers = pyarrow.array(range(1000))
    keys = {f"k{i}": numbers for i in range(JOINED_TABLES)}
    for i in range(JOINED_TABLES):
        session.register(f"t{i}", pyarrow.table({"id": numbers, "v": numbers, **keys}))
    session.register("wide", pyarrow.table({f"c{i}": numbers for i in range(COLUMNS)}))
    cases: dict[str, Text] = {
        f"IN list of {IN_TERMS} terms": in_list,
        f"projection of {COLUMNS} columns": projection,
        f"UNION ALL of {UNION_BRANCHES} queries": union,
        f"join of {JOINED_TABLES} tables": join,
    }
    counter = itertools.count(1)
    for name, text in cases.items():

        def plan(text: Text = text) -> None:
            _plan(session, text(next(counter)))

        session.sql(text(next(counter))).to_arrow()  # a plan that does not run is no plan
        best = race({"ours": plan}, rounds=ROUNDS)["ours"]
        table.measure(name, seconds(best), bar="≤ 50 ms", met=best <= PLAN_SECONDS_MAX)


# ---- one row of many ----


def _points(table: Table, path: str) -> None:
    session = QueryMode.local(threads=2)
    frame = session.register("points", path)
    # No place comes twice: its text would have a plan.
    places = iter(numpy.random.default_rng(2).choice(POINT_ROWS, 1000, replace=False).tolist())

    def text() -> str:
        return f"select id, v, txt from points where id = {next(places)}"

    def from_text() -> None:
        assert session.sql(text()).collect().row_count == 1

    def from_frame() -> None:
        answer = frame.filter("id", "eq", next(places)).select("id", "v", "txt").collect()
        assert answer.row_count == 1

    same = text()
    best = race(
        {
            "new": lambda: _plan(session, text()),
            "kept": lambda: _plan(session, same),
            "text": from_text,
            "frame": from_frame,
        },
        rounds=ROUNDS,
    )
    for name, key, limit in (
        ("SQL, planning of a new text", "new", POINT_PLAN_SECONDS_MAX),
        ("SQL, planning of a text once asked", "kept", POINT_KEPT_PLAN_SECONDS_MAX),
        ("SQL, a new text and its answer", "text", POINT_SECONDS_MAX),
        ("DataFrame and its answer", "frame", POINT_FRAME_SECONDS_MAX),
    ):
        table.measure(name, seconds(best[key]), bar=f"≤ {seconds(limit)}", met=best[key] <= limit)
