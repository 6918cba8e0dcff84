"""Files that are written in place while they are read, with their times put back: rows of one version."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from querymode import QueryMode, QueryModeError, col
from querymode.format.parquet.report import FileReport
from querymode.frame.frame import DataFrame
from querymode.store.local import SETTLED_NS, LocalFile, is_settled
from querymode.store.open import open_source
from querymode.store.source import Patience

GROUPS, GROUP_ROWS = 8, 20_000
ROWS = GROUPS * GROUP_ROWS


def content(value: int, *, statistics: bool = False) -> bytes:
    """All rows have the value. Without statistics, footers and sizes are the same whatever it is."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.table({"x": pa.array([value] * ROWS, pa.int64())}),
        sink,
        row_group_size=GROUP_ROWS,
        compression="none",
        use_dictionary=False,
        write_statistics=statistics,
    )
    return sink.getvalue().to_pybytes()


VERSIONS = [content(1), content(2)]


def rewrite(path: Path, data: bytes) -> None:
    """As `rsync --inplace -t` and `cp -p` do."""
    before = path.stat()
    with open(path, "r+b") as file:
        file.write(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns, after.st_ino) == (
        before.st_size,
        before.st_mtime_ns,
        before.st_ino,
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "x.parquet"
    made.write_bytes(VERSIONS[0])
    while not is_settled(open_source(made)):
        time.sleep(0.002)
    return made


@pytest.fixture
def during_reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[int]]]:
    """Does something after the third read of a scan: of the first scan, or of every one."""
    original = LocalFile.read_into
    reads: dict[LocalFile, int] = {}
    done: list[int] = []

    def arrange(action: Callable[[], object], times: int = 1) -> list[int]:
        def read_into(
            self: LocalFile,
            ranges: Sequence[tuple[int, memoryview]],
            *,
            patience: Patience | None = None,
        ) -> None:
            original(self, ranges, patience=patience)
            reads[self] = reads.get(self, 0) + 1
            if reads[self] == 3 and len(done) < times:
                done.append(1)
                action()

        monkeypatch.setattr(LocalFile, "read_into", read_into)
        return done

    yield arrange


def total(frame: DataFrame) -> object:
    return frame.agg(col("x").sum().alias("s")).rows[0]["s"]


def failure(call: Callable[[], object]) -> QueryModeError:
    with pytest.raises(QueryModeError) as caught:
        call()
    return caught.value


def test_one_change_is_read_over(path: Path, during_reads: Callable[..., list[int]]) -> None:
    frame = QueryMode.local(threads=1).table(path)
    done = during_reads(lambda: rewrite(path, VERSIONS[1]))
    assert total(frame) == 2 * ROWS
    assert done == [1]


@pytest.mark.parametrize("how", ["collect", "arrow", "sort", "write", "analyze"])
def test_every_way_out(path: Path, during_reads: Callable[..., list[int]], how: str, tmp_path: Path) -> None:
    frame = QueryMode.local(threads=1).table(path)
    during_reads(lambda: rewrite(path, VERSIONS[1]))
    if how == "collect":
        assert {row["x"] for row in frame.collect().rows} == {2}
    elif how == "arrow":
        assert pc.unique(frame.to_arrow()["x"]).to_pylist() == [2]
    elif how == "sort":  # of a stream: nothing is handed out before all is read
        batches = list(frame.sort("x").stream())
        assert {value for batch in batches for value in pc.unique(batch["x"]).to_pylist()} == {2}
    elif how == "write":
        assert frame.write_parquet(tmp_path / "copy.parquet") == ROWS
        assert pc.unique(pq.read_table(tmp_path / "copy.parquet")["x"]).to_pylist() == [2]
    else:
        assert f"{ROWS:,} rows" in frame.filter("x", "gt", 0).explain(analyze=True)


def test_a_file_that_goes_on_changing(path: Path, during_reads: Callable[..., list[int]]) -> None:
    frame = QueryMode.local(threads=1).table(path)
    turn = iter([1, 0, 1, 0])
    during_reads(lambda: rewrite(path, VERSIONS[next(turn)]), times=2)
    problem = failure(lambda: total(frame))
    assert (problem.code, "changed while it was read" in problem.message) == ("QUERY_FAILED", True)
    assert total(frame) == ROWS


