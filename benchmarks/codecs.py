"""Decoders of pages beside pyarrow.Codec: pages of 1 MiB, one thread, inside the engine's own kind of module.

The decoders sit in a module of their own (`zig build bench-wasm`), because the engine does not export them. A
call from Python costs as much as a small page, so a call decodes the page many times. Both sides take turns,
and what counts is the median of the turns' ratios: a neighbour that slows the machine slows both. The clock
is the thread's own, because a turn is as short as what the system gives to a neighbour at a time.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy
import pyarrow
import wasmtime

from benchmarks.harness import Table, geometric_mean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Literal

    Codec = Literal["zstd", "gzip", "lz4_raw", "snappy", "brotli"]

ROOT = Path(__file__).parent.parent
MODULE = ROOT / "zig-out" / "bin" / "querymode_bench.wasm"

PAGE_SIZE = 1 << 20
#: What decoders may touch behind their source and their target.
SLACK = 64
ROUNDS = 9
TURN_SECONDS = 0.004
NAME_WIDTH = 38

#: Hardly more than a copy or a fill. They are raced because shortcuts stumble over them, and they stay out of
#: the mean that has a bar because they would flatter it.
EXTREMES = ("zeros", "constant", "random")

HYBRID_COUNT = 16_384
HYBRID_WIDTHS = (1, 3, 7, 10, 14, 20, 25)
#: Our time over that of a loop that takes value by value.
HYBRID_RATIO_MAX = 1 / 1.3


@dataclass(frozen=True)
class Contest:
    """Bars are shares of the peer's speed: of the geometric mean, and of every single page."""

    title: str
    codec: Codec
    function: str
    level: int | None = None
    mean_min: float | None = None
    page_min: float | None = None


CONTESTS = (
    Contest("ZSTD, level 1", "zstd", "bench_zstd", 1, mean_min=0.7, page_min=0.6),
    Contest("ZSTD, level 3", "zstd", "bench_zstd", 3, mean_min=0.7, page_min=0.6),
    Contest("GZIP, level 6, CRC checked", "gzip", "bench_gzip", 6, mean_min=0.85),
    Contest("LZ4 block", "lz4_raw", "bench_lz4", mean_min=0.6),
    Contest("Snappy", "snappy", "bench_snappy", mean_min=0.8),
    Contest("Brotli, level 5", "brotli", "bench_brotli", 5),
)


def run() -> None:
    module = _Module()
    pages = dict(_pages())
    for contest in CONTESTS:
        _race_codec(module, contest, pages)
    _race_hybrid(module)


def _race_codec(module: _Module, contest: Contest, pages: dict[str, bytes]) -> None:
    table = Table(f"{contest.title}: pages of 1 MiB", NAME_WIDTH)
    codec = pyarrow.Codec(contest.codec, compression_level=contest.level)
    ratio_max = None if contest.page_min is None else 1 / contest.page_min
    ratios: dict[str, float] = {}
    for name, page in pages.items():
        source = codec.compress(page)
        module.load(source)
        sizes = (source.size, module.target, len(page))
        if module.call(contest.function, *sizes, 1) != 0 or module.result(len(page)) != page:
            raise SystemExit(f"{contest.title}: the page of {name} came out wrong")

        def ours(count: int, sizes: tuple[int, ...] = sizes) -> None:
            module.call(contest.function, *sizes, count)

        def peer(count: int, source: pyarrow.Buffer = source, size: int = len(page)) -> None:
            for _ in range(count):
                codec.decompress(source, size)

        our_seconds, peer_seconds = _alternate(ours, peer)
        label = f"{name}, {len(page) / source.size:.3g} : 1"
        ratios[name] = table.compare(label, our_seconds, peer_seconds, "pyarrow", ratio_max=ratio_max)
    table.mean("geometric mean of all", ratios.values())
    columns = [ratio for name, ratio in ratios.items() if name not in EXTREMES]
    mean_ratio_max = None if contest.mean_min is None else 1 / contest.mean_min
    share = 1 / geometric_mean(columns)
    table.mean(f"  without extremes: {share:.2f} of its speed", columns, ratio_max=mean_ratio_max)


def _race_hybrid(module: _Module) -> None:
    table = Table(f"Hybrid of runs and packed groups: {HYBRID_COUNT} values", NAME_WIDTH)
    ratios: list[float] = []
    for width in HYBRID_WIDTHS:
        source, values = _hybrid(width)
        module.load(source)
        arguments = (len(source), module.target, HYBRID_COUNT, width)
        for function in ("bench_hybrid", "bench_hybrid_scalar"):
            if module.call(function, *arguments, 1) != 0 or module.result(values.nbytes) != values.tobytes():
                raise SystemExit(f"{function}: values of {width} bits came out wrong")

        def ours(count: int, arguments: tuple[int, ...] = arguments) -> None:
            module.call("bench_hybrid", *arguments, count)

        def scalar(count: int, arguments: tuple[int, ...] = arguments) -> None:
            module.call("bench_hybrid_scalar", *arguments, count)

        our_seconds, scalar_seconds = _alternate(ours, scalar)
        label = f"{width} bits, {HYBRID_COUNT / our_seconds / 1e9:.2f} G values/s"
        ratios.append(table.compare(label, our_seconds, scalar_seconds, "one by one"))
    table.mean("geometric mean", ratios, ratio_max=HYBRID_RATIO_MAX)


