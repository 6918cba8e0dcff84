"""`querymode head` and `querymode count`, and how the command line ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querymode.cli import main
from querymode.output.cells import to_json, to_text
from querymode.output.text_table import display_width
from querymode.qmcb import Interval
from tests.cli.conftest import ROW_COUNT, sample
from tests.cli.terminal import run_in_terminal
from tests.unit.range_server import RangeServer

Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *words: object) -> str:
    status = main([str(word) for word in words])
    captured = capsys.readouterr()
    assert (status, captured.err) == (0, "")
    return captured.out


def fail(capsys: Capture, *words: object) -> str:
    """The one line of an error."""
    assert main([str(word) for word in words]) == 1
    error = capsys.readouterr().err
    assert error.endswith("\n") and error.count("\n") == 1
    return error.strip()


# ---- count ----


def test_count(sample_path: Path, capsys: Capture) -> None:
    assert run(capsys, "count", sample_path) == f"{ROW_COUNT}\n"
    assert json.loads(run(capsys, "count", "--json", sample_path)) == {"row_count": ROW_COUNT}
    assert run(capsys, "count", sample_path, sample_path) == f"{2 * ROW_COUNT}\n"
    assert run(capsys, "count", sample_path.parent / "*.parquet") == f"{ROW_COUNT}\n"
    assert run(capsys, "count", sample_path.parent) == f"{ROW_COUNT}\n"


def test_count_reads_the_footer_only(tmp_path: Path, capsys: Capture, reads: list[tuple[int, int]]) -> None:
    path = tmp_path / "large.parquet"
    pq.write_table(pa.table({"x": np.random.default_rng(1).random(200_000)}), path, use_dictionary=False)
    time.sleep(0.05)  # of a file that is still being written, it is read again
    assert run(capsys, "count", path) == "200000\n"
    assert sum(size for _, size in reads) <= 64 << 10 < path.stat().st_size


# ---- head ----


def test_head_is_aligned_text(capsys: Capture, sample_path: Path) -> None:
    lines = run(capsys, "head", "-n", 3, "--column", "id", "--column", "name", sample_path).splitlines()
    assert lines == ["id  name", "--  ------", " 0  NULL", " 1  name-1", " 2  name-2"]
    assert len(run(capsys, "head", sample_path).splitlines()) == 12
    assert len(run(capsys, "head", "-n", 0, sample_path).splitlines()) == 2


def test_head_as_json_has_the_rows(capsys: Capture, sample_path: Path) -> None:
    rows = json.loads(run(capsys, "head", "-n", 20, "--json", sample_path))
    expected = sample().slice(0, 20).to_pylist()
    for row in expected:
        row["pairs"] = dict(row["pairs"])
    assert rows == [to_json(row) for row in expected]
    assert json.loads(run(capsys, "head", "-n", 0, "--json", sample_path)) == []


def test_head_of_a_large_file_reads_little(
    tmp_path: Path, capsys: Capture, reads: list[tuple[int, int]]
) -> None:
    path = tmp_path / "large.parquet"
    random = np.random.default_rng(2)
    table = pa.table({"a": random.random(1_000_000), "b": random.random(1_000_000)})
    pq.write_table(table, path, use_dictionary=False, row_group_size=250_000, data_page_size=64 << 10)
    first = table.slice(0, 2).to_pylist()
    assert json.loads(run(capsys, "head", "-n", 2, "--json", path)) == first
    assert sum(size for _, size in reads) < path.stat().st_size / 16


def test_head_through_http(capsys: Capture, server: RangeServer, sample_path: Path) -> None:
    server.data = sample_path.read_bytes()
    local = run(capsys, "head", "--json", sample_path)
    assert run(capsys, "head", "--json", server.url("/x.parquet")) == local


def test_names_that_repeat(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "twice.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["x", "x"]), path)
    assert run(capsys, "head", path).splitlines() == ["x  x", "-  -", "1  2"]


def test_long_values_are_cut_but_not_in_json(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "long.parquet"
    pq.write_table(pa.table({"x": ["y" * 1000]}), path)
    cell = run(capsys, "head", path).splitlines()[2]
    assert len(cell) == 200 and cell.endswith("y…")
    assert json.loads(run(capsys, "head", "--json", path)) == [{"x": "y" * 1000}]


def test_values_cannot_command_a_terminal(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "evil.parquet"
    pq.write_table(pa.table({"a\x1b[2J": ["\x1b]0;gone\x07\n"]}), path)
    for command in ("head", "inspect"):
        text = run(capsys, command, path)
        assert "\x1b" not in text and "\x07" not in text and r"\x1b" in text


def test_values_as_text_and_json() -> None:
    assert to_json([float("nan"), float("-inf"), b"\0\xff"]) == ["NaN", "-Infinity", "00ff"]
    assert to_json({1: Interval(1, 2, 3)}) == {"1": {"months": 1, "days": 2, "nanoseconds": 3}}
    assert to_json(Interval(1, 2, 3)) == {"months": 1, "days": 2, "nanoseconds": 3}
    assert [to_text(value) for value in (None, True, 1.5, b"\1", ["a", None], "ü\n")] == [
        *("NULL", "true", "1.5", "0x01", '["a", null]', "ü\\n")
    ]
    assert [display_width(text) for text in ("ab", "日本", "e\u0301")] == [2, 4, 1]


def test_a_terminal_gets_as_many_columns_as_fit(sample_path: Path) -> None:
    status, text = run_in_terminal("head", "-n", "2", str(sample_path), columns=60)
    assert status == 0
    assert "┃ id ┃ name" in text and "nothing" not in text
    assert f"2 of {ROW_COUNT:,} rows" in text and "more columns; --column NAME" in text
    assert max(map(len, text.splitlines())) <= 60


# ---- how it ends ----


def test_wrong_arguments_are_two(capsys: Capture) -> None:
    for words in (["head"], ["head", "-n", "-1", "x"], ["head", "-n", "x", "x"], ["count", "--nope", "x"]):
        assert main(words) == 2
        captured = capsys.readouterr()
        assert captured.out == "" and captured.err.startswith("usage: querymode")


def test_help_of_a_command(capsys: Capture) -> None:
    for command in ("head", "count", "inspect"):
        assert run(capsys, command, "--help").startswith(f"usage: querymode {command}")


def test_failures_are_one_line(tmp_path: Path, capsys: Capture, sample_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"no parquet at all\n" * 9)
    assert fail(capsys, "count", tmp_path / "none.parquet").startswith("TABLE_NOT_FOUND: ")
    assert fail(capsys, "count", tmp_path / "x.parquet").startswith("NOT_SUPPORTED: ")
    assert fail(capsys, "head", "--column", "nam", sample_path).startswith("COLUMN_NOT_FOUND: ")


def test_a_fault_of_ours_is_one_line_too(
    capsys: Capture, sample_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("one\ntwo")

    monkeypatch.setattr("querymode.cli.rows.run_count", broken)
    assert fail(capsys, "count", sample_path).startswith("INTERNAL: ZeroDivisionError: one two")


def start(*words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "querymode", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_a_reader_that_has_seen_enough(sample_path: Path) -> None:
    for words in (["head", "-n", "3000", str(sample_path)], ["count", str(sample_path)]):
        process = start(*words)
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


def test_a_full_disk(sample_path: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    with open("/dev/full", "wb") as full:
        words = [sys.executable, "-m", "querymode", "count", str(sample_path)]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith(b"QUERY_FAILED: ") and done.stderr.count(b"\n") == 1


def test_control_c_is_130() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = start("head", f"http://127.0.0.1:{listener.getsockname()[1]}/x.parquet")
        connection, _ = listener.accept()  # and never an answer
        with connection:
            connection.recv(1)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"")


def test_only_what_is_needed_is_imported(sample_path: Path) -> None:
    code = (
        "import sys; from querymode.cli import main\n"
        f"assert main(['head', {str(sample_path)!r}]) == main(['inspect', {str(sample_path)!r}]) == 0\n"
        "large = {'numpy', 'pyarrow', 'pandas', 'rich', 'boto3', 'urllib3'}\n"
        "print(*large & sys.modules.keys(), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "\n")
