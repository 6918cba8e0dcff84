"""Footers: the VIP rule, what is cached where, damage on disk, several processes, and what is no Parquet."""

from __future__ import annotations

import os
import random
import shutil
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querymode import QueryModeError
from querymode.engine.one_task import on_instance
from querymode.format import footer_cache
from querymode.format.footer_cache import FooterCache
from querymode.format.parquet import footer
from querymode.format.parquet.flat_footer import FlatFooter
from querymode.store import vip_cache
from querymode.store.counting import CountingSource
from querymode.store.fetch import IoGate
from querymode.store.local import is_settled
from querymode.store.memory import BytesSource
from querymode.store.open import open_source
from querymode.store.options import StoreOptions
from querymode.store.private_cache import PrivateCache
from querymode.store.private_cache import cache_directory as user_directory
from querymode.store.source import ByteSource
from querymode.store.vip_cache import ENTRY_OVERHEAD, VipCache
from tests.forked import in_child
from tests.raises import raises_code
from tests.unit.range_server import RangeServer

ROOT = Path(__file__).resolve().parents[2]
USER_CACHE = Path(user_directory())


@pytest.fixture(scope="session", autouse=True)
def engine() -> None:
    """Its machine code comes from the user's own cache, before tests have theirs."""
    on_instance(lambda instance: None)


@pytest.fixture(autouse=True)
def cache_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "cache"
    monkeypatch.setenv("QUERYMODE_CACHE_DIR", str(path))
    return path


@pytest.fixture
def engine_visits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many footers each visit of the engine flattened."""
    visits: list[int] = []
    flatten = footer._flatten

    def counting(instance: object, group: list[object], gate: object) -> list[bytes]:
        visits.append(len(group))
        return flatten(instance, group, gate)  # type: ignore[arg-type]

    monkeypatch.setattr(footer, "_flatten", counting)
    return visits


def write(path: Path, columns: int = 2, rows: int = 8, row_groups: int = 1, first: int = 0) -> Path:
    table = pa.table({f"column_{i}": range(first + i, first + i + rows) for i in range(columns)})
    pq.write_table(table, path, row_group_size=max(1, rows // row_groups))
    settle(path)
    return path


def settle(path: Path) -> None:
    """Until the clock that times of files come from has moved on."""
    while not is_settled(open_source(path)):
        time.sleep(0.002)


@pytest.fixture(scope="session")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its footer is larger than the first tail read."""
    return write(tmp_path_factory.mktemp("wide") / "wide.parquet", columns=1000, rows=2)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return write(tmp_path / "small.parquet")


def load_one(source: ByteSource, cache: FooterCache | None = None, **options: Any) -> FlatFooter:
    (found,) = footer.load([source], cache=cache or FooterCache(), **options)
    return found


def failure(action: Callable[[], object]) -> QueryModeError:
    with pytest.raises(QueryModeError) as caught:
        action()
    return caught.value


# ---- the VIP rule ----


def test_hot_entries_survive_a_scan() -> None:
    cache: VipCache[int] = VipCache(1 << 30, 1000)
    for key in range(100):
        cache.put(("hot", key), key, 100)
    for _ in range(3):
        assert all(cache.get(("hot", key)) == key for key in range(100))
    for key in range(10_000):
        assert cache.get(key) is None
        cache.put(key, key, 100)
    assert all(("hot", key) in cache for key in range(100))
    assert len(cache) == 1000


def test_a_vip_goes_when_nothing_else_is_left() -> None:
    cache: VipCache[str] = VipCache(1 << 20, 3)
    for key in "abc":
        cache.put(key, key, 1)
        for _ in range(3):
            cache.get(key)
    cache.put("d", "d", 1)
    assert "a" not in cache and "d" in cache  # the least recently used of the VIPs made room
    cache.put("e", "e", 1)
    assert "d" not in cache and all(key in cache for key in "bce")


def test_counts_halve() -> None:
    cache: VipCache[str] = VipCache(1 << 20, 3)
    cache.put("once popular", "", 1)
    for _ in range(3):
        cache.get("once popular")
    assert cache.is_vip("once popular")
    for _ in range(2 * vip_cache.HALVING_LOOKUPS):
        cache.get("absent")
    assert not cache.is_vip("once popular")


