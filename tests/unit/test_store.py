"""Local and in-memory sources, what may be read, and names without credentials."""

from __future__ import annotations

import os
import pickle
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from querymode import QueryModeError
from querymode.store import local
from querymode.store.counting import CountingSource
from querymode.store.local import LocalFile
from querymode.store.location import HttpUrl, display_name, scheme_of
from querymode.store.memory import BytesSource
from querymode.store.open import open_source
from querymode.store.options import StoreOptions
from querymode.store.source import Patience, ReadCancelled
from tests.raises import raises_code

ROOT = Path(__file__).resolve().parents[2]
DATA = bytes(range(256)) * 64


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "file.bin"
    file.write_bytes(DATA)
    return file


def code_of(action: Callable[[], object]) -> str:
    with pytest.raises(QueryModeError) as caught:
        action()
    assert caught.value.message
    return caught.value.code


# ---- reading ----


def test_local_file(path: Path) -> None:
    with open_source(path) as source:
        assert (source.size, source.local, source.name) == (len(DATA), True, str(path))
        assert source.read(0, 10) == DATA[:10]
        assert source.read(len(DATA), 0) == b""
        assert source.read_tail(5) == DATA[-5:]
        assert source.read_tail(1 << 30) == DATA
        status = path.stat()
        assert source.identity == (
            status.st_dev,
            status.st_ino,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
        )
        source.prefetch([(0, 100), (1000, 100)])
        source.verify_unchanged()
        assert "file.bin" in repr(source)


@pytest.mark.parametrize("kind", ["local", "memory"])
def test_ranges_are_read_into_views(path: Path, kind: str) -> None:
    source = LocalFile(str(path)) if kind == "local" else BytesSource(DATA)
    memory = bytearray(10_000)
    views = memoryview(memory)
    # Adjacent, apart, backwards, overlapping, empty.
    wanted = [(0, 100), (100, 50), (150, 1), (5000, 1000), (10, 20), (15, 20), (200, 0), (len(DATA) - 7, 7)]
    ranges, place = [], 0
    for offset, size in wanted:
        ranges.append((offset, views[place : place + size]))
        place += size
    source.read_into(ranges)
    assert bytes(memory[:place]) == b"".join(DATA[offset : offset + size] for offset, size in wanted)
    assert not any(memory[place:])


def test_more_views_than_one_call_takes(path: Path) -> None:
    with LocalFile(str(path)) as source:
        memory = bytearray(len(DATA))
        views = memoryview(memory)
        source.read_into([(offset, views[offset : offset + 4]) for offset in range(0, len(DATA), 4)])
        assert memory == DATA


