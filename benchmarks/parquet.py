"""Parquet files against DuckDB, Polars and pyarrow, two threads each; and what small reads cost."""

from __future__ import annotations

import datetime as dt
import os
import statistics
import subprocess
import sys
import tempfile
import time
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import polars
import pyarrow
import pyarrow.parquet

from benchmarks.harness import Table, seconds
from querymode import QueryMode, col
from querymode.format.footer_cache import default_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from querymode.frame.frame import DataFrame

ROUNDS = 9
ARROW_ROUNDS = 5
POINT_ROWS = 10_000_000
POINT_SECONDS_MAX = 0.002
FOOTER_COLD_SECONDS_MAX = 0.060
FOOTER_CACHED_SECONDS_MAX = 0.005
FILE_RATIO_MAX = 2.2


def run() -> None:
    os.environ.setdefault("POLARS_MAX_THREADS", "2")
    pyarrow.set_cpu_count(2)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for codec in ("SNAPPY", "ZSTD(1)"):
            _tpch(_lineitem(folder / codec, codec), codec)
        table = Table("Small reads")
        _points(table, folder / "points.parquet")
        _wide_footer(table, folder / "wide.parquet")
        _many_files(table, folder / "many")


# ---- TPC-H ----


def _lineitem(folder: Path, codec: str) -> str:
    program = Path(sys.executable).parent / "tpchgen-cli"
    arguments = ["parquet", "-s", "1", "--tables", "lineitem", "-o", str(folder), "-c", codec]
    folder.mkdir()
    subprocess.run([str(program), *arguments], check=True, capture_output=True)
    return str(folder / "lineitem.parquet")


def _q6(lineitem: DataFrame) -> DataFrame:
    year = (col("l_shipdate") >= dt.date(1994, 1, 1)) & (col("l_shipdate") < dt.date(1995, 1, 1))
    discount = col("l_discount").between(Decimal("0.05"), Decimal("0.07"))
    chosen = lineitem.filter(year & discount & (col("l_quantity") < 24))
    return chosen.agg((col("l_extendedprice") * col("l_discount")).sum().alias("revenue"))


def _tpch(path: str, codec: str) -> None:
    table = Table(f"TPC-H lineitem, scale factor 1, {codec}, two threads: medians")
    ours = QueryMode.local(threads=2, memory="4GiB").table(path)
    connection = duckdb.connect()
    connection.execute("set threads = 2")
    lazy = polars.scan_parquet(path)

    def sql(text: str) -> Callable[[], object]:
        return lambda: connection.sql(text).fetchall()

    revenue = f"""select sum(l_extendedprice * l_discount) from '{path}' where l_shipdate >= date '1994-01-01'
        and l_shipdate < date '1995-01-01' and l_discount between 0.05 and 0.07 and l_quantity < 24"""
    assert _q6(ours).rows[0]["revenue"] == connection.sql(revenue).fetchall()[0][0]
    _compare(
        table,
        "sum of one column",
        {
            "ours": lambda: ours.agg(col("l_extendedprice").sum()).rows,
            "duckdb": sql(f"select sum(l_extendedprice) from '{path}'"),
            "polars": lambda: lazy.select(polars.col("l_extendedprice").sum()).collect(),
        },
        1.2,
    )
    _compare(
        table,
        "count with a filter",
        {
            "ours": lambda: ours.filter(col("l_quantity") < 24).count(),
            "duckdb": sql(f"select count(*) from '{path}' where l_quantity < 24"),
            "polars": lambda: lazy.filter(polars.col("l_quantity") < 24).select(polars.len()).collect(),
        },
        1.2,
    )
    _compare(table, "Q6", {"ours": lambda: _q6(ours).rows, "duckdb": sql(revenue)}, 1.1)
    _compare(
        table,
        "all 16 columns to Arrow",
        {
            "ours": ours.to_arrow,
            "pyarrow": lambda: pyarrow.parquet.read_table(path),
            "polars": lambda: polars.read_parquet(path),
            "duckdb": lambda: connection.sql(f"from '{path}'").to_arrow_table(),
        },
        1.2,
        rounds=ARROW_ROUNDS,
    )


def _compare(
    table: Table,
    name: str,
    contestants: Mapping[str, Callable[[], object]],
    ratio_max: float,
    *,
    rounds: int = ROUNDS,
) -> None:
    """Medians of interleaved turns, against the fastest peer."""
    turns: dict[str, list[float]] = {contestant: [] for contestant in contestants}
    for turn in range(rounds + 1):
        for contestant, action in contestants.items():
            started = time.perf_counter()
            action()
            if turn:  # the first one warms up
                turns[contestant].append(time.perf_counter() - started)
    medians = {contestant: statistics.median(values) for contestant, values in turns.items()}
    peer = min((contestant for contestant in medians if contestant != "ours"), key=medians.__getitem__)
    table.compare(name, medians["ours"], medians[peer], peer, ratio_max=ratio_max)