def test_size_is_bounded() -> None:
    cache: VipCache[bytes] = VipCache(100_000, 1_000_000)
    for key in range(1000):
        cache.put(key, b"", key)
        assert cache.size <= 100_000
    cache.put("giant", b"", 60_000)
    assert "giant" not in cache and len(cache) > 50
    cache.clear()
    assert cache.size == 0 and len(cache) == 0


class Model:
    """The same rule, slowly: a list in the order of use."""

    def __init__(self, count_max: int, size_max: int) -> None:
        self.count_max, self.size_max = count_max, size_max
        self.entries: list[list[int]] = []  # key, count, size; the most recently used is last
        self.vips: set[int] = set()

    def get(self, key: int) -> bool:
        for entry in self.entries:
            if entry[0] == key:
                entry[1] += 1
                self.entries.remove(entry)
                self.entries.append(entry)
                if entry[1] >= 3:
                    self.vips.add(key)
                return True
        return False

    def put(self, key: int, size: int) -> None:
        self.entries = [entry for entry in self.entries if entry[0] != key]
        self.vips.discard(key)
        if size > self.size_max // 2:
            return
        while len(self.entries) >= self.count_max or size + sum(e[2] for e in self.entries) > self.size_max:
            ordinary = [entry for entry in self.entries if entry[0] not in self.vips]
            gone = (ordinary or self.entries)[0]
            self.entries.remove(gone)
            self.vips.discard(gone[0])
        self.entries.append([key, 0, size])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 700)), max_size=200))
def test_rule_as_a_model(operations: list[tuple[int, int]]) -> None:
    cache: VipCache[int] = VipCache(10_000, 6)
    model = Model(6, 10_000)
    for key, size in operations:
        if size % 3:
            assert (cache.get(key) is not None) == model.get(key)
        else:
            cache.put(key, size, 5 * size)
            model.put(key, 5 * size + ENTRY_OVERHEAD)
        assert {entry[0] for entry in model.entries} == {k for k in range(13) if k in cache}
        assert model.vips == {k for k in range(13) if cache.is_vip(k)}
        assert cache.size == sum(entry[2] for entry in model.entries)


def test_many_threads_and_forks() -> None:
    cache: VipCache[int] = VipCache(1 << 20, 50)
    stop = threading.Event()

    def work(seed: int) -> None:
        source = random.Random(seed)
        while not stop.is_set():
            key = source.randrange(200)
            if cache.get(key) is None:
                cache.put(key, key, key)

    def put() -> None:
        cache.put("child", 1, 1)
        entries = (*cache._ordinary.values(), *cache._vips.values())
        assert cache.size == sum(entry.size for entry in entries)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            in_child(put)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert len(cache) <= 50


# ---- in memory ----


def test_footer_equals_pyarrow(small: Path, wide: Path) -> None:
    for path in (small, wide):
        found = load_one(open_source(path))
        metadata = pq.read_metadata(path)
        assert (found.row_count, found.row_group_count) == (metadata.num_rows, metadata.num_row_groups)
        assert [name for name, _ in found.fields] == metadata.schema.to_arrow_schema().names
        assert found.fields == FlatFooter(found.blob).fields


def test_second_time_nothing_is_read(small: Path, wide: Path) -> None:
    cache = FooterCache(disk=False)
    first = [CountingSource(open_source(path)) for path in (small, wide)]
    again = [CountingSource(open_source(path)) for path in (small, wide)]
    blobs = [found.blob for found in footer.load(first, cache=cache)]
    assert [found.blob for found in footer.load(again, cache=cache)] == blobs
    assert [source.request_count for source in (*first, *again)] == [1, 2, 0, 0]
    assert first[0].byte_count == small.stat().st_size
    front = pq.read_metadata(wide).serialized_size + 8 - footer.TAIL_SIZE
    assert [size for _, size in first[1].log] == [footer.TAIL_SIZE, front]


