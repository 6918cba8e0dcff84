"""Which ranges become one read, and the gate: counts, budgets, overlap, cancellation."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from querymode.errors import error
from querymode.store.fetch import GAP_DEFAULT, GAP_MAX, GAP_MIN, IoGate, IoPool, auto_coalesce_gap, coalesce
from querymode.store.local import LocalFile
from querymode.store.memory import BytesSource
from querymode.store.options import StoreOptions
from querymode.store.source import ByteSource, ReadCancelled
from tests.forked import in_child
from tests.raises import raises_code
from tests.unit.faulty_source import FaultySource
from tests.unit.range_server import RangeServer

KIB = 1024
DATA = random.Random(3).randbytes(100_000)


# ---- coalescing ----


@pytest.mark.parametrize(
    ("ranges", "gap"),
    [
        ([], GAP_DEFAULT),
        ([(5, 10)], GAP_DEFAULT),
        ([(0, 10), (10, 10)], GAP_MAX),
        ([(0, 100), (50, 10)], GAP_MAX),
        ([(0, 10), (210, 10), (420, 10)], GAP_MIN),
        ([(0, 10), (10 + 20 * KIB, 10)], 40 * KIB),
        ([(0, 1), (1 + 10 * KIB, 1), (2 + 40 * KIB, 1)], 40 * KIB),  # 2 × the mean of 10 and 30
        ([(0, 1), (2, 1), (3 + 50 * KIB, 1), (4 + 10_000 * KIB, 1)], 100 * KIB),
        ([(0, 1), (1 << 30, 1)], GAP_MAX),
        ([(1 << 30, 1), (0, 1)], GAP_MAX),
        # The short range inside a long one makes no gap.
        ([(0, 100 * KIB), (10, 10), (120 * KIB, 1)], 40 * KIB),
    ],
)
def test_auto_coalesce_gap(ranges: list[tuple[int, int]], gap: int) -> None:
    assert auto_coalesce_gap(ranges) == gap
    assert auto_coalesce_gap(ranges[::-1]) == gap


def test_five_ranges_200_bytes_apart_become_one_read() -> None:
    ranges = [(1000 + number * 300, 100) for number in range(5)]
    merged = coalesce(ranges)
    assert [(read.offset, read.size) for read in merged] == [(1000, 1300)]
    assert merged[0].parts == [(number, number * 300) for number in range(5)]


def test_coalesce_keeps_what_lies_apart() -> None:
    ranges = [(500, 10), (0, 100), (700, 0), (90, 20), (210, 10), (100, 5)]
    merged = coalesce(ranges, 100)
    assert [(read.offset, read.size, read.parts) for read in merged] == [
        (0, 220, [(1, 0), (3, 90), (5, 100), (4, 210)]),
        (500, 10, [(0, 0)]),
    ]
    assert coalesce([], 5) == []
    assert coalesce([(9, 0)], 5) == []
    assert [read.size for read in coalesce([(0, 1), (1, 1), (3, 1)], 0)] == [2, 1]


@pytest.mark.parametrize("seed", range(20))
def test_coalesce_covers_everything(seed: int) -> None:
    chance = random.Random(seed)
    ranges = [(chance.randrange(20_000), chance.randrange(200)) for _ in range(chance.randrange(100))]
    gap = chance.choice([0, 1, 100, 5000])
    merged = coalesce(ranges, gap)
    seen = []
    for read in merged:
        for index, place in read.parts:
            assert read.offset + place == ranges[index][0]
            assert place + ranges[index][1] <= read.size
            seen.append(index)
    assert sorted(seen) == [index for index, (_, size) in enumerate(ranges) if size]
    for first, second in pairwise(merged):
        assert second.offset - (first.offset + first.size) > gap


def test_thousands_of_ranges_are_quick() -> None:
    chance = random.Random(1)
    ranges = [(chance.randrange(1 << 40), 1000) for _ in range(20_000)]
    started = time.process_time()
    assert len(coalesce(ranges)) > 10_000
    assert time.process_time() - started < 1


# ---- the gate ----


@pytest.fixture
def pool() -> IoPool:
    return IoPool(4)


def views(*sizes: int) -> list[memoryview]:
    return [memoryview(bytearray(size)) for size in sizes]


def sources(tmp_path: Path) -> list[ByteSource]:
    path = tmp_path / "file"
    path.write_bytes(DATA)
    return [LocalFile(str(path)), BytesSource(DATA), FaultySource(DATA)]


def test_reading(tmp_path: Path, pool: IoPool) -> None:
    for source in sources(tmp_path):
        gate = IoGate(pool=pool)
        first, second, third = views(10, 1000, 0)
        ticket = gate.submit(source, [(5, first), (2000, second), (7, third)])
        ticket.wait()
        ticket.wait()
        assert ticket.done
        assert (bytes(first), bytes(second)) == (DATA[5:15], DATA[2000:3000])
        assert gate.read(source, 7, 7) == DATA[7:14]
        assert gate.read_tail(source, 9) == DATA[-9:]
        assert (gate.request_count, gate.byte_count) == (4, 1026)
        ticket.cancel()
        assert (gate.request_count, gate.byte_count) == (4, 1026)
        gate.submit(source, []).wait()


def test_budgets_hold_before_a_request_is_made(tmp_path: Path, pool: IoPool) -> None:
    for source in sources(tmp_path):
        gate = IoGate(max_requests=2, max_bytes=100, pool=pool)
        gate.read(source, 0, 60)
        for wanted in (views(41), views(1, 1)):
            with raises_code("BUDGET_EXCEEDED") as caught:
                gate.submit(source, [(0, view) for view in wanted])
            assert "max_" in caught.value.message
        gate.read(source, 0, 40)
        with raises_code("BUDGET_EXCEEDED", match="max_requests=2"):
            gate.read(source, 0, 1)
        assert gate.read(source, 0, 0) == b""  # needs no request
        assert (gate.request_count, gate.byte_count) == (2, 100)
    assert isinstance(source, FaultySource) and source.started == 2


def test_lying_sizes_become_no_memory(pool: IoPool) -> None:
    with raises_code("INVALID_FORMAT"):
        IoGate(pool=pool).read(BytesSource(DATA), 0, 1 << 60)


@pytest.mark.alone
def test_remote_ranges_run_at_once_but_not_too_many(pool: IoPool) -> None:
    source = FaultySource(DATA, delay=0.03)
    gate = IoGate(pool=pool)
    targets = views(*[100] * 12)
    started = time.monotonic()
    gate.submit(source, [(number * 100, view) for number, view in enumerate(targets)]).wait()
    assert time.monotonic() - started < 12 * 0.03
    assert source.running_max == 4
    assert b"".join(map(bytes, targets)) == DATA[:1200]


@pytest.mark.alone
def test_the_next_morsel_is_fetched_while_one_is_decoded(pool: IoPool) -> None:
    delay, morsel_count = 0.04, 8
    source = FaultySource(DATA, delay=delay)
    gate = IoGate(pool=pool)
    started = time.monotonic()
    ticket = gate.submit(source, [(0, views(10)[0])])
    for number in range(morsel_count):
        ticket.wait()
        if number + 1 < morsel_count:
            ticket = gate.submit(source, [(number, views(10)[0])])
        time.sleep(delay)  # decode
    assert time.monotonic() - started < 0.65 * morsel_count * 2 * delay


def test_local_files_are_read_by_who_waits(tmp_path: Path) -> None:
    source = sources(tmp_path)[0]
    gate = IoGate()
    ticket = gate.submit(source, [(0, views(10)[0])])
    assert not ticket.done
    ticket.cancel()
    assert (gate.request_count, gate.byte_count) == (0, 0)  # nobody read it
    with pytest.raises(ReadCancelled):
        ticket.wait()


def test_a_failure_reaches_who_waits(pool: IoPool) -> None:
    source = FaultySource(DATA, fault=lambda offset: error("QUERY_FAILED", "broken") if offset else None)
    ticket = IoGate(pool=pool).submit(source, [(0, views(1)[0]), (1, views(1)[0])])
    for _ in range(2):
        with raises_code("QUERY_FAILED", match="broken"):
            ticket.wait()
    assert ticket.done


def test_a_failure_drops_what_waits_behind_it() -> None:
    source = FaultySource(DATA, delay=0.02, fault=lambda offset: OSError("broken"))
    pool = IoPool(1)
    gate = IoGate(pool=pool)
    with pytest.raises(OSError, match="broken"):
        gate.submit(source, [(number, views(1)[0]) for number in range(50)]).wait()
    assert source.started <= 3
    assert gate.request_count == source.started


# ---- cancelling ----


def test_nothing_is_written_after_cancel(pool: IoPool) -> None:
    release = threading.Event()
    source = FaultySource(DATA, gate=release)
    gate = IoGate(pool=pool)
    (target,) = views(100)
    ticket = gate.submit(source, [(0, target)])
    _until(lambda: source.running == 1)
    ticket.cancel()
    release.set()
    _until(lambda: source.running == 0)
    assert not any(target)
    assert gate.request_count == 1  # it had begun


def test_nothing_is_written_after_a_timeout(pool: IoPool) -> None:
    release = threading.Event()
    source = FaultySource(DATA, gate=release)
    (target,) = views(100)
    started = time.monotonic()
    ticket = IoGate(pool=pool).submit(source, [(0, target)])
    for _ in range(2):
        with raises_code("QUERY_TIMEOUT"):
            ticket.wait(started + 0.05)
    assert time.monotonic() - started < 2
    release.set()
    _until(lambda: source.running == 0)
    assert not any(target)


def test_the_gates_deadline_holds_for_all(pool: IoPool, tmp_path: Path) -> None:
    hold = threading.Event()
    slow = FaultySource(DATA, gate=hold)
    for source in (sources(tmp_path)[0], slow):
        gate = IoGate(deadline=time.monotonic() + 0.05, pool=pool)
        ticket = gate.submit(source, [(0, views(9)[0])])
        time.sleep(0.06)
        with raises_code("QUERY_TIMEOUT"):
            ticket.wait()
    hold.set()


def test_cancelling_wakes_who_waits(pool: IoPool) -> None:
    hold = threading.Event()
    source = FaultySource(DATA, gate=hold)
    gate = IoGate(pool=pool)
    ticket = gate.submit(source, [(0, views(9)[0])])
    threading.Timer(0.05, gate.cancel).start()
    started = time.monotonic()
    with pytest.raises(ReadCancelled):
        ticket.wait()
    assert time.monotonic() - started < 2
    with pytest.raises(ReadCancelled):
        gate.submit(source, [(0, views(9)[0])])
    with pytest.raises(ReadCancelled):
        gate.read(BytesSource(DATA), 0, 1)
    hold.set()


def test_a_cancelled_function_wakes_who_waits(pool: IoPool) -> None:
    hold, flag = threading.Event(), threading.Event()
    gate = IoGate(cancelled=flag.is_set, pool=pool)
    ticket = gate.submit(FaultySource(DATA, gate=hold), [(0, views(9)[0])])
    threading.Timer(0.05, flag.set).start()
    with pytest.raises(ReadCancelled):
        ticket.wait()
    hold.set()


def test_dead_reads_of_one_query_do_not_block_another() -> None:
    pool = IoPool(2)
    hold = threading.Event()
    dead = FaultySource(DATA, gate=hold)
    ticket = IoGate(pool=pool).submit(dead, [(0, views(9)[0]) for _ in range(5)])
    _until(lambda: dead.running == 2)
    waiting = IoGate(pool=pool).submit(FaultySource(DATA), [(0, views(9)[0]) for _ in range(5)])
    ticket.cancel()
    waiting.wait(time.monotonic() + 5)
    hold.set()
    _until(lambda: dead.running == 0)
    assert dead.started == 2
    # And the pool is as it was: no more threads than before at a time.
    source = FaultySource(DATA, delay=0.005)
    IoGate(pool=pool).submit(source, [(0, views(1)[0]) for _ in range(20)]).wait()
    assert source.running_max == 2


def test_many_queries_at_once(pool: IoPool) -> None:
    wrong: list[int] = []

    def query(seed: int) -> None:
        chance = random.Random(seed)
        source = FaultySource(DATA)
        gate = IoGate(pool=pool)
        for _ in range(20):
            offsets = [chance.randrange(len(DATA) - 50) for _ in range(5)]
            targets = views(*[50] * 5)
            ticket = gate.submit(source, list(zip(offsets, targets, strict=True)))
            if chance.random() < 0.3:
                ticket.cancel()
                seen = [bytes(target) for target in targets]
                time.sleep(0.0005)
                if seen != [bytes(target) for target in targets]:
                    wrong.append(seed)
                continue
            ticket.wait()
            if [bytes(target) for target in targets] != [DATA[offset : offset + 50] for offset in offsets]:
                wrong.append(seed)

    threads = [threading.Thread(target=query, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_idle_threads_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("querymode.store.fetch._IDLE_SECONDS", 0.02)
    pool = IoPool(3)
    for _ in range(2):
        IoGate(pool=pool).submit(FaultySource(DATA), [(0, views(1)[0]) for _ in range(6)]).wait()
        _until(lambda: pool._thread_count == 0)
    assert pool._idle_count == 0


def test_no_room_for_threads(pool: IoPool, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    gate = IoGate(pool=pool)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with raises_code("MEMORY_EXCEEDED"):
            gate.submit(FaultySource(DATA), [(0, views(1)[0])])
    assert gate.request_count == 0
    assert gate.read(FaultySource(DATA), 0, 5) == DATA[:5]


def test_a_forked_child_has_its_own_threads() -> None:
    source = FaultySource(DATA)
    assert IoGate().read(source, 0, 5) == DATA[:5]

    def work() -> None:
        ticket = IoGate().submit(source, [(number, views(1)[0]) for number in range(40)])
        ticket.wait(time.monotonic() + 5)

    in_child(work)


# ---- opening ----


@pytest.fixture
def server() -> Iterator[RangeServer]:
    made = RangeServer(DATA)
    yield made
    made.close()


def test_opening_is_counted(server: RangeServer, tmp_path: Path) -> None:
    gate = IoGate()
    source = gate.open(server.url(), StoreOptions(), tail_size=1000)
    assert (gate.request_count, gate.byte_count) == (1, 1000)
    assert gate.read_tail(source, 900) == DATA[-900:]
    assert gate.request_count == len(server.log) == 1
    assert gate.read(source, 0, 9) == DATA[:9]
    assert (gate.request_count, gate.byte_count) == (2, 1009) and len(server.log) == 2
    path = tmp_path / "file"
    path.write_bytes(DATA)
    with gate.open(path, StoreOptions(), tail_size=1000) as local:
        assert gate.request_count == 2
        assert gate.read_tail(local, 10) == DATA[-10:]
    assert gate.request_count == 3


def test_opening_keeps_to_the_budget(server: RangeServer) -> None:
    small = IoGate(max_bytes=500)
    assert small.open(server.url(), StoreOptions(), tail_size=65536).tail == DATA[-500:]
    with raises_code("BUDGET_EXCEEDED"):
        IoGate(max_requests=0).open(server.url(), StoreOptions())
    assert len(server.log) == 1


def test_opening_ends_with_the_deadline(server: RangeServer) -> None:
    hold = threading.Event()
    server.hook = lambda handler, number: hold.wait(5)
    started = time.monotonic()
    gate = IoGate(deadline=started + 0.1)
    with raises_code("QUERY_TIMEOUT"):
        gate.open(server.url(), StoreOptions())
    gate = IoGate()
    threading.Timer(0.05, gate.cancel).start()
    with pytest.raises(ReadCancelled):
        gate.open(server.url(), StoreOptions())
    assert time.monotonic() - started < 2
    hold.set()


def test_errors_of_opening_reach_the_caller(server: RangeServer) -> None:
    server.hook = lambda handler, number: handler.fail(404)
    with raises_code("TABLE_NOT_FOUND"):
        IoGate().open(server.url(), StoreOptions())


def _until(condition: object, seconds: float = 5.0) -> None:
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)
