"""`python -m benchmarks.builds FOLDER`: this build against that of another checkout, whose engine is built.

Both run at the same time, as a process each, and take turns: the best of many turns counts, as a ratio.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet

from benchmarks import operators, planning, queries
from benchmarks.harness import Table
from benchmarks.parquet import write_points

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 7
#: What is shorter than this is repeated until it is not.
TURN_SECONDS_MIN = 0.002
MEAN_MAX, RATIO_MAX = 1.03, 1.10
#: A ratio above its bar is measured again: neighbours slow a shared machine down for seconds at a time.
ATTEMPTS = 3


class Case(NamedTuple):
    name: str
    text: str
    how: str


class Build:
    """A worker over one build."""

    def __init__(self, folder: Path) -> None:
        script = Path(__file__).with_name("build_worker.py")
        self._process = subprocess.Popen(
            [sys.executable, str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(folder)},
            text=True,
        )

    def ask(self, **request: object) -> float:
        to, back = self._process.stdin, self._process.stdout
        assert to is not None
        assert back is not None
        to.write(json.dumps(request) + "\n")
        to.flush()
        answer = back.readline()
        if not answer:
            raise SystemExit(f"a build failed at {request}")
        return float(json.loads(answer))

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class Suite(NamedTuple):
    """Cases over tables, which are files, or read into memory first."""

    title: str
    tables: dict[str, Path]
    in_memory: bool
    cases: list[Case]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.builds", description=__doc__)
    parser.add_argument("folder", type=Path, help="the other build")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", help="suites whose title has this in it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        for suite in _suites(Path(name), options.only or ""):
            _run(suite, options.folder.resolve(), options.rounds)
    return 0


def _run(suite: Suite, other: Path, rounds: int) -> None:
    builds = [Build(Path(__file__).parent.parent), Build(other)]
    try:
        for build in builds:
            for name, path in suite.tables.items():
                build.ask(register=name, path=str(path), in_memory=suite.in_memory)
        table = Table(f"{suite.title}: this build against {other.name}")
        ratios = []
        for case in suite.cases:
            ours, theirs = _race(builds, case, rounds)
            ratios.append(table.compare(case.name, ours, theirs, "before", ratio_max=RATIO_MAX))
        table.mean("geometric mean", ratios, ratio_max=MEAN_MAX)
    finally:
        for build in builds:
            build.close()


def _race(builds: list[Build], case: Case, rounds: int) -> list[float]:
    once = [build.ask(text=case.text, how=case.how, repeats=1) for build in builds]
    once = [build.ask(text=case.text, how=case.how, repeats=1) for build in builds]
    repeats = max(1, round(TURN_SECONDS_MIN / max(1e-6, max(once))))
    best = [math.inf, math.inf]
    for _ in range(ATTEMPTS):
        for number in range(rounds):
            # Who goes first changes: the second finds caches as the first left them.
            for place in (0, 1) if number % 2 else (1, 0):
                seconds = builds[place].ask(text=case.text, how=case.how, repeats=repeats)
                best[place] = min(best[place], seconds)
        if best[0] <= RATIO_MAX * best[1]:
            break
    return best


# ---- what is run ----


def _suites(folder: Path, only: str) -> list[Suite]:
    made: dict[str, Callable[[], Suite]] = {
        "operators over files": lambda: _operators(folder, in_memory=False),
        "operators in memory": lambda: _operators(folder, in_memory=True),
        "TPC-H": lambda: _tpch(folder),
        "Parquet": lambda: _parquet(folder),
        "planning": lambda: _planning(folder),
    }
    return [make() for title, make in made.items() if only in title]


def _operators(folder: Path, *, in_memory: bool) -> Suite:
    tables = {}
    for name, table in operators.make_tables(operators.ROW_COUNT).items():
        tables[name] = folder / f"{name}.parquet"
        if not tables[name].exists():
            pyarrow.parquet.write_table(table, tables[name], row_group_size=operators.ROW_GROUP_ROWS)
    cases = [
        Case(case.name, case.text, "arrow")
        for case in operators.make_cases(operators.ROW_COUNT)
        if in_memory or case.in_files
    ]
    title = "operators in memory" if in_memory else "operators over files"
    return Suite(title, tables, in_memory, cases)


def _tpch(folder: Path) -> Suite:
    tables = {name: _tpch_folder(folder) / f"{name}.parquet" for name in queries.TABLES}
    texts = sorted((Path(__file__).parent / "tpch").glob("*.sql"))
    return Suite("TPC-H", tables, False, [Case(path.stem, path.read_text(), "rows") for path in texts])


def _tpch_folder(folder: Path) -> Path:
    made = folder / "tpch"
    if not made.exists():
        program = Path(sys.executable).parent / "tpchgen-cli"
        subprocess.run([str(program), "parquet", "-s", "1", "-o", str(made)], check=True, capture_output=True)
    return made


def _parquet(folder: Path) -> Suite:
    points = folder / "points.parquet"
    write_points(points)
    tables = {"lineitem": _tpch_folder(folder) / "lineitem.parquet", "points": points}
    cases = [
        Case("sum of one column", "select sum(l_extendedprice) from lineitem", "rows"),
        Case("count with a filter", "select count(*) from lineitem where l_quantity < 24", "rows"),
        Case("all 16 columns to Arrow", "select * from lineitem", "arrow"),
        Case("id = x", "select id, v, txt from points where id = 7654321", "rows"),
        Case("open a file and count", str(points), "open"),
    ]
    return Suite("Parquet", tables, False, cases)


def _planning(folder: Path) -> Suite:
    numbers = pyarrow.array(range(1000))
    keys = {f"k{i}": numbers for i in range(planning.JOINED_TABLES)}
    made = {
        f"t{i}": pyarrow.table({"id": numbers, "v": numbers, **keys}) for i in range(planning.JOINED_TABLES)
    }
    made["wide"] = pyarrow.table({f"c{i}": numbers for i in range(planning.COLUMNS)})
    tables = {}
    for name, table in made.items():
        tables[name] = folder / f"planned_{name}.parquet"
        pyarrow.parquet.write_table(table, tables[name])
    cases = [
        Case("IN list", planning.in_list(1), "plan"),
        Case("projection", planning.projection(1), "plan"),
        Case("UNION ALL", planning.union(1), "plan"),
        Case("join", planning.join(1), "plan"),
        Case("one row", "select id, v from t0 where id = 5", "plan"),
    ]
    return Suite("planning", tables, True, cases)


if __name__ == "__main__":
    sys.exit(main())
