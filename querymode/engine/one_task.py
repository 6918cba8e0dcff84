"""One task on one engine instance, off the calling thread: batch functions, text that becomes a table."""

from __future__ import annotations

import threading

from querymode._abi import FileFormat, OutputState
from querymode._call import Resumed, claim, current, query_timeout
from querymode.engine import threads
from querymode.engine.pool import pool
from querymode.errors import error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeVar

    from querymode._call import Call
    from querymode.engine.instance import Instance, Output
    from querymode.store.fetch import IoGate

    T = TypeVar("T")

#: Where no session's budget applies.
DEFAULT_LIMIT = 2 << 30
#: An instance takes about 2 MiB before it has seen a byte.
INSTANCE_SIZE_MIN = 8 << 20


def on_instance(task: Callable[[Instance], T], limit: int | None = None, *, gate: IoGate | None = None) -> T:
    """Runs `task` with an instance of the pool; Ctrl-C and the deadline of this thread's call stop it.

    `limit`: bytes of memory for the engine; what the call has left of its memory if not given. `gate`: of the
    task's own, through which it reads; stopped with it.
    """
    call = current()
    if limit is None:
        limit = engine_share(call)
    done = threading.Event()
    results: list[T] = []
    failures: list[BaseException] = []
    #: The instance while this task has it. Whoever cancels it holds the lock: a moment later it may be
    #: somebody else's.
    instances: list[Instance] = []
    lock = threading.Lock()
    abandoned = threading.Event()

    def work() -> None:
        try:
            instances.append(pool().acquire(limit))
            if not abandoned.is_set():
                with Resumed(call):
                    results.append(task(instances[0]))
        except BaseException as failure:  # handed to the asking thread, whatever it is
            failures.append(failure)
        finally:
            try:
                with lock:
                    own = list(instances)
                    instances.clear()
                    clean = bool(results) and not abandoned.is_set()
                for instance in own:
                    pool().give_back(instance, clean=clean)
            except BaseException as failure:  # or the asking thread would wait for ever
                failures.append(failure)
            finally:
                done.set()

    try:
        threads.start(work)
        if not done.wait(None if call is None else call.seconds_left()):
            raise query_timeout()
    except BaseException:
        with lock:
            abandoned.set()
            for instance in instances:
                instance.cancel()
            runs = bool(instances)  # not while the engine is still being compiled
        if gate is not None:
            gate.cancel()
        if runs:
            done.wait(threads.CANCEL_SECONDS)
        raise
    if failures:
        raise failures[0].with_traceback(None)
    return results[0]


def engine_share(call: Call | None) -> int:
    """What the engine may hold for a call: its memory less what this process holds for it."""
    if call is None or call.memory is None:
        return DEFAULT_LIMIT
    return max(INSTANCE_SIZE_MIN, call.memory - call.claimed)


def hold_to_share(instance: Instance) -> None:
    """After this process has claimed more: the instance may grow by as much less."""
    share = engine_share(current())
    if instance.memory_size > share:
        raise error("MEMORY_EXCEEDED", "this needs more memory than memory= leaves for it; raise it")
    instance.set_limit(share)


def outputs(instance: Instance, query: int, output: Output) -> Iterator[bytes]:
    """Copies of what a call left and of what waits behind it."""
    while True:
        if output.address:
            yield instance.read(output.address, output.size)
        if output.state != OutputState.MORE_OUTPUT:
            return
        output = instance.query_next(query)


def parse_text(format: int, text: bytes, options: bytes) -> list[bytes]:
    """Text → QMCB batches. The first carries the schema even when there are no rows."""

    def task(instance: Instance) -> list[bytes]:
        address = instance.alloc(len(text))
        instance.write(address, text)
        query = instance.text_open(format, address, len(text), options)
        batches = []
        for batch in outputs(instance, query, instance.query_next(query)):
            claim(len(batch), "the table of this text")
            hold_to_share(instance)
            batches.append(batch)
        instance.query_close(query)
        instance.free(address, len(text))
        return batches

    return on_instance(task)


def flat_footer(raw: bytes, file_size: int) -> bytes:
    """A Parquet footer, as a file has it, to the form that the engine and the caches work with."""

    def task(instance: Instance) -> bytes:
        address = instance.alloc(len(raw))
        instance.write(address, raw)
        output = instance.footer(FileFormat.PARQUET, address, len(raw), file_size)
        blob = instance.read(output.address, output.size)
        instance.free(address, len(raw))
        return blob

    return on_instance(task)
