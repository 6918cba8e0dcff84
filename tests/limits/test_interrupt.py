"""Ctrl-C, forks, the end of the interpreter, a package in a zip: the process around the engine."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from querymode import QueryMode, col
from querymode.errors import ColumnNotFoundError, MemoryExceededError, QueryModeError
from tests.forked import in_child
from tests.limits.child import ROOT, run, start

LONG_QUERY = """
import json, os, sys, threading, time
import numpy as np, pyarrow as pa
from querymode import QueryMode, col

words = pa.array([f"customer-of-a-long-street-{n:06d}" for n in range(20_000)])
random = np.random.default_rng(7)
table = pa.table({name: words.take(pa.array(random.integers(0, 20_000, 1_000_000))) for name in "ab"})
frame = QueryMode.local(threads=THREADS).register("t", table)
assert frame.limit(1).count() == 1
side = frame.limit(50_000)
pairs = side.join(side, how="cross").filter(col("a") > col("b_right"))  # minutes of work
"""


@pytest.mark.alone
@pytest.mark.parametrize("threads", [1, 2])
def test_control_c(threads: int) -> None:
    script = (
        LONG_QUERY.replace("THREADS", str(threads))
        + """
times = []
for _ in range(2):
    print("running", flush=True)
    try:
        pairs.count()
        print(json.dumps("not interrupted"))
        sys.exit()
    except KeyboardInterrupt:
        times.append(time.monotonic())
    times.append(frame.filter(col("a") >= "customer").count())
print(json.dumps(times))
"""
    )
    process = start(script)
    assert process.stdout is not None
    sent = []
    try:
        for pause in (0.2, 0.5):
            assert process.stdout.readline() == "running\n"
            time.sleep(pause)
            sent.append(time.monotonic())
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 0, err
    answers = json.loads(out.splitlines()[-1])
    waits = [answers[0] - sent[0], answers[2] - sent[1]]
    print(f"interrupted after {waits[0] * 1000:.0f} and {waits[1] * 1000:.0f} ms (bar 200)")
    assert answers[1] == answers[3] == 1_000_000
    assert max(waits) < 1.0


@pytest.mark.alone
def test_control_c_while_waiting_for_memory() -> None:
    script = (
        LONG_QUERY.replace("THREADS", "1, memory='300MiB'")
        + """
threading.Thread(target=pairs.count, daemon=True).start()
budget, memory = frame._session._budget, frame._session.memory
while budget._free == memory: time.sleep(0.001)
threading.Timer(0.2, os.kill, (os.getpid(), 2)).start()
started = time.monotonic()
try:
    budget.reserve(memory)
    print(json.dumps("not interrupted"))
except KeyboardInterrupt:
    print(json.dumps(time.monotonic() - started))
"""
    )
    waited = run(script)
    assert 0.15 < waited < 1.2


@pytest.mark.alone
@pytest.mark.parametrize("where", ["thread", "process"])
def test_exit_while_a_query_runs(where: str) -> None:
    """Daemon threads are inside the engine when the interpreter ends."""
    script = (
        LONG_QUERY.replace("THREADS", "2")
        + """
thread = threading.Thread(target=lambda: pairs.count(), daemon=True)
thread.start()
time.sleep(0.2)
assert thread.is_alive()
print("leaving", flush=True)
"""
    )
    if where == "process":
        script += "sys.exit(0)\n"
    process = start(script)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "leaving\n", process.communicate()[1]
        left = time.monotonic()
        _, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert time.monotonic() - left < 3
    assert err == ""


# ---- forks ----


def orders() -> pa.Table:
    return pa.table({"x": pa.array(range(100_000)), "t": pa.array([f"t{i % 10}" for i in range(100_000)])})


def total() -> int:
    frame = QueryMode.from_arrow(orders())
    value = frame.filter(col("t") == "t3").agg(col("x").sum().alias("s")).rows[0]["s"]
    assert isinstance(value, int)
    return value


EXPECTED = sum(range(3, 100_000, 10))


def test_fork_after_a_query() -> None:
    assert total() == EXPECTED

    def work() -> None:
        assert total() == EXPECTED and total() == EXPECTED

    in_child(work)
    assert total() == EXPECTED


def _in_pool(number: int) -> tuple[int, int]:
    return number, total()


def _fails(kind: str) -> None:
    frame = QueryMode.from_arrow(orders())
    if kind == "column":
        frame.filter(col("y") > 1).collect()
    frame.sort("x").collect(memory="16MiB", timeout=10)
    raise AssertionError("not reached")


def test_pool_of_forked_processes() -> None:
    assert total() == EXPECTED
    with multiprocessing.get_context("fork").Pool(2) as pool:
        answers = pool.map_async(_in_pool, range(6)).get(30)
        assert answers == [(number, EXPECTED) for number in range(6)]
        with pytest.raises(ColumnNotFoundError) as caught:
            pool.apply_async(_fails, ("column",)).get(30)
        assert caught.value.code == "COLUMN_NOT_FOUND"
        assert caught.value.column == "y"
    assert total() == EXPECTED


def test_errors_survive_pickling() -> None:
    frame = QueryMode.from_arrow(pa.table({"x": np.arange(3_000_000)}))
    with pytest.raises(MemoryExceededError) as caught:
        frame.sort("x", "desc").collect(memory="24MiB")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert type(copy) is MemoryExceededError
    assert isinstance(copy, QueryModeError)
    assert (copy.code, copy.message) == (caught.value.code, caught.value.message)


# ---- the package ----


def test_from_a_zip(tmp_path: Path) -> None:
    """Without its directory: code, engine and all come out of the archive."""
    archive = tmp_path / "querymode.zip"
    with zipfile.ZipFile(archive, "w") as target:
        for path in (ROOT / "querymode").rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                target.write(path, path.relative_to(ROOT))
    script = """
import querymode, json
from querymode import QueryMode, col
assert ".zip" in querymode.__file__, querymode.__file__
frame = QueryMode.from_csv("a,b\\n1,x\\n2,y\\n3,x\\n")
print(json.dumps(frame.filter(col("b") == "x").agg(col("a").sum().alias("s")).rows))
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(archive), "QUERYMODE_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [{"s": 4}]
