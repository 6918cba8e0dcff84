"""The host keeps its promises whatever the module does: limits, traps, cancellation, views, pool."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from querymode._abi import OutputState, SourceKind, Status
from querymode.engine import instance as _wasm
from querymode.engine.address_space import FULL_RESERVATION, MOVABLE
from querymode.engine.foreign import foreign
from querymode.engine.instance import Cancelled, Instance
from querymode.engine.pool import InstancePool, pool
from querymode.engine.program import Program, engine_sha256
from querymode.errors import InternalError, MemoryExceededError
from tests.abi.stub import DETAIL_TEXT, PANIC_TEXT, Behaviour, stub_program, stub_wasm
from tests.raises import raises_code

MIB = 1 << 20
HERE = Path(__file__).parent
ROOT = HERE.parent.parent


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    # One for the whole file: what is compiled once serves all.
    base = tmp_path_factory.getbasetemp() / "host"
    base.mkdir(exist_ok=True)
    monkeypatch.setenv("QUERYMODE_CACHE_DIR", str(base / "cache"))


@pytest.fixture
def instance() -> Iterator[Instance]:
    with Instance(64 * MIB, program=stub_program()) as made:
        yield made


def push(instance: Instance, behaviour: Behaviour, handle: int = 0) -> _wasm.Output:
    query = instance.query_open(bytes([behaviour]))
    return instance.query_push(query, SourceKind.BATCH, handle)


def spin_until_cancelled(instance: Instance) -> None:
    with pytest.raises(Cancelled):
        push(instance, Behaviour.SPIN)


def run_script(script: str, cwd: Path | None = None, **environment: str) -> str:
    path = f"{HERE}{os.pathsep}{ROOT}"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        cwd=cwd,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# Calls


def test_a_query_is_four_crossings(instance: Instance) -> None:
    query = instance.query_open(bytes([Behaviour.ECHO]))
    output = instance.query_push(query, SourceKind.DESCRIPTOR, data=b"descriptor")
    assert instance.read(output.address, output.size) == b"descriptor"
    assert output.row_count == 1 and output.state == OutputState.NEED_INPUT
    assert instance.query_finish(query).state == OutputState.DONE
    instance.query_close(query)
    assert instance.crossings == 4


@pytest.mark.alone
def test_prepared_call_cost(instance: Instance) -> None:
    best = float("inf")
    for _ in range(30):
        start = time.perf_counter()
        for _ in range(500):
            instance.qm_query_close(1)
        best = min(best, (time.perf_counter() - start) / 500)
    print(f"a prepared call: {best * 1e6:.2f} µs (bar 3 µs)")
    checked = os.environ.get("QUERYMODE_CHECKED_CALLS") == "1"
    assert best < (400e-6 if checked else 20e-6)


def test_arguments_past_two_gigabytes_are_unsigned(instance: Instance) -> None:
    output = instance.query_push(Behaviour.ECHO, SourceKind.BATCH, 0, 0xFFFF_FFF0, 7)
    assert output.address == 0xFFFF_FFF0
    assert instance.qm_query_close(0xFFFF_FFFF) == 0


def test_large_inputs_get_a_larger_scratch_block(instance: Instance) -> None:
    data = os.urandom(300_000)
    assert instance.batch_open(data) == len(data)
    output = instance.query_push(Behaviour.ECHO, SourceKind.QMCB, data=data)
    assert instance.read(output.address, output.size) == data
    assert instance.text_open(1, 0, 0, b"options") == 1


def test_two_threads_in_one_instance_are_refused(instance: Instance) -> None:
    thread = threading.Thread(target=spin_until_cancelled, args=(instance,))
    thread.start()
    wait_until_inside(instance)
    with pytest.raises(InternalError, match="another thread is inside"):
        instance.query_close(1)
    instance.cancel()
    thread.join(10)
    assert not thread.is_alive()


def test_checked_calls() -> None:
    """The way without the unchecked C entry."""
    names = "test_checked_calls_work_the_same or test_trap or test_limit or test_arguments or four_crossings"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-k", names, str(HERE / "test_host.py")],
        env={**os.environ, "QUERYMODE_CHECKED_CALLS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.count(".") >= 7


def test_checked_calls_work_the_same(instance: Instance) -> None:
    wanted = os.environ.get("QUERYMODE_CHECKED_CALLS") == "1"
    assert (instance._unchecked_call is None) is wanted
    assert push(instance, Behaviour.ECHO).row_count == 1
    with Instance() as engine:
        address = engine.alloc(1000)
        engine.free(address, 1000)


# Errors


@pytest.mark.parametrize(
    "status", [status for status in Status if status not in (Status.OK, Status.CANCELLED)]
)
def test_status_becomes_an_error(instance: Instance, status: Status) -> None:
    with raises_code(_wasm._CODE_BY_STATUS[status]) as caught:
        push(instance, Behaviour.STATUS, status)
    assert (instance.error_column, instance.error_row) == (3, 5)
    assert instance.reusable is (caught.value.code not in ("INVALID_FORMAT", "INTERNAL"))
    if status != Status.MEMORY_EXCEEDED:
        assert caught.value.offset == 77
        assert DETAIL_TEXT in caught.value.message
    assert push(instance, Behaviour.ECHO).row_count == 1


def test_an_unknown_status_is_internal(instance: Instance) -> None:
    with pytest.raises(InternalError):
        push(instance, Behaviour.STATUS, 12345)


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        (Behaviour.PANIC, PANIC_TEXT.decode()),
        (Behaviour.RECURSE, "stack overflowed"),
        (Behaviour.OUT_OF_BOUNDS, "outside its memory"),
    ],
)
def test_trap(behaviour: Behaviour, words: str) -> None:
    own = InstancePool()
    instance = own.acquire(64 * MIB, program=stub_program())
    with pytest.raises(InternalError, match=words) as caught:
        push(instance, behaviour)
    assert "wasm" not in str(caught.value) and "0x" not in str(caught.value)
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    assert instance.broken and not instance.reusable
    base = instance.base
    own.release(instance)
    assert instance.closed and own.idle_count() == 0
    assert not is_mapped(base)  # though the error, with its traceback, is still at hand
    with own.acquire(64 * MIB, program=stub_program()) as following:
        assert push(following, Behaviour.ECHO).row_count == 1


def test_an_output_outside_memory_is_internal(instance: Instance) -> None:
    with pytest.raises(InternalError):
        instance.view(instance.memory_size - 10, 11)
    assert instance.broken
    for address, size in ((-1, 1), (0, -1), (1 << 40, 1)):
        with pytest.raises(InternalError):
            instance.view(address, size)


# Memory


def test_growth_does_not_move_memory(instance: Instance) -> None:
    address = instance.alloc(1000)
    view = instance.view(address, 1000)
    view[:5] = b"hello"
    base, size = instance.base, instance.memory_size
    push(instance, Behaviour.GROW, 500)
    assert instance.memory_size == size + 500 * 65536
    assert instance.base == base == foreign().pointer_value(instance._memory.data_ptr(instance._store))
    assert bytes(view[:5]) == b"hello"
    view[:5] = b"world"
    assert instance.read(address, 5) == b"world"
    assert instance.view(instance.memory_size - 65536, 1)[0] == 7


def test_limit(instance: Instance) -> None:
    with pytest.raises(MemoryExceededError, match="64 MiB"):
        instance.alloc(65 * MIB)
    with pytest.raises(MemoryExceededError, match="64 MiB"):
        push(instance, Behaviour.GROW, 2000)
    assert instance.memory_size <= 64 * MIB
    assert instance.reusable and push(instance, Behaviour.ECHO).row_count == 1
    instance.set_limit(80 * MIB)
    push(instance, Behaviour.GROW, 100)
    instance.set_limit(instance.memory_size)
    with pytest.raises(MemoryExceededError):
        push(instance, Behaviour.GROW, 1)
    with pytest.raises(MemoryExceededError, match="to begin with"):
        instance.set_limit(MIB)


def test_limit_below_what_an_instance_needs() -> None:
    with pytest.raises(MemoryExceededError, match="raise memory="):
        Instance(100_000, program=stub_program())


def test_write_and_read(instance: Instance) -> None:
    large = os.urandom(3 * MIB)
    address = instance.alloc(len(large))
    for data in (
        b"",
        b"abc",
        large,
        bytearray(large),
        memoryview(large)[1:],
        memoryview(b"ab" * 8).cast("H"),
        memoryview(large).cast("Q"),
    ):
        instance.write(address, data)
        expected = bytes(memoryview(data).cast("B"))
        assert instance.read(address, len(expected)) == expected
    instance.write(address, memoryview(b"abcdef")[::2])
    assert instance.read(address, 3) == b"ace"
    assert instance.address_of(address) == instance.base + address
    with pytest.raises(InternalError):
        instance.write(instance.memory_size - 1, large)


def test_a_file_is_read_straight_into_memory(instance: Instance, tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(os.urandom(MIB))
    address = instance.alloc(MIB)
    descriptor = os.open(path, os.O_RDONLY)
    assert os.preadv(descriptor, [instance.view(address, MIB)], 0) == MIB
    os.close(descriptor)
    assert instance.read(address, MIB) == path.read_bytes()


def test_a_view_outlives_its_instance() -> None:
    instance = Instance(64 * MIB, program=stub_program())
    address = instance.alloc(10 * MIB)
    instance.write(address, b"x" * 10 * MIB)
    view = instance.view(address + MIB, MIB)
    base = instance.base
    instance.close()
    gc.collect()
    assert bytes(view) == b"x" * MIB
    assert is_mapped(base)
    with pytest.raises(InternalError, match="closed"):
        instance.view(0, 1)
    for call in (
        instance.query_close,
        instance.query_finish,
        lambda query: instance.query_push(query, SourceKind.BATCH),
    ):
        with pytest.raises(InternalError, match="closed"):
            call(1)
    del view
    assert not is_mapped(base)
    instance.close()


def test_memory_stays_mapped_while_it_is_copied_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large copy does not hold the GIL, so that another thread may close the instance meanwhile."""
    instance = Instance(64 * MIB, program=stub_program())
    base = instance.base
    address = instance.alloc(MIB)
    mapped = []

    def copied(source: int, count: int) -> bytes:
        instance.close()
        mapped.append(is_mapped(base))
        return b""

    monkeypatch.setattr(foreign(), "copied", copied)
    instance.read(address, MIB)
    assert mapped == [True]
    assert not is_mapped(base)


