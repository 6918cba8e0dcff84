"""Throws mutated bytes at every door of the engine that takes some, and watches.

    python -m tests.corrupt.doors --wasm FILE --count N --seed S --failures DIRECTORY [--hardened]
    python -m tests.corrupt.doors --wasm FILE --replay DOOR:SEED

An input is made from a door's name and a number alone, so a failure can be had again with `--replay`.
Any Status is an answer. A trap, a call that has not come back after five seconds, an answer outside of
memory, and an answer that is not QMCB are failures; each is written to a file. One instance serves many
inputs, so that what one of them leaves behind can hurt the next.
"""

from __future__ import annotations

import argparse
import json
import os
import struct
import sys
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

from querymode import _abi
from querymode._abi import LISTED, OutputState, SourceKind, Status
from querymode.engine.instance import Cancelled, Instance
from querymode.engine.program import Program
from querymode.errors import QueryModeError
from querymode.qmcb import decode_columnar_batch
from tests.corrupt.grow import Grower
from tests.corrupt.mutate import MUTATIONS, mutate
from tests.corrupt.samples import Samples, build

MEMORY_LIMIT = 256 << 20
HANG_SECONDS = 5.0
#: How many inputs one instance serves.
INSTANCE_INPUTS = 400
#: Every so many accepted answers one is read by the other decoder too.
CHECKED_ANSWERS = 4
#: Answers that a mutation made long are only looked at from outside.
CHECKED_SIZE_MAX = 1 << 20

_SOURCE = struct.Struct(_abi.SOURCE_FORMAT)
_OUTPUT = struct.Struct(_abi.OUTPUT_FORMAT)
_PART = struct.Struct(_abi.PART_FORMAT)
_HEADER = struct.Struct(_abi.BATCH_HEADER_FORMAT)
_DESCRIPTOR = struct.Struct(_abi.COLUMN_DESCRIPTOR_FORMAT)
_KNOWN_STATUS = frozenset(map(int, Status))
_EDGES = (0, 1, 15, 16, 17, 4096, 65_535, 65_536, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFF0, 0xFFFF_FFFF)


class Failure(Exception):
    """What may not happen."""


