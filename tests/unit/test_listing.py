"""Folders and patterns that would never end: circles, too many readings, too many parts, whole disks."""

from __future__ import annotations

import itertools
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querymode import QueryMode, QueryModeError
from querymode.catalog import disk as local


def write(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"x": [1]}), path)
    return path


def files(root: Path, where: str) -> list[str]:
    table: Any = QueryMode.local(root=root).table(where)._node
    return sorted(os.path.relpath(file.name, root) for file in table.source.files)


def failure(call: Callable[[], object]) -> QueryModeError:
    with pytest.raises(QueryModeError) as caught:
        call()
    assert len(str(caught.value)) < 5000
    return caught.value


# ---- links ----


@pytest.fixture
def circles(tmp_path: Path) -> Path:
    """Links to itself, to where it lies, to its parent, to each other, and to nothing but themselves."""
    write(tmp_path / "t" / "a.parquet")
    write(tmp_path / "t" / "deep" / "b.parquet")
    (tmp_path / "t" / "here").symlink_to(".")
    (tmp_path / "t" / "deep" / "up").symlink_to("..")
    (tmp_path / "t" / "deep" / "twin").symlink_to("../deep")
    (tmp_path / "t" / "self").symlink_to("self")
    (tmp_path / "t" / "self.parquet").symlink_to("self.parquet")
    write(tmp_path / "other" / "c.parquet")
    (tmp_path / "other" / "back").symlink_to("../t")
    (tmp_path / "t" / "other").symlink_to("../other")
    return tmp_path


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("t", ["t/a.parquet", "t/deep/b.parquet", "t/other/c.parquet"]),
        ("t/**/*.parquet", ["t/a.parquet", "t/deep/b.parquet"]),
        ("t/**", ["t/a.parquet", "t/deep/b.parquet"]),
        ("t/*.parquet", ["t/a.parquet"]),
        ("t/*/*.parquet", ["t/deep/b.parquet", "t/other/c.parquet"]),
        ("*/*/*.parquet", ["other/back/a.parquet", "t/deep/b.parquet", "t/other/c.parquet"]),
        ("t/*/*/*/*/*.parquet", None),
        ("t/here/here/*.parquet", ["t/here/here/a.parquet"]),
        ("t/d*/../a.parquet", ["t/deep/../a.parquet"]),
    ],
)
def test_circles_of_links(circles: Path, where: str, found: list[str] | None) -> None:
    if found is None:
        assert failure(lambda: files(circles, where)).code == "TABLE_NOT_FOUND"
    else:
        table: Any = QueryMode.local(root=circles).table(where)._node
        assert sorted(str(file.name)[len(str(circles)) + 1 :] for file in table.source.files) == found


def test_folders_that_all_link_to_each_other_are_walked_once(tmp_path: Path) -> None:
    names = [f"d{number}" for number in range(12)]
    for name in names:
        write(tmp_path / name / "a.parquet")
    for one, other in itertools.permutations(names, 2):
        (tmp_path / one / f"to_{other}").symlink_to(f"../{other}")
    assert files(tmp_path, ".") == [f"{name}/a.parquet" for name in sorted(names)]
    assert len(files(tmp_path, "d0")) == 12


def test_a_partition_may_be_a_link(tmp_path: Path) -> None:
    write(tmp_path / "t" / "k=1" / "a.parquet")
    (tmp_path / "t" / "k=2").symlink_to("k=1")
    assert sorted(QueryMode.local(root=tmp_path).table("t").rows, key=str) == [
        {"x": 1, "k": "1"},
        {"x": 1, "k": "2"},
    ]


# ---- patterns ----


def test_readings_of_a_pattern_are_not_tried_one_by_one(tmp_path: Path) -> None:
    folder = tmp_path
    for _ in range(14):
        folder = folder / "a"
    write(folder / "x.parquet")
    for number in range(6):
        (tmp_path / f"b{number}").mkdir()
    begun = time.process_time()
    assert len(files(tmp_path, "**/a/" * 10 + "*.parquet")) == 1
    assert len(files(tmp_path, "**/*/" * 10 + "*.parquet")) == 1
    failure(lambda: files(tmp_path, "**/*/" * 100 + "*.parquet"))
    failure(lambda: files(tmp_path, "b*/../" * 50 + "*.parquet"))
    assert time.process_time() - begun < 2