# ---- small reads ----


def write_points(path: Path) -> None:
    """Ten million rows in the order of their `id`, with an index of their pages."""
    random = np.random.default_rng(1)
    ids = np.arange(POINT_ROWS)
    columns = {"id": ids, "v": random.random(POINT_ROWS), "txt": np.char.add("text ", ids.astype(str))}
    pyarrow.parquet.write_table(
        pyarrow.table(columns), path, compression="zstd", data_page_size=64 << 10, write_page_index=True
    )


def _points(table: Table, path: Path) -> None:
    """`id = x` returning three columns of ten million rows."""
    write_points(path)
    random = np.random.default_rng(2)
    rows = QueryMode.local(threads=2).table(str(path))
    turns, counts, sizes = [], [], []
    for place in random.integers(0, POINT_ROWS, 51).tolist():
        started = time.perf_counter()
        answer = rows.filter("id", "eq", place).select("id", "v", "txt").collect()
        turns.append(time.perf_counter() - started)
        assert answer.row_count == 1
        counts.append(answer.stats["requests"])
        sizes.append(answer.stats["bytes"])
    middle = statistics.median(turns)
    table.measure("id = x of 10 M rows", seconds(middle), bar="≤ 2 ms", met=middle <= POINT_SECONDS_MAX)
    count, size = max(counts), statistics.median(sizes)
    table.measure("  its reads behind the footer, most", f"{count} reads", bar="≤ 4", met=count <= 4)
    table.measure("  their bytes", f"{size // 1024} KiB", bar="≤ 160 KiB", met=size <= 160 << 10)
    # One row in eight lies in pages of codes, whose dictionary is 1 MiB: its writer gave it up there.
    table.measure("  most", f"{max(sizes) // 1024} KiB")


def _wide_footer(table: Table, path: Path) -> None:
    """1,000 columns × 100 row groups."""
    names = [f"column_{number}" for number in range(1000)]
    block = pyarrow.table({name: pyarrow.array(range(10), pyarrow.int64()) for name in names})
    with pyarrow.parquet.ParquetWriter(path, block.schema) as writer:
        for _ in range(100):
            writer.write_table(block)
    time.sleep(0.05)  # what was written this moment is not cached
    with tempfile.TemporaryDirectory() as cache:
        os.environ["QUERYMODE_CACHE_DIR"], before = cache, os.environ.get("QUERYMODE_CACHE_DIR")
        try:
            cold, cached = _opened(path), []
            for _ in range(5):
                default_cache().clear()
                cached.append(_opened(path))
        finally:
            if before is None:
                del os.environ["QUERYMODE_CACHE_DIR"]
            else:
                os.environ["QUERYMODE_CACHE_DIR"] = before
    table.measure(
        "footer of 1,000 × 100, cold", seconds(cold), bar="≤ 60 ms", met=cold <= FOOTER_COLD_SECONDS_MAX
    )
    best = min(cached)
    table.measure("  from the disk cache", seconds(best), bar="≤ 5 ms", met=best <= FOOTER_CACHED_SECONDS_MAX)


def _opened(path: Path) -> float:
    started = time.perf_counter()
    QueryMode.local().table(str(path))
    return time.perf_counter() - started


def _many_files(table: Table, folder: Path) -> None:
    folder.mkdir()
    block = pyarrow.table({"id": range(10), "v": [0.5] * 10})
    times = []
    for count in (5_000, 10_000):
        for number in range(len(list(folder.iterdir())), count):
            pyarrow.parquet.write_table(block, folder / f"part-{number:05}.parquet")
        time.sleep(0.05)
        best = float("inf")
        for _ in range(2):
            default_cache().clear()
            started = time.perf_counter()
            answer = QueryMode.local(threads=2).table(str(folder)).agg(col("v").sum().alias("v")).rows
            best = min(best, time.perf_counter() - started)
            assert answer == [{"v": count * 5.0}]
        times.append(best)
    ratio = times[1] / times[0]
    table.measure("10,000 files, opened and summed", seconds(times[1]))
    table.measure("  against 5,000", f"{ratio:.2f}", bar=f"≤ {FILE_RATIO_MAX}", met=ratio <= FILE_RATIO_MAX)
