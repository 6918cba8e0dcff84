"""A worker that fails while it leaves: the query ends with an error, and the next one works."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from querymode import QueryMode, col
from querymode._call import Call
from querymode.engine import pool as _pool
from querymode.engine import threads
from querymode.engine.instance import Instance
from querymode.engine.one_task import on_instance
from querymode.errors import InternalError, MemoryExceededError, QueryTimeoutError, error
from querymode.execute.stage_run import StageRun

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROWS = 200_000
#: Far more than the query takes, far less than a test that hangs.
SECONDS = 20


@pytest.fixture
def session() -> QueryMode:
    session = QueryMode.local(threads=4, timeout=SECONDS)
    session.register("t", pa.table({"a": range(ROWS)}))
    return session


def asked(session: QueryMode) -> int:
    rows = session.sql("SELECT sum(a) AS s FROM t WHERE a >= 0").collect().rows
    return int(rows[0]["s"])


def streamed(session: QueryMode) -> int:
    batches = session.sql("SELECT a FROM t WHERE a >= 0").stream()
    return sum(int(pc.sum(batch.column("a")).as_py()) for batch in batches)


@pytest.mark.parametrize("ask", [asked, streamed])
def test_an_instance_that_cannot_be_given_back(
    session: QueryMode, monkeypatch: pytest.MonkeyPatch, ask: Callable[[QueryMode], int]
) -> None:
    _pool.pool().close_idle()
    refused: list[Instance] = []

    def failing(pool: _pool.InstancePool, instance: Instance) -> None:
        refused.append(instance)
        raise OSError("no thread for the pool")

    with monkeypatch.context() as patch:
        patch.setattr(_pool.InstancePool, "release", failing)
        with pytest.raises(InternalError) as caught:
            ask(session)
    assert isinstance(caught.value.__cause__, OSError)
    assert refused and all(instance.closed for instance in refused)
    assert _pool.pool().idle_count() == 0
    assert ask(session) == ROWS * (ROWS - 1) // 2


def test_an_instance_that_cannot_even_be_discarded(
    session: QueryMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(pool: _pool.InstancePool, instance: Instance) -> None:
        raise OSError("not now")

    with monkeypatch.context() as patch:
        patch.setattr(_pool.InstancePool, "release", failing)
        patch.setattr(_pool.InstancePool, "discard", failing)
        with pytest.raises(InternalError):
            asked(session)
    assert asked(session) == ROWS * (ROWS - 1) // 2


def test_a_task_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(pool: _pool.InstancePool, instance: Instance) -> None:
        raise OSError("not now")

    with monkeypatch.context() as patch:
        patch.setattr(_pool.InstancePool, "release", failing)
        with pytest.raises(OSError, match="not now"):
            on_instance(lambda instance: instance.memory_size)
    assert on_instance(lambda instance: instance.memory_size) > 0


def test_a_task_that_ends_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its instance is somebody else's by then: a cancellation that comes late must not reach it."""
    release = _pool.InstancePool.release

    def lingering(pool: _pool.InstancePool, instance: Instance) -> None:
        release(pool, instance)
        time.sleep(0.3)

    on_instance(lambda instance: None)  # compiles the engine
    with monkeypatch.context() as patch:
        patch.setattr(_pool.InstancePool, "release", lingering)
        with pytest.raises(QueryTimeoutError), Call(time.monotonic() + 0.1):
            on_instance(lambda instance: None)
    assert not any(instance.cancelled for instance in _pool.pool()._idle)
    assert on_instance(lambda instance: instance.memory_size) > 0


def test_the_first_failure_is_the_one_that_is_reported(
    session: QueryMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(run: StageRun, instance: Instance) -> None:
        raise ValueError("the lanes")

    def failing(pool: _pool.InstancePool, instance: Instance) -> None:
        raise OSError("not now")

    monkeypatch.setattr(StageRun, "_run_lanes", broken)
    monkeypatch.setattr(_pool.InstancePool, "discard", failing)
    with pytest.raises(ValueError, match="the lanes"):
        asked(session)


def test_workers_that_do_not_start_are_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that join once row groups have been ruled out."""
    pq.write_table(pa.table({"a": range(ROWS)}), tmp_path / "t.parquet", row_group_size=ROWS // 16)
    session = QueryMode.local(threads=4, timeout=SECONDS)
    frame = session.table(tmp_path / "t.parquet").filter(col("a") >= 1000)
    start = threads.start
    started: list[Callable[[], None]] = []

    def failing(task: Callable[[], None]) -> None:
        if started:
            raise error("MEMORY_EXCEEDED", "this process cannot start another thread")
        started.append(task)
        start(task)

    with monkeypatch.context() as patch:
        patch.setattr(threads, "start", failing)
        with pytest.raises(MemoryExceededError, match="another thread"):
            frame.collect()
    assert frame.collect().row_count == ROWS - 1000
