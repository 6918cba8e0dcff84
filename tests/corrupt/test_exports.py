"""Bytes that are not what they claim to be: every door answers with a Status, on both builds.

The fuzzer itself is doors.py; it runs in processes of its own, so that a hang is a failed test and not
a hung one. A failing input is kept under tmp_path; its name and number are printed and
`python -m tests.corrupt.doors --wasm FILE --replay NAME:NUMBER` runs it again.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from querymode import QueryMode, _abi, col, lit
from querymode._abi import ExpressionTag, NodeTag, SourceKind, Status, TypeTag
from querymode.engine.instance import Instance
from querymode.engine.program import Program
from querymode.errors import InternalError, QueryModeError
from querymode.frame.frame import DataFrame
from querymode.types import parse_type
from tests.corrupt import doors, samples
from tests.corrupt.mutate import mutate
from tests.raises import raises_code

ROOT = Path(__file__).resolve().parent.parent.parent
FAST_WASM = ROOT / "querymode" / "querymode.wasm"
MIB = 1 << 20
#: The last chunk of so many rows ends just below 2^32.
NULL_ROWS = 0xFFFF_FFD4


def start(wasm: Path, failures: Path, *arguments: str) -> subprocess.Popen[str]:
    failures.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tests.corrupt.doors", "--wasm", str(wasm), "--failures", str(failures)]
    return subprocess.Popen(
        [*command, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str], timeout: float) -> dict[str, Any]:
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        process.kill()
    assert out, f"exit code {process.returncode}\n{err}"
    summary: dict[str, Any] = json.loads(out.splitlines()[-1])
    rate = summary["count"] / max(summary["seconds"], 0.001)
    print(f"{summary['count']:,} inputs in {summary['seconds']} s ({rate:,.0f}/s); {summary['counts']}")
    assert summary["failed"] == [], "replay with tests.corrupt.doors"
    assert process.returncode == 0, err
    return summary


def test_ten_thousand_inputs(safe_wasm: Path, tmp_path: Path) -> None:
    """Both builds at once, and the epochs that would stop a loop without a look at its cancel byte."""
    running = [
        start(FAST_WASM, tmp_path / "fast", "--count", "10000"),
        start(safe_wasm, tmp_path / "safe", "--count", "10000", "--seed", "10000"),
        start(FAST_WASM, tmp_path / "hardened", "--count", "1000", "--seed", "20000", "--hardened"),
    ]
    counts = [finish(process, 120)["count"] for process in running]
    assert counts == [10_000, 10_000, 1_000]


@pytest.mark.soak
def test_a_million_inputs(safe_wasm: Path, tmp_path: Path) -> None:
    for wasm, name in ((safe_wasm, "safe"), (FAST_WASM, "fast")):
        running = [
            start(wasm, tmp_path / name, "--count", "500000", "--seed", str(part * 1_000_000_000))
            for part in (1, 2)
        ]
        for process in running:
            finish(process, 3600)


@pytest.fixture(scope="module")
def all_samples() -> samples.Samples:
    return samples.build()


@pytest.fixture(scope="module", params=["fast", "safe"])
def program(request: pytest.FixtureRequest, safe_wasm: Path) -> Program:
    return Program.from_file(FAST_WASM if request.param == "fast" else safe_wasm)


@pytest.fixture
def instance(program: Program) -> Iterator[Instance]:
    with Instance(256 * MIB, program=program) as made:
        yield made
        assert not made.broken


def test_samples_are_valid(program: Program, all_samples: samples.Samples) -> None:
    """What the fuzzer starts from gets past the first check, or it would test only that."""
    bench = doors.Bench(program, all_samples, False)
    allowed = (Status.OK, Status.NOT_SUPPORTED, Status.OUT_OF_RANGE)
    answered = 0
    for sample in all_samples.plans:
        query = bench.open_query(sample.plan)
        assert query is not None
        status = bench.push_bytes(query, SourceKind.QMCB, sample.batch)
        assert status in allowed
        answered += status == Status.OK
        bench.finish(query)
    assert answered > 0.6 * len(all_samples.plans)
    for place, batch in enumerate(all_samples.batches):
        query = bench.open_query(batch.plan)
        assert query is not None
        descriptors = batch.layout.descriptors(bench.bases[place])
        assert bench.push_bytes(query, SourceKind.DESCRIPTOR, descriptors) == Status.OK
        assert bench.push_bytes(query, SourceKind.QMCB, batch.batch) == Status.OK
        assert bench.finish(query) == Status.OK
    bench.instance.close()


def test_inputs_leave_no_memory_behind(program: Program, all_samples: samples.Samples) -> None:
    """The same inputs again need no more memory than the first time."""
    bench = doors.Bench(program, all_samples, False)
    sizes = []
    for _ in range(4):
        for number in range(300):
            for door in ("qmcb", "plan", "grown", "joined", "text", "descriptor", "handles"):
                doors.DOORS[door][0](bench, Random(number))
        sizes.append(bench.instance.memory_size)
    assert sizes[-1] == sizes[1], sizes
    bench.instance.close()


def test_mutations_can_be_had_again(all_samples: samples.Samples) -> None:
    for number in range(200):
        first, second = (
            mutate(all_samples.plan_bytes[3], all_samples.plan_bytes, Random(number)) for _ in range(2)
        )
        assert first == second


def test_the_fuzzer_notices(safe_wasm: Path, tmp_path: Path, all_samples: samples.Samples) -> None:
    """A trap and a wrong answer end up as files that say how to have them again."""
    fuzzer = doors.Fuzzer(safe_wasm, False, tmp_path)

    def trap(bench: doors.Bench, _: Random) -> int:
        bench.lay("plan", b"seen")
        raise QueryModeError("INTERNAL", "the engine stopped")

    doors.DOORS["trap"] = (trap, 0)
    try:
        fuzzer.run_one("trap", 7)
    finally:
        del doors.DOORS["trap"]
    assert fuzzer.failed == ["trap:7 QueryModeError: INTERNAL: the engine stopped"]
    assert json.loads((tmp_path / "trap-7.json").read_text())["plan"] == b"seen".hex()


# ---- what it found ----


def test_a_text_becomes_no_null_type() -> None:
    frame = QueryMode.from_arrow(pa.table({"t": ["a"]}))
    with raises_code("NOT_SUPPORTED"):
        frame.select(col("t").cast("null").alias("x")).collect()


def open_and_push(instance: Instance, plan: bytes, batch: bytes) -> None:
    """Any QueryModeError is an answer; the fixture looks for traps."""
    try:
        query = instance.query_open(plan)
        instance.query_push(query, SourceKind.QMCB, data=batch)
        instance.query_finish(query)
        instance.query_close(query)
    except QueryModeError:
        pass


def one_column(name: str, kind: str, *steps: bytes) -> bytes:
    return samples.plan_bytes([(name, parse_type(kind))], list(steps))


def qmcb_nulls(rows: int) -> bytes:
    return struct.pack("<IIHH1sBB", _abi.QMCB_MAGIC, rows, 1, 1, b"n", TypeTag.NULL, 0)


@pytest.mark.parametrize("size", [262_144, 262_145, 300_000])
def test_a_long_literal_over_many_rows(size: int) -> None:
    """A chunk of copies needs more than 32 bits of bytes: an error, not a wrapped size."""
    frame = QueryMode.from_arrow(pa.table({"i": pa.nulls(16_384, pa.int8())}))
    with pytest.raises(QueryModeError) as caught:
        frame.select("i", lit("x" * size).alias("x")).collect()
    assert caught.value.code in ("MEMORY_EXCEEDED", "QUERY_FAILED")


def test_a_wide_null_literal(instance: Instance) -> None:
    """Four billion bytes a value, claimed in six bytes of plan."""
    for width in (1000, 0x4_0001, 0x8000_0000, 0xFFFF_FFFF):
        value = bytes((TypeTag.FIXED_BINARY,)) + width.to_bytes(4, "little") + b"\1"
        item = b"\1\0x" + bytes((ExpressionTag.LITERAL,)) + value
        plan = one_column("n", "null", bytes((NodeTag.PROJECT, 1, 0)) + item)
        open_and_push(instance, plan, qmcb_nulls(16_384))


def test_a_merge_from_a_wide_null_on(instance: Instance) -> None:
    """The bound is ordered among the keys, which looks at all bytes of it."""
    kind = bytes((TypeTag.FIXED_BINARY,)) + (1000).to_bytes(4, "little")
    key = bytes((0, 0, ExpressionTag.COLUMN, 0, 0))
    merge = bytes((NodeTag.MERGE, 1, 1, 0)) + key + b"\xff" * 8 + kind + b"\1"
    column = pa.array([bytes(1000), b"x" * 1000, None], pa.binary(1000))
    batch = QueryMode.from_arrow(pa.table({"b": column})).collect().to_qmcb()
    open_and_push(instance, one_column("b", "fixed_binary(1000)", merge), batch[0])


def test_a_bool_column_without_values(instance: Instance) -> None:
    descriptor = bytearray(16 + _abi.COLUMN_DESCRIPTOR_SIZE)
    struct.pack_into("<III", descriptor, 0, 20, 1, 1)
    descriptor[16] = TypeTag.BOOL
    struct.pack_into("<I", descriptor, 16 + _abi.COLUMN_DESCRIPTOR_OFFSETS["row_count"], 20)
    with raises_code("INVALID_FORMAT"):
        instance.batch_open(bytes(descriptor))


def test_nearly_four_billion_rows_without_bytes(instance: Instance) -> None:
    """They are honest: the last chunk ends just below 2^32 and must be the last."""
    query = instance.query_open(
        one_column("n", "null", bytes((NodeTag.LIMIT,)) + struct.pack("<QQ", 1 << 40, 1))
    )
    timer = threading.Timer(10 * doors.HANG_SECONDS, instance.cancel)  # it takes a second or two by itself
    timer.start()
    try:
        instance.query_push(query, SourceKind.QMCB, data=qmcb_nulls(NULL_ROWS))
    finally:
        timer.cancel()
    assert instance.query_finish(query).row_count == 0


@pytest.mark.parametrize("limit", [0, 0x3FFF_FFFE, 0x3FFF_FFFD, 0xFFFF_FFFF])
def test_sort_with_an_odd_limit(instance: Instance, limit: int) -> None:
    """Enough rows that a small limit is applied on the way."""
    key = bytes((0, 0, ExpressionTag.COLUMN, 0, 0))
    sort = bytes((NodeTag.SORT, 1, 0)) + key + limit.to_bytes(8, "little")
    table = pa.table({"i": pa.array(range(100_000, 0, -1), pa.int32())})
    batch = QueryMode.from_arrow(table).collect().to_qmcb()
    query = instance.query_open(one_column("i", "int32", sort))
    for part in batch:
        address = instance.alloc(len(part))
        instance.write(address, part)
        instance.query_push(query, SourceKind.QMCB, address=address, size=len(part))
    output = instance.query_finish(query)
    assert (output.row_count > 0) == (limit > 0)


def test_what_did_not_open_is_not_there(instance: Instance) -> None:
    """The handle could not be written: the query behind it is gone, and so is its slot."""
    plan = one_column("n", "null", bytes((NodeTag.GATHER,)))
    address = instance.stage(plan)
    assert instance.qm_query_open(address, len(plan), 0) == Status.INVALID_HANDLE
    header = struct.pack("<IIII", 0, 0, 0, 0)
    address = instance.stage(header)
    assert instance.qm_batch_open(address, len(header), 0) == Status.INVALID_HANDLE
    assert instance.qm_text_open(0, address, 0, 0, 0, 0) == Status.INVALID_HANDLE
    out = instance.alloc(64)
    for slot in range(4):
        for generation in range(4):
            handle = generation << 24 | slot
            assert instance.qm_query_finish(handle, out) == Status.INVALID_HANDLE
            assert instance.qm_query_close(handle) == Status.INVALID_HANDLE
            assert instance.qm_batch_close(handle) == Status.INVALID_HANDLE


def test_a_text_literal_is_utf8(instance: Instance) -> None:
    value = bytes((ExpressionTag.LITERAL, TypeTag.UTF8, 0)) + b"\x02\0\0\0\xff\xfe"
    plan = one_column("n", "null", bytes((NodeTag.PROJECT, 1, 0)) + b"\1\0x" + value)
    with raises_code("INTERNAL"):
        instance.query_open(plan)


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
def test_text_that_is_not_unicode_is_refused(text: str) -> None:
    """By the planner, with an error that blames the caller's text."""
    frame = QueryMode.from_arrow(pa.table({"t": ["a"]}))
    builds: list[Callable[[], DataFrame]] = [
        lambda: frame.select(col("t").alias(text)),
        lambda: frame.select(lit(text).alias("x")),
        lambda: frame.filter(col("t") == text),
        lambda: frame.filter(col("t").like(text + "%")),
    ]
    for build in builds:
        with pytest.raises(QueryModeError) as caught:
            _ = build().collect().rows
        assert caught.value.code not in ("INTERNAL", "INVALID_FORMAT")