def test_permissions_and_links_fail_nothing(path: Path, during_reads: Callable[..., list[int]]) -> None:
    frame = QueryMode.local(threads=1).table(path)

    def touch() -> None:
        path.chmod(0o640)
        os.link(path, path.with_name("other"))

    done = during_reads(touch)
    assert total(frame) == ROWS
    assert done == [1]


def test_a_removed_file_is_read_to_its_end(path: Path, during_reads: Callable[..., list[int]]) -> None:
    frame = QueryMode.local(threads=1).table(path)
    during_reads(path.unlink)
    assert total(frame) == ROWS


def test_rows_that_were_handed_out(path: Path) -> None:
    frame = QueryMode.local(threads=1, memory="64MiB").table(path)
    stream = frame.stream(1000)
    assert next(stream)["x"][0].as_py() == 1
    rewrite(path, VERSIONS[1])
    problem = failure(lambda: list(stream))
    assert (problem.code, "changed while it was read" in problem.message) == ("QUERY_FAILED", True)


def test_another_footer(path: Path, during_reads: Callable[..., list[int]]) -> None:
    path.write_bytes(content(1, statistics=True))
    frame = QueryMode.local(threads=1).table(path)
    during_reads(lambda: rewrite(path, content(2, statistics=True)))
    problem = failure(lambda: total(frame))
    assert (problem.code, "changed while it was read" in problem.message) == ("QUERY_FAILED", True)
    assert total(frame) == 2 * ROWS


def test_what_looks_damaged_was_changed(path: Path, during_reads: Callable[..., list[int]]) -> None:
    """Halfway through writing, pages are not pages."""
    frame = QueryMode.local(threads=1).table(path)
    garbled = b"PAR1" + b"\xff" * (len(VERSIONS[0]) - 70_004) + VERSIONS[0][-70_000:]

    def write() -> None:
        rewrite(path, garbled)
        os.utime(path)

    done = during_reads(write)
    problem = failure(lambda: total(frame))
    assert (problem.code, "changed while it was read" in problem.message) == ("QUERY_FAILED", True)
    assert done == [1]


@pytest.mark.parametrize("settled", [True, False])
def test_a_change_between_opening_and_the_scan(path: Path, settled: bool) -> None:
    """Also of what opening brought along: the end of the data, before the footer."""
    if not settled:
        path.write_bytes(VERSIONS[0])
    frame = QueryMode.local().table(path)
    rewrite(path, VERSIONS[1])
    assert total(frame) == 2 * ROWS


def test_pages(path: Path, during_reads: Callable[..., list[int]]) -> None:
    frame = QueryMode.local(threads=1).table(path)
    report = FileReport(frame._node.source.files[0])  # type: ignore[attr-defined]
    expected = report.pages(0, 0)
    path.chmod(0o600)
    assert report.pages(0, 0) == expected


def test_a_write_may_still_be_under_way(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times move when a write begins, not while it goes on: of a file that was written just now nothing is
    read until the write is likely to be over."""
    path.write_bytes(VERSIONS[1])
    frame = QueryMode.local().table(path)
    read_into = LocalFile.read_into
    ages: list[int] = []

    def read(self: LocalFile, ranges: Sequence[tuple[int, memoryview]], **options: Any) -> None:
        ages.append(time.time_ns() - path.stat().st_ctime_ns)
        read_into(self, ranges, **options)

    monkeypatch.setattr(LocalFile, "read_into", read)
    assert total(frame) == 2 * ROWS
    assert ages and min(ages) >= SETTLED_NS


@pytest.mark.parametrize("threads", [1, 2])
def test_a_writer_that_does_not_rest(path: Path, threads: int) -> None:
    frame = QueryMode.local(threads=threads).table(path)
    ended = threading.Event()

    def write() -> None:
        number = 0
        while not ended.is_set():
            number += 1
            rewrite(path, VERSIONS[number % 2])
            ended.wait(0.002 * (number % 5))

    writer = threading.Thread(target=write)
    writer.start()
    answers: list[object] = []
    try:
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            try:
                answers.append(total(frame))
            except QueryModeError as problem:
                assert problem.code == "QUERY_FAILED" and "changed" in problem.message
                answers.append("changed")
    finally:
        ended.set()
        writer.join()
    print({answer: answers.count(answer) for answer in set(answers)})
    assert set(answers) <= {ROWS, 2 * ROWS, "changed"}
    assert total(frame) in (ROWS, 2 * ROWS)