class Bench:
    """An instance laid out for fuzzing: a place for inputs, a place for outputs, the samples' buffers."""

    def __init__(self, program: Program, samples: Samples, hardened: bool) -> None:
        self.samples = samples
        self.instance = Instance(MEMORY_LIMIT, program=program, hardened=hardened)
        self.room_size = 512 << 10
        self.room = self.instance.alloc(self.room_size)
        self.second_room = self.instance.alloc(self.room_size)
        self.out = self.instance.alloc(64)
        self.arena_size = sum(sample.layout.size + 64 for sample in samples.batches)
        self.arena = self.instance.alloc(self.arena_size)
        self.bases = self._place_batches()
        self.answers = 0
        #: The query whose answers are lent.
        self.lending: int | None = None
        #: What the last input was made of, for the report.
        self.parts: dict[str, bytes] = {}

    def _place_batches(self) -> list[int]:
        bases = []
        base = self.arena
        for sample in self.samples.batches:
            bases.append(base)
            for place, buffer in sample.layout.buffers:
                self.instance.write(base + place, buffer)
            base += (sample.layout.size + 63) // 64 * 64
        return bases

    def lay(self, name: str, data: bytes, room: int = 0) -> tuple[int, int]:
        """Puts an input where the engine can see it; what follows it is not zero."""
        self.parts[name] = data
        address = room or self.room
        data = data[: self.room_size - 64]
        self.instance.write(address, data + b"\xa5" * 32)
        return address, len(data)

    def check(self, status: int) -> int:
        if status not in _KNOWN_STATUS:
            raise Failure(f"unknown status {status}")
        return status

    def handle(self) -> int:
        return int.from_bytes(self.instance.view(self.out, 4), "little")

    # ---- what every door does with an opened thing ----

    def open_query(self, plan: bytes) -> int | None:
        address, size = self.lay("plan", plan)
        if self.check(self.instance.qm_query_open(address, size, self.out)):
            return None
        query = self.handle()
        # Made from the plan alone, so that a replay does the same.
        lends = zlib.crc32(plan) % 4 == 0 and self.check(self.instance.qm_query_lend(query)) == Status.OK
        self.lending = query if lends else None
        return query

    def push(self, query: int, kind: int, handle: int = 0, address: int = 0, size: int = 0) -> int:
        source = self.out + 16
        self.instance.write(source, _SOURCE.pack(kind, handle, address, size))
        return self.answer(self.instance.qm_query_push(query, source, self.out), query)

    def push_bytes(self, query: int, kind: int, data: bytes, run: int = 0) -> int:
        address, size = self.lay("data", data, self.second_room)
        return self.push(query, kind, run, address, size)

    def finish(self, query: int) -> int:
        """To the end and closed, whatever happened before."""
        status = self.answer(self.instance.qm_query_finish(query, self.out), query)
        if self.check(self.instance.qm_query_close(query)):
            raise Failure("an open query does not close")
        return status

    def answer(self, status: int, query: int) -> int:
        """Checks what a call left, and takes all that waits behind it."""
        while not self.check(status):
            address, size, _, state, partition = _OUTPUT.unpack(self.instance.view(self.out, _OUTPUT.size))
            if state > OutputState.DONE:
                raise Failure(f"unknown state {state}")
            if size and partition == LISTED:
                for part in _PART.iter_unpack(self.instance.view(address, size)):
                    self._check_qmcb(*part[:2])
            elif size and query == self.lending:
                self._check_lent(address, size)
            elif size:
                self._check_qmcb(address, size)
            if state != OutputState.MORE_OUTPUT:
                return status
            status = self.instance.qm_query_next(query, self.out)
        return status

    def _check_lent(self, address: int, size: int) -> None:
        """Descriptors of columns of one length, all of them inside of memory."""
        described = self.instance.view(address, size)
        rows, columns, count, _ = _HEADER.unpack_from(described)
        descriptors = [
            dict(zip(_abi.COLUMN_DESCRIPTOR_OFFSETS, fields, strict=True))
            for fields in _DESCRIPTOR.iter_unpack(described[_HEADER.size :])
        ]
        if len(descriptors) != count or columns > count:
            raise Failure(f"{columns} lent columns by {len(descriptors)} of {count} descriptors")
        if count == columns and any(one["row_count"] != rows for one in descriptors):
            raise Failure("lent columns of different length")
        for one in descriptors:
            for part in ("validity", "data", "offsets"):
                if one[part] + one[f"{part}_size"] > self.instance.memory_size:
                    raise Failure(f"lent {part} outside of memory")

    def _check_qmcb(self, address: int, size: int) -> None:
        if address + size > self.instance.memory_size:
            raise Failure(f"an answer of {size} bytes at {address}, outside of memory")
        self.answers += 1
        if self.answers % CHECKED_ANSWERS or size > CHECKED_SIZE_MAX or not self.strict:
            return
        try:
            decode_columnar_batch(self.instance.read(address, size))
        except QueryModeError as failure:
            raise Failure(f"an answer that is not QMCB: {failure}") from None

    #: Whether what goes in is checked so far that what comes out must be right.
    strict = True


# ---- the doors ----


def fuzz_qmcb(bench: Bench, random: Random) -> int:
    """Garbled QMCB, into its own plan or into one that expects something else."""
    samples = bench.samples
    if random.random() < 0.5:
        batch_sample = random.choice(samples.batches)
        plan, data = batch_sample.plan, batch_sample.batch
    else:
        plan_sample = random.choice(samples.plans)
        plan, data = plan_sample.plan, plan_sample.batch
    if random.random() < 0.15:
        plan = random.choice(samples.plan_bytes)
    query = bench.open_query(plan)
    if query is None:
        raise Failure("a valid plan was refused")
    garbled = mutate(data, samples.qmcb_bytes if len(data) < 4096 else (), random)
    status = bench.push_bytes(query, SourceKind.QMCB, garbled)
    if random.random() < 0.3:
        bench.push_bytes(query, SourceKind.QMCB, data)
    bench.finish(query)
    return status


def fuzz_plan(bench: Bench, random: Random) -> int:
    """A garbled plan; if it opens, the batch that the plan was made for goes through it."""
    sample = random.choice(bench.samples.plans)
    garbled = mutate(sample.plan, bench.samples.plan_bytes, random)
    query = bench.open_query(garbled)
    if query is None:
        return Status.INVALID_PLAN
    status = bench.push_bytes(query, SourceKind.QMCB, sample.batch)
    if random.random() < 0.3:
        bench.push_bytes(query, SourceKind.QMCB, sample.batch)
    return bench.finish(query) or status