def test_an_instance_that_nobody_closed_is_unmapped() -> None:
    instance = Instance(64 * MIB, program=stub_program())
    base = instance.base
    assert is_mapped(base)
    del instance
    gc.collect()
    assert not is_mapped(base)


def is_mapped(address: int) -> bool:
    if not os.path.exists("/proc/self/maps"):
        pytest.skip("needs /proc")
    with open("/proc/self/maps") as file:
        return any(line.startswith(f"{address:x}-") for line in file)


# Cancellation


def wait_until_inside(instance: Instance) -> None:
    deadline = time.monotonic() + 10
    while not (instance._gate.locked() and instance.crossings >= 2):
        assert time.monotonic() < deadline
        time.sleep(0.001)


def cancel_latency(instance: Instance, behaviour: Behaviour) -> float:
    ended: list[float] = []

    def work() -> None:
        with pytest.raises(Cancelled):
            push(instance, behaviour)
        ended.append(time.monotonic())

    thread = threading.Thread(target=work)
    thread.start()
    wait_until_inside(instance)
    time.sleep(0.01)
    start = time.monotonic()
    instance.cancel()
    thread.join(20)
    assert ended, "the call went on"
    return ended[0] - start


@pytest.mark.alone
def test_cancel_from_another_thread(instance: Instance) -> None:
    assert cancel_latency(instance, Behaviour.SPIN) < 0.2
    assert not instance.reusable and not instance.broken
    instance.clear_cancel()
    assert instance.reusable
    assert push(instance, Behaviour.ECHO).row_count == 1


