"""Thirty-two threads on one QueryMode object: right answers, and the budget is kept at every moment."""

from __future__ import annotations

import random
import sys
import threading
import time
from typing import Any

import pytest

from querymode import QueryMode, col
from querymode.engine import pool as _pool
from querymode.engine import process
from querymode.frame.frame import DataFrame
from querymode.table.demo import orders
from tests.limits.child import MIB, run
from tests.raises import raises_code

BUDGET = 256 * MIB
THREADS = 32


def mixed_queries(frame: DataFrame) -> list[DataFrame]:
    return [
        frame.group_by("region")
        .agg(col("amount").sum().alias("s"), col("order_id").count().alias("n"))
        .sort("region"),
        frame.filter((col("region") == "eu") & (col("quantity") >= 35)).sort("order_id").limit(20),
        frame.filter(col("customer").like("customer-000%")).group_by("product").count().sort("product"),
        frame.agg(col("amount").max().alias("a"), col("discount").avg().alias("b")),
        frame.sort("amount", "order_id", descending=True).limit(50),
        frame.filter(col("discount").is_null()).limit(1000).offset(10),
        frame.select("order_id", (col("amount") * 2).alias("x")).filter(col("x") > 15_000).sort("order_id"),
        frame.group_by("customer").agg(col("amount").max().alias("m")).sort("customer").limit(30),
    ]


def test_mixed_queries() -> None:
    """In a process of its own: the engine's instances are counted, and nobody else's."""
    found = run("from tests.limits import test_threads\ntest_threads.main()", timeout=120)
    print(
        f"{found['queries']} queries in {found['seconds']:.1f} s; at most {found['busy'] / MIB:.0f} MiB busy "
        f"and {found['live'] / MIB:.0f} MiB in all, of {BUDGET // MIB} MiB"
    )
    assert found["failures"] == []
    assert found["queries"] >= THREADS * 4
    assert found["busy"] <= BUDGET
    assert found["live"] <= BUDGET + 150_000_000
    assert found["free_after"] == BUDGET


def main() -> None:
    import json

    session = QueryMode.local(memory=BUDGET, threads=2)
    frame = session.register("orders", orders(150_000))
    queries = mixed_queries(frame)
    expected = [query.collect().rows for query in queries]
    failures: list[str] = []
    counts = [0] * THREADS
    stop = time.monotonic() + 3

    def work(number: int) -> None:
        chooser = random.Random(number)
        while counts[number] < 4 or (time.monotonic() < stop and counts[number] < 30):
            index = chooser.randrange(len(queries))
            try:
                if queries[index].collect().rows != expected[index]:
                    failures.append(f"query {index}: another answer")
            except BaseException as failure:
                failures.append(f"query {index}: {failure!r}")
            counts[number] += 1

    workers = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    started = time.monotonic()
    for worker in workers:
        worker.start()
    peaks = _watch(workers)
    print(
        json.dumps(
            {
                "queries": sum(counts),
                "seconds": time.monotonic() - started,
                "failures": failures[:5],
                "free_after": session._budget._free,
                **peaks,
            }
        )
    )


def _watch(workers: list[threading.Thread]) -> dict[str, Any]:
    """The most that all instances held, and the most that those in use held."""
    live_peak = busy_peak = 0
    pool = _pool.pool()
    while any(worker.is_alive() for worker in workers):
        with pool._lock:
            idle = {id(instance) for instance in pool._idle}
            live = list(process.live)
        sizes = {id(instance): instance._size for instance in live if not instance.closed}
        live_peak = max(live_peak, sum(sizes.values()))
        busy_peak = max(busy_peak, sum(size for key, size in sizes.items() if key not in idle))
        time.sleep(0.002)
    return {"live": live_peak, "busy": busy_peak}


def test_threads_that_fail_do_not_disturb_others() -> None:
    """A timeout, a misspelt cast and a lack of memory beside queries that work."""
    session = QueryMode.local(memory="128MiB", threads=2)
    frame = session.register("orders", orders(60_000))
    right = frame.agg(col("amount").sum().alias("s")).rows
    wrong: list[object] = []

    def fine() -> None:
        for _ in range(10):
            answer = frame.agg(col("amount").sum().alias("s")).rows
            if answer != right:
                wrong.append(answer)

    def failing() -> None:
        for _ in range(5):
            with pytest.raises(TimeoutError):
                frame.sort("customer", "amount").collect(timeout=1e-6)
            with raises_code("QUERY_FAILED"):
                frame.select((col("order_id") + 9_223_372_036_854_775_000).alias("x")).collect()

    workers = [threading.Thread(target=job) for job in [fine, failing] * 6]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert not any(worker.is_alive() for worker in workers)
    assert wrong == []
    assert session._budget._free == session.memory


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_instances_and_threads_go_away() -> None:
    script = """
import json, os, threading, time
from querymode import QueryMode, col
from querymode.engine import pool as _pool
from querymode.engine import process
from querymode.engine import threads
from querymode.table.demo import orders
from querymode.errors import QueryModeError
threads.IDLE_SECONDS = 0.3
_pool.pool().idle_seconds = 0.3
frame = QueryMode.local(threads=4).register("t", orders(20_000))
jobs = [threading.Thread(target=lambda: frame.agg(col("amount").sum()).collect()) for _ in range(16)]
for job in jobs: job.start()
for job in jobs: job.join()
time.sleep(1.5)
print(json.dumps([_pool.pool().idle_count(), threading.active_count(), len(process.live)]))
"""
    assert run(script) == [0, 1, 0]
