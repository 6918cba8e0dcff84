"""A limited address space (`ulimit -v`): right answers or a clean error; and reads into memory that grows."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from querymode import QueryMode
from querymode.table.demo import QUERIES, orders
from tests.limits.child import run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS")

LIMITS = [1_500_000_000, 3_000_000_000, None]
ROWS = 50_000

LIMITED = """
import json, os, resource, sys, threading
LIMIT = None
if LIMIT is not None: resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
from querymode.errors import QueryModeError
"""


def limited(script: str, limit: int | None) -> Any:
    # Arrow's usual allocator takes a gigabyte of address space for itself, and BLAS some for its threads.
    script = LIMITED.replace("LIMIT = None", f"LIMIT = {limit}") + script
    return run(script, ARROW_DEFAULT_MEMORY_POOL="system", OPENBLAS_NUM_THREADS="1")


def answers(threads: int = 2) -> list[Any]:
    """Rows of the demo's queries; an error is its code."""
    from querymode.errors import QueryModeError

    frame = QueryMode.local(threads=threads).register("orders", orders(ROWS))
    found: list[Any] = []
    for _, query in QUERIES:
        try:
            found.append(json.loads(json.dumps(query(frame).collect().rows, default=str)))
        except QueryModeError as failure:
            found.append(failure.code)
    return found


@pytest.mark.parametrize("limit", LIMITS[:2])
def test_demo_queries(limit: int) -> None:
    script = """
from tests.limits.test_address_space import answers
print(json.dumps([answers(), answers(threads=8)]))
"""
    expected = answers()
    for found in limited(script, limit):
        codes = [answer for answer in found if isinstance(answer, str)]
        print(f"limit {limit}: {len(codes)} of {len(found)} queries failed: {codes}")
        for answer, right in zip(found, expected, strict=True):
            assert answer == right or answer == "MEMORY_EXCEEDED"
        assert codes == []


@pytest.mark.parametrize("limit", LIMITS[:2])
def test_many_threads(limit: int) -> None:
    """More instances than address space: those that start are right, others say why they did not."""
    script = """
from querymode import QueryMode, col
from querymode.table.demo import orders
session = QueryMode.local(threads=2)
frame = session.register("orders", orders(20_000))
expected = frame.agg(col("quantity").sum().alias("s")).rows
outcomes = []
def work():
    for _ in range(3):
        try:
            rows = frame.agg(col("quantity").sum().alias("s")).rows
            outcomes.append("right" if rows == expected else "wrong")
        except QueryModeError as failure:
            outcomes.append(failure.code)
        except RuntimeError as failure:
            outcomes.append(str(failure))
workers = []
for _ in range(12):
    workers.append(threading.Thread(target=work))
    try:
        workers[-1].start()
    except RuntimeError:  # no address space for its stack
        workers.pop()
for worker in workers: worker.join()
again = frame.agg(col("quantity").sum().alias("s")).rows == expected
print(json.dumps([sorted(set(outcomes)), outcomes.count("right"), again]))
"""
    kinds, right, again = limited(script, limit)
    print(f"limit {limit}: {right} right, {kinds}")
    assert set(kinds) <= {"right", "MEMORY_EXCEEDED"}
    assert right > 0
    assert again


@pytest.mark.parametrize("limit", LIMITS)
def test_reads_into_memory_that_grows(limit: int | None) -> None:
    """A prefetch fills a block from another thread while the engine's memory grows under it."""
    script = """
import hashlib, tempfile
from querymode.engine import instance as _wasm
from querymode._abi import SourceKind
from querymode.expr.nodes import col
MIB = 1 << 20
SIZE = 24 * MIB
data = os.urandom(SIZE)
file = tempfile.TemporaryFile()
file.write(data); file.flush()
try:
    instance = _wasm.Instance(400 * MIB)
except QueryModeError as failure:
    print(json.dumps(["refused", failure.code])); sys.exit()
address = instance.alloc(SIZE)
before = instance.memory_size
view = None if instance.movable else instance.view(address, SIZE)
def prefetch():
    for place in range(0, SIZE, 64 * 1024):
        assert os.preadv(file.fileno(), [view[place : place + 64 * 1024]], place) == 64 * 1024
reader = threading.Thread(target=prefetch)
if view is not None: reader.start()
blocks, code = [], None
try:
    while len(blocks) < 40:
        blocks.append(instance.alloc(7 * MIB))
        instance.view(blocks[-1], 8)[:] = b"touched!"
except QueryModeError as failure:
    code = failure.code
if view is not None:
    reader.join()
    read = bytes(view)
else:
    instance.write(address, data)
    read = instance.read(address, SIZE)
grown = instance.memory_size - before
kept = all(instance.read(block, 8) == b"touched!" for block in blocks)
print(json.dumps(["movable" if instance.movable else "fixed", code, grown // MIB, read == data, kept]))
"""
    found = limited(script, limit)
    print(f"limit {limit}: {found}")
    if found[0] == "refused":
        assert found[1] == "MEMORY_EXCEEDED"
        return
    _, code, grown, right, kept = found
    assert code in (None, "MEMORY_EXCEEDED")
    assert right and kept
    assert grown > 30


@pytest.mark.parametrize("limit", LIMITS[:2])
def test_queries_on_the_same_instance_while_it_is_read_into(limit: int) -> None:
    """The engine runs and grows, it does not only allocate."""
    script = """
import tempfile
from querymode import QueryMode
from querymode.engine import instance as _wasm
from querymode._abi import SourceKind
from tests.corrupt.samples import plan_bytes
from querymode.types import INT64, parse_type
MIB = 1 << 20
SIZE = 8 * MIB
data = os.urandom(SIZE)
file = tempfile.TemporaryFile(); file.write(data); file.flush()
with _wasm.Instance(300 * MIB) as instance:
    if instance.movable:
        print(json.dumps(True)); sys.exit()
    address = instance.alloc(SIZE)
    view = instance.view(address, SIZE)
    stop = threading.Event()
    rounds = []
    def prefetch():
        while not stop.is_set() or not rounds:
            for place in range(0, SIZE, MIB):
                os.preadv(file.fileno(), [view[place : place + MIB]], place)
            rounds.append(bytes(view) == data)
    reader = threading.Thread(target=prefetch); reader.start()
    import pyarrow as pa
    batch = QueryMode.from_arrow(pa.table({"i": pa.array(range(400_000))})).collect().to_qmcb()
    sort = b"\\4\\1\\0\\1\\0\\1\\0\\0" + b"\\xff" * 8
    query = instance.query_open(plan_bytes([("i", INT64)], [sort]))
    rows = 0
    for part in batch * 4:
        place = instance.alloc(len(part)); instance.write(place, part)
        instance.query_push(query, SourceKind.QMCB, address=place, size=len(part))
        instance.free(place, len(part))
    output = instance.query_finish(query)
    rows += output.row_count
    while output.state == 1:
        output = instance.query_next(query); rows += output.row_count
    stop.set(); reader.join()
    print(json.dumps(rows == 1_600_000 and all(rounds)))
"""
    assert limited(script, limit) is True