def test_cancel_before_the_call(instance: Instance) -> None:
    instance.cancel()
    with pytest.raises(Cancelled):
        push(instance, Behaviour.SPIN)


@pytest.mark.alone
def test_hardened_stops_a_loop_that_does_not_look() -> None:
    with Instance(64 * MIB, program=stub_program(), hardened=True) as instance:
        bystander = Instance(64 * MIB, program=stub_program(), hardened=True)
        assert cancel_latency(instance, Behaviour.SPIN_BLIND) < 1.0
        assert instance.epoch_trapped and not instance.reusable
        assert push(bystander, Behaviour.ECHO).row_count == 1  # an epoch of its own
        bystander.close()


@pytest.mark.alone
def test_hardened_leaves_a_loop_that_looks_to_its_cancel_byte() -> None:
    with Instance(64 * MIB, program=stub_program(), hardened=True) as instance:
        assert cancel_latency(instance, Behaviour.SPIN) < 0.2
        time.sleep(3 * _wasm.EPOCH_GRACE_SECONDS)
        assert not instance.epoch_trapped
        instance.clear_cancel()
        assert push(instance, Behaviour.ECHO).row_count == 1


def test_hardened_by_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUERYMODE_HARDENED", "1")
    own = InstancePool()
    with own.acquire(64 * MIB, program=stub_program()) as instance:
        assert instance.hardened and instance._epochs


