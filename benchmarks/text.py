"""CSV and NDJSON files against DuckDB, two threads each, and the memory that ours take."""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb

from benchmarks.harness import Table, race
from querymode import QueryMode

ROUNDS = 3
RATIO_MAX = 1.5
#: Of a process that reads the file and does nothing else: the interpreter, the engine's compiler if it has to
#: run, and two workers with their windows.
PEAK_MAX = 160 << 20
QUERIES = {
    "count(*)": "select count(*) as x from '{path}'",
    "Q6": """select sum(l_extendedprice * l_discount) as x from '{path}' where l_shipdate >= date '1994-01-01'
        and l_shipdate < date '1995-01-01' and l_discount between 0.05 and 0.07 and l_quantity < 24""",
}


def run() -> None:
    with tempfile.TemporaryDirectory() as name, duckdb.connect(config={"threads": 2}) as connection:
        paths = _write(Path(name), connection)
        table = Table("TPC-H lineitem as text, scale factor 1, two threads")
        for path in paths:
            for query in QUERIES:
                _compare(table, path, query, connection)
            peak = _peak(path)
            bar = f"≤ {PEAK_MAX >> 20} MiB"
            table.measure(f"{path.name}, Q6: peak memory", f"{peak >> 20} MiB", bar=bar, met=peak <= PEAK_MAX)


def _write(folder: Path, connection: duckdb.DuckDBPyConnection) -> list[Path]:
    program = Path(sys.executable).parent / "tpchgen-cli"
    arguments = ["csv", "-s", "1", "--tables", "lineitem", "-o", str(folder)]
    subprocess.run([str(program), *arguments], check=True, capture_output=True)
    whole = folder / "lineitem.csv"
    ndjson, packed = folder / "lineitem.ndjson", folder / "lineitem.csv.gz"
    connection.execute(f"copy (from '{whole}') to '{ndjson}' (format json)")
    connection.execute(f"copy (from '{whole}') to '{packed}' (format csv, compression gzip)")
    return [whole, packed, ndjson]


def _compare(table: Table, path: Path, query: str, connection: duckdb.DuckDBPyConnection) -> None:
    session = QueryMode.local(threads=2)
    text = QUERIES[query].format(path=path)

    def ours() -> float:
        return float(session.sql(text).rows[0]["x"])

    def theirs() -> float:
        return float(connection.sql(text).fetchall()[0][0])

    # The prices are floats here, which each adds in an order of its own.
    assert math.isclose(ours(), theirs(), rel_tol=1e-9)
    times = race({"ours": ours, "duckdb": theirs}, rounds=ROUNDS)
    table.compare(f"{path.name}, {query}", times["ours"], times["duckdb"], "duckdb", ratio_max=RATIO_MAX)


def _peak(path: Path) -> int:
    """Of a process that does nothing else."""
    command = [sys.executable, "-m", "benchmarks.text", str(path)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _print_peak(path: str) -> None:
    QueryMode.local(threads=2).sql(QUERIES["Q6"].format(path=path)).collect()
    # Not getrusage's, which remembers the process that this one was forked from.
    status = Path("/proc/self/status").read_text()
    print(int(status.partition("VmHWM:")[2].split()[0]) << 10)


if __name__ == "__main__":
    _print_peak(sys.argv[1])
