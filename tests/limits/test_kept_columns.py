"""Columns that stay in an instance between queries: used again, and given up for others."""

from __future__ import annotations

import gc

import numpy as np
import pyarrow as pa

from querymode import DataFrame, QueryMode, _pool, col


def numbers(session: QueryMode, name: str, start: int, count: int = 2_000_000) -> DataFrame:
    return session.register(name, pa.table({"n": np.arange(start, start + count)}))


def total(start: int, count: int = 2_000_000) -> int:
    return count * (2 * start + count - 1) // 2


def test_the_second_query_copies_nothing() -> None:
    frame = numbers(QueryMode.local(threads=1), "n", 0).agg(col("n").sum().alias("s"))
    _pool.pool().close_idle()
    cold, warm = frame.collect(), frame.collect()
    assert cold.rows == warm.rows == [{"s": total(0)}]
    assert warm.stats["crossings"] < cold.stats["crossings"] / 2


def test_tables_that_do_not_fit_together_take_turns() -> None:
    session = QueryMode.local(memory="96MiB", threads=1)
    _pool.pool().close_idle()
    frames = [numbers(session, f"n{start}", start) for start in range(8)]
    for _ in range(2):
        for start, frame in enumerate(frames):
            assert frame.agg(col("n").sum().alias("s")).rows == [{"s": total(start)}]


def test_a_table_that_is_gone_gives_its_memory_back() -> None:
    session = QueryMode.local(memory="96MiB", threads=1)
    _pool.pool().close_idle()
    for start in range(8):
        assert numbers(session, "n", start).agg(col("n").max().alias("m")).rows == [{"m": start + 1_999_999}]
        gc.collect()
    assert _pool.pool().idle_size() <= 96 << 20