LONG = {
    "parts": "a/" * 500_000,
    "parents": "../" * 500_000,
    "slashes": "/" * 500_000,
    "stars": "*/" * 100_000,
    "depths": "**/a/" * 100_000,
    "sets": "[" * 500_000,
    "open sets": "[a-" * 200_000,
    "letters": "a" * 10_000_000,
    "url": "file://" + "/a" * 500_000,
    "escapes": "file:///" + "%2e%2e/" * 100_000,
    "home": "~" + "/a" * 500_000,
    "many sets": "[a]" * 1300,
    "many stars": "*a" * 2000,
}


@pytest.mark.parametrize("kind", LONG)
def test_long_paths_are_refused_at_once(kind: str, tmp_path: Path) -> None:
    path = LONG[kind]
    qm = QueryMode.local(root=tmp_path)
    write(tmp_path / ("a" * 200 + ".parquet"))
    begun = time.process_time()
    assert failure(lambda: qm.table(path)).code == "TABLE_NOT_FOUND"
    failure(lambda: qm.table(["x.parquet", path]))
    failure(lambda: qm.register("x", path))
    failure(lambda: qm.sql(f"SELECT * FROM '{path}'"))
    failure(lambda: QueryMode.local(root=path).table("x.parquet"))
    failure(lambda: QueryMode.local(allowed_paths=[path]).table("x.parquet"))
    failure(lambda: QueryMode.local(allowed_paths=[tmp_path]).table(path))
    failure(lambda: qm.from_json([{"a": 1}]).write_csv(f"{path}/x.csv"))
    assert time.process_time() - begun < 4


@pytest.mark.parametrize("path", ["a\0b", "a\udc80\ud800", "file:///a%00b", "\0"])
def test_names_that_no_file_has(path: str, tmp_path: Path) -> None:
    for call in (
        lambda: QueryMode.local(root=tmp_path).table(path),
        lambda: QueryMode.local(root=tmp_path).table(path + "*"),
        lambda: QueryMode.local(root=path).table("x"),
        lambda: QueryMode.local(allowed_paths=[path]).table("x"),
    ):
        assert failure(call).code == "TABLE_NOT_FOUND"


def test_what_is_not_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.parquet")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket.parquet"))
        (tmp_path / "folder.parquet").mkdir()
        for where in ("pipe.parquet", "socket.parquet", "folder.parquet", "/dev/zero", "/dev/null", "."):
            assert failure(lambda: files(tmp_path, where)).code in ("QUERY_FAILED", "TABLE_NOT_FOUND")  # noqa: B023
    if os.path.exists("/proc/self/maps"):
        assert failure(lambda: files(tmp_path, "/proc/self/maps")).code in ("INVALID_FORMAT", "NOT_SUPPORTED")


# ---- whole disks ----


def test_the_file_system_is_not_a_table() -> None:
    for where in ("/", "//", "/.", "/tmp/..", "file:///"):
        assert "whole file system" in failure(lambda: QueryMode.local().table(where)).message  # noqa: B023


def test_a_walk_ends_where_nothing_is_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_ENTRIES_WITHOUT_DATA", 100)
    for number in range(60):
        folder = tmp_path / "home" / f"f{number}"
        folder.mkdir(parents=True)
        (folder / "notes.md").write_text("")
        (folder / "program").write_text("#!/bin/sh\n" * 3)
    found = failure(lambda: files(tmp_path, "home"))
    assert found.code == "TABLE_NOT_FOUND" and "/**/*.parquet" in found.message
    (tmp_path / "link").symlink_to("home")
    assert failure(lambda: files(tmp_path, "link")).code == "TABLE_NOT_FOUND"
    write(tmp_path / "home" / "a.parquet")
    assert files(tmp_path, "home") == ["home/a.parquet"]
    bare = [write(tmp_path / "bare" / f"part{number:03}") for number in range(200)]
    assert len(files(tmp_path, "bare")) == len(bare)


@pytest.mark.parametrize("where", ["*.parquet", ".", "**/*.parquet"])
def test_listing_and_opening_end_with_the_timeout(tmp_path: Path, where: str) -> None:
    body = write(tmp_path / "0.parquet").read_bytes()
    for number in range(1, 4000):
        (tmp_path / f"{number}.parquet").write_bytes(body)
    begun = time.monotonic()
    assert failure(lambda: QueryMode.local(root=tmp_path, timeout=0.01).table(where)).code == "QUERY_TIMEOUT"
    assert time.monotonic() - begun < 1
    assert QueryMode.local(root=tmp_path).table(where).count() == 4000