def test_known_size_of_a_footer_is_read_at_once(wide: Path, tmp_path: Path) -> None:
    cache = FooterCache(disk=False)
    path = tmp_path / "again.parquet"
    shutil.copy(wide, path)
    load_one(open_source(path), cache)
    path.unlink()
    write(path, columns=1000, rows=3)
    source = CountingSource(open_source(path))
    assert load_one(source, cache).row_count == 3
    assert source.request_count == 1


def test_many_files_are_one_visit(tmp_path: Path, engine_visits: list[int]) -> None:
    paths = [write(tmp_path / f"{number}.parquet", rows=number + 1) for number in range(20)]
    found = footer.load([open_source(path) for path in paths], cache=FooterCache())
    assert [one.row_count for one in found] == list(range(1, 21))
    assert engine_visits == [20]
    assert len({id(one.fields) for one in found}) == 1  # the same columns are kept once


def test_typical_entry_is_small(tmp_path: Path) -> None:
    numbers = range(4000)
    kinds: list[Any] = [
        pa.array(numbers, pa.int64()),
        pa.array(numbers, pa.float64()),
        pa.array(list(map(str, numbers))),
        pa.array(numbers, pa.int32()),
    ]
    table = pa.table({f"column_{i:02}": kinds[i % 4] for i in range(20)})
    pq.write_table(table, tmp_path / "typical.parquet", row_group_size=1000)
    settle(tmp_path / "typical.parquet")
    cache = FooterCache(disk=False)
    load_one(open_source(tmp_path / "typical.parquet"), cache)
    assert 0 < cache.blobs.size <= 4096


def test_changed_file_is_noticed(tmp_path: Path) -> None:
    cache = FooterCache()
    path = tmp_path / "changing.parquet"
    for first in range(30):  # the same size, and no pause: times of files alone would not tell them apart
        table = pa.table({"a": range(1000 + first, 1100 + first)})
        pq.write_table(table, path)
        chunk = load_one(open_source(path), cache).chunk(0, 0)
        assert int.from_bytes(chunk.min or b"", "little") == 1000 + first
    settle(path)
    times = path.stat().st_mtime_ns
    load_one(open_source(path), cache)
    pq.write_table(pa.table({"a": range(5000, 5100)}), path)
    os.utime(path, ns=(times, times))
    chunk = load_one(open_source(path), cache).chunk(0, 0)
    assert int.from_bytes(chunk.min or b"", "little") == 5000


def test_from_memory_and_threads(small: Path, wide: Path) -> None:
    cache = FooterCache(size_max=1 << 20)
    data = [BytesSource(path.read_bytes()) for path in (small, wide)]
    expected = [found.blob for found in footer.load(data, cache=FooterCache(disk=False))]
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(5):
                assert [found.blob for found in footer.load(data, cache=cache)] == expected
        except BaseException as caught:
            failures.append(caught)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


# ---- from other machines ----


@pytest.fixture
def server(wide: Path) -> Iterator[RangeServer]:
    made = RangeServer(wide.read_bytes())
    yield made
    made.close()


def test_remote_footer(server: RangeServer, wide: Path) -> None:
    cache = FooterCache(disk=False)
    gate = IoGate()
    source = gate.open(server.url(), default_options(), tail_size=footer.TAIL_SIZE)
    (found,) = footer.load([source], gate=gate, cache=cache)
    assert found.blob == load_one(open_source(wide)).blob
    assert len(server.log) == gate.request_count == 2  # the tail came with opening it, then the rest
    footer.load([gate.open(server.url(), default_options())], gate=gate, cache=cache)
    assert len(server.log) == 3


def test_remote_tails_come_together(small: Path) -> None:
    server = RangeServer(small.read_bytes())
    inside = 0
    are_together = threading.Event()

    def hook(handler: object, number: int) -> bool:
        nonlocal inside
        with server.lock:
            inside += 1
            if inside == 2:  # threads that others have given up may hold the rest of the pool
                are_together.set()
        are_together.wait(10)  # the machine may be busy
        with server.lock:
            inside -= 1
        return False

    try:
        sources = [open_source(server.url(f"/{number}")) for number in range(12)]
        server.hook = hook
        found = footer.load(sources, cache=FooterCache(disk=False))
        assert len({one.blob for one in found}) == 1
        assert are_together.is_set()
    finally:
        server.close()