def fuzz_steps(bench: Bench, random: Random) -> int:
    """Steps of several plans over one input, one behind the other: mostly refused, sometimes new."""
    a, b = random.choice(bench.samples.plans), random.choice(bench.samples.plans)
    plan = bytearray(a.plan)
    # Both inputs are alike in most samples: append the other's steps and add up the counts.
    head_a, head_b = _head_size(a.plan), _head_size(b.plan)
    count = int.from_bytes(a.plan[head_a : head_a + 2], "little")
    count += int.from_bytes(b.plan[head_b : head_b + 2], "little")
    plan[head_a : head_a + 2] = (count & 0xFFFF).to_bytes(2, "little")
    plan += b.plan[head_b + 2 :]
    if random.random() < 0.5:
        random.choice(MUTATIONS)(plan, random)
    query = bench.open_query(bytes(plan))
    if query is None:
        return Status.INVALID_PLAN
    status = bench.push_bytes(query, SourceKind.QMCB, a.batch)
    return bench.finish(query) or status


def fuzz_grown(bench: Bench, random: Random) -> int:
    """A plan that follows the rules and nothing else."""
    sample = random.choice(bench.samples.batches)
    query = bench.open_query(Grower(random).plan(list(sample.table.schema)))
    if query is None:
        return Status.INVALID_PLAN
    status = bench.push_bytes(query, SourceKind.QMCB, sample.batch)
    if random.random() < 0.2:
        bench.push_bytes(query, SourceKind.QMCB, sample.batch, random.choice((0, 1, 0xFFFF_FFFF)))
    return bench.finish(query) or status


def fuzz_joined(bench: Bench, random: Random) -> int:
    """The same with one or two builds, which may be closed before the plan that uses them is."""
    grower = Grower(random)
    opened: list[int] = []
    builds = []
    for _ in range(random.choice((1, 1, 2))):
        sample = random.choice(bench.samples.batches)
        plan, built = grower.build_plan(list(sample.table.schema))
        handle = bench.open_query(plan)
        if handle is None:
            continue
        opened.append(handle)
        status = bench.push_bytes(handle, SourceKind.QMCB, sample.batch)
        if random.random() < 0.98:
            status = bench.answer(bench.instance.qm_query_finish(handle, bench.out), handle) or status
        if not status or random.random() < 0.05:
            builds.append((handle, built))
    sample = random.choice(bench.samples.batches)
    plan = grower.plan(list(sample.table.schema), builds)
    if random.random() < 0.1:
        plan = mutate(plan, (), random)
    query = bench.open_query(plan)
    early = random.random() < 0.5
    if early:
        _close_all(bench, opened)
    status = int(Status.INVALID_PLAN)
    if query is not None:
        status = bench.push_bytes(query, SourceKind.QMCB, sample.batch)
        status = bench.finish(query) or status
    if not early:
        _close_all(bench, opened)
    return status


def _close_all(bench: Bench, queries: list[int]) -> None:
    for query in queries:
        if bench.check(bench.instance.qm_query_close(query)):
            raise Failure("an open build does not close")


def _head_size(plan: bytes) -> int:
    """Where the steps of a valid plan begin."""
    from querymode.types import decode_type

    (count,) = struct.unpack_from("<H", plan, 8)
    position = 10
    for _ in range(count):
        position += 2 + int.from_bytes(plan[position : position + 2], "little")
        _, position = decode_type(plan, position)
    return position


def fuzz_descriptor(bench: Bench, random: Random) -> int:
    """Garbled descriptors, in a push or opened before it; the buffers are real, their sizes lie."""
    index = random.randrange(len(bench.samples.batches))
    sample = bench.samples.batches[index]
    given = bytearray(sample.layout.descriptors(bench.bases[index]))
    bench.strict = False  # text in buffers is Arrow's word for it
    for _ in range(random.choice((1, 1, 2, 3))):
        _garble_descriptor(given, bench, random)
    query = bench.open_query(sample.plan)
    if query is None:
        raise Failure("a valid plan was refused")
    if random.random() < 0.5:
        status = bench.push_bytes(query, SourceKind.DESCRIPTOR, bytes(given))
    else:
        status = _push_opened(bench, query, bytes(given), random)
    bench.finish(query)
    return status