def _alternate(ours: Callable[[int], None], peer: Callable[[int], None]) -> tuple[float, float]:
    """Seconds of one repetition. The peer's is its median; ours is that times the median of the ratios."""
    our_count, peer_count = _count(ours), _count(peer)
    peer_times: list[float] = []
    ratios: list[float] = []
    for _ in range(ROUNDS):
        peer_times.append(_seconds(peer, peer_count) / peer_count)
        ratios.append(_seconds(ours, our_count) / our_count / peer_times[-1])
    peer_seconds = statistics.median(peer_times)
    return peer_seconds * statistics.median(ratios), peer_seconds


def _count(action: Callable[[int], None]) -> int:
    """How many repetitions make a turn, and a look that they are done: a compiler likes to skip them."""
    action(1)
    count = 1
    while (spent := _seconds(action, count)) < TURN_SECONDS / 2:
        count *= 2
        if count > 1 << 20:
            raise SystemExit("repetitions take no time: the compiler has moved the work out of the loop")
    return max(1, round(count * TURN_SECONDS / spent))


def _seconds(action: Callable[[int], None], count: int) -> float:
    started = time.thread_time()
    action(count)
    return time.thread_time() - started


class _Module:
    """The decoders in a memory of their own, with room for one page before and after decoding."""

    def __init__(self) -> None:
        # Zig keeps what has not changed; the variable spares it the optimising of its build program.
        command = [sys.executable, "-m", "ziglang", "build", "bench-wasm"]
        subprocess.run(command, cwd=ROOT, env={**os.environ, "ZIG_DEBUG_CMD": "1"}, check=True)
        engine = wasmtime.Engine()
        self._store = wasmtime.Store(engine)
        module = wasmtime.Module.from_file(engine, str(MODULE))
        self._exports: Any = wasmtime.Instance(self._store, module, []).exports(self._store)
        self._memory: Any = self._exports["memory"]
        self._source: int = self._allocate(2 * PAGE_SIZE)
        self.target: int = self._allocate(PAGE_SIZE + SLACK)

    def _allocate(self, size: int) -> int:
        address: int = self._exports["bench_alloc"](self._store, size)
        if address == 0:
            raise SystemExit("the module has no memory for a page")
        return address

    def load(self, source: bytes | pyarrow.Buffer) -> None:
        data = bytes(source)
        assert len(data) + SLACK <= 2 * PAGE_SIZE
        self._memory.write(self._store, data, self._source)
        self._memory.write(self._store, bytes(PAGE_SIZE), self.target)

    def call(self, function: str, *arguments: int) -> int:
        status: int = self._exports[function](self._store, self._source, *arguments)
        return status

    def result(self, size: int) -> bytes:
        return bytes(self._memory.read(self._store, self.target, self.target + size))


def _pages() -> Iterator[tuple[str, bytes]]:
    """What columns look like, and the extremes."""
    random = numpy.random.default_rng(11)
    words = _words(random, 3000)
    yield "skewed integers", numpy.minimum(random.zipf(1.4, PAGE_SIZE // 8), 1 << 40).astype("<i8").tobytes()
    yield "prices", (random.integers(100, 100_000, PAGE_SIZE // 8) / 100).astype("<f8").tobytes()
    yield "text", _text(random, words)
    yield "hex keys", random.bytes(PAGE_SIZE // 2).hex().encode()
    yield "dates", random.integers(8_000, 12_000, PAGE_SIZE // 4).astype("<i4").tobytes()
    yield "rising times", numpy.cumsum(random.integers(0, 3, PAGE_SIZE // 4)).astype("<i4").tobytes()
    yield "float32", random.normal(size=PAGE_SIZE // 4).astype("<f4").tobytes()
    yield "json", _json(random, words)
    yield "zeros", bytes(PAGE_SIZE)
    yield "constant", b"constant" * (PAGE_SIZE // 8)
    yield "random", random.bytes(PAGE_SIZE)


def _words(random: Any, count: int) -> list[str]:
    letters = numpy.frombuffer(b"etaoinshrdlucmfwypvbgkjqxz", dtype="S1").astype(str)
    return ["".join(letters[random.zipf(1.5, size) % 26]) for size in random.integers(2, 10, count)]


def _text(random: Any, words: list[str]) -> bytes:
    chosen = numpy.minimum(random.zipf(1.3, PAGE_SIZE // 3), len(words)) - 1
    return " ".join(words[index] for index in chosen).encode()[:PAGE_SIZE]


def _json(random: Any, words: list[str]) -> bytes:
    count = PAGE_SIZE // 40
    users, scores = random.integers(0, 1000, count), random.random(count)
    chosen = random.integers(0, len(words), count)
    lines = (
        f'{{"id": {index}, "user": "u{users[index]}", "score": {scores[index]:.3f}, '
        f'"tag": "{words[chosen[index]]}"}}\n'
        for index in range(count)
    )
    return "".join(lines).encode()[:PAGE_SIZE]


def _hybrid(width: int) -> tuple[bytes, Any]:
    """Runs of 504 packed values, as pyarrow writes them, and a run of one value after every third."""
    random = numpy.random.default_rng(width)
    values = random.integers(0, 1 << width, HYBRID_COUNT, dtype=numpy.uint32)
    source = bytearray()
    at = 0
    for number in range(HYBRID_COUNT):
        if at == HYBRID_COUNT:
            break
        size = min(504, HYBRID_COUNT - at)
        if number % 4 == 3:
            values[at : at + size] = values[at]
            source += _varint(size << 1) + int(values[at]).to_bytes((width + 7) // 8, "little")
        else:
            bits = values[at : at + size, None] >> numpy.arange(width, dtype=numpy.uint32) & 1
            source += _varint(size // 8 << 1 | 1) + numpy.packbits(bits, bitorder="little").tobytes()
        at += size
    return bytes(source), values


def _varint(value: int) -> bytes:
    result = bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)
