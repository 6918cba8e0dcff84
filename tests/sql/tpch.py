"""TPC-H's tables as Parquet files, and its 22 questions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

QUERIES = Path(__file__).parents[2] / "benchmarks" / "tpch"
TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
NUMBERS = range(1, 23)


def write_tables(folder: Path) -> None:
    """A tenth of the smallest scale, in row groups that make many lanes of it."""
    program = Path(sys.executable).parent / "tpchgen-cli"
    command: list[str | Path] = [
        program,
        "parquet",
        "-s",
        "0.1",
        "--row-group-bytes",
        "2MB",
        "--output-dir",
        folder,
    ]
    subprocess.run(command, check=True, capture_output=True)


def text(number: int) -> str:
    return (QUERIES / f"q{number:02}.sql").read_text()