def test_states_of_a_final_aggregate_may_lie(instance: Instance) -> None:
    """Counts that came back as QMCB add up to more than an int64."""
    step = (
        bytes((NodeTag.AGGREGATE, 2, 0, 0, 1, 0, _abi.AggregateOp.COUNT, 1, 0))
        + b"c\1"
        + bytes((ExpressionTag.COLUMN, 0, 0))
    )
    plan = one_column("c", "int64", step)
    batch = (
        struct.pack("<IIHH1sBB", _abi.QMCB_MAGIC, 2, 1, 1, b"c", TypeTag.I64, 0)
        + b"\xff" * 7
        + b"\x7f"
        + b"\1"
        + bytes(7)
    )
    open_and_push(instance, plan, batch)
    average = (
        bytes((NodeTag.AGGREGATE, 2, 0, 0, 1, 0, _abi.AggregateOp.AVG, 1, 0))
        + b"c\1"
        + bytes((ExpressionTag.COLUMN, 0, 0))
    )
    plan = samples.plan_bytes([("s", parse_type("int128")), ("n", parse_type("int64"))], [average])
    head = struct.pack("<IIH", _abi.QMCB_MAGIC, 2, 2) + b"\1\0s\x0f\0\1\0n\x01\0"
    open_and_push(instance, plan, head + b"\1" * 32 + (b"\xff" * 7 + b"\x7f") * 2)


def test_a_broken_instance_is_told_from_a_refusal() -> None:
    """The fixture above relies on it."""
    with Instance(64 * MIB) as made:
        with pytest.raises(InternalError):
            made.query_open(b"no plan")
        assert not made.broken