def test_cancel_races_with_close() -> None:
    for _ in range(60):
        instance = Instance(64 * MIB, program=stub_program())
        start = threading.Barrier(3)

        def cancel(instance: Instance = instance, start: threading.Barrier = start) -> None:
            start.wait()
            for _ in range(200):
                instance.cancel()

        threads = [threading.Thread(target=cancel) for _ in range(2)]
        for thread in threads:
            thread.start()
        start.wait()
        instance.close()
        for thread in threads:
            thread.join()
        instance.cancel()
        instance.clear_cancel()


def test_close_during_a_call_waits_for_it() -> None:
    instance = Instance(64 * MIB, program=stub_program())
    base, byte = instance.base, instance._cancel_byte
    thread = threading.Thread(target=spin_until_cancelled, args=(instance,))
    thread.start()
    wait_until_inside(instance)
    instance.close()
    assert thread.is_alive() and is_mapped(base)
    byte.value = 1  # type: ignore[union-attr]
    thread.join(10)
    assert not thread.is_alive()


# The pool


def test_pool_keeps_instances_warm() -> None:
    own = InstancePool()
    first = own.acquire(64 * MIB, program=stub_program())
    push(first, Behaviour.GROW, 300)
    first.resident["table"] = 1
    own.release(first)
    assert own.idle_size() == first.memory_size
    small = own.acquire(8 * MIB, program=stub_program())
    assert small is not first and small.limit == 8 * MIB
    again = own.acquire(32 * MIB, program=stub_program())
    assert again is first and again.limit == 32 * MIB and again.resident == {"table": 1}
    other = own.acquire(32 * MIB, program=Program(stub_wasm()))
    hardened = own.acquire(32 * MIB, program=stub_program(), hardened=True)
    assert len({first, small, other, hardened}) == 4
    for used in (first, small, other, hardened):
        own.release(used)
    assert own.idle_count() == 4
    assert own.trim(own.idle_size() - 1) == 1
    assert own.close_idle() == 3
    assert first.closed and small.closed and first.resident == {}


def test_pool_prefers() -> None:
    own = InstancePool()
    made = [own.acquire(64 * MIB, program=stub_program()) for _ in range(3)]
    for number, instance in enumerate(made):
        instance.resident["score"] = [1, 5, 5][number]
        own.release(instance)
    assert own.acquire(64 * MIB, program=stub_program(), prefer=lambda i: int(i.resident["score"])) is made[2]
    assert (
        own.acquire(64 * MIB, program=stub_program(), prefer=lambda i: -int(i.resident["score"])) is made[0]
    )
    own.close_idle()


def test_pool_closes_what_something_happened_to() -> None:
    own = InstancePool()
    for mark in ("broken", "tainted", "cancelled", "epoch_trapped"):
        instance = own.acquire(64 * MIB, program=stub_program())
        setattr(instance, mark, True)
        own.release(instance)
        assert instance.closed and own.idle_count() == 0
    instance = own.acquire(64 * MIB, program=stub_program())
    own.discard(instance)
    assert instance.closed


def test_pool_gives_memory_back_after_a_while() -> None:
    own = InstancePool(idle_seconds=0.05)
    for _ in range(2):
        instance = own.acquire(64 * MIB, program=stub_program())
        base = instance.base
        own.release(instance)
        deadline = time.monotonic() + 10
        while not instance.closed or own._closer is not None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert own.idle_count() == 0
        assert not is_mapped(base)


def test_pool_under_many_threads() -> None:
    own = InstancePool()
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for turn in range(30):
                instance = own.acquire((16 + seed) * MIB, program=stub_program())
                data = bytes([seed]) * 1000
                output = instance.query_push(Behaviour.ECHO, SourceKind.QMCB, data=data)
                assert instance.read(output.address, output.size) == data
                if turn % 10 == seed % 10:
                    with pytest.raises(InternalError):
                        push(instance, Behaviour.PANIC)
                own.release(instance)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert own.idle_count() <= 16
    own.close_idle()


def test_the_pool_of_the_process() -> None:
    assert pool() is pool()


# Processes


def test_nothing_heavy_at_import() -> None:
    heavy = "print('wasmtime' in sys.modules, 'ctypes' in sys.modules)"
    script = f"import sys, querymode.engine.instance; {heavy}"
    assert run_script(script).split() == ["False", "False"]


