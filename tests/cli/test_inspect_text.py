"""`querymode inspect` of text files."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from querymode import QueryMode
from querymode.frame.report import report_of
from querymode.table import text as text_module
from tests.cli.test_rows import Capture, fail, run

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 2_000


@pytest.fixture
def csv_path(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    rows = "".join(f'{number};"a;b";2024-01-{number % 28 + 1:02}\n' for number in range(ROWS))
    path.write_text("id;note;day\n" + rows)
    return path


@pytest.fixture
def ndjson_path(tmp_path: Path) -> Path:
    path = tmp_path / "t.ndjson"
    path.write_text("".join(json.dumps({"id": n, "at": {"x": n / 2}}) + "\n" for n in range(ROWS)))
    return path


def inspect(capsys: Capture, *words: object) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(run(capsys, "inspect", "--json", *words))
    return answer


def test_csv(csv_path: Path, capsys: Capture) -> None:
    answer = inspect(capsys, csv_path)
    (file,) = answer["files"]
    (found,) = duckdb.execute(f"SELECT Delimiter, Quote, HasHeader FROM sniff_csv('{csv_path}')").fetchall()
    dialect = file["dialect"]
    assert (dialect["delimiter"], dialect["quote"], dialect["header"]) == found
    assert dialect["escape"] is None and dialect["null_strings"] == []
    types = [
        {"name": "id", "type": "int64"},
        {"name": "note", "type": "utf8"},
        {"name": "day", "type": "date"},
    ]
    assert answer["schema"] == file["schema"] == types
    size = csv_path.stat().st_size
    assert (file["format"], file["compression"], file["size"]) == ("CSV", "NONE", size)
    assert (file["head_size"], file["head_row_count"], file["column_count"]) == (size, ROWS, 3)
    assert file["pieces"] == [{"number": 0, "start": file["rows_start"], "end": size}]
    assert file["rows_start"] == len("id;note;day\n")
    assert answer["row_count"] is None and answer["rows_expected"] == ROWS


def test_ndjson(ndjson_path: Path, capsys: Capture) -> None:
    (file,) = inspect(capsys, ndjson_path)["files"]
    assert (file["format"], file["dialect"], file["rows_start"]) == ("NDJSON", {}, 0)
    assert [column["type"] for column in file["schema"]] == ["int64", "struct<x: float64>"]
    lines = run(capsys, "inspect", ndjson_path).splitlines()
    assert lines[:3] == [str(ndjson_path), "format      NDJSON", f"size        {file['size']:,} bytes"]
    assert not any(line.startswith("dialect") for line in lines)


def test_text(csv_path: Path, capsys: Capture) -> None:
    size = csv_path.stat().st_size
    lines = run(capsys, "inspect", csv_path).splitlines()
    assert lines[0] == str(csv_path)
    assert "dialect     delimiter ';', quote '\"', names in the first row" in lines
    assert f"looked at   {ROWS:,} rows in the first {size:,} bytes" in lines
    assert "day     date" in lines
    assert lines[-1].split() == ["0", "12", f"{size:,}"]


def test_pieces(csv_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """They follow each other, and many of them are cut."""
    monkeypatch.setattr(text_module, "LANE_SIZE", 500)
    (file,) = inspect(capsys, csv_path)["files"]
    starts, ends = ([piece[key] for piece in file["pieces"]] for key in ("start", "end"))
    assert len(starts) > 50
    assert [*starts[1:], file["size"]] == ends and starts[0] == file["rows_start"]
    text = run(capsys, "inspect", csv_path)
    assert text.endswith(f"… {len(starts) - 40:,} more; --json has all\n")


def test_packed_files(csv_path: Path, capsys: Capture) -> None:
    path = csv_path.with_name("t.csv.gz")
    path.write_bytes(gzip.compress(csv_path.read_bytes()))
    (file,) = inspect(capsys, path)["files"]
    assert file["compression"] == "GZIP" and file["dialect"]["delimiter"] == ";"
    assert file["pieces"] == [{"number": 0, "start": 12, "end": None}]
    text = run(capsys, "inspect", path)
    assert "format      CSV, packed with GZIP\n" in text and "(unknown)" in text


def test_files_without_rows(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "empty.csv"
    path.write_text("id,note\n")
    answer = inspect(capsys, path)
    assert answer["rows_expected"] == 0 and answer["files"][0]["head_row_count"] == 0
    run(capsys, "inspect", path)


def test_several_files(csv_path: Path, capsys: Capture) -> None:
    other = csv_path.with_name("u.csv")
    other.write_text("id,more\n1.5,x\n")
    answer = inspect(capsys, csv_path, other)
    assert [file["dialect"]["delimiter"] for file in answer["files"]] == [";", ","]
    assert [column["name"] for column in answer["schema"]] == ["id", "note", "day", "more"]
    assert answer["schema"][0]["type"] == "float64"
    text = run(capsys, "inspect", csv_path, other)
    assert text.startswith(f"2 files, about {ROWS + 1:,} rows\n")
    assert f"{other}" in text and "delimiter ';'" in text


def test_picks(csv_path: Path, capsys: Capture) -> None:
    (file,) = inspect(capsys, "--column", "day", csv_path)["files"]
    assert file["schema"] == [{"name": "day", "type": "date"}]
    assert "note" not in run(capsys, "inspect", "--column", "day", csv_path)
    message = fail(capsys, "inspect", "--column", "dya", csv_path)
    assert message.startswith("COLUMN_NOT_FOUND: ") and "'day'" in message
    for words in (("--row-group", 0), ("--pages",)):
        assert fail(capsys, "inspect", *words, csv_path).startswith("NOT_SUPPORTED: text files have no row")


def test_what_somebody_said_is_told(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("NA|'x'\n1|-\n")
    options: dict[str, Any] = {
        "delimiter": "|",
        "quote": "'",
        "escape": "\\",
        "header": False,
        "null_strings": ["NA", "-"],
    }
    report = report_of(QueryMode.local().table(path, **options))
    assert next(report.files()).dialect() == options
