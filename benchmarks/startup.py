"""A new process, from nothing to an answer."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.harness import Table, race, seconds

OURS = """
import sys
from querymode import QueryMode
people = [{"name": "Ada", "age": 36}, {"name": "Linus", "age": 21}, {"name": "Grace", "age": 85}]
rows = QueryMode.from_json(people).filter("age", "gt", 30).rows
assert [row["name"] for row in rows] == ["Ada", "Grace"], rows
heavy = {"numpy", "pyarrow", "sqlglot"} & set(sys.modules)
assert not heavy, heavy
"""
PEER = "import duckdb; duckdb.sql('select 1').fetchall()"
COMMAND = str(Path(sys.executable).parent / "querymode")
COMMAND_PEER = "import duckdb; duckdb.sql('select 1').show()"

RATIO_MAX = 0.7
#: Of a statement on the command line: one that was never asked, and one that was.
NEW_TEXT_RATIO_MAX, KNOWN_TEXT_RATIO_MAX = 1.6, 0.8
COLD_SECONDS_MAX = 3.0
ROUNDS = 15
COLD_ROUNDS = 3

ROOT = Path(__file__).parent.parent


def run() -> None:
    table = Table("Start-up of a new process")
    with tempfile.TemporaryDirectory() as folder:
        warm = _environment(Path(folder, "warm"))
        best = race(
            {
                "ours": lambda: _python(OURS, warm),
                "duckdb": lambda: _python(PEER, warm),
                "python": lambda: _python("pass", warm),
            },
            rounds=ROUNDS,
        )
        asked = _race_commands(warm)
        cold = race({"ours": lambda: _python_without_cache(folder)}, rounds=COLD_ROUNDS)["ours"]
    table.compare(
        "filter of 3 rows, code cached", best["ours"], best["duckdb"], "duckdb", ratio_max=RATIO_MAX
    )
    # Both pay for Python itself; this is what is left to win.
    own, others = best["ours"] - best["python"], best["duckdb"] - best["python"]
    table.compare("  without Python's own start", own, others, "duckdb")
    _compare_commands(table, asked)
    met = cold <= COLD_SECONDS_MAX
    table.measure("filter of 3 rows, no code cache", seconds(cold), bar="≤ 3 s", met=met)


def _race_commands(environment: dict[str, str]) -> dict[str, float]:
    """`querymode "select 1"`. A column's name makes a text a new one."""
    numbers = itertools.count()
    return race(
        {
            "new": lambda: _run([COMMAND, f"select 1 as a{next(numbers)}"], environment),
            "known": lambda: _run([COMMAND, "select 1"], environment),
            "duckdb": lambda: _python(COMMAND_PEER, environment),
        },
        rounds=ROUNDS,
    )


def _compare_commands(table: Table, best: dict[str, float]) -> None:
    for name, key, limit in (
        ("querymode 'select 1', a new text", "new", NEW_TEXT_RATIO_MAX),
        ("querymode 'select 1', asked before", "known", KNOWN_TEXT_RATIO_MAX),
    ):
        table.compare(name, best[key], best["duckdb"], "duckdb", ratio_max=limit)


def _environment(cache: Path) -> dict[str, str]:
    # Compiled Python files are part of an installed package.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    # A script does not look for packages where it is called: this one shall run the code beside us.
    return kept | {"QUERYMODE_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}


def _python_without_cache(folder: str) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as fresh:
        _python(OURS, _environment(Path(fresh, "cold")))


def _python(code: str, environment: dict[str, str]) -> None:
    _run([sys.executable, "-c", code], environment)


def _run(command: list[str], environment: dict[str, str]) -> None:
    subprocess.run(command, check=True, env=environment, cwd=ROOT, stdout=subprocess.DEVNULL)