def test_from_a_zip(tmp_path: Path) -> None:
    archive = tmp_path / "package.zip"
    with zipfile.ZipFile(archive, "w") as target:
        for path in (ROOT / "querymode").rglob("*"):
            if path.suffix in (".py", ".wasm"):
                target.write(path, path.relative_to(ROOT))
    script = (
        "from querymode.engine import instance as _wasm\n"
        "with _wasm.Instance() as instance: assert instance.alloc(10)\n"
        "print(_wasm.__file__, instance.program.sha256)"
    )
    where, sha256 = run_script(script, tmp_path, PYTHONPATH=str(archive)).split()
    assert where.startswith(str(archive))
    assert sha256 == engine_sha256()


def test_exit_with_a_thread_inside_a_call() -> None:
    script = """
import threading, time
from tests.abi.stub import Behaviour, stub_program
from querymode.engine.instance import Instance
instance = Instance(1 << 26, program=stub_program())
threading.Thread(target=instance.query_push, args=(Behaviour.SPIN_BLIND, 0), daemon=True).start()
while not instance._gate.locked(): time.sleep(0.001)
print("leaving")
"""
    start = time.monotonic()
    assert run_script(script) == "leaving\n"
    assert time.monotonic() - start < 20


# A prefetching read lands in memory that grows meanwhile, under a limit on address space.
_NARROW = """
import json, os, resource, threading
size = int(float(os.environ["TEST_GIGABYTES"]) * 1e9)
resource.setrlimit(resource.RLIMIT_AS, (size, size))
import tempfile
from tests.abi.stub import Behaviour, stub_program
from querymode.engine.instance import Cancelled, Instance
from querymode.errors import MemoryExceededError
BLOCK = 4 << 20
with tempfile.TemporaryFile() as file:
    data = os.urandom(BLOCK)
    file.write(data); file.flush()
    report = []
    instances = [Instance(256 << 20, program=stub_program()) for _ in range(2)]
    for instance in instances:
        address = instance.alloc(BLOCK)
        if not instance.movable:
            base = instance.base
            view = instance.view(address, BLOCK)
            done = []
            def prefetch():
                for _ in range(30):
                    assert os.preadv(file.fileno(), [view], 0) == BLOCK
                done.append(1)
            reader = threading.Thread(target=prefetch)
            reader.start()
        else:
            instance.write(address, data)
        outcome = "grew"
        try:
            for _ in range(60):
                instance.query_push(Behaviour.GROW, 0, 16)
        except MemoryExceededError:
            outcome = "refused"
        if not instance.movable:
            reader.join()
            assert done and instance.base == base
        assert instance.read(address, BLOCK) == data
        output = instance.query_push(Behaviour.FILL, 0, 0, address, BLOCK)
        assert output.row_count == sum(data)
        instance.cancel()
        try:
            instance.query_push(Behaviour.SPIN, 0)
            outcome = "went on"
        except Cancelled:
            pass
        report.append([instance.reservation, outcome, instance.memory_size])
        view = None
print(json.dumps(report))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS counts reservations only on Linux")
@pytest.mark.parametrize("gigabytes", [3.0, 1.5])
def test_small_address_space(gigabytes: float) -> None:
    report = json.loads(run_script(_NARROW, TEST_GIGABYTES=str(gigabytes)))
    for reservation, outcome, size in report:
        print(f"RLIMIT_AS {gigabytes} GB: reserved {reservation >> 20} MiB, grew to {size >> 20} MiB")
        assert 128 * MIB <= reservation < FULL_RESERVATION
        assert outcome == "grew" or size > reservation // 2


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS counts reservations only on Linux")
def test_no_address_space_to_reserve() -> None:
    """Even then it works, in memory that moves; cancellation takes the epoch."""
    script = (
        "import querymode.engine.address_space as w\n"
        "w._address_space_free = lambda size: size <= w._ADDRESS_SPACE_MIN\n" + _NARROW
    )
    report = json.loads(run_script(script, TEST_GIGABYTES="1.5"))
    assert [row[:2] for row in report] == [[MOVABLE, "grew"]] * 2


def test_narrow_instances_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = [128 * MIB]
    monkeypatch.setattr(_wasm, "reservations", lambda limit: iter(narrow))
    own = InstancePool()
    instance = own.acquire(64 * MIB, program=stub_program())
    assert instance.reservation == 128 * MIB and instance.limit == 64 * MIB
    own.release(instance)
    narrow[:] = [256 * MIB]
    wide = own.acquire(1024 * MIB, program=stub_program())
    assert instance.closed and wide.limit == wide.reservation == 256 * MIB
    with pytest.raises(MemoryExceededError, match="address space"):
        wide.alloc(300 * MIB)
    own.discard(wide)