def test_remote_failure_names_the_file(small: Path) -> None:
    server = RangeServer(small.read_bytes())
    try:
        sources = [open_source(server.url(f"/{number}")) for number in range(5)]
        server.hook = lambda handler, number: handler.path == "/3" and handler.fail(403)
        problem = failure(lambda: footer.load(sources, cache=FooterCache(disk=False)))
        assert problem.code == "ACCESS_DENIED" and "/3" in problem.message
    finally:
        server.close()


def default_options() -> StoreOptions:
    return StoreOptions(back_off=0.001)


# ---- on disk ----


def entries(cache_directory: Path) -> list[Path]:
    return sorted((cache_directory / "footers").glob("*"))


def test_shared_by_processes(wide: Path, cache_directory: Path, engine_visits: list[int]) -> None:
    blob = load_one(open_source(wide)).blob
    (entry,) = entries(cache_directory)
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600
    assert stat.S_IMODE(entry.parent.stat().st_mode) == 0o700
    source = CountingSource(open_source(wide))
    assert load_one(source, FooterCache()).blob == blob  # another cache stands for another process
    assert engine_visits == [1]
    assert source.byte_count == footer.TAIL_SIZE


def test_small_local_footers_stay_in_memory(small: Path, cache_directory: Path) -> None:
    load_one(open_source(small))
    assert not (cache_directory / "footers").exists()
    server = RangeServer(small.read_bytes())
    try:
        load_one(open_source(server.url()))
        assert len(entries(cache_directory)) == 1
        again = open_source(server.url())
        requests = len(server.log)
        load_one(again)
        assert len(server.log) == requests
    finally:
        server.close()


