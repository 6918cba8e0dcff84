"""Columns that stay in an instance between queries: used again, and given up for others."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pyarrow as pa
import pytest

from querymode import DataFrame, QueryMode, col
from querymode.engine import instance as _wasm
from querymode.engine import pool as _pool
from querymode.engine import threads


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


# ---- more threads than cores ----


def test_workers_are_not_more_than_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = numbers(QueryMode.local(threads=8), "n", 0)
    monkeypatch.delenv("QUERYMODE_WORKERS_MAX")
    monkeypatch.setattr(threads, "core_count", lambda: 3)
    assert frame.agg(col("n").sum().alias("s")).collect().stats["threads"] == 3
    monkeypatch.setenv("QUERYMODE_WORKERS_MAX", "5")
    assert frame.agg(col("n").sum().alias("s")).collect().stats["threads"] == 5
    assert QueryMode.local().threads == 3


@pytest.mark.parametrize("thread_count", [2, 8])
def test_instances_that_grew_are_used_again(thread_count: int) -> None:
    """Queries of different sizes over one table take the same instances, however far these have grown."""
    values = np.arange(2_000_000)
    session = QueryMode.local(threads=thread_count, memory="1GiB")
    frame = session.register("t", pa.table({"n": values, "m": values % 1000, "x": values * 0.5}))
    _pool.pool().close_idle()
    queries = [
        frame.agg(col("n").sum().alias("s")),
        frame.group_by("m").agg(col("n").max().alias("a"), col("x").sum().alias("b")).sort("m"),
        frame.sort("x", descending=True).limit(100),
        frame.group_by("n").agg(col("m").sum().alias("s")).sort("n").limit(5),
    ]
    expected = [query.collect().rows for query in queries]
    seen: set[int] = set()
    for _ in range(12):
        assert [query.collect().rows for query in queries] == expected
        seen.update(map(id, _pool.pool()._idle))
    assert len(seen) <= thread_count
    assert _pool.pool().idle_size() <= session.memory


def test_copies_of_columns_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many stay as were used side by side, or as there are cores; of small columns all."""
    monkeypatch.setenv("QUERYMODE_WORKERS_MAX", "2")
    own = _pool.InstancePool()

    def leave(count: int, size: int) -> None:
        """One after the other, each with a copy."""
        for instance in [_wasm.Instance(64 << 20) for _ in range(count)]:
            instance.kept_sizes[1] = size
            own.release(instance)

    leave(5, 1000)
    assert own.idle_count() == 5
    leave(5, 64 << 20)
    assert own.idle_count() == 5 + 2
    used = [own.acquire(64 << 20) for _ in range(4)]
    for instance in used:
        instance.kept_sizes[1] = 64 << 20
        own.release(instance)
    leave(5, 64 << 20)
    assert sum(instance.kept_sizes[1] > 1000 for instance in own._idle) == 4
    own.close_idle()


def test_queries_side_by_side_keep_a_copy_each() -> None:
    query = numbers(QueryMode.local(threads=1), "n", 0).agg(col("n").sum().alias("s"))
    _pool.pool().close_idle()
    begin = threading.Barrier(6)
    found: list[object] = []

    def work() -> None:
        begin.wait()
        found.extend(query.collect().rows for _ in range(3))

    workers = [threading.Thread(target=work) for _ in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert found == [[{"s": total(0)}]] * 18
    assert sum(bool(instance.kept_sizes) for instance in _pool.pool()._idle) <= 6
