"""The private cache directory: bytes in, the same bytes out, or nothing; and what is kept when it is full.

What has to be right about an entry before it is used is also tested with machine code
(tests/abi/test_code_cache.py) and footers (test_footer_cache.py).
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
import threading
import time
import zlib
from pathlib import Path

import pytest

from querymode.store.private_cache import PrivateCache, entry_key

MAGIC = b"QMPLAN\x01\n"
KEY = entry_key("plan", "SELECT 1")
DATA = bytes(range(256)) * 20


def make(size_max: int = 1 << 20, count_max: int = 1000, *, exact: bool = False) -> PrivateCache:
    return PrivateCache(
        "plans", magic=MAGIC, suffix=".plan", size_max=size_max, count_max=count_max, exact=exact
    )


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "home" / "cache"
    monkeypatch.setenv("QUERYMODE_CACHE_DIR", str(path))
    return path


@pytest.fixture
def entry(directory: Path) -> Path:
    """A good entry's file."""
    assert make().write(KEY, DATA)
    (path,) = (directory / "plans").iterdir()
    return path


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one whenever a folder is looked through."""
    calls: list[int] = []
    plain = os.scandir

    def counting(folder: int) -> object:
        calls.append(1)
        return plain(folder)

    monkeypatch.setattr(os, "scandir", counting)
    return calls


def age(path: Path, seconds: float) -> None:
    os.utime(path, (time.time() - seconds, time.time() - seconds))


# ---- what is used ----


@pytest.mark.parametrize("data", [b"", b"x", DATA])
def test_round_trip(directory: Path, data: bytes) -> None:
    assert make().read(KEY) is None and not directory.exists()  # reading makes nothing
    assert make().write(KEY, data)
    assert make().read(KEY) == data
    assert make().read(entry_key("plan", "SELECT 2")) is None
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE((directory / "plans").stat().st_mode) == 0o700


def test_layout(entry: Path) -> None:
    """Drawn at the top of store/private_cache.py; entries of earlier versions stay good."""
    head = struct.pack("<8s32sIQ", MAGIC, KEY, zlib.crc32(KEY + DATA), len(DATA))
    assert entry.read_bytes() == head + DATA
    assert entry.name == f"{hashlib.sha256(b'plan' + bytes(1) + b'SELECT 1').hexdigest()[:40]}.plan"
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600


def test_another_magic_is_another_cache(entry: Path) -> None:
    other = PrivateCache("plans", magic=b"QMPLAN\x02\n", suffix=".plan", size_max=1 << 20)
    assert other.read(KEY) is None
    assert other.write(KEY, b"new") and other.read(KEY) == b"new"
    assert make().read(KEY) is None


@pytest.mark.parametrize("position", [0, 8, 39, 40, 43, 44, 51, 52, -1])
def test_a_flipped_bit_is_noticed(entry: Path, position: int) -> None:
    data = bytearray(entry.read_bytes())
    data[position] ^= 1
    entry.write_bytes(data)
    assert make().read(KEY) is None
    assert make().write(KEY, DATA) and make().read(KEY) == DATA


@pytest.mark.parametrize("mode", [0o644, 0o620, 0o700, 0o400, 0o4600])
def test_file_mode(entry: Path, mode: int) -> None:
    entry.chmod(mode)
    assert make().read(KEY) is None
    assert make().write(KEY, DATA) and make().read(KEY) == DATA


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o1777])
@pytest.mark.parametrize("inner", [False, True])
def test_directory_mode(directory: Path, entry: Path, inner: bool, mode: int) -> None:
    (directory / "plans" if inner else directory).chmod(mode)
    assert make().read(KEY) is None
    assert not make().write(KEY, b"new")
    make().trim()
    assert entry.exists()


@pytest.mark.parametrize("what", ["entry", "folder", "directory"])
def test_links_are_not_followed(directory: Path, entry: Path, tmp_path: Path, what: str) -> None:
    link = {"entry": entry, "folder": entry.parent, "directory": directory}[what]
    link.symlink_to(link.rename(tmp_path / "elsewhere"))
    assert make().read(KEY) is None
    assert make().write(KEY, DATA) is (what == "entry")
    assert link.is_symlink() is (what != "entry")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("what", ["entry", "folder", "directory"])
def test_somebody_elses(directory: Path, entry: Path, what: str) -> None:
    path = {"entry": entry, "folder": entry.parent, "directory": directory}[what]
    os.chown(path, 12345, 12345)
    assert make().read(KEY) is None
    assert make().write(KEY, DATA) is (what == "entry")


def test_not_a_file(entry: Path) -> None:
    entry.unlink()
    os.mkfifo(entry, 0o600)
    assert make().read(KEY) is None  # and does not wait for a writer
    entry.unlink()
    entry.mkdir(0o700)
    assert make().read(KEY) is None
    assert not make().write(KEY, DATA)
    assert list(entry.parent.iterdir()) == [entry]  # and nothing temporary is left


@pytest.mark.parametrize("place", ["/proc/none/cache", "/dev/null", "/dev/null/cache"])
def test_no_place_is_no_error(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.setenv("QUERYMODE_CACHE_DIR", place)
    assert make().read(KEY) is None
    assert not make().write(KEY, DATA)
    make().trim()


def test_a_folder_that_appears_is_used() -> None:
    with make().opened() as opened:
        assert opened.read(KEY) is None  # there is no folder yet
        assert opened.write(KEY, DATA)
        assert opened.read(KEY) == DATA


def test_threads_share_a_cache() -> None:
    cache = make()
    wrong: list[object] = []

    def work(number: int) -> None:
        for _ in range(50):
            cache.write(KEY, bytes([number]) * 5000)
            found = cache.read(KEY)
            if found is None or len(found) != 5000 or len(set(found)) != 1:
                wrong.append(found)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# ---- what is kept ----


def test_too_large_is_not_kept(directory: Path) -> None:
    assert not make(4000).write(KEY, b"x" * 1001)
    assert not directory.exists()
    assert make(4000).write(KEY, b"x" * 1000)
    assert make(3996).read(KEY) is None  # as if it were somebody else's


def test_size_stays_near_its_limit(directory: Path, scans: list[int]) -> None:
    """Although the folder is looked through for few of the writes."""
    cache = make(size_max=1 << 20, count_max=1 << 20)
    largest = 0
    for number in range(1500):
        assert cache.write(entry_key(str(number)), DATA)
        if number % 25 == 0:
            names = os.listdir(directory / "plans")
            largest = max(largest, sum((directory / "plans" / name).stat().st_size for name in names))
    assert 0.75 * (1 << 20) < largest < 2 * (1 << 20)
    assert 20 < len(scans) < 400
    cache.trim()
    assert cache.read(entry_key("1499")) == DATA


def test_count_stays_near_its_limit(directory: Path) -> None:
    cache = make(size_max=1 << 40, count_max=256)
    for number in range(1000):
        assert cache.write(entry_key(str(number)), b"small")
    assert 100 < len(list((directory / "plans").iterdir())) < 512


def test_exact_limits_hold_after_every_write(directory: Path) -> None:
    cache = make(count_max=5, exact=True)
    for number in range(9):
        assert cache.write(entry_key(str(number)), DATA)
        age(directory / "plans" / cache.entry_name(entry_key(str(number))), 100 - number)
        assert len(list((directory / "plans").iterdir())) == min(number + 1, 5)
    assert [number for number in range(9) if cache.read(entry_key(str(number)))] == [4, 5, 6, 7, 8]


def test_the_new_entry_stays_even_if_clocks_differ(directory: Path) -> None:
    cache = make(count_max=3, exact=True)
    for number in range(3):
        cache.write(entry_key(str(number)), DATA)
        age(directory / "plans" / cache.entry_name(entry_key(str(number))), -86400)
    assert cache.write(KEY, DATA) and cache.read(KEY) == DATA
    assert len(list((directory / "plans").iterdir())) == 3


def test_reading_keeps_an_entry(directory: Path, entry: Path) -> None:
    age(entry, 10 * 86400)
    cache = make(count_max=2, exact=True)
    assert cache.read(KEY) == DATA
    for number in range(2):
        cache.write(entry_key(str(number)), DATA)
        age(directory / "plans" / cache.entry_name(entry_key(str(number))), 86400 * (2 - number))
    assert cache.write(entry_key("new"), DATA)
    assert cache.read(KEY) == DATA and cache.read(entry_key("0")) is None


def test_strangers_and_what_cannot_go_are_left_alone(directory: Path, entry: Path) -> None:
    folder = entry.parent
    (folder / "notes.txt").write_text("mine")
    (folder / "odd.plan").mkdir()
    age(folder / "odd.plan", 1e6)
    (folder / "left.1.2.new").write_bytes(b"")
    age(folder / "left.1.2.new", 7200)
    (folder / "fresh.1.2.new").write_bytes(b"")
    assert make(count_max=1, exact=True).write(entry_key("new"), DATA)
    names = {path.name for path in folder.iterdir()}
    assert {"notes.txt", "odd.plan", "fresh.1.2.new"} < names and "left.1.2.new" not in names
    assert make().read(entry_key("new")) == DATA