def damage(entry: Path, how: str) -> None:
    data = entry.read_bytes()
    other = entry.with_name("other")
    if how == "truncated":
        entry.write_bytes(data[: len(data) // 2])
    elif how == "empty":
        entry.write_bytes(b"")
    elif how == "longer":
        entry.write_bytes(data + b"\0")
    elif how.startswith("flipped"):
        position = {"magic": 0, "key": 9, "checksum": 41, "size": 45, "blob": len(data) // 2}[how.split()[1]]
        entry.write_bytes(data[:position] + bytes([data[position] ^ 4]) + data[position + 1 :])
    elif how == "readable by others":
        entry.chmod(0o644)
    elif how == "a link":
        other.write_bytes(data)
        other.chmod(0o600)
        entry.unlink()
        entry.symlink_to(other)
    elif how == "a pipe":
        entry.unlink()
        os.mkfifo(entry, 0o600)


@pytest.mark.parametrize(
    "how",
    ["truncated", "empty", "longer", "readable by others", "a link", "a pipe"]
    + [f"flipped {what}" for what in ("magic", "key", "checksum", "size", "blob")],
)
def test_damage_is_ignored_and_replaced(
    wide: Path, cache_directory: Path, engine_visits: list[int], how: str
) -> None:
    blob = load_one(open_source(wide)).blob
    (entry,) = entries(cache_directory)
    damage(entry, how)
    assert load_one(open_source(wide)).blob == blob
    assert engine_visits == [1, 1]
    assert not entry.is_symlink() and stat.S_IMODE(entry.stat().st_mode) == 0o600
    assert load_one(open_source(wide)).blob == blob
    assert engine_visits == [1, 1]


def test_entry_that_cannot_be_replaced(wide: Path, cache_directory: Path) -> None:
    blob = load_one(open_source(wide)).blob
    (entry,) = entries(cache_directory)
    entry.unlink()
    (entry / "inside").mkdir(parents=True)
    assert load_one(open_source(wide)).blob == blob
    assert entries(cache_directory) == [entry]  # and nothing temporary is left


@pytest.mark.parametrize("what", ["cache is a file", "footers is a link", "open to others", "no such place"])
def test_unusable_folder(
    wide: Path, cache_directory: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if what == "cache is a file":
        cache_directory.write_text("")
    elif what == "footers is a link":
        cache_directory.mkdir(mode=0o700)
        elsewhere = cache_directory.parent / "elsewhere"
        elsewhere.mkdir(mode=0o700)
        (cache_directory / "footers").symlink_to(elsewhere)
    elif what == "open to others":
        (cache_directory / "footers").mkdir(parents=True)
        cache_directory.chmod(0o700)
        (cache_directory / "footers").chmod(0o777)
    else:
        monkeypatch.setenv("QUERYMODE_CACHE_DIR", "/proc/none/cache")
    for _ in range(2):
        assert load_one(open_source(wide)).column_count == 1000
    assert not list(cache_directory.parent.rglob("*.flat"))


def test_full_disk(wide: Path, cache_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "no space")

    monkeypatch.setattr(os, "replace", refuse)
    assert load_one(open_source(wide)).column_count == 1000
    assert entries(cache_directory) == []


def test_another_engine_finds_nothing(
    wide: Path, monkeypatch: pytest.MonkeyPatch, engine_visits: list[int]
) -> None:
    load_one(open_source(wide))
    monkeypatch.setattr(footer_cache, "_engine_stamp", lambda: "another build")
    load_one(open_source(wide))
    assert engine_visits == [1, 1]


PROCESS = """
import sys
from querymode.format.footer_cache import FooterCache
from querymode.format.parquet import footer
from querymode.store.private_cache import PrivateCache
from querymode.store.open import open_source
folder, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
import os, random
source = random.Random(seed)
paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
cache = os.path.join(os.environ["QUERYMODE_CACHE_DIR"], "footers")
for _ in range(count):
    for path in paths:
        (found,) = footer.load([open_source(path)], cache=FooterCache())
        expected = int(os.path.basename(path).split(".")[0])
        assert found.row_count == expected, (found.row_count, expected)
    for name in os.listdir(cache):
        action = source.randrange(8)
        try:
            if action == 0:
                os.unlink(os.path.join(cache, name))
            elif action == 1 and name.endswith(".flat"):
                with open(os.path.join(cache, name), "r+b") as file:
                    file.seek(source.randrange(2000))
                    file.write(bytes([source.randrange(256)]))
            elif action == 2:
                PrivateCache("footers", magic=8 * b"?", suffix=".flat", size_max=100_000, count_max=2).trim()
        except FileNotFoundError:
            pass
"""


def test_concurrent_processes(tmp_path: Path, cache_directory: Path) -> None:
    """They write, trim, remove and damage the same entries; every answer stays right."""
    folder = tmp_path / "files"
    folder.mkdir()
    for rows in (1, 2, 3):
        write(folder / f"{rows}.parquet", columns=300, rows=rows)
    cache_directory.mkdir(mode=0o700)
    for code in USER_CACHE.glob("engine-*.code"):  # or each of them compiles the engine
        shutil.copy(code, cache_directory)
    children = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(folder), "12", str(seed)],
            cwd=ROOT,
            env={**os.environ, "QUERYMODE_CACHE_DIR": str(cache_directory)},
            stderr=subprocess.PIPE,
        )
        for seed in range(3)
    ]
    for child in children:
        _, words = child.communicate(timeout=120)
        assert child.returncode == 0, words.decode()
    assert not [path for path in entries(cache_directory) if path.suffix == ".new"]


def limited(size_max: int, count_max: int) -> PrivateCache:
    """The footers on disk, with other limits."""
    return PrivateCache("footers", magic=8 * b"?", suffix=".flat", size_max=size_max, count_max=count_max)


def test_trim_forgets_the_oldest(cache_directory: Path) -> None:
    folder = cache_directory / "footers"
    cache_directory.mkdir(mode=0o700)
    folder.mkdir(mode=0o700)
    for age in range(20):
        path = folder / f"{age:02}.flat"
        path.write_bytes(b"x" * 10_000)
        os.utime(path, (time.time() - age * 60, time.time() - age * 60))
    (folder / "left.123.new").write_bytes(b"")
    os.utime(folder / "left.123.new", (0, 0))
    (folder / "fresh.123.new").write_bytes(b"")
    limited(1 << 20, 20).trim()
    assert len(entries(cache_directory)) == 21  # only what a writer left behind is gone
    limited(1 << 20, 19).trim()
    assert [path.name for path in entries(cache_directory)][:14] == [f"{age:02}.flat" for age in range(14)]
    assert len(list(folder.glob("*.flat"))) == 14
    limited(100_000, 100).trim()
    assert len(list(folder.glob("*.flat"))) == 7


# ---- what is no Parquet ----


@pytest.mark.parametrize(
    ("data", "expected_code", "other_code", "words"),
    [
        (b"", "INVALID_FORMAT", "INVALID_FORMAT", "is empty"),
        (b"PAR1", "INVALID_FORMAT", "INVALID_FORMAT", "no Parquet file"),
        (b"PAR1" + b"\1" * 100, "INVALID_FORMAT", "INVALID_FORMAT", "end is missing"),
        (b"PAR1" + b"\xff" * 70_000, "INVALID_FORMAT", "INVALID_FORMAT", "end is missing"),
        (b"PAR1" + b"\0" * 20 + b"PARE", "NOT_SUPPORTED", "NOT_SUPPORTED", "encrypted"),
        (b"ARROW1\0\0" + b"\0" * 30, "INVALID_FORMAT", "NOT_SUPPORTED", "an Arrow file"),
        (b"\0" * 100_000, "INVALID_FORMAT", "INVALID_FORMAT", "zeros"),
        (b"\1\2\3\4" * 10 + b"LANC", "INVALID_FORMAT", "NOT_SUPPORTED", "a Lance file"),
        (b"a,b\n1,2\n", "INVALID_FORMAT", "NOT_SUPPORTED", "CSV"),
        ("größe,ß\n".encode() * 30, "INVALID_FORMAT", "NOT_SUPPORTED", "CSV"),
        (b' {"a": 1}\n', "INVALID_FORMAT", "NOT_SUPPORTED", "JSON"),
        (b"Obj\x01" + b"\xfe" * 50, "INVALID_FORMAT", "NOT_SUPPORTED", "Avro"),
        (b"\xde\xad\xbe\xef\x01" * 20, "INVALID_FORMAT", "INVALID_FORMAT", "de ad be ef"),
        (b"PAR1" + b"\xff\xff\0\0" + b"PAR1", "INVALID_FORMAT", "INVALID_FORMAT", "65535 of them"),
        (b"PAR1" + b"\xff\xff\xff\xff" + b"PAR1", "INVALID_FORMAT", "INVALID_FORMAT", "of them"),
        (b"PAR1" + b"\1" * 40 + b"\x08\0\0\0" + b"PAR1", "INVALID_FORMAT", "INVALID_FORMAT", "file.bin"),
        (b"PAR1" + b"\0\0\0\0" + b"PAR1", "INVALID_FORMAT", "INVALID_FORMAT", "file.bin"),
    ],
)
def test_bad_files(tmp_path: Path, data: bytes, expected_code: str, other_code: str, words: str) -> None:
    path = tmp_path / "file.bin"
    path.write_bytes(data)
    for code, saw in ((expected_code, None), (other_code, lambda head, tail: None)):
        with raises_code(code) as caught:
            load_one(open_source(path), saw=saw)
        assert str(path) in caught.value.message and words in caught.value.message
    assert not (tmp_path / "cache" / "footers").exists()


def test_one_bad_file_among_many(tmp_path: Path, small: Path) -> None:
    data = bytearray(small.read_bytes())
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    data[start : start + 20] = b"\xff" * 20
    bad = tmp_path / "bad.parquet"
    bad.write_bytes(data)
    problem = failure(lambda: footer.load([open_source(path) for path in (small, bad, small)]))
    assert problem.code == "INVALID_FORMAT" and str(bad) in problem.message
    assert problem.offset is not None and start <= problem.offset < start + 20  # in the file, not the footer


@pytest.mark.alone
def test_wide_and_long_footer_is_quick(tmp_path: Path) -> None:
    """300 columns × 30 row groups; the bars for 1,000 × 100 are the benchmark's."""
    path = write(tmp_path / "long.parquet", columns=300, rows=60, row_groups=30)
    cache = FooterCache()
    load_one(open_source(path), cache)
    best = 1.0
    for _ in range(3):
        start = time.perf_counter()
        load_one(open_source(path), FooterCache())
        best = min(best, time.perf_counter() - start)
    assert best < 0.025  # from the disk: about 1 ms
