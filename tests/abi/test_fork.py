"""Forked children use the engine, and leave alone what they inherited."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from querymode._abi import SourceKind
from querymode.engine import process
from querymode.engine.instance import Cancelled, Instance
from querymode.engine.pool import pool
from querymode.engine.program import Program
from querymode.errors import QueryModeError
from tests.abi.stub import Behaviour, stub_program, stub_wasm
from tests.forked import in_child

LIMIT = 64 << 20


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("QUERYMODE_CACHE_DIR", str(tmp_path / "cache"))
    yield
    pool().close_idle()


def echo(instance: Instance) -> None:
    query = instance.query_open(bytes([Behaviour.ECHO]))
    assert instance.query_push(query, SourceKind.QMCB, data=b"hello").size == 5


def test_child_uses_what_the_parent_compiled() -> None:
    instance = pool().acquire(LIMIT, program=stub_program())
    echo(instance)

    def work() -> None:
        own = pool().acquire(LIMIT, program=stub_program())
        assert own is not instance
        echo(own)
        pool().release(own)

    in_child(work)
    echo(instance)
    pool().release(instance)


def test_child_compiles_after_the_parent_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUERYMODE_CACHE_DIR", "/dev/null")
    with Instance(LIMIT, program=Program(stub_wasm())) as instance:
        echo(instance)

        def work() -> None:
            with Instance(LIMIT, program=Program(stub_wasm())) as own:
                echo(own)
            with Instance(LIMIT, program=Program(stub_wasm()), hardened=True) as own:
                echo(own)

        in_child(work)


def test_child_starts_with_an_empty_pool_and_leaves_inherited_instances() -> None:
    warm = pool().acquire(LIMIT, program=stub_program())
    held = Instance(LIMIT, program=stub_program())
    address = held.alloc(100)
    held.write(address, b"parent")
    view = held.view(address, 6)
    pool().release(warm)

    def work() -> None:
        assert pool().idle_count() == 0
        assert held.closed and warm.closed
        with pytest.raises(QueryModeError):
            echo(held)
        held.cancel()
        held.close()
        assert bytes(view) == b"parent"  # inherited memory stays mapped

    in_child(work)
    assert pool().idle_count() == 1
    assert held.read(address, 6) == b"parent"
    echo(held)
    held.close()


def test_fork_while_a_thread_is_inside_a_call() -> None:
    instance = Instance(LIMIT, program=stub_program())
    outcome: list[BaseException] = []

    def spin() -> None:
        try:
            instance.query_push(Behaviour.SPIN, SourceKind.QMCB)
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=spin)
    thread.start()
    while not instance._gate.locked():
        time.sleep(0.001)

    def work() -> None:
        instance.cancel()  # of the parent's instance: does nothing
        with Instance(LIMIT, program=stub_program()) as own:
            echo(own)

    in_child(work)
    assert thread.is_alive()
    instance.cancel()
    thread.join(10)
    assert isinstance(outcome[0], Cancelled)
    instance.close()


def test_fork_while_other_threads_make_and_close_instances() -> None:
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            own = pool().acquire(LIMIT, program=stub_program(), hardened=True)
            echo(own)
            pool().release(own)
            pool().close_idle()

    threads = [threading.Thread(target=churn) for _ in range(2)]
    for thread in threads:
        thread.start()

    def work() -> None:
        own = pool().acquire(LIMIT, program=stub_program())
        echo(own)
        pool().release(own)
        with Instance(LIMIT, program=Program(stub_wasm()), hardened=True) as other:
            echo(other)

    try:
        for _ in range(10):
            in_child(work)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_a_fork_past_the_hooks_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    before = pool()
    inherited = Instance(LIMIT, program=stub_program())
    kept = inherited._store, inherited._finalizer
    monkeypatch.setattr(process, "_owner_pid", os.getpid() + 1)
    assert pool() is not before
    assert inherited.closed
    del kept
