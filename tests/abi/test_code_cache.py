"""Machine code on disk: used when everything about it is right, ignored and rewritten otherwise."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import wasmtime

from querymode.engine import code_cache as _code_cache
from querymode.engine.instance import Instance
from querymode.engine.program import Program
from querymode.store import private_cache as _private_cache
from querymode.store.private_cache import cache_directory, entry_key
from tests.abi.stub import stub_wasm
from tests.forked import in_child

KEY = entry_key("engine", "configuration")
CODE = bytes(range(256)) * 40


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "home" / "cache"
    monkeypatch.setenv("QUERYMODE_CACHE_DIR", str(path))
    return path


@pytest.fixture
def entry(directory: Path) -> Path:
    """A good entry's file."""
    assert _code_cache.store(KEY, CODE)
    (path,) = directory.iterdir()
    return path


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Counts compilations."""
    calls: list[int] = []
    plain = Program._compile

    def counting(self: Program, engine: wasmtime.Engine) -> wasmtime.Module:
        calls.append(1)
        return plain(self, engine)

    monkeypatch.setattr(Program, "_compile", counting)
    yield calls


def use_engine() -> None:
    with Instance(program=Program(stub_wasm())) as instance:
        assert instance.alloc(100)


def test_round_trip_and_modes(directory: Path, entry: Path) -> None:
    assert _code_cache.load(KEY) == CODE
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600
    assert _code_cache.load(entry_key("engine", "other")) is None


def test_umask_does_not_matter(directory: Path) -> None:
    old = os.umask(0o277)
    try:
        stored = _code_cache.store(KEY, CODE)
    finally:
        os.umask(old)
    assert stored is (_code_cache.load(KEY) == CODE)


@pytest.mark.parametrize("position", [0, 8, 20, 40, 75, 80, 81, 5000, -1])
def test_a_flipped_bit_is_noticed(entry: Path, position: int) -> None:
    data = bytearray(entry.read_bytes())
    data[position] ^= 1
    entry.write_bytes(data)
    assert _code_cache.load(KEY) is None


@pytest.mark.parametrize("size", [0, 1, 79, 80, 81, -1])
def test_a_truncated_entry_is_noticed(entry: Path, size: int) -> None:
    entry.write_bytes(entry.read_bytes()[:size])
    assert _code_cache.load(KEY) is None


def test_bytes_at_the_end_are_noticed(entry: Path) -> None:
    entry.write_bytes(entry.read_bytes() + b"x")
    assert _code_cache.load(KEY) is None


@pytest.mark.parametrize("mode", [0o644, 0o620, 0o666, 0o700, 0o400])
def test_file_mode(entry: Path, mode: int) -> None:
    entry.chmod(mode)
    assert _code_cache.load(KEY) is None
    assert _code_cache.store(KEY, CODE) and _code_cache.load(KEY) == CODE


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o777, 0o1777])
def test_directory_mode(directory: Path, entry: Path, mode: int) -> None:
    directory.chmod(mode)
    assert _code_cache.load(KEY) is None
    assert not _code_cache.store(KEY, CODE)


def test_links_are_not_followed(directory: Path, entry: Path, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    entry.rename(target)
    entry.symlink_to(target)
    assert _code_cache.load(KEY) is None
    assert _code_cache.store(KEY, CODE)
    assert not entry.is_symlink() and _code_cache.load(KEY) == CODE
    real = directory.rename(tmp_path / "real")
    directory.symlink_to(real)
    assert _code_cache.load(KEY) is None
    assert not _code_cache.store(KEY, CODE)


def test_not_a_file(entry: Path) -> None:
    entry.unlink()
    os.mkfifo(entry, 0o600)
    assert _code_cache.load(KEY) is None  # and does not wait for a writer
    entry.unlink()
    entry.mkdir(0o700)
    assert _code_cache.load(KEY) is None
    assert not _code_cache.store(KEY, CODE)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_somebody_elses_file_or_directory(directory: Path, entry: Path) -> None:
    os.chown(entry, 12345, 12345)
    assert _code_cache.load(KEY) is None
    assert _code_cache.store(KEY, CODE) and _code_cache.load(KEY) == CODE
    os.chown(directory, 12345, 12345)
    assert _code_cache.load(KEY) is None
    assert not _code_cache.store(KEY, CODE)


@pytest.mark.parametrize("path", ["/proc/querymode", "/dev/null/querymode", "with\0nul", "/dev/null"])
def test_a_directory_that_cannot_be_is_no_error(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr(_private_cache, "cache_directory", lambda: path)
    assert not _code_cache.store(KEY, CODE)
    assert _code_cache.load(KEY) is None
    use_engine()


def test_a_read_only_home_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "read_only"
    home.mkdir(0o555)
    monkeypatch.setenv("QUERYMODE_CACHE_DIR", str(home / "cache"))
    program = Program(stub_wasm())

    def work() -> None:
        if os.geteuid() == 0:
            os.seteuid(65534)  # root writes everywhere
        assert not _code_cache.store(KEY, CODE)
        assert _code_cache.load(KEY) is None
        with Instance(program=program) as instance:
            assert instance.alloc(100)

    use_engine()  # so that every import is done while files can be read
    if (home / "cache").exists():
        shutil.rmtree(home / "cache")
    in_child(work)


def test_where_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_directory().endswith("home/cache")
    monkeypatch.delenv("QUERYMODE_CACHE_DIR")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_directory() == "/somewhere/querymode"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_directory() == "/home/me/.cache/querymode"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache_directory() == "/home/me/Library/Caches/querymode"


def test_old_entries_go(directory: Path) -> None:
    keys = [entry_key("engine", str(number)) for number in range(12)]
    for age, key in enumerate(keys):
        assert _code_cache.store(key, CODE)
        path = directory / _code_cache.CACHE.entry_name(key)
        if path.exists():
            os.utime(path, (1e9 + age, 1e9 + age))
    abandoned = directory / "engine-x.code.1.2.new"
    abandoned.write_bytes(b"")
    os.utime(abandoned, (1e9, 1e9))
    stranger = directory / "notes.txt"
    stranger.write_text("mine")
    assert _code_cache.store(keys[11], CODE)
    assert len(list(directory.glob("*.code"))) == 8
    assert [key for key in keys if _code_cache.load(key)] == keys[4:]
    assert not abandoned.exists() and stranger.exists()


def test_compiled_once(compiled: list[int], directory: Path) -> None:
    use_engine()
    use_engine()
    assert len(compiled) == 1
    assert len(list(directory.iterdir())) == 1


def test_a_damaged_entry_is_compiled_and_rewritten(compiled: list[int], directory: Path) -> None:
    use_engine()
    (entry,) = directory.iterdir()
    data = bytearray(entry.read_bytes())
    data[len(data) // 2] ^= 0xFF
    entry.write_bytes(data)
    use_engine()
    use_engine()
    assert len(compiled) == 2


def test_code_that_wasmtime_refuses_is_compiled_and_rewritten(
    compiled: list[int], directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(_code_cache, "store", lambda key, code: keys.append(key))
        keys: list[bytes] = []
        use_engine()
    assert _code_cache.store(keys[0], b"\x7fELF and then nonsense")
    use_engine()
    use_engine()
    assert len(compiled) == 2


def test_configurations_do_not_share_code(
    compiled: list[int], directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("QUERYMODE_HARDENED", raising=False)
    program = Program(stub_wasm())
    with (
        Instance(program=program),
        Instance(program=program, hardened=True),
        Instance(program=program, hardened=True),
    ):
        assert len(compiled) == 2
        assert len(list(directory.iterdir())) == 2


def test_many_processes_at_once(directory: Path) -> None:
    script = "import test_code_cache as t; t.use_engine()"
    here = Path(__file__).parent
    environment = {**os.environ, "PYTHONPATH": f"{here}:{here.parent.parent}"}
    workers = [subprocess.Popen([sys.executable, "-c", script], env=environment) for _ in range(4)]
    assert [worker.wait(60) for worker in workers] == [0] * 4
    assert [path.suffix for path in directory.iterdir()] == [".code"]
