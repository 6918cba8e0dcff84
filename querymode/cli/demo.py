"""`querymode demo`: five queries over built-in data."""

from __future__ import annotations

import time

from querymode.output.text_table import print_result
from querymode.session import QueryMode
from querymode.table.demo import QUERIES


def run_demo() -> None:
    started = time.perf_counter()
    frame = QueryMode.demo()
    rows, columns = frame.shape()
    elapsed = (time.perf_counter() - started) * 1000
    print(f"{rows:,} orders in {columns} columns, made in {elapsed:.0f} ms")
    for title, build in QUERIES:
        result = build(frame).collect()
        print(f"\n{title}")
        print_result(result)
        print(f"{result.row_count:,} rows in {result.stats['ms']:.1f} ms")
