"""All queries of TPC-H at scale factor 1 over Parquet, against DuckDB: two threads each, best of five."""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
from decimal import Decimal
from pathlib import Path

import duckdb

from benchmarks.harness import Table, race
from querymode import QueryMode

TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
ROUNDS = 5
#: Of a single query, and of the geometric mean.
RATIO_MAX, MEAN_MAX = 2.5, 1.0


def run() -> None:
    with tempfile.TemporaryDirectory() as folder:
        program = Path(sys.executable).parent / "tpchgen-cli"
        subprocess.run([str(program), "parquet", "-s", "1", "-o", folder], check=True, capture_output=True)
        session = QueryMode.local(threads=2, memory="4GiB")
        connection = duckdb.connect()
        connection.execute("set threads = 2")
        for name in TABLES:
            path = str(Path(folder) / f"{name}.parquet")
            session.register(name, path)
            connection.read_parquet(path).create_view(name)
        _race(session, connection)


def _race(session: QueryMode, connection: duckdb.DuckDBPyConnection) -> None:
    table = Table("TPC-H, scale factor 1, Parquet, two threads")
    ratios = []
    for path in sorted((Path(__file__).parent / "tpch").glob("*.sql")):
        text = path.read_text()

        def ours(text: str = text) -> list[dict[str, object]]:
            return session.sql(text).collect().rows

        def theirs(text: str = text) -> list[tuple[object, ...]]:
            return connection.execute(text).fetchall()

        _compare(path.stem, [tuple(row.values()) for row in ours()], theirs())
        times = race({"ours": ours, "duckdb": theirs}, rounds=ROUNDS)
        ratios.append(table.compare(path.stem, times["ours"], times["duckdb"], "duckdb", ratio_max=RATIO_MAX))
    table.mean("geometric mean", ratios, ratio_max=MEAN_MAX)


def _compare(name: str, ours: list[tuple[object, ...]], theirs: list[tuple[object, ...]]) -> None:
    """Rows that are equal in what their ORDER BY names may stand in either order."""
    same = len(ours) == len(theirs)
    for a, b in zip(sorted(map(_plain, ours)), sorted(map(_plain, theirs)), strict=False):
        same = same and len(a) == len(b) and all(map(_close, a, b))
    if not same:
        raise SystemExit(f"{name}: our answer is not DuckDB's")


def _plain(row: tuple[object, ...]) -> tuple[str, ...]:
    return tuple(f"{value:.3f}" if isinstance(value, float | Decimal) else str(value) for value in row)


def _close(a: str, b: str) -> bool:
    """Sums of floats may differ in their last digits, and so in the third one printed."""
    if a == b:
        return True
    try:
        return math.isclose(float(a), float(b), rel_tol=1e-9, abs_tol=0.0021)
    except ValueError:
        return False