def _garble_descriptor(given: bytearray, bench: Bench, random: Random) -> None:
    """An address somewhere in the samples' buffers or outside of memory, or any other mutation.

    Not into memory that the engine itself writes: a host promises that buffers stay as they are.
    """
    if len(given) < 16 + 56 or random.random() < 0.4:
        if given:
            random.choice(MUTATIONS)(given, random)
        _fence(given, bench)
        return
    column = random.randrange((len(given) - 16) // 56)
    field = random.choice(("validity", "data", "offsets"))
    at = 16 + column * 56 + _abi.COLUMN_DESCRIPTOR_OFFSETS[field]
    if random.random() < 0.7:
        address = bench.arena + random.randrange(bench.arena_size) // 16 * 16
    else:
        address = random.choice(_EDGES)
    struct.pack_into("<I", given, at, address)
    if random.random() < 0.5:
        struct.pack_into("<I", given, at + 4, random.choice((*_EDGES, random.randrange(1 << 16))))
    _fence(given, bench)


def _fence(given: bytearray, bench: Bench) -> None:
    """Addresses that a mutation led into the engine's own memory go out of memory instead."""
    for column in range((len(given) - 16) // 56 if len(given) >= 16 else 0):
        for field in ("validity", "data", "offsets"):
            at = 16 + column * 56 + _abi.COLUMN_DESCRIPTOR_OFFSETS[field]
            address, size = struct.unpack_from("<II", given, at)
            inside = address >= bench.arena and address + size <= bench.arena + bench.arena_size
            if size and not inside and address + size <= bench.instance.memory_size + (1 << 20):
                struct.pack_into("<I", given, at, address | 0xF000_0000)


def _push_opened(bench: Bench, query: int, descriptor: bytes, random: Random) -> int:
    address, size = bench.lay("descriptor", descriptor, bench.second_room)
    status = bench.check(bench.instance.qm_batch_open(address, size, bench.out))
    if status:
        return status
    batch = bench.handle()
    if random.random() < 0.5:
        status = bench.push(query, SourceKind.BATCH, batch)
    else:
        (count,) = struct.unpack_from("<I", descriptor, 4)
        references = b"".join(struct.pack("<II", batch, column) for column in range(count))
        if random.random() < 0.3:
            references = mutate(references, (), random)
        status = bench.push_bytes(query, SourceKind.COLUMNS, references)
    if bench.check(bench.instance.qm_batch_close(batch)):
        raise Failure("an open batch does not close")
    return status


def fuzz_anywhere(bench: Bench, random: Random) -> int:
    """Descriptors with any address at all. They are only checked: nobody promised them to stay."""
    sample = random.choice(bench.samples.batches)
    given = sample.layout.descriptors(
        random.choice((0, 1, bench.room, random.randrange(1 << 32))) & 0xFFFF_0000
    )
    given = mutate(given, (), random)
    address, size = bench.lay("descriptor", given, bench.second_room)
    status = bench.check(bench.instance.qm_batch_open(address, size, bench.out))
    if status == 0:
        bench.check(bench.instance.qm_batch_close(bench.handle()))
    return status


def fuzz_text(bench: Bench, random: Random) -> int:
    """Garbled CSV and JSON, garbled options, or both."""
    sample = random.choice(bench.samples.texts)
    text, options, format = sample.text, sample.options, sample.format
    which = random.random()
    if which < 0.75:
        text = mutate(text, bench.samples.text_bytes, random)
    if which > 0.6:
        options = mutate(options, bench.samples.option_bytes, random)
    if random.random() < 0.02:
        format = random.choice(_EDGES)
    address, size = bench.lay("text", text)
    place, options_size = bench.lay("options", options, bench.second_room)
    status = bench.check(bench.instance.qm_text_open(format, address, size, place, options_size, bench.out))
    if status:
        return status
    reader = bench.handle()
    bench.strict = True
    status = bench.answer(bench.instance.qm_query_next(reader, bench.out), reader)
    if bench.check(bench.instance.qm_query_close(reader)):
        raise Failure("an open text does not close")
    return status


def fuzz_handles(bench: Bench, random: Random) -> int:
    """Handles and Sources of chance, in a session where some of them are real."""
    instance, samples = bench.instance, bench.samples
    handles = [0, 1, 0xFFFF_FFFF, random.randrange(1 << 32), 1 << 24 | random.randrange(4)]
    plan_sample = random.choice(samples.plans)
    query = bench.open_query(plan_sample.plan)
    index = random.randrange(len(samples.batches))
    address, size = bench.lay("descriptor", samples.batches[index].layout.descriptors(bench.bases[index]))
    bench.check(instance.qm_batch_open(address, size, bench.out))
    batch = bench.handle()
    text = random.choice(samples.texts)
    address, size = bench.lay("text", text.text)
    opened = bench.check(instance.qm_text_open(text.format, address, size, 0, 0, bench.out))
    reader = None if opened else bench.handle()
    live = [handle for handle in (query, batch, reader) if handle is not None]
    handles += live
    address, size = bench.lay("data", plan_sample.batch, bench.second_room)
    status = 0
    for _ in range(8):
        handle = random.choice(handles)
        match random.randrange(7):
            case 0:
                status = bench.check(instance.qm_query_close(handle))
            case 1:
                status = bench.check(instance.qm_batch_close(handle))
            case 2:
                status = bench.answer(instance.qm_query_finish(handle, bench.out), handle)
            case 3:
                status = bench.answer(instance.qm_query_next(handle, bench.out), handle)
            case 4:
                kind = random.choice((0, 1, 2, 3, 4, 0xFFFF_FFFF))
                where = random.choice((address, 0, random.choice(_EDGES)))
                how_much = random.choice((size, 0, 8, random.choice(_EDGES)))
                if how_much > size and where == address and how_much < 1 << 31:
                    how_much = size  # what lies behind is the engine's
                status = bench.push(handle, kind, random.choice(handles), where, how_much)
            case 5:
                outside = random.choice((0, instance.memory_size - 2, 0xFFFF_FFF0, 0xFFFF_FFFF))
                status = bench.check(instance.qm_query_push(handle, outside, bench.out))
            case 6:
                outside = random.choice((0, instance.memory_size - 2, 0xFFFF_FFF0, 0xFFFF_FFFF))
                status = bench.check(instance.qm_query_next(handle, outside))
    for handle in live:
        bench.check(instance.qm_query_close(handle))
        bench.check(instance.qm_batch_close(handle))
    return status


def fuzz_outside(bench: Bench, random: Random) -> int:
    """Inputs and outputs that lie outside of memory, at every door."""
    instance = bench.instance
    end = instance.memory_size
    inside, size = bench.lay("plan", random.choice(bench.samples.plan_bytes))
    outside = random.choice(
        (end, end - 1, end + 65_536, 0xFFFF_FFFF, 0xFFFF_FFF0, random.randrange(end, 1 << 32))
    )
    much = random.choice((1, 64, size, 0xFFFF_FFFF, random.randrange(1, 1 << 32)))
    statuses = [
        instance.qm_query_open(outside, max(much, 2), bench.out),
        instance.qm_batch_open(outside, max(much, 2), bench.out),
        instance.qm_text_open(random.randrange(2), outside, max(much, 2), 0, 0, bench.out),
        instance.qm_text_open(random.randrange(2), inside, 1, outside, max(much, 2), bench.out),
        instance.qm_free(outside, max(much, 2)),
        instance.qm_free(bench.room + 64, 10),
        instance.qm_query_open(inside, size, random.choice((0, outside))),
    ]
    for status in statuses:
        if bench.check(status) == Status.OK:
            raise Failure(f"memory that is not there was accepted: {statuses}")
    # What did not open must not be there either. No other handle is open here.
    for handle in (generation << 24 | slot for slot in range(2) for generation in range(256)):
        status = bench.check(instance.qm_query_finish(handle, bench.out))
        if status != Status.INVALID_HANDLE:
            raise Failure(f"a query that did not open answers to {handle:#x} with {Status(status).name}")
    if instance.qm_alloc(random.choice((0xFFFF_FFFF, 0xFFFF_F000, 0xC000_0000))):
        raise Failure("more memory than there is")
    return statuses[0]


Door = Callable[[Bench, Random], int]
DOORS: dict[str, tuple[Door, int]] = {
    "qmcb": (fuzz_qmcb, 5),
    "plan": (fuzz_plan, 6),
    "grown": (fuzz_grown, 6),
    "joined": (fuzz_joined, 4),
    "steps": (fuzz_steps, 2),
    "descriptor": (fuzz_descriptor, 4),
    "anywhere": (fuzz_anywhere, 1),
    "text": (fuzz_text, 4),
    "handles": (fuzz_handles, 1),
    "outside": (fuzz_outside, 1),
}
_TURNS = [name for name, (_, weight) in DOORS.items() for _ in range(weight)]


# ---- running ----


class Watch(threading.Thread):
    """Cancels an input that takes too long, and ends the process if even that does not help."""

    def __init__(self, report: Callable[[str], None]) -> None:
        super().__init__(daemon=True)
        self.report = report
        self.started = 0.0
        self.instance: Instance | None = None
        self.hung = False
        self.start()

    def run(self) -> None:
        while True:
            time.sleep(0.25)
            instance, started = self.instance, self.started
            if instance is None or self.hung:
                continue
            if time.monotonic() - started > HANG_SECONDS:
                self.hung = True
                instance.cancel()
                threading.Timer(HANG_SECONDS, self._give_up, (started,)).start()

    def _give_up(self, started: float) -> None:
        if self.started == started and self.instance is not None:
            self.report("hangs, and does not look at its cancel byte")
            os._exit(3)

    def begin(self, instance: Instance) -> None:
        self.hung = False
        self.started = time.monotonic()
        self.instance = instance

    def end(self) -> None:
        self.instance = None
        if self.hung:
            raise Failure(f"took {time.monotonic() - self.started:.1f} s, then saw its cancellation")


class Fuzzer:
    def __init__(self, wasm: Path, hardened: bool, failures: Path | None) -> None:
        self.program = Program.from_file(wasm)
        self.hardened = hardened
        self.failures = failures
        self.samples = build()
        self.counts: Counter[str] = Counter()
        self.failed: list[str] = []
        self.watch = Watch(self.report)
        self.bench = self._new_bench()
        self.current = ("", 0)

    def _new_bench(self) -> Bench:
        return Bench(self.program, self.samples, self.hardened)

    def run(self, count: int, seed: int) -> None:
        for number in range(count):
            if number % INSTANCE_INPUTS == 0:
                self.bench.instance.close()
                self.bench = self._new_bench()
            self.run_one(_TURNS[number % len(_TURNS)], seed + number)

    def run_one(self, door: str, number: int) -> None:
        bench = self.bench
        self.current = (door, number)
        bench.parts = {}
        bench.strict = True
        random = Random(zlib.crc32(door.encode()) << 64 | number)
        try:
            self.watch.begin(bench.instance)
            try:
                status = DOORS[door][0](bench, random)
            finally:
                self.watch.end()
            self.counts[f"{door} {Status(status).name.lower()}"] += 1
        except (Failure, Cancelled, QueryModeError) as failure:
            self.report(f"{type(failure).__name__}: {failure}")
            with suppress(QueryModeError):
                bench.instance.close()
            self.bench = self._new_bench()
        if bench.instance.epoch_trapped:
            self.report("did not look at its cancel byte")

    def report(self, what: str) -> None:
        door, number = self.current
        self.counts[f"{door} FAILED"] += 1
        line = f"{door}:{number} {what}"
        self.failed.append(line)
        print(f"FAILED {line}", file=sys.stderr, flush=True)
        if self.failures is not None:
            parts = {name: data.hex() for name, data in self.bench.parts.items()}
            path = self.failures / f"{door}-{number}.json"
            path.write_text(json.dumps({"input": line, "hardened": self.hardened, **parts}, indent=1))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--wasm", type=Path, required=True)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--failures", type=Path)
    parser.add_argument("--hardened", action="store_true")
    parser.add_argument("--replay")
    given = parser.parse_args()
    started = time.monotonic()
    fuzzer = Fuzzer(given.wasm, given.hardened, given.failures)
    prepared = time.monotonic()
    if given.replay:
        door, number = given.replay.split(":")
        fuzzer.run_one(door, int(number))
    else:
        fuzzer.run(given.count, given.seed)
    seconds = time.monotonic() - prepared
    summary = {
        "count": sum(fuzzer.counts.values()),
        "seconds": round(seconds, 2),
        "prepared": round(prepared - started, 2),
        "failed": fuzzer.failed,
        "counts": dict(sorted(fuzzer.counts.items())),
    }
    print(json.dumps(summary))
    return 1 if fuzzer.failed else 0


if __name__ == "__main__":
    sys.exit(main())
