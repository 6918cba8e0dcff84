"""`querymode "SELECT …"`: what it writes where, and that it reads no more than it shows."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import suppress
from io import BufferedWriter, RawIOBase, TextIOWrapper
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querymode import QueryMode
from querymode.cli import main
from querymode.cli.query import _ENDINGS, FORMATS
from querymode.output import answer_table as query_table
from tests.cli.terminal import run_in_terminal

ROWS = 200_000


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty row groups whose bytes do not compress away."""
    path = tmp_path_factory.mktemp("query") / "large.parquet"
    texts = [f"{row * 2654435761 % 4294967296:x}" for row in range(ROWS)]
    pq.write_table(pa.table({"id": range(ROWS), "text": texts}), path, row_group_size=ROWS // 40)
    return path


def child(*words: str, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "querymode", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


# ---- texts ----


def test_explain_is_printed_as_it_is(large: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sql = f"SELECT id FROM '{large}' WHERE id < 5"
    assert main([f"EXPLAIN {sql}"]) == 0
    assert capsys.readouterr().out.rstrip("\n") == QueryMode.local().sql(sql).explain()


def test_columns_that_are_called_as_those_of_explain_are_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["SELECT 'a' AS explain_key, 'b' AS explain_value"]) == 0
    title = capsys.readouterr().out.splitlines()[0]
    assert title.split() == ["explain_key", "explain_value"]


# ---- files ----


@pytest.mark.parametrize("name", ["x.xlsx", "x", "x.csv.gz", ".csv", "x.parquet ", "x."])
def test_an_unknown_ending_is_refused_before_anything_runs(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / name
    assert main(["-o", str(target), "SELECT no such thing"]) == 2
    said = capsys.readouterr().err
    assert all(ending in said for ending in _ENDINGS) and all(format in said for format in FORMATS)
    assert not list(tmp_path.iterdir())
    assert main(["-o", str(target), "--format", "csv", "SELECT 1 AS a"]) == 0
    assert target.read_text() == '"a"\n1\n'


@pytest.mark.parametrize(
    ("ending", "content"),
    [
        (".csv", '"a","b"\n1,"x\ty"\n'),
        (".tsv", '"a"\t"b"\n1\t"x\ty"\n'),
        (".TSV", '"a"\t"b"\n1\t"x\ty"\n'),
        (".txt", "a  b\n-  ----\n1  x\\ty\n"),
        (".md", "| a | b |\n| ---: | --- |\n| 1 | x\\\\ty |\n"),
        (".json", '[{"a": 1, "b": "x\\ty"}]\n'),
        (".jsonl", '{"a": 1, "b": "x\\ty"}\n'),
        (".ndjson", '{"a": 1, "b": "x\\ty"}\n'),
    ],
)
def test_endings(ending: str, content: str, tmp_path: Path) -> None:
    target = tmp_path / f"answer{ending}"
    assert main(["-o", str(target), "SELECT 1 AS a, 'x\ty' AS b"]) == 0
    assert target.read_text() == content


def test_endings_of_binary_formats(tmp_path: Path) -> None:
    for ending in (".parquet", ".arrow", ".feather"):
        assert main(["-o", str(tmp_path / f"a{ending}"), "SELECT 1 AS a"]) == 0
    assert pq.read_table(tmp_path / "a.parquet").to_pylist() == [{"a": 1}]
    for ending in (".arrow", ".feather"):
        with pa.ipc.open_file(str(tmp_path / f"a{ending}")) as reader:
            assert reader.read_all().to_pylist() == [{"a": 1}]


def test_a_device_is_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import os

    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    assert main(["-o", str(pipe), "SELECT 1 AS a"]) == 1
    assert "device, pipe or socket" in capsys.readouterr().err
    assert pipe.is_fifo()


# ---- pipes ----


class Reader(RawIOBase):
    """Goes away after some bytes, as `head` does."""

    def __init__(self, size: int) -> None:
        self.left = size

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.left -= len(data)
        if self.left < 0:
            raise BrokenPipeError
        return len(data)


def test_a_reader_that_has_seen_enough_ends_the_formatting(
    large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells: list[str] = []

    def to_text(value: object) -> str:
        cells.append(str(value))
        return cells[-1]

    monkeypatch.setattr(query_table, "to_text", to_text)
    output = TextIOWrapper(BufferedWriter(Reader(20_000)))
    monkeypatch.setattr(sys, "stdout", output)
    assert main([f"SELECT * FROM '{large}'"]) == 0
    assert 0 < len(cells) < ROWS / 10
    with suppress(BrokenPipeError):
        output.close()


@pytest.mark.parametrize("format", ["table", "csv", "ndjson"])
def test_the_first_lines_come_before_the_last_are_known(format: str, large: Path) -> None:
    process = child("--format", format, f"SELECT * FROM '{large}'")
    assert process.stdout is not None and process.stderr is not None
    lines = [process.stdout.readline() for _ in range(3)]
    process.stdout.close()
    assert process.wait(60) == 0
    assert all(lines) and process.stderr.read() == ""


def test_columns_are_as_wide_as_the_first_rows_need(capsys: pytest.CaptureFixture[str]) -> None:
    frame = QueryMode.from_json([{"n": 1, "t": "ab"}] * 3000 + [{"n": 12345, "t": "abcdef"}])
    query_table.print_answer(frame)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["n  t", "-  --", "1  ab"]
    assert (len(lines), lines[-2:]) == (3003, ["1  ab", "12345  abcdef"])


def test_ctrl_c_while_nobody_reads(large: Path) -> None:
    process = child(f"SELECT * FROM '{large}'")
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()  # and now the pipe fills
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    assert process.stderr.read() == ""


# ---- terminals ----


def test_a_terminal_shows_the_first_rows_of_many(large: Path) -> None:
    status, text = run_in_terminal(f"SELECT * FROM '{large}'", columns=80)
    assert status == 0
    assert "│ 39 │" in " ".join(text.split()) and "│ 40 │" not in " ".join(text.split())
    assert text.endswith("200,000 rows, the first 40 of them shown\n")
    _, text = run_in_terminal(f"SELECT * FROM '{large}' WHERE id % 2 = 1", columns=80)
    assert text.endswith("more than 40 rows, the first 40 of them shown\n")


def test_a_terminal_shows_both_ends_of_what_comes_whole(large: Path) -> None:
    text = run_in_terminal(f"SELECT id FROM '{large}' WHERE id < 2000 ORDER BY id DESC", columns=80)[1]
    assert "│ 1999 │" in text and "│    0 │" in text
    assert text.endswith("2,000 rows, 40 of them shown\n")
    text = run_in_terminal(f"SELECT id, count(*) AS n FROM '{large}' GROUP BY id ORDER BY id", columns=80)[1]
    assert text.endswith("more than 10,000 rows, the first 40 of them shown\n")
    text = run_in_terminal(f"SELECT id FROM '{large}' WHERE id < 40", columns=80)[1]
    assert text.endswith("\n40 rows\n")


def test_a_preview_stops_reading(
    large: Path, reads: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_table, "is_terminal", lambda: True)
    assert main([f"SELECT * FROM '{large}'"]) == 0
    assert 0 < sum(size for _, size in reads) < large.stat().st_size / 4


def test_a_preview_counts_the_rows_that_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not those that the file had when the query was made."""
    monkeypatch.setattr(query_table, "is_terminal", lambda: True)
    pq.write_table(pa.table({"id": range(100)}), tmp_path / "t.parquet")
    frame = QueryMode.local().table(tmp_path / "t.parquet")
    pq.write_table(pa.table({"id": range(1000, 1700)}), tmp_path / "new.parquet")
    (tmp_path / "new.parquet").replace(tmp_path / "t.parquet")
    query_table.print_answer(frame)
    text = capsys.readouterr().out
    assert "│ 1000 │" in text
    assert text.endswith("700 rows, the first 40 of them shown\n")