def test_short_reads_are_continued(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.preadv

    def short(descriptor: int, buffers: list[memoryview], offset: int) -> int:
        return whole(descriptor, [buffers[0][:7]], offset)

    monkeypatch.setattr(os, "preadv", short)
    monkeypatch.setattr(os, "pread", lambda descriptor, size, offset: DATA[offset : offset + size // 2])
    with LocalFile(str(path)) as source:
        memory = memoryview(bytearray(100))
        source.read_into([(5, memory[:30]), (35, memory[30:])])
        assert bytes(memory) == DATA[5:105]
        assert source.read(1, 99) == DATA[1:100]


@pytest.mark.parametrize("source", [BytesSource(DATA), BytesSource(memoryview(DATA))])
def test_memory(source: BytesSource) -> None:
    assert source.local and source.size == len(DATA)
    assert source.read(3, 4) == DATA[3:7]
    assert source.identity == BytesSource(DATA).identity
    assert source.identity != BytesSource(DATA + b"x").identity
    hash(source.identity)


@pytest.mark.parametrize(("offset", "size"), [(-1, 1), (0, len(DATA) + 1), (len(DATA), 1), (1 << 62, 1)])
def test_ranges_outside(path: Path, offset: int, size: int) -> None:
    for source in (LocalFile(str(path)), BytesSource(DATA)):
        assert code_of(lambda: source.read(offset, size)) == "INVALID_FORMAT"  # noqa: B023
        target = memoryview(bytearray(size))
        assert code_of(lambda: source.read_into([(offset, target)])) == "INVALID_FORMAT"  # noqa: B023


def test_views_of_other_types_are_views_of_bytes(path: Path) -> None:
    numbers = memoryview(bytearray(16)).cast("q")
    with LocalFile(str(path)) as source:
        source.read_into([(0, numbers)])
    assert numbers.tobytes() == DATA[:16]


def test_counting(path: Path) -> None:
    source = CountingSource(open_source(path))
    source.read(0, 10)
    source.read_into([(0, memoryview(bytearray(5))), (100, memoryview(bytearray(6)))])
    source.read_tail(3)
    assert source.log == [(0, 10), (0, 5), (100, 6), (len(DATA) - 3, 3)]
    assert (source.request_count, source.byte_count) == (4, 24)
    assert source.local and source.identity == source.source.identity
    source.reset()
    assert source.request_count == 0
    source.prefetch([(0, 1)])
    source.verify_unchanged()
    source.close()


def test_counting_from_many_threads() -> None:
    source = CountingSource(BytesSource(DATA))
    work = [
        threading.Thread(target=lambda: [source.read(0, 3) for _ in range(200)] and None) for _ in range(4)
    ]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert (source.request_count, source.byte_count) == (800, 2400)


def test_one_file_read_by_many_threads(path: Path) -> None:
    failures: list[object] = []
    with LocalFile(str(path)) as source:

        def work(seed: int) -> None:
            for step in range(200):
                offset = (seed * 997 + step * 131) % (len(DATA) - 64)
                view = memoryview(bytearray(64))
                source.read_into([(offset, view)])
                if step % 10 == 0:
                    source.park()
                if bytes(view) != DATA[offset : offset + 64]:
                    failures.append(offset)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []


# ---- files that are not there, or not files ----


def test_missing(tmp_path: Path) -> None:
    assert code_of(lambda: open_source(tmp_path / "none")) == "TABLE_NOT_FOUND"
    assert code_of(lambda: open_source(tmp_path / "none" / "deeper")) == "TABLE_NOT_FOUND"
    assert code_of(lambda: open_source("x" * 5000)) == "TABLE_NOT_FOUND"
    assert code_of(lambda: open_source("a\0b")) == "TABLE_NOT_FOUND"
    assert code_of(lambda: open_source("a\ud800b")) == "TABLE_NOT_FOUND"
    with pytest.raises(FileNotFoundError, match="no file"):
        open_source(tmp_path / "none")


def test_not_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    started = time.monotonic()
    assert code_of(lambda: open_source(tmp_path / "pipe")) == "QUERY_FAILED"
    assert time.monotonic() - started < 1
    assert code_of(lambda: open_source(tmp_path)) == "QUERY_FAILED"
    assert code_of(lambda: open_source("/dev/null")) == "QUERY_FAILED"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_permissions(path: Path) -> None:
    path.chmod(0)
    assert code_of(lambda: open_source(path)) == "ACCESS_DENIED"


def test_permission_errors_have_their_code(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    assert code_of(lambda: open_source(path)) == "ACCESS_DENIED"


def test_device_errors_have_their_code(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(5, "Input/output error")

    with LocalFile(str(path)) as source:
        monkeypatch.setattr(os, "preadv", refuse)
        assert code_of(lambda: source.read_into([(0, memoryview(bytearray(1)))])) == "QUERY_FAILED"


def test_unknown_schemes() -> None:
    assert code_of(lambda: open_source("ftp://host/file")) == "NOT_SUPPORTED"
    assert code_of(lambda: open_source("file://elsewhere/file")) == "NOT_SUPPORTED"


def test_file_urls(tmp_path: Path) -> None:
    (tmp_path / "a b#c?d.bin").write_bytes(b"abc")
    quoted = str(tmp_path).replace(" ", "%20") + "/a%20b%23c%3Fd.bin"
    for url in (f"file://{quoted}", f"file://localhost{quoted}", f"file:{quoted}"):
        assert open_source(url).read(0, 3) == b"abc"


def test_relative_paths_are_below_the_root(path: Path) -> None:
    assert open_source("file.bin", StoreOptions(root=path.parent)).size == len(DATA)
    assert open_source(path, StoreOptions(root="/nowhere")).size == len(DATA)
    assert code_of(lambda: open_source("file.bin", StoreOptions(root="/nowhere"))) == "TABLE_NOT_FOUND"


# ---- files that change ----


def test_a_file_that_was_written_to(path: Path) -> None:
    with LocalFile(str(path)) as source:
        time.sleep(0.02)  # a tick of the file system's clock
        with open(path, "r+b") as file:
            file.write(b"other")
        assert code_of(source.verify_unchanged) == "QUERY_FAILED"


def test_a_file_that_got_shorter(path: Path) -> None:
    with LocalFile(str(path)) as source:
        os.truncate(path, 100)
        assert code_of(lambda: source.read(50, 100)) == "QUERY_FAILED"
        assert code_of(lambda: source.read_into([(200, memoryview(bytearray(5)))])) == "QUERY_FAILED"
        assert code_of(source.verify_unchanged) == "QUERY_FAILED"


def test_a_file_that_was_replaced(path: Path) -> None:
    with LocalFile(str(path)) as source:
        other = path.with_name("other")
        other.write_bytes(b"x" * len(DATA))
        os.replace(other, path)
        assert source.read(0, 9) == DATA[:9]  # still the file that was opened
        with raises_code("QUERY_FAILED", match="changed while it was read"):
            source.verify_unchanged()


def test_a_file_that_was_removed_can_be_read_to_its_end(path: Path) -> None:
    with LocalFile(str(path)) as source:
        path.unlink()
        assert source.read(0, len(DATA)) == DATA
        source.verify_unchanged()


def test_a_parked_file_is_the_same_or_none(path: Path) -> None:
    with LocalFile(str(path)) as source:
        source.park()
        source.verify_unchanged()
        assert source.read(0, 9) == DATA[:9]
        source.park()
        other = path.with_name("other")
        other.write_bytes(DATA)
        os.replace(other, path)
        for _ in range(2):
            assert code_of(lambda: source.read(0, 9)) == "QUERY_FAILED"
        assert code_of(source.verify_unchanged) == "QUERY_FAILED"


def test_more_files_than_descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_KEPT_OPEN_MAX", 20)
    before = len(os.listdir("/proc/self/fd"))
    sources = []
    for number in range(100):
        file = tmp_path / str(number)
        file.write_bytes(b"%3d" % number)
        sources.append(LocalFile(str(file)))
    assert len(os.listdir("/proc/self/fd")) - before < 40
    assert [int(source.read(0, 3)) for source in sources] == list(range(100))
    for source in sources:
        source.close()
    assert len(os.listdir("/proc/self/fd")) <= before


def test_a_process_out_of_descriptors_parks(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    sources = [LocalFile(str(_written(tmp_path / str(number)))) for number in range(8)]
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 4, hard))
    try:
        with pytest.raises(OSError):
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        extra = LocalFile(str(tmp_path / "0"))
        assert extra.read(0, 1) == b"x"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in taken:
            os.close(descriptor)
    assert all(source.read(0, 1) == b"x" for source in sources)


def _written(path: Path) -> Path:
    path.write_bytes(b"x")
    return path


def test_closing(path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    source = LocalFile(str(path))
    source.close()
    source.close()
    assert code_of(lambda: source.read(0, 1)) == "INTERNAL"
    forgotten = LocalFile(str(path))
    del forgotten
    assert len(os.listdir("/proc/self/fd")) == before


def test_descriptors_are_not_inherited(path: Path) -> None:
    with LocalFile(str(path)) as source:
        assert not os.get_inheritable(source._descriptor)


# ---- what may be read ----


def test_allowed_paths(path: Path, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "ok").write_bytes(b"ok")
    (tmp_path / "inside2").write_bytes(b"no")
    (inside / "out").symlink_to(path)
    (inside / "loop").symlink_to(inside / "loop")
    (inside / "here").symlink_to(inside / "ok")
    (inside / "up").symlink_to(tmp_path)
    options = StoreOptions(allowed_paths=[inside], root=inside)
    assert open_source("ok", options).read(0, 2) == b"ok"
    assert open_source(inside / "here", options).read(0, 2) == b"ok"
    assert open_source(inside / "x" / ".." / "ok", options).size == 2
    assert open_source(f"file://{inside}/ok", options).size == 2
    for escape in ("out", "../file.bin", "up/file.bin", f"{inside}/../file.bin", str(path), "../inside2"):
        assert code_of(lambda: open_source(escape, options)) == "ACCESS_DENIED", escape  # noqa: B023
    assert code_of(lambda: open_source(f"file://{inside}/%2e%2e/file.bin", options)) == "ACCESS_DENIED"
    assert code_of(lambda: open_source("missing", options)) == "TABLE_NOT_FOUND"
    # Whether something is there is not told either.
    assert code_of(lambda: open_source("../missing", options)) == "ACCESS_DENIED"


def test_allowed_paths_may_be_files_links_and_relative(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(path)
    assert open_source(path, StoreOptions(allowed_paths=[path])).size == len(DATA)
    assert open_source(path, StoreOptions(allowed_paths=[tmp_path / "link"])).size == len(DATA)
    assert open_source(path, StoreOptions(allowed_paths=["file.bin"], root=tmp_path)).size == len(DATA)
    assert open_source(path, StoreOptions(allowed_paths=["/"])).size == len(DATA)
    assert code_of(lambda: open_source(path, StoreOptions(allowed_paths=[]))) == "ACCESS_DENIED"


def test_a_link_put_in_the_way_after_the_check(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link").symlink_to(path)
    options = StoreOptions(allowed_paths=[inside])
    monkeypatch.setattr(os.path, "realpath", lambda name, **_: str(name))  # as if it were no link yet
    assert code_of(lambda: open_source(inside / "link", options)) == "ACCESS_DENIED"


def test_the_network_can_be_refused() -> None:
    options = StoreOptions(allow_network=False)
    for url in ("http://127.0.0.1:1/x", "https://127.0.0.1:1/x", "s3://bucket/key", "s3a://bucket/key"):
        assert code_of(lambda: open_source(url, options)) == "ACCESS_DENIED"  # noqa: B023


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://host/data/x", True),
        ("https://HOST:443/data/x", True),
        ("https://host/data", True),
        ("https://host/data/a/../x", True),
        ("https://user:pw@host/data/x", True),
        ("https://host/database/x", False),
        ("https://host/x", False),
        ("http://host/data/x", False),
        ("https://host:444/data/x", False),
        ("https://host.evil/data/x", False),
        ("https://host@evil/data/x", False),
        ("https://evil/data/x#@host/data/x", False),
        ("https://host/data/../x", False),
        ("https://host/data/%2e%2E/x", False),
        ("https://host/data/..%2fx", False),
        ("https://host/data/..%5cx", False),
        ("https://host/data/..\\x", False),
        ("https://evil\\@host/data/x", True),  # a user of that name, at the host; others see a host evil
        ("https://host\\@evil/data/x", False),
        ("s3://bucket/in/x", True),
        ("s3a://bucket/in/x", True),
        ("s3://bucket/inside", False),
        ("s3://bucket/in/../x", False),
        ("s3://other/in/x", False),
    ],
)
def test_allowed_urls(url: str, allowed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from querymode.store.http import HttpSource
    from querymode.store.s3 import S3Source

    def opened(self: object, *_: object) -> None:
        raise ReadCancelled  # it was allowed to try

    monkeypatch.setattr(HttpSource, "_open", opened)
    monkeypatch.setattr(S3Source, "_open", opened)
    options = StoreOptions(allowed_paths=["https://host/data", "s3://bucket/in", "/tmp"])
    if allowed:
        with pytest.raises(ReadCancelled):
            open_source(url, options)
    else:
        assert code_of(lambda: open_source(url, options)) in ("ACCESS_DENIED", "TABLE_NOT_FOUND")


# ---- names and options ----


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a/b.parquet", "a/b.parquet"),
        ("https://u:secret@host/p?sig=secret#secret", "https://host/p?…"),
        ("http://host", "http://host/"),
        ("http://[::1]:80/x", "http://[::1]/x"),
        ("http://u:secret@host:bad/x?y", "http://host:bad/x"),
        ("s3://key:secret@bucket/k", "s3://bucket/k"),
        ("az://key:secret@box/k?sig=secret", "az://box/k"),
    ],
)
def test_display_names(path: str, name: str) -> None:
    assert display_name(path) == name
    assert "secret" not in display_name(path)


@pytest.mark.parametrize(
    "url", ["http://", "http:///x", "http://a b/x", "http://h:99999/x", "http://u:secret@:1/"]
)
def test_urls_that_are_none(url: str) -> None:
    with raises_code("TABLE_NOT_FOUND") as caught:
        open_source(url)
    assert "secret" not in str(caught.value)


def test_schemes() -> None:
    assert [scheme_of(text) for text in ("S3://b/k", "a/b", "a b://c", "./x://y", "file:/x", "file.bin")] == [
        "s3",
        "",
        "",
        "",
        "file",
        "",
    ]


def test_redirections_resolve_like_paths() -> None:
    url = HttpUrl("https://u:p@host/a/b?q")
    assert url.joined("../c?x").target == "https://host/c?x"
    assert url.joined("//other/c").target == "https://other/c"
    with pytest.raises(ValueError):
        url.joined("file:///etc/passwd")


def test_options_hide_credentials_and_scope_them() -> None:
    options = StoreOptions({"token": "secret", "https://Host:443/data": {"token": "scoped"}, "a": 1})
    assert "secret" not in repr(options)
    assert options.settings("https://other/data")["token"] == "secret"
    assert options.settings("https://host/data/x") == {"token": "scoped", "a": 1}
    assert options.settings("https://host/database")["token"] == "secret"
    later = options.for_query(deadline=5.0)
    assert later.deadline == 5.0 and options.deadline is None and later.settings("x") == options.settings("x")


@pytest.mark.parametrize("value", ["soon", 0, -1, float("inf"), float("nan"), None])
def test_options_that_are_no_numbers(value: object) -> None:
    assert code_of(lambda: StoreOptions({"timeout": value})) == "QUERY_FAILED"


def test_errors_survive_pickling(tmp_path: Path) -> None:
    with pytest.raises(QueryModeError) as caught:
        open_source(tmp_path / "none")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.code, again.message) == (caught.value.code, caught.value.message)


def test_importing_brings_only_the_standard_library() -> None:
    script = (
        "import sys, querymode.store, querymode.store.fetch, querymode.catalog.buckets; "
        "heavy = {'urllib3', 'boto3', 'botocore', 'numpy', 'typing', 'dataclasses', 'ssl', 'http'}; "
        "print(*sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert done.stdout.split() == []


# ---- patience ----


def test_patience_sleeps_until_its_deadline() -> None:
    started = time.monotonic()
    patience = Patience(started + 0.05)
    with raises_code("QUERY_TIMEOUT"):
        patience.sleep(10)
    assert time.monotonic() - started < 1
    assert patience.limited(5) <= 0.05


def test_patience_is_woken() -> None:
    patience = Patience()
    threading.Timer(0.05, patience.stop).start()
    with pytest.raises(ReadCancelled):
        patience.sleep(10)
    with pytest.raises(ReadCancelled):
        patience.deliver(memoryview(bytearray(1)), b"x")
    flag = threading.Event()
    threading.Timer(0.05, flag.set).start()
    with pytest.raises(ReadCancelled):
        Patience(cancelled=flag.is_set).sleep(10)


def test_stop_waits_for_a_write() -> None:
    patience = Patience()
    order: list[str] = []

    def stop() -> None:
        patience.stop()
        order.append("stopped")

    thread = threading.Thread(target=stop)
    with patience.writing():
        thread.start()
        time.sleep(0.03)
        order.append("written")
    thread.join()
    assert order == ["written", "stopped"]


def test_a_stopped_local_read_writes_nothing(path: Path) -> None:
    patience = Patience()
    patience.stop()
    target = bytearray(10)
    with LocalFile(str(path)) as source, pytest.raises(ReadCancelled):
        source.read_into([(0, memoryview(target))], patience=patience)
    assert not any(target)


def test_sockets_are_no_files(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        assert code_of(lambda: open_source(tmp_path / "s")) == "QUERY_FAILED"
