"""Parquet files that are cut, changed or lie: rows or an error that names the file, never more.

The fuzzer itself is a native program, wasm/src/parquet_fuzz_main.zig: it starts from the corpus beside the
repository where there is one, and from files that pyarrow writes. What it mutates is also read through the
engine as users have it, on both builds. A failing input is kept under tmp_path and can be had again:
`zig-out/bin/fuzz_parquet --seed S --first I --count 1 FILE …` (the list of files counts, too).
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from querymode import QueryMode, col
from querymode.engine import program
from querymode.errors import QueryModeError
from querymode.frame.frame import DataFrame
from querymode.types import is_nested
from tests.conftest import ROOT, build
from tests.corrupt import craft, parquet_samples
from tests.corrupt.bombs import BOMBS, GOOD, HONEST, REFUSED, X

CORPUS = ROOT.parent / "shared" / "corpus"
FUZZER = ROOT / "zig-out" / "bin" / "fuzz_parquet"
MEMORY = 256 << 20
SAMPLE_SIZE_MAX = 256 << 10
#: Mutations that go through the engine of WebAssembly.
EMITTED = 1000
#: What the native reader calls it, and what users see.
CODES = {
    "rows": "OK",
    "cut": "OK",
    "invalid_format": "INVALID_FORMAT",
    "not_supported": "NOT_SUPPORTED",
    "memory_exceeded": "MEMORY_EXCEEDED",
    "too_large": "QUERY_FAILED",
    "out_of_range": "QUERY_FAILED",
    "cancelled": "QUERY_TIMEOUT",
}


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return parquet_samples.build(tmp_path_factory.mktemp("samples"))


@pytest.fixture(scope="session")
def all_samples(samples: list[Path]) -> list[Path]:
    corpus = sorted(path for path in (CORPUS / "parquet").rglob("*") if path.is_file())
    return samples + [path for path in corpus if path.stat().st_size <= SAMPLE_SIZE_MAX]


@pytest.fixture(params=["fast", "safe"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, programs: dict[str, Any]) -> str:
    monkeypatch.setattr(program, "_default_program", programs[request.param])
    return str(request.param)


@pytest.fixture(scope="module")
def programs(safe_wasm: Path) -> dict[str, program.Program]:
    return {"fast": program.default_program(), "safe": program.Program.from_file(safe_wasm)}


def start(program: Path, failures: Path, files: list[Path], *arguments: str) -> subprocess.Popen[str]:
    failures.mkdir(parents=True, exist_ok=True)
    return subprocess.Popen(
        [program, "--failures", failures, *arguments, *files],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )


def finish(process: subprocess.Popen[str], timeout: float) -> str:
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        process.kill()
    assert process.returncode == 0, err[-8000:]
    return out


def check_summary(out: str, count: int) -> None:
    summary = json.loads(out.splitlines()[-1])
    counts = summary["counts"]
    print(f"{summary['count']:,} mutations of {summary['samples']} files: {counts}")
    assert summary["count"] == count
    # Some are read, or the mutations would be too crude; few need more memory than there is.
    assert counts["rows"] > 0.1 * count
    assert counts["memory_exceeded"] + counts["too_large"] + counts["cancelled"] < 0.001 * count


# --- Mutations ----------------------------------------------------------------------------------


def test_ten_thousand_mutations(samples: list[Path], tmp_path: Path) -> None:
    check_summary(finish(start(FUZZER, tmp_path, samples, "--count", "10000"), 120), 10_000)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="there is no ../shared/corpus")
def test_ten_thousand_mutations_of_the_corpus(all_samples: list[Path], tmp_path: Path) -> None:
    assert len(all_samples) > 500
    process = start(FUZZER, tmp_path, all_samples, "--count", "20000", "--seed", "1")
    check_summary(finish(process, 120), 20_000)


@pytest.mark.soak
def test_a_million_mutations(all_samples: list[Path], tmp_path: Path) -> None:
    """Two processes, with optimisation and every check; new inputs each time, whose seed is printed."""
    build("fuzz-parquet", "-Dfuzz-optimize=safe", "--prefix", "zig-out/soak")
    fuzzer = ROOT / "zig-out" / "soak" / "bin" / "fuzz_parquet"
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    parts = [
        start(fuzzer, tmp_path, all_samples, "--count", "500000", "--seed", str(seed + part))
        for part in (0, 1)
    ]
    for process in parts:
        check_summary(finish(process, 3600), 500_000)


def test_the_fuzzer_can_be_replayed(samples: list[Path], tmp_path: Path) -> None:
    """Input 7 is the same alone as among others."""
    names = (tmp_path / "many", tmp_path / "alone")
    for name, first, count in zip(names, ("0", "7"), ("9", "1"), strict=True):
        name.mkdir()
        finish(start(FUZZER, tmp_path, samples, "--emit", str(name), "--first", first, "--count", count), 60)
    assert (names[0] / "7.parquet").read_bytes() == (names[1] / "7.parquet").read_bytes()


# --- Through the engine of WebAssembly -----------------------------------------------------------


def session(timeout: float = 20) -> QueryMode:
    return QueryMode(memory=MEMORY, threads=1, timeout=timeout)


def ways(table: DataFrame) -> Iterator[DataFrame]:
    """All rows; those that a filter leaves, by indexes and statistics; those of the last column."""
    yield table
    if not table.schema.names:
        return
    name = table.schema.names[0]
    first, kind = col(name), table.schema.type_of(name)
    yield table.filter(first >= 2 if str(kind) in ("int32", "int64", "float64") else first.is_not_null())
    if not is_nested(kind):
        yield table.sort(name).limit(3).select(name)


def ending(path: Path, way: int, timeout: float = 20) -> tuple[str, int]:
    """A code, and how many rows came of it."""
    try:
        for number, frame in enumerate(ways(session(timeout).table(str(path)))):
            if number == way:
                return "OK", len(frame.collect())
    except QueryModeError as error:
        if error.code == "INVALID_FORMAT":
            assert path.name in str(error)
        return error.code, 0
    return "NOTHING", 0


@pytest.mark.parametrize("seed", [2, 3])
def test_mutations_end_alike_everywhere(
    seed: int, engine: str, all_samples: list[Path], tmp_path: Path
) -> None:
    """What the native reader makes of a file, the engine makes of it, too: rows or error, on both builds."""
    emitted = tmp_path / "emitted"
    emitted.mkdir()
    arguments = ("--emit", str(emitted), "--count", str(EMITTED // 2), "--seed", str(seed))
    lines = finish(start(FUZZER, tmp_path, all_samples, *arguments), 120).splitlines()
    seen: Counter[str] = Counter()
    for line in lines[:-1]:
        name, native, rows, _ = line.split(", ", 3)
        code, count = ending(emitted / name, 0)
        # A file without the magic bytes may be anything: the host says that it is of no format it knows.
        assert (code, count) == (CODES[native], int(rows)) or ("end like" in line and code in REFUSED), line
        # Pages that no row needs are not looked at, so a filter may end well where all rows do not.
        filtered, _ = ending(emitted / name, 1)
        assert filtered in (HONEST - {"QUERY_TIMEOUT"}) | {"NOTHING"}, line
        seen[code] += 1
    assert sum(seen.values()) == EMITTED // 2
    assert seen["OK"] > EMITTED // 20 and seen["INVALID_FORMAT"] > EMITTED // 20
    print(engine, seen)


@pytest.mark.parametrize("step", [1, 37])
def test_every_truncation(step: int, engine: str, samples: list[Path], tmp_path: Path) -> None:
    """A file that ends early, with or without its footer put back behind what is left."""
    # Without page indexes: a file whose indexes are gone still has all its rows.
    source = next(path for path in samples if path.name == "flat_plain_1.0.parquet")
    data = source.read_bytes() if step > 1 else craft.file([X], [[GOOD]], [3])
    footer = int.from_bytes(data[-8:-4], "little") + 8
    path = tmp_path / "cut.parquet"
    for size in range(0, len(data) - footer, step):
        path.write_bytes(data[:size] + data[-footer:])
        assert ending(path, 0)[0] in REFUSED
    for size in range(0, len(data), step):
        path.write_bytes(data[:size])
        assert ending(path, 0)[0] in REFUSED


def test_a_filter_over_no_rows(engine: str, tmp_path: Path) -> None:
    """Mutations that left no row group made a filtered query wait for workers that were never started."""
    path = tmp_path / "empty.parquet"
    for groups, rows in (([], []), ([[craft.Chunk(b"", 0)]], [0])):
        path.write_bytes(craft.file([X], groups, rows))
        for way in range(3):
            assert ending(path, way) == ("OK", 0)


# --- Files made to hurt --------------------------------------------------------------------------


def test_what_is_crafted_can_be_read(engine: str, tmp_path: Path) -> None:
    """The lies of the bombs are told in files that are otherwise right: pyarrow and we agree on one."""
    entries = craft.dictionary(craft.plain(10, 20, 30), count=3)
    codes = craft.levels(craft.run(1, 4, 1) + craft.run(0, 2, 1)) + bytes((2, 3, 0b01100100, 0))
    chunk = craft.Chunk(
        entries
        + craft.page(codes, count=6, encoding=craft.Encoding.DICTIONARY)
        + craft.page(craft.levels(craft.run(1, 3, 1)) + craft.plain(1, 2, 3), count=3),
        9,
        dictionary_size=len(entries),
    )
    path = tmp_path / "crafted.parquet"
    path.write_bytes(craft.file([craft.Leaf("x", repetition=1)], [[chunk]], [9]))
    rows = session().table(str(path)).collect().to_arrow()["x"].to_pylist()
    assert rows == [10, 20, 30, 20, None, None, 1, 2, 3] == pq.read_table(path)["x"].to_pylist()


@pytest.mark.parametrize("name", BOMBS)
def test_bombs(name: str, engine: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.parquet"
    path.write_bytes(BOMBS[name].make())
    assert path.stat().st_size < 1 << 20
    for way in range(3):
        began = time.monotonic()
        code, _ = ending(path, way, timeout=0.5 if BOMBS[name].endings == HONEST else 20)
        assert code in BOMBS[name].endings | ({"NOTHING"} if way else set()), code
        assert time.monotonic() - began < 10


def test_bombs_natively(tmp_path: Path) -> None:
    """In every way the fuzzer knows; most of all with windows of a few bytes and guarded memory."""
    files = []
    for name, bomb in BOMBS.items():
        if bomb.endings != HONEST:
            files.append(tmp_path / f"{name}.parquet")
            files[-1].write_bytes(bomb.make())
    for line in finish(start(FUZZER, tmp_path, files, "--read"), 120).splitlines():
        name, native, _ = line.split(", ", 2)
        assert CODES[native] in BOMBS[name.removesuffix(".parquet")].endings, line


def test_bombs_take_little_memory(tmp_path: Path) -> None:
    """All that lie, one after the other in one process: 256 MiB of engine and what Python takes anyway."""
    for name, bomb in BOMBS.items():
        if bomb.endings != HONEST:
            (tmp_path / f"{name}.parquet").write_bytes(bomb.make())
    script = (
        "import resource, sys\nfrom pathlib import Path\nfrom tests.corrupt.test_parquet import ending\n"
        "ending(Path(sys.argv[1]) / 'two_dictionaries.parquet', 0)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "for path in sorted(Path(sys.argv[1]).glob('*.parquet')):\n    ending(path, 0); ending(path, 1)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) < 64 << 10, "KiB more than for the first"
