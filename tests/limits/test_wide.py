"""Thousands of columns: each way out works in a fresh process, and takes time as there are columns."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet

from querymode import QueryMode, col
from tests.raises import raises_code

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_CODE = """
import sys, pyarrow, pyarrow.parquet
from querymode import QueryMode
source, way, count, memory, folder = sys.argv[1:]
rows = {f"c{index}": index if index % 3 else f"t{index}" for index in range(int(count))}
qm = QueryMode.local(memory=memory)
if source == "json":
    frame = qm.from_json([rows])
else:
    table = pyarrow.table({name: [value] for name, value in rows.items()})
    pyarrow.parquet.write_table(table, folder + "/t.parquet")
    frame = qm.from_arrow(table) if source == "arrow" else qm.table(folder + "/t.parquet")
qm.register("wide", frame)
ways = {
    "collect": lambda: frame.collect().to_arrow(),
    "show": lambda: frame.show(),
    "stream": lambda: list(frame.stream()),
    "csv": lambda: frame.write_csv(folder + "/o.csv"),
    "json": lambda: frame.write_json(folder + "/o.json"),
    "parquet": lambda: frame.write_parquet(folder + "/o.parquet"),
    "arrow": lambda: frame.write_arrow(folder + "/o.arrow"),
    "sort": lambda: frame.sort("c1").collect(),
    "join": lambda: frame.join(frame, on="c1").collect(),
    "sql": lambda: qm.sql("SELECT * FROM wide").collect(),
}
ways[way]()
"""
WAYS = ("collect", "show", "stream", "csv", "json", "parquet", "arrow", "sort", "join", "sql")


def ask(source: str, way: str, count: int, memory: str, folder: Path) -> None:
    arguments = [sys.executable, "-c", _CODE, source, way, str(count), memory, str(folder)]
    child = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)
    assert child.returncode == 0, child.stderr[-600:]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("source", ["arrow", "json", "parquet"])
def test_a_thousand_columns_in_a_fresh_process(source: str, way: str, tmp_path: Path) -> None:
    ask(source, way, 1000, "64MiB", tmp_path)


@pytest.mark.parametrize(("source", "way"), [("arrow", "show"), ("json", "csv"), ("parquet", "stream")])
def test_ten_thousand_columns(source: str, way: str, tmp_path: Path) -> None:
    ask(source, way, 10_000, "2GiB", tmp_path)


@pytest.mark.soak  # every pair has a test with a thousand columns, some with ten thousand
@pytest.mark.parametrize("way", [way for way in WAYS if way != "join"])
@pytest.mark.parametrize("source", ["arrow", "json", "parquet"])
def test_fifty_thousand_columns(source: str, way: str, tmp_path: Path) -> None:
    ask(source, way, 50_000, "2GiB", tmp_path)


def ways_of(count: int, folder: Path) -> dict[str, Callable[[], object]]:
    qm = QueryMode()
    table = pa.table({f"c{index}": [index, None] if index % 3 else ["t", "u"] for index in range(count)})
    numbers = pa.table({f"c{index}": [index] for index in range(count)})
    path = str(folder / f"{count}.parquet")
    parquet.write_table(numbers, path)
    numbers_of_rows = itertools.count(2)  # each text is planned anew
    rows = [{f"c{index}": index for index in range(count)}]
    frame = qm.from_arrow(table)
    qm.register("wide", frame)
    return {
        "from Arrow": lambda: qm.from_arrow(table),
        "from JSON": lambda: qm.from_json(rows).collect(),
        "collect": lambda: frame.collect().to_arrow(),
        "stream": lambda: list(frame.stream()),
        "csv": lambda: frame.write_csv(path + ".csv", overwrite=True),
        "sort": lambda: frame.sort("c1").collect(),
        "sql": lambda: qm.sql(f"SELECT * FROM wide LIMIT {next(numbers_of_rows)}").collect(),
        "group": lambda: (
            frame.group_by("c1")
            .agg(*(col(f"c{index}").max().alias(f"m{index}") for index in range(count)))
            .collect()
        ),
        "Parquet": lambda: qm.table(path).collect(),
    }


def test_four_times_the_columns_take_four_times_as_long(tmp_path: Path) -> None:
    few, many = (ways_of(count, tmp_path) for count in (1000, 4000))
    ratios = {way: best_of_three(many[way]) / (best_of_three(few[way]) + 0.005) for way in few}
    # It would be 16 if columns were walked for each column.
    assert max(ratios.values()) < 8, ratios


def best_of_three(function: Callable[[], object]) -> float:
    """Seconds of this process, whatever else the machine is doing."""
    found = []
    for _ in range(3):
        gc.collect()
        started = time.process_time()
        function()
        found.append(time.process_time() - started)
    return min(found)


def test_more_columns_than_there_may_be() -> None:
    wide = QueryMode.from_arrow(pa.table({f"c{index}": [index] for index in range(40_000)}))
    with raises_code("NOT_SUPPORTED"):
        wide.join(wide, on="c1").collect()
